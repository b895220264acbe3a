/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Filtered scans against the same filter over all rows: every selectivity, style, size of batches, number of threads; limits, order, counts,
 * aggregates, deleted rows, computed columns, statistics, explain. */
#include "scan_world.h"

static const int64_t selectivities[] = {0, 3, 40, 600, 5000, 9800, 10000};

static const char *below(int64_t value)
{
    static char text[64];
    (void)snprintf(text, sizeof text, "m < %lld", (long long)value);
    return text;
}

static void every_style(struct scan_world *w, const char *filter, const uint64_t *rows, size_t n)
{
    static const char *const late[] = {"s", "l"};
    static const uint64_t batch_rows[] = {0, 1000, 50000};
    const pennon_names late_names = {2, late};
    static size_t turn;
    for (int32_t style = PENNON_MATERIALIZE_HEURISTIC; style <= PENNON_MATERIALIZE_EARLY_EXCEPT; style++) {
        pennon_scan_options o = scan_options(w);
        o.columns = &scan_names;
        o.filter = filter;
        o.materialize = style;
        o.late_columns = style == PENNON_MATERIALIZE_EARLY_EXCEPT ? &late_names : NULL;
        o.batch_rows = batch_rows[turn++ % ARRAY_LEN(batch_rows)];
        scan_expect(w, &o, rows, n);
    }
}

static void test_scan_filter__rows_that_pass(void **state)
{
    struct scan_world *w = *state;
    static const uint32_t threads[] = {1, 4};
    for (size_t t = 0; t < ARRAY_LEN(threads); t++) {
        w->call.threads = threads[t];
        for (size_t i = 0; i < ARRAY_LEN(selectivities); i++) {
            size_t n;
            uint64_t *rows = scan_passing(w, scan_m_below, selectivities[i], &n);
            every_style(w, below(selectivities[i]), rows, n);
            free(rows);
        }
    }
}

static void test_scan_filter__few_batches(void **state)
{
    struct scan_world *w = *state;
    struct ArrowSchema schema;
    struct ArrowArray got;
    size_t batches;
    pennon_scan_options o = scan_options(w);
    o.filter = below(40);
    scan_ok(w, scan_try(w, &o, &schema, &got, &batches));
    assert_true(got.length > 20);
    assert_true(batches == 1);
    array_release(&got);
    arrow_schema_release(&schema);
    o.filter = below(5000);
    o.strict_batches = true;
    o.batch_rows = 700;
    scan_ok(w, scan_try(w, &o, &schema, &got, &batches));
    assert_int_equal(batches, (got.length + 699) / 700);
    array_release(&got);
    arrow_schema_release(&schema);
}

/* Two terms, one over a column that is in the result, one over a struct; columns that are missing in some fragments are null there. */
static bool x_below_and_id(const struct ArrowArray *all, int64_t row, int64_t value)
{
    bool null;
    const struct ArrowArray *st = all->children[SCAN_ST];
    const int64_t id = scan_int(all, SCAN_ID, row, &null);
    if (!bit_get(st->buffers[0], (uint64_t)row)) return false;
    const int64_t x = scan_int(st, 0, row, &null);
    return !null && x < value && id > 4000;
}

static void test_scan_filter__nested_and_missing_columns(void **state)
{
    struct scan_world *w = *state;
    size_t n;
    uint64_t *rows = scan_passing(w, x_below_and_id, 7, &n);
    assert_true(n > 100);
    every_style(w, "st.x < 7 AND id > 4000", rows, n);
    free(rows);
}

static bool address_above(const struct ArrowArray *all, int64_t row, int64_t value)
{
    bool null;
    return scan_int(all, SCAN_ROWADDR, row, &null) > value;
}
static bool id_is(const struct ArrowArray *all, int64_t row, int64_t value)
{
    bool null;
    return scan_int(all, SCAN_ROWID, row, &null) == value;
}
static bool offset_below(const struct ArrowArray *all, int64_t row, int64_t value)
{
    bool null;
    return scan_int(all, SCAN_ROWOFFSET, row, &null) < value;
}

