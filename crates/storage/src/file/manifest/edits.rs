//! The writing end: the next edit, and whether it counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_format::file_name;

use super::Content;
use super::asking::{publish_until_answered, until_answered};
use super::load::{Base, Loaded, Written, read_all};
use crate::{Clock, Error, ErrorKind, Result, Storage, TakenOver};

/// Number of an edit that is never removed: it says that there has been a first edit, which may be
/// gone since. Only where other machines can write to the manifest at any moment.
pub(super) const CREATED: u64 = 0;

/// The writing end of the manifest: one per open database, used under one lock.
#[derive(Debug)]
pub struct Manifest<S> {
    storage: Arc<dyn Storage>,
    /// By which it waits for a backend that does not answer.
    clock: Arc<dyn Clock>,
    state: S,
    /// Number of the next edit.
    next: u64,
    /// Number of the oldest edit that still exists.
    oldest: u64,
    base: Base,
    edits_max: u64,
    /// The last edit.
    written: Written,
    /// Why no further edit is believed, once one failed.
    failed: Option<Error>,
    /// The state has changes of an edit of which it is not known yet whether it was published. Only
    /// a panic leaves it so.
    is_amid_edit: bool,
    /// Whether that is because another process has written an edit.
    is_taken_over: bool,
    /// Number of an edit that is known to be there, whatever a list says.
    reached: u64,
    /// Whether the last edit that was read keeps every process from writing that had the database
    /// before.
    is_fenced: bool,
    /// Read by threads that do not wait for an edit that is on its way.
    written_bytes: Arc<AtomicU64>,
}

/// How many numbers an opening tries at most to get one before the process that has the database
/// open. It is many times as many as edits are written while a manifest is read.
const NUMBERS_MAX: u64 = 256;

/// What there is of an edit whose publication failed.
enum Seen {
    /// It was published after all.
    Edit,
    /// It was not.
    Nothing,
    /// Another process's edit is there.
    Another,
    /// Something else is there, or that cannot be known.
    Unclear,
}

impl<S: Content> Manifest<S> {
    /// By which it waits.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Continues what was loaded, or begins with `None`.
    pub fn new(
        (storage, clock): (Arc<dyn Storage>, Arc<dyn Clock>),
        loaded: Option<Loaded<S>>,
        edits_max: u64,
    ) -> Self {
        let loaded = loaded.unwrap_or(Loaded {
            state: S::default(),
            last: 0,
            oldest: 1,
            base: Base { number: 0, bytes: 0 },
            written: Written::of(&[]),
            is_fenced: false,
        });
        let Loaded { state, last, oldest, base, written, is_fenced } = loaded;
        Self {
            storage,
            clock,
            state,
            next: last + 1,
            oldest,
            base,
            edits_max,
            written,
            failed: None,
            is_amid_edit: false,
            is_taken_over: false,
            reached: 0,
            is_fenced,
            written_bytes: Arc::default(),
        }
    }

