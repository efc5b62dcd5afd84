//! Users, passwords, and what each user is refused.

use firn_protocol::resp::Value;
use firn_server::{Password, ServeSettings};

use super::client::{Client, Served, bulk, error, ok};

fn no_auth() -> Value {
    error("NOAUTH Authentication required.")
}

const NEEDLESS: &str = "ERR Error in ACL SETUSER modifier '~b': Adding a pattern after the * pattern (or the 'allkeys' \
                        flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of \
                        patterns";

fn wrong_password() -> Value {
    error("WRONGPASS invalid username-password pair or user is disabled.")
}

fn with_password() -> ServeSettings {
    ServeSettings { threads: 2, password: Password::new("secret"), ..ServeSettings::default() }
}

/// A connection logged in as the user `alice`, which must exist with the password `pw`.
fn alice(served: &Served) -> Client {
    let mut client = served.connect();
    assert_eq!(client.say("AUTH alice pw"), ok());
    client
}

#[test]
fn with_a_password_nobody_does_anything_before_saying_it() {
    let served = Served::with(with_password());
    let client = &mut served.connect();
    for line in ["GET k", "SET k v", "MULTI", "ACL WHOAMI", "CLIENT ID", "PING", "SELECT 1"] {
        assert_eq!(client.say(line), no_auth(), "{line}");
    }
    assert_eq!(client.say("AUTH wrong"), wrong_password());
    assert_eq!(client.say("AUTH nobody secret"), wrong_password());
    assert_eq!(client.say("GET k"), no_auth());
    assert_eq!(client.say("AUTH secret"), ok());
    assert_eq!(client.say("SET k v"), ok());
    assert_eq!(client.say("RESET"), Value::Simple("RESET".into()));
    assert_eq!(client.say("GET k"), no_auth());
    assert!(matches!(client.say("HELLO 3"), Value::Error(text) if text.starts_with("NOAUTH HELLO must")));
    assert!(matches!(client.say("HELLO 3 AUTH default secret"), Value::Map(_)));
    assert_eq!(client.say("GET k"), bulk("v"));
    assert_eq!(served.connect().say("QUIT"), ok());
}

#[test]
fn who_is_not_known_may_not_send_much() {
    let served = Served::with(with_password());
    let words = |count: usize, bytes: usize| vec!["x".repeat(bytes); count];
    let mut client = served.connect();
    client.stream.set_nonblocking(false).unwrap();
    assert_eq!(client.call(&words(11, 1)), error("ERR Protocol error: unauthenticated multibulk length"));
    assert_eq!(client.reply(), None);
    assert_eq!(
        served.connect().call(&words(2, 16_385)),
        error("ERR Protocol error: unauthenticated bulk length")
    );
    let mut known = served.connect();
    assert_eq!(known.say("AUTH secret"), ok());
    assert_eq!(known.call(&["SET", "k", &"x".repeat(100_000)]), ok());
}

#[test]
fn a_change_of_rules_holds_for_the_next_request_of_every_connection() {
    let served = Served::start(2);
    let admin = &mut served.connect();
    assert_eq!(admin.say("ACL SETUSER alice on >pw ~a* +get +set +multi +exec"), ok());
    let mut clients: Vec<Client> = (0..4).map(|_| alice(&served)).collect();
    let denied = error("NOPERM this user has no permissions to run the 'set' command");
    for round in 0..50 {
        assert_eq!(admin.say("ACL SETUSER alice -set"), ok());
        for client in &mut clients {
            assert_eq!(client.say("SET a 1"), denied, "round {round}");
        }
        assert_eq!(admin.say("ACL SETUSER alice +set"), ok());
        for client in &mut clients {
            assert_eq!(client.say("SET a 1"), ok(), "round {round}");
            assert_eq!(
                client.say("SET b 1"),
                error("NOPERM this user has no permissions to access one of the keys used as arguments")
            );
        }
    }
}

#[test]
fn what_was_queued_is_checked_again() {
    let served = Served::start(2);
    let admin = &mut served.connect();
    admin.say("ACL SETUSER alice on >pw ~* +get +set +multi +exec");
    let client = &mut alice(&served);
    client.say("MULTI");
    client.say("SET k 1");
    client.say("GET k");
    admin.say("ACL SETUSER alice -get");
    let Value::Array(replies) = client.say("EXEC") else { panic!("it runs") };
    assert_eq!(replies[0], ok());
    assert!(matches!(&replies[1], Value::Error(text) if text.starts_with("NOPERM ACLs rules changed")));
    // What is refused at once refuses all.
    client.say("MULTI");
    client.say("SET k 2");
    client.say("GET k");
    assert_eq!(client.say("EXEC"), error("EXECABORT Transaction discarded because of previous errors."));
    admin.say("ACL SETUSER alice +get -exec");
    client.say("MULTI");
    assert_eq!(
        client.say("EXEC"),
        error(
            "EXECABORT Transaction discarded because of: NOPERM this user has no permissions to run the 'exec' command"
        )
    );
    assert_eq!(client.say("GET k"), bulk("1"), "the transaction is over");
}

