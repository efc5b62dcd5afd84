//! Steps are told apart by what they need, and name tests that there are.

use super::*;
use crate::{skew, soak};

fn shell(script: &str, output: Output) -> (Tally, String) {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let Outcome { tally, kept, .. } = call(command, output).expect("sh runs");
    (tally, kept)
}

#[test]
fn output_that_is_kept_has_complaints_in_their_place() {
    let script = "echo one; echo two >&2; echo three";
    assert_eq!(shell(script, Output::Kept).1, "one\ntwo\nthree\n");
    let missing = Step::call("x", "firn-no-such-program", &[]).run(Path::new("."), Output::Kept);
    assert!(missing.tally.failed == 1 && missing.kept.starts_with("cannot start it: "), "{missing:?}");
}

#[test]
fn results_in_the_output_are_summed() {
    let script =
        "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'; echo 'test result: ok. 3 passed; 0 failed;'";
    assert_eq!(shell(script, Output::Shown), (Tally { passed: 5, failed: 0 }, String::new()));
}

#[test]
fn a_command_that_fails_counts_even_without_a_failed_test() {
    let fails = |script: &str| shell(script, Output::Kept).0;
    assert_eq!(fails("exit 1"), Tally { passed: 0, failed: 1 });
    assert_eq!(fails("echo 'test result: ok. 2 passed; 0 failed;'; exit 1"), Tally { passed: 2, failed: 1 });
    assert_eq!(fails("exit 0"), Tally { passed: 1, failed: 0 });
}

#[test]
fn a_step_that_cannot_run_says_why() {
    let step = Step::cargo("x", &["fuzz"]).needing("c++");
    assert_eq!(step.left_out(&["git"]), None);
    assert_eq!(step.left_out(&["c++"]).as_deref(), Some("c++ is missing"));
    assert_eq!(step.left_out(&["cc"]).as_deref(), Some("cc is missing"), "every step of cargo needs it");
    let step = step.unless(|| Some("it rains".to_owned()));
    assert_eq!(step.left_out(&[]).as_deref(), Some("it rains"));
}

/// Where the tests of the program are, and those of backends in object stores.
const PROGRAM: &str = "crates/cli/tests/it";
const OBJECTS: &str = "crates/objects/tests/it";

/// The tests below `folder` that a plain run leaves out, by their paths.
fn ignored(folder: &str) -> Vec<String> {
    let folder = crate::repository::root().join(folder);
    let (mut folders, mut names) = (vec![folder.clone()], Vec::new());
    while let Some(path) = folders.pop() {
        let entries = std::fs::read_dir(path).expect("a folder").map(|entry| entry.expect("one").path());
        for path in entries {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("a file of tests");
            let module = path.strip_prefix(&folder).expect("it is in there").with_extension("");
            let module = module.to_string_lossy().replace('/', "::");
            names.extend(ignored_in(&source).map(|name| format!("{module}::{name}")));
        }
    }
    names
}

/// Names of the ignored tests of one file.
fn ignored_in(source: &str) -> impl Iterator<Item = &str> {
    source.split("#[test]").skip(1).filter_map(|test| {
        let (attributes, rest) = test.split_once("fn ")?;
        attributes.contains("#[ignore").then(|| rest.split_once('('))?.map(|(name, _)| name)
    })
}

/// The steps that ask for tests by their names.
fn all() -> Vec<Step> {
    server().into_iter().chain([grpc()]).chain(clouds()).collect()
}

/// What the arguments of a step ask for.
fn filters(step: &Step) -> Vec<&str> {
    let Action::Call { arguments, .. } = &step.action else { panic!("{}", step.name) };
    arguments.iter().skip_while(|word| *word != "1").skip(1).map(String::as_str).collect()
}

/// A step whose names filter every test out would say that all is well.
#[test]
fn tests_have_the_names_that_are_asked_for() {
    let (steps, tests) = (all(), [ignored(PROGRAM), ignored(OBJECTS)].concat());
    for step in &steps {
        assert!(!filters(step).is_empty(), "{}", step.name);
        for filter in filters(step) {
            assert!(tests.iter().any(|test| test.contains(filter)), "{filter}");
        }
    }
    assert!(tests.iter().any(|test| test.contains(skew::TESTS)), "{}", skew::TESTS);
}

/// An ignored test that no step asks for never runs.
#[test]
fn whatever_test_of_the_server_is_ignored_is_asked_for() {
    let steps = all();
    let asked: Vec<&str> =
        steps.iter().flat_map(filters).chain(soak::server_tests()).chain([skew::TESTS]).collect();
    let tests = ignored(PROGRAM);
    assert!(tests.len() > 10, "{tests:?}");
    for test in tests {
        assert!(asked.iter().any(|filter| test.contains(filter)), "{test} runs nowhere");
    }
}

#[test]
fn models_are_found_by_who_checks_them() {
    let root = crate::repository::root();
    let names: Vec<String> = loom(&root, false).into_iter().map(|step| step.name).collect();
    assert_eq!(names, ["loom firn-arena", "loom firn-engine", "loom firn-hashlog", "loom firn-tree"]);
}

#[test]
fn ignored_tests_are_found_by_their_attributes() {
    let source = "#[test]\nfn a() { b(\"#[ignore]\") }\n#[test]\n#[ignore = \"long\"]\nfn c() {}\nfn d() {}";
    assert_eq!(ignored_in(source).collect::<Vec<_>>(), ["c"]);
}

#[test]
fn the_simulator_is_the_one_beside_this_program() {
    let program = std::env::current_exe().expect("this program").with_file_name("firn-sim");
    let folder = program.parent().expect("a folder");
    let shown = |root: &Path| simulations(root, false).first().expect("a step").shown();
    assert_eq!(shown(folder), "firn-sim metamorphic --seeds 200");
    assert_eq!(shown(Path::new("elsewhere")), format!("{} metamorphic --seeds 200", program.display()));
}

#[test]
fn a_step_is_shown_as_it_would_be_typed() {
    let step = Step::cargo("x", &["test", "--test", "loom_*"]).with("A", "b c");
    assert_eq!(step.shown(), "A='b c' cargo test --test 'loom_*'");
}
