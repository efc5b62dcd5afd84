//! `Database` as far as versions go: one keyspace, one-byte keys, puts only.
//!
//! Each step is named after the function it follows, and does what that one does in the same order.
//! A [`Mistake`] is one such order gone wrong.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_engine::Snapshot;
use firn_format::key::{Kind, Sequence, Trailer};
use firn_format::log::{FRAME_HEADER_BYTES, Record, encode_single};
use firn_format::{Position, file_name};
use firn_storage::file::obsolete::ObsoleteFiles;
use loom::sync::Mutex;

use super::log::{FRAME_BYTES, Log, segment};
use super::swap::Swap;
use crate::log::{Segment, SegmentMap};
use crate::memtable::Memtable;
use crate::version::snapshots::Snapshots;

/// An order of steps that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A read of everything loads the watermark first and the version then.
    WatermarkBeforeVersion,
    /// A read of everything sees up to the watermark, also where its version ends before.
    ReadBeyondTheVersion,
    /// A roll lets writers into the next segment before the version that knows it is stored.
    ActivateBeforeVersion,
    /// A memtable is made a run while writers may still index records in it.
    FreezeUnpublished,
    /// A version is made from the current one and stored without the lock.
    ChangeWithoutLock,
    /// A snapshot's position is taken before merges can know of it.
    PinAfterWatermark,
    /// A merge asks for the snapshots first and takes its inputs then.
    SnapshotsBeforeInputs,
    /// A roll finds a memtable empty first, and asks then which segments are still written to.
    EmptyBeforeUnpublished,
    /// A flush takes its runs out of the version before its tables are in it.
    FlushInTwoSteps,
    /// Files of tables and segments go when no new version names them.
    RemoveWhenRetired,
    /// A thread that has found the memtable empty takes the base of the active segment while a roll
    /// is under way.
    BaseWhileRolling,
}

/// A record's place in order: its key, and the newest first.
type Entry = (u8, std::cmp::Reverse<Sequence>);

/// `Version` with its one `Keyspace`.
#[derive(Clone)]
pub(crate) struct Version {
    memtable: Arc<Memtable>,
    memtable_start: Position,
    /// Newest first.
    frozen: Vec<(Arc<Memtable>, Range<Position>)>,
    /// Newest first.
    runs: Vec<Arc<Run>>,
    /// Newest first.
    tables: Vec<Arc<Table>>,
    flushed_through: Position,
    segments: Arc<SegmentMap>,
}

struct Run {
    entries: Vec<Entry>,
    span: Range<Position>,
}

/// `Table`: its file goes with its last holder.
struct Table {
    file: String,
    entries: Vec<Entry>,
    /// The standard library's, as `Segment` has it: loom does not see what order the counts of an
    /// `Arc` give.
    retired: AtomicBool,
    obsolete: Arc<ObsoleteFiles>,
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.retired.load(Ordering::Acquire) {
            self.obsolete.remove_later(std::mem::take(&mut self.file));
        }
    }
}

pub(crate) struct Database {
    mistake: Option<Mistake>,
    frames: usize,
    log: Log,
    version: Swap<Version>,
    changing: Mutex<()>,
    manifest: Mutex<()>,
    snapshots: Arc<Snapshots>,
    obsolete: Arc<ObsoleteFiles>,
    /// The directory and every record that was ever reserved, with the standard library's lock:
    /// loom sees no order in it.
    seen: std::sync::Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    files: BTreeSet<String>,
    records: Vec<Entry>,
    tables_made: usize,
}

