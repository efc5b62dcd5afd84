//! Names of the files of a database.
//!
//! ```text
//! LOCK                          taken by the process that has the database open
//! COMBINER                         bytes on their way into files
//! home                          identity of the directory, where only the log and what belongs to it lies there
//! manifest-<number>             a manifest edit; number in 16 hex digits
//! <base>.log                    a log segment; the log position of its byte 0 in 16 hex digits
//! <stem>-<index>.table          a table; stem chosen by its writer, index in 6 decimal digits or more
//! <stem>-<index>.tables         tables of several keyspaces, one after another; named alike
//! <number>.blobs               a blob segment that was written to; its number in 8 hex digits
//! <stem>-<index>.blobs         a blob segment that a GC made, named as tables are
//! <generation>-<number>.group   a log object; generation of its log and number in 16 hex digits each
//! <base>.hybrid                 a segment of a hybrid log; the address of its first word in 16 hex digits
//! <base>.cold                   a segment of a cold log; likewise
//! <number>.coldrun              a run of the index of a cold log; 16 hex digits
//! <generation>-<index>.redo     a redo log; its generation and number there in 16 hex digits each
//! <number>.value                a value that lies alone; its number in 16 hex digits
//! <from>-<to>-<generation>.hybrid  words of a hybrid log where other machines reach them; 16 hex digits each
//! <from>-<to>-<generation>.cold    of a cold log; likewise
//! ```
//! Hex digits are lower case, so names of one kind sort as their numbers do. Nothing in a file
//! depends on its name. Names are ASCII letters, digits, `.`, `-` and `_`, 1 to [`NAME_BYTES_MAX`]
//! bytes, no leading dot.
//!
//! A table has a name too: that of its file, or `FILE@OFFSET+BYTES` where it is a **part** of a
//! file with tables of several keyspaces. Both numbers have decimal digits. No file is ever called
//! so: a place is asked for FILE.

use std::fmt;

use crate::blob::SegmentNumber;
use crate::hybrid::{Extent, LogKind};
use crate::key::Position;

/// Longest name.
pub const NAME_BYTES_MAX: usize = 100;

/// Longest stem of a table's name: leaves room for the largest index.
pub const STEM_BYTES_MAX: usize = NAME_BYTES_MAX - "-.table".len() - 10;

/// A name that belongs to a database, taken apart.
///
/// Ordered by kind as listed, then by number: a listing sorted so has manifest edits and log
/// segments from old to new. `Display` gives the name; [`parse`] is its inverse.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// The lock file.
    Lock,
    /// Bytes on their way into files.
    Combiner,
    /// Identity of the directory.
    Home,
    /// Manifest edit with this number.
    ManifestEdit(u64),
    /// Log segment whose byte 0 has this log position.
    LogSegment(Position),
    /// The `index`th table that the writer called `stem` wrote.
    Table {
        /// Names the writer, such as a job and its attempt.
        stem: String,
        /// From 0.
        index: u32,
    },
    /// The `index`th file with tables of several keyspaces that the writer called `stem` wrote.
    Tables {
        /// Tells the writer.
        stem: String,
        /// From 0.
        index: u32,
    },
    /// Blob segment of this number, which writers have put values into.
    BlobSegment(SegmentNumber),
    /// The `index`th blob segment that the GC called `stem` made.
    CollectedBlobs {
        /// Names the GC that made it.
        stem: String,
        /// From 0.
        index: u32,
    },
    /// A log object.
    LogObject {
        /// Of the log.
        generation: u64,
        /// From 0.
        number: u64,
    },
    /// Segment of a hybrid log whose first word has this address.
    HybridSegment(u64),
    /// Segment of a cold log whose first word has this address.
    ColdSegment(u64),
    /// A run of the index of a cold log, by number.
    ColdRun(u64),
    /// A redo log.
    Redo {
        /// Grows with each checkpoint.
        generation: u64,
        /// From 0.
        index: u64,
    },
    /// A value that lies alone.
    Value(u64),
    /// Words of a log where other machines reach them.
    Extent(Extent),
}

/// Name of the lock file.
pub const LOCK: &str = "LOCK";

/// Name of the file in which bytes wait on their way into others.
pub const COMBINER: &str = "COMBINER";

/// Name of the file with the directory's identity.
pub const HOME: &str = "home";

/// Name of the log segment whose byte 0 has position `base`.
pub fn log_segment(base: Position) -> String {
    FileName::LogSegment(base).to_string()
}

/// Name of the segment of a hybrid log whose first word has the address `base`.
pub fn hybrid_segment(base: u64) -> String {
    FileName::HybridSegment(base).to_string()
}

