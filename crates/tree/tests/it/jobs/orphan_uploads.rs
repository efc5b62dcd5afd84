//! Workers that are killed as they send an output in parts: its upload goes as its file would.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_engine::Engine;
use firn_storage::backend::{Effect, Fault, Memory, Operation, When};
use firn_storage::{ErrorKind, Storage};
use firn_tree::{Background, Tree, TreeOptions};

use crate::jobs::orphans::{Site, compact, divided, fill};
use crate::support::in_time::until;
use crate::support::world::{put, session, settle, threads};

impl Site {
    /// The executor that was asked for jobs has begun to upload outputs of other attempts at them,
    /// and ends none; their names.
    fn kill_amid_parts(&self) -> Vec<String> {
        let stems = std::mem::take(&mut *self.executor.stems.lock().unwrap());
        assert!(!stems.is_empty(), "no job was asked for elsewhere");
        let names = |stem: &String| [format!("{stem}-7-000000.table"), format!("{stem}-7-000001.blobs")];
        let names: Vec<String> = stems.iter().flat_map(names).collect();
        names.iter().for_each(|name| self.shared.leave_upload(name, "1"));
        names
    }

    /// Names of files that are being uploaded.
    fn uploads(&self) -> Vec<String> {
        self.shared.unfinished_uploads().unwrap().into_iter().map(|upload| upload.name).collect()
    }

    fn asked(&self, on: Operation) -> u64 {
        self.faulty.counters().of(on).operations
    }

    fn refuse(&self, on: Operation, effect: Effect) {
        self.faulty.inject(Fault { on, file: "*".to_owned(), when: When::Always { after: 0 }, effect });
    }

    /// A database some of whose jobs were done elsewhere. An attempt that it gave up has left
    /// uploads by now, and the database knows that.
    fn with_uploads(&self) -> (Arc<Tree>, Vec<String>) {
        let tree = self.open(Background::Manual);
        fill(&tree);
        compact(&tree);
        settle(&tree);
        let left = self.kill_amid_parts();
        self.executor.given_up.fetch_add(1, Ordering::Relaxed);
        self.after(&tree, 0);
        (tree, left)
    }
}

#[test]
fn uploads_of_attempts_that_nobody_waits_for_are_aborted_and_no_others() {
    let site = Site::new(true);
    let (tree, left) = site.with_uploads();
    // Names of a machine that is about to take over, of a sealed segment, and of files that are no
    // outputs.
    let others = [
        "00000009-00000000-7-000000.table",
        "00000001-00000000000000000000000000000007-00000000.blobs",
        "00000001-0000ffff-000000.table",
        "manifest-0000000000000099",
        "0000000000001000.log",
    ];
    others.iter().for_each(|name| site.shared.leave_upload(name, "2"));
    site.after(&tree, 59);
    assert_eq!(site.asked(Operation::ListUploads), 1, "by the opening alone");
    site.after(&tree, 1);
    let mut expected = others.map(str::to_owned);
    expected.sort_unstable();
    assert_eq!(site.uploads(), expected);
    assert_eq!((tree.stats().upload_abort_count, tree.stats().upload_refusal), (left.len() as u64, None));
    assert_eq!(site.asked(Operation::ListUploads), 2, "one list for one orphan GC");
    (0..3).for_each(|_| site.after(&tree, 3600));
    let before = site.faulty.counters();
    (0..100).for_each(|_| site.after(&tree, 3600));
    assert_eq!(site.faulty.counters(), before, "an idle database asks nothing");
    tree.close().unwrap();
    site.check();
}

