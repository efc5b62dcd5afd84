//! A sealed blob segment that is being opened.

use std::borrow::Cow;
use std::sync::Arc;

use firn_format::blob::segment::{
    BLOB_FOOTER_BYTES, BLOB_HEADER_BYTES, BlobFooter, BlobSegmentHeader, OrdinalTable,
};
use firn_format::manifest::BlobSegmentMeta;

use super::corrupt;
use super::sealed::BlobSegment;
use crate::file::in_turn::Opening;
use crate::file::tail::{self, Tail};
use crate::{Error, FileBytes, ReadFile, Result, Storage};

/// See the module. Header, footer and ordinal table are read, and of a mapped file asked for.
pub(super) struct Begun<'a> {
    meta: &'a BlobSegmentMeta,
    file: Arc<dyn ReadFile>,
    bytes: Option<FileBytes>,
    /// Of a file that is not mapped, once it is read.
    tail: Option<Tail>,
}

impl<'a> Begun<'a> {
    /// Opens the file and asks for its beginning and its end.
    pub(super) fn begin(storage: &dyn Storage, meta: &'a BlobSegmentMeta, map: bool) -> Result<Self> {
        let file = storage.open_read_known(&meta.file, meta.bytes)?;
        let bytes = if map { file.bytes()? } else { None };
        match &bytes {
            Some(bytes) => {
                bytes.will_need_unless_there(0..BLOB_HEADER_BYTES);
                bytes.will_need_unless_there(tail::start_of(meta.bytes) as usize..bytes.len());
            }
            None => {
                if !Tail::is_all_of(meta.bytes) {
                    file.will_need(0, BLOB_HEADER_BYTES as u64);
                }
                Tail::ask(&*file);
            }
        }
        Ok(Self { meta, file, bytes, tail: None })
    }

    /// The footer's bytes and what they say. Waits for the end of the file.
    fn footer(&mut self) -> Result<([u8; BLOB_FOOTER_BYTES], BlobFooter)> {
        let len = self.meta.bytes;
        let Some(footer_at) = len.checked_sub((BLOB_FOOTER_BYTES + BLOB_HEADER_BYTES) as u64) else {
            return Err(self.wrong(0, "a blob segment".to_owned(), format!("{len} bytes")));
        };
        let footer_at = footer_at + BLOB_HEADER_BYTES as u64;
        if self.bytes.is_none() && self.tail.is_none() {
            self.tail = Some(Tail::read(&*self.file)?);
        }
        let mut foot = [0; BLOB_FOOTER_BYTES];
        foot.copy_from_slice(&self.fetch(footer_at, BLOB_FOOTER_BYTES)?);
        let footer =
            BlobFooter::decode(&foot, len).map_err(|error| corrupt(&self.meta.file, footer_at, &error))?;
        Ok((foot, footer))
    }

    fn fetch(&self, offset: u64, bytes: usize) -> Result<Cow<'_, [u8]>> {
        if let Some(found) = self.tail.as_ref().and_then(|tail| tail.get(offset, bytes)) {
            return Ok(Cow::Borrowed(found));
        }
        let mut out = vec![0; bytes];
        self.file.read_at(offset, &mut out)?;
        Ok(Cow::Owned(out))
    }

    fn wrong(&self, offset: u64, expected: String, found: String) -> Error {
        Error::corrupt(&self.meta.file, offset, format!("expected {expected}, found {found}"))
    }
}

impl Opening for Begun<'_> {
    type Open = BlobSegment;

    fn ask_rest(&mut self) -> Result<()> {
        let first = self.footer()?.1.records_end;
        match (&self.bytes, &self.tail) {
            (Some(bytes), _) => {
                let end = tail::start_of(self.meta.bytes);
                bytes.will_need_unless_there(first.min(end) as usize..end as usize);
            }
            (None, Some(tail)) => tail.ask_back_to(&*self.file, first),
            (None, None) => {}
        }
        Ok(())
    }

    fn finish(mut self) -> Result<BlobSegment> {
        let (foot, footer) = self.footer()?;
        let head = self.fetch(0, BLOB_HEADER_BYTES)?;
        let (meta, name) = (self.meta, &self.meta.file);
        let header = BlobSegmentHeader::decode(&head).map_err(|error| corrupt(name, 0, &error))?;
        let found = (header.number, footer.number, footer.ordinals, footer.value_bytes, checksum_of(&foot));
        let expected = (meta.number, meta.number, meta.ordinals, meta.value_bytes, meta.checksum);
        if found != expected {
            let footer_at = meta.bytes - BLOB_FOOTER_BYTES as u64;
            return Err(self.wrong(footer_at, format!("the segment {expected:?}"), format!("{found:?}")));
        }
        if let Some(tail) = &mut self.tail {
            tail.reach(&*self.file, footer.records_end)?;
        }
        let table = self.fetch(footer.records_end, footer.table_bytes() as usize)?;
        OrdinalTable::check(&table, &footer).map_err(|error| corrupt(name, footer.records_end, &error))?;
        let table = match &self.bytes {
            Some(bytes) => {
                bytes.expect_random();
                Vec::new()
            }
            None => table.into_owned(),
        };
        Ok(BlobSegment::of(name, self.file, self.bytes, (header, footer), table))
    }
}

/// The checksum that a footer ends with.
fn checksum_of(footer: &[u8]) -> u64 {
    footer.last_chunk().map_or(0, |checksum| u64::from_le_bytes(*checksum))
}
