/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Speed of filters over batches in memory, one line each: bytes of the columns that are read, a second; beside it how fast memory is copied.
 * Batches of a million rows do not fit the caches of the first levels. Inputs are fixed. */
#include <stdio.h>
#include <stdlib.h>

#include "expr/expr.h"

#define ROWS ((int64_t)1 << 20)
#define MIN_NS INT64_C(200000000)
#define COLUMNS 6

struct bench {
    struct mem *mem;
    struct call call;
    pennon_error err;
    struct ArrowSchema schema;
    struct ArrowArray columns[COLUMNS];
    uint64_t bytes[COLUMNS];
    uint8_t *bits, *copy;
    uint64_t count;
};

static void must(const struct bench *b, pennon_status st)
{
    if (st == PENNON_OK) return;
    fprintf(stderr, "%s\n", b->err.message);
    exit(1);
}

static uint64_t noise(uint64_t x)
{
    x = (x + 1) * UINT64_C(0x9E3779B97F4A7C15);
    return (x ^ x >> 29) * UINT64_C(0xBF58476D1CE4E5B9) >> 7;
}

static void report(const char *name, double bytes, int64_t ns, double rows, uint64_t found)
{
    printf("%-44s %8.2f GB/s %9.1f M rows/s  %8llu rows\n", name, bytes / (double)ns, rows * 1e3 / (double)ns,
           (unsigned long long)found);
}

static void measure_filter(struct bench *b, const char *name, const char *text)
{
    struct expr *e = NULL;
    const struct ArrowArray *columns[COLUMNS];
    size_t n = 0;
    uint64_t bytes = 0, runs = 0;
    must(b, expr_compile_filter(bytes_str(text), &b->schema, b->mem, &e, &b->err));
    const struct expr_column *read = expr_columns(e, &n);
    for (size_t i = 0; i < n; i++) {
        columns[i] = &b->columns[read[i].top];
        bytes += b->bytes[read[i].top];
    }
    must(b, expr_select(e, &b->call, columns, ROWS, b->bits, &b->count, &b->err));
    const int64_t start = clock_monotonic_ns();
    int64_t now = start;
    for (; now - start < MIN_NS; runs++, now = clock_monotonic_ns()) {
        must(b, expr_select(e, &b->call, columns, ROWS, b->bits, &b->count, &b->err));
    }
    report(name, (double)runs * (double)bytes, now - start, (double)runs * (double)ROWS, b->count);
    expr_free(e);
}

static void measure_copy(struct bench *b)
{
    uint64_t runs = 0;
    const int64_t start = clock_monotonic_ns();
    int64_t now = start;
    for (; now - start < MIN_NS; runs++, now = clock_monotonic_ns()) memcpy(b->copy, b->columns[1].buffers[1], (size_t)ROWS * 8);
    report("memcpy of 8 MiB (bytes copied)", (double)runs * (double)ROWS * 8, now - start, (double)runs * (double)ROWS, 0);
}

static void add_column(struct bench *b, size_t i, const char *format, const char *name)
{
    static const char *const words[] = {"lance", "lakehouse", "vector", "column", "format", "of", "the", "arrow", "needle", "x"};
    must(b, arrow_schema_new(b->schema.children[i], format, name, i == 3 ? ARROW_FLAG_NULLABLE : 0, 0, b->mem, &b->err));
    struct builder *to = builder_new(b->schema.children[i], b->mem, &b->err);
    if (to == NULL) must(b, b->err.code);
    for (uint64_t r = 0; r < (uint64_t)ROWS; r++) {
        char text[128];
        size_t n = 0;
        if (format[0] == 'g') {
            must(b, builder_append_double(to, (double)(noise(r * 3) % 2000001) / 1e6 - 1, &b->err));
        } else if (format[0] == 'u') {
            for (uint64_t k = noise(r * 7 + i) % 4 + 1; k > 0; k--) {
                uint64_t pick = noise(r * 50 + k) % 1000;
                n += (size_t)snprintf(text + n, sizeof text - n, "%s ", words[pick < 3 ? 8 : pick % 8]);
            }
            must(b, builder_append_bytes(to, bytes_of(text, n - 1), &b->err));
        } else if (i == 3 && noise(r) % 10 == 0) {
            must(b, builder_append_null(to, &b->err));
        } else {
            must(b, builder_append_int(to, (int64_t)(noise(r * 11 + i) % 2000000000), &b->err));
        }
    }
    must(b, builder_finish(to, &b->columns[i], &b->err));
    builder_free(to);
    b->bytes[i] = array_bytes(b->schema.children[i], &b->columns[i]);
}

