// What jobs and their stages are called here: one phrase for each. docs/internals/glossary.md has them too.
const KINDS = {
  l0_compaction: "merge new tables", deep_compaction: "merge older tables", blob_gc: "clean up separated values",
};
const STAGES = {
  queue: "wait for a worker", open: "open inputs", read: "read", merge: "merge", write: "write", check: "check the result",
  commit: "take the result in", here: "all, done here",
};
const kind = label => KINDS[label] || label;

// Prometheus' text: name -> [{labels, value}].
function parse(text) {
  const families = new Map();
  for (const line of text.split("\n")) {
    const found = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] || "").matchAll(/([a-z]+)="((?:[^"\\]|\\.)*)"/g))
      labels[name] = value.replace(/\\(.)/g, (_, letter) => letter === "n" ? "\n" : letter);
    if (!families.has(found[1])) families.set(found[1], []);
    families.get(found[1]).push({ labels, value: Number(found[3]) });
  }
  return families;
}
const samples = (look, name) => look.families.get(name) || [];
const matches = (sample, labels) => Object.entries(labels).every(([name, value]) => sample.labels[name] === value);
function sum(look, name, labels = {}) {
  return samples(look, name).filter(it => matches(it, labels)).reduce((total, it) => total + it.value, 0);
}
function rate(before, after, name, labels) {
  const seconds = (after.at - before.at) / 1000;
  return seconds > 0 ? Math.max(0, sum(after, name, labels) - sum(before, name, labels)) / seconds : NaN;
}

// Calls between two looks by their bucket's upper bound, each with those below.
function buckets(before, after, labels) {
  const counts = new Map();
  for (const [look, sign] of [[before, -1], [after, 1]])
    for (const it of samples(look, "firn_command_duration_seconds_bucket"))
      if (matches(it, labels)) {
        const bound = it.labels.le === "+Inf" ? Infinity : Number(it.labels.le);
        counts.set(bound, (counts.get(bound) || 0) + sign * it.value);
      }
  return [...counts].sort((a, b) => a[0] - b[0]);
}
// What a share of the calls did not exceed.
function percentile(cumulative, share) {
  const total = cumulative.length ? cumulative[cumulative.length - 1][1] : 0;
  if (total <= 0) return NaN;
  const rank = share * total;
  let [low, below] = [0, 0];
  for (const [bound, count] of cumulative) {
    if (count >= rank)
      return bound === Infinity ? low : low + (bound - low) * (rank - below) / Math.max(count - below, 1);
    [low, below] = [bound, count];
  }
  return low;
}
// What no call exceeded: the bound of the last bucket with one.
function longest(cumulative) {
  const total = cumulative.length ? cumulative[cumulative.length - 1][1] : 0;
  const found = total > 0 && cumulative.find(([, count]) => count >= total);
  return found ? found[0] : NaN;
}

const charts = {
  rate: new Chart("chart-rate", { names: ["commands"], show: value => number(value) + " a second", tick: number }),
  latency: new Chart("chart-latency", { names: ["p50", "p99", "longest"], show: time, scale: "logarithmic" }),
  writes: new Chart("chart-writes", {
    names: ["by users", "by the engine for them"], show: value => bytes(value) + "/s", isBytes: true, least: 1024,
  }),
  held: new Chart("chart-held", { names: ["slowed", "stopped"], show: percent, scale: "share" }),
};

// Parts of the disk's space in the order of the bar: label, phrase, what it is, colour.
const PARTS = [
  ["live", "live data", "tables and separated values that reads find", "one"],
  ["obsolete", "obsolete", "overwritten or deleted; background jobs give it back", "two"],
  ["log", "log", "the newest writes, until they are in tables", "three"],
  ["preallocated", "preallocated", "set aside for what is written next", "four"],
  ["other", "other", "manifest, lock and the like", "faint"],
];

