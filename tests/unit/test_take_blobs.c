/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Blobs of tables one by one: which ones a list holds, what reads give and what they read, and what is refused. */
#include <pthread.h>

#include "blob_world.h"

/* ---- lists ---- */

static void test_blobs_take__offsets(void **state)
{
    struct blob_world *w = *state;
    static const uint64_t rows[] = {59, 0, 1, 2, 3, 21, 20, 0, 11, 5, 6, 40, 41, 42, 43, 44, 45, 46, 47};
    pennon_blobs *b = blob_take(w, "b", PENNON_TAKE_OFFSETS, ARRAY_LEN(rows), rows);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        pennon_blob_info info = {.struct_size = sizeof info};
        blob_expect(w, b, i, (int64_t)rows[i]);
        blob_ok(w, pennon_blobs_info(b, i, &info, &w->err));
        assert_int_equal(info.row_address, rows[i] / BLOB_FILE_ROWS << 32 | rows[i] % BLOB_FILE_ROWS);
        const int size = blob_world_size((int64_t)rows[i]);
        const int32_t kind = !w->v2 || size <= 8 ? PENNON_BLOB_INLINE : size <= 32 ? PENNON_BLOB_PACKED : PENNON_BLOB_DEDICATED;
        assert_int_equal(info.kind, kind);
        assert_null(info.uri);
    }
    pennon_blobs_free(b);
    b = blob_take(w, "b", PENNON_TAKE_OFFSETS, 0, NULL);
    assert_int_equal(pennon_blobs_count(b), 0);
    pennon_blobs_free(b);
}

static void test_blobs_take__nested(void **state)
{
    struct blob_world *w = *state;
    uint64_t rows[BLOB_ROWS];
    for (size_t i = 0; i < BLOB_ROWS; i++) rows[i] = BLOB_ROWS - 1 - i;
    pennon_blobs *b = blob_take(w, "s.b", PENNON_TAKE_OFFSETS, BLOB_ROWS, rows);
    for (size_t i = 0; i < BLOB_ROWS; i++) blob_expect(w, b, i, rows[i] % 7 == 3 ? 1 : (int64_t)rows[i] + 1);
    pennon_blobs_free(b);
}

static void delete_rows(struct blob_world *w, const char *where)
{
    pennon_mutation_options o;
    pennon_mutation_options_init(&o);
    o.call = &w->call;
    blob_ok(w, pennon_dataset_delete(w->ds, where, &o, NULL, &w->err));
}

static void test_blobs_take__deleted(void **state)
{
    struct blob_world *w = *state;
    static const uint64_t ids[] = {UINT64_C(1) << 32 | 1, 0, 5}, stable_ids[] = {21, 0, 5}, gone[] = {5, 3}, offsets[] = {3, 17};
    const uint64_t *rows = w->stable ? stable_ids : ids;
    pennon_blobs *b = NULL;
    delete_rows(w, "id = 3 OR id = 20");
    b = blob_take(w, "b", PENNON_TAKE_ROW_IDS, 3, rows);
    blob_expect(w, b, 0, 21);
    blob_expect(w, b, 1, 0);
    blob_expect(w, b, 2, 5);
    pennon_blobs_free(b);
    b = blob_take(w, "b", PENNON_TAKE_ADDRESSES, 3, ids);
    blob_expect(w, b, 0, 21);
    pennon_blobs_free(b);
    b = blob_take(w, "b", PENNON_TAKE_OFFSETS, 2, offsets);
    blob_expect(w, b, 0, 4);
    blob_expect(w, b, 1, 18);
    pennon_blobs_free(b);
    blob_fails(w, pennon_dataset_take_blobs(w->ds, "b", PENNON_TAKE_ADDRESSES, 2, gone, &w->call, &b, &w->err),
               PENNON_NOT_SUPPORTED,
               "Expected 2 rows, got 1.  A take operation that includes row addresses must not target deleted rows.");
    blob_fails(w, pennon_dataset_take_blobs(w->ds, "b", PENNON_TAKE_ROW_IDS, 2, gone, &w->call, &b, &w->err),
               w->stable ? PENNON_INVALID_ARGUMENT : PENNON_NOT_SUPPORTED,
               w->stable ? "requested 2, resolved 1; first missing row ID 3" : "Expected 2 rows, got 1.");
}

