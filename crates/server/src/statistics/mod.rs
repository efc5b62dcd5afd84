//! What server threads count, and what all of them together have counted.
//!
//! Each server thread alone writes its own counters, so that counting is a load, an addition and a
//! store; a reader adds up. Nothing is ever set to zero: `CONFIG RESETSTAT` remembers what was
//! counted until then, which is taken off.

mod histogram;
mod gauge;
mod rate;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use firn_protocol::command::{self, CommandId};

use crate::bounds::ERROR_KINDS_MAX;

pub(crate) use gauge::Gauge;
pub(crate) use histogram::{Distribution, Histogram};
pub(crate) use rate::Rates;

/// What is counted, apart from commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Measure {
    Connections,
    RejectedConnections,
    /// Times that the system gave no connection although one may have come: descriptors or memory
    /// were short.
    AcceptFailures,
    /// Connections ended because a request, or those since MULTI, took more than
    /// `client-query-buffer-limit`.
    OverLimitConnections,
    InputBytes,
    OutputBytes,
    /// Receipts from sockets, and sendings.
    Reads,
    Writes,
    /// Keys that commands which only read have found, or not.
    Hits,
    Misses,
    /// Keys that had expired, each once. Collections count when they are removed for that or a
    /// command finds them before, strings when a command finds them. Strings that are never looked
    /// for, or only overwritten, go by themselves, uncounted.
    Expired,
    /// Scripts of EVAL that are kept no more, since others were run.
    EvictedScripts,
    /// Records that background work could not read and passed over, each once.
    DamagedRecords,
    ErrorReplies,
    /// Turns that others have had amid long commands.
    Turns,
    /// Records written for commands.
    Changes,
}

const MEASURE_COUNT: usize = Measure::Changes as usize + 1;

/// A number that one thread adds to and every thread reads.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds; only its thread may.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    /// Replaces it; only its thread may.
    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one server thread has counted. On cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Counters {
    measures: [Count; MEASURE_COUNT],
    gauges: gauge::Gauges,
    /// Clients that wait for others' keys: come, and gone again.
    blocked: (Count, Count),
    /// By [`CommandId::index`].
    commands: Box<[CommandCounters]>,
    /// Error replies by their first word.
    errors: Mutex<BTreeMap<String, u64>>,
}

#[derive(Debug, Default)]
struct CommandCounters {
    calls: Count,
    ns: Count,
    rejected: Count,
    failed: Count,
    /// Made with the first call.
    histogram: OnceLock<Box<Histogram>>,
}

impl Counters {
    fn new() -> Self {
        Self {
            measures: Default::default(),
            gauges: Default::default(),
            blocked: Default::default(),
            commands: (0..command::COUNT).map(|_| CommandCounters::default()).collect(),
            errors: Mutex::default(),
        }
    }

    #[inline]
    pub(crate) fn add(&self, measure: Measure, more: u64) {
        self.measures[measure as usize].add(more);
    }

    /// The server thread has so much.
    pub(crate) fn set(&self, gauge: Gauge, value: u64) {
        self.gauges.set(gauge, value);
    }

    /// `count` calls of a command took `ns` nanoseconds together.
    #[inline]
    pub(crate) fn called(&self, id: CommandId, count: u64, ns: u64) {
        let command = &self.commands[id.index()];
        command.calls.add(count);
        command.ns.add(ns);
        command.histogram.get_or_init(Box::default).add(ns / count.max(1), count);
    }

    /// A call of a command has failed, or was not even tried; the error's first word is `code`.
    pub(crate) fn failed(&self, id: Option<CommandId>, was_tried: bool, code: &str) {
        if let Some(id) = id {
            let command = &self.commands[id.index()];
            if was_tried { command.failed.add(1) } else { command.rejected.add(1) }
        }
        self.add(Measure::ErrorReplies, 1);
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let is_distinguished = errors.len() < ERROR_KINDS_MAX || errors.contains_key(code);
        *errors.entry(if is_distinguished { code } else { "OTHER" }.to_owned()).or_default() += 1;
    }

