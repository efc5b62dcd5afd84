//! The promises of `lib.rs`: purity, conservation, what is left of a cancelled job, executors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use firn_engine::Semantics;
use firn_format::blob::segment::Origin;
use firn_format::blob::{Ordinals, SegmentNumber};
use firn_format::checksum::xxh3;
use firn_format::compression::Compression;
use firn_format::key::{Entry, Kind, Sequence};
use firn_format::manifest::TableMeta;
use firn_format::tombstone::FragmentList;
use firn_jobs::{
    BlobGcSpec, BlobPolicy, CompactResult, CompactRules, CompactSpec, Control, Cursor, ErrorKind, Executor,
    JobResult, JobSpec, KeyRange, Local, MergeCursor, OutputForm, Sink, TableWriter, Victim, compact_entries,
    partition, run, run_compact, verify_all, verify_compact, verify_files,
};
use firn_storage::backend::{self, Faulty, LocalOptions, Operation};
use firn_storage::{Storage, ThreadSpawn};

use crate::world::{Mix, World, semantics};

const MIX: Mix = Mix { operations: 200, merges: true, filter: true, older: true };

fn bytes_of(world: &World, tables: &[TableMeta]) -> Vec<Vec<u8>> {
    tables.iter().map(|table| read(world, &table.file)).collect()
}

fn read(world: &World, name: &str) -> Vec<u8> {
    let file = world.storage.open_read(name).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn files(world: &World, stem: &str) -> Vec<String> {
    world
        .storage
        .list()
        .unwrap()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with(stem))
        .collect()
}

#[test]
fn the_same_spec_makes_the_same_bytes() {
    for seed in 0..40 {
        let world = World::new(seed, MIX);
        let run = |stem: &str, inputs_reversed: bool| {
            let mut spec = CompactSpec { output_stem: stem.into(), ..world.spec.clone() };
            if inputs_reversed {
                spec.inputs.reverse();
            }
            run_compact(&spec, &world.storage, &semantics(), &Control::new()).unwrap()
        };
        let (one, two) = (run("one", false), run("two", true));
        assert_eq!(one.sums, two.sums, "seed {seed}");
        assert!(bytes_of(&world, &one.tables) == bytes_of(&world, &two.tables), "seed {seed}");
        let (spec, one) = (world.spec.clone().into(), JobResult::Compact(one));
        verify_files(&world.storage, &spec, &one).unwrap();
    }
}

/// Builds that write the same version of specs make the same bytes of them, so that a job done
/// again can be compared. Where this fails a format or a codec has changed: take the next
/// [`JobSpec::VERSION`], with these values for it.
#[test]
fn a_version_of_specs_means_these_bytes_of_outputs() {
    let outputs = |compression: Compression| {
        let world = World::new(11, MIX);
        let output = OutputForm { compression, block_bytes: 4096, ..world.spec.output.clone() };
        let spec = CompactSpec { output, ..world.spec.clone() };
        let result = run_compact(&spec, &world.storage, &semantics(), &Control::new()).unwrap();
        xxh3(&bytes_of(&world, &result.tables).concat())
    };
    let outputs = [Compression::None, Compression::Lz4, Compression::Zstd].map(outputs);
    let blobs = blob_outputs();
    assert_eq!(
        (JobSpec::VERSION, outputs, blobs),
        (
            3,
            [0x20e8_9252_4d55_3b39, 0xe4a2_fc26_83b4_c77b, 0x3803_0e90_6ad0_d71d],
            [0xebeb_7981_7ae7_0bd5, 0xe555_e64d_2076_b436]
        ),
        "{outputs:x?}, {blobs:x?}"
    );
}

