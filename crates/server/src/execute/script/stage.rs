//! What a script does to the world: the commands it calls.
//!
//! ```text
//!   redis.call ─► Stage::call ─► the command's future, polled at once ─► its reply: goes on
//!                                     │ it waits
//!                                     ▼
//!                 the coroutine is suspended ─► the task awaits the future ─► resumes it with the reply
//! ```

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use firn_engine::KeyspaceId;
use firn_lua::Turn;
use firn_lua::mlua::{self, IntoLuaMulti, Lua, MultiValue, Value};
use firn_protocol::command::{self, Command, CommandId, Flag, Refusal, id_of};
use firn_protocol::resp::{self, OwnedArguments, Protocol};

use super::convert::{error_table, to_lua};
use super::decimal::general;
use super::source::LongRun;
use crate::access::permit_in_script;
use crate::client::Client;
use crate::execute::alone::{LockNames, names_all};
use crate::execute::call::{Call, Origin};
use crate::execute::dispatch;
use crate::failure::{Failure, Result};
use crate::transaction::{Demand, Transaction};
use crate::worker::Worker;

const PUBLISH: CommandId = id_of("publish");
const SPUBLISH: CommandId = id_of("spublish");

/// Commands after which others have a turn.
const COMMANDS_BETWEEN_PAUSES: u64 = 256;

/// Bytes that one unit may write: more would be held in memory until its end.
const WRITTEN_BYTES_MAX: usize = 512 << 20;

/// Who acts while a script runs. Moves into each command's future and back.
pub(super) struct Actor {
    pub(super) worker: Rc<Worker>,
    pub(super) client: Rc<Client>,
    pub(super) transaction: Transaction,
    /// Refuses commands that write.
    pub(super) is_reading: bool,
}

type Performed = (Actor, Result<resp::Value>);
type Performance = Pin<Box<dyn Future<Output = Performed>>>;

/// Why the coroutine is, or should be, suspended.
pub(super) enum Suspension {
    /// A command waits, or has not begun, so that others have their turn before; whether its error is to be raised.
    Command(Performance, bool),
    /// Others have their turn.
    Pause,
}

/// The place where a script meets the server. One for each interpreter.
#[derive(Default)]
pub(super) struct Stage {
    pub(super) actor: RefCell<Option<Actor>>,
    pub(super) suspension: RefCell<Option<Suspension>>,
    /// What the script speaks with the server.
    pub(super) protocol: Cell<Protocol>,
    is_in_place: Cell<bool>,
    /// Until when it may run so, by the worker's clock that never goes back.
    in_place_until_ms: Cell<u64>,
    /// The script must end, whatever it catches.
    over: Cell<Option<Demand>>,
    commands: Cell<u64>,
    long: RefCell<Option<(Rc<Worker>, Arc<LongRun>)>>,
}

impl Stage {
    /// A script begins.
    pub(super) fn begin(&self, actor: Actor) {
        let coverage = actor.transaction.coverage();
        self.is_in_place.set(coverage.is_some_and(|coverage| coverage.is_in_place));
        let worker = &actor.worker;
        let until_ms = worker.monotonic_ms().saturating_add(worker.shared.settings.script_in_place_ms_max);
        self.in_place_until_ms.set(until_ms);
        self.actor.replace(Some(actor));
        self.suspension.replace(None);
        self.protocol.set(Protocol::Resp2);
        self.over.set(None);
        self.commands.set(0);
    }

    /// It has ended: who acted, unless that is lost with a command that did not end, and what [`over`](Self::over) says.
    ///
    /// Who killed it was told so, and it is neither written nor done again, even if it came to its end without noticing.
    pub(super) fn end(&self) -> (Option<Actor>, Option<Demand>) {
        let was_killed = self.long.take().is_some_and(|(worker, run)| worker.shared.scripts.end_long(&run));
        let over = if was_killed { Some(Demand::End) } else { self.over() };
        self.suspension.replace(None);
        (self.actor.take(), over)
    }

    /// What ends it, whatever it answers.
    pub(super) fn over(&self) -> Option<Demand> {
        // A suspension that is still there was refused by Lua, and nobody has waited.
        if self.over.get().is_none() && self.suspension.borrow().is_some() {
            self.over.set(Some(Demand::InPlace));
        }
        self.over.get()
    }

