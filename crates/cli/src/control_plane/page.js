const ROWS = 50;
const ms = value => time(value / 1e3);
const name = job => `${job.client.slice(0, 8)}.${job.number}`;
const more = (id, rows, total) => { element(id).textContent = total > rows ? `${number(total - rows)} more are not shown.` : ""; };

function state(worker) {
  if (worker.failing) return worker.failing;
  if (worker.is_silent) return "silent";
  return worker.is_draining ? "takes no more jobs" : "ready";
}

function show({ workers, jobs, lease_ms, waiting_count, waiting_bytes, waiting_ms_max, running_count, build }) {
  const of = state => jobs.filter(job => job.state === state);
  const [waiting, running] = [of("waiting"), of("running")];
  const ended = jobs.filter(job => job.state === "done" || job.state === "failed");
  const ready = workers.filter(worker => !worker.is_silent && !worker.is_draining);
  const slots = ready.reduce((sum, worker) => sum + worker.slots, 0);
  const failing = workers.filter(worker => worker.failing);
  const failed = ended.filter(job => job.state === "failed");
  tiles([
    ["Workers", number(ready.length), `${number(workers.length - ready.length)} drain or are silent`, ready.length === 0],
    ["Slots in use", `${number(running_count)} of ${number(slots)}`, "jobs at a time"],
    ["Queue", number(waiting_count), bytes(waiting_bytes) + " to be read"],
    ["Longest wait", ms(waiting_ms_max), "of what is in the queue"],
    ["Failing workers", number(failing.length), number(failed.length) + " jobs failed lately", failing.length > 0],
  ]);
  table("workers", ["worker", "zone", "jobs", "done", "reads", "heard of", "state", "build"], workers.map(worker =>
    [worker.name, worker.zone || "–", `${worker.running} of ${worker.slots}`, number(worker.jobs_done),
      worker.bytes_per_second ? bytes(worker.bytes_per_second) + "/s" : "–", ms(worker.quiet_ms) + " ago", state(worker), worker.build]),
    "none has been heard of");
  table("leases", ["job", "worker", "tenant", "kind", "size", "read", "for", "waited", "try"], running.slice(0, ROWS).map(job =>
    [name(job), job.worker, job.tenant || "–", job.lane, bytes(job.bytes), percent(job.bytes ? Math.min(1, job.done_bytes / job.bytes) : 0),
      ms(job.ran_ms), ms(job.queued_ms), number(job.attempts)]), "no job runs");
  element("leases-note").textContent = `A worker that does not name its job for ${ms(lease_ms)} loses it.`
    + (running_count > ROWS ? ` ${number(running_count - ROWS)} more are not shown.` : "");
  table("queue", ["job", "tenant", "kind", "size", "waits", "writers stop in", "tries", "last failure"], waiting.slice(0, ROWS).map(job =>
    [name(job), job.tenant, job.lane, bytes(job.bytes), ms(job.queued_ms), job.stalls_in_ms === null ? "not in sight" : ms(job.stalls_in_ms),
      number(job.attempts), job.failure || "–"]), "empty");
  more("queue-note", Math.min(ROWS, waiting.length), waiting_count);
  table("ended", ["job", "worker", "tenant", "kind", "size", "waited", "opened", "took", "outcome"], ended.slice(0, ROWS).map(job =>
    [name(job), job.worker || "–", job.tenant || "–", job.lane, bytes(job.bytes), ms(job.queued_ms), ms(job.opened_ms), ms(job.ran_ms),
      job.state === "done" ? "done" : job.failure]), "none yet");
  element("state").textContent = ready.length ? "giving out jobs" : "no worker is there";
  element("state").className = ready.length ? "good" : "bad";
  element("about").textContent = build;
}

async function look() {
  try {
    show(await (await fetch("jobs")).json());
  } catch (error) {
    element("state").textContent = "not reached";
    element("state").className = "bad";
  }
  setTimeout(look, 1000);
}
look();
