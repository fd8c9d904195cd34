/* Tokens of experts: the workers that a packet is for, and those that complete a sum, are in the packet.
 *
 * A job is a rank, the *owner* of the tokens, with all ranks to which some of its tokens may go. The owner
 * sends a result to those in its bitmap: each switch copies it to all of the job's ports, and drops the
 * copies behind which none of them is (egress.p4). They answer with gradients, whose `wanted` names all that
 * will. A sum is complete when all of these that are below this switch are in it, and goes up to the
 * owner, which gives nothing to it. The owner asks again for what it lacks, so that no sum has to be held.
 *
 * Without the compile-time parameter TOKENS the macro is empty.
 */
#ifdef TOKENS
#define WITH_WANTED                                                              \
    if (hdr.workers.isValid() && hdr.workers.wanted != 0) {                      \
        meta.complete = meta.complete & hdr.workers.wanted;                      \
        HOLDS_NOTHING                                                            \
    }
#else
#define WITH_WANTED
#endif
