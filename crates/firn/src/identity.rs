//! Random identities that are unique in practice.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// An identity for something that is made now: 128 random bits, not zero.
pub(crate) fn fresh_id() -> u128 {
    // The system gives each such state keys of its own.
    let draw = || u128::from(RandomState::new().hash_one(std::process::id()));
    (draw() << 64 | draw()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_differ() {
        let drawn: std::collections::BTreeSet<u128> = (0..1000).map(|_| fresh_id()).collect();
        assert_eq!(drawn.len(), 1000);
        let halves: std::collections::BTreeSet<u64> = drawn.iter().map(|id| *id as u64).collect();
        assert_eq!(halves.len(), 1000);
    }
}
