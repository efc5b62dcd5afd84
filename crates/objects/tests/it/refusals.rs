//! What people do wrong, and what they are told.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener};
use std::time::Duration;

use firn_objects::{ObjectBackend, ObjectOptions};
use firn_s3_server::{Faults, S3Server, ServerOptions};
use firn_storage::{ErrorKind, Storage};

use crate::world::{BUCKET, World, clock, runtime};

/// A publication fails with `kind`, and its message has `words`.
pub(crate) fn refuses(backend: &dyn Storage, kind: ErrorKind, words: &[&str]) {
    let error = backend.publish("1.manifest", b"edit").unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "expected {word:?} in: {error}");
    }
}

#[test]
fn a_missing_bucket_is_named() {
    let world = World::new();
    let mut options = world.options("a");
    options.url = "s3://no-such-bucket/a".to_owned();
    let backend = ObjectBackend::open(&options, &world.runtime).unwrap();
    refuses(&backend, ErrorKind::Refused, &["s3://no-such-bucket/a", "the bucket does not exist; create it"]);
    let error = backend.list().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    // Not `NotFound`: a writer that looks for its own edit would believe that another has removed
    // it.
    let error = backend.open_read("1.manifest").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    // An open backend goes on once the bucket is there.
    std::fs::create_dir(world.directory.path().join("no-such-bucket")).unwrap();
    backend.publish("1.manifest", b"edit").unwrap();
}

#[test]
fn wrong_credentials_are_said_to_be_so_and_not_shown() {
    let world = World::new();
    let mut options = world.options("a");
    options.settings.insert("AWS_SECRET_ACCESS_KEY".to_owned(), "not-the-secret".to_owned());
    options.retries_max = 0;
    let backend = ObjectBackend::open(&options, &world.runtime).unwrap();
    refuses(&backend, ErrorKind::Refused, &["check the credentials"]);
    let error = backend.publish("1.manifest", b"edit").unwrap_err();
    assert!(!error.to_string().contains("not-the-secret"), "{error}");
}

#[test]
fn a_store_that_is_read_only_or_full_says_so_and_goes_on_afterwards() {
    let world = World::new();
    let mut options = world.options("a");
    options.retries_max = 1;
    let backend = ObjectBackend::open(&options, &world.runtime).unwrap();
    world.server.set_faults(Faults { is_read_only: true, ..Faults::default() });
    refuses(&backend, ErrorKind::Refused, &["check the credentials and what they allow"]);
    world.server.set_faults(Faults { is_full: true, ..Faults::default() });
    refuses(&backend, ErrorKind::Full, &["the store is full; make room there"]);
    world.server.set_faults(Faults::default());
    backend.publish("1.manifest", b"edit").unwrap();
}

#[test]
fn a_server_that_is_gone_is_waited_for_as_long_as_it_is_said() {
    let world = World::new();
    let mut options = world.options("a");
    options.retry_timeout = Duration::from_millis(300);
    options.retries_max = 3;
    let backend = ObjectBackend::open(&options, &world.runtime).unwrap();
    backend.publish("1.manifest", b"edit").unwrap();
    drop(world.server);
    let error = backend.open_read("1.manifest").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    let error = backend.publish("2.manifest", b"edit").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Undecided, "{error}");
}

#[test]
fn a_server_that_starts_again_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    S3Server::make_bucket(directory.path(), BUCKET).unwrap();
    // An address of this test's own: another process could take the port while no server listens
    // there.
    let address = IpAddr::from([127, 0, 3, 1]);
    let options = ServerOptions { address, ..ServerOptions::default() };
    let server = S3Server::start(directory.path(), options).unwrap();
    let port = server.port();
    let mut options = ObjectOptions::new(format!("s3://{BUCKET}/a"));
    options.settings = server.settings().map(|(name, value)| (name.to_owned(), value)).into();
    let backend = ObjectBackend::open(&options, &runtime()).unwrap();
    backend.publish("1.manifest", b"edit").unwrap();
    drop(server);
    std::thread::scope(|scope| {
        let again = scope.spawn(|| {
            clock().sleep(Duration::from_secs(4));
            let options = ServerOptions { address, port: Some(port), ..ServerOptions::default() };
            S3Server::start(directory.path(), options).unwrap()
        });
        assert_eq!(backend.open_read("1.manifest").unwrap().len(), 4);
        backend.publish("2.manifest", b"edit").unwrap();
        drop(again.join().unwrap());
    });
}

