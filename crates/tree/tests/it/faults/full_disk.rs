//! T10, P8: a disk that the database has filled. What was written is removed by key and by range,
//! then flushed and compacted from room that is kept for that. A full database is opened for
//! writing; once there is room again everything is written.
//!
//! Neighbours: tables that lie elsewhere; a batch that removes and says little beside; values
//! separated. A batch larger than a segment; many reopenings, none of which takes room for
//! good.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::{
    Batch, Engine, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, Ordered, WriteOptions,
};
use firn_storage::backend::{Divided, Faulty, Memory};
use firn_storage::{Clock, Storage};
use firn_tree::{Background, Tree};

use crate::support::world::{World, delete_range, get_in, session, tiny};

const FREE: u64 = 40 << 20;

/// A database whose disk has [`FREE`] bytes, filled with values until they are refused.
struct Full {
    world: World,
    faulty: Faulty,
    tree: Arc<Tree>,
    keyspace: KeyspaceId,
    count: u32,
}

impl Full {
    fn new(settings: KeyspaceSettings) -> Self {
        Self::of_values_that_expire(settings, 0)
    }

    /// Of values that expire at `expires_at_ms`, or never.
    fn of_values_that_expire(settings: KeyspaceSettings, expires_at_ms: u64) -> Self {
        let world = World::new(tiny());
        let faulty = Faulty::new(Arc::new(world.storage.clone()));
        let tree = world.open_on(Arc::new(faulty.clone()), Background::Manual);
        let keyspace = tree.create_keyspace("full", settings).unwrap();
        faulty.limit_space(Some(FREE)).unwrap();
        let mut full = Self { world, faulty, tree, keyspace, count: 0 };
        full.fill(expires_at_ms);
        assert!(full.count > 50, "{}", full.count);
        full
    }

    /// Writes values that expire at `expires_at_ms`, or never, until that is refused.
    fn fill(&mut self, expires_at_ms: u64) {
        let refused = loop {
            match self.put_until(&self.count.to_be_bytes(), expires_at_ms) {
                Ok(()) => self.count += 1,
                Err(error) => break error,
            }
            assert!(self.count < 10_000, "the disk never filled");
            if self.count.is_multiple_of(20) {
                self.work();
            }
        };
        assert_eq!(refused.kind(), ErrorKind::Retry);
        assert!(self.tree.stats().write_refusal.is_some());
    }

    fn put(&self, key: &[u8]) -> firn_engine::Result<()> {
        self.put_until(key, 0)
    }

    /// Writes a value that expires at `expires_at_ms`, or never.
    fn put_until(&self, key: &[u8], expires_at_ms: u64) -> firn_engine::Result<()> {
        let options = WriteOptions { expires_at_ms, ..WriteOptions::default() };
        let value: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(100_000).collect();
        session(&self.tree).put(self.keyspace, key, &value, options).map(drop)
    }

    /// Works until nothing is left to do, and again a minute later; failures for want of room are
    /// ignored.
    fn work(&self) {
        for _ in 0..2 {
            let mut tries = 0;
            while self.tree.step().unwrap_or(true) {
                tries += 1;
                assert!(tries < 10_000, "tried for ever: {:?}", self.tree.stats().background_refusal);
            }
            self.world.clock.advance(Duration::from_secs(60));
        }
    }

    fn free(&self) -> u64 {
        self.faulty.free_bytes().unwrap().unwrap()
    }

    fn reopen(&mut self) {
        self.tree.close().unwrap();
        self.tree = self.world.open_on(Arc::new(self.faulty.clone()), Background::Manual);
    }

    fn is_there(&self, number: u32) -> bool {
        get_in(&mut session(&self.tree), self.keyspace, &number.to_be_bytes()).is_some()
    }

