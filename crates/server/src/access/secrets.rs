//! Which arguments of a request are secrets.

use firn_protocol::command::{self, Command, CommandId, id_of};
use firn_protocol::resp::Arguments;

/// Parameters whose values no other user may see.
const SECRET_PARAMETERS: [&str; 5] =
    ["requirepass", "masterauth", "masteruser", "tls-key-file-pass", "tls-client-key-file-pass"];

/// Positions of the arguments that no other user may see: passwords, and what stands where one may
/// be. Whatever shows requests to people (MONITOR, SLOWLOG, logs) leaves them out.
pub(crate) fn secret_arguments(command: &'static Command, arguments: Arguments<'_>) -> Vec<usize> {
    const ACL_DRYRUN: CommandId = id_of("acl|dryrun");
    const ACL_SETUSER: CommandId = id_of("acl|setuser");
    const AUTH: CommandId = id_of("auth");
    const COMMAND_GETKEYS: CommandId = id_of("command|getkeys");
    const COMMAND_GETKEYSANDFLAGS: CommandId = id_of("command|getkeysandflags");
    const CONFIG_SET: CommandId = id_of("config|set");
    const HELLO: CommandId = id_of("hello");
    const MIGRATE: CommandId = id_of("migrate");
    let is = |index: usize, word: &str| {
        arguments.get(index).is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
    };
    let count = arguments.len();
    let after = |from: usize, word: &str, secrets: usize| {
        let words = (from..count).filter(|index| is(*index, word));
        words.flat_map(|index| index + 1..(index + 1 + secrets).min(count)).collect::<Vec<_>>()
    };
    match command.id() {
        AUTH => (1..count).collect(),
        ACL_DRYRUN => secrets_within(arguments, 3),
        COMMAND_GETKEYS | COMMAND_GETKEYSANDFLAGS => secrets_within(arguments, 2),
        ACL_SETUSER => (2..count).collect(),
        HELLO => after(1, "auth", 2),
        MIGRATE => [after(1, "auth", 1), after(1, "auth2", 2)].concat(),
        // All that follows the first of these: what it is depends on names that stand between.
        CONFIG_SET => {
            let is_secret = |index: &usize| SECRET_PARAMETERS.iter().any(|name| is(*index, name));
            (2..count).find(is_secret).map_or_else(Vec::new, |index| (index + 1..count).collect())
        }
        _ => Vec::new(),
    }
}

/// The same of a request that stands within another one, from its word `first` on: of what is none,
/// everything behind its first word.
fn secrets_within(arguments: Arguments<'_>, first: usize) -> Vec<usize> {
    let inner = arguments.from(first);
    let words: Vec<&[u8]> = inner.iter().collect();
    match command::resolve(&words) {
        Ok(command) => secret_arguments(command, inner).into_iter().map(|index| first + index).collect(),
        Err(_) => (first + 1..arguments.len()).collect(),
    }
}