/// Checksums of the blob segments that a compaction and a GC make.
fn blob_outputs() -> [u64; 2] {
    let world = World::new(11, MIX);
    let number = SegmentNumber(4);
    let policy =
        BlobPolicy { separate_bytes: 3, output: Some(number), database: 99, ..BlobPolicy::default() };
    let spec = CompactSpec { values: Some(policy), ..world.spec.clone() };
    let compacted = run_compact(&spec, &world.storage, &semantics(), &Control::new()).unwrap();
    let segment = compacted.values.unwrap();
    let written = xxh3(&read(&world, &segment.file));
    let victim = Victim { segment, origin: Origin::Written, dead: Ordinals::new(), relocations: Vec::new() };
    let spec = BlobGcSpec {
        database: 99,
        number: SegmentNumber(5),
        victims: vec![victim],
        output_stem: "collected".to_owned(),
        recycled: None,
    };
    let collected = run(&spec.into(), &world.storage, &semantics(), &Control::new()).unwrap();
    let segment = collected.into_blob_gc().unwrap().segment.unwrap();
    [written, xxh3(&read(&world, &segment.file))]
}

#[test]
fn ranges_touch_where_some_key_is_in_both() {
    let range = |start: &str, end: Option<&str>| KeyRange {
        start: start.into(),
        end: end.map(|end| end.as_bytes().to_vec()),
    };
    let middle = range("d", Some("m"));
    for (other, touches) in [
        (KeyRange::all(), true),
        (range("a", Some("d")), false),
        (range("a", Some("d\0")), true),
        (range("m", None), false),
        (range("l", None), true),
        (range("e", Some("f")), true),
        (range("e", Some("e")), false),
    ] {
        assert_eq!((middle.touches(&other), other.touches(&middle)), (touches, touches), "{other:?}");
    }
}

#[test]
fn parts_together_hold_what_the_whole_holds() {
    let mut partitioned = 0;
    for seed in 0..60 {
        let world = World::new(seed, MIX);
        let whole = run_compact(&world.spec, &world.storage, &semantics(), &Control::new()).unwrap();
        let parts = partition(&world.spec, 3);
        partitioned += usize::from(parts.len() > 1);
        let results: Vec<(CompactSpec, CompactResult)> = parts
            .into_iter()
            .map(|spec| {
                assert!(
                    spec.rules.older_overlap.iter().all(|older| older.touches(&spec.range)),
                    "seed {seed}"
                );
                let spec = CompactSpec { output_stem: format!("part-{}", spec.output_stem), ..spec };
                let result = run_compact(&spec, &world.storage, &semantics(), &Control::new()).unwrap();
                (spec, result)
            })
            .collect();
        verify_all(&results).unwrap();
        let hash = |tables: &mut dyn Iterator<Item = &TableMeta>| {
            tables.fold((0, 0_u128), |sum, table| {
                (sum.0 + table.entry_count, sum.1.wrapping_add(table.content_hash))
            })
        };
        let together = hash(&mut results.iter().flat_map(|(_, result)| &result.tables));
        assert_eq!(together, hash(&mut whole.tables.iter()), "seed {seed}");
        let sums =
            results.iter().fold(firn_jobs::Sums::default(), |sums, (_, result)| sums.plus(&result.sums));
        assert_eq!(sums, whole.sums, "seed {seed}");
    }
    assert!(partitioned > 30, "only {partitioned} of 60 could be cut");
}

/// Loses, doubles or changes one entry on its way.
struct Lossy<C> {
    inner: C,
    countdown: u32,
    fault: u32,
    value: Vec<u8>,
    is_changed: bool,
}

