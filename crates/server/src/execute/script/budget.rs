//! What a script may make the server hold, and use of its thread: one budget for all that it brings
//! about.
//!
//! ```text
//!   Lua's memory + arguments and replies of commands + what libraries make
//!        + what it will write and send ≤ 256 MiB a script, ≤ 1 GiB all scripts together
//!   coroutines, metamethods, decoders, encoders, commands: a thread's stack, measured as they nest
//! ```

use std::rc::Rc;

use firn_lua::mlua::Lua;

use super::library::Complaint;
use super::stage::Stage;
use crate::bounds::{SCRIPT_BYTES_MAX, SCRIPT_STACK_BYTES_MAX, SCRIPTS_BYTES_MAX};
use crate::failure::{Failure, Result};

/// A script's part of the latter grows and shrinks by so much.
const PART_BYTES: usize = 1 << 20;

/// Stack below which another coroutine may begin: within one, Lua by itself counts to 200 levels.
const STACK_BYTES_OF_COROUTINES: usize = 512 << 10;

/// Memory outside of Lua that is counted until this is dropped.
pub(super) struct Held {
    stage: Rc<Stage>,
    bytes: usize,
}

impl Held {
    pub(super) fn nothing(stage: &Rc<Stage>) -> Self {
        Self { stage: Rc::clone(stage), bytes: 0 }
    }

    /// It is so much now. What is above the limits is there already, and an error.
    pub(super) fn set(&mut self, lua: &Lua, bytes: usize) -> std::result::Result<(), Complaint> {
        if bytes == self.bytes {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.bytes, bytes);
        let held = &self.stage.held_bytes;
        held.set(held.get() + bytes - before);
        if bytes > before {
            self.stage.check_memory(lua, 0)?;
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.stage.held_bytes.set(self.stage.held_bytes.get().saturating_sub(self.bytes));
    }
}

impl Stage {
    /// Counts `bytes` that are about to be made outside of Lua, and gone over.
    ///
    /// # Errors
    /// They would be too many.
    pub(super) fn hold(self: &Rc<Self>, lua: &Lua, bytes: usize) -> Result<Held> {
        self.check_memory(lua, bytes)?;
        self.meter.spend(bytes);
        self.held_bytes.set(self.held_bytes.get() + bytes);
        Ok(Held { stage: Rc::clone(self), bytes })
    }

    /// Bytes that the script may still make the server hold.
    pub(super) fn room(&self, lua: &Lua) -> usize {
        if self.total_bytes(lua) > SCRIPT_BYTES_MAX / 2 {
            // Some of it may be garbage. If not even that can be found out, it is none.
            let _ = lua.gc_collect();
        }
        SCRIPT_BYTES_MAX.saturating_sub(self.total_bytes(lua))
    }

    /// Whether `more` bytes are within the limits, and takes the script's part of what all of them
    /// may hold.
    ///
    /// # Errors
    /// They are not.
    pub(super) fn check_memory(&self, lua: &Lua, more: usize) -> Result<()> {
        let mut total = self.total_bytes(lua).saturating_add(more);
        if total > SCRIPT_BYTES_MAX {
            // Some of it may be garbage. If not even that can be found out, it is none.
            let _ = lua.gc_collect();
            total = self.total_bytes(lua).saturating_add(more);
        }
        if total > SCRIPT_BYTES_MAX {
            let max = SCRIPT_BYTES_MAX >> 20;
            return Err(Failure::of(format!(
                "ERR a script may take {max} MiB, with its commands' replies and all that it writes and sends"
            )));
        }
        let Some(thread) = self.thread() else { return Ok(()) };
        let (part, has) = (total.next_multiple_of(PART_BYTES), self.part_bytes.get());
        if !thread.shared.scripts.change_part(has, part) {
            let max = SCRIPTS_BYTES_MAX >> 20;
            return Err(Failure::of(format!(
                "ERR all scripts that run take {max} MiB, which is what they may: try again later"
            )));
        }
        self.part_bytes.set(part);
        Ok(())
    }

    fn total_bytes(&self, lua: &Lua) -> usize {
        if let Some(actor) = &*self.actor.borrow() {
            self.unwritten_bytes.set(actor.transaction.held_bytes());
        }
        lua.used_memory() + self.held_bytes.get() + self.unwritten_bytes.get()
    }

    /// The script's frames begin here: called where nothing of it is on the stack yet.
    pub(super) fn mark_stack(&self) {
        self.stack_start.set(here());
    }

    fn stack_bytes(&self) -> usize {
        self.stack_start.get().abs_diff(here())
    }

    /// Whether no other coroutine may begin.
    pub(super) fn is_deep(&self) -> bool {
        self.stack_bytes() > STACK_BYTES_OF_COROUTINES
    }

    /// Whether there is stack for one more level of what nests in Rust.
    ///
    /// # Errors
    /// There is not.
    pub(super) fn check_stack(&self) -> std::result::Result<(), Complaint> {
        match self.stack_bytes() > SCRIPT_STACK_BYTES_MAX {
            true => Err(Complaint("C stack overflow".into())),
            false => Ok(()),
        }
    }
}

impl From<Failure> for Complaint {
    fn from(failure: Failure) -> Self {
        Complaint(failure.line().trim_start_matches("ERR ").into())
    }
}

/// About where the stack ends.
#[inline(never)]
fn here() -> usize {
    let mark = 0_u8;
    std::hint::black_box(&raw const mark).addr()
}
