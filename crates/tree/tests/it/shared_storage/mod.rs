//! Databases on shared storage, which other machines take over.

mod two_machines; // the log on one machine, the rest where others reach it
mod two_machines_race; // both open the database at the same time
mod take_overs; // of a machine that goes on writing
mod durability; // of what was acknowledged as `Shared`
mod race; // one acknowledges, the other takes over
mod histories; // in which a write could be lost, or come back
mod batches; // whole, whichever keyspaces are in tables
pub(crate) mod large; // writes of several log objects
mod merged; // log objects that are put together
mod away; // for a while
mod late_requests; // of a killed process
mod copy_away; // copies that fail
mod reports; // statistics while an edit is on its way
