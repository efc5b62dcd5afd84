//! What others feel while one client's command runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firn_protocol::resp::Value;

use super::super::client::Served;

/// Says when it is over, also where that is by a panic.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// How long `act` took, and the longest that another client waited for its PING meanwhile.
pub(super) fn worst_ping(served: &Served, act: impl FnOnce()) -> (Duration, Duration) {
    let (mut other, is_over) = (served.connect(), AtomicBool::new(false));
    other.say("PING");
    std::thread::scope(|scope| {
        let pinging = scope.spawn(|| {
            let mut worst = Duration::ZERO;
            while !is_over.load(Ordering::Acquire) {
                let since = Instant::now();
                assert_eq!(other.say("PING"), Value::Simple("PONG".into()));
                worst = worst.max(since.elapsed());
            }
            worst
        });
        let over = Over(&is_over);
        let since = Instant::now();
        act();
        let took = since.elapsed();
        drop(over);
        (took, pinging.join().expect("it pings"))
    })
}

/// Lets `act` run; says so if another client of the same thread was not served meanwhile. On a machine that is busy everything
/// takes longer, the command too.
pub(super) fn serves_others(served: &Served, what: &str, act: impl FnOnce()) -> Option<String> {
    let (took, worst) = worst_ping(served, act);
    let most = Duration::from_millis(120) + took / 2;
    (worst >= most).then(|| format!("{what} took {took:?}, and another client waited {worst:?} for a PING\n"))
}

/// Tries up to three times, each with another server, whether nothing is complained of: a busy machine holds threads that nobody
/// holds here, but not the same ones each time.
pub(super) fn in_three(mut complaints: impl FnMut() -> String) {
    let mut last = String::new();
    for _ in 0..3 {
        last = complaints();
        if last.is_empty() {
            return;
        }
    }
    panic!("{last}");
}

/// The most memory beyond what there was that the process has while `act` runs: what other tests do counts, too.
pub(super) fn memory_beside(act: impl FnOnce()) -> usize {
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("it is told");
        let pages: usize = statm.split(' ').nth(1).expect("a number").parse().expect("a number");
        pages * 4096
    };
    let (before, is_over) = (resident(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut most = before;
            while !is_over.load(Ordering::Acquire) {
                most = most.max(resident());
                std::thread::sleep(Duration::from_millis(1));
            }
            most
        });
        let over = Over(&is_over);
        act();
        drop(over);
        looking.join().expect("it looks") - before
    })
}
