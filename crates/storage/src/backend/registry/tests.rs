//! Which opener a name finds, and what it is told.

use std::sync::Mutex;

use super::*;
use crate::backend::{Limits, Local, LocalOptions, Memory};
use crate::{Clock, ManualClock};

/// Opens directories in memory, and remembers what it was asked for.
#[derive(Debug)]
struct Remembering {
    form: &'static str,
    throttling: Throttling,
    asked: Mutex<Vec<String>>,
}

impl Remembering {
    fn new(form: &'static str, throttling: Throttling) -> Arc<Self> {
        Arc::new(Self { form, throttling, asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

impl Opener for Remembering {
    fn form(&self) -> &str {
        self.form
    }

    fn throttling(&self) -> Throttling {
        self.throttling
    }

    fn open(&self, url: &BackendUrl<'_>, with: &OpenWith) -> Result<Arc<dyn Storage>> {
        let BackendUrl { text, scheme, rest } = url;
        let asked = format!("{text}: {scheme}, {rest}, throttled {}", with.throttle.is_some());
        self.asked.lock().unwrap().push(asked);
        Ok(Arc::new(Memory::new()))
    }
}

fn throttle(clock: &Arc<ManualClock>) -> Option<Arc<Throttle>> {
    let limits = Limits { lists_per_second: Some(1), ..Limits::default() };
    Some(Arc::new(Throttle::new(&limits, Arc::clone(clock) as Arc<dyn Clock>)))
}

fn open(name: &str, create: bool) -> Result<Arc<dyn Storage>> {
    Registry::new().open(name, &OpenWith { create, ..OpenWith::default() })
}

#[test]
fn a_directory_has_a_path_or_a_url() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shared");
    let path = path.to_str().unwrap();
    assert_eq!(open(path, false).unwrap_err().kind, ErrorKind::NotFound);
    open(path, true).unwrap().publish("1.manifest", b"edit").unwrap();
    let again = open(&format!("file://{path}"), false).unwrap();
    assert_eq!(again.list().unwrap(), [("1.manifest".to_owned(), 4)]);
    let file = again.open_read("1.manifest").unwrap();
    assert!(file.bytes().unwrap().is_some(), "this machine's own files are mapped");
    assert_eq!(open("s3:/bucket", false).unwrap_err().kind, ErrorKind::NotFound, "a relative path");
    let error = open("file://host/x", true).unwrap_err();
    assert_eq!(error.to_string(), r#"expected file:///DIRECTORY, found "file://host/x""#);
    let with = OpenWith { throttle: throttle(&Arc::new(ManualClock::new(0))), ..OpenWith::default() };
    for name in [path, &format!("file://{path}")] {
        let error = Registry::new().open(name, &with).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.to_string().contains("is a directory, which nothing limits"), "{error}");
    }
}

/// What the system will not open or read, it may later; a directory of one's own says that it
/// failed.
#[test]
fn failures_in_a_named_directory_may_pass() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shared");
    let shared = open(path.to_str().unwrap(), true).unwrap();
    std::fs::create_dir(path.join("1.table")).unwrap();
    std::os::unix::fs::symlink("elsewhere", path.join("2.table")).unwrap();
    let own = Local::open(&path, LocalOptions::default()).unwrap();
    let fails = |backend: &dyn Storage| {
        let read = backend.open_read("1.table").unwrap().read_at(0, &mut [0]).unwrap_err();
        [read.kind, backend.open_read("2.table").unwrap_err().kind]
    };
    assert_eq!(fails(&own), [ErrorKind::Io; 2]);
    assert_eq!(fails(&*shared), [ErrorKind::Refused; 2]);
}

#[test]
fn an_unknown_name_is_refused_with_those_that_are_known() {
    let mut registry = Registry::new();
    let refusal = |registry: &Registry, name: &str| {
        let error = registry.open(name, &OpenWith::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        error.to_string()
    };
    assert_eq!(
        refusal(&registry, "ftp://host/x"),
        r#"expected a directory or file:///DIRECTORY, found "ftp://host/x""#
    );
    assert_eq!(refusal(&registry, ""), r#"expected a directory or file:///DIRECTORY, found """#);
    let without = refusal(&registry, "gs://bucket/prefix");
    assert!(without.contains("crate firn-objects opens that"), "{without}");
    registry.register("mem", Remembering::new("mem://NAME", Throttling::Own));
    registry.register("memory", Remembering::new("", Throttling::Own));
    let expected = r#"expected a directory, file:///DIRECTORY or mem://NAME, found "MEM://x""#;
    assert_eq!(refusal(&registry, "MEM://x"), expected, "a second spelling is not told; case counts");
}

#[test]
fn the_opener_registered_last_opens_the_names_of_its_scheme() {
    let [first, second, other] =
        ["mem://NAME", "mem://NAME", "other://NAME"].map(|form| Remembering::new(form, Throttling::Own));
    let mut registry = Registry::new();
    registry.register("mem", Arc::clone(&first) as Arc<dyn Opener>);
    registry.register("other", Arc::clone(&other) as Arc<dyn Opener>);
    registry.open("mem://a", &OpenWith::default()).unwrap();
    let earlier = registry.clone();
    registry.register("mem", Arc::clone(&second) as Arc<dyn Opener>);
    registry.open("mem://b/c://d", &OpenWith::default()).unwrap();
    registry.open("other://", &OpenWith::default()).unwrap();
    assert_eq!(first.asked(), ["mem://a: mem, a, throttled false"]);
    assert_eq!(second.asked(), ["mem://b/c://d: mem, b/c://d, throttled false"]);
    assert_eq!(other.asked(), ["other://: other, , throttled false"]);
    earlier.open("mem://e", &OpenWith::default()).unwrap();
    assert_eq!((first.asked().len(), second.asked().len()), (1, 0), "a registry is a value");
}

#[test]
fn a_throttle_is_kept_by_the_backend_or_before_it() {
    let clock = Arc::new(ManualClock::new(0));
    let with = OpenWith { throttle: throttle(&clock), ..OpenWith::default() };
    let mut registry = Registry::new();
    for (scheme, throttling, is_throttled, waits) in
        [("own", Throttling::Own, true, 0), ("called", Throttling::ByCall, false, 2)]
    {
        let opener = Remembering::new("", throttling);
        registry.register(scheme, Arc::clone(&opener) as Arc<dyn Opener>);
        let name = format!("{scheme}://a");
        assert!(registry.is_throttled(&name), "{name}");
        let before = clock.now();
        let backend = registry.open(&name, &with).unwrap();
        assert_eq!(opener.asked(), [format!("{name}: {scheme}, a, throttled {is_throttled}")]);
        backend.list().unwrap();
        backend.list().unwrap();
        assert_eq!((clock.now() - before).as_secs(), waits, "{name}");
        registry.open(&name, &OpenWith::default()).unwrap().list().unwrap();
        assert_eq!((clock.now() - before).as_secs(), waits, "{name} without a throttle");
    }
    for name in ["", "a", "/a", "file:///a", "ftp://a", "own:/a"] {
        assert!(!registry.is_throttled(name), "{name:?}");
    }
}

#[test]
fn no_value_of_a_setting_is_written() {
    let settings = BTreeMap::from([("AWS_SECRET_ACCESS_KEY".to_owned(), "hidden".to_owned())]);
    let text = format!("{:?}", OpenWith { settings, ..OpenWith::default() });
    assert!(text.contains("AWS_SECRET_ACCESS_KEY") && !text.contains("hidden"), "{text}");
}
