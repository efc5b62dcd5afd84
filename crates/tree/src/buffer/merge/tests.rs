//! Merged runs answer as the runs did.

use std::sync::Arc;

use firn_format::Sequence;
use firn_format::filter::filter_hash;
use firn_format::key::Kind;

use super::{MergeTask, Progress};
use crate::buffer::run::tests::{Ledger, UpToColon, Version, check_run, filtering, learnt};
use crate::buffer::run::{Dropped, Filtering, Run};

/// What a read of `key` gives: operands, newest first, and the value below them.
type Answer = (Vec<Vec<u8>>, Option<Vec<u8>>);

/// The answer of runs, newest first.
fn read(runs: &[Arc<Run>], key: &[u8], before: Sequence, ledger: &Ledger) -> Answer {
    let covered = runs.iter().filter_map(|run| run.newest_covering_range_delete(key, before)).max();
    let mut operands = Vec::new();
    for run in runs {
        let mut older_than = before;
        while let Some((trailer, record)) = run.newest(filter_hash(key), key, older_than, ledger) {
            older_than = trailer.sequence();
            if covered.is_some_and(|covered| covered > older_than) {
                return (operands, None);
            }
            match record.kind {
                Kind::Put => return (operands, Some(record.value.to_vec())),
                Kind::Merge => operands.push(record.value.to_vec()),
                _ => return (operands, None),
            }
        }
    }
    (operands, None)
}

/// What must be left of the versions: the rule read literally.
fn survivors<'l>(ledger: &'l Ledger, snapshots: &[Sequence]) -> (Vec<&'l Version>, Dropped) {
    let mut dropped = Dropped::default();
    let mut left = ledger.sorted(0..ledger.versions.len());
    left.retain(|old| {
        let newer = ledger.versions.iter().filter(|new| new.sequence > old.sequence);
        let over = newer.filter(|new| match new.kind {
            Kind::DeleteRange => new.key <= old.key && old.key < new.value,
            Kind::Merge => false,
            _ => new.key == old.key,
        });
        let mut unseparated = over.filter(|new| {
            !snapshots.iter().any(|snapshot| *snapshot > old.sequence && *snapshot <= new.sequence)
        });
        let superfluous = unseparated.next().is_some();
        dropped.count += u64::from(superfluous);
        dropped.record_bytes += if superfluous { old.bytes() } else { 0 };
        !superfluous
    });
    (left, dropped)
}

/// Cuts the ledger into `count` runs of adjacent spans, the newest first.
fn cut(random: &mut fastrand::Rng, ledger: &Ledger, count: usize) -> Vec<Arc<Run>> {
    let mut cuts: Vec<usize> = (1..count).map(|_| random.usize(..=ledger.versions.len())).collect();
    cuts.extend([0, ledger.versions.len()]);
    cuts.sort_unstable();
    let mut runs: Vec<Arc<Run>> =
        cuts.windows(2).map(|ends| ledger.run(ends[0]..ends[1], &learnt(random, ledger))).collect();
    runs.reverse();
    runs
}

#[test]
fn a_merged_run_answers_as_its_inputs_did() {
    for seed in 0..300 {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let length = random.usize(..150);
        let ledger = Ledger::random(&mut random, length);
        let count = random.usize(2..=16);
        let runs = cut(&mut random, &ledger, count);
        let end = 3 * ledger.versions.len() as u64 + 4;
        let snapshots: Vec<Sequence> = (0..random.usize(..5)).map(|_| Sequence(random.u64(..end))).collect();
        let task = MergeTask::new(runs.clone(), &snapshots, filtering(), 3, &ledger);
        let merged = Arc::new(task.finish().unwrap());

        for before in snapshots.iter().copied().chain([Sequence(end), Sequence::MAX]) {
            for key in ledger.probes() {
                let expected = read(&runs, &key, before, &ledger);
                assert_eq!(
                    read(&[Arc::clone(&merged)], &key, before, &ledger),
                    expected,
                    "{key:?} before {before}"
                );
            }
        }
        let (left, dropped) = survivors(&ledger, &snapshots);
        for before in [Sequence(random.u64(..end)), Sequence::MAX] {
            check_run(&merged, &left, &ledger, before);
        }
        let found = merged.dropped();
        assert_eq!((found.count, found.record_bytes), (dropped.count, dropped.record_bytes));
        assert_eq!(found.count == 0, found.relied_on == Sequence(0));
        assert!(merged.sequence_range().is_none_or(|(_, max)| found.relied_on <= max));
        let all: u64 = ledger.versions.iter().map(Version::bytes).sum();
        assert_eq!(merged.live_bytes() + found.record_bytes, all);
        assert_eq!((merged.level(), merged.span().start), (3, runs[count - 1].span().start));
        assert_eq!(merged.span().end, runs[0].span().end);
    }
}

