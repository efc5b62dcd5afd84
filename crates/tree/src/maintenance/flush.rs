//! A flush as data: what is written out, and the parts of it that threads take.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use firn_engine::Result;
use firn_format::manifest::TableMeta;
use firn_format::table::ReferenceSet;
use firn_format::tombstone::FragmentList;
use firn_jobs::{KeyRange, OutputForm, Rules};

use crate::buffer::Run;
use crate::log::SegmentMap;
use crate::version::Levels;

/// What a part of a flush has written.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// In order of keys.
    pub(crate) tables: Vec<TableMeta>,
    /// Separated values that the part's records refer to, whether they are in the tables or
    /// not.
    pub(crate) references: ReferenceSet,
    /// References of older tables that the part's records leave without readers.
    pub(crate) newly_obsolete: ReferenceSet,
}

impl Written {
    /// Adds what the next part, in order of keys, has written.
    pub(crate) fn add(&mut self, next: Self) {
        self.tables.extend(next.tables);
        self.references.add_all(&next.references);
        self.newly_obsolete.add_all(&next.newly_obsolete);
    }

    /// Adds what `runs` left out as they were made.
    pub(crate) fn add_dropped(&mut self, runs: &[Arc<Run>]) {
        for run in runs {
            self.references.add_all(&run.dropped().references);
        }
    }
}

/// A flush in progress. Its parts, neighbouring key ranges, are taken one by one by idle threads.
#[derive(Debug)]
pub(crate) struct Flush {
    /// Newest first.
    pub(crate) runs: Vec<Arc<Run>>,
    pub(crate) segments: Arc<SegmentMap>,
    /// The tables below.
    pub(crate) levels: Arc<Levels>,
    pub(crate) tombstones: FragmentList,
    pub(crate) rules: Rules,
    pub(crate) form: OutputForm,
    pub(crate) stem: String,
    pub(crate) parts: Parts,
}

/// Key ranges of a flush that are written apart, and what came of each.
#[derive(Debug)]
pub(crate) struct Parts {
    ranges: Vec<KeyRange>,
    /// `None` until a part has ended.
    results: Mutex<Vec<Option<Result<Written>>>>,
    finished: Condvar,
}

impl Parts {
    /// Parts over `ranges`, at least one, in order of keys.
    pub(crate) fn new(ranges: Vec<KeyRange>) -> Self {
        let results = Mutex::new(ranges.iter().map(|_| None).collect());
        Self { ranges, results, finished: Condvar::new() }
    }

    pub(crate) fn count(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn range(&self, part: usize) -> &KeyRange {
        &self.ranges[part]
    }

    /// `part` has ended with `result`.
    pub(crate) fn end(&self, part: usize, result: Result<Written>) {
        self.lock()[part] = Some(result);
        self.finished.notify_all();
    }

    /// Blocks until every part has ended; what all have written, and the error of the first part
    /// that failed.
    pub(crate) fn wait(&self) -> (Written, Result<()>) {
        let results = self.lock();
        let mut results = self
            .finished
            .wait_while(results, |results| results.iter().any(Option::is_none))
            .unwrap_or_else(PoisonError::into_inner);
        let (mut written, mut done) = (Written::default(), Ok(()));
        for result in results.drain(..).flatten() {
            match result {
                Ok(part) => written.add(part),
                Err(error) => done = done.and(Err(error)),
            }
        }
        (written, done)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Result<Written>>>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
