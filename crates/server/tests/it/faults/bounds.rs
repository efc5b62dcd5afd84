//! What stands in the list of bounds (crates/server/src/bounds), each at its end and one beyond it.
//! Requests, queues, names left here, replies of EXEC and output have their tests in `limits`, what
//! is kept for diagnosis in `diagnosis`.

use firn_protocol::resp::Value;

use super::super::client::{Served, bulk, error, ok};

#[test]
fn s7_what_is_refused_begins_one_beyond_its_bound() {
    let served = Served::start(1);
    let client = &mut served.connect();
    client.say("HELLO 3");
    // The command with the last word as long as it may be, and what is said of one that is longer
    // by a byte.
    let cases: [(&[&str], usize, &str); 9] = [
        (&["CLIENT", "SETNAME"], 1 << 10, "Client names of 1025 bytes"),
        (&["SET", "v", "EX", "1"], 0, ""),
        (&["GET"], 65_471, "a key of 65472 bytes"),
        (&["SADD", "s"], 65_471, "a field or member of 65472 bytes"),
        (&["SUBSCRIBE"], 64 << 10, "a channel of 65537 bytes"),
        (&["PSUBSCRIBE"], 4 << 10, "a pattern of 4097 bytes"),
        (&["KEYS"], 128 << 10, "a pattern of 131073 bytes"),
        (&["CONFIG", "GET"], 128 << 10, "a pattern of 131073 bytes"),
        (&["SCAN", "0", "MATCH"], 128 << 10, "a pattern of 131073 bytes"),
    ];
    for (words, most, said) in cases.into_iter().filter(|(_, most, _)| *most > 0) {
        let mut call = |bytes: usize| {
            let last = "x".repeat(bytes);
            client.call(&words.iter().copied().chain([last.as_str()]).collect::<Vec<_>>())
        };
        assert!(!matches!(call(most), Value::Error(_)), "{words:?}");
        let Value::Error(line) = call(most + 1) else { panic!("{words:?} is not refused") };
        assert!(line.starts_with(&format!("ERR {said}")), "{line}");
    }
    let rule = |bytes: usize| format!("~{}", "x".repeat(bytes));
    let other = &mut served.connect();
    assert_eq!(other.call(&["ACL", "SETUSER", "u", &rule(4 << 10)]), ok());
    assert!(matches!(other.call(&["ACL", "SETUSER", "u", &rule((4 << 10) + 1)]), Value::Error(_)));
    // Strings as they grow.
    assert_eq!(other.call(&["SETRANGE", "k", "536870911", "x"]), Value::Integer(512 << 20));
    let refused = error("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    assert_eq!(other.call(&["SETRANGE", "k", "536870912", "x"]), refused);
}

#[test]
fn s7_who_is_unknown_may_send_little() {
    let served = Served::start(1);
    let admin = &mut served.connect();
    assert_eq!(admin.say("ACL SETUSER default >p"), ok());
    let most = "x".repeat(16 << 10);
    let long = "x".repeat((16 << 10) + 1);
    let reply = |words: &[&str]| served.connect().call(words);
    let words: Vec<&str> = std::iter::repeat_n("PING", 11).collect();
    assert!(matches!(reply(&words[..10]), Value::Error(line) if !line.contains("Protocol")));
    assert_eq!(reply(&words), error("ERR Protocol error: unauthenticated multibulk length"));
    assert!(matches!(reply(&["AUTH", &most]), Value::Error(line) if line.starts_with("WRONGPASS")));
    assert_eq!(reply(&["AUTH", &long]), error("ERR Protocol error: unauthenticated bulk length"));
}

/// Operations and bytes of one write, on both sides of where a thread beside the server threads
/// writes them.
#[test]
fn s13_large_writes_are_whole() {
    let served = Served::start(1);
    let client = &mut served.connect();
    for count in [8 << 10, (8 << 10) + 1] {
        let pairs = (0..count).flat_map(|number| [format!("k{number}"), count.to_string()]);
        let words: Vec<String> = std::iter::once("MSET".to_owned()).chain(pairs).collect();
        assert_eq!(client.call(&words), ok());
        assert_eq!(client.say("DBSIZE"), Value::Integer(count as i64));
        assert_eq!(client.call(&["GET", &format!("k{}", count - 1)]), bulk(&count.to_string()));
    }
    for bytes in [(4 << 20) - 200, 5 << 20] {
        let value = "v".repeat(bytes);
        assert_eq!(client.call(&["HSET", "h", "f", &value]), Value::Integer(i64::from(bytes < 4 << 20)));
        assert_eq!(client.say("HGET h f"), bulk(&value));
    }
    let served = served.restart();
    let client = &mut served.connect();
    assert_eq!(client.say("HSTRLEN h f"), Value::Integer(5 << 20), "it was written");
    assert_eq!(client.say("DBSIZE"), Value::Integer((8 << 10) + 2));
}

/// Results of BITOP on both sides of what a record, a fragment and a block have, also where the
/// destination is a source.
#[test]
fn s13_long_results_are_whole_over_their_own_sources() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let bytes = |seed: usize, len: usize| -> Vec<u8> {
        (0..len).map(|index| ((index * 31 + seed) % 251) as u8 | 1).collect()
    };
    for len in [64 << 10, (64 << 10) + 1, 1 << 20, (1 << 20) + (16 << 10) + 7] {
        let (mut long, short) = (bytes(1, len), bytes(2, 70_000));
        for (key, value) in [(&b"long"[..], &long), (b"short", &short)] {
            assert_eq!(client.call(&[b"SET", key, value.as_slice()]), ok());
        }
        let most = len.max(short.len());
        let done = Value::Integer(most as i64);
        assert_eq!(client.say("BITOP XOR long long short none"), done, "{len} bytes");
        long.resize(most, 0);
        long.iter_mut().zip(&short).for_each(|(byte, other)| *byte ^= other);
        assert!(client.say("GET long") == Value::Bulk(long.clone()), "{len} bytes");
        assert_eq!(client.say("BITOP NOT other long"), done);
        assert_eq!(client.say("BITOP AND long other long"), done);
        assert!(client.say("GET long") == Value::Bulk(vec![0; most]), "{len} bytes");
        long.iter_mut().for_each(|byte| *byte = !*byte);
        assert!(client.say("GET other") == Value::Bulk(long), "{len} bytes");
    }
}
