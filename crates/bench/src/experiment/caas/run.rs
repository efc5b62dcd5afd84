//! One run: databases that are loaded, each a process that measures itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use firn_engine::{Error, Result};
use serde::Serialize;

use super::CaasArgs;
use super::cluster::{Cluster, StoreSettings};
use super::plan::Plan;
use crate::measure::now;
use crate::process::{Process, this_program};
use crate::report::PhaseResult;

/// What all parts have in common.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    pub(super) args: &'a CaasArgs,
    pub(super) plan: Plan,
    pub(super) dir: &'a Path,
}

/// A load, as the words of `firn bench`.
#[derive(Clone, Debug)]
pub(super) struct Work {
    name: String,
    words: Vec<String>,
    /// What results add to the names of its phases.
    how: String,
    /// Operations begin at a rate, but for phases that load.
    is_paced: bool,
    /// One thread does all operations: what is there in the end follows from the seed.
    is_in_order: bool,
}

/// Where a database lies, and what works for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Setting<'s> {
    /// The control plane's name.
    pub(super) control_plane: Option<&'s str>,
    /// Processors of the database's process; `None` = all there are.
    pub(super) processors: Option<&'s str>,
    /// Shared storage, if tables lie elsewhere than the log, and how it is reached.
    pub(super) shared: Option<String>,
    pub(super) store: StoreSettings,
}

/// Under which names results of a run are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label<'l> {
    pub(super) part: &'l str,
    pub(super) variant: &'l str,
    pub(super) repetition: u32,
}

/// What a run took outside the databases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunCost {
    /// The part of the experiment.
    pub part: String,
    /// What compacted.
    pub variant: String,
    /// Counts from 1.
    pub repetition: u32,
    /// Databases that ran at once.
    pub databases: u32,
    /// Processor time of their processes, clients included.
    pub database_cpu_s: f64,
    /// Processor time of workers and control plane; 0 where there were none.
    pub workers_cpu_s: f64,
    /// Jobs that workers did; `None` where there were none. What they did not do the databases did
    /// themselves.
    pub worker_jobs: Option<u64>,
}

impl Work {
    /// fillrandom, as CaaS-LSM's README has it but for how many.
    pub(super) fn fillrandom(plan: &Plan) -> Self {
        let words = ["db", "--key-bytes", "16", "--value-bytes", "100", "--benchmarks"];
        let sizes = [("--num", plan.puts.to_string()), ("--threads", plan.put_threads.to_string())];
        Self::new("fillrandom", &words, &sizes)
    }

    /// fillrandom and overwrite by one thread, which one processor is enough for.
    pub(super) fn overwrite(plan: &Plan) -> Self {
        let words = ["db", "--key-bytes", "16", "--value-bytes", "400", "--benchmarks"];
        let sizes = [("--num", plan.overwrites.to_string()), ("--threads", "1".to_owned())];
        Self { is_in_order: true, ..Self::new("fillrandom,overwrite", &words, &sizes) }
    }

    /// The same where the last level is compressed, of values that lose half of their bytes by it,
    /// as db_bench's do.
    pub(super) fn compressed_overwrite(plan: &Plan) -> Self {
        let compressed = ["--compression", "zstd", "--compression-ratio", "0.5"].map(str::to_owned);
        let mut work = Self::overwrite(plan);
        work.words.extend(compressed);
        work.how.push_str(", zstd");
        work
    }

    /// This work with so many operations begun in a second, whether or not the last ones are over.
    /// Latency counts from when each was to begin. Results call it `how`.
    pub(super) fn at_rate(mut self, operations_per_s: u64, how: &str) -> Self {
        self.words.extend(["--rate".to_owned(), operations_per_s.to_string()]);
        self.how = format!("{}, {how}", self.how);
        self.is_paced = true;
        self
    }

    /// What is kept of `results`: a phase of a paced work that has no rate only loads.
    pub(super) fn kept(&self, results: Vec<PhaseResult>) -> impl Iterator<Item = PhaseResult> {
        let is_paced = self.is_paced;
        results.into_iter().filter(move |result| !is_paced || result.context.rate.is_some())
    }

    /// Its name, if a database that did it holds what every other one does.
    pub(super) fn name_in_order(&self) -> Option<String> {
        self.is_in_order.then(|| format!("{}{}", self.name, self.how))
    }

    /// YCSB's `workloads` on records of 1 KiB.
    pub(super) fn ycsb(workloads: &str, threads: u32, records: u64, amount: Amount) -> Self {
        let amount = match amount {
            Amount::Operations(count) => ("--ops", count.to_string()),
            Amount::Seconds(seconds) => ("--seconds", seconds.to_string()),
        };
        let sizes = [("--records", records.to_string()), ("--threads", threads.to_string()), amount];
        Self::new(workloads, &["ycsb", "--workload"], &sizes)
    }

    /// `words` end with the option that `name` is the value of.
    fn new(name: &str, words: &[&str], sizes: &[(&str, String)]) -> Self {
        let words = words.iter().map(|word| (*word).to_owned()).chain([name.to_owned()]);
        let sizes = sizes.iter().flat_map(|(name, value)| [(*name).to_owned(), value.clone()]);
        let words = words.chain(sizes).collect();
        Self { name: name.to_owned(), words, how: String::new(), is_paced: false, is_in_order: false }
    }
}

