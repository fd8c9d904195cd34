/* mx8: blocks of 32 values of 8 bits with a scale in E8M0 (OCP Microscaling Formats 1.0, MXINT8).
 *
 * A value is m * 2^(scale - 133), m from -127 to 127. The scale of a block is the exponent field of the
 * largest float32 in it; 255 is that of a block with a number that is infinite or none, which stays as it
 * is (testbed/protocols/formats/mx8.py says the same for hosts). Values have this form in packets alone
 * (short_values.p4): an aggregator has exact sums, which float32_exact.p4 adds.
 *
 * BMv2 can do this; switch chips cannot, for the exact sums and for shifts by a distance in the packet.
 */
#ifndef MX8_P4
#define MX8_P4

const bit<32> MX8_SIGN = 0x80000000;
const bit<32> MX8_NONE = 255;
const bit<32> MX8_LARGEST_SCALE = 254;

bit<32> mx8_larger(in bit<32> scale, in bit<32> number) {
    bit<32> exponent = number >> 23 & 0xff;
    return exponent > scale ? exponent : scale;
}

bit<32> mx8_significand(in bit<32> number) {
    return number & 0x7fffff | ((number >> 23 & 0xff) == 0 ? 32w0 : 0x800000);
}

/* By how many bits a significand is shifted right to become m. */
bit<8> mx8_shift(in bit<32> number, in bit<32> scale) {
    bit<32> exponent = number >> 23 & 0xff;
    bit<32> shift = 17 + scale - (exponent == 0 ? 32w1 : exponent);
    return shift > 31 ? 8w31 : (bit<8>) shift;
}

bit<8> mx8_steps(in bit<32> number, in bit<32> scale) {
    bit<32> size = mx8_significand(number);
    bit<8> shift = mx8_shift(number, scale);
    bit<8> m = (bit<8>) (size >> shift);
    return (number & MX8_SIGN) == 0 ? m : -m;
}

/* 0: the number is one of its block with this scale. */
bit<32> mx8_rest(in bit<32> number, in bit<32> scale) {
    bit<32> size = mx8_significand(number);
    bit<8> shift = mx8_shift(number, scale);
    bit<32> rest = size ^ (size >> shift << shift);
    return scale == MX8_NONE || number == MX8_SIGN ? 32w1 : rest;
}

bit<32> mx8_number(in bit<8> steps, in bit<32> scale) {
    bit<8> m = steps[7:7] == 0 ? steps : -steps;
    bit<32> size = (bit<32>) m;

    /* Shift the leading bit of m to bit 7, but not below the smallest exponent. */
    bit<32> zeros = 0;
    bit<32> rest = size;
    bit<32> step = rest >> 4 == 0 ? 32w4 : 0;
    zeros = zeros + step;
    rest = rest << (bit<8>) step;
    step = rest >> 6 == 0 ? 32w2 : 0;
    zeros = zeros + step;
    rest = rest << (bit<8>) step;
    step = rest >> 7 == 0 ? 32w1 : 0;
    zeros = zeros + step;
    bit<32> exponent = scale == 0 ? 32w1 : scale + 1;    // of a leading bit 7
    zeros = scale == 0 ? 32w0 : zeros;
    zeros = zeros >= exponent ? exponent - 1 : zeros;
    bit<32> number = ((exponent - zeros - 1) << 23) + (size << 16 << (bit<8>) zeros);
    number = size == 0 ? 32w0 : number | (steps[7:7] == 0 ? 32w0 : MX8_SIGN);
    return scale == MX8_NONE ? 32w0x7fc00000 : number;
}

/* 1: the number is 128 steps when it is rounded. */
bit<32> mx8_rounds_up(in bit<32> number, in bit<32> scale) {
    bit<32> size = mx8_significand(number);
    bit<8> shift = mx8_shift(number, scale);
    return scale < MX8_LARGEST_SCALE && shift < 18 && size << 1 >= 32w255 << shift ? 32w1 : 0;
}

/* Rounded to the nearest of its block with this scale, a half to the even one. */
bit<32> mx8_rounded(in bit<32> number, in bit<32> scale) {
    bit<32> size = mx8_significand(number);
    bit<8> shift = mx8_shift(number, scale);
    bit<32> below_half = (32w1 << shift - 1) - 1;
    bit<32> m = size + below_half + (size >> shift & 1) >> shift;
    m = m > 127 ? 127 : m;
    bit<8> steps = (bit<8>) m;
    bit<32> rounded = mx8_number((number & MX8_SIGN) == 0 ? steps : -steps, scale);
    return scale == MX8_NONE ? number : rounded;
}

#endif
