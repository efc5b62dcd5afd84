//! A chain while the first executor is away, and when it comes back.

use std::time::Duration;

use firn_jobs::{Cause, ErrorKind, Executor, ExecutorChain, JobHandle, JobSpec, Patience};

use crate::elsewhere::{PATIENCE, Scene, Way, answer, causes, tables, until};

/// The job called `stem` of `scene`, below level 0 and without a filter.
fn deep(scene: &Scene, stem: &str) -> JobSpec {
    let JobSpec::Compact(mut spec) = scene.spec(stem) else { panic!("a compaction") };
    spec.inputs.iter_mut().for_each(|input| input.level += 1);
    spec.rules.compaction_filter = None;
    spec.into()
}

fn submit(scene: &Scene, chain: &ExecutorChain, stem: &str) -> JobHandle {
    chain.submit(deep(scene, stem)).unwrap()
}

/// Deep jobs take ten seconds each, if they are done here.
fn slowly(scene: &Scene) -> Patience {
    Patience { deep_bytes_per_second: deep(scene, "job").input_bytes() / 10, ..PATIENCE }
}

/// Whether the job was done here, and not elsewhere.
fn is_done_here(handle: &JobHandle) -> bool {
    !tables(&answer(handle).unwrap())[0].file.contains("-e")
}

#[test]
fn while_others_are_away_l0_work_is_done_at_once_and_deep_work_at_a_rate() {
    let scene = Scene::new(Way::Away);
    let chain = scene.chain_with(false, slowly(&scene));
    let status = chain.status();
    assert!(deep(&scene, "deep").input_bytes() > 1000 && !deep(&scene, "deep").is_l0());
    let jobs: Vec<JobHandle> = (0..4).map(|job| submit(&scene, &chain, &format!("deep{job}"))).collect();
    assert!(is_done_here(&jobs[0]));
    let bytes = deep(&scene, "deep").input_bytes();
    until("three wait", || status.held() == (3, 3 * bytes));
    assert!(status.is_away() && status.reason().unwrap().contains("nobody is there"));
    let l0 = chain.submit(scene.spec("l0")).unwrap();
    scene.accept("l0", &answer(&l0).unwrap());
    for (done, job) in jobs.iter().enumerate().skip(1) {
        scene.clock.advance(Duration::from_millis(9_900));
        scene.let_it_look();
        assert!(job.poll().is_none(), "deep{done} before its turn");
        // The division of bytes by ten leaves some over.
        scene.clock.advance(Duration::from_millis(300));
        assert!(is_done_here(job));
        until("one less waits", || status.held().0 == 3 - done as u64);
    }
    assert_eq!((causes(&status), status.held()), (vec![(Cause::Away, 5)], (0, 0)));
    drop(chain);
    assert!(scene.spawn.join_all().is_empty());
}

#[test]
fn what_was_late_there_is_done_here_for_that_though_it_was_held_and_asked_for_again() {
    let scene = Scene::new(Way::Vanish);
    let chain = scene.chain_with(false, Patience { deep_bytes_per_second: 1, ..PATIENCE });
    let status = chain.status();
    let late = [submit(&scene, &chain, "one"), submit(&scene, &chain, "two")];
    scene.clock.advance(Duration::from_millis(5_100));
    // The first has its turn at once, the other none for as long as it is patient.
    until("one waits", || status.held().0 == 1 && causes(&status) == [(Cause::Late, 1)]);
    scene.go(Way::Refuse);
    scene.clock.advance(Duration::from_secs(60));
    assert!(late.iter().all(is_done_here));
    assert_eq!(causes(&status), [(Cause::Lacking, 1), (Cause::Late, 1)], "the last reason counts");
}

#[test]
fn who_is_back_gets_what_was_held_after_two_jobs_one_by_one_went_well() {
    let scene = Scene::new(Way::Away);
    let patience = Patience { deep_bytes_per_second: 1, ..PATIENCE };
    let chain = scene.chain_with(false, patience);
    let status = chain.status();
    assert!(is_done_here(&submit(&scene, &chain, "first")));
    let jobs: Vec<JobHandle> = (0..5).map(|job| submit(&scene, &chain, &format!("deep{job}"))).collect();
    until("five wait", || status.held().0 == 5);
    let asked = scene.asked();
    // They take jobs, and do not answer yet.
    scene.go(Way::Vanish);
    scene.clock.advance(Duration::from_millis(200));
    let kept = || scene.elsewhere.kept.lock().unwrap().len();
    for done in 0..2 {
        until("one finds out", || kept() == 1 && status.held().0 == 4 - done);
        scene.let_it_look();
        assert_eq!((kept(), status.is_away()), (1, true), "nobody else is sent before it is known");
        let (finisher, result) = scene.elsewhere.kept.lock().unwrap().remove(0);
        if done == 1 {
            scene.go(Way::Serve);
        }
        finisher.finish(Ok(result));
    }
    for job in &jobs {
        assert!(!is_done_here(job));
    }
    assert_eq!((status.is_away(), status.count(), scene.asked()), (false, 1, asked + 5));
    let next = submit(&scene, &chain, "next");
    assert!(!is_done_here(&next));
    assert_eq!(status.held(), (0, 0));
}

