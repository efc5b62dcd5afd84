//! A database and a model of it, which go through steps drawn from a seed side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::blocking::Blocking;
use firn_engine::conformance::APPEND;
use firn_engine::{
    Batch, Durability, Engine, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, Op, OpKind, ReadAt, Result,
    Rmw, WriteOptions,
};
use firn_hashlog::{HashLog, Settings};
use firn_storage::backend::{Crash, Memory};
use firn_storage::{ManualClock, Storage};

use crate::support::{open, tiny};

/// Keys of each keyspace; the last ones of the default one are counters.
pub(crate) const KEYS: u8 = 10;
const COUNTERS: std::ops::Range<u8> = 8..KEYS;
const SPACES: [&str; 3] = ["default", "appending", "passing"];
/// Tries to read everything, at most.
const READS_MAX: usize = 100;
/// Values from this length on lie alone.
const ALONE_BYTES: usize = 132_000;

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Puts (a value of so many bytes) and deletes, as one batch where there are several.
    Write(Vec<(u8, u8, Option<usize>)>, Durability),
    Add(u8, Durability),
    Merge(u8, Durability),
    /// Makes the keyspace that comes and goes, or drops it.
    Passing(bool),
    Checkpoint,
    Sync,
    Work,
    /// Writes more than memory holds to keys that the model does not have, and does all work: what
    /// was written before leaves the log.
    Churn,
    Reopen,
}

/// The steps of `seed`.
pub(crate) fn steps(seed: u64, count: usize) -> Vec<Step> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let part = |rng: &mut fastrand::Rng| {
        let bytes = match rng.u8(..24) {
            0 => ALONE_BYTES,
            1..=4 => rng.usize(1000..5000),
            _ => rng.usize(..40),
        };
        (rng.u8(..3), rng.u8(..COUNTERS.start), rng.bool().then_some(bytes).or(rng.bool().then_some(bytes)))
    };
    let step = |rng: &mut fastrand::Rng| {
        let durability = if rng.u8(..3) == 0 { Durability::Process } else { Durability::Disk };
        match rng.u8(..32) {
            0..=11 => Step::Write(vec![part(rng)], durability),
            12..=16 => Step::Write((0..rng.usize(2..6)).map(|_| part(rng)).collect(), durability),
            17..=20 => Step::Add(rng.u8(COUNTERS), durability),
            21..=23 => Step::Merge(rng.u8(..KEYS), durability),
            24 => Step::Passing(rng.bool()),
            25..=27 => Step::Checkpoint,
            28 => Step::Sync,
            29..=30 => Step::Work,
            _ => Step::Reopen,
        }
    };
    (0..count).map(|_| step(&mut rng)).collect()
}

/// The steps of `seed`, and after every few of them a churn.
pub(crate) fn churned(seed: u64, count: usize) -> Vec<Step> {
    let steps = steps(seed, count);
    steps.chunks(4).flat_map(|few| few.iter().cloned().chain([Step::Churn])).collect()
}

/// Values by keyspace and key; a keyspace that is not there has none.
pub(crate) type State = BTreeMap<(u8, u8), Vec<u8>>;

/// The storage of a database over a memory.
pub(crate) type Dress = Arc<dyn Fn(Memory) -> Arc<dyn Storage> + Send + Sync>;

/// Both, and what the database has promised.
pub(crate) struct Run {
    pub(crate) memory: Memory,
    /// What is put before the memory when it is opened.
    dress: Dress,
    open: Option<(Arc<HashLog>, Blocking)>,
    /// After each change that was acknowledged, and after one more that may be under way.
    states: Vec<State>,
    acknowledged: usize,
    /// Loss of power, or of the machine, leaves at least this one.
    durable: usize,
    /// What is asked for where a step says `Disk`.
    survives: Durability,
    has_passing: bool,
    next_value: u64,
    settings: Settings,
}

impl Run {
    /// Nothing is there, and nothing open.
    pub(crate) fn new(memory: Memory) -> Self {
        Self::dressed(memory, Arc::new(|memory| Arc::new(memory)))
    }

    /// The same with other storage before the memory.
    pub(crate) fn dressed(memory: Memory, dress: Dress) -> Self {
        let states = vec![State::new()];
        let (acknowledged, durable, has_passing, next_value) = (0, 0, false, 0);
        let (survives, settings) = (Durability::Disk, tiny());
        let open = None;
        Self {
            memory,
            dress,
            open,
            states,
            acknowledged,
            durable,
            survives,
            has_passing,
            next_value,
            settings,
        }
    }

    /// The same for storage that other machines reach: what is promised survives this one.
    pub(crate) fn shared(self) -> Self {
        Self { survives: Durability::Shared, ..self }
    }

    /// The same with other storage before the memory.
    pub(crate) fn redressed(self, dress: Dress) -> Self {
        Self { dress, ..self }
    }

