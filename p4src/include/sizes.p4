// Sizes of tables and counters: one place to look when the fabric grows.

#ifndef SIZES_P4
#define SIZES_P4

const bit<32> PORTS = 512;            // v1model ports are 9 bits wide
const bit<32> MY_SIDS = 1024;         // one uN, and a uA for each port
const bit<32> NEXT_SIDS = 2048;       // 11-bit uSID index: neighbours and downlinks of a switch
const bit<32> LOCATOR_BLOCKS = 16;
const bit<32> IPV6_ROUTES = 4096;     // T0 prefixes of the fabric, and the host routes of one rack
const bit<32> ECMP_MEMBERS = 1024;
const bit<32> DSCP_VALUES = 64;
const bit<32> TRIM_SIZES = 16;

#define MAX_SEGMENTS 8                // of an SRH; six uSIDs fit in each

#endif
