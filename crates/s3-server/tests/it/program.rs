//! The program as the experiment of crate `firn-bench` has it: `experiment/caas/cluster.rs`, which
//! starts it with these words and reads its lines so.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const BUCKET: &str = "firn";

/// A directory of this process alone, gone when this is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("program-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("removed");
    }
}

/// Killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("it ends");
    }
}

/// What it has said once it has said a line, all of what is there then: its caller looks no second
/// time.
fn first_said(program: &mut Child) -> String {
    let (mut said, mut bytes) = (Vec::new(), [0; 4096]);
    while !said.contains(&b'\n') {
        let count = program.stdout.as_mut().expect("a pipe").read(&mut bytes).expect("it speaks");
        assert!(count > 0, "it ended");
        said.extend_from_slice(&bytes[..count]);
    }
    String::from_utf8(said).expect("text")
}

#[test]
fn who_has_heard_its_first_line_knows_how_it_is_reached_and_it_ends_with_its_input() {
    let directory = Directory::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_firn-s3-server"));
    command.arg(&directory.0).arg(BUCKET).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = Running(command.spawn().expect("it starts"));
    let said = first_said(&mut program.0);
    let settings: Vec<_> = said.lines().filter_map(|line| line.split_once('=')).collect();
    let names: Vec<_> = settings.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["AWS_ENDPOINT", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"], "{said}");
    assert!(settings.iter().all(|(_, value)| !value.is_empty()), "{said}");
    let address = settings[0].1.strip_prefix("http://").and_then(|rest| rest.parse::<SocketAddr>().ok());
    let address = address.unwrap_or_else(|| panic!("no address: {said}"));
    let mut client = TcpStream::connect(address).expect("it listens");
    write!(client, "GET /{BUCKET} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("asked");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    // A client that shows no key may do nothing.
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(directory.0.join(BUCKET).is_dir(), "the bucket is made");
    drop(program.0.stdin.take());
    assert!(program.0.wait().expect("it ends").success());
}
