//! Schedules of the version swap:
//! `RUSTFLAGS="--cfg loom" cargo test -p firn-tree --test loom_version`.
//!
//! `Database::version` and the log's segments are held by `ArcSwap`, which loom cannot see into. So
//! this is a model of the steps in `database.rs`, `write/`, `buffer/`, `edits/commit.rs` and
//! `log/order.rs`, in their order. It runs over the real memtable, segments, regions, snapshots and
//! obsolete files. `model/swap.rs` says what stands for `ArcSwap`.
//!
//! Each property has orders beside it that break it: loom must find those out, else its silence
//! proves nothing.
#![cfg(loom)]
#![expect(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "each test of a private module uses a part of it"
)]

#[path = "../src/sync.rs"]
mod sync;
#[path = "../src/records.rs"]
mod records;
#[path = "../src/buffer"]
mod buffer {
    mod entry;
    pub(crate) use entry::{RunEntry, prefix_word};
}
#[path = "../src/memtable/mod.rs"]
mod memtable;
#[path = "../src/log"]
mod log {
    mod memtable_set;
    pub(crate) use memtable_set::MemtableSet;

    pub(crate) type Segment = firn_storage::file::log::Segment<MemtableSet>;
    pub(crate) type SegmentMap = firn_storage::file::log::SegmentMap<MemtableSet>;
}
#[path = "../src/version"]
mod version {
    pub(crate) mod snapshots;
}
#[path = "loom_version/mod.rs"]
mod model;

use model::database::{Database, Mistake};
use records::Records;

/// What threads do to one database.
struct Scene {
    /// Frames that a segment takes.
    frames: usize,
    /// Alone, at the beginning.
    first: fn(&Database),
    /// Each on a thread of its own.
    beside: &'static [fn(&Database)],
    /// Meanwhile.
    reader: fn(&Database),
}

impl Scene {
    fn run(self, mistake: Option<Mistake>) {
        let Self { frames, first, beside, reader } = self;
        let last = |database: &Database| {
            // What came too early for a thread is done now.
            database.freeze();
            database.assert_finds_all(&database.latest());
            database.assert_nothing_is_left();
        };
        let scene = model::scene::Scene { first, beside, reader, last };
        scene.run(mistake.is_some(), move || Database::new(frames, mistake));
    }
}

/// A read of everything, and one of a snapshot, each in the version that is current when it begins.
fn read(database: &Database) {
    database.assert_finds_all(&database.latest());
    database.assert_finds_all(&database.at(&database.snapshot()));
}

/// One thread rolls, another writes.
const ROLL: Scene = Scene {
    frames: 1,
    first: |database| database.write(1),
    beside: &[Database::roll_active, |database| database.write(2)],
    reader: read,
};

#[test]
fn a_read_finds_all_across_a_roll() {
    ROLL.run(None);
}

#[test]
#[should_panic(expected = "is lost")]
fn a_version_ends_where_its_last_segment_does() {
    ROLL.run(Some(Mistake::ReadBeyondTheVersion));
}

#[test]
#[should_panic(expected = "is lost")]
fn a_segment_is_in_the_version_before_it_is_written_to() {
    ROLL.run(Some(Mistake::ActivateBeforeVersion));
}

/// One thread rolls, another writes, and a copy of all that is acknowledged is begun.
const COPY: Scene = Scene { reader: Database::assert_settled_base, ..ROLL };

#[test]
fn what_is_acknowledged_lies_below_a_settled_base() {
    COPY.run(None);
}

#[test]
#[should_panic(expected = "is acknowledged and not below")]
fn who_finds_a_memtable_empty_waits_for_the_roll() {
    COPY.run(Some(Mistake::BaseWhileRolling));
}

/// One thread still copies into the segment that another ends and freezes.
const FREEZE: Scene = Scene {
    frames: 2,
    first: |database| database.write(1),
    beside: &[
        |database| database.write(2),
        |database| {
            database.roll_active();
            database.freeze();
        },
    ],
    reader: |database| database.assert_finds_all(&database.latest()),
};

#[test]
fn a_read_finds_all_across_a_freeze() {
    FREEZE.run(None);
}

