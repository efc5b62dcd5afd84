//! Statistics for people: grouped by subject, in units that are easy to read, without what is 0.

use std::fmt;

use super::{KeyspaceStats, Stats, TreeKeyspaceStats, TreeStats};
use crate::{Compression, Durability, JobKindStats};

/// Columns that the names of figures take.
const NAME_COLUMNS: usize = 26;

/// Several lines, each ended: what is wrong first, then a paragraph for each subject of which there
/// is something to say. For people: names and order may change.
///
/// Sizes are in powers of 1024, with three digits. What is 0 is left out. Programs read the fields.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tree = self.tree.clone().unwrap_or_default();
        let subjects = [
            self.trouble(),
            self.memory(&tree),
            self.hashed(),
            self.disk(&tree),
            self.writes(&tree),
            self.reads(&tree),
            self.background(&tree),
            self.blob_gc(&tree),
            self.jobs_at_executors(),
            self.shared_storage(),
            self.by_keyspace(),
        ];
        let survived = match self.durability {
            Durability::Checkpoint => "nothing before the next checkpoint",
            Durability::Process => "the end of the process",
            Durability::Disk => "loss of power",
            Durability::Shared => "loss of the machine",
        };
        writeln!(f, "durability: {}, writes survive {survived}", self.durability.name())?;
        if self.open_us > 0 {
            writeln!(f, "open for: {}", time(self.open_us))?;
        }
        subjects.iter().filter(|subject| !subject.lines.is_empty()).try_for_each(|subject| {
            writeln!(f, "\n{}", subject.title)?;
            subject.lines.iter().try_for_each(|(name, text)| writeln!(f, "  {name:<NAME_COLUMNS$} {text}"))
        })
    }
}

/// One paragraph: figures by name.
struct Subject {
    title: &'static str,
    lines: Vec<(String, String)>,
}

impl Subject {
    fn new(title: &'static str) -> Self {
        Self { title, lines: Vec::new() }
    }

    /// Adds `text`, which says something.
    fn text(&mut self, name: impl Into<String>, text: impl Into<String>) {
        self.lines.push((name.into(), text.into()));
    }

    /// Adds `text` if there is one.
    fn perhaps(&mut self, name: &str, text: Option<&String>) {
        if let Some(text) = text {
            self.text(name, text.as_str());
        }
    }

    /// Adds `bytes` unless there are none.
    fn bytes(&mut self, name: &str, number: u64) {
        if number > 0 {
            self.text(name, bytes(number));
        }
    }

    /// Adds `number` unless it is 0.
    fn count(&mut self, name: &str, number: u64) {
        if number > 0 {
            self.text(name, count(number));
        }
    }

    /// Adds `number` of something, and the bytes of it, unless there is none.
    fn sized(&mut self, name: &str, number: u64, of: u64) {
        match (number, of) {
            (0, 0) => {}
            (number, 0) => self.text(name, count(number)),
            (0, of) => self.text(name, bytes(of)),
            (number, of) => self.text(name, format!("{}, {}", count(number), bytes(of))),
        }
    }

    /// Adds a time unless it is 0.
    fn time(&mut self, name: &str, us: u64) {
        if us > 0 {
            self.text(name, time(us));
        }
    }
}

impl Stats {
    fn trouble(&self) -> Subject {
        let mut subject = Subject::new("trouble");
        subject.perhaps("nothing is written any more", self.write_failure.as_ref());
        subject.perhaps("writes are refused", self.write_refusal.as_ref());
        subject.perhaps("background work failed", self.background_refusal.as_ref());
        subject.count("damaged files", self.damaged_file_count);
        subject.perhaps("damage", self.damage.as_ref());
        subject.count("files set aside", self.set_aside_file_count);
        subject.perhaps("work on them fails", self.set_aside.as_ref());
        subject.perhaps("uploads are not cleaned up", self.upload_refusal.as_ref());
        subject
    }

    fn memory(&self, tree: &TreeStats) -> Subject {
        let mut subject = Subject::new("memory");
        if self.memory_bytes_max > 0 {
            let (held, max) = (bytes(self.memory_bytes), bytes(self.memory_bytes_max));
            subject.text("held", format!("{held} of {max}"));
        } else {
            subject.bytes("held", self.memory_bytes);
        }
        subject.bytes("buffer, with its log", tree.buffer_bytes);
        subject.bytes("relocations of values", tree.blobs.relocation_bytes);
        subject.count("snapshots", self.snapshot_count);
        subject
    }

