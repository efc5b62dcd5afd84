//! GCs whose outputs or answers are spoiled where they are done: none is accepted, nothing
//! of it stays, and the work is done here.

use std::sync::{Arc, Mutex};

use fastrand::Rng;
use firn_engine::Engine;
use firn_format::blob::record::{padding, plain_chunks};
use firn_format::blob::segment::Origin;
use firn_format::blob::{BlobHead, BlobSegmentHeader, Ordinals, Relocation};
use firn_format::manifest::BlobSegmentMeta;
use firn_jobs::{
    BlobGcResult, BlobGcSpec, CompactResult, Executor, JobHandle, JobResult, JobSpec, Local, is_output_of,
    new_job,
};
use firn_storage::Storage;
use firn_storage::backend::Memory;
use firn_storage::file::blob::{BlobBuilder, BlobSegment, RecordReader};

use crate::support::scene::{Scene, text};
use crate::support::world::{seed, settle};

/// The outputs of a GC and its result, before the result is reported.
struct Made<'m> {
    storage: &'m Memory,
    spec: BlobGcSpec,
    result: JobResult,
    random: &'m mut Rng,
}

/// Makes something else of it.
type Spoil = fn(&mut Made<'_>);

/// Bytes of a head, and of a key, of this test's values.
const HEAD_BYTES: u64 = 24;
const KEY_BYTES: u64 = 4;

impl Made<'_> {
    fn answer(&mut self) -> &mut BlobGcResult {
        match &mut self.result {
            JobResult::BlobGc(result) => result,
            JobResult::Compact(_) => panic!("a GC"),
        }
    }

    fn meta(&mut self) -> &mut BlobSegmentMeta {
        self.answer().segment.as_mut().unwrap()
    }

    fn file(&mut self) -> String {
        self.meta().file.clone()
    }

    fn open(&mut self) -> BlobSegment {
        let meta = self.meta().clone();
        BlobSegment::open(self.storage, &meta, false).unwrap()
    }

    /// Flips some bit of the `bytes` bytes at `offset`.
    fn flip(&mut self, offset: u64, bytes: u64) {
        let (name, at) = (self.file(), offset + self.random.u64(0..bytes));
        let mut byte = [0];
        self.storage.open_read(&name).unwrap().read_at(at, &mut byte).unwrap();
        byte[0] ^= 1 << self.random.u32(0..8);
        self.storage.open_write(&name).unwrap().write_at(at, &byte).unwrap();
    }

    /// Flips some bit of the `bytes` bytes behind the first `skipped` of some record.
    fn flip_record(&mut self, skipped: u64, bytes: u64) {
        let ordinal = self.some();
        let offset = self.open().ordinals().offset(ordinal).unwrap();
        self.flip(offset + skipped, bytes);
    }

    /// Some ordinal that another follows.
    fn some(&mut self) -> u32 {
        let ordinals = self.meta().ordinals;
        self.random.u32(0..ordinals - 1)
    }

    /// Its records, each with the length of its value, and its relocations.
    fn content(&mut self) -> (Vec<(u32, Vec<u8>)>, Vec<Relocation>) {
        let segment = self.open();
        let mut reader = RecordReader::new(&segment);
        let mut records = Vec::new();
        for ordinal in 0..segment.ordinals().len() {
            let put = |head: &BlobHead, bytes: &[u8]| {
                records.push((head.value_bytes, bytes.to_vec()));
                Ok(())
            };
            reader.read(ordinal, |_| Ok(()), put).unwrap();
        }
        let places = self.answer().relocations.iter();
        (records, places.map(|(_, place)| segment.relocation(place).unwrap()).collect())
    }

    /// What it says at its beginning.
    fn header(&self) -> BlobSegmentHeader {
        let (database, number) = (self.spec.database, self.spec.number);
        BlobSegmentHeader { database, number, origin: Origin::Collected, generation: 0 }
    }

    /// Makes another output, whole by itself, and says that it is the one.
    fn remake(&mut self, records: &[(u32, Vec<u8>)], relocations: &[Relocation]) {
        let header = self.header();
        self.remake_as(&header, records, relocations);
    }

    fn remake_as(
        &mut self,
        header: &BlobSegmentHeader,
        records: &[(u32, Vec<u8>)],
        relocations: &[Relocation],
    ) {
        let (name, meta) = (self.file(), self.meta().clone());
        self.storage.remove(&name).unwrap();
        let mut builder = BlobBuilder::new(&name, self.storage.create(&name).unwrap(), header);
        for (value_bytes, bytes) in records {
            builder.begin(*value_bytes).unwrap();
            builder.put(bytes).unwrap();
            builder.put(padding(bytes.len())).unwrap();
        }
        let (made, places) = builder.finish(relocations).unwrap();
        *self.meta() = BlobSegmentMeta { sealed_at: meta.sealed_at, ..made };
        self.answer().relocations =
            relocations.iter().map(|relocation| relocation.victim).zip(places).collect();
    }

    /// Makes an output without one of the values, and relocations that know nothing of it.
    fn drop_one(&mut self) {
        let (dropped, (mut records, relocations)) = (self.some(), self.content());
        records.remove(dropped as usize);
        let without = |it: &Relocation| {
            let place = |ordinal: &u32| it.translate(*ordinal).unwrap();
            let survivors: Ordinals =
                it.survivors().iter().filter(|ordinal| place(ordinal) != dropped).collect();
            let base = it.base - u32::from(it.base > dropped);
            Relocation::new(it.victim, it.ordinals, &survivors, it.segment, base)
        };
        let relocations: Vec<Relocation> = relocations.iter().filter_map(without).collect();
        self.remake(&records, &relocations);
    }
}

