//! The names that CONFIG knows, with what Redis 7.0 has them stand for.
//!
//! Each is of one of four sorts:
//!
//! - It acts: [`super::Parameters`] says which do.
//! - It is `only` what it is: it promises something that is not done here, or not so, and setting
//!   it is refused with the reason.
//! - It is fixed, or guarded, as it is in Redis.
//! - It tunes what does not exist here (encodings, files of Redis, replication, cluster, freeing,
//!   defragmentation), and promises nothing that a client could miss. Clients and their tests set
//!   many of these when they begin: they are checked, kept and told again.

use super::Parameter;
use super::kind::Kind;

const INT_MAX: i64 = i32::MAX as i64;
const LONG_MAX: u64 = i64::MAX as u64;
/// Less would cut off all clients: no request would be small enough to raise it again.
const REQUEST_BYTES_MIN: u64 = 1 << 20;

const fn of(name: &'static str, default: &'static str, kind: Kind) -> Parameter {
    Parameter { name, default, kind, same_as: None, is_hidden: false }
}

const fn flag(name: &'static str, default: &'static str) -> Parameter {
    of(name, default, Kind::Flag)
}

const fn number(name: &'static str, default: &'static str, min: i64, max: i64) -> Parameter {
    of(name, default, Kind::Number(min, max))
}

const fn memory(name: &'static str, default: &'static str, min: u64, max: u64) -> Parameter {
    of(name, default, Kind::Memory(min, max))
}

const fn choice(name: &'static str, default: &'static str, words: &'static [&'static str]) -> Parameter {
    of(name, default, Kind::Choice(words))
}

const fn text(name: &'static str, default: &'static str) -> Parameter {
    of(name, default, Kind::Text)
}

const fn percentiles(name: &'static str, default: &'static str) -> Parameter {
    of(name, default, Kind::Percentiles)
}

const fn three(name: &'static str, default: &'static str) -> Parameter {
    of(name, default, Kind::ThreeNumbers)
}

/// Cannot be set while the server runs.
const fn fixed(name: &'static str, default: &'static str) -> Parameter {
    of(name, default, Kind::Fixed)
}

/// Cannot be set by clients at all.
const fn guarded(name: &'static str, default: &'static str) -> Parameter {
    of(name, default, Kind::Guarded)
}

/// Promises something that is not done here, or is done otherwise: stays as it is, and setting it
/// is refused with `why`.
const fn only(
    name: &'static str,
    default: &'static str,
    kind: &'static Kind,
    why: &'static str,
) -> Parameter {
    of(name, default, Kind::Only(kind, why))
}

const NO_TLS: &str = "Unable to update TLS configuration: there is no TLS";
const NO_REPLICAS: &str = "there are no replicas";
const NO_EVICTION: &str = "nothing is evicted: what exceeds the memory lies on disk, and --memory-bytes says at the start how \
much memory is used";

/// How Redis can end on a signal.
const SHUTDOWN: &[&str] = &["default", "save", "nosave", "now", "force"];
const SHUTDOWN_IS_WHOLE: &str = "a signal ends the server in one way: what it has acknowledged is kept";

/// Answered to its whole name, and to no pattern.
const fn hidden(parameter: Parameter) -> Parameter {
    Parameter { is_hidden: true, ..parameter }
}

/// An older name of the same.
const fn alias(name: &'static str, same_as: &'static str) -> Parameter {
    Parameter { name, default: "", kind: Kind::Text, same_as: Some(same_as), is_hidden: false }
}

