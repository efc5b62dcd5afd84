//! Choices where the disk is nearly full.

use super::super::first_with_room;
use super::{Choice, PickRules, RULES, busy, levels, pick};

fn choose(lines: &[&str], room_bytes: u64) -> Choice {
    let rules = PickRules { depth_max: 4, level_bytes_min: 100, room_bytes, ..RULES };
    pick(&levels(lines), &rules, &busy(&[])).unwrap()
}

#[test]
fn the_first_choice_with_room_is_taken() {
    let rules = PickRules { room_bytes: 399, ..RULES };
    let large = || choose(&["0.4 a-b", "0.3 a-b", "0.2 a-b", "0.1 a-b", "6 a-b"], u64::MAX);
    let moved = || choose(&["0.1 x-z"], 0);
    let taken = |choices: Vec<Choice>| first_with_room(choices, &rules).map(|choice| choice.moves);
    assert_eq!(taken(vec![large(), moved()]), Some(true));
    assert_eq!(taken(vec![large()]), Some(false));
    assert_eq!(taken(vec![]), None);
}
