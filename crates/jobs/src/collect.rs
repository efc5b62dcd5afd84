//! Collections: values that live are copied out of their segments, so that those can go.
//!
//! ```text
//!   victims, each with what is dead in it ─► live records, as they are ─► one segment
//!        │                                                                   ▲
//!        └─ redirects that lead there ─► the same, one collection longer ────┘ redirects in its footer
//! ```
//! A function of files that never change: the spec says which values live, and no index is asked.
//! Values keep the order of (victim, ordinal), so that following a redirect needs a count of
//! survivors only. Checksums are compared on the way and kept as they are.

mod redirects;

pub use redirects::{read_redirects, redirects};

use std::sync::Arc;

use firn_format::file_name::{self, FileName};
use firn_format::manifest::{RedirectPlace, ValueSegmentMeta};
use firn_format::value::segment::Origin;
use firn_format::value::{Ordinals, Redirect, SegmentNumber, ValueHead, ValueSegmentHeader};
use firn_storage::ErrorKind::Refused;
use firn_storage::file::value::{RecordReader, ValueBuilder, ValueSegment};
use firn_storage::place::write_over;
use firn_storage::{Storage, WriteFile};

use crate::control::{Control, Watch};
use crate::error::{Error, ErrorKind, Result};

/// Which value segments to copy what lives out of, into one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectSpec {
    /// Identity of the database, for the output's header.
    pub database: u128,
    /// The output's number. No other segment may ever have it.
    pub number: SegmentNumber,
    /// Segments to collect, in rising order of their numbers; at least one.
    pub victims: Vec<Victim>,
    /// The output is called `<stem>-000000.values`, or `<stem>-<attempt>-000000.values`; see
    /// [`CompactSpec::output_stem`](crate::CompactSpec::output_stem).
    pub output_stem: String,
    /// A value segment's file that nothing refers to. It gets the output's name and is written
    /// over, so that no blocks are allocated or freed. It stays as it is if the job ends before
    /// that. Where there is no such file, as when another attempt has it, one is created. Its name
    /// MUST never be that of a file which is still referred to.
    pub recycled: Option<String>,
}

/// A segment to collect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The segment and what it is believed to hold.
    pub segment: ValueSegmentMeta,
    /// How it came to be.
    pub origin: Origin,
    /// Its ordinals that nothing refers to.
    pub dead: Ordinals,
    /// Redirects that lead to it, in rising order of the segments whose values it has.
    pub redirects: Vec<(SegmentNumber, RedirectPlace)>,
}

/// What came of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectResult {
    /// The output, durable with its name; `None` if nothing lived.
    pub segment: Option<ValueSegmentMeta>,
    /// Redirects in its footer, in rising order of the segments that values were born in. They lead
    /// from victims that were written to, and from segments whose redirects led to victims. Where
    /// nothing survived there is none.
    pub redirects: Vec<(SegmentNumber, RedirectPlace)>,
}

