//! What the commands of a unit may touch under its locks, and whether that was enough.

use std::cell::Cell;
use std::collections::HashSet;

use firn_engine::KeyspaceId;

/// Why an attempt at a unit (EXEC, a script) cannot be finished. Nothing of it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// It touches what it has not named: again, under all locks there are.
    AllLocks,
    /// A script had to wait for others of its server thread where it cannot be suspended, or to
    /// raise the outcome of a call that was. Again, and its calls wait with its whole server
    /// thread.
    InPlace,
    /// A script has kept its thread for too long where it cannot be suspended: never again.
    Late,
    /// SCRIPT KILL, or the end of the server: never again.
    End,
}

/// What a unit holds the locks of. Shared by the transaction and by the code that runs it.
#[derive(Debug)]
pub(crate) struct Coverage {
    /// `None` = everything, or nothing is needed.
    names: Option<HashSet<(KeyspaceId, Vec<u8>)>>,
    /// Calls of scripts wait for the engine without being suspended.
    pub(crate) is_in_place: bool,
    demand: Cell<Option<Demand>>,
}

impl Coverage {
    /// Of these keys of the engine; `None` = of all.
    pub(crate) fn new(names: Option<HashSet<(KeyspaceId, Vec<u8>)>>, is_in_place: bool) -> Self {
        Self { names, is_in_place, demand: Cell::new(None) }
    }

    /// Whether every key is covered.
    pub(crate) fn is_all(&self) -> bool {
        self.names.is_none()
    }

    /// Whether this key of the engine is.
    pub(crate) fn has(&self, name: &(KeyspaceId, Vec<u8>)) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(name))
    }

    /// Says that the unit is to be dropped; what was said first stays.
    pub(crate) fn demand(&self, demand: Demand) {
        if self.demand.get().is_none() {
            self.demand.set(Some(demand));
        }
    }

    /// What was demanded.
    pub(crate) fn demanded(&self) -> Option<Demand> {
        self.demand.get()
    }
}
