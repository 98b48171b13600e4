// Plain IPv6: longest prefix, and ECMP over what identifies a flow (RFC 6438 asks for the flow
// label to be part of it). Baselines and MRC's ECMP mode use it. Where the table `spraying` says so,
// each packet goes its own way: the hash then sees a random number for the UDP source port.

#ifndef ROUTING_P4
#define ROUTING_P4

#include "headers.p4"
#include "sizes.p4"

control Routing(inout headers_t hdr,
                inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) dropped_no_route;
    action_selector(HashAlgorithm.crc32, ECMP_MEMBERS, 16) ecmp;

    action drop_no_route() {
        mark_to_drop(standard_metadata);
        dropped_no_route.count(standard_metadata.ingress_port);
        exit;
    }

    action to_port(PortId_t egress_port) {
        standard_metadata.egress_spec = egress_port;
        meta.forwarded = true;
    }

    action spray() {
        random(meta.udp_src_port, 0, 0xFFFF);
    }

    // No entry, no spraying: what belongs together goes together
    table spraying {
        key = { hdr.ipv6.dscp: exact @name("dscp"); }
        actions = { spray; @defaultonly NoAction; }
        const default_action = NoAction();
        size = DSCP_VALUES;
    }

    table ipv6_route {
        key = {
            hdr.ipv6.dst_addr: lpm @name("dst_addr");
            hdr.ipv6.src_addr: selector;
            hdr.ipv6.dst_addr: selector;
            hdr.ipv6.flow_label: selector;
            hdr.ipv6.next_header: selector;
            meta.udp_src_port: selector;
            meta.udp_dst_port: selector;
        }
        actions = { to_port; @defaultonly NoAction; }
        implementation = ecmp;
        size = IPV6_ROUTES;
    }

    apply {
        spraying.apply();
        ipv6_route.apply();
        if (!meta.forwarded) {
            drop_no_route();
        }
    }
}

#endif