#[test]
fn merges_of_merges_end_where_one_merge_ends() {
    for seed in 0..100 {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let ledger = Ledger::random(&mut random, 120);
        let runs = cut(&mut random, &ledger, 8);
        let snapshots = [Sequence(random.u64(..360))];
        let merge = |runs: Vec<Arc<Run>>, level| {
            Arc::new(MergeTask::new(runs, &snapshots, filtering(), level, &ledger).finish().unwrap())
        };
        let once = merge(runs.clone(), 1);
        let twice = merge(runs.chunks(3).map(|part| merge(part.to_vec(), 1)).collect(), 2);
        assert_eq!(once.entries, twice.entries);
        assert_eq!(once.hashes, twice.hashes);
        assert_eq!(once.common, twice.common);
        assert_eq!(once.dropped().count, twice.dropped().count);
        assert_eq!(once.live_bytes(), twice.live_bytes());
        assert_eq!(once.range_tombstones(), twice.range_tombstones());
    }
}

#[test]
fn small_steps_lead_to_the_same_run() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut ledger = Ledger::default();
    for _ in 0..6_000 {
        ledger.push(Kind::Put, format!("{:05}", random.u32(..4_000)).as_bytes(), b"value");
    }
    let runs = cut(&mut random, &ledger, 5);
    let whole = MergeTask::new(runs.clone(), &[], filtering(), 1, &ledger).finish().unwrap();
    let mut task = MergeTask::new(runs, &[], filtering(), 1, &ledger);
    let (mut steps, mut last) = (0, 0);
    while let Progress::Working { done, total } = task.step(700).unwrap() {
        assert!(done >= last && done < total, "{last} {done} {total}");
        last = done;
        steps += 1;
    }
    assert!(steps > 6, "{steps}");
    let stepped = task.finish().unwrap();
    assert_eq!(stepped.entries, whole.entries);
    assert_eq!(stepped.dropped(), whole.dropped());
    assert!(whole.dropped().count > 2_000);
    assert_eq!(stepped.len() as u64 + stepped.dropped().count, 6_000);
}

#[test]
fn tombstones_stay_and_operands_go_only_under_what_says_all() {
    let mut ledger = Ledger::default();
    for (kind, key) in [
        (Kind::Merge, "a"),
        (Kind::Delete, "b"),
        (Kind::Put, "c"),
        (Kind::Merge, "c"),
        (Kind::Merge, "c"),
        (Kind::Put, "d"),
        (Kind::Merge, "a"),
        (Kind::Delete, "d"),
        (Kind::Merge, "e"),
        (Kind::Put, "e"),
    ] {
        ledger.push(kind, key.as_bytes(), b"");
    }
    let runs = vec![ledger.run(0..5, b""), ledger.run(5..10, b"")];
    let merged = MergeTask::new(runs, &[], filtering(), 1, &ledger).finish().unwrap();
    let left: Vec<u64> = merged.entries.iter().map(|entry| entry.trailer.sequence().0 / 3).collect();
    assert_eq!(left, [7, 1, 2, 5, 4, 3, 8, 10]);
    let dropped = merged.dropped();
    assert_eq!((dropped.count, dropped.relied_on), (2, Sequence(30)));
}

