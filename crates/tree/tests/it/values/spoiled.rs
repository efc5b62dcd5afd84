//! Collections whose outputs or answers are spoiled where they are done: none is accepted, nothing
//! of it stays, and the work is done here.

use std::sync::{Arc, Mutex};

use fastrand::Rng;
use firn_engine::Engine;
use firn_format::manifest::ValueSegmentMeta;
use firn_format::value::record::{padding, plain_chunks};
use firn_format::value::segment::Origin;
use firn_format::value::{Ordinals, Redirect, ValueHead, ValueSegmentHeader};
use firn_jobs::{
    CollectResult, CollectSpec, CompactResult, Executor, JobHandle, JobResult, JobSpec, Local, is_output_of,
    new_job,
};
use firn_storage::Storage;
use firn_storage::file::value::{RecordReader, ValueBuilder, ValueSegment};
use firn_storage::place::Memory;

use crate::support::scene::{Scene, text};
use crate::support::world::{seed, settle};

/// The outputs of a collection and its result, before the result is reported.
struct Made<'m> {
    storage: &'m Memory,
    spec: CollectSpec,
    result: JobResult,
    random: &'m mut Rng,
}

/// Makes something else of it.
type Spoil = fn(&mut Made<'_>);

/// Bytes of a head, and of a key, of this test's values.
const HEAD_BYTES: u64 = 24;
const KEY_BYTES: u64 = 4;

impl Made<'_> {
    fn answer(&mut self) -> &mut CollectResult {
        match &mut self.result {
            JobResult::Collect(result) => result,
            JobResult::Compact(_) => panic!("a collection"),
        }
    }

    fn meta(&mut self) -> &mut ValueSegmentMeta {
        self.answer().segment.as_mut().unwrap()
    }

    fn file(&mut self) -> String {
        self.meta().file.clone()
    }

    fn open(&mut self) -> ValueSegment {
        let meta = self.meta().clone();
        ValueSegment::open(self.storage, &meta, false).unwrap()
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

    /// Its records, each with the length of its value, and its redirects.
    fn content(&mut self) -> (Vec<(u32, Vec<u8>)>, Vec<Redirect>) {
        let segment = self.open();
        let mut reader = RecordReader::new(&segment);
        let mut records = Vec::new();
        for ordinal in 0..segment.ordinals().len() {
            let put = |head: &ValueHead, bytes: &[u8]| {
                records.push((head.value_bytes, bytes.to_vec()));
                Ok(())
            };
            reader.read(ordinal, |_| Ok(()), put).unwrap();
        }
        let places = self.answer().redirects.iter();
        (records, places.map(|(_, place)| segment.redirect(place).unwrap()).collect())
    }

    /// What it says at its beginning.
    fn header(&self) -> ValueSegmentHeader {
        let (database, number) = (self.spec.database, self.spec.number);
        ValueSegmentHeader { database, number, origin: Origin::Collected, generation: 0 }
    }

    /// Makes another output, whole by itself, and says that it is the one.
    fn remake(&mut self, records: &[(u32, Vec<u8>)], redirects: &[Redirect]) {
        let header = self.header();
        self.remake_as(&header, records, redirects);
    }

    fn remake_as(&mut self, header: &ValueSegmentHeader, records: &[(u32, Vec<u8>)], redirects: &[Redirect]) {
        let (name, meta) = (self.file(), self.meta().clone());
        self.storage.remove(&name).unwrap();
        let mut builder = ValueBuilder::new(&name, self.storage.create(&name).unwrap(), header);
        for (value_bytes, bytes) in records {
            builder.begin(*value_bytes).unwrap();
            builder.put(bytes).unwrap();
            builder.put(padding(bytes.len())).unwrap();
        }
        let (made, places) = builder.finish(redirects).unwrap();
        *self.meta() = ValueSegmentMeta { sealed_at: meta.sealed_at, ..made };
        self.answer().redirects = redirects.iter().map(|redirect| redirect.victim).zip(places).collect();
    }

    /// Makes an output without one of the values, and redirects that know nothing of it.
    fn drop_one(&mut self) {
        let (dropped, (mut records, redirects)) = (self.some(), self.content());
        records.remove(dropped as usize);
        let without = |it: &Redirect| {
            let place = |ordinal: &u32| it.translate(*ordinal).unwrap();
            let survivors: Ordinals =
                it.survivors().iter().filter(|ordinal| place(ordinal) != dropped).collect();
            let base = it.base - u32::from(it.base > dropped);
            Redirect::new(it.victim, it.ordinals, &survivors, it.segment, base)
        };
        let redirects: Vec<Redirect> = redirects.iter().filter_map(without).collect();
        self.remake(&records, &redirects);
    }
}

/// Does jobs as it should, but for one collection.
#[derive(Debug)]
struct Spoiling {
    inner: Local,
    storage: Memory,
    random: Mutex<Rng>,
    /// What becomes of the next collection of values of this origin.
    next: Mutex<Option<(Origin, Spoil)>>,
    /// The stem of what was spoiled.
    spoiled: Mutex<Option<String>>,
}

impl Executor for Spoiling {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        let (handle, finisher) = new_job();
        let mut result = self.inner.submit(spec.clone())?.wait()?;
        if let (JobSpec::Collect(spec), JobResult::Collect(made)) = (spec, &result) {
            // Enough for every way to spoil it.
            let is_rich =
                made.redirects.len() >= 2 && made.segment.as_ref().is_some_and(|it| it.ordinals >= 4);
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

/// A database that goes on until a collection of values of this origin was spoiled, with that
/// collection's stem.
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
    panic!("there was no collection to be spoiled");
}

/// The collection was noticed for this `reason`, and done here; what it made is gone, and nothing
/// is lost.
fn assert_made_good((mut scene, stem): (Scene, String), reason: &str, what: &str) {
    let stats = scene.tree.stats();
    let found = stats.jobs_passed_on_reason.expect(what);
    assert!(found.contains(reason), "{what}: {found}");
    let kinds = stats.jobs.kinds.iter();
    let here: u64 = kinds.map(|kind| kind.here_count).sum();
    let collected = stats.jobs.kinds.iter().find(|kind| kind.kind == "collection").unwrap();
    assert!(collected.here_count > 0 && stats.jobs.is_executor_away, "{what}: {:?}", stats.jobs.kinds);
    assert_eq!(stats.jobs_passed_on_count, here, "{what}: each is counted");
    scene.check(what);
    scene.tree.wait_idle().unwrap();
    let files = scene.machine.storage.list().unwrap();
    let left: Vec<_> = files.iter().filter(|(name, _)| is_output_of(name, &stem)).collect();
    assert!(left.is_empty(), "{what}: {left:?}");
    let values = files.iter().filter(|(name, _)| name.ends_with(".values")).count() as u64;
    assert_eq!(
        values,
        scene.tree.stats().tree.expect("a tree").values.segment_count,
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
    ("a bit of a redirect", |made| {
        let footer = *made.open().footer();
        made.flip(footer.redirects_start(), footer.redirect_bytes);
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
    ("nothing lived", |made| *made.answer() = CollectResult::default()),
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
    ("a redirect less", |made| {
        made.answer().redirects.pop().unwrap();
    }),
    ("redirects that changed places", |made| {
        let redirects = &mut made.answer().redirects;
        let first = redirects[0].1;
        redirects[0].1 = redirects[1].1;
        redirects[1].1 = first;
    }),
    ("a redirect of another segment", |made| made.answer().redirects.last_mut().unwrap().0.0 += 1),
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
        let (at, (mut records, redirects)) = (made.some() as usize, made.content());
        records[at] = records[at + 1].clone();
        made.remake(&records, &redirects);
    }),
    ("two that changed places", |made| {
        let (at, (mut records, redirects)) = (made.some() as usize, made.content());
        records.swap(at, at + 1);
        made.remake(&records, &redirects);
    }),
    ("a redirect that leads to another value", |made| {
        let (records, mut redirects) = made.content();
        let redirect = made.random.usize(0..redirects.len());
        let it = &mut redirects[redirect];
        let mut gone = Ordinals::first(it.ordinals);
        gone.remove_all(&it.survivors());
        // One survivor gets the ordinal of a value that died.
        let (called, mut survivors) = (gone.iter().next().unwrap(), it.survivors());
        let first: Ordinals = survivors.iter().take(1).collect();
        survivors.remove_all(&first);
        survivors.insert(called);
        *it = Redirect::new(it.victim, it.ordinals, &survivors, it.segment, it.base).unwrap();
        made.remake(&records, &redirects);
    }),
    ("a redirect that begins later", |made| {
        let (records, mut redirects) = made.content();
        redirects.last_mut().unwrap().base += 1;
        made.remake(&records, &redirects);
    }),
    ("a segment of another database", |made| {
        let (header, (records, redirects)) = (made.header(), made.content());
        let header = ValueSegmentHeader { database: header.database + 1, ..header };
        made.remake_as(&header, &records, &redirects);
    }),
    ("a segment that was written to", |made| {
        let (header, (records, redirects)) = (made.header(), made.content());
        let header = ValueSegmentHeader { origin: Origin::Written, ..header };
        made.remake_as(&header, &records, &redirects);
    }),
];

#[test]
fn a_spoiled_collection_is_never_committed_its_outputs_are_removed_and_the_work_is_done_here() {
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
    let (at, (mut records, redirects)) = (made.some() as usize, made.content());
    let (_, bytes) = &mut records[at];
    let (head, value) = bytes.split_at((HEAD_BYTES + KEY_BYTES) as usize);
    let (key, mut value) = (head[HEAD_BYTES as usize..].to_vec(), value.to_vec());
    value[0] ^= 1;
    let head = firn_format::value::ValueRecord::decode(bytes).unwrap().head;
    let mut forged = Vec::new();
    head.encode(plain_chunks(&value), &key, &mut forged);
    forged.extend_from_slice(&value);
    *bytes = forged;
    made.remake(&records, &redirects);
}

#[test]
fn another_value_under_a_new_checksum_is_found_by_doing_it_again() {
    let random = &mut Rng::with_seed(seed(18));
    for origin in [Origin::Written, Origin::Collected] {
        let what = format!("of values that were {origin:?}");
        assert_made_good(spoiled(origin, forge, 1.0, random), "something else than this process", &what);
    }
}
