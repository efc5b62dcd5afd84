//! One thread: many connections, one epoll.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firn_engine::{Error, ErrorKind, Result};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};

use super::command::Requests;
use super::connection::{Answers, Connection};
use super::schedule::Schedule;
use crate::driver::Gauge;
use crate::measure::{Latencies, now};
use crate::server::SILENCE_MAX;
use crate::workload::Kind;

/// Events taken at a time.
const EVENTS_MAX: usize = 256;

/// Bytes received at a time.
const RECEIVE_BYTES: usize = 64 << 10;

/// How often a thread that waits looks whether it is wanted still.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How long after the end of an open loop's time the answers to what was due may take.
pub(super) const LATE_MAX: Duration = Duration::from_secs(30);

/// The timer's number among events; others are connections.
const TIMER: u64 = u64::MAX;

/// What one thread does.
pub(super) struct Task {
    /// What it asks.
    pub(super) requests: Requests,
    /// How that counts in samples.
    pub(super) kind: Kind,
    /// Requests outstanding on a connection at most.
    pub(super) pipeline: usize,
    /// Requests after which it ends.
    pub(super) quota: u64,
    /// When it sends no more; of an open loop, when the last request is due.
    pub(super) end: Option<Duration>,
    /// The times of an open loop.
    pub(super) schedule: Option<Schedule>,
    /// Whether an error ends everything.
    pub(super) stops_at_errors: bool,
}

/// What one thread saw.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) latencies: Latencies,
    pub(super) answers: Answers,
    /// When the last answer came, since the beginning.
    pub(super) ended: Duration,
}

/// A thread with its connections.
pub(super) struct Worker<'p> {
    task: Task,
    connections: Vec<Connection>,
    epoll: OwnedFd,
    timer: OwnedFd,
    piece: Box<[u8]>,
    /// Open loop: connections, each as often as it has room for a request; the one in front is
    /// next.
    room: VecDeque<usize>,
    outstanding: u64,
    /// Since when something is outstanding without an answer.
    waiting_since: Duration,
    begun: Instant,
    recorder: Recorder,
    gauge: &'p Gauge,
    stop: &'p AtomicBool,
}

