// Joins ports 1 and 2. In egress, frames of ethertype 0x88B5 tell what the traffic manager did with them.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> ether_type;
}

header report_t {
    bit<8>  queue;
    bit<8>  egress_port;
    bit<32> enq_qdepth;
    bit<32> deq_qdepth;
    bit<32> deq_timedelta;
    bit<48> ingress_timestamp;
    bit<32> enq_timestamp;
    bit<48> egress_timestamp;
    bit<32> packet_length;
}

struct headers_t {
    ethernet_t ethernet;
    report_t   report;
}

struct metadata_t {}

parser CrossParser(packet_in packet, out headers_t headers, inout metadata_t metadata,
                   inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.ethernet);
        transition select(headers.ethernet.ether_type) {
            0x88B5: parse_report;
            default: accept;
        }
    }
    state parse_report {
        packet.extract(headers.report);
        transition accept;
    }
}

control CrossVerify(inout headers_t headers, inout metadata_t metadata) {
    apply {}
}

control CrossIngress(inout headers_t headers, inout metadata_t metadata,
                     inout standard_metadata_t standard) {
    apply {
        mark_to_drop(standard);
        if (standard.ingress_port == 1) {
            standard.egress_spec = 2;
        } else if (standard.ingress_port == 2) {
            standard.egress_spec = 1;
        }
        if (headers.report.isValid()) {
            standard.priority = (bit<3>)headers.report.queue;
        }
    }
}

control CrossEgress(inout headers_t headers, inout metadata_t metadata,
                    inout standard_metadata_t standard) {
    apply {
        if (headers.report.isValid()) {
            headers.report.egress_port = (bit<8>)standard.egress_port;
            headers.report.enq_qdepth = (bit<32>)standard.enq_qdepth;
            headers.report.deq_qdepth = (bit<32>)standard.deq_qdepth;
            headers.report.deq_timedelta = standard.deq_timedelta;
            headers.report.ingress_timestamp = standard.ingress_global_timestamp;
            headers.report.enq_timestamp = standard.enq_timestamp;
            headers.report.egress_timestamp = standard.egress_global_timestamp;
            headers.report.packet_length = standard.packet_length;
        }
    }
}

control CrossCompute(inout headers_t headers, inout metadata_t metadata) {
    apply {}
}

control CrossDeparser(packet_out packet, in headers_t headers) {
    apply {
        packet.emit(headers.ethernet);
        packet.emit(headers.report);
    }
}

V1Switch(CrossParser(), CrossVerify(), CrossIngress(), CrossEgress(), CrossCompute(),
         CrossDeparser()) main;
