//! Publications that fail, on backends in memory and on disk: what is read then decides.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Divided, Effect, Fault, Faulty, Local, LocalOptions, Memory, Operation, When};
use crate::{Clock, ErrorKind, ManualClock, Storage};
use firn_format::file_name::manifest_edit;
use firn_format::manifest::{Change, EditEncoder, ManifestEdit};

use super::{Content, Edit, load};

/// A time, in edits as a tree has them.
#[derive(Clone, Copy, Debug, Default)]
struct Time {
    database: u128,
    tick_ms: u64,
}

impl Content for Time {
    type Change = Change;
    type Before = Self;

    fn apply(&mut self, change: &Change) -> Result<(), String> {
        match change {
            Change::Database { id } => self.database = *id,
            Change::Tick { ms } if *ms < self.tick_ms => return Err("time goes back".to_owned()),
            Change::Tick { ms } => self.tick_ms = *ms,
            _ => {}
        }
        Ok(())
    }

    fn before(&self, _changes: &[Change]) -> Self {
        *self
    }

    fn restore(&mut self, before: Self) {
        *self = before;
    }

    fn encode(&self, number: u64, changes: &[Change]) -> Vec<u8> {
        let mut encoder = EditEncoder::default();
        changes.iter().for_each(|change| encoder.push(change));
        encoder.finish(number, false, 0)
    }

    fn encode_base(&self, number: u64) -> Vec<u8> {
        let mut encoder = EditEncoder::default();
        [self.identity(), Change::Tick { ms: self.tick_ms }].iter().for_each(|change| encoder.push(change));
        encoder.finish(number, true, 0)
    }

    fn decode(bytes: &[u8]) -> Result<Edit<Change>, firn_format::Error> {
        let ManifestEdit { number, base, changes, .. } = ManifestEdit::decode(bytes)?;
        Ok(Edit { number, is_base: base, changes })
    }

    fn take_over(home: u128) -> Change {
        Change::TakeOver { id: home }
    }

    fn is_take_over(change: &Change) -> bool {
        matches!(change, Change::TakeOver { .. })
    }

    fn identity(&self) -> Change {
        Change::Database { id: self.database }
    }
}

type Manifest = super::Manifest<Time>;

const UNDECIDED: ErrorKind = ErrorKind::Undecided;

fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::new(0))
}

/// A manifest of one edit on `storage`, and its backend.
fn begun(storage: Arc<dyn Storage>) -> (Faulty, Manifest) {
    let faulty = Faulty::new(storage);
    let mut manifest = Manifest::new((Arc::new(faulty.clone()), clock()), None, 100);
    manifest.commit(&[Change::Database { id: 7 }]).unwrap();
    (faulty, manifest)
}

/// Does `check` on a backend in memory and on one on disk.
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
    load::<Time>(faulty, 0).unwrap().unwrap().state.tick_ms
}

/// Nothing is committed any more, for the first cause.
fn assert_ended(manifest: &mut Manifest, faulty: &Faulty, tick_ms: u64) {
    for _ in 0..2 {
        assert_eq!(manifest.commit(&tick(99)).unwrap_err().kind, ErrorKind::Closed);
    }
    assert_eq!((manifest.state().tick_ms, read_tick(faulty)), (tick_ms, tick_ms));
}

#[test]
fn an_edit_that_was_published_without_an_answer_is_committed() {
    everywhere(|faulty, mut manifest| {
        strike(&faulty, Operation::Publish, Effect::FailAfter(UNDECIDED));
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
        strike(&faulty, Operation::Publish, Effect::Fail(UNDECIDED));
        assert_eq!(manifest.commit(&tick(5)).unwrap_err().kind, UNDECIDED);
        assert_eq!((manifest.state().tick_ms, read_tick(&faulty)), (0, 0), "nothing was changed");
        manifest.commit(&tick(6)).unwrap();
        assert_eq!((manifest.state().tick_ms, read_tick(&faulty)), (6, 6));
    });
}

/// Another owner's edit has the number: this one must stop, and leave it alone.
#[test]
fn an_edit_of_another_process_ends_the_manifest() {
    for effect in [None, Some(Effect::Fail(UNDECIDED))] {
        everywhere(|faulty, mut manifest| {
            faulty.publish(&manifest_edit(2), b"another process's").unwrap();
            if let Some(effect) = effect {
                strike(&faulty, Operation::Publish, effect);
            }
            let first = manifest.commit(&tick(5)).unwrap_err();
            assert_eq!(first.kind, ErrorKind::Closed, "{first}");
            let again = manifest.commit(&tick(6)).unwrap_err();
            assert_eq!(again.to_string(), first.to_string(), "the first cause stays");
            assert_eq!(manifest.state().tick_ms, 0);
            let file = faulty.open_read(&manifest_edit(2)).unwrap();
            assert_eq!(file.len(), 17, "it is as it was");
        });
    }
}

