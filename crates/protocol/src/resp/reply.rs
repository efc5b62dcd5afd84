//! Replies, as the bytes that go out.

use crate::number;

/// Which version of the protocol a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Version 2: maps and sets are arrays, nothing is told apart but strings, numbers, arrays and
    /// errors.
    #[default]
    Resp2,
    /// Version 3, after `HELLO 3`.
    Resp3,
}

/// Appends replies to a connection's output.
///
/// A reply is one value; arrays, maps, sets and pushes announce how many values follow, and the
/// caller writes those. Nothing is checked: what is announced must be written.
#[derive(Debug)]
pub struct Reply<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
}

/// A place where the length of an aggregate will stand once it is known.
#[derive(Debug)]
#[must_use]
pub struct Mark(usize);

impl<'a> Reply<'a> {
    /// Appends to `out` what `protocol` says.
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Self { out, protocol }
    }

    /// The version being spoken.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Bytes in the output, those that were there before included.
    pub fn bytes(&self) -> usize {
        self.out.len()
    }

    /// `OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A short text. Line ends in it become spaces.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error: a code in capitals, a space, a sentence. Line ends in it become spaces.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text.as_bytes());
    }

    /// A number.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.head(b':', number);
    }

    /// A string of any bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.head(b'$', bytes.len() as i64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// The front of a string of `len` bytes, which follow [`raw`](Self::raw), piece by piece, up to
    /// [`bulk_end`](Self::bulk_end).
    pub fn bulk_head(&mut self, len: usize) {
        self.head(b'$', len as i64);
    }

    /// The end of a string that was begun by [`bulk_head`](Self::bulk_head).
    pub fn bulk_end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }

    /// A string where there is one, else null.
    #[inline]
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// A number as a string, as commands on strings answer.
    pub fn bulk_integer(&mut self, number: i64) {
        let mut digits = Vec::with_capacity(20);
        number::append_integer(&mut digits, number);
        self.bulk(&digits);
    }

    /// Nothing, where a value would stand.
    #[inline]
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Nothing, where an array would stand.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// A number with a fraction: a string in version 2.
    pub fn double(&mut self, number: f64) {
        let mut digits = Vec::with_capacity(24);
        number::append_double(&mut digits, number);
        match self.protocol {
            Protocol::Resp2 => self.bulk(&digits),
            Protocol::Resp3 => self.line(b',', &digits),
        }
    }

    /// Yes or no: 1 or 0 in version 2.
    pub fn boolean(&mut self, yes: bool) {
        match self.protocol {
            Protocol::Resp2 => self.integer(i64::from(yes)),
            Protocol::Resp3 => self.out.extend_from_slice(if yes { b"#t\r\n" } else { b"#f\r\n" }),
        }
    }

    /// An integer of any size, as its digits: a string in version 2.
    pub fn big_number(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits.as_bytes()),
            Protocol::Resp3 => self.line(b'(', digits.as_bytes()),
        }
    }

    /// A text for people; `kind` is three letters, `txt` or `mkd`. A plain string in version 2.
    pub fn verbatim(&mut self, kind: &[u8; 3], text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.head(b'=', text.len() as i64 + 4);
                self.out.extend_from_slice(kind);
                self.out.push(b':');
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// An array of `len` values, which follow.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.head(b'*', len as i64);
    }

    /// A map of `len` pairs, which follow: an array of twice as many values in version 2.
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.head(b'*', 2 * len as i64),
            Protocol::Resp3 => self.head(b'%', len as i64),
        }
    }

    /// A set of `len` values, which follow: an array in version 2.
    pub fn set(&mut self, len: usize) {
        self.head(if self.protocol == Protocol::Resp3 { b'~' } else { b'*' }, len as i64);
    }

    /// A message of `len` values, which follow, that answers no request: an array in version 2.
    pub fn push(&mut self, len: usize) {
        self.head(if self.protocol == Protocol::Resp3 { b'>' } else { b'*' }, len as i64);
    }

    /// What is said about the value that comes after it: `len` pairs, which follow. Version 2
    /// cannot say it: `false`, and none may follow.
    #[must_use]
    pub fn attributes(&mut self, len: usize) -> bool {
        let is_said = self.protocol == Protocol::Resp3;
        if is_said {
            self.head(b'|', len as i64);
        }
        is_said
    }

    /// Begins an array, set or map whose length is not known yet; values follow, then
    /// [`finish_array`](Self::finish_array) or its like for sets and maps.
    pub fn mark(&self) -> Mark {
        Mark(self.out.len())
    }

    /// Says that `len` values followed `mark`. Moves them by the few bytes that the length takes.
    pub fn finish_array(&mut self, mark: Mark, len: usize) {
        self.insert_head(mark, |reply| reply.array(len));
    }

    /// Says that the `len` values that followed `mark` are a set.
    pub fn finish_set(&mut self, mark: Mark, len: usize) {
        self.insert_head(mark, |reply| reply.set(len));
    }

    /// Says that the values that followed `mark` are `len` pairs of a map.
    pub fn finish_map(&mut self, mark: Mark, len: usize) {
        self.insert_head(mark, |reply| reply.map(len));
    }

    /// Takes back everything since `mark`.
    pub fn rewind(&mut self, mark: Mark) {
        self.out.truncate(mark.0);
    }

    /// Appends replies that were written before, by a `Reply` of the same protocol.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn insert_head(&mut self, mark: Mark, head: impl FnOnce(&mut Reply<'_>)) {
        let mut bytes = Vec::with_capacity(24);
        head(&mut Reply::new(&mut bytes, self.protocol));
        let at = mark.0.min(self.out.len());
        self.out.splice(at..at, bytes);
    }

    #[inline]
    fn head(&mut self, kind: u8, number: i64) {
        let mut buffer = itoa::Buffer::new();
        self.out.push(kind);
        self.out.extend_from_slice(buffer.format(number).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(protocol: Protocol, write: impl FnOnce(&mut Reply<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Reply::new(&mut out, protocol));
        String::from_utf8(out).unwrap()
    }

    type Write = fn(&mut Reply<'_>);

    #[test]
    fn both_versions_say_it_in_their_way() {
        let cases: [(Write, &str, &str); 18] = [
            (|r| r.ok(), "+OK\r\n", "+OK\r\n"),
            (|r| r.simple("a\r\nb"), "+a  b\r\n", "+a  b\r\n"),
            (|r| r.error("ERR no\nway"), "-ERR no way\r\n", "-ERR no way\r\n"),
            (|r| r.integer(-7), ":-7\r\n", ":-7\r\n"),
            (|r| r.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
            (|r| r.bulk_integer(12), "$2\r\n12\r\n", "$2\r\n12\r\n"),
            (|r| r.null(), "$-1\r\n", "_\r\n"),
            (|r| r.null_array(), "*-1\r\n", "_\r\n"),
            (|r| r.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (|r| r.boolean(true), ":1\r\n", "#t\r\n"),
            (|r| r.verbatim(b"txt", b"hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
            (|r| r.array(3), "*3\r\n", "*3\r\n"),
            (|r| r.map(2), "*4\r\n", "%2\r\n"),
            (|r| r.set(2), "*2\r\n", "~2\r\n"),
            (|r| r.push(3), "*3\r\n", ">3\r\n"),
            (|r| r.bulk_or_null(None), "$-1\r\n", "_\r\n"),
            (|r| r.big_number("-12"), "$3\r\n-12\r\n", "(-12\r\n"),
            (|r| assert_eq!(r.attributes(1), r.protocol() == Protocol::Resp3), "", "|1\r\n"),
        ];
        for (write, two, three) in cases {
            assert_eq!(said(Protocol::Resp2, write), two);
            assert_eq!(said(Protocol::Resp3, write), three);
        }
    }

    #[test]
    fn lengths_can_come_last() {
        let write = |reply: &mut Reply<'_>| {
            reply.integer(1);
            let outer = reply.mark();
            reply.bulk(b"k");
            let inner = reply.mark();
            (0..12).for_each(|number| reply.integer(number));
            reply.finish_set(inner, 12);
            reply.finish_map(outer, 1);
            let nothing = reply.mark();
            reply.integer(9);
            reply.rewind(nothing);
        };
        let numbers: String = (0..12).map(|number| format!(":{number}\r\n")).collect();
        assert_eq!(said(Protocol::Resp2, write), format!(":1\r\n*2\r\n$1\r\nk\r\n*12\r\n{numbers}"));
        assert_eq!(said(Protocol::Resp3, write), format!(":1\r\n%1\r\n$1\r\nk\r\n~12\r\n{numbers}"));
    }
}
