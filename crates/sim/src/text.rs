//! Scripts as text: one step a line, `#` begins a comment.
//!
//! ```text
//! # a script for firn-sim
//! seed 42
//! create 1
//! one disk put:1:17:300:9001:0          keyspace:key:bytes:seed:ttl_ms
//! batch - put:0:3:10:9002:500 delete:1:17 merge:1:4:8:9003 range:0:3:9
//! update 1 17 grow 9004
//! get - 1 17                            `-` or a snapshot slot, keyspace, key
//! scan 0 1 start=3 prefix=17:4 backward records=7
//! transaction_begin 0                   then transaction_get, transaction_scan
//! transaction_commit 0 - put:0:3:10:9005:0
//! ingest_begin 0 1 4:10:9006:0 17:10:9007:500   slot, keyspace, then key:bytes:seed:ttl_ms
//! ingest_finish 0                       or ingest_drop
//! kill
//! ```

use std::fmt;
use std::str::{FromStr, SplitWhitespace};

use firn_engine::OrderedOpKind;

use crate::ops::{Op, Part, Record, Script, UpdateKind, Visit};

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        self.ops.iter().try_for_each(|op| writeln!(f, "{op}"))
    }
}

impl FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut script = Script::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let complain = |what: String| format!("line {}: {what}: {line:?}", number + 1);
            if let Some(seed) = line.strip_prefix("seed ") {
                script.seed = seed.trim().parse().map_err(|_| complain("a bad seed".to_owned()))?;
            } else if !line.is_empty() {
                script.ops.push(line.parse().map_err(complain)?);
            }
        }
        Ok(script)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Create(space) => write!(f, "create {space}"),
            Op::Drop(space) => write!(f, "drop {space}"),
            Op::Write { parts, single, disk } => {
                write!(f, "{}", if *single { "one" } else { "batch" })?;
                write_parts(parts, *disk, f)
            }
            Op::Update { space, key, kind, seed } => write!(f, "update {space} {key} {kind} {seed}"),
            Op::Get { at, space, key } => write!(f, "get {} {space} {key}", Slot(*at)),
            Op::MultiGet { at, space, keys } => {
                write!(f, "multi_get {} {space}", Slot(*at))?;
                keys.iter().try_for_each(|key| write!(f, " {key}"))
            }
            Op::Scan { at, visit } => write!(f, "scan {} {visit}", Slot(*at)),
            Op::IterOpen { slot, at, visit } => write!(f, "iter_open {slot} {} {visit}", Slot(*at)),
            Op::IterNext(slot) => write!(f, "iter_next {slot}"),
            Op::IterTurn(slot) => write!(f, "iter_turn {slot}"),
            Op::IterClose(slot) => write!(f, "iter_close {slot}"),
            Op::SnapshotOpen(slot) => write!(f, "snapshot_open {slot}"),
            Op::SnapshotClose(slot) => write!(f, "snapshot_close {slot}"),
            Op::TransactionBegin(slot) => write!(f, "transaction_begin {slot}"),
            Op::TransactionGet { slot, space, key } => write!(f, "transaction_get {slot} {space} {key}"),
            Op::TransactionScan { slot, visit } => write!(f, "transaction_scan {slot} {visit}"),
            Op::TransactionCommit { slot, parts, disk } => {
                write!(f, "transaction_commit {slot}")?;
                write_parts(parts, *disk, f)
            }
            Op::IngestBegin { slot, space, records } => {
                write!(f, "ingest_begin {slot} {space}")?;
                records.iter().try_for_each(|record| write!(f, " {record}"))
            }
            Op::IngestFinish(slot) => write!(f, "ingest_finish {slot}"),
            Op::IngestDrop(slot) => write!(f, "ingest_drop {slot}"),
            Op::Verify => write!(f, "verify"),
            Op::CopyDatabase => write!(f, "copy"),
            Op::Flush => write!(f, "flush"),
            Op::Sync => write!(f, "sync"),
            Op::Idle => write!(f, "idle"),
            Op::Compact { space, start, end } => {
                write!(f, "compact {space} {} {}", Slot(*start), Slot(*end))
            }
            Op::Separate { space, bytes } => write!(f, "separate {space} {bytes}"),
            Op::Reopen(seed) => write!(f, "reopen {seed}"),
            Op::Kill => write!(f, "kill"),
            Op::PowerLoss(seed) => write!(f, "power_loss {seed}"),
            Op::Step(count) => write!(f, "step {count}"),
            Op::Advance(ms) => write!(f, "advance {ms}"),
        }
    }
}

