//! The list of gaps against a set of single keys.

use std::collections::BTreeSet;

use super::super::Passed;
use super::*;

/// Keys are numbers below this, as two bytes.
const KEYS: u16 = 200;

/// More bytes than all of their gaps take.
const BYTES_MAX: usize = 1 << 20;

fn key(number: u16) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn gap(start: u16, end: u16, through: u64) -> Gap {
    let end = (end < KEYS).then(|| key(end));
    Gap::new(Passed { start: key(start), end, through: Sequence(through), as_of_ms: 0, keys: 1000 })
}

/// Numbers drawn by xorshift.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u16) -> u16 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as u16 % bound
    }
}

/// All gaps, in order.
fn all(list: &List) -> Vec<Arc<Gap>> {
    let mut gaps = Vec::new();
    list.gaps.each(&mut |gap| gaps.push(Arc::clone(gap)));
    gaps
}

/// The order of all gaps, what is counted of them, and how they are found.
#[track_caller]
fn check(list: &List) {
    list.gaps.check();
    let gaps = all(list);
    assert_eq!(gaps.len(), list.gaps.count() as usize);
    assert_eq!(gaps.iter().map(|gap| gap.bytes()).sum::<usize>(), list.bytes);
    for (rank, gap) in gaps.iter().enumerate() {
        assert!(list.gaps.nth(rank as u32).is_some_and(|nth| Arc::ptr_eq(nth, gap)), "{rank}");
    }
    assert!(list.gaps.nth(gaps.len() as u32).is_none());
    for pair in gaps.windows(2) {
        assert!(pair[0].end().is_some_and(|end| end < pair[1].start()), "{pair:?}");
    }
}

#[test]
fn a_list_holds_what_was_added_and_not_cut() {
    for seed in 1..=40_u64 {
        let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (mut list, mut model) = (List::default(), BTreeSet::new());
        for step in 0..100 {
            if draw.below(3) == 0 {
                let number = draw.below(KEYS);
                list.cut(&key(number));
                model.remove(&number);
            } else {
                let start = draw.below(KEYS - 1);
                let end = start + 1 + draw.below(KEYS - start).min(draw.below(12));
                let held = list.clone();
                let before = all(&held).len();
                list.add(&gap(start, end, 1 + u64::from(draw.below(4))), BYTES_MAX);
                assert_eq!(all(&held).len(), before, "seed {seed}: a list that is held changed");
                check(&held);
                model.extend(start..end.min(KEYS));
            }
            check(&list);
            for number in 0..KEYS {
                let is_held = list.holds(&key(number));
                // Cutting may give up more than one key, and never less.
                assert!(!is_held || model.contains(&number), "seed {seed}, step {step}, key {number}");
            }
            let held = (0..KEYS).filter(|number| list.holds(&key(*number))).count();
            assert!(held * 4 >= model.len() * 3, "seed {seed}: {held} of {} keys are held", model.len());
            look(&list, draw.below(KEYS), Sequence(u64::from(draw.below(6))));
        }
    }
}

/// What readers below `through` find from `number` on and before it, against all gaps in order.
#[track_caller]
fn look(list: &List, number: u16, through: Sequence) {
    let mut gaps = all(list);
    gaps.retain(|gap| gap.is_for(through, 0));
    let key = key(number);
    let after = gaps.iter().find(|gap| !gap.ends_by(&key));
    let before = gaps.iter().rev().find(|gap| gap.start() < key.as_slice());
    let start = |gap: Option<&Arc<Gap>>| gap.map(|gap| gap.start().to_vec());
    assert_eq!(start(list.first_after(&key, through, 0)), start(after));
    assert_eq!(start(list.last_before(Some(&key), through, 0)), start(before));
    assert_eq!(start(list.last_before(None, through, 0)), start(gaps.last()));
}

#[test]
fn joined_gaps_are_for_readers_of_the_later_point_and_time() {
    let mut list = List::default();
    let later = Gap::new(Passed { as_of_ms: 50, ..gap(10, 20, 7).passed().clone() });
    list.add(&gap(0, 10, 5), BYTES_MAX);
    list.add(&later, BYTES_MAX);
    assert_eq!(list.count(), 1, "they touch");
    assert!(list.first_after(&key(0), Sequence(6), 50).is_none());
    assert!(list.first_after(&key(0), Sequence(7), 49).is_none());
    let joined = list.first_after(&key(0), Sequence(7), 50).unwrap();
    assert_eq!((joined.start(), joined.end()), (&key(0)[..], Some(&key(20)[..])));
}

#[test]
fn a_gap_that_would_take_too_much_leaves_the_others() {
    let mut list = List::default();
    list.add(&gap(0, 10, 1), BYTES_MAX);
    let bytes = list.bytes();
    list.add(&gap(5, 20, 1), bytes - 1);
    assert_eq!((list.count(), list.bytes()), (1, bytes));
    assert!(list.holds(&key(9)) && !list.holds(&key(10)));
    list.add(&gap(5, 20, 1), bytes);
    assert!(list.holds(&key(19)));
}

#[test]
fn given_up_are_those_not_used_for_long() {
    let mut list = List::default();
    for number in 0..KEYS / 2 {
        list.add(&gap(2 * number, 2 * number + 1, 1), BYTES_MAX);
        list.time += 1;
    }
    let newest = all(&list).last().map(Arc::clone).unwrap();
    for left in (1..KEYS / 2).rev() {
        list.evict();
        check(&list);
        assert_eq!(list.count(), usize::from(left));
    }
    assert!(list.holds(newest.start()));
    list.evict();
    list.evict();
    assert_eq!((list.count(), list.bytes()), (0, 0));
}

#[test]
fn a_gap_that_is_cut_often_goes() {
    let mut list = List::default();
    let whole = Gap::new(Passed { keys: 64, ..gap(0, KEYS, 1).passed().clone() });
    list.add(&whole, BYTES_MAX);
    for number in 0..KEYS {
        list.cut(&key(number));
    }
    assert!(list.count() <= 16, "{} pieces of 64 keys", list.count());
}
