//! How long jobs take on a store that takes its time: figures, and what must hold whatever the
//! machine.

use std::time::Duration;

use firn_engine::Semantics;
use firn_format::blob::segment::Origin;
use firn_format::blob::{Ordinals, SegmentNumber};
use firn_jobs::{
    BlobGcSpec, CompactSpec, Control, JobInput, JobResult, JobSpec, OutputForm, Victim, run, run_compact,
};
use firn_s3_server::Faults;
use firn_storage::Storage;
use firn_storage::backend::{ASKED_MAX, Local, LocalOptions};
use firn_storage::file::blob::{BlobSegment, Wanted};
use firn_storage::file::table::ReadMode;

use crate::content::{SEGMENT, table, value, values};
use crate::world::{World, clock};

const VALUE_BYTES: usize = 1000;
const RUNS: u64 = 4;

/// What a job cost: its time, and requests for bytes.
type Cost = (Duration, u64);

fn gets(world: &World) -> u64 {
    let counts = world.server.counts();
    counts.reads - counts.heads
}

/// Merges four runs of one table each, all of `records`, on a store that holds every answer back
/// for `delay`.
fn compact(records: u64, delay: Duration) -> Cost {
    compact_of(records, VALUE_BYTES, delay)
}

fn compact_of(records: u64, value_bytes: usize, delay: Duration) -> Cost {
    let world = World::new();
    let backend = world.backend("a");
    let spec = compaction(&backend, records, value_bytes);
    world.server.set_faults(Faults { delay, ..Faults::default() });
    let (clock, before) = (clock(), gets(&world));
    let begin = clock.now();
    let result = run_compact(&spec, &backend, &Semantics::new(), &Control::new()).unwrap();
    assert_eq!(result.tables.iter().map(|table| table.entry_count).sum::<u64>(), records);
    (clock.now() - begin, gets(&world) - before)
}

fn compaction(backend: &dyn Storage, records: u64, value_bytes: usize) -> CompactSpec {
    let input = |run: u64| {
        let numbers = (0..records).filter(|number| number % RUNS == run);
        let table = table(backend, &format!("in-{run}.table"), run + 1, numbers, value_bytes);
        JobInput { table, level: 0, run }
    };
    let inputs = (0..RUNS).map(input).collect();
    let output = OutputForm { table_bytes_target: 64 << 20, ..OutputForm::default() };
    CompactSpec { inputs, output, output_stem: "out".to_owned(), ..CompactSpec::default() }
}

/// Collects one segment of `count` values, of which every fourth is dead.
fn collect(count: u32, delay: Duration) -> Cost {
    let world = World::new();
    let backend = world.backend("a");
    let spec = gc(&backend, count);
    world.server.set_faults(Faults { delay, ..Faults::default() });
    let (clock, before) = (clock(), gets(&world));
    let begin = clock.now();
    let result = run(&spec, &backend, &Semantics::new(), &Control::new()).unwrap();
    let JobResult::BlobGc(result) = result else { panic!("expected a collection's result") };
    assert_eq!(result.segment.unwrap().ordinals, count - count.div_ceil(4));
    (clock.now() - begin, gets(&world) - before)
}

fn gc(backend: &dyn Storage, count: u32) -> JobSpec {
    let (segment, _) = values(backend, "in.blobs", count, VALUE_BYTES);
    let dead: Ordinals = (0..count).step_by(4).collect();
    let victim = Victim { segment, origin: Origin::Collected, dead, relocations: Vec::new() };
    JobSpec::BlobGc(BlobGcSpec {
        database: 1,
        number: SegmentNumber(SEGMENT.0 + 1),
        victims: vec![victim],
        output_stem: "out".to_owned(),
        recycled: None,
    })
}

#[test]
fn jobs_ask_for_each_piece_once() {
    // Four tables of 2 MB: a request opens each, and two read it.
    let (_, reads) = compact(8000, Duration::ZERO);
    assert_eq!(reads, 4 * (1 + 2));
    // A segment of 8 MB, which is opened twice by two requests: one reads its beginning, eight the
    // rest.
    let (_, reads) = collect(8000, Duration::ZERO);
    assert_eq!(reads, 2 * 2 + 1 + 8);
}

