//! The keys of a request, found without running it.

use std::fmt;

use super::key_spec::{OW_UPDATE, RO_ACCESS, RW_ACCESS_DELETE, RW_ACCESS_UPDATE};
use super::{Begin, Command, Extent, Flag, KeyFlag, KeyFlags, KeySpec};

/// A key among the arguments of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// Its position; the command's name is at 0.
    pub index: usize,
    /// What the command does with it.
    pub flags: KeyFlags,
}

/// Why the keys of a request are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysError {
    /// The command has none.
    NoKeys,
    /// The command does not take so many arguments.
    ArgumentCount,
    /// The arguments do not say where keys are: a count that is none, or one beyond the arguments.
    Arguments,
}

/// The text clients expect, without the code before it.
impl fmt::Display for KeysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeysError::NoKeys => "The command has no key arguments",
            KeysError::ArgumentCount => "Invalid number of arguments specified for command",
            KeysError::Arguments => "Invalid arguments specified for command",
        })
    }
}

impl std::error::Error for KeysError {}

/// Positions of the keys of a request, as COMMAND GETKEYS answers them: none for a script with a
/// bad count of keys.
///
/// `arguments` begin with the command's name (for a subcommand: its container's, then its own).
///
/// # Errors
/// As [`visit_keys`].
pub fn keys_of<A: AsRef<[u8]>>(command: &Command, arguments: &[A]) -> Result<Vec<usize>, KeysError> {
    let mut found = Vec::new();
    match visit_keys(command, arguments, |key| found.push(key.index)) {
        Err(KeysError::Arguments) if command.flags.has(Flag::NoMandatoryKeys) => Ok(Vec::new()),
        result => result.map(|()| found),
    }
}

/// Shows `visit` each key of a request, in the order of the command's descriptions; allocates
/// nothing.
///
/// No key at all is fine for the commands that need none (EVAL with a count of 0).
///
/// # Errors
/// [`KeysError`]. Some keys may have been shown by then. A caller that checks rights MUST refuse
/// the request, or be sure that the command itself refuses it.
pub fn visit_keys<A: AsRef<[u8]>>(
    command: &Command,
    arguments: &[A],
    mut visit: impl FnMut(KeyUse),
) -> Result<(), KeysError> {
    if !command.has_keys() {
        return Err(KeysError::NoKeys);
    }
    if !command.accepts(arguments.len()) {
        return Err(KeysError::ArgumentCount);
    }
    let mut is_empty = true;
    let mut visit = |key: KeyUse| {
        is_empty = false;
        visit(key);
    };
    match command.rule {
        Some(rule) => rule.visit(arguments, &mut visit),
        None => visit_specs(command.key_specs, arguments, &mut visit)?,
    }
    if is_empty && !command.flags.has(Flag::NoMandatoryKeys) {
        return Err(KeysError::Arguments);
    }
    Ok(())
}

fn visit_specs<A: AsRef<[u8]>>(
    specs: &[KeySpec],
    arguments: &[A],
    visit: &mut impl FnMut(KeyUse),
) -> Result<(), KeysError> {
    for spec in specs.iter().filter(|spec| !spec.flags.has(KeyFlag::NotKey)) {
        if let Some(begin) = begin_of(spec.begin, arguments) {
            visit_run(begin, spec, arguments, visit)?;
        }
    }
    Ok(())
}

/// Where a run begins, if it occurs.
fn begin_of<A: AsRef<[u8]>>(begin: Begin, arguments: &[A]) -> Option<usize> {
    match begin {
        Begin::Index(index) => Some(index as usize),
        Begin::Keyword(word, from) => {
            let is_word = |index: &usize| is_word(arguments, *index, word);
            if from >= 0 {
                (from as usize..arguments.len()).find(is_word)
            } else {
                let from = arguments.len().checked_sub(from.unsigned_abs() as usize)?;
                (1..=from).rev().find(is_word)
            }
            .map(|index| index + 1)
        }
        Begin::Unknown => None,
    }
}

