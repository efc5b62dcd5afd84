//! Why a command was not done, in the words clients know.

use std::borrow::Cow;

use firn_engine::{Error, ErrorKind};

/// A command that was refused or failed: the line that its client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    line: Cow<'static, str>,
    is_damage: bool,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) const WRONG_TYPE: Self =
        Self::new("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(crate) const SYNTAX: Self = Self::new("ERR syntax error");
    pub(crate) const NOT_AN_INTEGER: Self = Self::new("ERR value is not an integer or out of range");
    pub(crate) const NOT_A_FLOAT: Self = Self::new("ERR value is not a valid float");
    pub(crate) const OVERFLOW: Self = Self::new("ERR increment or decrement would overflow");
    pub(crate) const NAN: Self = Self::new("ERR increment would produce NaN or Infinity");
    pub(crate) const DATABASE_INDEX: Self = Self::new("ERR DB index is out of range");
    pub(crate) const TOO_LONG_STRING: Self =
        Self::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    pub(crate) const OFFSET: Self = Self::new("ERR offset is out of range");
    pub(crate) const NO_SUCH_KEY: Self = Self::new("ERR no such key");
    pub(crate) const SAME_OBJECTS: Self = Self::new("ERR source and destination objects are the same");
    pub(crate) const OUT_OF_RANGE: Self = Self::new("ERR value is out of range");
    pub(crate) const NOT_POSITIVE: Self = Self::new("ERR value is out of range, must be positive");
    pub(crate) const KILLED: Self = Self::new("ERR Script killed by user with SCRIPT KILL...");
    pub(crate) const BUSY: Self =
        Self::new("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.");
    pub(crate) const LATE_SCRIPT: Self = Self::new(
        "ERR the script ran too long inside of a metamethod or of what `for` calls, where no other client has a turn: do less there",
    );
    pub(crate) const LONG_REPLIES: Self =
        Self::new("ERR replies beyond client-query-buffer-limit inside EXEC or a script");
    pub(crate) const CURSOR: Self = Self::new("ERR invalid cursor");

    /// Of what only keys in order can hold.
    pub(crate) const NO_ORDER: Self = Self::new(
        "ERR hashes, lists, sets and sorted sets need keys in order, which the engine hashlog does not keep: \
         serve a database of the other engine, with --engine tree",
    );

    /// A line that is always the same: a code, a space, a sentence.
    pub(crate) const fn new(line: &'static str) -> Self {
        Self { line: Cow::Borrowed(line), is_damage: false }
    }

    /// A line made for the occasion.
    pub(crate) fn of(line: String) -> Self {
        Self { line: Cow::Owned(line), is_damage: false }
    }

    /// A record that is stored cannot be read, now or later.
    pub(crate) fn damaged(why: &firn_format::Error) -> Self {
        Self { line: format!("ERR the record is damaged: {why}").into(), is_damage: true }
    }

    /// Whether stored bytes are not what was written: the same read fails each time.
    pub(crate) fn is_damage(&self) -> bool {
        self.is_damage
    }

    /// The code: the line's first word.
    pub(crate) fn code(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }

    /// The line.
    pub(crate) fn line(&self) -> &str {
        &self.line
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            // The word clients know for writes that are refused while reads go on.
            ErrorKind::Closed | ErrorKind::Retry | ErrorKind::NotDurable => "MISCONF",
            _ => "ERR",
        };
        Self { line: format!("{code} {error}").into(), is_damage: error.kind() == ErrorKind::Corrupt }
    }
}
