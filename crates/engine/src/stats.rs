//! What an engine counts.

mod display;

use crate::{BlobStats, Compression, Durability, JobStats, KeyspaceId};

/// Counters since the database was opened, and sizes as they are now.
///
/// All `_bytes_total` and `_count` fields only grow; the rest are the present state. Printed
/// (`Display`) they are grouped by subject, in units for people, and what is 0 is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// What acknowledged writes survive unless they say otherwise.
    pub durability: Durability,
    /// Microseconds of the clock since the database was opened, which is when counters begin.
    pub open_us: u64,
    /// Bytes of keys and values callers wrote.
    pub user_write_bytes_total: u64,
    /// Bytes written to log segments.
    pub log_write_bytes_total: u64,
    /// Bytes written to the manifest.
    pub manifest_write_bytes_total: u64,
    /// Bytes that reads fetched into memory from files. Where a file is mapped, a part counts when
    /// it is touched for the first time. What the system drops and fetches again by itself is not
    /// seen.
    pub read_miss_bytes_total: u64,
    /// Reads that answered "pending" because they would have waited for a file. Reads of sessions
    /// that block are not among them.
    pub read_miss_count: u64,
    /// Device syncs of log segments.
    pub sync_count: u64,
    /// Jobs of compactions done here because the executor elsewhere refused, failed, was late or
    /// answered wrongly, or had done so a moment ago.
    pub jobs_passed_on_count: u64,
    /// Why the last of these jobs was not done elsewhere, in words; `None` = none.
    pub jobs_passed_on_reason: Option<String>,
    /// Files removed that abandoned attempts at jobs had left. The database looks for them a minute
    /// after an attempt elsewhere came to nothing, and about once an hour while jobs run there.
    pub orphan_remove_count: u64,
    /// Uploads of files in parts, left by attempts, that were aborted at an object store. The
    /// opening looks for them, and so does each look for files of attempts.
    pub upload_abort_count: u64,
    /// Why the last look for such uploads, or the end of one, failed, in words: no right,
    /// a store that does not list them. `None` = nothing was in the way, or there are none where
    /// the database lies.
    pub upload_refusal: Option<String>,
    /// Log objects put on shared storage.
    pub log_object_count: u64,
    /// Their bytes.
    pub log_object_write_bytes_total: u64,
    /// Microseconds by which admission delayed acknowledgements, of all writes together.
    pub slowdown_us_total: u64,
    /// Microseconds writers stood still because nothing could be admitted, all writers together.
    pub stop_us_total: u64,
    /// Microseconds of the clock in which at least one acknowledgement was delayed.
    pub slowdown_wall_us_total: u64,
    /// Microseconds of the clock in which at least one writer stood still.
    pub stop_wall_us_total: u64,
    /// Memory held against `memory_bytes`: arenas, recycled ones too, indexes, filters, cache.
    pub memory_bytes: u64,
    /// The limit itself.
    pub memory_bytes_max: u64,
    /// Bytes that live log segments take on disk, room set aside for what comes included.
    pub log_bytes: u64,
    /// Bytes of files that are gone and kept, for new ones to be written over them.
    pub recycled_bytes: u64,
    /// Work the engine would do if nothing else were written, in bytes still to be read and
    /// written.
    pub debt_bytes: u64,
    /// Snapshots alive.
    pub snapshot_count: u64,
    /// Why the last flush, compaction or the like failed and is to be tried again, in words: no
    /// room, or a panic of an operator. `None` = all that was tried was done.
    pub background_refusal: Option<String>,
    /// Tables and blob segments that background work found damaged since the database was opened,
    /// and left as they are. Nothing of them is compacted or collected, everything else goes on.
    pub damaged_file_count: u64,
    /// What is wrong with one of these files, in words; `None` = there are none.
    pub damage: Option<String>,
    /// Tables and blob segments that background work fails on each time it is tried, though they
    /// can be read. They are left as they are since the database was opened. Nothing of them is
    /// compacted or collected, everything else goes on.
    pub set_aside_file_count: u64,
    /// How work on one of these files fails, in words; `None` = there are none.
    pub set_aside: Option<String>,
    /// Why writes that add something are refused for now, in words: the disk is full. Removals are
    /// taken. `None` = they are not refused.
    pub write_refusal: Option<String>,
    /// Why nothing is written any more, in words, since a write to the log has failed; `None` = it
    /// has not.
    pub write_failure: Option<String>,
    /// The cache before shared storage; `None` = there is none.
    pub shared_cache: Option<SharedCacheStats>,
    /// Where background jobs ran.
    pub jobs: JobStats,
    /// Per keyspace.
    pub keyspaces: Vec<KeyspaceStats>,
    /// What the ordered engine counts; `None` = the engine is another one.
    pub tree: Option<TreeStats>,
    /// What the hashed engine counts; `None` = the engine is another one.
    pub hash: Option<HashStats>,
}

