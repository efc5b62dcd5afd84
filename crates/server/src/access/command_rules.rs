//! Which commands a user may run.

use std::collections::BTreeMap;

use firn_protocol::command::{self, Category, Command, CommandId};
use firn_protocol::resp::Arguments;

use super::in_order::InOrder;
use super::rule::{Fault, is_pattern};

const WORDS: usize = command::COUNT.div_ceil(u64::BITS as usize);

/// Commands that are allowed, and the rules that say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandRules {
    allowed: [u64; WORDS],
    /// Commands that may run only with one of these first arguments.
    first_arguments: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Everything is allowed, what later releases bring too.
    is_all: bool,
    /// What follows the signs of the rules since the last that settled everything, without those
    /// that later ones made void; with whether it is allowed.
    rules: InOrder<String, bool>,
}

impl CommandRules {
    /// Nothing is allowed.
    pub(super) fn none() -> Self {
        Self::of_all(false)
    }

    /// Everything is allowed.
    pub(super) fn all() -> Self {
        Self::of_all(true)
    }

    fn of_all(is_allowed: bool) -> Self {
        let mut rules = InOrder::default();
        rules.get_or_push("@all".to_owned(), is_allowed);
        let allowed = [if is_allowed { u64::MAX } else { 0 }; WORDS];
        Self { allowed, first_arguments: BTreeMap::new(), is_all: is_allowed, rules }
    }

    /// Whether everything is allowed.
    pub(super) fn is_all(&self) -> bool {
        self.is_all
    }

    /// The rules in order, as text.
    pub(super) fn text(&self) -> String {
        let text =
            |(rule, is_allowed): (&String, &bool)| format!("{}{rule}", if *is_allowed { '+' } else { '-' });
        self.rules.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    /// Whether `command` may run with these arguments.
    pub(super) fn allow(&self, command: &Command, arguments: Arguments<'_>) -> bool {
        let index = command.id().index();
        let is_allowed = self.allowed.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0);
        let is_first =
            |first: &Vec<u8>| arguments.get(1).is_some_and(|word| word.eq_ignore_ascii_case(first));
        is_allowed || self.first_arguments.get(&index).is_some_and(|firsts| firsts.iter().any(is_first))
    }

    /// Applies what follows the sign of a rule: `get`, `config|get`, `select|0`, `@read`, `@all`.
    pub(super) fn apply(&mut self, is_allowed: bool, rule: &[u8]) -> Result<(), Fault> {
        let text = std::str::from_utf8(rule).map_err(|_| Fault::UnknownCommand)?.to_ascii_lowercase();
        match text.strip_prefix('@') {
            Some("all") => {
                *self = Self::of_all(is_allowed);
                return Ok(());
            }
            Some(name) => {
                let category = Category::from_name(name.as_bytes()).ok_or(Fault::UnknownCommand)?;
                let members = command::all().iter().filter(|command| command.categories.has(category));
                members.for_each(|command| self.set(command.id(), is_allowed));
            }
            None => self.apply_command(is_allowed, &text)?,
        }
        self.is_all &= is_allowed;
        // What the rule says of the same or of a part of it is void now.
        self.rules.remove(&text);
        let part = format!("{text}|");
        self.rules.remove_from(part.clone(), |known| known.starts_with(&part));
        self.rules.get_or_push(text, is_allowed);
        Ok(())
    }

    fn apply_command(&mut self, is_allowed: bool, text: &str) -> Result<(), Fault> {
        let mut parts = text.split('|');
        let name = parts.next().unwrap_or_default();
        let command = command::find(name.as_bytes()).ok_or(Fault::UnknownCommand)?;
        match (parts.next(), parts.next()) {
            (None, _) => {
                self.set(command.id(), is_allowed);
                command.subcommands().iter().for_each(|subcommand| self.set(subcommand.id(), is_allowed));
            }
            (Some(part), _) if part.is_empty() || !is_pattern(part.as_bytes()) => return Err(Fault::Syntax),
            (Some(part), more) => {
                let subcommand = command::find_subcommand(command, part.as_bytes());
                match (subcommand, more) {
                    (Some(subcommand), None) => self.set(subcommand.id(), is_allowed),
                    (Some(_), Some(_)) if is_allowed => return Err(Fault::FirstArgumentOfSubcommand),
                    (None, None) if is_allowed && command.subcommands().is_empty() => {
                        let firsts = self.first_arguments.entry(command.id().index()).or_default();
                        firsts.push(part.as_bytes().to_vec());
                    }
                    _ => return Err(Fault::UnknownCommand),
                }
            }
        }
        Ok(())
    }

    fn set(&mut self, id: CommandId, is_allowed: bool) {
        let index = id.index();
        if let Some(word) = self.allowed.get_mut(index / 64) {
            let bit = 1 << (index % 64);
            *word = if is_allowed { *word | bit } else { *word & !bit };
        }
        // A rule for the whole command says it of every first argument.
        self.first_arguments.remove(&index);
    }
}
