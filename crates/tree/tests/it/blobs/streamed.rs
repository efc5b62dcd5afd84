//! Values that a source brings: read back whole, in bounded memory, and other calls do not wait for
//! them.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{
    Compression, Engine, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, Ordered, ReadAt, Result,
    WriteOptions,
};
use firn_storage::backend::Crash;
use firn_storage::{Clock, Storage};
use firn_tree::{Settings, Tree};

use crate::support::world::{DISK, World, describe, get_in, session, settle, tiny};

pub(crate) const MIB: usize = 1 << 20;

/// Values from here on are separated.
const SEPARATE_BYTES: u32 = 1000;

pub(crate) fn beside(compression: Compression) -> KeyspaceSettings {
    KeyspaceSettings {
        separate_bytes: Some(SEPARATE_BYTES),
        compression: Some(compression),
        ..KeyspaceSettings::default()
    }
}

/// A database with a keyspace whose values are separated.
pub(crate) fn begun(settings: Settings) -> (World, Arc<Tree>, KeyspaceId) {
    let machine = World::new(settings);
    let tree = machine.open().unwrap();
    let keyspace = tree.create_keyspace("large", beside(Compression::None)).unwrap();
    (machine, tree, keyspace)
}

/// Text, noise and zeros, in stretches that end near the borders of chunks.
pub(crate) fn value(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut value = Vec::with_capacity(bytes);
    while value.len() < bytes {
        let stretch = MIB - 1000 + random.usize(0..2000);
        match random.u32(0..3) {
            0 => value.resize(value.len() + stretch, 0),
            1 => value.extend((0..stretch / 8).flat_map(|_| random.u64(..).to_le_bytes())),
            _ => value.extend((0..stretch as u32 / 16).flat_map(|n| format!("line {n:10}\n").into_bytes())),
        }
    }
    value.truncate(bytes);
    value
}

/// What a source does when so many bytes were taken.
type Event<'e> = (usize, Box<dyn FnMut() -> io::Result<()> + 'e>);

/// Brings a value, a few bytes or many at a time, and lets things happen meanwhile.
pub(crate) struct Source<'e> {
    value: &'e [u8],
    taken: usize,
    events: Vec<Event<'e>>,
}

impl<'e> Source<'e> {
    pub(crate) fn of(value: &'e [u8]) -> Self {
        Self { value, taken: 0, events: Vec::new() }
    }

    /// How many bytes were taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// The same, where `event` happens once `at` bytes were taken.
    pub(crate) fn at(mut self, at: usize, event: impl FnMut() -> io::Result<()> + 'e) -> Self {
        self.events.push((at, Box::new(event)));
        self
    }

    /// As [`at`](Self::at), of an event that does not fail.
    pub(crate) fn then(self, at: usize, mut event: impl FnMut() + 'e) -> Self {
        self.at(at, move || {
            event();
            Ok(())
        })
    }
}

impl Read for Source<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if let Some(due) = self.events.iter().position(|(at, _)| *at <= self.taken) {
            self.events.remove(due).1()?;
        }
        let left = &self.value[self.taken..];
        // Sources give what they have.
        let some = left.len().min(out.len()).min(1 + self.taken * 7 % 300_000);
        out[..some].copy_from_slice(&left[..some]);
        self.taken += some;
        Ok(some)
    }
}

pub(crate) fn put_from(
    tree: &Tree,
    keyspace: KeyspaceId,
    key: &[u8],
    value: &[u8],
    options: WriteOptions,
) -> Result<()> {
    tree.put_from(keyspace, key, value.len() as u64, &mut Source::of(value), options).map(drop)
}

pub(crate) fn blob_files(machine: &World) -> Vec<String> {
    let files = machine.storage.list().unwrap();
    files.into_iter().map(|(name, _)| name).filter(|name| name.ends_with(".blobs")).collect()
}

/// What is read in pieces.
pub(crate) fn read_into(
    tree: &Tree,
    session: &mut OrderedBlocking,
    keyspace: KeyspaceId,
    key: &[u8],
) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let snapshot = tree.snapshot().unwrap();
    let bytes = session.read_into(&snapshot, keyspace, key, &mut out).unwrap();
    assert!(bytes.is_none_or(|bytes| bytes == out.len() as u64));
    bytes.map(|_| out)
}

const LENGTHS: [usize; 12] = [
    0,
    1,
    MIB - 1,
    MIB,
    MIB + 1,
    4 * MIB - 1,
    4 * MIB,
    4 * MIB + 1,
    5 * MIB - 1,
    5 * MIB,
    5 * MIB + 1,
    5 * MIB + MIB / 2,
];

