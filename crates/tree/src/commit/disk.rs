//! Room on the disk for what is written: which writes begin a segment, and what outputs leave. See
//! [`log::room`](firn_storage::file::log::room).

use firn_engine::{Error, ErrorKind, Result};
use firn_format::Position;
use firn_storage::file::log::room::{
    FLUSH_KEPT_BYTES, JOB_KEPT_BYTES, KEPT_BYTES, REMOVAL_KEPT_BYTES, check_room,
};

use super::roll::Freeze;
use super::{CommitEnv, CommitPipeline};
use crate::error::from_storage;

impl CommitPipeline {
    /// `Retry` where a segment of `bytes` would take what is kept for removals, also without files
    /// that are kept for new ones.
    pub(crate) fn leave_room(&self, bytes: u64) -> Result<()> {
        let has_room = check_room(&*self.files.storage, bytes);
        match has_room {
            Err(_) if self.files.remove_recycled_tables() => check_room(&*self.files.storage, bytes),
            has_room => has_room,
        }
        .map_err(from_storage)
    }

    /// Whether the disk has room for a segment of `bytes` and its flush, and for a flush of all
    /// that the buffer holds. What the log needs for removals stays free beside that. A backend
    /// that does not say what is free has room.
    pub(crate) fn has_disk_for(&self, bytes: u64) -> bool {
        match self.files.storage.free_bytes() {
            Ok(Some(free)) => {
                free >= bytes.saturating_mul(2).saturating_add(self.flush_bytes() + KEPT_BYTES / 2)
            }
            _ => true,
        }
    }

    /// The same, also without files that are kept for new ones.
    pub(crate) fn has_disk_or_recycled_for(&self, bytes: u64) -> bool {
        self.has_disk_for(bytes) || self.files.remove_recycled_tables() && self.has_disk_for(bytes)
    }

    /// Bytes of the disk that a flush of all that the buffer holds takes, at most.
    fn flush_bytes(&self) -> u64 {
        if self.files.storage.shared_part().is_some() {
            // Tables lie elsewhere.
            return 0;
        }
        let version = self.catalog.version.load();
        let bytes = version.live().map(|keyspace| {
            let runs: u64 = keyspace.runs.iter().map(|run| run.live_bytes()).sum();
            let frozen: usize = keyspace.frozen.iter().map(|frozen| frozen.memtable.record_bytes()).sum();
            runs + (frozen + keyspace.memtable.record_bytes()) as u64
        });
        let bytes: u64 = bytes.sum();
        // Tables have indexes and filters too.
        bytes + bytes / 16
    }

    /// Has outputs leave room for what is to be written first: the log. Outputs of jobs also leave
    /// room for a flush of the buffer and of what the active segment may still take.
    pub(crate) fn keep_room(&self) {
        let active = self.log.active();
        let unused = match self.log.is_for_removals() {
            true => 0,
            false => active.memory_bytes().saturating_sub(active.region().published() as u64),
        };
        self.files.outputs.leave(FLUSH_KEPT_BYTES);
        self.files.job_outputs.leave(JOB_KEPT_BYTES + self.flush_bytes() + unused);
    }

    /// Whether a removal of `bytes` may be appended behind `base`, where the active segment begins,
    /// though the disk is nearly full. If not it waits for a flush.
    ///
    /// # Errors
    /// `Retry` where there is nothing that a flush or a compaction could make room of: nothing was
    /// written.
    pub(super) fn may_remove(&self, env: &impl CommitEnv, base: Position, bytes: usize) -> Result<bool> {
        let bytes = bytes as u64;
        if self.has_disk_to_remove(bytes)
            || self.files.remove_recycled_tables() && self.has_disk_to_remove(bytes)
        {
            self.room.want(0);
            // What is appended is to be flushed, too.
            self.keep_room();
            return Ok(true);
        }
        if !self.is_anything_to_flush() {
            let is_empty = self.catalog.version.load().live().all(|keyspace| keyspace.memtable.is_empty());
            if !is_empty {
                self.roll(base, Freeze::All)?;
            } else if !env.is_compacting() {
                self.room.want(bytes);
                return Err(Error::new(
                    ErrorKind::Retry,
                    "the disk is full, and has no room for removals either: free some space or raise the quota; what was removed before \
                     makes room, so try again in a while",
                ));
            }
        }
        self.admission.want(bytes);
        self.room.want(bytes);
        Ok(false)
    }

    /// Whether the disk has room for a removal of `bytes` in the log. The flush of it, and of all
    /// that the buffer holds, must find room too.
    fn has_disk_to_remove(&self, bytes: u64) -> bool {
        match self.files.storage.free_bytes() {
            Ok(Some(free)) => {
                let log = self.log.unwritten_bytes() + bytes;
                let flush = match self.files.storage.shared_part() {
                    Some(_) => 0,
                    None => self.flush_bytes() + bytes + bytes / 16,
                };
                free >= log + flush + REMOVAL_KEPT_BYTES
            }
            _ => true,
        }
    }

    /// Bytes of the disk that outputs of jobs may take. A backend that does not say what is free
    /// has room for all.
    pub(crate) fn job_room(&self) -> u64 {
        if self.files.storage.shared_part().is_some() {
            // They lie elsewhere.
            return u64::MAX;
        }
        match self.files.storage.free_bytes() {
            Ok(Some(free)) => {
                let free = free.saturating_add(self.files.outputs.recycled_bytes());
                free.saturating_sub(self.files.job_outputs.left_bytes())
            }
            _ => u64::MAX,
        }
    }

    /// Whether a writer waits for room on the disk, and there still is none.
    pub(crate) fn is_disk_wanted(&self) -> bool {
        let wanted = self.room.wanted();
        wanted > 0 && !self.has_disk_for(wanted)
    }

    /// Why writes that bring something are refused for now; `None` = they are not.
    pub(crate) fn write_refusal(&self) -> Option<Error> {
        let refused = self.room.refused().max(self.blobs.refused_bytes());
        // There may be room since.
        let refusal = || check_room(&*self.files.storage, refused).map_err(from_storage).err();
        (refused > 0).then(refusal).flatten()
    }

    /// Whether writers wait for room on the disk, or are refused for want of it.
    pub(crate) fn is_short_of_disk(&self) -> bool {
        self.is_disk_wanted() || self.write_refusal().is_some()
    }
}
