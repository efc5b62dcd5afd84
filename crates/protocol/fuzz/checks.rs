//! What must hold for any bytes that a socket brings.
//!
//! The fuzz targets call these with bytes that libFuzzer makes up, `tests/damage.rs` with bytes
//! from a seed. Each function panics if the parser is at fault.

use firn_protocol::command;
use firn_protocol::resp::{Arguments, Limits, Parsed, Parser, ProtocolError, Span, decode, measure};

/// The name of a fuzz target and what it checks.
pub(crate) type Check = (&'static str, fn(&[u8]));

/// Every check.
pub(crate) const ALL: &[Check] = &[("requests", requests), ("reply", reply)];

/// Does the check of this name.
pub(crate) fn run(name: &str, bytes: &[u8]) {
    let (_, check) = ALL.iter().find(|(known, _)| *known == name).expect("a check of that name");
    check(bytes);
}

type Requests = Vec<Vec<Vec<u8>>>;

/// Requests are the same however the stream is cut, their memory is that of the bytes, and their
/// keys are among them.
fn requests(bytes: &[u8]) {
    let (whole, error) = parse(bytes, bytes.len().max(1));
    for size in [1, 7] {
        assert_eq!(parse(bytes, size), (whole.clone(), error), "cut into pieces of {size}");
    }
    for arguments in &whole {
        assert!(arguments.iter().map(Vec::len).sum::<usize>() <= bytes.len());
        let Ok(command) = command::resolve(arguments) else { continue };
        let Ok(keys) = command::keys_of(command, arguments) else { continue };
        assert!(keys.iter().all(|key| *key > 0 && *key < arguments.len()), "{}: {keys:?}", command.name);
    }
}

/// All requests of a stream that comes in pieces of `size`, as a connection takes them, and what
/// ended it.
fn parse(bytes: &[u8], size: usize) -> (Requests, Option<ProtocolError>) {
    let (mut parser, mut spans, mut input, mut at) = (Parser::new(), Vec::<Span>::new(), Vec::new(), 0);
    let mut requests = Vec::new();
    for piece in bytes.chunks(size) {
        input.extend_from_slice(piece);
        loop {
            match parser.parse(&mut input[at..], &mut spans, &Limits::DEFAULT) {
                Ok(Parsed::Request(length)) => {
                    assert!(length > 0, "a request of nothing: the loop would not end");
                    let arguments = Arguments::new(&input[at..at + length], &spans);
                    requests.push(arguments.iter().map(<[u8]>::to_vec).collect());
                    at += length;
                    spans.clear();
                }
                Ok(Parsed::Incomplete(missing)) => {
                    assert!(missing > 0);
                    break;
                }
                Err(error) => return (requests, Some(error)),
            }
            assert!(spans.capacity() <= 16 * bytes.len() + 64, "memory for what was only announced");
        }
    }
    (requests, None)
}

/// A reply is read where it ends and nowhere before.
fn reply(bytes: &[u8]) {
    let Ok(Some((value, length))) = decode(bytes) else { return };
    assert_eq!(measure(bytes), Ok(Some(length)));
    let (again, same) = decode(&bytes[..length]).expect("it was one").expect("it was whole");
    // As text, since what is no number equals nothing.
    assert_eq!((format!("{again:?}"), same), (format!("{value:?}"), length));
    assert_eq!(decode(&bytes[..length - 1]), Ok(None), "less than all of it");
}
