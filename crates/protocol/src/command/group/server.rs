//! The server: settings, diagnosis, saving, replication, modules. Users have a file of their own.

use crate::command::Category::{Admin as AdminCategory, Connection, Dangerous, Keyspace};
use crate::command::Flag::{
    Admin, AllowBusy, Asking, DenyOom, Fast, Loading, NoAsyncLoading, NoMulti, NoScript, ReadOnly, Stale,
    Write,
};
use crate::command::absence::{NO_MODULES, NO_REPLICATION};
use crate::command::key_spec::{OW_UPDATE, RO, at};
use crate::command::{Command, Flag, entry};

const ANYTIME: &[Flag] = &[Loading, Stale];
const BY_ADMIN: &[Flag] = &[Admin, NoScript, Loading, Stale];
/// The same, but refused while data is being loaded.
const WHEN_LOADED: &[Flag] = &[Admin, NoScript, NoAsyncLoading];
/// The same, and refused in a transaction.
const WHEN_ALONE: &[Flag] = &[Admin, NoScript, NoAsyncLoading, NoMulti];

pub(super) const COMMANDS: &[Command] = &[
    entry(
        "bgrewriteaof",
        1,
        "1.0.0",
        "O(1)",
        "Writes what the log holds to tables, so that it becomes short.",
    )
    .flags(WHEN_LOADED)
    .built(),
    entry("bgsave", -1, "1.0.0", "O(1)", "Makes what is written durable in the background.")
        .flags(WHEN_LOADED)
        .built(),
    entry("command", -1, "2.8.13", "O(N), N commands", "Describes all commands.")
        .flags(ANYTIME)
        .categories(&[Connection])
        .with(COMMAND)
        .built(),
    entry("config", -2, "2.0.0", "as its subcommands", "Settings.").with(CONFIG).built(),
    entry(
        "dbsize",
        1,
        "1.0.0",
        "O(N), N keys",
        "Counts the keys of the database, with others' turns in between.",
    )
    .flags(&[ReadOnly, Fast])
    .categories(&[Keyspace])
    .built(),
    entry(
        "debug",
        -2,
        "1.0.0",
        "as what is asked",
        "Looks into the server, for tests; `SLEEP` holds its connection only.",
    )
    .flags(BY_ADMIN)
    .built(),
    entry("failover", -1, "6.2.0", "O(1)", "Makes a replica the master.")
        .flags(&[Admin, NoScript, Stale])
        .not_yet(&NO_REPLICATION),
    entry("flushall", -1, "1.0.0", "O(1)", "Removes all keys; their space comes back later.")
        .flags(&[Write])
        .categories(&[Keyspace, Dangerous])
        .built(),
    entry("flushdb", -1, "1.0.0", "O(1)", "Removes all keys of the database.")
        .flags(&[Write])
        .categories(&[Keyspace, Dangerous])
        .built(),
    entry(
        "info",
        -1,
        "1.0.0",
        "O(1)",
        "Describes the server in sections of names and values; keys as of the last count, with its age.",
    )
    .flags(ANYTIME)
    .categories(&[Dangerous])
    .built(),
    entry("lastsave", 1, "1.0.0", "O(1)", "Answers when data was last saved.")
        .flags(&[Loading, Stale, Fast])
        .categories(&[AdminCategory, Dangerous])
        .built(),
    entry("latency", -2, "2.8.13", "as its subcommands", "What took long, and when.").with(LATENCY).built(),
    entry("lolwut", -1, "5.0.0", "O(1)", "Draws a crystal of snow and answers the version.")
        .flags(&[ReadOnly, Fast])
        .built(),
    entry("memory", -2, "4.0.0", "as its subcommands", "What memory is used for.").with(MEMORY).built(),
    entry("module", -2, "4.0.0", "as its subcommands", "Modules, of which there are none.")
        .with(MODULE)
        .built(),
    entry("monitor", 1, "1.0.0", "O(1)", "Shows every command the server runs from now on.")
        .flags(BY_ADMIN)
        .built(),
    entry("psync", -3, "2.8.0", "O(1)", "Asks a master for what is missing.")
        .flags(WHEN_ALONE)
        .not_yet(&NO_REPLICATION),
    entry("replconf", -1, "3.0.0", "O(1)", "What master and replica tell each other.")
        .flags(&[Admin, NoScript, Loading, Stale, AllowBusy])
        .not_yet(&NO_REPLICATION),
    entry(
        "replicaof",
        3,
        "5.0.0",
        "O(1)",
        "Makes this server a replica, which is refused, or a master, which it is.",
    )
    .flags(&[Admin, NoScript, Stale, NoAsyncLoading])
    .built(),
    entry("restore-asking", -4, "3.0.0", "O(N), N elements", "`RESTORE` into a slot that is being imported.")
        .flags(&[Write, DenyOom, Asking])
        .categories(&[Keyspace, Dangerous])
        .keys(&[at(1, OW_UPDATE)])
        .not_yet(&NO_REPLICATION),
    entry("role", 1, "2.8.12", "O(1)", "Answers whether this is a master: it is.")
        .flags(&[NoScript, Loading, Stale, Fast])
        .categories(&[AdminCategory, Dangerous])
        .built(),
    entry("save", 1, "1.0.0", "O(N), N bytes not durable yet", "Makes what is written durable.")
        .flags(WHEN_ALONE)
        .built(),
    entry("shutdown", -1, "1.0.0", "O(N), N bytes not durable yet", "Stops the server.")
        .flags(&[Admin, NoScript, Loading, Stale, NoMulti, AllowBusy])
        .built(),
    entry(
        "slaveof",
        3,
        "1.0.0",
        "O(1)",
        "Makes this server a replica, which is refused, or a master, which it is.",
    )
    .flags(&[Admin, NoScript, Stale, NoAsyncLoading])
    .deprecated("5.0.0", "`REPLICAOF`")
    .built(),
    entry("slowlog", -2, "2.2.12", "as its subcommands", "Commands that took long.").with(SLOWLOG).built(),
    entry("swapdb", 3, "4.0.0", "O(1)", "Exchanges two databases.")
        .flags(&[Write, Fast])
        .categories(&[Keyspace, Dangerous])
        .built(),
    entry("sync", 1, "1.0.0", "O(1)", "Asks a master for everything.")
        .flags(WHEN_ALONE)
        .not_yet(&NO_REPLICATION),
    entry("time", 1, "2.6.0", "O(1)", "Answers the server's time.").flags(&[Loading, Stale, Fast]).built(),
];

