const HISTORY = 120;

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
  return Math.max(0, sum(after, name, labels) - sum(before, name, labels)) / Math.max(seconds, 0.001);
}

// Counts of calls between two looks by their bucket's upper bound, and the value that a share of them did not exceed.
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

// One picture of up to two lines over the last two minutes, oldest left.
const SVG = "http://www.w3.org/2000/svg";
const history = {};
function chart(id, values, show) {
  const points = history[id] ||= [];
  points.push(values);
  if (points.length > HISTORY) points.shift();
  const top = Math.max(...points.flat().filter(isFinite), 0);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 120 100");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "now " + values.map(show).join(", ") + "; at most " + show(top));
  const add = (tag, attributes) => {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    svg.append(made);
  };
  for (const y of [2, 50, 98]) add("line", { x1: 0, x2: 120, y1: y, y2: y });
  values.forEach((_, line) => {
    const text = points.flatMap((point, index) => isFinite(point[line])
      ? [`${HISTORY - points.length + index},${98 - 96 * (top > 0 ? point[line] / top : 0)}`] : []).join(" ");
    add("polyline", { points: text, stroke: line ? "var(--two)" : "var(--one)" });
  });
  element(id).replaceChildren(svg, node("div", "at most " + show(top) + " in the last two minutes", "note"));
}

