//! One compaction divided over several executors: `cargo bench -p firn-jobs --bench split`.
//!
//! Prints how much sooner 2, 4 and 8 executors end it than one does. Each executor waits 20 ms for
//! every answer of its backend, as for an object store's. That wait is far longer than the work of
//! its processor: so eight of them are as fast on two processors as on eight. Tables are 2 MiB; 64
//! MiB lie below level 0 and 16 MiB in it, both over all keys.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::Semantics;
use firn_format::key::{Entry, Kind, Sequence};
use firn_format::manifest::TableMeta;
use firn_format::table::TableForm;
use firn_jobs::{
    CompactResult, CompactSpec, Control, JobInput, OutputForm, partition, run_compact, verify_all,
};
use firn_storage::backend::{Effect, Fault, Faulty, Memory, Operation, When};
use firn_storage::file::table::TableBuilder;
use firn_storage::{Clock, Storage, SystemClock};

const TABLE_BYTES: u64 = 2 << 20;
const VALUE_BYTES: usize = 1000;
const BELOW: u64 = 64 << 10;
const ABOVE: u64 = 16 << 10;
/// As an object store near by.
const ANSWER: Duration = Duration::from_millis(20);
/// Each number of executors is measured so often, interleaved.
const REPETITIONS: usize = 5;

fn main() {
    let memory = Arc::new(Memory::new());
    let below = build(&memory, "below", (0..BELOW).map(|at| 4 * at), 1);
    let above = build(&memory, "above", (0..ABOVE).map(|at| 16 * at + 1), 2);
    let input = |level: u32| move |table: TableMeta| JobInput { table, level, run: 0 };
    let inputs = below.into_iter().map(input(6)).chain(above.into_iter().map(input(0))).collect();
    let output = OutputForm { table_bytes_target: TABLE_BYTES, ..OutputForm::default() };
    let spec = CompactSpec { inputs, output, output_stem: "whole".to_owned(), ..CompactSpec::default() };
    println!("{} MiB in {} tables", spec.input_bytes() >> 20, spec.inputs.len());
    let counts = [1, 2, 4, 8];
    let mut times = counts.map(|_| Vec::new());
    for repetition in 0..REPETITIONS {
        for (times, count) in times.iter_mut().zip(counts) {
            let spec = CompactSpec { output_stem: format!("r{repetition}-{count}"), ..spec.clone() };
            times.push(measure(&memory, &spec, count));
        }
    }
    times.iter_mut().for_each(|times| times.sort_unstable());
    let middle = |times: &[Duration]| times[times.len() / 2].as_secs_f64();
    let alone = middle(&times[0]);
    for (times, count) in times.iter().zip(counts) {
        let (low, high) = (times[0].as_secs_f64(), times[REPETITIONS - 1].as_secs_f64());
        let sooner = alone / middle(times);
        println!(
            "{count} executors: {:.2} s ({low:.2} to {high:.2}), {sooner:.2} times as fast: {:.2} of their number",
            middle(times),
            sooner / count as f64
        );
    }
}

/// How long `count` executors take for `spec`, from the first's begin to the last's end. What they
/// wrote is checked and removed.
fn measure(memory: &Arc<Memory>, spec: &CompactSpec, count: usize) -> Duration {
    let parts = partition(spec, count);
    assert_eq!(parts.len(), count, "as many parts as executors");
    let clock = SystemClock::new();
    let begun = clock.now();
    let results: Vec<CompactResult> = std::thread::scope(|scope| {
        let run = |part| {
            let backend = slow(memory);
            scope.spawn(move || {
                run_compact(part, &backend, &Semantics::new(), &Control::new()).expect("a compaction")
            })
        };
        let running: Vec<_> = parts.iter().map(run).collect();
        running.into_iter().map(|running| running.join().expect("an executor")).collect()
    });
    let took = clock.now() - begun;
    let jobs: Vec<_> = parts.into_iter().zip(results).collect();
    verify_all(&jobs).expect("the sums of all parts are those of the inputs");
    for table in jobs.iter().flat_map(|(_, result)| &result.tables) {
        memory.remove(&table.file).expect("a file of ours");
    }
    took
}

/// `memory` as it is from far away.
fn slow(memory: &Arc<Memory>) -> Faulty {
    let faulty = Faulty::with_clock(Arc::clone(memory) as _, Arc::new(SystemClock::new()));
    for on in [Operation::Read, Operation::Write] {
        let (when, effect) = (When::Always { after: 0 }, Effect::Delay(ANSWER));
        faulty.inject(Fault { on, file: "*".to_owned(), when, effect });
    }
    faulty
}

fn build(memory: &Memory, stem: &str, numbers: impl Iterator<Item = u64>, sequence: u64) -> Vec<TableMeta> {
    let value: Vec<u8> = (0..VALUE_BYTES).map(|at| at as u8).collect();
    let mut metas = Vec::new();
    let mut open: Option<TableBuilder> = None;
    for number in numbers {
        if open.as_ref().is_some_and(|open| open.estimated_bytes() >= TABLE_BYTES) {
            metas.extend(open.take().map(|open| open.finish().expect("a table")));
        }
        let builder = open.get_or_insert_with(|| {
            let name = format!("{stem}-{:06}.table", metas.len());
            TableBuilder::new(&name, memory.create(&name).expect("a new file"), TableForm::default())
        });
        let (key, sequence) = (number.to_be_bytes(), Sequence(sequence));
        let entry = Entry { key: &key, sequence, kind: Kind::Put, expires_at_ms: 0, value: &value };
        builder.add(&entry).expect("in order");
    }
    metas.extend(open.map(|open| open.finish().expect("a table")));
    metas
}