    /// All that was written was removed, and the room is there for as much again.
    fn check_emptied(&self) {
        self.tree.flush().unwrap();
        self.work();
        self.tree.compact_range(self.keyspace, b"", None).unwrap();
        self.work();
        assert!((0..self.count).all(|number| !self.is_there(number)));
        assert!(self.free() > FREE / 2, "{} bytes are free", self.free());
        for number in 0..50 {
            self.put(&u32::to_be_bytes(number)).unwrap();
        }
        assert_eq!(self.tree.stats().write_failure, None);
    }
}

#[test]
fn t10_a_range_is_removed_from_a_full_disk() {
    let full = Full::new(KeyspaceSettings::default());
    let error = full.put(b"more").unwrap_err();
    assert!(error.kind() == ErrorKind::Retry && error.to_string().contains("delete records"), "{error}");
    delete_range(&full.tree, full.keyspace, b"", &[0xff; 5]).unwrap();
    full.check_emptied();
}

#[test]
fn t10_keys_are_removed_one_by_one_from_a_full_disk() {
    let full = Full::new(KeyspaceSettings::default());
    for number in 0..full.count {
        session(&full.tree).delete(full.keyspace, &number.to_be_bytes(), WriteOptions::default()).unwrap();
        // Other writers go on trying, and leave what is kept to removals.
        if number % 10 == 0
            && let Err(error) = full.put(b"more")
        {
            assert_eq!(error.kind(), ErrorKind::Retry);
        }
    }
    full.check_emptied();
}

/// Nothing asks for a flush or a compaction.
#[test]
fn p8_what_is_removed_key_by_key_makes_room_by_itself() {
    for one_of in [1, 2, 4, 8] {
        let mut full = Full::new(KeyspaceSettings::default());
        // The log is short then.
        full.tree.flush().unwrap();
        full.work();
        full.fill(0);
        let before = full.free();
        for number in (0..full.count).filter(|number| number % one_of == 0) {
            let key = number.to_be_bytes();
            session(&full.tree).delete(full.keyspace, &key, WriteOptions::default()).unwrap();
        }
        full.work();
        let removed = u64::from(full.count / one_of) * 100_000;
        let made = full.free().saturating_sub(before);
        assert!(made > removed / 2, "one of {one_of}: {made} bytes were made free of {removed}");
        full.put(b"more").unwrap();
    }
}

/// Nothing removes what expires, and nothing asks for a flush or a compaction.
#[test]
fn p8_what_expires_makes_room_on_a_full_disk() {
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
    let expires_at_ms = World::new(tiny()).clock.unix_ms() + WEEK.as_millis() as u64;
    let full = Full::of_values_that_expire(KeyspaceSettings::default(), expires_at_ms);
    full.put(b"more").unwrap_err();
    full.work();
    full.world.clock.advance(WEEK);
    assert!(!full.is_there(0));
    full.work();
    assert!(full.free() > FREE / 2, "{} bytes are free", full.free());
    (0..50_u32).for_each(|number| full.put(&number.to_be_bytes()).unwrap());
}

/// A removal takes as much of the log, and of tables, as its key is long. All that is kept for
/// removals is less than that of all keys. A removal that finds no room is refused, and none fails
/// when the log is written.
#[test]
fn p8_removals_of_long_keys_leave_room_for_their_flush() {
    for separate_bytes in [None, Some(64)] {
        let settings = KeyspaceSettings { separate_bytes, ..KeyspaceSettings::default() };
        let world = World::new(tiny());
        let faulty = Faulty::new(Arc::new(world.storage.clone()));
        let tree = world.open_on(Arc::new(faulty.clone()), Background::Manual);
        let keyspace = tree.create_keyspace("full", settings).unwrap();
        faulty.limit_space(Some(FREE)).unwrap();
        let key = |number: u32| [&number.to_be_bytes()[..], &[7; 2000]].concat();
        let value: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(100).collect();
        let mut writer = session(&tree);
        let work = |number: u32| while number.is_multiple_of(500) && tree.step().unwrap_or(true) {};
        let mut count = 0;
        while writer.put(keyspace, &key(count), &value, WriteOptions::default()).is_ok() {
            count += 1;
            assert!(count < 100_000, "the disk never filled");
            work(count);
        }
        for number in 0..count {
            let mut tries = 0;
            while let Err(error) = writer.delete(keyspace, &key(number), WriteOptions::default()) {
                assert!(
                    error.kind() == ErrorKind::Retry && error.to_string().contains("removals"),
                    "{error}"
                );
                tries += 1;
                assert!(tries < 10, "no room for the removal of {number} of {count}");
                world.clock.advance(Duration::from_secs(60));
                work(0);
            }
            work(number);
        }
        tree.flush().unwrap();
        assert_eq!(tree.stats().write_failure, None);
        assert!((0..count).all(|number| get_in(&mut writer, keyspace, &key(number)).is_none()));
    }
}

