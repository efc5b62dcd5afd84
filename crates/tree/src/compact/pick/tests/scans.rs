//! What reads have lost. What it buys is shown by scenes.

use super::*;
use crate::compact::seeks::pick_for_reads;
use crate::version::observed::{READS_FOR_EACH_LOOK, Seeks};

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
    seeks.pay(200, 4.0);
    assert_eq!(seeks.lost_bytes(all), resident - price - 800, "what is dear costs more");
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
