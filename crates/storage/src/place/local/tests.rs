//! What the file system of this machine really does.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::*;
use crate::place::conformance;

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
    let place = Local::open(next(), CREATE).unwrap();
    conformance::check_links(&place, &root.path().join("deep/backup"));
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
    let place = Local::open(root.path().join("db"), CREATE).unwrap();
    conformance::check_links(&place, &other.path().join("backup"));
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
        ("missing/db", ErrorKind::NotFound, "check the path"),
        ("a-file", ErrorKind::Invalid, "a database is a directory"),
        ("photos", ErrorKind::Invalid, "is not a database"),
        ("empty", ErrorKind::Invalid, "allow the database to be created"),
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
    let place = Local::open(&path, CREATE).unwrap();
    place.publish("1.manifest", b"edit").unwrap();
    std::fs::write(path.join(".2.manifest.9.9.tmp"), b"half").unwrap();
    drop(place);
    let before = listing(root.path());
    let reader = Local::open(&path, OPEN).unwrap();
    let _lock = reader.lock(false).unwrap();
    assert_eq!(reader.list().unwrap(), [("1.manifest".to_owned(), 4)]);
    assert_eq!(listing(root.path()), before);
}

#[test]
fn a_writer_removes_leftovers_and_nothing_else() {
    let root = new_directory();
    let place = Local::open(root.path(), CREATE).unwrap();
    for name in [".2.manifest.9.9.tmp", ".keep", "1.log", "notes.tmp"] {
        std::fs::write(root.path().join(name), b"x").unwrap();
    }
    std::fs::create_dir(root.path().join("folder")).unwrap();
    let reader = place.lock(false).unwrap();
    assert!(root.path().join(".2.manifest.9.9.tmp").exists());
    drop(reader);
    let _writer = place.lock(true).unwrap();
    let mut names: Vec<String> = place.entries().unwrap();
    names.sort();
    assert_eq!(names, [".keep", "1.log", "LOCK", "folder", "notes.tmp"]);
    assert_eq!(place.list().unwrap().len(), 2, "the folder is not listed");
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
        assert!(text.contains("another process"), "{text}");
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
    let place = Local::open(root.path(), CREATE).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "place::local::tests::child_that_holds_the_lock", "--nocapture"])
        .env(CHILD_DIRECTORY, root.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = io::BufRead::lines(io::BufReader::new(child.stdout.take().unwrap()));
    let held = lines.map_while(io::Result::ok).any(|line| line == "held");
    let answer = place.lock(true);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(held, "the child got the lock");
    assert_eq!(answer.unwrap_err().kind, ErrorKind::Locked);
    place.lock(true).expect("a killed process holds no lock");
}

#[test]
fn a_mapped_file_outlives_its_name() {
    let root = new_directory();
    let place = Local::open(root.path(), CREATE).unwrap();
    let file = place.create("1.table").unwrap();
    file.write_at(0, &[6; 100_000]).unwrap();
    let bytes = place.open_read("1.table").unwrap().bytes().unwrap().unwrap();
    place.remove("1.table").unwrap();
    assert_eq!(*bytes, [6; 100_000]);
    assert!(bytes.is_resident(0..100_000));
}

#[test]
fn a_moved_directory_is_still_the_one_that_was_opened() {
    let root = new_directory();
    let place = Local::open(root.path().join("db"), CREATE).unwrap();
    std::fs::rename(root.path().join("db"), root.path().join("moved")).unwrap();
    place.publish("1.manifest", b"edit").unwrap();
    assert!(root.path().join("moved/1.manifest").exists());
}

/// A small file system of its own, unmounted at the end.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount(bytes: usize) -> Option<Self> {
        let at = new_directory();
        let options = format!("size={bytes}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at.path()).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(at)),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                eprintln!("LEFT OUT: a real full disk, since mounting a tmpfs was refused: {why}");
                None
            }
            Err(error) => {
                eprintln!("LEFT OUT: a real full disk, since `mount` cannot be run: {error}");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(unmounted.unwrap().success(), "unmount {}", self.0.path().display());
    }
}

#[test]
fn a_full_disk_is_full_until_something_is_removed() {
    let Some(disk) = SmallDisk::mount(1 << 20) else { return };
    let path = disk.0.path().join("db");
    let place = Local::open(&path, CREATE).unwrap();
    place.publish("1.manifest", b"edit").unwrap();
    let file = place.create("1.log").unwrap();
    assert_eq!(file.allocate(2 << 20).unwrap_err().kind, ErrorKind::Full);
    let part = vec![1; 64 << 10];
    let full = (0..64u64).find_map(|index| file.write_at(index * part.len() as u64, &part).err());
    let error = full.expect("4 MiB do not fit in 1 MiB");
    assert_eq!(error.kind, ErrorKind::Full, "{error}");
    assert_eq!(place.publish("2.manifest", &part).unwrap_err().kind, ErrorKind::Full);
    assert_eq!(place.open_read("2.manifest").unwrap_err().kind, ErrorKind::NotFound);
    assert!(place.entries().unwrap().iter().all(|entry| !entry.ends_with(".tmp")), "no leftover");
    place.remove("1.log").unwrap();
    drop(file);
    place.publish("2.manifest", &part).unwrap();
    assert!(place.free_bytes().unwrap().unwrap() < 1 << 20);
}
