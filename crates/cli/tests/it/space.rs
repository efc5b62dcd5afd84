//! What is deleted as a whole goes at once, and its space comes back by itself.

use std::path::Path;
use std::time::{Duration, Instant};

use firn_protocol::resp::Value;

use crate::serve::Serving;
use crate::wire::{Connection, encode};

const MIB: u64 = 1 << 20;
/// Fields, or keys, in a request of the ones that fill.
const RUN: usize = 500;

/// Bytes of all files under `dir`. What goes while it is looked at counts nothing.
fn bytes_in(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// A value that does not compress to nothing.
fn value_of(number: usize, bytes: usize) -> String {
    let mut rng = fastrand::Rng::with_seed(number as u64);
    (0..bytes).map(|_| rng.alphanumeric()).collect()
}

/// Writes `count` pairs of a name and a value by `command`, some thousand in flight.
fn fill(connection: &mut Connection, command: &[&str], count: usize, bytes_each: usize) {
    for first in (0..count).step_by(RUN * 8) {
        let mut bytes = Vec::new();
        let last = count.min(first + RUN * 8);
        let mut requests = 0;
        for start in (first..last).step_by(RUN) {
            let mut words: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
            for number in start..last.min(start + RUN) {
                words.extend([format!("name:{number}"), value_of(number, bytes_each)]);
            }
            encode(&mut bytes, &words);
            requests += 1;
        }
        connection.send(&bytes).expect("it is sent");
        for _ in 0..requests {
            let reply = connection.receive().expect("a reply");
            assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
        }
    }
}

/// Sends `line` and waits until less than `share` of the directory is left; how long the reply
/// took.
fn delete(
    connection: &mut Connection,
    dir: &Path,
    line: &str,
    left_bytes_max: impl Fn(u64) -> u64,
) -> Duration {
    const PATIENCE: Duration = Duration::from_secs(180);
    let full = bytes_in(dir);
    let start = Instant::now();
    let reply = connection.ask(line);
    let time = start.elapsed();
    assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
    let since = Instant::now();
    let mut said = full;
    let command = line.split(' ').next().unwrap_or_default();
    eprintln!("{command}: {time:?}; {} MiB of files", full / MIB);
    loop {
        let left = bytes_in(dir);
        if left < said / 4 * 3 {
            eprintln!("  {} MiB after {:?}", left / MIB, since.elapsed());
            said = left;
        }
        if left <= left_bytes_max(full) {
            eprintln!("  {} MiB after {:?}", left / MIB, since.elapsed());
            return time;
        }
        assert!(since.elapsed() < PATIENCE, "{} of {} MiB are still there", left / MIB, full / MIB);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What remains of them at most: 8 MiB live, and beside them lie begun and recycled files.
const LEFT_BYTES_MAX: u64 = 32 * MIB;

fn check(count: usize, bytes_each: usize, left_bytes_max: impl Fn(u64) -> u64) -> [Duration; 2] {
    let dir = tempfile::tempdir().expect("a folder");
    let mut serving = Serving::start(dir.path());
    let mut connection = Connection::open(&serving.address).expect("a connection");
    fill(&mut connection, &["HSET", "hash"], count, bytes_each);
    assert_eq!(connection.ask("HLEN hash"), Value::Integer(count as i64));
    let hash = delete(&mut connection, dir.path(), "DEL hash", &left_bytes_max);
    assert_eq!(connection.ask("HGET hash name:1"), Value::Null);
    fill(&mut connection, &["MSET"], count, bytes_each);
    assert_eq!(connection.ask("DBSIZE"), Value::Integer(count as i64));
    let keys = delete(&mut connection, dir.path(), "FLUSHALL", &left_bytes_max);
    assert_eq!(connection.ask("DBSIZE"), Value::Integer(0));
    assert_eq!(connection.ask("GET name:1"), Value::Null);
    serving.signal("TERM");
    assert!(serving.process.wait().expect("it ends").success());
    [hash, keys]
}

#[test]
fn space_of_what_is_deleted_comes_back() {
    // Logs and memtables have their own size, whatever is in them.
    check(200_000, 500, |full| full / 2);
}

#[test]
fn space_of_large_values_comes_back_without_a_write() {
    const COUNT: usize = 20_000;
    const VALUE_BYTES: usize = 4096;
    let dir = tempfile::tempdir().expect("a folder");
    let settings = dir.path().join("settings.toml");
    std::fs::write(&settings, "[tree]\nseparate_bytes = 1000\n").expect("written");
    let files = dir.path().join("database");
    let serving = Serving::start_with(&["--config", settings.to_str().expect("UTF-8")], &files);
    let mut connection = Connection::open(&serving.address).expect("a connection");
    fill(&mut connection, &["MSET"], COUNT, VALUE_BYTES);
    // Nine keys of ten at once; nothing is written after that.
    let gone = (0..COUNT).filter(|number| !number.is_multiple_of(10));
    let names: Vec<String> = gone.map(|number| format!("name:{number}")).collect();
    delete(&mut connection, &files, &format!("DEL {}", names.join(" ")), |_| LEFT_BYTES_MAX);
    assert_eq!(connection.ask("DBSIZE"), Value::Integer(COUNT as i64 / 10));
    assert_eq!(connection.ask("GET name:1"), Value::Null);
    for number in (0..COUNT).step_by(1000) {
        let value = value_of(number, VALUE_BYTES).into_bytes();
        assert_eq!(connection.ask(&format!("GET name:{number}")), Value::Bulk(value), "{number}");
    }
    serving.end();
}

#[test]
#[ignore = "minutes and gigabytes; the full tier runs it"]
fn ten_million_are_deleted_at_once_and_their_space_comes_back() {
    let times = check(10_000_000, 64, |full| full / 10);
    assert!(times.into_iter().all(|time| time < Duration::from_millis(10)), "{times:?}");
}
