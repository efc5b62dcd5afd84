//! Compressing, with memory that is kept.

use std::fmt;

use super::{Compression, RATIO_MAX, failed};
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
                self.scratch.clear();
                self.scratch.reserve(zstd::zstd_safe::compress_bound(payload.len()));
                if self.zstd.is_none() {
                    self.zstd =
                        Some(zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(|error| failed(&error))?);
                }
                let Some(zstd) = &mut self.zstd else { return Ok(Shrunk::TooLittle) };
                zstd.compress_to_buffer(payload, &mut self.scratch).map_err(|error| failed(&error))?
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

    /// `payload` as `codec` has it, if that is shorter by an eighth. What Zstd shrinks more than a
    /// reader allows is followed by a skippable frame, which decoders pass by. For callers that
    /// cannot choose another codec any more.
    ///
    /// # Errors
    /// As [`compress`](Self::compress).
    pub fn compress_padded(&mut self, codec: Compression, payload: &[u8]) -> Result<Option<&[u8]>> {
        let is_too_short = match self.compress(codec, payload, 0)? {
            Shrunk::TooLittle => return Ok(None),
            Shrunk::TooMuch => true,
            Shrunk::To(_) => false,
        };
        match codec {
            Compression::Zstd if is_too_short => {
                let missing = payload.len().div_ceil(RATIO_MAX as usize).saturating_sub(self.scratch.len());
                let padding = missing.saturating_sub(SKIPPABLE_HEADER_BYTES);
                self.scratch.extend_from_slice(&ZSTD_SKIPPABLE_FRAME);
                self.scratch.extend_from_slice(&(padding as u32).to_le_bytes());
                self.scratch.resize(self.scratch.len() + padding, 0);
            }
            // It never shrinks so much.
            _ if is_too_short => return Ok(None),
            _ => {}
        }
        Ok(Some(&self.scratch))
    }
}

/// What a Zstd frame begins with that decoders pass by; how many bytes of it follow comes next, u32
/// LE.
const ZSTD_SKIPPABLE_FRAME: [u8; 4] = 0x184d_2a50_u32.to_le_bytes();
const SKIPPABLE_HEADER_BYTES: usize = 8;

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
