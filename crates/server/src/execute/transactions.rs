//! MULTI, EXEC, DISCARD, WATCH: several commands as one.
//!
//! EXEC locks the keys of everything that was queued, and those that are watched. Then it runs the
//! commands in one transaction, which is written as one batch.

use std::rc::Rc;

use firn_protocol::command::{Command, CommandId, Flag, id_of};
use firn_protocol::resp::{Arguments, OwnedArguments, Reply};

use super::call::{Call, Origin, check_length};
use super::permit::permit_queued;
use super::retry::Retry;
use super::script::{is_reading_script, is_script};
use super::single::{LockNames, database_index, names_all};
use super::{Request, dispatch as dispatch_command, metrics};
use crate::bounds::READ_TOGETHER_MAX;
use crate::client::{Client, Queue, Watch};
use crate::failure::{Failure, Result};
use crate::pause;
use crate::server_thread::{ServerThread, Turns};
use crate::transaction::{Key, Transaction};

const MULTI: CommandId = id_of("multi");
const EXEC: CommandId = id_of("exec");
const DISCARD: CommandId = id_of("discard");
const WATCH: CommandId = id_of("watch");
const UNWATCH: CommandId = id_of("unwatch");
const QUIT: CommandId = id_of("quit");
const PUBLISH: CommandId = id_of("publish");
const RESET: CommandId = id_of("reset");
const SELECT: CommandId = id_of("select");
const SPUBLISH: CommandId = id_of("spublish");

/// Whether a command waits for EXEC once MULTI was said.
pub(super) fn is_queued(command: &'static Command) -> bool {
    !matches!(command.id(), MULTI | EXEC | DISCARD | WATCH | QUIT | RESET)
}

/// Whether a request may change what others see, so that a pause of writes concerns it.
pub(super) fn may_write(request: &Request<'_>, command: &'static Command) -> bool {
    let may_write = |command: &'static Command, arguments: Arguments<'_>| {
        pause::may_write(command) && !is_reading_script(request.thread, command, arguments)
    };
    if command.id() == EXEC {
        let queue = request.client.queue.borrow();
        let mut requests = queue.iter().flat_map(|queue| &queue.requests);
        return requests.any(|(command, arguments)| may_write(command, arguments.get()));
    }
    may_write(command, request.arguments)
}

/// A request was refused: between MULTI and EXEC that refuses all.
pub(super) fn refuse(client: &Rc<Client>) {
    if let Some(queue) = client.queue.borrow_mut().as_mut() {
        queue.is_refused = true;
    }
}

/// Answers a request that its client may not make. Refused, EXEC is over, and so is what was
/// queued.
pub(super) async fn deny(request: &Request<'_>, command: &'static Command, failure: &Failure) {
    refuse(request.client);
    if command.id() != EXEC {
        return request.client.reply(|reply| reply.error(failure.line()));
    }
    discard(request.thread, request.client).await;
    unwatch(request.thread, request.client).await;
    let reason = failure.line().strip_prefix("ERR ").unwrap_or(failure.line());
    let line = format!("EXECABORT Transaction discarded because of: {reason}");
    request.client.reply(|reply| reply.error(&line));
}

/// Keeps a request for EXEC. A client whose requests take more memory than one request may have is
/// closed, and none of them runs.
pub(super) fn queue(request: &Request<'_>, command: &'static Command) {
    if command.flags.has(Flag::NoMulti) {
        refuse(request.client);
        return request.client.reply(|reply| reply.error("ERR Command not allowed inside a transaction"));
    }
    let memory_bytes_max = request.thread.shared.parameters.request_bytes_max();
    let is_kept = request.client.queue.borrow_mut().as_mut().is_none_or(|queue| {
        queue.push(command, OwnedArguments::new(request.arguments.iter()), memory_bytes_max)
    });
    if !is_kept {
        *request.client.queue.borrow_mut() = None;
        return request.thread.end_over_limit(request.client);
    }
    request.client.reply(|reply| reply.simple("QUEUED"));
}

