//! What of Redis is not offered, by features: why, and what to do instead.
//!
//! The one place where the reasons are written. Entries of the table refer to them, so that an
//! error, COMMAND DOCS and the page of commands say the same. Features without commands of their
//! own stand here too.

/// A feature of Redis that is not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// What people call it.
    pub feature: &'static str,
    /// Why its commands are not offered, one short sentence without a full stop.
    pub reason: &'static str,
    /// What can be done instead, one sentence.
    pub instead: &'static str,
}

const fn absence(feature: &'static str, reason: &'static str, instead: &'static str) -> Absence {
    Absence { feature, reason, instead }
}

/// All of them, in the order of the page.
pub const ABSENCES: &[Absence] = &[
    NO_STREAMS,
    NO_GEO,
    NO_HYPER_LOG_LOG,
    NO_FIELD_EXPIRY,
    NO_SORT,
    NO_DUMPS,
    NO_FUNCTIONS,
    NO_SCRIPT_DEBUGGER,
    NO_KEYSPACE_NOTIFICATIONS,
    NO_TRACKING,
    NO_EVICTION,
    NO_TLS,
    NO_ACL_FILES,
    NO_REPLICATION,
    NO_CLUSTER,
    NO_MODULES,
];

pub(super) const NO_STREAMS: Absence = absence(
    "Streams",
    "streams are not there yet",
    "A list and `BLMOVE` make a queue that loses nothing when a consumer ends; a sorted set keeps what happened by time.",
);

pub(super) const NO_GEO: Absence = absence(
    "Geographic indexes",
    "geographic indexes are not there yet",
    "Let the client compute geohashes and keep them as the scores of a sorted set, which is what Redis does: \
     `ZRANGE … BYSCORE` finds what is near.",
);

pub(super) const NO_HYPER_LOG_LOG: Absence = absence(
    "HyperLogLog",
    "HyperLogLogs are not there yet",
    "`SCARD` of a set counts exactly, and `BITCOUNT` in little space where what is counted has small numbers.",
);

pub(super) const NO_FIELD_EXPIRY: Absence = absence(
    "Expiry of hash fields",
    "fields of hashes do not expire, keys do",
    "Let the whole hash expire, or keep what must go by itself at a key of its own.",
);

pub(super) const NO_SORT: Absence = absence(
    "SORT",
    "sorting on the server is not there yet",
    "Sort in the client, or keep a sorted set, which is always in order.",
);

pub(super) const NO_DUMPS: Absence = absence(
    "DUMP, RESTORE and MIGRATE",
    "there is no serialised form of values yet",
    "`COPY` and `MOVE` take values to other keys and databases; what goes to another server is read and written by \
     the commands of its type, and a whole database goes as a backup.",
);

pub(super) const NO_FUNCTIONS: Absence = absence(
    "Functions",
    "functions are not there yet; scripts are",
    "`SCRIPT LOAD` and `EVALSHA` run the same Lua.",
);

pub(super) const NO_SCRIPT_DEBUGGER: Absence = absence(
    "The debugger of scripts",
    "there is no debugger for scripts",
    "Let the script return what it knows, or `PUBLISH` it.",
);

pub(super) const NO_KEYSPACE_NOTIFICATIONS: Absence = absence(
    "Keyspace notifications",
    "no event is published when a key changes, and `CONFIG SET notify-keyspace-events` is refused",
    "`PUBLISH` together with the write, between `MULTI` and `EXEC` or in a script.",
);

pub(super) const NO_TRACKING: Absence = absence(
    "Tracking of what clients keep",
    "the server does not track what clients keep",
    "Let what clients keep expire soon, or tell them by `PUBLISH` what changed.",
);

pub(super) const NO_EVICTION: Absence = absence(
    "Eviction",
    "nothing is evicted, and `CONFIG SET` of `maxmemory` and `maxmemory-policy` is refused: data lies on disk, not in memory",
    "Let keys of a cache expire, by `SET … EX` or `EXPIRE`.",
);

pub(super) const NO_TLS: Absence = absence(
    "TLS",
    "connections are not encrypted: the `tls-*` parameters are kept and have no effect, and `tls-port` stays 0",
    "Let a proxy on the same machine end TLS, or keep the network private.",
);

pub(super) const NO_ACL_FILES: Absence = absence(
    "Files of users",
    "users are kept in the database, not in a file of their own",
    "`ACL SETUSER` and `ACL DELUSER` change what is kept, at once.",
);

pub(super) const NO_REPLICATION: Absence = absence(
    "Replication",
    "there is no replication yet",
    "Make backups, which may be taken while the server runs.",
);

pub(super) const NO_CLUSTER: Absence = absence(
    "Cluster",
    "there is one server yet, not a cluster",
    "Connect without the client's cluster mode; where one server is too small, let clients share keys among several.",
);

pub(super) const NO_MODULES: Absence =
    absence("Modules", "there are no modules", "A script does on the server what it must do at once.");
