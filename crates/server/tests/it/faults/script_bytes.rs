//! S20: `string.upper`, `string.rep`, `string.format`, `cjson`, `cmsgpack`, `redis.sha1hex` and
//! their like on tens of megabytes held a thread for 0.5 to 5 s. Four such loops held one for 11 s,
//! for turns were counted in instructions. Neighbours: every function of C that goes over bytes, by
//! its answer or its failure. `struct`, `loadstring`, `tonumber`, replies that are made of them.
//!
//! S9: `SCRIPT KILL` answers NOTBUSY before a script's first turn has ended. Neighbours: one long
//! call of a script that has just begun, what ends within such a call, connections that come
//! meanwhile.

use std::io::Write;
use std::time::{Duration, Instant};

use firn_protocol::resp::Value;
use firn_server::ServeSettings;

use super::super::client::{Client, Served, error, ok, request};
use super::beside::in_three;
use super::turns::turns_given;

const KILLED: &str = "ERR Script killed by user with SCRIPT KILL...";
const NOT_BUSY: &str = "NOTBUSY No scripts in execution right now.";

/// Calls in a loop.
const CALLS: u64 = 100;

/// What is done again and again. `a` has 100 000 bytes; `j` is that as JSON, `m` the same in
/// MessagePack; `t` and `n` are tables.
const WORKS: [&str; 24] = [
    "a:upper()",
    "a:lower()",
    "a:reverse()",
    "a:sub(2)",
    "a:rep(2)",
    "string.format('%s', a)",
    "string.format('%q', a)",
    "table.concat(t)",
    "tonumber(a)",
    "pcall(loadstring, a)",
    "a:find('b', 1, true) a:find('b', 1, true) a:find('b', 1, true) for i = 1, 8 do a:find('b', 1, true) end",
    "a:match('^.*$')",
    "a:gmatch('.*')()",
    "(('x'):gsub('x', function() return a end))",
    "redis.sha1hex(a)",
    "redis.error_reply(a)",
    "cjson.encode(a)",
    "cjson.encode(n)",
    "cjson.decode(j)",
    "pcall(cjson.decode, a)",
    "cmsgpack.pack(t)",
    "cmsgpack.unpack(m)",
    "struct.pack('s', a)",
    "struct.unpack('c100000', a)",
];

#[test]
fn s20_turns_end_by_the_bytes_that_are_gone_over() {
    let served = Served::with(ServeSettings { threads: 1, turn_us: 0, ..ServeSettings::default() });
    let (mut running, mut other) = (served.connect(), served.connect());
    let mut complaints = String::new();
    for work in WORKS {
        let script = format!(
            "local a = ('a'):rep(100000) local j, m, n = '\"' .. a .. '\"', cmsgpack.pack({{a}}), {{}} \
             local t = {{a}} for i = 1, 5000 do n[i] = i end for i = 1, {CALLS} do local x = {work} end return 1"
        );
        let script = match work.contains(" for ") {
            true => script.replace("local x = ", ""),
            false => script,
        };
        let before = turns_given(&mut other);
        assert_eq!(running.call(&["EVAL", &script, "0"]), Value::Integer(1), "{work}");
        let given = turns_given(&mut other) - before;
        if given < CALLS {
            complaints += &format!("{work} gave {given} turns in {CALLS} calls\n");
        }
    }
    assert!(complaints.is_empty(), "{complaints}");
}

/// Sends `script`, which takes a while, and SCRIPT KILL by another connection after `wait`, as soon
/// as there is something to kill. Answers how long after the script's beginning that is, and how
/// long the script goes on then. `None` if it has ended before.
fn killed_after(served: &Served, script: &str, wait: Duration) -> Option<(Duration, Duration)> {
    let mut running = served.connect();
    let mut killer = served.connect();
    assert_eq!(running.say("PING"), Value::Simple("PONG".into()));
    assert_eq!(killer.say("PING"), Value::Simple("PONG".into()));
    let begun = Instant::now();
    running.stream.write_all(&request(&["EVAL", script, "0"])).expect("it is sent");
    std::thread::sleep(wait);
    loop {
        if has_answer(&running) {
            running.reply();
            return None;
        }
        match killer.say("SCRIPT KILL") {
            reply if reply == error(NOT_BUSY) => std::thread::sleep(Duration::from_millis(1)),
            reply => {
                assert_eq!(reply, ok());
                let (found, since) = (begun.elapsed(), Instant::now());
                assert_eq!(running.reply(), Some(error(KILLED)), "{script}");
                return Some((found, since.elapsed()));
            }
        }
    }
}

/// How long `script` takes, which answers 1.
fn time_of(served: &Served, script: &str) -> Duration {
    let mut client = served.connect();
    let since = Instant::now();
    assert_eq!(client.call(&["EVAL", script, "0"]), Value::Integer(1), "{script}");
    since.elapsed()
}

