use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Wake;
use std::thread::Thread;

use super::*;
use crate::blocking::delayed::Delayed;
use crate::{ErrorKind, KEYSPACE_DEFAULT as KS};

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
    let db = Futures::new(session);
    block_on(async {
        db.put(KS, b"a", b"1", O).await.unwrap();
        db.write(Batch::new().put(KS, b"b", b"22").put(KS, b"c", b"3"), O).await.unwrap();
        assert_eq!(db.get(ReadAt::Latest, KS, b"b").await.unwrap().as_deref(), Some(&b"22"[..]));
        assert_eq!(db.get_range(ReadAt::Latest, KS, b"b", 0..1).await.unwrap().as_deref(), Some(&b"2"[..]));
        let values = db.multi_get(ReadAt::Latest, KS, &[b"c", b"x"]).await.unwrap();
        assert_eq!(values.iter().collect::<Vec<_>>(), [Some(&b"3"[..]), None]);
        assert!(db.is_stored(KS, b"c").await.unwrap());
        db.delete(KS, b"c", O).await.unwrap();
        assert!(!db.is_stored(KS, b"c").await.unwrap());
        assert_eq!(db.merge(KS, b"a", b"x", O).await.unwrap_err().kind(), ErrorKind::Invalid);
        let length = db.update(KS, b"b", O, |value| (Change::Keep, value.map_or(0, <[u8]>::len)));
        assert_eq!(length.await.unwrap(), 2);
        let mut batches = db.scan(ReadAt::Latest, KS, ScanRange::all()).unwrap();
        let limit = BatchLimit { records: 1, bytes: 100 };
        let first = batches.next_batch(limit).await.unwrap();
        assert_eq!(first.get(0), Some((&b"a"[..], &b"1"[..])));
        assert!(batches.next_batch(limit).await.unwrap().is_finished());
    });
    drop(db);
    background.join().unwrap();
}

#[test]
fn replies_wake_whoever_waits_in_any_order() {
    let (session, held) = Delayed::pair();
    let db = Futures::new(session);
    let (first_count, second_count) = (Arc::new(Count::default()), Arc::new(Count::default()));
    let (first_waker, second_waker) = (Waker::from(first_count.clone()), Waker::from(second_count.clone()));
    let mut first = db.put(KS, b"a", b"1", O);
    let mut second = db.put(KS, b"b", b"2", O);
    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&first_waker)).is_pending());
    assert!(Pin::new(&mut second).poll(&mut Context::from_waker(&second_waker)).is_pending());
    held.release(1);
    assert_eq!(second_count.0.load(SeqCst), 1);
    // The first drains the second's completion and must leave it, and a wake-up, for the second.
    second_count.0.store(0, SeqCst);
    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&first_waker)).is_pending());
    assert_eq!(second_count.0.load(SeqCst), 1);
    assert!(Pin::new(&mut second).poll(&mut Context::from_waker(&second_waker)).is_ready());
    first_count.0.store(0, SeqCst);
    held.release(0);
    assert!(first_count.0.load(SeqCst) > 0);
    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&first_waker)).is_ready());
}

#[test]
fn a_dropped_reply_abandons_its_result_only() {
    let (session, held) = Delayed::pair();
    let db = Futures::new(session);
    drop(db.put(KS, b"a", b"1", O));
    let kept = db.get(ReadAt::Latest, KS, b"a");
    held.release(0);
    held.release(0);
    assert_eq!(block_on(kept).unwrap().as_deref(), Some(&b"1"[..]), "the write went on");
    let state = db.line.lock();
    assert!(state.abandoned.is_empty() && state.arrived.is_empty() && state.waiting.is_empty());
}

#[test]
fn a_dropped_batch_is_delivered_by_the_next_call() {
    let (session, held) = Delayed::pair();
    let db = Futures::new(session);
    drop(db.put(KS, b"a", b"1", O));
    held.release(0);
    let mut batches = db.scan(ReadAt::Latest, KS, ScanRange::all()).unwrap();
    {
        let dropped = std::pin::pin!(batches.next_batch(BatchLimit::default()));
        assert!(dropped.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    held.release(0);
    assert_eq!(block_on(batches.next_batch(BatchLimit::default())).unwrap().len(), 1);
}
