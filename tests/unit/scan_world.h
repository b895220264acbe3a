/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the tests of scans share: a table of many types in memory, some rows deleted, some columns missing in its last fragments; scans
 * of it as one batch.
 *
 *   id  int64, 0 …          m  int64, 0 … 9999 at random, one in eleven null    f  double, nullable
 *   s   string              l  list<int32>         st  struct<x: int64, y: string>         j  JSON
 * s, st and j are missing in the rows that are appended last. */
#ifndef TESTS_SCAN_WORLD_H
#define TESTS_SCAN_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "arrow/arrow.h"
#include "dataset/dataset.h"
#include "pennon/pennon.h"
#include "table/commit_private.h"

#define SCAN_URI "memory://scan/t"
#define SCAN_ROWS 21000
#define SCAN_APPENDED 3000
#define SCAN_FILE_ROWS 6000

struct scan_world {
    pennon_runtime *runtime;
    pennon_call call;
    pennon_error err;
    struct mem *mem;
    pennon_dataset *ds;
    struct ArrowSchema schema; /* of all */
    struct ArrowArray all;     /* a plain scan with _rowid, _rowaddr, _rowoffset at the end */
    int64_t deleted;
};

static inline void scan_ok(struct scan_world *w, pennon_status st)
{
    if (st != PENNON_OK) fail_msg("%s: %s", pennon_status_name(st), w->err.message);
}

static inline void scan_fails(struct scan_world *w, pennon_status st, pennon_status want, const char *message)
{
    if (st != want || !strstr(w->err.message, message))
        fail_msg("%s: %s, and not %s: %s", pennon_status_name(st), st ? w->err.message : "it succeeded", pennon_status_name(want),
                 message);
    pennon_error_clear(&w->err);
}

static inline uint64_t scan_mixed(int64_t i, uint64_t salt)
{
    uint64_t z = (uint64_t)i * UINT64_C(0x9E3779B97F4A7C15) + salt * UINT64_C(0xD1B54A32D192ED03);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    return z ^ (z >> 27);
}

/* ---- rows ---- */

static inline void scan_append_text(struct scan_world *w, struct builder *b, const char *form, int64_t i)
{
    char text[96];
    const int n = snprintf(text, sizeof text, form, (long long)i);
    scan_ok(w, builder_append_bytes(b, bytes_of(text, (size_t)n), &w->err));
}

static inline void scan_append_list(struct scan_world *w, struct builder *b, int64_t i)
{
    const uint64_t n = scan_mixed(i, 3) % 5;
    if (n == 4) {
        scan_ok(w, builder_append_null(b, &w->err));
        return;
    }
    for (uint64_t k = 0; k < n; k++) scan_ok(w, builder_append_int(builder_child(b, 0), i + (int64_t)k, &w->err));
    scan_ok(w, builder_append_row(b, &w->err));
}

static inline void scan_append_row(struct scan_world *w, struct builder *b, int64_t i, bool whole)
{
    size_t at = 0;
    scan_ok(w, builder_append_int(builder_child(b, at++), i, &w->err));
    struct builder *m = builder_child(b, at++), *f = builder_child(b, at++);
    const bool null = scan_mixed(i, 7) % 11 == 0;
    scan_ok(w, null ? builder_append_null(m, &w->err) : builder_append_int(m, (int64_t)(scan_mixed(i, 1) % 10000), &w->err));
    scan_ok(w, i % 13 == 5 ? builder_append_null(f, &w->err)
                           : builder_append_double(f, (double)(scan_mixed(i, 2) % 1000) / 8, &w->err));
    scan_append_list(w, builder_child(b, at++), i);
    if (whole) {
        struct builder *s = builder_child(b, at++), *st = builder_child(b, at++), *j = builder_child(b, at);
        scan_append_text(w, s, "a text of row %lld, long enough to be no number", i);
        if (i % 17 == 0) {
            scan_ok(w, builder_append_null(st, &w->err));
        } else {
            scan_ok(w, builder_append_int(builder_child(st, 0), (int64_t)(scan_mixed(i, 4) % 100), &w->err));
            scan_append_text(w, builder_child(st, 1), "y%lld", i % 50);
            scan_ok(w, builder_append_row(st, &w->err));
        }
        scan_append_text(w, j, "{\"a\":%lld}", i);
    }
    scan_ok(w, builder_append_row(b, &w->err));
}

static inline void scan_make_rows(struct scan_world *w, int64_t first, int64_t n, bool whole, struct ArrowArrayStream *out)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    const char *text =
        whole
            ? "struct<id: int64, m: int64, f: double, l: list<item: int32>, s: string, st: struct<x: int64, y: string>, j: string>"
            : "struct<id: int64, m: int64, f: double, l: list<item: int32>>";
    scan_ok(w, arrow_schema_from_text(bytes_str(text), "", w->mem, &schema, &w->err));
    if (whole) {
        scan_ok(w, arrow_metadata_set(schema.children[6], bytes_str("ARROW:extension:name"), bytes_str("arrow.json"), &w->err));
    }
    struct builder *b = builder_new(&schema, w->mem, &w->err);
    assert_non_null(b);
    for (int64_t i = first; i < first + n; i++) scan_append_row(w, b, i, whole);
    scan_ok(w, builder_finish(b, &batch, &w->err));
    builder_free(b);
    scan_ok(w, stream_from_arrays(&schema, &batch, 1, w->mem, out, &w->err));
}

