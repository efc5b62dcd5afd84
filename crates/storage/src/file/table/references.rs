//! Which separated values a table refers to.

use firn_format::table::ReferenceSet;

use super::parts::Parts;
use super::reader::TableReader;
use crate::{Error, Result};

impl TableReader {
    /// The values that its entries refer to. Reads a block of a byte or two for each value and
    /// decodes it; nothing where the table refers to none.
    ///
    /// # Errors
    /// `Corrupt` with file and offset, also if the table says that it refers to another number of
    /// values; what reading says.
    pub fn references(&self) -> Result<ReferenceSet> {
        let Some(summary) = self.properties().references else { return Ok(ReferenceSet::default()) };
        let parts = Parts::new(self.name(), &*self.file, self.bytes.as_deref(), None);
        let at = summary.block.offset;
        let payload = parts.payload(summary.block)?;
        let set = ReferenceSet::decode(&payload).map_err(|error| self.corrupt(at, &error))?;
        match set.len() == summary.count {
            true => Ok(set),
            false => {
                let message = format!("expected references to {} values, found {}", summary.count, set.len());
                Err(Error::corrupt(self.name(), at, message))
            }
        }
    }
}
