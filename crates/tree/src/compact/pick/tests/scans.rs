//! What scans have lost, and what it buys.

use super::*;
use crate::compact::seeks::{READS_FOR_EACH_LOOK, Seeks, pick_for_reads};

/// Inputs, output level and sorted run, and price of the choice.
fn picked(lines: &[&str], names: &[&str], lost_bytes: u64) -> Option<(Vec<String>, u32, u64, u64)> {
    let seeks = Seeks::default();
    seeks.add(1 << 30, true);
    seeks.pay(seeks.lost_bytes(u64::MAX) - lost_bytes.min(1 << 40), 1.0);
    let choice = pick_for_reads(&levels(lines), &RULES, &busy(names), &seeks)?;
    let inputs = choice.inputs.iter().map(|(_, _, table)| table.meta().file.clone()).collect();
    assert!(choice.score < 1.0 && !choice.moves, "budgets go first");
    Some((inputs, choice.output_level, choice.output_run, choice.input_bytes()))
}

fn files(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_group_is_merged_once_scans_have_lost_what_it_costs() {
    let lines = ["0.3 a-f", "0.2 a-f", "0.1 a-f", "6 a-f 5000"];
    assert_eq!(picked(&lines, &[], 0), None);
    assert_eq!(picked(&lines, &[], 299), None);
    // Two seeks fewer for 300 bytes, instead of three for 5300.
    let inside = (files(&lines[..3].iter().map(|line| &line[..7]).collect::<Vec<_>>()), 0, 3, 300);
    assert_eq!(picked(&lines, &[], 300), Some(inside.clone()));
    assert_eq!(picked(&lines, &["0.2 a-f"], 1_000_000), None);
    // One sorted run is left, and goes down where that has been lost too.
    assert_eq!(picked(&["0.3 a-f 300", "6 a-f 5000"], &[], 5299), None);
    let down = (files(&["0.3 a-f", "6 a-f"]), 6, 0, 5300);
    assert_eq!(picked(&["0.3 a-f 300", "6 a-f 5000"], &[], 5300), Some(down));
    // A base level that is small goes along at once.
    let along = (files(&["0.2 a-f", "0.1 a-f", "6 a-f"]), 6, 0, 250);
    assert_eq!(picked(&["0.2 a-f", "0.1 a-f", "6 a-f 50"], &[], 250), Some(along));
    assert_eq!(picked(&["6 a-f"], &[], u64::MAX), None, "nothing is in the way");
}

#[test]
fn the_group_that_is_worth_most_goes_first() {
    // Alike in bytes of level 0, but the second is met by ten times as many scans.
    let lines = ["0.2 a-b", "0.1 a-b", "6 a-b 500", "0.2 m-n", "0.1 m-n", "6 m-n 5000"];
    assert_eq!(picked(&lines, &[], 1000).map(|picked| picked.0), Some(files(&["0.2 m-n", "0.1 m-n"])));
    // A deeper one takes more seeks away for each byte.
    let lines = ["0.3 a-b", "0.2 a-b", "0.1 a-b", "6 a-b 700", "0.2 m-n", "0.1 m-n", "6 m-n 700"];
    let deeper = files(&["0.3 a-b", "0.2 a-b", "0.1 a-b"]);
    assert_eq!(picked(&lines, &[], 1000).map(|picked| picked.0), Some(deeper));
}

#[test]
fn what_is_lost_is_spent_once() {
    let (seeks, all) = (Seeks::default(), u64::MAX);
    seeks.add(0, true);
    assert_eq!(seeks.lost_bytes(all), 0);
    (0..10).for_each(|_| seeks.add(3, false));
    let (resident, price) = (seeks.lost_bytes(all), 5000);
    assert!(resident > 10_000);
    seeks.pay(price, 1.0);
    assert_eq!(seeks.lost_bytes(all), resident - price);
    seeks.pay(all, 1.0);
    assert_eq!(seeks.lost_bytes(all), 0);
    (0..10).for_each(|_| seeks.add(3, true));
    assert!(seeks.lost_bytes(all) > 10 * resident, "a device costs more than a miss of a cache");
    seeks.pay(all, 1.0);
    (0..10).for_each(|_| seeks.add_point_read(3));
    let each = seeks.lost_bytes(all) / 10 / u64::from(READS_FOR_EACH_LOOK);
    assert!((1..resident / 10).contains(&each), "a filter costs less than a seek");
    seeks.add_point_read(0);
    assert_eq!(seeks.lost_bytes(all) / 10 / u64::from(READS_FOR_EACH_LOOK), each);
}

#[test]
fn more_than_all_of_level_0_is_worth_is_forgotten() {
    let seeks = Seeks::default();
    let pick = |lines: &[&str]| pick_for_reads(&levels(lines), &RULES, &busy(&["0.1 a-f"]), &seeks);
    seeks.add(1 << 20, true);
    assert!(pick(&["0.2 a-f", "0.1 a-f", "6 a-f 500", "6 m-n 9000"]).is_none(), "it is busy");
    assert_eq!(seeks.lost_bytes(u64::MAX), 700);
    assert!(pick(&["6 a-f"]).is_none());
    assert_eq!(seeks.lost_bytes(u64::MAX), 0, "nothing is in the way any more");
}

/// What is dear is done as rarely as it is dear.
#[test]
fn a_price_is_what_must_have_been_lost_for_each_byte() {
    let lines = ["0.3 a-f", "0.2 a-f", "0.1 a-f", "6 a-f 5000"];
    let rules = PickRules { read_price: 4.0, ..RULES };
    let seeks = Seeks::default();
    seeks.add(1 << 30, true);
    let bought = |lost: u64| {
        seeks.pay(seeks.lost_bytes(u64::MAX) - lost, 1.0);
        pick_for_reads(&levels(&lines), &rules, &busy(&[]), &seeks).map(|choice| choice.input_bytes())
    };
    assert_eq!(bought(1200), Some(300));
    assert_eq!(bought(1199), None);
    seeks.pay(200, 4.0);
    assert_eq!(seeks.lost_bytes(u64::MAX), 399);
}
