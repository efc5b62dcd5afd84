//! What a worker may touch.

mod progress;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_format::file_name::file_of;
use firn_jobs::{Control, JobSpec, is_output_of};
use firn_storage::backend::UnfinishedUpload;
use firn_storage::{Clock, Error, ErrorKind, FileBytes, ReadFile, Result, Storage, StorageLock, WriteFile};

pub(crate) use progress::Progress;

/// A backend as one attempt at one job may use it. It reads the files that the spec names, creates
/// files under the attempt's stem and reads those. It removes, renames, lists, publishes and locks
/// nothing, whatever the code of the job does. It ends no upload but its own.
///
/// Counts what is read and written, to tell how far the attempt is. Once the attempt is stopped it
/// begins nothing more. What is left is the one operation that it hangs in, of a file in parts
/// several requests.
#[derive(Debug)]
pub struct Scoped {
    inner: Arc<dyn Storage>,
    inputs: BTreeSet<String>,
    stem: String,
    progress: Arc<Progress>,
}

impl Scoped {
    /// `backend` for an attempt at `spec`, which has the attempt's stem.
    pub fn new(backend: Arc<dyn Storage>, spec: &JobSpec, clock: Arc<dyn Clock>) -> Self {
        Self::until(&Control::new(), backend, spec, clock)
    }

    /// The same until `control` is cancelled.
    pub(crate) fn until(
        control: &Control,
        backend: Arc<dyn Storage>,
        spec: &JobSpec,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let names = spec.input_files().into_keys().map(|name| file_of(name).to_owned());
        let inputs = names.collect();
        let progress = Progress::new(control.clone(), clock);
        Self { inner: backend, inputs, stem: spec.output_stem().to_owned(), progress: Arc::new(progress) }
    }

    pub(crate) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// What `open` opens, if the attempt may read it.
    fn opened(
        &self,
        name: &str,
        open: impl FnOnce() -> Result<Arc<dyn ReadFile>>,
    ) -> Result<Arc<dyn ReadFile>> {
        let is_input = self.inputs.contains(name);
        if !is_input && !is_output_of(name, &self.stem) {
            return Err(denied(name, "read what its job does not name"));
        }
        let inner = self.progress.during_open(is_input, open)?;
        Ok(Arc::new(Counted { inner, is_input, progress: Arc::clone(&self.progress) }))
    }
}

fn denied(name: &str, what: &str) -> Error {
    Error::new(ErrorKind::Invalid, name, format!("a worker may not {what}"))
}

impl Storage for Scoped {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        if !is_output_of(name, &self.stem) {
            return Err(denied(name, "create what is not under its attempt's stem"));
        }
        let inner = self.progress.during_write(|| self.inner.create(name))?;
        let progress = Arc::clone(&self.progress);
        Ok(Arc::new(Written { inner, progress, unsynced: AtomicU64::new(0) }))
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        Err(denied(name, "write over a file"))
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.opened(name, || self.inner.open_read(name))
    }

    fn open_read_known(&self, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        self.opened(name, || self.inner.open_read_known(name, bytes))
    }

    fn publish(&self, name: &str, _bytes: &[u8]) -> Result<()> {
        Err(denied(name, "publish"))
    }

    fn rename(&self, from: &str, _to: &str) -> Result<()> {
        Err(denied(from, "rename a file"))
    }

    fn remove(&self, name: &str) -> Result<()> {
        Err(denied(name, "remove a file"))
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        Err(denied("", "list files"))
    }

    fn sync_dir(&self) -> Result<()> {
        self.progress.during_sync(|| self.inner.sync_dir())
    }

    fn lock(&self, _exclusive: bool) -> Result<Box<dyn StorageLock>> {
        Err(denied("", "take a database"))
    }

    fn link_into(&self, _names: &[String], _path: &Path) -> Result<Arc<dyn Storage>> {
        Err(denied("", "link files"))
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        self.inner.free_bytes()
    }

    fn unfinished_uploads(&self) -> Result<Vec<UnfinishedUpload>> {
        Err(denied("", "list uploads"))
    }

    fn abort_upload(&self, upload: &UnfinishedUpload) -> Result<()> {
        Err(denied(&upload.name, "abort an upload of another worker"))
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// A file that is read, and how much of it.
#[derive(Debug)]
struct Counted {
    inner: Arc<dyn ReadFile>,
    is_input: bool,
    progress: Arc<Progress>,
}

impl ReadFile for Counted {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match self.is_input {
            true => self.progress.during_read(out.len() as u64, || self.inner.read_at(offset, out)),
            false => self.progress.during_read_back(out.len() as u64, || self.inner.read_at(offset, out)),
        }
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        if self.progress.check().is_ok() {
            self.inner.will_need(offset, bytes);
        }
    }

    fn will_look_up(&self, offset: u64, bytes: u64) {
        if self.progress.check().is_ok() {
            self.inner.will_look_up(offset, bytes);
        }
    }

    /// Never: a file that another machine truncates would end the process that has it mapped, and
    /// nothing would be counted.
    fn bytes(&self) -> Result<Option<FileBytes>> {
        Ok(None)
    }
}

