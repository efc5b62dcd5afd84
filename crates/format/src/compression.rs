//! Codecs: how a payload is made shorter, and had again.
//!
//! A reader never allocates more than [`RATIO_MAX`] times what it was given.

mod compressor;

use std::cell::RefCell;
use std::{fmt, io};

pub use compressor::{Compressor, Shrunk};

use crate::error::{Error, Result};

/// Most bytes of payload for one stored byte.
pub const RATIO_MAX: u64 = 1024;

/// How blocks and values are compressed. Numbers are frozen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Compression {
    /// Not at all.
    #[default]
    None = 0,
    /// LZ4 block format.
    Lz4 = 1,
    /// Zstd, level 1.
    Zstd = 2,
}

impl Compression {
    /// Inverse of `as u8`.
    pub fn from_u8(number: u8) -> Option<Self> {
        Some(match number {
            0 => Compression::None,
            1 => Compression::Lz4,
            2 => Compression::Zstd,
            _ => return None,
        })
    }
}

/// Decompresses `stored` to exactly `raw_bytes` bytes in `out` (cleared first).
///
/// # Errors
/// The codec's own, or another length.
pub fn decompress(codec: Compression, stored: &[u8], raw_bytes: usize, out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    let bytes = match codec {
        Compression::None => {
            out.extend_from_slice(stored);
            stored.len()
        }
        Compression::Lz4 => {
            out.resize(raw_bytes, 0);
            lz4_flex::block::decompress_into(stored, out).map_err(|error| failed(&error))?
        }
        Compression::Zstd => {
            out.reserve_exact(raw_bytes);
            zstd_decompress(stored, out).map_err(|error| failed(&error))?
        }
    };
    if bytes != raw_bytes || out.len() != raw_bytes {
        return Err(Error::new(0, format!("a payload of {raw_bytes} bytes"), format!("{bytes} bytes")));
    }
    Ok(())
}

/// `stored` into the capacity of `out`, with memory of Zstd that the thread keeps: setting it up
/// anew costs more than decompressing a small block. A thread that ends, and has given it back,
/// sets it up anew.
fn zstd_decompress(stored: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
    thread_local! {
        /// About 100 KB, of threads that have decompressed anything; freed with the thread.
        static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    }
    let kept = ZSTD.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        let zstd = match &mut *kept {
            Some(zstd) => zstd,
            None => kept.insert(zstd::bulk::Decompressor::new()?),
        };
        zstd.decompress_to_buffer(stored, out)
    });
    match kept {
        Ok(bytes) => bytes,
        Err(_ending) => zstd::bulk::Decompressor::new()?.decompress_to_buffer(stored, out),
    }
}

fn failed(error: &dyn fmt::Display) -> Error {
    Error::new(0, "a block the codec takes", error.to_string())
}
