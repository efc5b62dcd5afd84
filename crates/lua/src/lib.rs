//! Lua for scripts: what its safe interface cannot do, and the libraries that scripts use.
//!
//! [`mlua`] runs Lua without `unsafe`. Seven things that scripts need are not in its safe part, and
//! are here:
//!
//! ```text
//!   steered    a function of Rust that answers, raises any value, or suspends its coroutine
//!   watch      a function of Rust that is asked again and again: go on, raise, suspend
//!   measured   a function of Lua's own libraries whose bytes count: that is asked the sooner
//!   place      whether Lua can suspend the coroutine that runs
//!   quick      a function that finds one part of a text after the other, without a call of Rust's
//!   line       where a coroutine stands that has failed
//!   put_list   many values of a table at once, and `put_pairs`
//! ```
//! A function of C keeps its caller's frame, also where the call is `return f()`: errors have the
//! right line.
//!
//! [`Sandbox`] has the globals of scripts: Lua's own, and `cjson`, `cmsgpack`, `struct` and `bit`.
//! What these make and go over a [`Budget`] counts, which asks its [`Host`].
//!
//! # Not here
//! - The commands that scripts call, and when others have their turn: crate `firn-server`.
//!
//! # Safety model
//! All `unsafe` is in `steered`. Its functions of C run on a state that Lua has given them, and
//! rest on these:
//! 1. **Frames without destructors.** `lua_error` and `lua_yield` leave by `longjmp`. The functions
//!    of C that call them hold nothing that would have to be dropped, nor does any Rust between
//!    them and Lua.
//! 2. **Stack.** A function of C has at least `LUA_MINSTACK` (20) free slots, and uses fewer than
//!    ten, apart from the arguments, which are there already.
//! 3. **Own closures.** Only this module makes the functions of C. The first upvalue is the
//!    function that they run; the meter is among the others.
//! 4. **One state.** A pointer to a state is used only while the `Lua` that owns it is borrowed.
//! 5. **One meter.** The meter of a `Lua` is part of its application data, under a type that only
//!    this module has. It stays as long as functions can be called.
//! 6. **Layout.** A state begins as in Lua 5.1, whose sources `mlua` is built with. `watch` checks
//!    that, and every interpreter of scripts begins with it.

pub mod bounds;
#[expect(unsafe_code, reason = "the interpreter's C interface")]
mod steered;
mod libraries;

pub use libraries::{
    Budget, Complaint, Cost, Held, Host, SANDBOX_NAME, Sandbox, Search, general, number, text_of,
};
pub use mlua;
pub use steered::{
    Arguments, FOUND_MAX, Found, Given, Kept, Measure, Meter, PUT_MAX, Place, Seek, Steered, Turn, line,
    measured, put_list, put_pairs, quick, resuming, steered, watch,
};
