//! Scripts with their keys and arguments, run on both servers one after the other.

use firn_protocol::resp::Value;

use super::super::client::{Client, Served};
use super::server::RedisServer;

/// Conversions, both ways.
const CONVERSIONS: &[&str] = &[
    "",
    "return 1",
    "return 3.99",
    "return -3.99",
    "return 1e30",
    "return 0/0",
    "return 9007199254740993",
    "return 'text'",
    "return ''",
    "return true",
    "return false",
    "return nil",
    "return 1, 2",
    "return {1, 2, nil, 3}",
    "return {true, false, nil, 1}",
    "return {a = 1, 2}",
    "return {1.9, -0.5, 'x', {1, {2, {3}}}}",
    "return {ok = 'fine'}",
    "return {err = 'abc'}",
    "return {err = 'abc def'}",
    "return {err = '-abc'}",
    "return {err = 'a\\nb'}",
    "return {ok = 'a\\nb'}",
    "return {err = 5}",
    "return {ok = 5}",
    "return {double = 1.5}",
    "return {double = 3}",
    "return {double = 'x'}",
    "return {map = {a = 1}}",
    "return {map = {a = {double = 2.25}}}",
    "return {map = 5}",
    "return {set = {a = true}}",
    "return {big_number = '123456789012345678901234567890'}",
    "return {verbatim_string = {format = 'txt', string = 'abc'}}",
    "redis.setresp(3) return true",
    "redis.setresp(3) return false",
    "redis.setresp(3) return {true, false, 1}",
    "redis.setresp(3) return nil",
    "redis.setresp(3) return tostring(redis.call('get', 'none'))",
    "return tostring(redis.call('get', 'none'))",
    "return cjson.null",
    "return function() end",
    "return coroutine.create(function() end)",
    "return redis",
    "local t = setmetatable({}, {__index = {1, 2}}) return t",
    "return redis.call('mget', 'none', 'none2')",
    "return type(redis.call('ping').ok)",
    "return {KEYS, ARGV}",
    "KEYS[1] = 'x' return KEYS",
    "return #KEYS + #ARGV",
];

