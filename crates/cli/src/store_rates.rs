//! How often an object store is asked, as people say it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use firn_bench::args::parse_count;
use firn_engine::settings::parse_bytes;
use firn_objects::PART_BYTES;
use firn_storage::SystemClock;
use firn_storage::backend::{Limits, Throttle};

/// Requests and bytes a second, at most: `reads=500,write-bytes=20M`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreRates(Limits);

/// The least and the most of requests.
const REQUESTS: std::ops::RangeInclusive<u64> = 1..=1_000_000;

/// Of bytes: a part of a large object, which waits as a whole, takes no longer than some seconds.
const BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 40;

/// Longer no job is to wait with a piece of a file: half of what control planes bear.
const PIECE_WAIT_MAX: Duration = Duration::from_secs(30);

impl StoreRates {
    /// What keeps them, for every backend that is given it together.
    pub(crate) fn throttle(self) -> Arc<Throttle> {
        Arc::new(Throttle::new(&self.0, Arc::new(SystemClock::new())))
    }

    /// Says why so many jobs at a time would be too slow at these rates for control planes, and
    /// what would do.
    pub(crate) fn check_jobs(self, jobs: u16) -> Result<(), String> {
        let limits = &self.0;
        let most = PIECE_WAIT_MAX.as_secs();
        let jobs = u64::from(jobs);
        let rates = [
            ("reads", limits.reads_per_second.map(u64::from), jobs),
            ("writes", limits.writes_per_second.map(u64::from), jobs),
            ("write-bytes", limits.write_bytes_per_second, jobs * PART_BYTES as u64),
        ];
        for (name, rate, together) in rates {
            let Some(rate) = rate.filter(|rate| together > rate * most) else { continue };
            let (wait, enough) = (together / rate, together.div_ceil(most));
            return Err(format!(
                "with {name}={rate} each of {jobs} jobs at a time waits for up to {wait} s with a piece of a file, and control planes take jobs away that get no further for 60 s: say {name}={enough} at least, or have fewer at a time"
            ));
        }
        Ok(())
    }

    /// Takes `name=value`.
    fn set(&mut self, said: &str) -> Result<(), String> {
        let limits = &mut self.0;
        let (name, value) =
            said.split_once('=').ok_or_else(|| format!("expected NAME=NUMBER, found {said:?}"))?;
        let requests: &mut Option<u32> = match name.trim() {
            "reads" => &mut limits.reads_per_second,
            "writes" => &mut limits.writes_per_second,
            "lists" => &mut limits.lists_per_second,
            "removals" => &mut limits.removals_per_second,
            "read-bytes" => return set_bytes(&mut limits.read_bytes_per_second, said, value),
            "write-bytes" => return set_bytes(&mut limits.write_bytes_per_second, said, value),
            name => return Err(format!("there is no rate of {name:?}; there are {NAMES}")),
        };
        let wrong = || format!("{said:?}: expected 1 to 1M requests a second; leave it out for no limit");
        let count = parse_count(value.trim()).ok().filter(|count| REQUESTS.contains(count));
        set_once(requests, said, count.and_then(|count| u32::try_from(count).ok()).ok_or_else(wrong)?)
    }
}

fn set_bytes(rate: &mut Option<u64>, said: &str, value: &str) -> Result<(), String> {
    let bytes = parse_bytes(value.trim()).ok().filter(|bytes| BYTES.contains(bytes));
    let wrong = || format!("{said:?}: expected 1M to 1T bytes a second; leave it out for no limit");
    set_once(rate, said, bytes.ok_or_else(wrong)?)
}

fn set_once<T>(rate: &mut Option<T>, said: &str, value: T) -> Result<(), String> {
    match rate.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{said:?}: this rate is said twice")),
    }
}

/// The names that there are.
const NAMES: &str = "reads, writes, lists, removals, read-bytes and write-bytes";

impl FromStr for StoreRates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut rates = Self::default();
        text.split(',').try_for_each(|said| rates.set(said.trim()))?;
        Ok(rates)
    }
}

/// As [`FromStr`] reads it.
impl fmt::Display for StoreRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = &self.0;
        let all = [
            ("reads", limits.reads_per_second.map(u64::from)),
            ("writes", limits.writes_per_second.map(u64::from)),
            ("lists", limits.lists_per_second.map(u64::from)),
            ("removals", limits.removals_per_second.map(u64::from)),
            ("read-bytes", limits.read_bytes_per_second),
            ("write-bytes", limits.write_bytes_per_second),
        ];
        let said = all.into_iter().filter_map(|(name, rate)| Some(format!("{name}={}", rate?)));
        f.write_str(&said.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_they_are_shown() {
        let all = "reads=5000,writes=20,lists=1,removals=7,read-bytes=67108864,write-bytes=1048576";
        let read: StoreRates =
            "removals=7, read-bytes=64M,reads=5k,writes=20,write-bytes=1MiB,lists=1".parse().expect("rates");
        assert_eq!(read.to_string(), all);
        assert_eq!(all.parse(), Ok(read));
        let one: StoreRates = "reads=3".parse().expect("a rate");
        assert_eq!(one, StoreRates(Limits { reads_per_second: Some(3), ..Limits::default() }));
    }

    #[test]
    fn rates_at_which_no_job_gets_on_are_refused_with_one_at_which_all_do() {
        let rates = |text: &str| text.parse::<StoreRates>().expect(text);
        for (text, jobs) in [("lists=1", 256), ("reads=1,writes=1", 30), ("write-bytes=1M", 3)] {
            assert_eq!(rates(text).check_jobs(jobs), Ok(()), "{text}");
        }
        for (text, jobs, wait, enough) in [
            ("write-bytes=1M", 16, 128, "write-bytes=4473925"),
            ("reads=1", 256, 256, "reads=9"),
            ("write-bytes=1T,writes=2", 100, 50, "writes=4"),
        ] {
            let refusal = rates(text).check_jobs(jobs).expect_err(text);
            assert!(refusal.contains(&format!("up to {wait} s")) && refusal.contains(enough), "{refusal}");
            assert_eq!(rates(enough).check_jobs(jobs), Ok(()));
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_with_what_is_expected() {
        for (text, words) in [
            ("", "expected NAME=NUMBER"),
            ("reads", "expected NAME=NUMBER"),
            ("reads=0", "1 to 1M requests"),
            ("writes=-5", "1 to 1M requests"),
            ("lists=2M", "1 to 1M requests"),
            ("removals=x", "1 to 1M requests"),
            ("read-bytes=1k", "1M to 1T bytes"),
            ("write-bytes=-1M", "1M to 1T bytes"),
            ("puts=1", "there are reads, writes, lists"),
            ("reads=1,reads=2", "said twice"),
            ("reads=1,", "expected NAME=NUMBER"),
        ] {
            let said = text.parse::<StoreRates>().expect_err(text);
            assert!(said.contains(words), "{text}: {said}");
        }
    }
}
