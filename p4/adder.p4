/* The addition of two values, of the format that the switch is compiled for.
 *
 * Compile-time parameter: ADDER, one of the numbers below (testbed/number_formats.py). With the adder
 * INT32, value_memory.p4 adds by itself and watches for overflow; the other adders have a file each, of
 * their own name, with a function of two words. Floats of 16 bits (VALUE_BITS) are the upper halves of
 * words. PACKED: two sums of int8 share a word. INTEGERS: packets with the flag of this name have int32,
 * which are added as such, whatever the format is: what programs agree on, gather, and count.
 */
#ifndef ADDER_P4
#define ADDER_P4

#define ADDER_INT32    0
#define ADDER_FLOAT32  1
#define ADDER_BFLOAT16 2
#define ADDER_FLOAT32_EXACT 3
#define ADDER_FPISA 4

#ifndef ADDER
#define ADDER ADDER_INT32
#endif

#if ADDER == ADDER_FLOAT32
#include "float32.p4"
#if VALUE_BITS < 32
#include "bfloat16.p4"
#endif
#define ADD(a, b) add_float32(a, b)
#elif ADDER == ADDER_BFLOAT16
#include "bfloat16.p4"
#define ADD(a, b) add_bfloat16(a, b)
#elif ADDER == ADDER_FLOAT32_EXACT
#include "float32_exact.p4"              // of sums, which exact_memory.p4 keeps
#if VALUE_BITS == 8
#define MX8                              // blocks of short values have scales
#include "mx8.p4"
#endif
#define ADD(a, b) round_exact(exact_of(a) + exact_of(b), special_of(a) | special_of(b))
#elif ADDER == ADDER_FPISA
#include "fpisa.p4"                      // of sums, which fpisa_memory.p4 keeps
#define ADD(a, b) add_two_fpisa(a, b)
#elif defined(PACKED)
#include "int8.p4"                       // for packed_memory.p4
#elif ADDER != ADDER_INT32
#error "ADDER must be one of the numbers in adder.p4"
#endif

#ifdef INTEGERS
#define IS_INTEGERS ((hdr.ina.flags & FLAG_INTEGERS) != 0)
#else
#define IS_INTEGERS false
#endif

#endif