/// Name of the segment of a cold log whose first word has the address `base`.
pub fn cold_segment(base: u64) -> String {
    FileName::ColdSegment(base).to_string()
}

/// Name of a run of the index of a cold log.
pub fn cold_run(number: u64) -> String {
    FileName::ColdRun(number).to_string()
}

/// Name of the `index`th redo log of `generation`.
pub fn redo(generation: u64, index: u64) -> String {
    FileName::Redo { generation, index }.to_string()
}

/// Name of the file of value `number`.
pub fn value(number: u64) -> String {
    FileName::Value(number).to_string()
}

/// Name of the file of `extent`.
pub fn extent(extent: Extent) -> String {
    FileName::Extent(extent).to_string()
}

/// Name of manifest edit `number`.
pub fn manifest_edit(number: u64) -> String {
    FileName::ManifestEdit(number).to_string()
}

/// Name of the `index`th table of the writer `stem`.
///
/// # Panics
/// If `stem` is empty, longer than [`STEM_BYTES_MAX`], or has a byte that a name may not have.
pub fn table(stem: &str, index: u32) -> String {
    assert!(is_stem(stem), "a stem has 1 to {STEM_BYTES_MAX} letters, digits, '-', '_' or '.', not {stem:?}");
    FileName::Table { stem: stem.to_owned(), index }.to_string()
}

/// Name of the `index`th file of the writer `stem` with tables of several keyspaces.
///
/// # Panics
/// As [`table`].
pub fn tables(stem: &str, index: u32) -> String {
    assert!(is_stem(stem), "a stem has 1 to {STEM_BYTES_MAX} letters, digits, '-', '_' or '.', not {stem:?}");
    FileName::Tables { stem: stem.to_owned(), index }.to_string()
}

/// Where a table lies that is part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'n> {
    /// The file's name.
    pub file: &'n str,
    /// Where in it the table begins.
    pub offset: u64,
    /// The table's length; at least 1.
    pub bytes: u64,
}

impl Part<'_> {
    /// The byte behind it.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}+{}", self.file, self.offset, self.bytes)
    }
}

/// Takes the name of a table apart that is part of a file; `None` for every other name. Only names
/// as written are taken.
pub fn part(name: &str) -> Option<Part<'_>> {
    let (file, place) = name.split_once('@')?;
    let (offset, bytes) = place.split_once('+')?;
    let (offset, bytes) = (offset.parse::<u64>().ok()?, bytes.parse::<u64>().ok()?);
    let part = Part { file, offset, bytes };
    let is_inside = bytes > 0 && offset.checked_add(bytes).is_some();
    (is_inside && is_valid(file) && part.to_string() == name).then_some(part)
}

/// The file that the table `name` lies in: the file of that name, or the file of which it is a
/// part.
pub fn file_of(name: &str) -> &str {
    part(name).map_or(name, |part| part.file)
}

/// Whether `name` can be the name of a table: a file's, or a part's.
pub fn is_table_name(name: &str) -> bool {
    is_valid(name) || part(name).is_some()
}

/// Name of the blob segment `number`, which writers put values into.
pub fn blob_segment(number: SegmentNumber) -> String {
    FileName::BlobSegment(number).to_string()
}

/// Name of the `index`th blob segment of the GC `stem`.
///
/// # Panics
/// As [`table`].
pub fn collected_blobs(stem: &str, index: u32) -> String {
    assert!(is_stem(stem), "a stem has 1 to {STEM_BYTES_MAX} letters, digits, '-', '_' or '.', not {stem:?}");
    FileName::CollectedBlobs { stem: stem.to_owned(), index }.to_string()
}

/// Name of log object `number` of the log's `generation`.
pub fn log_object(generation: u64, number: u64) -> String {
    FileName::LogObject { generation, number }.to_string()
}

/// Whether `name` can be the name of a file of a database, known or not; a name that passes leads
/// out of no directory.
pub fn is_valid(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('.')
}

fn is_stem(stem: &str) -> bool {
    stem.len() <= STEM_BYTES_MAX && is_valid(stem)
}

