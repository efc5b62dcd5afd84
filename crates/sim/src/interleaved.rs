//! An executor during whose jobs other work goes on: what threads do at the same time, in an order
//! that a seed repeats.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use fastrand::Rng;
use firn_jobs::{Executor, JobHandle, JobSpec, Result};
use firn_tree::Tree;

/// Has another executor run jobs; before and after each, but before its answer, the tree does some
/// of whatever else there is to do.
#[derive(Debug)]
pub(crate) struct Interleaved {
    inner: Arc<dyn Executor>,
    tree: OnceLock<Weak<Tree>>,
    rng: Mutex<Rng>,
    /// Jobs that are being done, each in the middle of the one before.
    depth: AtomicUsize,
}

/// In the middle of more jobs than that nothing else is begun.
const DEPTH_MAX: usize = 3;
/// Most units of other work at a time.
const STEPS_MAX: usize = 4;

impl Interleaved {
    /// An executor around `inner`, which runs jobs while they are submitted; all that it draws is a
    /// function of `seed`.
    pub(crate) fn new(inner: Arc<dyn Executor>, seed: u64) -> Arc<Self> {
        let rng = Mutex::new(Rng::with_seed(seed ^ 0x6d69_7865));
        Arc::new(Self { inner, tree: OnceLock::new(), rng, depth: AtomicUsize::new(0) })
    }

    /// From now on `tree`, which has no threads, goes on with its work during jobs.
    pub(crate) fn belong_to(&self, tree: &Arc<Tree>) {
        let _first = self.tree.set(Arc::downgrade(tree));
    }

    fn go_on(&self) {
        let Some(tree) = self.tree.get().and_then(Weak::upgrade) else { return };
        if self.depth.load(Ordering::Relaxed) > DEPTH_MAX {
            return;
        }
        let steps = self.rng.lock().unwrap_or_else(PoisonError::into_inner).usize(..=STEPS_MAX);
        for _ in 0..steps {
            // What fails is tried again, or has ended the tree, of which the runner of the script
            // learns.
            if !tree.step().unwrap_or(false) {
                return;
            }
        }
    }
}

impl Executor for Interleaved {
    fn submit(&self, spec: JobSpec) -> Result<JobHandle> {
        self.depth.fetch_add(1, Ordering::Relaxed);
        self.go_on();
        let done = self.inner.submit(spec);
        self.go_on();
        self.depth.fetch_sub(1, Ordering::Relaxed);
        done
    }
}
