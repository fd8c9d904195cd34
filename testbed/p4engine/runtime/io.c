/* See io.h. */
#define _GNU_SOURCE
#include "io.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ERROR_BYTES 256
#define BATCH 64              /* packets sent by one sendmmsg, and received between two looks at the clock */
#define ARENA_BYTES (1 << 20) /* of packets waiting for sendmmsg */
#define VLAN_BYTES 4
#define FRAMES 8192
#define BLOCK_BYTES (1 << 20)
#define HASH_SLOTS 2048
#define LATE_NS 100000
#define HOUSEKEEPING_NS 50000000ull
#define WAKE_NS 2000 /* nearer events are waited for awake; a sleep would take longer */

typedef struct interface {
    char name[IF_NAMESIZE];
    uint32_t longest; /* frame, without a VLAN tag */
    struct sockaddr_ll address;
    io_port_stats stats;
} interface;

struct io_loop {
    tm_switch *tm;
    io_options options;
    int receiver, sender, wake, links;
    uint8_t *ring;
    size_t ring_bytes;
    uint32_t frame_bytes, frames, frames_per_block, block_bytes;
    uint32_t at, at_in_block; /* the next frame to look at */
    uint8_t *at_block;
    interface *interfaces[TM_PORTS];
    struct { uint32_t ifindex, port; } by_index[HASH_SLOTS]; /* open addressing; 0: free */
    uint32_t interface_count;

    pthread_mutex_t gate, busy;
    atomic_int wanted; /* control calls that wait for `busy` */
    atomic_int stop, asleep;

    uint64_t real_offset; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
    uint64_t started_ns, ended_ns, housekept_ns;
    clockid_t cpu_clock;
    uint64_t cpu_ns; /* after the end */
    int running;
    io_stats stats;
    char *error;
    int failed;

    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    uint16_t ports[BATCH];
    uint32_t queued;
    uint8_t *arena;
    uint32_t arena_used;
};

uint64_t io_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

__attribute__((format(printf, 2, 3))) static int say(char *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, ERROR_BYTES, format, arguments);
    va_end(arguments);
    return -1;
}

static void fail(io_loop *io, const char *what, const char *name, uint32_t port) {
    if (io->failed) return;
    io->failed = 1;
    say(io->error, "interface %s (port %u) %s", name, port, what);
}

/* ---- sending ---- */

static void flush(io_loop *io) {
    uint32_t done = 0;
    while (done < io->queued) {
        int sent = sendmmsg(io->sender, io->messages + done, io->queued - done, MSG_DONTWAIT);
        if (sent > 0) {
            done += (uint32_t)sent;
            io->stats.sent += (uint32_t)sent;
            continue;
        }
        if (errno == EINTR) continue;
        uint32_t port = io->ports[done];
        interface *i = io->interfaces[port];
        if (errno == ENETDOWN || errno == ENXIO || errno == ENODEV)
            fail(io, "went down", i->name, port);
        /* Whatever it was, this packet does not leave; the others may. */
        if (errno == EMSGSIZE) {
            io->stats.oversized++;
            i->stats.oversized++;
        } else {
            io->stats.send_drops++;
            i->stats.send_drops++;
        }
        done++;
    }
    io->queued = 0;
    io->arena_used = 0;
}

static uint8_t *room(void *context, uint32_t bytes) {
    io_loop *io = context;
    if (bytes > ARENA_BYTES) return NULL;
    if (io->queued == BATCH || io->arena_used + bytes > ARENA_BYTES) flush(io);
    return io->arena + io->arena_used;
}

static void emit(void *context, uint32_t port, uint64_t time_ns, uint32_t length) {
    io_loop *io = context;
    (void)time_ns;
    interface *i = io->interfaces[port];
    uint32_t n = io->queued++;
    io->parts[n] = (struct iovec){io->arena + io->arena_used, length};
    io->messages[n].msg_hdr = (struct msghdr){
        .msg_name = &i->address, .msg_namelen = sizeof i->address, .msg_iov = &io->parts[n], .msg_iovlen = 1};
    io->ports[n] = (uint16_t)port;
    io->arena_used += (length + 63) & ~63u;
}

/* ---- receiving ---- */

static uint32_t port_of(const io_loop *io, uint32_t ifindex) {
    for (uint32_t slot = ifindex % HASH_SLOTS;; slot = (slot + 1) % HASH_SLOTS) {
        if (io->by_index[slot].ifindex == ifindex) return io->by_index[slot].port;
        if (!io->by_index[slot].ifindex) return TM_PORTS;
    }
}

