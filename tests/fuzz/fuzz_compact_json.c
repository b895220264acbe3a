/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The texts of compactions: the first byte says which. What is taken is written again, and that is taken too and gives the same text. */
#include <stdint.h>
#include <stdlib.h>

#include "dataset/compact.h"

#define REQUIRE(cond)         \
    do {                      \
        if (!(cond)) abort(); \
    } while (0)

/* False when it is refused. */
static bool renew(unsigned kind, struct bytes in, struct arena *a, struct buf *out, pennon_error *err)
{
    struct compact_plan plan;
    struct compact_result result;
    if (kind == 0)
        return compact_plan_from_json(in, a, &plan, err) == PENNON_OK && compact_plan_to_json(&plan, out, err) == PENNON_OK;
    if (kind == 1)
        return compact_task_from_json(in, a, &plan, err) == PENNON_OK && compact_task_to_json(&plan, 0, out, err) == PENNON_OK;
    return compact_result_from_json(in, a, &result, err) == PENNON_OK && compact_result_to_json(&result, out, err) == PENNON_OK;
}

/* Where the rows of a result went is asked for as well. */
static void use_result(struct mem *m, struct bytes in, struct arena *a, pennon_error *err)
{
    struct compact_result result;
    struct row_moves *moves = NULL;
    if (compact_result_from_json(in, a, &result, err) != PENNON_OK) return;
    if (row_moves_new(m, &result, 1, &moves, err) != PENNON_OK) return;
    for (uint64_t i = 0; i < 1000; i++) (void)row_moves_find(moves, i << 30 | i);
    row_moves_free(moves);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    struct arena a;
    struct buf first, second;
    if (size == 0) return 0;
    pennon_error_init(&err);
    struct mem *mem = mem_new(NULL, UINT64_C(256) << 20, NULL, &err);
    if (mem == NULL) return 0;
    const unsigned kind = data[0] % 3;
    const struct bytes in = bytes_of(data + 1, size - 1);
    arena_init(&a, mem);
    buf_init(&first, mem, BUF_NO_LIMIT);
    buf_init(&second, mem, BUF_NO_LIMIT);
    if (renew(kind, in, &a, &first, &err)) {
        REQUIRE(renew(kind, bytes_of(first.data, first.size), &a, &second, &err));
        REQUIRE(bytes_equal(bytes_of(first.data, first.size), bytes_of(second.data, second.size)));
    }
    pennon_error_clear(&err);
    if (kind == 2) use_result(mem, in, &a, &err);
    arena_reset(&a);
    buf_free(&first);
    buf_free(&second);
    REQUIRE(mem_used(mem) == 0);
    mem_release(mem);
    pennon_error_clear(&err);
    return 0;
}