impl<C: Cursor> Cursor for Lossy<C> {
    fn entry(&self) -> Option<Entry<'_>> {
        let entry = self.inner.entry()?;
        Some(if self.is_changed { Entry { value: &self.value, ..entry } } else { entry })
    }

    fn seek(&mut self, key: &[u8]) -> firn_storage::Result<()> {
        self.inner.seek(key)
    }

    fn next(&mut self) -> firn_storage::Result<()> {
        self.inner.next()?;
        self.is_changed = false;
        self.countdown = self.countdown.saturating_sub(1);
        if self.countdown == 1 && self.fault == 0 {
            self.inner.next()?;
        }
        if self.countdown == 1 && self.fault == 1 {
            self.is_changed = self.inner.entry().is_some_and(|entry| !entry.value.is_empty());
            self.value = b"mangled".to_vec();
        }
        Ok(())
    }

    fn seek_first(&mut self) -> firn_storage::Result<()> {
        self.inner.seek_first()
    }

    fn seek_last(&mut self) -> firn_storage::Result<()> {
        self.inner.seek_last()
    }

    fn seek_before(&mut self, key: &[u8]) -> firn_storage::Result<()> {
        self.inner.seek_before(key)
    }

    fn prev(&mut self) -> firn_storage::Result<()> {
        self.inner.prev()
    }
}

struct Losing {
    kept: CompactResult,
    countdown: u32,
    expected: firn_jobs::Tally,
}

impl Sink for Losing {
    fn add(&mut self, entry: &Entry<'_>) -> firn_jobs::Result<()> {
        self.countdown = self.countdown.wrapping_sub(1);
        if self.countdown != 0 {
            let hash = firn_format::table::content::entry_hash(entry);
            self.expected.add(entry.key.len() + entry.value.len(), hash);
        }
        Ok(())
    }
}

#[test]
fn a_planted_loss_is_caught() {
    let (mut caught, mut planted) = (0, 0);
    for seed in 0..60 {
        let world = World::new(seed, Mix { older: false, ..MIX });
        let whole = run_compact(&world.spec, &world.storage, &semantics(), &Control::new()).unwrap();
        // What the sink loses, the outputs lack.
        let rules = CompactRules::new(&world.spec.rules, &semantics()).unwrap();
        let mut sink =
            Losing { kept: whole.clone(), countdown: 1 + seed as u32 % 5, expected: Default::default() };
        let mut source = source_of(&world);
        let list = world.inputs.list();
        let sums =
            compact_entries(&mut source, &KeyRange::all(), &list, &rules, None, &mut sink, &Control::new())
                .unwrap();
        if let [table] = &mut sink.kept.tables[..] {
            planted += 1;
            (table.entry_count, table.data_bytes) = (sink.expected.count, sink.expected.bytes);
            table.content_hash = sink.expected.hash.wrapping_add(rules.kept_tombstones(&list).content_hash());
            let mut sums = sums;
            sums.range_tombstones_hash = whole.sums.range_tombstones_hash;
            sums.input.hash = sums.input.hash.wrapping_add(list.content_hash());
            let error = sums.check_outputs(&sink.kept.tables).map_err(|error| error.kind);
            assert_eq!(error, Err(ErrorKind::NotConserved), "seed {seed}");
            caught += 1;
        }
        // What is lost or changed on the way in, the inputs have too much of.
        for fault in 0..2 {
            let inner = source_of(&world);
            let mut lossy = Lossy { inner, countdown: 4, fault, value: Vec::new(), is_changed: false };
            let mut sink =
                Losing { kept: CompactResult::default(), countdown: 0, expected: Default::default() };
            let mut sums = compact_entries(
                &mut lossy,
                &KeyRange::all(),
                &list,
                &rules,
                None,
                &mut sink,
                &Control::new(),
            )
            .unwrap();
            sums.input.hash = sums.input.hash.wrapping_add(list.content_hash());
            let inputs = || world.spec.inputs.iter().map(|input| &input.table);
            let changed = sums.input != whole.sums.input;
            assert_eq!(sums.check_inputs(inputs()).is_err(), changed, "seed {seed} fault {fault}");
            caught += u32::from(changed);
        }
        let mut result = whole;
        if !result.tables.is_empty() {
            result.tables.pop();
            assert!(verify_compact(&world.spec, &result).is_err(), "seed {seed}");
        }
    }
    assert!(caught > 120 && planted > 5, "{caught} caught, {planted} planted");
}

