//! S1: `unpack({1,2,3}, 0, 2147483647)` writes past Lua's stack. Neighbours: every function of a
//! script that takes a range or a count (`table.insert` far before the start, `string.rep` of
//! nothing, `select`, `concat`). Also known holes of Lua 5.1 and its libraries, each by its number.
//!
//! S2: `cjson.decode` of 999 levels within 190 nested callbacks overflows the stack. Neighbours:
//! chains of coroutines times chains of metamethods, patterns of many optional items, the encoders
//! and converters within them.
//!
//! C10: `unpack` of 7 999 arguments for a command, errors of scripts in the statistics, the
//! metatable of the globals.

use std::time::{Duration, Instant};

use firn_protocol::resp::Value;

use super::super::client::{Client, Served, bulk};

fn eval(client: &mut Client, script: &str) -> Value {
    client.call(&["EVAL", script, "0"])
}

#[track_caller]
fn fails(client: &mut Client, script: &str, why: &str) {
    let reply = eval(client, script);
    assert!(matches!(&reply, Value::Error(line) if line.contains(why)), "{script}: {reply:?}");
    assert_eq!(eval(client, "return 7"), Value::Integer(7), "{script}");
}

#[test]
fn s1_ranges_are_checked() {
    let served = Served::start(1);
    let client = &mut served.connect();
    // CVE-2025-46817.
    for range in ["0, 2147483647", "-2147483648, 2147483647", "1, 2^40", "-2^40, 1", "1, 1e308", "0, 8000"] {
        fails(client, &format!("return {{unpack({{1, 2, 3}}, {range})}}"), "too many results to unpack");
    }
    let script = "return {select('#', unpack({1, 2, 3}, 3, 2)), select('#', unpack({1, 2, 3}, 2^31 - 1, -2^31)), \
                  (select(2, unpack({1, 2, 3}, -1, 1))) == nil and 1 or 0, select('#', unpack({}, 1, 7990)), \
                  (unpack({1, 2, 3}, '2')), (unpack({7, n = 0}, 1.9))}";
    let expected = [0, 0, 1, 7990, 2, 7].map(Value::Integer).to_vec();
    assert_eq!(eval(client, script), Value::Array(expected));
    fails(client, "return unpack()", "bad argument #1 to 'unpack' (table expected, got no value)");
    fails(client, "return unpack({}, 'x')", "bad argument #2 to 'unpack' (number expected, got string)");
    // Neighbours: what loops over a range beside all limits.
    let start = Instant::now();
    fails(client, "table.insert({}, -2^31, 1)", "bad argument #2 to 'insert' (position out of bounds)");
    assert_eq!(eval(client, "return #(''):rep(2^31 - 1)"), Value::Integer(0));
    fails(client, "return ('ab'):rep(2^53)", "resulting string too large");
    fails(client, "return table.concat({}, 'x', 1, 2^31 - 1)", "invalid value");
    fails(client, "return select(-2^31, 1)", "index out of range");
    assert_eq!(
        eval(client, "return {(string.byte('abc', -2^31, 2^31 - 1))}"),
        Value::Array(vec![Value::Integer(97)])
    );
    assert!(start.elapsed() < Duration::from_secs(2), "it took {:?}", start.elapsed());
}

