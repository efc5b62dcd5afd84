//! T2: a compaction that fails the same way each time. Its inputs are set aside and reported,
//! writes go on, and another opening refuses nothing.
//!
//! Neighbours: a flush that fails each time; a GC of values that does. A device that fails
//! to read an input, or to write an output. A table that cannot be created for now, as without a
//! descriptor.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::{Engine, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings};
use firn_storage::ErrorKind as Kind;
use firn_storage::backend::{Effect, Fault, Faulty, Operation, When};
use firn_tree::{Background, Tree};

use crate::support::scene::Scene;
use crate::support::world::{World, get_in, put, session, settle, tiny};

/// A tree whose backend fails on command, with a second keyspace.
struct Failing {
    world: World,
    faulty: Faulty,
    tree: Arc<Tree>,
    other: KeyspaceId,
}

impl Failing {
    fn new() -> Self {
        let world = World::new(tiny());
        let faulty = Faulty::new(Arc::new(world.storage.clone()));
        let tree = world.open_on(Arc::new(faulty.clone()), Background::Manual);
        let other = tree.create_keyspace("other", KeyspaceSettings::default()).unwrap();
        Self { world, faulty, tree, other }
    }

    fn strike(&self, on: Operation, file: &str, effect: Effect) {
        let when = When::Always { after: 0 };
        self.faulty.inject(Fault { on, file: file.to_owned(), when, effect });
    }

    /// As many flushes of `keyspace` as make a compaction due.
    fn fill(&self, keyspace: KeyspaceId) {
        let mut session = session(&self.tree);
        for round in 0..6_u8 {
            for key in 0..20_u8 {
                session.put(keyspace, &[key, round % 2], &[round; 100], Default::default()).unwrap();
            }
            self.tree.flush().unwrap();
        }
    }

    fn put(&self, key: &[u8]) {
        put(&mut session(&self.tree), key, b"taken");
        assert_eq!(get_in(&mut session(&self.tree), KEYSPACE_DEFAULT, key).as_deref(), Some(&b"taken"[..]));
    }

    /// Works until nothing is left to do; what failed.
    fn work(&self) -> Vec<firn_engine::Error> {
        let mut errors = Vec::new();
        loop {
            match self.tree.step() {
                Ok(true) => {}
                Ok(false) => return errors,
                Err(error) => errors.push(error),
            }
            assert!(errors.len() < 100, "tried for ever: {}", errors[0]);
        }
    }

    fn reopen(&mut self) {
        self.tree.close().unwrap();
        self.tree = self.world.open_on(Arc::new(self.faulty.clone()), Background::Manual);
    }
}

/// Spoils each table that is written, so that its output cannot be read back.
const TURNED: (Operation, &str, Effect) = (Operation::Write, "*.table", Effect::Turn);

#[test]
fn t2_a_compaction_that_fails_each_time_is_set_aside_and_writes_go_on() {
    let mut failing = Failing::new();
    failing.fill(KEYSPACE_DEFAULT);
    let (on, file, effect) = TURNED;
    failing.strike(on, file, effect);
    let errors = failing.work();
    assert_eq!(errors.len(), 1, "it is tried once, in both of its forms: {errors:?}");
    assert_eq!(errors[0].kind(), ErrorKind::Corrupt, "{}", errors[0]);
    let stats = failing.tree.stats();
    assert!(stats.set_aside_file_count >= 4, "{}", stats.set_aside_file_count);
    let why = stats.set_aside.unwrap();
    assert!(why.contains(".table") && why.contains("the next opening tries again"), "{why}");
    assert_eq!((stats.damaged_file_count, stats.write_failure), (0, None), "no input is damaged");
    assert_eq!(stats.background_refusal, None, "what is set aside does not rest as well");
    assert_eq!(failing.tree.wait_idle().unwrap_err().kind(), ErrorKind::Corrupt);
    failing.put(b"meanwhile");

    // Everything beside it goes on, and no output of what failed is left.
    failing.faulty.clear_faults();
    let before = failing.tree.stats();
    failing.fill(failing.other);
    assert_eq!(failing.work().len(), 0);
    let after = failing.tree.stats();
    assert!(
        after.tree.as_ref().expect("a tree").compaction_count
            > before.tree.as_ref().expect("a tree").compaction_count,
        "of the other keyspace"
    );
    assert_eq!(after.set_aside_file_count, before.set_aside_file_count);
    failing.tree.wait_idle().unwrap_err();
    let tables = failing.world.storage_names(".table");
    assert_eq!(tables.len() as u64, after.tree.as_ref().expect("a tree").table_count, "{tables:?}");

    // After another opening it is tried again, and comes off.
    failing.reopen();
    assert_eq!(failing.tree.stats().set_aside, None);
    assert!(failing.work().is_empty());
    let stats = failing.tree.stats();
    assert!(stats.tree.as_ref().expect("a tree").compaction_count > 0 && stats.set_aside.is_none());
    failing.put(b"afterwards");
}

/// What fails each time still does after another opening, and is no reason to refuse writes there
/// either.
#[test]
fn t2_what_still_fails_after_another_opening_refuses_nothing() {
    let mut failing = Failing::new();
    failing.fill(KEYSPACE_DEFAULT);
    let (on, file, effect) = TURNED;
    failing.strike(on, file, effect);
    for opening in 0..3_u8 {
        assert_eq!(failing.work().len(), 1, "opening {opening}");
        assert!(failing.tree.stats().set_aside.is_some());
        failing.put(&[opening]);
        failing.reopen();
    }
}

