use firn_protocol::resp::{Arguments, Limits, Parsed, Parser};

use super::*;

const VALUE_BYTES: usize = 5;

/// The arguments of `count` requests of `command`, as a server reads them.
fn read(command: RespCommand, keys: Distribution, count: usize) -> Vec<Vec<Vec<u8>>> {
    let mut requests = Requests::new(command, keys, ValuePool::new(VALUE_BYTES, 7), VALUE_BYTES, 7);
    let mut bytes = Vec::new();
    (0..count).for_each(|_| requests.append(&mut bytes));
    let (mut parser, mut found, mut at) = (Parser::new(), Vec::new(), 0);
    for _ in 0..count {
        let mut spans = Vec::new();
        match parser.parse(&mut bytes[at..], &mut spans, &Limits::DEFAULT).expect("a request") {
            Parsed::Request(length) => {
                let arguments = Arguments::new(&bytes[at..at + length], &spans);
                found.push(arguments.iter().map(<[u8]>::to_vec).collect());
                at += length;
            }
            Parsed::Incomplete(_) => panic!("half a request: {:?}", bytes[at..].escape_ascii().to_string()),
        }
    }
    assert_eq!(at, bytes.len());
    found
}

fn sequential(count: u64) -> Distribution {
    Keys::Sequential.over(count)
}

#[test]
fn every_command_is_a_request_with_its_arguments() {
    for (command, first) in [
        (RespCommand::Get, "GET key:000000000000"),
        (RespCommand::Set, "SET key:000000000000 ?"),
        (RespCommand::Incr, "INCR counter:000000000000"),
        (RespCommand::Hset, "HSET hash:000000000000 000000000000 ?"),
        (RespCommand::Lpush, "LPUSH list:000000000000 ?"),
        (RespCommand::Zadd, "ZADD zset:000000000000 000000000000 000000000000"),
        (RespCommand::Mset, "MSET key:000000000000 ? key:000000000001 ? key:000000000002 ?"),
        (RespCommand::Ping, "PING"),
    ] {
        assert_eq!(command.to_possible_value().unwrap().get_name(), command.name());
        let found = read(command, sequential(1_000_000), 3);
        for (index, expected) in first.split(' ').enumerate() {
            match expected {
                "?" => assert_eq!(found[0][index].len(), VALUE_BYTES, "{command:?}"),
                text => assert_eq!(found[0][index], text.as_bytes(), "{command:?}"),
            }
        }
        let count = if command == RespCommand::Mset { 21 } else { first.split(' ').count() };
        assert!(found.iter().all(|arguments| arguments.len() == count), "{command:?}");
    }
}

#[test]
fn numbers_are_drawn_once_for_a_collection_and_its_element() {
    let found = read(RespCommand::Hset, sequential(1_000), 1_000);
    assert_eq!(found[257][1..3], [b"hash:000000000002".to_vec(), b"000000000057".to_vec()]);
    assert_eq!(found[999][1..3], [b"hash:000000000009".to_vec(), b"000000000099".to_vec()]);
}

#[test]
fn keys_stay_within_their_number_and_follow_the_distribution() {
    for keys in [Keys::Uniform, Keys::Zipfian, Keys::Sequential] {
        let mut drawn: Vec<_> =
            read(RespCommand::Get, keys.over(500), 1_000).into_iter().map(|mut a| a.remove(1)).collect();
        assert!(drawn.iter().all(|key| key.as_slice() <= b"key:000000000499".as_slice()), "{keys:?}");
        drawn.sort();
        let most = drawn.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap();
        match keys {
            Keys::Sequential => assert_eq!(most, 2),
            Keys::Uniform => assert!((3..15).contains(&most), "{most}"),
            Keys::Zipfian => assert!(most > 25, "{most}"),
        }
    }
}

#[test]
fn empty_values_are_requests_too() {
    let mut out = Vec::new();
    Requests::new(RespCommand::Set, sequential(9), ValuePool::new(0, 1), 0, 1).append(&mut out);
    assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n$0\r\n\r\n");
}