    /// Says that it must end.
    pub(super) fn demand(&self, demand: Demand) {
        if self.over.get().is_none() {
            self.over.set(Some(demand));
        }
    }

    /// `redis.call` and `redis.pcall`.
    pub(super) fn call(&self, lua: &Lua, arguments: MultiValue, is_raising: bool) -> mlua::Result<Turn> {
        if self.over().is_some() {
            return over(lua);
        }
        let prepared = match owned(&arguments) {
            Ok(arguments) => self.prepare(arguments),
            Err(failure) => Err(failure),
        };
        let (command, arguments) = match prepared {
            Ok(prepared) => prepared,
            Err(_) if self.over().is_some() => return over(lua),
            Err(failure) => return self.failed(lua, failure.line().as_bytes(), is_raising),
        };
        let Some(actor) = self.actor.take() else { return over(lua) };
        let count = self.commands.get() + 1;
        self.commands.set(count);
        let is_pausing = count.is_multiple_of(COMMANDS_BETWEEN_PAUSES);
        if is_pausing && self.is_killed(&actor.worker) {
            self.actor.replace(Some(actor));
            return over(lua);
        }
        let is_in_place = self.is_in_place.get();
        let worker = Rc::clone(&actor.worker);
        let protocol = self.protocol.get();
        let mut performance: Performance = Box::pin(perform(actor, command, arguments, protocol));
        if is_pausing && !is_in_place {
            self.suspension.replace(Some(Suspension::Command(performance, is_raising)));
            return Ok(Turn::Suspend);
        }
        if is_in_place {
            worker.wait_in_place(true);
        }
        let polled = performance.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if is_in_place {
            worker.wait_in_place(false);
        }
        match polled {
            Poll::Ready((actor, reply)) => {
                self.actor.replace(Some(actor));
                self.answer(lua, reply, is_raising)
            }
            // It waits for somebody of this worker.
            Poll::Pending if is_in_place => {
                self.demand(Demand::InPlace);
                over(lua)
            }
            Poll::Pending => {
                self.suspension.replace(Some(Suspension::Command(performance, is_raising)));
                Ok(Turn::Suspend)
            }
        }
    }

    /// What a command's reply means for the script.
    pub(super) fn answer(
        &self,
        lua: &Lua,
        reply: Result<resp::Value>,
        is_raising: bool,
    ) -> mlua::Result<Turn> {
        match reply {
            Ok(resp::Value::Error(line)) => self.failed(lua, line.as_bytes(), is_raising),
            Ok(reply) => Ok(Turn::Answer(to_lua(lua, reply, self.protocol.get())?.into_lua_multi(lua)?)),
            Err(failure) => self.failed(lua, failure.line().as_bytes(), is_raising),
        }
    }

    fn failed(&self, lua: &Lua, line: &[u8], is_raising: bool) -> mlua::Result<Turn> {
        let table = Value::Table(error_table(lua, line)?);
        Ok(match is_raising {
            true => Turn::Raise(table),
            false => Turn::Answer(table.into_lua_multi(lua)?),
        })
    }

    /// The command that the script may run.
    fn prepare(&self, arguments: OwnedArguments) -> Result<(&'static Command, OwnedArguments)> {
        let words: Vec<&[u8]> = arguments.get().iter().collect();
        let command = command::resolve(&words).map_err(|refusal| match refusal {
            Refusal::ArgumentCount(_) => {
                Failure::new("ERR Wrong number of args calling Redis command from script")
            }
            _ => Failure::new("ERR Unknown Redis command called from script"),
        })?;
        if !command.is_offered() {
            return Err(Failure::of(format!("ERR {command} is not offered yet")));
        }
        if command.flags.has(Flag::NoScript) {
            return Err(Failure::new("ERR This Redis command is not allowed from script"));
        }
        let actor = self.actor.borrow();
        let Some(actor) = actor.as_ref() else { return Err(Failure::KILLED) };
        if actor.is_reading && (command.flags.has(Flag::Write) || matches!(command.id(), PUBLISH | SPUBLISH))
        {
            return Err(Failure::new("ERR Write commands are not allowed from read-only scripts."));
        }
        if command.flags.has(Flag::Write) && actor.transaction.written_bytes() > WRITTEN_BYTES_MAX {
            let max = WRITTEN_BYTES_MAX >> 20;
            return Err(Failure::of(format!("ERR a script cannot write more than {max} MiB at once")));
        }
        permit_in_script(&actor.worker, &actor.client, command, arguments.get())?;
        self.check_coverage(actor, command, &arguments, &words)?;
        drop(words);
        Ok((command, arguments))
    }

