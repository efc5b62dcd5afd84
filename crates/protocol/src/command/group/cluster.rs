//! Clusters.

use crate::command::Category::Connection;
use crate::command::Flag::{Admin, Fast, Loading, NoAsyncLoading, Stale};
use crate::command::absence::NO_CLUSTER;
use crate::command::{Command, Flag, entry};

const BY_ADMIN: &[Flag] = &[Admin, Stale, NoAsyncLoading];

pub(super) const COMMANDS: &[Command] = &[
    entry("asking", 1, "3.0.0", "O(1)", "Lets the next command use a slot that is being imported.")
        .flags(&[Fast])
        .categories(&[Connection])
        .not_yet(&NO_CLUSTER),
    entry("cluster", -2, "3.0.0", "as its subcommands", "The cluster and this server's part of it.")
        .with(CLUSTER)
        .not_yet(&NO_CLUSTER),
    entry("readonly", 1, "3.0.0", "O(1)", "Allows this connection to read from a replica.")
        .flags(&[Loading, Stale, Fast])
        .categories(&[Connection])
        .not_yet(&NO_CLUSTER),
    entry("readwrite", 1, "3.0.0", "O(1)", "Ends `READONLY`.")
        .flags(&[Loading, Stale, Fast])
        .categories(&[Connection])
        .not_yet(&NO_CLUSTER),
];

const CLUSTER: &[Command] = &[
    entry("addslots", -3, "3.0.0", "O(N), N slots", "Gives slots to this server.")
        .flags(BY_ADMIN)
        .not_yet(&NO_CLUSTER),
    entry("addslotsrange", -4, "7.0.0", "O(N), N slots", "Gives ranges of slots to this server.")
        .flags(BY_ADMIN)
        .not_yet(&NO_CLUSTER),
    entry("bumpepoch", 2, "3.0.0", "O(1)", "Raises the configuration epoch.")
        .flags(BY_ADMIN)
        .not_yet(&NO_CLUSTER),
    entry("count-failure-reports", 3, "3.0.0", "O(N)", "Counts the servers that say that a server failed.")
        .flags(&[Admin, Stale])
        .not_yet(&NO_CLUSTER),
    entry("countkeysinslot", 3, "3.0.0", "O(1)", "Counts the keys of a slot.")
        .flags(&[Stale])
        .not_yet(&NO_CLUSTER),
    entry("delslots", -3, "3.0.0", "O(N), N slots", "Takes slots from this server.")
        .flags(BY_ADMIN)
        .not_yet(&NO_CLUSTER),
    entry("delslotsrange", -4, "7.0.0", "O(N), N slots", "Takes ranges of slots from this server.")
        .flags(BY_ADMIN)
        .not_yet(&NO_CLUSTER),
    entry("failover", -2, "3.0.0", "O(1)", "Makes this replica the master.")
        .flags(BY_ADMIN)
        .not_yet(&NO_CLUSTER),
    entry("flushslots", 2, "3.0.0", "O(1)", "Takes all slots from this server.")
        .flags(BY_ADMIN)
        .not_yet(&NO_CLUSTER),
    entry("forget", 3, "3.0.0", "O(1)", "Removes a server from those this one knows.")
        .flags(BY_ADMIN)
        .not_yet(&NO_CLUSTER),
    entry("getkeysinslot", 4, "3.0.0", "O(N), N keys answered", "Answers keys of a slot.")
        .flags(&[Stale])
        .not_yet(&NO_CLUSTER),
    entry("help", 2, "5.0.0", "O(1)", "Answers the subcommands.")
        .flags(&[Loading, Stale])
        .not_yet(&NO_CLUSTER),
    entry("info", 2, "3.0.0", "O(1)", "Describes the cluster.").flags(&[Stale]).not_yet(&NO_CLUSTER),
    entry("keyslot", 3, "3.0.0", "O(N), N bytes", "Answers the slot of a key.")
        .flags(&[Stale])
        .not_yet(&NO_CLUSTER),
    entry("links", 2, "7.0.0", "O(N), N servers", "Describes the links to other servers.")
        .flags(&[Stale])
        .not_yet(&NO_CLUSTER),
    entry("meet", -4, "3.0.0", "O(1)", "Introduces another server.").flags(BY_ADMIN).not_yet(&NO_CLUSTER),
    entry("myid", 2, "3.0.0", "O(1)", "Answers this server's name.").flags(&[Stale]).not_yet(&NO_CLUSTER),
    entry("nodes", 2, "3.0.0", "O(N), N servers", "Describes the servers.")
        .flags(&[Stale])
        .not_yet(&NO_CLUSTER),
    entry("replicas", 3, "5.0.0", "O(1)", "Describes the replicas of a server.")
        .flags(&[Admin, Stale])
        .not_yet(&NO_CLUSTER),
    entry("replicate", 3, "3.0.0", "O(1)", "Makes this server a replica.")
        .flags(BY_ADMIN)
        .not_yet(&NO_CLUSTER),
    entry("reset", -2, "3.0.0", "O(N), N servers", "Makes this server one that knows no other.")
        .flags(&[Admin, Stale, Flag::NoScript])
        .not_yet(&NO_CLUSTER),
    entry("saveconfig", 2, "3.0.0", "O(1)", "Saves what is known of the cluster.")
        .flags(BY_ADMIN)
        .not_yet(&NO_CLUSTER),
    entry("set-config-epoch", 3, "3.0.0", "O(1)", "Sets the configuration epoch of a new server.")
        .flags(BY_ADMIN)
        .not_yet(&NO_CLUSTER),
    entry("setslot", -4, "3.0.0", "O(1)", "Gives a slot to a server, or marks it as moving.")
        .flags(BY_ADMIN)
        .not_yet(&NO_CLUSTER),
    entry("shards", 2, "7.0.0", "O(N), N servers", "Describes which servers have which slots.")
        .flags(&[Stale])
        .not_yet(&NO_CLUSTER),
    entry("slaves", 3, "3.0.0", "O(1)", "Describes the replicas of a server.")
        .flags(&[Admin, Stale])
        .deprecated("5.0.0", "`CLUSTER REPLICAS`")
        .not_yet(&NO_CLUSTER),
    entry("slots", 2, "3.0.0", "O(N), N servers", "Answers which servers have which slots.")
        .flags(&[Stale])
        .deprecated("7.0.0", "`CLUSTER SHARDS`")
        .not_yet(&NO_CLUSTER),
];
