//! Who may do what, in the words of bucket policies.

use hyper::{Method, Uri};

/// Somebody who asks, beside whoever may do everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// What he signs with.
    pub access_key: String,
    /// The secret of that key.
    pub secret_key: String,
    /// All that he may do.
    pub grants: Vec<Grant>,
}

/// Something that somebody may do: an action at a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// `s3:GetObject`, `s3:PutObject`, `s3:DeleteObject`, `s3:AbortMultipartUpload` or `s3:ListBucket`.
    pub action: String,
    /// `arn:aws:s3:::BUCKET/KEY`, for `s3:ListBucket` without the key; `*` stands for any characters, `?` for one.
    pub resource: String,
    /// What names that are asked for must begin with, with the same signs; `None` = nothing.
    pub prefix: Option<String>,
}

/// What a request does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deed {
    action: &'static str,
    resource: String,
    prefix: String,
}

impl Deed {
    /// Of a request with `method` for `uri`.
    pub(crate) fn of(method: &Method, uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
        let is_bucket = uri.path().trim_matches('/').split('/').nth(1).is_none();
        let action = match *method {
            Method::GET | Method::HEAD if is_bucket => "s3:ListBucket",
            Method::GET | Method::HEAD => "s3:GetObject",
            Method::DELETE if has("uploadId") => "s3:AbortMultipartUpload",
            Method::DELETE => "s3:DeleteObject",
            Method::POST if has("delete") => "s3:DeleteObject",
            _ => "s3:PutObject",
        };
        let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).unwrap_or_default();
        Self {
            action,
            resource: format!("arn:aws:s3:::{}", decoded(uri.path().trim_matches('/'))),
            prefix: decoded(prefix),
        }
    }

    /// Whether one of `grants` is for it. Names that are removed together are in the body: whoever may remove any of the bucket's may ask for that.
    fn is_granted(&self, grants: &[Grant]) -> bool {
        grants.iter().filter(|grant| grant.action == self.action).any(|grant| {
            let is_removal_of_many = self.action == "s3:DeleteObject" && !self.resource.contains('/');
            let resource = match is_removal_of_many {
                true => grant.resource.split('/').next().unwrap_or_default(),
                false => &grant.resource,
            };
            fits(resource.as_bytes(), self.resource.as_bytes())
                && grant.prefix.as_ref().is_none_or(|prefix| fits(prefix.as_bytes(), self.prefix.as_bytes()))
        })
    }

    /// Whether whoever may do `grants` is told that what he asks for is not there: who may list.
    fn may_know(&self, grants: &[Grant]) -> bool {
        let bucket = self.resource.split('/').next().unwrap_or_default();
        grants.iter().any(|grant| grant.action == "s3:ListBucket" && grant.resource == bucket)
    }

    pub(crate) fn is_removal(&self) -> bool {
        matches!(self.action, "s3:DeleteObject" | "s3:AbortMultipartUpload")
    }

    pub(crate) fn is_list(&self) -> bool {
        self.action == "s3:ListBucket"
    }

    /// For people.
    pub(crate) fn shown(&self) -> String {
        format!("{} {} {}", self.action, self.resource, self.prefix).trim_end().to_owned()
    }
}

/// What a server lets whoever signed a request do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leave {
    pub(crate) is_granted: bool,
    /// Whether he is told that something is not there; else that is forbidden, as S3 has it.
    pub(crate) may_know: bool,
}

impl Leave {
    /// Of whoever has signed with `authorization`; whoever is none of `users` may do everything, once he has signed well.
    pub(crate) fn of(users: &[User], authorization: &str, deed: &Deed) -> (Self, String) {
        let key = authorization.split("Credential=").nth(1).and_then(|rest| rest.split('/').next());
        let key = key.unwrap_or_default();
        let user = users.iter().find(|user| user.access_key == key);
        let leave = user.map_or(Self { is_granted: true, may_know: true }, |user| Self {
            is_granted: deed.is_granted(&user.grants),
            may_know: deed.may_know(&user.grants),
        });
        (leave, key.to_owned())
    }
}

/// Whether `text` is as `pattern` says, in which `*` stands for any characters and `?` for one.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, _) => text.is_empty(),
        (Some((b'*', rest)), _) => {
            (0..=text.len()).any(|at| text.get(at..).is_some_and(|text| fits(rest, text)))
        }
        (Some((b'?', rest)), Some((_, text))) => fits(rest, text),
        (Some((byte, rest)), Some((found, text))) => byte == found && fits(rest, text),
        (Some(_), None) => false,
    }
}

/// `text` with `%XX` as what it stands for.
fn decoded(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn deed(method: Method, uri: &str) -> Deed {
        Deed::of(&method, &uri.parse().expect("an address"))
    }

    #[test]
    fn requests_are_what_policies_call_them() {
        for (method, uri, shown) in [
            (Method::GET, "/b/p/x.table", "s3:GetObject arn:aws:s3:::b/p/x.table"),
            (Method::HEAD, "/b/p/x%2Ey", "s3:GetObject arn:aws:s3:::b/p/x.y"),
            (Method::GET, "/b?list-type=2&prefix=p%2F", "s3:ListBucket arn:aws:s3:::b p/"),
            (Method::PUT, "/b/p/x?partNumber=1&uploadId=u", "s3:PutObject arn:aws:s3:::b/p/x"),
            (Method::POST, "/b/p/x?uploads", "s3:PutObject arn:aws:s3:::b/p/x"),
            (Method::DELETE, "/b/p/x?uploadId=u", "s3:AbortMultipartUpload arn:aws:s3:::b/p/x"),
            (Method::DELETE, "/b/p/x", "s3:DeleteObject arn:aws:s3:::b/p/x"),
            (Method::POST, "/b?delete", "s3:DeleteObject arn:aws:s3:::b"),
        ] {
            assert_eq!(deed(method, uri).shown(), shown);
        }
    }

    #[test]
    fn only_what_is_granted_is_let_through() {
        let grant = |action: &str, resource: &str, prefix: Option<&str>| Grant {
            action: action.to_owned(),
            resource: resource.to_owned(),
            prefix: prefix.map(str::to_owned),
        };
        let grants = [
            grant("s3:PutObject", "arn:aws:s3:::b/p/*-????-*.table", None),
            grant("s3:DeleteObject", "arn:aws:s3:::b/p/*", None),
            grant("s3:ListBucket", "arn:aws:s3:::b", Some("p/*")),
        ];
        for (method, uri, is_granted) in [
            (Method::PUT, "/b/p/a-1234-0.table", true),
            (Method::PUT, "/b/p/a-123-0.table", false),
            (Method::PUT, "/b/q/a-1234-0.table", false),
            (Method::PUT, "/b/p/manifest-1", false),
            (Method::GET, "/b/p/a-1234-0.table", false),
            (Method::GET, "/b?prefix=p%2F", true),
            (Method::GET, "/b?prefix=q%2F", false),
            (Method::GET, "/b", false),
            (Method::POST, "/b?delete", true),
            (Method::POST, "/c?delete", false),
        ] {
            assert_eq!(deed(method, uri).is_granted(&grants), is_granted, "{uri}");
        }
        assert!(deed(Method::HEAD, "/b/p/x").may_know(&grants));
        assert!(!deed(Method::HEAD, "/b/p/x").may_know(&grants[..2]));
    }
}
