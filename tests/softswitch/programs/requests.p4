// What a packet can ask of the switch: clones, resubmit, recirculate, multicast, digest, truncate,
// drops, log messages, assertions — and the metadata that simple_switch sets.
#include <core.p4>
#include <v1model.p4>

header ask_t { bit<8> ask; bit<8> arg; bit<16> kept; }
header trace_t {
    bit<8> instance; bit<8> rid; bit<16> in_port; bit<16> out_port; bit<32> length;
    bit<16> kept; bit<16> lost; bit<48> in_time; bit<48> out_time;
    bit<32> enq_time; bit<24> enq_depth; bit<32> waited; bit<24> deq_depth;
}
header note_t { bit<8> note; }

struct headers_t { trace_t trace; ask_t ask; note_t note; }
struct metadata_t {
    @field_list(1, 2) bit<16> kept;
    @field_list(2) bit<16> more;
    bit<16> lost;
}
struct message_t { bit<8> ask; bit<16> kept; bit<9> port; }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t sm) {
    state start { packet.extract(hdr.ask); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 2;
        bool again = sm.instance_type != 0;
        if (hdr.ask.ask == 1) {  // clone to egress, keeping kept: the copy is as the packet came
            meta.kept = hdr.ask.kept;
            meta.more = 0x4444;
            meta.lost = 0x5555;
            clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.ask.arg, 1);
            hdr.ask.kept = 0xFFFF;
        } else if (hdr.ask.ask == 2) {  // resubmit once
            if (!again) {
                meta.kept = hdr.ask.kept;
                meta.more = 0x2222;
                meta.lost = 1;
                hdr.ask.arg = 9;
                resubmit_preserving_field_list(2);
            }
        } else if (hdr.ask.ask == 3) {
            sm.mcast_grp = (bit<16>)hdr.ask.arg;
            meta.kept = hdr.ask.kept;
        } else if (hdr.ask.ask == 4) {
            meta.kept = hdr.ask.kept;
            digest<message_t>(1, { hdr.ask.ask, meta.kept, sm.ingress_port });
        } else if (hdr.ask.ask == 5) {
            truncate((bit<32>)hdr.ask.arg);
        } else if (hdr.ask.ask == 6) {
            mark_to_drop(sm);
        } else if (hdr.ask.ask == 7) {  // drop, but clone and tell all the same
            clone_preserving_field_list(CloneType.I2E, 5, 2);
            meta.kept = 7;
            meta.more = 8;
            digest<message_t>(1, { hdr.ask.ask, 7, 0 });
            mark_to_drop(sm);
        } else if (hdr.ask.ask == 8) {
            log_msg("kept = {} of {}", { hdr.ask.kept, hdr.ask.arg });
        } else if (hdr.ask.ask == 9) {
            assert(hdr.ask.arg != 0);
            assume(hdr.ask.arg != 1);
        } else if (hdr.ask.ask == 10) {
            sm.egress_spec = (bit<9>)hdr.ask.arg;
            sm.priority = (bit<3>)hdr.ask.kept;
        } else if (hdr.ask.ask == 11 && again) {  // recirculated
            hdr.ask.arg = hdr.ask.arg + 0x10;
        } else if (hdr.ask.ask == 16) {
            hdr.note.setValid();
            hdr.note.note = 0xAB;
            hdr.ask.setInvalid();
        }
        if (again && hdr.ask.isValid()) {
            hdr.ask.kept = meta.kept;
            meta.lost = meta.more;
        }
    }
}
control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        bool copied = sm.instance_type == 2;
        bool around = hdr.ask.isValid() && hdr.ask.ask == 11 && hdr.ask.arg < 0x10;
        if (hdr.ask.isValid() && !copied) {
            if (around) {
                meta.kept = 0x1111;
                meta.more = 0x2222;
                hdr.ask.kept = 0x9999;
                recirculate_preserving_field_list(1);
            } else if (hdr.ask.ask == 12) {  // clone from egress: the copy is as it is now
                meta.kept = hdr.ask.kept;
                meta.lost = 0x7777;
                hdr.ask.kept = 0x6666;
                clone_preserving_field_list(CloneType.E2E, (bit<32>)hdr.ask.arg, 1);
            } else if (hdr.ask.ask == 13) {
                mark_to_drop(sm);
            } else if (hdr.ask.ask == 14) {
                clone(CloneType.E2E, 3);
                mark_to_drop(sm);
            } else if (hdr.ask.ask == 15) {
                truncate(6);
            }
        }
        if (!around) {
            hdr.trace.setValid();
            hdr.trace.instance = (bit<8>)sm.instance_type;
            hdr.trace.rid = (bit<8>)sm.egress_rid;
            hdr.trace.in_port = (bit<16>)sm.ingress_port;
            hdr.trace.out_port = (bit<16>)sm.egress_port;
            hdr.trace.length = sm.packet_length;
            hdr.trace.kept = meta.kept;
            hdr.trace.lost = meta.lost;
            hdr.trace.in_time = sm.ingress_global_timestamp;
            hdr.trace.out_time = sm.egress_global_timestamp;
            hdr.trace.enq_time = sm.enq_timestamp;
            hdr.trace.enq_depth = (bit<24>)sm.enq_qdepth;
            hdr.trace.waited = sm.deq_timedelta;
            hdr.trace.deq_depth = (bit<24>)sm.deq_qdepth;
        }
    }
}
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control DeparserImpl(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(ParserImpl(), Verify(), IngressImpl(), EgressImpl(), Compute(), DeparserImpl()) main;
