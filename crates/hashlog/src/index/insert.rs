//! A new entry: how of several threads that insert one tag only one succeeds.
//!
//! Two threads may find different free places for the same tag, after a third has freed one of
//! them. So an entry is *tentative* first: it has its place, and lookups pass it by. Then its
//! thread walks the chain again, and makes the entry visible if no other has the tag. Of two
//! threads that do this at once at least one sees the other's entry: both store before they look,
//! with a sequentially consistent fence between. Where both are tentative the one that comes later
//! in the chain frees its place and begins anew, and the other waits for that.

use super::slab::Source;
use super::{ENTRIES, Entry, Index, KeyHash, Link, Place, Promise, Run, Walk};
use crate::sync::{Ordering, Patience, fence, lock};

/// What an insertion found or made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inserted {
    /// The entry leads to the caller's record.
    New,
    /// There is an entry with the tag: the caller's record belongs in front of its chain.
    Existing(Place, Entry),
    /// No memory is left for a bucket.
    Full,
}

impl Index {
    /// Makes an entry that leads to `address`, unless there is one with the key's tag.
    pub(crate) fn insert(&self, hash: KeyHash, address: u64) -> Inserted {
        self.insert_with(hash, Entry::new(hash.tag(), address), Source::Any(&self.slab))
    }

    /// As [`insert`](Self::insert), of an entry that leads to the copy at `address` in the read
    /// cache. It takes no memory that records of the log will need.
    pub(crate) fn insert_copy(&self, hash: KeyHash, address: u64) -> Inserted {
        let entry = Entry::new(hash.tag(), address).leading_to_copy(address);
        self.insert_with(hash, entry, Source::Spare(&self.slab))
    }

    /// As [`insert`](Self::insert), where no other thread inserts the tag, with a bucket of
    /// `promise` where one is needed. `false` if there is an entry after all.
    pub(crate) fn insert_promised(&self, hash: KeyHash, address: u64, promise: &mut Promise) -> bool {
        let entry = Entry::new(hash.tag(), address);
        matches!(self.insert_with(hash, entry, Source::Promised(promise)), Inserted::New)
    }

    fn insert_with(&self, hash: KeyHash, entry: Entry, mut buckets: Source<'_>) -> Inserted {
        let mut patience = Patience::default();
        loop {
            let run = match self.run(hash.slot()) {
                run if run.is_none() => match self.first_run(hash.slot(), &mut buckets) {
                    Some(run) => run,
                    None => return Inserted::Full,
                },
                run => run,
            };
            let bucket = self.bucket(run, hash);
            let place = match self.walk(bucket, hash.tag()) {
                Walk::Found(place, entry) => return Inserted::Existing(place, entry),
                Walk::Absent { is_being_inserted: true, .. } => {
                    patience.wait();
                    continue;
                }
                Walk::Absent { free: Some(place), .. } => place,
                Walk::Absent { free: None, last, .. } => match self.extend(last, &mut buckets) {
                    Extended::By(place) => place,
                    Extended::Raced => continue,
                    Extended::Full => return Inserted::Full,
                },
                Walk::Frozen => {
                    patience.wait();
                    continue;
                }
            };
            if !self.change(place, Entry::FREE, entry.tentative()) {
                continue;
            }
            // Between the store of one's own entry and the look at the others.
            fence(Ordering::SeqCst);
            if self.is_alone(bucket, place, hash.tag()) && self.change(place, entry.tentative(), entry) {
                self.count(hash, run, &buckets);
                return Inserted::New;
            }
            // Fails where the bucket is being split meanwhile: a tentative entry does not move.
            self.change(place, entry.tentative(), Entry::FREE);
            patience.wait();
        }
    }

    /// Whether the tentative entry at `place` is the one with `tag` in the chain of `bucket` that
    /// may become visible. Waits for others behind it, which will not.
    fn is_alone(&self, bucket: u64, place: Place, tag: u16) -> bool {
        let (mut next, mut is_behind) = (Some(bucket), false);
        while let Some(bucket) = next {
            let words = self.words(bucket);
            for (index, word) in words[..ENTRIES].iter().enumerate() {
                if place.word == bucket as usize * super::BUCKET_WORDS + index {
                    is_behind = true;
                    continue;
                }
                let mut patience = Patience::default();
                loop {
                    let entry = Entry(word.load(Ordering::Acquire));
                    let is_other = !entry.is_free() && entry.tag() == tag;
                    if !is_other {
                        break;
                    }
                    if !is_behind || !entry.is_tentative() || entry.is_frozen() {
                        return false;
                    }
                    patience.wait();
                }
            }
            next = Link(words[ENTRIES].load(Ordering::Acquire)).overflow();
        }
        true
    }

    /// A bucket behind `last`, which is full.
    fn extend(&self, last: u64, buckets: &mut Source<'_>) -> Extended {
        let Some(bucket) = buckets.take() else { return Extended::Full };
        let link = &self.words(last)[ENTRIES];
        let old = link.load(Ordering::Relaxed);
        let is_last = Link(old).overflow().is_none() && !Link(old).is_frozen();
        // An overflow bucket has no split of its own to wait for.
        if is_last && link.compare_exchange(old, old | bucket, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Extended::By(Place { word: bucket as usize * super::BUCKET_WORDS });
        }
        buckets.give_back(bucket);
        Extended::Raced
    }

    /// The first bucket of a slot.
    fn first_run(&self, slot: usize, buckets: &mut Source<'_>) -> Option<Run> {
        let _turn = lock(&self.beginning);
        let found = self.run(slot);
        if !found.is_none() {
            return Some(found);
        }
        let sized = Some(self.first_size).filter(|size| *size > 0);
        let run = match sized.and_then(|size| Some(Run::new(buckets.take_run(size)?, size))) {
            Some(run) => run,
            None => Run::new(buckets.take()?, 0),
        };
        self.directory.word(slot).store(run.0, Ordering::Release);
        Some(run)
    }

    /// Counts a new entry, and has the slot grow where it has many.
    fn count(&self, hash: KeyHash, run: Run, buckets: &Source<'_>) {
        let entries = self.counts.word(hash.slot()).fetch_add(1, Ordering::Relaxed) + 1;
        self.grow_if_full(hash.slot(), run, entries, buckets);
    }
}

/// What became of a chain that was full.
enum Extended {
    By(Place),
    /// Another thread extended it, or it is being split.
    Raced,
    Full,
}