/// Commands.
const CALLS: &[&str] = &[
    "return redis.call('set', KEYS[1], ARGV[1])",
    "return redis.call('get', KEYS[1])",
    "return redis.call('incr', KEYS[2])",
    "return redis.pcall('incr', KEYS[1])",
    "return redis.call('incr', KEYS[1])",
    "redis.call('set', KEYS[1], 'kept') error('after a write')",
    "return redis.call('get', KEYS[1])",
    "redis.call('set', 'n', 1.5) return redis.call('get', 'n')",
    "redis.call('set', 'n', 1e22) return redis.call('get', 'n')",
    "redis.call('set', 'n', 0.1) return redis.call('get', 'n')",
    "redis.call('set', 'n', 3.0) return redis.call('get', 'n')",
    "redis.call('set', 'n', -12345678901234567) return redis.call('get', 'n')",
    "redis.call('set', 'n', 7) redis.call('incrby', 'n', 3) return {redis.call('get', 'n'), redis.call('strlen', 'n')}",
    "return redis.call('incrby', 'large', '9007199254740993')",
    "for i = 1, 1000 do redis.call('incr', 'loop') end return redis.call('get', 'loop')",
    "for i = 1, 1000 do redis.call('incr', KEYS[2]) end return redis.call('get', KEYS[2])",
    "local n ('x'):rep(3000):gsub('x', function() n = redis.call('incr', KEYS[2]) end) return n",
    "local t = {} for i = 1, 300 do t[i] = i end local n = 0 table.sort(t, function(a, b) n = n + 1 redis.pcall('incr', KEYS[1]) return a < b end) return {t[1], t[300], redis.call('get', KEYS[1])}",
    "local n = 0 ('x'):rep(3000):gsub('x', function() pcall(function() n = redis.call('incr', 'undeclared') end) end) return n",
    "return redis.call('mset', 'a', 1, 'b', 2)",
    "return redis.call('mget', 'a', 'b', 'none', KEYS[1])",
    "return redis.call('exists', 'a', 'b', 'none')",
    "return redis.call('del', 'a', 'none')",
    "return redis.call('rename', 'b', 'c')",
    "return redis.call('rename', 'none', 'c')",
    "return redis.call('type', 'c')",
    "return redis.call('dbsize')",
    "redis.call('select', 3) redis.call('set', 'in3', 1) return redis.call('get', 'in3')",
    "return redis.call('get', 'in3')",
    "return redis.call('select', 100)",
    "return redis.call('flushdb')",
    "return redis.call('keys', '*')",
    "return redis.call('publish', 'channel', 'message')",
    "return redis.call()",
    "return redis.pcall()",
    "return redis.call({})",
    "return redis.call('get', {})",
    "return redis.call('get', nil)",
    "return redis.call('get', true)",
    "return redis.call('get')",
    "return redis.call('nosuch')",
    "return redis.call('config')",
    "return redis.call('config', 'nosuch')",
    "return redis.call('subscribe', 'x')",
    "return redis.call('eval', 'x', 0)",
    "return redis.call('multi')",
    "return redis.call('watch', 'x')",
    "return redis.call('script', 'load', 'x')",
    "return redis.call('SET', 'x', 'y', 'z')",
    "return redis.pcall('set', 'a', 'b', 'c', 'd')",
    "local r = redis.pcall('nosuch') local t = {} for k, v in pairs(r) do t[#t + 1] = k .. '=' .. tostring(v) end table.sort(t) return t",
    "local ok, e = pcall(redis.call, 'incr') return {tostring(ok), type(e), e}",
    "local ok, e = pcall(function() return redis.call('incr', 'x', 'y') end) return {tostring(ok), type(e), e}",
    "return {xpcall(function() return redis.call('incr') end, function(e) return type(e) .. e.err end)}",
    "return redis.sha1hex('')",
    "return redis.sha1hex('abc')",
    "return redis.sha1hex(5)",
    "return redis.sha1hex()",
    "return redis.error_reply('abc')",
    "return redis.error_reply('-abc def')",
    "return redis.error_reply('My very')",
    "return redis.error_reply('')",
    "return redis.error_reply()",
    "return redis.error_reply(5)",
    "return redis.error_reply('a b', 1)",
    "return redis.status_reply('abc')",
    "return redis.status_reply(5)",
    "return redis.setresp(4)",
    "return redis.setresp()",
    "return redis.setresp('3')",
    "return redis.log(1)",
    "return redis.log(10, 'a')",
    "return redis.log(redis.LOG_WARNING, 'a', 'b')",
    "return redis.log('x', 'a')",
    "return redis.REDIS_VERSION .. redis.REDIS_VERSION_NUM",
    "return {redis.REPL_ALL, redis.REPL_AOF, redis.REPL_NONE, redis.REPL_SLAVE, redis.REPL_REPLICA, redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE}",
    "return {tostring(redis.replicate_commands()), tostring(redis.set_repl(1) == nil), tostring(redis.breakpoint()), tostring(redis.debug(1) == nil)}",
    "redis.set_repl(77)",
    "redis.set_repl()",
    "return redis.acl_check_cmd('get', 'x')",
    "return redis.acl_check_cmd('nosuch', 'x')",
    "return redis.acl_check_cmd()",
];

