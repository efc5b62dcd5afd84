use super::*;
use crate::backend::Memory;

fn names(backend: &dyn Storage) -> Vec<String> {
    backend.list().unwrap().into_iter().map(|(name, _)| name).collect()
}

fn put(backend: &dyn Storage, name: &str, bytes: &[u8]) {
    let file = backend.create(name).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
}

#[test]
fn names_tell_where_files_lie() {
    let (local, shared) = (Memory::new(), Memory::new());
    let backend = Divided::open(Arc::new(local.clone()), Arc::new(shared.clone()), 7).unwrap();
    let (on_this, on_all) = (
        ["0000000000001000.log", "00000001.blobs"],
        ["1-000000.blobs", "1-000000.table", "manifest-0000000000000001"],
    );
    for name in on_this.iter().chain(&on_all) {
        put(&backend, name, b"bytes");
        assert_eq!(backend.open_read(name).unwrap().len(), 5);
    }
    assert_eq!(names(&local), [&on_this[..], &["home"]].concat());
    assert_eq!(names(&shared), on_all);
    assert_eq!(backend.list().unwrap().len(), 6, "all of both");
    backend.rename(on_this[0], "0000000000002000.log").unwrap();
    assert_eq!(backend.rename(on_this[1], "2-000000.blobs").unwrap_err().kind, ErrorKind::Invalid);
    // What is of no concern there is not seen.
    put(&local, "9-000000.table", b"");
    put(&shared, "0000000000009000.log", b"");
    assert_eq!(backend.list().unwrap().len(), 6);
    let lock = backend.lock(true).unwrap();
    assert_eq!(local.lock(true).unwrap_err().kind, ErrorKind::Locked);
    drop(shared.lock(true).unwrap());
    drop(lock);
}

#[test]
fn uploads_are_those_of_the_shared_part() {
    let (local, shared) = (Memory::new(), Memory::new());
    let backend = Divided::open(Arc::new(local.clone()), Arc::new(shared.clone()), 7).unwrap();
    local.leave_upload("1-000000.table", "a");
    for (name, id) in [("1-000000.table", "b"), ("1-000000.table", "c"), ("00000001.blobs", "d")] {
        shared.leave_upload(name, id);
    }
    let found = backend.unfinished_uploads().unwrap();
    assert_eq!(found.iter().map(|upload| upload.id.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    backend.abort_upload(&found[0]).unwrap();
    assert_eq!(backend.abort_upload(&found[0]).unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(backend.unfinished_uploads().unwrap(), found[1..]);
    assert_eq!(shared.crash(crate::backend::Crash::Kill).unfinished_uploads().unwrap().len(), 2);
}

#[test]
fn a_directory_keeps_its_identity() {
    let (local, shared) = (Memory::new(), Memory::new());
    let open = |fresh| Divided::open(Arc::new(local.clone()), Arc::new(shared.clone()), fresh);
    assert_eq!(open(7).unwrap().home(), 7);
    assert_eq!(open(8).unwrap().home(), 7);
    local.remove("home").unwrap();
    let known = Divided::open_known(Arc::new(local.clone()), Arc::new(shared.clone()));
    assert_eq!(known.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(names(&local), [""; 0], "who changes nothing gives none");
    put(&local, "home", b"something else");
    assert_eq!(open(9).unwrap_err().kind, ErrorKind::Corrupt);
}

#[test]
fn what_is_shared_is_the_same_and_stays_here() {
    let (local, shared) = (Memory::new(), Memory::new());
    let backend = Divided::open(Arc::new(local.clone()), Arc::new(shared.clone()), 7).unwrap();
    let bytes: Vec<u8> = (0..2 * PIECE_BYTES + 5).map(|at| (at % 251) as u8).collect();
    put(&backend, "00000001.blobs", &bytes);
    backend.share("00000001.blobs", "a-000000.blobs").unwrap();
    let mut found = vec![0; bytes.len()];
    backend.open_read("a-000000.blobs").unwrap().read_at(0, &mut found).unwrap();
    assert!(found == bytes);
    assert_eq!(names(&local), ["00000001.blobs", "home"]);
    let again = backend.share("00000001.blobs", "a-000000.blobs").unwrap_err();
    assert_eq!(again.kind, ErrorKind::Exists);
    // To have both in one backend is to link the one and to copy the other.
    let (near, far) = ("00000001.blobs".to_owned(), "a-000000.blobs".to_owned());
    assert!(!backend.is_shared(&near) && backend.is_shared(&far));
    let refused = backend.link_into(&[near.clone(), far.clone()], Path::new("copy")).unwrap_err();
    assert_eq!((refused.kind, refused.file.as_str()), (ErrorKind::Invalid, "a-000000.blobs"));
    let linked = backend.link_into(&[near], Path::new("copy")).unwrap();
    copy((&backend, &far), (&*linked, &far)).unwrap();
    assert_eq!(linked.open_read(&far).unwrap().len(), bytes.len() as u64);
    assert_eq!(backend.share("00000002.blobs", "b-000000.blobs").unwrap_err().kind, ErrorKind::NotFound);
}
