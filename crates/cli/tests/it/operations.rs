//! What an operator does with `firn serve`: settings, logs, backups.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::program::{firn, text};
use crate::serve::Serving;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firn");

/// Says `request`, and reads as many bytes as `reply` has.
#[track_caller]
fn say(address: &str, request: &str, reply: &str) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut found = vec![0; reply.len()];
    stream.read_exact(&mut found).expect("a reply");
    assert_eq!(String::from_utf8_lossy(&found), reply);
}

#[test]
fn settings_come_from_a_file_and_the_environment_and_events_are_logged() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("firn.toml");
    std::fs::write(
        &file,
        "[tree]\nblock_bytes = \"8 KiB\"\n[serve]\nclients_max = 1\nlog_format = \"text\"\n",
    )
    .unwrap();
    let environment = |command: &mut Command| {
        command.env("FIRN_SERVE_HTTP_PORT", "0").env("FIRN_SERVE_LOG_FORMAT", "json");
    };
    let mut command = Command::new(PROGRAM);
    command.args(["config", "--serve", "--config", text(&file)]);
    environment(&mut command);
    let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
    for (start, end) in
        [("block_bytes", "# file"), ("http_port = 0", "# environment"), ("port = 6379", "# default")]
    {
        assert!(printed.lines().any(|line| line.starts_with(start) && line.ends_with(end)), "{printed}");
    }

    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--config", text(&file)]).stderr(Stdio::piped());
    environment(&mut command);
    let mut serving = Serving::start_as(&mut command, &dir.path().join("data")).unwrap();
    assert!(serving.http.is_some());
    let mut first = TcpStream::connect(&serving.address).unwrap();
    first.write_all(b"CONFIG SET slowlog-log-slower-than 0\r\nPING\r\n").unwrap();
    first.read_exact(&mut [0; 12]).unwrap();
    say(&serving.address, "", "-ERR max number of clients reached\r\n");
    serving.signal("TERM");
    assert!(serving.process.wait().unwrap().success());
    let mut logged = String::new();
    serving.process.stderr.take().unwrap().read_to_string(&mut logged).unwrap();
    let lines: Vec<serde_json::Value> =
        logged.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert!(events.contains(&"slow_command"), "{logged}");
    let is_slow = |event: &&str| event.starts_with("slow_command");
    let others: Vec<&str> = events.iter().copied().filter(|event| !is_slow(event)).collect();
    assert_eq!(others, ["started", "connection_refused", "stopping", "stopped"], "{logged}");
    assert_eq!(lines[0]["address"], serving.address.as_str());
    let refused = lines.iter().find(|line| line["event"] == "connection_refused").unwrap();
    assert_eq!((&refused["level"], &refused["why"]), (&"warn".into(), &"too many clients".into()));

    let mut command = Command::new(PROGRAM);
    let refused = command.arg("serve").env("FIRN_SERVE_PROT", "1").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr)
            .contains("no FIRN_SERVE_PROT: did you mean FIRN_SERVE_PORT?")
    );
}
/// One server, one writer that counts up, and backups meanwhile: each holds at least what was
/// acknowledged when it was asked for, and no gap.
#[test]
fn a_backup_under_load_is_restored_whole() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (folder, restored) = (at("backups"), at("restored"));
    let serving = Serving::start_with(&["--http-port", "0", "--backup-dir", text(&folder)], &at("data"));
    let http = serving.http.clone().unwrap();
    let acknowledged = AtomicU64::new(0);
    let before = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut stream = TcpStream::connect(&serving.address).expect("a connection");
            for number in 1_u64.. {
                let request = format!("SET key:{number} {number}\r\nHSET all f{number} {number}\r\n");
                if stream.write_all(request.as_bytes()).and_then(|()| stream.read_exact(&mut [0; 9])).is_err()
                {
                    return;
                }
                acknowledged.store(number, Ordering::Release);
            }
        });
        while acknowledged.load(Ordering::Acquire) < 2000 {
            std::thread::yield_now();
        }
        let before = acknowledged.load(Ordering::Acquire);
        let said = firn(&["backup", "--server", &http, "--to", "first"]).ended(0);
        assert!(said.contains("backups/first holds all writes to "), "{said}");
        firn(&["backup", "--server", &http, "--to", "first"]).complained(1, &["first exists"]);
        firn(&["backup", "--server", &http, "--to", "../outside"]).complained(1, &["right in", "say a name"]);
        firn(&["backup", "--server", &http, "--to", ".hidden"]).complained(1, &["say a name"]);
        firn(&["backup", "--dir", text(&at("data")), "--to", text(&at("x"))]).complained(5, &["data"]);
        serving.signal("KILL");
        writer.join().expect("it ends");
        before
    });
    let names: Vec<_> =
        std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["first"], "nothing else is left");
    let said = firn(&["restore", "--from", text(&folder.join("first")), "--dir", text(&restored)]).ended(0);
    assert!(said.contains("restored holds what"), "{said}");
    firn(&["restore", "--from", text(&folder.join("first")), "--dir", text(&restored)])
        .complained(1, &["is not empty"]);
    assert!(!at(".restored.restoring").exists());

    let serving = Serving::start(&restored);
    let mut stream = TcpStream::connect(&serving.address).unwrap();
    stream.write_all(b"HLEN all\r\nDBSIZE\r\n").unwrap();
    let mut reply = String::new();
    while reply.matches('\n').count() < 2 {
        let mut piece = [0; 64];
        let count = stream.read(&mut piece).unwrap();
        reply.push_str(std::str::from_utf8(&piece[..count]).unwrap());
    }
    let numbers: Vec<u64> = reply.lines().map(|line| line[1..].parse().unwrap()).collect();
    let (fields, strings) = (numbers[0], numbers[1] - 1);
    assert!(fields >= before && strings >= fields && strings <= fields + 1, "{before}: {fields}, {strings}");
    say(&serving.address, &format!("GET key:{strings}\r\n"), &bulk(strings));
    say(&serving.address, &format!("GET key:{}\r\n", strings + 1), "$-1\r\n");
    say(&serving.address, &format!("HGET all f{fields}\r\n"), &bulk(fields));
    serving.end();
}

