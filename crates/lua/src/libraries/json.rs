//! The library `cjson`.

mod decode;
mod encode;

use std::cell::Cell;
use std::rc::Rc;

use mlua::{IntoLuaMulti, Lua, Table, Value};

use super::budget::Budget;
use super::filling::Filling;
use super::library::{Answered, Complaint, Cost, add, bad_argument, number_at, string_at};
use crate::bounds::JSON_DEPTH_MAX;
use crate::steered::Arguments;

/// What a script may set; it is set again for the next one.
pub(super) struct Options {
    encode_depth_max: Cell<usize>,
    decode_depth_max: Cell<usize>,
    digits: Cell<usize>,
    keep_buffer: Cell<bool>,
    encode_invalid: Cell<bool>,
    decode_invalid: Cell<bool>,
    /// Whether excessively sparse arrays become objects, from which ratio on, and which highest
    /// index never is.
    sparse: Cell<(bool, usize, usize)>,
}

impl Options {
    pub(super) fn new() -> Self {
        Self {
            encode_depth_max: Cell::new(JSON_DEPTH_MAX),
            decode_depth_max: Cell::new(JSON_DEPTH_MAX),
            digits: Cell::new(14),
            keep_buffer: Cell::new(true),
            encode_invalid: Cell::new(false),
            decode_invalid: Cell::new(true),
            sparse: Cell::new((false, 2, 10)),
        }
    }

    /// As at the beginning.
    pub(super) fn reset(&self) {
        let Self {
            encode_depth_max,
            decode_depth_max,
            digits,
            keep_buffer,
            encode_invalid,
            decode_invalid,
            sparse,
        } = Self::new();
        self.encode_depth_max.swap(&encode_depth_max);
        self.decode_depth_max.swap(&decode_depth_max);
        self.digits.swap(&digits);
        self.keep_buffer.swap(&keep_buffer);
        self.encode_invalid.swap(&encode_invalid);
        self.decode_invalid.swap(&decode_invalid);
        self.sparse.swap(&sparse);
    }
}

/// The library.
pub(super) fn library(lua: &Lua, budget: &Rc<Budget>, options: &Rc<Options>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    let (of, at) = (Rc::clone(options), Rc::clone(budget));
    add(lua, &table, "encode", move |lua, arguments| match (arguments.len(), arguments.get(0)?) {
        (1, Some(value)) => {
            let cost = Cost::of(&at, lua);
            let mut encoder = encode::Encoder { options: &of, budget: &at, out: Vec::new(), cost };
            encoder.value(&value, 0)?;
            Ok(lua.create_string(&encoder.out)?.into_lua_multi(lua)?)
        }
        _ => Err(bad_argument(1, "encode", "expected 1 argument")),
    })?;
    let (of, at) = (Rc::clone(options), Rc::clone(budget));
    add(lua, &table, "decode", move |lua, arguments| {
        if arguments.len() != 1 {
            return Err(bad_argument(1, "decode", "expected 1 argument"));
        }
        let text = string_at(lua, arguments, 1, "decode")?;
        let text = text.as_bytes();
        let filling = &Filling::new(lua);
        let decoder = decode::Decoder { filling, lua, options: &of, budget: &at, text: &text, at: 0 };
        let value = decoder.document()?;
        Ok(value.into_lua_multi(lua)?)
    })?;
    // A second instance is this one: nothing that a script sets outlives it for long.
    add(lua, &table, "new", |lua, _| Ok(lua.create_table()?.into_lua_multi(lua)?))?;
    add_options(lua, &table, options)?;
    Ok(table)
}

fn add_options(lua: &Lua, table: &Table, options: &Rc<Options>) -> mlua::Result<()> {
    type Place<T> = fn(&Options) -> &Cell<T>;
    let numbers: [(&'static str, usize, Place<usize>); 3] = [
        ("encode_max_depth", JSON_DEPTH_MAX, |options| &options.encode_depth_max),
        ("decode_max_depth", JSON_DEPTH_MAX, |options| &options.decode_depth_max),
        ("encode_number_precision", 14, |options| &options.digits),
    ];
    for (name, max, place) in numbers {
        let options = Rc::clone(options);
        add(lua, table, name, move |lua, arguments| {
            if !arguments.is_empty() {
                let wanted = number_at(arguments, 1, name)?;
                if !(1.0..=max as f64).contains(&wanted) {
                    return Err(bad_argument(1, name, &format!("expected integer between 1 and {max}")));
                }
                place(&options).set(wanted as usize);
            }
            Ok((place(&options).get() as f64).into_lua_multi(lua)?)
        })?;
    }
    let switches: [(&'static str, Place<bool>); 3] = [
        ("encode_keep_buffer", |options| &options.keep_buffer),
        ("encode_invalid_numbers", |options| &options.encode_invalid),
        ("decode_invalid_numbers", |options| &options.decode_invalid),
    ];
    for (name, place) in switches {
        let options = Rc::clone(options);
        add(lua, table, name, move |lua, arguments| {
            match arguments.get(0)?.as_deref() {
                None => {}
                Some(Value::Boolean(on)) => place(&options).set(*on),
                Some(Value::String(word)) if *word == "on" || *word == "null" => place(&options).set(true),
                Some(Value::String(word)) if *word == "off" => place(&options).set(false),
                Some(_) => return Err(bad_argument(1, name, "invalid option")),
            }
            Ok(place(&options).get().into_lua_multi(lua)?)
        })?;
    }
    let options = Rc::clone(options);
    add(lua, table, "encode_sparse_array", move |lua, arguments| sparse(lua, &options, arguments))
}

fn sparse(lua: &Lua, options: &Options, arguments: &Arguments) -> Answered {
    let (mut convert, mut ratio, mut safe) = options.sparse.get();
    if let Some(Value::Boolean(on)) = arguments.get(0)?.as_deref() {
        convert = *on;
    }
    let part = |index: usize, old: usize| match arguments.get(index - 1)?.as_deref() {
        None | Some(Value::Nil) => Ok::<usize, Complaint>(old),
        Some(_) => Ok(number_at(arguments, index, "encode_sparse_array")?.max(0.0) as usize),
    };
    (ratio, safe) = (part(2, ratio)?, part(3, safe)?);
    options.sparse.set((convert, ratio, safe));
    Ok((convert, ratio as f64, safe as f64).into_lua_multi(lua)?)
}
