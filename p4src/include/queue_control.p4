// What a switch whose ingress cannot see its queues does about them. A register per class and
// egress port holds the bytes that wait there: ingress charges a packet when it admits it,
// egress discharges it when it leaves the queue. Charge and discharge are one action each, since
// the target locks a register array for the length of an action.
//
// Two classes by DSCP. Data over the port's limit is trimmed to its headers and moves up to the
// control class where it may be trimmed, and is dropped where it may not. Control has a limit of
// its own. The target's real queues must be deeper than both limits.

#ifndef QUEUE_CONTROL_P4
#define QUEUE_CONTROL_P4

#include "headers.p4"
#include "sizes.p4"

register<bit<32>, PortId_t>(PORTS) data_occupancy_bytes;
register<bit<32>, PortId_t>(PORTS) control_occupancy_bytes;

control Admission(inout headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) trimmed;
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) marked_ce;
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) dropped_data_full;
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) dropped_control_full;
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) dropped_no_queue;

    // Kept apart from egress_spec, which mark_to_drop overwrites
    PortId_t port = standard_metadata.egress_spec;

    bit<32> data_limit_bytes = 0;
    bit<32> control_limit_bytes = 0;
    bit<6>  trimmed_dscp = 0;
    bool    is_trimmable = false;
    bool    admitted = false;
    bit<32> occupancy_bytes = 0;    // of the data class, as this packet found it
    bit<32> trim_bytes = 0;
    bit<32> ecn_min_bytes = 0;
    bit<32> ecn_max_bytes = 0;
    bit<16> ecn_max_probability = 0;

    action drop_data_full() {
        mark_to_drop(standard_metadata);
        dropped_data_full.count(port);
        exit;
    }

    action drop_control_full() {
        mark_to_drop(standard_metadata);
        dropped_control_full.count(port);
        exit;
    }

    action drop_no_queue() {
        mark_to_drop(standard_metadata);
        dropped_no_queue.count(port);
        exit;
    }

    action set_control() {
        meta.is_control = 1;
    }

    action set_trimmable() {
        is_trimmable = true;
    }

    action set_no_trim() { }

    // A DSCP that is not listed is data that may not be trimmed
    table traffic_class {
        key = { hdr.ipv6.dscp: exact @name("dscp"); }
        actions = { set_control; set_trimmable; set_no_trim; }
        const default_action = set_no_trim();
        size = DSCP_VALUES;
    }

    // trimmed_dscp is TRIMMED, or TRIMMED_LASTHOP on a port that faces a NIC
    action set_limits(@name("data_limit_bytes") bit<32> data_limit,
                      @name("control_limit_bytes") bit<32> control_limit,
                      @name("trimmed_dscp") bit<6> dscp) {
        data_limit_bytes = data_limit;
        control_limit_bytes = control_limit;
        trimmed_dscp = dscp;
    }

    table port_queue {
        key = { standard_metadata.egress_spec: exact @name("egress_port"); }
        actions = { set_limits; @defaultonly NoAction; }
        const default_action = NoAction();
        size = PORTS;
    }

    // Bytes of a frame without an SRH that a receiver needs to name what was trimmed
    action keep(@name("header_bytes") bit<32> header_bytes) {
        trim_bytes = header_bytes + meta.srh_bytes;
    }

    // A payload that is not listed has no headers to keep: such a packet is not trimmed
    table trim_size {
        key = { meta.payload_protocol: exact @name("payload_protocol"); }
        actions = { keep; @defaultonly NoAction; }
        const default_action = NoAction();
        size = TRIM_SIZES;
    }

    // Marks nothing below min_bytes, everything from max_bytes on, and in between with a
    // probability that rises in a line from 0 to max_probability / 65536.
    action set_marking(@name("min_bytes") bit<32> min_bytes,
                       @name("max_bytes") bit<32> max_bytes,
                       @name("max_probability") bit<16> max_probability) {
        ecn_min_bytes = min_bytes;
        ecn_max_bytes = max_bytes;
        ecn_max_probability = max_probability;
    }

    // No entry, no marking: MRC has none for ports that face hosts
    table ecn_marking {
        key = { standard_metadata.egress_spec: exact @name("egress_port"); }
        actions = { set_marking; @defaultonly NoAction; }
        const default_action = NoAction();
        size = PORTS;
    }

    // Sums saturate: however large the limit, a queue that is full stays full
    action charge_data() {
        bit<32> occupancy;
        data_occupancy_bytes.read(occupancy, port);
        bit<32> after = occupancy |+| standard_metadata.packet_length;
        bool fits = after <= data_limit_bytes;
        data_occupancy_bytes.write(port, fits ? after : occupancy);
        occupancy_bytes = occupancy;
        admitted = fits;
        meta.charged_bytes = standard_metadata.packet_length;
    }

    action charge_control(bit<32> size_bytes) {
        bit<32> occupancy;
        control_occupancy_bytes.read(occupancy, port);
        bit<32> after = occupancy |+| size_bytes;
        bool fits = after <= control_limit_bytes;
        control_occupancy_bytes.write(port, fits ? after : occupancy);
        admitted = fits;
        meta.charged_bytes = size_bytes;
    }

    action mark_ce() {
        hdr.ipv6.ecn = ECN_CE;
        marked_ce.count(port);
    }

    // Lengths inside stay as they were: a trimmed packet tells its first size. What stood behind
    // the payload (padding of the frame) does not become payload.
    action shorten() {
        truncate(trim_bytes);
        bit<16> left = (bit<16>)(trim_bytes - (ETHERNET_BYTES + IPV6_BYTES));
        hdr.ipv6.payload_length = left < hdr.ipv6.payload_length ? left : hdr.ipv6.payload_length;
    }

    action trim() {
        hdr.ipv6.dscp = trimmed_dscp;
        meta.is_control = 1;
        trimmed.count(port);
    }

    apply {
        traffic_class.apply();
        if (!port_queue.apply().hit) {
            drop_no_queue();
        }

        bit<32> size_bytes = standard_metadata.packet_length;
        if (meta.is_control == 0) {
            charge_data();
            if (!admitted) {
                if (!is_trimmable || !trim_size.apply().hit) {
                    drop_data_full();
                }
                if (trim_bytes < size_bytes) {
                    shorten();
                    size_bytes = trim_bytes;
                }
                trim();
            } else if (hdr.ipv6.ecn != ECN_NOT_ECT && hdr.ipv6.ecn != ECN_CE) {
                if (ecn_marking.apply().hit) {
                    if (occupancy_bytes >= ecn_max_bytes) {
                        mark_ce();
                    } else if (occupancy_bytes >= ecn_min_bytes) {
                        // draw / (max - min) / 2^16 < p  without a division
                        bit<48> draw;
                        random(draw, 0, ((bit<48>)(ecn_max_bytes - ecn_min_bytes) << 16) - 1);
                        if (draw < (bit<48>)(occupancy_bytes - ecn_min_bytes)
                                   * (bit<48>)ecn_max_probability) {
                            mark_ce();
                        }
                    }
                }
            }
        }
        if (meta.is_control == 1) {
            charge_control(size_bytes);
            if (!admitted) {
                drop_control_full();
            }
            standard_metadata.priority = PRIORITY_CONTROL;
        }
    }
}

control Release(inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    PortId_t port = standard_metadata.egress_port;

    // Never below 0: a register that was reset while packets waited must not shut its port for good
    action discharge_data() {
        bit<32> occupancy;
        data_occupancy_bytes.read(occupancy, port);
        data_occupancy_bytes.write(port, occupancy |-| meta.charged_bytes);
    }

    action discharge_control() {
        bit<32> occupancy;
        control_occupancy_bytes.read(occupancy, port);
        control_occupancy_bytes.write(port, occupancy |-| meta.charged_bytes);
    }

    apply {
        if (meta.is_control == 1) {
            discharge_control();
        } else {
            discharge_data();
        }
    }
}

#endif
