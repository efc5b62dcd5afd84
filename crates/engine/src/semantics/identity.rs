//! Names of code of which a worker must have the very same.

use std::fmt;

/// A name and the hash of what the name does not say.
///
/// Its text is what jobs name and what workers report as theirs: `NAME`, or `NAME#0123456789abcdef`
/// where the hash is not 0. Texts are equal exactly where both parts are equal. A name that itself
/// ends like such a text is therefore always followed by its hash, even by 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'n> {
    /// What keyspaces call it.
    pub name: &'n str,
    /// See [`MergeOperator::parameters_hash`](crate::MergeOperator::parameters_hash).
    pub parameters_hash: u64,
}

/// Digits of a hash in a text; fewer, more or upper-case ones are part of a name.
const DIGITS: usize = 16;

impl<'n> Identity<'n> {
    /// The identity that `text` stands for.
    pub fn read(text: &'n str) -> Self {
        let parts = text.rsplit_once('#').and_then(|(name, digits)| Some((name, hash_of(digits)?)));
        let (name, parameters_hash) = parts.unwrap_or((text, 0));
        Self { name, parameters_hash }
    }
}

impl fmt::Display for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, parameters_hash } = self;
        // Read back without its hash, such a name would be taken for another name with a hash.
        let is_alone = *parameters_hash == 0 && Self::read(name).name == *name;
        match is_alone {
            true => f.write_str(name),
            false => write!(f, "{name}#{parameters_hash:0DIGITS$x}"),
        }
    }
}

fn hash_of(digits: &str) -> Option<u64> {
    let are_digits = digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let is_written_so = are_digits && digits.len() == DIGITS;
    is_written_so.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_have_the_same_text_and_each_is_read_back() {
        let names = [
            "",
            "#",
            "a",
            "a#",
            "a#b",
            "a#0123456789abcde",
            "a#0123456789abcdef",
            "a#0123456789abcdef0",
            "a#0123456789ABCDEF",
            "a#+123456789abcdef",
            "a#0000000000000000",
            "a#0123456789abcdef#0000000000000000",
            "#0123456789abcdef",
            "ä#äääääääö",
        ];
        let hashes = [0, 1, 0x0123_4567_89ab_cdef, u64::MAX];
        let mut texts = std::collections::BTreeSet::new();
        for name in names {
            for parameters_hash in hashes {
                let identity = Identity { name, parameters_hash };
                let text = identity.to_string();
                assert_eq!(Identity::read(&text), identity, "{text}");
                assert!(texts.insert(text), "{identity:?}");
            }
        }
        assert_eq!(texts.len(), names.len() * hashes.len());
    }

    #[test]
    fn names_that_say_all_stand_alone() {
        let text = |name, parameters_hash| Identity { name, parameters_hash }.to_string();
        assert_eq!(text("u64-add.1", 0), "u64-add.1");
        assert_eq!(text("a#b", 0), "a#b");
        assert_eq!(text("deny.1", 0xab), "deny.1#00000000000000ab");
        assert_eq!(text("a#b", u64::MAX), "a#b#ffffffffffffffff");
        assert_eq!(text("a#00000000000000ab", 0), "a#00000000000000ab#0000000000000000");
    }
}
