const ROWS = 50, ENDED = 20;
const ms = value => time(value / 1e3);
const WORST = { lost: "bad", silent: "bad", failing: "bad", failed: "bad", ending: "warn" };
const coloured = state => [state, WORST[state] || ""];
const words = title => [title, "words"], short = title => [title, "short"];
const many = (count, one, some) => `${number(count)} ${count === 1 ? one : some}`;

function show({ workers, jobs, lease_ms, waiting_count, waiting_bytes, waiting_ms_max, running_count, build }) {
  const of = state => jobs.filter(job => job.state === state);
  const [waiting, running] = [of("waiting"), of("running")];
  const ended = jobs.filter(job => job.state === "done" || job.state === "failed");
  const are = state => workers.filter(worker => worker.state === state);
  const [lost, silent, failing, ending] = ["lost", "silent", "failing", "ending"].map(are);
  // One that fails somewhere gets jobs with files elsewhere.
  const takes = [...are("ready"), ...failing];
  const slots = takes.reduce((sum, worker) => sum + worker.slots, 0);
  const failed = ended.filter(job => job.state === "failed");
  const troubled = lost.length + silent.length + failing.length;
  tiles([
    ["Workers", number(takes.length), ending.length ? many(ending.length, "ends", "end") : "take jobs", takes.length === 0],
    ["Workers in trouble", number(troubled), `${number(failing.length)} failing, ${number(lost.length)} lost, ${number(silent.length)} silent`, troubled > 0],
    ["Jobs that run", `${number(running_count)} of ${number(slots)}`, "at a time"],
    ["Jobs that wait", number(waiting_count), `${bytes(waiting_bytes)} to be read; the oldest waits for ${ms(waiting_ms_max)}`],
    ["Jobs that failed", number(failed.length), "of the latest; their databases do them", failed.length > 0],
  ]);
  table("workers", ["worker", short("state"), words("what is wrong"), "jobs", "done", "reads", "heard of", short("zone"), words("build")], workers.map(worker =>
    [worker.name, coloured(worker.state), worker.trouble, `${worker.running} of ${worker.slots}`, number(worker.jobs_done),
      worker.bytes_per_second ? bytes(worker.bytes_per_second) + "/s" : "–", ms(worker.quiet_ms) + " ago", worker.zone || "–", worker.build]),
    "none has been heard of: start one with firn worker --control-plane URL --within LOCATION");
  table("running", ["job", short("worker"), short("kind"), "size", "read", "for", "waited", "try", words("tenant")], running.slice(0, ROWS).map(job =>
    [job.short, job.worker, job.kind, bytes(job.bytes), percent(job.bytes ? job.done_bytes / job.bytes : 0),
      ms(job.ran_ms), ms(job.queued_ms), number(job.attempts), job.tenant || "–"]), "no job runs");
  setText(element("lease"), ms(lease_ms));
  setText(element("running-note"), running_count > ROWS ? `${number(running_count - ROWS)} more are not shown.` : "");
  table("queue", ["job", short("kind"), "size", "waits", "writers stop in", "tries", words("last failure"), words("tenant")], waiting.slice(0, ROWS).map(job =>
    [job.short, job.kind, bytes(job.bytes), ms(job.queued_ms), job.stalls_in_ms === null ? "not in sight" : ms(job.stalls_in_ms),
      number(job.attempts), job.failure || "–", job.tenant]), "no job waits");
  const shown = Math.min(ROWS, waiting.length);
  setText(element("queue-note"), waiting_count > shown ? `${number(waiting_count - shown)} more are not shown.` : "");
  table("ended", ["job", short("state"), words("why"), short("worker"), short("kind"), "size", "waited", "opened", "took", words("tenant")], ended.slice(0, ENDED).map(job =>
    [job.short, coloured(job.state), job.state === "failed" ? job.failure : "", job.worker || "–", job.kind, bytes(job.bytes), ms(job.queued_ms), ms(job.opened_ms), ms(job.ran_ms),
      job.tenant || "–"]), "none yet");
  notices([
    ...(takes.length ? [] : [["No worker takes jobs: databases do them themselves, or wait.", "bad"]]),
    ...lost.map(worker => [worker.trouble, "bad"]),
  ]);
  state(takes.length ? "giving out jobs" : "no worker is there", takes.length > 0);
  setText(element("about"), build);
}

watch(async get => show(await (await get("jobs")).json()));
