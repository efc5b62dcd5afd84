//! What the engine counts.

use std::sync::Arc;

use firn_engine::blocking::Blocking;
use firn_engine::settings::MIB;
use firn_engine::{Engine, KEYSPACE_DEFAULT, ReadAt, WriteOptions};
use firn_storage::ManualClock;
use firn_storage::backend::Memory;

use crate::support::{open, tiny};

#[test]
fn what_was_written_and_read_is_counted() {
    let clock = Arc::new(ManualClock::new(1_000_000));
    // One checkpoint is asked for, and none is due.
    let settings = tiny().with_engine(|hash| hash.redo_bytes_max = 512 * MIB);
    let database = open(Arc::new(Memory::new()), clock, false, settings).expect("opened");
    let hash = || database.stats().hash.expect("its own part");
    assert_eq!((hash().segment_count, hash().checkpoint_count), (0, 0));
    let mut session = Blocking::new(database.session());
    // Twice as much as stays in memory.
    for number in 0..160_000_u32 {
        let key = number.to_be_bytes();
        session.put(KEYSPACE_DEFAULT, &key, &[7; 80], WriteOptions::default()).expect("put");
    }
    session.put(KEYSPACE_DEFAULT, b"long", &vec![1; 300_000], WriteOptions::default()).expect("put");
    database.flush().expect("a checkpoint");
    let stats = database.stats();
    let counted = hash();
    assert!(stats.log_write_bytes_total > 160_000 * 80, "{stats:?}");
    assert_eq!((counted.value_write_bytes_total, counted.checkpoint_count), (300_000, 1));
    assert!(counted.flush_write_bytes_total > 160_000 * 80);
    // The first eight words of the log have no address.
    let filled = counted.flush_write_bytes_total + 8 * 8;
    let heads = counted.segment_count * firn_format::hybrid::SEGMENT_HEADER_BYTES as u64;
    assert_eq!(counted.segment_bytes, filled + heads);
    let copied = counted.compaction_copy_bytes_total + counted.cold.run_write_bytes_total;
    let written = stats.log_write_bytes_total + counted.flush_write_bytes_total + 300_000 + copied;
    assert_eq!(stats.device_write_bytes_total(), written);
    assert_eq!(stats.memory_bytes, counted.index_bytes + counted.resident_bytes + counted.cache_bytes);
    assert!(session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &0_u32.to_be_bytes()).expect("read").is_some());
    assert!(database.stats().read_miss_count > 0, "the first record is on the device alone");
    assert!(stats.to_string().contains("segments on disk"), "{stats}");
}
