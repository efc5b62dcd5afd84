//! Crash after crash: each recovery cuts the log, and what one cut away never comes back.

use firn_engine::{Durability, Engine, ReadAt, WriteOptions};
use firn_storage::backend::Crash;
use firn_tree::{Severity, Tree, VerifyOptions, verify};

use crate::support::numbered::{Both, both, found, numbered};
use crate::support::world::{World, seed, session, tiny};

/// A batch that was begun, in the order of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Begun {
    number: u32,
    /// The write was acknowledged.
    acknowledged: bool,
    /// The write was acknowledged as on the device, or found there after loss of power.
    on_device: bool,
}

/// One database and what is known of it, over many lives.
struct Life {
    world: World,
    rng: fastrand::Rng,
    /// What may still be there: every recovery must show the beginning of this.
    alive: Vec<Begun>,
    next: u32,
    cut_away: usize,
}

impl Life {
    /// Writes until enough is written or the machine goes.
    fn live(&mut self, tree: &Tree, both: Both) {
        let mut session = session(tree);
        let count = self.rng.u32(1..60);
        for _ in 0..count {
            let (number, disk) = (self.next, self.rng.u32(0..6) == 0);
            self.next += 1;
            self.alive.push(Begun { number, acknowledged: false, on_device: false });
            let (records, bytes) = match self.rng.u32(0..12) {
                0 => (2, 800_000),
                1..=4 => (30, 6000),
                _ => (self.rng.u16(1..8), self.rng.usize(2..3000)),
            };
            let durability = if disk { Durability::Disk } else { Durability::Process };
            let options = WriteOptions { durability: Some(durability), expires_at_ms: 0 };
            if session.write(&numbered(both, 0, number, records, bytes), options).is_err() {
                return;
            }
            self.acknowledge(disk);
            let moved = match self.rng.u32(0..20) {
                0 => tree.flush().map(|()| true),
                1 => tree.freeze().map(|()| false),
                2 => tree.sync().map(|_| true),
                3..=6 => tree.step().map(|_| false),
                _ => Ok(false),
            };
            match moved {
                Ok(durable) => self.acknowledge(durable),
                Err(_) => return,
            }
        }
    }

    /// All that was begun is acknowledged, and on the device if so.
    fn acknowledge(&mut self, on_device: bool) {
        for begun in &mut self.alive {
            begun.acknowledged = true;
            begun.on_device |= on_device;
        }
    }

    /// Compares what a recovery shows with what may and must be there.
    fn recover(&mut self, tree: &Tree, both: Both, crash: Crash) {
        let mut session = session(tree);
        let there = found(&mut session, ReadAt::Latest, both).remove(&0).unwrap_or_default();
        let begun: Vec<u32> = self.alive.iter().map(|begun| begun.number).collect();
        assert!(begun.starts_with(&there), "{crash:?}: {there:?} is no beginning of {begun:?}");
        let is_power_loss = matches!(crash, Crash::PowerLoss { .. });
        for lost in &self.alive[there.len()..] {
            let promised = if is_power_loss { lost.on_device } else { lost.acknowledged };
            assert!(!promised, "{crash:?}: lost {lost:?}");
        }
        self.cut_away += self.alive.len() - there.len();
        self.alive.truncate(there.len());
        // What a kill left is the kernel's still; what loss of power left is on the device.
        self.acknowledge(is_power_loss);
    }

    /// Fails if the database has any damage.
    fn check_sound(&self) {
        let storage = std::sync::Arc::new(self.world.storage.clone());
        let report = verify(VerifyOptions { storage, semantics: Default::default() }, &mut |_| {}).unwrap();
        let damage: Vec<_> =
            report.findings.iter().filter(|finding| finding.severity == Severity::Damage).collect();
        assert!(damage.is_empty(), "{damage:?}");
    }
}

/// As many lives as `lives`, each ended by a crash, sometimes in the middle of an opening.
fn run(seed: u64, lives: usize) -> usize {
    let mut life = Life {
        world: World::new(tiny()),
        rng: fastrand::Rng::with_seed(seed),
        alive: Vec::new(),
        next: 0,
        cut_away: 0,
    };
    for _ in 0..lives {
        let cut_in = match life.rng.u32(0..3) {
            0 => life.rng.u64(0..12),
            _ => life.rng.u64(12..200),
        };
        life.world.storage.cut_write_at(life.world.storage.operations() + cut_in, life.rng.usize(0..5000));
        let tree = life.world.open();
        if let Ok(tree) = &tree
            && let Ok(other) = tree.create_keyspace("other", Default::default())
        {
            life.live(tree, [firn_engine::KEYSPACE_DEFAULT, other]);
        }
        let crash = match life.rng.bool() {
            true => Crash::Kill,
            false => Crash::PowerLoss { seed: life.rng.u64(..) },
        };
        life.world = life.world.crash(crash);
        drop(tree);
        // Looked at in a copy, so that the next life begins from the very bytes that the crash
        // left.
        let copy = life.world.crash(Crash::Kill);
        let tree = copy.open().unwrap();
        life.recover(&tree, both(&tree), crash);
        if life.rng.bool() {
            // Or from a recovery that went well and then did nothing.
            drop(tree);
            life.world = copy.crash(Crash::Kill);
            life.check_sound();
        }
    }
    life.cut_away
}

#[test]
fn no_generation_loses_what_was_acknowledged_or_finds_what_was_cut() {
    let seed = seed(907);
    let cut_away: usize = (0..10).map(|run_number| run(seed + run_number, 12)).sum();
    assert!(cut_away > 20, "only {cut_away} batches were ever cut away");
}
