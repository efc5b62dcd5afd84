//! A chain around executors that refuse, fail, vanish, are slow, or lie.

use std::sync::Arc;
use std::time::Duration;

use firn_jobs::{Cause, ErrorKind, Executor, ExecutorChain, Local, is_output_of};
use firn_storage::{Priority, Spawn, ThreadSpawn};

use crate::elsewhere::{Elsewhere, PATIENCE, Scene, Way, answer, causes, tables, until};
use crate::world::semantics;

#[test]
fn what_goes_wrong_elsewhere_is_done_here() {
    let ways = [
        (Way::Serve, None),
        (Way::Away, Some((Cause::Away, "it was refused: nobody is there"))),
        (Way::Refuse, Some((Cause::Lacking, "it was refused: closed on sundays"))),
        (Way::Panic, Some((Cause::Failed, "it was refused: taking the job panicked: that cannot be"))),
        (Way::Fail, Some((Cause::Failed, "it failed: the worker is confused"))),
        (Way::Lie, Some((Cause::Wrong, "the answer was wrong"))),
        (Way::Half, Some((Cause::Wrong, "the answer was wrong"))),
    ];
    for (way, why) in ways {
        let reason = why.map(|(_, reason)| reason);
        for is_inline in [true, false] {
            let scene = Scene::new(way);
            let chain = scene.chain(is_inline);
            let status = chain.status();
            let result = answer(&chain.submit(scene.spec("job")).unwrap()).unwrap();
            scene.accept("job", &result);
            assert_eq!((scene.asked(), status.count()), (1, u64::from(reason.is_some())), "{way:?}");
            assert_eq!(causes(&status), Vec::from_iter(why.map(|(cause, _)| (cause, 1))), "{way:?}");
            let found = status.reason();
            assert!(found.as_deref().unwrap_or("").starts_with(reason.unwrap_or("")), "{way:?}: {found:?}");
            assert_eq!(found.is_some(), reason.is_some(), "{way:?}: {found:?}");
            let is_elsewhere = tables(&result)[0].file.starts_with("job-e-");
            assert_eq!(is_elsewhere, reason.is_none(), "{way:?}: {}", tables(&result)[0].file);
            drop(chain);
            assert!(scene.spawn.join_all().is_empty());
        }
    }
}

#[test]
fn who_failed_is_asked_less_and_less_until_it_serves() {
    let scene = Scene::new(Way::Refuse);
    let chain = scene.chain(true);
    // Milliseconds at which it is asked, beside many at which it is not.
    let (mut at, mut now) = (Vec::new(), 0);
    while now <= 1_600 {
        let before = scene.asked();
        let result = chain.submit(scene.spec(&format!("job{now}"))).unwrap().wait().unwrap();
        scene.accept(&format!("job{now}"), &result);
        if scene.asked() > before {
            at.push(now);
        }
        scene.clock.advance(Duration::from_millis(50));
        now += 50;
    }
    assert_eq!(at, [0, 100, 300, 700, 1500]);
    assert_eq!(chain.status().count(), 33);
}

#[test]
fn damaged_files_are_nobodys_fault_who_reads_them_and_whole_ones_are_that_of_who_calls_them_damaged() {
    let scene = Scene::new(Way::Accuse);
    let chain = scene.chain(true);
    let input = scene.spec("job").input_files().keys().next().unwrap().to_string();
    let file = scene.storage.open_write(&input).unwrap();
    let mut byte = [0];
    file.read_at(20, &mut byte).unwrap();
    file.write_at(20, &[!byte[0]]).unwrap();
    for job in 0..10 {
        scene.go(if job < 9 { Way::Accuse } else { Way::Serve });
        let submitted = chain.submit(scene.spec(&format!("job{job}")));
        let error = submitted.and_then(|handle| answer(&handle)).unwrap_err();
        assert_eq!((error.kind, scene.asked()), (ErrorKind::Corrupt, job + 1), "{error}");
        assert!(error.to_string().contains(&input), "{error}");
    }
    // The file is whole, and it says so still.
    file.write_at(20, &byte).unwrap();
    scene.go(Way::Accuse);
    for job in 10..20 {
        let stem = format!("job{job}");
        scene.accept(&stem, &answer(&chain.submit(scene.spec(&stem)).unwrap()).unwrap());
    }
    assert_eq!(scene.asked(), 14, "four in a row say something of it");
    assert_eq!(causes(&chain.status()), [(Cause::Away, 6), (Cause::Damaged, 14)]);
}

