//! `firn demo`: compaction as a service on this machine, from nothing, in one command.
//!
//! ```text
//!   control plane ◄── two workers          each a process of its own, on loopback, on a port that is free
//!        ▲                 ▼
//!   database (serve) ─► shared directory
//!        ▲
//!   this process: writes, waits, reads back, and tells which job ran where
//! ```

mod fleet; // the processes
mod load; // what is written and read back
mod watch; // which jobs there were
mod report; // what is printed

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_bench::suite::BenchDir;
use firn_engine::settings::parse_bytes;
use firn_storage::{Clock, SystemClock};

use crate::ending::{Ending, Failure, Result};
use crate::output::{Output, report};
use crate::progress;
use crate::signals;
use fleet::Fleet;
use load::{Client, Load};
use watch::Watch;

/// Bring up a database, a control plane and workers here, load, and show where every compaction
/// ran.
///
/// Each of them is a process of its own, on loopback, on a free port. They do what
/// `firn serve --shared`, `firn control-plane` and `firn worker` do on machines of their own. Keys
/// are written several times over, the workers merge the tables, and everything is read back and
/// compared. Ends after some seconds; nothing runs any more then, whatever became of it, and a
/// temporary directory is gone.
///
/// Ends with 1 if no job ran on a worker, or if anything read is not what was written.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Directory for everything, empty or missing, kept afterwards [default: a temporary one,
    /// removed]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Bytes to write, of keys and values, every key four times: 64M, 1G
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "512M")]
    load_bytes: u64,
    /// Worker processes, each of which does a job at a time.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
}

/// Whether a signal has asked for the end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Of SIGINT, SIGTERM and SIGHUP; the first two said twice end the process at once.
    fn on_signals() -> Result<Self> {
        let said = signals::of_a_terminal()
            .map_err(|error| Failure::new(Ending::Failed, format!("cannot await signals: {error}")))?;
        Ok(Self(said))
    }

    /// # Errors
    /// It was said.
    pub(crate) fn check(&self) -> Result<()> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(Failure::new(Ending::Failed, "interrupted: everything it had started has ended")),
            false => Ok(()),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let interrupt = Interrupt::on_signals()?;
    let dir = BenchDir::new(arguments.dir.as_deref()).map_err(|error| Failure::engine(&error))?;
    if !dir.is_empty() {
        let what = format!("{} is not empty: name a directory that is, or none", dir.path().display());
        return Err(Failure::new(Ending::Usage, what));
    }
    let load = Load::new(arguments.load_bytes);
    let mut fleet = Fleet::start(dir.path(), arguments.workers, &interrupt)?;
    let mut watch = Watch::at(fleet.control_plane())?;
    let mut client = Client::connect(fleet.address())?;
    report(format_args!("writing {load}"));
    progress::during("writing", |bar| {
        load.write(&mut client, |share| {
            bar.set_message(format!("{:.0} %", share * 100.0));
            interrupt.check()?;
            watch.look_now_and_then()
        })
    })
    .map_err(|failure| fleet.explain(failure))?;
    report(format_args!("waiting for compactions"));
    let counts = progress::during("compacting", |bar| {
        rest(&mut client, &mut watch, &interrupt, |running| bar.set_message(format!("{running} jobs")))
    })
    .map_err(|failure| fleet.explain(failure))?;
    report(format_args!("reading everything back"));
    progress::during("reading", |bar| {
        load.compare(&mut client, |share| {
            bar.set_message(format!("{:.0} %", share * 100.0));
            interrupt.check()
        })
    })
    .map_err(|failure| fleet.explain(failure))?;
    let used = fleet.processor_time()?;
    fleet.end()?;
    let at_end = report::Report { rows: watch.rows(), counts, used, load: &load };
    let mut out = Output::new();
    out.bytes(at_end.text().as_bytes());
    out.finish()?;
    if dir.is_temporary() {
        report(format_args!(
            "nothing is left of it: --dir DIR keeps the database and what its processes said"
        ));
    } else {
        report(format_args!("everything is in {}", dir.path().display()));
    }
    match at_end.on_workers() {
        0 => Err(Failure::new(Ending::Failed, at_end.why_none())),
        _ => Ok(Ending::Done),
    }
}

/// How long compactions may take after the load.
const REST_MAX: Duration = Duration::from_secs(300);

/// Nothing has begun for so long: it rests.
const QUIET: Duration = Duration::from_millis(1_500);

/// Waits until no job is under way and none comes, and answers what the database counts then.
fn rest(
    client: &mut Client,
    watch: &mut Watch,
    interrupt: &Interrupt,
    mut show: impl FnMut(usize),
) -> Result<load::Counts> {
    let clock = SystemClock::new();
    let until = clock.now() + REST_MAX;
    let (mut last, mut since) = (client.counts()?, clock.now());
    loop {
        interrupt.check()?;
        watch.look()?;
        let counts = client.counts()?;
        if counts != last || watch.unfinished() > 0 {
            (last, since) = (counts, clock.now());
        }
        if clock.now().saturating_sub(since) >= QUIET {
            return Ok(counts);
        }
        if clock.now() > until {
            let what = format!(
                "compactions go on {} s after the load: write less (--load-bytes)",
                REST_MAX.as_secs()
            );
            return Err(Failure::new(Ending::Failed, what));
        }
        show(watch.unfinished());
        clock.sleep(Duration::from_millis(100));
    }
}
