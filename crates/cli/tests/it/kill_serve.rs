//! kill -9 under load, again and again: no acknowledged write is lost, and nothing is found that
//! was never sent.
//!
//! Writers send runs of requests without waiting for each reply. Each notes in a [`Log`] for each
//! key what it sent and how much of that was acknowledged. No other writer writes its keys, or its
//! elements in keys of all. A server that is started after the kill is asked for everything, and
//! the logs judge it.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use firn_protocol::resp::Value;

use crate::serve::Serving;
use crate::wire::{Connection, encode};

const WRITERS: usize = 6;
/// Keys of each kind.
const KEYS: u64 = 12;
/// Requests sent together at most.
const RUN: usize = 16;
/// Bytes of a value at most: memtables must become full.
const VALUE_BYTES: u64 = 3_000;

/// What one writer sent to one key, in its order, and how much of that was acknowledged.
#[derive(Clone, Debug, Default, PartialEq)]
struct Log {
    sent: Vec<u64>,
    acknowledged: usize,
}

impl Log {
    /// A key holds one value: the last one acknowledged, or one sent after it.
    fn judge_last(&self, found: Option<u64>) -> Result<(), String> {
        let position = match found {
            None => 0,
            Some(number) => match self.sent.iter().rposition(|sent| *sent == number) {
                Some(index) => index + 1,
                None => return Err(format!("{number} was never sent")),
            },
        };
        self.judge_count(position)
    }

    /// A key holds everything, in order: what was acknowledged, and no gap after it.
    fn judge_all(&self, found: &[u64]) -> Result<(), String> {
        if !self.sent.starts_with(found) {
            let index = found.iter().zip(&self.sent).take_while(|(found, sent)| found == sent).count();
            return Err(format!(
                "{:?} instead of {:?} at {index}, {} acknowledged",
                found.get(index),
                self.sent.get(index),
                self.acknowledged
            ));
        }
        self.judge_count(found.len())
    }

    fn judge_count(&self, found: usize) -> Result<(), String> {
        if found < self.acknowledged {
            return Err(format!("{} were acknowledged, and {found} are there", self.acknowledged));
        }
        if found > self.sent.len() {
            return Err(format!("{} were sent, and {found} are there", self.sent.len()));
        }
        Ok(())
    }
}

/// What kind of key, which of them, and in which round it is used (0: in all).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A string for each writer.
    Text(u64),
    /// Two strings for each writer, set to the same by EXEC.
    Pair(u64),
    /// A field for each writer in a hash of all.
    Field(u64),
    /// A counter of all.
    Counter(u64),
    /// A list of all.
    List { round: u64, key: u64 },
    /// A sorted set of all, scores as sent.
    Sorted { round: u64, key: u64 },
}

impl Place {
    /// One of the first `kinds` kinds.
    fn any(rng: &mut Rng, kinds: u8, round: u64) -> Self {
        let key = rng.u64(..KEYS);
        match rng.u8(..kinds) {
            0 => Self::Text(key),
            1 => Self::Pair(key),
            2 => Self::Counter(key),
            3 => Self::Field(key),
            4 => Self::List { round, key },
            _ => Self::Sorted { round, key },
        }
    }

    fn name(self, writer: usize) -> String {
        match self {
            Self::Text(key) => format!("text:{writer}:{key}"),
            Self::Pair(key) => format!("pair:{writer}:{key}"),
            Self::Field(key) => format!("hash:{key}"),
            Self::Counter(key) => format!("counter:{key}"),
            Self::List { round, key } => format!("list:{round}:{key}"),
            Self::Sorted { round, key } => format!("sorted:{round}:{key}"),
        }
    }
}

/// A value that only `writer` sends, once. Numbers are told apart by their first digits already.
fn value_of(writer: usize, number: u64) -> String {
    let padding = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % VALUE_BYTES;
    format!("{writer}.{number}.{}", "v".repeat(padding as usize))
}

fn short_of(writer: usize, number: u64) -> String {
    format!("{writer}.{number}.")
}

