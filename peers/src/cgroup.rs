//! Memory limits through control groups, version 1 or 2, below the group this process is in.

use std::path::{Path, PathBuf};

use firn_engine::{Error, ErrorKind, Result};

/// What names of groups begin with; the number of the process that made the group follows.
const PREFIX: &str = "firn-compare-";

/// A group whose processes share a memory limit, page cache included.
#[derive(Clone, Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Creates a group for `name`, limited to `limit_bytes`; groups of comparisons that were killed
    /// are removed.
    ///
    /// # Errors
    /// `Invalid` if this host has no writable memory controller; the message says which step
    /// failed.
    pub fn create(name: &str, limit_bytes: u64) -> Result<Self> {
        let parent = parent_group()?;
        remove_left_overs(&parent);
        let group = Self { path: parent.join(format!("{PREFIX}{}-{name}", std::process::id())) };
        group.attempt("create", std::fs::create_dir(&group.path))?;
        let file = if group.is_version_2() { "memory.max" } else { "memory.limit_in_bytes" };
        if let Err(error) =
            group.attempt("limit", std::fs::write(group.path.join(file), limit_bytes.to_string()))
        {
            group.remove();
            return Err(error);
        }
        // Without swap where the kernel counts it: swapping would hide that the limit was hit.
        let swap = if group.is_version_2() {
            ("memory.swap.max", 0)
        } else {
            ("memory.memsw.limit_in_bytes", limit_bytes)
        };
        let _ = std::fs::write(group.path.join(swap.0), swap.1.to_string());
        Ok(group)
    }

    /// A group that exists.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where the group is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves this process into the group.
    ///
    /// # Errors
    /// `Invalid` if the kernel refuses.
    pub fn join(&self) -> Result<()> {
        self.attempt("join", std::fs::write(self.path.join("cgroup.procs"), "0"))
    }

    /// Highest memory use of the group, page cache included, since the last reset; 0 if unknown.
    pub fn peak_bytes(&self) -> u64 {
        ["memory.max_usage_in_bytes", "memory.peak"]
            .iter()
            .find_map(|file| std::fs::read_to_string(self.path.join(file)).ok()?.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Makes the present use the new peak, where the kernel can.
    pub fn reset_peak(&self) {
        let file = if self.is_version_2() { "memory.peak" } else { "memory.max_usage_in_bytes" };
        let _ = std::fs::write(self.path.join(file), "0");
    }

    /// Removes the group, whose processes are gone.
    pub fn remove(&self) {
        // Version 1 keeps a group's page cache charged to it until told otherwise.
        let _ = std::fs::write(self.path.join("memory.force_empty"), "0");
        let _ = std::fs::remove_dir(&self.path);
    }

    fn is_version_2(&self) -> bool {
        !self.path.join("memory.limit_in_bytes").exists()
    }

    fn attempt(&self, what: &str, result: std::io::Result<()>) -> Result<()> {
        result.map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("cannot {what} memory group {}", self.path.display()))
                .because(error)
        })
    }
}

/// Removes empty groups whose makers are gone; the kernel keeps those that have processes.
fn remove_left_overs(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let maker =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if maker.is_some_and(|maker| !Path::new(&format!("/proc/{maker}")).exists()) {
            Cgroup::at(entry.path()).remove();
        }
    }
}

/// The directory of the group this process is in, under the memory controller.
fn parent_group() -> Result<PathBuf> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    group_dir(&own)
        .into_iter()
        .find(|dir| dir.is_dir())
        .ok_or_else(|| Error::invalid("no memory controller is mounted"))
}

/// Candidates, best first, from the text of `/proc/self/cgroup`.
fn group_dir(own: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let path = path.trim_start_matches('/');
        if controllers.split(',').any(|controller| controller == "memory") {
            found.insert(0, Path::new("/sys/fs/cgroup/memory").join(path));
        } else if controllers.is_empty() && !path.is_empty() {
            // Version 2 forbids groups below one that has processes itself, so the group goes
            // beside ours.
            let dir = Path::new("/sys/fs/cgroup").join(path);
            found.extend(dir.parent().map(Path::to_path_buf));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_groups_go_below_the_own_one() {
        let own = "5:devices:/\n4:memory:/some/group\n0::/\n";
        assert_eq!(group_dir(own), [PathBuf::from("/sys/fs/cgroup/memory/some/group")]);
        assert_eq!(group_dir("4:cpu,memory:/\n"), [PathBuf::from("/sys/fs/cgroup/memory")]);
    }

    #[test]
    fn version_2_groups_go_beside_the_own_one() {
        assert_eq!(group_dir("0::/user.slice/me.scope\n"), [PathBuf::from("/sys/fs/cgroup/user.slice")]);
        assert!(group_dir("").is_empty());
    }
}
