/* What the architectures of the first Tofino (TNA) and of the second (T2NA) have in common, and what each has of its own
 * (TOFINO is 1 or 2). The names, the order of fields and parameters, and the widths are their interface, as public
 * programs use it. docs/tna.md says what of it the engine does. */
#ifndef _TOFINO_P4_
#define _TOFINO_P4_

#ifndef __TARGET_TOFINO__
#define __TARGET_TOFINO__ TOFINO
#endif
#undef __TARGET_BMV2__

#include <core.p4>

/* Pipes that have registers of their own, 1, 2 or 4. All have the same program unless Switch has several. */
#ifndef TNA_PIPES
#define TNA_PIPES 1
#endif
const bit<32> __tna_pipes = TNA_PIPES;

/* ---- widths and types ---- */

#define PORT_ID_WIDTH 9
#define MULTICAST_GROUP_ID_WIDTH 16
#if TOFINO == 2
#define QUEUE_ID_WIDTH 7
#define MIRROR_TYPE_WIDTH 4
#define MIRROR_ID_WIDTH 8
#else
#define QUEUE_ID_WIDTH 5
#define MIRROR_TYPE_WIDTH 3
#define MIRROR_ID_WIDTH 10
#endif
#define RESUBMIT_TYPE_WIDTH 3
#define DIGEST_TYPE_WIDTH 3
#define L1_EXCLUSION_ID_WIDTH 16
#define L2_EXCLUSION_ID_WIDTH 9
#define REPLICATION_ID_WIDTH 16
#define DEVPORT_PIPE_MASK 0x180
#define DEVPORT_PIPE(port) (port)[8:7]
#define DEVPORT_PORT_MASK 0x7f
#define DEVPORT_PORT(port) (port)[6:0]
#if TOFINO == 2
const bit<32> PORT_METADATA_SIZE = 192;
#else
const bit<32> PORT_METADATA_SIZE = 64;
#endif

typedef bit<PORT_ID_WIDTH> PortId_t;
typedef bit<MULTICAST_GROUP_ID_WIDTH> MulticastGroupId_t;
typedef bit<QUEUE_ID_WIDTH> QueueId_t;
typedef bit<MIRROR_TYPE_WIDTH> MirrorType_t;
typedef bit<MIRROR_ID_WIDTH> MirrorId_t;
typedef bit<RESUBMIT_TYPE_WIDTH> ResubmitType_t;
typedef bit<DIGEST_TYPE_WIDTH> DigestType_t;
typedef bit<REPLICATION_ID_WIDTH> ReplicationId_t;
typedef bit<L1_EXCLUSION_ID_WIDTH> L1ExclusionId_t;
typedef bit<L2_EXCLUSION_ID_WIDTH> L2ExclusionId_t;

#if TOFINO == 2
match_kind { range, selector, dleft_hash, atcam_partition_index }
#else
match_kind { range, selector, atcam_partition_index }
#endif

error { CounterRange, Timeout, PhvOwner, MultiWrite, IbufOverflow, IbufUnderflow }

/* Bits of parser_err. */
const bit<16> PARSER_ERROR_OK = 0x0000;
const bit<16> PARSER_ERROR_NO_MATCH = 0x0001;
const bit<16> PARSER_ERROR_PARTIAL_HDR = 0x0002;
const bit<16> PARSER_ERROR_CTR_RANGE = 0x0004;
const bit<16> PARSER_ERROR_TIMEOUT_USER = 0x0008;
const bit<16> PARSER_ERROR_TIMEOUT_HW = 0x0010;
const bit<16> PARSER_ERROR_SRC_EXT = 0x0020;
const bit<16> PARSER_ERROR_DST_CONT = 0x0040;
const bit<16> PARSER_ERROR_PHV_OWNER = 0x0080;
const bit<16> PARSER_ERROR_MULTIWRITE = 0x0100;
const bit<16> PARSER_ERROR_ARAM_MBE = 0x0400;
const bit<16> PARSER_ERROR_FCS = 0x0800;
const bit<16> PARSER_ERROR_CSUM_MBE = 0x1000;

enum CounterType_t { PACKETS, BYTES, PACKETS_AND_BYTES }
enum MeterType_t { PACKETS, BYTES }
enum bit<8> MeterColor_t { GREEN = 0, YELLOW = 1, RED = 3 }
enum SelectorMode_t { FAIR, RESILIENT }
enum HashAlgorithm_t {
    IDENTITY, RANDOM, XOR8, XOR16, XOR32, CRC8, CRC16, CRC32, CRC64, CUSTOM /* by a CRCPolynomial */
}
enum MathOp_t { MUL, SQR, SQRT, DIV, RSQR, RSQRT }

