// SRv6 endpoint behaviours with the NEXT-C-SID flavour (RFC 9800, section 4.1; RFC 8986,
// section 4): uN and uA, 32-bit locator block, 16-bit uSIDs, 80 bits of argument behind.

#ifndef SRV6_P4
#define SRV6_P4

#include "headers.p4"
#include "sizes.p4"

control Srv6(inout headers_t hdr,
             inout metadata_t meta,
             inout standard_metadata_t standard_metadata) {
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) dropped_no_next_sid;
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) dropped_not_my_sid;
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) dropped_malformed_srh;

    action drop_no_next_sid() {
        mark_to_drop(standard_metadata);
        dropped_no_next_sid.count(standard_metadata.ingress_port);
        exit;
    }

    action drop_not_my_sid() {
        mark_to_drop(standard_metadata);
        dropped_not_my_sid.count(standard_metadata.ingress_port);
        exit;
    }

    action drop_malformed_srh() {
        mark_to_drop(standard_metadata);
        dropped_malformed_srh.count(standard_metadata.ingress_port);
        exit;
    }

    // RFC 9800, section 4.1.1: the argument moves up behind the block, zeros fill in
    action next_usid() {
        hdr.ipv6.dst_addr = hdr.ipv6.dst_addr[127:96] ++ hdr.ipv6.dst_addr[79:0] ++ 16w0;
    }

    // RFC 8986, section 4.1, lines S13 and S14
    action next_segment() {
        hdr.srh.segments_left = hdr.srh.segments_left - 1;
        hdr.ipv6.dst_addr = hdr.segments[hdr.srh.segments_left].address;
    }

    action un() { }

    action ua(PortId_t egress_port) {
        standard_metadata.egress_spec = egress_port;
        meta.forwarded = true;
    }

    // The SIDs that this switch owns
    table my_sid {
        key = { hdr.ipv6.dst_addr[127:80]: exact @name("sid"); }
        actions = { un; ua; @defaultonly NoAction; }
        const default_action = NoAction();
        size = MY_SIDS;
    }

    action to_port(PortId_t egress_port) {
        standard_metadata.egress_spec = egress_port;
        meta.forwarded = true;
    }

    // Where a uN sends a packet: SIDs of neighbours, and downlinks of this switch
    table next_sid {
        key = { hdr.ipv6.dst_addr[127:80]: exact @name("sid"); }
        actions = { to_port; @defaultonly NoAction; }
        const default_action = NoAction();
        size = NEXT_SIDS;
    }

    action in_block() { }

    // Destinations in a locator block never fall through to plain IPv6 routes
    table locator_block {
        key = { hdr.ipv6.dst_addr[127:96]: exact @name("block"); }
        actions = { in_block; @defaultonly NoAction; }
        const default_action = NoAction();
        size = LOCATOR_BLOCKS;
    }

    apply {
        bool is_endpoint = my_sid.apply().hit;
        if (is_endpoint) {
            if (hdr.ipv6.dst_addr[79:0] != 0) {
                next_usid();
            } else if (!hdr.srh.isValid() || hdr.srh.segments_left == 0) {
                drop_no_next_sid();
            } else if (hdr.srh.last_entry >= MAX_SEGMENTS
                       || hdr.srh.hdr_ext_len < ((hdr.srh.last_entry + 1) << 1)
                       || hdr.srh.segments_left > hdr.srh.last_entry + 1) {
                drop_malformed_srh();
            } else {
                next_segment();
            }
            if (!meta.forwarded) {
                next_sid.apply();
            }
        }
        if (!meta.forwarded) {
            if (locator_block.apply().hit) {
                if (is_endpoint) {
                    drop_no_next_sid();
                } else {
                    drop_not_my_sid();
                }
            }
        }
    }
}

#endif
