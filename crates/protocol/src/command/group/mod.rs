//! The families of commands, one file each: the part of the table that is written by hand.

use super::{Categories, Category, Command};

mod string;
mod bitmap;
mod generic;
mod hash;
mod list;
mod set;
mod sorted_set;
mod transactions;
mod pub_sub;
mod scripting;
mod connection;
mod server;
mod access;
mod stream;
mod geo;
mod hyper_log_log;
mod cluster;

/// The family a command is documented with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Strings and counters.
    String,
    /// Strings as bits.
    Bitmap,
    /// Keys whatever their type.
    Generic,
    /// Hashes.
    Hash,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// MULTI and what belongs to it.
    Transactions,
    /// Publishing and subscribing.
    PubSub,
    /// Scripts and functions.
    Scripting,
    /// The connection itself.
    Connection,
    /// The server: settings, users, diagnosis, replication.
    Server,
    /// Streams.
    Stream,
    /// Geographic indexes.
    Geo,
    /// HyperLogLogs.
    HyperLogLog,
    /// Clusters.
    Cluster,
}

/// All commands, in the order of the table.
pub(super) const GROUPS: [(Group, &[Command]); 17] = [
    (Group::String, string::COMMANDS),
    (Group::Bitmap, bitmap::COMMANDS),
    (Group::Generic, generic::COMMANDS),
    (Group::Hash, hash::COMMANDS),
    (Group::List, list::COMMANDS),
    (Group::Set, set::COMMANDS),
    (Group::SortedSet, sorted_set::COMMANDS),
    (Group::Transactions, transactions::COMMANDS),
    (Group::PubSub, pub_sub::COMMANDS),
    (Group::Scripting, scripting::COMMANDS),
    (Group::Connection, connection::COMMANDS),
    (Group::Server, server::COMMANDS),
    (Group::Server, access::COMMANDS),
    (Group::Stream, stream::COMMANDS),
    (Group::Geo, geo::COMMANDS),
    (Group::HyperLogLog, hyper_log_log::COMMANDS),
    (Group::Cluster, cluster::COMMANDS),
];

impl Group {
    /// The name in COMMAND DOCS.
    pub const fn name(self) -> &'static str {
        match self {
            Group::String => "string",
            Group::Bitmap => "bitmap",
            Group::Generic => "generic",
            Group::Hash => "hash",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Transactions => "transactions",
            Group::PubSub => "pubsub",
            Group::Scripting => "scripting",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Stream => "stream",
            Group::Geo => "geo",
            Group::HyperLogLog => "hyperloglog",
            Group::Cluster => "cluster",
        }
    }

    /// The name for people, as a heading.
    pub const fn title(self) -> &'static str {
        match self {
            Group::String => "Strings and counters",
            Group::Bitmap => "Bits of strings",
            Group::Generic => "Keys",
            Group::Hash => "Hashes",
            Group::List => "Lists",
            Group::Set => "Sets",
            Group::SortedSet => "Sorted sets",
            Group::Transactions => "Transactions",
            Group::PubSub => "Publish and subscribe",
            Group::Scripting => "Scripts and functions",
            Group::Connection => "Connection",
            Group::Server => "Server",
            Group::Stream => "Streams",
            Group::Geo => "Geographic indexes",
            Group::HyperLogLog => "HyperLogLog",
            Group::Cluster => "Cluster",
        }
    }

    /// The ACL categories of a member that names none itself, before those that follow from its
    /// flags.
    pub(super) const fn categories(self) -> Categories {
        Categories::of(match self {
            Group::String => &[Category::String],
            Group::Bitmap => &[Category::Bitmap],
            Group::Generic => &[Category::Keyspace],
            Group::Hash => &[Category::Hash],
            Group::List => &[Category::List],
            Group::Set => &[Category::Set],
            Group::SortedSet => &[Category::SortedSet],
            Group::Transactions => &[Category::Transaction],
            Group::PubSub => &[Category::PubSub],
            Group::Scripting => &[Category::Scripting],
            Group::Connection => &[Category::Connection],
            Group::Server | Group::Cluster => &[],
            Group::Stream => &[Category::Stream],
            Group::Geo => &[Category::Geo],
            Group::HyperLogLog => &[Category::HyperLogLog],
        })
    }
}