/* ---- metadata of ingress ---- */

/* In front of the packet at the ingress parser, followed by 64 bits: port metadata, or resubmit data. */
header ingress_intrinsic_metadata_t {
    bit<1>   resubmit_flag;
    @padding bit<1> _pad1;
    bit<2>   packet_version;
    @padding bit<3> _pad2;
    PortId_t ingress_port;
    bit<48>  ingress_mac_tstamp;
}

struct ingress_intrinsic_metadata_for_tm_t {
    PortId_t           ucast_egress_port;
    bit<1>             bypass_egress;
    bit<1>             deflect_on_drop;
    bit<3>             ingress_cos;
    QueueId_t          qid;
    bit<3>             icos_for_copy_to_cpu;
    bit<1>             copy_to_cpu;
    bit<2>             packet_color;
    bit<1>             disable_ucast_cutthru;
    bit<1>             enable_mcast_cutthru;
    MulticastGroupId_t mcast_grp_a;
    MulticastGroupId_t mcast_grp_b;
    bit<13>            level1_mcast_hash;
    bit<13>            level2_mcast_hash;
    L1ExclusionId_t    level1_exclusion_id;
    L2ExclusionId_t    level2_exclusion_id;
    bit<16>            rid;
}

struct ingress_intrinsic_metadata_from_parser_t {
    bit<48> global_tstamp;
    bit<32> global_ver;
    bit<16> parser_err;
}

struct ingress_intrinsic_metadata_for_deparser_t {
    bit<3>         drop_ctl; /* bit 0: unicast, multicast, resubmission; 1: copy to CPU; 2: mirroring */
    DigestType_t   digest_type;
    ResubmitType_t resubmit_type;
    MirrorType_t   mirror_type;
#if TOFINO == 2
    bit<1>         mirror_io_select; /* 1: what leaves is mirrored; 0: what came */
    bit<13>        mirror_hash;
    bit<3>         mirror_ingress_cos;
    bit<1>         mirror_deflect_on_drop;
    bit<1>         mirror_multicast_ctrl;
    PortId_t       mirror_egress_port;
    QueueId_t      mirror_qid;
    bit<8>         mirror_coalesce_length;
    bit<32>        adv_flow_ctl;
    bit<14>        mtu_trunc_len;
    bit<1>         mtu_trunc_err_f;
    bit<1>         pktgen;
    bit<14>        pktgen_address;
    bit<10>        pktgen_length;
#endif
}

#if TOFINO == 2
/* Of the ghost thread, which updates registers with the lengths of queues. */
header ghost_intrinsic_metadata_t {
    bit<1>  ping_pong;
    bit<18> qlength;
    bit<11> qid;
    bit<2>  pipe_id;
}
#endif

/* ---- metadata of egress ---- */

/* In front of what ingress has deparsed at the egress parser. */
header egress_intrinsic_metadata_t {
    @padding bit<7>  _pad0;
    PortId_t         egress_port;
    @padding bit<5>  _pad1;
    bit<19>          enq_qdepth;
    @padding bit<6>  _pad2;
    bit<2>           enq_congest_stat;
#if TOFINO == 2
    bit<32>          enq_tstamp;
#else
    @padding bit<14> _pad3;
    bit<18>          enq_tstamp;
#endif
    @padding bit<5>  _pad4;
    bit<19>          deq_qdepth;
    @padding bit<6>  _pad5;
    bit<2>           deq_congest_stat;
    bit<8>           app_pool_congest_stat;
#if TOFINO == 2
    bit<32>          deq_timedelta;
#else
    @padding bit<14> _pad6;
    bit<18>          deq_timedelta;
#endif
    bit<16>          egress_rid;
    @padding bit<7>  _pad7;
    bit<1>           egress_rid_first;
    @padding bit<(8 - QUEUE_ID_WIDTH)> _pad8;
    QueueId_t        egress_qid;
    @padding bit<5>  _pad9;
    bit<3>           egress_cos;
    @padding bit<7>  _pad10;
    bit<1>           deflection_flag;
    bit<16>          pkt_length;
#if TOFINO == 2
    @padding bit<8>  _pad11;
#endif
}