static void test_blobs_take__refused(void **state)
{
    struct blob_world *w = *state;
    static const uint64_t past[] = {0, BLOB_ROWS}, nowhere[] = {0, UINT64_C(77) << 32};
    pennon_blobs *b = NULL;
    pennon_blob_info info = {.struct_size = sizeof info};
    size_t got;
    char byte;
    blob_fails(w, pennon_dataset_take_blobs(w->ds, "id", PENNON_TAKE_OFFSETS, 1, past, &w->call, &b, &w->err),
               PENNON_INVALID_ARGUMENT, "the column 'id' is not a blob column");
    blob_fails(w, pennon_dataset_take_blobs(w->ds, "s", PENNON_TAKE_OFFSETS, 1, past, &w->call, &b, &w->err),
               PENNON_INVALID_ARGUMENT, w->v2 ? "the column 's' is not a blob column" : "no column named 's'");
    blob_fails(w, pennon_dataset_take_blobs(w->ds, "_rowaddr", PENNON_TAKE_OFFSETS, 1, past, &w->call, &b, &w->err),
               PENNON_INVALID_ARGUMENT, "is not a blob column");
    blob_fails(w, pennon_dataset_take_blobs(w->ds, "c", PENNON_TAKE_OFFSETS, 1, past, &w->call, &b, &w->err),
               PENNON_INVALID_ARGUMENT, "no column named 'c'");
    blob_fails(w, pennon_dataset_take_blobs(w->ds, "b", PENNON_TAKE_OFFSETS, 2, past, &w->call, &b, &w->err),
               PENNON_INVALID_ARGUMENT, "row 60 is past the end");
    blob_fails(w, pennon_dataset_take_blobs(w->ds, "b", PENNON_TAKE_ADDRESSES, 2, nowhere, &w->call, &b, &w->err),
               PENNON_INVALID_ARGUMENT, "belongs to non-existent fragment: 77");
    blob_fails(w, pennon_dataset_take_blobs(w->ds, "b", 9, 1, past, &w->call, &b, &w->err), PENNON_INVALID_ARGUMENT, "selector 9");
    blob_fails(w, pennon_dataset_take_blobs(w->ds, NULL, 0, 1, past, &w->call, &b, &w->err), PENNON_INVALID_ARGUMENT, "column");
    b = blob_take(w, "b", PENNON_TAKE_OFFSETS, 1, past);
    blob_fails(w, pennon_blobs_info(b, 1, &info, &w->err), PENNON_INVALID_ARGUMENT, "blob 1 of a list of 1");
    blob_fails(w, pennon_blob_read_at(b, 1, 0, 1, &byte, &w->call, &got, &w->err), PENNON_INVALID_ARGUMENT,
               "blob 1 of a list of 1");
    pennon_blobs_free(b);
}

/* ---- reads ---- */

static uint64_t bytes_read(struct blob_world *w)
{
    struct snapshot *s;
    struct store_stats stats;
    dataset_get(w->ds, &s, NULL);
    store_stats(s->at.store, &stats);
    snapshot_release(s);
    return stats.bytes_read;
}

