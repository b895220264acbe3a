/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Asynchronous scans: callbacks that ask for the next batch themselves, polls with a waker, several scans on one pool of one thread, cancel, errors that
 * repeat, and scans that are let go at any moment. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "arrow/arrow.h"
#include "pennon/pennon.h"

#define ROWS 20000
#define BATCH 700u

struct world {
    pennon_runtime *runtime;
    pennon_call call;
    pennon_error err;
    pennon_dataset *ds;
    bool unordered; /* scans in any order */
};

static void fine(pennon_status st, const pennon_error *err)
{
    if (st != PENNON_OK) fail_msg("%s: %s", pennon_status_name(st), err->message);
}

static void write_table(struct world *w)
{
    struct mem *m = mem_new(NULL, UINT64_MAX, NULL, &w->err);
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct ArrowArrayStream stream;
    pennon_write_options o;
    assert_non_null(m);
    fine(arrow_schema_from_text(bytes_str("struct<n: int64>"), "", m, &schema, &w->err), &w->err);
    struct builder *b = builder_new(&schema, m, &w->err);
    for (int64_t i = 0; i < ROWS; i++) {
        fine(builder_append_int(builder_child(b, 0), i, &w->err), &w->err);
        fine(builder_append_row(b, &w->err), &w->err);
    }
    fine(builder_finish(b, &batch, &w->err), &w->err);
    builder_free(b);
    fine(stream_from_arrays(&schema, &batch, 1, m, &stream, &w->err), &w->err);
    pennon_write_options_init(&o);
    o.call = &w->call;
    o.max_rows_per_file = 6000;
    fine(pennon_write("memory://async/t", &stream, &o, &w->ds, &w->err), &w->err);
    mem_release(m);
}

static int setup_threads(void **state, uint32_t threads)
{
    struct world *w = calloc(1, sizeof *w);
    pennon_runtime_options o;
    assert_non_null(w);
    pennon_error_init(&w->err);
    pennon_runtime_options_init(&o);
    o.threads = threads;
    fine(pennon_runtime_new(&o, &w->runtime, &w->err), &w->err);
    pennon_call_init(&w->call);
    w->call.runtime = w->runtime;
    write_table(w);
    *state = w;
    return 0;
}

static int setup(void **state) { return setup_threads(state, 3); }
static int setup_one_thread(void **state) { return setup_threads(state, 1); }
static int setup_unordered(void **state)
{
    const int failed = setup(state);
    ((struct world *)*state)->unordered = true;
    return failed;
}

static int teardown(void **state)
{
    struct world *w = *state;
    pennon_dataset_free(w->ds);
    pennon_runtime_free(w->runtime);
    pennon_error_clear(&w->err);
    free(w);
    return 0;
}

static pennon_async_scan *open_scan(struct world *w, const char *filter)
{
    pennon_scan_options o;
    pennon_async_scan *scan = NULL;
    pennon_scan_options_init(&o);
    o.call = &w->call;
    o.batch_rows = BATCH;
    o.filter = filter;
    o.unordered = w->unordered;
    fine(pennon_async_scan_open(w->ds, &o, &scan, &w->err), &w->err);
    return scan;
}

/* What a reader has seen, and a bell that is rung. */
struct reader {
    pthread_mutex_t lock;
    pthread_cond_t bell;
    pennon_async_scan *scan;
    int64_t rows, sum;
    int rings;
    bool finished;
    pennon_status status;
    int free_after; /* batches; 0 = never */
};

static void reader_init(struct reader *r, pennon_async_scan *scan)
{
    memset(r, 0, sizeof *r);
    r->scan = scan;
    assert_int_equal(pthread_mutex_init(&r->lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&r->bell, NULL), 0);
}

static void reader_close(struct reader *r)
{
    (void)pthread_mutex_destroy(&r->lock);
    (void)pthread_cond_destroy(&r->bell);
}

static void add_batch(struct reader *r, struct ArrowArray *batch)
{
    const int64_t *values = batch->children[0]->buffers[1];
    const int64_t first = batch->children[0]->offset + batch->offset;
    for (int64_t i = 0; i < batch->length; i++) r->sum += values[first + i];
    r->rows += batch->length;
    batch->release(batch);
}

static void ring(struct reader *r, pennon_status st)
{
    (void)pthread_mutex_lock(&r->lock);
    r->finished = true;
    r->status = st;
    (void)pthread_cond_broadcast(&r->bell);
    (void)pthread_mutex_unlock(&r->lock);
}

static void wait_finished(struct reader *r)
{
    (void)pthread_mutex_lock(&r->lock);
    while (!r->finished) (void)pthread_cond_wait(&r->bell, &r->lock);
    (void)pthread_mutex_unlock(&r->lock);
}

