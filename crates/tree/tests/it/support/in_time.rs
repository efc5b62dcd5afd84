//! Work and events that fail a test where they take half a minute.

use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Does `work` on another thread; fails if it has not ended in half a minute.
pub(crate) fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    #[expect(clippy::disallowed_methods, reason = "a thread that may never end cannot be scoped")]
    let worker = std::thread::spawn(move || {
        let _nobody_waits_any_more = done.send(());
        work()
    });
    wait.recv().unwrap();
    until(what, || worker.is_finished());
    worker.join().unwrap()
}

/// Waits for `done`; fails if that takes half a minute.
pub(crate) fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = now() + Duration::from_secs(30);
    while !done() {
        assert!(now() < deadline, "{what}: not in half a minute");
        std::thread::yield_now();
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a test takes is wall time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
