//! Publications that fail, on places in memory and on disk: what is read then decides.

use std::sync::Arc;

use firn_engine::ErrorKind;
use firn_format::file_name::manifest_edit;
use firn_format::manifest::Change;
use firn_storage::Storage;
use firn_storage::place::{Effect, Fault, Faulty, Local, LocalOptions, Memory, Operation, When};

use super::{Manifest, load};

const OF_STORAGE: firn_storage::ErrorKind = firn_storage::ErrorKind::Undecided;

/// A manifest of one edit on `storage`, and its place.
fn begun(storage: Arc<dyn Storage>) -> (Faulty, Manifest) {
    let faulty = Faulty::new(storage);
    let mut manifest = Manifest::new(Arc::new(faulty.clone()), None, 100);
    manifest.commit(&[Change::Database { id: 7 }]).unwrap();
    (faulty, manifest)
}

/// Does `check` on a place in memory and on one on disk.
fn everywhere(check: impl Fn(Faulty, Manifest)) {
    let (faulty, manifest) = begun(Arc::new(Memory::new()));
    check(faulty, manifest);
    let directory = tempfile::tempdir().unwrap();
    let local = Local::open(directory.path(), LocalOptions { create: true }).unwrap();
    let (faulty, manifest) = begun(Arc::new(local));
    check(faulty, manifest);
}

fn strike(faulty: &Faulty, on: Operation, effect: Effect) {
    faulty.inject(Fault { on, file: "*".to_owned(), when: When::Once { after: 0 }, effect });
}

fn tick(ms: u64) -> [Change; 1] {
    [Change::Tick { ms }]
}

/// The time that a manifest read from `faulty` has.
fn read_tick(faulty: &Faulty) -> u64 {
    load(faulty).unwrap().unwrap().state.tick_ms
}

/// Nothing is committed any more, for the first cause.
fn assert_ended(manifest: &mut Manifest, faulty: &Faulty, tick_ms: u64) {
    for _ in 0..2 {
        assert_eq!(manifest.commit(&tick(99)).unwrap_err().kind(), ErrorKind::Closed);
    }
    assert_eq!((manifest.state().tick_ms, read_tick(faulty)), (tick_ms, tick_ms));
}

#[test]
fn an_edit_that_was_published_although_nobody_said_so_is_committed() {
    everywhere(|faulty, mut manifest| {
        strike(&faulty, Operation::Publish, Effect::FailAfter(OF_STORAGE));
        let synced = faulty.counters().of(Operation::SyncDir).operations;
        manifest.commit(&tick(5)).unwrap();
        assert!(faulty.counters().of(Operation::SyncDir).operations > synced, "it must survive power loss");
        assert_eq!((manifest.state().tick_ms, read_tick(&faulty)), (5, 5));
        manifest.commit(&tick(6)).unwrap();
        assert_eq!((manifest.state().tick_ms, read_tick(&faulty)), (6, 6));
    });
}

#[test]
fn an_edit_that_was_not_published_can_be_tried_again() {
    everywhere(|faulty, mut manifest| {
        strike(&faulty, Operation::Publish, Effect::Fail(OF_STORAGE));
        assert_eq!(manifest.commit(&tick(5)).unwrap_err().kind(), ErrorKind::Retry);
        assert_eq!((manifest.state().tick_ms, read_tick(&faulty)), (0, 0), "nothing was changed");
        manifest.commit(&tick(6)).unwrap();
        assert_eq!((manifest.state().tick_ms, read_tick(&faulty)), (6, 6));
    });
}

/// Another owner's edit has the number: this one must stop, and leave it alone.
#[test]
fn an_edit_of_somebody_else_ends_the_manifest() {
    for effect in [None, Some(Effect::Fail(OF_STORAGE))] {
        everywhere(|faulty, mut manifest| {
            faulty.publish(&manifest_edit(2), b"another owner's").unwrap();
            if let Some(effect) = effect {
                strike(&faulty, Operation::Publish, effect);
            }
            let first = manifest.commit(&tick(5)).unwrap_err();
            assert_ne!(first.kind(), ErrorKind::Retry, "{first}");
            let again = manifest.commit(&tick(6)).unwrap_err();
            assert_eq!(again.to_string(), first.to_string(), "the first cause stays");
            assert_eq!(manifest.state().tick_ms, 0);
            let file = faulty.open_read(&manifest_edit(2)).unwrap();
            assert_eq!(file.len(), 15, "it is as it was");
        });
    }
}

#[test]
fn what_cannot_be_read_is_not_believed() {
    everywhere(|faulty, mut manifest| {
        strike(&faulty, Operation::Publish, Effect::Fail(OF_STORAGE));
        strike(&faulty, Operation::OpenRead, Effect::Fail(firn_storage::ErrorKind::Io));
        assert_eq!(manifest.commit(&tick(5)).unwrap_err().kind(), ErrorKind::Closed);
        assert_ended(&mut manifest, &faulty, 0);
    });
}

/// Whatever is read after a failed sync, it may be gone at the next start.
#[test]
fn a_failed_sync_ends_the_manifest_although_the_edit_is_there() {
    everywhere(|faulty, mut manifest| {
        strike(&faulty, Operation::Publish, Effect::FailAfter(firn_storage::ErrorKind::Io));
        assert_eq!(manifest.commit(&tick(5)).unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(manifest.commit(&tick(6)).unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(manifest.state().tick_ms, 0);
    });
    everywhere(|faulty, mut manifest| {
        strike(&faulty, Operation::Publish, Effect::FailAfter(OF_STORAGE));
        strike(&faulty, Operation::SyncDir, Effect::Fail(firn_storage::ErrorKind::Io));
        assert_eq!(manifest.commit(&tick(5)).unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(manifest.commit(&tick(6)).unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(manifest.state().tick_ms, 0);
    });
}
