//! Operations that may be pending: many durable writes in flight on one thread, by tickets. Example
//! `futures` does the same with `async` and `await`.
//!
//! `cargo run --release -p firn --example sessions`

use std::collections::BTreeSet;

use firn::{Completion, Db, Durability, KEYSPACE_DEFAULT, Outcome, WriteOptions};

const ON_DISK: WriteOptions = WriteOptions { durability: Some(Durability::Disk), expires_at_ms: 0 };

/// Writes a thousand records that each survive loss of power, with few device syncs and one thread.
pub fn main() -> firn::Result<()> {
    let directory = std::env::temp_dir().join(format!("firn-sessions-{}", std::process::id()));
    let db = Db::open(&directory)?;

    // A session never blocks but in `wait`: what takes time answers a ticket, and its completion
    // comes later.
    let mut session = db.engine().session();
    let mut in_flight = BTreeSet::new();
    let mut acknowledged = 0;
    for number in 0..1000_u32 {
        match session.put(KEYSPACE_DEFAULT, &number.to_be_bytes(), b"by ticket", ON_DISK)? {
            Outcome::Done(_) => acknowledged += 1,
            Outcome::Pending(ticket) => drop(in_flight.insert(ticket)),
        }
    }
    while !in_flight.is_empty() {
        session.wait(None);
        let mut failed = None;
        session.poll(&mut |ticket, completion| match completion {
            Completion::Written(_) => acknowledged += usize::from(in_flight.remove(&ticket)),
            other => failed = Some(other),
        });
        assert!(failed.is_none(), "{failed:?}");
    }
    let syncs = db.stats().sync_count;
    println!("{acknowledged} writes shared {syncs} syncs");
    db.close()?;
    std::fs::remove_dir_all(&directory).expect("the example's directory can be removed");

    assert_eq!(acknowledged, 1000);
    assert!(syncs < 1000, "{syncs} syncs for 1000 writes");
    Ok(())
}
