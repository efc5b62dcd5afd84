//! A client's user and its rights: dialogues of several connections, the same with both servers.

use firn_protocol::resp::Value;

use super::server::RedisServer;
use super::{Client, Served, null_arrays};

/// Says each line (`connection: words`) to both servers and compares what they answer.
fn compare(dialogue: &str) {
    let redis = RedisServer::start();
    let served = Served::start(2);
    let mut pairs: Vec<(Client, Client)> = Vec::new();
    let mut said = Vec::new();
    for line in dialogue.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (connection, words) = line.split_once(": ").expect("a connection and words");
        let connection: usize = connection.parse().expect("the connection's number");
        while pairs.len() <= connection {
            pairs.push((redis.connect(), served.connect()));
        }
        said.push(line);
        let (theirs, ours) = &mut pairs[connection];
        let (expected, found) = (settled(theirs.say(words)), settled(ours.say(words)));
        assert_eq!(found, expected, "left: Firn, right: Redis, after\n{}", said.join("\n"));
        assert_eq!(
            null_arrays(ours),
            null_arrays(theirs),
            "arrays that are none, after\n{}",
            said.join("\n")
        );
    }
}

/// A reply without what two servers cannot have in common: numbers of connections, descriptions,
/// ages.
fn settled(reply: Value) -> Value {
    let is = |value: &Value, word: &str| matches!(value, Value::Bulk(bytes) if bytes == word.as_bytes());
    let settle = |values: Vec<Value>| {
        let mut settled: Vec<Value> = values.into_iter().map(settled).collect();
        for index in 1..settled.len() {
            let before = &settled[index - 1];
            if is(before, "id") || is(before, "client-info") || is(before, "age-seconds") {
                settled[index] = Value::Null;
            }
        }
        settled
    };
    match reply {
        Value::Array(values) => Value::Array(settle(values)),
        Value::Set(values) => Value::Set(settle(values)),
        Value::Map(pairs) => Value::Map(
            pairs
                .into_iter()
                .map(|(name, value)| {
                    let mut pair = settle(vec![name, value]).into_iter();
                    (pair.next().expect("two"), pair.next().expect("two"))
                })
                .collect(),
        ),
        other => other,
    }
}

#[test]
fn greetings_are_answered_as_in_redis() {
    compare(
        "0: HELLO
         0: HELLO 3
         0: HELLO 2 SETNAME me
         0: CLIENT GETNAME
         0: HELLO 4
         0: HELLO x
         0: HELLO 3 NONSENSE
         0: HELLO 3 AUTH default
         0: HELLO 3 SETNAME
         0: HELLO 3 AUTH default any SETNAME you
         0: CLIENT GETNAME
         0: AUTH x
         0: AUTH default x
         0: AUTH a b c
         0: AUTH nobody x
         0: HELLO 2 AUTH nobody x SETNAME other
         0: CLIENT GETNAME
         0: MULTI
         0: SELECT 3
         0: RESET
         0: CLIENT GETNAME
         0: EXEC
         0: RESET x
         0: CLIENT SETNAME a\tb
         0: CLIENT SETNAME ok
         0: CLIENT GETNAME
         0: CLIENT NONSENSE
         0: CLIENT
         0: CLIENT GETREDIR
         0: CLIENT TRACKINGINFO
         0: HELLO 3
         0: CLIENT TRACKINGINFO
         0: CLIENT GETNAME x
         0: QUIT",
    );
}

#[test]
fn commands_about_connections_are_answered_as_in_redis() {
    compare(
        "0: PING
         1: PING
         0: CLIENT KILL a
         0: CLIENT KILL 1.2.3.4:5
         0: CLIENT KILL ID x
         0: CLIENT KILL ID 0
         0: CLIENT KILL ID -5
         0: CLIENT KILL ID 99999
         0: CLIENT KILL ID 99999 SKIPME
         0: CLIENT KILL TYPE nonsense
         0: CLIENT KILL TYPE pubsub
         0: CLIENT KILL TYPE replica
         0: CLIENT KILL USER nobody
         0: CLIENT KILL SKIPME maybe
         0: CLIENT KILL NONSENSE x
         0: CLIENT KILL
         0: CLIENT KILL ADDR 1.1.1.1:1 LADDR 1.1.1.1:2 USER default TYPE pubsub SKIPME no ID 3
         0: CLIENT LIST TYPE nonsense
         0: CLIENT LIST TYPE
         0: CLIENT LIST TYPE normal x
         0: CLIENT LIST TYPE replica
         0: CLIENT LIST ID
         0: CLIENT LIST ID x
         0: CLIENT LIST ID 99998 99999
         0: CLIENT LIST ID 0 -1
         0: CLIENT LIST nonsense
         0: CLIENT PAUSE x
         0: CLIENT PAUSE -1
         0: CLIENT PAUSE 1 nonsense
         0: CLIENT PAUSE 1 WRITE x
         0: CLIENT UNPAUSE
         0: CLIENT UNBLOCK x
         0: CLIENT UNBLOCK 99999
         0: CLIENT UNBLOCK -1 ERROR
         0: CLIENT UNBLOCK 3 nonsense
         0: CLIENT UNBLOCK 3 TIMEOUT x
         0: CLIENT NO-EVICT maybe
         0: CLIENT NO-EVICT on
         0: CLIENT NO-EVICT off
         0: CLIENT REPLY nonsense
         0: CLIENT REPLY on
         0: CLIENT INFO x
         0: CLIENT ID x
         0: CLIENT KILL TYPE normal
         0: PING",
    );
}

