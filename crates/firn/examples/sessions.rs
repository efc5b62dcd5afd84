//! Operations that may be pending: many durable writes in flight on one thread, then the same as
//! futures.
//!
//! `cargo run --release -p firn --example sessions`

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};

use firn::future::Futures;
use firn::{Completion, Db, Durability, KEYSPACE_DEFAULT, Outcome, ReadAt, WriteOptions};

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
    println!("{acknowledged} writes shared {} syncs", db.stats().sync_count);

    // The same as futures, for any executor. A call begins its operation; awaiting only waits for
    // the answer.
    let futures = Futures::new(db.engine().session());
    let value = block_on(async {
        let writes: Vec<_> = (0..1000_u32)
            .map(|number| futures.put(KEYSPACE_DEFAULT, &number.to_be_bytes(), b"by future", ON_DISK))
            .collect();
        for write in writes {
            write.await?;
        }
        futures.get(ReadAt::Latest, KEYSPACE_DEFAULT, &7_u32.to_be_bytes()).await
    })?;

    let syncs = db.stats().sync_count;
    db.close()?;
    std::fs::remove_dir_all(&directory).expect("the example's directory can be removed");

    assert_eq!(acknowledged, 1000);
    assert_eq!(value.as_deref(), Some(&b"by future"[..]));
    assert!(syncs < 2000, "{syncs} syncs for 2000 writes");
    Ok(())
}

/// The smallest executor: polls, and sleeps until it is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Arc::new(Unpark(std::thread::current())).into();
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return answer;
        }
        std::thread::park();
    }
}
