//! Lua's `find`, `match`, `gmatch` and `gsub`, by a matcher that gives turns: see `machine`.
//!
//! What a script calls is in the sandbox, which calls these functions. Replacements by functions of the script are made there
//! too, so that such a function is called by Lua, and may be suspended.
//!
//! ```text
//!   find, match, replace ─► the answer, or a search that is not done ─► advance ─► nothing: it was suspended; again
//!   walk ─► a search                                                       └─────► what was found; nil: nothing more
//! ```

mod class;
mod machine;
mod search;

use std::rc::Rc;

use firn_lua::Turn;
use firn_lua::mlua::{self, AnyUserData, IntoLuaMulti, Lua, MultiValue, Table, Value};

use super::library::{Complaint, add, add_steered, bad_argument, number_at, string_at};
use super::stage::Stage;
use super::work::string_bytes;
use crate::bounds::SCRIPT_BYTES_MAX;
use search::{Kind, Progress, Search};

type Steered = Result<Turn, Complaint>;

/// Signs that make more of a text than itself.
const SPECIAL: &[u8] = b"^$*+?.([%-";

/// What the sandbox makes `find`, `match`, `gmatch`, `gsub` and `rep` of.
pub(super) fn library(lua: &Lua, stage: &Rc<Stage>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let of = Rc::clone(stage);
    add_steered(lua, &table, "find", move |lua, arguments| find(lua, &of, arguments))?;
    let of = Rc::clone(stage);
    add_steered(lua, &table, "match", move |lua, arguments| {
        let (text, pattern) =
            (string_at(lua, arguments, 1, "match")?, string_at(lua, arguments, 2, "match")?);
        let start = start_at(arguments, text.as_bytes().len(), "match")?;
        begin(lua, &of, Search::new(&of, text, pattern, start, Kind::Match))
    })?;
    let of = Rc::clone(stage);
    add_steered(lua, &table, "walk", move |lua, arguments| {
        let (text, pattern) =
            (string_at(lua, arguments, 1, "gmatch")?, string_at(lua, arguments, 2, "gmatch")?);
        let search = Search::new(&of, text, pattern, 0, Kind::Walk);
        Ok(Turn::Answer(lua.create_userdata(search)?.into_lua_multi(lua)?))
    })?;
    let of = Rc::clone(stage);
    add_steered(lua, &table, "replace", move |lua, arguments| replace(lua, &of, arguments))?;
    let of = Rc::clone(stage);
    add_steered(lua, &table, "advance", move |lua, arguments| {
        let search = search_at(arguments)?;
        let mut search = search.borrow_mut::<Search>()?;
        loop {
            if let Some(values) = answer(lua, &mut search, &of)? {
                return Ok(Turn::Answer(values));
            }
            match of.watch(lua)? {
                // It goes on where it cannot be suspended.
                Turn::Answer(_) => {}
                turn => return Ok(turn),
            }
        }
    })?;
    let of = Rc::clone(stage);
    add(lua, &table, "put", move |lua, arguments| {
        let search = search_at(arguments)?;
        of.work(string_bytes(arguments))?;
        search.borrow_mut::<Search>()?.put(lua, arguments.get(1).unwrap_or(&Value::Nil))?;
        Ok(MultiValue::new())
    })?;
    let of = Rc::clone(stage);
    add(lua, &table, "replaced", move |lua, arguments| {
        let values = search_at(arguments)?.borrow_mut::<Search>()?.replaced(lua)?;
        of.work(string_bytes(&values))?;
        Ok(values)
    })?;
    let of = Rc::clone(stage);
    add(lua, &table, "rep", move |lua, arguments| {
        let text = string_at(lua, arguments, 1, "rep")?;
        let count = number_at(arguments, 2, "rep")?.max(0.0) as usize;
        let bytes = text.as_bytes();
        let len = bytes.len().saturating_mul(count);
        if len > SCRIPT_BYTES_MAX {
            return Err(Complaint("resulting string too large".into()));
        }
        // Once here, and once in Lua.
        let _held = of.hold(lua, len * 2)?;
        let many = if bytes.is_empty() { Vec::new() } else { bytes.repeat(count) };
        Ok(lua.create_string(many)?.into_lua_multi(lua)?)
    })?;
    Ok(table)
}