/// How long a workload goes on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Amount {
    Operations(u64),
    Seconds(u32),
}

impl Bench<'_> {
    /// An empty directory called `name`; if there is one, it is emptied.
    pub(super) fn fresh(&self, name: &str) -> Result<PathBuf> {
        let path = self.dir.join(name);
        let failed = |error| Error::invalid(format!("cannot make {}", path.display())).because(error);
        if path.exists() {
            std::fs::remove_dir_all(&path).map_err(failed)?;
        }
        std::fs::create_dir_all(&path).map_err(failed)?;
        Ok(path)
    }

    /// Where processes say what they say.
    pub(super) fn logs(&self) -> Result<PathBuf> {
        let path = self.dir.join("logs");
        std::fs::create_dir_all(&path)
            .map_err(|error| Error::invalid(format!("cannot make {}", path.display())).because(error))?;
        Ok(path)
    }

    /// Has a database in each of `dirs` do `work` at the same time, and waits for all. The results
    /// bear `label`'s names.
    ///
    /// # Errors
    /// A database fails or takes longer than the scale allows; its results cannot be read.
    pub(super) fn measure(
        &self,
        label: Label<'_>,
        work: &Work,
        dirs: &[PathBuf],
        setting: &Setting<'_>,
    ) -> Result<Vec<PhaseResult>> {
        let Label { part, variant, repetition } = label;
        eprintln!("{part}: {variant}, {}{} (repetition {repetition})", work.name, work.how);
        let mut running = Vec::new();
        for (at, dir) in dirs.iter().enumerate() {
            let (json, html) = (self.dir.join(format!("{at}.json")), self.dir.join(format!("{at}.html")));
            let command = self.command(work, dir, setting, [&json, &html])?;
            running.push((Process::start(&format!("database-{at}"), command, &self.logs()?)?, json));
        }
        let mut results = Vec::new();
        for (process, json) in running {
            wait(process, self.plan.run_max)?;
            results.extend(read_results(&json)?.into_iter().map(|mut result| {
                result.context.engine = variant.to_owned();
                result.context.workload = format!("{part}: {}{}", result.context.workload, work.how);
                result.context.repetition = repetition;
                if setting.shared.is_some() {
                    // What lies elsewhere was not counted.
                    result.space_amplification = None;
                }
                result
            }));
        }
        Ok(results)
    }

    fn command(
        &self,
        work: &Work,
        dir: &Path,
        setting: &Setting<'_>,
        [json, html]: [&Path; 2],
    ) -> Result<std::process::Command> {
        let seed = self.args.seed.to_string();
        let mut words = vec!["bench"];
        words.extend(work.words.iter().map(String::as_str));
        words.extend(["--memory-bytes", self.plan.memory, "--seed", &seed]);
        if let Some(control_plane) = setting.control_plane {
            words.extend(["--control-plane", control_plane]);
        }
        if let Some(shared) = &setting.shared {
            words.extend(["--shared", shared]);
        }
        let mut command = this_program(&words, setting.processors)?;
        command.arg("--dir").arg(dir).arg("--json").arg(json).arg("--html").arg(html);
        command.envs(setting.store.iter().cloned());
        Ok(command)
    }

    /// What `databases` with these `results` and `cluster` have used, under `label`.
    ///
    /// # Errors
    /// A process of the cluster has ended, or does not answer.
    pub(super) fn cost(
        &self,
        label: Label<'_>,
        databases: usize,
        results: &[PhaseResult],
        cluster: Option<&Cluster>,
    ) -> Result<RunCost> {
        let workers = cluster.map_or(Ok(Duration::ZERO), Cluster::processor_time)?;
        let logs = self.logs()?;
        Ok(RunCost {
            part: label.part.to_owned(),
            variant: label.variant.to_owned(),
            repetition: label.repetition,
            databases: databases as u32,
            database_cpu_s: results.iter().map(|result| result.cpu_s).sum(),
            workers_cpu_s: workers.as_secs_f64(),
            worker_jobs: cluster.map(|cluster| cluster.jobs_done(&logs)).transpose()?,
        })
    }
}

/// How often a run's own progress is passed on.
const REPORT_EVERY: Duration = Duration::from_secs(2);

/// Waits for a database, and passes on what it says of its progress.
fn wait(process: Process, limit: Duration) -> Result<()> {
    let (mut reported, mut next) = (String::new(), now() + REPORT_EVERY);
    process.wait(limit, |process| {
        if now() < next {
            return Ok(());
        }
        next = now() + REPORT_EVERY;
        let said = process.complaints();
        let last = said.lines().last().unwrap_or_default();
        if last != reported {
            eprintln!("  {}: {last}", process.name());
            reported = last.to_owned();
        }
        Ok(())
    })
}

fn read_results(path: &Path) -> Result<Vec<PhaseResult>> {
    let failed = |what: &str| Error::invalid(format!("cannot {what} {}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| failed("read").because(error))?;
    serde_json::from_str(&text).map_err(|error| failed("understand").because(error))
}
