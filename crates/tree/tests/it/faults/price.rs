//! P11: scans beside few insertions, for whose sake compactions wrote 31 to 269 bytes for each byte
//! inserted. Neighbours: point reads, which buy compactions too; a price below 1; the default.

use firn_engine::Engine;
use firn_engine::blocking::OrderedBlocking;
use firn_tree::Settings;

use super::super::read::scans::{deep_tree_at, scan};
use super::super::support::world::{get, settle};

/// How often `read` is done until a compaction is bought at `price`.
fn reads_until_bought(price: f64, mut read: impl FnMut(&mut OrderedBlocking)) -> u32 {
    let (tree, mut session) = deep_tree_at(price);
    let written = || tree.stats().tree.expect("a tree").compaction_write_bytes_total;
    let before = written();
    for reads in 1..10_000 {
        read(&mut session);
        settle(&tree);
        if written() > before {
            return reads;
        }
    }
    panic!("10 000 reads have bought nothing at {price}");
}

fn costs_four_times_as_many(read: impl Fn(&mut OrderedBlocking)) {
    let [half, one, four] = [0.5, 1.0, 4.0].map(|price| reads_until_bought(price, &read));
    assert!(half < one, "{half} reads at a price of a half, {one} at 1");
    assert!((3 * one..=5 * one).contains(&four), "{one} reads at a price of 1, {four} at 4");
}

#[test]
fn p11_scans_buy_at_their_price() {
    costs_four_times_as_many(|session| scan(session, 1));
}

#[test]
fn p11_point_reads_buy_at_their_price() {
    // One read of 61 is looked at; the key is in no table, and within the bounds of all.
    let key = [0, 0, 0, 7, 1];
    costs_four_times_as_many(|session| (0..61).for_each(|_| assert_eq!(get(session, &key), None)));
}

#[test]
fn p11_the_default_is_what_the_curve_says() {
    assert_eq!(Settings::default().engine.read_compaction_price, 4.0);
}
