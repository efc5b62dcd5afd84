//! What the kernel was asked for and has not answered yet, with the memory and sockets it needs for
//! it.
//!
//! A socket has a *seat*: a number, a count of operations in flight, the bytes being sent. A
//! connection that leaves keeps its seat until the last operation is answered. Only then is the
//! socket closed and the number given to another. An answer tells its seat and the seat's
//! generation, which checks that rule.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use super::buffers::{Buffers, GROUP};
use crate::net::ACCEPT_PAUSE;

/// No seat has this number or generation.
const NO_SEAT: u32 = u32::MAX;
const GENERATION_MASK: u32 = (1 << 24) - 1;

/// Has the kernel go on with a send until all has gone.
const WAIT_FOR_ALL: SendFlags = SendFlags::from_bits_retain(RecvFlags::WAITALL.bits());

/// Bytes of one send; more are sent after them.
const SEND_BYTES_MAX: u32 = 1 << 30;

/// Operations handed over at once, and answers that wait at once; more of both wait in lists.
const QUESTIONS_MAX: u32 = 1024;
const ANSWERS_MAX: u32 = 4096;

/// The ring and everything that operations in flight refer to.
pub(super) struct Kernel {
    ring: IoUring,
    buffers: Buffers,
    /// The buffer of the last answer, to be released.
    used: Option<u16>,
    seats: Vec<Seat>,
    vacant: Vec<u32>,
    /// Operations for which the queue had no room.
    backlog: VecDeque<squeue::Entry>,
    /// Operations that were not answered for the last time.
    in_flight: usize,
    /// The part of them that is answered without any event outside.
    certain: usize,
    /// How long accepting pauses; lives here because the kernel reads it.
    pause: Box<Timespec>,
}

#[derive(Debug, Default)]
struct Seat {
    socket: Option<OwnedFd>,
    generation: u32,
    in_flight: u32,
    sending: Option<Sending>,
    is_leaving: bool,
}

#[derive(Debug)]
struct Sending {
    bytes: Vec<u8>,
    from: usize,
}

/// Whether a send waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// What goes at once goes: the answer comes at once too.
    None,
    /// The answer comes when all has gone or nothing will.
    Endless,
}

/// What an operation was about, as told in its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Topic {
    Accept,
    Receive,
    SendNow,
    Send,
    Cancel,
    Alarm,
    Pause,
}

/// What came of operations. An operation that does not go on must be asked for anew.
#[derive(Debug)]
pub(super) enum Answer<'a> {
    /// A client has connected.
    Accepted { socket: OwnedFd, goes_on: bool },
    /// No client is accepted any more, and why.
    AcceptingEnded(Errno),
    /// The pause is over.
    PauseEnded,
    /// The alarm rang.
    Rang { goes_on: bool },
    /// Bytes came in.
    Received { seat: u32, bytes: &'a [u8], goes_on: bool },
    /// Receiving ended with nothing more: the stream did, or it can be asked for again.
    ReceivingEnded { seat: u32, is_over: bool },
    /// A send ended; what it sent from is given back.
    Sent { seat: u32, bytes: Vec<u8>, from: usize, sent: Result<usize, Errno> },
}

