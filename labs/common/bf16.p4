/* Floating point in P4: what no lab has to invent.
 *
 * A bf16 is the upper half of a float32: a sign, 8 bits of exponent e, and 7 bits m behind the leading
 * one of the fraction. Its value is (128 + m) * 2^(e - 134); e is 0 for zeros and for what is smaller
 * than all normal numbers.
 */

/* Shifts x to the left until its highest bit is 1, and counts in n how far. x is a variable of type
 * bit<32> that is not 0, n one of type bit<32>. */
#define NORMALISE(x, n)                                \
    n = 0;                                             \
    if (x[31:16] == 0) { x = x << 16; n = n + 16; }    \
    if (x[31:24] == 0) { x = x << 8; n = n + 8; }      \
    if (x[31:28] == 0) { x = x << 4; n = n + 4; }      \
    if (x[31:30] == 0) { x = x << 2; n = n + 2; }      \
    if (x[31:31] == 0) { x = x << 1; n = n + 1; }
