//! What failed tests said, to be read at the end of a long output.

/// Lines of each test that are kept, from its panic on.
const LINES_MAX: usize = 12;

/// Bytes of a line that are kept.
const LINE_BYTES_MAX: usize = 1000;

/// What the tests of one step that failed said of it.
#[derive(Debug, Default)]
pub(super) struct Failures {
    text: String,
    /// Lines that the test which is being read may still add; `None` before its panic.
    left: Option<usize>,
}

impl Failures {
    /// Takes the next line of a step's output.
    pub(super) fn take(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.add(&format!("\nfailed: {name}"));
            self.left = None;
            return;
        }
        if line == "failures:" {
            self.left = Some(0);
        }
        if self.left.is_none() && !self.text.is_empty() && line.contains(" panicked at ") {
            self.left = Some(LINES_MAX);
        }
        if let Some(left @ 1..) = self.left.as_mut() {
            *left -= 1;
            self.add(line);
        }
    }

    fn add(&mut self, line: &str) {
        let end = line.floor_char_boundary(LINE_BYTES_MAX);
        self.text.extend([line.get(..end).unwrap_or(line), "\n"]);
    }

    /// All of it, one test after another; empty where none failed.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failed_test_says_from_its_panic_on_is_kept() {
        let mut failures = Failures::default();
        let output = "running 2 tests\ntest a ... ok\n\nfailures:\n\n---- b::c stdout ----\nFIRN_SEED=1\n\n\
                      thread 'b::c' (7) panicked at it.rs:1:2:\n3 keys are wrong\n\n\nfailures:\n    b::c\n";
        output.lines().for_each(|line| failures.take(line));
        let text = failures.into_text();
        assert_eq!(text, "\nfailed: b::c\nthread 'b::c' (7) panicked at it.rs:1:2:\n3 keys are wrong\n\n\n");
        let mut failures = Failures::default();
        failures.take("---- a stdout ----");
        failures.take("thread 'a' panicked at it.rs:");
        (0..100).for_each(|_| failures.take(&"é".repeat(5000)));
        assert!(failures.into_text().len() < (LINES_MAX + 2) * (LINE_BYTES_MAX + 1));
        let mut failures = Failures::default();
        failures.take("a test that passed panicked at what it expected");
        assert_eq!(failures.into_text(), "");
    }
}
