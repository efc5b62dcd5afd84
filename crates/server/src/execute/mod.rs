//! What commands do: a file for each group.
//!
//! ```text
//!   Request ─► resolve (command table) ─► permit ─► between MULTI and EXEC: queued
//!           ─► FastPath: SETs that follow one another are one batch, GETs read at once
//!           ─► run, by itself: locks ─► Transaction ─► Call ─► the group's file ─► commit ─► reply
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
mod fast_path;
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

use crate::failure::{Failure, Result};
use crate::server_thread::ServerThread;
use fast_path::Plain;
use permit::permit;
use timer::Timer;

pub(crate) use call::Call;
pub(crate) use fast_path::FastPath;
pub(crate) use prefetch::prefetch;
pub(crate) use pub_sub::unsubscribe_all;
pub(crate) use request::Request;
pub(crate) use tools::Tools;
pub(crate) use transactions::{discard, unwatch};

/// The one command that is never paused: it ends the pause.
const CLIENT_UNPAUSE: CommandId = id_of("client|unpause");
const GET: CommandId = id_of("get");
const SET: CommandId = id_of("set");

/// Executes one request and answers it, or adds it to what `fast_path` answers later, but before
/// anything else.
pub(crate) async fn execute(request: Request<'_>, fast_path: &mut FastPath) {
    if request.arguments.is_empty() {
        return;
    }
    let (thread, client) = (request.thread, request.client);
    let command = match resolve(&request) {
        Ok(command) => command,
        Err(unresolved) => {
            fast_path.finish(thread, client).await;
            return Box::pin(reject(&request, unresolved)).await;
        }
    };
    client.description.last_command.set(Some(command));
    if let Err(failure) = permit(thread, client, command, request.arguments).await {
        return Box::pin(deny(&request, command, failure, fast_path)).await;
    }
    if let Err(failure) = pub_sub::check(client, command) {
        return Box::pin(deny(&request, command, failure, fast_path)).await;
    }
    if thread.shared.pause.is_on() && !Box::pin(outlast_pause(&request, command, fast_path)).await {
        return;
    }
    if client.queue.borrow().is_some() && transactions::is_queued(command) {
        return transactions::queue(&request, command);
    }
    let plain = Plain::of(&request, command);
    if plain == Some(Plain::Set) && fast_path.plain_set(&request).await {
        return;
    }
    if fast_path.is_behind() {
        fast_path.finish(thread, client).await;
    }
    if plain == Some(Plain::Get) && fast_path.plain_get(&request, command).await {
        return;
    }
    // The rest waits more, and is larger: it lies elsewhere while it does.
    Box::pin(run(&request, command, &mut fast_path.timer)).await;
}

/// Answers a request that its client may not make.
async fn deny(request: &Request<'_>, command: &'static Command, failure: Failure, fast_path: &mut FastPath) {
    fast_path.finish(request.thread, request.client).await;
    transactions::deny(request, command, &failure).await;
}

/// Waits while a pause concerns the request; whether it may run then.
async fn outlast_pause(request: &Request<'_>, command: &'static Command, fast_path: &mut FastPath) -> bool {
    let (thread, client) = (request.thread, request.client);
    if command.id() == CLIENT_UNPAUSE {
        return true;
    }
    fast_path.finish(thread, client).await;
    thread.paused(client, transactions::may_write(request, command)).await;
    if client.is_closing.get() {
        return false;
    }
    // Rights may have changed while it waited.
    match permit(thread, client, command, request.arguments).await {
        Ok(()) => true,
        Err(failure) => {
            transactions::deny(request, command, &failure).await;
            false
        }
    }
}

/// Runs a command, answers it, and notes how that went.
async fn run(request: &Request<'_>, command: &'static Command, timer: &mut Timer) {
    timer.begin(request.thread);
    let failure = single::run(request, command).await;
    let ns = timer.end(request.thread).saturating_sub(request.client.waiting.idle_ns.take());
    metrics::executed(request.thread, request.client, command, request.arguments, ns, failure.as_ref());
}

/// Answers a request that no command can take. One that a browser sends is not answered.
async fn reject(request: &Request<'_>, (command, failure): Unresolved) {
    if command.is_none() && is_of_http(request.arguments.get(0).unwrap_or_default()) {
        return cut_off(request);
    }
    metrics::rejected(request, command, &failure);
    match command {
        Some(command) => transactions::deny(request, command, &failure).await,
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
    request.thread.note_cut_off(request.client, "it speaks HTTP");
    request.client.is_closing.set(true);
}

/// What a client that is shown every command may not do.
fn touches_keys(command: &Command) -> bool {
    command.flags.has(Flag::Write) || command.flags.has(Flag::ReadOnly)
}

/// Why a request names no command that may run, and which one it meant if there is one.
type Unresolved = (Option<&'static Command>, Failure);

/// The command that the request names, if it may run; else why not, and which it was if there is
/// one.
fn resolve(request: &Request<'_>) -> std::result::Result<&'static Command, Unresolved> {
    let found = command::find(request.arguments.get(0).unwrap_or_default());
    // The common case, without a list of the arguments.
    if let Some(command) = found
        && command.subcommands().is_empty()
        && command.is_offered()
        && !lacks_order(request.thread, command)
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
        Offered::Yes if lacks_order(request.thread, command) => Err((Some(command), Failure::NO_ORDER)),
        Offered::Yes => Ok(command),
        Offered::NotYet(absence) => {
            let why = absence.reason;
            Err((Some(command), Failure::of(format!("ERR {command} is not offered yet: {why}"))))
        }
    }
}

/// Whether a command works on what the engine cannot hold.
#[inline]
fn lacks_order(thread: &ServerThread, command: &Command) -> bool {
    command.needs_order() && !thread.engine.is_ordered()
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
