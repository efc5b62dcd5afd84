//! The library `cmsgpack`.

use std::rc::Rc;

use mlua::{IntoLuaMulti, Lua, Table, Value};

use super::budget::Budget;
use super::filling::{Filling, List, Pairs, Results};
use super::library::{Answered, Complaint, Cost, add, add_steered, bad_argument, number_at, string_at};
use super::work::STEP_BYTES;
use crate::bounds::{MSGPACK_READ_DEPTH_MAX, MSGPACK_WRITTEN_DEPTH_MAX, RESULTS_MAX};
use crate::steered::{Arguments, Turn};

/// The library.
pub(super) fn library(lua: &Lua, budget: &Rc<Budget>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    let at = Rc::clone(budget);
    add(lua, &table, "pack", move |lua, arguments| pack(lua, &at, arguments))?;
    let at = Rc::clone(budget);
    add_steered(lua, &table, "unpack", move |lua, arguments| {
        let text = string_at(lua, arguments, 1, "unpack")?;
        let filling = &Filling::new(lua);
        unpack(Reader { filling, lua, budget: &at, text: &text.as_bytes(), at: 0 }, usize::MAX, false)
    })?;
    let at = Rc::clone(budget);
    add_steered(lua, &table, "unpack_one", move |lua, arguments| {
        let text = string_at(lua, arguments, 1, "unpack_one")?;
        let offset = offset_at(arguments, 2, "unpack_one")?;
        let filling = &Filling::new(lua);
        unpack(Reader { filling, lua, budget: &at, text: &text.as_bytes(), at: offset }, 1, true)
    })?;
    let at = Rc::clone(budget);
    add_steered(lua, &table, "unpack_limit", move |lua, arguments| {
        let text = string_at(lua, arguments, 1, "unpack_limit")?;
        let limit = number_at(arguments, 2, "unpack_limit")?.max(0.0) as usize;
        let offset = offset_at(arguments, 3, "unpack_limit")?;
        let filling = &Filling::new(lua);
        unpack(Reader { filling, lua, budget: &at, text: &text.as_bytes(), at: offset }, limit, true)
    })?;
    Ok(table)
}

fn offset_at(arguments: &Arguments, index: usize, function: &str) -> Result<usize, Complaint> {
    match arguments.get(index - 1)?.as_deref() {
        None | Some(Value::Nil) => Ok(0),
        Some(_) => Ok(number_at(arguments, index, function)?.max(0.0) as usize),
    }
}

fn pack(lua: &Lua, budget: &Budget, arguments: &Arguments) -> Answered {
    if arguments.is_empty() {
        return Err(bad_argument(0, "pack", "MessagePack pack needs input."));
    }
    let (mut out, mut cost) = (Vec::new(), Cost::of(budget, lua));
    arguments.try_for_each(|value| write(value, 0, &mut out, &mut cost))?;
    Ok(lua.create_string(&out)?.into_lua_multi(lua)?)
}