/// The language and its borders.
const LANGUAGE: &[&str] = &[
    "syntax error here",
    "return redis.call('get', 'x')\nx y",
    "return foo",
    "foo = 1",
    "KEYS = {} return 1",
    "string.foo = 1",
    "redis.call = 1",
    "rawset(_G, 'x', 1)",
    "rawset(string, 'x', 1)",
    "setmetatable(_G, {})",
    "setmetatable(string, {})",
    "return type(getmetatable(string))",
    "return getmetatable('').__index == string",
    "getmetatable('').__index = 1",
    "return tostring(rawget(_G, 'none')) .. type(rawget(_G, 'redis')) .. type(_G.redis) .. tostring(_G._G == _G)",
    "return nil + 1",
    "local x x.y = 1",
    "local t = {} t[nil] = 1",
    "error('boom')",
    "error('boom', 0)",
    "error()",
    "error(12)",
    "error(true)",
    "error({err = 'My err'})",
    "error({err = 12})",
    "\n\nreturn redis.call('incr')",
    "local function f() error('in f', 2) end\nf()",
    "local function f()\n return redis.call('incr') end\nf()",
    "local function f()\n return redis.call('incr') end\nreturn f()",
    "local function f(n) return 1 + f(n) end return f(1)",
    "return {pcall(nil)}",
    "return {pcall(function(...) return ... end, 1, 2, 3)}",
    "local ok, e = pcall(error) return tostring(e)",
    "local ok, e = pcall(error, {err = 'x'}) return {type(e), tostring(e)}",
    "local ok, e = pcall(error, {foo = 'x'}) return {type(e), e.foo}",
    "local ok, e = pcall(function() local x x.y = 1 end) return e",
    "local ok, e = pcall(pcall, error, 'deep') return {tostring(ok), tostring(e)}",
    "local ok, e = pcall(function() redis.call('set', 'p', 1) error('x') end) return redis.call('get', 'p')",
    "return {xpcall(function() error('x') end, function(e) return 'H:' .. e end)}",
    "return {xpcall(function() return 1, 2 end, function(e) return e end)}",
    "local co = coroutine.create(function(a) local b = coroutine.yield(a + 1) return b * 2 end) local _, x = coroutine.resume(co, 1) local _, y = coroutine.resume(co, 10) return {x, y, coroutine.status(co), select(2, coroutine.resume(co))}",
    "local f = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) return {f(), f(), f()}",
    "local f = coroutine.wrap(function() error({err = 'oops'}) end) f()",
    "local f = coroutine.wrap(function() error('oops') end) f()",
    "local f = coroutine.wrap(function() redis.call('set', 'co', 1) coroutine.yield() return redis.call('get', 'co') end) f() return f()",
    "local n = 0 for v in coroutine.wrap(function() for i = 1, 4 do coroutine.yield(i) end end) do n = n + v end return n",
    "coroutine.yield(1)",
    "return {loadstring('return 5')()}",
    "return {select(2, loadstring('x y'))}",
    "return {select(2, loadstring('x y', '=abc'))}",
    "return tostring(loadstring(string.dump(function() end)))",
    "return loadstring('return type(redis) .. tostring(KEYS[1])')()",
    "loadstring('foo = 1')()",
    "local parts = {'return ', '1 + ', '2'} local i = 0 return load(function() i = i + 1 return parts[i] end)()",
    "return tostring(1e15) .. tostring(0.1) .. tostring(nil) .. tostring(1/0)",
    "return string.format('%d %s %5.2f %q %x', 5, 'x', 1.5, 'q', 255)",
    "return table.concat({1, 2, {}})",
    "local t = {5, 2, 8} table.sort(t, function(a, b) return a > b end) return t",
    "return ('abc'):upper() .. ('x'):rep(3)",
    "for k, v in pairs(nil) do end",
    "return math.random(0)",
    "return math.random(5, 1)",
    "return math.random(1, 2, 3)",
    "math.randomseed(5) return tostring(math.random()) .. ' ' .. math.random(100) .. ' ' .. math.random(-5, 5)",
    "return math.floor(math.pi * 100) + math.max(1, 5, 3)",
    "return {collectgarbage('count') > 0, collectgarbage()}",
    "local t = {} for k, v in pairs(_G) do if k ~= '__redis__err__handler' then t[#t + 1] = k .. ':' .. type(v) end end table.sort(t) return t",
    "local t = {} for _, l in ipairs({'redis', 'string', 'table', 'math', 'coroutine', 'bit', 'cjson', 'cmsgpack', 'struct'}) do for k, v in pairs(_G[l]) do t[#t + 1] = l .. '.' .. k .. ':' .. type(v) end end table.sort(t) return t",
    "#!lua\nreturn 5",
    "#!lua flags=\nreturn 7",
    "#!lua flags=no-writes\nreturn redis.call('set', 'x', 1)",
    "#!lua flags=no-writes\nreturn redis.call('get', 'x')",
    "#!lua flags=no-writes,foo\nreturn 5",
    "#!lua foo=bar\nreturn 5",
    "#!python\nreturn 5",
    "#!lua",
    "#!lua flags=allow-stale,allow-oom,no-cluster,allow-cross-slot-keys\nreturn error('x')",
];