struct egress_intrinsic_metadata_from_parser_t {
    bit<48> global_tstamp;
    bit<32> global_ver;
    bit<16> parser_err;
}

struct egress_intrinsic_metadata_for_deparser_t {
    bit<3>       drop_ctl;
    MirrorType_t mirror_type;
    bit<1>       coalesce_flush;
    bit<7>       coalesce_length;
#if TOFINO == 2
    bit<1>       mirror_io_select; /* 1: what leaves is mirrored; 0: what came */
    bit<13>      mirror_hash;
    bit<3>       mirror_ingress_cos;
    bit<1>       mirror_deflect_on_drop;
    bit<1>       mirror_multicast_ctrl;
    PortId_t     mirror_egress_port;
    QueueId_t    mirror_qid;
    bit<8>       mirror_coalesce_length;
    bit<32>      adv_flow_ctl;
    bit<14>      mtu_trunc_len;
    bit<1>       mtu_trunc_err_f;
#endif
}

struct egress_intrinsic_metadata_for_output_port_t {
    bit<1> capture_tstamp_on_tx;
    bit<1> update_delay_on_tx;
}

/* ---- headers that the chip itself makes ---- */

#if TOFINO == 2
header pktgen_timer_header_t {
    @padding bit<2> _pad1;
    bit<2>          pipe_id;
    bit<4>          app_id;
    @padding bit<8> _pad2;
    bit<16>         batch_id;
    bit<16>         packet_id;
}

header pktgen_port_down_header_t {
    @padding bit<2>  _pad1;
    bit<2>           pipe_id;
    bit<4>           app_id;
    @padding bit<15> _pad2;
    PortId_t         port_num;
    bit<16>          packet_id;
}

header pktgen_recirc_header_t {
    @padding bit<2> _pad1;
    bit<2>          pipe_id;
    bit<4>          app_id;
    @padding bit<8> _pad2;
    bit<16>         batch_id;
    bit<16>         packet_id;
}

header pktgen_deparser_header_t {
    @padding bit<2> _pad1;
    bit<2>          pipe_id;
    bit<4>          app_id;
    @padding bit<8> _pad2;
    bit<16>         batch_id;
    bit<16>         packet_id;
}

header pktgen_pfc_header_t {
    @padding bit<2>  _pad1;
    bit<2>           pipe_id;
    bit<4>           app_id;
    @padding bit<40> _pad2;
}
#else
header pktgen_timer_header_t {
    @padding bit<3> _pad1;
    bit<2>          pipe_id;
    bit<3>          app_id;
    @padding bit<8> _pad2;
    bit<16>         batch_id;
    bit<16>         packet_id;
}

header pktgen_port_down_header_t {
    @padding bit<3>  _pad1;
    bit<2>           pipe_id;
    bit<3>           app_id;
    @padding bit<15> _pad2;
    PortId_t         port_num;
    bit<16>          packet_id;
}

header pktgen_recirc_header_t {
    @padding bit<3> _pad1;
    bit<2>          pipe_id;
    bit<3>          app_id;
    bit<24>         key;
    bit<16>         packet_id;
}
#endif

header ptp_metadata_t {
    bit<8>  udp_cksum_byte_offset;
    bit<8>  cf_byte_offset;
    bit<48> updated_cf;
}

/* ---- parsers and deparsers ---- */

extern Checksum {
    Checksum();
    void add<T>(in T data);
    void subtract<T>(in T data);
    bool verify();
    void subtract_all_and_deposit<T>(out T residual);
    bit<16> get();
    bit<16> update<T>(in T data, @optional in bool zeros_as_ones);
}

extern ParserCounter {
    ParserCounter();
    void set<T>(in T value);
#if TOFINO == 2
    void set<T>(in T field, in bit<8> max, in bit<8> rotate, in bit<8> mask, in bit<8> add);
    void push<T>(in T value, @optional bool update_with_top);
    void push<T>(in T field, in bit<8> max, in bit<8> rotate, in bit<8> mask, in bit<8> add,
                 @optional bool update_with_top);
    void pop();
#else
    void set<T>(in T field, in bit<8> max, in bit<8> rotate, in bit<3> mask, in bit<8> add);
#endif
    bool is_zero();
    bool is_negative();
    void increment(in bit<8> value);
    void decrement(in bit<8> value);
}

extern ParserPriority {
    ParserPriority();
    void set(in bit<3> prio);
}

