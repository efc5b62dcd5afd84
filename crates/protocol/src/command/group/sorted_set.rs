//! Sorted sets.

use crate::command::Flag::{Blocking, DenyOom, Fast, NoScript, ReadOnly, Write};
use crate::command::key_spec::{
    OW_UPDATE, RO, RO_ACCESS, RW_ACCESS_DELETE, RW_ACCESS_UPDATE, RW_DELETE, RW_UPDATE, at, counted, range,
};
use crate::command::{Command, entry};

/// Finding one member.
const ONE: &str = "O(log(N)), N members";
/// Finding one member, then going on.
const SOME: &str = "O(log(N)+M), N members, M of them met";
/// Putting sets together.
const ALL: &str = "O(N*log(N)), N members of all sets";

pub(super) const COMMANDS: &[Command] = &[
    entry("bzmpop", -5, "7.0.0", SOME, "`ZMPOP`, waiting if all sorted sets are empty.")
        .flags(&[Write, Blocking])
        .keys(&[counted(2, RW_ACCESS_DELETE)])
        .built(),
    entry("bzpopmax", -3, "5.0.0", ONE, "Takes the highest member of the first set that has one, or waits.")
        .flags(&[Write, NoScript, Blocking, Fast])
        .keys(&[range(1, -2, 1, RW_ACCESS_DELETE)])
        .built(),
    entry("bzpopmin", -3, "5.0.0", ONE, "Takes the lowest member of the first set that has one, or waits.")
        .flags(&[Write, NoScript, Blocking, Fast])
        .keys(&[range(1, -2, 1, RW_ACCESS_DELETE)])
        .built(),
    entry("zadd", -4, "1.2.0", ONE, "Adds members with scores, or sets the scores of members.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .built(),
    entry("zcard", 2, "1.2.0", "O(1)", "Answers how many members a sorted set has.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO)])
        .built(),
    entry("zcount", 4, "2.0.0", ONE, "Counts the members with scores in a range.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("zdiff", -3, "6.2.0", ALL, "Answers what only the first sorted set has.")
        .flags(&[ReadOnly])
        .keys(&[counted(1, RO_ACCESS)])
        .built(),
    entry("zdiffstore", -4, "6.2.0", ALL, "`ZDIFF`, stored as a sorted set.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, OW_UPDATE), counted(2, RO_ACCESS)])
        .built(),
    entry("zincrby", 4, "1.2.0", ONE, "Adds to a member's score.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_ACCESS_UPDATE)])
        .built(),
    entry("zinter", -3, "6.2.0", ALL, "Answers what all the sorted sets have, with scores combined.")
        .flags(&[ReadOnly])
        .keys(&[counted(1, RO_ACCESS)])
        .built(),
    entry("zintercard", -3, "7.0.0", ALL, "Counts what all the sorted sets have, up to a limit.")
        .flags(&[ReadOnly])
        .keys(&[counted(1, RO_ACCESS)])
        .built(),
    entry("zinterstore", -4, "2.0.0", ALL, "`ZINTER`, stored as a sorted set.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, OW_UPDATE), counted(2, RO_ACCESS)])
        .built(),
    entry("zlexcount", 4, "2.8.9", ONE, "Counts the members between two names.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("zmpop", -4, "7.0.0", SOME, "Takes members of the first sorted set that has any.")
        .flags(&[Write])
        .keys(&[counted(1, RW_ACCESS_DELETE)])
        .built(),
    entry("zmscore", -3, "6.2.0", "O(N), N members given", "Answers the scores of several members.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("zpopmax", -2, "5.0.0", SOME, "Takes members with the highest scores.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_ACCESS_DELETE)])
        .built(),
    entry("zpopmin", -2, "5.0.0", SOME, "Takes members with the lowest scores.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_ACCESS_DELETE)])
        .built(),
    entry("zrandmember", -2, "6.2.0", "O(N), N members answered", "Answers members picked at random.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("zrange", -4, "1.2.0", SOME, "Answers the members in a range of ranks, scores or names.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("zrangebylex", -4, "2.8.9", SOME, "Answers the members between two names.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .deprecated("6.2.0", "`ZRANGE` with `BYLEX`")
        .built(),
    entry("zrangebyscore", -4, "1.0.5", SOME, "Answers the members with scores in a range.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .deprecated("6.2.0", "`ZRANGE` with `BYSCORE`")
        .built(),
    entry("zrangestore", -5, "6.2.0", SOME, "`ZRANGE`, stored as a sorted set.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, OW_UPDATE), at(2, RO_ACCESS)])
        .built(),
    entry("zrank", 3, "2.0.0", ONE, "Answers how many members come before one.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("zrem", -3, "1.2.0", "O(M*log(N)), M of N members", "Removes members of a sorted set.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_DELETE)])
        .built(),
    entry("zremrangebylex", 4, "2.8.9", SOME, "Removes the members between two names.")
        .flags(&[Write])
        .keys(&[at(1, RW_DELETE)])
        .built(),
    entry("zremrangebyrank", 4, "2.0.0", SOME, "Removes the members in a range of ranks.")
        .flags(&[Write])
        .keys(&[at(1, RW_DELETE)])
        .built(),
    entry("zremrangebyscore", 4, "1.2.0", SOME, "Removes the members with scores in a range.")
        .flags(&[Write])
        .keys(&[at(1, RW_DELETE)])
        .built(),
    entry("zrevrange", -4, "1.2.0", SOME, "Answers the members in a range of ranks, highest first.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .deprecated("6.2.0", "`ZRANGE` with `REV`")
        .built(),
    entry("zrevrangebylex", -4, "2.8.9", SOME, "`ZRANGEBYLEX`, last first.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .deprecated("6.2.0", "`ZRANGE` with `REV BYLEX`")
        .built(),
    entry("zrevrangebyscore", -4, "2.2.0", SOME, "`ZRANGEBYSCORE`, highest first.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .deprecated("6.2.0", "`ZRANGE` with `REV BYSCORE`")
        .built(),
    entry("zrevrank", 3, "2.0.0", ONE, "Answers how many members come after one.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("zscan", -3, "2.8.0", "O(1) a call, O(N) all of them", "Walks over the members, some at a time.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("zscore", 3, "1.2.0", "O(1)", "Answers a member's score.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("zunion", -3, "6.2.0", ALL, "Answers what any of the sorted sets has, with scores combined.")
        .flags(&[ReadOnly])
        .keys(&[counted(1, RO_ACCESS)])
        .built(),
    entry("zunionstore", -4, "2.0.0", ALL, "`ZUNION`, stored as a sorted set.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, OW_UPDATE), counted(2, RO_ACCESS)])
        .built(),
];
