//! Help, version and wrong command lines.

use crate::program::firn;

#[test]
fn version_names_release_format_and_target() {
    let out = firn(&["--version"]).ended(0);
    let lines: Vec<&str> = out.lines().collect();
    let build =
        lines[0].strip_prefix("firn 0.1.0 (").and_then(|rest| rest.strip_suffix(')')).expect("a build");
    let digits = build.strip_suffix("-dirty").unwrap_or(build);
    let is_hash = (7..=40).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_hash || build == "unknown", "{out}");
    assert_eq!(lines[1], "format version 1");
    assert!(lines[2].starts_with("target "), "{out}");
}

#[test]
fn help_explains_every_command_and_exit_code() {
    let out = firn(&["--help"]).ended(0);
    for word in [
        "get",
        "put",
        "delete",
        "scan",
        "stats",
        "verify",
        "bench",
        "inspect",
        "config",
        "backup",
        "restore",
        "demo",
        "--until-stdin-closes",
        "Exit codes",
        "  3  stored bytes are corrupt",
    ] {
        assert!(out.contains(word), "no {word:?} in {out}");
    }
}

#[test]
fn wrong_command_lines_are_usage_errors() {
    for (arguments, word) in [
        (&["--no-such-option"][..], "--no-such-option"),
        (&["no-such-command"], "no-such-command"),
        (&["inspect"], "<FILE>"),
        (&["config", "--conf", "x"], "--config"),
        (&["serve", "--port", "abc"], "a number from 0 to 65535"),
        (&["serve", "--memory-bytes", "1"], "firn: --memory-bytes is wrong: setting"),
        (&["serve", "--durability", "shared"], "give --shared LOCATION"),
    ] {
        let answer = firn(arguments);
        assert_eq!(answer.code, 2, "{answer:?}");
        assert!(answer.complaint.contains(word), "{answer:?}");
    }
    for (arguments, tip) in
        [(["stats", "some-dir"], "`--dir some-dir`"), (["config", "some-file"], "`--config some-file`")]
    {
        let answer = firn(&arguments);
        assert_eq!(answer.code, 2, "{answer:?}");
        assert!(
            answer.complaint.contains(&format!("tip: name it with an option, as in {tip}")),
            "{answer:?}"
        );
    }
    assert_eq!(firn(&[]).code, 2);
}

#[test]
fn what_is_not_there_is_told_in_the_words_of_the_command() {
    firn(&["restore", "--from", "no-such"])
        .complained(1, &["firn: there is no backup no-such; check the path"]);
    firn(&["put", "--dir", "no-such", "k", "v"]).complained(1, &["`firn put --create` makes a database"]);
    let answer = firn(&["get", "--dir", "no-such", "k"]);
    assert!(answer.complaint.ends_with("no-such does not exist; check the path\n"), "{answer:?}");
    let answer = firn(&["serve", "--port", "0", "--http-port", "none", "--dir", "/proc/no-such"]);
    assert_eq!(answer.complaint.matches("/proc/no-such").count(), 1, "{answer:?}");
    answer.complained(1, &["name a directory that can be made"]);
    // Port 1 is no port of this machine's tests.
    let url = "http://127.0.0.1:1";
    let absent = "no control plane answers at http://127.0.0.1:1: start one with `firn control-plane`";
    firn(&["jobs", "--control-plane", url]).complained(1, &[absent, "--control-plane"]);
}
