//! S7: a client's name of 20 MB and 100 denied GETs, or slow commands, left 2 GB with ACL LOG and
//! SLOWLOG. Neighbours: the name by HELLO, a library's name and version, a denied key, an unknown
//! user's name, errors that repeat what was sent.

use firn_protocol::resp::Value;

use super::super::client::{Client, Served, bulk, error, ok};

/// Bytes of the reply to these words.
fn reply_bytes(client: &mut Client, words: &[&str]) -> usize {
    client.call(words);
    client.raw.len()
}

#[test]
fn s7_diagnosis_keeps_the_front_of_what_clients_send() {
    let served = Served::start(1);
    let (admin, client) = (&mut served.connect(), &mut served.connect());
    let long = "x".repeat(1 << 20);
    // Names.
    let refused =
        |what: &str| error(&format!("ERR {what} of 1048576 bytes: at most 1024 bytes are kept of it"));
    assert_eq!(client.call(&["CLIENT", "SETNAME", &long]), refused("Client names"));
    assert_eq!(client.call(&["HELLO", "2", "SETNAME", &long]), refused("Client names"));
    assert_eq!(client.call(&["CLIENT", "SETINFO", "LIB-NAME", &long]), refused("lib-name"));
    assert_eq!(client.call(&["CLIENT", "SETINFO", "LIB-VER", &long]), refused("lib-ver"));
    assert_eq!(client.call(&["CLIENT", "SETNAME", &long[..1024]]), ok());
    assert_eq!(client.say("CLIENT GETNAME"), bulk(&long[..1024]));
    // What is refused.
    assert_eq!(admin.say("ACL SETUSER u on nopass ~a* +get"), ok());
    assert!(matches!(client.call(&["AUTH", &long, "p"]), Value::Error(_)));
    assert_eq!(client.say("AUTH u p"), ok());
    for number in 0..100 {
        let key = format!("{number}{long}");
        assert!(matches!(client.call(&["GET", &key]), Value::Error(line) if line.starts_with("NOPERM")));
    }
    let bytes = reply_bytes(admin, &["ACL", "LOG", "200"]);
    assert!((10_000..400_000).contains(&bytes), "{bytes} bytes are kept of what was refused");
    // What is slow.
    assert_eq!(admin.say("ACL SETUSER u allkeys"), ok());
    assert_eq!(admin.say("CONFIG SET slowlog-log-slower-than 0"), ok());
    for number in 0..100 {
        client.call(&["GET", &format!("a{number}")]);
    }
    assert_eq!(admin.say("CONFIG SET slowlog-log-slower-than -1"), ok());
    let bytes = reply_bytes(admin, &["SLOWLOG", "GET", "-1"]);
    assert!((5_000..60_000).contains(&bytes), "{bytes} bytes are kept of what was slow");
    // Errors.
    for words in [
        &["CONFIG", "SET", &long, "x"][..],
        &["CLIENT", "KILL", "TYPE", &long],
        &["HELLO", "2", &long],
        &["ACL", "SETUSER", "v", &long],
        &["ACL", "CAT", &long],
        &["EXPIRE", "a", "1", &long],
        &[&long, "a"],
    ] {
        let bytes = reply_bytes(admin, words);
        assert!(bytes < 1000, "an error of {bytes} bytes for {}", &words[0][..words[0].len().min(20)]);
    }
}