/// Takes `name` apart; `None` if this release writes no such name. Only names as written are taken:
/// one file has one name.
pub fn parse(name: &str) -> Option<FileName> {
    if !is_valid(name) {
        return None;
    }
    if name == LOCK {
        return Some(FileName::Lock);
    }
    if name == COMBINER {
        return Some(FileName::Combiner);
    }
    if name == HOME {
        return Some(FileName::Home);
    }
    if let Some(number) = name.strip_prefix("manifest-") {
        return hex16(number).map(FileName::ManifestEdit);
    }
    if let Some(base) = name.strip_suffix(".log") {
        return hex16(base).map(|base| FileName::LogSegment(Position(base)));
    }
    if let Some(name) = name.strip_suffix(".group") {
        let (generation, number) = name.split_once('-')?;
        return Some(FileName::LogObject { generation: hex16(generation)?, number: hex16(number)? });
    }
    if let Some(words) = name.strip_suffix(".hybrid") {
        let segment = hex16(words).map(FileName::HybridSegment);
        return segment.or_else(|| extent_of(LogKind::Hybrid, words).map(FileName::Extent));
    }
    if let Some(words) = name.strip_suffix(".cold") {
        let segment = hex16(words).map(FileName::ColdSegment);
        return segment.or_else(|| extent_of(LogKind::Cold, words).map(FileName::Extent));
    }
    if let Some(number) = name.strip_suffix(".coldrun") {
        return hex16(number).map(FileName::ColdRun);
    }
    if let Some(name) = name.strip_suffix(".redo") {
        let (generation, index) = name.split_once('-')?;
        return Some(FileName::Redo { generation: hex16(generation)?, index: hex16(index)? });
    }
    if let Some(number) = name.strip_suffix(".value") {
        return hex16(number).map(FileName::Value);
    }
    let parsed = if let Some(name) = name.strip_suffix(".table") {
        let (stem, index) = numbered(name)?;
        FileName::Table { stem, index }
    } else if let Some(name) = name.strip_suffix(".tables") {
        let (stem, index) = numbered(name)?;
        FileName::Tables { stem, index }
    } else {
        let name = name.strip_suffix(".blobs")?;
        match (numbered(name), hex(name, 8)) {
            (Some((stem, index)), _) => FileName::CollectedBlobs { stem, index },
            (None, number) => FileName::BlobSegment(SegmentNumber(u32::try_from(number?).ok()?)),
        }
    };
    (parsed.to_string() == name).then_some(parsed)
}

/// The extent of `log` whose name has these `words` in front of its ending.
fn extent_of(log: LogKind, words: &str) -> Option<Extent> {
    let (from, rest) = words.split_once('-')?;
    let (to, generation) = rest.split_once('-')?;
    Some(Extent { log, from: hex16(from)?, to: hex16(to)?, generation: hex16(generation)? })
}

/// A stem, and the number behind it.
fn numbered(name: &str) -> Option<(String, u32)> {
    let (stem, digits) = name.rsplit_once('-')?;
    let index = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    is_stem(stem).then(|| (stem.to_owned(), index))
}

/// Whether only builds before the first release called a file of a database `name`: their combiner,
/// and their blob segments. What such a file holds this build does not read, and no other file
/// shows that it is missing.
pub fn is_of_earlier_build(name: &str) -> bool {
    let stem = || name.strip_suffix(".values").filter(|_| is_valid(name));
    name == "STAGE" || stem().is_some_and(|stem| hex(stem, 8).is_some() || numbered(stem).is_some())
}

/// Exactly 16 lower-case hex digits.
fn hex16(digits: &str) -> Option<u64> {
    hex(digits, 16)
}

/// Exactly `count` lower-case hex digits.
fn hex(digits: &str, count: usize) -> Option<u64> {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (digits.len() == count && digits.bytes().all(is_hex)).then(|| u64::from_str_radix(digits, 16).ok())?
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileName::Lock => f.write_str(LOCK),
            FileName::Combiner => f.write_str(COMBINER),
            FileName::Home => f.write_str(HOME),
            FileName::ManifestEdit(number) => write!(f, "manifest-{number:016x}"),
            FileName::LogSegment(base) => write!(f, "{:016x}.log", base.0),
            FileName::Table { stem, index } => write!(f, "{stem}-{index:06}.table"),
            FileName::Tables { stem, index } => write!(f, "{stem}-{index:06}.tables"),
            FileName::BlobSegment(number) => write!(f, "{:08x}.blobs", number.0),
            FileName::CollectedBlobs { stem, index } => write!(f, "{stem}-{index:06}.blobs"),
            FileName::LogObject { generation, number } => write!(f, "{generation:016x}-{number:016x}.group"),
            FileName::HybridSegment(base) => write!(f, "{base:016x}.hybrid"),
            FileName::ColdSegment(base) => write!(f, "{base:016x}.cold"),
            FileName::ColdRun(number) => write!(f, "{number:016x}.coldrun"),
            FileName::Redo { generation, index } => write!(f, "{generation:016x}-{index:016x}.redo"),
            FileName::Value(number) => write!(f, "{number:016x}.value"),
            FileName::Extent(Extent { log, from, to, generation }) => {
                let ending = if *log == LogKind::Hybrid { "hybrid" } else { "cold" };
                write!(f, "{from:016x}-{to:016x}-{generation:016x}.{ending}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