#[test]
fn a_user_who_is_removed_loses_all_connections() {
    let served = Served::start(2);
    let admin = &mut served.connect();
    admin.say("ACL SETUSER alice on >pw +@all ~* &*");
    let mut clients: Vec<Client> = (0..4).map(|_| alice(&served)).collect();
    assert_eq!(admin.say("ACL DELUSER alice bob"), Value::Integer(1));
    for client in &mut clients {
        assert_eq!(client.reply(), None);
    }
    assert_eq!(served.connect().say("AUTH alice pw"), wrong_password());
    assert_eq!(admin.say("ACL WHOAMI"), bulk("default"));
}

#[test]
fn users_survive_a_restart() {
    let served = Served::start(2);
    let admin = &mut served.connect();
    admin.say("ACL SETUSER alice on >pw ~a* %R~b &ch +@all -@dangerous +config|get");
    admin.say("ACL SETUSER bob off nopass");
    admin.say("ACL SETUSER carol on");
    admin.say("ACL DELUSER carol");
    assert_eq!(admin.say("ACL SETUSER dave %R~* %W~* ~b"), error(NEEDLESS));
    assert_eq!(admin.say("ACL SETUSER dave %RW~*"), ok());
    let blank = ["ACL", "SETUSER", "dave", "+select|0 1"];
    assert_eq!(admin.call(&blank), error("ERR Error in ACL SETUSER modifier '+select|0 1': Syntax error"));
    let before = admin.say("ACL LIST");
    let served = served.restart();
    assert_eq!(served.connect().say("ACL LIST"), before);
    alice(&served);
    // The default user's own password is kept too, until the settings say another.
    served.connect().say("ACL SETUSER default >mine");
    let served = served.restart();
    assert_eq!(served.connect().say("PING"), no_auth());
    assert_eq!(served.connect().say("AUTH mine"), ok());
    let served = served.restart_with(with_password());
    assert_eq!(served.connect().say("AUTH mine"), wrong_password());
    assert_eq!(served.connect().say("AUTH secret"), ok());
}

#[test]
fn many_at_once_change_users_without_losing_any() {
    let served = Served::start(2);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let served = &served;
            scope.spawn(move || {
                let mut client = served.connect();
                for number in 0..25 {
                    assert_eq!(client.say(&format!("ACL SETUSER user-{writer}-{number} on nopass")), ok());
                }
            });
        }
    });
    let count = |served: &Served| match served.connect().say("ACL USERS") {
        Value::Array(names) => names.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(count(&served), 101);
    assert_eq!(count(&served.restart()), 101);
}

#[test]
fn a_password_and_other_rules_do_not_undo_each_other() {
    let served = Served::start(2);
    let (mut setting, mut naming) = (served.connect(), served.connect());
    // Served before there is a password.
    assert_eq!(setting.say("PING"), naming.say("PING"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..200 {
                assert_eq!(setting.say(&format!("CONFIG SET requirepass pw-{number}")), ok());
                assert_eq!(setting.say(&format!("AUTH pw-{number}")), ok(), "{number}");
            }
        });
        for number in 0..200 {
            // The default user too, whose other rules stay.
            assert_eq!(naming.say("ACL SETUSER default on"), ok());
            assert_eq!(naming.say(&format!("ACL SETUSER user-{number} on nopass")), ok());
            let found = naming.say(&format!("ACL GETUSER user-{number}"));
            assert!(matches!(found, Value::Array(_)), "{number}: {found:?}");
        }
    });
    let Value::Array(names) = naming.say("ACL USERS") else { panic!("names") };
    assert_eq!(names.len(), 201);
}

#[test]
fn random_passwords_have_the_length_asked_for_and_are_not_the_same() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let mut password = |line: &str| match client.say(line) {
        Value::Bulk(digits) => String::from_utf8(digits).expect("digits"),
        other => panic!("{other:?}"),
    };
    for (line, digits) in
        [("ACL GENPASS", 64), ("ACL GENPASS 5", 2), ("ACL GENPASS 4096", 1024), ("ACL GENPASS 4", 1)]
    {
        let found = password(line);
        assert_eq!(found.len(), digits, "{line}");
        assert!(found.bytes().all(|digit| digit.is_ascii_hexdigit()), "{found}");
    }
    assert_ne!(password("ACL GENPASS"), password("ACL GENPASS"));
}