#[test]
fn who_vanishes_is_not_waited_for_and_leaves_nothing() {
    let scene = Scene::new(Way::Vanish);
    let chain = scene.chain(false);
    let handle = chain.submit(scene.spec("job")).unwrap();
    scene.clock.advance(Duration::from_millis(4_900));
    // It is slow, which is no reason yet.
    let other = chain.submit(scene.spec("other")).unwrap();
    assert!(handle.poll().is_none() && chain.status().count() == 0);
    scene.clock.advance(Duration::from_millis(200));
    let result = answer(&handle).unwrap();
    scene.accept("job", &result);
    assert_eq!(chain.status().reason().as_deref(), Some("there was no answer in 5.1 s"));
    assert!(scene.is_cancelled(0));
    assert!(other.poll().is_none(), "its time is not over");
    // For as long as it was waited for it is not asked again.
    scene.clock.advance(Duration::from_secs(4));
    let next = chain.submit(scene.spec("next")).unwrap();
    let next = answer(&next).unwrap();
    scene.accept("next", &next);
    assert_eq!(scene.asked(), 2);
    // It comes back, having written its tables once more.
    let (finisher, late) = scene.elsewhere.kept.lock().unwrap().remove(0);
    let name = tables(&late)[0].file.clone();
    assert!(is_output_of(&name, "job-e"), "{name}");
    scene.storage.publish(&name, b"too late").unwrap();
    finisher.finish(Ok(late));
    until("what came late is gone", || scene.files("job-e").is_empty());
    scene.accept("job", &result);
    scene.clock.advance(Duration::from_secs(5));
    scene.accept("other", &answer(&other).unwrap());
}

#[test]
fn a_job_that_waits_for_others_is_no_fault_of_who_has_it() {
    let scene = Scene::new(Way::Vanish);
    let chain = scene.chain(false);
    let wait = |number: usize, is_waiting| {
        scene.elsewhere.kept.lock().unwrap()[number].0.set_waiting(is_waiting);
        scene.let_it_look();
    };
    let queued = chain.submit(scene.spec("queued")).unwrap();
    let begun = chain.submit(scene.spec("begun")).unwrap();
    (0..2).for_each(|number| wait(number, true));
    scene.clock.advance(Duration::from_millis(4_900));
    wait(1, false);
    scene.clock.advance(Duration::from_millis(200));
    scene.accept("queued", &answer(&queued).unwrap());
    let status = chain.status();
    assert_eq!(status.reason().as_deref(), Some("no worker began it in 5.1 s"));
    // Others are asked as before, and what was begun late has its whole time.
    assert!(!status.is_away() && begun.poll().is_none());
    let next = chain.submit(scene.spec("next")).unwrap();
    assert_eq!((scene.asked(), next.poll().is_none()), (3, true));
    scene.clock.advance(Duration::from_millis(4_700));
    scene.let_it_look();
    assert!(begun.poll().is_none());
    scene.clock.advance(Duration::from_millis(200));
    scene.accept("begun", &answer(&begun).unwrap());
    assert!(status.is_away(), "whoever began it does not end it");
    assert_eq!(causes(&status), [(Cause::Unbegun, 1), (Cause::Late, 1)]);
}

#[test]
fn what_was_tried_in_vain_and_waits_has_failed() {
    let scene = Scene::new(Way::Vanish);
    let chain = scene.chain(false);
    let job = chain.submit(scene.spec("job")).unwrap();
    let finisher = scene.elsewhere.kept.lock().unwrap().remove(0).0;
    finisher.set_trouble("the store is full".to_owned());
    finisher.set_waiting(true);
    scene.let_it_look();
    scene.clock.advance(Duration::from_millis(5_100));
    scene.accept("job", &answer(&job).unwrap());
    let status = chain.status();
    assert!(status.reason().unwrap().contains("the store is full"));
    assert_eq!((causes(&status), status.is_away()), (vec![(Cause::Failed, 1)], false));
}

