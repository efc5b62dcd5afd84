//! What functions go over, in bytes: hooks count instructions, and one call may take as long as a
//! million of them.
//!
//! ```text
//!   a function of Lua's own ─ measured ─┐
//!   a function of Rust ──── Meter::spend ┴─► it is used up ─► the hook looks right after the call
//! ```

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

use mlua::ffi::{self, lua_State};
use mlua::{Function, LightUserData, Lua, Result};

use super::hook;
use super::place::Place;

/// Bytes after which it is time to ask whether to go on: some ten microseconds of what is quick, a
/// millisecond of what is slow.
const METERED_BYTES: usize = 64 << 10;

/// Bytes that functions have gone over since the last question whether to go on, and the [`Place`]
/// of the running coroutine. One for each [`Lua`].
#[derive(Debug, Default)]
pub struct Meter {
    bytes: Cell<usize>,
    place: Place,
}

/// What keeps the meter of a [`Lua`].
struct Kept(Rc<Meter>);

/// What a function of Lua's own goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The strings that it is given, and those that it answers.
    All,
    /// Of what it is given as much as it answers.
    Answers,
}

impl Meter {
    /// The meter of `lua`.
    pub fn of(lua: &Lua) -> Rc<Self> {
        if let Some(kept) = lua.app_data_ref::<Kept>() {
            return Rc::clone(&kept.0);
        }
        let meter = Rc::new(Self::default());
        lua.set_app_data(Kept(Rc::clone(&meter)));
        meter
    }

    /// Counts so many bytes.
    pub fn spend(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
    }

    /// It is time to ask, right after the call of a function of this crate that is under way.
    pub fn use_up(&self) {
        self.spend(METERED_BYTES);
    }

    /// The state of the running coroutine.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether it is time to ask.
    pub(super) fn is_used_up(&self) -> bool {
        self.bytes.get() >= METERED_BYTES
    }

    /// It was asked.
    pub(super) fn reset(&self) {
        self.bytes.set(0);
    }

    /// The same meter as functions of C have it among their upvalues.
    pub(super) fn pointer(meter: &Rc<Self>) -> LightUserData {
        LightUserData(Rc::as_ptr(meter).cast_mut().cast::<c_void>())
    }

    /// The meter that is the upvalue `index` of the function that runs.
    ///
    /// # Safety
    /// A function of this module or of [`super`] runs, which has been given that upvalue.
    pub(super) unsafe fn of_running<'m>(state: *mut lua_State, index: c_int) -> &'m Self {
        // SAFETY: invariant 3.
        let pointer = unsafe { ffi::lua_touserdata(state, ffi::lua_upvalueindex(index)) }.cast::<Self>();
        // SAFETY: invariant 5.
        unsafe { &*pointer }
    }

    /// Has the hook look before the coroutine's next instruction if it is time, or was put off.
    ///
    /// # Safety
    /// A function of C runs on `state`.
    pub(super) unsafe fn look_soon(&self, state: *mut lua_State) {
        if !self.is_used_up() && !self.place.is_put_off() {
            return;
        }
        // SAFETY: invariant 4.
        let mask = unsafe { ffi::lua_gethookmask(state) };
        if mask & ffi::LUA_MASKCOUNT != 0 {
            // SAFETY: invariant 4; the hook is this crate's, and counts as before after its next
            // look.
            unsafe { ffi::lua_sethook(state, Some(hook), ffi::LUA_MASKCOUNT, 1) };
        }
    }
}

/// `function`, a function of C of Lua's own libraries, whose bytes count. It runs as it did, in the
/// same place: its errors are the same.
///
/// # Errors
/// `function` is none of C, or has upvalues; what the interpreter says: no memory.
pub fn measured(lua: &Lua, function: &Function, measure: Measure) -> Result<Function> {
    let runner = match measure {
        Measure::All => run::<true>,
        Measure::Answers => run::<false>,
    };
    around(lua, function, runner)
}

