//! From a reference to the value.

use std::ops::Range;

use firn_engine::{Error, Location, Result};
use firn_format::blob::Reference;
use firn_format::file_name;
use firn_storage::file::blob::Wanted;
use firn_storage::file::table::ReadMode;

use super::{BlobMap, BlobStore, Home};
use crate::error::from_storage;

impl BlobStore {
    /// Appends the part `range` of the value that `reference`, the value of a record whose key has
    /// `key_bytes`, names to `out`. `false` if that would wait for the device and `mode` forbids
    /// it.
    ///
    /// `map` is that of the version in which the record was found.
    ///
    /// # Errors
    /// `Corrupt` with file and offset if the value is not what was written, or is nowhere; what
    /// reading says.
    pub(crate) fn read(
        &self,
        map: &BlobMap,
        (reference, key_bytes): (&[u8], usize),
        range: Range<usize>,
        mode: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let reference = &decoded(reference)?;
        let wanted = Wanted { reference, key_bytes, range };
        match map.known(reference.segment) {
            // What was written just now is in memory.
            Some(Home::Open(active)) => active.open.read(&wanted, out).map(|()| true).map_err(from_storage),
            Some(Home::Unsealed(unsealed)) => {
                unsealed.read(&wanted, out).map(|()| true).map_err(from_storage)
            }
            Some(Home::Sealed(sealed)) => sealed.segment.read(&wanted, mode, out).map_err(from_storage),
            Some(Home::Moved(relocation, sealed)) => match relocation.translate(reference.ordinal) {
                Some(ordinal) => {
                    sealed.segment.read_ordinal(ordinal, &wanted, mode, out).map_err(from_storage)
                }
                None => Err(nowhere(reference, "it was taken for dead when its segment was collected")),
            },
            None => match map.begun_since(reference.segment) {
                Some(active) => active.open.read(&wanted, out).map(|()| true).map_err(from_storage),
                None => Err(nowhere(reference, "there is no such segment")),
            },
        }
    }

    /// Has the device fetch the value that `reference` names, if it may have to be waited for.
    /// Waits only where requests have a limit, and for the reference of a value that was moved.
    /// Where `mode` is not to wait only the processor is asked.
    ///
    /// # Errors
    /// `Corrupt` if the reference is none. Of a value that is nowhere the read tells.
    pub(crate) fn ask(
        &self,
        map: &BlobMap,
        (reference, key_bytes): (&[u8], usize),
        mode: ReadMode,
    ) -> Result<()> {
        let reference = decoded(reference)?;
        match map.known(reference.segment) {
            Some(Home::Sealed(sealed)) => {
                sealed.segment.ask(reference.ordinal, &reference, key_bytes, mode);
            }
            Some(Home::Moved(relocation, sealed)) => {
                if let Some(ordinal) = relocation.translate(reference.ordinal) {
                    sealed.segment.ask(ordinal, &reference, key_bytes, mode);
                }
            }
            // What was written just now is in memory.
            Some(Home::Open(_) | Home::Unsealed(_)) | None => {}
        }
        Ok(())
    }
}

fn decoded(reference: &[u8]) -> Result<Reference> {
    Reference::decode(reference).map_err(|error| Error::bug(format!("a record's reference is none: {error}")))
}

fn nowhere(reference: &Reference, why: &str) -> Error {
    let location =
        Location { file: file_name::blob_segment(reference.segment), offset: Some(reference.offset) };
    Error::corrupt(location, format!("expected {reference}, but {why}"))
}
