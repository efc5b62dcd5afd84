//! The table `redis` of scripts.

use std::rc::Rc;

use firn_lua::mlua::{self, IntoLuaMulti, Lua, Table, Value};
use firn_lua::{Arguments, Turn, number, steered, text_of};
use firn_protocol::command::{self, Refusal};
use firn_protocol::resp::{OwnedArguments, Protocol};
use sha1::{Digest, Sha1};

use super::convert::{error_line, error_table};
use super::stage::Stage;
use crate::scripts::hexadecimal;

/// The release whose scripts run here unchanged.
const VERSION: &str = "7.0.15";
const VERSION_NUMBER: i64 = 0x0007_000f;

const WRONG_ARGUMENTS: &[u8] = b"ERR wrong number or type of arguments";

/// Bytes of a sum that are gone over at once.
const SUMMED_BYTES: usize = 64 << 10;

type Made = fn(&Lua, &Arguments) -> mlua::Result<Turn>;

/// The table, whose commands run on `stage`.
pub(super) fn redis(lua: &Lua, stage: &Rc<Stage>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, is_raising) in [("call", true), ("pcall", false)] {
        let stage = Rc::clone(stage);
        let call = steered(lua, move |lua, arguments| stage.call(lua, &arguments, is_raising))?;
        table.raw_set(name, call)?;
    }
    let of_stage = Rc::clone(stage);
    table
        .raw_set("setresp", steered(lua, move |lua, arguments| set_protocol(lua, &of_stage, &arguments))?)?;
    let of_stage = Rc::clone(stage);
    table.raw_set(
        "acl_check_cmd",
        steered(lua, move |lua, arguments| acl_check(lua, &of_stage, &arguments))?,
    )?;
    let of_stage = Rc::clone(stage);
    table.raw_set("sha1hex", steered(lua, move |lua, arguments| sha1(lua, &of_stage, &arguments))?)?;
    let functions: [(&str, Made); 7] = [
        ("error_reply", |lua, arguments| reply(lua, "err", arguments)),
        ("status_reply", |lua, arguments| reply(lua, "ok", arguments)),
        ("log", log),
        ("set_repl", set_replication),
        ("replicate_commands", |lua, _| answer(lua, true)),
        ("breakpoint", |lua, _| answer(lua, false)),
        ("debug", |lua, _| answer(lua, ())),
    ];
    for (name, function) in functions {
        let of_stage = Rc::clone(stage);
        let counted = move |lua: &Lua, arguments: Arguments| {
            // Whether the script must end is asked soon enough after the call.
            let _ = of_stage.budget.work(arguments.string_bytes()?);
            function(lua, &arguments)
        };
        table.raw_set(name, steered(lua, counted)?)?;
    }
    let numbers = [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
        ("REDIS_VERSION_NUM", VERSION_NUMBER),
    ];
    for (name, number) in numbers {
        table.raw_set(name, number)?;
    }
    table.raw_set("REDIS_VERSION", VERSION)?;
    Ok(table)
}

fn answer(lua: &Lua, values: impl IntoLuaMulti) -> mlua::Result<Turn> {
    Ok(Turn::Answer(values.into_lua_multi(lua)?))
}

fn raise(lua: &Lua, line: &str) -> mlua::Result<Turn> {
    Ok(Turn::Raise(Value::Table(error_table(lua, line.as_bytes())?)))
}

/// `error_reply`, `status_reply`: a table with the text in one field.
fn reply(lua: &Lua, field: &str, arguments: &Arguments) -> mlua::Result<Turn> {
    let table = lua.create_table_with_capacity(0, 1)?;
    match (arguments.len(), arguments.get(0)?.as_deref()) {
        (1, Some(Value::String(text))) if field == "err" => {
            table.raw_set("err", lua.create_string(error_line(&text.as_bytes()))?)?;
        }
        (1, Some(Value::String(text))) => table.raw_set(field, text)?,
        _ => table.raw_set("err", lua.create_string(WRONG_ARGUMENTS)?)?,
    }
    answer(lua, table)
}

fn sha1(lua: &Lua, stage: &Stage, arguments: &Arguments) -> mlua::Result<Turn> {
    let (1, Some(value)) = (arguments.len(), arguments.get(0)?) else {
        return raise(lua, "ERR wrong number of arguments");
    };
    let mut sum = Sha1::new();
    for piece in text_of(&value).unwrap_or_default().chunks(SUMMED_BYTES) {
        if stage.budget.work(piece.len()).is_err() {
            return raise(lua, "ERR the script must end");
        }
        sum.update(piece);
    }
    answer(lua, hexadecimal(&sum.finalize().into()))
}

/// `log`: there is no log that scripts write to; what is wrong about the call is said.
fn log(lua: &Lua, arguments: &Arguments) -> mlua::Result<Turn> {
    if arguments.len() < 2 {
        return raise(lua, "ERR redis.log() requires two arguments or more.");
    }
    match arguments.get(0)?.as_deref().and_then(number) {
        None => raise(lua, "ERR First argument must be a number (log level)."),
        Some(level) if !(0.0..4.0).contains(&level) => raise(lua, "ERR Invalid debug level."),
        Some(_) => answer(lua, ()),
    }
}

fn set_protocol(lua: &Lua, stage: &Stage, arguments: &Arguments) -> mlua::Result<Turn> {
    if arguments.len() != 1 {
        return raise(lua, "ERR redis.setresp() requires one argument.");
    }
    match arguments.get(0)?.as_deref().and_then(number).map(f64::trunc) {
        Some(2.0) => stage.protocol.set(Protocol::Resp2),
        Some(3.0) => stage.protocol.set(Protocol::Resp3),
        _ => return raise(lua, "ERR RESP version must be 2 or 3."),
    }
    answer(lua, ())
}

/// `set_repl`: what a script writes goes where it goes.
fn set_replication(lua: &Lua, arguments: &Arguments) -> mlua::Result<Turn> {
    if arguments.len() != 1 {
        return raise(lua, "ERR redis.set_repl() requires two arguments.");
    }
    match arguments.get(0)?.as_deref().and_then(number).map_or(0, |flags| flags as i64) {
        0..=3 => answer(lua, ()),
        _ => raise(lua, "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE."),
    }
}

/// `acl_check_cmd`: whether the script's user may run a command.
fn acl_check(lua: &Lua, stage: &Stage, arguments: &Arguments) -> mlua::Result<Turn> {
    if arguments.is_empty() {
        return raise(lua, "ERR Please specify at least one argument for this redis lib call");
    }
    let (mut words, mut all) = (Vec::with_capacity(arguments.len()), true);
    arguments.try_for_each(|argument| {
        match text_of(argument) {
            Some(word) => words.push(word),
            None => all = false,
        }
        Ok::<(), mlua::Error>(())
    })?;
    if !all {
        return raise(lua, "ERR redis.acl_check_cmd() require arguments to be strings or integers");
    }
    let command = match command::resolve(&words) {
        Ok(command) | Err(Refusal::ArgumentCount(command)) => command,
        Err(_) => return raise(lua, "ERR Invalid command passed to redis.acl_check_cmd()"),
    };
    answer(lua, stage.may(command, &OwnedArguments::new(words.iter().map(Vec::as_slice))))
}
