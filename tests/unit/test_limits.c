/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Memory budgets, cancel tokens, deadlines and threads, seen from outside: tables ten times the budget are written and read inside it; calls end soon
 * after a token fires or a deadline passes; one dataset serves many threads while it grows; streams outlive it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "arrow/arrow.h"
#include "pennon/pennon.h"

#define MIB ((uint64_t)1 << 20)
#define SCHEMA "struct<id: int64, s: string, v: fixed_size_list<item: float>[32], l: list<item: int32>>"
#define FOREVER INT64_MAX

struct world {
    pennon_runtime *runtime;
    pennon_call call;
    pennon_error err;
    struct mem *mem; /* of the batches that come from outside */
};

static void assert_fine(pennon_status st, const pennon_error *err)
{
    if (st != PENNON_OK) fail_msg("%s: %s", pennon_status_name(st), err->message);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    pennon_runtime_options o;
    assert_non_null(w);
    pennon_error_init(&w->err);
    pennon_runtime_options_init(&o);
    o.threads = 4;
    o.memory_limit = 512 * MIB;
    assert_fine(pennon_runtime_new(&o, &w->runtime, &w->err), &w->err);
    pennon_call_init(&w->call);
    w->call.runtime = w->runtime;
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
    pennon_runtime_free(w->runtime);
    pennon_error_clear(&w->err);
    free(w);
    return 0;
}

static int64_t now_ms(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &t), 0);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- rows ---- */

struct source {
    struct mem *mem;
    int64_t at, end, step;
    struct ArrowSchema schema;
};

static void append_row(struct builder *b, int64_t i, pennon_error *err)
{
    char text[40];
    struct builder *v = builder_child(b, 2), *l = builder_child(b, 3);
    const int n = snprintf(text, sizeof text, "row %lld of many", (long long)(i * 7919));
    assert_fine(builder_append_int(builder_child(b, 0), i, err), err);
    assert_fine(builder_append_bytes(builder_child(b, 1), bytes_of(text, (size_t)n), err), err);
    for (int k = 0; k < 32; k++)
        assert_fine(builder_append_double(builder_child(v, 0), (double)((i * 31 + k) % 1000003) / 7, err), err);
    assert_fine(builder_append_row(v, err), err);
    for (int64_t k = 0; k < i % 7; k++) assert_fine(builder_append_int(builder_child(l, 0), i + k, err), err);
    assert_fine(builder_append_row(l, err), err);
    assert_fine(builder_append_row(b, err), err);
}

static int source_schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
    struct source *from = s->private_data;
    pennon_error err;
    pennon_error_init(&err);
    assert_fine(arrow_schema_copy(&from->schema, from->mem, out, &err), &err);
    return 0;
}

static int source_next(struct ArrowArrayStream *s, struct ArrowArray *out)
{
    struct source *from = s->private_data;
    pennon_error err;
    pennon_error_init(&err);
    memset(out, 0, sizeof *out);
    if (from->at >= from->end) return 0;
    struct builder *b = builder_new(&from->schema, from->mem, &err);
    assert_non_null(b);
    for (int64_t i = 0; i < from->step && from->at < from->end; i++) append_row(b, from->at++, &err);
    assert_fine(builder_finish(b, out, &err), &err);
    builder_free(b);
    return 0;
}

static const char *source_error(struct ArrowArrayStream *s)
{
    (void)s;
    return NULL;
}

static void source_release(struct ArrowArrayStream *s)
{
    struct source *from = s->private_data;
    from->schema.release(&from->schema);
    free(from);
    s->release = NULL;
}

/* Rows [first, end) in batches of `step`. */
static struct ArrowArrayStream rows_of(struct world *w, int64_t first, int64_t end, int64_t step)
{
    struct source *from = calloc(1, sizeof *from);
    assert_non_null(from);
    *from = (struct source){.mem = w->mem, .at = first, .end = end, .step = step};
    assert_fine(arrow_schema_from_text(bytes_str(SCHEMA), "", w->mem, &from->schema, &w->err), &w->err);
    from->schema.flags = 0;
    return (struct ArrowArrayStream){source_schema, source_next, source_error, source_release, from};
}