function show(before, after, slow, jobs) {
  const of = (name, labels) => sum(after, name, labels);
  const change = (name, labels) => rate(before, after, name, labels);
  const all = buckets(before, after, {});
  const [p50, p99, p999] = [0.5, 0.99, 0.999].map(share => percentile(all, share));
  const calls = change("firn_commands_total");
  const slowed = change("firn_engine_stall_seconds_total", { kind: "slowdown" });
  const stopped = change("firn_engine_stall_seconds_total", { kind: "stop" });
  const user = change("firn_engine_write_bytes_total", { by: "user" });
  const engine = change("firn_engine_write_bytes_total") - user;
  const [tableBytes, valueBytes] = ["table", "blob_segment"].map(what => of(`firn_engine_${what}_bytes`));
  const space = tableBytes + valueBytes + of("firn_engine_log_bytes");
  tiles([
    ["Commands a second", number(calls), number(of("firn_commands_total")) + " so far"],
    ["Latency p50", time(p50), "over the last second"],
    ["Latency p99", time(p99), "over the last second"],
    ["Latency p99.9", time(p999), "over the last second"],
    ["Clients", number(of("firn_clients")), number(of("firn_blocked_clients")) + " wait for keys"],
    ["Memory", bytes(of("firn_anonymous_bytes")), bytes(of("firn_engine_memory_bytes")) + " of " + bytes(of("firn_engine_memory_bytes_max")) + " for data; " + bytes(of("firn_mapped_bytes")) + " of files mapped"],
    ["Space", bytes(space), bytes(tableBytes) + " in " + number(of("firn_engine_tables")) + " tables" + (valueBytes > 0 ? ", " + bytes(valueBytes) + " of values" : "")],
    ["Stalls", percent(stopped), time(of("firn_engine_stall_seconds_total", { kind: "stop" })) + " stood still so far", stopped > 0.01],
    ["Network", bytes(change("firn_receive_bytes_total") + change("firn_send_bytes_total")) + "/s", bytes(change("firn_receive_bytes_total")) + "/s in"],
    ["Errors a second", number(change("firn_errors_total")), number(of("firn_errors_total")) + " so far"],
  ]);
  chart("chart-rate", [calls], number);
  chart("chart-latency", [p50, p99], time);
  chart("chart-writes", [user, engine], value => bytes(value) + "/s");
  chart("chart-stalls", [slowed, stopped], percent);
  const names = samples(after, "firn_commands_total").map(it => it.labels.command);
  const rows = names.map(command => ({ command, calls: change("firn_commands_total", { command }) }));
  rows.sort((a, b) => b.calls - a.calls || of("firn_commands_total", { command: b.command }) - of("firn_commands_total", { command: a.command }));
  table("commands", ["command", "a second", "p50", "p99", "so far"], rows.slice(0, 12).map(({ command, calls }) => {
    const own = buckets(before, after, { command });
    return [command, number(calls), time(percentile(own, 0.5)), time(percentile(own, 0.99)), number(of("firn_commands_total", { command }))];
  }), "none yet");
  table("levels", ["keyspace", "level", "tables", "size"], samples(after, "firn_level_tables").filter(it => it.value > 0)
    .map(({ labels, value }) => [labels.keyspace, "L" + labels.level, number(value), bytes(of("firn_level_bytes", labels))]),
    "no tables yet: everything is in memory and in the log");
  table("slow", ["command", "took", "at"], slow.slice(0, 12).map(it =>
    [it.command, time(it.us / 1e6), new Date(it.unix_s * 1000).toLocaleTimeString()]), "none");
  table("jobs", ["job", "where", "read", "waited", "took", "at"], jobs.slice(0, 12).map(it =>
    [it.kind, it.place, bytes(it.read_bytes), time(it.queued_us / 1e6), time(it.ran_us / 1e6), new Date(it.ended_unix_ms).toLocaleTimeString()]),
    "none yet");
  table("stages", ["job", "stage", "times", "on average"], samples(after, "firn_engine_job_stage_seconds_count").filter(it => it.value > 0)
    .map(({ labels, value }) => [labels.kind, labels.stage, number(value), time(of("firn_engine_job_stage_seconds_sum", labels) / value)]),
    "none yet");
  const held = of("firn_engine_jobs_held");
  const causes = samples(after, "firn_engine_job_passed_on_causes_total").filter(it => it.value > 0)
    .map(({ labels, value }) => number(value) + " " + labels.cause);
  element("jobs-note").textContent = number(of("firn_engine_jobs_total", { place: "elsewhere" })) + " done elsewhere, "
    + number(of("firn_engine_jobs_total", { place: "here" })) + " here"
    + (held > 0 ? "; " + number(held) + " wait (" + bytes(of("firn_engine_jobs_held_bytes")) + ")" : "")
    + (causes.length > 0 ? "; of workers' jobs, done here: " + causes.join(", ") : "")
    + (of("firn_engine_executor_away") === 1 ? "; workers are away" : "") + ".";
  const share = part => bytes(part) + " · " + percent(part / valueBytes);
  const values = (what, name) => number(of(`firn_engine_blob_${what}_total`)) + " · " + bytes(of(`firn_engine_blob_${name}_bytes_total`));
  const failed = of("firn_engine_failed_blob_gcs_total");
  table("values", ["what", "how much"], valueBytes === 0 ? [] : [
    ["segments", number(of("firn_engine_blob_segments")) + " · " + bytes(valueBytes)],
    ["sealed ones by dead share", samples(after, "firn_engine_blob_segments_by_dead").map(({ labels, value }) =>
      (labels.share === "0" ? "none" : `≤\u00a0${100 * labels.share}\u00a0%`) + ":\u00a0" + number(value)).join(" · ")],
    ["gone, files held", number(of("firn_engine_blob_retired_segments")) + " · " + bytes(of("firn_engine_blob_retired_bytes"))],
    ["relocations", number(of("firn_engine_relocations")) + " · " + bytes(of("firn_engine_relocation_bytes")) + " of memory"],
    ["written so far", number(of("firn_engine_blob_writes_total")) + " · " + bytes(of("firn_engine_write_bytes_total", { by: "values" }))
      + " · " + number(of("firn_engine_blob_syncs_total")) + " syncs"],
    ["read so far", values("reads", "read")],
    ["read a second", number(change("firn_engine_blob_reads_total")) + " · " + bytes(change("firn_engine_blob_read_bytes_total")) + "/s"],
    ["dead", share(of("firn_engine_blob_dead_bytes"))],
    ["found dead by flushes", number(of("firn_engine_blob_obsolete_references")) + " references"],
    ["hidden by newer records, about", share(of("firn_engine_blob_unreclaimed_bytes"))],
    ["to be freed by GCs", share(of("firn_engine_blob_debt_bytes"))],
    ["blob GCs so far", number(of("firn_engine_blob_gcs_total")) + (failed > 0 ? ", " + number(failed) + " failed" : "")],
    ["read by them", number(of("firn_engine_blob_gc_segments_total")) + " segments · " + bytes(of("firn_engine_blob_gc_read_bytes_total"))],
    ["copied by them", values("survivors", "survivor")],
    ["left behind by them", values("dropped", "dropped")],
    ["gone without them", values("wholly_dead_segments", "wholly_dead") + " of segments"],
    ["copied a second", bytes(change("firn_engine_write_bytes_total", { by: "blob_gc" })) + "/s"],
  ], "none: separate_bytes says from which length on");
  table("keys", ["database", "keys", "with expiry"], samples(after, "firn_keys").map(({ labels, value }) =>
    ["db" + labels.database, number(value), number(of("firn_expiring_keys", labels))]), "none counted yet");
  const takes = of("firn_engine_takes_writes") === 1;
  const stopping = of("firn_stopping") === 1;
  const damaged = of("firn_engine_damaged_files");
  const aside = of("firn_engine_set_aside_files");
  const files = count => number(count) + (count === 1 ? " file is" : " files are");
  const but = damaged > 0 ? ", but " + files(damaged) + " damaged: run firn verify"
    : aside > 0 ? ", but " + files(aside) + " set aside: work on them fails each time, see set_aside in INFO firn"
    : of("firn_engine_background_refused") > 0 ? ", but background work waits: see background_refusal in INFO firn" : "";
  const serving = "serving" + but;
  element("state").textContent = !takes ? "takes no writes" : stopping ? "stopping" : serving;
  element("state").className = takes && !stopping && but === "" ? "good" : "bad";
  const version = (samples(after, "firn_build_info")[0] || { labels: {} }).labels.version;
  element("about").textContent = `${version} · up ${duration(of("firn_uptime_seconds"))} · ${number(of("firn_server_threads"))} threads`;
}

let last = null;
async function look() {
  try {
    const [metrics, slow, jobs] = await Promise.all(["metrics", "slow", "jobs"].map(path => fetch(path)));
    const now = { at: performance.now(), families: parse(await metrics.text()) };
    // A server that was started anew counts from nothing.
    if (last && sum(last, "firn_uptime_seconds") > sum(now, "firn_uptime_seconds")) last = null;
    show(last || now, now, await slow.json(), await jobs.json());
    last = now;
  } catch (error) {
    element("state").textContent = "not reached";
    element("state").className = "bad";
  }
  setTimeout(look, 1000);
}
look();
