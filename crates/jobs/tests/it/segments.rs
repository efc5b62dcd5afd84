//! Random blob segments on a backend, as a manifest would know them, beside a model that knows
//! every value.
//!
//! The tests of `cli` include this file: it knows nothing of the tests around it.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use firn_engine::Semantics;
use firn_format::Position;
use firn_format::blob::record::padding;
use firn_format::blob::segment::Origin;
use firn_format::blob::{
    BlobRecord, BlobSegmentHeader, Ordinals, Reference, Relocation, SegmentNumber, Stored,
};
use firn_format::compression::{Compression, Compressor};
use firn_format::manifest::{BlobSegmentMeta, RelocationTarget};
use firn_jobs::{BlobGcResult, BlobGcSpec, Control, JobSpec, Victim, run, verify, verify_files};
use firn_storage::Storage;
use firn_storage::backend::Memory;
use firn_storage::file::blob::{BlobBuilder, BlobSegment, Wanted};
use firn_storage::file::table::ReadMode;

pub(crate) const DATABASE: u128 = 77;

/// A value by the name that it was born with.
type Name = (SegmentNumber, u32);

struct Known {
    key: Vec<u8>,
    value: Vec<u8>,
    reference: Reference,
}

/// A backend with blob segments.
pub(crate) struct Values {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) segments: BTreeMap<SegmentNumber, (BlobSegmentMeta, Origin, Ordinals)>,
    relocations: BTreeMap<SegmentNumber, RelocationTarget>,
    /// What lives.
    live: BTreeMap<Name, Known>,
    /// Files of victims.
    recycled: Vec<String>,
    next: u32,
    compressor: Compressor,
    /// Values written so far, by how they are stored: as they are, by LZ4, by Zstd.
    pub(crate) stored: [u64; 3],
}

impl Values {
    pub(crate) fn new(seed: u64) -> (Self, Rng) {
        (Self::on(Arc::new(Memory::new()), 1), Rng::with_seed(seed))
    }

    /// None yet; numbers begin behind `next`.
    pub(crate) fn on(storage: Arc<dyn Storage>, next: u64) -> Self {
        let (segments, relocations, live, recycled, compressor, stored) = Default::default();
        Self { storage, segments, relocations, live, recycled, next: next as u32, compressor, stored }
    }

    fn number(&mut self) -> SegmentNumber {
        self.next += 1;
        SegmentNumber(self.next)
    }

    /// A segment with some values, as writers make it.
    pub(crate) fn write(&mut self, random: &mut Rng) {
        let number = self.number();
        let header = BlobSegmentHeader { database: DATABASE, number, origin: Origin::Written, generation: 3 };
        let name = firn_format::file_name::blob_segment(number);
        let mut builder = BlobBuilder::new(&name, self.storage.create(&name).unwrap(), &header);
        for ordinal in 0..random.u32(1..=60) {
            let (key, value) = (key(random), value(random));
            let codec = [Compression::None, Compression::Lz4, Compression::Zstd][random.usize(0..3)];
            let stored = Stored::new(&value, codec, &mut self.compressor).unwrap();
            let mut record = Vec::new();
            let checksum = stored.encode_head((number, ordinal), (1, &key), &mut record);
            self.stored[BlobRecord::decode(&record).unwrap().head.codec as usize] += 1;
            record.extend_from_slice(stored.bytes());
            record.extend_from_slice(padding(record.len()));
            builder.begin(stored.value_bytes()).unwrap();
            let (offset, value_bytes) = (builder.bytes(), stored.value_bytes());
            builder.put(&record).unwrap();
            let reference = Reference { segment: number, ordinal, offset, value_bytes, checksum };
            self.live.insert((number, ordinal), Known { key, value, reference });
        }
        let (meta, _) = builder.finish(&[]).unwrap();
        let meta = BlobSegmentMeta { sealed_at: Position(u64::from(number.0) * 8), ..meta };
        self.segments.insert(number, (meta, Origin::Written, Ordinals::new()));
    }

    fn relocation(&self, from: SegmentNumber) -> Option<Relocation> {
        let place = self.relocations.get(&from)?;
        Some(self.open(place.holder).relocation(place).unwrap())
    }

    fn open(&self, number: SegmentNumber) -> BlobSegment {
        self.open_meta(&self.segments[&number].0)
    }

    pub(crate) fn open_meta(&self, meta: &BlobSegmentMeta) -> BlobSegment {
        BlobSegment::open(&*self.storage, meta, true).unwrap()
    }

