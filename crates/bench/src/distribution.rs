//! Which record an operation touches: the request distributions of YCSB, by its published
//! algorithms.
//!
//! Source: Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC '10, and the
//! generators of its reference implementation. The Zipfian sampler is Gray et al., "Quickly
//! Generating Billion-Record Synthetic Databases", SIGMOD '94, with theta 0.99. Other samplers of
//! the same distributions would draw different numbers and could not be compared.

use std::sync::Arc;

use fastrand::Rng;

mod fnv;
mod counter;
mod zipfian;
mod latest;
mod hotspot;
mod exponential;
#[cfg(test)]
mod tests;

pub use counter::{AcknowledgedCounter, Sequential};
pub use exponential::Exponential;
pub use fnv::fnv_hash_64;
pub use hotspot::Hotspot;
pub use latest::Latest;
pub use zipfian::{ScrambledZipfian, ZIPFIAN_THETA, Zipfian};

/// A seed for stream `index` of a phase, far from its neighbours'.
pub fn stream_seed(seed: u64, index: usize) -> u64 {
    fnv_hash_64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ index as u64)
}

/// Draws key numbers. Cheap to clone: one per thread.
#[derive(Clone, Debug)]
pub enum Distribution {
    /// Every number of `first..=last` equally often.
    Uniform {
        /// Smallest number drawn.
        first: u64,
        /// Greatest number drawn.
        last: u64,
    },
    /// Few numbers often, the popular ones scattered over the range.
    Zipfian(ScrambledZipfian),
    /// The newest records most often.
    Latest(Latest),
    /// A set of hot records gets a fixed share of the draws.
    Hotspot(Hotspot),
    /// Newer records exponentially more often; draws distances from the newest record.
    Exponential(Exponential),
    /// One after another, shared by all threads.
    Sequential(Arc<Sequential>),
}

impl Distribution {
    /// The next key number; for [`Distribution::Exponential`], how far it lies behind the newest
    /// record.
    #[inline]
    pub fn draw(&mut self, random: &mut Rng) -> u64 {
        match self {
            Distribution::Uniform { first, last } => random.u64(*first..=*last),
            Distribution::Zipfian(zipfian) => zipfian.draw(random),
            Distribution::Latest(latest) => latest.draw(random),
            Distribution::Hotspot(hotspot) => hotspot.draw(random),
            Distribution::Exponential(exponential) => exponential.draw(random),
            Distribution::Sequential(sequential) => sequential.draw(),
        }
    }
}
