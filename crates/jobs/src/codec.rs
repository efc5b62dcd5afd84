//! Specs and results as bytes.
//!
//! ```text
//! offset size  field     meaning
//!      0    8  magic     "FIRNJOB1" (a spec) or "FIRNRES1" (a result)
//!      8    4  version   u32 LE: 1, of a spec and of a result
//!     12    1  kind      0 = compaction, 1 = GC
//!     13    n  fields    in the order of the struct; numbers are varints, texts and keys have their length before
//!                        them, lists their count, an optional thing a byte 0 or 1
//!   13+n    8  checksum  xxh3-64 LE over everything before
//! ```
//! For spec and result alike: what decodes encodes to the same bytes. Since: FormatVersion::V1.

use firn_format::blob::segment::Origin;
use firn_format::blob::{Ordinals, SegmentNumber};
use firn_format::bytes::{Reader, put_bytes};
use firn_format::checksum::xxh3;
use firn_format::compression::Compression;
use firn_format::manifest::{BlobSegmentMeta, RelocationTarget, TableMeta};
use firn_format::table::ReferenceSet;
use firn_format::{Error, Result, Sequence, varint};

use crate::blob_gc::{BlobGcResult, BlobGcSpec, Victim};
use crate::conservation::{Sums, Tally};
use crate::spec::{
    BlobPolicy, CompactResult, CompactSpec, JobInput, JobResult, JobSpec, KeyRange, OutputForm, Rules,
    ValueSource,
};

const SPEC_MAGIC: [u8; 8] = *b"FIRNJOB1";
const RESULT_MAGIC: [u8; 8] = *b"FIRNRES1";

/// Of results.
const RESULT_VERSION: u32 = 1;

const COMPACT: u8 = 0;
const COLLECT: u8 = 1;

impl JobSpec {
    /// The spec's bytes. Equal specs have equal bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = begin(SPEC_MAGIC, Self::VERSION);
        match self {
            Self::Compact(spec) => {
                out.push(COMPACT);
                put_compact(spec, &mut out);
            }
            Self::BlobGc(spec) => {
                out.push(COLLECT);
                put_collect(spec, &mut out);
            }
        }
        end(out)
    }

    /// The spec whose bytes are exactly `bytes`.
    ///
    /// # Errors
    /// They are no spec's.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut input = body(bytes, SPEC_MAGIC, Self::VERSION, ("this worker", "the database"))?;
        let spec = match take_kind(&mut input)? {
            COMPACT => Self::Compact(take_compact(&mut input)?),
            _ => Self::BlobGc(take_collect(&mut input)?),
        };
        finish(&input)?;
        Ok(spec)
    }
}

impl JobResult {
    /// The result's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = begin(RESULT_MAGIC, RESULT_VERSION);
        match self {
            Self::Compact(result) => {
                out.push(COMPACT);
                put_list(&result.tables, &mut out, |table, out| table.encode(out));
                put_segment(result.values.as_ref(), &mut out);
                put_sums(&result.sums, &mut out);
            }
            Self::BlobGc(result) => {
                out.push(COLLECT);
                put_segment(result.segment.as_ref(), &mut out);
                put_places(&result.relocations, &mut out);
            }
        }
        end(out)
    }

    /// The result whose bytes are exactly `bytes`.
    ///
    /// # Errors
    /// They are no result's.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut input = body(bytes, RESULT_MAGIC, RESULT_VERSION, ("this database", "the worker"))?;
        let result = match take_kind(&mut input)? {
            COMPACT => {
                let tables = take_list(&mut input, |input| TableMeta::decode(input))?;
                let values = take_segment(&mut input)?;
                Self::Compact(CompactResult { tables, values, sums: take_sums(&mut input)? })
            }
            _ => {
                let segment = take_segment(&mut input)?;
                Self::BlobGc(BlobGcResult { segment, relocations: take_places(&mut input)? })
            }
        };
        finish(&input)?;
        Ok(result)
    }
}

fn take_kind(input: &mut Reader<'_>) -> Result<u8> {
    let at = input.offset();
    match input.u8()? {
        kind @ (COMPACT | COLLECT) => Ok(kind),
        other => Err(Error::newer(at, "kind 0 or 1 of a job", format!("{other}"))),
    }
}

fn put_compact(spec: &CompactSpec, out: &mut Vec<u8>) {
    varint::encode(u64::from(spec.keyspace), out);
    put_list(&spec.inputs, out, |input, out| {
        input.table.encode(out);
        varint::encode(u64::from(input.level), out);
        varint::encode(input.run, out);
    });
    put_range(&spec.range, out);
    put_rules(&spec.rules, out);
    put_form(&spec.output, out);
    out.push(u8::from(spec.values.is_some()));
    spec.values.iter().for_each(|values| put_policy(values, out));
    put_bytes(spec.output_stem.as_bytes(), out);
}

