use mlua::{Lua, LuaOptions, MultiValue, StdLib, Value};

use super::*;

/// All matches that there are from the start on, in parts of `steps`.
fn find(text: &[u8], pattern: &[u8], steps: u64) -> Result<Option<Vec<String>>, String> {
    let first = usize::from(pattern.first() == Some(&b'^'));
    let mut machine = Machine::default();
    for at in 0..=text.len() {
        machine.begin(at, first);
        let outcome = loop {
            match machine.run(text, pattern, &mut steps.clone())? {
                Outcome::Unfinished => {}
                other => break other,
            }
        };
        if let Outcome::Matched(end) = outcome {
            let mut found = vec![(at + 1).to_string(), end.to_string()];
            for index in 0..machine.captures() {
                found.push(match machine.capture(index, at, end)? {
                    Found::Position(at) => at.to_string(),
                    Found::Bytes(start, end) => String::from_utf8_lossy(&text[start..end]).into_owned(),
                });
            }
            return Ok(Some(found));
        }
        if first == 1 {
            break;
        }
    }
    Ok(None)
}

fn find_by_lua(lua: &Lua, text: &[u8], pattern: &[u8]) -> Result<Option<Vec<String>>, String> {
    let native: mlua::Function =
        lua.load("return function(t, p) return string.find(t, p) end").eval().unwrap();
    let text = lua.create_string(text).unwrap();
    let found = native.call::<MultiValue>((text, lua.create_string(pattern).unwrap()));
    match found {
        Ok(values) if values.front().is_none_or(Value::is_nil) => Ok(None),
        Ok(values) => Ok(Some(values.iter().map(|value| value.to_string().unwrap()).collect())),
        Err(error) => {
            let line = error.to_string();
            let line = line.lines().next().unwrap_or_default();
            Err(line.rsplit(": ").next().unwrap_or_default().to_owned())
        }
    }
}

/// What Lua's own functions find in the same texts, for patterns of all kinds, good and bad.
#[test]
fn it_finds_what_lua_finds() {
    let lua = Lua::new_with(StdLib::STRING, LuaOptions::new()).unwrap();
    let parts: [&[u8]; 36] = [
        b"a", b"b", b".", b"%a", b"%A", b"%d", b"%s", b"[ab]", b"[^a]", b"[a-c]", b"[%a-]", b"[]a]", b"[^]]",
        b"a*", b"a-", b"b+", b".-", b".*", b"b?", b"[ab]*", b"%d?", b"(", b")", b"()", b"(a", b"%1", b"%2",
        b"%bab", b"%b()", b"%f[a]", b"%f[%A]", b"^", b"$", b"%", b"[", b"%f",
    ];
    let texts: [&[u8]; 8] =
        [b"", b"a", b"abab", b"aabbaabb", b"(a(b)c) 12", b"b]-a^$", b"  a1b2  ", b"aaaaaaaab"];
    let mut random = fastrand::Rng::with_seed(46_817);
    let mut found = 0;
    for round in 0..6000 {
        let mut pattern = Vec::new();
        (0..random.usize(1..6)).for_each(|_| pattern.extend_from_slice(parts[random.usize(..parts.len())]));
        if !pattern.iter().any(|sign| super::super::SPECIAL.contains(sign)) {
            // That is no pattern to `find`.
            continue;
        }
        let text = texts[random.usize(..texts.len())];
        let steps = if round % 2 == 0 { u64::MAX } else { random.u64(1..4) };
        let (ours, theirs) = (find(text, &pattern, steps), find_by_lua(&lua, text, &pattern));
        let shown = String::from_utf8_lossy(&pattern);
        assert_eq!(ours, theirs, "{shown} in {}", String::from_utf8_lossy(text));
        found += usize::from(matches!(ours, Ok(Some(_))));
    }
    assert!(found > 600, "only {found} patterns matched");
}

#[test]
fn a_match_is_left_and_taken_up_again() {
    let text = [b'a'; 3000];
    let mut machine = Machine::default();
    machine.begin(0, 0);
    let mut parts = 0;
    loop {
        let mut steps = 1000;
        match machine.run(&text, b".-.-b", &mut steps).unwrap() {
            Outcome::Unfinished => parts += 1,
            Outcome::Failed => break,
            Outcome::Matched(end) => panic!("{end}"),
        }
        assert!(parts > 10_000 || steps < 1000);
    }
    assert!(parts > 4000, "{parts}");
    // What would be too deep for a stack is not too deep for this one, up to a limit.
    machine.begin(0, 0);
    let long = b"a?".repeat(3000);
    assert!(matches!(machine.run(&text, &long, &mut u64::MAX.clone()), Ok(Outcome::Matched(3000))));
    let (text, long) = (vec![b'a'; 300_000], b"a?".repeat(300_000));
    machine.begin(0, 0);
    assert_eq!(machine.run(&text, &long, &mut u64::MAX.clone()).unwrap_err(), "pattern too complex");
}
