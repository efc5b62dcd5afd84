//! Regions of one capacity that take the memory of earlier ones.

use crate::recycled::RecycledMemory;
use crate::region::Region;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Gives out regions of one capacity and takes their memory back when they are dropped.
///
/// 1. A region from here is zeroed, as every region is.
/// 2. At most `recycled_max` of them are held, clean and dirty together; what comes back beyond
///    that is unmapped.
pub struct Pool {
    region_bytes: usize,
    recycled: Arc<RecycledMemory>,
}

impl Pool {
    /// A pool of regions of `region_bytes`, rounded up to a multiple of 8, that holds nothing yet.
    pub fn new(region_bytes: usize, recycled_max: usize) -> Self {
        Self { region_bytes, recycled: Arc::new(RecycledMemory::new(recycled_max)) }
    }

    /// A zeroed region: clean memory that was used before, or new memory. Never zeroes on the
    /// caller's time.
    ///
    /// # Errors
    /// As [`Region::anonymous`].
    pub fn region(&self) -> io::Result<Region> {
        let memory = match self.recycled.take() {
            Some(memory) => memory,
            None => Region::memory_of(self.region_bytes)?,
        };
        Ok(Region::over(memory, Some(Arc::clone(&self.recycled))))
    }

    /// Capacity of the regions given out.
    pub fn region_bytes(&self) -> usize {
        self.region_bytes
    }

    /// Zeroes what came back, so that the next regions find it clean. Costs a store to every byte
    /// that was in use.
    pub fn clean(&self) {
        self.recycled.clean();
    }

    /// Unmaps memory that came back, dirty first, until what is held has at most `bytes_max`.
    pub fn trim(&self, bytes_max: usize) {
        self.recycled.trim(bytes_max);
    }

    /// Bytes that are held for new regions.
    pub fn recycled_bytes(&self) -> usize {
        self.recycled.bytes()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("region_bytes", &self.region_bytes)
            .field("recycled_bytes", &self.recycled_bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
