//! Compactions of many keyspaces that hold little, done together: one file, one sync, one edit.
//!
//! ```text
//!   tables of a ─► table ─┐
//!   tables of b ─► table ─┼─► parts of one file ─► sync ─► one edit ─► one version
//!   a table of c ─► another level ────────────────────────────┘
//! ```
//! They are done on this thread, where no executor was given. If one fails none is done, and that
//! one is tried alone from then on, as an ordinary compaction. Keyspaces with separated values
//! always have their tables rewritten alone.

use firn_engine::{Error, ErrorKind, Result};
use firn_format::table::ReferenceSet;
use firn_jobs::{CompactResult, CompactSpec, JobResult, JobSpec, caught, run, verify_all};
use firn_storage::backend::PartsWriter;

use super::Compacting;
use super::run::{moved, rewritten};
use crate::counters::count;
use crate::edits::BeingWritten;
use crate::edits::Edit;
use crate::error::{from_job, from_storage};
use crate::maintenance::{Choice, OfKeyspace, TaskKind};
use crate::version::Keyspace;
use crate::version::set::separate_bytes;

/// Bytes of the inputs of a compaction that is done together with others, at most.
const SMALL_BYTES_MAX: u64 = 1 << 20;

/// The same of all of them, about, and how many there are at most: a call that compacts a range
/// waits for them.
const TOGETHER_BYTES_MAX: u64 = 32 << 20;
const TOGETHER_COUNT_MAX: usize = 512;

/// Fewer are done one by one.
const TOGETHER_COUNT_MIN: usize = 4;

impl Compacting<'_> {
    /// Whether `choice` of `keyspace` may be done together with others.
    pub(crate) fn is_small(&self, keyspace: &Keyspace, choice: &Choice) -> bool {
        let is_plain =
            !keyspace.levels.has_references() && separate_bytes(keyspace, self.settings) == u32::MAX;
        self.edits.files.may_share_tables()
            && self.maintenance.jobs.chain.is_none()
            && (choice.moves || is_plain && choice.input_bytes() <= SMALL_BYTES_MAX)
    }

    /// Does `choices`, of different keyspaces, and commits them together.
    ///
    /// # Errors
    /// `Retry` when the disk is full; what the first one to fail says. Nothing changed then.
    pub(crate) fn compact_small(&self, choices: &[OfKeyspace]) -> Result<()> {
        let (moves, rewrites): (Vec<_>, Vec<_>) = choices.iter().partition(|(_, choice)| choice.moves);
        let mut edits: Vec<Edit> = moves.iter().map(|(keyspace, choice)| moved(*keyspace, choice)).collect();
        if rewrites.is_empty() {
            return self.edits.commit_together(&edits);
        }
        let mut names = self.maintenance.output_names.hold();
        let stem = names.draw();
        let file = PartsWriter::create(&*self.edits.files.storage, &stem).map_err(from_storage)?;
        let held = BeingWritten::new(self.edits.files, &self.maintenance.jobs, file.name());
        for (index, (keyspace, choice)) in rewrites.iter().enumerate() {
            if self.maintenance.is_stopping() {
                return Err(Error::new(ErrorKind::Retry, "the database is being closed"));
            }
            let stem = format!("{stem}-{index}");
            let edit = self.rewrite_small(*keyspace, choice, stem, &file).inspect_err(|error| {
                self.maintenance.let_rest((TaskKind::Compact, *keyspace), error.clone(), self.clock.now());
            })?;
            edits.extend(edit);
        }
        file.sync().map_err(from_storage)?;
        let bytes = file.len();
        let committed = self.edits.commit_together(&edits);
        held.after(&committed, bytes);
        committed?;
        count(&self.maintenance.counters.compaction_write_bytes, bytes);
        let read = rewrites.iter().map(|(_, choice)| choice.input_bytes()).sum();
        count(&self.maintenance.counters.compaction_read_bytes, read);
        count(&self.maintenance.counters.compaction_count, rewrites.len() as u64);
        self.edits.pipeline.admission.release();
        Ok(())
    }

    /// Rewrites the tables of `choice` to parts of `file`; `None` if the keyspace was dropped.
    fn rewrite_small(
        &self,
        keyspace: u32,
        choice: &Choice,
        stem: String,
        file: &PartsWriter<'_>,
    ) -> Result<Option<Edit>> {
        let version = self.edits.catalog.version.load_full();
        let Ok(state) = version.keyspace(keyspace) else { return Ok(None) };
        let spec: CompactSpec = self.spec(state, choice, &[], stem);
        drop(version);
        let job = JobSpec::from(spec.clone());
        let done = caught("a compaction", || run(&job, file, self.semantics, &self.maintenance.control))
            .and_then(JobResult::into_compact)
            .and_then(|result| {
                let jobs = [(spec.clone(), result)];
                verify_all(&jobs)?;
                let [(_, result)] = jobs;
                Ok(result)
            });
        let mut result: CompactResult = done.map_err(from_job)?;
        for table in &mut result.tables {
            table.file = file.part_name(&table.file).map_err(from_storage)?;
        }
        let is_last = spec.rules.older_overlap.is_empty();
        Ok(Some(rewritten(keyspace, choice, vec![result], ReferenceSet::default(), is_last)))
    }
}

/// Of `choices` the most urgent that fit together; none if they are too few.
pub(crate) fn together(mut choices: Vec<OfKeyspace>) -> Vec<OfKeyspace> {
    choices.sort_by(|a, b| b.1.score.total_cmp(&a.1.score));
    let mut bytes = 0;
    choices.retain(|(_, choice)| {
        bytes += if choice.moves { 0 } else { choice.input_bytes() };
        bytes <= TOGETHER_BYTES_MAX
    });
    choices.truncate(TOGETHER_COUNT_MAX);
    if choices.len() < TOGETHER_COUNT_MIN { Vec::new() } else { choices }
}