function showSpace(after) {
  const of = part => sum(after, "firn_disk_bytes", { of: part });
  const all = PARTS.reduce((total, [label]) => total + of(label), 0);
  const bar = element("space-parts");
  while (bar.children.length < PARTS.length) bar.append(node("i"));
  PARTS.forEach(([label, , , colour], at) => {
    bar.children[at].style.width = (all > 0 ? 100 * of(label) / all : 0) + "%";
    bar.children[at].style.background = `var(--${colour})`;
  });
  table("space", ["part", "size", "share", ["what it is", "words"]], all > 0
    ? PARTS.map(([label, phrase, what]) => [phrase, bytes(of(label)), percent(of(label) / all), what]) : [], "not measured");
  [...element("space").querySelectorAll("tbody tr")].forEach((row, at) =>
    row.cells[0].style.borderLeft = all > 0 ? `4px solid var(--${PARTS[at][3]})` : "");
  return all;
}

function showTables(before, after, slow, jobs) {
  const of = (name, labels) => sum(after, name, labels);
  const change = (name, labels) => rate(before, after, name, labels);
  const names = samples(after, "firn_commands_total").map(it => it.labels.command);
  const rows = names.map(command => ({ command, calls: change("firn_commands_total", { command }) }));
  rows.sort((a, b) => (b.calls || 0) - (a.calls || 0) || of("firn_commands_total", { command: b.command }) - of("firn_commands_total", { command: a.command }));
  table("commands", ["command", "a second", "p50", "p99", "longest", "so far"], rows.slice(0, 12).map(({ command, calls }) => {
    const own = buckets(before, after, { command });
    return [command.replace("|", " "), number(calls), time(percentile(own, 0.5)), time(percentile(own, 0.99)), time(longest(own)),
      number(of("firn_commands_total", { command }))];
  }), "none yet");
  table("slow", ["command", "took", "at"], slow.slice(0, 12).map(it =>
    [it.command, time(it.us / 1e6), new Date(it.unix_s * 1000).toLocaleTimeString()]), "none");
  table("levels", ["keyspace", "level", "tables", "size"], samples(after, "firn_level_tables").filter(it => it.value > 0)
    .map(({ labels, value }) => [labels.keyspace, labels.level, number(value), bytes(of("firn_level_bytes", labels))]),
    "no tables yet: everything is in memory and in the log");
  table("keys", ["database", "keys", "with expiry"], samples(after, "firn_keys").map(({ labels, value }) =>
    ["db" + labels.database, number(value), number(of("firn_expiring_keys", labels))]), "none counted yet");
  table("jobs", [["job", "words"], "where", "read", "waited", "took", "at"], jobs.slice(0, 12).map(it =>
    [kind(it.kind), it.place, bytes(it.read_bytes), time(it.queued_us / 1e6), time(it.ran_us / 1e6), new Date(it.ended_unix_ms).toLocaleTimeString()]),
    "none yet");
  table("stages", [["job", "words"], ["stage", "words"], "times", "on average"], samples(after, "firn_engine_job_stage_seconds_count").filter(it => it.value > 0)
    .map(({ labels, value }) => [kind(labels.kind), STAGES[labels.stage] || labels.stage, number(value), time(of("firn_engine_job_stage_seconds_sum", labels) / value)]),
    "none yet");
  const waiting = of("firn_engine_jobs_held");
  const causes = samples(after, "firn_engine_job_passed_on_causes_total").filter(it => it.value > 0)
    .map(({ labels, value }) => number(value) + " " + labels.cause);
  setText(element("jobs-note"), number(of("firn_engine_jobs_total", { place: "elsewhere" })) + " done by workers, "
    + number(of("firn_engine_jobs_total", { place: "here" })) + " here"
    + (waiting > 0 ? "; " + number(waiting) + " wait (" + bytes(of("firn_engine_jobs_held_bytes")) + ")" : "")
    + (causes.length > 0 ? "; of workers' jobs, done here: " + causes.join(", ") : "") + ".");
}