    /// Bytes of edits written by this process, as it goes on.
    pub fn written_bytes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.written_bytes)
    }

    /// Whether nothing was ever committed.
    pub fn is_new(&self) -> bool {
        self.next == 1
    }

    /// Whether another process, on another machine, has written an edit since this one's last.
    /// Blocks for requests where that is possible.
    pub fn is_overtaken(&mut self) -> bool {
        self.storage.shared_part().is_some() && !self.is_current() && self.is_taken_over
    }

    /// Number of an edit that another process has written, if one was met: where to read to.
    pub fn reached(&self) -> u64 {
        self.reached
    }

    /// Why nothing is committed any more.
    pub fn failure(&self) -> Option<Error> {
        self.failed.clone()
    }

    /// Whether no other process has written an edit since this one's last; `false` where that
    /// cannot be known. Blocks for a request.
    ///
    /// If another process has, this manifest commits nothing any more.
    pub fn is_current(&mut self) -> bool {
        let name = file_name::manifest_edit(self.next);
        let is_there = match self.storage.open_read(&name) {
            Ok(_) => {
                self.reached = self.reached.max(self.next);
                Ok(true)
            }
            Err(error) if error.kind == ErrorKind::NotFound => self.follows_on().map(|follows| !follows),
            Err(error) => Err(error),
        };
        if let Ok(true) = is_there {
            let taken = self.taken_over(&name);
            self.failed.get_or_insert(taken);
        }
        matches!(is_there, Ok(false)) && self.failed.is_none()
    }

    /// Takes the next number, so that a process that had the database before writes no edit any
    /// more, however long this opening takes; `home` names the directory of its log. Changes
    /// nothing else. Where the number is taken the next one is tried at once, without a look at the
    /// edit. That is one request for each number. A process that writes edits needs two, and those
    /// for the files that they name, so that it is caught up with.
    ///
    /// Does nothing where the edit that was read last does that already, whichever process wrote
    /// it. Of several that take over at the same time none keeps the others from ending their
    /// opening, and the last one to do so has the database.
    ///
    /// # Errors
    /// `Closed` where edits were written since the manifest was read: they are to be read first,
    /// [`reached`](Self::reached) says to where. What the backend says.
    pub fn fence(&mut self, home: u128) -> Result<()> {
        if self.is_fenced {
            return Ok(());
        }
        let first = self.next;
        for number in first..first + NUMBERS_MAX {
            let bytes = self.state.encode(number, &[S::take_over(home)]);
            let name = file_name::manifest_edit(number);
            match publish_until_answered(&*self.storage, &*self.clock, &name, &bytes) {
                Ok(()) if number == first => return self.believe(&name, &bytes, false),
                Ok(()) => {
                    self.reached = number;
                    break;
                }
                Err(error) if error.kind == ErrorKind::Exists => self.reached = number,
                Err(error) => return Err(error),
            }
        }
        Err(self.taken_over(&file_name::manifest_edit(first)))
    }

    /// Whether the number of the next edit was never given to another one.
    ///
    /// Edits are removed from old to new. Where the one before is gone, another process has written
    /// the next one too, has restated both since, and has removed them: its number only looks free.
    /// Before the first one is removed it is said that there was one.
    ///
    /// A backend may do what it was asked long before once more, so that an edit comes back after
    /// it was removed. The newest one that restates everything is asked for, too: where that was
    /// removed the one before was.
    fn follows_on(&self) -> Result<bool> {
        if self.storage.shared_part().is_none() {
            return Ok(true);
        }
        let before = file_name::manifest_edit(self.next - 1);
        let look = || match self.next {
            // That there was a database once.
            1 => self.storage.open_read(&before).map(|_| false),
            // Another one of that number was written where this one was removed.
            _ => self.written.is_in(&*self.storage, &before),
        };
        let is_before = match until_answered(&*self.clock, look) {
            Ok(is_it) => is_it,
            Err(error) if error.kind == ErrorKind::NotFound => self.next == 1,
            Err(error) => return Err(error),
        };
        let base = self.base;
        if !is_before || base.number + 1 >= self.next {
            return Ok(is_before);
        }
        let name = file_name::manifest_edit(base.number);
        match until_answered(&*self.clock, || self.storage.open_read(&name)) {
            Ok(file) => Ok(file.len() == base.bytes),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// An edit that was written counts if the one before it is still there.
    fn check_follows_on(&mut self, name: &str) -> Result<()> {
        match self.follows_on() {
            Ok(true) => Ok(()),
            Ok(false) => {
                // No opening reads it: it lies below what was restated.
                let _removed = self.storage.remove(name);
                Err(self.taken_over(name))
            }
            Err(cause) => {
                let message = format!("whether {name} follows on the edit before it cannot be told");
                Err(Error::new(ErrorKind::Closed, "", message).because(cause))
            }
        }
    }

    fn taken_over(&mut self, name: &str) -> Error {
        self.is_taken_over = true;
        Error::taken_over(TakenOver(format!("{name} is not this one's edit")))
    }

    /// What the edits add up to.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Makes `changes` durable as one edit; on `Ok` they are part of every later recovery.
    ///
    /// Blocks for a publication (two device syncs). Every `edits_max` edits the edit restates the
    /// whole state and older ones are removed; any other costs what it names, however much there
    /// is.
    ///
    /// # Errors
    /// `Full`, `Refused` or `Undecided` where the edit was not published, and `Corrupt` for changes
    /// that do not fit: nothing was changed. After any other failure the outcome is unknown, so
    /// every later call fails with the first cause.
    pub fn commit(&mut self, changes: &[S::Change]) -> Result<()> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        if self.is_amid_edit {
            return Err(Error::bug("a panic left the manifest in the midst of an edit"));
        }
        let before = self.state.before(changes);
        self.is_amid_edit = true;
        let committed = self.apply_and_publish(changes);
        self.is_amid_edit = false;
        match committed {
            Ok(()) => self.remove_older(self.base.number),
            // It is not part of what the next edit says.
            Err(_) => self.state.restore(before),
        }
        committed
    }

    /// Applies `changes` and writes them as the next edit. After an error the state is to be what
    /// it was.
    fn apply_and_publish(&mut self, changes: &[S::Change]) -> Result<()> {
        let unfit = |what| Error::new(ErrorKind::Corrupt, "", what);
        changes.iter().try_for_each(|change| self.state.apply(change)).map_err(unfit)?;
        // The first edit restates (nothing), so that reading finds a base.
        let base = self.next - self.base.number >= self.edits_max || self.next == 1;
        let bytes = match base {
            true => self.state.encode_base(self.next),
            false => self.state.encode(self.next, changes),
        };
        let name = file_name::manifest_edit(self.next);
        if let Err(error) = publish_until_answered(&*self.storage, &*self.clock, &name, &bytes) {
            match self.look(&name, &bytes, error.kind) {
                Seen::Edit => {}
                Seen::Nothing => return Err(error),
                Seen::Another => {
                    self.reached = self.next;
                    let failed = self.taken_over(&name);
                    self.failed = Some(failed.clone());
                    return Err(failed);
                }
                Seen::Unclear => {
                    let message = format!("whether {name} was published cannot be told");
                    let failed = Error::new(ErrorKind::Closed, "", message).because(error);
                    self.failed = Some(failed.clone());
                    return Err(failed);
                }
            }
        }
        self.believe(&name, &bytes, base)
    }

    /// The next edit, `name`, was written: goes on behind it if it counts.
    fn believe(&mut self, name: &str, bytes: &[u8], base: bool) -> Result<()> {
        if let Err(failed) = self.check_follows_on(name) {
            self.failed = Some(failed.clone());
            return Err(failed);
        }
        self.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.written = Written::of(bytes);
        if base {
            self.base = Base { number: self.next, bytes: bytes.len() as u64 };
        }
        self.next += 1;
        Ok(())
    }

    /// What is there of the edit `name`, to be `bytes`, after publishing it failed as `kind` says.
    ///
    /// Edits are created and never changed, so that reading decides: the same bytes can only be
    /// this edit, since each opening writes a generation of its own. A failed sync decides nothing,
    /// whatever is read then.
    fn look(&self, name: &str, bytes: &[u8], kind: ErrorKind) -> Seen {
        match kind {
            ErrorKind::Refused => return Seen::Nothing,
            ErrorKind::Full | ErrorKind::Undecided | ErrorKind::Exists => {}
            _ => return Seen::Unclear,
        }
        match read_all(&*self.storage, name) {
            Ok(found) if found == bytes && self.storage.sync_dir().is_ok() => Seen::Edit,
            Ok(found) if found != bytes && self.storage.shared_part().is_some() => Seen::Another,
            // It may be there a moment later.
            _ if kind == ErrorKind::Undecided && self.storage.shared_part().is_some() => Seen::Unclear,
            Err(error) if error.kind == ErrorKind::NotFound && kind != ErrorKind::Exists => Seen::Nothing,
            _ => Seen::Unclear,
        }
    }

    /// Commits nothing any more: the directory may have another owner.
    pub fn end(&mut self) {
        self.failed.get_or_insert_with(|| Error::new(ErrorKind::Closed, "", "the database is closed"));
    }

    /// Removes edits that `base` restates, if any are left. What cannot be removed now is removed
    /// by a later commit.
    fn remove_older(&mut self, base: u64) {
        if self.oldest >= base {
            return;
        }
        if self.storage.shared_part().is_some() && self.oldest == 1 {
            let edit = self.state.encode(CREATED, &[self.state.identity()]);
            match self.storage.publish(&file_name::manifest_edit(CREATED), &edit) {
                Err(error) if error.kind != ErrorKind::Exists => return,
                _ => {}
            }
        }
        while self.oldest < base {
            match self.storage.remove(&file_name::manifest_edit(self.oldest)) {
                Ok(()) => self.oldest += 1,
                Err(error) if error.kind == ErrorKind::NotFound => self.oldest += 1,
                Err(_) => return,
            }
        }
    }
}
