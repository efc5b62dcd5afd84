//! Writing a blob segment front to back: what GCs make, and the end of a segment that was
//! written to.

use std::sync::Arc;

use firn_format::Position;
use firn_format::blob::segment::{BLOB_OFFSET_END, BlobFooter, BlobSegmentHeader, encode_ordinal_table};
use firn_format::blob::{Relocation, SegmentNumber};
use firn_format::checksum::xxh3;
use firn_format::manifest::{BlobSegmentMeta, RelocationTarget};

use crate::backend::PAGE_BYTES;
use crate::{Error, ErrorKind, Result, WriteFile};

/// Bytes are written once there are this many, in whole pages.
const WRITE_BYTES: usize = 256 << 10;
/// The device is asked to begin writing every so many bytes.
const WRITE_BACK_BYTES: u64 = 2 << 20;

/// Writes one blob segment to a new file, in large pieces.
///
/// After an error the file is unfinished: the caller removes it.
#[derive(Debug)]
pub struct BlobBuilder {
    name: String,
    number: SegmentNumber,
    file: Arc<dyn WriteFile>,
    out: Vec<u8>,
    written_bytes: u64,
    hinted_bytes: u64,
    offsets: Vec<u64>,
    value_bytes: u64,
}

impl BlobBuilder {
    /// A builder of the segment that `header` describes in the new empty `file`, which is called
    /// `name`.
    pub fn new(name: &str, file: Arc<dyn WriteFile>, header: &BlobSegmentHeader) -> Self {
        let mut out = Vec::with_capacity(WRITE_BYTES + WRITE_BYTES / 4);
        out.extend_from_slice(&header.encode());
        Self {
            name: name.to_owned(),
            number: header.number,
            file,
            out,
            written_bytes: 0,
            hinted_bytes: 0,
            offsets: Vec::new(),
            value_bytes: 0,
        }
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.written_bytes + self.out.len() as u64
    }

    /// How many values so far: the next one's ordinal.
    pub fn len(&self) -> u32 {
        self.offsets.len() as u32
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Begins the record of a value of `value_bytes`; its bytes follow by [`put`](Self::put). May
    /// write to the file.
    ///
    /// # Errors
    /// `Invalid` if there is no place for it; what writing says.
    pub fn begin(&mut self, value_bytes: u32) -> Result<()> {
        self.out.resize(self.out.len().next_multiple_of(8), 0);
        let offset = self.bytes();
        if offset >= BLOB_OFFSET_END || self.offsets.len() >= u32::MAX as usize - 1 {
            return Err(Error::new(
                ErrorKind::Invalid,
                self.name.clone(),
                "a blob segment cannot be so long",
            ));
        }
        self.offsets.push(offset);
        self.value_bytes += u64::from(value_bytes);
        Ok(())
    }

    /// Adds bytes of the record begun last, as they are. May write to the file.
    ///
    /// # Errors
    /// What writing says.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.extend_from_slice(bytes);
        if self.out.len() < WRITE_BYTES {
            return Ok(());
        }
        self.write(self.out.len() % PAGE_BYTES as usize)?;
        if self.written_bytes - self.hinted_bytes >= WRITE_BACK_BYTES {
            self.file.write_back(self.hinted_bytes, self.written_bytes - self.hinted_bytes)?;
            self.hinted_bytes = self.written_bytes;
        }
        Ok(())
    }

    /// Completes and syncs the file, with `relocations` that lead to it; blocks for that. What the
    /// manifest is to know of it, and where the relocations are, in their order. The name is
    /// durable after `Storage::sync_dir`.
    ///
    /// # Errors
    /// What writing and syncing say.
    pub fn finish(mut self, relocations: &[Relocation]) -> Result<(BlobSegmentMeta, Vec<RelocationTarget>)> {
        self.out.resize(self.out.len().next_multiple_of(8), 0);
        let end = End {
            number: self.number,
            offsets: std::mem::take(&mut self.offsets).into_iter().map(Some).collect(),
            records_end: self.bytes(),
            value_bytes: self.value_bytes,
        };
        let (ending, footer, places) = end.encode(relocations);
        self.out.extend_from_slice(&ending);
        let bytes = self.bytes();
        self.write(0)?;
        self.file.sync()?;
        Ok((meta(self.name, &footer, bytes, &ending), places))
    }

    /// Writes what there is but for the last `rest` bytes.
    fn write(&mut self, rest: usize) -> Result<()> {
        let bytes = self.out.len() - rest;
        self.file.write_at(self.written_bytes, self.out.get(..bytes).unwrap_or_default())?;
        self.written_bytes += bytes as u64;
        self.out.drain(..bytes);
        Ok(())
    }
}

/// What ends a segment: everything behind its records.
#[derive(Debug)]
pub struct End {
    /// The segment's number.
    pub number: SegmentNumber,
    /// Where the record of each ordinal lies; `None` = there is none.
    pub offsets: Vec<Option<u64>>,
    /// Where the records end; a multiple of 8.
    pub records_end: u64,
    /// Lengths of all values together.
    pub value_bytes: u64,
}

impl End {
    fn encode(&self, relocations: &[Relocation]) -> (Vec<u8>, BlobFooter, Vec<RelocationTarget>) {
        let mut out = Vec::new();
        encode_ordinal_table(self.offsets.iter().copied(), &mut out);
        let (table_checksum, table_bytes) = (xxh3(&out), out.len() as u64);
        let mut places = Vec::with_capacity(relocations.len());
        for relocation in relocations {
            let offset = self.records_end + out.len() as u64;
            relocation.encode(&mut out);
            let bytes = self.records_end + out.len() as u64 - offset;
            places.push(RelocationTarget { holder: self.number, offset, bytes });
        }
        let footer = BlobFooter {
            number: self.number,
            ordinals: self.offsets.len() as u32,
            relocations: relocations.len() as u32,
            records_end: self.records_end,
            table_checksum,
            relocation_bytes: out.len() as u64 - table_bytes,
            value_bytes: self.value_bytes,
        };
        footer.encode(&mut out);
        (out, footer, places)
    }

    /// Seals the segment in the file `name`: writes its end, cuts what lies behind, and syncs;
    /// blocks for that. What the manifest is to know of it.
    ///
    /// # Errors
    /// What writing and syncing say.
    pub fn write(&self, name: &str, file: &dyn WriteFile) -> Result<BlobSegmentMeta> {
        let (ending, footer, _) = self.encode(&[]);
        let bytes = self.records_end + ending.len() as u64;
        file.write_at(self.records_end, &ending)?;
        file.set_len(bytes)?;
        file.sync()?;
        Ok(meta(name.to_owned(), &footer, bytes, &ending))
    }
}

fn meta(file: String, footer: &BlobFooter, bytes: u64, ending: &[u8]) -> BlobSegmentMeta {
    BlobSegmentMeta {
        number: footer.number,
        file,
        bytes,
        ordinals: footer.ordinals,
        value_bytes: footer.value_bytes,
        checksum: ending.last_chunk().map_or(0, |checksum| u64::from_le_bytes(*checksum)),
        sealed_at: Position::default(),
    }
}
