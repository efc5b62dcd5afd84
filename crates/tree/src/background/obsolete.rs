//! Which obsolete files of a tree are kept for new ones. Crate `firn-maintenance` keeps and removes
//! them.

use std::sync::atomic::Ordering;

use firn_maintenance::RecycledMax;

use crate::database::Database;
use crate::settings::{garbage_share_max, page_cache_bytes};

/// Removes files that nothing refers to, or keeps them for new ones.
pub(crate) fn remove_obsolete(database: &Database) {
    let obsolete = database.files.obsolete.take();
    if !(obsolete.recyclable_segments.is_empty() && obsolete.recyclable_files.is_empty()) {
        let now_ms = database.clock.now().as_millis() as u64;
        database.files.recyclable_since_ms.store(now_ms, Ordering::Relaxed);
    }
    let is_closed = database.closed.load(Ordering::Acquire);
    // Where the disk is full, work that waits for space does not know of what is kept.
    let keeps = !is_closed && !database.maintenance.is_refused();
    let recycled_max = keeps.then(|| recycled_max(database));
    if database.obsolete_gc().remove(obsolete, recycled_max, is_closed) {
        database.maintenance.schedule.lock().backoff.forget_room();
    }
    database.commit.balance_memory();
    database.commit.admission.release();
}

/// How much is kept for new files.
fn recycled_max(database: &Database) -> RecycledMax {
    let is_separated = is_mostly_separated(database);
    let (table_bytes, blob_bytes) = match database.files.is_shared() {
        // Those are never written over.
        true => (0, 0),
        false => (table_bytes_max(database, is_separated), database.blobs.recycled_bytes_max()),
    };
    RecycledMax { log_files: if is_separated { LOG_FILES_MAX } else { usize::MAX }, table_bytes, blob_bytes }
}

/// Bytes of dead tables to keep for new ones, within what tables may hide. It is what flushes write
/// between two compactions of level 0, and as much again for their outputs. Where the page cache
/// holds all live tables, no more than fit beside them. Where most is separated, an eighth
/// of what lives.
fn table_bytes_max(database: &Database, is_separated: bool) -> u64 {
    let (settings, live) = (&database.settings, database.catalog.version.load().table_bytes());
    let most = match is_separated {
        true => live / 8,
        false => {
            let most = settings.engine.level0_runs_max as u64 * settings.engine.buffer_bytes;
            let allowed = (live as f64 * garbage_share_max(settings)) as u64;
            most.min(allowed.max(TABLES_MIN * settings.engine.table_bytes))
        }
    };
    match page_cache_bytes(settings).checked_sub(live) {
        Some(beside) => most.min(beside),
        None => most,
    }
}

/// Whether separated values have more bytes than all tables. Flushes are frequent and small
/// then, and what is kept is taken from dead values, which have to be collected sooner.
fn is_mostly_separated(database: &Database) -> bool {
    let beside = database.blobs.map().sealed_bytes();
    // Without any the tables need not be counted.
    beside > 0 && beside > database.catalog.version.load().table_bytes()
}

/// Tables whose files are kept, about, however little lives.
const TABLES_MIN: u64 = 2;

/// Files of the log that are kept where most is separated: a flush frees one at a time.
const LOG_FILES_MAX: usize = 1;
