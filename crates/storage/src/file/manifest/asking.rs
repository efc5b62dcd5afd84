//! A backend is asked until it answers.

use std::time::Duration;

use crate::{Clock, Error, ErrorKind, Result, Storage};

/// Publishes `name`. Where other machines may do that too, it does so again and again, later and
/// later by `clock`, until the backend says whether it did.
///
/// A publication of which no answer came may happen later still: it would name what is undone
/// meanwhile.
pub fn publish_until_answered(
    storage: &dyn Storage,
    clock: &dyn Clock,
    name: &str,
    bytes: &[u8],
) -> Result<()> {
    let mut published = storage.publish(name, bytes);
    if storage.shared_part().is_none() {
        return published;
    }
    for tried in 0..TRIES_MAX {
        let Err(error) = &published else { break };
        if error.kind != ErrorKind::Undecided {
            break;
        }
        clock.sleep(pause(tried));
        published = storage.publish(name, bytes).map_err(|error| match error.kind {
            ErrorKind::Exists => error,
            // That is about this try, not about the one before.
            _ => Error { kind: ErrorKind::Undecided, ..error },
        });
    }
    published
}

/// How often a shared backend is asked again that does not say what became of an edit. Each time
/// takes as long as the backend itself is patient, and a pause, since it may refuse at once.
const TRIES_MAX: usize = 32;

/// Asks again as long as a backend refuses to answer, later and later by `clock`: it may refuse at
/// once.
pub(super) fn until_answered<T>(clock: &dyn Clock, mut ask: impl FnMut() -> Result<T>) -> Result<T> {
    let mut answer = ask();
    for tried in 0..TRIES_MAX {
        match &answer {
            Err(error) if error.kind == ErrorKind::Refused => {
                clock.sleep(pause(tried));
                answer = ask();
            }
            _ => break,
        }
    }
    answer
}

/// Before a backend is asked again that was asked again so many times.
fn pause(tried: usize) -> Duration {
    PAUSE_MIN.saturating_mul(1 << tried.min(31)).min(PAUSE_MAX)
}

/// Before a backend that refused at once is asked for the second time; twice as long each time
/// after that, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// With as many tries as there are it is asked for two minutes at least.
const PAUSE_MAX: Duration = Duration::from_secs(5);
