//! Jobs whose operators panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_engine::{CompactionFilter, FilterVerdict, Semantics};
use firn_jobs::{ErrorKind, Executor, ExecutorChain, Local};
use firn_storage::Storage;

use crate::elsewhere::{Elsewhere, PATIENCE, Scene, Way, answer};
use crate::world::{Append, DropD};

/// As [`DropD`], while it is able to.
#[derive(Debug)]
struct Clumsy {
    is_able: AtomicBool,
}

impl CompactionFilter for Clumsy {
    fn name(&self) -> &str {
        DropD.name()
    }

    fn verdict(&self, key: &[u8], value: &[u8]) -> FilterVerdict {
        assert!(self.is_able.load(Ordering::SeqCst), "no luck with {} bytes", key.len());
        DropD.verdict(key, value)
    }
}

fn semantics(clumsy: &Arc<Clumsy>) -> Arc<Semantics> {
    let filter = Arc::clone(clumsy) as _;
    Arc::new(Semantics::new().with_merge_operator(Arc::new(Append)).with_compaction_filter(filter))
}

#[test]
fn a_job_that_panics_here_has_failed_and_says_why_and_the_next_is_done() {
    for is_inline in [true, false] {
        let scene = Scene::new(Way::Serve);
        let clumsy = Arc::new(Clumsy { is_able: AtomicBool::new(false) });
        let (storage, semantics) = (Arc::clone(&scene.storage), semantics(&clumsy));
        let local = match is_inline {
            true => Local::inline(storage, semantics),
            false => Local::threads(storage, semantics, &scene.spawn, 1).unwrap(),
        };
        for job in ["first", "second"] {
            let error = answer(&local.submit(scene.spec(job)).unwrap()).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Panicked);
            assert!(error.message.starts_with("a compaction panicked: no luck with "), "{error}");
            assert_eq!(scene.files(job), [""; 0]);
        }
        clumsy.is_able.store(true, Ordering::SeqCst);
        scene.accept("third", &answer(&local.submit(scene.spec("third")).unwrap()).unwrap());
        drop(local);
        assert!(scene.spawn.join_all().is_empty(), "no thread has panicked");
    }
}

#[test]
fn an_executor_that_panics_as_it_is_asked_fails_that_job_and_all_others_are_watched_over() {
    let scene = Scene::new(Way::Vanish);
    let second = Elsewhere::new(&scene.storage, Way::Panic);
    let both = [Arc::clone(&scene.elsewhere) as _, Arc::clone(&second) as Arc<dyn Executor>];
    let (storage, clock) = (Arc::clone(&scene.storage), Arc::clone(&scene.clock) as _);
    let chain = ExecutorChain::threads(both, storage, clock, PATIENCE, 1, &scene.spawn).unwrap();
    // It is late there, so that the thread that watches asks the second one.
    let late = chain.submit(scene.spec("late")).unwrap();
    scene.clock.advance(PATIENCE.least);
    let error = answer(&late).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Panicked, "{error}");
    assert_eq!(error.message, "taking the job panicked: that cannot be");
    second.go(Way::Serve);
    let next = chain.submit(scene.spec("next")).unwrap();
    scene.clock.advance(PATIENCE.least);
    scene.accept("next", &answer(&next).unwrap());
    drop(chain);
    assert!(scene.spawn.join_all().is_empty(), "no thread has panicked");
}

#[test]
fn an_executor_that_panics_as_it_is_asked_how_wide_it_is_keeps_no_l0_work_from_being_done_here() {
    let scene = Scene::new(Way::Vanish);
    let chain = scene.chain(false);
    let waits = chain.submit(scene.spec("waits")).unwrap();
    scene.go(Way::Panic);
    scene.elsewhere.kept.lock().unwrap()[0].0.set_waiting(true);
    chain.urge(Some(Duration::ZERO));
    scene.let_it_look();
    scene.clock.advance(PATIENCE.begin_max);
    scene.accept("waits", &answer(&waits).unwrap());
    drop(chain);
    assert!(scene.spawn.join_all().is_empty(), "no thread has panicked");
}

#[test]
fn a_job_that_panics_elsewhere_and_here_has_failed_and_says_why() {
    let scene = Scene::new(Way::Fail);
    let clumsy = Arc::new(Clumsy { is_able: AtomicBool::new(false) });
    let storage: Arc<dyn Storage> = Arc::clone(&scene.storage);
    let second = Local::threads(Arc::clone(&storage), semantics(&clumsy), &scene.spawn, 1).unwrap();
    let first: Arc<Elsewhere> = Arc::clone(&scene.elsewhere);
    let (both, clock) = ([first as Arc<dyn Executor>, Arc::new(second)], Arc::clone(&scene.clock) as _);
    let chain = ExecutorChain::threads(both, storage, clock, PATIENCE, 1, &scene.spawn).unwrap();
    let error = answer(&chain.submit(scene.spec("job")).unwrap()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Panicked, "{error}");
    scene.leaves("job", &[]);
    scene.go(Way::Serve);
    scene.accept("next", &answer(&chain.submit(scene.spec("next")).unwrap()).unwrap());
    drop(chain);
    assert!(scene.spawn.join_all().is_empty(), "no thread has panicked");
}