static void expect_filter(struct scan_world *w, const char *filter, scan_test_fn test, int64_t value)
{
    size_t n;
    uint64_t *rows = scan_passing(w, test, value, &n);
    pennon_scan_options o = scan_options(w);
    assert_true(n > 0);
    o.columns = &scan_names;
    o.filter = filter;
    for (o.materialize = PENNON_MATERIALIZE_HEURISTIC; o.materialize <= PENNON_MATERIALIZE_LATE; o.materialize++)
        scan_expect(w, &o, rows, n);
    free(rows);
}

/* Each means what it says, whatever the row ids are. */
static void test_scan_filter__system_columns(void **state)
{
    struct scan_world *w = *state;
    char filter[96];
    bool null;
    const int64_t id = scan_int(&w->all, SCAN_ROWID, 8000, &null);
    expect_filter(w, "_rowaddr > 4294970000", address_above, 4294970000);
    expect_filter(w, "_rowoffset < 7000", offset_below, 7000);
    (void)snprintf(filter, sizeof filter, "_rowid = %lld", (long long)id);
    expect_filter(w, filter, id_is, id);
}

static void test_scan_filter__constants(void **state)
{
    struct scan_world *w = *state;
    pennon_scan_options o = scan_options(w);
    o.columns = &scan_names;
    o.filter = "false";
    scan_expect(w, &o, NULL, 0);
    o.filter = "true";
    size_t n;
    uint64_t *rows = scan_passing(w, scan_m_below, 0, &n);
    for (int64_t i = 0; i < w->all.length; i++) rows[i] = (uint64_t)i;
    scan_expect(w, &o, rows, (size_t)w->all.length);
    o.limit = 10;
    o.offset = 5;
    scan_expect(w, &o, rows + 5, 10);
    free(rows);
}

static void test_scan_filter__limits(void **state)
{
    struct scan_world *w = *state;
    static const uint64_t limits[] = {0, 1, 7, 1500, 9000, UINT64_MAX - 1, UINT64_MAX};
    static const uint64_t offsets[] = {0, 1, 999, 20000, UINT64_MAX - 2};
    for (size_t t = 0; t < 2; t++) {
        w->call.threads = t ? 4 : 1;
        for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
            for (size_t k = (i + t) % 2; k < ARRAY_LEN(offsets) * 2; k += 2) {
                const int64_t value = k % 4 < 2 ? 200 : 8000;
                const uint64_t offset = offsets[k / 2];
                size_t n;
                uint64_t *rows = scan_passing(w, scan_m_below, value, &n);
                const size_t from = offset < n ? (size_t)offset : n;
                const size_t left = n - from, want = limits[i] < left ? (size_t)limits[i] : left;
                pennon_scan_options o = scan_options(w);
                o.columns = &scan_names;
                o.filter = below(value);
                o.limit = limits[i];
                o.offset = offset;
                scan_expect(w, &o, rows + from, want);
                free(rows);
            }
        }
    }
}

/* ---- what is read ---- */

struct seen {
    pennon_scan_stats stats;
    int calls;
};

static void on_stats(void *ctx, const pennon_scan_stats *stats)
{
    struct seen *s = ctx;
    s->stats = *stats;
    s->calls++;
}

static struct seen stats_of(struct scan_world *w, pennon_scan_options *o)
{
    struct seen seen = {.calls = 0};
    struct ArrowSchema schema;
    struct ArrowArray got;
    o->stats = on_stats;
    o->stats_ctx = &seen;
    scan_rows(w, o, &schema, &got);
    assert_int_equal(seen.calls, 1);
    assert_int_equal(seen.stats.rows, got.length);
    array_release(&got);
    arrow_schema_release(&schema);
    return seen;
}

