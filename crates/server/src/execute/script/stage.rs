//! The commands that a script calls.
//!
//! ```text
//!   redis.call ─► Stage::call ─► the command's future, polled at once ─► its reply: goes on
//!                                     │ it waits
//!                                     ▼
//!                 the coroutine is suspended ─► the task awaits it ─► resumed with the reply
//! ```

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use firn_engine::KeyspaceId;
use firn_lua::mlua::{self, IntoLuaMulti, Lua, MultiValue, Value};
use firn_lua::{Arguments, Budget, Complaint, Host, Search, Turn, general};
use firn_protocol::command::{self, Command, CommandId, Flag, Refusal, id_of};
use firn_protocol::resp::{self, OwnedArguments, Protocol};

use super::convert::{error_table, to_lua};
use crate::bounds::SCRIPTS_BYTES_MAX;
use crate::client::Client;
use crate::execute::call::{Call, Origin};
use crate::execute::metrics::show_in_unit;
use crate::execute::permit::{is_permitted, permit_in_script};
use crate::execute::single::{LockNames, names_all};
use crate::execute::{Request, Tools, dispatch, lacks_order};
use crate::failure::{Failure, Result};
use crate::scripts::LongRun;
use crate::server_thread::ServerThread;
use crate::transaction::{Demand, Transaction};

/// The part of a script of what all scripts may hold grows and shrinks by so much.
const PART_BYTES: usize = 1 << 20;

const PUBLISH: CommandId = id_of("publish");
const SPUBLISH: CommandId = id_of("spublish");

/// The clock may stand still, in tests: after being asked so often a turn is over too.
const ASKS_MAX: u32 = 256;

/// Steps of the pattern matcher in a turn.
const STEPS: u64 = 100_000;

/// Memory that an argument takes beside its bytes.
const SCALAR_BYTES: usize = 32;

/// Memory that a reply takes while it becomes Lua's, as a multiple of its bytes as they are sent.
const REPLY_COPIES: usize = 2;

/// The server thread and the client that a script acts for. Moves into each command's future and
/// back.
pub(super) struct Actor {
    pub(super) thread: Rc<ServerThread>,
    pub(super) client: Rc<Client>,
    pub(super) tools: Rc<Tools>,
    pub(super) transaction: Transaction,
    /// Refuses commands that write.
    pub(super) is_reading: bool,
}

type Performed = (Actor, Result<resp::Value>);
type Performance = Pin<Box<dyn Future<Output = Performed>>>;

/// Why the coroutine is, or should be, suspended.
pub(super) enum Suspension {
    /// A command waits; whether its error is to be raised.
    Command(Performance, bool),
    /// A search goes on between turns of others.
    Search(Search),
    /// Others have their turn.
    Pause,
}

/// The place where a script meets the server. One for each interpreter.
pub(super) struct Stage {
    pub(super) actor: RefCell<Option<Actor>>,
    pub(super) suspension: RefCell<Option<Suspension>>,
    /// What the script speaks with the server.
    pub(super) protocol: Cell<Protocol>,
    /// Its calls are never suspended; it may be between them.
    is_in_place: Cell<bool>,
    /// Until when this turn may go on where nothing can be suspended, by the server thread's clock
    /// that never goes back.
    in_place_until_ms: Cell<u64>,
    /// The script must end, whatever it catches.
    over: Cell<Option<Demand>>,
    /// Whose thread it runs on; `None` = it does not run.
    thread: RefCell<Option<Rc<ServerThread>>>,
    client: RefCell<Option<Rc<Client>>>,
    begun_ms: Cell<u64>,
    /// When others are to have a turn.
    turn_ends_ns: Cell<u64>,
    asks: Cell<u32>,
    pub(super) budget: Rc<Budget>,
    /// What the unit will write and send, as it was last seen.
    unwritten_bytes: Cell<usize>,
    /// The script's part of what all scripts hold.
    part_bytes: Cell<usize>,
    long: RefCell<Option<Arc<LongRun>>>,
}

