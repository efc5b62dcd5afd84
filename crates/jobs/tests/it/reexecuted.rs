//! What others did is done again now and then, and compared.

use std::sync::Arc;
use std::time::Duration;

use firn_jobs::{Cause, Error, ErrorKind, Executor, ExecutorChain, Patience};
use firn_storage::Storage;
use firn_storage::backend::{Effect, Fault, Faulty, Operation, When};

use crate::elsewhere::{Elsewhere, PATIENCE, Scene, Way, answer, causes, tables, until};

const ALWAYS: Patience = Patience { reexecuted_share: 1.0, ..PATIENCE };

#[test]
fn what_others_did_by_other_rules_is_found_by_doing_it_again() {
    for is_inline in [true, false] {
        // Its sums hold: nothing was lost by accident.
        let scene = Scene::new(Way::Stray);
        let believed = scene.chain_with(is_inline, PATIENCE);
        let result = answer(&believed.submit(scene.spec("believed")).unwrap()).unwrap();
        assert!(tables(&result)[0].file.starts_with("believed-e-"));
        assert_eq!((believed.status().reexecuted(), believed.status().reason()), ((0, 0), None));

        let chain = scene.chain_with(is_inline, ALWAYS);
        assert_eq!(chain.width(), Some(5), "those elsewhere");
        let handle = chain.submit(scene.spec("job")).unwrap();
        let result = answer(&handle).unwrap();
        scene.accept("job", &result);
        assert!(tables(&result)[0].file.starts_with("job-c-"), "{}", tables(&result)[0].file);
        assert_eq!(handle.ran().unwrap().worker, "", "it is this process' result");
        let status = chain.status();
        assert_eq!((status.reexecuted(), causes(&status)), ((1, 1), vec![(Cause::Wrong, 1)]));
        assert!(status.is_away());
        let reason = status.reason().unwrap();
        assert!(
            reason.starts_with("elsewhere came to something else than this process: produced"),
            "{reason}"
        );
        assert_eq!(chain.width(), Some(1), "this process");
        let next = answer(&chain.submit(scene.spec("next")).unwrap()).unwrap();
        scene.accept("next", &next);
        assert_eq!(scene.asked(), 2, "who did something else is left alone");
    }
}

#[test]
fn blocks_that_are_not_what_their_footer_says_are_found_by_reading_them() {
    let scene = Scene::new(Way::Spoil);
    let believed = scene.chain_with(true, PATIENCE);
    answer(&believed.submit(scene.spec("believed")).unwrap()).unwrap();
    assert_eq!(believed.status().reason(), None, "no other check reads them");
    let chain = scene.chain_with(true, ALWAYS);
    let result = answer(&chain.submit(scene.spec("job")).unwrap()).unwrap();
    scene.accept("job", &result);
    assert!(tables(&result)[0].file.starts_with("job-c-"));
    assert_eq!(chain.status().reexecuted(), (1, 1));
    let reason = chain.status().reason().unwrap();
    assert!(reason.contains("something else than this process"), "{reason}");
}

#[test]
fn doing_it_again_ends_once_writers_are_about_to_stop() {
    let scene = Scene::new(Way::Serve);
    let slow = Elsewhere::new(&scene.storage, Way::Vanish);
    let both: [Arc<dyn Executor>; 2] = [Arc::clone(&scene.elsewhere) as _, Arc::clone(&slow) as _];
    let (storage, clock) = (Arc::clone(&scene.storage), Arc::clone(&scene.clock) as _);
    let chain = ExecutorChain::threads(both, storage, clock, ALWAYS, 1, &scene.spawn).unwrap();
    let _handle = chain.submit(scene.spec("job")).unwrap();
    until("it is done again", || !slow.kept.lock().unwrap().is_empty());
    chain.urge(Some(Duration::from_secs(5)));
    until("it is asked to stop", || slow.kept.lock().unwrap()[0].0.control().is_cancelled());
}

#[test]
fn what_is_the_same_leaves_nothing_behind() {
    for is_inline in [true, false] {
        let scene = Scene::new(Way::Serve);
        let chain = scene.chain_with(is_inline, ALWAYS);
        let handle = chain.submit(scene.spec("job")).unwrap();
        let result = answer(&handle).unwrap();
        scene.accept("job", &result);
        assert!(tables(&result)[0].file.starts_with("job-e-"));
        assert_eq!(handle.ran().unwrap().worker, "elsewhere");
        let status = chain.status();
        assert_eq!((status.reexecuted(), status.count(), status.reason()), ((1, 0), 0, None));
        // Writers would wait for it.
        chain.urge(Some(Duration::from_secs(3)));
        answer(&chain.submit(scene.spec("urgent")).unwrap()).unwrap();
        assert_eq!(status.reexecuted(), (1, 0));
    }
}

