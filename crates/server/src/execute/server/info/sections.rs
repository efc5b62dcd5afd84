//! What INFO tells of the server.

use super::super::REDIS_VERSION;
use super::super::memory::dataset_bytes;
use super::Lines;
use crate::process;
use crate::saver::Saving;
use crate::server_thread::ServerThread;
use crate::statistics::{Gauge, Measure};
use crate::subscriptions::Topic;

pub(super) fn server(thread: &ServerThread, lines: &mut Lines) {
    let shared = &thread.shared;
    let uptime_s = shared.diagnostics.statistics.uptime(shared.store.clock.now()).as_secs();
    lines.line("redis_version", REDIS_VERSION);
    let build = &shared.settings.build;
    lines.line("firn_version", build.version);
    lines.line("firn_commit", build.commit);
    lines.line("redis_git_sha1", build.sha1());
    lines.line("redis_git_dirty", u8::from(build.is_dirty()));
    lines.line("redis_build_id", 0);
    lines.line("redis_mode", "standalone");
    lines.line("os", process::system());
    lines.line("arch_bits", usize::BITS);
    lines.line("multiplexing_api", "epoll");
    lines.line("process_id", std::process::id());
    lines.line("run_id", shared.diagnostics.run_id());
    lines.line("tcp_port", String::from_utf8_lossy(&shared.parameters.value("port")));
    lines.line("server_time_usec", thread.unix_us());
    lines.line("uptime_in_seconds", uptime_s);
    lines.line("uptime_in_days", uptime_s / 86_400);
    lines.line("hz", 10);
    lines.line("configured_hz", String::from_utf8_lossy(&shared.parameters.value("hz")));
    // Seconds since the epoch, of which 24 bits are told.
    lines.line("lru_clock", (thread.now_ms() / 1000) & 0xff_ffff);
    lines.line("executable", std::env::current_exe().unwrap_or_default().display());
    lines.line("config_file", "");
    lines.line("io_threads_active", u8::from(shared.threads.mailboxes.len() > 1));
    lines.line("server_threads", shared.threads.mailboxes.len());
}

pub(super) fn clients(thread: &ServerThread, lines: &mut Lines) {
    let shared = &thread.shared;
    lines.line("connected_clients", shared.threads.client_count.load(std::sync::atomic::Ordering::Relaxed));
    lines.line("cluster_connections", 0);
    lines.line("maxclients", shared.parameters.clients_max());
    lines.line("maxclients_at_start", shared.settings.clients_max);
    lines.line("client_recent_max_input_buffer", shared.diagnostics.statistics.max_of(Gauge::InputBytesMax));
    lines
        .line("client_recent_max_output_buffer", shared.diagnostics.statistics.max_of(Gauge::OutputBytesMax));
    lines.line("blocked_clients", shared.diagnostics.statistics.blocked_clients());
    lines.line("tracking_clients", 0);
    lines.line("clients_in_timeout_table", shared.diagnostics.statistics.blocked_clients());
}

