/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the tests of blobs in tables share: a table in memory with a blob column, and in version 2 another one in a struct, in three fragments.
 *
 *   id  int64, 0 …          b  blob          s  struct<b: blob>, null in every seventh row
 * The value of row i has blob_world_size(i) bytes, byte k is blob_world_byte(i, k). Thresholds of v2 are 8, 32 and 64 bytes. */
#ifndef TESTS_BLOB_WORLD_H
#define TESTS_BLOB_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "arrow/arrow.h"
#include "dataset/dataset.h"
#include "pennon/pennon.h"

#define BLOB_URI "memory://blobs/t"
#define BLOB_ROWS 60
#define BLOB_FILE_ROWS 20
#define BLOB_NULL (-1)

struct blob_world {
    pennon_runtime *runtime;
    pennon_call call;
    pennon_error err;
    struct mem *mem;
    pennon_dataset *ds;
    bool v2, stable;
};

static inline void blob_ok(struct blob_world *w, pennon_status st)
{
    if (st != PENNON_OK) fail_msg("%s: %s", pennon_status_name(st), w->err.message);
}

static inline void blob_fails(struct blob_world *w, pennon_status st, pennon_status want, const char *message)
{
    if (st != want || !strstr(w->err.message, message))
        fail_msg("%s: %s, and not %s: %s", pennon_status_name(st), st ? w->err.message : "it succeeded", pennon_status_name(want),
                 message);
    pennon_error_clear(&w->err);
}

static inline int blob_world_size(int64_t i)
{
    static const int sizes[] = {3, BLOB_NULL, 0, 8, 9, 32, 33, 24, 40, 31, 1, 100};
    return sizes[i % (int64_t)ARRAY_LEN(sizes)];
}
static inline uint8_t blob_world_byte(int64_t i, int64_t k) { return (uint8_t)(i * 7 + k); }

static inline void blob_world_mark(struct blob_world *w, struct ArrowSchema *field)
{
    static const char *const pairs[][2] = {{"ARROW:extension:name", "lance.blob.v2"},
                                           {"lance-encoding:blob-inline-size-threshold", "8"},
                                           {"lance-encoding:blob-dedicated-size-threshold", "32"},
                                           {"lance-encoding:blob-pack-file-size-threshold", "64"}};
    for (size_t i = 0; w->v2 && i < ARRAY_LEN(pairs); i++)
        blob_ok(w, arrow_metadata_set(field, bytes_str(pairs[i][0]), bytes_str(pairs[i][1]), &w->err));
    if (!w->v2) blob_ok(w, arrow_metadata_set(field, bytes_str("lance-encoding:blob"), bytes_str("true"), &w->err));
}

static inline void blob_world_append(struct blob_world *w, struct builder *b, int64_t i)
{
    uint8_t bytes[128];
    const int size = blob_world_size(i);
    if (size == BLOB_NULL) {
        blob_ok(w, builder_append_null(b, &w->err));
        return;
    }
    for (int k = 0; k < size; k++) bytes[k] = blob_world_byte(i, k);
    blob_ok(w, builder_append_bytes(w->v2 ? builder_child(b, 0) : b, bytes_of(bytes, (size_t)size), &w->err));
    if (!w->v2) return;
    blob_ok(w, builder_append_null(builder_child(b, 1), &w->err));
    blob_ok(w, builder_append_row(b, &w->err));
}

