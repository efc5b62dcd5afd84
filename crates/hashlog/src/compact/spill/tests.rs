//! A checkpoint is taken amid a spill.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, Weak};
use std::time::Duration;

use firn_engine::blocking::Blocking;
use firn_engine::conformance::semantics;
use firn_engine::settings::MIB;
use firn_engine::{Engine, KEYSPACE_DEFAULT, ReadAt, WriteOptions};
use firn_storage::backend::{Effect, Fault, Faulty, Memory, Operation, When};
use firn_storage::{Clock, ManualClock};

use super::*;
use crate::{Background, HashLog, HashOptions, Settings};

/// A clock that has a checkpoint taken whenever a delay is slept on it.
#[derive(Debug, Default)]
struct Checkpointing {
    database: Mutex<Weak<HashLog>>,
    is_paused: AtomicBool,
}

impl Clock for Checkpointing {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn unix_ms(&self) -> u64 {
        1
    }

    fn sleep(&self, _time: Duration) {
        let database = self.database.lock().expect("no panic").upgrade();
        if let (Some(database), false) =
            (database, self.is_paused.swap(true, std::sync::atomic::Ordering::Relaxed))
        {
            database.flush().expect("a checkpoint");
            self.is_paused.store(false, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

fn opened(storage: &Faulty) -> Arc<HashLog> {
    let settings = Settings { memory_bytes: 8 * MIB, ..Settings::default() }.with_engine(|hash| {
        hash.index_bytes_max = 4 * MIB;
        hash.read_cache_bytes = MIB;
        hash.page_bytes = MIB / 2;
        hash.segment_bytes = MIB;
    });
    let options = HashOptions {
        storage: Arc::new(storage.clone()),
        settings,
        semantics: semantics(),
        clock: Arc::new(ManualClock::new(1)),
        background: Background::Manual,
        seed: 7,
        create: true,
        take_over: true,
    };
    HashLog::open(&options).expect("open")
}

/// The oldest segments of the cold log go while their records are spilled.
#[test]
fn a_checkpoint_amid_a_spill_does_no_harm() {
    let clock = Arc::new(Checkpointing::default());
    let faulty = Faulty::with_clock(Arc::new(Memory::new()), clock.clone());
    let database = opened(&faulty);
    let mut session = Blocking::new(database.session());
    let value = vec![1; 50_000];
    for key in 0..100_u64 {
        session.put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &value, WriteOptions::default()).expect("put");
    }
    database.flush().expect("flush");
    let compaction = Compaction::of(&database.database);
    (0..3).for_each(|_| compaction.compact().expect("made cold"));
    database.flush().expect("flush");
    (0..2).for_each(|_| compaction.compact_cold().expect("compacted"));
    let cold = &database.database.store.cold;
    let (begin, end) = (cold.begin(), cold.end());
    *clock.database.lock().expect("no panic") = Arc::downgrade(&database);
    let effect = Effect::Delay(Duration::from_millis(1));
    let when = When::Once { after: 0 };
    faulty.inject(Fault { on: Operation::Read, file: "*.cold".into(), when, effect });
    compaction.spill().expect("spilled");
    assert!(cold.begin() > begin, "segments went meanwhile");
    assert!(cold.spilled() > begin && cold.spilled() <= end, "it was spilled");
    for key in 0..100_u64 {
        let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &key.to_le_bytes()).expect("get");
        assert!(found.as_ref() == Some(&value), "key {key}");
    }
}
