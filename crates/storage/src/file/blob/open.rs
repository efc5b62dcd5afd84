//! A blob segment that is written to.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_format::blob::segment::{BLOB_HEADER_BYTES, BlobSegmentHeader};
use firn_format::blob::{Reference, SegmentNumber};
use firn_format::manifest::BlobSegmentMeta;

use super::builder::End;
use super::read::{Bytes, Wanted, read_record, read_value};
use crate::backend::{COMBINED_BYTES_MAX, PAGE_BYTES, RecycledFiles};
use crate::{Result, Storage, WriteFile};

/// The device is asked to begin writing once there are so many bytes that it was not asked for.
const WRITE_BACK_BYTES: u64 = 1 << 20;

// What is due by the byte is due by the page.
const _: () = assert!(WRITE_BACK_BYTES.is_multiple_of(PAGE_BYTES));

/// A blob segment that is written to, by many threads at once, each in its own places.
#[derive(Debug)]
pub struct OpenBlobs {
    name: String,
    number: SegmentNumber,
    file: Arc<dyn WriteFile>,
    /// Behind the last byte that was written.
    end: AtomicU64,
    /// Counts writes that have ended: what is not on the device is told by the difference to what
    /// was synced.
    written: AtomicU64,
    synced: AtomicU64,
    /// For what was written before it the device was asked to begin.
    hinted_bytes: AtomicU64,
}

impl OpenBlobs {
    /// A new segment in the file `name`, one of `recycled` if there is any, with its header;
    /// `bytes` are set aside for it where the backend can do that.
    ///
    /// The name survives power loss only after `Storage::sync_dir`. Until it is sealed a file that
    /// was a recycled file may hold records of the segment that it was, behind those of this one or
    /// instead of them. Each record names its segment.
    ///
    /// # Errors
    /// What creating and writing say.
    pub fn create(
        storage: &dyn Storage,
        recycled: &RecycledFiles,
        name: &str,
        header: &BlobSegmentHeader,
        bytes: u64,
    ) -> Result<Self> {
        let file = match recycled.give(storage, name)? {
            Some(file) => file,
            None => storage.create(name)?,
        };
        let begun = file.allocate(bytes).and_then(|()| file.write_at(0, &header.encode()));
        if let Err(error) = begun {
            // The first error is the one worth reporting.
            let _removed = storage.remove(name);
            return Err(error);
        }
        Ok(Self::of(name, header.number, file, BLOB_HEADER_BYTES as u64))
    }

    /// A segment that an earlier process wrote to, as that left it.
    ///
    /// # Errors
    /// What opening says.
    pub fn reopen(storage: &dyn Storage, name: &str, number: SegmentNumber) -> Result<Self> {
        let bytes = storage.open_read(name)?.len();
        Ok(Self::of(name, number, storage.open_write(name)?, bytes))
    }

    fn of(name: &str, number: SegmentNumber, file: Arc<dyn WriteFile>, bytes: u64) -> Self {
        Self {
            name: name.to_owned(),
            number,
            file,
            end: AtomicU64::new(bytes),
            // What is there may not be on the device.
            written: AtomicU64::new(1),
            synced: AtomicU64::new(0),
            hinted_bytes: AtomicU64::new(0),
        }
    }

    /// Behind the last byte that was written.
    pub fn bytes(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Its number.
    pub fn number(&self) -> SegmentNumber {
        self.number
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Writes `bytes` at `offset`, where no other thread writes.
    ///
    /// # Errors
    /// What writing says; any part may be written then.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_at(offset, bytes)?;
        self.end.fetch_max(offset + bytes.len() as u64, Ordering::AcqRel);
        self.written.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// As [`write_at`](Self::write_at), for records that others follow. Small ones are brought to
    /// the file together ([`WriteFile::write_combined`]); writers of longer ones do not wait for
    /// one another.
    ///
    /// # Errors
    /// What writing says; any part may be written then.
    pub fn write_combined(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.len() > COMBINED_BYTES_MAX {
            return self.write_at(offset, bytes);
        }
        self.file.write_combined(offset, bytes)?;
        self.end.fetch_max(offset + bytes.len() as u64, Ordering::AcqRel);
        self.written.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Brings records that wait for others to the file.
    ///
    /// # Errors
    /// What writing says; they wait on then.
    pub fn hand_over(&self) -> Result<()> {
        self.file.hand_over()
    }

    /// Makes all that was written survive power loss, if it does not yet; whether that took a sync.
    ///
    /// # Errors
    /// What syncing says; the file's content is unknown then.
    pub fn sync(&self) -> Result<bool> {
        let written = self.written.load(Ordering::Acquire);
        if self.synced.load(Ordering::Acquire) >= written {
            return Ok(false);
        }
        self.file.sync()?;
        self.synced.fetch_max(written, Ordering::AcqRel);
        Ok(true)
    }

    /// Whether so much was written since the device was asked to begin that it is worth another
    /// request.
    pub fn is_write_back_due(&self) -> bool {
        // Another thread may ask for more than was there a moment ago.
        self.bytes() >= self.hinted_bytes.load(Ordering::Relaxed) + WRITE_BACK_BYTES
    }

    /// Asks the device to begin writing the whole pages that have come since it was asked last, if
    /// those are many. That leaves less for the sync that seals the segment, which waits for what
    /// others are still writing there. Brings combined records to the file first. Blocks only where
    /// the device has more to do than it takes requests for.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin_write_back(&self) -> Result<()> {
        let from = self.hinted_bytes.load(Ordering::Relaxed);
        let end = self.bytes() & !(PAGE_BYTES - 1);
        // Of several that come at once one asks.
        let asks = end >= from + WRITE_BACK_BYTES
            && self.hinted_bytes.compare_exchange(from, end, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if asks { self.file.write_back(from, end - from) } else { Ok(()) }
    }

    /// Seals the segment, whose writers have all ended; blocks for a sync. What the manifest is to
    /// know of it.
    ///
    /// # Errors
    /// What writing and syncing say.
    pub fn seal(&self, end: &End) -> Result<BlobSegmentMeta> {
        let meta = end.write(&self.name, &*self.file)?;
        self.file.hand_over()?;
        self.synced.store(u64::MAX, Ordering::Release);
        Ok(meta)
    }

    /// Appends the wanted part of a value, which was written, to `out`. One read of the file for
    /// values up to a chunk.
    ///
    /// # Errors
    /// `Corrupt` with file and offset if another value, or none, lies there; what reading says.
    pub fn read(&self, wanted: &Wanted<'_>, out: &mut Vec<u8>) -> Result<()> {
        read_value(self, wanted.reference.offset, wanted, out)
    }

    /// Appends the record of the value that `reference` names, which was written for a key of
    /// `key_bytes`, to `out`, as it lies in the file.
    ///
    /// # Errors
    /// `Corrupt` with file and offset if another value, or none, lies there; what reading says.
    pub fn read_record(&self, reference: &Reference, key_bytes: usize, out: &mut Vec<u8>) -> Result<()> {
        read_record(self, reference, key_bytes, out)
    }
}

impl Bytes for OpenBlobs {
    fn name(&self) -> &str {
        &self.name
    }

    fn end(&self) -> u64 {
        self.bytes()
    }

    fn fetch(&self, offset: u64, bytes: usize) -> Result<Cow<'_, [u8]>> {
        let mut out = vec![0; bytes];
        self.file.read_at(offset, &mut out)?;
        Ok(Cow::Owned(out))
    }
}
