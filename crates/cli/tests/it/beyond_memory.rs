//! Data of four times the memory that the server's control group may have. What is read is right,
//! memory stays within the limit, and nothing slows down as time goes by.
//!
//! Every key belongs to one connection, which therefore knows what each of its reads must find.
//! Keys are drawn by a zipfian distribution, half of the requests are writes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use firn_bench::distribution::ScrambledZipfian;
use firn_protocol::resp::Value;

use crate::serve::Serving;
use crate::wire::{Connection, encode};

const MIB: u64 = 1 << 20;

/// What the server's control group may have, the pages that the system keeps of its files included.
const LIMIT_BYTES: u64 = 512 * MIB;
/// What the server is told that it may have.
const MEMORY_BYTES: u64 = 192 * MIB;
/// What else a process has: its program, stacks, buffers of its connections.
const BESIDE_BYTES: u64 = 64 * MIB;
const VALUE_BYTES: usize = 1000;
const KEYS: u64 = 4 * LIMIT_BYTES / VALUE_BYTES as u64;
const CONNECTIONS: u64 = 16;
/// Requests sent together.
const RUN: u64 = 8;
/// How long one line of the report covers.
const INTERVAL: Duration = Duration::from_secs(10);

/// A control group of its own under this process's, gone when it is dropped; asks for an
/// administrator's rights.
struct MemoryGroup {
    path: PathBuf,
    peak: &'static str,
}

impl MemoryGroup {
    fn new(limit_bytes: u64) -> Self {
        let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let (root, limit, peak) = match unified {
            true => ("/sys/fs/cgroup", "memory.max", "memory.peak"),
            false => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
        };
        let path = Path::new(root).join(format!("firn-test-{}", std::process::id()));
        let group = Self { path, peak };
        let made = std::fs::create_dir(&group.path)
            .and_then(|()| std::fs::write(group.path.join(limit), limit_bytes.to_string()));
        let need = "run this test as root, on a system whose control groups limit memory";
        made.unwrap_or_else(|error| panic!("{}: {error}; {need}", group.path.display()));
        group
    }

    /// The program `firn serve` in this group.
    fn serve(&self) -> Command {
        let mut command = Command::new("sh");
        let enter = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        command.args(["-c", enter]).arg(&self.path);
        command.args([env!("CARGO_BIN_EXE_firn"), "serve", "--log-level", "error", "--memory-bytes"]);
        command.arg(MEMORY_BYTES.to_string());
        command
    }

    fn peak_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(self.path.join(self.peak)).expect("it is told");
        text.trim().parse().expect("a number")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// The value of `key` after its `version`th write: of random digits, so that no compression helps.
fn value_of(key: u64, version: u32) -> Vec<u8> {
    let mut random = Rng::with_seed(key << 32 | u64::from(version));
    let mut value = format!("{key}.{version}.").into_bytes();
    value.extend(std::iter::repeat_with(|| random.alphanumeric() as u8).take(VALUE_BYTES - value.len()));
    value
}

/// One connection, and the keys that are its own: how often each was written.
struct Owner {
    number: u64,
    versions: Vec<u32>,
    random: Rng,
    zipfian: ScrambledZipfian,
}

impl Owner {
    fn new(number: u64, seed: u64) -> Self {
        let keys = KEYS / CONNECTIONS;
        Self {
            number,
            versions: vec![0; keys as usize],
            random: Rng::with_seed(seed + number),
            zipfian: ScrambledZipfian::new(0, keys - 1),
        }
    }

    fn write(&mut self, bytes: &mut Vec<u8>, index: usize) {
        self.versions[index] += 1;
        let key = index as u64 * CONNECTIONS + self.number;
        encode(bytes, &[b"SET".to_vec(), name(key), value_of(key, self.versions[index])]);
    }

    /// Writes every key once.
    fn load(&mut self, connection: &mut Connection) {
        let all: Vec<usize> = (0..self.versions.len()).collect();
        for run in all.chunks(RUN as usize) {
            let mut bytes = Vec::new();
            run.iter().for_each(|index| self.write(&mut bytes, *index));
            connection.send(&bytes).expect("it is sent");
            run.iter().for_each(|_| assert_eq!(connection.receive(), Some(Value::Simple("OK".into()))));
        }
    }

