//! Filling a region from what an earlier process left.

use std::fmt;
use std::io;

/// Why a region could not be loaded.
#[derive(Debug)]
pub enum LoadError<E> {
    /// No memory for it.
    Map(io::Error),
    /// What the filling closure returned.
    Fill(E),
}

impl<E: fmt::Display> fmt::Display for LoadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Map(error) => write!(f, "cannot map a region: {error}"),
            Self::Fill(error) => write!(f, "cannot fill a region: {error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for LoadError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Map(error) => Some(error),
            Self::Fill(error) => Some(error),
        }
    }
}
