//! An engine that has a log, a manifest of one line, and nothing else.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use firn_format::Position;
use firn_format::blob::segment::Origin;
use firn_format::blob::{BlobSegmentHeader, SegmentNumber};
use firn_format::file_name::{FileName, parse};
use firn_format::log::Frame;
use firn_format::log_object::{Piece, PieceOf};
use firn_format::manifest::{Change, EditEncoder, ManifestEdit};

use super::super::{By, Collector, NameEnv, NamedObjects, SendEnv, SharedLog};
use crate::backend::{Faulty, Memory, Operation};
use crate::file::log::SegmentMap;
use crate::file::log::tests::{Blobs, DATABASE, GENERATION, Numbered, append, begun_on, roll_to};
use crate::file::manifest::{Content, Edit, Manifest};
use crate::{Error, ManualClock, Result, Storage};

/// What the manifest says: which log objects are needed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said(pub(super) Option<NamedObjects>);

impl Content for Said {
    type Change = Change;
    type Before = Self;

    fn apply(&mut self, change: &Change) -> std::result::Result<(), String> {
        if let Change::LogObjects { generation, first, cut } = *change {
            self.0 = Some(NamedObjects { generation, first, cut });
        }
        Ok(())
    }

    fn before(&self, _changes: &[Change]) -> Self {
        *self
    }

    fn restore(&mut self, before: Self) {
        *self = before;
    }

    fn encode(&self, number: u64, changes: &[Change]) -> Vec<u8> {
        let mut encoder = EditEncoder::default();
        changes.iter().for_each(|change| encoder.push(change));
        encoder.finish(number, false, 0)
    }

    fn encode_base(&self, number: u64) -> Vec<u8> {
        let mut encoder = EditEncoder::default();
        encoder.push(&self.identity());
        self.0.into_iter().for_each(|named| encoder.push(&Engine::change(named)));
        encoder.finish(number, true, 0)
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Edit<Change>, firn_format::Error> {
        let ManifestEdit { number, base, changes, .. } = ManifestEdit::decode(bytes)?;
        Ok(Edit { number, is_base: base, changes })
    }

    fn take_over(home: u128) -> Change {
        Change::TakeOver { id: home }
    }

    fn is_take_over(change: &Change) -> bool {
        matches!(change, Change::TakeOver { .. })
    }

    fn identity(&self) -> Change {
        Change::Database { id: DATABASE }
    }
}

/// The engine, and its shared log.
pub(super) struct Engine {
    pub(super) faulty: Faulty,
    pub(super) log: Numbered,
    pub(super) shared_log: SharedLog,
    manifest: Mutex<Manifest<Said>>,
    /// Of the log, oldest first.
    segments: Mutex<SegmentMap<u32>>,
    /// Bytes that each frame refers to.
    pub(super) blob_bytes: AtomicUsize,
    pub(super) is_closed: AtomicBool,
    pub(super) is_stopping: AtomicBool,
    /// Why writes are refused.
    pub(super) failures: Mutex<Vec<String>>,
    /// Names that are to be removed, and whether more may follow.
    pub(super) removed: Mutex<Vec<(String, bool)>>,
}

impl Engine {
    /// One without log objects, on files in memory.
    pub(super) fn new() -> Self {
        let faulty = Faulty::new(Arc::new(Memory::new()));
        let log = begun_on(&faulty);
        let clock = Arc::new(ManualClock::new(0));
        let mut manifest = Manifest::new((Arc::new(faulty.clone()), clock), None, 100);
        manifest.commit(&[Change::Database { id: DATABASE }]).unwrap();
        let segments = SegmentMap::new(vec![Arc::clone(&log.active())]);
        Self {
            shared_log: SharedLog::new((DATABASE, GENERATION), false, None, (Position(0), Position(0))),
            faulty,
            log,
            manifest: Mutex::new(manifest),
            segments: Mutex::new(segments),
            blob_bytes: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            failures: Mutex::default(),
            removed: Mutex::default(),
        }
    }

