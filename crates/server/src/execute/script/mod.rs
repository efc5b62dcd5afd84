//! Scripts: commands that their clients write in Lua.
//!
//! ```text
//!   EVAL ─► locks of KEYS ─► Try ─► Interpreter ─ redis.call ─► Stage ─► dispatch ─► commit
//!              ▲                            │
//!              └── all locks ◄── a key that was not named
//! ```
//! A script is a unit: it runs in one transaction, and what it writes is written in one batch after
//! its end. So it can be dropped at any moment, and begun again.

mod convert;
mod stage;
mod interpreter;
mod api;

use std::rc::Rc;
use std::sync::Arc;

use firn_lua::Cost;
use firn_protocol::command::{Command, CommandId, Flag, id_of};
use firn_protocol::number;
use firn_protocol::resp::{Arguments, Reply};

use super::call::Call;
use super::retry::Retry;
use super::single::LockNames;
use super::{Request, metrics};
use crate::failure::{Failure, Result};
use crate::scripts::{Found, Source, hexadecimal, parse_sum, sum_of};
use crate::server_thread::{ServerThread, Turns};
use crate::statistics::Measure;
use crate::transaction::Transaction;
use convert::Answer;
use interpreter::Ended;
use stage::Actor;

pub(super) use interpreter::Interpreters;

const EVAL: CommandId = id_of("eval");
const EVALSHA: CommandId = id_of("evalsha");
const EVAL_RO: CommandId = id_of("eval_ro");
const EVALSHA_RO: CommandId = id_of("evalsha_ro");

/// Where the keys of a script begin.
const FIRST_KEY: usize = 3;

const NO_SCRIPT: Failure = Failure::new("NOSCRIPT No matching script. Please use EVAL.");

/// Whether a command runs a script, and so may have to be run again.
pub(super) fn is_script(command: &'static Command) -> bool {
    matches!(command.id(), EVAL | EVALSHA | EVAL_RO | EVALSHA_RO)
}

/// Whether a command runs a script that has said that it only reads.
pub(super) fn is_reading_script(
    thread: &Rc<ServerThread>,
    command: &'static Command,
    arguments: Arguments<'_>,
) -> bool {
    is_script(command) && named(thread, command, arguments).is_ok_and(|source| source.is_reading)
}

/// `EVAL script count [key ...] [argument ...]` and its sisters.
pub(super) async fn run(request: &Request<'_>, command: &'static Command, out: &mut Vec<u8>) -> Result<()> {
    let client = request.client;
    metrics::show_script(request.thread, client, command, request.arguments);
    let source = named(request.thread, command, request.arguments)?;
    let is_reading = source.is_reading || command.flags.has(Flag::ReadOnly);
    let mut retry = match is_reading && request.thread.engine.is_ordered() {
        true => Retry::reading(),
        false => {
            let mut names = LockNames::new(request.thread);
            names.add_keys(client.database.get(), command, request.arguments)?;
            Retry::naming(names)
        }
    };
    metrics::unit_begins(client);
    loop {
        let mut one_try = retry.begin(request.thread).await?;
        metrics::try_begins(client);
        let mut call = Call::new(request, command, &mut one_try.transaction, out);
        let done = evaluate(&mut call, &source).await;
        if retry.is_again(&one_try.coverage)? {
            out.clear();
            continue;
        }
        // What was written before an error stays written.
        retry.commit(request.thread, &mut one_try).await?;
        return done;
    }
}

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const SCRIPT_EXISTS: CommandId = id_of("script|exists");
    const SCRIPT_FLUSH: CommandId = id_of("script|flush");
    const SCRIPT_HELP: CommandId = id_of("script|help");
    const SCRIPT_KILL: CommandId = id_of("script|kill");
    const SCRIPT_LOAD: CommandId = id_of("script|load");
    const FUNCTION_FLUSH: CommandId = id_of("function|flush");
    const FUNCTION_HELP: CommandId = id_of("function|help");
    const FUNCTION_LIST: CommandId = id_of("function|list");
    match call.command.id() {
        EVAL | EVALSHA | EVAL_RO | EVALSHA_RO => {
            metrics::show_in_unit(call.thread, call.client, None, call.command, call.arguments);
            let source = named(call.thread, call.command, call.arguments)?;
            evaluate(call, &source).await
        }
        SCRIPT_LOAD => load(call).await,
        SCRIPT_EXISTS => {
            exists(call).await;
            Ok(())
        }
        SCRIPT_FLUSH => {
            check_mode(call, "ERR SCRIPT FLUSH only support SYNC|ASYNC option")?;
            call.thread.shared.scripts.flush();
            call.reply(|reply| reply.ok());
            Ok(())
        }
        SCRIPT_KILL => kill(call).await,
        SCRIPT_HELP | FUNCTION_HELP => {
            call.reply_help();
            Ok(())
        }
        FUNCTION_FLUSH => {
            check_mode(call, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option")?;
            call.reply(|reply| reply.ok());
            Ok(())
        }
        FUNCTION_LIST => list(call),
        _ => Err(call.not_offered()),
    }
}

