//! From the number of a blob segment to where its values are now.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use firn_format::blob::{Ordinals, Relocation, SegmentNumber};
use firn_format::manifest::BlobSegmentMeta;
use firn_storage::file::blob::{BlobSegment, UnsealedBlobs};
use firn_storage::file::obsolete::{LastReader, ObsoleteFiles, RecyclableFile};

use super::active::Active;

/// Where the values of a segment are.
#[derive(Clone, Debug)]
pub(crate) enum Home {
    /// Where they were written, and other values still are.
    Open(Arc<Active>),
    /// Where an earlier process has written them, in a database that is only read: nothing is
    /// sealed.
    Unsealed(Arc<UnsealedBlobs>),
    /// Where they were written.
    Sealed(Arc<Sealed>),
    /// The segment was collected, and the survivors are in another one.
    Moved(Arc<Relocation>, Arc<Sealed>),
}

impl Home {
    /// Bytes of records in it that nothing refers to.
    pub(crate) fn dead_bytes(&self) -> u64 {
        match self {
            Home::Sealed(sealed) => sealed.dead_bytes(),
            Home::Open(_) | Home::Unsealed(_) | Home::Moved(..) => 0,
        }
    }
}

/// A sealed segment.
///
/// Once it is [`retire`](Self::retire)d its file goes when its last holder does: maps, and so
/// versions that readers hold. Only a file that this process wrote, that no copy links and
/// that no reader maps is given to a new segment.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) segment: Arc<BlobSegment>,
    pub(crate) meta: BlobSegmentMeta,
    /// Bytes of records that nothing refers to.
    dead_bytes: AtomicU64,
    retired: AtomicBool,
    /// What wrote to the file: once that has no holder, the file may become another segment's.
    /// `None` = it never may.
    leaves_file: Mutex<Option<Weak<Active>>>,
    obsolete: Arc<ObsoleteFiles>,
}

impl Sealed {
    /// A segment in which `dead` is what nothing refers to.
    pub(crate) fn new(
        segment: BlobSegment,
        meta: BlobSegmentMeta,
        dead: &Ordinals,
        obsolete: Arc<ObsoleteFiles>,
    ) -> Self {
        obsolete.hold(&meta.file);
        let sealed = Self {
            segment: Arc::new(segment),
            meta,
            dead_bytes: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            leaves_file: Mutex::default(),
            obsolete,
        };
        sealed.died(dead);
        sealed
    }

    /// Nothing refers to these values any more.
    pub(crate) fn died(&self, ordinals: &Ordinals) {
        let bytes = self.segment.record_bytes(ordinals.iter());
        // No ordering: a number for choosing by.
        self.dead_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of records that nothing refers to.
    pub(crate) fn dead_bytes(&self) -> u64 {
        self.dead_bytes.load(Ordering::Relaxed)
    }

    /// Its file may become another segment's: this process wrote it, and it has no other name. Not
    /// while `active` has a holder, which reads the file by it.
    pub(crate) fn may_leave_file_of(&self, active: Weak<Active>) {
        *self.lock_leaves_file() = Some(active);
    }

    /// Its file is no other segment's, ever: it is about to get a second name.
    pub(crate) fn leave_no_file(&self) {
        *self.lock_leaves_file() = None;
    }

    fn lock_leaves_file(&self) -> MutexGuard<'_, Option<Weak<Active>>> {
        self.leaves_file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No version from now on knows it.
    pub(crate) fn retire(&self) {
        if !self.retired.swap(true, Ordering::AcqRel) {
            self.obsolete.retire_blobs(self.meta.bytes);
        }
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        if self.retired.load(Ordering::Acquire) {
            self.leave_file();
            self.obsolete.let_values_go(self.meta.bytes);
        }
        self.obsolete.let_go(&self.meta.file);
    }
}

impl Sealed {
    /// Its file goes, or becomes another segment's.
    fn leave_file(&self) {
        let name = self.segment.name().to_owned();
        let leaves_file = self.lock_leaves_file().take().is_some_and(|active| active.strong_count() == 0);
        // A page that is written to in part must not have to be fetched first.
        if leaves_file && self.segment.reads_in_place() {
            let (bytes, segment) = (self.meta.bytes, Arc::clone(&self.segment));
            self.obsolete.recycle_file(RecyclableFile { name, bytes, reader: LastReader::Values(segment) });
        } else {
            self.obsolete.remove_later(name);
        }
    }
}

/// Every blob segment that something may refer to; part of a version. It is immutable but for the
/// segments that are begun after it, which it knows too.
///
/// A reader that holds a map can read whatever records of its version refer to. Files of sealed
/// segments stay as long as a map has them. Segments begun later stay open as long as a map before
/// them is held.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlobMap {
    /// By rising numbers. Not an array by number: jobs are given numbers that most of them do not
    /// use.
    homes: Vec<(SegmentNumber, Home)>,
    /// The newest segment begun when the map was made.
    newest: Arc<Birth>,
}

/// A segment that was begun, and those begun after it.
#[derive(Debug, Default)]
pub(crate) struct Birth {
    /// `None` before the first, and where the newest one was let go.
    active: Option<Arc<Active>>,
    next: OnceLock<Arc<Birth>>,
}

