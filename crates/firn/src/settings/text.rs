//! Settings as TOML.

use firn_engine::{Error, Result};

use super::nearest::nearest;
use super::{FIELDS, Settings};

impl Settings {
    /// The settings in `text`. A setting that it does not name has its default; sizes that follow
    /// from `memory_bytes` follow from the one given.
    ///
    /// # Errors
    /// `Invalid`: not TOML (with line and column), an unknown setting (with the nearest known one),
    /// a wrong type, or a value out of range.
    pub fn from_toml(text: &str) -> Result<Self> {
        let table = text.parse::<toml::Table>().map_err(|error| {
            let place = error.span().map(|span| line_and_column(text, span.start));
            let place =
                place.map_or(String::new(), |(line, column)| format!(" at line {line}, column {column}"));
            Error::invalid(format!("settings are not valid TOML{place}: {}", error.message()))
        })?;
        Self::from_table(&table)
    }

    /// The settings as TOML that [`from_toml`](Self::from_toml) reads back, every field with its
    /// meaning, default and range as a comment.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for field in FIELDS {
            for line in field.doc.lines() {
                text.push_str(&format!("# {}\n", line.trim()));
            }
            text.push_str(&format!("# Default {}; must be {}.\n", field.default, field.range));
            text.push_str(&format!("{} = {}\n\n", field.name, (field.get)(self)));
        }
        text.truncate(text.trim_end().len() + 1);
        text
    }

    /// As [`from_toml`](Self::from_toml), from a table already parsed.
    fn from_table(table: &toml::Table) -> Result<Self> {
        if let Some(name) = table.keys().find(|name| !FIELDS.iter().any(|field| field.name == name.as_str()))
        {
            return Err(Error::invalid(unknown(name)));
        }
        let mut settings = Self::default();
        // Sizes follow from memory_bytes, so it is set first.
        set(&mut settings, table, "memory_bytes")?;
        settings = Self::for_memory(settings.memory_bytes);
        for field in FIELDS {
            set(&mut settings, table, field.name)?;
        }
        settings.validate()?;
        Ok(settings)
    }

    fn to_table(&self) -> toml::Table {
        FIELDS.iter().map(|field| (field.name.to_owned(), (field.get)(self))).collect()
    }
}

impl serde::Serialize for Settings {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.to_table().serialize(serializer)
    }
}

impl<'de> serde::Deserialize<'de> for Settings {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let table = toml::Table::deserialize(deserializer)?;
        Self::from_table(&table).map_err(serde::de::Error::custom)
    }
}

fn set(settings: &mut Settings, table: &toml::Table, name: &str) -> Result<()> {
    let field = FIELDS.iter().find(|field| field.name == name);
    let (Some(field), Some(value)) = (field, table.get(name)) else { return Ok(()) };
    (field.set)(settings, value).ok_or_else(|| {
        let expected = (field.expected)(name);
        Error::invalid(format!("setting `{name} = {value}` must be {}: write {expected}", field.range))
    })
}

fn unknown(name: &str) -> String {
    match nearest(name, FIELDS.iter().map(|field| field.name)) {
        Some(near) => format!("there is no setting `{name}`: did you mean `{near}`?"),
        None => {
            let known: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
            format!("there is no setting `{name}`; there are {}", known.join(", "))
        }
    }
}

/// Line and column of byte `at`, both from 1.
fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before.len() - line_start + 1)
}
