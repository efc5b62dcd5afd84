//! Several keys at once, whose values may have to be waited for: the device fetches several at
//! once, and so does the processor.

use firn_engine::{KeyspaceId, Result, Values};
use firn_format::Position;
use firn_storage::file::table::ReadMode;

use super::ahead::{Ahead, Given};
use super::{BesideReads, Lookup, Wants};
use crate::reads::Reads;
use crate::version::Version;

impl Reads {
    /// Appends to `out` what each of `keys` has for the point `before`, in their order. Values
    /// that are separated are asked for before the first of them is read, some at a time. Waits for
    /// the device.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn read_many<'k>(
        &self,
        version: &Version,
        (keyspace, before): (KeyspaceId, Position),
        keys: impl IntoIterator<Item = &'k [u8]>,
        out: &mut Values,
    ) -> Result<()> {
        let mode = ReadMode::Blocking;
        let (mut ahead, mut reads, mut value) = (Ahead::default(), BesideReads::default(), Vec::new());
        for key in keys {
            let lookup = Lookup { wants: Wants::Ahead, ..Lookup::latest(keyspace, key, before) };
            let found = self.lookup(version, &lookup, &mut value)?;
            reads.note(found);
            ahead.take(found, key, &value, out);
            if ahead.is_full() {
                self.catch_up((version, mode), &mut ahead, &mut reads, |_, given| given.add_to(out))?;
            }
            if out.is_full() && ahead.is_empty() {
                break;
            }
        }
        self.catch_up((version, mode), &mut ahead, &mut reads, |_, given| given.add_to(out))?;
        self.counters.take_reads(&mut reads);
        Ok(())
    }

    /// Reads the values that were asked for; `give` gets all keys of `ahead` in their order, and
    /// what they have. `false` where `mode` is not to wait for the device and the next value would
    /// need that: the rest of `ahead` is forgotten then.
    ///
    /// # Errors
    /// Those of reading; the rest of `ahead` is forgotten then, too.
    pub(crate) fn catch_up(
        &self,
        (version, mode): (&Version, ReadMode),
        ahead: &mut Ahead,
        reads: &mut BesideReads,
        give: impl FnMut(&[u8], Given<'_>),
    ) -> Result<bool> {
        let read = |reference: &[u8], key_bytes: usize, value: &mut Vec<u8>| {
            let found = (reference, key_bytes);
            let is_read = self.blobs.read(&version.blobs, found, 0..usize::MAX, mode, value)?;
            reads.add(is_read.then_some(value.len() as u64));
            Ok(is_read)
        };
        ahead.give_all(read, give)
    }
}
