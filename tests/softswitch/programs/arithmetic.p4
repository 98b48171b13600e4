// Every operator at exact widths: unsigned, signed, saturating, shifts, casts, slices.
#include <core.p4>
#include <v1model.p4>

header in_t { bit<8> op; bit<12> a; bit<12> b; int<12> s; int<12> t; bit<64> w; bit<64> v; }
header out_t { bit<12> r; int<12> q; bit<64> x; bit<8> y; }

struct headers_t { in_t i; out_t o; }
struct metadata_t { }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t sm) {
    state start { packet.extract(hdr.i); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action ops(bit<12> a, bit<12> b, int<12> s, int<12> t) {
        if (hdr.i.op == 0) { hdr.o.r = a + b; hdr.o.q = s + t; hdr.o.x = hdr.i.w + hdr.i.v; }
        else if (hdr.i.op == 1) { hdr.o.r = a - b; hdr.o.q = s - t; hdr.o.x = hdr.i.w - hdr.i.v; }
        else if (hdr.i.op == 2) { hdr.o.r = a * b; hdr.o.q = s * t; hdr.o.x = hdr.i.w * hdr.i.v; }
        else if (hdr.i.op == 3) { hdr.o.r = a |+| b; hdr.o.q = s |+| t; }
        else if (hdr.i.op == 4) { hdr.o.r = a |-| b; hdr.o.q = s |-| t; }
        else if (hdr.i.op == 5) { hdr.o.r = a & b; hdr.o.q = s & t; hdr.o.x = hdr.i.w & hdr.i.v; }
        else if (hdr.i.op == 6) { hdr.o.r = a | b; hdr.o.q = s | t; hdr.o.x = hdr.i.w | hdr.i.v; }
        else if (hdr.i.op == 7) { hdr.o.r = a ^ b; hdr.o.q = s ^ t; hdr.o.x = hdr.i.w ^ hdr.i.v; }
        else if (hdr.i.op == 8) { hdr.o.r = ~a; hdr.o.q = ~s; hdr.o.x = ~hdr.i.w; }
        else if (hdr.i.op == 9) { hdr.o.r = a << (bit<8>)b; hdr.o.q = s << (bit<8>)b; hdr.o.x = hdr.i.w << (bit<8>)b; }
        else if (hdr.i.op == 10) { hdr.o.r = a >> (bit<8>)b; hdr.o.q = s >> (bit<8>)b; hdr.o.x = hdr.i.w >> (bit<8>)b; }
    }
    action more(bit<12> a, bit<12> b, int<12> s, int<12> t) {
        if (hdr.i.op == 11) { hdr.o.r = -a; hdr.o.q = -s; }
        else if (hdr.i.op == 12) { hdr.o.x = hdr.i.w[39:8] ++ hdr.i.v[63:32]; hdr.o.r = a[7:0] ++ b[11:8]; }
        else if (hdr.i.op == 13) { hdr.o.r = a > b ? a : b; hdr.o.q = s > t ? s : t; }
        else if (hdr.i.op == 14) { hdr.o.r = (bit<12>)s; hdr.o.q = (int<12>)a; hdr.o.x = (bit<64>)(int<64>)s; }
        else if (hdr.i.op == 15) { hdr.o.y = (bit<8>)a; hdr.o.x = (bit<64>)b; }
        else if (hdr.i.op == 16) {
            hdr.o.y[0:0] = (bit<1>)(a < b); hdr.o.y[1:1] = (bit<1>)(a <= b);
            hdr.o.y[2:2] = (bit<1>)(a == b); hdr.o.y[3:3] = (bit<1>)(s < t);
            hdr.o.y[4:4] = (bit<1>)(s >= t); hdr.o.y[5:5] = (bit<1>)(s != t);
            hdr.o.y[6:6] = (bit<1>)(a < b && s < t); hdr.o.y[7:7] = (bit<1>)(a < b || !(s < t));
        }
        else if (hdr.i.op == 17) { hdr.o.x[47:16] = (bit<32>)hdr.i.w; }
        else if (hdr.i.op == 18) {
            bit<64> sum = 0;
            for (bit<8> n = 1; n < 6; n = n + 1) { if (n == 4) { continue; } sum = sum + (bit<64>)n * hdr.i.w; }
            hdr.o.x = sum;
        }
    }
    apply {
        sm.egress_spec = 2;
        hdr.o.setValid();
        ops(hdr.i.a, hdr.i.b, hdr.i.s, hdr.i.t);
        more(hdr.i.a, hdr.i.b, hdr.i.s, hdr.i.t);
    }
}
control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {}
}
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control DeparserImpl(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(ParserImpl(), Verify(), IngressImpl(), EgressImpl(), Compute(), DeparserImpl()) main;