    fn hashed(&self) -> Subject {
        let mut subject = Subject::new("hashed engine, counters since the opening");
        let Some(hash) = &self.hash else { return subject };
        subject.bytes("index", hash.index_bytes);
        subject.bytes("log in memory", hash.resident_bytes);
        subject.bytes("cache of records", hash.cache_bytes);
        subject.sized("segments on disk", hash.segment_count, hash.segment_bytes);
        subject.bytes("written to segments", hash.flush_write_bytes_total);
        subject.bytes("values of their own", hash.value_write_bytes_total);
        subject.count("checkpoints", hash.checkpoint_count);
        subject.bytes("compacted", hash.compaction_read_bytes_total);
        subject.bytes("  of it copied", hash.compaction_copy_bytes_total);
        subject.sized("cold segments on disk", hash.cold.segment_count, hash.cold.segment_bytes);
        subject.bytes("  found by runs of", hash.cold.run_bytes);
        subject.bytes("  written to runs", hash.cold.run_write_bytes_total);
        subject.bytes("  memory for them", hash.cold.memory_bytes);
        subject
    }

    fn disk(&self, tree: &TreeStats) -> Subject {
        let (blobs, mut subject) = (&tree.blobs, Subject::new("disk"));
        subject.bytes("log", self.log_bytes);
        subject.sized("tables", tree.table_count, tree.table_bytes);
        subject.sized("segments of large values", blobs.segment_count, blobs.segment_bytes);
        subject.bytes("  known to be dead", blobs.dead_bytes);
        subject.bytes("  hidden, about", blobs.unreclaimed_bytes);
        subject.sized("segments still in use", blobs.retired_count, blobs.retired_bytes);
        subject.bytes("kept for new files", self.recycled_bytes);
        subject
    }

    fn writes(&self, tree: &TreeStats) -> Subject {
        let (blobs, mut subject) = (&tree.blobs, Subject::new("writes since the opening"));
        let (users, device) = (self.user_write_bytes_total, self.device_write_bytes_total());
        subject.bytes("by callers", users);
        match users {
            0 => subject.bytes("to devices", device),
            users => {
                let times = device as f64 / users as f64;
                subject.text("to devices", format!("{}, {times:.2} times as much", bytes(device)));
            }
        }
        subject.bytes("  log", self.log_write_bytes_total);
        subject.bytes("  flushes", tree.flush_write_bytes_total);
        subject.sized("  ingestions", tree.ingest_count, tree.ingest_write_bytes_total);
        subject.bytes("  compactions", tree.compaction_write_bytes_total);
        subject.sized("  large values", blobs.write_count, blobs.write_bytes_total);
        subject.bytes("  blob GC", blobs.gc_write_bytes_total);
        subject.bytes("  manifest", self.manifest_write_bytes_total);
        subject.count("syncs of the log", self.sync_count);
        subject.count("syncs of large values", blobs.sync_count);
        subject.time("slowed down, in all", self.slowdown_us_total);
        subject.time("  by the clock", self.slowdown_wall_us_total);
        subject.time("stopped, in all", self.stop_us_total);
        subject.time("  by the clock", self.stop_wall_us_total);
        subject
    }

    fn reads(&self, tree: &TreeStats) -> Subject {
        let mut subject = Subject::new("reads since the opening");
        subject.bytes("fetched from files", self.read_miss_bytes_total);
        subject.count("waited for a file", self.read_miss_count);
        subject.sized("of large values", tree.blobs.read_count, tree.blobs.read_bytes_total);
        subject.count("dead records passed", tree.scan_dead_passed_count);
        subject
    }

    fn background(&self, tree: &TreeStats) -> Subject {
        let mut subject = Subject::new("background work");
        subject.bytes("to be done", self.debt_bytes);
        subject.sized("flushes", tree.flush_count, tree.flush_write_bytes_total);
        subject.sized("compactions", tree.compaction_count, tree.compaction_write_bytes_total);
        subject.bytes("  read by them", tree.compaction_read_bytes_total);
        subject.sized("merges in memory", tree.merge_count, tree.merge_index_bytes_total);
        subject.count("orphans removed", self.orphan_remove_count);
        subject.count("uploads aborted", self.upload_abort_count);
        subject
    }

    fn blob_gc(&self, tree: &TreeStats) -> Subject {
        let (blobs, mut subject) = (&tree.blobs, Subject::new("GC of large values"));
        subject.bytes("to be freed", blobs.debt_bytes);
        subject.count("done", blobs.gc_count);
        subject.sized("segments collected", blobs.gc_segment_count, blobs.gc_read_bytes_total);
        subject.sized("segments wholly dead", blobs.wholly_dead_count, blobs.wholly_dead_bytes_total);
        subject.sized("values that lived", blobs.survivor_count, blobs.survivor_bytes_total);
        subject.sized("values dropped", blobs.dropped_count, blobs.dropped_bytes_total);
        subject.count("failed", blobs.gc_failure_count);
        subject.count("segments relocated", blobs.relocation_count);
        subject.count("obsolete references", blobs.obsolete_count);
        subject
    }

