//! The backends that a worker has open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firn_storage::{Result, Storage};

/// A backend that was not used for so long is closed. A worker may serve any number of databases
/// while it runs, and a few at a time.
const KEPT: Duration = Duration::from_secs(600);

/// Backends by their locations, each open while it is used and a while longer.
#[derive(Debug, Default)]
pub(super) struct Opened {
    backends: Mutex<BTreeMap<String, Open>>,
}

#[derive(Debug)]
struct Open {
    backend: Arc<dyn Storage>,
    used: Duration,
}

impl Opened {
    /// The backend called `name`, which `open` opens if it is not open; closes others that were not
    /// used for long.
    ///
    /// # Errors
    /// What opening says.
    pub(super) fn backend(
        &self,
        name: &str,
        now: Duration,
        open: impl FnOnce() -> Result<Arc<dyn Storage>>,
    ) -> Result<Arc<dyn Storage>> {
        if let Some(known) = self.used(name, now) {
            return Ok(known);
        }
        // Not under the lock: a store may take its time to answer. Of two threads that open a
        // backend both use their own, and the later one stays.
        let backend = open()?;
        let mut backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        backends.insert(name.to_owned(), Open { backend: Arc::clone(&backend), used: now });
        Ok(backend)
    }

    fn used(&self, name: &str, now: Duration) -> Option<Arc<dyn Storage>> {
        let mut backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        let known = backends.get_mut(name).map(|open| {
            open.used = now;
            Arc::clone(&open.backend)
        });
        let closed =
            |open: &mut Open| Arc::strong_count(&open.backend) == 1 && now.saturating_sub(open.used) >= KEPT;
        let closed: Vec<Open> =
            backends.extract_if(.., |_, open| closed(open)).map(|(_, open)| open).collect();
        // Closing may end a connection, which no other thread is to wait for.
        drop(backends);
        drop(closed);
        known
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use firn_storage::backend::Memory;
    use firn_storage::{Error, ErrorKind};

    use super::*;

    #[test]
    fn a_backend_is_open_while_it_is_used_and_a_while_longer() {
        let (opened, count) = (Opened::default(), Cell::new(0));
        let use_at = |name: &str, seconds: u64| {
            let open = || {
                count.set(count.get() + 1);
                Ok(Arc::new(Memory::new()) as Arc<dyn Storage>)
            };
            (opened.backend(name, Duration::from_secs(seconds), open).unwrap(), count.get())
        };
        let (held, _) = use_at("held", 0);
        assert_eq!(use_at("left", 0).1, 2);
        assert_eq!(use_at("left", 599).1, 2);
        assert_eq!(use_at("other", 1198).1, 3);
        assert_eq!(use_at("left", 1198).1, 3, "599 s after it was used last");
        assert_eq!(use_at("other", 1798).1, 3);
        assert_eq!(use_at("left", 1798).1, 4, "nobody used it for 600 s");
        assert!(Arc::ptr_eq(&held, &use_at("held", 9999).0), "somebody used it all the time");
        let fails = || Err(Error::new(ErrorKind::NotFound, "", "no such bucket"));
        assert!(opened.backend("wrong", Duration::ZERO, fails).is_err());
        assert!(opened.backend("wrong", Duration::ZERO, || Ok(Arc::new(Memory::new()))).is_ok());
    }
}
