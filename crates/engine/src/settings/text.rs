//! Settings as TOML: those of every engine first, then those of one engine as a table.

use super::nearest::nearest;
use super::{Audience, EngineSettings, Field, Settings};
use crate::{Error, Result};

impl<E: EngineSettings> Settings<E> {
    /// The settings in `text`. A setting that it does not name has its default; sizes that follow
    /// from `memory_bytes` follow from the one given.
    ///
    /// # Errors
    /// `Invalid`: not TOML (with line and column), an unknown setting (with the nearest known one),
    /// one in the wrong table, an unknown table, a wrong type, or a value out of range.
    pub fn from_toml(text: &str) -> Result<Self> {
        let table = text.parse::<toml::Table>().map_err(|error| {
            let location = error.span().map(|span| line_and_column(text, span.start));
            let location =
                location.map_or(String::new(), |(line, column)| format!(" at line {line}, column {column}"));
            Error::invalid(format!("settings are not valid TOML{location}: {}", error.message()))
        })?;
        Self::from_table(&table)
    }

    /// The settings as TOML that [`from_toml`](Self::from_toml) reads back, every field with its
    /// meaning, default and range as a comment. In each table those for experts come last.
    pub fn to_toml(&self) -> String {
        format!("{}\n{}", self.all_explained(Self::FIELDS), self.table_to_toml())
    }

    /// The engine's own table alone, as [`to_toml`](Self::to_toml) has it.
    pub fn table_to_toml(&self) -> String {
        format!("[{}]\n\n{}", E::TABLE, self.all_explained(E::FIELDS))
    }

    /// Those of `fields` with their explanations, those for experts last.
    fn all_explained(&self, fields: &[Field<Self>]) -> String {
        let mut text = String::new();
        let of = |audience| fields.iter().filter(move |field: &&Field<Self>| field.audience == audience);
        for field in of(Audience::Everyone) {
            text.push_str(&self.explained(field));
        }
        let mut experts = of(Audience::Expert).peekable();
        if experts.peek().is_some() {
            text.push_str(EXPERTS);
        }
        for field in experts {
            text.push_str(&self.explained(field));
        }
        text.truncate(text.trim_end().len() + 1);
        text
    }

    /// One setting with its explanation, and an empty line.
    fn explained(&self, field: &Field<Self>) -> String {
        let doc: String = field.doc.lines().map(|line| format!("# {}\n", line.trim())).collect();
        let (default, range, value) = (field.default, field.range, (field.get)(self));
        format!("{doc}# Default {default}; must be {range}.\n{} = {value}\n\n", field.name)
    }

    /// As [`from_toml`](Self::from_toml), from a table already parsed.
    fn from_table(table: &toml::Table) -> Result<Self> {
        let empty = toml::Table::new();
        let own = match table.get(E::TABLE) {
            None => &empty,
            Some(toml::Value::Table(own)) => own,
            Some(_) => {
                let name = E::TABLE;
                return Err(Error::invalid(format!("`{name}` must be a table: write [{name}]")));
            }
        };
        for (name, value) in table.iter().filter(|(name, _)| *name != E::TABLE) {
            check_no_table::<E>(name, value)?;
            check_known::<E>(name, Self::FIELDS, format!("write it below [{}]", E::TABLE))?;
        }
        for (name, value) in own {
            check_no_table::<E>(&format!("{}.{name}", E::TABLE), value)?;
            check_known::<E>(name, E::FIELDS, format!("write it above [{}]", E::TABLE))?;
        }
        // Sizes follow from memory_bytes, so it is set first.
        let mut settings = Self::default();
        for field in Self::FIELDS.iter().filter(|field| field.name == "memory_bytes") {
            set(&mut settings, table, field)?;
        }
        settings = Self::for_memory(settings.memory_bytes);
        for field in Self::FIELDS {
            set(&mut settings, table, field)?;
        }
        for field in E::FIELDS {
            set(&mut settings, own, field)?;
        }
        settings.validate()?;
        Ok(settings)
    }

    fn to_table(&self) -> toml::Table {
        let values = |fields: &[Field<Self>]| -> toml::Table {
            fields.iter().map(|field| (field.name.to_owned(), (field.get)(self))).collect()
        };
        let mut table = values(Self::FIELDS);
        table.insert(E::TABLE.to_owned(), toml::Value::Table(values(E::FIELDS)));
        table
    }
}

/// What stands above the settings of a table that are for experts.
const EXPERTS: &str = "# For experts: these hold until a measurement says otherwise.\n\n";

impl<E: EngineSettings> serde::Serialize for Settings<E> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.to_table().serialize(serializer)
    }
}

impl<'de, E: EngineSettings> serde::Deserialize<'de> for Settings<E> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let table = toml::Table::deserialize(deserializer)?;
        Self::from_table(&table).map_err(serde::de::Error::custom)
    }
}

/// Sets `field` of `settings` to what `table` says of it, if that is anything.
fn set<S>(settings: &mut S, table: &toml::Table, field: &Field<S>) -> Result<()> {
    let name = field.name;
    let Some(value) = table.get(name) else { return Ok(()) };
    (field.set)(settings, value).ok_or_else(|| {
        let expected = (field.expected)(name);
        Error::invalid(format!("setting `{name} = {value}` must be {}: write {expected}", field.range))
    })
}

/// `Invalid` if `value`, which a file calls `name`, is a table: no setting is one.
fn check_no_table<E: EngineSettings>(name: &str, value: &toml::Value) -> Result<()> {
    let is_list_of_tables = |list: &toml::value::Array| list.first().is_some_and(toml::Value::is_table);
    if !value.is_table() && !value.as_array().is_some_and(is_list_of_tables) {
        return Ok(());
    }
    let known = E::TABLE;
    Err(Error::invalid(format!(
        "there is no table [{name}]: write settings above all tables, or below [{known}]"
    )))
}

/// `Invalid` unless `name` is one of `fields`; `elsewhere` says what to do with a setting of the
/// other table.
fn check_known<E: EngineSettings>(
    name: &str,
    fields: &[Field<Settings<E>>],
    elsewhere: String,
) -> Result<()> {
    if fields.iter().any(|field| field.name == name) {
        return Ok(());
    }
    let known = || Settings::<E>::fields().map(|field| field.name);
    if known().any(|known| known == name) {
        return Err(Error::invalid(format!("setting `{name}` is in the wrong table: {elsewhere}")));
    }
    Err(Error::invalid(match nearest(name, known()) {
        Some(near) => format!("there is no setting `{name}`: did you mean `{near}`?"),
        None => {
            let known: Vec<&str> = known().collect();
            format!("there is no setting `{name}`; there are {}", known.join(", "))
        }
    }))
}

/// Line and column of byte `at`, both from 1.
fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before.len() - line_start + 1)
}
