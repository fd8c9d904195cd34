/* Credits instead of pause frames: a sender may send as many bytes as the far end has buffer for, and is told when some
 * of it is free again. An input's buffer is its own: the port's headroom. As in InfiniBand, what is told is the total
 * from the beginning, so that a frame that is lost does no harm; it counts blocks of 64 bytes.
 *
 * The far end is told once a quarter of the buffer is free that it does not know of, so that credits are a small part of
 * what a link carries. A buffer of at least two frames therefore never leaves a sender without. */
#include "tm_lossless.h"

#define ALL_BYTES (1ull << 62)

static void tell(tm_switch *tm, uint32_t number, uint32_t class) {
    lossless_port *own = tm->ports[number]->lossless;
    input *in = &own->in[class];
    uint64_t repeat_ns = tm->lossless->set.repeat_ns;
    control c = {.opcode = CREDITS_OPCODE, .classes = 1u << class};
    c.values[class] = (uint32_t)(in->granted / BLOCK_BYTES);
    in->frames++;
    tm_control_send(tm, number, &c);
    if (!repeat_ns || own->nic) return;
    in->again_ns = tm->now + repeat_ns;
    tm_control_schedule(tm, tm->ports[number]);
}

void tm_credits_changed(tm_switch *tm, uint32_t number, uint32_t class) {
    lossless_port *own = tm->ports[number]->lossless;
    input *in = &own->in[class];
    uint64_t limit = (own->headroom + in->freed) / BLOCK_BYTES * BLOCK_BYTES;
    if (limit < in->granted + own->headroom / 4 || tm->ports[number]->link[TM_EGRESS].down) return;
    in->granted = limit;
    tell(tm, number, class);
}

void tm_credits_again(tm_switch *tm, uint32_t number) {
    for (uint32_t class = 0; class < TM_CLASSES; class++)
        if (tm->ports[number]->lossless->in[class].again_ns <= tm->now) tell(tm, number, class);
}

/* A failed link loses what it is given, so it takes all. What it has lost is not counted afterwards: both ends count from
 * the beginning, and of the buffer what packets from before still take is not free. */
void tm_credits_link(tm_switch *tm, uint32_t number, int up) {
    lossless_port *own = tm->ports[number]->lossless;
    for (uint32_t class = 0; class < TM_CLASSES; class++) {
        input *in = &own->in[class];
        own->out.sent[class] = 0;
        own->out.limit[class] = own->nic || !up ? ALL_BYTES : 0; /* hosts take all */
        if (own->nic) {
            own->nic->gate.sent[class] = 0;
            own->nic->gate.limit[class] = up ? 0 : ALL_BYTES;
        }
        in->granted = 0;
        in->freed = 0 - in->bytes;
        if (up && is_lossless(tm->lossless, class)) tm_credits_changed(tm, number, class);
    }
}
