//! Where jobs ran, as their handles say.

use std::time::Duration;

use firn_jobs::{Executor, Patience, Ran, new_job};
use firn_storage::Clock;

use crate::elsewhere::{PATIENCE, Scene, Way, answer, until};

#[test]
fn a_handle_says_who_ran_the_job_and_what_that_took() {
    let scene = Scene::new(Way::Vanish);
    let chain = scene.chain_with(false, Patience { least: Duration::from_secs(3600), ..PATIENCE });
    // An executor that says what it did, and an executor that does not.
    let said = Ran { queued: Duration::from_millis(7), ..Ran::by("w1") };
    for (stem, ran) in [("told", Some(said.clone())), ("untold", None)] {
        let begun = scene.clock.now();
        let handle = chain.submit(scene.spec(stem)).unwrap();
        assert_eq!(handle.ran(), None, "it runs");
        scene.clock.advance(Duration::from_secs(4));
        until("it is there", || !scene.elsewhere.kept.lock().unwrap().is_empty());
        let (finisher, result) = scene.elsewhere.kept.lock().unwrap().remove(0);
        match &ran {
            Some(ran) => finisher.finish_ran(Ok(result), ran.clone()),
            None => finisher.finish(Ok(result)),
        }
        answer(&handle).unwrap();
        let waited = Ran { ran: scene.clock.now() - begun, ..Ran::by("elsewhere") };
        assert_eq!(handle.ran(), Some(ran.unwrap_or(waited)));
    }
    // Here, after no answer came from elsewhere for some time.
    let handle = chain.submit(scene.spec("late")).unwrap();
    until("it is there", || !scene.elsewhere.kept.lock().unwrap().is_empty());
    scene.clock.advance(Duration::from_secs(3601));
    answer(&handle).unwrap();
    assert_eq!(handle.ran(), Some(Ran { queued: Duration::from_secs(3601), ..Ran::default() }));
}

#[test]
fn a_name_from_afar_is_cut_where_a_letter_ends() {
    assert_eq!(Ran::by("worker 1").worker, "worker 1");
    assert_eq!(Ran::by(&"é".repeat(100)).worker, "é".repeat(32));
    assert_eq!(Ran::by(&format!("a{}", "é".repeat(100))).worker, format!("a{}", "é".repeat(31)));
    let (handle, finisher) = new_job();
    drop(finisher);
    assert_eq!(handle.ran(), None, "nobody ran it");
}
