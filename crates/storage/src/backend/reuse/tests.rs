use super::*;
use crate::backend::{Effect, Fault, Faulty, Memory, Operation, When};

/// A backend with one recycled file `old` of three pages of which the next `on` goes as `effect`
/// says.
fn failing(on: Operation, effect: Effect) -> (Arc<Faulty>, Reusing) {
    let faulty = Arc::new(Faulty::new(Arc::new(Memory::new())));
    faulty.publish("old", &[7; 3 * PAGE_BYTES as usize]).unwrap();
    faulty.inject(Fault { on, file: "*".to_owned(), when: When::Once { after: 0 }, effect });
    let backend = Reusing::new(Arc::clone(&faulty) as Arc<dyn Storage>);
    assert!(backend.tables().keep("old", 3 * PAGE_BYTES, 3 * PAGE_BYTES));
    (faulty, backend)
}

fn content(backend: &dyn Storage, name: &str) -> Vec<u8> {
    let file = backend.open_read(name).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn names(backend: &dyn Storage) -> Vec<String> {
    backend.list().unwrap().into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_new_file_keeps_nothing_of_the_recycled_file_it_was() {
    for bytes in [0, 1, 5000, 12_288, 20_000] {
        let (_, backend) = failing(Operation::Lock, Effect::Fail(ErrorKind::Io));
        let file = backend.create("new").unwrap();
        assert_eq!(names(&backend), ["new"], "the recycled file was given on");
        let expected: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        for (piece, part) in expected.chunks(4096).enumerate() {
            file.write_at(piece as u64 * 4096, part).unwrap();
        }
        file.sync().unwrap();
        assert_eq!(content(&backend, "new"), expected);
        // And it is an ordinary file from then on.
        file.write_at(bytes, b"more").unwrap();
        file.sync().unwrap();
        assert_eq!(content(&backend, "new"), [&expected[..], b"more"].concat());
    }
}

#[test]
fn a_length_that_is_set_shows_no_old_bytes() {
    let (_, backend) = failing(Operation::Lock, Effect::Fail(ErrorKind::Io));
    let file = backend.create("new").unwrap();
    file.write_zeroing(0, b"abc").unwrap();
    file.set_len(10_000).unwrap();
    let mut expected = b"abc".to_vec();
    expected.resize(10_000, 0);
    assert_eq!(content(&backend, "new"), expected);
}

#[test]
fn without_recycled_files_new_ones_are_created() {
    let (faulty, backend) = failing(Operation::Lock, Effect::Fail(ErrorKind::Io));
    drop(backend.create("first").unwrap());
    drop(backend.create("second").unwrap());
    assert_eq!(names(&*faulty), ["first", "second"]);
    assert_eq!(backend.tables().bytes(), 0);
}

#[test]
fn recycled_files_have_no_more_bytes_than_they_may() {
    let recycled = RecycledFiles::default();
    assert!(recycled.keep("a", 60, 100));
    assert!(!recycled.keep("b", 41, 100));
    assert!(recycled.keep("c", 40, 100));
    assert!(!recycled.keep("d", 1, 0));
    assert_eq!(recycled.bytes(), 100);
    assert_eq!(recycled.take(), ["a", "c"]);
    assert_eq!(recycled.bytes(), 0);
}

#[test]
fn a_recycled_file_that_cannot_be_renamed_is_kept() {
    for kind in [ErrorKind::Full, ErrorKind::Io] {
        let (faulty, backend) = failing(Operation::Rename, Effect::Fail(kind));
        assert_eq!(backend.create("new").unwrap_err().kind, kind);
        assert_eq!(names(&*faulty), ["old"]);
        drop(backend.create("new").unwrap());
        assert_eq!(names(&*faulty), ["new"], "it was given on");
    }
}

#[test]
fn a_recycled_file_that_was_renamed_although_that_failed_is_no_recycled_file_any_more() {
    let (faulty, backend) = failing(Operation::Rename, Effect::FailAfter(ErrorKind::Io));
    assert_eq!(backend.create("new").unwrap_err().kind, ErrorKind::Io);
    assert_eq!(names(&*faulty), ["new"]);
    drop(backend.create("other").unwrap());
    assert_eq!(names(&*faulty), ["new", "other"]);
}

#[test]
fn a_recycled_file_that_cannot_be_opened_is_removed() {
    let (faulty, backend) = failing(Operation::OpenWrite, Effect::Fail(ErrorKind::Io));
    assert_eq!(backend.create("new").unwrap_err().kind, ErrorKind::Io);
    assert_eq!(names(&*faulty), [""; 0]);
    drop(backend.create("new").unwrap());
}

#[test]
fn a_name_that_is_taken_is_refused_and_costs_no_recycled_file() {
    let (faulty, backend) = failing(Operation::Lock, Effect::Fail(ErrorKind::Io));
    faulty.publish("new", b"taken").unwrap();
    assert_eq!(backend.create("new").unwrap_err().kind, ErrorKind::Exists);
    assert_eq!(content(&backend, "new"), b"taken");
    assert_eq!(backend.tables().take(), ["old"]);
}

#[test]
fn the_largest_recycled_file_goes_first() {
    let backend = Reusing::new(Arc::new(Memory::new()));
    for (name, bytes) in [("small", 4096), ("large", 12_288), ("middle", 8192)] {
        backend.publish(name, &vec![7; bytes]).unwrap();
        assert!(backend.tables().keep(name, bytes as u64, 1 << 20));
    }
    for (name, bytes) in [("first", 12_288), ("second", 8192), ("third", 4096)] {
        drop(backend.create(name).unwrap());
        assert_eq!(content(&backend, name).len(), bytes, "{name}");
    }
    assert_eq!(backend.recycled_bytes(), 0);
}

/// Several threads write to it, and sync it, in any order.
#[test]
fn nothing_is_cut_off_a_recycled_file_that_is_given_as_it_is() {
    let (faulty, backend) = failing(Operation::Lock, Effect::Fail(ErrorKind::Io));
    let file = backend.tables().give(&*faulty, "new").unwrap().unwrap();
    file.sync().unwrap();
    file.write_at(0, &[1; 100]).unwrap();
    file.sync().unwrap();
    let expected = [vec![1; 100], vec![7; 3 * PAGE_BYTES as usize - 100]].concat();
    assert_eq!(content(&backend, "new"), expected);
}

#[test]
fn a_recycled_file_that_was_taken_is_written_over_elsewhere() {
    for bytes in [100, 2 * PAGE_BYTES, 5 * PAGE_BYTES] {
        let (faulty, backend) = failing(Operation::Lock, Effect::Fail(ErrorKind::Io));
        let recycled = backend.tables().take_one().unwrap();
        assert_eq!((backend.tables().take_one(), backend.tables().bytes()), (None, 0));
        // By a caller that knows its name alone.
        let file = write_over(&*faulty, &recycled, "new").unwrap().unwrap();
        assert_eq!(names(&*faulty), ["new"]);
        let expected = vec![1; bytes as usize];
        file.write_at(0, &expected).unwrap();
        file.sync().unwrap();
        assert_eq!(content(&*faulty, "new"), expected);
        assert!(
            write_over(&*faulty, &recycled, "newer").unwrap().is_none(),
            "there is no such file any more"
        );
        assert_eq!(names(&*faulty), ["new"]);
    }
}

#[test]
fn a_recycled_file_is_written_over_under_no_name_that_is_taken() {
    let (faulty, backend) = failing(Operation::Lock, Effect::Fail(ErrorKind::Io));
    faulty.publish("taken", b"kept").unwrap();
    let recycled = backend.tables().take_one().unwrap();
    assert_eq!(write_over(&*faulty, &recycled, "taken").unwrap_err().kind, ErrorKind::Exists);
    assert_eq!(
        (names(&*faulty), content(&*faulty, "taken")),
        (vec![recycled, "taken".into()], b"kept".to_vec())
    );
}

#[test]
fn new_files_leave_what_they_are_told_and_keep_what_they_had_as_recycled_files() {
    let faulty = Faulty::new(Arc::new(Memory::new()));
    let backend = Reusing::new(Arc::new(faulty.clone()));
    backend.publish("recycled", &[7; 4096]).unwrap();
    assert!(backend.tables().keep("recycled", 4096, 1 << 20));
    faulty.limit_space(Some(8 << 20)).unwrap();
    let beside = backend.beside();
    backend.leave(1 << 20);
    beside.leave(3 << 20);
    let recycled = beside.create("first").unwrap();
    let [more, less] = [&backend, &beside].map(|backend| {
        let file = backend.create(&format!("{}", faulty.list().unwrap().len())).unwrap();
        let written = (0..).take_while(|at| {
            let result = file.write_at(at * 1000, &[1; 1000]);
            result.map_err(|error| assert_eq!(error.kind, ErrorKind::Full, "{error}")).is_ok()
        });
        let bytes = written.count() as u64 * 1000;
        backend.remove("1").unwrap();
        bytes
    });
    // The backend is asked again after 64 KiB at the earliest.
    assert!((6 << 20..(7 << 20) + (64 << 10)).contains(&more), "{more}");
    assert!((4 << 20..(5 << 20) + (64 << 10)).contains(&less), "{less}");
    beside.leave(9 << 20);
    recycled.write_at(0, &[2; 4096]).unwrap();
    assert_eq!(recycled.write_at(4096, &[2]).unwrap_err().kind, ErrorKind::Full, "what it had it may take");
    let refused = beside.create("second").unwrap().write_at(0, &[1]).unwrap_err();
    assert!(refused.kind == ErrorKind::Full && refused.to_string().contains("free some space"), "{refused}");
}
