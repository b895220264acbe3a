/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Updates: which rows move and what they hold then, what is refused, and what happens beside other writers. */
#include <pthread.h>

#include "scan_world.h"

static pennon_mutation_options options_of(struct scan_world *w)
{
    pennon_mutation_options o;
    pennon_mutation_options_init(&o);
    o.call = &w->call;
    return o;
}

static pennon_status try_update(struct scan_world *w, pennon_dataset *ds, const char *column, const char *sql, const char *where,
                                pennon_update_result *r)
{
    pennon_mutation_options o = options_of(w);
    return pennon_dataset_update(ds, where, 1, &column, &sql, &o, r, &w->err);
}

static pennon_update_result update_rows(struct scan_world *w, pennon_dataset *ds, const char *column, const char *sql,
                                        const char *where)
{
    pennon_update_result r = {.struct_size = sizeof r};
    scan_ok(w, try_update(w, ds, column, sql, where, &r));
    assert_int_equal(r.version, pennon_dataset_version(ds));
    return r;
}

static uint64_t count(struct scan_world *w, pennon_dataset *ds, const char *where)
{
    uint64_t n;
    pennon_scan_options o = scan_options(w);
    o.filter = where;
    scan_ok(w, pennon_scan_count(ds, &o, &n, &w->err));
    return n;
}

static pennon_dataset *open_again(struct scan_world *w)
{
    pennon_dataset *ds;
    pennon_open_options o;
    pennon_open_options_init(&o);
    o.call = &w->call;
    scan_ok(w, pennon_dataset_open(SCAN_URI, &o, &ds, &w->err));
    return ds;
}

static void verify(struct scan_world *w, pennon_dataset *ds)
{
    pennon_verify_options o;
    pennon_verify_counts n = {.struct_size = sizeof n};
    pennon_verify_options_init(&o);
    o.call = &w->call;
    o.scope = PENNON_VERIFY_ALL;
    scan_ok(w, pennon_dataset_verify(ds, &o, &n, &w->err));
    assert_int_equal(n.findings, 0);
}

static bool count_file(void *ctx, const pennon_object_info *info)
{
    UNUSED(info);
    ++*(size_t *)ctx;
    return true;
}

/* Data and deletion files. */
static size_t files_of(struct scan_world *w)
{
    struct snapshot *s;
    struct call c;
    size_t n = 0;
    dataset_get(w->ds, &s, NULL);
    scan_ok(w, call_begin(&c, &w->call, &w->err));
    scan_ok(w, store_list(&c, s->at.store, "scan/t/_deletions", true, count_file, &n, &w->err));
    scan_ok(w, store_list(&c, s->at.store, "scan/t/data", true, count_file, &n, &w->err));
    call_end(&c);
    snapshot_release(s);
    return n;
}

/* ---- rows ---- */

static uint64_t word(const struct ArrowArray *batch, int column, int64_t row)
{
    const struct ArrowArray *a = batch->children[column];
    return ((const uint64_t *)a->buffers[1])[a->offset + row];
}

/* Those that stay as they were, then those that moved: the same ids in both parts' order, with or without their row ids. */
static void check_rows(struct scan_world *w, bool stable)
{
    static const char *const names[] = {"id", "m", "_rowid"};
    const pennon_names columns = {3, names};
    pennon_scan_options o = scan_options(w);
    struct ArrowSchema schema;
    struct ArrowArray rows;
    int64_t at = 0;
    o.columns = &columns;
    scan_rows(w, &o, &schema, &rows);
    assert_int_equal(rows.length, w->all.length);
    for (int moved = 0; moved < 2; moved++) {
        for (int64_t i = 0; i < w->all.length; i++) {
            if (scan_m_below(&w->all, i, 3000) != (moved == 1)) continue;
            assert_int_equal(word(&rows, 0, at), word(&w->all, SCAN_ID, i));
            if (stable || !moved) assert_int_equal(word(&rows, 2, at), word(&w->all, SCAN_ROWID, i));
            if (moved) assert_int_equal(word(&rows, 1, at), word(&w->all, SCAN_ID, i) + word(&w->all, SCAN_M, i));
            at++;
        }
    }
    array_release(&rows);
    arrow_schema_release(&schema);
}

static void run_rows(struct scan_world *w, bool stable)
{
    const uint64_t match = count(w, w->ds, "m < 3000");
    const pennon_update_result r = update_rows(w, w->ds, "m", "id + m", "m < 3000");
    assert_int_equal(r.rows_updated, match);
    assert_int_equal(r.fragments_changed, 4);
    assert_int_equal(r.fragments_removed, 0);
    assert_int_equal(r.fragments_added, 1);
    assert_int_equal(r.attempts, 1);
    check_rows(w, stable);
    verify(w, w->ds);
}

static void test_dataset_update__rows(void **state) { run_rows(*state, false); }
static void test_dataset_update__stable_rows(void **state) { run_rows(*state, true); }