static void test_blobs_read__parts(void **state)
{
    struct blob_world *w = *state;
    static const uint64_t rows[] = {11, 2, 1}; /* 100 bytes, none, null */
    pennon_blobs *b = blob_take(w, "b", PENNON_TAKE_OFFSETS, 3, rows);
    uint8_t bytes[200];
    size_t got;
    for (size_t offset = 0; offset < 110; offset += 9) {
        const uint64_t before = bytes_read(w);
        blob_ok(w, pennon_blob_read_at(b, 0, offset, 11, bytes, &w->call, &got, &w->err));
        assert_int_equal(got, offset >= 100 ? 0 : offset > 89 ? 100 - offset : 11);
        for (size_t k = 0; k < got; k++) assert_int_equal(bytes[k], blob_world_byte(11, (int64_t)(offset + k)));
        assert_int_equal(bytes_read(w) - before, got);
    }
    blob_ok(w, pennon_blob_read_at(b, 0, UINT64_MAX, SIZE_MAX, bytes, &w->call, &got, &w->err));
    assert_int_equal(got, 0);
    blob_ok(w, pennon_blob_read_at(b, 0, 99, SIZE_MAX, bytes, &w->call, &got, &w->err));
    assert_int_equal(got, 1);
    for (size_t i = 1; i < 3; i++) {
        blob_ok(w, pennon_blob_read_at(b, i, 0, 11, bytes, &w->call, &got, &w->err));
        assert_int_equal(got, 0);
    }
    pennon_blobs_free(b);
}

/* The dataset is gone, and a new version without the rows is there. */
static void test_blobs_read__outlive(void **state)
{
    struct blob_world *w = *state;
    static const uint64_t rows[] = {4, 5, 6, 7};
    pennon_blobs *b = blob_take(w, "b", PENNON_TAKE_OFFSETS, 4, rows);
    delete_rows(w, "true");
    pennon_dataset_free(w->ds);
    w->ds = NULL;
    for (size_t i = 0; i < 4; i++) blob_expect(w, b, i, (int64_t)rows[i]);
    pennon_blobs_free(b);
}

struct reader {
    struct blob_world *w;
    pennon_blobs *b;
    size_t first;
    bool failed;
};

static void *read_all(void *arg)
{
    struct reader *r = arg;
    pennon_error err;
    pennon_error_init(&err);
    for (size_t k = 0; k < BLOB_ROWS; k++) {
        const size_t i = (k + r->first) % BLOB_ROWS;
        uint8_t bytes[128];
        size_t got = 0;
        const int want = blob_world_size((int64_t)i);
        const pennon_status st = pennon_blob_read_at(r->b, i, 0, sizeof bytes, bytes, &r->w->call, &got, &err);
        bool good = st == PENNON_OK && (int)got == (want == BLOB_NULL ? 0 : want);
        for (size_t at = 0; good && at < got; at++) good = bytes[at] == blob_world_byte((int64_t)i, (int64_t)at);
        r->failed = r->failed || !good;
    }
    pennon_error_clear(&err);
    return NULL;
}

static void test_blobs_read__threads(void **state)
{
    struct blob_world *w = *state;
    uint64_t rows[BLOB_ROWS];
    struct reader readers[6];
    pthread_t threads[6];
    for (size_t i = 0; i < BLOB_ROWS; i++) rows[i] = i;
    pennon_blobs *b = blob_take(w, "b", PENNON_TAKE_OFFSETS, BLOB_ROWS, rows);
    for (size_t i = 0; i < 6; i++) {
        readers[i] = (struct reader){w, b, i * 10, false};
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, &readers[i]), 0);
    }
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(readers[i].failed);
    }
    pennon_blobs_free(b);
}

/* ---- many at once ---- */

/* All rows of the stream: part k is [offset, offset + size) of row i = rows[k]. */
struct expected {
    int64_t row;
    uint64_t offset, size;
};

