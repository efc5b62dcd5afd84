//! A worker: takes jobs from control planes, runs them, says what came of it.

mod held; // what it has
mod opened; // where it reads and writes
mod talk; // what it says to one control plane
mod work; // its threads
mod tally; // what it has done

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use firn_engine::Semantics;
use firn_jobs::JobSpec;
use firn_storage::{Clock, Priority, Result, Spawn, Storage};
use tokio::sync::Notify;

use crate::channel::Planes;
use crate::control::Elsewhere;
use crate::control::pool::Profile;
use crate::runtime::Runtime;
use crate::tls::ClientTls;
use crate::token::SharedToken;
use held::Holdings;
use opened::Opened;
use tally::Tally;
pub use tally::{Attempts, STAGE_BOUNDS_MS, Times, WorkerFigures};
pub(crate) use work::ATTEMPT_BYTES;

/// Opens backends by the locations that jobs give.
pub trait Backends: Send + Sync + fmt::Debug {
    /// The backend called `name`. A worker asks again for what it has not used for ten minutes.
    ///
    /// # Errors
    /// It cannot be opened, or this worker may not touch it.
    fn open(&self, name: &str) -> Result<Arc<dyn Storage>>;
}

/// What a worker is told.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// `http://HOST:PORT` or `https://HOST:PORT` of each control plane; it works for all of them.
    pub control_planes: Vec<String>,
    /// What it shows them.
    pub token: SharedToken,
    /// The authorities it believes, and what it shows, where they are at `https://`.
    pub tls: ClientTls,
    /// What people call it.
    pub name: String,
    /// Where it is: backends of the same zone are near. Empty = near to everything.
    pub zone: String,
    /// Jobs at a time.
    pub slots: u32,
    /// Its program, for people. Default unknown.
    pub build: String,
    /// Drawn for this start. Each of `control_planes` is told an id of its own that is made of it.
    pub id: u128,
    /// Without an answer for so long it stops what a control plane gave it: that has given it to
    /// another worker by then. Default 10 s.
    pub lease: Duration,
    /// How often it says that it lives. Default 2 s.
    pub beat: Duration,
}

impl WorkerOptions {
    /// Two jobs at a time, for `control_planes`.
    pub fn new(control_planes: Vec<String>, name: &str, id: u128) -> Self {
        Self {
            control_planes,
            token: SharedToken::none(),
            tls: ClientTls::default(),
            name: name.to_owned(),
            zone: String::new(),
            slots: 2,
            build: "unknown".to_owned(),
            id,
            lease: Duration::from_secs(10),
            beat: Duration::from_secs(2),
        }
    }
}

/// A worker that runs until it is dropped, whereupon it stops what it does and does not say so.
///
/// It serves any number of databases, one backend for each, and any number of control planes.
#[derive(Debug)]
pub struct Worker {
    shared: Arc<Shared>,
    _runtime: Runtime,
}

#[derive(Debug)]
struct Shared {
    options: WorkerOptions,
    semantics: Arc<Semantics>,
    clock: Arc<dyn Clock>,
    backends: Arc<dyn Backends>,
    opened: Opened,
    holdings: Holdings,
    tally: Tally,
    is_draining: AtomicBool,
    drains: Notify,
    /// Control planes that have heard that it takes no more jobs.
    notified_planes: Mutex<BTreeSet<usize>>,
    /// What goes wrong with each control plane, now.
    troubles: Mutex<BTreeMap<String, String>>,
    /// What has gone wrong here and was not read yet.
    log: Mutex<Vec<String>>,
}

/// Lines of the log that are kept until they are read; more are not.
const LOG_MAX: usize = 100;

impl Worker {
    /// Starts two threads for each slot, and one that talks. Of the two one works; the other takes
    /// its place while it hangs in a job that was stopped.
    ///
    /// # Errors
    /// A name of a control plane is none, with what is expected; or the system gives no threads.
    pub fn start(
        options: WorkerOptions,
        backends: Arc<dyn Backends>,
        semantics: Arc<Semantics>,
        clock: Arc<dyn Clock>,
        spawn: &dyn Spawn,
    ) -> Result<Self> {
        let runtime = Runtime::start("firn-worker", spawn)?;
        let planes = Planes::new(&options.control_planes, &options.token, &options.tls, &runtime)?;
        let shared = Arc::new(Shared {
            holdings: Holdings::new(options.slots as usize, Arc::clone(&clock)),
            semantics,
            clock,
            backends,
            opened: Opened::default(),
            tally: Tally::default(),
            is_draining: AtomicBool::new(false),
            drains: Notify::new(),
            notified_planes: Mutex::default(),
            troubles: Mutex::default(),
            log: Mutex::default(),
            options,
        });
        for thread in shared.holdings.threads() {
            let works = Arc::clone(&shared);
            let work = Box::new(move || works.work(thread));
            spawn.spawn(format!("firn-job-{thread}"), Priority::Background, work)?;
        }
        for (plane, name) in shared.options.control_planes.clone().into_iter().enumerate() {
            talk::begin(&shared, plane, &name, &planes, &runtime);
        }
        Ok(Self { shared, _runtime: runtime })
    }

