//! The list, and the table that is made of it.

use std::fmt::Write as _;

use firn_format::datatype::catalog;
use firn_format::datatype::field::MEMBER_BYTES_MAX;
use firn_format::datatype::key::USER_KEY_BYTES_MAX;
use firn_protocol::resp::Limits;

use super::*;
use crate::settings::ServeSettings;
use crate::transaction::STRING_BYTES_MAX;

/// One thing that a client sizes.
#[derive(Clone, Copy, Debug)]
struct Bound {
    what: &'static str,
    most: u64,
    unit: Unit,
    /// What comes of more.
    beyond: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Bytes,
    Count,
    Microseconds,
}

/// A row of the list.
const fn bound(what: &'static str, most: usize, unit: Unit, beyond: &'static str) -> Bound {
    Bound { what, most: most as u64, unit, beyond }
}

/// The list.
fn bounds() -> Vec<Bound> {
    let settings = ServeSettings::default();
    let (known, unknown) = (Limits::DEFAULT, Limits::UNKNOWN_CLIENT);
    const CLOSED: &str = "the connection is told so and closed";
    const REFUSED: &str = "the command is refused";
    const CUT: &str = "cut; how much was left out is said";
    vec![
        bound("connections (`clients_max`)", settings.clients_max, Unit::Count, CLOSED),
        bound(
            "connections by HTTP",
            HTTP_CONNECTIONS_MAX,
            Unit::Count,
            "the oldest that has not asked yet goes",
        ),
        bound("arguments of a request", known.arguments_max, Unit::Count, CLOSED),
        bound("an argument (`argument_bytes_max`)", settings.argument_bytes_max, Unit::Bytes, CLOSED),
        bound("a line of a request", known.line_bytes_max, Unit::Bytes, CLOSED),
        bound(
            "a request; the requests since `MULTI` (`request_bytes_max`)",
            settings.request_bytes_max,
            Unit::Bytes,
            CLOSED,
        ),
        bound(
            "names that a client watches, waits for and is subscribed to (`request_bytes_max`)",
            settings.request_bytes_max,
            Unit::Bytes,
            CLOSED,
        ),
        bound(
            "replies of `EXEC` or of a script's command (`request_bytes_max`)",
            settings.request_bytes_max,
            Unit::Bytes,
            "refused, and nothing is done",
        ),
        bound("arguments before the client has authenticated", unknown.arguments_max, Unit::Count, CLOSED),
        bound("an argument before that", unknown.argument_bytes_max, Unit::Bytes, CLOSED),
        bound(
            "replies that the client has not read (`unread_bytes_max`)",
            settings.unread_bytes_max,
            Unit::Bytes,
            "no more of its requests are executed until it reads",
        ),
        bound(
            "messages and replies that a subscriber has not read (`output_bytes_max`), the next message included",
            settings.output_bytes_max,
            Unit::Bytes,
            "closed before the message is copied",
        ),
        bound(
            "lines that a client of `MONITOR` has not read, the next one included",
            MONITOR_UNREAD_BYTES_MAX,
            Unit::Bytes,
            "closed",
        ),
        bound("a line of `MONITOR`", MONITOR_LINE_BYTES_MAX, Unit::Bytes, CUT),
        bound("a key", USER_KEY_BYTES_MAX, Unit::Bytes, REFUSED),
        bound("a field or member", MEMBER_BYTES_MAX, Unit::Bytes, REFUSED),
        bound("a string, however it grows", STRING_BYTES_MAX, Unit::Bytes, REFUSED),
        bound("a channel's name", CHANNEL_BYTES_MAX, Unit::Bytes, REFUSED),
        bound("a pattern of `PSUBSCRIBE` or of a user's rules", KEPT_PATTERN_BYTES_MAX, Unit::Bytes, REFUSED),
        bound(
            "a pattern of `KEYS`, `SCAN`, `HSCAN`, `SSCAN`, `ZSCAN`, `PUBSUB`, `CONFIG GET`",
            PATTERN_BYTES_MAX,
            Unit::Bytes,
            REFUSED,
        ),
        bound("a client's name, its library's name and version", CLIENT_NAME_BYTES_MAX, Unit::Bytes, REFUSED),
        bound("a user's name", catalog::NAME_BYTES_MAX, Unit::Bytes, REFUSED),
        bound("arguments of a command in `SLOWLOG`", DIAGNOSIS_ARGUMENTS_MAX, Unit::Count, CUT),
        bound(
            "an argument or a name in `SLOWLOG`, `ACL LOG` and errors",
            DIAGNOSIS_BYTES_MAX,
            Unit::Bytes,
            CUT,
        ),
        bound("entries of `ACL LOG`", ACL_LOG_ENTRIES_MAX, Unit::Count, "the oldest goes"),
        bound(
            "damaged records that are logged and counted",
            DAMAGED_RECORDS_MAX,
            Unit::Count,
            "passed over without a word",
        ),
        bound("kinds of errors in `INFO errorstats`", ERROR_KINDS_MAX, Unit::Count, "counted as `OTHER`"),
        bound(
            "keys, fields or members that are read together",
            READ_TOGETHER_MAX,
            Unit::Count,
            "read one batch after the other",
        ),
        bound(
            "their values, after the first one",
            READ_TOGETHER_BYTES_MAX,
            Unit::Bytes,
            "read one batch after the other",
        ),
        bound("keys that are locked one by one", LOCKED_KEYS_MAX, Unit::Count, "all keys are locked at once"),
        bound(
            "operations that a server thread writes itself",
            BATCH_OPS_MAX,
            Unit::Count,
            "a thread beside the server threads writes them",
        ),
        bound(
            "bytes that a server thread writes itself",
            BATCH_BYTES_MAX,
            Unit::Bytes,
            "a thread beside the server threads writes them",
        ),
        bound(
            "work of a command that goes over its arguments, members or bytes, without a turn of others",
            TURN_US as usize,
            Unit::Microseconds,
            "others have a turn",
        ),
    ]
    .into_iter()
    .chain(bounds_of_scripts())
    .collect()
}