impl Database {
    /// A database whose segments take `frames` frames each.
    pub(crate) fn new(frames: usize, mistake: Option<Mistake>) -> Self {
        let (memtable, obsolete) = (Arc::new(Memtable::new(&[])), Arc::default());
        let first = segment(Position(0), frames, &memtable, &obsolete);
        let files = BTreeSet::from([first.name().to_owned()]);
        let log = Log::start(&first);
        let version = Version {
            memtable,
            memtable_start: Position(0),
            frozen: Vec::new(),
            runs: Vec::new(),
            tables: Vec::new(),
            flushed_through: Position(0),
            segments: Arc::new(SegmentMap::new(vec![first])),
        };
        Self {
            mistake,
            frames,
            log,
            version: Swap::new(Arc::new(version)),
            changing: Mutex::new(()),
            manifest: Mutex::new(()),
            snapshots: Arc::default(),
            obsolete,
            seen: std::sync::Mutex::new(Seen { files, ..Seen::default() }),
        }
    }

    fn is_wrong(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// `Catalog::change_version`.
    fn change_version(&self, change: impl FnOnce(&mut Version)) {
        let _changing = (!self.is_wrong(Mistake::ChangeWithoutLock)).then(|| self.changing.lock().unwrap());
        let mut version = (*self.version.load()).clone();
        change(&mut version);
        self.version.store(Arc::new(version));
    }

    /// `append`, `fill` and `publish` of `commit/pipeline.rs`.
    pub(crate) fn write(&self, key: u8) {
        loop {
            let active = self.log.active.load();
            let Ok(mut reservation) = active.region().reserve(FRAME_BYTES) else {
                self.roll(active.base());
                continue;
            };
            let start = active.position(reservation.offset());
            let position = Position(start.0 + FRAME_HEADER_BYTES as u64);
            self.see(|seen| seen.records.push((key, std::cmp::Reverse(position.sequence()))));
            let record = Record { keyspace: 0, kind: Kind::Put, expires_at_ms: 0, key: &[key], value: &[] };
            let first_word = encode_single(reservation.bytes_mut(), &record, Position(0), start, 0);
            let memtable = active.carried().get(0).unwrap();
            memtable.insert(u32::from(key), &[key], Trailer::new(position.sequence(), Kind::Put));
            reservation.publish(first_word);
            self.log.advance();
            return;
        }
    }

    /// `CommitPipeline::roll`, freezing the memtable if it holds records.
    pub(crate) fn roll(&self, base: Position) {
        let Some(mut next) = self.log.lock_roll(base) else { return };
        let segment = self.install_segment(&mut next);
        if !self.is_wrong(Mistake::ActivateBeforeVersion) {
            self.log.activate(&segment);
        }
    }

    /// Rolls the active segment, whichever that is.
    pub(crate) fn roll_active(&self) {
        self.roll(self.log.active.load().base());
    }

    /// The beginning of `copy` and of `freeze_through`: fails unless all that is
    /// acknowledged by now lies below the base that they go by.
    pub(crate) fn assert_settled_base(&self) {
        let acknowledged = self.log.watermark();
        if !self.version.load().memtable.is_empty() {
            self.roll_active();
        }
        let base = match self.is_wrong(Mistake::BaseWhileRolling) {
            true => self.log.active.load().base(),
            false => self.log.settled_base(),
        };
        let records = self.see(|seen| seen.records.clone());
        let newest = records.iter().map(|(_, sequence)| sequence.0);
        let newest = newest.filter(|sequence| *sequence < acknowledged.sequence()).max();
        assert!(newest < Some(base.sequence()), "{newest:?} is acknowledged and not below {base}");
    }

    /// `Database::install_segment`.
    fn install_segment(&self, next: &mut Position) -> Arc<Segment> {
        let _changing = (!self.is_wrong(Mistake::ChangeWithoutLock)).then(|| self.changing.lock().unwrap());
        let mut version = (*self.version.load()).clone();
        let unpublished_from = self.log.unpublished_from();
        if version.memtable.is_empty() {
            let start = match self.is_wrong(Mistake::EmptyBeforeUnpublished) {
                true => self.log.unpublished_from(),
                false => unpublished_from,
            };
            version.memtable_start = version.memtable_start.max(start);
        } else {
            let successor = Arc::new(version.memtable.successor());
            let frozen = std::mem::replace(&mut version.memtable, successor);
            version.frozen.insert(0, (frozen, version.memtable_start..*next));
            version.memtable_start = *next;
        }
        // `Log::prepare_next`.
        self.log.active.load().region().seal();
        let segment = segment(*next, self.frames, &version.memtable, &self.obsolete);
        self.see(|seen| seen.files.insert(segment.name().to_owned()));
        *next = segment.span_end();
        let mut segments = version.segments.segments().to_vec();
        segments.push(Arc::clone(&segment));
        version.segments = Arc::new(SegmentMap::new(segments));
        if self.is_wrong(Mistake::ActivateBeforeVersion) {
            self.log.activate(&segment);
        }
        self.version.store(Arc::new(version));
        segment
    }

    /// `Database::choose` and `Flushing::freeze`.
    pub(crate) fn freeze(&self) {
        let version = self.version.load();
        let watermark = self.log.advance();
        let Some((memtable, span)) = version.frozen.last() else { return };
        if span.end > watermark && !self.is_wrong(Mistake::FreezeUnpublished) {
            return;
        }
        let sorted = memtable.freeze_entries(&*version.segments);
        let entries = sorted.entries.iter().zip(&sorted.hashes);
        let entries =
            entries.map(|(entry, hash)| (*hash as u8, std::cmp::Reverse(entry.trailer.sequence()))).collect();
        let run = Arc::new(Run { entries, span: span.clone() });
        self.change_version(|version| {
            version.frozen.retain(|(frozen, _)| !Arc::ptr_eq(frozen, memtable));
            version.runs.insert(0, run);
        });
        self.drop_dead_segments();
    }

    /// The current version, and the snapshots of readers of what is made of it: `merge_runs`,
    /// `rules`.
    fn inputs(&self) -> (Arc<Version>, Vec<Sequence>) {
        if self.is_wrong(Mistake::SnapshotsBeforeInputs) {
            let snapshots = self.snapshots.sequences();
            return (self.version.load(), snapshots);
        }
        let version = self.version.load();
        let snapshots = self.snapshots.sequences();
        (version, snapshots)
    }

    /// `Flushing::merge_runs`, of all runs.
    pub(crate) fn merge(&self) {
        let (version, snapshots) = self.inputs();
        let inputs = &version.runs;
        let [newest, .., oldest] = &inputs[..] else { return };
        let span = oldest.span.start..newest.span.end;
        let run = Arc::new(Run { entries: sieve(inputs.iter().map(|run| &run.entries), &snapshots), span });
        self.change_version(|version| {
            let first =
                version.runs.iter().position(|run| inputs.iter().any(|input| Arc::ptr_eq(run, input)));
            version.runs.retain(|run| !inputs.iter().any(|input| Arc::ptr_eq(run, input)));
            version.runs.insert(first.unwrap(), run);
        });
    }

    /// `Flushing::flush`, of all runs.
    pub(crate) fn flush(&self) {
        let (version, snapshots) = self.inputs();
        let Some(newest) = version.runs.first() else { return };
        let table = self.make_table(version.runs.iter().map(|run| &run.entries), &snapshots);
        let end = newest.span.end;
        let is_flushed = |run: &Arc<Run>| version.runs.iter().any(|flushed| Arc::ptr_eq(run, flushed));
        let manifest = self.manifest.lock().unwrap();
        if self.is_wrong(Mistake::FlushInTwoSteps) {
            self.change_version(|version| version.runs.retain(|run| !is_flushed(run)));
        }
        let watermark = self.log.watermark();
        self.change_version(|version| {
            version.flushed_through = version.flushed_through.max(end);
            version.tables.insert(0, table);
            version.runs.retain(|run| !is_flushed(run));
            self.retire_below(version, watermark);
        });
        drop(manifest);
    }

    /// What the flush of another keyspace, of its records in the first segment, does to this one:
    /// `order_before_log` and `commit`.
    pub(crate) fn flush_beside(&self) {
        let watermark = self.log.advance();
        let manifest = self.manifest.lock().unwrap();
        let version = self.version.load();
        let end = version.segments.segments()[0].span_end();
        let is_flushed = end <= watermark && version.unflushed_from(end) >= end;
        let watermark = self.log.watermark();
        self.change_version(|version| {
            if is_flushed {
                version.flushed_through = version.flushed_through.max(end);
            }
            self.retire_below(version, watermark);
        });
        drop(manifest);
    }

    /// `Compacting::compact`, of all tables, with `Edits::commit`.
    pub(crate) fn compact(&self) {
        let (version, snapshots) = self.inputs();
        let removed = version.tables.clone();
        if removed.len() < 2 {
            return;
        }
        let table = self.make_table(removed.iter().map(|table| &table.entries), &snapshots);
        // A job holds tables, not the version they were chosen from.
        drop(version);
        let manifest = self.manifest.lock().unwrap();
        self.change_version(|version| {
            version.tables.retain(|table| !removed.iter().any(|removed| Arc::ptr_eq(table, removed)));
            version.tables.push(table);
        });
        drop(manifest);
        for table in &removed {
            table.retired.store(true, Ordering::Release);
            self.remove_at_once(&table.file);
        }
    }

    fn make_table<'e>(
        &self,
        inputs: impl Iterator<Item = &'e Vec<Entry>>,
        snapshots: &[Sequence],
    ) -> Arc<Table> {
        let file = self.see(|seen| {
            seen.tables_made += 1;
            let file = format!("{}.table", seen.tables_made);
            seen.files.insert(file.clone());
            file
        });
        let obsolete = Arc::clone(&self.obsolete);
        let entries = sieve(inputs, snapshots);
        Arc::new(Table { file, entries, retired: AtomicBool::new(false), obsolete })
    }

