//! Functions that steer the coroutine they are called in.

use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;

use mlua::ffi::{self, lua_Debug, lua_State};
use mlua::{Function, IntoLuaMulti, Lua, MultiValue, Result, Thread, Value};

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

/// The line of the first function of a script in which `thread`, which has failed, stands; `None` if there is none. A function
/// is a script's if the name of its chunk is `source`.
///
/// # Errors
/// What the interpreter says: no memory.
pub fn line(lua: &Lua, thread: &Thread, source: &CStr) -> Result<Option<i64>> {
    let look = |state| {
        // SAFETY: invariant 4: `thread` is on top of the stack.
        let failed = unsafe { ffi::lua_tothread(state, -1) };
        let found = line_of(failed, source);
        // SAFETY: invariant 2.
        unsafe { ffi::lua_settop(state, 0) };
        // SAFETY: invariant 2.
        unsafe { ffi::lua_pushinteger(state, found.map_or(-1, ffi::lua_Integer::from)) };
    };
    // SAFETY: invariant 4; the closure leaves exactly a number on the stack.
    let found: i64 = unsafe { lua.exec_raw(thread, look) }?;
    Ok((found >= 0).then_some(found))
}

fn line_of(thread: *mut lua_State, source: &CStr) -> Option<c_int> {
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
            let name = unsafe { CStr::from_ptr(found.source) };
            if name == source {
                return Some(found.currentline);
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
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use mlua::{LuaOptions, StdLib};

    use super::*;

    fn lua() -> Lua {
        Lua::new_with(StdLib::ALL_SAFE, LuaOptions::new()).unwrap()
    }

    fn thread(lua: &Lua, source: &str) -> Thread {
        let function = lua.load(source).set_name("@script").into_function().unwrap();
        lua.create_thread(function).unwrap()
    }

    /// A function that does what its first argument says with the others.
    fn obey(lua: &Lua) {
        let obey = steered(lua, |lua, mut arguments| {
            Ok(match arguments.pop_front() {
                Some(Value::String(word)) if word == "raise" => {
                    Turn::Raise(arguments.pop_front().unwrap_or_default())
                }
                Some(Value::String(word)) if word == "suspend" => Turn::Suspend,
                Some(Value::String(word)) if word == "line" => {
                    let line = lua.inspect_stack(2, |debug| debug.current_line());
                    Turn::Answer(line.into_lua_multi(lua)?)
                }
                _ => Turn::Answer(arguments),
            })
        });
        lua.globals().set("obey", obey.unwrap()).unwrap();
    }

    fn resume(lua: &Lua, thread: &Thread, arguments: impl IntoLuaMulti) -> MultiValue {
        let resume: Function = lua.load("return coroutine.resume").eval().unwrap();
        let mut arguments = arguments.into_lua_multi(lua).unwrap();
        arguments.push_front(Value::Thread(thread.clone()));
        resume.call(arguments).unwrap()
    }

    #[test]
    fn values_are_answered_and_raised_as_they_are() {
        let lua = lua();
        obey(&lua);
        let found: (i64, Option<i64>, i64) = lua.load("return obey('answer', 1, nil, 3)").eval().unwrap();
        assert_eq!(found, (1, None, 3));
        assert_eq!(lua.load("return select('#', obey('answer'))").eval::<i64>().unwrap(), 0);
        let text = "local t = {}; local ok, e = pcall(obey, 'raise', t); return not ok and e == t";
        assert!(lua.load(text).eval::<bool>().unwrap());
        // A caller that does nothing but call is still there.
        assert_eq!(lua.load("\n\nreturn obey('line')").eval::<i64>().unwrap(), 3);
    }

    #[test]
    fn a_suspended_call_answers_what_it_is_resumed_with() {
        let lua = lua();
        obey(&lua);
        let thread = thread(&lua, "return obey('suspend') + obey('suspend')");
        assert_eq!(resume(&lua, &thread, ()).len(), 1);
        assert_eq!(resume(&lua, &thread, 3).len(), 1);
        assert_eq!(resume(&lua, &thread, 4)[1].as_integer(), Some(7));
        let sorted = self::thread(&lua, "table.sort({1, 2}, function() return obey('suspend') end)");
        let answer = resume(&lua, &sorted, ());
        assert_eq!(answer[0], Value::Boolean(false));
        assert!(answer[1].to_string().unwrap().contains("attempt to yield"), "{answer:?}");
    }

    #[test]
    fn who_failed_stands_where_it_failed() {
        let lua = lua();
        obey(&lua);
        for (source, expected) in [
            ("\nerror('x', 0)", Some(2)),
            ("\n\nreturn obey('raise', {})", Some(3)),
            ("local x\nreturn x + 1", Some(2)),
            ("local function f()\n error({}) end\nlocal r = f() return r", Some(2)),
        ] {
            let thread = thread(&lua, source);
            assert_eq!(resume(&lua, &thread, ())[0], Value::Boolean(false));
            assert_eq!(line(&lua, &thread, c"@script").unwrap(), expected, "{source}");
            assert_eq!(line(&lua, &thread, c"@other").unwrap(), None);
        }
    }

    #[test]
    fn a_watcher_suspends_and_ends_what_goes_on_for_ever() {
        let lua = lua();
        let asked = Rc::new(Cell::new(0));
        let counter = Rc::clone(&asked);
        watch(&lua, 1000, move |lua| {
            counter.set(counter.get() + 1);
            Ok(match counter.get() {
                1 => Turn::Answer(MultiValue::new()),
                2 | 3 => Turn::Suspend,
                _ => Turn::Raise(Value::String(lua.create_string("enough")?)),
            })
        })
        .unwrap();
        let thread = thread(&lua, "local n = 0 while true do n = n + 1 end");
        for expected in [2, 3] {
            assert_eq!(resume(&lua, &thread, ())[0], Value::Boolean(true));
            assert_eq!(asked.get(), expected);
        }
        let answer = resume(&lua, &thread, ());
        assert_eq!(answer[0], Value::Boolean(false));
        assert_eq!(answer[1].to_string().unwrap(), "enough");
    }
}