fn bulk(number: u64) -> String {
    let text = number.to_string();
    format!("${}\r\n{text}\r\n", text.len())
}

#[test]
fn a_database_that_is_not_open_is_backed_up_and_damage_is_not_restored() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (data, backup, restored) = (at("data"), at("backup"), at("restored"));
    firn(&["put", "--create", "--dir", text(&data), "key", "value"]).ended(0);
    firn(&["backup", "--dir", text(&data), "--to", text(&backup)]).ended(0);
    firn(&["put", "--dir", text(&data), "key", "changed"]).ended(0);
    std::fs::create_dir(&restored).unwrap();
    firn(&["restore", "--from", text(&backup), "--dir", text(&restored)]).ended(0);
    assert_eq!(firn(&["get", "--dir", text(&restored), "key"]).ended(0), "value\n");
    firn(&["backup", "--dir", text(&at("nothing")), "--to", text(&at("x"))])
        .complained(1, &["does not exist"]);
    firn(&["backup", "--server", "127.0.0.1:1", "--to", "x"]).complained(1, &["no answer"]);
    firn(&["backup", "--to", "x"]).complained(1, &["firn-data does not exist"]);

    // One byte in the middle of a file.
    let file = std::fs::read_dir(&backup).unwrap().flatten().map(|entry| entry.path());
    let manifest = file.filter(|path| path.to_string_lossy().contains("manifest")).min().expect("a manifest");
    let mut bytes = std::fs::read(&manifest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&manifest, bytes).unwrap();
    let other = at("other");
    let answer = firn(&["restore", "--from", text(&backup), "--dir", text(&other)]);
    assert_eq!(answer.code, 3, "{answer:?}");
    assert!(!other.exists() && !at(".other.restoring").exists());
}

