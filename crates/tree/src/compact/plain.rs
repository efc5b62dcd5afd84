//! A compaction that failed the same way it would each time, done once more in a plainer form.
//!
//! Everything that may differ does: it runs here and not where the owner has compactions done, and
//! in one part. Its outputs are smaller and not compressed. A fault in one of those is got around,
//! and only the counter of compactions tells of it. The next compaction of its outputs is an
//! ordinary one.

use firn_engine::{Error, Result};
use firn_format::compression::Compression as Codec;
use firn_jobs::{CompactSpec, JobSpec, caught, run, verify_all};

use super::Compacting;
use super::blobs::{HeldPolicy, blob_policy};
use super::run::rewritten;
use crate::blob_gc::references_of;
use crate::error::{from_job, said_by_storage};
use crate::maintenance::Choice;
use firn_maintenance::{Answer, answer_to, unreadable_file};

/// Ordinary outputs have so many times the bytes.
const SMALLER: u64 = 4;

impl Compacting<'_> {
    /// Whether `choice`, which failed with `error`, may come off in another form. It may if it
    /// fails the same way each time, and neither by what an input holds nor by the device.
    pub(super) fn may_differ_plainly(&self, choice: &Choice, error: &Error) -> bool {
        let names_input = |file: &str| {
            choice.inputs.iter().any(|(_, _, table)| table.meta().file == file)
                || self.edits.blobs.map().has_sealed(file)
        };
        answer_to(error) == Answer::SetAside
            && said_by_storage(error) != Some(firn_storage::ErrorKind::Io)
            && !unreadable_file(error).is_some_and(names_input)
            && !self.maintenance.is_stopping()
    }

    /// Rewrites the tables of `choice` on this thread, in one part, and commits.
    ///
    /// # Errors
    /// What the job or the commit failed with; no output is left then.
    pub(super) fn compact_plainly(&self, keyspace: u32, choice: &Choice) -> Result<()> {
        let mut names = self.maintenance.output_names.hold();
        let version = self.edits.catalog.version.load_full();
        let Ok(state) = version.keyspace(keyspace) else { return Ok(()) };
        let inputs = || choice.inputs.iter().map(|(_, _, table)| table);
        let going = references_of(inputs())?;
        let Some(HeldPolicy { mut policy, held: _held }) =
            blob_policy(self.edits.catalog, self.edits.blobs, state, inputs(), &going)?
        else {
            return Ok(());
        };
        if let Some(values) = &mut policy {
            values.output = (values.separate_bytes < u32::MAX).then(|| self.edits.blobs.next_number());
            values.compression = Codec::None;
        }
        let mut spec = CompactSpec { values: policy, ..self.spec(state, choice, &[], names.draw()) };
        spec.output.compression = Codec::None;
        spec.output.table_bytes_target = (spec.output.table_bytes_target / SMALLER).max(1);
        drop(version);
        let job = JobSpec::from(spec.clone());
        let done = caught("a compaction", || {
            run(&job, &*self.edits.files.job_outputs, self.semantics, &self.maintenance.control)
        })
        .and_then(firn_jobs::JobResult::into_compact)
        .and_then(|result| {
            let jobs = [(spec.clone(), result)];
            verify_all(&jobs)?;
            let [(_, result)] = jobs;
            Ok(result)
        });
        if done.is_err() {
            self.edits.files.remove_outputs(&self.maintenance.jobs, &[spec.output_stem.clone()]);
        }
        let results = vec![done.map_err(from_job)?];
        let is_last = spec.rules.older_overlap.is_empty();
        self.commit_choice(choice, rewritten(keyspace, choice, results, going, is_last))
    }
}