static pennon_status write_rows(struct world *w, const pennon_call *call, const char *version, struct ArrowArrayStream rows,
                                pennon_dataset **out)
{
    pennon_write_options o;
    pennon_write_options_init(&o);
    o.call = call;
    o.mode = PENNON_WRITE_OVERWRITE;
    o.storage_version = version;
    return pennon_write("memory://t", &rows, &o, out, &w->err);
}

/* All rows of a stream; *sum of column 0. Batches are checked. */
static pennon_status drain(struct ArrowArrayStream *stream, int64_t *rows, int64_t *sum, pennon_error *err)
{
    struct ArrowSchema schema;
    pennon_status st = PENNON_OK;
    *rows = *sum = 0;
    assert_int_equal(stream->get_schema(stream, &schema), 0);
    for (;;) {
        struct ArrowArray batch;
        if (stream->get_next(stream, &batch) != 0) {
            st = pennon_stream_error(stream, err);
            break;
        }
        if (!batch.release) break;
        const int64_t *ids = batch.children[0]->buffers[1];
        assert_int_equal(array_validate(&schema, &batch, ARRAY_VALIDATE_FULL, err), PENNON_OK);
        for (int64_t i = 0; i < batch.length; i++) *sum += ids[batch.children[0]->offset + i];
        *rows += batch.length;
        batch.release(&batch);
    }
    schema.release(&schema);
    stream->release(stream);
    return st;
}

/* ---- budgets ---- */

/* About 180 bytes a row: 230000 of them are 40 MiB, written and read with 4 MiB. */
static void write_and_scan(struct world *w, const char *version, int64_t n, int64_t step)
{
    pennon_budget *budget = NULL;
    pennon_dataset *ds = NULL;
    struct ArrowArrayStream stream;
    pennon_scan_options o;
    int64_t rows, sum;
    assert_fine(pennon_budget_new(w->runtime, 4 * MIB, &budget, &w->err), &w->err);
    pennon_call call = w->call;
    call.budget = budget;
    assert_fine(write_rows(w, &call, version, rows_of(w, 0, n, step), &ds), &w->err);
    assert_true(pennon_budget_peak(budget) > MIB / 2 && pennon_budget_peak(budget) <= 4 * MIB);
    pennon_scan_options_init(&o);
    o.call = &call;
    o.batch_rows = (uint64_t)step;
    assert_fine(pennon_scan(ds, &o, &stream, &w->err), &w->err);
    assert_fine(drain(&stream, &rows, &sum, &w->err), &w->err);
    assert_int_equal(rows, n);
    assert_int_equal(sum, n * (n - 1) / 2);
    assert_true(pennon_budget_peak(budget) <= 4 * MIB);
    assert_int_equal(pennon_budget_used(budget), 0); /* the dataset that is still open is the runtime's */
    pennon_dataset_free(ds);
    pennon_budget_free(budget);
}

static void test_limits_budget__small_batches(void **state) { write_and_scan(*state, "2.1", 230000, 4096); }
static void test_limits_budget__batches_larger_than_it(void **state) { write_and_scan(*state, "2.1", 80000, 40000); }
static void test_limits_budget__storage_2_0(void **state) { write_and_scan(*state, "2.0", 60000, 20000); }
static void test_limits_budget__storage_2_2(void **state) { write_and_scan(*state, "2.2", 60000, 20000); }