/// MULTI, DISCARD, UNWATCH.
pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    match call.command.id() {
        MULTI => {
            let mut queue = call.client.queue.borrow_mut();
            if queue.is_some() {
                return Err(Failure::new("ERR MULTI calls can not be nested"));
            }
            *queue = Some(Queue::default());
        }
        DISCARD => {
            if !discard(call.thread, call.client).await {
                return Err(Failure::new("ERR DISCARD without MULTI"));
            }
            unwatch(call.thread, call.client).await;
        }
        UNWATCH => unwatch(call.thread, call.client).await,
        _ => return Err(call.not_offered()),
    }
    call.reply(|reply| reply.ok());
    Ok(())
}

/// Forgets what was queued, if MULTI was said; whether it was. Others have their turns meanwhile.
pub(crate) async fn discard(thread: &ServerThread, client: &Client) -> bool {
    let queue = client.queue.borrow_mut().take();
    let is_any = queue.is_some();
    let requests = queue.into_iter().flat_map(|queue| queue.requests);
    Turns::new(thread).discard(requests).await;
    is_any
}

/// `WATCH key [key ...]`
pub(super) async fn watch(request: &Request<'_>, out: &mut Vec<u8>) -> Result<()> {
    if request.client.queue.borrow().is_some() {
        return Err(Failure::new("ERR WATCH inside MULTI is not allowed"));
    }
    request.thread.check_names(request.client, request.arguments.from(1))?;
    let keyspace = request.thread.shared.store.keyspaces.keys;
    let mut words = request.arguments.from(1);
    words.iter().try_for_each(Key::check)?;
    let mut names = LockNames::new(request.thread);
    let database = |names: &LockNames| names.databases().get(request.client.database.get()).id;
    if !names.is_too_many(words.len()) {
        for user in words.iter() {
            names.add_key(keyspace, Key::new(database(&names), user)?.bytes());
        }
    }
    // Under the locks, so that a write that is going on is over, and the next one tells.
    let _locks = names.lock(request.thread).await?;
    let database = database(&names);
    let mut transaction = Transaction::locked(request.thread, names.databases());
    let mut turns = Turns::new(request.thread);
    request.client.watch.borrow_mut().get_or_insert_with(Watch::default);
    while !words.is_empty() {
        let some = words.iter().take(READ_TOGETHER_MAX).map(|user| Key::new(database, user));
        for entry in transaction.entries(some.collect::<Result<_>>()?).await? {
            if let Some(watch) = request.client.watch.borrow_mut().as_mut() {
                watch.add(entry.key.bytes(), entry.expires_at_ms()?);
                request.thread.shared.observers.watch(entry.key.bytes(), &watch.flag, entry.exists());
            }
            turns.step(entry.key.bytes().len()).await;
        }
        words = words.from(READ_TOGETHER_MAX);
    }
    if names.is_outdated(request.thread)
        && let Some(watch) = request.client.watch.borrow().as_ref()
    {
        // Databases were flushed or swapped before it watched: the flag is raised only here.
        watch.flag.raise();
    }
    Reply::new(out, request.client.protocol.get()).ok();
    Ok(())
}

/// The client watches nothing any more. Others have their turns meanwhile.
pub(crate) async fn unwatch(thread: &ServerThread, client: &Client) {
    let Some(watch) = client.watch.borrow_mut().take() else { return };
    let mut turns = Turns::new(thread);
    let (flag, keys) = watch.into_parts();
    for key in keys {
        thread.shared.observers.unwatch(&key, &flag);
        turns.step(key.len()).await;
    }
}

/// `EXEC`
pub(super) async fn exec(request: &Request<'_>, out: &mut Vec<u8>) -> Result<()> {
    let client = request.client;
    let queue = client.queue.borrow_mut().take().ok_or(Failure::new("ERR EXEC without MULTI"))?;
    let done = match queue.is_refused {
        true => Err(Failure::new("EXECABORT Transaction discarded because of previous errors.")),
        false => exec_watching(request, &queue, out).await,
    };
    unwatch(request.thread, client).await;
    Turns::new(request.thread).discard(queue.requests).await;
    done
}

