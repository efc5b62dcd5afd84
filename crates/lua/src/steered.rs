//! Functions that steer the coroutine they are called in.

mod arguments;
mod meter;
mod place;
mod quick;
mod tables;

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::rc::Rc;

use mlua::ffi::{self, lua_Debug, lua_State};
use mlua::{Function, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, Thread, Value};

pub use arguments::Arguments;
pub use meter::{Measure, Meter, measured, resuming};
pub use place::Place;
pub use quick::{FOUND_MAX, Found, Given, Kept, Seek, quick};
pub use tables::{PUT_MAX, put_list, put_pairs};

/// What happens after a function was called.
#[derive(Debug)]
pub enum Turn {
    /// It answers these values.
    Answer(MultiValue),
    /// It answers so many values, the first ones of the table: what are many are not held.
    AnswerOf(Table, usize),
    /// It raises this value as an error.
    Raise(Value),
    /// The coroutine is suspended without values; the function answers what it is resumed with.
    ///
    /// Where Lua cannot suspend ([`Place::is_fixed`]), an error is raised instead.
    Suspend,
}

const ANSWER: ffi::lua_Integer = 0;
const RAISE: ffi::lua_Integer = 1;
const SUSPEND: ffi::lua_Integer = 2;
const ANSWER_OF: ffi::lua_Integer = 3;

/// Where the function that [`watch`] asks is registered.
const WATCHER: &CStr = c"firn.watcher";

/// Where the [`Probe`] of [`watch`] is registered.
const PROBE: &CStr = c"firn.probe";

/// Arguments that a function of Rust gets on Lua's stack, and holds; more come in a table. The
/// stack of a function of C ends at 8 000 values, all of which a script may give.
const STACKED_MAX: c_int = 200;

/// Instructions between two looks at the memory. One instruction may write as much memory as there
/// is, so that the more there is, the sooner the clock is asked.
const LOOK: c_int = 128;

/// The same where there is more than [`MUCH_KIB`].
const LOOK_OFTEN: c_int = 8;
const MUCH_KIB: c_int = 16 << 10;

/// Looks after which the clock is asked where there is little memory; each so many KiB count as one
/// more look.
const LOOKS: c_int = 32;
const LOOK_KIB: c_int = 512;

/// What the hook looks at before it calls the watcher's `f`.
struct Probe {
    looks: Cell<c_int>,
    /// What functions have gone over meanwhile.
    meter: Rc<Meter>,
    /// Whether it is time to ask.
    is_due: Box<dyn Fn() -> bool>,
}

impl Turn {
    fn into_values(self, lua: &Lua) -> Result<MultiValue> {
        let mut values = match self {
            Turn::Answer(mut values) => {
                values.push_front(Value::Integer(ANSWER));
                values
            }
            Turn::AnswerOf(table, count) => (ANSWER_OF, table, count).into_lua_multi(lua)?,
            Turn::Raise(value) => (RAISE, value).into_lua_multi(lua)?,
            Turn::Suspend => SUSPEND.into_lua_multi(lua)?,
        };
        values.shrink_to_fit();
        Ok(values)
    }
}

/// A function of Rust in the form that functions of C call.
#[derive(Clone, Debug)]
pub struct Steered {
    stacked: Function,
    packed: Function,
}

impl Steered {
    /// Calls `f` with the arguments, and does what it answers.
    ///
    /// In `f` the caller stands at level 2 of the stack.
    ///
    /// # Errors
    /// What the interpreter says: no memory.
    pub fn new(lua: &Lua, f: impl Fn(&Lua, Arguments) -> Result<Turn> + 'static) -> Result<Self> {
        let f = Rc::new(f);
        let of_stacked = Rc::clone(&f);
        let stacked = lua.create_function(move |lua, arguments: MultiValue| {
            of_stacked(lua, Arguments::held(arguments))?.into_values(lua)
        })?;
        let packed = lua.create_function(move |lua, (table, count): (Table, usize)| {
            f(lua, Arguments::packed(table, count))?.into_values(lua)
        })?;
        Ok(Self { stacked, packed })
    }
}

/// A function of Lua that takes any arguments and does what `f` answers: see [`Steered::new`].
///
/// # Errors
/// What the interpreter says: no memory.
pub fn steered(lua: &Lua, f: impl Fn(&Lua, Arguments) -> Result<Turn> + 'static) -> Result<Function> {
    let Steered { stacked, packed } = Steered::new(lua, f)?;
    let meter = Meter::pointer(&Meter::of(lua));
    let close = |state| {
        // SAFETY: invariants 2 and 3: both functions and the meter are on top, and become the
        // upvalues.
        unsafe { ffi::lua_pushcclosure(state, steer, 3) }
    };
    // SAFETY: invariant 4; the closure leaves exactly the function on the stack.
    unsafe { lua.exec_raw((stacked, packed, meter), close) }
}

