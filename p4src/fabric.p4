// The switch of an MRC fabric. T0 and T1 run this same program; their role is in their tables,
// which a static controller writes once.
//
//   parse → validate → SRv6 uSID, else plain IPv6 → admission to the egress queue
//         → [queue] → release → link addresses → deparse
//
// Every packet that comes in is either sent or counted by the reason for which it was dropped.
// Byte counts are of the packet as it came in (that is what a v1model counter adds), so a trimmed
// packet counts with the size it had before.

#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

#include "include/sizes.p4"
#include "include/headers.p4"
#include "include/parser.p4"
#include "include/srv6.p4"
#include "include/routing.p4"
#include "include/queue_control.p4"
#include "include/neighbors.p4"

control FabricIngress(inout headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) received;
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) dropped_parser_error;
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) dropped_not_ipv6;
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) dropped_hop_limit;

    Srv6() srv6;
    Routing() routing;
    Admission() admission;

    action drop_parser_error() {
        mark_to_drop(standard_metadata);
        dropped_parser_error.count(standard_metadata.ingress_port);
        exit;
    }

    action drop_not_ipv6() {
        mark_to_drop(standard_metadata);
        dropped_not_ipv6.count(standard_metadata.ingress_port);
        exit;
    }

    action drop_hop_limit() {
        mark_to_drop(standard_metadata);
        dropped_hop_limit.count(standard_metadata.ingress_port);
        exit;
    }

    apply {
        received.count(standard_metadata.ingress_port);
        if (standard_metadata.parser_error != error.NoError) {
            drop_parser_error();
        }
        if (!hdr.ipv6.isValid()) {
            drop_not_ipv6();
        }
        if (hdr.ipv6.hop_limit <= 1) {
            drop_hop_limit();
        }
        hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;

        srv6.apply(hdr, meta, standard_metadata);
        if (!meta.forwarded) {
            routing.apply(hdr, meta, standard_metadata);
        }
        admission.apply(hdr, meta, standard_metadata);
    }
}

control FabricEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) sent_data;
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) sent_control;

    Release() release;
    Neighbors() neighbors;

    apply {
        release.apply(meta, standard_metadata);
        neighbors.apply(hdr, standard_metadata);
        if (meta.is_control == 1) {
            sent_control.count(standard_metadata.egress_port);
        } else {
            sent_data.count(standard_metadata.egress_port);
        }
    }
}

V1Switch(FabricParser(),
         NoVerifyChecksum(),
         FabricIngress(),
         FabricEgress(),
         NoComputeChecksum(),
         FabricDeparser()) main;
