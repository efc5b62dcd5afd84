//! The values behind the golden files.

use firn_format::blob::segment::Origin;
use firn_format::blob::{BlobSegmentHeader, Ordinals, SegmentNumber};
use firn_format::dump::{self, Dumped, Lines};
use firn_format::home::Home;
use firn_format::key::GRANULE_BYTES;
use firn_format::log::{
    EndReason, FRAME_HEADER_BYTES, Frame, FrameKind, FrameWriter, LARGE_BATCH_BYTES, LargeBatch, Record,
    SEGMENT_HEADER_BYTES, SegmentHeader, encode_single, frame_bytes, scan_frames, single_frame_bytes,
};
use firn_format::log_object::{LogObject, LogObjectId, LogObjectKind, Piece, PieceOf};
use firn_format::manifest::{
    BlobSegmentMeta, Change, KeyspaceText, ManifestEdit, RelocationTarget, TableMeta,
};
use firn_format::table::ReferenceSet;
use firn_format::{Error, FormatVersion, Kind, Position, Result, Sequence};

/// A golden file: what is in it and how to read it.
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    /// What encoding gives.
    pub(crate) bytes: Vec<u8>,
    /// The decoded value, as `Debug` shows it.
    pub(crate) value: String,
    pub(crate) decode: fn(&[u8]) -> Result<String>,
    pub(crate) dump: fn(&[u8], &mut String) -> Dumped,
}

pub(crate) const BASE: Position = Position(3 * GRANULE_BYTES);
pub(crate) const GENERATION: u64 = 2;
const DURABLE: Position = Position(3 * GRANULE_BYTES - 4096);
/// Where the frames of the frame samples lie: right after a segment's header.
pub(crate) const FRAME_AT: Position = Position(BASE.0 + SEGMENT_HEADER_BYTES as u64);

