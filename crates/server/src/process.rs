//! What the system knows of this process.

use std::fs::read_to_string;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Processor seconds of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CpuTime {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    pub(crate) children_user_s: f64,
    pub(crate) children_system_s: f64,
}

/// The memory that this process has, and the machine; bytes, 0 where the system does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) resident_bytes: u64,
    pub(crate) resident_bytes_peak: u64,
    /// Of the resident bytes, those that are the process's own: what it has allocated.
    pub(crate) anonymous_bytes: u64,
    /// The others: pages of files, which the system takes back when it needs them.
    pub(crate) mapped_bytes: u64,
    pub(crate) machine_bytes: u64,
}

/// Asks for processor times.
pub(crate) fn cpu_time() -> CpuTime {
    let stat = read_to_string("/proc/self/stat").unwrap_or_default();
    cpu_time_of(&stat, rustix::param::clock_ticks_per_second() as f64)
}

/// The times in a line of `/proc/self/stat`: the name, which may hold anything, ends with the last
/// bracket.
fn cpu_time_of(stat: &str, ticks_per_second: f64) -> CpuTime {
    const FIRST: usize = 11;
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    let mut seconds = fields.split_whitespace().skip(FIRST).map(|ticks| {
        let ticks: f64 = ticks.parse().unwrap_or(0.0);
        ticks / ticks_per_second
    });
    let mut next = || seconds.next().unwrap_or(0.0);
    CpuTime { user_s: next(), system_s: next(), children_user_s: next(), children_system_s: next() }
}

/// Asks for memory.
pub(crate) fn memory() -> Memory {
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    let machine = read_to_string("/proc/meminfo").unwrap_or_default();
    Memory {
        resident_bytes: kib(&status, "VmRSS:") << 10,
        resident_bytes_peak: kib(&status, "VmHWM:") << 10,
        anonymous_bytes: kib(&status, "RssAnon:") << 10,
        mapped_bytes: (kib(&status, "RssFile:") + kib(&status, "RssShmem:")) << 10,
        machine_bytes: kib(&machine, "MemTotal:") << 10,
    }
}

/// The number after `name` in a file of lines.
fn kib(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Lets this process have `count` open files and connections, or as many as it may without
/// privileges; how many that is. Shells hand out few, of which a server would be full at a tenth of
/// its clients.
pub fn raise_descriptor_limit(count: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(count, |maximum| count.min(maximum));
    let now = current.unwrap_or(u64::MAX);
    if now >= wanted {
        return now;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }) {
        Ok(()) => wanted,
        Err(_) => now,
    }
}

/// Name and release of the system, and its processor.
pub(crate) fn system() -> String {
    let uname = rustix::system::uname();
    let (name, release, machine) = (uname.sysname(), uname.release(), uname.machine());
    format!("{} {} {}", name.to_string_lossy(), release.to_string_lossy(), machine.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let line = "7 (a) b) c) R 1 7 7 0 -1 4194304 1 0 0 0 250 125 50 25 20 0 3";
        let expected = CpuTime { user_s: 2.5, system_s: 1.25, children_user_s: 0.5, children_system_s: 0.25 };
        assert_eq!(cpu_time_of(line, 100.0), expected);
        assert_eq!(cpu_time_of("", 100.0), CpuTime::default());
    }

    #[test]
    fn this_process_has_memory() {
        let memory = memory();
        assert!(memory.resident_bytes > 1 << 20 && memory.resident_bytes_peak >= memory.resident_bytes / 2);
        assert!(memory.machine_bytes > memory.resident_bytes);
        assert!(memory.anonymous_bytes > 0 && memory.mapped_bytes > 0);
        assert!(system().starts_with("Linux "));
    }
}