extern T port_metadata_unpack<T>(packet_in pkt);

extern Mirror {
    Mirror();
    Mirror(MirrorType_t mirror_type);
    void emit(in MirrorId_t session_id);
    void emit<T>(in MirrorId_t session_id, in T hdr);
}

#if TOFINO == 2
extern Pktgen {
    Pktgen();
    void emit<T>(in T hdr);
}

extern IdleTimeout {
    IdleTimeout();
}
#endif

extern Resubmit {
    Resubmit();
    Resubmit(ResubmitType_t resubmit_type);
    void emit();
    void emit<T>(in T hdr);
}

extern Digest<T> {
    Digest();
    Digest(DigestType_t digest_type);
    void pack(in T data);
}

/* ---- arithmetic ---- */

extern CRCPolynomial<T> {
    CRCPolynomial(T coeff, bool reversed, bool msb, bool extended, T init, T xor);
}

extern Hash<W> {
    Hash(HashAlgorithm_t algo);
    Hash(HashAlgorithm_t algo, CRCPolynomial<_> poly);
    W get<D>(in D data);
}

extern Random<W> {
    Random();
    W get();
}

extern T max<T>(in T t1, in T t2);
extern T min<T>(in T t1, in T t2);
extern void funnel_shift_right<T>(inout T dst, in T src1, in T src2, int shift_amount);
extern void invalidate<T>(in T field);
extern bool is_validated<T>(in T field);
extern bit<32> sizeInBits<H>(in H h);
extern bit<32> sizeInBytes<H>(in H h);

/* ---- counters and meters ---- */

/* true_egress_accounting is Tofino 2's: bytes of the packet as it leaves, not as it came to egress. */

extern Counter<W, I> {
    Counter(bit<32> size, CounterType_t type, @optional bool true_egress_accounting);
    void count(in I index, @optional in bit<32> adjust_byte_count);
}

extern DirectCounter<W> {
    DirectCounter(CounterType_t type, @optional bool true_egress_accounting);
    void count(@optional in bit<32> adjust_byte_count);
}

extern Meter<I> {
    Meter(bit<32> size, MeterType_t type, @optional bool true_egress_accounting);
    Meter(bit<32> size, MeterType_t type, bit<8> red, bit<8> yellow, bit<8> green,
          @optional bool true_egress_accounting);
    bit<8> execute(in I index, in MeterColor_t color, @optional in bit<32> adjust_byte_count);
    bit<8> execute(in I index, @optional in bit<32> adjust_byte_count);
}

extern DirectMeter {
    DirectMeter(MeterType_t type, @optional bool true_egress_accounting);
    DirectMeter(MeterType_t type, bit<8> red, bit<8> yellow, bit<8> green,
                @optional bool true_egress_accounting);
    bit<8> execute(in MeterColor_t color, @optional in bit<32> adjust_byte_count);
    bit<8> execute(@optional in bit<32> adjust_byte_count);
}

extern Lpf<T, I> {
    Lpf(bit<32> size);
    T execute(in T val, in I index);
}

extern DirectLpf<T> {
    DirectLpf();
    T execute(in T val);
}

extern Wred<T, I> {
    Wred(bit<32> size, bit<8> drop_value, bit<8> no_drop_value);
    bit<8> execute(in T val, in I index);
}

extern DirectWred<T> {
    DirectWred(bit<8> drop_value, bit<8> no_drop_value);
    bit<8> execute(in T val);
}

/* ---- registers ---- */

extern Register<T, I> {
    Register(bit<32> size);
    Register(bit<32> size, T initial_value);
    T read(in I index);
    T write(in I index, in T value);
#if TOFINO == 2
    void clear(in T value, @optional in T busy);
#endif
}

extern DirectRegister<T> {
    DirectRegister();
    DirectRegister(T initial_value);
    T read();
    T write(in T value);
#if TOFINO == 2
    void clear(in T value, @optional in T busy);
#endif
}

extern RegisterParam<T> {
    RegisterParam(T initial_value);
    T read();
}

extern MathUnit<T> {
    MathUnit(bool invert, int<2> shift, int<6> scale,
             tuple<bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>,
                   bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>> data);
    MathUnit(MathOp_t op, int factor);
    MathUnit(MathOp_t op, int A, int B);
    T execute(in T x);
}

