//! Where values are: files, the segments in them, and the map that leads there.
//!
//! `blobs/map.rs`, `blobs/active.rs`, and the files that `ObsoleteFiles` knows to be held. The
//! directory, and what production does under a lock of its own for an instant, have the standard
//! library's lock. Schedules have no steps in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A value's reference: the segment and the ordinal that it was born with.
pub(crate) type Name = (u32, usize);

/// A value, in the place of its bytes.
pub(crate) type Value = u32;

/// What a segment's file has: its values in the order of their ordinals, each with the name that it
/// was born with.
pub(crate) type Records = Arc<Vec<(Name, Value)>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileName {
    /// Of a segment that values were written to as they came, by its number.
    Written(u32),
    /// Of a job's output, by its stem.
    Output { stem: u32, attempt: u32 },
}

/// The directory, and `ObsoleteFiles` as far as it knows which files are held.
#[derive(Default)]
pub(crate) struct Files {
    there: Mutex<BTreeMap<FileName, Records>>,
    held: Mutex<BTreeSet<FileName>>,
}

impl Files {
    /// `false` if there is such a file.
    pub(crate) fn create(&self, name: FileName, records: Records) -> bool {
        lock(&self.there).insert(name, records).is_none()
    }

    pub(crate) fn open(&self, name: FileName) -> Option<Records> {
        lock(&self.there).get(&name).cloned()
    }

    pub(crate) fn remove(&self, name: FileName) {
        lock(&self.there).remove(&name);
    }

    pub(crate) fn list(&self) -> BTreeSet<FileName> {
        lock(&self.there).keys().copied().collect()
    }

    /// `ObsoleteFiles::held`.
    pub(crate) fn held(&self) -> BTreeSet<FileName> {
        lock(&self.held).clone()
    }

    pub(crate) fn assert_has(&self, name: FileName, what: &str) -> Records {
        self.open(name).unwrap_or_else(|| panic!("{name:?} is removed while {what}"))
    }
}

/// `Active`: values are written to it, or were until it was sealed. A thread that holds it reads
/// it, whatever becomes of its file's name.
pub(crate) struct Active {
    pub(crate) number: u32,
    state: Mutex<Filling>,
}

#[derive(Default)]
struct Filling {
    values: Vec<Value>,
    settled: usize,
    is_full: bool,
}

/// Values that a segment takes.
const SEGMENT_VALUES: usize = 3;

impl Active {
    pub(crate) fn new(number: u32) -> Self {
        Self { number, state: Mutex::default() }
    }

    /// Writes a value to a place of its own; `None` once it takes no more.
    pub(crate) fn place(&self, value: Value) -> Option<Name> {
        let mut state = lock(&self.state);
        if state.is_full {
            return None;
        }
        state.values.push(value);
        state.is_full = state.values.len() == SEGMENT_VALUES;
        Some((self.number, state.values.len() - 1))
    }

    pub(crate) fn is_full(&self) -> bool {
        lock(&self.state).is_full
    }

    /// The record that refers to a place is in the log.
    pub(crate) fn settle(&self) {
        lock(&self.state).settled += 1;
    }

    pub(crate) fn seal(&self) {
        lock(&self.state).is_full = true;
    }

    /// What is in it, once it takes no more and all of its places are settled.
    pub(crate) fn settled(&self) -> Option<Records> {
        let state = lock(&self.state);
        let records = || state.values.iter().enumerate().map(|(at, value)| ((self.number, at), *value));
        (state.is_full && state.settled == state.values.len()).then(|| Arc::new(records().collect()))
    }

    pub(crate) fn value(&self, ordinal: usize) -> Value {
        lock(&self.state).values[ordinal]
    }
}

/// `Sealed`: its file goes with its last holder.
pub(crate) struct Sealed {
    pub(crate) number: u32,
    pub(crate) file: FileName,
    /// Values that nothing refers to: a number for choosing by.
    pub(crate) died: AtomicUsize,
    retired: AtomicBool,
    files: Arc<Files>,
}

impl Sealed {
    pub(crate) fn new(number: u32, file: FileName, died: usize, files: &Arc<Files>) -> Arc<Self> {
        lock(&files.held).insert(file);
        let (died, retired) = (AtomicUsize::new(died), AtomicBool::new(false));
        Arc::new(Self { number, file, died, retired, files: Arc::clone(files) })
    }

    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        if self.retired.load(Ordering::Acquire) {
            self.files.remove(self.file);
        }
        lock(&self.files.held).remove(&self.file);
    }
}

#[derive(Clone)]
pub(crate) enum Home {
    Open(Arc<Active>),
    Sealed(Arc<Sealed>),
    /// From ordinals to those of another segment.
    Moved(Arc<BTreeMap<usize, usize>>, Arc<Sealed>),
}

/// `BlobMap`.
#[derive(Clone, Default)]
pub(crate) struct Map {
    pub(crate) homes: BTreeMap<u32, Home>,
    pub(crate) newest: Arc<Birth>,
}

/// A segment that was begun, and those begun after it.
#[derive(Default)]
pub(crate) struct Birth {
    active: Option<Arc<Active>>,
    next: OnceLock<Arc<Birth>>,
}

impl Birth {
    pub(crate) fn follow(&self, active: Arc<Active>) -> Arc<Birth> {
        let birth = || Arc::new(Birth { active: Some(active), next: OnceLock::new() });
        Arc::clone(self.next.get_or_init(birth))
    }
}

impl Map {
    pub(crate) fn begun_since(&self, number: u32) -> Option<&Arc<Active>> {
        let mut birth = &self.newest;
        while let Some(next) = birth.next.get() {
            match &next.active {
                Some(active) if active.number == number => return Some(active),
                _ => birth = next,
            }
        }
        None
    }

    pub(crate) fn catch_up(&mut self) {
        while let Some(next) = self.newest.next.get().map(Arc::clone) {
            if let Some(active) = &next.active {
                self.homes.insert(active.number, Home::Open(Arc::clone(active)));
            }
            self.newest = next;
        }
    }

    pub(crate) fn sealed(&self, number: u32) -> Option<&Arc<Sealed>> {
        match self.homes.get(&number) {
            Some(Home::Sealed(sealed)) => Some(sealed),
            _ => None,
        }
    }

    /// Where the value of this name is in a segment that is sealed: `dead_by_holder`,
    /// `BlobStore::read`.
    pub(crate) fn place(&self, (born, ordinal): Name) -> Option<(&Arc<Sealed>, usize)> {
        match self.homes.get(&born)? {
            Home::Open(_) => None,
            Home::Sealed(sealed) => Some((sealed, ordinal)),
            Home::Moved(relocation, sealed) => Some((sealed, *relocation.get(&ordinal)?)),
        }
    }
}

/// The standard library's lock, in which schedules have no steps.
pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
