-- What dissects packets by the declarations below, for Wireshark 4 and tshark.

local by_number, by_port = DissectorTable.get("ip.proto"), DissectorTable.get("udp.port")
local data = Dissector.get("data")

-- Octets of a range behind a header, of one that is a number and how many, and of what looks like
-- UDP's header in front of one.
local RANGE, RUN, UDP_FORM = 8, 6, 8
-- Headers in front of each other in one packet: more are not looked into.
local NESTED = 4
local CLASSES = { [0] = "data", "control", "ack", "feedback", "hop" }

-- What all protocols have: the filter wifu.protocol == "tcp-newreno".
local any = Proto("wifu", "WiFu")
local named = ProtoField.string("wifu.protocol", "Protocol")
any.fields = { named }

local INTEGER = { ProtoField.uint8, ProtoField.uint16, ProtoField.uint24, ProtoField.uint32,
	ProtoField.uint32 }

local function field(abbr, w)
	local label = w.unit and w.name .. " (" .. w.unit .. ")" or w.name
	if w.bits == 1 then
		return ProtoField.bool(abbr, label, 8, nil, w.mask, w.doc)
	end
	return INTEGER[w.octets](abbr, label, w.hex and base.HEX or base.DEC, nil, w.mask, w.doc)
end

-- A declaration becomes a Proto with a field for each word.
local function format(f)
	f.proto = Proto(f.abbr, f.label)
	local own = function(name) return f.abbr .. "." .. name end
	local kinds = {}
	for i, t in ipairs(f.types) do
		kinds[i] = t.name
	end
	f.of = {
		composition = ProtoField.string(own("packet.composition"), "Composition"),
		kind = ProtoField.uint8(own("packet.type"), "Packet type", base.DEC, kinds),
		class = ProtoField.uint8(own("packet.class"), "Class", base.DEC, CLASSES),
		sport = ProtoField.uint16(own("udp.srcport"), "Source port"),
		dport = ProtoField.uint16(own("udp.dstport"), "Destination port"),
		length = ProtoField.uint16(own("udp.length"), "Length"),
		first = ProtoField.uint32(own("range.start"), "Range from"),
		last = ProtoField.uint32(own("range.end"), "Range up to, without"),
		run = ProtoField.uint16(own("range.count"), "Range of so many"),
	}
	local all = {}
	for _, one in pairs(f.of) do
		all[#all + 1] = one
	end
	f.by_name = {}
	for _, w in ipairs(f.words) do
		w.field = field(own(w.abbr), w)
		all[#all + 1] = w.field
		f.by_name[w.name] = f.by_name[w.name] or w
	end
	f.proto.fields = all
	return f
end

-- Reads words of a header that begins at an octet; nil for what was not captured.
local function reader(buffer, at)
	local have = buffer:captured_len()
	return function(w)
		if at + w.byte + w.octets <= have then
			return buffer(at + w.byte, w.octets):bitfield(w.bit, w.bits)
		end
	end
end

local function is_ours(f, read)
	for _, w in ipairs(f.words) do
		if w.is and read(w) ~= w.is then
			return false
		end
	end
	return true
end

-- Where the fixed header ends, where the ranges end, as the header says, and how long each is.
local function extent(f, read, at)
	local fixed, ranges, length = at + f.header, 0, RANGE
	for _, w in ipairs(f.words) do
		local value = (w.length or w.ranges) and read(w)
		if value and w.length then
			fixed = math.max(fixed, at + value * w.length)
		elseif value then
			ranges = math.floor(value / w.ranges)
			length = w.run and RUN or RANGE
		end
	end
	return fixed, fixed + ranges * length, length
end

local function type_of(f, read, payload)
	for i, t in ipairs(f.types) do
		local told = t.word == nil or read(f.by_name[t.word]) == t.value
		if told and (t.payload == nil or t.payload == payload) then
			return i, t
		end
	end
end

local function stands(w, kind)
	return w.on == nil or w.on[kind.name]
end

local function add_words(f, tree, buffer, at, read, kind)
	local said = {}
	for _, w in ipairs(f.words) do
		local value = stands(w, kind) and read(w)
		if value then
			said[w.role or w.name] = value
			local range = buffer(at + w.byte, w.octets)
			local item
			if w.octets > 4 then
				item = tree:add(w.field, range, value)
			else
				item = tree:add(w.field, range)
			end
			if value == 0 and w.zero then
				item:append_text(": " .. w.zero)
			end
		end
	end
	return said
end

-- The ports in front of a header that has none of its own.
local function add_ports(f, tree, buffer, pinfo, said)
	if buffer:captured_len() < UDP_FORM then
		return
	end
	tree:add(f.of.sport, buffer(0, 2))
	tree:add(f.of.dport, buffer(2, 2))
	tree:add(f.of.length, buffer(4, 2))
	said.sport, said.dport = buffer(0, 2):uint(), buffer(2, 2):uint()
end

local function add_ranges(f, tree, buffer, from, to, length)
	for at = from, math.min(to, buffer:captured_len()) - length, length do
		tree:add(f.of.first, buffer(at, 4))
		if length == RUN then
			tree:add(f.of.run, buffer(at + 4, 2))
		else
			tree:add(f.of.last, buffer(at + 4, 4))
		end
	end
end

local function summary(kind, said, payload)
	local text = kind.name
	if said.sport then
		text = string.format("%d > %d %s", said.sport, said.dport, text)
	end
	if said.seq then
		text = text .. string.format(" seq=%d", said.seq)
	end
	if said.ack and said.has_ack ~= 0 then
		text = text .. string.format(" ack=%d", said.ack)
	end
	return text .. string.format(" len=%d", math.max(payload, 0))
end

local depth = 0

local function rest(f, said, buffer, pinfo, tree)
	if not said.inner then
		data:call(buffer, pinfo, tree)
	elseif said.inner == 0 then
		-- Over UDP: TCP of a composition that only its ends know.
		Dissector.get("tcp"):call(buffer, pinfo, tree)
	elseif depth < NESTED and by_number:get_dissector(said.inner) then
		depth = depth + 1
		local sound, message = pcall(by_number.try, by_number, said.inner, buffer, pinfo, tree)
		depth = depth - 1
		if not sound then
			error(message, 0)
		end
	else
		data:call(buffer, pinfo, tree)
	end
end

-- Show a packet whose header begins at octet `at`. False if it is none of this format.
local function show(f, composition, buffer, pinfo, root, at)
	local read = reader(buffer, at)
	local have, whole = buffer:captured_len(), buffer:reported_len()
	if have == 0 or not is_ours(f, read) then
		return false
	end
	local fixed, header, length = extent(f, read, at)
	local number, kind = type_of(f, read, whole > header)
	local tree = root:add(f.proto, buffer(0, math.min(header, have)))
	tree:add(f.of.composition, composition):set_generated()
	tree:add(named, composition):set_generated()
	tree:add(f.of.kind, number):set_generated()
	tree:add(f.of.class, kind.class):set_generated()
	local said = add_words(f, tree, buffer, at, read, kind)
	if at > 0 then
		add_ports(f, tree, buffer, pinfo, said)
	end
	add_ranges(f, tree, buffer, fixed, header, length)
	local text = summary(kind, said, whole - header)
	if header > whole then
		text = text .. " [header longer than the packet]"
	elseif header > have then
		text = text .. " [header cut]"
	end
	tree:append_text(", " .. composition .. ": " .. text)
	pinfo.cols.protocol = composition
	pinfo.cols.info = text
	if header < have then
		rest(f, said, buffer(header):tvb(), pinfo, root)
		if said.inner then
			pinfo.cols.info:prepend(composition .. ", ")
		end
	end
	return true
end

-- The formats, by IP protocol number, in the order in which they are tried; TCP's comes last, for
-- the compositions of this name.
local formats, tcp = {}, {}

-- A segment in the form of TCP's: Wireshark's own dissector reads it, and the column says whose.
local function segment(composition, buffer, pinfo, tree)
	tree:add(any, buffer(0, 0)):append_text(" " .. composition):add(named, composition)
		:set_generated()
	local length = Dissector.get("tcp"):call(buffer, pinfo, tree)
	-- What is in the segment may have a better name.
	if tostring(pinfo.cols.protocol) == "TCP" then
		pinfo.cols.protocol = composition
	end
	return length
end

function any.dissector(buffer, pinfo, tree)
	local number = pinfo.match
	for _, one in ipairs(formats[number] or {}) do
		if show(one.format, one.composition, buffer, pinfo, tree, one.format.base) then
			return buffer:reported_len()
		end
	end
	if tcp[number] then
		return segment(tcp[number], buffer, pinfo, tree)
	end
	return 0
end

local function known(number)
	if not formats[number] then
		formats[number] = {}
		by_number:add(number, any)
	end
end

-- Packets of this number may be of this format, and are then of this composition.
local function carry(number, f, composition)
	known(number)
	table.insert(formats[number], { format = f, composition = composition })
end

-- Packets of this number are TCP segments of this composition, unless they are of one of those
-- formats. Several of one number cannot be told apart.
local function segments(number, composition)
	known(number)
	tcp[number] = tcp[number] and tcp[number] .. " or " .. composition or composition
end

-- The formats in UDP, in the order in which they are tried. "Decode As" brings other ports, too.
local services, ports = {}, {}

local in_udp = Proto("wifu.udp", "WiFu in UDP")

function in_udp.dissector(buffer, pinfo, tree)
	for _, one in ipairs(services) do
		if show(one.format, one.composition, buffer, pinfo, tree, 0) then
			return buffer:reported_len()
		end
	end
	return 0
end

-- The format as the payload of UDP, behind ports of its own there.
local function service(port, f, composition)
	if not ports[port] then
		ports[port] = true
		by_port:add(port, in_udp)
	end
	table.insert(services, { format = f, composition = composition })
end

-- The declarations.

local declared = {}
