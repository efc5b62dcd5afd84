//! What a key becomes: a hash, or text, of which some expires late, and some soon.
//!
//! What expires late is there for as long as any of this runs, though clocks of workers jump
//! farther than that. A worker that goes by its own clock drops it. What expires soon is there, or
//! is nothing, since the clock of a database may be wrong. But what it replaced never comes back.
//! Nor does the value itself once a client has deleted it, though it had expired by then.

use std::time::{Duration, SystemTime};

use redis::Pipeline;

use super::reader::Reader;

/// What a key was last to become: the value of a round, or nothing.
pub(super) type State = Option<u32>;

/// What expires late does so this long after a soak began: it lasts less long, and clocks jump by
/// twice as much.
const LATE: Duration = Duration::from_secs(20 * 3600);
/// Of what expires, what does so sooner than this is about to.
const ABOUT_TO: Duration = Duration::from_secs(10 * 3600);
/// What expires soon does so this long after it was written.
const SOON: Duration = Duration::from_secs(1);
/// Fields of a hash.
const FIELDS: u32 = 4;

/// When what is written in a round expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiry {
    Never,
    Late,
    Soon,
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("after 1970").as_millis() as u64
}

/// The moment at which what is written from now on expires late.
pub(super) fn late_ms() -> u64 {
    now_ms() + LATE.as_millis() as u64
}

/// Whether what expires at `at_ms` is there now and may be gone soon.
pub(super) fn is_about_to_expire(at_ms: u64) -> bool {
    at_ms < now_ms() + ABOUT_TO.as_millis() as u64
}

fn is_hash(key: u32) -> bool {
    key.is_multiple_of(11)
}

fn expiry(key: u32, round: u32) -> Expiry {
    match (key + round) % 8 {
        // To make one that expires takes two commands, and a server may be killed between them.
        _ if is_hash(key) => Expiry::Never,
        0 => Expiry::Late,
        1 => Expiry::Soon,
        _ => Expiry::Never,
    }
}

/// Whether a key of this state is there until it is written again.
pub(super) fn stays(key: u32, state: State) -> bool {
    state.is_some_and(|round| expiry(key, round) != Expiry::Soon)
}

fn text(key: u32, round: u32) -> Vec<u8> {
    let bytes = 100 + (key as usize * 389 + round as usize * 71) % 2500;
    format!("{key}.{round}.").into_bytes().into_iter().cycle().take(bytes).collect()
}

/// Fields that differ from round to round, so that what is left of one shows in another.
fn fields(key: u32, round: u32) -> Vec<(String, Vec<u8>)> {
    (0..FIELDS).map(|at| (format!("{}", round % 5 + at), text(key + at, round))).collect()
}

/// States through which [`put`] goes, the last one last.
pub(super) fn states(key: u32, state: State) -> Vec<State> {
    match state {
        Some(_) if is_hash(key) => vec![None, state],
        _ => vec![state],
    }
}

/// Makes `key` what it is to become; what expires late does so at `late_ms`.
pub(super) fn put(pipe: &mut Pipeline, key: u32, state: State, late_ms: u64) {
    let Some(round) = state else {
        pipe.cmd("DEL").arg(key).ignore();
        return;
    };
    if is_hash(key) {
        pipe.cmd("DEL").arg(key).ignore();
        pipe.cmd("HSET").arg(key).arg(fields(key, round)).ignore();
        return;
    }
    let set = pipe.cmd("SET").arg(key).arg(text(key, round));
    match expiry(key, round) {
        Expiry::Never => set,
        Expiry::Late => set.arg("PXAT").arg(late_ms),
        Expiry::Soon => set.arg("PXAT").arg(now_ms() + SOON.as_millis() as u64),
    }
    .ignore();
}

/// What a key was found to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Text(Vec<u8>),
    Hash(Vec<(String, Vec<u8>)>),
}

impl Found {
    /// Whether a key of this state may be found so.
    pub(super) fn may_be(&self, key: u32, state: State) -> bool {
        match self {
            Self::Nothing => !stays(key, state),
            Self::Text(bytes) => state.is_some_and(|round| !is_hash(key) && *bytes == text(key, round)),
            Self::Hash(found) => state.is_some_and(|round| {
                let mut expected = fields(key, round);
                expected.sort();
                is_hash(key) && *found == expected
            }),
        }
    }

    /// For a person.
    pub(super) fn head(&self) -> String {
        let head = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..12.min(bytes.len())]).into_owned();
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Text(bytes) => head(bytes),
            Self::Hash(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(field, bytes)| format!("{field}: {}", head(bytes))).collect();
                format!("{fields:?}")
            }
        }
    }
}

/// What `keys` are.
pub(super) fn find(keys: &[u32], connection: &mut Reader) -> Vec<Found> {
    let mut pipe = redis::pipe();
    for key in keys {
        pipe.cmd(if is_hash(*key) { "HGETALL" } else { "GET" }).arg(key);
    }
    let found: Vec<redis::Value> = pipe.query(connection).expect("replies");
    let of = |(key, value): (&u32, redis::Value)| match is_hash(*key) {
        true => {
            let mut fields: Vec<(String, Vec<u8>)> = redis::from_redis_value(value).expect("fields");
            fields.sort();
            if fields.is_empty() { Found::Nothing } else { Found::Hash(fields) }
        }
        false => {
            let text: Option<Vec<u8>> = redis::from_redis_value(value).expect("text");
            text.map_or(Found::Nothing, Found::Text)
        }
    };
    keys.iter().zip(found).map(of).collect()
}
