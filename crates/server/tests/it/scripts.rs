use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firn_protocol::resp::Value;
use firn_server::ServeSettings;

use super::client::{Client, IS_ORDERED, Served, bulk, error, leave_out, ok, request};

fn numbers(reply: Value) -> Vec<i64> {
    let Value::Array(values) = reply else { panic!("{reply:?}") };
    let number = |value: &Value| match value {
        Value::Bulk(digits) => String::from_utf8_lossy(digits).parse::<i64>().expect("a number"),
        other => panic!("{other:?}"),
    };
    values.iter().map(number).collect()
}

/// Moves one from one account to another, with work in between so that others come to run.
const DECLARED: &str = "local n = redis.call('decr', KEYS[1]) for i = 1, 300 do redis.call('get', KEYS[2]) end \
                        redis.call('incr', KEYS[2]) return n";
const UNDECLARED: &str = "redis.call('incr', ARGV[1]) for i = 1, 300 do redis.call('get', 'b') end \
                          redis.call('decr', ARGV[2]) return redis.call('incr', 'moves')";

/// Scripts that name their keys, scripts that do not, transactions and plain commands over the same
/// accounts. A client that reads them together always finds the same sum, and nothing is done
/// twice.
#[test]
fn scripts_of_many_connections_do_not_mix() {
    let served = Served::start(2);
    served.connect().say("MSET a 1000 b 1000 c 1000 moves 0");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..6)
            .map(|index| {
                let served = &served;
                scope.spawn(move || {
                    let mut client = served.connect();
                    let names = ["a", "b", "c", "a"];
                    let (from, to) = (names[index % 3], names[index % 3 + 1]);
                    for round in 0..60 {
                        let reply = match (index + round) % 4 {
                            0 | 1 => client.call(&["EVAL", DECLARED, "2", from, to]),
                            2 => client.call(&["EVAL", UNDECLARED, "0", from, to]),
                            _ => {
                                client.say("MULTI");
                                client.say(&format!("INCR {from}"));
                                client.call(&["EVAL", "return redis.call('decr', ARGV[1])", "0", to]);
                                client.say("INCR moves");
                                client.say("EXEC")
                            }
                        };
                        assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut client = served.connect();
            while !is_over.load(Ordering::Acquire) {
                assert_eq!(numbers(client.say("MGET a b c")).iter().sum::<i64>(), 3000);
                let read = ["EVAL_RO", "return redis.call('mget', 'a', 'b', 'c')", "0"];
                assert_eq!(numbers(client.call(&read)).iter().sum::<i64>(), 3000);
            }
        });
        workers.into_iter().for_each(|worker| worker.join().expect("it ends"));
        is_over.store(true, Ordering::Release);
    });
    let mut client = served.connect();
    assert_eq!(numbers(client.say("MGET a b c")).iter().sum::<i64>(), 3000);
    assert_eq!(client.say("GET moves"), bulk("180"), "each of the others moved once");
}

/// A script that is begun again has not published before, and SELECT in it changes nothing outside.
#[test]
fn to_begin_again_is_seen_by_nobody() {
    let served = Served::start(1);
    let (client, listener) = (&mut served.connect(), &mut served.connect());
    listener.say("SUBSCRIBE news");
    let script = "redis.call('publish', 'news', 'once') redis.call('select', 2) redis.call('set', KEYS[1], 'x') \
                  redis.call('append', 'undeclared', 'x') return redis.call('get', 'undeclared')";
    assert_eq!(client.call(&["EVAL", script, "1", "k"]), bulk("x"));
    assert_eq!(client.say("DBSIZE"), Value::Integer(0));
    client.say("SELECT 2");
    assert_eq!(client.say("MGET k undeclared"), Value::Array(vec![bulk("x"), bulk("x")]));
    client.say("PUBLISH news end");
    for expected in ["once", "end"] {
        let message = vec![bulk("message"), bulk("news"), bulk(expected)];
        let (Some(Value::Array(found)) | Some(Value::Push(found))) = listener.reply() else {
            panic!("a message comes")
        };
        assert_eq!(found, message);
    }
    // Not even what catches every error sees it.
    let script = "local ok = pcall(function() redis.call('set', 'u1', 1) end) redis.call('incr', 'count') \
                  return tostring(ok) .. redis.call('get', 'count')";
    assert_eq!(client.call(&["EVAL", script, "0"]), bulk("true1"));
    let watched = "return redis.call('incr', 'w')";
    client.say("WATCH w");
    client.say("MULTI");
    client.call(&["EVAL", watched, "0"]);
    assert_eq!(client.say("EXEC"), Value::Array(vec![Value::Integer(1)]));
}