static void expect_stream(struct blob_world *w, struct ArrowArrayStream *stream, const struct expected *want, size_t n,
                          uint64_t batch_bytes)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    size_t at = 0;
    blob_ok(w, stream_schema(stream, &schema, &w->err));
    for (;;) {
        blob_ok(w, stream_next(stream, &batch, &w->err));
        if (!batch.release) break;
        blob_ok(w, array_validate(&schema, &batch, ARRAY_VALIDATE_FULL, &w->err));
        const int64_t *ends = batch.children[2]->buffers[1];
        const uint8_t *data = batch.children[2]->buffers[2];
        assert_true(batch.length > 0 && (batch.length == 1 || (uint64_t)ends[batch.length] <= batch_bytes));
        for (int64_t k = 0; k < batch.length; k++, at++) {
            assert_true(at < n);
            assert_int_equal(((const uint64_t *)batch.children[0]->buffers[1])[k], at);
            assert_int_equal(ends[k + 1] - ends[k], want[at].size);
            const bool null = batch.children[2]->null_count && !bit_get(batch.children[2]->buffers[0], (uint64_t)k);
            assert_int_equal(null, blob_world_size(want[at].row) == BLOB_NULL);
            for (int64_t p = 0; p < ends[k + 1] - ends[k]; p++)
                assert_int_equal(data[ends[k] + p], blob_world_byte(want[at].row, (int64_t)want[at].offset + p));
        }
        array_release(&batch);
    }
    assert_int_equal(at, n);
    arrow_schema_release(&schema);
    stream_release(stream);
}

static void test_blobs_read__bulk(void **state)
{
    struct blob_world *w = *state;
    uint64_t rows[2 * BLOB_ROWS];
    struct expected want[2 * BLOB_ROWS];
    struct ArrowArrayStream stream;
    pennon_blob_read_options o;
    pennon_blob_read_options_init(&o);
    o.call = &w->call;
    for (size_t i = 0; i < 2 * BLOB_ROWS; i++) {
        rows[i] = i * 37 % BLOB_ROWS;
        const int size = blob_world_size((int64_t)rows[i]);
        want[i] = (struct expected){(int64_t)rows[i], 0, size == BLOB_NULL ? 0 : (uint64_t)size};
    }
    pennon_blobs *b = blob_take(w, "b", PENNON_TAKE_OFFSETS, 2 * BLOB_ROWS, rows);
    for (uint64_t bytes = 1; bytes < 100000; bytes *= 7) {
        o.batch_bytes = bytes;
        blob_ok(w, pennon_blobs_read(b, &o, &stream, &w->err));
        expect_stream(w, &stream, want, 2 * BLOB_ROWS, bytes);
    }
    /* The stream keeps the list. */
    blob_ok(w, pennon_blobs_read(b, NULL, &stream, &w->err));
    pennon_blobs_free(b);
    expect_stream(w, &stream, want, 2 * BLOB_ROWS, UINT64_MAX);
}

static void test_blobs_read__ranges(void **state)
{
    struct blob_world *w = *state;
    static const uint64_t rows[] = {11, 6, 1, 2};
    static const pennon_blob_range ranges[] = {{0, 90, 10}, {0, 0, 5},           {1, 33, 0},  {1, 3, PENNON_NONE},
                                               {2, 0, 0},   {3, 0, PENNON_NONE}, {0, 50, 20}, {0, 55, 20}};
    static const struct expected want[] = {{11, 90, 10}, {11, 0, 5}, {6, 33, 0},   {6, 3, 30},
                                           {1, 0, 0},    {2, 0, 0},  {11, 50, 20}, {11, 55, 20}};
    static const pennon_blob_range past[] = {{0, 90, 11}}, wrap[] = {{0, 5, UINT64_MAX - 2}}, behind[] = {{0, 101, PENNON_NONE}},
                                   none[] = {{4, 0, 0}};
    const pennon_blob_range *const bad[] = {past, wrap, behind};
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    pennon_blob_read_options o;
    pennon_blob_read_options_init(&o);
    o.call = &w->call;
    pennon_blobs *b = blob_take(w, "b", PENNON_TAKE_OFFSETS, 4, rows);
    const uint64_t before = bytes_read(w);
    blob_ok(w, pennon_blobs_read_ranges(b, ARRAY_LEN(ranges), ranges, &o, &stream, &w->err));
    expect_stream(w, &stream, want, ARRAY_LEN(want), UINT64_MAX);
    assert_true(bytes_read(w) - before <= 135); /* once a byte, and what lies between */
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        blob_ok(w, pennon_blobs_read_ranges(b, 1, bad[i], &o, &stream, &w->err));
        blob_fails(w, stream_next(&stream, &batch, &w->err), PENNON_INVALID_ARGUMENT, "exceeds blob size 100");
        stream_release(&stream);
    }
    blob_fails(w, pennon_blobs_read_ranges(b, 1, none, &o, &stream, &w->err), PENNON_INVALID_ARGUMENT, "blob 4 of a list of 4");
    blob_ok(w, pennon_blobs_read_ranges(b, 0, NULL, &o, &stream, &w->err));
    expect_stream(w, &stream, NULL, 0, 0);
    pennon_blobs_free(b);
}

