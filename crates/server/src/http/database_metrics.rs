//! Everything that a server counts, as metrics.
//!
//! Counters here are since the start of the server: `CONFIG RESETSTAT` does not set them back. What
//! the engine counts is since its opening, which is the same.

mod blobs; // separated values
mod hashed; // the hashed engine
mod jobs; // where background jobs ran

use std::sync::atomic::Ordering;

use firn_engine::{SharedCacheStats, Stats};
use firn_protocol::command::{self, Command};

use super::disk::Disk;
use super::exposition::Kind::{Counter, Gauge, Histogram};
use super::exposition::{Exposition, Kind};
use crate::process;
use crate::server_thread::Shared;
use crate::statistics::{CommandSum, Distribution, Measure, Sums};

/// The bounds of buckets: 1.024 microseconds, and from there by powers of two until 17 seconds.
const BUCKET_POWERS: std::ops::Range<u32> = 0..25;

/// All metrics.
pub(super) fn of(shared: &Shared, disk: &Disk) -> Exposition {
    let mut text = Exposition::default();
    server(shared, &mut text);
    let sums = shared.diagnostics.statistics.all();
    traffic(&sums, &mut text);
    commands(&sums, &mut text);
    keys(shared, &mut text);
    let stats = shared.store.db.stats();
    engine(&stats, &mut text);
    space(shared, &stats, disk, &mut text);
    if let Some(cache) = &stats.shared_cache {
        shared_cache(cache, &mut text);
    }
    writes(&stats, &mut text);
    if let Some(tree) = &stats.tree {
        blobs::text(&tree.blobs, &mut text);
    }
    if let Some(hash) = &stats.hash {
        hashed::text(&stats, hash, &mut text);
    }
    jobs::text(&stats.jobs, &mut text);
    keyspaces(&stats, &mut text);
    text
}

fn server(shared: &Shared, text: &mut Exposition) {
    text.build(&shared.settings.build);
    let is_ending = shared.threads.is_ending.load(Ordering::Acquire);
    text.single("firn_stopping", Gauge, "1 while the server stops.", u8::from(is_ending));
    let uptime = shared.diagnostics.statistics.uptime(shared.store.clock.now());
    text.single("firn_uptime_seconds", Gauge, "How long the server runs.", uptime.as_secs_f64());
    text.single(
        "firn_server_threads",
        Gauge,
        "Threads that serve connections.",
        shared.threads.mailboxes.len(),
    );
    let clients = shared.threads.client_count.load(Ordering::Relaxed);
    text.single("firn_clients", Gauge, "Connections.", clients);
    text.single("firn_clients_max", Gauge, "Connections that are let in.", shared.parameters.clients_max());
    let help =
        "What clients_max was set to at the start; firn_clients_max is less where descriptors are short.";
    text.single("firn_clients_max_at_start", Gauge, help, shared.settings.clients_max);
    let blocked = shared.diagnostics.statistics.blocked_clients();
    text.single("firn_blocked_clients", Gauge, "Clients that wait for others' keys.", blocked);
    let slow = shared.diagnostics.slow_log.total();
    text.single(
        "firn_slow_commands_total",
        Counter,
        "Commands that took long enough for the slow log.",
        slow,
    );
    let memory = process::memory();
    text.single("firn_resident_bytes", Gauge, "Memory of the process.", memory.resident_bytes);
    let help = "Of that, what the process has allocated.";
    text.single("firn_anonymous_bytes", Gauge, help, memory.anonymous_bytes);
    let help = "The rest of it: pages of files, which the system takes back when it needs them.";
    text.single("firn_mapped_bytes", Gauge, help, memory.mapped_bytes);
    text.single("firn_machine_memory_bytes", Gauge, "Memory of the machine.", memory.machine_bytes);
    let time = process::cpu_time();
    text.family("firn_processor_seconds_total", Counter, "Processor time of the process.");
    for (mode, seconds) in [("user", time.user_s), ("system", time.system_s)] {
        text.sample("firn_processor_seconds_total", &[("mode", &mode)], seconds);
    }
}