/// Ends what goes on for ever, from a connection of the same server thread and of another.
#[test]
fn script_kill_ends_a_script() {
    for threads in [1, 2] {
        let served = Served::start(threads);
        for script in [
            "redis.call('set', KEYS[1], 'lost') while true do end",
            "while true do pcall(function() while true do end end) end",
            "while true do redis.call('incr', KEYS[1]) end",
            "while true do pcall(redis.call, 'incr', KEYS[1]) end",
            "local f = coroutine.wrap(function() while true do end end) f()",
            "local function f() pcall(f) end while true do f() end",
        ] {
            std::thread::scope(|scope| {
                let running = scope.spawn(|| served.connect().call(&["EVAL", script, "1", "k"]));
                let mut client = served.connect();
                let until = Instant::now() + Duration::from_secs(20);
                while client.say("SCRIPT KILL") != Value::Simple("OK".into()) {
                    assert!(Instant::now() < until, "{script} cannot be killed");
                    std::thread::sleep(Duration::from_millis(5));
                }
                let reply = running.join().expect("it ends");
                assert_eq!(reply, error("ERR Script killed by user with SCRIPT KILL..."), "{script}");
            });
            let mut client = served.connect();
            assert_eq!(client.say("GET k"), Value::Null, "nothing of it is written: {script}");
            assert_eq!(client.say("SCRIPT KILL"), error("NOTBUSY No scripts in execution right now."));
            assert_eq!(client.call(&["EVAL", "return 1", "0"]), Value::Integer(1));
        }
    }
}

/// While a script computes, the connections of its own server thread have their turns.
#[test]
fn a_long_script_starves_nobody() {
    let served = Served::start(1);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let script = "local n = 0 for i = 1, 30000000 do n = n + i % 3 end return n";
            served.connect().call(&["EVAL", script, "0"])
        });
        let mut client = served.connect();
        let mut count = 0;
        while !running.is_finished() {
            client.say("SET k v");
            count += 1;
        }
        assert_eq!(running.join().expect("it ends"), Value::Integer(30_000_000));
        assert!(count > 20, "only {count} commands ran beside it");
    });
}

/// Where Lua cannot suspend a script, commands that walk far do all of it at once.
#[test]
fn a_script_that_cannot_be_suspended_walks_far() {
    if !IS_ORDERED {
        return leave_out("a_script_that_cannot_be_suspended_walks_far");
    }
    let served = Served::start(1);
    let client = &mut served.connect();
    let fill = "for i = 1, 3000 do redis.call('rpush', 'list', i) redis.call('set', 'k' .. i, i) end";
    client.call(&["EVAL", fill, "0"]);
    client.call(&["SET", "text", &"ab".repeat(2000)]);
    for (script, expected) in [
        (
            "local n = 0 ('x'):gsub('x', function() n = #redis.call('lrange', 'list', 0, -1) end) return n",
            3000,
        ),
        (
            "local n = 0 table.sort({2, 1}, function(a, b) n = #redis.call('keys', 'k*') return a < b end) return n",
            3000,
        ),
        (
            "local t = setmetatable({}, {__index = function() return redis.call('lcs', 'text', 'text', 'len') end}) \
          return t.x",
            4000,
        ),
        (
            "local n = 0 ('x'):gsub('x', function() redis.call('ltrim', 'list', 2900, -1) \
          n = redis.call('llen', 'list') end) return n",
            100,
        ),
    ] {
        assert_eq!(client.call(&["EVAL", script, "0"]), Value::Integer(expected), "{script}");
    }
}

