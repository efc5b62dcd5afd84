//! Range deletes.

use super::*;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

#[test]
fn range_deletes_are_the_models_at_every_sequence() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        println!("seed {seed}");
        let memtable = Memtable::new(b"");
        let mut spans: Vec<(u64, u64, Sequence)> = Vec::new();
        for step in 0..random.u64(..120) {
            let (start, end) = (random.u64(..60), random.u64(..60));
            memtable.insert_range_delete(&key(start), &key(end), Sequence(step * 3 + 1));
            spans.push((start, end, Sequence(step * 3 + 1)));
            let before = Sequence(random.u64(..step * 3 + 3));
            for number in 0..62 {
                let covers =
                    |span: &&(u64, u64, Sequence)| span.0 <= number && number < span.1 && span.2 < before;
                let expected = spans.iter().filter(covers).map(|span| span.2).max();
                assert_eq!(memtable.newest_covering_range_delete(&key(number), before), expected);
            }
        }
        let before = Sequence(random.u64(..400));
        let flat = memtable.range_deletes(before);
        for number in 0..62 {
            let expected = memtable.newest_covering_range_delete(&key(number), before);
            assert_eq!(flat.newest_covering(&key(number), Sequence::MAX), expected);
        }
        assert_eq!(memtable.len(), spans.len());
    }
}

/// 10^5 range deletes, short ones and ones that overlap everything, with a query after each:
/// seconds, not minutes.
#[test]
fn a_hundred_thousand_range_deletes_interleave_with_queries() {
    for wide in [false, true] {
        let memtable = Memtable::new(b"");
        let mut random = fastrand::Rng::with_seed(1);
        let space = 1 << 30;
        let mut last = None;
        for step in 0..100_000u64 {
            let start = random.u64(..space);
            let end = start + if wide { random.u64(1..space) } else { random.u64(1..2000) };
            memtable.insert_range_delete(&key(start), &key(end), Sequence(step + 1));
            assert_eq!(
                memtable.newest_covering_range_delete(&key(start), Sequence::MAX),
                Some(Sequence(step + 1))
            );
            last = memtable.newest_covering_range_delete(&key(random.u64(..space)), Sequence(step)).or(last);
        }
        assert!(last.is_some());
        assert_eq!(memtable.range_deletes(Sequence::MAX).len(), 100_000);
    }
}

/// One list is handed out as it is, if all of it may be seen.
#[test]
fn a_list_is_shared_where_it_can_be() {
    let memtable = Memtable::new(b"");
    memtable.insert_range_delete(&key(1), &key(5), Sequence(7));
    let lists = [Sequence(8), Sequence::MAX].map(|before| memtable.range_deletes(before));
    assert!(Arc::ptr_eq(&lists[0], &lists[1]));
    assert_eq!(lists[0].newest_covering(&key(3), Sequence::MAX), Some(Sequence(7)));
    assert!(memtable.range_deletes(Sequence(7)).is_empty(), "it is at the sequence, not below");
}
