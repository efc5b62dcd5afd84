//! One command on one server: the threads that ask, the clock that watches them, what both sides
//! used.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use firn_engine::{Error, ErrorKind, Result};

use super::command::{Requests, RespCommand};
use super::connection::Answers;
use super::schedule::Schedule;
use super::worker::{Recorder, Task, Worker};
use crate::distribution::{Distribution, stream_seed};
use crate::driver::{Gauge, Phase, SAMPLE_EVERY, Sample, Watcher};
use crate::measure::{CpuUse, Latencies, ProcessCpu, now, sleep};
use crate::server::{Dialog, ServerAddress};
use crate::workload::ValuePool;

/// A server is at rest that uses one part in [`REST_SHARE`] of a processor, or less, for so long.
/// The system counts in hundredths of a second.
const REST_WINDOW: Duration = Duration::from_millis(400);
/// See [`REST_WINDOW`].
const REST_SHARE: u32 = 20;
/// How long a server may take to come to rest.
const REST_MAX: Duration = Duration::from_secs(30);

/// When a phase ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit {
    /// Nothing is asked after this time.
    Time(Duration),
    /// So many requests are asked.
    Requests(u64),
}

/// What is asked of which server.
#[derive(Clone, Debug)]
pub(super) struct Load<'a> {
    /// Name for progress.
    pub(super) name: String,
    pub(super) command: RespCommand,
    pub(super) address: &'a ServerAddress,
    /// The server's process on this machine.
    pub(super) pid: Option<u32>,
    /// Of all threads together; at least as many as threads.
    pub(super) connections: usize,
    pub(super) pipeline: usize,
    pub(super) threads: usize,
    pub(super) keys: Distribution,
    pub(super) values: ValuePool,
    pub(super) value_bytes: usize,
    pub(super) seed: u64,
    pub(super) limit: Limit,
    /// Requests a second of all threads together; `None` = closed loop.
    pub(super) rate: Option<f64>,
    pub(super) stops_at_errors: bool,
}

/// What a load came to.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    /// From the first request to the last answer.
    pub(super) run: Duration,
    pub(super) latencies: Latencies,
    pub(super) answers: Answers,
    /// Processor time of this process.
    pub(super) client_cpu: Duration,
    /// Processor time of the server until it was at rest again, if its process is known.
    pub(super) server_cpu: Option<ProcessCpu>,
}

