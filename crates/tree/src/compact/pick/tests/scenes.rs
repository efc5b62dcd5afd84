//! Choices as text, in `compact/pick/scenes`.
//!
//! ```text
//! levels                       tables, one a line: `0.2 a-f` is in sorted run 2 of level 0
//! pick, hiding, expired, kept  what the picker of that name chooses
//! reads                        the same for what reads have lost, `lost_bytes`
//! deletes                      the same for lines `6 a-f values=900`: bytes of hidden blobs
//! range                        everything from the argument `from` to `to` or `through`
//! ```
//! A table has 100 bytes unless its line says more of it. A choice is asked for with those
//! [`PickRules`] that are limited, and with a line `busy 6 a-f` for each busy table.

use std::iter::repeat_n;
use std::path::Path;
use std::str::FromStr;

use super::super::{Overlap, deepest, overlaps, pick_for_deletes};
use super::*;
use crate::compact::expired::pick_expired;
use crate::compact::kept::pick_kept;
use crate::compact::seeks::pick_for_reads;
use crate::version::observed::PartlyHidden;
use crate::version::observed::Seeks;

#[path = "../../../../../jobs/tests/it/scenes.rs"]
mod script;

use script::Command;

/// Rules that allow everything, so that only what a scene limits is chosen.
const UNLIMITED: PickRules = PickRules {
    depth_max: usize::MAX,
    depth_mean_max: f64::INFINITY,
    share_max: f64::INFINITY,
    level_bytes_min: u64::MAX,
    ..RULES
};

#[derive(Default)]
struct Scene {
    levels: Levels,
}

#[test]
fn choices_are_those_that_their_scenes_show() {
    script::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/compact/pick/scenes"), Scene::answer);
}

impl Scene {
    fn answer(&mut self, command: &Command<'_>) -> String {
        let asked = Asked::of(command);
        let Asked { rules, busy, .. } = &asked;
        let choice = match command.name {
            "levels" => {
                self.levels = Levels::default();
                command.input.iter().for_each(|line| self.add(line));
                return self.picture() + &self.overlaps(rules);
            }
            "pick" => pick(&self.levels, rules, busy),
            "hiding" => pick_hiding(&self.levels, rules, busy),
            "expired" => pick_expired(&self.levels, rules, busy),
            "kept" => pick_kept(&self.levels, rules, busy),
            "reads" => pick_for_reads(&self.levels, rules, busy, &asked.seeks()),
            "deletes" => {
                let table = |name: &str| self.levels.tables().find(|(_, table)| table.meta().file == name);
                let part = |(name, value_bytes): &(String, u64)| PartlyHidden {
                    table: Arc::downgrade(table(name).expect("a table of `levels`").1),
                    value_bytes: *value_bytes,
                };
                let partly: Vec<_> = asked.values.iter().map(part).collect();
                pick_for_deletes(&self.levels, rules, busy, &partly)
            }
            "range" => pick_range(&self.levels, &asked.from, asked.to.as_deref(), rules),
            other => panic!("no command `{other}`"),
        };
        choice.map_or_else(|| "nothing".to_owned(), |choice| shown(&choice))
    }

    /// Adds the table that a line tells of.
    fn add(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [place, keys, attributes @ ..] = &words[..] else { panic!("no table: `{line}`") };
        let (level, run) = place.split_once('.').unwrap_or((place, "0"));
        let (smallest, largest) = keys.split_once('-').expect("keys `a-f`");
        let plain = table(format!("{place} {keys}"), smallest.as_bytes(), largest.as_bytes(), 100, 0.0);
        let (mut meta, mut superseded) = (plain.meta().clone(), 0);
        let mut reader = Arc::clone(plain.reader());
        for (key, value) in attributes.iter().map(|word| word.split_once('=').expect("an attribute")) {
            match key {
                "bytes" => meta.bytes = number(value),
                "superseded" => superseded = number(value),
                "newest" => meta.sequence_max = Sequence(number(value)),
                "tombstones" => {
                    let (tombstones, entries) = value.split_once('/').expect("of how many entries");
                    (meta.tombstone_count, meta.entry_count) = (number(tombstones), number(entries));
                }
                "expires" => {
                    let parts = value.split(',').map(|part| part.split_once('@').expect("how many, when"));
                    let times = parts.flat_map(|(count, time)| repeat_n(number(time), number(count)));
                    reader = expired::expiring(&times.collect::<Vec<u64>>());
                }
                other => panic!("no attribute `{other}`"),
            }
        }
        let supersedes = (superseded as f64 / meta.bytes as f64, superseded);
        let table = Arc::new(Table::new(meta, reader, supersedes, Arc::default()));
        self.levels.add(number(level), number(run), table);
    }

