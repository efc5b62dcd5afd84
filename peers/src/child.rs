//! One engine's process: runs the phases its parent names.

use std::io::{BufRead, Write};

use firn_bench::progress::Silent;
use firn_bench::suite::Store;
use firn_engine::{Error, ErrorKind, Result};

use crate::args::{ChildArgs, Job};
use crate::cgroup::Cgroup;
use crate::engine;
use crate::message::Message;

/// Joins the cgroup, then obeys `run STEP` and `close` lines on standard input until there are no
/// more.
///
/// # Errors
/// Only if the parent cannot be reached; everything else is sent to the parent.
pub fn run(child: &ChildArgs, job: Job) -> Result<()> {
    let message = match obey(child, job) {
        Ok(()) => Message::Closed,
        Err(error) => Message::Failed(error.to_string()),
    };
    send(&message)
}

fn obey(child: &ChildArgs, mut job: Job) -> Result<()> {
    // No other process would end this one if the parent were killed.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let cgroup = child.child_cgroup.clone().map(Cgroup::at);
    if let Some(cgroup) = &cgroup {
        cgroup.join()?;
    }
    let name = child.child_engine.as_deref().unwrap_or_default();
    let factory = engine::factory(name, &job.compare)?;
    let mut store = Store::new(factory.as_ref(), job.suite.open_options(&child.child_dir));
    send(&Message::Ready)?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| parent_is_gone(&error))?;
        let Some(step) = line.strip_prefix("run ").and_then(|step| step.parse::<usize>().ok()) else { break };
        if let Some(cgroup) = &cgroup {
            cgroup.reset_peak();
        }
        let mut result = job.suite.run_step(step, &mut store, &mut Silent)?;
        result.context.repetition = child.child_repetition;
        if let Some(cgroup) = &cgroup {
            result.memory.insert("cgroup_peak_bytes".to_owned(), cgroup.peak_bytes());
        }
        sync(child)?;
        send(&Message::Result(Box::new(result)))?;
    }
    store.close()
}

/// Sends what the engine left in the page cache to the device, so that no other engine's phase pays
/// for it.
fn sync(child: &ChildArgs) -> Result<()> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Invalid, format!("cannot sync {}", child.child_dir.display())).because(error)
    };
    let dir = std::fs::File::open(&child.child_dir).map_err(failed)?;
    rustix::fs::syncfs(&dir).map_err(|error| failed(error.into()))
}

fn send(message: &Message) -> Result<()> {
    let line = serde_json::to_string(message)
        .map_err(|error| Error::bug("a message has no JSON form").because(error))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| parent_is_gone(&error))
}

fn parent_is_gone(error: &std::io::Error) -> Error {
    Error::invalid(format!("the comparing process is gone: {error}"))
}
