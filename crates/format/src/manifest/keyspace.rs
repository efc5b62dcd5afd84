//! Settings of a keyspace, as the manifest has them.
//!
//! ```text
//! count  number, of settings
//!        then for each: name text, value text
//! ```
//! In this release, in this order, those without a value left out: `compression`, `merge_operator`,
//! `compaction_filter`, `prefix_extractor`, `separate_bytes`. A reader refuses a setting it does
//! not know. Since: FormatVersion::V1.

use crate::bytes::{Reader, put_bytes};
use crate::error::{Error, Result};
use crate::varint;

/// Settings of a keyspace as text, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceText {
    /// Compression of its tables and blobs; without it as the database's settings say when they are
    /// written.
    pub compression: Option<String>,
    /// Name of its merge operator.
    pub merge_operator: Option<String>,
    /// Name of its compaction filter.
    pub compaction_filter: Option<String>,
    /// Name of its prefix extractor.
    pub prefix_extractor: Option<String>,
    /// Bytes from which on its values are separated, in decimal digits; without it as the
    /// database's settings say.
    pub separate_bytes: Option<String>,
}

impl KeyspaceText {
    fn settings(&self) -> [(&'static str, Option<&str>); 5] {
        [
            ("compression", self.compression.as_deref()),
            ("merge_operator", self.merge_operator.as_deref()),
            ("compaction_filter", self.compaction_filter.as_deref()),
            ("prefix_extractor", self.prefix_extractor.as_deref()),
            ("separate_bytes", self.separate_bytes.as_deref()),
        ]
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let settings = self.settings();
        let count = settings.iter().filter(|(_, value)| value.is_some()).count();
        varint::encode(count as u64, out);
        for (name, value) in settings {
            if let Some(value) = value {
                put_bytes(name.as_bytes(), out);
                put_bytes(value.as_bytes(), out);
            }
        }
    }

    pub(super) fn decode(fields: &mut Reader<'_>) -> Result<Self> {
        let mut found: [Option<String>; 5] = [const { None }; 5];
        let names = Self::default().settings().map(|(name, _)| name);
        let mut known = names.iter().zip(found.iter_mut());
        for _ in 0..fields.number()? {
            let offset = fields.offset();
            let name = fields.text()?;
            // Settings come in their order, each once: an iterator that only goes forward checks
            // both.
            let Some((_, place)) = known.find(|(known, _)| **known == name) else {
                let expected = "a setting of a keyspace that this release knows, in its order";
                return Err(Error::new(offset, expected, format!("{name:?} (written by a newer Firn?)")));
            };
            *place = Some(fields.text()?.to_owned());
        }
        let [compression, merge_operator, compaction_filter, prefix_extractor, separate_bytes] = found;
        Ok(Self { compression, merge_operator, compaction_filter, prefix_extractor, separate_bytes })
    }
}
