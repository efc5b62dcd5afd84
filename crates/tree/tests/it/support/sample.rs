//! A small database with a bit of everything, and what must be read from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::world::delete_range;
use firn_engine::blocking::{Blocking, OrderedBlocking};
use firn_engine::{
    Batch, Compression, Engine, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, MergeOperator, Ordered,
    Result, Semantics, WriteOptions,
};
use firn_storage::backend::Memory;
use firn_storage::{ManualClock, Storage};
use firn_tree::{Background, Settings, Tree, TreeOptions};

/// Names and bytes of a directory's files.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Keys and values of each keyspace by name.
pub(crate) type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// What a sample is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Keys of each keyspace.
    pub(crate) keys: usize,
    /// Longest value.
    pub(crate) value_bytes: usize,
}

/// The smallest shape with every kind of file, block and record.
pub(crate) const SMALL: Shape = Shape { keys: 24, value_bytes: 40 };

/// Operands are appended, each with a comma before it.
#[derive(Debug)]
pub(crate) struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut value = base.unwrap_or_default().to_vec();
        for operand in operands {
            value.push(b',');
            value.extend_from_slice(operand);
        }
        Some(value)
    }
}

/// When the sample's clock stands after it was made.
pub(crate) const NOW_MS: u64 = 2_000_000;

pub(crate) fn options(storage: &Memory, now_ms: u64) -> TreeOptions {
    options_on(Arc::new(storage.clone()), now_ms)
}

/// Opens for writing on this thread alone, at a moment that does not pass.
pub(crate) fn options_on(storage: Arc<dyn Storage>, now_ms: u64) -> TreeOptions {
    TreeOptions {
        storage,
        // Level 0 is left as it is, however much it overwrites.
        settings: Settings { space_amplification_max: 100.0, ..Settings::default() }.with_engine(|tree| {
            tree.block_bytes = 256;
            tree.log_segment_bytes = 4 << 20;
        }),
        semantics: Semantics::new().with_merge_operator(Arc::new(Append)),
        clock: Arc::new(ManualClock::new(now_ms)),
        background: Background::Manual,
        executor: None,
        seed: 7,
        create: true,
        read_only: false,
        take_over: false,
    }
}

/// Writes to a database and to the answers expected of it.
struct Writer {
    tree: Arc<Tree>,
    session: OrderedBlocking,
    contents: Contents,
    shape: Shape,
}

impl Writer {
    fn open(storage: &Memory, now_ms: u64, contents: Contents, shape: Shape) -> Self {
        let tree = Tree::open(options(storage, now_ms)).unwrap();
        let session = Blocking::new(tree.ordered_session());
        Self { tree, session, contents, shape }
    }

    fn id(&self, name: &str) -> KeyspaceId {
        self.tree.keyspace(name).unwrap()
    }

    fn expected(&mut self, name: &str) -> &mut BTreeMap<Vec<u8>, Vec<u8>> {
        self.contents.entry(name.to_owned()).or_default()
    }

    fn put(&mut self, name: &str, key: &[u8], value: &[u8], expires_at_ms: u64) {
        let options = WriteOptions { expires_at_ms, ..WriteOptions::default() };
        self.session.put(self.id(name), key, value, options).unwrap();
        let expected = self.expected(name);
        match expires_at_ms {
            1..=NOW_MS => drop(expected.remove(key)),
            _ => drop(expected.insert(key.to_vec(), value.to_vec())),
        }
    }

    fn delete(&mut self, name: &str, key: &[u8]) {
        self.session.delete(self.id(name), key, WriteOptions::default()).unwrap();
        self.expected(name).remove(key);
    }

    fn delete_range(&mut self, name: &str, start: &[u8], end: &[u8]) {
        delete_range(&self.tree, self.id(name), start, end).unwrap();
        self.expected(name).retain(|key, _| key.as_slice() < start || key.as_slice() >= end);
    }

    fn merge(&mut self, name: &str, key: &[u8], operand: &[u8]) {
        self.session.merge(self.id(name), key, operand, WriteOptions::default()).unwrap();
        let value = self.expected(name).entry(key.to_vec()).or_default();
        value.push(b',');
        value.extend_from_slice(operand);
    }

    /// One batch over two keyspaces.
    fn batch(&mut self, round: usize) {
        let (key, value) = (key(round), value(round, 9, self.shape));
        let mut batch = Batch::new();
        batch.put(KEYSPACE_DEFAULT, &key, &value).put(self.id("packed"), &key, &value);
        self.session.write(&batch, WriteOptions::default()).unwrap();
        self.expected("default").insert(key.clone(), value.clone());
        self.expected("packed").insert(key, value);
    }