    /// `drop_dead_segments`.
    fn drop_dead_segments(&self) {
        let watermark = self.log.watermark();
        self.change_version(|version| self.retire_below(version, watermark));
    }

    /// `retire_below`.
    fn retire_below(&self, version: &mut Version, watermark: Position) {
        let needed = version.log_needed_from().min(watermark).min(version.flushed_through);
        let segments = version.segments.segments();
        let dead = segments.iter().take_while(|segment| segment.span_end() <= needed).count();
        if dead == 0 || dead == segments.len() {
            return;
        }
        let (dead, live) = segments.split_at(dead);
        for segment in dead {
            segment.retire();
            self.remove_at_once(segment.name());
        }
        version.segments = Arc::new(SegmentMap::new(live.to_vec()));
    }

    /// `remove_obsolete`.
    pub(crate) fn remove_obsolete(&self) {
        let dead = self.obsolete.take();
        for name in dead.removable.into_iter().chain(dead.recyclable_segments) {
            self.see(|seen| seen.files.remove(&name));
        }
    }

    fn remove_at_once(&self, name: &str) {
        if self.is_wrong(Mistake::RemoveWhenRetired) {
            self.see(|seen| seen.files.remove(name));
        }
    }

    /// What a read of everything holds and sees: `TreeSession::get` with
    /// `CommitPipeline::read_position`.
    pub(crate) fn latest(&self) -> (Arc<Version>, Position) {
        if self.is_wrong(Mistake::WatermarkBeforeVersion) {
            let watermark = self.log.watermark();
            let version = self.version.load();
            let before = watermark.min(version.segments.end());
            return (version, before);
        }
        let version = self.version.load();
        let watermark = self.log.watermark();
        let before = match self.is_wrong(Mistake::ReadBeyondTheVersion) {
            true => watermark,
            false => watermark.min(version.segments.end()),
        };
        (version, before)
    }

