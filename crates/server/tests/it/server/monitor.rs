use std::io::Write;
use std::time::{Duration, Instant};

use firn_protocol::resp::Value;

use super::super::client::{Client, Served, error, ok, request};
use super::super::reference::RedisServer;

/// The next line that is shown, without time and port; the database is told.
fn shown(client: &mut Client) -> String {
    let Some(Value::Simple(line)) = client.reply() else { panic!("a line") };
    let (front, command) = line.split_once("] ").expect("an address");
    let (time, origin) = front.split_once(" [").expect("a time");
    assert!(time.len() >= 17 && time.parse::<f64>().is_ok(), "{line}");
    let (database, address) = origin.split_once(' ').expect("a database");
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    format!("{database} {command}")
}

#[test]
fn every_command_of_every_thread_is_shown_as_by_redis() {
    let redis = RedisServer::start();
    let served = Served::start(2);
    let mut seen = Vec::new();
    for is_ours in [false, true] {
        let connect = || if is_ours { served.connect() } else { redis.connect() };
        let mut monitors: Vec<Client> = (0..2).map(|_| connect()).collect();
        monitors.iter_mut().for_each(|monitor| assert_eq!(monitor.say("MONITOR"), ok()));
        // On both server threads.
        let (mut first, mut second) = (connect(), connect());
        first.say("SET a b");
        second.call(&["SET", "a\"b", "\n\x01é\\"]);
        first.say("GET");
        first.say("NONSENSE");
        first.say("AUTH user secret");
        first.say("CONFIG GET hz");
        for request in ["SELECT 3", "MULTI", "GET a", "PING x", "EXEC", "INCR x"] {
            second.say(request);
        }
        first.say("ECHO end");
        let mut lines = Vec::new();
        for monitor in &mut monitors {
            let mut found = Vec::new();
            while found.last().is_none_or(|line: &String| !line.contains("end")) {
                found.push(shown(monitor));
            }
            lines.push(found);
        }
        assert_eq!(lines[0], lines[1]);
        seen.push(lines.remove(0));
        let refused = monitors[0].say("GET a");
        assert_eq!(refused, error("ERR Replica can't interact with the keyspace"));
    }
    // There are no passwords here yet: the request is refused before it is a command.
    seen[0].retain(|line| !line.contains("AUTH") || served_has_auth());
    assert_eq!(seen[1], seen[0]);
    assert_eq!(seen[1].len(), 9 + usize::from(served_has_auth()));
}

fn served_has_auth() -> bool {
    firn_protocol::command::find(b"auth").is_some_and(firn_protocol::command::Command::is_offered)
}

#[test]
fn who_does_not_read_is_cut_off() {
    let served = Served::start(2);
    let mut monitor = served.connect();
    assert_eq!(monitor.say("MONITOR"), ok());
    let mut client = served.connect();
    let ping = request(&["ECHO", &"x".repeat(100_000)]);
    let start = Instant::now();
    loop {
        client.stream.write_all(&ping).expect("it is sent");
        assert!(client.reply().is_some());
        // A monitor is counted until it is gone.
        if super::info::number(&mut client, "clients", "connected_clients") == 1 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "it is still there");
    }
    drop(monitor);
    // Plain commands are quick again, and another monitor sees them.
    let mut monitor = served.connect();
    assert_eq!(monitor.say("MONITOR"), ok());
    client.say("GET a");
    assert_eq!(shown(&mut monitor), "0 \"GET\" \"a\"");
}

#[test]
fn who_begins_again_is_shown_nothing() {
    let redis = RedisServer::start();
    let served = Served::start(2);
    for is_ours in [false, true] {
        let connect = || if is_ours { served.connect() } else { redis.connect() };
        // Numbered before the other one comes: two threads take them.
        let mut monitor = connect();
        assert_eq!(monitor.say("MONITOR"), ok());
        let mut other = connect();
        let Value::Bulk(list) = other.say("CLIENT LIST") else { panic!("a list") };
        let list = String::from_utf8(list).expect("text");
        let flags: Vec<&str> =
            list.lines().filter_map(|line| line.split("flags=").nth(1)?.split(' ').next()).collect();
        assert_eq!(flags, ["O", "N"]);
        assert_eq!(monitor.say("RESET"), Value::Simple("RESET".into()));
        other.say("ECHO unseen");
        assert_eq!(monitor.say("GET a"), Value::Null);
        assert_eq!(monitor.say("MONITOR"), ok());
        other.say("ECHO seen");
        assert_eq!(shown(&mut monitor), "0 \"ECHO\" \"seen\"");
    }
}
