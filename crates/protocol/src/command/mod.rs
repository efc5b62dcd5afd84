//! The command table: everything that is known about a command before it runs.
//!
//! ```text
//!   group/*.rs ─ what is written by hand ─► table ─ numbered, hashed at compile time
//!                                             │
//!   request ─► find | resolve ────────────────┤──► arity, flags, categories, id ─► the server
//!                keys_of, visit_keys ─────────┤──► COMMAND GETKEYS, key checks of ACL users
//!                page::render ────────────────┘──► docs/reference/commands.md
//! ```
//!
//! The table lists every command of Redis 7.0. It also has CLIENT SETINFO and CLIENT NO-TOUCH,
//! which newer clients send when they connect, and HEXPIRE with its family, which newer programs
//! ask for. What Firn does not offer yet is there too and says so in [`Offered`], by a feature of
//! [`ABSENCES`].
//!
//! # Invariants
//! 1. A name is lower case and occurs once; [`CommandId`]s are dense, and stable within one build
//!    only.
//! 2. Nothing a client sends makes this panic. Finding a command allocates nothing; names longer
//!    than any command's are not read.

mod flag;
mod category;
mod key_spec;
mod absence;
mod group;
mod table;
mod keys;
mod resolve;
pub mod page;

pub use absence::{ABSENCES, Absence};
pub use category::{Categories, Category};
pub use flag::{Flag, Flags};
pub use group::Group;
pub use key_spec::{Begin, Extent, KeyFlag, KeyFlags, KeySpec};
pub use keys::{KeyUse, KeysError, keys_of, visit_keys};
pub use resolve::{Refusal, resolve};
pub use table::{COUNT, CommandId, all, commands, find, find_subcommand, get, id_of};

use std::fmt;

/// One command or subcommand, as the table has it; lives as long as the program.
///
/// 1. `first_key`, `last_key`, `key_step` and [`Flag::MovableKeys`] follow from `key_specs`.
/// 2. `categories` holds all of them, those that follow from the flags too.
/// 3. A command with subcommands takes at least one argument, which names the subcommand.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Name in lower case; of a subcommand only its own part: `get` of CONFIG GET.
    pub name: &'static str,
    /// Number of arguments with the name (and the container's name): exactly so many, or, negative,
    /// at least.
    pub arity: i32,
    /// What the server must know before it runs the command.
    pub flags: Flags,
    /// Where keys stand among the arguments and what is done with them, as COMMAND INFO states it.
    pub key_specs: &'static [KeySpec],
    /// Position of the first key, 0 when there is none at a fixed position.
    pub first_key: i32,
    /// Position of the last key; negative counts from the end (-1 is the last argument).
    pub last_key: i32,
    /// Distance between keys from the first to the last.
    pub key_step: i32,
    /// The family it is documented with.
    pub group: Group,
    /// ACL categories.
    pub categories: Categories,
    /// What it does, one line.
    pub summary: &'static str,
    /// How its cost grows with what it touches.
    pub complexity: &'static str,
    /// The release of Redis that has it first.
    pub since: &'static str,
    /// The release that advises against it and what to use instead.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Whether Firn has it.
    pub offered: Offered,
    /// Name of the command it is a subcommand of.
    pub container: Option<&'static str>,
    /// Finds the keys that `key_specs` cannot describe.
    rule: Option<keys::Rule>,
    /// The default of the group does not apply.
    has_own_categories: bool,
    /// Subcommands as written in `group`, not numbered yet.
    written: &'static [Command],
    id: CommandId,
    subcommands: table::IdRange,
}

/// Whether Firn has a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It runs.
    Yes,
    /// It is refused: it belongs to a feature that is not there.
    NotYet(&'static Absence),
}

impl Command {
    /// Number of the command: the index of per-command counters and dispatch tables, below
    /// [`COUNT`].
    pub const fn id(&self) -> CommandId {
        self.id
    }

    /// Whether `argument_count` arguments, the name among them, are a number it takes.
    pub const fn accepts(&self, argument_count: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { argument_count >= least } else { argument_count == least }
    }

    /// Its subcommands, in the order of the table; empty for most commands.
    pub fn subcommands(&self) -> &'static [Command] {
        table::slice(self.subcommands)
    }

    /// Whether it runs on this server.
    pub const fn is_offered(&self) -> bool {
        matches!(self.offered, Offered::Yes)
    }

    /// Whether it works on what only keys in order can hold: hashes, lists, sets, sorted sets.
    pub const fn needs_order(&self) -> bool {
        matches!(self.group, Group::Hash | Group::List | Group::Set | Group::SortedSet)
    }

    /// Whether it can have keys at all. Channels that are routed like keys are none.
    pub fn has_keys(&self) -> bool {
        self.key_specs.iter().any(|spec| !spec.flags.has(KeyFlag::NotKey))
    }

    /// Names of its flags in the order in which COMMAND lists them.
    pub fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        self.flags.iter().map(Flag::name)
    }

    /// Names of its ACL categories, with the `@`, in the order in which COMMAND lists them.
    pub fn category_names(&self) -> impl Iterator<Item = &'static str> {
        self.categories.iter().map(Category::name)
    }
}

/// `get`, or `config|get` for a subcommand: the name in errors, in COMMAND and in statistics.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.container {
            Some(container) => write!(f, "{container}|{}", self.name),
            None => f.write_str(self.name),
        }
    }
}

/// Of an entry that says neither that it is built nor why it is not: no such one stays in the
/// table.
const UNSAID: Absence = Absence { feature: "", reason: "", instead: "" };

/// A command as group files write it; what follows from its flags and keys is added by the table.
const fn entry(
    name: &'static str,
    arity: i32,
    since: &'static str,
    complexity: &'static str,
    summary: &'static str,
) -> Command {
    Command {
        name,
        arity,
        flags: Flags::NONE,
        key_specs: &[],
        first_key: 0,
        last_key: 0,
        key_step: 0,
        group: Group::Generic,
        categories: Categories::NONE,
        summary,
        complexity,
        since,
        deprecated: None,
        offered: Offered::NotYet(&UNSAID),
        container: None,
        rule: None,
        has_own_categories: false,
        written: &[],
        id: CommandId::NONE,
        subcommands: table::IdRange::NONE,
    }
}

/// What group files add to an [`entry`].
impl Command {
    const fn flags(self, flags: &[Flag]) -> Self {
        Self { flags: Flags::of(flags), ..self }
    }

    const fn keys(self, key_specs: &'static [KeySpec]) -> Self {
        Self { key_specs, ..self }
    }

    const fn rule(self, rule: keys::Rule) -> Self {
        Self { rule: Some(rule), ..self }
    }

    /// Categories instead of the group's.
    const fn categories(self, categories: &[Category]) -> Self {
        Self { categories: Categories::of(categories), has_own_categories: true, ..self }
    }

    const fn deprecated(self, since: &'static str, instead: &'static str) -> Self {
        Self { deprecated: Some((since, instead)), ..self }
    }

    /// The server has it.
    const fn built(self) -> Self {
        Self { offered: Offered::Yes, ..self }
    }

    const fn not_yet(self, absence: &'static Absence) -> Self {
        Self { offered: Offered::NotYet(absence), ..self }
    }

    const fn with(self, written: &'static [Command]) -> Self {
        Self { written, ..self }
    }
}

#[cfg(test)]
mod tests;
