//! When orphans are looked for, and what of them goes.

use std::cell::RefCell;
use std::sync::Arc;

use firn_engine::{Error, ErrorKind as Kind};
use firn_format::file_name::table;
use firn_jobs::submit::OutputNames;
use firn_storage::ManualClock;
use firn_storage::backend::{Effect, Fault, Faulty, Memory, Operation, When};

use super::*;

/// Seconds at which a search is found to be due, where it is looked for each second.
fn searches(seconds: u64, left: impl Fn(u64) -> u64, ended: impl Fn(u64) -> u64) -> Vec<u64> {
    let gc = OrphanGc::new(Duration::ZERO, Aborted::default(), false);
    let is_due = |second: &u64| {
        let now = Duration::from_secs(*second);
        let is_due = gc.is_due(now, ended(*second), left(*second));
        if is_due {
            gc.begin(now);
        }
        is_due
    };
    (0..seconds).filter(is_due).collect()
}

#[test]
fn a_search_comes_some_time_after_something_was_left_and_not_else() {
    assert_eq!(searches(20_000, |_| 0, |_| 0), []);
    assert_eq!(searches(20_000, |now| u64::from(now >= 100), |_| 0), [160]);
    // What came shortly before a search has another one.
    assert_eq!(searches(20_000, |now| u64::from(now >= 100) + u64::from(now >= 130), |_| 0), [160, 190]);
    assert_eq!(searches(300, |now| now, |_| 0), [61, 121, 181, 241]);
}

#[test]
fn an_opening_that_could_not_abort_an_upload_now_has_a_search_some_time_after() {
    for (may_pass, is_due) in [(true, true), (false, false)] {
        let aborted = Aborted { may_pass, refusal: Some("no".to_owned()), count: 0 };
        let gc = OrphanGc::new(Duration::ZERO, aborted, false);
        assert!(!gc.is_due(GRACE - Duration::from_secs(1), 0, 0));
        assert_eq!(gc.is_due(GRACE, 0, 0), is_due);
        assert_eq!(gc.upload_refusal().as_deref(), Some("no"));
    }
}

#[test]
fn what_cannot_be_removed_is_tried_again_ever_later_until_it_can() {
    let gc = OrphanGc::new(Duration::ZERO, Aborted::default(), false);
    assert!(!gc.is_left());
    let tried = |now: &u64| {
        let now = Duration::from_secs(*now);
        let is_due = gc.is_due(now, 0, 1);
        if is_due {
            gc.begin(now);
            gc.repeat(now);
        }
        is_due
    };
    let pauses = [60, 60, 120, 240, 480, 960, 1920, 3600, 3600];
    let moments = pauses.iter().scan(0, |now, pause| {
        *now += pause;
        Some(*now)
    });
    assert_eq!((0..12_000).filter(tried).collect::<Vec<u64>>(), moments.collect::<Vec<u64>>());
    assert!(gc.is_left());
    gc.begin(Duration::from_secs(20_000));
    gc.end();
    assert!(!gc.is_left());
}

#[test]
fn a_search_comes_each_hour_while_jobs_end_and_once_more() {
    assert_eq!(searches(20_000, |_| 0, |now| u64::from(now >= 100)), [3600, 7200]);
    assert_eq!(searches(20_000, |_| 0, |now| u64::from(now >= 3700)), [3700, 7300]);
    assert_eq!(searches(14_000, |_| 0, |now| now), [3600, 7200, 10_800]);
}

/// What an engine knows of its files: outputs of a stem that was let go of, of which one is held
/// and one named.
struct Known {
    output_names: OutputNames,
    held: Option<BTreeSet<String>>,
    named: String,
    is_judged: Result<bool>,
    asked: RefCell<Vec<&'static str>>,
}

impl KnownFiles for Known {
    fn abandoned(&self) -> AbandonedNames {
        self.asked.borrow_mut().push("abandoned");
        self.output_names.abandoned()
    }

    fn held(&self) -> Option<BTreeSet<String>> {
        self.asked.borrow_mut().push("held");
        self.held.clone()
    }

