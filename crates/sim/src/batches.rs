//! Batches that cross keyspaces, with kills and power losses: all or nothing, prefix always.
//!
//! Batch number `n` is a function of `n` alone and touches three keyspaces, so the number found
//! after a crash says what everything must be. A life is: open, write batches until the machine
//! stops, crash. Lives follow each other on one storage.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use firn_engine::blocking::Blocking;
use firn_engine::{Batch, Durability, KeyspaceId, Result, WriteOptions};
use firn_storage::backend::{Crash, Memory};
use firn_storage::{Clock, ManualClock};

use crate::model::shown;
use crate::ops::{space_name, space_settings};
use crate::runner::Stop;
use crate::runner::caught;
use crate::sessions;
use crate::world::{Knobs, Opened, World};

/// The keyspaces every batch touches, by script number.
const SPACES: [u8; 3] = [0, 1, 3];
/// A key is overwritten after this many batches.
const SLOTS: u64 = 64;
/// Batches between crashes, about.
const LIFE_BATCHES: u64 = 120;
/// Where each batch leaves its number.
const LAST: &[u8] = b"last";

/// What was done, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Batches acknowledged.
    pub batch_count: u64,
    /// Processes killed.
    pub kill_count: u64,
    /// Powers lost.
    pub power_loss_count: u64,
    /// Batches that power losses took, none of them acknowledged at `Disk`.
    pub lost_count: u64,
}

/// A keyspace (as an index of `SPACES`) and a key.
type Spot = (u8, Vec<u8>);
type State = BTreeMap<Spot, Vec<u8>>;

/// Writes at least `count` batches in lives that all follow from `seed`; `progress` hears the
/// totals after each.
pub fn check(
    world: &dyn World,
    seed: u64,
    count: u64,
    progress: &mut dyn FnMut(&Totals),
) -> std::result::Result<Totals, String> {
    let mut totals = Totals::default();
    let mut rng = Rng::with_seed(seed ^ 0x6261_7463);
    let mut run =
        Run { world, memory: Memory::new(), clock: Arc::new(ManualClock::new(1)), next: 1, durable: 0 };
    let mut life = 0;
    while totals.batch_count < count {
        life += 1;
        caught(|| run.life(&mut rng, &mut totals)).map_err(|what| {
            format!(
                "life {life}: {what}\ncargo x sim batches --world {} --seed {seed} --count {count}",
                world.name()
            )
        })?;
        progress(&totals);
    }
    Ok(totals)
}

struct Run<'w> {
    world: &'w dyn World,
    memory: Memory,
    clock: Arc<ManualClock>,
    /// Number of the next batch; all smaller ones were acknowledged.
    next: u64,
    /// Batches up to this one survive power loss.
    durable: u64,
}