/// Does jobs as it should, but for one GC.
#[derive(Debug)]
struct Spoiling {
    inner: Local,
    storage: Memory,
    random: Mutex<Rng>,
    /// What becomes of the next GC of values of this origin.
    next: Mutex<Option<(Origin, Spoil)>>,
    /// The stem of what was spoiled.
    spoiled: Mutex<Option<String>>,
}

impl Executor for Spoiling {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        let (handle, finisher) = new_job();
        let mut result = self.inner.submit(spec.clone())?.wait()?;
        if let (JobSpec::BlobGc(spec), JobResult::BlobGc(made)) = (spec, &result) {
            // Enough for every way to spoil it.
            let is_rich =
                made.relocations.len() >= 2 && made.segment.as_ref().is_some_and(|it| it.ordinals >= 4);
            let is_of = |origin| spec.victims.iter().all(|victim| victim.origin == origin);
            let taken = self.next.lock().unwrap().take_if(|(origin, _)| is_rich && is_of(*origin));
            if let Some((_, spoil)) = taken {
                *self.spoiled.lock().unwrap() = Some(spec.output_stem.clone());
                let random = &mut self.random.lock().unwrap();
                let mut made = Made { storage: &self.storage, spec, result, random };
                spoil(&mut made);
                result = made.result;
            }
        }
        finisher.finish(Ok(result));
        Ok(handle)
    }
}

impl Spoiling {
    fn new(scene: &Scene, next: (Origin, Spoil), random: Rng) -> Arc<Self> {
        let options = scene.machine.options();
        let inner = Local::inline(options.storage, Arc::new(options.semantics));
        let (storage, random) = (scene.machine.storage.clone(), Mutex::new(random));
        Arc::new(Self { inner, storage, random, next: Mutex::new(Some(next)), spoiled: Mutex::default() })
    }
}

/// A database that goes on until a GC of values of this origin was spoiled, with that
/// GC's stem.
fn spoiled(origin: Origin, spoil: Spoil, reexecuted_share: f64, random: &mut Rng) -> (Scene, String) {
    let mut scene = Scene::new();
    let executor = Spoiling::new(&scene, (origin, spoil), random.fork());
    scene.executor = Some(Arc::clone(&executor) as _);
    scene.machine.settings.reexecuted_share = reexecuted_share;
    for round in 1..30 {
        scene.wear(round, random);
        scene.reopen(1.05);
        settle(&scene.tree);
        let stem = executor.spoiled.lock().unwrap().take();
        if let Some(stem) = stem {
            return (scene, stem);
        }
        assert_eq!(scene.tree.stats().jobs_passed_on_reason, None, "what is right is believed");
        scene.reopen(100.0);
    }
    panic!("there was no GC to be spoiled");
}