#[test]
fn the_upload_of_a_job_in_progress_stays() {
    let site = Site::new(true);
    let tree = site.open(threads());
    fill(&tree);
    compact(&tree);
    let left = site.kill_amid_parts();
    site.executor.given_up.fetch_add(1, Ordering::Relaxed);
    tree.wait_idle().unwrap();
    site.world.clock.advance(Duration::from_secs(50));
    fill(&tree);
    site.executor.holds.store(true, Ordering::Relaxed);
    let name = std::thread::scope(|scope| {
        let compacting = scope.spawn(|| compact(&tree));
        until("a job", || !site.executor.held.lock().unwrap().is_empty());
        let name = format!("{}-7-000009.table", site.executor.stems.lock().unwrap()[0]);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            site.shared.leave_upload(&name, "1");
            site.world.clock.advance(Duration::from_secs(10));
            // The count is raised once all are aborted that are to be.
            until("orphan GC", || tree.stats().upload_abort_count >= left.len() as u64);
            assert_eq!(site.uploads(), std::slice::from_ref(&name));
        }));
        let held = std::mem::take(&mut *site.executor.held.lock().unwrap());
        held.into_iter().for_each(|(finisher, result)| finisher.finish(Ok(result)));
        compacting.join().unwrap();
        caught.unwrap_or_else(|panic| resume_unwind(panic));
        name
    });
    // Once the job has ended, no attempt at it is waited for.
    site.executor.given_up.fetch_add(1, Ordering::Relaxed);
    until("another orphan GC", || {
        site.world.clock.advance(Duration::from_secs(61));
        !site.uploads().contains(&name)
    });
    tree.close().unwrap();
    site.check();
}

/// It may have begun twice, or have ended: what the store would remove with it may be the file's.
#[test]
fn the_upload_of_a_file_stays_as_long_as_the_file_is_needed() {
    let site = Site::new(true);
    let (tree, left) = site.with_uploads();
    let live = site.files();
    assert!(!live.is_empty());
    live.iter().for_each(|name| site.shared.leave_upload(name, "2"));
    site.after(&tree, 60);
    assert_eq!((site.uploads(), tree.stats().upload_abort_count), (live.clone(), left.len() as u64));
    // The next opening goes by the same rule.
    tree.close().unwrap();
    let tree = site.open(Background::Manual);
    assert_eq!((site.uploads(), tree.stats().upload_abort_count), (live.clone(), 0));
    fill(&tree);
    compact(&tree);
    settle(&tree);
    assert!(!site.has_any(&live), "{live:?}");
    tree.close().unwrap();
    let tree = site.open(Background::Manual);
    assert_eq!((site.uploads(), tree.stats().upload_abort_count), (Vec::new(), live.len() as u64));
    tree.close().unwrap();
    site.check();
}

#[test]
fn who_may_not_ask_for_uploads_removes_orphans_as_ever_and_no_more_often() {
    for on in [Operation::ListUploads, Operation::AbortUpload] {
        let site = Site::new(true);
        let (tree, left) = site.with_uploads();
        left.iter().for_each(|name| site.create(name));
        site.refuse(on, Effect::Fail(ErrorKind::Invalid));
        let lists = site.asked(Operation::List);
        (0..10).for_each(|_| site.after(&tree, 60));
        assert!(!site.has_any(&left) && site.uploads() == left, "{on:?}");
        assert_eq!(site.asked(Operation::List) - lists, 1, "{on:?}");
        let stats = tree.stats();
        assert_eq!((stats.orphan_remove_count, stats.upload_abort_count), (2, 0), "{on:?}");
        assert!(stats.upload_refusal.unwrap().contains("a scripted fault"), "{on:?}");
        let tried = usize::from(on == Operation::AbortUpload);
        assert_eq!(site.asked(Operation::AbortUpload), tried as u64, "{on:?}: the next would be refused too");
        put(&mut session(&tree), b"key", b"value");
        tree.flush().unwrap();
        tree.close().unwrap();
        // An opening is not hindered either, reports the same, and has no orphan GC come for it.
        site.executor.given_up.store(0, Ordering::Relaxed);
        let tree = site.open(Background::Manual);
        assert!(tree.stats().upload_refusal.is_some(), "{on:?}");
        let lists = site.asked(Operation::List);
        (0..10).for_each(|_| site.after(&tree, 60));
        assert_eq!(site.asked(Operation::List), lists + 1, "{on:?}: for what was asked for before, as ever");
        tree.close().unwrap();
        site.faulty.clear_faults();
        let tree = site.open(Background::Manual);
        let stats = tree.stats();
        assert_eq!((stats.upload_abort_count, stats.upload_refusal), (2, None), "{on:?}");
        tree.close().unwrap();
        site.check();
    }
}

