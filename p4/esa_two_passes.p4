/* ESA with one access per array and pass, as switch chips have it.
 *
 * esa.p4 reads an aggregator's record, decides by all of it, and then writes all of it. A pipeline
 * cannot do that in one pass: each array is in one stage, and there it is read and written at once. But
 * the new owner depends on the old priority (who may evict whom), and the new priority on the old
 * owner (whose packet it is), so each would have to come before the other. docs/hardware.md has such
 * circles.
 *
 * So the packet goes through the pipeline twice:
 *
 *   first pass    reads the record and decides which event this is. What leaves the aggregator as it is
 *                 (COLLISION, DUPLICATE, PASS, ...) is done with that
 *   second pass   knows the event, moves the values, and changes each array of the record by its own
 *                 old value, the event and the packet
 *
 * Another packet can come in between and change the record. Each aggregator therefore has a version, which
 * every change increments. The first pass takes it along, the second compares it in the version's one
 * access. If it has changed, nothing is written, and the packet decides anew on what it finds: its second
 * pass is a first one. So a packet acts on the record that it has decided on, as if it had come at the
 * time of its last pass. What esa.p4 does with packets in that order, this program does.
 *
 * A packet that is lost between its passes leaves nothing behind that would have to be unlocked. Of
 * packets that change one aggregator at the same time, one succeeds per round.
 *
 * Compile-time parameters: those of esa.p4, and RECIRCULATION_PORT, an egress port through which packets
 * go round. Without it they are resubmitted.
 */
#define TWO_PASSES 1                     // the number of the list of fields that are kept
#define IS_NEW (meta.decided == 0)       // what goes round has been admitted

#include "esa.p4"
