use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use mlua::{LuaOptions, StdLib};

use super::*;

fn lua() -> Lua {
    Lua::new_with(StdLib::ALL_SAFE, LuaOptions::new()).unwrap()
}

fn thread(lua: &Lua, source: &str) -> Thread {
    let function = lua.load(source).set_name("@script").into_function().unwrap();
    lua.create_thread(function).unwrap()
}

/// A function that does what its first argument says with the others.
fn obey(lua: &Lua) {
    let obey = steered(lua, |lua, arguments| {
        let mut values = MultiValue::new();
        arguments.try_for_each(|value| {
            values.push_back(value.clone());
            Ok::<(), mlua::Error>(())
        })?;
        Ok(match values.pop_front() {
            Some(Value::String(word)) if word == "raise" => {
                Turn::Raise(values.pop_front().unwrap_or_default())
            }
            Some(Value::String(word)) if word == "suspend" => Turn::Suspend,
            Some(Value::String(word)) if word == "line" => {
                let line = lua.inspect_stack(2, |debug| debug.current_line());
                Turn::Answer(line.into_lua_multi(lua)?)
            }
            _ => Turn::Answer(values),
        })
    });
    lua.globals().set("obey", obey.unwrap()).unwrap();
}

fn resume(lua: &Lua, thread: &Thread, arguments: impl IntoLuaMulti) -> MultiValue {
    let resume: Function = lua.load("return coroutine.resume").eval().unwrap();
    let mut arguments = arguments.into_lua_multi(lua).unwrap();
    arguments.push_front(Value::Thread(thread.clone()));
    resume.call(arguments).unwrap()
}

#[test]
fn values_are_answered_and_raised_as_they_are() {
    let lua = lua();
    obey(&lua);
    let found: (i64, Option<i64>, i64) = lua.load("return obey('answer', 1, nil, 3)").eval().unwrap();
    assert_eq!(found, (1, None, 3));
    assert_eq!(lua.load("return select('#', obey('answer'))").eval::<i64>().unwrap(), 0);
    let text = "local t = {}; local ok, e = pcall(obey, 'raise', t); return not ok and e == t";
    assert!(lua.load(text).eval::<bool>().unwrap());
    // A caller that does nothing but call is still there.
    assert_eq!(lua.load("\n\nreturn obey('line')").eval::<i64>().unwrap(), 3);
}

#[test]
fn a_suspended_call_answers_what_it_is_resumed_with() {
    let lua = lua();
    obey(&lua);
    let thread = thread(&lua, "return obey('suspend') + obey('suspend')");
    assert_eq!(resume(&lua, &thread, ()).len(), 1);
    assert_eq!(resume(&lua, &thread, 3).len(), 1);
    assert_eq!(resume(&lua, &thread, 4)[1].as_integer(), Some(7));
    let sorted = self::thread(&lua, "table.sort({1, 2}, function() return obey('suspend') end)");
    let answer = resume(&lua, &sorted, ());
    assert_eq!(answer[0], Value::Boolean(false));
    assert!(answer[1].to_string().unwrap().contains("attempt to yield"), "{answer:?}");
}

#[test]
fn who_failed_stands_where_it_failed() {
    let lua = lua();
    obey(&lua);
    for (source, expected) in [
        ("\nerror('x', 0)", 2),
        ("\n\nreturn obey('raise', {})", 3),
        ("local x\nreturn x + 1", 2),
        ("local function f()\n error({}) end\nlocal r = f() return r", 2),
    ] {
        let thread = thread(&lua, source);
        assert_eq!(resume(&lua, &thread, ())[0], Value::Boolean(false));
        let (name, found) = line(&lua, &thread, c"@other").unwrap().expect("it stands somewhere");
        assert_eq!((name.to_string_lossy().as_str(), found), ("@script", expected), "{source}");
        assert!(line(&lua, &thread, c"@script").unwrap().is_none());
    }
}

