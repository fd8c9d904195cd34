/* A2TP: ATP whose jobs use as many aggregators as they can without meeting others.
 *
 * What differs from atp.p4, which this program includes:
 *
 * - A gradient with the index BYPASS goes past the aggregators to its PS.
 * - An aggregator notes in one bit that a fragment of another owner has met it. The result that
 *   releases the aggregator carries the bit to the workers (FLAG_CONTENDED).
 * - A gradient's `extra` is the share of fragments for which its worker wants aggregators. A sum
 *   leaves with the smallest of its workers (ours).
 */
#define A2TP
#include "ina.p4"

const bit<32> BYPASS = 0xffffffff;

#include "atp.p4"
