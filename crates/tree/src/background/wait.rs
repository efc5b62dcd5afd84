//! Waiting for background work, or doing it where there are no threads for it.

use firn_engine::{Error, ErrorKind, Result};
use firn_format::Position;
use firn_maintenance::wait_until;

use crate::database::Database;
use crate::error::from_storage;
use crate::maintenance::{flush_refusal, forget_flushes};
use crate::version::Version;

/// Asks that everything below `through` be flushed, and waits until it is.
pub(crate) fn flush_through(database: &Database, through: Position) -> Result<()> {
    database.maintenance.flush_through(through);
    forget_flushes(&mut database.maintenance.schedule.lock().backoff);
    let flushed =
        |version: &Version| version.live().all(|keyspace| keyspace.unflushed_from(through) >= through);
    loop {
        wait_until(database, || flushed(&database.catalog.version.load()))?;
        if flushed(&database.catalog.version.load()) {
            return Ok(());
        }
        let refused = {
            let busy = database.maintenance.schedule.lock();
            if busy.is_stopping() {
                return Err(Error::new(ErrorKind::Closed, "the database was closed before all was flushed"));
            }
            let version = database.catalog.version.load();
            let unflushed = version.live().filter(|keyspace| keyspace.unflushed_from(through) < through);
            unflushed.filter_map(|keyspace| flush_refusal(&busy.backoff, keyspace.id()).cloned()).next()
        };
        if let Some(refused) = refused {
            return Err(refused);
        }
        let version = database.catalog.version.load_full();
        let frozen = version.live().flat_map(|keyspace| &keyspace.frozen).map(|frozen| frozen.span.end);
        match frozen.max() {
            // Writers still copy into what is frozen; until they are done no run is made of it.
            Some(end) => database.commit.log.wait_published(end).map_err(from_storage)?,
            None if flushed(&version) || version.live().any(|keyspace| !keyspace.runs.is_empty()) => {}
            None => return Err(Error::bug("nothing is left to flush, but not all is flushed")),
        }
    }
}