fn take_compact(input: &mut Reader<'_>) -> Result<CompactSpec> {
    Ok(CompactSpec {
        keyspace: input.number32()?,
        inputs: take_list(input, |input| {
            let (table, level) = (TableMeta::decode(input)?, input.number32()?);
            Ok(JobInput { table, level, run: input.number()? })
        })?,
        range: take_range(input)?,
        rules: take_rules(input)?,
        output: take_form(input)?,
        values: if take_flag(input)? { Some(take_policy(input)?) } else { None },
        output_stem: input.text()?.to_owned(),
    })
}

fn put_policy(policy: &BlobPolicy, out: &mut Vec<u8>) {
    varint::encode(u64::from(policy.separate_bytes), out);
    put_list(&policy.sources, out, |source, out| {
        varint::encode(source.born.0.into(), out);
        source.segment.encode(out);
        out.push(u8::from(source.relocation.is_some()));
        source.relocation.iter().for_each(|place| place.encode(out));
    });
    policy.obsolete.encode(out);
    out.push(u8::from(policy.output.is_some()));
    policy.output.iter().for_each(|number| varint::encode(number.0.into(), out));
    out.push(policy.compression as u8);
    out.extend_from_slice(&policy.database.to_le_bytes());
}

fn take_policy(input: &mut Reader<'_>) -> Result<BlobPolicy> {
    Ok(BlobPolicy {
        separate_bytes: input.number32()?,
        sources: take_list(input, |input| {
            let (born, segment) = (SegmentNumber(input.number32()?), BlobSegmentMeta::decode(input)?);
            let relocation = if take_flag(input)? { Some(RelocationTarget::decode(input)?) } else { None };
            Ok(ValueSource { born, segment, relocation })
        })?,
        obsolete: ReferenceSet::take_from(input)?,
        output: if take_flag(input)? { Some(SegmentNumber(input.number32()?)) } else { None },
        compression: take_compression(input)?,
        database: input.u128()?,
    })
}

fn put_collect(spec: &BlobGcSpec, out: &mut Vec<u8>) {
    out.extend_from_slice(&spec.database.to_le_bytes());
    varint::encode(spec.number.0.into(), out);
    put_list(&spec.victims, out, |victim, out| {
        victim.segment.encode(out);
        out.push(victim.origin as u8);
        victim.dead.encode(out);
        put_places(&victim.relocations, out);
    });
    put_bytes(spec.output_stem.as_bytes(), out);
    put_option(spec.recycled.as_deref(), out);
}

fn take_collect(input: &mut Reader<'_>) -> Result<BlobGcSpec> {
    Ok(BlobGcSpec {
        database: input.u128()?,
        number: SegmentNumber(input.number32()?),
        victims: take_list(input, |input| {
            let segment = BlobSegmentMeta::decode(input)?;
            let origin = match take_flag(input)? {
                false => Origin::Written,
                true => Origin::Collected,
            };
            let dead = Ordinals::decode(input)?;
            Ok(Victim { segment, origin, dead, relocations: take_places(input)? })
        })?,
        output_stem: input.text()?.to_owned(),
        recycled: take_option(input)?,
    })
}

fn put_segment(segment: Option<&BlobSegmentMeta>, out: &mut Vec<u8>) {
    out.push(u8::from(segment.is_some()));
    segment.iter().for_each(|segment| segment.encode(out));
}

fn take_segment(input: &mut Reader<'_>) -> Result<Option<BlobSegmentMeta>> {
    match take_flag(input)? {
        true => BlobSegmentMeta::decode(input).map(Some),
        false => Ok(None),
    }
}

fn put_places(places: &[(SegmentNumber, RelocationTarget)], out: &mut Vec<u8>) {
    let put = |(from, place): &(SegmentNumber, RelocationTarget), out: &mut Vec<u8>| {
        varint::encode(from.0.into(), out);
        place.encode(out);
    };
    put_list(places, out, put);
}

fn take_places(input: &mut Reader<'_>) -> Result<Vec<(SegmentNumber, RelocationTarget)>> {
    take_list(input, |input| Ok((SegmentNumber(input.number32()?), RelocationTarget::decode(input)?)))
}

fn put_sums(sums: &Sums, out: &mut Vec<u8>) {
    for (_, tally) in sums.classes() {
        varint::encode(tally.count, out);
        varint::encode(tally.bytes, out);
        out.extend_from_slice(&tally.hash.to_le_bytes());
    }
    out.extend_from_slice(&sums.range_tombstones_hash.to_le_bytes());
}

fn take_sums(input: &mut Reader<'_>) -> Result<Sums> {
    let mut classes = [Tally::default(); 10];
    for tally in &mut classes {
        *tally = Tally { count: input.number()?, bytes: input.number()?, hash: input.u128()? };
    }
    Ok(Sums::from_classes(classes, input.u128()?))
}

fn put_rules(rules: &Rules, out: &mut Vec<u8>) {
    put_list(&rules.snapshots, out, |snapshot, out| varint::encode(snapshot.0, out));
    varint::encode(rules.tick_ms, out);
    put_list(&rules.older_overlap, out, put_range);
    put_option(rules.merge_operator.as_deref(), out);
    put_option(rules.compaction_filter.as_deref(), out);
}

