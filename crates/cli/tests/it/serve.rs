use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firn");

/// `firn serve` on a port of its own.
pub(crate) struct Serving {
    pub(crate) process: Child,
    output: BufReader<ChildStdout>,
    pub(crate) address: String,
    /// Where it answers by HTTP, if it does.
    pub(crate) http: Option<String>,
}

impl Serving {
    pub(crate) fn start(dir: &Path) -> Self {
        Self::start_as(Command::new(PROGRAM).arg("serve"), dir).expect("it serves")
    }

    pub(crate) fn start_with(arguments: &[&str], dir: &Path) -> Self {
        Self::start_as(Command::new(PROGRAM).arg("serve").args(arguments), dir).expect("it serves")
    }

    /// Ends it, and expects that it ends well.
    pub(crate) fn end(mut self) {
        self.signal("TERM");
        assert!(self.process.wait().expect("it ends").success());
    }

    /// Starts `command`, which is `firn serve` in some way; `None` if it ends at once.
    pub(crate) fn start_as(command: &mut Command, dir: &Path) -> Option<Self> {
        if command.get_args().all(|argument| argument != "--memory-bytes") {
            command.args(["--memory-bytes", "64M"]);
        }
        let mut process = command
            .args(["--port", "0", "--threads", "2", "--dir"])
            .arg(dir)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it is read");
        if line.is_empty() {
            process.wait().expect("it ends");
            return None;
        }
        let address = line.split(" on ").nth(1).and_then(|rest| rest.split(';').next());
        let address = address.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
        let http = line.split("; ").find_map(|part| part.strip_prefix("HTTP at ")).map(str::to_owned);
        Some(Self { process, output, address, http })
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        stream
    }

    /// Processor time it has used so far, in hundredths of a second.
    fn processor_ticks(&self) -> u64 {
        let path = format!("/proc/{}/stat", self.process.id());
        let stat = std::fs::read_to_string(path).expect("it runs");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("a name").split_whitespace().collect();
        fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum()
    }

    /// Memory it has now.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.status_kib("VmRSS:") << 10
    }

    /// Memory it has now, pages of files apart.
    pub(crate) fn own_bytes(&self) -> u64 {
        self.status_kib("RssAnon:") << 10
    }

    /// Memory it had at most.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.status_kib("VmHWM:") << 10
    }

    fn status_kib(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let value = status.lines().find_map(|line| line.strip_prefix(name)).expect("a value");
        value.split_whitespace().next().expect("a number").parse().expect("a number")
    }

    pub(crate) fn signal(&self, name: &str) {
        let done = Command::new("kill")
            .args(["-s", name, &self.process.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(done.success());
    }
}

/// A test that fails leaves no process behind.
impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
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
fn a_password_comes_from_a_file_or_from_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "from the file\nsecond line\n").unwrap();
    let data = dir.path().join("data");
    let mut command = Command::new(PROGRAM);
    command.arg("serve").arg("--password-file").arg(&file).env("FIRN_PASSWORD", "from the environment");
    let mut serving = Serving::start_as(&mut command, &data).expect("it serves");
    say(
        &mut serving.connect(),
        "GET a\r\nAUTH \"from the file\"\r\nGET a\r\n",
        "-NOAUTH Authentication required.\r\n+OK\r\n$-1\r\n",
    );
    serving.signal("TERM");
    assert!(serving.process.wait().unwrap().success());
    let mut serving =
        Serving::start_as(Command::new(PROGRAM).arg("serve").env("FIRN_PASSWORD", "word"), &data)
            .expect("it serves");
    say(&mut serving.connect(), "AUTH word\r\nGET a\r\n", "+OK\r\n$-1\r\n");
    serving.signal("TERM");
    assert!(serving.process.wait().unwrap().success());
    for (arguments, expected) in [
        (["--password-file", "no-such-file"], "cannot read"),
        (["--protected-mode", "maybe"], "none of yes, no"),
    ] {
        let output = Command::new(PROGRAM).arg("serve").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expected), "{said}");
    }
    std::fs::write(&file, "\n").unwrap();
    let output = Command::new(PROGRAM).arg("serve").arg("--password-file").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "an empty password is none");
}

