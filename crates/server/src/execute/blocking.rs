//! Commands that wait until another client gives them something.
//!
//! Such a command tries under the locks of its keys. If there is nothing, it stands in line at each key, lets go of the
//! locks, and tries again when it is told that one has changed. Who has waited longest is told first, and tells the next
//! when it is done.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use firn_format::datatype::Tag;
use firn_protocol::command::Command;

use super::alone::LockNames;
use super::call::{Call, Origin, Wait};
use super::{Request, dispatch};
use crate::client::{Client, ClientAddress, Unblock, name_memory_bytes};
use crate::failure::{Failure, Result};
use crate::transaction::{Collection, Transaction};
use crate::worker::Worker;

/// What a try came to.
enum Tried {
    /// The reply is written.
    Done,
    /// There was nothing; the client stands in line.
    Waiting(Wait),
}

/// Runs a command that may wait.
pub(super) async fn run(request: &Request<'_>, command: &'static Command, out: &mut Vec<u8>) -> Result<()> {
    request.worker.check_names(request.client, request.arguments.from(1))?;
    let mut line =
        Line { worker: request.worker, client: request.client, keys: BTreeSet::new(), has_waited: false };
    request.client.is_unblocked.set(None);
    let mut until_ms = None;
    let mut is_last = false;
    loop {
        let wait = match attempt(request, command, out, &mut line, is_last).await? {
            Tried::Done => return Ok(()),
            Tried::Waiting(wait) => wait,
        };
        if !std::mem::replace(&mut line.has_waited, true) {
            until_ms = wait.timeout_ms.map(|timeout_ms| request.worker.monotonic_ms() + timeout_ms);
        }
        let is_told = request.worker.told_to_look(request.client, until_ms).await;
        if request.worker.is_gone(request.client) {
            // Nobody would read what it took: that is left for the next in line.
            request.client.is_closing.set(true);
            return Ok(());
        }
        match request.client.is_unblocked.take() {
            Some(Unblock::Error) => {
                return Err(Failure::new("UNBLOCKED client unblocked via CLIENT UNBLOCK"));
            }
            Some(Unblock::Timeout) => is_last = true,
            None => is_last = !is_told,
        }
    }
}

/// Tries once. What is not there is answered as when the time is over if `is_last`.
async fn attempt(
    request: &Request<'_>,
    command: &'static Command,
    out: &mut Vec<u8>,
    line: &mut Line<'_>,
    is_last: bool,
) -> Result<Tried> {
    let mut names = LockNames::new(request.worker);
    names.add_keys(request.client.database.get(), command, request.arguments)?;
    let _locks = names.lock(request.worker).await?;
    let mut transaction = Transaction::locked(request.worker, names.databases());
    let mut call =
        Call::new(request.worker, request.client, command, request.arguments, &mut transaction, out);
    call.origin = if is_last { Origin::Unit } else { Origin::Client };
    call.has_waited = line.has_waited;
    dispatch(&mut call).await?;
    match call.wait.take() {
        None => {
            transaction.commit().await?;
            Ok(Tried::Done)
        }
        Some(wait) => {
            line.stand(wait.keys.iter().map(|key| key.bytes()));
            if names.is_outdated(request.worker) {
                // Databases were flushed or swapped before it stood in line: nobody will say so again.
                request.client.is_told_to_look.set(true);
            }
            if call.leaves_some {
                line.pass_on();
            }
            Ok(Tried::Waiting(wait))
        }
    }
}

/// The client's places in line, given up when dropped.
struct Line<'a> {
    worker: &'a Rc<Worker>,
    client: &'a Rc<Client>,
    keys: BTreeSet<Vec<u8>>,
    /// The client was told to look, or that its time is over, at least once.
    has_waited: bool,
}

impl Line<'_> {
    fn waiter(&self) -> ClientAddress {
        self.worker.address_of(self.client)
    }

    fn stand<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        let is_first = self.keys.is_empty();
        for key in keys {
            if self.keys.insert(key.to_vec()) {
                self.worker.shared.observers.wait(key, self.waiter());
                let waiting_bytes = &self.client.waiting_bytes;
                waiting_bytes.set(waiting_bytes.get() + name_memory_bytes(key));
            }
        }
        if is_first && !self.keys.is_empty() {
            self.worker.shared.waiting_count.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Lets who stands behind the client look: it keeps its place, but cannot use what is there.
    fn pass_on(&self) {
        for key in &self.keys {
            if let Some(next) = self.worker.shared.observers.behind(key, self.waiter()) {
                self.worker.shared.look(next);
            }
        }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.client.waiting_bytes.set(0);
        if !self.keys.is_empty() {
            self.worker.shared.waiting_count.fetch_sub(1, Ordering::AcqRel);
        }
        for key in &self.keys {
            // Something may be left for the next one.
            if let Some(next) = self.worker.shared.observers.leave(key, self.waiter()) {
                self.worker.shared.look(next);
            }
        }
    }
}

/// The first of the keys that are the arguments `keys` where a collection stands, and that collection.
///
/// # Errors
/// `WRONGTYPE` if something else stands at a key before it. To who has waited that is as if nothing stood there.
pub(super) async fn first_collection(
    call: &mut Call<'_>,
    keys: Range<usize>,
    tag: Tag,
) -> Result<Option<(usize, Collection)>> {
    for index in keys {
        match call.collection(index, tag).await {
            Ok(Some(collection)) => return Ok(Some((index, collection))),
            Ok(None) => {}
            Err(failure) if call.has_waited && failure == Failure::WRONG_TYPE => call.leaves_some = true,
            Err(failure) => return Err(failure),
        }
    }
    Ok(None)
}

/// Nothing was found: the command waits for the keys that are the arguments `keys`, or answers that there was nothing.
pub(super) fn wait(call: &mut Call<'_>, keys: Range<usize>, timeout_ms: Option<u64>) -> Result<()> {
    if call.origin == Origin::Unit {
        call.reply(|reply| reply.null_array());
        return Ok(());
    }
    let keys: Result<Vec<_>> = keys.map(|index| call.key(index)).collect();
    call.wait = Some(Wait { keys: keys?, timeout_ms });
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
