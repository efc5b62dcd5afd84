//! What the manifest of a hashed engine carries.

use std::collections::{BTreeMap, BTreeSet};

use firn_format::Position;
use firn_format::hybrid::{ADDRESS_MIN, COLD_MIN, Extent, LogKind};
use firn_format::manifest::{Change, ColdChange, EditEncoder, KeyspaceText, ManifestEdit};
use firn_storage::file::manifest::{self, Content, Edit};

use crate::extents::Extents;
use crate::keyspaces::number_of_keyspace;

/// The manifest of a hashed engine.
pub(crate) type Manifest = manifest::Manifest<State>;

/// What a database is made of, besides its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Its identity.
    pub(crate) database: u128,
    /// Words of a page and of a segment, as powers of two; `None` before the first edit.
    pub(crate) sizes: Option<(u32, u32)>,
    /// The log begins here.
    pub(crate) begin: u64,
    /// What lies before this address is on the device.
    pub(crate) cut: u64,
    /// What came later is in redo logs of this generation and those after it.
    pub(crate) redo: u64,
    /// Generations of redo logs up to this one are there.
    pub(crate) redo_through: u64,
    /// Numbers below were given to keyspaces.
    pub(crate) next_number: u64,
    /// Positions below may have been given to writes.
    pub(crate) given: Position,
    /// Writes before this position, and no others, are before the cut.
    pub(crate) checkpointed: Position,
    /// The latest moment that was seen, for expiry.
    pub(crate) tick_ms: u64,
    /// Name and settings of each keyspace, by id.
    pub(crate) keyspaces: BTreeMap<u32, (String, KeyspaceText)>,
    pub(crate) cold: ColdState,
    /// Identity of the directory with the redo logs; 0 if all lies in one.
    pub(crate) home: u128,
    /// What other machines reach of the log.
    pub(crate) hybrid: Extents,
}

/// What there is of a cold log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColdState {
    /// It begins here.
    pub(crate) begin: u64,
    /// What lies before this address counts, and is on the device.
    pub(crate) cut: u64,
    /// Records before this address are in runs.
    pub(crate) spilled: u64,
    /// Numbers of the runs.
    pub(crate) runs: BTreeSet<u64>,
    /// What other machines reach of it.
    pub(crate) extents: Extents,
}

impl Default for ColdState {
    fn default() -> Self {
        let (runs, extents) = (BTreeSet::new(), Extents::default());
        Self { begin: COLD_MIN, cut: COLD_MIN, spilled: COLD_MIN, runs, extents }
    }
}

impl ColdState {
    fn restate(&self, push: &mut dyn FnMut(Change)) {
        let Self { begin, cut, spilled, runs, extents } = self;
        push(Change::Cold(ColdChange::Cut { address: *cut }));
        push(Change::Cold(ColdChange::Begin { address: *begin }));
        runs.iter()
            .for_each(|number| push(Change::Cold(ColdChange::Run { number: *number, spilled: *spilled })));
        extents.all().for_each(|extent| push(Change::Extent(extent)));
    }

    fn apply(&mut self, change: &ColdChange) -> Result<(), String> {
        match change {
            ColdChange::Cut { address } => self.cut(*address),
            ColdChange::Begin { address } => self.begin(*address),
            ColdChange::Run { number, spilled } => self.add_run(*number, *spilled),
            ColdChange::DropRun { number } => self.drop_run(*number),
        }
    }

    fn cut(&mut self, address: u64) -> Result<(), String> {
        if address < self.cut {
            return Err(format!("the cold log ends at {}, and cannot at {address}", self.cut));
        }
        self.cut = address;
        Ok(())
    }

    fn begin(&mut self, address: u64) -> Result<(), String> {
        if address < self.begin || address > self.cut {
            let Self { begin, cut, .. } = self;
            return Err(format!("the cold log lies from {begin} to {cut}, and cannot begin at {address}"));
        }
        self.begin = address;
        self.extents.begin_at(address);
        Ok(())
    }

    fn add_run(&mut self, number: u64, spilled: u64) -> Result<(), String> {
        if spilled < self.spilled || spilled > self.cut || !self.runs.insert(number) {
            let Self { spilled: before, cut, .. } = self;
            return Err(format!("run {number} up to {spilled}, of a cold log from {before} to {cut}"));
        }
        self.spilled = spilled;
        Ok(())
    }

    fn drop_run(&mut self, number: u64) -> Result<(), String> {
        match self.runs.remove(&number) {
            true => Ok(()),
            false => Err(format!("there is no run {number} to drop")),
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            database: 0,
            sizes: None,
            begin: ADDRESS_MIN,
            cut: ADDRESS_MIN,
            redo: 0,
            redo_through: 0,
            next_number: 1,
            given: Position(0),
            checkpointed: Position(0),
            tick_ms: 0,
            keyspaces: BTreeMap::new(),
            cold: ColdState::default(),
            home: 0,
            hybrid: Extents::default(),
        }
    }
}