function showValues(before, after) {
  const of = (name, labels) => sum(after, name, labels);
  const change = (name, labels) => rate(before, after, name, labels);
  const all = of("firn_engine_blob_segment_bytes");
  const share = part => bytes(part) + " · " + percent(part / all);
  const values = (what, name) => number(of(`firn_engine_blob_${what}_total`)) + " · " + bytes(of(`firn_engine_blob_${name}_bytes_total`));
  const failed = of("firn_engine_failed_blob_gcs_total");
  table("values", ["what", ["how much", "words"]], all === 0 ? [] : [
    ["segments", number(of("firn_engine_blob_segments")) + " · " + bytes(all)],
    ["full segments by obsolete share", samples(after, "firn_engine_blob_segments_by_dead").map(({ labels, value }) =>
      (labels.share === "0" ? "none" : `≤\u00a0${100 * labels.share}\u00a0%`) + ":\u00a0" + number(value)).join(" · ")],
    ["removed segments that readers still hold", number(of("firn_engine_blob_retired_segments")) + " · " + bytes(of("firn_engine_blob_retired_bytes"))],
    ["moved segments that tables still name", number(of("firn_engine_relocations")) + " · " + bytes(of("firn_engine_relocation_bytes")) + " of memory"],
    ["written so far", number(of("firn_engine_blob_writes_total")) + " · " + bytes(of("firn_engine_write_bytes_total", { by: "values" }))
      + " · " + number(of("firn_engine_blob_syncs_total")) + " syncs"],
    ["read so far", values("reads", "read")],
    ["read a second", number(change("firn_engine_blob_reads_total")) + " · " + bytes(change("firn_engine_blob_read_bytes_total")) + "/s"],
    ["obsolete", share(of("firn_engine_blob_dead_bytes"))],
    ["references in tables to obsolete values", number(of("firn_engine_blob_obsolete_references"))],
    ["overwritten in memory, about", share(of("firn_engine_blob_unreclaimed_bytes"))],
    ["to be freed by clean-ups", share(of("firn_engine_blob_debt_bytes"))],
    ["clean-ups so far", number(of("firn_engine_blob_gcs_total")) + (failed > 0 ? ", " + number(failed) + " failed" : "")],
    ["read by them", number(of("firn_engine_blob_gc_segments_total")) + " segments · " + bytes(of("firn_engine_blob_gc_read_bytes_total"))],
    ["kept by them", values("survivors", "survivor")],
    ["freed by them", values("dropped", "dropped")],
    ["freed without them", values("wholly_dead_segments", "wholly_dead") + " of segments"],
    ["copied a second", bytes(change("firn_engine_write_bytes_total", { by: "blob_gc" })) + "/s"],
  ], "none: the setting separate_bytes says from which length on values are separated");
}

function showHashed(before, after, status) {
  const isHashed = status.engine === "hashlog";
  document.querySelectorAll(".hashed").forEach(card => card.hidden = !isHashed);
  document.querySelectorAll(".ordered").forEach(card => card.hidden = isHashed);
  if (!isHashed) return;
  const of = name => sum(after, "firn_hashlog_" + name);
  const change = name => rate(before, after, "firn_hashlog_" + name);
  const sized = (count, size) => number(of(count)) + " · " + bytes(of(size));
  table("hashed", ["what", ["how much", "words"]], [
    ["index", number(of("index_entries")) + " entries · " + bytes(of("index_bytes"))],
    ["growths of its slots", number(of("growths_total")) + ", " + number(of("growth_waits_total")) + " waits for one"],
    ["log in memory", bytes(of("resident_bytes"))],
    ["segments of the log", sized("segments", "segment_bytes")],
    ["segments of the cold log", sized("cold_segments", "cold_segment_bytes")],
    ["what finds records of the cold log", bytes(of("cold_memory_bytes")) + " of memory · " + bytes(of("cold_run_bytes")) + " on disk"],
    ["copies of records that were read from segments", bytes(of("cache_bytes"))],
    ["records read from segments a second", number(change("device_reads_total"))],
    ["redo log", bytes(of("redo_bytes")) + " · " + bytes(change("redo_write_bytes_total")) + "/s written"],
    ["written to segments a second", bytes(change("flush_write_bytes_total")) + "/s"],
    ["checkpoints so far", number(of("checkpoints_total"))],
    ["compaction so far", bytes(of("compaction_read_bytes_total")) + " gone over · " + bytes(of("compaction_copy_bytes_total")) + " of them copied"],
  ], "");
  setText(element("hashed-note"), "Not offered, since they need keys in order (serve a database made with --engine tree): "
    + status.not_offered.map(name => name.toUpperCase()).join(", ") + ".");
}

