//! T5: 1 000 keyspaces under a small memory budget wrote a table, a sync and an edit each for some
//! kilobytes. What many of them hold is flushed into one file.
//!
//! Neighbours: such a file is read, scanned, compacted, copied, verified, reopened. Keyspaces of it
//! are dropped; what is dead in it is given back; one keyspace cannot be written. Few keyspaces,
//! and large ones, have files of their own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use firn_engine::conformance::semantics;
use firn_engine::{
    Compression, Engine, KeyspaceId, KeyspaceSettings, Ordered, ReadAt, ScanRange, WriteOptions,
};
use firn_format::file_name::part;
use firn_storage::Storage;
use firn_tree::{Tree, TreeOptions, VerifyOptions, verify};

use super::joining::{Joining, joined};
use crate::support::world::{World, appending, get_in, prefixed, rows, seed, session, settle, threads, tiny};

/// Records of each keyspace.
type Model = BTreeMap<u32, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A database of many small keyspaces, and what must be read from it.
pub(super) struct Many {
    pub(super) world: World,
    pub(super) tree: Arc<Tree>,
    pub(super) model: Model,
}

/// Settings that are no two neighbours' own.
fn settings(number: u32) -> KeyspaceSettings {
    let compression = [Compression::None, Compression::Lz4, Compression::Zstd][number as usize % 3];
    let settings = match number % 4 {
        0 => appending(),
        1 => prefixed(),
        _ => KeyspaceSettings::default(),
    };
    KeyspaceSettings { compression: Some(compression), ..settings }
}

/// A value that no compression shortens.
fn value(keyspace: u32, key: u32, round: u32) -> Vec<u8> {
    let mut random =
        fastrand::Rng::with_seed(u64::from(keyspace) << 40 | u64::from(key) << 20 | u64::from(round));
    let bytes = random.usize(20..200);
    std::iter::repeat_with(|| random.u8(..)).take(bytes).collect()
}

impl Many {
    pub(super) fn new(world: World) -> Self {
        let tree = world.open().unwrap();
        Self { world, tree, model: Model::new() }
    }

    /// `count` keyspaces with a few records each.
    pub(super) fn written(count: u32) -> Self {
        let mut many = Self::new(World::new(tiny()));
        for number in 0..count {
            many.create(number);
        }
        many.write(0..20, 0);
        many
    }

    /// The same, flushed together.
    pub(super) fn flushed(count: u32) -> Self {
        let many = Self::written(count);
        many.tree.flush().unwrap();
        many
    }

    fn create(&mut self, number: u32) -> KeyspaceId {
        let id = self.tree.create_keyspace(&format!("keyspace {number}"), settings(number)).unwrap();
        self.model.insert(id.0, BTreeMap::new());
        id
    }

    /// Puts those keys into every keyspace.
    pub(super) fn write(&mut self, keys: std::ops::Range<u32>, round: u32) {
        let mut session = session(&self.tree);
        for (id, model) in &mut self.model {
            for key in keys.clone() {
                let value = value(*id, key, round);
                let key = format!("{key:04}").into_bytes();
                session.put(KeyspaceId(*id), &key, &value, WriteOptions::default()).unwrap();
                model.insert(key, value);
            }
        }
    }

    /// Drops all keyspaces but every `kept`th.
    pub(super) fn drop_most(&mut self, kept: u32) {
        let ids: Vec<u32> = self.model.keys().copied().filter(|id| id % kept != 0).collect();
        for id in ids {
            self.tree.drop_keyspace(KeyspaceId(id)).unwrap();
            self.model.remove(&id);
        }
    }

    pub(super) fn reopen(&mut self) {
        self.tree.close().unwrap();
        self.tree = self.world.open().unwrap();
    }

    #[track_caller]
    pub(super) fn assert_all(&self, what: &str) {
        assert_holds(&self.tree, &self.model, what);
    }

    /// Names and lengths of shared files.
    pub(super) fn shared(&self) -> Vec<(String, u64)> {
        shared(&self.world)
    }

