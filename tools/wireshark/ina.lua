-- Wireshark dissector for the testbed's packets: docs/wire.md describes them, p4/ina.p4 declares them.
--
-- Use:  tshark -X lua_script:tools/wireshark/ina.lua -r capture.pcapng
-- or copy it into Wireshark's folder of personal Lua plugins (Help > About Wireshark > Folders).
--
-- The bitmap's width is a parameter of a run and not in the packet. It is a preference here; 32 bits
-- is what a run has by default.

local PORT = 18766
local HEADER = 24
local VERSION = 1

local KINDS = {
  [1] = "gradient", [2] = "result", [3] = "result_one", [4] = "reminder",
  [5] = "reminder_empty", [6] = "ask", [7] = "control", [8] = "collided",
  [9] = "gradient_zeros", [10] = "result_zeros", [11] = "result_one_zeros",
}
-- Kinds that carry values behind the bitmap.
local WITH_VALUES = { [1] = true, [2] = true, [3] = true }

local FLAGS = {
  { "partial", 0x0001, "Left its aggregator before all workers were in" },
  { "collision", 0x0002, "Found its aggregator taken" },
  { "resend", 0x0004, "A retransmission" },
  { "ecn", 0x0008, "Passed a queue above its ECN threshold" },
  { "overflow", 0x0010, "An addition left the range of int32" },
  { "reminded", 0x0020, "A partial that a reminder has pulled" },
  { "over_rate", 0x0040, "Found the switch's aggregation capacity used up" },
  { "float", 0x0080, "The values are float32" },
  { "short", 0x0100, "The values have fewer than 32 bits" },
  { "round", 0x0200, "The sum of all workers is to be rounded to int16" },
  { "for_one", 0x0400, "One worker, in the exponents' fields, needs the result's values" },
  { "from_one", 0x0800, "One worker, in the exponents' fields, gives the values" },
  { "integers", 0x4000, "The values are int32, where sums are those of floats" },
}
local FLOAT = 0x0080
local SHORT = 0x0100

local ina = Proto("ina", "In-Network Aggregation")
ina.prefs.bitmap = Pref.enum("Bitmap width", 32, "Bits of the bitmap in this capture", {
  { 1, "32 bits", 32 }, { 2, "64 bits", 64 }, { 3, "96 bits", 96 }, { 4, "128 bits", 128 },
  { 5, "160 bits", 160 }, { 6, "192 bits", 192 }, { 7, "224 bits", 224 }, { 8, "256 bits", 256 },
}, false)
ina.prefs.short = Pref.enum("Bits of short values", 16, "Bits of a value with the flag short", {
  { 1, "16 bits", 16 }, { 2, "8 bits", 8 },
}, false)
ina.prefs.tokens = Pref.bool("Tokens of experts", false, "Packets have a second bitmap, wanted, before the first one")

