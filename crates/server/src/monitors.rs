//! Clients that are shown every command.
//!
//! The server thread that runs a command writes a line once, and gives it to every server thread
//! that has such clients.

use std::sync::atomic::{AtomicUsize, Ordering};

use firn_protocol::command::Command;
use firn_protocol::resp::Arguments;

use crate::bounds::MONITOR_LINE_BYTES_MAX;
use crate::slow_log::{REDACTED, secrets};

/// How many clients of each server thread are shown everything.
#[derive(Debug)]
pub(crate) struct Monitors {
    counts: Vec<AtomicUsize>,
    total: AtomicUsize,
}

impl Monitors {
    /// None, of so many server threads.
    pub(crate) fn new(threads: usize) -> Self {
        Self { counts: (0..threads).map(|_| AtomicUsize::new(0)).collect(), total: AtomicUsize::new(0) }
    }

    /// Whether any client is shown commands.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.total.load(Ordering::Relaxed) > 0
    }

    /// Server threads that have such clients.
    pub(crate) fn threads(&self) -> impl Iterator<Item = usize> {
        let has_one =
            |(index, count): (usize, &AtomicUsize)| (count.load(Ordering::Acquire) > 0).then_some(index);
        self.counts.iter().enumerate().filter_map(has_one)
    }

    /// The server thread has one more.
    pub(crate) fn add(&self, thread: usize) {
        self.counts[thread].fetch_add(1, Ordering::AcqRel);
        self.total.fetch_add(1, Ordering::AcqRel);
    }

    /// The server thread has one less.
    pub(crate) fn remove(&self, thread: usize) {
        self.counts[thread].fetch_sub(1, Ordering::AcqRel);
        self.total.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What is shown of one command.
pub(crate) struct MonitorLine<'a> {
    pub(crate) unix_us: u64,
    pub(crate) database: u32,
    /// The address of the client that sent it.
    pub(crate) address: &'a str,
    pub(crate) command: &'static Command,
    pub(crate) arguments: Arguments<'a>,
}

impl MonitorLine<'_> {
    /// The line as it is sent: time, database, address, the command with its arguments in quotes.
    /// Where it would be too long, it says how much was left out.
    pub(crate) fn render(&self) -> Vec<u8> {
        let (seconds, micros) = (self.unix_us / 1_000_000, self.unix_us % 1_000_000);
        let mut line = format!("+{seconds}.{micros:06} [{} {}]", self.database, self.address).into_bytes();
        let is_secret = secrets(self.command, self.arguments);
        for (index, argument) in self.arguments.iter().enumerate() {
            if line.len() >= MONITOR_LINE_BYTES_MAX {
                let more = self.arguments.len() - index;
                line.extend_from_slice(format!(" ... ({more} more arguments)").as_bytes());
                break;
            }
            line.push(b' ');
            quote(if is_secret(index) { REDACTED } else { argument }, &mut line);
        }
        line.extend_from_slice(b"\r\n");
        line
    }
}

/// Appends `bytes` in quotes, with escapes for whatever would not be seen; of a line that is long
/// enough only how many more there are.
fn quote(bytes: &[u8], line: &mut Vec<u8>) {
    line.push(b'"');
    for (index, byte) in bytes.iter().enumerate() {
        if line.len() >= MONITOR_LINE_BYTES_MAX {
            let more = bytes.len() - index;
            line.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
            break;
        }
        match byte {
            b'\\' | b'"' => line.extend_from_slice(&[b'\\', *byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            0x07 => line.extend_from_slice(b"\\a"),
            0x08 => line.extend_from_slice(b"\\b"),
            b' '..=b'~' => line.push(*byte),
            other => line.extend_from_slice(format!("\\x{other:02x}").as_bytes()),
        }
    }
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_protocol::command::find;
    use firn_protocol::resp::OwnedArguments;

    #[test]
    fn a_line_shows_all_but_secrets() {
        let shown = |words: &[&[u8]]| {
            let owned = OwnedArguments::new(words.iter().copied());
            let line = MonitorLine {
                unix_us: 1_700_000_000_000_042,
                database: 3,
                address: "127.0.0.1:5",
                command: find(words[0]).expect("a command"),
                arguments: owned.get(),
            };
            String::from_utf8(line.render()).unwrap()
        };
        let front = "+1700000000.000042 [3 127.0.0.1:5] ";
        assert_eq!(
            shown(&[b"set", b"a\"b\\\n\r\t\x07\x08\x01\xff", b""]),
            format!("{front}\"set\" \"a\\\"b\\\\\\n\\r\\t\\a\\b\\x01\\xff\" \"\"\r\n")
        );
        assert_eq!(shown(&[b"AUTH", b"pw"]), format!("{front}\"AUTH\" \"(redacted)\"\r\n"));
    }
}