/// `resume`, which is `coroutine.resume`, for code that runs within coroutines. It keeps track of
/// whether a resumed coroutine can be suspended together with those that resumed it.
///
/// # Errors
/// As those of [`measured`].
pub fn resuming(lua: &Lua, resume: &Function) -> Result<Function> {
    around(lua, resume, enter)
}

/// `runner` as a closure around `function` and the meter.
fn around(lua: &Lua, function: &Function, runner: ffi::lua_CFunction) -> Result<Function> {
    let meter = Meter::of(lua);
    let close = |state| {
        // SAFETY: invariant 4.
        let is_of_c = unsafe { ffi::lua_iscfunction(state, -2) } != 0;
        // SAFETY: invariant 4; a name would be pushed beside the upvalue, and both go with the
        // error.
        let is_plain = unsafe { ffi::lua_getupvalue(state, -2, 1) }.is_null();
        match is_of_c && is_plain {
            // SAFETY: invariant 3: the function and the meter become the upvalues.
            true => unsafe { ffi::lua_pushcclosure(state, runner, 2) },
            // SAFETY: invariant 4: what is left is no function.
            false => unsafe { ffi::lua_settop(state, 0) },
        }
    };
    // SAFETY: invariant 4; the closure leaves the function on the stack, or nothing, which is no
    // function.
    unsafe { lua.exec_raw((function, Meter::pointer(&meter)), close) }
}

/// The function of C around `coroutine.resume`, its first upvalue.
unsafe extern "C-unwind" fn enter(state: *mut lua_State) -> c_int {
    // SAFETY: invariant 3.
    let meter = unsafe { Meter::of_running(state, 2) };
    // SAFETY: invariant 3.
    let function = unsafe { ffi::lua_tocfunction(state, ffi::lua_upvalueindex(1)) };
    let Some(function) = function else { return 0 };
    // SAFETY: this is a function of this crate.
    let before = unsafe { meter.place().enter(state) };
    // SAFETY: invariants 1 and 2, as in `run`. Where it raises an error what was entered is left
    // with the coroutine further out, or when a turn begins.
    let answered = unsafe { function(state) };
    meter.place().leave(before);
    // SAFETY: this is a function of C.
    unsafe { meter.look_soon(state) };
    answered
}

/// The function of C around another one, its first upvalue.
unsafe extern "C-unwind" fn run<const READS_ALL: bool>(state: *mut lua_State) -> c_int {
    // SAFETY: invariant 3.
    let meter = unsafe { Meter::of_running(state, 2) };
    if READS_ALL {
        // SAFETY: invariant 4.
        let count = unsafe { ffi::lua_gettop(state) };
        // SAFETY: invariant 4.
        meter.spend(unsafe { string_bytes(state, 1, count) });
    }
    // SAFETY: invariant 3.
    let function = unsafe { ffi::lua_tocfunction(state, ffi::lua_upvalueindex(1)) };
    let Some(function) = function else { return 0 };
    // SAFETY: invariants 1 and 2: its errors pass through nothing but this frame, and all slots are
    // still free.
    let answered = unsafe { function(state) };
    // SAFETY: invariant 4.
    let top = unsafe { ffi::lua_gettop(state) };
    // SAFETY: invariant 4: the answers are on top.
    meter.spend(unsafe { string_bytes(state, top - answered + 1, top) });
    // SAFETY: this is a function of C.
    unsafe { meter.look_soon(state) };
    answered
}

/// The bytes of the strings from `first` to `last` on the stack.
///
/// # Safety
/// These are places of the stack of a function of C that runs.
unsafe fn string_bytes(state: *mut lua_State, first: c_int, last: c_int) -> usize {
    let mut bytes = 0;
    for index in first..=last {
        // SAFETY: as the caller says.
        if unsafe { ffi::lua_type(state, index) } == ffi::LUA_TSTRING {
            // SAFETY: as above; it is a string, which nothing makes another value of.
            bytes += unsafe { ffi::lua_objlen(state, index) };
        }
    }
    bytes
}