#[test]
fn s1_holes_that_others_closed() {
    let served = Served::start(1);
    let client = &mut served.connect();
    // CVE-2014-5461: few parameters where very many values are given.
    let script = "local function f(...) local function g(a, b, c, d, e, f, h, i, j, k, ...) return select('#', ...) end \
                  return g(...) end \
                  local n = 0 for i = 1, 300 do n = n + f(unpack({}, 1, 7000 + i)) end \
                  return coroutine.wrap(function(...) return f(...) end)(unpack({}, 1, 7990))";
    assert_eq!(eval(client, script), Value::Integer(7980));
    // CVE-2022-24834: lengths of what cjson and cmsgpack write that wrap around.
    let script = "local s = ('\\1'):rep(2 * 2^20) return #cjson.encode({s, s}) - 2 * 6 * #s";
    assert_eq!(eval(client, script), Value::Integer(7));
    let script = "local s = ('x'):rep(8 * 2^20) return #cmsgpack.pack(s, s, s) - 3 * #s";
    assert_eq!(eval(client, script), Value::Integer(15));
    // CVE-2024-31449.
    let script = "return {bit.tohex(0xabc, -2147483648), bit.tohex(0xabc, 2147483647), bit.tohex(1, -1), bit.tohex(65535, 4.5)}";
    let expected = ["00000ABC", "00000abc", "1", "ffff"].map(bulk).to_vec();
    assert_eq!(eval(client, script), Value::Array(expected));
    // CVE-2025-46818: metatables of simple types, through which one script could act as another's
    // user.
    for value in ["''", "1", "true", "nil", "print", "coroutine.create(function() end)", "redis.call"] {
        let script = format!(
            "local m = getmetatable({value}) if m then m.__index = nil m.__add = function() return 'stolen' end end"
        );
        eval(client, &script);
        assert_eq!(eval(client, "return ('x'):upper() .. tostring(1)"), bulk("X1"), "{value}");
        let script = format!("return tostring((pcall(function() return {value} + 'x' end)))");
        assert_eq!(eval(client, &script), bulk("false"), "{value}");
    }
    // CVE-2025-46819: delimiters of long strings; their count cannot wrap around within a script's
    // memory.
    for count in [0, 1, 2, 254, 65_536, 1 << 20] {
        let level = format!("('='):rep({count})");
        let script = format!("return #loadstring('return [' .. {level} .. '[ab]' .. {level} .. ']')()");
        assert_eq!(eval(client, &script), Value::Integer(2), "{count}");
        let script = format!("return tostring(loadstring('return [' .. {level} .. '[' .. {level} .. ']'))");
        assert_eq!(eval(client, &script), bulk("nil"), "{count}");
    }
    fails(client, "return assert(loadstring('return [' .. ('='):rep(100 * 2^20)))", "not enough memory");
    // CVE-2025-49844: the chunk's name is held while the parser collects garbage.
    let script = "for i = 1, 200 do local parts = {} for j = 1, 200 do parts[j] = 'local s' .. i .. ' = \"' .. i .. '_' .. j .. \
                  '\" do local function f() return {' .. j .. '} end end' if j % 100 == 0 then parts[j] = 'do end' end end \
                  local ok, e = loadstring(table.concat({'do ' .. table.concat(parts, ' end do ') .. ' end', ' ?'}), '=name' .. i) \
                  if not e:find('name' .. i .. ':1:', 1, true) then return e end end return 'named'";
    assert_eq!(eval(client, script), bulk("named"));
}