    /// A client waits for others' keys.
    pub(crate) fn block(&self) {
        self.blocked.0.add(1);
    }

    /// It waits no more.
    pub(crate) fn unblock(&self) {
        self.blocked.1.add(1);
    }
}

/// What was counted of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandSum {
    pub(crate) calls: u64,
    pub(crate) ns: u64,
    pub(crate) rejected: u64,
    pub(crate) failed: u64,
    pub(crate) distribution: Distribution,
}

/// What was counted of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    measures: [u64; MEASURE_COUNT],
    /// By [`CommandId::index`].
    pub(crate) commands: Vec<CommandSum>,
    pub(crate) errors: BTreeMap<String, u64>,
}

impl Sums {
    pub(crate) fn of(&self, measure: Measure) -> u64 {
        self.measures[measure as usize]
    }

    /// Calls of all commands.
    pub(crate) fn calls(&self) -> u64 {
        self.commands.iter().map(|command| command.calls).sum()
    }

    fn take_off(&mut self, base: &Self) {
        for (sum, base) in self.measures.iter_mut().zip(base.measures) {
            *sum = sum.wrapping_sub(base);
        }
        for (sum, base) in self.commands.iter_mut().zip(&base.commands) {
            sum.calls -= base.calls;
            sum.ns -= base.ns;
            sum.rejected -= base.rejected;
            sum.failed -= base.failed;
            sum.distribution.take_off(&base.distribution);
        }
        for (code, count) in &mut self.errors {
            *count -= base.errors.get(code).copied().unwrap_or(0);
        }
        self.errors.retain(|_, count| *count > 0);
    }
}

/// The counters of all server threads, and when counting began.
#[derive(Debug)]
pub(crate) struct Statistics {
    threads: Vec<Counters>,
    /// What had been counted at the last reset.
    base: Mutex<Sums>,
    rates: Mutex<Rates>,
    /// When the server started: what the clocks said, in microseconds since the epoch, and since
    /// whenever.
    started_unix_us: u64,
    started: Duration,
}

impl Statistics {
    /// Of so many server threads, from now on.
    pub(crate) fn new(threads: usize, unix_ms: u64, now: Duration) -> Self {
        Self {
            threads: (0..threads).map(|_| Counters::new()).collect(),
            base: Mutex::default(),
            rates: Mutex::default(),
            started_unix_us: unix_ms * 1000,
            started: now,
        }
    }

    /// The counters of one server thread.
    pub(crate) fn of_thread(&self, index: usize) -> &Counters {
        &self.threads[index]
    }

    /// What was counted since the start or the last reset.
    pub(crate) fn sums(&self) -> Sums {
        let mut sums = self.all();
        sums.take_off(&self.base());
        sums
    }

    /// Counting begins again.
    pub(crate) fn reset(&self) {
        let mut base = self.base();
        *base = self.all();
    }

    /// Clients that wait for others' keys.
    pub(crate) fn blocked_clients(&self) -> u64 {
        let waiting = |counters: &Counters| counters.blocked.0.get().wrapping_sub(counters.blocked.1.get());
        self.threads.iter().map(waiting).sum()
    }

    /// What all server threads have together.
    pub(crate) fn sum_of(&self, gauge: Gauge) -> u64 {
        self.threads.iter().map(|counters| counters.gauges.get(gauge)).sum()
    }

    /// What the server thread has that has most.
    pub(crate) fn max_of(&self, gauge: Gauge) -> u64 {
        self.threads.iter().map(|counters| counters.gauges.get(gauge)).max().unwrap_or(0)
    }

