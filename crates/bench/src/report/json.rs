//! Results as JSON: an array of one object per (engine, workload, repetition).

use std::path::Path;

use firn_engine::{Error, ErrorKind, Result};

use super::PhaseResult;

/// Writes `results` to `path`, replacing the file; one object per line.
///
/// # Errors
/// `Invalid` if the file cannot be written.
pub fn write_json(path: &Path, results: &[PhaseResult]) -> Result<()> {
    let lines: Vec<String> = results
        .iter()
        .map(serde_json::to_string)
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| Error::bug("a result has no JSON form").because(error))?;
    let text = format!("[\n{}\n]\n", lines.join(",\n"));
    write_text(path, &text)
}

/// Writes `text` to `path`, replacing the file.
///
/// # Errors
/// `Invalid` if the file cannot be written.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| {
        Error::new(ErrorKind::Invalid, format!("cannot write {}", path.display())).because(error)
    })
}
