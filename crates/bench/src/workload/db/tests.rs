use super::*;
use crate::target::{MemoryTarget, Target};

const SEED: u64 = 3;

fn shape(num: u64) -> Shape {
    Shape {
        num,
        keys: KeyStyle::Fixed { bytes: 16 },
        value_bytes: 100,
        seek_nexts: 0,
        values: ValuePool::new(100, SEED),
        live: Arc::new(NumberSet::new(num)),
    }
}

/// Runs up to `limit` operations of one stream; returns (operations, not found).
fn run(stream: &mut DbStream, target: &MemoryTarget, limit: u64) -> (u64, u64) {
    let mut client = target.client().unwrap();
    let (mut operations, mut not_found) = (0, 0);
    while operations < limit && stream.prepare().is_some() {
        let done = stream.perform(client.as_mut()).unwrap();
        operations += done.operations;
        not_found += done.not_found;
    }
    (operations, not_found)
}

fn one(benchmark: Benchmark, shape: &Shape) -> DbStream {
    DbStream::streams(benchmark, shape, 1, SEED).remove(0)
}

#[test]
fn fillseq_writes_every_key_once_and_readseq_reads_them_all() {
    let (shape, target) = (shape(1_000), MemoryTarget::default());
    assert_eq!(DbStream::streams(Benchmark::FillSeq, &shape, 4, SEED).len(), 1);
    assert_eq!(run(&mut one(Benchmark::FillSeq, &shape), &target, u64::MAX), (1_000, 0));
    assert_eq!(shape.live.count(), 1_000);
    assert_eq!(run(&mut one(Benchmark::ReadSeq, &shape), &target, u64::MAX), (1_000, 0));
    assert_eq!(run(&mut one(Benchmark::ReadRandom, &shape), &target, 5_000), (5_000, 0));
    assert_eq!(run(&mut one(Benchmark::SeekRandom, &shape), &target, 500), (500, 0));
}

#[test]
fn bulk_fills_write_what_fillseq_writes_in_as_few_operations_as_they_say() {
    let filled = |benchmark| {
        let (shape, target) = (shape(2_500), MemoryTarget::default());
        assert_eq!(DbStream::streams(benchmark, &shape, 4, SEED).len(), 1);
        let mut stream = one(benchmark, &shape);
        let (mut client, mut operations) = (target.client().unwrap(), Vec::new());
        while stream.prepare().is_some() {
            let done = stream.perform(client.as_mut()).unwrap();
            assert_eq!(done.written_bytes, done.operations * 116);
            operations.push(done.operations);
        }
        let mut all = Vec::new();
        client.scan(b"", 3_000, &mut |key, value| all.push((key.to_vec(), value.to_vec()))).unwrap();
        assert_eq!((all.len(), shape.live.count()), (2_500, 2_500));
        (operations, all)
    };
    let (operations, expected) = filled(Benchmark::FillSeq);
    assert_eq!(operations.len(), 2_500);
    assert_eq!(filled(Benchmark::FillBatch), (vec![1_000, 1_000, 500], expected.clone()));
    assert_eq!(filled(Benchmark::FillIngest), (vec![2_500], expected));
}

#[test]
fn random_fill_leaves_holes_that_reads_and_live_records_agree_on() {
    let (shape, target) = (shape(10_000), MemoryTarget::default());
    run(&mut one(Benchmark::FillRandom, &shape), &target, 10_000);
    let live = shape.live.count();
    assert_eq!(target.disk_bytes(), live * 116);
    let expected = 1.0 - (-1.0f64).exp();
    assert!((live as f64 / 10_000.0 - expected).abs() < 0.02, "{live} live, seed {SEED}");
    // Another seed, so that the reads are not the numbers just written.
    let mut reads = DbStream::streams(Benchmark::ReadRandom, &shape, 1, SEED + 1).remove(0);
    let (_, missed) = run(&mut reads, &target, 10_000);
    assert!((missed as f64 / 10_000.0 - (1.0 - expected)).abs() < 0.03, "{missed} missed, seed {SEED}");
}

#[test]
fn deleterandom_removes_what_it_counts() {
    let (shape, target) = (shape(1_000), MemoryTarget::default());
    run(&mut one(Benchmark::FillSeq, &shape), &target, u64::MAX);
    run(&mut one(Benchmark::DeleteRandom, &shape), &target, 700);
    assert!(shape.live.count() < 1_000);
    assert_eq!(target.disk_bytes(), shape.live.count() * 116);
}

#[test]
fn names_are_found_and_others_refused_with_the_list() {
    for benchmark in Benchmark::ALL {
        assert_eq!(Benchmark::from_name(benchmark.name()).unwrap(), benchmark);
    }
    assert!(Benchmark::from_name("fillsync").unwrap_err().message().contains("readwhilewriting"));
}
