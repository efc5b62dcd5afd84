//! Jobs whose workers stand still for long, and know nothing of what happens meanwhile.

use fastrand::Rng;
use firn_jobs::{Control, Finisher, JobResult, Result};
use firn_storage::Storage;

use super::{outputs, read_result, serve};

/// A job that a worker stands still over.
#[derive(Debug)]
pub(super) struct Late {
    /// As it was sent.
    sent: Vec<u8>,
    finisher: Finisher,
    /// What the worker has of it if it had begun before: inputs are read, and nothing is written
    /// yet.
    begun: Option<Begun>,
}

#[derive(Debug)]
struct Begun {
    result: JobResult,
    files: Vec<(String, Vec<u8>)>,
}

impl Late {
    /// The worker stops here: before it begins, or when it is about to write, as `rng` says.
    pub(super) fn new(sent: Vec<u8>, finisher: Finisher, storage: &dyn Storage, rng: &mut Rng) -> Self {
        // What fails is tried again when it goes on.
        let begun = if rng.bool() { Begun::new(&sent, storage).ok() } else { None };
        Self { sent, finisher, begun }
    }

    /// The worker goes on, unless it hears (`is_notified`) that its answer is not waited for any
    /// more.
    pub(super) fn go_on(self, storage: &dyn Storage, is_notified: bool) {
        let Self { sent, finisher, begun } = self;
        let control = if is_notified { finisher.control().clone() } else { Control::new() };
        let result = match begun {
            Some(begun) if !control.is_cancelled() => begun.write(storage),
            _ => serve(&sent, storage, &control).and_then(|result| read_result(&result)),
        };
        finisher.finish(result);
    }
}

impl Begun {
    fn new(sent: &[u8], storage: &dyn Storage) -> Result<Self> {
        let result = read_result(&serve(sent, storage, &Control::new())?)?;
        let mut files = Vec::new();
        for (name, bytes) in outputs(&result) {
            let mut content = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
            storage.open_read(name)?.read_at(0, &mut content)?;
            storage.remove(name)?;
            files.push((name.to_owned(), content));
        }
        Ok(Self { result, files })
    }

    fn write(self, storage: &dyn Storage) -> Result<JobResult> {
        for (name, content) in &self.files {
            let file = storage.create(name)?;
            file.write_at(0, content)?;
            file.sync()?;
        }
        storage.sync_dir()?;
        Ok(self.result)
    }
}