fn traffic(sums: &Sums, text: &mut Exposition) {
    let measures = [
        ("firn_connections_total", Measure::Connections, "Connections that came."),
        ("firn_rejected_connections_total", Measure::RejectedConnections, "Connections beyond the limit."),
        (
            "firn_accept_failures_total",
            Measure::AcceptFailures,
            "Times that no connection was accepted for want of descriptors or memory.",
        ),
        (
            "firn_over_limit_connections_total",
            Measure::OverLimitConnections,
            "Connections closed because their requests took too much memory.",
        ),
        ("firn_receive_bytes_total", Measure::InputBytes, "Bytes received from clients."),
        ("firn_send_bytes_total", Measure::OutputBytes, "Bytes sent to clients."),
        ("firn_hits_total", Measure::Hits, "Keys that commands which only read have found."),
        ("firn_misses_total", Measure::Misses, "Keys that commands which only read have not found."),
        (
            "firn_expired_total",
            Measure::Expired,
            "Keys that had expired: all collections, and strings that were looked for afterwards.",
        ),
        (
            "firn_evicted_scripts_total",
            Measure::EvictedScripts,
            "Scripts of EVAL that made room for later ones.",
        ),
        ("firn_turns_total", Measure::Turns, "Turns that other clients have had amid long commands."),
        (
            "firn_damaged_records_total",
            Measure::DamagedRecords,
            "Records that background work could not read and passed over.",
        ),
    ];
    for (name, measure, help) in measures {
        text.single(name, Counter, help, sums.of(measure));
    }
    text.family("firn_errors_total", Counter, "Error replies by their first word.");
    for (code, count) in &sums.errors {
        text.sample("firn_errors_total", &[("code", code)], count);
    }
}

fn commands(sums: &Sums, text: &mut Exposition) {
    type Figure = fn(&CommandSum) -> u64;
    let counters: [(&str, Figure, &str); 3] = [
        ("firn_commands_total", |sum| sum.calls, "Commands that were executed."),
        ("firn_failed_commands_total", |sum| sum.failed, "Commands that ended with an error."),
        ("firn_rejected_commands_total", |sum| sum.rejected, "Commands that were refused before they ran."),
    ];
    let known: Vec<(&Command, &CommandSum)> = command::all().iter().zip(&sums.commands).collect();
    for (name, figure, help) in counters {
        text.family(name, Counter, help);
        for (command, sum) in known.iter().filter(|(_, sum)| figure(sum) > 0) {
            text.sample(name, &[("command", command)], figure(sum));
        }
    }
    let name = "firn_command_duration_seconds";
    text.family(name, Histogram, "How long commands took.");
    for (command, sum) in known.iter().filter(|(_, sum)| sum.calls > 0) {
        histogram(text, name, command, sum);
    }
}

fn histogram(text: &mut Exposition, name: &str, command: &Command, sum: &CommandSum) {
    let (bucket, distribution): (_, &Distribution) = (format!("{name}_bucket"), &sum.distribution);
    for power in BUCKET_POWERS {
        let ns = 1024_u64 << power;
        let le = ns as f64 / 1e9;
        text.sample(&bucket, &[("command", command), ("le", &le)], distribution.below(ns));
    }
    // Calls are counted after the distribution was read, or before: what is told must add up.
    let count = distribution.count();
    text.sample(&bucket, &[("command", command), ("le", &"+Inf")], count);
    text.sample(&format!("{name}_sum"), &[("command", command)], sum.ns as f64 / 1e9);
    text.sample(&format!("{name}_count"), &[("command", command)], count);
}

fn keys(shared: &Shared, text: &mut Exposition) {
    let counts = shared.diagnostics.key_counts.last(&shared.store, shared.store.clock.now());
    if let Some(age) = shared.diagnostics.key_counts.age(shared.store.clock.now()) {
        let name = "firn_keys_count_age_seconds";
        text.single(name, Gauge, "How long ago keys were counted.", age.as_secs_f64());
    }
    let families = ["firn_keys", "firn_expiring_keys"];
    let helps =
        ["Keys of each database, as of the last count.", "Keys with an expiry, as of the last count."];
    for (which, (name, help)) in families.into_iter().zip(helps).enumerate() {
        text.family(name, Gauge, help);
        for (index, count) in counts.iter().filter(|(_, count)| count.keys > 0) {
            text.sample(name, &[("database", index)], [count.keys, count.expiring][which]);
        }
    }
}

