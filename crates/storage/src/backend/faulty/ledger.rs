//! What each file takes of the limited space, and whether its syncs can still be believed.

use std::collections::BTreeMap;

/// All files that were created, opened for writing or counted for the limit.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    numbers: BTreeMap<String, u64>,
    files: BTreeMap<u64, FileState>,
    next_number: u64,
    /// How much the files may take in sum; none = as much as they want.
    capacity_bytes: Option<u64>,
}

#[derive(Debug, Default)]
struct FileState {
    held_bytes: u64,
    is_sync_lost: bool,
}

impl Ledger {
    /// The number of the file called `name` now.
    pub(super) fn file(&mut self, name: &str) -> u64 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.next_number += 1;
        self.numbers.insert(name.to_owned(), self.next_number);
        self.files.insert(self.next_number, FileState::default());
        self.next_number
    }

    pub(super) fn limit(&mut self, bytes: Option<u64>, files: &[(String, u64)]) {
        for (name, len) in files {
            let number = self.file(name);
            self.hold(number, *len);
        }
        self.capacity_bytes = bytes.map(|bytes| self.held().saturating_add(bytes));
    }

    /// How much the files may still grow, if that is limited.
    pub(super) fn free(&self) -> Option<u64> {
        self.capacity_bytes.map(|capacity| capacity.saturating_sub(self.held()))
    }

    pub(super) fn has_space_for(&self, bytes: u64) -> bool {
        self.free().is_none_or(|free| bytes <= free)
    }

    /// Takes space for the file to reach to `end`, or as far as it goes; says how far that is.
    pub(super) fn grow(&mut self, number: u64, end: u64) -> u64 {
        let free = self.free().unwrap_or(u64::MAX);
        let Some(file) = self.files.get_mut(&number) else { return end };
        let reached = end.min(file.held_bytes.saturating_add(free));
        file.held_bytes = file.held_bytes.max(reached);
        reached
    }

    pub(super) fn cut(&mut self, number: u64, len: u64) {
        if let Some(file) = self.files.get_mut(&number) {
            file.held_bytes = file.held_bytes.min(len);
        }
    }

    pub(super) fn published(&mut self, name: &str, bytes: u64) {
        let number = self.file(name);
        self.hold(number, bytes);
    }

    pub(super) fn renamed(&mut self, from: &str, to: &str) {
        if let Some(number) = self.numbers.remove(from) {
            self.numbers.insert(to.to_owned(), number);
        }
    }

    pub(super) fn removed(&mut self, name: &str) {
        if let Some(number) = self.numbers.remove(name)
            && let Some(file) = self.files.get_mut(&number)
        {
            // Kept for handles that still have it open; it takes no space any more.
            file.held_bytes = 0;
        }
    }

    pub(super) fn lose_sync(&mut self, number: u64) {
        if let Some(file) = self.files.get_mut(&number) {
            file.is_sync_lost = true;
        }
    }

    pub(super) fn is_sync_lost(&self, number: u64) -> bool {
        self.files.get(&number).is_some_and(|file| file.is_sync_lost)
    }

    fn hold(&mut self, number: u64, bytes: u64) {
        if let Some(file) = self.files.get_mut(&number) {
            file.held_bytes = file.held_bytes.max(bytes);
        }
    }

    fn held(&self) -> u64 {
        self.files.values().map(|file| file.held_bytes).sum()
    }
}
