//! Walking entries in order, whatever holds them.

use firn_format::key::Entry;
use firn_storage::Result;
use firn_storage::file::table::TableCursor;

/// A place in an ordered set of entries: by key up, and of one key the newest version first.
///
/// A cursor is born unpositioned ([`entry`](Self::entry) is `None`). After an error it is
/// unpositioned again. Every moving call may read a file and so block.
pub trait Cursor: Send {
    /// The entry it stands on; `None` when unpositioned or past either end.
    fn entry(&self) -> Option<Entry<'_>>;

    /// Whether the entry's sequence is that of its table, whose file has 0 there: an ingested table
    /// has one for all of its entries.
    #[inline]
    fn has_given_sequence(&self) -> bool {
        false
    }

    /// Goes to the first entry.
    fn seek_first(&mut self) -> Result<()>;

    /// Goes to the last entry.
    fn seek_last(&mut self) -> Result<()>;

    /// Goes to the first entry whose key is `key` or greater.
    fn seek(&mut self, key: &[u8]) -> Result<()>;

    /// Goes to the last entry whose key is smaller than `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;

    /// Goes to the next entry; stays past the end once there.
    fn next(&mut self) -> Result<()>;

    /// Goes to the previous entry; stays before the beginning once there.
    fn prev(&mut self) -> Result<()>;
}

impl<C: Cursor + ?Sized> Cursor for Box<C> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        (**self).entry()
    }

    #[inline]
    fn has_given_sequence(&self) -> bool {
        (**self).has_given_sequence()
    }

    fn seek_first(&mut self) -> Result<()> {
        (**self).seek_first()
    }

    fn seek_last(&mut self) -> Result<()> {
        (**self).seek_last()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        (**self).seek(key)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        (**self).seek_before(key)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        (**self).next()
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        (**self).prev()
    }
}

impl Cursor for TableCursor {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.entry()
    }

    #[inline]
    fn has_given_sequence(&self) -> bool {
        self.has_given_sequence()
    }

    fn seek_first(&mut self) -> Result<()> {
        self.seek_first()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.seek_last()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seek(key)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.seek_before(key)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.next()
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.prev()
    }
}
