//! What the file system of this machine really does.

mod slots;
mod combining;

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use rustix::io::Errno;

use super::publication::{Named, temporary_name};
use super::*;
use crate::backend::conformance;
use crate::{Clock, SystemClock};

const CREATE: LocalOptions = LocalOptions { create: true };
const OPEN: LocalOptions = LocalOptions { create: false };

fn new_directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Every entry below `path` with its length, to see that nothing was changed.
fn listing(path: &Path) -> Vec<(PathBuf, u64)> {
    let mut entries = Vec::new();
    let mut open = vec![path.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            if meta.is_dir() {
                open.push(entry.path());
            }
            entries.push((entry.path(), meta.len()));
        }
    }
    entries.sort();
    entries
}

#[test]
fn conforms() {
    let root = new_directory();
    let count = AtomicU64::new(0);
    let next = || root.path().join(count.fetch_add(1, Ordering::Relaxed).to_string());
    conformance::check(&|| Arc::new(Local::open(next(), CREATE).unwrap()));
    let backend = Local::open(next(), CREATE).unwrap();
    conformance::check_links(&backend, &root.path().join("deep/backup"));
}

/// Whether the directory would be synced now; after this it is.
fn is_sync_due(backend: &Local) -> bool {
    let mut is_due = false;
    let done: Result<()> = backend.names.sync(|| {
        is_due = true;
        Ok(())
    });
    done.unwrap();
    is_due
}

#[test]
fn a_directory_is_synced_where_a_name_may_have_changed_and_not_again() {
    let root = new_directory();
    let backend = Local::open(root.path().join("db"), CREATE).unwrap();
    assert!(is_sync_due(&backend), "an earlier process may have left names that the device does not have");
    let file = backend.create("a").unwrap();
    assert_eq!([is_sync_due(&backend), is_sync_due(&backend)], [true, false]);
    file.write_at(0, b"bytes").unwrap();
    file.sync().unwrap();
    assert!(!is_sync_due(&backend), "no name has changed");
    let lost = |backend: &Local, from: &str, to: &str| backend.give_name(from, to).and(Err(Errno::IO));
    let changes: [(&str, &dyn Fn() -> Result<()>); 6] = [
        ("a publication that nobody heard of", &|| backend.publish_by("lost", b"edit", lost)),
        ("a name that is taken", &|| backend.create("a").map(drop)),
        ("a rename", &|| backend.rename("a", "b")),
        ("a removal", &|| backend.remove("b")),
        ("a removal that fails", &|| backend.remove("b")),
        ("a lock, which removes what publications have left", &|| backend.lock(true).map(drop)),
    ];
    for (what, change) in changes {
        let _done = change();
        assert!(is_sync_due(&backend), "{what}");
    }
    backend.publish("c", b"whole").unwrap();
    assert!(!is_sync_due(&backend), "it was synced by that");
    backend.sync_dir().unwrap();
    assert_eq!(backend.list().unwrap().len(), 2);
}

#[test]
fn nothing_is_linked_into_a_directory_that_somebody_has_open() {
    let root = new_directory();
    let backend = Local::open(root.path().join("db"), CREATE).unwrap();
    let path = root.path().join("backup");
    // It has no file yet.
    let other = Local::open(&path, CREATE).unwrap();
    let held = other.lock(true).unwrap();
    let refused = backend.link_into(&[], &path).map(drop).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Locked, "{refused}");
    drop(held);
    backend.link_into(&[], &path).unwrap();
}

#[test]
fn links_across_file_systems_are_copies() {
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("LEFT OUT: no second file system at /dev/shm to link into");
        return;
    };
    let root = new_directory();
    let device = |path: &Path| rustix::fs::stat(path).unwrap().st_dev;
    if device(root.path()) == device(other.path()) {
        eprintln!("LEFT OUT: the temporary directory and /dev/shm are one file system");
        return;
    }
    let backend = Local::open(root.path().join("db"), CREATE).unwrap();
    conformance::check_links(&backend, &other.path().join("backup"));
}

