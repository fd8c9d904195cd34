/* The values of a packet, and how to write something once for each of them.
 *
 * P4 has no arrays of fields. The values are fields v00, v01, ... (the position in hexadecimal), and
 * EACH_VALUE(M) repeats a macro M for each position:
 *
 *     #define CLEAR(n) hdr.values.v##n = 0;
 *     EACH_VALUE(CLEAR)
 */
#ifndef VALUES
#define VALUES 8
#endif

#define EACH_OF_8(M, h)  M(h##0) M(h##1) M(h##2) M(h##3) M(h##4) M(h##5) M(h##6) M(h##7)
#define EACH_OF_16(M, h) EACH_OF_8(M, h) M(h##8) M(h##9) M(h##a) M(h##b) \
                         M(h##c) M(h##d) M(h##e) M(h##f)

#if VALUES == 8
#define EACH_VALUE(M) EACH_OF_8(M, 0)
#elif VALUES == 64
#define EACH_VALUE(M) EACH_OF_16(M, 0) EACH_OF_16(M, 1) EACH_OF_16(M, 2) EACH_OF_16(M, 3)
#else
#error "VALUES is 8 or 64"
#endif