impl CollectSpec {
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

/// [`run`](crate::run()) for collections.
///
/// # Errors
/// `Invalid` for an impossible spec, `Cancelled`, `Storage`: `Corrupt` among them if a victim does
/// not hold what it should. The output is removed then, as far as that is possible.
pub(crate) fn run_collect(
    spec: &CollectSpec,
    storage: &dyn Storage,
    control: &Control,
) -> Result<CollectResult> {
    check_spec(spec)?;
    let redirects = redirects(spec, storage)?;
    if spec.survivor_count() == 0 {
        return Ok(CollectResult::default());
    }
    // An attempt that is cancelled before it begins leaves the recycled file to the next attempt.
    control.check()?;
    let name = file_name::collected_values(&spec.output_stem, 0);
    let reused =
        spec.recycled.as_ref().map(|recycled| write_over(storage, recycled, &name)).transpose()?.flatten();
    let file = reused.map_or_else(|| storage.create(&name), Ok)?;
    let done = write(spec, storage, control, &redirects, (&name, file));
    if done.is_err() {
        // The error is worth more than a file that stays.
        let _ = storage.remove(&name);
    }
    done
}

fn check_spec(spec: &CollectSpec) -> Result<()> {
    let invalid = |what: &str| Err(Error::new(ErrorKind::Invalid, what.to_owned()));
    if spec.victims.is_empty() {
        return invalid("expected a collection of at least one segment");
    }
    if !spec.victims.is_sorted_by(|a, b| a.segment.number < b.segment.number) {
        return invalid("expected victims in rising order of their numbers");
    }
    if spec.victims.iter().any(|victim| victim.dead.last() >= Some(victim.segment.ordinals)) {
        return invalid("expected dead values that the victim has");
    }
    if spec.victims.iter().any(|victim| !victim.redirects.is_sorted_by(|a, b| a.0 < b.0)) {
        return invalid("expected redirects in rising order");
    }
    if !file_name::is_valid(&format!("{}-000000.values", spec.output_stem)) {
        return invalid("expected a stem that files can be called by");
    }
    if !spec.recycled.as_ref().is_none_or(|recycled| is_recycled(spec, recycled)) {
        return invalid("expected the file of a value segment that is no victim as the recycled file");
    }
    Ok(())
}

fn is_recycled(spec: &CollectSpec, name: &str) -> bool {
    let is_values =
        matches!(file_name::parse(name), Some(FileName::ValueSegment(_) | FileName::CollectedValues { .. }));
    is_values && spec.victims.iter().all(|victim| victim.segment.file != *name)
}

fn write(
    spec: &CollectSpec,
    storage: &dyn Storage,
    control: &Control,
    redirects: &Redirects,
    (name, file): (&str, Arc<dyn WriteFile>),
) -> Result<CollectResult> {
    let mut builder = ValueBuilder::new(name, file, &header_of(spec));
    let mut watch = Watch::new(control);
    for (victim, leading) in spec.victims.iter().zip(&redirects.leading) {
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
    let (meta, places) = builder.finish(&redirects.made)?;
    storage.sync_dir()?;
    let victims = redirects.made.iter().map(|redirect| redirect.victim);
    let sealed_at = spec.victims.iter().map(|victim| victim.segment.sealed_at).max().unwrap_or_default();
    let segment = Some(ValueSegmentMeta { sealed_at, ..meta });
    Ok(CollectResult { segment, redirects: victims.zip(places).collect() })
}

/// What the output begins with.
pub(crate) fn header_of(spec: &CollectSpec) -> ValueSegmentHeader {
    let (database, number) = (spec.database, spec.number);
    ValueSegmentHeader { database, number, origin: Origin::Collected, generation: 0 }
}

/// Redirects of a collection.
#[derive(Clone, Debug, Default)]
pub struct Redirects {
    /// For each victim the redirects that lead to it.
    pub leading: Vec<Vec<Redirect>>,
    /// For each victim from its ordinals to the output's; `None` where nothing survives.
    pub own: Vec<Option<Redirect>>,
    /// Redirects that the output is to have, in rising order of the segments that they lead from.
    pub made: Vec<Redirect>,
}

/// Opens a victim; it is what the spec says.
pub(crate) fn open(storage: &dyn Storage, victim: &Victim) -> Result<ValueSegment> {
    let segment = ValueSegment::open(storage, &victim.segment, false)?;
    match segment.header().origin == victim.origin {
        true => Ok(segment),
        false => Err(Error::new(
            ErrorKind::Invalid,
            format!("{}: expected a segment that was {:?}", segment.name(), victim.origin),
        )),
    }
}

/// Whether the record found as `ordinal` of `segment` is born there, or a redirect of `leading`
/// leads to it.
pub(crate) fn check_name(
    segment: &ValueSegment,
    ordinal: u32,
    head: &ValueHead,
    leading: &[Redirect],
) -> firn_storage::Result<()> {
    let is_native = (head.segment, head.ordinal) == (segment.number(), ordinal);
    let is_led = || {
        let redirect = leading.iter().find(|redirect| redirect.victim == head.segment);
        redirect.and_then(|redirect| redirect.translate(head.ordinal)) == Some(ordinal)
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