static void test_scan_filter__stats(void **state)
{
    struct scan_world *w = *state;
    pennon_scan_options o = scan_options(w);
    o.filter = below(3);
    o.materialize = PENNON_MATERIALIZE_LATE;
    const struct seen late = stats_of(w, &o);
    assert_int_equal(late.stats.rows_scanned, w->all.length);
    assert_true(late.stats.batches == 1 && late.stats.requests > 0 && late.stats.nanoseconds > 0);
    o.materialize = PENNON_MATERIALIZE_EARLY;
    const struct seen early = stats_of(w, &o);
    assert_int_equal(early.stats.rows, late.stats.rows);
    assert_true(late.stats.bytes_read < early.stats.bytes_read / 2);
    /* Nothing is read for what cannot be, and little for the first rows. */
    o.filter = "false";
    assert_int_equal(stats_of(w, &o).stats.bytes_read, 0);
    o.filter = below(10000);
    o.limit = 10;
    w->call.threads = 1;
    assert_true(stats_of(w, &o).stats.rows_scanned < 1000);
    /* Whoever stops early is told, too. */
    struct seen seen = {.calls = 0};
    struct ArrowArrayStream stream;
    o.stats_ctx = &seen;
    scan_ok(w, pennon_scan(w->ds, &o, &stream, &w->err));
    assert_int_equal(seen.calls, 0);
    stream_release(&stream);
    assert_int_equal(seen.calls, 1);
}

static void test_scan_filter__count(void **state)
{
    struct scan_world *w = *state;
    uint64_t rows;
    for (size_t i = 0; i < ARRAY_LEN(selectivities); i++) {
        size_t n;
        free(scan_passing(w, scan_m_below, selectivities[i], &n));
        pennon_scan_options o = scan_options(w);
        o.filter = below(selectivities[i]);
        scan_ok(w, pennon_scan_count(w->ds, &o, &rows, &w->err));
        assert_int_equal(rows, n);
    }
    pennon_scan_options o = scan_options(w);
    scan_ok(w, pennon_scan_count(w->ds, &o, &rows, &w->err));
    assert_int_equal(rows, w->all.length);
    o.include_deleted_rows = true;
    scan_ok(w, pennon_scan_count(w->ds, &o, &rows, &w->err));
    assert_int_equal(rows, SCAN_ROWS);
    o.include_deleted_rows = false;
    static const uint64_t one[] = {1};
    const pennon_ids fragments = {1, one};
    o.fragments = &fragments;
    scan_ok(w, pennon_scan_count(w->ds, &o, &rows, &w->err));
    assert_int_equal(rows, 4000);
    o.limit = 3;
    scan_fails(w, pennon_scan_count(w->ds, &o, &rows, &w->err), PENNON_INVALID_ARGUMENT, "limit");
}

/* ---- order ---- */

struct ordering {
    const struct ArrowArray *all;
    bool descending, nulls_first;
};
static struct ordering ordering; /* qsort has no context */

static int by_m(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    bool null_x, null_y;
    const int64_t m = scan_int(ordering.all, SCAN_M, (int64_t)x, &null_x), k = scan_int(ordering.all, SCAN_M, (int64_t)y, &null_y);
    if (null_x != null_y) return (null_x == ordering.nulls_first) ? -1 : 1;
    if (!null_x && m != k) return (m < k) != ordering.descending ? -1 : 1;
    return x < y ? -1 : x > y;
}

static bool id_above(const struct ArrowArray *all, int64_t row, int64_t value)
{
    bool null;
    return scan_int(all, SCAN_ID, row, &null) > value;
}

static void test_scan_filter__order(void **state)
{
    struct scan_world *w = *state;
    /* Twice 2^63 is no number of rows to wait for. */
    static const uint64_t limits[] = {UINT64_MAX, 0, 5, 3000, UINT64_C(1) << 63, UINT64_MAX - 1};
    for (int32_t style = PENNON_MATERIALIZE_HEURISTIC; style <= PENNON_MATERIALIZE_LATE; style++) {
        for (unsigned k = 0; k < 6; k++) {
            const pennon_order order = {"m", k & 1, k & 2};
            const pennon_orders orders = {1, &order};
            const uint64_t limit = limits[(k + (unsigned)style) % ARRAY_LEN(limits)];
            size_t n;
            uint64_t *rows = scan_passing(w, id_above, 9000, &n);
            ordering = (struct ordering){&w->all, order.descending, order.nulls_first};
            qsort(rows, n, sizeof *rows, by_m);
            pennon_scan_options o = scan_options(w);
            o.columns = &scan_names;
            o.filter = "id > 9000";
            o.order_by = &orders;
            o.materialize = style;
            o.limit = limit;
            o.offset = limit == 5 ? 17 : 0;
            scan_expect(w, &o, rows + o.offset, limit < n ? (size_t)limit : n);
            free(rows);
        }
    }
}

