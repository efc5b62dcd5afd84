//! Values that have expired while the clock is ahead, which is then set back: they are there again,
//! unless a call deleted them.

use std::sync::Arc;

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{
    Completion, Engine, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, Ordered, Outcome, ReadAt, Values,
    WriteOptions,
};
use firn_storage::Clock;
use firn_tree::{Background, Tree};

use crate::support::unmapped::Unmapped;
use crate::support::world::{self, World, get_in, tiny};

/// Where a value may lie, and how it comes there.
const PLACES: [&str; 4] = ["memtable", "level 0", "compacted", "separated"];

/// A database of a keyspace for each place, each with two values that have expired by its clock.
struct Ahead {
    machine: World,
    tree: Arc<Tree>,
    keyspaces: Vec<KeyspaceId>,
    right_ms: u64,
}

impl Ahead {
    fn new() -> Self {
        let machine = World::new(tiny());
        let tree = machine.open().unwrap();
        let right_ms = machine.clock.unix_ms();
        let options = WriteOptions { expires_at_ms: right_ms + 1000, ..WriteOptions::default() };
        let mut keyspaces = Vec::new();
        // The last place is the memtable: it would be frozen with the others.
        for place in PLACES.iter().rev() {
            let separate_bytes = (*place == "separated").then_some(100);
            let settings = KeyspaceSettings { separate_bytes, ..KeyspaceSettings::default() };
            let keyspace = tree.create_keyspace(place, settings).unwrap();
            let mut session = world::session(&tree);
            for key in [b"deleted", b"ignored"] {
                session.put(keyspace, key, &[7; 1000], options).unwrap();
            }
            match *place {
                "memtable" => {}
                "level 0" => tree.flush().unwrap(),
                _ => tree.compact_range(keyspace, b"", None).unwrap(),
            }
            keyspaces.insert(0, keyspace);
        }
        machine.clock.set_unix_ms(right_ms + 3_600_000);
        Self { machine, tree, keyspaces, right_ms }
    }

    fn set_back(&self) {
        self.machine.clock.set_unix_ms(self.right_ms);
    }
}

#[test]
fn a_delete_of_what_is_stored_holds_after_the_clock_is_set_back() {
    let ahead = Ahead::new();
    let mut session: OrderedBlocking = world::session(&ahead.tree);
    for (keyspace, place) in ahead.keyspaces.iter().zip(PLACES) {
        for key in [b"deleted", b"ignored"] {
            assert_eq!(get_in(&mut session, *keyspace, key), None, "{place}");
            assert!(session.is_stored(*keyspace, key).unwrap(), "{place}");
        }
        session.delete(*keyspace, b"deleted", WriteOptions::default()).unwrap();
        assert!(!session.is_stored(*keyspace, b"deleted").unwrap(), "{place}");
        let values = session.multi_get(ReadAt::Latest, *keyspace, &[b"deleted", b"ignored"]).unwrap();
        assert_eq!(stored(&values), [(None, false), (None, true)], "{place}");
    }
    ahead.set_back();
    for (keyspace, place) in ahead.keyspaces.iter().zip(PLACES) {
        assert_eq!(get_in(&mut session, *keyspace, b"deleted"), None, "{place}");
        let ignored = get_in(&mut session, *keyspace, b"ignored");
        assert_eq!(ignored.as_deref(), Some(&[7; 1000][..]), "{place}: nobody deleted it");
    }
}

/// Several keys are distinguished in their order, whether the session waits or not. So are they
/// where separated values are asked for first and read later.
#[test]
fn several_keys_are_told_apart() {
    let ahead = Ahead::new();
    let live = [8; 128];
    for (keyspace, place) in ahead.keyspaces.iter().zip(PLACES) {
        let mut session = world::session(&ahead.tree);
        session.put(*keyspace, b"live", &live, WriteOptions::default()).unwrap();
        if place != "memtable" {
            ahead.tree.flush().unwrap();
        }
        let keys: [&[u8]; 6] = [b"ignored", b"live", b"deleted", b"never", b"live", b"ignored"];
        let expected = [
            (None, true),
            (Some(&live[..]), true),
            (None, true),
            (None, false),
            (Some(&live[..]), true),
            (None, true),
        ];
        let values = session.multi_get(ReadAt::Latest, *keyspace, &keys).unwrap();
        assert_eq!(stored(&values), expected, "{place}");
        assert_eq!(stored(&values_later(&ahead.tree, *keyspace, &keys)), expected, "{place}");
    }
}

