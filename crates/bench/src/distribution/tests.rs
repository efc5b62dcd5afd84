use std::sync::Arc;

use fastrand::Rng;

use super::{
    AcknowledgedCounter, Distribution, Exponential, Hotspot, Latest, ScrambledZipfian, Sequential, Zipfian,
    fnv_hash_64,
};

const DRAWS: usize = 400_000;
const SEED: u64 = 7;

/// Share of draws for which `is` holds.
fn share(mut draw: impl FnMut() -> u64, is: impl Fn(u64) -> bool) -> f64 {
    (0..DRAWS).filter(|_| is(draw())).count() as f64 / DRAWS as f64
}

fn assert_close(found: f64, expected: f64, tolerance: f64) {
    assert!(
        (found - expected).abs() <= tolerance,
        "found {found}, expected {expected} +- {tolerance}, seed {SEED}"
    );
}

#[test]
fn hash_gives_the_key_numbers_every_ycsb_database_begins_with() {
    assert_eq!(fnv_hash_64(0), 6_284_781_860_667_377_211);
    assert_eq!(fnv_hash_64(1), 8_517_097_267_634_966_620);
    assert_eq!(fnv_hash_64(2), 1_820_151_046_732_198_393);
}

#[test]
fn zipfian_ranks_zero_and_one_have_their_theoretical_share() {
    let (items, theta) = (1_000u64, 0.99);
    let zeta: f64 = (1..=items).map(|i| 1.0 / (i as f64).powf(theta)).sum();
    let zipfian = Zipfian::new(items, theta);
    let mut random = Rng::with_seed(SEED);
    assert_close(share(|| zipfian.draw(&mut random), |rank| rank == 0), 1.0 / zeta, 0.003);
    assert_close(share(|| zipfian.draw(&mut random), |rank| rank == 1), 0.5f64.powf(theta) / zeta, 0.003);
    assert_eq!(share(|| zipfian.draw(&mut random), |rank| rank < items), 1.0);
}

#[test]
fn zipfian_grown_equals_zipfian_made_large() {
    let mut grown = Zipfian::new(100, 0.99);
    grown.grow(5_000);
    let made = Zipfian::new(5_000, 0.99);
    let (mut one, mut two) = (Rng::with_seed(SEED), Rng::with_seed(SEED));
    assert!((0..10_000).all(|_| grown.draw(&mut one) == made.draw(&mut two)));
}

#[test]
fn scrambled_zipfian_scatters_but_keeps_the_shares() {
    let zipfian = ScrambledZipfian::new(0, 99_999);
    let mut random = Rng::with_seed(SEED);
    let favourite = fnv_hash_64(0) % 100_000;
    assert_close(share(|| zipfian.draw(&mut random), |key| key == favourite), 1.0 / 26.469, 0.003);
    let lower_half = share(|| zipfian.draw(&mut random), |key| key < 50_000);
    assert_close(lower_half, 0.5, 0.12);
    assert_eq!(share(|| zipfian.draw(&mut random), |key| key < 100_000), 1.0);
}

#[test]
fn latest_prefers_what_was_acknowledged_last_and_follows_inserts() {
    let inserts = Arc::new(AcknowledgedCounter::new(1_000));
    let mut latest = Latest::new(Arc::clone(&inserts));
    let mut random = Rng::with_seed(SEED);
    let before = share(|| latest.draw(&mut random), |key| key == 999);
    assert!(before > 0.1, "the newest record got only {before} of the draws");
    for _ in 0..500 {
        inserts.acknowledge(inserts.draw());
    }
    let after = share(|| latest.draw(&mut random), |key| key == 1_499);
    assert!(after > 0.1, "after inserts the newest record got only {after} of the draws");
    assert_eq!(share(|| latest.draw(&mut random), |key| key < 1_500), 1.0);
}

#[test]
fn uniform_hotspot_and_exponential_have_their_shares() {
    let mut random = Rng::with_seed(SEED);
    let mut uniform = Distribution::Uniform { first: 10, last: 19 };
    assert_close(share(|| uniform.draw(&mut random), |key| key == 10), 0.1, 0.004);
    assert_close(share(|| uniform.draw(&mut random), |key| key == 19), 0.1, 0.004);
    let hotspot = Hotspot::new(0, 999, 0.2, 0.8);
    assert_close(share(|| hotspot.draw(&mut random), |key| key < 200), 0.8, 0.004);
    assert_eq!(share(|| hotspot.draw(&mut random), |key| key < 1_000), 1.0);
    let exponential = Exponential::new(95.0, 857.0);
    assert_close(share(|| exponential.draw(&mut random), |age| age < 857), 0.95, 0.004);
    assert_close(
        share(|| exponential.draw(&mut random), |age| age < 428),
        1.0 - 0.05f64.powf(428.0 / 857.0),
        0.004,
    );
}

#[test]
fn sequential_wraps_around() {
    let sequential = Sequential::new(5, 7);
    assert_eq!((0..5).map(|_| sequential.draw()).collect::<Vec<_>>(), [5, 6, 7, 5, 6]);
}

#[test]
fn acknowledged_counter_stops_at_the_first_gap() {
    let counter = AcknowledgedCounter::new(10);
    assert_eq!([counter.draw(), counter.draw(), counter.draw()], [10, 11, 12]);
    counter.acknowledge(11);
    assert_eq!(counter.acknowledged(), 10);
    counter.acknowledge(10);
    assert_eq!(counter.acknowledged(), 12);
    counter.acknowledge(12);
    assert_eq!(counter.acknowledged(), 13);
}
