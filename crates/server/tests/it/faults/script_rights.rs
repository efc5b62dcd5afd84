//! S11: `redis.acl_check_cmd('FLUSHALL')` says yes to a user that may not. Neighbours: keys,
//! channels, subcommands, wrong counts of arguments, commands that there are not.
//!
//! S12: `cjson.encode_max_depth(1) cjson.encode_number_precision(1)` change what others' scripts
//! get. Neighbours: every option of `cjson`, the seed of `math.random`, a script that fails after
//! it has set one.

use firn_protocol::resp::Value;

use super::super::client::{Client, Served, bulk, ok};

fn eval(client: &mut Client, script: &str) -> Value {
    client.call(&["EVAL", script, "0"])
}

#[test]
fn s11_a_script_is_told_what_its_user_may() {
    let served = Served::start(1);
    let admin = &mut served.connect();
    assert_eq!(admin.say("ACL SETUSER u on nopass +eval +get +set +publish +config|get ~a* %R~r* &c*"), ok());
    let user = &mut served.connect();
    assert_eq!(user.say("AUTH u x"), ok());
    let cases = [
        ("'FLUSHALL'", false),
        ("'get', 'a1'", true),
        ("'get', 'b1'", false),
        ("'get', 'r1'", true),
        ("'set', 'r1', 1", false),
        ("'set', 'a1', 1", true),
        ("'publish', 'c1', 'x'", true),
        ("'publish', 'd1', 'x'", false),
        ("'config', 'get', 'x'", true),
        ("'config', 'set', 'x', 'y'", false),
        ("'eval', 'return 1', 0", true),
    ];
    for (words, is_allowed) in cases {
        let script = format!("return tostring(redis.acl_check_cmd({words}))");
        assert_eq!(eval(user, &script), bulk(&is_allowed.to_string()), "{words}");
        assert_eq!(eval(admin, &script), bulk("true"), "{words}");
    }
    for words in ["'nothing'", "'config', 'nothing'", "{}", ""] {
        let reply = eval(user, &format!("return redis.acl_check_cmd({words})"));
        assert!(matches!(&reply, Value::Error(_)), "{words}: {reply:?}");
    }
    // What is only asked is not told the administrator as an attempt.
    assert_eq!(admin.say("ACL LOG"), Value::Array(vec![]));
}

#[test]
fn s12_options_end_with_their_script() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let probes = [
        "return cjson.encode({{{1.23456}}})",
        "return tostring((pcall(cjson.decode, '[[[1]]]')))",
        "return tostring((pcall(cjson.encode, 0/0))) .. tostring((pcall(cjson.decode, 'nan')))",
        "return tostring((pcall(cjson.encode, {[1000] = 1})))",
        "return tostring(cjson.encode_keep_buffer())",
    ];
    let before: Vec<Value> = probes.iter().map(|probe| eval(client, probe)).collect();
    for script in [
        "cjson.encode_max_depth(1) cjson.encode_number_precision(1) cjson.decode_max_depth(1)",
        "cjson.encode_invalid_numbers('on') cjson.decode_invalid_numbers('off') error('x')",
        "cjson.encode_sparse_array(true, 1, 1) cjson.encode_keep_buffer('off') return redis.call('nothing')",
        "cjson.encode_max_depth(1) table.sort({2, 1}, function(a, b) redis.call('get', 'k') return a < b end)",
    ] {
        eval(client, script);
        let after: Vec<Value> = probes.iter().map(|probe| eval(client, probe)).collect();
        assert_eq!(after, before, "{script}");
    }
    let draw = "return tostring(math.random(1000000)) .. ' ' .. tostring(math.random(1000000))";
    let first = eval(client, draw);
    eval(client, "math.randomseed(7) math.random()");
    assert_eq!(eval(client, draw), first, "each script begins the same sequence");
}
