//! S13: CONFIG GET of 300 000 patterns stood all clients of a thread for 4 s. ACL SETUSER of 20 000
//! rules and EVAL of 300 000 keys did so for 0.6 s. COMMAND INFO of 300 000 names did so for 0.4 s.
//! Neighbours: EVAL of arguments, COMMAND DOCS, GETKEYS and GETKEYSANDFLAGS, LATENCY HISTOGRAM and
//! RESET, SCRIPT EXISTS, ACL DELUSER. Also the end of subscriptions to which a user has no right
//! any more.

use std::time::{Duration, Instant};

use firn_protocol::resp::Value;

use super::super::client::{Client, Served, bulk, ok, request};
use super::beside::in_three;
use super::turns::{COUNT, Measure, Words, count_turns, run_all, with_numbers};

/// What names very many things that are no keys.
const QUESTIONS: [Words; 14] = [
    (&["COMMAND", "INFO"], &["get"], 30),
    (&["COMMAND", "INFO"], &["none-#"], 3),
    (&["COMMAND", "DOCS"], &["get"], 14),
    (&["COMMAND", "GETKEYS", "MGET"], &["k#"], 3),
    (&["COMMAND", "GETKEYSANDFLAGS", "MGET"], &["k#"], 5),
    (&["CONFIG", "GET"], &["*a#*b"], 60),
    (&["LATENCY", "HISTOGRAM"], &["none-#"], 3),
    (&["LATENCY", "RESET"], &["none-#"], 3),
    (&["SCRIPT", "EXISTS"], &["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], 4),
    (&["EVAL", "return #ARGV", "0"], &["argument-#"], 3),
    (&["ACL", "DELUSER"], &["none-#"], 3),
    (&["ACL", "SETUSER", "of-keys"], &["~k#"], 25),
    (&["ACL", "SETUSER", "of-channels"], &["&c#"], 25),
    (&["ACL", "SETUSER", "of-first-words"], &["+get|#"], 25),
];

#[test]
fn s13_questions_of_many_names_leave_others_their_turns() {
    count_turns(COUNT / 1000, |served, measure| {
        run_all(served, &QUESTIONS, COUNT, measure);
        // Keys of a script are locked as well, before it is given them.
        let words = with_numbers(&["EVAL", "return #KEYS", &COUNT.to_string()], &["k#"], COUNT);
        measure(served, "EVAL of keys", 3, &mut || {
            assert_eq!(served.connect().call(&words), Value::Integer(COUNT as i64));
        });
        deny(served, measure);
    });
}

/// Subscribers to very many channels, whose user loses a right.
fn deny(served: &Served, measure: Measure<'_>) {
    let mut admin = served.connect();
    let patterns: Vec<String> = (0..40).map(|number| format!("&{number}:*")).collect();
    let words = ["ACL", "SETUSER", "listener", "on", "nopass", "+@all", "&c*", "&other"];
    let words: Vec<&str> = words.into_iter().chain(patterns.iter().map(String::as_str)).collect();
    assert_eq!(admin.call(&words), ok());
    let subscribe = |names: &[String]| {
        let mut client = served.connect();
        assert_eq!(client.say("AUTH listener x"), ok());
        std::io::Write::write_all(&mut client.stream, &request(names)).expect("it is sent");
        (1..names.len()).for_each(|_| assert!(client.reply().is_some()));
        client
    };
    let mut names = with_numbers(&["SUBSCRIBE"], &["c#"], COUNT);
    let mut kept = subscribe(&names);
    names.push("other".to_owned());
    let mut closed = subscribe(&names);
    // Each of its patterns is compared with each name, of two clients.
    measure(served, "ACL SETUSER beside subscribers", 1, &mut || {
        assert_eq!(admin.call(&["ACL", "SETUSER", "listener", "resetchannels", "&c*"]), ok());
    });
    assert_eq!(closed.reply(), None, "it was subscribed to what its user may not see");
    assert_eq!(admin.say("PUBLISH c7 x"), Value::Integer(1));
    assert_eq!(kept.reply(), Some(Value::Array(vec![bulk("message"), bulk("c7"), bulk("x")])));
}

/// Rules of a user, in their order, each once: also where there are many.
#[test]
fn s13_many_rules_are_those_that_were_set() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let rules = |client: &mut Client, user: &str| {
        let Value::Array(fields) = client.say(&format!("ACL GETUSER {user}")) else { panic!("a user") };
        fields
    };
    let set =
        ["ACL", "SETUSER", "u", "~b", "%R~a", "&d", "&c", "~b", "&d", "+get|x", "+set", "+get|y", "%W~a"];
    assert_eq!(client.call(&set), ok());
    let found = rules(client, "u");
    assert_eq!(found[5], bulk("-@all +get|x +set +get|y"));
    assert_eq!((&found[7], &found[9]), (&bulk("~b ~a"), &bulk("&d &c")));
    // What comes later makes void what is of the same command, and of nothing else.
    assert_eq!(client.call(&["ACL", "SETUSER", "u", "+get", "+set|p", "-set", "+getdel", "+set|q"]), ok());
    assert_eq!(rules(client, "u")[5], bulk("-@all +get -set +getdel +set|q"));
    // A password is taken out of the middle.
    assert_eq!(client.call(&["ACL", "SETUSER", "u", ">1", ">2", ">3", ">2", "<2"]), ok());
    let Value::Array(passwords) = rules(client, "u").swap_remove(3) else { panic!("an array") };
    assert_eq!(passwords.len(), 2);
    let served = served.restart();
    let client = &mut served.connect();
    assert_eq!(rules(client, "u")[7], bulk("~b ~a"));
    // Ten times as many rules take some ten times as long, and not a hundred times.
    let mut users = 0;
    let mut took = |sign: &str, count: usize| {
        users += 1;
        let user = format!("u{users}");
        let rules = with_numbers(&["ACL", "SETUSER", &user], &[&format!("{sign}#")], count);
        let start = Instant::now();
        assert_eq!(client.call(&rules), ok());
        start.elapsed()
    };
    for sign in ["~", "&", ">", "+get|"] {
        in_three(|| {
            let (few, many) = (took(sign, 5_000), took(sign, 50_000));
            match many < 40 * few + Duration::from_millis(500) {
                true => String::new(),
                false => format!("{sign}: {few:?} for a tenth of the rules, {many:?} for all"),
            }
        });
    }
}