/// Nothing where the directory cannot be looked at.
fn space(shared: &Shared, stats: &Stats, disk: &Disk, text: &mut Exposition) {
    let space = disk.space(&shared.settings.dir, stats, shared.store.clock.now());
    let Some(space) = space else { return };
    let name = "firn_disk_bytes";
    text.family(name, Gauge, "Space that the directory takes on disk, by what it is of; as du counts.");
    for (part, bytes) in space.parts() {
        text.sample(name, &[("of", &part)], bytes);
    }
}

fn takes_writes(stats: &Stats, text: &mut Exposition) {
    let takes = u8::from(stats.write_failure.is_none() && stats.write_refusal.is_none());
    let help = "1, or 0 while the disk is too full for writes, and after a write to the log has failed.";
    text.single("firn_engine_takes_writes", Gauge, help, takes);
}

fn engine(stats: &Stats, text: &mut Exposition) {
    takes_writes(stats, text);
    let tree = stats.tree.clone().unwrap_or_default();
    let singles: [(&str, Kind, u64, &str); 27] = [
        ("memory_bytes", Gauge, stats.memory_bytes, "Memory that the engine holds for data."),
        ("memory_bytes_max", Gauge, stats.memory_bytes_max, "Its limit."),
        ("buffer_bytes", Gauge, tree.buffer_bytes, "Log and indexes that are not in tables yet."),
        ("log_bytes", Gauge, stats.log_bytes, "Live log segments, as they take room on disk."),
        ("table_bytes", Gauge, tree.table_bytes, "Live tables, and what is dead in files that they share."),
        ("tables", Gauge, tree.table_count, "Live tables, counted."),
        ("debt_bytes", Gauge, stats.debt_bytes, "Background work that is left."),
        ("snapshots", Gauge, stats.snapshot_count, "Snapshots that live."),
        (
            "damaged_files",
            Gauge,
            stats.damaged_file_count,
            "Tables and blob segments that background work found damaged, and left.",
        ),
        (
            "set_aside_files",
            Gauge,
            stats.set_aside_file_count,
            "Tables and blob segments that background work fails on each time, and left.",
        ),
        (
            "background_refused",
            Gauge,
            u64::from(stats.background_refusal.is_some()),
            "1 while background work could not be done and is to be tried again, 0 otherwise.",
        ),
        ("read_misses_total", Counter, stats.read_miss_count, "Reads that had to wait for a file."),
        (
            "read_miss_bytes_total",
            Counter,
            stats.read_miss_bytes_total,
            "Bytes that reads fetched from files.",
        ),
        ("compaction_read_bytes_total", Counter, tree.compaction_read_bytes_total, "Bytes compactions read."),
        (
            "merge_index_bytes_total",
            Counter,
            tree.merge_index_bytes_total,
            "Index bytes of merges in memory.",
        ),
        ("scan_dead_passed_total", Counter, tree.scan_dead_passed_count, "Dead records that scans passed."),
        ("syncs_total", Counter, stats.sync_count, "Syncs of log segments."),
        ("flushes_total", Counter, tree.flush_count, "Flushes of the buffer into tables."),
        ("ingestions_total", Counter, tree.ingest_count, "Ingestions that were finished."),
        ("compactions_total", Counter, tree.compaction_count, "Compactions."),
        ("recycled_bytes", Gauge, stats.recycled_bytes, "Bytes of files kept to be written over."),
        ("merges_total", Counter, tree.merge_count, "Merges in the buffer."),
        ("jobs_passed_on_total", Counter, stats.jobs_passed_on_count, "Jobs done here, not elsewhere."),
        ("orphans_removed_total", Counter, stats.orphan_remove_count, "Outputs of dead attempts, removed."),
        ("uploads_aborted_total", Counter, stats.upload_abort_count, "Uploads of dead attempts, aborted."),
        ("log_objects_total", Counter, stats.log_object_count, "Log objects put on shared storage."),
        ("log_object_write_bytes_total", Counter, stats.log_object_write_bytes_total, "Their bytes."),
    ];
    for (name, kind, value, help) in singles {
        text.single(&format!("firn_engine_{name}"), kind, help, value);
    }
}

