//! Threads that perform operations, and what they did.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use firn::PointDb;
use firn_engine::blocking::Blocking;
use firn_engine::{Error, KEYSPACE_DEFAULT, ReadAt, Result, Rmw, WriteOptions};

use super::args::PointsArgs;
use crate::distribution::stream_seed;
use crate::driver::SAMPLE_EVERY;
use crate::measure::{CpuUse, now, sleep_until};

/// Keys that a thread takes at once.
pub(super) const CHUNK: usize = 4096;

/// What a write sets a value to.
const WRITTEN: u64 = 7;

/// What is done to each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    /// It is read.
    Read,
    /// It is read, or its value is replaced, each half of the time.
    Mixed,
    /// 1 is added to its value.
    Rmw,
}

impl Workload {
    const ALL: [Workload; 3] = [Workload::Read, Workload::Mixed, Workload::Rmw];

    pub(super) fn name(self) -> &'static str {
        match self {
            Workload::Read => "read",
            Workload::Mixed => "mixed",
            Workload::Rmw => "rmw",
        }
    }

    /// # Errors
    /// `Invalid`, with the names there are.
    pub(super) fn from_name(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|workload| workload.name() == name);
        found.ok_or_else(|| Error::invalid(format!("no workload `{name}`; there are read, mixed and rmw")))
    }
}

/// What threads did.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) operations: u64,
    pub(super) time: Duration,
    /// Processor time of this process, background threads included.
    pub(super) cpu: Duration,
    /// Operations of each [`SAMPLE_EVERY`].
    pub(super) series: Vec<u64>,
}

impl Measured {
    pub(super) fn per_second(&self) -> f64 {
        self.operations as f64 / self.time.as_secs_f64()
    }

    pub(super) fn per_cpu_second(&self) -> f64 {
        self.operations as f64 / self.cpu.as_secs_f64()
    }
}

/// Runs threads for a time, and looks at them meanwhile.
pub(super) struct Ticks {
    run: Duration,
}

/// One thread's work: until it is over it counts what it has done.
type Body<'b> = dyn Fn(&dyn Fn() -> bool, &AtomicU64) -> Result<()> + Sync + 'b;

impl Ticks {
    pub(super) fn new(run: Duration) -> Self {
        Self { run }
    }

