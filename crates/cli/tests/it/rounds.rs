//! What is written in rounds to a server, and read back: a value says which key and which round it
//! is of.

use std::collections::BTreeMap;

/// Settings under which a few MiB make many tables and blob segments.
pub(crate) const SETTINGS: &str = "[tree]\nmemtable_bytes = 1048576\ntable_bytes = 262144\nlog_segment_bytes = 4194304\n\
    buffer_bytes = 4194304\nbuffer_bytes_max = 16777216\nseparate_bytes = 1000\nblob_segment_bytes = 1048576\n";

/// By key: the round that has written it last.
pub(crate) type Model = BTreeMap<u32, u32>;

pub(crate) fn value(key: u32, round: u32) -> Vec<u8> {
    let bytes = 200 + (key as usize * 389 + round as usize * 71) % 2500;
    format!("{key}.{round}.").into_bytes().into_iter().cycle().take(bytes).collect()
}

/// A connection to the server at `address`, HOST:PORT.
pub(crate) fn connect(address: &str) -> redis::Connection {
    let client = redis::Client::open(format!("redis://{address}")).expect("an address");
    client.get_connection().expect("it answers")
}

/// Requests that are sent together.
const TOGETHER: usize = 100;

/// Writes the values of `round` to `keys`.
pub(crate) fn put(client: &mut redis::Connection, keys: impl IntoIterator<Item = u32>, round: u32) {
    let keys: Vec<u32> = keys.into_iter().collect();
    for keys in keys.chunks(TOGETHER) {
        let mut pipe = redis::pipe();
        for key in keys {
            pipe.cmd("SET").arg(key).arg(value(*key, round)).ignore();
        }
        pipe.query::<()>(client).expect("replies");
    }
}

/// Writes a hundred of the keys below `key_count`, others with each `batch` and each round, and has
/// `model` know.
pub(crate) fn write(
    client: &mut redis::Connection,
    model: &mut Model,
    (round, batch): (u32, u32),
    key_count: u32,
) {
    let keys = (0..TOGETHER as u32).map(|at| (batch * 7919 + at * 31 + round * 13) % key_count);
    put(client, keys.clone(), round);
    model.extend(keys.map(|key| (key, round)));
}

/// Keys that one command asks for.
const CHECKED_TOGETHER: usize = 200;

/// Expects that every key of `model` has what was written last; `what` says when, where it is not
/// so.
#[track_caller]
pub(crate) fn check(client: &mut redis::Connection, model: &Model, what: &str) {
    let all: Vec<(u32, u32)> = model.iter().map(|(key, round)| (*key, *round)).collect();
    // Together, so that a store answers many of them at a time.
    for some in all.chunks(CHECKED_TOGETHER) {
        let keys: Vec<u32> = some.iter().map(|(key, _)| *key).collect();
        let found: Vec<Option<Vec<u8>>> = redis::cmd("MGET").arg(keys).query(client).expect("a reply");
        assert_eq!(found.len(), some.len(), "{what}");
        for ((key, round), found) in some.iter().zip(found) {
            assert!(found == Some(value(*key, *round)), "{what}: key {key} of round {round}");
        }
    }
}
