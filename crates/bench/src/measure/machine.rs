//! The machine results were made on.

use serde::{Deserialize, Serialize};

/// What a reader needs to know to judge figures made here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model.
    pub processor: String,
    /// Processors this process may use.
    pub processors: usize,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// Kernel name and release.
    pub kernel: String,
    /// When the run began, UTC.
    pub date: String,
}

impl Machine {
    /// This machine, now.
    pub fn here() -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = value_after(&cpuinfo, "model name", ':').unwrap_or("unknown processor").to_owned();
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory_kib = value_after(&meminfo, "MemTotal", ':')
            .and_then(|text| text.split_whitespace().next())
            .and_then(|number| number.parse::<u64>().ok())
            .unwrap_or(0);
        let system = rustix::system::uname();
        Self {
            processor,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_kib * 1024,
            kernel: format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
            date: super::wall_clock_text(),
        }
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let gib = self.memory_bytes as f64 / (1u64 << 30) as f64;
        format!("{} x {}, {gib:.0} GiB, {}, {} UTC", self.processors, self.processor, self.kernel, self.date)
    }
}

fn value_after<'t>(text: &'t str, name: &str, separator: char) -> Option<&'t str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(separator).map(|(_, value)| value.trim())
}
