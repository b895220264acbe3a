/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Scans that hand out mapped files: the same rows as others, in less memory, for as long as somebody holds a batch. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "arrow/arrow.h"
#include "pennon/pennon.h"

#define ROWS 6000
#define DIM 64
#define VECTOR_BYTES ((size_t)DIM * 4)
#define SCHEMA                                                                                                              \
    "struct<id: int64, v: fixed_size_list<item: float>[64], n: fixed_size_list<item: float>[64], s: string, st: struct<w: " \
    "fixed_size_list<item: int64>[32], x: int32>>"

struct world {
    char folder[64], uri[96];
    pennon_runtime *runtime;
    pennon_call call;
    pennon_error err;
    struct mem *mem;
    pennon_dataset *ds;
};

static void fine(struct world *w, pennon_status st)
{
    if (st != PENNON_OK) fail_msg("%s: %s", pennon_status_name(st), w->err.message);
}

static void append_vector(struct world *w, struct builder *b, int64_t i, bool real)
{
    struct builder *item = builder_child(b, 0);
    for (int64_t k = 0; k < (real ? DIM : DIM / 2); k++)
        fine(w, real ? builder_append_double(item, (double)(i * 3 + k), &w->err) : builder_append_int(item, i * 5 - k, &w->err));
    fine(w, builder_append_row(b, &w->err));
}

static void append_row(struct world *w, struct builder *b, int64_t i)
{
    struct builder *n = builder_child(b, 2), *st = builder_child(b, 4);
    char text[32];
    const int size = snprintf(text, sizeof text, "row %lld", (long long)i);
    fine(w, builder_append_int(builder_child(b, 0), i, &w->err));
    append_vector(w, builder_child(b, 1), i, true);
    if (i % 7 == 3) {
        fine(w, builder_append_null(n, &w->err));
    } else {
        append_vector(w, n, i + 1, true);
    }
    fine(w, builder_append_bytes(builder_child(b, 3), bytes_of(text, (size_t)size), &w->err));
    append_vector(w, builder_child(st, 0), i, false);
    fine(w, builder_append_int(builder_child(st, 1), i % 100, &w->err));
    fine(w, builder_append_row(st, &w->err));
    fine(w, builder_append_row(b, &w->err));
}

static void write_table(struct world *w)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct ArrowArrayStream stream;
    pennon_write_options o;
    fine(w, arrow_schema_from_text(bytes_str(SCHEMA), "", w->mem, &schema, &w->err));
    struct builder *b = builder_new(&schema, w->mem, &w->err);
    assert_non_null(b);
    for (int64_t i = 0; i < ROWS; i++) append_row(w, b, i);
    fine(w, builder_finish(b, &batch, &w->err));
    builder_free(b);
    fine(w, stream_from_arrays(&schema, &batch, 1, w->mem, &stream, &w->err));
    pennon_write_options_init(&o);
    o.call = &w->call;
    o.max_rows_per_file = ROWS / 2;
    fine(w, pennon_write(w->uri, &stream, &o, &w->ds, &w->err));
}

struct seen {
    pennon_scan_stats stats;
};
static void note_stats(void *ctx, const pennon_scan_stats *stats) { ((struct seen *)ctx)->stats = *stats; }

/* All rows as one batch; *bytes is the memory that the batches take. */
static void scan_all(struct world *w, pennon_scan_options o, struct ArrowSchema *schema, struct ArrowArray *out, int64_t *bytes)
{
    struct ArrowArrayStream stream;
    struct ArrowArray parts[64];
    const struct ArrowArray *list[64];
    struct mem *base = runtime_base_mem(w->runtime);
    size_t n = 0;
    fine(w, pennon_scan(w->ds, &o, &stream, &w->err));
    fine(w, stream_schema(&stream, schema, &w->err));
    for (;; n++) {
        assert_true(n < 64);
        fine(w, stream_next(&stream, &parts[n], &w->err));
        if (!parts[n].release) break;
        fine(w, array_validate(schema, &parts[n], ARRAY_VALIDATE_FULL, &w->err));
        list[n] = &parts[n];
    }
    stream_release(&stream);
    assert_true(n > 0);
    fine(w, array_concat(schema, n, list, w->mem, out, &w->err));
    const uint64_t held = mem_used(base);
    for (size_t i = 0; i < n; i++) array_release(&parts[i]);
    *bytes = (int64_t)(held - mem_used(base));
}