impl<'p> Worker<'p> {
    /// A worker for `task` on `sockets`, which it makes nonblocking.
    ///
    /// # Errors
    /// What the system says of epoll or a timer.
    pub(super) fn new(
        task: Task,
        sockets: Vec<TcpStream>,
        gauge: &'p Gauge,
        stop: &'p AtomicBool,
    ) -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), edge)?;
        for (index, socket) in sockets.iter().enumerate() {
            socket.set_nonblocking(true)?;
            let flags = edge | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP;
            epoll::add(&epoll, socket, epoll::EventData::new_u64(index as u64), flags)?;
        }
        let room = (0..task.pipeline).flat_map(|_| 0..sockets.len()).collect();
        Ok(Self {
            task,
            connections: sockets.into_iter().map(Connection::new).collect(),
            epoll,
            timer,
            piece: vec![0; RECEIVE_BYTES].into(),
            room,
            outstanding: 0,
            waiting_since: Duration::ZERO,
            begun: now(),
            recorder: Recorder {
                latencies: Latencies::new(),
                answers: Answers::default(),
                ended: Duration::ZERO,
            },
            gauge,
            stop,
        })
    }

    /// Asks and counts answers until the task is done, everything asked is answered, or `stop` is
    /// set.
    ///
    /// # Errors
    /// If a connection breaks, the server is silent for [`SILENCE_MAX`], or later than
    /// [`LATE_MAX`].
    pub(super) fn run(mut self, begun: Instant) -> Result<Recorder> {
        self.begun = begun;
        if self.task.schedule.is_none() {
            for index in 0..self.connections.len() {
                self.fill(index)?;
            }
        }
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while !self.stop.load(Ordering::Relaxed) {
            self.dispatch()?;
            if self.outstanding == 0 && !self.has_more(self.elapsed_ns()) {
                break;
            }
            self.wait(&mut events)?;
            for event in &events {
                let (number, flags) = (event.data.u64(), event.flags);
                if number == TIMER {
                    continue;
                }
                let index = number as usize;
                if flags.contains(epoll::EventFlags::OUT) {
                    self.send(index)?;
                }
                // Whatever else is told, its cause shows in receiving.
                if flags.intersects(!epoll::EventFlags::OUT) {
                    self.receive(index)?;
                }
            }
            self.check_patience()?;
        }
        Ok(self.recorder)
    }

    fn elapsed_ns(&self) -> u64 {
        now().saturating_duration_since(self.begun).as_nanos() as u64
    }

    /// Whether there is anything left to ask at `now_ns`. An open loop asks everything that was
    /// due, however late.
    fn has_more(&self, now_ns: u64) -> bool {
        let in_time = self.task.end.is_none_or(|end| u128::from(now_ns) < end.as_nanos());
        self.task.quota > 0 && (in_time || self.task.schedule.is_some())
    }

    /// Closed loop: asks as much as the pipeline holds, if the connection has nothing outstanding.
    fn fill(&mut self, index: usize) -> Result<()> {
        let Some(connection) = self.connections.get_mut(index) else { return Ok(()) };
        let count = self.task.quota.min(self.task.pipeline as u64);
        if count == 0 {
            return Ok(());
        }
        (0..count).for_each(|_| self.task.requests.append(&mut connection.output));
        let since = now().saturating_duration_since(self.begun);
        connection.outstanding.add(since.as_nanos() as u64, count);
        if self.outstanding == 0 {
            self.waiting_since = since;
        }
        self.task.quota -= count;
        self.outstanding += count;
        self.send(index)
    }

    /// Open loop: asks what is due, where there is room.
    fn dispatch(&mut self) -> Result<()> {
        let now_ns = self.elapsed_ns();
        let Some(schedule) = &mut self.task.schedule else { return Ok(()) };
        let mut touched = Vec::new();
        while self.task.quota > 0
            && let Some(index) = self.room.front().copied()
            && let Some(due_ns) = schedule.take(now_ns)
        {
            self.room.pop_front();
            if self.outstanding == 0 {
                self.waiting_since = Duration::from_nanos(now_ns);
            }
            self.task.quota -= 1;
            self.outstanding += 1;
            let Some(connection) = self.connections.get_mut(index) else { continue };
            if connection.output.is_empty() {
                touched.push(index);
            }
            self.task.requests.append(&mut connection.output);
            connection.outstanding.add(due_ns, 1);
        }
        touched.into_iter().try_for_each(|index| self.send(index))
    }

    /// Waits for events, or until the next request of an open loop is due.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> Result<()> {
        let mut timeout = LOOK_EVERY;
        if let Some(schedule) =
            self.task.schedule.as_ref().filter(|_| self.task.quota > 0 && !self.room.is_empty())
        {
            let left_ns = schedule.due_ns().saturating_sub(self.elapsed_ns());
            if left_ns == 0 {
                timeout = Timespec { tv_sec: 0, tv_nsec: 0 };
            } else {
                // The timeout of epoll is in milliseconds, which is too coarse.
                let due = Duration::from_nanos(left_ns);
                let it_value =
                    Timespec { tv_sec: due.as_secs() as i64, tv_nsec: i64::from(due.subsec_nanos()) };
                let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
                rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)
                    .map_err(system)?;
            }
        }
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(system(error)),
        }
    }

    fn send(&mut self, index: usize) -> Result<()> {
        let Some(connection) = self.connections.get_mut(index) else { return Ok(()) };
        connection.send().map_err(broken)
    }

    /// Takes everything that has come, and asks anew where everything is answered.
    fn receive(&mut self, index: usize) -> Result<()> {
        let mut is_all = false;
        while !is_all {
            let Some(connection) = self.connections.get_mut(index) else { return Ok(()) };
            let Some(bytes) = connection.receive(&mut self.piece).map_err(broken)? else { return Ok(()) };
            // Less than there was room for: that was all, and the next edge will be told.
            is_all = bytes < self.piece.len();
            let received = self.piece.get(..bytes).unwrap_or_default();
            let answers = connection.read(received).map_err(|error| {
                Error::new(ErrorKind::Closed, "the server does not speak RESP").because(error)
            })?;
            self.count(index, answers)?;
        }
        Ok(())
    }

    fn count(&mut self, index: usize, answers: Answers) -> Result<()> {
        let Some(connection) = self.connections.get_mut(index) else { return Ok(()) };
        let elapsed = now().saturating_duration_since(self.begun);
        let now_ns = elapsed.as_nanos() as u64;
        let (latencies, gauge, kind) = (&mut self.recorder.latencies, self.gauge, self.task.kind);
        let expected = connection.outstanding.answered(answers.count, now_ns, |latency_ns, count| {
            latencies.record(latency_ns, count);
            gauge.add(kind, latency_ns, count);
        });
        if !expected {
            return Err(Error::new(ErrorKind::Closed, "the server answered more than it was asked"));
        }
        let is_done = connection.outstanding.count() == 0;
        self.outstanding -= answers.count;
        (self.recorder.ended, self.waiting_since) = (elapsed, elapsed);
        let total = &mut self.recorder.answers;
        total.count += answers.count;
        total.nulls += answers.nulls;
        total.errors += answers.errors;
        total.first_error = total.first_error.take().or(answers.first_error);
        if total.errors > 0 && self.task.stops_at_errors {
            self.stop.store(true, Ordering::Relaxed);
        }
        match &self.task.schedule {
            Some(_) => self.room.extend(std::iter::repeat_n(index, answers.count as usize)),
            None if is_done && self.has_more(now_ns) => self.fill(index)?,
            None => {}
        }
        Ok(())
    }

    /// Fails if the server takes too long.
    fn check_patience(&self) -> Result<()> {
        let elapsed = now().saturating_duration_since(self.begun);
        let late = |what: String| Err(Error::new(ErrorKind::Closed, what));
        if self.outstanding > 0 && elapsed > self.waiting_since + SILENCE_MAX {
            return late(format!(
                "the server has been silent for {} s with {} requests outstanding",
                SILENCE_MAX.as_secs(),
                self.outstanding
            ));
        }
        if self.task.schedule.is_some() && self.task.end.is_some_and(|end| elapsed > end + LATE_MAX) {
            return late(format!(
                "the server does not keep the rate: {} s after the last request was due, {} are not answered",
                LATE_MAX.as_secs(),
                self.outstanding + self.task.quota,
            ));
        }
        Ok(())
    }
}

fn system(error: rustix::io::Errno) -> Error {
    Error::bug("epoll or its timer failed").because(std::io::Error::from(error))
}

fn broken(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Closed, "a connection broke").because(error)
}

#[cfg(test)]
mod tests;
