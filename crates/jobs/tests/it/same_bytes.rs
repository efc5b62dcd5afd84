//! Random GCs, done by an executor and by this thread: the same answers, and the same
//! bytes.
//!
//! The tests of `cli` include this file, for a worker that is a process.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use firn_engine::Semantics;
use firn_format::blob::segment::Origin;
use firn_format::manifest::BlobSegmentMeta;
use firn_jobs::{Control, Executor, JobHandle, JobResult, JobSpec, run, verify, verify_files};
use firn_storage::{Clock, Storage, SystemClock};

use crate::segments::Values;

/// GCs of each seed, one after the other.
pub(crate) const ROUNDS: u64 = 4;

/// What was compared.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// Outputs.
    pub(crate) outputs: u64,
    /// Those with values that had survived a GC before.
    pub(crate) again: u64,
    /// Outputs that `executor` wrote over a recycled file.
    pub(crate) over: u64,
    /// Values by how they are stored: as they are, by LZ4, by Zstd.
    pub(crate) stored: [u64; 3],
}

impl Compared {
    /// Fails if some kind of job, or of value, was not among them.
    pub(crate) fn assert_varied(&self) {
        let all = [&self.stored[..], &[self.outputs, self.again, self.over]].concat();
        assert!(all.iter().all(|count| *count > 0), "{self:?}");
    }
}

/// Has `executor`, which reaches `storage`, do [`ROUNDS`] GCs of each seed, and does the
/// same here. Which of the two outputs is used further is drawn, so that both collect what the
/// other has made.
pub(crate) fn compare(storage: &Arc<dyn Storage>, executor: &dyn Executor, seeds: Range<u64>) -> Compared {
    let mut compared = Compared::default();
    for seed in seeds {
        let (mut values, mut random) = (Values::on(Arc::clone(storage), seed << 8), Rng::with_seed(seed));
        for round in 0..ROUNDS {
            let what = format!("seed {seed}, round {round}");
            (0..random.u32(1..4)).for_each(|_| values.write(&mut random));
            values.die(&mut random, 3);
            let spec = values.spec(&mut random, &format!("s{seed}x{round}"));
            let there = JobSpec::from(spec.clone()).with_stem(&format!("there{seed}x{round}"));
            let theirs = answer(&executor.submit(there.clone()).unwrap()).unwrap();
            verify(&there, &theirs).unwrap();
            verify_files(&**storage, &there, &theirs).unwrap();
            compared.over +=
                u64::from(spec.recycled.iter().any(|recycled| values.names(recycled).is_empty()));
            let here = JobSpec::from(spec.clone());
            let mine = run(&here, &**storage, &Semantics::new(), &Control::new()).unwrap();
            let (theirs, mine) = (theirs.into_blob_gc().unwrap(), mine.into_blob_gc().unwrap());
            assert_eq!(theirs.relocations, mine.relocations, "{what}");
            let as_mine = theirs.segment.clone().zip(mine.segment.as_ref());
            let as_mine = as_mine.map(|(theirs, mine)| BlobSegmentMeta { file: mine.file.clone(), ..theirs });
            assert_eq!(as_mine, mine.segment, "{what}");
            let (kept, other) = if random.bool() { (theirs, mine) } else { (mine, theirs) };
            if let (Some(kept), Some(other)) = (&kept.segment, &other.segment) {
                assert!(values.bytes(&kept.file) == values.bytes(&other.file), "{what}");
                storage.remove(&other.file).unwrap();
                compared.outputs += 1;
                let again = spec.victims.iter().any(|victim| victim.origin == Origin::Collected);
                compared.again += u64::from(again);
            }
            values.commit(&spec, kept);
            values.compare(&what);
        }
        compared.stored.iter_mut().zip(values.stored).for_each(|(sum, count)| *sum += count);
        values.remove_all();
    }
    compared
}

/// What `handle` says within half a minute.
pub(crate) fn answer(handle: &JobHandle) -> firn_jobs::Result<JobResult> {
    let clock = SystemClock::new();
    while handle.poll().is_none() {
        assert!(clock.now() < Duration::from_secs(30), "no answer in half a minute");
        std::thread::yield_now();
    }
    handle.wait()
}
