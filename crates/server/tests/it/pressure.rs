//! Connections that come, go and misbehave while others work.

use std::io::{Read, Write};
use std::net::Shutdown;

use firn_protocol::resp::Value;
use firn_server::{Network, ServeSettings};

use super::NETWORK;
use super::client::{Served, bulk, ok, request};

#[test]
fn the_server_says_which_network_it_has() {
    let served = Served::start(1);
    if served.server.network() != NETWORK {
        assert_eq!((NETWORK, served.server.network()), (Network::Ring, Network::Epoll));
    }
}

/// Each of many connections says something of its own and leaves in one of several ways, while
/// others do the same.
#[test]
fn nobody_hears_what_was_meant_for_who_left() {
    let served = Served::start(2);
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let served = &served;
            scope.spawn(move || {
                for round in 0..150_u32 {
                    let mut client = served.connect();
                    let word = format!("{thread}-{round}-").repeat(200);
                    // Of its own: requests of clients that left may be executed later.
                    let key = format!("k{thread}:{round}");
                    client.stream.write_all(&request(&["SET", &key, &word])).unwrap();
                    let get_count = 30;
                    client.stream.write_all(&request(&["GET", &key]).repeat(get_count)).unwrap();
                    match round % 4 {
                        // Gone without a look at the answers.
                        0 => continue,
                        1 => drop(client.stream.shutdown(Shutdown::Both)),
                        2 => assert_eq!(client.reply(), Some(ok())),
                        _ => {
                            assert_eq!(client.reply(), Some(ok()));
                            for _ in 0..get_count {
                                assert_eq!(
                                    client.reply(),
                                    Some(bulk(&word)),
                                    "thread {thread}, round {round}"
                                );
                            }
                        }
                    }
                }
            });
        }
    });
    assert_eq!(served.connect().say("PING"), Value::Simple("PONG".into()));
}

#[test]
fn the_place_of_who_never_read_becomes_free() {
    let settings = ServeSettings { clients_max: 3, unread_bytes_max: 64 << 10, ..ServeSettings::default() };
    let served = Served::with(settings);
    let value = "x".repeat(100_000);
    for _ in 0..5 {
        let mut deaf = served.connect();
        assert_eq!(deaf.call(&["SET", "k", &value]), ok());
        deaf.stream.write_all(&request(&["GET", "k"]).repeat(500)).unwrap();
        deaf.stream.write_all(&request(&["SET", "last", "done"])).unwrap();
        let mut other = served.connect();
        assert_eq!(other.say("GET last"), Value::Null);
        drop(deaf);
        drop(other);
        // Three places, and two were taken: both must become free for three at once.
        let is_free = || {
            let mut clients: Vec<_> = (0..3).map(|_| served.connect()).collect();
            clients.iter_mut().all(|client| {
                client.stream.write_all(b"PING\r\n").is_ok()
                    && client.reply() == Some(Value::Simple("PONG".into()))
            })
        };
        assert!((0..1000).any(|_| is_free()), "no place became free");
        let is_alone = || {
            let mut client = served.connect();
            client.stream.write_all(b"GET last\r\n").is_ok() && client.reply() == Some(Value::Null)
        };
        assert!((0..1000).any(|_| is_alone()), "requests of who is gone were executed");
    }
}

#[test]
fn a_stream_of_large_values_is_taken_while_others_work() {
    let served = Served::start(1);
    std::thread::scope(|scope| {
        for thread in 0..3_u32 {
            let mut client = served.connect();
            scope.spawn(move || {
                for round in 0..20_u32 {
                    let value: String = (0..300_000)
                        .map(|at| char::from(b'a' + ((at + round + thread) % 26) as u8))
                        .collect();
                    assert_eq!(client.call(&["SET", &format!("large{thread}"), &value]), ok());
                    assert_eq!(client.call(&["GET", &format!("large{thread}")]), bulk(&value));
                }
            });
        }
        let mut client = served.connect();
        for number in 1..=300 {
            assert_eq!(client.say("INCR n"), Value::Integer(number));
        }
    });
}

#[test]
fn who_has_asked_everything_still_gets_the_answers() {
    let served = Served::start(1);
    let mut client = served.connect();
    assert_eq!(client.say("SET k value"), ok());
    client.stream.write_all(&request(&["GET", "k"]).repeat(1000)).unwrap();
    client.stream.shutdown(Shutdown::Write).unwrap();
    for _ in 0..1000 {
        assert_eq!(client.reply(), Some(bulk("value")));
    }
    assert_eq!(client.reply(), None);
}

#[test]
fn who_is_sent_away_reads_why_behind_all_answers() {
    let served = Served::start(1);
    for _ in 0..50 {
        let mut client = served.connect();
        let mut bytes = request(&["PING"]).repeat(100);
        bytes.extend_from_slice(b"*x\r\n");
        client.stream.write_all(&bytes).unwrap();
        let mut said = Vec::new();
        client.stream.read_to_end(&mut said).unwrap();
        let expected = "+PONG\r\n".repeat(100) + "-ERR Protocol error: invalid multibulk length\r\n";
        assert_eq!(String::from_utf8_lossy(&said), expected);
    }
}

#[test]
fn a_server_ends_in_the_middle_of_everything() {
    for _ in 0..5 {
        let served = Served::start(2);
        let mut clients: Vec<_> = (0..20).map(|_| served.connect()).collect();
        for client in &mut clients {
            client.stream.write_all(&request(&["SET", "k", &"v".repeat(5000)]).repeat(20)).unwrap();
        }
        served.server.stop().unwrap();
        for client in &mut clients {
            let mut rest = Vec::new();
            // With requests unread it is a reset: an end in any case.
            let _ = client.stream.read_to_end(&mut rest);
            assert_eq!(rest.len() % 5, 0, "half a reply");
        }
    }
}
