//! Scripts as texts, and what all workers know of them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha1::{Digest, Sha1};

use super::cache::Cache;
use crate::bounds::SCRIPTS_BYTES_MAX;
use crate::failure::{Failure, Result};

/// The SHA-1 of a script's text.
pub(super) type Sum = [u8; 20];

/// A script.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) sum: Sum,
    text: Vec<u8>,
    /// Where Lua begins in it.
    start: usize,
    /// It has said that it only reads.
    pub(super) is_reading: bool,
}

impl Source {
    /// What `text` says before its first line is Lua.
    ///
    /// # Errors
    /// The first line names another language or flags that there are not.
    pub(super) fn parse(text: &[u8]) -> Result<Self> {
        let mut source = Self { sum: sum_of(text), text: text.to_vec(), start: 0, is_reading: false };
        if !text.starts_with(b"#!") {
            return Ok(source);
        }
        let Some(end) = text.iter().position(|byte| *byte == b'\n') else {
            return Err(Failure::new("ERR Invalid script shebang"));
        };
        // The line end stays, so that lines are counted right.
        source.start = end;
        let line = String::from_utf8_lossy(&text[..end]).into_owned();
        let mut words = line.split_whitespace();
        let engine = words.next().unwrap_or_default();
        if engine != "#!lua" {
            return Err(Failure::of(format!("ERR Unexpected engine in script shebang: {engine}")));
        }
        for word in words {
            let Some(flags) = word.strip_prefix("flags=") else {
                return Err(Failure::of(format!("ERR Unknown lua shebang option: {word}")));
            };
            for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
                match flag {
                    "no-writes" => source.is_reading = true,
                    "allow-oom" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                    _ => return Err(Failure::of(format!("ERR Unexpected flag in script shebang: {flag}"))),
                }
            }
        }
        Ok(source)
    }

    /// Memory that keeping it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        // It is named by its sum in a map, and in another by its turn.
        size_of::<Self>() + self.text.capacity() + 4 * size_of::<Sum>()
    }

    /// Its Lua.
    pub(super) fn lua(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

/// The SHA-1 of `text`.
pub(super) fn sum_of(text: &[u8]) -> Sum {
    Sha1::digest(text).into()
}

/// A sum in hexadecimal.
pub(super) fn hexadecimal(sum: &Sum) -> String {
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A sum that a client names, in any case.
pub(super) fn parse_sum(word: &[u8]) -> Option<Sum> {
    let mut sum = Sum::default();
    if word.len() != 2 * sum.len() {
        return None;
    }
    for (byte, digits) in sum.iter_mut().zip(word.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(sum)
}

/// What all workers know of scripts.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    sources: Mutex<Cache>,
    /// Rises when all are forgotten.
    flushes: AtomicU64,
    /// Scripts that have run for a while, the oldest first.
    long: Mutex<Vec<Arc<LongRun>>>,
    /// Memory that all scripts hold which run.
    held_bytes: AtomicUsize,
}

/// A script that has run for a while.
#[derive(Debug, Default)]
pub(super) struct LongRun {
    is_killed: AtomicBool,
    begun_ms: u64,
}

impl LongRun {
    pub(super) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Acquire)
    }
}

impl Scripts {
    pub(super) fn get(&self, sum: &Sum) -> Option<Arc<Source>> {
        self.sources().get(sum)
    }

    /// A script is run: it is kept as long as others are not run more. How many had to go for it.
    pub(super) fn run(&self, source: &Arc<Source>) -> u64 {
        self.sources().run(source)
    }

    /// Keeps a script until all are forgotten.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn load(&self, source: &Arc<Source>) -> Result<()> {
        self.sources().load(source)
    }

    /// How many are kept, and memory that they take.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.sources().size()
    }

    /// Forgets all of them.
    pub(super) fn flush(&self) {
        *self.sources() = Cache::default();
        self.flushes.fetch_add(1, Ordering::AcqRel);
    }

    /// How often all were forgotten.
    pub(super) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// A script that holds `before` bytes is to hold `after`; `false`, and it does not, if all of
    /// them would hold too much.
    pub(super) fn change_part(&self, before: usize, after: usize) -> bool {
        if after <= before {
            self.held_bytes.fetch_sub(before - after, Ordering::AcqRel);
            return true;
        }
        let grown = |all: usize| all.checked_add(after - before).filter(|all| *all <= SCRIPTS_BYTES_MAX);
        self.held_bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, grown).is_ok()
    }

    /// A script has run for a while, since `begun_ms`: from now on it can be killed, until it says
    /// that it is over.
    pub(super) fn begin_long(&self, begun_ms: u64) -> Arc<LongRun> {
        let run = Arc::new(LongRun { begun_ms, ..LongRun::default() });
        self.long().push(Arc::clone(&run));
        run
    }

    /// It is over: whether it was killed. It can no longer be killed.
    pub(super) fn end_long(&self, run: &Arc<LongRun>) -> bool {
        let mut long = self.long();
        long.retain(|other| !Arc::ptr_eq(other, run));
        run.is_killed()
    }

    /// Kills every script that has run for a while; `false` if none has. Scripts that have not had
    /// to leave their thread are not here: see [`Running`](super::Running).
    pub(super) fn kill(&self) -> bool {
        let long = self.long();
        long.iter().for_each(|run| run.is_killed.store(true, Ordering::Release));
        !long.is_empty()
    }

    /// Whether a script runs since `begun_ms` or longer.
    pub(crate) fn is_any_since(&self, begun_ms: u64) -> bool {
        self.long().iter().any(|run| run.begun_ms <= begun_ms)
    }

    fn sources(&self) -> MutexGuard<'_, Cache> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn long(&self) -> MutexGuard<'_, Vec<Arc<LongRun>>> {
        self.long.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
