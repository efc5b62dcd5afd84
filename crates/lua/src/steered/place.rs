//! Whether Lua can suspend the running coroutine where it stands.
//!
//! Lua 5.1 suspends nothing below a metamethod, below what `for` calls, or below a function of C
//! that calls one of Lua. It counts such calls, and refuses with an error that ends the coroutine.
//! Its interface does not tell the count, so that it is read where the state has it.
//!
//! ```text
//!   a turn is over ─► Lua can suspend it there: it does
//!                 └─► it cannot: put off ─► a function returns ─► the hook looks before the next
//!                                              instruction: can it now?
//! ```

use std::cell::Cell;
use std::ffi::{c_int, c_ushort, c_void};

use mlua::ffi::{self, lua_State};
use mlua::{Error, Lua, Result};

/// How the state of a coroutine begins in Lua 5.1.
#[repr(C)]
struct Head {
    next: *mut c_void,
    kind: u8,
    mark: u8,
    status: u8,
    pointers: [*mut c_void; 9],
    sizes: [c_int; 2],
    /// Calls from C that are under way.
    calls: c_ushort,
    /// The same when it was resumed.
    calls_at_resume: c_ushort,
    hook_mask: u8,
    allows_hooks: u8,
    hook_count: c_int,
    hook_count_left: c_int,
    hook: *const c_void,
}

/// The state of the running coroutine, as the last called function of this crate has seen it.
#[derive(Debug, Default)]
pub struct Place {
    is_fixed: Cell<bool>,
    /// A coroutine that has resumed it, or one further out, cannot be suspended.
    is_outer_fixed: Cell<bool>,
    is_put_off: Cell<bool>,
}

impl Place {
    /// Whether Lua cannot suspend it: [`Turn::Suspend`](super::Turn::Suspend) would be an error.
    pub fn is_fixed(&self) -> bool {
        self.is_fixed.get()
    }

    /// It is asked to suspend as soon as it can be.
    pub fn put_off(&self) {
        self.is_put_off.set(true);
    }

    /// A coroutine is about to be resumed from outside of Lua.
    pub fn begin(&self) {
        self.is_fixed.set(false);
        self.is_outer_fixed.set(false);
        self.is_put_off.set(false);
    }

    pub(super) fn is_put_off(&self) -> bool {
        self.is_put_off.get()
    }

    /// Looks at the coroutine that runs.
    ///
    /// # Safety
    /// `state` runs a function of this crate.
    pub(super) unsafe fn look(&self, state: *mut lua_State) -> bool {
        // SAFETY: as the caller says.
        let is_fixed = self.is_outer_fixed.get() || unsafe { is_fixed(state) };
        self.is_fixed.set(is_fixed);
        is_fixed
    }

    /// The coroutine is about to resume another one: what [`leave`](Self::leave) is to be given
    /// afterwards.
    ///
    /// # Safety
    /// As for [`look`](Self::look).
    pub(super) unsafe fn enter(&self, state: *mut lua_State) -> bool {
        let before = self.is_outer_fixed.get();
        // SAFETY: as the caller says.
        let is_fixed = unsafe { self.look(state) };
        self.is_outer_fixed.set(is_fixed);
        before
    }

    pub(super) fn leave(&self, before: bool) {
        self.is_outer_fixed.set(before);
    }
}

/// Whether there are calls from C within the coroutine.
///
/// # Safety
/// `state` runs a function of this crate.
pub(super) unsafe fn is_fixed(state: *mut lua_State) -> bool {
    // SAFETY: invariant 6.
    let head = unsafe { &*state.cast::<Head>() };
    head.calls > head.calls_at_resume
}

/// Compares what Lua's interface tells of a state with what is read there.
///
/// # Errors
/// It is laid out in another way; what the interpreter says: no memory.
pub(super) fn check_layout(lua: &Lua) -> Result<()> {
    let mut is_equal = false;
    let compare = |state: *mut lua_State| {
        // SAFETY: a state of Lua 5.1 is larger than this, and nothing is made of what is read but
        // comparisons.
        let head = unsafe { &*state.cast::<Head>() };
        // SAFETY: invariant 4.
        let mask = unsafe { ffi::lua_gethookmask(state) };
        // SAFETY: invariant 4.
        let count = unsafe { ffi::lua_gethookcount(state) };
        // SAFETY: invariant 4.
        let status = unsafe { ffi::lua_status(state) };
        is_equal = c_int::from(head.hook_mask) == mask
            && head.hook_count == count
            && c_int::from(head.status) == status
            && c_int::from(head.kind) == ffi::LUA_TTHREAD
            && head.hook == super::hook as *const c_void;
    };
    // SAFETY: invariant 4; the closure leaves the stack as it is.
    unsafe { lua.exec_raw::<()>((), compare) }?;
    match is_equal {
        true => Ok(()),
        false => Err(Error::runtime("the interpreter is none of Lua 5.1")),
    }
}
