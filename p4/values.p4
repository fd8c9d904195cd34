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

/* R is EACH_OF_16 or PAIRS_OF_16, which a row of 16 positions is given to. */
#define ROWS_OF_32(R, M, h)   R(M, h##0) R(M, h##1)
#define ROWS_OF_64(R, M, h)   ROWS_OF_32(R, M, h) R(M, h##2) R(M, h##3)
#define ROWS_OF_128(R, M, h)  ROWS_OF_64(R, M, h) R(M, h##4) R(M, h##5) R(M, h##6) R(M, h##7)
#define ROWS_OF_256(R, M, h)  ROWS_OF_128(R, M, h) R(M, h##8) R(M, h##9) R(M, h##a) R(M, h##b) \
                              R(M, h##c) R(M, h##d) R(M, h##e) R(M, h##f)
#define ROWS_OF_512(R, M)     ROWS_OF_256(R, M, 0) ROWS_OF_256(R, M, 1)
#define ROWS_OF_1024(R, M)    ROWS_OF_512(R, M) ROWS_OF_256(R, M, 2) ROWS_OF_256(R, M, 3)
#define ROWS_OF_2048(R, M)    ROWS_OF_1024(R, M) ROWS_OF_256(R, M, 4) ROWS_OF_256(R, M, 5) \
                              ROWS_OF_256(R, M, 6) ROWS_OF_256(R, M, 7)

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
#define EACH_ROW(R, M) R(M, 0)
#elif VALUES == 32
#define EACH_ROW(R, M) ROWS_OF_32(R, M, )
#elif VALUES == 64
#define EACH_ROW(R, M) ROWS_OF_64(R, M, )
#elif VALUES == 128
#define EACH_ROW(R, M) ROWS_OF_128(R, M, )
#elif VALUES == 256
#define EACH_ROW(R, M) ROWS_OF_256(R, M, )
#elif VALUES == 512
#define EACH_ROW(R, M) ROWS_OF_512(R, M)
#elif VALUES == 1024
#define EACH_ROW(R, M) ROWS_OF_1024(R, M)
#elif VALUES == 2048
#define EACH_ROW(R, M) ROWS_OF_2048(R, M)
#else
#error "VALUES must be a power of two from 1 to 2048"
#endif

#ifdef EACH_ROW
#define EACH_VALUE(M) EACH_ROW(EACH_OF_16, M)
#define EACH_PAIR(M)  EACH_ROW(PAIRS_OF_16, M)
#endif

#endif
