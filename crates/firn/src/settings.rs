//! What a database is told when it is opened, as data: sizes, limits and defaults.

mod size;
mod value;
mod text;
mod nearest;
mod tree;

use firn_engine::{Compression, Durability, Error, Result};

use size::MIB;
use value::Value;

/// Writes the struct, its defaults and its table of fields from one list, so that documentation,
/// commented TOML, ranges and defaults cannot disagree.
macro_rules! settings {
    ($( $(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:literal,
        $range:literal, $remedy:literal, $is_good:expr; )+) => {
        /// What a database is told when it is opened, as data: sizes, limits and defaults.
        ///
        /// Start from [`Settings::default`] or [`Settings::for_memory`] and change fields, or read
        /// [TOML](Settings::from_toml). Opening validates; components (storage, clock, operators)
        /// are not settings.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $(
                $(#[doc = $doc])+
                ///
                #[doc = concat!("Default ", $default, "; must be ", $range, ".")]
                pub $name: $type,
            )+
        }

        /// Every field, in the order of the struct.
        pub(crate) const FIELDS: &[Field] = &[$(
            Field {
                name: stringify!($name),
                doc: concat!($($doc, "\n"),+),
                default: $default,
                range: $range,
                remedy: $remedy,
                is_good: $is_good,
                get: |settings| settings.$name.to_toml(stringify!($name)),
                set: |settings, value| {
                    Value::from_toml(stringify!($name), value).map(|value| settings.$name = value)
                },
                expected: |name| <$type as Value>::expected(name),
            },
        )+];
    };
}

/// One field of [`Settings`], as text and functions.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) default: &'static str,
    pub(crate) range: &'static str,
    remedy: &'static str,
    is_good: fn(&Settings) -> bool,
    pub(crate) get: fn(&Settings) -> toml::Value,
    /// `None` if the value has the wrong type or does not fit it.
    pub(crate) set: fn(&mut Settings, &toml::Value) -> Option<()>,
    pub(crate) expected: fn(&str) -> String,
}

