//! Separated values are asked for together before the first of them is read, whether their
//! files are mapped or not.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use firn_engine::{
    BatchLimit, Completion, Compression, Engine, KeyspaceId, KeyspaceSettings, Ordered, OrderedSession,
    Outcome, ReadAt, ScanBatch, ScanRange, Values, WriteOptions,
};
use firn_storage::backend::{ASKED_MAX, Local, LocalOptions};
use firn_storage::{Clock, Storage, SystemClock};
use firn_tree::{Background, Settings, Tree, TreeOptions};

use crate::support::asking::{Asking, Event};
use crate::support::world::{self, World, get_in, settle, tiny};

/// More than are asked for at a time.
const KEYS: u32 = 80;

/// How keys are read.
#[derive(Clone, Copy, Debug)]
enum Way {
    Several,
    Forward,
    Backward,
}

/// A database whose values lie in sealed segments, some of them, if `are_moved`, where a GC
/// put them.
fn filled(compression: Compression, are_moved: bool) -> (World, KeyspaceId) {
    let lazy = Settings { space_amplification_max: 100.0, ..tiny() }
        .with_engine(|tree| tree.blob_segment_bytes = 1 << 20);
    let mut world = World::new(lazy);
    let tree = world.open().unwrap();
    let settings = KeyspaceSettings {
        separate_bytes: Some(1000),
        compression: Some(compression),
        ..KeyspaceSettings::default()
    };
    let id = tree.create_keyspace("large", settings).unwrap();
    let mut session = world::session(&tree);
    for round in 0..if are_moved { 2 } else { 1 } {
        for key in (0..KEYS).filter(|key| round == 0 || key % 3 > 0) {
            session.put(id, &key.to_be_bytes(), &value(key), WriteOptions::default()).unwrap();
        }
        tree.flush().unwrap();
        tree.compact_range(id, b"", None).unwrap();
    }
    session.put(id, &KEYS.to_be_bytes(), b"in the tree", WriteOptions::default()).unwrap();
    drop(session);
    tree.close().unwrap();
    if are_moved {
        world.settings.space_amplification_max = 1.05;
        let tree = world.open().unwrap();
        settle(&tree);
        let stats = tree.stats().tree.expect("a tree").blobs;
        assert!(stats.gc_count > 0 && stats.relocation_count > 0, "{stats:?}");
        tree.close().unwrap();
        world.settings.space_amplification_max = 100.0;
    }
    // None of it fits in memory.
    world.settings.page_cache_bytes = 1;
    (world, id)
}

/// Half of it shrinks.
fn value(key: u32) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(key.into());
    (0..3000).map(|at| if at % 2 == 0 { random.u8(..) } else { 7 }).collect()
}

