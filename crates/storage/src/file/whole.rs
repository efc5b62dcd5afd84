//! Small files, each read as a whole.

use std::sync::Arc;

use super::in_turn::{InTurn, Opening};
use crate::{ReadFile, Result, Storage};

/// Reads `files`, names and lengths, one after another, while those behind are on their way. Of a
/// backend whose answers take time, tens are waited for together. Each is asked of its backend,
/// past any cache. Does nothing before it is asked for the first; each time blocks on the device.
///
/// Each answers `NotFound`, `Corrupt` if it has another length, or what reading says.
pub fn read_whole<'a>(
    storage: &'a dyn Storage,
    files: impl IntoIterator<Item = (String, u64), IntoIter: 'a>,
) -> impl Iterator<Item = Result<Vec<u8>>> + 'a {
    let begin = |(name, bytes): (String, u64)| {
        let file = storage.open_read_known(&name, bytes)?;
        // What is asked for ahead is read past whatever keeps files: whether one is there its store
        // says.
        file.will_need(0, bytes);
        Ok(Begun(file))
    };
    InTurn::new(files.into_iter().map(begin))
}

struct Begun(Arc<dyn ReadFile>);

impl Opening for Begun {
    type Open = Vec<u8>;

    fn ask_rest(&mut self) -> Result<()> {
        Ok(())
    }

    fn finish(self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.0.len() as usize];
        self.0.read_at(0, &mut bytes)?;
        Ok(bytes)
    }
}
