//! What log objects ask of the engine whose log they have.

use std::sync::{Arc, MutexGuard};

use crate::file::log::{Log, Referred, SegmentMap};
use crate::file::manifest::{Content, Manifest};
use crate::{Error, Result, Storage};
use firn_format::log::Frame;
use firn_format::log_object::Piece;

use super::NamedObjects;

/// What sending asks of an engine.
pub trait SendEnv {
    /// What segments of its log carry.
    type Carried;

    /// What records of its log refer to.
    type Referred: Referred;

    /// Collects that for log objects.
    type Collector: Collector;

    /// The log that is sent.
    fn log(&self) -> &Log<Self::Carried, Self::Referred>;

    /// Where log objects are created.
    fn storage(&self) -> &dyn Storage;

    /// The live segments of the log, those of every position that is published among them. What is
    /// in none any more is needed by no replay.
    fn segments(&self) -> Arc<SegmentMap<Self::Carried>>;

    /// A collector of what frames refer to that are published.
    fn collector(&self) -> Self::Collector;

    /// Whether the database is closed: a call that waited for a try that failed makes none.
    fn is_closed(&self) -> bool;

    /// Whether flushes are to give up, since nothing waits for them any more.
    fn is_stopping(&self) -> bool;

    /// Refuses writes from now on, for `cause`, by the log and whatever else takes them.
    fn fail(&self, cause: &Error);
}

/// What naming log objects in an edit asks of an engine.
pub trait NameEnv: SendEnv {
    /// What its manifest carries.
    type Content: Content;

    /// Keeps edits from being committed as long as the answer lives.
    fn manifest(&self) -> MutexGuard<'_, Manifest<Self::Content>>;

    /// The change which says that what is needed of the log is in the log objects that are `named`.
    fn change(named: NamedObjects) -> <Self::Content as Content>::Change;

    /// Has the files `names` removed, which nothing needs. If more of them `may_follow`, a process
    /// that was killed may have asked for one that no list has shown yet. May be called under the
    /// lock of the manifest.
    fn remove(&self, names: Vec<String>, may_follow: bool);
}

/// Collects what frames refer to in other files, as pieces of the log object that has the frames.
pub trait Collector {
    /// Adds what records of `frame` refer to, as far as other machines would not find it. Reads
    /// files.
    ///
    /// # Errors
    /// What reading says; what is wrong with the frame.
    fn collect(&mut self, frame: &Frame<'_>) -> Result<()>;

    /// Bytes that were collected so far.
    fn bytes(&self) -> usize;

    /// All that was collected.
    fn pieces(&self) -> impl Iterator<Item = Piece<'_>>;
}
