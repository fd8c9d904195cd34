/* Memory that is used all over: on large pages from the size of one on, if the kernel has them (transparent huge
 * pages, `madvise` or `always`). On small ones nearly every access would miss the TLB. Without them all is as well,
 * but slower. */
#ifndef PAGES_H
#define PAGES_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE_PAGE (2u << 20)

/* Aligned to 64 bytes at least, not cleared; NULL if there is none. To be given to free(). */
static inline void *pages_alloc(size_t bytes) {
    if (bytes < LARGE_PAGE) return aligned_alloc(64, (bytes + 63) / 64 * 64);
    void *memory = aligned_alloc(LARGE_PAGE, (bytes + 63) / 64 * 64);
    if (memory) madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

/* The same, cleared: a large piece by the kernel, page by page as it comes into use. */
static inline void *pages_alloc_clear(size_t bytes) {
    const size_t page = 65536; /* a multiple of what is one anywhere */
    char *memory = pages_alloc(bytes);
    size_t whole = bytes < LARGE_PAGE ? 0 : bytes / page * page;
    if (!memory) return NULL;
    if (whole && madvise(memory, whole, MADV_DONTNEED)) whole = 0;
    memset(memory + whole, 0, bytes - whole);
    return memory;
}

#endif
