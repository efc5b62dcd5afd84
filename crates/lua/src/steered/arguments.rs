//! What a function of Rust is called with.
//!
//! A value of Lua's that Rust holds takes one of some 8 000 slots that an interpreter has. So many
//! arguments stay in a table, out of which each is taken while it is looked at.

use std::borrow::Cow;

use mlua::{MultiValue, Result, Table, Value};

/// The arguments of a call.
#[derive(Debug)]
pub struct Arguments(Source);

#[derive(Debug)]
enum Source {
    Held(MultiValue),
    /// So many values of the table.
    Packed(Table, usize),
}

impl Arguments {
    pub(super) fn held(values: MultiValue) -> Self {
        Self(Source::Held(values))
    }

    pub(super) fn packed(table: Table, count: usize) -> Self {
        Self(Source::Packed(table, count))
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Source::Held(values) => values.len(),
            Source::Packed(_, count) => *count,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The argument at `index`, counted from 0; `None` behind the last one.
    ///
    /// # Errors
    /// What the interpreter says.
    pub fn get(&self, index: usize) -> Result<Option<Cow<'_, Value>>> {
        match &self.0 {
            Source::Held(values) => Ok(values.get(index).map(Cow::Borrowed)),
            Source::Packed(table, count) if index < *count => {
                table.raw_get(index + 1).map(|value| Some(Cow::Owned(value)))
            }
            Source::Packed(..) => Ok(None),
        }
    }

    /// Shows `look` one after the other, until it fails.
    ///
    /// # Errors
    /// What `look` says, or the interpreter.
    #[inline]
    pub fn try_for_each<E: From<mlua::Error>>(
        &self,
        mut look: impl FnMut(&Value) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        match &self.0 {
            Source::Held(values) => values.iter().try_for_each(look),
            Source::Packed(table, count) => {
                (1..=*count).try_for_each(|index| look(&table.raw_get::<Value>(index)?))
            }
        }
    }

    /// The bytes of the strings among them.
    ///
    /// # Errors
    /// What the interpreter says.
    pub fn string_bytes(&self) -> Result<usize> {
        let mut bytes = 0;
        self.try_for_each(|value| {
            bytes += value.as_string().map_or(0, |text| text.as_bytes().len());
            Ok::<(), mlua::Error>(())
        })?;
        Ok(bytes)
    }
}
