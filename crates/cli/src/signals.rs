//! Signals: SIGINT and SIGTERM end a process in good order, said twice at once; SIGHUP, SIGUSR1 and
//! SIGUSR2 end none that serves.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_storage::{Priority, Spawn};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::ending::{Ending, Failure, Result};

/// What becomes true with the first of them; with the second one the process ends where it stands,
/// whatever it waits for.
///
/// # Errors
/// What the system says.
pub(crate) fn twice_ends_at_once() -> io::Result<Arc<AtomicBool>> {
    let said = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The handlers run in this order, so that the first signal does not end it.
        let status = Ending::Failed as i32;
        signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&said))?;
        signal_hook::flag::register(signal, Arc::clone(&said))?;
    }
    Ok(said)
}

/// As [`twice_ends_at_once`], of a tool that a person watches. A terminal that is closed ends it in
/// good order too, unless `nohup` is to prevent that. It may send more than one SIGHUP, so that
/// those never end it at once.
///
/// # Errors
/// What the system says.
pub(crate) fn of_a_terminal() -> io::Result<Arc<AtomicBool>> {
    let said = twice_ends_at_once()?;
    if !is_hang_up_ignored() {
        signal_hook::flag::register(SIGHUP, Arc::clone(&said))?;
    }
    Ok(said)
}

/// Has SIGINT, SIGTERM and SIGHUP end the process as they do, but only after `before`. SIGHUP does
/// not where `nohup` is to prevent that. What is answered becomes true with the signal: what fails
/// afterwards may fail for `before`.
///
/// # Errors
/// What the system says of signals or of the thread.
pub(crate) fn end_after(spawn: &dyn Spawn, before: fn()) -> Result<Arc<AtomicBool>> {
    let failed = |why: String| Failure::new(Ending::Failed, format!("cannot await signals: {why}"));
    let hang_up = (!is_hang_up_ignored()).then_some(SIGHUP);
    let ending = [SIGINT, SIGTERM].into_iter().chain(hang_up);
    let mut signals = Signals::new(ending).map_err(|error| failed(error.to_string()))?;
    let said = Arc::new(AtomicBool::new(false));
    let of_thread = Arc::clone(&said);
    let body = move || {
        if let Some(signal) = signals.forever().next() {
            of_thread.store(true, Ordering::Release);
            before();
            // It ends the process.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    spawn
        .spawn("firn-signals".to_owned(), Priority::Normal, Box::new(body))
        .map_err(|error| failed(error.to_string()))?;
    Ok(said)
}

/// Whether whatever started this process has SIGHUP ignored.
fn is_hang_up_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

/// Has SIGHUP, SIGUSR1 and SIGUSR2 end nothing from now on. Other daemons read files again at
/// these, and a terminal that is closed sends the first. A thread tells of each on standard error.
///
/// # Errors
/// What the system says of signals or of the thread.
pub(crate) fn hang_ups_end_nothing(spawn: &dyn Spawn) -> Result<()> {
    let failed = |why: String| Failure::new(Ending::Failed, format!("cannot await signals: {why}"));
    let mut signals = Signals::new([SIGHUP, SIGUSR1, SIGUSR2]).map_err(|error| failed(error.to_string()))?;
    let body = move || {
        for signal in signals.forever() {
            let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
            // The terminal may be the one that was closed.
            let _ = writeln!(
                io::stderr(),
                "firn: {name} is ignored: nothing is read again while this runs; SIGTERM ends it"
            );
        }
    };
    spawn
        .spawn("firn-hang-ups".to_owned(), Priority::Normal, Box::new(body))
        .map(drop)
        .map_err(|error| failed(error.to_string()))
}
