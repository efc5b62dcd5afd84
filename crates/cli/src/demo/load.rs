//! What is written and read back: every key several times over, in another order each time.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::ending::{Ending, Failure, Result};

/// Times that every key is written: what is written over is what compactions remove.
const ROUNDS: u64 = 4;

/// Bytes of a value and of a key.
const VALUE_BYTES: u64 = 1000;
const KEY_BYTES: u64 = 16;

/// Requests that are sent before their answers are read.
const PIPELINE: u64 = 256;

/// A prime: multiples of it meet every key once, in an order that tables do not have.
const STEP: u64 = 1_000_003;

/// How long an answer may take. Writers are stopped while compactions are behind.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// A function of its key count: what each key holds after each round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    keys: u64,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.keys * ROUNDS * (KEY_BYTES + VALUE_BYTES);
        write!(f, "{} keys {ROUNDS} times, {} MB", self.keys, bytes / 1_000_000)
    }
}

impl Load {
    /// About so many bytes, one round of all keys at least.
    pub(super) fn new(bytes: u64) -> Self {
        let keys = (bytes / ROUNDS / (KEY_BYTES + VALUE_BYTES)).max(1000);
        // A multiple of the step would be met by its first key alone.
        Self { keys: keys + u64::from(keys.is_multiple_of(STEP)) }
    }

    /// Writes all rounds; says after each few which share is done.
    pub(super) fn write(&self, client: &mut Client, mut done: impl FnMut(f64) -> Result<()>) -> Result<()> {
        let all = (self.keys * ROUNDS) as f64;
        for round in 0..ROUNDS {
            for first in (0..self.keys).step_by(PIPELINE as usize) {
                let keys = first..self.keys.min(first + PIPELINE);
                let (mut requests, mut answers) = (Vec::new(), Vec::new());
                for at in keys {
                    let (key, value) = self.record(at, round);
                    request(&mut requests, &[b"SET", &key, &value]);
                    answers.extend_from_slice(b"+OK\r\n");
                }
                client.say(&requests, &answers)?;
                done((round * self.keys + first) as f64 / all)?;
            }
        }
        Ok(())
    }

    /// Reads every key, and compares with what it was written last.
    pub(super) fn compare(&self, client: &mut Client, mut done: impl FnMut(f64) -> Result<()>) -> Result<()> {
        for first in (0..self.keys).step_by(PIPELINE as usize) {
            let (mut requests, mut answers) = (Vec::new(), Vec::new());
            for at in first..self.keys.min(first + PIPELINE) {
                let (key, value) = self.record(at, ROUNDS - 1);
                request(&mut requests, &[b"GET", &key]);
                bulk(&mut answers, &value);
            }
            client.say(&requests, &answers)?;
            done(first as f64 / self.keys as f64)?;
        }
        Ok(())
    }

    /// Keys that there are.
    pub(super) fn keys(&self) -> u64 {
        self.keys
    }

    /// The record that is written as number `at` of a round.
    fn record(&self, at: u64, round: u64) -> (Vec<u8>, Vec<u8>) {
        let key = at * STEP % self.keys;
        let words = (0..VALUE_BYTES / 8).flat_map(|word| mixed(key << 24 | round << 16 | word).to_le_bytes());
        (format!("{key:0width$}", width = KEY_BYTES as usize).into_bytes(), words.collect())
    }
}

/// Bits that look drawn, so that values are not smaller in tables (the finalizer of splitmix64).
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

fn bulk(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
    to.extend_from_slice(bytes);
    to.extend_from_slice(b"\r\n");
}

fn request(to: &mut Vec<u8>, words: &[&[u8]]) {
    to.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    words.iter().for_each(|word| bulk(to, word));
}

/// A connection to the database.
#[derive(Debug)]
pub(super) struct Client(BufReader<TcpStream>);

/// What the database counts of its background work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) flushes: u64,
    pub(super) compactions: u64,
    pub(super) blob_gcs: u64,
    /// Jobs that were to run elsewhere and did not.
    pub(super) passed_on: u64,
    pub(super) slowed_us: u64,
    pub(super) stopped_us: u64,
}

