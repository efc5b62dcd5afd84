//! What a machine finds when it starts again.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use fastrand::Rng;

use super::content::Bias;
use super::world::{Directory, Inode, NameChange, Names, State, World, apply};

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process dies, the machine stays: all operations begun so far are there, synced or not.
    Kill,
    /// The machine loses power; see [`Memory`](super::Memory) for what is left.
    PowerLoss {
        /// Chooses among the states that may be left; the same seed chooses the same one.
        seed: u64,
    },
}

/// Which operations on the names of a directory that were not synced a loss of power leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamesLeft {
    /// The first ones, so many.
    First,
    /// Each of them, or not, for itself.
    Any,
}

/// A machine of its own, as it starts again after `crash`; `old` is not changed.
pub(super) fn restart(old: &World, crash: Crash, names_left: NamesLeft) -> World {
    let state = old.state_even_if_gone();
    let mut inodes = Inodes { crash, new: BTreeMap::new() };
    let mut directories = BTreeMap::new();
    for (index, (path, directory)) in state.directories.iter().enumerate() {
        let uploads = directory.uploads.clone();
        let directory = match crash {
            Crash::Kill => Directory {
                names: inodes.names(&directory.names),
                names_synced: inodes.names(&directory.names_synced),
                unsynced: directory.unsynced.iter().map(|change| inodes.change(change)).collect(),
                uploads,
                ..Directory::default()
            },
            Crash::PowerLoss { seed } => {
                let names = names_after_power_loss(directory, names_left, &mut rng(seed, !(index as u64)));
                let names = inodes.names(&names);
                Directory { names_synced: names.clone(), names, uploads, ..Directory::default() }
            }
        };
        directories.insert(path.clone(), directory);
    }
    let boot_id = match crash {
        Crash::Kill => state.boot_id,
        Crash::PowerLoss { .. } => state.boot_id + 1,
    };
    World::new(State { directories, next_inode: state.next_inode, boot_id, ..State::default() })
}

/// The names as of some moment since the last sync of the directory, or with any of what was done
/// since.
fn names_after_power_loss(directory: &Directory, left: NamesLeft, rng: &mut Rng) -> Names {
    let mut names = directory.names_synced.clone();
    let count = match left {
        NamesLeft::First => Bias::draw(rng).moment(directory.unsynced.len(), rng),
        NamesLeft::Any => directory.unsynced.len(),
    };
    for change in directory.unsynced.iter().take(count) {
        if left == NamesLeft::First || rng.bool() {
            apply(&mut names, change);
        }
    }
    names
}

/// Files of the new machine by number, so that two names of one file stay names of one file.
struct Inodes {
    crash: Crash,
    new: BTreeMap<u64, Arc<Inode>>,
}

impl Inodes {
    fn names(&mut self, names: &Names) -> Names {
        names.iter().map(|(name, inode)| (name.clone(), self.inode(inode))).collect()
    }

    fn change(&mut self, change: &NameChange) -> NameChange {
        change
            .iter()
            .map(|(name, inode)| (name.clone(), inode.as_ref().map(|inode| self.inode(inode))))
            .collect()
    }

    fn inode(&mut self, old: &Inode) -> Arc<Inode> {
        let crash = self.crash;
        let copy = || {
            let content = old.content.read().unwrap_or_else(PoisonError::into_inner);
            let content = match crash {
                Crash::Kill => content.clone(),
                Crash::PowerLoss { seed } => content.after_power_loss(&mut rng(seed, old.id)),
            };
            Arc::new(Inode { id: old.id, content: RwLock::new(content) })
        };
        self.new.entry(old.id).or_insert_with(copy).clone()
    }
}

/// Chance of its own for each thing, so that the order in which they are looked at does not matter.
fn rng(seed: u64, thing: u64) -> Rng {
    // Mixed twice over, since seeds and numbers of things are both small and near one another.
    let mixed = Rng::with_seed(seed).u64(..) ^ Rng::with_seed(thing.rotate_left(32)).u64(..);
    Rng::with_seed(mixed)
}
