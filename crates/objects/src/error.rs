//! What an object store can fail with, in the words of storage.

use std::error::Error as _;

use firn_storage::{Error, ErrorKind};

use crate::full;

/// What went wrong when `file` was asked for at the backend `url`; whether that had an effect is
/// not known.
pub(crate) fn from_store(url: &str, file: &str, action: &str, error: &object_store::Error) -> Error {
    use object_store::Error as Store;
    let text = chain(error);
    // Stores say it in the body of an answer; the client has no kind for it.
    let mentions = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let (kind, advice) = match error {
        _ if mentions(&["NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"]) => {
            // A store that has just started may say so of a bucket that it will have: an open
            // backend tries again.
            (ErrorKind::Refused, "the bucket does not exist; create it, or check the URL")
        }
        Store::NotFound { .. } => {
            return Error::new(ErrorKind::NotFound, file, format!("no such object in {url}"));
        }
        Store::AlreadyExists { .. } | Store::Precondition { .. } => {
            return Error::new(ErrorKind::Exists, file, format!("there is such an object in {url}"));
        }
        // Before what is denied: one store answers so where a quota is used up.
        _ if mentions(&["StorageFull", "QuotaExceeded", full::WORDS]) => {
            (ErrorKind::Full, "the store is full; make room there, or raise the quota")
        }
        // Without any the client asks the machine that it runs on, which is none of the store's.
        _ if mentions(&[
            "latest/api/token",
            "security-credentials",
            "computeMetadata",
            "metadata/identity",
        ]) =>
        {
            (
                ErrorKind::Refused,
                "no credentials are given; put them into the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for S3, \
             GOOGLE_APPLICATION_CREDENTIALS for Google, AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY for Azure",
            )
        }
        // Tokens come from another server, whose refusal the client takes for any failure.
        _ if mentions(&["invalid_grant", "invalid_client"]) => {
            (ErrorKind::Refused, "check the credentials and what they allow")
        }
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => {
            (ErrorKind::Refused, "check the credentials and what they allow")
        }
        // The client has a kind for that only where one object is asked for, not for lists.
        _ if mentions(&["403 Forbidden", "AccessDenied"]) => {
            (ErrorKind::Refused, "check the credentials and what they allow")
        }
        Store::NotSupported { .. } | Store::NotImplemented { .. } => {
            (ErrorKind::Invalid, "the store cannot do that; it must have conditional writes")
        }
        Store::InvalidPath { .. } | Store::UnknownConfigurationKey { .. } => {
            (ErrorKind::Invalid, "check the URL")
        }
        _ => (ErrorKind::Refused, "it may pass; check the network and the store"),
    };
    Error::new(kind, file, format!("cannot {action} in {url} ({advice}): {text}"))
}

/// What went wrong when unfinished uploads were asked for, or one of them was to be aborted. Where
/// the user may not do that, or the store does not know it, every further try would fail too: that
/// is `Invalid`.
pub(crate) fn of_uploads(url: &str, file: &str, action: &str, error: &object_store::Error) -> Error {
    use object_store::Error as Store;
    let text = chain(error);
    let is_unknown = match error {
        Store::NotSupported { .. } | Store::NotImplemented { .. } => true,
        // The client has no kind for these.
        _ => UNKNOWN.iter().any(|status| text.contains(status)),
    };
    match error {
        _ if is_unknown => {
            let why = "the store does not know that, or has an answer of its own";
            Error::new(ErrorKind::Invalid, file, format!("cannot {action} in {url} ({why}): {text}"))
        }
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => {
            Error { kind: ErrorKind::Invalid, ..from_store(url, file, action, error) }
        }
        _ => from_store(url, file, action, error),
    }
}

/// Statuses of stores that do not know a request.
const UNKNOWN: [&str; 2] = ["405 Method Not Allowed", "501 Not Implemented"];

/// Whether the store has said no, so that nothing was done.
pub(crate) fn is_refusal(error: &object_store::Error) -> bool {
    use object_store::Error as Store;
    // The client has tried before, and that try may have come through: it says so in words alone.
    let is_first = !chain(error).contains(" retries, max_retries");
    is_first
        && matches!(
            error,
            Store::NotFound { .. }
                | Store::PermissionDenied { .. }
                | Store::Unauthenticated { .. }
                | Store::NotSupported { .. }
                | Store::NotImplemented { .. }
                | Store::InvalidPath { .. }
                | Store::UnknownConfigurationKey { .. }
        )
}

/// Whether a range was asked for that begins where there is no object any more.
pub(crate) fn is_beyond_end(error: &object_store::Error) -> bool {
    let text = chain(error);
    // The first two are what stores say, the third is the client's own.
    ["InvalidRange", "416 Range Not Satisfiable", "but object was only"]
        .iter()
        .any(|words| text.contains(words))
}

/// The error and its causes on one line.
fn chain(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
