//! What the kernel says about this process and the machine around it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time at one moment: of this process, and of everything on the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuUse {
    /// User and system time of all threads of this process.
    pub process: Duration,
    /// Time all processors spent working, for any process; zero where the kernel does not say.
    pub machine_busy: Duration,
}

impl CpuUse {
    /// Processor time used up to now.
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let process = Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0));
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        Self { process, machine_busy: machine_busy(&stat) }
    }

    /// What was used since `earlier`.
    #[must_use]
    pub fn since(self, earlier: CpuUse) -> CpuUse {
        CpuUse {
            process: self.process.saturating_sub(earlier.process),
            machine_busy: self.machine_busy.saturating_sub(earlier.machine_busy),
        }
    }
}

/// Processor time of another process at one moment, all its threads together, including ended ones;
/// in steps of the kernel's clock tick, 10 ms mostly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCpu {
    /// In its own code.
    pub user: Duration,
    /// In the kernel, for it.
    pub system: Duration,
}

impl ProcessCpu {
    /// What process `pid` has used up to now.
    ///
    /// # Errors
    /// If there is no such process, or the kernel does not say.
    pub fn of(pid: u32) -> std::io::Result<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let ticks_per_s = rustix::param::clock_ticks_per_second();
        process_cpu(&stat, ticks_per_s).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
    }

    /// What was used since `earlier`.
    #[must_use]
    pub fn since(self, earlier: ProcessCpu) -> ProcessCpu {
        ProcessCpu {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// The 14th and 15th field of `/proc/PID/stat`, in ticks; the second is a name in parentheses that
/// may hold anything.
fn process_cpu(stat: &str, ticks_per_s: u64) -> Option<ProcessCpu> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut time = || {
        let ticks: u64 = fields.next()?.parse().ok()?;
        Some(Duration::from_secs_f64(ticks as f64 / ticks_per_s.max(1) as f64))
    };
    Some(ProcessCpu { user: time()?, system: time()? })
}

/// Sum of user, nice, system, irq, softirq and steal of the first line of `/proc/stat`, in ticks of
/// 10 ms.
fn machine_busy(stat: &str) -> Duration {
    let Some(line) = stat.lines().next() else { return Duration::ZERO };
    let fields: Vec<u64> = line.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
    let ticks: u64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|index| fields.get(*index)).sum();
    Duration::from_millis(ticks * 10)
}

/// Bytes this process moved, as the kernel counts them; zeros where it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoBytes {
    /// Bytes that came from a block device.
    pub read: u64,
    /// Bytes that will go to a block device (counted when a page is dirtied).
    pub written: u64,
}

impl IoBytes {
    /// Bytes moved up to now.
    pub fn now() -> Self {
        let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        Self { read: field(&text, "read_bytes:"), written: field(&text, "write_bytes:") }
    }

    /// What was moved since `earlier`.
    #[must_use]
    pub fn since(self, earlier: IoBytes) -> IoBytes {
        IoBytes {
            read: self.read.saturating_sub(earlier.read),
            written: self.written.saturating_sub(earlier.written),
        }
    }
}

/// Highest resident memory of this process since [`reset_peak_memory`], mapped files included.
pub fn peak_memory_bytes() -> u64 {
    field(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), "VmHWM:") * 1024
}

/// Anonymous resident memory of this process, what is mapped from files left out.
pub fn anonymous_bytes() -> u64 {
    field(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), "RssAnon:") * 1024
}

/// Open descriptors of this process; 0 where the kernel does not say.
pub fn descriptor_count() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64)
}

/// Makes the present resident memory the new peak, where the kernel allows that; tells whether it
/// did.
pub fn reset_peak_memory() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// The number after `name` in a file of `name value` lines; 0 if there is none.
fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_leaves_out_idle_and_waiting() {
        let stat = "cpu  100 20 30 5000 600 7 8 9 0 0\ncpu0 1 2 3\n";
        assert_eq!(machine_busy(stat), Duration::from_millis((100 + 20 + 30 + 7 + 8 + 9) * 10));
    }

    #[test]
    fn processor_time_of_a_process_is_found_behind_its_name() {
        let stat = "7 (a) 1 2 ) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 9 9 20 0 4 0 123";
        let (user, system) = (Duration::from_millis(2_500), Duration::from_millis(500));
        assert_eq!(process_cpu(stat, 100), Some(ProcessCpu { user, system }));
        assert_eq!(process_cpu("7 (a) S 1 2", 100), None);
        assert!(ProcessCpu::of(std::process::id()).is_ok());
        assert!(ProcessCpu::of(u32::MAX).is_err());
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        assert_eq!(field("rchar: 5\nread_bytes: 42\n", "read_bytes:"), 42);
        assert_eq!(field("VmHWM:\t  123 kB\n", "VmHWM:"), 123);
        assert_eq!(field("", "VmHWM:"), 0);
    }

    #[test]
    fn working_uses_processor_time() {
        let before = CpuUse::now();
        let sum = (0..20_000_000u64).fold(0u64, |sum, i| std::hint::black_box(sum ^ i));
        std::hint::black_box(sum);
        assert!(CpuUse::now().since(before).process > Duration::from_millis(1));
    }
}