impl Client {
    pub(super) fn connect(address: &str) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Failure::new(Ending::Failed, format!("cannot connect to the database at {address}: {error}"))
        };
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_read_timeout(Some(ANSWER_MAX)).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends `requests`, and expects these `answers` and no other.
    fn say(&mut self, requests: &[u8], answers: &[u8]) -> Result<()> {
        self.0.get_mut().write_all(requests).map_err(lost)?;
        let mut found = vec![0; answers.len()];
        let (mut have, mut same) = (0, true);
        // Read as it comes: a wrong answer may be shorter, and nothing would follow it.
        while same && have < answers.len() {
            match self.0.read(&mut found[have..]).map_err(lost)? {
                0 => return Err(lost(std::io::ErrorKind::UnexpectedEof.into())),
                count => {
                    same = found[have..have + count] == answers[have..have + count];
                    have += count;
                }
            }
        }
        if same {
            return Ok(());
        }
        let at = found.iter().zip(answers).take(have).take_while(|(found, answer)| found == answer).count();
        found.truncate(have);
        // What came with it, for a reader.
        found.extend_from_slice(self.0.buffer());
        let shown =
            |bytes: &[u8]| bytes[at.saturating_sub(8)..bytes.len().min(at + 60)].escape_ascii().to_string();
        let what = format!("the database answered {}, where {} was expected", shown(&found), shown(answers));
        Err(Failure::new(Ending::Failed, what))
    }

    /// What it counts now.
    pub(super) fn counts(&mut self) -> Result<Counts> {
        let mut asked = Vec::new();
        request(&mut asked, &[b"INFO", b"firn"]);
        self.0.get_mut().write_all(&asked).map_err(lost)?;
        let mut length = String::new();
        self.0.read_line(&mut length).map_err(lost)?;
        let bytes = length.trim().strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
        let bytes = bytes.filter(|bytes| *bytes < 1 << 20).ok_or_else(|| {
            Failure::new(Ending::Failed, format!("the database answered INFO with {:?}", length.trim()))
        })?;
        let mut text = vec![0; bytes + 2];
        self.0.read_exact(&mut text).map_err(lost)?;
        counts_in(&String::from_utf8_lossy(&text))
    }
}

fn counts_in(text: &str) -> Result<Counts> {
    let count = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found
            .and_then(|number| number.trim().parse().ok())
            .ok_or_else(|| Failure::new(Ending::Failed, format!("the database's INFO does not tell {name}")))
    };
    Ok(Counts {
        flushes: count("flush_count")?,
        compactions: count("compaction_count")?,
        blob_gcs: count("blob_gc_count")?,
        passed_on: count("jobs_passed_on_count")?,
        slowed_us: count("slowdown_us_total")?,
        stopped_us: count("stop_us_total")?,
    })
}

fn lost(error: std::io::Error) -> Failure {
    Failure::new(Ending::Failed, format!("lost the connection to the database: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_meets_every_key_once_and_no_two_values_are_the_same() {
        let load = Load::new(5 << 20);
        let records: Vec<_> =
            (0..ROUNDS).flat_map(|round| (0..load.keys()).map(move |at| load.record(at, round))).collect();
        let keys: std::collections::BTreeSet<_> = records.iter().map(|(key, _)| key).collect();
        let values: std::collections::BTreeSet<_> = records.iter().map(|(_, value)| value).collect();
        assert_eq!((keys.len() as u64, values.len()), (load.keys(), records.len()));
        assert!(records.iter().all(|(key, value)| (key.len(), value.len()) == (16, 1000)));
        assert_eq!(Load::new(STEP * ROUNDS * 1016).keys(), STEP + 1);
    }

    #[test]
    fn a_wrong_answer_is_shown_where_it_begins_to_differ() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut client = Client::connect(&address).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"+OK\r\n+OK\r\n-ERR disk full\r\n").unwrap();
        client.say(b"x", b"+OK\r\n").unwrap();
        let failure = client.say(b"x", b"+OK\r\n+OK\r\n").unwrap_err().to_string();
        assert!(failure.contains("ERR disk full"), "{failure}");
        drop(server);
        assert!(client.say(b"x", b"+OK\r\n").is_err());
    }
}
