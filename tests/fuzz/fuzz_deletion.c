/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Deletion files of both kinds, told by their first byte; counting and searching in what parses. */
#include <stdint.h>
#include <stdlib.h>

#include "table/table_private.h"

#define REQUIRE(cond)         \
    do {                      \
        if (!(cond)) abort(); \
    } while (0)

static void use_vector(const struct deletion_vector *d)
{
    uint8_t bits[40];
    uint64_t count = deletion_vector_count(d), at = 0;
    REQUIRE(deletion_vector_rank(d, UINT64_C(1) << 33) == count);
    for (uint64_t i = 0; i < count && i < 300; i++) {
        at = deletion_vector_next(d, at);
        REQUIRE(at <= UINT32_MAX && deletion_vector_contains(d, (uint32_t)at) && deletion_vector_rank(d, at) == i);
        at++;
    }
    for (uint64_t k = 0; k < 2000; k = k * 2 + 1) {
        uint64_t row = deletion_vector_select_live(d, k);
        REQUIRE(row - deletion_vector_rank(d, row) == k);
        REQUIRE(row > UINT32_MAX || !deletion_vector_contains(d, (uint32_t)row));
    }
    uint64_t live = deletion_vector_live_bits(d, 3, 303, bits), seen = 0;
    for (uint64_t i = 0; i < 300; i++) seen += bit_get(bits, i);
    REQUIRE(live == seen && live == 300 - (deletion_vector_rank(d, 303) - deletion_vector_rank(d, 3)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    struct deletion_vector *d = NULL;
    size_t used;
    pennon_error_init(&err);
    struct mem *mem = mem_new(NULL, UINT64_C(64) << 20, NULL, &err);
    if (mem == NULL) return 0;
    struct bytes in = bytes_of(data, size);
    pennon_status st =
        size > 0 && data[0] == 'A' ? deletion_array_parse(mem, in, &d, &err) : deletion_bitmap_parse(mem, in, &d, &err);
    if (st == PENNON_OK) {
        use_vector(d);
        if (data[0] != 'A') REQUIRE(roaring_check(in, &used, &err) == PENNON_OK && used <= size);
    }
    deletion_vector_release(d);
    REQUIRE(mem_used(mem) == 0);
    mem_release(mem);
    pennon_error_clear(&err);
    return 0;
}
