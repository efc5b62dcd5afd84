use firn_protocol::command;
use firn_protocol::resp::Value;

use super::super::client::{Client, Served, bulk, error};
use super::super::reference::RedisServer;

/// The description of one command, without what the table does not know: tips, notes, subcommands
/// that are not offered.
fn stripped(reply: Value) -> Value {
    let Value::Array(mut parts) = reply else { return reply };
    if parts.len() != 10 {
        return Value::Array(parts.into_iter().map(stripped).collect());
    }
    parts[7] = Value::Null;
    let without_notes = |spec: Value| match spec {
        Value::Map(mut pairs) => {
            pairs.retain(|(name, _)| *name != bulk("notes"));
            Value::Map(pairs)
        }
        Value::Array(mut words) => {
            if words.first() == Some(&bulk("notes")) {
                words.drain(..2);
            }
            Value::Array(words)
        }
        other => other,
    };
    parts[8] = match parts[8].clone() {
        Value::Array(specs) => Value::Array(specs.into_iter().map(without_notes).collect()),
        Value::Set(specs) => Value::Set(specs.into_iter().map(without_notes).collect()),
        other => panic!("{other:?}"),
    };
    parts[9] = match parts[9].clone() {
        Value::Array(subcommands) => {
            let is_known = |value: &Value| {
                let Value::Array(parts) = value else { panic!("{value:?}") };
                let Value::Bulk(name) = &parts[0] else { panic!("{value:?}") };
                let name = std::str::from_utf8(name).expect("a name");
                // The reference is older than these.
                let is_newer = ["client|setinfo", "client|no-touch"].contains(&name);
                !is_newer && command::all().iter().any(|it| it.is_offered() && it.to_string() == name)
            };
            let mut known: Vec<Value> = subcommands.into_iter().filter(is_known).map(stripped).collect();
            known.sort_by_cached_key(|value| format!("{value:?}"));
            Value::Array(known)
        }
        // Version 3 of one of them answers none as a set.
        Value::Set(none) if none.is_empty() => Value::Array(none),
        other => panic!("{other:?}"),
    };
    Value::Array(parts)
}

#[test]
fn commands_are_described_as_by_redis() {
    let redis = RedisServer::start();
    let served = Served::start(2);
    let (theirs, ours) = (&mut redis.connect(), &mut served.connect());
    for protocol in ["2", "3"] {
        theirs.say(&format!("HELLO {protocol}"));
        if protocol == "3" && matches!(ours.say("HELLO 3"), Value::Error(_)) {
            break;
        }
        let mut count = 0;
        for it in command::commands().iter().filter(|it| it.is_offered()) {
            let request = format!("COMMAND INFO {it} nonsense");
            assert_eq!(stripped(ours.say(&request)), stripped(theirs.say(&request)), "{it}");
            count += 1;
        }
        assert!(count > 40, "{count}");
        assert_eq!(ours.say("COMMAND COUNT"), Value::Integer(count));
        let Value::Array(all) = ours.say("COMMAND") else { panic!("an array") };
        let Value::Array(again) = ours.say("COMMAND INFO") else { panic!("an array") };
        assert_eq!((all.len() as i64, &all), (count, &again));
    }
}

/// The names of a reply, sorted, without those that the reference is too old for.
fn names(reply: Value) -> Vec<String> {
    let Value::Array(names) = reply else { panic!("{reply:?}") };
    let name = |value: Value| match value {
        Value::Bulk(name) => String::from_utf8(name).expect("a name"),
        other => panic!("{other:?}"),
    };
    let mut names: Vec<String> = names.into_iter().map(name).collect();
    names.retain(|name| !["client|setinfo", "client|no-touch"].contains(&name.as_str()));
    names.sort();
    names
}

#[test]
fn commands_and_subcommands_are_listed_as_by_redis() {
    let redis = RedisServer::start();
    let served = Served::start(1);
    let (theirs, ours) = (&mut redis.connect(), &mut served.connect());
    for request in [
        "COMMAND LIST",
        "COMMAND LIST FILTERBY PATTERN *",
        "COMMAND LIST FILTERBY PATTERN config|*",
        "COMMAND LIST FILTERBY PATTERN CONFIG*",
        "COMMAND LIST FILTERBY PATTERN *|help",
        "COMMAND LIST FILTERBY ACLCAT connection",
        "COMMAND LIST FILTERBY ACLCAT DANGEROUS",
        "COMMAND LIST FILTERBY ACLCAT slow",
        "COMMAND LIST FILTERBY ACLCAT @slow",
        "COMMAND LIST FILTERBY MODULE any",
    ] {
        let mut expected = names(theirs.say(request));
        expected.retain(|name| command::all().iter().any(|it| it.is_offered() && it.to_string() == *name));
        assert_eq!(names(ours.say(request)), expected, "{request}");
    }
}

