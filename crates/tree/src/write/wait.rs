//! Writers that wait for room.

use firn_engine::{Error, ErrorKind, Result};

use crate::database::Database;

impl Database {
    /// Blocks until a stopped writer should try again, and counts the time.
    ///
    /// Without background threads it does a unit of their work itself.
    pub(crate) fn wait_for_room(&self) -> Result<()> {
        let begun = self.clock.now();
        self.retry_flushes();
        if self.is_manual() {
            firn_maintenance::step(self)?;
        } else {
            self.commit.admission.wait_released();
        }
        let waited = self.clock.now().saturating_sub(begun);
        self.commit.admission.stopped_for(waited);
        self.background_error()?;
        // Nothing flushes any more once the database closes.
        self.check_open()?;
        self.refused_room()
    }

    /// `Retry` if the disk was too full for a flush since [`retry_flushes`](Self::retry_flushes),
    /// or all that could make room fails each time.
    pub(crate) fn refused_room(&self) -> Result<()> {
        match self.maintenance.refused() {
            Some(refused) => Err(refused),
            None => self.maintenance.stuck(&self.catalog.version.load(), self.clock.now()).map_or(Ok(()), |why| {
                let told = "no room is left for writes, since what they wait for cannot be written out; it is tried again";
                Err(Error::new(ErrorKind::Retry, told).because(why))
            }),
        }
    }

    /// Forgets why a flush was refused: there may be space on the disk by now.
    pub(crate) fn retry_flushes(&self) {
        self.maintenance.forget_refused();
        self.maintenance.wake();
    }
}
