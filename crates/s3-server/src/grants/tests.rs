//! What requests are called, and which users may make them.

use super::*;

fn deed(method: Method, uri: &str) -> Deed {
    Deed::of(&method, &uri.parse().expect("an address"), &HeaderMap::new())
}

/// The same, if nothing has the name.
fn conditional(method: Method, uri: &str) -> Deed {
    let headers = [(IF_NONE_MATCH, "*".parse().expect("a value"))].into_iter().collect();
    Deed::of(&method, &uri.parse().expect("an address"), &headers)
}

#[test]
fn requests_are_what_policies_call_them() {
    for (method, uri, shown) in [
        (Method::GET, "/b/p/x.table", "s3:GetObject arn:aws:s3:::b/p/x.table"),
        (Method::HEAD, "/b/p/x%2Ey", "s3:GetObject arn:aws:s3:::b/p/x.y"),
        (Method::GET, "/b?list-type=2&prefix=p%2F", "s3:ListBucket arn:aws:s3:::b p/"),
        (Method::GET, "/b?uploads=&prefix=p%2F", "s3:ListBucketMultipartUploads arn:aws:s3:::b p/"),
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
        condition: prefix.map(|prefix| Condition::Prefix(prefix.to_owned())),
    };
    let grants = [
        grant("s3:PutObject", "arn:aws:s3:::b/p/*-????-*.table", None),
        grant("s3:DeleteObject", "arn:aws:s3:::b/p/*", None),
        grant("s3:ListBucket", "arn:aws:s3:::b", Some("p/*")),
        grant("s3:ListBucketMultipartUploads", "arn:aws:s3:::b", Some("p/*")),
        grant("s3:ListBucketMultipartUploads", "arn:aws:s3:::c", None),
    ];
    for (method, uri, is_granted) in [
        (Method::PUT, "/b/p/a-1234-0.table", true),
        (Method::PUT, "/b/p/a-123-0.table", false),
        (Method::PUT, "/b/q/a-1234-0.table", false),
        (Method::PUT, "/b/p/manifest-1", false),
        (Method::GET, "/b/p/a-1234-0.table", false),
        (Method::GET, "/b?prefix=p%2F", true),
        (Method::GET, "/b?prefix=q%2F", false),
        (Method::GET, "/b?uploads=&prefix=p%2F", false),
        (Method::GET, "/c?uploads=&prefix=p%2F", true),
        (Method::GET, "/b", false),
        (Method::POST, "/b?delete", true),
        (Method::POST, "/c?delete", false),
    ] {
        assert_eq!(deed(method, uri).is_granted(&grants), is_granted, "{uri}");
    }
    assert!(deed(Method::HEAD, "/b/p/x").may_know(&grants));
    assert!(!deed(Method::HEAD, "/b/p/x").may_know(&grants[..2]));
}

#[test]
fn who_may_create_and_not_replace_says_so_with_each_object_that_he_makes() {
    let grant = |condition: Condition| Grant {
        action: "s3:PutObject".to_owned(),
        resource: "arn:aws:s3:::b/*".to_owned(),
        condition: Some(condition),
    };
    let grants = [grant(Condition::IfNoneMatch), grant(Condition::NoObjectCreation)];
    for (method, uri, creates_object) in [
        (Method::PUT, "/b/x", true),
        (Method::POST, "/b/x?uploadId=u", true),
        (Method::POST, "/b/x?uploads", false),
        (Method::PUT, "/b/x?partNumber=1&uploadId=u", false),
    ] {
        assert_eq!(deed(method.clone(), uri).is_granted(&grants), !creates_object, "{method} {uri}");
        assert!(conditional(method.clone(), uri).is_granted(&grants), "{method} {uri}");
        let begins_only = &grants[1..];
        assert_eq!(conditional(method, uri).is_granted(begins_only), !creates_object, "{uri}");
    }
}
