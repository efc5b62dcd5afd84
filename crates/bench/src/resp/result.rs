//! What a load came to, for people and for programs.

use serde::{Deserialize, Serialize};

use super::compare::Comparison;
use super::phase::{Load, Loaded};
use crate::measure::{Machine, Percentiles};
use crate::report::{figure, table_text};

/// A client that is busy for more of its time than this measures itself.
const CLIENT_BUSY_MAX: f64 = 0.9;

/// Everything of one run: one JSON object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RespReport {
    /// Where it ran; the servers may run elsewhere.
    pub machine: Machine,
    /// The command that made it.
    pub command_line: String,
    /// One for each command, target and repetition, in the order they ran.
    pub results: Vec<RespResult>,
    /// Medians; empty if nothing was compared.
    pub comparisons: Vec<Comparison>,
}

/// One command on one server, once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RespResult {
    /// Name of the server in this run.
    pub target: String,
    /// Where it is.
    pub address: String,
    /// What was asked.
    pub command: String,
    /// Counts repetitions, from 1.
    pub repetition: usize,
    /// Connections of all threads.
    pub connections: usize,
    /// Requests outstanding on a connection at most.
    pub pipeline: usize,
    /// Threads of the client.
    pub threads: usize,
    /// How many keys there are to draw from.
    pub keys: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How keys were drawn.
    pub distribution: String,
    /// Requests a second asked for; absent in a closed loop.
    pub rate: Option<f64>,
    /// Seed of the random choices.
    pub seed: u64,
    /// From the first request to the last answer.
    pub run_s: f64,
    /// Requests answered, by that time.
    pub requests_per_s: f64,
    /// Requests answered, and how long that took them; of an open loop from when each was due.
    pub latency: Percentiles,
    /// Answers that were null.
    pub nulls: u64,
    /// Answers that were errors.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
    /// Processor time of the client by the time its threads had; near 1 it is the client that was
    /// measured.
    pub client_cpu_share: f64,
    /// Processor time of the client by request.
    pub client_cpu_us_per_request: f64,
    /// What the server used; absent if its process was not named.
    pub server: Option<ServerUse>,
    /// Latency distribution as (quantile, microseconds).
    pub curve: Vec<(f64, f64)>,
}

/// Processor time of a server during a load, all its threads, whatever they did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerUse {
    /// Its process.
    pub pid: u32,
    /// By request.
    pub cpu_us_per_request: f64,
    /// Of that, in its own code.
    pub user_us_per_request: f64,
    /// Of that, in the kernel.
    pub system_us_per_request: f64,
    /// Its processor time by the time that the requests took.
    pub processors: f64,
}

impl RespResult {
    /// What `load` came to. `target`, `repetition` and `keys` are what the load itself does not
    /// know.
    pub(super) fn new(
        load: &Load<'_>,
        loaded: &Loaded,
        target: &str,
        repetition: usize,
        keys: (u64, &str),
    ) -> Self {
        let run_s = loaded.run.as_secs_f64();
        let requests = loaded.answers.count as f64;
        let by = |of: f64, by: f64| if by > 0.0 { of / by } else { 0.0 };
        let server = loaded.server_cpu.zip(load.pid).map(|(cpu, pid)| {
            let (user_s, system_s) = (cpu.user.as_secs_f64(), cpu.system.as_secs_f64());
            ServerUse {
                pid,
                cpu_us_per_request: by((user_s + system_s) * 1e6, requests),
                user_us_per_request: by(user_s * 1e6, requests),
                system_us_per_request: by(system_s * 1e6, requests),
                processors: by(user_s + system_s, run_s),
            }
        });
        let client_s = loaded.client_cpu.as_secs_f64();
        Self {
            target: target.to_owned(),
            address: load.address.to_string(),
            command: load.command.name().to_owned(),
            repetition,
            connections: load.connections,
            pipeline: load.pipeline,
            threads: load.threads,
            keys: keys.0,
            value_bytes: load.value_bytes,
            distribution: keys.1.to_owned(),
            rate: load.rate,
            seed: load.seed,
            run_s,
            requests_per_s: by(requests, run_s),
            latency: loaded.latencies.percentiles(),
            nulls: loaded.answers.nulls,
            errors: loaded.answers.errors,
            first_error: loaded.answers.first_error.clone(),
            client_cpu_share: by(client_s, run_s * load.threads as f64).min(1.0),
            client_cpu_us_per_request: by(client_s * 1e6, requests),
            server,
            curve: loaded.latencies.curve(),
        }
    }

    /// One line for people while others run.
    pub(super) fn line(&self) -> String {
        format!(
            "{:>12} {:<5} {:>9.0} requests/s  p50 {:.0} us  p99 {:.0} us  max {:.1} ms  client at {:.0} %",
            self.target,
            self.command,
            self.requests_per_s,
            self.latency.p50_us,
            self.latency.p99_us,
            self.latency.max_us / 1e3,
            self.client_cpu_share * 100.0,
        )
    }
}

/// A column: its two-line heading and what it shows.
type Column = (&'static str, &'static str, fn(&RespResult) -> String);

const COLUMNS: [Column; 14] = [
    ("", "target", |result| result.target.clone()),
    ("", "command", |result| result.command.clone()),
    ("requests", "k/s", |result| figure(result.requests_per_s / 1e3)),
    ("p50", "us", |result| figure(result.latency.p50_us)),
    ("p90", "us", |result| figure(result.latency.p90_us)),
    ("p99", "us", |result| figure(result.latency.p99_us)),
    ("p99.9", "us", |result| figure(result.latency.p999_us)),
    ("max", "ms", |result| figure(result.latency.max_us / 1e3)),
    ("null", "answers", |result| result.nulls.to_string()),
    ("error", "answers", |result| result.errors.to_string()),
    ("client", "CPU %", |result| figure(result.client_cpu_share * 100.0)),
    ("server", "us/req", |result| of_server(result, |server| server.cpu_us_per_request)),
    ("user", "us/req", |result| of_server(result, |server| server.user_us_per_request)),
    ("system", "us/req", |result| of_server(result, |server| server.system_us_per_request)),
];

fn of_server(result: &RespResult, get: fn(&ServerUse) -> f64) -> String {
    result.server.as_ref().map_or_else(|| "-".to_owned(), |server| figure(get(server)))
}

/// One line a result under two lines of headings, and what a reader must know of them.
pub(super) fn summary(results: &[RespResult]) -> String {
    let mut rows: Vec<Vec<String>> = vec![
        COLUMNS.iter().map(|column| column.0.to_owned()).collect(),
        COLUMNS.iter().map(|column| column.1.to_owned()).collect(),
    ];
    rows.extend(results.iter().map(|result| COLUMNS.iter().map(|column| column.2(result)).collect()));
    let mut text = table_text(&rows, 2);
    for result in results {
        let name = format!("{} {}", result.target, result.command);
        if let Some(error) = &result.first_error {
            text.push_str(&format!("{name}: {} errors, the first: {error}\n", result.errors));
        }
        if result.nulls > 0 {
            let percent = result.nulls as f64 * 100.0 / result.latency.count.max(1) as f64;
            text.push_str(&format!(
                "{name}: {percent:.0} % of the answers were null, which is less work (--load writes all keys first)\n"
            ));
        }
        if result.client_cpu_share > CLIENT_BUSY_MAX {
            text.push_str(&format!(
                "{name}: the client was busy for {:.0} % of its time: the limit may be its, not the server's (--threads)\n",
                result.client_cpu_share * 100.0
            ));
        }
    }
    text
}