    fn judge(
        &self,
        listed: &[(String, u64)],
        abandoned: &AbandonedNames,
        judge: impl FnOnce(&dyn Fn(&str) -> bool),
    ) -> Result<bool> {
        self.asked.borrow_mut().push("named");
        assert!(!listed.is_empty(), "the list comes first");
        if matches!(self.is_judged, Ok(true)) {
            judge(&|name| is_abandoned(name, abandoned, |name| name == self.named));
        }
        self.is_judged.clone()
    }
}

/// A storage with tables of a stem that was let go of, by their numbers, and what an engine knows
/// of them: 0 is held, 1 is named.
fn known(tables: u32) -> (Faulty, Known) {
    let storage = Faulty::new(Arc::new(Memory::new()));
    let output_names = OutputNames::new(1);
    let stem = output_names.hold().draw();
    for number in 0..tables {
        storage.publish(&table(&stem, number), b"a table").unwrap();
    }
    storage.publish("0000000000000000.log", b"no output").unwrap();
    let known = Known {
        output_names,
        held: Some(BTreeSet::from([table(&stem, 0)])),
        named: table(&stem, 1),
        is_judged: Ok(true),
        asked: RefCell::default(),
    };
    (storage, known)
}

fn run(gc: &OrphanGc, known: &Known, storage: &Faulty, is_stopping: bool) -> Result<Removed> {
    gc.run(known, Removal { storage, clock: &ManualClock::new(0) }, || is_stopping)
}

fn names(storage: &Faulty) -> usize {
    storage.list().unwrap().len()
}

fn new() -> OrphanGc {
    OrphanGc::new(Duration::ZERO, Aborted::default(), false)
}

#[test]
fn what_nothing_waits_for_holds_or_names_goes() {
    let (storage, known) = known(4);
    let mut in_use_names = known.output_names.hold();
    let in_use = table(&in_use_names.draw(), 0);
    storage.publish(&in_use, b"a table").unwrap();
    let gc = new();
    assert_eq!(run(&gc, &known, &storage, false).unwrap(), Removed { files: 2, uploads: 0 });
    assert_eq!(names(&storage), 4, "those that are held, named, in use and no output stay");
    let stays = |name: &String| storage.list().unwrap().iter().any(|(known, _)| known == name);
    assert!(stays(&in_use) && stays(&known.named));
    assert_eq!(*known.asked.borrow(), ["abandoned", "held", "named"]);
    assert!(!gc.is_left());
}

#[test]
fn nothing_goes_where_it_cannot_be_told() {
    let (storage, mut known) = known(4);
    let gc = new();
    known.is_judged = Ok(false);
    assert_eq!(run(&gc, &known, &storage, false).unwrap(), Removed::default());
    assert!(gc.is_left(), "it is asked again");
    known.held = None;
    known.is_judged = Ok(true);
    assert_eq!(run(&gc, &known, &storage, false).unwrap(), Removed::default());
    known.held = Some(BTreeSet::new());
    known.is_judged = Err(Error::new(Kind::Closed, "taken over"));
    assert_eq!(run(&gc, &known, &storage, false).unwrap_err().kind(), Kind::Closed);
    assert_eq!(names(&storage), 5);
}

#[test]
fn what_cannot_be_removed_has_another_search_unless_it_is_gone() {
    for (kind, is_left) in [(ErrorKind::Io, true), (ErrorKind::NotFound, false)] {
        let (storage, known) = known(3);
        let gc = new();
        let fault = Fault {
            on: Operation::Remove,
            file: "*".to_owned(),
            when: When::Once { after: 0 },
            effect: Effect::Fail(kind),
        };
        storage.inject(fault);
        assert_eq!(run(&gc, &known, &storage, false).unwrap(), Removed::default(), "{kind:?}");
        assert_eq!(gc.is_left(), is_left, "{kind:?}");
    }
}

#[test]
fn a_search_ends_where_the_engine_stops() {
    let (storage, known) = known(4);
    assert_eq!(run(&new(), &known, &storage, true).unwrap(), Removed::default());
    assert_eq!(names(&storage), 5);
}
