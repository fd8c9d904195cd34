/* One direction of a link: when a packet leaves it, and whether it does.
 *
 * Internal to the traffic manager. A link keeps no packets: it turns (length, time) into times of arrival
 * at the far end, so that queues, copies and events stay in tm.c.
 *
 * Serialisation is exact: the fraction of a nanosecond that a packet's time leaves over is carried to the
 * next packet of a busy period, so n packets of b bytes take floor(n * b * 8e9 / rate) ns, not n roundings. */
#ifndef TM_LINK_H
#define TM_LINK_H

#include "tm.h"

enum { DRAW_LOSS, DRAW_DUPLICATE, DRAW_JITTER, DRAW_REORDER, DRAWS };

typedef struct tm_link {
    tm_shape shape;
    tm_counters counters;
    uint8_t limited; /* a rate: packets may have to wait */
    uint8_t timed;   /* a packet may leave later than it came */
    uint8_t lossy;   /* a packet may leave not once */
    uint8_t down;
    uint64_t busy_until;
    uint64_t bit_remainder, packet_remainder; /* of busy_until, in 1/rate ns */
    uint64_t last_exit;
    uint64_t draws[DRAWS];
} tm_link;

/* splitmix64 (Steele, Lea, Flood 2014): a bijective mixer, here of a Weyl sequence. */
static inline uint64_t tm_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

void tm_link_init(tm_link *, uint64_t seed, uint32_t port, uint32_t direction);
int tm_link_shape(tm_link *, const tm_shape *);
void tm_link_up(tm_link *, int up, uint64_t now_ns); /* nothing is on the wire then */

/* Serialises a packet whose turn it is at now_ns or when the link becomes free, whichever is later; returns
 * when its first bit leaves, and the times at which copies of it arrive (0, 1 or 2 of them). */
uint64_t tm_link_send(tm_link *, uint32_t length, uint64_t now_ns, uint64_t arrivals[2], int *copies);

#endif
