//! How an engine declares its settings: one list, of which everything else is made.

use std::fmt::Debug;

use super::Settings;

/// Which users a setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// All: what a machine or a workload decides. At most ten settings are.
    Everyone,
    /// Those that measure. The default holds until a measurement says otherwise.
    Expert,
}

/// A range that is wider than the one for users, and its words.
pub type TestRange<S> = (&'static str, fn(&S) -> bool);

/// One setting of `S`, as text and functions.
pub struct Field<S: 'static> {
    /// Its name: of the struct's field, of the TOML key, on pages and command lines.
    pub name: &'static str,
    /// Its meaning, in lines.
    pub doc: &'static str,
    /// Which users it is for.
    pub audience: Audience,
    /// Its default, in words.
    pub default: &'static str,
    /// What users may set, in words.
    pub range: &'static str,
    /// What to do where it is out of range.
    pub remedy: &'static str,
    /// Whether it is in the range for users.
    pub is_good: fn(&S) -> bool,
    /// The range that tests of engines need, where it is wider: they make everything small.
    pub tests: Option<TestRange<S>>,
    /// Its value.
    pub get: fn(&S) -> toml::Value,
    /// Sets it; `None` if the value has the wrong type or does not fit it.
    pub set: fn(&mut S, &toml::Value) -> Option<()>,
    /// What to write, given the setting's name.
    pub expected: fn(&str) -> String,
}

/// The settings of one engine, which [`engine_settings!`](crate::engine_settings) declares.
pub trait EngineSettings: Clone + Debug + PartialEq + Sized + 'static {
    /// The table that holds them in a settings file.
    const TABLE: &'static str;

    /// All of them, in the order of the struct.
    const FIELDS: &'static [Field<Settings<Self>>];

    /// The defaults for a database that may hold `memory_bytes`.
    fn for_memory(memory_bytes: u64) -> Self;
}

/// Declares the settings of an engine: a struct that is an
/// [`EngineSettings`](crate::settings::EngineSettings).
///
/// An entry says, in this order: meaning, name, type, [`Audience`](crate::settings::Audience);
/// default in words and as a function of `memory_bytes`; range in words and as a function of the
/// [`Settings`](crate::settings::Settings); what to do where it is out of range. Last may come the
/// wider range that tests of the engine need.
///
/// ```
/// firn_engine::engine_settings! {
///     /// Settings of an engine that keeps boxes.
///     pub struct BoxSettings in "boxes";
///
///     /// Boxes that are filled at once.
///     box_count: usize, Expert,
///         "2", |_| 2,
///         "1 to 8", |s| (1..=8).contains(&s.engine.box_count), "choose a number in that range";
///
///     /// Bytes of a box.
///     box_bytes: u64, Expert,
///         "a sixteenth of memory_bytes", |memory_bytes| memory_bytes / 16,
///         "at least 1 MiB", |s| s.engine.box_bytes >= 1 << 20, "raise it",
///         tests "at least 1 KiB", |s| s.engine.box_bytes >= 1 << 10;
/// }
///
/// let settings = firn_engine::settings::Settings::<BoxSettings>::for_memory(64 << 20);
/// assert_eq!(settings.engine, BoxSettings { box_count: 2, box_bytes: 4 << 20 });
/// ```
#[macro_export]
macro_rules! engine_settings {
    ($(#[$meta:meta])* $vis:vis struct $struct:ident in $table:literal;
     $( $(#[doc = $doc:literal])+ $name:ident: $type:ty, $audience:ident,
        $default:literal, $value:expr, $range:literal, $is_good:expr, $remedy:literal
        $(, tests $wide:literal, $is_good_in_tests:expr)?; )+) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $struct {
            $(
                $(#[doc = $doc])+
                ///
                #[doc = concat!("Default ", $default, "; must be ", $range, ".")]
                $vis $name: $type,
            )+
        }

        impl $crate::settings::EngineSettings for $struct {
            const TABLE: &'static str = $table;

            const FIELDS: &'static [$crate::settings::Field<$crate::settings::Settings<Self>>] = &[$(
                $crate::settings_field! {
                    (engine) ($($doc)+) $name: $type, $audience, $default, $range, $is_good, $remedy
                    $(, tests $wide, $is_good_in_tests)?
                },
            )+];

            fn for_memory(memory_bytes: u64) -> Self {
                Self { $($name: { let value: fn(u64) -> $type = $value; value(memory_bytes) },)+ }
            }
        }

        impl Default for $struct {
            fn default() -> Self {
                <Self as $crate::settings::EngineSettings>::for_memory(
                    $crate::settings::Settings::<Self>::MEMORY_BYTES_DEFAULT,
                )
            }
        }
    };
}

/// One entry of a list of settings as a [`Field`](crate::settings::Field); `(engine)` if it is one
/// of an engine, `()` if every engine has it.
#[doc(hidden)]
#[macro_export]
macro_rules! settings_field {
    (($($part:ident)?) ($($doc:literal)+) $name:ident: $type:ty, $audience:ident, $default:literal,
     $range:literal, $is_good:expr, $remedy:literal $(, tests $wide:literal, $is_good_in_tests:expr)?) => {
        $crate::settings::Field {
            name: stringify!($name),
            doc: concat!($($doc, "\n"),+),
            audience: $crate::settings::Audience::$audience,
            default: $default,
            range: $range,
            remedy: $remedy,
            is_good: $is_good,
            tests: $crate::settings_field!(@tests $($wide, $is_good_in_tests)?),
            get: |settings| {
                $crate::settings::Value::to_toml(&settings.$($part.)?$name, stringify!($name))
            },
            set: |settings, value| {
                settings.$($part.)?$name =
                    <$type as $crate::settings::Value>::from_toml(stringify!($name), value)?;
                Some(())
            },
            expected: |name| <$type as $crate::settings::Value>::expected(name),
        }
    };
    (@tests) => { None };
    (@tests $wide:literal, $is_good:expr) => { Some(($wide, $is_good)) };
}