/// The GC was noticed for this `reason`, and done here; what it made is gone, and nothing
/// is lost.
fn assert_made_good((mut scene, stem): (Scene, String), reason: &str, what: &str) {
    let stats = scene.tree.stats();
    let found = stats.jobs_passed_on_reason.expect(what);
    assert!(found.contains(reason), "{what}: {found}");
    let kinds = stats.jobs.kinds.iter();
    let here: u64 = kinds.map(|kind| kind.here_count).sum();
    let collected = stats.jobs.kinds.iter().find(|kind| kind.kind == "blob_gc").unwrap();
    assert!(collected.here_count > 0 && stats.jobs.is_executor_away, "{what}: {:?}", stats.jobs.kinds);
    assert_eq!(stats.jobs_passed_on_count, here, "{what}: each is counted");
    scene.check(what);
    scene.tree.wait_idle().unwrap();
    let files = scene.machine.storage.list().unwrap();
    let left: Vec<_> = files.iter().filter(|(name, _)| is_output_of(name, &stem)).collect();
    assert!(left.is_empty(), "{what}: {left:?}");
    let values = files.iter().filter(|(name, _)| name.ends_with(".blobs")).count() as u64;
    assert_eq!(
        values,
        scene.tree.stats().tree.expect("a tree").blobs.segment_count,
        "{what}: no other file is left"
    );
    scene.tree.close().unwrap();
    scene.check_files();
    scene.reopen(100.0);
    scene.check(&format!("{what}, opened again"));
}

/// Outputs that are not what was written.
const FILES: [(&str, Spoil); 11] = [
    ("a bit of the header", |made| made.flip(0, 64)),
    ("a bit of a record's head", |made| made.flip_record(0, HEAD_BYTES)),
    ("a bit of a key", |made| made.flip_record(HEAD_BYTES, KEY_BYTES)),
    ("a bit of a value", |made| made.flip_record(HEAD_BYTES + KEY_BYTES, text(0, 0).len() as u64)),
    ("a bit of the ordinal table", |made| {
        let footer = *made.open().footer();
        made.flip(footer.records_end, footer.table_bytes());
    }),
    ("a bit of a relocation", |made| {
        let footer = *made.open().footer();
        made.flip(footer.relocations_start(), footer.relocation_bytes);
    }),
    ("a bit of the footer", |made| {
        let bytes = made.meta().bytes;
        made.flip(bytes - 64, 64);
    }),
    ("no file", |made| {
        let name = made.file();
        made.storage.remove(&name).unwrap();
    }),
    ("a file that ends early", |made| {
        let (name, bytes) = (made.file(), made.meta().bytes);
        made.storage.open_write(&name).unwrap().set_len(bytes - 8).unwrap();
    }),
    ("a file that goes on", |made| {
        let (name, bytes) = (made.file(), made.meta().bytes);
        made.storage.open_write(&name).unwrap().write_at(bytes, &[0; 8]).unwrap();
    }),
    ("a victim's file", |made| {
        let (name, victim) =
            (made.file(), made.storage.open_read(&made.spec.victims[0].segment.file).unwrap());
        let mut bytes = vec![0; victim.len() as usize];
        victim.read_at(0, &mut bytes).unwrap();
        made.storage.remove(&name).unwrap();
        made.storage.publish(&name, &bytes).unwrap();
    }),
];

/// Answers that are not what was done.
const ANSWERS: [(&str, Spoil); 13] = [
    ("another job's", |made| made.result = JobResult::Compact(CompactResult::default())),
    ("nothing lived", |made| *made.answer() = BlobGcResult::default()),
    ("a value less", |made| made.meta().ordinals -= 1),
    ("a value more", |made| made.meta().ordinals += 1),
    ("bytes of values", |made| made.meta().value_bytes += 1),
    ("a length", |made| made.meta().bytes += 8),
    ("a checksum", |made| made.meta().checksum ^= 1),
    ("a number", |made| made.meta().number.0 += 1),
    ("a position", |made| made.meta().sealed_at.0 += 8),
    ("a victim's name", |made| {
        let victim = made.spec.victims[0].segment.file.clone();
        made.meta().file = victim;
    }),
    ("a relocation less", |made| {
        made.answer().relocations.pop().unwrap();
    }),
    ("relocations that changed places", |made| {
        let relocations = &mut made.answer().relocations;
        let first = relocations[0].1;
        relocations[0].1 = relocations[1].1;
        relocations[1].1 = first;
    }),
    ("a relocation of another segment", |made| made.answer().relocations.last_mut().unwrap().0.0 += 1),
];

