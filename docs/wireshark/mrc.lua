-- Wireshark dissector for MRC 1.0 (Multipath Reliable Connection) over UDP port 4791.
--
--   wireshark -X lua_script:mrc.lua capture.pcap
--   tshark -X lua_script:mrc.lua -r capture.pcap -Y 'mrc.seth.m == 1' -T fields -e mrc.bth.psn
--
-- or copy it to the personal Lua plugin folder (Help > About > Folders). Written for Wireshark 4.0.
-- Packets whose opcode is none of MRC's still go to Wireshark's own RoCE dissector.
-- docs/wire-format.md describes the formats; README.md here lists filters.

local mrc = Proto("mrc", "Multipath Reliable Connection")

local ROCE_V2_UDP_PORT = 4791
mrc.prefs.port = Pref.uint("UDP port", ROCE_V2_UDP_PORT, "UDP destination port of MRC")
mrc.prefs.trimmed_dscp = Pref.uint("DSCP TRIMMED", 12, "DSCP of a packet that a switch trimmed")
mrc.prefs.trimmed_lasthop_dscp =
    Pref.uint("DSCP TRIMMED_LASTHOP", 16, "The same, trimmed on the port that faces the NIC")
mrc.prefs.check_icrc = Pref.bool("Check the ICRC", true, "Compute and compare the invariant CRC")

-- Names ------------------------------------------------------------------------------------------

local OPCODES = {
    [0xC6] = "RDMA_WRITE_FIRST",
    [0xC7] = "RDMA_WRITE_MIDDLE",
    [0xC8] = "RDMA_WRITE_LAST",
    [0xC9] = "RDMA_WRITE_LAST_WITH_IMMEDIATE",
    [0xCA] = "RDMA_WRITE_ONLY",
    [0xCB] = "RDMA_WRITE_ONLY_WITH_IMMEDIATE",
    [0xD1] = "ACKNOWLEDGE",
    [0xD8] = "ENDPOINT_REQUEST",
    [0xD9] = "ENDPOINT_RESPONSE",
    [0xDC] = "RELIABILITY_SACK",
    [0xDD] = "RELIABILITY_NACK",
    [0xDE] = "RELIABILITY_PROBE_REQUEST",
}
local WITH_IMMEDIATE = { [0xC9] = true, [0xCB] = true }
local SACK_M = { [0] = "NONE", [1] = "SKIP_ONCE", [2] = "ALWAYS_SKIP" }
local NACK_REASONS = {
    [1] = "TRIMMED",
    [2] = "TRIMMED_LASTHOP",
    [6] = "NO_BITMAP",
    [7] = "NO_PKT_BUFFER",
    [10] = "NO_RESOURCE",
    [11] = "PSN_OOR_WINDOW",
    [25] = "UNEXP_EVENT",
}
local ENDPOINT_OPS = { [0] = "PORT_STATUS_UPDATE", [1] = "EV_PROBE" }

-- Fields -----------------------------------------------------------------------------------------
-- fields.bth.opcode is the filter mrc.bth.opcode, and so on

local fields = {}
local all_fields = {}

