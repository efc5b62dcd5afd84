//! Standard output and standard error. A reader that goes away, or a terminal that is closed, ends
//! no program with a panic.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use crate::ending::{Ending, Failure, Result};

/// Writes a line to standard error at once. A closed standard error is no failure.
pub(crate) fn report(line: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The same to standard output, of a program that runs on: whatever started it may read the line
/// through a pipe.
pub(crate) fn announce(line: impl fmt::Display) {
    let mut out = io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Buffered standard output that formatted text and raw bytes go to.
pub(crate) struct Output {
    out: BufWriter<StdoutLock<'static>>,
    /// The first error; later writes do nothing.
    error: Option<io::Error>,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { out: BufWriter::with_capacity(64 << 10, io::stdout().lock()), error: None }
    }

    /// Whether a person reads it, and no program.
    pub(crate) fn is_terminal(&self) -> bool {
        self.out.get_ref().is_terminal()
    }

    /// Writes `bytes` as they are; `false` once output is refused, so that the caller may stop
    /// early.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> bool {
        if self.error.is_none() {
            self.error = self.out.write_all(bytes).err();
        }
        self.error.is_none()
    }

    /// Writes `text` and a newline; as [`bytes`](Self::bytes).
    pub(crate) fn line(&mut self, text: &str) -> bool {
        self.bytes(text.as_bytes()) && self.bytes(b"\n")
    }

    /// Hands everything to the system; `Ok` also if the reader has gone away (`| head`).
    pub(crate) fn finish(mut self) -> Result<()> {
        let error = self.error.take().or_else(|| self.out.flush().err());
        match error {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::new(Ending::Failed, format!("cannot write to standard output: {error}")))
            }
            _ => Ok(()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.bytes(bytes) {
            true => Ok(bytes.len()),
            // The error itself is told at the end.
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.bytes(text.as_bytes()) { Ok(()) } else { Err(fmt::Error) }
    }
}