static void test_blobs_read__budget_and_cancel(void **state)
{
    struct blob_world *w = *state;
    static const uint64_t rows[] = {11, 6};
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    pennon_blob_read_options o;
    pennon_call call = w->call;
    size_t got;
    char byte;
    pennon_blobs *b = blob_take(w, "b", PENNON_TAKE_OFFSETS, 2, rows);
    pennon_blob_read_options_init(&o);
    o.call = &call;
    blob_ok(w, pennon_budget_new(w->runtime, 300, &call.budget, &w->err));
    pennon_status st = pennon_blobs_read(b, &o, &stream, &w->err);
    if (st == PENNON_OK) {
        st = stream_next(&stream, &batch, &w->err);
        stream_release(&stream);
    }
    assert_int_equal(st, PENNON_OVER_BUDGET);
    pennon_error_clear(&w->err);
    pennon_budget_free(call.budget);
    call = w->call;
    blob_ok(w, pennon_cancel_new(&call.cancel, &w->err));
    blob_ok(w, pennon_blobs_read(b, &o, &stream, &w->err));
    pennon_cancel_fire(call.cancel);
    assert_int_equal(stream_next(&stream, &batch, &w->err), PENNON_CANCELLED);
    assert_int_equal(pennon_blob_read_at(b, 0, 0, 1, &byte, &call, &got, &w->err), PENNON_CANCELLED);
    stream_release(&stream);
    pennon_cancel_free(call.cancel);
    pennon_blobs_free(b);
}

static void test_blobs_list__table(void **state)
{
    struct blob_world *w = *state;
    static const uint64_t rows[] = {11, 1, 2};
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    pennon_blobs *b = blob_take(w, "b", PENNON_TAKE_OFFSETS, 3, rows);
    blob_ok(w, pennon_blobs_list(b, &w->call, &stream, &w->err));
    blob_ok(w, stream_schema(&stream, &schema, &w->err));
    blob_ok(w, stream_next(&stream, &batch, &w->err));
    blob_ok(w, array_validate(&schema, &batch, ARRAY_VALIDATE_FULL, &w->err));
    assert_int_equal(batch.length, 3);
    assert_int_equal(((const uint64_t *)batch.children[1]->buffers[1])[0], 11);
    assert_int_equal(((const uint64_t *)batch.children[3]->buffers[1])[0], 100);
    assert_false(bit_get(batch.children[3]->buffers[0], 1));
    assert_true(bit_get(batch.children[3]->buffers[0], 2));
    array_release(&batch);
    arrow_schema_release(&schema);
    stream_release(&stream);
    pennon_blobs_free(b);
}

/* ---- damage ---- */

#define PATHS_BYTES ((size_t)32000)

static bool note_sidecar(void *ctx, const pennon_object_info *info)
{
    char *paths = ctx;
    if (strstr(info->path, ".blob")) (void)snprintf(paths + strlen(paths), PATHS_BYTES - strlen(paths), "%s\n", info->path);
    return true;
}