/* What a dataset keeps of its open files is not the budget's of the scan that opened them: it would fill with every file. */
static void test_limits_budget__open_files_are_not_charged(void **state)
{
    struct world *w = *state;
    pennon_budget *budget = NULL;
    pennon_dataset *ds = NULL;
    struct ArrowArrayStream stream, rows_in = rows_of(w, 0, 6400, 6400);
    pennon_write_options wo;
    pennon_scan_options o;
    int64_t rows, sum;
    pennon_write_options_init(&wo);
    wo.call = &w->call;
    wo.max_rows_per_file = 200;
    assert_fine(pennon_write("memory://files", &rows_in, &wo, &ds, &w->err), &w->err);
    assert_fine(pennon_budget_new(w->runtime, MIB, &budget, &w->err), &w->err);
    pennon_call call = w->call;
    call.budget = budget;
    pennon_scan_options_init(&o);
    o.call = &call;
    assert_fine(pennon_scan(ds, &o, &stream, &w->err), &w->err);
    assert_fine(drain(&stream, &rows, &sum, &w->err), &w->err);
    assert_int_equal(rows, 6400);
    assert_int_equal(pennon_budget_used(budget), 0); /* the dataset is still open */
    pennon_budget_free(budget);
    pennon_dataset_free(ds);
}

/* ---- stopping ---- */

struct timer {
    pennon_cancel *cancel;
    int64_t fired;
};

static void *fire(void *arg)
{
    struct timer *t = arg;
    const struct timespec wait = {0, 50000000};
    nanosleep(&wait, NULL);
    t->fired = now_ms();
    pennon_cancel_fire(t->cancel);
    return NULL;
}

/* A token that fired before the call. */
static void test_limits_cancel__before_the_call(void **state)
{
    struct world *w = *state;
    pennon_dataset *ds = NULL;
    struct ArrowArrayStream stream;
    pennon_scan_options so;
    pennon_take_options to;
    pennon_call call = w->call;
    const uint64_t row = 3;
    int64_t rows, sum;
    assert_fine(write_rows(w, &w->call, NULL, rows_of(w, 0, 1000, 100), &ds), &w->err);
    assert_fine(pennon_cancel_new(&call.cancel, &w->err), &w->err);
    pennon_cancel_fire(call.cancel);
    pennon_scan_options_init(&so);
    so.call = &call;
    pennon_status st = pennon_scan(ds, &so, &stream, &w->err);
    if (st == PENNON_OK) st = drain(&stream, &rows, &sum, &w->err);
    assert_int_equal(st, PENNON_CANCELLED);
    pennon_take_options_init(&to);
    to.call = &call;
    st = pennon_dataset_take(ds, PENNON_TAKE_OFFSETS, 1, &row, &to, &stream, &w->err);
    if (st == PENNON_OK) st = drain(&stream, &rows, &sum, &w->err);
    assert_int_equal(st, PENNON_CANCELLED);
    assert_int_equal(write_rows(w, &call, NULL, rows_of(w, 0, 1000, 100), NULL), PENNON_CANCELLED);
    assert_int_equal(pennon_dataset_version(ds), 1);
    pennon_dataset_free(ds);
    pennon_cancel_free(call.cancel);
}

static void test_limits_cancel__endless_write(void **state)
{
    struct world *w = *state;
    struct timer t = {NULL, 0};
    pthread_t thread;
    pennon_call call = w->call;
    assert_fine(pennon_cancel_new(&t.cancel, &w->err), &w->err);
    call.cancel = t.cancel;
    assert_int_equal(pthread_create(&thread, NULL, fire, &t), 0);
    const pennon_status st = write_rows(w, &call, NULL, rows_of(w, 0, FOREVER, 1000), NULL);
    const int64_t ended = now_ms();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(st, PENNON_CANCELLED);
    assert_true(ended - t.fired < 500);
    pennon_cancel_free(t.cancel);
}

static void test_limits_deadline__endless_write(void **state)
{
    struct world *w = *state;
    pennon_call call = w->call;
    call.timeout_ms = 50;
    const int64_t start = now_ms();
    assert_int_equal(write_rows(w, &call, NULL, rows_of(w, 0, FOREVER, 1000), NULL), PENNON_TIMEOUT);
    assert_true(now_ms() - start < 600);
}

