//! SIGINT and SIGTERM: the first one asks for an end in good order, the second one ends the process at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::ending::Ending;

/// What becomes true with the first of them; with the second one the process ends where it stands, whatever it waits for.
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
