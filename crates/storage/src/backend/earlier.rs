//! Directories that an earlier build wrote.

use firn_format::file_name::is_of_earlier_build;

use crate::{Error, ErrorKind, Result};

/// Refuses a directory or a backend, which its user calls `location`, if a file among `names` is
/// one of a build before the first release. To open it would be to lose what those files hold.
///
/// # Errors
/// `Invalid`, with the file and what to do.
pub fn refuse_earlier_build<N: AsRef<str>>(location: &str, names: impl IntoIterator<Item = N>) -> Result<()> {
    let Some(name) = names.into_iter().find(|name| is_of_earlier_build(name.as_ref())) else { return Ok(()) };
    let message = format!(
        "an earlier build of Firn, from before the first release, wrote the database in {location}, and this build \
         does not read its files: copy the data out with that build, into a new database; nothing was changed"
    );
    Err(Error::new(ErrorKind::Invalid, name.as_ref(), message))
}
