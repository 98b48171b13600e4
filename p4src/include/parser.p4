// Ethernet | IPv6 [| SRH and its segments] [| UDP]. Whatever comes behind is payload to this switch.

#ifndef PARSER_P4
#define PARSER_P4

#include "headers.p4"

error {
    NotIpv6Version
}

parser FabricParser(packet_in packet,
                    out headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        verify(hdr.ipv6.version == 6, error.NotIpv6Version);
        meta.payload_protocol = hdr.ipv6.next_header;
        transition select(hdr.ipv6.next_header) {
            PROTOCOL_IPV6_ROUTE: parse_routing_header;
            PROTOCOL_UDP: parse_udp;
            default: accept;
        }
    }

    // Only an SRH is ours to read; other routing types pass as payload.
    state parse_routing_header {
        transition select(packet.lookahead<bit<24>>()[7:0]) {
            ROUTING_TYPE_SRH: parse_srh;
            default: accept;
        }
    }

    state parse_srh {
        packet.extract(hdr.srh);
        meta.payload_protocol = hdr.srh.next_header;
        meta.srh_bytes = 8 + ((bit<32>)hdr.srh.hdr_ext_len << 3);
        meta.segments_to_parse = hdr.srh.last_entry;
        transition select(hdr.srh.last_entry) {
            0 .. (MAX_SEGMENTS - 1): parse_segment;
            default: accept;    // too long a list for this switch to act on; it may still be passed on
        }
    }

    state parse_segment {
        packet.extract(hdr.segments.next);
        meta.segments_to_parse = meta.segments_to_parse - 1;
        transition select(meta.segments_to_parse) {
            0xFF: accept;       // wrapped: the last entry has been read
            default: parse_segment;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        meta.udp_src_port = hdr.udp.src_port;
        meta.udp_dst_port = hdr.udp.dst_port;
        transition accept;
    }
}

control FabricDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.srh);
        packet.emit(hdr.segments);
        packet.emit(hdr.udp);
    }
}

// IPv6 has no header checksum and the switch changes nothing that a UDP checksum covers
// but the destination address of a packet whose transport lies behind a second IPv6 header.
control NoVerifyChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }
control NoComputeChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

#endif
