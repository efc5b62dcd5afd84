//! Code that gives records their meaning: keyspaces look it up by name, jobs by name and
//! parameters.

mod identity;

use std::fmt;
use std::sync::Arc;

pub use identity::Identity;

use crate::error::{Error, Result};

/// Combines operands of `merge` records.
///
/// MUST be a pure function: the same inputs give the same bytes on every machine and in every
/// release that keeps the name. MUST be associative over operands:
/// `merge(merge(v, a), b) = merge(v, a then b)`.
///
/// ```
/// use firn_engine::MergeOperator;
///
/// /// Keeps the greatest value.
/// #[derive(Debug)]
/// struct Greatest;
///
/// impl MergeOperator for Greatest {
///     fn name(&self) -> &str {
///         "greatest.1"
///     }
///
///     fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
///         base.into_iter().chain(operands.iter().copied()).max().map(<[u8]>::to_vec)
///     }
/// }
/// assert_eq!(Greatest.merge(b"k", Some(b"5"), &[b"7", b"6"]), Some(b"7".to_vec()));
/// ```
pub trait MergeOperator: Send + Sync + fmt::Debug {
    /// The name stored with the keyspace, with a version in it (`"u64-add.1"`).
    fn name(&self) -> &str;

    /// A hash of what the name does not say and results depend on: numbers, lists, a version of the
    /// code. 0 = the name says all.
    ///
    /// A job goes only to where code of the same name *and* hash is registered. Keyspaces keep the
    /// name alone, and may be opened with other parameters. MUST differ where results may, and so
    /// not be 0 by chance. MUST be the same in every process, on every machine and in every build
    /// whose results are the same. Such is a hash of the parameters' bytes in one order by a
    /// function that never changes (XXH3, FNV-1a, the first bytes of SHA-256). The standard
    /// library's hashers are none, and neither is an address nor the order of a hash map. MUST stay
    /// as it is: it is asked for once, as the code is registered.
    fn parameters_hash(&self) -> u64 {
        0
    }

    /// The value of `key` from its base value (`None` if it has none) and `operands`, oldest first.
    ///
    /// `None` means the operands cannot be applied: the read fails with
    /// [`crate::ErrorKind::Corrupt`].
    fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>>;

    /// One operand that stands for `operands` (oldest first), where the operator can compute it
    /// without a base.
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
///
/// ```
/// use firn_engine::{CompactionFilter, FilterVerdict};
///
/// /// Drops what was marked.
/// #[derive(Debug)]
/// struct DropMarked;
///
/// impl CompactionFilter for DropMarked {
///     fn name(&self) -> &str {
///         "drop-marked.1"
///     }
///
///     fn verdict(&self, _key: &[u8], value: &[u8]) -> FilterVerdict {
///         if value.starts_with(b"#") { FilterVerdict::Drop } else { FilterVerdict::Keep }
///     }
/// }
/// assert_eq!(DropMarked.verdict(b"k", b"#old"), FilterVerdict::Drop);
/// ```
pub trait CompactionFilter: Send + Sync + fmt::Debug {
    /// The name stored with the keyspace, with a version in it.
    fn name(&self) -> &str;

    /// A hash of what the name does not say and verdicts depend on, as
    /// [`MergeOperator::parameters_hash`]. 0 = the name says all.
    fn parameters_hash(&self) -> u64 {
        0
    }

    /// What becomes of `key` with `value`.
    fn verdict(&self, key: &[u8], value: &[u8]) -> FilterVerdict;
}

/// Takes the part of a key that prefix scans share.
///
/// MUST be a pure function with a result that is a prefix of the key. There is no hash of
/// parameters beside its name. Each table keeps the name of what its filter was made with, and a
/// reader of the filter has only that name.
///
/// ```
/// use firn_engine::PrefixExtractor;
///
/// /// The part before the first colon.
/// #[derive(Debug)]
/// struct BeforeColon;
///
/// impl PrefixExtractor for BeforeColon {
///     fn name(&self) -> &str {
///         "before-colon.1"
///     }
///
///     fn prefix_bytes(&self, key: &[u8]) -> Option<usize> {
///         key.iter().position(|byte| *byte == b':')
///     }
/// }
/// assert_eq!(BeforeColon.prefix_bytes(b"user:17"), Some(4));
/// ```
pub trait PrefixExtractor: Send + Sync + fmt::Debug {
    /// The name stored with the keyspace, with version and parameters in it (`"fixed.1:8"`).
    fn name(&self) -> &str;

    /// Length in bytes of `key`'s prefix, `None` if the key has none.
    fn prefix_bytes(&self, key: &[u8]) -> Option<usize>;
}

/// Every operator, filter and extractor a process knows.
#[derive(Clone, Debug, Default)]
pub struct Semantics {
    merge_operators: Vec<Known<dyn MergeOperator>>,
    compaction_filters: Vec<Known<dyn CompactionFilter>>,
    prefix_extractors: Vec<Known<dyn PrefixExtractor>>,
}

impl Semantics {
    /// Nothing registered.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a merge operator under its own name. Keyspaces get the last one of a name; jobs also
    /// find earlier ones of that name with other parameters.
    #[must_use]
    pub fn with_merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        let known = Known::new(operator.name(), operator.parameters_hash(), &operator);
        known.register(&mut self.merge_operators);
        self
    }

