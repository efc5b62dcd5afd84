//! Which names a file may have.

use crate::{Error, ErrorKind, Result};

/// The file a directory is locked by; never listed, never a name for anything else.
pub(crate) const LOCK_FILE: &str = "LOCK";

/// The file in which bytes wait on their way into others; never listed, never a name for anything
/// else.
pub(crate) const COMBINER_FILE: &str = firn_format::file_name::COMBINER;

const NAME_BYTES_MAX: usize = 100;

/// `Invalid` unless `name` is one that every backend can hold; for implementations of backends.
pub fn check(name: &str) -> Result<()> {
    if is_allowed(name) {
        return Ok(());
    }
    let rule = "a file name is 1 to 100 ASCII letters, digits, '.', '-' and '_', starts with no dot and is not LOCK or COMBINER";
    Err(Error::new(ErrorKind::Invalid, name, rule))
}

/// Whether every backend can hold a file called `name`.
pub(crate) fn is_allowed(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with('.')
        && name != LOCK_FILE
        && name != COMBINER_FILE
        && name.bytes().all(allowed)
}
