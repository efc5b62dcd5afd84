//! Separated values, as a compaction meets them.
//!
//! ```text
//!   reference ─► source: where values born there are ─► value ─► filter, merge operator
//!                                                         │ too small to lie there
//!                                                         └─► the tree
//!   put, too large for the tree ─► a record of the output ─► reference
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_format::blob::{Reference, ReferenceBytes, Relocation, SegmentNumber};
use firn_format::file_name;
use firn_format::key::{Entry, Kind};
use firn_format::manifest::BlobSegmentMeta;
use firn_storage::Storage;
use firn_storage::file::blob::{BlobSegment, Wanted};
use firn_storage::file::table::ReadMode;

use crate::error::{Error, ErrorKind, Result};
use crate::spec::{BlobPolicy, CompactSpec, ValueSource};
use crate::write_blobs::{BlobOrigin, BlobWriter};

/// Reads values for one compaction, and moves values into the tree or out of it as the policy says.
///
/// Dropped unfinished, or without [`keep`](Self::keep), it removes what it created.
#[derive(Debug)]
pub struct CompactBlobs<'s> {
    storage: &'s dyn Storage,
    policy: &'s BlobPolicy,
    /// By the segments that values were born in: opened when the first of their values is read.
    sources: BTreeMap<SegmentNumber, Source>,
    /// By their own numbers: several sources may be in one.
    segments: BTreeMap<SegmentNumber, Arc<BlobSegment>>,
    /// The reference that was followed last, and the value.
    followed: Vec<u8>,
    value: Vec<u8>,
    /// Bytes of values read since the last [`take_read_bytes`](Self::take_read_bytes).
    read_bytes: u64,
    output: Option<BlobWriter<&'s dyn Storage>>,
    /// What stands for the value that left the tree last.
    reference: ReferenceBytes,
}

#[derive(Debug)]
struct Source {
    segment: Arc<BlobSegment>,
    relocation: Option<Relocation>,
}

impl<'s> CompactBlobs<'s> {
    /// What `spec` says of values; `None` if it says nothing.
    ///
    /// # Errors
    /// `Invalid` for sources out of order, or a stem that no file can be called by.
    pub fn new(spec: &'s CompactSpec, storage: &'s dyn Storage) -> Result<Option<Self>> {
        let Some(policy) = &spec.values else { return Ok(None) };
        if !policy.sources.is_sorted_by(|a, b| a.born < b.born) {
            return Err(Error::new(ErrorKind::Invalid, "expected sources of values in rising order"));
        }
        let output = |number| {
            let origin = BlobOrigin { database: policy.database, keyspace: spec.keyspace };
            let name = file_name::collected_blobs(&spec.output_stem, 0);
            BlobWriter::new(storage, name, number, origin, policy.compression)
        };
        Ok(Some(Self {
            storage,
            policy,
            sources: BTreeMap::new(),
            segments: BTreeMap::new(),
            followed: Vec::new(),
            value: Vec::new(),
            read_bytes: 0,
            output: policy.output.map(output).transpose()?,
            reference: ReferenceBytes::default(),
        }))
    }

    /// Whether the reference of `entry`, a `PutReference`, is an obsolete one.
    ///
    /// # Errors
    /// `Invalid` if it is no reference.
    #[inline]
    pub fn is_obsolete(&self, entry: &Entry<'_>) -> Result<bool> {
        if self.policy.obsolete.is_empty() {
            return Ok(false);
        }
        let reference = decoded(entry)?;
        Ok(self.policy.obsolete.contains(reference.segment, reference.ordinal))
    }

    /// The value that `entry`, a `PutReference`, refers to. Blocks on the device.
    ///
    /// # Errors
    /// `Invalid` if there is no source of it; `Storage`: `Corrupt` if it is not what was written.
    pub fn follow(&mut self, entry: &Entry<'_>) -> Result<&[u8]> {
        // A filter may have asked for what is then brought into the tree.
        if self.followed != entry.value {
            self.followed.clear();
            self.value.clear();
            let reference = decoded(entry)?;
            self.read(&reference, entry.key.len())?;
            self.read_bytes += self.value.len() as u64;
            self.followed.extend_from_slice(entry.value);
        }
        Ok(&self.value)
    }