local f = {
  version = ProtoField.uint8("ina.version", "Version", base.DEC, nil, 0xf0),
  kind = ProtoField.uint8("ina.kind", "Kind", base.DEC, KINDS, 0x0f),
  priority = ProtoField.uint8("ina.priority", "Priority"),
  flags = ProtoField.uint16("ina.flags", "Flags", base.HEX),
  job = ProtoField.uint16("ina.job", "Job"),
  node = ProtoField.uint16("ina.node", "Node"),
  fragment = ProtoField.uint32("ina.fragment", "Fragment"),
  index = ProtoField.uint32("ina.index", "Index", base.HEX),
  extra = ProtoField.uint32("ina.extra", "Extra"),
  sender = ProtoField.uint16("ina.sender", "Sender"),
  exponent = ProtoField.uint8("ina.exponent", "Exponent"),
  next_exponent = ProtoField.uint8("ina.next_exponent", "Next exponent"),
  bitmap = ProtoField.bytes("ina.bitmap", "Bitmap"),
  wanted = ProtoField.bytes("ina.wanted", "Wanted"),
  worker = ProtoField.uint16("ina.worker", "Worker in the sum"),
  workers = ProtoField.uint16("ina.workers", "Workers in the sum"),
  value = ProtoField.int32("ina.value", "Value"),
  float_value = ProtoField.float("ina.float_value", "Value"),
  values = ProtoField.uint32("ina.values", "Values"),
}
local fields = {}
for _, field in pairs(f) do fields[#fields + 1] = field end
for _, flag in ipairs(FLAGS) do
  flag.field = ProtoField.bool("ina.flags." .. flag[1], flag[1], 16, nil, flag[2], flag[3])
  fields[#fields + 1] = flag.field
end
ina.fields = fields

local short = ProtoExpert.new("ina.short", "Shorter than its header and bitmap",
  expert.group.MALFORMED, expert.severity.ERROR)
local ragged = ProtoExpert.new("ina.ragged", "Values do not fill their bytes",
  expert.group.MALFORMED, expert.severity.WARN)
ina.experts = { short, ragged }

local function sender_words(number)
  if number == 0x4000 then return "PS" end
  return "worker " .. number
end

-- Adds the bitmap; returns the workers in it, in words.
local function add_bitmap(tree, range)
  local workers = {}
  local bytes = range:len()
  for worker = 0, 8 * bytes - 1 do
    local byte = range(bytes - 1 - math.floor(worker / 8), 1)
    if bit32 and bit32.extract(byte:uint(), worker % 8) == 1
        or not bit32 and math.floor(byte:uint() / 2 ^ (worker % 8)) % 2 == 1 then
      workers[#workers + 1] = worker
    end
  end
  local words = table.concat(workers, ", ")
  local branch = tree:add(f.bitmap, range)
  branch:append_text(" {" .. words .. "}")
  branch:add(f.workers, range, #workers):set_generated()
  for _, worker in ipairs(workers) do branch:add(f.worker, range, worker):set_generated() end
  return words
end

function ina.dissector(buffer, pinfo, tree)
  local length = buffer:len()
  if length < HEADER then return 0 end
  local version = math.floor(buffer(0, 1):uint() / 16)
  if version ~= VERSION then return 0 end

  local kind = buffer(0, 1):uint() % 16
  local flags = buffer(2, 2):uint()
  local job, fragment = buffer(4, 2):uint(), buffer(8, 4):uint()
  local name = KINDS[kind] or ("kind " .. kind)
  local top = tree:add(ina, buffer(), "In-Network Aggregation: " .. name)
  top:add(f.version, buffer(0, 1))
  top:add(f.kind, buffer(0, 1))
  top:add(f.priority, buffer(1, 1))
  local set = {}
  local branch = top:add(f.flags, buffer(2, 2))
  for _, flag in ipairs(FLAGS) do
    branch:add(flag.field, buffer(2, 2))
    if math.floor(flags / flag[2]) % 2 == 1 then set[#set + 1] = flag[1] end
  end
  branch:append_text(" {" .. table.concat(set, ", ") .. "}")
  top:add(f.job, buffer(4, 2))
  top:add(f.node, buffer(6, 2))
  top:add(f.fragment, buffer(8, 4))
  top:add(f.index, buffer(12, 4))
  top:add(f.extra, buffer(16, 4))
  top:add(f.sender, buffer(20, 2)):append_text(" (" .. sender_words(buffer(20, 2):uint()) .. ")")
  top:add(f.exponent, buffer(22, 1))
  top:add(f.next_exponent, buffer(23, 1))

  pinfo.cols.protocol = "INA"
  local info = name .. " job " .. job .. " fragment " .. fragment
  if #set > 0 then info = info .. " [" .. table.concat(set, " ") .. "]" end

  local bitmap = ina.prefs.bitmap / 8
  local before = HEADER + (ina.prefs.tokens and bitmap or 0)
  if length < before + bitmap then
    top:add_proto_expert_info(short)
    pinfo.cols.info = info
    return length
  end
  if before > HEADER then top:add(f.wanted, buffer(HEADER, bitmap)) end
  info = info .. " {" .. add_bitmap(top, buffer(before, bitmap)) .. "}"

  local first = before + bitmap
  if WITH_VALUES[kind] and length > first then
    local rest = buffer(first)
    local bytes = math.floor(flags / SHORT) % 2 == 1 and ina.prefs.short / 8 or 4
    local count = math.floor(rest:len() / bytes)
    local list = top:add(f.values, rest, count)
    list:set_text("Values: " .. count)
    local is_float = bytes == 4 and math.floor(flags / FLOAT) % 2 == 1
    for number = 0, count - 1 do
      list:add(is_float and f.float_value or f.value, rest(bytes * number, bytes))
    end
    if rest:len() % bytes ~= 0 then top:add_proto_expert_info(ragged) end
    info = info .. " " .. count .. " values"
  end
  pinfo.cols.info = info
  return length
end

DissectorTable.get("udp.port"):add(PORT, ina)
