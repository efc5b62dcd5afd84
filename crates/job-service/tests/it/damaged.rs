//! A file that is not what it was.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use firn_engine::Semantics;
use firn_jobs::{ErrorKind, Executor, Finisher, JobHandle, JobSpec, new_job};

use crate::scene::{Scene, any_port, write};

/// Keeps all jobs, or gives all up.
#[derive(Debug, Default)]
struct Keeper {
    jobs: Mutex<Vec<(JobSpec, Finisher)>>,
    is_gone: AtomicBool,
}

impl Executor for Keeper {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        let (handle, finisher) = new_job();
        if !self.is_gone.load(Ordering::Relaxed) {
            self.jobs.lock().unwrap().push((spec, finisher));
        }
        Ok(handle)
    }
}

#[test]
fn a_job_whose_input_is_damaged_fails_once_with_its_name_and_its_database_says_the_same() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let _workers = ["one", "two", "three"].map(|name| scene.worker(name, &at, Semantics::new()));
    let keeper = Arc::new(Keeper::default());
    let db = scene.builder(&at).executor(Arc::<Keeper>::clone(&keeper)).open().unwrap();
    let (mut model, random) = (vec![None; 3000], &mut fastrand::Rng::with_seed(9));
    let is_compaction = |job: &(JobSpec, Finisher)| matches!(job.0, JobSpec::Compact(_));
    while !keeper.jobs.lock().unwrap().iter().any(is_compaction) {
        write(&db, &mut model, random, 500);
    }
    let (spec, finisher) = {
        let mut jobs = keeper.jobs.lock().unwrap();
        let index = jobs.iter().position(is_compaction).unwrap();
        jobs.swap_remove(index)
    };
    let JobSpec::Compact(compaction) = &spec else { panic!() };
    let name = compaction.inputs[0].table.file.clone();
    let path = scene.place.path().join("shared").join(&name);
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 40).unwrap();
    file.write_all_at(&[!byte[0]], 40).unwrap();
    let remote = scene.remote(&at);
    let error = remote.submit(spec.with_stem("again")).unwrap().wait().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
    assert!(error.message.contains(&name), "{error}");
    let list = scene.look(at[0]);
    assert_eq!(list.jobs.iter().map(|row| row.attempts).collect::<Vec<_>>(), [1]);
    assert!(list.workers.len() == 3 && list.workers.iter().all(|row| row.failing.is_empty()), "{list:?}");
    // Its database tries, finds the same, and leaves the file.
    finisher.finish(Err(error));
    scene.wait_until(|| db.stats().damage.is_some());
    let stats = db.stats();
    assert!(stats.damage.unwrap().contains(&name));
    assert!(!stats.jobs.is_executor_away, "nobody is doubted: {:?}", stats.jobs);
    // The others are done here, where no keeper holds them any more, and it says so once nothing is
    // left.
    keeper.is_gone.store(true, Ordering::Relaxed);
    keeper.jobs.lock().unwrap().clear();
    let error = db.wait_idle().unwrap_err();
    assert_eq!(error.kind(), firn_engine::ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains(&name), "{error}");
    write(&db, &mut model, random, 500);
    assert_eq!(db.stats().write_failure, None);
}