/// The number in a value of `writer`; `None` if it is another's. The value must be whole.
fn number_in(writer: usize, value: &Value, whole: fn(usize, u64) -> String) -> Option<u64> {
    let Value::Bulk(bytes) = value else { panic!("{value:?}") };
    let text = std::str::from_utf8(bytes).expect("digits");
    let mut parts = text.split('.');
    let (owner, number) = (parts.next().expect("a writer"), parts.next().expect("a number"));
    let number = number.parse().expect("a number");
    let owner: usize = owner.parse().expect("a writer");
    assert_eq!(text, whole(owner, number), "a value that was never sent");
    (owner == writer).then_some(number)
}

/// One writer: its logs outlive connections and servers.
struct Writer {
    number: usize,
    /// How many kinds of keys it writes.
    kinds: u8,
    rng: Rng,
    next: u64,
    logs: BTreeMap<Place, Log>,
}

impl Writer {
    /// Writes until the connection breaks.
    fn run(&mut self, address: &str, round: u64) {
        let Some(mut connection) = Connection::open(address) else { return };
        while self.run_once(&mut connection, round).is_some() {}
    }

    /// Sends some requests together and awaits their replies.
    fn run_once(&mut self, connection: &mut Connection, round: u64) -> Option<()> {
        let mut bytes = Vec::new();
        // What each reply acknowledges, and what it must be if that is known.
        let mut replies: Vec<(Option<Place>, Option<Value>)> = Vec::new();
        for _ in 0..self.rng.usize(1..=RUN) {
            let place = Place::any(&mut self.rng, self.kinds, round);
            let log = self.logs.get(&place).filter(|_| matches!(place, Place::Text(_)));
            if let Some(last) = log.and_then(|log| log.sent.last())
                && self.rng.bool()
            {
                // Its own writes are seen, those of this run too.
                encode(&mut bytes, &["GET", &place.name(self.number)]);
                replies.push((None, Some(Value::Bulk(value_of(self.number, *last).into()))));
                continue;
            }
            let number = self.next;
            self.next += 1;
            self.logs.entry(place).or_default().sent.push(number);
            let before = if matches!(place, Place::Pair(_)) { 3 } else { 0 };
            replies.extend((0..before).map(|_| (None, None)));
            replies.push((Some(place), None));
            self.request(&mut bytes, place, number);
        }
        connection.send(&bytes)?;
        for (place, expected) in replies {
            let reply = connection.receive()?;
            assert!(!matches!(reply, Value::Error(_) | Value::Null), "{place:?}: {reply:?}");
            if let Some(expected) = expected {
                assert_eq!(reply, expected, "a connection does not see its own write");
            }
            if let Some(place) = place {
                self.logs.entry(place).or_default().acknowledged += 1;
            }
        }
        Some(())
    }

    fn request(&self, bytes: &mut Vec<u8>, place: Place, number: u64) {
        let (name, value) = (place.name(self.number), value_of(self.number, number));
        match place {
            Place::Text(_) => encode(bytes, &["SET", &name, &value]),
            Place::Pair(_) => {
                encode(bytes, &["MULTI"]);
                encode(bytes, &["SET", &format!("{name}:a"), &value]);
                encode(bytes, &["SET", &format!("{name}:b"), &value]);
                encode(bytes, &["EXEC"]);
            }
            Place::Field(_) => encode(bytes, &["HSET", &name, &self.number.to_string(), &value]),
            Place::Counter(_) => encode(bytes, &["INCR", &name]),
            Place::List { .. } => encode(bytes, &["RPUSH", &name, &short_of(self.number, number)]),
            Place::Sorted { .. } => {
                encode(bytes, &["ZADD", &name, &number.to_string(), &short_of(self.number, number)]);
            }
        }
    }