    /// Demands all locks for a command that touches what the unit has not locked.
    fn check_coverage(
        &self,
        actor: &Actor,
        command: &'static Command,
        arguments: &OwnedArguments,
        words: &[&[u8]],
    ) -> Result<()> {
        let Some(coverage) = actor.transaction.coverage().filter(|coverage| !coverage.is_all()) else {
            return Ok(());
        };
        let mut is_covered = names_all(command, words.len());
        if is_covered && command.has_keys() {
            let mut names = LockNames::new(&actor.worker);
            names.add_keys(actor.client.database.get(), command, arguments.get())?;
            is_covered = names.names().all(|name: &(KeyspaceId, Vec<u8>)| coverage.has(name));
        }
        if !is_covered {
            self.demand(Demand::AllLocks);
            return Err(Failure::KILLED);
        }
        Ok(())
    }

    /// Asked every so many instructions.
    pub(super) fn watch(&self, lua: &Lua) -> mlua::Result<Turn> {
        if self.over().is_some() {
            return over(lua);
        }
        // Nobody acts while an interpreter is made.
        let Some(worker) = self.actor.borrow().as_ref().map(|actor| Rc::clone(&actor.worker)) else {
            return Ok(Turn::Answer(MultiValue::new()));
        };
        if self.is_killed(&worker) {
            return over(lua);
        }
        if self.is_in_place.get() {
            if worker.monotonic_ms() >= self.in_place_until_ms.get() {
                self.demand(Demand::Late);
                return over(lua);
            }
            return Ok(Turn::Answer(MultiValue::new()));
        }
        self.suspension.replace(Some(Suspension::Pause));
        Ok(Turn::Suspend)
    }

    /// Whether somebody has killed the script, which can be killed from now on, or ends the server.
    fn is_killed(&self, worker: &Rc<Worker>) -> bool {
        let mut long = self.long.borrow_mut();
        let (_, run) = long.get_or_insert_with(|| (Rc::clone(worker), worker.shared.scripts.begin_long()));
        let is_killed = run.is_killed() || worker.shared.is_ending.load(Ordering::Acquire);
        if is_killed {
            self.demand(Demand::End);
        }
        is_killed
    }
}

/// Raised where a script must end; nobody sees it.
fn over(lua: &Lua) -> mlua::Result<Turn> {
    Ok(Turn::Raise(Value::String(lua.create_string("over")?)))
}

async fn perform(
    mut actor: Actor,
    command: &'static Command,
    arguments: OwnedArguments,
    protocol: Protocol,
) -> Performed {
    let mut out = Vec::new();
    let mut call =
        Call::new(&actor.worker, &actor.client, command, arguments.get(), &mut actor.transaction, &mut out);
    call.protocol = protocol;
    call.origin = Origin::Unit;
    let done = dispatch(&mut call).await;
    let reply = match (done, resp::decode(&out)) {
        (Err(failure), _) => Err(failure),
        (Ok(()), Ok(Some((reply, _)))) => Ok(reply),
        (Ok(()), Ok(None)) => Ok(resp::Value::Null),
        (Ok(()), Err(error)) => {
            Err(Failure::of(format!("ERR the reply of {command} cannot be read: {error}")))
        }
    };
    (actor, reply)
}

/// What a script calls a command with.
fn owned(arguments: &MultiValue) -> Result<OwnedArguments> {
    if arguments.is_empty() {
        return Err(Failure::new("ERR Please specify at least one argument for this redis lib call"));
    }
    let mut owned = OwnedArguments::default();
    for argument in arguments {
        match argument {
            Value::String(text) => owned.push(&text.as_bytes()),
            Value::Integer(number) => owned.push(general(*number as f64, 17).as_bytes()),
            Value::Number(number) => owned.push(general(*number, 17).as_bytes()),
            _ => {
                return Err(Failure::new("ERR Lua redis lib command arguments must be strings or integers"));
            }
        }
    }
    Ok(owned)
}
