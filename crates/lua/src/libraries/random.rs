//! `math.random`: a sequence that a seed of the script's determines on every machine.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{IntoLuaMulti, Lua, MultiValue, Table};

use super::library::{Answered, Complaint, add, bad_argument, number_at};
use crate::steered::Arguments;

/// The generator that C has as `lrand48`: 48 bits, of which the upper 31 are given.
#[derive(Default)]
pub(super) struct Generator(Cell<u64>);

const BITS: u64 = (1 << 48) - 1;

impl Generator {
    /// Begins the sequence of `seed`; each script begins that of 0.
    pub(super) fn seed(&self, seed: u32) {
        self.0.set(u64::from(seed) << 16 | 0x330e);
    }

    /// A number from 0 to below 1.
    fn next(&self) -> f64 {
        self.0.set(self.0.get().wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & BITS);
        let number = self.0.get() >> 17;
        let end = f64::from(i32::MAX);
        (number % i32::MAX as u64) as f64 / end
    }
}

/// `random` and `randomseed`, for the library `math`.
pub(super) fn library(lua: &Lua, generator: &Rc<Generator>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let (of_random, generator) = (Rc::clone(generator), Rc::clone(generator));
    add(lua, &table, "random", move |lua, arguments| random(lua, &of_random, arguments))?;
    add(lua, &table, "randomseed", move |_, arguments| {
        generator.seed(number_at(arguments, 1, "randomseed")? as i64 as u32);
        Ok(MultiValue::new())
    })?;
    Ok(table)
}

fn random(lua: &Lua, generator: &Generator, arguments: &Arguments) -> Answered {
    let part = generator.next();
    let integer = |index| Ok::<f64, Complaint>(number_at(arguments, index, "random")?.trunc());
    let number = match arguments.len() {
        0 => part,
        1 => {
            let end = integer(1)?;
            if end < 1.0 {
                return Err(bad_argument(1, "random", "interval is empty"));
            }
            (part * end).floor() + 1.0
        }
        2 => {
            let (start, end) = (integer(1)?, integer(2)?);
            if start > end {
                return Err(bad_argument(2, "random", "interval is empty"));
            }
            (part * (end - start + 1.0)).floor() + start
        }
        _ => return Err(Complaint("wrong number of arguments".into())),
    };
    Ok(number.into_lua_multi(lua)?)
}
