use super::*;

const SLOT_KEYS: u16 = 4000;

fn key(slot: usize, number: u16) -> KeyHash {
    KeyHash::of(slot, number.wrapping_mul(0x9e37))
}

/// An index of which one slot has many entries.
fn filled(slot: usize) -> (Arc<Epochs>, Index) {
    let epochs = Epochs::new(None);
    let index = Index::new(4096, Arc::clone(&epochs), Waits::timed_by(None)).expect("memory");
    for number in 0..SLOT_KEYS {
        let inserted = index.insert(key(slot, number), 1 + u64::from(number));
        assert!(matches!(inserted, Inserted::New), "{number}: {inserted:?}");
    }
    epochs.run_due();
    (epochs, index)
}

fn free(index: &Index, hash: KeyHash) {
    let (place, entry) = index.find(hash).expect("it is there");
    assert!(index.free_entry(hash, place, entry));
}

/// A slot whose entries have gone gives its memory back, whole pages of it to the system, and
/// another slot takes it.
#[test]
fn a_slot_that_lost_its_entries_gives_memory_back() {
    let (epochs, index) = filled(3);
    let before = index.bytes();
    for number in (0..SLOT_KEYS).filter(|number| number % 16 != 0) {
        free(&index, key(3, number));
    }
    assert_eq!(index.bytes(), before, "nothing but a shrinkage takes buckets away");
    index.shrink(&epochs.stop(), 0..SLOTS, false);
    assert!(index.bytes() * 8 <= before, "{} of {before} bytes", index.bytes());
    for number in 0..SLOT_KEYS {
        let found = index.find(key(3, number)).map(|(_, entry)| entry.target());
        assert_eq!(found, (number % 16 == 0).then_some(1 + u64::from(number)));
    }
    for number in 0..SLOT_KEYS {
        assert!(matches!(index.insert(key(9, number), 8), Inserted::New), "{number} has no room");
    }
    for number in (0..SLOT_KEYS).step_by(16) {
        free(&index, key(3, number));
    }
    index.shrink(&epochs.stop(), 3..4, false);
    assert!(index.find(key(3, 0)).is_none());
    assert!(matches!(index.insert(key(3, 0), 8), Inserted::New));
}

/// Chains that were long give back what they do not need any more where that is asked for.
#[test]
fn chains_that_lost_their_entries_give_buckets_back() {
    let epochs = Epochs::new(None);
    let index = Index::new(64, Arc::clone(&epochs), Waits::timed_by(None)).expect("memory");
    // All in the first bucket, whatever the slot's run.
    let mut count = 0;
    while matches!(index.insert(KeyHash::of(0, count), 8), Inserted::New) {
        count += 1;
    }
    epochs.run_due();
    let before = index.bytes();
    let kept = |number: u16| number.is_multiple_of(3);
    for number in (0..count).filter(|number| !kept(*number)) {
        free(&index, KeyHash::of(0, number));
    }
    index.shrink(&epochs.stop(), 0..1, false);
    assert_eq!(index.bytes(), before, "it has enough entries for its buckets");
    index.shrink(&epochs.stop(), 0..1, true);
    assert!(index.bytes() * 4 < before * 3, "{} of {before} bytes, {count} entries", index.bytes());
    for number in 0..count {
        assert_eq!(index.find(KeyHash::of(0, number)).is_some(), kept(number), "{number}");
    }
}

/// A slot that has many entries, or is growing, stays as it is.
#[test]
fn a_slot_with_many_entries_does_not_shrink() {
    let (epochs, index) = filled(3);
    let before = (index.bytes(), index.run(3));
    for number in 0..SLOT_KEYS / 4 {
        free(&index, key(3, number));
    }
    index.shrink(&epochs.stop(), 0..SLOTS, false);
    assert_eq!((index.bytes(), index.run(3)), before);
}

/// What is inserted takes no more memory than the index may have; what it needs not have leaves a
/// quarter.
#[test]
fn an_index_takes_no_more_than_it_may() {
    let (_, index) = filled(3);
    // Slots of them grow at times of their own.
    let copy = |number: u16| key(10 + usize::from(number % 7), number / 7);
    let mut copies = 0;
    while matches!(index.insert_copy(copy(copies), 8), Inserted::New) {
        copies += 1;
    }
    let most = 4096 * BUCKET_WORDS as u64 * 8;
    assert!(index.bytes() <= most / 4 * 3, "{} of {most} bytes for {copies} copies", index.bytes());
    let mut entries = 0;
    while matches!(
        index.insert(key(usize::from(entries) % SLOTS, entries / 4), 8),
        Inserted::New | Inserted::Existing(..)
    ) {
        entries += 1;
    }
    assert!(index.bytes() <= most, "{} of {most} bytes", index.bytes());
    assert!(index.promise(1).is_none() && entries > 500, "{entries} entries");
}

/// A thread that goes on with a growth which has ended takes nothing of the next one.
#[test]
fn a_growth_is_not_held_up_by_a_thread_that_the_one_before_left_behind() {
    const SLOT: usize = 5;
    let index = Index::new(4096, Epochs::new(None), Waits::timed_by(None)).expect("memory");
    let mut number = 0;
    let mut insert_until = |is_so: &dyn Fn(Run) -> bool| {
        while !is_so(index.run(SLOT)) {
            assert!(matches!(index.insert(key(SLOT, number), 8), Inserted::New));
            number += 1;
        }
        index.run(SLOT)
    };
    let left_behind = insert_until(&Run::is_growing);
    let next = insert_until(&|run| run.is_growing() && run.first() != left_behind.first());
    for _ in 0..3 {
        assert!(!index.split_next(SLOT, left_behind));
    }
    index.finish_growth(SLOT);
    let run = index.run(SLOT);
    assert!(!run.is_growing() && run.size() == next.size(), "a bucket was left out: {run:?}");
}
