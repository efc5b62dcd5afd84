//! Bytes that the calls of a script go over: they end its turn as instructions do, which are all
//! that hooks count.
//!
//! ```text
//!   string.upper, table.concat, …  ─ measured as a whole ──┐
//!   cjson, cmsgpack, struct, …     ─ Budget::work, by steps ┴─► a look at the turn after the call
//!                                          └─► within the call: is the script to end?
//! ```
//! Others have no turn within one call, for Lua suspends nothing there. Calls of Lua's own
//! functions are as long as a script's memory lets them be.

use mlua::{Lua, MultiValue, Value};

use super::budget::Budget;
use super::library::Complaint;
use crate::steered::{Measure, measured};

/// Functions of Lua's own libraries that go over bytes. What is not here looks at a part
/// (`string.byte`), answers what is there (`string.len`), or is done otherwise: patterns and
/// `string.rep` in `patterns`.
const BY_BYTES: [(&str, &str, Measure); 10] = [
    ("string", "char", Measure::Answers),
    ("string", "dump", Measure::Answers),
    ("string", "format", Measure::All),
    ("string", "lower", Measure::All),
    ("string", "reverse", Measure::All),
    ("string", "sub", Measure::Answers),
    ("string", "upper", Measure::All),
    ("table", "concat", Measure::Answers),
    ("_G", "loadstring", Measure::All),
    ("_G", "tonumber", Measure::All),
];

/// Bytes between two looks at whether the script is to end, within one call.
const LOOK_BYTES: usize = 256 << 10;

/// What one value costs beside its bytes, or one step of a format.
pub(super) const STEP_BYTES: usize = 64;

/// Has the bytes counted that Lua's own functions go over.
pub(super) fn measure(lua: &Lua) -> mlua::Result<()> {
    for (library, name, measure) in BY_BYTES {
        let library: mlua::Table = lua.globals().raw_get(library)?;
        let function: mlua::Function = library.raw_get(name)?;
        library.raw_set(name, measured(lua, &function, measure)?)?;
    }
    Ok(())
}

/// The bytes of the strings among `values`.
pub(super) fn string_bytes(values: &MultiValue) -> usize {
    let bytes = |value: &Value| value.as_string().map_or(0, |text| text.as_bytes().len());
    values.iter().map(bytes).sum()
}

impl Budget {
    /// A call has gone over so many bytes more, or is about to.
    ///
    /// # Errors
    /// The script must end, whatever it catches: the call ends at once.
    #[inline]
    pub fn work(&self, bytes: usize) -> Result<(), Complaint> {
        self.spend(bytes);
        match self.is_look_due() {
            false => Ok(()),
            true => self.look(),
        }
    }

    /// The same for what does not look by itself.
    #[inline]
    pub(super) fn spend(&self, bytes: usize) {
        self.meter().spend(bytes);
        self.unseen_bytes.set(self.unseen_bytes.get().saturating_add(bytes));
    }

    /// Whether a call is to look next.
    #[inline]
    pub(super) fn is_look_due(&self) -> bool {
        self.unseen_bytes.get() >= LOOK_BYTES
    }

    #[cold]
    fn look(&self) -> Result<(), Complaint> {
        self.unseen_bytes.set(0);
        match self.host().is_some_and(|host| host.must_end()) {
            true => Err(Complaint("over".into())),
            false => Ok(()),
        }
    }
}
