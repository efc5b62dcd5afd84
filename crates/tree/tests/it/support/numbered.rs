//! Batches that carry their number, so that a check can tell which of them a database holds, each
//! one whole.

use std::collections::BTreeMap;

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{Batch, Engine, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, ReadAt, ScanRange};
use firn_tree::Tree;

/// The two keyspaces that every batch of more than one record touches.
pub(crate) type Both = [KeyspaceId; 2];

/// The default keyspace and another, made if it is not there.
pub(crate) fn both(tree: &Tree) -> Both {
    [KEYSPACE_DEFAULT, tree.create_keyspace("other", KeyspaceSettings::default()).unwrap()]
}

/// Batch `number` of `thread`: that many records, in both keyspaces by turns, each of them telling
/// how many they are.
pub(crate) fn numbered(both: Both, thread: u8, number: u32, records: u16, value_bytes: usize) -> Batch {
    let mut batch = Batch::new();
    for index in 0..records {
        let key = [&[thread][..], &number.to_be_bytes(), &index.to_be_bytes()].concat();
        let mut value = records.to_le_bytes().to_vec();
        value.resize(value_bytes.max(2), thread ^ number as u8 ^ index as u8);
        batch.put(both[usize::from(index) % 2], &key, &value);
    }
    batch
}

/// The batches that a database holds, by thread, in the order of their numbers.
///
/// # Panics
/// If one is there in part, or with bytes that were never written.
pub(crate) fn found(session: &mut OrderedBlocking, at: ReadAt<'_>, both: Both) -> BTreeMap<u8, Vec<u32>> {
    let mut records: BTreeMap<(u8, u32), (u16, u16)> = BTreeMap::new();
    for keyspace in both {
        let mut scan = session.scan(at, keyspace, ScanRange::all()).unwrap();
        while let Some((key, value)) = scan.next_record().unwrap() {
            let (thread, number) = (key[0], u32::from_be_bytes(key[1..5].try_into().unwrap()));
            let index = u16::from_be_bytes(key[5..].try_into().unwrap());
            let expected = u16::from_le_bytes(value[..2].try_into().unwrap());
            let filler = thread ^ number as u8 ^ index as u8;
            assert!(value[2..].iter().all(|byte| *byte == filler), "thread {thread} batch {number}: {index}");
            let count = records.entry((thread, number)).or_insert((0, expected));
            assert_eq!(count.1, expected, "thread {thread} batch {number}");
            count.0 += 1;
        }
    }
    let mut found: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
    for ((thread, number), (count, expected)) in records {
        assert_eq!(count, expected, "thread {thread}: batch {number} is there in part");
        found.entry(thread).or_default().push(number);
    }
    found
}

/// How many batches of each thread there are, where none is missing between.
///
/// # Panics
/// If a later one is there without an earlier one.
pub(crate) fn prefixes(session: &mut OrderedBlocking, at: ReadAt<'_>, both: Both) -> BTreeMap<u8, u32> {
    let count = |(thread, numbers): (u8, Vec<u32>)| {
        let count = numbers.len() as u32;
        assert!(numbers.iter().copied().eq(0..count), "thread {thread}: a batch before others is missing");
        (thread, count)
    };
    found(session, at, both).into_iter().map(count).collect()
}
