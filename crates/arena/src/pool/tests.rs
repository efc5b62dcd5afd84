use super::*;

fn fill(region: &Region) {
    while let Ok(mut frame) = region.reserve(64) {
        frame.bytes_mut().fill(0xa5);
        frame.publish(64);
    }
    assert_eq!(region.advance(), region.capacity());
}

#[test]
fn a_reused_region_is_zeroed_and_empty() {
    let pool = Pool::new(4096, 1);
    let region = pool.region().unwrap();
    fill(&region);
    drop(region);
    assert_eq!(pool.recycled_bytes(), 4096);
    pool.clean();
    let region = pool.region().unwrap();
    assert_eq!(pool.recycled_bytes(), 0);
    assert_eq!((region.published(), region.advance(), region.sealed_end()), (0, 0, None));
    let mut frame = region.reserve(4096).unwrap();
    assert!(frame.bytes_mut().iter().all(|byte| *byte == 0));
    frame.publish(4096);
    assert_eq!(region.advance(), 4096);
}

#[test]
fn a_region_that_was_sealed_early_is_zeroed_too() {
    let pool = Pool::new(4096, 1);
    let region = pool.region().unwrap();
    let mut frame = region.reserve(1000).unwrap();
    frame.bytes_mut().fill(0xa5);
    frame.publish(1000);
    region.seal();
    region.trim();
    drop(region);
    pool.clean();
    let region = pool.region().unwrap();
    assert_eq!((pool.recycled_bytes(), region.advance()), (0, 0));
    let mut frame = region.reserve(4096).unwrap();
    assert!(frame.bytes_mut().iter().all(|byte| *byte == 0));
}

#[test]
fn what_is_not_cleaned_is_not_given_out() {
    let pool = Pool::new(4096, 1);
    let region = pool.region().unwrap();
    fill(&region);
    drop(region);
    let fresh = pool.region().unwrap();
    assert_eq!((fresh.advance(), pool.recycled_bytes()), (0, 4096));
}

#[test]
fn holds_no_more_than_it_may() {
    let pool = Pool::new(4096, 2);
    let regions: Vec<_> = (0..3).map(|_| pool.region().unwrap()).collect();
    drop(regions);
    assert_eq!(pool.recycled_bytes(), 2 * 4096);
    pool.clean();
    assert_eq!(pool.recycled_bytes(), 2 * 4096);
    pool.trim(2 * 4096);
    assert_eq!(pool.recycled_bytes(), 2 * 4096);
    pool.trim(2 * 4096 - 1);
    assert_eq!(pool.recycled_bytes(), 4096);
    pool.trim(0);
    assert_eq!(pool.recycled_bytes(), 0);
}

#[test]
fn keeps_what_is_clean_before_what_is_not() {
    let pool = Pool::new(4096, 2);
    let (clean, dirty) = (pool.region().unwrap(), pool.region().unwrap());
    drop(clean);
    pool.clean();
    drop(dirty);
    pool.trim(4096);
    let _reused = pool.region().unwrap();
    assert_eq!(pool.recycled_bytes(), 0);
}
