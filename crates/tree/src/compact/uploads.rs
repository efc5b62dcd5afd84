//! Uploads of outputs that nobody waits for any more.
//!
//! A file that goes to an object store in parts is an upload until it is whole. Of whoever is killed amid that the upload stays, which no list of
//! files has and which is paid for. What it was to become has the same name as a file would, so that the same tells whether anybody waits for it.

use firn_storage::place::UnfinishedUpload;
use firn_storage::{ErrorKind, Result, Storage};

/// Uploads that a place has told.
#[derive(Debug)]
pub(crate) struct Uploads {
    told: Result<Vec<UnfinishedUpload>>,
}

/// What became of uploads that nobody waits for.
#[derive(Debug, Default)]
pub(crate) struct Aborted {
    pub(crate) count: u64,
    /// Why some may be there still, in words.
    pub(crate) refusal: Option<String>,
    /// Whether what failed may not fail again.
    pub(crate) may_pass: bool,
}

impl Uploads {
    /// Asks `storage`. Blocks for a list.
    pub(crate) fn list(storage: &dyn Storage) -> Self {
        Self { told: storage.unfinished_uploads() }
    }

    /// Forgets those of files of which `is_orphan` does not hold.
    pub(crate) fn retain(&mut self, is_orphan: impl Fn(&str) -> bool) {
        if let Ok(uploads) = &mut self.told {
            uploads.retain(|upload| is_orphan(&upload.name));
        }
    }

    /// Has `storage` forget them, until `is_enough`. Blocks for a request each. What fails is told, and is nobody's error.
    pub(crate) fn abort(self, storage: &dyn Storage, is_enough: impl Fn(&Aborted) -> bool) -> Aborted {
        let mut aborted = Aborted::default();
        match self.told {
            Err(error) => aborted.fail(&error),
            Ok(uploads) => {
                for upload in uploads {
                    if is_enough(&aborted) {
                        break;
                    }
                    match storage.abort_upload(&upload) {
                        Ok(()) => aborted.count += 1,
                        // Whoever began it has ended it, or the store has.
                        Err(error) if error.kind == ErrorKind::NotFound => {}
                        Err(error) => aborted.fail(&error),
                    }
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
