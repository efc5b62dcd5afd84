//! Which keys there are, and which are asked for.

use fastrand::Rng;
use firn_engine::Result;

use super::args::PointsArgs;
use super::key_file;
use crate::distribution::{Distribution, ScrambledZipfian, stream_seed};

/// Keys that are drawn for one distribution, at most. Threads go over them again and again.
const DRAWN_MAX: u64 = 16 << 20;

/// Keys of a database.
pub(super) struct Source {
    loaded: Vec<u64>,
    /// Of a file; otherwise they are drawn.
    asked: Option<Vec<u64>>,
}

impl Source {
    /// What `args` say.
    ///
    /// # Errors
    /// `Invalid` for a file that cannot be read or has no whole keys.
    pub(super) fn new(args: &PointsArgs) -> Result<Self> {
        let read = |path: &Option<std::path::PathBuf>| path.as_deref().map(key_file::read).transpose();
        let asked = read(&args.txns_file)?;
        let loaded = read(&args.load_file)?.unwrap_or_else(|| (0..args.records).collect());
        Ok(Self { loaded, asked })
    }

    /// Keys that are loaded.
    pub(super) fn loaded(&self) -> &[u64] {
        &self.loaded
    }

    /// How many that are.
    pub(super) fn key_count(&self) -> u64 {
        self.loaded.len() as u64
    }

    /// Every key there may be, once.
    pub(super) fn all(&self) -> Vec<u64> {
        let mut all = self.loaded.clone();
        all.extend(self.asked.iter().flatten());
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The distributions that `args` name; `file` where keys are those of a file.
    pub(super) fn distributions<'a>(&self, args: &'a PointsArgs) -> Vec<&'a str> {
        match self.asked {
            Some(_) => vec!["file"],
            None => args.distribution.iter().map(String::as_str).collect(),
        }
    }

    /// Keys to ask for, in their order.
    pub(super) fn draw(&self, distribution: &str, args: &PointsArgs) -> Vec<u64> {
        if let Some(asked) = &self.asked {
            return asked.clone();
        }
        let last = self.key_count().saturating_sub(1);
        let mut drawn = match distribution {
            "zipfian" => Distribution::Zipfian(ScrambledZipfian::new(0, last)),
            _ => Distribution::Uniform { first: 0, last },
        };
        let mut random = Rng::with_seed(stream_seed(args.seed, distribution.len()));
        let count = (8 * self.key_count()).clamp(1 << 16, DRAWN_MAX);
        (0..count).map(|_| self.loaded[drawn.draw(&mut random) as usize]).collect()
    }
}
