//! Whether replies are read as they were meant, and nothing else is.

use super::*;

fn all(input: &[u8]) -> Vec<Value> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some((value, bytes)) = decode(&input[at..]).unwrap() {
        assert_eq!(measure(&input[at..]), Ok(Some(bytes)));
        found.push(value);
        at += bytes;
    }
    assert_eq!(at, input.len());
    found
}

#[test]
fn every_type_is_read() {
    let input = b"+OK\r\n-ERR x\r\n:-5\r\n$2\r\n\r\n\r\n$-1\r\n*-1\r\n_\r\n*2\r\n:1\r\n*0\r\n%1\r\n+k\r\n#t\r\n~1\r\n,1.5\r\n>1\r\n(123\r\n=6\r\ntxt:hi\r\n!3\r\nERR\r\n,inf\r\n";
    let expected = vec![
        Value::Simple("OK".into()),
        Value::Error("ERR x".into()),
        Value::Integer(-5),
        Value::Bulk(b"\r\n".to_vec()),
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Array(vec![Value::Integer(1), Value::Array(vec![])]),
        Value::Map(vec![(Value::Simple("k".into()), Value::Boolean(true))]),
        Value::Set(vec![Value::Double(1.5)]),
        Value::Push(vec![Value::BigNumber("123".into())]),
        Value::Verbatim(b"hi".to_vec()),
        Value::Error("ERR".into()),
        Value::Double(f64::INFINITY),
    ];
    assert_eq!(all(input), expected);
}

#[test]
fn attributes_are_read_over() {
    let input = b"|1\r\n+ttl\r\n*1\r\n:9\r\n*2\r\n|0\r\n:1\r\n:2\r\n+next\r\n";
    let expected =
        vec![Value::Array(vec![Value::Integer(1), Value::Integer(2)]), Value::Simple("next".into())];
    assert_eq!(all(input), expected);
    assert_eq!(decode(b"|1\r\n+ttl\r\n:1\r\n"), Ok(None));
    assert_eq!(measure(b"|1\r\n+ttl\r\n:1\r\n"), Ok(None));
    assert_eq!(decode(&b"|0\r\n".repeat(100)).unwrap_err().reason, "too deep");
}

#[test]
fn what_is_cut_is_incomplete() {
    let input = b"*3\r\n$3\r\nabc\r\n%1\r\n+a\r\n:1\r\n$-1\r\n";
    for end in 0..input.len() {
        assert_eq!(decode(&input[..end]), Ok(None), "{end}");
        assert_eq!(measure(&input[..end]), Ok(None), "{end}");
    }
    assert!(decode(input).unwrap().is_some());
}

#[test]
fn what_is_no_reply_is_refused() {
    for input in
        ["?\r\n", "\r\n", ":x\r\n", "$x\r\n", "*-2\r\n", "$1\r\nabc\r\n", "#x\r\n", ",x\r\n", "=1\r\na\r\n"]
    {
        assert!(decode(input.as_bytes()).is_err(), "{input:?}");
    }
    assert_eq!(decode(&b"*1\r\n".repeat(100)).unwrap_err().reason, "too deep");
}

#[test]
fn announced_lengths_take_no_memory() {
    assert_eq!(decode(b"*9000000000000000000\r\n:1\r\n"), Ok(None));
    assert_eq!(measure(b"%9000000000000000000\r\n:1\r\n"), Ok(None));
    assert_eq!(decode(b"$9000000000000000000\r\n:1\r\n"), Ok(None));
    assert!(decode(b"$9223372036854775807\r\n:1\r\n").is_ok());
}
