//! A cleanly closed database with one thing wrong: every answer is right, or an error that names
//! file and offset.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use firn_engine::blocking::{Blocking, OrderedBlocking};
use firn_engine::{Engine, Error, ErrorKind, KeyspaceId, Ordered, ReadAt, ScanRange};
use firn_tree::Tree;

use crate::support::sample::{Contents, Files, NOW_MS, SMALL, Shape, directory, key, options, sample};
use crate::support::unmapped::Unmapped;

/// What an error must say to be an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    /// File and offset.
    Offset,
    /// The file at least: there is no offset in a file that is gone.
    File,
}

/// How a damaged database is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    /// For reading, from a backend that gives no file as memory.
    ReadUnmapped,
}

/// `Corrupt` with its location, or the refusal of what looks like a newer format, with its
/// location.
fn accept(error: &Error, demand: Demand) -> Result<(), String> {
    let kind = match error.kind() {
        ErrorKind::Corrupt => true,
        ErrorKind::Invalid => error.message().contains("newer"),
        _ => false,
    };
    let location = error.location();
    let has_location = match demand {
        Demand::Offset => {
            location.is_some_and(|location| !location.file.is_empty() && location.offset.is_some())
        }
        Demand::File => location.is_some_and(|location| !location.file.is_empty()),
    };
    if kind && has_location { Ok(()) } else { Err(format!("{error:?}")) }
}

/// Opens `files`, reads everything every way and compares it with `contents`; the first wrong
/// answer.
fn read_all(files: &Files, contents: &Contents, access: Access, demand: Demand) -> Result<(), String> {
    let storage = directory(files);
    let mut with = options(&storage, NOW_MS);
    with.read_only = access != Access::Write;
    if access == Access::ReadUnmapped {
        with.storage = Arc::new(Unmapped { inner: with.storage });
    }
    let tree = match Tree::open(with) {
        Ok(tree) => tree,
        Err(error) => return accept(&error, demand).map_err(|wrong| format!("open: {wrong}")),
    };
    let mut session = Blocking::new(tree.ordered_session());
    for (name, expected) in contents {
        let Some(id) = tree.keyspace(name) else { return Err(format!("keyspace {name} is gone")) };
        get_all(&mut session, id, expected, demand).map_err(|wrong| format!("{name}: {wrong}"))?;
        scan_all(&mut session, id, expected, false, demand).map_err(|wrong| format!("{name}: {wrong}"))?;
        scan_all(&mut session, id, expected, true, demand).map_err(|wrong| format!("{name}: {wrong}"))?;
    }
    Ok(())
}

fn get_all(
    session: &mut OrderedBlocking,
    id: KeyspaceId,
    expected: &BTreeMap<Vec<u8>, Vec<u8>>,
    demand: Demand,
) -> Result<(), String> {
    let absent = (0..30).map(key).chain((0..4).map(|round| format!("ttl-gone{round}").into_bytes()));
    let keys = expected.keys().cloned().chain(absent);
    for key in keys {
        match session.get(ReadAt::Latest, id, &key) {
            Ok(value) if value.as_ref() == expected.get(&key) => {}
            Ok(value) => return Err(format!("get {}: {value:?}", key.escape_ascii())),
            Err(error) => {
                accept(&error, demand).map_err(|wrong| format!("get {}: {wrong}", key.escape_ascii()))?
            }
        }
    }
    Ok(())
}

fn scan_all(
    session: &mut OrderedBlocking,
    id: KeyspaceId,
    expected: &BTreeMap<Vec<u8>, Vec<u8>>,
    backward: bool,
    demand: Demand,
) -> Result<(), String> {
    let range = if backward { ScanRange::all().backward() } else { ScanRange::all() };
    let mut expected: Vec<_> = expected.iter().collect();
    if backward {
        expected.reverse();
    }
    let mut scan = match session.scan(ReadAt::Latest, id, range) {
        Ok(scan) => scan,
        Err(error) => return accept(&error, demand).map_err(|wrong| format!("scan: {wrong}")),
    };
    let mut expected = expected.into_iter();
    loop {
        match (scan.next_record(), expected.next()) {
            (Err(error), _) => return accept(&error, demand).map_err(|wrong| format!("scan: {wrong}")),
            (Ok(None), None) => return Ok(()),
            (Ok(Some((key, value))), Some((right_key, right_value)))
                if key == right_key && value == right_value => {}
            (Ok(found), right) => {
                return Err(format!("scan (backward {backward}): {found:?} instead of {right:?}"));
            }
        }
    }
}