    /// Every kind of record, each round other keys and values.
    fn round(&mut self, round: usize) {
        let keys = self.shape.keys;
        for index in (0..keys).filter(|index| (index + round).is_multiple_of(3) || round == 0) {
            let value = value(index, round, self.shape);
            self.put("default", &key(index), &value, 0);
            self.put("packed", &key(index), &value, 0);
        }
        for index in (0..keys).filter(|index| (index + round).is_multiple_of(5)) {
            self.merge("sums", &key(index), format!("{round}").as_bytes());
        }
        self.delete("default", &key(3 * round + 1));
        self.delete("sums", &key(5 * round + 2));
        self.delete_range("default", &key(keys / 2 + round), &key(keys / 2 + round + 2));
        self.delete_range("packed", &key(keys / 3), &key(keys / 3 + 1 + round));
        self.put("default", format!("ttl-gone{round}").as_bytes(), b"gone by now", NOW_MS - 1);
        self.put("packed", format!("ttl-here{round}").as_bytes(), b"not gone yet", NOW_MS + 1_000_000_000);
        self.batch(round);
    }
}

pub(crate) fn key(index: usize) -> Vec<u8> {
    format!("key{index:05}").into_bytes()
}

fn value(index: usize, round: usize, shape: Shape) -> Vec<u8> {
    let bytes = 1 + (index * 7 + round * 13) % shape.value_bytes;
    (0..bytes).map(|at| b'a' + ((index + round + at / 5) % 26) as u8).collect()
}

/// A cleanly closed database, and what it holds at [`NOW_MS`]. It has tables in level 0 and deeper,
/// log records of two openings that are in no table, range tombstones and expiring records. One
/// keyspace is compressed.
pub(crate) fn sample(shape: Shape) -> (Files, Contents) {
    let storage = Memory::new();
    let mut writer = Writer::open(&storage, NOW_MS / 2, Contents::new(), shape);
    let packed = KeyspaceSettings { compression: Some(Compression::Lz4), ..KeyspaceSettings::default() };
    let sums = KeyspaceSettings { merge_operator: Some("append".to_owned()), ..KeyspaceSettings::default() };
    writer.tree.create_keyspace("packed", packed).unwrap();
    writer.tree.create_keyspace("sums", sums).unwrap();
    writer.round(0);
    for name in ["default", "packed", "sums"] {
        writer.tree.compact_range(writer.id(name), b"", None).unwrap();
    }
    writer.round(1);
    writer.tree.flush().unwrap();
    writer.tree.wait_idle().unwrap();
    writer.round(2);
    writer.tree.close().unwrap();
    let mut writer = Writer::open(&storage, NOW_MS, writer.contents, shape);
    writer.round(3);
    let stats = writer.tree.stats();
    for keyspace in &stats.keyspaces {
        let tables: Vec<u64> =
            keyspace.tree.as_ref().expect("a tree").levels.iter().map(|level| level.0).collect();
        assert!(
            tables.len() > 1 && tables[0] > 0,
            "{} has tables in level 0 and deeper: {stats:?}",
            keyspace.name
        );
    }
    writer.tree.close().unwrap();
    (read_files(&storage), writer.contents)
}

/// The files of a directory.
pub(crate) fn read_files(storage: &dyn Storage) -> Files {
    let read = |(name, bytes): (String, u64)| {
        let mut content = vec![0; bytes as usize];
        storage.open_read(&name).unwrap().read_at(0, &mut content).unwrap();
        (name, content)
    };
    storage.list().unwrap().into_iter().map(read).collect()
}

/// A directory with these files.
pub(crate) fn directory(files: &Files) -> Memory {
    let storage = Memory::new();
    for (name, content) in files {
        storage.create(name).unwrap().write_at(0, content).unwrap();
    }
    storage
}

/// What `tree` holds, by scans forward.
pub(crate) fn scan_all(tree: &Tree) -> Result<Contents> {
    let mut contents = Contents::new();
    let mut session = Blocking::new(tree.ordered_session());
    for (name, id) in tree.keyspaces() {
        let mut found = BTreeMap::new();
        let mut scan = session.scan(firn_engine::ReadAt::Latest, id, firn_engine::ScanRange::all())?;
        while let Some((key, value)) = scan.next_record()? {
            found.insert(key.to_vec(), value.to_vec());
        }
        contents.insert(name, found);
    }
    Ok(contents)
}

/// A clock that never stands still would make samples differ from run to run.
#[test]
fn the_sample_is_the_same_every_time_and_holds_what_was_written() {
    let (files, contents) = sample(SMALL);
    assert_eq!(sample(SMALL).0, files);
    let tree = Tree::open(options(&directory(&files), NOW_MS)).unwrap();
    assert_eq!(scan_all(&tree).unwrap(), contents);
    assert!(contents["default"].keys().all(|key| !key.starts_with(b"ttl-gone")));
    assert_eq!(contents["packed"].keys().filter(|key| key.starts_with(b"ttl-here")).count(), 4);
}
