//! The places that a worker has open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firn_storage::{Result, Storage};

/// A place that was not used for so long is closed. A worker may serve any number of databases
/// while it runs, and a few at a time.
const KEPT: Duration = Duration::from_secs(600);

/// Places by their names, each open while it is used and a while longer.
#[derive(Debug, Default)]
pub(super) struct Opened {
    places: Mutex<BTreeMap<String, Open>>,
}

#[derive(Debug)]
struct Open {
    place: Arc<dyn Storage>,
    used: Duration,
}

impl Opened {
    /// The place called `name`, which `open` opens if it is not open; closes others that were not
    /// used for long.
    ///
    /// # Errors
    /// What opening says.
    pub(super) fn place(
        &self,
        name: &str,
        now: Duration,
        open: impl FnOnce() -> Result<Arc<dyn Storage>>,
    ) -> Result<Arc<dyn Storage>> {
        if let Some(known) = self.used(name, now) {
            return Ok(known);
        }
        // Not under the lock: a store may take its time to answer. Of two threads that open a place
        // both use their own, and the later one stays.
        let place = open()?;
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.insert(name.to_owned(), Open { place: Arc::clone(&place), used: now });
        Ok(place)
    }

    fn used(&self, name: &str, now: Duration) -> Option<Arc<dyn Storage>> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let known = places.get_mut(name).map(|open| {
            open.used = now;
            Arc::clone(&open.place)
        });
        let closed =
            |open: &mut Open| Arc::strong_count(&open.place) == 1 && now.saturating_sub(open.used) >= KEPT;
        let closed: Vec<Open> = places.extract_if(.., |_, open| closed(open)).map(|(_, open)| open).collect();
        // Closing may end a connection, which no other thread is to wait for.
        drop(places);
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
    fn a_place_is_open_while_it_is_used_and_a_while_longer() {
        let (opened, count) = (Opened::default(), Cell::new(0));
        let use_at = |name: &str, seconds: u64| {
            let open = || {
                count.set(count.get() + 1);
                Ok(Arc::new(Memory::new()) as Arc<dyn Storage>)
            };
            (opened.place(name, Duration::from_secs(seconds), open).unwrap(), count.get())
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
        assert!(opened.place("wrong", Duration::ZERO, fails).is_err());
        assert!(opened.place("wrong", Duration::ZERO, || Ok(Arc::new(Memory::new()))).is_ok());
    }
}
