/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Group commit seen from outside: every row once, each caller told its version, faults and impatience of one caller left with that caller. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "arrow/arrow.h"
#include "pennon/pennon.h"

#define WRITERS 8
#define APPENDS 25
#define ROWS 3
#define SCHEMA "struct<id: int64, s: string>"

struct world {
    pennon_runtime *runtime;
    pennon_call call;
    pennon_error err;
    struct mem *mem;
    struct ArrowSchema schema;
    pennon_dataset *ds;
};

static void assert_fine(pennon_status st, const pennon_error *err)
{
    if (st != PENNON_OK) fail_msg("%s: %s", pennon_status_name(st), err->message);
}

static void make_batch(struct world *w, int64_t first, int64_t n, struct ArrowArray *out)
{
    pennon_error err;
    pennon_error_init(&err);
    struct builder *b = builder_new(&w->schema, w->mem, &err);
    assert_non_null(b);
    for (int64_t i = first; i < first + n; i++) {
        assert_fine(builder_append_int(builder_child(b, 0), i, &err), &err);
        assert_fine(builder_append_bytes(builder_child(b, 1), bytes_str("text"), &err), &err);
        assert_fine(builder_append_row(b, &err), &err);
    }
    assert_fine(builder_finish(b, out, &err), &err);
    builder_free(b);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct ArrowArrayStream empty;
    struct ArrowSchema copy;
    pennon_write_options o;
    assert_non_null(w);
    pennon_error_init(&w->err);
    assert_fine(pennon_runtime_new(NULL, &w->runtime, &w->err), &w->err);
    pennon_call_init(&w->call);
    w->call.runtime = w->runtime;
    w->mem = mem_new(NULL, UINT64_MAX, NULL, &w->err);
    assert_non_null(w->mem);
    assert_fine(arrow_schema_from_text(bytes_str(SCHEMA), "", w->mem, &w->schema, &w->err), &w->err);
    w->schema.flags = 0;
    w->schema.children[0]->flags = 0; /* ids must not be null */
    assert_fine(arrow_schema_copy(&w->schema, w->mem, &copy, &w->err), &w->err);
    assert_fine(stream_from_arrays(&copy, NULL, 0, w->mem, &empty, &w->err), &w->err);
    pennon_write_options_init(&o);
    o.call = &w->call;
    assert_fine(pennon_write("memory://appender", &empty, &o, &w->ds, &w->err), &w->err);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    pennon_dataset_free(w->ds);
    arrow_schema_release(&w->schema);
    assert_int_equal(mem_used(w->mem), 0);
    mem_release(w->mem);
    pennon_runtime_free(w->runtime);
    pennon_error_clear(&w->err);
    free(w);
    return 0;
}

static pennon_appender *open_appender(struct world *w, int64_t delay_ns, uint64_t bytes)
{
    pennon_appender *a = NULL;
    pennon_appender_options o;
    pennon_appender_options_init(&o);
    o.call = &w->call;
    o.max_delay_ns = delay_ns;
    o.max_bytes = bytes;
    assert_fine(pennon_appender_open(w->ds, &w->schema, &o, &a, &w->err), &w->err);
    return a;
}

static uint64_t count_at(struct world *w, uint64_t version)
{
    pennon_open_options o;
    pennon_dataset *ds = NULL;
    uint64_t rows = 0;
    pennon_open_options_init(&o);
    o.call = &w->call;
    o.version = version;
    assert_fine(pennon_dataset_open("memory://appender", &o, &ds, &w->err), &w->err);
    assert_fine(pennon_dataset_count_rows(ds, &w->call, &rows, &w->err), &w->err);
    pennon_dataset_free(ds);
    return rows;
}

