/* Two sums of int8 in one word of a register.
 *
 * A word is 2^16 * first + second, modulo 2^32, both with their signs. One addition of words adds both
 * sums: what the second borrows from the first, or carries into it, is in the word, and is given back
 * when the two are taken apart. So a word is exact as long as each sum is an int16. That of W workers'
 * numbers of 8 bits, -127 to 127, is one with up to 258 workers; experiments with more are refused
 * (testbed/experiment/number_checks.py), and those with programs, whose own int32 need whole words, are
 * compiled without PACKED. Then sums of int8 are int32.
 *
 * A chip needs half the registers and half the additions for it. packed_memory.p4 keeps the words.
 */
#ifndef INT8_P4
#define INT8_P4

bit<32> pack_int8(in bit<32> first, in bit<32> second) {
    return (first << 16) + second;
}

bit<32> second_int8(in bit<32> word) {
    return (bit<32>) (int<32>) (int<16>) word[15:0];
}

/* `second` is what second_int8 has taken from the word. */
bit<32> first_int8(in bit<32> word, in bit<32> second) {
    return (bit<32>) ((int<32>) (word - second) >> 16);
}

#endif
