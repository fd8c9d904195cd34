/* Frames of MAC control to the far ends of lossless links. */
#include "tm_lossless.h"

static const uint8_t group_address[6] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01};

static void write_at(uint8_t *at, uint32_t value, uint32_t bytes) {
    while (bytes--) {
        at[bytes] = (uint8_t)value;
        value >>= 8;
    }
}

/* It leaves before all packets that wait, when the one on the wire has. */
void tm_control_send(tm_switch *tm, uint32_t number, const control *c) {
    port *p = tm->ports[number];
    uint8_t bytes[CONTROL_BYTES] = {0};
    memcpy(bytes, group_address, 6);
    bytes[6] = 0x02; /* an address that is given out locally */
    write_at(bytes + 10, number, 2);
    write_at(bytes + 12, 0x8808, 2);
    write_at(bytes + 14, c->opcode, 2);
    write_at(bytes + 16, c->classes, 2);
    uint32_t each = control_value_bytes(c->opcode);
    for (uint32_t i = 0; i < TM_CLASSES; i++) write_at(bytes + CONTROL_HEAD + i * each, c->values[i], each);
    uint64_t arrivals[2];
    int copies;
    tm_link *link = &p->link[TM_EGRESS];
    tm_counters counted = link->counters; /* of packets; these frames count by themselves */
    tm_link_send(link, CONTROL_BYTES, tm->now, arrivals, &copies);
    counted.busy_ns = link->counters.busy_ns;
    link->counters = counted;
    for (int i = 0; i < copies; i++) {
        control there = *c;
        there.time = arrivals[i];
        if (p->lossless->nic) tm_nic_hear(tm, p, &there);
        frame *f = tm_frame_new(tm, CONTROL_BYTES);
        if (!f) return;
        memcpy(f->data, bytes, CONTROL_BYTES);
        f->mark = CONTROL_MARK;
        if (tm->early) {
            uint8_t *room = tm->sink.room(tm->sink.context, CONTROL_BYTES);
            if (room) {
                memcpy(room, bytes, CONTROL_BYTES);
                tm->sink.emit(tm->sink.context, number, arrivals[i], CONTROL_BYTES);
            } else {
                tm->stats.no_memory++;
            }
            tm_frame_free(tm, f);
        } else {
            tm_list_push(tm, &p->departures, f, arrivals[i], tm->now);
        }
    }
}
