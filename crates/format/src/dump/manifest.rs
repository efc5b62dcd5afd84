//! Manifest edits as text.

use std::fmt;

use crate::bytes::Reader;
use crate::dump::{Dumped, Lines, Shown};
use crate::hybrid::{Extent, LogKind};
use crate::manifest::ColdChange;
use crate::manifest::{
    BlobSegmentMeta, Change, EDIT_HEADER_BYTES, EDIT_MAGIC, KeyspaceText, ManifestEdit, RelocationTarget,
    TableMeta,
};

/// Writes a manifest edit: its header field by field and a line for each change.
///
/// Changes are read even if the header's checksum does not match.
///
/// # Errors
/// If the lines cannot be written.
pub fn dump(bytes: &[u8], lines: &mut Lines<'_>) -> Dumped {
    let header_error = ManifestEdit::decode_header(bytes).err();
    let Some((header, changes)) = bytes.split_at_checked(EDIT_HEADER_BYTES) else {
        return Ok(header_error);
    };
    if !header.starts_with(&EDIT_MAGIC) {
        return Ok(header_error);
    }
    dump_header(header, lines)?;
    let mut reader = Reader::new(changes, EDIT_HEADER_BYTES);
    while !reader.is_empty() {
        let offset = reader.offset();
        match Change::decode(&mut reader) {
            Ok(change) => dump_change(&change, offset, reader.offset() - offset, lines)?,
            Err(error) => return Ok(Some(header_error.unwrap_or(error))),
        }
    }
    Ok(header_error)
}

/// Writes the header's fields as they stand, right or wrong. `header` has all of them.
fn dump_header(header: &[u8], lines: &mut Lines<'_>) -> fmt::Result {
    let mut fields = Reader::new(header, 0);
    let mut next = || fields.u64().unwrap_or_default();
    let (magic, version_flags, number, epoch, length, checksum) =
        (next(), next(), next(), next(), next(), next());
    let flags = version_flags >> 32;
    let base =
        if flags & 1 == 0 { "changes the state of the edits before" } else { "restates the whole state" };
    lines.line(0, 8, "magic", format_args!("{}", Shown(&magic.to_le_bytes())))?;
    lines.line(8, 4, "version", format_args!("{}", version_flags as u32))?;
    lines.line(12, 4, "flags", format_args!("{flags:#x}: {base}"))?;
    lines.line(16, 8, "number", format_args!("{number} ({number:#x})"))?;
    lines.line(24, 8, "epoch", format_args!("{epoch}"))?;
    lines.line(32, 8, "bytes", format_args!("{length} bytes of changes"))?;
    lines.line(40, 8, "checksum", format_args!("{checksum:016x}"))
}