pub(super) fn memory(thread: &ServerThread, lines: &mut Lines) {
    let memory = process::memory();
    let statistics = &thread.shared.diagnostics.statistics;
    let set = thread.shared.parameters.value("maxmemory");
    let limit: u64 = String::from_utf8_lossy(&set).parse().unwrap_or(0);
    let peak = memory.resident_bytes_peak.max(memory.resident_bytes);
    // The rest of the process is overhead.
    let dataset = dataset_bytes(thread.shared.store.db.stats().memory_bytes, memory.resident_bytes);
    lines.bytes("used_memory", memory.resident_bytes);
    lines.bytes("used_memory_rss", memory.resident_bytes);
    lines.bytes("used_memory_anonymous", memory.anonymous_bytes);
    lines.bytes("used_memory_mapped", memory.mapped_bytes);
    lines.bytes("used_memory_peak", peak);
    let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    lines.line("used_memory_peak_perc", format!("{:.2}%", share(memory.resident_bytes, peak)));
    lines.line("used_memory_overhead", memory.resident_bytes - dataset);
    lines.line("used_memory_startup", 0);
    lines.line("used_memory_dataset", dataset);
    lines.line("used_memory_dataset_perc", format!("{:.2}%", share(dataset, memory.resident_bytes)));
    lines.bytes("total_system_memory", memory.machine_bytes);
    let lua_bytes = statistics.sum_of(Gauge::InterpreterBytes);
    lines.line("used_memory_vm_eval", lua_bytes);
    // Of functions there are none.
    lines.line("used_memory_vm_functions", 0);
    lines.bytes("used_memory_vm_total", lua_bytes);
    lines.line("used_memory_functions", 0);
    lines.bytes("used_memory_lua", lua_bytes);
    let (script_count, script_bytes) = thread.shared.scripts.size();
    lines.line("used_memory_scripts_eval", script_bytes);
    lines.bytes("used_memory_scripts", script_bytes as u64);
    lines.line("number_of_cached_scripts", script_count);
    // There are no functions.
    lines.line("number_of_functions", 0);
    lines.line("number_of_libraries", 0);
    lines.bytes("maxmemory", limit);
    lines.line(
        "maxmemory_policy",
        String::from_utf8_lossy(&thread.shared.parameters.value("maxmemory-policy")),
    );
    lines.line("mem_fragmentation_ratio", "1.00");
    lines.line("mem_fragmentation_bytes", 0);
    lines.line("mem_not_counted_for_evict", 0);
    // What is resident beyond what was allocated is mapped.
    lines.line("allocator_resident", memory.anonymous_bytes);
    lines.line("rss_overhead_bytes", memory.mapped_bytes);
    let overhead = memory.resident_bytes as f64 / memory.anonymous_bytes.max(1) as f64;
    lines.line("rss_overhead_ratio", format!("{overhead:.2}"));
    lines.line("mem_cluster_links", 0);
    lines.line("mem_replication_backlog", 0);
    lines.line("mem_total_replication_buffers", 0);
    lines.line("mem_clients_slaves", 0);
    lines.line("mem_clients_normal", statistics.sum_of(Gauge::ClientBytes));
    lines.line("mem_aof_buffer", 0);
    lines.line("mem_allocator", "mimalloc");
    lines.line("active_defrag_running", 0);
    lines.line("lazyfree_pending_objects", 0);
}

pub(super) fn persistence(thread: &ServerThread, lines: &mut Lines) {
    let saver = &thread.shared.saver;
    let (running, last) = (saver.running(), saver.last());
    let now_ms = thread.monotonic_ms();
    let is = |saving: Saving| running.is_some_and(|(running, _)| running == saving);
    let since = |saving: Saving| match running {
        Some((running, since_ms)) if running == saving => (now_ms.saturating_sub(since_ms) / 1000) as i64,
        _ => -1,
    };
    let status = if last.failure.is_none() { "ok" } else { "err" };
    lines.line("loading", 0);
    lines.line("async_loading", 0);
    // Every write is in the log before it is acknowledged: these may not be on the device yet.
    let changes =
        thread.shared.diagnostics.statistics.all().of(Measure::Changes).saturating_sub(last.changes);
    lines.line("rdb_changes_since_last_save", changes);
    lines.line("rdb_bgsave_in_progress", u8::from(is(Saving::Sync)));
    lines.line("rdb_last_save_time", last.unix_s);
    lines.line("rdb_last_bgsave_status", status);
    lines.line("rdb_last_bgsave_time_sec", last.took_ms / 1000);
    lines.line("rdb_current_bgsave_time_sec", since(Saving::Sync));
    lines.line("rdb_saves", saver.count());
    lines.line("rdb_last_cow_size", 0);
    // No fork copies anything, and no file of Redis is loaded.
    let zeros = [
        "rdb_last_load_keys_loaded",
        "rdb_last_load_keys_expired",
        "current_cow_peak",
        "current_cow_size",
        "current_cow_size_age",
        "current_save_keys_processed",
        "current_save_keys_total",
        "module_fork_in_progress",
        "module_fork_last_cow_size",
    ];
    zeros.iter().for_each(|name| lines.line(name, 0));
    lines.line("current_fork_perc", "0.00");
    let engine = thread.shared.store.db.stats();
    lines.line("aof_enabled", 1);
    lines.line("aof_rewrite_in_progress", u8::from(is(Saving::Flush)));
    lines.line("aof_rewrite_scheduled", 0);
    lines.line("aof_last_rewrite_time_sec", -1);
    lines.line("aof_current_rewrite_time_sec", since(Saving::Flush));
    lines.line("aof_last_bgrewrite_status", status);
    let takes_writes = engine.write_failure.is_none() && engine.write_refusal.is_none();
    lines.line("aof_last_write_status", if takes_writes { "ok" } else { "err" });
    lines.line("aof_last_cow_size", 0);
    lines.line("aof_current_size", engine.log_bytes);
    lines.line("aof_base_size", 0);
    lines.line("aof_pending_rewrite", 0);
    lines.line("aof_buffer_length", 0);
    lines.line("aof_pending_bio_fsync", 0);
    lines.line("aof_delayed_fsync", 0);
}

