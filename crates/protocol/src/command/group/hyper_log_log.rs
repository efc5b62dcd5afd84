//! HyperLogLogs.

use crate::command::Flag::{Admin, DenyOom, Fast, ReadOnly, Write};
use crate::command::absence::NO_HYPER_LOG_LOG;
use crate::command::key_spec::{RO_ACCESS, RW_ACCESS, RW_ACCESS_INSERT, RW_INSERT, at, range};
use crate::command::{Command, entry};

pub(super) const COMMANDS: &[Command] = &[
    entry("pfadd", -2, "2.8.9", "O(N), N elements given", "Counts elements in.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_INSERT)])
        .not_yet(&NO_HYPER_LOG_LOG),
    entry("pfcount", -2, "2.8.9", "O(N), N keys", "Estimates how many different elements were counted in.")
        .flags(&[ReadOnly])
        .keys(&[range(1, -1, 1, RW_ACCESS)])
        .not_yet(&NO_HYPER_LOG_LOG),
    entry("pfdebug", 3, "2.8.9", "O(1)", "Shows the inside of a HyperLogLog.")
        .flags(&[Write, DenyOom, Admin])
        .keys(&[at(2, RW_ACCESS)])
        .not_yet(&NO_HYPER_LOG_LOG),
    entry("pfmerge", -2, "2.8.9", "O(N), N keys", "Stores the union of HyperLogLogs.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, RW_ACCESS_INSERT), range(2, -1, 1, RO_ACCESS)])
        .not_yet(&NO_HYPER_LOG_LOG),
    entry("pfselftest", 1, "2.8.9", "O(1)", "Tests the arithmetic of HyperLogLogs.")
        .flags(&[Admin])
        .not_yet(&NO_HYPER_LOG_LOG),
];