    /// Takes no more jobs. Running ones go on.
    pub fn drain(&self) {
        self.shared.is_draining.store(true, Ordering::SeqCst);
        self.shared.drains.notify_waiters();
    }

    /// Stops all jobs; control planes give them to others at once.
    pub fn stop(&self) {
        self.shared.holdings.cancel_all();
    }

    /// Jobs that it has, ended ones included until their ends are reported.
    pub fn job_count(&self) -> usize {
        self.shared.holdings.count()
    }

    /// Whether it may end: it has no jobs, and each control plane that can be talked with knows
    /// that it takes none.
    pub fn is_drained(&self) -> bool {
        let notified = self.shared.notified_planes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let troubles = self.troubles();
        let mut planes = self.shared.options.control_planes.iter().enumerate();
        self.job_count() == 0
            && planes.all(|(index, name)| notified.contains(&index) || troubles.contains_key(name))
    }

    /// What it does, in numbers.
    pub fn watch(&self) -> WorkerWatch {
        WorkerWatch { shared: Arc::downgrade(&self.shared) }
    }

    /// What goes wrong with each control plane that it cannot talk with now, by name.
    pub fn troubles(&self) -> BTreeMap<String, String> {
        self.shared.troubles.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What went wrong here since the last call, a line each: jobs that panicked.
    pub fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A look at a worker from another thread.
#[derive(Clone, Debug)]
pub struct WorkerWatch {
    /// The worker ends by itself, despite a look at it.
    shared: Weak<Shared>,
}

impl WorkerWatch {
    /// What it does, and has done; `None` = it has ended.
    pub fn figures(&self) -> Option<WorkerFigures> {
        let shared = self.shared.upgrade()?;
        let planes = &shared.options.control_planes;
        let troubles = shared.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = planes.iter().filter(|name| troubles.contains_key(*name)).count();
        drop(troubles);
        Some(WorkerFigures {
            slots: shared.options.slots,
            held: shared.holdings.count(),
            hanging: shared.holdings.left_count(),
            is_draining: shared.is_draining.load(Ordering::SeqCst),
            control_planes_heard: planes.len() - silent,
            control_planes_silent: silent,
            ..shared.tally.figures()
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.holdings.close();
        self.shared.holdings.cancel_all();
    }
}

impl Shared {
    /// What a control plane is told of the worker, which is `id` there and does `elsewhere` for
    /// others.
    fn profile(&self, id: u128, elsewhere: Elsewhere) -> Profile {
        // As `JobSpec::needs` says it.
        let named = |kind: &'static str| move |name: &str| format!("{kind}:{name}");
        let merges = self.semantics.merge_operator_identities().map(named("merge"));
        let filters = self.semantics.compaction_filter_identities().map(named("filter"));
        let prefixes = self.semantics.prefix_extractor_names().map(named("prefix"));
        let options = &self.options;
        Profile {
            id,
            name: options.name.clone(),
            zone: options.zone.clone(),
            slots: options.slots,
            has: merges.chain(filters).chain(prefixes).collect(),
            spec_versions: JobSpec::VERSION..=JobSpec::VERSION,
            build: options.build.clone(),
            is_draining: self.is_draining.load(Ordering::SeqCst),
            elsewhere,
        }
    }

    /// The backend called `name`.
    fn backend(&self, name: &str) -> Result<Arc<dyn Storage>> {
        self.opened.backend(name, self.clock.now(), || self.backends.open(name))
    }

    fn log(&self, line: String) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() < LOG_MAX {
            log.push(line);
        }
    }

    fn set_trouble(&self, plane: &str, trouble: Option<String>) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        match trouble {
            Some(trouble) => drop(troubles.insert(plane.to_owned(), trouble)),
            None => drop(troubles.remove(plane)),
        }
    }
}