#[test]
fn what_cannot_be_read_is_not_believed() {
    everywhere(|faulty, mut manifest| {
        strike(&faulty, Operation::Publish, Effect::Fail(UNDECIDED));
        strike(&faulty, Operation::OpenRead, Effect::Fail(ErrorKind::Io));
        assert_eq!(manifest.commit(&tick(5)).unwrap_err().kind, ErrorKind::Closed);
        assert_ended(&mut manifest, &faulty, 0);
    });
}

/// Whatever is read after a failed sync, it may be gone at the next start.
#[test]
fn a_failed_sync_ends_the_manifest_although_the_edit_is_there() {
    everywhere(|faulty, mut manifest| {
        strike(&faulty, Operation::Publish, Effect::FailAfter(ErrorKind::Io));
        assert_eq!(manifest.commit(&tick(5)).unwrap_err().kind, ErrorKind::Closed);
        assert_eq!(manifest.commit(&tick(6)).unwrap_err().kind, ErrorKind::Closed);
        assert_eq!(manifest.state().tick_ms, 0);
    });
    everywhere(|faulty, mut manifest| {
        strike(&faulty, Operation::Publish, Effect::FailAfter(UNDECIDED));
        strike(&faulty, Operation::SyncDir, Effect::Fail(ErrorKind::Io));
        assert_eq!(manifest.commit(&tick(5)).unwrap_err().kind, ErrorKind::Closed);
        assert_eq!(manifest.commit(&tick(6)).unwrap_err().kind, ErrorKind::Closed);
        assert_eq!(manifest.state().tick_ms, 0);
    });
}

/// A manifest of one edit in the shared part of a backend, and that part.
fn begun_shared() -> (Faulty, Manifest) {
    let faulty = Faulty::new(Arc::new(Memory::new()));
    let backend = Divided::open(Arc::new(Memory::new()), Arc::new(faulty.clone()), 7).unwrap();
    let mut manifest = Manifest::new((Arc::new(backend), clock()), None, 100);
    manifest.commit(&[Change::Database { id: 7 }]).unwrap();
    (faulty, manifest)
}

#[test]
fn a_shared_backend_that_does_not_answer_is_asked_until_it_does() {
    let undecided = ErrorKind::Undecided;
    for effect in [Effect::Fail(undecided), Effect::FailAfter(undecided)] {
        let (faulty, mut manifest) = begun_shared();
        for after in 0..5 {
            let when = When::Once { after };
            faulty.inject(Fault { on: Operation::Publish, file: "*".to_owned(), when, effect });
        }
        manifest.commit(&tick(5)).unwrap();
        assert_eq!((manifest.state().tick_ms, read_tick(&faulty)), (5, 5), "{effect:?}");
        manifest.commit(&tick(6)).unwrap();
    }
    // What was not heard of may happen later: nothing is taken back, and nothing else is written
    // under that number.
    let (faulty, mut manifest) = begun_shared();
    let when = When::Always { after: 0 };
    faulty.inject(Fault {
        on: Operation::Publish,
        file: "*".to_owned(),
        when,
        effect: Effect::Fail(undecided),
    });
    assert_ended(&mut manifest, &faulty, 0);
    // A refusal is one, unless there was doubt before.
    let refused = Effect::Fail(ErrorKind::Refused);
    let (faulty, mut manifest) = begun_shared();
    strike(&faulty, Operation::Publish, refused);
    assert_eq!(manifest.commit(&tick(5)).unwrap_err().kind, ErrorKind::Refused);
    manifest.commit(&tick(6)).unwrap();
    let (faulty, mut manifest) = begun_shared();
    strike(&faulty, Operation::Publish, Effect::Fail(undecided));
    let when = When::Always { after: 1 };
    faulty.inject(Fault { on: Operation::Publish, file: "*".to_owned(), when, effect: refused });
    assert_ended(&mut manifest, &faulty, 0);
}

#[test]
fn whether_an_edit_follows_on_is_asked_until_it_is_answered() {
    let refused = Effect::Fail(ErrorKind::Refused);
    let (faulty, mut manifest) = begun_shared();
    strike(&faulty, Operation::OpenRead, refused);
    manifest.commit(&tick(5)).unwrap();
    let when = When::Always { after: 0 };
    faulty.inject(Fault { on: Operation::OpenRead, file: "*".to_owned(), when, effect: refused });
    let before = manifest.clock().now();
    for _ in 0..2 {
        assert_eq!(manifest.commit(&tick(6)).unwrap_err().kind, ErrorKind::Closed);
    }
    assert!(manifest.clock().now() - before >= Duration::from_mins(2), "it may be said after a while");
    assert!(!manifest.is_overtaken(), "it cannot be known");
}