    /// Compares what is there with the logs, and lets the logs hold what is there.
    fn judge(&mut self, connection: &mut Connection) -> Result<(), String> {
        for (place, log) in &mut self.logs {
            let (name, own) = (place.name(self.number), self.number);
            let last = |value: &Value| match value {
                Value::Null => None,
                value => Some(number_in(own, value, value_of).expect("a value of its own")),
            };
            let judged = match place {
                Place::Counter(_) => continue,
                Place::Text(_) => settle_last(log, last(&connection.ask(&format!("GET {name}")))),
                Place::Field(_) => settle_last(log, last(&connection.ask(&format!("HGET {name} {own}")))),
                Place::Pair(_) => {
                    let a = last(&connection.ask(&format!("GET {name}:a")));
                    let b = last(&connection.ask(&format!("GET {name}:b")));
                    if a == b { settle_last(log, a) } else { Err(format!("half of EXEC: {a:?} and {b:?}")) }
                }
                Place::List { .. } => settle_all(log, own, &connection.ask(&format!("LRANGE {name} 0 -1"))),
                Place::Sorted { .. } => settle_all(log, own, &connection.ask(&format!("ZRANGE {name} 0 -1"))),
            };
            judged.map_err(|what| format!("{name}, writer {own}: {what}"))?;
        }
        Ok(())
    }
}

fn settle_last(log: &mut Log, found: Option<u64>) -> Result<(), String> {
    log.judge_last(found)?;
    log.sent = found.into_iter().collect();
    log.acknowledged = log.sent.len();
    Ok(())
}

fn settle_all(log: &mut Log, writer: usize, found: &Value) -> Result<(), String> {
    let Value::Array(values) = found else { panic!("{found:?}") };
    let found: Vec<u64> = values.iter().filter_map(|value| number_in(writer, value, short_of)).collect();
    log.judge_all(&found)?;
    log.sent = found;
    log.acknowledged = log.sent.len();
    Ok(())
}

/// All writers share the counters: what all sent and what all know is compared, and goes into
/// `totals`.
fn judge_counters(
    writers: &mut [Writer],
    totals: &mut BTreeMap<u64, u64>,
    connection: &mut Connection,
) -> Result<(), String> {
    for key in 0..KEYS {
        let total = totals.entry(key).or_default();
        let mut sum = Log::default();
        for writer in writers.iter_mut() {
            let log = writer.logs.remove(&Place::Counter(key)).unwrap_or_default();
            sum.sent.extend(log.sent);
            sum.acknowledged += log.acknowledged;
        }
        let found = match connection.ask(&format!("GET counter:{key}")) {
            Value::Null => 0,
            Value::Bulk(digits) => String::from_utf8_lossy(&digits).parse::<u64>().expect("a number"),
            other => panic!("{other:?}"),
        };
        let new = found.checked_sub(*total).ok_or(format!("counter {key} went from {total} to {found}"))?;
        sum.judge_count(new as usize).map_err(|what| format!("counter {key}: {what}"))?;
        *total = found;
    }
    Ok(())
}

/// Engines, and how many kinds of keys each holds.
const TREE: (&str, u8) = ("tree", 6);
const HASHLOG: (&str, u8) = ("hashlog", 3);

fn check_rounds((engine, kinds): (&str, u8), seed: u64, rounds: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = &folder.path().join("data");
    let start = || Serving::start_with(&["--engine", engine], dir);
    let mut rng = Rng::with_seed(seed);
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|number| Writer { number, kinds, rng: rng.fork(), next: 0, logs: BTreeMap::new() })
        .collect();
    let mut totals = BTreeMap::new();
    let (mut acknowledged, mut doubtful) = (0, 0);
    let mut serving = start();
    for round in 1..=rounds {
        let pause = Duration::from_millis(rng.u64(20..900));
        std::thread::scope(|scope| {
            for writer in &mut writers {
                scope.spawn(|| writer.run(&serving.address, round));
            }
            std::thread::sleep(pause);
            serving.signal("KILL");
        });
        serving.process.wait().expect("it ends");
        let logs = || writers.iter().flat_map(|writer| writer.logs.values());
        acknowledged += logs().map(|log| log.acknowledged).sum::<usize>();
        doubtful += logs().map(|log| log.sent.len() - log.acknowledged).sum::<usize>();
        if rng.u8(..4) == 0 {
            // Killed while it recovers, or just after.
            let mut early = start();
            std::thread::sleep(Duration::from_millis(rng.u64(..30)));
            early.signal("KILL");
            early.process.wait().expect("it ends");
        }
        serving = start();
        let mut connection = Connection::open(&serving.address).expect("it serves");
        let mut judged = judge_counters(&mut writers, &mut totals, &mut connection);
        for writer in &mut writers {
            judged = judged.and_then(|()| writer.judge(&mut connection));
            // Lists of the round before are looked at once more, and then no longer.
            writer.logs.retain(|place, _| match place {
                Place::List { round: of, .. } | Place::Sorted { round: of, .. } => of + 1 > round,
                _ => true,
            });
        }
        if let Err(what) = judged {
            panic!("{engine}, seed {seed}, round {round}, killed after {pause:?}: {what}");
        }
    }
    eprintln!(
        "{rounds} kills of {engine}, seed {seed}: {acknowledged} acknowledgements judged, {doubtful} requests in doubt"
    );
    assert!(acknowledged > rounds as usize * 100 && doubtful > 0, "seed {seed}: nothing was under way");
    serving.signal("TERM");
    assert!(serving.process.wait().expect("it ends").success());
}

