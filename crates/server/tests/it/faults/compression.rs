//! T8: a server whose settings ask for compression, and that compressed nothing. Neighbours: keys,
//! parts of collections.

use std::sync::Arc;

use firn::storage::backend::Memory;
use firn::{Compression, Settings};
use firn_protocol::resp::Value;
use firn_server::ServeSettings;

use super::super::client::{Client, serve};

const COUNT: u64 = 500;
const VALUE_BYTES: u64 = 4000;

#[test]
fn t8_a_server_compresses_as_its_settings_say() {
    let settings = Settings { compression: Compression::Zstd, ..Settings::for_memory(64 << 20) };
    let db = firn::Db::builder("served").storage(Arc::new(Memory::new())).settings(settings);
    let db = Arc::new(db.open().unwrap());
    let server = serve(&db, ServeSettings::default());
    let client = &mut Client::connect(server.address());
    let value = "the same words ".repeat(VALUE_BYTES as usize / 15 + 1);
    for number in 0..COUNT {
        for words in [
            vec!["SET".to_owned(), number.to_string()],
            vec!["HSET".into(), "hash".into(), number.to_string()],
        ] {
            let reply = client.call(&[words.as_slice(), std::slice::from_ref(&value)].concat());
            assert!(!matches!(reply, Value::Error(_)), "{words:?}");
        }
    }
    db.flush().unwrap();
    for (name, id) in db.keyspaces() {
        db.in_keyspace(id).compact_range(b"", None).unwrap();
        let stats = db.stats().keyspaces.into_iter().find(|stats| stats.keyspace() == id).unwrap();
        assert_eq!(stats.compression, Compression::Zstd, "{name}");
    }
    let (bytes, whole) = (db.stats().tree.expect("a tree").table_bytes, 2 * COUNT * VALUE_BYTES);
    assert!(bytes < whole / 10, "{bytes} bytes of tables for {whole} of values");
    server.stop().unwrap();
}