    /// Nothing refers any more to about one value in `share`.
    pub(crate) fn die(&mut self, random: &mut Rng, share: u64) {
        let dying: Vec<Name> = self.live.keys().copied().filter(|_| random.u64(0..share) == 0).collect();
        for (segment, ordinal) in dying {
            self.live.remove(&(segment, ordinal));
            let (holder, ordinal) = match self.relocation(segment) {
                Some(relocation) => (relocation.segment, relocation.translate(ordinal).unwrap()),
                None => (segment, ordinal),
            };
            assert!(self.segments.get_mut(&holder).unwrap().2.insert(ordinal));
        }
    }

    /// A GC of about half of the segments.
    pub(crate) fn spec(&mut self, random: &mut Rng, stem: &str) -> BlobGcSpec {
        let mut chosen: Vec<SegmentNumber> =
            self.segments.keys().copied().filter(|_| random.bool()).collect();
        if chosen.is_empty() {
            chosen.extend(self.segments.keys().next());
        }
        let victims = chosen.into_iter().map(|number| {
            let (segment, origin, dead) = self.segments[&number].clone();
            let relocations = self.relocations.iter().filter(|(_, place)| place.holder == number);
            Victim {
                segment,
                origin,
                dead,
                relocations: relocations.map(|(from, place)| (*from, *place)).collect(),
            }
        });
        let victims = victims.collect();
        let number = self.number();
        // Some are gone: no job relies on a recycled file.
        let recycled = if random.u32(0..3) == 0 { None } else { self.recycled.pop() };
        BlobGcSpec { database: DATABASE, number, victims, output_stem: stem.into(), recycled }
    }

    pub(crate) fn collect(&self, spec: &BlobGcSpec) -> BlobGcResult {
        let spec = JobSpec::from(spec.clone());
        let result = run(&spec, &*self.storage, &Semantics::new(), &Control::new()).unwrap();
        verify(&spec, &result).unwrap();
        verify_files(&*self.storage, &spec, &result).unwrap();
        result.into_blob_gc().unwrap()
    }

    pub(crate) fn commit(&mut self, spec: &BlobGcSpec, result: BlobGcResult) {
        for victim in &spec.victims {
            self.segments.remove(&victim.segment.number);
            self.recycled.push(victim.segment.file.clone());
            victim.relocations.iter().for_each(|(from, _)| {
                self.relocations.remove(from);
            });
        }
        self.relocations.extend(result.relocations);
        if let Some(segment) = result.segment {
            self.segments.insert(segment.number, (segment, Origin::Collected, Ordinals::new()));
        }
    }

    /// Every value that lives is found by its reference.
    pub(crate) fn compare(&self, what: &str) {
        for ((segment, ordinal), known) in &self.live {
            let wanted =
                Wanted { reference: &known.reference, key_bytes: known.key.len(), range: 0..usize::MAX };
            let mut out = Vec::new();
            match self.relocation(*segment) {
                Some(relocation) => {
                    let now = relocation.translate(*ordinal).unwrap();
                    self.open(relocation.segment)
                        .read_ordinal(now, &wanted, ReadMode::Blocking, &mut out)
                        .unwrap()
                }
                None => self.open(*segment).read(&wanted, ReadMode::Blocking, &mut out).unwrap(),
            };
            assert!(out == known.value, "{what}: value {ordinal} of {segment}");
        }
    }

    /// Makes room for others.
    pub(crate) fn remove_all(self) {
        self.segments.values().for_each(|(meta, ..)| self.storage.remove(&meta.file).unwrap());
        self.recycled.iter().for_each(|recycled| drop(self.storage.remove(recycled)));
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let file = self.storage.open_read(name).unwrap();
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes).unwrap();
        bytes
    }

    pub(crate) fn names(&self, stem: &str) -> Vec<String> {
        let names = self.storage.list().unwrap().into_iter().map(|(name, _)| name);
        names.filter(|name| name.starts_with(stem)).collect()
    }
}

/// Some are too long for a short head.
fn key(random: &mut Rng) -> Vec<u8> {
    let bytes = if random.u32(0..20) == 0 { random.usize(0..600) } else { random.usize(1..4) };
    (0..bytes).map(|_| b"abc"[random.usize(0..3)]).collect()
}

/// Some have several chunks; some shrink, some do not, some do in parts.
fn value(random: &mut Rng) -> Vec<u8> {
    let bytes = if random.u32(0..40) == 0 { random.usize(0..3 << 20) } else { random.usize(0..3000) };
    let byte = random.u8(..);
    let mut value: Vec<u8> = (0..bytes).map(|at| byte.wrapping_mul(at as u8)).collect();
    if random.bool() {
        let noise = random.usize(0..=bytes);
        random.fill(&mut value[noise..]);
    }
    value
}
