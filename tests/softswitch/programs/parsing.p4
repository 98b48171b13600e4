// Parser features: masks, ranges, value set, lookahead, advance, verify, own errors, varbit, loops.
#include <core.p4>
#include <v1model.p4>

error { BadVersion, Unwanted }

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header tag_t { bit<3> pcp; bit<1> dei; bit<12> vid; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length;
    bit<16> id; bit<3> flags; bit<13> fragment;
    bit<8> ttl; bit<8> protocol; bit<16> checksum;
    bit<32> src; bit<32> dst;
    varbit<320> options;
}
header tlv_t { bit<8> kind; bit<8> length; varbit<64> value; }
header marker_t { bit<8> kind; bit<24> data; }
header signed_t { int<8> small; int<16> large; bit<8> flags; }
header report_t { bit<32> error_code; bit<8> tags; bit<16> kinds; bit<8> peeked; bit<8> path; }

struct headers_t {
    report_t report;
    ethernet_t ethernet;
    tag_t[3] tags;
    ipv4_t ipv4;
    tlv_t tlv;
    signed_t signed;
    marker_t marker;
}
struct metadata_t { bit<8> peeked; bit<8> path; bit<16> kinds; bit<8> left; }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t sm) {
    value_set<bit<16>>(4) special;

    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type, sm.ingress_port) {
            (0x8100, _): tag;
            (0x0800, _): ipv4;
            (0x9000 &&& 0xFF00, _): masked;
            (0x9100..0x9105, 1): ranged;
            (0x9200, _): counted;
            (0x9300, _): numbers;
            (0x9400, _): skip;
            default: more;
        }
    }
    state more {
        transition select(hdr.ethernet.type) {
            special: in_set;
            default: accept;
        }
    }
    state tag {
        packet.extract(hdr.tags.next);
        transition select(hdr.tags.last.type) {
            0x8100: tag;
            0x0800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        meta.path = 1;
        meta.peeked = packet.lookahead<bit<8>>();
        verify(meta.peeked[7:4] == 4, error.BadVersion);
        verify(meta.peeked[3:0] >= 5, error.HeaderTooShort);
        packet.extract(hdr.ipv4, (bit<32>)((bit<9>)(meta.peeked[3:0] - 5)) * 32);
        transition select(hdr.ipv4.protocol) {
            250: tlv;
            default: accept;
        }
    }
    state tlv {
        meta.path = 2;
        packet.extract(hdr.tlv, (bit<32>)packet.lookahead<bit<16>>()[7:0]);
        transition accept;
    }
    state masked { meta.path = 3; transition marker; }
    state ranged { meta.path = 4; transition marker; }
    state in_set { meta.path = 5; transition marker; }
    state marker {
        packet.extract(hdr.marker);
        transition select(hdr.marker.kind) {
            0: accept;
            1 &&& 0x0F: accept;
            2: unwanted;
        }
    }
    state unwanted { verify(false, error.Unwanted); transition accept; }
    state counted {
        // A loop that does not move: how often is in the packet.
        meta.left = packet.lookahead<bit<8>>();
        transition count;
    }
    state count {
        meta.kinds = meta.kinds + 3;
        meta.left = meta.left - 1;
        transition select(meta.left) {
            0: accept;
            255: endless;
            default: count;
        }
    }
    state endless { transition endless_again; }
    state endless_again {
        transition select(hdr.ethernet.dst) { 1: accept; default: endless; }
    }
    state numbers {
        packet.extract(hdr.signed);
        transition select((bit<8>)hdr.signed.small) {
            0xFF: negative;
            default: accept;
        }
    }
    state negative { meta.path = 7; hdr.signed.large = hdr.signed.large + 1; transition accept; }
    state skip {
        bit<8> bits = packet.lookahead<bit<8>>();
        packet.advance((bit<32>)bits);
        packet.advance(8);
        packet.extract(hdr.marker);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 2;
        hdr.report.setValid();
        // An error type cannot be cast to a number in P4.
        if (sm.parser_error == error.NoError) hdr.report.error_code = 0;
        else if (sm.parser_error == error.PacketTooShort) hdr.report.error_code = 1;
        else if (sm.parser_error == error.NoMatch) hdr.report.error_code = 2;
        else if (sm.parser_error == error.StackOutOfBounds) hdr.report.error_code = 3;
        else if (sm.parser_error == error.HeaderTooShort) hdr.report.error_code = 4;
        else if (sm.parser_error == error.ParserTimeout) hdr.report.error_code = 5;
        else if (sm.parser_error == error.ParserInvalidArgument) hdr.report.error_code = 6;
        else if (sm.parser_error == error.BadVersion) hdr.report.error_code = 7;
        else if (sm.parser_error == error.Unwanted) hdr.report.error_code = 8;
        hdr.report.path = meta.path;
        hdr.report.peeked = meta.peeked;
        hdr.report.kinds = meta.kinds;
        if (hdr.tags[0].isValid()) hdr.report.tags = hdr.report.tags + 1;
        if (hdr.tags[1].isValid()) hdr.report.tags = hdr.report.tags + 1;
        if (hdr.tags[2].isValid()) hdr.report.tags = hdr.report.tags + 1;
    }
}
control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {}
}
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control DeparserImpl(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(ParserImpl(), Verify(), IngressImpl(), EgressImpl(), Compute(), DeparserImpl()) main;
