//! Several keys at once, where values may have to be waited for: the device fetches several at once.

use firn_engine::{KeyspaceId, Result, Values};
use firn_format::Position;
use firn_storage::file::table::ReadMode;

use super::ahead::Ahead;
use super::{BesideReads, Found, Lookup, Wants};
use crate::database::Database;
use crate::version::Version;

impl Database {
    /// Appends to `out` what each of `keys` has for the point `before`, in their order. Values beside the tree are asked for before the first of
    /// them is read, some at a time. Waits for the device.
    ///
    /// # Errors
    /// What reading says.
    pub(crate) fn read_many<'k>(
        &self,
        version: &Version,
        (keyspace, before): (KeyspaceId, Position),
        keys: impl IntoIterator<Item = &'k [u8]>,
        out: &mut Values,
    ) -> Result<()> {
        let (mut ahead, mut reads, mut value) = (Ahead::default(), BesideReads::default(), Vec::new());
        for key in keys {
            let lookup = Lookup { wants: Wants::Ahead, ..Lookup::latest(keyspace, key, before) };
            let found = self.lookup(version, &lookup, &mut value)?;
            reads.note(found);
            let here = matches!(found, Found::Value { .. }).then_some(value.as_slice());
            match found {
                Found::Asked { .. } => ahead.push_asked(key, &value),
                _ if ahead.is_empty() => out.push(here),
                _ => ahead.push(key, here),
            }
            if ahead.is_full() {
                self.catch_up(version, &mut ahead, &mut reads, |_, value| out.push(value))?;
            }
        }
        self.catch_up(version, &mut ahead, &mut reads, |_, value| out.push(value))?;
        self.counters.take_reads(&mut reads);
        Ok(())
    }

    /// Reads the values that were asked for; `give` is told all keys of `ahead` in their order, and what they have.
    ///
    /// # Errors
    /// What reading says; the rest of `ahead` is forgotten then.
    pub(super) fn catch_up(
        &self,
        version: &Version,
        ahead: &mut Ahead,
        reads: &mut BesideReads,
        give: impl FnMut(&[u8], Option<&[u8]>),
    ) -> Result<()> {
        let read = |reference: &[u8], key_bytes: usize, value: &mut Vec<u8>| {
            let found = (reference, key_bytes);
            self.values.read(&version.values, found, 0..usize::MAX, ReadMode::Blocking, value)?;
            reads.add(Some(value.len() as u64));
            Ok(())
        };
        ahead.give_all(read, give)
    }
}