impl State {
    fn restate(&self, push: &mut dyn FnMut(Change)) {
        push(self.identity());
        if let Some((page_bits, segment_bits)) = self.sizes {
            push(Change::Hashed { page_bits, segment_bits });
        }
        for (id, (name, settings)) in &self.keyspaces {
            push(Change::Keyspace { id: *id, name: name.clone(), settings: settings.clone() });
        }
        push(Change::HybridBegin { address: self.begin });
        push(Change::HybridCut { address: self.cut, redo: self.redo });
        push(Change::RedoBegun { redo: self.redo_through });
        self.hybrid.all().for_each(|extent| push(Change::Extent(extent)));
        self.cold.restate(push);
        if self.home != 0 {
            push(Change::LogHome { id: self.home });
        }
        push(Change::NextNumber(self.next_number));
        push(Change::PositionsGiven { position: self.given });
        push(Change::Checkpointed { position: self.checkpointed });
        push(Change::Tick { ms: self.tick_ms });
    }
}

impl State {
    /// All that other machines reach of both logs.
    pub(crate) fn extents(&self) -> BTreeSet<Extent> {
        self.hybrid.all().chain(self.cold.extents.all()).collect()
    }

    fn share(&mut self, extent: Extent) -> Result<(), String> {
        let (extents, cut) = match extent.log {
            LogKind::Hybrid => (&mut self.hybrid, self.cut),
            LogKind::Cold => (&mut self.cold.extents, self.cold.cut),
        };
        if extent.to > cut {
            return Err(format!("words up to {} of a log that ends at {cut} are shared", extent.to));
        }
        extents.put(extent);
        Ok(())
    }
}

/// The redo generation, which grows with each opening, is in every edit.
impl Content for State {
    type Change = Change;
    type Before = State;

    fn apply(&mut self, change: &Change) -> Result<(), String> {
        match change {
            Change::Database { id } => self.database = *id,
            Change::Hashed { page_bits, segment_bits } => self.sizes = Some((*page_bits, *segment_bits)),
            Change::Keyspace { id, name, settings } => {
                self.keyspaces.insert(*id, (name.clone(), settings.clone()));
                self.next_number = self.next_number.max(number_of_keyspace(*id) + 1);
            }
            Change::DropKeyspace { id } => {
                self.keyspaces.remove(id).ok_or_else(|| format!("there is no keyspace {id} to drop"))?;
            }
            Change::HybridBegin { address } if *address < self.begin => {
                return Err(format!("the log begins at {}, and cannot again at {address}", self.begin));
            }
            Change::HybridBegin { address } => {
                self.begin = *address;
                self.hybrid.begin_at(*address);
            }
            Change::HybridCut { address, redo } => {
                if *address < self.cut || *redo < self.redo {
                    let Self { cut, redo: last, .. } = self;
                    return Err(format!("a checkpoint at {address}, {redo} after one at {cut}, {last}"));
                }
                (self.cut, self.redo) = (*address, *redo);
            }
            Change::RedoBegun { redo } => self.redo_through = self.redo_through.max(*redo),
            Change::NextNumber(number) => self.next_number = self.next_number.max(*number),
            Change::PositionsGiven { position } => self.given = *position,
            Change::Checkpointed { position } => self.checkpointed = *position,
            Change::Tick { ms } => self.tick_ms = self.tick_ms.max(*ms),
            Change::Cold(change) => self.cold.apply(change)?,
            Change::Extent(extent) => self.share(*extent)?,
            Change::LogHome { id } => self.home = *id,
            Change::TakeOver { .. } => {}
            other => {
                return Err(format!(
                    "this is a database of the ordered engine (change {}): open it with that engine",
                    other.tag()
                ));
            }
        }
        Ok(())
    }

    fn before(&self, _changes: &[Change]) -> State {
        self.clone()
    }

    fn restore(&mut self, before: State) {
        *self = before;
    }

    fn encode(&self, number: u64, changes: &[Change]) -> Vec<u8> {
        let mut encoder = EditEncoder::default();
        changes.iter().for_each(|change| encoder.push(change));
        encoder.finish(number, false, self.redo)
    }

    fn encode_base(&self, number: u64) -> Vec<u8> {
        let mut encoder = EditEncoder::default();
        self.restate(&mut |change| encoder.push(&change));
        encoder.finish(number, true, self.redo)
    }

    fn decode(bytes: &[u8]) -> Result<Edit<Change>, firn_format::Error> {
        let ManifestEdit { number, base, changes, .. } = ManifestEdit::decode(bytes)?;
        Ok(Edit { number, is_base: base, changes })
    }

    fn take_over(home: u128) -> Change {
        Change::TakeOver { id: home }
    }

    fn is_take_over(change: &Change) -> bool {
        matches!(change, Change::TakeOver { .. })
    }

    fn identity(&self) -> Change {
        Change::Database { id: self.database }
    }
}
