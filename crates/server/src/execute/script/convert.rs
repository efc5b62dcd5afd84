//! Values of the protocol as scripts have them, and back.

use firn_lua::Cost;
use firn_lua::mlua::{Error, Lua, Result, Table, Value};
use firn_protocol::resp::{self, Protocol, Reply};

use crate::bounds::ANSWER_DEPTH_MAX;

/// A reply as a script gets it that speaks `protocol`.
pub(super) fn to_lua(lua: &Lua, reply: resp::Value, protocol: Protocol) -> Result<Value> {
    Ok(match reply {
        resp::Value::Simple(text) => tagged(lua, "ok", string(lua, text)?)?,
        resp::Value::Error(line) => Value::Table(error_table(lua, line.as_bytes())?),
        resp::Value::Integer(number) => Value::Number(number as f64),
        resp::Value::Bulk(bytes) => string(lua, bytes)?,
        resp::Value::Null if protocol == Protocol::Resp2 => Value::Boolean(false),
        resp::Value::Null => Value::Nil,
        resp::Value::Boolean(yes) => Value::Boolean(yes),
        resp::Value::Double(number) => tagged(lua, "double", Value::Number(number))?,
        resp::Value::BigNumber(digits) => tagged(lua, "big_number", string(lua, digits)?)?,
        resp::Value::Verbatim(text) => {
            let parts = lua.create_table()?;
            parts.raw_set("format", "txt")?;
            parts.raw_set("string", string(lua, text)?)?;
            tagged(lua, "verbatim_string", Value::Table(parts))?
        }
        resp::Value::Array(values) | resp::Value::Push(values) => {
            let table = lua.create_table_with_capacity(values.len(), 0)?;
            for (index, value) in values.into_iter().enumerate() {
                table.raw_set(index + 1, to_lua(lua, value, protocol)?)?;
            }
            Value::Table(table)
        }
        resp::Value::Set(values) => {
            let table = lua.create_table_with_capacity(0, values.len())?;
            for value in values {
                put(&table, to_lua(lua, value, protocol)?, Value::Boolean(true))?;
            }
            tagged(lua, "set", Value::Table(table))?
        }
        resp::Value::Map(pairs) => {
            let table = lua.create_table_with_capacity(0, pairs.len())?;
            for (key, value) in pairs {
                put(&table, to_lua(lua, key, protocol)?, to_lua(lua, value, protocol)?)?;
            }
            tagged(lua, "map", Value::Table(table))?
        }
    })
}

fn put(table: &Table, key: Value, value: Value) -> Result<()> {
    if key.is_nil() || matches!(key, Value::Number(number) if number.is_nan()) {
        return Ok(());
    }
    table.raw_set(key, value)
}

fn string(lua: &Lua, bytes: impl AsRef<[u8]>) -> Result<Value> {
    lua.create_string(bytes).map(Value::String)
}

fn tagged(lua: &Lua, tag: &str, value: Value) -> Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(tag, value)?;
    Ok(Value::Table(table))
}

/// A table that stands for the error `line`.
pub(super) fn error_table(lua: &Lua, line: &[u8]) -> Result<Table> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", lua.create_string(line)?)?;
    table.raw_set("ignore_error_stats_update", true)?;
    Ok(table)
}

/// The line of an error that a script makes: without a word for its kind it gets one.
pub(super) fn error_line(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    match text.contains(&b' ') {
        true => text.to_vec(),
        false => [b"ERR ", text].concat(),
    }
}

/// What a script answers, as its client gets it.
pub(super) struct Answer<'a, 'r> {
    pub(super) reply: &'a mut Reply<'r>,
    /// What the script speaks, which says what booleans are.
    pub(super) protocol: Protocol,
    pub(super) cost: Cost<'a>,
}

impl Answer<'_, '_> {
    /// Writes one value. Metatables play no part.
    pub(super) fn write(&mut self, value: &Value, depth: usize) -> Result<()> {
        if self.cost.check(value).is_err() {
            return Err(Error::runtime("the reply of the script is too long"));
        }
        if depth > ANSWER_DEPTH_MAX {
            self.reply.error("ERR reached lua stack limit");
            return Ok(());
        }
        match value {
            Value::String(text) => self.reply.bulk(&text.as_bytes()),
            Value::Integer(number) => self.reply.integer(*number),
            Value::Number(number) => self.reply.integer(truncated(*number)),
            Value::Boolean(yes) if self.protocol == Protocol::Resp3 => self.reply.boolean(*yes),
            Value::Boolean(true) => self.reply.integer(1),
            Value::Table(table) => return self.table(table, depth),
            _ => self.reply.null(),
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<()> {
        if let Value::String(text) = table.raw_get("err")? {
            self.reply.error(&text.to_string_lossy());
            return Ok(());
        }
        if let Value::String(text) = table.raw_get("ok")? {
            self.reply.simple(&text.to_string_lossy());
            return Ok(());
        }
        match table.raw_get("double")? {
            Value::Number(number) => {
                self.reply.double(number);
                return Ok(());
            }
            Value::Integer(number) => {
                self.reply.double(number as f64);
                return Ok(());
            }
            _ => {}
        }
        if let Value::Table(map) = table.raw_get("map")? {
            let (mark, mut count) = (self.reply.mark(), 0);
            map.for_each(|key: Value, value: Value| {
                count += 1;
                self.write(&key, depth + 1)?;
                self.write(&value, depth + 1)
            })?;
            self.reply.finish_map(mark, count);
            return Ok(());
        }
        if let Value::Table(set) = table.raw_get("set")? {
            let (mark, mut count) = (self.reply.mark(), 0);
            set.for_each(|key: Value, _: Value| {
                count += 1;
                self.write(&key, depth + 1)
            })?;
            self.reply.finish_set(mark, count);
            return Ok(());
        }
        if let Value::String(digits) = table.raw_get("big_number")? {
            self.big_number(&digits.as_bytes());
            return Ok(());
        }
        if let Value::Table(parts) = table.raw_get("verbatim_string")?
            && let (Value::String(kind), Value::String(text)) =
                (parts.raw_get("format")?, parts.raw_get("string")?)
            && let Ok(kind) = <&[u8; 3]>::try_from(&*kind.as_bytes())
        {
            self.reply.verbatim(kind, &text.as_bytes());
            return Ok(());
        }
        let (mark, mut count) = (self.reply.mark(), 0);
        loop {
            let value: Value = table.raw_get(count + 1)?;
            if value.is_nil() {
                break;
            }
            self.write(&value, depth + 1)?;
            count += 1;
        }
        self.reply.finish_array(mark, count);
        Ok(())
    }

    fn big_number(&mut self, digits: &[u8]) {
        match self.reply.protocol() {
            Protocol::Resp2 => self.reply.bulk(digits),
            Protocol::Resp3 => {
                let line: Vec<u8> =
                    digits.iter().map(|b| if matches!(b, b'\r' | b'\n') { b' ' } else { *b }).collect();
                self.reply.raw(&[b"(", &line[..], b"\r\n"].concat());
            }
        }
    }
}

/// A number without its fraction; the lowest there is for what no integer can hold.
fn truncated(number: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&number) { number as i64 } else { i64::MIN }
}
