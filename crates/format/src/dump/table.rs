//! Tables as text.

use std::fmt;

use crate::blob::Reference;
use crate::checksum::xxh3;
use crate::compression::{self, Compression};
use crate::dump::{Dumped, Lines, Shown};
use crate::error::{Error, Result};
use crate::key::{Entry, Kind};
use crate::table::block::{self, BLOCK_TRAILER_BYTES, Checked};
use crate::table::data::{DataBlock, Walker};
use crate::table::index::Index;
use crate::table::{FOOTER_BYTES, Footer, Handle, Properties, ReferenceSet, ReferenceSummary, TABLE_MAGIC};
use crate::tombstone::FragmentList;

/// Whether `bytes` end in a table's footer.
pub fn is_table(bytes: &[u8]) -> bool {
    footer_bytes(bytes).is_some_and(|footer| footer.starts_with(&TABLE_MAGIC))
}

/// Writes a table: its data blocks entry by entry, then what follows them up to the footer.
///
/// Blocks whose checksum does not match are shown as far as they make sense. Without a good footer
/// nothing can be found: then only the error is told.
///
/// # Errors
/// If the lines cannot be written.
pub fn dump(bytes: &[u8], lines: &mut Lines<'_>) -> Dumped {
    let footer_at = bytes.len().saturating_sub(FOOTER_BYTES);
    let footer = match Footer::decode(footer_bytes(bytes).unwrap_or(bytes), bytes.len() as u64) {
        Ok(footer) => footer,
        Err(error) => return Ok(Some(error.based(footer_at.min(bytes.len())))),
    };
    let mut table = Table { bytes, lines, error: None };
    let index = table.index(&footer);
    if let Some(index) = &index {
        table.data_blocks(index)?;
    } else {
        let unknown = format_args!("data blocks, but without an index it is unknown which");
        table.lines.line(0, footer.data_bytes as usize, "data", unknown)?;
    }
    table.filter("filter over keys", footer.filter)?;
    table.filter("filter over prefixes", footer.prefixes)?;
    table.tombstones(footer.tombstones)?;
    table.references(footer.properties)?;
    table.index_blocks(&footer, index.as_ref())?;
    table.properties(footer.properties)?;
    table.footer(&footer, footer_at)?;
    Ok(table.error)
}

/// Writes tables that lie one after another, each as [`dump`] does; offsets are from its beginning.
///
/// # Errors
/// As [`dump`].
pub fn dump_all(bytes: &[u8], lines: &mut Lines<'_>) -> Dumped {
    // They are found from the end.
    let (mut starts, mut end, mut error) = (Vec::new(), bytes.len(), None);
    while end > 0 {
        let before = bytes.get(..end).unwrap_or_default();
        match Footer::table_start(footer_bytes(before).unwrap_or(before), end as u64) {
            Ok(start) => {
                starts.push((start as usize, end));
                end = start as usize;
            }
            Err(found) => {
                error = Some(found.based(end.saturating_sub(FOOTER_BYTES)));
                break;
            }
        }
    }
    for (start, end) in starts.into_iter().rev() {
        lines.line(start, end - start, "table", format_args!("offsets below are from its beginning"))?;
        let found = dump(bytes.get(start..end).unwrap_or_default(), lines)?;
        error = error.or_else(|| found.map(|found| found.based(start)));
    }
    Ok(error)
}

fn footer_bytes(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(bytes.len().checked_sub(FOOTER_BYTES)?..)
}

struct Table<'b, 'l, 'o> {
    bytes: &'b [u8],
    lines: &'l mut Lines<'o>,
    /// The first one met.
    error: Option<Error>,
}

