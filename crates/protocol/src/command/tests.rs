//! Whether the table is consistent with itself, and its keys with what requests hold.

use std::collections::HashSet;

use super::*;

fn command(words: &[&str]) -> &'static Command {
    resolve(words).unwrap_or_else(|refusal| panic!("{words:?}: {refusal:?}"))
}

fn words(request: &str) -> Vec<&str> {
    request.split(' ').map(|word| if word == "\"\"" { "" } else { word }).collect()
}

/// The keys of a request, joined by blanks, or the error.
fn keys(request: &str) -> String {
    let words = words(request);
    match keys_of(command(&words), &words) {
        Ok(found) => found.into_iter().map(|index| words[index]).collect::<Vec<_>>().join(" "),
        Err(error) => error.to_string(),
    }
}

/// Keys of a request with the flags that rights depend on.
fn rights(request: &str) -> String {
    let words = words(request);
    let mut found = Vec::new();
    let visit = |key: KeyUse| {
        let reads = if key.flags.reads() { "R" } else { "" };
        let writes = if key.flags.writes() { "W" } else { "" };
        found.push(format!("{}:{reads}{writes}", words[key.index]));
    };
    visit_keys(command(&words), &words, visit).unwrap();
    found.join(" ")
}

#[test]
fn names_are_unique_and_lower_case() {
    let mut seen = HashSet::new();
    for command in all() {
        assert!(seen.insert(command.to_string()), "{command} twice");
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        assert!(command.name.bytes().all(is_plain), "{command}");
        assert!(!command.name.is_empty());
    }
    assert_eq!(seen.len(), COUNT);
}

#[test]
fn every_command_is_found_in_any_case() {
    for command in commands() {
        let upper = command.name.to_uppercase();
        let mixed: String = (command.name.chars().enumerate())
            .map(|(index, letter)| if index % 2 == 0 { letter.to_ascii_uppercase() } else { letter })
            .collect();
        for name in [command.name, &upper, &mixed] {
            assert_eq!(find(name.as_bytes()).map(Command::id), Some(command.id()), "{name}");
        }
        for subcommand in command.subcommands() {
            let upper = subcommand.name.to_uppercase();
            let found = find_subcommand(command, upper.as_bytes()).unwrap();
            assert_eq!((found.id(), found.container), (subcommand.id(), Some(command.name)));
        }
    }
}

#[test]
fn nothing_else_is_found() {
    let known: HashSet<&str> = commands().iter().map(|command| command.name).collect();
    let mut names: Vec<Vec<u8>> =
        ["", "g", "ge", "gett", "set\0", "\0set", "config|get", "getdel ", "sort\u{7f}ro"]
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
    names.push(vec![b'a'; 1 << 20]);
    for command in commands() {
        for index in 0..command.name.len() {
            for byte in [0, b'@', b'\r', b'_', b'-', b'a', b'Z', 0x7f, 0xff] {
                let mut name = command.name.as_bytes().to_vec();
                name[index] = byte;
                names.push(name);
            }
        }
    }
    for name in names {
        let lower = name.to_ascii_lowercase();
        let is_known = std::str::from_utf8(&lower).is_ok_and(|lower| known.contains(lower));
        assert_eq!(find(&name).is_some(), is_known, "{}", name.escape_ascii());
    }
}

#[test]
fn numbers_are_positions_in_the_table() {
    for (index, command) in all().iter().enumerate() {
        assert_eq!(command.id().index(), index);
        assert_eq!(get(command.id()).map(ToString::to_string), Some(command.to_string()));
        assert_eq!(id_of(&command.to_string()), command.id());
    }
    const GET: CommandId = id_of("get");
    const CONFIG_GET: CommandId = id_of("config|get");
    assert_ne!(GET, CONFIG_GET);
    assert!(get(CommandId::NONE).is_none());
}

