//! What is asked for: the head of a request.

/// Bytes of a head; a longer one is refused.
pub(super) const HEAD_BYTES_MAX: usize = 8 << 10;

/// A request without its body, which no site uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub(super) method: String,
    /// Without what follows `?`.
    pub(super) path: String,
    /// What follows `?`: names and values, decoded.
    pub(super) query: Vec<(String, String)>,
    /// Names in small letters.
    headers: Vec<(String, String)>,
}

/// What the bytes received so far are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Complete(Request),
    Incomplete,
    TooLong,
    Malformed,
}

impl Head {
    /// Reads `bytes`, which may hold more than the head.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            return if bytes.len() < HEAD_BYTES_MAX { Self::Incomplete } else { Self::TooLong };
        };
        if end > HEAD_BYTES_MAX {
            return Self::TooLong;
        }
        let text = bytes.get(..end).and_then(|head| std::str::from_utf8(head).ok());
        text.and_then(Request::parse).map_or(Self::Malformed, Self::Complete)
    }
}

impl Request {
    fn parse(head: &str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
        if words.next().is_some() || !is_method || !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
            return None;
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if !path.starts_with('/') {
            return None;
        }
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let query = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name)?, decode(value)?))
        });
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        });
        Some(Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.collect::<Option<_>>()?,
            headers: headers.collect::<Option<_>>()?,
        })
    }

    /// The value of a header, whose name is in small letters.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value of a name in the query.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Text of a query, in which `%41` is `A` and `+` a space.
fn decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_when_it_is_whole() {
        let text = b"POST /backup?to=a%2Fb+c&x HTTP/1.1\r\nHost: here\r\nX-Firn:  yes \r\n\r\nmore";
        for end in 0..text.len() - 4 {
            assert_eq!(Head::parse(&text[..end]), Head::Incomplete, "{end}");
        }
        let Head::Complete(request) = Head::parse(text) else { panic!("it is whole") };
        assert_eq!((&*request.method, &*request.path), ("POST", "/backup"));
        assert_eq!(request.parameter("to"), Some("a/b c"));
        assert_eq!((request.parameter("x"), request.parameter("y")), (Some(""), None));
        assert_eq!((request.header("x-firn"), request.header("host")), (Some("yes"), Some("here")));
    }

    #[test]
    fn what_is_no_head_is_refused() {
        let cases: [&[u8]; 8] = [
            b"GET / HTTP/2\r\n\r\n",
            b"GET /\r\n\r\n",
            b"get / HTTP/1.1\r\n\r\n",
            b"GET x HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1 x\r\n\r\n",
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
            b"GET /?a=%4 HTTP/1.1\r\n\r\n",
            b"GET /\xff HTTP/1.1\r\n\r\n",
        ];
        for head in cases {
            assert_eq!(Head::parse(head), Head::Malformed, "{:?}", String::from_utf8_lossy(head));
        }
        assert_eq!(Head::parse(&[b'a'; HEAD_BYTES_MAX]), Head::TooLong);
        assert_eq!(Head::parse(&[b'a'; HEAD_BYTES_MAX - 1]), Head::Incomplete);
    }
}
