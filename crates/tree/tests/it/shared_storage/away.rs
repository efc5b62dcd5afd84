//! Shared storage that is away for a while: writing goes on when it is back.

use std::sync::Arc;

use firn_engine::{Engine, ErrorKind, KEYSPACE_DEFAULT};
use firn_storage::backend::{Divided, Effect, Fault, Faulty, Memory, Mounted, Operation, When};
use firn_storage::{ErrorKind as Kind, Storage};
use firn_tree::{Tree, TreeOptions};

use crate::support::machine::{HERE, Machine, Model, all, settings};
use crate::support::world::{describe, session, settle};

/// What is shared.
#[derive(Clone, Copy, Debug)]
enum Shared {
    /// A store, which says that what failed may pass.
    Store,
    /// A directory that is mounted, where the system says that it failed.
    Directory,
}

impl Shared {
    /// What its reads fail with while it is away.
    fn away(self) -> Kind {
        match self {
            Self::Store => Kind::Refused,
            Self::Directory => Kind::Io,
        }
    }

    fn backend(self, faulty: &Faulty) -> Arc<dyn Storage> {
        match self {
            Self::Store => Arc::new(faulty.clone()),
            Self::Directory => Arc::new(Mounted::new(Arc::new(faulty.clone()))),
        }
    }
}

/// A machine, its database with separated values, and the shared backend that can be away.
fn begin(shared: Shared) -> (Machine, Arc<Tree>, Faulty) {
    let machine = Machine::new(settings(), &Memory::new(), 7);
    let faulty = Faulty::new(Arc::new(machine.shared.clone()));
    let backend = Divided::open(Arc::new(machine.local.clone()), shared.backend(&faulty), 7).unwrap();
    let tree = Tree::open(TreeOptions { storage: Arc::new(backend), ..machine.options() }).unwrap();
    tree.set_separate_bytes(KEYSPACE_DEFAULT, Some(100)).unwrap();
    (machine, tree, faulty)
}

/// Writes separated values.
fn write(tree: &Tree, round: u8, model: &mut Model) {
    let mut writer = session(tree);
    for key in 0..30_u8 {
        let value = vec![key ^ round; 1500 + usize::from(key) * 50];
        writer.put(KEYSPACE_DEFAULT, &[key % 20, round % 2], &value, HERE).unwrap();
        model.insert(vec![key % 20, round % 2], value);
    }
}

fn fail(faulty: &Faulty, (on, file): (Operation, &str), when: When, kind: Kind) {
    faulty.inject(Fault { on, file: file.to_owned(), when, effect: Effect::Fail(kind) });
}

/// What was sealed cannot be read where it lies.
#[test]
fn a_backend_that_is_away_when_values_were_sealed_is_written_to_when_it_is_back() {
    for shared in [Shared::Store, Shared::Directory] {
        let (machine, tree, faulty) = begin(shared);
        let mut model = Model::new();
        write(&tree, 0, &mut model);
        fail(&faulty, (Operation::OpenRead, "*.blobs"), When::Always { after: 0 }, shared.away());
        for _ in 0..3 {
            let error = tree.flush().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Retry, "{shared:?}: {}", describe(&error));
            let why = tree.stats().background_refusal.unwrap_or_default();
            assert!(why.contains(".blobs") && why.contains("tried again by itself"), "{shared:?}: {why}");
        }
        faulty.clear_faults();
        write(&tree, 1, &mut model);
        tree.flush().unwrap();
        settle(&tree);
        assert_eq!(tree.stats().background_refusal, None);
        assert!(all(&tree) == model);
        tree.close().unwrap();
        machine.check_files("it was away");
        assert!(all(&machine.open()) == model);
    }
}

/// Does background work until there is none.
fn rest(tree: &Tree) -> firn_engine::Result<()> {
    while tree.step()? {}
    Ok(())
}

/// Has a few operations in a row fail after `after` others, while a database is written to; whether
/// so many happened.
fn is_away(shared: Shared, on: Operation, after: u64) -> bool {
    let (machine, tree, faulty) = begin(shared);
    (0..5).for_each(|more| fail(&faulty, (on, "*"), When::Once { after: after + more }, shared.away()));
    let what = format!("{shared:?}, {on:?} after {after} others");
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
    let struck = faulty.struck_count();
    faulty.clear_faults();
    assert!(all(&tree) == model, "{what}");
    tree.close().unwrap();
    machine.check_files(&what);
    struck > 0
}

/// A few reads in a row are refused, from each one on.
#[test]
fn a_backend_that_is_away_at_any_moment_ends_no_writing() {
    let reads = (0..).take_while(|after| is_away(Shared::Store, Operation::OpenRead, *after)).count();
    assert!(reads > 20, "{reads} reads");
}

/// The same of a directory, where also files that are written are met.
#[test]
fn a_directory_that_is_away_at_any_moment_ends_no_writing() {
    for on in [Operation::OpenRead, Operation::Bytes, Operation::Create, Operation::Write] {
        let moments = (0..).map(|at| at * at);
        let moments = moments.take_while(|after| is_away(Shared::Directory, on, *after)).count();
        assert!(moments > 3, "{on:?}: {moments} moments");
    }
}

/// What a file holds whose sync failed is unknown, wherever it lies.
#[test]
fn a_sync_that_fails_in_a_directory_ends_writing() {
    for (on, file) in [(Operation::Sync, "*.table"), (Operation::SyncDir, "*")] {
        let (_machine, tree, faulty) = begin(Shared::Directory);
        let mut model = Model::new();
        write(&tree, 0, &mut model);
        fail(&faulty, (on, file), When::Once { after: 0 }, Kind::Io);
        let error = tree.flush().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{on:?}: {}", describe(&error));
        let refused = session(&tree).put(KEYSPACE_DEFAULT, b"later", b"no", HERE).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Closed, "{on:?}: {}", describe(&refused));
        assert!(all(&tree) == model, "reads go on");
    }
}
