//! Interpreters: a script has one to itself while it runs.
//!
//! A server thread has none before its first script, and more than one only while scripts wait for
//! the engine.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use firn_lua::mlua::chunk::ChunkMode;
use firn_lua::mlua::thread::ThreadStatus;
use firn_lua::mlua::{self, Function, Lua, LuaOptions, MultiValue, StdLib, Table, Thread, Value};
use firn_lua::{Complaint, SANDBOX_NAME, Sandbox, Search, Turn, line, text_of, watch};

use super::api;
use super::stage::{Actor, Stage, Suspension};
use crate::bounds::{SCRIPT_BYTES_MAX, SCRIPTS_AT_ONCE_MAX};
use crate::execute::Tools;
use crate::failure::{Failure, Result};
use crate::scripts::{Source, Sum, hexadecimal};
use crate::server_thread::{ServerThread, Turns};
use crate::statistics::Gauge;
use crate::transaction::Demand;

/// What scripts are called in errors.
const NAME: &str = "@user_script";

/// Memory that an interpreter keeps between scripts; one that has more is given up.
const MEMORY_BYTES_KEPT: usize = 16 << 20;

/// Compiled scripts that an interpreter keeps; all are forgotten when there are more. Each takes
/// one of some 8 000 slots.
const FUNCTIONS_MAX: usize = 1000;

/// Interpreters that a server thread keeps while no script runs.
const INTERPRETERS_KEPT: usize = 4;

/// How long a script waits before it looks again for an interpreter.
const RETRY_MS: u64 = 1;

/// A server thread's interpreters.
#[derive(Default)]
pub(crate) struct Interpreters {
    free: RefCell<Vec<Interpreter>>,
    count: Cell<usize>,
    /// Memory of all of them, as it was when scripts began or ended.
    memory_bytes: Cell<usize>,
}

impl Interpreters {
    /// An interpreter for one script alone; waits while there are too many.
    pub(super) async fn take(tools: &Rc<Tools>, thread: &Rc<ServerThread>) -> Result<Taken> {
        let all = &tools.interpreters;
        while all.count.get() >= SCRIPTS_AT_ONCE_MAX && all.free.borrow().is_empty() {
            thread.sleep_until(thread.monotonic_ms() + RETRY_MS).await;
        }
        let free = all.free.borrow_mut().pop();
        let interpreter = match free {
            Some(interpreter) => interpreter,
            None => {
                let made = Interpreter::new()
                    .map_err(|error| Failure::of(format!("ERR no interpreter for scripts: {error}")))?;
                all.count.set(all.count.get() + 1);
                all.report_memory(thread, 0, made.reported_bytes.get());
                made
            }
        };
        interpreter.look_for_flush(thread.shared.scripts.flushes());
        let (thread, tools) = (Rc::clone(thread), Rc::clone(tools));
        Ok(Taken { thread, tools, interpreter: Some(interpreter), is_sound: false })
    }

    /// One of them has so much memory, where it had some before: reports what all have.
    fn report_memory(&self, thread: &ServerThread, before_bytes: usize, bytes: usize) {
        self.memory_bytes.set(self.memory_bytes.get() + bytes - before_bytes);
        thread.counters().set(Gauge::InterpreterBytes, self.memory_bytes.get() as u64);
    }
}

/// An interpreter, given back when dropped, or given up where a script was left in the middle, or
/// where it failed itself.
pub(super) struct Taken {
    thread: Rc<ServerThread>,
    tools: Rc<Tools>,
    interpreter: Option<Interpreter>,
    is_sound: bool,
}

impl Taken {
    pub(super) fn interpreter(&self) -> Result<&Interpreter> {
        self.interpreter.as_ref().ok_or(Failure::KILLED)
    }

    /// Nothing of a script is left in it.
    pub(super) fn give_back(mut self) {
        self.is_sound = true;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let all = &self.tools.interpreters;
        let reported_bytes =
            self.interpreter.as_ref().map_or(0, |interpreter| interpreter.reported_bytes.get());
        let sound = self.interpreter.take().filter(|interpreter| {
            self.is_sound && interpreter.is_fit() && all.free.borrow().len() < INTERPRETERS_KEPT
        });
        match sound {
            Some(interpreter) => {
                interpreter.reported_bytes.set(interpreter.lua.used_memory());
                all.report_memory(&self.thread, reported_bytes, interpreter.reported_bytes.get());
                all.free.borrow_mut().push(interpreter);
            }
            None => {
                all.report_memory(&self.thread, reported_bytes, 0);
                all.count.set(all.count.get().saturating_sub(1));
            }
        }
    }
}