pub(crate) fn samples() -> Vec<Sample> {
    let mut samples =
        vec![segment("log-segment-v1-empty", vec![]), segment("log-segment-v1-frames", frames())];
    for (name, frame) in [
        ("log-frame-v1-put", put()),
        ("log-frame-v1-batch", batch()),
        ("log-frame-v1-void", void()),
        ("log-frame-v1-large-batch", large_batch()),
        ("log-frame-v1-reference", reference(&REFERENCE)),
        ("log-frame-v1-fixed-reference", reference(&FIXED_REFERENCE)),
    ] {
        let bytes = frame.bytes(FRAME_AT);
        let value = format!("{:?}", [(0, frame)]);
        samples.push(Sample { name, bytes, value, decode: decode_frame, dump: dump_frame });
    }
    samples.push(edit("manifest-edit-v1-empty", false, vec![]));
    samples.push(edit("manifest-edit-v1-every-change", true, every_change()));
    samples.push(edit("manifest-edit-v1-superseded", false, superseded()));
    samples.push(edit("manifest-edit-v1-hides", false, hides()));
    samples.push(edit(
        "manifest-edit-v1-ingested",
        false,
        vec![Change::IngestedThrough { keyspace: 300, position: BASE }],
    ));
    samples.push(edit("manifest-edit-v1-blobs", false, values()));
    samples.push(edit("manifest-edit-v1-obsolete", false, obsolete()));
    samples.push(edit("manifest-edit-v1-home", false, vec![Change::LogHome { id: 0x1234 << 100 }]));
    samples.push(edit(
        "manifest-edit-v1-log-objects",
        false,
        vec![Change::LogObjects { generation: 300, first: 7, cut: BASE }],
    ));
    samples.push(edit("manifest-edit-v1-take-over", false, vec![Change::TakeOver { id: 0x1234 << 100 }]));
    samples.push(edit("manifest-edit-v1-boot", false, vec![Change::Boot { id: 0x1234 << 100 }]));
    samples.push(edit(
        "manifest-edit-v1-hashed",
        true,
        vec![
            Change::Hashed { page_bits: 16, segment_bits: 23 },
            Change::HybridBegin { address: 1 << 23 },
            Change::HybridCut { address: 123_456_789, redo: 42 },
            Change::PositionsGiven { position: Position(1 << 40) },
        ],
    ));
    samples.push(edit("manifest-edit-v1-redo", false, vec![Change::RedoBegun { redo: 43 }]));
    let checkpointed = Change::Checkpointed { position: Position(77_000) };
    samples.push(edit("manifest-edit-v1-checkpointed", false, vec![checkpointed]));
    samples.push(edit(
        "manifest-edit-v1-cold",
        false,
        vec![
            Change::Cold(firn_format::manifest::ColdChange::Cut { address: (1 << 44) + 77 }),
            Change::Cold(firn_format::manifest::ColdChange::Begin { address: 1 << 44 }),
            Change::Cold(firn_format::manifest::ColdChange::Run { number: 5, spilled: (1 << 44) + 70 }),
            Change::Cold(firn_format::manifest::ColdChange::DropRun { number: 4 }),
        ],
    ));
    let extent =
        |log, from, to| Change::Extent(firn_format::hybrid::Extent { log, from, to, generation: 300 });
    samples.push(edit(
        "manifest-edit-v1-extents",
        false,
        vec![
            extent(firn_format::hybrid::LogKind::Hybrid, 1 << 23, (1 << 23) + 77),
            extent(firn_format::hybrid::LogKind::Cold, 1 << 44, (1 << 44) + (1 << 23)),
        ],
    ));
    samples.push(home());
    samples
        .push(log_object("log-object-v1-pieces", &log_object_id().encode(LogObjectKind::Whole, &pieces())));
    samples.push(log_object("log-object-v1-part", &log_object_id().encode(LogObjectKind::Part, &pieces())));
    samples.push(log_object("log-object-v1-end", &log_object_id().encode(LogObjectKind::End, &[])));
    samples.extend(crate::tables::samples());
    samples.extend(crate::blobs::samples());
    samples.extend(crate::datatypes::samples());
    samples.extend(crate::hybrid::samples());
    samples
}

/// Names of files, which tell what is in them.
const LOG_NAME: &str = "0000000000c00000.log";
const LOG_OBJECT_NAME: &str = "0000000000000002-0000000000001234.group";

/// A frame's content, apart from where it lies.
#[derive(Debug, PartialEq)]
enum Content {
    Batch(Vec<Record<'static>>),
    Void(usize),
    LargeBatch(LargeBatch),
}

impl Content {
    fn bytes(&self, position: Position) -> Vec<u8> {
        let (kind, size) = match self {
            Content::Batch(records) => (FrameKind::Batch, records.iter().map(Record::bytes).sum()),
            Content::Void(bytes) => (FrameKind::Void, *bytes),
            Content::LargeBatch(_) => (FrameKind::LargeBatch, LARGE_BATCH_BYTES),
        };
        let mut out = vec![0x5a; frame_bytes(size)];
        let mut writer = FrameWriter::new(&mut out[8..]);
        match self {
            Content::Batch(records) => {
                for record in records {
                    writer.put(record);
                }
            }
            Content::Void(_) => {}
            Content::LargeBatch(name) => writer.name_large_batch(name),
        }
        let word = writer.finish(DURABLE, kind, position, GENERATION);
        out[..8].copy_from_slice(&word.to_le_bytes());
        out
    }

