//! Many values of a table at once: one by one, each would be a protected call of Lua's, which
//! leaves garbage.

use mlua::ffi::{self, lua_State};
use mlua::{Lua, MultiValue, Result, Table};

/// Values that are to be put at once, at most: meanwhile they stand on Lua's stack.
pub const PUT_MAX: usize = 64;

/// Puts `values`, at most [`PUT_MAX`], into `table` from the index `first` on. Metatables play no
/// part.
///
/// # Errors
/// What the interpreter says: no memory.
pub fn put_list(lua: &Lua, table: &Table, first: usize, values: MultiValue) -> Result<()> {
    let last = values.len() as i32;
    let put = |state: *mut lua_State| {
        for place in 1..=last {
            // SAFETY: invariants 2 and 4: the table is at the bottom, the values are above it.
            unsafe { ffi::lua_pushvalue(state, place + 1) };
            // SAFETY: invariant 4: the value on top goes into the table.
            unsafe {
                ffi::lua_rawseti(state, 1, first as ffi::lua_Integer + ffi::lua_Integer::from(place) - 1)
            };
        }
        // SAFETY: invariant 4.
        unsafe { ffi::lua_settop(state, 0) };
    };
    // SAFETY: invariants 1 and 4: the closure holds numbers, and leaves nothing on the stack.
    unsafe { lua.exec_raw((table, values), put) }
}

/// Puts `pairs`, keys and values by turns, at most [`PUT_MAX`], into `table`. Metatables play no
/// part.
///
/// # Errors
/// A key is nil or no number; what the interpreter says: no memory.
pub fn put_pairs(lua: &Lua, table: &Table, pairs: MultiValue) -> Result<()> {
    let last = pairs.len() as i32;
    let put = |state: *mut lua_State| {
        for place in (2..=last).step_by(2) {
            // SAFETY: invariants 2 and 4: the table is at the bottom, keys and values are above it.
            unsafe { ffi::lua_pushvalue(state, place) };
            // SAFETY: as above.
            unsafe { ffi::lua_pushvalue(state, place + 1) };
            // SAFETY: invariant 4: the key and the value on top go into the table.
            unsafe { ffi::lua_rawset(state, 1) };
        }
        // SAFETY: invariant 4.
        unsafe { ffi::lua_settop(state, 0) };
    };
    // SAFETY: invariants 1 and 4: the closure holds numbers, and leaves nothing on the stack.
    unsafe { lua.exec_raw((table, pairs), put) }
}

#[cfg(test)]
mod tests {
    use mlua::{LuaOptions, StdLib, Value};

    use super::*;

    #[test]
    fn lists_and_pairs_are_put_as_one_by_one() {
        let lua = Lua::new_with(StdLib::ALL_SAFE, LuaOptions::new()).unwrap();
        let table = lua.create_table().unwrap();
        let many = PUT_MAX as i64;
        put_list(&lua, &table, 1, (0..many).map(Value::Integer).collect()).unwrap();
        put_list(&lua, &table, PUT_MAX + 1, [Value::Boolean(true)].into_iter().collect()).unwrap();
        put_list(&lua, &table, 1, MultiValue::new()).unwrap();
        assert_eq!(table.raw_len(), PUT_MAX + 1);
        assert_eq!(table.raw_get::<i64>(PUT_MAX).unwrap(), many - 1);
        let text = |text: &str| Value::String(lua.create_string(text).unwrap());
        let pairs = [text("a"), Value::Integer(1), text("b"), text("c")];
        put_pairs(&lua, &table, pairs.into_iter().collect()).unwrap();
        assert_eq!(table.raw_get::<i64>("a").unwrap(), 1);
        assert_eq!(table.raw_get::<String>("b").unwrap(), "c");
        put_pairs(&lua, &table, [Value::Nil, Value::Integer(1)].into_iter().collect()).unwrap_err();
    }
}
