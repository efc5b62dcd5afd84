//! A worker or a control plane of a soak: a process that is killed, stands still and goes on.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A process, killed when it is dropped.
pub(super) struct Process(pub(super) Child);

impl Process {
    /// Starts `command` and waits for its first line.
    pub(super) fn start(command: &mut Command) -> (Self, String) {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it is read");
        (Self(process), line)
    }

    fn signal(&self, signal: Signal) {
        signal_to(&self.0, signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _ended = self.0.wait();
    }
}

pub(super) fn signal_to(process: &Child, signal: Signal) {
    let pid = Pid::from_raw(process.id().cast_signed()).expect("an id");
    kill_process(pid, signal).expect("it is there");
}

/// A worker or a control plane, and until when it is stopped.
pub(super) struct Member {
    pub(super) process: Process,
    pub(super) stopped_until: Option<Instant>,
    /// How long it was to stand still, when it was stopped last.
    pub(super) stopped_for: Duration,
    /// Where it answers by HTTP, if it does.
    pub(super) http: Option<String>,
}

impl Member {
    pub(super) fn new(process: Process, line: &str) -> Self {
        let http = line.split_once("HTTP at http://").and_then(|(_, rest)| rest.split(';').next());
        Self { process, stopped_until: None, stopped_for: Duration::ZERO, http: http.map(str::to_owned) }
    }

    /// Stops it; `false` if it is stopped.
    pub(super) fn stop(&mut self, until: Instant) -> bool {
        if self.stopped_until.is_some() {
            return false;
        }
        self.process.signal(Signal::STOP);
        (self.stopped_until, self.stopped_for) = (Some(until), until - Instant::now());
        true
    }

    /// Has it go on if it was to stand still until `now`; `false` if it was not.
    pub(super) fn go_on(&mut self, now: Instant) -> bool {
        let is_over = self.stopped_until.is_some_and(|until| until <= now);
        if is_over {
            self.process.signal(Signal::CONT);
            self.stopped_until = None;
        }
        is_over
    }
}
