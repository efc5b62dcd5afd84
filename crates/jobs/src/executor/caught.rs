//! Work that may panic, on threads that go on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, ErrorKind, Result};

/// What `work` answers; if it panics, an error that says so, and what it panicked about.
///
/// What it was about to change is dropped with it: whatever it shares with others MUST bear to be
/// left so.
///
/// # Errors
/// `Panicked`, and what `work` says.
pub fn caught<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(Error::new(ErrorKind::Panicked, format!("{what} panicked: {}", said(&*panic))))
    })
}

/// What a panic was about.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("nothing was said")
}
