//! What becomes of files that nothing refers to: they are removed, or kept a while for new ones.

use std::sync::atomic::Ordering;
use std::time::Duration;

use firn_engine::Result;
use firn_format::file_name::{FileName, parse};
use firn_storage::ErrorKind;
use firn_storage::file::obsolete::{LastReader, RecyclableFile};

use super::choose::Choosing;
use crate::database::Database;
use crate::maintenance::Task;
use crate::settings::{garbage_share_max, page_cache_bytes};

impl Database {
    /// Removes files that nothing refers to, or keeps them for new ones.
    pub(crate) fn bury(&self) -> Result<()> {
        let dead = self.files.obsolete.take();
        if !(dead.recyclable_segments.is_empty() && dead.recyclable_files.is_empty()) {
            self.files.recyclable_since_ms.store(self.clock.now().as_millis() as u64, Ordering::Relaxed);
        }
        let is_closed = self.closed.load(Ordering::Acquire);
        // Where the disk is full, work that waits for space does not know of recycled files.
        let keeps = !is_closed && !self.maintenance.is_refused();
        let lies_beside = self.lies_mostly_beside();
        let (tables_max, values_max) = match self.files.storage.shared_part() {
            None => (self.recycled_table_bytes_max(lies_beside), self.values.recycled_bytes_max()),
            // Those are never written over.
            Some(_) => (0, 0),
        };
        let logs_max = if lies_beside { RECYCLED_LOGS_MAX } else { usize::MAX };
        let segments = dead.recyclable_segments.into_iter();
        let segments = segments.filter(|name| !(keeps && self.commit.log.recycled.keep(name, logs_max)));
        let files = dead.recyclable_files.into_iter().filter_map(|RecyclableFile { name, bytes, reader }| {
            let (recycled, most) = match &reader {
                LastReader::Table(_) => (self.files.outputs.tables(), tables_max),
                LastReader::Values(_) => (self.files.outputs.values(), values_max),
            };
            // A read that holds a reader should hold a version too. Under one that holds no
            // version, mapped bytes would change.
            let is_kept = reader.lets_go() && keeps && recycled.keep(&name, bytes, most);
            (!is_kept).then_some(name)
        });
        let recyclable = segments.chain(files);
        let mut freed = false;
        let mut names = dead.removable.into_iter().chain(recyclable);
        while let Some(name) = names.next() {
            // There may be many of them, and the next opening removes those that are not needed.
            if is_closed && matches!(parse(&name), Some(FileName::LogObject { .. })) {
                continue;
            }
            match self.files.storage.remove(&name) {
                Ok(()) => freed = true,
                Err(error) if is_closed || error.kind == ErrorKind::NotFound => {}
                // Where the place is away, each of the others would be waited for as well. This one
                // comes last then, so that it keeps none of them.
                Err(_) => {
                    // Collected before the lock of obsolete files is taken: letting go of a file
                    // that is recyclable may ask them for something.
                    let others: Vec<String> = names.by_ref().collect();
                    self.files.obsolete.retry_later(others.into_iter().chain([name]));
                    self.maintenance.jobs.leave_something();
                }
            }
        }
        match is_closed {
            true => self.commit.log.recycled.trim_arenas(0),
            false => self.commit.log.recycled.clean_arenas(),
        }
        if freed {
            self.maintenance.schedule.lock().backoff.forget_room();
        }
        self.commit.balance_memory();
        self.commit.admission.release();
        Ok(())
    }

    /// Bytes of dead tables to keep for new ones, within what tables may hide. It is what flushes
    /// write between two compactions of level 0, and as much again for their outputs. Where the
    /// page cache holds all live tables, no more than fit beside them. Where most is separated, an
    /// eighth of what lives.
    fn recycled_table_bytes_max(&self, lies_beside: bool) -> u64 {
        let live = self.catalog.version.load().table_bytes();
        let most = match lies_beside {
            true => live / 8,
            false => {
                let most = self.settings.engine.level0_runs_max as u64 * self.settings.engine.buffer_bytes;
                let allowed = (live as f64 * garbage_share_max(&self.settings)) as u64;
                most.min(allowed.max(RECYCLED_TABLES_MIN * self.settings.engine.table_bytes))
            }
        };
        match page_cache_bytes(&self.settings).checked_sub(live) {
            Some(beside) => most.min(beside),
            None => most,
        }
    }

    /// Whether separated values have more bytes than all tables. Flushes are frequent and
    /// small then, and what recycled files take is taken from dead values, which have to be
    /// collected sooner.
    fn lies_mostly_beside(&self) -> bool {
        let beside = self.values.map().sealed_bytes();
        // Without any the tables need not be counted.
        beside > 0 && beside > self.catalog.version.load().table_bytes()
    }

    /// Removes the files and unmaps the arenas that are kept for segments and tables to come, and
    /// those that are about to be.
    pub(crate) fn give_up_recycled(&self) {
        self.commit.log.recycled.trim_arenas(0);
        let files = [self.commit.log.recycled.take_files(), self.files.outputs.take_recycled()];
        files.into_iter().flatten().for_each(|name| self.files.obsolete.remove_later(name));
        self.files.obsolete.remove_recyclable();
        self.maintenance.wake();
    }
}

impl Choosing<'_> {
    /// Giving up what is kept for segments and tables to come, if nothing has been written in a
    /// while.
    pub(super) fn choose_to_give_up(&self) -> Option<Task> {
        let recyclable_since =
            Duration::from_millis(self.database.files.recyclable_since_ms.load(Ordering::Relaxed));
        let rests = || self.now.saturating_sub(recyclable_since) >= RECYCLED_REST;
        let is_any =
            self.database.files.outputs.recycled_bytes() + self.database.commit.log.recycled.bytes() > 0;
        (is_any && rests()).then_some(Task::GiveUpRecycled)
    }
}

/// Tables whose files are kept, about, however little lives.
const RECYCLED_TABLES_MIN: u64 = 2;

/// Recycled files of the log where most is separated: a flush frees one at a time.
const RECYCLED_LOGS_MAX: usize = 1;

/// How long arenas and files wait for new segments and tables after the last segment or table died.
const RECYCLED_REST: Duration = Duration::from_secs(10);