/// A store that answers as `statuses` say, one after the other and the last one for ever, whatever
/// it is asked.
pub(crate) fn backend_of<const N: usize>(statuses: [(u16, &'static str); N]) -> ObjectBackend {
    let body = |code| format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>");
    backend_saying(statuses.map(|(status, code)| (status, body(code))))
}

/// The same with `answers`.
#[expect(clippy::disallowed_methods, reason = "the store ends with the test's process")]
pub(crate) fn backend_saying<const N: usize>(answers: [(u16, String); N]) -> ObjectBackend {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let mut request = Vec::new();
            let mut part = [0; 4096];
            while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                match stream.read(&mut part) {
                    Ok(read) if read > 0 => request.extend_from_slice(&part[..read]),
                    _ => return,
                }
            }
            let (status, body) = &answers[number.min(N - 1)];
            let head = format!("HTTP/1.1 {status} No\r\ncontent-length: {}\r\nconnection: close", body.len());
            // The client may have gone.
            let _ = stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes());
        }
    });
    let mut options = ObjectOptions::new(format!("s3://{BUCKET}/a"));
    let settings = [
        ("AWS_ACCESS_KEY_ID", "me"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_ENDPOINT", &address),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "here"),
    ];
    options.settings = settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    options.retries_max = 1;
    ObjectBackend::open(&options, &runtime()).unwrap()
}

#[test]
fn a_no_after_an_answer_that_tells_nothing_leaves_open_what_was_done() {
    let denied = (403, "AccessDenied");
    refuses(&backend_of([denied]), ErrorKind::Refused, &["check the credentials"]);
    // What failed may have been done all the same; the try after it may not look either.
    refuses(&backend_of([(500, "InternalError"), denied]), ErrorKind::Undecided, &[]);
}

#[test]
fn a_full_store_is_believed_at_once_and_not_of_a_try_before() {
    let full = (507, "SlowStore");
    let words = ["the store is full; make room there"];
    // A client that asks again is told that it is done.
    refuses(&backend_of([full, (200, "")]), ErrorKind::Full, &words);
    refuses(&backend_of([(500, "InternalError"), full, (404, "NoSuchKey")]), ErrorKind::Undecided, &words);
}

#[test]
fn a_quota_that_is_used_up_is_no_matter_of_credentials() {
    refuses(&backend_of([(403, "QuotaExceeded")]), ErrorKind::Full, &["the store is full; make room there"]);
}

/// What people are told when `url` is listed with these settings, and no others.
fn refusal_of(url: &str, settings: &[(&str, &str)]) -> String {
    let mut options = ObjectOptions::new(url);
    options.retries_max = 0;
    options.settings = settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let backend = match ObjectBackend::open(&options, &runtime()) {
        Ok(backend) => backend,
        Err(error) => return error.to_string(),
    };
    let error = backend.list().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    error.to_string()
}

#[test]
fn missing_credentials_are_asked_for_by_name() {
    // No server listens where a machine of the store would be told its own credentials.
    let nobody = "http://127.0.0.1:1";
    let said = refusal_of("s3://bucket/a", &[("AWS_METADATA_ENDPOINT", nobody)]);
    assert!(said.contains("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for S3"), "{said}");
    let own = format!("{nobody}/metadata/identity/oauth2/token");
    let settings = [("AZURE_STORAGE_ACCOUNT_NAME", "account"), ("AZURE_MSI_ENDPOINT", own.as_str())];
    let said = refusal_of("az://container/a", &settings);
    assert!(said.contains("AZURE_STORAGE_ACCOUNT_KEY for Azure"), "{said}");
    let said = refusal_of("az://container/a", &[("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")]);
    assert!(said.contains("az://container/a: set AZURE_STORAGE_ACCOUNT_NAME"), "{said}");
}

#[test]
fn credentials_that_get_no_token_are_said_to_be_wrong() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let said = std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            let body = r#"{"error":"invalid_client"}"#;
            let head = format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: {}", body.len());
            stream.write_all(format!("{head}\r\nconnection: close\r\n\r\n{body}").as_bytes()).unwrap();
        });
        let settings = [
            ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
            ("AZURE_CLIENT_ID", "me"),
            ("AZURE_CLIENT_SECRET", "not-the-secret"),
            ("AZURE_TENANT_ID", "tenant"),
            ("AZURE_AUTHORITY_HOST", &address),
            ("AZURE_STORAGE_ENDPOINT", &address),
        ];
        refusal_of("az://container/a", &settings)
    });
    assert!(said.contains("check the credentials"), "{said}");
    assert!(!said.contains("not-the-secret"), "{said}");
}