static void test_dataset_update__all(void **state)
{
    struct scan_world *w = *state;
    const uint64_t rows = count(w, w->ds, NULL);
    const char *const columns[] = {"id", "m"}, *const expressions[] = {"m", "id"};
    pennon_mutation_options o = options_of(w);
    pennon_update_result r = {.struct_size = sizeof r};
    const uint64_t nulls = count(w, w->ds, "m IS NULL"), match = count(w, w->ds, "m < 500");
    scan_ok(w, pennon_dataset_update(w->ds, NULL, 2, columns, expressions, &o, &r, &w->err));
    assert_int_equal(r.rows_updated, rows);
    assert_int_equal(r.fragments_removed, 4);
    assert_int_equal(count(w, w->ds, "id IS NULL"), nulls);
    assert_int_equal(count(w, w->ds, "id < 500"), match);
    assert_int_equal(count(w, w->ds, "m IS NULL"), 0);
    verify(w, w->ds);
    r = update_rows(w, w->ds, "m", "1", "false");
    assert_int_equal(r.rows_updated + r.fragments_added + r.fragments_changed, 0);
}

/* Casts, texts in a JSON column, the JSON of rows whose other columns change. */
static void test_dataset_update__values(void **state)
{
    struct scan_world *w = *state;
    (void)update_rows(w, w->ds, "m", "'77'", "id = 5");
    (void)update_rows(w, w->ds, "s", "id * 2", "id = 5");
    (void)update_rows(w, w->ds, "j", "'{\"b\": [1, 2]}'", "id = 5");
    (void)update_rows(w, w->ds, "f", "m", "id = 5 OR id = 6");
    (void)update_rows(w, w->ds, "l", "[7, 8]", "id = 5");
    assert_int_equal(count(w, w->ds, "id = 5 AND m = 77 AND s = '10' AND f = 77.0 AND l[1] = 7"), 1);
    assert_int_equal(count(w, w->ds, "id = 5 AND json_extract(j, '$.b[1]') = '2'"), 1);
    assert_int_equal(count(w, w->ds, "id = 6 AND json_extract(j, '$.a') = '6'"), 1);
    verify(w, w->ds);
}

/* ---- what is refused ---- */