#[test]
fn a_watcher_suspends_and_ends_what_goes_on_for_ever() {
    let lua = lua();
    let asked = Rc::new(Cell::new(0));
    let counter = Rc::clone(&asked);
    watch(
        &lua,
        || true,
        move |lua| {
            counter.set(counter.get() + 1);
            Ok(match counter.get() {
                1 => Turn::Answer(MultiValue::new()),
                2 | 3 => Turn::Suspend,
                _ => Turn::Raise(Value::String(lua.create_string("enough")?)),
            })
        },
    )
    .unwrap();
    let thread = thread(&lua, "local n = 0 while true do n = n + 1 end");
    for expected in [2, 3] {
        assert_eq!(resume(&lua, &thread, ())[0], Value::Boolean(true));
        assert_eq!(asked.get(), expected);
    }
    let answer = resume(&lua, &thread, ());
    assert_eq!(answer[0], Value::Boolean(false));
    assert_eq!(answer[1].to_string().unwrap(), "enough");
}

#[test]
fn arguments_may_be_as_many_as_lua_gives() {
    let lua = lua();
    obey(&lua);
    for count in [0, 1, 199, 200, 201, 5000, 7997] {
        let text = format!(
            "local t = {{}} for i = 1, {count} do t[i] = i end \
             local n = 0 local function add(...) for i = 1, select('#', ...), 97 do n = n + (select(i, ...)) end \
             return select('#', ...) end \
             return add(obey('raise' and 'line', unpack(t))) == 1 and {count}"
        );
        assert_eq!(lua.load(text).eval::<i64>().unwrap(), count);
    }
    let text = "local t = {} t[300] = 'last' return select('#', obey('answer', unpack(t, 1, 301))), (select(300, obey('answer', unpack(t, 1, 301))))";
    let (count, last): (i64, String) = lua.load(text).eval().unwrap();
    assert_eq!((count, last.as_str()), (301, "last"));
}

#[test]
fn the_clock_is_asked_more_often_the_more_memory_there_is() {
    let asked_with = |bytes: usize| {
        let lua = lua();
        let asked = Rc::new(Cell::new(0));
        let counter = Rc::clone(&asked);
        let is_due = move || {
            counter.set(counter.get() + 1);
            false
        };
        watch(&lua, is_due, |_| Ok(Turn::Answer(MultiValue::new()))).unwrap();
        let thread =
            thread(&lua, &format!("local s = ('x'):rep({bytes}) for i = 1, 100000 do end return #s"));
        resume(&lua, &thread, ());
        asked.get()
    };
    let (little, much) = (asked_with(1), asked_with(64 << 20));
    assert!((20..30).contains(&little), "{little}");
    assert!(much > 10_000, "{much}");
}

#[test]
fn the_clock_is_asked_for_the_bytes_that_functions_go_over() {
    let asked_with = |work: &str| {
        let lua = lua();
        let meter = Meter::of(&lua);
        let spend = steered(&lua, move |_, _| {
            meter.spend(64 << 10);
            Ok(Turn::Answer(MultiValue::new()))
        });
        lua.globals().set("spend", spend.unwrap()).unwrap();
        let strings: Table = lua.globals().get("string").unwrap();
        let measure = |name: &str, measure| {
            let function: Function = strings.get(name).unwrap();
            measured(&lua, &function, measure).unwrap()
        };
        lua.globals().set("upper", measure("upper", Measure::All)).unwrap();
        lua.globals().set("sub", measure("sub", Measure::Answers)).unwrap();
        let asked = Rc::new(Cell::new(0));
        let counter = Rc::clone(&asked);
        let is_due = move || {
            counter.set(counter.get() + 1);
            false
        };
        watch(&lua, is_due, |_| Ok(Turn::Answer(MultiValue::new()))).unwrap();
        let text = format!("local s = ('x'):rep(100000) for i = 1, 10 do {work} end return #s");
        let answer = resume(&lua, &thread(&lua, &text), ());
        assert_eq!(answer[1].as_integer(), Some(100_000), "{work}: {answer:?}");
        asked.get()
    };
    assert_eq!(asked_with("s:upper()"), 0);
    assert_eq!(asked_with("upper(s)"), 10);
    assert_eq!(asked_with("sub(s, 2)"), 10);
    assert_eq!(asked_with("sub(s, 2, 3)"), 0);
    assert_eq!(asked_with("spend()"), 10);
    // What ends with a coroutine of its own is seen by the next look, wherever that is.
    assert_eq!(asked_with("coroutine.wrap(function() return spend() end)()"), 10);
}