    /// Asserts that disk use is as statistics say, and files are at most twice as large as what
    /// lives in them.
    #[track_caller]
    pub(super) fn assert_small(&self, what: &str) {
        let files = self.world.storage.list().unwrap();
        let tables = files.iter().filter(|(name, _)| name.contains(".table"));
        let bytes: u64 = tables.map(|(_, bytes)| *bytes).sum();
        let stats = self.tree.stats();
        assert_eq!(
            stats.tree.as_ref().expect("a tree").table_bytes + stats.recycled_bytes,
            bytes,
            "{what}: told and there"
        );
        let live: u64 = stats
            .keyspaces
            .iter()
            .flat_map(|keyspace| &keyspace.tree.as_ref().expect("a tree").levels)
            .map(|(_, bytes)| bytes)
            .sum();
        assert!(
            stats.tree.as_ref().expect("a tree").table_bytes <= 2 * live,
            "{what}: {} bytes for {live} that live",
            stats.tree.as_ref().expect("a tree").table_bytes
        );
    }
}

pub(super) fn shared(world: &World) -> Vec<(String, u64)> {
    let files = world.storage.list().unwrap();
    files.into_iter().filter(|(name, _)| name.ends_with(".tables")).collect()
}

#[track_caller]
pub(super) fn assert_holds(tree: &Arc<Tree>, model: &Model, what: &str) {
    let mut session = session(tree);
    for (id, records) in model {
        let keyspace = KeyspaceId(*id);
        for (key, value) in records {
            assert_eq!(get_in(&mut session, keyspace, key).as_ref(), Some(value), "{what}: {id} {key:?}");
        }
        let found = rows(&mut session, ReadAt::Latest, keyspace, ScanRange::all());
        assert!(found.iter().map(|(key, value)| (key, value)).eq(records), "{what}: a scan of {id}");
    }
}

/// That everything in the directory is sound, and nothing is left over.
#[track_caller]
pub(super) fn assert_sound(storage: Arc<dyn Storage>, what: &str) {
    let report = verify(VerifyOptions { storage, semantics: semantics() }, &mut |_| {}).unwrap();
    assert_eq!(report.findings, [], "{what}");
}

#[test]
fn t5_keyspaces_in_one_file_are_read_reopened_and_compacted() {
    let mut many = Many::flushed(12);
    let files = many.shared();
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(many.world.storage_names(".table"), [""; 0]);
    let stats = many.tree.stats();
    assert_eq!(
        (stats.tree.as_ref().expect("a tree").table_count, stats.tree.as_ref().expect("a tree").flush_count),
        (12, 1)
    );
    many.assert_all("flushed");
    many.assert_small("flushed");
    many.reopen();
    many.assert_all("reopened");
    many.assert_small("reopened");
    // Newer records above, some of them gone; compacted one by one.
    many.write(10..30, 1);
    many.tree.flush().unwrap();
    many.assert_all("written again");
    let ids: Vec<u32> = many.model.keys().copied().collect();
    for (index, id) in ids.iter().enumerate() {
        many.tree.compact_range(KeyspaceId(*id), b"", None).unwrap();
        settle(&many.tree);
        many.assert_all("compacted");
        many.assert_small(&format!("{index} compacted"));
    }
    assert_eq!(many.shared(), [], "every part was compacted");
    many.tree.close().unwrap();
    assert_sound(Arc::new(many.world.storage.clone()), "closed");
}

#[test]
fn t5_compactions_of_many_keyspaces_go_into_one_file_by_one_edit() {
    let mut many = Many::flushed(12);
    for round in 1..8 {
        many.write(round * 2..round * 2 + 12, round);
        many.tree.flush().unwrap();
        many.assert_all(&format!("round {round}"));
    }
    let edits =
        many.world.storage_names("").iter().filter(|name| name.starts_with("manifest-")).max().cloned();
    settle(&many.tree);
    many.assert_all("compacted");
    many.assert_small("compacted");
    let stats = many.tree.stats();
    assert!(
        stats.tree.as_ref().expect("a tree").compaction_count >= 12,
        "{}",
        stats.tree.as_ref().expect("a tree").compaction_count
    );
    assert_eq!(many.world.storage_names(".table"), [""; 0]);
    let number = |name: &str| u64::from_str_radix(name.rsplit('-').next().unwrap(), 16).unwrap();
    let last = many.world.storage_names("").into_iter().filter(|name| name.starts_with("manifest-")).max();
    let written = number(&last.unwrap()) - number(&edits.unwrap());
    assert!(written < 12, "{written} edits");
    many.reopen();
    many.assert_all("reopened");
    many.tree.close().unwrap();
    assert_sound(Arc::new(many.world.storage.clone()), "closed");
}