#[test]
fn opening_for_reading_refuses_clearly_and_changes_nothing() {
    let root = new_directory();
    std::fs::write(root.path().join("a-file"), b"x").unwrap();
    std::fs::create_dir(root.path().join("photos")).unwrap();
    std::fs::write(root.path().join("photos/1.jpg"), b"x").unwrap();
    std::fs::create_dir(root.path().join("empty")).unwrap();
    let before = listing(root.path());
    let cases = [
        ("missing/db", ErrorKind::NotFound, "make the database by opening it for writing"),
        ("a-file", ErrorKind::Invalid, "a database is a directory"),
        ("photos", ErrorKind::Invalid, "is not a database"),
        ("empty", ErrorKind::Invalid, "make the database by opening it for writing"),
    ];
    for (path, kind, advice) in cases {
        let path = root.path().join(path);
        let error = Local::open(&path, OPEN).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        let text = error.to_string();
        assert!(text.contains(advice) && text.contains(&path.display().to_string()), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
    let error = Local::open("", CREATE).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    let error = Local::open(root.path().join("photos"), CREATE).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.to_string().contains("name an empty or new directory"), "{error}");
    let error = Local::open(root.path().join("a-file/db"), CREATE).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert_eq!(listing(root.path()), before);
}

#[test]
fn a_reader_changes_nothing() {
    let root = new_directory();
    let path = root.path().join("db");
    let backend = Local::open(&path, CREATE).unwrap();
    backend.publish("1.manifest", b"edit").unwrap();
    std::fs::write(path.join(".2.manifest.9.9.tmp"), b"half").unwrap();
    drop(backend);
    let before = listing(root.path());
    let reader = Local::open(&path, OPEN).unwrap();
    let _lock = reader.lock(false).unwrap();
    assert_eq!(reader.list().unwrap(), [("1.manifest".to_owned(), 4)]);
    assert_eq!(listing(root.path()), before);
}

#[test]
fn a_writer_removes_leftovers_and_nothing_else() {
    let root = new_directory();
    let backend = Local::open(root.path(), CREATE).unwrap();
    for name in [".2.manifest.9.9.tmp", ".keep", "1.log", "notes.tmp"] {
        std::fs::write(root.path().join(name), b"x").unwrap();
    }
    std::fs::create_dir(root.path().join("folder")).unwrap();
    let reader = backend.lock(false).unwrap();
    assert!(root.path().join(".2.manifest.9.9.tmp").exists());
    drop(reader);
    let _writer = backend.lock(true).unwrap();
    let mut names: Vec<String> = backend.entries().unwrap();
    names.sort();
    assert_eq!(names, [".keep", "1.log", "LOCK", "folder", "notes.tmp"]);
    assert_eq!(backend.list().unwrap().len(), 2, "the folder is not listed");
}

#[test]
fn a_directory_without_permission_says_so() {
    let root = new_directory();
    let path = root.path().join("db");
    drop(Local::open(&path, CREATE).unwrap());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    let answer = Local::open(&path, OPEN);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    match answer {
        Ok(_) => eprintln!("LEFT OUT: this user (root?) may open what nobody may"),
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains("run as the directory's owner"), "{error}");
        }
    }
}

#[test]
fn the_lock_excludes_another_handle_and_names_the_directory() {
    let root = new_directory();
    let one = Local::open(root.path(), CREATE).unwrap();
    let two = Local::open(root.path(), OPEN).unwrap();
    let held = one.lock(true).unwrap();
    for exclusive in [true, false] {
        let error = two.lock(exclusive).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Locked);
        let text = error.to_string();
        assert!(text.contains(&root.path().display().to_string()), "{text}");
        assert!(text.contains("another handle in this"), "{text}");
    }
    drop(held);
    two.lock(true).unwrap();
}

const CHILD_DIRECTORY: &str = "FIRN_STORAGE_TEST_LOCK";

/// The body of the child process of the next test; does nothing in a plain run.
#[test]
fn child_that_holds_the_lock() {
    let Some(path) = std::env::var_os(CHILD_DIRECTORY) else { return };
    let _lock = Local::open(path, OPEN).unwrap().lock(true).unwrap();
    println!("\nheld");
    // Until the parent kills this process or closes the pipe.
    let _ = io::Read::read(&mut io::stdin(), &mut [0]);
}

