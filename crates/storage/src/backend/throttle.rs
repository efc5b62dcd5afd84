//! How often a store is asked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Clock;

/// Kinds of request, which stores limit and charge for apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestClass {
    /// Reading an object or a range of it, or asking how long it is.
    Read,
    /// Creating an object, or a part of one.
    Write,
    /// Asking for names of objects, or for uploads that have not ended.
    List,
    /// Removing an object, or an upload that has not ended.
    Remove,
}

/// Requests and bytes a second; `None` = as many as there are. 0 counts as 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests that read.
    pub reads_per_second: Option<u32>,
    /// Requests that write.
    pub writes_per_second: Option<u32>,
    /// Requests for names.
    pub lists_per_second: Option<u32>,
    /// Requests that remove.
    pub removals_per_second: Option<u32>,
    /// Bytes read.
    pub read_bytes_per_second: Option<u64>,
    /// Bytes written.
    pub write_bytes_per_second: Option<u64>,
}

/// Makes threads wait that ask too often. Backends that share one keep its limits together.
///
/// Counts what it is asked for. A request that the client makes again, since it failed in a way
/// that may pass, counts once. So does a list of many pages.
#[derive(Debug)]
pub struct Throttle {
    clock: Arc<dyn Clock>,
    reads: Option<Rate>,
    writes: Option<Rate>,
    lists: Option<Rate>,
    removals: Option<Rate>,
    read_bytes: Option<Rate>,
    write_bytes: Option<Rate>,
}

impl Throttle {
    /// A throttle that keeps `limits` by `clock`: a second's worth may be asked for at once.
    pub fn new(limits: &Limits, clock: Arc<dyn Clock>) -> Self {
        let requests = |limit: Option<u32>| limit.map(|limit| Rate::new(u64::from(limit)));
        Self {
            clock,
            reads: requests(limits.reads_per_second),
            writes: requests(limits.writes_per_second),
            lists: requests(limits.lists_per_second),
            removals: requests(limits.removals_per_second),
            read_bytes: limits.read_bytes_per_second.map(Rate::new),
            write_bytes: limits.write_bytes_per_second.map(Rate::new),
        }
    }

    /// Blocks until one request of `class` that moves `bytes` may be made.
    pub fn pass(&self, class: RequestClass, bytes: u64) {
        let (requests, moved) = match class {
            RequestClass::Read => (&self.reads, &self.read_bytes),
            RequestClass::Write => (&self.writes, &self.write_bytes),
            RequestClass::List => (&self.lists, &None),
            RequestClass::Remove => (&self.removals, &None),
        };
        let now = self.clock.now();
        let waits = [(requests, 1), (moved, bytes)]
            .map(|(rate, amount)| rate.as_ref().map_or(Duration::ZERO, |rate| rate.take(now, amount)));
        let wait = waits.into_iter().max().unwrap_or_default();
        if wait > Duration::ZERO {
            self.clock.sleep(wait);
        }
    }
}

/// So much a second, of which a second's worth may be taken at once.
#[derive(Debug)]
struct Rate {
    per_second: u64,
    /// When what was taken so far would have come about at an even pace.
    paid_until: Mutex<Duration>,
}

/// What may be taken at once, in time.
const BURST: Duration = Duration::from_secs(1);

impl Rate {
    fn new(per_second: u64) -> Self {
        Self { per_second: per_second.max(1), paid_until: Mutex::default() }
    }

    /// How long to wait before `amount`, which is taken, may be used.
    fn take(&self, now: Duration, amount: u64) -> Duration {
        let mut paid_until = self.paid_until.lock().unwrap_or_else(PoisonError::into_inner);
        let cost = Duration::from_secs_f64(amount as f64 / self.per_second as f64);
        let begin = (*paid_until).max(now.saturating_sub(BURST));
        *paid_until = begin.saturating_add(cost);
        paid_until.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use crate::ManualClock;

    use super::*;

    #[test]
    fn each_class_has_its_own_pace_and_rest_is_saved_for_a_second() {
        let clock = Arc::new(ManualClock::new(0));
        clock.advance(Duration::from_secs(10));
        let limits =
            Limits { reads_per_second: Some(10), write_bytes_per_second: Some(1000), ..Limits::default() };
        let throttle = Throttle::new(&limits, Arc::clone(&clock) as Arc<dyn Clock>);
        let pass = |class, bytes| {
            let before = clock.now();
            throttle.pass(class, bytes);
            (clock.now() - before).as_millis()
        };
        let burst: u128 = (0..10).map(|_| pass(RequestClass::Read, 1 << 20)).sum();
        assert_eq!(burst, 0, "ten at once after a rest");
        assert_eq!((0..10).map(|_| pass(RequestClass::Read, 0)).sum::<u128>(), 1000);
        assert_eq!(pass(RequestClass::Write, 1000), 0, "nobody has written");
        assert_eq!(pass(RequestClass::Write, 500), 500);
        assert_eq!((0..100).map(|_| pass(RequestClass::List, 0)).sum::<u128>(), 0, "no limit");
        clock.advance(Duration::from_secs(100));
        assert_eq!((0..10).map(|_| pass(RequestClass::Read, 0)).sum::<u128>(), 0);
        assert_eq!(pass(RequestClass::Read, 0), 100, "no more than a second's worth is saved");
    }
}
