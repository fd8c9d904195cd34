/* Lab 19: arithmetic of bf16 numbers. Codes are in the lower half of 32 bits. */
#include "bf16.p4"

const bit<32> SIGN     = 0x8000;
const bit<32> INFINITY = 0x7f80;
const bit<32> NAN      = 0x7fc0;

/* Rounds a number of units, of which each is 2^(unit - 134), to the nearest bf16, and to the even one
 * of two that are equally near. A code without its sign is also a number: the next larger one is the
 * next code, and what is behind the largest is infinity. */
control Rounder(in bit<32> sign, in bit<32> size, in int<32> unit, out bit<32> code) {
    apply {
        code = sign;
        if (size != 0) {
            bit<32> zeros;
            bit<32> high = size;
            NORMALISE(high, zeros)
            int<32> exponent = unit + 24 - (int<32>) zeros;
            if (exponent < 1) {          // subnormal: no bit is lost
                high = high >> (bit<8>) (bit<32>) (1 - exponent);
                exponent = 1;
            }
            bit<32> rest = high & 0xffffff;
            bit<32> near = ((bit<32>) (exponent - 1) << 7) + (high >> 24);
            if (rest > 0x800000 || (rest == 0x800000 && near[0:0] == 1)) {
                near = near + 1;
            }
            if (near > INFINITY) {
                near = INFINITY;
            }
            code = near | sign;
        }
    }
}

/* sum = sum + x, as IEEE 754 says. */
control Adder(inout bit<32> sum, in bit<32> x) {
    Rounder() rounder;

    apply {
        /* a is the larger one without signs, so the sum has its sign. */
        bit<32> a = sum & 0xffff;
        bit<32> b = x & 0xffff;
        if ((a & ~SIGN) < (b & ~SIGN)) {
            bit<32> other = a;
            a = b;
            b = other;
        }
        bit<32> large = a & ~SIGN;
        bit<32> sign = a & SIGN;
        if (large > INFINITY || (large == INFINITY && b == (a ^ SIGN))) {
            sum = NAN;
        } else if (large == INFINITY) {
            sum = a;
        } else {
            bit<32> exponent = (bit<32>) a[14:7];
            bit<32> lower = (bit<32>) b[14:7];
            bit<32> size = a & 0x7f;
            bit<32> low = b & 0x7f;
            if (exponent == 0) { exponent = 1; } else { size = size | 0x80; }
            if (lower == 0) { lower = 1; } else { low = low | 0x80; }
            /* With 20 bits behind the larger one, nothing that counts is lost. */
            size = size << 20;
            low = (low << 20) >> (bit<8>) (exponent - lower);
            if (((a ^ b) & SIGN) == 0) {
                size = size + low;
            } else {
                size = size - low;
            }
            if (size == 0) {
                sign = a & b & SIGN;
            }
            rounder.apply(sign, size, (int<32>) exponent - 20, sum);
        }
    }
}
