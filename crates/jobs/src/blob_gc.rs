//! GCs: values that live are copied out of their segments, so that those can go.
//!
//! ```text
//!   victims, each with what is dead in it ─► live records, as they are ─► one segment
//!        │                                                                   ▲
//!        └─ relocations that lead there ─► the same, one GC longer ────┘ relocations in its footer
//! ```
//! A function of files that never change: the spec says which values live, and no index is asked.
//! Values keep the order of (victim, ordinal), so that following a relocation needs a count of
//! survivors only. Checksums are compared on the way and kept as they are.

mod relocations;

pub use relocations::{read_relocations, relocations};

use std::sync::Arc;

use firn_format::blob::segment::Origin;
use firn_format::blob::{BlobHead, BlobSegmentHeader, Ordinals, Relocation, SegmentNumber};
use firn_format::file_name::{self, FileName};
use firn_format::manifest::{BlobSegmentMeta, RelocationTarget};
use firn_storage::ErrorKind::Refused;
use firn_storage::backend::write_over;
use firn_storage::file::blob::{BlobBuilder, BlobSegment, RecordReader};
use firn_storage::{Storage, WriteFile};

use crate::control::{Control, Watch};
use crate::error::{Error, ErrorKind, Result};

/// Which blob segments to copy what lives out of, into one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobGcSpec {
    /// Identity of the database, for the output's header.
    pub database: u128,
    /// The output's number. No other segment may ever have it.
    pub number: SegmentNumber,
    /// Segments to collect, in rising order of their numbers; at least one.
    pub victims: Vec<Victim>,
    /// The output is called `<stem>-000000.blobs`, or `<stem>-<attempt>-000000.blobs`; see
    /// [`CompactSpec::output_stem`](crate::CompactSpec::output_stem).
    pub output_stem: String,
    /// A blob segment's file that nothing refers to. It gets the output's name and is written
    /// over, so that no blocks are allocated or freed. It stays as it is if the job ends before
    /// that. Where there is no such file, as when another attempt has it, one is created. Its name
    /// MUST never be that of a file which is still referred to.
    pub recycled: Option<String>,
}

/// A segment to collect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The segment and what it is believed to hold.
    pub segment: BlobSegmentMeta,
    /// How it came to be.
    pub origin: Origin,
    /// Its ordinals that nothing refers to.
    pub dead: Ordinals,
    /// Relocations that lead to it, in rising order of the segments whose values it has.
    pub relocations: Vec<(SegmentNumber, RelocationTarget)>,
}

/// What came of a GC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobGcResult {
    /// The output, durable with its name; `None` if nothing lived.
    pub segment: Option<BlobSegmentMeta>,
    /// Relocations in its footer, in rising order of the segments that values were born in. They
    /// lead from victims that were written to, and from segments whose relocations led to victims.
    /// Where nothing survived there is none.
    pub relocations: Vec<(SegmentNumber, RelocationTarget)>,
}

impl BlobGcSpec {
    /// Bytes of all input files.
    pub fn input_bytes(&self) -> u64 {
        self.victims.iter().map(|victim| victim.segment.bytes).sum()
    }

    /// How many values live.
    pub fn survivor_count(&self) -> u64 {
        self.victims.iter().map(Victim::survivor_count).sum()
    }
}

impl Victim {
    /// How many of its values live.
    pub fn survivor_count(&self) -> u64 {
        u64::from(self.segment.ordinals).saturating_sub(self.dead.len())
    }

    /// Its ordinals that live.
    pub fn survivors(&self) -> Ordinals {
        let mut survivors = Ordinals::first(self.segment.ordinals);
        survivors.remove_all(&self.dead);
        survivors
    }
}

/// [`run`](crate::run()) for GCs.
///
/// # Errors
/// `Invalid` for an impossible spec, `Cancelled`, `Storage`: `Corrupt` among them if a victim does
/// not hold what it should. The output is removed then, as far as that is possible.
pub(crate) fn run_blob_gc(
    spec: &BlobGcSpec,
    storage: &dyn Storage,
    control: &Control,
) -> Result<BlobGcResult> {
    check_spec(spec)?;
    let relocations = relocations(spec, storage)?;
    if spec.survivor_count() == 0 {
        return Ok(BlobGcResult::default());
    }
    // An attempt that is cancelled before it begins leaves the recycled file to the next attempt.
    control.check()?;
    let name = file_name::collected_blobs(&spec.output_stem, 0);
    let reused =
        spec.recycled.as_ref().map(|recycled| write_over(storage, recycled, &name)).transpose()?.flatten();
    let file = reused.map_or_else(|| storage.create(&name), Ok)?;
    let done = write(spec, storage, control, &relocations, (&name, file));
    if done.is_err() {
        // The error is worth more than a file that stays.
        let _ = storage.remove(&name);
    }
    done
}

