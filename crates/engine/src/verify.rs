//! What a verification of a database finds.

use std::fmt;

/// How far a verification has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Bytes read and checked so far.
    pub bytes_done: u64,
    /// Bytes there are to read. Some may count twice: they are compared with one another.
    pub bytes_total: u64,
}

/// What a finding means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something the database promises to hold is missing or is not what was written.
    Damage,
    /// Bytes that belong to nothing (an unfinished job, the tail a crash left); the next opening
    /// for writing removes or ignores them.
    Leftover,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it matters.
    pub severity: Severity,
    /// Name of the file in the database's directory.
    pub file: String,
    /// Byte offset in the file, where known.
    pub offset: Option<u64>,
    /// What was expected and what was found, one line.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Damage => "damage",
            Severity::Leftover => "leftover",
        };
        write!(f, "{severity}: {}", self.file)?;
        if let Some(offset) = self.offset {
            write!(f, " at offset {offset}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyTotals {
    /// Files in the directory, the lock file included.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Keyspaces the manifest names.
    pub keyspaces: u64,
    /// Manifest edits.
    pub manifest_edits: u64,
    /// Log segments that belong to the log.
    pub log_segments: u64,
    /// Records in the log; of the ordered engine those that are in no table yet.
    pub log_records: u64,
    /// Redo logs of the hashed engine that count.
    pub redo_logs: u64,
    /// Changes in them.
    pub redo_changes: u64,
    /// Tables the manifest names.
    pub tables: u64,
    /// Entries in them that were read; range tombstones not included.
    pub table_entries: u64,
    /// Blob segments the manifest names.
    pub blob_segments: u64,
    /// Values in them that something refers to; of the hashed engine those that lie alone.
    pub values: u64,
    /// Tables whose filter of prefixes was not checked because its extractor is not known here.
    pub prefix_filters_unchecked: u64,
    /// Findings beyond the number that a report keeps.
    pub findings_left_out: u64,
}

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// In the order in which they were found; at most 1000.
    pub findings: Vec<Finding>,
    /// How much was looked at.
    pub totals: VerifyTotals,
    /// Names of all keyspaces.
    pub keyspaces: Vec<String>,
}

/// Most findings that a report keeps.
const FINDINGS_MAX: usize = 1000;

impl VerifyReport {
    /// Adds a finding, or counts it where there are too many to keep.
    pub fn note(&mut self, severity: Severity, file: &str, offset: Option<u64>, message: impl Into<String>) {
        if self.findings.len() >= FINDINGS_MAX {
            self.totals.findings_left_out += 1;
            return;
        }
        self.findings.push(Finding { severity, file: file.to_owned(), offset, message: message.into() });
    }

    /// Whether there is no damage; leftovers do not count.
    pub fn is_sound(&self) -> bool {
        self.damage().next().is_none() && self.totals.findings_left_out == 0
    }

    /// The findings that are damage.
    pub fn damage(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Damage)
    }
}
