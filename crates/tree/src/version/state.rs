//! The part of a version that outlives the process, as the manifest's edits add up to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_format::manifest::{Change, KeyspaceText, TableMeta};
use firn_format::{Position, file_name};
use firn_storage::file::log::objects::NamedObjects;

use super::blobs_state::BlobsState;

/// What the manifest says: the sum of its edits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) database: u128,
    pub(crate) keyspaces: BTreeMap<u32, KeyspaceState>,
    pub(crate) tables: BTreeMap<String, TableState>,
    /// Where the last recovery cut the log.
    pub(crate) cut: Position,
    /// Generation that frames written since that recovery carry.
    pub(crate) generation: u64,
    /// Run of the machine in which they are written; 0 = not known.
    pub(crate) boot: u128,
    pub(crate) durable_through: Position,
    pub(crate) tick_ms: u64,
    /// Keyspace ids below were given away.
    pub(crate) next_number: u64,
    /// Directory that the log of this generation lies in; 0 = there is one backend for everything.
    pub(crate) log_home: u128,
    /// Log objects that have what is needed of the log.
    pub(crate) log_objects: Option<NamedObjects>,
    /// Blob segments and relocations.
    pub(crate) blobs: BlobsState,
}

/// Cheap to clone, and small: there may be tens of thousands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeyspaceState {
    pub(crate) name: Arc<str>,
    /// `None` = all are the default ones.
    settings: Option<Arc<KeyspaceText>>,
    pub(crate) flushed_through: Position,
    /// Sequences that ingestions gave are of positions below.
    pub(crate) ingested_through: Position,
}

impl KeyspaceState {
    /// As it is called and set from now on, and else as it was `known`.
    fn new(name: &str, settings: &KeyspaceText, known: Option<&Self>) -> Self {
        let settings = (*settings != KeyspaceText::default()).then(|| Arc::new(settings.clone()));
        Self {
            name: Arc::from(name),
            settings,
            flushed_through: known.map_or(Position::default(), |known| known.flushed_through),
            ingested_through: known.map_or(Position::default(), |known| known.ingested_through),
        }
    }