/* execute() runs apply() on one element: the only access of the packet to that register in this gress. */
#if TOFINO == 2
/* With up to four results. */
extern RegisterAction<T, H, U> {
    RegisterAction(Register<_, _> reg);
    U execute(@optional in H index, @optional out U rv2, @optional out U rv3, @optional out U rv4);
    U execute_log(@optional out U rv2, @optional out U rv3, @optional out U rv4);
    U enqueue(@optional out U rv2, @optional out U rv3, @optional out U rv4);
    U dequeue(@optional out U rv2, @optional out U rv3, @optional out U rv4);
    U push(@optional out U rv2, @optional out U rv3, @optional out U rv4);
    U pop(@optional out U rv2, @optional out U rv3, @optional out U rv4);
    void sweep(@optional in U busy);
    abstract void apply(inout T value, @optional out U rv1, @optional out U rv2,
                        @optional out U rv3, @optional out U rv4);
    @optional abstract void overflow(@optional inout T value, @optional out U rv1, @optional out U rv2,
                        @optional out U rv3, @optional out U rv4);
    @optional abstract void underflow(@optional inout T value, @optional out U rv1, @optional out U rv2,
                        @optional out U rv3, @optional out U rv4);
    U address(@optional bit<1> subword);
    U predicate(@optional in bool cmp0, @optional in bool cmp1, @optional in bool cmp2,
                @optional in bool cmp3);
    bit<8> min8<I>(in I val, in bit<16> mask, @optional out bit<4> index);
    bit<8> max8<I>(in I val, in bit<16> mask, @optional out bit<4> index);
    bit<16> min16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
    bit<16> max16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
}

extern DirectRegisterAction<T, U> {
    DirectRegisterAction(DirectRegister<T> reg);
    U execute(@optional out U rv2, @optional out U rv3, @optional out U rv4);
    abstract void apply(inout T value, @optional out U rv1, @optional out U rv2,
                        @optional out U rv3, @optional out U rv4);
    U address(@optional bit<1> subword);
    U predicate(@optional in bool cmp0, @optional in bool cmp1, @optional in bool cmp2,
                @optional in bool cmp3);
    bit<8> min8<I>(in I val, in bit<16> mask, @optional out bit<4> index);
    bit<8> max8<I>(in I val, in bit<16> mask, @optional out bit<4> index);
    bit<16> min16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
    bit<16> max16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
}

extern RegisterAction2<T, H, U1, U2> {
    RegisterAction2(Register<_, _> reg);
    U1 execute(in H index, out U2 rv2);
    U1 execute_log(out U2 rv2);
    U1 enqueue(out U2 rv2);
    U1 dequeue(out U2 rv2);
    U1 push(out U2 rv2);
    U1 pop(out U2 rv2);
    abstract void apply(inout T value, out U1 rv1, out U2 rv2);
    @optional abstract void overflow(@optional inout T value, out U1 rv1, out U2 rv2);
    @optional abstract void underflow(@optional inout T value, out U1 rv1, out U2 rv2);
    U address<U>(@optional bit<1> subword);
    U predicate<U>(@optional in bool cmp0, @optional in bool cmp1, @optional in bool cmp2,
                @optional in bool cmp3);
    bit<8> min8<I>(in I val, in bit<16> mask, @optional out bit<4> index);
    bit<8> max8<I>(in I val, in bit<16> mask, @optional out bit<4> index);
    bit<16> min16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
    bit<16> max16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
}

extern DirectRegisterAction2<T, U1, U2> {
    DirectRegisterAction2(DirectRegister<T> reg);
    U1 execute(out U2 rv2);
    abstract void apply(inout T value, out U1 rv1, out U2 rv2);
    U address<U>(@optional bit<1> subword);
    U predicate<U>(@optional in bool cmp0, @optional in bool cmp1, @optional in bool cmp2,
                @optional in bool cmp3);
    bit<8> min8<I>(in I val, in bit<16> mask, @optional out bit<4> index);
    bit<8> max8<I>(in I val, in bit<16> mask, @optional out bit<4> index);
    bit<16> min16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
    bit<16> max16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
}

