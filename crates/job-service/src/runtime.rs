//! The thread on which messages are sent and come in.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use firn_storage::{Error, ErrorKind, Priority, Result, Spawn};
use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::sync::oneshot;

/// One thread that runs tasks; it ends with the last clone, and drops what still runs.
#[derive(Clone, Debug)]
pub(crate) struct Runtime {
    handle: Handle,
    _end: Arc<oneshot::Sender<()>>,
}

/// Threads of the resolver of names have so long to end. Each is joined: of a thread that ends
/// detached the C library (glibc 2.36) reads freed memory, which was seen to end a process.
const END_MAX: Duration = Duration::from_secs(1);

impl Runtime {
    /// Starts the thread, called `name`.
    ///
    /// # Errors
    /// `Io` if the system gives no thread, or nothing to wait for sockets with.
    pub(crate) fn start(name: &str, spawn: &dyn Spawn) -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::new(ErrorKind::Io, "", format!("cannot wait for sockets: {error}")))?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let body = Box::new(move || {
            // Either way no part of this process asks any more.
            let _dropped = runtime.block_on(ended);
            runtime.shutdown_timeout(END_MAX);
        });
        spawn.spawn(name.to_owned(), Priority::Normal, body)?;
        Ok(Self { handle, _end: Arc::new(end) })
    }

    /// Does `future` on the thread.
    pub(crate) fn begin(&self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(future));
    }

    /// The calling thread may make what needs a runtime while it keeps this.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Blocks the calling thread, which MUST not be a runtime's, until `future` is done.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.handle.block_on(future)
    }
}
