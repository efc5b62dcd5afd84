//! Firn, a key-value store: the crate that applications embed.
