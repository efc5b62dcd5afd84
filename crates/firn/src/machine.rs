//! What this process may use of the machine's memory: the one thing the facade asks the system
//! about.

use std::path::{Path, PathBuf};

/// Bytes of files that the system can keep in memory for this process beside `memory_bytes` of its
/// own, as the setting `page_cache_bytes` takes them: 0 where the system reports no limit.
///
/// Seven eighths of the least of the machine's memory and the limits of the process's control
/// groups, less `memory_bytes`. Asked once, when a database is opened: a limit lowered later is not
/// seen.
pub(crate) fn page_cache_bytes(memory_bytes: u64) -> u64 {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    match memory_limit(&read) {
        Some(limit) => (limit - limit / 8).saturating_sub(memory_bytes).clamp(1, PAGE_CACHE_BYTES_MAX),
        None => 0,
    }
}

/// As much as may be set.
const PAGE_CACHE_BYTES_MAX: u64 = 1 << 50;

/// The least limit that `read`, which gives a file's text, tells of.
fn memory_limit(read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(limit_files).filter_map(|path| read(&path)?.trim().parse().ok());
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| total(&text));
    limits.chain(machine).min()
}

/// Files that may hold the memory limit of one line of `/proc/self/cgroup`
/// (`number:controllers:path`), from the group to the root.
fn limit_files(line: &str) -> Vec<PathBuf> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { return Vec::new() };
    let (roots, file): (&[&str], _) = match controllers {
        "" => (&["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], "memory.max"),
        _ if controllers.split(',').any(|controller| controller == "memory") => {
            (&["/sys/fs/cgroup/memory"], "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let groups = Path::new(path.trim_start_matches('/')).ancestors();
    groups.flat_map(|group| roots.iter().map(move |root| Path::new(root).join(group).join(file))).collect()
}

/// Bytes of memory that `/proc/meminfo` says the machine has.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        memory_limit(&|path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    const MEMINFO: (&str, &str) = ("/proc/meminfo", "MemTotal:       24576000 kB\nMemFree: 1 kB\n");

    #[test]
    fn a_machine_without_groups_has_its_memory() {
        assert_eq!(limit(&[MEMINFO]), Some(24_576_000 << 10));
        assert_eq!(limit(&[]), None);
    }

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let unified = [
            MEMINFO,
            ("/proc/self/cgroup", "0::/outer/inner\n"),
            ("/sys/fs/cgroup/outer/inner/memory.max", "max\n"),
            ("/sys/fs/cgroup/outer/memory.max", "268435456\n"),
        ];
        assert_eq!(limit(&unified), Some(256 << 20));
        let first_version = [
            MEMINFO,
            ("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/here\n0::/\n"),
            ("/sys/fs/cgroup/memory/here/memory.limit_in_bytes", "1073741824\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        assert_eq!(limit(&first_version), Some(1 << 30));
    }

    #[test]
    fn an_eighth_is_left_to_others() {
        let here = page_cache_bytes(0);
        assert!(here > 0 && page_cache_bytes(u64::MAX) == 1);
        assert!(page_cache_bytes(1 << 20) <= here);
    }
}
