/* Sums of float32 as if rounded once: a whole number of 288 bits for each value, in units of 2^-149.
 *
 * Any float32 is a whole number of these units below 2^277, so 1,024 of them fit with a sign. Infinities,
 * what is no number, and whether all numbers are -0 are in bits of their own (testbed/protocols/formats/
 * float32_exact.py says the same for hosts). A sum is rounded when it leaves, so no partial sum may: the
 * programs whose sums of some workers leave a switch refuse this format. Sums of int32 (INTEGERS in adder.p4)
 * are whole numbers, too, of units of their own.
 *
 * BMv2 can do this. Switch chips have neither registers of this width nor shifts by a distance that a
 * packet's value says.
 */
#ifndef FLOAT32_EXACT_P4
#define FLOAT32_EXACT_P4

#include "float32.p4"

typedef bit<288> exact_t;

const bit<32> EXACT_INFINITY = 1;
const bit<32> EXACT_MINUS    = 2;        // minus infinity
const bit<32> EXACT_NAN      = 4;
const bit<32> EXACT_OTHER    = 8;        // any number but -0
const bit<32> EXACT_INTEGERS = 16;       // the sum is that of int32

exact_t exact_of(in bit<32> number) {
    bit<32> exponent = number >> 23 & 0xff;
    bit<32> significand = number & 0x7fffff | (exponent == 0 ? 32w0 : 0x800000);
    bit<32> place = exponent == 0 ? 32w0 : exponent - 1;
    exact_t size = exponent == 255 ? 288w0 : (exact_t) significand << (bit<8>) place;
    return (number & FLOAT32_SIGN) == 0 ? size : -size;
}

bit<32> special_of(in bit<32> number) {
    bit<32> size = number & ~FLOAT32_SIGN;
    bit<32> infinite = (number & FLOAT32_SIGN) == 0 ? EXACT_INFINITY : EXACT_MINUS;
    bit<32> special = size == FLOAT32_INFINITY ? infinite : 0;
    special = size > FLOAT32_INFINITY ? EXACT_NAN : special;
    return special | (number == FLOAT32_SIGN ? 32w0 : EXACT_OTHER);
}

/* The same of a word that is a float32, or else an int32. */
exact_t exact_of_any(in bit<32> word, in bool is_integer) {
    exact_t number = exact_of(word);
    return is_integer ? (exact_t) word : number;
}

bit<32> special_of_any(in bit<32> word, in bool is_integer) {
    bit<32> special = special_of(word);
    return is_integer ? EXACT_INTEGERS : special;
}

bit<32> round_exact(in exact_t sum, in bit<32> special) {
    bool negative = sum[287:287] == 1;
    exact_t size = negative ? -sum : sum;

    /* Shift the leading bit to the left end. */
    bit<32> zeros = 0;
    exact_t rest = size;
    bit<32> step = rest[287:32] == 0 ? 32w256 : 0;
    zeros = zeros + step;
    rest = step == 0 ? rest : rest[31:0] ++ 256w0;  // BMv2 shifts by 255 bits at most
    step = rest[287:160] == 0 ? 32w128 : 0;
    zeros = zeros + step;
    rest = rest << (bit<8>) step;
    step = rest[287:224] == 0 ? 32w64 : 0;
    zeros = zeros + step;
    rest = rest << (bit<8>) step;
    step = rest[287:256] == 0 ? 32w32 : 0;
    zeros = zeros + step;
    rest = rest << (bit<8>) step;
    step = rest[287:272] == 0 ? 32w16 : 0;
    zeros = zeros + step;
    rest = rest << (bit<8>) step;
    step = rest[287:280] == 0 ? 32w8 : 0;
    zeros = zeros + step;
    rest = rest << (bit<8>) step;
    step = rest[287:284] == 0 ? 32w4 : 0;
    zeros = zeros + step;
    rest = rest << (bit<8>) step;
    step = rest[287:286] == 0 ? 32w2 : 0;
    zeros = zeros + step;
    rest = rest << (bit<8>) step;
    step = rest[287:287] == 0 ? 32w1 : 0;
    zeros = zeros + step;
    rest = rest << (bit<8>) step;

    /* 24 bits are kept; with fewer, the number of units is the float32. */
    bit<32> rounded = ((264 - zeros) << 23) + (bit<32>) rest[287:264];
    bit<32> behind = (bit<32>) rest[263:240];
    bool more = rest[239:0] != 0;
    bool up = behind > 0x800000 || (behind == 0x800000 && (more || (rounded & 1) == 1));
    rounded = rounded + (up ? 32w1 : 0);
    rounded = rounded > FLOAT32_INFINITY ? FLOAT32_INFINITY : rounded;
    rounded = zeros >= 264 ? (bit<32>) size : rounded;
    bit<32> zero = (special & EXACT_OTHER) == 0 ? FLOAT32_SIGN : 0;
    rounded = size == 0 ? zero : rounded | (negative ? FLOAT32_SIGN : 0);

    bit<32> infinities = special & (EXACT_INFINITY | EXACT_MINUS);
    bool is_nan = (special & EXACT_NAN) != 0 || infinities == (EXACT_INFINITY | EXACT_MINUS);
    rounded = infinities == EXACT_INFINITY ? FLOAT32_INFINITY : rounded;
    rounded = infinities == EXACT_MINUS ? FLOAT32_INFINITY | FLOAT32_SIGN : rounded;
    rounded = is_nan ? FLOAT32_NAN : rounded;
    return (special & EXACT_INTEGERS) != 0 ? (bit<32>) sum : rounded;
}

#endif
