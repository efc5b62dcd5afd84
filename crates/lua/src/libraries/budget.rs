//! What a script may use of its thread and of its host's memory: one budget for all that it brings
//! about.
//!
//! ```text
//!   Lua's memory + what libraries make + what the host holds for it ≤ 256 MiB a script
//!   coroutines, metamethods, decoders, encoders: a thread's stack, measured as they nest
//! ```
//! What calls go over is in `work`.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use mlua::{Lua, MultiValue};

use super::library::Complaint;
use super::patterns::Search;
use crate::bounds::{SCRIPT_BYTES_MAX, SCRIPT_STACK_BYTES_MAX};
use crate::steered::{Meter, Turn};

/// Stack below which another coroutine may begin: within one, Lua by itself counts to 200 levels.
const STACK_BYTES_OF_COROUTINES: usize = 512 << 10;

/// The program that has an interpreter run scripts, as the libraries see it.
pub trait Host {
    /// Bytes that the host holds for the script, as they were last seen.
    fn held_bytes(&self) -> usize;

    /// Lets the script hold `bytes` in all, of what all scripts may hold.
    ///
    /// # Errors
    /// It may not.
    fn take_part(&self, bytes: usize) -> Result<(), Complaint>;

    /// Whether the script must end: asked amid a call, now and then.
    fn must_end(&self) -> bool;

    /// Whether the script must end, whatever it catches: asked where it catches something.
    fn is_over(&self) -> bool;

    /// Whether a suspension of the host's is under way.
    fn is_suspended(&self) -> bool;

    /// The turn is over in the middle of a search: it goes on once others have had theirs, or at
    /// once where the script cannot be suspended.
    ///
    /// # Errors
    /// What the interpreter says.
    fn rest_in(&self, lua: &Lua, search: &Search) -> mlua::Result<Turn>;
}

/// What the scripts of one interpreter have used.
pub struct Budget {
    host: Weak<dyn Host>,
    /// Bytes that calls have gone over since a hook has looked.
    meter: Rc<Meter>,
    /// The same since a call has looked.
    pub(super) unseen_bytes: Cell<usize>,
    /// Memory outside of Lua that is counted.
    held_bytes: Cell<usize>,
    /// Steps of the matcher that are left to this turn.
    steps: Cell<u64>,
    stack_start: Cell<usize>,
}

/// Memory outside of Lua that is counted until this is dropped.
pub struct Held {
    budget: Rc<Budget>,
    bytes: usize,
}

impl Held {
    pub(super) fn nothing(budget: &Rc<Budget>) -> Self {
        Self { budget: Rc::clone(budget), bytes: 0 }
    }

    /// It is so much now. What is above the limits is there already, and an error.
    pub(super) fn set(&mut self, lua: &Lua, bytes: usize) -> Result<(), Complaint> {
        if bytes == self.bytes {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.bytes, bytes);
        let held = &self.budget.held_bytes;
        held.set(held.get() + bytes - before);
        if bytes > before {
            self.budget.check_memory(lua, 0)?;
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.held_bytes.set(self.budget.held_bytes.get().saturating_sub(self.bytes));
    }
}

impl Budget {
    /// The budget of the scripts that `lua` runs for `host`. Where that is gone nothing is asked of
    /// it.
    pub fn new(lua: &Lua, host: Weak<dyn Host>) -> Rc<Self> {
        Rc::new(Self {
            host,
            meter: Meter::of(lua),
            unseen_bytes: Cell::new(0),
            held_bytes: Cell::new(0),
            steps: Cell::new(0),
            stack_start: Cell::new(0),
        })
    }

    pub(super) fn host(&self) -> Option<Rc<dyn Host>> {
        self.host.upgrade()
    }

    /// What counts the bytes that calls go over.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Steps of the matcher that are left to this turn.
    pub fn steps(&self) -> &Cell<u64> {
        &self.steps
    }

    /// The turn is over in the middle of `search`. Where no host is left there are no turns.
    pub(super) fn rest_in(&self, lua: &Lua, search: &Search) -> mlua::Result<Turn> {
        match self.host() {
            Some(host) => host.rest_in(lua, search),
            None => {
                self.steps.set(u64::MAX);
                Ok(Turn::Answer(MultiValue::new()))
            }
        }
    }

    /// Memory outside of Lua that libraries hold.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.get()
    }

