//! Groups to the place that all machines reach, one call for all threads that wait.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use firn_engine::{Error, ErrorKind, Result};
use firn_format::Position;
use firn_format::file_name;

use super::{Pending, Sending, Unneeded};
use crate::counters::count;
use crate::database::Database;
use crate::edits::drained_with;
use crate::error::from_storage;

/// Fewer groups are never too many.
const GROUPS_MIN: usize = 1000;

/// Bytes of the log for each group, below which there are too many: reading as much takes about as
/// long as asking for one more object.
const BYTES_PER_GROUP_MIN: u64 = 64 << 10;

/// What has groups sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// A write that is to be acknowledged.
    Writer,
    /// A drain that is to be committed, and will be after the next opening if it is not now.
    Drain,
}

impl Database {
    /// Refuses writes that are to outlive the machine where nothing does.
    pub(crate) fn check_shared(&self) -> Result<()> {
        match self.files.storage.shared_part() {
            Some(_) => Ok(()),
            None => Err(not_shared(&self.files.storage.describe())),
        }
    }

    /// Returns when another machine that takes the database over finds everything below `end`. It
    /// is on this machine's device then, too.
    ///
    /// Concurrent callers share one group: the first one makes it of everything that is published,
    /// and the others find theirs in it. Blocks for a sync and for creating an object. The first
    /// time in a process it blocks also for an edit, and for as many objects as the log has.
    ///
    /// # Errors
    /// `Retry` where the place refuses, or does not say, for long: what is published goes there
    /// with the next call. `Closed` if another machine has taken the database over; any other
    /// failure poisons the log.
    pub(crate) fn share_through(&self, end: Position) -> Result<()> {
        let is_named = || self.groups.is_named.load(Ordering::Acquire);
        if is_named() && self.groups.through() >= end {
            return Ok(());
        }
        self.check_shared()?;
        self.share_by(end, By::Writer)
    }

    fn share_by(&self, end: Position, by: By) -> Result<()> {
        // So that what is recovered on this machine never is less than what another one would find.
        self.commit.log.sync_through(end).map_err(from_storage)?;
        if !self.groups.is_named.load(Ordering::Acquire) {
            self.name_groups(end, by)?;
        }
        self.send_through(end, by)
    }

    /// Sends the log below `end`, which is not before what was recovered ends, and says in an edit
    /// where it is.
    fn name_groups(&self, end: Position, by: By) -> Result<()> {
        let groups = &self.groups;
        let _naming = groups.naming.lock().unwrap_or_else(PoisonError::into_inner);
        if groups.is_named.load(Ordering::Acquire) {
            return Ok(());
        }
        {
            let _no_commit = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
            // What is drained from now on is in a group before.
            groups.is_begun.store(true, Ordering::Release);
        }
        self.send_through(end, by)?;
        if groups.through() < groups.recovered_end {
            return Err(Error::bug(format!("groups that end at {end} cannot be named: more was recovered")));
        }
        let mut manifest = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(naming) = groups.naming_change() else { return Ok(()) };
        manifest.commit(std::slice::from_ref(&naming.change)).map_err(from_storage)?;
        self.bury_groups(Some(naming));
        drop(manifest);
        self.maintenance.wake();
        Ok(())
    }

    /// Sends what a drain of `keyspace` through `end` leaves in the log alone. Otherwise another
    /// machine would find the half of a batch that is in tables, and not the other one. Nothing
    /// where groups have not begun and no batch can be divided.
    pub(crate) fn send_before_drain(&self, keyspace: u32, end: Position) -> Result<()> {
        let version = self.catalog.version.load();
        let takes_all = drained_with(&version, keyspace, end).len() == version.live().count();
        let may_divide = self.groups.may_divide(version.log_needed_from());
        drop(version);
        // Groups that lack something of what was recovered cannot be named, and no machine would
        // find them.
        let is_named = self.groups.is_named.load(Ordering::Acquire);
        let end = if is_named || !may_divide { end } else { end.max(self.groups.recovered_end) };
        match self.groups.are_begun() {
            _ if takes_all => Ok(()),
            true => {
                self.commit.log.sync_through(end).map_err(from_storage)?;
                self.send_through(end, By::Drain)
            }
            false if may_divide && self.files.storage.shared_part().is_some() => {
                self.share_by(end, By::Drain)
            }
            false => Ok(()),
        }
    }

    /// Has groups removed that an edit says are needed no more.
    pub(crate) fn bury_groups(&self, unneeded: Option<Unneeded>) {
        let Some(unneeded) = unneeded else { return };
        if unneeded.is_of_another() {
            self.maintenance.orphan_gc.expect(self.clock.now());
        }
        let names = self.groups.forget(unneeded);
        names.into_iter().for_each(|name| self.files.obsolete.remove_later(name));
    }

