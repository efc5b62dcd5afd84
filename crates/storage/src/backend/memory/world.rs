//! The machine that a [`Memory`](super::Memory) is a directory of: all its directories, and its
//! last moment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::backend::UnfinishedUpload;
use crate::{Error, ErrorKind, Result};

use super::content::Content;

/// One machine. Reading takes no lock of it; every change of anything takes `state`, then the
/// file's own lock.
#[derive(Debug, Default)]
pub(super) struct World {
    state: Mutex<State>,
    gone: AtomicBool,
}

/// What changes under the machine's lock.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) directories: BTreeMap<PathBuf, Directory>,
    /// How many changes were begun; the number of the next one.
    pub(super) operations: u64,
    pub(super) cut: Option<Cut>,
    /// What was going to be done when the machine went.
    pub(super) cut_operation: Option<String>,
    /// What was begun, where that is wanted.
    pub(super) journal: Option<Vec<String>>,
    pub(super) next_inode: u64,
    /// Another one after each loss of power.
    pub(super) boot_id: u128,
}

/// When the machine goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) operation: u64,
    /// How many bytes of that operation, if it is a write, are done before.
    pub(super) write_bytes: usize,
}

/// One directory: its names now, as of its last sync, and what was done between, in order.
#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) names: Names,
    pub(super) names_synced: Names,
    pub(super) unsynced: Vec<NameChange>,
    /// They survive a crash, as what is sent to other machines does.
    pub(super) uploads: BTreeSet<UnfinishedUpload>,
    pub(super) writer: bool,
    pub(super) readers: usize,
}

pub(super) type Names = BTreeMap<String, Arc<Inode>>;

/// Names that one operation gave (`Some`) or took (`None`).
pub(super) type NameChange = Vec<(String, Option<Arc<Inode>>)>;

/// One file, whatever its names.
#[derive(Debug)]
pub(super) struct Inode {
    pub(super) id: u64,
    pub(super) content: RwLock<Content>,
}

impl World {
    pub(super) fn new(state: State) -> Self {
        Self { state: Mutex::new(state), gone: AtomicBool::new(false) }
    }

    /// The state, if the machine is still there.
    pub(super) fn state(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state_even_if_gone();
        self.check_here()?;
        Ok(state)
    }

    pub(super) fn state_even_if_gone(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `Io` once the machine is gone.
    pub(super) fn check_here(&self) -> Result<()> {
        match self.gone.load(Ordering::Acquire) {
            true => Err(Error::new(ErrorKind::Io, "", "the machine is gone")),
            false => Ok(()),
        }
    }

    /// Counts the change that is about to be made, or lets the machine go before it.
    pub(super) fn begin(&self, state: &mut State, what: impl FnOnce() -> String) -> Result<()> {
        match self.begin_write(state, usize::MAX, what)? {
            Some(_) => self.check_here(),
            None => Ok(()),
        }
    }

    /// Like [`begin`](Self::begin) for a write of `bytes` bytes; if the machine goes in its midst,
    /// the answer is how many of them are still done.
    pub(super) fn begin_write(
        &self,
        state: &mut State,
        bytes: usize,
        what: impl FnOnce() -> String,
    ) -> Result<Option<usize>> {
        self.check_here()?;
        match state.cut {
            Some(cut) if state.operations >= cut.operation => {
                self.gone.store(true, Ordering::Release);
                state.cut_operation = Some(what());
                let exactly = state.operations == cut.operation;
                Ok(Some(if exactly { cut.write_bytes.min(bytes) } else { 0 }))
            }
            _ => {
                state.operations += 1;
                if let Some(journal) = &mut state.journal {
                    journal.push(what());
                }
                Ok(None)
            }
        }
    }
}

impl State {
    pub(super) fn directory(&mut self, path: &Path) -> &mut Directory {
        self.directories.entry(path.to_owned()).or_default()
    }

    pub(super) fn new_inode(&mut self, content: Content) -> Arc<Inode> {
        self.next_inode += 1;
        Arc::new(Inode { id: self.next_inode, content: RwLock::new(content) })
    }
}

impl Directory {
    pub(super) fn change(&mut self, change: NameChange) {
        apply(&mut self.names, &change);
        self.unsynced.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            apply(&mut self.names_synced, &change);
        }
    }
}

pub(super) fn apply(names: &mut Names, change: &NameChange) {
    for (name, inode) in change {
        match inode {
            Some(inode) => names.insert(name.clone(), inode.clone()),
            None => names.remove(name),
        };
    }
}
