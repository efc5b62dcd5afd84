//! What is chosen beside what other threads do.

use std::sync::Arc;

use firn_engine::{KEYSPACE_DEFAULT, Outcome, Session, WriteOptions};
use firn_maintenance::Work;
use firn_storage::ManualClock;
use firn_storage::backend::Memory;

use super::super::InProgress;
use super::{BlobClaims, Claims, Task};
use crate::database::Database;
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
    let choose = |blobs: BlobClaims| {
        let mut busy = InProgress::default();
        busy.claims = Claims { blobs, ..Claims::default() };
        database.choose(&busy)
    };
    assert!(matches!(choose(BlobClaims::default()), Some(Task::WriteBackBlobs)));
    let after = BlobClaims { has_written_back: true, ..BlobClaims::default() };
    assert!(matches!(choose(after), Some(Task::SealBlobs)), "in turn");
    for claims in [
        BlobClaims { is_sealing: true, ..BlobClaims::default() },
        BlobClaims { is_writing_back: true, ..BlobClaims::default() },
        BlobClaims { is_sealing: true, has_written_back: true, ..BlobClaims::default() },
    ] {
        let chosen = choose(claims);
        let brings = matches!(chosen, Some(Task::WriteBackBlobs | Task::SealBlobs));
        assert!(!brings, "{chosen:?} is for one thread, others are for flushes");
    }
}