/// Has `f` called again and again by every coroutine made from now on, whenever `is_due` says so.
/// An answer of `f` means to go on.
///
/// `is_due` is cheap. It is asked after 4 096 instructions, or after fewer where there is much
/// memory. One instruction, such as joining two strings, may take time in proportion to the memory.
/// It is also asked before the next instruction once a call of a function of this crate has used up
/// the [`Meter`]. It must not use the interpreter. Where that was put off ([`Place::put_off`]), `f`
/// is called too as soon as the coroutine can be suspended.
///
/// # Errors
/// The interpreter is none of Lua 5.1; what it says: no memory.
pub fn watch(
    lua: &Lua,
    is_due: impl Fn() -> bool + 'static,
    f: impl Fn(&Lua) -> Result<Turn> + 'static,
) -> Result<()> {
    let probe = Rc::new(Probe { looks: Cell::new(0), meter: Meter::of(lua), is_due: Box::new(is_due) });
    let pointer = Rc::as_ptr(&probe).cast_mut().cast::<c_void>();
    let inner = lua.create_function(move |lua, ()| {
        // The function in the registry is what keeps the probe.
        let _kept = &probe;
        f(lua)?.into_values(lua)
    })?;
    lua.set_named_registry_value(&WATCHER.to_string_lossy(), inner)?;
    lua.set_named_registry_value(&PROBE.to_string_lossy(), mlua::LightUserData(pointer))?;
    let set = |state| {
        // SAFETY: invariant 4; the hook finds its function and its probe in the registry.
        unsafe { ffi::lua_sethook(state, Some(hook), ffi::LUA_MASKCOUNT, LOOK) };
    };
    // SAFETY: invariant 4; the closure leaves the stack as it is.
    unsafe { lua.exec_raw::<()>((), set) }?;
    place::check_layout(lua)
}