    /// Counts `bytes` that are about to be made outside of Lua, and gone over.
    ///
    /// # Errors
    /// They would be too many.
    pub fn hold(self: &Rc<Self>, lua: &Lua, bytes: usize) -> Result<Held, Complaint> {
        self.check_memory(lua, bytes)?;
        self.meter.spend(bytes);
        self.held_bytes.set(self.held_bytes.get() + bytes);
        Ok(Held { budget: Rc::clone(self), bytes })
    }

    /// Bytes that the script may still make the host hold.
    pub fn room(&self, lua: &Lua) -> usize {
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
    pub fn check_memory(&self, lua: &Lua, more: usize) -> Result<(), Complaint> {
        let mut total = self.total_bytes(lua).saturating_add(more);
        if total > SCRIPT_BYTES_MAX {
            // Some of it may be garbage. If not even that can be found out, it is none.
            let _ = lua.gc_collect();
            total = self.total_bytes(lua).saturating_add(more);
        }
        if total > SCRIPT_BYTES_MAX {
            let max = SCRIPT_BYTES_MAX >> 20;
            return Err(Complaint(format!(
                "a script may take {max} MiB, with its commands' replies and all that it writes and sends"
            )));
        }
        self.host().map_or(Ok(()), |host| host.take_part(total))
    }

    fn total_bytes(&self, lua: &Lua) -> usize {
        let unwritten = self.host().map_or(0, |host| host.held_bytes());
        lua.used_memory() + self.held_bytes.get() + unwritten
    }

    /// The script's frames begin here: called where nothing of it is on the stack yet.
    pub fn mark_stack(&self) {
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
    pub fn check_stack(&self) -> Result<(), Complaint> {
        match self.stack_bytes() > SCRIPT_STACK_BYTES_MAX {
            true => Err(Complaint("C stack overflow".into())),
            false => Ok(()),
        }
    }
}

/// About where the stack ends.
#[inline(never)]
fn here() -> usize {
    let mark = 0_u8;
    std::hint::black_box(&raw const mark).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets scripts hold so many bytes in all, and counts how often it was asked whether they must
    /// end.
    struct Strict {
        most: usize,
        asked: Cell<u32>,
    }

    impl Host for Strict {
        fn held_bytes(&self) -> usize {
            1000
        }

        fn take_part(&self, bytes: usize) -> Result<(), Complaint> {
            if bytes > self.most { Err(Complaint(format!("{bytes} are too many"))) } else { Ok(()) }
        }

        fn must_end(&self) -> bool {
            self.asked.set(self.asked.get() + 1);
            self.asked.get() > 2
        }

        fn is_over(&self) -> bool {
            false
        }

        fn is_suspended(&self) -> bool {
            false
        }

        fn rest_in(&self, _: &Lua, _: &Search) -> mlua::Result<Turn> {
            Ok(Turn::Suspend)
        }
    }

    fn strict(more: usize) -> (Lua, Rc<Strict>, Rc<Budget>) {
        let lua = Lua::new();
        let host = Rc::new(Strict { most: lua.used_memory() + more, asked: Cell::new(0) });
        let of_budget: Rc<dyn Host> = Rc::clone(&host) as _;
        let budget = Budget::new(&lua, Rc::downgrade(&of_budget));
        (lua, host, budget)
    }

    #[test]
    fn what_is_held_is_counted_until_it_is_dropped_and_the_host_has_the_last_word() {
        // The interpreter's own memory grows by little while the test runs.
        let (lua, _host, budget) = strict(1 << 20);
        let held = budget.hold(&lua, 600 << 10).expect("within what the host allows");
        assert_eq!(budget.held_bytes(), 600 << 10);
        let refusal = budget.hold(&lua, 600 << 10).err().expect("more than the host allows");
        assert!(refusal.0.ends_with("are too many"), "{}", refusal.0);
        assert_eq!(budget.held_bytes(), 600 << 10, "what was refused is not counted");
        drop(held);
        assert_eq!(budget.held_bytes(), 0);
        let over = budget.hold(&lua, SCRIPT_BYTES_MAX).err().expect("more than a script may take");
        assert!(over.0.starts_with("a script may take 256 MiB"), "{}", over.0);
    }

    #[test]
    fn the_host_is_asked_for_each_quarter_of_a_mebibyte_that_is_gone_over() {
        let (_lua, host, budget) = strict(0);
        let works = (0..1024).filter(|_| budget.work(1 << 10).is_ok()).count();
        assert_eq!((works, host.asked.get()), (1024 - 2, 4), "the third and the fourth time it must end");
    }
}
