//! What picking costs: a keyspace of records of one byte, filled and overwritten, with no file ever
//! written.

use firn_format::Sequence;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::super::{Choice, PickRules, flush_table_bytes, pick, pick_range, splits};
use super::{names, table};
use crate::compact::range::{above, pieces};
use crate::memory::flush_bytes;
use crate::version::Levels;

/// Which keys are written.
#[derive(Clone, Copy, Debug)]
enum Writes {
    /// Each key once, in random order.
    Load,
    /// Any key.
    Uniform,
    /// Few keys often, by Zipf's law with exponent 0.99.
    Zipfian,
}

/// A keyspace of records that each weigh [`RECORD`].
struct Model {
    random: fastrand::Rng,
    rules: PickRules,
    keys: u32,
    buffer: usize,
    log: VecDeque<u32>,
    levels: Levels,
    held: BTreeMap<String, Vec<u32>>,
    live: BTreeSet<u32>,
    zeta: f64,
    files: u64,
    flushes: u64,
    /// Where the next flush is cut: it began before the latest compactions ended.
    splits: Vec<Vec<u8>>,
    cost: Cost,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    written: u64,
    flushed: u64,
    compacted: u64,
    /// Most bytes of tables for each byte of the newest versions, inputs of a compaction included.
    space_max: f64,
    /// Most sorted runs of level 0 over one key, and the mean after each flush.
    depth_max: usize,
    depth_sum: f64,
    samples: u64,
}

impl Cost {
    /// Bytes written, to the log too, for each byte of records.
    fn amplification(&self) -> f64 {
        1.0 + (self.flushed + self.compacted) as f64 / self.written as f64
    }

    fn depth_mean(&self) -> f64 {
        self.depth_sum / self.samples.max(1) as f64
    }
}

const RECORD: u64 = 16 << 10;

impl Model {
    fn new(keys: u32, ratio: u32, rules: PickRules) -> Self {
        let zeta = (1..=keys).map(|rank| 1.0 / f64::from(rank).powf(0.99)).sum();
        Self {
            random: fastrand::Rng::with_seed(7),
            rules,
            keys,
            buffer: (keys / ratio) as usize,
            log: VecDeque::new(),
            levels: Levels::default(),
            held: BTreeMap::new(),
            live: BTreeSet::new(),
            zeta,
            files: 0,
            flushes: 0,
            splits: Vec::new(),
            cost: Cost::default(),
        }
    }

    fn run(&mut self, writes: Writes, count: u32) -> Cost {
        self.cost = Cost::default();
        let mut order: Vec<u32> = (0..self.keys).collect();
        self.random.shuffle(&mut order);
        for index in 0..count {
            let key = match writes {
                Writes::Load => order[index as usize],
                Writes::Uniform => self.random.u32(..self.keys),
                Writes::Zipfian => order[self.zipfian() as usize],
            };
            self.log.push_back(key);
            self.cost.written += 1;
            if self.log.len() > self.buffer {
                self.flush();
                self.compact();
                self.sample();
            }
        }
        self.cost
    }

    /// A rank below `keys`, as YCSB draws it.
    fn zipfian(&mut self) -> u32 {
        let (n, theta) = (f64::from(self.keys), 0.99);
        let uz = self.random.f64() * self.zeta;
        let second = 1.0 + 0.5_f64.powf(theta);
        if uz < 1.0 {
            return 0;
        }
        if uz < second {
            return 1;
        }
        let eta = (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - second / self.zeta);
        let rank = n * (eta * uz / self.zeta - eta + 1.0).powf(1.0 / (1.0 - theta));
        (rank as u32).min(self.keys - 1)
    }

    /// The oldest runs become a sorted run; the newest quarter of the buffer is never frozen yet.
    fn flush(&mut self) {
        let enough = flush_bytes(self.buffer as u64) as usize;
        let frozen = self.log.len() * 7 / 8;
        let mut keys = BTreeSet::new();
        let mut taken = 0;
        while taken < frozen && keys.len() < enough {
            keys.insert(self.log[taken]);
            taken += 1;
        }
        self.log.drain(..taken);
        let known = keys.iter().filter(|key| self.live.contains(key)).count();
        let overwrites = known as f64 / keys.len() as f64;
        self.live.extend(&keys);
        self.flushes += 1;
        self.cost.flushed += keys.len() as u64;
        let bytes = keys.len() as u64 * RECORD;
        let size = (flush_table_bytes(&self.levels, bytes, &self.rules) / RECORD) as usize;
        let next = self.splits_now();
        let splits = std::mem::replace(&mut self.splits, next);
        let keys: Vec<u32> = keys.into_iter().collect();
        self.add(0, self.flushes, &keys, overwrites, &splits, size);
    }

