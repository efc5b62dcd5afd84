//! What many keyspaces cost: records written to keyspaces in random order, beside as many in one
//! keyspace.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use firn::{KeyspaceId, KeyspaceSettings, PointDb, Settings};
use firn_engine::{Error, Result, WriteOptions};
use serde::Serialize;

use crate::args::KeyspacesArgs;
use crate::distribution::stream_seed;
use crate::measure::{anonymous_bytes, descriptor_count, now, sleep};
use crate::suite::BenchDir;
use crate::workload::ValuePool;

/// What one database with so many keyspaces did.
#[derive(Clone, Debug, Serialize)]
pub struct KeyspacesResult {
    /// Keyspaces, beside the default one.
    pub keyspaces: u64,
    /// Seconds that creating them took.
    pub create_s: f64,
    /// Anonymous memory that an empty keyspace takes, bytes.
    pub empty_bytes: f64,
    /// Records written each second, until the last was accepted.
    pub records_per_s: f64,
    /// The same, until everything was in tables and nothing was left to do.
    pub settled_records_per_s: f64,
    /// Most anonymous memory of this process, bytes.
    pub anonymous_bytes: u64,
    /// Most open descriptors of this process.
    pub descriptors: u64,
    /// Tables at the end.
    pub tables: u64,
    /// Share of the writing time for which writers were stopped or slowed, all threads together.
    pub waited_share: f64,
    /// Bytes written by the database for each byte of keys and values.
    pub written_per_byte: f64,
    /// Seconds that opening again took.
    pub reopen_s: f64,
}

/// Writes to many keyspaces and to one, as often as `args` say, in turn; prints each result and the
/// ratio of medians.
///
/// # Errors
/// `Invalid` for a directory that is not empty; otherwise whatever the store failed with.
pub fn run_keyspaces(args: &KeyspacesArgs) -> Result<()> {
    let dir = BenchDir::new(args.dir.as_deref())?;
    if !dir.is_empty() {
        return Err(Error::invalid("the directory is not empty: name an empty one"));
    }
    println!("{} records of {} bytes, memory {} bytes", args.num, args.value_bytes, args.memory);
    println!("{HEAD}");
    let mut results = Vec::new();
    for repetition in 0..args.repetitions.max(1) {
        for count in [args.count, 1] {
            let path = dir.path().join(format!("{count}-{repetition}"));
            let result = run_one(args, count, &path)?;
            std::fs::remove_dir_all(&path).map_err(|error| {
                Error::invalid(format!("cannot remove {}", path.display())).because(error)
            })?;
            println!("{}", row(&result));
            results.push(result);
        }
    }
    let median = |count: u64| {
        let of = results.iter().filter(|result| result.keyspaces == count);
        let mut rates: Vec<f64> = of.map(|result| result.settled_records_per_s).collect();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
    };
    println!(
        "{} keyspaces to one, medians of settled rates: {:.2}",
        args.count,
        median(args.count) / median(1)
    );
    let Some(path) = &args.json else { return Ok(()) };
    let text = serde_json::to_string(&results)
        .map_err(|error| Error::bug("a result has no JSON form").because(error))?;
    crate::report::write_text(path, &format!("{text}\n"))
}

const HEAD: &str = "keyspaces  create s  empty B  krecords/s  settled  anonymous MiB  descriptors  tables  waited  written/B  reopen s";

fn row(result: &KeyspacesResult) -> String {
    format!(
        "{:>9}  {:>8.2}  {:>7.0}  {:>10.1}  {:>7.1}  {:>13.1}  {:>11}  {:>6}  {:>5.1}%  {:>9.2}  {:>8.2}",
        result.keyspaces,
        result.create_s,
        result.empty_bytes,
        result.records_per_s / 1e3,
        result.settled_records_per_s / 1e3,
        result.anonymous_bytes as f64 / f64::from(1 << 20),
        result.descriptors,
        result.tables,
        result.waited_share * 100.0,
        result.written_per_byte,
        result.reopen_s,
    )
}

