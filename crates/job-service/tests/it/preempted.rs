//! A worker with one slot: its deep work gives way to L0 work of the same control plane, and is
//! done after it.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::Semantics;
use firn_format::Sequence;
use firn_format::key::{Entry, Kind};
use firn_format::manifest::TableMeta;
use firn_format::table::TableForm;
use firn_job_service::control::Lane;
use firn_job_service::control::pool::{ByLane, JobRow, JobState};
use firn_jobs::{
    CompactSpec, Control, Executor, JobHandle, JobInput, JobResult, JobSpec, KeyRange, run, verify,
    verify_files,
};
use firn_storage::Storage;
use firn_storage::backend::{Memory, Operation, When};
use firn_storage::file::table::TableBuilder;

use crate::bytes::bytes;
use crate::hanging::{OTHER, SELDOM, SLOW, SOON, named_worker_at, patient_plane};
use crate::scene::Scene;

/// A table of a value of so many bytes and a short one behind it, each in a block of its own.
fn table(backend: &dyn Storage, name: &str, bytes: usize) -> TableMeta {
    let mut builder = TableBuilder::new(name, backend.create(name).unwrap(), TableForm::default());
    for (key, value) in [(b"long", vec![7; bytes]), (b"tiny", b"value".to_vec())] {
        let (sequence, kind) = (Sequence(3), Kind::Put);
        builder.add(&Entry { key, sequence, kind, expires_at_ms: 0, value: &value }).unwrap();
    }
    builder.finish().unwrap()
}

/// A job that reads the short value of `table`, which lies in so many runs of `level`, and counts
/// the bytes of all of them.
fn job(table: &TableMeta, level: u32, runs: u64) -> JobSpec {
    let inputs = (1..=runs).map(|run| JobInput { table: table.clone(), level, run });
    let range = KeyRange { start: b"tiny".to_vec(), end: None };
    let output_stem = format!("out-{level}");
    CompactSpec { inputs: inputs.collect(), range, output_stem, ..Default::default() }.into()
}

/// The job is done, as it is done here.
fn is_done(backend: &Memory, spec: &JobSpec, handle: &JobHandle) {
    let theirs = handle.wait().unwrap();
    verify(spec, &theirs).unwrap();
    verify_files(backend, spec, &theirs).unwrap();
    let mine = run(&spec.with_stem("here"), backend, &Semantics::new(), &Control::new()).unwrap();
    let [theirs, mine] = [theirs, mine].map(|result| JobResult::into_compact(result).unwrap());
    assert_eq!((theirs.sums, theirs.tables.len()), (mine.sums, 1));
    assert!(bytes(backend, &theirs.tables[0].file) == bytes(backend, &mine.tables[0].file));
    backend.remove(&mine.tables[0].file).unwrap();
}

#[test]
fn deep_work_gives_way_to_l0_work_of_its_own_control_plane_and_is_done_after_it() {
    let mut scene = Scene::new();
    let plane = patient_plane(&mut scene);
    let at = [plane.address()];
    let backend = Memory::new();
    // Four GiB, by what is said of it: a job that waits for that waits for seconds, as the worker
    // is believed to be fast.
    let deep_spec = job(&table(&backend, SLOW, 32 << 20), 1, 128);
    let l0_spec = job(&table(&backend, OTHER, 1000), 0, 2);
    let reads = (Operation::Read, SLOW, When::Always { after: 0 });
    let (worker, gate) = named_worker_at(&mut scene, &at, ("one", SELDOM), Arc::new(backend.clone()), reads);
    let [one, other] = [(); 2].map(|()| scene.remote(&at));
    let rows = || plane.watch().rows(100).jobs;
    let is_at = |row: &JobRow, state| row.state == state && row.worker == "one";
    let figures = || worker.watch().figures().unwrap();

    let deep = one.submit(deep_spec.clone()).unwrap();
    scene.wait_until(|| gate.sleepers() == 1);
    other.urge(Some(Duration::from_secs(1)));
    let begun = scene.clock.now();
    let l0 = other.submit(l0_spec.clone()).unwrap();
    // It was told to stop, and has lost its slot, for it hangs.
    scene.wait_until(|| figures().hanging == 1);
    scene.wait_until(|| l0.poll().is_some());
    let took = scene.clock.now() - begun;
    assert!(took < SOON, "{took:?}");
    is_done(&backend, &l0_spec, &l0);

    // The other one has its place then, and hangs again.
    assert!(deep.poll().is_none());
    scene.wait_until(|| gate.sleepers() == 2);
    assert_eq!(rows().iter().filter(|row| is_at(row, JobState::Running)).count(), 1);
    assert!(deep.poll().is_none());
    gate.open();
    scene.wait_until(|| deep.poll().is_some());
    is_done(&backend, &deep_spec, &deep);
    assert_eq!(deep.trouble(), None, "it is nobody's failure");

    let rows = rows();
    assert!(rows.len() == 2 && rows.iter().all(|row| is_at(row, JobState::Done)), "{rows:?}");
    let attempts = |lane| rows.iter().find(|row| row.lane == lane).map(|row| row.attempts);
    assert_eq!([Lane::L0, Lane::Deep].map(attempts), [Some(1), Some(2)]);
    let counts = plane.watch().figures().counts;
    assert_eq!((counts.preempted, counts.leased), (1, 3), "{counts:?}");
    assert_eq!(counts.done, ByLane { l0: 1, deep: 1 }, "{counts:?}");
    assert_eq!((counts.expired_silent, counts.expired_stuck), (0, 0), "{counts:?}");
    // What hung for longest leaves nothing.
    scene.wait_until(|| figures().hanging == 0);
    let attempts = figures().attempts["compact"];
    assert_eq!((attempts.done, attempts.failed.cancelled), (2, 1));
}
