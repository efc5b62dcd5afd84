//! Values that a compaction is about to read are collected before it reads them.

use std::fmt;
use std::sync::{Arc, Mutex};

use firn_engine::{Engine, KeyspaceId, KeyspaceSettings, WriteOptions};
use firn_jobs::{Executor, JobHandle, JobSpec, Local};
use firn_tree::{Settings, Tree, TreeOptions};

use crate::support::world::{self, World, get_in, settle, tiny};

const KEYS: u32 = 200;
const PUT: WriteOptions = WriteOptions { durability: None, expires_at_ms: 0 };

type Meanwhile = Box<dyn FnOnce() + Send>;

/// Does jobs here; something else happens before the first compaction that reads values.
struct Interrupted {
    inner: Local,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupted").finish_non_exhaustive()
    }
}

impl Executor for Interrupted {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        let values = match &spec {
            JobSpec::Compact(spec) => spec.values.as_ref(),
            JobSpec::BlobGc(_) => None,
        };
        let reads =
            values.is_some_and(|values| !values.sources.is_empty() && values.separate_bytes == u32::MAX);
        let meanwhile = if reads { self.meanwhile.lock().unwrap().take() } else { None };
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        self.inner.submit(spec)
    }
}

fn large(key: u32, round: u32) -> Vec<u8> {
    vec![(key + 41 * round) as u8; 3000]
}

/// Puts every `step`th key of `keyspace`, and flushes and collects what there is.
fn overwrite(tree: &Tree, keyspace: KeyspaceId, step: u32, value: impl Fn(u32) -> Vec<u8>) {
    let session = &mut world::session(tree);
    for key in (0..KEYS).step_by(step as usize) {
        session.put(keyspace, &key.to_be_bytes(), &value(key), PUT).unwrap();
    }
    tree.flush().unwrap();
    settle(tree);
}

#[test]
fn files_that_a_compaction_was_told_to_read_stay_while_they_are_collected() {
    let settings = Settings { space_amplification_max: 1.1, ..tiny() }
        .with_engine(|tree| tree.blob_segment_bytes = 256 << 10);
    let world = World::new(settings);
    let options = world.options();
    let inner = Local::inline(Arc::clone(&options.storage), Arc::new(options.semantics.clone()));
    let interrupted = Arc::new(Interrupted { inner, meanwhile: Mutex::default() });
    let executor: Option<Arc<dyn Executor>> = Some(Arc::clone(&interrupted) as _);
    let tree = Tree::open(TreeOptions { executor, ..options }).unwrap();
    let separated = KeyspaceSettings { separate_bytes: Some(100), ..KeyspaceSettings::default() };
    let [quiet, loud] = ["quiet", "loud"].map(|name| tree.create_keyspace(name, separated.clone()).unwrap());
    // Neighbours, so that what dies of one has the other's values copied.
    let session = &mut world::session(&tree);
    for (key, keyspace) in (0..KEYS).flat_map(|key| [(key, quiet), (key, loud)]) {
        session.put(keyspace, &key.to_be_bytes(), &large(key, 0), PUT).unwrap();
    }
    tree.flush().unwrap();
    settle(&tree);
    // From here on compactions of the quiet keyspace read its values, to have them in tables.
    tree.set_separate_bytes(quiet, Some(u32::MAX)).unwrap();
    let busy = Arc::clone(&tree);
    *interrupted.meanwhile.lock().unwrap() = Some(Box::new(move || {
        let before = busy.stats().tree.expect("a tree").blobs.gc_count;
        for round in 1..12 {
            overwrite(&busy, loud, 1, |key| large(key, round));
        }
        assert!(
            busy.stats().tree.expect("a tree").blobs.gc_count > before,
            "{:?}",
            busy.stats().tree.expect("a tree").blobs
        );
    }));
    for round in 0..40_u8 {
        overwrite(&tree, quiet, 2, |_| vec![round; 50]);
    }
    assert!(interrupted.meanwhile.lock().unwrap().is_none(), "no compaction has read values");
    assert_eq!(tree.stats().jobs_passed_on_reason, None);
    for key in 0..KEYS {
        let expected = if key % 2 == 0 { vec![39; 50] } else { large(key, 0) };
        assert_eq!(get_in(session, quiet, &key.to_be_bytes()), Some(expected), "key {key}");
        assert_eq!(get_in(session, loud, &key.to_be_bytes()), Some(large(key, 11)), "key {key}");
    }
}