#[test]
fn a_measured_function_is_the_same_but_for_that() {
    let lua = lua();
    let strings: Table = lua.globals().get("string").unwrap();
    for name in ["upper", "format"] {
        let function: Function = strings.get(name).unwrap();
        strings.set(name, measured(&lua, &function, Measure::All).unwrap()).unwrap();
    }
    let text = "local ok, e = pcall(function() return (string.upper(nil)) end) return e";
    let chunk = lua.load(text).set_name("@script");
    let expected = "script:1: bad argument #1 to 'upper' (string expected, got nil)";
    assert_eq!(chunk.eval::<String>().unwrap(), expected);
    let found: (String, String) = lua.load("return ('aB'):upper(), ('%d%s'):format(1, 'x')").eval().unwrap();
    assert_eq!(found, ("AB".to_owned(), "1x".to_owned()));
    let of_lua: Function = lua.load("return function() end").eval().unwrap();
    measured(&lua, &of_lua, Measure::All).unwrap_err();
    // It keeps its text and its pattern with it.
    let with_upvalue: Function = lua.load("return string.gmatch('a', 'a')").eval().unwrap();
    measured(&lua, &with_upvalue, Measure::All).unwrap_err();
}

/// `is_fixed` answers whether what calls it cannot be suspended.
fn define_is_fixed(lua: &Lua) {
    let meter = Meter::of(lua);
    let is_fixed =
        steered(lua, move |lua, _| Ok(Turn::Answer(meter.place().is_fixed().into_lua_multi(lua)?))).unwrap();
    lua.globals().set("is_fixed", is_fixed).unwrap();
    let coroutines: Table = lua.globals().get("coroutine").unwrap();
    let resume: Function = coroutines.get("resume").unwrap();
    lua.globals().set("resume_plainly", &resume).unwrap();
    coroutines.set("resume", resuming(lua, &resume).unwrap()).unwrap();
}

#[test]
fn where_lua_cannot_suspend_is_known() {
    let lua = lua();
    watch(&lua, || false, |_| Ok(Turn::Answer(MultiValue::new()))).unwrap();
    define_is_fixed(&lua);
    let within = "local function within(f) return setmetatable({}, {__index = function() local found = f() return found end}).x end ";
    let resumed = "local function resumed(f) return (select(2, coroutine.resume(coroutine.create(function() local found = f() return found end)))) end ";
    for (work, expected) in [
        ("return is_fixed()", false),
        ("return (function() return is_fixed() end)()", false),
        ("local t = {is_fixed} return t[1]()", false),
        ("return within(is_fixed)", true),
        ("for fixed in is_fixed do return fixed end", true),
        ("for fixed in function() return is_fixed() end do return fixed end", true),
        ("for _ in pairs({1}) do return is_fixed() end", false),
        ("local found table.sort({2, 1}, function() found = is_fixed() end) return found", true),
        ("within(is_fixed) return is_fixed()", false),
        ("return resumed(is_fixed)", false),
        ("return resumed(function() return within(is_fixed) end)", true),
        ("return within(function() return resumed(is_fixed) end)", true),
        ("return within(function() return resumed(function() return resumed(is_fixed) end) end)", true),
        ("within(function() return resumed(is_fixed) end) return resumed(is_fixed)", false),
        ("within(function() return resumed(error) end) return resumed(is_fixed)", false),
    ] {
        let thread = thread(&lua, &format!("{within} {resumed} {work}"));
        let plainly: Function = lua.globals().get("resume_plainly").unwrap();
        let answer: MultiValue = plainly.call(thread).unwrap();
        assert_eq!(answer[1].as_boolean(), Some(expected), "{work}: {answer:?}");
    }
    // Outside of all coroutines there is nothing to suspend.
    assert!(lua.load("return is_fixed()").eval::<bool>().unwrap());
}

/// How often what `work` does a thousand times is suspended: always outside of what is fixed.
fn suspended_in(work: &str) -> usize {
    let lua = lua();
    let (meter, put_off) = (Meter::of(&lua), Rc::new(Cell::new(0)));
    let counter = Rc::clone(&put_off);
    let place = Rc::clone(&meter);
    let ask = move |_: &Lua| {
        if place.place().is_fixed() {
            counter.set(counter.get() + 1);
            place.place().put_off();
            return Ok(Turn::Answer(MultiValue::new()));
        }
        Ok(Turn::Suspend)
    };
    watch(&lua, || true, ask).unwrap();
    define_is_fixed(&lua);
    let spend = steered(&lua, move |_, _| {
        meter.use_up();
        Ok(Turn::Answer(MultiValue::new()))
    });
    lua.globals().set("spend", spend.unwrap()).unwrap();
    let thread = thread(&lua, &format!("for i = 1, 1000 do {work} end return 'end'"));
    let plainly: Function = lua.globals().get("resume_plainly").unwrap();
    let mut suspended = 0;
    loop {
        let answer: MultiValue = plainly.call(&thread).unwrap();
        assert_eq!(answer[0], Value::Boolean(true), "{work}: {answer:?}");
        if answer.len() == 2 {
            assert!(put_off.get() > 0, "{work}");
            return suspended;
        }
        suspended += 1;
        Meter::of(&lua).place().begin();
    }
}

