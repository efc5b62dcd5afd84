//! The processes of a demonstration.

use std::path::Path;
use std::time::Duration;

use firn_bench::process::{Process, this_program};

use firn_storage::{Clock, SystemClock};

use super::Interrupt;
use crate::ending::{Ending, Failure, Result};
use crate::output::report;

/// Under these some hundred MiB make some dozens of compactions, all values in the tables.
const SETTINGS: &str = "[tree]\nmemtable_bytes = 4194304\ntable_bytes = 4194304\nlog_segment_bytes = 8388608\n\
    buffer_bytes = 16777216\nbuffer_bytes_max = 67108864\nseparate_bytes = 0\n";

/// A control plane, workers and a database; ended in whatever way this process ends.
pub(super) struct Fleet {
    database: Process,
    workers: Vec<Process>,
    control_plane: Process,
    address: String,
    url: String,
}

/// Processor time of the processes.
#[derive(Debug)]
pub(super) struct Used {
    pub(super) database: Duration,
    pub(super) control_plane: Duration,
    /// With their names.
    pub(super) workers: Vec<(String, Duration)>,
}

impl Fleet {
    /// Starts all of them, in `dir`, and tells of each on standard error.
    ///
    /// # Errors
    /// One does not come up, with what it complained of; it was interrupted.
    pub(super) fn start(dir: &Path, workers: u16, interrupt: &Interrupt) -> Result<Self> {
        let path = |name: &str| dir.join(name).display().to_string();
        let (data, shared, settings, logs) =
            (path("data"), path("shared"), path("settings.toml"), dir.join("logs"));
        for folder in [Path::new(&shared), &logs] {
            std::fs::create_dir_all(folder).map_err(|error| Failure::file("create", folder, &error))?;
        }
        std::fs::write(&settings, SETTINGS)
            .map_err(|error| Failure::file("write", Path::new(&settings), &error))?;
        let start = |name: &str, words: &[&str]| {
            interrupt.check()?;
            let mut command = this_program(words, None).map_err(|error| Failure::engine(&error))?;
            // What is said to a server of this machine (FIRN_SERVE_DIR, FIRN_PASSWORD) is not for
            // this one.
            for (name, _) in std::env::vars_os() {
                if name.as_encoded_bytes().starts_with(b"FIRN_") {
                    command.env_remove(name);
                }
            }
            let (process, line) =
                Process::start_and_hear(name, command, &logs).map_err(|error| Failure::engine(&error))?;
            report(format_args!(
                "{name} (process {}): {}",
                process.id(),
                line.split(';').next().unwrap_or_default()
            ));
            Ok::<_, Failure>((process, line))
        };
        let (control_plane, line) =
            start("control-plane", &["control-plane", "--port", "0", "--http-port", "none"])?;
        let url = word_after(&line, "control plane at ")?;
        let mut started = Vec::new();
        for number in 1..=workers {
            let name = format!("worker-{number}");
            let words = ["worker", "--control-plane", &url, "--within", &shared, "--name", &name];
            started.push(start(&name, &words)?.0);
        }
        let places = ["--dir", &data, "--shared", &shared, "--control-plane", &url, "--config", &settings];
        let sizes = ["--port", "0", "--http-port", "none", "--threads", "1", "--memory-bytes", "256M"];
        let (database, line) = start("database", &[&["serve"], &places[..], &sizes[..]].concat())?;
        let address = word_after(&line, " on ")?;
        Ok(Self { database, workers: started, control_plane, address, url })
    }

    /// Where clients find the database.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Where the control plane is.
    pub(super) fn control_plane(&self) -> &str {
        &self.url
    }

    /// `failure`, or why a process has ended if one has, which is where it comes from then. Waits
    /// for 0.3 s: connections end before their process.
    pub(super) fn explain(&mut self, failure: Failure) -> Failure {
        let clock = SystemClock::new();
        for _look in 0..30 {
            let first = [&mut self.database, &mut self.control_plane];
            let mut all = first.into_iter().chain(&mut self.workers);
            if let Some(error) = all.find_map(|process| process.check().err()) {
                return Failure::engine(&error);
            }
            clock.sleep(Duration::from_millis(10));
        }
        failure
    }

    /// What the processes have used until now.
    ///
    /// # Errors
    /// One has ended.
    pub(super) fn processor_time(&self) -> Result<Used> {
        let used = |process: &Process| process.cpu().map_err(|error| Failure::engine(&error));
        let workers = self.workers.iter().map(|worker| Ok((worker.name().to_owned(), used(worker)?)));
        Ok(Used {
            database: used(&self.database)?,
            control_plane: used(&self.control_plane)?,
            workers: workers.collect::<Result<_>>()?,
        })
    }

    /// Ends all of them: the database first, which the others work for.
    ///
    /// # Errors
    /// One failed, or had to be killed.
    pub(super) fn end(self) -> Result<()> {
        let ended = self.database.end();
        let workers: Vec<_> = self.workers.into_iter().map(Process::end).collect();
        let mut all = workers.into_iter().chain([self.control_plane.end(), ended]);
        all.try_for_each(|ended| ended.map_err(|error| Failure::engine(&error)))
    }
}

/// What follows `words` in a `line`, up to a semicolon.
fn word_after(line: &str, words: &str) -> Result<String> {
    let found = line.split_once(words).map(|(_, rest)| rest.split(';').next().unwrap_or(rest));
    let missing = || Failure::new(Ending::Failed, format!("expected a line with {words:?}, found {line:?}"));
    found.map(|found| found.trim().to_owned()).ok_or_else(missing)
}