pub(super) fn stats(thread: &ServerThread, lines: &mut Lines) {
    let statistics = &thread.shared.diagnostics.statistics;
    let sums = statistics.sums();
    let [calls_s, input_s, output_s] = statistics.rates();
    let mut of = |name: &str, measure: Measure| lines.line(name, sums.of(measure));
    of("total_connections_received", Measure::Connections);
    of("total_net_input_bytes", Measure::InputBytes);
    of("total_net_output_bytes", Measure::OutputBytes);
    of("rejected_connections", Measure::RejectedConnections);
    of("accept_failures", Measure::AcceptFailures);
    of("client_query_buffer_limit_disconnections", Measure::OverLimitConnections);
    of("expired_keys", Measure::Expired);
    of("evicted_scripts", Measure::EvictedScripts);
    of("damaged_records", Measure::DamagedRecords);
    of("keyspace_hits", Measure::Hits);
    of("keyspace_misses", Measure::Misses);
    of("total_error_replies", Measure::ErrorReplies);
    of("turns_given", Measure::Turns);
    of("total_reads_processed", Measure::Reads);
    of("total_writes_processed", Measure::Writes);
    lines.line("total_commands_processed", sums.calls());
    lines.line("instantaneous_ops_per_sec", calls_s);
    lines.line("instantaneous_input_kbps", format!("{:.2}", input_s as f64 / 1024.0));
    lines.line("instantaneous_output_kbps", format!("{:.2}", output_s as f64 / 1024.0));
    let subscriptions = &thread.shared.subscriptions;
    lines.line("pubsub_channels", subscriptions.channel_count(Topic::Channel));
    lines.line("pubsub_patterns", subscriptions.pattern_count());
    lines.line("pubsubshard_channels", subscriptions.channel_count(Topic::Shard));
    let zeros = [
        "total_net_repl_input_bytes",
        "total_net_repl_output_bytes",
        "sync_full",
        "sync_partial_ok",
        "sync_partial_err",
        "expired_stale_perc",
        "expired_time_cap_reached_count",
        "evicted_keys",
        "evicted_clients",
        "latest_fork_usec",
        "total_forks",
        "migrate_cached_sockets",
        "slave_expires_tracked_keys",
        "active_defrag_hits",
        "active_defrag_misses",
        "active_defrag_key_hits",
        "active_defrag_key_misses",
        "current_active_defrag_time",
        "total_active_defrag_time",
        "current_eviction_exceeded_time",
        "total_eviction_exceeded_time",
        "dump_payload_sanitizations",
        "instantaneous_input_repl_kbps",
        "instantaneous_output_repl_kbps",
        "tracking_total_items",
        "tracking_total_prefixes",
        "tracking_total_keys",
        "unexpected_error_replies",
        "io_threaded_reads_processed",
        "io_threaded_writes_processed",
    ];
    zeros.iter().for_each(|name| lines.line(name, 0));
}

pub(super) fn replication(thread: &ServerThread, lines: &mut Lines) {
    lines.line("role", "master");
    lines.line("connected_slaves", 0);
    lines.line("master_failover_state", "no-failover");
    lines.line("master_replid", thread.shared.diagnostics.run_id());
    lines.line("master_replid2", "0".repeat(40));
    lines.line("master_repl_offset", 0);
    lines.line("second_repl_offset", -1);
    lines.line("repl_backlog_active", 0);
    lines.line(
        "repl_backlog_size",
        String::from_utf8_lossy(&thread.shared.parameters.value("repl-backlog-size")),
    );
    lines.line("repl_backlog_first_byte_offset", 0);
    lines.line("repl_backlog_histlen", 0);
}

pub(super) fn cpu(lines: &mut Lines) {
    let time = process::cpu_time();
    for (name, seconds) in [
        ("used_cpu_sys", time.system_s),
        ("used_cpu_user", time.user_s),
        ("used_cpu_sys_children", time.children_system_s),
        ("used_cpu_user_children", time.children_user_s),
    ] {
        lines.line(name, format!("{seconds:.6}"));
    }
}
