//! The commands that took long, newest first.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use firn_protocol::command::Command;
use firn_protocol::resp::Arguments;

use crate::access::secret_arguments;
use crate::bounds::{DIAGNOSIS_ARGUMENTS_MAX, cut};

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlowCall {
    /// When it was over, in seconds of the Unix epoch.
    pub(crate) unix_s: u64,
    /// How long it took.
    pub(crate) us: u64,
    pub(crate) arguments: Vec<Vec<u8>>,
    /// The address of the client that sent it.
    pub(crate) address: String,
    pub(crate) name: Vec<u8>,
}

/// What is kept of the commands of all server threads.
#[derive(Debug, Default)]
pub(crate) struct SlowLog {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Newest first, numbered.
    calls: VecDeque<(u64, SlowCall)>,
    next: u64,
}

impl SlowLog {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a command, and drops the oldest beyond `calls_max`.
    pub(crate) fn note(&self, call: SlowCall, calls_max: usize) {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.calls.push_front((number, call));
        state.calls.truncate(calls_max);
    }

    /// The newest `count`.
    pub(crate) fn newest(&self, count: usize) -> Vec<(u64, SlowCall)> {
        self.state().calls.iter().take(count).cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.state().calls.len()
    }

    /// How many there ever were.
    pub(crate) fn total(&self) -> u64 {
        self.state().next
    }

    /// Forgets all; numbers go on.
    pub(crate) fn reset(&self) {
        self.state().calls.clear();
    }

    /// What is kept of a command's arguments: not all of many, not all of long ones, no secrets.
    pub(crate) fn kept(&self, command: &'static Command, arguments: Arguments<'_>) -> Vec<Vec<u8>> {
        let shown = match arguments.len() {
            count if count > DIAGNOSIS_ARGUMENTS_MAX => DIAGNOSIS_ARGUMENTS_MAX - 1,
            count => count,
        };
        let is_secret = secrets(command, arguments);
        let mut kept: Vec<Vec<u8>> = Vec::with_capacity(shown + 1);
        for (index, argument) in arguments.iter().take(shown).enumerate() {
            kept.push(if is_secret(index) { REDACTED.to_vec() } else { cut(argument) });
        }
        if shown < arguments.len() {
            kept.push(format!("... ({} more arguments)", arguments.len() - shown).into_bytes());
        }
        kept
    }
}

/// What stands for a secret.
pub(crate) const REDACTED: &[u8] = b"(redacted)";

/// Which arguments of a command must not be shown.
pub(crate) fn secrets(command: &'static Command, arguments: Arguments<'_>) -> impl Fn(usize) -> bool {
    let secret = secret_arguments(command, arguments);
    move |index| secret.contains(&index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_protocol::command::{find, resolve};
    use firn_protocol::resp::OwnedArguments;

    fn kept(line: &str) -> Vec<String> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let owned = OwnedArguments::new(words.iter().copied());
        let command = resolve(&words).unwrap_or_else(|_| find(words[0]).expect("a command"));
        let kept = SlowLog::default().kept(command, owned.get());
        kept.into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn what_is_long_is_cut_and_what_is_secret_hidden() {
        assert_eq!(kept("SET a b"), ["SET", "a", "b"]);
        let long = "x".repeat(130);
        assert_eq!(kept(&format!("SET a {long}"))[2], format!("{}... (2 more bytes)", &long[..128]));
        let many = kept(&format!("MGET{}", " k".repeat(40)));
        assert_eq!((many.len(), many[31].as_str()), (32, "... (10 more arguments)"));
        assert_eq!(kept(&format!("MGET{}", " k".repeat(31))).len(), 32);
        let hidden = "(redacted)";
        assert_eq!(kept("AUTH u p"), ["AUTH", hidden, hidden]);
        assert_eq!(kept("HELLO 3 AUTH u p SETNAME n")[2..], ["AUTH", hidden, hidden, "SETNAME", "n"]);
        // A name that reads like the word before a password does not hide the password's place.
        assert_eq!(kept("HELLO 3 SETNAME auth AUTH u p")[5..], [hidden, hidden]);
        assert_eq!(kept("ACL DRYRUN u AUTH p")[3..], ["AUTH", hidden]);
        assert_eq!(kept("ACL DRYRUN u HELLO 3 AUTH v p")[4..], ["3", "AUTH", hidden, hidden]);
        assert_eq!(kept("ACL DRYRUN u ACL DRYRUN v AUTH p")[6..], ["AUTH", hidden]);
        assert_eq!(kept("ACL DRYRUN u AUHT p")[3..], ["AUHT", hidden]);
        assert_eq!(kept("ACL DRYRUN u GET k")[3..], ["GET", "k"]);
        assert_eq!(kept("COMMAND GETKEYS MIGRATE h 1 k 0 1 AUTH p")[8..], ["AUTH", hidden]);
        assert_eq!(kept("MIGRATE h 1 auth 0 1 AUTH p")[7..], [hidden]);
        assert_eq!(kept("ACL SETUSER u on >p"), ["ACL", "SETUSER", hidden, hidden, hidden]);
        assert_eq!(
            kept("CONFIG SET timeout 5 requirepass p"),
            ["CONFIG", "SET", "timeout", "5", "requirepass", hidden]
        );
    }

    #[test]
    fn the_newest_stay_and_numbers_go_on() {
        let log = SlowLog::default();
        let call =
            |us| SlowCall { unix_s: 1, us, arguments: vec![], address: String::new(), name: Vec::new() };
        (0..5).for_each(|us| log.note(call(us), 3));
        let newest: Vec<(u64, u64)> =
            log.newest(10).iter().map(|(number, call)| (*number, call.us)).collect();
        assert_eq!((newest, log.len()), (vec![(4, 4), (3, 3), (2, 2)], 3));
        log.reset();
        log.note(call(9), 3);
        assert_eq!(log.newest(1)[0].0, 5);
    }
}