static inline void scan_write(struct scan_world *w, int64_t first, int64_t n, bool whole, bool stable)
{
    struct ArrowArrayStream rows;
    pennon_write_options o;
    pennon_write_options_init(&o);
    o.call = &w->call;
    o.mode = whole ? PENNON_WRITE_OVERWRITE : PENNON_WRITE_APPEND;
    o.max_rows_per_file = SCAN_FILE_ROWS;
    o.stable_row_ids = stable;
    scan_make_rows(w, first, n, whole, &rows);
    scan_ok(w, pennon_write(SCAN_URI, &rows, &o, NULL, &w->err));
}

/* ---- deletions ---- */

/* Every row of the second fragment that is divisible by `each`, and the first 100 of the last. */
static inline void scan_delete(struct scan_world *w, int64_t each)
{
    struct snapshot *s;
    struct call c;
    struct buf inner, outer;
    struct fragment_message changed[2];
    struct deletion_file_message files[2];
    pennon_transaction *t;
    dataset_get(w->ds, &s, NULL);
    scan_ok(w, call_begin(&c, &w->call, &w->err));
    scan_ok(w, snapshot_load_fragments(s, &w->err));
    for (size_t k = 0; k < 2; k++) {
        const struct fragment *f = &s->fragments[k ? s->n_fragments - 1 : 1];
        struct id_set rows;
        char *path;
        id_set_init(&rows, w->mem);
        for (uint32_t i = 0; i < (k ? 100 : f->physical_rows); i += k ? 1 : (uint32_t)each)
            scan_ok(w, id_set_add(&rows, i, &w->err));
        w->deleted += (int64_t)id_set_count(&rows);
        scan_ok(w, deletion_file_write(&c, &s->at, f->id, s->version, &rows, &files[k], &path, &w->err));
        mem_free(c.mem, path);
        id_set_free(&rows);
        changed[k] = *f->message;
        changed[k].deletion_file = &files[k];
    }
    struct delete_message message = {.updated_fragments = changed, .n_updated_fragments = 2, .predicate = bytes_str("some")};
    struct transaction_message whole = {.read_version = s->version, .uuid = bytes_str("6dd8a1e6-7d0c-4ac5-8a6d-1d0a3a0a4b11")};
    buf_init(&inner, w->mem, BUF_NO_LIMIT);
    buf_init(&outer, w->mem, BUF_NO_LIMIT);
    scan_ok(w, wire_encode(&delete_table, &message, &inner, &w->err));
    whole.which = OPERATION_DELETE;
    whole.operation[OPERATION_DELETE - OPERATION_APPEND] = bytes_of(inner.data, inner.size);
    scan_ok(w, wire_encode(&transaction_table, &whole, &outer, &w->err));
    scan_ok(w, pennon_transaction_from_bytes(outer.data, outer.size, &t, &w->err));
    pennon_commit_options o;
    pennon_commit_options_init(&o);
    o.call = &w->call;
    scan_ok(w, pennon_dataset_commit(w->ds, t, &o, NULL, &w->err));
    pennon_transaction_free(t);
    buf_free(&inner);
    buf_free(&outer);
    snapshot_release(s);
    call_end(&c);
}

/* ---- scans ---- */

static inline pennon_scan_options scan_options(struct scan_world *w)
{
    pennon_scan_options o;
    pennon_scan_options_init(&o);
    o.call = &w->call;
    return o;
}

/* All rows as one batch; *batches may be NULL. */
static inline pennon_status scan_try(struct scan_world *w, const pennon_scan_options *o, struct ArrowSchema *schema,
                                     struct ArrowArray *out, size_t *batches)
{
    struct ArrowArrayStream stream = {0};
    struct ArrowArray parts[4096];
    const struct ArrowArray *list[4096];
    size_t n = 0;
    *schema = (struct ArrowSchema){0};
    *out = (struct ArrowArray){0};
    pennon_status st = pennon_scan(w->ds, o, &stream, &w->err);
    if (st != PENNON_OK) return st;
    scan_ok(w, stream_schema(&stream, schema, &w->err));
    for (;;) {
        st = stream_next(&stream, &parts[n], &w->err);
        if (st != PENNON_OK || !parts[n].release) break;
        assert_true(parts[n].length > 0);
        if (o->batch_rows) assert_true((uint64_t)parts[n].length <= o->batch_rows);
        scan_ok(w, array_validate(schema, &parts[n], ARRAY_VALIDATE_FULL, &w->err));
        list[n] = &parts[n];
        n++;
        assert_true(n < 4096);
    }
    stream_release(&stream);
    if (batches) *batches = n;
    if (st == PENNON_OK) {
        scan_ok(w, n ? array_concat(schema, n, list, w->mem, out, &w->err) : array_nulls(schema, 0, w->mem, out, &w->err));
    } else {
        arrow_schema_release(schema);
    }
    for (size_t i = 0; i < n; i++) array_release(&parts[i]);
    return st;
}