#[test]
fn the_lock_excludes_another_process_and_dies_with_it() {
    let root = new_directory();
    let backend = Local::open(root.path(), CREATE).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "backend::local::tests::child_that_holds_the_lock", "--nocapture"])
        .env(CHILD_DIRECTORY, root.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = io::BufRead::lines(io::BufReader::new(child.stdout.take().unwrap()));
    let held = lines.map_while(io::Result::ok).any(|line| line == "held");
    let answer = backend.lock(true);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(held, "the child got the lock");
    assert_eq!(answer.unwrap_err().kind, ErrorKind::Locked);
    backend.lock(true).expect("a killed process holds no lock");
}

#[test]
fn a_mapped_file_outlives_its_name() {
    let root = new_directory();
    let backend = Local::open(root.path(), CREATE).unwrap();
    let file = backend.create("1.table").unwrap();
    file.write_at(0, &[6; 100_000]).unwrap();
    let bytes = backend.open_read("1.table").unwrap().bytes().unwrap().unwrap();
    backend.remove("1.table").unwrap();
    assert_eq!(*bytes, [6; 100_000]);
    assert!(bytes.is_resident(0..100_000));
}

#[test]
fn a_moved_directory_is_still_the_one_that_was_opened() {
    let root = new_directory();
    let backend = Local::open(root.path().join("db"), CREATE).unwrap();
    std::fs::rename(root.path().join("db"), root.path().join("moved")).unwrap();
    backend.publish("1.manifest", b"edit").unwrap();
    assert!(root.path().join("moved/1.manifest").exists());
}

/// Runs `command` on `path`; `false`, and a word of what is left out, if this system or this user
/// cannot.
fn run(command: &str, arguments: &[&str], path: &Path, left_out: &str) -> bool {
    let why = match Command::new(command).args(arguments).arg(path).output() {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    eprintln!("LEFT OUT: {left_out}, since `{command}` failed: {why}");
    false
}

/// A small file system of its own, unmounted at the end.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount(options: &str, left_out: &str) -> Option<Self> {
        let at = new_directory();
        let arguments = ["-t", "tmpfs", "-o", options, "tmpfs"];
        run("mount", &arguments, at.path(), left_out).then(|| Self(at))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(unmounted.unwrap().success(), "unmount {}", self.0.path().display());
    }
}

/// A database directory in `root`.
fn database_in(root: &Path) -> (PathBuf, Local) {
    let path = root.join("db");
    let backend = Local::open(&path, CREATE).unwrap();
    (path, backend)
}

/// Fails unless publishing `name` fails as `kind` says and leaves everything below `path` as it
/// was.
fn refuses(backend: &Local, name: &str, kind: ErrorKind, path: &Path) {
    let before = listing(path);
    let error = backend.publish(name, b"edit").unwrap_err();
    assert_eq!((error.kind, error.file.as_str()), (kind, name), "{error}");
    assert_eq!(listing(path), before);
}

