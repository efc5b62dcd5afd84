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
    /// What `payload` is to be stored as; `None`: as it is. It is, without a codec, and where that with `more_bytes` would be
    /// shorter by less than an eighth, or by more than [`RATIO_MAX`] times.
    ///
    /// # Errors
    /// Zstd cannot be set up or refuses the payload.
    pub fn compress(
        &mut self,
        codec: Compression,
        payload: &[u8],
        more_bytes: usize,
    ) -> Result<Option<&[u8]>> {
        let bytes = match codec {
            Compression::None => return Ok(None),
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
                let Some(zstd) = &mut self.zstd else { return Ok(None) };
                zstd.compress_to_buffer(payload, &mut self.scratch[..]).map_err(|error| failed(&error))?
            }
        };
        self.scratch.truncate(bytes);
        let raw = payload.len();
        let is_shorter = bytes + more_bytes <= raw - raw / 8;
        let is_in_proportion = raw as u64 <= (bytes as u64).saturating_mul(RATIO_MAX);
        Ok((is_shorter && is_in_proportion).then_some(&*self.scratch))
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").field("memory_bytes", &self.scratch.capacity()).finish_non_exhaustive()
    }
}
