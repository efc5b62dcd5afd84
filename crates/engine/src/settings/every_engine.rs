//! The settings that every engine has.

use super::{EngineSettings, Field, MIB};
use crate::{Compression, Durability, Error, Result, settings_field};

/// Writes the struct, its defaults and its table of fields from one list, as
/// [`engine_settings!`](crate::engine_settings) does for those of one engine.
macro_rules! settings_of_every_engine {
    ($( $(#[doc = $doc:literal])+ $name:ident: $type:ty, $audience:ident,
        $default:literal, $value:expr, $range:literal, $is_good:expr, $remedy:literal
        $(, tests $wide:literal, $is_good_in_tests:expr)?; )+) => {
        /// What a database is told when it is opened, as data: sizes, limits and defaults.
        ///
        /// Start from `Settings::default()` or [`Settings::for_memory`] and change fields, or read
        /// [TOML](Settings::from_toml). Opening validates; components (storage, clock, operators)
        /// are not settings.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings<E> {
            $(
                $(#[doc = $doc])+
                ///
                #[doc = concat!("Default ", $default, "; must be ", $range, ".")]
                pub $name: $type,
            )+
            /// What the engine alone is told: a table of its own in a file. See
            /// [`with_engine`](Settings::with_engine).
            pub engine: E,
        }

        impl<E: EngineSettings> Settings<E> {
            /// The settings that every engine has, in the order of the struct.
            pub const FIELDS: &'static [Field<Self>] = &[$(
                settings_field! {
                    () ($($doc)+) $name: $type, $audience, $default, $range, $is_good, $remedy
                    $(, tests $wide, $is_good_in_tests)?
                },
            )+];

            /// Defaults for a database that may hold `memory_bytes`; sizes that follow from it are
            /// set accordingly.
            ///
            /// Total: too little memory is refused by [`validate`](Self::validate), not here.
            pub fn for_memory(memory_bytes: u64) -> Self {
                Self {
                    $($name: { let value: fn(u64) -> $type = $value; value(memory_bytes) },)+
                    engine: E::for_memory(memory_bytes),
                }
            }

            /// What every engine is told as it is here, beside the settings of another `engine`.
            pub fn for_engine<O>(&self, engine: O) -> Settings<O> {
                Settings { $($name: self.$name.clone(),)+ engine }
            }
        }
    };
}

