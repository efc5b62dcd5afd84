//! Databases with jobs that go to control planes and workers of this process.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by ending")]
#![expect(clippy::disallowed_methods, reason = "tests say their seeds, and take others from the environment")]

mod scene; // a database, a control plane, workers
mod runs; // jobs go there and come back
mod storms; // workers and control planes come and go
mod refusals; // wrong tokens, other versions, operators that no worker has
mod filters; // filters that no worker has
mod urgency; // how soon writers stop
mod reports; // what a database reports of its jobs
mod authority; // certificates
mod tls; // encrypted connections
mod renewal; // certificates that change while all processes run
mod crowds; // too many connections
mod second; // what is promised within a second
mod cancel; // a cancelled job leaves its worker soon
mod panics; // a job that panics
mod hanging; // a backend with requests that do not end for now
mod hangs; // jobs that hang in such a backend
mod divided; // one compaction of several workers, of which one is lost
mod two_planes; // a worker of two control planes
mod two_names; // and of a control plane that has two names there
mod preempted; // and of a control plane with L0 work that comes before its deep work
mod damaged; // a file that is not what it was
mod read_back; // a backend that keeps something else than was written
mod given_up; // jobs that a database took for lost
mod silent; // a control plane that is gone, to its workers
mod woken; // and a control plane that stands still, to a database with news
mod slow_sync; // a device that takes its time
mod attempts; // what databases hear of attempts at their jobs
mod skew; // other builds
mod unheard; // answers that no worker hears
mod scoped; // what a worker may touch
mod content; // a database by workers, and one by itself
#[expect(dead_code, reason = "the tests of jobs ask it for more")]
#[path = "../../../jobs/tests/it/world.rs"]
mod world; // random histories, as tables
#[expect(dead_code, reason = "the tests of jobs ask it for more")]
#[path = "../../../jobs/tests/it/segments.rs"]
mod segments; // random blob segments
#[expect(dead_code, reason = "workers elsewhere write over nothing, which its own check asks for")]
#[path = "../../../jobs/tests/it/same_bytes.rs"]
mod same_bytes; // GCs by an executor and here
mod bytes; // outputs of workers, and those made here
mod faults; // that real use found
