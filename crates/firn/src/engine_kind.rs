//! Which of the engines keeps a database.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use firn_engine::{Error, Result};
use firn_format::file_name::{FileName, parse};
use firn_format::manifest::{Change, ManifestEdit};
use firn_storage::Storage;
use firn_storage::backend::{Local, LocalOptions};

/// Which of the engines keeps a database. It is chosen when the database is created.
///
/// ```
/// use firn::EngineKind;
///
/// assert_eq!(EngineKind::from_name("hashlog"), Some(EngineKind::Hash));
/// assert_eq!(EngineKind::default().to_string(), "tree");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// `tree`, the ordered engine: ranges, prefixes, bulk ingestion, workers.
    #[default]
    Tree,
    /// `hashlog`, the hashed engine: single keys at the speed of memory, in no order.
    Hash,
}

impl EngineKind {
    /// All of them.
    pub const ALL: [EngineKind; 2] = [EngineKind::Tree, EngineKind::Hash];

    /// What it is called on command lines and in messages.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Tree => "tree",
            EngineKind::Hash => "hashlog",
        }
    }

    /// The engine of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The engine of the database in the directory `path`; `None` if there is no database, or one
    /// on shared storage of which nothing here tells. Takes no lock and changes nothing.
    ///
    /// ```no_run
    /// # fn main() -> firn::Result<()> {
    /// if firn::EngineKind::of("cities")? == Some(firn::EngineKind::Hash) {
    ///     println!("open it by `firn::PointDb::open`");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` if `path` is there and is no database's directory.
    pub fn of(path: impl AsRef<Path>) -> Result<Option<Self>> {
        let path = path.as_ref();
        // Local storage is asked, and answers better, where anything is there.
        let is_empty = std::fs::read_dir(path).is_ok_and(|mut files| files.next().is_none());
        if is_empty || !path.exists() {
            return Ok(None);
        }
        let local = Local::open(path, LocalOptions { create: false });
        Self::of_storage(&local.map_err(firn_tree::storage_error)?)
    }

    /// As [`of`](Self::of), of the database on `storage`.
    ///
    /// # Errors
    /// Those of listing and reading.
    pub(crate) fn of_storage(storage: &dyn Storage) -> Result<Option<Self>> {
        let mut edits = Vec::new();
        let (mut by_files, mut is_home) = (None, false);
        for (name, _) in storage.list().map_err(firn_tree::storage_error)? {
            match parse(&name) {
                Some(FileName::ManifestEdit(number)) => edits.push((number, name)),
                Some(
                    FileName::HybridSegment(_)
                    | FileName::ColdSegment(_)
                    | FileName::ColdRun(_)
                    | FileName::Redo { .. }
                    | FileName::Value(_)
                    | FileName::Extent(_),
                ) => {
                    by_files = Some(Self::Hash);
                }
                Some(FileName::LogSegment(_) | FileName::Table { .. } | FileName::Tables { .. }) => {
                    by_files = by_files.or(Some(Self::Tree));
                }
                Some(FileName::Home) => is_home = true,
                _ => {}
            }
        }
        if edits.is_empty() {
            // The manifest of a database on shared storage lies there.
            return Ok(by_files.filter(|_| is_home));
        }
        edits.sort_unstable();
        // A database without any record has nothing but its manifest. One edit restates all.
        let mut changes = edits.iter().rev().map_while(|(_, name)| changes_of(storage, name)).flatten();
        let mut is_hashed = || changes.any(|change| matches!(change, Change::Hashed { .. }));
        Ok(Some(match by_files {
            Some(kind) => kind,
            None if is_hashed() => Self::Hash,
            None => Self::Tree,
        }))
    }

    /// Refuses the database `of` on `storage` where this engine was asked for and another made it.
    pub(crate) fn check(self, of: Option<Self>, name: &str) -> Result<Self> {
        match of {
            Some(found) if found != self => Err(Error::invalid(format!(
                "{name} holds a database of the engine `{found}`, and `{self}` was asked for: ask for `{found}`, or \
                 name another directory"
            ))),
            _ => Ok(self),
        }
    }
}

/// What one edit of a manifest changes; `None` where it cannot be read, which the engine reports.
fn changes_of(storage: &dyn Storage, name: &str) -> Option<Vec<Change>> {
    let file = storage.open_read(name).ok()?;
    let mut bytes = vec![0; usize::try_from(file.len()).ok()?];
    file.read_at(0, &mut bytes).ok()?;
    Some(ManifestEdit::decode(&bytes).ok()?.changes)
}

impl FromStr for EngineKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::from_name(name)
            .ok_or_else(|| Error::invalid(format!("there is no engine `{name}`; there are tree and hashlog")))
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
