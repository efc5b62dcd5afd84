-- The world that scripts see: made once for each interpreter, before the first script.
--
-- Scripts of many clients share an interpreter one after the other, so that they can change nothing that stays: every table
-- they are given is an empty one in front of the real one. And they may be suspended wherever they call: what catches
-- errors runs in a coroutine of its own, through which a suspension passes outwards.
--
-- The end of a script cannot be caught: whatever catches an error here asks first whether it is over. Nothing that calls a
-- script's function does so from C where it can be helped, since Lua cannot suspend what stands below a function of C.
--
-- Given: whether a suspension of the server's is under way; whether the script must end, whatever it catches; whether the
-- thread's stack is nearly used up; what resumes a coroutine; the libraries of the server; its
-- patterns; how many values `unpack` may answer. Answers: the table that scripts have as globals, the
-- table behind it, and what is called before each script.
local is_suspending, is_over, is_deep, resume, libraries, patterns, RESULTS_MAX = ...

local create, status, yield = coroutine.create, coroutine.status, coroutine.yield
local error, pcall, type, tostring, select, next, pairs = error, pcall, type, tostring, select, next, pairs
local tonumber = tonumber
local rawget, rawset, setmetatable, getmetatable = rawget, rawset, setmetatable, getmetatable
local loadstring, setfenv, unpack, collectgarbage = loadstring, setfenv, unpack, collectgarbage
local byte, concat, floor, sort = string.byte, table.concat, math.floor, table.sort
local replace, replaced = patterns.replace, patterns.replaced

local DEPTH_MAX = 150
local READ_ONLY = "Attempt to modify a readonly table"

-- What scripts have in hand -> what it stands for.
local behind = {}

local function refuse()
  error(READ_ONLY, 2)
end

local function protect(real)
  local shown = setmetatable({}, { __index = real, __newindex = refuse, __metatable = false })
  behind[shown] = real
  return shown
end

local depth = 0

local function dive(co, ...)
  depth = depth + 1
  if depth > DEPTH_MAX or is_deep() then
    return false, "C stack overflow"
  end
  return resume(co, ...)
end

-- What a protected call answers, given what resuming its coroutine did.
local function settle(co, ok, ...)
  depth = depth - 1
  if ok then
    if status(co) == "suspended" then
      return settle(co, dive(co, yield(...)))
    end
  elseif is_over() then
    error((...), 0)
  end
  return ok, ...
end

-- The same for a coroutine of the script's own: only the server's suspensions pass.
local function surface(co, ok, ...)
  depth = depth - 1
  if ok then
    if status(co) == "suspended" and is_suspending() then
      return surface(co, dive(co, yield()))
    end
  elseif is_over() then
    error((...), 0)
  end
  return ok, ...
end

-- Errors as scripts catch them: of a table with an error's text only the text.
local function caught(ok, ...)
  if not ok then
    local reason = ...
    if type(reason) == "table" then
      local text = rawget(reason, "err")
      if text ~= nil then
        return ok, text
      end
    elseif type(reason) == "userdata" then
      return ok, tostring(reason)
    end
  end
  return ok, ...
end

local globals = {
  assert = assert, error = error, gcinfo = gcinfo, ipairs = ipairs, next = next, rawequal = rawequal, select = select,
  tonumber = tonumber, tostring = tostring, type = type, _VERSION = _VERSION,
}

local function run(f, ...)
  return f(...)
end

function globals.pcall(...)
  local f = ...
  local kind = type(f)
  if kind ~= "function" and kind ~= "table" then
    -- It runs nothing.
    return caught(pcall(...))
  end
  local co = create(run)
  return caught(settle(co, dive(co, ...)))
end

function globals.xpcall(f, handler)
  local co = create(function() return f() end)
  local function handle(ok, ...)
    if ok then
      return ok, ...
    end
    local reason = ...
    if type(reason) == "userdata" then
      reason = tostring(reason)
    end
    local of_handler = create(function(reason) return handler(reason) end)
    local _, told = settle(of_handler, dive(of_handler, reason))
    return false, told
  end
  return handle(settle(co, dive(co)))
end

-- What a complaint calls a value that is not of the right type.
local function kind_of(count, index, value)
  return index > count and "no value" or type(value)
end

-- A whole number as C's functions take it, or `default`.
local function whole(name, count, index, value, default)
  if value == nil and default then
    return default
  end
  local number = tonumber(value)
  if not number then
    local text = "bad argument #" .. index .. " to '" .. name .. "' (number expected, got "
    error(text .. kind_of(count, index, value) .. ")", 3)
  end
  return number < 0 and -floor(-number) or floor(number)
end