    pub(crate) fn settings(&self) -> KeyspaceText {
        self.settings.as_deref().cloned().unwrap_or_default()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableState {
    pub(crate) keyspace: u32,
    pub(crate) level: u32,
    pub(crate) run: u64,
    pub(crate) meta: TableMeta,
    /// Estimated share of its entries that supersedes something in older tables, if that is known.
    pub(crate) superseded_thousandths: Option<u32>,
    /// Estimated bytes that this has there, if they are known.
    pub(crate) hidden_bytes: Option<u64>,
}

/// What is said of a database that another engine has made.
const OF_HASHED: &str = "this is a database of the hashed engine: open it with that engine";

impl State {
    /// Adds one change.
    ///
    /// # Errors
    /// Says what does not fit what went before (an unknown table removed, a name added twice).
    pub(crate) fn apply(&mut self, change: &Change) -> Result<(), String> {
        let unfit = |what: String| format!("manifest: {what}");
        match change {
            Change::Database { id } => self.database = *id,
            Change::Keyspace { id, name, settings } => {
                let known = self.keyspaces.get(id);
                if let Some(known) = known.filter(|known| *known.name != **name) {
                    let (old, new) = (&known.name, name);
                    let what = format!("keyspace {id}, which is called {old:?}, is created as {new:?}");
                    return Err(unfit(what));
                }
                self.keyspaces.insert(*id, KeyspaceState::new(name, settings, known));
                self.next_number = self.next_number.max(u64::from(*id) + 1);
            }
            Change::DropKeyspace { id } => {
                if self.keyspaces.remove(id).is_none() {
                    return Err(unfit(format!("unknown keyspace {id} is dropped")));
                }
                self.tables.retain(|_, table| table.keyspace != *id);
                self.blobs.apply(change).map_err(unfit)?;
            }
            Change::AddTable { .. }
            | Change::RemoveTable { .. }
            | Change::MoveTable { .. }
            | Change::Superseded { .. }
            | Change::Hides { .. } => self.apply_to_tables(change).map_err(unfit)?,
            Change::FlushedThrough { .. } | Change::IngestedThrough { .. } => {
                self.apply_through(change).map_err(unfit)?;
            }
            Change::LogCut { position, generation } => {
                (self.cut, self.generation, self.boot) = (*position, *generation, 0);
                if let Some(named) = self.log_objects.as_mut().filter(|named| named.generation < *generation)
                {
                    named.cut = named.cut.min(*position);
                }
            }
            Change::DurableThrough { position } | Change::CleanEnd { position } => {
                self.durable_through = self.durable_through.max(*position);
            }
            Change::LogHome { id } => {
                // What another machine's device had is not to be looked for on this one's.
                let is_other = std::mem::replace(&mut self.log_home, *id) != *id;
                self.durable_through = if is_other { Position::default() } else { self.durable_through };
            }
            Change::LogObjects { generation, first, cut } => {
                self.name_log_objects(NamedObjects { generation: *generation, first: *first, cut: *cut });
            }
            Change::Boot { id } => self.boot = *id,
            Change::Hashed { .. }
            | Change::HybridCut { .. }
            | Change::HybridBegin { .. }
            | Change::PositionsGiven { .. }
            | Change::RedoBegun { .. }
            | Change::Checkpointed { .. }
            | Change::Cold(_)
            | Change::Extent(_) => return Err(unfit(OF_HASHED.to_owned())),
            Change::TakeOver { .. } => {} // it is the number of its edit that counts
            Change::NextNumber(number) => self.next_number = self.next_number.max(*number),
            Change::Tick { ms } => self.tick_ms = self.tick_ms.max(*ms),
            Change::AddBlobSegment { .. }
            | Change::NextBlobSegment(_)
            | Change::RemoveBlobSegment { .. }
            | Change::DeadMap { .. }
            | Change::Relocation { .. }
            | Change::DropRelocation { .. }
            | Change::AddObsolete { .. }
            | Change::RemoveObsolete { .. } => self.blobs.apply(change).map_err(unfit)?,
        }
        Ok(())
    }

    /// Names the log objects that count; of one generation those of before go on to.
    fn name_log_objects(&mut self, named: NamedObjects) {
        let before = self.log_objects.filter(|before| before.generation == named.generation);
        let cut = before.map_or(named.cut, |before| before.cut.min(named.cut));
        self.log_objects = Some(NamedObjects { cut, ..named });
    }

    /// Adds a change that says through where a keyspace has something; says what does not fit.
    fn apply_through(&mut self, change: &Change) -> Result<(), String> {
        let (Change::FlushedThrough { keyspace, position } | Change::IngestedThrough { keyspace, position }) =
            change
        else {
            return Ok(());
        };
        let is_flushed = matches!(change, Change::FlushedThrough { .. });
        let Some(state) = self.keyspaces.get_mut(keyspace) else {
            let what = if is_flushed { "is flushed" } else { "got ingested tables" };
            return Err(format!("unknown keyspace {keyspace} {what}"));
        };
        let through = if is_flushed { &mut state.flushed_through } else { &mut state.ingested_through };
        *through = (*through).max(*position);
        Ok(())
    }

    /// Adds a change that is about one table; says what does not fit.
    fn apply_to_tables(&mut self, change: &Change) -> Result<(), String> {
        match change {
            Change::AddTable { keyspace, level, run, table } => {
                if !self.keyspaces.contains_key(keyspace) {
                    return Err(format!("table {} belongs to unknown keyspace {keyspace}", table.file));
                }
                let state = TableState {
                    keyspace: *keyspace,
                    level: *level,
                    run: *run,
                    meta: table.clone(),
                    superseded_thousandths: None,
                    hidden_bytes: None,
                };
                if self.tables.insert(table.file.clone(), state).is_some() {
                    return Err(format!("table {} is added twice", table.file));
                }
            }
            Change::RemoveTable { file } => match self.tables.remove(file) {
                Some(_) => {}
                None => return Err(format!("unknown table {file} is removed")),
            },
            Change::MoveTable { file, level, run } => {
                let Some(table) = self.tables.get_mut(file) else {
                    return Err(format!("unknown table {file} is moved"));
                };
                (table.level, table.run) = (*level, *run);
            }
            Change::Superseded { file, thousandths } => match self.tables.get_mut(file) {
                Some(table) => table.superseded_thousandths = Some(*thousandths),
                None => return Err(format!("a share of unknown table {file} is superseded")),
            },
            Change::Hides { file, bytes } => match self.tables.get_mut(file) {
                Some(table) => table.hidden_bytes = Some(*bytes),
                None => return Err(format!("unknown table {file} hides something")),
            },
            _ => {}
        }
        Ok(())
    }

    /// Puts changes that add up to this state from nothing, one after another: all together take
    /// several times the memory of a large state.
    pub(crate) fn restate(&self, put: &mut dyn FnMut(Change)) {
        put(Change::Database { id: self.database });
        put(Change::LogCut { position: self.cut, generation: self.generation });
        put(Change::NextNumber(self.next_number));
        put(Change::Tick { ms: self.tick_ms });
        // After the generation that it is of.
        if self.boot != 0 {
            put(Change::Boot { id: self.boot });
        }
        // Before what its device has.
        if self.log_home != 0 {
            put(Change::LogHome { id: self.log_home });
        }
        put(Change::DurableThrough { position: self.durable_through });
        if let Some(named) = self.log_objects {
            put(Self::naming(named));
        }
        for (id, keyspace) in &self.keyspaces {
            let (name, settings) = (keyspace.name.to_string(), keyspace.settings());
            put(Change::Keyspace { id: *id, name, settings });
            put(Change::FlushedThrough { keyspace: *id, position: keyspace.flushed_through });
            if keyspace.ingested_through > Position::default() {
                put(Change::IngestedThrough { keyspace: *id, position: keyspace.ingested_through });
            }
        }
        for table in self.tables.values() {
            put(Change::AddTable {
                keyspace: table.keyspace,
                level: table.level,
                run: table.run,
                table: table.meta.clone(),
            });
            let file = || table.meta.file.clone();
            if let Some(thousandths) = table.superseded_thousandths {
                put(Change::Superseded { file: file(), thousandths });
            }
            if let Some(bytes) = table.hidden_bytes {
                put(Change::Hides { file: file(), bytes });
            }
        }
        self.blobs.restate(put);
    }

    /// The change which says that log objects are `named`.
    pub(crate) fn naming(named: NamedObjects) -> Change {
        let NamedObjects { generation, first, cut } = named;
        Change::LogObjects { generation, first, cut }
    }

    /// Files of which tables are parts.
    pub(crate) fn shared_files(&self) -> BTreeSet<&str> {
        self.tables.keys().filter_map(|name| Some(file_name::part(name)?.file)).collect()
    }

    /// First log position replay needs.
    pub(crate) fn log_start(&self) -> Position {
        self.keyspaces.values().map(|keyspace| keyspace.flushed_through).min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use firn_format::Sequence;

    use super::*;

    fn add(file: &str) -> Change {
        let table = TableMeta {
            file: file.to_owned(),
            bytes: 1,
            file_checksum: 0,
            smallest: b"a".to_vec(),
            largest: b"b".to_vec(),
            sequence_min: Sequence(1),
            sequence_max: Sequence(1),
            entry_count: 1,
            tombstone_count: 0,
            range_tombstone_count: 0,
            data_bytes: 1,
            content_hash: 0,
        };
        Change::AddTable { keyspace: 0, level: 0, run: 1, table }
    }

    fn keyspace() -> Change {
        Change::Keyspace { id: 0, name: "k".to_owned(), settings: KeyspaceText::default() }
    }

    /// What the last of `changes` is refused with, after all others.
    #[track_caller]
    fn refusal(changes: &[Change]) -> String {
        let (last, before) = changes.split_last().unwrap();
        let mut state = State::default();
        before.iter().for_each(|change| state.apply(change).unwrap());
        state.apply(last).unwrap_err()
    }

    #[test]
    fn a_table_that_is_there_is_not_added_again() {
        let refused = refusal(&[keyspace(), add("one"), add("two"), add("one")]);
        assert!(refused.contains("table one is added twice"), "{refused}");
    }

    #[test]
    fn a_table_that_is_not_there_is_not_removed() {
        let remove = || Change::RemoveTable { file: "one".to_owned() };
        for before in [&[add("two")][..], &[add("one"), remove()]] {
            let refused = refusal(&[&[keyspace()], before, &[remove()]].concat());
            assert!(refused.contains("unknown table one is removed"), "{refused}");
        }
        refusal(&[keyspace(), add("one"), remove(), add("one"), remove(), remove()]);
    }

    #[test]
    fn a_cut_holds_for_log_objects_of_an_earlier_generation_too() {
        let mut state = State::default();
        let named = NamedObjects { generation: 1, first: 0, cut: Position(90) };
        state.apply(&State::naming(named)).unwrap();
        for (generation, position, cut) in [(1, 10, 90), (2, 50, 50), (3, 70, 50)] {
            state.apply(&Change::LogCut { position: Position(position), generation }).unwrap();
            assert_eq!(state.log_objects.map(|named| named.cut), Some(Position(cut)), "{generation}");
        }
    }

    #[test]
    fn superseded_shares_are_restated_where_they_are_known() {
        let mut state = State::default();
        let share = |file: &str| Change::Superseded { file: file.to_owned(), thousandths: 333 };
        let hides = |file: &str| Change::Hides { file: file.to_owned(), bytes: 77 };
        for change in [keyspace(), add("known"), add("unknown"), share("known"), hides("known")] {
            state.apply(&change).unwrap();
        }
        assert!(state.apply(&share("nowhere")).is_err() && state.apply(&hides("nowhere")).is_err());
        let mut again = State::default();
        state.restate(&mut |change| again.apply(&change).unwrap());
        assert_eq!(again, state);
        let known = |file: &str| (again.tables[file].superseded_thousandths, again.tables[file].hidden_bytes);
        assert_eq!((known("known"), known("unknown")), ((Some(333), Some(77)), (None, None)));
    }
}