function show(before, after, slow, jobs, status) {
  const of = (name, labels) => sum(after, name, labels);
  const change = (name, labels) => rate(before, after, name, labels);
  const all = buckets(before, after, {});
  const [p50, p99, most] = [percentile(all, 0.5), percentile(all, 0.99), longest(all)];
  const calls = change("firn_commands_total");
  const [slowed, stopped] = ["slowdown", "stop"].map(kind => change("firn_engine_held_seconds_total", { kind }));
  const user = change("firn_engine_write_bytes_total", { by: "user" });
  const engine = change("firn_engine_write_bytes_total") - user;
  const space = showSpace(after);
  const live = of("firn_disk_bytes", { of: "live" });
  tiles([
    ["Commands a second", number(calls), number(of("firn_commands_total")) + " so far"],
    ["Half of commands within", time(p50), "p50 of the last second"],
    ["99 of 100 within", time(p99), "p99 of the last second"],
    ["All within", time(most), "the longest of the last second, rounded up", most > 1],
    ["Writes stopped", percent(stopped), `of the last second; slowed ${percent(slowed)} of it. Stopped so far: ${time(of("firn_engine_held_seconds_total", { kind: "stop" }))}`, stopped > 0.01],
    ["Clients", number(of("firn_clients")), number(of("firn_blocked_clients")) + " wait for keys"],
    ["Memory", bytes(of("firn_anonymous_bytes")), bytes(of("firn_engine_memory_bytes")) + " of " + bytes(of("firn_engine_memory_bytes_max")) + " for data; " + bytes(of("firn_mapped_bytes")) + " of files mapped"],
    ["Space on disk", bytes(space), bytes(live) + " of it live data"],
    ["Network", bytes(change("firn_receive_bytes_total") + change("firn_send_bytes_total")) + "/s", bytes(change("firn_receive_bytes_total")) + "/s of it in"],
    ["Errors a second", number(change("firn_errors_total")), number(of("firn_errors_total")) + " so far"],
  ]);
  const at = after.at;
  charts.rate.add(at, [calls]);
  charts.latency.add(at, [p50, p99, most]);
  charts.writes.add(at, [user, engine]);
  charts.held.add(at, [slowed, stopped]);
  showTables(before, after, slow, jobs);
  showValues(before, after);
  showHashed(before, after, status);
  const held = stopped > 0.01 ? [[`Writes are stopped: they wait for room until background work has made some (${percent(stopped)} of the last second).`, "warn"]] : [];
  notices([...status.notices.map(({ text, level }) => [text, level]), ...held]);
  state(status.state + (held.length && status.state === "serving" ? ", writes stopped" : ""), status.is_good && !held.length);
  const build = (samples(after, "firn_build_info")[0] || { labels: {} }).labels;
  setText(element("about"), `${build.version} (${build.commit}) · engine ${status.engine} · up ${duration(of("firn_uptime_seconds"))} · ${number(of("firn_server_threads"))} threads`);
}

let last = null;
watch(async get => {
  const [metrics, slow, jobs, status] = await Promise.all(["metrics", "slow", "jobs", "status"].map(get));
  const now = { at: performance.now(), families: parse(await metrics.text()) };
  // A server that was started anew counts from nothing.
  if (last && sum(last, "firn_uptime_seconds") > sum(now, "firn_uptime_seconds")) last = null;
  show(last || now, now, await slow.json(), await jobs.json(), await status.json());
  last = now;
});
