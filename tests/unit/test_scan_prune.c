/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Filters over row ids, addresses and offsets: they read what can match, and give what the filter over every row gives. */
#include "expr/expr.h"
#include "scan_world.h"

/* The same filter in a form that says nothing about places: functions are not looked through. */
static void hide(const char *filter, char *out, size_t size)
{
    static const char *const names[] = {"_rowid", "_rowaddr", "_rowoffset"};
    size_t at = 0;
    while (*filter && at + 32 < size) {
        size_t k = 0;
        while (k < 3 && strncmp(filter, names[k], strlen(names[k])) != 0) k++;
        if (k == 3) {
            out[at++] = *filter++;
            continue;
        }
        at += (size_t)snprintf(out + at, size - at, "coalesce(%s)", names[k]);
        filter += strlen(names[k]);
    }
    assert_true(at + 32 < size);
    out[at] = '\0';
}

struct seen {
    pennon_scan_stats stats;
    int calls;
};
static void note_stats(void *ctx, const pennon_scan_stats *stats)
{
    struct seen *s = ctx;
    s->stats = *stats;
    s->calls++;
}

/* Both forms of the filter give the same rows; the rows that were looked at for the first form. */
static uint64_t same_rows(struct scan_world *w, pennon_scan_options o, const char *filter, int64_t *rows)
{
    char hidden[2048];
    struct ArrowSchema schemas[2];
    struct ArrowArray got[2];
    struct seen seen[2] = {{.calls = 0}};
    hide(filter, hidden, sizeof hidden);
    o.columns = &scan_names;
    o.stats = note_stats;
    for (int k = 0; k < 2; k++) {
        o.filter = k ? hidden : filter;
        o.stats_ctx = &seen[k];
        scan_rows(w, &o, &schemas[k], &got[k]);
        assert_int_equal(seen[k].calls, 1);
    }
    if (got[0].length != got[1].length)
        fail_msg("%s: %lld rows, not %lld", filter, (long long)got[0].length, (long long)got[1].length);
    if (!array_equal(&schemas[0], &got[0], &got[1])) fail_msg("%s: other rows", filter);
    *rows = got[0].length;
    for (int k = 0; k < 2; k++) {
        array_release(&got[k]);
        arrow_schema_release(&schemas[k]);
    }
    if (seen[0].stats.rows_scanned > seen[1].stats.rows_scanned) fail_msg("%s: more rows than without bounds", filter);
    return seen[0].stats.rows_scanned;
}

static int64_t value_at(struct scan_world *w, int column, int64_t row)
{
    bool null;
    return scan_int(&w->all, column, row, &null);
}

static const char *const system_names[] = {"_rowid", "_rowaddr", "_rowoffset"};

/* Every form over every system column, with values inside, at the ends of fragments, deleted and absent. */
static void test_scan_prune__same_rows(void **state)
{
    struct scan_world *w = *state;
    static const char *const forms[] = {
        "%s = %lld",
        "%s != %lld AND m < 5000",
        "%s < %lld AND m < 3000",
        "%s <= %lld",
        "%s > %lld AND id %% 2 = 0",
        "%s >= %lld",
        "%s IN (%lld, 3, 11999, 12000, 999999)",
        "%s IN (%lld, 1, 2, 3) AND m IS NOT NULL",
        "NOT (%s = %lld) AND m < 100",
        "(%s = %lld) IS TRUE",
        "(%s = %lld OR m = 77) AND id < 9000",
    };
    const int64_t rows[] = {0, 5999, 6000, 7001, w->all.length - 1};
    uint64_t some = 0;
    for (int s = 0; s < 3; s++) {
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
            for (size_t r = (size_t)s; r < sizeof rows / sizeof *rows; r += 3) {
                char filter[256];
                int64_t n;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
                (void)snprintf(filter, sizeof filter, forms[f], system_names[s], (long long)value_at(w, SCAN_ROWID + s, rows[r]));
#pragma GCC diagnostic pop
                pennon_scan_options o = scan_options(w);
                o.materialize = (int32_t)(r % 3);
                (void)same_rows(w, o, filter, &n);
                some += n > 0;
            }
        }
    }
    assert_true(some > 30);
}

