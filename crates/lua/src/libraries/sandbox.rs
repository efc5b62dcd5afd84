//! The globals of scripts: the libraries, behind tables that no script can change.

use std::ffi::CStr;
use std::rc::Rc;

use mlua::{Function, IntoLuaMulti, Lua, Table};

use super::budget::Budget;
use super::{bits, json, msgpack, patterns, random, structs, work};
use crate::bounds::UNPACKED_MAX;
use crate::steered::{Turn, resuming, steered};

/// What is around scripts, and stands in no error.
pub const SANDBOX_NAME: &CStr = c"=sandbox";

/// What the scripts of one interpreter have as globals.
pub struct Sandbox {
    environment: Table,
    globals: Table,
    /// Called before each script.
    begin: Function,
    /// What a script may set, and is set again for the next one.
    options: Rc<json::Options>,
    generator: Rc<random::Generator>,
}

impl Sandbox {
    /// The libraries for the scripts of `lua`, and beside them those of the host, by their names.
    ///
    /// # Errors
    /// What the interpreter says: it has too little memory.
    pub fn new(lua: &Lua, budget: &Rc<Budget>, libraries: Table) -> mlua::Result<Self> {
        work::measure(lua)?;
        let options = Rc::new(json::Options::new());
        libraries.raw_set("cjson", json::library(lua, budget, &options)?)?;
        libraries.raw_set("cmsgpack", msgpack::library(lua, budget)?)?;
        libraries.raw_set("struct", structs::library(lua, budget)?)?;
        libraries.raw_set("bit", bits::library(lua)?)?;
        let generator = Rc::new(random::Generator::default());
        libraries.raw_set("math", random::library(lua, &generator)?)?;
        let of = Rc::clone(budget);
        let is_suspending =
            lua.create_function(move |_, ()| Ok(of.host().is_some_and(|host| host.is_suspended())))?;
        let of = Rc::clone(budget);
        // It is asked wherever an error is caught, and steered so that the turn is looked at there:
        // the bytes that a call which failed has gone over ended with the coroutine that it was in.
        let is_over = steered(lua, move |lua, _| {
            Ok(Turn::Answer(of.host().is_some_and(|host| host.is_over()).into_lua_multi(lua)?))
        })?;
        let of = Rc::clone(budget);
        let is_deep = lua.create_function(move |_, ()| Ok(of.is_deep()))?;
        let patterns = patterns::library(lua, budget)?;
        let resume: Function = lua.globals().raw_get::<Table>("coroutine")?.raw_get("resume")?;
        let resume = resuming(lua, &resume)?;
        let sandbox = lua.load(include_str!("sandbox.lua")).set_name(SANDBOX_NAME.to_string_lossy());
        let (environment, globals, begin) =
            sandbox.call((is_suspending, is_over, is_deep, resume, libraries, patterns, UNPACKED_MAX))?;
        Ok(Self { environment, globals, begin, options, generator })
    }

    /// What scripts have as globals.
    pub fn environment(&self) -> &Table {
        &self.environment
    }

    /// Sets a global that the next script reads.
    ///
    /// # Errors
    /// What the interpreter says.
    pub fn set(&self, name: &str, value: Table) -> mlua::Result<()> {
        self.globals.raw_set(name, value)
    }

    /// A script begins: everything is as the first one found it.
    ///
    /// # Errors
    /// What the interpreter says.
    pub fn begin(&self) -> mlua::Result<()> {
        self.options.reset();
        self.generator.seed(0);
        self.begin.call(())
    }
}