#[test]
fn what_was_put_off_is_done_right_after() {
    // The clock asks a few times more.
    let check = |work: &str| {
        let suspended = suspended_in(work);
        assert!((1000..1100).contains(&suspended), "{work}: {suspended}");
    };
    let metamethod =
        "local x = setmetatable({}, {__index = function() for i = 1, 9 do end spend() return 1 end}).x";
    check(metamethod);
    check("for x in function(_, last) if not last then spend() return 1 end end do end");
    check("table.sort({1, 2}, function() spend() end)");
    let within = "coroutine.resume(coroutine.create(function() spend() end))";
    let metamethod = metamethod.replace("spend()", within);
    check(&metamethod);
}

/// Finds one byte after the other, once the last one was answered with nothing or a text. It does
/// not know what comes after an `x`.
struct Bytes(Cell<usize>);

impl Seek for Bytes {
    fn seek(
        &self,
        text: &[u8],
        pattern: &[u8],
        given: Given<'_>,
        found: &mut [Found; FOUND_MAX],
    ) -> Option<usize> {
        assert_eq!(pattern, b"pattern");
        let at = self.0.get();
        assert_ne!(text[at], b'!');
        if text[at] == b'x' || given == Given::Text(b"slow") {
            return None;
        }
        self.0.set(at + 1);
        found[0] = Found::Bytes(at, at + 1);
        found[1] = Found::Position(at + 1);
        Some(2)
    }
}

#[test]
fn a_search_answers_at_once_or_by_its_steered_function() {
    let lua = lua();
    let slow = Steered::new(&lua, |lua, arguments| {
        let kept = arguments.get(0)?.unwrap();
        let bytes = kept.as_userdata().unwrap().borrow::<Kept<Bytes>>()?.get();
        for (index, text) in [(1, "abxcd!e"), (2, "pattern")] {
            assert_eq!(arguments.get(index)?.unwrap().to_string()?, text);
        }
        bytes.0.set(bytes.0.get() + 1);
        let given = arguments.get(3)?.map(Cow::into_owned);
        Ok(Turn::Answer(("slow", bytes.0.get(), arguments.len(), given).into_lua_multi(lua)?))
    });
    let (slow, text) = (slow.unwrap(), lua.create_string("abxcd!e").unwrap());
    let pattern = lua.create_string("pattern").unwrap();
    for takes in [true, false] {
        let search = Rc::new(Bytes(Cell::new(0)));
        let (step, kept) = quick(&lua, &slow, Rc::clone(&search), (&text, &pattern), takes).unwrap();
        assert!(Rc::ptr_eq(&kept.borrow::<Kept<Bytes>>().unwrap().get(), &search));
        lua.globals().set("step", step).unwrap();
        let answer = |work: &str| -> String {
            let text = format!(
                "local t = {{{work}}} for i = 1, #t do t[i] = tostring(t[i]) end return table.concat(t, ' ')"
            );
            lua.load(text).eval().unwrap()
        };
        assert_eq!(answer("step()"), "a 1");
        assert_eq!(answer("step(false, 1)"), "b 2");
        // The search and its texts count as arguments.
        let count = 3 + usize::from(takes);
        assert!(answer("step('y', 1)").starts_with(&format!("slow 3 {count}")));
        assert_eq!(answer("step('y')"), "c 4");
        let slowly = if takes { "slow 5 4 slow" } else { "d 5" };
        assert_eq!(answer("step('slow')"), slowly);
        // What panics is left to the other.
        let slowly = if takes { "slow 6 4 true" } else { "slow 6 3" };
        assert_eq!(answer("step(true)").trim_end_matches(" nil"), slowly);
        assert_eq!(answer("step()"), "e 7");
    }
}