impl Birth {
    /// The segment, as long as it may take values.
    pub(super) fn active(&self) -> Option<&Arc<Active>> {
        self.active.as_ref()
    }

    /// `active`, or nothing for now, is begun after this one, which is the newest; the newest from
    /// then on.
    pub(super) fn follow(&self, active: Option<Arc<Active>>) -> Arc<Birth> {
        Arc::clone(self.next.get_or_init(|| Arc::new(Birth { active, next: OnceLock::new() })))
    }
}

impl Drop for Birth {
    fn drop(&mut self) {
        // One by one: a segment that was held for long may be followed by more than a stack takes.
        let mut next = self.next.take();
        while let Some(mut birth) = next.and_then(Arc::into_inner) {
            next = birth.next.take();
        }
    }
}

impl BlobMap {
    /// Where the values of `number` are, unless it was begun after the map was made.
    #[inline]
    pub(crate) fn known(&self, number: SegmentNumber) -> Option<&Home> {
        let index = self.index(number).ok()?;
        self.homes.get(index).map(|(_, home)| home)
    }

    /// Where `number` is among the homes, or would be.
    #[inline]
    fn index(&self, number: SegmentNumber) -> Result<usize, usize> {
        self.homes.binary_search_by_key(&number, |(number, _)| *number)
    }

    /// The segment `number` if it was begun after the map was made.
    pub(crate) fn begun_since(&self, number: SegmentNumber) -> Option<&Arc<Active>> {
        let mut birth = &self.newest;
        while let Some(next) = birth.next.get() {
            match &next.active {
                Some(active) if active.number() == number => return Some(active),
                _ => birth = next,
            }
        }
        None
    }

    /// Whether `file` is that of a sealed segment.
    pub(crate) fn has_sealed(&self, file: &str) -> bool {
        self.homes().any(|(_, home)| matches!(home, Home::Sealed(sealed) if sealed.meta.file == file))
    }

    /// Each segment and each collected one that something refers to still.
    pub(crate) fn homes(&self) -> impl Iterator<Item = (SegmentNumber, &Home)> {
        self.homes.iter().map(|(number, home)| (*number, home))
    }

    /// Each sealed segment once.
    fn sealed(&self) -> impl Iterator<Item = &Arc<Sealed>> {
        self.homes.iter().filter_map(|(_, home)| match home {
            Home::Sealed(sealed) => Some(sealed),
            Home::Open(_) | Home::Unsealed(_) | Home::Moved(..) => None,
        })
    }

    /// No file of a sealed segment is given to another one: each is about to get a second name.
    pub(crate) fn leave_no_files(&self) {
        self.sealed().for_each(|sealed| sealed.leave_no_file());
    }

    /// Bytes of sealed segments.
    pub(crate) fn sealed_bytes(&self) -> u64 {
        self.sealed().map(|sealed| sealed.meta.bytes).sum()
    }

    /// Bytes that a live value takes with its record, on average, and bytes of values that live or
    /// are hidden; `None` if there are none.
    pub(crate) fn mean_value(&self) -> Option<(f64, f64)> {
        let (mut values, mut bytes) = (0_u64, 0_u64);
        for sealed in self.sealed() {
            values += u64::from(sealed.meta.ordinals);
            bytes += sealed.meta.bytes;
        }
        let dead: u64 = self.homes().map(|(_, home)| home.dead_bytes()).sum();
        (values > 0).then(|| (bytes as f64 / values as f64, bytes.saturating_sub(dead) as f64))
    }

    /// Tells sealed segments whether pages of them must be expected to leave memory.
    pub(crate) fn set_may_be_evicted(&self, may_be_evicted: bool) {
        self.sealed().for_each(|sealed| sealed.segment.set_may_be_evicted(may_be_evicted));
    }

    /// Whether there were no segments when the map was made.
    pub(crate) fn is_empty(&self) -> bool {
        self.homes.is_empty()
    }

    /// Whether some value may have to be waited for.
    pub(crate) fn may_wait(&self) -> bool {
        self.sealed().any(|sealed| !sealed.segment.reads_in_place())
    }

    /// The newest segment begun when the map was made.
    pub(super) fn newest(&self) -> &Arc<Birth> {
        &self.newest
    }

    /// Takes in the segments that were begun since.
    pub(super) fn catch_up(&mut self) {
        while let Some(next) = self.newest.next.get().map(Arc::clone) {
            if let Some(active) = &next.active {
                self.insert(active.number(), Home::Open(Arc::clone(active)));
            }
            self.newest = next;
        }
    }

    /// From now on the values of `number` are at `home`.
    pub(crate) fn insert(&mut self, number: SegmentNumber, home: Home) {
        match self.index(number) {
            Ok(index) => self.homes[index].1 = home,
            Err(index) => self.homes.insert(index, (number, home)),
        }
    }

    /// Nothing refers to `number` any more.
    pub(crate) fn remove(&mut self, number: SegmentNumber) {
        if let Ok(index) = self.index(number) {
            self.homes.remove(index);
        }
    }
}
