/* What a traced build of a program calls (emit_trace.py): one text per event, to the instance's trace hook.
 *
 *     SITE WORD WORD ... [@OFFSET:BYTES]
 *
 * SITE is the number of a place in the program, which info["trace"] describes; words are the values there, in
 * hexadecimal, and BYTES part of a packet. Only included by traced builds. */
#ifndef P4TRACE_H
#define P4TRACE_H

#include "p4gen.h"

#define P4_TRACE_TEXT 65536
#define P4_TRACE_BYTES 16384 /* of a packet, at most */

static __attribute__((noinline, unused)) void p4_trace(p4_instance *I, const p4_packet *packet, uint32_t site,
                                                       const uint64_t *words, uint32_t count) {
    if (!I->config.trace) return;
    char text[P4_TRACE_TEXT];
    size_t at = (size_t)snprintf(text, sizeof text, "%u", site);
    for (uint32_t i = 0; i < count && at + 20 < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, " %llx", (unsigned long long)words[i]);
    I->config.trace(I->config.user, packet, text);
}

static __attribute__((noinline, unused)) void p4_trace_bytes(p4_instance *I, const p4_packet *packet, uint32_t site,
                                                             const uint64_t *words, uint32_t count, size_t offset,
                                                             const uint8_t *bytes, size_t length) {
    static const char digits[] = "0123456789abcdef";
    if (!I->config.trace) return;
    char text[P4_TRACE_TEXT];
    size_t at = (size_t)snprintf(text, sizeof text, "%u", site);
    for (uint32_t i = 0; i < count && at + 20 < sizeof text / 2; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, " %llx", (unsigned long long)words[i]);
    at += (size_t)snprintf(text + at, sizeof text - at, " @%zu:", offset);
    for (size_t i = 0; i < length && i < P4_TRACE_BYTES && at + 3 < sizeof text; i++) {
        text[at++] = digits[bytes[i] >> 4];
        text[at++] = digits[bytes[i] & 15];
    }
    text[at] = 0;
    I->config.trace(I->config.user, packet, text);
}

#endif