/// Lua with what scripts may use.
pub(super) struct Interpreter {
    pub(super) lua: Lua,
    pub(super) stage: Rc<Stage>,
    sandbox: Sandbox,
    resume: Function,
    functions: RefCell<HashMap<Sum, Function>>,
    flushes: Cell<u64>,
    /// It has failed itself, and may lack what the next script needs: memory, or slots for values.
    is_broken: Cell<bool>,
    /// Its memory, as it was last reported.
    reported_bytes: Cell<usize>,
}

/// How a script ended.
pub(super) enum Ended {
    /// It answered this.
    Value(Value),
    /// It failed.
    Failed(Vec<u8>),
    /// Nothing of it counts.
    Over(Demand),
}

impl Interpreter {
    pub(super) fn new() -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        lua.set_memory_limit(SCRIPT_BYTES_MAX)?;
        let stage = Stage::new(&lua);
        let own = lua.create_table()?;
        own.raw_set("redis", api::redis(&lua, &stage)?)?;
        let sandbox = Sandbox::new(&lua, &stage.budget, own)?;
        let resume: Function = lua.globals().raw_get::<Table>("coroutine")?.raw_get("resume")?;
        let (of_clock, of_watch) = (Rc::clone(&stage), Rc::clone(&stage));
        watch(&lua, move || of_clock.is_turn_over(), move |lua| of_watch.watch(lua))?;
        let reported_bytes = Cell::new(lua.used_memory());
        Ok(Self {
            lua,
            stage,
            sandbox,
            resume,
            functions: RefCell::default(),
            flushes: Cell::new(0),
            is_broken: Cell::new(false),
            reported_bytes,
        })
    }

    fn look_for_flush(&self, flushes: u64) {
        if self.flushes.replace(flushes) != flushes {
            self.functions.borrow_mut().clear();
        }
    }

    /// Whether other scripts may run in it.
    fn is_fit(&self) -> bool {
        !self.is_broken.get() && self.is_small()
    }

    fn is_small(&self) -> bool {
        if self.lua.used_memory() > MEMORY_BYTES_KEPT || self.stage.budget.held_bytes() > 0 {
            // Garbage, maybe. An error leaves it as large as it is.
            let _ = self.lua.gc_collect();
        }
        self.lua.used_memory() <= MEMORY_BYTES_KEPT && self.stage.budget.held_bytes() == 0
    }

    /// What a script ends with that the interpreter could not do: it runs no other one.
    fn broken(&self, error: &mlua::Error) -> Ended {
        self.give_up();
        Ended::Failed(format!("ERR {error}").into_bytes())
    }

    /// It runs no other script.
    pub(super) fn give_up(&self) {
        self.is_broken.set(true);
    }

    /// Compiles `source`, unless it was.
    pub(super) fn function(&self, source: &Source) -> Result<Function> {
        if let Some(function) = self.functions.borrow().get(&source.sum) {
            return Ok(function.clone());
        }
        let chunk = self.lua.load(source.lua()).set_name(NAME).set_mode(ChunkMode::Text);
        // Nothing that the parser holds is collected meanwhile: CVE-2025-49844.
        self.lua.gc_stop();
        let compiled = chunk.set_environment(self.sandbox.environment().clone()).into_function();
        self.lua.gc_restart();
        let function = compiled.map_err(|error| {
            let reason = match error {
                mlua::Error::SyntaxError { message, .. } => message,
                other => {
                    self.give_up();
                    other.to_string()
                }
            };
            Failure::of(format!("ERR Error compiling script (new function): {reason}"))
        })?;
        let mut functions = self.functions.borrow_mut();
        if functions.len() >= FUNCTIONS_MAX {
            functions.clear();
        }
        functions.insert(source.sum, function.clone());
        Ok(function)
    }

    /// Runs `function`, which is `source`'s, to its end. The actor comes back, unless it was lost
    /// with a command in the middle.
    pub(super) async fn run(
        &self,
        source: &Source,
        function: Function,
        words: [Vec<&[u8]>; 2],
        actor: Actor,
    ) -> (Option<Actor>, Ended) {
        let thread = Rc::clone(&actor.thread);
        self.stage.begin(actor);
        let begun = match self.sandbox.begin() {
            Ok(()) => self.set_words(&thread, words).await,
            Err(error) => Err(error),
        };
        let ended = match begun.and_then(|()| self.lua.create_thread(function)) {
            Ok(coroutine) => self.go_on(&thread, source, &coroutine).await,
            Err(error) => self.broken(&error),
        };
        let (actor, over) = self.stage.end();
        (actor, over.map_or(ended, Ended::Over))
    }

    /// Gives the script its keys and arguments. Others have their turns meanwhile.
    async fn set_words(&self, thread: &ServerThread, words: [Vec<&[u8]>; 2]) -> mlua::Result<()> {
        let mut turns = Turns::new(thread);
        for (name, words) in ["KEYS", "ARGV"].into_iter().zip(words) {
            let table = self.lua.create_table_with_capacity(words.len(), 0)?;
            for (index, word) in words.into_iter().enumerate() {
                table.raw_set(index + 1, self.lua.create_string(word)?)?;
                turns.step(word.len()).await;
            }
            self.sandbox.set(name, table)?;
        }
        Ok(())
    }

    async fn go_on(&self, thread: &Rc<ServerThread>, source: &Source, coroutine: &Thread) -> Ended {
        let mut given = MultiValue::new();
        loop {
            given.push_front(Value::Thread(coroutine.clone()));
            self.stage.budget.mark_stack();
            // Of what it answers the first value counts; others, some thousand maybe, are not held.
            let (is_ok, value): (bool, Value) = match self.resume.call(std::mem::take(&mut given)) {
                Ok(answer) => answer,
                Err(error) => return self.broken(&error),
            };
            if !is_ok {
                if value.is_error() {
                    self.give_up();
                }
                return Ended::Failed(self.failure(source, coroutine, &value));
            }
            if coroutine.status() != ThreadStatus::Resumable {
                return Ended::Value(value);
            }
            self.stage.leave_thread(thread);
            // A value that the script itself yields has no receiver.
            let suspension = self.stage.suspension.take();
            match suspension {
                None => {
                    let text = "ERR attempt to yield across metamethod/C-call boundary";
                    return Ended::Failed(self.placed(source, coroutine, text.as_bytes().to_vec()));
                }
                Some(Suspension::Pause) => thread.breathe().await,
                Some(Suspension::Search(search)) => match self.seek(thread, &search).await {
                    Ok(values) => given = values,
                    // As below.
                    Err(_) => self.stage.demand(Demand::InPlace),
                },
                Some(Suspension::Command(performance, is_raising)) => {
                    thread.pause().await;
                    let (actor, reply) = performance.await;
                    self.stage.actor.replace(Some(actor));
                    match self.stage.answer(&self.lua, reply, is_raising) {
                        Ok(Turn::Answer(values)) => given = values,
                        // Lua can raise nothing in a coroutine that it resumes.
                        Ok(_) => self.stage.demand(Demand::InPlace),
                        Err(error) => return self.broken(&error),
                    }
                }
            }
            if self.stage.is_ended(thread)
                && let Some(demand) = self.stage.over()
            {
                return Ended::Over(demand);
            }
            self.stage.take_thread(thread);
        }
    }

    /// Goes on with a search between turns of others: what its call answers.
    async fn seek(
        &self,
        thread: &Rc<ServerThread>,
        search: &Search,
    ) -> std::result::Result<MultiValue, Complaint> {
        loop {
            thread.breathe().await;
            if self.stage.is_ended(thread) {
                return Ok(MultiValue::new());
            }
            self.stage.take_thread(thread);
            let answer = search.answer(&self.lua);
            self.stage.leave_thread(thread);
            if let Some(values) = answer? {
                return Ok(values);
            }
        }
    }

    /// The line that a client gets for the error `raised`.
    fn failure(&self, source: &Source, coroutine: &Thread, raised: &Value) -> Vec<u8> {
        let line = match raised {
            Value::Table(table) => match table.raw_get::<Value>("err") {
                Ok(text) => text_of(&text),
                Err(_) => None,
            }
            .unwrap_or_else(|| b"ERR a script has raised a table without an error in it".to_vec()),
            Value::Error(error) => format!("ERR {error}").into_bytes(),
            Value::String(text) => [b"ERR ", &text.as_bytes()[..]].concat(),
            other => format!("ERR {}", other.to_string().unwrap_or_default()).into_bytes(),
        };
        self.placed(source, coroutine, line)
    }

    fn placed(&self, source: &Source, coroutine: &Thread, mut text: Vec<u8>) -> Vec<u8> {
        text.extend_from_slice(format!(" script: {}", hexadecimal(&source.sum)).as_bytes());
        if let Ok(Some((name, line))) = line(&self.lua, coroutine, SANDBOX_NAME) {
            text.extend_from_slice(b", on ");
            text.extend_from_slice(&name.as_bytes());
            text.extend_from_slice(format!(":{line}.").as_bytes());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_that_has_no_slots_is_given_up() {
        let interpreter = Interpreter::new().expect("an interpreter");
        let compile = |text: &[u8]| interpreter.function(&Source::parse(text).expect("a script"));
        compile(b"return 1").expect("it compiles");
        compile(b"return return").expect_err("that is no script");
        assert!(interpreter.is_fit(), "a script failed");
        let mut held = Vec::new();
        while let Ok(table) = interpreter.lua.create_table() {
            held.push(table);
        }
        assert!((7000..8000).contains(&held.len()), "{} slots", held.len());
        compile(b"return 1").expect("it was compiled");
        assert!(interpreter.is_fit());
        compile(b"return 2").expect_err("there is no slot for it");
        assert!(!interpreter.is_fit(), "the interpreter failed");
    }
}
