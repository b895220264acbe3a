/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The public verify calls: counts, scopes, options; and the rule of pennon_error.file, which every path of an error must keep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "arrow/arrow.h"
#include "pennon/pennon.h"

#define URI "memory://t/a.lance"
#define ROWS 100

struct world {
    pennon_runtime *runtime;
    pennon_call call;
    pennon_store *store;
    pennon_error err;
    struct mem *mem;
    char data[2][256];     /* paths of data files, in the store */
    char manifest[2][256]; /* the newest first */
    size_t n_data, n_manifests;
};

static void fine(struct world *w, pennon_status st)
{
    if (st != PENNON_OK) fail_msg("%s: %s", pennon_status_name(st), w->err.message);
}

static bool note(void *ctx, const pennon_object_info *info)
{
    struct world *w = ctx;
    const char *end = strrchr(info->path, '.');
    bool data = end && strcmp(end, ".lance") == 0, manifest = end && strcmp(end, ".manifest") == 0;
    assert_true(strlen(info->path) < sizeof w->data[0]);
    if (data && w->n_data < 2) memcpy(w->data[w->n_data++], info->path, strlen(info->path) + 1);
    if (manifest && w->n_manifests < 2) memcpy(w->manifest[w->n_manifests++], info->path, strlen(info->path) + 1);
    return true;
}

/* struct<i: int64> of ROWS rows, as a new table or behind an old one. */
static void write_rows(struct world *w, int32_t mode)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct ArrowArrayStream stream;
    pennon_write_options o;
    fine(w, arrow_schema_from_text(bytes_str("struct<i: int64>"), "", w->mem, &schema, &w->err));
    schema.flags = 0;
    struct builder *b = builder_new(&schema, w->mem, &w->err);
    assert_non_null(b);
    for (int64_t i = 0; i < ROWS; i++) {
        fine(w, builder_append_int(builder_child(b, 0), i * i, &w->err));
        fine(w, builder_append_row(b, &w->err));
    }
    fine(w, builder_finish(b, &batch, &w->err));
    builder_free(b);
    fine(w, stream_from_arrays(&schema, &batch, 1, w->mem, &stream, &w->err));
    pennon_write_options_init(&o);
    o.call = &w->call;
    o.mode = mode;
    fine(w, pennon_write(URI, &stream, &o, NULL, &w->err));
    if (stream.release) stream.release(&stream);
    arrow_schema_release(&schema);
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
    fine(w, pennon_runtime_new(&ro, &w->runtime, &w->err));
    pennon_call_init(&w->call);
    w->call.runtime = w->runtime;
    pennon_store_options_init(&so);
    so.call = &w->call;
    fine(w, pennon_store_open("memory://", &so, &w->store, &w->err));
    w->mem = mem_new(NULL, UINT64_MAX, NULL, &w->err);
    assert_non_null(w->mem);
    write_rows(w, PENNON_WRITE_CREATE);
    write_rows(w, PENNON_WRITE_APPEND);
    fine(w, pennon_store_list(w->store, &w->call, "t/a.lance", true, note, w, &w->err));
    assert_int_equal(w->n_data, 2);
    assert_int_equal(w->n_manifests, 2);
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

static void spoil(struct world *w, const char *path)
{
    static const char junk[] = "no file of any kind, only some bytes that are long enough to be looked at";
    fine(w, pennon_store_put(w->store, &w->call, path, junk, sizeof junk, 0, &w->err));
}

static pennon_dataset *open_table(struct world *w, uint64_t version)
{
    pennon_dataset *ds = NULL;
    pennon_open_options o;
    pennon_open_options_init(&o);
    o.call = &w->call;
    o.version = version;
    fine(w, pennon_dataset_open(URI, &o, &ds, &w->err));
    return ds;
}

/* What was found, the last one in full. */
struct found {
    size_t n;
    char file[256], uri[256];
    uint64_t version;
};

static void keep(void *ctx, const pennon_error *e)
{
    struct found *f = ctx;
    f->n++;
    f->version = e->version;
    assert_non_null(e->file);
    assert_non_null(e->uri);
    assert_true(strlen(e->file) < sizeof f->file && strlen(e->uri) < sizeof f->uri);
    memcpy(f->file, e->file, strlen(e->file) + 1);
    memcpy(f->uri, e->uri, strlen(e->uri) + 1);
}

static uint64_t verify(struct world *w, pennon_dataset *ds, int32_t scope, struct found *f, pennon_verify_counts *counts)
{
    pennon_verify_options o;
    *f = (struct found){0};
    *counts = (pennon_verify_counts){.struct_size = sizeof *counts};
    pennon_verify_options_init(&o);
    o.call = &w->call;
    o.scope = scope;
    o.finding = keep;
    o.ctx = f;
    fine(w, pennon_dataset_verify(ds, &o, counts, &w->err));
    assert_int_equal(counts->struct_size, sizeof *counts);
    assert_int_equal(counts->findings, f->n);
    return f->n;
}

/* Path below the table's folder. */
static const char *below(const char *path)
{
    assert_memory_equal(path, "t/a.lance/", 10);
    return path + 10;
}

/* ---- counts and scopes ---- */

static void test_verify_counts__scopes(void **state)
{
    struct world *w = *state;
    struct found f;
    pennon_verify_counts c;
    pennon_dataset *ds = open_table(w, PENNON_NONE);
    static const uint64_t versions[] = {1, 2, 2};
    for (int32_t scope = PENNON_VERIFY_VERSION; scope <= PENNON_VERIFY_ALL; scope++) {
        assert_int_equal(verify(w, ds, scope, &f, &c), 0);
        assert_int_equal(c.versions, versions[scope]);
        assert_int_equal(c.branches, 1);
        /* The first fragment is the same in both versions. */
        assert_int_equal(c.fragments, 2);
        assert_int_equal(c.data_files, 2);
        assert_int_equal(c.pages, 2);
        assert_int_equal(c.rows, 2 * ROWS);
    }
    pennon_dataset_free(ds);
    ds = open_table(w, 1);
    assert_int_equal(verify(w, ds, PENNON_VERIFY_VERSION, &f, &c), 0);
    assert_int_equal(c.fragments, 1);
    pennon_dataset_free(ds);
}