fn has_answer(client: &Client) -> bool {
    client.stream.set_nonblocking(true).expect("an option");
    let has_answer = client.stream.peek(&mut [0]).is_ok();
    client.stream.set_nonblocking(false).expect("an option");
    has_answer
}

/// One call of Lua's own, within which nothing looks at anything, from a script of ten
/// instructions.
const ONE_CALL: &str = "return loadstring('return ' .. ('1+'):rep(4000000) .. '1') and 1";

#[test]
fn s9_a_script_is_killed_before_its_first_turn_ends() {
    in_three(|| {
        // A turn in which the script comes to its call, which takes some ten times as long.
        let settings = ServeSettings { threads: 2, turn_us: 20_000, ..ServeSettings::default() };
        let served = Served::with(settings);
        let whole = time_of(&served, ONE_CALL);
        let killed = killed_after(&served, ONE_CALL, Duration::ZERO);
        assert_eq!(served.connect().say("SCRIPT KILL"), error(NOT_BUSY));
        match killed {
            Some((found, _)) if found < whole / 2 => String::new(),
            killed => format!("a call of {whole:?} was found and over after {killed:?}"),
        }
    });
    let served = Served::start(2);
    // What is over in a moment is spared.
    let (mut short, mut killer) = (served.connect(), served.connect());
    for number in 0..50 {
        short.stream.write_all(&request(&["EVAL", "return 1", "0"])).expect("it is sent");
        assert_eq!(killer.say("SCRIPT KILL"), error(NOT_BUSY), "{number}");
        assert_eq!(short.reply(), Some(Value::Integer(1)));
    }
}

#[test]
fn s9_connections_go_to_threads_that_no_script_keeps() {
    in_three(|| {
        let served = Served::start(2);
        let mut running = served.connect();
        assert_eq!(running.say("PING"), Value::Simple("PONG".into()));
        running.stream.write_all(&request(&["EVAL", ONE_CALL, "0"])).expect("it is sent");
        // So long a script has to keep its thread, and some more.
        std::thread::sleep(Duration::from_millis(20));
        let mut clients: Vec<Client> = (0..6).map(|_| served.connect()).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.say("PING"), Value::Simple("PONG".into())));
        match has_answer(&running) {
            true => "newcomers were served after the script had ended".to_owned(),
            false => String::new(),
        }
    });
}

/// What a script makes first, the call that takes it, and the `N` of both.
type Sized = (&'static str, &'static str, u32);

/// Long calls of libraries, each of which takes a fifth of a second or more.
const LONG_CALLS: [Sized; 6] = [
    ("local a = ('x'):rep(N)", "struct.size(a)", 16_000_000),
    ("local a = '[' .. ('1,'):rep(N) .. '1]'", "cjson.decode(a)", 3_200_000),
    ("local a = '\\221' .. struct.pack('>I4', N) .. ('\\1'):rep(N)", "cmsgpack.unpack(a)", 3_200_000),
    ("local a = ('a'):rep(N)", "redis.sha1hex(a)", 40_000_000),
    (
        "local t = {} for i = 1, 1000 do t[i] = i end local n = {} for i = 1, N do n[i] = t end",
        "cjson.encode(n)",
        600,
    ),
    (
        "local t = {} for i = 1, 1000 do t[i] = i end local n = {} for i = 1, N do n[i] = t end",
        "cmsgpack.pack(n)",
        2000,
    ),
];

/// A script that is killed within its call goes on for a third of the call at most. What it makes
/// first is passed over: what a quiet moment takes for that, and a quarter.
#[track_caller]
fn end_within(calls: &[Sized]) {
    for (first, call, count) in calls {
        let first = first.replace('N', &count.to_string());
        let script = format!("{first} {call} return 1");
        in_three(|| {
            let served = Served::start(2);
            let makings = std::array::from_fn::<_, 3, _>(|_| time_of(&served, &format!("{first} return 1")));
            let making = makings.into_iter().min().expect("three times");
            let whole = time_of(&served, &script).saturating_sub(making);
            let killed = killed_after(&served, &script, making * 5 / 4);
            eprintln!("{script}: {making:?}, then {whole:?}, killed after {killed:?}");
            match killed {
                Some((_, goes_on)) if goes_on < whole / 3 => String::new(),
                killed => {
                    format!(
                        "{script}: a call of {whole:?} after {making:?} was found and over after {killed:?}"
                    )
                }
            }
        });
    }
}

#[test]
#[ignore = "long form: cargo x faults"]
fn s20_a_long_call_ends_when_its_script_is_killed_long() {
    end_within(&LONG_CALLS);
}
