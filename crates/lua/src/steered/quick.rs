//! Searches in texts: functions whose calls are so short that a call of Rust by way of values would
//! take most of their time.
//!
//! ```text
//!   called ─► Seek::seek ─► parts of the text: pushed at once
//!                  └─► none: the steered function, which may take its time, suspend, raise
//! ```

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use mlua::ffi::{self, lua_State};
use mlua::{AnyUserData, Function, LightUserData, Lua, LuaString, Result, UserData};

use super::meter::Meter;
use super::{Steered, steer};

/// Parts that a search finds at once, at most.
pub const FOUND_MAX: usize = 8;

/// What a search has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The text from here to there.
    Bytes(usize, usize),
    /// A place, as a number.
    Position(usize),
}

/// What a call of a search is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given<'g> {
    /// Nothing.
    Nothing,
    /// Nil or false.
    None,
    /// A text.
    Text(&'g [u8]),
}

/// A search in a text.
pub trait Seek: 'static {
    /// Goes on in `text`, which is the same each time; answers how many of `found` it has filled.
    /// `None` leaves the call to the steered function, as if this had not been asked.
    ///
    /// It must not use the interpreter.
    fn seek(
        &self,
        text: &[u8],
        pattern: &[u8],
        given: Given<'_>,
        found: &mut [Found; FOUND_MAX],
    ) -> Option<usize>;
}

/// A search as scripts hold it.
#[derive(Debug)]
pub struct Kept<S>(Rc<S>);

impl<S: 'static> UserData for Kept<S> {}

impl<S> Kept<S> {
    /// The search.
    pub fn get(&self) -> Rc<S> {
        Rc::clone(&self.0)
    }
}

/// A function that goes on with a search, and the value that stands for the search: see [`Seek`].
///
/// `slow` is called with that value, with the text and the pattern, and with the argument where the
/// function `takes` one: no more than that is looked at. The search itself holds nothing of Lua's:
/// a script may keep any number of them.
///
/// # Errors
/// What the interpreter says: no memory.
pub fn quick<S: Seek>(
    lua: &Lua,
    slow: &Steered,
    search: Rc<S>,
    (text, pattern): (&LuaString, &LuaString),
    takes: bool,
) -> Result<(Function, AnyUserData)> {
    let meter = Meter::pointer(&Meter::of(lua));
    let pointer = LightUserData(Rc::as_ptr(&search).cast_mut().cast::<c_void>());
    let kept = lua.create_userdata(Kept(search))?;
    let function = match takes {
        true => step::<S, true>,
        false => step::<S, false>,
    };
    let close = |state| {
        // SAFETY: invariants 2 and 3: what was given is on top, and becomes the upvalues.
        unsafe { ffi::lua_pushcclosure(state, function, 7) }
    };
    let upvalues = (&slow.stacked, &slow.packed, meter, &kept, pointer, text, pattern);
    // SAFETY: invariant 4; the closure leaves exactly the function on the stack.
    let step = unsafe { lua.exec_raw::<Function>(upvalues, close) }?;
    Ok((step, kept))
}

const KEPT: c_int = 4;
const SEARCH: c_int = 5;
const TEXT: c_int = 6;
const PATTERN: c_int = 7;

/// The function of C around a search. Its first upvalues are those of `steer`.
unsafe extern "C-unwind" fn step<S: Seek, const TAKES: bool>(state: *mut lua_State) -> c_int {
    // SAFETY: invariant 3.
    let meter = unsafe { Meter::of_running(state, 3) };
    // SAFETY: invariant 3.
    let search = unsafe { ffi::lua_touserdata(state, ffi::lua_upvalueindex(SEARCH)) }.cast::<S>();
    // SAFETY: the upvalue `KEPT` holds it too, as long as the closure is there.
    let search = unsafe { &*search };
    // SAFETY: invariant 3: it is a string.
    let text = unsafe { bytes_at(state, ffi::lua_upvalueindex(TEXT)) };
    // SAFETY: invariant 3: it is a string.
    let pattern = unsafe { bytes_at(state, ffi::lua_upvalueindex(PATTERN)) };
    // SAFETY: this is a function of C.
    let given = if TAKES { unsafe { given(state) } } else { Some(Given::Nothing) };
    let mut found = [Found::Position(0); FOUND_MAX];
    // What panics is left to the steered function as well, which may.
    let seek = AssertUnwindSafe(|| search.seek(text, pattern, given?, &mut found));
    let Some(count) = catch_unwind(seek).ok().flatten() else {
        // SAFETY: the frame holds nothing but numbers and what the closure keeps.
        return unsafe { step_slowly(state, TAKES) };
    };
    let count = count.min(FOUND_MAX);
    for part in found.iter().take(count) {
        match *part {
            Found::Position(at) => {
                // SAFETY: invariant 2.
                unsafe { ffi::lua_pushnumber(state, at as f64) }
            }
            Found::Bytes(start, end) => {
                let bytes = text.get(start..end).unwrap_or_default();
                // SAFETY: invariants 1 and 2; the text is the closure's.
                unsafe { ffi::lua_pushlstring(state, bytes.as_ptr().cast(), bytes.len()) };
            }
        }
    }
    // SAFETY: this is a function of C.
    unsafe { meter.look_soon(state) };
    count as c_int
}

/// What the steered function does with the search.
///
/// # Safety
/// As for `step`, whose frame this is part of.
#[cold]
unsafe fn step_slowly(state: *mut lua_State, takes: bool) -> c_int {
    // SAFETY: invariant 4.
    let count = unsafe { ffi::lua_gettop(state) };
    // SAFETY: invariant 2: what is not looked at goes.
    unsafe { ffi::lua_settop(state, count.min(c_int::from(takes))) };
    for upvalue in [PATTERN, TEXT, KEPT] {
        // SAFETY: invariants 2 and 3.
        unsafe { ffi::lua_pushvalue(state, ffi::lua_upvalueindex(upvalue)) };
        // SAFETY: invariant 2: the search and its texts go below the argument.
        unsafe { ffi::lua_insert(state, 1) };
    }
    // SAFETY: invariant 3: the first upvalues are those of `steer`.
    unsafe { steer(state) }
}

/// The first argument; `None` if that is something else.
///
/// # Safety
/// A function of C runs on `state`, and nothing is made of the text after its arguments have gone.
unsafe fn given<'g>(state: *mut lua_State) -> Option<Given<'g>> {
    // SAFETY: invariant 4.
    match unsafe { ffi::lua_type(state, 1) } {
        ffi::LUA_TNONE => Some(Given::Nothing),
        ffi::LUA_TNIL => Some(Given::None),
        // SAFETY: it is a string.
        ffi::LUA_TSTRING => Some(Given::Text(unsafe { bytes_at(state, 1) })),
        // SAFETY: invariant 4.
        ffi::LUA_TBOOLEAN if unsafe { ffi::lua_toboolean(state, 1) } == 0 => Some(Given::None),
        _ => None,
    }
}

/// The bytes of the string at `index`.
///
/// # Safety
/// There is a string, and it stays there as long as its bytes are looked at.
unsafe fn bytes_at<'b>(state: *mut lua_State, index: c_int) -> &'b [u8] {
    let mut len = 0;
    // SAFETY: as the caller says.
    let start = unsafe { ffi::lua_tolstring(state, index, &raw mut len) };
    if start.is_null() {
        return &[];
    }
    // SAFETY: Lua's strings stay where they are, and as they are.
    unsafe { std::slice::from_raw_parts(start.cast(), len) }
}
