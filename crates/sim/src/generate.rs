//! Scripts from seeds.

use fastrand::Rng;
use firn_engine::OrderedOpKind;

use crate::ops::{KEY_COUNT, Op, Part, Record, SLOT_COUNT, SPACE_COUNT, Script, UpdateKind, Visit, key};

/// What kind of script is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Some hundred steps of everything, values up to 2 MiB.
    Everything,
    /// Some dozen steps that change something, small values, no crashes of its own: to be cut at
    /// every operation.
    Short,
    /// The few steps after a recovery.
    Tail,
}

/// The script of `seed`; the same for ever, as long as this file does not change.
pub fn script(seed: u64, profile: Profile) -> Script {
    let mut generator =
        Generator { rng: Rng::with_seed(seed ^ 0x7363_7269), profile, next_value: seed << 20 };
    let mut ops: Vec<Op> = (1..SPACE_COUNT - 1).map(Op::Create).collect();
    let count = match profile {
        Profile::Everything => generator.rng.usize(60..400),
        Profile::Short => generator.rng.usize(20..70),
        Profile::Tail => generator.rng.usize(5..25),
    };
    (0..count).for_each(|_| ops.append(&mut generator.step()));
    ops.push(Op::Verify);
    Script { seed, ops }
}

struct Generator {
    rng: Rng,
    profile: Profile,
    /// Every value gets a content of its own, so that states that differ are seen to differ.
    next_value: u64,
}

impl Generator {
    /// One operation, or one with what belongs to it.
    fn step(&mut self) -> Vec<Op> {
        match self.rng.u8(0..20) {
            0 => self.ingestion(),
            _ => vec![self.op()],
        }
    }

    fn op(&mut self) -> Op {
        let is_long = self.profile == Profile::Everything;
        match self.rng.u32(0..1000) {
            0..210 => self.write(),
            210..260 => self.transaction(),
            260..340 => self.update(),
            340..440 if is_long => Op::Get { at: self.at(), space: self.space(), key: self.key() },
            340..440 => self.write(),
            440..480 => {
                let count = self.rng.usize(0..8);
                let keys = (0..count).map(|_| self.key()).collect();
                Op::MultiGet { at: self.at(), space: self.space(), keys }
            }
            480..560 => Op::Scan { at: self.at(), visit: self.visit() },
            560..580 => Op::IterOpen { slot: self.slot(), at: self.at(), visit: self.visit() },
            580..632 => Op::IterNext(self.slot()),
            632..640 => Op::IterTurn(self.slot()),
            640..645 => Op::IterClose(self.slot()),
            645..670 => Op::SnapshotOpen(self.slot()),
            670..690 => Op::SnapshotClose(self.slot()),
            690..720 => self.transaction(),
            720..730 => Op::Verify,
            730..738 => Op::CopyDatabase,
            738..775 => Op::Flush,
            775..800 => Op::Sync,
            800..805 => Op::Idle,
            805..832 => self.compact(),
            832..840 => {
                let bytes = [0, 32, 100, 1000, u32::MAX][self.rng.usize(0..5)];
                Op::Separate { space: self.space(), bytes }
            }
            840..860 => Op::Reopen(self.rng.u64(0..1 << 20)),
            860..875 if is_long => Op::Kill,
            875..890 if is_long => Op::PowerLoss(self.rng.u64(0..1 << 20)),
            860..890 => self.write(),
            890..950 => Op::Step(self.rng.u32(1..20)),
            950..980 => Op::Advance(self.rng.u32(1..800)),
            980..992 => Op::Create(SPACE_COUNT - 1),
            _ => Op::Drop(SPACE_COUNT - 1),
        }
    }

    fn write(&mut self) -> Op {
        let disk = self.rng.u8(0..6) == 0;
        if self.rng.bool() {
            return Op::Write { parts: vec![self.part()], single: true, disk };
        }
        let count = match self.rng.u8(0..20) {
            0 => self.rng.usize(20..60),
            _ => self.rng.usize(1..8),
        };
        Op::Write { parts: (0..count).map(|_| self.part()).collect(), single: false, disk }
    }

    /// A step of a transaction. Most are short, so that some end without a conflict.
    fn transaction(&mut self) -> Op {
        let slot = self.slot();
        match self.rng.u8(0..8) {
            0..2 => Op::TransactionBegin(slot),
            2..4 => Op::TransactionGet { slot, space: self.space(), key: self.key() },
            4 => Op::TransactionScan { slot, visit: self.visit() },
            _ => {
                let parts = (0..self.rng.usize(1..5)).map(|_| self.part()).collect();
                Op::TransactionCommit { slot, parts, disk: self.rng.u8(0..6) == 0 }
            }
        }
    }

