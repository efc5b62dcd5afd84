//! Calls of the program `firn`.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// What one call did.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) complaint: String,
}

impl Answer {
    /// Asserts the exit code and returns standard output.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        self.out
    }

    /// Asserts that the call failed with `code` and one line of complaint that holds all of
    /// `words`.
    #[track_caller]
    pub(crate) fn complained(self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.complaint.lines().count(), 1, "{self:?}");
        for word in words {
            assert!(self.complaint.contains(word), "no {word:?} in {self:?}");
        }
    }
}

/// Writes `text` to a file that its user alone can read.
pub(crate) fn write_secret(path: impl AsRef<Path>, text: &str) {
    let mut file = std::fs::File::create(&path).expect("a file");
    file.set_permissions(Permissions::from_mode(0o600)).expect("set");
    file.write_all(text.as_bytes()).expect("written");
}

/// Calls `firn` with `arguments` and nothing on standard input.
pub(crate) fn firn(arguments: &[&str]) -> Answer {
    firn_with_input(arguments, b"")
}

/// Calls `firn` with `arguments` and `input` on standard input.
pub(crate) fn firn_with_input(arguments: &[&str], input: &[u8]) -> Answer {
    let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // The program may end without reading its input.
    let _ = child.stdin.take().expect("piped").write_all(input);
    let output = child.wait_with_output().expect("the program ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Answer {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        complaint: text(output.stderr),
    }
}

/// The path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// Says what a test leaves out since this machine cannot make it, also where a test that passes
/// says nothing.
pub(crate) fn say_left_out(what: &str) {
    // Of what macros print the harness keeps to itself what a test that passes has said.
    let _ = writeln!(std::io::stderr(), "LEFT OUT: {what}");
}