static void test_dataset_update__refused(void **state)
{
    struct scan_world *w = *state;
    const pennon_mutation_options o = options_of(w);
    const uint64_t version = pennon_dataset_version(w->ds);
    const size_t files = files_of(w);
    const char *const columns[] = {"m", "m"}, *const expressions[] = {"1", "2"};
    scan_fails(w, pennon_dataset_update(w->ds, NULL, 0, columns, expressions, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT,
               "No updates provided");
    scan_fails(w, pennon_dataset_update(w->ds, NULL, 2, columns, expressions, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT,
               "'m' is updated twice");
    scan_fails(w, try_update(w, w->ds, "idd", "1", NULL, NULL), PENNON_INVALID_ARGUMENT, "did you mean 'id'");
    scan_fails(w, try_update(w, w->ds, "ID", "1", NULL, NULL), PENNON_INVALID_ARGUMENT, "does not exist");
    scan_fails(w, try_update(w, w->ds, "st.x", "1", NULL, NULL), PENNON_NOT_SUPPORTED, "'st.x'");
    scan_fails(w, try_update(w, w->ds, "_rowid", "1", NULL, NULL), PENNON_INVALID_ARGUMENT, "does not exist");
    scan_fails(w, try_update(w, w->ds, "m", "idd", NULL, NULL), PENNON_INVALID_ARGUMENT, "'id'");
    scan_fails(w, try_update(w, w->ds, "m", "st", NULL, NULL), PENNON_INVALID_ARGUMENT, "there is no cast of");
    scan_fails(w, try_update(w, w->ds, "m", "1", "idd = 1", NULL), PENNON_INVALID_ARGUMENT, "'id'");
    scan_fails(w, try_update(w, w->ds, "m", "1", "", NULL), PENNON_INVALID_ARGUMENT, "empty predicate");
    /* What was written by then goes away again. */
    scan_fails(w, try_update(w, w->ds, "m", "s", NULL, NULL), PENNON_INVALID_ARGUMENT, "");
    scan_fails(w, try_update(w, w->ds, "m", "1 / (id - 17000)", NULL, NULL), PENNON_INVALID_ARGUMENT, "");
    assert_int_equal(files_of(w), files);
    assert_int_equal(pennon_dataset_version(w->ds), version);
}

/* ---- beside other writers ---- */

static void test_dataset_update__rebased(void **state)
{
    struct scan_world *w = *state;
    pennon_dataset *other = open_again(w);
    const uint64_t before = count(w, w->ds, NULL);
    (void)update_rows(w, other, "m", "-1", "id = 100");
    scan_write(w, SCAN_ROWS, 5, false, true);
    const pennon_update_result r = update_rows(w, w->ds, "m", "-2", "id = 200 OR id = 3");
    assert_int_equal(r.attempts, 1);
    assert_int_equal(count(w, w->ds, NULL), before + 5);
    assert_int_equal(count(w, w->ds, "(id IN (3, 200) AND m = -2) OR (id = 100 AND m = -1)"), 3);
    pennon_dataset_free(other);
    verify(w, w->ds);
}

static void test_dataset_update__again_after_overlap(void **state)
{
    struct scan_world *w = *state;
    pennon_dataset *other = open_again(w);
    pennon_mutation_options o = options_of(w);
    const char *const column = "m", *const sql = "m + 1";
    const uint64_t before = count(w, w->ds, NULL);
    (void)update_rows(w, other, "m", "10", "id = 100");
    const size_t files = files_of(w);
    o.conflict_retries = 0;
    assert_int_equal(pennon_dataset_update(w->ds, "id = 100", 1, &column, &sql, &o, NULL, &w->err), PENNON_CONFLICT);
    assert_string_equal(w->err.kind, "TooMuchWriteContention");
    pennon_error_clear(&w->err);
    assert_int_equal(files_of(w), files);
    const pennon_update_result r = update_rows(w, w->ds, "m", "m + 1", "id = 100");
    assert_int_equal(r.attempts, 2);
    assert_int_equal(count(w, w->ds, "id = 100 AND m = 11"), 1);
    assert_int_equal(count(w, w->ds, NULL), before);
    pennon_dataset_free(other);
    verify(w, w->ds);
}

/* ---- memory ---- */

/* With any budget the call works, or fails and leaves nothing behind. */
static void test_dataset_update__budgets(void **state)
{
    struct scan_world *w = *state;
    const uint64_t version = pennon_dataset_version(w->ds), before = count(w, w->ds, NULL);
    const size_t files = files_of(w);
    pennon_status st = PENNON_OVER_BUDGET;
    size_t failures = 0;
    const char *const column = "s", *const sql = "concat(s, id)";
    for (uint64_t bytes = 1 << 12; st != PENNON_OK; bytes += bytes / 2, failures++) {
        pennon_budget *budget;
        pennon_call call = w->call;
        pennon_mutation_options o = options_of(w);
        scan_ok(w, pennon_budget_new(w->runtime, bytes, &budget, &w->err));
        call.budget = budget;
        call.threads = 1;
        o.call = &call;
        st = pennon_dataset_update(w->ds, "id % 3 = 1", 1, &column, &sql, &o, NULL, &w->err);
        assert_int_equal(pennon_budget_used(budget), 0);
        pennon_budget_free(budget);
        if (st == PENNON_OK) break;
        assert_int_equal(st, PENNON_OVER_BUDGET);
        pennon_error_clear(&w->err);
        assert_int_equal(files_of(w), files);
        assert_int_equal(pennon_dataset_version(w->ds), version);
        assert_int_equal(count(w, w->ds, NULL), before);
        assert_true(bytes < (uint64_t)1 << 28);
    }
    assert_true(failures > 5);
    verify(w, w->ds);
}

/* ---- many at once ---- */

#define RACERS 4
#define TURNS 4

struct racer {
    struct scan_world *w;
    pennon_dataset *ds;
    int number;
    pennon_status st;
    char text[256];
};

/* Adds one to the same rows as all others, and to rows of its own. */
static void *race(void *ctx)
{
    struct racer *r = ctx;
    const char *const column = "m", *const sql = "m + 1";
    pennon_error err;
    pennon_error_init(&err);
    for (int turn = 0; turn < TURNS && r->st == PENNON_OK; turn++) {
        char where[64];
        pennon_mutation_options o = options_of(r->w);
        o.conflict_retries = 100;
        o.retry_timeout_ms = 60000;
        (void)snprintf(where, sizeof where, "id = 7 OR id %% 101 = %d", 50 + r->number);
        r->st = pennon_dataset_update(r->ds, where, 1, &column, &sql, &o, NULL, &err);
    }
    if (r->st != PENNON_OK) (void)snprintf(r->text, sizeof r->text, "%s", err.message);
    pennon_error_clear(&err);
    return NULL;
}

static void test_dataset_update__race(void **state)
{
    struct scan_world *w = *state;
    struct racer racers[RACERS];
    pthread_t threads[RACERS];
    const uint64_t before = count(w, w->ds, NULL);
    (void)update_rows(w, w->ds, "m", "0", NULL);
    const uint64_t own = count(w, w->ds, "id % 101 >= 50 AND id % 101 < 54");
    for (int i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.w = w, .ds = i < 2 ? w->ds : open_again(w), .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < RACERS; i++) {
        pthread_join(threads[i], NULL);
        if (racers[i].st != PENNON_OK) fail_msg("racer %d: %s", i, racers[i].text);
        if (i >= 2) pennon_dataset_free(racers[i].ds);
    }
    scan_ok(w, pennon_dataset_refresh(w->ds, &w->call, &w->err));
    /* No addition was lost, none was made twice. */
    assert_int_equal(count(w, w->ds, NULL), before);
    assert_int_equal(count(w, w->ds, "id = 7 AND m = 16"), 1);
    assert_int_equal(count(w, w->ds, "id % 101 >= 50 AND id % 101 < 54 AND m = 4"), own);
    assert_int_equal(count(w, w->ds, "m = 0"), before - own - 1);
    verify(w, w->ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_dataset_update__rows, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_update__stable_rows, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_update__all, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_update__values, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_update__refused, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_update__rebased, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_update__again_after_overlap, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_update__budgets, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_update__race, scan_setup_stable, scan_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
