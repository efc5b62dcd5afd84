//! Data that is removed as fast as it comes, on servers. Does a round cost the same after many
//! others, and how long does it take beside another server?
//!
//! One connection sends `depth` rounds together and reads their answers. A store that keeps removed
//! records for a while passes them again with each look at the front, unless it remembers that they
//! are dead.

use std::collections::VecDeque;
use std::ops::Range;

use clap::ValueEnum;
use firn_engine::{Error, ErrorKind, Result};
use firn_protocol::resp::Value;
use serde::Serialize;

use crate::measure::now;
use crate::report::{figure, table_text};
use crate::resp::{Contender, median, order};
use crate::server::Dialog;

mod args;

pub use args::QueuesArgs;

/// What a round does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum QueueWorkload {
    /// `ZPOPMIN`, of a sorted set that had an element for each round
    Drain,
    /// `ZADD` of the greatest score and `ZPOPMIN`
    SortedSet,
    /// `RPUSH` and `LPOP`
    List,
    /// `SET` of a new key, `DEL` of the oldest one, and one step of `SCAN` from the front
    Scan,
    /// `SET` of a new key, `DEL` of the oldest one, and `RANDOMKEY`
    Randomkey,
}

/// One workload on one server, once.
#[derive(Clone, Debug, Serialize)]
pub struct QueueResult {
    /// Name of the server.
    pub server: String,
    /// What was done.
    pub workload: String,
    /// Rounds whose requests were sent together.
    pub depth: u64,
    /// Rounds.
    pub rounds: u64,
    /// Seconds that all rounds took.
    pub seconds: f64,
    /// Seconds that the last tenth of the rounds took by those of the first tenth.
    pub last_to_first: f64,
    /// The slowest `depth` rounds, milliseconds.
    pub slowest_ms: f64,
}

/// Runs what `args` say, with a line for each result and a table at the end.
///
/// # Errors
/// `Invalid` where a server is not empty or there are fewer than ten times `depth` rounds; `Retry`
/// where a server is not there; `Closed` where one answers an error, or what it cannot.
pub fn run_queues(args: &QueuesArgs) -> Result<Vec<QueueResult>> {
    let depth_max = args.depths.iter().copied().max().unwrap_or(1);
    if args.rounds < 10 * depth_max {
        return Err(Error::invalid(format!(
            "--rounds {}: the first and the last tenth are compared, so at least {} are needed",
            args.rounds,
            10 * depth_max
        )));
    }
    Contender::check_names(&args.compare)?;
    let mut results = Vec::new();
    for workload in &args.workloads {
        for depth in &args.depths {
            for repetition in 0..args.repetitions as usize {
                for turn in order(args.compare.len(), repetition) {
                    let Some(server) = args.compare.get(turn) else { continue };
                    let result = Run::new(args, *workload, *depth, server)?.measure()?;
                    eprintln!("{}", line(&result));
                    results.push(result);
                }
            }
        }
    }
    print!("\n{}", table(args, &results));
    if let Some(path) = &args.json {
        let text = serde_json::to_string(&results)
            .map_err(|error| Error::bug("a result has no JSON form").because(error))?;
        crate::report::write_text(path, &format!("{text}\n"))?;
    }
    Ok(results)
}

/// A workload on a server.
struct Run<'a> {
    workload: QueueWorkload,
    depth: u64,
    rounds: u64,
    length: u64,
    server: &'a Contender,
    dialog: Dialog,
    /// Answers that are outstanding.
    expected: VecDeque<Answer>,
}

/// What an answer must be.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// Anything but an error.
    Done,
    /// Anything that is there.
    Element,
}

impl<'a> Run<'a> {
    fn new(args: &QueuesArgs, workload: QueueWorkload, depth: u64, server: &'a Contender) -> Result<Self> {
        let mut dialog = Dialog::open(&server.address)?;
        match dialog.call(&[b"DBSIZE"])? {
            Value::Integer(0) => {}
            found => {
                return Err(Error::invalid(format!(
                    "{} has keys (DBSIZE answers {found:?}): name an empty server or database",
                    server.name
                )));
            }
        }
        let (rounds, length) = (args.rounds, args.length);
        Ok(Self { workload, depth, rounds, length, server, dialog, expected: VecDeque::new() })
    }

    fn measure(mut self) -> Result<QueueResult> {
        self.fill()?;
        let begun = now();
        let (mut tenths, mut slowest_ms) = ([0.0; 10], 0.0_f64);
        let mut round = 0;
        while round < self.rounds {
            let batch = round..self.rounds.min(round + self.depth);
            let before = now();
            batch.clone().for_each(|round| self.ask(round));
            self.answers()?;
            let took = before.elapsed().as_secs_f64();
            if let Some(tenth) = tenths.get_mut((round * 10 / self.rounds) as usize) {
                *tenth += took;
            }
            slowest_ms = slowest_ms.max(took * 1e3);
            round = batch.end;
        }
        let seconds = begun.elapsed().as_secs_f64();
        self.remove()?;
        let [first, .., last] = tenths;
        Ok(QueueResult {
            server: self.server.name.clone(),
            workload: name(self.workload),
            depth: self.depth,
            rounds: self.rounds,
            seconds,
            last_to_first: last / first,
            slowest_ms,
        })
    }

