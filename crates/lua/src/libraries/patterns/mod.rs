//! Lua's `find`, `match`, `gmatch` and `gsub`, by a matcher that gives turns: see `machine`.
//!
//! Scripts call these functions, except `gsub`, which is the sandbox's. Replacements by functions
//! of the script are made there, so that Lua calls such a function and may suspend it.
//!
//! ```text
//!   find, match, replace by a text ─► the answer
//!   walk, replace by others ─► a step: called again and again ─► the next match, if soon, at once
//!   each of them, at the end of a turn ─┬─► it is suspended, and the search goes on between turns
//!                                       └─► Lua cannot suspend it: it goes on, is suspended later
//! ```

mod class;
mod machine;
mod course;
mod search;

use std::rc::Rc;

use mlua::{AnyUserData, IntoLuaMulti, Lua, Table, Value};

use super::budget::Budget;
use super::library::{Answered, Complaint, add, add_steered, bad_argument, number_at, raising, string_at};
use super::work::string_bytes;
use crate::bounds::SCRIPT_BYTES_MAX;
use crate::steered::{Arguments, Kept, Steered, Turn, quick};
use course::{Kind, With};
use search::{Pursuit, Texts};

pub use search::Search;

type Steering = Result<Turn, Complaint>;

/// Signs that make more of a text than itself.
const SPECIAL: &[u8] = b"^$*+?.([%-";

/// What the sandbox makes `find`, `match`, `gmatch`, `gsub` and `rep` of.
pub(super) fn library(lua: &Lua, budget: &Rc<Budget>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let of = Rc::clone(budget);
    add_steered(lua, &table, "find", move |lua, arguments| find(lua, &of, arguments))?;
    let of = Rc::clone(budget);
    add_steered(lua, &table, "match", move |lua, arguments| {
        let texts = texts_at(lua, arguments, 1, "match")?;
        let start = start_at(arguments, texts.text.as_bytes().len(), "match")?;
        go_on(lua, &of, &Search::new(&of, texts, start, Kind::Match))
    })?;
    let of = Rc::clone(budget);
    let slow = Steered::new(lua, raising(move |lua, arguments| step(lua, &of, arguments)))?;
    let (of, slow_walk) = (Rc::clone(budget), slow.clone());
    add(lua, &table, "walk", move |lua, arguments| {
        let Texts { text, pattern, .. } = texts_at(lua, arguments, 1, "gmatch")?;
        let pursuit = Rc::new(Pursuit::new(&of, &pattern.as_bytes(), 0, Kind::Walk));
        Ok(quick(lua, &slow_walk, pursuit, (&text, &pattern), false)?.0.into_lua_multi(lua)?)
    })?;
    let of = Rc::clone(budget);
    add_steered(lua, &table, "replace", move |lua, arguments| replace(lua, &of, &slow, arguments))?;
    let of = Rc::clone(budget);
    add(lua, &table, "replaced", move |lua, arguments| {
        let text = string_at(lua, arguments, 2, "gsub")?;
        let values = pursuit_at(arguments)?.replaced(lua, &text.as_bytes())?;
        of.work(string_bytes(&values))?;
        Ok(values)
    })?;
    let of = Rc::clone(budget);
    add(lua, &table, "rep", move |lua, arguments| repeat(lua, &of, arguments))?;
    Ok(table)
}

/// `rep(text, count)`
fn repeat(lua: &Lua, budget: &Rc<Budget>, arguments: &Arguments) -> Answered {
    let text = string_at(lua, arguments, 1, "rep")?;
    let count = number_at(arguments, 2, "rep")?.max(0.0) as usize;
    let bytes = text.as_bytes();
    let len = bytes.len().saturating_mul(count);
    if len > SCRIPT_BYTES_MAX {
        return Err(Complaint("resulting string too large".into()));
    }
    // Once here, and once in Lua.
    let _held = budget.hold(lua, len * 2)?;
    let many = if bytes.is_empty() { Vec::new() } else { bytes.repeat(count) };
    Ok(lua.create_string(many)?.into_lua_multi(lua)?)
}