impl<'b> Table<'b, '_, '_> {
    /// Keeps the first error; offsets count from the file's start and stay inside it.
    fn keep<T>(&mut self, at: usize, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let mut error = error.based(at);
                error.offset = error.offset.min(self.bytes.len());
                self.error.get_or_insert(error);
                None
            }
        }
    }

    fn part(&self, handle: Handle) -> &'b [u8] {
        let start = usize::try_from(handle.offset).unwrap_or(usize::MAX);
        let rest = self.bytes.get(start..).unwrap_or_default();
        rest.get(..usize::try_from(handle.bytes).unwrap_or(usize::MAX)).unwrap_or(rest)
    }

    /// The payload of the block at `handle`, with a line about the block and one about its end.
    fn block(&mut self, handle: Handle, field: &str, meaning: fmt::Arguments<'_>) -> PayloadOr {
        let (at, stored) = (handle.offset as usize, self.part(handle));
        let matches = self.keep(at, block::check(stored)).is_some();
        let payload = match block::trusted(stored) {
            Ok(Checked::Raw(payload)) => Some((payload.to_vec(), Compression::None)),
            Ok(Checked::Compressed { codec, stored, raw_bytes }) => {
                let mut out = Vec::new();
                let done = compression::decompress(codec, stored, raw_bytes, &mut out);
                self.keep(at, done).map(|()| (out, codec))
            }
            Err(_) => None,
        };
        let verdict = if matches { "" } else { ", CHECKSUM DOES NOT MATCH" };
        let codec = match &payload {
            Some((_, Compression::None)) => "raw".to_owned(),
            Some((payload, codec)) => format!("{codec:?} of {} bytes", payload.len()),
            None => "unreadable".to_owned(),
        };
        self.lines.line(at, stored.len(), field, format_args!("{codec}{verdict}, {meaning}"))?;
        Ok(payload)
    }

    /// The codec and checksum after a block's payload.
    fn block_end(&mut self, handle: Handle) -> fmt::Result {
        let stored = self.part(handle);
        let Some(body) = stored.len().checked_sub(8).and_then(|body| stored.get(..body)) else {
            return Ok(());
        };
        let at = handle.offset as usize + stored.len().saturating_sub(BLOCK_TRAILER_BYTES);
        let codec = body.last().copied().unwrap_or_default();
        let meaning = format_args!("codec {codec}, computed checksum {:016x}", xxh3(body));
        self.lines.line(at, BLOCK_TRAILER_BYTES, "  block end", meaning)
    }

    fn index(&mut self, footer: &Footer) -> Option<Index> {
        let top = self.keep(footer.top.offset as usize, block::check(self.part(footer.top)))?;
        let Checked::Raw(top) = top else { return None };
        let index = Index::decode(top, self.part(footer.index), footer.data_bytes);
        self.keep(footer.index.offset as usize, index)
    }

    fn data_blocks(&mut self, index: &Index) -> fmt::Result {
        for number in 0..index.block_count() {
            let Some((offset, bytes)) = index.block(number) else { continue };
            let handle = Handle { offset, bytes };
            let separator = index.separator(number);
            let payload = self.block(
                handle,
                "data block",
                format_args!("number {number}, keys up to {}", Shown(&separator)),
            )?;
            if let Some((payload, codec)) = payload {
                self.entries(&payload, offset as usize, codec == Compression::None)?;
            }
            self.block_end(handle)?;
        }
        Ok(())
    }

    /// One line for each entry. Of a compressed block all lie at the block's offset.
    fn entries(&mut self, payload: &[u8], at: usize, is_raw: bool) -> fmt::Result {
        let Some(data) = self.keep(at, DataBlock::new(payload)) else { return Ok(()) };
        let based = |offset: usize| if is_raw { at + offset } else { at };
        let mut walker = Walker::default();
        let mut moved = walker.seek_first(&data);
        while let (Ok(()), Some(entry), Some((head, value))) = (&moved, walker.entry(payload), walker.place())
        {
            self.entry(&entry, based(head.start), head.len(), based(value.start))?;
            moved = walker.next(&data);
        }
        if self.keep(at, moved).is_none() {
            return Ok(());
        }
        let (_, restarts) = data.shape().parts();
        let meaning = format_args!("{} of 8 bytes", restarts.len() / 8);
        self.lines.line(based(restarts.start), restarts.len(), "  restarts", meaning)?;
        let (keys, restarts) = data.shape().parts();
        let meaning = format_args!("{} bytes of keys, {} restarts", keys.len(), restarts.len() / 8);
        self.lines.line(based(restarts.end), 8, "  tail", meaning)
    }

    fn entry(&mut self, entry: &Entry<'_>, at: usize, head_bytes: usize, value_at: usize) -> fmt::Result {
        let Entry { key, sequence, kind, expires_at_ms, value } = *entry;
        let field = match kind {
            Kind::Put => "  put",
            Kind::Delete => "  delete",
            Kind::Merge => "  merge",
            Kind::PutReference => "  put reference",
            _ => "  unknown",
        };
        let expiry =
            if expires_at_ms == 0 { String::new() } else { format!(", expires at {expires_at_ms} ms") };
        let value = match (kind, value.len()) {
            (Kind::PutReference, _) if let Ok(reference) = Reference::decode(value) => {
                format!(", {reference}")
            }
            (_, 0) => String::new(),
            (_, bytes) => format!(", value of {bytes} bytes at {value_at} {}", Shown(value)),
        };
        let meaning = format_args!("sequence {sequence}, key {}{expiry}{value}", Shown(key));
        self.lines.line(at, head_bytes, field, meaning)
    }

    fn filter(&mut self, field: &str, handle: Handle) -> fmt::Result {
        if handle.bytes == 0 {
            return Ok(());
        }
        let lines = self.part(handle).len() / crate::filter::LINE_BYTES;
        self.block(handle, "filter", format_args!("{field}, {lines} cache lines"))?;
        self.block_end(handle)
    }

    fn tombstones(&mut self, handle: Handle) -> fmt::Result {
        if handle.bytes == 0 {
            return Ok(());
        }
        let at = handle.offset as usize;
        let payload = self.block(handle, "tombstones", format_args!("range tombstones"))?;
        let list = payload.and_then(|(payload, _)| self.keep(at, FragmentList::decode(&payload)));
        for span in list.iter().flat_map(|list| list.spans()) {
            let meaning =
                format_args!("sequence {}, {} to {}", span.sequence, Shown(span.start), Shown(span.end));
            self.lines.line(at, self.part(handle).len(), "  deleted range", meaning)?;
        }
        self.block_end(handle)
    }

    /// The reference set, which the properties name.
    fn references(&mut self, properties: Handle) -> fmt::Result {
        let Ok(Checked::Raw(payload)) = block::trusted(self.part(properties)) else { return Ok(()) };
        let Some(summary) = Properties::decode(payload).ok().and_then(|found| found.references) else {
            return Ok(());
        };
        let at = summary.block.offset as usize;
        let ReferenceSummary { count, value_bytes, value_bytes_min: least, operand_count, .. } = summary;
        let operands = match operand_count {
            0 => String::new(),
            count => format!(", operands: {count}"),
        };
        let what = format_args!(
            "{count} values of {value_bytes} bytes, separated, none of fewer than {least}{operands}"
        );
        let payload = self.block(summary.block, "references", what)?;
        let set = payload.and_then(|(payload, _)| self.keep(at, ReferenceSet::decode(&payload)));
        for (segment, ordinals) in set.iter().flat_map(|set| set.segments()) {
            let meaning = format_args!("{} values of segment {segment}", ordinals.len());
            self.lines.line(at, self.part(summary.block).len(), "  segment", meaning)?;
        }
        self.block_end(summary.block)
    }

    fn index_blocks(&mut self, footer: &Footer, index: Option<&Index>) -> fmt::Result {
        let count = index.map_or(0, Index::block_count);
        let (at, bytes) = (footer.index.offset as usize, self.part(footer.index).len());
        self.lines.line(at, bytes, "index blocks", format_args!("all together, {count} separators"))?;
        for number in 0..count {
            let (Some(index), Some((offset, bytes))) = (index, index.and_then(|index| index.block(number)))
            else {
                continue;
            };
            let separator = index.separator(number);
            let meaning = format_args!("{} ends the {bytes} bytes at {offset}", Shown(&separator));
            self.lines.line(at, self.part(footer.index).len(), "  separator", meaning)?;
        }
        self.block(footer.top, "top index", format_args!("names the index blocks"))?;
        self.block_end(footer.top)
    }

    fn properties(&mut self, handle: Handle) -> fmt::Result {
        let at = handle.offset as usize;
        let payload = self.block(handle, "properties", format_args!("what the table holds"))?;
        if let Some(p) = payload.and_then(|(payload, _)| self.keep(at, Properties::decode(&payload))) {
            let bytes = self.part(handle).len();
            let mut field =
                |name: &str, meaning: fmt::Arguments<'_>| self.lines.line(at, bytes, name, meaning);
            field("  entries", format_args!("{}, {} of them deletions", p.entry_count, p.tombstone_count))?;
            field("  range tombstones", format_args!("{}", p.range_tombstone_count))?;
            field("  keys", format_args!("{} to {}", Shown(&p.smallest), Shown(&p.largest)))?;
            field("  sequences", format_args!("{} to {}", p.sequence_min, p.sequence_max))?;
            field("  data bytes", format_args!("{} of keys and values", p.data_bytes))?;
            field("  content hash", format_args!("{:032x}", p.content_hash))?;
            field("  blocks", format_args!("{}, cut at {} bytes", p.block_count, p.block_bytes))?;
            field("  compression", format_args!("{:?}", p.compression))?;
            let prefix = p.prefix_extractor.as_deref().unwrap_or("none");
            field(
                "  filters",
                format_args!("{} bits a key, prefix extractor {prefix}", p.filter_bits_per_key),
            )?;
            for (time, expiring) in p.expiring.points() {
                field("  expiring", format_args!("{expiring} bytes more by {time} ms"))?;
            }
        }
        self.block_end(handle)
    }

    fn footer(&mut self, footer: &Footer, at: usize) -> fmt::Result {
        self.lines.line(at, 8, "magic", format_args!("{}", Shown(&TABLE_MAGIC)))?;
        let version = self.part(Handle { offset: at as u64 + 8, bytes: 4 });
        let version = version.first_chunk().map_or(0, |version| u32::from_le_bytes(*version));
        self.lines.line(at + 8, 8, "version", format_args!("{version}"))?;
        for (index, (name, handle)) in footer.handles().into_iter().enumerate() {
            let meaning = format_args!("{} bytes at {}", handle.bytes, handle.offset);
            self.lines.line(at + 16 + 16 * index, 16, name, meaning)?;
        }
        self.lines.line(at + 112, 8, "data bytes", format_args!("{}", footer.data_bytes))?;
        let checksum = self.part(Handle { offset: at as u64 + 120, bytes: 8 });
        let checksum = checksum.first_chunk().map_or(0, |checksum| u64::from_le_bytes(*checksum));
        self.lines.line(at + 120, 8, "checksum", format_args!("{checksum:016x}"))
    }
}

/// A payload with how it was stored, if it could be read; or that the lines could not be written.
type PayloadOr = std::result::Result<Option<(Vec<u8>, Compression)>, fmt::Error>;
