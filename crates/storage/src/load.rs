//! How much of the processors a process takes.

use std::fmt;
use std::thread::available_parallelism;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Tells what this process takes of its processors, so that a test can say it.
pub trait Load: Send + Sync + fmt::Debug {
    /// Processor time that all threads of this process have taken so far; never goes back.
    fn used(&self) -> Duration;

    /// Processors that this process may use.
    fn processors(&self) -> f64;
}

/// What the system says. What other processes take it does not tell.
#[derive(Clone, Copy, Debug)]
pub struct ProcessLoad {
    processors: usize,
}

impl ProcessLoad {
    /// Counts the processors that this process is confined to now, by affinity and by limits of its
    /// group.
    pub fn new() -> Self {
        Self { processors: available_parallelism().map_or(1, usize::from) }
    }
}

impl Default for ProcessLoad {
    fn default() -> Self {
        Self::new()
    }
}

impl Load for ProcessLoad {
    fn used(&self) -> Duration {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    fn processors(&self) -> f64 {
        self.processors as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let load = ProcessLoad::new();
        let before = load.used();
        let mut sum = 0_u64;
        while load.used() < before + Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        assert!(load.processors() >= 1.0 && before > Duration::ZERO);
    }
}