settings! {
    /// Everything the database may hold in memory: log arenas, indexes, filters, block cache.
    /// Bytes. Less memory sends more reads to the device and slows writers earlier. Pages of mapped
    /// tables are the kernel's and come on top.
    memory_bytes: u64 = "512 MiB",
        "16 MiB to 16 TiB", "set it to what this process may use",
        |s| (16 * MIB..=MIB << 24).contains(&s.memory_bytes);

    /// Bytes of tables that the system can be expected to keep in memory beside memory_bytes. 0 =
    /// seven eighths of the machine's memory, or of the control group's limit, less memory_bytes.
    /// While all tables fit, they are read where they lie; once they do not, what reads find is
    /// kept in the cache.
    page_cache_bytes: u64 = "0",
        "at most 1 PiB", "lower it",
        |s| s.page_cache_bytes <= MIB << 30;

    /// Record bytes at which a keyspace's memtable is frozen into a run. Larger memtables mean
    /// fewer, longer runs and a longer replay after a crash.
    memtable_bytes: u64 = "a sixteenth of memory_bytes, 1 MiB to 32 MiB",
        "64 KiB to half of memory_bytes", "lower it, or raise memory_bytes",
        |s| (64 << 10..=s.memory_bytes / 2).contains(&s.memtable_bytes);

    /// Bytes of one log segment. A batch beyond a quarter of it gets a segment of its own.
    log_segment_bytes: u64 = "a thirty-second of memory_bytes, 4 MiB to 32 MiB",
        "a multiple of 4 MiB, at most 4 GiB", "round it to whole 4 MiB",
        |s| s.log_segment_bytes > 0 && s.log_segment_bytes.is_multiple_of(4 * MIB) && s.log_segment_bytes <= 4096 * MIB;

    /// Bytes of log segments and run indexes above which the oldest runs are drained into tables.
    buffer_bytes: u64 = "a quarter of memory_bytes",
        "at least 1 MiB and at most buffer_bytes_max", "lower it, or raise buffer_bytes_max",
        |s| (MIB..=s.buffer_bytes_max).contains(&s.buffer_bytes);

    /// Buffer bytes at which writers stop; from buffer_bytes on they are slowed in proportion.
    buffer_bytes_max: u64 = "half of memory_bytes",
        "at least two log segments and at most memory_bytes", "raise it, or lower log_segment_bytes",
        |s| (2 * s.log_segment_bytes..=s.memory_bytes).contains(&s.buffer_bytes_max);

    /// Bytes of log above which the keyspace that holds the oldest segment is frozen and drained,
    /// whatever its size. Bounds the disk space of the log and the time of a replay.
    log_bytes_max: u64 = "memory_bytes",
        "at least two log segments", "raise it, or lower log_segment_bytes",
        |s| s.log_bytes_max >= 2 * s.log_segment_bytes;

    /// Adjacent runs of one buffer level that are merged into one of the next. More means less
    /// merging and more runs to ask for each read.
    merge_fan_in: usize = "4",
        "2 to 16", "choose a number in that range",
        |s| (2..=16).contains(&s.merge_fan_in);

    /// What an acknowledged write survives where the write does not say. "process": the death of
    /// the process. "disk": loss of power; concurrent writers share a sync. "shared", for databases
    /// on shared storage: loss of the machine; concurrent writers share an object.
    durability: Durability = "process",
        "process, disk or shared", "choose one of the words",
        |_| true;

    /// Bytes of a table's data block before compression. Larger blocks compress better and cost
    /// more for a read that misses memory.
    block_bytes: u32 = "4 KiB",
        "256 to 1 MiB", "choose a size in that range",
        |s| (256..=1 << 20).contains(&s.block_bytes);

    /// Bytes at which a drain or compaction begins the next table.
    table_bytes: u64 = "64 MiB",
        "64 KiB to 16 GiB", "choose a size in that range",
        |s| (64 << 10..=16384 * MIB).contains(&s.table_bytes);

    /// Bytes from which on values lie beside the tree, in keyspaces that do not say. Such values
    /// are written once, compactions do not copy them, and unreferenced ones are collected. 0 =
    /// none do.
    separate_bytes: u32 = "0",
        "0, or at least 32", "raise it, or set it to 0",
        |s| s.separate_bytes == 0 || s.separate_bytes >= 32;

    /// Bytes at which a value segment takes no more values.
    value_segment_bytes: u64 = "64 MiB",
        "4 KiB to 512 MiB", "choose a size in that range",
        |s| (4096..=512 * MIB).contains(&s.value_segment_bytes);

    /// Bytes of tables and value segments for each byte of keys and values that lives. Tables are
    /// compacted once they hide half of what this allows beside what lives. Value segments are
    /// collected at about the same point. At rest both happen sooner. While writes go on, files
    /// take a little more, up to 0.1. Less means less space and more writing.
    space_amplification_max: f64 = "1.5",
        "1.05 to 100.0", "choose a number in that range",
        |s| (1.05..=100.0).contains(&s.space_amplification_max);

    /// Bits of filter for each key, in runs and tables. With 10, about one in a hundred reads of a
    /// missing key reads a block that it need not see; 0 turns filters off.
    filter_bits_per_key: u32 = "10",
        "0 to 64", "choose a number in that range",
        |s| s.filter_bits_per_key <= 64;

    /// Sorted runs in level 0 over one key that reads may have to ask. Compaction keeps them to
    /// half as many on average; fewer mean faster reads and more writing.
    level0_runs_max: usize = "12",
        "2 to 256", "choose a number in that range",
        |s| (2..=256).contains(&s.level0_runs_max);

    /// Price of compactions that reads ask for. Sorted runs of level 0 must have cost reads this
    /// many times what rewriting them takes before that is done for reads alone. More means less
    /// writing beside scans, and slower scans.
    read_compaction_price: f64 = "4.0",
        "0.01 to 1000000000.0", "choose a number in that range; 1 is as cheap as it is in time alone",
        |s| (0.01..=1e9).contains(&s.read_compaction_price);

    /// Compression in keyspaces that do not say: "none" (read through a mapping), "lz4" or "zstd".
    /// It applies to the last level's tables and to values beside the tree, each by itself and by
    /// its writer.
    compression: Compression = "none",
        "none, lz4 or zstd", "choose one of the words",
        |_| true;

    /// Threads for merges, drains, compactions and collections; beside a worker as many again wait
    /// for it.
    background_threads: usize = "2",
        "1 to 256", "choose a number in that range",
        |s| (1..=256).contains(&s.background_threads);

    /// Bytes that bulk jobs begun here read in a second while the workers that were to do them are
    /// away. What takes tables out of level 0 goes at once; the rest waits for workers or its turn,
    /// a minute at most. More means more of this machine's time for it.
    local_bytes_per_second: u64 = "16 MiB",
        "1 MiB to 1 TiB", "choose a size in that range",
        |s| (MIB..=1024 * 1024 * MIB).contains(&s.local_bytes_per_second);

    /// Share of the jobs done by workers that are done here too, and compared, before they are
    /// believed; none while writers are about to stop. Sums and checksums of every job prove that
    /// nothing was lost; this proves that a worker follows the rules.
    reexecuted_share: f64 = "0.01",
        "0 to 1", "choose a share in that range",
        |s| (0.0..=1.0).contains(&s.reexecuted_share);

    /// Threads of the lowest priority that do jobs which wait for workers, as far as processors
    /// here idle. What takes too long there goes to a worker again. 0 = all that workers can do is
    /// left to them.
    idle_threads: usize = "2",
        "at most 256", "lower it",
        |s| s.idle_threads <= 256;

    /// How much nicer threads for merges, drains and compactions are than others, where processors
    /// are short. Each step takes a fifth of their share: less keeps writers from being stopped,
    /// more keeps readers from waiting.
    background_nice: u32 = "0",
        "at most 19", "lower it",
        |s| s.background_nice <= 19;

    /// Threads that read from the device for sessions that do not block.
    read_threads: usize = "4",
        "1 to 256", "choose a number in that range",
        |s| (1..=256).contains(&s.read_threads);

    /// Files of the database's directory that are open for reading at once. 0 = half of what this
    /// process may have open (`ulimit -n`) as the database is opened. The least recently used one
    /// is closed for another. Mapped tables need none. Log segments and files that are being
    /// written come on top, a few tens.
    open_files_max: usize = "0",
        "0, or 16 to 16777216", "choose a number in that range, or 0",
        |s| s.open_files_max == 0 || (16..=1 << 24).contains(&s.open_files_max);

    /// Longest key; a longer one is refused.
    key_bytes_max: usize = "65535",
        "1 to 65535", "choose a size in that range",
        |s| (1..=usize::from(u16::MAX)).contains(&s.key_bytes_max);

    /// Longest value; a longer one is refused.
    value_bytes_max: u64 = "1 GiB",
        "at most 1 GiB", "lower it",
        |s| s.value_bytes_max <= 1024 * MIB;

    /// Manifest edits after which the whole state is restated and older edits are removed. More
    /// means a slower opening and less manifest writing.
    manifest_edits_max: u64 = "64",
        "1 to 65536", "choose a number in that range",
        |s| (1..=65536).contains(&s.manifest_edits_max);
}

