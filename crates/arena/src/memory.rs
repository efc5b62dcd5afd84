//! The bytes under a region: an anonymous mapping, or a box where mappings cannot be (Miri, loom).

#[cfg(not(any(loom, miri)))]
mod mapped;
#[cfg(any(loom, miri))]
mod boxed;

#[cfg(any(loom, miri))]
pub(crate) use boxed::Memory;
#[cfg(not(any(loom, miri)))]
pub(crate) use mapped::Memory;