    /// Adds a compaction filter under its own name, as
    /// [`with_merge_operator`](Self::with_merge_operator) does.
    #[must_use]
    pub fn with_compaction_filter(mut self, filter: Arc<dyn CompactionFilter>) -> Self {
        let known = Known::new(filter.name(), filter.parameters_hash(), &filter);
        known.register(&mut self.compaction_filters);
        self
    }

    /// Adds a prefix extractor under its own name; a later one of the same name replaces it.
    #[must_use]
    pub fn with_prefix_extractor(mut self, extractor: Arc<dyn PrefixExtractor>) -> Self {
        Known::new(extractor.name(), 0, &extractor).register(&mut self.prefix_extractors);
        self
    }

    /// Texts of the [`Identity`] of all merge operators.
    pub fn merge_operator_identities(&self) -> impl Iterator<Item = &str> {
        self.merge_operators.iter().map(|known| known.identity.as_str())
    }

    /// Texts of the [`Identity`] of all compaction filters.
    pub fn compaction_filter_identities(&self) -> impl Iterator<Item = &str> {
        self.compaction_filters.iter().map(|known| known.identity.as_str())
    }

    /// Names of all prefix extractors.
    pub fn prefix_extractor_names(&self) -> impl Iterator<Item = &str> {
        self.prefix_extractors.iter().map(|known| known.name.as_str())
    }

    /// The merge operator called `name`.
    pub fn merge_operator(&self, name: &str) -> Option<Arc<dyn MergeOperator>> {
        named(&self.merge_operators, name).map(|known| Arc::clone(&known.code))
    }

    /// The compaction filter called `name`.
    pub fn compaction_filter(&self, name: &str) -> Option<Arc<dyn CompactionFilter>> {
        named(&self.compaction_filters, name).map(|known| Arc::clone(&known.code))
    }

    /// The prefix extractor called `name`.
    pub fn prefix_extractor(&self, name: &str) -> Option<Arc<dyn PrefixExtractor>> {
        named(&self.prefix_extractors, name).map(|known| Arc::clone(&known.code))
    }

    /// What jobs name for the merge operator called `name`: the text of its [`Identity`].
    pub fn merge_operator_identity(&self, name: &str) -> Option<&str> {
        named(&self.merge_operators, name).map(|known| known.identity.as_str())
    }

    /// What jobs name for the compaction filter called `name`: the text of its [`Identity`].
    pub fn compaction_filter_identity(&self, name: &str) -> Option<&str> {
        named(&self.compaction_filters, name).map(|known| known.identity.as_str())
    }

    /// The merge operator that a job names so: with these parameters and no others.
    ///
    /// # Errors
    /// `Invalid` if there is none; where there is one of its name, with the hashes of both.
    pub fn merge_operator_of_job(&self, identity: &str) -> Result<Arc<dyn MergeOperator>> {
        identified(&self.merge_operators, "merge operator", identity)
    }

    /// The compaction filter that a job names so: with these parameters and no others.
    ///
    /// # Errors
    /// As for [`merge_operator_of_job`](Self::merge_operator_of_job).
    pub fn compaction_filter_of_job(&self, identity: &str) -> Result<Arc<dyn CompactionFilter>> {
        identified(&self.compaction_filters, "compaction filter", identity)
    }
}

/// Registered code, with the identity that it had when it was registered.
#[derive(Debug)]
struct Known<C: ?Sized> {
    name: String,
    identity: String,
    code: Arc<C>,
}

impl<C: ?Sized> Known<C> {
    fn new(name: &str, parameters_hash: u64, code: &Arc<C>) -> Self {
        let identity = Identity { name, parameters_hash }.to_string();
        Self { name: name.to_owned(), identity, code: Arc::clone(code) }
    }

    /// Adds `self` as the last of `all`, in place of an earlier one with the same identity.
    fn register(self, all: &mut Vec<Self>) {
        all.retain(|known| known.identity != self.identity);
        all.push(self);
    }
}

impl<C: ?Sized> Clone for Known<C> {
    fn clone(&self) -> Self {
        let Self { name, identity, code } = self;
        Self { name: name.clone(), identity: identity.clone(), code: Arc::clone(code) }
    }
}

fn named<'k, C: ?Sized>(all: &'k [Known<C>], name: &str) -> Option<&'k Known<C>> {
    all.iter().rev().find(|known| known.name == name)
}

fn identified<C: ?Sized>(all: &[Known<C>], what: &str, identity: &str) -> Result<Arc<C>> {
    if let Some(known) = all.iter().find(|known| known.identity == identity) {
        return Ok(Arc::clone(&known.code));
    }
    let Identity { name, parameters_hash } = Identity::read(identity);
    let alike = all.iter().filter(|known| known.name == name);
    let here = alike.map(|known| format!("{:016x}", Identity::read(&known.identity).parameters_hash));
    let here: Vec<String> = here.collect();
    if here.is_empty() {
        return Err(Error::invalid(format!("no {what} {identity:?} here")));
    }
    Err(Error::invalid(format!(
        "no {what} {name:?} with the job's parameters here (hash {parameters_hash:016x}), only with others (hash {}): \
         register it with the parameters that the job's database gives it",
        here.join(", ")
    )))
}

#[cfg(test)]
mod tests;
