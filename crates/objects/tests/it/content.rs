//! Tables and blob segments on any backend.

use firn_format::blob::record::{BlobHead, padding, plain_chunks};
use firn_format::blob::segment::{BlobSegmentHeader, Origin};
use firn_format::blob::{Reference, SegmentNumber};
use firn_format::compression::Compression;
use firn_format::key::{Entry, Kind, Sequence};
use firn_format::manifest::{BlobSegmentMeta, TableMeta};
use firn_format::table::TableForm;
use firn_storage::Storage;
use firn_storage::file::blob::BlobBuilder;
use firn_storage::file::table::TableBuilder;

pub(crate) const SEGMENT: SegmentNumber = SegmentNumber(7);

/// `bytes` bytes that tell which record they are of.
pub(crate) fn value(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (at.wrapping_mul(31).wrapping_add(number * 7) % 251) as u8).collect()
}

/// The table `name` of the keys `numbers`, each with a value of `value_bytes`.
pub(crate) fn table(
    backend: &dyn Storage,
    name: &str,
    sequence: u64,
    numbers: impl Iterator<Item = u64>,
    value_bytes: usize,
) -> TableMeta {
    let form = TableForm::default();
    let mut builder = TableBuilder::new(name, backend.create(name).unwrap(), form);
    for number in numbers {
        let (key, value) = (number.to_be_bytes(), value(number, value_bytes));
        let sequence = Sequence(sequence);
        let entry = Entry { key: &key, sequence, kind: Kind::Put, expires_at_ms: 0, value: &value };
        builder.add(&entry).unwrap();
    }
    builder.finish().unwrap()
}

/// The blob segment `name` of `count` values of `value_bytes` each; each one's key is its number.
pub(crate) fn values(
    backend: &dyn Storage,
    name: &str,
    count: u32,
    value_bytes: usize,
) -> (BlobSegmentMeta, Vec<Reference>) {
    let header = BlobSegmentHeader { database: 1, number: SEGMENT, origin: Origin::Collected, generation: 0 };
    let mut builder = BlobBuilder::new(name, backend.create(name).unwrap(), &header);
    let mut references = Vec::new();
    for ordinal in 0..count {
        let value = value(u64::from(ordinal), value_bytes);
        let head = BlobHead {
            segment: SEGMENT,
            ordinal,
            value_bytes: value_bytes as u32,
            keyspace: 0,
            key_bytes: 4,
            codec: Compression::None,
        };
        let mut record = Vec::new();
        let checksum = head.encode(plain_chunks(&value), &ordinal.to_be_bytes(), &mut record);
        record.extend_from_slice(&value);
        record.extend_from_slice(padding(record.len()));
        let offset = builder.bytes();
        builder.begin(head.value_bytes).unwrap();
        builder.put(&record).unwrap();
        let value_bytes = head.value_bytes;
        references.push(Reference { segment: SEGMENT, ordinal, offset, value_bytes, checksum });
    }
    (builder.finish(&[]).unwrap().0, references)
}
