//! What a compaction is told of tables below it: those of its own keys, however many there are.

use std::sync::{Arc, Mutex};

use firn_engine::{Engine, KEYSPACE_DEFAULT, Ordered};
use firn_jobs::{CompactSpec, Executor, JobHandle, JobSpec, KeyRange, Local};
use firn_tree::{Background, Tree, TreeOptions, TreeSettings};

use crate::world::{World, put, session, settle, tiny};

/// Runs jobs here, and keeps the specs of compactions.
#[derive(Debug)]
struct Recorder {
    inner: Local,
    specs: Mutex<Vec<CompactSpec>>,
}

impl Executor for Recorder {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        if let JobSpec::Compact(spec) = &spec {
            self.specs.lock().unwrap().push(spec.clone());
        }
        self.inner.submit(spec)
    }
}

/// What lies between the first and the last key of its inputs.
fn span(spec: &CompactSpec) -> KeyRange {
    let tables = || spec.inputs.iter().map(|input| &input.table);
    let last = tables().map(|table| &table.largest).max().unwrap();
    let start = tables().map(|table| table.smallest.clone()).min().unwrap();
    KeyRange { start, end: Some([&last[..], b"\0"].concat()) }
}

#[test]
fn a_compaction_is_told_of_the_tables_below_its_own_keys_alone() {
    let world = World::new(TreeSettings { table_bytes: 64 << 10, ..tiny() });
    let inner = Local::inline(world.options().storage, Arc::new(world.options().semantics));
    let recorder = Arc::new(Recorder { inner, specs: Mutex::default() });
    let executor: Option<Arc<dyn Executor>> = Some(Arc::clone(&recorder) as _);
    let tree =
        Tree::open(TreeOptions { executor, background: Background::Manual, ..world.options() }).unwrap();
    let mut writer = session(&tree);
    for key in 0..2000_u32 {
        put(&mut writer, &key.to_be_bytes(), &[7; 1000]);
    }
    tree.flush().unwrap();
    settle(&tree);
    tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
    recorder.specs.lock().unwrap().clear();
    // Here and there in its first quarter, so little that it is merged above for a while.
    for round in 0..40_u8 {
        for key in (0..500_u32).step_by(50) {
            put(&mut writer, &key.to_be_bytes(), &[round; 1000]);
        }
        tree.flush().unwrap();
        settle(&tree);
    }
    let specs = recorder.specs.lock().unwrap().clone();
    assert!(!specs.is_empty());
    let told: usize = specs.iter().map(|spec| spec.rules.older_overlap.len()).sum();
    assert!(told > 0, "some of them are told of something");
    for spec in &specs {
        let span = span(spec);
        assert!(spec.rules.older_overlap.iter().all(|older| older.touches(&span)), "{spec:?}");
    }
}
