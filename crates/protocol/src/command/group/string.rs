//! Strings and counters.

use crate::command::Flag::{DenyOom, Fast, ReadOnly, Write};
use crate::command::KeyFlag::Variable;
use crate::command::key_spec::{
    OW_INSERT, OW_UPDATE, RO, RO_ACCESS, RW_ACCESS_DELETE, RW_ACCESS_UPDATE, RW_INSERT, RW_UPDATE, at, range,
};
use crate::command::keys::Rule;
use crate::command::{Command, entry};

pub(super) const COMMANDS: &[Command] = &[
    entry("append", 3, "2.0.0", "O(1)", "Adds bytes at the end of a string, or makes one of them.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_INSERT)])
        .built(),
    entry("decr", 2, "1.0.0", "O(1)", "Takes one from a counter; no key counts as 0.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_ACCESS_UPDATE)])
        .built(),
    entry("decrby", 3, "1.0.0", "O(1)", "Takes a number from a counter; no key counts as 0.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_ACCESS_UPDATE)])
        .built(),
    entry("get", 2, "1.0.0", "O(1)", "Answers a string.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("getdel", 2, "6.2.0", "O(1)", "Answers a string and removes its key.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_ACCESS_DELETE)])
        .built(),
    entry("getex", -2, "6.2.0", "O(1)", "Answers a string and sets or clears when its key expires.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_ACCESS_UPDATE)])
        .built(),
    entry("getrange", 4, "2.4.0", "O(N), N bytes answered", "Answers a part of a string.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("getset", 3, "1.0.0", "O(1)", "Sets a string and answers the one before.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_ACCESS_UPDATE)])
        .deprecated("6.2.0", "`SET` with `GET`")
        .built(),
    entry("incr", 2, "1.0.0", "O(1)", "Adds one to a counter; no key counts as 0.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_ACCESS_UPDATE)])
        .built(),
    entry("incrby", 3, "1.0.0", "O(1)", "Adds a number to a counter; no key counts as 0.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_ACCESS_UPDATE)])
        .built(),
    entry("incrbyfloat", 3, "2.6.0", "O(1)", "Adds a fraction to a counter; no key counts as 0.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_ACCESS_UPDATE)])
        .built(),
    entry("lcs", -3, "7.0.0", "O(N*M), the lengths", "Finds the longest common subsequence of two strings.")
        .flags(&[ReadOnly])
        .keys(&[range(1, 1, 1, RO_ACCESS)])
        .built(),
    entry("mget", -2, "1.0.0", "O(N), N keys", "Answers several strings, all as of one moment.")
        .flags(&[ReadOnly, Fast])
        .keys(&[range(1, -1, 1, RO_ACCESS)])
        .built(),
    entry("mset", -3, "1.0.1", "O(N), N keys", "Sets several strings at once.")
        .flags(&[Write, DenyOom])
        .keys(&[range(1, -1, 2, OW_UPDATE)])
        .built(),
    entry("msetnx", -3, "1.0.1", "O(N), N keys", "`MSET`, if none of the keys is there.")
        .flags(&[Write, DenyOom])
        .keys(&[range(1, -1, 2, OW_INSERT)])
        .built(),
    entry("psetex", 4, "2.6.0", "O(1)", "Sets a string that expires after some milliseconds.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, OW_UPDATE)])
        .built(),
    entry("set", -3, "1.0.0", "O(1)", "Sets a string, with conditions and expiry as options.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, RW_ACCESS_UPDATE.with(Variable))])
        .rule(Rule::Set)
        .built(),
    entry("setex", 4, "2.0.0", "O(1)", "Sets a string that expires after some seconds.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, OW_UPDATE)])
        .built(),
    entry("setnx", 3, "1.0.0", "O(1)", "Sets a string if its key is not there.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, OW_INSERT)])
        .built(),
    entry("setrange", 4, "2.2.0", "O(N), N bytes written", "Overwrites a part of a string.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, RW_UPDATE)])
        .built(),
    entry("strlen", 2, "2.2.0", "O(1)", "Answers the length of a string.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO)])
        .built(),
    entry("substr", 4, "1.0.0", "O(N), N bytes answered", "Answers a part of a string.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .deprecated("2.0.0", "`GETRANGE`")
        .built(),
];
