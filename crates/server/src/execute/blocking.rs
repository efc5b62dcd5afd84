//! Commands that wait until another client gives them something.
//!
//! Such a command tries under the locks of its keys. If there is nothing, it stands in line at each
//! key and releases the locks. It waits until another command that writes one of the keys hands it
//! over ([`serving`](super::serving)). Then it tries again, under that command's locks. What comes
//! with a swapped database is handed to it too, but it takes that under its own locks.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use firn_format::datatype::Tag;
use firn_protocol::command::Command;
use firn_protocol::resp::Reply;

use super::call::{Call, Origin, Wait};
use super::permit::permit;
use super::serving::hand_over;
use super::single::LockNames;
use super::{Request, dispatch};
use crate::address::ClientAddress;
use crate::bounds::name_memory_bytes;
use crate::client::{Client, Unblock};
use crate::failure::{Failure, Result};
use crate::handover::{Handed, Taken};
use crate::lines::{LineKey, Lines, Place};
use crate::server_thread::{ServerThread, Turns, WaitOutcome};
use crate::transaction::{Collection, Transaction};

/// What a try came to.
enum Tried {
    /// The reply is written.
    Done,
    /// There was nothing; the client stands in line.
    Waiting(Wait),
}

/// Runs a command that may wait.
pub(super) async fn run(request: &Request<'_>, command: &'static Command, out: &mut Vec<u8>) -> Result<()> {
    let (thread, client) = (request.thread, request.client);
    thread.check_names(client, request.arguments.from(1))?;
    let mut line = Line::new(thread, client);
    let done = run_in_line(request, command, out, &mut line).await;
    line.end().await;
    done
}

/// Tries until it has something, or waits no more.
async fn run_in_line(
    request: &Request<'_>,
    command: &'static Command,
    out: &mut Vec<u8>,
    line: &mut Line<'_>,
) -> Result<()> {
    let (thread, client) = (request.thread, request.client);
    client.waiting.is_unblocked.set(None);
    let mut until_ms = None;
    let mut handed = None;
    loop {
        match attempt(request, command, out, line, handed.take()).await {
            Ok(Tried::Done) => return Ok(()),
            Ok(Tried::Waiting(wait)) => {
                if !std::mem::replace(&mut line.has_waited, true) {
                    until_ms = wait.timeout_ms.map(|timeout_ms| thread.monotonic_ms() + timeout_ms);
                }
            }
            // A script keeps its keys for long: it waits on, as if they were empty, and looks
            // again.
            Err(failure) if line.has_waited && failure == Failure::BUSY => {
                let is_over = until_ms.is_some_and(|until_ms| thread.monotonic_ms() >= until_ms);
                client.waiting.is_notified.set(!is_over);
            }
            Err(failure) => return Err(failure),
        }
        let outcome = thread.until_notified(client, until_ms).await;
        if thread.is_gone(client) {
            // It could read nothing of what it took: that is left for the next in line.
            client.is_closing.set(true);
            return Ok(());
        }
        match (client.waiting.is_unblocked.take(), outcome) {
            (Some(Unblock::Error), _) => {
                return Err(Failure::new("UNBLOCKED client unblocked via CLIENT UNBLOCK"));
            }
            (Some(Unblock::Timeout), _) | (None, WaitOutcome::Over) => {
                Reply::new(out, client.protocol.get()).null_array();
                return Ok(());
            }
            (None, WaitOutcome::Look) => line.was_notified = true,
            (None, WaitOutcome::Handed(given)) => handed = Some(given),
        }
        // Rights may have changed while it waited: the next client in line gets what is there then.
        permit(thread, client, command, request.arguments).await?;
    }
}

/// Tries once: under the locks of the command that has `handed` a key over, or under its own.
async fn attempt(
    request: &Request<'_>,
    command: &'static Command,
    out: &mut Vec<u8>,
    line: &mut Line<'_>,
    handed: Option<Handed>,
) -> Result<Tried> {
    let cover = handed.as_ref().and_then(|handed| handed.cover().cloned());
    let Some(cover) = cover else { return attempt_alone(request, command, out, line, handed).await };
    let mut transaction = Transaction::locked(request.thread, cover.databases());
    let mut call = Call::new(request, command, &mut transaction, out);
    call.blocking.has_waited = line.has_waited;
    call.blocking.cover = Some(cover);
    dispatch(&mut call).await?;
    let (wait, leaves_some, lacks_cover) =
        (call.blocking.wait.take(), call.blocking.leaves_some, call.blocking.lacks_cover);
    let (taken, tried) = match wait {
        None => {
            line.is_served().await;
            (Taken::Some(transaction.commit_ready().await?), Tried::Done)
        }
        Some(wait) if lacks_cover => (Taken::Uncovered, Tried::Waiting(wait)),
        Some(wait) if leaves_some => (Taken::Passed, Tried::Waiting(wait)),
        Some(wait) => (Taken::Nothing, Tried::Waiting(wait)),
    };
    if let Some(handed) = handed {
        handed.answer(taken);
    }
    Ok(tried)
}