/// An output that only one of the forms spoils is got around.
#[test]
fn t2_a_compaction_that_fails_comes_off_in_a_plainer_form() {
    let failing = Failing::new();
    failing.fill(KEYSPACE_DEFAULT);
    let before = failing.tree.stats().tree.expect("a tree").compaction_count;
    let (on, file) = (Operation::Write, "*.table".to_owned());
    failing.faulty.inject(Fault { on, file, when: When::Once { after: 0 }, effect: Effect::Turn });
    assert!(failing.work().is_empty());
    assert_eq!(failing.faulty.struck_count(), 1);
    let stats = failing.tree.stats();
    assert!(stats.tree.as_ref().expect("a tree").compaction_count > before && stats.set_aside.is_none());
    // Neither what was spoiled nor what is kept to be written over.
    failing.tree.wait_idle().unwrap();
    assert_eq!(
        failing.world.storage_names(".table").len() as u64,
        stats.tree.as_ref().expect("a tree").table_count
    );
}

#[test]
fn t2_a_flush_that_fails_each_time_is_told_and_those_beside_it_go_on() {
    let failing = Failing::new();
    failing.put(b"key");
    let (on, file, effect) = TURNED;
    failing.strike(on, file, effect);
    let error = failing.tree.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let stats = failing.tree.stats();
    assert!(stats.background_refusal.unwrap().contains(".table") && stats.write_failure.is_none());
    failing.put(b"meanwhile");
    // What rests is not tried in a circle, and is tried again by itself.
    assert!(failing.work().len() <= 1);
    failing.faulty.clear_faults();
    failing.world.clock.advance(Duration::from_secs(60));
    assert!(failing.work().is_empty());
    failing.tree.flush().unwrap();
    assert_eq!(failing.tree.stats().background_refusal, None);
    failing.put(b"afterwards");
}

#[test]
fn t2_a_gc_that_fails_each_time_is_set_aside_and_writes_go_on() {
    let mut scene = Scene::new();
    scene.litter(1);
    scene.tree.close().unwrap();
    scene.machine.settings.space_amplification_max = 1.05;
    let faulty = Faulty::new(Arc::new(scene.machine.storage.clone()));
    let tree = scene.machine.open_on(Arc::new(faulty.clone()), Background::Manual);
    let (on, file) = (Operation::Write, "*.blobs".to_owned());
    faulty.inject(Fault { on, file, when: When::Always { after: 0 }, effect: Effect::Turn });
    let mut failed = 0;
    while let Some(done) = tree.step().map_or_else(|_| Some(true), |did| did.then_some(false)) {
        failed += u32::from(done);
        assert!(failed < 100, "tried for ever");
    }
    let stats = tree.stats();
    assert!(
        failed > 0 && stats.tree.as_ref().expect("a tree").blobs.gc_failure_count > 0,
        "{:?}",
        stats.tree.as_ref().expect("a tree").blobs
    );
    assert!(stats.set_aside_file_count > 0 && stats.write_failure.is_none(), "{stats:?}");
    put(&mut session(&tree), b"meanwhile", b"taken");
    faulty.clear_faults();
    tree.close().unwrap();
    // The next opening collects them.
    let tree = scene.machine.open().unwrap();
    settle(&tree);
    assert!(tree.stats().tree.expect("a tree").blobs.gc_count > 0 && tree.stats().set_aside.is_none());
}

#[test]
fn t2_an_input_that_the_device_does_not_give_is_set_aside_as_damaged() {
    let failing = Failing::new();
    failing.fill(KEYSPACE_DEFAULT);
    failing.strike(Operation::OpenRead, "*.table", Effect::Fail(Kind::Io));
    let errors = failing.work();
    assert!(!errors.is_empty() && errors.iter().all(|error| error.kind() == ErrorKind::Closed), "{errors:?}");
    let stats = failing.tree.stats();
    assert!(stats.damaged_file_count > 0 && stats.damage.is_some(), "{stats:?}");
    assert_eq!((stats.set_aside_file_count, stats.write_failure), (0, None));
    failing.put(b"meanwhile");
}

/// Whatever keeps an output from being written for now, without a sync that failed.
#[test]
fn t2_an_output_that_cannot_be_written_for_now_is_tried_again() {
    for (on, kind) in [(Operation::Create, Kind::Refused), (Operation::Write, Kind::Io)] {
        let failing = Failing::new();
        failing.put(b"key");
        failing.strike(on, "*.table", Effect::Fail(kind));
        failing.tree.flush().unwrap_err();
        let stats = failing.tree.stats();
        assert!(stats.background_refusal.is_some() && stats.write_failure.is_none(), "{on:?} {kind:?}");
        failing.put(b"meanwhile");
        failing.faulty.clear_faults();
        failing.tree.flush().unwrap();
        assert_eq!(failing.tree.stats().background_refusal, None);
        assert_eq!(failing.work().len(), 0);
    }
}

#[test]
fn t2_a_failed_sync_of_an_output_ends_writing() {
    let failing = Failing::new();
    failing.put(b"key");
    failing.strike(Operation::Sync, "*.table", Effect::Fail(Kind::Io));
    assert_eq!(failing.tree.flush().unwrap_err().kind(), ErrorKind::Closed);
    assert!(failing.tree.stats().write_failure.is_some());
}
