//! How many passed and how many failed.

use std::fmt;
use std::ops::AddAssign;

/// Counts of tests, or of steps that are one test each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Tally {
    /// One thing that passed or failed.
    pub(crate) fn one(is_good: bool) -> Self {
        Self { passed: u64::from(is_good), failed: u64::from(!is_good) }
    }

    /// The counts in a line that cargo's test runner prints at the end of each binary, if it is
    /// one.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let counts = line.trim().strip_prefix("test result: ")?;
        let count = |word: &str| {
            let (before, _) = counts.split_once(word)?;
            before.trim_end().rsplit(' ').next()?.parse().ok()
        };
        Some(Self { passed: count("passed")?, failed: count("failed")? })
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn result_lines_are_read_and_others_are_not() {
        let line = "test result: FAILED. 25 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.13s";
        assert_eq!(Tally::from_line(line), Some(Tally { passed: 25, failed: 1 }));
        assert_eq!(Tally::from_line("test result_lines ... ok"), None);
        let mut sum = Tally::one(true);
        sum += Tally { passed: 2, failed: 1 };
        assert_eq!(sum.to_string(), "3 passed, 1 failed");
    }
}
