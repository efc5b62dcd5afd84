//! Keys whatever their type.

use crate::command::Category::{Connection, Dangerous, Keyspace, List, Set, SortedSet};
use crate::command::Flag::{DenyOom, Fast, Loading, NoScript, ReadOnly, Stale, Write};
use crate::command::absence::{NO_DUMPS, NO_SORT};
use crate::command::key_spec::{
    OW_INSERT, OW_UPDATE, RM_DELETE, RO, RO_ACCESS, RW_ACCESS_DELETE, RW_ACCESS_UPDATE, RW_UPDATE, at, range,
    rest_after, unknown,
};
use crate::command::keys::Rule;
use crate::command::{Command, KeyFlag, KeySpec, entry};

/// Sorting what a key holds.
const SORTING: &str = "O(N+M*log(M)), N elements, M answered";

/// Keys made from BY and GET patterns while the command runs.
const PATTERNS: KeySpec = unknown(RO_ACCESS);

pub(super) const COMMANDS: &[Command] = &[
    entry("copy", -3, "6.2.0", "O(N), N elements", "Copies a value to another key.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, RO_ACCESS), at(2, OW_UPDATE)])
        .built(),
    entry("del", -2, "1.0.0", "O(N), N keys", "Removes keys, whatever their size.")
        .flags(&[Write])
        .keys(&[range(1, -1, 1, RM_DELETE)])
        .built(),
    entry("dump", 2, "2.6.0", "O(N), N elements", "Answers a value in serialised form.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .not_yet(&NO_DUMPS),
    entry("exists", -2, "1.0.0", "O(N), N keys", "Counts how many of the keys are there.")
        .flags(&[ReadOnly, Fast])
        .keys(&[range(1, -1, 1, RO)])
        .built(),
    entry("expire", -3, "1.0.0", "O(1)", "Sets after how many seconds a key expires.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .built(),
    entry("expireat", -3, "1.2.0", "O(1)", "Sets the second at which a key expires.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .built(),
    entry("expiretime", 2, "7.0.0", "O(1)", "Answers the second at which a key expires.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("keys", 2, "1.0.0", "O(N), N keys of the database", "Answers all keys that match a pattern.")
        .flags(&[ReadOnly])
        .categories(&[Keyspace, Dangerous])
        .built(),
    entry("migrate", -6, "2.6.0", "O(N), N elements", "Moves keys to another server.")
        .flags(&[Write])
        .categories(&[Keyspace, Dangerous])
        .keys(&[
            at(3, RW_ACCESS_DELETE),
            rest_after("KEYS", -2, 0, RW_ACCESS_DELETE.with(KeyFlag::Incomplete)),
        ])
        .rule(Rule::Migrate)
        .not_yet(&NO_DUMPS),
    entry("move", 3, "1.0.0", "O(N), N elements", "Moves a key to another database.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_ACCESS_UPDATE)])
        .built(),
    entry("object", -2, "2.2.3", "as its subcommands", "How values are kept.").with(OBJECT).built(),
    entry("persist", 2, "2.2.0", "O(1)", "Makes a key last: it no longer expires.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .built(),
    entry("pexpire", -3, "2.6.0", "O(1)", "Sets after how many milliseconds a key expires.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .built(),
    entry("pexpireat", -3, "2.6.0", "O(1)", "Sets the millisecond at which a key expires.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_UPDATE)])
        .built(),
    entry("pexpiretime", 2, "7.0.0", "O(1)", "Answers the millisecond at which a key expires.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("pttl", 2, "2.6.0", "O(1)", "Answers how many milliseconds a key has left.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("randomkey", 1, "1.0.0", "O(1)", "Answers some key of the database; behind 1 024 that have expired and are not removed yet, one of those.").flags(&[ReadOnly]).built(),
    entry("rename", 3, "1.0.0", "O(1), more where a value must be removed", "Gives a value another key.")
        .flags(&[Write])
        .keys(&[at(1, RW_ACCESS_DELETE), at(2, OW_UPDATE)])
        .built(),
    entry("renamenx", 3, "1.0.0", "O(1)", "Gives a value another key if nothing is there.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_ACCESS_DELETE), at(2, OW_INSERT)])
        .built(),
    entry("restore", -4, "2.6.0", "O(N), N elements", "Makes a value from its serialised form.")
        .flags(&[Write, DenyOom])
        .categories(&[Keyspace, Dangerous])
        .keys(&[at(1, OW_UPDATE)])
        .not_yet(&NO_DUMPS),
    entry("scan", -2, "2.8.0", "O(1) a call, O(N) all of them", "Walks over the keys, some at a time.")
        .flags(&[ReadOnly])
        .built(),
    entry("sort", -2, "1.0.0", SORTING, "Sorts a list, set or sorted set, and may store that.")
        .flags(&[Write, DenyOom])
        .categories(&[Set, SortedSet, List, Dangerous])
        .keys(&[at(1, RO_ACCESS), PATTERNS, unknown(OW_UPDATE)])
        .rule(Rule::Sort)
        .not_yet(&NO_SORT),
    entry("sort_ro", -2, "7.0.0", SORTING, "Sorts a list, set or sorted set.")
        .flags(&[ReadOnly])
        .categories(&[Set, SortedSet, List, Dangerous])
        .keys(&[at(1, RO_ACCESS), PATTERNS])
        .not_yet(&NO_SORT),
    entry("touch", -2, "3.2.1", "O(N), N keys", "Counts how many of the keys are there and notes their use.")
        .flags(&[ReadOnly, Fast])
        .keys(&[range(1, -1, 1, RO)])
        .built(),
    entry("ttl", 2, "1.0.0", "O(1)", "Answers how many seconds a key has left.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("type", 2, "1.0.0", "O(1)", "Answers the type of a value.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO)])
        .built(),
    entry("unlink", -2, "4.0.0", "O(N), N keys", "Removes keys; their space comes back later.")
        .flags(&[Write, Fast])
        .keys(&[range(1, -1, 1, RM_DELETE)])
        .built(),
    entry("wait", 3, "3.0.0", "O(1)", "Waits until replicas have the writes of this connection.")
        .flags(&[NoScript])
        .categories(&[Connection])
        .built(),
];

const OBJECT: &[Command] = &[
    entry("encoding", 3, "2.2.3", "O(1)", "Answers how a value is encoded.")
        .flags(&[ReadOnly])
        .keys(&[at(2, RO)])
        .built(),
    entry("freq", 3, "4.0.0", "O(1)", "Refused: how often a key is used is not counted.")
        .flags(&[ReadOnly])
        .keys(&[at(2, RO)])
        .built(),
    entry("help", 2, "6.2.0", "O(1)", "Answers the subcommands.").flags(&[Loading, Stale]).built(),
    entry("idletime", 3, "2.2.3", "O(1)", "Answers 0: when a key was used is not noted.")
        .flags(&[ReadOnly])
        .keys(&[at(2, RO)])
        .built(),
    entry("refcount", 3, "2.2.3", "O(1)", "Answers how many users a value has.")
        .flags(&[ReadOnly])
        .keys(&[at(2, RO)])
        .built(),
];