/* Asks for the next batch from within the callback. */
static void on_batch(void *ctx, pennon_status st, struct ArrowArray *batch, const pennon_error *err)
{
    struct reader *r = ctx;
    pennon_error local;
    pennon_error_init(&local);
    if (st != PENNON_OK || !batch->release) {
        if (st != PENNON_OK) assert_int_equal(err->code, st);
        ring(r, st);
        return;
    }
    add_batch(r, batch);
    if (r->free_after && --r->free_after == 0) {
        pennon_async_scan_free(r->scan);
        ring(r, PENNON_OK);
        return;
    }
    st = pennon_async_scan_next(r->scan, on_batch, r, &local);
    if (st != PENNON_OK) ring(r, st);
    pennon_error_clear(&local);
}

static void test_async_scan__by_callback(void **state)
{
    struct world *w = *state;
    struct reader r;
    reader_init(&r, open_scan(w, NULL));
    struct ArrowSchema schema;
    fine(pennon_async_scan_schema(r.scan, &schema, &w->err), &w->err);
    assert_string_equal(schema.children[0]->name, "n");
    schema.release(&schema);
    fine(pennon_async_scan_next(r.scan, on_batch, &r, &w->err), &w->err);
    wait_finished(&r);
    assert_int_equal(r.status, PENNON_OK);
    assert_int_equal(r.rows, ROWS);
    assert_int_equal(r.sum, (int64_t)ROWS * (ROWS - 1) / 2);
    /* The end comes again. */
    r.finished = false;
    fine(pennon_async_scan_next(r.scan, on_batch, &r, &w->err), &w->err);
    wait_finished(&r);
    assert_int_equal(r.rows, ROWS);
    pennon_async_scan_free(r.scan);
    reader_close(&r);
}

static void on_wake(void *ctx)
{
    struct reader *r = ctx;
    (void)pthread_mutex_lock(&r->lock);
    r->rings++;
    (void)pthread_cond_broadcast(&r->bell);
    (void)pthread_mutex_unlock(&r->lock);
}

static void wait_ring(struct reader *r, int *seen)
{
    (void)pthread_mutex_lock(&r->lock);
    while (r->rings == *seen) (void)pthread_cond_wait(&r->bell, &r->lock);
    *seen = r->rings;
    (void)pthread_mutex_unlock(&r->lock);
}

static pennon_status poll_to_the_end(struct world *w, struct reader *r, int *pending)
{
    int seen = 0;
    for (;;) {
        struct ArrowArray batch;
        bool ready;
        const pennon_status st = pennon_async_scan_poll(r->scan, on_wake, r, &ready, &batch, &w->err);
        if (st != PENNON_OK) return st;
        if (!ready) {
            (*pending)++;
            wait_ring(r, &seen);
            continue;
        }
        if (!batch.release) return PENNON_OK;
        add_batch(r, &batch);
    }
}

static void test_async_scan__by_poll(void **state)
{
    struct world *w = *state;
    struct reader r;
    int pending = 0;
    reader_init(&r, open_scan(w, "n % 2 = 0"));
    fine(poll_to_the_end(w, &r, &pending), &w->err);
    assert_int_equal(r.rows, ROWS / 2);
    assert_true(pending > 0);
    assert_int_equal(r.rings, pending); /* one call of the waker for each poll that was not ready */
    pennon_async_scan_free(r.scan);
    reader_close(&r);
}

/* More scans than threads: steps that wait for data must not keep others from running. */
static void test_async_scan__many_at_once(void **state)
{
    struct world *w = *state;
    struct reader readers[12];
    for (size_t i = 0; i < 12; i++) {
        reader_init(&readers[i], open_scan(w, i % 2 ? "n >= 100" : NULL));
        fine(pennon_async_scan_next(readers[i].scan, on_batch, &readers[i], &w->err), &w->err);
    }
    for (size_t i = 0; i < 12; i++) {
        wait_finished(&readers[i]);
        assert_int_equal(readers[i].status, PENNON_OK);
        assert_int_equal(readers[i].rows, i % 2 ? ROWS - 100 : ROWS);
        pennon_async_scan_free(readers[i].scan);
        reader_close(&readers[i]);
    }
}

