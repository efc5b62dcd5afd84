//! What a file holds, and what it held at every moment since its last sync.
//!
//! A file is pages of 4 KiB, shared with every image of it until one of them changes a page. Beside
//! each page changed since the last sync stand the page as of that sync and the changes since, in
//! order. The page at any moment is the former with the first so many of the latter. A change holds
//! a slice of the bytes that were written. So the history costs about as much as what was written,
//! and nothing after a sync.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use fastrand::Rng;

/// What reaches the device at once, if at all.
pub(super) const PAGE_BYTES: usize = 4096;

/// What reaches the device whole, if at all.
const SECTOR_BYTES: usize = 512;

type Page = [u8; PAGE_BYTES];

/// The bytes of one file, now and since its last sync.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// Missing pages are zeros.
    pages: Vec<Option<Arc<Page>>>,
    len: u64,
    /// Lengths the file had since the last sync, the first as of that sync; never empty once
    /// changed.
    lens_unsynced: Vec<u64>,
    pages_unsynced: BTreeMap<usize, PageHistory>,
    /// All bytes in one piece, if they were asked for since the last change.
    whole: Option<Arc<Vec<u8>>>,
}

#[derive(Clone, Debug)]
struct PageHistory {
    synced: Option<Arc<Page>>,
    changes: Vec<PageChange>,
}

#[derive(Clone, Debug)]
enum PageChange {
    /// `bytes[part]` were written at `at`.
    Write { at: usize, bytes: Arc<[u8]>, part: Range<usize> },
    /// The file was cut here: all from `from` on became zeros.
    Cut { from: usize },
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Writes `bytes` at `offset`. The sum of both MUST fit a `usize`.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.whole = None;
        let shared: Arc<[u8]> = bytes.into();
        let mut done = 0;
        while done < bytes.len() {
            let position = offset as usize + done;
            let (page, at) = (position / PAGE_BYTES, position % PAGE_BYTES);
            let part = done..(done + PAGE_BYTES - at).min(bytes.len());
            done = part.end;
            self.change_page(page, PageChange::Write { at, bytes: shared.clone(), part });
        }
        self.change_len(self.len.max(offset + bytes.len() as u64));
    }

    /// Cuts or extends the file; what an extension adds is zeros.
    pub(super) fn set_len(&mut self, len: u64) {
        self.whole = None;
        let (page, at) = (len as usize / PAGE_BYTES, len as usize % PAGE_BYTES);
        for index in page..self.pages.len() {
            let from = if index == page { at } else { 0 };
            if self.pages.get(index).is_some_and(Option::is_some) {
                self.change_page(index, PageChange::Cut { from });
            }
        }
        self.change_len(len);
    }

    /// From now on this is what power loss leaves at least.
    pub(super) fn sync(&mut self) {
        self.pages_unsynced.clear();
        self.lens_unsynced.clear();
    }

    /// Fills `out` from `offset`; zeros beyond the end.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let position = offset as usize + done;
            let (page, at) = (position / PAGE_BYTES, position % PAGE_BYTES);
            let bytes = (PAGE_BYTES - at).min(out.len() - done);
            let target = &mut out[done..done + bytes];
            match self.pages.get(page) {
                Some(Some(page)) => target.copy_from_slice(&page[at..at + bytes]),
                _ => target.fill(0),
            }
            done += bytes;
        }
    }

    /// The first `len` bytes in one piece; shared by all callers that ask for all of an unchanged
    /// file.
    pub(super) fn whole(&mut self, len: usize) -> Arc<Vec<u8>> {
        if let Some(whole) = self.whole.as_ref().filter(|whole| whole.len() == len) {
            return whole.clone();
        }
        let mut bytes = vec![0; len];
        self.read(0, &mut bytes);
        let whole = Arc::new(bytes);
        if self.len == len as u64 {
            self.whole = Some(whole.clone());
        }
        whole
    }

    /// What is left of the file after power loss. Its length is as of some moment since the last
    /// sync, and each page as of a moment of its own. The last change of a page may be there in
    /// some sectors only.
    pub(super) fn after_power_loss(&self, rng: &mut Rng) -> Self {
        let bias = Bias::draw(rng);
        let mut pages = self.pages.clone();
        for (&index, history) in &self.pages_unsynced {
            let count = bias.moment(history.changes.len(), rng);
            if let Some(page) = pages.get_mut(index) {
                *page = history.at(count, rng);
            }
        }
        let moment = bias.moment(self.lens_unsynced.len().saturating_sub(1), rng);
        let len = self.lens_unsynced.get(moment).copied().unwrap_or(self.len);
        let mut left = Self { pages, len, ..Self::default() };
        left.set_len(len);
        left.sync();
        if self.pages_unsynced.is_empty() && len == self.len {
            left.whole.clone_from(&self.whole);
        }
        left
    }

    fn change_page(&mut self, index: usize, change: PageChange) {
        if index >= self.pages.len() {
            self.pages.resize(index + 1, None);
        }
        let page = &mut self.pages[index];
        let history = self.pages_unsynced.entry(index);
        let history = history.or_insert_with(|| PageHistory { synced: page.clone(), changes: Vec::new() });
        change.apply(page, |_| true);
        history.changes.push(change);
    }

    fn change_len(&mut self, len: u64) {
        if len != self.len {
            if self.lens_unsynced.is_empty() {
                self.lens_unsynced.push(self.len);
            }
            self.lens_unsynced.push(len);
            self.len = len;
        }
    }
}

