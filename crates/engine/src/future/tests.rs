use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Wake, Waker};
use std::thread::Thread;

use super::*;
use crate::blocking::delayed::Delayed;
use crate::{ErrorKind, KEYSPACE_DEFAULT as KS, ScanRange};

const O: WriteOptions = WriteOptions { durability: None, expires_at_ms: 0 };

/// Parks the thread until the future is ready: all the runtime these futures need.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn every_call_is_ready_after_its_completion() {
    let (session, held) = Delayed::pair();
    let background = held.release_in_background();
    drop(held);
    let mut db = Futures::new(session);
    block_on(async {
        db.put(KS, b"a", b"1", O).await.unwrap();
        db.write(Batch::new().put(KS, b"b", b"22").put(KS, b"c", b"3"), O).await.unwrap();
        assert_eq!(db.get(ReadAt::Latest, KS, b"b").await.unwrap().as_deref(), Some(&b"22"[..]));
        assert_eq!(db.get_range(ReadAt::Latest, KS, b"b", 0..1).await.unwrap().as_deref(), Some(&b"2"[..]));
        assert!(db.contains_key(ReadAt::Latest, KS, b"b").await.unwrap());
        assert!(!db.contains_key(ReadAt::Latest, KS, b"x").await.unwrap());
        let values = db.multi_get(ReadAt::Latest, KS, &[b"c", b"x"]).await.unwrap();
        assert_eq!(values.iter().collect::<Vec<_>>(), [Some(&b"3"[..]), None]);
        assert!(db.is_stored(KS, b"c").await.unwrap());
        db.delete(KS, b"c", O).await.unwrap();
        assert!(!db.is_stored(KS, b"c").await.unwrap());
        assert_eq!(db.merge(KS, b"a", b"x", O).await.unwrap_err().kind(), ErrorKind::Invalid);
        let length = db.update(KS, b"b", O, |value| (Change::Keep, value.map_or(0, <[u8]>::len)));
        assert_eq!(length.await.unwrap(), 2);
        let mut scan = db.session().scan(ReadAt::Latest, KS, ScanRange::all()).unwrap();
        let limit = BatchLimit { records: 1, bytes: 100 };
        let first = db.next_batch(&mut *scan, limit).await.unwrap();
        assert_eq!(first.get(0), Some((&b"a"[..], &b"1"[..])));
        assert!(db.next_batch(&mut *scan, limit).await.unwrap().is_finished());
    });
    assert!(db.is_idle());
    drop(db);
    background.join().unwrap();
}

#[test]
fn an_operation_begins_when_it_is_polled_and_wakes_its_task() {
    let (session, held) = Delayed::pair();
    let mut db = Futures::new(session);
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    {
        let mut put = std::pin::pin!(db.put(KS, b"a", b"1", O));
        assert_eq!(held.count(), 0, "nothing has begun");
        assert!(put.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!((held.count(), count.0.load(SeqCst)), (1, 0));
        held.release(0);
        assert_eq!(count.0.load(SeqCst), 1);
        assert!(put.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    }
    assert!(db.is_idle());
}

#[test]
fn a_dropped_future_leaves_the_session_sound() {
    let (session, held) = Delayed::pair();
    let mut db = Futures::new(session);
    {
        let dropped = std::pin::pin!(db.put(KS, b"a", b"1", O));
        assert!(dropped.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert!(!db.is_idle(), "a write is under way");
    {
        let mut get = std::pin::pin!(db.get(ReadAt::Latest, KS, b"a"));
        assert!(get.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // The completion of the write that nothing waits for comes first.
        held.release(0);
        assert!(get.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        held.release(0);
        assert_eq!(block_on(get).unwrap().as_deref(), Some(&b"1"[..]), "the write went on");
    }
    assert!(db.is_idle(), "its completion was discarded");
}

#[test]
fn the_completion_of_a_batch_waits_until_it_is_asked_for() {
    let (session, held) = Delayed::pair();
    let mut db = Futures::new(session);
    {
        let dropped = std::pin::pin!(db.put(KS, b"a", b"1", O));
        assert!(dropped.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    held.release(0);
    let mut scan = db.session().scan(ReadAt::Latest, KS, ScanRange::all()).unwrap();
    let Ok(Outcome::Pending(ticket)) = scan.next_batch(BatchLimit::default(), &mut ScanBatch::new()) else {
        panic!("it is held");
    };
    held.release(0);
    // Another operation finds the batch and leaves it.
    let background = held.release_in_background();
    drop(held);
    assert!(block_on(db.contains_key(ReadAt::Latest, KS, b"a")).unwrap());
    let completion = db.poll_completion(ticket, &mut Context::from_waker(Waker::noop()));
    assert!(matches!(completion, Poll::Ready(Completion::Scanned(batch)) if batch.len() == 1));
    drop((db, scan));
    background.join().unwrap();
}
