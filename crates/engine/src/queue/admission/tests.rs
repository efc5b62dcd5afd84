use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Wake, Waker};

use super::*;
use crate::CompletionQueue;

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// How often what waits for a session is woken from now on: once at most.
fn wakes(queue: &CompletionQueue) -> impl Fn() -> usize + use<> {
    let wakes = Arc::new(Wakes::default());
    queue.notifier().register(&Waker::from(Arc::clone(&wakes)));
    move || wakes.0.load(Ordering::Relaxed)
}

#[test]
fn each_session_that_waits_is_held_once_and_nudged_when_room_was_made() {
    let (admission, queues) = (Admission::default(), [CompletionQueue::new(), CompletionQueue::new()]);
    for queue in queues.iter().chain(&queues) {
        admission.wait_in(&queue.sender());
    }
    assert_eq!(admission.lock().sessions.len(), 2);
    let counts = queues.each_ref().map(wakes);
    assert_eq!(counts.each_ref().map(|count| count()), [0, 0]);
    admission.release();
    assert_eq!(counts.each_ref().map(|count| count()), [1, 1]);
    assert!(admission.lock().sessions.is_empty());
}

#[test]
fn a_session_that_comes_after_the_end_is_nudged_at_once() {
    let (admission, queue) = (Admission::default(), CompletionQueue::new());
    admission.end();
    admission.nudge();
    let count = wakes(&queue);
    admission.wait_in(&queue.sender());
    assert_eq!((count(), admission.lock().sessions.len()), (1, 0));
}

#[test]
fn sessions_are_nudged_without_room_and_for_the_last_time_at_the_end() {
    let (admission, queue) = (Admission::default(), CompletionQueue::new());
    let count = wakes(&queue);
    admission.wait_in(&queue.sender());
    std::thread::scope(|scope| {
        scope.spawn(|| admission.nudge());
        // Until they are taken, but not for ever.
        (0..1_000_000)
            .take_while(|_| !admission.lock().sessions.is_empty())
            .for_each(|_| std::thread::yield_now());
        admission.end();
    });
    assert_eq!(count(), 1);
    // One that comes between the last nudge and the end.
    queue.take_nudge();
    let count = wakes(&queue);
    admission.lock().is_over = false;
    admission.wait_in(&queue.sender());
    admission.end();
    admission.nudge();
    assert_eq!((count(), admission.lock().sessions.len()), (1, 0));
}

#[test]
fn what_is_wanted_and_how_long_writers_stood_still_is_told() {
    let admission = Admission::default();
    assert!(!admission.is_writer_stopped());
    admission.want(7);
    assert_eq!((admission.is_writer_stopped(), admission.wanted()), (true, 7));
    admission.want(0);
    assert!(!admission.is_writer_stopped());
    let us = Duration::from_micros;
    admission.stopped(us(1000), us(3000));
    admission.stopped(us(2998), us(3003));
    assert_eq!(admission.stop_us(), 2005);
    admission.still_stopped(us(4000), us(4100));
    assert_eq!((admission.stop_us(), admission.stop_wall_us(us(9000))), (2005, 2003 + 100));
}
