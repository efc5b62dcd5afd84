//! Functions that steer the coroutine they are called in.

use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;

use mlua::ffi::{self, lua_Debug, lua_State};
use mlua::{Function, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Thread, Value};

/// What happens after a function was called.
#[derive(Debug)]
pub enum Turn {
    /// It answers these values.
    Answer(MultiValue),
    /// It raises this value as an error.
    Raise(Value),
    /// The coroutine is suspended without values; the function answers what it is resumed with.
    ///
    /// Where Lua cannot suspend (below a metamethod, a comparison of `table.sort`), an error is raised instead.
    Suspend,
}

const ANSWER: ffi::lua_Integer = 0;
const RAISE: ffi::lua_Integer = 1;
const SUSPEND: ffi::lua_Integer = 2;

/// Where the function that [`watch`] asks is registered.
const WATCHER: &CStr = c"firn.watcher";

impl Turn {
    fn into_values(self, lua: &Lua) -> Result<MultiValue> {
        let mut values = match self {
            Turn::Answer(mut values) => {
                values.push_front(Value::Integer(ANSWER));
                values
            }
            Turn::Raise(value) => (RAISE, value).into_lua_multi(lua)?,
            Turn::Suspend => SUSPEND.into_lua_multi(lua)?,
        };
        values.shrink_to_fit();
        Ok(values)
    }
}

/// A function that is called with whatever it is called with, and then does what `f` says.
///
/// In `f` the caller stands at level 2 of the stack.
///
/// # Errors
/// What the interpreter says: no memory.
pub fn steered(lua: &Lua, f: impl Fn(&Lua, MultiValue) -> Result<Turn> + 'static) -> Result<Function> {
    let inner = lua.create_function(move |lua, arguments: MultiValue| f(lua, arguments)?.into_values(lua))?;
    let close = |state| {
        // SAFETY: invariants 2 and 3: `inner` is on top, and becomes the upvalue.
        unsafe { ffi::lua_pushcclosure(state, steer, 1) }
    };
    // SAFETY: invariant 4; the closure leaves exactly the function on the stack.
    unsafe { lua.exec_raw(inner, close) }
}

/// Lets `f` be asked every `count` instructions of every coroutine made from now on: an answer means to go on.
///
/// # Errors
/// What the interpreter says: no memory.
pub fn watch(lua: &Lua, count: u32, f: impl Fn(&Lua) -> Result<Turn> + 'static) -> Result<()> {
    let inner = lua.create_function(move |lua, ()| f(lua)?.into_values(lua))?;
    lua.set_named_registry_value(&WATCHER.to_string_lossy(), inner)?;
    let count = c_int::try_from(count).unwrap_or(c_int::MAX);
    let set = |state| {
        // SAFETY: invariant 4; the hook finds its function in the registry.
        unsafe { ffi::lua_sethook(state, Some(hook), ffi::LUA_MASKCOUNT, count) };
    };
    // SAFETY: invariant 4; the closure leaves the stack as it is.
    unsafe { lua.exec_raw((), set) }
}

/// Where `thread`, which has failed, stands: the name of the chunk and the line of the innermost function of Lua whose chunk is not
/// called `other`; `None` if there is none.
///
/// # Errors
/// What the interpreter says: no memory.
pub fn line(lua: &Lua, thread: &Thread, other: &CStr) -> Result<Option<(LuaString, i64)>> {
    let look = |state| {
        // SAFETY: invariant 4: `thread` is on top of the stack.
        let failed = unsafe { ffi::lua_tothread(state, -1) };
        let found = line_of(failed, other);
        let (source, line) = found.unwrap_or((c"", -1));
        // SAFETY: invariant 2; `source` lives as long as the function does, which is on the stack of `thread`.
        unsafe { ffi::lua_pushstring(state, source.as_ptr()) };
        // SAFETY: invariant 2.
        unsafe { ffi::lua_pushinteger(state, ffi::lua_Integer::from(line)) };
        // SAFETY: invariant 2: the thread goes, which is below both.
        unsafe { ffi::lua_remove(state, -3) };
    };
    // SAFETY: invariant 4; the closure leaves exactly a string and a number on the stack.
    let (source, line): (LuaString, i64) = unsafe { lua.exec_raw(thread, look) }?;
    Ok((line >= 0).then_some((source, line)))
}

/// The name lives as long as the function that it is of.
fn line_of<'n>(thread: *mut lua_State, other: &CStr) -> Option<(&'n CStr, c_int)> {
    let mut debug = MaybeUninit::<lua_Debug>::zeroed();
    let mut level = 0;
    loop {
        // SAFETY: invariant 4: `thread` belongs to the state that is borrowed; Lua writes what it knows to `debug`.
        if unsafe { ffi::lua_getstack(thread, level, debug.as_mut_ptr()) } == 0 {
            return None;
        }
        // SAFETY: as above; `lua_getstack` has said which function is meant.
        unsafe { ffi::lua_getinfo(thread, c"Sl".as_ptr(), debug.as_mut_ptr()) };
        // SAFETY: zeroes are a value of every field.
        let found = unsafe { debug.assume_init_ref() };
        if !found.source.is_null() {
            // SAFETY: it is a string that ends in a zero, which the function keeps, and the function is on the stack.
            let name: &'n CStr = unsafe { CStr::from_ptr(found.source) };
            if found.currentline >= 0 && name != other {
                return Some((name, found.currentline));
            }
        }
        level += 1;
    }
}

/// The function of C around a function of Rust, its upvalue, which answers what is to be done.
unsafe extern "C-unwind" fn steer(state: *mut lua_State) -> c_int {
    // SAFETY: invariants 2 and 3.
    unsafe { ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1)) };
    // SAFETY: invariant 2: the function goes below its arguments.
    unsafe { ffi::lua_insert(state, 1) };
    // SAFETY: invariant 4.
    let count = unsafe { ffi::lua_gettop(state) };
    // SAFETY: invariants 1 and 3: an error passes through nothing but this frame.
    unsafe { ffi::lua_call(state, count - 1, ffi::LUA_MULTRET) };
    // SAFETY: invariant 3: the function answers at least the kind of turn.
    match unsafe { ffi::lua_tointeger(state, 1) } {
        ANSWER => {
            // SAFETY: invariant 4.
            let count = unsafe { ffi::lua_gettop(state) };
            count - 1
        }
        RAISE => {
            // SAFETY: invariant 1; the value to raise is on top.
            unsafe { ffi::lua_error(state) }
        }
        _ => {
            // SAFETY: invariant 1; no values go with it.
            unsafe { ffi::lua_yield(state, 0) }
        }
    }
}

/// Asks the registered function.
unsafe extern "C-unwind" fn hook(state: *mut lua_State, _: *mut lua_Debug) {
    // SAFETY: invariant 2.
    unsafe { ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, WATCHER.as_ptr()) };
    // SAFETY: invariants 1 and 3: an error passes through nothing but this frame.
    unsafe { ffi::lua_call(state, 0, 2) };
    // SAFETY: invariant 3: the function answers the kind of turn.
    let turn = unsafe { ffi::lua_tointeger(state, -2) };
    if turn == RAISE {
        // SAFETY: invariant 1; the value to raise is on top.
        unsafe { ffi::lua_error(state) };
    }
    // SAFETY: invariant 2: the two answers go.
    unsafe { ffi::lua_settop(state, -3) };
    if turn == SUSPEND {
        // SAFETY: invariant 1; a hook that counts may suspend without values.
        unsafe { ffi::lua_yield(state, 0) };
    }
}

#[cfg(test)]
mod tests;
