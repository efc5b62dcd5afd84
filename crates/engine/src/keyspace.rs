//! Named key ranges that share one log and one order of writes.

use std::fmt;

use firn_format::manifest::KeyspaceText;

use crate::{Error, Result};

/// Number of a keyspace inside one database; never reused after a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyspaceId(pub u32);

/// The keyspace every database has from birth, named `default`.
pub const KEYSPACE_DEFAULT: KeyspaceId = KeyspaceId(0);

impl fmt::Display for KeyspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keyspace {}", self.0)
    }
}

/// How table blocks, and separated values, are compressed; what that shrinks by less than an
/// eighth is stored as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// As they are; such tables and values on a local disk are read through a mapping.
    #[default]
    None,
    /// LZ4 block format: about 0.8 of the size at several GB/s.
    Lz4,
    /// Zstandard level 1: about 0.55 of the size at hundreds of MB/s.
    Zstd,
}

impl Compression {
    /// The word used in settings files.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    /// Inverse of [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        [Compression::None, Compression::Lz4, Compression::Zstd].into_iter().find(|c| c.name() == name)
    }
}

/// What a keyspace is created with; kept in the manifest, changed only by the calls that say so.
///
/// ```
/// use firn_engine::{Compression, KeyspaceSettings};
///
/// let pictures = KeyspaceSettings {
///     compression: Some(Compression::None),
///     separate_bytes: Some(64 << 10),
///     ..KeyspaceSettings::default()
/// };
/// assert!(pictures.merge_operator.is_none());
/// ```
///
/// Operators, filters and extractors are *names*: the code behind a name is registered in
/// [`crate::Semantics`] when the database is opened. Opening fails when a name has no code. Their
/// parameters are not kept: those of the code registered at each opening apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceSettings {
    /// Compression of the tables of the last level, and of separated values, which their
    /// writers compress. Default: as the engine's settings say at each opening; what is written
    /// from then on follows them.
    pub compression: Option<Compression>,
    /// Name of the merge operator that gives `merge` records their meaning. Default none: `merge`
    /// is refused.
    pub merge_operator: Option<String>,
    /// Name of the filter that compaction applies to records no snapshot can see. Default none.
    pub compaction_filter: Option<String>,
    /// Name of the prefix extractor whose prefixes also enter the filters. Default none.
    pub prefix_extractor: Option<String>,
    /// Bytes from which on values are separated: written once, and not again when the tree is
    /// compacted. Default: as the engine's settings say. `Some(u32::MAX)` separates none, whatever
    /// those say. Changed by [`Engine::set_separate_bytes`](crate::Engine::set_separate_bytes).
    /// Where there is a compaction filter, compactions read all values for it.
    pub separate_bytes: Option<u32>,
    /// Whether all keys lie in one slot of a hashed engine, so that a scan of them passes few
    /// others. For keyspaces of few keys, which are read as a whole. Default no. Engines that keep
    /// keys in order do not keep it, and a keyspace that exists keeps what it was created with.
    pub in_one_slot: bool,
    /// Whether each key says its slot of a hashed engine: the number in its bytes 4 and 5, the
    /// higher first, below 16384. So slots of Redis Cluster are slots of the engine. A key that is
    /// shorter, or has a greater number there, gets a slot by its hash. Default no. Kept as
    /// `in_one_slot` is. Where it is asked for, a keyspace that exists without it conflicts.
    pub has_slot_in_key: bool,
}

impl KeyspaceSettings {
    /// These settings as a manifest keeps them, but for `in_one_slot` and `has_slot_in_key`, which
    /// are in the id where they mean something. For engines.
    pub fn to_text(&self) -> KeyspaceText {
        KeyspaceText {
            compression: self.compression.map(|compression| compression.name().to_owned()),
            merge_operator: self.merge_operator.clone(),
            compaction_filter: self.compaction_filter.clone(),
            prefix_extractor: self.prefix_extractor.clone(),
            separate_bytes: self.separate_bytes.map(|bytes| bytes.to_string()),
        }
    }

    /// Inverse of [`to_text`](Self::to_text). For engines.
    ///
    /// # Errors
    /// `Invalid` for a word that this release does not know.
    pub fn from_text(text: &KeyspaceText) -> Result<Self> {
        let compression = text.compression.as_ref().map(|name| {
            let unknown = || Error::invalid(format!("this release knows no compression {name:?}"));
            Compression::from_name(name).ok_or_else(unknown)
        });
        let separate_bytes = text.separate_bytes.as_ref().map(|text| {
            text.parse().map_err(|_| {
                let said = "which is no number of bytes";
                Error::invalid(format!("separate_bytes of a keyspace is {text:?}, {said}"))
            })
        });
        Ok(Self {
            compression: compression.transpose()?,
            separate_bytes: separate_bytes.transpose()?,
            in_one_slot: false,
            has_slot_in_key: false,
            merge_operator: text.merge_operator.clone(),
            compaction_filter: text.compaction_filter.clone(),
            prefix_extractor: text.prefix_extractor.clone(),
        })
    }

    /// Whether a keyspace created with `self` fits a request for `other`. They may differ in what
    /// can be changed later, and in what `other` leaves to the engine's settings.
    pub fn fits(&self, other: &Self) -> bool {
        let Self { compression, merge_operator, compaction_filter, prefix_extractor, .. } = self;
        let same_code = (merge_operator, compaction_filter, prefix_extractor)
            == (&other.merge_operator, &other.compaction_filter, &other.prefix_extractor);
        (other.compression.is_none() || *compression == other.compression) && same_code
    }
}
