//! What the libraries of scripts are made of: functions whose errors say where they were called.

use firn_lua::mlua::{self, Function, Lua, MultiValue, Table, Value};
use firn_lua::{Turn, steered};

use super::api::number;

/// What is wrong with a call, without the place.
pub(super) struct Complaint(pub(super) String);

impl From<mlua::Error> for Complaint {
    fn from(error: mlua::Error) -> Self {
        Complaint(error.to_string())
    }
}

pub(super) type Answered = Result<MultiValue, Complaint>;

/// Adds the function `name` to `table`; what it complains of is raised with the caller's place before it.
pub(super) fn add(
    lua: &Lua,
    table: &Table,
    name: &str,
    function: impl Fn(&Lua, &MultiValue) -> Answered + 'static,
) -> mlua::Result<()> {
    let function: Function = steered(lua, move |lua, arguments| {
        Ok(match function(lua, &arguments) {
            Ok(values) => Turn::Answer(values),
            Err(Complaint(text)) => Turn::Raise(Value::String(lua.create_string(placed(lua, &text))?)),
        })
    })?;
    table.raw_set(name, function)
}

fn placed(lua: &Lua, text: &str) -> String {
    let place = lua.inspect_stack(2, |debug| {
        let line = debug.current_line()?;
        Some(format!("{}:{line}: ", debug.source().short_src.unwrap_or_default()))
    });
    format!("{}{text}", place.flatten().unwrap_or_default())
}

/// What may be made of one value of a script's: bytes of strings, and for everything else so many.
const COST_MAX: usize = 256 << 20;
const TABLE_COST: usize = 256;
const SCALAR_COST: usize = 32;

/// How much was made of a value so far. A table that lies at many places is written at each of them, so that a small one can
/// stand for more than there is memory, or time.
#[derive(Default)]
pub(super) struct Cost(usize);

impl Cost {
    /// Counts one more value; `false` once it is too much.
    pub(super) fn add(&mut self, value: &Value) -> bool {
        self.0 += match value {
            Value::Table(_) => TABLE_COST,
            Value::String(text) => SCALAR_COST + text.as_bytes().len(),
            _ => SCALAR_COST,
        };
        self.0 <= COST_MAX
    }

    /// The same, with a complaint.
    pub(super) fn check(&mut self, value: &Value) -> Result<(), Complaint> {
        self.add(value).then_some(()).ok_or_else(|| Complaint("the result is too long".into()))
    }
}

/// What is said of the argument at `index`, counted from 1, of `function`.
pub(super) fn bad_argument(index: usize, function: &str, why: &str) -> Complaint {
    Complaint(format!("bad argument #{index} to '{function}' ({why})"))
}

/// The argument at `index`, counted from 1, as a number.
pub(super) fn number_at(arguments: &MultiValue, index: usize, function: &str) -> Result<f64, Complaint> {
    arguments.get(index - 1).and_then(number).ok_or_else(|| expected(arguments, index, function, "number"))
}

/// The argument at `index`, counted from 1, as a string.
pub(super) fn text_at(arguments: &MultiValue, index: usize, function: &str) -> Result<Vec<u8>, Complaint> {
    let text = arguments.get(index - 1).and_then(super::convert::text_of);
    text.ok_or_else(|| expected(arguments, index, function, "string"))
}

fn expected(arguments: &MultiValue, index: usize, function: &str, what: &str) -> Complaint {
    let found = arguments.get(index - 1).map_or("no value", type_name);
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
