/* Credits instead of pause frames: a sender may send as many bytes as the far end has buffer for, and is told when some
 * of it is free again. An input's buffer is its own: the port's headroom. As in InfiniBand, what is told is the total
 * from the beginning, so that a frame that is lost does no harm; it counts blocks of 64 bytes.
 *
 * The far end is told once a quarter of the buffer is free that it does not know of, so that credits are a small part of
 * what a link carries. A buffer of at least two frames therefore never leaves a sender without. */
#include "tm_lossless.h"

void tm_credits_changed(tm_switch *tm, uint32_t number, uint32_t class) {
    lossless_port *own = tm->ports[number]->lossless;
    input *in = &own->in[class];
    uint64_t limit = (own->headroom + in->freed) / BLOCK_BYTES * BLOCK_BYTES;
    if (limit < in->granted + own->headroom / 4 || tm->ports[number]->link[TM_EGRESS].down) return;
    control c = {.opcode = CREDITS_OPCODE, .classes = 1u << class};
    c.values[class] = (uint32_t)(limit / BLOCK_BYTES);
    in->granted = limit;
    in->frames++;
    tm_control_send(tm, number, &c);
}
