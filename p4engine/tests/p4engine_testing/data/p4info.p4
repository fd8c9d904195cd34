#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> a; bit<32> b; bit<32> c; } struct headers_t { h_t h; } struct m_t { bit<9> p; bit<2> col; }
struct dg_t { bit<32> a; bit<9> port; }
parser P(packet_in packet, out headers_t hdr, inout m_t meta, inout standard_metadata_t s) { @name("vs1") value_set<bit<32>>(4) vs; state start { packet.extract(hdr.h); transition select(hdr.h.a) { vs: accept; default: accept; } } }
control V(inout headers_t hdr, inout m_t meta) { apply {} }
control Sub(inout h_t h) { action a(bit<32> v) { h.a = v; } table t { key = { h.a: exact; } actions = { a; NoAction; } } apply { t.apply(); } }
control I(inout headers_t hdr, inout m_t meta, inout standard_metadata_t s) {
  Sub() s1; Sub() s2;
  counter(16, CounterType.packets_and_bytes) c; meter(8, MeterType.bytes) m; register<bit<16>>(32) r;
  direct_counter(CounterType.packets) dc; direct_meter<bit<2>>(MeterType.bytes) dm;
  action_selector(HashAlgorithm.crc32, 32w128, 32w16) sel; action_profile(64) prof;
  @id(77) action fwd(@id(5) bit<9> port, bit<48> mac) { s.egress_spec = port; dm.read(meta.col); dc.count(); }
  action drop() { mark_to_drop(s); }
  @id(0x02000055) table ipv4 { key = { hdr.h.a: lpm @name("dst"); hdr.h.b: exact; } actions = { fwd; drop; @defaultonly NoAction; } const default_action = NoAction(); size = 512; counters = dc; meters = dm; }
  table tern { key = { hdr.h.a: ternary; hdr.h.b: range; hdr.h.c : optional; hdr.h.isValid(): exact; } actions = { drop; @tableonly fwd; NoAction; } const entries = { (1 &&& 1, 1..2, 3, true): drop(); } default_action = drop(); }
  table selt { key = { hdr.h.a: exact; hdr.h.b: selector; } actions = { drop; fwd; } implementation = sel; }
  table proft { key = { hdr.h.a: exact; } actions = { drop; fwd; } implementation = prof; }
  @hidden table hid { actions = { drop; } default_action = drop; }
  apply { s1.apply(hdr.h); s2.apply(hdr.h); ipv4.apply(); tern.apply(); selt.apply(); proft.apply(); hid.apply(); c.count(1); m.execute_meter(2, meta.col); r.write(1, 5); digest<dg_t>(1, {hdr.h.a, s.ingress_port}); } }
control E(inout headers_t hdr, inout m_t meta, inout standard_metadata_t s) { apply {} }
control C(inout headers_t hdr, inout m_t meta) { apply {} }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
