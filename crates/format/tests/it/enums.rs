//! Numbers that stand in files: the list in `golden/enums.txt` may grow and never change.

use std::fs;

use firn_format::blob::{Ordinals, SegmentNumber};
use firn_format::compression::Compression;
use firn_format::datatype::{CatalogKind, Encoding, FieldKind, Property, Tag};
use firn_format::log::FrameKind;
use firn_format::manifest::{BlobSegmentMeta, Change, KeyspaceText, RelocationTarget, TableMeta};
use firn_format::table::ReferenceSet;
use firn_format::{FormatVersion, Kind, Position, Sequence};

use crate::golden;

const FILE: &str = "enums.txt";

/// Each number with its meaning, one a line.
fn lines() -> Vec<String> {
    let mut lines: Vec<String> =
        vec![format!("FormatVersion {:?} {}", FormatVersion::V1, FormatVersion::V1 as u32)];
    for number in 0..=u8::MAX {
        lines.extend(Kind::from_u8(number).map(|kind| format!("Kind {kind:?} {number}")));
    }
    for number in 0..=u8::MAX {
        lines.extend(FrameKind::from_u8(number).map(|kind| format!("FrameKind {kind:?} {number}")));
    }
    for change in changes() {
        let text = match &change {
            Change::Cold(change) => format!("Cold{change:?}"),
            change => format!("{change:?}"),
        };
        let name = text.split([' ', '(']).next().unwrap_or_default();
        lines.push(format!("Change {name} {}", change.tag()));
    }
    for number in 0..=u8::MAX {
        lines.extend(Compression::from_u8(number).map(|codec| format!("Compression {codec:?} {number}")));
    }
    lines.extend(datatype_lines());
    lines
}

/// Numbers in keys and values of a served database.
fn datatype_lines() -> Vec<String> {
    let mut lines = Vec::new();
    for number in 0..=u8::MAX {
        lines.extend(Tag::from_u8(number).map(|tag| format!("Tag {tag:?} {number}")));
    }
    for number in 0..=u8::MAX {
        lines.extend(Encoding::from_u8(number).map(|encoding| format!("Encoding {encoding:?} {number}")));
    }
    for number in 0..=u8::MAX {
        lines.extend(FieldKind::from_u8(number).map(|kind| format!("FieldKind {kind:?} {number}")));
    }
    for number in 0..=u8::MAX {
        lines.extend(CatalogKind::from_u8(number).map(|kind| format!("CatalogKind {kind:?} {number}")));
    }
    for number in 0..=u8::MAX {
        lines.extend(Property::from_u8(number).map(|property| format!("Property {property:?} {number}")));
    }
    lines
}

/// One change of each kind.
fn changes() -> Vec<Change> {
    let position = Position(0);
    let file = String::new();
    let table = TableMeta {
        file: file.clone(),
        bytes: 0,
        file_checksum: 0,
        smallest: vec![],
        largest: vec![],
        sequence_min: Sequence(0),
        sequence_max: Sequence(0),
        entry_count: 0,
        tombstone_count: 0,
        range_tombstone_count: 0,
        data_bytes: 0,
        content_hash: 0,
    };
    let extent = |log| Change::Extent(firn_format::hybrid::Extent { log, from: 0, to: 1, generation: 0 });
    vec![
        Change::Database { id: 0 },
        Change::Keyspace { id: 0, name: String::new(), settings: KeyspaceText::default() },
        Change::DropKeyspace { id: 0 },
        Change::AddTable { keyspace: 0, level: 0, run: 0, table },
        Change::RemoveTable { file: file.clone() },
        Change::MoveTable { file, level: 0, run: 0 },
        Change::FlushedThrough { keyspace: 0, position },
        Change::LogCut { position, generation: 0 },
        Change::DurableThrough { position },
        Change::NextNumber(0),
        Change::Tick { ms: 0 },
        Change::CleanEnd { position },
        Change::Superseded { file: String::new(), thousandths: 0 },
        Change::Hides { file: String::new(), bytes: 0 },
        Change::IngestedThrough { keyspace: 0, position },
        Change::LogHome { id: 0 },
        Change::LogObjects { generation: 0, first: 0, cut: position },
        Change::TakeOver { id: 0 },
        Change::Boot { id: 0 },
        Change::AddBlobSegment { segment: BlobSegmentMeta::default() },
        Change::NextBlobSegment(SegmentNumber(0)),
        Change::RemoveBlobSegment { number: SegmentNumber(0) },
        Change::DeadMap { number: SegmentNumber(0), dead: Ordinals::new() },
        Change::Relocation { victim: SegmentNumber(0), place: RelocationTarget::default() },
        Change::DropRelocation { victim: SegmentNumber(0) },
        Change::AddObsolete { keyspace: 0, references: ReferenceSet::default() },
        Change::RemoveObsolete { keyspace: 0, references: ReferenceSet::default() },
        Change::Hashed { page_bits: 0, segment_bits: 0 },
        Change::HybridCut { address: 0, redo: 0 },
        Change::HybridBegin { address: 0 },
        Change::PositionsGiven { position },
        Change::RedoBegun { redo: 0 },
        Change::Checkpointed { position },
        Change::Cold(firn_format::manifest::ColdChange::Cut { address: 0 }),
        Change::Cold(firn_format::manifest::ColdChange::Begin { address: 0 }),
        Change::Cold(firn_format::manifest::ColdChange::Run { number: 0, spilled: 0 }),
        Change::Cold(firn_format::manifest::ColdChange::DropRun { number: 0 }),
        extent(firn_format::hybrid::LogKind::Hybrid),
        extent(firn_format::hybrid::LogKind::Cold),
    ]
}

#[test]
fn persisted_numbers_only_grow() {
    let now = lines();
    let frozen = fs::read_to_string(golden::path(FILE)).unwrap_or_default();
    for line in frozen.lines() {
        assert!(
            now.iter().any(|now| now == line),
            "`{line}` stands in files of earlier releases and is gone"
        );
    }
    golden::expect_text(FILE, &(now.join("\n") + "\n"));
}

#[test]
fn numbers_go_there_and_back() {
    for number in 0..=u8::MAX {
        assert!(Kind::from_u8(number).is_none_or(|kind| kind as u8 == number));
        assert!(FrameKind::from_u8(number).is_none_or(|kind| kind as u8 == number));
        assert!(Compression::from_u8(number).is_none_or(|codec| codec as u8 == number));
        assert!(Tag::from_u8(number).is_none_or(|tag| tag as u8 == number));
        assert!(Encoding::from_u8(number).is_none_or(|encoding| encoding as u8 == number));
        assert!(FieldKind::from_u8(number).is_none_or(|kind| kind as u8 == number));
        assert!(CatalogKind::from_u8(number).is_none_or(|kind| kind as u8 == number));
        assert!(Property::from_u8(number).is_none_or(|property| property as u8 == number));
    }
}
