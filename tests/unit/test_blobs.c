/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Blob columns of one data file: where values go, what comes back, and descriptors that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "arrow/arrow.h"
#include "pennon/pennon.h"

#define URI "memory://blobs/a.lance"
#define PATH "blobs/a.lance"
#define VALUE ((size_t)256 << 10)

struct world {
    pennon_runtime *runtime;
    pennon_call call;
    pennon_store *store;
    pennon_error err;
    struct mem *mem;
};

static void fine(struct world *w, pennon_status st)
{
    if (st != PENNON_OK) fail_msg("%s: %s", pennon_status_name(st), w->err.message);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    pennon_runtime_options ro;
    pennon_store_options so;
    assert_non_null(w);
    pennon_error_init(&w->err);
    pennon_runtime_options_init(&ro);
    ro.threads = 2;
    ro.memory_limit = (uint64_t)64 << 20;
    fine(w, pennon_runtime_new(&ro, &w->runtime, &w->err));
    pennon_call_init(&w->call);
    w->call.runtime = w->runtime;
    pennon_store_options_init(&so);
    so.call = &w->call;
    fine(w, pennon_store_open("memory://", &so, &w->store, &w->err));
    w->mem = mem_new(NULL, UINT64_MAX, NULL, &w->err);
    assert_non_null(w->mem);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    assert_int_equal(mem_used(w->mem), 0);
    mem_release(w->mem);
    pennon_store_free(w->store);
    pennon_runtime_free(w->runtime);
    pennon_error_clear(&w->err);
    free(w);
    return 0;
}

/* ---- rows ---- */

/* A value: bytes of one letter, or none (size -1), or a URI. */
struct row {
    int size;
    const char *uri;
};

static void mark(struct world *w, struct ArrowSchema *field)
{
    static const char *const pairs[][2] = {{"ARROW:extension:name", "lance.blob.v2"},
                                           {"lance-encoding:blob-inline-size-threshold", "8"},
                                           {"lance-encoding:blob-dedicated-size-threshold", "32"},
                                           {"lance-encoding:blob-pack-file-size-threshold", "64"}};
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        fine(w, arrow_metadata_set(field, bytes_str(pairs[i][0]), bytes_str(pairs[i][1]), &w->err));
}

static void append(struct world *w, struct builder *b, const struct row *r, size_t i)
{
    uint8_t bytes[256];
    memset(bytes, (int)('a' + i % 26), sizeof bytes);
    if (r->size < 0 && !r->uri) {
        fine(w, builder_append_null(b, &w->err));
        return;
    }
    if (r->size >= 0) fine(w, builder_append_bytes(builder_child(b, 0), bytes_of(bytes, (size_t)r->size), &w->err));
    if (r->size < 0) fine(w, builder_append_null(builder_child(b, 0), &w->err));
    if (r->uri) fine(w, builder_append_bytes(builder_child(b, 1), bytes_str(r->uri), &w->err));
    if (!r->uri) fine(w, builder_append_null(builder_child(b, 1), &w->err));
    fine(w, builder_append_row(b, &w->err));
}

/* One batch struct<b: blob>. */
static void make_batch(struct world *w, const struct row *rows, size_t n, struct ArrowSchema *schema, struct ArrowArray *out)
{
    fine(w, arrow_schema_from_text(bytes_str("struct<b: struct<data: large_binary, uri: string>>"), "", w->mem, schema, &w->err));
    schema->flags = 0;
    mark(w, schema->children[0]);
    struct builder *b = builder_new(schema, w->mem, &w->err);
    assert_non_null(b);
    for (size_t i = 0; i < n; i++) {
        append(w, builder_child(b, 0), &rows[i], i);
        fine(w, builder_append_row(b, &w->err));
    }
    fine(w, builder_finish(b, out, &w->err));
    builder_free(b);
}

static pennon_status write_file(struct world *w, const char *uri, const struct row *rows, size_t n)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    pennon_file_writer_options o;
    pennon_file_writer *out = NULL;
    pennon_file_writer_options_init(&o);
    o.call = &w->call;
    o.version = "2.2";
    make_batch(w, rows, n, &schema, &batch);
    pennon_status st = pennon_file_writer_open(uri, &schema, &o, &out, &w->err);
    if (st == PENNON_OK) st = pennon_file_writer_write(out, &batch, &w->err);
    if (st == PENNON_OK) {
        st = pennon_file_writer_finish(out, NULL, &w->err);
    } else {
        pennon_file_writer_abort(out);
    }
    array_release(&batch);
    arrow_schema_release(&schema);
    return st;
}