fn compare(tree: &Tree, keyspaces: &[KeyspaceId], what: &str) {
    let session = &mut session(tree);
    for keyspace in keyspaces {
        for (seed, bytes) in LENGTHS.into_iter().enumerate() {
            let (key, value) = (bytes.to_be_bytes(), value(seed as u64, bytes));
            assert!(get_in(session, *keyspace, &key).as_deref() == Some(&value[..]), "{what}: {bytes} bytes");
            let found = read_into(tree, session, *keyspace, &key);
            assert!(found.as_deref() == Some(&value[..]), "{what}: {bytes} bytes in pieces");
            let mut part = Vec::new();
            let range = bytes.saturating_sub(MIB + 5)..bytes.saturating_sub(3);
            let read = session.get_range_into(ReadAt::Latest, *keyspace, &key, range.clone(), &mut part);
            assert!(read.unwrap() && part == value[range], "{what}: a part of {bytes} bytes");
        }
    }
}

#[test]
fn values_of_all_lengths_come_back_in_every_codec() {
    let machine = World::new(tiny());
    let tree = machine.open().unwrap();
    let codecs = [Compression::None, Compression::Lz4, Compression::Zstd];
    let keyspaces = codecs.map(|codec| tree.create_keyspace(&format!("{codec:?}"), beside(codec)).unwrap());
    for keyspace in keyspaces {
        for (seed, bytes) in LENGTHS.into_iter().enumerate() {
            let value = value(seed as u64, bytes);
            put_from(&tree, keyspace, &bytes.to_be_bytes(), &value, WriteOptions::default()).unwrap();
        }
    }
    compare(&tree, &keyspaces, "written");
    let killed = machine.crash(Crash::Kill).open().unwrap();
    compare(&killed, &keyspaces, "killed");
    killed.close().unwrap();
    settle(&tree);
    compare(&tree, &keyspaces, "sealed");
    for keyspace in keyspaces {
        tree.compact_range(keyspace, b"", None).unwrap();
    }
    compare(&tree, &keyspaces, "compacted");
    tree.close().unwrap();
    let tree = machine.open().unwrap();
    compare(&tree, &keyspaces, "reopened");
}

#[test]
fn a_compressed_value_takes_what_its_chunks_do() {
    for (codec, most) in [(Compression::Lz4, 64 << 10), (Compression::Zstd, 32 << 10)] {
        let machine = World::new(tiny());
        let tree = machine.open().unwrap();
        let keyspace = tree.create_keyspace("large", beside(codec)).unwrap();
        // What Zstd shrinks more than a reader allows, behind something that it does not.
        let value = [b"not all alike".repeat(1000), vec![0; 6 * MIB]].concat();
        put_from(&tree, keyspace, b"key", &value, WriteOptions::default()).unwrap();
        settle(&tree);
        let bytes = tree.stats().tree.expect("a tree").blobs.segment_bytes;
        assert!(bytes < most, "{codec:?}: {bytes} bytes");
        assert!(get_in(&mut session(&tree), keyspace, b"key") == Some(value));
    }
}