fn visit_run<A: AsRef<[u8]>>(
    begin: usize,
    spec: &KeySpec,
    arguments: &[A],
    visit: &mut impl FnMut(KeyUse),
) -> Result<(), KeysError> {
    let count = arguments.len();
    let (first, last, step) = match spec.extent {
        Extent::Range { last, step, .. } if last >= 0 => (begin, Some(begin + last as usize), step),
        Extent::Range { last, step, limit } => {
            let part = count.saturating_sub(begin) / limit.max(1) as usize;
            let after = begin + part + 1;
            match after.checked_sub(last.unsigned_abs() as usize) {
                Some(after) if begin < after => (begin, Some(after - 1), step),
                // Nothing is left for the run.
                _ => return Ok(()),
            }
        }
        Extent::Counted { count, first, step } => {
            let keys = arguments.get(begin + count as usize).and_then(|word| count_of(word.as_ref()));
            let keys = keys.ok_or(KeysError::Arguments)?;
            if keys == 0 {
                return Ok(());
            }
            let first = begin + first as usize;
            (first, (keys - 1).checked_mul(step as usize).and_then(|way| first.checked_add(way)), step)
        }
        Extent::Unknown => return Ok(()),
    };
    let last = last.filter(|last| first <= *last && *last < count).ok_or(KeysError::Arguments)?;
    for index in (first..=last).step_by(step.max(1) as usize) {
        visit(KeyUse { index, flags: spec.flags });
    }
    Ok(())
}

fn is_word<A: AsRef<[u8]>>(arguments: &[A], index: usize, word: &str) -> bool {
    arguments.get(index).is_some_and(|argument| argument.as_ref().eq_ignore_ascii_case(word.as_bytes()))
}

/// A count in decimal: digits only, no leading zero.
fn count_of(digits: &[u8]) -> Option<usize> {
    if digits.len() > 1 && digits.first() == Some(&b'0') {
        return None;
    }
    let is_number = (1..=10).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')))
}

/// Keys whose places or uses depend on options that a [`KeySpec`] cannot describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// SORT: the last STORE names a second key; BY and GET patterns are not keys.
    Sort,
    /// MIGRATE: one key, or, if that is empty, those after KEYS.
    Migrate,
    /// SET: reads the old value only with GET.
    Set,
    /// BITFIELD: writes only with SET or INCRBY.
    BitField,
}

impl Rule {
    fn visit<A: AsRef<[u8]>>(self, arguments: &[A], visit: &mut impl FnMut(KeyUse)) {
        let has = |from: usize, word| (from..arguments.len()).any(|index| is_word(arguments, index, word));
        match self {
            Rule::Sort => {
                visit(KeyUse { index: 1, flags: RO_ACCESS });
                if let Some(index) = sort_destination(arguments) {
                    visit(KeyUse { index, flags: OW_UPDATE });
                }
            }
            Rule::Migrate => visit_migrate(arguments, visit),
            Rule::Set => {
                visit(KeyUse { index: 1, flags: if has(3, "get") { RW_ACCESS_UPDATE } else { OW_UPDATE } });
            }
            Rule::BitField => {
                let writes = has(2, "set") || has(2, "incrby");
                visit(KeyUse { index: 1, flags: if writes { RW_ACCESS_UPDATE } else { RO_ACCESS } });
            }
        }
    }
}

/// Position of the key after the last STORE of SORT. Arguments of other options are skipped.
fn sort_destination<A: AsRef<[u8]>>(arguments: &[A]) -> Option<usize> {
    let (mut found, mut index) = (None, 2);
    while index < arguments.len() {
        if is_word(arguments, index, "limit") {
            index += 2;
        } else if is_word(arguments, index, "get") || is_word(arguments, index, "by") {
            index += 1;
        } else if is_word(arguments, index, "store") && index + 1 < arguments.len() {
            index += 1;
            found = Some(index);
        }
        index += 1;
    }
    found
}

fn visit_migrate<A: AsRef<[u8]>>(arguments: &[A], visit: &mut impl FnMut(KeyUse)) {
    const KEY: usize = 3;
    let flags = RW_ACCESS_DELETE;
    if arguments.get(KEY).is_some_and(|key| !key.as_ref().is_empty()) {
        visit(KeyUse { index: KEY, flags });
        return;
    }
    let mut index = KEY + 3;
    while index < arguments.len() {
        if is_word(arguments, index, "keys") {
            (index + 1..arguments.len()).for_each(|index| visit(KeyUse { index, flags }));
            return;
        }
        let is = |word| is_word(arguments, index, word);
        index += if is("auth2") {
            3
        } else if is("auth") {
            2
        } else {
            1
        };
    }
}
