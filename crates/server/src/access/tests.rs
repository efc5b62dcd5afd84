use super::password::Digest;
use super::rule::Fault;
use super::*;

fn user(rules: &str) -> User {
    let mut user = User::new(b"alice");
    rules.split_whitespace().for_each(|rule| user.apply(rule.as_bytes()).expect("a rule"));
    user
}

fn check(user: &User, request: &str) -> Result<(), Denied> {
    let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    let command = firn_protocol::command::resolve(&words).expect("a command");
    let arguments = firn_protocol::resp::OwnedArguments::new(words);
    user.check(command, arguments.get())
}

#[test]
fn rules_make_the_same_user_again() {
    for rules in [
        "on nopass ~* &* +@all",
        "on >secret >other ~a* %R~b* %W~c* &ch* &d +@read -get +set +config|get +select|0",
        "off +@all -@dangerous -config +config|get",
        "on %R~a %W~a ~b resetpass -@all",
        "+@all ~* resetkeys ~x &x resetchannels &y",
    ] {
        let before = user(rules);
        let text = String::from_utf8(before.rules()).unwrap();
        assert_eq!(user(&text), before, "{rules} became {text}");
    }
}

#[test]
fn what_could_not_be_read_again_is_no_rule() {
    for rules in ["%R~* %W~*", "%RW~*", "~b %RW~*", "%W~* ~b %R~*"] {
        let before = user(rules);
        assert_eq!(before.key_rules(), b"~*", "{rules}");
        assert_eq!(User::read(b"alice", &before.rules()), Ok(before), "{rules}");
    }
    let mut alice = user("%RW~*");
    assert_eq!(alice.apply(b"~b"), Err(Fault::NeedlessKeyPattern));
    for first in ["0 1", "0\t1", "\n", "\0"] {
        assert_eq!(alice.apply(format!("+select|{first}").as_bytes()), Err(Fault::Syntax), "{first:?}");
    }
    assert_eq!(alice.apply(b"+get|\xff"), Err(Fault::UnknownCommand));
    assert_eq!(User::read(b"alice", &alice.rules()), Ok(alice));
}

#[test]
fn a_user_who_cannot_be_read_may_do_nothing() {
    let recorded =
        [("alice", "on nopass ~* ~b +@all"), ("bob", "on nopass"), ("default", "on nopass nonsense")];
    let recorded = recorded.map(|(name, rules)| (name.into(), rules.into()));
    let mut unreadable = Vec::new();
    let users = Users::new(&recorded, &mut unreadable);
    assert!(
        unreadable[0].starts_with("the rule `~b` of user `alice`: Adding a pattern after"),
        "{unreadable:?}"
    );
    assert_eq!(unreadable[1..], ["the rule `nonsense` of user `default`: Syntax error"]);
    for (name, is_on) in [("alice", false), ("bob", true), ("default", false)] {
        assert_eq!(users.get(name.as_bytes()).map(|user| user.admits(b"")), Some(is_on), "{name}");
    }
    assert!(!users.is_open() && !users.is_open_to_all());
}

#[test]
fn the_text_is_as_clients_know_it() {
    let text = |rules: &str| String::from_utf8(user(rules).rules()).unwrap();
    assert_eq!(text(""), "off resetchannels -@all");
    assert_eq!(text("on nopass allkeys allchannels allcommands"), "on nopass ~* &* +@all");
    assert_eq!(text("%R~a %W~a %R~b"), "off ~a %R~b resetchannels -@all");
    assert_eq!(text("+config|get -config|set +config"), "off resetchannels -@all +config");
    assert_eq!(text("+GET -get +@Read +@read"), "off resetchannels -@all -get +@read");
    assert_eq!(text("on >a reset"), "off resetchannels -@all");
}