impl Stage {
    /// The stage of the scripts that `lua` runs.
    pub(super) fn new(lua: &Lua) -> Rc<Self> {
        Rc::new_cyclic(|stage: &Weak<Self>| Self {
            actor: RefCell::default(),
            suspension: RefCell::default(),
            protocol: Cell::default(),
            is_in_place: Cell::default(),
            in_place_until_ms: Cell::default(),
            over: Cell::default(),
            thread: RefCell::default(),
            client: RefCell::default(),
            begun_ms: Cell::default(),
            turn_ends_ns: Cell::default(),
            asks: Cell::default(),
            budget: Budget::new(lua, stage.clone()),
            unwritten_bytes: Cell::default(),
            part_bytes: Cell::default(),
            long: RefCell::default(),
        })
    }

    /// A script begins.
    pub(super) fn begin(&self, actor: Actor) {
        let coverage = actor.transaction.coverage();
        self.is_in_place.set(coverage.is_some_and(|coverage| coverage.is_in_place));
        let thread = Rc::clone(&actor.thread);
        self.begun_ms.set(thread.monotonic_ms());
        self.thread.replace(Some(Rc::clone(&thread)));
        self.client.replace(Some(Rc::clone(&actor.client)));
        self.actor.replace(Some(actor));
        self.suspension.replace(None);
        self.protocol.set(Protocol::Resp2);
        self.over.set(None);
        self.unwritten_bytes.set(0);
        self.take_thread(&thread);
    }

    /// The script is suspended: it can be killed meanwhile.
    pub(super) fn leave_thread(&self, thread: &ServerThread) {
        self.long_run(thread);
        self.in_place_until_ms.set(u64::MAX);
        if thread.script().end() {
            self.demand(Demand::End);
        }
    }

    /// The script begins, or goes on after others have had their turn.
    pub(super) fn take_thread(&self, thread: &ServerThread) {
        let now_ns = thread.monotonic_ns();
        thread.script().begin(now_ns);
        let settings = &thread.shared.settings;
        self.turn_ends_ns.set(now_ns + settings.turn_us * 1000);
        self.in_place_until_ms.set(thread.monotonic_ms().saturating_add(settings.script_in_place_ms_max));
        self.asks.set(0);
        self.budget.steps().set(STEPS);
        self.budget.meter().place().begin();
    }

    /// The script runs for longer than a turn: from now on all know of it.
    fn long_run(&self, thread: &ServerThread) -> Arc<LongRun> {
        let mut long = self.long.borrow_mut();
        let run = long.get_or_insert_with(|| thread.shared.scripts.begin_long(self.begun_ms.get()));
        Arc::clone(run)
    }

    /// Whether others are to have a turn.
    pub(super) fn is_turn_over(&self) -> bool {
        let asks = self.asks.get() + 1;
        self.asks.set(asks);
        let now_ns = self.thread.borrow().as_ref().map(|thread| thread.monotonic_ns());
        asks > ASKS_MAX
            || self.budget.steps().get() == 0
            || now_ns.is_some_and(|now| now >= self.turn_ends_ns.get())
    }

    pub(super) fn thread(&self) -> Option<Rc<ServerThread>> {
        self.thread.borrow().clone()
    }

    /// It has ended: the actor, unless it is lost with a command that did not end, and what
    /// [`over`](Self::over) says.
    ///
    /// SCRIPT KILL was answered that it is killed. So it is neither written nor done again, even if
    /// it came to its end without noticing.
    pub(super) fn end(&self) -> (Option<Actor>, Option<Demand>) {
        let (thread, long) = (self.thread.take(), self.long.take());
        let mut was_killed = false;
        if let Some(thread) = thread {
            was_killed = long.is_some_and(|run| thread.shared.scripts.end_long(&run)) | thread.script().end();
            thread.shared.scripts.change_part(self.part_bytes.take(), 0);
        }
        let over = if was_killed { Some(Demand::End) } else { self.over() };
        self.client.replace(None);
        self.suspension.replace(None);
        (self.actor.take(), over)
    }