    /// A line for each sorted run, with the first letters of its tables' bounds.
    fn picture(&self) -> String {
        let mut picture = format!("     {}\n", ('a'..='z').collect::<String>());
        let deeper = (1..).zip(&self.levels.deeper).map(|(level, run)| (level.to_string(), run));
        let level0 = self.levels.level0.iter().map(|run| (format!("0.{}", run.number), run));
        for (name, run) in level0.chain(deeper).filter(|(_, run)| !run.tables.is_empty()) {
            let mut line = [b' '; 26];
            for table in &run.tables {
                let column = |key: &[u8]| usize::from(key.first().map_or(0, |letter| letter - b'a'));
                let (first, last) = (column(&table.meta().smallest), column(&table.meta().largest));
                line[first..=last].fill(b'-');
                (line[first], line[last]) = if first == last { (b'|', b'|') } else { (b'[', b']') };
            }
            picture += format!("{name:5}{}", String::from_utf8_lossy(&line)).trim_end();
            picture.push('\n');
        }
        picture
    }

    /// The base level, and what the overlaps of level 0 with it are.
    fn overlaps(&self, rules: &PickRules) -> String {
        let base = base_level(&self.levels, rules);
        let shown = |overlap: &Overlap| {
            let tables = || overlap.tables.iter().map(|(_, _, table)| table.meta());
            let smallest = tables().map(|meta| String::from_utf8_lossy(&meta.smallest)).min().unwrap();
            let largest = tables().map(|meta| String::from_utf8_lossy(&meta.largest)).max().unwrap();
            let (level0, depth) = (overlap.level0_bytes(), overlap.depth());
            let below = overlap.bytes() - level0;
            let superseded = match overlap.superseded_bytes() {
                0 => String::new(),
                superseded => format!(", {superseded} superseded"),
            };
            format!("\noverlap {smallest}-{largest}: depth {depth}, {level0} bytes over {below}{superseded}")
        };
        let overlaps = overlaps(&self.levels, base);
        assert_eq!(deepest(&self.levels, rules), overlaps.iter().map(Overlap::depth).max().unwrap_or(0));
        format!("base level {base}{}", overlaps.iter().map(shown).collect::<String>())
    }
}

/// What a choice is asked for with.
struct Asked {
    rules: PickRules,
    busy: BTreeSet<String>,
    lost_bytes: u64,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    /// Tables, and bytes of hidden blobs that each refers to.
    values: Vec<(String, u64)>,
}

impl Asked {
    fn of(command: &Command<'_>) -> Self {
        let (from, to, values) = (Vec::new(), None, Vec::new());
        let mut asked = Self { rules: UNLIMITED, busy: busy(&[]), lost_bytes: 0, from, to, values };
        for argument in &command.arguments {
            let (key, value) = argument.split_once('=').unwrap_or((argument, ""));
            let rules = &mut asked.rules;
            match key {
                "depth_max" => rules.depth_max = number(value),
                "depth_mean_max" => rules.depth_mean_max = number(value),
                "share_max" => rules.share_max = number(value),
                "stay_max" => rules.stay_max = number(value),
                "level_bytes_min" => rules.level_bytes_min = number(value),
                "read_price" => rules.read_price = number(value),
                "l0_only" => rules.l0_only = true,
                "room_bytes" => rules.room_bytes = number(value),
                "now_ms" => rules.now_ms = number(value),
                "oldest_snapshot" => rules.oldest_snapshot = Sequence(number(value)),
                "lost_bytes" => asked.lost_bytes = number(value),
                "from" => asked.from = value.as_bytes().to_vec(),
                "to" => asked.to = Some(value.as_bytes().to_vec()),
                "through" => asked.to = Some([value.as_bytes(), &[0]].concat()),
                other => panic!("no argument `{other}`"),
            }
        }
        for line in command.input.iter().filter(|_| command.name != "levels") {
            match (line.strip_prefix("busy "), line.split_once(" values=")) {
                (Some(name), _) => drop(asked.busy.insert(name.to_owned())),
                (None, Some((name, bytes))) => asked.values.push((name.to_owned(), number(bytes))),
                (None, None) => panic!("neither busy nor with values: `{line}`"),
            }
        }
        asked
    }

    fn seeks(&self) -> Seeks {
        let seeks = Seeks::default();
        seeks.add(1 << 30, true);
        seeks.pay(seeks.lost_bytes(u64::MAX) - self.lost_bytes, 1.0);
        seeks
    }
}

/// What is done with which tables, and how urgent that is where it may be weighed against others.
fn shown(choice: &Choice) -> String {
    let what = match (choice.moves, choice.output_level) {
        (true, level) => format!("move to level {level}"),
        (false, 0) => format!("rewrite inside level 0 as sorted run {}", choice.output_run),
        (false, level) => format!("rewrite into level {level}"),
    };
    let at_once = choice.score >= f64::MAX;
    let urgency = if at_once { String::new() } else { format!("urgency {:.2}: ", choice.score) };
    format!("{urgency}{what}: {}", names(choice).join(", "))
}

fn number<T: FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("no number: `{text}`"))
}
