//! What the libraries of scripts are made of: functions whose errors say where they were called.

use std::borrow::Cow;

use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};

use super::budget::Budget;
use crate::steered::{Arguments, Turn, steered};

/// What is wrong with a call, without the place.
#[derive(Debug)]
pub struct Complaint(pub String);

impl From<mlua::Error> for Complaint {
    fn from(error: mlua::Error) -> Self {
        Complaint(error.to_string())
    }
}

pub(crate) type Answered = Result<MultiValue, Complaint>;

/// Adds the function `name` to `table`; what it complains of is raised with the caller's place
/// before it.
pub(super) fn add(
    lua: &Lua,
    table: &Table,
    name: &str,
    function: impl Fn(&Lua, &Arguments) -> Answered + 'static,
) -> mlua::Result<()> {
    add_steered(lua, table, name, move |lua, arguments| Ok(Turn::Answer(function(lua, arguments)?)))
}

/// The same for a function that may also suspend its caller.
pub(super) fn add_steered(
    lua: &Lua,
    table: &Table,
    name: &str,
    function: impl Fn(&Lua, &Arguments) -> Result<Turn, Complaint> + 'static,
) -> mlua::Result<()> {
    let function: Function = steered(lua, raising(function))?;
    table.raw_set(name, function)
}

/// `function`, but what it complains of is raised with the caller's place before it.
pub(super) fn raising(
    function: impl Fn(&Lua, &Arguments) -> Result<Turn, Complaint> + 'static,
) -> impl Fn(&Lua, Arguments) -> mlua::Result<Turn> + 'static {
    move |lua, arguments| match function(lua, &arguments) {
        Ok(turn) => Ok(turn),
        Err(Complaint(text)) => Ok(Turn::Raise(Value::String(lua.create_string(placed(lua, &text))?))),
    }
}

/// Calls between a function and the script's line that it was called from: those of the sandbox.
const LEVELS_MAX: usize = 8;

fn placed(lua: &Lua, text: &str) -> String {
    for level in 2..2 + LEVELS_MAX {
        let place = lua.inspect_stack(level, |debug| {
            let source = debug.source().short_src.unwrap_or_default().into_owned();
            (source, debug.current_line())
        });
        match place {
            Some((source, Some(line))) if source != SANDBOX => return format!("{source}:{line}: {text}"),
            // A function that was called in place of another's answer has none.
            Some((source, _)) if source == SANDBOX || source.contains("tail call") => {}
            _ => break,
        }
    }
    text.to_owned()
}

/// What the sandbox's functions are called in errors.
const SANDBOX: &str = "sandbox";

const TABLE_COST: usize = 256;
const SCALAR_COST: usize = 32;

/// How much may still be made of a value: bytes of strings, and a count of everything else. A table
/// that lies at many places is written at each of them. So a small one can stand for more than
/// there is memory, or time.
pub struct Cost<'b> {
    left: usize,
    budget: &'b Budget,
}

impl<'b> Cost<'b> {
    /// As much may be made as the script may still hold; it is copied once at its end.
    pub fn of(budget: &'b Budget, lua: &Lua) -> Self {
        Self { left: budget.room(lua) / 2, budget }
    }

    /// Counts one more value.
    ///
    /// # Errors
    /// It is too much, or the script must end.
    pub fn check(&mut self, value: &Value) -> Result<(), Complaint> {
        let cost = match value {
            Value::Table(_) => TABLE_COST,
            Value::String(text) => SCALAR_COST + text.as_bytes().len(),
            _ => SCALAR_COST,
        };
        self.spend(cost)
    }

    /// Counts so many more bytes.
    ///
    /// # Errors
    /// They are too many, or the script must end.
    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), Complaint> {
        let is_left = bytes <= self.left;
        self.left = self.left.saturating_sub(bytes);
        match is_left {
            true => self.budget.work(bytes),
            false => Err(Complaint("the result is too long".into())),
        }
    }
}

/// What is said of the argument at `index`, counted from 1, of `function`.
pub(super) fn bad_argument(index: usize, function: &str, why: &str) -> Complaint {
    Complaint(format!("bad argument #{index} to '{function}' ({why})"))
}

/// The argument at `index`, counted from 1, as a number.
pub(super) fn number_at(arguments: &Arguments, index: usize, function: &str) -> Result<f64, Complaint> {
    let argument = arguments.get(index - 1)?;
    let found = argument.as_deref().and_then(number);
    found.ok_or_else(|| expected(argument.as_deref(), index, function, "number"))
}

/// The argument at `index`, counted from 1, as a string of Lua's, not copied if it is one.
pub(super) fn string_at(
    lua: &Lua,
    arguments: &Arguments,
    index: usize,
    function: &str,
) -> Result<LuaString, Complaint> {
    match arguments.get(index - 1)? {
        Some(Cow::Owned(Value::String(text))) => Ok(text),
        Some(Cow::Borrowed(Value::String(text))) => Ok(text.clone()),
        Some(number) if matches!(*number, Value::Integer(_) | Value::Number(_)) => {
            Ok(lua.create_string(number.to_string()?)?)
        }
        other => Err(expected(other.as_deref(), index, function, "string")),
    }
}

fn expected(argument: Option<&Value>, index: usize, function: &str, what: &str) -> Complaint {
    let found = argument.map_or("no value", type_name);
    bad_argument(index, function, &format!("{what} expected, got {found}"))
}

/// The type of a value as Lua names it.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) | Value::Number(_) => "number",
        Value::LightUserData(_) => "userdata",
        other => other.type_name(),
    }
}

/// A string's bytes, or a number as Lua writes it.
pub fn text_of(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(_) | Value::Number(_) => Some(value.to_string().ok()?.into_bytes()),
        _ => None,
    }
}

/// A number, or a string that is one.
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        Value::String(text) => text.to_str().ok()?.trim().parse().ok(),
        _ => None,
    }
}
