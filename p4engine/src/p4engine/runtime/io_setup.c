/* Making and opening a packet loop: sockets, the receive ring, interfaces and their filter. Calls io.c, never
 * the other way round. */
#define _GNU_SOURCE
#include "io_state.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define FRAMES 8192
#define FRAME_PACKET_BYTES 2000 /* of a packet in a frame: with more the kernel clears 75 MB where the MTU is 9000 */
#define BLOCK_BYTES (1 << 20)
#define COPIES_BYTES (64 << 20) /* of trains and longer packets that wait in the receiving socket's queue */

io_loop *io_create(tm_switch *tm, const io_options *options, char *error) {
    io_loop *io = calloc(1, sizeof *io);
    if (!io) {
        io_set_error(error, "out of memory");
        return NULL;
    }
    io->tm = tm;
    if (options) io->options = *options;
    io->receiver = io->sender = io->links = io->cpu = -1;
    io->ring = MAP_FAILED;
    if (io->options.trains > TRAIN_PACKETS) io->options.trains = TRAIN_PACKETS;
    io->arena = aligned_alloc(64, IO_ARENA_BYTES);
    io->train = aligned_alloc(64, IO_TRAIN_BYTES);
    io->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&io->gate, NULL);
    pthread_mutex_init(&io->busy, NULL);
    io->sender = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* protocol 0: receives nothing */
    if (!io->arena || !io->train || io->wake < 0 || io->sender < 0) {
        io_set_error(error, "cannot open a packet socket: %s%s", strerror(errno),
                     errno == EPERM ? " (needs root or CAP_NET_RAW)" : "");
        io_destroy(io);
        return NULL;
    }
    int bytes = 4 << 20, on = 1;
    setsockopt(io->sender, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
    if (setsockopt(io->sender, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) < 0) {
        io_set_error(error, "this kernel's packet sockets know nothing of offloads: %s", strerror(errno));
        io_destroy(io);
        return NULL;
    }
    if (io->options.bypass) setsockopt(io->sender, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
    return io;
}

int io_port_add(io_loop *io, uint32_t port, const char *name, char *error) {
    if (port >= TM_PORTS || io->interfaces[port]) return io_set_error(error, "port %u is taken or out of range", port);
    if (strlen(name) >= IF_NAMESIZE) return io_set_error(error, "interface name %s is too long", name);
    if (io->interface_count >= IO_HASH_SLOTS / 2) return io_set_error(error, "too many ports");
    struct ifreq request = {0};
    strcpy(request.ifr_name, name);
    if (ioctl(io->sender, SIOCGIFINDEX, &request) < 0)
        return io_set_error(error, "port %u: no interface %s in this network namespace", port, name);
    uint32_t ifindex = (uint32_t)request.ifr_ifindex;
    if (io_port_of(io, ifindex) != TM_PORTS)
        return io_set_error(error, "interface %s is port %u already", name, io_port_of(io, ifindex));
    if (ioctl(io->sender, SIOCGIFFLAGS, &request) < 0 || !(request.ifr_flags & IFF_UP))
        return io_set_error(error, "port %u: interface %s is down (ip link set %s up)", port, name, name);
    if (ioctl(io->sender, SIOCGIFMTU, &request) < 0)
        return io_set_error(error, "port %u: cannot read the MTU of %s: %s", port, name, strerror(errno));
    interface *i = calloc(1, sizeof *i);
    if (!i) return io_set_error(error, "out of memory");
    strcpy(i->name, name);
    i->stats.ifindex = ifindex;
    i->stats.mtu = (uint32_t)request.ifr_mtu;
    i->longest = i->stats.mtu + ETH_HLEN;
    i->message = IO_NONE;
    i->address = (struct sockaddr_ll){.sll_family = AF_PACKET, .sll_ifindex = (int)ifindex, .sll_halen = 6};
    io->interfaces[port] = i;
    uint32_t slot = ifindex % IO_HASH_SLOTS;
    while (io->by_index[slot].ifindex) slot = (slot + 1) % IO_HASH_SLOTS;
    io->by_index[slot].ifindex = ifindex;
    io->by_index[slot].port = port;
    io->interface_count++;
    return 0;
}

int io_cpu_port(io_loop *io, uint32_t port, int fd, char *error) {
    if (port >= TM_PORTS || io->interfaces[port] || io->cpu >= 0)
        return io_set_error(error, "port %u cannot be the CPU port: it is taken or out of range", port);
    io->cpu = fd;
    io->cpu_port = port;
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
    if (longest > FRAME_PACKET_BYTES) longest = FRAME_PACKET_BYTES;

    io->links = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    struct sockaddr_nl group = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    if (io->links < 0 || bind(io->links, (void *)&group, sizeof group) < 0)
        return io_set_error(error, "cannot watch the interfaces: %s", strerror(errno));

    io->receiver = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (io->receiver < 0) return io_set_error(error, "cannot open a packet socket: %s", strerror(errno));
    int version = TPACKET_V2, reserve = 8, on = 1, copies = COPIES_BYTES;
    setsockopt(io->receiver, SOL_SOCKET, SO_RCVBUFFORCE, &copies, sizeof copies);
    if (setsockopt(io->receiver, SOL_PACKET, PACKET_VERSION, &version, sizeof version) < 0 ||
        setsockopt(io->receiver, SOL_PACKET, PACKET_RESERVE, &reserve, sizeof reserve) < 0 ||
        setsockopt(io->receiver, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) < 0 ||
        setsockopt(io->receiver, SOL_PACKET, PACKET_COPY_THRESH, &on, sizeof on) < 0 ||
        setsockopt(io->receiver, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) < 0 ||
        attach_filter(io) < 0)
        return io_set_error(error, "this kernel's packet sockets have no such feature: %s", strerror(errno));

    /* A frame size that is no power of two spreads the frames over the cache's sets. */
    uint32_t before = TPACKET2_HDRLEN + 16 + (uint32_t)sizeof(struct virtio_net_hdr) + (uint32_t)reserve;
    io->frame_bytes = (before + longest + IO_VLAN_BYTES + 63) & ~63u;
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
        return io_set_error(error, "cannot make a receive ring of %u frames: %s", io->frames, strerror(errno));
    io->ring = mmap(NULL, io->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, io->receiver, 0);
    if (io->ring == MAP_FAILED) return io_set_error(error, "cannot map the receive ring: %s", strerror(errno));
    io->at_block = io->ring;

    for (uint32_t port = 0; port < TM_PORTS; port++) {
        if (!io->interfaces[port]) continue;
        struct packet_mreq promiscuous = {.mr_ifindex = (int)io->interfaces[port]->stats.ifindex,
                                          .mr_type = PACKET_MR_PROMISC};
        setsockopt(io->receiver, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous);
    }
    struct sockaddr_ll everything = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    if (bind(io->receiver, (void *)&everything, sizeof everything) < 0)
        return io_set_error(error, "cannot receive: %s", strerror(errno));
    tm_sink sink = {.context = io, .room = io_room, .emit = io_emit};
    tm_set_sink(io->tm, &sink);
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
    free(io->train);
    free(io);
}