#[test]
fn a_share_is_drawn_from_the_seed() {
    let drawn = |share: f64| {
        let scene = Scene::new(Way::Serve);
        let chain = scene.chain_with(true, Patience { reexecuted_share: share, ..PATIENCE });
        let one = |number: u32| {
            let before = chain.status().reexecuted().0;
            answer(&chain.submit(scene.spec(&format!("job{number}"))).unwrap()).unwrap();
            chain.status().reexecuted().0 - before
        };
        (0..60).map(one).collect::<Vec<_>>()
    };
    let half = drawn(0.5);
    assert_eq!(half, drawn(0.5));
    assert!((15..45).contains(&half.iter().sum::<u64>()), "{half:?}");
    assert!(half.windows(2).any(|pair| pair[0] == pair[1]), "not by turns: {half:?}");
    assert_eq!(drawn(0.0).iter().sum::<u64>(), 0);
}

#[test]
fn what_is_not_done_again_in_the_end_is_believed_as_all_others_are() {
    for is_cancelled in [true, false] {
        let scene = Scene::new(Way::Serve);
        let slow = Elsewhere::new(&scene.storage, Way::Vanish);
        let both: [Arc<dyn Executor>; 2] = [Arc::clone(&scene.elsewhere) as _, Arc::clone(&slow) as _];
        let (storage, clock) = (Arc::clone(&scene.storage), Arc::clone(&scene.clock) as _);
        let chain = ExecutorChain::threads(both, storage, clock, ALWAYS, 1, &scene.spawn).unwrap();
        let handle = chain.submit(scene.spec("job")).unwrap();
        until("it is done again", || !slow.kept.lock().unwrap().is_empty());
        assert!(handle.poll().is_none());
        if is_cancelled {
            handle.cancel();
            until("it is asked to stop", || slow.kept.lock().unwrap()[0].0.control().is_cancelled());
        }
        let (finisher, _) = slow.kept.lock().unwrap().remove(0);
        let kind = if is_cancelled { ErrorKind::Cancelled } else { ErrorKind::Storage };
        finisher.finish(Err(Error::new(kind, "no more room")));
        let result = answer(&handle).unwrap();
        scene.accept("job", &result);
        assert!(tables(&result)[0].file.starts_with("job-e-"));
        assert_eq!((chain.status().reexecuted(), chain.status().reason()), ((0, 0), None));
    }
}

#[test]
fn whoever_cannot_look_at_files_says_nothing_of_who_wrote_them_and_takes_others() {
    // Of tables only those are read that others wrote.
    let scene = Scene::new(Way::Serve);
    let slow = Elsewhere::new(&scene.storage, Way::Vanish);
    let both: [Arc<dyn Executor>; 2] = [Arc::clone(&scene.elsewhere) as _, Arc::clone(&slow) as _];
    let faulty = Faulty::new(Arc::clone(&scene.storage));
    let storage: Arc<dyn Storage> = Arc::new(faulty.clone());
    let chain = ExecutorChain::threads(both, storage, Arc::clone(&scene.clock) as _, ALWAYS, 1, &scene.spawn)
        .unwrap();
    let handle = chain.submit(scene.spec("job")).unwrap();
    until("it is done again", || !slow.kept.lock().unwrap().is_empty());
    let effect = Effect::Fail(firn_storage::ErrorKind::Refused);
    let (on, file) = (Operation::OpenRead, "job-e-*".to_owned());
    faulty.inject(Fault { on, file, when: When::Always { after: 0 }, effect });
    let (finisher, second) = slow.kept.lock().unwrap().remove(0);
    let own = tables(&second)[0].file.clone();
    finisher.finish(Ok(second));
    let result = answer(&handle).unwrap();
    scene.accept("job", &result);
    assert_eq!(tables(&result)[0].file, own);
    let status = chain.status();
    assert_eq!((status.reexecuted(), causes(&status)), ((0, 0), vec![(Cause::Unseen, 1)]));
    assert!(!status.is_away());
    let reason = status.reason().unwrap();
    assert!(reason.contains("its files could not be looked at"), "{reason}");
}
