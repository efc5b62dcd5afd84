//! A terminal on which each text takes the place of the one before.
//!
//! Nothing is hidden: what was on the terminal before stays above, and the last text stays when the
//! program ends.

use std::io::{IsTerminal, Write};

use crate::ending::Result;
use crate::output::Output;

#[derive(Debug)]
pub(super) struct Screen {
    /// Characters of each line that is shown.
    shown: Vec<usize>,
}

impl Screen {
    /// Standard output, if it is a terminal that has a size.
    pub(super) fn of_output() -> Option<Self> {
        size().map(|_| Self { shown: Vec::new() })
    }

    /// Shows `text` in the place of the one before. Of lines that the terminal has no room for it
    /// tells how many there are.
    pub(super) fn show(&mut self, text: &str) -> Result<()> {
        let (columns, rows) = size().unwrap_or((80, 24));
        let mut out = Output::new();
        let (frame, shown) = frame(text, (columns, rows), &self.shown);
        self.shown = shown;
        // What fails is told by `finish`.
        let _ = out.write_all(frame.as_bytes());
        out.finish()
    }
}

fn size() -> Option<(usize, usize)> {
    let out = std::io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten()?;
    (size.ws_col > 0 && size.ws_row > 1).then_some((size.ws_col.into(), size.ws_row.into()))
}

/// What is written to a terminal of `columns` and `rows` that shows lines as long as `before`, so
/// that it shows `text`; and how long the lines are that it shows then.
fn frame(text: &str, (columns, rows): (usize, usize), before: &[usize]) -> (String, Vec<usize>) {
    // The terminal may have become narrower, and its lines more.
    let up: usize = before.iter().map(|length| length.div_ceil(columns).max(1)).sum();
    let mut out = String::new();
    if up > 0 {
        out += &format!("\x1b[{}A", up.min(rows - 1));
    }
    out += "\r\x1b[0J";
    let all: Vec<&str> = text.lines().collect();
    // The last row is the cursor's.
    let room = rows - 1;
    let kept = if all.len() > room { room.saturating_sub(1) } else { all.len() };
    let mut lines: Vec<String> =
        all.iter().take(kept).map(|line| line.chars().take(columns).collect()).collect();
    if kept < all.len() {
        let more = format!("… {} more lines: `firn jobs list` shows all", all.len() - kept);
        lines.push(more.chars().take(columns).collect());
    }
    for line in &lines {
        out += line;
        out.push('\n');
    }
    (out, lines.iter().map(|line| line.chars().count()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_takes_the_place_of_the_one_before_and_never_scrolls() {
        let (out, shown) = frame("one\ntwo\n", (10, 5), &[]);
        assert_eq!((out.as_str(), &shown[..]), ("\r\x1b[0Jone\ntwo\n", &[3, 3][..]));
        let (out, _) = frame("three\n", (10, 5), &shown);
        assert_eq!(out, "\x1b[2A\r\x1b[0Jthree\n");
        // The terminal became narrower: the line before takes two rows now.
        assert!(frame("x\n", (4, 5), &[8]).0.starts_with("\x1b[2A"));
        let (out, shown) = frame("1\n2\n3\n4\n5\n6\n", (60, 5), &[]);
        assert!(out.ends_with("3\n… 3 more lines: `firn jobs list` shows all\n"), "{out:?}");
        assert_eq!(shown.len(), 4);
        let (out, _) = frame("a long line\n", (4, 5), &[]);
        assert_eq!(out, "\r\x1b[0Ja lo\n", "it is cut, so that its rows are known");
    }
}