/// Runs what was queued unless what is watched has changed; more than once if a script in it
/// touches what it has not named.
async fn exec_watching(request: &Request<'_>, queue: &Queue, out: &mut Vec<u8>) -> Result<()> {
    let client = request.client;
    let is_named =
        queue.requests.iter().all(|(command, arguments)| names_all(command, arguments.get().len()));
    let mut retry = match is_named && !shows_tries(queue) {
        true => Retry::naming(lock_names(request, queue)?),
        // It reads or changes databases as wholes, which all of it sees as they are between others'
        // writes; or it must not be begun again.
        false => Retry::of_all(request.thread),
    };
    let (protocol, database) = (client.protocol.get(), client.database.get());
    metrics::unit_begins(client);
    loop {
        let mut one_try = retry.begin(request.thread).await?;
        metrics::try_begins(client);
        let now_ms = one_try.transaction.now_ms();
        if client.watch.borrow().as_ref().is_some_and(|watch| watch.is_over(now_ms)) {
            Reply::new(out, protocol).null_array();
            return Ok(());
        }
        run_queued(request, queue, &mut one_try.transaction, out).await?;
        if !retry.is_again(&one_try.coverage)? {
            return retry.commit(request.thread, &mut one_try).await;
        }
        out.clear();
        client.database.set(database);
    }
}

/// Whether doing it again would show: a script may demand that, and there are commands that do
/// something beside the transaction.
fn shows_tries(queue: &Queue) -> bool {
    let goes_beyond = |command: &'static Command| {
        let is_in_transaction = command.flags.has(Flag::Write) || command.flags.has(Flag::ReadOnly);
        !is_in_transaction && !is_script(command) && !matches!(command.id(), SELECT | PUBLISH | SPUBLISH)
    };
    let mut commands = queue.requests.iter().map(|(command, _)| *command);
    commands.clone().any(is_script) && commands.any(goes_beyond)
}

/// Appends the reply of each command that was queued.
///
/// # Errors
/// The replies are too long: nothing is written then.
async fn run_queued(
    request: &Request<'_>,
    queue: &Queue,
    transaction: &mut Transaction,
    out: &mut Vec<u8>,
) -> Result<()> {
    let client = request.client;
    Reply::new(out, client.protocol.get()).array(queue.requests.len());
    let mut since_ns = request.thread.monotonic_ns();
    let mut turns = Turns::new(request.thread);
    for (command, arguments) in &queue.requests {
        let start = out.len();
        let mut call =
            Call::new(&Request { arguments: arguments.get(), ..*request }, command, transaction, out);
        call.origin = Origin::Unit;
        let savepoint = call.transaction.savepoint();
        let failure = match permit_queued(request.thread, client, command, arguments.get()).await {
            Ok(()) => dispatch_command(&mut call).await.err(),
            Err(failure) => Some(failure),
        };
        if failure == Some(Failure::LONG_REPLIES) {
            return Err(Failure::LONG_REPLIES);
        }
        check_length(request.thread, out.len())?;
        if let Some(failure) = &failure {
            // What a script has written before its error stays, as in Redis.
            if !is_script(command) {
                transaction.roll_back(savepoint);
            }
            out.truncate(start);
            Reply::new(out, client.protocol.get()).error(failure.line());
        }
        let now_ns = request.thread.monotonic_ns();
        let ns = now_ns - std::mem::replace(&mut since_ns, now_ns);
        metrics::executed(request.thread, client, command, arguments.get(), ns, failure.as_ref());
        turns.step(out.len() - start).await;
    }
    Ok(())
}

/// Locks of everything that is queued or watched: reads too, for what they see must stay until the
/// writes are done.
fn lock_names(request: &Request<'_>, queue: &Queue) -> Result<LockNames> {
    let mut names = LockNames::new(request.thread);
    let keyspace = request.thread.shared.store.keyspaces.keys;
    let mut database = request.client.database.get();
    for (command, arguments) in &queue.requests {
        names.add_keys(database, command, arguments.get())?;
        if command.id() == SELECT
            && let Ok(index) = database_index(arguments.get().get(1).unwrap_or_default())
        {
            database = index;
        }
    }
    if let Some(watch) = request.client.watch.borrow().as_ref() {
        watch.keys().chain(&watch.flag.moved()).for_each(|key| names.add_key(keyspace, key));
    }
    Ok(names)
}
