//! What a database has, in one number that depends neither on where it lies nor on the order in
//! which it is read.

use std::collections::BTreeMap;
use std::fmt;

use firn_format::key::{Entry, Kind, Sequence};
use firn_format::table::content::entry_hash;

use super::keys::is_about_to_expire;
use super::reader::Reader;

/// What a key that is not there is said to expire at.
const GONE: i64 = -2;

/// All keys of a database that runs, with what each has and when it expires, except keys that
/// expire soon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(super) keys: u64,
    /// The sum of the keys' hashes.
    hash: u128,
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys of content {:032x}", self.keys, self.hash)
    }
}

impl Content {
    /// Of the database at `address`, to which no client writes meanwhile.
    ///
    /// Tables' own hashes would differ: they depend on the numbers that writes were given, and
    /// writes without an answer take some of those, too.
    pub(crate) fn read(address: &str) -> Self {
        let mut connection = Reader::reach(address);
        let (mut content, mut cursor) = (Self::default(), 0_u64);
        loop {
            let (next, keys): (u64, Vec<String>) =
                redis::cmd("SCAN").arg(cursor).arg("COUNT").arg(500).query(&mut connection).expect("a reply");
            content.add(&keys, &mut connection);
            if next == 0 {
                return content;
            }
            cursor = next;
        }
    }

    fn add(&mut self, keys: &[String], connection: &mut Reader) {
        let (mut types, mut ends) = (redis::pipe(), redis::pipe());
        for key in keys {
            types.cmd("TYPE").arg(key);
            ends.cmd("PEXPIRETIME").arg(key);
        }
        let types: Vec<String> = types.query(connection).expect("types");
        let ends: Vec<i64> = ends.query(connection).expect("moments");
        for ((key, kind), expires_at_ms) in keys.iter().zip(types).zip(ends) {
            let is_going = u64::try_from(expires_at_ms).is_ok_and(is_about_to_expire);
            if is_going || expires_at_ms == GONE {
                continue;
            }
            let elements: Vec<Vec<u8>> = match kind.as_str() {
                "string" => vec![redis::cmd("GET").arg(key).query(connection).expect("a value")],
                "list" => {
                    redis::cmd("LRANGE").arg(key).arg(0).arg(-1).query(connection).expect("a list's elements")
                }
                "hash" => {
                    let fields: BTreeMap<Vec<u8>, Vec<u8>> =
                        redis::cmd("HGETALL").arg(key).query(connection).expect("a hash's fields");
                    fields.into_iter().flat_map(|(field, value)| [field, value]).collect()
                }
                other => panic!("{key} is a {other}, which nobody has written"),
            };
            // Each with its length, so that no two lists look the same.
            let mut typed = kind.into_bytes();
            for element in elements {
                typed.extend((element.len() as u64).to_le_bytes());
                typed.extend(element);
            }
            self.keys += 1;
            let entry = Entry {
                key: key.as_bytes(),
                sequence: Sequence(0),
                kind: Kind::Put,
                expires_at_ms: u64::try_from(expires_at_ms).unwrap_or(0),
                value: &typed,
            };
            self.hash = self.hash.wrapping_add(entry_hash(&entry));
        }
    }
}
