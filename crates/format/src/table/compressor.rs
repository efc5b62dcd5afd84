//! Compressing, with memory that is kept.

use std::fmt;

use super::block::{Compression, RATIO_MAX, failed};
use crate::error::Result;

/// Zstd's level: the fastest.
const ZSTD_LEVEL: i32 = 1;

/// Compresses one payload after the other; keeps the codecs' memory.
#[derive(Default)]
pub struct Compressor {
    scratch: Vec<u8>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Compressor {
    /// `payload` as `codec` has it, which has `more_bytes` beside it where it is stored.
    ///
    /// # Errors
    /// Zstd cannot be set up or refuses the payload.
    pub fn compress(&mut self, codec: Compression, payload: &[u8], more_bytes: usize) -> Result<Shrunk<'_>> {
        let bytes = match codec {
            Compression::None => return Ok(Shrunk::TooLittle),
            Compression::Lz4 => {
                self.scratch.resize(lz4_flex::block::get_maximum_output_size(payload.len()), 0);
                lz4_flex::block::compress_into(payload, &mut self.scratch).map_err(|error| failed(&error))?
            }
            Compression::Zstd => {
                self.scratch.resize(zstd::zstd_safe::compress_bound(payload.len()), 0);
                if self.zstd.is_none() {
                    self.zstd =
                        Some(zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(|error| failed(&error))?);
                }
                let Some(zstd) = &mut self.zstd else { return Ok(Shrunk::TooLittle) };
                zstd.compress_to_buffer(payload, &mut self.scratch[..]).map_err(|error| failed(&error))?
            }
        };
        self.scratch.truncate(bytes);
        let (stored, raw) = (bytes + more_bytes, payload.len());
        Ok(match () {
            () if raw as u64 > (stored as u64).saturating_mul(RATIO_MAX) => Shrunk::TooMuch,
            () if stored > raw - raw / 8 => Shrunk::TooLittle,
            () => Shrunk::To(&self.scratch),
        })
    }
}

/// What compressing came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shrunk<'a> {
    /// These bytes.
    To(&'a [u8]),
    /// By less than an eighth: stored as it is.
    TooLittle,
    /// By more than [`RATIO_MAX`]: a reader would have to trust a length, and is given it as it is.
    TooMuch,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").field("memory_bytes", &self.scratch.capacity()).finish_non_exhaustive()
    }
}