/// Those of scripts.
fn bounds_of_scripts() -> Vec<Bound> {
    const ERROR: &str = "an error of the script";
    const WAITS: &str = "the next one waits";
    vec![
        bound(
            "what a script makes the server hold: its memory, arguments and replies of commands, what it writes and sends",
            SCRIPT_BYTES_MAX,
            Unit::Bytes,
            ERROR,
        ),
        bound("the same of all scripts that run", SCRIPTS_BYTES_MAX, Unit::Bytes, ERROR),
        bound("stack of a script and of what nests in it", SCRIPT_STACK_BYTES_MAX, Unit::Bytes, ERROR),
        bound("scripts of one server thread that run", SCRIPTS_AT_ONCE_MAX, Unit::Count, WAITS),
        bound("scripts of `EVAL` that are kept", EVALUATED_MAX, Unit::Count, "the oldest goes"),
        bound("their memory", EVALUATED_BYTES_MAX, Unit::Bytes, "the oldest goes"),
        bound("memory of scripts of `SCRIPT LOAD`", LOADED_BYTES_MAX, Unit::Bytes, "the command is refused"),
        bound("values of `unpack`, two fewer with a range", UNPACKED_MAX, Unit::Count, ERROR),
        bound("values of `struct.unpack` and `cmsgpack.unpack`", RESULTS_MAX, Unit::Count, ERROR),
        bound("tables within one another of `cjson`", JSON_DEPTH_MAX, Unit::Count, ERROR),
        bound(
            "tables within one another of `cmsgpack.pack`",
            MSGPACK_WRITTEN_DEPTH_MAX,
            Unit::Count,
            "written as nil",
        ),
        bound("tables within one another of `cmsgpack.unpack`", MSGPACK_READ_DEPTH_MAX, Unit::Count, ERROR),
        bound(
            "tables within the first one of a script's answer",
            ANSWER_DEPTH_MAX,
            Unit::Count,
            "an error in their place",
        ),
        bound("an integer of `struct`", STRUCT_INTEGER_BYTES_MAX, Unit::Bytes, ERROR),
        bound("captures of a script's pattern", CAPTURES_MAX, Unit::Count, ERROR),
        bound("places that a match of it may go back to", CHOICES_MAX, Unit::Count, ERROR),
    ]
}

/// The list as a table in Markdown.
fn table() -> String {
    let mut table = "| what | at most | beyond it |\n|---|---|---|\n".to_owned();
    for Bound { what, most, unit, beyond } in bounds() {
        let most = match unit {
            Unit::Bytes => bytes(most),
            Unit::Count => most.to_string(),
            Unit::Microseconds => format!("about {most} µs"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(table, "| {what} | {most} | {beyond} |");
    }
    table
}

/// So many bytes in the largest unit that divides them.
fn bytes(count: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(size, _)| count.is_multiple_of(*size)) {
        Some((size, name)) => format!("{} {name}", count / size),
        None => format!("{count} bytes"),
    }
}

#[expect(clippy::disallowed_methods, reason = "the one switch of this test")]
fn is_updating() -> bool {
    std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1")
}

#[test]
fn the_committed_table_is_the_list() {
    const START: &str = "<!-- generated: bounds of the server -->\n";
    const END: &str = "<!-- end: bounds of the server -->";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../SECURITY.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (front, rest) = page.split_once(START).expect("a place for the table");
    let (committed, behind) = rest.split_once(END).expect("its end");
    if is_updating() {
        std::fs::write(path, [front, START, &table(), END, behind].concat()).unwrap();
        return;
    }
    let how = "SECURITY.md differs; UPDATE_EXPECT=1 cargo test -p firn-server bounds renews it";
    assert_eq!(committed, table(), "{how}");
}

#[test]
fn rows_have_three_cells_and_a_bound() {
    let rows = bounds();
    assert!(rows.iter().all(|row| row.most > 0));
    assert!(table().lines().all(|line| line.matches('|').count() == 4));
    let mut names: Vec<&str> = rows.iter().map(|row| row.what).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), rows.len());
    assert_eq!((bytes(1 << 20), bytes(65_471)), ("1 MiB".to_owned(), "65471 bytes".to_owned()));
}
