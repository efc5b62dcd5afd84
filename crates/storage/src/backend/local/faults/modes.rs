//! S18: modes of files. Neighbours: directories above the one that is named, publications, the
//! lock. Also a directory that an operator made for a group, and one that lets in all users.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::Storage;
use crate::backend::{Local, LocalOptions};

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Makes every kind of file in `path`; their modes by their names.
fn make_all(path: &Path) -> Vec<(String, u32)> {
    let local = Local::open(path, LocalOptions { create: true }).unwrap();
    let lock = local.lock(true).unwrap();
    let file = local.create("1.log").unwrap();
    file.write_at(0, b"record").unwrap();
    file.sync().unwrap();
    local.publish("manifest-1", b"edit").unwrap();
    drop((file, lock));
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), mode_of(&entry.path()))).collect()
}

#[test]
fn s18_what_is_made_is_for_its_user_alone() {
    let home = tempfile::tempdir().unwrap();
    let (above, made) = (home.path().join("above"), home.path().join("above/made"));
    let files = make_all(&made);
    assert_eq!((mode_of(&above), mode_of(&made)), (0o700, 0o700));
    assert!(files.len() >= 3, "{files:?}");
    assert!(files.iter().all(|(_, mode)| *mode == 0o600), "{files:?}");
}

#[test]
fn s18_a_directory_of_a_group_passes_that_on() {
    // What the umask of these tests takes away is taken away here too.
    for (directory, file) in [(0o750, 0o640), (0o755, 0o600), (0o777, 0o600), (0o701, 0o600)] {
        let home = tempfile::tempdir().unwrap();
        set_permissions(home.path(), Permissions::from_mode(directory)).unwrap();
        let files = make_all(home.path());
        assert!(files.iter().all(|(_, mode)| *mode == file), "{directory:o}: {files:?}");
        assert_eq!(mode_of(home.path()), directory, "it is left as it was");
    }
}
