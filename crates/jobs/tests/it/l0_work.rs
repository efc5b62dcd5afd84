//! L0 work that waits elsewhere while writers are about to stop: which jobs before it are waited
//! for, and which not.

use std::time::Duration;

use firn_jobs::{Executor, JobSpec, Patience};

use crate::elsewhere::{PATIENCE, Scene, Way, answer};

#[test]
fn l0_work_that_waits_for_others_is_done_here_before_writers_stop() {
    let scene = Scene::new(Way::Vanish);
    let chain = scene.chain(false);
    assert!(scene.spec("l0").is_l0());
    let (waits, begun) = (scene.spec("waits"), scene.spec("begun"));
    let [waits, begun] = [waits, begun].map(|spec| chain.submit(spec).unwrap());
    scene.elsewhere.kept.lock().unwrap()[0].0.set_waiting(true);
    scene.clock.advance(Duration::from_millis(1_500));
    scene.let_it_look();
    assert!(waits.poll().is_none(), "writers have time");
    chain.urge(Some(Duration::from_secs(8)));
    scene.accept("waits", &answer(&waits).unwrap());
    assert!(begun.poll().is_none(), "a worker is about to end it");
    let late = chain.submit(scene.spec("late")).unwrap();
    scene.elsewhere.kept.lock().unwrap()[2].0.set_waiting(true);
    scene.clock.advance(Duration::from_millis(900));
    scene.let_it_look();
    assert!(late.poll().is_none(), "it may be begun at once");
    scene.clock.advance(Duration::from_millis(200));
    scene.accept("late", &answer(&late).unwrap());
    assert!(!chain.status().is_away());
}

/// While writers stand still, L0 work waits as long whatever runs before it.
#[test]
fn l0_work_waits_for_no_deep_work() {
    let scene = Scene::new(Way::Vanish);
    let chain = scene.chain_with(false, Patience { least: Duration::from_secs(3600), ..PATIENCE });
    chain.urge(Some(Duration::ZERO));
    let JobSpec::Compact(mut deep) = scene.spec("deep") else { panic!("a compaction") };
    deep.inputs.iter_mut().for_each(|input| input.level += 1);
    let _bulk = chain.submit(deep.into()).unwrap();
    let waits = chain.submit(scene.spec("waits")).unwrap();
    scene.elsewhere.kept.lock().unwrap()[1].0.set_waiting(true);
    scene.clock.advance(Duration::from_millis(800));
    scene.let_it_look();
    assert!(waits.poll().is_none(), "it may be begun at once");
    scene.clock.advance(Duration::from_millis(250));
    scene.accept("waits", &answer(&waits).unwrap());
}
