//! Code that gives records their meaning, looked up by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Combines operands of `merge` records.
///
/// MUST be a pure function: the same inputs give the same bytes on every machine and in every release that
/// keeps the name. MUST be associative over operands: `merge(merge(v, a), b) = merge(v, a then b)`.
pub trait MergeOperator: Send + Sync + fmt::Debug {
    /// The name stored with the keyspace, with a version in it (`"u64-add.1"`).
    fn name(&self) -> &str;

    /// The value of `key` from its base value (`None` if it has none) and `operands`, oldest first.
    ///
    /// `None` means the operands cannot be applied: the read fails with [`crate::ErrorKind::Corrupt`].
    fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>>;

    /// One operand that stands for `operands` (oldest first), where the operator can tell without a base.
    fn merge_partial(&self, _key: &[u8], _operands: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }
}

/// What a [`CompactionFilter`] decides about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterVerdict {
    /// The record stays.
    Keep,
    /// The record is dropped as if it had been deleted.
    Drop,
}

/// Decides during compaction which values no snapshot can see are dropped.
///
/// MUST be a pure function of key and value; it may be asked any number of times, or never.
pub trait CompactionFilter: Send + Sync + fmt::Debug {
    /// The name stored with the keyspace, with a version in it.
    fn name(&self) -> &str;

    /// What becomes of `key` with `value`.
    fn verdict(&self, key: &[u8], value: &[u8]) -> FilterVerdict;
}

/// Takes the part of a key that prefix scans share.
///
/// MUST be a pure function with a result that is a prefix of the key.
pub trait PrefixExtractor: Send + Sync + fmt::Debug {
    /// The name stored with the keyspace, with version and parameters in it (`"fixed.1:8"`).
    fn name(&self) -> &str;

    /// Length in bytes of `key`'s prefix, `None` if the key has none.
    fn prefix_bytes(&self, key: &[u8]) -> Option<usize>;
}

/// Every operator, filter and extractor a process knows, by name.
#[derive(Clone, Debug, Default)]
pub struct Semantics {
    merge_operators: BTreeMap<String, Arc<dyn MergeOperator>>,
    compaction_filters: BTreeMap<String, Arc<dyn CompactionFilter>>,
    prefix_extractors: BTreeMap<String, Arc<dyn PrefixExtractor>>,
}

impl Semantics {
    /// Nothing registered.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a merge operator under its own name; a later one of the same name replaces it.
    #[must_use]
    pub fn with_merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        self.merge_operators.insert(operator.name().to_owned(), operator);
        self
    }

    /// Adds a compaction filter under its own name.
    #[must_use]
    pub fn with_compaction_filter(mut self, filter: Arc<dyn CompactionFilter>) -> Self {
        self.compaction_filters.insert(filter.name().to_owned(), filter);
        self
    }

    /// Adds a prefix extractor under its own name.
    #[must_use]
    pub fn with_prefix_extractor(mut self, extractor: Arc<dyn PrefixExtractor>) -> Self {
        self.prefix_extractors.insert(extractor.name().to_owned(), extractor);
        self
    }

    /// Names of all merge operators.
    pub fn merge_operator_names(&self) -> impl Iterator<Item = &str> {
        self.merge_operators.keys().map(String::as_str)
    }

    /// Names of all compaction filters.
    pub fn compaction_filter_names(&self) -> impl Iterator<Item = &str> {
        self.compaction_filters.keys().map(String::as_str)
    }

    /// Names of all prefix extractors.
    pub fn prefix_extractor_names(&self) -> impl Iterator<Item = &str> {
        self.prefix_extractors.keys().map(String::as_str)
    }

    /// The merge operator called `name`.
    pub fn merge_operator(&self, name: &str) -> Option<Arc<dyn MergeOperator>> {
        self.merge_operators.get(name).cloned()
    }

    /// The compaction filter called `name`.
    pub fn compaction_filter(&self, name: &str) -> Option<Arc<dyn CompactionFilter>> {
        self.compaction_filters.get(name).cloned()
    }

    /// The prefix extractor called `name`.
    pub fn prefix_extractor(&self, name: &str) -> Option<Arc<dyn PrefixExtractor>> {
        self.prefix_extractors.get(name).cloned()
    }
}