/// Keys and values of a batch or of several keys, in order.
type Rows = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn read_several(session: &mut dyn OrderedSession, id: KeyspaceId) -> Rows {
    // Some of them there are not, and one lies in the tree.
    let keys: Vec<[u8; 4]> = (0..KEYS + 10).map(u32::to_be_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
    let mut values = Values::new();
    if let Outcome::Pending(_) = session.multi_get(ReadAt::Latest, id, &keys, &mut values).unwrap() {
        session.poll(&mut |_, completion| match completion {
            Completion::Values(found) => values = found,
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(values.len(), keys.len());
    keys.iter().zip(values.iter()).map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))).collect()
}

fn scan(session: &mut dyn OrderedSession, id: KeyspaceId, range: ScanRange) -> Rows {
    let mut scan = session.scan(ReadAt::Latest, id, range).unwrap();
    let mut batch = ScanBatch::new();
    if let Outcome::Pending(_) = scan.next_batch(BatchLimit::default(), &mut batch).unwrap() {
        session.poll(&mut |_, completion| match completion {
            Completion::Scanned(found) => batch = found,
            other => panic!("{other:?}"),
        });
    }
    batch.records().map(|(key, value)| (key.to_vec(), Some(value.to_vec()))).collect()
}

/// Checks that each read was asked for. Answers how many there were, and how many were asked for
/// before the first, and at most.
fn check(events: Vec<Event>, is_mapped: bool, what: &str) -> (usize, usize, usize) {
    let (mut asked, mut reads, mut before, mut most): (Vec<(String, Range<u64>)>, _, _, _) =
        (Vec::new(), 0, 0, 0);
    for event in events {
        match event {
            Event::Asked(file, range) => {
                // A backend that asks far away has each byte once.
                let is_apart = |(other, known): &(String, Range<u64>)| {
                    *other != file || known.end <= range.start || range.end <= known.start
                };
                assert!(is_mapped || asked.iter().all(is_apart), "{what}: {range:?} of {asked:?}");
                asked.push((file, range));
                most = most.max(asked.len());
            }
            Event::Read(file, range) => {
                if reads == 0 {
                    before = asked.len();
                }
                reads += 1;
                let known = asked.iter().position(|asked| *asked == (file.clone(), range.clone()));
                let known = known.unwrap_or_else(|| panic!("{what}: {range:?} of {file} was not asked for"));
                asked.remove(known);
            }
        }
    }
    assert!(asked.is_empty(), "{what}: {asked:?} was not read");
    (reads, before, most)
}

fn read(tree: &Arc<Tree>, id: KeyspaceId, way: Way, is_inline: bool) -> Rows {
    let mut session = tree.ordered_session();
    session.set_inline(is_inline);
    match way {
        Way::Several => read_several(&mut *session, id),
        Way::Forward => scan(&mut *session, id, ScanRange::all()),
        Way::Backward => scan(&mut *session, id, ScanRange::all().backward()),
    }
}

#[test]
fn values_are_asked_for_before_the_first_is_read() {
    for (compression, are_moved) in [
        (Compression::None, false),
        (Compression::None, true),
        (Compression::Lz4, false),
        (Compression::Lz4, true),
    ] {
        let (world, id) = filled(compression, are_moved);
        for is_mapped in [true, false] {
            let backend = Arc::new(Asking::new(Arc::new(world.storage.clone()), is_mapped));
            let storage = Arc::clone(&backend) as Arc<dyn Storage>;
            let (background, read_only) = (Background::Manual, true);
            let tree = Tree::open(TreeOptions { storage, background, read_only, ..world.options() }).unwrap();
            for (way, is_inline) in [Way::Several, Way::Forward, Way::Backward]
                .into_iter()
                .flat_map(|way| [true, false].map(|is_inline| (way, is_inline)))
            {
                let what = format!(
                    "{compression:?}, moved {are_moved}, mapped {is_mapped}, {way:?}, inline {is_inline}"
                );
                let counted = tree.stats().tree.expect("a tree").blobs;
                backend.take();
                let mut rows = read(&tree, id, way, is_inline);
                let (reads, before, most) = check(backend.take(), is_mapped, &what);
                assert_eq!((reads, before, most), (KEYS as usize, ASKED_MAX, ASKED_MAX), "{what}");
                if let Way::Backward = way {
                    rows.reverse();
                }
                let expected = (0..KEYS).map(|key| (key.to_be_bytes().to_vec(), Some(value(key))));
                assert!(rows.iter().take(KEYS as usize).cloned().eq(expected), "{what}");
                let found = rows.iter().filter(|(_, value)| value.is_some()).count();
                assert_eq!(found, KEYS as usize + 1, "{what}");
                let stats = tree.stats().tree.expect("a tree").blobs;
                assert_eq!(stats.read_count - counted.read_count, KEYS.into(), "{what}: each once");
                assert_eq!(
                    stats.read_bytes_total - counted.read_bytes_total,
                    u64::from(KEYS) * 3000,
                    "{what}"
                );
            }
            tree.close().unwrap();
        }
    }
}

#[test]
fn what_lies_in_memory_is_not_asked_for() {
    let (mut world, id) = filled(Compression::None, false);
    world.settings.page_cache_bytes = 0;
    let backend = Arc::new(Asking::new(Arc::new(world.storage.clone()), true));
    let tree = world.open_on(Arc::clone(&backend) as Arc<dyn Storage>, Background::Manual);
    backend.take();
    for way in [Way::Several, Way::Forward, Way::Backward] {
        assert!(read(&tree, id, way, false).len() > KEYS as usize);
        assert_eq!(backend.take(), [], "{way:?}");
    }
}

/// Nothing of the files of `dir` is in memory any more, as far as the system listens.
fn evict(dir: &Path) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let file = std::fs::File::open(entry.unwrap().path()).unwrap();
        rustix::fs::fsync(&file).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

#[test]
#[ignore = "figures: `cargo test -p firn-tree --test it -- --ignored --nocapture figures_of_cold_reads`"]
fn figures_of_cold_reads() {
    const ALL: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new(tiny().with_engine(|tree| tree.blob_segment_bytes = 64 << 20));
    let open = |world: &World, is_mapped: bool| {
        let backend = Local::open(dir.path(), LocalOptions { create: true }).unwrap();
        let backend = if is_mapped { backend } else { backend.without_mappings() };
        world.open_on(Arc::new(backend), Background::Manual)
    };
    let key = |index: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let tree = open(&world, true);
    let settings = KeyspaceSettings { separate_bytes: Some(1000), ..KeyspaceSettings::default() };
    let id = tree.create_keyspace("large", settings).unwrap();
    let mut session = world::session(&tree);
    for index in 0..ALL {
        session.put(id, &key(index), &[index as u8; 4000], WriteOptions::default()).unwrap();
    }
    drop(session);
    tree.compact_range(id, b"", None).unwrap();
    tree.close().unwrap();
    world.settings.page_cache_bytes = 1;
    let clock = SystemClock::new();
    for is_mapped in [true, false] {
        for way in ["get", "multi_get of 64", "scan"] {
            evict(dir.path());
            let tree = open(&world, is_mapped);
            let mut session = world::session(&tree);
            let begin = clock.now();
            let keys: Vec<[u8; 8]> = (0..4096).map(|at| key(at * 7919 % ALL)).collect();
            match way {
                "get" => keys.iter().for_each(|key| assert!(get_in(&mut session, id, key).is_some())),
                "scan" => assert_eq!(
                    session.scan(ReadAt::Latest, id, ScanRange::all()).unwrap().take(4096).count(),
                    4096
                ),
                _ => keys.chunks(64).for_each(|some| {
                    let some: Vec<&[u8]> = some.iter().map(<[u8; 8]>::as_slice).collect();
                    let found = session.multi_get(ReadAt::Latest, id, &some).unwrap();
                    assert!(found.iter().all(|value| value.is_some()));
                }),
            }
            println!("mapped {is_mapped}, 4096 values of 4 KB by {way}: {:?}", clock.now() - begin);
            drop(session);
            tree.close().unwrap();
        }
    }
}