#[test]
fn s2_nesting_is_counted_together() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let decode = "cjson.decode(('['):rep(999) .. (']'):rep(999))";
    // Either it works or it is an error of the script: the server lives.
    for (name, nest) in [
        (
            "callbacks",
            "local function nest(n, f) if n == 0 then return f() end ('x'):gsub('x', function() nest(n - 1, f) end) end",
        ),
        (
            "comparisons",
            "local function nest(n, f) if n == 0 then return f() end table.sort({2, 1}, function(a, b) nest(n - 1, f) return a < b end) end",
        ),
        (
            "metamethods",
            "local function nest(n, f) if n == 0 then return f() end \
             return setmetatable({}, {__index = function() return nest(n - 1, f) end}).x end",
        ),
        (
            "coroutines",
            "local function nest(n, f) if n == 0 then return f() end return coroutine.wrap(function() return nest(n - 1, f) end)() end",
        ),
        (
            "protected calls",
            "local function nest(n, f) if n == 0 then return f() end local ok, e = pcall(nest, n - 1, f) if not ok then error(e, 0) end end",
        ),
        (
            "coroutines of metamethods",
            "local function deep(n, f) if n == 0 then return f() end \
             return setmetatable({}, {__index = function() return deep(n - 1, f) end}).x end \
             local function nest(n, f) if n == 0 then return f() end \
             return coroutine.wrap(function() return deep(180, function() return nest(n - 1, f) end) end)() end",
        ),
        (
            "protected metamethods",
            "local function deep(n, f) if n == 0 then return f() end \
             return setmetatable({}, {__add = function() return deep(n - 1, f) end}) + 1 end \
             local function nest(n, f) if n == 0 then return f() end \
             local ok, e = pcall(deep, 180, function() return nest(n - 1, f) end) if not ok then error(e, 0) end end",
        ),
    ] {
        for depth in [10, 60, 120, 140, 190] {
            for work in [
                decode,
                "local t = {} for i = 1, 900 do t = {t} end cjson.encode(t)",
                "cmsgpack.unpack(('\\145'):rep(190) .. '\\1')",
                "redis.call('keys', '*')",
                "loadstring('return ' .. ('('):rep(190) .. '1' .. (')'):rep(190))",
                "('x'):find(('x?'):rep(20000))",
            ] {
                let script = format!("{nest} nest({depth}, function() {work} end) return 1");
                let reply = eval(client, &script);
                let is_said = |line: &String| {
                    line.contains("overflow") || line.contains("too complex") || line.contains("too many")
                };
                assert!(
                    reply == Value::Integer(1) || matches!(&reply, Value::Error(line) if is_said(line)),
                    "{name}, {depth}, {work}: {reply:?}"
                );
            }
        }
    }
    assert_eq!(eval(client, &format!("return #{decode}")), Value::Integer(1), "by itself it is not too deep");
    // Neighbours: patterns, which recurse in C.
    for pattern in ["('x?'):rep(200000)", "('(x'):rep(30) .. ('x-'):rep(200000)", "('%f[x]'):rep(200000)"] {
        eval(client, &format!("return ('x'):rep(300000):find({pattern})"));
        assert_eq!(eval(client, "return 7"), Value::Integer(7), "{pattern}");
    }
}

#[test]
fn c10_many_arguments_of_a_command() {
    let served = Served::start(1);
    let client = &mut served.connect();
    for count in [1, 199, 200, 201, 1000, 7998, 7999] {
        let script = format!(
            "local t = {{}} for i = 1, {count} do t[i] = i end redis.call('del', 'l') \
             return redis.call('rpush', 'l', unpack(t))"
        );
        assert_eq!(eval(client, &script), Value::Integer(count));
        assert_eq!(client.say("LINDEX l -1"), bulk(&count.to_string()));
    }
    // Other functions of the server that take as many.
    let script = "return #cmsgpack.pack(unpack({}, 1, 7990))";
    assert_eq!(eval(client, script), Value::Integer(7990));
    let script =
        "return #struct.pack(('b'):rep(7990), unpack(cjson.decode('[' .. ('1,'):rep(7989) .. '1]')))";
    assert_eq!(eval(client, script), Value::Integer(7990));
    let script = "local t = {pcall(redis.call, 'echo', unpack({}, 1, 5000))} return t[2]";
    assert!(matches!(eval(client, script), Value::Bulk(_)));
    assert_eq!(eval(client, "return type(getmetatable(_G))"), bulk("table"));
    eval(client, "getmetatable(_G).__index = nil getmetatable(_G).leak = 1");
    assert_eq!(eval(client, "return tostring(getmetatable(_G).leak)"), bulk("nil"));
    fails(client, "return nothing", "nonexistent global variable");
}

#[test]
fn c10_errors_of_scripts_are_counted() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let count = |client: &mut Client, name: &str| {
        let Value::Bulk(text) = client.say("INFO errorstats") else { panic!("a text") };
        let text = String::from_utf8(text).expect("a text");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("errorstat_{name}:count=")));
        line.map_or(0, |count| count.trim().parse::<u64>().expect("a number"))
    };
    for (script, name) in [
        ("return redis.error_reply('MINE it was')", "MINE"),
        ("return {err = 'OTHER it was'}", "OTHER"),
        ("return redis.pcall('incr', 'k', 'x')", "ERR"),
        ("error({err = 'RAISED it was'})", "RAISED"),
    ] {
        let before = count(client, name);
        assert!(matches!(eval(client, script), Value::Error(_)), "{script}");
        assert_eq!(count(client, name), before + 1, "{script}");
    }
}
