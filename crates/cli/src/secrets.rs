//! Files that hold secrets: warned of where every user of the machine can read them.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The right of all users to read a file.
const READ_BY_ALL: u32 = 0o004;

/// Warns on standard error if `file`, which holds a secret, can be read by every user of this
/// machine.
pub(crate) fn warn_if_open(file: Option<&Path>, what: &str) {
    let Some(file) = file else { return };
    // What cannot be looked at cannot be read either, which is told where it is read.
    let is_open = file.metadata().is_ok_and(|found| found.permissions().mode() & READ_BY_ALL != 0);
    if is_open {
        let shown = file.display();
        // A process whose standard error is gone works on.
        let _ = writeln!(
            std::io::stderr(),
            "firn: every user of this machine can read {what} in {shown}: chmod 600 {shown}"
        );
    }
}
