//! T11: a merge operator that panics within an update, which closed all writes. The call that ran
//! into it fails, and nothing else does.
//!
//! Neighbours: the update's own function; a get and a scan, on the caller's thread and on the pool;
//! a flush; a compaction.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{
    BatchLimit, Change, Completion, Engine, Error, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, Ordered,
    OrderedSession, Outcome, ReadAt, ScanBatch, ScanRange, Ticket, WriteOptions,
};
use firn_tree::{Tree, TreeOptions};

use super::joining::{Joining, joined};
use crate::support::world::{World, get, get_in, put, rows, session, settle, threads, tiny};

const KEY: &[u8] = b"key";

struct Scene {
    world: World,
    joining: Joining,
    tree: Arc<Tree>,
    keyspace: KeyspaceId,
}

impl Scene {
    fn new() -> Self {
        let (world, joining) = (World::new(tiny()), Joining::default());
        let tree = joining.open(&world);
        Self::on(world, joining, tree)
    }

    fn with_threads() -> Self {
        let (world, joining) = (World::new(tiny()), Joining::default());
        let tree = Tree::open(TreeOptions { background: threads(), ..joining.options(&world) }).unwrap();
        Self::on(world, joining, tree)
    }

    /// With merges over a put, the key's value.
    fn on(world: World, joining: Joining, tree: Arc<Tree>) -> Self {
        let keyspace = tree.create_keyspace("joined", joined()).unwrap();
        let scene = Self { world, joining, tree, keyspace };
        let mut session = session(&scene.tree);
        session.put(keyspace, KEY, b"0", WriteOptions::default()).unwrap();
        (0..20).for_each(|_| scene.merge(&mut session));
        scene
    }

    fn merge(&self, session: &mut OrderedBlocking) {
        session.merge(self.keyspace, KEY, b"+", WriteOptions::default()).unwrap();
    }

    fn update(&self, session: &mut OrderedBlocking) {
        let add = |value: Option<&[u8]>| (Change::Put([value.unwrap(), b"!"].concat()), ());
        session.update(self.keyspace, KEY, WriteOptions::default(), add).unwrap();
    }

    /// Everything else is written and read, and the key too once the operator is well.
    #[track_caller]
    fn goes_on(&self, value: &[u8]) {
        let mut session = session(&self.tree);
        put(&mut session, b"else", value);
        assert_eq!(get(&mut session, b"else").as_deref(), Some(value));
        assert_eq!(self.tree.stats().write_failure, None);
        self.joining.be_well();
        assert_eq!(get_in(&mut session, self.keyspace, KEY).as_deref(), Some(value));
    }
}

/// The value with so many merges and updates.
fn value(updates: usize) -> Vec<u8> {
    [&b"0"[..], &[b'+'; 20], &vec![b'!'; updates]].concat()
}

fn panics(work: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_err()
}

#[test]
fn t11_an_operator_that_panics_in_an_update_fails_that_update() {
    let scene = Scene::new();
    let mut session = session(&scene.tree);
    scene.joining.panic_from(1);
    assert!(panics(|| scene.update(&mut session)));
    scene.goes_on(&value(0));
    // In what was the second look, which asks no operator any more.
    scene.joining.panic_from(2);
    assert!(!panics(|| scene.update(&mut session)));
    scene.goes_on(&value(1));
    scene.update(&mut session);
    scene.goes_on(&value(2));
    scene.tree.close().unwrap();
}

#[test]
fn t11_a_function_that_panics_in_an_update_fails_that_update() {
    let scene = Scene::new();
    let mut session = session(&scene.tree);
    let cry = |_: Option<&[u8]>| -> (Change, ()) { panic!("no luck today") };
    let options = WriteOptions::default();
    assert!(panics(|| session.update(scene.keyspace, KEY, options, cry).unwrap()));
    scene.goes_on(&value(0));
    // The ticket of the session that is gone is not waited for.
    scene.update(&mut session);
    scene.goes_on(&value(1));
}

/// What the ticket completes with.
fn completion(session: &mut dyn OrderedSession, ticket: Ticket) -> Completion {
    let mut found = None;
    #[expect(clippy::disallowed_methods, reason = "`wait` takes its deadline as an Instant")]
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while found.is_none() {
        session.poll(&mut |done, completion| found = (done == ticket).then_some(completion));
        assert!(found.is_some() || session.wait(Some(deadline)), "the ticket never completes");
    }
    found.unwrap()
}

#[track_caller]
fn failure<T>(session: &mut dyn OrderedSession, outcome: Outcome<T>) -> Error {
    let Outcome::Pending(ticket) = outcome else { panic!("it is done on the pool") };
    match completion(session, ticket) {
        Completion::Failed(error) => error,
        other => panic!("completed as {other:?}"),
    }
}

