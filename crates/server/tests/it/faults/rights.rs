//! S10: a subscriber of `a1` got messages after `resetchannels &b*`. Neighbours: patterns and
//! sharded channels, a removed user, MONITOR, a write that CLIENT PAUSE holds, a waiting client, a
//! subscription that stays allowed.

use std::time::Duration;

use firn_protocol::resp::Value;
use firn_server::ServeSettings;

use super::super::client::{Client, Served, ok, request};
use std::io::Write;

/// A client that is `user`.
fn logged_in(served: &Served, user: &str) -> Client {
    let mut client = served.connect();
    assert_eq!(client.call(&["AUTH", user, "p"]), ok());
    client
}

/// A right that goes while others have their turns amid a SUBSCRIBE.
#[test]
fn s10_a_right_that_goes_amid_a_subscription_ends_it() {
    let served = Served::with(ServeSettings { threads: 1, turn_us: 0, ..ServeSettings::default() });
    let admin = &mut served.connect();
    let rights = ["ACL", "SETUSER", "sub", "on", ">p", "+@all", "~*", "resetchannels", "&a*", "&b*"];
    assert_eq!(admin.call(&rights), ok());
    let mut client = logged_in(&served, "sub");
    let names: Vec<String> = (0..20_000).map(|number| format!("a{number}")).collect();
    let words = std::iter::once("SUBSCRIBE").chain(names.iter().map(String::as_str)).chain(["b1"]);
    client.stream.write_all(&request(&words.collect::<Vec<_>>())).unwrap();
    let is_begun = |admin: &mut Client| match admin.say("PUBSUB NUMSUB a0 b1") {
        Value::Array(counts) => counts[1] == Value::Integer(1),
        other => panic!("{other:?}"),
    };
    while !is_begun(admin) {}
    client.stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(admin.say("ACL SETUSER sub resetchannels &a*"), ok());
    while client.reply().is_some() {}
    assert_eq!(admin.say("PUBLISH b1 m"), Value::Integer(0));
}

#[test]
fn s10_subscriptions_end_with_the_right_to_them() {
    let served = Served::start(2);
    let admin = &mut served.connect();
    for user in ["sub", "free"] {
        assert_eq!(
            admin.call(&["ACL", "SETUSER", user, "on", ">p", "+@all", "~*", "resetchannels", "&a*", "&b*"]),
            ok()
        );
    }
    let subscribed = |user: &str, words: &[&str]| {
        let mut client = logged_in(&served, user);
        assert!(matches!(client.call(words), Value::Array(_) | Value::Simple(_)), "{words:?}");
        client
    };
    let mut gone = [
        subscribed("sub", &["SUBSCRIBE", "b1", "a1"]),
        subscribed("sub", &["PSUBSCRIBE", "a*"]),
        subscribed("sub", &["SSUBSCRIBE", "a1"]),
    ];
    let mut stay = [subscribed("sub", &["SUBSCRIBE", "b1"]), subscribed("free", &["SUBSCRIBE", "a1"])];
    let mut monitor = subscribed("sub", &["MONITOR"]);
    assert_eq!(admin.say("ACL SETUSER sub resetchannels &b*"), ok());
    for client in &mut gone {
        // The second confirmation of the first one was on its way.
        let rest = client.reply();
        assert!(rest.is_none() || client.reply().is_none(), "it is closed: {rest:?}");
    }
    assert_eq!(admin.say("PUBLISH a1 m"), Value::Integer(1), "of the other user");
    assert_eq!(admin.say("PUBLISH b1 m"), Value::Integer(1));
    for client in &mut stay {
        assert!(matches!(client.reply(), Some(Value::Array(message)) if message.len() == 3));
    }
    assert!(matches!(monitor.reply(), Some(Value::Simple(_))), "it may still");
    assert_eq!(admin.say("ACL SETUSER sub -monitor"), ok());
    while monitor.reply().is_some() {}
    // What is not removed is closed no more.
    assert_eq!(admin.say("PUBLISH b1 m"), Value::Integer(1));
    assert_eq!(admin.say("ACL DELUSER sub"), Value::Integer(1));
    assert_eq!(stay[0].reply().map(drop), Some(()));
    assert_eq!(stay[0].reply(), None);
}

#[test]
fn s10_what_was_held_is_asked_for_its_rights_when_it_runs() {
    let served = Served::start(1);
    let admin = &mut served.connect();
    let rules = ["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all"];
    assert_eq!(admin.call(&rules), ok());
    let (mut writer, mut waiter) = (logged_in(&served, "u"), logged_in(&served, "u"));
    waiter.stream.write_all(&request(&["BLPOP", "list", "0"])).expect("it is sent");
    while served.server.waiting_count() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(admin.say("CLIENT PAUSE 60000 WRITE"), ok());
    writer.stream.write_all(&request(&["SET", "k", "v"])).expect("it is sent");
    // It is held once a command behind it on the same thread was answered and it was not.
    let held = |client: &mut Client| {
        let Value::Bulk(list) = client.say("CLIENT LIST") else { panic!("a list") };
        String::from_utf8_lossy(&list).lines().any(|line| line.contains("cmd=set"))
    };
    while !held(admin) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(admin.say("ACL SETUSER u -set -blpop"), ok());
    assert_eq!(admin.say("CLIENT UNPAUSE"), ok());
    assert!(matches!(writer.reply(), Some(Value::Error(line)) if line.starts_with("NOPERM")));
    assert_eq!(admin.say("EXISTS k"), Value::Integer(0));
    assert_eq!(admin.say("RPUSH list a"), Value::Integer(1));
    assert!(matches!(waiter.reply(), Some(Value::Error(line)) if line.starts_with("NOPERM")));
    assert_eq!(admin.say("LLEN list"), Value::Integer(1), "it is left for others");
}