    /// As [`share_through`](Self::share_through) for an `end` that is on this machine's device;
    /// whether an edit names the groups is the caller's concern. A drain gives up between two
    /// groups once the database closes; what is sent stays so.
    pub(crate) fn send_through(&self, end: Position, by: By) -> Result<()> {
        let groups = &self.groups;
        if groups.through() >= end {
            return Ok(());
        }
        let seen = groups.tries.load(Ordering::Acquire);
        let mut sending = groups.lock_sending();
        if let Some((number, error)) = &sending.failed {
            // A caller that waited for a try that failed need not wait for another one.
            if *number > seen || self.closed.load(Ordering::Acquire) {
                return Err(error.clone());
            }
        }
        while groups.through() < end {
            if by == By::Drain && self.maintenance.is_stopping() {
                return Err(Error::new(ErrorKind::Retry, "the database closes: the drain is not committed"));
            }
            if sending.pending.is_empty() {
                let through = self.commit.log.watermark();
                let Some(gathered) = self.gather(groups.through(), through)? else {
                    groups.through.fetch_max(through.0, Ordering::AcqRel);
                    break;
                };
                sending.pending.extend(gathered.into_pending());
            }
            self.send_pending(&mut sending)?;
        }
        Ok(())
    }

    /// Creates the groups that are pending, one after another. Where one fails, it and those after
    /// it stay pending.
    fn send_pending(&self, sending: &mut Sending) -> Result<()> {
        let groups = &self.groups;
        while let Some(Pending { kind, pieces, through, span_end }) = sending.pending.front() {
            let (number, through, span_end) = (sending.next, *through, *span_end);
            let bytes = groups.id(number).encode(*kind, pieces);
            let tried = groups.tries.fetch_add(1, Ordering::AcqRel) + 1;
            let created = self
                .commit
                .log
                .check()
                .map_err(from_storage)
                .and_then(|()| self.create_group(number, &bytes));
            sending.failed = created.as_ref().err().map(|error| (tried, error.clone()));
            created?;
            sending.pending.pop_front();
            sending.next += 1;
            groups.lock_sent().own.push_back((number, span_end));
            groups.through.fetch_max(through.0, Ordering::AcqRel);
            count(&groups.count, 1);
            count(&groups.bytes, bytes.len() as u64);
        }
        Ok(())
    }

    /// Whether there are so many groups that reading them one by one would take longer than reading
    /// what they hold.
    pub(crate) fn are_groups_too_many(&self) -> bool {
        let groups = &self.groups;
        let count = groups.lock_sent().own.len();
        if count < GROUPS_MIN || !groups.is_named.load(Ordering::Acquire) {
            return false;
        }
        let version = self.catalog.version.load();
        let bytes: u64 = version.segments.segments().iter().map(|it| it.region().published() as u64).sum();
        count as u64 > bytes / BYTES_PER_GROUP_MIN
    }

    /// Sends the log again, in groups as large as can be, and has an edit name them instead of
    /// those before. Writers wait meanwhile.
    pub(crate) fn regroup(&self) -> Result<()> {
        let groups = &self.groups;
        let _naming = groups.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sending = groups.lock_sending();
        // What a place did not take before comes first.
        self.send_pending(&mut sending)?;
        let (first, through) = (sending.next, groups.through());
        let mut from = Position(0);
        while let Some(gathered) = self.gather(from, through)? {
            from = gathered.through;
            sending.pending.extend(gathered.into_pending());
            // Where it fails its number is taken until the place says so, and what it holds is
            // right.
            self.send_pending(&mut sending)?;
        }
        drop(sending);
        let mut manifest = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let unneeded = groups.before(first);
        manifest.commit(std::slice::from_ref(&unneeded.change)).map_err(from_storage)?;
        self.bury_groups(Some(unneeded));
        Ok(())
    }

    /// Creates the group `number`, unless it is there.
    fn create_group(&self, number: u64, bytes: &[u8]) -> Result<()> {
        use firn_storage::ErrorKind as Kind;
        let name = file_name::group(self.groups.generation, number);
        let Err(error) = self.files.storage.publish(&name, bytes) else { return Ok(()) };
        match error.kind {
            Kind::Refused | Kind::Full | Kind::Undecided => {
                let told = "shared storage does not take the log now";
                Err(Error::new(ErrorKind::Retry, told).because(from_storage(error)))
            }
            Kind::Exists => match self.is_group(&name, bytes) {
                // An answer was lost.
                Ok(true) => Ok(()),
                Ok(false) => {
                    let message = format!(
                        "the database was opened on another machine, or was about to be ({name} is not this one's): nothing is written here any more"
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
        let file = self.files.storage.open_read(name)?;
        let mut found = vec![0; file.len() as usize];
        file.read_at(0, &mut found)?;
        if found != bytes {
            return Ok(false);
        }
        self.files.storage.sync_dir()?;
        Ok(true)
    }

    fn refused_for_good(&self, cause: &Error) -> Error {
        self.fail(cause);
        from_storage(self.commit.log.poisoned())
    }
}

/// The error of a call that asks for `Shared` durability at `place`.
pub(crate) fn not_shared(place: &str) -> Error {
    Error::invalid(format!(
        "durability `shared` needs a place that other machines reach, and {place} is not divided: name a shared place, or ask for `disk`"
    ))
}