#[test]
fn a_page_in_a_browser_cannot_ask_for_a_backup() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("backups");
    let ask = |http: &str, head: &str| {
        let address = http.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let request = format!("POST /backup?to=x HTTP/1.1\r\n{}\r\n\r\n", head.replace("HERE", address));
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer[9..12].parse::<u16>().unwrap()
    };
    let serving =
        Serving::start_with(&["--http-port", "0", "--backup-dir", text(&folder)], &dir.path().join("a"));
    let http = serving.http.clone().unwrap();
    assert_eq!(ask(&http, "Host: HERE"), 403);
    assert_eq!(ask(&http, "X-Firn: 1"), 403);
    assert_eq!(ask(&http, "Host: evil.example:80\r\nX-Firn: 1"), 403);
    assert!(!folder.exists());
    assert_eq!(ask(&http, "Host: HERE\r\nX-Firn: 1"), 200);
    assert!(folder.join("x").is_dir());
    serving.end();
    let serving = Serving::start_with(&["--http-port", "0"], &dir.path().join("b"));
    assert_eq!(ask(&serving.http.clone().unwrap(), "Host: HERE\r\nX-Firn: 1"), 403);
    serving.end();
}

/// Processors that the server's workers may run on, each as the system writes them.
fn processors_of_server_threads(serving: &Serving) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", serving.process.id())).expect("its threads");
    let status = tasks.map(|task| {
        let path = task.expect("a thread").path().join("status");
        std::fs::read_to_string(path).expect("what the system knows of a thread")
    });
    let threads = status.filter(|status| status.starts_with("Name:\tfirn-server-"));
    let allowed = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
        line.expect("the processors of a thread").to_owned()
    };
    threads.map(allowed).collect()
}

/// How many processors this process, and so the server that it starts, may run on.
fn processor_count() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").expect("what the system knows of this process");
    let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:\t")).expect("its processors");
    mask.split(',').map(|word| u32::from_str_radix(word, 16).expect("hex digits").count_ones()).sum()
}

#[test]
fn limits_and_places_of_server_threads_are_settings() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("firn.toml");
    std::fs::write(&file, "[serve]\nargument_bytes_max = \"4 KiB\"\npin_threads = true\n").unwrap();
    let start = |data: &str, options: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--config", text(&file), "--log-level", "error"]).args(options);
        Serving::start_as(&mut command, &dir.path().join(data)).unwrap()
    };
    let serving = start("pinned", &[]);
    let longest = format!("$4096\r\n{}\r\n", "x".repeat(4096));
    say(&serving.address, &format!("*2\r\n$4\r\nECHO\r\n{longest}"), &longest);
    say(&serving.address, "*2\r\n$4\r\nECHO\r\n$4097\r\n", "-ERR Protocol error: invalid bulk length\r\n");
    let mut places = processors_of_server_threads(&serving);
    places.sort();
    places.dedup();
    // The server has two threads of its own.
    assert_eq!(places.len(), if processor_count() == 2 { 2 } else { 1 }, "{places:?}");
    drop(serving);
    let serving = start("free", &["--pin-threads", "no"]);
    // Connections go to them in turn, and a thread has its name once it runs.
    for _ in 0..2 {
        say(&serving.address, "PING\r\n", "+PONG\r\n");
    }
    let free = processors_of_server_threads(&serving);
    assert_eq!(free.len(), 2);
    assert!(free.windows(2).all(|pair| pair[0] == pair[1]), "{free:?}");
}

#[test]
fn limits_that_let_nothing_through_are_refused() {
    for (option, value, why) in [
        ("--request-bytes-max", "0", "lets nothing through"),
        ("--argument-bytes-max", "0 KiB", "lets nothing through"),
        ("--clients-max", "0", "at least 1"),
        ("--keepalive-s", "32768", "32767"),
    ] {
        let refused =
            Command::new(PROGRAM).args(["serve", "--dir", "nowhere", option, value]).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(option) && said.contains(why), "{said}");
    }
    // As much as there can be is no limit.
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--log-level", "error", "--keepalive-s", "32767"]);
    for limit in ["--request-bytes-max", "--argument-bytes-max", "--output-bytes-max", "--clients-max"] {
        command.args([limit, "18446744073709551615"]);
    }
    let serving = Serving::start_as(&mut command, &dir.path().join("data")).unwrap();
    say(&serving.address, "MULTI\r\nPING\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
    let keepalive = "*2\r\n$13\r\ntcp-keepalive\r\n$5\r\n32767\r\n";
    say(&serving.address, "CONFIG GET tcp-keepalive\r\n", keepalive);
}
