//! Choices where the disk is nearly full.

use super::super::first_with_room;
use super::{Choice, PickRules, RULES, busy, levels, names, pick};

fn choose(lines: &[&str], room_bytes: u64) -> Choice {
    let rules = PickRules { depth_max: 4, level_bytes_min: 100, room_bytes, ..RULES };
    pick(&levels(lines), &rules, &busy(&[])).unwrap()
}

#[test]
fn what_makes_no_room_is_not_rewritten_where_there_is_none() {
    // A table from end to end joins all, nearly all of which is deleted.
    let lines = [
        "0.5 a-b 20 65",
        "0.4 a-z 200",
        "0.3 a-b",
        "0.2 a-b",
        "0.1 a-b",
        "6 a-b 300",
        "6 m-p 300",
        "6 s-z 300",
    ];
    let roomy = choose(&lines, 200);
    assert_eq!((names(&roomy), roomy.output_level), (vec!["0.4 a-z"], 0), "cut, so that groups are apart");
    let tight = choose(&lines, 199);
    assert_eq!((tight.inputs.len(), tight.output_level), (lines.len(), 6), "all of it goes");
}

#[test]
fn the_group_that_has_room_goes_before_a_worse_one() {
    let deep: Vec<String> = (1..=8).map(|run| format!("0.{run} a-b")).collect();
    let deep: Vec<&str> = deep.iter().map(String::as_str).chain(["6 a-b"]).collect();
    let hiding = ["0.9 m-n 20 40", "6 m-n 400"];
    let both = [&deep, &hiding[..]].concat();
    assert_eq!(names(&choose(&both, 900))[0], "0.8 a-b");
    assert_eq!(names(&choose(&both, 899)), ["0.9 m-n", "6 m-n"]);
    assert_eq!(names(&choose(&deep, 899))[0], "0.8 a-b", "the estimate may be wrong");
}

#[test]
fn a_level_that_has_room_goes_before_a_deep_group() {
    let deep: Vec<String> = (1..=8).map(|run| format!("0.{run} a-b")).collect();
    let deep: Vec<&str> = deep.iter().map(String::as_str).collect();
    // Half more than the level may have; of the group it is twice.
    let lines = [&deep, &["5 a-b 1", "5 m-n 150", "6 m-n 1"][..]].concat();
    let first = |room_bytes| choose(&lines, room_bytes).inputs[0].0;
    assert_eq!((first(801), first(800)), (0, 5));
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
