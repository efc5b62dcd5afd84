//! The range deletes of a memtable: fragmented lists, merged geometrically.

use crate::sync::{AtomicUsize, Mutex, Ordering};
use arc_swap::ArcSwap;
use firn_format::key::Sequence;
use firn_format::tombstone::{FragmentList, Span};
use std::sync::{Arc, PoisonError};

/// Every range delete of a memtable at one moment, in O(log n) lists. Immutable.
#[derive(Clone, Default)]
pub(crate) struct RangeDeletes {
    /// Longest first; each more than twice as long as the next.
    lists: Vec<Arc<FragmentList>>,
    /// The greatest sequence of any.
    newest: Option<Sequence>,
}

impl RangeDeletes {
    /// The newest sequence below `before` that covers `key`.
    #[inline]
    pub(crate) fn newest_covering(&self, key: &[u8], before: Sequence) -> Option<Sequence> {
        self.lists.iter().filter_map(|list| list.newest_covering(key, before)).max()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// The lists, in no order of age.
    pub(crate) fn lists(&self) -> &[Arc<FragmentList>] {
        &self.lists
    }

    /// The greatest sequence of any; `None` if there is none. O(1).
    pub(crate) fn newest(&self) -> Option<Sequence> {
        self.newest
    }

    /// Those below `before`, in one list. O(n log n), unless they are in one list already.
    pub(crate) fn flatten(&self, before: Sequence) -> Arc<FragmentList> {
        let all_below = |list: &FragmentList| list.sequence_range().is_none_or(|(_, newest)| newest < before);
        if let [list] = &self.lists[..]
            && all_below(list)
        {
            return Arc::clone(list);
        }
        let spans = self.lists.iter().flat_map(|list| list.spans()).filter(|span| span.sequence < before);
        Arc::new(FragmentList::from_spans(spans))
    }

    fn with(&self, span: Span<'_>) -> Self {
        let mut lists = self.lists.clone();
        let mut newest = Arc::new(FragmentList::from_spans([span]));
        while let Some(last) = lists.pop_if(|last| last.len() <= 2 * newest.len()) {
            newest = Arc::new(FragmentList::merge(&[&last, &newest]));
        }
        lists.push(newest);
        Self { lists, newest: self.newest.max(Some(span.sequence)) }
    }
}

/// Where the writers of a memtable put their range deletes.
pub(super) struct Tombstones {
    /// Lets a reader of one of the many memtables without range deletes do with one load.
    count: AtomicUsize,
    current: ArcSwap<RangeDeletes>,
    inserting: Mutex<()>,
}

impl Tombstones {
    pub(super) fn new() -> Self {
        Self { count: AtomicUsize::new(0), current: ArcSwap::default(), inserting: Mutex::new(()) }
    }

    /// Adds a range delete; empty ranges change nothing. Waits for other range deletes, not for
    /// anything else.
    pub(super) fn insert(&self, start: &[u8], end: &[u8], sequence: Sequence) {
        let _lock = self.inserting.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.current.load().with(Span { start, end, sequence });
        self.current.store(Arc::new(next));
        self.count.fetch_add(1, Ordering::Release);
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn newest_covering(&self, key: &[u8], before: Sequence) -> Option<Sequence> {
        if self.count() == 0 {
            return None;
        }
        self.current.load().newest_covering(key, before)
    }

    /// The greatest sequence of any.
    pub(super) fn newest(&self) -> Option<Sequence> {
        if self.count() == 0 {
            return None;
        }
        self.current.load().newest()
    }

    /// All range deletes there are now.
    pub(super) fn current(&self) -> Arc<RangeDeletes> {
        self.current.load_full()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.current.load().lists.iter().map(|list| list.memory_bytes()).sum()
    }
}
