//! Files that nothing needs any more, and their removal.

use firn_engine::{Error, ErrorKind, Result};
use firn_storage::Storage;

/// Removes the files `names`, all that it can; what is not there is passed over.
///
/// # Errors
/// `Retry`, with the first cause, where a file is left: nothing is wrong but the space it takes.
/// What is tried again, or the next opening, removes it.
pub(crate) fn remove_needless(storage: &dyn Storage, names: impl Iterator<Item = String>) -> Result<()> {
    let mut first = None;
    for name in names {
        match storage.remove(&name) {
            Err(error) if error.kind != firn_storage::ErrorKind::NotFound => {
                first = first.or(Some((name, error)));
            }
            _ => {}
        }
    }
    match first {
        None => Ok(()),
        Some((name, error)) => {
            let message = format!("{name} is needless, and cannot be removed yet: {error}");
            Err(Error::new(ErrorKind::Retry, message))
        }
    }
}