/// A command that waits for a lock, or for anything else, when a server ends is forgotten as a
/// whole.
#[test]
fn who_waits_for_a_script_ends_with_the_server() {
    let served = Served::start(1);
    let (mut running, mut waiting) = (served.connect(), served.connect());
    running.stream.write_all(&request(&["EVAL", "while true do end", "1", "k"])).unwrap();
    let start = Instant::now();
    loop {
        waiting.stream.write_all(&request(&["APPEND", "k", "v"])).unwrap();
        waiting.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        if waiting.stream.peek(&mut [0]).is_err() {
            break;
        }
        waiting.reply();
        assert!(start.elapsed() < Duration::from_secs(20), "it does not run");
    }
    served.server.stop().unwrap();
}

const STUCK: &str = "redis.call('set', 'k', 'lost') \
                     return setmetatable({}, {__index = function() while true do end end}).x";

/// Such a script ends with an error after a while, also if it is the only server thread's.
#[test]
fn a_script_that_cannot_be_suspended_ends() {
    let settings = ServeSettings { script_in_place_ms_max: 200, ..ServeSettings::default() };
    let served = Served::with(settings);
    let client = &mut served.connect();
    for script in [
        STUCK,
        "return setmetatable({}, {__add = function() while true do pcall(function() while true do end end) end end}) + 1",
        "return tostring(setmetatable({}, {__tostring = function() while true do redis.call('incr', 'k') end end}))",
    ] {
        let Value::Error(line) = client.call(&["EVAL", script, "0"]) else {
            panic!("{script} has ended well")
        };
        assert!(line.starts_with("ERR the script ran too long inside of a metamethod"), "{script}: {line}");
    }
    assert_eq!(client.say("GET k"), Value::Null);
}

#[test]
fn a_script_that_cannot_be_suspended_is_killed_by_another_thread() {
    let served = Served::start(2);
    // One at each server thread.
    let mut clients = [served.connect(), served.connect()];
    clients.iter_mut().for_each(|client| drop(client.say("PING")));
    let [running, killer] = &mut clients;
    running.stream.write_all(&request(&["EVAL", STUCK, "0"])).unwrap();
    let start = Instant::now();
    while killer.say("SCRIPT KILL") != Value::Simple("OK".into()) {
        assert!(start.elapsed() < Duration::from_secs(4), "it cannot be killed");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(running.reply(), Some(error("ERR Script killed by user with SCRIPT KILL...")));
    assert_eq!(running.say("GET k"), Value::Null);
}

/// A client that is told that a script was killed can rely on it. So it is also if the script was
/// about to end or to begin again.
#[test]
fn a_script_that_was_killed_has_done_nothing() {
    // Each is asked once, and then not for a while.
    for (script, otherwise) in [
        ("redis.call('set', KEYS[1], 'lost') for i = 1, 180000 do end return 1", Value::Integer(1)),
        (
            "for i = 1, 180000 do end redis.call('set', 'o' .. 'ther', 'lost') for i = 1, 180000 do end return 1",
            Value::Integer(1),
        ),
    ] {
        let served = Served::start(2);
        // One at each server thread.
        let mut clients = [served.connect(), served.connect()];
        clients.iter_mut().for_each(|client| drop(client.say("PING")));
        let [running, killer] = &mut clients;
        let (start, mut killed) = (Instant::now(), 0);
        while killed < 20 {
            assert!(start.elapsed() < Duration::from_secs(60), "{killed} killed: {script}");
            let count = std::thread::scope(|scope| {
                let running = scope.spawn(|| running.call(&["EVAL", script, "1", "k"]));
                let mut count = 0;
                while !running.is_finished() {
                    count += usize::from(killer.say("SCRIPT KILL") == Value::Simple("OK".into()));
                }
                let expected = match count {
                    0 => otherwise.clone(),
                    _ => error("ERR Script killed by user with SCRIPT KILL..."),
                };
                assert_eq!(running.join().expect("it ends"), expected, "{script}");
                count
            });
            if count > 0 {
                assert_eq!(
                    killer.call(&["MGET", "k", "other"]),
                    Value::Array(vec![Value::Null; 2]),
                    "{script}"
                );
            }
            killer.call(&["DEL", "k", "other"]);
            killed += count;
        }
    }
}

#[test]
fn a_script_that_cannot_be_suspended_ends_with_the_server() {
    let settings = ServeSettings { script_in_place_ms_max: 600_000, ..ServeSettings::default() };
    let served = Served::with(settings);
    let (mut running, mut other) = (served.connect(), served.connect());
    running.stream.write_all(&request(&["EVAL", STUCK, "0"])).unwrap();
    other.stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let is_stuck = |other: &mut Client| {
        other.stream.write_all(&request(&["PING"])).unwrap();
        other.stream.peek(&mut [0]).is_err()
    };
    let start = Instant::now();
    while !is_stuck(&mut other) {
        other.reply();
        assert!(start.elapsed() < Duration::from_secs(20), "it does not run");
    }
    served.server.stop().unwrap();
}

fn eval(client: &mut Client, script: &str) -> Value {
    client.call(&["EVAL", script, "0"])
}

/// What would exhaust memory or the stack ends with an error, and the server goes on.
#[test]
fn a_script_that_takes_too_much_ends_alone() {
    let served = Served::start(1);
    let client = &mut served.connect();
    for script in [
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000000) .. #t end",
        "return ('x'):rep(1000000000)",
        "local function f() return 1 + f() end return f()",
        "local function f() local ok, e = pcall(f) if not ok then error(e, 0) end return 1 end return f()",
        "local function f() return coroutine.wrap(f)() end return f()",
        "local t = {} for i = 1, 100000 do t = {t} end return cjson.encode(t)",
        "return cjson.decode(('['):rep(100000))",
        "local a = {} for i = 1, 40 do a = {a, a} end return cjson.encode(a)",
        "local a = {} for i = 1, 40 do a = {a, a} end return a",
        "local a = {} for i = 1, 200 do a[i] = i end for i = 1, 15 do local b = {} for j = 1, 9 do b[j] = a end a = b end \
         return cmsgpack.pack(a)",
        "cjson.encode_sparse_array(true, 0) return cjson.encode({[1e15] = 1})",
        "local s = ('x'):rep(1000) return string.format('%99999d', 1)",
        "return table.concat({}, 'x', 1, 1e9)",
        "error(setmetatable({}, {__tostring = function() error('x') end}))",
        "error({foo = 1})",
        "error({err = {}})",
    ] {
        let reply = eval(client, script);
        assert!(matches!(&reply, Value::Error(_)), "{script}: {reply:?}");
        assert_eq!(eval(client, "return 7"), Value::Integer(7), "{script}");
    }
    // Deeper than any client reads; its connection is not used again.
    let deep = ["EVAL", "local a = {} a[1] = a return a", "0"];
    served.connect().stream.write_all(&request(&deep)).expect("it is sent");
    assert_eq!(eval(client, "return 7"), Value::Integer(7));
}

