//! Kinds of file: a format of crate `format` on a place.