extern RegisterAction3<T, H, U1, U2, U3> {
    RegisterAction3(Register<_, _> reg);
    U1 execute(in H index, out U2 rv2, out U3 rv3);
    U1 execute_log(out U2 rv2, out U3 rv3);
    U1 enqueue(out U2 rv2, out U3 rv3);
    U1 dequeue(out U2 rv2, out U3 rv3);
    U1 push(out U2 rv2, out U3 rv3);
    U1 pop(out U2 rv2, out U3 rv3);
    abstract void apply(inout T value, out U1 rv1, out U2 rv2, out U3 rv3);
    @optional abstract void overflow(@optional inout T value, out U1 rv1, out U2 rv2, out U3 rv3);
    @optional abstract void underflow(@optional inout T value, out U1 rv1, out U2 rv2, out U3 rv3);
    U address<U>(@optional bit<1> subword);
    U predicate<U>(@optional in bool cmp0, @optional in bool cmp1, @optional in bool cmp2,
                @optional in bool cmp3);
    bit<8> min8<I>(in I val, in bit<16> mask, @optional out bit<4> index);
    bit<8> max8<I>(in I val, in bit<16> mask, @optional out bit<4> index);
    bit<16> min16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
    bit<16> max16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
}

extern DirectRegisterAction3<T, U1, U2, U3> {
    DirectRegisterAction3(DirectRegister<T> reg);
    U1 execute(out U2 rv2, out U3 rv3);
    abstract void apply(inout T value, out U1 rv1, out U2 rv2, out U3 rv3);
    U address<U>(@optional bit<1> subword);
    U predicate<U>(@optional in bool cmp0, @optional in bool cmp1, @optional in bool cmp2,
                @optional in bool cmp3);
    bit<8> min8<I>(in I val, in bit<16> mask, @optional out bit<4> index);
    bit<8> max8<I>(in I val, in bit<16> mask, @optional out bit<4> index);
    bit<16> min16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
    bit<16> max16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
}

extern RegisterAction4<T, H, U1, U2, U3, U4> {
    RegisterAction4(Register<_, _> reg);
    U1 execute(in H index, out U2 rv2, out U3 rv3, out U4 rv4);
    U1 execute_log(out U2 rv2, out U3 rv3, out U4 rv4);
    U1 enqueue(out U2 rv2, out U3 rv3, out U4 rv4);
    U1 dequeue(out U2 rv2, out U3 rv3, out U4 rv4);
    U1 push(out U2 rv2, out U3 rv3, out U4 rv4);
    U1 pop(out U2 rv2, out U3 rv3, out U4 rv4);
    abstract void apply(inout T value, out U1 rv1, out U2 rv2, out U3 rv3, out U4 rv4);
    @optional abstract void overflow(@optional inout T value, out U1 rv1, out U2 rv2, out U3 rv3, out U4 rv4);
    @optional abstract void underflow(@optional inout T value, out U1 rv1, out U2 rv2, out U3 rv3, out U4 rv4);
    U address<U>(@optional bit<1> subword);
    U predicate<U>(@optional in bool cmp0, @optional in bool cmp1, @optional in bool cmp2,
                @optional in bool cmp3);
    bit<8> min8<I>(in I val, in bit<16> mask, @optional out bit<4> index);
    bit<8> max8<I>(in I val, in bit<16> mask, @optional out bit<4> index);
    bit<16> min16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
    bit<16> max16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
}

extern DirectRegisterAction4<T, U1, U2, U3, U4> {
    DirectRegisterAction4(DirectRegister<T> reg);
    U1 execute(out U2 rv2, out U3 rv3, out U4 rv4);
    abstract void apply(inout T value, out U1 rv1, out U2 rv2, out U3 rv3, out U4 rv4);
    U address<U>(@optional bit<1> subword);
    U predicate<U>(@optional in bool cmp0, @optional in bool cmp1, @optional in bool cmp2,
                @optional in bool cmp3);
    bit<8> min8<I>(in I val, in bit<16> mask, @optional out bit<4> index);
    bit<8> max8<I>(in I val, in bit<16> mask, @optional out bit<4> index);
    bit<16> min16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
    bit<16> max16<I>(in I val, in bit<8> mask, @optional out bit<3> index);
}
#else
extern RegisterAction<T, I, U> {
    RegisterAction(Register<_, _> reg);
    U execute(in I index);
    U execute_log();
    abstract void apply(inout T value, @optional out U rv);
    U predicate(@optional in bool cmplo, @optional in bool cmphi);
}

extern DirectRegisterAction<T, U> {
    DirectRegisterAction(DirectRegister<T> reg);
    U execute();
    abstract void apply(inout T value, @optional out U rv);
    U predicate(@optional in bool cmplo, @optional in bool cmphi);
}
#endif

