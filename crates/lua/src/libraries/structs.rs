//! The library `struct`: values as the bytes of C's structures.

use std::rc::Rc;

use mlua::{IntoLuaMulti, Lua, Table, Value};

use super::budget::Budget;
use super::filling::{Filling, Results};
use super::library::{Answered, Complaint, add, add_steered, bad_argument, number_at, string_at};
use super::work::STEP_BYTES;
use crate::bounds::{RESULTS_MAX, STRUCT_INTEGER_BYTES_MAX};
use crate::steered::{Arguments, Turn};

/// The library.
pub(super) fn library(lua: &Lua, budget: &Rc<Budget>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let at = Rc::clone(budget);
    add(lua, &table, "pack", move |lua, arguments| pack(lua, &at, arguments))?;
    let at = Rc::clone(budget);
    add_steered(lua, &table, "unpack", move |lua, arguments| unpack(lua, &at, arguments))?;
    let at = Rc::clone(budget);
    add(lua, &table, "size", move |lua, arguments| size(lua, &at, arguments))?;
    Ok(table)
}

/// One option of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// So many bytes; signed or not.
    Integer(usize, bool),
    /// 4 or 8 bytes.
    Float(usize),
    /// So many bytes of a string; 0 = all of it, or as many as the number before says.
    Bytes(usize),
    /// A string that ends in a zero.
    Zero,
    /// A byte of padding.
    Padding,
}

/// Reads a format, option by option.
struct Format<'f> {
    budget: &'f Budget,
    text: &'f [u8],
    at: usize,
    is_little: bool,
    align_max: usize,
    function: &'static str,
}

impl<'f> Format<'f> {
    fn new(budget: &'f Budget, text: &'f [u8], function: &'static str) -> Self {
        Self { budget, text, at: 0, is_little: true, align_max: 1, function }
    }

    /// The next field, and by how much it is moved to be aligned after `total` bytes.
    ///
    /// # Errors
    /// The format is wrong, or the script must end.
    fn next(&mut self, total: usize) -> Result<Option<(Field, usize)>, Complaint> {
        while let Some(option) = self.text.get(self.at).copied() {
            self.at += 1;
            self.budget.work(STEP_BYTES)?;
            let field = match option {
                b' ' => continue,
                b'<' => {
                    self.is_little = true;
                    continue;
                }
                b'>' => {
                    self.is_little = false;
                    continue;
                }
                b'!' => {
                    let align = self.number(8)?;
                    if align == 0 || !align.is_power_of_two() {
                        return Err(Complaint("alignment is not a power of 2".into()));
                    }
                    self.align_max = align;
                    continue;
                }
                b'b' => Field::Integer(1, true),
                b'B' => Field::Integer(1, false),
                b'h' => Field::Integer(2, true),
                b'H' => Field::Integer(2, false),
                b'l' => Field::Integer(8, true),
                b'L' | b'T' => Field::Integer(8, false),
                b'i' | b'I' => {
                    let bytes = self.number(4)?;
                    if bytes > STRUCT_INTEGER_BYTES_MAX {
                        return Err(Complaint(format!(
                            "integral size {bytes} is larger than limit of {STRUCT_INTEGER_BYTES_MAX}"
                        )));
                    }
                    Field::Integer(bytes, option == b'i')
                }
                b'f' => Field::Float(4),
                b'd' | b'n' => Field::Float(8),
                b'x' => Field::Padding,
                b'c' => Field::Bytes(self.number(1)?),
                b's' => Field::Zero,
                other => {
                    let why = format!("invalid format option '{}'", other as char);
                    return Err(bad_argument(1, self.function, &why));
                }
            };
            let align = match field {
                Field::Integer(bytes, _) | Field::Float(bytes) => bytes.min(self.align_max),
                _ => 1,
            };
            let padding = if align > 1 && align.is_power_of_two() {
                (align - (total & (align - 1))) & (align - 1)
            } else {
                0
            };
            return Ok(Some((field, padding)));
        }
        Ok(None)
    }

    fn number(&mut self, otherwise: usize) -> Result<usize, Complaint> {
        let start = self.at;
        let mut number = 0_usize;
        while let Some(digit) = self.text.get(self.at).filter(|byte| byte.is_ascii_digit()) {
            number = number * 10 + usize::from(digit - b'0');
            if number > i32::MAX as usize {
                return Err(Complaint("integral size overflow".into()));
            }
            self.at += 1;
        }
        Ok(if self.at == start { otherwise } else { number })
    }
}

