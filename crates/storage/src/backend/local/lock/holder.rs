//! Which process holds a lock, as far as Linux tells.

use std::fs::{self, File};

use rustix::fs::{AtFlags, major, minor};

use crate::backend::name::LOCK_FILE;

/// This process, in words.
pub(super) const THIS_PROCESS: &str = "another handle in this process";

/// Characters of a command that are shown.
const COMMAND_MAX: usize = 200;

/// The process that has locked the file `LOCK` in `directory`, in words; `None` where the system
/// does not say, as of a process in another container.
pub(super) fn of(directory: &File) -> Option<String> {
    let stat = rustix::fs::statat(directory, LOCK_FILE, AtFlags::empty()).ok()?;
    let file = format!("{:02x}:{:02x}:{}", major(stat.st_dev), minor(stat.st_dev), stat.st_ino);
    let process = first_in(&fs::read_to_string("/proc/locks").ok()?, &file)?;
    if process == std::process::id() {
        return Some(THIS_PROCESS.to_owned());
    }
    let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    Some(match shown(&command) {
        command if command.is_empty() => format!("process {process}"),
        command => format!("process {process} (`{command}`)"),
    })
}

/// The number of the first process that holds a lock of `file`, which is device and inode as
/// `/proc/locks` writes them. Lines of processes that wait have an arrow.
fn first_in(locks: &str, file: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, "FLOCK", _, _, process, at, ..] if *at == file => {
                process.parse().ok().filter(|process| *process != 0)
            }
            _ => None,
        }
    })
}

/// A command line as `/proc` has it, on one line of text.
fn shown(command: &[u8]) -> String {
    let words = command.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let line: String = words.join(" ").chars().filter(|letter| !letter.is_control()).collect();
    match line.char_indices().nth(COMMAND_MAX) {
        None => line,
        Some((end, _)) => format!("{}...", line.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_by_device_and_inode() {
        let locks = "1: FLOCK  ADVISORY  WRITE 11 fe:00:77 0 EOF\n2: POSIX  ADVISORY  READ 12 fe:00:78 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 13 fe:00:78 0 EOF\n4: FLOCK  ADVISORY  READ 14 fe:00:78 0 EOF\n\
                     5: FLOCK  ADVISORY  READ 0 fe:00:79 0 EOF\n";
        assert_eq!(first_in(locks, "fe:00:77"), Some(11));
        assert_eq!(first_in(locks, "fe:00:78"), Some(14));
        assert_eq!(first_in(locks, "fe:00:79"), None);
        assert_eq!(first_in(locks, "fe:01:77"), None);
    }

    #[test]
    fn commands_are_one_line_of_bounded_length() {
        assert_eq!(shown(b"firn\0serve\0--dir\0a\nb\0"), "firn serve --dir ab");
        assert_eq!(shown(b""), "");
        assert_eq!(shown(&[b'x'; 300]), "x".repeat(200) + "...");
    }
}