static void test_scan_filter__order_by_what_is_not_shown(void **state)
{
    struct scan_world *w = *state;
    static const char *const id[] = {"id"};
    const pennon_names names = {1, id};
    const pennon_order order[] = {{"st.x", true, false}, {"id", true, false}};
    const pennon_orders orders = {2, order};
    for (int32_t style = PENNON_MATERIALIZE_HEURISTIC; style <= PENNON_MATERIALIZE_LATE; style++) {
        struct ArrowSchema schema;
        struct ArrowArray got;
        pennon_scan_options o = scan_options(w);
        o.columns = &names;
        o.order_by = &orders;
        o.materialize = style;
        o.limit = 2;
        scan_rows(w, &o, &schema, &got);
        assert_int_equal(got.n_children, 1);
        assert_int_equal(got.length, 2);
        /* The highest id of those with x = 99. */
        bool null;
        int64_t best = -1;
        for (int64_t i = 0; i < w->all.length; i++) {
            const struct ArrowArray *st = w->all.children[SCAN_ST];
            if (bit_get(st->buffers[0], (uint64_t)i) && scan_int(st, 0, i, &null) == 99)
                best = scan_int(&w->all, SCAN_ID, i, &null);
        }
        assert_int_equal(scan_int(&got, 0, 0, &null), best);
        array_release(&got);
        arrow_schema_release(&schema);
    }
    const pennon_order list = {"l", false, false}, none = {"nowhere", false, false};
    pennon_orders bad = {1, &none};
    struct ArrowArrayStream stream;
    pennon_scan_options o = scan_options(w);
    o.order_by = &bad;
    scan_fails(w, pennon_scan(w->ds, &o, &stream, &w->err), PENNON_INVALID_ARGUMENT, "nowhere");
    UNUSED(list);
}

/* ---- computed columns, aggregates ---- */

static void test_scan_filter__expressions(void **state)
{
    struct scan_world *w = *state;
    static const char *const first[] = {"f"};
    const pennon_names names = {1, first};
    static const pennon_expression items[] = {{"more", "m + 5"}, {"s", NULL}, {"again", "m"}, {"doc", "j"}};
    const pennon_expressions expressions = {4, items};
    for (int k = 0; k < 3; k++) {
        struct ArrowSchema schema;
        struct ArrowArray got;
        size_t n;
        uint64_t *rows = scan_passing(w, scan_m_below, k == 2 ? 10000 : 300, &n);
        pennon_scan_options o = scan_options(w);
        o.columns = &names;
        o.expressions = &expressions;
        o.filter = below(k == 2 ? 10000 : 300);
        o.materialize = k == 1 ? PENNON_MATERIALIZE_EARLY : PENNON_MATERIALIZE_HEURISTIC;
        o.with_row_id = true;
        scan_rows(w, &o, &schema, &got);
        assert_int_equal(got.length, n);
        assert_int_equal(got.n_children, 6);
        assert_string_equal(schema.children[1]->name, "more");
        assert_string_equal(schema.children[4]->format, "u");
        assert_string_equal(schema.children[5]->name, "_rowid");
        bool null;
        for (size_t i = 0; i < n; i++) {
            const int64_t m = scan_int(&w->all, SCAN_M, (int64_t)rows[i], &null);
            assert_int_equal(scan_int(&got, 1, (int64_t)i, &null), m + 5);
            assert_int_equal(scan_int(&got, 3, (int64_t)i, &null), m);
        }
        struct ArrowArray want;
        scan_ok(w, array_take(w->schema.children[SCAN_J], w->all.children[SCAN_J], rows, n, w->mem, &want, &w->err));
        assert_true(array_equal(schema.children[4], got.children[4], &want));
        array_release(&want);
        array_release(&got);
        arrow_schema_release(&schema);
        free(rows);
    }
    static const pennon_expression doubled[] = {{"f", "m"}};
    const pennon_expressions bad = {1, doubled};
    struct ArrowArrayStream stream;
    pennon_scan_options o = scan_options(w);
    o.columns = &names;
    o.expressions = &bad;
    scan_fails(w, pennon_scan(w->ds, &o, &stream, &w->err), PENNON_INVALID_ARGUMENT, "twice");
}

