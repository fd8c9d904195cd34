/* Sends gradient packets as fast as the other end keeps up with, and counts what comes back.
 *
 * For each fragment one packet per worker, one after the other, so that every packet is aggregated and every
 * `fan-in`-th one leaves. At most `window` fragments are under way: that is how workers behave, and it finds the
 * highest rate without loss by itself. With --rate the packets leave at that rate, whatever comes back.
 * Fragments that never come back are counted as lost, and after half a second without any result the window starts
 * afresh, so that a loss shows in the count and not as a standstill. The sums that come back are checked.
 *
 * With --fan-in 1 each packet is expected back unchanged: that measures a forwarder. With --trains 1 the packets stay
 * together in trains on the way (UDP segmentation offload), and may come back in trains; otherwise the kernel cuts
 * them up before the veth pair.
 *
 * usage: generator OUT IN [--cpu N] [--seconds S] [--fan-in N] [--window N] [--rate N] [--values N] [--trains 0|1]
 * Prints one JSON object. Wire format: p4/ina.p4, bitmap of 32 bits. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4 /* Linux 5.x headers do not have it */
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define BATCH 64 /* the kernel's limit of segments, before 6.4 */
#define MAX_UDP_BYTES 65000 /* bytes of a datagram before it is cut up */
#define FRAME 1664
#define BLOCK (1 << 20)
#define BLOCKS 13
#define INA 42 /* Ethernet, IPv4 and UDP headers come first */
#define VALUES_AT (INA + 28)
#define STALL_NS 500000000ull
#define MAX_PAYLOAD_BYTES (28 + 4 * 256)
#define AT_ONCE 16 /* received trains */

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* The kernel cuts a packet up before the veth pair only if the device says that it cannot. */
static void set_offload(int fd, const char *name, uint32_t command, uint32_t on) {
    struct ethtool_value value = {.cmd = command, .data = on};
    struct ifreq request = {.ifr_data = (void *)&value};
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (ioctl(fd, SIOCETHTOOL, &request) < 0) die("ethtool");
}

static void put32(uint8_t *at, uint32_t value) {
    value = htonl(value);
    memcpy(at, &value, 4);
}

static void put16(uint8_t *at, uint16_t value) {
    value = htons(value);
    memcpy(at, &value, 2);
}

static uint32_t get32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

/* Value i of worker w in fragment f; the sum over workers is as cheap to compute. */
static uint32_t base_value(uint32_t fragment, uint32_t i) {
    return (fragment * 2654435761u ^ i * 40503u) & 0xfffff;
}

/* A batch is one UDP segmentation-offload packet: the kernel cuts it into up to BATCH datagrams with the
 * same headers. That is several times cheaper than BATCH messages, and a sender must cost less than the switch. */
static struct {
    struct virtio_net_hdr offload;
    uint8_t headers[INA];
    uint8_t payloads[BATCH * MAX_PAYLOAD_BYTES];
} __attribute__((packed)) batch;

static uint32_t fan_in = 4, window = 256, values = 64, pool = 1024, trains;
static uint64_t returned, wrong, partial;

/* Count a datagram's payload that has come back. */
static void take(const uint8_t *payload) {
    uint32_t f = get32(payload + 8), bitmap = get32(payload + 24), factor = 0;
    for (uint32_t w = 0; w < fan_in; w++) factor += bitmap >> w & 1 ? w + 1 : 0;
    if (get32(payload + 28) != base_value(f, 0) * factor ||
        get32(payload + 24 + 4 * values) != base_value(f, values - 1) * factor)
        wrong++;
    if (bitmap == (fan_in == 32 ? 0xffffffffu : (1u << fan_in) - 1))
        returned++;
    else
        partial++;
}

static int is_ours(const uint8_t *frame, uint32_t bytes, uint32_t length) {
    return bytes >= length && frame[36] == (18766 >> 8) && frame[37] == (18766 & 255);
}

/* Takes frames out of the receive ring, until there are none. */
static struct {
    uint8_t *frames;
    uint32_t at, count;
} ring;