#[test]
fn commands_keys_and_channels_are_checked() {
    let alice = user("on ~a* %R~b* %W~c* &ch* +@all -@dangerous +sort -config +config|get -select +select|1");
    let allowed = [
        "GET a1",
        "SET a1 x",
        "GET b",
        "SET c x",
        "COPY b c",
        "EXISTS b",
        "CONFIG GET x",
        "PING",
        "SELECT 1",
        "PUBLISH ch1 x",
        "SUBSCRIBE ch ch2",
        "PSUBSCRIBE ch*",
        "AUTH x",
        "EVAL s 0",
        "EVAL s 1 a",
        "SORT a BY nosort",
    ];
    for request in allowed {
        assert_eq!(check(&alice, request), Ok(()), "{request}");
    }
    let denied = [
        ("FLUSHALL", Denied::Command),
        ("CONFIG SET x y", Denied::Command),
        ("SELECT 2", Denied::Command),
        ("GET c", Denied::Key(1)),
        ("SET b x", Denied::Key(1)),
        ("SET c x GET", Denied::Key(1)),
        ("MGET a1 b x", Denied::Key(3)),
        ("COPY c b", Denied::Key(1)),
        ("EVAL s 2 a", Denied::UnknownKeys),
        ("EVAL s x a", Denied::UnknownKeys),
        ("PUBLISH x y", Denied::Channel(1)),
        ("SUBSCRIBE ch1 x", Denied::Channel(2)),
        ("PSUBSCRIBE ch1", Denied::Channel(1)),
    ];
    for (request, reason) in denied {
        assert_eq!(check(&alice, request), Err(reason), "{request}");
    }
    let sorter = user("~a +sort");
    assert_eq!(check(&sorter, "SORT a BY w_*"), Err(Denied::SortOption("BY")));
    assert_eq!(check(&sorter, "SORT a GET w_*"), Err(Denied::SortOption("GET")));
    assert_eq!(check(&user("~* +sort"), "SORT a BY w_* GET x_*"), Ok(()));
}

#[test]
fn passwords_admit_whoever_knows_one_while_the_user_is_on() {
    let alice = user("on >one >two");
    assert!(alice.admits(b"one") && alice.admits(b"two") && !alice.admits(b"three") && !alice.admits(b""));
    assert!(!user("off >one").admits(b"one"));
    assert!(!user("on").admits(b""), "without a password nobody may");
    assert!(user("on nopass").admits(b"anything"));
    assert!(!user("on nopass >one").admits(b"anything"));
    let digest = Digest::of(b"pw");
    let hex = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4";
    assert_eq!(digest.to_hex(), hex);
    assert_eq!(Digest::from_hex(hex.as_bytes()), Some(digest));
    assert_eq!(Digest::from_hex(hex.to_uppercase().as_bytes()), None);
    assert!(!format!("{alice:?}").contains(&hex[..8]), "nothing of a password is shown");
}

#[test]
fn the_log_counts_what_is_the_same() {
    let mut log = AccessLog::default();
    let mut add = |object: &str, at_ms| {
        log.add(Entry {
            count: 1,
            reason: Reason::Key,
            context: Context::Alone,
            object: object.into(),
            user: b"alice".to_vec(),
            at_ms,
            client: String::new(),
        });
    };
    for (object, at_ms) in [("a", 0), ("b", 10), ("a", 60_000), ("a", 120_001)] {
        add(object, at_ms);
    }
    let found: Vec<_> = log.entries().map(|entry| (entry.object.as_slice(), entry.count)).collect();
    assert_eq!(found, [(&b"a"[..], 1), (b"a", 2), (b"b", 1)]);
    let latest = log.entries().next().unwrap().clone();
    for number in 0..200 {
        log.add(Entry { object: format!("{number}").into(), ..latest.clone() });
    }
    assert_eq!(log.entries().len(), 128);
}

#[test]
fn secrets_are_known() {
    let secret = |request: &str| {
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let command = firn_protocol::command::resolve(&words).expect("a command");
        let arguments = firn_protocol::resp::OwnedArguments::new(words);
        secret_arguments(command, arguments.get())
    };
    assert_eq!(secret("AUTH pw"), [1]);
    assert_eq!(secret("AUTH user pw"), [1, 2]);
    assert_eq!(secret("HELLO 3 SETNAME n AUTH user pw"), [5, 6]);
    assert_eq!(secret("ACL SETUSER alice on >pw"), [2, 3, 4]);
    assert_eq!(secret("CONFIG SET timeout 1 requirepass pw"), [5]);
    assert_eq!(secret("CONFIG SET tls-key-file-pass pw timeout 1"), [3, 4, 5]);
    assert_eq!(secret("CONFIG SET TLS-client-key-file-pass pw"), [3]);
    assert_eq!(secret("MIGRATE h 1 k 0 1 AUTH2 user pw"), [7, 8]);
    assert!(secret("SET auth pw").is_empty());
}
