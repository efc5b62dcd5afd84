//! The cold log, and the runs that find its records: each record that was spilled is in a run, and
//! each entry leads to a record.

use std::collections::BTreeMap;

use firn_format::file_name::{FileName, cold_run, cold_segment};
use firn_format::filter;
use firn_format::hybrid::cold_run::{ColdEntry, RUN_PAGE_BYTES, RunHeader, RunPage, RunTail, filter_hash_of};

use super::Verifier;
use super::log::Extent;
use super::values::{References, Stamp};
use crate::ops::Key;
use crate::state::State;

/// Records that runs should have: order and address, and whether an entry leads there.
type Records = BTreeMap<(u64, u64), bool>;

impl Verifier<'_> {
    /// Checks the cold log and its runs. Holds where each record lies in memory.
    pub(super) fn check_cold(&mut self, state: &State, references: &mut References) {
        let (begin, cut) = (state.cold.begin, state.cold.cut);
        let extent = Extent { log: "cold log", begin, cut, name: cold_segment };
        let base = |name| if let FileName::ColdSegment(base) = name { Some(base) } else { None };
        self.check_strays(state, extent, base);
        let mut records = Records::new();
        self.check_log(state, extent, &mut |(keyspace, key), record| {
            let noted = (*keyspace, key.clone());
            references.add_record(&noted, record.shape, record.value(), Stamp::of_record(record.address));
            if record.address < state.cold.spilled {
                let order = Key::new(*keyspace, key).hash.order();
                records.insert((order, record.address), false);
            }
        });
        for (name, number) in self.named(|name| match name {
            FileName::ColdRun(number) => Some(number),
            _ => None,
        }) {
            if !state.cold.runs.contains(&number) {
                self.leftover(&name, None, "no run of the cold log's index");
                self.advance(&name);
            }
        }
        for number in &state.cold.runs {
            let name = cold_run(*number);
            match self.files.contains_key(&name) {
                true => self.check_run(&name, *number, state, &mut records),
                false => self.damage(&name, None, "expected a run of the cold log's index, found no file"),
            }
            self.advance(&name);
        }
        let lost = records.iter().filter(|(_, is_found)| !**is_found).count();
        if let Some(((_, address), _)) = records.iter().find(|(_, is_found)| !**is_found) {
            let message =
                format!("{lost} records of the cold log are in no run, that at {address} among them");
            self.damage("the runs of the cold log", None, message);
        }
    }

    fn check_run(&mut self, name: &str, number: u64, state: &State, records: &mut Records) {
        let Some(bytes) = self.read(name) else { return };
        let header = match RunHeader::decode(&bytes) {
            Ok(header) => header,
            Err(error) => return self.undecoded(name, 0, error),
        };
        if (header.database, header.number) != (state.database, number) {
            let message =
                format!("expected run {number} of database {:032x}, found {header:?}", state.database);
            return self.damage(name, Some(16), message);
        }
        let tail_at = header.tail_at() as usize;
        let tail = match RunTail::decode(&header, bytes.get(tail_at..).unwrap_or_default()) {
            Ok(tail) => tail,
            Err(error) => return self.undecoded(name, 0, error),
        };
        let mut last: Option<ColdEntry> = None;
        for page in 0..header.pages() {
            let at = (1 + page as usize) * RUN_PAGE_BYTES;
            let found = bytes.get(at..at + RUN_PAGE_BYTES).unwrap_or_default();
            let decoded = match RunPage::decode(page, found.to_vec()) {
                Ok(decoded) => decoded,
                Err(error) => {
                    self.undecoded(name, at as u64, error);
                    continue;
                }
            };
            let first = decoded.entries().next().map(|entry| entry.order);
            if first != tail.fences.get(page as usize).copied() {
                self.damage(
                    name,
                    Some(at as u64),
                    format!("page {page} begins with {first:?}, not as the tail says"),
                );
            }
            for entry in decoded.entries() {
                if last.is_some_and(|last| last.rank() >= entry.rank()) {
                    self.damage(name, Some(at as u64), format!("{entry:?} comes after {last:?}"));
                }
                last = Some(entry);
                self.check_entry(name, at as u64, (entry, &tail), state, records);
            }
        }
    }

    fn check_entry(
        &mut self,
        name: &str,
        at: u64,
        (entry, tail): (ColdEntry, &RunTail),
        state: &State,
        records: &mut Records,
    ) {
        if !filter::contains(&tail.filter, filter_hash_of(entry.order)) {
            self.damage(name, Some(at), format!("the filter denies {entry:?}"));
        }
        if entry.place.address() < state.cold.begin {
            return;
        }
        match records.get_mut(&(entry.order, entry.place.address())) {
            Some(is_found) => *is_found = true,
            None => self.damage(name, Some(at), format!("{entry:?} leads to no record of its key")),
        }
    }
}
