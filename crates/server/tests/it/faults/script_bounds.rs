//! S5, S2, S20: what a script sizes, each at its bound and one beyond it, as
//! crates/server/src/bounds lists them. The budgets of memory are in `script_memory`, nesting that
//! is counted together in `script_holes`, memory of kept scripts beside their cache.

use std::io::{Read, Write};

use firn_protocol::resp::Value;

use super::super::client::{Client, Served, bulk, request};

fn eval(client: &mut Client, script: &str) -> Value {
    client.call(&["EVAL", script, "0"])
}

#[test]
fn s5_what_a_script_sizes_ends_one_beyond_its_bound() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let nest = "local function nest(n) local t = {} for i = 2, n do t = {t} end return t end ";
    // A script of a number, the most that it takes, and what is said of one more.
    let cases: [(&str, u32, &str); 12] = [
        (
            "local t = {} t[N] = 1 for i = 1, N do t[i] = i end return #{unpack(t)}",
            7999,
            "too many results to unpack",
        ),
        ("return select('#', unpack({}, 1, N))", 7997, "too many results to unpack"),
        ("return select('#', unpack({}, -N, -1))", 7997, "too many results to unpack"),
        (
            "return select('#', struct.unpack(('b'):rep(N), ('x'):rep(N))) - 1",
            7900,
            "too many results to unpack",
        ),
        ("return select('#', cmsgpack.unpack(('\\1'):rep(N)))", 7900, "too many results to unpack"),
        ("cjson.encode(nest(N)) return N", 1000, "Cannot serialise, excessive nesting (1001)"),
        (
            "cjson.decode(('['):rep(N) .. (']'):rep(N)) return N",
            1000,
            "Found too many nested data structures (1001)",
        ),
        ("cmsgpack.unpack(('\\145'):rep(N - 1) .. '\\144') return N", 200, "too many nested tables"),
        ("return #struct.pack('i' .. N, 1)", 32, "integral size 33 is larger than limit of 32"),
        ("return select('#', ('x'):find(('()'):rep(N))) - 2", 32, "too many captures"),
        ("return #('a'):rep(N):match(('a?'):rep(N))", 200_000, "pattern too complex"),
        (
            "local ok, why = pcall(string.rep, 'x', N) return tostring(why):find('too large') and error(why) or N",
            256 << 20,
            "too large",
        ),
    ];
    for (script, most, said) in cases {
        let mut call =
            |number: u32| eval(client, &format!("{nest}{}", script.replace('N', &number.to_string())));
        assert_eq!(call(most), Value::Integer(i64::from(most)), "{script}");
        let beyond = call(most + 1);
        assert!(matches!(&beyond, Value::Error(line) if line.contains(said)), "{script}: {beyond:?}");
    }
    // What is cut and not refused.
    let packed = |client: &mut Client, levels: u32| {
        eval(
            client,
            &format!("{nest} local p = cmsgpack.pack(nest({levels})) return p:byte(#p) .. ' ' .. #p"),
        )
    };
    assert_eq!(packed(client, 16), bulk("144 16"), "an empty table is the last");
    assert_eq!(packed(client, 17), bulk("192 17"), "nil is");
    for (levels, is_cut) in [(201, false), (202, true)] {
        let script = format!("{nest} return nest({levels})");
        client.stream.write_all(&request(&["EVAL", &script, "0"])).expect("it is sent");
        // An array of one in another, to the last, which is empty: more than this client decodes.
        let last = if is_cut { "-ERR reached lua stack limit\r\n" } else { "*0\r\n" };
        let expected = "*1\r\n".repeat(if is_cut { 201 } else { 200 }) + last;
        let mut answer = vec![0; expected.len()];
        client.stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(String::from_utf8_lossy(&answer), expected, "{levels}");
    }
}

#[test]
fn s5_one_script_more_than_are_kept_lets_the_oldest_go() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let evicted = |client: &mut Client| {
        let Value::Bulk(text) = client.say("INFO stats") else { panic!("INFO is refused") };
        let text = String::from_utf8(text).expect("text");
        let line = text.lines().find_map(|line| line.strip_prefix("evicted_scripts:").map(str::to_owned));
        line.expect("it is told")
    };
    for number in 0..500 {
        assert_eq!(eval(client, &format!("return {number}")), Value::Integer(number));
    }
    assert_eq!(evicted(client), "0");
    assert_eq!(eval(client, "return 500"), Value::Integer(500));
    assert_eq!(evicted(client), "1");
}