#[test]
fn prefix_filters_are_merged_without_records() {
    let mut ledger = Ledger::default();
    for number in 0..300 {
        ledger.push(Kind::Put, format!("g{}:{number}", number / 10).as_bytes(), b"");
    }
    let filtering = Filtering { extractor: Some(Arc::new(UpToColon)), ..filtering() };
    let build = |range| Arc::new(Run::build(ledger.frozen(range, b""), &filtering, &ledger).unwrap());
    let filtered = vec![build(0..155), build(155..300)];
    let merged = MergeTask::new(filtered.clone(), &[], filtering.clone(), 1, &ledger).finish().unwrap();
    assert_eq!(merged.prefixes.hashes.len(), 30);
    assert!((0..30).all(|group| merged.may_contain_prefix(filter_hash(format!("g{group}:").as_bytes()))));
    let absent =
        (30..530).filter(|group| !merged.may_contain_prefix(filter_hash(format!("g{group}:").as_bytes())));
    assert!(absent.count() > 450);
    // A run from before the extractor was named leaves nothing to filter by.
    let mixed = vec![filtered[0].clone(), ledger.run(155..300, b"")];
    let merged = MergeTask::new(mixed, &[], filtering, 1, &ledger).finish().unwrap();
    assert!((30..530).all(|group| merged.may_contain_prefix(filter_hash(format!("g{group}:").as_bytes()))));
}

#[test]
fn a_lost_record_stops_the_merge() {
    let mut ledger = Ledger::default();
    for key in [b"a", b"b", b"c", b"b"] {
        ledger.push(Kind::Put, key, b"value");
    }
    let runs = vec![ledger.run(0..3, b""), ledger.run(3..4, b"")];
    ledger.lost.push(Sequence(6));
    assert!(MergeTask::new(runs, &[], filtering(), 1, &ledger).finish().is_err());
}

#[test]
fn runs_of_far_apart_keys_share_what_prefix_there_is() {
    let mut ledger = Ledger::default();
    for number in 0..100 {
        ledger.push(Kind::Put, format!("shared/left/and/long/{number:03}").as_bytes(), b"");
    }
    for number in 0..100 {
        ledger.push(Kind::Put, format!("shared/right/{number:03}").as_bytes(), b"");
    }
    ledger.push(Kind::Put, b"shared/middle", b"");
    let runs = vec![ledger.run(0..100, b""), ledger.run(100..200, b"shared"), ledger.run(200..201, b"")];
    let merged = Arc::new(MergeTask::new(runs, &[], filtering(), 1, &ledger).finish().unwrap());
    assert_eq!(merged.common, b"shared/");
    check_run(&merged, &ledger.sorted(0..201), &ledger, Sequence::MAX);
}

/// A merge drops keys at both ends of a run; what is left shares more than the words come after.
#[test]
fn a_run_that_lost_its_outermost_keys_is_merged_in_order() {
    let mut ledger = Ledger::default();
    let left = |number: u32| format!("key-{number:04}").into_bytes();
    ledger.push(Kind::Put, b"apple", b"");
    ledger.push(Kind::Put, b"zebra", b"");
    for number in 0..40 {
        ledger.push(Kind::Put, &left(number * 7), b"");
    }
    ledger.push(Kind::DeleteRange, b"a", b"k");
    ledger.push(Kind::DeleteRange, b"l", b"zz");
    for number in 0..40 {
        ledger.push(Kind::Put, &left(number * 5), b"");
    }
    let runs = vec![ledger.run(2..44, b""), ledger.run(0..2, b"")];
    let older = Arc::new(MergeTask::new(runs, &[], filtering(), 1, &ledger).finish().unwrap());
    assert_eq!((older.len(), older.common.as_slice()), (40, b"".as_slice()));
    let newer = ledger.run(44..84, b"");
    assert_eq!(newer.common, b"key-0");
    let merged = MergeTask::new(vec![newer, older], &[], filtering(), 2, &ledger).finish().unwrap();
    check_run(&Arc::new(merged), &survivors(&ledger, &[]).0, &ledger, Sequence::MAX);
}

#[test]
fn a_million_entries_keep_their_order() {
    let mut ledger = Ledger::default();
    for number in 0..1_000_000_u64 {
        let key = (number % 600_000).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ledger.push(Kind::Put, &key.to_be_bytes(), b"");
    }
    let runs = (0..4).map(|part| ledger.run(250_000 * part..250_000 * (part + 1), b"")).collect();
    let merged = MergeTask::new(runs, &[], filtering(), 1, &ledger).finish().unwrap();
    assert_eq!((merged.len(), merged.dropped().count), (600_000, 400_000));
    assert!(merged.entries.is_sorted_by(|a, b| a.prefix < b.prefix));
    for version in &ledger.versions[400_000..] {
        let found = merged.newest(filter_hash(&version.key), &version.key, Sequence::MAX, &ledger);
        assert_eq!(found.map(|(trailer, _)| trailer.sequence()), Some(version.sequence));
    }
}