fn source_of(world: &World) -> MergeCursor<firn_jobs::RunCursor> {
    use firn_storage::file::cache::BlockCache;
    use firn_storage::file::table::{CursorOptions, ReaderOptions, TableReader};
    let cache = Arc::new(BlockCache::new(0));
    let open = |input: &firn_jobs::JobInput| {
        let table =
            TableReader::open(&world.storage, &input.table, &cache, ReaderOptions::default()).unwrap();
        firn_jobs::RunCursor::new(vec![Arc::new(table)], CursorOptions::JOB)
    };
    MergeCursor::new(world.spec.inputs.iter().map(open).collect())
}

#[test]
fn a_job_that_ends_early_leaves_nothing_behind() {
    let world = World::new(7, MIX);
    let control = Control::new();
    control.cancel();
    let cancelled =
        run_compact(&world.spec, &world.storage, &semantics(), &control).map_err(|error| error.kind);
    assert_eq!(cancelled, Err(ErrorKind::Cancelled));
    assert!(files(&world, "out").is_empty());
    // Half-way: an output whose name is taken stops the job after it has written others.
    let spec = CompactSpec { output_stem: "half".into(), ..world.spec.clone() };
    let whole = run_compact(&world.spec, &world.storage, &semantics(), &Control::new()).unwrap();
    assert!(whole.tables.len() > 2, "{} tables", whole.tables.len());
    world.storage.publish("half-000002.table", b"taken").unwrap();
    let error = run_compact(&spec, &world.storage, &semantics(), &Control::new()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Storage, "{error}");
    assert_eq!(files(&world, "half"), ["half-000002.table"]);
    // Inputs are untouched by either.
    for input in &world.spec.inputs {
        assert!(world.storage.open_read(&input.table.file).is_ok());
    }
}

#[test]
fn executors_run_what_they_can_and_reject_the_rest() {
    let world = World::new(11, MIX);
    let storage: Arc<dyn Storage> = Arc::new(world.storage.clone());
    let expected = run_compact(&world.spec, &world.storage, &semantics(), &Control::new()).unwrap();
    let spawn = ThreadSpawn::new();
    let threads = Local::threads(Arc::clone(&storage), Arc::new(semantics()), &spawn, 2).unwrap();
    let inline = Local::inline(Arc::clone(&storage), Arc::new(semantics()));
    let finished = Arc::new(AtomicU32::new(0));
    let executors: [&dyn Executor; 2] = [&threads, &inline];
    for (number, executor) in executors.into_iter().enumerate() {
        let handles: Vec<_> = (0..5)
            .map(|job| {
                let spec = world.job(&format!("x{number}-{job}"));
                let handle = executor.submit(spec).unwrap();
                let finished = Arc::clone(&finished);
                let count = move || {
                    finished.fetch_add(1, Ordering::SeqCst);
                };
                handle.on_finished(Box::new(count));
                handle
            })
            .collect();
        for handle in handles {
            let result = handle.wait().unwrap().into_compact().unwrap();
            assert_eq!(result.sums, expected.sums);
            assert!(handle.poll().is_some());
        }
        let mut unknown = world.spec.clone();
        unknown.rules.merge_operator = Some("nobody-knows.1".into());
        assert_eq!(
            executor.submit(unknown.into()).map(drop).map_err(|error| error.kind),
            Err(ErrorKind::Rejected)
        );
        let mut unknown = world.spec.clone();
        unknown.output.prefix_extractor = Some("nobody-knows.1".into());
        assert_eq!(
            executor.submit(unknown.into()).map(drop).map_err(|error| error.kind),
            Err(ErrorKind::Rejected)
        );
    }
    let lacking = Local::inline(storage, Arc::new(Semantics::new()));
    assert!(lacking.submit(world.job("out")).is_err());
    drop(threads);
    assert!(spawn.join_all().is_empty());
    assert_eq!(finished.load(Ordering::SeqCst), 10);
}

