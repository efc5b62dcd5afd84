//! How long the stages of jobs take on an object store, and what a fleet with nothing to do asks of
//! it.
//!
//! ```text
//!   load ─► firn serve ─┬─► link ─► control plane ◄─ link ◄─ workers
//!                       └─► link ─► store         ◄─ link ◄─┘        the links count what clients send
//! ```

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use firn_engine::{Error, Result};
use serde::Deserialize;

use super::cluster::{Cluster, StoreSettings};
use super::run::Bench;
use crate::measure::{now, sleep};
use crate::process::{Process, this_program};
use crate::report::{Finding, Verdict, figure};

/// A database that is served, with its tables on a store and its jobs on workers.
#[derive(Debug)]
pub(super) struct Served {
    process: Process,
    address: SocketAddr,
    http: SocketAddr,
}

/// One job, as `GET /jobs` tells it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct JobTimes {
    place: String,
    queued_us: u64,
    opened_us: u64,
    ran_us: u64,
    read_us: u64,
    write_us: u64,
    checked_us: u64,
}

/// How long one stage of a job took, in microseconds.
type Stage = fn(&JobTimes) -> u64;

/// Done by the database itself.
const HERE: &str = "here";

/// The goal for the time from the claim of a job until the first byte of its inputs.
const FIRST_BYTE_MAX_MS: f64 = 50.0;

/// Nothing has been going on once nothing has changed for so long.
const QUIET: Duration = Duration::from_secs(3);

/// It has to be quiet by then.
const QUIET_MAX: Duration = Duration::from_secs(120);

/// How long a database may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

impl Served {
    /// Brings it up, with its tables at `location`, which `store` says how to reach.
    ///
    /// # Errors
    /// It does not come up, with what it complained of.
    pub(super) fn start(
        bench: &Bench<'_>,
        location: &str,
        store: StoreSettings,
        cluster: &Cluster,
    ) -> Result<Self> {
        let words = ["serve", "--port", "0", "--http-port", "0", "--memory-bytes", bench.plan.memory];
        let mut command = this_program(&words, None)?;
        command.args(["--shared", location, "--control-plane", cluster.linked_url()]);
        command.arg("--dir").arg(bench.fresh("db")?).envs(store);
        let (process, line) = Process::start_and_hear("database", command, &bench.logs()?)?;
        let said = || Error::invalid(format!("a database said {line:?}"));
        let (address, http) = addresses(&line).ok_or_else(said)?;
        Ok(Self { process, address, http })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until its jobs are done, and says how long the last of them took.
    ///
    /// # Errors
    /// It does not answer, or is never done.
    pub(super) fn rest(&self) -> Result<Vec<JobTimes>> {
        let end = now() + QUIET_MAX;
        let (mut last, mut since) = (get(self.http, "/jobs")?, now());
        while now() - since < QUIET {
            sleep(Duration::from_millis(100));
            let text = get(self.http, "/jobs")?;
            if text != last {
                (last, since) = (text, now());
            }
            if now() > end {
                return Err(Error::invalid("a database has jobs without end"));
            }
        }
        serde_json::from_str(&last)
            .map_err(|error| Error::invalid("a database's jobs make no sense").because(error))
    }

    /// Ends it.
    ///
    /// # Errors
    /// It failed, or had to be killed.
    pub(super) fn end(self) -> Result<()> {
        self.process.end()
    }
}

/// Where RESP and HTTP are spoken, in a server's first line.
fn addresses(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let resp = line.split(" on ").nth(1)?.split(';').next()?.parse().ok()?;
    let http = line.split("http://").nth(1)?.split(';').next()?.parse().ok()?;
    Some((resp, http))
}

/// What `address` answers to a GET.
fn get(address: SocketAddr, path: &str) -> Result<String> {
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok::<_, std::io::Error>(text)
    };
    let text = ask()
        .map_err(|error| Error::invalid(format!("http://{address}{path} does not answer")).because(error))?;
    match text.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(body.to_owned()),
        _ => Err(Error::invalid(format!("http://{address}{path} answers {text:?}"))),
    }
}