#[test]
fn arity_fits_keys_and_subcommands() {
    for command in all() {
        let least = command.arity.unsigned_abs() as usize;
        let names = if command.container.is_some() { 2 } else { 1 };
        assert!(least >= names, "{command}");
        assert!(command.accepts(least) && !command.accepts(least - 1), "{command}");
        assert_eq!(command.accepts(least + 1), command.arity < 0, "{command}");
        if !command.subcommands().is_empty() {
            assert!(command.arity < 0 && command.key_specs.is_empty(), "{command}");
            assert!(least == 2 || command.name == "command", "{command}");
        }
        for spec in command.key_specs.iter().filter(|spec| !spec.flags.has(KeyFlag::NotKey)) {
            match (spec.begin, spec.extent) {
                (Begin::Index(begin), Extent::Range { last: 0.., .. }) => {
                    assert!((names..least).contains(&(begin as usize)), "{command}");
                }
                (Begin::Index(begin), Extent::Range { last, .. }) => {
                    // PFMERGE may have no source.
                    let keys = if command.name == "pfmerge" { 0 } else { 1 };
                    assert!(begin as usize + last.unsigned_abs() as usize + keys <= least + 1, "{command}");
                    assert!(command.arity < 0, "{command}");
                }
                (Begin::Index(begin), Extent::Counted { first, .. }) => {
                    let needed = if command.flags.has(Flag::NoMandatoryKeys) { 0 } else { first };
                    assert!(((begin + needed) as usize) < least, "{command}");
                }
                _ => {}
            }
        }
    }
}

/// COMMAND leaves out what is not offered: a container that were not would hide what clients can
/// call.
#[test]
fn a_container_is_offered_if_one_of_its_subcommands_is() {
    for command in commands().iter().filter(|command| !command.subcommands().is_empty()) {
        let has_offered = command.subcommands().iter().any(Command::is_offered);
        assert_eq!(command.is_offered(), has_offered, "{command}");
    }
}

/// Each command that is not offered gives a reason, and the page names what to do instead.
#[test]
fn what_is_not_offered_belongs_to_a_feature() {
    for command in all() {
        if let Offered::NotYet(absence) = command.offered {
            assert!(ABSENCES.contains(absence), "{command}: {absence:?}");
        }
    }
    for (index, absence) in ABSENCES.iter().enumerate() {
        let Absence { feature, reason, instead } = absence;
        assert!(ABSENCES.iter().skip(index + 1).all(|other| other.feature != *feature), "{feature} twice");
        assert!(!reason.is_empty() && !reason.ends_with('.') && instead.ends_with('.'), "{absence:?}");
    }
}

#[test]
fn categories_follow_flags() {
    for command in all() {
        let categories = command.categories;
        let pairs = [
            (Flag::Write, Category::Write),
            (Flag::Admin, Category::Admin),
            (Flag::Admin, Category::Dangerous),
            (Flag::Blocking, Category::Blocking),
            (Flag::PubSub, Category::PubSub),
        ];
        for (flag, category) in pairs {
            assert!(!command.flags.has(flag) || categories.has(category), "{command} {category:?}");
        }
        let reads = command.flags.has(Flag::ReadOnly) && command.group != Group::Scripting;
        assert!(!reads || categories.has(Category::Read), "{command}");
        assert_eq!(command.flags.has(Flag::Fast), categories.has(Category::Fast), "{command}");
        assert_ne!(categories.has(Category::Fast), categories.has(Category::Slow), "{command}");
        assert!(!(command.flags.has(Flag::Write) && command.flags.has(Flag::ReadOnly)), "{command}");
    }
}

#[test]
fn uses_of_keys_fit_flags() {
    for command in all() {
        for spec in command.key_specs {
            let writes = spec.flags.writes() && !spec.flags.has(KeyFlag::NotKey);
            let may_write = command.flags.has(Flag::Write) || command.flags.has(Flag::NoMandatoryKeys);
            assert!(!writes || may_write, "{command}");
        }
        if command.flags.has(Flag::Write) && command.has_keys() && command.name != "pfdebug" {
            let last_resort = ["pfcount", "xreadgroup"].contains(&command.name);
            let writes = command.key_specs.iter().any(|spec| spec.flags.writes());
            assert!(writes || last_resort, "{command}");
        }
    }
}