static void test_scan_prune__between_and_joined(void **state)
{
    struct scan_world *w = *state;
    const long long low = value_at(w, SCAN_ROWID, 7000), high = value_at(w, SCAN_ROWID, 13000);
    const long long address = value_at(w, SCAN_ROWADDR, 9000);
    char filter[512];
    int64_t n;
    pennon_scan_options o = scan_options(w);
    (void)snprintf(filter, sizeof filter, "_rowid BETWEEN %lld AND %lld", low, high);
    (void)same_rows(w, o, filter, &n);
    assert_int_equal(n, 6001);
    (void)snprintf(filter, sizeof filter, "_rowid NOT BETWEEN %lld AND %lld AND m < 900", low, high);
    (void)same_rows(w, o, filter, &n);
    assert_true(n > 0);
    (void)snprintf(filter, sizeof filter, "_rowid >= %lld AND _rowaddr <= %lld AND _rowoffset > 7100", low, address);
    assert_true(same_rows(w, o, filter, &n) < 3100);
    assert_int_equal(n, 9000 - 7100);
    (void)snprintf(filter, sizeof filter, "_rowid = %lld AND _rowid = %lld", low, high);
    assert_int_equal(same_rows(w, o, filter, &n), 0);
    assert_int_equal(n, 0);
    /* Limits count behind the filter. */
    (void)snprintf(filter, sizeof filter, "_rowid BETWEEN %lld AND %lld AND m < 5000", low, high);
    o.limit = 700;
    o.offset = 300;
    (void)same_rows(w, o, filter, &n);
    assert_int_equal(n, 700);
}

/* One row in a few thousand, over all fragments: the ranges of a job are many. */
static void test_scan_prune__many_values(void **state)
{
    struct scan_world *w = *state;
    pennon_scan_options o = scan_options(w);
    struct seen seen = {.calls = 0};
    const size_t size = 1 << 20;
    char *filter = malloc(size);
    assert_non_null(filter);
    for (int s = 0; s < 3; s++) {
        size_t at = (size_t)snprintf(filter, size, "m >= 0 AND %s IN (18446744073", system_names[s]), n = 0;
        uint64_t *rows = malloc((size_t)w->all.length * sizeof *rows);
        assert_non_null(rows);
        for (int64_t i = w->all.length - 1; i >= 0; i -= 7) { /* in no order */
            at += (size_t)snprintf(filter + at, size - at, ",%lld", (long long)value_at(w, SCAN_ROWID + s, i));
        }
        (void)snprintf(filter + at, size - at, ")");
        for (int64_t i = (w->all.length - 1) % 7; i < w->all.length; i += 7) {
            bool null;
            (void)scan_int(&w->all, SCAN_M, i, &null);
            if (!null) rows[n++] = (uint64_t)i;
        }
        o.filter = filter;
        o.columns = &scan_names;
        o.stats = note_stats;
        o.stats_ctx = &seen;
        for (o.materialize = PENNON_MATERIALIZE_HEURISTIC; o.materialize <= PENNON_MATERIALIZE_LATE; o.materialize++) {
            scan_expect(w, &o, rows, n);
            assert_true(seen.stats.rows_scanned < (uint64_t)w->all.length / 7 + 10);
        }
        o.batch_rows = 100;
        scan_expect(w, &o, rows, n);
        o.batch_rows = 0;
        o.columns = NULL;
        o.stats = NULL;
        uint64_t count;
        scan_ok(w, pennon_scan_count(w->ds, &o, &count, &w->err));
        assert_int_equal(count, n);
        free(rows);
    }
    free(filter);
}

/* A point is read with little: neither the other fragments nor the other rows. */
static void test_scan_prune__reads_little(void **state)
{
    struct scan_world *w = *state;
    struct seen point = {.calls = 0}, all = {.calls = 0};
    pennon_scan_options o = scan_options(w);
    struct ArrowSchema schema;
    struct ArrowArray got;
    char filter[96];
    o.columns = &scan_names;
    o.stats = note_stats;
    o.stats_ctx = &all;
    scan_rows(w, &o, &schema, &got);
    array_release(&got);
    arrow_schema_release(&schema);
    for (int s = 0; s < 3; s++) {
        (void)snprintf(filter, sizeof filter, "%s = %lld", system_names[s], (long long)value_at(w, SCAN_ROWID + s, 9001));
        o.filter = filter;
        o.stats_ctx = &point;
        scan_rows(w, &o, &schema, &got);
        assert_int_equal(got.length, 1);
        array_release(&got);
        arrow_schema_release(&schema);
        assert_int_equal(point.stats.rows_scanned, 1);
        assert_true(point.stats.bytes_read > 0 && point.stats.bytes_read * 8 < all.stats.bytes_read);
        assert_true(point.stats.requests <= 8);
    }
}

