//! Files that are made of log objects.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_format::Position;
use firn_format::file_name::{blob_segment, log_object, log_segment};
use firn_format::key::{GRANULE_BYTES, POSITION_END};
use firn_format::log::{SEGMENT_HEADER_BYTES, scan_frames};
use firn_format::log_object::PieceOf;

use super::super::{By, NamedObjects, Restored, restore};
use super::engine::{BLOBS, Engine, Said};
use crate::backend::{Effect, Fault, Faulty, Operation, When};
use crate::file::log::tests::{DATABASE, GENERATION, append_value};
use crate::file::manifest::{Manifest, load};
use crate::{ErrorKind, ManualClock, Result, Storage};

/// Takes the database of `engine` over, as if its log had been cut at `cut`, and needs those pieces
/// that `is_needed` says.
fn take_over(engine: &Engine, cut: Position, is_needed: impl Fn(&PieceOf) -> bool) -> Result<Restored> {
    let loaded = load::<Said>(&engine.faulty, 0)?;
    let clock = Arc::new(ManualClock::new(0));
    let mut manifest = Manifest::new((Arc::new(engine.faulty.clone()), clock), loaded, 100);
    let named = NamedObjects { cut, ..manifest.state().0.unwrap() };
    restore(&engine.faulty, &mut manifest, (DATABASE, named), is_needed)
}

/// How many frames the segment at `base` has in its file; `None` if there is none.
fn frames(storage: &Faulty, base: Position) -> Option<usize> {
    let file = storage.open_read(&log_segment(base)).ok()?;
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    Some(scan_frames(&bytes, base, SEGMENT_HEADER_BYTES, GENERATION).count())
}

/// Two segments of a frame each, in a log object each; their bases, and the end.
fn shared() -> (Engine, [Position; 2], Position) {
    let engine = Engine::new();
    engine.blob_bytes.store(1000, Ordering::Relaxed);
    let first = engine.log.active().base();
    engine.share(engine.append()).unwrap();
    engine.roll(GRANULE_BYTES);
    let end = engine.append();
    engine.share(end).unwrap();
    let second = engine.log.active().base();
    (engine, [first, second], end)
}

#[test]
fn what_is_needed_is_there_again_and_nothing_else() {
    let (engine, bases, end) = shared();
    assert_eq!(take_over(&engine, POSITION_END, |_| true).unwrap().end, end);
    assert_eq!(bases.map(|base| frames(&engine.faulty, base)), [Some(1), Some(1)]);
    assert_eq!(engine.faulty.open_read(&blob_segment(BLOBS)).unwrap().len(), 1064);
    let is_needed = |segment: &PieceOf| matches!(segment, PieceOf::Log(header) if header.base != bases[0]);
    // What is not needed counts for the end all the same.
    assert_eq!(take_over(&engine, POSITION_END, is_needed).unwrap().end, end);
    assert_eq!(bases.map(|base| frames(&engine.faulty, base)), [None, Some(1)]);
    let values = engine.faulty.open_read(&blob_segment(BLOBS));
    assert_eq!(values.map(|file| file.len()).unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(take_over(&engine, POSITION_END, |_| false).unwrap().end, end);
    assert_eq!(bases.map(|base| frames(&engine.faulty, base)), [None, None]);
}

#[test]
fn the_process_before_acknowledges_nothing_any_more() {
    let (engine, _, end) = shared();
    take_over(&engine, POSITION_END, |_| true).unwrap();
    let later = engine.append();
    let refused = engine.shared_log.send_through(&engine, later, By::Writer).unwrap_err();
    assert_eq!((refused.kind, engine.acknowledged()), (ErrorKind::Closed, (2, end)));
    assert_eq!(engine.listed().last(), Some(&(2, 64)), "the end");
}

#[test]
fn what_an_opening_did_not_find_is_cut_off() {
    let (engine, [first, second], cut) = shared();
    engine.append();
    engine.roll(GRANULE_BYTES);
    let third = engine.log.active().base();
    let end = engine.append();
    engine.share(end).unwrap();
    assert_eq!(take_over(&engine, POSITION_END, |_| true).unwrap().end, end);
    assert_eq!([first, second, third].map(|base| frames(&engine.faulty, base)), [Some(1), Some(2), Some(1)]);
    assert_eq!(take_over(&engine, cut, |_| true).unwrap().end, cut);
    assert_eq!([first, second, third].map(|base| frames(&engine.faulty, base)), [Some(1), Some(1), None]);
    let file = engine.faulty.open_read(&log_segment(second)).unwrap();
    assert_eq!(file.len(), cut.0 - second.0);
}

#[test]
fn a_part_does_not_count_without_the_rest() {
    let (engine, [_, second], end) = shared();
    engine.roll(GRANULE_BYTES.max(32 << 20));
    let third = engine.log.active().base();
    let (on, when) = (Operation::Publish, When::Once { after: 1 });
    let effect = Effect::Fail(ErrorKind::Refused);
    engine.faulty.inject(Fault { on, file: "*.group".to_owned(), when, effect });
    let large = append_value(&engine.log, &vec![1; 20 << 20]);
    assert_eq!(engine.share(large).unwrap_err().kind, ErrorKind::Refused);
    assert_eq!((engine.listed().len(), engine.acknowledged()), (3, (3, end)));
    assert_eq!(take_over(&engine, POSITION_END, |_| true).unwrap().end, end);
    assert_eq!([second, third].map(|base| frames(&engine.faulty, base)), [Some(1), None]);
}

#[test]
fn a_log_object_that_is_missing_amid_others_is_damage() {
    let (engine, ..) = shared();
    engine.faulty.remove(&log_object(GENERATION, 0)).unwrap();
    let missing = take_over(&engine, POSITION_END, |_| true).unwrap_err();
    assert_eq!((missing.kind, missing.file), (ErrorKind::Corrupt, log_object(GENERATION, 0)));
    let (engine, ..) = shared();
    let bytes = {
        let file = engine.faulty.open_read(&log_object(GENERATION, 0)).unwrap();
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes).unwrap();
        bytes
    };
    engine.faulty.remove(&log_object(GENERATION, 1)).unwrap();
    engine.faulty.publish(&log_object(GENERATION, 1), &bytes).unwrap();
    let other = take_over(&engine, POSITION_END, |_| true).unwrap_err();
    assert_eq!((other.kind, other.offset), (ErrorKind::Corrupt, Some(16)), "{other}");
}