static struct tpacket2_hdr *frame_at(const io_loop *io) {
    return (struct tpacket2_hdr *)(io->at_block + (size_t)io->at_in_block * io->frame_bytes);
}

static int frame_ready(const io_loop *io) {
    return __atomic_load_n(&frame_at(io)->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER;
}

static void next_frame(io_loop *io) {
    if (++io->at == io->frames) {
        io->at = io->at_in_block = 0;
        io->at_block = io->ring;
    } else if (++io->at_in_block == io->frames_per_block) {
        io->at_in_block = 0;
        io->at_block += io->block_bytes;
    }
}

static void read_offset(io_loop *io) {
    struct timespec real;
    uint64_t before = io_now();
    clock_gettime(CLOCK_REALTIME, &real);
    uint64_t after = io_now();
    io->real_offset =
        (uint64_t)real.tv_sec * 1000000000ull + (uint64_t)real.tv_nsec - (before + (after - before) / 2);
}

static void receive(io_loop *io, struct tpacket2_hdr *header, uint64_t now) {
    const struct sockaddr_ll *from = (const void *)((uint8_t *)header + TPACKET_ALIGN(sizeof *header));
    uint32_t port = port_of(io, (uint32_t)from->sll_ifindex);
    if (port == TM_PORTS) return; /* not ours: came before the filter, or there is none */
    interface *i = io->interfaces[port];
    uint32_t status = header->tp_status, length = header->tp_snaplen;
    uint8_t *data = (uint8_t *)header + header->tp_mac;
    io->stats.received++;
    i->stats.received++;
    if (header->tp_len > length || length > i->longest) {
        if (header->tp_len > i->longest + VLAN_BYTES || header->tp_len > length) {
            io->stats.oversized++;
            i->stats.oversized++;
            return;
        }
    }
    if (status & TP_STATUS_CSUMNOTREADY) io->stats.unchecked++;
    if (status & TP_STATUS_VLAN_VALID) { /* the kernel has taken the tag out; a switch sees it */
        uint16_t tpid = status & TP_STATUS_VLAN_TPID_VALID ? header->tp_vlan_tpid : ETH_P_8021Q;
        uint16_t tag[2] = {htons(tpid), htons(header->tp_vlan_tci)};
        memmove(data - VLAN_BYTES, data, 2 * ETH_ALEN);
        data -= VLAN_BYTES;
        memcpy(data + 2 * ETH_ALEN, tag, VLAN_BYTES);
        length += VLAN_BYTES;
    }
    uint64_t stamp = (uint64_t)header->tp_sec * 1000000000ull + header->tp_nsec - io->real_offset;
    if (stamp - now + 1000000000ull > 2000000000ull) stamp = now; /* the wall clock was set */
    tm_receive(io->tm, port, data, length, stamp);
}

/* ---- giving way to control calls ---- */

void io_lock(io_loop *io) {
    atomic_fetch_add(&io->wanted, 1);
    pthread_mutex_lock(&io->gate);
    pthread_mutex_lock(&io->busy);
    pthread_mutex_unlock(&io->gate);
    atomic_fetch_sub(&io->wanted, 1);
}

static void rouse(io_loop *io) {
    uint64_t one = 1;
    if (write(io->wake, &one, sizeof one) < 0) return; /* full: it will wake anyway */
}

void io_unlock(io_loop *io) {
    pthread_mutex_unlock(&io->busy);
    if (atomic_load(&io->asleep)) rouse(io); /* the call may have moved the next event */
}

static void give_way(io_loop *io) {
    if (!atomic_load_explicit(&io->wanted, memory_order_relaxed)) return;
    pthread_mutex_unlock(&io->busy);
    pthread_mutex_lock(&io->gate); /* free once the caller has `busy` */
    pthread_mutex_unlock(&io->gate);
    pthread_mutex_lock(&io->busy);
}

void io_stop(io_loop *io) {
    atomic_store(&io->stop, 1);
    rouse(io);
}

/* ---- the loop ---- */

static void look_at_links(io_loop *io) {
    uint8_t buffer[8192] __attribute__((aligned(8)));
    for (;;) {
        ssize_t got = recv(io->links, buffer, sizeof buffer, MSG_DONTWAIT);
        if (got <= 0) return; /* also ENOBUFS: a down interface shows again when it is sent to */
        int left = (int)got;
        for (struct nlmsghdr *m = (void *)buffer; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
            if (m->nlmsg_type != RTM_NEWLINK && m->nlmsg_type != RTM_DELLINK) continue;
            const struct ifinfomsg *info = NLMSG_DATA(m);
            uint32_t port = port_of(io, (uint32_t)info->ifi_index);
            if (port == TM_PORTS || info->ifi_family == AF_BRIDGE) continue;
            if (m->nlmsg_type == RTM_DELLINK)
                fail(io, "was removed", io->interfaces[port]->name, port);
            else if (!(info->ifi_flags & IFF_UP))
                fail(io, "went down", io->interfaces[port]->name, port);
        }
    }
}

static void read_drops(io_loop *io) {
    struct tpacket_stats drops;
    socklen_t bytes = sizeof drops;
    if (io->receiver >= 0 && !getsockopt(io->receiver, SOL_PACKET, PACKET_STATISTICS, &drops, &bytes))
        io->stats.ring_drops += drops.tp_drops; /* reading sets it to zero */
}

static uint32_t receive_batch(io_loop *io, uint64_t now) {
    uint32_t count = 0;
    while (count < BATCH && frame_ready(io)) {
        struct tpacket2_hdr *header = frame_at(io);
        next_frame(io);
        /* The next packet was written by another core: ask for it now. */
        const uint8_t *ahead = (const uint8_t *)frame_at(io);
        for (uint32_t line = 0; line < 512; line += 64) __builtin_prefetch(ahead + line);
        receive(io, header, now);
        __atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        count++;
        give_way(io);
    }
    return count;
}

static void run_events(io_loop *io) {
    uint64_t next = tm_next_event(io->tm);
    if (next == TM_NEVER) return;
    uint64_t now = io_now();
    if (next > now) return;
    if (now - next > io->stats.late_max_ns) io->stats.late_max_ns = now - next;
    if (now - next > LATE_NS) io->stats.late_events++;
    tm_advance(io->tm, now);
}

/* Waits, without the lock, for a packet, an event or a call. */
static void wait_for_work(io_loop *io, uint64_t idle_since) {
    uint64_t next = tm_next_event(io->tm), now = io_now();
    if (next <= now) return;
    if (next - now < WAKE_NS || now - idle_since < io->options.spin_ns) {
        give_way(io);
        for (int i = 0; i < 16 && !frame_ready(io); i++) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
        return;
    }
    struct timespec timeout = {(time_t)((next - now) / 1000000000ull), (long)((next - now) % 1000000000ull)};
    struct pollfd fds[] = {{io->receiver, POLLIN, 0}, {io->wake, POLLIN, 0}, {io->links, POLLIN, 0}};
    io->stats.sleeps++;
    atomic_store(&io->asleep, 1);
    pthread_mutex_unlock(&io->busy);
    int ready = ppoll(fds, 3, next == TM_NEVER ? NULL : &timeout, NULL);
    pthread_mutex_lock(&io->busy);
    atomic_store(&io->asleep, 0);
    if (ready <= 0) return;
    uint64_t count;
    if (fds[1].revents && read(io->wake, &count, sizeof count) < 0) return;
    if (fds[2].revents) look_at_links(io);
    if (fds[0].revents & (POLLERR | POLLHUP)) {
        int code = 0;
        socklen_t bytes = sizeof code;
        getsockopt(io->receiver, SOL_SOCKET, SO_ERROR, &code, &bytes); /* ENETDOWN of any interface */
        look_at_links(io);
    }
}

int io_run(io_loop *io, char *error) {
    prctl(PR_SET_TIMERSLACK, 1ul); /* of this thread: sleep as long as asked, not 50 us longer */
    pthread_getcpuclockid(pthread_self(), &io->cpu_clock);
    pthread_mutex_lock(&io->busy);
    io->error = error;
    io->running = 1;
    uint64_t now = io->started_ns = io_now(), idle_since = now;
    while (!atomic_load_explicit(&io->stop, memory_order_relaxed) && !io->failed) {
        if (now - io->housekept_ns > HOUSEKEEPING_NS) {
            io->housekept_ns = now;
            read_offset(io);
            look_at_links(io);
        }
        uint32_t received = receive_batch(io, now);
        run_events(io);
        if (io->queued) flush(io);
        now = io_now();
        if (received) {
            idle_since = now;
        } else {
            wait_for_work(io, idle_since);
            now = io_now();
        }
        give_way(io);
    }
    struct timespec cpu;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    io->cpu_ns = (uint64_t)cpu.tv_sec * 1000000000ull + (uint64_t)cpu.tv_nsec;
    io->ended_ns = io_now();
    io->running = 0;
    pthread_mutex_unlock(&io->busy);
    return io->failed ? -1 : 0;
}

/* ---- set-up ---- */

io_loop *io_create(tm_switch *tm, const io_options *options, char *error) {
    io_loop *io = calloc(1, sizeof *io);
    if (!io) {
        say(error, "out of memory");
        return NULL;
    }
    io->tm = tm;
    if (options) io->options = *options;
    io->receiver = io->sender = io->links = -1;
    io->ring = MAP_FAILED;
    io->arena = aligned_alloc(64, ARENA_BYTES);
    io->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&io->gate, NULL);
    pthread_mutex_init(&io->busy, NULL);
    io->sender = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* protocol 0: receives nothing */
    if (!io->arena || io->wake < 0 || io->sender < 0) {
        say(error, "cannot open a packet socket: %s%s", strerror(errno),
            errno == EPERM ? " (needs root or CAP_NET_RAW)" : "");
        io_destroy(io);
        return NULL;
    }
    int bytes = 4 << 20, on = 1;
    setsockopt(io->sender, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
    if (io->options.bypass) setsockopt(io->sender, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
    return io;
}

int io_port_add(io_loop *io, uint32_t port, const char *name, char *error) {
    if (port >= TM_PORTS || io->interfaces[port]) return say(error, "port %u is taken or out of range", port);
    if (strlen(name) >= IF_NAMESIZE) return say(error, "interface name %s is too long", name);
    if (io->interface_count >= HASH_SLOTS / 2) return say(error, "too many ports");
    struct ifreq request = {0};
    strcpy(request.ifr_name, name);
    if (ioctl(io->sender, SIOCGIFINDEX, &request) < 0)
        return say(error, "port %u: no interface %s in this network namespace", port, name);
    uint32_t ifindex = (uint32_t)request.ifr_ifindex;
    if (port_of(io, ifindex) != TM_PORTS)
        return say(error, "interface %s is port %u already", name, port_of(io, ifindex));
    if (ioctl(io->sender, SIOCGIFFLAGS, &request) < 0 || !(request.ifr_flags & IFF_UP))
        return say(error, "port %u: interface %s is down (ip link set %s up)", port, name, name);
    if (ioctl(io->sender, SIOCGIFMTU, &request) < 0)
        return say(error, "port %u: cannot read the MTU of %s: %s", port, name, strerror(errno));
    interface *i = calloc(1, sizeof *i);
    if (!i) return say(error, "out of memory");
    strcpy(i->name, name);
    i->stats.ifindex = ifindex;
    i->stats.mtu = (uint32_t)request.ifr_mtu;
    i->longest = i->stats.mtu + ETH_HLEN;
    i->address = (struct sockaddr_ll){.sll_family = AF_PACKET, .sll_ifindex = (int)ifindex, .sll_halen = 6};
    io->interfaces[port] = i;
    uint32_t slot = ifindex % HASH_SLOTS;
    while (io->by_index[slot].ifindex) slot = (slot + 1) % HASH_SLOTS;
    io->by_index[slot].ifindex = ifindex;
    io->by_index[slot].port = port;
    io->interface_count++;
    return 0;
}

/* The namespace may have interfaces that are not ports; keep their traffic out of the ring. Classic BPF can
 * jump 255 instructions, so with more ports than that receive() sorts the packets out alone. */
static int attach_filter(io_loop *io) {
    uint32_t n = io->interface_count;
    if (n > 250) return 0;
    struct sock_filter program[256];
    uint32_t at = 0;
    program[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SKF_AD_OFF + SKF_AD_IFINDEX);
    uint32_t left = n;
    for (uint32_t port = 0; port < TM_PORTS; port++)
        if (io->interfaces[port]) {
            program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                         io->interfaces[port]->stats.ifindex, left, 0);
            left--;
        }
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0xffffffff);
    struct sock_fprog filter = {.len = (unsigned short)at, .filter = program};
    return setsockopt(io->receiver, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

int io_open(io_loop *io, char *error) {
    uint32_t longest = ETH_FRAME_LEN;
    for (uint32_t port = 0; port < TM_PORTS; port++)
        if (io->interfaces[port] && io->interfaces[port]->longest > longest)
            longest = io->interfaces[port]->longest;
    if (longest > 65535 + ETH_HLEN) longest = 65535 + ETH_HLEN;

    io->links = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    struct sockaddr_nl group = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    if (io->links < 0 || bind(io->links, (void *)&group, sizeof group) < 0)
        return say(error, "cannot watch the interfaces: %s", strerror(errno));

    io->receiver = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (io->receiver < 0) return say(error, "cannot open a packet socket: %s", strerror(errno));
    int version = TPACKET_V2, reserve = 8, on = 1;
    if (setsockopt(io->receiver, SOL_PACKET, PACKET_VERSION, &version, sizeof version) < 0 ||
        setsockopt(io->receiver, SOL_PACKET, PACKET_RESERVE, &reserve, sizeof reserve) < 0 ||
        setsockopt(io->receiver, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) < 0 ||
        attach_filter(io) < 0)
        return say(error, "this kernel's packet sockets lack something: %s", strerror(errno));

    /* A frame size that is no power of two spreads the frames over the cache's sets. */
    io->frame_bytes = (TPACKET2_HDRLEN + 16 + (uint32_t)reserve + longest + VLAN_BYTES + 63) & ~63u;
    if ((io->frame_bytes & (io->frame_bytes - 1)) == 0) io->frame_bytes += 64;
    io->block_bytes = BLOCK_BYTES;
    io->frames_per_block = io->block_bytes / io->frame_bytes;
    uint32_t wanted = io->options.ring_frames ? io->options.ring_frames : FRAMES;
    uint32_t blocks = (wanted + io->frames_per_block - 1) / io->frames_per_block;
    io->frames = blocks * io->frames_per_block;
    struct tpacket_req request = {.tp_block_size = io->block_bytes,
                                  .tp_block_nr = blocks,
                                  .tp_frame_size = io->frame_bytes,
                                  .tp_frame_nr = io->frames};
    io->ring_bytes = (size_t)blocks * io->block_bytes;
    if (setsockopt(io->receiver, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) < 0)
        return say(error, "cannot make a receive ring of %u frames: %s", io->frames, strerror(errno));
    io->ring = mmap(NULL, io->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, io->receiver, 0);
    if (io->ring == MAP_FAILED) return say(error, "cannot map the receive ring: %s", strerror(errno));
    io->at_block = io->ring;

    for (uint32_t port = 0; port < TM_PORTS; port++) {
        if (!io->interfaces[port]) continue;
        struct packet_mreq promiscuous = {.mr_ifindex = (int)io->interfaces[port]->stats.ifindex,
                                          .mr_type = PACKET_MR_PROMISC};
        setsockopt(io->receiver, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous);
    }
    struct sockaddr_ll everything = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    if (bind(io->receiver, (void *)&everything, sizeof everything) < 0)
        return say(error, "cannot receive: %s", strerror(errno));
    tm_sink sink = {.context = io, .room = room, .emit = emit};
    tm_set_sink(io->tm, &sink);
    read_offset(io);
    return 0;
}

void io_destroy(io_loop *io) {
    if (!io) return;
    if (io->ring != MAP_FAILED) munmap(io->ring, io->ring_bytes);
    int fds[] = {io->receiver, io->sender, io->wake, io->links};
    for (int i = 0; i < 4; i++)
        if (fds[i] >= 0) close(fds[i]);
    for (uint32_t port = 0; port < TM_PORTS; port++) free(io->interfaces[port]);
    pthread_mutex_destroy(&io->gate);
    pthread_mutex_destroy(&io->busy);
    free(io->arena);
    free(io);
}

void io_stats_get(io_loop *io, io_stats *stats) {
    read_drops(io);
    *stats = io->stats;
    if (io->running) {
        struct timespec cpu;
        clock_gettime(io->cpu_clock, &cpu);
        stats->cpu_ns = (uint64_t)cpu.tv_sec * 1000000000ull + (uint64_t)cpu.tv_nsec;
        stats->wall_ns = io_now() - io->started_ns;
    } else {
        stats->cpu_ns = io->cpu_ns;
        stats->wall_ns = io->ended_ns - io->started_ns;
    }
}

int io_port_stats_get(io_loop *io, uint32_t port, io_port_stats *stats) {
    if (port >= TM_PORTS || !io->interfaces[port]) return -1;
    *stats = io->interfaces[port]->stats;
    return 0;
}