/// As commands on GCs write: an element goes, and what is said of the GC is put.
#[test]
fn p8_batches_that_remove_and_say_little_beside_are_written() {
    let full = Full::new(KeyspaceSettings::default());
    for number in 0..full.count {
        let mut batch = Batch::new();
        batch.delete(full.keyspace, &number.to_be_bytes()).put(
            KEYSPACE_DEFAULT,
            b"left",
            &number.to_be_bytes(),
        );
        session(&full.tree).write(&batch, WriteOptions::default()).unwrap();
    }
    full.check_emptied();
}

#[test]
fn t10_a_full_database_is_opened_for_writing_and_emptied() {
    let mut full = Full::new(KeyspaceSettings::default());
    for _ in 0..5 {
        full.reopen();
        assert!(full.is_there(0) && full.is_there(full.count - 1));
    }
    delete_range(&full.tree, full.keyspace, b"", &[0xff; 5]).unwrap();
    full.check_emptied();
}

#[test]
fn t10_separated_values_are_removed_from_a_full_disk() {
    let settings = KeyspaceSettings { separate_bytes: Some(1000), ..KeyspaceSettings::default() };
    let full = Full::new(settings);
    delete_range(&full.tree, full.keyspace, b"", &[0xff; 5]).unwrap();
    full.tree.flush().unwrap();
    full.work();
    assert!((0..full.count).all(|number| !full.is_there(number)));
    assert!(full.free() > FREE / 4, "{} bytes are free", full.free());
    full.put(b"more").unwrap();
}

/// What the log holds goes to another backend, and makes room here.
#[test]
fn t10_a_full_disk_is_flushed_to_shared_storage() {
    let mut world = World::new(tiny());
    let faulty = Faulty::new(Arc::new(world.storage.clone()));
    let shared = Memory::new();
    let backend = Divided::open(Arc::new(faulty.clone()), Arc::new(shared.clone()), 7).unwrap();
    world.settings.engine.buffer_bytes = FREE;
    world.settings.engine.buffer_bytes_max = 2 * FREE;
    let tree = world.open_on(Arc::new(backend), Background::Manual);
    let write = |number: u32| {
        let value: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(100_000).collect();
        session(&tree).put(KEYSPACE_DEFAULT, &number.to_be_bytes(), &value, WriteOptions::default()).map(drop)
    };
    (0..200).for_each(|number| write(number).unwrap());
    // Less than outputs leave, were they written here.
    faulty.limit_space(Some(1 << 20)).unwrap();
    tree.flush().unwrap();
    assert!(shared.list().unwrap().iter().any(|(name, _)| name.ends_with(".table")));
    (200..1000).for_each(|number| write(number).unwrap());
}

#[test]
fn t10_what_was_refused_is_written_once_there_is_room() {
    let mut full = Full::new(KeyspaceSettings::default());
    session(&full.tree).delete(full.keyspace, &0_u32.to_be_bytes(), WriteOptions::default()).unwrap();
    full.fill(0);
    full.faulty.limit_space(None).unwrap();
    full.put(b"more").unwrap();
    full.tree.flush().unwrap();
    full.work();
    assert!(!full.is_there(0) && full.is_there(1));
    let stats = full.tree.stats();
    assert_eq!((stats.background_refusal, stats.write_refusal), (None, None));
}