    /// Publishes a frame, and syncs it; everything below the answer is on the device.
    pub(super) fn append(&self) -> Position {
        let end = append(&self.log);
        self.log.sync_through(end).unwrap();
        end
    }

    /// Begins the next segment, of `capacity`.
    pub(super) fn roll(&self, capacity: u64) {
        roll_to(&self.log, 2, capacity);
        let mut segments = self.segments.lock().unwrap();
        let mut all = segments.segments().to_vec();
        all.push(Arc::clone(&self.log.active()));
        *segments = SegmentMap::new(all);
    }

    /// Shares the log below `end`, for a writer.
    pub(super) fn share(&self, end: Position) -> Result<()> {
        self.shared_log.share_through(self, end, By::Writer)
    }

    /// Numbers of the log objects that are there, and their lengths.
    pub(super) fn listed(&self) -> Vec<(u64, u64)> {
        let listed = self.faulty.list().unwrap().into_iter();
        let object = |(name, bytes): (String, u64)| match parse(&name) {
            Some(FileName::LogObject { number, .. }) => Some((number, bytes)),
            _ => None,
        };
        listed.filter_map(object).collect()
    }

    /// How many log objects the backend was asked to create.
    pub(super) fn asked(&self) -> u64 {
        self.faulty.counters().of_extension(Operation::Publish, "group").operations
    }

    /// How many log objects were acknowledged, and the end of what they have.
    pub(super) fn acknowledged(&self) -> (u64, Position) {
        (self.shared_log.count.load(Ordering::Relaxed), self.shared_log.through())
    }

    /// What the manifest says of log objects.
    pub(super) fn named(&self) -> Option<NamedObjects> {
        self.manifest.lock().unwrap().state().0
    }
}

impl SendEnv for Engine {
    type Carried = u32;
    type Referred = Blobs;
    type Collector = Zeros;

    fn log(&self) -> &Numbered {
        &self.log
    }

    fn storage(&self) -> &dyn Storage {
        &self.faulty
    }

    fn segments(&self) -> Arc<SegmentMap<u32>> {
        Arc::new(SegmentMap::new(self.segments.lock().unwrap().segments().to_vec()))
    }

    fn collector(&self) -> Zeros {
        Zeros { each: self.blob_bytes.load(Ordering::Relaxed), records: Vec::new() }
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    fn fail(&self, cause: &Error) {
        self.failures.lock().unwrap().push(cause.to_string());
        self.log.fail(cause);
    }
}

impl NameEnv for Engine {
    type Content = Said;

    fn manifest(&self) -> MutexGuard<'_, Manifest<Said>> {
        self.manifest.lock().unwrap()
    }

    fn change(named: NamedObjects) -> Change {
        let NamedObjects { generation, first, cut } = named;
        Change::LogObjects { generation, first, cut }
    }

    fn remove(&self, names: Vec<String>, may_follow: bool) {
        self.removed.lock().unwrap().extend(names.into_iter().map(|name| (name, may_follow)));
    }
}

/// The blob segment that frames refer to.
pub(super) const BLOBS: SegmentNumber = SegmentNumber(9);

/// Collects as many zeros for each frame.
pub(super) struct Zeros {
    each: usize,
    records: Vec<u8>,
}

impl Collector for Zeros {
    fn collect(&mut self, _frame: &Frame<'_>) -> Result<()> {
        self.records.resize(self.records.len() + self.each, 0);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.records.len()
    }

    fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let (database, generation) = (DATABASE, GENERATION);
        let header = BlobSegmentHeader { database, number: BLOBS, origin: Origin::Written, generation };
        let piece = Piece { segment: PieceOf::Values(header), offset: 64, bytes: &self.records };
        Some(piece).filter(|piece| !piece.bytes.is_empty()).into_iter()
    }
}
