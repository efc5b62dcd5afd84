//! Addresses of requests.

use hyper::Uri;

/// Whether `uri` names a bucket and no object of it.
pub(crate) fn is_of_bucket(uri: &Uri) -> bool {
    uri.path().trim_matches('/').split('/').nth(1).is_none()
}

/// What the query of `uri` has under `name`.
pub(crate) fn value(uri: &Uri, name: &str) -> Option<String> {
    let mut pairs =
        uri.query().unwrap_or_default().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| decoded(value))
}

/// `text` with `%XX` as what it stands for.
pub(crate) fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                out.extend(part.bytes().skip(2));
            }
            None => out.extend([b"%", part.as_bytes()].concat()),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
