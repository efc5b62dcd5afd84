//! S23: values of Lua's that Rust holds take slots, of which an interpreter has some 8 000. A walk
//! of `gmatch` held two until it was collected, an argument held one. So scripts ran out of them,
//! and each later one too. Neighbours: whatever else takes, makes or answers many strings.

use firn_protocol::resp::Value;

use super::super::client::{Client, Served, bulk};

fn eval(client: &mut Client, script: &str) -> Value {
    client.call(&["EVAL", script, "0"])
}

/// Each script answers this three times, and a small one works after each. Before them run some
/// that are kept.
fn answers(scripts: &[(&str, Value)]) {
    let served = Served::start(1);
    let client = &mut served.connect();
    client.say("SET a b");
    for number in 0..500 {
        assert_eq!(eval(client, &format!("return {number}")), Value::Integer(number));
    }
    for (script, expected) in scripts {
        for round in 0..3 {
            assert_eq!(eval(client, script), *expected, "{round}: {script}");
            assert_eq!(eval(client, "return redis.call('GET', 'a')"), bulk("b"), "{round}: {script}");
        }
    }
}

#[test]
fn s23_walks_that_are_left_take_no_slots() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let script = "local t={} for i=1,2000 do t[i]=('x'):gmatch('.') end return #t";
    for round in 0..5 {
        assert_eq!(eval(client, script), Value::Integer(2000), "{round}");
    }
    assert_eq!(eval(client, "return redis.call('GET', 'a')"), Value::Null);
}

#[test]
fn s23_searches_that_are_kept_take_no_slots() {
    let walks = |count: i64| {
        let script = format!(
            "local t = {{}} for i = 1, {count} do t[i] = ('xy'):gmatch('.') end t[1]() \
             return #t .. t[1]() .. t[#t]()"
        );
        (script, bulk(&format!("{count}yx")))
    };
    let [few, many] = [2000, 10_000].map(walks);
    answers(&[(&few.0, few.1), (&many.0, many.1)]);
}

#[test]
fn s23_replacements_within_one_another_take_no_slots() {
    let nested = |depth: i64, with: &str| {
        let script = format!(
            "local depth = 0 local function f(x) depth = depth + 1 if depth < {depth} then \
             return (('<' .. x .. '>'):gsub('%w', {with})) end return 'end' end \
             local text = f('a') return {{depth, #text, text:sub({depth} - 2, {depth} + 5)}}"
        );
        (script, Value::Array(vec![Value::Integer(depth), Value::Integer(2 * depth + 1), bulk("<<end>>>")]))
    };
    let (plain, captured) = (nested(5000, "f"), nested(4500, "function(x) return f(x) end"));
    answers(&[(&plain.0, plain.1), (&captured.0, captured.1)]);
}

/// So many strings in `t`.
fn strings(count: usize) -> String {
    format!("local t = {{}} for i = 1, {count} do t[i] = 'k' .. i end ")
}

#[test]
fn s23_many_strings_may_be_arguments() {
    let many = strings(7990);
    let script = |rest: &str| many.clone() + rest;
    answers(&[
        (&script("return redis.call('DEL', unpack(t))"), Value::Integer(0)),
        (&script("redis.call('DEL', 'l') return redis.call('RPUSH', 'l', unpack(t))"), Value::Integer(7990)),
        (&script("return redis.call('LINDEX', 'l', -1)"), bulk("k7990")),
        (&script("return #cmsgpack.unpack(cmsgpack.pack(t))"), Value::Integer(7990)),
        (&script("return #cmsgpack.pack(unpack(t))"), Value::Integer(46_833)),
        (&script("return #struct.pack(('s'):rep(7990), unpack(t))"), Value::Integer(46_833)),
        (&script("for i = 1, #t do t[i] = '1' end return bit.bor(unpack(t))"), Value::Integer(1)),
        (&script("return redis.sha1hex(unpack(t, 1, 1))"), bulk("a2ab1959c1c3bfa295b0fc90199378272db76b45")),
        (&script("return redis.acl_check_cmd('DEL', unpack(t)) and 1"), Value::Integer(1)),
        (&script("return ('x'):rep(3, unpack(t)) .. ('abc'):match('b', 1, unpack(t))"), bulk("xxxb")),
        (&script("return (('abc'):gsub('b', 'x', 1, unpack(t)))"), bulk("axc")),
    ]);
}

#[test]
fn s23_many_strings_may_be_answers() {
    let many = strings(7900);
    let script = |rest: &str| many.clone() + rest;
    let ends = Value::Array(vec![Value::Integer(7900), bulk("k1"), bulk("k7900")]);
    let offset = Value::Array(vec![Value::Integer(7901), Value::Integer(-1), bulk("k7900")]);
    let seen = "return {#u, u[1], u[7900]}";
    let packed = "cmsgpack.pack(unpack(t))";
    answers(&[
        (&script(&format!("local u = {{cmsgpack.unpack({packed})}} {seen}")), ends.clone()),
        (
            &script(&format!(
                "local u = {{cmsgpack.unpack_limit({packed}, 9000)}} return {{#u, u[1], u[7901]}}"
            )),
            offset,
        ),
        (
            &script(&format!(
                "local f = ('s'):rep(7900) local u = {{struct.unpack(f, struct.pack(f, unpack(t)))}} \
                 u[7901] = nil {seen}"
            )),
            ends,
        ),
        (
            "return {select('#', struct.unpack(('Bc0'):rep(3000), ('\\1x'):rep(3000))), \
             (select(3000, struct.unpack(('Bc0'):rep(3000), ('\\1x'):rep(3000))))}",
            Value::Array(vec![Value::Integer(3001), bulk("x")]),
        ),
        (&script("return unpack(t)"), bulk("k1")),
        (
            &script("return {select(2, pcall(function(...) return select('#', ...), (...) end, unpack(t)))}"),
            Value::Array(vec![Value::Integer(7900), bulk("k1")]),
        ),
    ]);
}

#[test]
fn s23_tables_within_one_another_of_many_strings_are_read() {
    let text = "local s = ('\"x\",'):rep(60) local d = 150 ";
    let count = "local n = 0 while type(t) == 'table' do n, t = n + #t, t[#t] end return n";
    let objects = "local s = '' for i = 1, 30 do s = s .. '\"' .. i .. '\":\"x' .. i .. '\",' end \
                   local t = cjson.decode(('{' .. s .. '\"in\":'):rep(150) .. '1' .. ('}'):rep(150)) \
                   local n = 0 while type(t) == 'table' do n = n + (t['30'] == 'x30' and 1 or 0) t = t['in'] end \
                   return n";
    answers(&[
        (
            &format!("{text} local t = cjson.decode(('[' .. s):rep(d) .. '1' .. (']'):rep(d)) {count}"),
            Value::Integer(150 * 61),
        ),
        (objects, Value::Integer(150)),
        (
            &format!(
                "{text} s = ('\\161x'):rep(60) \
                 local t = cmsgpack.unpack(('\\220\\0\\61' .. s):rep(d) .. '\\1') {count}"
            ),
            Value::Integer(150 * 61),
        ),
        (
            "local arrays = ('['):rep(999) .. '{}' .. (']'):rep(999) \
             local objects = ('{\"name\":'):rep(999) .. '{}' .. ('}'):rep(999) \
             return {cjson.encode(cjson.decode(arrays)) == arrays, cjson.encode(cjson.decode(objects)) == objects}",
            Value::Array(vec![Value::Integer(1), Value::Integer(1)]),
        ),
    ]);
}