/// The libraries.
const LIBRARIES: &[&str] = &[
    "return cjson.encode({1, 2, 3, {a = 1}, 'x\\n\\\"/', 1.5, 1e20, true, cjson.null})",
    "return {cjson.encode({}), cjson.encode({[1] = 1, [5] = 1}), cjson.encode({a = {}}), cjson.encode({{}, {1}})}",
    "return cjson.encode({[1] = 1, [50] = 1})",
    "return cjson.encode({[1.5] = 1})",
    "return cjson.encode(1/0)",
    "return cjson.encode(function() end)",
    "return cjson.encode({[true] = 1})",
    "local t = {} t.t = t return cjson.encode(t)",
    "return cjson.encode()",
    "return cjson.encode('\\0\\1\\127\\128é')",
    "return {cjson.encode(12345678901234567890), cjson.encode(0.1), cjson.encode(-0.0), cjson.encode(100000000000000)}",
    "return cjson.encode(nil)",
    "local t = cjson.decode('{\"a\":[1,2.5,null,true,\"x\\\\u00e9\\\\ud83d\\\\ude00\"],\"b\":{}}') return {cjson.encode(t.a), #t.a, tostring(t.a[3] == cjson.null), cjson.encode(t.b)}",
    "return cjson.decode('[1,2')",
    "return cjson.decode('')",
    "return cjson.decode('nan')",
    "return cjson.decode('[-1.5e3, 0x10, 01, 1e2]')",
    "return cjson.decode('[1] x')",
    "return cjson.encode(cjson.decode('[-.5, 1., 1e+5, -1E-2, 1.5e3, 0.25]'))",
    "return cjson.decode('[--1]')",
    "return cjson.decode('[-+1]')",
    "return cjson.decode('[-]')",
    "return cjson.decode('[1e]')",
    "return cjson.decode('[1.5.5]')",
    "return cjson.decode('[1e5e5]')",
    "table.insert(redis, 1)",
    "table.insert(1, 2)",
    "table.insert()",
    "table.insert({}, 1, 2, 3)",
    "table.insert({})",
    "table.insert({}, 'x', 2)",
    "table.insert({}, {}, 2)",
    "table.insert({}, nil, 2)",
    "local t = {1} table.insert(t, '1', 'x') return t",
    "local t = {1} table.insert(t, 2) table.insert(t, 1, 0) return t",
    "return cjson.decode('{a:1}')",
    "return cjson.decode('{\"a\" 1}')",
    "return cjson.decode('{\"a\":1 \"b\"}')",
    "return cjson.decode('[1,]')",
    "return cjson.decode('\"abc')",
    "return cjson.decode('[tru]')",
    "return cjson.decode(5)",
    "return cjson.decode()",
    "return {cjson._NAME, cjson._VERSION, cmsgpack._NAME, cmsgpack._VERSION, cmsgpack._COPYRIGHT, cmsgpack._DESCRIPTION, _VERSION}",
    "return {cjson.encode_max_depth(), cjson.decode_max_depth(), cjson.encode_number_precision(), tostring(cjson.encode_keep_buffer()), tostring(cjson.encode_invalid_numbers()), tostring(cjson.decode_invalid_numbers())}",
    "return bit.band(0xffffffff, 1.5, '3')",
    "return {bit.tobit(0xffffffff), bit.bnot(0), bit.lshift(1, 31), bit.rshift(-1, 1), bit.arshift(-8, 1), bit.rol(0x12345678, 4), bit.ror(0x12345678, 4), bit.bswap(0x12345678)}",
    "return {bit.tohex(255), bit.tohex(255, 4), bit.tohex(255, -4), bit.bxor(1, 2, 3), bit.bor(1, 2, 4), bit.tobit(2^40 + 5), bit.tobit(-1)}",
    "return bit.band()",
    "return bit.band('x')",
    "return struct.pack('<i4', 5)",
    "return struct.pack('>I2Hhbs', 258, 65535, -2, -1, 'text')",
    "return struct.pack('<dfl', 1.5, 2.25, -7)",
    "return struct.pack('!8bi8', 1, 2)",
    "return struct.pack('c3c0', 'abcdef', 'xyz')",
    "return struct.pack('c5', 'abc')",
    "return {struct.unpack('<i4', '\\1\\0\\0\\0')}",
    "return {struct.unpack('>I2<I2s', '\\1\\2\\1\\2abc\\0')}",
    "return {struct.unpack('bc0', '\\3abcd')}",
    "return {struct.unpack('<h', '\\255\\255\\254\\255', 3)}",
    "return struct.pack('z', 5)",
    "return struct.unpack('<i4', 'a')",
    "return {struct.size('<i4hbdlLTc5x!8i8'), struct.size('bi')}",
    "return struct.size('s')",
    "return cmsgpack.pack({1, 2, 3, {a = 1}}, 'x', 1.5, 0.1, true, nil, -5, 300, 70000, 5000000000, -300, -70000, -5000000000)",
    "return cmsgpack.pack(('x'):rep(40), ('y'):rep(300), {}, {[3] = 1}, 127, 128, 255, 256, -32, -33, -128, -129)",
    "return {cmsgpack.unpack(cmsgpack.pack(1, 2, 'x', {5, {6}}, -7, 1.5, 1e300, -70000, 5000000000))}",
    "return cjson.encode(cmsgpack.unpack(cmsgpack.pack({a = {1, 2}})))",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 'x'))}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 'x'), 2, 0)}",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 'x'), 2)}",
    "return cmsgpack.unpack('')",
    "return cmsgpack.unpack('\\193')",
    "return cmsgpack.unpack('\\147\\1')",
    "return cmsgpack.pack()",
    "return cmsgpack.unpack_one('a', 5)",
];

