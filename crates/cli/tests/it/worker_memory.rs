//! What a worker process has in memory while it does a large job: buffers, and not what it reads or
//! writes.

use std::path::PathBuf;
use std::sync::Arc;

use firn::jobs::socket::Socket;
use firn::jobs::{
    BlobGcSpec, BlobPolicy, CompactSpec, Executor, JobInput, JobResult, JobSpec, KeyRange, Rules, Victim,
    verify,
};
use firn_format::blob::record::padding;
use firn_format::blob::segment::Origin;
use firn_format::blob::{BlobSegmentHeader, Ordinals, SegmentNumber, Stored};
use firn_format::file_name;
use firn_format::key::{Entry, Kind, Sequence};
use firn_format::manifest::BlobSegmentMeta;
use firn_format::table::TableForm;
use firn_storage::backend::{Local, LocalOptions};
use firn_storage::file::blob::BlobBuilder;
use firn_storage::file::table::TableBuilder;
use firn_storage::{Storage, ThreadSpawn};

use crate::same_bytes::answer;
use crate::worker::Worker;

const DATABASE: u128 = 5;

/// Bytes of each input.
const INPUT_BYTES: usize = 64 << 20;

/// What a worker may have, its program included.
const PEAK_BYTES_MAX: u64 = 40 << 20;

/// A directory with large files.
struct Scene {
    place: tempfile::TempDir,
    storage: Local,
}

impl Scene {
    fn new() -> Self {
        let place = tempfile::tempdir().expect("a directory");
        let storage = Local::open(place.path().join("db"), LocalOptions { create: true }).expect("a new one");
        Self { place, storage }
    }

    /// A segment with as many values of `value_bytes` as make an input.
    fn segment(&self, number: u32, value_bytes: usize) -> BlobSegmentMeta {
        let (number, origin) = (SegmentNumber(number), Origin::Written);
        let header = BlobSegmentHeader { database: DATABASE, number, origin, generation: 1 };
        let name = file_name::blob_segment(number);
        let mut builder = BlobBuilder::new(&name, self.storage.create(&name).expect("created"), &header);
        let mut value = vec![7; value_bytes];
        for ordinal in 0..(INPUT_BYTES / value_bytes) as u32 {
            value[..4].copy_from_slice(&ordinal.to_be_bytes());
            let (stored, mut record) = (Stored::plain(&value), Vec::new());
            stored.encode_head((number, ordinal), (1, b"key"), &mut record);
            record.extend_from_slice(stored.bytes());
            record.extend_from_slice(padding(record.len()));
            builder.begin(stored.value_bytes()).expect("there is room");
            builder.put(&record).expect("it is written");
        }
        builder.finish(&[]).expect("it is written").0
    }

    /// A sorted run of records of a kilobyte, every other number of which is another run's.
    fn table(&self, run: u64) -> JobInput {
        let name = file_name::table("in", run as u32);
        let file = self.storage.create(&name).expect("created");
        let mut builder = TableBuilder::new(&name, file, TableForm::default());
        let mut value = [7; 1000];
        for number in 0..INPUT_BYTES as u64 / 1024 {
            let key = (number * 2 + run).to_be_bytes();
            value[..8].copy_from_slice(&key);
            let (sequence, kind) = (Sequence(number * 2 + run + 1), Kind::Put);
            let entry = Entry { key: &key, sequence, kind, expires_at_ms: 0, value: &value };
            builder.add(&entry).expect("it is written");
        }
        JobInput { table: builder.finish().expect("it is written"), level: 0, run }
    }

    /// Has a worker of its own do `spec`: what came of it.
    fn done(&self, spec: impl Into<JobSpec>) -> JobResult {
        let (spec, socket): (JobSpec, PathBuf) = (spec.into(), self.place.path().join("worker.socket"));
        let input_bytes: u64 = spec.input_files().values().sum();
        assert!(input_bytes > 3 * PEAK_BYTES_MAX, "{input_bytes} bytes are few");
        let worker = Worker::start(&socket);
        let idle = worker.peak_bytes();
        let executor = Socket::new(&socket, self.storage.path(), Arc::new(ThreadSpawn::new()));
        let executor = executor.expect("a directory");
        let result = answer(&executor.submit(spec.clone()).expect("it is taken")).expect("it is done");
        verify(&spec, &result).expect("it is right");
        let peak = worker.peak_bytes();
        println!("{idle} bytes before, {peak} at most, for {input_bytes} of inputs");
        assert!(peak < PEAK_BYTES_MAX, "{peak} bytes for {input_bytes} of inputs");
        result
    }
}

#[test]
fn a_large_gc_takes_little_memory() {
    let scene = Scene::new();
    // The last is one value.
    let segments =
        [(1, 64 << 10), (2, 3000), (3, INPUT_BYTES)].map(|(number, bytes)| scene.segment(number, bytes));
    let victim = |segment: BlobSegmentMeta| {
        // Half of what can be.
        let dead: Ordinals = (0..segment.ordinals).filter(|ordinal| ordinal % 2 == 1).collect();
        Victim { segment, origin: Origin::Written, dead, relocations: Vec::new() }
    };
    let spec = BlobGcSpec {
        database: DATABASE,
        number: SegmentNumber(4),
        victims: segments.map(victim).to_vec(),
        output_stem: "out".to_owned(),
        recycled: None,
    };
    let result = scene.done(spec).into_blob_gc().expect("a GC");
    assert!(result.segment.expect("one").bytes > 2 * INPUT_BYTES as u64 - (1 << 20));
}

#[test]
fn a_large_compaction_takes_little_memory_and_so_does_one_whose_values_leave_the_tree() {
    let scene = Scene::new();
    let inputs = [0, 1].map(|run| scene.table(run)).to_vec();
    let rules = Rules { older_overlap: vec![KeyRange::all()], ..Rules::default() };
    let spec = CompactSpec { inputs, rules, output_stem: "out".to_owned(), ..CompactSpec::default() };
    let tables = scene.done(spec.clone()).into_compact().expect("a compaction").tables;
    assert!(tables.iter().map(|table| table.bytes).sum::<u64>() > 2 * INPUT_BYTES as u64 - (4 << 20));
    let (output, database) = (Some(SegmentNumber(1)), DATABASE);
    let values = BlobPolicy { separate_bytes: 100, output, database, ..BlobPolicy::default() };
    let spec = CompactSpec { values: Some(values), output_stem: "beside".to_owned(), ..spec };
    let result = scene.done(spec).into_compact().expect("a compaction");
    assert!(result.values.expect("they left").bytes > 2 * INPUT_BYTES as u64 - (8 << 20));
}
