//! What commands do: a file for each group.
//!
//! ```text
//!   Request ─► resolve (command table) ─► a batch of plain writes goes on, or is finished
//!           ─► between MULTI and EXEC: queued
//!           ─► alone: locks ─► Transaction ─► Call ─► the group's file ─► commit ─► the reply
//! ```
//! A command is a function of a [`Call`]: it reads and writes in the call's transaction and appends
//! its reply. It takes no locks and commits nothing, so that EXEC and scripts run the same
//! functions one after the other. A command that fails has written nothing.

mod request;
mod permit;
mod tools;
mod prefetch;
mod call;
mod timer;
mod metrics;
mod set_batch;
mod single;
mod serving;
mod blocking;
mod retry;
mod transactions;
mod connection;
mod access;
mod pub_sub;
mod generic;
mod expiry;
mod scan;
mod string;
mod counter;
mod members;
mod hash;
mod set;
mod bitmap;
mod lcs;
mod object;
mod index;
mod multi_pop;
mod list;
mod sorted_set;
mod server;
mod script;

use firn_protocol::command::{self, Command, CommandId, Flag, Group, Offered, Refusal, id_of};

use crate::client::Silence;
use crate::failure::{Failure, Result};
use crate::worker::Worker;
use permit::permit;

pub(crate) use call::Call;
pub(crate) use prefetch::prefetch;
pub(crate) use pub_sub::unsubscribe_all;
pub(crate) use request::Request;
pub(crate) use set_batch::SetBatch;
pub(crate) use tools::Tools;
pub(crate) use transactions::{discard, unwatch};

/// The one command that is never paused: it ends the pause.
const CLIENT_UNPAUSE: CommandId = id_of("client|unpause");
const GET: CommandId = id_of("get");
const SET: CommandId = id_of("set");

/// Of `SET key value`.
const PLAIN_SET_ARGUMENTS: usize = 3;

/// Executes one request and answers it, or adds it to `set_batch`, which is answered later but before
/// anything else.
pub(crate) async fn execute(request: Request<'_>, set_batch: &mut SetBatch) {
    if request.arguments.is_empty() {
        return;
    }
    let command = match resolve(&request) {
        Ok(command) => command,
        Err((command, failure)) => {
            set_batch.finish(request.worker, request.client).await;
            if command.is_none() && is_of_http(request.arguments.get(0).unwrap_or_default()) {
                return cut_off(&request);
            }
            return Box::pin(reject(&request, command, &failure)).await;
        }
    };
    let (worker, client) = (request.worker, request.client);
    client.description.last_command.set(Some(command));
    if let Err(failure) = permit(worker, client, command, request.arguments).await {
        set_batch.finish(worker, client).await;
        return Box::pin(transactions::deny(&request, command, &failure)).await;
    }
    if let Err(failure) = pub_sub::check(client, command) {
        set_batch.finish(worker, client).await;
        return Box::pin(transactions::deny(&request, command, &failure)).await;
    }
    if worker.shared.pause.is_on() && command.id() != CLIENT_UNPAUSE {
        set_batch.finish(worker, client).await;
        Box::pin(worker.paused(client, transactions::may_write(&request, command))).await;
        if client.is_closing.get() {
            return;
        }
        // Rights may have changed while it waited.
        if let Err(failure) = permit(worker, client, command, request.arguments).await {
            return Box::pin(transactions::deny(&request, command, &failure)).await;
        }
    }
    if request.client.queue.borrow().is_some() && transactions::is_queued(command) {
        return transactions::queue(&request, command);
    }
    // Of a silent client each reply is dropped as it is made.
    let is_plain = is_plain(request.worker) && client.silence.get() == Silence::None;
    if is_plain && command.id() == SET && request.arguments.len() == PLAIN_SET_ARGUMENTS {
        if set_batch.is_full() {
            set_batch.finish(request.worker, request.client).await;
        }
        set_batch.timer.begin_plain(request.worker, SET);
        if set_batch.take_set(&request) {
            return;
        }
        set_batch.timer.take_back();
    }
    set_batch.finish(request.worker, request.client).await;
    if is_plain && command.id() == GET {
        let waits = request.worker.engine.waits();
        set_batch.timer.begin_plain(request.worker, GET);
        if string::get_at_once(&request).await {
            if request.worker.engine.waits() != waits {
                let ns = set_batch.timer.settle(request.worker);
                metrics::took(request.worker, request.client, command, request.arguments, ns);
            }
            return;
        }
        set_batch.timer.take_back();
    }
    set_batch.timer.begin(request.worker);
    // The rest waits more, and is larger: it lies elsewhere while it does.
    let failure = Box::pin(single::run(&request, command)).await;
    let ns = set_batch.timer.end(request.worker).saturating_sub(request.client.waiting.idle_ns.take());
    metrics::executed(request.worker, request.client, command, request.arguments, ns, failure.as_ref());
}

