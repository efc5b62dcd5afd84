//! Byte-addressable regions: the arena of a log segment.