    /// Writes what is there before the first round.
    fn fill(&mut self) -> Result<()> {
        let count = if self.workload == QueueWorkload::Drain { self.rounds } else { self.length };
        for chunk in chunks(0..count) {
            chunk.for_each(|number| self.push(number));
            self.answers()?;
        }
        Ok(())
    }

    /// Removes what is left, so that the next workload finds the server empty.
    fn remove(&mut self) -> Result<()> {
        let keys = match self.workload {
            QueueWorkload::Scan | QueueWorkload::Randomkey => self.rounds..self.rounds + self.length,
            _ => 0..0,
        };
        for chunk in chunks(keys) {
            chunk.for_each(|number| self.say(&[b"DEL", key(number).as_bytes()], Answer::Done));
            self.answers()?;
        }
        self.say(&[b"DEL", b"queue"], Answer::Done);
        self.answers()
    }

    fn say(&mut self, arguments: &[&[u8]], answer: Answer) {
        self.dialog.ask(arguments);
        self.expected.push_back(answer);
    }

    /// Adds element or key `number`.
    fn push(&mut self, number: u64) {
        let element = key(number);
        let element = element.as_bytes();
        match self.workload {
            QueueWorkload::Drain | QueueWorkload::SortedSet => {
                self.say(&[b"ZADD", b"queue", number.to_string().as_bytes(), element], Answer::Done);
            }
            QueueWorkload::List => self.say(&[b"RPUSH", b"queue", element], Answer::Done),
            QueueWorkload::Scan | QueueWorkload::Randomkey => {
                self.say(&[b"SET", element, b"1"], Answer::Done);
            }
        }
    }

    /// Asks what round `round` does.
    fn ask(&mut self, round: u64) {
        if self.workload != QueueWorkload::Drain {
            self.push(round + self.length);
        }
        match self.workload {
            QueueWorkload::Drain | QueueWorkload::SortedSet => {
                self.say(&[b"ZPOPMIN", b"queue"], Answer::Element)
            }
            QueueWorkload::List => self.say(&[b"LPOP", b"queue"], Answer::Element),
            QueueWorkload::Scan => {
                self.say(&[b"DEL", key(round).as_bytes()], Answer::Done);
                self.say(&[b"SCAN", b"0", b"COUNT", b"10"], Answer::Element);
            }
            QueueWorkload::Randomkey => {
                self.say(&[b"DEL", key(round).as_bytes()], Answer::Done);
                self.say(&[b"RANDOMKEY"], Answer::Element);
            }
        }
    }

    /// Sends what was asked and takes all answers.
    fn answers(&mut self) -> Result<()> {
        self.dialog.send()?;
        while let Some(expected) = self.expected.pop_front() {
            let answer = self.dialog.answer()?;
            let is_right = match (expected, &answer) {
                (_, Value::Error(_)) | (Answer::Element, Value::Null) => false,
                (Answer::Element, Value::Array(elements)) => !elements.is_empty(),
                _ => true,
            };
            if !is_right {
                let what = format!("{} answers {answer:?} in {}", self.server.name, name(self.workload));
                return Err(Error::new(ErrorKind::Closed, what));
            }
        }
        Ok(())
    }
}

/// The name of an element, or of a key.
fn key(number: u64) -> String {
    format!("element:{number:010}")
}

fn name(workload: QueueWorkload) -> String {
    workload.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// `numbers` in pieces whose answers fit buffers of sockets.
fn chunks(numbers: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = numbers.end;
    numbers.step_by(256).map(move |first| first..end.min(first + 256))
}

fn line(result: &QueueResult) -> String {
    format!(
        "{:>10} {:>12} depth {:>3}  {:>8.2} s  last tenth {:.2} of the first  slowest {:.1} ms",
        result.server, result.workload, result.depth, result.seconds, result.last_to_first, result.slowest_ms
    )
}

/// Medians of each workload, depth and server, and their ratios to the first server.
fn table(args: &QueuesArgs, results: &[QueueResult]) -> String {
    let headings = ["workload", "server", "depth", "us a round", "ratio", "last/first", "slowest ms"];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    let first = args.compare.first().map(|server| server.name.as_str()).unwrap_or_default();
    for workload in &args.workloads {
        for depth in &args.depths {
            let of = |server: &str, get: fn(&QueueResult) -> f64| {
                let own = results.iter().filter(|result| {
                    result.server == server && result.depth == *depth && result.workload == name(*workload)
                });
                median(&own.map(get).collect::<Vec<_>>())
            };
            for server in &args.compare {
                let seconds = of(&server.name, |result| result.seconds);
                rows.push(vec![
                    name(*workload),
                    server.name.clone(),
                    depth.to_string(),
                    figure(seconds * 1e6 / args.rounds as f64),
                    format!("{:.2}x", seconds / of(first, |result| result.seconds)),
                    format!("{:.2}", of(&server.name, |result| result.last_to_first)),
                    figure(of(&server.name, |result| result.slowest_ms)),
                ]);
            }
        }
    }
    table_text(&rows, 2)
}

#[cfg(test)]
mod tests;
