use std::cell::RefCell;
use std::rc::Weak;

use mlua::{Function, LuaOptions, StdLib};

use super::*;
use crate::{Host, Sandbox};

/// Never there.
struct NoHost;

impl Host for NoHost {
    fn held_bytes(&self) -> usize {
        0
    }

    fn take_part(&self, _: usize) -> Result<(), Complaint> {
        Ok(())
    }

    fn must_end(&self) -> bool {
        false
    }

    fn is_over(&self) -> bool {
        false
    }

    fn is_suspended(&self) -> bool {
        false
    }

    fn rest_in(&self, _: &Lua, _: &Search) -> mlua::Result<Turn> {
        Ok(Turn::Suspend)
    }
}

/// Walks through all matches, and replaces them by functions and tables, in all ways there are.
const USE: &str = "
    local text, pattern, few, max = ...
    local made = {}
    local function note(...)
      for i = 1, select('#', ...) do
        made[#made + 1] = type((select(i, ...))) .. tostring((select(i, ...)))
      end
      made[#made + 1] = select('#', ...) .. ';'
    end
    note(pcall(function()
      for a, b, c, d in string.gmatch(text, pattern) do note(a, b, c, d) few() end
      local next = string.gmatch(text, pattern)
      note(next(1, 2, 3)) note(next())
    end))
    local replies = {'x', 12, false, nil, '%1', ''}
    note(pcall(string.gsub, text, pattern, function(...)
      note(...) few()
      return replies[#made % 7]
    end, max))
    note(pcall(string.gsub, text, pattern, {a = 'b', b = 1.5, [''] = '-', ab = false}, max))
    note(pcall(string.gsub, text, pattern, setmetatable({}, {__index = function(_, key) few() return key end})))
    note(pcall(string.gsub, text, pattern, '<%0>', max))
    return table.concat(made, ' ')";

#[test]
fn loops_find_and_replace_what_lua_does() {
    let native = Lua::new_with(StdLib::STRING | StdLib::TABLE, LuaOptions::new()).unwrap();
    let ours = Lua::new_with(StdLib::STRING | StdLib::TABLE | StdLib::MATH, LuaOptions::new()).unwrap();
    // No host is left: where steps are used up the search has all that it wants.
    let budget = Budget::new(&ours, Weak::<NoHost>::new());
    let sandbox = Sandbox::new(&ours, &budget, ours.create_table().unwrap()).unwrap();
    let by_lua: Function = native.load(USE).set_name("@user").into_function().unwrap();
    let by_us = ours.load(USE).set_name("@user").set_environment(sandbox.environment().clone());
    let by_us: Function = by_us.into_function().unwrap();
    let (of_few, steps) = (Rc::clone(&budget), RefCell::new(fastrand::Rng::with_seed(48)));
    let few = ours.create_function(move |_, ()| {
        of_few.steps().set(steps.borrow_mut().u64(0..5));
        Ok(())
    });
    let (few, nothing) = (few.unwrap(), native.create_function(|_, ()| Ok(())).unwrap());
    let parts: [&[u8]; 24] = [
        b"a",
        b"b",
        b".",
        b"%a",
        b"[ab]",
        b"[^a]",
        b"a*",
        b"a-",
        b"b+",
        b".-",
        b"b?",
        b"(",
        b")",
        b"()",
        b"(a)",
        b"(.)",
        b"%1",
        b"%b()",
        b"%f[a]",
        b"^",
        b"$",
        b"(",
        b"((((((((()))))))))",
        b"%",
    ];
    let texts = ["", "a", "abab", "aabbaabb", "(a(b)c) 12", "  a1b2  ", "aaaaaaaab"];
    let mut random = fastrand::Rng::with_seed(47);
    let mut good = 0;
    for _ in 0..4000 {
        let pattern: Vec<u8> =
            (0..random.usize(1..5)).flat_map(|_| parts[random.usize(..parts.len())]).copied().collect();
        let (text, max) = (texts[random.usize(..texts.len())], random.u8(0..9));
        let answer = |lua: &Lua, function: &Function, few: &Function| -> String {
            let pattern = lua.create_string(&pattern).unwrap();
            budget.mark_stack();
            function.call((text, pattern, few.clone(), max)).unwrap()
        };
        let (made, expected) = (answer(&ours, &by_us, &few), answer(&native, &by_lua, &nothing));
        assert_eq!(made, expected, "{} in {text}", String::from_utf8_lossy(&pattern));
        good += usize::from(made.starts_with("string"));
    }
    assert!(good > 1000, "only {good} patterns matched");
}