static void test_scan_filter__take_expressions(void **state)
{
    struct scan_world *w = *state;
    static const pennon_expression items[] = {{"more", "id + 5"}, {"m", NULL}};
    const pennon_expressions expressions = {2, items};
    static const uint64_t rows[] = {40, 3, 3, 9000};
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    pennon_take_options o;
    pennon_take_options_init(&o);
    o.call = &w->call;
    o.expressions = &expressions;
    scan_ok(w, pennon_dataset_take(w->ds, PENNON_TAKE_OFFSETS, 4, rows, &o, &stream, &w->err));
    scan_ok(w, stream_next(&stream, &batch, &w->err));
    assert_int_equal(batch.length, 4);
    bool null;
    for (int64_t i = 0; i < 4; i++) {
        assert_int_equal(scan_int(&batch, 0, i, &null), scan_int(&w->all, SCAN_ID, (int64_t)rows[i], &null) + 5);
    }
    array_release(&batch);
    stream_release(&stream);
}

static void test_scan_filter__aggregates(void **state)
{
    struct scan_world *w = *state;
    static const pennon_aggregate items[] = {{PENNON_AGGREGATE_COUNT_ROWS, NULL, NULL},
                                             {PENNON_AGGREGATE_SUM, "id", NULL},
                                             {PENNON_AGGREGATE_MAX, "m", "top"},
                                             {PENNON_AGGREGATE_COUNT, "f", NULL}};
    const pennon_aggregates aggregates = {NULL, 4, items};
    struct ArrowSchema schema;
    struct ArrowArray got;
    size_t n;
    uint64_t *rows = scan_passing(w, scan_m_below, 500, &n);
    int64_t sum = 0;
    bool null;
    for (size_t i = 0; i < n; i++) sum += scan_int(&w->all, SCAN_ID, (int64_t)rows[i], &null);
    free(rows);
    pennon_scan_options o = scan_options(w);
    o.filter = below(500);
    o.aggregates = &aggregates;
    scan_rows(w, &o, &schema, &got);
    assert_int_equal(got.length, 1);
    assert_int_equal(scan_int(&got, 0, 0, &null), n);
    assert_int_equal(scan_int(&got, 1, 0, &null), sum);
    assert_string_equal(schema.children[0]->name, "count(Int64(1))");
    assert_string_equal(schema.children[1]->name, "sum(id)");
    assert_string_equal(schema.children[2]->name, "top");
    array_release(&got);
    arrow_schema_release(&schema);
    struct ArrowArrayStream stream;
    o.limit = 1;
    scan_fails(w, pennon_scan(w->ds, &o, &stream, &w->err), PENNON_INVALID_ARGUMENT, "limit");
}

/* ---- deleted rows, refusals ---- */

static void test_scan_filter__deleted_rows(void **state)
{
    struct scan_world *w = *state;
    struct ArrowSchema schema;
    struct ArrowArray got;
    static const char *const id[] = {"id", "s"};
    const pennon_names names = {2, id};
    pennon_scan_options o = scan_options(w);
    o.columns = &names;
    o.with_row_id = true;
    o.include_deleted_rows = true;
    for (int k = 0; k < 5; k++) {
        o.filter = k == 0 ? NULL : k == 1 ? "id > 5999 AND id < 12000" : k == 2 ? "id = 6003" : "id > 6000 AND id < 6010";
        o.materialize = k == 4 ? PENNON_MATERIALIZE_EARLY : k == 3 ? PENNON_MATERIALIZE_LATE : PENNON_MATERIALIZE_HEURISTIC;
        const int64_t want = k == 0 ? SCAN_ROWS : k == 1 ? 6000 : k == 2 ? 1 : 9;
        scan_rows(w, &o, &schema, &got);
        assert_int_equal(got.length, want);
        assert_int_equal(got.children[2]->null_count, k == 0 ? w->deleted : k == 1 ? 2000 : k == 2 ? 1 : 3);
        array_release(&got);
        arrow_schema_release(&schema);
    }
    struct ArrowArrayStream stream;
    o.filter = NULL;
    o.limit = 3;
    scan_fails(w, pennon_scan(w->ds, &o, &stream, &w->err), PENNON_INVALID_ARGUMENT, "include_deleted_rows");
    o.limit = PENNON_NONE;
    o.with_row_id = false;
    scan_fails(w, pennon_scan(w->ds, &o, &stream, &w->err), PENNON_INVALID_ARGUMENT, "with_row_id is false");
}

