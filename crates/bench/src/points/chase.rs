//! What memory itself gives: two dependent reads for each operation, of as much memory as the store
//! takes.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;

use super::args::PointsArgs;
use super::phase::{CHUNK, Ticks};
use crate::distribution::fnv_hash_64;

/// Words of a cache line.
const LINE_WORDS: usize = 8;

/// Share of the memory that the first read goes to, as an index has.
const INDEX_SHARE: u64 = 3;

/// How long one is run.
const RUN: Duration = Duration::from_secs(1);

/// Two tables: what the first one holds leads to a line of the second.
pub(super) struct Chase {
    index: Vec<u64>,
    records: Vec<u64>,
}

impl Chase {
    /// Tables of `bytes` together, with contents that follow from `seed`.
    pub(super) fn new(bytes: u64, seed: u64) -> Self {
        let words = |bytes: u64| (bytes / 8).max(LINE_WORDS as u64) as usize;
        let (first, second) = (words(bytes / INDEX_SHARE), words(bytes - bytes / INDEX_SHARE));
        let mut random = Rng::with_seed(seed);
        let lines = (second / LINE_WORDS) as u64;
        Self {
            index: (0..first).map(|_| random.u64(..lines)).collect(),
            records: (0..second as u64).collect(),
        }
    }

    /// Operations for each second of processor time, all threads asking for `keys` at once.
    pub(super) fn run(&self, keys: &[u64], args: &PointsArgs) -> f64 {
        let next = AtomicU64::new(0);
        let sum = AtomicU64::new(0);
        let ticks = Ticks::new(RUN);
        let measured = ticks.measure(args.threads(), &|is_over, done| {
            let mut found = 0_u64;
            while !is_over() {
                let at = next.fetch_add(CHUNK as u64, Ordering::Relaxed) as usize % keys.len();
                let chunk = &keys[at..(at + CHUNK).min(keys.len())];
                for key in chunk {
                    found = found.wrapping_add(self.read(*key));
                }
                done.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            }
            sum.fetch_add(found, Ordering::Relaxed);
            Ok(())
        });
        black_box(sum.into_inner());
        measured.map_or(f64::NAN, |measured| measured.per_cpu_second())
    }

    #[inline]
    fn read(&self, key: u64) -> u64 {
        let line = self.index[(fnv_hash_64(key) % self.index.len() as u64) as usize];
        self.records[line as usize * LINE_WORDS]
    }
}