#[test]
fn what_a_job_waits_for_a_sync_does_not_count_up_to_a_limit() {
    let scene = Scene::new(Way::Vanish);
    let chain = scene.chain(false);
    let kept = &scene.elsewhere.kept;
    let [ends, hangs, fails] = ["ends", "hangs", "fails"].map(|stem| chain.submit(scene.spec(stem)).unwrap());
    let pass = |seconds: u64| {
        scene.clock.advance(Duration::from_secs(seconds));
        scene.let_it_look();
    };
    pass(4);
    kept.lock().unwrap().iter().for_each(|(finisher, _)| finisher.set_syncing(true));
    scene.let_it_look();
    pass(15);
    assert!(ends.poll().is_none() && hangs.poll().is_none(), "15 s of 19 were a sync");
    kept.lock().unwrap()[0].0.set_syncing(false);
    scene.let_it_look();
    pass(2);
    scene.accept("ends", &answer(&ends).unwrap());
    assert_eq!(chain.status().reason().as_deref(), Some("there was no answer in 21.0 s"));
    pass(3);
    assert!(hangs.poll().is_none() && fails.poll().is_none(), "5 s, and 20 s of a sync");
    kept.lock().unwrap()[2].0.set_trouble("the store is full".to_owned());
    scene.accept("fails", &answer(&fails).unwrap());
    let reason = chain.status().reason().unwrap();
    assert_eq!(reason, "there was no answer in 24.0 s; it was tried, and failed: the store is full");
    scene.clock.advance(Duration::from_secs(1));
    scene.accept("hangs", &answer(&hangs).unwrap());
    assert_eq!(chain.status().reason().as_deref(), Some("there was no answer in 25.0 s"));
}

#[test]
fn no_sync_is_waited_for_where_writers_are_about_to_stop() {
    let scene = Scene::new(Way::Vanish);
    let chain = scene.chain(false);
    let l0 = chain.submit(scene.spec("l0")).unwrap();
    scene.elsewhere.kept.lock().unwrap()[0].0.set_syncing(true);
    scene.let_it_look();
    scene.clock.advance(Duration::from_secs(6));
    scene.let_it_look();
    assert!(l0.poll().is_none(), "writers have time");
    chain.urge(Some(Duration::from_secs(8)));
    scene.accept("l0", &answer(&l0).unwrap());
}

#[test]
fn what_is_done_here_takes_nobodys_time_elsewhere_unless_it_had_only_waited() {
    for (way, here) in [(Way::Refuse, 2), (Way::Vanish, 0)] {
        let scene = Scene::new(way);
        let second = Elsewhere::of_width(&scene.storage, Way::Vanish, 2);
        let executors: [Arc<dyn Executor>; 2] = [Arc::clone(&scene.elsewhere) as _, Arc::clone(&second) as _];
        let (storage, clock) = (Arc::clone(&scene.storage), Arc::clone(&scene.clock) as _);
        let chain = ExecutorChain::threads(executors, storage, clock, PATIENCE, 1, &scene.spawn).unwrap();
        let handles = ["one", "two"].map(|stem| chain.submit(scene.spec(stem)).unwrap());
        for (finisher, _) in &*scene.elsewhere.kept.lock().unwrap() {
            finisher.set_waiting(true);
        }
        chain.urge(Some(Duration::from_secs(8)));
        scene.clock.advance(Duration::from_millis(1_100));
        until("both are done here", || second.kept.lock().unwrap().len() == 2);
        until("it is told", || chain.status().here() == here);
        scene.let_it_look();
        assert_eq!(chain.status().here(), here, "{way:?}");
        second.kept.lock().unwrap().drain(..).for_each(|(finisher, result)| finisher.finish(Ok(result)));
        handles.iter().for_each(|handle| drop(answer(handle).unwrap()));
        until("nothing is left", || chain.status().here() == 0);
    }
}

#[test]
fn a_cancelled_job_is_not_done_anywhere() {
    let scene = Scene::new(Way::Vanish);
    let chain = scene.chain(false);
    let handle = chain.submit(scene.spec("job")).unwrap();
    handle.cancel();
    until("the other one is asked to stop", || scene.is_cancelled(0));
    assert!(handle.poll().is_none(), "a second to end by itself");
    scene.clock.advance(Duration::from_secs(1));
    assert_eq!(answer(&handle).unwrap_err().kind, ErrorKind::Cancelled);
    scene.leaves("job", &[]);
    assert_eq!((chain.status().count(), chain.status().reason()), (0, None));
    // Dropped, it cancels what runs and its threads end.
    let handle = chain.submit(scene.spec("next")).unwrap();
    drop(chain);
    until("the other one is asked to stop", || scene.is_cancelled(1));
    scene.clock.advance(Duration::from_secs(1));
    assert_eq!(answer(&handle).unwrap_err().kind, ErrorKind::Cancelled);
    assert!(scene.spawn.join_all().is_empty());
    assert_eq!(scene.files("next"), [""; 0]);
}