/// `find(text, pattern [, start [, plain]])`
fn find(lua: &Lua, stage: &Rc<Stage>, arguments: &MultiValue) -> Steered {
    let (text, pattern) = (string_at(lua, arguments, 1, "find")?, string_at(lua, arguments, 2, "find")?);
    let start = start_at(arguments, text.as_bytes().len(), "find")?;
    let is_plain = !matches!(arguments.get(3), None | Some(Value::Nil | Value::Boolean(false)))
        || !signs(&pattern.as_bytes()).iter().any(|sign| SPECIAL.contains(sign));
    if !is_plain {
        return begin(lua, stage, Search::new(stage, text, pattern, start, Kind::Find));
    }
    let (bytes, wanted) = (text.as_bytes(), pattern.as_bytes());
    stage.work((bytes.len() - start) / 16)?;
    let found = memchr::memmem::find(&bytes[start..], &wanted);
    let values = match found {
        Some(at) => ((start + at + 1) as f64, (start + at + wanted.len()) as f64).into_lua_multi(lua)?,
        None => Value::Nil.into_lua_multi(lua)?,
    };
    Ok(Turn::Answer(values))
}

/// `gsub(text, pattern, with [, max])`; a replacement that is no text is the sandbox's to make.
fn replace(lua: &Lua, stage: &Rc<Stage>, arguments: &MultiValue) -> Steered {
    let (text, pattern) = (string_at(lua, arguments, 1, "gsub")?, string_at(lua, arguments, 2, "gsub")?);
    let with = match arguments.get(2) {
        Some(Value::String(_) | Value::Integer(_) | Value::Number(_)) => {
            Some(string_at(lua, arguments, 3, "gsub")?)
        }
        Some(Value::Function(_) | Value::Table(_)) => None,
        _ => return Err(bad_argument(3, "gsub", "string/function/table expected")),
    };
    let max = match arguments.get(3) {
        None | Some(Value::Nil) => usize::MAX,
        Some(_) => number_at(arguments, 4, "gsub")?.max(0.0) as usize,
    };
    let is_text = with.is_some();
    let search = Search::new(stage, text, pattern, 0, Kind::Replace { with, max });
    match is_text {
        true => begin(lua, stage, search),
        false => Ok(Turn::Answer(lua.create_userdata(search)?.into_lua_multi(lua)?)),
    }
}

/// The answer if it comes soon, or the search.
fn begin(lua: &Lua, stage: &Stage, mut search: Search) -> Steered {
    let values = match answer(lua, &mut search, stage)? {
        Some(values) => values,
        None => lua.create_userdata(search)?.into_lua_multi(lua)?,
    };
    Ok(Turn::Answer(values))
}

/// Goes on while there are steps; `None` if that was not enough.
fn answer(lua: &Lua, search: &mut Search, stage: &Stage) -> Result<Option<MultiValue>, Complaint> {
    let mut left = stage.steps().get();
    let progress = search.advance(lua, &mut left);
    stage.steps().set(left);
    let values = match progress? {
        Progress::Unfinished => return Ok(None),
        Progress::Found(start, end) => search.found(lua, start, end)?,
        Progress::Ended => search.ended(lua)?,
    };
    stage.work(string_bytes(&values))?;
    Ok(Some(values))
}

fn search_at(arguments: &MultiValue) -> Result<AnyUserData, Complaint> {
    match arguments.front() {
        Some(Value::UserData(search)) => Ok(search.clone()),
        _ => Err(Complaint("a search is needed".into())),
    }
}

/// Where a search begins, counted from 0, that is told where as the third argument.
fn start_at(arguments: &MultiValue, len: usize, function: &str) -> Result<usize, Complaint> {
    let start = match arguments.get(2) {
        None | Some(Value::Nil) => 1.0,
        Some(_) => number_at(arguments, 3, function)?.trunc(),
    };
    let start = if start < 0.0 { start + len as f64 + 1.0 } else { start };
    Ok((start - 1.0).max(0.0).min(len as f64) as usize)
}

/// A pattern ends at its first zero, as in C.
fn signs(pattern: &[u8]) -> &[u8] {
    &pattern[..memchr::memchr(0, pattern).unwrap_or(pattern.len())]
}