impl Settings {
    /// Defaults for a database that may hold `memory_bytes`; sizes that follow from it are set
    /// accordingly.
    ///
    /// Total: too little memory is refused by [`validate`](Self::validate), not here.
    pub fn for_memory(memory_bytes: u64) -> Self {
        let sixteenth = memory_bytes / 16;
        Self {
            memory_bytes,
            page_cache_bytes: 0,
            memtable_bytes: sixteenth.clamp(MIB, 32 * MIB),
            // Where values lie beside the tree segments of the log end early, and their files are
            // as long as was set aside.
            log_segment_bytes: (memory_bytes / 32 / (4 * MIB) * (4 * MIB)).clamp(4 * MIB, 32 * MIB),
            buffer_bytes: memory_bytes / 4,
            buffer_bytes_max: memory_bytes / 2,
            log_bytes_max: memory_bytes,
            merge_fan_in: 4,
            durability: Durability::Process,
            block_bytes: 4096,
            table_bytes: 64 * MIB,
            separate_bytes: 0,
            // What is collected together: small data would be collected in few large pieces.
            value_segment_bytes: (memory_bytes / 8).clamp(4 * MIB, 64 * MIB),
            space_amplification_max: 1.5,
            filter_bits_per_key: 10,
            level0_runs_max: 12,
            read_compaction_price: 4.0,
            compression: Compression::None,
            background_threads: 2,
            local_bytes_per_second: 16 * MIB,
            reexecuted_share: 0.01,
            idle_threads: 2,
            background_nice: 0,
            read_threads: 4,
            open_files_max: 0,
            key_bytes_max: usize::from(u16::MAX),
            value_bytes_max: 1024 * MIB,
            manifest_edits_max: 64,
        }
    }

    /// Whether every field is in its range.
    ///
    /// # Errors
    /// `Invalid`, naming the first field that is not, its value, its range and what to do.
    pub fn validate(&self) -> Result<()> {
        match FIELDS.iter().find(|field| !(field.is_good)(self)) {
            None => Ok(()),
            Some(field) => {
                let value = (field.get)(self);
                Err(Error::invalid(format!(
                    "setting `{} = {value}` must be {}: {}",
                    field.name, field.range, field.remedy
                )))
            }
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::for_memory(512 * MIB)
    }
}

#[cfg(test)]
mod tests;