/// `find(text, pattern [, start [, plain]])`
fn find(lua: &Lua, budget: &Rc<Budget>, arguments: &Arguments) -> Steering {
    let texts = texts_at(lua, arguments, 1, "find")?;
    let start = start_at(arguments, texts.text.as_bytes().len(), "find")?;
    let is_plain = !matches!(arguments.get(3)?.as_deref(), None | Some(Value::Nil | Value::Boolean(false)))
        || !signs(&texts.pattern.as_bytes()).iter().any(|sign| SPECIAL.contains(sign));
    if !is_plain {
        return go_on(lua, budget, &Search::new(budget, texts, start, Kind::Find));
    }
    let (bytes, wanted) = (texts.text.as_bytes(), texts.pattern.as_bytes());
    budget.work((bytes.len() - start) / 16)?;
    let found = memchr::memmem::find(&bytes[start..], &wanted);
    let values = match found {
        Some(at) => ((start + at + 1) as f64, (start + at + wanted.len()) as f64).into_lua_multi(lua)?,
        None => Value::Nil.into_lua_multi(lua)?,
    };
    Ok(Turn::Answer(values))
}

/// `gsub(text, pattern, with [, max])`. For a replacement that is no text: the step that is given
/// the replacement of the last match, and the search that it steps through.
fn replace(lua: &Lua, budget: &Rc<Budget>, slow: &Steered, arguments: &Arguments) -> Steering {
    let mut texts = texts_at(lua, arguments, 1, "gsub")?;
    let with = match arguments.get(2)?.as_deref() {
        Some(Value::String(_) | Value::Integer(_) | Value::Number(_)) => {
            texts.with = Some(string_at(lua, arguments, 3, "gsub")?);
            With::Text
        }
        Some(Value::Function(_)) => With::Captures,
        Some(Value::Table(_)) => With::FirstCapture,
        _ => return Err(bad_argument(3, "gsub", "string/function/table expected")),
    };
    let max = match arguments.get(3)?.as_deref() {
        None | Some(Value::Nil) => usize::MAX,
        Some(_) => number_at(arguments, 4, "gsub")?.max(0.0) as usize,
    };
    let kind = Kind::Replace { with, max };
    if texts.with.is_some() {
        return go_on(lua, budget, &Search::new(budget, texts, 0, kind));
    }
    let Texts { text, pattern, .. } = texts;
    let pursuit = Rc::new(Pursuit::new(budget, &pattern.as_bytes(), 0, kind));
    let step = quick(lua, slow, pursuit, (&text, &pattern), true)?;
    Ok(Turn::Answer(step.into_lua_multi(lua)?))
}

/// One step of a search, where that is not done at once: it is given what stayed of the search, the
/// text, the pattern, and what is put for the last match.
fn step(lua: &Lua, budget: &Rc<Budget>, arguments: &Arguments) -> Steering {
    let search = Search::again(texts_at(lua, arguments, 2, "step")?, pursuit_at(arguments)?);
    if let Some(value) = arguments.get(3)? {
        budget.work(value.as_string().map_or(0, |with| with.as_bytes().len()))?;
        search.put(lua, &value)?;
    }
    go_on(lua, budget, &search)
}

/// Goes on to what the search answers, or is suspended meanwhile.
fn go_on(lua: &Lua, budget: &Budget, search: &Search) -> Steering {
    loop {
        if let Some(values) = search.answer(lua)? {
            return Ok(Turn::Answer(values));
        }
        match budget.rest_in(lua, search)? {
            // It goes on where it cannot be suspended.
            Turn::Answer(_) => {}
            turn => return Ok(turn),
        }
    }
}

fn pursuit_at(arguments: &Arguments) -> Result<Rc<Pursuit>, Complaint> {
    match arguments.get(0)?.as_deref() {
        Some(Value::UserData(kept)) => Ok(AnyUserData::borrow::<Kept<Pursuit>>(kept)?.get()),
        _ => Err(Complaint("a search is needed".into())),
    }
}

/// A text and a pattern, of which the text is the argument `index`, counted from 1.
fn texts_at(lua: &Lua, arguments: &Arguments, index: usize, function: &str) -> Result<Texts, Complaint> {
    let (text, pattern) =
        (string_at(lua, arguments, index, function)?, string_at(lua, arguments, index + 1, function)?);
    Ok(Texts::new(text, pattern))
}

/// Where a search begins, counted from 0, that is told where as the third argument.
fn start_at(arguments: &Arguments, len: usize, function: &str) -> Result<usize, Complaint> {
    let start = match arguments.get(2)?.as_deref() {
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

#[cfg(test)]
mod tests;