/// Answers a request that no command can take.
async fn reject(request: &Request<'_>, command: Option<&'static Command>, failure: &Failure) {
    metrics::rejected(request, command, failure);
    match command {
        Some(command) => transactions::deny(request, command, failure).await,
        None => {
            transactions::refuse(request.client);
            request.client.reply(|reply| reply.error(failure.line()));
        }
    }
}

/// Whether a request begins as a line of HTTP that a browser can be made to send here by a page of
/// the web.
fn is_of_http(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}

/// Ends the connection without a reply: what follows may be what the page wishes for.
fn cut_off(request: &Request<'_>) {
    request.worker.note_cut_off(request.client, "it speaks HTTP");
    request.client.is_closing.set(true);
}

/// Whether neither a monitor nor exact measurement needs each command by itself.
#[inline]
fn is_plain(worker: &Worker) -> bool {
    !worker.shared.parameters.is_exact() && !worker.shared.monitors.is_any()
}

/// What a client that is shown every command may not do.
fn touches_keys(command: &Command) -> bool {
    command.flags.has(Flag::Write) || command.flags.has(Flag::ReadOnly)
}

/// The command that the request names, if it may run; else why not, and which it was if there is
/// one.
fn resolve(
    request: &Request<'_>,
) -> std::result::Result<&'static Command, (Option<&'static Command>, Failure)> {
    let found = command::find(request.arguments.get(0).unwrap_or_default());
    // The common case, without a list of the arguments.
    if let Some(command) = found
        && command.subcommands().is_empty()
        && command.is_offered()
        && command.accepts(request.arguments.len())
        && !request.client.is_monitor.get()
    {
        return Ok(command);
    }
    let arguments: Vec<&[u8]> = request.arguments.iter().collect();
    let resolved = command::resolve(&arguments);
    let command = resolved.map_err(|refusal| {
        let command = match refusal {
            Refusal::ArgumentCount(command) => Some(command),
            Refusal::UnknownCommand | Refusal::UnknownSubcommand(_) => None,
        };
        (command, Failure::of(String::from_utf8_lossy(&refusal.text(&arguments)).into_owned()))
    })?;
    if request.client.is_monitor.get() && touches_keys(command) {
        return Err((Some(command), Failure::new("ERR Replica can't interact with the keyspace")));
    }
    match command.offered {
        Offered::Yes => Ok(command),
        Offered::NotYet(absence) => {
            let why = absence.reason;
            Err((Some(command), Failure::of(format!("ERR {command} is not offered yet: {why}"))))
        }
    }
}

/// Runs a command in the call's transaction.
async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    match call.command.group {
        Group::Bitmap => Box::pin(bitmap::dispatch(call)).await,
        Group::Connection => Box::pin(connection::dispatch(call)).await,
        Group::List => Box::pin(list::dispatch(call)).await,
        Group::SortedSet => Box::pin(sorted_set::dispatch(call)).await,
        Group::Generic => Box::pin(generic::dispatch(call)).await,
        Group::PubSub => Box::pin(pub_sub::dispatch(call)).await,
        Group::Hash => Box::pin(hash::dispatch(call)).await,
        Group::Server if call.command.container == Some("acl") => Box::pin(access::dispatch(call)).await,
        Group::Scripting => Box::pin(script::dispatch(call)).await,
        Group::Server => Box::pin(server::dispatch(call)).await,
        Group::Set => Box::pin(set::dispatch(call)).await,
        Group::String => Box::pin(string::dispatch(call)).await,
        Group::Transactions => Box::pin(transactions::dispatch(call)).await,
        _ => Err(call.not_offered()),
    }
}
