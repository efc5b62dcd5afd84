//! One database, many threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;

use firn::{Change, Completion, Db, Durability, KEYSPACE_DEFAULT, Outcome, Settings, WriteOptions};

/// Every kind of blocking call, by threads that own keys of their own and share the pool of
/// sessions.
#[test]
fn eight_threads_share_a_database() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::builder(dir.path()).settings(Settings::for_memory(16 << 20)).open().expect("opened");
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (db, start) = (&db, &start);
            scope.spawn(move || {
                start.wait();
                let key = |number: u64| format!("{thread} {number:05}");
                for number in 0..1500 {
                    db.put(key(number), [7; 1000]).expect("put");
                    let got = db.get(key(number)).expect("get");
                    assert_eq!(got.map(|value| value.len()), Some(1000), "a thread sees what it wrote");
                    if number % 3 == 0 {
                        db.delete(key(number)).expect("delete");
                        assert_eq!(db.get(key(number)).expect("get"), None);
                    }
                    db.put("x".repeat(70_000), "").expect_err("an error gives its session back");
                    let value = |old: Option<&[u8]>| {
                        old.map_or(0, |old| u64::from_le_bytes(old.try_into().expect("8 bytes")))
                    };
                    let counted = db.update("shared", move |old| {
                        (Change::Put((value(old) + 1).to_le_bytes().to_vec()), ())
                    });
                    counted.expect("update");
                }
                let own = db.prefix(format!("{thread} ")).expect("scan");
                assert_eq!(own.filter(Result::is_ok).count(), 1000);
            });
        }
    });
    assert_eq!(db.get("shared").expect("get").as_deref(), Some(&(8 * 1500_u64).to_le_bytes()[..]));
    db.close().expect("closed");
    let db = Db::open(dir.path()).expect("opened again");
    assert_eq!(db.range(..).expect("scan").count(), 8001);
}

/// A panic in the caller's function leaves neither the key nor the database unusable.
#[test]
fn a_panic_in_an_update_is_the_callers_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    db.put("key", "old").expect("put");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        db.update("key", |_| -> (Change, ()) { panic!("the caller's own fault") })
    }));
    assert!(panicked.is_err());
    assert_eq!(db.get("key").expect("get").as_deref(), Some(&b"old"[..]));
    db.update("key", |_| (Change::Put(b"new".to_vec()), ())).expect("update");
    assert_eq!(db.get("key").expect("get").as_deref(), Some(&b"new"[..]));
    db.close().expect("closed");
}

/// An update's function may read the database it changes.
#[test]
fn an_update_may_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = std::sync::Arc::new(Db::open(dir.path()).expect("opened"));
    db.put("source", "value").expect("put");
    let reader = std::sync::Arc::clone(&db);
    let copied = db.update("target", move |_| {
        let source = reader.get("source").expect("get").unwrap_or_default();
        (Change::Put(source.clone()), source.len())
    });
    assert_eq!(copied.expect("update"), 5);
    assert_eq!(db.get("target").expect("get").as_deref(), Some(&b"value"[..]));
}

/// One thread, no inline waiting, more data than the buffer may hold: the session keeps what finds
/// no room.
#[test]
fn a_session_that_never_blocks_finishes_what_it_began() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::builder(dir.path()).settings(Settings::for_memory(16 << 20)).open().expect("opened");
    let mut session = db.engine().session();
    let (mut written, mut pending) = (0, std::collections::BTreeSet::new());
    for number in 0..12_000_u32 {
        let outcome =
            session.put(KEYSPACE_DEFAULT, &number.to_be_bytes(), &[3; 4096], WriteOptions::default());
        match outcome.expect("put") {
            Outcome::Done(_) => written += 1,
            Outcome::Pending(ticket) => assert!(pending.insert(ticket), "{ticket:?} was given twice"),
        }
    }
    while !pending.is_empty() {
        assert!(session.wait(None));
        session.poll(&mut |ticket, completion| {
            assert!(matches!(completion, Completion::Written(_)), "{completion:?}");
            assert!(pending.remove(&ticket), "{ticket:?} completed twice");
            written += 1;
        });
    }
    assert!(!session.wait(None), "nothing is left");
    assert_eq!(written, 12_000);
    assert_eq!(db.range(..).expect("scan").count(), 12_000);
}

/// The same as futures: each waiting write is woken, also where admission paces or stops writes.
#[test]
fn futures_are_woken_however_slow_the_writes() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::builder(dir.path()).settings(Settings::for_memory(16 << 20)).open().expect("opened");
    for durability in [Durability::Process, Durability::Disk] {
        let options = WriteOptions { durability: Some(durability), ..WriteOptions::default() };
        let keyspace = db.futures().in_default().with_options(options);
        let put = |number: u32| keyspace.put(number.to_be_bytes(), [3; 4096]);
        // All of them are under way at once.
        let answers = wait(futures_util::future::join_all((0..6000).map(put)));
        let answers = answers.unwrap_or_else(|| panic!("a write at {durability:?} was never woken"));
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }
    assert_eq!(db.range(..).expect("scan").count(), 6000);
}

/// The future's answer; `None` if nothing woke it for ten seconds.
fn wait<F: Future>(future: F) -> Option<F::Output> {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Poll, Wake};
    struct Unpark(std::thread::Thread, AtomicBool);
    impl Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.1.store(true, Ordering::Release);
            self.0.unpark();
        }
    }
    let unpark = std::sync::Arc::new(Unpark(std::thread::current(), AtomicBool::new(false)));
    let mut future = std::pin::pin!(future);
    let waker = std::sync::Arc::clone(&unpark).into();
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(answer);
        }
        let mut patience = 100;
        while !unpark.1.swap(false, Ordering::AcqRel) {
            patience -= 1;
            if patience == 0 {
                return None;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(100));
        }
    }
}