#[test]
#[should_panic(expected = "is lost")]
fn a_memtable_is_frozen_when_its_last_writer_is_done() {
    FREEZE.run(Some(Mistake::FreezeUnpublished));
}

/// Two threads change the version.
const CHANGES: Scene = Scene {
    frames: 1,
    first: |database| {
        database.write(1);
        database.roll_active();
    },
    beside: &[Database::freeze, |database| {
        database.write(2);
        database.write(3);
    }],
    reader: |_| {},
};

#[test]
fn no_change_of_the_version_is_lost() {
    CHANGES.run(None);
}

#[test]
#[should_panic(expected = "not what the version names")]
fn versions_are_changed_under_a_lock() {
    CHANGES.run(Some(Mistake::ChangeWithoutLock));
}

/// One thread still copies into the first segment, on its own, when another has ended two.
const EMPTY: Scene = Scene {
    frames: 1,
    first: |_| {},
    beside: &[
        |database| database.write(1),
        |database| {
            database.roll_active();
            database.roll_active();
            database.flush_beside();
        },
    ],
    // At the end is soon enough: what is lost then stays so.
    reader: |_| {},
};

#[test]
fn a_segment_stays_while_an_empty_memtable_may_get_its_records() {
    EMPTY.run(None);
}

#[test]
#[should_panic(expected = "an indexed record is not in the log")]
fn who_still_writes_is_asked_before_a_memtable_is_found_empty() {
    EMPTY.run(Some(Mistake::EmptyBeforeUnpublished));
}

/// A key is written again and its older version dropped by a merge.
const MERGE: Scene = Scene {
    frames: 1,
    first: |database| {
        database.write(1);
        database.roll_active();
        database.freeze();
    },
    beside: &[
        |database| {
            database.write(1);
            database.roll_active();
            database.freeze();
        },
        Database::merge,
    ],
    reader: |database| {
        database.assert_finds_all(&database.latest());
        let snapshot = database.snapshot();
        database.assert_finds_all(&database.at(&snapshot));
        database.assert_finds_all(&database.at(&snapshot));
    },
};

#[test]
fn a_read_finds_all_across_a_merge() {
    MERGE.run(None);
}

#[test]
#[should_panic(expected = "is lost")]
fn the_watermark_is_read_after_the_version() {
    MERGE.run(Some(Mistake::WatermarkBeforeVersion));
}

#[test]
#[should_panic(expected = "is lost")]
fn a_snapshot_is_known_before_it_has_a_position() {
    MERGE.run(Some(Mistake::PinAfterWatermark));
}

#[test]
#[should_panic(expected = "is lost")]
fn a_merge_asks_for_snapshots_after_it_has_its_inputs() {
    MERGE.run(Some(Mistake::SnapshotsBeforeInputs));
}

/// A key that is in a table is written again, flushed and compacted, and what is dead is removed.
const COMPACT: Scene = Scene {
    frames: 1,
    first: |database| {
        database.write(1);
        database.roll_active();
        database.freeze();
        database.flush();
        database.remove_obsolete();
    },
    beside: &[|database| {
        database.write(1);
        database.roll_active();
        database.freeze();
        database.flush();
        database.compact();
        database.remove_obsolete();
    }],
    reader: |database| {
        let held = database.latest();
        let snapshot = database.snapshot();
        database.assert_finds_all(&held);
        database.assert_finds_all(&database.at(&snapshot));
        database.assert_finds_all(&database.at(&snapshot));
        database.assert_finds_all(&held);
    },
};

#[test]
fn a_read_finds_all_across_a_flush_and_a_compaction() {
    COMPACT.run(None);
}

#[test]
#[should_panic(expected = "is lost")]
fn a_flush_is_one_change() {
    COMPACT.run(Some(Mistake::FlushInTwoSteps));
}

#[test]
#[should_panic(expected = "is lost")]
fn a_compaction_keeps_what_a_snapshot_sees() {
    COMPACT.run(Some(Mistake::PinAfterWatermark));
}

#[test]
#[should_panic(expected = "is removed while a version holds it")]
fn files_go_with_their_last_holder() {
    COMPACT.run(Some(Mistake::RemoveWhenRetired));
}
