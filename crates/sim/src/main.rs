//! The program `firn-sim`: the proof at any length.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use firn_sim::corpus::Failure;
use firn_sim::fleet::{self, Plan};
use firn_sim::gc_counts::GcCounts;
use firn_sim::generate::{self, Profile};
use firn_sim::world::World;
use firn_sim::{batches, corpus, crash, kill, metamorphic, replay, world};
use firn_storage::backend::Crash;

/// Scripts, crashes and kills against an engine. Exit code 1 means that a promise was broken.
#[derive(Parser)]
#[command(name = "firn-sim", bin_name = "cargo x sim")]
struct Arguments {
    #[command(subcommand)]
    mode: Mode,
    /// The engine: tree, hash, or reference.
    #[arg(long, global = true, default_value = "tree")]
    world: String,
    /// Where failing scripts are written.
    #[arg(long, global = true)]
    corpus: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Mode {
    /// Runs scripts under many settings and compares every answer with a model.
    Metamorphic(Metamorphic),
    /// Stops the machine at operations of short scripts and holds what is left to the promise.
    Crash(Cuts),
    /// Writes batches across keyspaces with kills and power losses in between.
    Batches {
        /// How many batches.
        #[arg(long, default_value_t = 10_000)]
        count: u64,
        /// Where they come from.
        #[arg(long, alias = "first-seed", default_value_t = 1)]
        seed: u64,
    },
    /// Kills real processes under load and looks for every acknowledged write.
    Kill {
        /// How many processes.
        #[arg(long, default_value_t = 20)]
        rounds: u64,
        /// Decides when.
        #[arg(long, alias = "first-seed", default_value_t = 1)]
        seed: u64,
        /// Where the database lies; a new folder of the system's temporary one by default.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Many databases on a few workers: how long writers stand still, by what decides which job
    /// goes where.
    Fleet(Fleet),
    /// Runs files of the corpus again.
    Replay {
        /// The files.
        files: Vec<PathBuf>,
    },
    /// Prints the script of a seed.
    Script {
        /// The seed.
        seed: u64,
        /// everything, short (scripts to be cut), or tail (what follows a recovery).
        #[arg(default_value = "everything")]
        profile: String,
    },
    /// Writes until it is killed (started by `kill`).
    #[command(hide = true)]
    KillChild { folder: PathBuf, knobs: u64, next: String },
}

#[derive(Args)]
struct Fleet {
    /// Databases.
    #[arg(long, default_value_t = 100)]
    databases: u32,
    /// Workers.
    #[arg(long, default_value_t = 20)]
    workers: u32,
    /// Jobs of a worker at a time.
    #[arg(long, default_value_t = 2)]
    slots: u32,
    /// Zones that both are spread over.
    #[arg(long, default_value_t = 2)]
    zones: u32,
    /// Simulated seconds.
    #[arg(long, default_value_t = 1200)]
    seconds: u32,
    /// Scales what users write.
    #[arg(long, default_value_t = 1.0)]
    load: f64,
    /// Jobs that one more tenant wants done at every moment, saying that its writers stand still; 0
    /// = no such tenant.
    #[arg(long, default_value_t = 0)]
    flood: u32,
    /// Weight of a second tenant of that kind, where the first has 1; 0 = no second.
    #[arg(long, default_value_t = 0.0, requires = "flood")]
    heavy: f64,
    /// How many times in an hour that it works each worker is killed, and away for a minute.
    #[arg(long, default_value_t = 0.0)]
    crashes: f64,
    /// MiB of inputs in a second that a database reads which does a job itself, since it has waited
    /// for too long; 0 = it waits for ever.
    #[arg(long, default_value_t = 0.0)]
    own: f64,
    /// Decides everything else.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also with a scheduler that knows what users will write; minutes.
    #[arg(long)]
    oracle: bool,
}

#[derive(Args)]
struct Metamorphic {
    /// How many seeds.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Leaves out steps that begin with this word, to look past what is known to be broken; may be
    /// repeated.
    #[arg(long)]
    skip: Vec<String>,
    /// Seeds at once.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

#[derive(Args)]
struct Cuts {
    /// How many cuts, at least; scripts are added until there are as many.
    #[arg(long, default_value_t = 1000)]
    cuts: u64,
    /// Most cuts of one script, spread over its operations [default: 8; with --seed: at every
    /// operation].
    #[arg(long, alias = "cuts-per-seed")]
    cuts_per_script: Option<u64>,
    /// Cuts each script at every operation.
    #[arg(long, conflicts_with = "cuts_per_script")]
    every: bool,
    /// The first script's seed.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// With --seed: only this operation (also --crash).
    #[arg(long, alias = "crash", requires = "seed")]
    cut: Option<u64>,
    /// With --cut: how many bytes of a write are done.
    #[arg(long, default_value_t = 0)]
    torn: usize,
    /// With --cut: seed of what follows.
    #[arg(long, default_value_t = 0)]
    tail: u64,
    /// With --cut: power is lost, and this seed says what is left.
    #[arg(long)]
    power: Option<u64>,
    /// Leaves out steps that begin with this word, to look past what is known to be broken; may be
    /// repeated.
    #[arg(long)]
    skip: Vec<String>,
    /// Scripts at once.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// Cuts of one script where nothing else is said: many scripts find more than many cuts of few.
const CUTS_PER_SCRIPT: u64 = 8;

impl Cuts {
    fn per_script(&self) -> u64 {
        let is_every = self.every || self.seed.is_some();
        self.cuts_per_script.unwrap_or(if is_every { u64::MAX } else { CUTS_PER_SCRIPT })
    }
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let world =
        world::world(&arguments.world).with_context(|| format!("no engine is called {}", arguments.world))?;
    let corpus = arguments.corpus.unwrap_or_else(corpus::folder);
    let is_good = match arguments.mode {
        Mode::Metamorphic(options) => run_metamorphic(&*world, &options, &corpus),
        Mode::Crash(options) => run_crash(&*world, &options, &corpus),
        Mode::Batches { count, seed } => run_batches(&*world, seed, count),
        Mode::Kill { rounds, seed, dir } => run_kill(&*world, seed, rounds, dir)?,
        Mode::Fleet(fleet) => {
            let Fleet {
                databases,
                workers,
                slots,
                zones,
                seconds,
                load,
                flood,
                heavy,
                crashes,
                own,
                seed,
                oracle,
            } = fleet;
            let plan =
                Plan { databases, workers, slots, zones, seconds, load, flood, heavy, crashes, own, seed };
            print!("{}", fleet::compare(&plan, oracle));
            true
        }
        Mode::Replay { files } => replay(&files)?,
        Mode::Script { seed, profile } => {
            let profiles =
                [("everything", Profile::Everything), ("short", Profile::Short), ("tail", Profile::Tail)];
            let found = profiles.into_iter().find(|(name, _)| *name == profile);
            let (_, profile) = found.with_context(|| format!("no profile is called {profile}"))?;
            print!("{}", generate::script(seed, profile));
            true
        }
        Mode::KillChild { folder, knobs, next } => {
            kill::child(&*world, &folder, knobs, &next)?;
            false
        }
    };
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_metamorphic(world: &dyn World, options: &Metamorphic, corpus: &Path) -> bool {
    let (first, count) = options.seed.map_or((options.first_seed, options.seeds), |seed| (seed, 1));
    let [runs, steps] = [const { AtomicU64::new(0) }; 2];
    let gcs = Mutex::new(GcCounts::default());
    let clock = Progress::new("metamorphic");
    let failures = in_parallel(
        options.threads,
        first,
        |seed| seed < first + count,
        |seed| {
            let totals = metamorphic::check_seed(world, seed, &options.skip)?;
            runs.fetch_add(totals.run_count, Ordering::Relaxed);
            add(&gcs, totals.gcs);
            let steps = steps.fetch_add(totals.step_count, Ordering::Relaxed);
            clock.report(|| format!("{} of {count} seeds, {steps} steps", seed + 1 - first));
            Ok(())
        },
    );
    report(&failures, corpus);
    println!(
        "metamorphic {}: seeds {first}..{}, {} runs, {} steps, {}, {} violations, {:.1} s",
        world.name(),
        first + count,
        runs.into_inner(),
        steps.into_inner(),
        add(&gcs, GcCounts::default()),
        failures.len(),
        clock.seconds()
    );
    failures.is_empty()
}

fn run_crash(world: &dyn World, options: &Cuts, corpus: &Path) -> bool {
    if let (Some(seed), Some(operation)) = (options.seed, options.cut) {
        let crash = options.power.map_or(Crash::Kill, |seed| Crash::PowerLoss { seed });
        let cut = corpus::Cut { operation, torn_bytes: options.torn, crash, tail: options.tail };
        let checked = crash::check_cut(world, seed, cut);
        println!(
            "crash {}: seed {seed}, {cut:?}: {}",
            world.name(),
            checked.as_ref().map_or_else(String::as_str, |()| "kept")
        );
        return checked.is_ok();
    }
    let first = options.seed.unwrap_or(options.first_seed);
    let [kills, power_losses, seeds, amid] = [const { AtomicU64::new(0) }; 4];
    let gcs = Mutex::new(GcCounts::default());
    let clock = Progress::new("crash");
    let cuts = || kills.load(Ordering::Relaxed) + power_losses.load(Ordering::Relaxed);
    let is_wanted = |seed: u64| if options.seed.is_some() { seed == first } else { cuts() < options.cuts };
    let failures = in_parallel(options.threads, first, is_wanted, |seed| {
        let totals = crash::check_seed(world, seed, options.per_script(), &options.skip)?;
        kills.fetch_add(totals.kill_count, Ordering::Relaxed);
        power_losses.fetch_add(totals.power_loss_count, Ordering::Relaxed);
        amid.fetch_add(totals.amid_count, Ordering::Relaxed);
        add(&gcs, totals.gcs);
        seeds.fetch_add(1, Ordering::Relaxed);
        clock.report(|| format!("{} of {} cuts", cuts(), options.cuts));
        Ok(())
    });
    report(&failures, corpus);
    println!(
        "crash {}: {} cuts ({} kills, {} power losses, {} amid values put together) of {} scripts from seed {first}, {}, {} violations, {:.1} s",
        world.name(),
        cuts(),
        kills.load(Ordering::Relaxed),
        power_losses.load(Ordering::Relaxed),
        amid.into_inner(),
        seeds.into_inner(),
        add(&gcs, GcCounts::default()),
        failures.len(),
        clock.seconds()
    );
    failures.is_empty()
}

/// Adds `more` to what threads count together; the sum.
fn add(gcs: &Mutex<GcCounts>, more: GcCounts) -> GcCounts {
    let mut gcs = gcs.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    *gcs += more;
    *gcs
}

fn run_batches(world: &dyn World, seed: u64, count: u64) -> bool {
    let clock = Progress::new("batches");
    let checked = batches::check(world, seed, count, &mut |totals| {
        clock.report(|| {
            format!(
                "{} of {count} batches, {} crashes",
                totals.batch_count,
                totals.kill_count + totals.power_loss_count
            )
        });
    });
    match &checked {
        Ok(totals) => println!(
            "batches {}: seed {seed}, {} batches, {} kills, {} power losses ({} unpromised batches lost), 0 violations, {:.1} s",
            world.name(),
            totals.batch_count,
            totals.kill_count,
            totals.power_loss_count,
            totals.lost_count,
            clock.seconds()
        ),
        Err(what) => println!("batches {}: seed {seed}, 1 violation: {what}", world.name()),
    }
    checked.is_ok()
}

fn run_kill(world: &dyn World, seed: u64, rounds: u64, dir: Option<PathBuf>) -> Result<bool> {
    let own = std::env::temp_dir().join(format!("firn-sim-kill-{}", std::process::id()));
    let folder = dir.clone().unwrap_or_else(|| own.clone());
    let program = std::env::current_exe().context("cannot find this program")?.to_string_lossy().into_owned();
    let child = [program, "--world".to_owned(), world.name().to_owned(), "kill-child".to_owned()];
    let clock = Progress::new("kill");
    let checked = kill::check(world, &child, &folder, seed, rounds, &mut |totals| {
        clock.report(|| {
            format!("{} of {rounds} rounds, {} writes", totals.round_count, totals.acknowledged_count)
        });
    });
    match &checked {
        Ok(totals) => println!(
            "kill {}: seed {seed}, {} rounds, {} acknowledged writes, all there ({} more found), 0 violations, {:.1} s",
            world.name(),
            totals.round_count,
            totals.acknowledged_count,
            totals.unacknowledged_count,
            clock.seconds()
        ),
        Err(error) => {
            println!("kill {}: 1 violation: {error:#}; files are in {}", world.name(), folder.display())
        }
    }
    if checked.is_ok() && dir.is_none() {
        std::fs::remove_dir_all(&own).with_context(|| format!("cannot remove {}", own.display()))?;
    }
    Ok(checked.is_ok())
}

fn replay(files: &[PathBuf]) -> Result<bool> {
    let mut is_good = true;
    for file in files {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let case: corpus::Case = text.parse().map_err(anyhow::Error::msg)?;
        let world =
            world::world(&case.world).with_context(|| format!("no engine is called {}", case.world))?;
        let ran = replay::replay(&case, &*world);
        is_good &= ran.is_ok();
        println!("{}: {}", file.display(), ran.as_ref().map_or_else(String::as_str, |()| "kept"));
    }
    Ok(is_good)
}

/// Says what failed and keeps it.
fn report(failures: &[Failure], corpus: &Path) {
    for failure in failures {
        println!("VIOLATION {}\n  {}", failure.what, failure.command);
        match failure.case.save(corpus, &failure.what) {
            Ok(path) => {
                println!("  made small: {} ({} steps)", path.display(), failure.case.script.ops.len())
            }
            Err(error) => println!("  cannot write to {}: {error}\n{}", corpus.display(), failure.case),
        }
    }
}

/// Failures after which no further seed is begun.
const FAILURES_MAX: usize = 5;

/// Runs `check` on seeds from `first` on while they are wanted, on some threads at once.
fn in_parallel(
    threads: usize,
    first: u64,
    is_wanted: impl Fn(u64) -> bool + Sync,
    check: impl Fn(u64) -> Result<(), Box<Failure>> + Sync,
) -> Vec<Failure> {
    // Violations are told as text; a panic that is caught need not be told twice.
    std::panic::set_hook(Box::new(|_| {}));
    let (next, failures, is_over) = (AtomicU64::new(first), Mutex::new(Vec::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !is_wanted(seed) {
                        break;
                    }
                    if let Err(failure) = check(seed) {
                        let mut failures = failures.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                        println!("seed {seed}: violation");
                        failures.push(*failure);
                        is_over.store(failures.len() >= FAILURES_MAX, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    failures.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Reports how far a mode is, every two seconds at most.
struct Progress {
    mode: &'static str,
    start: Instant,
    reported_at: Mutex<Instant>,
}

impl Progress {
    #[expect(clippy::disallowed_methods, reason = "the program tells people how long it has been at work")]
    fn now() -> Instant {
        Instant::now()
    }

    fn new(mode: &'static str) -> Self {
        Self { mode, start: Self::now(), reported_at: Mutex::new(Self::now()) }
    }

    fn report(&self, text: impl FnOnce() -> String) {
        let mut reported_at = self.reported_at.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if reported_at.elapsed() >= Duration::from_secs(2) {
            *reported_at = Self::now();
            eprintln!("{}: {}, {:.0} s", self.mode, text(), self.seconds());
        }
    }

    fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }
}