/// A job whose clock is ahead drops what has expired, with its separated value. `is_stored`
/// answers by what is there then.
#[test]
fn what_a_compaction_dropped_is_not_stored() {
    let ahead = Ahead::new();
    let mut session = world::session(&ahead.tree);
    for keyspace in &ahead.keyspaces {
        // Something that overlaps, so that all of it is written anew.
        session.put(*keyspace, b"a", b"1", WriteOptions::default()).unwrap();
        session.put(*keyspace, b"z", b"1", WriteOptions::default()).unwrap();
        ahead.tree.compact_range(*keyspace, b"", None).unwrap();
    }
    ahead.set_back();
    for (keyspace, place) in ahead.keyspaces.iter().zip(PLACES) {
        assert!(!session.is_stored(*keyspace, b"ignored").unwrap(), "{place}");
        assert_eq!(get_in(&mut session, *keyspace, b"ignored"), None, "{place}");
        assert!(session.is_stored(*keyspace, b"a").unwrap(), "{place}");
    }
}

/// A session that does not wait is answered later, where the value has to be read from a device.
#[test]
fn who_does_not_wait_is_told_later() {
    let machine = World::new(tiny());
    let unmapped = Unmapped { inner: Arc::new(machine.storage.clone()) };
    let now_ms = machine.clock.unix_ms();
    let tree = machine.open_on(Arc::new(unmapped), Background::Manual);
    let options = WriteOptions { expires_at_ms: now_ms + 1000, ..WriteOptions::default() };
    world::session(&tree).put(KEYSPACE_DEFAULT, b"a", b"1", options).unwrap();
    world::put(&mut world::session(&tree), b"c", b"1");
    tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
    drop(tree);
    let unmapped = Unmapped { inner: Arc::new(machine.storage.clone()) };
    let tree = machine.open_on(Arc::new(unmapped), Background::Manual);
    machine.clock.set_unix_ms(now_ms + 3_600_000);
    for (key, is_stored) in [(b"a", true), (b"b", false), (b"c", true)] {
        let mut session = tree.ordered_session();
        let found = match session.is_stored(KEYSPACE_DEFAULT, key).unwrap() {
            Outcome::Done(found) => found,
            Outcome::Pending(ticket) => {
                let mut found = None;
                while found.is_none() {
                    session.wait(None);
                    session.poll(&mut |it, completion| found = (it == ticket).then_some(completion));
                }
                let Some(Completion::Value(value)) = found else { panic!("{found:?}") };
                assert!(value.as_ref().is_none_or(Vec::is_empty));
                value.is_some()
            }
        };
        assert_eq!(found, is_stored, "{}", key.escape_ascii());
    }
    let values = values_later(&tree, KEYSPACE_DEFAULT, &[b"a", b"b", b"c"]);
    assert_eq!(stored(&values), [(None, true), (None, false), (Some(&b"1"[..]), true)]);
    assert!(tree.stats().read_miss_count > 0, "it had to be read from a device");
}

/// What a session that does not wait gets for `keys`.
fn values_later(tree: &Tree, keyspace: KeyspaceId, keys: &[&[u8]]) -> Values {
    let (mut session, mut values) = (tree.ordered_session(), Values::new());
    if let Outcome::Pending(_) = session.multi_get(ReadAt::Latest, keyspace, keys, &mut values).unwrap() {
        session.wait(None);
        session.poll(&mut |_, completion| match completion {
            Completion::Values(given) => values = given,
            other => panic!("{other:?}"),
        });
    }
    values
}

/// What each key has, and whether a value of it is stored.
fn stored(values: &Values) -> Vec<(Option<&[u8]>, bool)> {
    values.iter().enumerate().map(|(index, value)| (value, values.is_stored(index))).collect()
}

/// It takes no operator to see that there are operands.
#[test]
fn operands_that_cannot_be_applied_are_stored() {
    let machine = World::new(tiny());
    let tree = machine.open().unwrap();
    let keyspace = tree.create_keyspace("sums", world::adding()).unwrap();
    let mut session = world::session(&tree);
    session.merge(keyspace, b"a", b"no number", WriteOptions::default()).unwrap();
    assert!(session.get(ReadAt::Latest, keyspace, b"a").is_err());
    assert!(session.is_stored(keyspace, b"a").unwrap());
}