#[test]
fn publishing_over_what_is_no_file_finds_the_name_taken() {
    let root = new_directory();
    let (path, backend) = database_in(root.path());
    std::fs::create_dir(path.join("empty")).unwrap();
    std::fs::create_dir(path.join("full")).unwrap();
    std::fs::write(path.join("full/1"), b"x").unwrap();
    std::fs::write(root.path().join("elsewhere"), b"x").unwrap();
    std::os::unix::fs::symlink("../elsewhere", path.join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", path.join("dangling")).unwrap();
    for name in ["empty", "full", "link", "dangling"] {
        refuses(&backend, name, ErrorKind::Exists, root.path());
    }
    assert_eq!(std::fs::read(root.path().join("elsewhere")).unwrap(), b"x");
    assert_eq!(std::fs::read_link(path.join("dangling")).unwrap(), Path::new("nowhere"));
}

#[test]
fn publishing_into_a_directory_that_is_gone_does_not_bring_it_back() {
    let root = new_directory();
    let (path, backend) = database_in(root.path());
    std::fs::remove_dir_all(&path).unwrap();
    refuses(&backend, "1.manifest", ErrorKind::NotFound, root.path());
    // Not even where another directory has its name.
    drop(Local::open(&path, CREATE).unwrap());
    refuses(&backend, "1.manifest", ErrorKind::NotFound, root.path());
}

#[test]
fn the_longest_name_leaves_room_for_its_temporary() {
    let root = new_directory();
    let (path, backend) = database_in(root.path());
    let longest = "n".repeat(100);
    backend.publish(&longest, b"edit").unwrap();
    refuses(&backend, &longest, ErrorKind::Exists, &path);
}

#[test]
fn leftovers_in_the_way_are_passed_by_and_stay() {
    let root = new_directory();
    let (path, backend) = database_in(root.path());
    // Other tests of this process take numbers too.
    let next: u64 = temporary_name("x").rsplit('.').nth(1).unwrap().parse().unwrap();
    let leftovers = (next..next + 200).map(|count| format!(".1.manifest.{}.{count}.tmp", std::process::id()));
    let leftovers: Vec<PathBuf> = leftovers.map(|name| path.join(name)).collect();
    leftovers.iter().for_each(|leftover| std::fs::write(leftover, b"half").unwrap());
    backend.publish("1.manifest", b"edit").unwrap();
    assert_eq!(std::fs::read(path.join("1.manifest")).unwrap(), b"edit");
    assert!(leftovers.iter().all(|leftover| std::fs::read(leftover).unwrap() == b"half"));
}

#[test]
fn publishing_on_a_read_only_disk_is_refused_until_it_is_writable() {
    let Some(disk) = SmallDisk::mount("size=1m", "a disk that becomes read-only") else { return };
    let (path, backend) = database_in(disk.0.path());
    let remount = |how| run("mount", &["-o", how], disk.0.path(), "a disk that becomes read-only");
    if !remount("remount,ro") {
        return;
    }
    refuses(&backend, "1.manifest", ErrorKind::Refused, &path);
    assert!(remount("remount,rw"));
    backend.publish("1.manifest", b"edit").unwrap();
}

#[test]
fn publishing_without_inodes_left_finds_the_disk_full() {
    let Some(disk) = SmallDisk::mount("nr_inodes=8", "a disk without inodes") else { return };
    let (path, backend) = database_in(disk.0.path());
    let fill = |count: u64| std::fs::write(path.join(count.to_string()), b"");
    let made = (0..8).take_while(|count| fill(*count).is_ok()).count();
    assert!((1..8).contains(&made), "{made} inodes were left of 8");
    refuses(&backend, "1.manifest", ErrorKind::Full, &path);
    backend.remove("0").unwrap();
    backend.publish("1.manifest", b"edit").unwrap();
}

/// A directory that takes new names and gives none up, so that a publication cannot be renamed.
struct AppendOnly<'p>(&'p Path);

impl Drop for AppendOnly<'_> {
    fn drop(&mut self) {
        let changed = Command::new("chattr").arg("-a").arg(self.0).status();
        assert!(changed.is_ok_and(|status| status.success()) || std::thread::panicking(), "chattr -a");
    }
}

