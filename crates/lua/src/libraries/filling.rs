//! Tables that libraries read from texts: filled by many values at once.
//!
//! A reader of nested tables has a frame on the stack for each of them. So the functions that call
//! the interpreter are kept out of that frame.

use mlua::{Lua, MultiValue, Result, Table, Value};

use crate::steered::{PUT_MAX, put_list, put_pairs};

/// A table that is a list.
pub(super) struct List<'l> {
    lua: &'l Lua,
    table: Table,
    /// Values that it has already.
    count: usize,
    waiting: MultiValue,
}

impl<'l> List<'l> {
    #[inline(never)]
    pub(super) fn new(lua: &'l Lua) -> Result<Self> {
        Ok(Self { lua, table: lua.create_table()?, count: 0, waiting: MultiValue::new() })
    }

    /// Adds one value at the end.
    pub(super) fn push(&mut self, value: Value) -> Result<()> {
        self.waiting.push_back(value);
        match self.waiting.len() < PUT_MAX {
            true => Ok(()),
            false => self.put(),
        }
    }

    #[inline(never)]
    fn put(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let first = self.count + 1;
        self.count += waiting.len();
        put_list(self.lua, &self.table, first, waiting)
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
    lua: &'l Lua,
    table: Table,
    waiting: MultiValue,
}

impl<'l> Pairs<'l> {
    #[inline(never)]
    pub(super) fn new(lua: &'l Lua) -> Result<Self> {
        Ok(Self { lua, table: lua.create_table()?, waiting: MultiValue::new() })
    }

    /// Adds a pair, or gives a key another value.
    pub(super) fn push(&mut self, key: Value, value: Value) -> Result<()> {
        self.waiting.push_back(key);
        self.waiting.push_back(value);
        match self.waiting.len() < PUT_MAX {
            true => Ok(()),
            false => self.put(),
        }
    }

    #[inline(never)]
    fn put(&mut self) -> Result<()> {
        put_pairs(self.lua, &self.table, std::mem::take(&mut self.waiting))
    }

    /// The table with all of them.
    #[inline(never)]
    pub(super) fn table(mut self) -> Result<Value> {
        self.put()?;
        Ok(Value::Table(self.table))
    }
}