    fn of(frame: &Frame<'_>) -> Result<String> {
        assert_eq!(frame.durable_through, DURABLE);
        let content = match frame.kind {
            FrameKind::Batch => {
                let records: Result<Vec<_>> = frame.records().map(|(_, record)| record).collect();
                return Ok(format!("Batch({:?})", records?));
            }
            FrameKind::Void => Content::Void(frame.bytes() - FRAME_HEADER_BYTES),
            FrameKind::LargeBatch => Content::LargeBatch(frame.large_batch()?),
        };
        Ok(format!("{content:?}"))
    }
}

fn put() -> Content {
    let record = Record { keyspace: 1, kind: Kind::Put, expires_at_ms: 0, key: b"key", value: b"value" };
    // The short way gives the same bytes as the long one.
    let mut out = vec![0; single_frame_bytes(3, 5, false)];
    let word = encode_single(&mut out[8..], &record, DURABLE, FRAME_AT, GENERATION);
    out[..8].copy_from_slice(&word.to_le_bytes());
    let content = Content::Batch(vec![record]);
    assert_eq!(content.bytes(FRAME_AT), out);
    content
}

fn batch() -> Content {
    let put = Record { keyspace: 1, kind: Kind::Put, expires_at_ms: 0, key: b"a", value: b"" };
    Content::Batch(vec![
        put,
        Record { kind: Kind::Delete, key: b"gone", ..put },
        Record { kind: Kind::Merge, keyspace: 2, key: b"counter", value: &[1, 0, 0, 0, 0, 0, 0, 0], ..put },
        Record { kind: Kind::DeleteRange, key: b"m", value: b"n\xff", ..put },
        Record { expires_at_ms: 1_700_000_000_000, key: b"session", value: b"until then", ..put },
        Record { keyspace: u32::MAX, key: b"", value: &[0xee; 70], ..put },
    ])
}

fn void() -> Content {
    Content::Void(16)
}

fn large_batch() -> Content {
    Content::LargeBatch(LargeBatch {
        base: Position(9 * GRANULE_BYTES),
        bytes: 1 << 28,
        checksum: 0xdead_beef,
    })
}

/// Value 3 of segment 7, at 4224, 4096 bytes.
const REFERENCE: [u8; 10] = [7, 3, 0x90, 4, 0x80, 0x20, 0xef, 0xcd, 0xab, 0x89];
/// A reference whose numbers are too large for the short form.
const FIXED_REFERENCE: [u8; 24] = [
    0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0xf0, 16, 2, 0, 0xf0, 0, 16, 0, 0xf0, 0xef, 0xcd, 0xab, 0x89, 0, 0, 0, 0,
];

fn reference(reference: &'static [u8]) -> Content {
    Content::Batch(vec![Record {
        keyspace: 1,
        kind: Kind::PutReference,
        expires_at_ms: 1_700_000_000_000,
        key: b"key",
        value: reference,
    }])
}

fn frames() -> Vec<Content> {
    vec![put(), void(), batch()]
}

fn segment_header() -> SegmentHeader {
    SegmentHeader {
        version: FormatVersion::CURRENT,
        database: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
        base: BASE,
        previous_end: Position(3 * GRANULE_BYTES - 1024),
        generation: GENERATION,
        capacity: 64 << 20,
    }
}

fn segment(name: &'static str, frames: Vec<Content>) -> Sample {
    let mut bytes = segment_header().encode().to_vec();
    let mut found = Vec::new();
    for frame in frames {
        let offset = bytes.len();
        bytes.extend(frame.bytes(Position(BASE.0 + offset as u64)));
        found.push((offset, frame));
    }
    let value = format!("{:?} {found:?}", segment_header());
    let dump: fn(&[u8], &mut String) -> Dumped = |bytes, out| dump::describe(LOG_NAME, bytes, out);
    Sample { name, bytes, value, decode: decode_segment, dump }
}

fn decode_segment(bytes: &[u8]) -> Result<String> {
    let header = SegmentHeader::decode(bytes)?;
    let frames = decode_frames(bytes, header.base, SEGMENT_HEADER_BYTES)?;
    Ok(format!("{header:?} {frames}"))
}

fn decode_frame(bytes: &[u8]) -> Result<String> {
    if bytes.is_empty() {
        return Err(Error::new(0, "a frame", "nothing"));
    }
    decode_frames(bytes, FRAME_AT, 0)
}

/// All frames up to the very end of `bytes`, which has to be where a frame ends.
fn decode_frames(bytes: &[u8], base: Position, start: usize) -> Result<String> {
    let mut scan = scan_frames(bytes, base, start, GENERATION);
    let mut frames = Vec::new();
    for (offset, frame) in scan.by_ref() {
        frames.push(format!("({offset}, {})", Content::of(&frame)?));
    }
    let end = scan.into_end();
    match end.reason {
        EndReason::EndOfBytes if end.offset == bytes.len() => Ok(format!("[{}]", frames.join(", "))),
        EndReason::Torn(error) => Err(error),
        reason => Err(Error::new(end.offset, "frames up to the end", format!("{reason:?}"))),
    }
}

fn dump_frame(bytes: &[u8], out: &mut String) -> Dumped {
    dump::log::dump_frames(bytes, FRAME_AT, 0, GENERATION, &mut Lines::new(out))
}

fn edit(name: &'static str, base: bool, changes: Vec<Change>) -> Sample {
    let edit = ManifestEdit { number: 0x1234, base, epoch: 7, changes };
    let value = format!("{edit:?}");
    let decode: fn(&[u8]) -> Result<String> = |bytes| Ok(format!("{:?}", ManifestEdit::decode(bytes)?));
    let dump: fn(&[u8], &mut String) -> Dumped =
        |bytes, out| dump::describe("some/where/manifest-0000000000001234", bytes, out);
    Sample { name, bytes: edit.encode(), value, decode, dump }
}

/// The identity of a directory.
fn home() -> Sample {
    let home = Home { id: 0x0123_4567_89ab_cdef_0011_2233_4455_6677 };
    let decode: fn(&[u8]) -> Result<String> = |bytes| Ok(format!("{:?}", Home::decode(bytes)?));
    let dump: fn(&[u8], &mut String) -> Dumped = |bytes, out| dump::describe("data/home", bytes, out);
    Sample { name: "home-v1-id", bytes: home.encode(), value: format!("{home:?}"), decode, dump }
}

fn log_object_id() -> LogObjectId {
    LogObjectId {
        database: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
        generation: GENERATION,
        number: 0x1234,
    }
}

/// A frame, and the value that it could refer to.
fn pieces() -> Vec<u8> {
    let database = log_object_id().database;
    let log = SegmentHeader {
        version: FormatVersion::CURRENT,
        database,
        base: BASE,
        previous_end: BASE,
        generation: GENERATION,
        capacity: GRANULE_BYTES,
    };
    let values = BlobSegmentHeader {
        database,
        number: SegmentNumber(7),
        origin: Origin::Written,
        generation: GENERATION,
    };
    let frame = put().bytes(FRAME_AT);
    let mut out = Vec::new();
    Piece { segment: PieceOf::Values(values), offset: 4096, bytes: b"a record" }.encode(&mut out);
    Piece { segment: PieceOf::Log(log), offset: 64, bytes: &frame }.encode(&mut out);
    out
}

fn decode_log_object(bytes: &[u8]) -> Result<String> {
    Ok(format!("{:?}", LogObject::decode(bytes)?))
}

fn log_object(name: &'static str, bytes: &[u8]) -> Sample {
    let dump: fn(&[u8], &mut String) -> Dumped = |bytes, out| dump::describe(LOG_OBJECT_NAME, bytes, out);
    let (value, decode) = (decode_log_object(bytes).unwrap(), decode_log_object);
    Sample { name, bytes: bytes.to_vec(), value, decode, dump }
}

/// Changes that came after the sample of every change.
fn superseded() -> Vec<Change> {
    [0, 1, 127, 128, 1000]
        .map(|thousandths| Change::Superseded { file: "flush-7-000000.table".into(), thousandths })
        .to_vec()
}

/// Changes that came with what tables hide.
fn hides() -> Vec<Change> {
    [0, 127, 1 << 40].map(|bytes| Change::Hides { file: "flush-7-000000.table".into(), bytes }).to_vec()
}

/// Changes that came with obsolete references.
fn obsolete() -> Vec<Change> {
    let values = |values: &[(u32, u32)]| {
        let values = values.iter().map(|(segment, ordinal)| (SegmentNumber(*segment), *ordinal)).collect();
        ReferenceSet::from_values(values).expect("each once")
    };
    vec![
        Change::AddObsolete { keyspace: 300, references: values(&[(7, 0), (7, 16_000), (300, 5)]) },
        Change::RemoveObsolete { keyspace: 300, references: values(&[(7, 16_000)]) },
    ]
}

/// Changes that came with separated values.
fn values() -> Vec<Change> {
    let (written, collected) = (SegmentNumber(7), SegmentNumber(300));
    let sparse: Ordinals = [0, 1, 500, 16_000].into_iter().collect();
    let dense: Ordinals = (0..100).filter(|ordinal| ordinal % 7 != 3).collect();
    let settings = KeyspaceText {
        compression: Some("none".into()),
        separate_bytes: Some("4096".into()),
        ..KeyspaceText::default()
    };
    let segment = BlobSegmentMeta {
        number: collected,
        file: "gc-17-000000.blobs".into(),
        bytes: 64 << 20,
        ordinals: 16_001,
        value_bytes: 60 << 20,
        checksum: 0x0123_4567_89ab_cdef,
        sealed_at: Position(3 * GRANULE_BYTES + 512),
    };
    let place = RelocationTarget { holder: collected, offset: 63 << 20, bytes: 2_048 };
    vec![
        Change::Keyspace { id: 0, name: "default".into(), settings },
        Change::AddBlobSegment { segment },
        Change::NextBlobSegment(SegmentNumber(301)),
        Change::RemoveBlobSegment { number: written },
        Change::DeadMap { number: collected, dead: sparse },
        Change::DeadMap { number: collected, dead: dense },
        Change::Relocation { victim: written, place },
        Change::DropRelocation { victim: written },
    ]
}

fn every_change() -> Vec<Change> {
    let plain = KeyspaceText { compression: Some("none".into()), ..KeyspaceText::default() };
    let full = KeyspaceText {
        compression: Some("zstd".into()),
        merge_operator: Some("sum".into()),
        compaction_filter: Some("newest-hour".into()),
        prefix_extractor: Some("fixed-8".into()),
        separate_bytes: None,
    };
    let position = Position(3 * GRANULE_BYTES + 512);
    let file = "flush-17-000000.table";
    vec![
        Change::Database { id: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff },
        Change::Keyspace { id: 0, name: "default".into(), settings: plain },
        Change::Keyspace { id: 300, name: "Zähler".into(), settings: full },
        Change::DropKeyspace { id: 4 },
        Change::AddTable { keyspace: 300, level: 0, run: 17, table: table_meta(file) },
        Change::RemoveTable { file: file.into() },
        Change::MoveTable { file: file.into(), level: 1, run: 1 << 40 },
        Change::FlushedThrough { keyspace: 300, position },
        Change::LogCut { position, generation: 3 },
        Change::DurableThrough { position },
        Change::NextNumber(18),
        Change::Tick { ms: 1_700_000_000_000 },
        Change::CleanEnd { position },
    ]
}

fn table_meta(file: &str) -> TableMeta {
    TableMeta {
        file: file.into(),
        bytes: 2_345_678,
        file_checksum: 0x0123_4567_89ab_cdef,
        smallest: vec![],
        largest: b"zebra\xff".to_vec(),
        sequence_min: Sequence(1_572_864),
        sequence_max: Sequence((1 << 56) - 1),
        entry_count: 20_000,
        tombstone_count: 17,
        range_tombstone_count: 2,
        data_bytes: 2_000_000,
        content_hash: u128::MAX - 1,
    }
}