static pennon_scan_options options(struct world *w)
{
    pennon_scan_options o;
    pennon_scan_options_init(&o);
    o.call = &w->call;
    o.batch_rows = 1000;
    return o;
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    pennon_runtime_options runtime;
    assert_non_null(w);
    (void)snprintf(w->folder, sizeof w->folder, "/tmp/pennon-mapped-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    (void)snprintf(w->uri, sizeof w->uri, "%s/t.lance", w->folder);
    pennon_error_init(&w->err);
    pennon_runtime_options_init(&runtime);
    runtime.threads = 2;
    fine(w, pennon_runtime_new(&runtime, &w->runtime, &w->err));
    pennon_call_init(&w->call);
    w->call.runtime = w->runtime;
    w->mem = mem_new(NULL, UINT64_MAX, NULL, &w->err);
    assert_non_null(w->mem);
    write_table(w);
    *state = w;
    return 0;
}

static int remove_one(const char *path, const struct stat *sb, int flag, struct FTW *ftw)
{
    (void)sb, (void)flag, (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    struct world *w = *state;
    pennon_dataset_free(w->ds);
    assert_int_equal(mem_used(w->mem), 0);
    mem_release(w->mem);
    pennon_runtime_free(w->runtime);
    (void)nftw(w->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    pennon_error_clear(&w->err);
    free(w);
    return 0;
}

/* Both ways give the same; *copied and *mapped are the bytes that the batches take. What is read once and kept was read before. */
static void compare(struct world *w, pennon_scan_options o, int64_t *copied, int64_t *mapped, struct seen *seen)
{
    struct ArrowSchema schemas[2];
    struct ArrowArray got[2];
    scan_all(w, o, &schemas[0], &got[0], copied);
    array_release(&got[0]);
    arrow_schema_release(&schemas[0]);
    o.stats = note_stats;
    for (int k = 0; k < 2; k++) {
        o.mapped = k;
        o.stats_ctx = &seen[k];
        scan_all(w, o, &schemas[k], &got[k], k ? mapped : copied);
    }
    assert_true(arrow_schema_equal(&schemas[0], &schemas[1], 0));
    assert_true(got[0].length == got[1].length && array_equal(&schemas[0], &got[0], &got[1]));
    for (int k = 0; k < 2; k++) {
        array_release(&got[k]);
        arrow_schema_release(&schemas[k]);
    }
}

static void test_scan_mapped__same_rows(void **state)
{
    struct world *w = *state;
    static const char *const filters[] = {NULL, "id >= 0", "id % 3 = 1", "_rowid = 77", "id BETWEEN 1500 AND 3500"};
    struct seen seen[2];
    int64_t copied, mapped;
    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        pennon_scan_options o = options(w);
        o.filter = filters[i];
        for (o.materialize = PENNON_MATERIALIZE_HEURISTIC; o.materialize <= PENNON_MATERIALIZE_LATE; o.materialize++)
            compare(w, o, &copied, &mapped, seen);
        o.limit = 1700;
        o.offset = 1100;
        if (!o.filter) compare(w, o, &copied, &mapped, seen);
    }
}

static void test_scan_mapped__less_memory(void **state)
{
    struct world *w = *state;
    static const char *const flat[] = {"v", "st.w"}, *const nulls[] = {"n"};
    const pennon_names vectors = {2, flat}, other = {1, nulls};
    const int64_t bytes = ROWS * (int64_t)VECTOR_BYTES;
    struct seen seen[2];
    int64_t copied, mapped;
    pennon_scan_options o = options(w);
    o.columns = &vectors;
    compare(w, o, &copied, &mapped, seen);
    if (copied < bytes * 2 || mapped > bytes / 8) fail_msg("copied %lld, mapped %lld", (long long)copied, (long long)mapped);
    assert_true(seen[1].stats.bytes_read < seen[0].stats.bytes_read / 4);
    /* Where there are nulls, values lie between control words. */
    o.columns = &other;
    compare(w, o, &copied, &mapped, seen);
    assert_true(copied >= bytes && mapped >= bytes);
    assert_int_equal(seen[0].stats.bytes_read, seen[1].stats.bytes_read);
}

/* A batch outlives its stream and its dataset, and the files their names. */
static void test_scan_mapped__outlives_all(void **state)
{
    struct world *w = *state;
    static const char *const flat[] = {"v"};
    const pennon_names names = {1, flat};
    struct ArrowArrayStream stream;
    struct ArrowArray batches[3];
    pennon_scan_options o = options(w);
    o.columns = &names;
    o.mapped = true;
    fine(w, pennon_scan(w->ds, &o, &stream, &w->err));
    for (int k = 0; k < 3; k++) fine(w, stream_next(&stream, &batches[k], &w->err));
    stream_release(&stream);
    pennon_dataset_free(w->ds);
    w->ds = NULL;
    (void)nftw(w->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    array_release(&batches[1]); /* in no order */
    for (int k = 0; k < 3; k += 2) {
        const struct ArrowArray *list = batches[k].children[0], *items = list->children[0];
        const float *values = (const float *)items->buffers[1] + (list->offset * DIM + items->offset);
        assert_int_equal((uintptr_t)items->buffers[1] % sizeof(float), 0);
        for (int64_t i = 0; i < list->length; i++) assert_true(values[i * DIM + 5] == (float)((i + k * 1000) * 3 + 5));
    }
    array_release(&batches[2]);
    array_release(&batches[0]);
}

/* Objects that are no local files are read. */
static void test_scan_mapped__memory_store(void **state)
{
    struct world *w = *state;
    struct ArrowArrayStream stream;
    pennon_scan_options o = options(w);
    pennon_write_options write;
    pennon_dataset *local = w->ds;
    struct seen seen[2];
    int64_t copied, mapped;
    fine(w, pennon_scan(local, &o, &stream, &w->err));
    pennon_write_options_init(&write);
    write.call = &w->call;
    fine(w, pennon_write("memory://mapped/t", &stream, &write, &w->ds, &w->err));
    pennon_dataset_free(local);
    compare(w, o, &copied, &mapped, seen);
    assert_int_equal(seen[0].stats.bytes_read, seen[1].stats.bytes_read);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(test_scan_mapped__same_rows), CASE(test_scan_mapped__less_memory),
                                       CASE(test_scan_mapped__outlives_all), CASE(test_scan_mapped__memory_store)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