static int from_ring(uint32_t length) {
    int taken = 0;
    for (;; taken++) {
        uint8_t *place = ring.frames + (size_t)(ring.at / (BLOCK / FRAME)) * BLOCK +
                         (size_t)(ring.at % (BLOCK / FRAME)) * FRAME;
        struct tpacket2_hdr *h = (void *)place;
        if (!(__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) return taken;
        if (is_ours(place + h->tp_mac, h->tp_snaplen, length)) take(place + h->tp_mac + INA);
        __atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        ring.at = (ring.at + 1) % ring.count;
    }
}

/* The same for buffers with an offload header, each a packet or a train. */
static int from_socket(int in, uint32_t length) {
    static struct {
        struct virtio_net_hdr offload;
        uint8_t frame[65600];
    } __attribute__((packed)) rooms[AT_ONCE];
    static struct iovec parts[AT_ONCE];
    static struct mmsghdr messages[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) {
        parts[i] = (struct iovec){&rooms[i], sizeof rooms[i]};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    int taken = 0, n;
    while ((n = recvmmsg(in, messages, AT_ONCE, MSG_DONTWAIT, NULL)) > 0) {
        for (int i = 0; i < n; i++) {
            uint32_t bytes = messages[i].msg_len - (uint32_t)sizeof rooms[i].offload;
            const uint8_t *frame = rooms[i].frame;
            if (!is_ours(frame, bytes, length)) continue;
            uint32_t step = length - INA;
            if (rooms[i].offload.gso_type == VIRTIO_NET_HDR_GSO_UDP_L4 && rooms[i].offload.gso_size != step) continue;
            for (uint32_t at = INA; at + step <= bytes; at += step, taken++) take(frame + at);
        }
        if (n < AT_ONCE) break;
    }
    return taken;
}

int main(int argc, char **argv) {
    double seconds = 2, rate = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: generator OUT IN [--cpu N] [--seconds S] [--fan-in N] [--window N] [--rate N]\n");
        return 2;
    }
    for (int i = 3; i + 1 < argc; i += 2) {
        const char *o = argv[i], *v = argv[i + 1];
        if (!strcmp(o, "--cpu")) {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(atoi(v), &set);
            if (sched_setaffinity(0, sizeof set, &set) < 0) die("cpu");
        } else if (!strcmp(o, "--seconds"))
            seconds = atof(v);
        else if (!strcmp(o, "--fan-in"))
            fan_in = (uint32_t)atoi(v);
        else if (!strcmp(o, "--window"))
            window = (uint32_t)atoi(v);
        else if (!strcmp(o, "--rate"))
            rate = atof(v);
        else if (!strcmp(o, "--values"))
            values = (uint32_t)atoi(v);
        else if (!strcmp(o, "--trains"))
            trains = (uint32_t)atoi(v);
        else {
            fprintf(stderr, "unknown option %s\n", o);
            return 2;
        }
    }
    uint32_t length = VALUES_AT + 4 * values;
    if (length > 1514 || fan_in < 1 || fan_in > 32 || window < BATCH) {
        fprintf(stderr, "values, fan-in or window out of range\n");
        return 2;
    }

    int out = socket(AF_PACKET, SOCK_RAW, 0), in = socket(AF_PACKET, SOCK_RAW, 0), on = 1;
    if (out < 0 || in < 0) die("packet socket");
    if (setsockopt(out, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) < 0) die("segmentation offload");
    setsockopt(in, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
    set_offload(out, argv[1], ETHTOOL_STXCSUM, trains);
    set_offload(out, argv[1], ETHTOOL_SGSO, trains);
    if (trains) {
        int bytes = 64 << 20;
        if (setsockopt(in, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) < 0 ||
            setsockopt(in, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) < 0)
            die("receiving trains");
    } else {
        int version = TPACKET_V2;
        struct tpacket_req request = {BLOCK, BLOCKS, FRAME, BLOCKS * (BLOCK / FRAME)};
        if (setsockopt(in, SOL_PACKET, PACKET_VERSION, &version, sizeof version) < 0 ||
            setsockopt(in, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) < 0)
            die("ring");
        ring.frames = mmap(NULL, (size_t)BLOCK * BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED, in, 0);
        if (ring.frames == MAP_FAILED) die("mmap");
        ring.count = request.tp_frame_nr;
    }
    struct sockaddr_ll from = {.sll_family = AF_PACKET,
                               .sll_protocol = htons(ETH_P_ALL),
                               .sll_ifindex = (int)if_nametoindex(argv[2])};
    struct sockaddr_ll to = {
        .sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(argv[1]), .sll_halen = 6};
    if (!from.sll_ifindex || !to.sll_ifindex) die("interface");
    if (bind(in, (void *)&from, sizeof from) < 0) die("bind");

    uint32_t payload = length - INA, most = MAX_UDP_BYTES / payload < BATCH ? MAX_UDP_BYTES / payload : BATCH;
    const uint8_t ethernet[] = {2, 0, 0, 1, 0, 1, 2, 0, 0, 0, 0, 1, 8, 0};
    uint8_t *h = batch.headers;
    memcpy(h, ethernet, sizeof ethernet);
    h[14] = 0x45;
    h[20] = 0x40; /* not to be fragmented, as hosts of the testbed send */
    h[22] = 64;
    h[23] = 17;
    put32(h + 26, 0x0a000001); /* 10.0.0.1 to 10.0.0.2 */
    put32(h + 30, 0x0a000002);
    put16(h + 34, 18766);
    put16(h + 36, 18766);
    for (uint32_t i = 0; i < BATCH; i++) {
        batch.payloads[i * payload] = 0x11; /* version 1, gradient */
        batch.payloads[i * payload + 1] = 100;
    }

    uint64_t sent = 0, lost = 0, refused = 0;
    uint32_t fragment = 0, worker = 0;
    uint64_t start = now(), end = start + (uint64_t)(seconds * 1e9), last_return = start, t = start;
    int draining = 0;
    while (!draining || returned + lost < fragment) {
        t = now();
        if (t >= end && worker == 0) draining = 1;
        if (t - last_return > STALL_NS) {
            if (draining) break;
            lost = fragment - returned;
            last_return = t;
        }
        /* Whole batches only: sending one packet for each that comes back would measure system calls. */
        int64_t under_way = (int64_t)(fragment - returned - lost) + most / fan_in;
        if (!draining && (rate == 0 ? under_way <= (int64_t)window : sent < (double)(t - start) * rate / 1e9)) {
            uint32_t n = 0;
            while (n < most) {
                uint8_t *p = batch.payloads + payload * n++;
                put32(p + 8, fragment);
                put32(p + 12, fragment % pool);
                put16(p + 20, (uint16_t)worker);
                put32(p + 24, 1u << worker);
                uint32_t first = base_value(fragment, 0), last = base_value(fragment, values - 1);
                put32(p + 28, first * (worker + 1));
                put32(p + 28 + 4 * (values - 1), last * (worker + 1));
                if (++worker == fan_in) {
                    worker = 0;
                    fragment++;
                }
            }
            if (n) {
                put16(batch.headers + 16, (uint16_t)(28 + payload * n));
                put16(batch.headers + 38, (uint16_t)(8 + payload * n));
                batch.offload = (struct virtio_net_hdr){.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                                        .gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
                                                        .hdr_len = INA,
                                                        .gso_size = (uint16_t)payload,
                                                        .csum_start = 34,
                                                        .csum_offset = 6};
                size_t bytes = sizeof batch.offload + INA + payload * (size_t)n;
                if (sendto(out, &batch, bytes, 0, (void *)&to, sizeof to) == (ssize_t)bytes)
                    sent += (uint64_t)n;
                else if (refused++ == 0 || errno == ENOBUFS) /* the fragments count as missing */
                    fprintf(stderr, refused < 3 ? "generator: send: %s\n" : "", strerror(errno));
                else
                    die("send");
            }
        }
        if ((trains ? from_socket(in, length) : from_ring(length)) > 0) last_return = t;
    }
    double elapsed = (double)((last_return > end ? last_return : t) - start) / 1e9;
    uint64_t missing = fragment - returned;
    struct rusage used; /* well below the elapsed time: others had the core, and the rate says little */
    getrusage(RUSAGE_SELF, &used);
    double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                 (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    printf("{\"sent\": %llu, \"fragments\": %u, \"returned\": %llu, \"missing\": %llu, \"partial\": %llu, "
           "\"wrong\": %llu, \"refused\": %llu, \"seconds\": %.6f, \"packets_per_s\": %.0f, "
           "\"cpu_seconds\": %.3f, \"bytes\": %u}\n",
           (unsigned long long)sent, fragment, (unsigned long long)returned, (unsigned long long)missing,
           (unsigned long long)partial, (unsigned long long)wrong, (unsigned long long)refused, elapsed,
           (double)sent / elapsed, cpu, length);
    return 0;
}
