//! Waiting for background work, or doing it where there are no threads for it.

use std::sync::PoisonError;

use firn_engine::{Error, ErrorKind, Result};
use firn_format::Position;

use super::{Answer, POLL, answer_to};
use crate::database::Database;
use crate::version::Version;

impl Database {
    /// Asks that everything below `through` be drained, and waits until it is.
    pub(crate) fn drain_through(&self, through: Position) -> Result<()> {
        self.schedule.drain_through(through);
        self.schedule.lock().forget_drains();
        let drained =
            |version: &Version| version.live().all(|keyspace| keyspace.undrained_from(through) >= through);
        loop {
            self.wait_until(|shared| drained(&shared.catalog.version.load()))?;
            if drained(&self.catalog.version.load()) {
                return Ok(());
            }
            let refused = {
                let busy = self.schedule.lock();
                if busy.stop {
                    return Err(Error::new(
                        ErrorKind::Closed,
                        "the database was closed before all was drained",
                    ));
                }
                let version = self.catalog.version.load();
                let undrained = version.live().filter(|keyspace| keyspace.undrained_from(through) < through);
                undrained.filter_map(|keyspace| busy.drain_refusal(keyspace.id()).cloned()).next()
            };
            if let Some(refused) = refused {
                return Err(refused);
            }
            let version = self.catalog.version.load_full();
            let frozen = version.live().flat_map(|keyspace| &keyspace.frozen).map(|frozen| frozen.span.end);
            match frozen.max() {
                // Writers still copy into what is frozen; until they are done no run is made of it.
                Some(end) => self.commit.log.wait_published(end)?,
                None if drained(&version) || version.live().any(|keyspace| !keyspace.runs.is_empty()) => {}
                None => return Err(Error::bug("nothing is left to drain, but not all is drained")),
            }
        }
    }

    /// Waits until no unit of work is in progress and none can be chosen.
    pub(crate) fn wait_quiet(&self) -> Result<()> {
        self.wait_until(|_| false)
    }

    /// Works (where there are no background threads) or waits until `done`, or until there is
    /// nothing left to do.
    fn wait_until(&self, done: impl Fn(&Database) -> bool) -> Result<()> {
        loop {
            self.background_error()?;
            if done(self) {
                return Ok(());
            }
            if self.schedule.manual {
                match self.step() {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    // The wait goes on: a caller that waits for what was set aside asks for it
                    // afterwards.
                    Err(error) if answer_to(&error) == Answer::SetAside => {}
                    Err(error) => return Err(error),
                }
                continue;
            }
            let busy = self.schedule.lock();
            if busy.stop || (busy.running == 0 && self.choose(&busy).is_none()) {
                return Ok(());
            }
            self.schedule.work.notify_all();
            let _waited = self.schedule.idle.wait_timeout(busy, POLL).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
