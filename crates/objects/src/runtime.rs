//! The thread that talks with object stores.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firn_storage::{Error, ErrorKind, Priority, Result, Spawn};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// One thread on which requests are sent and answers come in, for any number of backends. The
/// calling thread waits for its answer. Cheap to clone; the thread ends with the last clone.
#[derive(Clone, Debug)]
pub struct Runtime {
    handle: Handle,
    _end: Arc<oneshot::Sender<()>>,
}

/// Threads of the resolver of names have so long to end. Each is joined: of a thread that ends
/// detached the C library (glibc 2.36) reads freed memory, which was seen to end a process.
const END_MAX: Duration = Duration::from_secs(1);

impl Runtime {
    /// Starts the thread. The system's resolver of names may start a few more while it is asked.
    ///
    /// # Errors
    /// `Io` if the system gives no thread, or nothing to wait for sockets with.
    pub fn start(spawn: &dyn Spawn) -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::new(ErrorKind::Io, "", format!("cannot wait for sockets: {error}")))?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let body = Box::new(move || {
            // Either way no backend is left that asks.
            let _dropped = runtime.block_on(ended);
            runtime.shutdown_timeout(END_MAX);
        });
        spawn.spawn("firn-objects".to_owned(), Priority::Normal, body)?;
        Ok(Self { handle, _end: Arc::new(end) })
    }

    /// Blocks the calling thread until `future` is done.
    ///
    /// # Panics
    /// On a thread that runs asynchronous tasks: those must not be blocked.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.handle.block_on(future)
    }

    /// Does `future` while the caller goes on.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.handle.spawn(future)
    }
}

/// A [`Runtime`] that starts when it is wanted first. Any number of backends share its one thread,
/// and there is none where no backend is an object store.
#[derive(Debug)]
pub struct LazyRuntime {
    spawn: Arc<dyn Spawn>,
    started: Mutex<Option<Runtime>>,
}

impl LazyRuntime {
    /// A runtime with a thread that `spawn` will start.
    pub fn new(spawn: Arc<dyn Spawn>) -> Self {
        Self { spawn, started: Mutex::default() }
    }

    /// The runtime, started if it was not.
    ///
    /// # Errors
    /// As for [`Runtime::start`].
    pub fn get(&self) -> Result<Runtime> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*started {
            return Ok(runtime.clone());
        }
        Ok(started.insert(Runtime::start(&*self.spawn)?).clone())
    }
}