const COMMAND: &[Command] = &[
    entry("count", 2, "2.8.13", "O(1)", "Counts the commands.")
        .flags(ANYTIME)
        .categories(&[Connection])
        .built(),
    entry("docs", -2, "7.0.0", "O(N), N commands given", "Answers what commands are for.")
        .flags(ANYTIME)
        .categories(&[Connection])
        .built(),
    entry("getkeys", -4, "2.8.13", "O(N), N arguments", "Answers the keys of a request.")
        .flags(ANYTIME)
        .categories(&[Connection])
        .built(),
    entry("getkeysandflags", -4, "7.0.0", "O(N), N arguments", "`COMMAND GETKEYS`, with their use.")
        .flags(ANYTIME)
        .categories(&[Connection])
        .built(),
    entry("help", 2, "5.0.0", "O(1)", "Answers the subcommands.")
        .flags(ANYTIME)
        .categories(&[Connection])
        .built(),
    entry("info", -2, "2.8.13", "O(N), N commands given", "Describes commands.")
        .flags(ANYTIME)
        .categories(&[Connection])
        .built(),
    entry("list", -2, "7.0.0", "O(N), N commands", "Answers the names of commands.")
        .flags(ANYTIME)
        .categories(&[Connection])
        .built(),
];

const CONFIG: &[Command] = &[
    entry("get", -3, "2.0.0", "O(N), N settings", "Answers the settings that match patterns.")
        .flags(BY_ADMIN)
        .built(),
    entry("help", 2, "5.0.0", "O(1)", "Answers the subcommands.").flags(ANYTIME).built(),
    entry("resetstat", 2, "2.0.0", "O(1)", "Sets counters to zero.").flags(BY_ADMIN).built(),
    entry("rewrite", 2, "2.8.0", "O(N), N settings", "Refused: there is no file of settings to write.")
        .flags(BY_ADMIN)
        .built(),
    entry("set", -4, "2.0.0", "O(N), N settings given", "Changes settings while the server runs.")
        .flags(BY_ADMIN)
        .built(),
];