/// Asks both, and expects the same.
#[track_caller]
fn both(theirs: &mut Client, ours: &mut Client, request: &str) {
    assert_eq!(ours.say(request), theirs.say(request), "{request}");
}

#[test]
fn keys_of_requests_are_found_as_by_redis() {
    let redis = RedisServer::start();
    let served = Served::start(2);
    let (theirs, ours) = (&mut redis.connect(), &mut served.connect());
    for words in [
        "nonsense a",
        "ping a",
        "get a b",
        "set a b",
        "set a b get",
        "mset a 1 b 2 c 3",
        "zunionstore to 2 a b",
        "zunionstore to 5 a b",
        "eval x 0",
        "eval x foo",
        "sort abc store def",
        "bitfield a get u8 0",
        "config get x",
        "config nonsense x",
        "xread count 2 streams a b 0 0",
        "migrate h 1 k 0 1",
    ] {
        both(theirs, ours, &format!("COMMAND GETKEYS {words}"));
        both(theirs, ours, &format!("COMMAND GETKEYSANDFLAGS {words}"));
    }
    for request in [
        "COMMAND GETKEYS get",
        "COMMAND LIST x",
        "COMMAND LIST FILTERBY FOO x",
        "COMMAND LIST FILTERBY pattern",
        "COMMAND LIST FILTERBY MODULE x",
        "COMMAND LIST FILTERBY ACLCAT nonsense",
        "COMMAND LIST FILTERBY PATTERN swap*",
        "COMMAND LIST FILTERBY PATTERN COMMAND|co*",
        "COMMAND NONSENSE",
        "COMMAND DOCS nonsense",
    ] {
        both(theirs, ours, request);
    }
}

#[test]
fn commands_are_documented() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let Value::Array(docs) = client.say("COMMAND DOCS GET nonsense slaveof command") else { panic!() };
    assert_eq!([&docs[0], &docs[2], &docs[4]], [&bulk("get"), &bulk("slaveof"), &bulk("command")]);
    let Value::Array(get) = &docs[1] else { panic!("{docs:?}") };
    assert_eq!(get[..2], [bulk("summary"), bulk(command::find(b"get").unwrap().summary)]);
    assert_eq!(get[2..6], [bulk("since"), bulk("1.0.0"), bulk("group"), bulk("string")]);
    let Value::Array(slaveof) = &docs[3] else { panic!("{docs:?}") };
    assert!(slaveof.windows(2).any(|pair| pair == [bulk("deprecated_since"), bulk("5.0.0")]), "{slaveof:?}");
    let Value::Array(command) = &docs[5] else { panic!("{docs:?}") };
    let [.., name, Value::Array(subcommands)] = &command[..] else { panic!("{command:?}") };
    assert_eq!((name, subcommands.len()), (&bulk("subcommands"), 14));
    assert_eq!(
        client.say("COMMAND HELP x"),
        error("ERR wrong number of arguments for 'command|help' command")
    );
    let Value::Array(lines) = client.say("COMMAND HELP") else { panic!("an array") };
    let first = "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:";
    assert_eq!(lines[0], Value::Simple(first.into()));
}

/// What cannot be called is refused by name, is nothing to COMMAND INFO, and documented with the
/// reason.
#[test]
fn what_is_not_offered_is_documented_with_the_reason() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let requests = [
        ("hexpire", "HEXPIRE k 10 FIELDS 1 f"),
        ("xadd", "XADD k * a b"),
        ("function|load", "FUNCTION LOAD x"),
    ];
    for (name, request) in requests {
        let Value::Error(refusal) = client.say(request) else { panic!("{request} is done") };
        let why = refusal.strip_prefix(&format!("ERR {name} is not offered yet: ")).expect("a reason");
        assert_eq!(client.say(&format!("COMMAND INFO {name}")), Value::Array(vec![Value::Null]), "{name}");
        let Value::Array(docs) = client.say(&format!("COMMAND DOCS {name}")) else { panic!("{name}") };
        let [found, Value::Array(parts)] = &docs[..] else { panic!("{docs:?}") };
        let Value::Bulk(summary) = &parts[1] else { panic!("{docs:?}") };
        let summary = String::from_utf8_lossy(summary);
        assert_eq!((found, &parts[0]), (&bulk(name), &bulk("summary")));
        assert!(summary.ends_with(&format!(" Not offered: {why}.")), "{summary}");
    }
    let Value::Array(docs) = client.say("COMMAND DOCS") else { panic!("an array") };
    assert_eq!(docs.len(), 2 * command::commands().len());
}
