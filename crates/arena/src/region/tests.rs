#![cfg(not(loom))]

use super::*;
use crate::{LoadError, Reservation};
use std::sync::atomic::AtomicUsize as Count;
use std::thread;

const fn shared_between_threads<T: Send + Sync>() {}
const _: () = shared_between_threads::<Region>();

fn region(bytes: usize) -> Region {
    Region::anonymous(bytes).unwrap()
}

fn reserve(region: &Region, bytes: usize) -> Reservation<'_> {
    region.reserve(bytes).unwrap()
}

/// Fills the reservation with `byte` and publishes it with `mark` in the upper half of its first
/// word.
fn publish(mut reservation: Reservation<'_>, byte: u8, mark: u32) {
    reservation.bytes_mut().fill(byte);
    let word = reservation.len() as u64 | u64::from(mark) << 32;
    reservation.publish(word);
}

#[test]
fn nothing_is_read_before_it_is_published() {
    let region = region(4096);
    let first = reserve(&region, 32);
    let second = reserve(&region, 16);
    assert_eq!((first.offset(), second.offset()), (0, 32));
    publish(second, 2, 9);
    assert_eq!(region.advance(), 0, "the first frame is a gap");
    assert_eq!(region.read(32, 16), None);
    assert_eq!(region.read(0, 0), Some(&[][..]));
    publish(first, 1, 7);
    assert_eq!(region.published(), 0, "only advance moves it");
    assert_eq!(region.advance(), 48);
    assert_eq!(region.read(0, 8).unwrap(), &[32, 0, 0, 0, 7, 0, 0, 0]);
    assert_eq!(region.read(8, 24).unwrap(), &[1; 24]);
    assert_eq!(region.read_from(40), &[2; 8]);
    assert_eq!(region.read(32, 17), None, "one byte too far");
    assert_eq!(region.read(usize::MAX, 2), None);
    assert!(region.read_from(48).is_empty() && region.read_from(1000).is_empty());
}

#[test]
fn the_reservation_that_does_not_fit_seals() {
    let region = region(64);
    publish(reserve(&region, 32), 1, 0);
    assert_eq!(region.sealed_end(), None);
    assert_eq!(region.reserve(40).unwrap_err(), Full { first: true });
    assert_eq!(
        region.reserve(16).unwrap_err(),
        Full { first: false },
        "it would have fitted, but came later"
    );
    assert_eq!(region.sealed_end(), Some(32));
    assert_eq!(region.seal(), 32);
    assert_eq!(region.advance(), 32);
}

#[test]
fn a_region_fills_to_its_last_byte() {
    let region = region(61);
    assert_eq!(region.capacity(), 64);
    publish(reserve(&region, 64), 3, 0);
    assert_eq!(region.advance(), 64);
    assert_eq!(region.reserve(16).unwrap_err(), Full { first: true });
    assert_eq!(region.seal(), 64);
    region.trim();
    assert_eq!(region.read(8, 56).unwrap(), &[3; 56]);
}

#[test]
fn sealing_is_idempotent_and_spares_what_is_reserved() {
    let region = region(4096);
    let late = reserve(&region, 16);
    assert_eq!((region.seal(), region.seal()), (16, 16));
    assert_eq!(region.reserve(16).unwrap_err(), Full { first: false }, "seal was first");
    publish(late, 1, 0);
    assert_eq!(region.advance(), 16);
}

#[test]
fn trim_keeps_what_is_published_and_zeroes_nothing_before_the_end() {
    let region = region(8 << 20);
    for mark in 0..3 {
        publish(reserve(&region, 4096), 5, mark);
    }
    region.trim();
    assert_eq!(region.advance(), 3 * 4096, "not sealed: nothing is trimmed");
    region.seal();
    region.trim();
    region.trim();
    assert_eq!(region.advance(), 3 * 4096);
    assert_eq!(region.read(2 * 4096 + 8, 4088).unwrap(), &[5; 4088]);
}

#[test]
fn a_reservation_that_is_dropped_abandons_the_region() {
    let region = region(4096);
    drop(reserve(&region, 16));
    assert!(region.is_abandoned());
    publish(reserve(&region, 16), 1, 0);
    assert_eq!(region.advance(), 0);
    let region = self::region(4096);
    publish(reserve(&region, 16), 1, 0);
    assert!(!region.is_abandoned());
}

