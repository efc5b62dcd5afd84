//! YCSB's properties: `name=value` lines.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use firn_engine::{Error, ErrorKind, Result};

/// Properties by name. Later ones replace earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    values: BTreeMap<String, String>,
}

impl Properties {
    /// The properties of a file in Java's format: `name=value` or `name: value`, `#` and `!` begin
    /// comments.
    ///
    /// # Errors
    /// `Invalid` if the file cannot be read or a line is no property; the message names file and
    /// line.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("cannot read properties file {}", path.display()))
                .because(error)
        })?;
        Self::parse(&text).map_err(|error| Error::invalid(format!("{}: {}", path.display(), error.message())))
    }

    /// The properties in `text`; see [`read`](Self::read).
    ///
    /// # Errors
    /// `Invalid` with the number of the line that is no property.
    pub fn parse(text: &str) -> Result<Self> {
        let mut properties = Self::default();
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            let Some((name, value)) = line.split_once(['=', ':']) else {
                return Err(Error::invalid(format!("line {}: `{line}` is not name=value", index + 1)));
            };
            properties.set(name.trim(), value.trim());
        }
        Ok(properties)
    }

    /// Sets one property.
    pub fn set(&mut self, name: &str, value: &str) {
        self.values.insert(name.to_owned(), value.to_owned());
    }

    /// Sets one property given as `name=value`.
    ///
    /// # Errors
    /// `Invalid` if there is no `=`.
    pub fn set_pair(&mut self, pair: &str) -> Result<()> {
        let (name, value) =
            pair.split_once('=').ok_or_else(|| Error::invalid(format!("-p {pair}: expected name=value")))?;
        self.set(name.trim(), value.trim());
        Ok(())
    }

    /// Sets every property of `others`.
    pub fn add(&mut self, others: &Properties) {
        self.values.extend(others.values.iter().map(|(name, value)| (name.clone(), value.clone())));
    }

    /// The property as text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The property as a value of type `T`, if it is set.
    ///
    /// # Errors
    /// `Invalid` if its text is no such value.
    pub fn get<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            let wanted = std::any::type_name::<T>();
            Error::invalid(format!("property {name}={text}: not a value of type {wanted}"))
        })
    }

    /// The property as a value of type `T`, or `default`.
    ///
    /// # Errors
    /// `Invalid` if its text is no such value.
    pub fn get_or<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        Ok(self.get(name)?.unwrap_or(default))
    }
}

#[cfg(test)]
mod tests {
    use super::Properties;

    #[test]
    fn java_properties_are_read() {
        let text = "# a comment\n! another\n\nrecordcount=1000\n readproportion = 0.5 \nrequestdistribution: zipfian\n";
        let mut found = Properties::parse(text).unwrap();
        assert_eq!(found.get::<u64>("recordcount").unwrap(), Some(1000));
        assert_eq!(found.get_or("readproportion", 0.0).unwrap(), 0.5);
        assert_eq!(found.text("requestdistribution"), Some("zipfian"));
        found.set_pair("recordcount=7").unwrap();
        assert_eq!(found.get_or("recordcount", 0u64).unwrap(), 7);
    }

    #[test]
    fn what_is_no_property_is_refused_with_its_place() {
        assert!(Properties::parse("a=1\nnonsense\n").unwrap_err().message().contains("line 2"));
        let found = Properties::parse("recordcount=many").unwrap();
        assert!(found.get::<u64>("recordcount").unwrap_err().message().contains("recordcount=many"));
        assert!(Properties::default().set_pair("novalue").is_err());
    }
}