impl Kernel {
    /// A ring for the thread that calls, and no other.
    pub(super) fn new() -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_taskrun_flag().setup_submit_all().setup_cqsize(ANSWERS_MAX);
        let mut deferring = builder.clone();
        deferring.setup_defer_taskrun();
        builder.setup_coop_taskrun();
        let ring = deferring.build(QUESTIONS_MAX).or_else(|_| builder.build(QUESTIONS_MAX))?;
        if !ring.params().is_feature_nodrop() || !ring.params().is_feature_ext_arg() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let buffers = Buffers::new();
        // SAFETY: invariant 2 of the safety model: `Drop` keeps the buffers until nothing is in
        // flight.
        unsafe { buffers.register(&ring) }?;
        Ok(Self {
            ring,
            buffers,
            used: None,
            seats: Vec::new(),
            vacant: Vec::new(),
            backlog: VecDeque::new(),
            in_flight: 0,
            certain: 0,
            pause: Box::new(Timespec::from(ACCEPT_PAUSE)),
        })
    }

    /// A seat for `socket`, which is closed some time after [`leave`](Self::leave).
    pub(super) fn sit(&mut self, socket: OwnedFd) -> u32 {
        let seat = self.vacant.pop().unwrap_or_else(|| {
            self.seats.push(Seat::default());
            self.seats.len() as u32 - 1
        });
        self.seats[seat as usize].socket = Some(socket);
        seat
    }

    /// Ends everything that goes on at `seat`. What was asked for before is tried once.
    pub(super) fn leave(&mut self, seat: u32) {
        if let Some(socket) = self.socket(seat) {
            self.seats[seat as usize].is_leaving = true;
            if self.seats[seat as usize].in_flight > 0 {
                let entry = opcode::AsyncCancel2::new(CancelBuilder::fd(socket).all()).build();
                // SAFETY: invariant 3 of the safety model: a cancellation names no memory.
                unsafe { self.ask_at(seat, Topic::Cancel, entry) };
            }
            self.vacate(seat);
        }
    }

    /// Frees a seat that was left once nothing of it is in flight.
    fn vacate(&mut self, number: u32) {
        let Some(seat) = self.seats.get_mut(number as usize) else { return };
        if seat.is_leaving && seat.in_flight == 0 {
            *seat = Seat { generation: seat.generation.wrapping_add(1) & GENERATION_MASK, ..Seat::default() };
            self.vacant.push(number);
        }
    }

    fn socket(&self, seat: u32) -> Option<Fd> {
        Some(Fd(self.seats.get(seat as usize)?.socket.as_ref()?.as_raw_fd()))
    }

    /// Tells of bytes that come in at `seat`, until told to stop or told of an end.
    pub(super) fn receive(&mut self, seat: u32) {
        if let Some(socket) = self.socket(seat) {
            let entry = opcode::RecvMulti::new(socket, GROUP).flags(RecvFlags::empty().bits() as i32).build();
            // SAFETY: invariant 2 of the safety model: it writes to the ring's buffers alone.
            unsafe { self.ask_at(seat, Topic::Receive, entry) };
        }
    }

    /// Receiving at `seat` is to end, which an answer will tell.
    pub(super) fn stop_receiving(&mut self, seat: u32) {
        let Some(generation) = self.seats.get(seat as usize).map(|seat| seat.generation) else { return };
        let question = question(Topic::Receive, generation, seat);
        let entry = opcode::AsyncCancel::new(question).build();
        // SAFETY: invariant 3 of the safety model: a cancellation names no memory.
        unsafe { self.ask_at(seat, Topic::Cancel, entry) };
    }

    /// Sends `bytes` without the first `from`; nothing else may be on its way from this seat.
    pub(super) fn send(&mut self, seat: u32, bytes: Vec<u8>, from: usize, patience: Patience) {
        let Some(socket) = self.socket(seat) else { return };
        let rest = bytes.get(from..).unwrap_or_default();
        let rest_bytes = u32::try_from(rest.len()).unwrap_or(SEND_BYTES_MAX).min(SEND_BYTES_MAX);
        let (topic, flags) = match patience {
            Patience::None => (Topic::SendNow, SendFlags::NOSIGNAL | SendFlags::DONTWAIT),
            Patience::Endless => (Topic::Send, SendFlags::NOSIGNAL | WAIT_FOR_ALL),
        };
        let entry = opcode::Send::new(socket, rest.as_ptr(), rest_bytes).flags(flags.bits() as i32).build();
        // The bytes stay where they are when the vector is moved.
        let before = self.seats[seat as usize].sending.replace(Sending { bytes, from });
        assert!(before.is_none(), "two sends at one seat");
        // SAFETY: invariant 1 of the safety model: the seat has the bytes now, and gives them back
        // with the answer.
        unsafe { self.ask_at(seat, topic, entry) };
    }

    /// Tells of connections to `listener`, which must be open for as long as this ring is.
    pub(super) fn accept(&mut self, listener: impl AsFd) {
        let listener = Fd(listener.as_fd().as_raw_fd());
        let entry = opcode::AcceptMulti::new(listener).flags(SocketFlags::CLOEXEC.bits() as i32).build();
        // SAFETY: invariant 3 of the safety model: no address is asked for, so it names no memory.
        unsafe { self.ask(Topic::Accept, NO_SEAT, NO_SEAT, entry) };
    }

    /// Tells when accepting may be tried again.
    pub(super) fn pause_accepting(&mut self) {
        let entry = opcode::Timeout::new(&raw const *self.pause).build();
        // SAFETY: invariant 1 of the safety model: the time is the ring's own and never written to.
        unsafe { self.ask(Topic::Pause, NO_SEAT, NO_SEAT, entry) };
    }

    /// Tells when `alarm` rings, which must be open for as long as this ring is.
    pub(super) fn watch(&mut self, alarm: impl AsFd) {
        let alarm = Fd(alarm.as_fd().as_raw_fd());
        let entry = opcode::PollAdd::new(alarm, u32::from(PollFlags::IN.bits())).multi(true).build();
        // SAFETY: invariant 3 of the safety model: polling names no memory.
        unsafe { self.ask(Topic::Alarm, NO_SEAT, NO_SEAT, entry) };
    }

    /// # Safety
    /// As [`ask`](Self::ask).
    unsafe fn ask_at(&mut self, number: u32, topic: Topic, entry: squeue::Entry) {
        let Some(seat) = self.seats.get_mut(number as usize) else { return };
        seat.in_flight += 1;
        let generation = seat.generation;
        // SAFETY: the caller's promise.
        unsafe { self.ask(topic, generation, number, entry) };
    }

    /// Hands an operation over with the next [`enter`](Self::enter).
    ///
    /// # Safety
    /// The memory that it names must be as it needs it until its last answer.
    unsafe fn ask(&mut self, topic: Topic, generation: u32, seat: u32, entry: squeue::Entry) {
        self.in_flight += 1;
        self.certain += usize::from(topic == Topic::SendNow);
        self.backlog.push_back(entry.user_data(question(topic, generation, seat)));
        self.fill();
    }

    /// Moves operations from the backlog to the queue while it has room.
    fn fill(&mut self) {
        let mut queue = self.ring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: invariants 1 to 3 of the safety model, which the caller of `ask` upheld.
            let pushed = unsafe { queue.push(entry) };
            if pushed.is_err() {
                return;
            }
            self.backlog.pop_front();
        }
    }

    /// Hands over what was asked for, and waits for an answer that is not certain, or for
    /// `timeout`.
    pub(super) fn enter(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.release_used();
        while !self.backlog.is_empty() {
            match bearable(self.ring.submit())? {
                0 => break,
                _ => self.fill(),
            }
        }
        let queue = self.ring.submission();
        let is_idle = queue.is_empty() && !queue.taskrun() && !queue.cq_overflow();
        drop(queue);
        let wanted = (self.certain + 1).min(QUESTIONS_MAX as usize);
        match timeout {
            _ if !self.backlog.is_empty() => bearable(self.ring.submit()),
            Some(Duration::ZERO) if is_idle => Ok(0),
            Some(Duration::ZERO) => bearable(self.ring.submit()),
            Some(timeout) => {
                let timeout = Timespec::from(timeout);
                let arguments = SubmitArgs::new().timespec(&timeout);
                bearable(self.ring.submitter().submit_with_args(wanted, &arguments))
            }
            None => bearable(self.ring.submit_and_wait(wanted)),
        }?;
        Ok(())
    }

    fn release_used(&mut self) {
        if let Some(number) = self.used.take() {
            self.buffers.release(number);
        }
    }

    /// The next answer; its bytes are there until the next call.
    pub(super) fn next(&mut self) -> Option<Answer<'_>> {
        loop {
            self.release_used();
            let entry = self.ring.completion().next()?;
            // An answer that names a buffer hands it to this process.
            self.used = cqueue::buffer_select(entry.flags());
            let goes_on = cqueue::more(entry.flags());
            let result = match entry.result() {
                count @ 0.. => Ok(count as usize),
                error => Err(Errno::from_raw_os_error(-error)),
            };
            let (topic, generation, seat) = asked(entry.user_data());
            let sending = self.settle(topic, generation, seat, goes_on);
            match (topic, result) {
                (Topic::Accept, Ok(descriptor)) => {
                    // SAFETY: invariant 4 of the safety model: the kernel has opened it for this
                    // answer.
                    let socket = unsafe { OwnedFd::from_raw_fd(descriptor as i32) };
                    return Some(Answer::Accepted { socket, goes_on });
                }
                (Topic::Accept, Err(error)) => return Some(Answer::AcceptingEnded(error)),
                (Topic::Receive, Ok(count)) if count > 0 => {
                    // SAFETY: invariant 2 of the safety model: this answer names the buffer, and
                    // the next call releases it.
                    let bytes = unsafe { self.buffers.bytes(self.used?, count) };
                    return Some(Answer::Received { seat, bytes, goes_on });
                }
                (Topic::Receive, result) => {
                    let passing = [Errno::NOBUFS, Errno::CANCELED, Errno::INTR, Errno::AGAIN];
                    let is_over = !result.is_err_and(|error| passing.contains(&error));
                    return Some(Answer::ReceivingEnded { seat, is_over });
                }
                (Topic::SendNow | Topic::Send, sent) => {
                    let Some(Sending { bytes, from }) = sending else { continue };
                    return Some(Answer::Sent { seat, bytes, from, sent });
                }
                (Topic::Alarm, _) => return Some(Answer::Rang { goes_on }),
                (Topic::Pause, _) => return Some(Answer::PauseEnded),
                (Topic::Cancel, _) => {}
            }
        }
    }

    /// Counts an answer, and takes back the bytes of a send.
    fn settle(&mut self, topic: Topic, generation: u32, number: u32, goes_on: bool) -> Option<Sending> {
        self.certain -= usize::from(topic == Topic::SendNow);
        if goes_on {
            return None;
        }
        self.in_flight -= 1;
        // Some operations belong to no seat.
        let seat = self.seats.get_mut(number as usize)?;
        assert_eq!(seat.generation, generation, "an answer to the one that left seat {number}");
        seat.in_flight -= 1;
        let sending = match topic {
            Topic::SendNow | Topic::Send => seat.sending.take(),
            _ => None,
        };
        self.vacate(number);
        sending
    }

    /// Ends every operation and waits for that, so that the kernel is done with this memory.
    fn end(&mut self) -> io::Result<()> {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::any().all()).build();
        // SAFETY: invariant 3 of the safety model: a cancellation names no memory.
        unsafe { self.ask(Topic::Cancel, NO_SEAT, NO_SEAT, entry) };
        while self.in_flight > 0 {
            self.enter(None)?;
            while self.next().is_some() {}
        }
        Ok(())
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if self.end().is_err() {
            // Invariant 5 of the safety model: the kernel may still read and write these.
            std::mem::forget(std::mem::take(&mut self.seats));
            std::mem::forget(std::mem::replace(&mut self.buffers, Buffers::new()));
            std::mem::forget(std::mem::take(&mut self.pause));
        }
    }
}

impl Topic {
    const ALL: [Self; 7] =
        [Self::Accept, Self::Receive, Self::SendNow, Self::Send, Self::Cancel, Self::Alarm, Self::Pause];
}

/// Number told with an operation and its answers: topic (8 bits), generation (24), seat (32).
fn question(topic: Topic, generation: u32, seat: u32) -> u64 {
    (topic as u64) << 56 | u64::from(generation & GENERATION_MASK) << 32 | u64::from(seat)
}

/// What [`question`] was made of.
fn asked(question: u64) -> (Topic, u32, u32) {
    let topic = Topic::ALL.get((question >> 56) as usize).copied().unwrap_or(Topic::Cancel);
    (topic, (question >> 32) as u32 & GENERATION_MASK, question as u32)
}

/// Failures that leave everything as it was, to be tried again.
fn bearable(entered: io::Result<usize>) -> io::Result<usize> {
    entered.or_else(|error| match Errno::from_io_error(&error) {
        Some(Errno::INTR | Errno::TIME | Errno::BUSY | Errno::AGAIN) => Ok(0),
        _ => Err(error),
    })
}
