/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Scans in any order: what is read is given while another file is waited for, and rows, offsets and limits are exact. */
#include <pthread.h>

#include "scan_world.h"
#include "store/store_private.h"

/* A store that holds reads of one object back until it is opened. */
struct gate {
    pennon_store *inner;
    pthread_mutex_t lock;
    char held[96]; /* the end of the object's name */
    bool open;
    size_t n;
    struct {
        char path[256];
        pennon_range *ranges;
        size_t n;
        pennon_read_done_fn done;
        void *ctx;
    } waiting[256];
};

static pennon_status gate_read(void *self, const char *path, size_t n, const pennon_range *ranges, pennon_read_done_fn done,
                               void *ctx, pennon_error *err)
{
    struct gate *g = self;
    (void)pthread_mutex_lock(&g->lock);
    if (!g->open && strstr(path, g->held)) {
        assert_true(g->n < 256);
        (void)snprintf(g->waiting[g->n].path, sizeof g->waiting[g->n].path, "%s", path);
        g->waiting[g->n].ranges = (pennon_range *)(uintptr_t)ranges; /* lives until done */
        g->waiting[g->n].n = n;
        g->waiting[g->n].done = done;
        g->waiting[g->n++].ctx = ctx;
        (void)pthread_mutex_unlock(&g->lock);
        return PENNON_OK;
    }
    (void)pthread_mutex_unlock(&g->lock);
    return g->inner->vtable.read_start(g->inner->self, path, n, ranges, done, ctx, err);
}

static pennon_status gate_head(void *self, const char *path, pennon_object_info *out, pennon_error *err)
{
    struct gate *g = self;
    return g->inner->vtable.head(g->inner->self, path, out, err);
}

static void gate_open(struct gate *g)
{
    pennon_error err;
    pennon_error_init(&err);
    (void)pthread_mutex_lock(&g->lock);
    g->open = true;
    const size_t n = g->n;
    (void)pthread_mutex_unlock(&g->lock);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(g->inner->vtable.read_start(g->inner->self, g->waiting[i].path, g->waiting[i].n, g->waiting[i].ranges,
                                                     g->waiting[i].done, g->waiting[i].ctx, &err),
                         PENNON_OK);
    g->n = 0;
}

static void gate_free(void *self) { (void)self; }

/* A dataset of its own, whose first data file is behind the gate. */
struct gated {
    struct gate gate;
    pennon_dataset *ds;
    struct snapshot *s;
    pennon_store *store, *was;
};

static void gated_begin(struct scan_world *w, struct gated *x)
{
    const pennon_store_vtable table = {.struct_size = sizeof table,
                                       .read_start = gate_read,
                                       .head = gate_head,
                                       .free = gate_free,
                                       .block_size = 4096,
                                       .parallel_reads = 8};
    pennon_open_options open;
    *x = (struct gated){.ds = NULL};
    pennon_open_options_init(&open);
    open.call = &w->call;
    scan_ok(w, pennon_dataset_open(SCAN_URI, &open, &x->ds, &w->err));
    dataset_get(x->ds, &x->s, NULL);
    scan_ok(w, fragment_load(x->s, &x->s->fragments[0], &w->err));
    (void)snprintf(x->gate.held, sizeof x->gate.held, "%s", x->s->fragments[0].files[0].path);
    x->was = x->gate.inner = x->s->at.store;
    (void)pthread_mutex_init(&x->gate.lock, NULL);
    scan_ok(w, store_wrap(w->mem, &table, &x->gate, "custom", &x->store, &w->err));
    x->s->at.store = x->store;
}

