//! Jobs that need a compaction filter, and workers that lack it or have another one of its name.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn::Db;
use firn_engine::{CompactionFilter, FilterVerdict, KeyspaceId, KeyspaceSettings, Semantics};

use crate::scene::{Scene, any_port, done_by};

/// Drops what ends with an odd byte.
#[derive(Debug)]
struct DropsOdd;

impl CompactionFilter for DropsOdd {
    fn name(&self) -> &str {
        "odd.1"
    }

    fn verdict(&self, _key: &[u8], value: &[u8]) -> FilterVerdict {
        match value.last() {
            Some(byte) if byte % 2 == 1 => FilterVerdict::Drop,
            _ => FilterVerdict::Keep,
        }
    }
}

/// Drops what ends with a byte below a limit, which its name does not say.
#[derive(Debug)]
struct DropsBelow(u8);

impl CompactionFilter for DropsBelow {
    fn name(&self) -> &str {
        "below.1"
    }

    fn parameters_hash(&self) -> u64 {
        u64::from(self.0)
    }

    fn verdict(&self, _key: &[u8], value: &[u8]) -> FilterVerdict {
        match value.last() {
            Some(byte) if *byte < self.0 => FilterVerdict::Drop,
            _ => FilterVerdict::Keep,
        }
    }
}

/// A keyspace with a filter, no value of which is large enough to be separated, and what was
/// written to it last.
struct Filtered<'d> {
    db: &'d Db,
    id: KeyspaceId,
    filter: Arc<dyn CompactionFilter>,
    model: Vec<Vec<u8>>,
    random: fastrand::Rng,
}

impl Filtered<'_> {
    /// Writes, compacts all of it, and finds what the filter keeps and nothing else.
    fn write_and_check(&mut self) {
        let keyspace = self.db.in_keyspace(self.id);
        for step in 0..2000 {
            let key = self.random.usize(0..self.model.len());
            let value: Vec<u8> = (0..self.random.usize(1..400)).map(|_| self.random.u8(..)).collect();
            keyspace.put(key.to_be_bytes(), &value).unwrap();
            self.model[key] = value;
            if step % 500 == 499 {
                self.db.flush().unwrap();
            }
        }
        keyspace.compact_range([], None).unwrap();
        self.db.wait_idle().unwrap();
        for (key, value) in self.model.iter().enumerate() {
            // What was never written is the empty value.
            let is_kept = !value.is_empty() && self.filter.verdict(b"", value) == FilterVerdict::Keep;
            let kept = is_kept.then_some(value);
            assert_eq!(keyspace.get(key.to_be_bytes()).unwrap().as_ref(), kept, "key {key}");
        }
    }
}

/// Has a worker with `lacking` refuse the jobs of a database with `filter`, which need `need`, and
/// another one with `having` do them.
fn refused_and_done(filter: Arc<dyn CompactionFilter>, lacking: Semantics, having: Semantics, need: &str) {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let lacking = scene.worker("lacking", &at, lacking);
    let db = scene.builder(&at).compaction_filter(Arc::clone(&filter)).open().unwrap();
    let compaction_filter = Some(filter.name().to_owned());
    let settings = KeyspaceSettings { compaction_filter, ..KeyspaceSettings::default() };
    let id = db.create_keyspace("filtered", settings).unwrap();
    let random = fastrand::Rng::with_seed(1);
    let mut filtered = Filtered { db: &db, id, filter, model: vec![Vec::new(); 500], random };
    filtered.write_and_check();
    let stats = db.stats();
    assert!(stats.jobs_passed_on_count > 0, "{stats:?}");
    let reason = stats.jobs_passed_on_reason.unwrap();
    assert!(reason.contains(need), "{reason}");
    assert_eq!(done_by(&scene.look(at[0])), BTreeMap::new());
    let having = scene.worker("having", &at, having);
    // An executor that refused is left alone for a while.
    let mut rounds = 0;
    while done_by(&scene.look(at[0])).is_empty() {
        filtered.write_and_check();
        rounds += 1;
        scene.clock.sleep(std::time::Duration::from_millis(100));
        assert!(rounds < 600, "{:?}", db.stats().jobs_passed_on_reason);
    }
    assert_eq!(done_by(&scene.look(at[0])).keys().collect::<Vec<_>>(), ["having"]);
    drop((lacking, having));
}

#[test]
fn a_worker_without_the_filter_gets_no_such_job_and_one_with_it_does_them() {
    let having = Semantics::new().with_compaction_filter(Arc::new(DropsOdd));
    refused_and_done(Arc::new(DropsOdd), Semantics::new(), having, "filter:odd.1");
}

#[test]
fn a_worker_with_other_parameters_gets_no_such_job_and_one_with_the_same_does_them() {
    let with = |limit| Semantics::new().with_compaction_filter(Arc::new(DropsBelow(limit)));
    let need = "(filter:below.1#0000000000000064); one has filter:below.1#00000000000000c8, which is of other parameters";
    // It may have others besides.
    let having = with(100).with_compaction_filter(Arc::new(DropsBelow(50)));
    refused_and_done(Arc::new(DropsBelow(100)), with(200), having, need);
}
