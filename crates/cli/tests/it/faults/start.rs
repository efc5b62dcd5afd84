//! S16 to S19: what a start and signals do. Neighbours: SIGUSR1 and SIGUSR2, control planes and
//! workers, the port of HTTP, a database directory and a token file beside a password file.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use signal_hook::consts::SIGHUP;

use crate::program::text;

pub(super) const PROGRAM: &str = env!("CARGO_BIN_EXE_firn");

/// Has processes that this one starts begin with the default of SIGHUP, also where this one began
/// with it ignored, as what `nohup` starts does: `exec` passes on what is ignored, and resets what
/// is handled.
pub(super) fn hang_ups_reach_children() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = std::fs::read_to_string("/proc/self/status").expect("its own status");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("what is ignored");
        let mask = u64::from_str_radix(mask.trim(), 16).expect("a mask");
        if mask >> (SIGHUP - 1) & 1 == 1 {
            // It sets a flag that nothing reads, so that a hang-up still ends nothing here.
            signal_hook::flag::register(SIGHUP, Arc::default()).expect("a handler");
        }
    });
}

pub(super) fn signal_process(id: u32, name: &str) {
    let mut kill = Command::new("kill");
    let sent = kill.args(["-s", name, &id.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// A process that is ended with its test, and its first line.
pub(super) struct Started(pub(super) Child, pub(super) String);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Started {
    pub(super) fn new(limits: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new("sh");
        let script = format!("{limits} exec \"$0\" \"$@\"");
        command.args(["-c", &script, PROGRAM]).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("it is read");
        Self(child, line)
    }

    pub(super) fn signal(&self, name: &str) {
        signal_process(self.0.id(), name);
    }

    /// How it ends by itself; a process that does not is killed with its test.
    pub(super) fn ended(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("asked") {
                return status;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "it runs on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn connect(&self) -> TcpStream {
        let address = self.1.split(" on ").nth(1).and_then(|rest| rest.split(';').next());
        let stream = TcpStream::connect(address.expect("an address").replace("0.0.0.0", "127.0.0.1"));
        let stream = stream.expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        stream
    }

    /// Ends it; how, and what it said on standard error.
    pub(super) fn end(mut self) -> (Option<i32>, String) {
        self.signal("TERM");
        let mut said = String::new();
        self.0.stderr.take().expect("piped").read_to_string(&mut said).expect("it is read");
        (self.0.wait().expect("it ends").code(), said)
    }
}

/// `firn serve` in `dir` with `more` options.
pub(super) fn serve(limits: &str, dir: &Path, more: &[&str]) -> Started {
    let fixed = ["serve", "--memory-bytes", "64M", "--port", "0", "--threads", "2", "--dir", text(dir)];
    Started::new(limits, &[&fixed, more].concat())
}

/// What is answered to `request`.
fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut reply = vec![0; 64 << 10];
    let count = stream.read(&mut reply).expect("a reply");
    String::from_utf8_lossy(&reply[..count]).into_owned()
}

#[test]
fn s16_hang_ups_end_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let (db, socket) = (home.path().join("db"), home.path().join("socket"));
    let processes = [
        (serve("", &db, &[]), Some(0)),
        (Started::new("", &["control-plane", "--port", "0"]), Some(0)),
        // It ends by the signal: it keeps nothing.
        (Started::new("", &["worker", "--socket", text(&socket)]), None),
    ];
    for (process, code) in processes {
        for name in ["HUP", "USR1", "USR2"] {
            process.signal(name);
            std::thread::sleep(Duration::from_millis(100));
        }
        let (ended, said) = process.end();
        assert_eq!(ended, code, "{said}");
        for name in ["SIGHUP", "SIGUSR1", "SIGUSR2"] {
            assert!(said.contains(&format!("{name} is ignored")), "{name}: {said}");
        }
    }
}

#[test]
fn s16_a_second_signal_ends_what_takes_long() {
    let home = tempfile::tempdir().expect("a directory");
    // A store that takes connections and never answers: opening waits for it, and so does the end.
    let store = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let endpoint = format!("http://{}", store.local_addr().expect("an address"));
    for second in ["TERM", "INT"] {
        let mut command = Command::new(PROGRAM);
        command.args([
            "serve",
            "--port",
            "0",
            "--shared",
            "s3://bucket/db",
            "--dir",
            text(&home.path().join("db")),
        ]);
        command.envs([("AWS_ENDPOINT", endpoint.as_str()), ("AWS_REGION", "r"), ("AWS_ALLOW_HTTP", "true")]);
        command.envs([("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut process = Started(child, String::new());
        let _asked = store.accept().expect("the store is asked");
        process.signal("TERM");
        std::thread::sleep(Duration::from_millis(300));
        assert!(process.0.try_wait().expect("asked").is_none(), "it waits for the store");
        let begun = Instant::now();
        process.signal(second);
        assert_eq!(process.ended().code(), Some(1));
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}

#[test]
fn s17_clients_are_as_many_as_descriptors_allow() {
    let home = tempfile::tempdir().expect("a directory");
    let served =
        serve("ulimit -n 64 &&", &home.path().join("db"), &["--clients-max", "50000", "--http-port", "none"]);
    let first = &mut served.connect();
    let info = ask(first, "INFO clients\r\n");
    assert!(info.contains("maxclients:16\r\n") && info.contains("maxclients_at_start:50000"), "{info}");
    let refused = ask(first, "CONFIG SET maxclients 100\r\n");
    assert!(refused.starts_with("-ERR CONFIG SET failed") && refused.contains("for 16 clients"), "{refused}");
    let mut others: Vec<TcpStream> = (0..128).map(|_| served.connect()).collect();
    let mut served_count = 0;
    for stream in &mut others {
        let mut line = [0; 7];
        // Clients that are refused are told so at once; the connection of some is reset by then.
        let sent = stream.write_all(b"PING\r\n");
        if sent.is_ok() && stream.read_exact(&mut line).is_ok() && &line == b"+PONG\r\n" {
            served_count += 1;
        }
    }
    assert_eq!(served_count, 15);
    assert_eq!(ask(first, "SET k v\r\n"), "+OK\r\n");
    let (code, said) = served.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("clients_max_lowered wanted=50000 clients_max=16"), "{said}");
}

#[test]
fn s18_files_and_secrets_are_for_their_user_alone() {
    let home = tempfile::tempdir().expect("a directory");
    let (db, password) = (home.path().join("db"), home.path().join("password"));
    std::fs::write(&password, "word").expect("written");
    for (mode, is_reported) in [(0o644, true), (0o600, false), (0o640, false)] {
        std::fs::set_permissions(&password, PermissionsExt::from_mode(mode)).expect("set");
        let (code, said) = serve("umask 022 &&", &db, &["--password-file", text(&password)]).end();
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(said.contains("every user of this machine can read the password"), is_reported, "{said}");
    }
    let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&db), 0o700);
    for entry in std::fs::read_dir(&db).expect("listed") {
        let path = entry.expect("listed").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    // Tokens too.
    let token = ["control-plane", "--port", "0", "--token-file", text(&password)];
    std::fs::set_permissions(&password, PermissionsExt::from_mode(0o644)).expect("set");
    let (_, said) = Started::new("", &token).end();
    assert!(said.contains("every user of this machine can read the token"), "{said}");
}

#[test]
fn s19_a_port_in_use_leaves_no_directory() {
    let home = tempfile::tempdir().expect("a directory");
    let db = home.path().join("db");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = taken.local_addr().expect("an address").port().to_string();
    for ports in [["--port", &port, "--http-port", "0"], ["--port", "0", "--http-port", &port]] {
        let answer = crate::program::firn(&[&["serve", "--dir", text(&db)], &ports[..]].concat());
        answer.complained(1, &["cannot serve: 127.0.0.1", &port, "--http-port"]);
        assert!(!db.exists(), "{ports:?}");
    }
}

#[test]
fn s19_a_server_open_to_all_warns() {
    let home = tempfile::tempdir().expect("a directory");
    let open = ["--bind", "0.0.0.0", "--protected-mode", "no"];
    for (options, is_reported) in [(&open[..], true), (&open[..2], false), (&open[2..], false)] {
        let (_, said) = serve("", &home.path().join("db"), options).end();
        assert_eq!(said.contains("open_to_all"), is_reported, "{options:?}: {said}");
    }
}
