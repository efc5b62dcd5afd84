//! Shared storage that is away for a while: writing goes on when it is back.

use std::sync::Arc;

use firn_engine::{Engine, ErrorKind, KEYSPACE_DEFAULT};
use firn_storage::ErrorKind as Kind;
use firn_storage::place::{Divided, Effect, Fault, Faulty, Memory, Operation, When};
use firn_tree::{Tree, TreeOptions};

use crate::shared_durability::{HERE, all, settings};
use crate::two_machines::{Machine, Model};
use crate::world::{describe, session, settle};

/// A machine, its database with values beside the tree, and the shared place that can be away.
fn begin() -> (Machine, Arc<Tree>, Faulty) {
    let machine = Machine::new(settings(), &Memory::new(), 7);
    let faulty = Faulty::new(Arc::new(machine.shared.clone()));
    let place = Divided::open(Arc::new(machine.local.clone()), Arc::new(faulty.clone()), 7).unwrap();
    let tree = Tree::open(TreeOptions { storage: Arc::new(place), ..machine.options() }).unwrap();
    tree.set_separate_bytes(KEYSPACE_DEFAULT, Some(100)).unwrap();
    (machine, tree, faulty)
}

/// Writes values beside the tree.
fn write(tree: &Tree, round: u8, model: &mut Model) {
    let mut writer = session(tree);
    for key in 0..30_u8 {
        let value = vec![key ^ round; 1500 + usize::from(key) * 50];
        writer.put(KEYSPACE_DEFAULT, &[key % 20, round % 2], &value, HERE).unwrap();
        model.insert(vec![key % 20, round % 2], value);
    }
}

fn refuse(faulty: &Faulty, file: &str, when: When) {
    let (on, effect) = (Operation::OpenRead, Effect::Fail(Kind::Refused));
    faulty.inject(Fault { on, file: file.to_owned(), when, effect });
}

/// What was sealed cannot be read where it lies.
#[test]
fn a_place_that_is_away_when_values_were_sealed_is_written_to_when_it_is_back() {
    let (machine, tree, faulty) = begin();
    let mut model = Model::new();
    write(&tree, 0, &mut model);
    refuse(&faulty, "*.values", When::Always { after: 0 });
    for _ in 0..3 {
        let told = tree.flush().unwrap_err();
        assert_eq!(told.kind(), ErrorKind::Retry, "{}", describe(&told));
    }
    faulty.clear_faults();
    write(&tree, 1, &mut model);
    tree.flush().unwrap();
    settle(&tree);
    assert!(all(&tree) == model);
    tree.close().unwrap();
    machine.check_files("it was away");
    assert!(all(&machine.open()) == model);
}

/// Does background work until there is none.
fn rest(tree: &Tree) -> firn_engine::Result<()> {
    while tree.step()? {}
    Ok(())
}

/// A few reads in a row are refused, from each one on.
#[test]
fn a_place_that_is_away_at_any_moment_ends_no_writing() {
    for after in 0.. {
        let (machine, tree, faulty) = begin();
        (0..5).for_each(|more| refuse(&faulty, "*", When::Once { after: after + more }));
        let what = format!("after {after} reads");
        let mut model = Model::new();
        for round in 0..4 {
            write(&tree, round, &mut model);
            let mut tries = (0..6).map(|_| tree.flush().and_then(|()| rest(&tree)));
            let is_done = tries.any(|tried| match tried {
                Ok(()) => true,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Retry, "{what}: {}", describe(&error));
                    false
                }
            });
            assert!(is_done, "{what}");
        }
        assert!(all(&tree) == model, "{what}");
        if faulty.struck_count() == 0 {
            assert!(after > 20, "{after} reads");
            return;
        }
        tree.close().unwrap();
        machine.check_files(&what);
    }
}
