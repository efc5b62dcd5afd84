//! Which user may do what, in the words of bucket policies.

use hyper::header::IF_NONE_MATCH;
use hyper::{HeaderMap, Method, Uri};

use crate::address::{decoded, is_of_bucket};

/// A client with grants of its own, beside the clients of a key that may do everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The key that it signs with.
    pub access_key: String,
    /// The secret of that key.
    pub secret_key: String,
    /// All that it may do.
    pub grants: Vec<Grant>,
}

/// Something that a user may do: an action at a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// `s3:GetObject`, `s3:PutObject`, `s3:DeleteObject`, `s3:AbortMultipartUpload`,
    /// `s3:ListBucket` or `s3:ListBucketMultipartUploads`.
    pub action: String,
    /// `arn:aws:s3:::BUCKET/KEY`, for actions that list without the key; `*` stands for any
    /// characters, `?` for one.
    pub resource: String,
    /// What must hold of the request, too; `None` = nothing.
    pub condition: Option<Condition>,
}

/// What must hold of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// `StringLike` of `s3:prefix`: names of objects that are asked for begin so; with the same
    /// signs. Of lists of uploads S3 says no prefix to a policy, so that it does not hold of them.
    Prefix(String),
    /// `Null` of `s3:if-none-match` is `false`: it has that header, and so replaces nothing.
    IfNoneMatch,
    /// `Bool` of `s3:ObjectCreationOperation` is `false`: the request makes no object. So the
    /// beginning of an upload and its parts, which take no header, meet it.
    NoObjectCreation,
}

/// What a request does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deed {
    action: &'static str,
    resource: String,
    prefix: String,
    has_if_none_match: bool,
    creates_object: bool,
}

impl Deed {
    /// Of a request with `method` for `uri`, with `headers`.
    pub(crate) fn of(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let query = uri.query().unwrap_or_default();
        let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
        let is_bucket = is_of_bucket(uri);
        let action = match *method {
            Method::GET if is_bucket && has("uploads") => "s3:ListBucketMultipartUploads",
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
            has_if_none_match: headers.contains_key(IF_NONE_MATCH),
            // An upload begins with a POST, takes parts by PUT, and becomes an object by a POST.
            creates_object: action == "s3:PutObject" && has("uploadId") == (*method == Method::POST),
        }
    }

    /// Whether one of `grants` is for it. Names that are removed together are in the body: a user
    /// with a grant to remove any object of the bucket may ask for that.
    fn is_granted(&self, grants: &[Grant]) -> bool {
        grants.iter().filter(|grant| grant.action == self.action).any(|grant| {
            let is_removal_of_many = self.action == "s3:DeleteObject" && !self.resource.contains('/');
            let resource = match is_removal_of_many {
                true => grant.resource.split('/').next().unwrap_or_default(),
                false => &grant.resource,
            };
            fits(resource.as_bytes(), self.resource.as_bytes())
                && grant.condition.as_ref().is_none_or(|condition| self.meets(condition))
        })
    }

    fn meets(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Prefix(prefix) => {
                self.action == "s3:ListBucket" && fits(prefix.as_bytes(), self.prefix.as_bytes())
            }
            Condition::IfNoneMatch => self.has_if_none_match,
            Condition::NoObjectCreation => !self.creates_object,
        }
    }

    /// Whether a user with `grants` is told that the resource is not there: only one with the right
    /// to list is.
    fn may_know(&self, grants: &[Grant]) -> bool {
        let bucket = self.resource.split('/').next().unwrap_or_default();
        grants.iter().any(|grant| grant.action == "s3:ListBucket" && grant.resource == bucket)
    }

    pub(crate) fn is_removal(&self) -> bool {
        matches!(self.action, "s3:DeleteObject" | "s3:AbortMultipartUpload")
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self.action, "s3:ListBucket" | "s3:ListBucketMultipartUploads")
    }

    /// For people.
    pub(crate) fn shown(&self) -> String {
        format!("{} {} {}", self.action, self.resource, self.prefix).trim_end().to_owned()
    }
}

/// What a server lets the user that signed a request do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leave {
    pub(crate) is_granted: bool,
    /// Whether the user is told that something is not there; else that is forbidden, as in S3.
    pub(crate) may_know: bool,
}

impl Leave {
    /// Of the user that signed with `authorization`. A key of none of `users` may do everything,
    /// once its signature is good.
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

#[cfg(test)]
mod tests;