/* is_not_null of the second column, alone and beside SQL. */
static void test_scan_filter__substrait(void **state)
{
    static const uint8_t message[] = {0x12, 0x11, 0x1A, 0x0F, 0x10, 0x01, 0x1A, 0x0B, 'i',  's',  '_',  'n',  'o',
                                      't',  '_',  'n',  'u',  'l',  'l',  0x1A, 0x10, 0x0A, 0x0E, 0x1A, 0x0C, 0x08,
                                      0x01, 0x22, 0x08, 0x1A, 0x06, 0x12, 0x04, 0x0A, 0x02, 0x12, 0x00};
    struct scan_world *w = *state;
    uint64_t rows, expected;
    uint8_t second[sizeof message + 2];
    /* The field's position, 1, lengthens every message around it by two bytes. */
    memcpy(second, message, sizeof message - 1);
    for (size_t i = 0; i < 2; i++) second[sizeof message - 1 + i] = 0;
    static const size_t lengths[] = {20, 22, 24, 28, 30, 32, 34};
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) second[lengths[i]] = (uint8_t)(second[lengths[i]] + 2);
    second[sizeof message - 1] = 0x02;
    second[sizeof message] = 0x08;
    second[sizeof message + 1] = 0x01;
    pennon_scan_options o = scan_options(w), sql = o;
    for (int i = 0; i < 2; i++) {
        o.substrait_filter = second;
        o.substrait_filter_size = sizeof second;
        o.filter = i ? "id > 10" : NULL;
        sql.filter = i ? "m IS NOT NULL AND id > 10" : "m IS NOT NULL";
        scan_ok(w, pennon_scan_count(w->ds, &o, &rows, &w->err));
        scan_ok(w, pennon_scan_count(w->ds, &sql, &expected, &w->err));
        assert_int_equal(rows, expected);
    }
}

static void test_scan_filter__refusals(void **state)
{
    struct scan_world *w = *state;
    struct ArrowArrayStream stream;
    pennon_scan_options o = scan_options(w);
    o.filter = "nowhere < 3";
    scan_fails(w, pennon_scan(w->ds, &o, &stream, &w->err), PENNON_INVALID_ARGUMENT, "nowhere");
    o.filter = NULL;
    o.substrait_filter = "x";
    o.substrait_filter_size = 1;
    assert_int_not_equal(pennon_scan(w->ds, &o, &stream, &w->err), PENNON_OK);
    pennon_error_clear(&w->err);
    o.substrait_filter = NULL;
    o.filter = "id < 3";
    o.materialize = 9;
    scan_fails(w, pennon_scan(w->ds, &o, &stream, &w->err), PENNON_INVALID_ARGUMENT, "materialize");
    o.materialize = PENNON_MATERIALIZE_EARLY_EXCEPT;
    static const char *const late[] = {"elsewhere"};
    const pennon_names names = {1, late};
    o.late_columns = &names;
    scan_fails(w, pennon_scan(w->ds, &o, &stream, &w->err), PENNON_INVALID_ARGUMENT, "elsewhere");
    static const char *const place[] = {"_rowplace"};
    const pennon_names hidden = {1, place};
    o = scan_options(w);
    o.columns = &hidden;
    o.filter = "id < 3";
    scan_fails(w, pennon_scan(w->ds, &o, &stream, &w->err), PENNON_INVALID_ARGUMENT, "_rowplace");
}

/* ---- tight budgets, cancelling ---- */

