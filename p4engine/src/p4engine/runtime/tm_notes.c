/* Notes of single packets that links have lost, so that what follows from it can be told flow by flow. See tm.h. */
#include <stdlib.h>

#include "tm_state.h"

static uint64_t field(const uint8_t *at, uint32_t bytes) {
    uint64_t value = 0;
    while (bytes--) value = value << 8 | *at++;
    return value;
}

static int reaches(uint32_t length, uint32_t offset, uint32_t bytes) {
    return length >= bytes && offset <= length - bytes;
}

void tm_note_add(tm_switch *tm, uint32_t port, uint32_t direction, uint32_t fate, const uint8_t *data, uint32_t length,
                 uint64_t time_ns) {
    if (!tm->notes_most) return;
    const tm_subject *s = &tm->subject;
    if (!reaches(length, s->mark_at, 2) || field(data + s->mark_at, 2) != s->mark || !reaches(length, s->kind_at, 1) ||
        !reaches(length, s->flow_at, 2) || !reaches(length, s->unit_at, 4) || !reaches(length, s->more_at, 8))
        return;
    if (fate == TM_AGAIN && (!reaches(length, s->again_at, 4) ||
                             (field(data + s->again_at, 4) & s->again_mask) != s->again))
        return;
    if (tm->note_count == tm->note_capacity) {
        uint64_t capacity = tm->note_capacity ? 2 * tm->note_capacity : 256;
        if (capacity > tm->notes_most) capacity = tm->notes_most;
        tm_note *larger = capacity > tm->note_count ? realloc(tm->notes, capacity * sizeof *larger) : NULL;
        if (!larger) {
            tm->notes_missed++;
            return;
        }
        tm->notes = larger;
        tm->note_capacity = capacity;
    }
    uint64_t place = (uint64_t)(data[s->kind_at] & 15) << 12 | fate << 10 | direction << 9 | port;
    uint64_t packet = place << 48 | field(data + s->flow_at, 2) << 32 | field(data + s->unit_at, 4);
    tm->notes[tm->note_count++] = (tm_note){time_ns, packet, field(data + s->more_at, 8)};
}

int tm_notes_set(tm_switch *tm, const tm_subject *subject, uint64_t most) {
    if (most && !subject) return TM_BAD_VALUE;
    if (subject) tm->subject = *subject;
    tm->notes_most = most;
    return TM_OK;
}

int tm_note_again(tm_switch *tm, uint32_t number, int on) {
    if (number >= TM_PORTS || !tm->ports[number]) return TM_NO_SUCH_PORT;
    tm->ports[number]->again = on != 0;
    return TM_OK;
}

uint64_t tm_notes(const tm_switch *tm, const tm_note **notes, uint64_t *missed) {
    *notes = tm->notes;
    *missed = tm->notes_missed;
    return tm->note_count;
}
