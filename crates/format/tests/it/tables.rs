//! Golden tables: every kind of entry, versions over a block's end, range tombstones, both filters,
//! each codec.

use std::sync::Arc;

use firn_format::blob::{Reference, ReferenceBytes, SegmentNumber};
use firn_format::compression::Compression;
use firn_format::compression::decompress;
use firn_format::dump;
use firn_format::key::Entry;
use firn_format::table::block::{Checked, check};
use firn_format::table::data::{DataBlock, Walker};
use firn_format::table::index::Index;
use firn_format::table::{
    FOOTER_BYTES, Footer, Handle, PrefixBytes, Properties, ReferenceSet, TableEncoder, TableForm,
};
use firn_format::tombstone::{FragmentList, Span};
use firn_format::{Error, Kind, Result, Sequence};

use crate::samples::Sample;

pub(crate) fn samples() -> Vec<Sample> {
    let names = [
        ("table-v1-raw", Compression::None),
        ("table-v1-lz4", Compression::Lz4),
        ("table-v1-zstd", Compression::Zstd),
    ];
    let mut samples: Vec<Sample> =
        names.into_iter().map(|(name, compression)| sample(name, compression, &entries(), &list())).collect();
    samples.push(sample("table-v1-tombstones", Compression::None, &[], &list()));
    let references = [reference(7, 0), reference(7, 90), reference(12, 3)];
    samples.push(sample(
        "table-v1-operands",
        Compression::None,
        &referring(&references),
        &FragmentList::new(),
    ));
    samples
}

fn reference(segment: u32, ordinal: u32) -> ReferenceBytes {
    let (segment, offset) = (SegmentNumber(segment), 64 + 4160 * u64::from(ordinal));
    Reference { segment, ordinal, offset, value_bytes: 4096, checksum: 0x89ab_cdef }.encode()
}

/// Some entries whose values are separated, one whose value is not, and an operand.
fn referring(references: &[ReferenceBytes; 3]) -> Vec<Entry<'_>> {
    let put = |key, sequence, kind, value| Entry {
        key,
        sequence: Sequence(sequence),
        kind,
        expires_at_ms: 0,
        value,
    };
    vec![
        put(b"a", 9, Kind::PutReference, &references[1]),
        put(b"a", 7, Kind::PutReference, &references[0]),
        put(b"b", 8, Kind::Put, b"small"),
        Entry { expires_at_ms: 1_700_000_000_000, ..put(b"c", 3, Kind::PutReference, &references[2]) },
        put(b"d", 2, Kind::Merge, b"+1"),
    ]
}

fn entries() -> Vec<Entry<'static>> {
    let put = |key, sequence, value| Entry {
        key,
        sequence: Sequence(sequence),
        kind: Kind::Put,
        expires_at_ms: 0,
        value,
    };
    vec![
        put(b"", 9, b"the empty key"),
        put(b"apple", 7, b"red red red red red red red red red red red red red red red red red red"),
        Entry { kind: Kind::Delete, ..put(b"apple", 5, b"") },
        Entry { kind: Kind::Merge, ..put(b"apple", 4, b"+1") },
        Entry { expires_at_ms: 1_700_000_000_000, ..put(b"apricot", 8, b"until then") },
        put(b"banana", 6, b"yellow yellow yellow yellow yellow yellow yellow yellow yellow yellow yellow"),
        put(b"banana", 2, b"green"),
    ]
}

fn list() -> FragmentList {
    let span = |start, end, sequence| Span { start, end, sequence: Sequence(sequence) };
    FragmentList::from_spans([span(b"b", b"c", 3), span(b"a", b"bb", 11)])
}

fn sample(
    name: &'static str,
    compression: Compression,
    entries: &[Entry<'_>],
    list: &FragmentList,
) -> Sample {
    let prefix: PrefixBytes = Arc::new(|key: &[u8]| (!key.is_empty()).then_some(1));
    let form = TableForm {
        block_bytes: 100,
        compression,
        filter_bits_per_key: 10,
        prefix: Some(("fixed.1:1".to_owned(), prefix)),
    };
    let mut encoder = TableEncoder::new(form);
    entries.iter().for_each(|entry| encoder.add(entry).unwrap());
    encoder.add_tombstones(list);
    let finished = encoder.finish().unwrap();
    let entries: Vec<String> = entries.iter().map(|entry| format!("{entry:?}")).collect();
    let value = format!("{:?} {entries:?} {list:?}", finished.properties);
    Sample { name, bytes: encoder.completed().to_vec(), value, decode, dump }
}

pub(crate) fn dump(bytes: &[u8], out: &mut String) -> dump::Dumped {
    dump::describe("t-000000.table", bytes, out)
}

/// Everything in the file, each block's checksum compared.
pub(crate) fn decode(bytes: &[u8]) -> Result<String> {
    let Some(at) = bytes.len().checked_sub(FOOTER_BYTES) else {
        return Err(Error::new(0, "a footer", "nothing"));
    };
    let footer = Footer::decode(&bytes[at..], bytes.len() as u64)?;
    let top = payload(bytes, footer.top)?;
    let index = Index::decode(&top, part(bytes, footer.index), footer.data_bytes)?;
    let mut entries = Vec::new();
    for number in 0..index.block_count() {
        let (offset, length) = index.block(number).unwrap();
        let payload = payload(bytes, Handle { offset, bytes: length })?;
        let block = DataBlock::new(&payload)?;
        let mut walker = Walker::default();
        walker.seek_first(&block)?;
        while let Some(entry) = walker.entry(&payload) {
            entries.push(format!("{entry:?}"));
            walker.next(&block)?;
        }
    }
    for filter in [footer.filter, footer.prefixes].into_iter().filter(|filter| filter.bytes > 0) {
        payload(bytes, filter)?;
    }
    let list = match footer.tombstones.bytes {
        0 => FragmentList::new(),
        _ => FragmentList::decode(&payload(bytes, footer.tombstones)?)?,
    };
    let properties = Properties::decode(&payload(bytes, footer.properties)?)?;
    if let Some(summary) = properties.references {
        let set = ReferenceSet::decode(&payload(bytes, summary.block)?)?;
        assert_eq!(set.len(), summary.count);
    }
    Ok(format!("{properties:?} {entries:?} {list:?}"))
}

fn part(bytes: &[u8], handle: Handle) -> &[u8] {
    &bytes[handle.offset as usize..(handle.offset + handle.bytes) as usize]
}

fn payload(bytes: &[u8], handle: Handle) -> Result<Vec<u8>> {
    match check(part(bytes, handle))? {
        Checked::Raw(payload) => Ok(payload.to_vec()),
        Checked::Compressed { codec, stored, raw_bytes } => {
            let mut out = Vec::new();
            decompress(codec, stored, raw_bytes, &mut out)?;
            Ok(out)
        }
    }
}
