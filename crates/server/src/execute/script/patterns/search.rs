//! One call of `find`, `match` or `gsub`, or a walk of `gmatch`.

use std::rc::Rc;

use firn_lua::mlua::{IntoLua, IntoLuaMulti, Lua, LuaString, MultiValue, UserData, Value};

use super::super::budget::Held;
use super::super::convert::text_of;
use super::super::library::{Answered, Complaint, type_name};
use super::super::stage::Stage;
use super::machine::{Captured, Machine, Outcome};
use super::signs;

/// What is sought, and what for.
pub(super) enum Kind {
    /// Where it is, and its captures.
    Find,
    /// Its captures.
    Match,
    /// The captures of one after the other.
    Walk,
    /// To be replaced by a text, or by what the sandbox puts; so often at most.
    Replace { with: Option<LuaString>, max: usize },
}

/// How far a search has come.
pub(super) enum Progress {
    /// There is more to try.
    Unfinished,
    /// It was found from here to there.
    Found(usize, usize),
    /// It is not there, or not any more.
    Ended,
}

/// A search, which is not at its end when it is kept.
pub(super) struct Search {
    text: LuaString,
    pattern: LuaString,
    /// Where the pattern begins after a sign that ties it to the start.
    first: usize,
    is_anchored: bool,
    kind: Kind,
    machine: Machine,
    /// Where the next match is tried.
    at: usize,
    /// A match at `at` is under way.
    is_within: bool,
    is_over: bool,
    /// What a replacement has made so far, of the text before `copied`.
    out: Vec<u8>,
    copied: usize,
    count: usize,
    /// The last match, which waits for what is put for it.
    last: (usize, usize),
    held: Held,
}

impl UserData for Search {}

impl From<&'static str> for Complaint {
    fn from(wrong: &'static str) -> Self {
        Complaint(wrong.into())
    }
}

impl Search {
    pub(super) fn new(stage: &Rc<Stage>, text: LuaString, pattern: LuaString, at: usize, kind: Kind) -> Self {
        let is_anchored = !matches!(kind, Kind::Walk) && pattern.as_bytes().first() == Some(&b'^');
        Self {
            text,
            pattern,
            first: usize::from(is_anchored),
            is_anchored,
            kind,
            machine: Machine::default(),
            at,
            is_within: false,
            is_over: false,
            out: Vec::new(),
            copied: 0,
            count: 0,
            last: (0, 0),
            held: Held::nothing(stage),
        }
    }

    /// Goes on for so many steps, to the next match that somebody has to see.
    pub(super) fn advance(&mut self, lua: &Lua, steps: &mut u64) -> Result<Progress, Complaint> {
        loop {
            if matches!(self.kind, Kind::Replace { max, .. } if self.count >= max) {
                self.is_over = true;
            }
            if self.is_over {
                return Ok(Progress::Ended);
            }
            let (start, end) = match self.seek(steps)? {
                Progress::Found(start, end) => (start, end),
                other => {
                    self.held.set(lua, self.machine.memory_bytes() + self.out.capacity())?;
                    self.is_over = matches!(other, Progress::Ended);
                    return Ok(other);
                }
            };
            self.last = (start, end);
            let with = match &self.kind {
                Kind::Replace { with: Some(with), .. } => with.clone(),
                _ => return Ok(Progress::Found(start, end)),
            };
            self.copy_to(start);
            self.expand(&with.as_bytes())?;
            *steps = steps.saturating_sub(with.as_bytes().len() as u64);
            self.pass_match();
            self.held.set(lua, self.out.capacity())?;
        }
    }

    fn seek(&mut self, steps: &mut u64) -> Result<Progress, Complaint> {
        let (text, pattern) = (self.text.as_bytes(), self.pattern.as_bytes());
        let pattern = signs(&pattern);
        loop {
            if !self.is_within {
                self.machine.begin(self.at, self.first);
                self.is_within = true;
            }
            match self.machine.run(&text, pattern, steps)? {
                Outcome::Unfinished => return Ok(Progress::Unfinished),
                Outcome::Matched(end) => {
                    self.is_within = false;
                    return Ok(Progress::Found(self.at, end));
                }
                Outcome::Failed => {
                    self.is_within = false;
                    if self.is_anchored || self.at >= text.len() {
                        return Ok(Progress::Ended);
                    }
                    self.at += 1;
                }
            }
        }
    }

