//! Files that had an earlier life: how they are written over.

use super::{PAGE_BYTES, zeros_after};

/// What a file that is written over has of its earlier life.
///
/// A page of it is written as a whole when it is first written to, with zeros behind the new bytes.
/// Otherwise the system may have to read it, and a reader of the file would not find its end.
#[derive(Debug, Default)]
pub(super) struct OldBytes {
    /// Behind all bytes of this life.
    end: u64,
    /// Behind what was written with zeros to the end of a page.
    zeroed_end: u64,
    /// Where the old bytes end.
    old_end: u64,
}

impl OldBytes {
    /// A file of `bytes`, all of them old.
    pub(super) fn new(bytes: u64) -> Self {
        Self { old_end: bytes, ..Self::default() }
    }

    /// Bytes up to `end` belong to this life.
    pub(super) fn reach(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// The file was cut or extended to `bytes`.
    pub(super) fn cut(&mut self, bytes: u64) {
        self.old_end = self.old_end.min(bytes);
    }

    /// What is to be written behind a piece that ends at `end`, before anything is that comes after
    /// it.
    pub(super) fn zeros_behind(&mut self, end: u64) -> &'static [u8] {
        let page_end = end.next_multiple_of(PAGE_BYTES).min(self.old_end);
        if end < self.end || end <= self.zeroed_end || end >= page_end {
            return &[];
        }
        self.zeroed_end = page_end;
        &zeros_after(end)[..(page_end - end) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_pages_are_zeroed_once_and_nothing_new_is() {
        let mut old = OldBytes::new(10_000);
        old.reach(100);
        assert_eq!(old.zeros_behind(100).len(), 3_996);
        old.reach(300);
        assert_eq!(old.zeros_behind(300).len(), 0, "the page is zeroed");
        old.reach(5_000);
        assert_eq!(old.zeros_behind(4_200).len(), 0, "something lies behind it");
        assert_eq!(old.zeros_behind(5_000).len(), 3_192);
        old.reach(9_000);
        assert_eq!(old.zeros_behind(9_000).len(), 1_000, "the file gets no longer");
        old.reach(10_100);
        assert_eq!(old.zeros_behind(10_100).len(), 0, "nothing old is there");
        let mut cut = OldBytes::new(10_000);
        cut.cut(500);
        cut.reach(100);
        assert_eq!(cut.zeros_behind(100).len(), 400);
    }
}
