/* Packets between network interfaces and the traffic manager: sending, receiving, control calls in between, and
 * the loop around them. io.h says how it is meant; io_setup.c opens what this uses. */
#define _GNU_SOURCE
#include "io_state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/ethernet.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define ERROR_BYTES 256
#define LATE_NS 100000
#define HOUSEKEEPING_NS 50000000ull
#define IO_PACKETS_AT_ONCE 256 /* received between two looks at the clock */
#define LONGEST_SLEEP_NS 50000000ull
#define STILL_NS 100000000ull /* that a turn may take, beyond its sleep, before it counts as a standstill */
#define WAKE_NS 2000 /* nearer events are waited for awake; a sleep would take longer */
/* Where packets come and go fast over links with a rate, each is due at a time of its own, and waking up for it takes
 * longer than the packet itself. Then a sleep lasts at least this long, as network cards moderate their interrupts,
 * and what is due meanwhile leaves together. Links keep their own times, so this only adds to a packet's delay. */
#define MODERATION_NS 50000
#define PERIOD_NS 500000     /* packets are counted for so long */
#define CROWDED_PER_S 100000 /* received and sent */

uint64_t io_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

int io_set_error(char *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, ERROR_BYTES, format, arguments);
    va_end(arguments);
    return -1;
}

static void fail(io_loop *io, const char *what, const char *name, uint32_t port) {
    if (io->failed) return;
    io->failed = 1;
    io_set_error(io->error, "interface %s (port %u) %s", name, port, what);
}

/* ---- sending ---- */

/* The kernel's descriptors of message m, beginning at `part`; returns the next free part. */
static uint32_t describe(io_loop *io, uint32_t m, uint32_t part) {
    io_message *message = &io->messages[m];
    struct iovec *parts = io->parts + part;
    uint32_t n = 0;
    outgoing *packet = &io->packets[message->first];
    if (message->count > 1) {
        train_head(packet->data, message->payload, message->total, &message->offload);
        io->stats.trains_sent++;
    } else {
        memset(&message->offload, 0, sizeof message->offload);
    }
    parts[n++] = (struct iovec){&message->offload, sizeof message->offload};
    parts[n++] = (struct iovec){packet->data, packet->length};
    while (packet->next != IO_NONE) {
        packet = &io->packets[packet->next];
        parts[n++] = (struct iovec){packet->data + TRAIN_HEADERS, packet->length - TRAIN_HEADERS};
    }
    interface *i = io->interfaces[message->port];
    i->message = IO_NONE;
    io->headers[m].msg_hdr = (struct msghdr){
        .msg_name = &i->address, .msg_namelen = sizeof i->address, .msg_iov = parts, .msg_iovlen = n};
    return part + n;
}

static void flush(io_loop *io) {
    uint32_t done = 0, part = 0;
    for (uint32_t m = 0; m < io->message_count; m++) part = describe(io, m, part);
    while (done < io->message_count) {
        int sent = sendmmsg(io->sender, io->headers + done, io->message_count - done, MSG_DONTWAIT);
        if (sent > 0) {
            for (int n = 0; n < sent; n++) io->stats.sent += io->messages[done++].count;
            continue;
        }
        if (errno == EINTR) continue;
        const io_message *message = &io->messages[done];
        interface *i = io->interfaces[message->port];
        if (errno == ENETDOWN || errno == ENXIO || errno == ENODEV)
            fail(io, "went down", i->name, message->port);
        /* Whatever it was, this message does not leave; the others may. */
        if (errno == EMSGSIZE) {
            io->stats.oversized += message->count;
            i->stats.oversized += message->count;
        } else {
            io->stats.send_drops += message->count;
            i->stats.send_drops += message->count;
        }
        done++;
    }
    io->message_count = io->packet_count = 0;
    io->arena_used = 0;
}

uint8_t *io_room(void *context, uint32_t bytes) {
    io_loop *io = context;
    if (bytes > IO_ARENA_BYTES) return NULL;
    if (io->message_count == IO_BATCH || io->packet_count == IO_PACKETS || io->arena_used + bytes > IO_ARENA_BYTES)
        flush(io);
    return io->arena + io->arena_used;
}