/// What one script leaves is not there for the next.
#[test]
fn nothing_stays_from_script_to_script() {
    let served = Served::start(1);
    let client = &mut served.connect();
    for script in [
        "redis.leak = 1",
        "leak = 1",
        "rawset(redis, 'leak', 1)",
        "table.insert(redis, 1)",
        "table.insert(string, 1, 'leak')",
        "getmetatable('').leak = 1",
        "local _, t = pairs(redis) t.leak = 1 t.call = nil",
        "string.leak = 1",
        "loadstring('leak = 1')()",
        "setfenv(1, {})",
        "return debug",
        "return require('os')",
        "return io.open('/etc/passwd')",
        "collectgarbage('stop') KEYS.leak = 1",
    ] {
        eval(client, script);
    }
    let script = "return {tostring(redis.leak), tostring(rawget(_G, 'leak')), tostring(KEYS.leak), \
                  tostring(('').leak), tostring(redis[1]), tostring(string[1]), type(redis.call), tostring(rawget(_G, 'os')), tostring(rawget(_G, 'debug'))}";
    let expected = ["nil", "nil", "nil", "nil", "nil", "nil", "function", "nil", "nil"];
    assert_eq!(eval(client, script), Value::Array(expected.map(bulk).to_vec()));
}

/// A script that touches what it has not named has its transaction begin again, which no client may
/// see.
#[test]
fn what_goes_beyond_a_transaction_is_done_once() {
    let served = Served::start(2);
    let client = &mut served.connect();
    let unnamed = ["EVAL", "return redis.call('INCR', 'unnamed')", "0"];
    for number in 1..=20 {
        assert_eq!(client.say("ACL SETUSER bob on"), ok());
        client.say("MULTI");
        client.say("ACL DELUSER bob");
        client.call(&unnamed);
        client.say("ACL DELUSER bob");
        let expected = vec![Value::Integer(1), Value::Integer(number), Value::Integer(0)];
        assert_eq!(client.say("EXEC"), Value::Array(expected));
    }
    // A user that gives up a right at the end had it until then.
    assert_eq!(client.say("ACL SETUSER alice on nopass +@all ~*"), ok());
    let mut alice = served.connect();
    alice.say("AUTH alice x");
    alice.say("MULTI");
    alice.call(&unnamed);
    alice.say("ACL SETUSER alice -eval");
    assert_eq!(alice.say("EXEC"), Value::Array(vec![Value::Integer(21), ok()]));
}