fn number_from(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn seed() -> u64 {
    number_from("FIRN_SEED").unwrap_or_else(|| fastrand::u64(..))
}

#[test]
fn kills_lose_nothing_that_was_acknowledged() {
    check_rounds(TREE, seed(), 3);
}

#[test]
fn kills_lose_nothing_that_the_hashed_engine_acknowledged() {
    check_rounds(HASHLOG, seed(), 3);
}

#[test]
#[ignore = "minutes: the soak runs it"]
fn many_kills_lose_nothing_that_was_acknowledged() {
    for engine in [TREE, HASHLOG] {
        check_rounds(engine, seed(), number_from("FIRN_ROUNDS").unwrap_or(20));
    }
}

/// A checker that is content with anything would prove nothing.
#[test]
fn the_judge_sees_what_is_lost_made_up_or_out_of_order() {
    let log = Log { sent: vec![3, 5, 8, 9], acknowledged: 2 };
    assert_eq!(log.judge_last(Some(5)), Ok(()));
    assert_eq!(log.judge_last(Some(9)), Ok(()), "sent, and not known to have failed");
    assert!(log.judge_last(Some(3)).unwrap_err().contains("2 were acknowledged, and 1"));
    assert!(log.judge_last(None).unwrap_err().contains("2 were acknowledged, and 0"));
    assert!(log.judge_last(Some(4)).unwrap_err().contains("never sent"));
    assert_eq!(log.judge_all(&[3, 5]), Ok(()));
    assert_eq!(log.judge_all(&[3, 5, 8]), Ok(()));
    assert!(log.judge_all(&[3]).is_err(), "one is lost");
    assert!(log.judge_all(&[3, 5, 9]).is_err(), "one in the middle is lost");
    assert!(log.judge_all(&[5, 3, 8]).is_err(), "another order");
    assert!(log.judge_count(1).is_err() && log.judge_count(5).is_err());
    assert_eq!(log.judge_count(4), Ok(()));
}

/// The judge is asked about a real server that forgot: what was acknowledged is deleted behind its
/// back.
#[test]
fn a_write_that_a_server_forgot_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut serving = Serving::start(dir.path());
    let mut connection = Connection::open(&serving.address).unwrap();
    for place in [
        Place::Text(1),
        Place::Pair(1),
        Place::Field(1),
        Place::List { round: 1, key: 1 },
        Place::Sorted { round: 1, key: 1 },
    ] {
        let mut writer =
            Writer { number: 0, kinds: TREE.1, rng: Rng::with_seed(1), next: 0, logs: BTreeMap::new() };
        let mut bytes = Vec::new();
        writer.request(&mut bytes, place, 7);
        connection.send(&bytes).unwrap();
        let replies = if matches!(place, Place::Pair(_)) { 4 } else { 1 };
        (0..replies).for_each(|_| drop(connection.receive().unwrap()));
        writer.logs.insert(place, Log { sent: vec![7], acknowledged: 1 });
        writer.judge(&mut connection).unwrap();
        let lost = if replies == 4 { format!("{}:a", place.name(0)) } else { place.name(0) };
        assert_eq!(connection.ask(&format!("DEL {lost}")), Value::Integer(1));
        writer.judge(&mut connection).unwrap_err();
    }
    serving.signal("TERM");
    assert!(serving.process.wait().unwrap().success());
}