fn pack(lua: &Lua, budget: &Budget, arguments: &Arguments) -> Answered {
    let bytes_max = budget.room(lua) / 2;
    let text = string_at(lua, arguments, 1, "pack")?;
    let text = text.as_bytes();
    let mut format = Format::new(budget, &text, "pack");
    let (mut out, mut index) = (Vec::new(), 2);
    let check = |len: usize| match len > bytes_max {
        true => Err(Complaint("resulting string too large".into())),
        false => Ok(()),
    };
    while let Some((field, padding)) = format.next(out.len())? {
        check(out.len())?;
        out.resize(out.len() + padding, 0);
        match field {
            Field::Padding => {
                out.push(0);
                continue;
            }
            Field::Integer(bytes, _) => {
                let number = number_at(arguments, index, "pack")?;
                let number = if number < 0.0 { number as i64 } else { number as u64 as i64 };
                let mut little: Vec<u8> = number.to_le_bytes().to_vec();
                // What is longer than eight bytes is filled as C's shifts fill it.
                little.resize(bytes.max(8), 0);
                little.truncate(bytes);
                if !format.is_little {
                    little.reverse();
                }
                out.extend_from_slice(&little);
            }
            Field::Float(bytes) => {
                let number = number_at(arguments, index, "pack")?;
                let mut little = match bytes {
                    4 => (number as f32).to_le_bytes().to_vec(),
                    _ => number.to_le_bytes().to_vec(),
                };
                if !format.is_little {
                    little.reverse();
                }
                out.extend_from_slice(&little);
            }
            Field::Bytes(count) => {
                let string = string_at(lua, arguments, index, "pack")?;
                let string = string.as_bytes();
                check(out.len() + string.len())?;
                let count = if count == 0 { string.len() } else { count };
                let part =
                    string.get(..count).ok_or_else(|| bad_argument(index + 1, "pack", "string too short"))?;
                out.extend_from_slice(part);
            }
            Field::Zero => {
                let string = string_at(lua, arguments, index, "pack")?;
                check(out.len() + string.as_bytes().len())?;
                out.extend_from_slice(&string.as_bytes());
                out.push(0);
            }
        }
        index += 1;
    }
    budget.work(out.len())?;
    Ok(lua.create_string(&out)?.into_lua_multi(lua)?)
}

fn unpack(lua: &Lua, budget: &Budget, arguments: &Arguments) -> Result<Turn, Complaint> {
    let (text, data) = (string_at(lua, arguments, 1, "unpack")?, string_at(lua, arguments, 2, "unpack")?);
    let (text, data) = (text.as_bytes(), data.as_bytes());
    let start = match arguments.get(2)? {
        None => 1.0,
        Some(_) => number_at(arguments, 3, "unpack")?,
    };
    if start < 1.0 {
        return Err(bad_argument(3, "unpack", "offset must be 1 or greater"));
    }
    let mut at = start as usize - 1;
    let mut format = Format::new(budget, &text, "unpack");
    let filling = Filling::new(lua);
    let (mut values, mut made_bytes) = (Results::new(&filling), 0);
    let short = || bad_argument(2, "unpack", "data string too short");
    while let Some((field, padding)) = format.next(at)? {
        if values.len() == RESULTS_MAX {
            return Err(Complaint(format!("too many results to unpack: more than {RESULTS_MAX}")));
        }
        at += padding;
        let rest = data.get(at..).ok_or_else(short)?;
        let ordered = |bytes: &[u8]| -> Vec<u8> {
            let mut bytes = bytes.to_vec();
            if !format.is_little {
                bytes.reverse();
            }
            bytes
        };
        match field {
            Field::Padding => at += 1,
            Field::Integer(bytes, is_signed) => {
                let little = ordered(rest.get(..bytes).ok_or_else(short)?);
                values.push(Value::Number(integer(&little, is_signed)))?;
                at += bytes;
            }
            Field::Float(bytes) => {
                let little = ordered(rest.get(..bytes).ok_or_else(short)?);
                let bits = little.iter().rev().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
                let number =
                    if bytes == 4 { f64::from(f32::from_bits(bits as u32)) } else { f64::from_bits(bits) };
                values.push(Value::Number(number))?;
                at += bytes;
            }
            Field::Bytes(count) => {
                let count = match count {
                    0 => match values.pop() {
                        Some(Value::Number(count)) if count >= 0.0 => count as usize,
                        _ => return Err(Complaint("format 'c0' needs a previous size".into())),
                    },
                    count => count,
                };
                let part = rest.get(..count).ok_or_else(short)?;
                values.push(Value::String(lua.create_string(part)?))?;
                made_bytes += count;
                at += count;
            }
            Field::Zero => {
                let end = rest.iter().position(|byte| *byte == 0);
                let end = end.ok_or_else(|| Complaint("unfinished string in data".into()))?;
                values.push(Value::String(lua.create_string(&rest[..end])?))?;
                made_bytes += end;
                at += end + 1;
            }
        }
    }
    budget.work(made_bytes)?;
    values.push(Value::Number(at as f64 + 1.0))?;
    Ok(values.turn(None)?)
}

fn integer(little: &[u8], is_signed: bool) -> f64 {
    let bits = little.iter().take(8).rev().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    let unused = 64 - 8 * little.len().clamp(1, 8) as u32;
    match is_signed {
        true => ((bits << unused) as i64 >> unused) as f64,
        false => bits as f64,
    }
}

fn size(lua: &Lua, budget: &Budget, arguments: &Arguments) -> Answered {
    let text = string_at(lua, arguments, 1, "size")?;
    let text = text.as_bytes();
    let mut format = Format::new(budget, &text, "size");
    let mut total = 0;
    while let Some((field, padding)) = format.next(total)? {
        total += padding;
        total += match field {
            Field::Integer(bytes, _) | Field::Float(bytes) => bytes,
            Field::Padding => 1,
            Field::Bytes(0) => return Err(bad_argument(1, "size", "option 'c0' has no fixed size")),
            Field::Bytes(count) => count,
            Field::Zero => return Err(bad_argument(1, "size", "option 's' has no fixed size")),
        };
    }
    Ok((total as f64).into_lua_multi(lua)?)
}