/// A change of the hashed engine's own.
fn dump_hashed(
    change: &Change,
    line: &mut dyn FnMut(&str, fmt::Arguments<'_>) -> fmt::Result,
) -> fmt::Result {
    match change {
        Change::Hashed { page_bits, segment_bits } => {
            let sizes = format_args!("pages of 2^{page_bits} words, segments of 2^{segment_bits}");
            line("Hashed", sizes)
        }
        Change::HybridCut { address, redo } => {
            line("HybridCut", format_args!("below address {address}, redo logs from generation {redo} on"))
        }
        Change::HybridBegin { address } => line("HybridBegin", format_args!("at address {address}")),
        Change::PositionsGiven { position } => line("PositionsGiven", format_args!("below {position}")),
        Change::RedoBegun { redo } => line("RedoBegun", format_args!("redo logs up to generation {redo}")),
        Change::Checkpointed { position } => line("Checkpointed", format_args!("below {position}")),
        Change::Cold(ColdChange::Cut { address }) => {
            line("ColdCut", format_args!("cold log up to address {address}"))
        }
        Change::Cold(ColdChange::Begin { address }) => {
            line("ColdBegin", format_args!("cold log from address {address} on"))
        }
        Change::Cold(ColdChange::Run { number, spilled }) => {
            line("ColdRun", format_args!("run {number}, addresses before {spilled} are in runs"))
        }
        Change::Cold(ColdChange::DropRun { number }) => line("DropColdRun", format_args!("run {number}")),
        Change::Extent(Extent { log, from, to, generation }) => {
            let name = if *log == LogKind::Hybrid { "HybridExtent" } else { "ColdExtent" };
            line(name, format_args!("addresses {from} to {to}, written by generation {generation}"))
        }
        _ => Ok(()),
    }
}

/// A change of separated values.
fn dump_blobs(change: &Change, line: &mut dyn FnMut(&str, fmt::Arguments<'_>) -> fmt::Result) -> fmt::Result {
    match change {
        Change::AddBlobSegment { segment } => {
            let BlobSegmentMeta { number, file, bytes, ordinals, value_bytes, checksum, sealed_at } = segment;
            let what = format_args!(
                "{number}, file {file}, {bytes} bytes, {ordinals} values of {value_bytes} bytes, footer checksum \
                 {checksum:016x}, sealed at log position {sealed_at}"
            );
            line("AddBlobSegment", what)
        }
        Change::NextBlobSegment(number) => line("NextBlobSegment", format_args!("{number}")),
        Change::RemoveBlobSegment { number } => line("RemoveBlobSegment", format_args!("{number}")),
        Change::DeadMap { number, dead } => {
            let (count, last) = (dead.len(), dead.last().unwrap_or_default());
            line("DeadMap", format_args!("segment {number}, {count} more values, the last one {last}"))
        }
        Change::Relocation { victim, place } => {
            let RelocationTarget { holder, offset, bytes } = place;
            let what = format_args!("of segment {victim}, {bytes} bytes at {offset} of segment {holder}");
            line("Relocation", what)
        }
        Change::DropRelocation { victim } => line("DropRelocation", format_args!("of segment {victim}")),
        _ => Ok(()),
    }
}

fn dump_change(change: &Change, offset: usize, size: usize, lines: &mut Lines<'_>) -> fmt::Result {
    let mut line = |field: &str, meaning: fmt::Arguments<'_>| lines.line(offset, size, field, meaning);
    let is_flushed = matches!(change, Change::FlushedThrough { .. });
    let through = if is_flushed { "FlushedThrough" } else { "IngestedThrough" };
    match change {
        Change::Database { id } => line("Database", format_args!("id {id:032x}")),
        Change::LogHome { id } => line("LogHome", format_args!("id {id:032x}")),
        Change::TakeOver { id } => line("TakeOver", format_args!("by directory {id:032x}")),
        Change::Boot { id } => line("Boot", format_args!("run of the machine {id:032x}")),
        Change::LogObjects { generation, first, cut } => line(
            "LogObjects",
            format_args!("of generation {generation}, from number {first} on, below log position {cut}"),
        ),
        Change::Keyspace { id, name, settings } => {
            let settings = Settings(settings);
            line("Keyspace", format_args!("id {id}, name {name:?}, {settings}"))
        }
        Change::DropKeyspace { id } => line("DropKeyspace", format_args!("id {id}")),
        Change::AddTable { keyspace, level, run, table } => {
            let table = Table(table);
            line("AddTable", format_args!("keyspace {keyspace}, level {level}, run {run}, {table}"))
        }
        Change::RemoveTable { file } => line("RemoveTable", format_args!("file {file}")),
        Change::MoveTable { file, level, run } => {
            line("MoveTable", format_args!("file {file} to level {level}, run {run}"))
        }
        Change::FlushedThrough { keyspace, position } | Change::IngestedThrough { keyspace, position } => {
            line(through, format_args!("keyspace {keyspace} below log position {position}"))
        }
        Change::LogCut { position, generation } => {
            line("LogCut", format_args!("from log position {position} on, now generation {generation}"))
        }
        Change::DurableThrough { position } => {
            line("DurableThrough", format_args!("log position {position}"))
        }
        Change::NextNumber(number) => line("NextNumber", format_args!("{number}")),
        Change::Tick { ms } => line("Tick", format_args!("{ms} ms since the Unix epoch")),
        Change::Hashed { .. }
        | Change::HybridCut { .. }
        | Change::HybridBegin { .. }
        | Change::PositionsGiven { .. }
        | Change::RedoBegun { .. }
        | Change::Checkpointed { .. }
        | Change::Cold(_)
        | Change::Extent(_) => dump_hashed(change, &mut line),
        Change::CleanEnd { position } => line("CleanEnd", format_args!("log position {position}")),
        Change::Hides { file, bytes } => line("Hides", format_args!("file {file} bytes {bytes}")),
        Change::Superseded { file, thousandths } => {
            line("Superseded", format_args!("file {file} thousandths {thousandths}"))
        }
        Change::AddBlobSegment { .. }
        | Change::NextBlobSegment(_)
        | Change::RemoveBlobSegment { .. }
        | Change::DeadMap { .. }
        | Change::Relocation { .. }
        | Change::DropRelocation { .. } => dump_blobs(change, &mut line),
        Change::AddObsolete { keyspace, references } => {
            line("AddObsolete", format_args!("keyspace {keyspace}, {} more references", references.len()))
        }
        Change::RemoveObsolete { keyspace, references } => {
            line("RemoveObsolete", format_args!("keyspace {keyspace}, {} references", references.len()))
        }
    }
}

/// The settings of a keyspace in one line.
struct Settings<'a>(&'a KeyspaceText);

impl fmt::Display for Settings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeyspaceText { compression, merge_operator, compaction_filter, prefix_extractor, separate_bytes } =
            self.0;
        match compression {
            Some(compression) => write!(f, "compression {compression:?}")?,
            None => f.write_str("compression as the database")?,
        }
        for (name, value) in [
            ("merge_operator", merge_operator),
            ("compaction_filter", compaction_filter),
            ("prefix_extractor", prefix_extractor),
            ("separate_bytes", separate_bytes),
        ] {
            if let Some(value) = value {
                write!(f, ", {name} {value:?}")?;
            }
        }
        Ok(())
    }
}

/// What is known about a table, in one line.
struct Table<'a>(&'a TableMeta);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableMeta {
            file, bytes, file_checksum, entry_count, tombstone_count, range_tombstone_count, ..
        } = self.0;
        let TableMeta { sequence_min, sequence_max, data_bytes, content_hash, .. } = self.0;
        let (smallest, largest) = (Shown(&self.0.smallest), Shown(&self.0.largest));
        write!(
            f,
            "file {file}, {bytes} bytes, checksum {file_checksum:016x}, keys {smallest} to {largest}, "
        )?;
        write!(f, "sequences {sequence_min} to {sequence_max}, {entry_count} entries, ")?;
        write!(f, "{tombstone_count} of them deletions, {range_tombstone_count} range tombstones, ")?;
        write!(f, "{data_bytes} bytes of data, content hash {content_hash:032x}")
    }
}