static inline void blob_world_write(struct blob_world *w)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct ArrowArrayStream rows;
    pennon_write_options o;
    const char *text = w->v2 ? "struct<id: int64, b: struct<data: large_binary, uri: string>, s: struct<b: struct<data: "
                               "large_binary, uri: string>>>"
                             : "struct<id: int64, b: large_binary>";
    blob_ok(w, arrow_schema_from_text(bytes_str(text), "", w->mem, &schema, &w->err));
    blob_world_mark(w, schema.children[1]);
    if (w->v2) blob_world_mark(w, schema.children[2]->children[0]);
    struct builder *b = builder_new(&schema, w->mem, &w->err);
    assert_non_null(b);
    for (int64_t i = 0; i < BLOB_ROWS; i++) {
        struct builder *s = w->v2 ? builder_child(b, 2) : NULL;
        blob_ok(w, builder_append_int(builder_child(b, 0), i, &w->err));
        blob_world_append(w, builder_child(b, 1), i);
        if (!s) {
            blob_ok(w, builder_append_row(b, &w->err));
            continue;
        }
        if (i % 7 == 3) {
            blob_ok(w, builder_append_null(s, &w->err));
        } else {
            blob_world_append(w, builder_child(s, 0), i + 1);
            blob_ok(w, builder_append_row(s, &w->err));
        }
        blob_ok(w, builder_append_row(b, &w->err));
    }
    blob_ok(w, builder_finish(b, &batch, &w->err));
    builder_free(b);
    blob_ok(w, stream_from_arrays(&schema, &batch, 1, w->mem, &rows, &w->err));
    pennon_write_options_init(&o);
    o.call = &w->call;
    o.mode = PENNON_WRITE_OVERWRITE;
    o.max_rows_per_file = BLOB_FILE_ROWS;
    o.stable_row_ids = w->stable;
    o.storage_version = w->v2 ? "2.2" : "2.1";
    blob_ok(w, pennon_write(BLOB_URI, &rows, &o, NULL, &w->err));
}

static inline pennon_dataset *blob_world_open(struct blob_world *w)
{
    pennon_dataset *ds;
    pennon_open_options o;
    pennon_open_options_init(&o);
    o.call = &w->call;
    blob_ok(w, pennon_dataset_open(BLOB_URI, &o, &ds, &w->err));
    return ds;
}

static inline struct blob_world *blob_world_new(bool v2, bool stable)
{
    struct blob_world *w = calloc(1, sizeof *w);
    pennon_runtime_options runtime;
    assert_non_null(w);
    w->v2 = v2;
    w->stable = stable;
    pennon_error_init(&w->err);
    pennon_runtime_options_init(&runtime);
    runtime.threads = 4;
    blob_ok(w, pennon_runtime_new(&runtime, &w->runtime, &w->err));
    pennon_call_init(&w->call);
    w->call.runtime = w->runtime;
    w->mem = mem_new(NULL, UINT64_MAX, NULL, &w->err);
    assert_non_null(w->mem);
    blob_world_write(w);
    w->ds = blob_world_open(w);
    return w;
}

static inline int blob_setup_v1(void **state) { return (*state = blob_world_new(false, false)) == NULL; }
static inline int blob_setup_v2(void **state) { return (*state = blob_world_new(true, false)) == NULL; }
static inline int blob_setup_v1_stable(void **state) { return (*state = blob_world_new(false, true)) == NULL; }
static inline int blob_setup_v2_stable(void **state) { return (*state = blob_world_new(true, true)) == NULL; }

static inline int blob_teardown(void **state)
{
    struct blob_world *w = *state;
    pennon_dataset_free(w->ds);
    assert_int_equal(mem_used(w->mem), 0);
    mem_release(w->mem);
    pennon_runtime_free(w->runtime);
    pennon_error_clear(&w->err);
    free(w);
    return 0;
}

static inline pennon_blobs *blob_take(struct blob_world *w, const char *column, int32_t selector, size_t n, const uint64_t *rows)
{
    pennon_blobs *b = NULL;
    blob_ok(w, pennon_dataset_take_blobs(w->ds, column, selector, n, rows, &w->call, &b, &w->err));
    assert_int_equal(pennon_blobs_count(b), n);
    return b;
}

/* Blob k of the list is the value of row i. */
static inline void blob_expect(struct blob_world *w, pennon_blobs *b, size_t k, int64_t i)
{
    pennon_blob_info info = {.struct_size = sizeof info};
    uint8_t bytes[256];
    uint64_t size;
    size_t got;
    const int want = blob_world_size(i);
    blob_ok(w, pennon_blobs_info(b, k, &info, &w->err));
    blob_ok(w, pennon_blob_size(b, k, &w->call, &size, &w->err));
    assert_int_equal(info.is_null, want == BLOB_NULL);
    assert_int_equal(size, want == BLOB_NULL ? 0 : want);
    assert_int_equal(info.size, size);
    blob_ok(w, pennon_blob_read_at(b, k, 0, sizeof bytes, bytes, &w->call, &got, &w->err));
    assert_int_equal(got, size);
    for (size_t at = 0; at < got; at++) assert_int_equal(bytes[at], blob_world_byte(i, (int64_t)at));
}

#endif