/// The bytes of the edit `number`.
fn edit_bytes(backend: &Memory, number: u64) -> Vec<u8> {
    let file = backend.open_read(&manifest_edit(number)).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// A process sleeps, another machine restates everything, and then the backend does once more what
/// it was asked long before.
#[test]
fn an_edit_that_comes_back_after_it_was_removed_is_not_believed() {
    let shared = Memory::new();
    let backend = |home| -> Arc<dyn Storage> {
        Arc::new(Divided::open(Arc::new(Memory::new()), Arc::new(shared.clone()), home).unwrap())
    };
    let (ours, theirs) = (backend(7), backend(8));
    let mut manifest = Manifest::new((Arc::clone(&ours), clock()), None, 4);
    manifest.commit(&[Change::Database { id: 7 }]).unwrap();
    (1..=2).for_each(|ms| manifest.commit(&tick(ms)).unwrap());
    let before = edit_bytes(&shared, 3);
    let mut other = Manifest::new((Arc::clone(&theirs), clock()), load(&*theirs, 0).unwrap(), 4);
    (11..=13).for_each(|ms| other.commit(&tick(ms)).unwrap());
    assert!(shared.open_read(&manifest_edit(4)).is_err(), "restated and removed");
    shared.publish(&manifest_edit(3), &before).unwrap();
    let error = manifest.commit(&tick(99)).unwrap_err();
    assert!(manifest.is_overtaken() && error.kind == ErrorKind::Closed, "{error}");
    assert!(shared.open_read(&manifest_edit(4)).is_err(), "nor does it stay");
    let is_current = Manifest::new((Arc::clone(&ours), clock()), load(&*ours, 0).unwrap(), 4).is_current();
    assert!(is_current && other.is_current());
    assert_eq!(load::<Time>(&*theirs, 0).unwrap().unwrap().state.tick_ms, 13);
}

#[test]
fn edits_that_could_not_be_removed_go_with_the_next_commit() {
    let faulty = Faulty::new(Arc::new(Memory::new()));
    let mut manifest = Manifest::new((Arc::new(faulty.clone()), clock()), None, 4);
    manifest.commit(&[Change::Database { id: 7 }]).unwrap();
    (1..=3).for_each(|ms| manifest.commit(&tick(ms)).unwrap());
    strike(&faulty, Operation::Remove, Effect::Fail(ErrorKind::Refused));
    manifest.commit(&tick(4)).unwrap();
    assert!(faulty.open_read(&manifest_edit(1)).is_ok(), "the fifth restates, and none was removed");
    manifest.commit(&tick(5)).unwrap();
    for number in 1..5 {
        assert!(faulty.open_read(&manifest_edit(number)).is_err(), "{number} is there");
    }
    assert_eq!(read_tick(&faulty), 5);
}

#[test]
fn a_change_that_does_not_fit_changes_nothing() {
    everywhere(|faulty, mut manifest| {
        manifest.commit(&tick(5)).unwrap();
        let unfit = manifest.commit(&[tick(7), tick(3)].concat()).unwrap_err();
        assert_eq!((unfit.kind, unfit.message.as_str()), (ErrorKind::Corrupt, "time goes back"));
        assert_eq!((manifest.state().tick_ms, read_tick(&faulty)), (5, 5));
        manifest.commit(&tick(6)).unwrap();
        assert_eq!((manifest.state().tick_ms, read_tick(&faulty)), (6, 6));
    });
}

#[test]
fn a_fence_ends_the_process_that_had_the_database_before() {
    let shared = Memory::new();
    let backend = |home| -> Arc<dyn Storage> {
        Arc::new(Divided::open(Arc::new(Memory::new()), Arc::new(shared.clone()), home).unwrap())
    };
    let (ours, theirs) = (backend(7), backend(8));
    let mut manifest = Manifest::new((Arc::clone(&ours), clock()), None, 100);
    manifest.commit(&[Change::Database { id: 7 }]).unwrap();
    let mut other = Manifest::new((Arc::clone(&theirs), clock()), load(&*theirs, 0).unwrap(), 100);
    other.fence(8).unwrap();
    assert_eq!(manifest.commit(&tick(5)).unwrap_err().kind, ErrorKind::Closed);
    assert!(manifest.is_overtaken());
    // An opening that finds a fence needs no other one.
    let mut third = Manifest::new((Arc::clone(&theirs), clock()), load(&*theirs, 0).unwrap(), 100);
    third.fence(8).unwrap();
    assert!(shared.open_read(&manifest_edit(3)).is_err());
    other.commit(&tick(6)).unwrap();
    assert_eq!(load::<Time>(&*theirs, 0).unwrap().unwrap().state.tick_ms, 6);
}

#[test]
fn a_manifest_beside_files_of_an_earlier_build_is_not_loaded() {
    let (faulty, mut manifest) = begun_shared();
    manifest.commit(&tick(5)).unwrap();
    faulty.create("gc-7-000003.values").unwrap();
    let error = load::<Time>(&faulty, 0).unwrap_err();
    assert_eq!((error.kind, error.file.as_str()), (ErrorKind::Invalid, "gc-7-000003.values"));
    faulty.remove("gc-7-000003.values").unwrap();
    assert_eq!(read_tick(&faulty), 5);
}