#if TOFINO == 2
/* Only declared. */
extern LearnAction<T, H, D, U> {
    LearnAction(Register<T, H> reg);
    U execute(in H index, @optional out U rv2, @optional out U rv3, @optional out U rv4);
    abstract void apply(inout T value, in D digest, in bool learn, @optional out U rv1,
                        @optional out U rv2, @optional out U rv3, @optional out U rv4);
}

extern MinMaxAction<T, H, U> {
    MinMaxAction(Register<T, _> reg);
    U execute(@optional in H index, @optional out U rv2, @optional out U rv3, @optional out U rv4);
    abstract void apply(inout bit<128> value, @optional out U rv1, @optional out U rv2,
                        @optional out U rv3, @optional out U rv4);
    bit<8> min8(in bit<128> val, in bit<16> mask, @optional out bit<4> index, @optional in int<8> postmod);
    bit<8> max8(in bit<128> val, in bit<16> mask, @optional out bit<4> index, @optional in int<8> postmod);
    bit<16> min16(in bit<128> val, in bit<8> mask, @optional out bit<3> index, @optional in int<8> postmod);
    bit<16> max16(in bit<128> val, in bit<8> mask, @optional out bit<3> index, @optional in int<8> postmod);
}
#endif

/* ---- implementations of tables ---- */

extern ActionProfile {
    ActionProfile(bit<32> size);
}

extern ActionSelector {
    ActionSelector(ActionProfile action_profile, Hash<_> hash, SelectorMode_t mode,
                   bit<32> max_group_size, bit<32> num_groups);
    ActionSelector(ActionProfile action_profile, Hash<_> hash, SelectorMode_t mode,
                   Register<bit<1>, _> reg, bit<32> max_group_size, bit<32> num_groups);
    ActionSelector(bit<32> size, Hash<_> hash, SelectorMode_t mode);
    ActionSelector(bit<32> size, Hash<_> hash, SelectorMode_t mode, Register<bit<1>, _> reg);
}

extern SelectorAction {
    SelectorAction(ActionSelector sel);
    bit<1> execute(@optional in bit<32> index);
    abstract void apply(inout bit<1> value, @optional out bit<1> rv);
}

extern Atcam {
    Atcam(@optional bit<32> number_partitions);
}

extern Alpm {
    Alpm(@optional bit<32> number_partitions, @optional bit<32> subtrees_per_partition,
         @optional bit<32> atcam_subset_width, @optional bit<32> shift_granularity);
}

/* ---- the pipeline ---- */

parser IngressParserT<H, M>(
    packet_in pkt, out H hdr, out M ig_md,
    @optional out ingress_intrinsic_metadata_t ig_intr_md,
    @optional out ingress_intrinsic_metadata_for_tm_t ig_intr_md_for_tm,
    @optional out ingress_intrinsic_metadata_from_parser_t ig_intr_md_from_prsr);

control IngressT<H, M>(
    inout H hdr, inout M ig_md,
    @optional in ingress_intrinsic_metadata_t ig_intr_md,
    @optional in ingress_intrinsic_metadata_from_parser_t ig_intr_md_from_prsr,
    @optional inout ingress_intrinsic_metadata_for_deparser_t ig_intr_md_for_dprsr,
    @optional inout ingress_intrinsic_metadata_for_tm_t ig_intr_md_for_tm
#if TOFINO == 2
    , @optional in ghost_intrinsic_metadata_t gh_intr_md
#endif
    );

#if TOFINO == 2
control GhostT(in ghost_intrinsic_metadata_t gh_intr_md);
#endif

control IngressDeparserT<H, M>(
    packet_out pkt, inout H hdr, in M metadata,
    @optional in ingress_intrinsic_metadata_for_deparser_t ig_intr_md_for_dprsr,
    @optional in ingress_intrinsic_metadata_t ig_intr_md);

parser EgressParserT<H, M>(
    packet_in pkt, out H hdr, out M eg_md,
    @optional out egress_intrinsic_metadata_t eg_intr_md,
    @optional out egress_intrinsic_metadata_from_parser_t eg_intr_md_from_prsr,
    @optional out egress_intrinsic_metadata_for_deparser_t eg_intr_md_for_dprsr);

control EgressT<H, M>(
    inout H hdr, inout M eg_md,
    @optional in egress_intrinsic_metadata_t eg_intr_md,
    @optional in egress_intrinsic_metadata_from_parser_t eg_intr_md_from_prsr,
    @optional inout egress_intrinsic_metadata_for_deparser_t eg_intr_md_for_dprsr,
    @optional inout egress_intrinsic_metadata_for_output_port_t eg_intr_md_for_oport);