    fn jobs_at_executors(&self) -> Subject {
        let (jobs, mut subject) = (&self.jobs, Subject::new("jobs"));
        for kind in &jobs.kinds {
            let JobKindStats { kind, elsewhere_count, elsewhere_bytes, here_count, here_bytes } = kind;
            let name = kind.replace('_', " ");
            subject.sized(&format!("{name}, here"), *here_count, *here_bytes);
            subject.sized(&format!("{name}, elsewhere"), *elsewhere_count, *elsewhere_bytes);
        }
        subject.sized("waiting", jobs.held_count, jobs.held_bytes);
        if jobs.is_executor_away {
            subject.text("executor elsewhere", "away: asked only whether it is back");
        }
        subject.count("done here instead", self.jobs_passed_on_count);
        for (cause, number) in &jobs.passed_on {
            subject.count(&format!("  {cause}"), *number);
        }
        subject.perhaps("  the last one", self.jobs_passed_on_reason.as_ref());
        subject.count("done twice, to compare", jobs.reexecuted_count);
        subject.count("  differed", jobs.differed_count);
        subject.count("taken back while idle", jobs.idle_count);
        subject.count("  given away again", jobs.late_count);
        subject
    }

    fn shared_storage(&self) -> Subject {
        let mut subject = Subject::new("shared storage");
        subject.sized("log objects", self.log_object_count, self.log_object_write_bytes_total);
        let Some(cache) = &self.shared_cache else { return subject };
        subject.bytes("cache", cache.held_bytes);
        subject.count("  hits", cache.hit_count);
        subject.count("  misses", cache.miss_count);
        subject.bytes("  fetched", cache.fetch_bytes_total);
        subject.bytes("  read past it", cache.pass_bytes_total);
        subject.count("  evictions", cache.eviction_count);
        subject.count("  failures", cache.failure_count);
        subject
    }

    fn by_keyspace(&self) -> Subject {
        let mut subject = Subject::new("keyspaces");
        self.keyspaces.iter().for_each(|keyspace| subject.text(keyspace.name.as_str(), keyspace.held()));
        subject
    }
}

impl KeyspaceStats {
    /// What it holds, in one line.
    fn held(&self) -> String {
        let mut parts = self.tree.as_ref().map_or(Vec::new(), TreeKeyspaceStats::parts);
        parts.push(match self.compression {
            Compression::None => "uncompressed".to_owned(),
            compression => compression.name().to_owned(),
        });
        parts.join("; ")
    }
}

impl TreeKeyspaceStats {
    fn parts(&self) -> Vec<String> {
        let mut parts = Vec::new();
        if self.memtable_records > 0 {
            parts.push(format!("memtable {}", counted(self.memtable_records, "record")));
        }
        let run_records: u64 = self.runs.iter().map(|(_, records)| records).sum();
        if run_records > 0 {
            let runs = counted(self.runs.len() as u64, "run");
            parts.push(format!("{runs} {}", counted(run_records, "record")));
        }
        for (level, (tables, held)) in self.levels.iter().enumerate().filter(|(_, (tables, _))| *tables > 0) {
            parts.push(format!("L{level} {} {}", counted(*tables, "table"), bytes(*held)));
        }
        if parts.is_empty() {
            parts.push("empty".to_owned());
        }
        parts
    }
}

/// `number` with three digits, in the unit after which fewer than 1024 are left: `1.50 KiB`.
fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let (mut value, mut unit) = (number as f64 / 1024.0, 0);
    // 1023.9 would be shown as 1024.
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// `number` with commas between thousands.
fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many of what one is called `one`.
fn counted(number: u64, one: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {one}{ending}", count(number))
}

/// A time of `us` microseconds: `830 us`, `1.25 ms`, `12.0 s`, `5 min 3 s`, `2 h 5 min`.
fn time(us: u64) -> String {
    let seconds = us / 1_000_000;
    match us {
        0..1_000 => format!("{us} us"),
        1_000..999_500 => format!("{} ms", three_digits(us as f64 / 1e3)),
        999_500..60_000_000 => format!("{} s", three_digits(us as f64 / 1e6)),
        60_000_000..3_600_000_000 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", count(seconds / 3600), seconds / 60 % 60),
    }
}

/// `value`, at least 0.99 and below 1024, with three digits.
fn three_digits(value: f64) -> String {
    match value {
        ..9.995 => format!("{value:.2}"),
        9.995..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests;
