//! The operators, filter and extractor the suite (and the model scripts) use.

use std::sync::Arc;

use crate::{CompactionFilter, FilterVerdict, MergeOperator, PrefixExtractor, Semantics};

/// Merge operator: appends operands to the value. Order matters, so a reordered operand shows.
pub const APPEND: &str = "conformance-append.1";
/// Merge operator: adds little-endian u64s, wrapping; refuses operands and values of another
/// length.
pub const ADD: &str = "conformance-add.1";
/// Compaction filter: drops values that begin with `drop`.
pub const FILTER_DROP: &str = "conformance-drop.1";
/// Prefix extractor: the first four bytes of keys that have as many.
pub const PREFIX_4: &str = "conformance-prefix.1:4";

/// What the engine under test must be opened with.
pub fn semantics() -> Semantics {
    Semantics::new()
        .with_merge_operator(Arc::new(Append))
        .with_merge_operator(Arc::new(Add))
        .with_compaction_filter(Arc::new(Drops))
        .with_prefix_extractor(Arc::new(Prefix))
}

#[derive(Debug)]
struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        APPEND
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut value = base.unwrap_or_default().to_vec();
        operands.iter().for_each(|operand| value.extend_from_slice(operand));
        Some(value)
    }

    fn merge_partial(&self, _key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(operands.concat())
    }
}

#[derive(Debug)]
struct Add;

impl MergeOperator for Add {
    fn name(&self) -> &str {
        ADD
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut sum = 0_u64;
        for number in base.iter().chain(operands) {
            sum = sum.wrapping_add(u64::from_le_bytes((*number).try_into().ok()?));
        }
        Some(sum.to_le_bytes().to_vec())
    }
}

#[derive(Debug)]
struct Drops;

impl CompactionFilter for Drops {
    fn name(&self) -> &str {
        FILTER_DROP
    }

    fn verdict(&self, _key: &[u8], value: &[u8]) -> FilterVerdict {
        if value.starts_with(b"drop") { FilterVerdict::Drop } else { FilterVerdict::Keep }
    }
}

#[derive(Debug)]
struct Prefix;

impl PrefixExtractor for Prefix {
    fn name(&self) -> &str {
        PREFIX_4
    }

    fn prefix_bytes(&self, key: &[u8]) -> Option<usize> {
        (key.len() >= 4).then_some(4)
    }
}