#[test]
fn nobody_is_held_for_long_nor_while_writers_are_about_to_stop() {
    let scene = Scene::new(Way::Away);
    let patience = Patience { deep_bytes_per_second: 1, ..PATIENCE };
    let chain = scene.chain_with(false, patience);
    assert!(is_done_here(&submit(&scene, &chain, "first")));
    let late = submit(&scene, &chain, "late");
    until("it waits", || chain.status().held().0 == 1);
    scene.clock.advance(Duration::from_secs(30));
    let soon = submit(&scene, &chain, "soon");
    chain.urge(Some(Duration::from_secs(60)));
    scene.clock.advance(Duration::from_millis(29_900));
    scene.let_it_look();
    assert!(late.poll().is_none() && soon.poll().is_none());
    scene.clock.advance(Duration::from_millis(100));
    assert!(is_done_here(&late), "after a minute");
    scene.let_it_look();
    assert!(soon.poll().is_none());
    // What was said goes on: 30 of the 60 seconds are over.
    chain.urge(Some(Duration::from_secs(11)));
    scene.let_it_look();
    assert!(soon.poll().is_none());
    scene.clock.advance(Duration::from_secs(1));
    assert!(is_done_here(&soon), "writers stop in ten seconds");
    chain.urge(None);
    let other = submit(&scene, &chain, "other");
    scene.let_it_look();
    assert!(other.poll().is_none(), "that is over");
}

#[test]
fn what_is_held_is_cancelled_at_once_and_ends_with_its_executor() {
    let scene = Scene::new(Way::Away);
    let chain = scene.chain_with(false, Patience { deep_bytes_per_second: 1, ..PATIENCE });
    let status = chain.status();
    assert!(is_done_here(&submit(&scene, &chain, "first")));
    let jobs: Vec<JobHandle> = (0..3).map(|job| submit(&scene, &chain, &format!("deep{job}"))).collect();
    until("they wait", || status.held().0 == 3);
    jobs[1].cancel();
    assert_eq!(answer(&jobs[1]).unwrap_err().kind, ErrorKind::Cancelled);
    until("two wait", || status.held().0 == 2);
    assert!(jobs[0].poll().is_none() && jobs[2].poll().is_none());
    drop(chain);
    for job in [&jobs[0], &jobs[2]] {
        assert_eq!(answer(job).unwrap_err().kind, ErrorKind::Cancelled);
    }
    assert!(scene.spawn.join_all().is_empty());
    assert_eq!((status.count(), status.held()), (1, (0, 0)));
    for stem in ["bulk0", "bulk1", "bulk2"] {
        assert_eq!(scene.files(stem), [""; 0]);
    }
}

#[test]
fn what_concerns_one_job_keeps_no_other_from_those_elsewhere() {
    let scene = Scene::new(Way::Lack);
    let chain = scene.chain(false);
    assert!(!scene.spec("job").needs().is_empty());
    let filtered = |stem: &str| answer(&chain.submit(scene.spec(stem)).unwrap()).unwrap();
    scene.accept("lacking", &filtered("lacking"));
    assert_eq!((scene.asked(), chain.status().count()), (1, 1));
    scene.accept("lacking1", &filtered("lacking1"));
    assert_eq!((scene.asked(), chain.status().count()), (1, 2), "nobody there has it, for a while");
    let merges =
        |spec: &JobSpec| matches!(spec, JobSpec::Compact(spec) if spec.rules.merge_operator.is_some());
    let mut plain = deep(&scene, "plain");
    assert!(merges(&plain), "it needs something else");
    scene.go(Way::Serve);
    assert!(!is_done_here(&chain.submit(plain).unwrap()));
    // A job that fails by itself is done here at once, deep as it is, and the next is asked for
    // there.
    scene.go(Way::Fail);
    plain = deep(&scene, "odd");
    assert!(is_done_here(&chain.submit(plain).unwrap()));
    scene.go(Way::Serve);
    assert!(!is_done_here(&submit(&scene, &chain, "next")));
    assert!(!chain.status().is_away());
    scene.clock.advance(Duration::from_millis(100));
    assert!(tables(&filtered("again"))[0].file.starts_with("again-e-"), "somebody has it by now");
}

#[test]
fn a_job_is_waited_for_until_those_before_it_could_be_done_too() {
    let scene = Scene::new(Way::Vanish);
    // Ten seconds for each job, beside the five that any gets.
    let patience = Patience { bytes_per_second: deep(&scene, "job").input_bytes() / 10, ..PATIENCE };
    let chain = scene.chain_with(false, patience);
    let (first, second) = (submit(&scene, &chain, "first"), submit(&scene, &chain, "second"));
    let l0 = chain.submit(scene.spec("l0")).unwrap();
    scene.clock.advance(Duration::from_millis(14_900));
    scene.let_it_look();
    assert!(first.poll().is_none() && second.poll().is_none() && l0.poll().is_none());
    // The division of bytes by ten leaves some over.
    scene.clock.advance(Duration::from_millis(300));
    assert!(is_done_here(&first) && is_done_here(&l0), "l0 goes before deep work");
    scene.clock.advance(Duration::from_millis(9_600));
    scene.let_it_look();
    assert!(second.poll().is_none());
    scene.clock.advance(Duration::from_millis(500));
    assert!(is_done_here(&second));
}
