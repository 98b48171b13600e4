// Does with a packet what its first byte after Ethernet wants: every way to copy it or to pass it through again.
// In egress each packet notes what it is.
#include <core.p4>
#include <v1model.p4>

const bit<32> NORMAL = 0;
const bit<32> EGRESS_CLONE = 2;
const bit<32> RECIRCULATED = 4;
const bit<32> SESSION = 7;

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> ether_type;
}

header note_t {
    bit<8>  want;
    bit<8>  ingress_passes;
    bit<8>  egress_passes;
    bit<8>  instance;
    bit<8>  rid;
    bit<8>  port;
    bit<8>  kept;
    bit<8>  lost;
    bit<8>  ingress_port;
    bit<16> length;
}

struct headers_t {
    ethernet_t ethernet;
    note_t     note;
}

struct metadata_t {
    @field_list(1)
    bit<8> kept;
    bit<8> lost;
}

parser CopiesParser(packet_in packet, out headers_t headers, inout metadata_t metadata,
                    inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.ethernet);
        packet.extract(headers.note);
        transition accept;
    }
}

control CopiesVerify(inout headers_t headers, inout metadata_t metadata) {
    apply {}
}

control CopiesIngress(inout headers_t headers, inout metadata_t metadata,
                      inout standard_metadata_t standard) {
    apply {
        bit<8> want = headers.note.want;
        bit<32> instance = standard.instance_type;
        headers.note.ingress_passes = headers.note.ingress_passes + 1;
        standard.egress_spec = 2;
        if (instance == NORMAL) {
            metadata.kept = 0x55;
            metadata.lost = 0x66;
        }
        if (want == 1 || want == 2 || want == 8 || want == 9) {
            clone_preserving_field_list(CloneType.I2E, SESSION, 1);
        }
        if (want == 2) {
            mark_to_drop(standard);
        }
        if (want == 3 || want == 8 || want == 10 || want == 15) {
            standard.mcast_grp = 1;
        }
        if ((want == 4 || want == 9 || want == 13) && instance == NORMAL) {
            resubmit_preserving_field_list(1);
        }
        if (want == 13) {
            mark_to_drop(standard);
        }
        if (want == 10 && instance == RECIRCULATED) {
            standard.mcast_grp = 0;
        }
        if (want == 11) {
            truncate(28);
        }
        if (want == 12) {
            standard.egress_spec = 300;
        }
        if (want == 12 && instance == RECIRCULATED) {
            standard.egress_spec = 3;
        }
        if (want == 14) {
            standard.mcast_grp = 99;
        }
    }
}

control CopiesEgress(inout headers_t headers, inout metadata_t metadata,
                     inout standard_metadata_t standard) {
    apply {
        bit<8> want = headers.note.want;
        bit<32> instance = standard.instance_type;
        headers.note.egress_passes = headers.note.egress_passes + 1;
        headers.note.instance = (bit<8>)instance;
        headers.note.rid = (bit<8>)standard.egress_rid;
        headers.note.port = (bit<8>)standard.egress_port;
        headers.note.kept = metadata.kept;
        headers.note.lost = metadata.lost;
        headers.note.ingress_port = (bit<8>)standard.ingress_port;
        headers.note.length = (bit<16>)standard.packet_length;
        if ((want == 5 || want == 7 || want == 15) && instance != EGRESS_CLONE) {
            clone_preserving_field_list(CloneType.E2E, SESSION, 1);
        }
        if (want == 7 && instance != EGRESS_CLONE) {
            mark_to_drop(standard);
        }
        if ((want == 6 || want == 10 || want == 12) && headers.note.egress_passes == 1) {
            recirculate_preserving_field_list(1);
        }
    }
}

control CopiesCompute(inout headers_t headers, inout metadata_t metadata) {
    apply {}
}

control CopiesDeparser(packet_out packet, in headers_t headers) {
    apply {
        packet.emit(headers.ethernet);
        packet.emit(headers.note);
    }
}

V1Switch(CopiesParser(), CopiesVerify(), CopiesIngress(), CopiesEgress(), CopiesCompute(),
         CopiesDeparser()) main;
