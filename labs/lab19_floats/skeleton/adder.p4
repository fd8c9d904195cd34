/* Lab 19: arithmetic of bf16 numbers. Codes are in the lower half of 32 bits. */
#include "bf16.p4"

const bit<32> SIGN     = 0x8000;
const bit<32> INFINITY = 0x7f80;
const bit<32> NAN      = 0x7fc0;

/* Rounds a number of units, of which each is 2^(unit - 134), to the nearest bf16, and to the even one
 * of two that are equally near. */
control Rounder(in bit<32> sign, in bit<32> size, in int<32> unit, out bit<32> code) {
    apply {
        code = size | sign;              // TODO (task 1): NORMALISE of bf16.p4 helps
    }
}

/* sum = sum + x, as IEEE 754 says. */
control Adder(inout bit<32> sum, in bit<32> x) {
    apply {
        sum = sum + x;                   // TODO (task 1): adds codes, not numbers
    }
}
