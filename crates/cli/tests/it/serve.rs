use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firn");

/// `firn serve` on a port of its own.
pub(crate) struct Serving {
    pub(crate) process: Child,
    output: BufReader<ChildStdout>,
    pub(crate) address: String,
}

impl Serving {
    pub(crate) fn start(dir: &Path) -> Self {
        let mut process = Command::new(PROGRAM)
            .args(["serve", "--port", "0", "--threads", "2", "--memory-bytes", "64M", "--dir"])
            .arg(dir)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it is read");
        let address = line.split(" on ").nth(1).and_then(|rest| rest.split(';').next());
        let address = address.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
        Self { process, output, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        stream
    }

    pub(crate) fn signal(&self, name: &str) {
        let done = Command::new("kill")
            .args(["-s", name, &self.process.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(done.success());
    }
}

/// Sends `request` and expects exactly `reply`.
#[track_caller]
fn say(stream: &mut TcpStream, request: &str, reply: &str) {
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut found = vec![0; reply.len()];
    stream.read_exact(&mut found).expect("a reply");
    assert_eq!(String::from_utf8_lossy(&found), reply);
}

#[test]
fn it_serves_ends_when_told_to_and_keeps_what_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let mut serving = Serving::start(dir.path());
    let mut client = serving.connect();
    say(&mut client, "SET key value\r\nINCR n\r\n", "+OK\r\n:1\r\n");
    serving.signal("TERM");
    assert!(serving.process.wait().unwrap().success());
    let mut said = String::new();
    serving.output.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("closed "), "{said:?}");
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "the connection is closed");

    // Killed this time: what was acknowledged is there.
    let mut serving = Serving::start(dir.path());
    let mut client = serving.connect();
    say(&mut client, "GET key\r\nINCR n\r\n", "$5\r\nvalue\r\n:2\r\n");
    serving.signal("KILL");
    serving.process.wait().unwrap();
    let mut serving = Serving::start(dir.path());
    say(&mut serving.connect(), "GET n\r\n", "$1\r\n2\r\n");
    serving.signal("INT");
    assert!(serving.process.wait().unwrap().success());
}

#[test]
fn a_port_that_is_taken_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut serving = Serving::start(dir.path());
    let port = serving.address.rsplit(':').next().unwrap().to_owned();
    let other = tempfile::tempdir().unwrap();
    let output =
        Command::new(PROGRAM).args(["serve", "--port", &port, "--dir"]).arg(other.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cannot serve on 127.0.0.1") && said.contains("in use"), "{said}");
    // So is a directory that another process has open.
    let output =
        Command::new(PROGRAM).args(["serve", "--port", "0", "--dir"]).arg(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
    serving.signal("TERM");
    serving.process.wait().unwrap();
}
