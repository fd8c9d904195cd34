/* FPISA, floating-point sums of today's switch chips: an exponent and a mantissa in two registers.
 *
 * An arriving float32 is split. Its mantissa alone is shifted: to the right if its exponent is the smaller
 * one, and to the left by the seven spare bits of the register at most. With a larger exponent than that,
 * the arriving number overwrites the sum, which is an error, as is a sum that leaves 32 bits, which stays
 * at the largest. Both are counted (fpisa_memory.p4). A sum is normalised when it is read, and cut to 24
 * bits. testbed/protocols/formats/fpisa.py says the same for hosts, and what of it is published.
 *
 * Chips shift by a distance in the packet with tables of all distances. BMv2 does it with a shift. A sum of int32
 * (INTEGERS in adder.p4) is in the second register, and has the exponent 0, which no number has.
 */
#ifndef FPISA_P4
#define FPISA_P4

const bit<32> FPISA_SPARE = 7;
const bit<32> FPISA_SIGN = 0x80000000;
const bit<32> FPISA_LARGEST = 0x7fffffff;
const bit<32> FPISA_INFINITY = 0x7f800000;
const bit<32> FPISA_INTEGERS = 0;        // in place of an exponent

bit<32> fpisa_exponent(in bit<32> number) {
    bit<32> exponent = number >> 23 & 0xff;
    return exponent == 0 ? 1 : exponent;
}

/* With its sign. */
bit<32> fpisa_mantissa(in bit<32> number) {
    bit<32> size = number & 0x7fffff | ((number >> 23 & 0xff) == 0 ? 32w0 : 0x800000);
    return (number & FPISA_SIGN) == 0 ? size : -size;
}

/* The same of a word that is a float32, or else an int32. */
bit<32> fpisa_exponent_of_any(in bit<32> word, in bool is_integer) {
    bit<32> exponent = fpisa_exponent(word);
    return is_integer ? FPISA_INTEGERS : exponent;
}

bit<32> fpisa_mantissa_of_any(in bit<32> word, in bool is_integer) {
    bit<32> mantissa = fpisa_mantissa(word);
    return is_integer ? word : mantissa;
}

/* Whether a number with this exponent overwrites a sum. */
bool fpisa_overwrites(in bit<32> exponent, in bit<32> own) {
    return own > exponent + FPISA_SPARE;
}

/* The arriving mantissa as the register with this exponent has it. */
bit<32> fpisa_shifted(in bit<32> exponent, in bit<32> own, in bit<32> mantissa) {
    bit<32> up = own > exponent ? own - exponent : 0;
    bit<32> down = own < exponent ? exponent - own : 0;
    up = up > FPISA_SPARE ? FPISA_SPARE : up;
    down = down > 31 ? 31 : down;
    bit<32> right = (bit<32>) ((int<32>) mantissa >> (bit<8>) down);
    return right << (bit<8>) up;
}

/* Add a number to the two registers of a sum; 1 if the sum is wrong. */
bit<32> add_fpisa(inout bit<32> exponent, inout bit<32> mantissa, in bit<32> number) {
    bool whole = exponent == FPISA_INTEGERS;
    bit<32> own = fpisa_exponent(number);
    bit<32> arriving = fpisa_mantissa(number);
    bit<32> integer = mantissa + number;
    bool overwrites = !whole && fpisa_overwrites(exponent, own);
    bit<32> shifted = fpisa_shifted(exponent, own, arriving);
    bit<32> sum = mantissa + shifted;
    bool leaves = ((mantissa ^ sum) & (shifted ^ sum) & FPISA_SIGN) != 0 || sum == FPISA_SIGN;
    bit<32> edge = (shifted & FPISA_SIGN) == 0 ? FPISA_LARGEST : -FPISA_LARGEST;
    bool wrong = overwrites ? mantissa != 0 : leaves;
    sum = leaves ? edge : sum;
    mantissa = overwrites ? arriving : sum;
    mantissa = whole ? integer : mantissa;
    exponent = overwrites ? own : exponent;
    return wrong && !whole ? 32w1 : 0;
}

bit<32> read_fpisa(in bit<32> exponent, in bit<32> mantissa) {
    bit<32> sign = mantissa & FPISA_SIGN;
    bit<32> size = sign == 0 ? mantissa : -mantissa;

    /* Shift the leading bit to bit 31, but not below the smallest exponent. */
    bit<32> zeros = 0;
    bit<32> rest = size;
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
    zeros = zeros > exponent + 7 ? exponent + 7 : zeros;
    rest = size << (bit<8>) zeros;

    bit<32> number = ((exponent + 7 - zeros) << 23) + (rest >> 8);
    number = number > FPISA_INFINITY ? FPISA_INFINITY : number;
    number = size == 0 ? 32w0 : sign | number;
    return exponent == FPISA_INTEGERS ? mantissa : number;
}

/* The sum of two numbers. */
bit<32> add_two_fpisa(in bit<32> a, in bit<32> b) {
    bit<32> exponent = fpisa_exponent(a);
    bit<32> mantissa = fpisa_mantissa(a);
    bit<32> wrong = add_fpisa(exponent, mantissa, b);
    return read_fpisa(exponent, mantissa);
}

#endif
