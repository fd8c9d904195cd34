/* The switch process's side of the traffic manager: network interfaces and the real clock.
 *
 * One AF_PACKET socket with a memory-mapped ring receives from all ports of the process's network
 * namespace, another one sends in batches. One ring for all ports keeps the order of arrival between ports,
 * makes the cost of a packet independent of the number of ports, and costs nothing while it is empty. It is
 * a TPACKET_V2 ring: V3 hands over blocks, and with little traffic a packet would wait for its block's
 * timer. The kernel's arrival stamps (stamps.h) are the traffic manager's times, so a loop that was not scheduled
 * for a while does not see a burst where there was none.
 *
 * Trains (train.h) are cut into packets when they come in. They and packets of more than 2000 bytes are larger than a
 * frame of the ring, so the ring has only their beginning, and the kernel keeps them whole in the socket's queue
 * (PACKET_COPY_THRESH), from where one system call takes one. With the option `trains`, packets that leave at the
 * same time for the same receiver are sent as trains. Checksums that a sender's kernel left to the hardware are
 * completed.
 *
 * While there is work the loop makes no system call but sendmmsg; without work it sleeps until a packet,
 * the next event of the traffic manager, or a control call. */
#ifndef IO_H
#define IO_H

#include "tm.h"

typedef struct io_loop io_loop;

typedef struct io_options {
    uint32_t ring_frames; /* 0: default */
    uint32_t spin_ns;     /* stay awake this long without work before sleeping */
    uint32_t bypass;      /* send past the qdisc layer: captures on the switch's ports miss sent packets */
    uint32_t trains;      /* send packets as trains of up to so many; 0 and 1: one by one */
} io_options;

typedef struct io_stats {
    uint64_t received;    /* packets, also those that came in trains */
    uint64_t ring_drops;  /* the kernel found the ring full; what it drops of trains counts one by one or as one */
    uint64_t oversized;   /* longer than the port's MTU: TCP segmentation is on somewhere; dropped */
    uint64_t completed;   /* came with a checksum that was left to the hardware, and got it here */
    uint64_t trains_received, trains_sent;
    uint64_t sent;
    uint64_t send_drops;  /* the kernel refused a packet */
    uint64_t sleeps;
    uint64_t cpu_ns;      /* of the loop's thread */
    uint64_t wall_ns;     /* since the loop started */
    uint64_t late_max_ns; /* the longest that an event was handled after its time */
    uint64_t late_events; /* events handled more than 100 us after their time */
    uint64_t still_ns;    /* the loop stood still, all times of more than 100 ms together */
} io_stats;

typedef struct io_port_stats {
    uint64_t oversized, send_drops;
    uint64_t received; /* buffers of this port taken from the ring, to compare with the interface's counter */
    uint32_t ifindex, mtu;
} io_port_stats;

/* error: at least 256 bytes, filled when NULL or a negative number is returned. */
P4_EXPORT io_loop *io_create(tm_switch *, const io_options *, char *error);
P4_EXPORT int io_port_add(io_loop *, uint32_t port, const char *interface, char *error);
/* Packets that leave for this port are written to `fd`, a socket that keeps packets apart; it stays the
 * caller's. What its reader leaves there until it is full is counted as dropped. */
P4_EXPORT int io_cpu_port(io_loop *, uint32_t port, int fd, char *error);
P4_EXPORT int io_open(io_loop *, char *error); /* after the last port: from here on nothing is missed */
/* Returns 0 after io_stop, -1 with a cause in `error`. */
P4_EXPORT int io_run(io_loop *, char *error);
P4_EXPORT void io_stop(io_loop *); /* from any thread or a signal handler */
P4_EXPORT void io_destroy(io_loop *);

/* Between these no packet is in the pipeline. The loop gives way after the packet at hand. */
P4_EXPORT void io_lock(io_loop *);
P4_EXPORT void io_unlock(io_loop *);

P4_EXPORT void io_stats_get(io_loop *, io_stats *); /* with the lock held */
P4_EXPORT int io_port_stats_get(io_loop *, uint32_t port, io_port_stats *);
P4_EXPORT uint64_t io_cpu_drops(const io_loop *); /* with the lock held */
P4_EXPORT uint64_t io_now(void); /* CLOCK_MONOTONIC */

#endif
