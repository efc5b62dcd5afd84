//! Bounds on what clients size: the one list of them.
//!
//! The constants here hold the bounds. `table` lists them with the settings' defaults and what
//! comes of more; its test makes a table of SECURITY.md of it. The bounds of scripts are in
//! `scripts`.

mod scripts;
#[cfg(test)]
mod table;

pub(crate) use scripts::*;

/// Bytes of a client's name, and of what it says of its library.
pub(crate) const CLIENT_NAME_BYTES_MAX: usize = 1 << 10;

/// Bytes of anything of a client's that is kept for diagnosis: in SLOWLOG, in ACL LOG, in messages
/// of errors.
pub(crate) const DIAGNOSIS_BYTES_MAX: usize = 128;

/// Arguments of a command that SLOWLOG keeps; the last one says how many more there were.
pub(crate) const DIAGNOSIS_ARGUMENTS_MAX: usize = 32;

/// Entries of ACL LOG.
pub(crate) const ACL_LOG_ENTRIES_MAX: usize = 128;

/// Damaged records that are counted and told, each once.
pub(crate) const DAMAGED_RECORDS_MAX: usize = 256;

/// Kinds of errors that are counted apart.
pub(crate) const ERROR_KINDS_MAX: usize = 128;

/// Bytes of a line that a client of MONITOR is shown.
pub(crate) const MONITOR_LINE_BYTES_MAX: usize = 1 << 20;

/// Bytes that wait for a client of MONITOR, above which it is cut off.
pub(crate) const MONITOR_UNREAD_BYTES_MAX: usize = 32 << 20;

/// Connections by HTTP at a time.
pub(crate) const HTTP_CONNECTIONS_MAX: usize = 64;

/// Bytes of a channel's name.
pub(crate) const CHANNEL_BYTES_MAX: usize = 64 << 10;

/// Bytes of a pattern that stays with the server: of PSUBSCRIBE, of a user's keys and channels.
pub(crate) const KEPT_PATTERN_BYTES_MAX: usize = 4 << 10;

/// Bytes of a pattern that one command compares: KEYS, SCAN and its sisters, PUBSUB CHANNELS.
pub(crate) const PATTERN_BYTES_MAX: usize = 128 << 10;

/// Keys or fields that are read together.
pub(crate) const READ_TOGETHER_MAX: usize = 512;

/// Bytes of their values, after which no more are read together.
pub(crate) const READ_TOGETHER_BYTES_MAX: usize = 1 << 20;

/// Keys of one command or of one EXEC that are locked one by one; with more all keys are locked at
/// once.
pub(crate) const LOCKED_KEYS_MAX: usize = 16 << 10;

/// Microseconds of one command's work after which others have a turn, unless the settings say
/// otherwise.
pub(crate) const TURN_US: u64 = 2_000;

/// Operations of a batch, and its bytes, above which a thread of its own writes it, one batch after
/// the other.
pub(crate) const BATCH_OPS_MAX: usize = 8 << 10;
pub(crate) const BATCH_BYTES_MAX: usize = 4 << 20;

/// Memory of a name that a client has left with the server, without its bytes. It has an entry in
/// the client's own table and in that of all clients.
const NAME_BYTES: usize = 256;

/// Memory of `name`, which a client has left with the server: it stands in the client's own table
/// and in that of all clients.
pub(crate) fn name_memory_bytes(name: &[u8]) -> usize {
    NAME_BYTES + 2 * name.len()
}

/// `text`, or the front of it and how much was left out.
pub(crate) fn cut(text: &[u8]) -> Vec<u8> {
    match text.get(..DIAGNOSIS_BYTES_MAX) {
        Some(front) if text.len() > DIAGNOSIS_BYTES_MAX => {
            let more = text.len() - DIAGNOSIS_BYTES_MAX;
            [front, format!("... ({more} more bytes)").as_bytes()].concat()
        }
        _ => text.to_vec(),
    }
}

/// The same, as text.
pub(crate) fn cut_text(text: &[u8]) -> String {
    String::from_utf8_lossy(&cut(text)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!(cut(&[b'x'; 128]), [b'x'; 128]);
        assert_eq!(cut_text(&[b'x'; 130]), format!("{}... (2 more bytes)", "x".repeat(128)));
    }
}
