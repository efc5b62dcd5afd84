//! Files whose making may be tried again.

use std::sync::Arc;

use firn_engine::Result;
use firn_storage::{ErrorKind, Storage, WriteFile};

use crate::error::from_storage;

/// A new file `name`, instead of one that a try which failed has left. Nothing may need that.
pub(crate) fn create_anew(storage: &dyn Storage, name: &str) -> Result<Arc<dyn WriteFile>> {
    let created = match storage.create(name) {
        Err(error) if error.kind == ErrorKind::Exists => {
            storage.remove(name).and_then(|()| storage.create(name))
        }
        created => created,
    };
    created.map_err(from_storage)
}
