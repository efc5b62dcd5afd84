//! Uploads of outputs that nothing waits for any more.
//!
//! A file that goes to an object store in parts is an upload until it is whole. A process that is
//! killed amid that leaves the upload, which no list of files has and which is paid for. It has the
//! name that the file was to have, so that the same rule tells whether anything waits for it.

use firn_storage::backend::UnfinishedUpload;
use firn_storage::{ErrorKind, Result, Storage};

/// Uploads that a backend has listed.
#[derive(Debug)]
pub struct Uploads {
    listed: Result<Vec<UnfinishedUpload>>,
}

/// How far an attempt to abort uploads goes.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    uploads: usize,
    /// Failures that may pass. Each may have taken as long as a backend tries again.
    failures: usize,
}

impl Reach {
    /// Of an opening, for which users wait.
    pub const OPENING: Self = Self { uploads: 32, failures: 1 };
    /// Of orphan GC. One upload that the backend cannot abort keeps no other from it.
    pub const ORPHAN_GC: Self = Self { uploads: usize::MAX, failures: 3 };
}

/// What became of uploads that nothing waits for.
#[derive(Debug, Default)]
pub struct Aborted {
    /// Uploads that the backend has forgotten.
    pub count: u64,
    /// Why some may be there still, in words.
    pub refusal: Option<String>,
    /// Whether what failed may not fail again.
    pub may_pass: bool,
}

impl Uploads {
    /// Asks `storage`. Blocks for a list.
    pub fn list(storage: &dyn Storage) -> Self {
        Self { listed: storage.unfinished_uploads() }
    }

    /// Forgets those of files of which `is_orphan` does not hold.
    pub fn retain(&mut self, is_orphan: impl Fn(&str) -> bool) {
        if let Ok(uploads) = &mut self.listed {
            uploads.retain(|upload| is_orphan(&upload.name));
        }
    }

    /// Has `storage` forget them, as far as `reach` goes, until `is_stopping`. Blocks for a request
    /// each. What fails is in the answer, and is no error.
    pub fn abort(self, storage: &dyn Storage, reach: Reach, is_stopping: impl Fn() -> bool) -> Aborted {
        let mut aborted = Aborted::default();
        let uploads = self.listed.unwrap_or_else(|error| {
            aborted.fail(&error);
            Vec::new()
        });
        let mut failures = 0;
        for (tried, upload) in uploads.iter().enumerate() {
            if is_stopping() || failures >= reach.failures {
                break;
            }
            if tried >= reach.uploads {
                aborted.refusal = Some(format!("there are more than {tried}: the others are aborted later"));
                aborted.may_pass = true;
                break;
            }
            match storage.abort_upload(upload) {
                Ok(()) => aborted.count += 1,
                // The process that began it has ended it, or the store has.
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => {
                    aborted.fail(&error);
                    if error.kind == ErrorKind::Invalid {
                        // The next one would be answered the same.
                        break;
                    }
                    failures += 1;
                }
            }
        }
        aborted
    }
}

impl Aborted {
    fn fail(&mut self, error: &firn_storage::Error) {
        self.refusal = Some(error.to_string());
        self.may_pass |= error.kind != ErrorKind::Invalid;
    }
}