/// A file that is written, and how much of it.
#[derive(Debug)]
struct Written {
    inner: Arc<dyn WriteFile>,
    progress: Arc<Progress>,
    /// Bytes that were written since the last sync.
    unsynced: AtomicU64,
}

impl Written {
    fn count(&self, bytes: &[u8]) {
        self.progress.count_written(bytes.len() as u64);
        self.unsynced.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }
}

impl WriteFile for Written {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.progress.during_write(|| self.inner.write_at(offset, bytes))?;
        self.count(bytes);
        Ok(())
    }

    fn write_zeroing(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.progress.during_write(|| self.inner.write_zeroing(offset, bytes))?;
        self.count(bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.progress.during_write(|| self.inner.read_at(offset, out))
    }

    fn sync(&self) -> Result<()> {
        self.progress.during_sync(|| self.inner.sync())?;
        self.progress.count_synced(self.unsynced.swap(0, Ordering::Relaxed));
        Ok(())
    }

    fn write_back(&self, offset: u64, bytes: u64) -> Result<()> {
        self.progress.during_write(|| self.inner.write_back(offset, bytes))
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.progress.during_write(|| self.inner.allocate(bytes))
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.progress.during_write(|| self.inner.set_len(bytes))
    }
}

#[cfg(test)]
mod tests {
    use firn_jobs::CompactSpec;
    use firn_storage::SystemClock;
    use firn_storage::backend::{Faulty, Memory};

    use super::*;

    #[test]
    fn an_attempt_that_was_stopped_does_nothing_more() {
        let faulty = Arc::new(Faulty::new(Arc::new(Memory::new())));
        let spec: JobSpec = CompactSpec { output_stem: "out".to_owned(), ..Default::default() }.into();
        let control = Control::new();
        let backend: Arc<dyn Storage> = Arc::<Faulty>::clone(&faulty);
        let scoped = Scoped::until(&control, backend, &spec, Arc::new(SystemClock::new()));
        let (name, other) = ("out-000000.table", "out-000001.table");
        let written = scoped.create(name).unwrap();
        written.write_at(0, &[1; 10]).unwrap();
        let read = scoped.open_read(name).unwrap();
        control.cancel();
        let before = faulty.counters();
        let answers = [
            written.write_at(10, &[1; 10]),
            written.write_zeroing(10, &[1; 10]),
            written.read_at(0, &mut [0; 4]),
            written.sync(),
            written.write_back(0, 10),
            written.allocate(100),
            written.set_len(5),
            read.read_at(0, &mut [0; 4]),
            scoped.create(other).map(drop),
            scoped.open_read(name).map(drop),
            scoped.open_read_known(name, 10).map(drop),
            scoped.sync_dir(),
        ];
        for (at, answer) in answers.into_iter().enumerate() {
            assert!(answer.is_err_and(|error| error.kind == ErrorKind::Refused), "{at}");
        }
        assert_eq!(faulty.counters(), before);
    }

    /// Counts what is asked for ahead.
    #[derive(Debug, Default)]
    struct Asked(AtomicU64);

    impl ReadFile for Asked {
        fn len(&self) -> u64 {
            10
        }

        fn read_at(&self, _offset: u64, _out: &mut [u8]) -> Result<()> {
            Ok(())
        }

        fn will_need(&self, _offset: u64, _bytes: u64) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn bytes(&self) -> Result<Option<FileBytes>> {
            Ok(None)
        }
    }

    #[test]
    fn an_attempt_that_was_stopped_asks_for_nothing_ahead() {
        let (control, asked) = (Control::new(), Arc::new(Asked::default()));
        let spec: JobSpec = CompactSpec::default().into();
        let scoped = Scoped::until(&control, Arc::new(Memory::new()), &spec, Arc::new(SystemClock::new()));
        let inner: Arc<dyn ReadFile> = Arc::<Asked>::clone(&asked);
        let file = Counted { inner, is_input: true, progress: Arc::clone(&scoped.progress) };
        let ask = || {
            file.will_need(0, 5);
            file.will_look_up(5, 5);
            asked.0.load(Ordering::Relaxed)
        };
        assert_eq!(ask(), 2);
        control.cancel();
        assert_eq!(ask(), 2);
    }
}
