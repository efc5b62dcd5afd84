//! Groups to the place that all machines reach, one call for everybody who waits.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use firn_engine::{Error, ErrorKind, Result};
use firn_format::Position;
use firn_format::file_name;
use firn_format::manifest::Change;

use super::Pending;
use crate::database::Database;
use crate::error::from_storage;
use crate::stats::count;
use crate::version::manifest::publish_until_told;

impl Database {
    /// Refuses writes that are to outlive the machine where nothing does.
    pub(crate) fn check_shared(&self) -> Result<()> {
        match self.storage.shared_part() {
            Some(_) => Ok(()),
            None => Err(not_shared(&self.storage.describe())),
        }
    }

    /// Returns when another machine that takes the database over finds everything below `end`. It is on this machine's device then, too.
    ///
    /// Concurrent callers share one group: whoever comes first makes it of everything that is published, and the others find
    /// theirs in it. Blocks for a sync and for creating an object; the first time in a process also for an edit, and for as many objects as
    /// the log has.
    ///
    /// # Errors
    /// `Retry` where the place refuses, or does not say, for long: the writes are here and go there with the next call. `Closed` if
    /// another machine has taken the database over; any other failure poisons the log.
    pub(crate) fn share_through(&self, end: Position) -> Result<()> {
        let is_named = || self.groups.is_named.load(Ordering::Acquire);
        if is_named() && self.groups.through() >= end {
            return Ok(());
        }
        self.check_shared()?;
        // So that what is recovered on this machine never is less than what another one would find.
        self.log.sync_through(end)?;
        if !is_named() {
            self.name_groups(end)?;
        }
        self.send_through(end)
    }

    /// Sends the whole log, and says in an edit where it is.
    fn name_groups(&self, end: Position) -> Result<()> {
        let groups = &self.groups;
        let _naming = groups.naming.lock().unwrap_or_else(PoisonError::into_inner);
        if groups.is_named.load(Ordering::Acquire) {
            return Ok(());
        }
        // What is drained from now on is in a group before.
        groups.is_begun.store(true, Ordering::Release);
        self.send_through(end)?;
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let next = groups.lock_sending().next;
        let first = groups.lock_sent().own.front().map_or(next, |(number, _)| *number);
        manifest.commit(&[Change::Groups { generation: groups.generation, first }])?;
        groups.is_named.store(true, Ordering::Release);
        let older = groups.lock_sent().older.take();
        drop(manifest);
        for name in older.into_iter().flat_map(|older| older.names) {
            self.graveyard.bury(name);
        }
        self.wake_background();
        Ok(())
    }

    /// As [`share_through`](Self::share_through) for an `end` that is on this machine's device; whether an edit names the groups is the
    /// caller's concern.
    pub(crate) fn send_through(&self, end: Position) -> Result<()> {
        let groups = &self.groups;
        if groups.through() >= end {
            return Ok(());
        }
        let mut sending = groups.lock_sending();
        while groups.through() < end {
            self.log.check()?;
            let pending = match sending.pending.take() {
                Some(pending) => pending,
                None => {
                    let through = self.log.watermark();
                    let Some(gathered) = self.gather(groups.through(), through)? else {
                        groups.through.fetch_max(through.0, Ordering::AcqRel);
                        break;
                    };
                    let bytes = groups.id(sending.next).encode(&gathered.pieces);
                    Pending { bytes, through: gathered.through, span_end: gathered.span_end }
                }
            };
            let number = sending.next;
            if let Err(error) = self.create_group(number, &pending.bytes) {
                sending.pending = Some(pending);
                return Err(error);
            }
            sending.next += 1;
            groups.lock_sent().own.push_back((number, pending.span_end));
            count(&groups.count, 1);
            count(&groups.bytes, pending.bytes.len() as u64);
            groups.through.fetch_max(pending.through.0, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Creates the group `number`, unless it is there.
    fn create_group(&self, number: u64, bytes: &[u8]) -> Result<()> {
        use firn_storage::ErrorKind as Kind;
        let name = file_name::group(self.groups.generation, number);
        let Err(error) = publish_until_told(&*self.storage, &name, bytes) else { return Ok(()) };
        match error.kind {
            Kind::Refused | Kind::Full | Kind::Undecided => {
                let told =
                    "what was written is not on shared storage yet; it goes there with the next such write";
                Err(Error::new(ErrorKind::Retry, told).because(from_storage(error)))
            }
            Kind::Exists => match self.is_group(&name, bytes) {
                // An answer was lost.
                Ok(true) => Ok(()),
                Ok(false) => {
                    let message = format!(
                        "the database was opened on another machine ({name} is not this one's): nothing is written here any more"
                    );
                    Err(self.refused_for_good(&Error::new(ErrorKind::Closed, message)))
                }
                Err(error) if error.kind == Kind::Refused => Err(from_storage(error)),
                Err(error) => Err(self.refused_for_good(&from_storage(error))),
            },
            _ => Err(self.refused_for_good(&from_storage(error))),
        }
    }

    /// Whether the group `name` is there with these bytes, durably.
    fn is_group(&self, name: &str, bytes: &[u8]) -> firn_storage::Result<bool> {
        let file = self.storage.open_read(name)?;
        let mut found = vec![0; file.len() as usize];
        file.read_at(0, &mut found)?;
        if found != bytes {
            return Ok(false);
        }
        self.storage.sync_dir()?;
        Ok(true)
    }

    fn refused_for_good(&self, cause: &Error) -> Error {
        self.fail(cause);
        self.log.poisoned()
    }
}

/// What whoever asks for `Shared` durability at `place` is told.
pub(crate) fn not_shared(place: &str) -> Error {
    Error::invalid(format!(
        "durability `shared` needs a place that other machines reach, and {place} is not divided: name a shared place, or ask for `disk`"
    ))
}
