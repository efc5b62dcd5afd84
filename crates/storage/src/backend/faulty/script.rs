//! Which operations fail, when, and how.

use std::time::Duration;

use crate::ErrorKind;

/// What can be asked of a backend or of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is named after the method it stands for")]
pub enum Operation {
    Create,
    OpenWrite,
    OpenRead,
    Publish,
    Rename,
    Remove,
    List,
    ListUploads,
    AbortUpload,
    SyncDir,
    Lock,
    LinkInto,
    Write,
    Sync,
    WriteBack,
    Allocate,
    SetLen,
    Read,
    Bytes,
}

impl Operation {
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::OpenWrite | Self::OpenRead => "open",
            Self::Publish => "publish",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::List => "list",
            Self::ListUploads => "list the uploads",
            Self::AbortUpload => "abort the upload",
            Self::SyncDir => "sync the directory",
            Self::Lock => "lock",
            Self::LinkInto => "link",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::WriteBack => "write back",
            Self::Allocate => "allocate",
            Self::SetLen => "set the length",
            Self::Read => "read",
            Self::Bytes => "map",
        }
    }
}

/// One line of the script.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The operation that it strikes.
    pub on: Operation,
    /// The files that it strikes: a name where each `*` stands for any run of characters.
    /// Operations on the directory itself have the empty name, which `*` matches.
    pub file: String,
    /// Which of the matching operations it strikes.
    pub when: When,
    /// What it does to them.
    pub effect: Effect,
}

/// Which of the operations that match a fault it strikes, counted from its injection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The one after `after` others; `after: 0` is the next one.
    Once {
        /// How many pass before.
        after: u64,
    },
    /// All after the first `after`.
    Always {
        /// How many pass before.
        after: u64,
    },
    /// About one in `calls`, as `seed` draws them.
    OneIn {
        /// How many there are to one that is struck.
        calls: u64,
        /// Which ones.
        seed: u64,
    },
}

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing is done, and this is the error. A failed sync loses what was not synced, for good.
    Fail(ErrorKind),
    /// All is done, and yet this is the error.
    FailAfter(ErrorKind),
    /// A write does its first `bytes` bytes and fails. Operations other than writes do nothing and
    /// fail.
    ShortWrite {
        /// How many bytes are written.
        bytes: usize,
        /// The error.
        kind: ErrorKind,
    },
    /// A write happens with a bit of its last byte turned, and says that all is well. Operations
    /// other than writes happen as they should.
    Turn,
    /// It takes that much longer, and happens. Delays add up, with one another and with one other
    /// effect.
    Delay(Duration),
}

/// A fault and what it has met.
#[derive(Debug)]
pub(super) struct Armed {
    fault: Fault,
    met: u64,
    pub(super) struck: u64,
}

impl Armed {
    pub(super) fn new(fault: Fault) -> Self {
        Self { fault, met: 0, struck: 0 }
    }

    /// What this fault does to the operation, if it strikes it.
    pub(super) fn meet(&mut self, on: Operation, file: &str) -> Option<Effect> {
        if on != self.fault.on || !matches(self.fault.file.as_bytes(), file.as_bytes()) {
            return None;
        }
        let before = self.met;
        self.met += 1;
        let strikes = match self.fault.when {
            When::Once { after } => before == after,
            When::Always { after } => before >= after,
            When::OneIn { calls, seed } => {
                fastrand::Rng::with_seed(seed ^ before.wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..calls) == 0
            }
        };
        self.struck += u64::from(strikes);
        strikes.then_some(self.fault.effect)
    }
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|skip| matches(rest, &name[skip..])),
        Some((byte, rest)) => {
            name.split_first().is_some_and(|(first, name)| first == byte && matches(rest, name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_match_any_run() {
        let cases = [
            ("*", "", true),
            ("*", "a.log", true),
            ("*.log", "0001.log", true),
            ("*.log", "0001.log.old", false),
            ("0*.t*e", "01.table", true),
            ("a", "ab", false),
            ("", "a", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
