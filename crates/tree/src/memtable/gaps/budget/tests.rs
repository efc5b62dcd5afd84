//! Gaps of many keyspaces that have one budget.

use super::super::{List, Passed};
use super::*;
use firn_format::key::Sequence;

fn keyspaces(count: usize, bytes_max: usize) -> (Arc<GapBudget>, Vec<Arc<Gaps>>) {
    let budget = Arc::new(GapBudget::new(bytes_max));
    let gaps = (0..count).map(|_| Arc::new(Gaps::new(&budget))).collect();
    (budget, gaps)
}

/// Learns the gap number `number`, whose ends are keys of `key_bytes`.
fn learn(gaps: &Arc<Gaps>, number: u32, key_bytes: usize) {
    let key = |number: u32| [&number.to_be_bytes()[..], &vec![7; key_bytes - 4]].concat();
    let (start, end) = (key(2 * number), Some(key(2 * number + 1)));
    let through = Sequence(1);
    assert!(gaps.learn(Passed { start, end, through, as_of_ms: 0, keys: 1000 }, || false));
}

fn count(gaps: &Gaps) -> usize {
    gaps.list().map_or(0, |list| List::count(&list))
}

#[test]
fn ten_thousand_keyspaces_have_one_bound() {
    let (budget, gaps) = keyspaces(10_000, 1 << 20);
    for number in 0..5 {
        for gaps in &gaps {
            learn(gaps, number, 8);
            assert!(budget.bytes() <= 1 << 20, "{} bytes", budget.bytes());
        }
    }
    let all: usize = gaps.iter().map(|gaps| count(gaps)).sum();
    assert!(all > 3000, "{all} gaps are known in {} bytes", budget.bytes());
    let bytes: usize = gaps.iter().map(|gaps| gaps.bytes()).sum();
    assert_eq!(bytes, budget.bytes());
    drop(gaps);
    assert_eq!(budget.bytes(), 0, "keyspaces that were dropped take gaps along");
}

#[test]
fn a_keyspace_with_many_pushes_none_out_of_one_with_few() {
    let (budget, gaps) = keyspaces(2, 1 << 20);
    let [few, many] = &gaps[..] else { panic!("two") };
    (0..100).for_each(|number| learn(few, number, 8));
    (0..20_000).for_each(|number| learn(many, number, 8));
    assert_eq!(count(few), 100);
    assert!(count(many) > 2000, "{} gaps", count(many));
    assert!(budget.bytes() <= 1 << 20);
    // The keyspace has its share from then on, whatever there is already.
    (100..5000).for_each(|number| learn(few, number, 8));
    assert!(count(few) > 1000 && count(many) > 1000, "{} and {} gaps", count(few), count(many));
}

#[test]
fn gaps_in_use_stay() {
    let (_budget, gaps) = keyspaces(1, 1 << 20);
    let gaps = &gaps[0];
    learn(gaps, 0, 8);
    let used = |gaps: &Gaps| {
        let list = gaps.list().unwrap();
        let first = list.first_after(&[], Sequence(1), 0).unwrap();
        first.note_use(&list);
        first.start() == [0, 0, 0, 0, 7, 7, 7, 7]
    };
    for number in 1..20_000 {
        learn(gaps, number, 8);
        assert!(used(gaps), "a gap in use went for one that is not, at {number}");
    }
    assert!(count(gaps) < 10_000);
}

#[test]
fn the_longest_keys_are_ends_of_gaps() {
    let (budget, gaps) = keyspaces(2, 1 << 20);
    for number in 0..50 {
        gaps.iter().for_each(|gaps| learn(gaps, number, 65_000));
        assert!(budget.bytes() <= 1 << 20, "{} bytes", budget.bytes());
    }
    let counts = [count(&gaps[0]), count(&gaps[1])];
    assert!(counts.iter().all(|count| *count >= 3), "{counts:?} gaps");
    // A gap that took more than half is not kept, and takes nothing along.
    let before = budget.bytes();
    learn(&gaps[0], 99, 300_000);
    assert_eq!(budget.bytes(), before);
}
