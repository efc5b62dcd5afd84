//! How scenes are read, and what is written into them.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::scenes::{Command, check, differences, replay};

/// Adds the numbers of the input to the sum of the file.
fn sum(state: &mut u64, command: &Command<'_>) -> String {
    match command.name {
        "add" => *state += command.input.iter().map(|line| line.parse::<u64>().unwrap()).sum::<u64>(),
        "say" => return command.arguments.join("\n"),
        other => panic!("no command `{other}`"),
    }
    format!("sum {state}")
}

/// What the panic of `run` says.
fn panic_of(run: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap()
}

const SCENE: &str =
    "# Sums.\n\nadd\n1\n2\n----\nsum 3\n\n# More.\nadd\n4\n----\nsum 7\n\nsay a b\n----\na\nb\n";

#[test]
fn answers_alone_are_replaced_and_a_state_lasts_for_a_file() {
    assert_eq!(replay(SCENE, &mut 0, sum), SCENE);
    let stale = SCENE.replace("sum 3\n", "sum 9\nand more\n").replace("a\nb\n", "");
    assert_eq!(replay(&stale, &mut 0, sum), SCENE);
    let unanswered = SCENE.replace("sum 3\n", "").replace("sum 7\n", "");
    assert_eq!(replay(&unanswered, &mut 0, sum), SCENE);
}

#[test]
fn a_folder_passes_only_if_each_scene_says_what_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let differ = |updating| differences(folder.path(), updating, sum);
    assert!(panic_of(|| drop(differ(false))).contains("holds no scene"));
    fs::write(folder.path().join("good.txt"), SCENE).unwrap();
    assert_eq!(differ(false), [""; 0]);
    let other = folder.path().join("other.txt");
    for (said, stale, found) in [
        ("sum 7", "sum 8", "13: the scene says `sum 8`, found `sum 7`"),
        ("a\nb\n", "a\n", "18: the scene says the end, found `b`"),
        ("a\nb\n", "a\nb\nc\n", "19: the scene says `c`, found the end"),
    ] {
        fs::write(&other, SCENE.replace(said, stale)).unwrap();
        let differ = differ(false);
        assert!(differ.len() == 1 && differ[0].ends_with(&format!("other.txt:{found}")), "{differ:?}");
    }
    assert_eq!(differ(true), [""; 0]);
    assert_eq!(fs::read_to_string(&other).unwrap(), SCENE);
    check(folder.path(), sum);
    fs::write(&other, "add\n1\n----\nsum 1\n").unwrap();
    assert!(panic_of(|| drop(differ(false))).contains("begins with a comment"));
}

#[test]
fn what_cannot_be_told_apart_is_no_scene() {
    let replayed = |text: &str| panic_of(|| drop(replay(text, &mut 0, sum)));
    assert!(replayed("add\n1\n\nadd\n2\n----\n").contains("no `----` follows `add`"));
    assert!(replayed("add\n1\n").contains("no `----` follows `add`"));
    assert!(replayed("say\n----\n").contains("answered with an empty line"));
}