/// Whole requests.
const REQUESTS: &[&[&str]] = &[
    &["EVAL", "return 1", "2", "a"],
    &["EVAL", "return 1", "-1", "a"],
    &["EVAL", "return 1", "x", "a"],
    &["EVAL", "return 1"],
    &["EVALSHA", "aaaa", "0"],
    &["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
    &["SCRIPT", "LOAD", "x y"],
    &["SCRIPT", "LOAD", "return 1"],
    &["SCRIPT", "LOAD", "#!lua foo=1\nreturn 1"],
    &[
        "SCRIPT",
        "EXISTS",
        "e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
        "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB",
        "x",
    ],
    &["EVALSHA", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", "0"],
    &["EVALSHA_RO", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
    &["SCRIPT", "FLUSH", "x"],
    &["SCRIPT", "FLUSH", "sync", "x"],
    &["SCRIPT", "FLUSH", "ASYNC"],
    &["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
    &["EVAL", "return 1", "0"],
    &["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
    &["SCRIPT", "KILL"],
    &["SCRIPT", "NOSUCH"],
    &["EVAL_RO", "return redis.call('set', 'x', 1)", "0"],
    &["EVAL_RO", "return redis.pcall('set', 'x', 1)", "0"],
    &["EVAL_RO", "return redis.call('publish', 'x', 1)", "0"],
    &["EVAL_RO", "return redis.call('mget', KEYS[1], 'none')", "1", "x"],
    &["FUNCTION", "LIST"],
    &["FUNCTION", "LIST", "WITHCODE", "LIBRARYNAME", "a"],
    &["FUNCTION", "LIST", "foo"],
    &["FUNCTION", "LIST", "LIBRARYNAME"],
    &["FUNCTION", "FLUSH"],
    &["FUNCTION", "FLUSH", "x"],
    &["MULTI"],
    &["SET", "m", "1"],
    &["EVAL", "redis.call('incr', KEYS[1]) return redis.call('incr', 'undeclared')", "1", "m"],
    &["EVAL", "redis.call('set', 'partly', 1) error('x')", "0"],
    &["GET", "m"],
    &["EXEC"],
    &["MGET", "m", "undeclared", "partly"],
];

fn both(theirs: &mut Client, ours: &mut Client, request: &[&str], failures: &mut Vec<String>) {
    let (expected, found) = (theirs.call(request), ours.call(request));
    // A number that is none is equal to itself here.
    if format!("{expected:?}") != format!("{found:?}") {
        failures.push(format!("{request:?}\nRedis: {expected:?}\nFirn:  {found:?}"));
    }
}

fn compare(scripts: &[&str]) {
    let redis = RedisServer::start();
    let served = Served::start(2);
    let (mut theirs, mut ours) = (redis.connect(), served.connect());
    let mut failures = Vec::new();
    for protocol in ["2", "3"] {
        let hello = ["HELLO", protocol];
        theirs.call(&hello);
        if matches!(ours.call(&hello), Value::Error(_)) && protocol == "3" {
            break;
        }
        for client in [&mut theirs, &mut ours] {
            client.say("FLUSHALL");
        }
        for script in scripts {
            let request = ["EVAL", script, "2", "first", "second", "argument", "12", ""];
            both(&mut theirs, &mut ours, &request, &mut failures);
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn scripts_answer_as_in_redis() {
    compare(CONVERSIONS);
}

#[test]
fn scripts_call_commands_as_in_redis() {
    compare(CALLS);
}

#[test]
fn scripts_are_kept_in_the_same_borders() {
    compare(LANGUAGE);
}

#[test]
fn libraries_of_scripts_answer_as_in_redis() {
    compare(LIBRARIES);
}

#[test]
fn commands_on_scripts_answer_as_in_redis() {
    let redis = RedisServer::start();
    let served = Served::start(2);
    let (mut theirs, mut ours) = (redis.connect(), served.connect());
    let mut failures = Vec::new();
    for request in REQUESTS {
        both(&mut theirs, &mut ours, request, &mut failures);
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n\n"));
}