/// The script that a command gives or names.
fn named(
    thread: &Rc<ServerThread>,
    command: &'static Command,
    arguments: Arguments<'_>,
) -> Result<Arc<Source>> {
    let text = arguments.get(1).unwrap_or_default();
    let scripts = &thread.shared.scripts;
    if matches!(command.id(), EVALSHA | EVALSHA_RO) {
        return parse_sum(text).and_then(|sum| scripts.get(&sum)).ok_or(NO_SCRIPT);
    }
    key_count(arguments)?;
    match scripts.get(&sum_of(text)) {
        Some(source) => Ok(source),
        None => Source::parse(text).map(Arc::new),
    }
}

/// How many keys a command names.
fn key_count(arguments: Arguments<'_>) -> Result<usize> {
    let count = number::parse_integer(arguments.get(2).unwrap_or_default()).ok_or(Failure::NOT_AN_INTEGER)?;
    if count > arguments.len() as i64 - FIRST_KEY as i64 {
        return Err(Failure::new("ERR Number of keys can't be greater than number of args"));
    }
    usize::try_from(count).map_err(|_| Failure::new("ERR Number of keys can't be negative"))
}

/// Runs a script in the call's transaction. What the unit's coverage demands afterwards is for the
/// caller to see.
async fn evaluate(call: &mut Call<'_>, source: &Arc<Source>) -> Result<()> {
    let keys_end = FIRST_KEY + key_count(call.arguments)?;
    let words: Vec<&[u8]> = call.arguments.iter().collect();
    let words = [words[FIRST_KEY..keys_end].to_vec(), words[keys_end..].to_vec()];
    let taken = Interpreters::take(call.tools, call.thread).await?;
    let interpreter = taken.interpreter()?;
    let function = match interpreter.function(source) {
        Ok(function) => function,
        Err(failure) => {
            taken.give_back();
            return Err(failure);
        }
    };
    let evicted = call.thread.shared.scripts.run(source);
    call.thread.counters().add(Measure::EvictedScripts, evicted);
    let transaction = std::mem::replace(call.transaction, Transaction::reading(call.thread));
    let coverage = transaction.coverage().cloned();
    let database = call.client.database.get();
    let actor = Actor {
        thread: Rc::clone(call.thread),
        client: Rc::clone(call.client),
        tools: Rc::clone(call.tools),
        transaction,
        is_reading: source.is_reading || call.command.flags.has(Flag::ReadOnly),
    };
    let (actor, ended) = interpreter.run(source, function, words, actor).await;
    call.client.database.set(database);
    if let Some(actor) = actor {
        *call.transaction = actor.transaction;
    }
    let done = match ended {
        Ended::Over(demand) => {
            if let Some(coverage) = coverage {
                coverage.demand(demand);
            }
            Err(Failure::KILLED)
        }
        Ended::Failed(line) => Err(Failure::of(String::from_utf8_lossy(&line).into_owned())),
        Ended::Value(value) => {
            let start = call.out.len();
            let mut reply = Reply::new(call.out, call.protocol);
            let protocol = interpreter.stage.protocol.get();
            let cost = Cost::of(&interpreter.stage.budget, &interpreter.lua);
            let mut answer = Answer { reply: &mut reply, protocol, cost };
            let written = answer.write(&value, 0);
            if let Some(line) = call.out.get(start..).and_then(|reply| reply.strip_prefix(b"-")) {
                metrics::script_answered_error(call.thread, call.command, line);
            }
            written.map_err(|error| {
                interpreter.give_up();
                call.out.truncate(start);
                Failure::of(format!("ERR {error}"))
            })
        }
    };
    taken.give_back();
    done
}