/// What `jobs` say of the time from a claim to the first byte, where the store is `variant`.
pub(super) fn first_byte(part: &str, variant: &str, jobs: &[JobTimes]) -> Finding {
    let claim = format!("{variant}: a worker reads a job's first byte within 50 ms of its claim (our goal)");
    let away: Vec<&JobTimes> = jobs.iter().filter(|job| job.place != HERE).collect();
    if away.is_empty() {
        let figure = "no job ran on a worker".to_owned();
        return Finding { part: part.to_owned(), claim, figure, verdict: Verdict::Failed };
    }
    let ms = |of: Stage, share: f64| {
        let mut times: Vec<u64> = away.iter().map(|job| of(job)).collect();
        times.sort_unstable();
        times[((times.len() - 1) as f64 * share).round() as usize] as f64 / 1e3
    };
    let stages: [(&str, Stage); 6] = [
        ("waiting for a worker", |job| job.queued_us),
        ("first byte", |job| job.opened_us),
        ("waits for inputs", |job| job.read_us),
        ("waits for outputs", |job| job.write_us),
        ("all of it", |job| job.ran_us),
        ("checking", |job| job.checked_us),
    ];
    let shown = stages.map(|(name, of)| {
        format!(
            "{name} {} (95 % within {}, at most {})",
            figure(ms(of, 0.5)),
            figure(ms(of, 0.95)),
            figure(ms(of, 1.0))
        )
    });
    let verdict = match ms(|job| job.opened_us, 0.95) {
        late if late <= FIRST_BYTE_MAX_MS => Verdict::AsClaimed,
        _ => Verdict::NotSeen,
    };
    let figure = format!("{} jobs, medians in ms: {}", away.len(), shown.join(", "));
    Finding { part: part.to_owned(), claim, figure, verdict }
}

/// What was sent in `time` while nothing was to do; `claim` says by what. At most `most` an hour
/// are claimed.
pub(super) fn idle(part: &str, claim: &str, sent: u64, time: Duration, most: f64) -> Finding {
    let an_hour = sent as f64 * 3600.0 / time.as_secs_f64();
    let verdict = if an_hour <= most { Verdict::AsClaimed } else { Verdict::NotSeen };
    let figure = format!("{} an hour ({sent} in {:.0} s)", figure(an_hour), time.as_secs_f64());
    Finding { part: part.to_owned(), claim: claim.to_owned(), figure, verdict }
}

/// Records of YCSB through RESP, and updates of them, as the words of `firn bench`.
pub(super) fn load(bench: &Bench<'_>, served: &Served) -> Result<()> {
    let target = format!("resp://{}", served.address());
    // Enough that there are jobs at every scale.
    let records = bench.plan.records.max(bench.plan.far_records).to_string();
    let seconds = bench.plan.far_seconds.to_string();
    let words = ["bench", "ycsb", "--workload", "load,a", "--threads", "2", "--pipeline", "16"];
    let mut command = this_program(&words, None)?;
    command.args(["--target", &target, "--records", &records, "--seconds", &seconds]);
    command.args(["--connections", "16", "--seed", &bench.args.seed.to_string()]);
    command.arg("--html").arg(bench.dir.join("load.html"));
    Process::start("load", command, &bench.logs()?)?.wait(bench.plan.run_max, |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_first_line_says_where_it_is() {
        let line =
            "serving /d on 127.0.0.1:7001; sockets by epoll; HTTP at http://127.0.0.1:7002; SIGTERM ends it";
        let expected = ("127.0.0.1:7001".parse().unwrap(), "127.0.0.1:7002".parse().unwrap());
        assert_eq!(addresses(line), Some(expected));
        assert_eq!(addresses("serving /d on 127.0.0.1:7001; sockets by epoll"), None);
    }

    #[test]
    fn the_first_byte_is_judged_by_all_but_the_slowest_jobs_of_workers() {
        let job =
            |place: &str, opened_us| JobTimes { place: place.to_owned(), opened_us, ..JobTimes::default() };
        let mut jobs: Vec<_> = (1..=20).map(|ms| job("w", ms * 2500)).collect();
        jobs.push(job(HERE, 1_000_000));
        let found = first_byte("stages", "near", &jobs);
        assert_eq!(found.verdict, Verdict::AsClaimed);
        assert!(
            found.figure.starts_with("20 jobs")
                && found.figure.contains("first byte 27.5 (95 % within 47.5, at most 50.0)"),
            "{}",
            found.figure
        );
        jobs.iter_mut().for_each(|job| job.opened_us += 10_000);
        assert_eq!(first_byte("stages", "near", &jobs).verdict, Verdict::NotSeen);
        assert_eq!(first_byte("stages", "near", &[job(HERE, 1)]).verdict, Verdict::Failed);
    }

    #[test]
    fn what_is_sent_while_idle_is_told_by_the_hour() {
        let found = idle("stages", "nothing", 3, Duration::from_secs(6), 0.0);
        assert_eq!((found.figure.as_str(), found.verdict), ("1800 an hour (3 in 6 s)", Verdict::NotSeen));
        assert_eq!(idle("stages", "nothing", 0, Duration::from_secs(6), 0.0).verdict, Verdict::AsClaimed);
    }
}
