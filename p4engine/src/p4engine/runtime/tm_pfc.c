/* Pause frames of IEEE 802.1Qbb: an input above its threshold tells the far end of its link to stop a class for a time,
 * tells it again before that has passed, and lets it go on when it holds less. */
#include <stdlib.h>

#include "tm_lossless.h"

#define MOST_QUANTA 65535

static int over_threshold(const struct lossless *l, const input *in) {
    return in->headroom || shared_of(l, in) >= threshold_of(l);
}

static int below_threshold(const struct lossless *l, const input *in) {
    return !in->headroom && (!shared_of(l, in) || shared_of(l, in) + l->set.resume <= threshold_of(l));
}

static void tell(tm_switch *tm, uint32_t number, uint32_t class, uint32_t quanta) {
    port *p = tm->ports[number];
    input *in = &p->lossless->in[class];
    control c = {.opcode = PFC_OPCODE, .classes = 1u << class};
    c.values[class] = quanta;
    in->frames++;
    in->again_ns = quanta ? tm->now + quanta_ns(MOST_QUANTA, p->link[TM_EGRESS].shape.rate_bps) / 2 : TM_NEVER;
    tm_control_send(tm, number, &c);
    tm_control_schedule(tm, p);
}

static void begin(tm_switch *tm, uint32_t number, uint32_t class, uint32_t cause) {
    struct lossless *l = tm->lossless;
    input *in = &tm->ports[number]->lossless->in[class];
    in->pausing = 1;
    in->cause = (uint16_t)cause;
    in->since = tm->now;
    in->note = TM_NEVER;
    if (l->pause_count == l->pause_capacity) {
        uint64_t capacity = l->pause_capacity ? 2 * l->pause_capacity : 256;
        tm_pause *larger = capacity <= MOST_PAUSES ? realloc(l->pauses, capacity * sizeof *larger) : NULL;
        if (!larger) {
            l->pauses_missed++;
            return;
        }
        l->pauses = larger;
        l->pause_capacity = capacity;
    }
    in->note = l->pause_count++;
    l->pauses[in->note] = (tm_pause){tm->now, TM_NEVER, number, (uint16_t)class, in->cause};
}

void tm_pfc_changed(tm_switch *tm, uint32_t number, uint32_t class, uint32_t cause) {
    struct lossless *l = tm->lossless;
    input *in = &tm->ports[number]->lossless->in[class];
    int full = l->full[class] != 0;
    if (!in->pausing && (full || over_threshold(l, in))) {
        if (tm->ports[number]->link[TM_EGRESS].down) return;
        begin(tm, number, class, cause);
        tell(tm, number, class, MOST_QUANTA);
    } else if (in->pausing && !full && below_threshold(l, in)) {
        in->pausing = 0;
        in->paused_ns += tm->now - in->since;
        if (in->note != TM_NEVER) l->pauses[in->note].until_ns = tm->now;
        tell(tm, number, class, 0);
    }
}

void tm_pfc_again(tm_switch *tm, uint32_t number) {
    for (uint32_t class = 0; class < TM_CLASSES; class++)
        if (tm->ports[number]->lossless->in[class].again_ns <= tm->now) tell(tm, number, class, MOST_QUANTA);
}
