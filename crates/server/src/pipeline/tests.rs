//! Pipelines against one request after the other, however the stream is cut.

use super::*;

fn words(arguments: Arguments<'_>) -> Vec<Vec<u8>> {
    arguments.iter().map(<[u8]>::to_vec).collect()
}

/// Everything that comes out of `pieces`: requests, and the error that ends them.
fn requests(pieces: &[&[u8]], is_unknown: bool) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let (mut pipeline, mut found) = (Pipeline::default(), Vec::new());
    for piece in pieces {
        pipeline.input().extend_from_slice(piece);
        loop {
            match pipeline.fill(&Limits::DEFAULT, is_unknown) {
                Ok(_) => {}
                Err(error) => return (found, Some(error)),
            }
            if is_unknown {
                assert!(pipeline.waiting().len() <= 1, "who it is decides about the next one");
            }
            let Some(whole) = pipeline.next() else { break };
            found.push(words(pipeline.arguments(&whole)));
        }
    }
    (found, None)
}

fn stream(count: usize) -> (Vec<u8>, Vec<Vec<Vec<u8>>>) {
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    for number in 0..count {
        let request: Vec<Vec<u8>> =
            (0..=number % 4).map(|word| vec![b'a' + word as u8; number % 7]).collect();
        if number % 5 == 4 {
            bytes.extend_from_slice(b"inline \"two words\"\r\n");
            expected.push(vec![b"inline".to_vec(), b"two words".to_vec()]);
        }
        bytes.extend_from_slice(format!("*{}\r\n", request.len()).as_bytes());
        for word in &request {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        expected.push(request);
    }
    (bytes, expected)
}

#[test]
fn requests_come_out_however_the_stream_is_cut() {
    let (bytes, expected) = stream(3 * AHEAD_MAX + 5);
    for is_unknown in [false, true] {
        assert_eq!(requests(&[&bytes], is_unknown), (expected.clone(), None));
        for cut in 0..bytes.len() {
            let (front, back) = bytes.split_at(cut);
            assert_eq!(requests(&[front, back], is_unknown).0, expected, "cut at {cut}");
        }
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(requests(&single, false), (expected, None));
}

#[test]
fn an_error_comes_behind_all_requests_before_it() {
    let (mut bytes, expected) = stream(AHEAD_MAX / 2);
    bytes.extend_from_slice(b"*1\r\n!4\r\nPING\r\n");
    assert_eq!(requests(&[&bytes], false), (expected, Some(ProtocolError::ExpectedLength(b'!'))));
}

#[test]
fn a_request_knows_what_came_behind_it() {
    let mut pipeline = Pipeline::default();
    pipeline.input().extend_from_slice(b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQU");
    assert_eq!(pipeline.fill(&Limits::DEFAULT, false), Ok(true));
    let whole = pipeline.next().unwrap();
    assert_eq!((whole.bytes(), pipeline.bytes_behind(&whole)), (14, 10));
    assert!(pipeline.next().is_none());
    assert_eq!(pipeline.fill(&Limits::DEFAULT, false), Ok(false));
    assert_eq!(pipeline.input().len(), 10, "the rest stays");
}
