//! The pool against its promises.

use super::*;
use crate::{Error, ErrorKind, Priority, ThreadSpawn};
use std::sync::mpsc;

#[test]
fn reads_run_in_order_and_shutdown_does_all_of_them() {
    let spawn = ThreadSpawn::new();
    let pool = ReadPool::new(1, 1_000, &spawn).unwrap();
    let (sender, receiver) = mpsc::channel();
    for index in 0..1_000 {
        let sender = sender.clone();
        pool.submit(Box::new(move || sender.send(index).unwrap())).unwrap();
    }
    pool.shutdown();
    assert!(receiver.try_iter().eq(0..1_000));
    assert!(matches!(pool.submit(Box::new(|| ())), Err(Rejected::Closed(_))));
    assert_eq!(spawn.join_all(), Vec::<String>::new());
}

#[test]
fn a_full_queue_gives_the_read_back_and_shows_its_depth() {
    let spawn = ThreadSpawn::new();
    let pool = ReadPool::new(1, 2, &spawn).unwrap();
    let (begun, has_begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    pool.submit(Box::new(move || {
        begun.send(()).unwrap();
        released.recv().unwrap();
    }))
    .unwrap();
    has_begun.recv().unwrap();
    let (sender, receiver) = mpsc::channel();
    for index in 0..2 {
        let sender = sender.clone();
        pool.submit(Box::new(move || sender.send(index).unwrap())).unwrap();
    }
    assert_eq!((pool.running_count(), pool.queued_count()), (1, 2));
    let last = sender.clone();
    match pool.submit(Box::new(move || last.send(9).unwrap())) {
        Err(Rejected::Full(body)) => body(),
        other => panic!("expected Full, found {other:?}"),
    }
    release.send(()).unwrap();
    pool.shutdown();
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [9, 0, 1]);
    assert_eq!((pool.running_count(), pool.queued_count()), (0, 0));
}

#[test]
fn a_panicking_read_ends_alone() {
    let spawn = ThreadSpawn::new();
    let pool = ReadPool::new(1, 10, &spawn).unwrap();
    let (sender, receiver) = mpsc::channel();
    pool.submit(Box::new(|| panic!("on purpose"))).unwrap();
    pool.submit(Box::new(move || sender.send(1).unwrap())).unwrap();
    assert_eq!(receiver.recv().unwrap(), 1);
    assert_eq!(pool.panic_count(), 1);
    drop(pool);
    assert_eq!(spawn.join_all(), Vec::<String>::new(), "dropping the pool ends its threads");
}

/// Starts so many threads and no more.
#[derive(Debug)]
struct Few(ThreadSpawn, Mutex<usize>);

impl Spawn for Few {
    fn spawn(&self, name: String, priority: Priority, body: Box<dyn FnOnce() + Send>) -> Result<()> {
        let mut left = self.1.lock().unwrap();
        match left.checked_sub(1) {
            Some(less) => *left = less,
            None => return Err(Error::new(ErrorKind::Io, "", "no more threads")),
        }
        self.0.spawn(name, priority, body)
    }
}

#[test]
fn a_pool_that_cannot_have_its_threads_leaves_none() {
    let spawn = Few(ThreadSpawn::new(), Mutex::new(2));
    assert_eq!(ReadPool::new(3, 1, &spawn).unwrap_err().kind, ErrorKind::Io);
    assert_eq!(spawn.0.join_all(), Vec::<String>::new());
}
