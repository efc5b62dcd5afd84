//! Waiting for background work, or doing it where there are no threads for it.

use firn_engine::{Error, ErrorKind, Result};
use firn_format::Position;
use firn_maintenance::wait_until;

use super::kinds::{drain_refusal, forget_drains};
use crate::database::Database;
use crate::error::from_storage;
use crate::version::Version;

/// Asks that everything below `through` be drained, and waits until it is.
pub(crate) fn drain_through(database: &Database, through: Position) -> Result<()> {
    database.maintenance.drain_through(through);
    forget_drains(&mut database.maintenance.schedule.lock().backoff);
    let drained =
        |version: &Version| version.live().all(|keyspace| keyspace.undrained_from(through) >= through);
    loop {
        wait_until(database, || drained(&database.catalog.version.load()))?;
        if drained(&database.catalog.version.load()) {
            return Ok(());
        }
        let refused = {
            let busy = database.maintenance.schedule.lock();
            if busy.is_stopping() {
                return Err(Error::new(ErrorKind::Closed, "the database was closed before all was drained"));
            }
            let version = database.catalog.version.load();
            let undrained = version.live().filter(|keyspace| keyspace.undrained_from(through) < through);
            undrained.filter_map(|keyspace| drain_refusal(&busy.backoff, keyspace.id()).cloned()).next()
        };
        if let Some(refused) = refused {
            return Err(refused);
        }
        let version = database.catalog.version.load_full();
        let frozen = version.live().flat_map(|keyspace| &keyspace.frozen).map(|frozen| frozen.span.end);
        match frozen.max() {
            // Writers still copy into what is frozen; until they are done no run is made of it.
            Some(end) => database.commit.log.wait_published(end).map_err(from_storage)?,
            None if drained(&version) || version.live().any(|keyspace| !keyspace.runs.is_empty()) => {}
            None => return Err(Error::bug("nothing is left to drain, but not all is drained")),
        }
    }
}