/* Sidecars that are gone or shorter than their descriptors say. */
static void test_blobs_read__damaged(void **state)
{
    struct blob_world *w = *state;
    uint64_t rows[BLOB_ROWS];
    char *paths = calloc(1, PATHS_BYTES);
    struct snapshot *s;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    pennon_blobs *b;
    size_t got, failures = 0;
    uint8_t bytes[128];
    assert_non_null(paths);
    for (size_t i = 0; i < BLOB_ROWS; i++) rows[i] = i;
    dataset_get(w->ds, &s, NULL);
    blob_ok(w, pennon_store_list(s->at.store, &w->call, "blobs/t/data", true, note_sidecar, paths, &w->err));
    bool removed = false;
    for (char *at = paths, *end; *at; at = end + 1, removed = !removed) {
        end = strchr(at, '\n');
        *end = '\0';
        if (removed) blob_ok(w, pennon_store_put(s->at.store, &w->call, at, "short", 5, 0, &w->err));
        if (!removed) blob_ok(w, pennon_store_delete(s->at.store, &w->call, at, &w->err));
    }
    free(paths);
    b = blob_take(w, "b", PENNON_TAKE_OFFSETS, BLOB_ROWS, rows);
    for (size_t i = 0; i < BLOB_ROWS; i++) {
        const pennon_status st = pennon_blob_read_at(b, i, 0, 128, bytes, &w->call, &got, &w->err);
        if (blob_world_size((int64_t)i) <= 8) {
            assert_int_equal(st, PENNON_OK);
            continue;
        }
        assert_int_equal(st, PENNON_CORRUPT);
        assert_non_null(strstr(w->err.file, ".blob"));
        assert_true(strstr(w->err.message, "is missing") || strstr(w->err.message, "which has 5"));
        pennon_error_clear(&w->err);
        failures++;
    }
    assert_true(failures > 20);
    blob_ok(w, pennon_blobs_read(b, NULL, &stream, &w->err));
    assert_int_equal(stream_next(&stream, &batch, &w->err), PENNON_CORRUPT);
    stream_release(&stream);
    pennon_blobs_free(b);
    snapshot_release(s);
}

/* Descriptors stand plainly in the page: u8 kind, u64 position, u64 size, u32 id, and the length of the URI. */
static uint8_t *find_descriptor(uint8_t *file, size_t size, uint8_t kind, uint64_t bytes)
{
    for (size_t i = 0; i + 25 <= size; i++) {
        const uint64_t position = load_u64(file + i + 1);
        const uint32_t id = load_u32(file + i + 17);
        if (file[i] != kind || load_u64(file + i + 9) != bytes || load_u32(file + i + 21) != 0) continue;
        if (kind == 0 ? id == 0 && position >= 64 && position % 64 == 0 && position < size : id > 0 && id < 99 && position < 99)
            return file + i;
    }
    fail_msg("no descriptor of %llu bytes", (unsigned long long)bytes);
    return NULL;
}

static bool note_data_file(void *ctx, const pennon_object_info *info)
{
    if (strstr(info->path, ".lance")) (void)snprintf(ctx, 200, "%s", info->path);
    return true;
}

