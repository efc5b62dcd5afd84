//! Redo logs: all that the manifest names are there, each entry is whole, nothing but a torn tail
//! lies behind them.

use firn_format::file_name::{self, FileName};
use firn_format::hybrid::redo::{
    ENTRY_HEAD_BYTES, REDO_HEADER_BYTES, RedoChange, RedoFound, RedoHeader, entry_at, next_change,
};

use super::Verifier;
use super::values::{References, Stamp};
use crate::redo::FILES;
use crate::state::State;

/// What is known of one redo log.
struct Checked {
    generation: u64,
    /// Bytes whose entries count.
    end: usize,
    /// An entry without changes ends it.
    is_ended: bool,
    /// The machine has not started again since: what was written is there.
    is_same_run: bool,
}

impl Checked {
    fn has_entries(&self) -> bool {
        self.end > REDO_HEADER_BYTES || self.is_ended
    }
}

impl Verifier<'_> {
    /// Checks the redo logs that an opening would replay.
    pub(super) fn check_redo_logs(&mut self, state: &State, references: &mut References) {
        self.check_other_generations(state);
        let mut logs = Vec::new();
        for index in 0..FILES as u64 {
            // The first file of this index that was not ended: a later one goes on if it was.
            let mut open: Option<String> = None;
            for generation in state.redo..=state.redo_through {
                let name = file_name::redo(generation, index);
                self.report.totals.redo_logs += 1;
                if !self.files.contains_key(&name) {
                    self.damage(&name, None, "expected a redo log, found no file");
                    continue;
                }
                let Some(bytes) = self.read(&name) else { continue };
                let checked = self.check_redo(&name, &bytes, state, (generation, index));
                self.advance(&name);
                let Some(checked) = checked else { continue };
                match &open {
                    None if !checked.is_ended => open = Some(name.clone()),
                    Some(earlier) if checked.has_entries() => {
                        if checked.is_same_run {
                            let message = format!("expected an entry that ends it, since {name} goes on");
                            self.damage(&earlier.clone(), None, message);
                        } else {
                            let message =
                                format!("entries that came after those of {earlier} which are lost");
                            self.leftover(&name, None, message);
                        }
                        continue;
                    }
                    _ => {}
                }
                // Keys whose values lie alone, before any order among changes counts.
                each_change(&bytes, &checked, &mut |change| references.note_key(change));
                logs.push((name, checked));
            }
        }
        for (name, checked) in logs {
            let Some(bytes) = self.read(&name) else { continue };
            each_change(&bytes, &checked, &mut |change| {
                let stamp = Stamp::of_change(checked.generation, change);
                references.add_change(change, stamp, checked.is_same_run);
            });
        }
    }

    /// Files of generations before the last checkpoint, and of those that are not begun.
    fn check_other_generations(&mut self, state: &State) {
        for (name, generation) in self.named(|name| match name {
            FileName::Redo { generation, .. } => Some(generation),
            _ => None,
        }) {
            if (state.redo..=state.redo_through).contains(&generation) {
                continue;
            }
            let unknown = generation > state.redo_through;
            let has_entries = |bytes: Vec<u8>| bytes.iter().skip(REDO_HEADER_BYTES).any(|byte| *byte != 0);
            if unknown && self.read(&name).is_some_and(has_entries) {
                let message =
                    "entries of a generation that the manifest does not know: is its newest edit missing?";
                self.damage(&name, Some(REDO_HEADER_BYTES as u64), message);
            } else {
                let message =
                    format!("redo logs of generations {} to {} count", state.redo, state.redo_through);
                self.leftover(&name, None, message);
            }
            self.advance(&name);
        }
    }

    /// Checks one, of this generation and index; `None` if nothing of it can be read.
    fn check_redo(&mut self, name: &str, bytes: &[u8], state: &State, which: (u64, u64)) -> Option<Checked> {
        let header = match RedoHeader::decode(bytes) {
            Ok(header) => header,
            Err(error) => {
                self.undecoded(name, 0, error);
                return None;
            }
        };
        if (header.database, header.generation, header.index) != (state.database, which.0, which.1) {
            let message = format!(
                "expected redo log {} of generation {} of database {:032x}, found {header:?}",
                which.1, which.0, state.database
            );
            self.damage(name, Some(16), message);
            return None;
        }
        let is_same_run = header.boot != 0 && self.storage.boot_id() == Some(header.boot);
        let generation = which.0;
        let mut at = REDO_HEADER_BYTES;
        let entry_of = |at: usize| entry_at(bytes.get(at..).unwrap_or_default(), generation, at as u64);
        while let RedoFound::Entry(body) = entry_of(at) {
            if body.is_empty() {
                return Some(Checked { generation, end: at, is_ended: true, is_same_run });
            }
            let mut rest = body;
            loop {
                let offset = at + ENTRY_HEAD_BYTES + body.len() - rest.len();
                match next_change(&mut rest) {
                    Ok(None) => break,
                    Ok(Some(change)) => {
                        self.report.totals.redo_changes += 1;
                        self.check_keyspace(name, change.keyspace, state);
                    }
                    Err(error) => {
                        self.undecoded(name, offset as u64, error);
                        return None;
                    }
                }
            }
            at += ENTRY_HEAD_BYTES + body.len();
        }
        let is_entry = |at: &usize| matches!(entry_of(*at), RedoFound::Entry(_));
        let later = || (at + 8..bytes.len()).step_by(8).find(is_entry);
        if is_same_run && let Some(later) = later() {
            let message = format!(
                "expected an entry of a redo log, found one that is not whole, and another one at {later}"
            );
            self.damage(name, Some(at as u64), message);
        } else if entry_of(at) == RedoFound::Torn {
            let message = "an entry that is not whole: the tail that a crash left";
            self.leftover(name, Some(at as u64), message);
        }
        Some(Checked { generation, end: at, is_ended: false, is_same_run })
    }
}

/// Hands every change that counts of a log that was checked to `take`.
fn each_change(bytes: &[u8], checked: &Checked, take: &mut dyn FnMut(&RedoChange<'_>)) {
    let mut at = REDO_HEADER_BYTES;
    while at < checked.end {
        let found = entry_at(bytes.get(at..).unwrap_or_default(), checked.generation, at as u64);
        let RedoFound::Entry(body) = found else { return };
        let mut rest = body;
        while let Ok(Some(change)) = next_change(&mut rest) {
            take(&change);
        }
        at += ENTRY_HEAD_BYTES + body.len();
    }
}