static void test_scan_filter__tight_budget(void **state)
{
    struct scan_world *w = *state;
    for (size_t i = 0; i < 2; i++) {
        const int64_t value = i ? 9800 : 600;
        size_t n;
        uint64_t *rows = scan_passing(w, scan_m_below, value, &n);
        for (uint64_t kib = 4096; kib >= 1024; kib /= 2) {
            pennon_budget *budget;
            scan_ok(w, pennon_budget_new(w->runtime, kib << 10, &budget, &w->err));
            w->call.budget = budget;
            pennon_scan_options o = scan_options(w);
            o.columns = &scan_names;
            o.filter = below(value);
            /* What the batches need stays charged until they are released: they are counted one by one. */
            struct ArrowArrayStream stream;
            struct ArrowArray batch;
            uint64_t got = 0;
            scan_ok(w, pennon_scan(w->ds, &o, &stream, &w->err));
            for (;;) {
                scan_ok(w, stream_next(&stream, &batch, &w->err));
                if (!batch.release) break;
                bool null;
                for (int64_t k = 0; k < batch.length; k++) {
                    assert_int_equal(scan_int(&batch, SCAN_ID, k, &null), scan_int(&w->all, SCAN_ID, (int64_t)rows[got++], &null));
                }
                array_release(&batch);
            }
            stream_release(&stream);
            assert_int_equal(got, n);
            assert_true(pennon_budget_peak(budget) <= kib << 10);
            pennon_budget_free(budget);
            w->call.budget = NULL;
        }
        free(rows);
    }
}

static void test_scan_filter__cancel(void **state)
{
    struct scan_world *w = *state;
    pennon_cancel *cancel;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    scan_ok(w, pennon_cancel_new(&cancel, &w->err));
    w->call.cancel = cancel;
    pennon_scan_options o = scan_options(w);
    o.filter = below(5000);
    o.batch_rows = 100;
    scan_ok(w, pennon_scan(w->ds, &o, &stream, &w->err));
    scan_ok(w, stream_next(&stream, &batch, &w->err));
    array_release(&batch);
    pennon_cancel_fire(cancel);
    pennon_status st = PENNON_OK;
    while (st == PENNON_OK) {
        st = stream_next(&stream, &batch, &w->err);
        if (st == PENNON_OK) assert_non_null(batch.release);
        array_release(&batch);
    }
    assert_int_equal(st, PENNON_CANCELLED);
    stream_release(&stream);
    w->call.cancel = NULL;
    pennon_cancel_free(cancel);
}

/* ---- explain, sample ---- */

static void expect_text(struct scan_world *w, const pennon_scan_options *o, bool analyze, const char *const *parts, size_t n)
{
    char *text = NULL;
    scan_ok(w, pennon_scan_explain(w->ds, o, analyze, &text, &w->err));
    const char *at = text;
    for (size_t i = 0; i < n; i++) {
        const char *found = strstr(at, parts[i]);
        if (!found) fail_msg("'%s' is missing in\n%s", parts[i], text);
        at = found;
    }
    pennon_string_free(text);
}

