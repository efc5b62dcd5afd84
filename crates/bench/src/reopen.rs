//! How long a database takes to open after a crash, with everything still in its log.
//!
//! A child process of the same program loads records and is killed, as `kill -9` does; this process
//! then opens what it left. Files are in the page cache, so that what is measured is the replay,
//! not the device.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fastrand::Rng;
use firn::{HashSettings, PointDb, Settings};
use firn_engine::settings::EngineSettings as _;
use firn_engine::{Error, ErrorKind, KEYSPACE_DEFAULT, Result, WriteOptions};
use serde::Serialize;

use crate::args::ReopenArgs;
use crate::distribution::stream_seed;
use crate::measure::now;
use crate::suite::BenchDir;
use crate::workload::{DB_BENCH_KEY_BYTES_MIN, KeyStyle, ValuePool};

/// What one reopening took.
#[derive(Clone, Debug, Serialize)]
pub struct ReopenResult {
    /// Records that were loaded.
    pub records: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Bytes of log replayed.
    pub log_bytes: u64,
    /// Time from the call of `open` to its return.
    pub seconds: f64,
    /// Log replayed each second.
    pub gib_per_s: f64,
    /// Records replayed each second.
    pub records_per_s: f64,
    /// Records read back and compared afterwards; all were right.
    pub sampled: u64,
}

/// What the child says once everything is loaded.
const LOADED: &str = "loaded";

/// Records read back.
const SAMPLE_MAX: u64 = 10_000;

/// Loads, kills, reopens and checks as `args` say; prints the figures and writes the JSON asked
/// for.
///
/// This program must understand `bench reopen`: the loading is done by a child process of it.
///
/// # Errors
/// `Invalid` for arguments that make no benchmark; `Bug` if a record is missing or wrong, or if
/// something was drained; otherwise whatever the store failed with.
pub fn run_reopen(args: &ReopenArgs) -> Result<()> {
    if args.key_bytes < DB_BENCH_KEY_BYTES_MIN {
        return Err(Error::invalid(format!("--key-bytes is at least {DB_BENCH_KEY_BYTES_MIN}")));
    }
    if args.child {
        let dir = args.dir.as_deref().ok_or_else(|| Error::invalid("a child needs --dir"))?;
        return load_and_wait(args, dir);
    }
    let dir = BenchDir::new(args.dir.as_deref())?;
    if !dir.is_empty() {
        return Err(Error::invalid("the directory is not empty: name an empty one"));
    }
    eprintln!("{} records in {}", args.num, dir.path().display());
    let mut child = Loader::start(args, dir.path())?;
    child.wait_loaded()?;
    child.kill()?;
    let result = reopen(args, dir.path())?;
    println!(
        "reopened {} records, {:.3} GiB of log, in {:.3} s: {:.2} GiB/s, {:.2} M records/s ({} read back)",
        result.records,
        gib(result.log_bytes),
        result.seconds,
        result.gib_per_s,
        result.records_per_s / 1e6,
        result.sampled,
    );
    let Some(path) = &args.json else { return Ok(()) };
    let text = serde_json::to_string(&result)
        .map_err(|error| Error::bug("a result has no JSON form").because(error))?;
    crate::report::write_text(path, &format!("{text}\n"))
}

fn reopen(args: &ReopenArgs, dir: &Path) -> Result<ReopenResult> {
    let start = now();
    let db = open(args, dir, false)?;
    let seconds = start.elapsed().as_secs_f64();
    let stats = db.stats();
    let table_count = stats.tree.as_ref().map_or(0, |tree| tree.table_count);
    if table_count > 0 {
        return Err(Error::bug(format!("{table_count} tables were flushed while loading")));
    }
    let sampled = check_sample(args, &db)?;
    db.close()?;
    Ok(ReopenResult {
        records: args.num,
        key_bytes: args.key_bytes,
        value_bytes: value_bytes(args),
        log_bytes: stats.log_bytes,
        seconds,
        gib_per_s: gib(stats.log_bytes) / seconds,
        records_per_s: args.num as f64 / seconds,
        sampled,
    })
}

/// Reads up to [`SAMPLE_MAX`] records, the last one among them, and compares their values.
fn check_sample(args: &ReopenArgs, db: &PointDb) -> Result<u64> {
    let mut random = Rng::with_seed(args.seed);
    let pool = ValuePool::new(value_bytes(args), args.seed);
    let sample = SAMPLE_MAX.min(args.num);
    let mut key = Vec::new();
    for index in 0..sample {
        let number = if index == 0 { args.num - 1 } else { random.u64(..args.num) };
        style(args).write(number, &mut key);
        let expected = value(args, &pool, number);
        if db.get(&key)?.as_deref() != Some(expected) {
            return Err(Error::bug(format!("record {number} is missing or has another value")));
        }
    }
    Ok(sample)
}

