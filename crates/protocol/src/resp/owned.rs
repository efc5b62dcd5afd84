//! Requests that outlive the bytes they came in.

use super::request::{Arguments, Span};

/// The arguments of one request, kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedArguments {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl OwnedArguments {
    /// Keeps a copy of `arguments`, which together are shorter than 4 GiB.
    pub fn new<'a>(arguments: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut owned = Self::default();
        arguments.into_iter().for_each(|argument| owned.push(argument));
        owned
    }

    /// Adds one.
    pub fn push(&mut self, argument: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(argument);
        self.spans.push(Span::new(start, self.bytes.len()));
    }

    /// What was kept.
    pub fn get(&self) -> Arguments<'_> {
        Arguments::new(&self.bytes, &self.spans)
    }

    /// Bytes of all of them together.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory that keeping them takes, those that describe each argument included: more
    /// than 0 for each.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity() + self.spans.capacity() * size_of::<Span>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_what_was_given() {
        let owned = OwnedArguments::new([&b"SET"[..], b"", b"value"]);
        assert_eq!(owned.get().iter().collect::<Vec<_>>(), [&b"SET"[..], b"", b"value"]);
        assert_eq!(owned.bytes(), 8);
    }

    #[test]
    fn arguments_take_memory_though_they_are_empty() {
        let owned = OwnedArguments::new([&b""[..]; 1000]);
        assert_eq!(owned.bytes(), 0);
        assert!(owned.memory_bytes() >= 8000, "{}", owned.memory_bytes());
    }
}