/* What a descriptor says of the data file is checked when the blob is taken, what it says of others when it is read; nothing is allocated for it. */
static void test_blobs_take__lies(void **state)
{
    struct blob_world *w = *state;
    static const struct {
        uint8_t kind;
        uint64_t bytes;
        size_t at, n;
        uint64_t value;
        bool early;
        pennon_status st;
        const char *text;
    } lies[] = {
        {0, 3, 0, 1, 9, true, PENNON_CORRUPT, "a blob of kind 9"},
        {0, 3, 0, 1, 1, true, PENNON_CORRUPT, "sidecar 0"},
        {0, 3, 0, 1, 5, true, PENNON_NOT_SUPPORTED, "managed"},
        {0, 3, 0, 1, 3, true, PENNON_CORRUPT, "URI is empty"},
        {0, 3, 1, 8, 1 << 20, true, PENNON_CORRUPT, "a blob of 3 bytes at 1048576 of"},
        {0, 3, 1, 8, UINT64_MAX, true, PENNON_CORRUPT, "a blob of 3 bytes at 18446744073709551615"},
        {0, 3, 9, 8, UINT64_C(1) << 50, true, PENNON_CORRUPT, "a blob of 1125899906842624 bytes"},
        {1, 32, 9, 8, UINT64_C(1) << 50, false, PENNON_CORRUPT, "a blob of 1125899906842624 bytes"},
        {1, 32, 1, 8, UINT64_C(1) << 50, false, PENNON_CORRUPT, "at 1125899906842624 of"},
        {1, 32, 17, 4, 99, false, PENNON_CORRUPT, "is missing"},
        {2, 40, 9, 8, 41, false, PENNON_CORRUPT, "which has 40"},
    };
    struct snapshot *s;
    pennon_object_info info;
    char path[200] = "";
    static uint8_t file[1 << 16];
    uint64_t rows[BLOB_ROWS];
    dataset_get(w->ds, &s, NULL);
    for (size_t i = 0; i < BLOB_ROWS; i++) rows[i] = i;
    blob_ok(w, pennon_store_list(s->at.store, &w->call, "blobs/t/data", true, note_data_file, path, &w->err));
    blob_ok(w, pennon_store_head(s->at.store, &w->call, path, &info, &w->err));
    assert_true(info.size <= sizeof file);
    const pennon_range all = {0, info.size, file};
    blob_ok(w, pennon_store_read_ranges(s->at.store, &w->call, path, 1, &all, &w->err));
    for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
        uint8_t truth[8], *at = find_descriptor(file, (size_t)info.size, lies[i].kind, lies[i].bytes) + lies[i].at;
        struct ArrowArrayStream stream;
        struct ArrowArray batch;
        pennon_blobs *b = NULL;
        memcpy(truth, at, lies[i].n);
        for (size_t k = 0; k < lies[i].n; k++) at[k] = (uint8_t)(lies[i].value >> 8 * k);
        blob_ok(w, pennon_store_put(s->at.store, &w->call, path, file, (size_t)info.size, 0, &w->err));
        pennon_dataset *ds = blob_world_open(w);
        pennon_status st = PENNON_OK;
        bool early = true;
        /* The descriptor may be one of either column. */
        for (int k = 0; k < 2 && st == PENNON_OK; k++) {
            b = NULL;
            st = pennon_dataset_take_blobs(ds, k ? "s.b" : "b", PENNON_TAKE_OFFSETS, BLOB_ROWS, rows, &w->call, &b, &w->err);
            early = st != PENNON_OK;
            if (st == PENNON_OK) {
                blob_ok(w, pennon_blobs_read(b, NULL, &stream, &w->err));
                st = stream_next(&stream, &batch, &w->err);
                array_release(&batch);
                stream_release(&stream);
            }
            pennon_blobs_free(b);
        }
        assert_non_null(w->err.file);
        blob_fails(w, st, lies[i].st, lies[i].text);
        assert_int_equal(early, lies[i].early);
        pennon_dataset_free(ds);
        memcpy(at, truth, lies[i].n);
    }
    snapshot_release(s);
}

#define BOTH(test)                                                       \
    cmocka_unit_test_setup_teardown(test, blob_setup_v1, blob_teardown), \
        cmocka_unit_test_setup_teardown(test, blob_setup_v2, blob_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_blobs_take__offsets),
        cmocka_unit_test_setup_teardown(test_blobs_take__nested, blob_setup_v2, blob_teardown),
        BOTH(test_blobs_take__deleted),
        cmocka_unit_test_setup_teardown(test_blobs_take__deleted, blob_setup_v1_stable, blob_teardown),
        cmocka_unit_test_setup_teardown(test_blobs_take__deleted, blob_setup_v2_stable, blob_teardown),
        BOTH(test_blobs_take__refused),
        BOTH(test_blobs_read__parts),
        BOTH(test_blobs_read__outlive),
        BOTH(test_blobs_read__threads),
        BOTH(test_blobs_read__bulk),
        BOTH(test_blobs_read__ranges),
        BOTH(test_blobs_read__budget_and_cancel),
        BOTH(test_blobs_list__table),
        cmocka_unit_test_setup_teardown(test_blobs_take__lies, blob_setup_v2, blob_teardown),
        cmocka_unit_test_setup_teardown(test_blobs_read__damaged, blob_setup_v2, blob_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
