//! What was asked of a backend.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use super::Operation;

/// How often something was asked, and for how many bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Calls, failed ones included.
    pub operations: u64,
    /// Bytes really moved; only writes, publications and reads move any. What is read through
    /// mapped memory is not seen.
    pub bytes: u64,
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
    }
}

/// Counts by operation and by what a file's name ends in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    counts: BTreeMap<(Operation, String), Count>,
}

impl Counters {
    /// How often `operation` was asked.
    pub fn of(&self, operation: Operation) -> Count {
        self.sum(|on, _| on == operation)
    }

    /// How often `operation` was asked of files whose name ends in a dot and `extension`.
    pub fn of_extension(&self, operation: Operation, extension: &str) -> Count {
        self.sum(|on, of| on == operation && of == extension)
    }

    /// All bytes written and published.
    pub fn bytes_written(&self) -> u64 {
        self.of(Operation::Write).bytes + self.of(Operation::Publish).bytes
    }

    /// What was counted since these counters were as `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |(key, count): (&(Operation, String), &Count)| {
            let before = earlier.counts.get(key).copied().unwrap_or_default();
            let operations = count.operations.saturating_sub(before.operations);
            (key.clone(), Count { operations, bytes: count.bytes.saturating_sub(before.bytes) })
        };
        Self { counts: self.counts.iter().map(less).collect() }
    }

    pub(super) fn add(&mut self, operation: Operation, file: &str, count: Count) {
        let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
        *self.counts.entry((operation, extension.to_owned())).or_default() += count;
    }

    fn sum(&self, which: impl Fn(Operation, &str) -> bool) -> Count {
        let mut sum = Count::default();
        for ((operation, extension), count) in &self.counts {
            if which(*operation, extension) {
                sum += *count;
            }
        }
        sum
    }
}
