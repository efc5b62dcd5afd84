//! Uploads in parts that have begun and not ended.

use std::collections::{BTreeMap, BTreeSet};

use hyper::{Method, Uri};

/// An upload that has begun, and is neither an object nor given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Its name for the server.
    pub id: String,
    /// The object that it is to become, as `BUCKET/KEY`.
    pub key: String,
    /// Parts that have come; a part that came twice counts twice. 0: perhaps its client does not
    /// know of it.
    pub parts: u64,
}

/// What a request does with an upload, named by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Begin,
    Part(String),
    Complete(String),
    Abort(String),
}

impl Step {
    /// Of a request with `method` for `uri`; `None` if it is about no upload.
    pub(crate) fn of(method: &Method, uri: &Uri) -> Option<Self> {
        let query = uri.query().unwrap_or_default();
        let id = query.split('&').find_map(|pair| pair.strip_prefix("uploadId=")).map(str::to_owned);
        match *method {
            Method::POST if query.split('&').any(|pair| pair.trim_end_matches('=') == "uploads") => {
                Some(Self::Begin)
            }
            Method::POST => id.map(Self::Complete),
            Method::PUT => id.map(Self::Part),
            Method::DELETE => id.map(Self::Abort),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Uploads {
    /// By id.
    unfinished: BTreeMap<String, Upload>,
    /// What uploads that have ended well became, as `BUCKET/KEY`.
    completed: BTreeSet<String>,
}

impl Uploads {
    /// An upload of `key` has begun, and is called `id`.
    pub(crate) fn begin(&mut self, key: &str, id: &str) {
        let upload = Upload { id: id.to_owned(), key: key.to_owned(), parts: 0 };
        self.unfinished.insert(id.to_owned(), upload);
    }

    /// `step` was taken with parts of `key`.
    pub(crate) fn note(&mut self, key: &str, step: &Step) {
        match step {
            Step::Begin => {}
            Step::Part(id) => {
                // The beginning of an upload may have been seen by an earlier server.
                let new = || Upload { id: id.clone(), key: key.to_owned(), parts: 0 };
                self.unfinished.entry(id.clone()).or_insert_with(new).parts += 1;
            }
            Step::Complete(id) => {
                self.unfinished.remove(id);
                self.completed.insert(key.to_owned());
            }
            Step::Abort(id) => drop(self.unfinished.remove(id)),
        }
    }

    pub(crate) fn unfinished(&self) -> Vec<Upload> {
        self.unfinished.values().cloned().collect()
    }

    pub(crate) fn completed(&self) -> BTreeSet<String> {
        self.completed.clone()
    }
}

/// The id that `answer` gives to an upload that has begun.
pub(crate) fn id_of(answer: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(answer).ok()?;
    text.split("<UploadId>").nth(1)?.split("</UploadId>").next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_are_known_from_their_beginning_to_their_end() {
        let step = |method: Method, uri: &str| Step::of(&method, &uri.parse().expect("an address"));
        let part = step(Method::PUT, "/b/p/x?partNumber=1&uploadId=u");
        assert_eq!(part, Some(Step::Part("u".to_owned())));
        assert_eq!(step(Method::POST, "/b/p/x?uploads="), Some(Step::Begin));
        for (method, uri) in [(Method::PUT, "/b/p/x"), (Method::POST, "/b?delete"), (Method::GET, "/b/p/x")] {
            assert_eq!(step(method, uri), None);
        }
        for (end, becomes) in [(Method::POST, Some("b/p/x".to_owned())), (Method::DELETE, None)] {
            let mut uploads = Uploads::default();
            let id = id_of(b"<X><Key>p/x</Key><UploadId>u</UploadId></X>").expect("it has one");
            uploads.begin("b/p/x", &id);
            assert_eq!(uploads.unfinished().len(), 1);
            (0..2).for_each(|_| uploads.note("b/p/x", &Step::Part("u".to_owned())));
            let known = Upload { id: "u".to_owned(), key: "b/p/x".to_owned(), parts: 2 };
            assert_eq!(uploads.unfinished(), [known]);
            uploads.note("b/p/x", &step(end, "/b/p/x?uploadId=u").expect("an end"));
            assert_eq!(uploads.unfinished(), []);
            assert_eq!(uploads.completed(), becomes.into_iter().collect());
        }
    }
}
