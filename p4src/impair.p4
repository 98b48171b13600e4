// An inline two-port impairment, put in front of a NIC: what comes in on port 0 leaves on port 1
// and the other way round, but for the packets that it loses or damages. For each direction a
// table sets how likely a packet is dropped and how likely one bit of it is flipped.
//
// A probability p is written as the threshold p * (2^32 - 1): 0 is never, 0xFFFFFFFF is always.
//
// To reach any bit of a packet of any length, a packet chosen for damage is resubmitted and its
// second parse stops at the byte in question. Ethernet addresses are spared: damage there would
// look like loss.

#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

const bit<32> PORTS = 2;
const bit<32> MAX_DRAW = 0xFFFFFFFE;   // 2^32 - 1 values, of which all are below 0xFFFFFFFF
const bit<32> ETHERNET_BYTES = 14;
const bit<32> MAX_FRAME_BYTES = 16384;
const bit<32> INSTANCE_TYPE_RESUBMIT = 6;
const bit<8> DAMAGE_FIELDS = 1;

header before_t {
    varbit<131072> bytes;   // MAX_FRAME_BYTES
}

header target_t {
    bit<8> value;
}

struct headers_t {
    before_t before;
    target_t target;
}

struct metadata_t {
    // Kept here because simple_switch clears the ingress port of a resubmitted packet
    @field_list(DAMAGE_FIELDS) PortId_t egress_port;
    @field_list(DAMAGE_FIELDS) bit<32>  offset_bytes;
    @field_list(DAMAGE_FIELDS) bit<8>   flip;
}

parser ImpairParser(packet_in packet,
                    out headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        transition select(standard_metadata.instance_type) {
            INSTANCE_TYPE_RESUBMIT: find_target;
            default: accept;
        }
    }

    state find_target {
        packet.extract(hdr.before, meta.offset_bytes << 3);
        packet.extract(hdr.target);
        transition accept;
    }
}

control ImpairIngress(inout headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) received;
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) dropped;
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) corrupted;

    bit<32> drop_below = 0;
    bit<32> corrupt_below = 0;

    action impair(@name("drop_threshold") bit<32> drop_threshold,
                  @name("corrupt_threshold") bit<32> corrupt_threshold) {
        drop_below = drop_threshold;
        corrupt_below = corrupt_threshold;
    }

    // A direction is named by the port its packets come in on
    table direction {
        key = { standard_metadata.ingress_port: exact @name("ingress_port"); }
        actions = { impair; @defaultonly NoAction; }
        const default_action = NoAction();
        size = PORTS;
    }

    action drop() {
        mark_to_drop(standard_metadata);
        dropped.count(standard_metadata.ingress_port);
        exit;
    }

    action choose_bit() {
        bit<3> shift;
        random(meta.offset_bytes, ETHERNET_BYTES, standard_metadata.packet_length - 1);
        random(shift, 0, 7);
        meta.flip = 8w1 << shift;
    }

    apply {
        if (standard_metadata.instance_type == INSTANCE_TYPE_RESUBMIT) {
            hdr.target.value = hdr.target.value ^ meta.flip;
        } else {
            received.count(standard_metadata.ingress_port);
            meta.egress_port = standard_metadata.ingress_port ^ 1;
            direction.apply();
            bit<32> draw;
            random(draw, 0, MAX_DRAW);
            if (draw < drop_below) {
                drop();
            }
            random(draw, 0, MAX_DRAW);
            if (draw < corrupt_below
                    && standard_metadata.packet_length > ETHERNET_BYTES
                    && standard_metadata.packet_length <= MAX_FRAME_BYTES) {
                choose_bit();
                corrupted.count(standard_metadata.ingress_port);
                resubmit_preserving_field_list(DAMAGE_FIELDS);
            }
        }
        standard_metadata.egress_spec = meta.egress_port;
    }
}

control ImpairEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) sent;

    apply {
        sent.count(standard_metadata.egress_port);
    }
}

control ImpairDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.before);
        packet.emit(hdr.target);
    }
}

control NoVerifyChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }
control NoComputeChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

V1Switch(ImpairParser(),
         NoVerifyChecksum(),
         ImpairIngress(),
         ImpairEgress(),
         NoComputeChecksum(),
         ImpairDeparser()) main;
