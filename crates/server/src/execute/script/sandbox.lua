-- The world that scripts see: made once for each interpreter, before the first script.
--
-- Scripts of many clients share an interpreter one after the other, so that they can change nothing that stays: every table
-- they are given is an empty one in front of the real one. And they may be suspended wherever they call: what catches
-- errors runs in a coroutine of its own, through which a suspension passes outwards.
--
-- Given: whether a suspension of the server's is under way; whether the script must end, whatever it catches; the libraries of
-- the server. Answers: the table that scripts have as globals, the table behind it, and what resumes a coroutine.
local is_suspending, is_over, libraries = ...

local create, resume, status, yield = coroutine.create, coroutine.resume, coroutine.status, coroutine.yield
local error, pcall, type, tostring, select, next, pairs = error, pcall, type, tostring, select, next, pairs
local tonumber = tonumber
local rawget, rawset, setmetatable, getmetatable = rawget, rawset, setmetatable, getmetatable
local loadstring, setfenv, unpack, collectgarbage = loadstring, setfenv, unpack, collectgarbage
local byte, concat = string.byte, table.concat

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
  if depth > DEPTH_MAX then
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
local function caught(ok, reason, ...)
  if not ok then
    if type(reason) == "table" then
      local text = rawget(reason, "err")
      if text ~= nil then
        return ok, text
      end
    elseif type(reason) == "userdata" then
      return ok, tostring(reason)
    end
  end
  return ok, reason, ...
end

local globals = {
  assert = assert, error = error, gcinfo = gcinfo, ipairs = ipairs, next = next, rawequal = rawequal, select = select,
  tonumber = tonumber, tostring = tostring, type = type, unpack = unpack, _VERSION = _VERSION,
}

function globals.pcall(f, ...)
  if type(f) ~= "function" then
    return caught(pcall(f, ...))
  end
  local co = create(function(...) return f(...) end)
  return caught(settle(co, dive(co, ...)))
end

function globals.xpcall(f, handler)
  local co = create(function() return f() end)
  local function handle(ok, reason, ...)
    if ok then
      return ok, reason, ...
    end
    if type(reason) == "userdata" then
      reason = tostring(reason)
    end
    local _, told = pcall(handler, reason)
    return false, told
  end
  return handle(settle(co, dive(co)))
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

function globals.getmetatable(t)
  if behind[t] then
    return nil
  end
  return getmetatable(t)
end

function globals.collectgarbage(option, ...)
  if option == nil or option == "collect" or option == "count" or option == "step" then
    return collectgarbage(option, ...)
  end
  return 0
end

-- Text only: byte code could do anything.
function globals.loadstring(text, name)
  if type(text) == "string" and byte(text, 1) == 27 then
    return nil, "[string \"byte code\"]:1: unexpected symbol near 'char(27)'"
  end
  local f, reason = loadstring(text, name or text)
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

-- It writes past the metatable. What else does finds nothing in the empty table in front. Its complaints name their caller.
function tables.insert(...)
  local count, t, place = select("#", ...), ...
  if type(t) ~= "table" then
    error("bad argument #1 to 'insert' (table expected, got " .. (count == 0 and "no value" or type(t)) .. ")", 2)
  elseif behind[t] then
    error(READ_ONLY, 0)
  elseif count ~= 2 and count ~= 3 then
    error("wrong number of arguments to 'insert'", 2)
  elseif count == 3 and not tonumber(place) then
    error("bad argument #2 to 'insert' (number expected, got " .. type(place) .. ")", 2)
  end
  return insert(...)
end

globals.coroutine = protect(coroutines)
globals.string = protect(copied(string))
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
of_strings.__metatable = protect({ __index = globals.string })

setmetatable(globals, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})
globals._G = setmetatable({}, { __index = globals, __newindex = refuse, __metatable = false })
behind[globals._G] = globals

return globals._G, globals, resume
