//! The list of gaps against a set of single keys.

use std::collections::BTreeSet;

use super::*;

/// Keys are numbers below this, as two bytes.
const KEYS: u16 = 200;

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

/// All gaps in order, and the order itself.
fn check(list: &List) {
    let gaps: Vec<&Arc<Gap>> = list.chunks.iter().flat_map(|chunk| chunk.iter()).collect();
    assert_eq!(gaps.len(), list.gap_count);
    assert_eq!(gaps.iter().map(|gap| gap.bytes()).sum::<usize>(), list.bytes);
    assert!(list.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK_MAX));
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
                list.add(&gap(start, end, 1));
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
            look(&list, draw.below(KEYS));
        }
    }
}

/// What is found from `number` on and before it, against all gaps in order.
#[track_caller]
fn look(list: &List, number: u16) {
    let gaps: Vec<&Arc<Gap>> = list.chunks.iter().flat_map(|chunk| chunk.iter()).collect();
    let key = key(number);
    let after = gaps.iter().find(|gap| !gap.ends_by(&key)).copied();
    let before = gaps.iter().rev().find(|gap| gap.start() < key.as_slice()).copied();
    let start = |gap: Option<&Arc<Gap>>| gap.map(|gap| gap.start().to_vec());
    assert_eq!(start(list.first_after(&key, Sequence(1), 0)), start(after));
    assert_eq!(start(list.last_before(Some(&key), Sequence(1), 0)), start(before));
    assert_eq!(start(list.last_before(None, Sequence(1), 0)), start(gaps.last().copied()));
    assert!(list.first_after(&key, Sequence(0), 0).is_none(), "no gap is for readers of older points");
    assert!(list.last_before(None, Sequence(0), 0).is_none());
}

#[test]
fn joined_gaps_are_for_readers_of_the_later_point_and_time() {
    let mut list = List::default();
    let mut later = gap(10, 20, 7);
    later.passed.as_of_ms = 50;
    list.add(&gap(0, 10, 5));
    list.add(&later);
    assert_eq!(list.gap_count, 1, "they touch");
    assert!(list.first_after(&key(0), Sequence(6), 50).is_none());
    assert!(list.first_after(&key(0), Sequence(7), 49).is_none());
    let joined = list.first_after(&key(0), Sequence(7), 50).unwrap();
    assert_eq!((joined.start(), joined.end()), (&key(0)[..], Some(&key(20)[..])));
}

#[test]
fn gaps_are_bounded_and_those_in_use_stay() {
    let mut list = List::default();
    let number = |number: u32| number.to_be_bytes().to_vec();
    let wide = |start: u32| {
        let (start, end) = (number(start), Some(number(start + 1)));
        Gap::new(Passed { start, end, through: Sequence(1), as_of_ms: 0, keys: 1000 })
    };
    for start in 0..5000 {
        list.add(&wide(2 * start));
        let used = list.first_after(&number(0), Sequence(1), 0).map(Arc::clone).unwrap();
        if used.start() == number(0) {
            used.note_use(&list);
        }
        list.time += 1;
    }
    check(&list);
    assert_eq!(list.gap_count, GAPS_MAX);
    assert!(list.holds(&number(0)), "a gap in use went for one that is not");
    for start in 0..5000 {
        let long = [number(2 * start), vec![7; 9_000]].concat();
        let (start, end) = (long.clone(), Some([long, vec![0]].concat()));
        list.add(&Gap::new(Passed { start, end, through: Sequence(1), as_of_ms: 0, keys: 4 }));
        assert!(list.bytes <= BYTES_MAX);
    }
    check(&list);
}

#[test]
fn a_gap_that_is_cut_often_goes() {
    let mut list = List::default();
    let mut whole = gap(0, KEYS, 1);
    whole.passed.keys = 64;
    list.add(&whole);
    for number in 0..KEYS {
        list.cut(&key(number));
    }
    assert!(list.gap_count <= 16, "{} pieces of 64 keys", list.gap_count);
}
