//! What others feel while one client's command runs.

use std::process::Command;
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

/// Lets `act` run; says so if another client of the same thread was not served meanwhile. On a
/// machine that is busy everything takes longer, the command too.
pub(super) fn serves_others(served: &Served, what: &str, act: impl FnOnce()) -> Option<String> {
    let (took, worst) = worst_ping(served, act);
    let most = Duration::from_millis(120) + took / 2;
    (worst >= most).then(|| format!("{what} took {took:?}, and another client waited {worst:?} for a PING\n"))
}

/// Tries up to three times, each with another server, whether there are no complaints. A busy
/// machine holds threads that no command holds, but not the same ones each time.
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

/// Says to a process that it runs one test alone.
const IS_ALONE: &str = "FIRN_TEST_ALONE";

/// Runs the test `name` of this file's neighbours, whose body is `act`, in a process of its own. A
/// process's memory does not tell which of its tests has it.
pub(super) fn in_a_process_of_its_own(name: &str, act: impl FnOnce()) {
    if std::env::var_os(IS_ALONE).is_some() {
        return act();
    }
    let test = format!("epoll::faults::{name}");
    let mut other = Command::new(std::env::current_exe().expect("it runs"));
    let output = other
        .args(["--exact", &test, "--include-ignored", "--nocapture"])
        .env(IS_ALONE, "1")
        .output()
        .expect("it starts");
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// The most memory beyond what there was that the process has while `act` runs. The caller is
/// [`in_a_process_of_its_own`].
pub(super) fn memory_beside(act: impl FnOnce()) -> usize {
    assert!(std::env::var_os(IS_ALONE).is_some(), "other tests' memory would count");
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
