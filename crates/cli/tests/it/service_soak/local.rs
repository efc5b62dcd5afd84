//! The same on one machine: a database of its own that does its own jobs, and has to come to the
//! same content.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::clients::{Clients, reach};
use super::content::Content;
use super::fleet::{PROGRAM, SETTINGS};
use super::reader::Reader;
use crate::bad_store::jobs_done;
use crate::serve::Serving;

/// A database without control plane, workers and store, that has what clients are known to have
/// done.
pub(super) struct Local {
    serving: Serving,
    /// What it has done by itself before it was opened again.
    pub(super) jobs: u64,
    _directory: TempDir,
}

/// How long no job ends, after the first one, for that to mean that there is nothing more to
/// compact or collect. On a busy machine the first one takes long.
const QUIET: Duration = Duration::from_secs(2);
/// How long all jobs may take.
const JOBS_MAX: Duration = Duration::from_secs(300);

/// Waits until the database at `address` does nothing any more; how many jobs it has done.
fn wait_until_quiet(address: &str) -> u64 {
    let mut connection = Reader::reach(address);
    let (began, mut last, mut since) = (Instant::now(), 0, Instant::now());
    while last == 0 || since.elapsed() < QUIET {
        assert!(began.elapsed() < JOBS_MAX, "{last} jobs, and more");
        let info: String = redis::cmd("INFO").arg("firn").query(&mut connection).expect("it tells");
        let (elsewhere, here) = jobs_done(&info);
        assert_eq!(elsewhere, 0, "nobody works for it");
        if here != last {
            (last, since) = (here, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    last
}

impl Local {
    /// Replays everything that `clients` know, operation by operation, has it compacted, and opens
    /// what came of it.
    pub(super) fn replay(clients: &Clients) -> Self {
        let directory = TempDir::new().expect("a directory");
        let settings = directory.path().join("settings.toml");
        // No other machine has to see it at once.
        let own = SETTINGS.replace("\"shared\"", "\"process\"");
        assert!(own != SETTINGS, "{SETTINGS}");
        std::fs::write(&settings, own).expect("written");
        let serve = || {
            let mut command = Command::new(PROGRAM);
            command.arg("serve").arg("--config").arg(&settings).stderr(Stdio::null());
            Serving::start_as(&mut command, &directory.path().join("data")).expect("it serves")
        };
        let first = serve();
        clients.replay(&first.address);
        let jobs = wait_until_quiet(&first.address);
        first.end();
        let serving = serve();
        Self { serving, jobs, _directory: directory }
    }

    pub(super) fn content(&self) -> Content {
        Content::read(&self.serving.address)
    }

    /// Removes a key that is there.
    pub(super) fn lose_one(&self) {
        let mut connection = reach(&self.serving.address);
        let key: String = redis::cmd("RANDOMKEY").query(&mut connection).expect("a key");
        let gone: u64 = redis::cmd("DEL").arg(key).query(&mut connection).expect("a reply");
        assert_eq!(gone, 1);
    }
}