/// The durability and the operations of a write.
fn write_parts(parts: &[Part], disk: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, " {}", if disk { "disk" } else { "-" })?;
    parts.iter().try_for_each(|part| write!(f, " {part}"))
}

/// A number or `-`.
struct Slot<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(number) => number.fmt(f),
            None => f.write_str("-"),
        }
    }
}

impl fmt::Display for UpdateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UpdateKind::Grow => "grow",
            UpdateKind::Delete => "delete",
            UpdateKind::Keep => "keep",
        })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Part { space, key, end, bytes, seed, ttl_ms, .. } = self;
        match self.kind {
            OrderedOpKind::Put => write!(f, "put:{space}:{key}:{bytes}:{seed}:{ttl_ms}"),
            OrderedOpKind::Merge => write!(f, "merge:{space}:{key}:{bytes}:{seed}"),
            OrderedOpKind::Delete => write!(f, "delete:{space}:{key}"),
            OrderedOpKind::DeleteRange => write!(f, "range:{space}:{key}:{end}"),
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { key, bytes, seed, ttl_ms } = self;
        write!(f, "{key}:{bytes}:{seed}:{ttl_ms}")
    }
}

impl fmt::Display for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.space)?;
        if let Some(start) = self.start {
            write!(f, " start={start}")?;
        }
        if let Some(end) = self.end {
            write!(f, " end={end}")?;
        }
        if let Some((key, bytes)) = self.prefix {
            write!(f, " prefix={key}:{bytes}")?;
        }
        if self.backward {
            write!(f, " backward")?;
        }
        write!(f, " records={}", self.records)
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let word = words.next().ok_or("an empty line")?;
        let op = match word {
            "create" => Op::Create(number(&mut words)?),
            "drop" => Op::Drop(number(&mut words)?),
            "one" | "batch" => {
                let (parts, disk) = parts(&mut words)?;
                Op::Write { parts, single: word == "one", disk }
            }
            "update" => update(&mut words)?,
            "get" => Op::Get { at: slot(&mut words)?, space: number(&mut words)?, key: number(&mut words)? },
            "multi_get" => {
                let (at, space) = (slot(&mut words)?, number(&mut words)?);
                let keys = words.by_ref().map(parse).collect::<Result<Vec<_>, _>>()?;
                Op::MultiGet { at, space, keys }
            }
            "scan" => Op::Scan { at: slot(&mut words)?, visit: visit(&mut words)? },
            "iter_open" => {
                let (slot, at) = (number(&mut words)?, slot(&mut words)?);
                Op::IterOpen { slot, at, visit: visit(&mut words)? }
            }
            "iter_next" => Op::IterNext(number(&mut words)?),
            "iter_turn" => Op::IterTurn(number(&mut words)?),
            "iter_close" => Op::IterClose(number(&mut words)?),
            "snapshot_open" => Op::SnapshotOpen(number(&mut words)?),
            "snapshot_close" => Op::SnapshotClose(number(&mut words)?),
            "transaction_begin" => Op::TransactionBegin(number(&mut words)?),
            "transaction_get" => {
                let slot = number(&mut words)?;
                Op::TransactionGet { slot, space: number(&mut words)?, key: number(&mut words)? }
            }
            "transaction_scan" => {
                Op::TransactionScan { slot: number(&mut words)?, visit: visit(&mut words)? }
            }
            "transaction_commit" => {
                let (slot, (parts, disk)) = (number(&mut words)?, parts(&mut words)?);
                Op::TransactionCommit { slot, parts, disk }
            }
            "ingest_begin" => ingest_begin(&mut words)?,
            "ingest_finish" => Op::IngestFinish(number(&mut words)?),
            "ingest_drop" => Op::IngestDrop(number(&mut words)?),
            "verify" => Op::Verify,
            "copy" => Op::CopyDatabase,
            "flush" => Op::Flush,
            "sync" => Op::Sync,
            "idle" => Op::Idle,
            "separate" => Op::Separate { space: number(&mut words)?, bytes: number(&mut words)? },
            "compact" => {
                let space = number(&mut words)?;
                Op::Compact { space, start: slot(&mut words)?, end: slot(&mut words)? }
            }
            "reopen" => Op::Reopen(number(&mut words)?),
            "kill" => Op::Kill,
            "power_loss" => Op::PowerLoss(number(&mut words)?),
            "step" => Op::Step(number(&mut words)?),
            "advance" => Op::Advance(number(&mut words)?),
            _ => return Err(format!("{word:?} is no step")),
        };
        match words.next() {
            None => Ok(op),
            Some(left) => Err(format!("{left:?} is left over")),
        }
    }
}

