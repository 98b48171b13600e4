/* Everything a P4Runtime client can touch, in one small v1model program: the tests of softswitch/p4runtime drive it. */
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 64;

typedef bit<48> mac_t;

header ethernet_t {
    mac_t dst;
    mac_t src;
    bit<16> ethertype;
}

header payload_t {
    bit<32> word;
    bit<12> key;
    bit<4> color;
    bit<16> index;
}

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<1> is_clone;
    bit<6> pad;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> pad;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
    payload_t payload;
}

struct metadata_t {
    bit<2> color;
    bit<16> hash_input;
}

struct learn_t {
    mac_t src;
    bit<9> port;
}

parser MainParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    value_set<bit<16>>(4) known_types;

    state start {
        transition select(std.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            known_types: parse_payload;
            default: accept;
        }
    }
    state parse_payload {
        packet.extract(hdr.payload);
        transition accept;
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(16, CounterType.packets_and_bytes) port_counter;
    meter(8, MeterType.bytes) port_meter;
    register<bit<32>>(8) cells;
    direct_counter(CounterType.packets_and_bytes) route_counter;
    direct_counter(CounterType.packets) fixed_counter;
    direct_meter<bit<2>>(MeterType.packets) acl_meter;

    action drop() {
        mark_to_drop(std);
    }
    action forward(bit<9> port) {
        std.egress_spec = port;
    }
    action rewrite(mac_t dst, bit<9> port) {
        hdr.ethernet.dst = dst;
        std.egress_spec = port;
    }
    action broadcast(bit<16> group) {
        std.mcast_grp = group;
    }
    action mirror(bit<9> port) {
        clone(CloneType.I2E, 100);
        std.egress_spec = port;
    }
    action to_cpu() {
        std.egress_spec = CPU_PORT;
    }
    action learn() {
        digest<learn_t>(1, { hdr.ethernet.src, std.ingress_port });
    }
    action count_route(bit<9> port) {
        route_counter.count();
        std.egress_spec = port;
    }
    action police() {
        acl_meter.read(meta.color);
    }

    table exact_mac {
        key = { hdr.ethernet.dst: exact; }
        actions = { forward; rewrite; broadcast; mirror; to_cpu; drop; @defaultonly NoAction; }
        default_action = NoAction();
        size = 4096;
    }
    table route {
        key = { hdr.payload.word: lpm; }
        actions = { count_route; drop; @tableonly forward; }
        default_action = drop();
        counters = route_counter;
        size = 4096;
    }
    table acl {
        key = {
            hdr.ethernet.ethertype: ternary;
            hdr.ethernet.src: optional;
            hdr.payload.index: range;
            std.ingress_port: exact @name("ingress_port");
        }
        actions = { police; drop; NoAction; }
        const default_action = NoAction();
        meters = acl_meter;
        size = 8;
    }
    table learned {
        key = { hdr.ethernet.src: exact; }
        actions = { NoAction; learn; }
        default_action = learn();
        support_timeout = true;
        size = 16;
    }
    table fixed {
        key = { hdr.payload.color: ternary; }
        actions = { drop; NoAction; }
        const entries = {
            1 &&& 3: drop();
            2: NoAction();
        }
        default_action = NoAction();
        counters = fixed_counter;
    }
    table initial {
        key = { hdr.payload.key: exact; }
        actions = { forward; NoAction; }
        entries = {
            const 1: forward(3);
            2: forward(4);
        }
        size = 8;
    }
    @max_group_size(8)
    action_selector(HashAlgorithm.crc16, 32, 14) ecmp_selector;
    table ecmp {
        key = {
            hdr.ethernet.ethertype: exact;
            hdr.payload.index: selector;
        }
        actions = { rewrite; forward; drop; @defaultonly NoAction; }
        implementation = ecmp_selector;
        size = 16;
    }
    action_profile(4) shared_actions;
    table indirect {
        key = { hdr.payload.index: exact; }
        actions = { forward; drop; @defaultonly NoAction; }
        implementation = shared_actions;
        size = 16;
    }
    table keyless {
        actions = { forward; NoAction; }
        default_action = NoAction();
    }

    apply {
        port_counter.count((bit<32>)(bit<4>)std.ingress_port);
        if (hdr.packet_out.isValid()) {
            std.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            bit<2> color;
            port_meter.execute_meter((bit<32>)(bit<3>)std.ingress_port, color);
            cells.write((bit<32>)(bit<3>)std.ingress_port, (bit<32>)std.packet_length);
            learned.apply();
            acl.apply();
            exact_mac.apply();
            if (hdr.payload.isValid()) {
                route.apply();
                fixed.apply();
                initial.apply();
                ecmp.apply();
                indirect.apply();
            }
            keyless.apply();
        }
    }
}

control MainEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = std.ingress_port;
            hdr.packet_in.is_clone = (bit<1>)(std.instance_type == 1);
            hdr.packet_in.pad = 0;
        }
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control NoCompute(inout headers_t hdr, inout metadata_t meta) { apply { } }
control MainDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.payload);
    }
}

V1Switch(MainParser(), NoVerify(), Main(), MainEgress(), NoCompute(), MainDeparser()) main;
