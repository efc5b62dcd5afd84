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
    ] {
        let answer = firn(arguments);
        assert_eq!(answer.code, 2, "{answer:?}");
        assert!(answer.complaint.contains(word), "{answer:?}");
    }
    assert_eq!(firn(&[]).code, 2);
}
