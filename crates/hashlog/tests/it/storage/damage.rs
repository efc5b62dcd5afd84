//! Each byte of each file is flipped, each file cut short, each sector made zeros, each file
//! removed: an opening and reading everything give the right values, or an error that names the
//! file. An opening that fails changes nothing.
//!
//! The end of a redo log of a killed process is the exception: an entry that is not whole there was
//! never acknowledged, as far as the files say.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use firn_engine::{Durability, ErrorKind};
use firn_storage::Storage;
use firn_storage::backend::{Crash, Memory};

use crate::script::{Run, State, Step, steps};

/// Seeds of the bytes that are damaged in files too long for all of them.
const SEED: u64 = 0x6675_6c6c;

/// Bytes of the last entry of a killed database's redo log: a put of 8 bytes to a key of one.
const LAST_ENTRY_BYTES: u64 = 40;

/// A database as a process has left it.
struct Left {
    what: &'static str,
    run: Run,
    crash: Crash,
}

/// Databases with records in segments, redo logs, values that lie alone, and keyspaces: closed,
/// killed after a checkpoint, and killed amid writing.
fn left() -> Vec<Left> {
    let value = |space, key| (space, key, Some(8));
    let put = |parts: Vec<(u8, u8, Option<usize>)>| Step::Write(parts, Durability::Process);
    ["closed", "after a checkpoint", "killed"]
        .into_iter()
        .map(|what| {
            let mut run = Run::new(Memory::new());
            run.open().expect("open");
            let mut all = vec![
                Step::Passing(true),
                put(vec![value(0, 1), value(1, 1), value(2, 1)]),
                put(vec![(0, 2, Some(132_000))]),
                Step::Add(9, Durability::Process),
                Step::Checkpoint,
                put(vec![value(0, 3), (0, 1, None), value(2, 2)]),
                Step::Merge(1, Durability::Process),
                Step::Add(9, Durability::Process),
                put(vec![value(0, 4)]),
                put(vec![value(0, 5)]),
            ];
            if what == "after a checkpoint" {
                all.push(Step::Checkpoint);
            }
            run.play(&all).expect("play");
            if what == "closed" {
                run.close().expect("close");
            }
            let left = run.memory.crash(Crash::Kill);
            let run = run.after(Crash::Kill, left);
            Left { what, run, crash: Crash::Kill }
        })
        .collect()
}

/// All files, by name.
fn files(memory: &Memory) -> BTreeMap<String, Vec<u8>> {
    let names = memory.list().expect("list").into_iter();
    let read = |(name, bytes): (String, u64)| {
        let mut content = vec![0; bytes as usize];
        memory.open_read(&name).and_then(|file| file.read_at(0, &mut content)).expect("read");
        (name, content)
    };
    names.map(read).collect()
}

/// What may be found in a damaged database besides an error that names the file.
enum May<'s> {
    /// The right values.
    Right,
    /// Those, or what was so before the last writes.
    Earlier(&'s [State]),
}

/// Opens the database in `damaged` and reads everything. Answers what is wrong with that, in words.
fn look(left: &Left, damaged: &Memory, name: &str, may: &May<'_>) -> Result<(), String> {
    let before = files(damaged);
    let mut run = left.run.after(left.crash, damaged.clone());
    let opened = catch_unwind(AssertUnwindSafe(|| run.open())).map_err(|_| "a panic".to_owned())?;
    let is_open = opened.is_ok();
    let found = opened.and_then(|()| run.content());
    match found {
        Ok(found) if found == *left.run.right() => Ok(()),
        Ok(found) => match may {
            May::Earlier(states) if states.contains(&found) => Ok(()),
            _ => Err("other values".to_owned()),
        },
        Err(error) => {
            let named = error.location().map(|location| location.file.clone()).unwrap_or_default();
            if error.kind() != ErrorKind::Corrupt && error.kind() != ErrorKind::Invalid {
                return Err(format!("an error of another kind: {error:?}"));
            }
            // Without an edit the first file that does not fit is named.
            let is_edit_gone = name.starts_with("manifest") && !before.contains_key(name);
            if named.is_empty() || named != name && !is_edit_gone {
                return Err(format!("an error that names {named:?}: {error:?}"));
            }
            let is_same = is_open || files(damaged) == before;
            if is_same {
                Ok(())
            } else {
                Err(format!("files were changed by an opening that failed: {error:?}"))
            }
        }
    }
}