    /// An ingestion. Most are finished after some other steps; a few are dropped, or stay open.
    fn ingestion(&mut self) -> Vec<Op> {
        let slot = self.slot();
        let mut ops = vec![Op::IngestBegin { slot, space: self.space(), records: self.records() }];
        for _ in 0..self.rng.usize(0..4) {
            ops.append(&mut self.step());
        }
        match self.rng.u8(0..16) {
            0 => {}
            1 => ops.push(Op::IngestDrop(slot)),
            _ => ops.push(Op::IngestFinish(slot)),
        }
        ops
    }

    /// None, some, or records of most keys; in the order of their keys, but for a few.
    fn records(&mut self) -> Vec<Record> {
        let count = match self.rng.u8(0..16) {
            0 => 0,
            1..10 => self.rng.usize(1..8),
            _ => self.rng.usize(20..80),
        };
        let mut numbers: Vec<u16> = (0..count).map(|_| self.key()).collect();
        if self.rng.u8(0..8) > 0 {
            numbers.sort_by_key(|number| key(*number));
            numbers.dedup();
        }
        let mut records: Vec<Record> = numbers.into_iter().map(|number| self.record(number)).collect();
        if count >= 20 && self.rng.bool() {
            // Of several tables, where values are not separated.
            records.iter_mut().for_each(|record| record.bytes = record.bytes.max(self.rng.u32(3000..6000)));
        }
        records
    }

    fn record(&mut self, key: u16) -> Record {
        let mut record = Record { key, bytes: self.bytes(), seed: self.value(), ttl_ms: 0 };
        if self.rng.u8(0..6) == 0 {
            record.ttl_ms = self.rng.u32(1..2000);
            record.bytes = record.bytes.max(8);
        }
        record
    }

    fn part(&mut self) -> Part {
        let kind = match self.rng.u8(0..20) {
            0..12 => OrderedOpKind::Put,
            12..15 => OrderedOpKind::Delete,
            15..18 => OrderedOpKind::Merge,
            _ => OrderedOpKind::DeleteRange,
        };
        let mut part =
            Part { kind, space: self.space(), key: self.key(), end: 0, bytes: 0, seed: 0, ttl_ms: 0 };
        match kind {
            OrderedOpKind::Delete => {}
            // Now and then a range that is reversed or empty.
            OrderedOpKind::DeleteRange => part.end = self.key(),
            OrderedOpKind::Put => {
                part.seed = self.value();
                part.bytes = self.bytes();
                if self.rng.u8(0..6) == 0 {
                    // What expires is never empty, so that its coming and going is seen.
                    part.ttl_ms = self.rng.u32(1..2000);
                    part.bytes = part.bytes.max(8);
                }
            }
            OrderedOpKind::Merge => {
                part.seed = self.value();
                part.bytes = self.rng.u32(8..100);
                if part.space == 0 && self.rng.u8(0..8) > 0 {
                    // Refused there; once in a while is enough.
                    part.space = 1;
                }
            }
        }
        part
    }

    fn update(&mut self) -> Op {
        let kind = match self.rng.u8(0..8) {
            0 => UpdateKind::Delete,
            1 => UpdateKind::Keep,
            _ => UpdateKind::Grow,
        };
        Op::Update { space: self.space(), key: self.key(), kind, seed: self.value() }
    }

    fn compact(&mut self) -> Op {
        let space = self.space();
        let start = self.rng.bool().then(|| self.key());
        let end = self.rng.bool().then(|| self.key());
        Op::Compact { space, start, end }
    }

    fn visit(&mut self) -> Visit {
        Visit {
            space: self.space(),
            start: self.sometimes(3),
            end: self.sometimes(3),
            prefix: self.sometimes(4).map(|key| (key, self.rng.u8(0..10))),
            backward: self.rng.bool(),
            records: [1, 2, 7, 1000][self.rng.usize(0..4)],
        }
    }

    fn sometimes(&mut self, one_in: u8) -> Option<u16> {
        (self.rng.u8(0..one_in) == 0).then(|| self.key())
    }

    fn bytes(&mut self) -> u32 {
        let is_long = self.profile == Profile::Everything;
        match self.rng.u32(0..1000) {
            0..30 => 0,
            30..600 => self.rng.u32(1..64),
            600..850 => self.rng.u32(64..1024),
            850..975 if is_long => self.rng.u32(1024..16 << 10),
            975..998 if is_long => self.rng.u32(16 << 10..100 << 10),
            998.. if is_long => 2 << 20,
            _ => self.rng.u32(1024..6000),
        }
    }

    fn value(&mut self) -> u64 {
        self.next_value += 1;
        self.next_value
    }

    fn space(&mut self) -> u8 {
        self.rng.u8(0..SPACE_COUNT)
    }

    fn slot(&mut self) -> u8 {
        self.rng.u8(0..SLOT_COUNT)
    }

    fn at(&mut self) -> Option<u8> {
        (self.rng.u8(0..3) == 0).then(|| self.slot())
    }

    /// Half of the keys asked for are among a few.
    fn key(&mut self) -> u16 {
        match self.rng.bool() {
            true => self.rng.u16(0..12) * 5,
            false => self.rng.u16(0..KEY_COUNT),
        }
    }
}