#[test]
fn threads_that_submit_at_once_without_a_watcher_each_get_their_answer() {
    const ROUNDS: usize = 300;
    let scene = Arc::new(Scene::new(Way::Serve));
    let chain = Arc::new(scene.chain(true));
    let (sender, done) = std::sync::mpsc::channel();
    // Together in each round: no later submission wakes a thread that was forgotten.
    let together = Arc::new(std::sync::Barrier::new(4));
    for thread in 0..4 {
        let (scene, chain, sender) = (Arc::clone(&scene), Arc::clone(&chain), sender.clone());
        let together = Arc::clone(&together);
        let submits = move || {
            for round in 0..ROUNDS {
                together.wait();
                // The thread that takes another's finished job answers it; the waiting thread must
                // notice.
                let found = chain.submit(scene.spec(&format!("job{thread}x{round}"))).unwrap().wait();
                sender.send(found.is_ok()).unwrap();
            }
        };
        ThreadSpawn::new().spawn(format!("submits-{thread}"), Priority::Normal, Box::new(submits)).unwrap();
    }
    for _ in 0..4 * ROUNDS {
        assert!(done.recv_timeout(Duration::from_secs(20)).expect("a thread waits for ever"));
    }
}

/// A device, an executor elsewhere, and this process.
fn three(scene: &Scene, device: &Arc<Elsewhere>) -> ExecutorChain {
    let (storage, clock) = (Arc::clone(&scene.storage), Arc::clone(&scene.clock) as _);
    let local = Local::threads(Arc::clone(&storage), Arc::new(semantics()), &scene.spawn, 1).unwrap();
    let executors: [Arc<dyn Executor>; 3] =
        [Arc::clone(device) as _, Arc::clone(&scene.elsewhere) as _, Arc::new(local)];
    ExecutorChain::threads(executors, storage, clock, PATIENCE, 1, &scene.spawn).unwrap()
}

#[test]
fn of_three_executors_the_next_does_what_one_does_not() {
    // The device, the executor elsewhere; what the outputs are called, and why the last does it.
    let ways = [
        (Way::Serve, Way::Serve, "job-e-", None),
        (Way::Away, Way::Serve, "job-e1-", None),
        (Way::Lack, Way::Serve, "job-e1-", None),
        (Way::Lie, Way::Serve, "job-e1-", None),
        (Way::Panic, Way::Serve, "job-e1-", None),
        (Way::Away, Way::Half, "job-0", Some(Cause::Wrong)),
        (Way::Lie, Way::Refuse, "job-0", Some(Cause::Lacking)),
        (Way::Accuse, Way::Serve, "job-0", Some(Cause::Damaged)),
    ];
    for (first, second, name, cause) in ways {
        let scene = Scene::new(second);
        let device = Elsewhere::new(&scene.storage, first);
        let chain = three(&scene, &device);
        let result = answer(&chain.submit(scene.spec("job")).unwrap()).unwrap();
        scene.accept("job", &result);
        let found = &tables(&result)[0].file;
        assert!(found.starts_with(name), "{first:?}, {second:?}: {found}");
        assert_eq!(causes(&chain.status()), Vec::from_iter(cause.map(|cause| (cause, 1))), "{first:?}");
        drop(chain);
        assert!(scene.spawn.join_all().is_empty());
    }
}

#[test]
fn a_chain_is_away_once_no_link_is_relied_on_and_is_as_wide_as_the_first_that_is() {
    let scene = Scene::new(Way::Serve);
    let device = Elsewhere::of_width(&scene.storage, Way::Away, 2);
    let chain = three(&scene, &device);
    assert_eq!(chain.width(), Some(2));
    answer(&chain.submit(scene.spec("one")).unwrap()).unwrap();
    assert_eq!((chain.status().is_away(), chain.width()), (false, Some(5)), "the device is doubted");
    scene.go(Way::Away);
    answer(&chain.submit(scene.spec("two")).unwrap()).unwrap();
    assert_eq!((chain.status().is_away(), chain.width()), (true, Some(1)));
    assert_eq!(causes(&chain.status()), [(Cause::Away, 1)]);
    // Both have what comes next, one after another.
    [&device, &scene.elsewhere].iter().for_each(|executor| executor.go(Way::Serve));
    scene.clock.advance(Duration::from_secs(1));
    for (job, asked) in [("a", 2), ("b", 2), ("c", 2)] {
        let result = answer(&chain.submit(scene.spec(job)).unwrap()).unwrap();
        assert!(tables(&result)[0].file.contains("-e"), "{job}");
        assert_eq!(scene.asked(), asked, "the device is first, probed or relied on");
    }
    assert_eq!((chain.status().is_away(), chain.width()), (false, Some(2)));
}