/* column IN (n numbers that are far apart) */
static void measure_in(struct bench *b, const char *column, uint64_t items, bool dense)
{
    char name[80];
    struct buf text;
    buf_init(&text, b->mem, BUF_NO_LIMIT);
    must(b, buf_printf(&text, &b->err, "%s IN (", column));
    for (uint64_t i = 0; i < items; i++) {
        unsigned long long v = dense ? i * 3 : noise(i * 11 + 1) % 2000000000;
        must(b, buf_printf(&text, &b->err, "%s%llu", i > 0 ? "," : "", v));
    }
    must(b, buf_append(&text, ")", 2, &b->err));
    (void)snprintf(name, sizeof name, "%s IN (%llu %s numbers)", column, (unsigned long long)items, dense ? "dense" : "far");
    measure_filter(b, name, (const char *)text.data);
    buf_free(&text);
}

int main(void)
{
    static const char *const formats[COLUMNS] = {"i", "l", "g", "l", "u", "l"};
    static const char *const names[COLUMNS] = {"i32", "i64", "f64", "nullable", "text", "other"};
    static const char *const filters[] = {"i32 < 1000000",
                                          "i64 < 1000000",
                                          "i64 = 77",
                                          "f64 >= 0.25",
                                          "nullable > 1000000000",
                                          "i64 < other",
                                          "i32 > 5 AND i64 > 5 AND f64 > -2.0",
                                          "i32 > 1999999990 AND text LIKE '%needle%'",
                                          "text LIKE '%needle%x%' AND i32 < 20000000",
                                          "text = 'lance lakehouse'",
                                          "text > 'm'",
                                          "text LIKE 'needle%'",
                                          "text LIKE '%needle'",
                                          "text LIKE '%needle%'",
                                          "text LIKE '%needle%x%'",
                                          "text ILIKE '%NEEDLE%'",
                                          "text IN ('lance', 'needle', 'arrow', 'vector', 'of')",
                                          "i64 * 2 + 1 > 77",
                                          "i64 IS NULL OR nullable IS NOT NULL"};
    static struct bench b;
    pennon_error_init(&b.err);
    b.mem = mem_new(NULL, UINT64_C(4) << 30, NULL, &b.err);
    if (b.mem == NULL) return 1;
    mem_keep(b.mem, UINT64_C(64) << 20);
    b.call = (struct call){.mem = b.mem, .deadline_ns = INT64_MAX, .threads = 1};
    b.bits = malloc((size_t)ROWS / 8);
    b.copy = malloc((size_t)ROWS * 8);
    if (b.bits == NULL || b.copy == NULL) return 1;
    must(&b, arrow_schema_new(&b.schema, "+s", "", 0, COLUMNS, b.mem, &b.err));
    for (size_t i = 0; i < COLUMNS; i++) add_column(&b, i, formats[i], names[i]);
    measure_copy(&b);
    for (size_t i = 0; i < ARRAY_LEN(filters); i++) measure_filter(&b, filters[i], filters[i]);
    measure_in(&b, "i32", 10, false);
    measure_in(&b, "i64", 10, false);
    measure_in(&b, "i64", 1000, true);
    measure_in(&b, "i64", 1000, false);
    measure_in(&b, "i64", 1000000, false);
    for (size_t i = 0; i < COLUMNS; i++) array_release(&b.columns[i]);
    arrow_schema_release(&b.schema);
    free(b.bits);
    free(b.copy);
    mem_release(b.mem);
    return 0;
}
