//! Blob segments on a backend.
//!
//! ```text
//!   written to   OpenBlobs ── put: one write for a batch's values ──► file ── read: one read of the file
//!                    │ seal: ordinal table, footer, sync
//!                    ▼
//!   sealed       BlobSegment ── by place or by ordinal ──► where it lies, or one read
//!                    ▲
//!                    └── RecordReader: records as they are
//!                    ▼
//!   collected    BlobBuilder ── records as they are, relocations ──► file
//! ```
//! The bytes are [`firn_format::blob`]'s business. A value's checksums are compared each time it
//! is read. Nothing else tells a value from what a wrong reference, or a device, may lead to.

mod read;
mod open;
mod unsealed;
mod opening;
mod sealed;
mod records;
mod builder;

#[cfg(test)]
mod tests;

pub use builder::{BlobBuilder, End};
pub use open::OpenBlobs;
pub use read::Wanted;
pub use records::RecordReader;
pub use sealed::BlobSegment;
pub use unsealed::UnsealedBlobs;

/// Bytes that do not decode, `offset` being where in the file the error's offsets count from.
fn corrupt(name: &str, offset: u64, error: &firn_format::Error) -> crate::Error {
    let corrupt = crate::Error::corrupt(name, offset + error.offset as u64, error.to_string());
    match error.is_newer {
        true => crate::Error { kind: crate::ErrorKind::Invalid, ..corrupt },
        false => corrupt,
    }
}