fn write(value: &Value, depth: usize, out: &mut Vec<u8>, cost: &mut Cost<'_>) -> Result<(), Complaint> {
    cost.check(value)?;
    match value {
        Value::Boolean(yes) => out.push(if *yes { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => write_integer(*number, out),
        Value::Number(number) if *number == *number as i64 as f64 => write_integer(*number as i64, out),
        Value::Number(number) => {
            let short = *number as f32;
            if f64::from(short) == *number {
                out.push(0xca);
                out.extend_from_slice(&short.to_be_bytes());
            } else {
                out.push(0xcb);
                out.extend_from_slice(&number.to_be_bytes());
            }
        }
        Value::String(text) => {
            let text = text.as_bytes();
            match text.len() {
                len @ 0..32 => out.push(0xa0 | len as u8),
                len @ 32..0x100 => out.extend_from_slice(&[0xd9, len as u8]),
                len => write_len(len, 0xda, out),
            }
            out.extend_from_slice(&text);
        }
        Value::Table(table) if depth < MSGPACK_WRITTEN_DEPTH_MAX => write_table(table, depth + 1, out, cost)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

fn write_integer(number: i64, out: &mut Vec<u8>) {
    match number {
        0..128 => out.push(number as u8),
        128..0x100 => out.extend_from_slice(&[0xcc, number as u8]),
        0x100..0x1_0000 => write_word(0xcd, &(number as u16).to_be_bytes(), out),
        0x1_0000..0x1_0000_0000 => write_word(0xce, &(number as u32).to_be_bytes(), out),
        0x1_0000_0000.. => write_word(0xcf, &(number as u64).to_be_bytes(), out),
        -32..0 => out.push(number as i8 as u8),
        -128..-32 => out.extend_from_slice(&[0xd0, number as i8 as u8]),
        -0x8000..-128 => write_word(0xd1, &(number as i16).to_be_bytes(), out),
        -0x8000_0000..-0x8000 => write_word(0xd2, &(number as i32).to_be_bytes(), out),
        _ => write_word(0xd3, &number.to_be_bytes(), out),
    }
}

fn write_word(tag: u8, word: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(word);
}

/// A length in two bytes after `tag`, or in four after the next one.
fn write_len(len: usize, tag: u8, out: &mut Vec<u8>) {
    match u16::try_from(len) {
        Ok(len) => write_word(tag, &len.to_be_bytes(), out),
        Err(_) => write_word(tag + 1, &(len as u32).to_be_bytes(), out),
    }
}

fn write_table(table: &Table, depth: usize, out: &mut Vec<u8>, cost: &mut Cost<'_>) -> Result<(), Complaint> {
    let (mut count, mut highest, mut is_array) = (0, 0, true);
    for pair in table.pairs::<Value, Value>() {
        count += 1;
        match pair?.0 {
            Value::Integer(index) if index > 0 => highest = highest.max(index as usize),
            Value::Number(index) if index > 0.0 && index.fract() == 0.0 => {
                highest = highest.max(index as usize)
            }
            _ => is_array = false,
        }
    }
    if is_array && highest == count {
        match count {
            0..16 => out.push(0x90 | count as u8),
            _ => write_len(count, 0xdc, out),
        }
        for index in 1..=count {
            write(&table.raw_get::<Value>(index)?, depth, out, cost)?;
        }
        return Ok(());
    }
    match count {
        0..16 => out.push(0x80 | count as u8),
        _ => write_len(count, 0xde, out),
    }
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        write(&key, depth, out, cost)?;
        write(&value, depth, out, cost)?;
    }
    Ok(())
}

/// Up to `limit` values from where `reader` stands; before them, if wanted, where the next one
/// begins (-1 = nowhere).
fn unpack(mut reader: Reader<'_>, limit: usize, with_offset: bool) -> Result<Turn, Complaint> {
    let (len, offset) = (reader.text.len(), reader.at);
    if offset > len {
        return Err(Complaint(format!("Start offset {offset} greater than input length {len}.")));
    }
    let (mut values, mut count) = (Results::new(reader.filling), 0);
    if with_offset {
        values.push(Value::Nil)?;
    }
    while reader.at < len && count < limit {
        if count == RESULTS_MAX {
            return Err(Complaint(format!("too many results to unpack: more than {RESULTS_MAX}")));
        }
        values.push(reader.value(0)?)?;
        count += 1;
    }
    let next = if reader.at == len { -1.0 } else { reader.at as f64 };
    Ok(values.turn(with_offset.then_some(Value::Number(next)))?)
}

struct Reader<'a> {
    filling: &'a Filling<'a>,
    lua: &'a Lua,
    budget: &'a Budget,
    text: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Complaint> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.text.len());
        let end = end.ok_or_else(|| Complaint("Missing bytes in input.".into()))?;
        let taken = &self.text[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// An unsigned number of so many bytes.
    fn number(&mut self, bytes: usize) -> Result<u64, Complaint> {
        Ok(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn value(&mut self, depth: usize) -> Result<Value, Complaint> {
        self.budget.work(STEP_BYTES)?;
        let tag = self.take(1)?[0];
        let number = |number: f64| Ok(Value::Number(number));
        match tag {
            0..0x80 => number(f64::from(tag)),
            0xe0.. => number(f64::from(tag as i8)),
            0x80..0x90 => self.map(usize::from(tag & 15), depth),
            0x90..0xa0 => self.array(usize::from(tag & 15), depth),
            0xa0..0xc0 => self.string(usize::from(tag & 31)),
            0xc0 => Ok(Value::Nil),
            0xc2 => Ok(Value::Boolean(false)),
            0xc3 => Ok(Value::Boolean(true)),
            0xca => number(f64::from(f32::from_bits(self.number(4)? as u32))),
            0xcb => number(f64::from_bits(self.number(8)?)),
            0xcc => number(self.number(1)? as f64),
            0xcd => number(self.number(2)? as f64),
            0xce => number(self.number(4)? as f64),
            0xcf => number(self.number(8)? as f64),
            0xd0 => number(f64::from(self.number(1)? as i8)),
            0xd1 => number(f64::from(self.number(2)? as i16)),
            0xd2 => number(f64::from(self.number(4)? as i32)),
            0xd3 => number(self.number(8)? as i64 as f64),
            0xc4 | 0xd9 => self.sized(1, Self::string_at, depth),
            0xc5 | 0xda => self.sized(2, Self::string_at, depth),
            0xc6 | 0xdb => self.sized(4, Self::string_at, depth),
            0xdc => self.sized(2, Self::array, depth),
            0xdd => self.sized(4, Self::array, depth),
            0xde => self.sized(2, Self::map, depth),
            0xdf => self.sized(4, Self::map, depth),
            _ => Err(Complaint("Bad data format in input.".into())),
        }
    }

    fn sized(
        &mut self,
        bytes: usize,
        read: fn(&mut Self, usize, usize) -> Result<Value, Complaint>,
        depth: usize,
    ) -> Result<Value, Complaint> {
        let len = self.number(bytes)? as usize;
        read(self, len, depth)
    }

    fn string(&mut self, len: usize) -> Result<Value, Complaint> {
        self.budget.work(len)?;
        let text = self.take(len)?;
        Ok(Value::String(self.lua.create_string(text)?))
    }

    fn string_at(&mut self, len: usize, _: usize) -> Result<Value, Complaint> {
        self.string(len)
    }

    fn check(&self, depth: usize) -> Result<(), Complaint> {
        self.budget.check_stack()?;
        match depth >= MSGPACK_READ_DEPTH_MAX {
            true => Err(Complaint("too many nested tables".into())),
            false => Ok(()),
        }
    }

    fn array(&mut self, len: usize, depth: usize) -> Result<Value, Complaint> {
        self.check(depth)?;
        let mut list = List::new(self.filling)?;
        for _ in 0..len {
            list.push(self.value(depth + 1)?)?;
        }
        Ok(list.table()?)
    }

    fn map(&mut self, len: usize, depth: usize) -> Result<Value, Complaint> {
        self.check(depth)?;
        let mut pairs = Pairs::new(self.filling)?;
        for _ in 0..len {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            if key.is_nil() || matches!(key, Value::Number(number) if number.is_nan()) {
                return Err(Complaint("Bad data format in input.".into()));
            }
            pairs.push(key, value)?;
        }
        Ok(pairs.table()?)
    }
}