#[test]
fn names_of_flags_and_categories_are_as_clients_see_them() {
    let set = command(&["set", "k", "v"]);
    assert_eq!(set.flag_names().collect::<Vec<_>>(), ["write", "denyoom"]);
    assert_eq!(set.category_names().collect::<Vec<_>>(), ["@write", "@string", "@slow"]);
    let eval = command(&["EVAL", "", "0"]);
    let expected = ["noscript", "stale", "skip_monitor", "no_mandatory_keys", "movablekeys"];
    assert_eq!(eval.flag_names().collect::<Vec<_>>(), expected);
    for category in Category::all() {
        assert_eq!(Category::from_name(category.name()[1..].to_uppercase().as_bytes()), Some(category));
    }
    assert_eq!(Category::from_name(b"@read"), None);
}

#[test]
fn fixed_positions_follow_from_descriptions() {
    let positions = |request: &str| {
        let command = command(&words(request));
        (command.first_key, command.last_key, command.key_step, command.flags.has(Flag::MovableKeys))
    };
    assert_eq!(positions("get k"), (1, 1, 1, false));
    assert_eq!(positions("mset k v"), (1, -1, 2, false));
    assert_eq!(positions("blpop k 0"), (1, -2, 1, false));
    assert_eq!(positions("smove a b m"), (1, 2, 1, false));
    assert_eq!(positions("bitop not d k"), (2, -1, 1, false));
    assert_eq!(positions("zunionstore d 1 k"), (1, 1, 1, true));
    assert_eq!(positions("eval s 0"), (0, 0, 0, true));
    assert_eq!(positions("migrate h 1 k 0 1"), (3, 3, 1, true));
    assert_eq!(positions("sort k"), (1, 1, 1, true));
    assert_eq!(positions("xread streams k 0"), (0, 0, 0, true));
    assert_eq!(positions("object freq k"), (2, 2, 1, false));
    assert_eq!(positions("ping"), (0, 0, 0, false));
}

#[test]
fn keys_of_requests() {
    let requests = [
        ("GET a", "a"),
        ("MSET a 1 b 2", "a b"),
        ("mset a 1 b", "a b"),
        ("BITOP AND d a b", "d a b"),
        ("BLPOP a b 0", "a b"),
        ("LCS a b LEN", "a b"),
        ("ZUNIONSTORE d 2 a b WEIGHTS 1 2", "d a b"),
        ("ZUNION 2 a b", "a b"),
        ("SINTERCARD 2 a b LIMIT 1", "a b"),
        ("EVAL s 2 a b c", "a b"),
        ("EVAL s 0 a", ""),
        ("EVALSHA_RO s 1 a", "a"),
        ("LMPOP 2 a b LEFT", "a b"),
        ("BLMPOP 0 2 a b LEFT", "a b"),
        ("BZMPOP 0 1 a MIN", "a"),
        ("OBJECT FREQ a", "a"),
        ("MEMORY USAGE a SAMPLES 1", "a"),
        ("XREAD COUNT 2 STREAMS a b 0 0", "a b"),
        ("XREADGROUP GROUP streams c STREAMS a >", "a"),
        ("XGROUP CREATE a g $", "a"),
        ("SORT a BY w_* GET store STORE d", "a d"),
        ("SORT a LIMIT store 1", "a"),
        ("SORT a STORE", "a"),
        ("SORT_RO a BY w_*", "a"),
        ("MIGRATE h 1 a 0 1 COPY", "a"),
        ("MIGRATE h 1 \"\" 0 1 REPLACE KEYS a b", "a b"),
        ("MIGRATE h 1 \"\" 0 1 AUTH keys KEYS a", "a"),
        ("MIGRATE h 1 \"\" 0 1 AUTH2 keys keys KEYS a", "a"),
        ("GEORADIUS a 1 2 3 m STORE d", "a d"),
        ("GEORADIUSBYMEMBER a m 1 m STOREDIST d", "a d"),
        ("COPY a b DB 1", "a b"),
        ("WATCH a b", "a b"),
        ("PFMERGE d", "d"),
    ];
    for (request, expected) in requests {
        assert_eq!(keys(request), expected, "{request}");
    }
}