/// `SCRIPT LOAD script`
async fn load(call: &mut Call<'_>) -> Result<()> {
    let source = Arc::new(Source::parse(call.argument(2))?);
    let taken = Interpreters::take(call.tools, call.thread).await?;
    let compiled = taken.interpreter()?.function(&source).map(drop);
    taken.give_back();
    compiled?;
    call.thread.shared.scripts.load(&source)?;
    let sum = hexadecimal(&source.sum);
    call.reply(|reply| reply.bulk(sum.as_bytes()));
    Ok(())
}

/// `SCRIPT KILL`: all scripts that run for longer than a turn. A script that began just now is
/// waited for until it is over, or that old.
async fn kill(call: &mut Call<'_>) -> Result<()> {
    let (thread, shared) = (call.thread, &call.thread.shared);
    let asked_ns = thread.monotonic_ns();
    loop {
        let old_ns = thread.monotonic_ns().saturating_sub(shared.settings.turn_us * 1000);
        // First those on threads: what leaves one is among the others before.
        let found: Vec<Found> =
            shared.threads.mailboxes.iter().map(|mailbox| mailbox.script.kill(old_ns, asked_ns)).collect();
        if shared.scripts.kill() || found.contains(&Found::Old) {
            call.reply(|reply| reply.ok());
            return Ok(());
        }
        if !found.contains(&Found::Young) {
            return Err(Failure::new("NOTBUSY No scripts in execution right now."));
        }
        thread.breathe().await;
    }
}

/// `SCRIPT EXISTS sha1 [sha1 ...]`. Others have their turns between sums.
async fn exists(call: &mut Call<'_>) {
    let (sums, scripts) = (call.arguments.from(2), &call.thread.shared.scripts);
    call.reply(|reply| reply.array(sums.len()));
    let mut turns = Turns::new(call.thread);
    for word in sums.iter() {
        let is_known = parse_sum(word).is_some_and(|sum| scripts.get(&sum).is_some());
        call.reply(|reply| reply.integer(i64::from(is_known)));
        turns.step(word.len()).await;
    }
}

/// `FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]`: there are none.
fn list(call: &mut Call<'_>) -> Result<()> {
    let mut index = 2;
    while index < call.arguments.len() {
        if call.is_word(index, "libraryname") {
            if index + 1 >= call.arguments.len() {
                return Err(Failure::new("ERR library name argument was not given"));
            }
            index += 1;
        } else if !call.is_word(index, "withcode") {
            let word = String::from_utf8_lossy(call.argument(index)).into_owned();
            return Err(Failure::of(format!("ERR Unknown argument {word}")));
        }
        index += 1;
    }
    call.reply(|reply| reply.array(0));
    Ok(())
}

/// ASYNC or SYNC, or nothing.
fn check_mode(call: &Call<'_>, refusal: &'static str) -> Result<()> {
    match call.arguments.len() {
        2 => Ok(()),
        3 if call.is_word(2, "async") || call.is_word(2, "sync") => Ok(()),
        _ => Err(Failure::new(refusal)),
    }
}