settings_of_every_engine! {
    /// Everything the database may hold in memory: log arenas, indexes, filters, block cache.
    /// Bytes. Less memory sends more reads to the device and slows writers earlier. Pages of mapped
    /// tables are the kernel's and come on top.
    memory_bytes: u64, Everyone,
        "512 MiB", |memory_bytes| memory_bytes,
        "16 MiB to 16 TiB",
        |s| (16 * MIB..=MIB << 24).contains(&s.memory_bytes),
        "set it to what this process may use",
        tests "at least 1 MiB", |s| s.memory_bytes >= MIB;

    /// What an acknowledged write survives where the write does not say. "process": the death of
    /// the process. "disk": loss of power; concurrent writers share a sync. "shared", for databases
    /// on shared storage: loss of the machine; concurrent writers share an object. "checkpoint", of
    /// the hashed engine: nothing until the next checkpoint; elsewhere it is "process".
    durability: Durability, Everyone,
        "process", |_| Durability::Process,
        "checkpoint, process, disk or shared",
        |_| true,
        "choose one of the words";

    /// Compression in keyspaces that do not say: "none" (read through a mapping), "lz4" or "zstd".
    /// It applies to the last level's tables and to separated values, each by itself and by
    /// its writer.
    compression: Compression, Everyone,
        "none", |_| Compression::None,
        "none, lz4 or zstd",
        |_| true,
        "choose one of the words";

    /// Bytes of tables and blob segments for each byte of keys and values that lives; of the hashed
    /// engine, bytes of both its logs for each byte of records that live. Tables are
    /// compacted once they hide half of what this allows beside what lives. Blob segments are
    /// collected at about the same point. At rest both happen sooner. While writes go on, files
    /// take a little more, up to 0.1. Less means less space and more writing.
    space_amplification_max: f64, Everyone,
        "1.5", |_| 1.5,
        "1.05 to 100.0",
        |s| (1.05..=100.0).contains(&s.space_amplification_max),
        "choose a number in that range";

    /// Threads for merges, flushes, compactions and blob GC; beside a worker as many again wait
    /// for it.
    background_threads: usize, Everyone,
        "2", |_| 2,
        "1 to 256",
        |s| (1..=256).contains(&s.background_threads),
        "choose a number in that range";

    /// Files of the database's directory that are open for reading at once. 0 = half of what this
    /// process may have open (`ulimit -n`) as the database is opened. The least recently used one
    /// is closed for another. Mapped tables need none. Log segments and files that are being
    /// written come on top, a few tens.
    open_files_max: usize, Everyone,
        "0", |_| 0,
        "0, or 16 to 16777216",
        |s| s.open_files_max == 0 || (16..=1 << 24).contains(&s.open_files_max),
        "choose a number in that range, or 0";

    /// Bytes of tables that the system can be expected to keep in memory beside memory_bytes. 0 =
    /// seven eighths of the machine's memory, or of the control group's limit, less memory_bytes.
    /// While all tables fit, they are read where they lie; once they do not, what reads find is
    /// kept in the cache.
    page_cache_bytes: u64, Expert,
        "0", |_| 0,
        "0 to 1 PiB",
        |s| s.page_cache_bytes <= MIB << 30,
        "choose a size in that range";

    /// How much nicer threads for merges, flushes and compactions are than others, where processors
    /// are short. Each step takes a fifth of their share: less keeps writers from being stopped,
    /// more keeps readers from waiting.
    background_nice: u32, Expert,
        "0", |_| 0,
        "0 to 19",
        |s| s.background_nice <= 19,
        "choose a number in that range";

    /// Threads that read from the device for sessions that do not block.
    read_threads: usize, Expert,
        "4", |_| 4,
        "1 to 256",
        |s| (1..=256).contains(&s.read_threads),
        "choose a number in that range";

    /// Threads of the lowest priority that do jobs which wait for workers, as far as processors
    /// here idle. What takes too long there goes to a worker again. 0 = all that workers can do is
    /// left to them.
    idle_threads: usize, Expert,
        "2", |_| 2,
        "0 to 256",
        |s| s.idle_threads <= 256,
        "choose a number in that range";

    /// Bytes that jobs of deep work begun here read in a second while the workers that were to do
    /// them are away. What takes tables out of level 0 goes at once; the rest waits for workers or
    /// its turn, a minute at most. More means more of this machine's time for it.
    local_bytes_per_second: u64, Expert,
        "16 MiB", |_| 16 * MIB,
        "1 MiB to 1 TiB",
        |s| (MIB..=1024 * 1024 * MIB).contains(&s.local_bytes_per_second),
        "choose a size in that range",
        tests "at least 1", |s| s.local_bytes_per_second >= 1;

    /// Share of the jobs done by workers that are done here too, and compared, before they are
    /// believed; none while writers are about to stop. Sums and checksums of every job prove that
    /// nothing was lost; this proves that a worker follows the rules.
    reexecuted_share: f64, Expert,
        "0.01", |_| 0.01,
        "0 to 1",
        |s| (0.0..=1.0).contains(&s.reexecuted_share),
        "choose a share in that range";

    /// Longest key; a longer one is refused.
    key_bytes_max: usize, Expert,
        "65535", |_| usize::from(u16::MAX),
        "1 to 65535",
        |s| (1..=usize::from(u16::MAX)).contains(&s.key_bytes_max),
        "choose a size in that range";

    /// Longest value; a longer one is refused.
    value_bytes_max: u64, Expert,
        "1 GiB", |_| 1024 * MIB,
        "0 to 1 GiB",
        |s| s.value_bytes_max <= 1024 * MIB,
        "choose a size in that range";

    /// Manifest edits after which the whole state is restated and older edits are removed. More
    /// means a slower opening and less manifest writing.
    manifest_edits_max: u64, Expert,
        "64", |_| 64,
        "1 to 65536",
        |s| (1..=65536).contains(&s.manifest_edits_max),
        "choose a number in that range";
}

impl<E: EngineSettings> Settings<E> {
    /// Memory of a database that is not told how much it may have.
    pub const MEMORY_BYTES_DEFAULT: u64 = 512 * MIB;

    /// The same settings with those of the engine changed.
    ///
    /// `Settings::for_memory(64 << 20).with_engine(|tree| tree.table_bytes = 1 << 20)`
    #[must_use]
    pub fn with_engine(mut self, change: impl FnOnce(&mut E)) -> Self {
        change(&mut self.engine);
        self
    }

    /// All settings: those of every engine, then those of this one.
    pub fn fields() -> impl Iterator<Item = &'static Field<Self>> {
        Self::FIELDS.iter().chain(E::FIELDS)
    }

    /// Whether every setting is in its range.
    ///
    /// # Errors
    /// `Invalid`, naming the first one that is not, its value, its range and what to do.
    pub fn validate(&self) -> Result<()> {
        self.first_wrong(|field| (field.range, field.is_good))
    }

    /// Whether an engine works with these settings. As [`validate`](Self::validate), with wider
    /// ranges, which tests of engines use. An engine that is opened checks these; what opens it for
    /// users has checked the others.
    pub fn validate_limits(&self) -> Result<()> {
        self.first_wrong(|field| field.tests.unwrap_or((field.range, field.is_good)))
    }

    fn first_wrong(
        &self,
        range_of: impl Fn(&Field<Self>) -> (&'static str, fn(&Self) -> bool),
    ) -> Result<()> {
        for field in Self::fields() {
            let (range, is_good) = range_of(field);
            if !is_good(self) {
                let value = (field.get)(self);
                let (name, remedy) = (field.name, field.remedy);
                return Err(Error::invalid(format!("setting `{name} = {value}` must be {range}: {remedy}")));
            }
        }
        Ok(())
    }
}

impl<E: EngineSettings> Default for Settings<E> {
    fn default() -> Self {
        Self::for_memory(Self::MEMORY_BYTES_DEFAULT)
    }
}
