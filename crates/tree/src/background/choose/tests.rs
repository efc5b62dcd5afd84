//! What is chosen beside what other threads do.

use std::sync::Arc;

use firn_engine::{KEYSPACE_DEFAULT, Outcome, Session, WriteOptions};
use firn_maintenance::Work;
use firn_storage::ManualClock;
use firn_storage::backend::Memory;

use crate::database::Database;
use crate::maintenance::{InProgress, Task};
use crate::session::TreeSession;
use crate::settings::Settings;
use crate::tree::tests::manual;

/// A database with a segment of values to be sealed, and another one that the device is to begin
/// with.
fn values_to_bring() -> Arc<Database> {
    let settings = Settings::default().with_engine(|tree| {
        tree.log_segment_bytes = 4 << 20;
        tree.separate_bytes = 1000;
        tree.blob_segment_bytes = 8 << 20;
    });
    let options = manual(Memory::new(), settings, Arc::new(ManualClock::new(1_000_000)));
    let (database, _lock) = crate::open::open(&options).expect("opens");
    let mut session = TreeSession::new(Arc::clone(&database));
    session.set_inline(true);
    let value = vec![7; 100 << 10];
    for number in 0..110_u32 {
        let outcome = session
            .put(KEYSPACE_DEFAULT, &number.to_be_bytes(), &value, WriteOptions::default())
            .expect("written");
        assert!(matches!(outcome, Outcome::Done(_)));
    }
    database.commit.balance_memory();
    database
}

#[test]
fn one_thread_at_a_time_brings_values_to_the_device() {
    let database = values_to_bring();
    let choose = |is_sealing, is_writing_back, has_written_back| {
        let mut busy = InProgress::default();
        let claims = &mut busy.claims.blobs;
        claims.is_sealing = is_sealing;
        claims.is_writing_back = is_writing_back;
        claims.has_written_back = has_written_back;
        database.choose(&busy)
    };
    assert!(matches!(choose(false, false, false), Some(Task::WriteBackBlobs)));
    assert!(matches!(choose(false, false, true), Some(Task::SealBlobs)), "in turn");
    for (is_sealing, is_writing_back, has_written_back) in
        [(true, false, false), (false, true, false), (true, false, true)]
    {
        let chosen = choose(is_sealing, is_writing_back, has_written_back);
        let brings = matches!(chosen, Some(Task::WriteBackBlobs | Task::SealBlobs));
        assert!(!brings, "{chosen:?} is for one thread, others are for flushes");
    }
}
