//! A process that ends with the process that started it, however that ends.
//!
//! The other end of a pipe is closed by the system whatever becomes of the process that held it.
//! That needs no privilege and no `unsafe`, and holds where the parent is killed. A signal from the
//! kernel (`PR_SET_PDEATHSIG`) would follow the thread that started this process, not the parent
//! process.

use std::io::Read;
use std::time::Duration;

use firn_storage::{Clock, Priority, Spawn, SystemClock};
use signal_hook::consts::SIGTERM;

use crate::ending::{Ending, Failure, Result};

/// How long a command may take to end before the process is ended for it.
const END_MAX: Duration = Duration::from_secs(10);

/// Has a thread wait for the end of standard input.
///
/// # Errors
/// There is no thread.
pub(crate) fn watch(spawn: &dyn Spawn) -> Result<()> {
    let failed =
        |error| Failure::new(Ending::Failed, format!("cannot wait for the end of standard input: {error}"));
    let watch = Box::new(|| {
        let mut bytes = [0; 512];
        // What cannot be read is closed, too.
        while std::io::stdin().lock().read(&mut bytes).is_ok_and(|count| count > 0) {}
        // A command without a way to end by a signal is ended by it.
        let _ = signal_hook::low_level::raise(SIGTERM);
        SystemClock::new().sleep(END_MAX);
        std::process::exit(Ending::Failed as i32);
    });
    spawn.spawn("firn-stdin".to_owned(), Priority::Normal, watch).map_err(failed)
}
