//! A user: passwords, commands, keys and channels.

use std::ops::Range;

use firn_format::datatype::key::USER_KEY_BYTES_MAX;
use firn_protocol::command::{self, Command, CommandId, Flag, KeysError, id_of};
use firn_protocol::glob;
use firn_protocol::resp::{Arguments, OwnedArguments};

use super::command_rules::CommandRules;
use super::in_order::InOrder;
use super::password::Digest;
use crate::bounds::CHANNEL_BYTES_MAX;

/// A user that may log in, with its rights. Never changed: a change makes another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(super) name: Vec<u8>,
    /// May log in; a connection that has logged in stays so.
    pub(super) is_on: bool,
    /// Any password will do.
    pub(super) needs_no_password: bool,
    pub(super) passwords: InOrder<Digest, ()>,
    pub(super) commands: CommandRules,
    pub(super) has_all_keys: bool,
    /// By pattern.
    pub(super) keys: InOrder<Vec<u8>, KeyRights>,
    pub(super) has_all_channels: bool,
    /// By pattern.
    pub(super) channels: InOrder<Vec<u8>, ()>,
}

/// What may be done with keys that match a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyRights {
    pub(super) reads: bool,
    pub(super) writes: bool,
}

/// What of a request a user may not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The command.
    Command,
    /// The key at this position.
    Key(usize),
    /// The keys, which are unknown.
    UnknownKeys,
    /// The channel at this position.
    Channel(usize),
    /// Reading keys that only data names, by this option of SORT.
    SortOption(&'static str),
}

/// What is named by a request that a user may do only with some names.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) names: Vec<Name>,
    /// What is told if all of these are allowed.
    pub(crate) rest: Result<(), Denied>,
}

/// A key or a channel, by its position.
#[derive(Debug)]
pub(crate) enum Name {
    Key { index: usize, reads: bool, writes: bool },
    Channel { index: usize, is_pattern: bool },
}

impl Name {
    /// The position of the argument.
    pub(crate) fn index(&self) -> usize {
        match *self {
            Self::Key { index, .. } | Self::Channel { index, .. } => index,
        }
    }
}

const PSUBSCRIBE: CommandId = id_of("psubscribe");

impl User {
    /// A user without any right, not even to log in.
    pub(crate) fn new(name: &[u8]) -> Self {
        Self {
            name: name.to_vec(),
            is_on: false,
            needs_no_password: false,
            passwords: InOrder::default(),
            commands: CommandRules::none(),
            has_all_keys: false,
            keys: InOrder::default(),
            has_all_channels: false,
            channels: InOrder::default(),
        }
    }

    /// A user with all rights, without a password.
    pub(super) fn with_everything(name: &[u8]) -> Self {
        Self {
            is_on: true,
            needs_no_password: true,
            commands: CommandRules::all(),
            has_all_keys: true,
            has_all_channels: true,
            ..Self::new(name)
        }
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// The only password from now on; `None` = none is needed.
    pub(super) fn set_password(&mut self, password: Option<&[u8]>) {
        self.passwords.clear();
        if let Some(password) = password {
            self.passwords.get_or_push(Digest::of(password), ());
        }
        self.needs_no_password = password.is_none();
    }

    /// Whether a client may be this user without a password.
    pub(crate) fn is_open(&self) -> bool {
        self.is_on && self.needs_no_password
    }

    /// Whether no password is asked for.
    pub(crate) fn needs_no_password(&self) -> bool {
        self.needs_no_password
    }

    /// Whether a client with `password` may log in as this user.
    pub(crate) fn admits(&self, password: &[u8]) -> bool {
        let digest = Digest::of(password);
        // All of them, so that the time does not tell which.
        let is_known = self.passwords.iter().fold(false, |found, (known, ())| found | known.is_same(digest));
        self.is_on && (self.needs_no_password || is_known)
    }

    /// Whether nothing is denied.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.commands.is_all() && self.has_all_keys && self.has_all_channels
    }

    /// Whether the request may run.
    pub(crate) fn check(&self, command: &'static Command, arguments: Arguments<'_>) -> Result<(), Denied> {
        let named = self.check_command(command, arguments)?;
        named.names.iter().try_for_each(|name| self.check_name(arguments, name))?;
        named.rest
    }

    /// The first part of that, which takes time in proportion to the command's words. It checks
    /// whether the command may run at all, and collects the names to be checked one by one, in
    /// their order.
    pub(crate) fn check_command(
        &self,
        command: &'static Command,
        arguments: Arguments<'_>,
    ) -> Result<Named, Denied> {
        if !self.commands.is_all()
            && !command.flags.has(Flag::NoAuth)
            && !self.commands.allow(command, arguments)
        {
            return Err(Denied::Command);
        }
        let mut named = Named { names: Vec::new(), rest: Ok(()) };
        if !self.has_all_keys {
            self.name_keys(command, arguments, &mut named);
        }
        if !self.has_all_channels {
            let is_pattern = command.id() == PSUBSCRIBE;
            named.names.extend(channels(command, arguments).map(|index| Name::Channel { index, is_pattern }));
        }
        Ok(named)
    }