    /// Runs `body` on so many `threads`.
    ///
    /// # Errors
    /// The first error of a thread; the others end then.
    pub(super) fn measure(&self, threads: usize, body: &Body<'_>) -> Result<Measured> {
        let (is_over, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let (begun, cpu) = (now(), CpuUse::now());
        let mut series = Vec::new();
        std::thread::scope(|scope| {
            let work = || {
                let ended = body(&|| is_over.load(Ordering::Relaxed), &done);
                // One that fails ends the others.
                if ended.is_err() {
                    is_over.store(true, Ordering::Relaxed);
                }
                ended
            };
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let mut before = 0;
            while begun.elapsed() < self.run && !is_over.load(Ordering::Relaxed) {
                sleep_until((now() + SAMPLE_EVERY).min(begun + self.run));
                let sum = done.load(Ordering::Relaxed);
                series.push(sum - before);
                before = sum;
            }
            is_over.store(true, Ordering::Relaxed);
            workers.into_iter().try_for_each(|worker| {
                worker.join().unwrap_or_else(|_| Err(Error::bug("a thread of the benchmark panicked")))
            })
        })?;
        let operations = done.into_inner();
        let cpu = CpuUse::now().since(cpu).process;
        Ok(Measured { operations, time: begun.elapsed(), cpu, series })
    }
}

/// Performs `workload` on `keys`, again and again, for the time that `args` say.
///
/// # Errors
/// What the store failed with.
pub(super) fn run(db: &PointDb, workload: Workload, keys: &[u64], args: &PointsArgs) -> Result<Measured> {
    let (next, streams) = (AtomicU64::new(0), AtomicU64::new(0));
    Ticks::new(Duration::from_secs_f64(args.seconds)).measure(args.threads(), &|is_over, done| {
        let seed = stream_seed(args.seed, streams.fetch_add(1, Ordering::Relaxed) as usize);
        let mut caller = Caller::new(db, args, seed);
        while !is_over() {
            let at = next.fetch_add(CHUNK as u64, Ordering::Relaxed) as usize % keys.len();
            let chunk = &keys[at..(at + CHUNK).min(keys.len())];
            match workload {
                Workload::Read => chunk.iter().try_for_each(|key| caller.read(*key))?,
                Workload::Mixed => chunk.iter().try_for_each(|key| caller.read_or_write(*key))?,
                Workload::Rmw => chunk.iter().try_for_each(|key| caller.add(*key))?,
            }
            done.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    })
}

/// One thread's way into the database.
struct Caller {
    session: Blocking,
    options: WriteOptions,
    random: Rng,
    value: Vec<u8>,
}

impl Caller {
    fn new(db: &PointDb, args: &PointsArgs, seed: u64) -> Self {
        let options = WriteOptions { durability: Some(args.durability), ..WriteOptions::default() };
        Self { session: db.session(), options, random: Rng::with_seed(seed), value: Vec::new() }
    }

    #[inline]
    fn read(&mut self, key: u64) -> Result<()> {
        let found =
            self.session.get_into(ReadAt::Latest, KEYSPACE_DEFAULT, &key.to_le_bytes(), &mut self.value)?;
        std::hint::black_box(found);
        Ok(())
    }

    #[inline]
    fn write(&mut self, key: u64, value: u64) -> Result<()> {
        let (key, value) = (key.to_le_bytes(), value.to_le_bytes());
        self.session.put(KEYSPACE_DEFAULT, &key, &value, self.options).map(drop)
    }

    #[inline]
    fn read_or_write(&mut self, key: u64) -> Result<()> {
        if self.random.bool() { self.read(key) } else { self.write(key, WRITTEN) }
    }

    #[inline]
    fn add(&mut self, key: u64) -> Result<()> {
        self.session.rmw(KEYSPACE_DEFAULT, &key.to_le_bytes(), Rmw::Add(1), self.options).map(drop)
    }
}

/// Sets every one of `keys` to 0, all threads a part.
///
/// # Errors
/// What the store failed with.
pub(super) fn write_all(db: &PointDb, keys: &[u64], args: &PointsArgs) -> Result<()> {
    on_parts(keys, args, |part| {
        let mut caller = Caller::new(db, args, 0);
        part.iter().try_for_each(|key| caller.write(*key, 0))
    })
    .map(drop)
}

/// The sum of the values of all `keys`, which are different ones.
///
/// # Errors
/// What the store failed with; `Bug` for a value that has not 8 bytes.
pub(super) fn sum_of(db: &PointDb, keys: &[u64], args: &PointsArgs) -> Result<u64> {
    let sums = on_parts(keys, args, |part| {
        let mut caller = Caller::new(db, args, 0);
        let mut sum = 0_u64;
        for key in part {
            let key = key.to_le_bytes();
            if caller.session.get_into(ReadAt::Latest, KEYSPACE_DEFAULT, &key, &mut caller.value)? {
                let value = caller.value.as_slice().try_into();
                let value = value.map_err(|_| Error::bug("a value of the benchmark has 8 bytes"))?;
                sum = sum.wrapping_add(u64::from_le_bytes(value));
            }
        }
        Ok(sum)
    })?;
    Ok(sums.into_iter().fold(0, u64::wrapping_add))
}

/// What `body` answers for each thread's part of `keys`.
fn on_parts<R: Send>(
    keys: &[u64],
    args: &PointsArgs,
    body: impl Fn(&[u64]) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let part = keys.len().div_ceil(args.threads()).max(1);
    std::thread::scope(|scope| {
        let body = &body;
        let workers: Vec<_> = keys.chunks(part).map(|part| scope.spawn(move || body(part))).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, Result<R>>| {
            worker.join().unwrap_or_else(|_| Err(Error::bug("a thread of the benchmark panicked")))
        };
        workers.into_iter().map(join).collect()
    })
}

/// How long `body` takes.
///
/// # Errors
/// Those of `body`.
pub(super) fn timed(body: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let begun = now();
    body().map(|()| begun.elapsed())
}