static void test_scan_prune__deleted_and_absent(void **state)
{
    struct scan_world *w = *state;
    pennon_scan_options o = scan_options(w);
    int64_t n;
    /* The first row of the second fragment is deleted. */
    assert_true(same_rows(w, o, "_rowaddr = 4294967296", &n) <= 1);
    assert_int_equal(n, 0);
    assert_int_equal(same_rows(w, o, "_rowaddr = 4294973296", &n), 0); /* behind its last row */
    assert_int_equal(same_rows(w, o, "_rowaddr >= 42949672960000", &n), 0);
    assert_int_equal(same_rows(w, o, "_rowid > 42949672960000", &n), 0);
    assert_int_equal(same_rows(w, o, "_rowoffset >= 21000", &n), 0);
    o.include_deleted_rows = o.with_row_id = true;
    (void)same_rows(w, o, "_rowaddr = 4294967296", &n);
    assert_int_equal(n, 1);
    (void)same_rows(w, o, "_rowaddr BETWEEN 4294967296 AND 4294967396 AND m IS NOT NULL", &n);
    assert_true(n > 50);
    (void)same_rows(w, o, "_rowoffset BETWEEN 6000 AND 6100", &n);
    assert_true(n > 101);
    (void)same_rows(w, o, "_rowid BETWEEN 4294967296 AND 4294967396 OR _rowid BETWEEN 6000 AND 6100", &n);
    assert_true(n > 60);
}

static void test_scan_prune__explain(void **state)
{
    struct scan_world *w = *state;
    pennon_scan_options o = scan_options(w);
    char *text;
    o.filter = "_rowaddr IN (3, 4294968297)";
    scan_ok(w, pennon_scan_explain(w->ds, &o, true, &text, &w->err));
    if (!strstr(text, "fragments_scanned=2,") || !strstr(text, "rows_scanned=2,")) fail_msg("%s", text);
    pennon_string_free(text);
}

/* ---- the ranges alone ---- */

static void bounds_are(struct scan_world *w, const char *filter, const char *want)
{
    struct ArrowSchema input;
    struct expr *e;
    struct value_range *ranges;
    size_t n, at = 0;
    char text[512] = "";
    scan_ok(w, arrow_schema_from_text(bytes_str("struct<r: uint64, i: int64, b: bool>"), "", w->mem, &input, &w->err));
    scan_ok(w, expr_compile_filter(bytes_str(filter), &input, w->mem, &e, &w->err));
    scan_ok(w, expr_bounds(e, "r", w->mem, &ranges, &n, &w->err));
    for (size_t i = 0; i < n; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%llu-", i ? " " : "", (unsigned long long)ranges[i].first);
        if (ranges[i].last != UINT64_MAX)
            at += (size_t)snprintf(text + at, sizeof text - at, "%llu", (unsigned long long)ranges[i].last);
    }
    if (strcmp(text, want) != 0) fail_msg("%s: '%s' and not '%s'", filter, text, want);
    mem_free(w->mem, ranges);
    expr_free(e);
    arrow_schema_release(&input);
}

static void test_expr_bounds__forms(void **state)
{
    struct scan_world *w = *state;
    bounds_are(w, "r = 5", "5-5");
    bounds_are(w, "5 = r", "5-5");
    bounds_are(w, "5 > r", "0-4");
    bounds_are(w, "r < 0", "");
    bounds_are(w, "r > 5 AND i = 7", "6-");
    bounds_are(w, "r > 5 OR i = 7", "0-");
    bounds_are(w, "r != 5", "0-4 6-");
    bounds_are(w, "r != 0", "1-");
    bounds_are(w, "r NOT BETWEEN 3 AND 9", "0-2 10-");
    bounds_are(w, "r IN (9, 3, 4, 4, 5, 12)", "3-5 9-9 12-12");
    bounds_are(w, "r IN (9, NULL, 3, 7, 1)", "1-1 3-3 7-7 9-9");
    bounds_are(w, "r NOT IN (9, 3, 4, 5)", "0-");
    bounds_are(w, "r IN (1, 2) OR r BETWEEN 2 AND 8 OR r = 20", "1-8 20-20");
    bounds_are(w, "(r < 10 OR r > 20) AND (r > 5 AND r < 30) AND b", "6-9 21-29");
    bounds_are(w, "(r = 3) IS TRUE", "0-");
    bounds_are(w, "NOT (r = 3)", "0-");
    bounds_are(w, "r IS NULL", "0-");
    bounds_are(w, "r = i", "0-");
    bounds_are(w, "r + 1 = 5", "0-");
    bounds_are(w, "i = 5", "0-");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, scan_setup, scan_teardown)
#define CASE_STABLE(name)                                                     \
    {                                                                         \
#name "_stable_row_ids", name, scan_setup_stable, scan_teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_scan_prune__same_rows),
        CASE_STABLE(test_scan_prune__same_rows),
        CASE(test_scan_prune__between_and_joined),
        CASE_STABLE(test_scan_prune__between_and_joined),
        CASE(test_scan_prune__many_values),
        CASE_STABLE(test_scan_prune__many_values),
        CASE(test_scan_prune__reads_little),
        CASE_STABLE(test_scan_prune__reads_little),
        CASE(test_scan_prune__deleted_and_absent),
        CASE(test_scan_prune__explain),
        CASE(test_expr_bounds__forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