/* Is the id in the version? */
static bool has_id(struct world *w, uint64_t version, int64_t id)
{
    pennon_open_options oo;
    pennon_scan_options so;
    pennon_dataset *ds = NULL;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    bool found = false;
    pennon_open_options_init(&oo);
    oo.call = &w->call;
    oo.version = version;
    assert_fine(pennon_dataset_open("memory://appender", &oo, &ds, &w->err), &w->err);
    pennon_scan_options_init(&so);
    so.call = &w->call;
    assert_fine(pennon_scan(ds, &so, &stream, &w->err), &w->err);
    for (;;) {
        assert_int_equal(stream.get_next(&stream, &batch), 0);
        if (batch.release == NULL) break;
        const int64_t *ids = batch.children[0]->buffers[1];
        for (int64_t i = 0; i < batch.length; i++) found = found || ids[batch.children[0]->offset + i] == id;
        batch.release(&batch);
    }
    stream.release(&stream);
    pennon_dataset_free(ds);
    return found;
}

struct writer {
    struct world *w;
    pennon_appender *a;
    int64_t number;
    uint64_t versions[APPENDS];
};

static void *append_many(void *arg)
{
    struct writer *x = arg;
    pennon_error err;
    pennon_error_init(&err);
    for (int64_t i = 0; i < APPENDS; i++) {
        struct ArrowArray batch;
        make_batch(x->w, (x->number * APPENDS + i) * ROWS, ROWS, &batch);
        pennon_status st = pennon_appender_append(x->a, &batch, &x->w->call, &x->versions[i], &err);
        if (st != PENNON_OK || batch.release != NULL) x->versions[i] = 0;
    }
    pennon_error_clear(&err);
    return NULL;
}

static void run_writers(struct world *w, pennon_appender *a, struct writer *writers)
{
    pthread_t threads[WRITERS];
    for (int64_t i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.w = w, .a = a, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, append_many, &writers[i]), 0);
    }
    for (size_t i = 0; i < WRITERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* With any delay and size of groups every row is there once, in the version that its caller was told and in none before. */
static void test_dataset_appender__every_row_once(void **state)
{
    static const struct {
        int64_t delay_ns;
        uint64_t bytes;
    } cases[] = {{0, 0}, {2000000, 0}, {1000000000, 1}, {0, 200}};
    struct world *w = *state;
    uint64_t before = 0;
    for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
        struct writer writers[WRITERS];
        pennon_appender_stats stats = {.struct_size = sizeof stats};
        pennon_appender *a = open_appender(w, cases[c].delay_ns, cases[c].bytes);
        const uint64_t first = pennon_dataset_version(w->ds);
        run_writers(w, a, writers);
        assert_fine(pennon_appender_get_stats(a, &stats, &w->err), &w->err);
        assert_int_equal(stats.appends, WRITERS * APPENDS);
        assert_int_equal(stats.rows, WRITERS * APPENDS * ROWS);
        assert_int_equal(first + stats.commits, pennon_dataset_version(w->ds));
        assert_true(stats.commits <= WRITERS * APPENDS);
        if (cases[c].bytes == 1) assert_int_equal(stats.commits, WRITERS * APPENDS);
        if (cases[c].delay_ns == 2000000) assert_true(stats.commits < WRITERS * APPENDS);
        before += WRITERS * APPENDS * ROWS;
        assert_int_equal(count_at(w, pennon_dataset_version(w->ds)), before);
        for (size_t i = 0; i < WRITERS; i++) {
            const uint64_t version = writers[i].versions[APPENDS / 2];
            const int64_t id = ((int64_t)i * APPENDS + APPENDS / 2) * ROWS + 1;
            assert_true(version > first && version <= first + stats.commits);
            assert_true(has_id(w, version, id));
            if (c == 0) assert_false(has_id(w, version - 1, id));
        }
        pennon_appender_free(a);
    }
}

struct one {
    struct world *w;
    pennon_appender *a;
    struct ArrowArray batch;
    pennon_call call;
    pennon_status st;
    uint64_t version;
};

static void *append_one(void *arg)
{
    struct one *o = arg;
    o->st = pennon_appender_append(o->a, &o->batch, &o->call, &o->version, NULL);
    return NULL;
}