fn run_one(args: &KeyspacesArgs, count: u64, path: &Path) -> Result<KeyspacesResult> {
    let builder = || PointDb::builder(path).engine(args.engine.engine);
    let open = || builder().settings(Settings::for_memory(args.memory)).open_points();
    let db = open()?;
    let (before, begun) = (anonymous_bytes(), now());
    let ids: Vec<KeyspaceId> = (0..count)
        .map(|number| db.create_keyspace(&format!("keyspace{number}"), KeyspaceSettings::default()))
        .collect::<Result<_>>()?;
    let create_s = begun.elapsed().as_secs_f64();
    let empty_bytes = anonymous_bytes().saturating_sub(before) as f64 / count as f64;
    let peak = Peak::default();
    let done = AtomicBool::new(false);
    let begun = now();
    let (written, settled) = std::thread::scope(|scope| {
        scope.spawn(|| peak.watch(&done));
        let written = write_all(args, &db, &ids).map(|()| begun.elapsed());
        let settled = db.flush().and_then(|()| db.wait_idle()).map(|()| begun.elapsed());
        done.store(true, Ordering::Relaxed);
        Ok::<_, Error>((written?, settled?))
    })?;
    let stats = db.stats();
    let user_bytes = args.num * (KEY_BYTES + args.value_bytes);
    let waited = Duration::from_micros(stats.slowdown_us_total + stats.stop_us_total).as_secs_f64();
    db.close()?;
    drop(db);
    let begun = now();
    let db = open()?;
    let reopen_s = begun.elapsed().as_secs_f64();
    db.close()?;
    Ok(KeyspacesResult {
        keyspaces: count,
        create_s,
        empty_bytes,
        records_per_s: args.num as f64 / written.as_secs_f64(),
        settled_records_per_s: args.num as f64 / settled.as_secs_f64(),
        anonymous_bytes: peak.anonymous.into_inner(),
        descriptors: peak.descriptors.into_inner(),
        tables: stats.tree.as_ref().map_or(0, |tree| tree.table_count),
        waited_share: waited / (written.as_secs_f64() * args.threads.max(1) as f64),
        written_per_byte: stats.device_write_bytes_total() as f64 / user_bytes as f64,
        reopen_s,
    })
}

const KEY_BYTES: u64 = 8;

/// Writes each record once, its keyspace drawn for it.
fn write_all(args: &KeyspacesArgs, db: &PointDb, ids: &[KeyspaceId]) -> Result<()> {
    let pool = ValuePool::new(args.value_bytes as usize, args.seed);
    let threads = args.threads.max(1) as u64;
    let write = |thread: u64| {
        let mut random = Rng::with_seed(stream_seed(args.seed, thread as usize));
        let mut session = db.session();
        for number in (thread..args.num).step_by(threads as usize) {
            let id = ids[random.usize(..ids.len())];
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            let value = pool.draw(args.value_bytes as usize, &mut random);
            session.put(id, &key, value, WriteOptions::default())?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let write = &write;
        let writers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || write(thread))).collect();
        let join = |writer: std::thread::ScopedJoinHandle<'_, Result<()>>| {
            writer.join().unwrap_or_else(|_| Err(Error::bug("a writing thread panicked")))
        };
        writers.into_iter().try_for_each(join)
    })
}

/// The most that was seen of what this process holds.
#[derive(Default)]
struct Peak {
    anonymous: std::sync::atomic::AtomicU64,
    descriptors: std::sync::atomic::AtomicU64,
}

impl Peak {
    /// Looks again and again until `done`.
    fn watch(&self, done: &AtomicBool) {
        while !done.load(Ordering::Relaxed) {
            self.anonymous.fetch_max(anonymous_bytes(), Ordering::Relaxed);
            self.descriptors.fetch_max(descriptor_count(), Ordering::Relaxed);
            sleep(LOOK_EVERY);
        }
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(50);
