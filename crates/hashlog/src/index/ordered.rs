//! The entries of a slot in the order of their tags, a bucket at a time.
//!
//! A run's buckets are in that order, and so are those of the run that it grows into. So a tag says
//! where to go on, whatever happened meanwhile. A bucket that is being split is read all the same:
//! what it has is what was there when it was frozen, and it stays while the caller is inside.

use super::{ENTRIES, Entry, Index, KeyHash, Link};
use crate::sync::Ordering;

impl Index {
    /// Entries of `slot` from `tag` on, as far as one bucket has them, in the order of their tags.
    /// Answers the first tag of the next bucket; `None` behind the last one.
    pub(crate) fn entries_from(&self, slot: usize, tag: u16, out: &mut Vec<Entry>) -> Option<u16> {
        out.clear();
        let run = self.run(slot);
        if run.is_none() {
            return None;
        }
        let hash = KeyHash::of(slot, tag);
        let mut next = Some(self.bucket(run, hash));
        while let Some(bucket) = next {
            let words = self.words(bucket);
            for word in &words[..ENTRIES] {
                let entry = Entry(word.load(Ordering::Acquire));
                if !entry.is_free() && !entry.is_tentative() && entry.tag() >= tag {
                    out.push(entry);
                }
            }
            next = Link(words[ENTRIES].load(Ordering::Acquire)).overflow();
        }
        out.sort_unstable_by_key(|entry| entry.tag());
        hash.next_bucket(run.size())
    }
}
