// Variable-length fields: copies, checksums and hashes over them; stacks copied as a whole.
#include <core.p4>
#include <v1model.p4>

header option_t { bit<8> op; bit<8> length; varbit<128> data; bit<16> checksum; }
header label_t { bit<8> value; }

struct headers_t { option_t first; option_t second; label_t[2] labels; label_t[2] copies; }
struct metadata_t { bit<32> low; bit<16> hashed; }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.first, (bit<32>)packet.lookahead<bit<16>>()[7:0]);
        packet.extract(hdr.second, (bit<32>)packet.lookahead<bit<16>>()[7:0]);
        packet.extract(hdr.labels.next);
        packet.extract(hdr.labels.next);
        transition select(hdr.first.op) {
            5: copy_stack;
            default: accept;
        }
    }
    state copy_stack { hdr.copies = hdr.labels; transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.first.op == 4, { hdr.first.op, hdr.first.length, hdr.first.data },
            hdr.first.checksum, HashAlgorithm.csum16);
    }
}
control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 2;
        if (hdr.first.op == 1) { hdr.second = hdr.first; }
        else if (hdr.first.op == 2) { hdr.second.data = hdr.first.data; }
        else if (hdr.first.op == 3) { hdr.second.setInvalid(); }
        else if (hdr.first.op == 6) {
            random(meta.low, 32w100, 32w102);
            random(hdr.second.checksum, (bit<16>)meta.low, 200);
        }
        else if (hdr.first.op == 7) { random(hdr.second.checksum, 16w9, 16w3); }
        if (sm.checksum_error == 1) { hdr.second.checksum = 0xBAD; }
    }
}
control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {}
}
control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.second.isValid() && hdr.first.op < 3,
            { hdr.second.op, hdr.second.length, hdr.second.data },
            hdr.second.checksum, HashAlgorithm.csum16);
    }
}
control DeparserImpl(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(ParserImpl(), Verify(), IngressImpl(), EgressImpl(), Compute(), DeparserImpl()) main;