static inline void scan_rows(struct scan_world *w, const pennon_scan_options *o, struct ArrowSchema *schema, struct ArrowArray *out)
{
    scan_ok(w, scan_try(w, o, schema, out, NULL));
}

static const char *const scan_columns[] = {"id", "m", "f", "l", "s", "st", "j", "_rowid", "_rowaddr", "_rowoffset"};
enum { SCAN_ID, SCAN_M, SCAN_F, SCAN_L, SCAN_S, SCAN_ST, SCAN_J, SCAN_ROWID, SCAN_ROWADDR, SCAN_ROWOFFSET };
static const pennon_names scan_names = {sizeof scan_columns / sizeof *scan_columns, scan_columns};

static inline void scan_open_world(struct scan_world *w, bool stable, uint32_t threads)
{
    pennon_runtime_options runtime;
    pennon_open_options open;
    pennon_error_init(&w->err);
    pennon_runtime_options_init(&runtime);
    runtime.threads = threads;
    scan_ok(w, pennon_runtime_new(&runtime, &w->runtime, &w->err));
    pennon_call_init(&w->call);
    w->call.runtime = w->runtime;
    w->mem = mem_new(NULL, UINT64_MAX, NULL, &w->err);
    assert_non_null(w->mem);
    scan_write(w, 0, SCAN_ROWS - SCAN_APPENDED, true, stable);
    scan_write(w, SCAN_ROWS - SCAN_APPENDED, SCAN_APPENDED, false, stable);
    pennon_open_options_init(&open);
    open.call = &w->call;
    scan_ok(w, pennon_dataset_open(SCAN_URI, &open, &w->ds, &w->err));
    scan_delete(w, 3);
    pennon_scan_options o = scan_options(w);
    o.columns = &scan_names;
    scan_rows(w, &o, &w->schema, &w->all);
    assert_int_equal(w->all.length, SCAN_ROWS - w->deleted);
}

static inline void scan_close_world(struct scan_world *w)
{
    array_release(&w->all);
    arrow_schema_release(&w->schema);
    pennon_dataset_free(w->ds);
    assert_int_equal(mem_used(w->mem), 0);
    mem_release(w->mem);
    pennon_runtime_free(w->runtime);
    pennon_error_clear(&w->err);
    free(w);
}

static inline int scan_setup(void **state)
{
    struct scan_world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    scan_open_world(w, false, 4);
    *state = w;
    return 0;
}
static inline int scan_setup_stable(void **state)
{
    struct scan_world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    scan_open_world(w, true, 4);
    *state = w;
    return 0;
}
static inline int scan_teardown(void **state)
{
    scan_close_world(*state);
    return 0;
}

/* ---- the rows that are expected ---- */

static inline int64_t scan_int(const struct ArrowArray *all, int column, int64_t row, bool *is_null)
{
    const struct ArrowArray *a = all->children[column];
    const uint8_t *valid = a->null_count ? a->buffers[0] : NULL;
    *is_null = valid && !bit_get(valid, (uint64_t)(a->offset + row));
    return ((const int64_t *)a->buffers[1])[a->offset + row];
}

typedef bool (*scan_test_fn)(const struct ArrowArray *all, int64_t row, int64_t value);

static inline bool scan_m_below(const struct ArrowArray *all, int64_t row, int64_t value)
{
    bool null;
    const int64_t m = scan_int(all, SCAN_M, row, &null);
    return !null && m < value;
}

/* Numbers of the rows that pass; free with free. */
static inline uint64_t *scan_passing(struct scan_world *w, scan_test_fn test, int64_t value, size_t *n)
{
    uint64_t *rows = malloc(((size_t)w->all.length + 1) * sizeof *rows);
    assert_non_null(rows);
    *n = 0;
    for (int64_t i = 0; i < w->all.length; i++) {
        if (test(&w->all, i, value)) rows[(*n)++] = (uint64_t)i;
    }
    return rows;
}

/* The scan gives exactly these rows of `all`, in this order. */
static inline void scan_expect(struct scan_world *w, const pennon_scan_options *o, const uint64_t *rows, size_t n)
{
    struct ArrowSchema schema;
    struct ArrowArray got, want;
    scan_rows(w, o, &schema, &got);
    if ((size_t)got.length != n) fail_msg("%lld rows, not %zu", (long long)got.length, n);
    assert_true(arrow_schema_equal(&schema, &w->schema, 0));
    scan_ok(w, array_take(&w->schema, &w->all, rows, n, w->mem, &want, &w->err));
    assert_true(array_equal(&w->schema, &got, &want));
    array_release(&got);
    array_release(&want);
    arrow_schema_release(&schema);
}

#endif