#[test]
fn uploads_that_cannot_be_listed_or_aborted_now_are_aborted_in_a_while() {
    let refused = Effect::Fail(ErrorKind::Refused);
    for (on, effect) in [
        (Operation::ListUploads, refused),
        (Operation::AbortUpload, refused),
        // The operation is done, and its answer lost.
        (Operation::AbortUpload, Effect::FailAfter(ErrorKind::Refused)),
    ] {
        for is_opening in [false, true] {
            let what = format!("{on:?} {effect:?} {is_opening}");
            let site = Site::new(true);
            let (mut tree, left) = site.with_uploads();
            site.refuse(on, effect);
            if is_opening {
                tree.close().unwrap();
                tree = site.open(Background::Manual);
            } else {
                site.after(&tree, 60);
            }
            let tried = site.asked(Operation::AbortUpload);
            assert!(
                tried <= if is_opening { 1 } else { 2 },
                "{what}: an opening does not go on where it fails"
            );
            assert!(tree.stats().upload_refusal.is_some(), "{what}");
            site.faulty.clear_faults();
            site.after(&tree, 59);
            assert_eq!(site.uploads().is_empty(), effect != refused && !is_opening, "{what}: not at once");
            site.after(&tree, 1);
            assert_eq!(site.uploads(), [""; 0], "{what}");
            assert_eq!(tree.stats().upload_refusal, None, "{what}");
            if effect == refused {
                assert_eq!(tree.stats().upload_abort_count, left.len() as u64, "{what}");
            }
            tree.close().unwrap();
            site.check();
        }
    }
}

/// There may be very many, where none was removed before, and users wait for an opening.
#[test]
fn an_opening_aborts_some_uploads_and_leaves_the_others_for_orphan_gc() {
    let site = Site::new(true);
    site.open(Background::Manual).close().unwrap();
    let name = |number: u32| format!("00000001-00000001-7-{number:06}.table");
    (0..40).for_each(|number| site.shared.leave_upload(&name(number), "1"));
    // No other executor does its jobs.
    let storage = Arc::clone(&site.storage);
    let options = TreeOptions { storage, background: Background::Manual, ..site.world.options() };
    let tree = Tree::open(options).unwrap();
    assert_eq!((tree.stats().upload_abort_count, site.uploads().len()), (32, 8));
    assert!(tree.stats().upload_refusal.unwrap().contains("more than 32: the others are aborted later"));
    site.after(&tree, 59);
    assert_eq!(site.uploads().len(), 8);
    site.after(&tree, 1);
    let stats = tree.stats();
    assert_eq!((stats.upload_abort_count, site.uploads().len(), stats.upload_refusal), (40, 0, None));
    let before = site.faulty.counters();
    (0..100).for_each(|_| site.after(&tree, 3600));
    assert_eq!(site.faulty.counters(), before, "an idle database asks nothing");
    tree.close().unwrap();
    site.check();
}

#[test]
fn whoever_has_lost_the_database_aborts_nothing() {
    let site = Site::new(true);
    let (tree, left) = site.with_uploads();
    let storage: Arc<dyn Storage> = Arc::new(divided(&Memory::new(), Arc::new(site.shared.clone()), 8));
    let taken = Arc::new(Mutex::new(None));
    let take_over = {
        let (taken, options, shared) = (Arc::clone(&taken), site.world.options(), site.shared.clone());
        let again = left.clone();
        move || {
            let storage = Arc::clone(&storage);
            let second = Tree::open(TreeOptions { storage, take_over: true, ..options.clone() }).unwrap();
            assert_eq!(second.stats().upload_abort_count, again.len() as u64);
            again.iter().for_each(|name| shared.leave_upload(name, "2"));
            *taken.lock().unwrap() = Some(second);
        }
    };
    // In the moment in which this one asks for uploads.
    site.hook.set(take_over);
    let (effect, when) = (Effect::Delay(Duration::from_millis(1)), When::Once { after: 0 });
    site.faulty.inject(Fault { on: Operation::ListUploads, file: "*".to_owned(), when, effect });
    site.world.clock.advance(Duration::from_secs(60));
    let stepped = (0..100).map(|_| tree.step()).find(|_| taken.lock().unwrap().is_some());
    assert_eq!(stepped.unwrap().unwrap_err().kind(), firn_engine::ErrorKind::Closed);
    let _stopped = tree.close();
    assert_eq!((site.uploads(), tree.stats().upload_abort_count), (left, 0));
    let theirs = taken.lock().unwrap().take().unwrap();
    theirs.close().unwrap();
}
