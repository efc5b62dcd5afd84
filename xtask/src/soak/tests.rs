use super::*;

#[test]
fn a_report_names_commands_and_violations() {
    let run = |is_good| Run {
        command: "cargo run -- crash".to_owned(),
        said: vec!["10 cuts".to_owned()],
        is_good,
        time: Duration::from_secs(3),
    };
    let text = report("2030-01-02", &[run(true), run(false)]);
    assert!(text.starts_with("# Soak of 2030-01-02\n"));
    assert!(text.contains("- runs: 2, of which violated: 1\n"));
    assert!(text.contains("| `cargo run -- crash` | **violated** | 3 |"));
    assert!(text.contains("$ cargo run -- crash\n10 cuts\n"));
}

#[test]
fn the_tests_of_the_server_have_the_names_that_are_asked_for() {
    for (file, name) in [
        ("kill_serve.rs", KILLS[0]),
        ("linearizability.rs", KILLS[1]),
        ("beyond_memory.rs", BEYOND_MEMORY[0]),
        ("worker_bytes.rs", WORKER[0]),
    ] {
        let source =
            std::fs::read_to_string(root().join("crates/cli/tests/it").join(file)).expect("the test");
        let is_ignored = source
            .split("#[test]")
            .any(|test| test.contains("#[ignore") && test.contains(&format!("fn {name}")));
        assert!(is_ignored, "{name}");
    }
}

#[test]
fn the_tests_of_the_hashed_engine_have_the_names_that_are_asked_for() {
    let files =
        ["exact_sums.rs", "exact_sums.rs", "reads_amid_compaction.rs", "hot_updates.rs", "checkpoints.rs"];
    for (file, (name, _)) in files.into_iter().zip(HASHED) {
        let path = root().join("crates/hashlog/tests/it").join(file);
        let source = std::fs::read_to_string(path).expect("the test");
        let mut tests = source.split("#[test]");
        let is_ignored =
            tests.any(|test| test.contains("#[ignore") && test.contains(&format!("fn {name}()")));
        assert!(is_ignored, "{name}");
    }
}

#[test]
fn a_plan_for_one_engine_leaves_out_the_other() {
    use clap::Parser as _;
    #[derive(clap::Parser)]
    struct Given {
        #[command(flatten)]
        options: Options,
    }
    let commands = |arguments: &[&str]| -> Vec<String> {
        let given = Given::parse_from([&["soak"][..], arguments].concat());
        given.options.plan(1).iter().map(|planned| planned.arguments.join(" ")).collect()
    };
    let [all, hashed] = [commands(&[]), commands(&["--engine", "hashlog"])];
    assert!(all.len() > hashed.len() && hashed.iter().all(|command| all.contains(command)));
    assert!(hashed.iter().any(|command| command.contains("kill --rounds 200")));
    assert!(!hashed.iter().any(|command| command.contains("firn-tree") || command.contains("tree kill")));
    assert!(commands(&["--engine", "tree"]).iter().all(|command| !command.contains("hashlog")));
}

/// A run that filters every test out would say that all is well.
#[test]
fn the_flip_test_has_the_name_that_is_asked_for() {
    let source =
        std::fs::read_to_string(root().join("crates/tree/tests/it/verify/flip.rs")).expect("the test");
    let is_ignored = source
        .split("#[test]")
        .any(|test| test.contains("#[ignore") && test.contains("fn every_bit_flipped"));
    assert!(is_ignored && FLIPS.ends_with(&["--ignored", "flip"]));
}
