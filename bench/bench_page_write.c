/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Speed of the page writer: Arrow bytes a second for one column each, and the size of the pages. Inputs are fixed. An argument
 * keeps the columns whose name contains it. */
#include <stdio.h>
#include <stdlib.h>

#include "encoding/page_write.h"

#define ROWS ((size_t)1 << 20)
#define MIN_NS INT64_C(400000000)

struct bench {
    struct mem *mem;
    const char *filter; /* or NULL */
    pennon_error err;
    uint8_t *values, *validity;
    int32_t *offsets;
    struct ArrowArray leaf, top, *children[1];
    const void *leaf_buffers[3], *top_buffers[2];
};

static uint64_t noise(uint64_t x)
{
    x = (x + 1) * UINT64_C(0x9E3779B97F4A7C15);
    return (x ^ x >> 29) * UINT64_C(0xBF58476D1CE4E5B9) >> 7;
}

static void measure(struct bench *b, const char *name, const struct leaf_type *type, bool list, int64_t rows, int64_t items,
                    size_t bytes, uint32_t version)
{
    static const struct layer_spec specs[] = {{.role = ROLE_ITEM}, {.role = ROLE_LIST}};
    const struct leaf_column column = {type, specs, list ? 2 : 1, NULL};
    const struct ArrowArray *arrays[2] = {&b->leaf, &b->top};
    struct page_options options;
    size_t size = 0, runs = 0;
    if (b->filter && !strstr(name, b->filter)) return;
    page_options_init(&options);
    b->leaf.n_buffers = type->kind == LEAF_VARIABLE ? 3 : 2;
    b->leaf.length = items;
    b->leaf.buffers = b->leaf_buffers;
    b->leaf.null_count = b->leaf_buffers[0] ? -1 : 0;
    b->top =
        (struct ArrowArray){.length = rows, .n_buffers = 2, .n_children = 1, .buffers = b->top_buffers, .children = b->children};
    b->children[0] = &b->leaf;
    const struct ArrowArray *fsl[] = {&b->top};
    const struct column_batch batch = {type->n_dims > 0 ? fsl : arrays, 0, (uint64_t)rows};
    if (type->n_dims > 0) b->top.n_buffers = 1;
    const int64_t start = clock_monotonic_ns();
    int64_t now = start;
    while (now - start < MIN_NS) {
        struct page_set pages;
        if (column_pages_write(b->mem, &column, &options, version, &batch, 1, &pages, &b->err) != PENNON_OK) {
            fprintf(stderr, "%s\n", b->err.message);
            exit(1);
        }
        size = 0;
        for (size_t p = 0; p < pages.n; p++) {
            for (uint32_t i = 0; i < pages.pages[p].n_buffers; i++) size += pages.pages[p].buffers[i].size;
        }
        page_set_free(&pages);
        runs++;
        now = clock_monotonic_ns();
    }
    printf("%u.%u %-24s %7.2f GB/s   to %.3f of the size\n", version >> 16, version & 0xFFFF, name,
           (double)runs * (double)bytes / (double)(now - start), (double)size / (double)bytes);
}

static void bench_fixed(struct bench *b, uint32_t version)
{
    static const struct leaf_type i64 = {.kind = LEAF_FIXED, .width = 8}, i32 = {.kind = LEAF_FIXED, .width = 4};
    uint64_t *wide = (uint64_t *)(void *)b->values;
    uint32_t *narrow = (uint32_t *)(void *)b->values;
    b->leaf_buffers[0] = NULL;
    b->leaf_buffers[1] = b->values;
    for (size_t i = 0; i < ROWS; i++) wide[i] = i;
    measure(b, "64 bits, counting", &i64, false, ROWS, ROWS, ROWS * 8, version);
    for (size_t i = 0; i < ROWS; i++) wide[i] = noise(i) << 7;
    measure(b, "64 bits, noise", &i64, false, ROWS, ROWS, ROWS * 8, version);
    for (size_t i = 0; i < ROWS; i++) wide[i] = noise(i / 20);
    measure(b, "64 bits, runs", &i64, false, ROWS, ROWS, ROWS * 8, version);
    for (size_t i = 0; i < ROWS; i++) narrow[i] = (uint32_t)(noise(i) % 1000);
    measure(b, "32 bits, small", &i32, false, ROWS, ROWS, ROWS * 4, version);
    b->leaf_buffers[0] = b->validity;
    measure(b, "32 bits, small, nulls", &i32, false, ROWS, ROWS, ROWS * 4, version);
    b->leaf_buffers[0] = NULL;
}

