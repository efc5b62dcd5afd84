//! Log objects to the backend that all machines reach, one call for all threads that wait.

use std::sync::atomic::Ordering;

use crate::{Error, ErrorKind, Result, TakenOver};
use firn_format::Position;
use firn_format::file_name;

use super::env::SendEnv;
use super::gather::gather;
use super::{Pending, Sending, SharedLog};

/// Fewer log objects are never too many.
const OBJECTS_MIN: usize = 1000;

/// Bytes of the log for each log object, below which there are too many: reading as much takes
/// about as long as asking for one more object.
const BYTES_PER_OBJECT_MIN: u64 = 64 << 10;

/// What has log objects sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A write that is to be acknowledged.
    Writer,
    /// A flush that is to be committed, and will be after the next opening if it is not now.
    Flush,
}

impl SharedLog {
    /// Returns when everything below `end`, which is on this machine's device, is in log objects.
    /// Whether an edit names them is the caller's concern. A flush gives up between two log objects
    /// once the database closes; what is sent stays so.
    ///
    /// Concurrent callers share one log object: the first one makes it of everything that is
    /// synced, and the others find theirs in it. Blocks for creating an object.
    ///
    /// # Errors
    /// `Refused` where the backend refuses, or does not say, for long: what is published goes there
    /// with the next call. `Closed` if another machine has taken the database over; any other
    /// failure poisons the log.
    pub fn send_through<E: SendEnv>(&self, env: &E, end: Position, by: By) -> Result<()> {
        if self.through() >= end {
            return Ok(());
        }
        let seen = self.tries.load(Ordering::Acquire);
        let mut sending = self.lock_sending();
        if let Some((number, error)) = &sending.failed {
            // A caller that waited for a try that failed need not wait for another one.
            if *number > seen || env.is_closed() {
                return Err(error.clone());
            }
        }
        while self.through() < end {
            if by == By::Flush && env.is_stopping() {
                let message = "the database closes: the flush is not committed";
                return Err(Error::new(ErrorKind::Refused, "", message));
            }
            if sending.pending.is_empty() {
                let through = env.log().durable_through();
                let Some(gathered) = gather(env, self.through(), through)? else {
                    self.through.fetch_max(through.0, Ordering::AcqRel);
                    break;
                };
                sending.pending.extend(gathered.into_pending());
            }
            self.send_pending(env, &mut sending)?;
        }
        Ok(())
    }

    /// Creates the log objects that are pending, one after another. Where one fails, it and those
    /// after it stay pending.
    fn send_pending<E: SendEnv>(&self, env: &E, sending: &mut Sending) -> Result<()> {
        while let Some(Pending { kind, pieces, through, span_end }) = sending.pending.front() {
            let (number, through, span_end) = (sending.next, *through, *span_end);
            let bytes = self.id(number).encode(*kind, pieces);
            let tried = self.tries.fetch_add(1, Ordering::AcqRel) + 1;
            let created = env.log().check().and_then(|()| self.create(env, number, &bytes));
            sending.failed = created.as_ref().err().map(|error| (tried, error.clone()));
            created?;
            sending.pending.pop_front();
            sending.next += 1;
            self.lock_sent().own.push_back((number, span_end));
            self.through.fetch_max(through.0, Ordering::AcqRel);
            self.count.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether there are so many log objects that reading them one by one would take longer than
    /// reading what they hold.
    pub fn has_too_many<E: SendEnv>(&self, env: &E) -> bool {
        let count = self.lock_sent().own.len();
        if count < OBJECTS_MIN || !self.is_named() {
            return false;
        }
        let segments = env.segments();
        let bytes: u64 = segments.segments().iter().map(|it| it.region().published() as u64).sum();
        count as u64 > bytes / BYTES_PER_OBJECT_MIN
    }

    /// Sends the log again, in log objects as large as can be; the number of the first of them.
    /// Writers wait meanwhile.
    pub(super) fn send_again<E: SendEnv>(&self, env: &E) -> Result<u64> {
        let mut sending = self.lock_sending();
        // What a backend did not take before comes first.
        self.send_pending(env, &mut sending)?;
        let (first, through) = (sending.next, self.through());
        let mut from = Position(0);
        while let Some(gathered) = gather(env, from, through)? {
            from = gathered.through;
            sending.pending.extend(gathered.into_pending());
            // Where it fails its number is taken until the backend says so, and what it holds is
            // right.
            self.send_pending(env, &mut sending)?;
        }
        Ok(first)
    }

    /// Creates the log object `number`, unless it is there.
    fn create<E: SendEnv>(&self, env: &E, number: u64, bytes: &[u8]) -> Result<()> {
        let name = file_name::log_object(self.generation, number);
        let Err(error) = env.storage().publish(&name, bytes) else { return Ok(()) };
        match error.kind {
            ErrorKind::Refused | ErrorKind::Full | ErrorKind::Undecided => {
                let message = "shared storage does not take the log now";
                Err(Error::new(ErrorKind::Refused, "", message).because(error))
            }
            ErrorKind::Exists => match is_there(env, &name, bytes) {
                // An answer was lost.
                Ok(true) => Ok(()),
                Ok(false) => {
                    let sign = TakenOver(format!("{name} is not this one's log object"));
                    Err(refused_for_good(env, &Error::taken_over(sign)))
                }
                Err(error) if error.kind == ErrorKind::Refused => Err(error),
                Err(error) => Err(refused_for_good(env, &error)),
            },
            _ => Err(refused_for_good(env, &error)),
        }
    }
}

/// Whether the log object `name` is there with these bytes, durably.
fn is_there<E: SendEnv>(env: &E, name: &str, bytes: &[u8]) -> Result<bool> {
    let file = env.storage().open_read(name)?;
    let mut found = vec![0; file.len() as usize];
    file.read_at(0, &mut found)?;
    if found != bytes {
        return Ok(false);
    }
    env.storage().sync_dir()?;
    Ok(true)
}

fn refused_for_good<E: SendEnv>(env: &E, cause: &Error) -> Error {
    env.fail(cause);
    env.log().poisoned()
}