static void test_async_scan__failures_repeat(void **state)
{
    struct world *w = *state;
    struct reader r;
    int pending = 0;
    reader_init(&r, open_scan(w, "100 / (n - 15000) > 0"));
    assert_int_equal(poll_to_the_end(w, &r, &pending), PENNON_INVALID_ARGUMENT);
    assert_string_equal(w->err.kind, "DivideByZero");
    pennon_error_clear(&w->err);
    assert_int_equal(poll_to_the_end(w, &r, &pending), PENNON_INVALID_ARGUMENT);
    pennon_error_clear(&w->err);
    pennon_async_scan_free(r.scan);
    reader_close(&r);
    /* Faults of the options are told at once. */
    pennon_scan_options o;
    pennon_async_scan *scan = NULL;
    pennon_scan_options_init(&o);
    o.filter = "m > 1";
    assert_int_equal(pennon_async_scan_open(w->ds, &o, &scan, &w->err), PENNON_INVALID_ARGUMENT);
    assert_null(scan);
    pennon_error_clear(&w->err);
}

static void test_async_scan__cancel(void **state)
{
    struct world *w = *state;
    struct reader r;
    reader_init(&r, open_scan(w, NULL));
    pennon_async_scan_cancel(r.scan);
    fine(pennon_async_scan_next(r.scan, on_batch, &r, &w->err), &w->err);
    wait_finished(&r);
    assert_int_equal(r.status, PENNON_CANCELLED);
    pennon_async_scan_free(r.scan);
    reader_close(&r);
    /* Through the token of the call. */
    pennon_cancel *token;
    fine(pennon_cancel_new(&token, &w->err), &w->err);
    w->call.cancel = token;
    reader_init(&r, open_scan(w, NULL));
    w->call.cancel = NULL;
    pennon_cancel_fire(token);
    pennon_cancel_free(token);
    fine(pennon_async_scan_next(r.scan, on_batch, &r, &w->err), &w->err);
    wait_finished(&r);
    assert_int_equal(r.status, PENNON_CANCELLED);
    pennon_async_scan_free(r.scan);
    reader_close(&r);
}

/* Never called: the scan is gone before it could. */
static void on_nothing(void *ctx, pennon_status st, struct ArrowArray *batch, const pennon_error *err)
{
    UNUSED(st);
    UNUSED(err);
    (*(_Atomic(int) *)ctx)++;
    if (batch->release) batch->release(batch);
}

static void test_async_scan__let_go(void **state)
{
    struct world *w = *state;
    _Atomic(int) calls = 0;
    for (int i = 0; i < 200; i++) {
        pennon_async_scan *scan = open_scan(w, NULL);
        if (i % 3) fine(pennon_async_scan_next(scan, on_nothing, &calls, &w->err), &w->err);
        pennon_async_scan_free(scan);
    }
    /* From within the callback. */
    struct reader r;
    reader_init(&r, open_scan(w, NULL));
    r.free_after = 2;
    fine(pennon_async_scan_next(r.scan, on_batch, &r, &w->err), &w->err);
    wait_finished(&r);
    assert_int_equal(r.rows, 2 * BATCH);
    reader_close(&r);
    assert_true(calls <= 200);
}

static void test_async_scan__refuses_null(void **state)
{
    struct world *w = *state;
    pennon_async_scan *scan = NULL;
    struct ArrowArray batch;
    bool ready;
    assert_int_equal(pennon_async_scan_open(NULL, NULL, &scan, NULL), PENNON_INVALID_ARGUMENT);
    assert_null(scan);
    scan = open_scan(w, NULL);
    assert_int_equal(pennon_async_scan_open(w->ds, NULL, NULL, NULL), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_async_scan_next(scan, NULL, NULL, NULL), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_async_scan_poll(NULL, NULL, NULL, &ready, &batch, NULL), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_async_scan_schema(scan, NULL, NULL), PENNON_INVALID_ARGUMENT);
    pennon_async_scan_free(scan);
    pennon_async_scan_free(NULL);
    pennon_async_scan_cancel(NULL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define CASE_ONE_THREAD(name)                                            \
    {                                                                    \
#name " with one thread", name, setup_one_thread, teardown, NULL \
    }

#define CASE_UNORDERED(name)                                         \
    {                                                                \
#name " in any order", name, setup_unordered, teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_async_scan__by_callback),
        CASE(test_async_scan__by_poll),
        CASE(test_async_scan__many_at_once),
        CASE(test_async_scan__failures_repeat),
        CASE(test_async_scan__cancel),
        CASE(test_async_scan__let_go),
        CASE(test_async_scan__refuses_null),
        CASE_ONE_THREAD(test_async_scan__by_callback),
        CASE_ONE_THREAD(test_async_scan__by_poll),
        CASE_ONE_THREAD(test_async_scan__many_at_once),
        CASE_ONE_THREAD(test_async_scan__let_go),
        CASE_UNORDERED(test_async_scan__by_callback),
        CASE_UNORDERED(test_async_scan__by_poll),
        CASE_UNORDERED(test_async_scan__many_at_once),
        CASE_UNORDERED(test_async_scan__let_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