/* All rows as one batch. */
static pennon_status read_file(struct world *w, const char *uri, int32_t blobs, struct ArrowArray *out)
{
    pennon_file_options o;
    pennon_file *f = NULL;
    struct ArrowArrayStream stream = {0};
    out->release = NULL;
    pennon_file_options_init(&o);
    o.call = &w->call;
    o.blobs = blobs;
    pennon_status st = pennon_file_open(uri, &o, &f, &w->err);
    if (st == PENNON_OK) st = pennon_file_read(f, 0, PENNON_NONE, &o, &stream, &w->err);
    if (st == PENNON_OK && stream.get_next(&stream, out) != 0) st = pennon_stream_error(&stream, &w->err);
    if (stream.release) stream.release(&stream);
    pennon_file_free(f);
    return st;
}

static uint64_t findings_of(struct world *w, const char *uri)
{
    pennon_file_options o;
    pennon_file *f = NULL;
    pennon_verify_options v;
    pennon_verify_counts counts = {.struct_size = sizeof counts};
    pennon_file_options_init(&o);
    pennon_verify_options_init(&v);
    o.call = v.call = &w->call;
    fine(w, pennon_file_open(uri, &o, &f, &w->err));
    fine(w, pennon_file_verify(f, &v, &counts, &w->err));
    pennon_file_free(f);
    assert_int_equal(counts.data_files, 1);
    return counts.findings;
}

static const struct row ROWS[] = {{0, NULL}, {3, NULL},  {-1, NULL}, {8, NULL},  {9, NULL},  {32, NULL}, {33, NULL},
                                  {0, NULL}, {24, NULL}, {40, NULL}, {-1, NULL}, {31, NULL}, {1, NULL}};

static void test_file_blobs__places(void **state)
{
    struct world *w = *state;
    static const struct {
        uint8_t kind;
        uint64_t position;
        uint32_t id;
    } want[] = {{0, 64, 0},  {0, 0, 0}, {0, 0, 0}, {0, 64, 0}, {1, 0, 1},  {1, 9, 1},  {2, 0, 2},
                {0, 128, 0}, {1, 0, 3}, {2, 0, 4}, {0, 0, 0},  {1, 24, 3}, {0, 128, 0}};
    static const struct {
        const char *name;
        uint64_t size;
    } sidecars[] = {{"10000000000000000000000000000000", 41},
                    {"01000000000000000000000000000000", 33},
                    {"11000000000000000000000000000000", 55},
                    {"00100000000000000000000000000000", 40}};
    struct ArrowArray batch;
    fine(w, write_file(w, URI, ROWS, ARRAY_LEN(ROWS)));
    fine(w, read_file(w, URI, PENNON_BLOBS_DESCRIPTIONS, &batch));
    const struct ArrowArray *b = batch.children[0];
    assert_int_equal(b->length, ARRAY_LEN(ROWS));
    assert_int_equal(b->null_count, 2);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        assert_int_equal(bit_get(b->buffers[0], i), ROWS[i].size >= 0);
        assert_int_equal(((const uint8_t *)b->children[0]->buffers[1])[i], want[i].kind);
        assert_int_equal(((const uint64_t *)b->children[1]->buffers[1])[i], want[i].position);
        assert_int_equal(((const uint64_t *)b->children[2]->buffers[1])[i], ROWS[i].size > 0 ? ROWS[i].size : 0);
        assert_int_equal(((const uint32_t *)b->children[3]->buffers[1])[i], want[i].id);
    }
    array_release(&batch);
    for (size_t i = 0; i < ARRAY_LEN(sidecars); i++) {
        char path[100];
        pennon_object_info info;
        assert_true(snprintf(path, sizeof path, "blobs/a/%s.blob", sidecars[i].name) > 0);
        fine(w, pennon_store_head(w->store, &w->call, path, &info, &w->err));
        assert_int_equal(info.size, sidecars[i].size);
    }
    assert_int_equal(findings_of(w, URI), 0);
}

static void test_file_blobs__bytes(void **state)
{
    struct world *w = *state;
    struct ArrowArray batch;
    fine(w, write_file(w, URI, ROWS, ARRAY_LEN(ROWS)));
    fine(w, read_file(w, URI, PENNON_BLOBS_BYTES, &batch));
    const struct ArrowArray *b = batch.children[0];
    const int64_t *ends = b->buffers[1];
    const uint8_t *bytes = b->buffers[2];
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        assert_int_equal(bit_get(b->buffers[0], i), ROWS[i].size >= 0);
        assert_int_equal(ends[i + 1] - ends[i], ROWS[i].size > 0 ? ROWS[i].size : 0);
        for (int64_t k = ends[i]; k < ends[i + 1]; k++) assert_int_equal(bytes[k], 'a' + i % 26);
    }
    array_release(&batch);
}

