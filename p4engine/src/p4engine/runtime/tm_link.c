#include "tm_link.h"

#define NS_PER_S 1000000000ull

static uint64_t draw(tm_link *link, int purpose) {
    return tm_mix(link->draws[purpose] += 0x9e3779b97f4a7c15ull);
}

static int happens(tm_link *link, int purpose, uint64_t probability) {
    return probability && (draw(link, purpose) >> 1) < probability;
}

void tm_link_init(tm_link *link, uint64_t seed, uint32_t port, uint32_t direction) {
    memset(link, 0, sizeof *link);
    link->shape.queue_packets = link->shape.queue_bytes = TM_UNLIMITED;
    for (int purpose = 0; purpose < DRAWS; purpose++) {
        uint64_t stream = ((uint64_t)port << 8) | (direction << 4) | (uint64_t)purpose;
        link->draws[purpose] = tm_mix(seed + tm_mix(stream + 1));
    }
}

int tm_link_shape(tm_link *link, const tm_shape *shape) {
    const uint64_t far = 1ull << 62; /* keeps sums of times from overflowing */
    if (shape->jitter_ns > shape->delay_ns || shape->loss > TM_CERTAIN || shape->duplicate > TM_CERTAIN ||
        shape->reorder > TM_CERTAIN || shape->delay_ns > far || shape->reorder_ns > far ||
        shape->rate_bps > 1000000ull * NS_PER_S || shape->rate_pps > NS_PER_S)
        return TM_BAD_VALUE;
    link->shape = *shape;
    link->limited = shape->rate_bps || shape->rate_pps;
    link->timed = link->limited || shape->delay_ns || (shape->reorder && shape->reorder_ns);
    link->lossy = shape->loss || shape->duplicate || link->down;
    link->bit_remainder = link->packet_remainder = 0; /* they were fractions of the old rates */
    return TM_OK;
}

void tm_link_up(tm_link *link, int up, uint64_t now_ns) {
    link->down = !up;
    link->lossy = link->shape.loss || link->shape.duplicate || link->down;
    if (link->busy_until > now_ns) link->busy_until = now_ns;
    if (link->last_exit > now_ns) link->last_exit = now_ns;
    link->bit_remainder = link->packet_remainder = 0;
}

uint64_t tm_link_send(tm_link *link, uint32_t length, uint64_t now_ns, uint64_t arrivals[2], int *copies) {
    const tm_shape *shape = &link->shape;
    uint64_t start = now_ns, end = now_ns;
    if (link->limited) {
        if (link->busy_until >= now_ns) {
            start = link->busy_until;
        } else {
            link->bit_remainder = link->packet_remainder = 0;
        }
        end = start;
        link->busy_until = start;
        if (shape->rate_bps) {
            uint64_t bits = (uint64_t)length * 8 * NS_PER_S + link->bit_remainder;
            end = start + bits / shape->rate_bps;
            link->bit_remainder = bits % shape->rate_bps;
            link->busy_until = end;
        }
        if (shape->rate_pps) {
            uint64_t packet = NS_PER_S + link->packet_remainder;
            uint64_t next = start + packet / shape->rate_pps;
            link->packet_remainder = packet % shape->rate_pps;
            if (next > link->busy_until) link->busy_until = next;
        }
        link->counters.busy_ns += end - start;
    }
    link->counters.packets++;
    link->counters.bytes += length;

    if (happens(link, DRAW_LOSS, shape->loss)) {
        link->counters.losses++;
        *copies = 0;
        return start;
    }
    *copies = 1;
    if (happens(link, DRAW_DUPLICATE, shape->duplicate)) {
        link->counters.duplicates++;
        *copies = 2;
    }
    uint64_t arrival = end + shape->delay_ns;
    if (shape->jitter_ns) {
        unsigned __int128 wide = (unsigned __int128)draw(link, DRAW_JITTER) * (2 * shape->jitter_ns + 1);
        arrival += (uint64_t)(wide >> 64);
        arrival -= shape->jitter_ns;
    }
    if (arrival < link->last_exit) arrival = link->last_exit;
    link->last_exit = arrival;
    if (happens(link, DRAW_REORDER, shape->reorder)) {
        link->counters.reordered++;
        arrival += shape->reorder_ns;
    }
    arrivals[0] = arrivals[1] = arrival;
    return start;
}
