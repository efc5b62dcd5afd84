//! Sets.

use crate::command::Flag::{DenyOom, Fast, ReadOnly, Write};
use crate::command::key_spec::{
    OW_UPDATE, RO, RO_ACCESS, RW_ACCESS_DELETE, RW_DELETE, RW_INSERT, RW_UPDATE, at, counted, range,
};
use crate::command::{Command, entry};

pub(super) const COMMANDS: &[Command] = &[
    entry("sadd", -3, "1.0.0", "O(N), N members given", "Adds members to a set.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_INSERT)])
        .built(),
    entry("scard", 2, "1.0.0", "O(1)", "Answers how many members a set has.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO)])
        .built(),
    entry("sdiff", -2, "1.0.0", "O(N), N members of all sets", "Answers what only the first set has.")
        .flags(&[ReadOnly])
        .keys(&[range(1, -1, 1, RO_ACCESS)])
        .built(),
    entry("sdiffstore", -3, "1.0.0", "O(N), N members of all sets", "`SDIFF`, stored as a set.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, OW_UPDATE), range(2, -1, 1, RO_ACCESS)])
        .built(),
    entry(
        "sinter",
        -2,
        "1.0.0",
        "O(N*M), M sets, N the smallest, the others at most 8 N each",
        "Answers what all the sets have.",
    )
    .flags(&[ReadOnly])
    .keys(&[range(1, -1, 1, RO_ACCESS)])
    .built(),
    entry("sintercard", -3, "7.0.0", "as `SINTER`", "Counts what all the sets have, up to a limit.")
        .flags(&[ReadOnly])
        .keys(&[counted(1, RO_ACCESS)])
        .built(),
    entry("sinterstore", -3, "1.0.0", "as `SINTER`", "`SINTER`, stored as a set.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, RW_UPDATE), range(2, -1, 1, RO_ACCESS)])
        .built(),
    entry("sismember", 3, "1.0.0", "O(1)", "Tells whether a set has a member.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO)])
        .built(),
    entry("smembers", 2, "1.0.0", "O(N), N members", "Answers all members of a set.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("smismember", -3, "6.2.0", "O(N), N members given", "Tells of each member whether a set has it.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("smove", 4, "1.0.0", "O(1)", "Moves a member from a set to another.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_ACCESS_DELETE), at(2, RW_INSERT)])
        .built(),
    entry(
        "spop",
        -2,
        "1.0.0",
        "O(N), N members taken; all of them from an eighth on",
        "Takes members of a set at random.",
    )
    .flags(&[Write, Fast])
    .keys(&[at(1, RW_ACCESS_DELETE)])
    .built(),
    entry(
        "srandmember",
        -2,
        "1.0.0",
        "O(N), N members answered; all of them from an eighth on",
        "Answers members picked at random.",
    )
    .flags(&[ReadOnly])
    .keys(&[at(1, RO_ACCESS)])
    .built(),
    entry("srem", -3, "1.0.0", "O(N), N members given", "Removes members of a set.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_DELETE)])
        .built(),
    entry("sscan", -3, "2.8.0", "O(1) a call, O(N) all of them", "Walks over a set, some members at a time.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("sunion", -2, "1.0.0", "O(N), N members of all sets", "Answers what any of the sets has.")
        .flags(&[ReadOnly])
        .keys(&[range(1, -1, 1, RO_ACCESS)])
        .built(),
    entry("sunionstore", -3, "1.0.0", "O(N), N members of all sets", "`SUNION`, stored as a set.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, OW_UPDATE), range(2, -1, 1, RO_ACCESS)])
        .built(),
];
