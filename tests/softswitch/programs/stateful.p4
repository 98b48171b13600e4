// Counters, meters, registers, hashes, random numbers and checksums.
#include <core.p4>
#include <v1model.p4>

header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length;
    bit<16> id; bit<3> flags; bit<13> fragment;
    bit<8> ttl; bit<8> protocol; bit<16> checksum;
    bit<32> src; bit<32> dst;
}
header udp_t { bit<16> sport; bit<16> dport; bit<16> length; bit<16> checksum; }
header report_t { bit<8> colour; bit<8> direct; bit<16> crc16; bit<32> crc32; bit<16> csum; bit<16> xored; bit<32> random; bit<32> value; bit<8> bad; }

struct headers_t { ipv4_t ipv4; udp_t udp; report_t report; }
struct metadata_t { bit<2> colour; bit<16> udp_length; }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.ipv4);
        meta.udp_length = hdr.ipv4.length - 20;
        transition select(hdr.ipv4.protocol) { 17: udp; default: accept; }
    }
    state udp { packet.extract(hdr.udp); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.flags,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}
control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    counter(16, CounterType.packets_and_bytes) by_port;
    counter(4, CounterType.packets) by_tos;
    direct_counter(CounterType.packets_and_bytes) per_entry;
    meter(16, MeterType.bytes) police;
    direct_meter<bit<2>>(MeterType.packets) per_entry_meter;
    register<bit<32>>(8) cells;
    register<bit<8>>(1) narrow;

    action tick() { per_entry.count(); per_entry_meter.read(meta.colour); }
    action quiet() { }
    table direct {
        key = { hdr.ipv4.dst: exact; }
        actions = { tick; quiet; }
        default_action = quiet();
        counters = per_entry;
        meters = per_entry_meter;
        support_timeout = true;
    }
    apply {
        sm.egress_spec = 2;
        hdr.report.setValid();
        by_port.count((bit<32>)sm.ingress_port);
        by_tos.count((bit<32>)hdr.ipv4.tos);
        bit<8> colour = 7;
        police.execute_meter((bit<32>)hdr.ipv4.tos, colour);
        hdr.report.colour = colour;
        direct.apply();
        hdr.report.direct = (bit<8>)meta.colour;
        hash(hdr.report.crc16, HashAlgorithm.crc16, 16w0, { hdr.ipv4.src, hdr.ipv4.dst }, 32w0x10000);
        hash(hdr.report.crc32, HashAlgorithm.crc32, 32w0, { hdr.ipv4.src, hdr.ipv4.dst, 4w5, hdr.ipv4.ihl }, 64w0x100000000);
        hash(hdr.report.csum, HashAlgorithm.csum16, 16w100, { hdr.ipv4.src, hdr.udp.sport }, 16w50);
        hash(hdr.report.xored, HashAlgorithm.xor16, 16w0, { hdr.ipv4.src, hdr.ipv4.dst }, 32w0x10000);
        random(hdr.report.random, 32w10, (bit<32>)hdr.ipv4.tos + 10);
        bit<32> value = 99;
        cells.read(value, (bit<32>)hdr.ipv4.tos);
        hdr.report.value = value;
        cells.write((bit<32>)hdr.ipv4.tos, value + (bit<32>)hdr.ipv4.length);
        bit<8> n;
        narrow.read(n, 0);
        narrow.write(0, n + 200);
        hdr.report.bad = (bit<8>)sm.checksum_error;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
}
control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    counter(8, CounterType.bytes) out_bytes;
    apply { out_bytes.count((bit<32>)sm.egress_port); }
}
control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.flags,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.udp.isValid() && hdr.udp.checksum != 0,
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, meta.udp_length,
              hdr.udp.sport, hdr.udp.dport, hdr.udp.length },
            hdr.udp.checksum, HashAlgorithm.csum16);
    }
}
control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ipv4); packet.emit(hdr.udp); packet.emit(hdr.report); }
}

V1Switch(ParserImpl(), Verify(), IngressImpl(), EgressImpl(), Compute(), DeparserImpl()) main;