fn parse<T: FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{word:?} is not a number that fits"))
}

fn number<T: FromStr>(words: &mut SplitWhitespace<'_>) -> Result<T, String> {
    parse(words.next().ok_or("a number is missing")?)
}

fn slot<T: FromStr>(words: &mut SplitWhitespace<'_>) -> Result<Option<T>, String> {
    match words.next() {
        Some("-") => Ok(None),
        Some(word) => parse(word).map(Some),
        None => Err("a number or `-` is missing".to_owned()),
    }
}

/// Operations of a write, and whether its durability is `Disk`.
fn parts(words: &mut SplitWhitespace<'_>) -> Result<(Vec<Part>, bool), String> {
    let disk = words.next() == Some("disk");
    Ok((words.map(part).collect::<Result<Vec<_>, _>>()?, disk))
}

fn part(word: &str) -> Result<Part, String> {
    let fields: Vec<&str> = word.split(':').collect();
    let (kind, is_complete) = match (fields[0], fields.len()) {
        ("put", count) => (OrderedOpKind::Put, count == 6),
        ("merge", count) => (OrderedOpKind::Merge, count == 5),
        ("delete", count) => (OrderedOpKind::Delete, count == 3),
        ("range", count) => (OrderedOpKind::DeleteRange, count == 4),
        _ => return Err(format!("{word:?} is no operation")),
    };
    if !is_complete {
        return Err(format!("{word:?} has too few or too many fields"));
    }
    let (space, key) = (parse(fields[1])?, parse(fields[2])?);
    let mut part = Part { kind, space, key, end: 0, bytes: 0, seed: 0, ttl_ms: 0 };
    match kind {
        OrderedOpKind::DeleteRange => part.end = parse(fields[3])?,
        OrderedOpKind::Put | OrderedOpKind::Merge => {
            part.bytes = parse(fields[3])?;
            part.seed = parse(fields[4])?;
            part.ttl_ms = fields.get(5).map_or(Ok(0), |field| parse(field))?;
        }
        OrderedOpKind::Delete => {}
    }
    Ok(part)
}

fn update(words: &mut SplitWhitespace<'_>) -> Result<Op, String> {
    let (space, key) = (number(words)?, number(words)?);
    let kind = match words.next() {
        Some("grow") => UpdateKind::Grow,
        Some("delete") => UpdateKind::Delete,
        Some("keep") => UpdateKind::Keep,
        other => return Err(format!("{other:?} is no kind of update")),
    };
    Ok(Op::Update { space, key, kind, seed: number(words)? })
}

fn ingest_begin(words: &mut SplitWhitespace<'_>) -> Result<Op, String> {
    let (slot, space) = (number(words)?, number(words)?);
    let records = words.map(record).collect::<Result<Vec<_>, _>>()?;
    Ok(Op::IngestBegin { slot, space, records })
}

fn record(word: &str) -> Result<Record, String> {
    match word.split(':').collect::<Vec<_>>()[..] {
        [key, bytes, seed, ttl_ms] => {
            Ok(Record { key: parse(key)?, bytes: parse(bytes)?, seed: parse(seed)?, ttl_ms: parse(ttl_ms)? })
        }
        _ => Err(format!("{word:?} is no record: it has too few or too many fields")),
    }
}

fn visit(words: &mut SplitWhitespace<'_>) -> Result<Visit, String> {
    let mut visit = Visit { space: number(words)?, records: 1, ..Visit::default() };
    for word in words.by_ref() {
        match word.split_once('=') {
            None if word == "backward" => visit.backward = true,
            Some(("start", key)) => visit.start = Some(parse(key)?),
            Some(("end", key)) => visit.end = Some(parse(key)?),
            Some(("records", count)) => visit.records = parse(count)?,
            Some(("prefix", field)) => {
                let (key, bytes) = field.split_once(':').ok_or("a prefix is KEY:BYTES")?;
                visit.prefix = Some((parse(key)?, parse(bytes)?));
            }
            _ => return Err(format!("{word:?} says nothing about a scan")),
        }
    }
    Ok(visit)
}
