//! GCs done or answered wrongly.

use fastrand::Rng;
use firn_engine::conformance::semantics;
use firn_format::Position;
use firn_format::blob::{Ordinals, SegmentNumber};
use firn_format::manifest::BlobSegmentMeta;
use firn_jobs::{BlobGcResult, BlobGcSpec, CompactResult, Control, JobResult, JobSpec, Result, run};
use firn_storage::Storage;

/// One fault of a GC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoil {
    /// The output has a flipped bit, perhaps in the few bytes between two records, which are not
    /// read.
    Bit,
    /// The output lacks its last byte.
    Short,
    /// A dead value was taken for a live one, and a live value was left out.
    OtherDead,
    /// One more value was left out.
    MoreDead,
    /// One dead value was kept.
    LessDead,
    /// The output is another database's.
    Database,
    /// The output has another number.
    Number,
    /// Another attempt's file is named as the output.
    Name,
    /// One value more is told of than there is.
    Count,
    /// Another length of all values is told.
    ValueBytes,
    /// Another length of the file is told.
    Bytes,
    /// Another checksum is told.
    Checksum,
    /// Log records are said to lie elsewhere than they do.
    SealedAt,
    /// A relocation is said to lie elsewhere than it does.
    Relocation,
    /// A relocation is said to be of other values.
    RelocationFrom,
    /// Relocations are not told of.
    NoRelocations,
    /// Nothing is said to live.
    Nothing,
    /// It is the answer to a compaction.
    Kind,
}

impl Spoil {
    pub(super) const ALL: [Self; 18] = [
        Self::Bit,
        Self::Short,
        Self::OtherDead,
        Self::MoreDead,
        Self::LessDead,
        Self::Database,
        Self::Number,
        Self::Name,
        Self::Count,
        Self::ValueBytes,
        Self::Bytes,
        Self::Checksum,
        Self::SealedAt,
        Self::Relocation,
        Self::RelocationFrom,
        Self::NoRelocations,
        Self::Nothing,
        Self::Kind,
    ];

    /// Whether no database may ever believe it.
    pub(super) fn must_show(self) -> bool {
        self != Self::Bit
    }

    /// What comes of `spec` with this fault, and whether it has it: not every GC can.
    pub(super) fn answer(
        self,
        spec: &BlobGcSpec,
        storage: &dyn Storage,
        rng: &mut Rng,
    ) -> Result<(JobResult, bool)> {
        let misread = self.misread(spec, rng);
        let done = run(&JobSpec::from(misread.clone()), storage, &semantics(), &Control::new())?;
        let done = done.into_blob_gc()?;
        let is_harmed = self.harm(done.segment.as_ref(), storage, rng)?;
        let reported = self.misquote(spec, &done, rng);
        // Where nothing lives there is no file in which a wrong name could stand.
        let is_misread = misread != *spec && (spec.survivor_count() > 0 || done.segment.is_some());
        let is_wrong = is_harmed || is_misread || reported != JobResult::BlobGc(done);
        Ok((reported, is_wrong))
    }

    /// What the worker makes of the spec.
    fn misread(self, spec: &BlobGcSpec, rng: &mut Rng) -> BlobGcSpec {
        let mut spec = spec.clone();
        let index = rng.usize(..spec.victims.len());
        let victim = &mut spec.victims[index];
        let of = |ordinals: Ordinals, rng: &mut Rng| rng.choice(ordinals.iter().collect::<Vec<_>>());
        let (dead, living) = (of(victim.dead.clone(), rng), of(victim.survivors(), rng));
        match (self, dead, living) {
            (Self::OtherDead, Some(dead), Some(living)) => {
                remove(&mut victim.dead, dead);
                victim.dead.insert(living);
            }
            (Self::MoreDead, _, Some(living)) => _ = victim.dead.insert(living),
            (Self::LessDead, Some(dead), _) => remove(&mut victim.dead, dead),
            (Self::Database, ..) => spec.database ^= 1,
            (Self::Number, ..) => spec.number = SegmentNumber(spec.number.0 + 1),
            _ => {}
        }
        spec
    }

    /// What becomes of the output; whether something did.
    fn harm(self, segment: Option<&BlobSegmentMeta>, storage: &dyn Storage, rng: &mut Rng) -> Result<bool> {
        let Some(segment) = segment else { return Ok(false) };
        match self {
            Self::Bit => {
                let (file, offset) = (storage.open_write(&segment.file)?, rng.u64(..segment.bytes));
                let mut byte = [0];
                file.read_at(offset, &mut byte)?;
                file.write_at(offset, &[byte[0] ^ 1 << rng.u8(..8)])?;
            }
            Self::Short => storage.open_write(&segment.file)?.set_len(segment.bytes - 1)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What the worker says of what was `done`.
    fn misquote(self, spec: &BlobGcSpec, done: &BlobGcResult, rng: &mut Rng) -> JobResult {
        let mut reported = done.clone();
        let place = rng.choice(0..reported.relocations.len());
        let relocation = place.and_then(|place| reported.relocations.get_mut(place));
        match (self, reported.segment.as_mut(), relocation) {
            (Self::Name, Some(segment), _) => segment.file.clone_from(&spec.victims[0].segment.file),
            (Self::Count, Some(segment), _) => segment.ordinals += 1,
            (Self::ValueBytes, Some(segment), _) => segment.value_bytes = segment.value_bytes.wrapping_sub(1),
            (Self::Bytes, Some(segment), _) => segment.bytes -= 8,
            (Self::Checksum, Some(segment), _) => segment.checksum ^= 1 << rng.u8(..64),
            (Self::SealedAt, Some(segment), _) => segment.sealed_at = Position(segment.sealed_at.0 ^ 8),
            (Self::Relocation, _, Some((_, place))) => place.offset -= 8,
            (Self::RelocationFrom, _, Some((from, _))) => from.0 += 1,
            (Self::NoRelocations, ..) => reported.relocations.clear(),
            (Self::Nothing, ..) => reported = BlobGcResult::default(),
            (Self::Kind, ..) => return JobResult::Compact(CompactResult::default()),
            _ => {}
        }
        JobResult::BlobGc(reported)
    }
}

fn remove(from: &mut Ordinals, ordinal: u32) {
    let mut one = Ordinals::new();
    one.insert(ordinal);
    from.remove_all(&one);
}
