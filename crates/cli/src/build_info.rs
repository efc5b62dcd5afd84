//! Which build of which release this program is.

use firn_server::Build;

/// As `firn --version`, INFO, metrics and the lists of jobs tell it.
pub(crate) const BUILD: Build = Build { version: env!("CARGO_PKG_VERSION"), commit: env!("FIRN_COMMIT") };

/// The same with the program's name.
pub(crate) fn name() -> String {
    format!("firn {BUILD}")
}
