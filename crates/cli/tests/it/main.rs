//! The real program, called as a person calls it.

#![expect(clippy::disallowed_methods, reason = "the program runs in real time, and tests say their seeds")]

mod program;
mod hosts; // that servers have for themselves
mod rounds; // what is written, and what must be found
mod usage;
mod config;
mod inspect;
mod copy;
mod hashed; // databases of the hashed engine
mod verify;
mod bench;
mod beyond_memory;
mod records;
mod large_values;
mod serve;
#[expect(clippy::unwrap_used, dead_code, reason = "the tests of jobs have it too, and use all of it")]
#[path = "../../../jobs/tests/it/segments.rs"]
mod segments; // random blob segments
#[expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#[path = "../../../jobs/tests/it/same_bytes.rs"]
mod same_bytes; // GCs by an executor and here
mod worker;
mod worker_bytes;
mod worker_memory;
mod wire;
mod redis_rs;
mod page;
mod operations;
mod clients;
mod linearizability;
mod kill_serve;
mod crowds;
mod space;
mod descriptors; // of workers, and too few of them
mod units; // what systemd is told
mod installed; // beside the program
mod self_report; // build and slow commands
mod served; // what `firn serve` has written, under other commands
#[expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#[path = "../../../job-service/tests/it/second.rs"]
mod second; // what is promised within a second
mod by_hand; // jobs that people look at, and end
mod job_service; // control plane, workers and database, killed
mod shares; // of workers, and of what a store is asked
mod rights; // in a bucket
mod bad_store; // the store away, read-only or full
mod missing_bucket; // and without its bucket
#[path = "../../../firn/tests/it/small_disk.rs"]
mod small_disk; // a file system that is soon full
mod bad_directory; // a shared directory that is full, or that cannot be written in
mod parts; // files of many parts
mod tls; // the same, encrypted
mod service_http; // what they say of themselves
mod metrics_page; // the page of it
mod object_store;
mod shared_tools; // verify, inspect, backup
mod shared_cache;
mod shared_writes;
mod service_soak;
mod siblings; // databases beside one another, with the same workers
mod old_builds; // programs of two builds at once
mod earlier_builds; // and what they left
mod minio; // everything on a store that others have made
mod demo; // everything at once, by one command
mod caas;
mod faults; // that real use found