    /// What ends it, whatever it answers.
    pub(super) fn over(&self) -> Option<Demand> {
        // A suspension that is still there was refused by Lua, and nothing has waited.
        if self.over.get().is_none() && self.suspension.borrow().is_some() {
            self.over.set(Some(Demand::Late));
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
    pub(super) fn call(
        self: &Rc<Self>,
        lua: &Lua,
        arguments: &Arguments,
        is_raising: bool,
    ) -> mlua::Result<Turn> {
        if self.over().is_some() {
            return over(lua);
        }
        let bytes = SCALAR_BYTES * arguments.len() + arguments.string_bytes()?;
        let prepared = self
            .budget
            .check_stack()
            .and_then(|()| self.budget.hold(lua, bytes))
            .map_err(Failure::from)
            .and_then(|held| Ok((held, self.prepare(owned(arguments)?)?)));
        let (held, (command, arguments)) = match prepared {
            Ok(prepared) => prepared,
            Err(_) if self.over().is_some() => return over(lua),
            Err(failure) => return self.failed(lua, failure.line().as_bytes(), is_raising),
        };
        let Some(actor) = self.actor.take() else { return over(lua) };
        if self.is_turn_over() {
            if self.is_ended(&actor.thread) {
                self.actor.replace(Some(actor));
                return over(lua);
            }
            // Others have theirs after this call.
            self.budget.meter().use_up();
        }
        let stays = self.stays();
        let thread = Rc::clone(&actor.thread);
        let protocol = self.protocol.get();
        let reply_bytes_max = self.budget.room(lua) / REPLY_COPIES;
        let mut performance: Performance = Box::pin(async move {
            let performed = perform(actor, command, arguments, protocol, reply_bytes_max).await;
            drop(held);
            performed
        });
        if stays {
            thread.engine.wait_in_place(true);
        }
        let polled = performance.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if stays {
            thread.engine.wait_in_place(false);
        }
        match polled {
            Poll::Ready((actor, reply)) => {
                self.actor.replace(Some(actor));
                self.answer(lua, reply, is_raising)
            }
            // It waits for another task of this server thread.
            Poll::Pending if stays => {
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
        let reply = match self.budget.check_memory(lua, 0) {
            Ok(()) => reply,
            Err(complaint) => Err(complaint.into()),
        };
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

    /// Whether the user whose script it is may run the command.
    pub(super) fn may(&self, command: &'static Command, arguments: &OwnedArguments) -> bool {
        let (thread, client) = (self.thread(), self.client.borrow().clone());
        match (thread, client) {
            (Some(thread), Some(client)) => is_permitted(&thread, &client, command, arguments.get()),
            _ => false,
        }
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
        if self.thread().is_some_and(|thread| lacks_order(&thread, command)) {
            return Err(Failure::NO_ORDER);
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
        permit_in_script(&actor.thread, &actor.client, command, arguments.get())?;
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
            let mut names = LockNames::new(&actor.thread);
            names.add_keys(actor.client.database.get(), command, arguments.get())?;
            is_covered =
                !names.is_all() && names.names().all(|name: &(KeyspaceId, Vec<u8>)| coverage.has(name));
        }
        if !is_covered {
            self.demand(Demand::AllLocks);
            return Err(Failure::KILLED);
        }
        Ok(())
    }

    /// Whether the call under way is not to be suspended: Lua cannot do that everywhere.
    fn stays(&self) -> bool {
        self.is_in_place.get() || self.budget.meter().place().is_fixed()
    }

    /// Asked when a turn is over.
    pub(super) fn watch(&self, lua: &Lua) -> mlua::Result<Turn> {
        self.rest(lua, self.budget.meter().place().is_fixed(), || Suspension::Pause)
    }

    /// Ends the turn, or puts that off until the script can be suspended.
    fn rest(&self, lua: &Lua, stays: bool, suspension: impl FnOnce() -> Suspension) -> mlua::Result<Turn> {
        if self.over.get().is_some() {
            return over(lua);
        }
        // No script runs while an interpreter is made. What is suspended already is on its way out.
        let thread = self.thread().filter(|_| self.suspension.borrow().is_none());
        let Some(thread) = thread else {
            self.budget.steps().set(STEPS);
            return Ok(Turn::Answer(MultiValue::new()));
        };
        if self.is_ended(&thread) {
            return over(lua);
        }
        if let Err(complaint) = self.budget.check_memory(lua, 0) {
            return self.failed(lua, Failure::from(complaint).line().as_bytes(), true);
        }
        if stays {
            self.budget.steps().set(STEPS);
            self.budget.meter().place().put_off();
            return Ok(Turn::Answer(MultiValue::new()));
        }
        self.suspension.replace(Some(suspension()));
        Ok(Turn::Suspend)
    }

    /// Whether the script is to end: it was killed, which it can be from now on, or its server
    /// ends. Also if it is busy and its client is gone, or its time in place is over.
    pub(super) fn is_ended(&self, thread: &Rc<ServerThread>) -> bool {
        let now_ms = thread.monotonic_ms();
        let is_killed = self.long_run(thread).is_killed() || thread.script().is_killed();
        let is_busy = now_ms.saturating_sub(self.begun_ms.get()) > thread.shared.parameters.busy_ms();
        let is_gone = || self.client.borrow().as_ref().is_some_and(|client| thread.is_gone(client));
        if is_killed || thread.shared.threads.is_ending.load(Ordering::Acquire) || is_busy && is_gone() {
            self.demand(Demand::End);
        } else if self.stays() && now_ms >= self.in_place_until_ms.get() {
            self.demand(Demand::Late);
        }
        self.over.get().is_some()
    }
}

impl Host for Stage {
    fn held_bytes(&self) -> usize {
        if let Some(actor) = &*self.actor.borrow() {
            self.unwritten_bytes.set(actor.transaction.held_bytes());
        }
        self.unwritten_bytes.get()
    }

    fn take_part(&self, bytes: usize) -> std::result::Result<(), Complaint> {
        let Some(thread) = self.thread() else { return Ok(()) };
        let (part, has) = (bytes.next_multiple_of(PART_BYTES), self.part_bytes.get());
        if !thread.shared.scripts.change_part(has, part) {
            let max = SCRIPTS_BYTES_MAX >> 20;
            return Err(Complaint(format!(
                "all scripts that run take {max} MiB, which is what they may: try again later"
            )));
        }
        self.part_bytes.set(part);
        Ok(())
    }

    fn must_end(&self) -> bool {
        let is_over = self.is_turn_over();
        let thread = self.thread().filter(|_| is_over);
        thread.is_some_and(|thread| self.is_ended(&thread))
    }

    fn is_over(&self) -> bool {
        self.over().is_some()
    }

    fn is_suspended(&self) -> bool {
        self.suspension.borrow().is_some()
    }

    fn rest_in(&self, lua: &Lua, search: &Search) -> mlua::Result<Turn> {
        self.rest(lua, self.stays(), || Suspension::Search(search.clone()))
    }
}

impl From<Complaint> for Failure {
    fn from(Complaint(text): Complaint) -> Self {
        Failure::of(format!("ERR {text}"))
    }
}

/// Raised where a script must end; the script cannot catch it.
fn over(lua: &Lua) -> mlua::Result<Turn> {
    Ok(Turn::Raise(Value::String(lua.create_string("over")?)))
}

async fn perform(
    mut actor: Actor,
    command: &'static Command,
    arguments: OwnedArguments,
    protocol: Protocol,
    reply_bytes_max: usize,
) -> Performed {
    let mut out = Vec::new();
    let Actor { thread, client, tools, transaction, .. } = &mut actor;
    let request = Request { thread, client, tools, arguments: arguments.get() };
    let mut call = Call::new(&request, command, transaction, &mut out);
    call.protocol = protocol;
    call.origin = Origin::Unit;
    call.script_reply_bytes_max = reply_bytes_max;
    let savepoint = call.transaction.savepoint();
    let done = dispatch(&mut call).await.and_then(|()| call.check_reply());
    show_in_unit(&actor.thread, &actor.client, Some("lua"), command, arguments.get());
    drop(arguments);
    if done.is_err() {
        actor.transaction.roll_back(savepoint);
    }
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
fn owned(arguments: &Arguments) -> Result<OwnedArguments> {
    if arguments.is_empty() {
        return Err(Failure::new("ERR Please specify at least one argument for this redis lib call"));
    }
    let mut owned = OwnedArguments::default();
    arguments.try_for_each(|argument| {
        match argument {
            Value::String(text) => owned.push(&text.as_bytes()),
            Value::Integer(number) => owned.push(general(*number as f64, 17).as_bytes()),
            Value::Number(number) => owned.push(general(*number, 17).as_bytes()),
            _ => {
                return Err(Complaint("Lua redis lib command arguments must be strings or integers".into()));
            }
        }
        Ok(())
    })?;
    Ok(owned)
}