static void test_scan_filter__explain(void **state)
{
    struct scan_world *w = *state;
    static const char *const columns[] = {"s", "id"};
    const pennon_names names = {2, columns};
    pennon_scan_options o = scan_options(w);
    o.columns = &names;
    static const char *const plain[] = {
        "LanceRead: uri=", "projection=[s, id], num_fragments=4, range_before=None, range_after=None",
        "row_id=false, row_addr=false, full_filter=--, refine_filter=--\n"};
    expect_text(w, &o, false, plain, 3);
    o.filter = "id > 300";
    o.limit = 5;
    o.offset = 1;
    static const char *const filtered[] = {"ProjectionExec: expr=[s@1 as s, id@0 as id]\n",
                                           "\n  Take: columns=\"id, _rowaddr, (s)\"",
                                           "\n    CoalesceBatchesExec: target_batch_size=8192",
                                           "\n      GlobalLimitExec: skip=1, fetch=5",
                                           "\n        LanceRead: uri=",
                                           "projection=[id]",
                                           "range_after=Some(0..6)",
                                           "full_filter=id > Int64(300)"};
    expect_text(w, &o, false, filtered, ARRAY_LEN(filtered));
    const pennon_order order = {"m", true, true};
    const pennon_orders orders = {1, &order};
    o.order_by = &orders;
    static const char *const ordered[] = {"Take: columns=", "SortExec: TopK(fetch=6), expr=[m@0 DESC NULLS FIRST]", "LanceRead"};
    expect_text(w, &o, false, ordered, 3);
    static const char *const taken[] = {"Take: columns=", "metrics=[output_rows=5, elapsed_compute=",     "SortExec: elapsed=",
                                        "Take: columns=", "metrics=[output_rows=18599, elapsed_compute=", "LanceRead"};
    expect_text(w, &o, true, taken, ARRAY_LEN(taken));
    o.order_by = NULL;
    static const char *const analyzed[] = {
        "AnalyzeExec verbose=true, elapsed=", "\n  TracedExec", "\n      Take: ", "bytes_read=", "LanceRead: elapsed=",
        "metrics=[output_rows=5, ",           "rows_scanned=",  "requests="};
    expect_text(w, &o, true, analyzed, ARRAY_LEN(analyzed));
    static const pennon_aggregate count = {PENNON_AGGREGATE_COUNT_ROWS, NULL, NULL};
    const pennon_aggregates aggregates = {NULL, 1, &count};
    o = scan_options(w);
    o.aggregates = &aggregates;
    static const char *const summed[] = {"AggregateExec: mode=Single, gby=[], aggr=[count(Int64(1))]", "\n  LanceRead"};
    expect_text(w, &o, false, summed, 2);
}

static void test_scan_filter__sample(void **state)
{
    struct scan_world *w = *state;
    static const uint64_t sizes[] = {0, 1, 100, 12000, 30000};
    static const char *const columns[] = {"_rowoffset"};
    const pennon_names names = {1, columns};
    pennon_take_options o;
    pennon_take_options_init(&o);
    o.call = &w->call;
    o.columns = &names;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct ArrowArrayStream stream;
        struct ArrowArray batch, again;
        scan_ok(w, pennon_dataset_sample(w->ds, sizes[i], 42, &o, &stream, &w->err));
        scan_ok(w, stream_next(&stream, &batch, &w->err));
        stream_release(&stream);
        const int64_t want = sizes[i] < (uint64_t)w->all.length ? (int64_t)sizes[i] : w->all.length;
        assert_int_equal(batch.length, want);
        const uint64_t *offsets = batch.children[0]->buffers[1];
        for (int64_t k = 1; k < want; k++) assert_true(offsets[k - 1] < offsets[k]);
        scan_ok(w, pennon_dataset_sample(w->ds, sizes[i], 42, &o, &stream, &w->err));
        scan_ok(w, stream_next(&stream, &again, &w->err));
        stream_release(&stream);
        assert_memory_equal(again.children[0]->buffers[1], offsets, (size_t)want * 8);
        array_release(&batch);
        array_release(&again);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, scan_setup, scan_teardown)
#define CASE_STABLE(name)                                                     \
    {                                                                         \
#name "_stable_row_ids", name, scan_setup_stable, scan_teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_scan_filter__rows_that_pass),
        CASE_STABLE(test_scan_filter__rows_that_pass),
        CASE(test_scan_filter__few_batches),
        CASE(test_scan_filter__nested_and_missing_columns),
        CASE(test_scan_filter__system_columns),
        CASE_STABLE(test_scan_filter__system_columns),
        CASE(test_scan_filter__constants),
        CASE(test_scan_filter__limits),
        CASE_STABLE(test_scan_filter__limits),
        CASE(test_scan_filter__stats),
        CASE(test_scan_filter__count),
        CASE(test_scan_filter__order),
        CASE_STABLE(test_scan_filter__order),
        CASE(test_scan_filter__order_by_what_is_not_shown),
        CASE(test_scan_filter__expressions),
        CASE(test_scan_filter__take_expressions),
        CASE(test_scan_filter__aggregates),
        CASE(test_scan_filter__deleted_rows),
        CASE_STABLE(test_scan_filter__deleted_rows),
        CASE(test_scan_filter__substrait),
        CASE(test_scan_filter__refusals),
        CASE(test_scan_filter__tight_budget),
        CASE(test_scan_filter__cancel),
        CASE(test_scan_filter__explain),
        CASE(test_scan_filter__sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