#[test]
#[should_panic(expected = "a frame of 16 bytes says it has 24")]
fn a_frame_that_lies_about_its_length_is_refused() {
    reserve(&region(4096), 16).publish(24);
}

#[test]
fn odd_lengths_are_refused() {
    let region = region(4096);
    for bytes in [0, 8, 17, 20, 1 << 32] {
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(region.reserve(bytes))));
        assert!(refused.is_err(), "{bytes}");
    }
    assert_eq!(region.seal(), 0, "a refused length reserves nothing");
}

#[test]
fn impossible_capacities_are_errors() {
    for bytes in [0, usize::MAX, isize::MAX as usize, isize::MAX as usize - 7] {
        assert!(Region::anonymous(bytes).is_err(), "{bytes}");
    }
}

#[test]
fn a_prefix_goes_before_all_frames() {
    let mut region = region(4096);
    region.begin_with(&[0xff; 64]);
    assert_eq!((region.published(), region.advance()), (64, 64));
    assert_eq!(region.read(0, 64).unwrap(), &[0xff; 64]);
    let frame = reserve(&region, 16);
    assert_eq!(frame.offset(), 64);
    publish(frame, 1, 0);
    assert_eq!(region.advance(), 80);
}

#[test]
fn what_is_loaded_is_published_and_sealed() {
    let region = Region::load(4096, 48, |bytes| {
        assert_eq!(bytes, [0; 48]);
        bytes.fill(6);
        Ok::<(), ()>(())
    });
    let region = region.unwrap();
    assert_eq!((region.published(), region.advance(), region.sealed_end()), (48, 48, Some(48)));
    assert_eq!(region.read(0, 48).unwrap(), &[6; 48]);
    assert_eq!(region.reserve(16).unwrap_err(), Full { first: false });
    assert!(matches!(Region::load(4096, 48, |_| Err("torn")), Err(LoadError::Fill("torn"))));
    for used in [4104, 44] {
        assert!(matches!(Region::load(4096, used, |_| Ok::<(), ()>(())), Err(LoadError::Map(_))), "{used}");
    }
    let whole = Region::load(4096, 4096, |_| Ok::<(), ()>(())).unwrap();
    assert_eq!((whole.published(), whole.seal()), (4096, 4096));
}

/// Writers fill small regions to the brim while readers check that the published prefix is whole,
/// frame by frame.
#[test]
fn writers_and_readers_agree_on_the_published_prefix() {
    let (rounds, capacity) = if cfg!(miri) { (2, 2048) } else { (40, 1 << 16) };
    for round in 0..rounds {
        let region = region(capacity);
        let (firsts, reserved) = (Count::new(0), Count::new(0));
        thread::scope(|scope| {
            for writer in 0..3u8 {
                let (region, firsts, reserved) = (&region, &firsts, &reserved);
                scope.spawn(move || {
                    let mut random = u64::from(writer) + 1 + round * 31;
                    loop {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let bytes = 16 + (random >> 60) as usize * 8;
                        match region.reserve(bytes) {
                            Ok(frame) => {
                                reserved.fetch_add(bytes, Ordering::Relaxed);
                                publish(frame, writer + 1, u32::from(writer));
                                region.advance();
                            }
                            Err(Full { first }) => {
                                firsts.fetch_add(usize::from(first), Ordering::Relaxed);
                                break;
                            }
                        }
                    }
                });
            }
            scope.spawn(|| while check(&region) != region.sealed_end() {});
        });
        assert_eq!(firsts.into_inner(), 1);
        assert_eq!(Some(region.published()), region.sealed_end());
        assert_eq!(region.published(), reserved.into_inner());
    }
}

/// Walks the published frames, checks that each is of one writer, and returns their end.
fn check(region: &Region) -> Option<usize> {
    let (end, mut offset) = (region.published(), 0);
    while offset < end {
        let word = u64::from_le_bytes(region.read(offset, 8).unwrap().try_into().unwrap());
        let body = region.read(offset + 8, word as u32 as usize - 8).unwrap();
        let writer = (word >> 32) as u8;
        assert!(body.iter().all(|&byte| byte == writer + 1), "a frame that is not whole at {offset}");
        offset += word as u32 as usize;
    }
    assert_eq!(offset, end);
    Some(end)
}