/// The child: loads, says so, and waits to be killed; it ends without closing also if its parent is
/// gone.
fn load_and_wait(args: &ReopenArgs, dir: &Path) -> Result<()> {
    let db = open(args, dir, true)?;
    let pool = ValuePool::new(value_bytes(args), args.seed);
    let threads = args.threads.max(1) as u64;
    std::thread::scope(|scope| {
        let load = |thread: u64| {
            let (mut session, mut key, pool) = (db.session(), Vec::new(), &pool);
            for number in (thread..args.num).step_by(threads as usize) {
                style(args).write(number, &mut key);
                let value = value(args, pool, number);
                session.put(KEYSPACE_DEFAULT, &key, value, WriteOptions::default())?;
            }
            Ok(())
        };
        let loads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || load(thread))).collect();
        let join = |load: std::thread::ScopedJoinHandle<'_, Result<()>>| {
            load.join().unwrap_or_else(|_| Err(Error::bug("a loading thread panicked")))
        };
        loads.into_iter().try_for_each(join)
    })?;
    let mut out = std::io::stdout().lock();
    let announced = writeln!(out, "{LOADED}").and_then(|()| out.flush());
    drop(out);
    // Ends when the parent does.
    let _parent = announced.and_then(|()| std::io::stdin().lock().read(&mut [0]).map(drop));
    std::process::abort();
}

/// The child process; killed when dropped.
struct Loader(Child);

impl Loader {
    fn start(args: &ReopenArgs, dir: &Path) -> Result<Self> {
        let failed =
            |error| Error::new(ErrorKind::Invalid, "cannot start the loading process").because(error);
        let program = std::env::current_exe().map_err(failed)?;
        let number = |name: &str, value: u64| format!("--{name}={value}");
        let child = Command::new(program)
            .args(["bench", "reopen", "--child", "--dir"])
            .arg(dir)
            .arg(number("num", args.num))
            .arg(number("value-bytes", args.value_bytes))
            .arg(number("key-bytes", args.key_bytes as u64))
            .arg(number("threads", args.threads as u64))
            .arg(number("seed", args.seed))
            .arg(format!("--engine={}", args.engine.engine))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        child.map(Self).map_err(failed)
    }

    fn wait_loaded(&mut self) -> Result<()> {
        let ended = || Error::new(ErrorKind::Invalid, "the loading process ended by itself; see above");
        let out = self.0.stdout.take().ok_or_else(ended)?;
        let mut line = String::new();
        match BufReader::new(out).read_line(&mut line) {
            Ok(_) if line.trim_end() == LOADED => Ok(()),
            _ => Err(ended()),
        }
    }

    fn kill(&mut self) -> Result<()> {
        let killed = self.0.kill().and_then(|()| self.0.wait());
        killed.map(drop).map_err(|error| Error::bug("cannot kill the loading process").because(error))
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // Dead already, or about to be.
        let _killed = self.kill();
    }
}

/// Settings under which nothing is flushed.
fn settings(args: &ReopenArgs) -> Settings {
    /// Most that a record takes beside its key and value: headers of frame and record, padding,
    /// index.
    const RECORD_MORE_BYTES: u64 = 128;
    let record = args.key_bytes as u64 + args.value_bytes + RECORD_MORE_BYTES;
    // A quarter of the memory is what the buffer may hold before it is flushed.
    let memory = args.num.saturating_mul(record).saturating_mul(6).clamp(512 << 20, 16 << 40);
    Settings::for_memory(memory)
}

fn open(args: &ReopenArgs, dir: &Path, create: bool) -> Result<PointDb> {
    let settings = settings(args);
    let mut hash = HashSettings::for_memory(settings.memory_bytes);
    // Nothing is to be checkpointed.
    hash.redo_bytes_max = hash.redo_bytes_max.max(settings.memory_bytes);
    let builder = PointDb::builder(dir).create(create).engine(args.engine.engine);
    builder.settings(settings).hash_settings(hash).open_points()
}

fn style(args: &ReopenArgs) -> KeyStyle {
    KeyStyle::Fixed { bytes: args.key_bytes }
}

fn value_bytes(args: &ReopenArgs) -> usize {
    args.value_bytes as usize
}

/// The value of record `number`, a function of it and the seed.
fn value<'p>(args: &ReopenArgs, pool: &'p ValuePool, number: u64) -> &'p [u8] {
    pool.draw(value_bytes(args), &mut Rng::with_seed(stream_seed(args.seed, number as usize)))
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / (1_u64 << 30) as f64
}