impl Run<'_> {
    fn life(&mut self, rng: &mut Rng, totals: &mut Totals) -> std::result::Result<(), Stop> {
        let knobs = Knobs::draw(rng.u64(0..32)).stepped();
        let is_power = rng.bool();
        let crash = if is_power { Crash::PowerLoss { seed: rng.u64(..) } } else { Crash::Kill };
        let cut = self.memory.operations() + rng.u64(1..LIFE_BATCHES * 2);
        self.memory.cut_write_at(cut, rng.usize(0..4096));
        let begun = self.next;
        let written = self.write_until_gone(&knobs, rng);
        totals.batch_count += self.next - begun;
        match written {
            Ok(()) => {}
            Err(_) if self.memory.cut_operation().is_some() => {}
            Err(error) => return Err(Stop::Violation(format!("batch {}: {error} ({error:?})", self.next))),
        }
        self.memory = self.memory.crash(crash);
        let last = self.recovered(&knobs)?;
        let floor = if is_power { self.durable } else { self.next - 1 };
        // The batch under way when the machine stopped may be there.
        if last < floor || last > self.next {
            let text =
                format!("{crash:?}: batch {last} is the last, promised were {floor}, begun {}", self.next);
            return Err(Stop::Violation(text));
        }
        totals.lost_count += (self.next - 1).saturating_sub(last);
        totals.kill_count += u64::from(!is_power);
        totals.power_loss_count += u64::from(is_power);
        self.next = last + 1;
        // What a kill left is as durable as it was before (decision 0003).
        self.durable = if is_power { last } else { self.durable.min(last) };
        Ok(())
    }

    fn open(&self, knobs: &Knobs) -> Result<(Opened, Vec<KeyspaceId>)> {
        let opened =
            self.world.open(Arc::new(self.memory.clone()), knobs, self.clock.clone() as Arc<dyn Clock>)?;
        let create = |space: &u8| opened.engine.create_keyspace(space_name(*space), space_settings(*space));
        let ids = SPACES.iter().map(create).collect::<Result<_>>()?;
        Ok((opened, ids))
    }

    fn write_until_gone(&mut self, knobs: &Knobs, rng: &mut Rng) -> Result<()> {
        let (mut opened, ids) = self.open(knobs)?;
        let mut session = Blocking::new(opened.engine.session());
        let mut batch = Batch::new();
        while self.memory.cut_operation().is_none() {
            batch.clear();
            for ((space, key), value) in changes(self.next) {
                let id = ids[usize::from(space)];
                match value {
                    Some(value) => _ = batch.put(id, &key, &value),
                    None => _ = batch.delete(id, &key),
                }
            }
            let is_disk = rng.u8(0..8) == 0;
            let durability = is_disk.then_some(Durability::Disk);
            session.write(&batch, WriteOptions { durability, expires_at_ms: 0 })?;
            if is_disk || knobs.durability >= Durability::Disk {
                self.durable = self.next;
            }
            self.next += 1;
            if rng.u8(0..40) == 0 {
                opened.engine.flush()?;
                self.durable = self.next - 1;
            }
            for _ in 0..rng.u32(0..=knobs.steps_max) {
                (opened.step)()?;
            }
        }
        Ok(())
    }

    /// Opens what is left; the number of the last batch, everything being just as it was after that
    /// one.
    fn recovered(&self, knobs: &Knobs) -> std::result::Result<u64, Stop> {
        let failed =
            |error: firn_engine::Error| Stop::Violation(format!("recovery failed: {error} ({error:?})"));
        let (opened, ids) = self.open(knobs).map_err(failed)?;
        let keys: Vec<Vec<u8>> = (0..SLOTS).map(slot).chain([LAST.to_vec()]).collect();
        let mut content = sessions::content(&opened.engine, &keys).map_err(failed)?;
        let mut found = State::new();
        for space in 0..ids.len() as u8 {
            let records = content.remove(space_name(SPACES[usize::from(space)])).unwrap_or_default();
            found.extend(records.into_iter().map(|(key, value)| ((space, key), value)));
        }
        let last = found
            .get(&(0, LAST.to_vec()))
            .and_then(|number| Some(u64::from_le_bytes(number.get(..8)?.try_into().ok()?)));
        let last = last.unwrap_or(0);
        let expected = state(last);
        if found == expected {
            return Ok(last);
        }
        let keys = found.keys().chain(expected.keys());
        let mut wrong = keys.filter(|key| found.get(*key) != expected.get(*key));
        let text = wrong.next().map_or_else(String::new, |(space, key)| {
            let show =
                |state: &State| state.get(&(*space, key.clone())).map_or("nothing".into(), |v| shown(v));
            format!("keyspace {space} {}: found {}, expected {}", shown(key), show(&found), show(&expected))
        });
        Err(Stop::Violation(format!("batch {last} is the last, but it is torn: {text}")))
    }
}

/// What batch `number` does: values by (keyspace, key), `None` = deletes.
fn changes(number: u64) -> Vec<(Spot, Option<Vec<u8>>)> {
    let mut rng = Rng::with_seed(number);
    let mut changes = Vec::new();
    for space in 0..SPACES.len() as u8 {
        let mut value = number.to_le_bytes().to_vec();
        value.resize(rng.usize(8..700), space);
        changes.push(((space, LAST.to_vec()), Some(number.to_le_bytes().to_vec())));
        changes.push(((space, slot(number)), Some(value)));
    }
    changes.push(((rng.u8(0..SPACES.len() as u8), slot(number + 13)), None));
    changes
}

fn slot(number: u64) -> Vec<u8> {
    format!("slot-{:03}", number % SLOTS).into_bytes()
}

/// Everything as it is after batch `last`: each slot was written or deleted among the last few
/// batches.
fn state(last: u64) -> State {
    let mut state = State::new();
    for number in last.saturating_sub(2 * SLOTS)..=last {
        for (place, value) in if number == 0 { Vec::new() } else { changes(number) } {
            match value {
                Some(value) => _ = state.insert(place, value),
                None => _ = state.remove(&place),
            }
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Fault;
    use crate::world::ReferenceWorld;

    #[test]
    fn the_reference_keeps_batches_whole() {
        let totals = check(&ReferenceWorld::default(), 1, 3000, &mut |_| {}).unwrap();
        assert!(totals.kill_count > 5 && totals.power_loss_count > 5, "{totals:?}");
        assert!(totals.lost_count > 0, "no power loss took anything: it tests nothing ({totals:?})");
    }

    #[test]
    fn torn_and_lost_batches_are_noticed() {
        for fault in [Fault::HalfBatch, Fault::SkipSync, Fault::LateJournal(1), Fault::SwapLast] {
            let checked = check(&ReferenceWorld { fault: Some(fault) }, 1, 3000, &mut |_| {});
            let what = checked.expect_err("a broken engine went unnoticed");
            println!("{fault:?}: {what}");
        }
    }
}
