//! What a database has, in one number that depends neither on where it lies nor on the order in which it is read.

use std::fmt;

use firn_format::key::{Entry, Kind, Sequence};
use firn_format::table::content::entry_hash;

use super::clients::reach;

/// All keys of a database that runs, with what each has.
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
    /// Of the database at `address`, to which nobody writes meanwhile.
    ///
    /// Tables' own hashes would differ: they depend on the numbers that writes were given, of which those without an answer take some, too.
    pub(crate) fn read(address: &str) -> Self {
        let mut connection = reach(address);
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

    fn add(&mut self, keys: &[String], connection: &mut redis::Connection) {
        let mut pipe = redis::pipe();
        for key in keys {
            pipe.cmd("TYPE").arg(key);
        }
        let types: Vec<String> = pipe.query(connection).expect("types");
        for (key, kind) in keys.iter().zip(types) {
            let elements: Vec<Vec<u8>> = match kind.as_str() {
                "string" => vec![redis::cmd("GET").arg(key).query(connection).expect("a value")],
                "list" => {
                    redis::cmd("LRANGE").arg(key).arg(0).arg(-1).query(connection).expect("a list's elements")
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
                expires_at_ms: 0,
                value: &typed,
            };
            self.hash = self.hash.wrapping_add(entry_hash(&entry));
        }
    }
}