#[test]
fn t5_a_file_goes_with_the_last_keyspace_that_a_reader_has_of_it() {
    let mut many = Many::flushed(8);
    let snapshot = many.tree.snapshot().unwrap();
    let kept = *many.model.keys().next().unwrap();
    let mut reader = session(&many.tree);
    let scan = reader.scan(ReadAt::Latest, KeyspaceId(kept), ScanRange::all()).unwrap();
    let expected = many.model[&kept].len();
    many.drop_most(u32::MAX);
    settle(&many.tree);
    // It began before they were dropped.
    assert_eq!(scan.map(Result::unwrap).count(), expected);
    drop((snapshot, reader));
    settle(&many.tree);
    assert_eq!(many.shared(), []);
    assert_eq!(many.tree.stats().tree.expect("a tree").table_bytes, 0);
}

#[test]
fn t5_what_lives_in_a_file_that_is_mostly_dead_is_copied() {
    for is_reopened in [false, true] {
        let mut many = Many::flushed(30);
        let before = many.shared();
        many.drop_most(5);
        if is_reopened {
            many.reopen();
        }
        settle(&many.tree);
        let after = many.shared();
        assert_eq!((before.len(), after.len()), (1, 1), "{after:?}");
        assert!(after[0].1 * 3 < before[0].1 && after[0].0 != before[0].0, "{before:?} {after:?}");
        many.assert_all("copied");
        many.assert_small("copied");
        many.reopen();
        many.assert_all("reopened");
        many.write(0..5, 1);
        many.tree.flush().unwrap();
        many.assert_all("written again");
        many.tree.close().unwrap();
        assert_sound(Arc::new(many.world.storage.clone()), "closed");
    }
}

#[test]
fn t5_disk_stays_flat_while_keyspaces_come_and_go() {
    let mut many = Many::new(World::new(tiny()));
    let mut most = 0;
    for round in 0..12 {
        for number in 0..20 {
            many.create(round * 20 + number);
        }
        many.write(0..10, round);
        many.tree.flush().unwrap();
        many.drop_most(10);
        settle(&many.tree);
        many.assert_small(&format!("round {round}"));
        most = most.max(many.shared().len());
        if round % 4 == 3 {
            many.reopen();
        }
    }
    many.assert_all("in the end");
    // Without copying there would be one for each round, for a tenth of its keyspaces.
    assert!(most <= 4, "{most} files");
}

#[test]
fn t5_a_copy_has_the_file_once_and_outlives_what_it_was_made_of() {
    let mut many = Many::flushed(10);
    let path = Path::new("copy");
    many.tree.copy_to(path).unwrap();
    let model = many.model.clone();
    many.drop_most(u32::MAX);
    settle(&many.tree);
    many.tree.close().unwrap();
    let copy = World { storage: many.world.storage.directory(path).unwrap(), ..many.world.clone() };
    assert_eq!(shared(&copy).len(), 1);
    assert_sound(Arc::new(copy.storage.clone()), "the copy");
    assert_holds(&copy.open().unwrap(), &model, "the copy");
}

#[test]
fn t5_few_keyspaces_and_large_ones_have_files_of_their_own() {
    let few = Many::flushed(3);
    assert_eq!((few.shared().len(), few.world.storage_names(".table").len()), (0, 3));
    let mut many = Many::new(World::new(tiny()));
    let large = many.create(0);
    for number in 1..8 {
        many.create(number);
    }
    many.write(0..5, 0);
    let mut writer = session(&many.tree);
    for key in 0..600_u32 {
        let key = [b"large".as_slice(), &key.to_be_bytes()].concat();
        let value = vec![key[8]; 4000];
        writer.put(large, &key, &value, WriteOptions::default()).unwrap();
        many.model.get_mut(&large.0).unwrap().insert(key, value);
    }
    many.tree.flush().unwrap();
    assert_eq!(many.shared().len(), 1);
    many.tree.close().unwrap();
    let files = crate::support::sample::read_files(&many.world.storage);
    let of_large = crate::support::inspect::tables_of(&files, large);
    assert!(
        !of_large.is_empty() && of_large.iter().all(|(.., table)| part(&table.file).is_none()),
        "{of_large:?}"
    );
    many.tree = many.world.open().unwrap();
    many.assert_all("flushed");
}