    fn splits_now(&self) -> Vec<Vec<u8>> {
        splits(&self.levels, &self.rules)
    }

    fn add(
        &mut self,
        level: u32,
        run: u64,
        keys: &[u32],
        overwrites: f64,
        splits: &[Vec<u8>],
        records_max: usize,
    ) {
        let cuts: Vec<u32> =
            splits.iter().map(|split| u32::from_be_bytes(split[..4].try_into().unwrap())).collect();
        let part = |key: u32| cuts.partition_point(|cut| *cut <= key);
        for same in keys.chunk_by(|a, b| part(*a) == part(*b)) {
            for keys in same.chunks(records_max) {
                self.files += 1;
                let name = format!("{:08}", self.files);
                let (first, last) = (keys[0].to_be_bytes(), keys[keys.len() - 1].to_be_bytes());
                let table = table(name.clone(), &first, &last, keys.len() as u64 * RECORD, overwrites);
                self.levels.add(level, run, table);
                self.held.insert(name, keys.to_vec());
            }
        }
    }

    fn compact(&mut self) {
        while let Some(choice) = pick(&self.levels, &self.rules, &BTreeSet::new()) {
            let before = self.table_records_held();
            if choice.moves {
                for (_, _, input) in &choice.inputs {
                    self.levels.remove(&input.meta().file);
                    self.levels.add(choice.output_level, 0, Arc::clone(input));
                }
                continue;
            }
            let output = self.rewrite(&choice, &[]);
            let space = (before + output) as f64 / self.live.len() as f64;
            self.cost.space_max = self.cost.space_max.max(space);
        }
    }

    fn rewrite(&mut self, choice: &Choice, cuts: &[Vec<u8>]) -> usize {
        let mut splits = self.splits_now();
        splits.extend_from_slice(cuts);
        splits.sort_unstable();
        let mut keys = BTreeSet::new();
        for name in names(choice) {
            self.levels.remove(name);
            keys.extend(self.held.remove(name).unwrap());
        }
        let keys: Vec<u32> = keys.into_iter().collect();
        self.cost.compacted += keys.len() as u64;
        let records = (choice.table_bytes(self.rules.table_bytes, &splits) / RECORD) as usize;
        let share = match choice.output_level {
            0 => choice.superseded_bytes() as f64 / choice.input_bytes().max(1) as f64,
            _ => 0.0,
        };
        self.add(choice.output_level, choice.output_run, &keys, share, &splits, records.max(1));
        keys.len()
    }

    /// Records in tables for each key there is.
    fn space(&self) -> f64 {
        self.table_records_held() as f64 / self.live.len() as f64
    }

    fn table_records_held(&self) -> usize {
        self.held.values().map(Vec::len).sum()
    }

    fn sample(&mut self) {
        let mut depths = Vec::new();
        for key in (0..self.keys).step_by(self.keys as usize / 64) {
            let key = key.to_be_bytes();
            depths.push(self.levels.level0.iter().filter(|run| run.spanning(&key).next().is_some()).count());
        }
        self.cost.depth_max = self.cost.depth_max.max(depths.iter().copied().max().unwrap_or(0));
        self.cost.depth_sum += depths.iter().sum::<usize>() as f64 / depths.len() as f64;
        self.cost.samples += 1;
    }
}

/// The limits that the default settings give where the buffer has so many bytes.
fn rules(buffer: u64, tables_per_buffer: f64) -> PickRules {
    PickRules {
        depth_max: 12,
        depth_mean_max: 6.0,
        share_max: 0.25,
        stay_max: 1.0,
        table_bytes: (buffer as f64 / tables_per_buffer) as u64,
        level_bytes_min: 16 * buffer,
        level_ratio: 10,
        read_price: 1.0,
        l0_only: false,
        room_bytes: u64::MAX,
        now_ms: 0,
        oldest_snapshot: Sequence::MAX,
    }
}