control EgressDeparserT<H, M>(
    packet_out pkt, inout H hdr, in M metadata,
    @optional in egress_intrinsic_metadata_for_deparser_t eg_intr_md_for_dprsr,
    @optional in egress_intrinsic_metadata_t eg_intr_md,
    @optional in egress_intrinsic_metadata_from_parser_t eg_intr_md_from_prsr);

package Pipeline<IH, IM, EH, EM>(
    IngressParserT<IH, IM> ingress_parser, IngressT<IH, IM> ingress,
    IngressDeparserT<IH, IM> ingress_deparser,
    EgressParserT<EH, EM> egress_parser, EgressT<EH, EM> egress,
    EgressDeparserT<EH, EM> egress_deparser
#if TOFINO == 2
    , @optional GhostT ghost
#endif
    );

package Switch<IH0, IM0, EH0, EM0, IH1, IM1, EH1, EM1, IH2, IM2, EH2, EM2, IH3, IM3, EH3, EM3>(
    Pipeline<IH0, IM0, EH0, EM0> pipe0,
    @optional Pipeline<IH1, IM1, EH1, EM1> pipe1,
    @optional Pipeline<IH2, IM2, EH2, EM2> pipe2,
    @optional Pipeline<IH3, IM3, EH3, EM3> pipe3);

#if TOFINO == 1
/* Parsers of their own for groups of ports: only declared. */
package IngressParsers<H, M>(
    IngressParserT<H, M> prsr0,
    @optional IngressParserT<H, M> prsr1,
    @optional IngressParserT<H, M> prsr2,
    @optional IngressParserT<H, M> prsr3,
    @optional IngressParserT<H, M> prsr4,
    @optional IngressParserT<H, M> prsr5,
    @optional IngressParserT<H, M> prsr6,
    @optional IngressParserT<H, M> prsr7,
    @optional IngressParserT<H, M> prsr8,
    @optional IngressParserT<H, M> prsr9,
    @optional IngressParserT<H, M> prsr10,
    @optional IngressParserT<H, M> prsr11,
    @optional IngressParserT<H, M> prsr12,
    @optional IngressParserT<H, M> prsr13,
    @optional IngressParserT<H, M> prsr14,
    @optional IngressParserT<H, M> prsr15,
    @optional IngressParserT<H, M> prsr16,
    @optional IngressParserT<H, M> prsr17);

package EgressParsers<H, M>(
    EgressParserT<H, M> prsr0,
    @optional EgressParserT<H, M> prsr1,
    @optional EgressParserT<H, M> prsr2,
    @optional EgressParserT<H, M> prsr3,
    @optional EgressParserT<H, M> prsr4,
    @optional EgressParserT<H, M> prsr5,
    @optional EgressParserT<H, M> prsr6,
    @optional EgressParserT<H, M> prsr7,
    @optional EgressParserT<H, M> prsr8,
    @optional EgressParserT<H, M> prsr9,
    @optional EgressParserT<H, M> prsr10,
    @optional EgressParserT<H, M> prsr11,
    @optional EgressParserT<H, M> prsr12,
    @optional EgressParserT<H, M> prsr13,
    @optional EgressParserT<H, M> prsr14,
    @optional EgressParserT<H, M> prsr15,
    @optional EgressParserT<H, M> prsr16,
    @optional EgressParserT<H, M> prsr17);

package MultiParserPipeline<IH, IM, EH, EM>(
    IngressParsers<IH, IM> ig_prsr, IngressT<IH, IM> ingress, IngressDeparserT<IH, IM> ingress_deparser,
    EgressParsers<EH, EM> eg_prsr, EgressT<EH, EM> egress, EgressDeparserT<EH, EM> egress_deparser);

package MultiParserSwitch<IH0, IM0, EH0, EM0, IH1, IM1, EH1, EM1, IH2, IM2, EH2, EM2, IH3, IM3, EH3, EM3>(
    MultiParserPipeline<IH0, IM0, EH0, EM0> pipe0,
    @optional MultiParserPipeline<IH1, IM1, EH1, EM1> pipe1,
    @optional MultiParserPipeline<IH2, IM2, EH2, EM2> pipe2,
    @optional MultiParserPipeline<IH3, IM3, EH3, EM3> pipe3);
#endif

#endif