/// Tries once under its own locks.
async fn attempt_alone(
    request: &Request<'_>,
    command: &'static Command,
    out: &mut Vec<u8>,
    line: &mut Line<'_>,
    handed: Option<Handed>,
) -> Result<Tried> {
    // What holds one of the locks must not wait for this: it is looked at afterwards.
    line.take_no_hands();
    let mut names = LockNames::new(request.thread);
    names.add_keys(request.client.database.get(), command, request.arguments)?;
    let locks = names.lock(request.thread).await?;
    let mut transaction = Transaction::locked(request.thread, names.databases());
    let mut call = Call::new(request, command, &mut transaction, out);
    call.blocking.has_waited = line.has_waited;
    dispatch(&mut call).await?;
    let (wait, leaves_some) = (call.blocking.wait.take(), call.blocking.leaves_some);
    let (taken, tried) = match wait {
        None => {
            line.is_served().await;
            let ready = transaction.commit_ready().await?;
            hand_over(request.thread, ready, locks, || names.cover()).await;
            (Taken::Some(Vec::new()), Tried::Done)
        }
        Some(wait) => {
            line.stand(&wait).await;
            if names.is_outdated(request.thread) {
                // Databases were flushed or swapped before it stood in line: it hears of that
                // only here.
                request.client.waiting.is_notified.set(true);
            }
            if leaves_some && line.was_notified {
                line.pass_on().await;
            }
            line.was_notified = false;
            (if leaves_some { Taken::Passed } else { Taken::Nothing }, Tried::Waiting(wait))
        }
    };
    if let Some(handed) = handed {
        handed.answer(taken);
    }
    Ok(tried)
}

/// Places in line that a client gives up before what it took is written.
const LEFT_AT_ONCE_MAX: usize = 64;

/// The client's places in line, given up when dropped.
struct Line<'a> {
    thread: &'a Rc<ServerThread>,
    client: &'a Rc<Client>,
    keys: BTreeSet<LineKey>,
    /// First clients of lines that it has left.
    next: Vec<ClientAddress>,
    /// Where it stands in each line, since it first stood in one.
    place: Option<Place>,
    /// It has waited at least once.
    has_waited: bool,
    /// It is counted among the clients that wait.
    is_counted: bool,
    /// It was notified that something may be there, and has not looked: no other client was
    /// notified.
    was_notified: bool,
}

impl<'a> Line<'a> {
    fn new(thread: &'a Rc<ServerThread>, client: &'a Rc<Client>) -> Self {
        Self {
            thread,
            client,
            keys: BTreeSet::new(),
            next: Vec::new(),
            place: None,
            has_waited: false,
            is_counted: false,
            was_notified: false,
        }
    }

    fn waiter(&self) -> ClientAddress {
        self.thread.address_of(self.client)
    }

