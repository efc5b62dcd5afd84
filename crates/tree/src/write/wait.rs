//! Why writers that wait for room wait in vain, if they do.

use firn_engine::{Error, ErrorKind, Result};
use firn_storage::Clock;

use crate::maintenance::Maintenance;
use crate::version::catalog::Catalog;

/// `Retry` if the disk was too full for a flush since [`retry_flushes`], or all that could make
/// room fails each time.
pub(crate) fn refused_room(maintenance: &Maintenance, catalog: &Catalog, clock: &dyn Clock) -> Result<()> {
    match maintenance.refused() {
        Some(refused) => Err(refused),
        None => maintenance.stuck(&catalog.version.load(), clock.now()).map_or(Ok(()), |why| {
            let message = "no room is left for writes, since what they wait for cannot be written out; it is tried again";
            Err(Error::new(ErrorKind::Retry, message).because(why))
        }),
    }
}

/// Forgets why a flush was refused: there may be space on the disk by now.
pub(crate) fn retry_flushes(maintenance: &Maintenance) {
    maintenance.forget_refused();
    maintenance.wake();
}