static void test_file_blobs__refused(void **state)
{
    struct world *w = *state;
    static const struct row both[] = {{1, NULL}, {1, "memory://x/y"}}, link[] = {{-1, "memory://x/y"}}, none[] = {{-1, NULL}};
    pennon_object_info info;
    assert_int_equal(write_file(w, URI, both, 2), PENNON_INVALID_ARGUMENT);
    assert_non_null(strstr(w->err.message, "column 'b', value 1 of the batch"));
    assert_int_equal(write_file(w, URI, link, 1), PENNON_NOT_SUPPORTED);
    assert_int_equal(write_file(w, "memory://blobs/a.data", none, 1), PENNON_INVALID_ARGUMENT);
    assert_non_null(strstr(w->err.message, ".lance"));
    assert_int_equal(pennon_store_head(w->store, &w->call, PATH, &info, &w->err), PENNON_NOT_FOUND);
}

static bool count_object(void *ctx, const pennon_object_info *info)
{
    UNUSED(info);
    ++*(size_t *)ctx;
    return true;
}

static void test_file_blobs__aborted(void **state)
{
    struct world *w = *state;
    static const struct row late[] = {{20, NULL}, {100, NULL}, {30, NULL}, {31, NULL}, {1, "memory://x/y"}};
    size_t n = 0;
    assert_int_equal(write_file(w, URI, late, ARRAY_LEN(late)), PENNON_INVALID_ARGUMENT);
    fine(w, pennon_store_list(w->store, &w->call, "blobs", true, count_object, &n, &w->err));
    assert_int_equal(n, 0);
}

/* ---- lies ---- */

struct lie {
    size_t row;
    size_t at; /* in the descriptor: kind 0, position 1, size 9, blob_id 17 */
    size_t n;
    uint64_t value;
    pennon_status st;
    const char *text;
};

/* Descriptors stand plainly in the page: u8, u64, u64, u32, and the length of the URI. Row i is found by its size. */
static uint8_t *find_descriptor(uint8_t *file, size_t size, uint64_t bytes, uint8_t kind)
{
    for (size_t i = 0; i + 25 <= size; i++) {
        if (file[i] == kind && load_u64(file + i + 9) == bytes && load_u32(file + i + 21) == 0 && load_u64(file + i + 1) < 1000)
            return file + i;
    }
    fail_msg("no descriptor of %llu bytes", (unsigned long long)bytes);
    return NULL;
}

static void put_file(struct world *w, const void *bytes, size_t size)
{
    fine(w, pennon_store_put(w->store, &w->call, PATH, bytes, size, 0, &w->err));
}

static void test_file_blobs__lies(void **state)
{
    struct world *w = *state;
    static const struct row rows[] = {{7, NULL}, {21, NULL}, {23, NULL}, {35, NULL}};
    static const uint8_t kinds[] = {0, 1, 1, 2};
    static const struct lie lies[] = {
        {0, 0, 1, 9, PENNON_CORRUPT, "kind 9"},
        {0, 0, 1, 4, PENNON_NOT_SUPPORTED, "managed"},
        {0, 0, 1, 3, PENNON_NOT_SUPPORTED, "external"},
        {0, 0, 1, 1, PENNON_CORRUPT, "sidecar 0"},
        {0, 1, 8, 1 << 20, PENNON_CORRUPT, "a.lance"},
        {0, 1, 8, UINT64_MAX, PENNON_CORRUPT, "a.lance"},
        {0, 9, 8, UINT64_MAX, PENNON_CORRUPT, "a.lance"},
        {0, 9, 8, UINT64_C(1) << 62, PENNON_CORRUPT, "a.lance"},
        {1, 17, 4, 77, PENNON_CORRUPT, "10110010000000000000000000000000.blob' is missing"},
        {2, 9, 8, 24, PENNON_CORRUPT, "which has 44"},
        {2, 1, 8, UINT64_MAX, PENNON_CORRUPT, "which has 44"},
        {1, 9, 8, UINT64_C(1) << 40, PENNON_CORRUPT, "which has 44"},
        {3, 9, 8, 36, PENNON_CORRUPT, "which has 35"},
        {3, 1, 8, UINT64_MAX, PENNON_OK, NULL}, /* the position of a dedicated one is not looked at */
    };
    struct ArrowArray batch;
    pennon_object_info info;
    uint8_t file[8192];
    fine(w, write_file(w, URI, rows, ARRAY_LEN(rows)));
    fine(w, pennon_store_head(w->store, &w->call, PATH, &info, &w->err));
    assert_true(info.size <= sizeof file);
    const pennon_range all = {0, info.size, file};
    fine(w, pennon_store_read_ranges(w->store, &w->call, PATH, 1, &all, &w->err));
    for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
        const struct lie *l = &lies[i];
        uint8_t truth[8], *at = find_descriptor(file, (size_t)info.size, (uint64_t)rows[l->row].size, kinds[l->row]) + l->at;
        memcpy(truth, at, l->n);
        for (size_t k = 0; k < l->n; k++) at[k] = (uint8_t)(l->value >> 8 * k);
        put_file(w, file, (size_t)info.size);
        pennon_status st = read_file(w, URI, PENNON_BLOBS_BYTES, &batch);
        array_release(&batch);
        if (st != l->st) fail_msg("lie %zu: %s %s", i, pennon_status_name(st), w->err.message);
        if (l->text && !strstr(w->err.message, l->text)) fail_msg("lie %zu: %s", i, w->err.message);
        fine(w, read_file(w, URI, PENNON_BLOBS_DESCRIPTIONS, &batch));
        array_release(&batch);
        /* A file alone cannot tell whether an external blob is there. */
        bool external = l->at == 0 && l->value == 3;
        assert_int_equal(findings_of(w, URI), l->st == PENNON_OK || external ? 0 : 1);
        memcpy(at, truth, l->n);
    }
    put_file(w, file, (size_t)info.size);
    fine(w, read_file(w, URI, PENNON_BLOBS_BYTES, &batch));
    array_release(&batch);
    fine(w, pennon_store_delete(w->store, &w->call, "blobs/a/01000000000000000000000000000000.blob", &w->err));
    fine(w, pennon_store_put(w->store, &w->call, "blobs/a/10000000000000000000000000000000.blob", "short", 5, 0, &w->err));
    assert_int_equal(findings_of(w, URI), 2);
    assert_int_equal(read_file(w, URI, PENNON_BLOBS_BYTES, &batch), PENNON_CORRUPT);
}