/// Runs every case and names all that went wrong, panics included.
fn run_all(cases: impl Iterator<Item = (String, Files, Access, Demand)>, contents: &Contents) {
    let (mut offenders, mut count) = (Vec::new(), 0);
    for (name, files, access, demand) in cases {
        count += 1;
        let outcome = catch_unwind(AssertUnwindSafe(|| read_all(&files, contents, access, demand)));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(wrong)) => offenders.push(format!("{name} ({access:?}): {wrong}")),
            Err(_) => offenders.push(format!("{name} ({access:?}): panicked")),
        }
    }
    assert!(count > 0);
    let shown = &offenders[..offenders.len().min(30)];
    assert!(offenders.is_empty(), "{} of {count} cases went wrong, the first: {shown:#?}", offenders.len());
}

/// `files` with byte `at` of `name` exclusive-or `mask`.
fn flipped(files: &Files, name: &str, at: usize, mask: u8) -> Files {
    let mut files = files.clone();
    files.get_mut(name).unwrap()[at] ^= mask;
    files
}

fn bytes_of(files: &Files) -> impl Iterator<Item = (&str, usize)> {
    files.iter().flat_map(|(name, content)| (0..content.len()).map(move |at| (name.as_str(), at)))
}

#[test]
fn every_byte_flipped() {
    let (files, contents) = sample(SMALL);
    read_all(&files, &contents, Access::Read, Demand::Offset).unwrap();
    read_all(&files, &contents, Access::ReadUnmapped, Demand::Offset).unwrap();
    let cases = bytes_of(&files).flat_map(|(name, at)| {
        let ways = [
            (1_u8 << (at % 8), Access::Read),
            (0xff, Access::Write),
            (1 << ((at + 3) % 8), Access::ReadUnmapped),
        ];
        ways.map(|(mask, access)| {
            (
                format!("{name} byte {at} ^ {mask:#04x}"),
                flipped(&files, name, at, mask),
                access,
                Demand::Offset,
            )
        })
    });
    run_all(cases, &contents);
}

#[test]
#[ignore = "soak: every bit of a larger database, all ways of opening; about three minutes of CPU"]
fn every_bit_flipped() {
    for shape in [SMALL, Shape { keys: 48, value_bytes: 120 }] {
        let (files, contents) = sample(shape);
        let cases = bytes_of(&files).flat_map(|(name, at)| (0..8).map(move |bit| (name, at, 1_u8 << bit)));
        let cases = cases.flat_map(|(name, at, mask)| {
            [Access::Read, Access::Write, Access::ReadUnmapped].map(|access| {
                (
                    format!("{name} byte {at} ^ {mask:#04x}"),
                    flipped(&files, name, at, mask),
                    access,
                    Demand::Offset,
                )
            })
        });
        run_all(cases, &contents);
    }
}

#[test]
fn every_file_cut_short() {
    let (files, contents) = sample(SMALL);
    let files = &files;
    let cases = files.iter().flat_map(|(name, content)| {
        let lengths = (0..content.len()).filter(|length| length % 64 == 0 || length + 1 == content.len());
        lengths.flat_map(move |length| {
            [Access::Read, Access::Write, Access::ReadUnmapped].map(move |access| {
                let mut files = files.clone();
                files.get_mut(name).unwrap().truncate(length);
                (format!("{name} cut to {length} bytes"), files, access, Demand::Offset)
            })
        })
    });
    run_all(cases, &contents);
}

#[test]
fn every_file_missing() {
    let (files, contents) = sample(SMALL);
    let cases = files.keys().flat_map(|name| {
        [Access::Read, Access::Write].map(|access| {
            let mut files = files.clone();
            files.remove(name);
            (format!("{name} missing"), files, access, Demand::File)
        })
    });
    run_all(cases, &contents);
}

/// One byte in each of two files: no two faults hide one another.
#[test]
fn two_files_damaged() {
    let (files, contents) = sample(SMALL);
    let mut random = fastrand::Rng::with_seed(FLIP_SEED);
    let names: Vec<&String> = files.keys().collect();
    let cases = (0..4000).map(|number| {
        let mut damaged = files.clone();
        for _ in 0..2 {
            let content = damaged.get_mut(names[random.usize(..names.len())]).unwrap();
            let at = random.usize(..content.len());
            content[at] ^= 1 << random.u8(..8);
        }
        (format!("case {number} of seed {FLIP_SEED}"), damaged, Access::Write, Demand::Offset)
    });
    run_all(cases, &contents);
}

const FLIP_SEED: u64 = 3;
