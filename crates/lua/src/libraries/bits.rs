//! The library `bit`: operations on the lower 32 bits of numbers.

use mlua::{IntoLuaMulti, Lua, Table};

use super::library::{Answered, Complaint, add, number_at};
use crate::steered::Arguments;

type OfOne = fn(u32) -> u32;
type OfTwo = fn(u32, u32) -> u32;

/// The library.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let folds: [(&'static str, OfTwo); 3] =
        [("band", |a, b| a & b), ("bor", |a, b| a | b), ("bxor", |a, b| a ^ b)];
    for (name, fold) in folds {
        add(lua, &table, name, move |lua, arguments| {
            let mut found = bits_at(arguments, 1, name)?;
            for index in 2..=arguments.len() {
                found = fold(found, bits_at(arguments, index, name)?);
            }
            answer(lua, found)
        })?;
    }
    let shifts: [(&'static str, OfTwo); 5] = [
        ("lshift", |bits, by| bits << by),
        ("rshift", |bits, by| bits >> by),
        ("arshift", |bits, by| (bits as i32 >> by) as u32),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ];
    for (name, shift) in shifts {
        add(lua, &table, name, move |lua, arguments| {
            let by = bits_at(arguments, 2, name);
            answer(lua, shift(bits_at(arguments, 1, name)?, by? & 31))
        })?;
    }
    let singles: [(&'static str, OfOne); 3] =
        [("tobit", |bits| bits), ("bnot", |bits| !bits), ("bswap", u32::swap_bytes)];
    for (name, single) in singles {
        add(lua, &table, name, move |lua, arguments| answer(lua, single(bits_at(arguments, 1, name)?)))?;
    }
    add(lua, &table, "tohex", to_hex)?;
    Ok(table)
}

fn answer(lua: &Lua, bits: u32) -> Answered {
    Ok(f64::from(bits as i32).into_lua_multi(lua)?)
}

/// A number's lower 32 bits; halves are rounded to the even number.
fn bits_at(arguments: &Arguments, index: usize, function: &str) -> Result<u32, Complaint> {
    let number = number_at(arguments, index, function)?;
    Ok(number.round_ties_even() as i64 as u32)
}

/// `tohex(number [, digits])`: negative digits mean capitals.
fn to_hex(lua: &Lua, arguments: &Arguments) -> Answered {
    let bits = bits_at(arguments, 1, "tohex")?;
    let digits = match arguments.len() {
        0 | 1 => 8,
        _ => bits_at(arguments, 2, "tohex")? as i32,
    };
    let count = digits.unsigned_abs().min(8) as usize;
    let all = if digits < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
    Ok(all[8 - count..].into_lua_multi(lua)?)
}