static void gated_end(struct gated *x)
{
    x->s->at.store = x->was;
    snapshot_release(x->s);
    pennon_dataset_free(x->ds);
    pennon_store_free(x->store);
    (void)pthread_mutex_destroy(&x->gate.lock);
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* The ids of a scan as they come. With a gate it is opened once `until` rows have come. */
static size_t ids_of(struct scan_world *w, pennon_dataset *ds, pennon_scan_options o, struct gate *gate, size_t until, int64_t *out)
{
    static const char *const id[] = {"id", "s"};
    const pennon_names names = {2, id};
    struct ArrowArrayStream stream = {0};
    struct ArrowArray batch;
    size_t n = 0;
    o.columns = &names;
    scan_ok(w, pennon_scan(ds, &o, &stream, &w->err));
    for (;;) {
        scan_ok(w, stream_next(&stream, &batch, &w->err));
        if (!batch.release) break;
        for (int64_t i = 0; i < batch.length; i++) {
            bool null;
            assert_true(n < SCAN_ROWS);
            out[n++] = scan_int(&batch, 0, i, &null);
        }
        array_release(&batch);
        if (gate && !gate->open && n >= until) gate_open(gate);
    }
    stream_release(&stream);
    return n;
}

static size_t count_first(const int64_t *ids, size_t n)
{
    size_t first = 0;
    for (size_t i = 0; i < n; i++) first += ids[i] < SCAN_FILE_ROWS;
    return first;
}

/* Rows of the other files come before the first of the file that is held; ordered scans could not give one. `held_back` rows may wait to be joined with
 * what comes next. */
static void others_first(struct scan_world *w, const char *filter, size_t held_back)
{
    struct gated x;
    pennon_scan_options o = scan_options(w);
    int64_t *want = calloc(SCAN_ROWS, sizeof *want), *got = calloc(SCAN_ROWS, sizeof *got);
    assert_true(want && got);
    o.filter = filter;
    o.materialize = PENNON_MATERIALIZE_EARLY;
    const size_t n = ids_of(w, w->ds, o, NULL, 0, want), others = n - count_first(want, n) - held_back;
    assert_true(others > 2000 && others < n);
    gated_begin(w, &x);
    o.unordered = true;
    o.readahead = 16;
    assert_int_equal(ids_of(w, x.ds, o, &x.gate, others, got), n);
    assert_int_equal(count_first(got, others), 0);
    gated_end(&x);
    qsort(want, n, sizeof *want, by_value);
    qsort(got, n, sizeof *got, by_value);
    assert_memory_equal(want, got, n * sizeof *want);
    free(want);
    free(got);
}

static void test_scan_unordered__no_waiting(void **state) { others_first(*state, NULL, 0); }
static void test_scan_unordered__no_waiting_filtered(void **state) { others_first(*state, "m >= 1", 8192); }

/* Any rows, but so many of them, each once, and of those that pass. */
static void test_scan_unordered__limits(void **state)
{
    struct scan_world *w = *state;
    static const struct {
        const char *filter;
        uint64_t offset, limit;
    } cases[] = {{NULL, 0, PENNON_NONE}, {NULL, 100, 7000},  {NULL, 18000, 5000},     {"m < 5000", 0, PENNON_NONE},
                 {"m < 5000", 50, 777},  {"m < 5000", 0, 1}, {"m < 5000", 100000, 5}, {"m < 5000", 3, 0}};
    int64_t *all = calloc(SCAN_ROWS, sizeof *all), *got = calloc(SCAN_ROWS, sizeof *got);
    assert_true(all && got);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pennon_scan_options o = scan_options(w);
        o.filter = cases[i].filter;
        const size_t n = ids_of(w, w->ds, o, NULL, 0, all);
        qsort(all, n, sizeof *all, by_value);
        o.offset = cases[i].offset;
        o.limit = cases[i].limit;
        o.unordered = true;
        o.batch_rows = 500;
        const size_t left = n > o.offset ? n - (size_t)o.offset : 0, want = o.limit < left ? (size_t)o.limit : left;
        const size_t found = ids_of(w, w->ds, o, NULL, 0, got);
        assert_int_equal(found, want);
        qsort(got, found, sizeof *got, by_value);
        for (size_t k = 0; k < found; k++) {
            assert_true(k == 0 || got[k - 1] != got[k]);
            assert_non_null(bsearch(&got[k], all, n, sizeof *all, by_value));
        }
    }
    free(all);
    free(got);
}

/* Sorted rows come sorted, equal ones in the order of the table. */
static void test_scan_unordered__order_by(void **state)
{
    struct scan_world *w = *state;
    static const pennon_order by[] = {{"m", false, false}};
    const pennon_orders orders = {1, by};
    int64_t *want = calloc(SCAN_ROWS, sizeof *want), *got = calloc(SCAN_ROWS, sizeof *got);
    pennon_scan_options o = scan_options(w);
    assert_true(want && got);
    o.order_by = &orders;
    const size_t n = ids_of(w, w->ds, o, NULL, 0, want);
    o.unordered = true;
    assert_int_equal(ids_of(w, w->ds, o, NULL, 0, got), n);
    assert_memory_equal(want, got, n * sizeof *want);
    free(want);
    free(got);
}

/* A fault of values ends the stream; one that is let go early leaves nothing. */
static void test_scan_unordered__ends(void **state)
{
    struct scan_world *w = *state;
    pennon_scan_options o = scan_options(w);
    struct ArrowArrayStream stream = {0};
    struct ArrowArray batch = {0};
    o.unordered = true;
    o.filter = "100 / (id - 13000) >= 0";
    scan_ok(w, pennon_scan(w->ds, &o, &stream, &w->err));
    pennon_status st = PENNON_OK;
    while (st == PENNON_OK) {
        st = stream_next(&stream, &batch, &w->err);
        assert_true(st != PENNON_OK || batch.release);
        array_release(&batch);
    }
    scan_fails(w, st, PENNON_INVALID_ARGUMENT, "ivide by zero");
    stream_release(&stream);
    o.filter = NULL;
    for (int i = 0; i < 20; i++) {
        scan_ok(w, pennon_scan(w->ds, &o, &stream, &w->err));
        scan_ok(w, stream_next(&stream, &batch, &w->err));
        stream_release(&stream);
        assert_true(batch.length > 0);
        array_release(&batch);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, scan_setup, scan_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_scan_unordered__no_waiting), CASE(test_scan_unordered__no_waiting_filtered),
        CASE(test_scan_unordered__limits),     CASE(test_scan_unordered__order_by),
        CASE(test_scan_unordered__ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