#[test]
fn a_dropped_executor_answers_for_every_job() {
    let world = World::new(13, MIX);
    let storage: Arc<dyn Storage> = Arc::new(world.storage.clone());
    let spawn = ThreadSpawn::new();
    let local = Local::threads(storage, Arc::new(semantics()), &spawn, 1).unwrap();
    let handles: Vec<_> = (0..50).map(|job| local.submit(world.job(&format!("d-{job}"))).unwrap()).collect();
    handles[49].cancel();
    drop(local);
    spawn.join_all();
    for (job, handle) in handles.iter().enumerate() {
        match handle.poll() {
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                assert_eq!(error.kind, ErrorKind::Cancelled, "{error}");
                assert!(files(&world, &format!("d-{job}-")).is_empty());
            }
            None => panic!("job {job} has no answer"),
        }
    }
}

#[test]
fn specs_and_results_travel() {
    for seed in 0..30 {
        let world = World::new(seed, MIX);
        let mut spec = world.spec.clone();
        spec.range = KeyRange { start: b"a".to_vec(), end: (seed % 2 == 0).then(|| b"c".to_vec()) };
        spec.output.prefix_extractor = (seed % 3 == 0).then(|| "fixed.1:2".to_owned());
        let spec = JobSpec::from(spec);
        let bytes = spec.encode();
        assert_eq!(JobSpec::decode(&bytes), Ok(spec), "seed {seed}");
        let result = run_compact(&world.spec, &world.storage, &semantics(), &Control::new()).unwrap();
        let result = JobResult::Compact(result);
        let result_bytes = result.encode();
        assert_eq!(JobResult::decode(&result_bytes), Ok(result), "seed {seed}");
        assert!(JobSpec::decode(&result_bytes).is_err());
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            assert!(JobSpec::decode(&flipped).is_err(), "seed {seed} byte {at}");
            assert!(JobSpec::decode(&bytes[..at]).is_err(), "seed {seed} cut at {at}");
        }
    }
}

/// Files of tables in `directory` that this process has open.
#[cfg(target_os = "linux")]
fn open_tables(directory: &std::path::Path) -> usize {
    let open =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| entry.ok()?.path().read_link().ok());
    open.filter(|path| path.starts_with(directory) && path.extension().is_some_and(|of| of == "table"))
        .count()
}

#[test]
#[cfg(target_os = "linux")]
fn a_writer_of_many_tables_has_few_files_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let faulty = Faulty::new(Arc::new(backend::Local::open(&path, LocalOptions { create: true }).unwrap()));
    let form = OutputForm { table_bytes_target: 1, ..OutputForm::default() };
    let mut writer = TableWriter::new(&faulty, "many", &form, &semantics(), FragmentList::default()).unwrap();
    let mut most = 0;
    for key in 0..300_u32 {
        let key = key.to_be_bytes();
        let entry =
            Entry { key: &key, sequence: Sequence(9), kind: Kind::Put, expires_at_ms: 0, value: b"v" };
        writer.add(&entry).unwrap();
        most = most.max(open_tables(&path));
    }
    assert!((2..=18).contains(&most), "{most} files open at once");
    let tables = writer.finish().unwrap();
    assert_eq!(open_tables(&path), 0);
    let smallest: Vec<_> = tables.iter().map(|table| table.smallest.clone()).collect();
    assert!(smallest.is_sorted() && smallest.len() == 300, "{} tables", tables.len());
    assert_eq!(faulty.counters().of_extension(Operation::Sync, "table").operations, 300);
    assert_eq!(faulty.counters().of(Operation::SyncDir).operations, 1, "names too");
    let result = JobResult::Compact(CompactResult { tables, ..CompactResult::default() });
    verify_files(&faulty, &CompactSpec::default().into(), &result).unwrap();
}
