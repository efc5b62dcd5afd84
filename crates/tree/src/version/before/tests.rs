//! Edits that are taken back, drawn at random.

use fastrand::Rng;
use firn_format::blob::SegmentNumber;
use firn_format::manifest::{BlobSegmentMeta, KeyspaceText, RelocationTarget, TableMeta};
use firn_format::table::ReferenceSet;
use firn_format::{Position, Sequence};

use super::*;

fn table(random: &mut Rng) -> TableMeta {
    TableMeta {
        file: file(random),
        bytes: random.u64(..),
        file_checksum: 0,
        smallest: b"a".to_vec(),
        largest: b"b".to_vec(),
        sequence_min: Sequence(1),
        sequence_max: Sequence(1),
        entry_count: 1,
        tombstone_count: 0,
        range_tombstone_count: 0,
        data_bytes: 1,
        content_hash: random.u128(..),
    }
}

fn file(random: &mut Rng) -> String {
    format!("{}.table", random.u8(..6))
}

fn segment(random: &mut Rng) -> SegmentNumber {
    SegmentNumber(random.u32(..4))
}

fn references(random: &mut Rng) -> ReferenceSet {
    ReferenceSet::from_values(vec![(segment(random), random.u32(..4))]).unwrap()
}

/// One of every kind of change; few names, so that some fit and some do not.
fn change(random: &mut Rng) -> Change {
    let (keyspace, position) = (random.u32(..4), Position(random.u64(..)));
    match random.u8(..23) {
        0 => Change::Database { id: random.u128(..) },
        1 | 2 => {
            let compression = random.bool().then(|| "zstd".to_owned());
            let settings = KeyspaceText { compression, ..KeyspaceText::default() };
            Change::Keyspace { id: keyspace, name: format!("k{keyspace}"), settings }
        }
        3 => Change::DropKeyspace { id: keyspace },
        4 | 5 => Change::AddTable { keyspace, level: random.u32(..3), run: 1, table: table(random) },
        6 => Change::RemoveTable { file: file(random) },
        7 => Change::MoveTable { file: file(random), level: random.u32(..3), run: random.u64(..) },
        8 => Change::FlushedThrough { keyspace, position },
        9 => Change::LogCut { position, generation: random.u64(..) },
        10 => Change::DurableThrough { position },
        11 => Change::NextNumber(random.u64(..)),
        12 => Change::Tick { ms: random.u64(..) },
        13 => Change::Superseded { file: file(random), thousandths: random.u32(..1000) },
        14 => Change::Hides { file: file(random), bytes: random.u64(..) },
        15 => Change::LogHome { id: random.u128(..) },
        16 => Change::LogObjects { generation: random.u64(..), first: random.u64(..), cut: position },
        17 => Change::Boot { id: random.u128(..) },
        18 => {
            let segment = BlobSegmentMeta { number: segment(random), ordinals: 9, ..Default::default() };
            Change::AddBlobSegment { segment }
        }
        19 => Change::RemoveBlobSegment { number: segment(random) },
        20 => Change::DeadMap { number: segment(random), dead: [random.u32(..9)].into_iter().collect() },
        21 => {
            let place = RelocationTarget { holder: segment(random), offset: 64, bytes: 8 };
            Change::Relocation { victim: segment(random), place }
        }
        _ => Change::AddObsolete { keyspace, references: references(random) },
    }
}

#[test]
fn an_edit_that_is_taken_back_leaves_nothing() {
    let mut fitting = 0;
    for seed in 0..10 {
        let mut random = Rng::with_seed(seed);
        let mut state = State::default();
        for round in 0..2000 {
            let changes: Vec<Change> = (0..random.usize(1..4)).map(|_| change(&mut random)).collect();
            let was = state.clone();
            let before = Before::of(&state, &changes);
            let applied = changes.iter().try_for_each(|change| state.apply(change));
            fitting += u32::from(applied.is_ok());
            if applied.is_err() || random.u8(..3) == 0 {
                before.restore(&mut state);
                assert_eq!(state, was, "seed {seed}, round {round}: {changes:?}");
            }
        }
    }
    assert!((2000..18_000).contains(&fitting), "{fitting} fitted");
}

#[test]
fn a_dropped_keyspace_comes_back_with_its_tables_and_references() {
    let mut random = Rng::with_seed(1);
    let mut state = State::default();
    let text = KeyspaceText::default;
    let table = table(&mut random);
    for change in [
        Change::Keyspace { id: 1, name: "one".to_owned(), settings: text() },
        Change::Keyspace { id: 2, name: "two".to_owned(), settings: text() },
        Change::AddTable {
            keyspace: 1,
            level: 0,
            run: 1,
            table: TableMeta { file: "1".to_owned(), ..table },
        },
        Change::AddObsolete { keyspace: 1, references: references(&mut random) },
    ] {
        state.apply(&change).unwrap();
    }
    let (was, drop) = (state.clone(), [Change::DropKeyspace { id: 1 }]);
    let before = Before::of(&state, &drop);
    // What the edit does not name is not copied.
    assert_eq!((before.keyspaces.len(), before.tables.len()), (1, 1));
    state.apply(&drop[0]).unwrap();
    assert!(state != was && state.tables.is_empty() && state.blobs.obsolete.is_empty());
    before.restore(&mut state);
    assert_eq!(state, was);
}