local function define(header, name, make, ...)
    local abbreviation = header and ("mrc." .. header .. "." .. name) or ("mrc." .. name)
    local field = make(abbreviation, ...)
    fields[header or "mrc"] = fields[header or "mrc"] or {}
    fields[header or "mrc"][name] = field
    all_fields[#all_fields + 1] = field
end

-- A flag in the bits of a wider number
local function flag(header, name, label, width, mask)
    define(header, name, ProtoField.bool, label, width, nil, mask)
end

define(nil, "ev", ProtoField.uint32, "Entropy value", base.HEX)
define(nil, "carrier.usid", ProtoField.uint16, "uSID", base.HEX)
define(nil, "payload", ProtoField.bytes, "Payload")
define(nil, "padding", ProtoField.bytes, "Padding")
define(nil, "rest", ProtoField.bytes, "Start of a header whose end is missing")
define(nil, "trimmed", ProtoField.bool, "Trimmed")
define(nil, "original_length", ProtoField.uint32, "Length before trimming, from the BTH on", base.DEC)
define(nil, "icrc", ProtoField.uint32, "Invariant CRC", base.HEX)
define(nil, "icrc.computed", ProtoField.uint32, "Computed invariant CRC", base.HEX)
define(nil, "icrc.good", ProtoField.bool, "Invariant CRC is right")

define("bth", "opcode", ProtoField.uint8, "Opcode", base.HEX, OPCODES)
flag("bth", "se", "Solicited event", 8, 0x80)
flag("bth", "m", "M", 8, 0x40)
define("bth", "pad", ProtoField.uint8, "Pad count", base.DEC, nil, 0x30)
define("bth", "tver", ProtoField.uint8, "Transport version", base.DEC, nil, 0x0F)
define("bth", "p_key", ProtoField.uint16, "P_Key", base.HEX)
define("bth", "variant", ProtoField.uint8, "Reserved, variant", base.HEX)
define("bth", "dest_qp", ProtoField.uint24, "Destination QP", base.HEX)
flag("bth", "ack_request", "ACK request", 8, 0x80)
flag("bth", "r", "R", 8, 0x40)
flag("bth", "rtx", "Retransmission", 8, 0x20)
flag("bth", "ts", "TSETH present", 8, 0x10)
define("bth", "psn", ProtoField.uint24, "PSN", base.DEC)

define("meth", "rqmsn", ProtoField.uint16, "RQMSN", base.DEC)
define("meth", "msn", ProtoField.uint16, "MSN", base.DEC)

define("tseth", "tx_timestamp", ProtoField.uint16, "Transmit timestamp", base.DEC)
flag("tseth", "tsr", "Timestamp resolution", 16, 0x8000)
define("tseth", "ftype", ProtoField.uint16, "Format type", base.DEC, nil, 0x000F)

define("reth", "va", ProtoField.uint64, "Virtual address", base.HEX)
define("reth", "r_key", ProtoField.uint32, "R_Key", base.HEX)
define("reth", "dma_length", ProtoField.uint32, "DMA length", base.DEC)

define("immdt", "value", ProtoField.uint32, "Immediate data", base.HEX)

define("aeth", "syndrome", ProtoField.uint8, "Syndrome", base.HEX)
define("aeth", "msn", ProtoField.uint24, "MSN", base.DEC)

define("seth", "type", ProtoField.uint16, "Type", base.DEC, nil, 0xF000)
define("seth", "next", ProtoField.uint16, "Next", base.DEC, nil, 0x0F80)
define("seth", "m", ProtoField.uint16, "M", base.DEC, SACK_M, 0x0060)
flag("seth", "pr", "Probe response", 16, 0x0002)
define("seth", "ack_psn_offset", ProtoField.int16, "ACK PSN offset", base.DEC)
define("seth", "probe_id", ProtoField.uint16, "Probe id", base.HEX)
define("seth", "ack_psn", ProtoField.uint32, "ACK PSN", base.DEC)
define("seth", "entropy", ProtoField.uint32, "Entropy reflected", base.HEX)
define("seth", "spdcid", ProtoField.uint16, "Source context", base.HEX)
define("seth", "dpdcid", ProtoField.uint16, "Destination context", base.HEX)
define("seth", "cack_psn", ProtoField.uint24, "Cumulative ACK PSN", base.DEC)
define("seth", "cc_type", ProtoField.uint8, "CC type", base.DEC, nil, 0xF0)
define("seth", "cc_flags", ProtoField.uint8, "CC flags", base.HEX, nil, 0x0F)
define("seth", "mpr", ProtoField.uint8, "MPR, in 128 PSNs", base.DEC)
define("seth", "sack_offset", ProtoField.int16, "SACK offset", base.DEC)
define("seth", "sack_bitmap", ProtoField.uint64, "SACK bitmap", base.HEX)

define("cc_state", "tx_timestamp", ProtoField.uint16, "Transmit timestamp reflected", base.DEC)
define("cc_state", "ooo_count", ProtoField.uint16, "Out-of-order count", base.DEC, nil, 0x7FFF)
flag("cc_state", "restore_cwnd", "Restore cwnd", 32, 0x80000000)
define("cc_state", "rcv_cwnd_pen", ProtoField.uint32, "Receiver cwnd penalty", base.DEC, nil, 0x7F000000)
define("cc_state", "rcvd_bytes", ProtoField.uint32, "Received, in 256 bytes", base.DEC, nil, 0x00FFFFFF)

define("neth", "type", ProtoField.uint16, "Type", base.DEC, nil, 0xF000)
define("neth", "next", ProtoField.uint16, "Next", base.DEC, nil, 0x0F80)
define("neth", "reason", ProtoField.uint8, "Reason", base.DEC, NACK_REASONS)
define("neth", "vendor", ProtoField.uint8, "Vendor information", base.HEX)
define("neth", "entropy", ProtoField.uint32, "Entropy reflected", base.HEX)
define("neth", "spdcid", ProtoField.uint16, "Source context", base.HEX)
define("neth", "dpdcid", ProtoField.uint16, "Destination context", base.HEX)
define("neth", "nack_psn", ProtoField.uint24, "NACK PSN", base.DEC)
define("neth", "cc_type", ProtoField.uint8, "CC type", base.DEC, nil, 0xF0)
define("neth", "cc_flags", ProtoField.uint8, "CC flags", base.HEX, nil, 0x0F)
define("neth", "tx_timestamp", ProtoField.uint16, "Transmit timestamp reflected", base.DEC)

define("peth", "type", ProtoField.uint16, "Type", base.DEC, nil, 0xF000)
define("peth", "next", ProtoField.uint16, "Next", base.DEC, nil, 0x0F80)
define("peth", "vendor", ProtoField.uint8, "Vendor information", base.HEX)
define("peth", "probe_id", ProtoField.uint16, "Probe id", base.HEX)
define("peth", "spdcid", ProtoField.uint16, "Source context", base.HEX)
define("peth", "dpdcid", ProtoField.uint16, "Destination context", base.HEX)
define("peth", "tx_timestamp", ProtoField.uint16, "Transmit timestamp", base.DEC)
flag("peth", "tsr", "Timestamp resolution", 16, 0x8000)
define("peth", "ftype", ProtoField.uint16, "Format type", base.DEC, nil, 0x000F)

define("erth", "type", ProtoField.uint16, "Type", base.DEC, nil, 0xF000)
define("erth", "next", ProtoField.uint16, "Next", base.DEC, nil, 0x0F80)
define("erth", "op", ProtoField.uint16, "Operation", base.DEC, ENDPOINT_OPS, 0x0003)
define("erth", "vendor", ProtoField.uint8, "Vendor information", base.HEX)
define("erth", "port_status_mask", ProtoField.uint32, "Port status mask", base.HEX)
define("erth", "tx_timestamp", ProtoField.uint16, "Transmit timestamp", base.DEC)
flag("erth", "tsr", "Timestamp resolution", 16, 0x8000)
define("erth", "ftype", ProtoField.uint16, "Format type", base.DEC, nil, 0x000F)

define("eeth", "type", ProtoField.uint16, "Type", base.DEC, nil, 0xF000)
define("eeth", "next", ProtoField.uint16, "Next", base.DEC, nil, 0x0F80)
define("eeth", "op", ProtoField.uint16, "Operation", base.DEC, ENDPOINT_OPS, 0x000C)
define("eeth", "tx_timestamp", ProtoField.uint16, "Transmit timestamp reflected", base.DEC)

mrc.fields = all_fields

local expert_bad_icrc = ProtoExpert.new(
    "mrc.icrc.bad", "Bad invariant CRC", expert.group.CHECKSUM, expert.severity.ERROR)
local expert_trimmed = ProtoExpert.new(
    "mrc.trimmed.note", "Trimmed by a switch: the payload and the ICRC are gone",
    expert.group.SEQUENCE, expert.severity.NOTE)
local expert_truncated = ProtoExpert.new(
    "mrc.truncated", "The packet ends within a header", expert.group.MALFORMED, expert.severity.ERROR)
local expert_missing = ProtoExpert.new(
    "mrc.missing", "Bytes are missing, but the DSCP does not say trimmed",
    expert.group.MALFORMED, expert.severity.WARN)
local expert_extra = ProtoExpert.new(
    "mrc.extra", "Bytes behind the last header of a control packet",
    expert.group.MALFORMED, expert.severity.ERROR)
local expert_tver = ProtoExpert.new(
    "mrc.bth.tver.bad", "The transport version must be 0", expert.group.PROTOCOL, expert.severity.ERROR)
mrc.experts = {
    expert_bad_icrc, expert_trimmed, expert_truncated, expert_missing, expert_extra, expert_tver,
}

-- What other dissectors found below us
local ipv6_headers = Field.new("ipv6")
local ipv6_destinations = Field.new("ipv6.dst")
local ipv6_flow_labels = Field.new("ipv6.flow")
local ipv6_dscps = Field.new("ipv6.tclass.dscp")
local udp_headers = Field.new("udp")
local udp_lengths = Field.new("udp.length")

local function last(field)
    local infos = { field() }
    return infos[#infos]
end

-- ICRC -------------------------------------------------------------------------------------------

local bit_library = bit or bit32
local band, bxor, rshift = bit_library.band, bit_library.bxor, bit_library.rshift


local CRC_TABLE = {}
for byte = 0, 255 do
    local crc = byte
    for _ = 1, 8 do
        if band(crc, 1) == 1 then
            crc = bxor(rshift(crc, 1), 0xEDB88320)
        else
            crc = rshift(crc, 1)
        end
    end
    CRC_TABLE[byte] = crc
end

local function crc32(text, crc)
    crc = bxor(crc, 0xFFFFFFFF)
    for index = 1, #text do
        crc = bxor(rshift(crc, 8), CRC_TABLE[band(bxor(crc, text:byte(index)), 0xFF)])
    end
    return bxor(crc, 0xFFFFFFFF)
end

-- IBTA annex A17: ones in place of the LRH and of what changes on the way
local function compute_icrc(ipv6, udp, transport)
    local ones = "\255"
    local crc = crc32(ones:rep(8) .. "\111" .. ones:rep(3), 0)
    crc = crc32(ipv6:sub(5, 7) .. ones .. ipv6:sub(9, 40), crc)
    crc = crc32(udp:sub(1, 6) .. ones:rep(2), crc)
    return crc32(transport:sub(1, 4) .. ones .. transport:sub(6), crc) % 4294967296
end

-- Headers ----------------------------------------------------------------------------------------
-- One row a field: {name, offset, length}

local LAYOUTS = {
    meth = { label = "METH", size = 4, { "rqmsn", 0, 2 }, { "msn", 2, 2 } },
    tseth = { label = "TSETH", size = 4, { "tx_timestamp", 0, 2 }, { "tsr", 2, 2 }, { "ftype", 2, 2 } },
    reth = { label = "RETH", size = 16, { "va", 0, 8 }, { "r_key", 8, 4 }, { "dma_length", 12, 4 } },
    immdt = { label = "ImmDt", size = 4, { "value", 0, 4 } },
    aeth = { label = "AETH", size = 4, { "syndrome", 0, 1 }, { "msn", 1, 3 } },
    seth = {
        label = "SETH", size = 28,
        { "type", 0, 2 }, { "next", 0, 2 }, { "m", 0, 2 }, { "pr", 0, 2 },
        { "ack_psn_offset", 2, 2 }, { "entropy", 4, 4 }, { "spdcid", 8, 2 }, { "dpdcid", 10, 2 },
        { "cack_psn", 13, 3 }, { "cc_type", 16, 1 }, { "cc_flags", 16, 1 }, { "mpr", 17, 1 },
        { "sack_offset", 18, 2 }, { "sack_bitmap", 20, 8 },
    },
    cc_state = {
        label = "CC_STATE", size = 8,
        { "tx_timestamp", 0, 2 }, { "ooo_count", 2, 2 }, { "restore_cwnd", 4, 4 },
        { "rcv_cwnd_pen", 4, 4 }, { "rcvd_bytes", 4, 4 },
    },
    neth = {
        label = "NETH", size = 20,
        { "type", 0, 2 }, { "next", 0, 2 }, { "reason", 2, 1 }, { "vendor", 3, 1 },
        { "entropy", 4, 4 }, { "spdcid", 8, 2 }, { "dpdcid", 10, 2 }, { "nack_psn", 13, 3 },
        { "cc_type", 16, 1 }, { "cc_flags", 16, 1 }, { "tx_timestamp", 18, 2 },
    },
    peth = {
        label = "PETH", size = 16,
        { "type", 0, 2 }, { "next", 0, 2 }, { "vendor", 3, 1 }, { "probe_id", 4, 2 },
        { "spdcid", 8, 2 }, { "dpdcid", 10, 2 }, { "tx_timestamp", 12, 2 },
        { "tsr", 14, 2 }, { "ftype", 14, 2 },
    },
    erth = {
        label = "ERTH", size = 16,
        { "type", 0, 2 }, { "next", 0, 2 }, { "op", 0, 2 }, { "vendor", 3, 1 },
        { "port_status_mask", 4, 4 }, { "tx_timestamp", 12, 2 }, { "tsr", 14, 2 }, { "ftype", 14, 2 },
    },
    eeth = {
        label = "EETH", size = 36,
        { "type", 0, 2 }, { "next", 0, 2 }, { "op", 0, 2 }, { "tx_timestamp", 28, 2 },
    },
}

local CONTROL_HEADERS = {
    [0xD1] = { "aeth" },
    [0xD8] = { "erth" },
    [0xD9] = { "eeth" },
    [0xDC] = { "seth", "cc_state" },
    [0xDD] = { "neth" },
    [0xDE] = { "peth" },
}

local function headers_of(opcode, ts)
    local control = CONTROL_HEADERS[opcode]
    if control then
        return control
    end
    local headers = { "meth" }
    if ts then
        headers[#headers + 1] = "tseth"
    end
    headers[#headers + 1] = "reth"
    if WITH_IMMEDIATE[opcode] then
        headers[#headers + 1] = "immdt"
    end
    return headers
end

local BTH_BYTES = 12
local ICRC_BYTES = 4
local UDP_BYTES = 8

local BTH_LAYOUT = {
    { "opcode", 0, 1 }, { "se", 1, 1 }, { "m", 1, 1 }, { "pad", 1, 1 }, { "tver", 1, 1 },
    { "p_key", 2, 2 }, { "variant", 4, 1 }, { "dest_qp", 5, 3 }, { "ack_request", 8, 1 },
    { "r", 8, 1 }, { "rtx", 8, 1 }, { "ts", 8, 1 }, { "psn", 9, 3 },
}

local function add_fields(tree, header, layout, tvb, offset)
    for _, row in ipairs(layout) do
        tree:add(fields[header][row[1]], tvb(offset + row[2], row[3]))
    end
end

local function add_sack_meaning(tree, tvb, offset)
    local cack_psn = tvb(offset + 13, 3):uint()
    if band(tvb(offset, 2):uint(), 0x0002) ~= 0 then
        tree:add(fields.seth.probe_id, tvb(offset + 2, 2))
    else
        local psn = (cack_psn + tvb(offset + 2, 2):int()) % 16777216
        tree:add(fields.seth.ack_psn, tvb(offset + 2, 2), psn):set_generated()
    end
end

-- Path: what the headers in front say ---------------------------------------------------------------

local function add_path(tree, pinfo)
    local flow_label = last(ipv6_flow_labels)
    if flow_label then
        local ev = band(flow_label.value, 0xFFFF) * 65536 + pinfo.src_port
        tree:add(fields.mrc.ev, ev):set_generated()
    end
    local destinations = { ipv6_destinations() }
    if #destinations < 2 then
        return
    end
    local carrier = destinations[1].range
    for offset = 4, 14, 2 do -- behind the 32-bit locator block
        if carrier(offset, 2):uint() == 0 then
            return
        end
        tree:add(fields.mrc["carrier.usid"], carrier(offset, 2))
    end
end

local function is_trimmed_dscp(dscp)
    return dscp == mrc.prefs.trimmed_dscp or dscp == mrc.prefs.trimmed_lasthop_dscp
end

-- Behind the headers ---------------------------------------------------------------------------------

local function add_icrc(tree, tvb, offset)
    local range = tvb(offset, ICRC_BYTES)
    local item = tree:add_le(fields.mrc.icrc, range)
    if not mrc.prefs.check_icrc then
        return
    end
    local ipv6, udp = last(ipv6_headers), last(udp_headers)
    if not (ipv6 and udp and ipv6.range:len() >= 40 and udp.range:len() >= UDP_BYTES) then
        return
    end
    local computed = compute_icrc(
        ipv6.range(0, 40):raw(), udp.range(0, UDP_BYTES):raw(), tvb(0, offset):raw())
    local good = computed == range:le_uint()
    tree:add(fields.mrc["icrc.computed"], range, computed):set_generated()
    tree:add(fields.mrc["icrc.good"], range, good):set_generated()
    if not good then
        item:add_proto_expert_info(expert_bad_icrc)
    end
end

local function add_payload(tree, tvb, offset, stop, pad)
    if stop - pad > offset then
        tree:add(fields.mrc.payload, tvb(offset, stop - pad - offset))
    end
    if pad > 0 and stop - pad >= offset then
        tree:add(fields.mrc.padding, tvb(stop - pad, pad))
    end
end

local original = DissectorTable.get("udp.port"):get_dissector(ROCE_V2_UDP_PORT)

function mrc.dissector(tvb, pinfo, root)
    local opcode = tvb:len() > 0 and tvb(0, 1):uint()
    local opcode_name = OPCODES[opcode]
    if not opcode_name then
        return original and original:call(tvb, pinfo, root) or 0
    end

    pinfo.cols.protocol = "MRC"
    local tree = root:add(mrc, tvb(), "Multipath Reliable Connection, " .. opcode_name)
    add_path(tree, pinfo)

    -- A capture may have cut the packet short: `captured` is what can be shown of `length`.
    -- A switch may have: the UDP header still says how long the packet was.
    local captured, length = tvb:len(), tvb:reported_len()
    local udp_length = last(udp_lengths)
    local original_length = udp_length and udp_length.value - UDP_BYTES or length
    local missing = original_length > length
    local dscp = ({ ipv6_dscps() })[1]
    local trimmed = missing and dscp ~= nil and is_trimmed_dscp(dscp.value)
    tree:add(fields.mrc.trimmed, trimmed):set_generated()
    local remark = ""
    if missing then
        tree:add(fields.mrc.original_length, original_length):set_generated()
        tree:add_proto_expert_info(trimmed and expert_trimmed or expert_missing)
        remark = trimmed and " [trimmed]" or " [bytes missing]"
    end
    local stop = missing and captured or math.min(captured, length - ICRC_BYTES)
    -- False, with a remark, where the packet ends before `size` bytes from `offset` on
    local function there_are(size, offset)
        if offset + size <= stop then
            return true
        end
        if offset < stop then
            tree:add(fields.mrc.rest, tvb(offset, stop - offset))
        end
        if not missing and captured == length then
            tree:add_proto_expert_info(expert_truncated)
            remark = remark .. " [truncated]"
        end
        return false
    end

    if not there_are(BTH_BYTES, 0) then
        pinfo.cols.info = opcode_name .. remark
        return captured
    end
    local bth = tree:add(tvb(0, BTH_BYTES), "BTH")
    add_fields(bth, "bth", BTH_LAYOUT, tvb, 0)
    if band(tvb(1, 1):uint(), 0x0F) ~= 0 then
        bth:add_proto_expert_info(expert_tver)
    end
    local flags = tvb(8, 1):uint()
    local info = string.format(
        "%s QP=0x%06x PSN=%u%s", opcode_name, tvb(5, 3):uint(), tvb(9, 3):uint(),
        band(flags, 0x20) ~= 0 and " rtx" or "")

    local offset = BTH_BYTES
    for _, header in ipairs(headers_of(opcode, band(flags, 0x10) ~= 0)) do
        local layout = LAYOUTS[header]
        if not there_are(layout.size, offset) then
            pinfo.cols.info = info .. remark
            return captured
        end
        local subtree = tree:add(tvb(offset, layout.size), layout.label)
        add_fields(subtree, header, layout, tvb, offset)
        if header == "seth" then
            add_sack_meaning(subtree, tvb, offset)
            local m = band(rshift(tvb(offset, 2):uint(), 5), 3)
            info = info .. (m ~= 0 and (" M=" .. (SACK_M[m] or tostring(m))) or "")
        elseif header == "neth" then
            local reason = tvb(offset + 2, 1):uint()
            info = info .. " " .. (NACK_REASONS[reason] or ("reason " .. reason))
        end
        offset = offset + layout.size
    end

    if CONTROL_HEADERS[opcode] then
        if offset < stop then
            tree:add(fields.mrc.payload, tvb(offset, stop - offset))
            tree:add_proto_expert_info(expert_extra)
        end
    else
        local whole = not missing and captured == length
        local pad = whole and band(rshift(tvb(1, 1):uint(), 4), 3) or 0
        add_payload(tree, tvb, offset, stop, pad)
        info = info .. " Len=" .. math.max(stop - pad - offset, 0)
    end
    if not missing and captured == length then
        add_icrc(tree, tvb, stop)
    end
    pinfo.cols.info = info .. remark
    return captured
end

local port = ROCE_V2_UDP_PORT
DissectorTable.get("udp.port"):add(port, mrc)

function mrc.prefs_changed()
    if mrc.prefs.port ~= port then
        DissectorTable.get("udp.port"):remove(port, mrc)
        port = mrc.prefs.port
        DissectorTable.get("udp.port"):add(port, mrc)
    end
end
