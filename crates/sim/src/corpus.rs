//! Runs that ever failed, kept as files and repeated by the tests.
//!
//! ```text
//! # run metamorphic world=tree knobs=5
//! # what went wrong, in words
//! seed 42
//! create 1
//! …
//! ```
//! or `# run crash world=tree knobs=5 cut=77 torn=3 power=9 tail=4`, with `power` only after power
//! loss.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use firn_storage::backend::Crash;

use crate::ops::Script;

/// Where and how a machine stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The operation before which it stops.
    pub operation: u64,
    /// How much of that operation is done, if it is a write.
    pub torn_bytes: usize,
    /// What is left.
    pub crash: Crash,
    /// Seed of what happens afterwards.
    pub tail: u64,
}

/// One run: a script, what it runs under, and where it is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The world's name.
    pub world: String,
    /// Seed of the settings.
    pub knobs: u64,
    /// Where the machine stops, if it does.
    pub cut: Option<Cut>,
    /// What is done.
    pub script: Script,
}

/// A run that broke a promise, made small.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was wrong in the first place.
    pub what: String,
    /// The smallest run found that is still wrong.
    pub case: Case,
    /// The command that repeats the original run.
    pub command: String,
}

impl Case {
    /// Writes it to `folder` with `what` went wrong; the file's path.
    pub fn save(&self, folder: &Path, what: &str) -> std::io::Result<PathBuf> {
        std::fs::create_dir_all(folder)?;
        let kind = if self.cut.is_some() { "crash" } else { "metamorphic" };
        let cut = self.cut.map_or(String::new(), |cut| format!("-{}", cut.operation));
        let name = format!("{kind}-{}-{}-{}{cut}.script", self.world, self.script.seed, self.knobs);
        let path = folder.join(name);
        let what: String = what.replace('\n', " ").chars().take(WHAT_CHARS_MAX).collect();
        let text = self.to_string();
        let (head, rest) = text.split_once('\n').unwrap_or((&text, ""));
        std::fs::write(&path, format!("{head}\n# {what}\n{rest}"))?;
        Ok(path)
    }

    /// Every case in `folder`, by file name; none if there is no such folder.
    pub fn load(folder: &Path) -> std::io::Result<Vec<(String, Case)>> {
        let mut cases = Vec::new();
        let Ok(entries) = std::fs::read_dir(folder) else { return Ok(cases) };
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "script") {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let case = std::fs::read_to_string(&path)?.parse();
                let case = case.map_err(|error| std::io::Error::other(format!("{name}: {error}")))?;
                cases.push((name, case));
            }
        }
        cases.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(cases)
    }
}

/// How much of what went wrong is written into a case.
const WHAT_CHARS_MAX: usize = 300;

/// Where cases are kept in the source tree.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.cut.is_some() { "crash" } else { "metamorphic" };
        write!(f, "# run {kind} world={} knobs={}", self.world, self.knobs)?;
        if let Some(cut) = self.cut {
            write!(f, " cut={} torn={} tail={}", cut.operation, cut.torn_bytes, cut.tail)?;
            if let Crash::PowerLoss { seed } = cut.crash {
                write!(f, " power={seed}")?;
            }
        }
        write!(f, "\n{}", self.script)
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let head = text.lines().next().unwrap_or_default();
        let mut words =
            head.strip_prefix("# run ").ok_or("the first line is not `# run …`")?.split_whitespace();
        let is_crash = match words.next() {
            Some("crash") => true,
            Some("metamorphic") => false,
            other => return Err(format!("{other:?} is no kind of run")),
        };
        let script = text.parse()?;
        let mut case = Case { world: String::new(), knobs: 0, cut: None, script };
        let mut cut = Cut { operation: 0, torn_bytes: 0, crash: Crash::Kill, tail: 0 };
        for word in words {
            let (name, value) = word.split_once('=').ok_or(format!("{word:?} is not NAME=VALUE"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("{word:?} has no number"));
            match name {
                "world" => value.clone_into(&mut case.world),
                "knobs" => case.knobs = number()?,
                "cut" => cut.operation = number()?,
                "torn" => cut.torn_bytes = usize::try_from(number()?).map_err(|error| error.to_string())?,
                "tail" => cut.tail = number()?,
                "power" => cut.crash = Crash::PowerLoss { seed: number()? },
                _ => return Err(format!("{word:?} says nothing about a run")),
            }
        }
        case.cut = is_crash.then_some(cut);
        Ok(case)
    }
}