#[test]
fn what_is_not_there_is_answered_as_in_redis() {
    compare(
        "0: ACL GETUSER nobody
         0: COMMAND INFO nosuch
         0: COMMAND INFO nosuch config|nosuch nosuch2
         0: HELLO 3
         0: ACL GETUSER nobody
         0: COMMAND INFO nosuch
         0: HELLO 2
         0: PUBSUB CHANNELS a b
         0: PUBSUB SHARDCHANNELS a b
         0: PUBSUB CHANNELS
         0: PUBSUB NUMSUB
         0: PUBSUB NUMPAT a
         0: PUBSUB HELP x
         0: SCAN -1
         0: SCAN +0
         0: SCAN 00
         0: SCAN -
         0: SCAN +
         0: SCAN +-1
         0: SCAN -1 COUNT x
         0: SCAN -18446744073709551615
         0: SCAN 18446744073709551615
         0: SCAN 18446744073709551616
         0: SCAN -99999999999999999999
         0: SSCAN nokey -1
         0: HSCAN nokey x",
    );
}

#[test]
fn users_are_answered_as_in_redis() {
    compare(
        "0: ACL WHOAMI
         0: ACL LIST
         0: ACL USERS
         0: ACL GETUSER default
         0: ACL GETUSER nobody
         0: ACL CAT
         0: ACL CAT nonsense
         0: ACL SETUSER bob
         0: ACL GETUSER bob
         0: ACL SETUSER alice ON >pw ~a* %R~b* %W~c* %rw~d &ch* &x -@all
         0: ACL SETUSER alice ~a* %W~b* &x
         0: ACL LIST
         0: ACL GETUSER alice
         0: HELLO 3
         0: ACL GETUSER alice
         0: HELLO 2
         0: ACL SETUSER alice !30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4
         0: ACL SETUSER alice <pw
         0: ACL SETUSER alice #30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4 resetchannels allchannels
         0: ACL LIST
         0: ACL SETUSER alice +nonsense
         0: ACL SETUSER alice +@nonsense
         0: ACL SETUSER alice @read
         0: ACL SETUSER alice <zz
         0: ACL SETUSER alice #abc
         0: ACL SETUSER alice !abc
         0: ACL SETUSER alice %X~a
         0: ACL SETUSER alice %~a
         0: ACL SETUSER alice nonsense
         0: ACL SETUSER alice +config|nonsense
         0: ACL SETUSER alice -select|0
         0: ACL SETUSER alice +config|get|x
         0: ACL SETUSER alice +get|
         0: ACL SETUSER alice +
         0: ACL SETUSER alice )
         0: ACL SETUSER alice &more
         0: ACL SETUSER alice allkeys
         0: ACL SETUSER alice ~more
         0: ACL SETUSER alice on +@all -@nonsense
         0: ACL SETUSER carol on nopass allkeys allchannels allcommands
         0: ACL LIST
         0: ACL SETUSER carol resetpass nocommands resetkeys resetchannels off
         0: ACL LIST
         0: ACL DELUSER default
         0: ACL DELUSER alice nobody
         0: ACL DELUSER alice
         0: ACL USERS
         0: ACL GENPASS 0
         0: ACL GENPASS x
         0: ACL GENPASS 4097
         0: ACL LOG x
         0: ACL LOG -1
         0: ACL LOG 1 2
         0: ACL NONSENSE
         0: ACL SETUSER
         0: ACL WHOAMI x",
    );
}

#[test]
fn what_is_refused_is_refused_as_in_redis() {
    compare(
        "0: ACL SETUSER alice on >pw ~a* %R~b* &ch* +get +set +mget +publish +subscribe +psubscribe +multi +exec +copy
         0: ACL LOG RESET
         1: AUTH alice wrong
         1: AUTH alice pw
         1: GET a1
         1: GET x
         1: GET b1
         1: SET b1 x
         1: SET b1 x GET
         1: MGET a1 b1 x
         1: COPY b a
         1: COPY a b
         1: FLUSHALL
         1: CLIENT PAUSE 1
         1: CLIENT
         1: GET
         1: NONSENSE
         1: PUBLISH x y
         1: PUBLISH ch1 y
         1: PSUBSCRIBE ch1
         1: SUBSCRIBE x ch1
         1: ACL WHOAMI
         1: MULTI
         1: GET a1
         1: EXEC
         1: MULTI
         1: GET x
         1: GET a1
         1: EXEC
         0: ACL LOG
         0: HELLO 3
         0: ACL LOG 2
         0: ACL DRYRUN nobody get a
         0: ACL DRYRUN alice nonsense
         0: ACL DRYRUN alice get
         0: ACL DRYRUN alice get a1
         0: ACL DRYRUN alice get x
         0: ACL DRYRUN alice set b1 x
         0: ACL DRYRUN alice flushall
         0: ACL DRYRUN alice client pause 1
         0: ACL DRYRUN alice subscribe x
         0: ACL DRYRUN alice subscribe ch1
         0: ACL DRYRUN alice psubscribe ch1
         0: ACL DRYRUN default get a
         0: ACL SETUSER default >secret
         0: GET a
         2: GET a
         2: GET
         2: NONSENSE
         2: HELLO 3
         2: HELLO 3 AUTH default wrong
         2: PING
         2: MULTI
         2: AUTH wrong
         2: RESET
         2: AUTH secret
         2: PING
         2: ACL SETUSER default off
         2: PING
         3: AUTH secret
         3: PING
         2: ACL SETUSER default on nopass
         3: PING",
    );
}
