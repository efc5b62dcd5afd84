//! The commands of all groups in one numbered table, found by name.
//!
//! Commands come first, group by group, then subcommands, container by container. Names are found
//! through a hash table with open addressing; all of it is made at compile time.

use super::group::GROUPS;
use super::key_spec::fixed_positions;
use super::{Categories, Command, Flag, Group, entry};

/// Number of a command or subcommand; dense from 0, the same within one build only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(u16);

impl CommandId {
    pub(super) const NONE: Self = Self(u16::MAX);

    /// The number as an index below [`COUNT`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Entries of the table that follow each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdRange {
    first: u16,
    count: u16,
}

impl IdRange {
    pub(super) const NONE: Self = Self { first: 0, count: 0 };
}

/// Number of commands, subcommands not counted: what COMMAND COUNT answers.
const TOP_COUNT: usize = counts().0;

/// Number of commands and subcommands: every [`CommandId::index`] is below it.
pub const COUNT: usize = counts().1;

static TABLE: [Command; COUNT] = numbered();

/// Every command, without subcommands, group by group.
pub fn commands() -> &'static [Command] {
    TABLE.get(..TOP_COUNT).unwrap_or_default()
}

/// Every command, then every subcommand; the position of each is its [`CommandId::index`].
pub fn all() -> &'static [Command] {
    &TABLE
}

/// The command numbered `id`.
pub fn get(id: CommandId) -> Option<&'static Command> {
    TABLE.get(id.index())
}

pub(super) fn slice(range: IdRange) -> &'static [Command] {
    let first = range.first as usize;
    TABLE.get(first..first + range.count as usize).unwrap_or_default()
}

/// The command called `name`, in any case; not a subcommand.
///
/// Allocates nothing and costs some nanoseconds: one hash, mostly one comparison.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let mut slot = slot_of(name);
    loop {
        // An empty slot holds a number that no command has.
        let command = TABLE.get(*SLOTS.get(slot)? as usize)?;
        if command.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(command);
        }
        slot = (slot + 1) % SLOT_COUNT;
    }
}

/// The subcommand of `command` called `name`, in any case. Compares with each: there are at most
/// some thirty.
pub fn find_subcommand(command: &Command, name: &[u8]) -> Option<&'static Command> {
    command.subcommands().iter().find(|subcommand| subcommand.name.as_bytes().eq_ignore_ascii_case(name))
}

/// The number of the command with this name (`get`, `config|get`), for constants of dispatch
/// tables.
///
/// # Panics
/// When there is no such command: at compile time where the call initialises a constant, as it
/// should.
pub const fn id_of(name: &str) -> CommandId {
    let mut index = 0;
    while index < COUNT {
        if is_called(&TABLE[index], name.as_bytes()) {
            return CommandId(index as u16);
        }
        index += 1;
    }
    panic!("no command has this name")
}

const fn is_called(command: &Command, name: &[u8]) -> bool {
    let Some(container) = command.container else {
        return is_equal(command.name.as_bytes(), name);
    };
    let container = container.as_bytes();
    match name.split_at_checked(container.len()) {
        Some((first, [b'|', rest @ ..])) => {
            is_equal(container, first) && is_equal(command.name.as_bytes(), rest)
        }
        _ => false,
    }
}

const fn is_equal(mut left: &[u8], mut right: &[u8]) -> bool {
    while let ([a, left_rest @ ..], [b, right_rest @ ..]) = (left, right) {
        if *a != *b {
            return false;
        }
        (left, right) = (left_rest, right_rest);
    }
    left.is_empty() && right.is_empty()
}

const fn counts() -> (usize, usize) {
    let (mut top, mut all, mut group) = (0, 0, 0);
    while group < GROUPS.len() {
        let commands = GROUPS[group].1;
        let mut index = 0;
        while index < commands.len() {
            all += 1 + commands[index].written.len();
            index += 1;
        }
        top += commands.len();
        group += 1;
    }
    (top, all)
}

const fn numbered() -> [Command; COUNT] {
    let mut table = [entry("", 0, "", "", ""); COUNT];
    let (mut id, mut subcommand_id, mut group) = (0, TOP_COUNT, 0);
    while group < GROUPS.len() {
        let (name, commands) = GROUPS[group];
        let mut index = 0;
        while index < commands.len() {
            let written = commands[index].written;
            table[id] = complete(commands[index], id, name);
            table[id].subcommands = IdRange { first: subcommand_id as u16, count: written.len() as u16 };
            let mut at = 0;
            while at < written.len() {
                table[subcommand_id] = complete(written[at], subcommand_id, name);
                table[subcommand_id].container = Some(table[id].name);
                subcommand_id += 1;
                at += 1;
            }
            id += 1;
            index += 1;
        }
        group += 1;
    }
    table
}

/// What was written, with what follows from it.
const fn complete(written: Command, id: usize, group: Group) -> Command {
    let (first_key, last_key, key_step, is_movable) = fixed_positions(written.key_specs);
    let flags = if is_movable { written.flags.with(Flag::MovableKeys) } else { written.flags };
    let categories = match (written.has_own_categories, written.written) {
        (true, _) => written.categories,
        (false, []) => group.categories(),
        // Subcommands have the categories of their group, their container has none.
        (false, _) => Categories::NONE,
    };
    let categories = categories.following(flags);
    Command { id: CommandId(id as u16), group, flags, categories, first_key, last_key, key_step, ..written }
}

/// Length of the longest name of a command.
const NAME_BYTES_MAX: usize = 20;

/// A power of two, at least eight times the commands: one name in twenty is not where its hash
/// says.
const SLOT_COUNT: usize = 2048;

/// Numbers of the commands at the places their hashes give; the others hold a number that no
/// command has.
static SLOTS: [u16; SLOT_COUNT] = slots();

const _: () = assert!(TOP_COUNT * 8 <= SLOT_COUNT && SLOT_COUNT.is_power_of_two());
const _: () = assert!(COUNT < CommandId::NONE.index());

const fn slots() -> [u16; SLOT_COUNT] {
    let mut slots = [CommandId::NONE.0; SLOT_COUNT];
    let mut index = 0;
    while index < TOP_COUNT {
        let name = TABLE[index].name.as_bytes();
        assert!(name.len() <= NAME_BYTES_MAX);
        let mut slot = slot_of(name);
        while slots[slot] != CommandId::NONE.0 {
            slot = (slot + 1) % SLOT_COUNT;
        }
        slots[slot] = index as u16;
        index += 1;
    }
    slots
}

/// The place of a name, the same for letters of either case: from its first and last bytes and its
/// length.
const fn slot_of(name: &[u8]) -> usize {
    let (first, last) = if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        (u32::from_le_bytes(*first) as u64, u32::from_le_bytes(*last) as u64)
    } else if let [first, rest @ ..] = name {
        let (second, last) = match rest {
            [] => (0, 0),
            [last] => (0, *last),
            [second, .., last] => (*second, *last),
        };
        (*first as u64 | (second as u64) << 8, last as u64)
    } else {
        (0, 0)
    };
    // Setting this bit of every byte makes letters lower case.
    const CASE: u64 = 0x2020_2020_2020_2020;
    let mixed = (first | CASE).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (last | CASE);
    let mixed = (mixed ^ name.len() as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (mixed >> (64 - SLOT_COUNT.trailing_zeros())) as usize
}
