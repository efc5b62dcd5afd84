//! What fails there, and what it is then.

use super::*;
use crate::backend::{Effect, Fault, Faulty, Memory, Operation, When};

/// A backend on which everything of `on` fails as `kind` says, with the file `there`.
fn failing(on: Operation, kind: ErrorKind) -> Mounted {
    let memory = Memory::new();
    memory.publish("there", b"bytes").unwrap();
    let faulty = Faulty::new(Arc::new(memory));
    let (file, when) = ("*".to_owned(), When::Always { after: 0 });
    faulty.inject(Fault { on, file, when, effect: Effect::Fail(kind) });
    Mounted::new(Arc::new(faulty))
}

/// Everything that can be asked of a backend, until something fails.
fn use_all(backend: &dyn Storage) -> Result<()> {
    let file = backend.create("1.table")?;
    file.allocate(100)?;
    file.write_at(0, b"0123456789")?;
    file.read_at(0, &mut [0; 5])?;
    file.set_len(8)?;
    file.write_back(0, 8)?;
    file.sync()?;
    backend.sync_dir()?;
    backend.open_write("1.table")?;
    let read = backend.open_read("1.table")?;
    read.read_at(0, &mut [0; 5])?;
    read.bytes()?;
    backend.open_read_known("1.table", 8)?.read_at(3, &mut [0; 5])?;
    backend.list()?;
    backend.rename("1.table", "2.table")?;
    backend.remove("2.table")?;
    backend.publish("manifest-1", b"edit")
}

#[test]
fn what_fails_may_pass_but_a_sync() {
    use Operation as On;
    let may_pass = [
        On::Create,
        On::OpenWrite,
        On::OpenRead,
        On::Rename,
        On::Remove,
        On::List,
        On::Write,
        On::Allocate,
        On::SetLen,
        On::Read,
        On::Bytes,
    ];
    for on in may_pass {
        let error = use_all(&failing(on, ErrorKind::Io)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{on:?}: {error}");
    }
    for on in [On::Sync, On::SyncDir, On::WriteBack] {
        let error = use_all(&failing(on, ErrorKind::Io)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsynced, "{on:?}: {error}");
    }
    assert_eq!(use_all(&failing(On::Publish, ErrorKind::Io)).unwrap_err().kind, ErrorKind::Io);
    for kind in [ErrorKind::Full, ErrorKind::Corrupt, ErrorKind::NotFound, ErrorKind::Exists] {
        for on in may_pass {
            assert_eq!(use_all(&failing(on, kind)).unwrap_err().kind, kind, "{on:?}");
        }
    }
    use_all(&Mounted::new(Arc::new(Memory::new()))).unwrap();
}

/// On Linux the error of bytes that were written behind may be told by a later write; the sync
/// after it says yes.
#[test]
fn a_file_of_which_a_write_failed_is_never_synced() {
    let memory = Memory::new();
    let faulty = Faulty::new(Arc::new(memory));
    let backend = Mounted::new(Arc::new(faulty.clone()));
    let file = backend.create("1.table").unwrap();
    file.write_at(0, b"0123").unwrap();
    let (file_name, when) = ("1.table".to_owned(), When::Once { after: 0 });
    let effect = Effect::Fail(ErrorKind::Io);
    faulty.inject(Fault { on: Operation::Write, file: file_name, when, effect });
    assert_eq!(file.write_at(4, b"4567").unwrap_err().kind, ErrorKind::Refused);
    file.write_at(4, b"4567").unwrap();
    for _ in 0..2 {
        assert_eq!(file.sync().unwrap_err().kind, ErrorKind::Refused);
    }
}
