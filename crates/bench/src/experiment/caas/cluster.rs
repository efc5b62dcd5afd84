//! Control plane and workers of a run, each a process of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use firn_engine::{Error, Result};

use super::proxy::Proxy;
use crate::process::{Process, this_program};

/// Variables of the environment that say where a store is.
pub(super) type StoreSettings = Vec<(String, String)>;

/// What is brought up.
#[derive(Clone, Debug)]
pub(super) struct ClusterPlan<'p> {
    pub(super) workers: u32,
    /// As `firn control-plane --scheduler` names it.
    pub(super) scheduler: &'p str,
    /// What workers may touch.
    pub(super) within: String,
    /// Processors of all of these processes; `None` = all there are.
    pub(super) processors: Option<&'p str>,
    /// Where workers find the store, if there is one.
    pub(super) store: StoreSettings,
    /// How long bytes take between the control plane and the workers, each way, if there is a link
    /// at all.
    pub(super) link: Option<Duration>,
}

/// A control plane and its workers, ended when this is dropped.
#[derive(Debug)]
pub(super) struct Cluster {
    workers: Vec<Process>,
    control_plane: Process,
    /// The workers' way to the control plane, if that is another one.
    link: Option<Proxy>,
    linked_url: String,
    url: String,
}

impl Cluster {
    /// Brings it up; what its processes say goes to `logs`.
    ///
    /// # Errors
    /// One does not come up, with what it complained of.
    pub(super) fn start(plan: &ClusterPlan<'_>, logs: &Path) -> Result<Self> {
        let words = ["control-plane", "--port", "0", "--http-port", "none", "--scheduler", plan.scheduler];
        let (control_plane, line) =
            Process::start_and_hear("control-plane", this_program(&words, plan.processors)?, logs)?;
        let address =
            line.split("http://").nth(1).and_then(|rest| rest.split(';').next()).unwrap_or_default();
        let parsed = address.parse::<SocketAddr>();
        let parsed = parsed.map_err(|_| Error::invalid(format!("a control plane said {line:?}")))?;
        let link = plan.link.map(|delay| Proxy::to(parsed, delay)).transpose()?;
        let linked = link.as_ref().map_or(parsed, Proxy::address);
        let linked_url = format!("http://{linked}");
        let mut workers = Vec::new();
        for number in 1..=plan.workers {
            let name = format!("worker-{number}");
            let words = ["worker", "--control-plane", &linked_url, "--within", &plan.within, "--name", &name];
            let mut command = this_program(&words, plan.processors)?;
            command.envs(plan.store.iter().cloned());
            workers.push(Process::start_and_hear(&name, command, logs)?.0);
        }
        Ok(Self { workers, control_plane, link, linked_url, url: format!("http://{parsed}") })
    }

    /// Where databases find it.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Where workers find it.
    pub(super) fn linked_url(&self) -> &str {
        &self.linked_url
    }

    /// Pieces of bytes that were sent to the control plane over the link until now; 0 where there
    /// is none.
    pub(super) fn sent(&self) -> u64 {
        self.link.as_ref().map_or(0, Proxy::sent)
    }

    /// Processor time of the workers and of the control plane until now.
    ///
    /// # Errors
    /// One has ended.
    pub(super) fn processor_time(&self) -> Result<Duration> {
        let all = self.workers.iter().chain([&self.control_plane]);
        all.map(Process::cpu).sum()
    }

    /// Jobs that workers have done, as the control plane tells.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) fn jobs_done(&self, logs: &Path) -> Result<u64> {
        let command = this_program(&["jobs", "--control-plane", &self.url, "list", "--json"], None)?;
        Process::start("jobs", command, logs)?.wait(ANSWER_MAX, |_| Ok(()))?;
        let text = std::fs::read_to_string(logs.join("jobs.out"))
            .map_err(|error| Error::invalid("cannot read what `firn jobs` said").because(error))?;
        jobs_in(&text, self.workers.len())
    }

    /// Ends it.
    ///
    /// # Errors
    /// A process failed, or had to be killed.
    pub(super) fn end(self) -> Result<()> {
        let ended: Vec<Result<()>> = self.workers.into_iter().map(Process::end).collect();
        ended.into_iter().chain([self.control_plane.end()]).collect()
    }
}