    /// `Tree::snapshot`.
    pub(crate) fn snapshot(&self) -> Snapshot {
        if self.is_wrong(Mistake::PinAfterWatermark) {
            let watermark = self.log.watermark();
            return self.snapshots.take(|| watermark);
        }
        self.snapshots.take(|| self.log.watermark())
    }

    /// What a read at `snapshot` holds and sees.
    pub(crate) fn at(&self, snapshot: &Snapshot) -> (Arc<Version>, Position) {
        (self.version.load(), Position(snapshot.position().0))
    }

    /// Fails unless a read finds, of each key, the newest record below the position it sees up to,
    /// and every file that its version names.
    pub(crate) fn assert_finds_all(&self, (version, before): &(Arc<Version>, Position)) {
        let records = self.see(|seen| seen.records.clone());
        let keys: BTreeSet<u8> = records.iter().map(|(key, _)| *key).collect();
        for key in keys {
            let below = |entry: &&Entry| entry.0 == key && entry.1.0 < before.sequence();
            let expected = records.iter().filter(below).map(|entry| entry.1.0).max();
            let found = version.newest(key, before.sequence());
            assert_eq!(found, expected, "key {key} below {before} is lost");
        }
        let segments = version.segments.segments().iter().map(|segment| segment.name());
        for name in segments.chain(version.tables.iter().map(|table| table.file.as_str())) {
            assert!(self.see(|seen| seen.files.contains(name)), "{name} is removed while a version holds it");
        }
    }

