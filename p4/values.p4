/* The values of a packet, and how to write something once for each of them.
 *
 * P4 has no arrays of fields, so the values of a fragment are fields v00, v01, ... v3f (the
 * position in hexadecimal, beyond 256 values with three digits), and EACH_VALUE(M) repeats a macro M for each position:
 *
 *     #define CLEAR(n) hdr.values.v##n = 0;
 *     EACH_VALUE(CLEAR)
 *
 * EACH_PAIR(M) repeats M(n, m) for each position n that is even and the one behind it; 4 values or more.
 *
 * VALUES, a power of two from 1 to 2048, is chosen when the program is compiled, and so is VALUE_BITS:
 * 32, or 16 or 8 where values that fit travel in so many bits (short_values.p4).
 */
#ifndef VALUES_P4
#define VALUES_P4

#ifndef VALUES
#define VALUES 64
#endif

#ifndef VALUE_BITS
#define VALUE_BITS 32
#endif

#define EACH_OF_2(M, h)    M(h##0) M(h##1)
#define EACH_OF_4(M, h)    EACH_OF_2(M, h) M(h##2) M(h##3)
#define EACH_OF_8(M, h)    EACH_OF_4(M, h) M(h##4) M(h##5) M(h##6) M(h##7)
#define EACH_OF_16(M, h)   EACH_OF_8(M, h) M(h##8) M(h##9) M(h##a) M(h##b) \
                           M(h##c) M(h##d) M(h##e) M(h##f)
#define PAIRS_OF_4(M, h)   M(h##0, h##1) M(h##2, h##3)
#define PAIRS_OF_8(M, h)   PAIRS_OF_4(M, h) M(h##4, h##5) M(h##6, h##7)
#define PAIRS_OF_16(M, h)  PAIRS_OF_8(M, h) M(h##8, h##9) M(h##a, h##b) M(h##c, h##d) M(h##e, h##f)

/* B is given two rows of 16 positions each, and R and M. */
#define BLOCKS_OF_32(B, R, M, h)   B(R, M, h##0, h##1)
#define BLOCKS_OF_64(B, R, M, h)   BLOCKS_OF_32(B, R, M, h) B(R, M, h##2, h##3)
#define BLOCKS_OF_128(B, R, M, h)  BLOCKS_OF_64(B, R, M, h) B(R, M, h##4, h##5) B(R, M, h##6, h##7)
#define BLOCKS_OF_256(B, R, M, h)  BLOCKS_OF_128(B, R, M, h) B(R, M, h##8, h##9) \
                                   B(R, M, h##a, h##b) B(R, M, h##c, h##d) B(R, M, h##e, h##f)
#define BLOCKS_OF_512(B, R, M)     BLOCKS_OF_256(B, R, M, 0) BLOCKS_OF_256(B, R, M, 1)
#define BLOCKS_OF_1024(B, R, M)    BLOCKS_OF_512(B, R, M) BLOCKS_OF_256(B, R, M, 2) \
                                   BLOCKS_OF_256(B, R, M, 3)
#define BLOCKS_OF_2048(B, R, M)    BLOCKS_OF_1024(B, R, M) BLOCKS_OF_256(B, R, M, 4) \
                                   BLOCKS_OF_256(B, R, M, 5) BLOCKS_OF_256(B, R, M, 6) \
                                   BLOCKS_OF_256(B, R, M, 7)

#if VALUES == 1
#define EACH_VALUE(M) M(00)
#elif VALUES == 2
#define EACH_VALUE(M) EACH_OF_2(M, 0)
#elif VALUES == 4
#define EACH_VALUE(M) EACH_OF_4(M, 0)
#define EACH_PAIR(M) PAIRS_OF_4(M, 0)
#elif VALUES == 8
#define EACH_VALUE(M) EACH_OF_8(M, 0)
#define EACH_PAIR(M) PAIRS_OF_8(M, 0)
#elif VALUES == 16
#define EACH_VALUE(M) EACH_OF_16(M, 0)
#define EACH_PAIR(M) PAIRS_OF_16(M, 0)
#elif VALUES == 32
#define EACH_TWO_ROWS(B, R, M) BLOCKS_OF_32(B, R, M, )
#elif VALUES == 64
#define EACH_TWO_ROWS(B, R, M) BLOCKS_OF_64(B, R, M, )
#elif VALUES == 128
#define EACH_TWO_ROWS(B, R, M) BLOCKS_OF_128(B, R, M, )
#elif VALUES == 256
#define EACH_TWO_ROWS(B, R, M) BLOCKS_OF_256(B, R, M, )
#elif VALUES == 512
#define EACH_TWO_ROWS(B, R, M) BLOCKS_OF_512(B, R, M)
#elif VALUES == 1024
#define EACH_TWO_ROWS(B, R, M) BLOCKS_OF_1024(B, R, M)
#elif VALUES == 2048
#define EACH_TWO_ROWS(B, R, M) BLOCKS_OF_2048(B, R, M)
#else
#error "VALUES must be a power of two from 1 to 2048"
#endif

#ifdef EACH_TWO_ROWS
#define TWO_ROWS(R, M, a, b) R(M, a) R(M, b)
#define EACH_VALUE(M) EACH_TWO_ROWS(TWO_ROWS, EACH_OF_16, M)
#define EACH_PAIR(M)  EACH_TWO_ROWS(TWO_ROWS, PAIRS_OF_16, M)
/* B(a, b) for each block of 32, whose positions EACH_IN_BLOCK(M, a, b) repeats M for. */
#define ONE_BLOCK(B, M, a, b) B(a, b)
#define EACH_BLOCK(B) EACH_TWO_ROWS(ONE_BLOCK, B, )
#define EACH_IN_BLOCK(M, a, b) EACH_OF_16(M, a) EACH_OF_16(M, b)
#endif

#endif
