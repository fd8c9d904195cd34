/* The packet loop's insides, shared by io_setup.c (which opens sockets and interfaces) and io.c (which runs
 * packets through them). Nothing outside of them includes this. */
#ifndef IO_STATE_H
#define IO_STATE_H

#include <linux/if_packet.h>
#include <net/if.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>

#include "io.h"
#include "stamps.h"
#include "train.h"

#define IO_BATCH 64 /* messages sent by one sendmmsg, and packets received between two looks at the clock */
#define IO_PACKETS 2048 /* that wait for sendmmsg, alone or in trains */
#define IO_ARENA_BYTES (1 << 20) /* their bytes */
#define IO_NONE UINT16_MAX
#define IO_VLAN_BYTES 4
#define IO_TRAIN_BYTES (1 << 17)
#define IO_HASH_SLOTS 2048

typedef struct interface {
    char name[IF_NAMESIZE];
    uint32_t longest; /* frame, without a VLAN tag */
    struct sockaddr_ll address;
    io_port_stats stats;
    uint16_t message; /* the last one of this port that waits, to which packets may be added, or IO_NONE */
} interface;

/* A packet that waits to be sent; `next` is the one behind it in its train. */
typedef struct outgoing {
    uint8_t *data;
    uint32_t length;
    uint16_t next;
} outgoing;

/* What one call sends: a packet, or a train. */
typedef struct io_message {
    uint16_t port, first, last, count;
    uint32_t payload, total; /* bytes of the first packet's payload, and of all; 0: must stay alone */
    struct virtio_net_hdr offload;
} io_message;

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
    struct { uint32_t ifindex, port; } by_index[IO_HASH_SLOTS]; /* open addressing; 0: free */
    uint32_t interface_count;
    int cpu;           /* a socket that packets for the CPU port are written to, -1: there is none */
    uint32_t cpu_port;
    uint64_t cpu_drops;

    pthread_mutex_t gate, busy;
    atomic_int wanted; /* control calls that wait for `busy` */
    atomic_int stop, asleep;

    stamps stamps;
    uint64_t started_ns, ended_ns, housekept_ns;
    uint64_t woken_ns; /* when the last sleep ended */
    uint64_t due_ns; /* when the turn is to end at the latest: its begin and what it sleeps */
    uint64_t counted_ns, counted; /* begin of the period whose packets are counted, and how many had moved by then */
    int crowded; /* packets come so fast that sleeps are moderated */
    clockid_t cpu_clock;
    uint64_t cpu_ns; /* after the end */
    int running;
    io_stats stats;
    char *error;
    int failed;

    io_message messages[IO_BATCH];
    outgoing packets[IO_PACKETS];
    struct mmsghdr headers[IO_BATCH];
    struct iovec parts[IO_PACKETS + 2 * IO_BATCH];
    uint32_t message_count, packet_count;
    uint8_t *arena;
    uint32_t arena_used;
    uint8_t *train; /* room for a received one */
};

/* Writes a message into a caller's `error`; returns -1. */
__attribute__((format(printf, 2, 3))) int io_set_error(char *error, const char *format, ...);
/* The traffic manager's sink: packets wait in the arena for the next sendmmsg. */
uint8_t *io_room(void *context, uint32_t bytes);
void io_emit(void *context, uint32_t port, uint64_t time_ns, uint32_t length);

/* TM_PORTS: the interface is no port. */
static inline uint32_t io_port_of(const io_loop *io, uint32_t ifindex) {
    for (uint32_t slot = ifindex % IO_HASH_SLOTS;; slot = (slot + 1) % IO_HASH_SLOTS) {
        if (io->by_index[slot].ifindex == ifindex) return io->by_index[slot].port;
        if (!io->by_index[slot].ifindex) return TM_PORTS;
    }
}

#endif