const LATENCY: &[Command] = &[
    entry("doctor", 2, "2.8.13", "O(1)", "Explains in words what took long.").flags(BY_ADMIN).built(),
    entry("graph", 3, "2.8.13", "O(1)", "Draws the latency of an event.").flags(BY_ADMIN).built(),
    entry("help", 2, "2.8.13", "O(1)", "Answers the subcommands.").flags(ANYTIME).built(),
    entry("histogram", -2, "7.0.0", "O(N), N commands", "Answers how long commands took, as histograms.")
        .flags(BY_ADMIN)
        .built(),
    entry("history", 3, "2.8.13", "O(1)", "Answers the samples of an event.").flags(BY_ADMIN).built(),
    entry("latest", 2, "2.8.13", "O(1)", "Answers the last sample of every event.").flags(BY_ADMIN).built(),
    entry("reset", -2, "2.8.13", "O(1)", "Forgets the samples.").flags(BY_ADMIN).built(),
];

const MEMORY: &[Command] = &[
    entry("doctor", 2, "4.0.0", "O(1)", "Explains in words how memory is used.").built(),
    entry("help", 2, "4.0.0", "O(1)", "Answers the subcommands.").flags(ANYTIME).built(),
    entry("malloc-stats", 2, "4.0.0", "O(1)", "Answers what the allocator counts.").built(),
    entry("purge", 2, "4.0.0", "O(1)", "Asks the allocator to give memory back.").built(),
    entry("stats", 2, "4.0.0", "O(1)", "Answers what memory is used for.").built(),
    entry("usage", -3, "4.0.0", "O(N), N elements looked at", "Estimates the memory of a value.")
        .flags(&[ReadOnly])
        .keys(&[at(2, RO)])
        .built(),
];

const MODULE: &[Command] = &[
    entry("help", 2, "5.0.0", "O(1)", "Answers the subcommands.").flags(ANYTIME).built(),
    entry("list", 2, "4.0.0", "O(1)", "Answers the modules: there are none.")
        .flags(&[Admin, NoScript])
        .built(),
    entry("load", -3, "4.0.0", "O(1)", "Loads a module.").flags(WHEN_LOADED).not_yet(&NO_MODULES),
    entry("loadex", -3, "7.0.0", "O(1)", "Loads a module with settings.")
        .flags(WHEN_LOADED)
        .not_yet(&NO_MODULES),
    entry("unload", 3, "4.0.0", "O(1)", "Unloads a module.").flags(WHEN_LOADED).not_yet(&NO_MODULES),
];

const SLOWLOG: &[Command] = &[
    entry("get", -2, "2.2.12", "O(N), N entries answered", "Answers the commands that took long.")
        .flags(&[Admin, Loading, Stale])
        .built(),
    entry("help", 2, "6.2.0", "O(1)", "Answers the subcommands.").flags(ANYTIME).built(),
    entry("len", 2, "2.2.12", "O(1)", "Counts the entries.").flags(&[Admin, Loading, Stale]).built(),
    entry("reset", 2, "2.2.12", "O(N), N entries", "Forgets the entries.")
        .flags(&[Admin, Loading, Stale])
        .built(),
];