    /// Notes how far counting has come, for [`rates`](Self::rates).
    pub(crate) fn note_rates(&self, now: Duration) {
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        if rates.is_due(now) {
            let of =
                |measure: Measure| self.threads.iter().map(|it| it.measures[measure as usize].get()).sum();
            let calls = self.threads.iter().flat_map(|it| &it.commands).map(|it| it.calls.get()).sum();
            rates.note(now, [calls, of(Measure::InputBytes), of(Measure::OutputBytes)]);
        }
    }

    /// Commands, bytes received and bytes sent a second, lately.
    pub(crate) fn rates(&self) -> [u64; 3] {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner).per_second()
    }

    /// For how long the server runs, by the clock's `now`.
    pub(crate) fn uptime(&self, now: Duration) -> Duration {
        now.saturating_sub(self.started)
    }

    /// Microseconds since the Unix epoch, from what both clocks say: never back while the clock is
    /// not set.
    pub(crate) fn unix_us(&self, unix_ms: u64, now: Duration) -> u64 {
        let counted = self.started_unix_us + self.uptime(now).as_micros() as u64;
        // The two run apart when the clock is set, or slewed for long.
        if (counted / 1000).abs_diff(unix_ms) > 2 { unix_ms * 1000 } else { counted }
    }

    fn base(&self) -> MutexGuard<'_, Sums> {
        self.base.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted since the start.
    pub(crate) fn all(&self) -> Sums {
        let mut sums = Sums { commands: vec![CommandSum::default(); command::COUNT], ..Sums::default() };
        for thread in &self.threads {
            for (sum, count) in sums.measures.iter_mut().zip(&thread.measures) {
                *sum += count.get();
            }
            for (sum, command) in sums.commands.iter_mut().zip(&thread.commands) {
                sum.calls += command.calls.get();
                sum.ns += command.ns.get();
                sum.rejected += command.rejected.get();
                sum.failed += command.failed.get();
                if let Some(histogram) = command.histogram.get() {
                    sum.distribution.add(histogram);
                }
            }
            for (code, count) in thread.errors.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                *sums.errors.entry(code.clone()).or_default() += count;
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_protocol::command::id_of;

    #[test]
    fn a_reset_takes_off_what_was_counted_until_then() {
        let statistics = Statistics::new(2, 1_000, Duration::ZERO);
        let (get, set) = (id_of("get"), id_of("set"));
        let count = || {
            for thread in 0..2 {
                let counters = statistics.of_thread(thread);
                counters.add(Measure::Hits, 3);
                counters.called(get, 4, 4_000);
                counters.failed(Some(get), true, "ERR");
                counters.failed(Some(set), false, "WRONGTYPE");
                counters.failed(None, false, "ERR");
            }
        };
        count();
        let first = statistics.sums();
        assert_eq!((first.of(Measure::Hits), first.of(Measure::ErrorReplies), first.calls()), (6, 6, 8));
        let of_get = &first.commands[get.index()];
        assert_eq!((of_get.calls, of_get.ns, of_get.failed, of_get.rejected), (8, 8_000, 2, 0));
        assert_eq!(first.commands[set.index()].rejected, 2);
        assert_eq!(first.errors, BTreeMap::from([("ERR".to_owned(), 4), ("WRONGTYPE".to_owned(), 2)]));
        statistics.reset();
        let nothing = statistics.sums();
        assert_eq!((nothing.calls(), nothing.errors.len(), nothing.of(Measure::Hits)), (0, 0, 0));
        count();
        assert_eq!(statistics.sums(), first);
    }

    #[test]
    fn microseconds_go_on_until_the_clock_is_set() {
        let statistics = Statistics::new(1, 1_000, Duration::from_micros(500));
        assert_eq!(statistics.unix_us(1_000, Duration::from_micros(507)), 1_000_007);
        assert_eq!(statistics.unix_us(1_003, Duration::from_micros(3_600)), 1_003_100);
        assert_eq!(statistics.unix_us(900, Duration::from_micros(4_000)), 900_000);
    }
}