    /// The next match is tried behind the last one, and one byte further if that was empty.
    fn pass_match(&mut self) {
        let (start, end) = self.last;
        self.count += 1;
        self.copied = end;
        if end > start {
            self.at = end;
        } else {
            self.at = start + 1;
            self.is_over = start >= self.text.as_bytes().len();
        }
        self.is_over |= self.is_anchored;
    }

    fn copy_to(&mut self, end: usize) {
        self.out.extend_from_slice(&self.text.as_bytes()[self.copied..end]);
        self.copied = end;
    }

    /// Adds a replacement, in which `%` and a digit stand for a capture.
    fn expand(&mut self, with: &[u8]) -> Result<(), Complaint> {
        let (start, end) = self.last;
        let mut signs = with.iter().copied();
        while let Some(sign) = signs.next() {
            if sign != b'%' {
                self.out.push(sign);
                continue;
            }
            let sign = signs.next().unwrap_or(0);
            match sign {
                b'0' => self.out.extend_from_slice(&self.text.as_bytes()[start..end]),
                b'1'..=b'9' => match self.machine.capture(usize::from(sign - b'1'), start, end)? {
                    Captured::Bytes(start, end) => {
                        self.out.extend_from_slice(&self.text.as_bytes()[start..end])
                    }
                    Captured::Position(at) => self.out.extend_from_slice(at.to_string().as_bytes()),
                },
                other => self.out.push(other),
            }
        }
        Ok(())
    }

    /// What the sandbox has for the last match.
    pub(super) fn put(&mut self, lua: &Lua, value: &Value) -> Result<(), Complaint> {
        let (start, end) = self.last;
        self.copy_to(start);
        match value {
            Value::Nil | Value::Boolean(false) => self.copy_to(end),
            Value::String(text) => self.out.extend_from_slice(&text.as_bytes()),
            other => match text_of(other) {
                Some(text) => self.out.extend_from_slice(&text),
                None => {
                    let kind = type_name(other);
                    return Err(Complaint(format!("invalid replacement value (a {kind})")));
                }
            },
        }
        self.pass_match();
        self.held.set(lua, self.machine.memory_bytes() + self.out.capacity())
    }

    /// What a match is answered with.
    pub(super) fn found(&mut self, lua: &Lua, start: usize, end: usize) -> Answered {
        let mut values = MultiValue::new();
        let mut count = self.machine.captures();
        match self.kind {
            Kind::Find => {
                values.push_back(Value::Number((start + 1) as f64));
                values.push_back(Value::Number(end as f64));
            }
            Kind::Match | Kind::Walk | Kind::Replace { .. } => count = count.max(1),
        }
        let text = self.text.as_bytes();
        for index in 0..count {
            values.push_back(match self.machine.capture(index, start, end)? {
                Captured::Position(at) => Value::Number(at as f64),
                Captured::Bytes(start, end) => lua.create_string(&text[start..end])?.into_lua(lua)?,
            });
        }
        drop(text);
        if matches!(self.kind, Kind::Walk) {
            self.pass_match();
        }
        Ok(values)
    }

    /// What the end is answered with.
    pub(super) fn ended(&mut self, lua: &Lua) -> Answered {
        match &self.kind {
            Kind::Replace { with: Some(_), .. } => self.replaced(lua),
            _ => Ok(Value::Nil.into_lua_multi(lua)?),
        }
    }

    /// The text with its replacements, and how many those were.
    pub(super) fn replaced(&mut self, lua: &Lua) -> Answered {
        let end = self.text.as_bytes().len();
        self.copy_to(end);
        let text = lua.create_string(std::mem::take(&mut self.out))?;
        self.held.set(lua, 0)?;
        Ok((text, self.count as f64).into_lua_multi(lua)?)
    }
}
