//! S9: a loop around `gmatch`, or `gsub` with a function or a table, kept its thread and was ended
//! after 5 s. A turn that ended within the iterator began the script again, and it was never
//! suspended after that. Neighbours: iterators of the script's own, metamethods, comparisons, all
//! of them in coroutines and protected calls. Also commands that are called within them, and
//! commands that fail.

use std::time::Duration;

use firn_protocol::resp::Value;
use firn_server::ServeSettings;

use super::super::client::{Client, Served};
use super::script_ends::gives_turns;
use super::turns::turns_given;

/// How often each loop goes round.
const ROUNDS: i64 = 40_000;

/// Turns of others that each loop gives at least. The clock is looked at after 4 096 instructions,
/// of which each round has two or more.
const TURNS_MIN: u64 = ROUNDS as u64 / 4096;

/// What is between `local n = 0` and `return n`, and counts the rounds there. `s` is a text with as
/// many words as there are rounds.
const LOOPS: [&str; 19] = [
    "for w in s:gmatch('%a') do n = n + 1 end",
    "for w in string.gfind(s, '(%a)()') do n = n + 1 end",
    "pcall(function() for w in s:gmatch('%a') do n = n + 1 end end)",
    "local co = coroutine.wrap(function() for w in s:gmatch('%a') do n = n + 1 coroutine.yield(w) end end) while co() do end",
    "for w in coroutine.wrap(function() for w in s:gmatch('%a') do coroutine.yield(w) end end) do n = n + 1 end",
    "local next = s:gmatch('%a') while next() do n = n + 1 end",
    "s:gsub('%a', function(w) n = n + 1 return w end)",
    "s:gsub('(%a)( )', function(w, b) n = n + 1 return b end)",
    "s:gsub('(%a)( )()', function(w, b, at) n = n + 1 return at end)",
    "pcall(string.gsub, s, '%a', function(w) n = n + 1 end)",
    "s:gsub('%a', setmetatable({}, {__index = function(t, k) n = n + 1 return k .. k end}))",
    "local _, count = s:gsub('%a', {x = 'y'}) n = count for i = 1, count do end",
    "for w in function() if n < ROUNDS then n = n + 1 return n end end do end",
    "local next = s:gmatch('%a') for w in function() return (next()) end do n = n + 1 end",
    "local t = setmetatable({}, {__index = function(t, k) return k + 1 end}) while n < ROUNDS do n = t[n] end",
    "local t = setmetatable({}, {__index = function(t, k) return select(2, pcall(function() return k + 1 end)) end}) \
     while n < ROUNDS do n = t[n] end",
    "local t = setmetatable({}, {__tostring = function() n = n + 1 return 'x' end}) while n < ROUNDS do tostring(t) end",
    "for w in function() if n < ROUNDS then return redis.call('INCR', KEYS[1]) end end do n = n + 1 end",
    "for w in s:gmatch('%a') do pcall(redis.call, 'INCR', KEYS[2]) n = n + 1 end",
];

fn script(work: &str) -> String {
    let work = work.replace("ROUNDS", &ROUNDS.to_string());
    format!("local n, s = 0, ('x '):rep({ROUNDS}) {work} return n")
}

#[test]
fn s9_loops_around_iterators_give_turns() {
    let served = Served::with(ServeSettings { threads: 1, turn_us: 0, ..ServeSettings::default() });
    let (mut running, mut other) = (served.connect(), served.connect());
    running.say("SET text text");
    let mut complaints = String::new();
    for work in LOOPS {
        let before = turns_given(&mut other);
        let answer = running.call(&["EVAL", &script(work), "2", "number", "text"]);
        let given = turns_given(&mut other) - before;
        eprintln!("{given} turns: {work}");
        if answer != Value::Integer(ROUNDS) || given < TURNS_MIN {
            complaints += &format!("{work} gave {given} turns and answered {answer:?}\n");
        }
        running.say("DEL number");
    }
    assert!(complaints.is_empty(), "{complaints}");
}

/// What is suspended in the middle answers what it answers at once.
#[test]
fn s9_what_is_suspended_within_a_loop_is_the_same() {
    let answers = |turn_us| {
        let served = Served::with(ServeSettings { threads: 1, turn_us, ..ServeSettings::default() });
        let client: &mut Client = &mut served.connect();
        let mut answer = |work: &str| {
            // Captures of many lengths, and what is left between them.
            let text = "local s = {} for i = 1, 5000 do s[i] = ('ab'):rep(i % 7) .. i .. (i % 3 == 0 and '-' or ' ') end \
                        s = table.concat(s)";
            let script = format!("{text} local r = {{}} {work} return redis.sha1hex(table.concat(r, '|'))");
            client.call(&["EVAL", &script, "0"])
        };
        [
            "for a, b, at in s:gmatch('(%a*)(%d+)()') do r[#r + 1] = a .. b .. at end",
            "for w in s:gmatch('') do r[#r + 1] = #w end",
            "for w in s:gmatch('[ab]-%d*') do r[#r + 1] = w end",
            "r = {s:gsub('%d+', function(d) return #d % 2 == 0 and d .. d or nil end)}",
            "r = {s:gsub('(%a+)(%d+)', function(...) return select('#', ...) .. select(2, ...) end)}",
            "r = {s:gsub('()(%a)(%a)%d', function(...) return table.concat({...}) end, 700)}",
            "r = {s:gsub('%d', {['1'] = 'one', ['2'] = 2, ['3'] = false})}",
            "r = {s:gsub('%a', setmetatable({}, {__index = function(t, k) for i = 1, 50 do end return k:upper() end}))}",
            "for w in ('x '):rep(300000):gmatch('%a') do r[1] = (r[1] or 0) + 1 end",
            "local a = ('a'):rep(500) r[1] = tostring(a:find('.-.-q')) r[2] = tostring(a:match('(.-).-q')) r[3] = a:gsub('.-.-q', '')",
            "local a = ('a'):rep(500) for w in (a .. 'q'):gmatch('.-.-q') do r[1] = w end r[2] = (a .. 'q'):gsub('.-.-q', string.upper)",
            "r = {tostring(select(2, pcall(string.find, ('x'):rep(300000) .. 'b', '.-b(')))}",
            "r = {tostring(select(2, pcall(function() for w in (('x'):rep(300000) .. 'b'):gmatch('.-b(') do end end)))}",
        ]
        .map(&mut answer)
    };
    let (at_once, in_parts) = (answers(60_000_000), answers(0));
    assert!(at_once.iter().all(|answer| matches!(answer, Value::Bulk(_))), "{at_once:?}");
    assert_eq!(at_once, in_parts);
}

const ENDLESS: [&str; 4] = [
    "while true do for w in s:gmatch('%a') do end end",
    "while true do s:gsub('%a', function(w) return w end) end",
    "while true do s:gsub('%a', setmetatable({}, {__index = function(t, k) return k end})) end",
    "for w in function() return 1 end do pcall(function() for w in s:gmatch('%a') do end end) end",
];

#[test]
fn s9_an_endless_loop_around_an_iterator_gives_turns() {
    for work in ENDLESS {
        gives_turns(&script(work), Duration::from_millis(150));
    }
}

/// Longer than what nothing can suspend may last.
#[test]
#[ignore = "long form: cargo x faults"]
fn s9_an_endless_loop_around_an_iterator_gives_turns_long() {
    for work in ENDLESS {
        gives_turns(&script(work), Duration::from_secs(8));
    }
}