impl PageHistory {
    /// The page after the first `count` changes, the last of them torn half of the times.
    fn at(&self, count: usize, rng: &mut Rng) -> Option<Arc<Page>> {
        let mut page = self.synced.clone();
        let Some((last, before)) = self.changes.get(..count).and_then(<[_]>::split_last) else { return page };
        for change in before {
            change.apply(&mut page, |_| true);
        }
        let torn = rng.bool();
        let written: u64 = rng.u64(..);
        last.apply(&mut page, |sector| !torn || written >> sector & 1 == 1);
        page
    }
}

impl PageChange {
    /// Applies those sectors of the change that `reaches` lets through. A cut is never torn.
    fn apply(&self, page: &mut Option<Arc<Page>>, reaches: impl Fn(usize) -> bool) {
        match self {
            Self::Cut { from: 0 } => *page = None,
            Self::Cut { from } => {
                if let Some(page) = page {
                    Arc::make_mut(page)[*from..].fill(0);
                }
            }
            Self::Write { at, bytes, part } => {
                let page = Arc::make_mut(page.get_or_insert_with(|| Arc::new([0; PAGE_BYTES])));
                let end = at + part.len();
                for sector in at / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
                    let from = (sector * SECTOR_BYTES).max(*at);
                    let to = ((sector + 1) * SECTOR_BYTES).min(end);
                    if reaches(sector) {
                        let source = part.start + from - at..part.start + to - at;
                        page[from..to].copy_from_slice(&bytes[source]);
                    }
                }
            }
        }
    }
}

/// How much of the unsynced a power loss tends to leave; drawn anew for each file. So some images
/// have nearly all of it, some nearly none, and in some every page has a fate of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bias {
    Old,
    New,
    Mixed,
}

impl Bias {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        match rng.u8(0..4) {
            0 => Self::Old,
            1 => Self::New,
            _ => Self::Mixed,
        }
    }

    /// How many of `count` changes count: 0 to `count`.
    pub(super) fn moment(self, count: usize, rng: &mut Rng) -> usize {
        match (self, rng.u8(0..8)) {
            (Self::Old, 1..) | (Self::Mixed, 0) => 0,
            (Self::New, 1..) | (Self::Mixed, 1) => count,
            _ => rng.usize(0..=count),
        }
    }
}

#[cfg(test)]
impl Content {
    /// How many changes are remembered.
    pub(super) fn history_count(&self) -> usize {
        self.pages_unsynced.values().map(|history| history.changes.len()).sum()
    }
}