/// What the hashed engine counts. Fields are as those of [`Stats`], whose log is the redo log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HashStats {
    /// Memory of the index.
    pub index_bytes: u64,
    /// Chains that the index leads to; a few keys share one.
    pub index_entry_count: u64,
    /// Slots of the index that began to grow.
    pub growth_count: u64,
    /// Waits of operations for the memory of a slot that begins to grow, or for a bucket that
    /// another thread split.
    pub growth_wait_count: u64,
    /// Microseconds of the longest one.
    pub growth_wait_us_max: u64,
    /// Waits of operations that could not begin, since a checkpoint, a snapshot or a transaction
    /// had stopped all for a moment.
    pub stop_wait_count: u64,
    /// Microseconds of the longest one.
    pub stop_wait_us_max: u64,
    /// Bytes of the hybrid log that are in memory.
    pub resident_bytes: u64,
    /// Memory of copies of records that were read from segments.
    pub cache_bytes: u64,
    /// Segments of the hybrid log.
    pub segment_count: u64,
    /// Their bytes, as far as they are filled.
    pub segment_bytes: u64,
    /// Bytes of records written to segments of the hybrid log.
    pub flush_write_bytes_total: u64,
    /// Bytes written of values that lie alone.
    pub value_write_bytes_total: u64,
    /// Bytes of segments that compaction went over.
    pub compaction_read_bytes_total: u64,
    /// Bytes of them that lived, and were copied to the cold log.
    pub compaction_copy_bytes_total: u64,
    /// Of the cold log.
    pub cold: ColdStats,
    /// Checkpoints taken.
    pub checkpoint_count: u64,
}

/// What the hashed engine counts of its cold log: records that have left the hybrid log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColdStats {
    /// Segments on the device.
    pub segment_count: u64,
    /// Their bytes, as far as they are filled.
    pub segment_bytes: u64,
    /// Records that runs find, those that are dead among them.
    pub run_entry_count: u64,
    /// Bytes of runs on the device.
    pub run_bytes: u64,
    /// Bytes written of runs.
    pub run_write_bytes_total: u64,
    /// Memory of what finds its records.
    pub memory_bytes: u64,
}

/// What the ordered engine counts. Fields are as those of [`Stats`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TreeStats {
    /// Bytes flushes wrote to tables.
    pub flush_write_bytes_total: u64,
    /// Bytes ingestions wrote to tables and blob segments that became part of the database.
    pub ingest_write_bytes_total: u64,
    /// Ingestions that were finished.
    pub ingest_count: u64,
    /// Bytes compactions wrote to tables.
    pub compaction_write_bytes_total: u64,
    /// Bytes compactions read.
    pub compaction_read_bytes_total: u64,
    /// Index bytes written by merges inside the buffer (memory, not a device).
    pub merge_index_bytes_total: u64,
    /// Records that scans passed without giving them: of deleted and expired keys, and older
    /// versions of others.
    pub scan_dead_passed_count: u64,
    /// Flushes committed.
    pub flush_count: u64,
    /// Compactions committed.
    pub compaction_count: u64,
    /// Buffer merges finished.
    pub merge_count: u64,
    /// Log bytes and indexes in the buffer, the memtables included.
    pub buffer_bytes: u64,
    /// Bytes of live tables, and of what is dead in files that tables of several keyspaces share.
    pub table_bytes: u64,
    /// Live tables.
    pub table_count: u64,
    /// Separated values.
    pub blobs: BlobStats,
}

/// Parts of files on shared storage that are kept in a directory of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedCacheStats {
    /// Parts that reads found there, or on their way.
    pub hit_count: u64,
    /// Parts that the store was asked for.
    pub miss_count: u64,
    /// Bytes that the store was asked for by misses.
    pub fetch_bytes_total: u64,
    /// Bytes of reads that went past the cache to the store: large ones, and those ahead of scans
    /// and jobs.
    pub pass_bytes_total: u64,
    /// Bytes that it holds.
    pub held_bytes: u64,
    /// Parts that were evicted for others.
    pub eviction_count: u64,
    /// How often its directory failed; the store was asked then.
    pub failure_count: u64,
}

/// What one keyspace holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyspaceStats {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// How what it writes is compressed: as its own settings say, else those of the engine.
    pub compression: Compression,
    /// Where the ordered engine has its records; `None` = the engine is another one.
    pub tree: Option<TreeKeyspaceStats>,
}

/// Where the records of a keyspace are in the ordered engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TreeKeyspaceStats {
    /// Records in its memtable, and in those that are about to become runs: as those that the log
    /// gave at the opening.
    pub memtable_records: u64,
    /// Runs, newest first: (buffer level, records).
    pub runs: Vec<(u32, u64)>,
    /// Tables and bytes per level; level 0 counts sorted runs' tables.
    pub levels: Vec<(u64, u64)>,
}

impl KeyspaceStats {
    /// Its id as a type.
    pub fn keyspace(&self) -> KeyspaceId {
        KeyspaceId(self.id)
    }
}

impl Stats {
    /// Every byte handed to a device for writing.
    pub fn device_write_bytes_total(&self) -> u64 {
        let tree = self.tree.as_ref().map_or(0, TreeStats::device_write_bytes_total);
        let hash = self.hash.as_ref().map_or(0, HashStats::device_write_bytes_total);
        self.log_write_bytes_total + self.manifest_write_bytes_total + tree + hash
    }
}

impl HashStats {
    /// Bytes of segments, of what finds cold records and of values that lie alone, handed to a
    /// device for writing.
    pub fn device_write_bytes_total(&self) -> u64 {
        self.flush_write_bytes_total
            + self.value_write_bytes_total
            + self.compaction_copy_bytes_total
            + self.cold.run_write_bytes_total
    }
}

impl TreeStats {
    /// Bytes of tables and of separated values handed to a device for writing.
    pub fn device_write_bytes_total(&self) -> u64 {
        self.flush_write_bytes_total
            + self.ingest_write_bytes_total
            + self.compaction_write_bytes_total
            + self.blobs.write_bytes_total
            + self.blobs.gc_write_bytes_total
    }
}
