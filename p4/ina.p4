/* The packet that every system of this testbed speaks.
 *
 *     Ethernet / IPv4 / UDP (port 18766) / ina / workers / [values]
 *
 * One header serves all systems, so that one dissector, one trace and one capture filter are enough.
 * A field that a system does not use is 0. docs/wire.md describes every field. The parser and
 * the deparser are in parser.p4.
 *
 * Compile-time parameters: VALUES and VALUE_BITS (see values.p4), BITMAP_WIDTH, the number of workers that
 * a bitmap can name, and TOKENS: packets name the workers that get tokens and give answers (tokens.p4).
 */
#ifndef INA_P4
#define INA_P4

#include <core.p4>
#include <v1model.p4>
#include "values.p4"
#include "adder.p4"

#ifndef BITMAP_WIDTH
#define BITMAP_WIDTH 32
#endif

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_UDP   = 17;
const bit<8>  PROTOCOL_TCP   = 6;
const bit<16> INA_PORT       = 18766;   // "IN"
const bit<4>  INA_VERSION    = 1;

/* What a packet is. */
const bit<4> KIND_GRADIENT       = 1;   // a sum of the gradients of the workers in the bitmap
const bit<4> KIND_RESULT         = 2;   // the aggregated fragment, for every worker of the job
const bit<4> KIND_RESULT_ONE     = 3;   // the same, served again to one worker
const bit<4> KIND_REMINDER       = 4;   // PS to a switch: give me what you hold of this fragment
const bit<4> KIND_REMINDER_EMPTY = 5;   // the switch's answer when it holds nothing of it
const bit<4> KIND_ASK            = 6;   // PS to a worker: send this fragment again
const bit<4> KIND_CONTROL        = 7;   // between hosts: neither values nor a slot
const bit<4> KIND_COLLIDED       = 8;   // switch to a worker: I have dropped this fragment, slow down

/* Gradients and results whose values are all 0, without these values (zeros.p4). */
const bit<4> WITHOUT_VALUES        = 8;  // added to their kind
const bit<4> KIND_GRADIENT_ZEROS   = 9;
const bit<4> KIND_RESULT_ZEROS     = 10;
const bit<4> KIND_RESULT_ONE_ZEROS = 11;

/* What has happened to it. */
const bit<16> FLAG_PARTIAL   = 0x0001;  // an incomplete sum; not aggregated further up
const bit<16> FLAG_COLLISION = 0x0002;  // found its slot taken; not aggregated further up
const bit<16> FLAG_RESEND    = 0x0004;  // a retransmission: takes a matching slot along
const bit<16> FLAG_ECN       = 0x0008;  // passed a queue above its threshold
const bit<16> FLAG_OVERFLOW  = 0x0010;  // an addition left the range of int32
const bit<16> FLAG_REMINDED  = 0x0020;  // pulled by a reminder; a resend: nothing was lost
const bit<16> FLAG_OVER_RATE = 0x0040;  // found the switch's aggregation capacity used up
const bit<16> FLAG_FLOAT     = 0x0080;  // the values are float32; never added in a switch
const bit<16> FLAG_SHORT     = 0x0100;  // the values have fewer bits (short_values.p4)
const bit<16> FLAG_ROUND     = 0x0200;  // once all workers are in, the sum is to be rounded to as many
const bit<16> FLAG_FOR_ONE   = 0x0400;  // one worker alone needs the result's values
const bit<16> FLAG_FROM_ONE  = 0x0800;  // it alone gives values, and all others need the result's
const bit<16> FLAG_CONTENDED = 0x2000;  // of a result: fragments have met in the aggregator (a2tp.p4)
const bit<16> FLAG_INTEGERS  = 0x4000;  // the values are int32, where sums are those of floats (adder.p4)

typedef bit<BITMAP_WIDTH> bitmap_t;
typedef bit<48> mac_t;
typedef bit<32> ipv4_t;

header ethernet_t {
    mac_t   destination;
    mac_t   source;
    bit<16> ethertype;
}

header ip_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    ipv4_t  source;
    ipv4_t  destination;
}

header udp_t {
    bit<16> source;
    bit<16> destination;
    bit<16> length;
    bit<16> checksum;
}

#ifdef PATHS
header tcp_ports_t {
    bit<16> source;
    bit<16> destination;
}
#endif

header ina_t {
    bit<4>  version;
    bit<4>  kind;
    bit<8>  priority;        // 1..255, 255 is the most urgent
    bit<16> flags;
    bit<16> job;
    bit<16> node;            // the switch that aggregates; 0 = every switch on the way
    bit<32> fragment;        // never repeats within a job
    bit<32> index;           // where in the pool
    bit<32> extra;           // a second index or a chunk number, where a system needs one
    bit<16> sender;          // worker number; 0x4000: the job's PS
    /* With FOR_ONE or FROM_ONE both together are the number of a worker. */
    bit<8>  exponent;        // of these values (block floating point)
    bit<8>  next_exponent;   // of the values one window ahead
}

header workers_t {
#ifdef TOKENS
    bitmap_t wanted;         // of a sum of some workers: these complete it; 0: all of the job's
#endif
    bitmap_t bitmap;         // bit n: worker n is in the sum, or (of tokens) is to get it
}

header values_t {
#define VALUE_FIELD(n) bit<32> v##n;
    EACH_VALUE(VALUE_FIELD)
}

#if VALUE_BITS < 32
header short_values_t {
#define SHORT_VALUE_FIELD(n) bit<VALUE_BITS> v##n;
    EACH_VALUE(SHORT_VALUE_FIELD)
#ifdef MX8
#define SCALE_FIELD(a, b) bit<8> scale_##a;
    EACH_BLOCK(SCALE_FIELD)
#endif
}
#endif

struct headers_t {
    ethernet_t ethernet;
    ip_t       ip;
    udp_t      udp;
#ifdef PATHS
    tcp_ports_t tcp;                     // or the first bytes of TCP
#endif
    ina_t      ina;
    workers_t  workers;
    values_t   values;
#if VALUE_BITS < 32
    short_values_t short_values;         // or these
#endif
}

const bit<16> NO_JOB = 0xffff;           // jobs have smaller numbers
const bit<32> PORTS = 512;               // that a switch can have

/* Whether a packet has not been through this switch's ingress before. */
#ifndef IS_NEW
#define IS_NEW true
#endif

/* Whether a packet is of this protocol, or hides from the parser whether it is (admission.p4). */
#define IS_CLAIM                                                      \
    (IS_NEW &&                                                        \
     ((hdr.udp.isValid() && hdr.udp.destination == INA_PORT) ||       \
      (hdr.ip.isValid() && hdr.ip.protocol == PROTOCOL_UDP && hdr.ip.ihl != 5)))

#ifdef TOKENS
const bit<16> INA_BYTES = 24 + 2 * BITMAP_WIDTH / 8;   // ina and workers
#else
const bit<16> INA_BYTES = 24 + BITMAP_WIDTH / 8;   // ina and workers
#endif
const bit<16> VALUES_BYTES = 4 * VALUES;
#ifdef MX8
const bit<16> SHORT_VALUES_BYTES = VALUES + VALUES / 32;
#else
const bit<16> SHORT_VALUES_BYTES = VALUE_BITS / 8 * VALUES;
#endif
const bit<16> IP_BYTES = 20;
const bit<16> UDP_BYTES = 8;

#ifdef PATHS
#include "paths.p4"
#endif

#endif
