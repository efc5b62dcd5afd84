//! Log objects that are put together while the backend does not take one of them: what lay in the
//! old log objects is there, and work ends.

use std::sync::Arc;

use firn_engine::{Engine, ErrorKind, KEYSPACE_DEFAULT};
use firn_storage::ErrorKind as Kind;
use firn_storage::backend::{Crash, Divided, Effect, Fault, Faulty, Memory, Operation, When};
use firn_tree::{Tree, TreeOptions};

use crate::shared_storage::large::machine;
use crate::support::machine::{Model, SHARED, all, objects, on};
use crate::support::world::{describe, session};

/// As many log objects as may be too many, each of one write.
const SMALL: u32 = 1000;

/// Two log objects, of which the first one says nothing without the other one.
const LARGE: usize = 20 << 20;

fn count(shared: &Memory) -> usize {
    objects(shared).values().map(Vec::len).sum()
}

/// Does background work until there is none, and answers how often the backend refused it.
fn settle_refused(tree: &Tree, what: &str) -> u32 {
    let mut refused = 0;
    for _ in 0..100 {
        match tree.step() {
            Ok(true) => {}
            Ok(false) => return refused,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Retry, "{what}: {}", describe(&error));
                refused += 1;
            }
        }
    }
    panic!("{what}: it works for ever, {refused} times in vain");
}

/// What a machine has that takes the database over from what `shared` is now.
fn elsewhere(shared: &Memory, what: &str) -> Model {
    let left = shared.crash(Crash::Kill);
    let other = on(&machine(&left, 8), &left);
    let tree = other.take_over().unwrap_or_else(|error| panic!("{what}: {}", describe(&error)));
    let found = all(&tree);
    tree.close().unwrap();
    other.check_files(what);
    found
}

/// Writes what makes too many log objects, and a large write on top; `fault` strikes log objects
/// from the large write's first one on. Whether it did, and how often work was refused.
fn merge(separate_bytes: Option<u32>, (when, effect): (When, Effect)) -> (bool, u32) {
    let what = format!("separated from {separate_bytes:?}, {when:?}, {effect:?}");
    let shared = Memory::new();
    let first = machine(&shared, 7);
    let faulty = Faulty::new(Arc::new(shared.clone()));
    let storage = Divided::open(Arc::new(first.local.clone()), Arc::new(faulty.clone()), 7).unwrap();
    let tree = Tree::open(TreeOptions { storage: Arc::new(storage), ..first.options() }).unwrap();
    tree.set_separate_bytes(KEYSPACE_DEFAULT, separate_bytes).unwrap();
    let mut writer = session(&tree);
    for key in 0..SMALL {
        writer.put(KEYSPACE_DEFAULT, &(key % 200).to_be_bytes(), &key.to_be_bytes(), SHARED).unwrap();
    }
    assert_eq!(count(&shared), SMALL as usize, "{what}");
    let mut model = all(&tree);
    faulty.inject(Fault { on: Operation::Publish, file: "*.group".to_owned(), when, effect });
    let value: Vec<u8> = (0..LARGE as u32 / 4).flat_map(u32::to_le_bytes).collect();
    let written = writer.put(KEYSPACE_DEFAULT, b"large", &value, SHARED);
    let refused = settle_refused(&tree, &what);
    let mut found = elsewhere(&shared, &what);
    let large = found.remove(&b"large"[..]);
    assert!(large.is_none_or(|found| found == value) || written.is_err(), "{what}");
    assert!(found == model, "{what}: {} rows", found.len());

    // The next write finds what is pending taken.
    let is_struck = faulty.struck_count() > 0;
    faulty.clear_faults();
    writer.put(KEYSPACE_DEFAULT, b"after", b"small", SHARED).unwrap();
    model.extend([(b"large".to_vec(), value), (b"after".to_vec(), b"small".to_vec())]);
    assert!(elsewhere(&shared, &what) == model, "{what}");
    if refused == 0 {
        assert!(count(&shared) < 20, "{what}: {} log objects", count(&shared));
    }
    tree.flush().unwrap();
    assert_eq!(settle_refused(&tree, &what), 0, "{what}");
    assert!(elsewhere(&shared, &what) == model, "{what}");
    assert!(count(&shared) < 20, "{what}: {} log objects", count(&shared));
    (is_struck, refused)
}

/// The backend refuses one log object. The log object is of the large write, so that its rest is
/// pending when merging is due, or of those that are put together.
#[test]
fn a_log_object_that_is_refused_once_costs_nothing_that_was_shared() {
    let effects = [Effect::Fail(Kind::Refused), Effect::FailAfter(Kind::Undecided)];
    for (separate_bytes, effect) in [None, Some(1000)].into_iter().zip(effects) {
        let mut refused = Vec::new();
        for after in 0.. {
            let (is_struck, times) = merge(separate_bytes, (When::Once { after }, effect));
            if !is_struck {
                break;
            }
            refused.push(times);
        }
        println!("separated from {separate_bytes:?}: {refused:?}");
        let (of_large, of_together) = refused.split_at(2);
        assert_eq!(of_large, [0; 2], "what is pending goes first");
        assert!(of_together.len() > 1 && of_together.iter().all(|times| *times == 1), "{of_together:?}");
    }
}

/// It is tried once, and not for ever: no caller waits for it.
#[test]
fn a_backend_that_goes_away_while_log_objects_are_put_together_ends_the_work() {
    for after in [0, 1, 3] {
        let (_, refused) = merge(None, (When::Always { after }, Effect::Fail(Kind::Refused)));
        assert_eq!(refused, 1, "after {after}");
    }
}