function globals.unpack(...)
  local count, t, first, last = select("#", ...), ...
  if type(t) ~= "table" then
    error("bad argument #1 to 'unpack' (table expected, got " .. kind_of(count, 1, t) .. ")", 2)
  end
  if first == nil and last == nil then
    if #t > RESULTS_MAX then
      error("too many results to unpack", 2)
    end
    return unpack(t)
  end
  first, last = whole("unpack", count, 2, first, 1), whole("unpack", count, 3, last, #t)
  if first > last then
    return
  end
  -- What is no number is not below either. The arguments take places too.
  if not (last - first < RESULTS_MAX - 2) or not (first > -2^31 and last < 2^31) then
    error("too many results to unpack", 2)
  end
  return unpack(t, first, last)
end

function globals.pairs(t)
  if type(t) ~= "table" then
    error("bad argument #1 to 'pairs' (table expected, got " .. (t == nil and "nil" or type(t)) .. ")", 2)
  end
  local real = behind[t]
  if not real then
    return next, t, nil
  end
  local copy = {}
  for key, value in next, real do
    copy[key] = value
  end
  return next, copy, nil
end

function globals.rawget(t, key)
  return rawget(behind[t] or t, key)
end

function globals.rawset(t, key, value)
  if behind[t] then
    error(READ_ONLY, 0)
  end
  return rawset(t, key, value)
end

function globals.setmetatable(t, meta)
  if behind[t] then
    error(READ_ONLY, 0)
  end
  return setmetatable(t, meta)
end

local of_globals

function globals.getmetatable(...)
  local t = ...
  if behind[t] then
    return t == globals._G and of_globals or nil
  end
  return getmetatable(...)
end

function globals.collectgarbage(option, ...)
  if option == nil or option == "collect" or option == "count" or option == "step" then
    return collectgarbage(option, ...)
  end
  return 0
end

-- Text only: byte code could do anything.
function globals.loadstring(text, name)
  if type(text) ~= "string" and type(text) ~= "number" then
    error("bad argument #1 to 'loadstring' (string expected, got " .. type(text) .. ")", 2)
  elseif name ~= nil and type(name) ~= "string" and type(name) ~= "number" then
    error("bad argument #2 to 'loadstring' (string expected, got " .. type(name) .. ")", 2)
  elseif byte(text, 1) == 27 then
    return nil, "[string \"byte code\"]:1: unexpected symbol near 'char(27)'"
  end
  -- Nothing that the parser holds is collected meanwhile: CVE-2025-49844.
  collectgarbage("stop")
  local f, reason = loadstring(text, name or text)
  collectgarbage("restart")
  if not f then
    return nil, reason
  end
  return setfenv(f, globals._G)
end

function globals.load(piece_of, name)
  local pieces = {}
  while true do
    local piece = piece_of()
    if piece == nil or piece == "" then
      break
    end
    if type(piece) ~= "string" and type(piece) ~= "number" then
      return nil, "reader function must return a string"
    end
    pieces[#pieces + 1] = piece
  end
  return globals.loadstring(concat(pieces), name or "=(load)")
end

local coroutines = { create = create, running = coroutine.running, status = status, yield = yield }

function coroutines.resume(co, ...)
  if type(co) ~= "thread" then
    return resume(co, ...)
  end
  return surface(co, dive(co, ...))
end

function coroutines.wrap(f)
  local co = create(f)
  local function answer(...)
    return select("#", ...), { ... }
  end
  return function(...)
    local count, values = answer(surface(co, dive(co, ...)))
    if values[1] then
      return unpack(values, 2, count)
    end
    error(values[2], type(values[2]) == "string" and 2 or 0)
  end
end

local function copied(t)
  local copy = {}
  for key, value in next, t do
    copy[key] = value
  end
  return copy
end

local tables, insert = copied(table), table.insert

-- Places before the start at which something can be inserted: all values between them are moved at once.
local PLACE_MIN = -65536

-- It writes past the metatable. What else does finds nothing in the empty table in front. Its complaints name their caller.
function tables.insert(...)
  local count, t, place = select("#", ...), ...
  if type(t) ~= "table" then
    error("bad argument #1 to 'insert' (table expected, got " .. kind_of(count, 1, t) .. ")", 2)
  elseif behind[t] then
    error(READ_ONLY, 0)
  elseif count ~= 2 and count ~= 3 then
    error("wrong number of arguments to 'insert'", 2)
  elseif count == 3 then
    local number = tonumber(place)
    if not number then
      error("bad argument #2 to 'insert' (number expected, got " .. type(place) .. ")", 2)
    elseif not (number >= PLACE_MIN and number < 2^31) then
      error("bad argument #2 to 'insert' (position out of bounds)", 2)
    end
  end
  return insert(...)
end

-- Values that C sorts at once where that calls no function of a script.
local SORTED_IN_C_MAX = 4096

-- What Lua's own order says of two values, with its own complaints.
local function comes_before(a, b)
  local kind, other = type(a), type(b)
  if kind == other and (kind == "number" or kind == "string") then
    return a < b
  elseif kind ~= other then
    error("attempt to compare " .. kind .. " with " .. other, 0)
  elseif kind ~= "table" then
    error("attempt to compare two " .. kind .. " values", 0)
  elseif rawequal(a, b) then
    return false
  end
  local pair = { b, a }
  sort(pair)
  return rawequal(pair[1], a)
end

local function sort_part(t, first, last, is_before)
  while first < last do
    if is_before(t[last], t[first]) then
      t[first], t[last] = t[last], t[first]
    end
    if last - first == 1 then
      return
    end
    local middle = floor((first + last) / 2)
    if is_before(t[middle], t[first]) then
      t[middle], t[first] = t[first], t[middle]
    elseif is_before(t[last], t[middle]) then
      t[middle], t[last] = t[last], t[middle]
    end
    if last - first == 2 then
      return
    end
    local pivot = t[middle]
    t[middle], t[last - 1] = t[last - 1], pivot
    local low, high = first, last - 1
    while true do
      repeat
        low = low + 1
        if low > last then
          error("invalid order function for sorting", 0)
        end
      until not is_before(t[low], pivot)
      repeat
        high = high - 1
        if high < first then
          error("invalid order function for sorting", 0)
        end
      until not is_before(pivot, t[high])
      if high < low then
        break
      end
      t[low], t[high] = t[high], t[low]
    end
    t[last - 1], t[low] = t[low], t[last - 1]
    -- The longer part is sorted by this loop, so that the depth stays small.
    if low - first < last - low then
      sort_part(t, first, low - 1, is_before)
      first = low + 1
    else
      sort_part(t, low + 1, last, is_before)
      last = low - 1
    end
  end
end

function tables.sort(...)
  local count, t, is_before = select("#", ...), ...
  if type(t) ~= "table" then
    error("bad argument #1 to 'sort' (table expected, got " .. kind_of(count, 1, t) .. ")", 2)
  elseif is_before ~= nil and type(is_before) ~= "function" then
    error("bad argument #2 to 'sort' (function expected, got " .. type(is_before) .. ")", 2)
  end
  local len = #t
  if not is_before and len <= SORTED_IN_C_MAX and type(t[1]) ~= "table" then
    return sort(t)
  end
  sort_part(t, 1, len, is_before or comes_before)
end

function tables.foreach(...)
  local count, t, f = select("#", ...), ...
  if type(t) ~= "table" then
    error("bad argument #1 to 'foreach' (table expected, got " .. kind_of(count, 1, t) .. ")", 2)
  elseif type(f) ~= "function" then
    error("bad argument #2 to 'foreach' (function expected, got " .. kind_of(count, 2, f) .. ")", 2)
  end
  for key, value in next, t do
    local found = f(key, value)
    if found ~= nil then
      return found
    end
  end
end

function tables.foreachi(...)
  local count, t, f = select("#", ...), ...
  if type(t) ~= "table" then
    error("bad argument #1 to 'foreachi' (table expected, got " .. kind_of(count, 1, t) .. ")", 2)
  elseif type(f) ~= "function" then
    error("bad argument #2 to 'foreachi' (function expected, got " .. kind_of(count, 2, f) .. ")", 2)
  end
  for index = 1, #t do
    local found = f(index, rawget(t, index))
    if found ~= nil then
      return found
    end
  end
end

local strings = copied(string)

strings.find, strings.match, strings.gmatch, strings.gfind = patterns.find, patterns.match, patterns.walk, patterns.walk
strings.rep = patterns.rep

-- Has the script's function replace match after match, of which all have as many captures as the
-- first; nothing comes at the end.
local function replace_each(step, with, ...)
  local count, a, b = select("#", ...), ...
  if count == 1 then
    while a do
      a = step((with(a)))
    end
  elseif count == 2 then
    while a do
      a, b = step((with(a, b)))
    end
  elseif count > 0 then
    return replace_each(step, with, step((with(...))))
  end
end

function strings.gsub(...)
  local step, search = replace(...)
  if type(search) == "number" then
    return step, search
  end
  local with = select(3, ...)
  if type(with) == "function" then
    replace_each(step, with, step())
  else
    local found = step()
    while found do
      found = step(with[found])
    end
  end
  return replaced(search, (...))
end

globals.coroutine = protect(coroutines)
globals.string = protect(strings)
globals.table = protect(tables)
globals.math = protect(copied(math))
for name, library in next, libraries do
  local shown = globals[name] and behind[globals[name]]
  if shown then
    for key, value in next, library do
      shown[key] = value
    end
  else
    globals[name] = protect(library)
  end
end

local of_strings = getmetatable("")
-- Methods of strings are the same functions.
of_strings.__index = strings
of_strings.__metatable = protect({ __index = globals.string })

local function find_nothing(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end
setmetatable(globals, { __index = find_nothing })
globals._G = setmetatable({}, { __index = globals, __newindex = refuse, __metatable = false })
behind[globals._G] = globals
of_globals = protect({ __index = find_nothing, __newindex = refuse })

-- A script that was left in the middle has left its depth.
local function begin()
  depth = 0
end

return globals._G, globals, begin
