/* Drives a switch in this process with the same packets round after round, and says how long it took.
 *
 * Nothing of Python is on a packet's way. Every round has new fragments, so that a program that
 * remembers what it has had finds the same work. */
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <arpa/inet.h>

typedef int (*receive_t)(void *, uint32_t port, const uint8_t *data, uint32_t length, uint64_t now_ns);
typedef void (*advance_t)(void *, uint64_t now_ns);
typedef void (*clear_t)(void *);

enum { AT_FRAGMENT = 42 + 8, AT_INDEX = 42 + 12, TOGETHER = 64 };

/* `count` frames of `size` bytes, each with its port, `rounds` times, from round `first` on. A round
 * has `fragments` fragments, and uses the slots' other set if there are `sets` = 2. Returns the
 * thread's processor time in ns; a negative number is a switch's error. */
int64_t drive(void *sw, receive_t receive, advance_t advance, clear_t clear, uint8_t *frames,
              const uint32_t *ports, uint32_t size, uint32_t count, uint32_t first, uint32_t rounds,
              uint32_t fragments, uint32_t sets)
{
    struct timespec begin, end;
    uint64_t now_ns = (uint64_t)first * count * 1000 + 1;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (uint32_t round = first; round < first + rounds; round++)
        for (uint32_t i = 0; i < count; i++) {
            uint8_t *frame = frames + (uint64_t)i * size;
            uint32_t slot, word;
            memcpy(&word, frame + AT_INDEX, 4);
            slot = ntohl(word) & 0x7fffffff;
            word = htonl(round * fragments + slot);
            memcpy(frame + AT_FRAGMENT, &word, 4);
            word = htonl(slot | (sets == 2 ? (round & 1) << 31 : 0));
            memcpy(frame + AT_INDEX, &word, 4);
            int status = receive(sw, ports[i], frame, size, now_ns += 1000);
            if (status < 0)
                return status;
            if (i % TOGETHER == TOGETHER - 1) {
                advance(sw, now_ns);
                clear(sw);
            }
        }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return (end.tv_sec - begin.tv_sec) * 1000000000ll + (end.tv_nsec - begin.tv_nsec);
}