#[test]
fn little_is_in_memory_while_a_value_comes() {
    let (machine, tree, keyspace) = begun(tiny());
    let value = value(1, 20 * MIB);
    let most = AtomicU64::new(0);
    let mut source = Source::of(&value);
    for at in (0..value.len()).step_by(MIB / 4) {
        let (most, machine) = (&most, &machine);
        source = source.then(at, move || {
            let files = machine.storage.list().unwrap();
            let arrived: u64 =
                files.iter().filter(|(name, _)| name.ends_with(".blobs")).map(|(_, bytes)| bytes).sum();
            most.fetch_max((at as u64).saturating_sub(arrived), Ordering::Relaxed);
        });
    }
    tree.put_from(keyspace, b"key", value.len() as u64, &mut source, WriteOptions::default()).unwrap();
    assert!(source.events.is_empty());
    let most = most.load(Ordering::Relaxed);
    assert!((1..=MIB as u64).contains(&most), "{most} bytes were taken and not written");
    // Reading hands on what it has.
    struct Pieces(usize);
    impl io::Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.max(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (mut pieces, snapshot) = (Pieces(0), tree.snapshot().unwrap());
    let read = session(&tree).read_into(&snapshot, keyspace, b"key", &mut pieces).unwrap();
    assert_eq!((read, pieces.0), (Some(value.len() as u64), 4 * MIB));
}

#[test]
fn nobody_waits_for_a_value_that_is_coming_and_no_figure_has_it() {
    let (machine, tree, keyspace) = begun(tiny());
    let value = value(2, 6 * MIB);
    let other = vec![7; 3000];
    let mut source = Source::of(&value).then(3 * MIB, || {
        let session = &mut session(&tree);
        let before = tree.stats().tree.expect("a tree").blobs;
        session.put(keyspace, b"other", &other, DISK).unwrap();
        assert_eq!(get_in(session, keyspace, b"key"), None);
        tree.flush().unwrap();
        tree.sync().unwrap();
        settle(&tree);
        tree.compact_range(keyspace, b"", None).unwrap();
        tree.wait_idle().unwrap();
        tree.drop_keyspace(tree.create_keyspace("short", KeyspaceSettings::default()).unwrap()).unwrap();
        let stats = tree.stats().tree.expect("a tree").blobs;
        assert_eq!((before.segment_count, before.segment_bytes, before.dead_bytes), (0, 0, 0), "{before:?}");
        assert_eq!((stats.segment_count, stats.dead_bytes), (1, 0), "{stats:?}");
        assert!(stats.segment_bytes < 4000, "{stats:?}");
        assert_eq!(blob_files(&machine).len(), 2);
    });
    tree.put_from(keyspace, b"key", value.len() as u64, &mut source, DISK).unwrap();
    assert!(source.events.is_empty());
    settle(&tree);
    let stats = tree.stats().tree.expect("a tree").blobs;
    assert_eq!((stats.segment_count, stats.dead_bytes), (2, 0), "{stats:?}");
    let session = &mut session(&tree);
    assert!(get_in(session, keyspace, b"key").as_deref() == Some(&value[..]));
    assert!(get_in(session, keyspace, b"other").as_deref() == Some(&other[..]));
}

/// While flushes do not keep up, a writer that brings a value goes at the pace of the others.
#[test]
fn a_source_is_slowed_as_other_writers_are() {
    let (machine, tree, keyspace) = begun(tiny().with_engine(|tree| tree.buffer_bytes = 4 << 20));
    let (value, record) = (value(2, 6 * MIB), vec![7; 50_000]);
    let other = &mut session(&tree);
    // Nothing flushes.
    for key in 0..500_u32 {
        other.put(KEYSPACE_DEFAULT, &key.to_be_bytes(), &record, WriteOptions::default()).unwrap();
    }
    let (before, begun_at) = (tree.stats(), machine.clock.now());
    let (mut slowed_us, mut slept) = (0, std::time::Duration::ZERO);
    let mut source = Source::of(&value).then(5 * MIB, || {
        slowed_us = tree.stats().slowdown_us_total - before.slowdown_us_total;
        slept = machine.clock.now() - begun_at;
    });
    tree.put_from(keyspace, b"key", 6 << 20, &mut source, WriteOptions::default()).unwrap();
    drop(source);
    assert!(slowed_us > 0 && slept.as_micros() >= u128::from(slowed_us), "{slowed_us} us, {slept:?} slept");
    assert_eq!(tree.stats().user_write_bytes_total, before.user_write_bytes_total + (6 << 20) + 3);
}

#[test]
fn the_order_of_writes_is_that_of_their_ends() {
    let (_, tree, keyspace) = begun(tiny());
    let (first, second) = (value(3, 5 * MIB), value(4, 5 * MIB));
    let session = &mut session(&tree);
    let put = |key: &[u8], value: &[u8]| put_from(&tree, keyspace, key, value, WriteOptions::default());
    for key in [&b"put"[..], b"deleted", b"streamed"] {
        let mut source = Source::of(&first).then(2 * MIB, || {
            let session = &mut crate::support::world::session(&tree);
            match key {
                b"put" => drop(session.put(keyspace, key, b"meanwhile", WriteOptions::default()).unwrap()),
                b"deleted" => drop(session.delete(keyspace, key, WriteOptions::default()).unwrap()),
                _ => put(key, &second).unwrap(),
            }
        });
        let bytes = first.len() as u64;
        tree.put_from(keyspace, key, bytes, &mut source, WriteOptions::default()).unwrap();
        assert!(get_in(session, keyspace, key).as_deref() == Some(&first[..]));
    }
    // An update that begins before and ends after sees that something came between.
    let mut calls = 0;
    let looked = session.update(keyspace, b"updated", WriteOptions::default(), {
        let (tree, value) = (Arc::clone(&tree), second.clone());
        move |current| {
            calls += 1;
            if calls == 1 {
                put_from(&tree, keyspace, b"updated", &value, WriteOptions::default()).unwrap();
            }
            (firn_engine::Change::Delete, (calls, current.map(<[u8]>::len)))
        }
    });
    assert_eq!(looked.unwrap(), (2, Some(second.len())));
    tree.flush().unwrap();
    settle(&tree);
    for key in [&b"put"[..], b"deleted", b"streamed"] {
        assert!(get_in(session, keyspace, key).as_deref() == Some(&first[..]));
    }
    assert_eq!(get_in(session, keyspace, b"updated"), None);
}

#[test]
fn a_snapshot_keeps_what_was_overwritten_and_reads_it_in_pieces() {
    let (machine, tree, keyspace) = begun(tiny());
    let (old, new) = (value(5, 9 * MIB), value(6, 8 * MIB));
    let session = &mut session(&tree);
    put_from(&tree, keyspace, b"key", &old, WriteOptions::default()).unwrap();
    let snapshot = tree.snapshot().unwrap();
    put_from(&tree, keyspace, b"key", &new, WriteOptions::default()).unwrap();
    tree.compact_range(keyspace, b"", None).unwrap();
    settle(&tree);
    let mut out = Vec::new();
    session.read_into(&snapshot, keyspace, b"key", &mut out).unwrap();
    assert!(out == old);
    assert!(read_into(&tree, session, keyspace, b"key") == Some(new));
    // Its segment goes with it.
    drop(snapshot);
    tree.compact_range(keyspace, b"", None).unwrap();
    tree.wait_idle().unwrap();
    let stats = tree.stats().tree.expect("a tree").blobs;
    assert_eq!((stats.segment_count, blob_files(&machine).len()), (1, 1), "{stats:?}");
    assert!(stats.segment_bytes < 9 * MIB as u64, "{stats:?}");
}

#[test]
fn what_is_overwritten_again_and_again_is_given_back_by_itself() {
    let (_, tree, keyspace) = begun(tiny());
    let value = value(7, 5 * MIB);
    let mut most = 0;
    for round in 0..100_u8 {
        // No call flushes or compacts.
        put_from(&tree, keyspace, &[round % 2], &value, WriteOptions::default()).unwrap();
        settle(&tree);
        most = most.max(tree.stats().tree.expect("a tree").blobs.segment_bytes);
    }
    // Of 500: as much as makes it worth while to look, once before anything is known of the
    // keyspace.
    assert!(most < 300 * MIB as u64, "{most} bytes");
    assert!(tree.stats().tree.expect("a tree").blobs.segment_bytes < 150 * MIB as u64);
}

#[test]
fn what_would_be_held_in_memory_is_refused_with_what_to_do() {
    let machine = World::new(Settings { value_bytes_max: 6 * MIB as u64, ..tiny() });
    let tree = machine.open().unwrap();
    let keyspace = tree.create_keyspace("large", beside(Compression::None)).unwrap();
    let refused = |keyspace, key: &[u8], bytes: usize| {
        let mut source = io::repeat(7).take(bytes as u64);
        let refused = tree.put_from(keyspace, key, bytes as u64, &mut source, WriteOptions::default());
        let message = describe(&refused.unwrap_err());
        assert!(message.starts_with("Invalid"), "{message}");
        // It was not asked for anything.
        assert_eq!(source.limit(), bytes as u64, "{message}");
        message
    };
    let message = refused(KEYSPACE_DEFAULT, b"key", 4 * MIB + 1);
    assert!(message.contains("\"default\"") && message.contains("separate_bytes"), "{message}");
    assert!(refused(keyspace, b"key", 6 * MIB + 1).contains("value_bytes_max = 6291456"));
    assert!(refused(keyspace, &[7; 1 << 16], 5 * MIB).contains("key_bytes_max"));
    assert!(refused(KeyspaceId(99), b"key", 5 * MIB).contains("no keyspace"));
    assert_eq!(blob_files(&machine).len(), 0);
    // Held in memory: what is little, and what lies in the tree because that was asked for.
    put_from(&tree, KEYSPACE_DEFAULT, b"key", &value(7, 4 * MIB), WriteOptions::default()).unwrap();
    tree.set_separate_bytes(keyspace, Some(6 * MIB as u32)).unwrap();
    put_from(&tree, keyspace, b"key", &value(8, 5 * MIB), WriteOptions::default()).unwrap();
    assert_eq!(blob_files(&machine).len(), 0);
    put_from(&tree, keyspace, b"more", &value(8, 6 * MIB), WriteOptions::default()).unwrap();
    assert_eq!(blob_files(&machine).len(), 1);
    tree.close().unwrap();
    let closed = put_from(&tree, keyspace, b"key", &[7; 10], WriteOptions::default()).unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Closed);
}

#[test]
fn a_value_that_expires_while_it_is_read_is_not_taken_for_a_shorter_one() {
    let (machine, tree, keyspace) = begun(tiny());
    let value = value(9, 9 * MIB);
    let at = 1_000_000 + 50;
    let options = WriteOptions { expires_at_ms: at, ..WriteOptions::default() };
    put_from(&tree, keyspace, b"key", &value, options).unwrap();
    struct Late<'c>(&'c firn_storage::ManualClock);
    impl io::Write for Late<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.advance(std::time::Duration::from_millis(100));
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let snapshot = tree.snapshot().unwrap();
    let mut session = session(&tree);
    assert!(get_in(&mut session, keyspace, b"key") == Some(value));
    let read = session.read_into(&snapshot, keyspace, b"key", &mut Late(&machine.clock));
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Retry);
    assert_eq!(read_into(&tree, &mut session, keyspace, b"key"), None);
}