/// The keyspace after each of load, uniform and zipfian overwrites of as many records as there are
/// keys.
fn lives(ratio: u32, tables_per_buffer: f64) -> [(Cost, f64); 3] {
    let keys = 1 << 15;
    let rules = rules(u64::from(keys / ratio) * RECORD, tables_per_buffer);
    let mut model = Model::new(keys, ratio, rules);
    [Writes::Load, Writes::Uniform, Writes::Zipfian].map(|writes| {
        let cost = model.run(writes, keys);
        let (wrote, space) = (cost.amplification(), model.space());
        let (depth, depth_max) = (cost.depth_mean(), cost.depth_max);
        println!("{ratio} {tables_per_buffer} {writes:?}: writes {wrote:.2} space {space:.2}, {:.2} at most, depth {depth:.1}, {depth_max} at most", cost.space_max);
        assert!(depth <= 6.0 && depth_max <= 12, "depth {depth}, {depth_max} at most");
        assert!(space <= 1.26 && cost.space_max <= 1.5, "space {space}, {} at most", cost.space_max);
        (cost, space)
    })
}

#[track_caller]
fn assert_writes(ratio: u32, tables_per_buffer: f64, most: [f64; 3]) {
    for ((cost, _), most) in lives(ratio, tables_per_buffer).iter().zip(most) {
        let wrote = cost.amplification();
        assert!(wrote <= most, "{wrote} bytes written for each byte, more than {most}");
        // Far below the bound it would say nothing.
        assert!(wrote >= most * 0.9, "{wrote} bytes written for each byte: lower the bound of {most}");
    }
}

#[test]
fn writing_is_bounded_where_data_is_8_times_the_buffer() {
    assert_writes(8, 2.0, [2.6, 3.8, 2.7]);
    assert_writes(8, 8.0, [2.6, 3.8, 2.7]);
}

#[test]
fn writing_is_bounded_where_data_is_32_times_the_buffer() {
    assert_writes(32, 0.5, [3.7, 4.7, 3.2]);
    assert_writes(32, 2.0, [3.7, 4.7, 3.2]);
}

#[test]
fn writing_is_bounded_where_there_are_more_levels() {
    assert_writes(128, 2.0, [5.3, 6.2, 4.0]);
}

/// All of the keyspace in pieces, and the share of the largest.
fn all_in_pieces(model: &Model) -> (Vec<Choice>, f64) {
    let all = pick_range(&model.levels, &[], None, &model.rules).unwrap();
    let bytes = all.input_bytes();
    let pieces = pieces(all, 4 * model.rules.table_bytes);
    let largest = pieces.iter().map(Choice::input_bytes).max().unwrap() as f64 / bytes as f64;
    (pieces, largest)
}

#[test]
fn all_of_two_levels_is_rewritten_in_many_pieces_for_a_tenth_more() {
    let (keys, ratio) = (1 << 16, 256);
    let rules = rules(u64::from(keys / ratio) * RECORD, 2.0);
    let mut model = Model::new(keys, ratio, rules);
    for writes in [Writes::Load, Writes::Uniform, Writes::Zipfian] {
        model.run(writes, keys);
        let used = model.levels.deeper.iter().filter(|run| !run.tables.is_empty()).count();
        assert_eq!(used, 2);
        let (chained, largest_chained) = all_in_pieces(&model);
        let (overlaps, cuts) = above(&chained, model.rules.table_bytes);
        let bytes = |choices: &[Choice]| choices.iter().map(Choice::input_bytes).sum::<u64>() as f64;
        let more = bytes(&overlaps) / bytes(&chained);
        for overlap in &overlaps {
            model.rewrite(overlap, &cuts);
        }
        let (pieces, largest) = all_in_pieces(&model);
        println!(
            "{writes:?}: {} pieces, the largest {largest_chained:.2} of all; cut {more:.3}, {} pieces, {largest:.3}",
            chained.len(),
            pieces.len()
        );
        assert!(largest_chained > 0.1, "there is no need to cut: {largest_chained}");
        assert!(more < 0.15, "{more} to cut");
        assert!(pieces.len() >= 60 && largest < 0.04, "{} pieces, the largest {largest}", pieces.len());
    }
}
