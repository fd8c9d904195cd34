/* The bare forwarder: what this machine's kernel lets any AF_PACKET program forward.
 *
 * It takes frames from one interface and sends them out of another, and looks at nothing. The same ways of
 * receiving and sending as the switch's (a TPACKET_V2 ring, sendmmsg batches), so that the difference to
 * the switch is the price of the pipeline. With --receive v3 or mmsg it shows what other ways would give.
 *
 * usage: forwarder IN OUT [--cpu N] [--receive v2|v3|mmsg] [--bypass]      ends with SIGTERM */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define BATCH 16 /* larger ones keep more of the ring from the kernel for longer, and were slower */
#define FRAME 1664
#define BLOCK (1 << 20)
#define BLOCKS 13

static volatile sig_atomic_t stop;
static uint64_t received, sent, refused;
static int out_socket;
static struct sockaddr_ll out_address;

static void on_signal(int number) {
    (void)number;
    stop = 1;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void option(int fd, int name, int value) {
    if (setsockopt(fd, SOL_PACKET, name, &value, sizeof value) < 0) die("setsockopt");
}

static void send_all(struct mmsghdr *messages, unsigned count) {
    unsigned done = 0;
    while (done < count) {
        int n = sendmmsg(out_socket, messages + done, count - done, MSG_DONTWAIT);
        if (n > 0) {
            done += (unsigned)n;
            sent += (unsigned)n;
        } else if (errno != EINTR) {
            refused++;
            done++;
        }
    }
}

static struct mmsghdr messages[BATCH];
static struct iovec parts[BATCH];

static void add(unsigned n, void *data, size_t length) {
    parts[n] = (struct iovec){data, length};
    messages[n].msg_hdr = (struct msghdr){.msg_name = &out_address,
                                          .msg_namelen = sizeof out_address,
                                          .msg_iov = &parts[n],
                                          .msg_iovlen = 1};
}

static void wait_for(int fd) {
    struct pollfd p = {fd, POLLIN, 0};
    poll(&p, 1, 100);
}

static void forward_v2(int fd) {
    struct tpacket_req request = {BLOCK, BLOCKS, FRAME, BLOCKS * (BLOCK / FRAME)};
    option(fd, PACKET_VERSION, TPACKET_V2);
    if (setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) < 0) die("ring");
    uint8_t *ring = mmap(NULL, (size_t)BLOCK * BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ring == MAP_FAILED) die("mmap");
    unsigned at = 0, per_block = BLOCK / FRAME;
    while (!stop) {
        struct tpacket2_hdr *taken[BATCH];
        unsigned n = 0;
        while (n < BATCH) {
            uint8_t *place = ring + (size_t)(at / per_block) * BLOCK + (size_t)(at % per_block) * FRAME;
            struct tpacket2_hdr *h = (void *)place;
            if (!(__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) break;
            /* Written by another core: ask for the bytes before the kernel waits for them. */
            for (unsigned line = 64; line < 512; line += 64) __builtin_prefetch(place + line);
            add(n, place + h->tp_mac, h->tp_snaplen);
            taken[n++] = h;
            at = (at + 1) % request.tp_frame_nr;
        }
        if (!n) {
            wait_for(fd);
            continue;
        }
        received += n;
        send_all(messages, n);
        for (unsigned i = 0; i < n; i++)
            __atomic_store_n(&taken[i]->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    }
}

static void forward_v3(int fd) {
    struct tpacket_req3 request = {.tp_block_size = 1 << 16, .tp_block_nr = 208, .tp_frame_size = 2048,
                                   .tp_frame_nr = 208 * 32, .tp_retire_blk_tov = 1};
    option(fd, PACKET_VERSION, TPACKET_V3);
    if (setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) < 0) die("ring");
    uint8_t *ring = mmap(NULL, 208u << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ring == MAP_FAILED) die("mmap");
    for (unsigned block = 0; !stop; block = (block + 1) % 208) {
        struct tpacket_block_desc *b = (void *)(ring + ((size_t)block << 16));
        while (!stop && !(__atomic_load_n(&b->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
            wait_for(fd);
        if (stop) break;
        struct tpacket3_hdr *h = (void *)((uint8_t *)b + b->hdr.bh1.offset_to_first_pkt);
        unsigned left = b->hdr.bh1.num_pkts, n = 0;
        received += left;
        while (left--) {
            add(n++, (uint8_t *)h + h->tp_mac, h->tp_snaplen);
            if (n == BATCH || !left) {
                send_all(messages, n);
                n = 0;
            }
            h = (void *)((uint8_t *)h + h->tp_next_offset);
        }
        __atomic_store_n(&b->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    }
}

static void forward_mmsg(int fd) {
    static uint8_t buffers[BATCH][FRAME];
    static struct mmsghdr in[BATCH];
    static struct iovec in_parts[BATCH];
    int bytes = 16 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    for (int i = 0; i < BATCH; i++) {
        in_parts[i] = (struct iovec){buffers[i], FRAME};
        in[i].msg_hdr = (struct msghdr){.msg_iov = &in_parts[i], .msg_iovlen = 1};
    }
    while (!stop) {
        int n = recvmmsg(fd, in, BATCH, MSG_DONTWAIT, NULL);
        if (n <= 0) {
            wait_for(fd);
            continue;
        }
        received += (unsigned)n;
        for (int i = 0; i < n; i++) add((unsigned)i, buffers[i], in[i].msg_len);
        send_all(messages, (unsigned)n);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: forwarder IN OUT [--cpu N] [--receive v2|v3|mmsg] [--bypass]\n");
        return 2;
    }
    const char *way = "v2";
    int bypass = 0;
    for (int i = 3; i < argc; i++) {
        if (!strcmp(argv[i], "--cpu") && i + 1 < argc) {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(atoi(argv[++i]), &set);
            if (sched_setaffinity(0, sizeof set, &set) < 0) die("cpu");
        } else if (!strcmp(argv[i], "--receive") && i + 1 < argc) {
            way = argv[++i];
        } else if (!strcmp(argv[i], "--bypass")) {
            bypass = 1;
        }
    }
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    int in_index = (int)if_nametoindex(argv[1]), out_index = (int)if_nametoindex(argv[2]);
    if (!in_index || !out_index) die("interface");
    out_address = (struct sockaddr_ll){.sll_family = AF_PACKET, .sll_ifindex = out_index, .sll_halen = 6};
    out_socket = socket(AF_PACKET, SOCK_RAW, 0);
    if (bypass) option(out_socket, PACKET_QDISC_BYPASS, 1);
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0 || out_socket < 0) die("packet socket");
    option(fd, PACKET_IGNORE_OUTGOING, 1);
    struct sockaddr_ll in_address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = in_index};
    void (*forward)(int) = !strcmp(way, "v3") ? forward_v3 : !strcmp(way, "mmsg") ? forward_mmsg : forward_v2;
    if (bind(fd, (void *)&in_address, sizeof in_address) < 0) die("bind");
    forward(fd);
    struct tpacket_stats_v3 drops = {0};
    socklen_t bytes = sizeof drops;
    getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &drops, &bytes);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    unsigned long long cpu_us = (unsigned long long)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
                                (unsigned long long)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    printf("{\"received\": %llu, \"sent\": %llu, \"refused\": %llu, \"ring_drops\": %u, \"cpu_ns\": %llu}\n",
           (unsigned long long)received, (unsigned long long)sent, (unsigned long long)refused, drops.tp_drops,
           cpu_us * 1000);
    return 0;
}