/* A scan read over and over stops too: its deadline counts from its start. */
static void test_limits_deadline__scan(void **state)
{
    struct world *w = *state;
    pennon_dataset *ds = NULL;
    pennon_scan_options o;
    pennon_call call = w->call;
    struct ArrowArrayStream stream;
    int64_t rows, sum;
    pennon_status st = PENNON_OK;
    assert_fine(write_rows(w, &w->call, NULL, rows_of(w, 0, 50000, 5000), &ds), &w->err);
    call.timeout_ms = 50;
    pennon_scan_options_init(&o);
    o.call = &call;
    o.batch_rows = 16;
    assert_fine(pennon_scan(ds, &o, &stream, &w->err), &w->err);
    const int64_t start = now_ms();
    struct ArrowArray batch;
    while (now_ms() - start < 60) {
        if (stream.get_next(&stream, &batch) != 0) break;
        if (batch.release) batch.release(&batch);
    }
    st = stream.get_next(&stream, &batch) != 0 ? pennon_stream_error(&stream, &w->err) : PENNON_OK;
    /* Done in time, or stopped. */
    if (st == PENNON_OK) assert_null(batch.release);
    if (st != PENNON_OK) assert_int_equal(st, PENNON_TIMEOUT);
    stream.release(&stream);
    call.timeout_ms = 0;
    st = pennon_scan(ds, &o, &stream, &w->err);
    if (st == PENNON_OK) st = drain(&stream, &rows, &sum, &w->err);
    assert_int_equal(st, PENNON_TIMEOUT);
    pennon_dataset_free(ds);
}

/* ---- threads ---- */

struct reader {
    struct world *w;
    pennon_dataset *ds;
    _Atomic(bool) *stop;
    unsigned number, rounds;
    bool failed;
    char message[300];
};

static bool read_once(struct reader *r, pennon_error *err)
{
    pennon_scan_options so;
    pennon_take_options to;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    uint64_t count = 0;
    const uint64_t wanted[] = {0, 999, 17};
    int64_t total = 0;
    pennon_scan_options_init(&so);
    so.call = &r->w->call;
    so.batch_rows = 300;
    pennon_dataset *at = NULL;
    if (pennon_dataset_snapshot(r->ds, &at, err) != PENNON_OK) return false;
    const uint64_t version = pennon_dataset_version(at);
    bool ok = pennon_dataset_count_rows(at, &r->w->call, &count, err) == PENNON_OK && count == version * 1000;
    ok = ok && pennon_scan(at, &so, &stream, err) == PENNON_OK;
    pennon_dataset_free(at);
    if (!ok) return false;
    for (;;) {
        ok = stream.get_next(&stream, &batch) == 0;
        if (!ok || !batch.release) break;
        total += batch.length;
        batch.release(&batch);
        if (r->rounds % 3 == 1) break; /* early end, with batches in work */
    }
    if (!ok) (void)pennon_stream_error(&stream, err);
    stream.release(&stream);
    if (!ok || (r->rounds % 3 != 1 && (uint64_t)total != count)) return false;
    pennon_take_options_init(&to);
    to.call = &r->w->call;
    if (pennon_dataset_take(r->ds, PENNON_TAKE_OFFSETS, 3, wanted, &to, &stream, err) != PENNON_OK) return false;
    ok = stream.get_next(&stream, &batch) == 0 && batch.release && batch.length == 3;
    if (ok) {
        const int64_t *ids = batch.children[0]->buffers[1];
        ok = ids[0] == 0 && ids[1] == 999 && ids[2] == 17;
        batch.release(&batch);
    }
    stream.release(&stream);
    return ok;
}

static void *read_many(void *arg)
{
    struct reader *r = arg;
    pennon_error err;
    pennon_error_init(&err);
    while (!atomic_load(r->stop) || r->rounds < 3) {
        if (!read_once(r, &err)) {
            r->failed = true;
            (void)snprintf(r->message, sizeof r->message, "%s", err.message ? err.message : "other rows than expected");
            break;
        }
        r->rounds++;
    }
    pennon_error_clear(&err);
    return NULL;
}

