/* The values of a packet, and how to write something once for each of them.
 *
 * P4 has no arrays of fields, so the values of a fragment are fields v00, v01, ... v3f (the
 * position in hexadecimal, beyond 256 values with three digits), and EACH_VALUE(M) repeats a macro M for each position:
 *
 *     #define CLEAR(n) hdr.values.v##n = 0;
 *     EACH_VALUE(CLEAR)
 *
 * VALUES, a power of two from 1 to 2048, is chosen when the program is compiled, and so is VALUE_BITS:
 * 32, or 16 where values that fit travel in 16 bits (short_values.p4).
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
#define EACH_OF_32(M, h)   EACH_OF_16(M, h##0) EACH_OF_16(M, h##1)
#define EACH_OF_64(M, h)   EACH_OF_32(M, h) EACH_OF_16(M, h##2) EACH_OF_16(M, h##3)
#define EACH_OF_128(M, h)  EACH_OF_64(M, h) EACH_OF_16(M, h##4) EACH_OF_16(M, h##5) \
                           EACH_OF_16(M, h##6) EACH_OF_16(M, h##7)
#define EACH_OF_256(M, h)  EACH_OF_128(M, h) EACH_OF_16(M, h##8) EACH_OF_16(M, h##9) \
                           EACH_OF_16(M, h##a) EACH_OF_16(M, h##b) EACH_OF_16(M, h##c) \
                           EACH_OF_16(M, h##d) EACH_OF_16(M, h##e) EACH_OF_16(M, h##f)
#define EACH_OF_512(M)     EACH_OF_256(M, 0) EACH_OF_256(M, 1)
#define EACH_OF_1024(M)    EACH_OF_512(M) EACH_OF_256(M, 2) EACH_OF_256(M, 3)
#define EACH_OF_2048(M)    EACH_OF_1024(M) EACH_OF_256(M, 4) EACH_OF_256(M, 5) \
                           EACH_OF_256(M, 6) EACH_OF_256(M, 7)

#if VALUES == 1
#define EACH_VALUE(M) M(00)
#elif VALUES == 2
#define EACH_VALUE(M) EACH_OF_2(M, 0)
#elif VALUES == 4
#define EACH_VALUE(M) EACH_OF_4(M, 0)
#elif VALUES == 8
#define EACH_VALUE(M) EACH_OF_8(M, 0)
#elif VALUES == 16
#define EACH_VALUE(M) EACH_OF_16(M, 0)
#elif VALUES == 32
#define EACH_VALUE(M) EACH_OF_32(M, )
#elif VALUES == 64
#define EACH_VALUE(M) EACH_OF_64(M, )
#elif VALUES == 128
#define EACH_VALUE(M) EACH_OF_128(M, )
#elif VALUES == 256
#define EACH_VALUE(M) EACH_OF_256(M, )
#elif VALUES == 512
#define EACH_VALUE(M) EACH_OF_512(M)
#elif VALUES == 1024
#define EACH_VALUE(M) EACH_OF_1024(M)
#elif VALUES == 2048
#define EACH_VALUE(M) EACH_OF_2048(M)
#else
#error "VALUES must be a power of two from 1 to 2048"
#endif

#endif
