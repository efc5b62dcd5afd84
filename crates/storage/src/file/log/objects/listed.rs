//! Log objects that a list shows.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::BTreeSet;

use firn_format::Position;
use firn_format::file_name::{self, FileName};
use firn_format::log_object::LOG_OBJECT_HEADER_BYTES;

use super::NamedObjects;

/// Log objects that the manifest named when this process began.
#[derive(Debug)]
pub struct Older {
    pub(super) generation: u64,
    /// Log objects that can go, which the end of their generation cannot.
    pub(super) names: Vec<String>,
    /// Behind them.
    pub(super) next: u64,
    /// Once everything below is in tables, none is needed.
    pub(super) needed_to: Position,
}

impl Older {
    /// Those among `files`, names and lengths, that the manifest names, as `named` says; needed as
    /// long as the log below `needed_to` is.
    pub fn among(files: &[(String, u64)], named: NamedObjects, needed_to: Position) -> Option<Self> {
        let NamedObjects { generation, first, .. } = named;
        let mut numbers: Vec<u64> = parsed(files)
            .filter(|object| object.generation == generation && object.number >= first && !object.is_end())
            .map(|object| object.number)
            .collect();
        numbers.sort_unstable();
        let next = numbers.last()? + 1;
        let names = numbers.into_iter().map(|number| file_name::log_object(generation, number)).collect();
        Some(Self { generation, names, next, needed_to })
    }
}

/// A log object in a list.
pub(super) struct Listed<'n> {
    name: &'n str,
    pub(super) generation: u64,
    pub(super) number: u64,
    pub(super) bytes: u64,
}

impl Listed<'_> {
    /// Whether it says that no log object of its generation follows: it has no pieces.
    fn is_end(&self) -> bool {
        self.bytes == LOG_OBJECT_HEADER_BYTES as u64
    }
}

pub(super) fn parsed(files: &[(String, u64)]) -> impl Iterator<Item = Listed<'_>> {
    files.iter().filter_map(|(name, bytes)| match file_name::parse(name) {
        Some(FileName::LogObject { generation, number }) => {
            Some(Listed { name, generation, number, bytes: *bytes })
        }
        _ => None,
    })
}

/// Log objects among `files`, names and lengths, that no machine will read, where the manifest
/// names those of `named`. `generation` is this process's.
///
/// The end of an earlier generation stays: it keeps a process that slept from going on.
pub fn stale(files: &[(String, u64)], named: Option<NamedObjects>, generation: u64) -> BTreeSet<&str> {
    let (of, first) = named.map_or((0, 0), |named| (named.generation, named.first));
    let is_stale = |object: &Listed<'_>| match object.generation.cmp(&of) {
        Less => !object.is_end(),
        Equal => object.number < first && !object.is_end(),
        // Its process never named them, and never will: this one has written an edit since.
        Greater => object.generation < generation,
    };
    parsed(files).filter(is_stale).map(|object| object.name).collect()
}
