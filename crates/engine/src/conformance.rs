//! The contract as a suite that any engine runs.
//!
//! An engine's tests implement [`Harness`] and call [`check`]. Each check gets a database of its
//! own and is run under every [`OpenWith`] of [`VARIANTS`]. It panics with a sentence of the
//! contract that does not hold.
//!
//! The engine MUST be opened with [`semantics`] registered and with the harness's clock.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Durability, Engine, Result};

mod semantics;
mod database;
mod outcomes;
mod reads;
mod batches;
mod snapshots;
mod scans;
mod hash_scans;
mod merges;
mod updates;
mod rmw;
mod transactions;
mod locks;
mod expiry;
mod ranges;
mod keyspaces;
mod limits;
mod sources;
mod ingestions;
mod copies;
mod lifecycle;

pub use semantics::{ADD, APPEND, FILTER_DROP, PREFIX_4, semantics};

use database::Database;

/// How the suite asks for an engine to be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenWith {
    /// The database's default durability.
    pub durability: Durability,
    /// Whether memtable, buffer and tables are as small as the engine allows, so that little data
    /// passes every stage.
    pub tiny: bool,
}

/// The settings every check runs under.
pub const VARIANTS: [OpenWith; 3] = [
    OpenWith { durability: Durability::Process, tiny: false },
    OpenWith { durability: Durability::Process, tiny: true },
    OpenWith { durability: Durability::Disk, tiny: true },
];

/// One engine on one storage, as the suite sees it. Dropping it removes what it made.
pub trait Harness: Send {
    /// Opens the engine on this harness's storage; every call on the same storage.
    ///
    /// The suite closes and drops the engine before it opens it again.
    fn open(&mut self, with: OpenWith) -> Result<Arc<dyn Engine>>;

    /// Where a copy called `name` may be put.
    fn copy_path(&self, name: &str) -> PathBuf;

    /// Opens the copy at `path` as a database of its own.
    fn open_copy(&mut self, path: &Path) -> Result<Arc<dyn Engine>>;

    /// What the engine's clock says, in milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// Moves the engine's clock forward.
    fn advance_ms(&mut self, ms: u64);
}

/// A check that did not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The check's name, as in [`names`].
    pub name: &'static str,
    /// The settings it ran under.
    pub with: OpenWith,
    /// What it said.
    pub message: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (durability, size) =
            (self.with.durability.name(), if self.with.tiny { "tiny" } else { "normal" });
        write!(f, "{} ({durability}, {size}): {}", self.name, self.message)
    }
}

/// Runs the whole suite; panics with every failure.
///
/// Takes seconds in memory, a minute on files. Blocks.
pub fn check(make: &dyn Fn() -> Box<dyn Harness>) {
    let failures = failures(make, |_| true);
    let lines: Vec<String> = failures.iter().map(|failure| format!("\n  {failure}")).collect();
    assert!(failures.is_empty(), "the contract does not hold:{}", lines.concat());
}

/// Runs the checks whose name `wanted` accepts and returns those that failed.
pub fn failures(make: &dyn Fn() -> Box<dyn Harness>, wanted: impl Fn(&str) -> bool) -> Vec<Failure> {
    let mut failures = Vec::new();
    for (name, needs_order, run) in checks().filter(|(name, ..)| wanted(name)) {
        for with in VARIANTS {
            let attempt = std::panic::AssertUnwindSafe(|| {
                let mut database = Database::open(make(), with);
                if !needs_order || database.is_ordered() {
                    run(&mut database);
                }
            });
            if let Err(panic) = std::panic::catch_unwind(attempt) {
                failures.push(Failure { name, with, message: message(&*panic) });
            }
        }
    }
    failures
}

/// Names of all checks, `topic::sentence`, in the order they run.
pub fn names() -> impl Iterator<Item = &'static str> {
    checks().map(|(name, ..)| name)
}

/// A check's name, whether it needs an ordered engine, and what it does. Those that need an engine
/// that scans by hash ask for that themselves.
type Check = (&'static str, bool, fn(&mut Database));

fn checks() -> impl Iterator<Item = Check> {
    let topics: [&[Check]; 19] = [
        outcomes::CHECKS,
        reads::CHECKS,
        batches::CHECKS,
        snapshots::CHECKS,
        scans::CHECKS,
        hash_scans::CHECKS,
        merges::CHECKS,
        updates::CHECKS,
        rmw::CHECKS,
        transactions::CHECKS,
        locks::CHECKS,
        expiry::CHECKS,
        ranges::CHECKS,
        keyspaces::CHECKS,
        limits::CHECKS,
        sources::CHECKS,
        ingestions::CHECKS,
        copies::CHECKS,
        lifecycle::CHECKS,
    ];
    topics.into_iter().flatten().copied()
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(text), _) => text.clone(),
        (None, Some(text)) => (*text).to_owned(),
        (None, None) => "a panic without a message".to_owned(),
    }
}
