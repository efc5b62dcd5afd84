//! What kinds of value a setting has, and how each is written in TOML.

use super::size::{parse_bytes, show_bytes};
use crate::{Compression, Durability};

/// A kind of value; `name` is the setting's, for sizes are known by their names.
pub trait Value: Sized {
    /// The value as TOML has it.
    fn to_toml(&self, name: &str) -> toml::Value;
    /// `None` if `value` has another type or does not fit.
    fn from_toml(name: &str, value: &toml::Value) -> Option<Self>;
    /// What is to be written.
    fn expected(name: &str) -> String;
}

/// Whether the setting `name` counts bytes: all of them, most of them, or those of a second.
fn is_size(name: &str) -> bool {
    name.split('_').any(|word| word == "bytes")
}

fn number_to_toml(name: &str, number: u64) -> toml::Value {
    match i64::try_from(number) {
        Ok(number) if !is_size(name) => toml::Value::Integer(number),
        _ => toml::Value::String(show_bytes(number)),
    }
}

fn number_from_toml(name: &str, value: &toml::Value) -> Option<u64> {
    match value {
        toml::Value::Integer(number) => u64::try_from(*number).ok(),
        toml::Value::String(text) if is_size(name) => parse_bytes(text).ok(),
        _ => None,
    }
}

fn number_expected(name: &str) -> String {
    if is_size(name) {
        "bytes, as in 4096, \"512M\" or \"4 GiB\"".to_owned()
    } else {
        "a whole number".to_owned()
    }
}

impl Value for u64 {
    fn to_toml(&self, name: &str) -> toml::Value {
        number_to_toml(name, *self)
    }

    fn from_toml(name: &str, value: &toml::Value) -> Option<Self> {
        number_from_toml(name, value)
    }

    fn expected(name: &str) -> String {
        number_expected(name)
    }
}

impl Value for u32 {
    fn to_toml(&self, name: &str) -> toml::Value {
        number_to_toml(name, u64::from(*self))
    }

    fn from_toml(name: &str, value: &toml::Value) -> Option<Self> {
        number_from_toml(name, value)?.try_into().ok()
    }

    fn expected(name: &str) -> String {
        number_expected(name)
    }
}

impl Value for usize {
    fn to_toml(&self, name: &str) -> toml::Value {
        number_to_toml(name, *self as u64)
    }

    fn from_toml(name: &str, value: &toml::Value) -> Option<Self> {
        number_from_toml(name, value)?.try_into().ok()
    }

    fn expected(name: &str) -> String {
        number_expected(name)
    }
}

impl Value for f64 {
    fn to_toml(&self, _name: &str) -> toml::Value {
        toml::Value::Float(*self)
    }

    fn from_toml(_name: &str, value: &toml::Value) -> Option<Self> {
        match value {
            toml::Value::Float(number) => Some(*number),
            toml::Value::Integer(number) => Some(*number as f64),
            _ => None,
        }
    }

    fn expected(_name: &str) -> String {
        "a number".to_owned()
    }
}

impl Value for Durability {
    fn to_toml(&self, _name: &str) -> toml::Value {
        toml::Value::String(self.name().to_owned())
    }

    fn from_toml(_name: &str, value: &toml::Value) -> Option<Self> {
        Self::from_name(value.as_str()?)
    }

    fn expected(_name: &str) -> String {
        "\"checkpoint\", \"process\", \"disk\" or \"shared\"".to_owned()
    }
}

impl Value for Compression {
    fn to_toml(&self, _name: &str) -> toml::Value {
        toml::Value::String(self.name().to_owned())
    }

    fn from_toml(_name: &str, value: &toml::Value) -> Option<Self> {
        Self::from_name(value.as_str()?)
    }

    fn expected(_name: &str) -> String {
        "\"none\", \"lz4\" or \"zstd\"".to_owned()
    }
}