/// Expects that one run of three takes less than `limit`, and each makes so many `reads`. A machine
/// that stands still holds one run up. A job that waits for answers one after the other holds all
/// up.
#[track_caller]
fn check_soon(limit: Duration, reads: u64, run: impl Fn() -> Cost) {
    let mut times = Vec::new();
    while times.len() < 3 {
        let (time, found) = run();
        println!("{time:?}, {found} reads");
        assert_eq!(found, reads);
        if time < limit {
            return;
        }
        times.push(time);
    }
    panic!("none of {times:?} is less than {limit:?}");
}

#[test]
fn a_job_asks_for_large_blocks_ahead_too() {
    let delay = Duration::from_millis(400);
    // Four tables of six blocks of 2 MiB, a request each: one after the other they would take 24
    // times as long as an answer.
    check_soon(18 * delay, 4 * (1 + 6), || compact_of(24, 2 << 20, delay));
}

#[test]
fn a_job_waits_for_its_inputs_together() {
    let delay = Duration::from_millis(400);
    // Each of four tables is opened and read at the same time as the others, and the output is
    // sent: that is three answers. If they were opened one after the other, or read so, it would be
    // six.
    check_soon(6 * delay, 2 * 4, || compact(100, delay));
}

/// Reads 640 values of 4 KB, each at another offset of a segment, 32 after one another, which `ask`
/// has asked for before.
fn look_up(world: &World, delay: Duration, ask: bool) -> Cost {
    let backend = world.backend("a");
    let (meta, references) = values(&backend, &format!("{}-{ask}.blobs", delay.as_millis()), 2000, 4000);
    let segment = BlobSegment::open(&backend, &meta, false).unwrap();
    world.server.set_faults(Faults { delay, ..Faults::default() });
    let mut random = fastrand::Rng::with_seed(3);
    let mut wanted = references;
    random.shuffle(&mut wanted);
    let (clock, before) = (clock(), gets(world));
    let begin = clock.now();
    for some in wanted.chunks(ASKED_MAX).take(20) {
        if ask {
            some.iter()
                .for_each(|reference| segment.ask(reference.ordinal, reference, 4, ReadMode::Blocking));
        }
        for reference in some {
            let (mut out, wanted) = (Vec::new(), Wanted { reference, key_bytes: 4, range: 0..usize::MAX });
            assert!(segment.read(&wanted, ReadMode::Blocking, &mut out).unwrap());
            assert_eq!(out, value(reference.ordinal.into(), 4000));
        }
    }
    let cost = (clock.now() - begin, gets(world) - before);
    world.server.set_faults(Faults::default());
    cost
}

#[test]
fn each_value_that_is_asked_for_is_one_request() {
    let (_, reads) = look_up(&World::new(), Duration::ZERO, true);
    assert_eq!(reads, 640);
}

#[test]
#[ignore = "figures: `cargo test -p firn-objects --test it -- --ignored --nocapture look_ups`"]
fn figures_of_look_ups() {
    let world = World::new();
    for delay in [0, 5, 20].map(Duration::from_millis) {
        let [(alone, _), (asked, reads)] = [false, true].map(|ask| look_up(&world, delay, ask));
        println!(
            "640 values, answers after {delay:?}: {alone:?} one by one, {asked:?} asked for by 32, {reads} reads"
        );
    }
}

#[test]
#[ignore = "figures: `cargo test -p firn-objects --test it -- --ignored --nocapture latency`"]
fn figures_of_jobs() {
    for delay in [0, 5, 20, 50].map(Duration::from_millis) {
        let (time, reads) = compact(64_000, delay);
        println!("compaction of 64 MB, answers after {delay:?}: {time:?}, {reads} reads");
        let (time, reads) = collect(64_000, delay);
        println!("collection of 64 MB, answers after {delay:?}: {time:?}, {reads} reads");
    }
    for maps in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let local = Local::open(directory.path(), LocalOptions { create: true }).unwrap();
        let local = if maps { local } else { local.without_mappings() };
        let compaction = JobSpec::Compact(compaction(&local, 256_000, VALUE_BYTES));
        let collection = gc(&local, 256_000);
        for (what, spec) in [("compaction", compaction), ("collection", collection)] {
            let clock = clock();
            let begin = clock.now();
            run(&spec, &local, &Semantics::new(), &Control::new()).unwrap();
            println!("{what} of 256 MB in a directory, mapped: {maps}: {:?}", clock.now() - begin);
        }
    }
}