fn check_spec(spec: &BlobGcSpec) -> Result<()> {
    let invalid = |what: &str| Err(Error::new(ErrorKind::Invalid, what.to_owned()));
    if spec.victims.is_empty() {
        return invalid("expected a GC of at least one segment");
    }
    if !spec.victims.is_sorted_by(|a, b| a.segment.number < b.segment.number) {
        return invalid("expected victims in rising order of their numbers");
    }
    if spec.victims.iter().any(|victim| victim.dead.last() >= Some(victim.segment.ordinals)) {
        return invalid("expected dead values that the victim has");
    }
    if spec.victims.iter().any(|victim| !victim.relocations.is_sorted_by(|a, b| a.0 < b.0)) {
        return invalid("expected relocations in rising order");
    }
    if !file_name::is_valid(&format!("{}-000000.blobs", spec.output_stem)) {
        return invalid("expected a stem that files can be called by");
    }
    if !spec.recycled.as_ref().is_none_or(|recycled| is_recycled(spec, recycled)) {
        return invalid("expected the file of a blob segment that is no victim as the recycled file");
    }
    Ok(())
}

fn is_recycled(spec: &BlobGcSpec, name: &str) -> bool {
    let is_values =
        matches!(file_name::parse(name), Some(FileName::BlobSegment(_) | FileName::CollectedBlobs { .. }));
    is_values && spec.victims.iter().all(|victim| victim.segment.file != *name)
}

fn write(
    spec: &BlobGcSpec,
    storage: &dyn Storage,
    control: &Control,
    relocations: &Relocations,
    (name, file): (&str, Arc<dyn WriteFile>),
) -> Result<BlobGcResult> {
    let mut builder = BlobBuilder::new(name, file, &header_of(spec));
    let mut watch = Watch::new(control);
    for (victim, leading) in spec.victims.iter().zip(&relocations.leading) {
        let segment = open(storage, victim)?;
        let mut reader = RecordReader::new(&segment);
        for ordinal in victim.survivors().iter() {
            let (mut is_begun, mut stopped) = (false, None);
            let read = reader.read(
                ordinal,
                |record| check_name(&segment, ordinal, &record.head, leading),
                |head, bytes| {
                    if !std::mem::replace(&mut is_begun, true) {
                        builder.begin(head.value_bytes)?;
                    }
                    builder.put(bytes)?;
                    // A long value comes in many pieces.
                    stopped = watch.pass(bytes.len() as u64).err();
                    match stopped {
                        None => Ok(()),
                        Some(_) => Err(firn_storage::Error::new(Refused, segment.name(), "it is not wanted")),
                    }
                },
            );
            match stopped {
                Some(error) => return Err(error),
                None => read?,
            }
        }
    }
    let (meta, places) = builder.finish(&relocations.made)?;
    storage.sync_dir()?;
    let victims = relocations.made.iter().map(|relocation| relocation.victim);
    let sealed_at = spec.victims.iter().map(|victim| victim.segment.sealed_at).max().unwrap_or_default();
    let segment = Some(BlobSegmentMeta { sealed_at, ..meta });
    Ok(BlobGcResult { segment, relocations: victims.zip(places).collect() })
}

/// What the output begins with.
pub(crate) fn header_of(spec: &BlobGcSpec) -> BlobSegmentHeader {
    let (database, number) = (spec.database, spec.number);
    BlobSegmentHeader { database, number, origin: Origin::Collected, generation: 0 }
}

/// Relocations of a GC.
#[derive(Clone, Debug, Default)]
pub struct Relocations {
    /// For each victim the relocations that lead to it.
    pub leading: Vec<Vec<Relocation>>,
    /// For each victim from its ordinals to the output's; `None` where nothing survives.
    pub own: Vec<Option<Relocation>>,
    /// Relocations that the output is to have, in rising order of the segments that they lead from.
    pub made: Vec<Relocation>,
}

/// Opens a victim; it is what the spec says.
pub(crate) fn open(storage: &dyn Storage, victim: &Victim) -> Result<BlobSegment> {
    let segment = BlobSegment::open(storage, &victim.segment, false)?;
    match segment.header().origin == victim.origin {
        true => Ok(segment),
        false => Err(Error::new(
            ErrorKind::Invalid,
            format!("{}: expected a segment that was {:?}", segment.name(), victim.origin),
        )),
    }
}

/// Whether the record found as `ordinal` of `segment` is born there, or a relocation of `leading`
/// leads to it.
pub(crate) fn check_name(
    segment: &BlobSegment,
    ordinal: u32,
    head: &BlobHead,
    leading: &[Relocation],
) -> firn_storage::Result<()> {
    let is_native = (head.segment, head.ordinal) == (segment.number(), ordinal);
    let is_led = || {
        let relocation = leading.iter().find(|relocation| relocation.victim == head.segment);
        relocation.and_then(|relocation| relocation.translate(head.ordinal)) == Some(ordinal)
    };
    if is_native || is_led() {
        return Ok(());
    }
    let offset = segment.ordinals().offset(ordinal).unwrap_or_default();
    let message = format!(
        "expected the value of ordinal {ordinal}, found value {} of segment {}, which is elsewhere",
        head.ordinal, head.segment
    );
    Err(firn_storage::Error::corrupt(segment.name(), offset, message))
}
