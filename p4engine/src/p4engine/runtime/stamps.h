/* The kernel's receive stamps as times of CLOCK_MONOTONIC. A packet socket stamps by CLOCK_REALTIME alone, which may
 * be set at any time.
 *
 * Both clocks are read after a packet was found in the ring, so its stamp is from before that. If the wall clock was
 * set since they were read for the packets before, the stamp is from before or from after the step, and each of the two
 * distances between the clocks gives a time. The later one that is not in the future counts: the other one is off by
 * the whole step. So a step changes a packet's time only if the packet, or the loop, was held up for longer than the
 * step. */
#ifndef STAMPS_H
#define STAMPS_H

#include <stdint.h>
#include <time.h>

typedef struct stamps {
    uint64_t now, real; /* the two clocks when they were last read */
    uint64_t before;    /* real - now, when the ring was last empty */
    uint64_t last;      /* the stamp before; after an empty ring: as large as can be */
} stamps;

/* The clock of the stamps. */
static inline uint64_t stamps_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* Whether the clocks must be read again, since this stamp may be from after the last time. */
static inline int stamps_stale(const stamps *s, uint64_t stamp) { return stamp > s->real || stamp < s->last; }

/* now: CLOCK_MONOTONIC, read before real, CLOCK_REALTIME. */
static inline void stamps_read(stamps *s, uint64_t now, uint64_t real) {
    s->now = now;
    s->real = real;
}

/* The ring was found empty. */
static inline void stamps_empty(stamps *s) {
    s->before = s->real - s->now;
    s->last = UINT64_MAX;
}

static inline uint64_t stamps_convert(stamps *s, uint64_t stamp) {
    uint64_t age = s->real - stamp, other = s->now + s->before - stamp; /* huge if the stamp is in the future */
    s->last = stamp;
    if (other < age) age = other;
    return age < s->now ? s->now - age : s->now;
}

#endif