/* Values that do not fit the budget together are read in smaller batches. */
static void test_file_blobs__budget(void **state)
{
    struct world *w = *state;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    pennon_file_writer_options o;
    pennon_file_writer *out = NULL;
    uint8_t *bytes = calloc(1, VALUE);
    assert_non_null(bytes);
    pennon_file_writer_options_init(&o);
    o.call = &w->call;
    o.version = "2.2";
    for (int64_t i = 0; i < 100; i++) {
        fine(w,
             arrow_schema_from_text(bytes_str("struct<b: struct<data: large_binary, uri: string>>"), "", w->mem, &schema, &w->err));
        mark(w, schema.children[0]);
        if (!out) fine(w, pennon_file_writer_open(URI, &schema, &o, &out, &w->err));
        struct builder *b = builder_new(&schema, w->mem, &w->err);
        struct builder *blob = builder_child(b, 0);
        memset(bytes, (int)i, VALUE);
        fine(w, builder_append_bytes(builder_child(blob, 0), bytes_of(bytes, VALUE), &w->err));
        fine(w, builder_append_null(builder_child(blob, 1), &w->err));
        fine(w, builder_append_row(blob, &w->err));
        fine(w, builder_append_row(b, &w->err));
        fine(w, builder_finish(b, &batch, &w->err));
        builder_free(b);
        fine(w, pennon_file_writer_write(out, &batch, &w->err));
        arrow_schema_release(&schema);
        /* Nothing of the values is held. */
        assert_true(mem_used(w->mem) < 100000);
    }
    fine(w, pennon_file_writer_finish(out, NULL, &w->err));
    free(bytes);
    pennon_file_options ro;
    pennon_file *f = NULL;
    struct ArrowArrayStream stream;
    int64_t rows = 0;
    pennon_call small = w->call;
    pennon_budget *budget = NULL;
    fine(w, pennon_budget_new(w->runtime, 5 * VALUE, &budget, &w->err));
    small.budget = budget;
    pennon_file_options_init(&ro);
    ro.call = &small;
    ro.blobs = PENNON_BLOBS_BYTES;
    fine(w, pennon_file_open(URI, &ro, &f, &w->err));
    fine(w, pennon_file_read(f, 0, PENNON_NONE, &ro, &stream, &w->err));
    for (;;) {
        if (stream.get_next(&stream, &batch) != 0) fail_msg("%s", pennon_stream_error(&stream, &w->err) ? w->err.message : "");
        if (!batch.release) break;
        for (int64_t i = 0; i < batch.length; i++) {
            const int64_t *ends = batch.children[0]->buffers[1];
            assert_int_equal(ends[i + 1] - ends[i], VALUE);
            assert_int_equal(((const uint8_t *)batch.children[0]->buffers[2])[ends[i + 1] - 1], rows + i);
        }
        rows += batch.length;
        array_release(&batch);
    }
    assert_int_equal(rows, 100);
    stream.release(&stream);
    pennon_file_free(f);
    pennon_budget_free(budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_file_blobs__places, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file_blobs__bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file_blobs__refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file_blobs__aborted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file_blobs__lies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file_blobs__budget, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
