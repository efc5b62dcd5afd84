//! What is asked of a server: requests of one command, drawn and written.

use std::sync::Arc;

use clap::ValueEnum;
use fastrand::Rng;

use crate::distribution::{Distribution, ScrambledZipfian, Sequential};
use crate::workload::{Kind, ValuePool};

/// Digits of a number in keys, fields and members; more than any number of keys has.
const DIGITS: usize = 12;

/// Elements that one hash, list or sorted set gets.
const ELEMENTS_PER_COLLECTION: u64 = 100;

/// Pairs of one MSET.
const MSET_PAIRS: usize = 10;

/// A command that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RespCommand {
    /// `GET key:n`
    Get,
    /// `SET key:n value`
    Set,
    /// `INCR counter:n`
    Incr,
    /// `HSET hash:n/100 n%100 value`
    Hset,
    /// `LPUSH list:n/100 value`; lists grow for as long as it runs
    Lpush,
    /// `ZADD zset:n/100 n%100 n%100`
    Zadd,
    /// `MSET key:n value` with ten keys; counts as one request
    Mset,
    /// `PING`
    Ping,
}

/// Which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Keys {
    /// All of them equally often
    Uniform,
    /// Few of them often, as YCSB draws them (theta 0.99)
    Zipfian,
    /// One after another, shared by all threads
    Sequential,
}

impl Keys {
    /// Draws from `count` numbers. Clone it for each thread.
    pub(super) fn over(self, count: u64) -> Distribution {
        let last = count.max(1) - 1;
        match self {
            Keys::Uniform => Distribution::Uniform { first: 0, last },
            Keys::Zipfian => Distribution::Zipfian(ScrambledZipfian::new(0, last)),
            Keys::Sequential => Distribution::Sequential(Arc::new(Sequential::new(0, last))),
        }
    }

    /// The name results carry.
    pub fn name(self) -> &'static str {
        match self {
            Keys::Uniform => "uniform",
            Keys::Zipfian => "zipfian",
            Keys::Sequential => "sequential",
        }
    }
}

/// A piece of an argument.
#[derive(Clone, Copy)]
enum Piece {
    Word(&'static str),
    /// A number is drawn, and written.
    Number,
    /// A number is drawn, and the number of its collection written.
    Collection,
    /// Where the number drawn last stands in its collection.
    Element,
    Value,
}

impl RespCommand {
    /// The name results carry.
    pub fn name(self) -> &'static str {
        match self {
            RespCommand::Get => "get",
            RespCommand::Set => "set",
            RespCommand::Incr => "incr",
            RespCommand::Hset => "hset",
            RespCommand::Lpush => "lpush",
            RespCommand::Zadd => "zadd",
            RespCommand::Mset => "mset",
            RespCommand::Ping => "ping",
        }
    }

    /// What kind of operation progress and measures take it for.
    pub(super) fn kind(self) -> Kind {
        match self {
            RespCommand::Get | RespCommand::Ping => Kind::Read,
            _ => Kind::Update,
        }
    }

    /// The command that, once for every number, writes what this one works on; `None` if it needs
    /// nothing.
    pub fn filled_by(self) -> Option<RespCommand> {
        match self {
            RespCommand::Get | RespCommand::Set | RespCommand::Mset => Some(RespCommand::Set),
            RespCommand::Incr | RespCommand::Hset | RespCommand::Lpush | RespCommand::Zadd => Some(self),
            RespCommand::Ping => None,
        }
    }

    fn arguments(self) -> Vec<Vec<Piece>> {
        use Piece::{Collection, Element, Number, Value, Word};
        let word = |word| vec![Word(word)];
        let pair = || [vec![Word("key:"), Number], vec![Value]];
        match self {
            RespCommand::Get => vec![word("GET"), vec![Word("key:"), Number]],
            RespCommand::Set => [vec![word("SET")], pair().into()].concat(),
            RespCommand::Incr => vec![word("INCR"), vec![Word("counter:"), Number]],
            RespCommand::Hset => {
                vec![word("HSET"), vec![Word("hash:"), Collection], vec![Element], vec![Value]]
            }
            RespCommand::Lpush => vec![word("LPUSH"), vec![Word("list:"), Collection], vec![Value]],
            RespCommand::Zadd => {
                vec![word("ZADD"), vec![Word("zset:"), Collection], vec![Element], vec![Element]]
            }
            RespCommand::Mset => {
                std::iter::once(word("MSET")).chain((0..MSET_PAIRS).flat_map(|_| pair())).collect()
            }
            RespCommand::Ping => vec![word("PING")],
        }
    }
}

/// What a request is made of, in the order of its bytes.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(Vec<u8>),
    Number,
    Collection,
    Element,
    Value,
}

/// One thread's requests.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    parts: Vec<Part>,
    keys: Distribution,
    values: ValuePool,
    value_bytes: usize,
    random: Rng,
}

impl Requests {
    /// Requests of `command` on what `keys` draws, a function of `seed`.
    pub(super) fn new(
        command: RespCommand,
        keys: Distribution,
        values: ValuePool,
        value_bytes: usize,
        seed: u64,
    ) -> Self {
        let parts = parts(&command.arguments(), value_bytes);
        Self { parts, keys, values, value_bytes, random: Rng::with_seed(seed) }
    }

    /// Appends the next request.
    pub(super) fn append(&mut self, out: &mut Vec<u8>) {
        let mut number = 0;
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Number => {
                    number = self.keys.draw(&mut self.random);
                    append_digits(out, number);
                }
                Part::Collection => {
                    number = self.keys.draw(&mut self.random);
                    append_digits(out, number / ELEMENTS_PER_COLLECTION);
                }
                Part::Element => append_digits(out, number % ELEMENTS_PER_COLLECTION),
                Part::Value => out.extend_from_slice(self.values.draw(self.value_bytes, &mut self.random)),
            }
        }
    }
}

/// Everything that does not change from request to request, put together: all arguments have a
/// fixed length.
fn parts(arguments: &[Vec<Piece>], value_bytes: usize) -> Vec<Part> {
    let length = |piece: &Piece| match piece {
        Piece::Word(word) => word.len(),
        Piece::Value => value_bytes,
        Piece::Number | Piece::Collection | Piece::Element => DIGITS,
    };
    let mut parts = Vec::new();
    let mut text = format!("*{}\r\n", arguments.len()).into_bytes();
    for pieces in arguments {
        let bytes: usize = pieces.iter().map(length).sum();
        text.extend_from_slice(format!("${bytes}\r\n").as_bytes());
        for piece in pieces {
            let part = match piece {
                Piece::Word(word) => {
                    text.extend_from_slice(word.as_bytes());
                    continue;
                }
                Piece::Number => Part::Number,
                Piece::Collection => Part::Collection,
                Piece::Element => Part::Element,
                Piece::Value => Part::Value,
            };
            parts.push(Part::Text(std::mem::take(&mut text)));
            parts.push(part);
        }
        text.extend_from_slice(b"\r\n");
    }
    parts.push(Part::Text(text));
    parts
}

/// The last [`DIGITS`] digits of `number`.
fn append_digits(out: &mut Vec<u8>, number: u64) {
    let mut digits = [b'0'; DIGITS];
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        if rest == 0 {
            break;
        }
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&digits);
}

#[cfg(test)]
mod tests;