#[test]
fn requests_without_certain_keys_say_why() {
    for request in ["PING", "SPUBLISH c m", "SSUBSCRIBE c", "CONFIG GET a", "KEYS a"] {
        assert_eq!(keys(request), "The command has no key arguments", "{request}");
    }
    let invalid = [
        "LMPOP x a LEFT",
        "LMPOP -1 a LEFT",
        "LMPOP 01 a LEFT",
        "LMPOP 99999999999999999999 a LEFT",
        "LMPOP 9999999999 a LEFT",
        "ZUNION 0 a",
        "LMPOP 4 a b LEFT",
        "XREAD a b c",
        "MIGRATE h 1 \"\" 0 1 COPY",
    ];
    for request in invalid {
        assert_eq!(keys(request), "Invalid arguments specified for command", "{request}");
    }
    let eval = find(b"eval").unwrap();
    for request in ["EVAL s 2 a", "EVAL s x a"] {
        assert_eq!(keys(request), "", "{request}");
        assert_eq!(visit_keys(eval, &words(request), |_| {}), Err(KeysError::Arguments), "{request}");
    }
    let get = find(b"get").unwrap();
    assert_eq!(keys_of(get, &["get"]), Err(KeysError::ArgumentCount));
    let no_arguments: [&[u8]; 0] = [];
    assert_eq!(keys_of(get, &no_arguments), Err(KeysError::ArgumentCount));
    assert_eq!(KeysError::ArgumentCount.to_string(), "Invalid number of arguments specified for command");
}

#[test]
fn rights_that_keys_need() {
    let requests = [
        ("SET a 1", "a:W"),
        ("SET a get", "a:W"),
        ("SET a 1 NX GET", "a:RW"),
        ("BITFIELD a GET u8 0", "a:R"),
        ("BITFIELD a INCRBY u8 0 1", "a:RW"),
        ("COPY a b", "a:R b:W"),
        ("ZUNIONSTORE d 1 a", "d:W a:R"),
        ("SORT a STORE d", "a:R d:W"),
        ("EXISTS a", "a:"),
        ("LMOVE a b LEFT LEFT", "a:RW b:W"),
    ];
    for (request, expected) in requests {
        assert_eq!(rights(request), expected, "{request}");
    }
}

/// No request makes the table panic, whatever its words are.
#[test]
fn odd_requests_are_answered() {
    let odd: [&[u8]; 9] =
        [b"", b"0", b"1", b"2", b"4294967295", b"18446744073709551615", b"STORE", b"KEYS", b"streams"];
    for command in all() {
        let mut state = command.id().index() as u64;
        for count in 0..9 {
            for _ in 0..20 {
                let word = |_| {
                    state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                    odd[(state >> 33) as usize % odd.len()]
                };
                let arguments: Vec<&[u8]> = (0..count).map(word).collect();
                if let Ok(found) = keys_of(command, &arguments) {
                    assert!(found.iter().all(|index| (1..count).contains(index)), "{command} {arguments:?}");
                }
            }
        }
    }
}

#[test]
fn refusals_have_the_texts_clients_expect() {
    let text = |words: &[&str]| {
        let refusal = resolve(words).expect_err("refused");
        String::from_utf8(refusal.text(words)).unwrap()
    };
    assert_eq!(text(&["foo"]), "ERR unknown command 'foo', with args beginning with: ");
    assert_eq!(
        text(&["f\r\no", "a", "b\0c"]),
        "ERR unknown command 'f  o', with args beginning with: 'a' 'b' "
    );
    assert_eq!(text(&["get"]), "ERR wrong number of arguments for 'get' command");
    assert_eq!(text(&["CONFIG"]), "ERR wrong number of arguments for 'config' command");
    assert_eq!(text(&["config", "GET"]), "ERR wrong number of arguments for 'config|get' command");
    assert_eq!(text(&["config", "Foo", "x"]), "ERR unknown subcommand 'Foo'. Try CONFIG HELP.");
    let long = "x".repeat(1 << 20);
    let refusal = resolve(&[&long]).expect_err("refused");
    assert!(refusal.text(&[&long, &long, &long]).len() < 320);
    let nothing: [&[u8]; 0] = [];
    assert!(matches!(resolve(&nothing), Err(Refusal::UnknownCommand)));
    assert_eq!(command(&["COMMAND"]).to_string(), "command");
    assert_eq!(command(&["command", "Count"]).to_string(), "command|count");
}
