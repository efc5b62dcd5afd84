//! Sorted string tables.