fn take_rules(input: &mut Reader<'_>) -> Result<Rules> {
    Ok(Rules {
        snapshots: take_list(input, |input| Ok(Sequence(input.number()?)))?,
        tick_ms: input.number()?,
        older_overlap: take_list(input, take_range)?,
        merge_operator: take_option(input)?,
        compaction_filter: take_option(input)?,
    })
}

fn take_compression(input: &mut Reader<'_>) -> Result<Compression> {
    let (at, number) = (input.offset(), input.u8()?);
    Compression::from_u8(number).ok_or_else(|| Error::new(at, "compression 0, 1 or 2", format!("{number}")))
}

fn put_form(form: &OutputForm, out: &mut Vec<u8>) {
    varint::encode(u64::from(form.block_bytes), out);
    out.push(form.compression as u8);
    varint::encode(u64::from(form.filter_bits_per_key), out);
    put_option(form.prefix_extractor.as_deref(), out);
    varint::encode(form.table_bytes_target, out);
    put_list(&form.splits, out, |split, out| put_bytes(split, out));
}

fn take_form(input: &mut Reader<'_>) -> Result<OutputForm> {
    let block_bytes = input.number32()?;
    Ok(OutputForm {
        block_bytes,
        compression: take_compression(input)?,
        filter_bits_per_key: input.number32()?,
        prefix_extractor: take_option(input)?,
        table_bytes_target: input.number()?,
        splits: take_list(input, |input| Ok(input.bytes()?.to_vec()))?,
    })
}

fn put_range(range: &KeyRange, out: &mut Vec<u8>) {
    put_bytes(&range.start, out);
    out.push(u8::from(range.end.is_some()));
    if let Some(end) = &range.end {
        put_bytes(end, out);
    }
}

fn take_range(input: &mut Reader<'_>) -> Result<KeyRange> {
    let start = input.bytes()?.to_vec();
    let end = if take_flag(input)? { Some(input.bytes()?.to_vec()) } else { None };
    Ok(KeyRange { start, end })
}

fn put_option(text: Option<&str>, out: &mut Vec<u8>) {
    out.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put_bytes(text.as_bytes(), out);
    }
}

fn take_option(input: &mut Reader<'_>) -> Result<Option<String>> {
    match take_flag(input)? {
        true => Ok(Some(input.text()?.to_owned())),
        false => Ok(None),
    }
}

fn take_flag(input: &mut Reader<'_>) -> Result<bool> {
    let at = input.offset();
    match input.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Error::new(at, "0 or 1", format!("{other}"))),
    }
}

fn put_list<T>(list: &[T], out: &mut Vec<u8>, put: impl Fn(&T, &mut Vec<u8>)) {
    varint::encode(list.len() as u64, out);
    list.iter().for_each(|item| put(item, out));
}

/// Grows as items are found, so that a false count allocates nothing.
fn take_list<'b, T>(
    input: &mut Reader<'b>,
    mut take: impl FnMut(&mut Reader<'b>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = input.number()?;
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(take(input)?);
    }
    Ok(list)
}

fn begin(magic: [u8; 8], version: u32) -> Vec<u8> {
    let mut out = magic.to_vec();
    out.extend_from_slice(&version.to_le_bytes());
    out
}

fn end(mut out: Vec<u8>) -> Vec<u8> {
    let checksum = xxh3(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// The fields between head and checksum. The version has to be `expected`; where it is not, the
/// error asks to upgrade `reader` or `writer`.
fn body<'b>(
    bytes: &'b [u8],
    magic: [u8; 8],
    expected: u32,
    (reader, writer): (&str, &str),
) -> Result<Reader<'b>> {
    let Some((body, checksum)) = bytes.split_last_chunk::<8>() else {
        return Err(Error::new(0, "at least 20 bytes", format!("{}", bytes.len())));
    };
    let mut input = Reader::new(body, 0);
    let found = input.take(8)?;
    if found != magic {
        return Err(Error::new(
            0,
            format!("\"{}\"", magic.escape_ascii()),
            format!("\"{}\"", found.escape_ascii()),
        ));
    }
    let version = input.u32()?;
    let wanted = || format!("version {expected} of a job");
    if version > expected {
        let found = format!("version {version} (written by a newer Firn: upgrade {reader})");
        return Err(Error::newer(8, wanted(), found));
    }
    // What is older could not be answered so that it would be read.
    if version < expected {
        let found = format!("version {version} (written by an older Firn: upgrade {writer})");
        return Err(Error::new(8, wanted(), found));
    }
    let (found, expected) = (xxh3(body), u64::from_le_bytes(*checksum));
    if found != expected {
        return Err(Error::new(body.len(), format!("checksum {found:#018x}"), format!("{expected:#018x}")));
    }
    Ok(input)
}

fn finish(input: &Reader<'_>) -> Result<()> {
    match input.is_empty() {
        true => Ok(()),
        false => Err(Error::new(input.offset(), "the checksum", "more fields")),
    }
}