#[test]
fn a_long_number_is_read_once() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let start = Instant::now();
    let script = "local n = cjson.decode('[' .. ('1'):rep(300000) .. ']')[1] return tostring(n == 1/0)";
    assert_eq!(eval(client, script), bulk("true"));
    assert!(start.elapsed() < Duration::from_secs(5), "it took {:?}", start.elapsed());
}

/// What INFO says of `name`.
fn info(client: &mut Client, name: &str) -> String {
    let Value::Bulk(text) = client.say("INFO everything") else { panic!("a text") };
    let text = String::from_utf8(text).expect("a text");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("it is told").to_owned()
}

#[test]
fn scripts_of_eval_make_room_for_others_and_loaded_ones_stay() {
    let served = Served::start(2);
    let client = &mut served.connect();
    let known = |client: &mut Client, sums: &[&str]| {
        let words = ["SCRIPT", "EXISTS"].into_iter().chain(sums.iter().copied());
        let Value::Array(known) = client.call(&words.collect::<Vec<_>>()) else { panic!("an array") };
        known.iter().map(|known| *known == Value::Integer(1)).collect::<Vec<_>>()
    };
    let Value::Bulk(loaded) = client.call(&["SCRIPT", "LOAD", "return 'loaded'"]) else { panic!("a sum") };
    let loaded = String::from_utf8(loaded).expect("digits");
    // The sums of `return 'used'` and `return 'once'`.
    let (used, once) =
        ("a3f24c150305f97cfc8b67d23509884eee5aeecc", "d4f1d262a5b180fa757e5a401af891a24ed2979e");
    client.call(&["EVAL", "return 'used'", "0"]);
    client.call(&["EVAL", "return 'once'", "0"]);
    for number in 0..499 {
        client.call(&["EVAL", &format!("return {number}"), "0"]);
        assert_eq!(client.call(&["EVALSHA", used, "0"]), bulk("used"));
    }
    assert_eq!(known(client, &[&loaded, used, once]), [true, true, false]);
    assert_eq!(info(client, "evicted_scripts"), "1");
    assert_eq!(info(client, "number_of_cached_scripts"), "501");
    let bytes = info(client, "used_memory_scripts").parse::<u64>().expect("a number");
    assert!((20_000..200_000).contains(&bytes), "{bytes}");
    assert_eq!(client.call(&["EVALSHA", once, "0"]), error("NOSCRIPT No matching script. Please use EVAL."));
    assert_eq!(client.call(&["EVALSHA", &loaded, "0"]), bulk("loaded"));
    // What was loaded has a limit of its own.
    let blanks = " ".repeat(13_000_000);
    let load = |number: usize| ["SCRIPT".to_owned(), "LOAD".to_owned(), format!("return {number}{blanks}")];
    let replies: Vec<Value> = (0..6).map(|number| client.call(&load(number))).collect();
    let refused = |reply: &Value| matches!(reply, Value::Error(text) if text.contains("SCRIPT FLUSH"));
    assert_eq!(replies.iter().map(refused).collect::<Vec<_>>(), [false, false, false, false, false, true]);
    assert_eq!(known(client, &[&loaded, used]), [true, true]);
    assert_eq!(client.say("SCRIPT FLUSH"), ok());
    assert_eq!(known(client, &[&loaded, used]), [false, false]);
    assert_eq!(
        (info(client, "number_of_cached_scripts"), info(client, "used_memory_scripts")),
        ("0".into(), "0".into())
    );
    assert!(!refused(&client.call(&load(9))));
}