/// A merge operator that panics fails the flush of its keyspace, and no other's.
#[test]
fn t5_a_keyspace_that_cannot_be_flushed_holds_up_no_other() {
    let (world, joining) = (World::new(tiny()), Joining::default());
    let tree = joining.open(&world);
    let broken = tree.create_keyspace("broken", joined()).unwrap();
    let others: Vec<KeyspaceId> = (0..6)
        .map(|number| tree.create_keyspace(&format!("sound {number}"), KeyspaceSettings::default()).unwrap())
        .collect();
    let mut writer = session(&tree);
    writer.put(broken, b"key", b"0", WriteOptions::default()).unwrap();
    writer.merge(broken, b"key", b"+", WriteOptions::default()).unwrap();
    others
        .iter()
        .for_each(|id| writer.put(*id, b"key", b"sound", WriteOptions::default()).map(drop).unwrap());
    joining.panic_from(1);
    tree.flush().unwrap_err();
    for _ in 0..20 {
        while tree.step().unwrap_or(true) {}
        world.clock.advance(std::time::Duration::from_secs(31));
    }
    let in_tables = |id: KeyspaceId| {
        let stats = tree.stats();
        let of = stats.keyspaces.iter().filter(|keyspace| keyspace.keyspace() == id);
        of.flat_map(|keyspace| &keyspace.tree.as_ref().expect("a tree").levels).any(|(tables, _)| *tables > 0)
    };
    assert!(others.iter().all(|id| in_tables(*id)), "sound ones were flushed");
    assert!(!in_tables(broken));
    assert_eq!(shared(&world).len(), 1, "what failed together left nothing");
    joining.be_well();
    tree.flush().unwrap();
    assert_eq!(get_in(&mut writer, broken, b"key").as_deref(), Some(&b"0+"[..]));
}

/// Keyspaces are written, dropped, compacted, copied and reopened in random order, with background
/// threads.
fn random(seed: u64, steps: u32) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut many = Many::new(World::new(tiny().with_engine(|tree| tree.level0_runs_max = 2)));
    let open = |world: &World| Tree::open(TreeOptions { background: threads(), ..world.options() }).unwrap();
    many.tree.close().unwrap();
    many.tree = open(&many.world);
    for step in 0..steps {
        let ids: Vec<u32> = many.model.keys().copied().collect();
        let one = ids.get(random.usize(..ids.len().max(1))).copied();
        match (random.u32(..12), one) {
            (0..=2, _) | (_, None) => {
                for number in 0..random.u32(1..10) {
                    many.create(step * 10 + number);
                }
            }
            (3..=5, _) => {
                let first = random.u32(..40);
                many.write(first..first + random.u32(1..20), step);
            }
            (6, Some(id)) => {
                many.tree.drop_keyspace(KeyspaceId(id)).unwrap();
                many.model.remove(&id);
            }
            (7, Some(id)) => many.tree.compact_range(KeyspaceId(id), b"", None).unwrap(),
            (8, _) => many.drop_most(3),
            (9, _) if random.u32(..4) == 0 => {
                many.tree.close().unwrap();
                assert_sound(Arc::new(many.world.storage.clone()), &format!("seed {seed}, step {step}"));
                many.tree = open(&many.world);
            }
            _ => many.tree.flush().unwrap(),
        }
        if step % 8 == 0 {
            many.assert_all(&format!("seed {seed}, step {step}"));
        }
    }
    many.tree.flush().unwrap();
    many.tree.wait_idle().unwrap();
    many.assert_all(&format!("seed {seed}"));
    many.assert_small(&format!("seed {seed}"));
    many.tree.close().unwrap();
    assert_sound(Arc::new(many.world.storage.clone()), &format!("seed {seed}"));
}

#[test]
fn t5_keyspaces_that_come_and_go_at_random_keep_what_they_hold() {
    random(seed(5), 60);
}

#[test]
#[ignore = "long form: cargo x faults"]
fn t5_keyspaces_that_come_and_go_at_random_for_long_keep_what_they_hold() {
    let first = seed(100);
    (first..first + 40).for_each(|seed| random(seed, 300));
}

#[test]
fn t5_names_of_tables_tell_their_place() {
    let many = Many::flushed(6);
    let (file, bytes) = many.shared().remove(0);
    many.tree.close().unwrap();
    let files = crate::support::sample::read_files(&many.world.storage);
    let mut end = 0;
    for id in many.model.keys() {
        let tables = crate::support::inspect::tables_of(&files, KeyspaceId(*id));
        let part = part(&tables[0].2.file).unwrap();
        assert_eq!((part.file, part.offset, part.bytes), (file.as_str(), end, tables[0].2.bytes));
        end = part.end();
    }
    assert_eq!(end, bytes, "parts lie one behind another, and nothing between them");
}