static void bench_lists(struct bench *b, uint32_t version)
{
    static const struct leaf_type i32 = {.kind = LEAF_FIXED, .width = 4};
    int32_t at = 0;
    for (size_t i = 0; i <= ROWS / 4; i++) {
        b->offsets[i] = at;
        at += (int32_t)(noise(i) % 6);
    }
    b->top_buffers[0] = NULL;
    b->top_buffers[1] = b->offsets;
    measure(b, "lists of 32 bits", &i32, true, ROWS / 4, b->offsets[ROWS / 4], (size_t)b->offsets[ROWS / 4] * 4 + ROWS, version);
    static const struct leaf_type narrow = {.kind = LEAF_FIXED, .width = 4, .n_dims = 1, .dims = {16}};
    static const struct leaf_type wide = {.kind = LEAF_FIXED, .width = 4, .n_dims = 1, .dims = {256}};
    b->top_buffers[0] = NULL;
    measure(b, "vectors of 16 floats", &narrow, false, ROWS / 16, ROWS, ROWS * 4, version);
    measure(b, "vectors of 256 floats", &wide, false, ROWS / 256, ROWS, ROWS * 4, version);
}

static void bench_text(struct bench *b, uint32_t version)
{
    static const char *const words[] = {"alpha", "beta ", "gamma", "delta", "the ", "quick ", "brown ", "fox "};
    static const struct leaf_type text = {.kind = LEAF_VARIABLE};
    const size_t rows = ROWS / 8;
    for (int distinct = 0; distinct < 2; distinct++) {
        size_t at = 0;
        for (size_t i = 0; i <= rows; i++) {
            b->offsets[i] = (int32_t)at;
            const uint64_t seed = distinct ? i : noise(i) % 50;
            at += (size_t)snprintf((char *)b->values + at, 60, "https://%s.com/%s%s?id=%u", words[noise(seed) % 8],
                                   words[noise(seed * 3) % 8], words[noise(seed * 7) % 8], (unsigned)(seed * 7919));
        }
        b->leaf_buffers[1] = b->offsets;
        b->leaf_buffers[2] = b->values;
        const size_t bytes = (size_t)b->offsets[rows] + rows * 4;
        measure(b, distinct ? "text, all different" : "text, few different", &text, false, (int64_t)rows, (int64_t)rows, bytes,
                version);
    }
}

int main(int argc, char **argv)
{
    struct bench b = {.filter = argc > 1 ? argv[1] : NULL};
    pennon_error_init(&b.err);
    b.mem = mem_new(NULL, UINT64_C(1) << 32, NULL, &b.err);
    b.values = malloc(ROWS * 8 + 64);
    b.validity = malloc(ROWS / 8 + 1);
    b.offsets = malloc((ROWS + 1) * sizeof *b.offsets);
    if (!b.mem || !b.values || !b.validity || !b.offsets) return 1;
    for (size_t i = 0; i < ROWS / 8 + 1; i++) b.validity[i] = (uint8_t)(noise(i) | noise(i + 9));
    for (uint32_t version = STORAGE_2_1; version <= STORAGE_2_2; version++) {
        bench_fixed(&b, version);
        bench_lists(&b, version);
        bench_text(&b, version);
    }
    free(b.values);
    free(b.validity);
    free(b.offsets);
    mem_release(b.mem);
    return 0;
}