    fn lines(&self) -> &'a Lines {
        &self.thread.shared.observers.lines
    }

    async fn stand(&mut self, wait: &Wait) {
        let (mut turns, lines) = (Turns::new(self.thread), self.lines());
        let place = *self.place.get_or_insert_with(|| lines.give_place());
        let index = self.client.database.get();
        let destination = wait.destination.as_ref().map(|key| LineKey::new(index, key.bytes()));
        for key in wait.keys.iter().map(|key| LineKey::new(index, key.bytes())) {
            turns.step(key.bytes().len()).await;
            if !self.keys.contains(&key) {
                lines.stand(&key, place, self.waiter(), destination.as_ref());
                let waiting_bytes = &self.client.waiting.names_bytes;
                waiting_bytes.set(waiting_bytes.get() + name_memory_bytes(key.bytes()));
                self.keys.insert(key);
            }
        }
        if !self.keys.is_empty() && !std::mem::replace(&mut self.is_counted, true) {
            self.thread.shared.observers.lines.enter();
        }
    }

    /// Lets the next client in line look: this one keeps its place, but cannot use what is there.
    async fn pass_on(&self) {
        let (mut turns, Some(place)) = (Turns::new(self.thread), self.place) else { return };
        for key in &self.keys {
            if let Some((_, next)) = self.lines().behind(key, place) {
                self.thread.shared.threads.look(next);
            }
            turns.step(key.bytes().len()).await;
        }
    }

    /// What it was handed goes to the next in line, and nothing more is handed to it.
    fn take_no_hands(&self) {
        self.client.waiting.takes_hands.set(false);
        let hands = std::mem::take(&mut *self.client.waiting.hands.borrow_mut());
        drop(hands);
    }

    /// Gives up the places; answers the client that is the first at each of them now. Other
    /// clients have their turns meanwhile.
    async fn leave(&mut self) -> Vec<ClientAddress> {
        let (mut next, mut turns) = (Vec::new(), Turns::new(self.thread));
        self.wait_no_more();
        while let (Some(key), Some(place)) = (self.keys.pop_first(), self.place) {
            next.extend(self.lines().leave(&key, place));
            let waiting_bytes = &self.client.waiting.names_bytes;
            waiting_bytes.set(waiting_bytes.get() - name_memory_bytes(key.bytes()));
            turns.step(key.bytes().len()).await;
        }
        next
    }

    /// The client has what it waited for. Very many places are given up only when the serving
    /// command goes on. If something is handed over there meanwhile, the client takes nothing and
    /// the next in line has its turn. What it was told of and has not taken goes to the next ones
    /// once the command is over.
    async fn is_served(&mut self) {
        match self.keys.len() <= LEFT_AT_ONCE_MAX {
            true => self.next = self.leave().await,
            false => self.wait_no_more(),
        }
    }

    /// The client is not counted among those that wait any more, and nothing more is handed to it.
    fn wait_no_more(&mut self) {
        self.take_no_hands();
        if std::mem::take(&mut self.is_counted) {
            self.thread.shared.observers.lines.exit();
        }
    }

    /// Gives up the places. Others have their turns meanwhile.
    async fn end(mut self) {
        let mut next = std::mem::take(&mut self.next);
        next.extend(self.leave().await);
        self.notify(next);
    }

    /// Lets `next` look if the client was notified: it has not looked, or could not take what was
    /// there.
    fn notify(&self, next: Vec<ClientAddress>) {
        if self.client.waiting.is_notified.replace(false) || self.was_notified {
            next.into_iter().for_each(|next| self.thread.shared.threads.look(next));
        }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        // A server that ends drops the task where it stands; otherwise all were given up.
        self.wait_no_more();
        self.client.waiting.names_bytes.set(0);
        let (keys, Some(place)) = (std::mem::take(&mut self.keys), self.place) else { return };
        let next = keys.iter().filter_map(|key| self.lines().leave(key, place)).collect();
        self.notify(next);
    }
}

/// The first of the keys that are the arguments `keys` where a collection stands, and that
/// collection.
///
/// # Errors
/// `WRONGTYPE` if something else stands at a key before it. To a client that has waited that is as
/// if nothing stood there.
pub(super) async fn first_collection(
    call: &mut Call<'_>,
    keys: Range<usize>,
    tag: Tag,
) -> Result<Option<(usize, Collection)>> {
    let mut turns = Turns::new(call.thread);
    for index in keys {
        turns.step(0).await;
        if !call.is_covered(index)? {
            // No command holds its lock: what comes to stand there is handed over by itself.
            continue;
        }
        match call.collection(index, tag).await {
            Ok(Some(collection)) => return Ok(Some((index, collection))),
            Ok(None) => {}
            Err(failure) if call.blocking.has_waited && failure == Failure::WRONG_TYPE => {
                call.blocking.leaves_some = true
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(None)
}

/// Nothing was found: the command waits for the keys that are the arguments `keys`, or answers that
/// there was nothing.
pub(super) async fn wait(call: &mut Call<'_>, keys: Range<usize>, timeout_ms: Option<u64>) -> Result<()> {
    if call.origin == Origin::Unit {
        call.reply(|reply| reply.null_array());
        return Ok(());
    }
    let (mut named, mut turns) = (Vec::with_capacity(keys.len()), Turns::new(call.thread));
    for index in keys {
        let key = call.key(index)?;
        turns.step(key.bytes().len()).await;
        named.push(key);
    }
    call.blocking.wait = Some(Wait { keys: named, timeout_ms, destination: None });
    Ok(())
}

/// A timeout in seconds, as blocking commands take it: 0 = for ever.
pub(super) fn timeout_ms(seconds: &[u8]) -> Result<Option<u64>> {
    let seconds = firn_protocol::number::parse_double(seconds)
        .ok_or(Failure::new("ERR timeout is not a float or out of range"))?;
    let ms = (seconds * 1000.0).ceil();
    if ms < 0.0 {
        return Err(Failure::new("ERR timeout is negative"));
    }
    if !ms.is_finite() || ms > i64::MAX as f64 {
        return Err(Failure::new("ERR timeout is out of range"));
    }
    Ok((ms > 0.0).then_some(ms as u64))
}