#[test]
fn a_client_may_end_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut serving = Serving::start(dir.path());
    let (mut client, mut other) = (serving.connect(), serving.connect());
    say(&mut client, "SET key value\r\n", "+OK\r\n");
    let path = dir.path().display().to_string();
    let expected = format!("*2\r\n$3\r\ndir\r\n${}\r\n{path}\r\n", path.len());
    say(&mut other, "CONFIG GET dir\r\n", &expected);
    client.write_all(b"SHUTDOWN\r\n").unwrap();
    assert_eq!(serving.process.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    serving.output.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("closed "), "{said:?}");
    assert_eq!(client.read(&mut [0]).unwrap() + other.read(&mut [0]).unwrap(), 0, "connections are closed");
    let mut serving = Serving::start(dir.path());
    say(&mut serving.connect(), "GET key\r\n", "$5\r\nvalue\r\n");
    serving.signal("TERM");
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
    assert!(said.contains("cannot serve: 127.0.0.1") && said.contains("in use"), "{said}");
    // So is a directory that another process has open.
    let output =
        Command::new(PROGRAM).args(["serve", "--port", "0", "--dir"]).arg(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
    serving.signal("TERM");
    serving.process.wait().unwrap();
}

/// With epoll alone: io_uring keeps the limit that there was when it was asked to accept, and the
/// one at the start bounds clients.
#[test]
fn without_descriptors_it_waits_for_some() {
    const LIMIT: usize = 100;
    let dir = tempfile::tempdir().unwrap();
    let mut serving = Serving::start_with(&["--network", "epoll"], dir.path());
    // Only now, or it would let in fewer clients.
    let limit = Rlimit { current: Some(LIMIT as u64), maximum: Some(LIMIT as u64) };
    prlimit(Some(Pid::from_child(&serving.process)), Resource::Nofile, limit).unwrap();
    let mut first = serving.connect();
    say(&mut first, "PING\r\n", "+PONG\r\n");
    // The kernel lets them in; the server cannot.
    let mut others: Vec<_> = (0..LIMIT).map(|_| serving.connect()).collect();
    others.iter_mut().for_each(|other| other.write_all(b"PING\r\n").unwrap());
    say(&mut first, "PING\r\n", "+PONG\r\n");
    let before = serving.processor_ticks();
    std::thread::sleep(Duration::from_secs(1));
    let ticks = serving.processor_ticks() - before;
    assert!(ticks < 10, "{ticks} hundredths of a second to wait for one");
    let mut last = others.pop().unwrap();
    last.set_nonblocking(true).unwrap();
    assert!(last.read(&mut [0]).is_err(), "the limit was none");
    last.set_nonblocking(false).unwrap();
    drop(others);
    let mut reply = [0; 7];
    last.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    first.write_all(b"INFO stats\r\n").unwrap();
    let mut info = vec![0; 16 << 10];
    let count = first.read(&mut info).unwrap();
    let info = String::from_utf8_lossy(&info[..count]);
    let failures = info.lines().find_map(|line| line.strip_prefix("accept_failures:"));
    assert!(failures.is_some_and(|failures| failures != "0"), "{info}");
    serving.signal("TERM");
    assert!(serving.process.wait().unwrap().success());
}

/// No client is let in by a server that lacks descriptors for its own workers.
#[test]
fn too_few_descriptors_for_the_workers_are_told_at_the_start() {
    let mut refused = 0;
    for limit in 8.. {
        let dir = tempfile::tempdir().unwrap();
        let limited = format!("ulimit -n {limit}; exec timeout 2 \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command
            .args(["-c", &limited, PROGRAM, "serve", "--threads", "4", "--port", "0", "--dir"])
            .arg(dir.path());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("started") {
            assert!(!said.contains("Too many open files"), "{limit}: {said}");
            break;
        }
        refused += usize::from(said.contains("cannot serve") && said.contains("Too many open files"));
        assert!(!output.status.success(), "{limit}: {said}");
    }
    assert!(refused > 0);
}

#[test]
fn a_small_soft_limit_of_descriptors_is_raised() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -S -n 100; exec \"$0\" \"$@\"", PROGRAM, "serve"]);
    let mut serving = Serving::start_as(&mut command, dir.path()).expect("it serves");
    let mut clients: Vec<_> = (0..200).map(|_| serving.connect()).collect();
    clients.iter_mut().for_each(|client| say(client, "PING\r\n", "+PONG\r\n"));
    serving.signal("TERM");
    assert!(serving.process.wait().unwrap().success());
}

#[test]
fn the_network_is_chosen_and_told() {
    for (word, expected) in
        [("epoll", "sockets by epoll"), ("auto", "sockets by epoll"), ("ring", "sockets by io_uring")]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--port", "0", "--network", word, "--dir"]).arg(dir.path());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() && word == "ring" {
            let mut said = String::new();
            process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            assert!(said.contains("the kernel does not give io_uring"), "{said}");
            // Past the capture of what tests print: a skipped test must not be taken for a passed
            // one.
            let _ = writeln!(std::io::stderr(), "skipped: {said}");
            continue;
        }
        assert!(line.contains(expected), "{line}");
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let output = Command::new(PROGRAM).args(["serve", "--network", "pigeons"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("`pigeons` is none of auto, ring, epoll"), "{said}");
}
