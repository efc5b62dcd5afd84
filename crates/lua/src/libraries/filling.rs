//! Tables that libraries read from texts: filled by many values at once. And many values that a
//! library answers.
//!
//! A reader of nested tables has a frame on the stack for each of them. So the functions that call
//! the interpreter are kept out of that frame. And each has values that wait to be put, which all
//! take slots of the interpreter: see [`Arguments`](crate::Arguments). So they are counted.

use std::cell::Cell;

use mlua::{Lua, MultiValue, Result, Table, Value};

use crate::steered::{PUT_MAX, Turn, put_list, put_pairs};

/// Values that may wait in all tables of one reader; where there are more, each is put at once.
const WAITING_MAX: usize = 512;

/// What all tables of one reader have in common.
pub(super) struct Filling<'l> {
    lua: &'l Lua,
    /// Values that wait in them.
    waiting: Cell<usize>,
}

impl<'l> Filling<'l> {
    pub(super) fn new(lua: &'l Lua) -> Self {
        Self { lua, waiting: Cell::new(0) }
    }

    /// So many more wait, in a table that has `own`: whether that is too many.
    fn wait(&self, more: usize, own: usize) -> bool {
        let waiting = self.waiting.get() + more;
        self.waiting.set(waiting);
        own >= PUT_MAX || waiting > WAITING_MAX
    }

    fn take(&self, values: &mut MultiValue) -> MultiValue {
        self.waiting.set(self.waiting.get().saturating_sub(values.len()));
        std::mem::take(values)
    }
}

/// A table that is a list.
pub(super) struct List<'l> {
    filling: &'l Filling<'l>,
    table: Table,
    /// Values that it has already.
    count: usize,
    waiting: MultiValue,
}

impl<'l> List<'l> {
    #[inline(never)]
    pub(super) fn new(filling: &'l Filling<'l>) -> Result<Self> {
        Ok(Self { filling, table: filling.lua.create_table()?, count: 0, waiting: MultiValue::new() })
    }

    /// Adds one value at the end.
    pub(super) fn push(&mut self, value: Value) -> Result<()> {
        self.waiting.push_back(value);
        match self.filling.wait(1, self.waiting.len()) {
            true => self.put(),
            false => Ok(()),
        }
    }

    #[inline(never)]
    fn put(&mut self) -> Result<()> {
        let waiting = self.filling.take(&mut self.waiting);
        let first = self.count + 1;
        self.count += waiting.len();
        put_list(self.filling.lua, &self.table, first, waiting)
    }

    /// The table with all of them.
    #[inline(never)]
    pub(super) fn table(mut self) -> Result<Value> {
        self.put()?;
        Ok(Value::Table(self.table))
    }
}

/// A table of keys and values.
pub(super) struct Pairs<'l> {
    filling: &'l Filling<'l>,
    table: Table,
    waiting: MultiValue,
}

impl<'l> Pairs<'l> {
    #[inline(never)]
    pub(super) fn new(filling: &'l Filling<'l>) -> Result<Self> {
        Ok(Self { filling, table: filling.lua.create_table()?, waiting: MultiValue::new() })
    }

    /// Adds a pair, or gives a key another value.
    pub(super) fn push(&mut self, key: Value, value: Value) -> Result<()> {
        self.waiting.push_back(key);
        self.waiting.push_back(value);
        match self.filling.wait(2, self.waiting.len()) {
            true => self.put(),
            false => Ok(()),
        }
    }

    #[inline(never)]
    fn put(&mut self) -> Result<()> {
        put_pairs(self.filling.lua, &self.table, self.filling.take(&mut self.waiting))
    }

    /// The table with all of them.
    #[inline(never)]
    pub(super) fn table(mut self) -> Result<Value> {
        self.put()?;
        Ok(Value::Table(self.table))
    }
}

/// What a library answers: in a table where it is much.
pub(super) struct Results<'l> {
    filling: &'l Filling<'l>,
    few: MultiValue,
    many: Option<List<'l>>,
    count: usize,
    /// The last one, which may be taken back.
    last: Option<Value>,
}

impl<'l> Results<'l> {
    pub(super) fn new(filling: &'l Filling<'l>) -> Self {
        Self { filling, few: MultiValue::new(), many: None, count: 0, last: None }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn push(&mut self, value: Value) -> Result<()> {
        self.count += 1;
        match self.last.replace(value) {
            Some(before) => self.keep(before),
            None => Ok(()),
        }
    }

    /// Takes the last one back, if none was since.
    pub(super) fn pop(&mut self) -> Option<Value> {
        let last = self.last.take();
        self.count -= usize::from(last.is_some());
        last
    }

    fn keep(&mut self, value: Value) -> Result<()> {
        if let Some(many) = &mut self.many {
            return many.push(value);
        }
        self.few.push_back(value);
        if self.few.len() >= PUT_MAX {
            let mut many = List::new(self.filling)?;
            std::mem::take(&mut self.few).into_iter().try_for_each(|value| many.push(value))?;
            self.many = Some(many);
        }
        Ok(())
    }

    /// They are answered; `first`, if that is given, in place of the first one.
    pub(super) fn turn(mut self, first: Option<Value>) -> Result<Turn> {
        if let Some(last) = self.last.take() {
            self.keep(last)?;
        }
        let Some(mut many) = self.many else {
            if let (Some(place), Some(first)) = (self.few.front_mut(), first) {
                *place = first;
            }
            return Ok(Turn::Answer(self.few));
        };
        many.put()?;
        if let Some(first) = first {
            many.table.raw_set(1, first)?;
        }
        Ok(Turn::AnswerOf(many.table, many.count))
    }
}
