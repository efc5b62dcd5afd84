//! Strings as bits.

use crate::command::Flag::{DenyOom, Fast, ReadOnly, Write};
use crate::command::KeyFlag::Variable;
use crate::command::key_spec::{OW_UPDATE, RO_ACCESS, RW_ACCESS_UPDATE, at, range};
use crate::command::keys::Rule;
use crate::command::{Command, entry};

pub(super) const COMMANDS: &[Command] = &[
    entry("bitcount", -2, "2.6.0", "O(N), N bytes read", "Counts the set bits of a string or a part.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("bitfield", -2, "3.2.0", "O(1) each operation", "Reads and writes integers of any width.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, RW_ACCESS_UPDATE.with(Variable))])
        .rule(Rule::BitField)
        .built(),
    entry("bitfield_ro", -2, "6.0.0", "O(1) each operation", "Reads integers of any width in a string.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("bitop", -4, "2.6.0", "O(N), N bytes read", "Stores what AND, OR, XOR or NOT makes of strings.")
        .flags(&[Write, DenyOom])
        .keys(&[at(2, OW_UPDATE), range(3, -1, 1, RO_ACCESS)])
        .built(),
    entry("bitpos", -3, "2.8.7", "O(N), N bytes read", "Finds the first bit that is set or is not.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("getbit", 3, "2.2.0", "O(1)", "Answers one bit of a string.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("setbit", 4, "2.2.0", "O(1)", "Sets or clears one bit of a string and answers what it was.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, RW_ACCESS_UPDATE)])
        .built(),
];
