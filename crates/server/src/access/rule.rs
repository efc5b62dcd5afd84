//! One rule of a user, as ACL SETUSER takes it.

use std::fmt;

use super::command_rules::CommandRules;
use super::password::Digest;
use super::user::{KeyRights, User};
use crate::bounds::KEPT_PATTERN_BYTES_MAX;

/// Why a rule is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Syntax,
    UnknownCommand,
    FirstArgumentOfSubcommand,
    NoSuchPassword,
    BadDigest,
    NeedlessKeyPattern,
    NeedlessChannelPattern,
    LongPattern,
    /// Rules within rules are not offered.
    Selector,
}

/// The sentence clients know.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Syntax => "Syntax error",
            Fault::UnknownCommand => "Unknown command or category name in ACL",
            Fault::FirstArgumentOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            Fault::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            Fault::BadDigest => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Fault::NeedlessKeyPattern => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Fault::NeedlessChannelPattern => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have \
                 any effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Fault::LongPattern => {
                return write!(f, "A pattern is longer than the longest, {KEPT_PATTERN_BYTES_MAX} bytes");
            }
            Fault::Selector => "Selectors are not offered",
        })
    }
}

impl User {
    /// The user that `rules` make, as [`User::rules`] writes them.
    ///
    /// # Errors
    /// The rule that is none, as a sentence.
    pub(super) fn read(name: &[u8], rules: &[u8]) -> Result<Self, String> {
        let mut user = User::new(name);
        for rule in rules.split(|byte| *byte == b' ').filter(|rule| !rule.is_empty()) {
            user.apply(rule).map_err(|fault| {
                let (name, rule) = (String::from_utf8_lossy(name), String::from_utf8_lossy(rule));
                format!("the rule `{rule}` of user `{name}`: {fault}")
            })?;
        }
        Ok(user)
    }

    /// Applies one rule.
    ///
    /// # Errors
    /// [`Fault`]; the user is as before then.
    pub(crate) fn apply(&mut self, rule: &[u8]) -> Result<(), Fault> {
        let word = rule.to_ascii_lowercase();
        match word.as_slice() {
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"nopass" => {
                self.needs_no_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.needs_no_password = false;
                self.passwords.clear();
            }
            b"allkeys" | b"~*" => {
                self.has_all_keys = true;
                self.keys.clear();
            }
            b"resetkeys" => {
                self.has_all_keys = false;
                self.keys.clear();
            }
            b"allchannels" | b"&*" => {
                self.has_all_channels = true;
                self.channels.clear();
            }
            b"resetchannels" => {
                self.has_all_channels = false;
                self.channels.clear();
            }
            b"allcommands" => self.commands = CommandRules::all(),
            b"nocommands" => self.commands = CommandRules::none(),
            // Nothing here is read without being checked.
            b"sanitize-payload" | b"skip-sanitize-payload" | b"clearselectors" => {}
            b"reset" => *self = User::new(&self.name),
            _ => return self.apply_signed(rule),
        }
        Ok(())
    }

    /// A rule whose first byte says what it is about.
    fn apply_signed(&mut self, rule: &[u8]) -> Result<(), Fault> {
        let Some((sign, rest)) = rule.split_first() else { return Err(Fault::Syntax) };
        match sign {
            b'>' => self.add_password(Digest::of(rest)),
            b'#' => self.add_password(Digest::from_hex(rest).ok_or(Fault::BadDigest)?),
            b'<' => self.remove_password(Digest::of(rest))?,
            b'!' => self.remove_password(Digest::from_hex(rest).ok_or(Fault::BadDigest)?)?,
            b'~' => self.add_key_pattern(rest, true, true)?,
            b'%' => {
                let end = rest.iter().position(|byte| *byte == b'~');
                let (rights, pattern) = rest.split_at(end.unwrap_or(rest.len()));
                let has = |right: u8| rights.iter().any(|byte| byte.to_ascii_lowercase() == right);
                if rights.is_empty() || !rights.iter().all(|byte| b"rwRW".contains(byte)) {
                    return Err(Fault::Syntax);
                }
                self.add_key_pattern(pattern.get(1..).ok_or(Fault::Syntax)?, has(b'r'), has(b'w'))?;
            }
            b'&' => self.add_channel_pattern(rest)?,
            b'+' => self.commands.apply(true, rest)?,
            b'-' => self.commands.apply(false, rest)?,
            b'(' => return Err(Fault::Selector),
            _ => return Err(Fault::Syntax),
        }
        Ok(())
    }

    fn add_password(&mut self, digest: Digest) {
        self.needs_no_password = false;
        self.passwords.get_or_push(digest, ());
    }

    fn remove_password(&mut self, digest: Digest) -> Result<(), Fault> {
        self.passwords.remove(&digest).then_some(()).ok_or(Fault::NoSuchPassword)
    }

    fn add_key_pattern(&mut self, pattern: &[u8], reads: bool, writes: bool) -> Result<(), Fault> {
        if self.has_all_keys {
            return Err(Fault::NeedlessKeyPattern);
        }
        check_pattern(pattern)?;
        let known = self.keys.get_or_push(pattern.to_vec(), KeyRights::default());
        known.reads |= reads;
        known.writes |= writes;
        // Written `~*`, which says the same when it is read again.
        if pattern == b"*" && known.reads && known.writes {
            self.has_all_keys = true;
            self.keys.clear();
        }
        Ok(())
    }

    fn add_channel_pattern(&mut self, pattern: &[u8]) -> Result<(), Fault> {
        if self.has_all_channels {
            return Err(Fault::NeedlessChannelPattern);
        }
        check_pattern(pattern)?;
        self.channels.get_or_push(pattern.to_vec(), ());
        Ok(())
    }
}

fn check_pattern(pattern: &[u8]) -> Result<(), Fault> {
    match pattern.len() > KEPT_PATTERN_BYTES_MAX {
        true => Err(Fault::LongPattern),
        false if is_pattern(pattern) => Ok(()),
        false => Err(Fault::Syntax),
    }
}

/// Whether `text` can stand in a list of rules: without blanks, ends of lines and zero bytes.
pub(super) fn is_pattern(text: &[u8]) -> bool {
    !text.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b))
}
