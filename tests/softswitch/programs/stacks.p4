// Header stacks, unions and stacks of unions: push, pop, run-time indices, copies, validity.
#include <core.p4>
#include <v1model.p4>

header op_t { bit<8> op; bit<8> a; bit<8> b; bit<8> count; }
header item_t { bit<8> kind; bit<8> value; }
header short_t { bit<8> kind; bit<8> value; }
header long_t { bit<8> kind; bit<24> value; }
header sum_t { bit<16> sum; bit<8> valid; bit<8> last; }
header_union either_t { short_t s; long_t l; }

struct headers_t {
    sum_t sum;
    op_t op;
    item_t[4] items;
    item_t spare;
    either_t[2] eithers;
    either_t single;
}
struct metadata_t { bit<8> left; bit<8> last; }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.op);
        meta.left = hdr.op.count;
        transition items;
    }
    state items {
        transition select(meta.left) { 0: eithers; default: item; }
    }
    state item {
        packet.extract(hdr.items.next);
        meta.left = meta.left - 1;
        meta.last = (bit<8>)hdr.items.lastIndex + hdr.items.last.kind;
        transition items;
    }
    state eithers {
        transition select(packet.lookahead<bit<8>>()) {
            1: short_one;
            2: long_one;
            3: single_short;
            4: single_long;
            default: accept;
        }
    }
    state short_one { packet.extract(hdr.eithers.next.s); transition eithers; }
    state long_one { packet.extract(hdr.eithers.next.l); transition eithers; }
    state single_short { packet.extract(hdr.single.s); transition accept; }
    state single_long { packet.extract(hdr.single.l); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 2;
        if (hdr.op.op == 1) {
            hdr.items.push_front(1);
            hdr.items[0].setValid();
            hdr.items[0].kind = hdr.op.a;
            hdr.items[0].value = hdr.op.b;
        } else if (hdr.op.op == 2) {
            hdr.items.push_front(3);
        } else if (hdr.op.op == 3) {
            hdr.items.pop_front(1);
        } else if (hdr.op.op == 4) {
            hdr.items.pop_front(3);
        } else if (hdr.op.op == 5) {
            hdr.items[hdr.op.a].value = hdr.items[hdr.op.b].value;
        } else if (hdr.op.op == 6) {
            hdr.items[hdr.op.a] = hdr.items[hdr.op.b];
        } else if (hdr.op.op == 7) {
            hdr.items[1].setInvalid();
        } else if (hdr.op.op == 8) {
            hdr.spare = hdr.items[0];
            hdr.items[0].setInvalid();
        } else if (hdr.op.op == 9) {
            hdr.items[hdr.op.a].setInvalid();
        } else if (hdr.op.op == 10) {
            hdr.single.s.setValid();
            hdr.single.s.kind = 0x77;
        } else if (hdr.op.op == 11) {
            hdr.single.l.setValid();
            hdr.single.l.value = 0x123456;
        } else if (hdr.op.op == 12) {
            hdr.eithers[0] = hdr.single;
        } else if (hdr.op.op == 13) {
            hdr.eithers.push_front(1);
            hdr.eithers[0].s.setValid();
            hdr.eithers[0].s.value = 9;
        } else if (hdr.op.op == 14) {
            hdr.eithers.pop_front(1);
        } else if (hdr.op.op == 15) {
            if (hdr.items[0] == hdr.items[1]) { hdr.op.op = 0xE0; } else { hdr.op.op = 0xE1; }
        } else if (hdr.op.op == 16) {
            if (hdr.single.isValid()) { hdr.op.op = 0xE0; } else { hdr.op.op = 0xE1; }
        }
        hdr.sum.setValid();
        hdr.sum.last = meta.last;
    }
}
control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        // Reads the stack again behind the queue.
        if (hdr.items[0].isValid()) {
            hdr.sum.sum = hdr.sum.sum + (bit<16>)hdr.items[0].value;
            hdr.sum.valid = hdr.sum.valid | 1;
        }
        if (hdr.items[1].isValid()) {
            hdr.sum.sum = hdr.sum.sum + (bit<16>)hdr.items[1].value;
            hdr.sum.valid = hdr.sum.valid | 2;
        }
        if (hdr.items[2].isValid()) { hdr.sum.valid = hdr.sum.valid | 4; }
        if (hdr.items[3].isValid()) { hdr.sum.valid = hdr.sum.valid | 8; }
        if (hdr.eithers[0].s.isValid()) { hdr.sum.valid = hdr.sum.valid | 16; }
        if (hdr.eithers[0].l.isValid()) { hdr.sum.valid = hdr.sum.valid | 32; }
    }
}
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control DeparserImpl(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(ParserImpl(), Verify(), IngressImpl(), EgressImpl(), Compute(), DeparserImpl()) main;