/* Adds packet n to its port's last message, if that makes a train. A packet that is shorter than the first one ends
 * its train. */
static int join(io_loop *io, interface *i, uint32_t n, uint32_t payload) {
    if (i->message == IO_NONE) return 0;
    io_message *message = &io->messages[i->message];
    outgoing *first = &io->packets[message->first], *last = &io->packets[message->last];
    if (message->count == io->options.trains || payload > message->payload || !message->payload ||
        last->length != first->length || message->total + payload > TRAIN_BYTES ||
        !train_matches(first->data, io->packets[n].data, message->count))
        return 0;
    last->next = message->last = (uint16_t)n;
    message->total += payload;
    message->count++;
    return 1;
}

void io_emit(void *context, uint32_t port, uint64_t time_ns, uint32_t length) {
    io_loop *io = context;
    uint8_t *data = io->arena + io->arena_used;
    (void)time_ns;
    if (io->cpu >= 0 && port == io->cpu_port) {
        if (send(io->cpu, data, length, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) io->cpu_drops++;
        return;
    }
    interface *i = io->interfaces[port];
    uint16_t n = (uint16_t)io->packet_count++;
    io->packets[n] = (outgoing){data, length, IO_NONE};
    io->arena_used += (length + 63) & ~63u;
    uint32_t payload = io->options.trains > 1 ? train_payload(data, length) : 0;
    if (payload && join(io, i, n, payload)) return;
    i->message = (uint16_t)io->message_count;
    io->messages[io->message_count++] =
        (io_message){.port = (uint16_t)port, .first = n, .last = n, .count = 1, .payload = payload, .total = payload};
}

/* ---- receiving ---- */

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

/* When a packet arrived, on CLOCK_MONOTONIC. */
static uint64_t arrival(io_loop *io, const struct tpacket2_hdr *header) {
    uint64_t stamp = (uint64_t)header->tp_sec * 1000000000ull + header->tp_nsec;
    if (stamps_stale(&io->stamps, stamp)) {
        uint64_t now = io_now();
        stamps_read(&io->stamps, now, stamps_clock());
    }
    return stamps_convert(&io->stamps, stamp);
}

/* A train, or a packet that is too long for the ring, waits whole in the socket's queue. */
static uint8_t *take_copy(io_loop *io, uint32_t *length) {
    const ssize_t room = IO_TRAIN_BYTES - IO_VLAN_BYTES;
    ssize_t got = recv(io->receiver, io->train + IO_VLAN_BYTES, (size_t)room, MSG_DONTWAIT | MSG_TRUNC);
    if (got < (ssize_t)sizeof(struct virtio_net_hdr) || got > room) return NULL;
    *length = (uint32_t)got - sizeof(struct virtio_net_hdr);
    return io->train + IO_VLAN_BYTES + sizeof(struct virtio_net_hdr);
}

/* Gives the packets of one buffer to the traffic manager; returns how many they were. */
static uint32_t receive(io_loop *io, struct tpacket2_hdr *header) {
    const struct sockaddr_ll *from = (const void *)((uint8_t *)header + TPACKET_ALIGN(sizeof *header));
    uint32_t port = io_port_of(io, (uint32_t)from->sll_ifindex);
    uint32_t status = header->tp_status, length = header->tp_snaplen;
    uint8_t *data = (uint8_t *)header + header->tp_mac;
    struct virtio_net_hdr offload;
    if (status & TP_STATUS_COPY) data = take_copy(io, &length); /* also where it is not ours: the queue moves on */
    if (port == TM_PORTS) return 0; /* not ours: came before the filter, or there is none */
    interface *i = io->interfaces[port];
    i->stats.received++;
    if (!data || header->tp_len > length) { /* the socket's queue was full */
        io->stats.ring_drops++;
        return 0;
    }
    memcpy(&offload, data - sizeof offload, sizeof offload);
    if (status & TP_STATUS_VLAN_VALID) { /* the kernel has taken the tag out; a switch sees it */
        uint16_t tpid = status & TP_STATUS_VLAN_TPID_VALID ? header->tp_vlan_tpid : ETH_P_8021Q;
        uint16_t tag[2] = {htons(tpid), htons(header->tp_vlan_tci)};
        memmove(data - IO_VLAN_BYTES, data, 2 * ETH_ALEN);
        data -= IO_VLAN_BYTES;
        memcpy(data + 2 * ETH_ALEN, tag, IO_VLAN_BYTES);
        length += IO_VLAN_BYTES;
        offload.csum_start += IO_VLAN_BYTES;
    }
    uint64_t arrived = arrival(io, header);
    uint32_t longest = i->longest + (status & TP_STATUS_VLAN_VALID ? IO_VLAN_BYTES : 0);
    if (offload.gso_type == VIRTIO_NET_HDR_GSO_UDP_L4) {
        train_cut cut;
        int packets = train_open(&cut, data, length, &offload);
        if (packets > 0 && cut.headers + cut.payload <= longest) {
            io->stats.received += (uint32_t)packets;
            io->stats.trains_received++;
            uint32_t bytes;
            for (uint8_t *packet; (packet = train_next(&cut, &bytes));) tm_receive(io->tm, port, packet, bytes, arrived);
            return (uint32_t)packets;
        }
    }
    io->stats.received++;
    /* A tag that the kernel left in the frame is not part of what an MTU counts. */
    if (offload.gso_type != VIRTIO_NET_HDR_GSO_NONE || length > longest + IO_VLAN_BYTES) {
        io->stats.oversized++;
        i->stats.oversized++;
        return 1;
    }
    if (offload.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) {
        io->stats.completed++;
        train_complete_checksum(data, length, offload.csum_start, offload.csum_offset);
    }
    tm_receive(io->tm, port, data, length, arrived);
    return 1;
}

/* ---- control calls ---- */

void io_lock(io_loop *io) {
    atomic_fetch_add(&io->wanted, 1);
    pthread_mutex_lock(&io->gate);
    pthread_mutex_lock(&io->busy);
    pthread_mutex_unlock(&io->gate);
    atomic_fetch_sub(&io->wanted, 1);
}

static void wake_loop(io_loop *io) {
    uint64_t one = 1;
    if (write(io->wake, &one, sizeof one) < 0) return; /* full: it will wake anyway */
}

void io_unlock(io_loop *io) {
    pthread_mutex_unlock(&io->busy);
    if (atomic_load(&io->asleep)) wake_loop(io); /* the call may have moved the next event */
}

static void yield_lock(io_loop *io) {
    if (!atomic_load_explicit(&io->wanted, memory_order_relaxed)) return;
    pthread_mutex_unlock(&io->busy);
    pthread_mutex_lock(&io->gate); /* free once the caller has `busy` */
    pthread_mutex_unlock(&io->gate);
    pthread_mutex_lock(&io->busy);
}

void io_stop(io_loop *io) {
    atomic_store(&io->stop, 1);
    wake_loop(io);
}

/* ---- the loop ---- */

static void check_interfaces(io_loop *io) {
    uint8_t buffer[8192] __attribute__((aligned(8)));
    for (;;) {
        ssize_t got = recv(io->links, buffer, sizeof buffer, MSG_DONTWAIT);
        if (got <= 0) return; /* also ENOBUFS: a down interface shows again when it is sent to */
        int left = (int)got;
        for (struct nlmsghdr *m = (void *)buffer; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
            if (m->nlmsg_type != RTM_NEWLINK && m->nlmsg_type != RTM_DELLINK) continue;
            const struct ifinfomsg *info = NLMSG_DATA(m);
            uint32_t port = io_port_of(io, (uint32_t)info->ifi_index);
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

static uint32_t receive_batch(io_loop *io) {
    uint32_t count = 0;
    for (uint32_t buffers = 0; buffers < IO_BATCH && count < IO_PACKETS_AT_ONCE && frame_ready(io); buffers++) {
        struct tpacket2_hdr *header = frame_at(io);
        next_frame(io);
        /* The next packet was written by another core: ask for it now. */
        const uint8_t *ahead = (const uint8_t *)frame_at(io);
        for (uint32_t line = 0; line < 512; line += 64) __builtin_prefetch(ahead + line);
        count += receive(io, header);
        __atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        yield_lock(io);
    }
    if (!frame_ready(io)) stamps_empty(&io->stamps);
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

/* Whether packets came and went fast in the last period. */
static int is_crowded(io_loop *io, uint64_t now) {
    if (now - io->counted_ns >= PERIOD_NS) {
        uint64_t moved = io->stats.received + io->stats.sent;
        io->crowded = (moved - io->counted) * 1000000000ull / (now - io->counted_ns) >= CROWDED_PER_S;
        io->counted_ns = now;
        io->counted = moved;
    }
    return io->crowded;
}

/* Waits, without the lock, for the rest of MODERATION_NS since the last sleep. */
static void pause_loop(io_loop *io, uint64_t now) {
    uint64_t left = io->woken_ns + MODERATION_NS - now;
    struct timespec time = {0, (long)left};
    io->stats.sleeps++;
    io->due_ns += left;
    pthread_mutex_unlock(&io->busy);
    nanosleep(&time, NULL);
    pthread_mutex_lock(&io->busy);
}

/* Waits, without the lock, for a packet, an event or a call. */
static void wait_for_work(io_loop *io, uint64_t idle_since) {
    uint64_t next = tm_next_event(io->tm), now = io_now();
    if (next <= now) return;
    int moderated = next != TM_NEVER && !io->options.spin_ns && is_crowded(io, now);
    if (moderated && now - io->woken_ns + WAKE_NS < MODERATION_NS) {
        pause_loop(io, now);
        io->woken_ns = io_now();
        return;
    }
    if (next - now < WAKE_NS || now - idle_since < io->options.spin_ns) {
        yield_lock(io);
        for (int i = 0; i < 16 && !frame_ready(io); i++) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
        return;
    }
    uint64_t left = next - now < LONGEST_SLEEP_NS ? next - now : LONGEST_SLEEP_NS;
    struct timespec timeout = {0, (long)left};
    struct pollfd fds[] = {{io->receiver, POLLIN, 0}, {io->wake, POLLIN, 0}, {io->links, POLLIN, 0}};
    io->stats.sleeps++;
    io->due_ns += left;
    atomic_store(&io->asleep, 1);
    pthread_mutex_unlock(&io->busy);
    int ready = ppoll(fds, 3, &timeout, NULL);
    pthread_mutex_lock(&io->busy);
    io->woken_ns = io_now();
    atomic_store(&io->asleep, 0);
    if (ready <= 0) return;
    uint64_t count;
    if (fds[1].revents && read(io->wake, &count, sizeof count) < 0) return;
    if (fds[2].revents) check_interfaces(io);
    if (fds[0].revents & (POLLERR | POLLHUP)) {
        int code = 0;
        socklen_t bytes = sizeof code;
        getsockopt(io->receiver, SOL_SOCKET, SO_ERROR, &code, &bytes); /* ENETDOWN of any interface */
        check_interfaces(io);
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
            check_interfaces(io);
        }
        io->due_ns = now;
        uint32_t received = receive_batch(io);
        run_events(io);
        if (io->message_count) flush(io);
        now = io_now();
        if (received) {
            idle_since = now;
        } else {
            wait_for_work(io, idle_since);
            now = io_now();
        }
        if (now > io->due_ns + STILL_NS) io->stats.still_ns += now - io->due_ns;
        yield_lock(io);
    }
    struct timespec cpu;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    io->cpu_ns = (uint64_t)cpu.tv_sec * 1000000000ull + (uint64_t)cpu.tv_nsec;
    io->ended_ns = io_now();
    io->running = 0;
    pthread_mutex_unlock(&io->busy);
    return io->failed ? -1 : 0;
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

uint64_t io_cpu_drops(const io_loop *io) { return io->cpu_drops; }

int io_port_stats_get(io_loop *io, uint32_t port, io_port_stats *stats) {
    if (port >= TM_PORTS || !io->interfaces[port]) return -1;
    *stats = io->interfaces[port]->stats;
    return 0;
}
