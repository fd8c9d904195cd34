/* Addition of two float32 by integer operations: IEEE 754, rounded to nearest, a half to the even number.
 *
 * Subnormal numbers, infinities, and zeros with their signs are as the standard says. Any result that
 * is no number is 0x7fc00000, whatever the operands' payloads are (testbed/protocols/formats/float32.py
 * says the same for hosts).
 *
 * BMv2 can do this. Switch chips cannot: two shifts are by a distance that the packet's values say, the
 * carry of one addition decides the shift behind it, and both lie between the read and the write of a
 * register. docs/numbers.md compares what chips do instead (FPISA).
 *
 * The larger number is the one with the larger magnitude, so that the difference has its sign. Both
 * significands are shifted left by three bits: with what is shifted out behind them collected in the
 * last one (sticky), a sum is rounded as if it were exact.
 */
#ifndef FLOAT32_P4
#define FLOAT32_P4

const bit<32> FLOAT32_INFINITY = 0x7f800000;
const bit<32> FLOAT32_NAN = 0x7fc00000;
const bit<32> FLOAT32_SIGN = 0x80000000;

bit<32> add_float32(in bit<32> a, in bit<32> b) {
    bool a_is_larger = (a & ~FLOAT32_SIGN) >= (b & ~FLOAT32_SIGN);
    bit<32> larger = a_is_larger ? a : b;
    bit<32> smaller = a_is_larger ? b : a;
    bit<32> sign = larger & FLOAT32_SIGN;
    bool subtract = ((a ^ b) & FLOAT32_SIGN) != 0;

    /* A subnormal number has the smallest exponent, 1, and no leading bit. */
    bit<32> exponent = larger >> 23 & 0xff;
    bit<32> lower = smaller >> 23 & 0xff;
    bit<32> high = (larger & 0x7fffff | (exponent == 0 ? 32w0 : 0x800000)) << 3;
    bit<32> low = (smaller & 0x7fffff | (lower == 0 ? 32w0 : 0x800000)) << 3;
    bool is_finite = exponent != 255;
    exponent = exponent == 0 ? 1 : exponent;
    lower = lower == 0 ? 1 : lower;

    bit<32> distance = exponent - lower;
    distance = distance > 27 ? 27 : distance;
    bit<32> shifted = low >> (bit<8>) distance;
    bit<32> lost = shifted << (bit<8>) distance ^ low;
    low = shifted | (lost == 0 ? 32w0 : 1);
    bit<32> sum = (subtract ? high - low : high + low) << 4;     // bit 31: the carry

    /* Shift the leading bit to bit 31, but not below the smallest exponent. */
    bit<32> zeros = 0;
    bit<32> rest = sum;
    bit<32> step = rest >> 16 == 0 ? 32w16 : 0;
    zeros = zeros + step;
    rest = rest << (bit<8>) step;
    step = rest >> 24 == 0 ? 32w8 : 0;
    zeros = zeros + step;
    rest = rest << (bit<8>) step;
    step = rest >> 28 == 0 ? 32w4 : 0;
    zeros = zeros + step;
    rest = rest << (bit<8>) step;
    step = rest >> 30 == 0 ? 32w2 : 0;
    zeros = zeros + step;
    rest = rest << (bit<8>) step;
    step = rest >> 31 == 0 ? 32w1 : 0;
    zeros = zeros + step;
    zeros = zeros > exponent ? exponent : zeros;
    rest = sum << (bit<8>) zeros;

    /* The leading bit counts one more exponent, and so does a carry of the rounding. */
    bit<32> rounded = ((exponent - zeros) << 23) + (rest >> 8);
    bit<32> behind = rest & 0xff;
    bool up = behind > 0x80 || (behind == 0x80 && (rounded & 1) == 1);
    rounded = rounded + (up ? 32w1 : 0);
    rounded = rounded > FLOAT32_INFINITY ? FLOAT32_INFINITY : rounded;
    rounded = sum == 0 ? a & b & FLOAT32_SIGN : sign | rounded;

    bit<32> magnitude = larger & ~FLOAT32_SIGN;
    bool is_nan = magnitude > FLOAT32_INFINITY ||
                  (subtract && (smaller & ~FLOAT32_SIGN) == FLOAT32_INFINITY);
    bit<32> special = is_nan ? FLOAT32_NAN : larger;
    return is_finite ? rounded : special;
}

#endif
