//! S5: one script makes the server hold gigabytes outside of Lua: a command's argument 3 000 times, `cmsgpack.unpack` of 60 MB,
//! `struct.pack` of 2 000 long strings, 3 000 messages. Neighbours: what it writes, replies of commands, `gsub`, `rep`, `cjson`,
//! several scripts at the same time.

use firn_protocol::resp::Value;

use super::super::client::{Client, Served};

/// The most memory that this process had, in bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is told");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") * 1024
}

#[track_caller]
fn is_refused(client: &mut Client, script: &str) {
    let reply = client.call(&["EVAL", script, "0"]);
    let reasons = [
        "a script may take",
        "too large",
        "too many results",
        "too long",
        "not enough memory",
        "more than the script may",
        "replies beyond",
    ];
    let is_reason = |line: &String| reasons.iter().any(|reason| line.contains(reason));
    assert!(matches!(&reply, Value::Error(line) if is_reason(line)), "{script}: {reply:?}");
    assert_eq!(client.call(&["EVAL", "return 7", "0"]), Value::Integer(7), "{script}");
}

#[test]
fn s5_a_script_has_one_budget() {
    let served = Served::start(1);
    let client = &mut served.connect();
    // A message for nobody takes nothing.
    let mut subscriber = served.connect();
    subscriber.say("SUBSCRIBE c");
    let before = peak_bytes();
    for script in [
        "local s = ('x'):rep(2^20) local t = {} for i = 1, 3000 do t[i] = s end return redis.call('exists', unpack(t))",
        "return cmsgpack.unpack(('\\192'):rep(60 * 2^20))",
        "local s = ('x'):rep(2^20) local t = {} for i = 1, 2000 do t[i] = s end return struct.pack(('s'):rep(2000), unpack(t))",
        "local s = ('x'):rep(2^20) for i = 1, 3000 do redis.call('publish', 'c', s) end",
    ] {
        is_refused(client, script);
    }
    let grown = peak_bytes().saturating_sub(before);
    // Others' tests may run in this process: a script by itself had taken gigabytes.
    assert!(grown < 1500 << 20, "{} MiB more", grown >> 20);
}

#[test]
#[ignore = "long form: cargo x faults"]
fn s5_a_script_has_one_budget_long() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let before = peak_bytes();
    for script in [
        "local s = ('x'):rep(2^20) for i = 1, 3000 do redis.call('set', 'k' .. i, s) end",
        "local s = ('x'):rep(2^20) for i = 1, 3000 do redis.pcall('rpush', 'l', s) end \
         local r = redis.pcall('rpush', 'l', s) if r.err then error(r.err) end",
        "local s = ('x'):rep(2^20) return s:gsub('x', ('y'):rep(1000))",
        "local s = ('x'):rep(2^20) return s:gsub('x', function() return s end)",
        "return ('x'):rep(2^28)",
        "local s = ('\\1'):rep(30 * 2^20) return cjson.encode({s, s})",
        "local t = {} for i = 1, 2000 do t[i] = ('x'):rep(2^20) .. i end",
        "local s = ('x'):rep(30 * 2^20) local t = {} for i = 1, 60 do t[i] = s end return t",
    ] {
        is_refused(client, script);
    }
    let grown = peak_bytes().saturating_sub(before);
    // Others' tests may run in this process: a script by itself had taken gigabytes.
    assert!(grown < 1500 << 20, "{} MiB more", grown >> 20);
    assert_eq!(client.say("EXISTS k1 l"), Value::Integer(0));
}

#[test]
#[ignore = "long form: cargo x faults"]
fn s5_all_scripts_have_one_budget_long() {
    let served = Served::start(2);
    let before = peak_bytes();
    let replies: Vec<Value> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..12)
            .map(|_| {
                scope.spawn(|| {
                    let script = "local s = ('x'):rep(100 * 2^20) local n = 0 for i = 1, 3e7 do n = n + i end return #s";
                    served.connect().call(&["EVAL", script, "0"])
                })
            })
            .collect();
        running.into_iter().map(|running| running.join().expect("it ends")).collect()
    });
    let is_done = |reply: &&Value| **reply == Value::Integer(100 << 20);
    let is_refused =
        |reply: &&Value| matches!(reply, Value::Error(line) if line.contains("all scripts that run take"));
    assert!(replies.iter().all(|reply| is_done(&reply) || is_refused(&reply)), "{replies:?}");
    assert!(replies.iter().any(|reply| is_done(&reply)), "{replies:?}");
    assert!(replies.iter().any(|reply| is_refused(&reply)), "{replies:?}");
    let grown = peak_bytes().saturating_sub(before);
    assert!(grown < 2500 << 20, "{} MiB more", grown >> 20);
    assert_eq!(served.connect().call(&["EVAL", "return 7", "0"]), Value::Integer(7));
}
