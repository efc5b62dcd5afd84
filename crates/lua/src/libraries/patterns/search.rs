//! One call of `find`, `match` or `gsub`, or a walk of `gmatch`.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{IntoLua, IntoLuaMulti, Lua, LuaString, MultiValue, Value};

use super::super::budget::{Budget, Held};
use super::super::library::{Answered, Complaint, text_of, type_name};
use super::super::work::string_bytes;
use super::course::{Course, Kind, Progress, With};
use super::signs;
use crate::steered::{FOUND_MAX, Found, Given, Seek};

/// A search with its texts, while a call of it is under way.
#[derive(Clone)]
pub struct Search {
    texts: Texts,
    pursuit: Rc<Pursuit>,
}

/// What a search is given.
#[derive(Clone)]
pub(super) struct Texts {
    pub(super) text: LuaString,
    pub(super) pattern: LuaString,
    /// What each match is replaced by, if by a text.
    pub(super) with: Option<LuaString>,
}

/// What stays of a search from call to call.
///
/// It holds none of Lua's values: a script keeps as many as it likes, and each value would take one
/// of some 8 000 slots that an interpreter has.
pub(super) struct Pursuit {
    /// Where the pattern ends.
    pattern_len: usize,
    budget: Rc<Budget>,
    state: RefCell<State>,
}

struct State {
    course: Course,
    held: Held,
}

impl From<&'static str> for Complaint {
    fn from(wrong: &'static str) -> Self {
        Complaint(wrong.into())
    }
}

impl Texts {
    pub(super) fn new(text: LuaString, pattern: LuaString) -> Self {
        Self { text, pattern, with: None }
    }
}

impl Search {
    pub(super) fn new(budget: &Rc<Budget>, texts: Texts, at: usize, kind: Kind) -> Self {
        let pursuit = Pursuit::new(budget, &texts.pattern.as_bytes(), at, kind);
        Self { texts, pursuit: Rc::new(pursuit) }
    }

    /// A call goes on with what stayed of a search of the same texts.
    pub(super) fn again(texts: Texts, pursuit: Rc<Pursuit>) -> Self {
        Self { texts, pursuit }
    }

    /// Goes on while there are steps; `None` if that was not enough.
    ///
    /// # Errors
    /// The pattern is wrong, the text that is made too large, or the script must end.
    pub fn answer(&self, lua: &Lua) -> Result<Option<MultiValue>, Complaint> {
        let budget = &self.pursuit.budget;
        let mut steps = budget.steps().get();
        let values = self.pursuit.advance(lua, &self.texts, &mut steps);
        budget.steps().set(steps);
        let Some(values) = values? else { return Ok(None) };
        budget.work(string_bytes(&values))?;
        Ok(Some(values))
    }

    /// What the sandbox has for the last match.
    pub(super) fn put(&self, lua: &Lua, value: &Value) -> Result<(), Complaint> {
        self.pursuit.put(lua, &self.texts.text.as_bytes(), value)
    }
}

impl Pursuit {
    pub(super) fn new(budget: &Rc<Budget>, pattern: &[u8], at: usize, kind: Kind) -> Self {
        let course = Course::new(pattern, at, kind);
        let state = RefCell::new(State { course, held: Held::nothing(budget) });
        Self { pattern_len: signs(pattern).len(), budget: Rc::clone(budget), state }
    }

    fn advance(&self, lua: &Lua, texts: &Texts, steps: &mut u64) -> Result<Option<MultiValue>, Complaint> {
        let State { course, held } = &mut *self.state.borrow_mut();
        let (text, pattern) = (texts.text.as_bytes(), texts.pattern.as_bytes());
        let pattern = &pattern[..self.pattern_len];
        loop {
            let progress = course.advance(&text, pattern, steps)?;
            let with = match (&progress, &texts.with) {
                (Progress::Found(..), Some(with)) => with,
                _ => {
                    held.set(lua, course.machine.memory_bytes() + course.out.capacity())?;
                    return Ok(match progress {
                        Progress::Unfinished => None,
                        Progress::Found(start, end) => Some(found(lua, course, &text, start, end)?),
                        Progress::Ended => Some(ended(lua, course, held, &text)?),
                    });
                }
            };
            course.expand(&text, &with.as_bytes())?;
            *steps = steps.saturating_sub(with.as_bytes().len() as u64);
            held.set(lua, course.out.capacity())?;
        }
    }

    fn put(&self, lua: &Lua, text: &[u8], value: &Value) -> Result<(), Complaint> {
        let State { course, held } = &mut *self.state.borrow_mut();
        match value {
            Value::Nil | Value::Boolean(false) => course.put(text, None),
            Value::String(with) => course.put(text, Some(&with.as_bytes())),
            other => match text_of(other) {
                Some(with) => course.put(text, Some(&with)),
                None => {
                    let kind = type_name(other);
                    return Err(Complaint(format!("invalid replacement value (a {kind})")));
                }
            },
        }
        held.set(lua, course.machine.memory_bytes() + course.out.capacity())
    }

    /// The text with its replacements, and how many those were.
    pub(super) fn replaced(&self, lua: &Lua, text: &[u8]) -> Answered {
        let State { course, held } = &mut *self.state.borrow_mut();
        replaced(lua, course, held, text)
    }
}

impl Seek for Pursuit {
    fn seek(
        &self,
        text: &[u8],
        pattern: &[u8],
        given: Given<'_>,
        parts: &mut [Found; FOUND_MAX],
    ) -> Option<usize> {
        if self.budget.is_look_due() {
            return None;
        }
        let mut state = self.state.try_borrow_mut().ok()?;
        let mut steps = self.budget.steps().get();
        let pattern = pattern.get(..self.pattern_len)?;
        let count = state.course.advance_at_once(text, pattern, given, &mut steps, parts);
        self.budget.steps().set(steps);
        let mut bytes = if let Given::Text(with) = given { with.len() } else { 0 };
        for part in parts.iter().take(count?) {
            bytes += if let Found::Bytes(start, end) = part { end - start } else { 0 };
        }
        self.budget.spend(bytes);
        count
    }
}

/// What a match is answered with.
fn found(lua: &Lua, course: &mut Course, text: &[u8], start: usize, end: usize) -> Answered {
    let mut values = MultiValue::new();
    if matches!(course.kind, Kind::Find) {
        values.push_back(Value::Number((start + 1) as f64));
        values.push_back(Value::Number(end as f64));
    }
    for index in 0..course.capture_count() {
        values.push_back(match course.machine.capture(index, start, end)? {
            Found::Position(at) => Value::Number(at as f64),
            Found::Bytes(start, end) => lua.create_string(&text[start..end])?.into_lua(lua)?,
        });
    }
    if matches!(course.kind, Kind::Walk) {
        course.pass_match(text);
    }
    Ok(values)
}

/// What the end is answered with.
fn ended(lua: &Lua, course: &mut Course, held: &mut Held, text: &[u8]) -> Answered {
    match &course.kind {
        Kind::Replace { with: With::Text, .. } => replaced(lua, course, held, text),
        Kind::Walk | Kind::Replace { .. } => Ok(MultiValue::new()),
        Kind::Find | Kind::Match => Ok(Value::Nil.into_lua_multi(lua)?),
    }
}

fn replaced(lua: &Lua, course: &mut Course, held: &mut Held, text: &[u8]) -> Answered {
    course.copy_to(text, text.len());
    let made = lua.create_string(std::mem::take(&mut course.out))?;
    held.set(lua, 0)?;
    Ok((made, course.count as f64).into_lua_multi(lua)?)
}