static void test_verify_options__are_checked(void **state)
{
    struct world *w = *state;
    pennon_dataset *ds = open_table(w, PENNON_NONE);
    pennon_verify_options o;
    struct {
        size_t size;
        uint64_t findings, guard;
    } small = {.size = sizeof(size_t) + sizeof(uint64_t), .findings = 77, .guard = 88};
    pennon_verify_counts c = {.struct_size = 3};
    pennon_verify_options_init(&o);
    /* A caller of less fields gets less. */
    fine(w, pennon_dataset_verify(ds, &o, (pennon_verify_counts *)(void *)&small, &w->err));
    assert_int_equal(small.findings, 0);
    assert_int_equal(small.guard, 88);
    fine(w, pennon_dataset_verify(ds, NULL, NULL, NULL));
    assert_int_equal(pennon_dataset_verify(ds, &o, &c, &w->err), PENNON_INVALID_ARGUMENT);
    o.scope = 3;
    assert_int_equal(pennon_dataset_verify(ds, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT);
    o.scope = -1;
    assert_int_equal(pennon_dataset_verify(ds, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_dataset_verify(NULL, NULL, NULL, &w->err), PENNON_INVALID_ARGUMENT);
    pennon_dataset_free(ds);
}

static void test_verify_all__old_version(void **state)
{
    struct world *w = *state;
    struct found f;
    pennon_verify_counts c;
    pennon_dataset *ds = open_table(w, PENNON_NONE);
    spoil(w, w->manifest[1]);
    assert_int_equal(verify(w, ds, PENNON_VERIFY_VERSION, &f, &c), 0);
    assert_int_equal(verify(w, ds, PENNON_VERIFY_ALL, &f, &c), 1);
    assert_string_equal(f.file, below(w->manifest[1]));
    assert_string_equal(f.uri, URI);
    assert_int_equal(f.version, 1);
    pennon_dataset_free(ds);
}

/* ---- where an error says that it is ---- */

static void test_error_file__open(void **state)
{
    struct world *w = *state;
    pennon_dataset *ds = NULL;
    pennon_open_options o;
    spoil(w, w->manifest[0]);
    pennon_open_options_init(&o);
    o.call = &w->call;
    assert_int_equal(pennon_dataset_open(URI, &o, &ds, &w->err), PENNON_CORRUPT);
    assert_string_equal(w->err.file, below(w->manifest[0]));
    assert_string_equal(w->err.uri, URI);
    assert_int_equal(w->err.version, 2);
}

static void test_error_file__verify_scan_take(void **state)
{
    struct world *w = *state;
    struct found f;
    pennon_verify_counts c;
    pennon_scan_options so;
    pennon_take_options to;
    struct ArrowArrayStream stream = {0};
    struct ArrowArray batch = {0};
    const uint64_t rows[] = {0, ROWS};
    pennon_dataset *ds = open_table(w, PENNON_NONE);
    for (size_t i = 0; i < w->n_data; i++) spoil(w, w->data[i]);
    assert_int_equal(verify(w, ds, PENNON_VERIFY_ALL, &f, &c), 2);
    assert_true(strcmp(f.file, below(w->data[0])) == 0 || strcmp(f.file, below(w->data[1])) == 0);
    pennon_scan_options_init(&so);
    so.call = &w->call;
    fine(w, pennon_scan(ds, &so, &stream, &w->err));
    assert_int_not_equal(stream.get_next(&stream, &batch), 0);
    assert_int_equal(pennon_stream_error(&stream, &w->err), PENNON_CORRUPT);
    assert_true(strcmp(w->err.file, below(w->data[0])) == 0 || strcmp(w->err.file, below(w->data[1])) == 0);
    stream.release(&stream);
    pennon_take_options_init(&to);
    to.call = &w->call;
    assert_int_equal(pennon_dataset_take(ds, PENNON_TAKE_OFFSETS, 2, rows, &to, &stream, &w->err), PENNON_CORRUPT);
    assert_true(strcmp(w->err.file, below(w->data[0])) == 0 || strcmp(w->err.file, below(w->data[1])) == 0);
    pennon_dataset_free(ds);
}

/* A file by itself, and an object of a store, are in no dataset. */
static void test_error_file__alone(void **state)
{
    struct world *w = *state;
    pennon_file_options o;
    pennon_file *f = NULL;
    pennon_object_info info;
    char uri[300] = "memory://";
    strncat(uri, w->data[0], sizeof uri - 10);
    spoil(w, w->data[0]);
    pennon_file_options_init(&o);
    o.call = &w->call;
    assert_int_equal(pennon_file_open(uri, &o, &f, &w->err), PENNON_CORRUPT);
    assert_string_equal(w->err.file, uri);
    assert_int_equal(pennon_store_head(w->store, &w->call, "no/where", &info, &w->err), PENNON_NOT_FOUND);
    assert_string_equal(w->err.file, "memory://no/where");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_verify_counts__scopes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_verify_options__are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_verify_all__old_version, setup, teardown),
        cmocka_unit_test_setup_teardown(test_error_file__open, setup, teardown),
        cmocka_unit_test_setup_teardown(test_error_file__verify_scan_take, setup, teardown),
        cmocka_unit_test_setup_teardown(test_error_file__alone, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
