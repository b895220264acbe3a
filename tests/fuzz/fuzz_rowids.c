/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Row id sequences and row versions: parsed, read at random places, written again in the chosen form. */
#include <stdint.h>
#include <stdlib.h>

#include "table/table_private.h"

#define REQUIRE(cond)         \
    do {                      \
        if (!(cond)) abort(); \
    } while (0)

#define SOME 512u

static void use_sequence(struct mem *m, const struct row_id_sequence *r, pennon_error *err)
{
    static uint64_t all[SOME], part[SOME];
    uint64_t length = row_id_sequence_length(r), n = min_u64(length, SOME);
    struct row_id_sequence *again = NULL;
    struct buf out;
    row_id_sequence_get(r, 0, n, all);
    for (uint64_t start = 0; start < n; start += 1 + n / 13) {
        row_id_sequence_get(r, start, n - start, part);
        REQUIRE(memcmp(part, all + start, (n - start) * sizeof *part) == 0);
    }
    if (length > n) row_id_sequence_get(r, length - n, n, part);
    buf_init(&out, m, BUF_NO_LIMIT);
    if (row_id_sequence_encode(m, all, n, &out, err) == PENNON_OK) {
        REQUIRE(row_id_sequence_parse(m, bytes_of(out.data, out.size), n, &again, err) == PENNON_OK);
        row_id_sequence_get(again, 0, n, part);
        REQUIRE(memcmp(part, all, n * sizeof *part) == 0);
        row_id_sequence_free(again);
    }
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    struct row_id_sequence *r = NULL;
    struct version_sequence *v = NULL;
    uint64_t versions[64];
    pennon_error_init(&err);
    struct mem *mem = mem_new(NULL, UINT64_C(64) << 20, NULL, &err);
    if (mem == NULL) return 0;
    struct bytes in = bytes_of(data, size);
    if (row_id_sequence_parse(mem, in, UINT64_MAX, &r, &err) == PENNON_OK) {
        use_sequence(mem, r, &err);
        row_id_sequence_free(r);
    }
    if (version_sequence_parse(mem, in, &v, &err) == PENNON_OK) {
        for (uint64_t start = 0; start < 5000; start = start * 2 + 1) {
            if (version_sequence_get(v, start, 64, versions, &err) != PENNON_OK) REQUIRE(err.code == PENNON_CORRUPT);
        }
        version_sequence_free(v);
    }
    REQUIRE(mem_used(mem) == 0);
    mem_release(mem);
    pennon_error_clear(&err);
    return 0;
}