/// On the pool there is no caller to panic: its ticket completes as failed, and the session goes
/// on.
#[test]
fn t11_panics_on_the_pool_fail_their_tickets() {
    let scene = Scene::with_threads();
    let (keyspace, options) = (scene.keyspace, WriteOptions::default());
    let mut session = scene.tree.ordered_session();
    scene.joining.panic_from(1);
    let outcome = session.update(keyspace, KEY, Box::new(|_| Change::Delete), options).unwrap();
    let error = failure(&mut *session, outcome);
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    assert!(error.to_string().contains("an update panicked: no luck today"), "{error}");
    scene.goes_on(&value(0));
    let cry = Box::new(|_: Option<&[u8]>| -> Change { panic!("no luck today") });
    let outcome = session.update(keyspace, KEY, cry, options).unwrap();
    assert_eq!(failure(&mut *session, outcome).kind(), ErrorKind::Retry);
    scene.goes_on(&value(0));

    // In a table behind so many operands a read is the pool's.
    let mut other = crate::support::world::session(&scene.tree);
    other.put(keyspace, KEY, b"0", options).unwrap();
    scene.tree.flush().unwrap();
    (0..20).for_each(|_| scene.merge(&mut other));
    scene.tree.flush().unwrap();
    scene.joining.panic_from(1);
    let outcome = session.get(ReadAt::Latest, keyspace, KEY, &mut Vec::new()).unwrap();
    assert!(failure(&mut *session, outcome).to_string().contains("a read panicked"));
    scene.goes_on(&value(0));
    let outcome = session.put(KEYSPACE_DEFAULT, b"from this session", b"v", options).unwrap();
    assert!(matches!(outcome, Outcome::Done(_)), "nothing stands in its line");
    drop((session, other));
    scene.tree.close().unwrap();
}

#[test]
fn t11_an_operator_that_panics_in_a_read_fails_that_read() {
    let scene = Scene::new();
    let mut session = session(&scene.tree);
    scene.joining.panic_from(1);
    assert!(panics(|| drop(get_in(&mut session, scene.keyspace, KEY))));
    scene.goes_on(&value(0));
    scene.joining.panic_from(1);
    let mut scan = session.session().scan(ReadAt::Latest, scene.keyspace, ScanRange::all()).unwrap();
    let (limit, mut batch) = (BatchLimit { records: 9, bytes: 1 << 20 }, ScanBatch::new());
    assert!(panics(|| drop(scan.next_batch(limit, &mut batch))));
    scene.goes_on(&value(0));
    let error = scan.next_batch(limit, &mut batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "a scan that panicked is over: {error}");
    let rows = rows(&mut session, ReadAt::Latest, scene.keyspace, ScanRange::all());
    assert_eq!(rows, [(KEY.to_vec(), value(0))]);
}

/// A flush and a compaction are tried again, and writes go on (decision 0015).
#[test]
fn t11_an_operator_that_panics_in_the_background_is_tried_again() {
    let scene = Scene::new();
    let mut session = session(&scene.tree);
    scene.joining.panic_from(1);
    let error = scene.tree.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    assert!(scene.tree.stats().background_refusal.unwrap().contains("no luck today"));
    scene.goes_on(&value(0));
    scene.world.clock.advance(Duration::from_secs(30));
    scene.tree.flush().unwrap();
    settle(&scene.tree);
    assert_eq!(scene.tree.stats().background_refusal, None);

    for _ in 0..6 {
        scene.merge(&mut session);
        scene.tree.flush().unwrap();
    }
    let whole = get_in(&mut session, scene.keyspace, KEY).unwrap();
    scene.joining.panic_from(1);
    let failed = std::iter::from_fn(|| Some(scene.tree.step())).take_while(|step| !matches!(step, Ok(false)));
    let failed: Vec<_> = failed.filter_map(Result::err).collect();
    assert!(!failed.is_empty(), "a compaction panics");
    assert!(failed.iter().all(|error| error.kind() == ErrorKind::Retry), "{failed:?}");
    scene.goes_on(&whole);
    scene.world.clock.advance(Duration::from_secs(30));
    settle(&scene.tree);
    assert_eq!(scene.tree.stats().background_refusal, None);
    scene.goes_on(&whole);
}

/// Nothing else is to be done, so that nothing but the drop says that the cause is gone.
#[test]
fn t11_a_refusal_does_not_outlive_its_keyspace() {
    let scene = Scene::new();
    let mut session = session(&scene.tree);
    for _ in 0..6 {
        scene.merge(&mut session);
        scene.tree.flush().unwrap();
    }
    scene.joining.panic_from(1);
    while scene.tree.step().unwrap_or(true) {}
    let refusal = || scene.tree.stats().background_refusal;
    assert!(refusal().is_some_and(|why| why.contains("a compaction panicked")), "{:?}", refusal());
    scene.tree.drop_keyspace(scene.keyspace).unwrap();
    assert_eq!(refusal(), None);

    // Of several keyspaces together, twice: it rests as well.
    let again = Scene::new();
    put(&mut crate::support::world::session(&again.tree), b"else", b"v");
    for _ in 0..2 {
        again.joining.panic_from(1);
        again.tree.flush().unwrap_err();
    }
    assert!(again.tree.stats().background_refusal.is_some());
    again.tree.drop_keyspace(again.keyspace).unwrap();
    assert_eq!(again.tree.stats().background_refusal, None);
}
