//! Clocks that jump: time as a worker, a control plane and a machine with the database see it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::text;

/// The clocks of processes and machines that have their own, by name; without the library that
/// fakes time there are none.
pub(super) struct Clocks {
    /// The library, and the directory of the files that say by how much each clock is wrong.
    faked: Option<(PathBuf, PathBuf)>,
}

/// The library that fakes the time of a process whose clock jumps: libfaketime, of Debian's package
/// faketime.
pub(super) fn fake_time() -> Option<PathBuf> {
    let machines = std::fs::read_dir("/usr/lib").ok()?.flatten();
    machines.map(|machine| machine.path().join("faketime/libfaketime.so.1")).find(|path| path.exists())
}

/// How far a clock may be wrong, in minutes, for a store to answer: it denies clients that are
/// wrong by more than 15.
const ANSWERED_MAX: i64 = 14;
/// How far a clock may jump either way, in minutes.
const MINUTES_MAX: i64 = 40 * 60;

impl Clocks {
    /// Right ones, whose files lie in `directory`.
    pub(super) fn new(directory: &Path) -> Self {
        Self { faked: fake_time().map(|library| (library, directory.to_owned())) }
    }

    pub(super) fn can_jump(&self) -> bool {
        self.faked.is_some()
    }

    /// The clock of `whose` is wrong by another time within a second, by so much at most that a
    /// store answers unless it jumps `far`.
    pub(super) fn jump(&self, whose: &str, far: bool, random: &mut fastrand::Rng) {
        let most = if far { MINUTES_MAX } else { ANSWERED_MAX };
        self.set(whose, random.i64(-most..=most));
    }

    /// The clock of `whose` is right within a second.
    pub(super) fn set_right(&self, whose: &str) {
        self.set(whose, 0);
    }

    fn set(&self, whose: &str, minutes: i64) {
        if let Some((_, directory)) = &self.faked {
            std::fs::write(directory.join(file(whose)), format!("{minutes:+}m\n")).expect("written");
        }
    }

    /// `command`, that of `whose`, sees a clock of its own, as wrong as it was before if there was
    /// one, where clocks can jump.
    pub(super) fn give(&self, whose: &str, command: &mut Command) {
        let Some((library, directory)) = &self.faked else { return };
        let file = directory.join(file(whose));
        if !file.exists() {
            self.set(whose, 0);
        }
        command.envs([
            ("LD_PRELOAD", text(library)),
            ("FAKETIME_TIMESTAMP_FILE", text(&file)),
            ("FAKETIME_CACHE_DURATION", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]);
    }

    /// Expects that process `id` sees a clock of its own just if it `has_one`. A library that
    /// cannot be loaded is passed over without a word.
    pub(super) fn expect(&self, id: u32, has_one: bool) {
        let maps = std::fs::read_to_string(format!("/proc/{id}/maps")).expect("it runs");
        assert_eq!(
            maps.contains("libfaketime"),
            has_one && self.can_jump(),
            "the time of process {id} is faked"
        );
    }
}

fn file(whose: &str) -> String {
    format!("clock-of-{whose}")
}
