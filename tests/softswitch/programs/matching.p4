// Tables: every match kind, const and default entries, hit and miss, action_run, exit, profiles.
#include <core.p4>
#include <v1model.p4>

header key_t { bit<8> which; bit<8> e; bit<32> l; bit<16> t; bit<16> r; bit<8> o; bit<8> mark; }
header extra_t { bit<8> x; }
header result_t { bit<8> action_no; bit<16> arg; bit<8> after; }

struct headers_t { key_t k; extra_t extra; result_t result; }
struct metadata_t { bit<16> flow; }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.k);
        transition select(hdr.k.mark) { 0xEE: extra; default: accept; }
    }
    state extra { packet.extract(hdr.extra); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action none() { hdr.result.action_no = 1; }
    action set(bit<16> arg) { hdr.result.action_no = 2; hdr.result.arg = arg; }
    action other(bit<8> high, bit<8> low) { hdr.result.action_no = 3; hdr.result.arg = high ++ low; }
    action leave() { hdr.result.action_no = 4; exit; }
    action out_port(bit<9> port) { sm.egress_spec = port; hdr.result.action_no = 5; }

    table exact_one { key = { hdr.k.e: exact; } actions = { none; set; other; leave; } default_action = none(); size = 4; }
    table exact_two { key = { hdr.k.e: exact; hdr.k.t: exact; } actions = { none; set; } const default_action = none(); }
    table nested { key = { hdr.k.e: exact; } actions = { none; set; } default_action = none(); }
    table prefix { key = { hdr.k.l: lpm; } actions = { none; set; } default_action = set(0xDEAD); }
    table exact_prefix { key = { hdr.k.e: exact; hdr.k.l: lpm; } actions = { none; set; } default_action = none(); }
    table ternary_two { key = { hdr.k.t: ternary; hdr.k.l: lpm; } actions = { none; set; other; } default_action = none(); }
    table in_range { key = { hdr.k.r: range; hdr.k.e: exact; } actions = { none; set; } default_action = none(); }
    table maybe { key = { hdr.k.o: optional; hdr.k.e: optional; } actions = { none; set; } default_action = none(); }
    table fixed {
        key = { hdr.k.t: ternary; hdr.k.r: range; hdr.k.e: exact; }
        actions = { none; set; }
        const default_action = none();
        const entries = {
            (0x1200 &&& 0xFF00, 10..20, 1): set(100);
            (0x1234, 0..0xFFFF, 1): set(200);
            (_, _, 2): set(300);
        }
    }
    table validity { key = { hdr.extra.isValid(): exact; hdr.extra.x: ternary; } actions = { none; set; } default_action = none(); }
    table masked { key = { hdr.k.l & 0x00FFFF00: exact; } actions = { none; set; } default_action = none(); }

    action_profile(16) profile;
    table member { key = { hdr.k.e: exact; } actions = { none; set; other; } implementation = profile; }
    action_selector(HashAlgorithm.crc32, 64, 16) chooser;
    table group { key = { hdr.k.e: exact; meta.flow: selector; hdr.k.l: selector; } actions = { none; set; out_port; } implementation = chooser; }

    apply {
        sm.egress_spec = 2;
        meta.flow = hdr.k.t;
        hdr.result.setValid();
        if (hdr.k.which == 0) { exact_one.apply(); }
        else if (hdr.k.which == 1) { if (exact_two.apply().hit) { hdr.result.after = 0x11; } else { hdr.result.after = 0x22; } }
        else if (hdr.k.which == 2) { prefix.apply(); }
        else if (hdr.k.which == 3) { exact_prefix.apply(); }
        else if (hdr.k.which == 4) {
            switch (ternary_two.apply().action_run) {
                set: { hdr.result.after = 0x33; }
                other: { hdr.result.after = 0x44; nested.apply(); }
                default: { hdr.result.after = 0x55; }
            }
        }
        else if (hdr.k.which == 5) { in_range.apply(); }
        else if (hdr.k.which == 6) { maybe.apply(); }
        else if (hdr.k.which == 7) { fixed.apply(); }
        else if (hdr.k.which == 8) { hdr.extra.setInvalid(); validity.apply(); }
        else if (hdr.k.which == 9) { validity.apply(); }
        else if (hdr.k.which == 10) { masked.apply(); }
        else if (hdr.k.which == 11) { member.apply(); }
        else if (hdr.k.which == 12) { if (!group.apply().hit) { hdr.result.after = 0x66; } }
        hdr.k.mark = 0x99;
    }
}
control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {}
}
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control DeparserImpl(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(ParserImpl(), Verify(), IngressImpl(), EgressImpl(), Compute(), DeparserImpl()) main;