/// Outputs that are whole by themselves, with answers that say what they are.
const OTHERS: [(&str, Spoil); 8] = [
    ("a survivor dropped", |made| made.drop_one()),
    ("a survivor dropped, and counted", |made| {
        let ordinals = made.meta().ordinals;
        made.drop_one();
        made.meta().ordinals = ordinals;
    }),
    ("a survivor dropped, and another there twice", |made| {
        let (at, (mut records, relocations)) = (made.some() as usize, made.content());
        records[at] = records[at + 1].clone();
        made.remake(&records, &relocations);
    }),
    ("two that changed places", |made| {
        let (at, (mut records, relocations)) = (made.some() as usize, made.content());
        records.swap(at, at + 1);
        made.remake(&records, &relocations);
    }),
    ("a relocation that leads to another value", |made| {
        let (records, mut relocations) = made.content();
        let relocation = made.random.usize(0..relocations.len());
        let it = &mut relocations[relocation];
        let mut gone = Ordinals::first(it.ordinals);
        gone.remove_all(&it.survivors());
        // One survivor gets the ordinal of a value that died.
        let (called, mut survivors) = (gone.iter().next().unwrap(), it.survivors());
        let first: Ordinals = survivors.iter().take(1).collect();
        survivors.remove_all(&first);
        survivors.insert(called);
        *it = Relocation::new(it.victim, it.ordinals, &survivors, it.segment, it.base).unwrap();
        made.remake(&records, &relocations);
    }),
    ("a relocation that begins later", |made| {
        let (records, mut relocations) = made.content();
        relocations.last_mut().unwrap().base += 1;
        made.remake(&records, &relocations);
    }),
    ("a segment of another database", |made| {
        let (header, (records, relocations)) = (made.header(), made.content());
        let header = BlobSegmentHeader { database: header.database + 1, ..header };
        made.remake_as(&header, &records, &relocations);
    }),
    ("a segment that was written to", |made| {
        let (header, (records, relocations)) = (made.header(), made.content());
        let header = BlobSegmentHeader { origin: Origin::Written, ..header };
        made.remake_as(&header, &records, &relocations);
    }),
];

#[test]
fn a_spoiled_gc_is_never_committed_its_outputs_are_removed_and_the_work_is_done_here() {
    let random = &mut Rng::with_seed(seed(17));
    for (what, spoil) in [&FILES[..], &ANSWERS[..], &OTHERS[..]].concat() {
        for origin in [Origin::Written, Origin::Collected] {
            let what = format!("{what}, of values that were {origin:?}");
            assert_made_good(spoiled(origin, spoil, 0.0, random), "the answer was wrong", &what);
        }
    }
}

/// Puts another value of the same length in some value's place, and makes all checksums right.
fn forge(made: &mut Made<'_>) {
    let (at, (mut records, relocations)) = (made.some() as usize, made.content());
    let (_, bytes) = &mut records[at];
    let (head, value) = bytes.split_at((HEAD_BYTES + KEY_BYTES) as usize);
    let (key, mut value) = (head[HEAD_BYTES as usize..].to_vec(), value.to_vec());
    value[0] ^= 1;
    let head = firn_format::blob::BlobRecord::decode(bytes).unwrap().head;
    let mut forged = Vec::new();
    head.encode(plain_chunks(&value), &key, &mut forged);
    forged.extend_from_slice(&value);
    *bytes = forged;
    made.remake(&records, &relocations);
}

#[test]
fn another_value_under_a_new_checksum_is_found_by_doing_it_again() {
    let random = &mut Rng::with_seed(seed(18));
    for origin in [Origin::Written, Origin::Collected] {
        let what = format!("of values that were {origin:?}");
        assert_made_good(spoiled(origin, forge, 1.0, random), "something else than this process", &what);
    }
}