    /// The same with these settings.
    pub(crate) fn with_settings(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }

    /// The same with less memory than the log takes, and an index so small that what finds cold
    /// records soon goes to the device.
    pub(crate) fn with_few_entries(self) -> Self {
        let settings = Settings { memory_bytes: 4 << 20, ..self.settings }.with_engine(|hash| {
            hash.index_bytes_max = 64 << 10;
            hash.read_cache_bytes = 0;
        });
        Self { settings, ..self }
    }

    pub(crate) fn open(&mut self) -> Result<()> {
        let storage = (self.dress)(self.memory.clone());
        let hash = open(storage, Arc::new(ManualClock::new(1)), false, self.settings.clone())?;
        let append = KeyspaceSettings { merge_operator: Some(APPEND.to_owned()), ..Default::default() };
        hash.create_keyspace(SPACES[1], append)?;
        self.has_passing = hash.keyspace(SPACES[2]).is_some();
        let session = Blocking::new(hash.session());
        self.open = Some((hash, session));
        Ok(())
    }

    /// The same on the memory alone.
    pub(crate) fn undressed(self) -> Self {
        Self { dress: Arc::new(|memory| Arc::new(memory)), ..self }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub(crate) fn close(&mut self) -> Result<()> {
        let (hash, session) = self.open.take().expect("an open database");
        drop(session);
        hash.close()?;
        self.durable = self.acknowledged;
        Ok(())
    }

    /// The database, which is open.
    pub(crate) fn hash(&self) -> Arc<HashLog> {
        Arc::clone(&self.open.as_ref().expect("an open database").0)
    }

    fn id(&self, space: u8) -> Option<KeyspaceId> {
        self.hash().keyspace(SPACES[usize::from(space)])
    }

    /// Does `steps` until one fails.
    pub(crate) fn play(&mut self, steps: &[Step]) -> Result<()> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Write(parts, durability) => self.write(parts, *durability),
            Step::Add(key, durability) => {
                let mut state = self.latest().clone();
                let value = state.entry((0, *key)).or_insert(vec![0; 8]);
                let sum = u64::from_le_bytes(value.as_slice().try_into().expect("a number")) + 7;
                *value = sum.to_le_bytes().to_vec();
                self.change(state, *durability, |session, options| {
                    session.rmw(KEYSPACE_DEFAULT, &[*key], Rmw::Add(7), options).map(|_| ())
                })
            }
            Step::Merge(key, durability) => {
                let (mut state, operand) = (self.latest().clone(), self.value(9));
                state.entry((1, *key)).or_default().extend_from_slice(&operand);
                let id = self.id(1).expect("made when it was opened");
                self.change(state, *durability, |session, options| {
                    session.merge(id, &[*key], &operand, options).map(|_| ())
                })
            }
            Step::Passing(is_there) => {
                // What was written before survives, so that each state is one after the other.
                self.sync()?;
                self.pass(*is_there)
            }
            Step::Checkpoint => self.hash().flush().map(|()| self.durable = self.acknowledged),
            Step::Sync => self.sync(),
            Step::Work => self.hash().step().map(|_| ()),
            Step::Churn => self.churn(),
            Step::Reopen => {
                self.close()?;
                self.open()
            }
        }
    }

    fn churn(&mut self) -> Result<()> {
        let (hash, session) = self.open.as_mut().expect("an open database");
        let options = WriteOptions { durability: Some(Durability::Checkpoint), expires_at_ms: 0 };
        for number in 0..140_u8 {
            session.put(KEYSPACE_DEFAULT, &[251, number], &[number], options)?;
        }
        for number in 0..48_u8 {
            session.put(KEYSPACE_DEFAULT, &[250, number % 24], &[number; 120_000], options)?;
            while number % 8 == 7 && hash.step()? {}
        }
        hash.flush()?;
        self.durable = self.acknowledged;
        while hash.step()? {}
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        match self.survives {
            Durability::Shared => self.hash().flush()?,
            _ => self.hash().sync().map(|_| ())?,
        }
        self.durable = self.acknowledged;
        Ok(())
    }

    fn pass(&mut self, is_there: bool) -> Result<()> {
        let hash = self.hash();
        let mut state = self.latest().clone();
        match (is_there, self.id(2)) {
            (true, None) => hash.create_keyspace(SPACES[2], KeyspaceSettings::default()).map(|_| ())?,
            (false, Some(id)) => {
                state.retain(|(space, _), _| *space != 2);
                self.change(state, Durability::Disk, |_, _| hash.drop_keyspace(id))?;
            }
            _ => {}
        }
        self.has_passing = is_there;
        Ok(())
    }

    fn write(&mut self, parts: &[(u8, u8, Option<usize>)], durability: Durability) -> Result<()> {
        let (mut batch, mut state) = (Batch::new(), self.latest().clone());
        for (space, key, bytes) in parts {
            let Some(keyspace) = self.id(*space) else { continue };
            let value = bytes.map(|bytes| self.value(bytes));
            match &value {
                Some(value) => state.insert((*space, *key), value.clone()),
                None => state.remove(&(*space, *key)),
            };
            let kind = if value.is_some() { OpKind::Put } else { OpKind::Delete };
            let value = value.as_deref().unwrap_or_default();
            batch.push(Op { keyspace, kind, key: &[*key], value, expires_at_ms: 0 });
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.change(state, durability, |session, options| session.write(&batch, options).map(|_| ()))
    }

    /// A value unlike all others of its length.
    fn value(&mut self, bytes: usize) -> Vec<u8> {
        self.next_value += 1;
        let mut value = vec![0; bytes];
        fastrand::Rng::with_seed(self.next_value).fill(&mut value);
        value
    }

    fn latest(&self) -> &State {
        self.states.last().expect("the empty one")
    }

    fn change(
        &mut self,
        state: State,
        durability: Durability,
        change: impl FnOnce(&mut Blocking, WriteOptions) -> Result<()>,
    ) -> Result<()> {
        self.states.push(state);
        let durability = if durability == Durability::Disk { self.survives } else { durability };
        let (_, session) = self.open.as_mut().expect("an open database");
        change(session, WriteOptions { durability: Some(durability), expires_at_ms: 0 })?;
        self.acknowledged = self.states.len() - 1;
        if durability == self.survives {
            self.durable = self.acknowledged;
        }
        Ok(())
    }

    /// What the database holds.
    pub(crate) fn content(&mut self) -> Result<State> {
        let (hash, session) = self.open.as_mut().expect("an open database");
        let mut state = State::new();
        for (space, name) in (0..).zip(SPACES) {
            let Some(id) = hash.keyspace(name) else { continue };
            for key in 0..KEYS {
                if let Some(value) = session.get(ReadAt::Latest, id, &[key])? {
                    state.insert((space, key), value);
                }
            }
        }
        Ok(state)
    }

    /// A run that goes on with what `crash` left, on the memory `left`.
    pub(crate) fn after(&self, crash: Crash, left: Memory) -> Self {
        let floor = if crash == Crash::Kill { self.acknowledged } else { self.durable };
        Self {
            memory: left,
            dress: Arc::clone(&self.dress),
            open: None,
            states: self.states.clone(),
            acknowledged: floor,
            durable: self.durable,
            survives: self.survives,
            has_passing: self.has_passing,
            next_value: self.next_value + 1000,
            settings: self.settings.clone(),
        }
    }

    /// Opens what a crash left: everything that was promised is there, and what was written is a
    /// prefix of all that was.
    pub(crate) fn recover(&mut self, crash: Crash) -> std::result::Result<(), String> {
        self.open().map_err(|error| format!("open: {error:?}"))?;
        let found = self.content().map_err(|error| format!("read: {error:?}"))?;
        let last = self.states.len() - 1;
        let Some(at) = (self.acknowledged..=last).rev().find(|at| self.states[*at] == found) else {
            let differences: Vec<_> =
                (self.acknowledged..=last).map(|at| self.difference(at, &found)).collect();
            return Err(format!("none of {} states: {differences:?}", differences.len()));
        };
        self.states.truncate(at + 1);
        self.acknowledged = at;
        self.durable = if crash == Crash::Kill { self.durable.min(at) } else { at };
        Ok(())
    }

    fn difference(&self, at: usize, found: &State) -> Vec<(u8, u8)> {
        let state = &self.states[at];
        let keys = state.keys().chain(found.keys());
        let mut keys: Vec<_> = keys.filter(|key| state.get(key) != found.get(key)).copied().collect();
        keys.dedup();
        keys
    }

    /// After a change that failed: the database holds what was before it, or what is after it, and
    /// goes on from there. Where it does not go on (`is_final`), what was refused may yet be found
    /// by the next opening.
    pub(crate) fn settle(&mut self, is_final: bool) -> std::result::Result<(), String> {
        // Reads may be what fails next.
        let found = (0..READS_MAX).find_map(|_| self.content().ok()).ok_or("reads go on to fail")?;
        let last = self.states.len() - 1;
        let Some(at) = (self.acknowledged..=last).rev().find(|at| self.states[*at] == found) else {
            return Err(format!("neither of {last} states: {:?}", self.difference(last, &found)));
        };
        if !is_final {
            self.states.truncate(at + 1);
        }
        Ok(())
    }

    /// What was acknowledged last.
    pub(crate) fn right(&self) -> &State {
        &self.states[self.acknowledged]
    }

    /// What was so before.
    pub(crate) fn states_before(&self) -> Vec<State> {
        self.states[..self.acknowledged].to_vec()
    }
}
