//! A series of phases on one store.

use std::path::{Path, PathBuf};

use firn_engine::{Error, ErrorKind, Result};

use crate::driver::Watcher;
use crate::report::PhaseResult;
use crate::target::{OpenOptions, Target, TargetFactory};

mod ycsb;
mod db;
mod dir;
#[cfg(test)]
mod tests;

pub use db::DbSuite;
pub use dir::{BenchDir, remove_temporary_directories};
pub use ycsb::YcsbSuite;

/// Phases that are run one after another, each on what the ones before left behind.
pub trait Suite {
    /// Names of the phases, in order.
    fn steps(&self) -> Vec<String>;

    /// Bytes of keys and values that the load or the fills leave behind, about.
    fn data_bytes(&self) -> u64;

    /// How stores of this suite are opened in `dir`.
    fn open_options(&self, dir: &Path) -> OpenOptions;

    /// Runs phase `step` on `store`.
    ///
    /// # Errors
    /// Whatever the store failed with.
    fn run_step(
        &mut self,
        step: usize,
        store: &mut Store<'_>,
        watcher: &mut dyn Watcher,
    ) -> Result<PhaseResult>;
}

/// A store that is opened when it is first needed and can be begun anew.
pub struct Store<'f> {
    factory: &'f dyn TargetFactory,
    options: OpenOptions,
    target: Option<Box<dyn Target>>,
}

impl<'f> Store<'f> {
    /// A store not opened yet.
    pub fn new(factory: &'f dyn TargetFactory, options: OpenOptions) -> Self {
        Self { factory, options, target: None }
    }

    /// The open store.
    ///
    /// # Errors
    /// If it does not open.
    pub fn target(&mut self) -> Result<&dyn Target> {
        if self.target.is_none() {
            self.target = Some(self.factory.open(&self.options)?);
        }
        self.target.as_deref().ok_or_else(|| Error::bug("a store just opened is gone"))
    }

    /// Closes the store, removes its files, and opens an empty one.
    ///
    /// # Errors
    /// If files cannot be removed or the store does not open.
    pub fn empty(&mut self) -> Result<&dyn Target> {
        self.close()?;
        remove_contents(&self.options.dir)?;
        self.target()
    }

    /// Closes the store if it is open.
    ///
    /// # Errors
    /// If what was acknowledged could not be made durable.
    pub fn close(&mut self) -> Result<()> {
        self.target.take().map_or(Ok(()), Target::close)
    }
}

fn remove_contents(dir: &Path) -> Result<()> {
    let failed = |path: PathBuf| {
        move |error: std::io::Error| {
            Error::new(ErrorKind::Invalid, format!("cannot remove {}", path.display())).because(error)
        }
    };
    for entry in std::fs::read_dir(dir).map_err(failed(dir.to_owned()))? {
        let path = entry.map_err(failed(dir.to_owned()))?.path();
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        removed.map_err(failed(path))?;
    }
    Ok(())
}
