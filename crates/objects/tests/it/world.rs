//! A server and backends on it.

use std::sync::Arc;

use firn_objects::{ObjectBackend, ObjectOptions, Runtime};
use firn_s3_server::{S3Server, ServerOptions};
use firn_storage::{Clock, SystemClock, ThreadSpawn};
use tempfile::TempDir;

pub(crate) const BUCKET: &str = "firn-test";

/// Parts as small as S3 allows.
pub(crate) const PART_BYTES: usize = 5 << 20;

/// An S3 server with one bucket, and the thread that talks with it.
pub(crate) struct World {
    pub(crate) server: S3Server,
    pub(crate) runtime: Runtime,
    pub(crate) directory: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        S3Server::make_bucket(directory.path(), BUCKET).unwrap();
        let server = S3Server::start(directory.path(), ServerOptions::default()).unwrap();
        Self { server, runtime: runtime(), directory }
    }

    pub(crate) fn options(&self, prefix: &str) -> ObjectOptions {
        let mut options = ObjectOptions::new(format!("s3://{BUCKET}/{prefix}"));
        for (name, value) in self.server.settings() {
            options.settings.insert(name.to_owned(), value);
        }
        options.part_bytes = PART_BYTES;
        options
    }

    pub(crate) fn backend(&self, prefix: &str) -> ObjectBackend {
        ObjectBackend::open(&self.options(prefix), &self.runtime).unwrap()
    }
}

pub(crate) fn runtime() -> Runtime {
    Runtime::start(&ThreadSpawn::new()).unwrap()
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}
