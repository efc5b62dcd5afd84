use super::*;

/// Every request of `input`, given to a parser in pieces of `piece_bytes`.
fn requests(input: &[u8], piece_bytes: usize, limits: &Limits) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
    let (mut parser, mut spans, mut buffer) = (Parser::new(), Vec::new(), Vec::new());
    let mut found = Vec::new();
    for piece in input.chunks(piece_bytes) {
        buffer.extend_from_slice(piece);
        loop {
            match parser.parse(&mut buffer, &mut spans, limits)? {
                Parsed::Incomplete(missing) => {
                    assert!(missing > 0);
                    break;
                }
                Parsed::Request(bytes) => {
                    found.push(Arguments::new(&buffer, &spans).iter().map(<[u8]>::to_vec).collect());
                    spans.clear();
                    buffer.drain(..bytes);
                }
            }
        }
    }
    assert!(buffer.is_empty() || !spans.is_empty() || parser.missing.is_some() || parser.searched > 0);
    Ok(found)
}

fn whole(input: &[u8]) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
    requests(input, input.len().max(1), &Limits::DEFAULT)
}

fn words(request: &[&str]) -> Vec<Vec<u8>> {
    request.iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn requests_are_found_however_the_stream_is_cut() {
    let input = b"*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\na\r\nb\0\r\n*0\r\nGET k\r\n\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\nPING\n";
    let expected = vec![
        words(&["PING"]),
        words(&["SET", "k", "a\r\nb\0"]),
        vec![],
        words(&["GET", "k"]),
        vec![],
        words(&["GET", ""]),
        words(&["PING"]),
    ];
    for piece_bytes in 1..input.len() + 1 {
        assert_eq!(requests(input, piece_bytes, &Limits::DEFAULT).as_ref(), Ok(&expected), "{piece_bytes}");
    }
}

#[test]
fn each_byte_is_searched_once() {
    // Quadratic work would not end within a test's patience.
    let mut input = b"*1\r\n$60000\r\n".to_vec();
    input.extend(vec![b'x'; 60_000]);
    input.extend(b"\r\n");
    input.extend(vec![b'y'; 60_000]);
    input.extend(b"\r\n");
    assert_eq!(requests(&input, 1, &Limits::DEFAULT).unwrap().len(), 2);
}

#[test]
fn what_is_missing_of_an_argument_is_told() {
    let (mut parser, mut spans) = (Parser::new(), Vec::new());
    let mut input = b"*1\r\n$100\r\nabc".to_vec();
    assert_eq!(parser.parse(&mut input, &mut spans, &Limits::DEFAULT), Ok(Parsed::Incomplete(99)));
}

#[test]
fn errors_have_the_texts_that_clients_know() {
    let long = vec![b'1'; 70_000];
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"*x\r\n".to_vec(), "Protocol error: invalid multibulk length"),
        (b"*3000000000\r\n".to_vec(), "Protocol error: invalid multibulk length"),
        (b"*1\r\n:1\r\n".to_vec(), "Protocol error: expected '$', got ':'"),
        (b"*1\r\n$-1\r\n".to_vec(), "Protocol error: invalid bulk length"),
        (b"*1\r\n$abc\r\n".to_vec(), "Protocol error: invalid bulk length"),
        (b"*1\r\n$536870913\r\n".to_vec(), "Protocol error: invalid bulk length"),
        ([b"*", &long[..]].concat(), "Protocol error: too big mbulk count string"),
        ([b"*1\r\n$", &long[..]].concat(), "Protocol error: too big bulk count string"),
        (long.clone(), "Protocol error: too big inline request"),
        (b"SET \"a b\r\n".to_vec(), "Protocol error: unbalanced quotes in request"),
        (b"SET \"a\"b\r\n".to_vec(), "Protocol error: unbalanced quotes in request"),
    ];
    for (input, text) in cases {
        let error = whole(&input).expect_err(text);
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn unknown_clients_may_say_little() {
    let limits = Limits::UNKNOWN_CLIENT;
    let many = requests(b"*11\r\n", 10, &limits).unwrap_err();
    assert_eq!(many.to_string(), "Protocol error: unauthenticated multibulk length");
    let long = requests(b"*1\r\n$16385\r\n", 100, &limits).unwrap_err();
    assert_eq!(long.to_string(), "Protocol error: unauthenticated bulk length");
    assert_eq!(requests(b"*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n", 100, &limits).unwrap().len(), 1);
}

#[test]
fn counts_that_are_never_met_take_no_memory() {
    let (mut parser, mut spans) = (Parser::new(), Vec::new());
    let mut input = b"*2000000000\r\n$1\r\na\r\n".to_vec();
    assert_eq!(parser.parse(&mut input, &mut spans, &Limits::DEFAULT), Ok(Parsed::Incomplete(1)));
    assert!(spans.capacity() < 16);
}

#[test]
fn quotes_are_taken_away() {
    let cases: [(&str, &[&[u8]]); 8] = [
        ("SET \"a b\" c", &[b"SET", b"a b", b"c"]),
        ("  SET\t'it\\'s' x ", &[b"SET", b"it's", b"x"]),
        (r#"X "\x41\xzz\n\r\t\b\a\"\\q""#, &[b"X", b"Axzz\n\r\t\x08\x07\"\\q"]),
        (r#"X '\n'"#, &[b"X", b"\\n"]),
        ("a\"b c\" d", &[b"ab c", b"d"]),
        ("\"\" ''", &[b"", b""]),
        ("\"a\" \"b\"", &[b"a", b"b"]),
        ("", &[]),
    ];
    for (line, expected) in cases {
        let found = whole(format!("{line}\r\n").as_bytes()).unwrap();
        let expected: Vec<Vec<u8>> = expected.iter().map(|argument| argument.to_vec()).collect();
        assert_eq!(found, vec![expected], "{line}");
    }
}

#[test]
fn random_streams_never_hurt() {
    let mut rng = fastrand::Rng::with_seed(11);
    for round in 0..20_000 {
        let pieces: [&[u8]; 9] = [b"*", b"$", b"\r\n", b"1", b"3", b"-", b"\"", b"GET", b" "];
        let input: Vec<u8> = (0..rng.usize(1..40)).flat_map(|_| pieces[rng.usize(0..9)].to_vec()).collect();
        let whole = requests(&input, input.len(), &Limits::DEFAULT);
        let cut = requests(&input, rng.usize(1..5), &Limits::DEFAULT);
        assert_eq!(whole, cut, "seed 11, round {round}: {input:?}");
    }
}