    /// Bytes of values that were read since the last call.
    pub(super) fn take_read_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.read_bytes)
    }

    /// `entry` with its value where the policy wants it; `None` if that is where it is. May write.
    ///
    /// # Errors
    /// As [`follow`](Self::follow); what writing says.
    pub fn moved<'e>(&'e mut self, entry: &Entry<'e>) -> Result<Option<Entry<'e>>> {
        match entry.kind {
            Kind::PutReference if decoded(entry)?.value_bytes < self.policy.separate_bytes => {
                let value = self.follow(entry)?;
                Ok(Some(Entry { kind: Kind::Put, value, ..*entry }))
            }
            Kind::Put if entry.value.len() >= self.policy.separate_bytes as usize => {
                let Some(output) = &mut self.output else { return Ok(None) };
                let Some(reference) = output.write(entry.key, entry.value)? else { return Ok(None) };
                self.reference = reference;
                Ok(Some(Entry { kind: Kind::PutReference, value: &self.reference, ..*entry }))
            }
            _ => Ok(None),
        }
    }

    /// Completes and syncs the output, if any value left the tree. Its name is durable after
    /// `Storage::sync_dir`.
    ///
    /// # Errors
    /// `Storage`.
    pub fn finish(&mut self) -> Result<Option<BlobSegmentMeta>> {
        self.output.as_mut().map_or(Ok(None), BlobWriter::finish)
    }

    /// The job is done: the output stays.
    pub fn keep(self) {
        self.output.into_iter().for_each(BlobWriter::keep);
    }

    fn read(&mut self, reference: &Reference, key_bytes: usize) -> Result<()> {
        let born = reference.segment;
        if !self.sources.contains_key(&born) {
            let source = self.open(born)?;
            self.sources.insert(born, source);
        }
        let Some(Source { segment, relocation }) = self.sources.get(&born) else { return Err(unknown(born)) };
        let wanted = Wanted { reference, key_bytes, range: 0..usize::MAX };
        match relocation {
            None => segment.read(&wanted, ReadMode::Blocking, &mut self.value)?,
            Some(relocation) => {
                let Some(now) = relocation.translate(reference.ordinal) else {
                    let message = format!("expected {reference}, which was taken for dead and collected");
                    return Err(firn_storage::Error::corrupt(segment.name(), 0, message).into());
                };
                segment.read_ordinal(now, &wanted, ReadMode::Blocking, &mut self.value)?
            }
        };
        Ok(())
    }

    fn open(&mut self, born: SegmentNumber) -> Result<Source> {
        let sources = &self.policy.sources;
        let found = sources.binary_search_by_key(&born, |source| source.born);
        let ValueSource { segment: meta, relocation, .. } =
            found.ok().and_then(|at| sources.get(at)).ok_or_else(|| unknown(born))?;
        let segment = match self.segments.get(&meta.number) {
            Some(segment) => Arc::clone(segment),
            None => Arc::new(BlobSegment::open(self.storage, meta, false)?),
        };
        self.segments.insert(meta.number, Arc::clone(&segment));
        let relocation = relocation.as_ref().map(|place| segment.relocation(place)).transpose()?;
        let leads_here =
            relocation.as_ref().map_or(meta.number == born, |relocation| relocation.victim == born);
        match leads_here {
            true => Ok(Source { segment, relocation }),
            false => Err(Error::new(
                ErrorKind::Invalid,
                format!("{}: expected the values of segment {born}, or a relocation of them", meta.file),
            )),
        }
    }
}

fn decoded(entry: &Entry<'_>) -> Result<Reference> {
    Reference::decode(entry.value)
        .map_err(|error| Error::new(ErrorKind::Invalid, format!("a record's reference is none: {error}")))
}

fn unknown(born: SegmentNumber) -> Error {
    Error::new(ErrorKind::Invalid, format!("expected where the values of segment {born} are, found nothing"))
}
