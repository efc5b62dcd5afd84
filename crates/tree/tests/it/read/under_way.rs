//! A close while other threads are in the midst of reads: the directory is no other opening's until
//! they have ended, since they have files mapped that it may write over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use firn_engine::{
    BatchLimit, Engine, ErrorKind, KeyspaceId, KeyspaceSettings, MergeOperator, Outcome, ReadAt, ScanBatch,
    ScanRange, WriteOptions,
};
use firn_tree::{Tree, TreeOptions};

use crate::support::world::{World, get_in, rows, session, tiny};

/// A merge operator that a reader waits in, for as long as a test likes.
#[derive(Debug)]
struct Waiting {
    is_slow: AtomicBool,
    begins: Barrier,
    ends: Barrier,
}

const WAITING: &str = "waiting.1";

impl MergeOperator for Waiting {
    fn name(&self) -> &str {
        WAITING
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        if self.is_slow.swap(false, Ordering::SeqCst) {
            self.begins.wait();
            self.ends.wait();
        }
        Some([base.unwrap_or_default(), &operands.concat()].concat())
    }
}

struct Scene {
    world: World,
    waiting: Arc<Waiting>,
}

impl Scene {
    /// With a key whose value is merged when it is read, in tables.
    fn new() -> (Self, Arc<Tree>, KeyspaceId) {
        let waiting = Waiting { is_slow: false.into(), begins: Barrier::new(2), ends: Barrier::new(2) };
        let scene = Self { world: World::new(tiny()), waiting: Arc::new(waiting) };
        let tree = scene.open().unwrap();
        let merged =
            KeyspaceSettings { merge_operator: Some(WAITING.to_owned()), ..KeyspaceSettings::default() };
        let keyspace = tree.create_keyspace("merged", merged).unwrap();
        let mut session = session(&tree);
        for operand in [b"a", b"b"] {
            session.merge(keyspace, b"key", operand, WriteOptions::default()).unwrap();
        }
        session.put(keyspace, b"later", b"v", WriteOptions::default()).unwrap();
        (scene, tree, keyspace)
    }

    fn open(&self) -> firn_engine::Result<Arc<Tree>> {
        let options = self.world.options();
        let semantics = options.semantics.clone().with_merge_operator(Arc::clone(&self.waiting) as _);
        Tree::open(TreeOptions { semantics, ..options })
    }

    /// Closes `tree` amid `read`, which another thread does.
    fn close_amid(&self, tree: &Tree, read: impl FnOnce() + Send) {
        self.waiting.is_slow.store(true, Ordering::SeqCst);
        std::thread::scope(|scope| {
            let reader = scope.spawn(read);
            self.waiting.begins.wait();
            tree.close().unwrap();
            let refused = self.open().unwrap_err();
            self.waiting.ends.wait();
            assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
            reader.join().unwrap();
        });
        self.open().unwrap().close().unwrap();
    }
}

#[test]
fn a_directory_is_held_until_reads_under_way_have_ended() {
    let (scene, tree, keyspace) = Scene::new();
    let mut reader = session(&tree);
    scene.close_amid(&tree, || assert_eq!(get_in(&mut reader, keyspace, b"key"), Some(b"ab".to_vec())));

    let (scene, tree, keyspace) = Scene::new();
    let mut reader = session(&tree);
    scene.close_amid(&tree, || {
        let rows = rows(&mut reader, ReadAt::Latest, keyspace, ScanRange::all());
        assert_eq!(rows.len(), 2);
    });

    // Of an update only the read is done.
    let (scene, tree, keyspace) = Scene::new();
    let mut reader = session(&tree);
    scene.close_amid(&tree, || {
        let change = |_: Option<&[u8]>| (firn_engine::Change::Delete, ());
        reader.update(keyspace, b"key", WriteOptions::default(), change).unwrap_err();
    });
}

#[test]
fn a_scan_that_is_not_asked_holds_no_directory() {
    let (scene, tree, keyspace) = Scene::new();
    let mut reader = session(&tree);
    let mut scan = reader.session().scan(ReadAt::Latest, keyspace, ScanRange::all()).unwrap();
    let (limit, mut batch) = (BatchLimit { records: 1, bytes: 1 << 20 }, ScanBatch::new());
    assert_eq!(scan.next_batch(limit, &mut batch).unwrap(), Outcome::Done(()));
    assert_eq!(batch.len(), 1);
    tree.close().unwrap();
    let again = scene.open().unwrap();
    assert_eq!(scan.next_batch(limit, &mut batch).unwrap_err().kind(), ErrorKind::Closed);
    let mut value = Vec::new();
    let refused = reader.session().get(ReadAt::Latest, keyspace, b"key", &mut value).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    again.close().unwrap();
}
