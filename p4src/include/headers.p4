// Headers that the switch looks into, and the metadata that travels with a packet.

#ifndef HEADERS_P4
#define HEADERS_P4

const bit<16> ETHERTYPE_IPV6 = 0x86DD;
const bit<8> PROTOCOL_UDP = 17;
const bit<8> PROTOCOL_IPV6_ROUTE = 43;   // RFC 8200, section 4.4
const bit<8> ROUTING_TYPE_SRH = 4;       // RFC 8754, section 2

const bit<32> ETHERNET_BYTES = 14;
const bit<32> IPV6_BYTES = 40;

// RFC 3168, section 5
const bit<2> ECN_NOT_ECT = 0;
const bit<2> ECN_CE = 3;

// standard_metadata.priority; the higher number leaves first, data stays at 0
const bit<3> PRIORITY_CONTROL = 1;

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

// RFC 8200, section 3, with the traffic class split as in RFC 2474 and RFC 3168
header ipv6_t {
    bit<4>   version;
    bit<6>   dscp;
    bit<2>   ecn;
    bit<20>  flow_label;
    bit<16>  payload_length;
    bit<8>   next_header;
    bit<8>   hop_limit;
    bit<128> src_addr;
    bit<128> dst_addr;
}

// RFC 8754, section 2. TLVs, where there are any, stay in the payload.
header srh_t {
    bit<8>  next_header;
    bit<8>  hdr_ext_len;
    bit<8>  routing_type;
    bit<8>  segments_left;
    bit<8>  last_entry;
    bit<8>  flags;
    bit<16> tag;
}

header segment_t {
    bit<128> address;
}

// RFC 768
header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t              ethernet;
    ipv6_t                  ipv6;
    srh_t                   srh;
    segment_t[MAX_SEGMENTS] segments;
    udp_t                   udp;
}

struct metadata_t {
    bit<8>  segments_to_parse;
    // What the IPv6 header and its SRH carry: decides how much of a packet trimming keeps
    bit<8>  payload_protocol;
    bit<32> srh_bytes;
    // UDP ports or 0: what the ECMP hash sees of the transport; of packets that are sprayed,
    // udp_src_port is a random number
    bit<16> udp_src_port;
    bit<16> udp_dst_port;
    // Set once the packet has an egress port
    bool    forwarded;
    // What the packet was charged for at admission, so that egress discharges the same
    bit<1>  is_control;
    bit<32> charged_bytes;
}

#endif
