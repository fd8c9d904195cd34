/* bfloat16: the upper half of a float32. A sum is that of the float32, rounded to nearest, a half to
 * the even number (testbed/protocols/formats/bfloat16.py says the same for hosts).
 *
 * With the adder BFLOAT16 each addition is rounded. With FLOAT32 and values of 16 bits
 * (`bfloat16_in_float32`) the whole sum is, once (short_values.p4).
 */
#ifndef BFLOAT16_P4
#define BFLOAT16_P4

#include "float32.p4"

/* What is no number stays as it is: its lower half is 0. */
bit<32> round_to_bfloat16(in bit<32> number) {
    return (number + 0x7fff + (number >> 16 & 1)) & 0xffff0000;
}

bit<32> add_bfloat16(in bit<32> a, in bit<32> b) {
    bit<32> sum = add_float32(a, b);
    return round_to_bfloat16(sum);
}

#endif
