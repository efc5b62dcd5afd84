use std::collections::BTreeMap;

use super::*;
use crate::target::{MemoryTarget, Target};

const SEED: u64 = 11;

fn stream(letter: &str, inserts: &Arc<AcknowledgedCounter>) -> MixStream {
    let workload = Workload::new(&standard(letter).unwrap()).unwrap();
    let requests = workload.keys_drawn(inserts, 10_000);
    MixStream::new(&workload, requests, Arc::clone(inserts), ValuePool::new(100, SEED), 100, SEED)
}

fn loaded(records: u64) -> (MemoryTarget, Arc<AcknowledgedCounter>) {
    let (target, inserts) = (MemoryTarget::default(), Arc::new(AcknowledgedCounter::new(0)));
    let keys = KeyStyle::User { digits: 20, ordered: false };
    let mut load = LoadStream::new(keys, ValuePool::new(100, SEED), 100, Arc::clone(&inserts), records, SEED);
    let mut client = target.client().unwrap();
    while load.prepare().is_some() {
        assert_eq!(load.perform(client.as_mut()).unwrap(), Done::wrote(124));
    }
    (target, inserts)
}

#[test]
fn load_inserts_every_record_once() {
    let (target, inserts) = loaded(500);
    assert_eq!(inserts.acknowledged(), 500);
    assert_eq!(target.disk_bytes(), 500 * 124);
}

#[test]
fn every_letter_has_its_proportions_and_finds_its_records() {
    let expected: [(&str, &[(Kind, f64)]); 6] = [
        ("a", &[(Kind::Read, 0.5), (Kind::Update, 0.5)]),
        ("b", &[(Kind::Read, 0.95), (Kind::Update, 0.05)]),
        ("c", &[(Kind::Read, 1.0)]),
        ("d", &[(Kind::Read, 0.95), (Kind::Insert, 0.05)]),
        ("e", &[(Kind::Scan, 0.95), (Kind::Insert, 0.05)]),
        ("f", &[(Kind::Read, 0.5), (Kind::ReadModifyWrite, 0.5)]),
    ];
    for (letter, shares) in expected {
        let (target, _) = loaded(500);
        // A counter of its own: what LoadStream drew past the end stays unacknowledged.
        let inserts = Arc::new(AcknowledgedCounter::new(500));
        let mut client = target.client().unwrap();
        let mut stream = stream(letter, &inserts);
        let mut counts = BTreeMap::new();
        for _ in 0..10_000 {
            *counts.entry(stream.prepare().unwrap()).or_insert(0) += 1;
            assert_eq!(stream.perform(client.as_mut()).unwrap().not_found, 0, "{letter}, seed {SEED}");
        }
        assert_eq!(counts.len(), shares.len(), "{letter}: {counts:?}");
        for (kind, share) in shares {
            let found = f64::from(counts[kind]) / 10_000.0;
            assert!((found - share).abs() < 0.02, "{letter}: {kind:?} {found}, seed {SEED}");
        }
    }
}

#[test]
fn more_than_two_kinds_keep_their_shares() {
    let mut properties = Properties::default();
    for pair in ["readproportion=2", "updateproportion=1", "insertproportion=1"] {
        properties.set_pair(pair).unwrap();
    }
    let mix = Mix::new(&properties).unwrap();
    let mut random = Rng::with_seed(SEED);
    let updates = (0..20_000).filter(|_| mix.draw(&mut random) == Kind::Update).count();
    let inserts = (0..20_000).filter(|_| mix.draw(&mut random) == Kind::Insert).count();
    assert!((4_700..5_300).contains(&updates), "{updates} updates, seed {SEED}");
    assert!((4_700..5_300).contains(&inserts), "{inserts} inserts, seed {SEED}");
}

#[test]
fn scans_are_one_to_a_hundred_records_long() {
    let (target, _) = loaded(2_000);
    let inserts = Arc::new(AcknowledgedCounter::new(2_000));
    let mut stream = stream("e", &inserts);
    let mut lengths = Vec::new();
    for _ in 0..5_000 {
        if stream.prepare() == Some(Kind::Scan) {
            lengths.push(stream.scan_count);
        }
        stream.perform(target.client().unwrap().as_mut()).unwrap();
    }
    assert_eq!(lengths.iter().min(), Some(&1), "seed {SEED}");
    assert_eq!(lengths.iter().max(), Some(&100), "seed {SEED}");
    let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
    assert!((mean - 50.5).abs() < 2.0, "mean {mean}, seed {SEED}");
}

#[test]
fn bad_properties_are_refused_by_name() {
    for (pair, word) in [
        ("requestdistribution=normal", "normal"),
        ("insertorder=random", "random"),
        ("readproportion=-1", "readproportion"),
        ("scanlengthdistribution=x", "scanlengthdistribution"),
    ] {
        let mut properties = standard("a").unwrap();
        properties.set_pair(pair).unwrap();
        let error = Workload::new(&properties).unwrap_err();
        assert!(error.message().contains(word), "{pair}: {error}");
    }
}

#[test]
fn exponential_prefers_new_records_and_stays_in_range() {
    let mut properties = standard("c").unwrap();
    properties.set("requestdistribution", "exponential");
    let workload = Workload::new(&properties).unwrap();
    let inserts = Arc::new(AcknowledgedCounter::new(1_000));
    let requests = workload.keys_drawn(&inserts, 0);
    let mut stream = MixStream::new(&workload, requests, inserts, ValuePool::new(8, SEED), 8, SEED);
    let numbers: Vec<u64> = (0..20_000).map(|_| stream.known_number()).collect();
    assert!(numbers.iter().all(|number| *number < 1_000));
    let newer = numbers.iter().filter(|number| **number >= 500).count() as f64 / 20_000.0;
    assert!(newer > 0.7, "only {newer} of the draws went to the newer half, seed {SEED}");
}
