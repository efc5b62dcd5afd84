//! When requests of an open loop are due, and since when those that are outstanding count.
//!
//! Times are nanoseconds since the phase began; nothing here looks at a clock.

use std::collections::VecDeque;

/// One thread's requests at fixed times: request `n` is due at `offset + n * interval`, whatever
/// becomes of the others.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    interval_ns: f64,
    offset_ns: f64,
    next: u64,
}

impl Schedule {
    /// Thread `index` of `threads`, which have `rate` requests a second together.
    pub(super) fn new(rate: f64, threads: usize, index: usize) -> Self {
        let interval_ns = threads as f64 * 1e9 / rate;
        Self { interval_ns, offset_ns: interval_ns * index as f64 / threads as f64, next: 0 }
    }

    /// When the next request is due.
    pub(super) fn due_ns(&self) -> u64 {
        (self.offset_ns + self.next as f64 * self.interval_ns) as u64
    }

    /// Takes the next request if it is due by `now_ns`: since when it counts.
    pub(super) fn take(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.due_ns();
        (due_ns <= now_ns).then(|| {
            self.next += 1;
            due_ns
        })
    }
}

/// Requests of one connection that have no answer yet, oldest first: since when they count.
#[derive(Clone, Debug, Default)]
pub(super) struct Outstanding {
    /// (since, how many of them).
    runs: VecDeque<(u64, u64)>,
    count: u64,
}

impl Outstanding {
    /// How many.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds `count` requests that count since `since_ns`.
    pub(super) fn add(&mut self, since_ns: u64, count: u64) {
        self.count += count;
        match self.runs.back_mut() {
            Some((since, run)) if *since == since_ns => *run += count,
            _ => self.runs.push_back((since_ns, count)),
        }
    }

    /// Takes out the `count` oldest, answered at `now_ns`, and tells `sink` latencies and how many
    /// had each. Answers without a request: `false`.
    pub(super) fn answered(&mut self, count: u64, now_ns: u64, mut sink: impl FnMut(u64, u64)) -> bool {
        if count > self.count {
            return false;
        }
        self.count -= count;
        let mut left = count;
        while left > 0
            && let Some((since, run)) = self.runs.front_mut()
        {
            let taken = left.min(*run);
            sink(now_ns.saturating_sub(*since), taken);
            left -= taken;
            *run -= taken;
            if *run == 0 {
                self.runs.pop_front();
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Latencies;

    const MS: u64 = 1_000_000;

    #[test]
    fn threads_share_a_rate_evenly() {
        let mut all: Vec<u64> = (0..4)
            .flat_map(|index| {
                let mut schedule = Schedule::new(1_000.0, 4, index);
                std::iter::from_fn(move || schedule.take(1_000 * MS - 1)).collect::<Vec<_>>()
            })
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..1_000).map(|index| index * MS).collect::<Vec<_>>());
    }

    /// A server that stands still from 100 ms to 400 ms, asked every millisecond. No fewer requests
    /// are sent, and every one that was due meanwhile waits.
    #[test]
    fn a_stall_is_charged_to_every_request_it_delayed() {
        let (mut schedule, mut outstanding) = (Schedule::new(1_000.0, 1, 0), Outstanding::default());
        let mut latencies = Latencies::new();
        for now_ms in 0..1_000 {
            while let Some(due_ns) = schedule.take(now_ms * MS) {
                outstanding.add(due_ns, 1);
            }
            if !(100..400).contains(&now_ms) {
                let count = outstanding.count();
                assert!(outstanding.answered(count, now_ms * MS, |ns, count| latencies.record(ns, count)));
            }
        }
        let found = latencies.percentiles();
        assert_eq!(found.count, 1_000);
        assert!(found.p50_us < 1.0, "{found:?}");
        // 300 of 1000 waited 1 to 300 ms: the 900th waited 200.
        assert!((found.p90_us - 200_000.0).abs() < 2_000.0, "{found:?}");
        assert!((found.max_us - 300_000.0).abs() < 1_000.0, "{found:?}");
    }

    #[test]
    fn answers_belong_to_the_oldest() {
        let mut outstanding = Outstanding::default();
        outstanding.add(10, 2);
        outstanding.add(10, 1);
        outstanding.add(50, 4);
        let mut reported = Vec::new();
        assert!(outstanding.answered(5, 60, |latency, count| reported.push((latency, count))));
        assert_eq!(reported, [(50, 3), (10, 2)]);
        assert_eq!(outstanding.count(), 2);
        assert!(!outstanding.answered(3, 70, |_, _| panic!("nobody asked")));
        assert!(outstanding.answered(2, 70, |_, _| ()));
        assert_eq!(outstanding.count(), 0);
    }
}
