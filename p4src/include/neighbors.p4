// Ethernet addresses of a link: this port's own, and the one at the far end. Switches of this
// program do not look at them; the Linux kernel and NICs do.

#ifndef NEIGHBORS_P4
#define NEIGHBORS_P4

#include "headers.p4"
#include "sizes.p4"

control Neighbors(inout headers_t hdr,
                  inout standard_metadata_t standard_metadata) {
    action set_addresses(@name("src_addr") bit<48> src_addr, @name("dst_addr") bit<48> dst_addr) {
        hdr.ethernet.src_addr = src_addr;
        hdr.ethernet.dst_addr = dst_addr;
    }

    table neighbor {
        key = { standard_metadata.egress_port: exact @name("egress_port"); }
        actions = { set_addresses; @defaultonly NoAction; }
        const default_action = NoAction();
        size = PORTS;
    }

    apply {
        neighbor.apply();
    }
}

#endif