impl Load<'_> {
    /// Runs it, with progress.
    ///
    /// # Errors
    /// The first failure of a thread; errors that the server answers, if it stops at them.
    pub(super) fn run(&self, watcher: &mut dyn Watcher) -> Result<Loaded> {
        let named = |error: Error| Error::new(error.kind(), self.address.to_string()).because(error);
        let (gauges, stop): (Vec<Gauge>, _) =
            ((0..self.threads).map(|_| Gauge::new(true)).collect(), AtomicBool::new(false));
        let workers = self.workers(&gauges, &stop)?;
        let server_before = self.server_cpu()?;
        watcher.phase_begins(&self.announced());
        let (recorders, client_cpu) = drive(workers, &gauges, &stop, watcher);
        watcher.phase_ends();
        let recorders = recorders.into_iter().collect::<Result<Vec<_>>>().map_err(named)?;
        self.await_rest()?;
        let server_cpu = self.server_cpu()?.zip(server_before).map(|(after, before)| after.since(before));
        let loaded = Loaded::of(&recorders, client_cpu, server_cpu);
        self.check(&loaded)?;
        Ok(loaded)
    }

    /// The phase as its watchers know it.
    fn announced(&self) -> Phase {
        let (time, operations) = match (self.limit, self.rate) {
            (Limit::Time(time), _) => (Some(time), 0),
            (Limit::Requests(requests), _) => (None, requests),
        };
        Phase {
            name: self.name.clone(),
            streams: Vec::new(),
            operations,
            time,
            warmup: Duration::ZERO,
            rate: self.rate,
            drains: false,
        }
    }

    fn workers<'p>(&self, gauges: &'p [Gauge], stop: &'p AtomicBool) -> Result<Vec<Worker<'p>>> {
        let failed = |error| Error::new(ErrorKind::Retry, "cannot wait for connections").because(error);
        let work = |(index, gauge)| {
            let connections = share(self.connections as u64, self.threads, index);
            let connect = |_| Dialog::open(self.address).map(Dialog::into_socket);
            let sockets = (0..connections).map(connect).collect::<Result<Vec<TcpStream>>>()?;
            Worker::new(self.task(index), sockets, gauge, stop).map_err(failed)
        };
        gauges.iter().enumerate().map(work).collect()
    }

    fn task(&self, index: usize) -> Task {
        let seed = stream_seed(self.seed, index);
        let requests =
            Requests::new(self.command, self.keys.clone(), self.values.clone(), self.value_bytes, seed);
        let (quota, end) = match (self.limit, self.rate) {
            (Limit::Time(time), None) => (u64::MAX, Some(time)),
            (Limit::Time(time), Some(rate)) => {
                let requests = (time.as_secs_f64() * rate).round().max(1.0);
                (share(requests as u64, self.threads, index), Some(time))
            }
            (Limit::Requests(requests), rate) => {
                let end = rate.map(|rate| Duration::from_secs_f64(requests as f64 / rate));
                (share(requests, self.threads, index), end)
            }
        };
        Task {
            requests,
            kind: self.command.kind(),
            pipeline: self.pipeline,
            quota,
            end,
            schedule: self.rate.map(|rate| Schedule::new(rate, self.threads, index)),
            stops_at_errors: self.stops_at_errors,
        }
    }

    /// Waits until the server's process has done what the requests left behind, if it is known.
    /// That belongs to them, and is not to hold up what is measured next. No longer than
    /// [`REST_MAX`].
    fn await_rest(&self) -> Result<()> {
        let Some(mut before) = self.server_cpu()? else { return Ok(()) };
        for _ in 0..REST_MAX.as_millis() / REST_WINDOW.as_millis() {
            sleep(REST_WINDOW);
            let Some(after) = self.server_cpu()? else { return Ok(()) };
            let used = after.since(before);
            if used.user + used.system <= REST_WINDOW / REST_SHARE {
                return Ok(());
            }
            before = after;
        }
        Ok(())
    }

    fn server_cpu(&self) -> Result<Option<ProcessCpu>> {
        let read = |pid| {
            ProcessCpu::of(pid).map_err(|error| {
                Error::invalid(format!("no processor time of a process {pid}")).because(error)
            })
        };
        self.pid.map(read).transpose()
    }

    fn check(&self, loaded: &Loaded) -> Result<()> {
        let Answers { count, errors, first_error, .. } = &loaded.answers;
        match first_error {
            Some(text) if self.stops_at_errors => Err(Error::new(
                ErrorKind::Closed,
                format!(
                    "{}: {errors} of {count} answers to {} were errors, the first: {text} (--allow-errors only counts them)",
                    self.address,
                    self.command.name(),
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// Part `index` of `whole` divided among `threads`.
fn share(whole: u64, threads: usize, index: usize) -> u64 {
    let (threads, index) = (threads as u64, index as u64);
    whole / threads + u64::from(index < whole % threads)
}

/// Lets the workers go, all at once, and watches them until the last is over. Returns what each
/// came to, and the processor time of this process meanwhile.
fn drive(
    workers: Vec<Worker<'_>>,
    gauges: &[Gauge],
    stop: &AtomicBool,
    watcher: &mut dyn Watcher,
) -> (Vec<Result<Recorder>>, Duration) {
    let (ready, begun) = (Barrier::new(workers.len() + 1), OnceLock::new());
    let (alive, over) = mpsc::channel::<()>();
    // Letting go of `alive` says that a thread is over, by a panic too.
    let work = |worker: Worker<'_>, alive: mpsc::Sender<()>| {
        ready.wait();
        let ran = worker.run(*begun.get_or_init(now));
        if ran.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        drop(alive);
        ran
    };
    let work = &work;
    std::thread::scope(|scope| {
        let spawn = |worker| {
            let alive = alive.clone();
            scope.spawn(move || work(worker, alive))
        };
        let handles: Vec<_> = workers.into_iter().map(spawn).collect();
        drop(alive);
        let before = CpuUse::now();
        let at = *begun.get_or_init(now);
        ready.wait();
        watch(at, gauges, &over, watcher);
        let client_cpu = CpuUse::now().since(before).process;
        let join = |handle: std::thread::ScopedJoinHandle<'_, Result<Recorder>>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        (handles.into_iter().map(join).collect(), client_cpu)
    })
}

/// Shows samples until all threads have let go of their end of `over`.
fn watch(begun: Instant, gauges: &[Gauge], over: &Receiver<()>, watcher: &mut dyn Watcher) {
    let mut next = begun + SAMPLE_EVERY;
    while let Err(RecvTimeoutError::Timeout) = over.recv_timeout(next.saturating_duration_since(now())) {
        let at = now();
        if at >= next {
            watcher.sample(&Sample::take(at.saturating_duration_since(begun), gauges));
            next = at + SAMPLE_EVERY;
        }
    }
}

impl Loaded {
    fn of(recorders: &[Recorder], client_cpu: Duration, server_cpu: Option<ProcessCpu>) -> Self {
        let (mut latencies, mut answers) = (Latencies::new(), Answers::default());
        for recorder in recorders {
            latencies.add(&recorder.latencies);
            answers.count += recorder.answers.count;
            answers.nulls += recorder.answers.nulls;
            answers.errors += recorder.answers.errors;
            answers.first_error = answers.first_error.or_else(|| recorder.answers.first_error.clone());
        }
        let run = recorders.iter().map(|recorder| recorder.ended).max().unwrap_or_default();
        Self { run, latencies, answers, client_cpu, server_cpu }
    }
}