    /// Fails unless the files are those that the current version names. No other version holds one.
    pub(crate) fn assert_nothing_is_left(&self) {
        self.log.forget_written();
        self.drop_dead_segments();
        self.remove_obsolete();
        let version = self.version.load();
        let segments = version.segments.segments().iter().map(|segment| segment.name().to_owned());
        let named: BTreeSet<String> =
            segments.chain(version.tables.iter().map(|table| table.file.clone())).collect();
        assert_eq!(self.see(|seen| seen.files.clone()), named, "files are not what the version names");
    }

    fn see<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap())
    }
}

impl Version {
    /// `Reads::lookup`: places newest first, the first that knows the key answers.
    fn newest(&self, key: u8, before: Sequence) -> Option<Sequence> {
        let memtables =
            std::iter::once(&self.memtable).chain(self.frozen.iter().map(|(memtable, _)| memtable));
        for memtable in memtables {
            if let Some((trailer, _)) = memtable.newest(u32::from(key), &[key], before, &*self.segments) {
                return Some(trailer.sequence());
            }
        }
        let runs = self.runs.iter().map(|run| &run.entries);
        let mut places = runs.chain(self.tables.iter().map(|table| &table.entries));
        places
            .find_map(|entries| entries.iter().find(|entry| entry.0 == key && entry.1.0 < before))
            .map(|entry| entry.1.0)
    }

    /// `Version::log_needed_from`.
    fn log_needed_from(&self) -> Position {
        let end = self.segments.segments().last().map_or(Position(0), |segment| segment.base());
        self.unflushed_from(end)
    }

    /// `Keyspace::unflushed_from`.
    fn unflushed_from(&self, end: Position) -> Position {
        if let Some(run) = self.runs.last() {
            return run.span.start;
        }
        if let Some((_, span)) = self.frozen.last() {
            return span.start;
        }
        if self.memtable.is_empty() { end } else { self.memtable_start }
    }
}

/// What of `inputs` some reader can still see: `merge/sieve.rs`, for puts.
fn sieve<'e>(inputs: impl Iterator<Item = &'e Vec<Entry>>, snapshots: &[Sequence]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = inputs.flatten().copied().collect();
    entries.sort_unstable();
    let mut newer: Option<Entry> = None;
    entries.retain(|entry| {
        let newer = newer.replace(*entry).filter(|newer| newer.0 == entry.0);
        let end = snapshots.iter().find(|snapshot| **snapshot > entry.1.0);
        newer.is_none_or(|newer| newer.1.0 >= end.copied().unwrap_or(Sequence::MAX))
    });
    entries
}
