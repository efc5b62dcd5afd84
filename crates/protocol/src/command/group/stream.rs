//! Streams.

use crate::command::Flag::{Blocking, DenyOom, Fast, Loading, ReadOnly, Stale, Write};
use crate::command::absence::NO_STREAMS;
use crate::command::key_spec::{RO, RO_ACCESS, RW_DELETE, RW_INSERT, RW_UPDATE, at, rest_after};
use crate::command::{Command, entry};

pub(super) const COMMANDS: &[Command] = &[
    entry("xack", -4, "5.0.0", "O(N), N entries named", "Tells a group that entries are dealt with.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .not_yet(&NO_STREAMS),
    entry("xadd", -5, "5.0.0", "O(1), more when it trims", "Adds an entry to a stream.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .not_yet(&NO_STREAMS),
    entry("xautoclaim", -6, "6.2.0", "O(1) a call", "Gives a consumer what others kept for long.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_DELETE)])
        .not_yet(&NO_STREAMS),
    entry("xclaim", -6, "5.0.0", "O(log(N)) each entry", "Gives a consumer entries that others have.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .not_yet(&NO_STREAMS),
    entry("xdel", -3, "5.0.0", "O(1) each entry", "Removes entries of a stream.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_DELETE)])
        .not_yet(&NO_STREAMS),
    entry("xgroup", -2, "5.0.0", "as its subcommands", "Groups of consumers.")
        .with(XGROUP)
        .not_yet(&NO_STREAMS),
    entry("xinfo", -2, "5.0.0", "as its subcommands", "What streams and groups are like.")
        .with(XINFO)
        .not_yet(&NO_STREAMS),
    entry("xlen", 2, "5.0.0", "O(1)", "Answers how many entries a stream has.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO)])
        .not_yet(&NO_STREAMS),
    entry("xpending", -3, "5.0.0", "O(N), N entries answered", "Answers what a group has not dealt with.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .not_yet(&NO_STREAMS),
    entry("xrange", -4, "5.0.0", "O(N), N entries answered", "Answers the entries between two ids.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .not_yet(&NO_STREAMS),
    entry("xread", -4, "5.0.0", "O(N), N entries answered", "Answers entries after some ids, or waits.")
        .flags(&[ReadOnly, Blocking])
        .keys(&[rest_after("STREAMS", 1, 2, RO_ACCESS)])
        .not_yet(&NO_STREAMS),
    entry("xreadgroup", -7, "5.0.0", "O(N), N entries answered", "`XREAD` as a consumer of a group.")
        .flags(&[Write, Blocking])
        .keys(&[rest_after("STREAMS", 4, 2, RO_ACCESS)])
        .not_yet(&NO_STREAMS),
    entry("xrevrange", -4, "5.0.0", "O(N), N entries answered", "`XRANGE`, last entry first.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .not_yet(&NO_STREAMS),
    entry("xsetid", -3, "5.0.0", "O(1)", "Sets the last id of a stream.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .not_yet(&NO_STREAMS),
    entry("xtrim", -4, "5.0.0", "O(N), N entries removed", "Removes the oldest entries.")
        .flags(&[Write])
        .keys(&[at(1, RW_DELETE)])
        .not_yet(&NO_STREAMS),
];

const XGROUP: &[Command] = &[
    entry("create", -5, "5.0.0", "O(1)", "Makes a group.")
        .flags(&[Write, DenyOom])
        .keys(&[at(2, RW_INSERT)])
        .not_yet(&NO_STREAMS),
    entry("createconsumer", 5, "6.2.0", "O(1)", "Adds a consumer to a group.")
        .flags(&[Write, DenyOom])
        .keys(&[at(2, RW_INSERT)])
        .not_yet(&NO_STREAMS),
    entry("delconsumer", 5, "5.0.0", "O(1)", "Removes a consumer of a group.")
        .flags(&[Write])
        .keys(&[at(2, RW_DELETE)])
        .not_yet(&NO_STREAMS),
    entry("destroy", 4, "5.0.0", "O(N), N entries not dealt with", "Removes a group.")
        .flags(&[Write])
        .keys(&[at(2, RW_DELETE)])
        .not_yet(&NO_STREAMS),
    entry("help", 2, "5.0.0", "O(1)", "Answers the subcommands.")
        .flags(&[Loading, Stale])
        .not_yet(&NO_STREAMS),
    entry("setid", -5, "5.0.0", "O(1)", "Sets the last id that a group has seen.")
        .flags(&[Write])
        .keys(&[at(2, RW_UPDATE)])
        .not_yet(&NO_STREAMS),
];

const XINFO: &[Command] = &[
    entry("consumers", 4, "5.0.0", "O(1)", "Describes the consumers of a group.")
        .flags(&[ReadOnly])
        .keys(&[at(2, RO_ACCESS)])
        .not_yet(&NO_STREAMS),
    entry("groups", 3, "5.0.0", "O(1)", "Describes the groups of a stream.")
        .flags(&[ReadOnly])
        .keys(&[at(2, RO_ACCESS)])
        .not_yet(&NO_STREAMS),
    entry("help", 2, "5.0.0", "O(1)", "Answers the subcommands.")
        .flags(&[Loading, Stale])
        .not_yet(&NO_STREAMS),
    entry("stream", -3, "5.0.0", "O(1)", "Describes a stream.")
        .flags(&[ReadOnly])
        .keys(&[at(2, RO_ACCESS)])
        .not_yet(&NO_STREAMS),
];