/// How long a control plane may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// The sum of the jobs done of `workers` in what `firn jobs list --json` says.
fn jobs_in(text: &str, workers: usize) -> Result<u64> {
    let wrong = || Error::invalid(format!("expected {workers} workers of `firn jobs`, which said {text:?}"));
    let listed: serde_json::Value = serde_json::from_str(text).map_err(|error| wrong().because(error))?;
    let rows = listed["workers"].as_array().filter(|rows| rows.len() == workers).ok_or_else(wrong)?;
    let done: Option<Vec<u64>> = rows.iter().map(|row| row["jobs_done"].as_u64()).collect();
    Ok(done.ok_or_else(wrong)?.iter().sum())
}

/// A store in a process of its own, ended when this is dropped.
#[derive(Debug)]
pub(super) struct Store {
    _process: Process,
    settings: StoreSettings,
    address: SocketAddr,
}

/// The bucket that it has.
const BUCKET: &str = "firn";

impl Store {
    /// Starts `program` (`firn-s3-server`) on `directory`.
    ///
    /// # Errors
    /// It is not there, with how it is made; it does not come up.
    pub(super) fn start(program: &Path, directory: &Path, logs: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg(directory).arg(BUCKET);
        let (process, _) = Process::start_and_hear("store", command, logs)?;
        let said = process.said();
        let lines = said.lines().filter_map(|line| line.split_once('='));
        let settings: StoreSettings =
            lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let endpoint = settings.iter().find(|(name, _)| name == "AWS_ENDPOINT");
        let address = endpoint.and_then(|(_, url)| url.strip_prefix("http://")?.parse().ok());
        let address = address.ok_or_else(|| Error::invalid(format!("a store said {said:?}")))?;
        Ok(Self { _process: process, settings, address })
    }

    /// Where a database called `name` is in it.
    pub(super) fn location(name: &str) -> String {
        format!("s3://{BUCKET}/{name}")
    }

    /// How it is reached from beside it.
    pub(super) fn near(&self) -> StoreSettings {
        self.settings.clone()
    }

    /// How it is reached by `link`, which leads to it.
    pub(super) fn behind(&self, link: &Proxy) -> StoreSettings {
        let endpoint = ("AWS_ENDPOINT".to_owned(), format!("http://{}", link.address()));
        self.settings.iter().filter(|(name, _)| name != "AWS_ENDPOINT").cloned().chain([endpoint]).collect()
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// `said`, or the program called `name` that lies where this one does.
///
/// # Errors
/// It is not there, with how it is made.
pub(super) fn beside(said: Option<&Path>, name: &str) -> Result<PathBuf> {
    let here = || std::env::current_exe().ok().and_then(|program| Some(program.parent()?.join(name)));
    let path = said.map(Path::to_owned).or_else(here).unwrap_or_else(|| PathBuf::from(name));
    match path.is_file() {
        true => Ok(path),
        false => Err(Error::invalid(format!(
            "there is no {}: build it (`cargo build --release -p {name}`), or say where it is",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_workers_are_summed_and_a_worker_that_is_missing_is_noticed() {
        let text = r#"{"workers": [{"jobs_done": 12}, {"jobs_done": 3}], "jobs": []}"#;
        assert_eq!(jobs_in(text, 2).unwrap(), 15);
        assert!(jobs_in(text, 3).unwrap_err().to_string().contains("expected 3 workers"));
        assert!(jobs_in("WORKER", 0).unwrap_err().to_string().contains("expected 0 workers"));
    }

    #[test]
    fn a_program_that_is_missing_is_named_with_how_it_is_built() {
        let error = beside(None, "firn-no-such-program").unwrap_err().to_string();
        assert!(error.contains("cargo build --release -p firn-no-such-program"), "{error}");
        let here = std::env::current_exe().unwrap();
        assert_eq!(beside(Some(&here), "x").unwrap(), here);
    }
}