static void test_limits_threads__readers_while_it_grows(void **state)
{
    struct world *w = *state;
    pennon_dataset *ds = NULL;
    pthread_t threads[4];
    struct reader readers[4];
    _Atomic(bool) stop = false;
    uint64_t count = 0;
    assert_fine(write_rows(w, &w->call, NULL, rows_of(w, 0, 1000, 400), &ds), &w->err);
    for (unsigned i = 0; i < 4; i++) {
        readers[i] = (struct reader){.w = w, .ds = ds, .stop = &stop, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, read_many, &readers[i]), 0);
    }
    for (int64_t i = 1; i <= 8; i++) {
        struct ArrowArrayStream rows = rows_of(w, i * 1000, i * 1000 + 1000, 1000);
        pennon_write_options o;
        pennon_write_options_init(&o);
        o.call = &w->call;
        assert_fine(pennon_dataset_append(ds, &rows, &o, &w->err), &w->err);
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 4; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < 4; i++) {
        if (readers[i].failed) fail_msg("reader %u after %u rounds: %s", i, readers[i].rounds, readers[i].message);
    }
    assert_fine(pennon_dataset_count_rows(ds, &w->call, &count, &w->err), &w->err);
    assert_int_equal(count, 9000);
    assert_int_equal(pennon_dataset_version(ds), 9);
    pennon_dataset_free(ds);
}

/* Every thread appends through one handle: each append is there once. */
static void *append_many(void *arg)
{
    struct reader *r = arg;
    pennon_error err;
    pennon_error_init(&err);
    for (int64_t i = 0; i < 4; i++) {
        const int64_t first = (r->number * 4 + i) * 10;
        struct ArrowArrayStream rows = rows_of(r->w, first, first + 10, 10);
        pennon_write_options o;
        pennon_write_options_init(&o);
        o.call = &r->w->call;
        o.max_retries = 50;
        if (pennon_dataset_append(r->ds, &rows, &o, &err) != PENNON_OK) {
            r->failed = true;
            (void)snprintf(r->message, sizeof r->message, "%s", err.message);
            break;
        }
    }
    pennon_error_clear(&err);
    return NULL;
}

static void test_limits_threads__appends_through_one_handle(void **state)
{
    struct world *w = *state;
    pennon_dataset *ds = NULL;
    pthread_t threads[4];
    struct reader writers[4];
    struct ArrowArrayStream stream;
    pennon_scan_options o;
    int64_t rows, sum;
    assert_fine(write_rows(w, &w->call, NULL, rows_of(w, 0, 0, 10), &ds), &w->err);
    for (unsigned i = 0; i < 4; i++) {
        writers[i] = (struct reader){.w = w, .ds = ds, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, append_many, &writers[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < 4; i++) {
        if (writers[i].failed) fail_msg("writer %u: %s", i, writers[i].message);
    }
    assert_fine(pennon_dataset_refresh(ds, &w->call, &w->err), &w->err);
    assert_int_equal(pennon_dataset_version(ds), 17);
    pennon_scan_options_init(&o);
    o.call = &w->call;
    assert_fine(pennon_scan(ds, &o, &stream, &w->err), &w->err);
    pennon_dataset_free(ds); /* the stream goes on */
    assert_fine(drain(&stream, &rows, &sum, &w->err), &w->err);
    assert_int_equal(rows, 160);
    assert_int_equal(sum, 160 * 159 / 2);
}

#define LIMITS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIMITS_TEST(test_limits_budget__small_batches),
        LIMITS_TEST(test_limits_budget__batches_larger_than_it),
        LIMITS_TEST(test_limits_budget__storage_2_0),
        LIMITS_TEST(test_limits_budget__storage_2_2),
        LIMITS_TEST(test_limits_budget__open_files_are_not_charged),
        LIMITS_TEST(test_limits_cancel__before_the_call),
        LIMITS_TEST(test_limits_cancel__endless_write),
        LIMITS_TEST(test_limits_deadline__endless_write),
        LIMITS_TEST(test_limits_deadline__scan),
        LIMITS_TEST(test_limits_threads__readers_while_it_grows),
        LIMITS_TEST(test_limits_threads__appends_through_one_handle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
