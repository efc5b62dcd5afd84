//! A worker that asks again on another connection, while the control plane still holds its question
//! before.

use firn_jobs::{CompactSpec, Executor, JobSpec};

use crate::scene::{Scene, any_port};
use crate::skew::Other;

#[test]
fn a_job_goes_to_the_newest_question_of_its_worker() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let (mut before, mut newest) = (Other::at(plane.address()), Other::at(plane.address()));
    let held = std::thread::spawn(move || before.pull(JobSpec::VERSION, 1000));
    scene.wait_until(|| !scene.look(plane.address()).workers.is_empty());
    assert_eq!(newest.pull(JobSpec::VERSION, 0), [], "the same worker, elsewhere");
    let remote = scene.remote(&[plane.address()]);
    let handle = remote.submit(CompactSpec::default().into()).unwrap();
    scene.wait_until(|| scene.look(plane.address()).running == 1);
    assert_eq!(held.join().unwrap(), [], "an answer that nobody may be there to hear");
    assert_eq!(newest.pull(JobSpec::VERSION, 0).len(), 1);
    handle.cancel();
}