/// Where `thread`, which has failed, stands: the innermost function of Lua whose chunk is not
/// called `other`. Gives the name of its chunk and the line; `None` if there is no such function.
///
/// # Errors
/// What the interpreter says: no memory.
pub fn line(lua: &Lua, thread: &Thread, other: &CStr) -> Result<Option<(LuaString, i64)>> {
    let look = |state| {
        // SAFETY: invariant 4: `thread` is on top of the stack.
        let failed = unsafe { ffi::lua_tothread(state, -1) };
        let found = line_of(failed, other);
        let (source, line) = found.unwrap_or((c"", -1));
        // SAFETY: invariant 2; `source` lives as long as the function does, which is on the stack
        // of `thread`.
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
        // SAFETY: invariant 4: `thread` belongs to the state that is borrowed; Lua writes what it
        // knows to `debug`.
        if unsafe { ffi::lua_getstack(thread, level, debug.as_mut_ptr()) } == 0 {
            return None;
        }
        // SAFETY: as above; `lua_getstack` has said which function is meant.
        unsafe { ffi::lua_getinfo(thread, c"Sl".as_ptr(), debug.as_mut_ptr()) };
        // SAFETY: zeroes are a value of every field.
        let found = unsafe { debug.assume_init_ref() };
        if !found.source.is_null() {
            // SAFETY: it is a string that ends in a zero, which the function keeps, and the
            // function is on the stack.
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
    // SAFETY: invariant 3.
    let meter = unsafe { Meter::of_running(state, 3) };
    // SAFETY: this is a function of this crate.
    unsafe { meter.place().look(state) };
    // SAFETY: invariant 4.
    let count = unsafe { ffi::lua_gettop(state) };
    let given = if count > STACKED_MAX {
        // SAFETY: invariants 1 and 2.
        unsafe { pack(state, count) };
        2
    } else {
        count
    };
    // SAFETY: invariants 2 and 3.
    unsafe { ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1 + c_int::from(count > STACKED_MAX))) };
    // SAFETY: invariant 2: the function goes below its arguments.
    unsafe { ffi::lua_insert(state, 1) };
    // SAFETY: invariants 1 and 3: an error passes through nothing but this frame.
    unsafe { ffi::lua_call(state, given, ffi::LUA_MULTRET) };
    // SAFETY: this is a function of C.
    unsafe { meter.look_soon(state) };
    // SAFETY: invariant 3: the function answers at least the kind of turn.
    match unsafe { ffi::lua_tointeger(state, 1) } {
        ANSWER => {
            // SAFETY: invariant 4.
            let count = unsafe { ffi::lua_gettop(state) };
            count - 1
        }
        ANSWER_OF => {
            // SAFETY: invariant 3: a table and a number are behind the kind.
            unsafe { spread(state) }
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

/// Puts a table with the `count` values that are all of the stack in their place, and their number.
///
/// # Safety
/// As for `steer`, whose frame this is part of: no memory is an error that passes through it.
unsafe fn pack(state: *mut lua_State, count: c_int) {
    // SAFETY: invariants 1 and 2.
    unsafe { ffi::lua_createtable(state, count, 0) };
    // SAFETY: invariant 2: the table goes below the values.
    unsafe { ffi::lua_insert(state, 1) };
    for index in (1..=count).rev() {
        // SAFETY: invariant 4: the value on top goes into the table at the bottom.
        unsafe { ffi::lua_rawseti(state, 1, ffi::lua_Integer::from(index)) };
    }
    // SAFETY: invariant 2.
    unsafe { ffi::lua_pushinteger(state, ffi::lua_Integer::from(count)) };
}

/// Pushes the values of a table, of which there are as many as the number on top says: how many.
///
/// # Safety
/// As for `steer`, whose frame this is part of: too many are an error that passes through it. The
/// table and the number are the second and the third value of the stack.
unsafe fn spread(state: *mut lua_State) -> c_int {
    // SAFETY: invariant 4.
    let count = unsafe { ffi::lua_tointeger(state, 3) } as c_int;
    // SAFETY: invariant 1.
    unsafe { ffi::luaL_checkstack(state, count, c"too many results".as_ptr()) };
    for index in 1..=count {
        // SAFETY: there is room for all of them.
        unsafe { ffi::lua_rawgeti(state, 2, ffi::lua_Integer::from(index)) };
    }
    count
}

/// The registered probe.
unsafe fn probe<'p>(state: *mut lua_State) -> &'p Probe {
    // SAFETY: invariant 2.
    unsafe { ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, PROBE.as_ptr()) };
    // SAFETY: invariant 4.
    let pointer = unsafe { ffi::lua_touserdata(state, -1) }.cast::<Probe>();
    // SAFETY: invariant 2: the pointer goes.
    unsafe { ffi::lua_settop(state, -2) };
    // SAFETY: `watch` has registered it, and the function beside it in the registry keeps it as
    // long as there are hooks.
    unsafe { &*pointer }
}

/// Whether the probe says that it is time to ask. A coroutine with much memory looks more often
/// from then on, and one that cannot do what was put off also looks when functions return.
unsafe fn is_due(state: *mut lua_State, probe: &Probe) -> bool {
    let place = probe.meter.place();
    // SAFETY: the hook is a function of this crate.
    let is_fixed = unsafe { place.look(state) };
    // SAFETY: invariant 4; nothing is collected by this.
    let kib = unsafe { ffi::lua_gc(state, ffi::LUA_GCCOUNT, 0) };
    let count = if kib > MUCH_KIB { LOOK_OFTEN } else { LOOK };
    let mask = match is_fixed && place.is_put_off() {
        true => ffi::LUA_MASKCOUNT | ffi::LUA_MASKRET,
        false => ffi::LUA_MASKCOUNT,
    };
    // SAFETY: invariant 4.
    let is_so = unsafe { ffi::lua_gethookcount(state) } == count;
    // SAFETY: invariant 4.
    if !is_so || unsafe { ffi::lua_gethookmask(state) } != mask {
        // SAFETY: invariant 4; the hook is what it was.
        unsafe { ffi::lua_sethook(state, Some(hook), mask, count) };
    }
    let can_catch_up = place.is_put_off() && !is_fixed;
    let looks = probe.looks.get() + 1 + kib / LOOK_KIB;
    if looks < LOOKS && !probe.meter.is_used_up() && !can_catch_up {
        probe.looks.set(looks);
        return false;
    }
    probe.looks.set(0);
    probe.meter.reset();
    can_catch_up || (probe.is_due)()
}

/// Asks the registered function when it is time.
unsafe extern "C-unwind" fn hook(state: *mut lua_State, debug: *mut lua_Debug) {
    // SAFETY: Lua gives a hook what has happened.
    if unsafe { (*debug).event } != ffi::LUA_HOOKCOUNT {
        // A function returns. It is still there: what comes next is looked at.
        // SAFETY: invariant 4; the hook is what it was.
        unsafe { ffi::lua_sethook(state, Some(hook), ffi::LUA_MASKCOUNT, 1) };
        return;
    }
    // SAFETY: the hook is a function of this crate.
    let probe = unsafe { probe(state) };
    // SAFETY: invariants 2 and 4.
    if !unsafe { is_due(state, probe) } {
        return;
    }
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
    // SAFETY: the hook is a function of C, too. It may have been put off.
    unsafe { probe.meter.look_soon(state) };
    if turn == SUSPEND {
        // SAFETY: invariant 1; a hook that counts may suspend without values.
        unsafe { ffi::lua_yield(state, 0) };
    }
}

#[cfg(test)]
mod tests;