/// Of a database whose tables lie elsewhere, with a cache before them.
/// docs/operate/monitoring.md names these.
fn shared_cache(cache: &SharedCacheStats, text: &mut Exposition) {
    let singles = [
        ("hits_total", Counter, cache.hit_count, "Parts of files that reads found in the cache."),
        ("misses_total", Counter, cache.miss_count, "Parts of files that the store was asked for."),
        (
            "fetch_bytes_total",
            Counter,
            cache.fetch_bytes_total,
            "Bytes that the store was asked for by misses.",
        ),
        ("pass_bytes_total", Counter, cache.pass_bytes_total, "Bytes of reads that went past the cache."),
        ("held_bytes", Gauge, cache.held_bytes, "Bytes that the cache holds."),
        ("evictions_total", Counter, cache.eviction_count, "Parts that went for others."),
        ("failures_total", Counter, cache.failure_count, "How often the cache's directory failed."),
    ];
    for (name, kind, value, help) in singles {
        text.single(&format!("firn_engine_shared_cache_{name}"), kind, help, value);
    }
}

fn writes(stats: &Stats, text: &mut Exposition) {
    let tree = stats.tree.clone().unwrap_or_default();
    let name = "firn_engine_write_bytes_total";
    text.family(name, Counter, "Bytes written: by users, and for that to the log, tables and the manifest.");
    for (by, bytes) in [
        ("user", stats.user_write_bytes_total),
        ("log", stats.log_write_bytes_total),
        ("flush", tree.flush_write_bytes_total),
        ("ingestion", tree.ingest_write_bytes_total),
        ("compaction", tree.compaction_write_bytes_total),
        ("values", tree.blobs.write_bytes_total),
        ("blob_gc", tree.blobs.gc_write_bytes_total),
        ("manifest", stats.manifest_write_bytes_total),
    ] {
        text.sample(name, &[("by", &by)], bytes);
    }
    let name = "firn_engine_stall_seconds_total";
    text.family(name, Counter, "Time by which writers were slowed down, or stood still, all together.");
    for (kind, us) in [("slowdown", stats.slowdown_us_total), ("stop", stats.stop_us_total)] {
        text.sample(name, &[("kind", &kind)], us as f64 / 1e6);
    }
    let name = "firn_engine_held_seconds_total";
    text.family(name, Counter, "Time of the clock in which at least one write was slowed down, or stopped.");
    for (kind, us) in [("slowdown", stats.slowdown_wall_us_total), ("stop", stats.stop_wall_us_total)] {
        text.sample(name, &[("kind", &kind)], us as f64 / 1e6);
    }
}

fn keyspaces(stats: &Stats, text: &mut Exposition) {
    text.family("firn_memtable_records", Gauge, "Records in the memtable.");
    let of_tree = || stats.keyspaces.iter().filter_map(|keyspace| Some((keyspace, keyspace.tree.as_ref()?)));
    for (keyspace, tree) in of_tree() {
        text.sample("firn_memtable_records", &[("keyspace", &keyspace.name)], tree.memtable_records);
    }
    text.family("firn_runs", Gauge, "Runs in the buffer.");
    for (keyspace, tree) in of_tree() {
        text.sample("firn_runs", &[("keyspace", &keyspace.name)], tree.runs.len());
    }
    let families = ["firn_level_tables", "firn_level_bytes"];
    for (which, (name, help)) in
        families.into_iter().zip(["Tables of a level.", "Bytes of a level."]).enumerate()
    {
        text.family(name, Gauge, help);
        for (keyspace, tree) in of_tree() {
            for (level, (tables, bytes)) in tree.levels.iter().enumerate() {
                let labels: [(&str, &dyn std::fmt::Display); 2] =
                    [("keyspace", &keyspace.name), ("level", &level)];
                text.sample(name, &labels, [tables, bytes][which]);
            }
        }
    }
}
