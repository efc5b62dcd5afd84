//! What comes with the program where it is installed: completions and manual pages.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::program::{firn, say_left_out, text};

/// What `program` says of `input`, if this machine has it: whether it took it, and its complaints.
fn checked(program: &str, arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        say_left_out(&format!("there is no {program}"));
        return None;
    };
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("read");
    let output = child.wait_with_output().expect("it ends");
    Some((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[test]
fn shells_take_their_completions() {
    for (shell, program, arguments) in
        [("bash", "bash", &["-n"][..]), ("zsh", "zsh", &["-n"]), ("fish", "fish", &["--no-execute"])]
    {
        let script = firn(&["completions", shell]).ended(0);
        for word in ["control-plane", "http-port", "stats"] {
            assert!(script.contains(word), "no {word} for {shell}");
        }
        if let Some((is_taken, complaints)) = checked(program, arguments, &script) {
            assert!(is_taken && complaints.is_empty(), "{shell}: {complaints}");
        }
    }
    firn(&["completions", "csh"]).ended(2);
    // As `| head` has it.
    let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
    let child = command.args(["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    // Bash completes by it.
    let script = firn(&["completions", "bash"]).ended(0);
    let asked = format!(
        "{script}\nCOMP_WORDS=(firn ver); COMP_CWORD=1; _firn firn ver firn; echo \"${{COMPREPLY[@]}}\""
    );
    let output = Command::new("bash").args(["-c", &asked]).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "verify\n", "{output:?}");
}

#[test]
fn each_command_has_a_manual_page() {
    let folder = tempfile::tempdir().expect("a directory");
    firn(&["man", "--to", text(folder.path())]).ended(0);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder.path()).expect("listed") {
        let path = entry.expect("listed").path();
        let page = std::fs::read_to_string(&path).expect("read");
        // Its title, with the version, is one line, or the name is not found.
        let title = page.lines().find(|line| line.starts_with(".TH ")).expect("a title");
        assert!(title.contains("\"firn 0.1.0 (") && title.ends_with(" Firn"), "{title}");
        names.push(path.file_name().expect("a name").to_string_lossy().into_owned());
        if let Some((is_taken, complaints)) = checked("groff", &["-man", "-Tutf8", "-ww", "-z"], &page) {
            assert!(is_taken && complaints.is_empty(), "{}: {complaints}", path.display());
        }
    }
    for name in ["firn.1", "firn-serve.1", "firn-bench-ycsb.1", "firn-jobs-watch.1"] {
        assert!(names.iter().any(|known| known == name), "no {name} in {names:?}");
    }
    let serve = firn(&["man", "serve"]).ended(0);
    assert!(
        serve.contains(".SH NAME") && serve.contains("firn\\-serve") && serve.contains("http\\-port"),
        "{serve}"
    );
    firn(&["man", "bench", "serve"]).complained(2, &["there is no command \"serve\"; there are ycsb, db"]);
    assert!(firn(&["man"]).ended(0).contains("Exit codes"));
}