pub(super) const TABLE: &[Parameter] = &[
    only(
        "acl-pubsub-default",
        "resetchannels",
        &Kind::Choice(&["allchannels", "resetchannels"]),
        "a new user has no channel: say allchannels with ACL SETUSER",
    ),
    fixed("aclfile", ""),
    only("acllog-max-len", "128", &Kind::Number(0, i64::MAX), "ACL LOG keeps 128 entries"),
    number("active-defrag-cycle-max", "25", 1, 99),
    number("active-defrag-cycle-min", "1", 1, 99),
    memory("active-defrag-ignore-bytes", "104857600", 1, LONG_MAX),
    number("active-defrag-max-scan-fields", "1000", 1, i64::MAX),
    number("active-defrag-threshold-lower", "10", 0, 1000),
    number("active-defrag-threshold-upper", "100", 0, 1000),
    number("active-expire-effort", "1", 1, 10),
    only(
        "activedefrag",
        "no",
        &Kind::Flag,
        "memory is not defragmented: the allocator gives it back by itself",
    ),
    flag("activerehashing", "yes"),
    fixed("always-show-logo", "no"),
    flag("aof-disable-auto-gc", "no"),
    only(
        "aof-load-truncated",
        "yes",
        &Kind::Flag,
        "a log that a crash has cut short is always opened, up to where it was cut",
    ),
    flag("aof-rewrite-incremental-fsync", "yes"),
    flag("aof-timestamp-enabled", "no"),
    flag("aof-use-rdb-preamble", "yes"),
    fixed("aof_rewrite_cpulist", ""),
    fixed("appenddirname", ""),
    fixed("appendfilename", ""),
    // What the database was opened with.
    choice("appendfsync", "no", &["everysec", "always", "no"]),
    only("appendonly", "yes", &Kind::Flag, "every write is logged: appendfsync says what it survives"),
    memory("auto-aof-rewrite-min-size", "67108864", 0, LONG_MAX),
    number("auto-aof-rewrite-percentage", "100", 0, INT_MAX),
    fixed("bgsave_cpulist", ""),
    fixed("bind", ""),
    text("bind-source-addr", ""),
    fixed("bio_cpulist", ""),
    number("busy-reply-threshold", "5000", 0, i64::MAX),
    only(
        "client-output-buffer-limit",
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        &Kind::OutputLimits,
        "output_bytes_max limits what a client has not read, and is set at the start",
    ),
    memory("client-query-buffer-limit", "1073741824", REQUEST_BYTES_MIN, LONG_MAX),
    flag("cluster-allow-pubsubshard-when-down", "yes"),
    flag("cluster-allow-reads-when-down", "no"),
    flag("cluster-allow-replica-migration", "yes"),
    number("cluster-announce-bus-port", "0", 0, 65535),
    text("cluster-announce-hostname", ""),
    text("cluster-announce-ip", ""),
    number("cluster-announce-port", "0", 0, 65535),
    number("cluster-announce-tls-port", "0", 0, 65535),
    fixed("cluster-config-file", "nodes.conf"),
    fixed("cluster-enabled", "no"),
    memory("cluster-link-sendbuf-limit", "0", 0, u64::MAX),
    number("cluster-migration-barrier", "1", 0, INT_MAX),
    number("cluster-node-timeout", "15000", 0, i64::MAX),
    fixed("cluster-port", "0"),
    choice("cluster-preferred-endpoint-type", "ip", &["ip", "hostname", "unknown-endpoint"]),
    flag("cluster-replica-no-failover", "no"),
    number("cluster-replica-validity-factor", "10", 0, INT_MAX),
    flag("cluster-require-full-coverage", "yes"),
    alias("cluster-slave-no-failover", "cluster-replica-no-failover"),
    alias("cluster-slave-validity-factor", "cluster-replica-validity-factor"),
    flag("crash-log-enabled", "yes"),
    flag("crash-memcheck-enabled", "yes"),
    fixed("daemonize", "no"),
    fixed("databases", "16"),
    guarded("dbfilename", ""),
    guarded("dir", ""),
    fixed("disable-thp", "yes"),
    flag("dynamic-hz", "yes"),
    fixed("enable-debug-command", "local"),
    fixed("enable-module-command", "no"),
    fixed("enable-protected-configs", "no"),
    number("hash-max-listpack-entries", "512", 0, i64::MAX),
    memory("hash-max-listpack-value", "64", 0, LONG_MAX),
    alias("hash-max-ziplist-entries", "hash-max-listpack-entries"),
    alias("hash-max-ziplist-value", "hash-max-listpack-value"),
    memory("hll-sparse-max-bytes", "3000", 0, LONG_MAX),
    of("hz", "10", Kind::Clamped(0, INT_MAX, 1, 500)),
    text("ignore-warnings", ""),
    fixed("io-threads", "1"),
    fixed("io-threads-do-reads", "no"),
    flag("jemalloc-bg-thread", "yes"),
    hidden(number("key-load-delay", "0", -INT_MAX - 1, INT_MAX)),
    number("latency-monitor-threshold", "0", 0, i64::MAX),
    only("latency-tracking", "yes", &Kind::Flag, "latencies are always tracked"),
    percentiles("latency-tracking-info-percentiles", "50 99 99.9"),
    flag("lazyfree-lazy-eviction", "no"),
    flag("lazyfree-lazy-expire", "no"),
    flag("lazyfree-lazy-server-del", "no"),
    flag("lazyfree-lazy-user-del", "no"),
    flag("lazyfree-lazy-user-flush", "no"),
    number("lfu-decay-time", "1", 0, INT_MAX),
    number("lfu-log-factor", "10", 0, INT_MAX),
    number("list-compress-depth", "0", 0, INT_MAX),
    number("list-max-listpack-size", "-2", -INT_MAX - 1, INT_MAX),
    alias("list-max-ziplist-size", "list-max-listpack-size"),
    hidden(number("loading-process-events-interval-bytes", "2097152", 1024, INT_MAX)),
    fixed("logfile", ""),
    only(
        "loglevel",
        "notice",
        &Kind::Choice(&["debug", "verbose", "notice", "warning"]),
        "--log-level says at the start what is logged",
    ),
    alias("lua-time-limit", "busy-reply-threshold"),
    text("masterauth", ""),
    text("masteruser", ""),
    number("maxclients", "10000", 1, 4294967295),
    only("maxmemory", "0", &Kind::Memory(0, u64::MAX), NO_EVICTION),
    only(
        "maxmemory-clients",
        "0",
        &Kind::MemoryOrPercent,
        "clients are limited one by one: client-query-buffer-limit, and output_bytes_max at the start",
    ),
    number("maxmemory-eviction-tenacity", "10", 0, 100),
    only(
        "maxmemory-policy",
        "noeviction",
        &Kind::Choice(&[
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "noeviction",
        ]),
        NO_EVICTION,
    ),
    number("maxmemory-samples", "5", 1, INT_MAX),
    number("min-replicas-max-lag", "10", 0, INT_MAX),
    only("min-replicas-to-write", "0", &Kind::Number(0, INT_MAX), NO_REPLICAS),
    alias("min-slaves-max-lag", "min-replicas-max-lag"),
    alias("min-slaves-to-write", "min-replicas-to-write"),
    flag("no-appendfsync-on-rewrite", "no"),
    only("notify-keyspace-events", "", &Kind::Events, "no event is published when a key changes"),
    only(
        "oom-score-adj",
        "no",
        &Kind::Choice(&["no", "yes", "relative", "absolute"]),
        "the system's choice is what the server was started with",
    ),
    three("oom-score-adj-values", "0 200 800"),
    fixed("pidfile", ""),
    fixed("port", "0"),
    only(
        "proc-title-template",
        "{title} {listen-addr} {server-mode}",
        &Kind::Title,
        "the process keeps the title that it was started with",
    ),
    only(
        "propagation-error-behavior",
        "ignore",
        &Kind::Choice(&["ignore", "panic", "panic-on-replicas"]),
        NO_REPLICAS,
    ),
    flag("protected-mode", "yes"),
    memory("proto-max-bulk-len", "536870912", REQUEST_BYTES_MIN, LONG_MAX),
    flag("rdb-del-sync-files", "no"),
    hidden(number("rdb-key-save-delay", "0", -INT_MAX - 1, INT_MAX)),
    flag("rdb-save-incremental-fsync", "yes"),
    fixed("rdbchecksum", "yes"),
    flag("rdbcompression", "yes"),
    memory("repl-backlog-size", "1048576", 1, LONG_MAX),
    number("repl-backlog-ttl", "3600", 0, i64::MAX),
    flag("repl-disable-tcp-nodelay", "no"),
    choice("repl-diskless-load", "disabled", &["disabled", "on-empty-db", "swapdb"]),
    flag("repl-diskless-sync", "yes"),
    number("repl-diskless-sync-delay", "5", 0, INT_MAX),
    number("repl-diskless-sync-max-replicas", "0", 0, INT_MAX),
    number("repl-ping-replica-period", "10", 1, INT_MAX),
    alias("repl-ping-slave-period", "repl-ping-replica-period"),
    number("repl-timeout", "60", 1, INT_MAX),
    text("replica-announce-ip", ""),
    number("replica-announce-port", "0", 0, 65535),
    flag("replica-announced", "yes"),
    flag("replica-ignore-disk-write-errors", "no"),
    flag("replica-ignore-maxmemory", "yes"),
    flag("replica-lazy-flush", "no"),
    number("replica-priority", "100", 0, INT_MAX),
    flag("replica-read-only", "yes"),
    flag("replica-serve-stale-data", "yes"),
    fixed("replicaof", ""),
    text("requirepass", ""),
    only(
        "sanitize-dump-payload",
        "no",
        &Kind::Choice(&["no", "yes", "clients"]),
        "payloads of DUMP are not taken",
    ),
    only(
        "save",
        "",
        &Kind::Save,
        "there are no snapshots to be made: every write is logged, and appendfsync says what it survives",
    ),
    fixed("server_cpulist", ""),
    number("set-max-intset-entries", "512", 0, i64::MAX),
    fixed("set-proc-title", "yes"),
    only("shutdown-on-sigint", "default", &Kind::Choice(SHUTDOWN), SHUTDOWN_IS_WHOLE),
    only("shutdown-on-sigterm", "default", &Kind::Choice(SHUTDOWN), SHUTDOWN_IS_WHOLE),
    number("shutdown-timeout", "10", 0, INT_MAX),
    alias("slave-announce-ip", "replica-announce-ip"),
    alias("slave-announce-port", "replica-announce-port"),
    alias("slave-ignore-maxmemory", "replica-ignore-maxmemory"),
    alias("slave-lazy-flush", "replica-lazy-flush"),
    alias("slave-priority", "replica-priority"),
    alias("slave-read-only", "replica-read-only"),
    alias("slave-serve-stale-data", "replica-serve-stale-data"),
    alias("slaveof", "replicaof"),
    number("slowlog-log-slower-than", "10000", -1, i64::MAX),
    number("slowlog-max-len", "128", 0, i64::MAX),
    fixed("socket-mark-id", "0"),
    only(
        "stop-writes-on-bgsave-error",
        "yes",
        &Kind::Flag,
        "a write that cannot be logged is always refused",
    ),
    memory("stream-node-max-bytes", "4096", 0, LONG_MAX),
    number("stream-node-max-entries", "100", 0, i64::MAX),
    fixed("supervised", "no"),
    fixed("syslog-enabled", "no"),
    fixed("syslog-facility", "local0"),
    fixed("syslog-ident", "redis"),
    fixed("tcp-backlog", "511"),
    number("tcp-keepalive", "300", 0, INT_MAX),
    number("timeout", "0", 0, INT_MAX),
    choice("tls-auth-clients", "yes", &["no", "yes", "optional"]),
    text("tls-ca-cert-dir", ""),
    text("tls-ca-cert-file", ""),
    text("tls-cert-file", ""),
    text("tls-ciphers", ""),
    text("tls-ciphersuites", ""),
    text("tls-client-cert-file", ""),
    text("tls-client-key-file", ""),
    text("tls-client-key-file-pass", ""),
    only("tls-cluster", "no", &Kind::Flag, NO_TLS),
    text("tls-dh-params-file", ""),
    text("tls-key-file", ""),
    text("tls-key-file-pass", ""),
    only("tls-port", "0", &Kind::Number(0, 65535), NO_TLS),
    flag("tls-prefer-server-ciphers", "no"),
    text("tls-protocols", ""),
    only("tls-replication", "no", &Kind::Flag, NO_TLS),
    number("tls-session-cache-size", "20480", 0, INT_MAX),
    number("tls-session-cache-timeout", "300", 0, INT_MAX),
    flag("tls-session-caching", "yes"),
    number("tracking-table-max-keys", "1000000", 0, i64::MAX),
    fixed("unixsocket", ""),
    fixed("unixsocketperm", "0"),
    hidden(flag("use-exit-on-panic", "no")),
    number("zset-max-listpack-entries", "128", 0, i64::MAX),
    memory("zset-max-listpack-value", "64", 0, LONG_MAX),
    alias("zset-max-ziplist-entries", "zset-max-listpack-entries"),
    alias("zset-max-ziplist-value", "zset-max-listpack-value"),
];