/* A null where none may be fails its caller; who came with it is committed. */
static void test_dataset_appender__fault_of_one(void **state)
{
    struct world *w = *state;
    struct one good = {.w = w, .call = w->call}, bad = {.w = w, .call = w->call};
    pthread_t threads[2];
    struct builder *b = builder_new(&w->schema, w->mem, &w->err);
    assert_non_null(b);
    assert_fine(builder_append_null(builder_child(b, 0), &w->err), &w->err);
    assert_fine(builder_append_bytes(builder_child(b, 1), bytes_str("x"), &w->err), &w->err);
    assert_fine(builder_append_row(b, &w->err), &w->err);
    assert_fine(builder_finish(b, &bad.batch, &w->err), &w->err);
    builder_free(b);
    make_batch(w, 100, 5, &good.batch);
    /* Long enough that both are in one group. */
    pennon_appender *a = open_appender(w, 300000000, 0);
    good.a = bad.a = a;
    assert_int_equal(pthread_create(&threads[0], NULL, append_one, &bad), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, append_one, &good), 0);
    for (size_t i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(bad.st, PENNON_INVALID_ARGUMENT);
    assert_int_equal(good.st, PENNON_OK);
    assert_int_equal(count_at(w, pennon_dataset_version(w->ds)), 5);
    pennon_appender_free(a);
}

/* Who gives up before the commit appended nothing. */
static void test_dataset_appender__giving_up(void **state)
{
    struct world *w = *state;
    struct one patient = {.w = w, .call = w->call};
    struct ArrowArray batch;
    pennon_cancel *cancel = NULL;
    pennon_call call = w->call;
    pthread_t thread;
    pennon_appender *a = open_appender(w, 600000000, 0);
    patient.a = a;
    make_batch(w, 0, 2, &patient.batch);
    assert_int_equal(pthread_create(&thread, NULL, append_one, &patient), 0);
    assert_fine(pennon_cancel_new(&cancel, &w->err), &w->err);
    pennon_cancel_fire(cancel);
    call.cancel = cancel;
    make_batch(w, 10, 2, &batch);
    assert_int_equal(pennon_appender_append(a, &batch, &call, NULL, &w->err), PENNON_CANCELLED);
    assert_null(batch.release);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(patient.st, PENNON_OK);
    assert_int_equal(count_at(w, pennon_dataset_version(w->ds)), 2);
    pennon_cancel_free(cancel);
    pennon_appender_free(a);
}

static void test_dataset_appender__arguments(void **state)
{
    struct world *w = *state;
    pennon_appender *a = NULL;
    pennon_appender_options o;
    pennon_appender_stats stats = {0};
    struct ArrowSchema other, gone = {0};
    struct ArrowArray none = {0};
    pennon_appender_options_init(&o);
    assert_int_equal(pennon_appender_open(NULL, &w->schema, NULL, &a, &w->err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_appender_open(w->ds, NULL, NULL, &a, &w->err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_appender_open(w->ds, &gone, NULL, &a, &w->err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_appender_open(w->ds, &w->schema, NULL, NULL, &w->err), PENNON_INVALID_ARGUMENT);
    o.max_delay_ns = -1;
    assert_int_equal(pennon_appender_open(w->ds, &w->schema, &o, &a, &w->err), PENNON_INVALID_ARGUMENT);
    assert_fine(arrow_schema_from_text(bytes_str("struct<id: int64, t: string>"), "", w->mem, &other, &w->err), &w->err);
    assert_int_equal(pennon_appender_open(w->ds, &other, NULL, &a, &w->err), PENNON_INVALID_ARGUMENT);
    assert_string_equal(w->err.kind, "SchemaMismatch");
    arrow_schema_release(&other);
    a = open_appender(w, 0, 0);
    assert_int_equal(pennon_appender_append(a, NULL, NULL, NULL, &w->err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_appender_append(a, &none, NULL, NULL, &w->err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_appender_get_stats(a, &stats, &w->err), PENNON_INVALID_ARGUMENT);
    pennon_appender_free(a);
    pennon_appender_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_dataset_appender__every_row_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dataset_appender__fault_of_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dataset_appender__giving_up, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dataset_appender__arguments, setup, teardown),
    };
    return cmocka_run_group_tests_name("appender", tests, NULL, NULL);
}