#[test]
fn a_rename_that_is_not_permitted_is_refused_and_its_temporary_goes_under_the_next_lock() {
    let root = new_directory();
    let (path, backend) = database_in(root.path());
    if !run("chattr", &["+a"], &path, "a directory in which nothing can be renamed") {
        return;
    }
    let append_only = AppendOnly(&path);
    let error = backend.publish("1.manifest", b"edit").unwrap_err();
    assert_eq!((error.kind, error.file.as_str()), (ErrorKind::Refused, "1.manifest"), "{error}");
    assert_eq!(backend.open_read("1.manifest").unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(backend.list().unwrap(), []);
    drop(append_only);
    let is_temporary = |entry: &String| entry.starts_with(".1.manifest.") && entry.ends_with(".tmp");
    assert_eq!(backend.entries().unwrap().iter().filter(|entry| is_temporary(entry)).count(), 1);
    let _lock = backend.lock(true).unwrap();
    assert_eq!(backend.entries().unwrap(), ["LOCK"]);
    backend.publish("1.manifest", b"edit").unwrap();
}

#[test]
fn a_rename_that_may_have_been_done_is_undecided() {
    let root = new_directory();
    let (_path, backend) = database_in(root.path());
    for errno in [Errno::IO, Errno::INTR, Errno::STALE] {
        let error = backend.publish_by("1.manifest", b"edit", |_, _, _| Err(errno)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Undecided, "{error}");
    }
    for errno in [Errno::PERM, Errno::ACCESS, Errno::ROFS] {
        let error = backend.publish_by("1.manifest", b"edit", |_, _, _| Err(errno)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    }
}

/// On file systems where a name is given by a link, and what had the old one cannot be removed
/// then.
#[test]
fn what_was_published_by_a_link_stays_and_what_was_renamed_by_one_goes_back() {
    let root = new_directory();
    let (_path, backend) = database_in(root.path());
    let link = |backend: &Local, from: &str, to: &str| {
        backend.link_name(from, to)?;
        Ok(Named::Linked(Err(Errno::IO)))
    };
    backend.publish_by("1.manifest", b"edit", link).unwrap();
    assert_eq!(backend.list().unwrap(), [("1.manifest".to_owned(), 4)]);
    // The other name goes when no process has the directory.
    assert_eq!(backend.entries().unwrap().len(), 3, "{:?}", backend.entries());
    drop(backend.lock(true).unwrap());
    assert_eq!(backend.entries().unwrap().len(), 2, "{:?}", backend.entries());
    let mut found = [0; 4];
    backend.open_read("1.manifest").unwrap().read_at(0, &mut found).unwrap();
    assert_eq!(&found, b"edit");
    let taken = backend.publish_by("1.manifest", b"another", link).unwrap_err();
    assert_eq!(taken.kind, ErrorKind::Exists, "{taken}");
    assert_eq!(backend.entries().unwrap().len(), 2, "{:?}", backend.entries());
    let failed = backend.rename_by("1.manifest", "2.manifest", link).unwrap_err();
    assert_eq!((failed.kind, failed.file.as_str()), (ErrorKind::Io, "1.manifest"), "{failed}");
    assert_eq!(backend.list().unwrap(), [("1.manifest".to_owned(), 4)]);
}

#[test]
fn a_full_disk_is_full_until_something_is_removed() {
    let Some(disk) = SmallDisk::mount("size=1m", "a real full disk") else { return };
    let path = disk.0.path().join("db");
    let backend = Local::open(&path, CREATE).unwrap();
    backend.publish("1.manifest", b"edit").unwrap();
    let file = backend.create("1.log").unwrap();
    assert_eq!(file.allocate(2 << 20).unwrap_err().kind, ErrorKind::Full);
    let part = vec![1; 64 << 10];
    let full = (0..64u64).find_map(|index| file.write_at(index * part.len() as u64, &part).err());
    let error = full.expect("4 MiB do not fit in 1 MiB");
    assert_eq!(error.kind, ErrorKind::Full, "{error}");
    assert_eq!(backend.publish("2.manifest", &part).unwrap_err().kind, ErrorKind::Full);
    assert_eq!(backend.open_read("2.manifest").unwrap_err().kind, ErrorKind::NotFound);
    assert!(backend.entries().unwrap().iter().all(|entry| !entry.ends_with(".tmp")), "no leftover");
    backend.remove("1.log").unwrap();
    drop(file);
    // A process that another test is just starting has the file too, until it runs its program.
    let is_free = || backend.free_bytes().unwrap().unwrap() >= 2 * part.len() as u64;
    let clock = SystemClock::new();
    while !is_free() {
        assert!(clock.now() < Duration::from_secs(30), "what was removed is not free in half a minute");
        clock.sleep(Duration::from_millis(1));
    }
    backend.publish("2.manifest", &part).unwrap();
    assert!(backend.free_bytes().unwrap().unwrap() < 1 << 20);
}

#[test]
fn what_is_not_mapped_is_read() {
    let root = new_directory();
    let local = Local::open(root.path().join("db"), CREATE).unwrap();
    let file = local.create("000001.blobs").unwrap();
    file.write_at(0, b"some bytes").unwrap();
    assert_eq!(&*local.open_read("000001.blobs").unwrap().bytes().unwrap().unwrap(), b"some bytes");
    let local = local.without_mappings();
    let file = local.open_read("000001.blobs").unwrap();
    assert!(file.bytes().unwrap().is_none());
    let mut bytes = [0; 5];
    file.read_at(5, &mut bytes).unwrap();
    assert_eq!(&bytes, b"bytes");
}
