//! Hashes.

use crate::command::Flag::{DenyOom, Fast, ReadOnly, Write};
use crate::command::absence::NO_FIELD_EXPIRY;
use crate::command::key_spec::{RO, RO_ACCESS, RW_ACCESS_UPDATE, RW_DELETE, RW_INSERT, RW_UPDATE, at};
use crate::command::{Command, entry};

pub(super) const COMMANDS: &[Command] = &[
    entry("hdel", -3, "2.0.0", "O(N), N fields named", "Removes fields of a hash.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_DELETE)])
        .built(),
    entry("hexists", 3, "2.0.0", "O(1)", "Tells whether a hash has a field.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO)])
        .built(),
    entry("hexpire", -6, "7.4.0", "O(N), N fields named", "Sets after how many seconds fields expire.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .not_yet(&NO_FIELD_EXPIRY),
    entry("hexpireat", -6, "7.4.0", "O(N), N fields named", "Sets the second at which fields expire.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .not_yet(&NO_FIELD_EXPIRY),
    entry("hexpiretime", -5, "7.4.0", "O(N), N fields named", "Answers the second at which fields expire.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .not_yet(&NO_FIELD_EXPIRY),
    entry("hget", 3, "2.0.0", "O(1)", "Answers the value of a field.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("hgetall", 2, "2.0.0", "O(N), N fields", "Answers all fields of a hash with their values.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("hincrby", 4, "2.0.0", "O(1)", "Adds a number to a field; no field counts as 0.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_ACCESS_UPDATE)])
        .built(),
    entry("hincrbyfloat", 4, "2.6.0", "O(1)", "Adds a fraction to a field; no field counts as 0.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_ACCESS_UPDATE)])
        .built(),
    entry("hkeys", 2, "2.0.0", "O(N), N fields", "Answers the names of all fields of a hash.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("hlen", 2, "2.0.0", "O(1)", "Answers how many fields a hash has.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO)])
        .built(),
    entry("hmget", -3, "2.0.0", "O(N), N fields named", "Answers the values of several fields.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("hmset", -4, "2.0.0", "O(N), N fields named", "Sets several fields of a hash.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .deprecated("4.0.0", "`HSET` with several fields")
        .built(),
    entry("hpersist", -5, "7.4.0", "O(N), N fields named", "Makes fields last: they no longer expire.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .not_yet(&NO_FIELD_EXPIRY),
    entry("hpexpire", -6, "7.4.0", "O(N), N fields named", "Sets after how many milliseconds fields expire.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .not_yet(&NO_FIELD_EXPIRY),
    entry("hpexpireat", -6, "7.4.0", "O(N), N fields named", "Sets the millisecond at which fields expire.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .not_yet(&NO_FIELD_EXPIRY),
    entry(
        "hpexpiretime",
        -5,
        "7.4.0",
        "O(N), N fields named",
        "Answers the millisecond at which fields expire.",
    )
    .flags(&[ReadOnly, Fast])
    .keys(&[at(1, RO_ACCESS)])
    .not_yet(&NO_FIELD_EXPIRY),
    entry("hpttl", -5, "7.4.0", "O(N), N fields named", "Answers how many milliseconds fields have left.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .not_yet(&NO_FIELD_EXPIRY),
    entry(
        "hrandfield",
        -2,
        "6.2.0",
        "O(N), N fields answered; all of them from an eighth on",
        "Answers fields of a hash picked at random.",
    )
    .flags(&[ReadOnly])
    .keys(&[at(1, RO_ACCESS)])
    .built(),
    entry("hscan", -3, "2.8.0", "O(1) a call, O(N) all of them", "Walks over a hash, some fields at a time.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("hset", -4, "2.0.0", "O(N), N fields named", "Sets fields of a hash.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .built(),
    entry("hsetnx", 4, "2.0.0", "O(1)", "Sets a field of a hash if it is not there.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_INSERT)])
        .built(),
    entry("hstrlen", 3, "3.2.0", "O(1)", "Answers the length of a field's value.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO)])
        .built(),
    entry("httl", -5, "7.4.0", "O(N), N fields named", "Answers how many seconds fields have left.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .not_yet(&NO_FIELD_EXPIRY),
    entry("hvals", 2, "2.0.0", "O(N), N fields", "Answers the values of all fields of a hash.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
];
