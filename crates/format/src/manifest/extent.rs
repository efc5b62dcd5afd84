//! Changes that name extents.

use super::change::address;
use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::hybrid::{Extent, LogKind};
use crate::varint;

impl Extent {
    /// The number that stands for this kind of change.
    pub(super) fn tag(&self) -> u8 {
        match self.log {
            LogKind::Hybrid => 108,
            LogKind::Cold => 109,
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        [self.from, self.to, self.generation].iter().for_each(|number| varint::encode(*number, out));
    }

    /// The extent of tag 108 or 109.
    pub(super) fn decode(tag: u8, fields: &mut Reader<'_>) -> Result<Self> {
        let log = if tag == 108 { LogKind::Hybrid } else { LogKind::Cold };
        let from = address(fields)?;
        let offset = fields.offset();
        let to = address(fields)?;
        if to <= from {
            return Err(Error::new(offset, format!("an address behind {from}"), format!("{to}")));
        }
        Ok(Self { log, from, to, generation: fields.number()? })
    }
}