    fn name_keys(&self, command: &'static Command, arguments: Arguments<'_>, named: &mut Named) {
        const SORT: CommandId = id_of("sort");
        const SORT_RO: CommandId = id_of("sort_ro");
        let words: Vec<&[u8]> = arguments.iter().collect();
        let visited = command::visit_keys(command, &words, |key| {
            let (reads, writes) = (key.flags.reads(), key.flags.writes());
            named.names.push(Name::Key { index: key.index, reads, writes });
        });
        if !matches!(visited, Ok(()) | Err(KeysError::NoKeys)) {
            named.rest = Err(Denied::UnknownKeys);
        } else if matches!(command.id(), SORT | SORT_RO) && !self.allows_every_read() {
            let reads = |option: &&str| {
                let is_read = |pair: &[&[u8]]| {
                    pair[0].eq_ignore_ascii_case(option.as_bytes()) && pair[1].contains(&b'*')
                };
                words.get(2..).is_some_and(|options| options.windows(2).any(is_read))
            };
            let denied = ["BY", "GET"].into_iter().find(reads);
            named.rest = denied.map_or(Ok(()), |option| Err(Denied::SortOption(option)));
        }
    }

    /// Whether the request may do what it does with one of its names.
    pub(crate) fn check_name(&self, arguments: Arguments<'_>, name: &Name) -> Result<(), Denied> {
        match *name {
            Name::Key { index, reads, writes } => {
                let key = arguments.get(index).unwrap_or_default();
                self.allows_key(key, reads, writes).then_some(()).ok_or(Denied::Key(index))
            }
            Name::Channel { index, is_pattern } => {
                let channel = arguments.get(index).unwrap_or_default();
                self.allows_channel(is_pattern, channel).then_some(()).ok_or(Denied::Channel(index))
            }
        }
    }

    /// Bytes that a name of so many is compared with at most, its own included.
    pub(crate) fn compared_bytes(&self, name_len: usize) -> usize {
        let patterns = self.keys.iter().map(|(pattern, _)| pattern.len());
        let channels = self.channels.iter().map(|(pattern, ())| pattern.len());
        patterns.chain(channels).map(|len| len + name_len).sum()
    }

    /// Whether one pattern allows all that is done with the key.
    fn allows_key(&self, key: &[u8], reads: bool, writes: bool) -> bool {
        // What cannot be a key is compared with nothing.
        key.len() <= USER_KEY_BYTES_MAX
            && self.keys.iter().any(|(pattern, may)| {
                (may.reads || !reads) && (may.writes || !writes) && glob::matches(pattern, key)
            })
    }

    fn allows_every_read(&self) -> bool {
        self.has_all_keys || self.keys.iter().any(|(pattern, may)| may.reads && pattern == b"*")
    }
}

/// The positions of a request's channels.
fn channels(command: &'static Command, arguments: Arguments<'_>) -> Range<usize> {
    const PUBLISH: CommandId = id_of("publish");
    const SPUBLISH: CommandId = id_of("spublish");
    const SSUBSCRIBE: CommandId = id_of("ssubscribe");
    const SUBSCRIBE: CommandId = id_of("subscribe");
    match command.id() {
        PUBLISH | SPUBLISH => 1..2,
        SUBSCRIBE | SSUBSCRIBE | PSUBSCRIBE => 1..arguments.len(),
        _ => 0..0,
    }
}

/// What lasts longer than a request.
impl User {
    /// Whether a subscription to this channel, or pattern, is allowed. A pattern must be one of the
    /// user's own: what it matches cannot be told.
    pub(crate) fn allows_channel(&self, is_pattern: bool, name: &[u8]) -> bool {
        self.has_all_channels
            || match is_pattern {
                true => self.channels.contains(&name.to_vec()),
                false if name.len() > CHANNEL_BYTES_MAX => false,
                false => self.channels.iter().any(|(pattern, ())| glob::matches(pattern, name)),
            }
    }

    /// Whether it may be shown every command.
    pub(crate) fn may_monitor(&self) -> bool {
        let words = OwnedArguments::new([&b"monitor"[..]]);
        let monitor = command::find(b"monitor");
        self.commands.is_all() || monitor.is_some_and(|monitor| self.commands.allow(monitor, words.get()))
    }
}

/// As text.
impl User {
    /// All rules, which make the same user again from a new one.
    pub(crate) fn rules(&self) -> Vec<u8> {
        let mut rules = Vec::new();
        for word in self.flags() {
            rules.extend_from_slice(word.as_bytes());
            rules.push(b' ');
        }
        for (password, ()) in self.passwords.iter() {
            rules.extend_from_slice(format!("#{} ", password.to_hex()).as_bytes());
        }
        let mut push = |part: Vec<u8>| {
            if !part.is_empty() {
                rules.extend_from_slice(&part);
                rules.push(b' ');
            }
        };
        push(self.key_rules());
        if !self.has_all_channels {
            push(b"resetchannels".to_vec());
        }
        push(self.channel_rules());
        rules.extend_from_slice(self.commands.text().as_bytes());
        rules
    }

    /// Words that say yes or no.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        if self.needs_no_password {
            flags.push("nopass");
        }
        flags
    }

    /// Digests of the passwords, in hexadecimal digits.
    pub(crate) fn passwords(&self) -> Vec<String> {
        self.passwords.iter().map(|(digest, ())| digest.to_hex()).collect()
    }

    pub(crate) fn command_rules(&self) -> String {
        self.commands.text()
    }

    pub(crate) fn key_rules(&self) -> Vec<u8> {
        if self.has_all_keys {
            return b"~*".to_vec();
        }
        let rules = self.keys.iter().map(|(pattern, may)| {
            let sign: &[u8] = match (may.reads, may.writes) {
                (true, true) => b"~",
                (true, false) => b"%R~",
                _ => b"%W~",
            };
            [sign, pattern].concat()
        });
        rules.collect::<Vec<_>>().join(&b' ')
    }

    pub(crate) fn channel_rules(&self) -> Vec<u8> {
        if self.has_all_channels {
            return b"&*".to_vec();
        }
        self.channels
            .iter()
            .map(|(pattern, ())| [b"&", pattern.as_slice()].concat())
            .collect::<Vec<_>>()
            .join(&b' ')
    }
}