/// Offsets of `bytes` that are damaged: all of a short file, some of a long one, by `stride`.
fn offsets(bytes: usize, stride: usize) -> impl Iterator<Item = usize> {
    let mut rng = fastrand::Rng::with_seed(SEED ^ bytes as u64);
    let stride = stride * (bytes / 10_000 + 1);
    (0..bytes).step_by(stride).map(move |at| (at + rng.usize(..stride)).min(bytes - 1))
}

/// Every damage of one kind, by every `stride`th byte.
fn damage(stride: usize) {
    println!("seed {SEED:x}, one of {stride} bytes");
    let mut count = 0;
    for left in left() {
        let states = left.run.states_before();
        for (name, content) in files(&left.run.memory) {
            let is_redo = name.ends_with(".redo") && left.what == "killed";
            let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
            let complain = |what: &str, at: usize, error: String| {
                panic!("{}, {name} of {} bytes, {what} {at}: {error}", left.what, content.len())
            };
            for at in offsets(content.len(), stride) {
                count += 1;
                let damaged = left.run.memory.crash(Crash::Kill);
                let bit = 1 << (at % 8);
                let file = damaged.open_write(&name).expect("open");
                file.write_at(at as u64, &[content[at] ^ bit]).expect("write");
                let is_last = is_redo && at as u64 >= used.next_multiple_of(8) - LAST_ENTRY_BYTES;
                let may = if is_last { May::Earlier(&states[states.len() - 1..]) } else { May::Right };
                look(&left, &damaged, &name, &may).unwrap_or_else(|error| complain("flipped", at, error));
                // What a process that dies amid a write leaves, and what a file system cuts.
                let damaged = left.run.memory.crash(Crash::Kill);
                damaged.open_write(&name).and_then(|file| file.set_len(at as u64)).expect("cut");
                let may = if is_redo { May::Earlier(&states) } else { May::Right };
                look(&left, &damaged, &name, &may).unwrap_or_else(|error| complain("cut to", at, error));
            }
            for sector in (0..content.len()).step_by(512 * stride.div_ceil(16)) {
                count += 1;
                let damaged = left.run.memory.crash(Crash::Kill);
                let zeros = vec![0; 512.min(content.len() - sector)];
                damaged
                    .open_write(&name)
                    .and_then(|file| file.write_at(sector as u64, &zeros))
                    .expect("write");
                let may = if is_redo { May::Earlier(&states) } else { May::Right };
                look(&left, &damaged, &name, &may)
                    .unwrap_or_else(|error| complain("zeros at", sector, error));
            }
            let damaged = left.run.memory.crash(Crash::Kill);
            damaged.remove(&name).expect("remove");
            look(&left, &damaged, &name, &May::Right).unwrap_or_else(|error| complain("removed", 0, error));
        }
    }
    println!("{count} places");
}

#[test]
fn some_damage_is_named() {
    damage(89);
}

#[test]
#[ignore = "minutes: every byte"]
fn any_damage_is_named() {
    damage(1);
}

/// A database of many steps, of which some of each file is damaged.
#[test]
fn damage_of_a_used_database_is_named() {
    let mut run = Run::new(Memory::new());
    run.open().expect("open");
    run.play(&steps(77, 150)).expect("play");
    run.play(&[Step::Checkpoint]).expect("a checkpoint");
    let memory = run.memory.crash(Crash::Kill);
    let left = Left { what: "used", run: run.after(Crash::Kill, memory), crash: Crash::Kill };
    for (name, content) in files(&left.run.memory) {
        for at in offsets(content.len(), content.len().div_ceil(12).min(2000)) {
            let damaged = left.run.memory.crash(Crash::Kill);
            let file = damaged.open_write(&name).expect("open");
            file.write_at(at as u64, &[content[at] ^ 0x10]).expect("write");
            if let Err(error) = look(&left, &damaged, &name, &May::Right) {
                panic!("{name} of {} bytes, flipped {at}: {error}", content.len());
            }
        }
    }
}