    /// Some requests, and what came of them.
    fn ask(&mut self, connection: &mut Connection) {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..RUN {
            let index = self.zipfian.draw(&mut self.random) as usize;
            if self.random.bool() {
                self.write(&mut bytes, index);
                expected.push(Value::Simple("OK".into()));
            } else {
                let key = index as u64 * CONNECTIONS + self.number;
                encode(&mut bytes, &[b"GET".to_vec(), name(key)]);
                expected.push(Value::Bulk(value_of(key, self.versions[index])));
            }
        }
        connection.send(&bytes).expect("it is sent");
        for expected in expected {
            let found = connection.receive().expect("the server is there");
            assert_eq!(found, expected, "connection {}", self.number);
        }
    }
}

fn name(key: u64) -> Vec<u8> {
    format!("key:{key:012}").into_bytes()
}

/// Ends everything when it is dropped, by a panic too.
struct Ends<'b>(&'b AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Requests of each whole interval of `time`, told as they come.
fn watch(
    count: &AtomicU64,
    is_over: &AtomicBool,
    serving: &Serving,
    group: &MemoryGroup,
    time: Duration,
) -> Vec<u64> {
    let (begun, mut before, mut intervals) = (Instant::now(), 0, Vec::new());
    while begun.elapsed() < time {
        let end = begun.elapsed() + INTERVAL;
        while begun.elapsed() < end {
            std::thread::sleep(Duration::from_millis(20));
            if is_over.load(Ordering::Relaxed) {
                return intervals;
            }
        }
        let (now, own_bytes) = (count.load(Ordering::Relaxed), serving.own_bytes());
        assert!(own_bytes <= MEMORY_BYTES + BESIDE_BYTES, "{} MiB", own_bytes / MIB);
        intervals.push(now - before);
        eprintln!(
            "{:4} s: {:.1} thousand requests a second, {} MiB of its own, at most {} MiB with files",
            begun.elapsed().as_secs(),
            (now - before) as f64 / INTERVAL.as_secs_f64() / 1000.0,
            own_bytes / MIB,
            group.peak_bytes() / MIB,
        );
        before = now;
    }
    intervals
}

#[test]
#[ignore = "ten minutes, and must be run by root: the soak runs it"]
fn many_times_its_memory_is_served_steadily() {
    let number_of = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let time = Duration::from_secs(number_of("FIRN_SECONDS").unwrap_or(600));
    let seed = number_of("FIRN_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
    let (dir, group) = (tempfile::tempdir().unwrap(), MemoryGroup::new(LIMIT_BYTES));
    let mut serving = Serving::start_as(&mut group.serve(), dir.path()).expect("it serves");
    let mut owners: Vec<Owner> = (0..CONNECTIONS).map(|number| Owner::new(number, seed)).collect();
    let connect = || Connection::open(&serving.address).expect("it serves");
    std::thread::scope(|scope| {
        owners.iter_mut().for_each(|owner| drop(scope.spawn(|| owner.load(&mut connect()))));
    });
    eprintln!("seed {seed}: {KEYS} keys loaded, {} MiB of values", KEYS * VALUE_BYTES as u64 / MIB);
    let (count, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let intervals = std::thread::scope(|scope| {
        for owner in &mut owners {
            let (count, is_over, connect) = (&count, &is_over, &connect);
            scope.spawn(move || {
                let (_ends, mut connection) = (Ends(is_over), connect());
                while !is_over.load(Ordering::Relaxed) {
                    owner.ask(&mut connection);
                    count.fetch_add(RUN, Ordering::Relaxed);
                }
            });
        }
        let _ends = Ends(&is_over);
        watch(&count, &is_over, &serving, &group, time)
    });
    let mut sorted = intervals.clone();
    sorted.sort_unstable();
    let (median, least) = (sorted[sorted.len() / 2], sorted[0]);
    let half = intervals.len() / 2;
    let mean = |part: &[u64]| part.iter().sum::<u64>() / part.len().max(1) as u64;
    let (first, second) = (mean(&intervals[..half]), mean(&intervals[half..]));
    eprintln!(
        "{} requests, every read as it must be; an interval's median {median}, least {least}, means of the halves {first} \
         and {second}; at most {} of {} MiB",
        intervals.iter().sum::<u64>(),
        group.peak_bytes() / MIB,
        LIMIT_BYTES / MIB,
    );
    assert!(least > 0, "seed {seed}: nothing for {INTERVAL:?}");
    assert!(second * 2 > first, "seed {seed}: it slows down");
    serving.signal("TERM");
    assert!(serving.process.wait().expect("it ends").success());
}
