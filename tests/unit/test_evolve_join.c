/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Values by key: as new columns, and for columns that are there. */
#include "evolve_world.h"

/* "key: int64, v: int64" with keys first, first + step, …: n rows, v = key * factor; in `parts` batches. */
static void make_right(struct scan_world *w, const char *types, int64_t first, int64_t step, int64_t n, int64_t factor,
                       struct ArrowArrayStream *out)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    scan_ok(w, arrow_schema_from_text(bytes_str(types), "", w->mem, &schema, &w->err));
    struct builder *b = builder_new(&schema, w->mem, &w->err);
    assert_non_null(b);
    for (int64_t i = 0; i < n; i++) {
        const int64_t key = first + i * step;
        scan_ok(w, builder_append_int(builder_child(b, 0), key, &w->err));
        scan_ok(w, builder_append_int(builder_child(b, 1), key * factor, &w->err));
        scan_ok(w, builder_append_row(b, &w->err));
    }
    scan_ok(w, builder_finish(b, &batch, &w->err));
    builder_free(b);
    scan_ok(w, stream_from_arrays(&schema, &batch, 1, w->mem, out, &w->err));
}

static pennon_status join(struct scan_world *w, struct ArrowArrayStream *right, const char *left_on, const char *right_on)
{
    const pennon_evolution_options o = evolve_options(w);
    return pennon_dataset_join_columns(w->ds, right, left_on, right_on, &o, NULL, &w->err);
}

static void test_dataset_join__rows(void **state)
{
    struct scan_world *w = *state;
    struct ArrowArrayStream right;
    const uint64_t rows = evolve_count(w, w->ds, NULL), match = evolve_count(w, w->ds, "id % 2 = 0");
    make_right(w, "struct<k: int64, v: int64>", 0, 2, SCAN_ROWS, 3, &right);
    scan_ok(w, join(w, &right, "id", "k"));
    assert_null(right.release);
    assert_int_equal(evolve_count(w, w->ds, "v = id * 3"), match);
    assert_int_equal(evolve_count(w, w->ds, "v IS NULL"), rows - match);
    assert_int_equal(evolve_field(w->ds, "k"), -1);
    evolve_verify(w, w->ds);
}

/* By row id and address; the last row of a key counts; keys of a type that is no number. */
static void test_dataset_join__keys(void **state)
{
    struct scan_world *w = *state;
    struct ArrowArrayStream right;
    const uint64_t rows = evolve_count(w, w->ds, NULL);
    make_right(w, "struct<_rowid: uint64, v: int64>", 0, 1, 50000, 2, &right);
    scan_ok(w, join(w, &right, "_rowid", NULL));
    assert_int_equal(evolve_count(w, w->ds, "v = _rowid * 2"), rows);
    make_right(w, "struct<a: uint64, v2: int64>", INT64_C(1) << 32, 1, 6000, 1, &right);
    scan_ok(w, join(w, &right, "_rowaddr", "a"));
    assert_int_equal(evolve_count(w, w->ds, "v2 = _rowaddr"),
                     evolve_count(w, w->ds, "_rowaddr >= 4294967296 AND _rowaddr < 8589934592"));
    const char *lines = "{\"k\":null,\"x\":1}\n{\"k\":\"a\",\"x\":2}\n{\"k\":\"a\",\"x\":3}\n{\"k\":null,\"x\":4}\n";
    pennon_dataset *ds =
        evolve_make(w, "memory://scan/join", "2.1", "t=string", "{\"t\":\"a\"}\n{\"t\":null}\n{\"t\":\"b\"}\n{\"t\":\"a\"}\n", 2);
    const pennon_evolution_options o = evolve_options(w);
    evolve_lines(w, &lines, "k=string,x=int64", &right);
    scan_ok(w, pennon_dataset_join_columns(ds, &right, "t", "k", &o, NULL, &w->err));
    assert_int_equal(evolve_count(w, ds, "t = 'a' AND x = 3"), 2);
    assert_int_equal(evolve_count(w, ds, "t IS NULL AND x = 4"), 1);
    assert_int_equal(evolve_count(w, ds, "t = 'b' AND x IS NULL"), 1);
    evolve_verify(w, ds);
    pennon_dataset_free(ds);
}

static void test_dataset_join__refused(void **state)
{
    struct scan_world *w = *state;
    struct ArrowArrayStream right;
    const size_t files = evolve_files(w);
    static const struct {
        const char *types, *left, *right, *message;
    } cases[] = {
        {"struct<k: int64, v: int64>", "q", "k", "Column q does not exist in the left side dataset"},
        {"struct<k: int64, v: int64>", "_rowoffset", "k", "left side"},
        {"struct<k: int64, v: int64>", "id", "q", "Column q does not exist in the right side dataset"},
        {"struct<k: int64, m: int64>", "id", "k", "Column m exists in both sides of the dataset"},
        {"struct<k: int32, v: int64>", "id", "k", "Index column type mismatch: expected Int32, got Int64"},
        {"struct<k: int64, v: int64 not null>", "id", "k", "null"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        make_right(w, cases[i].types, 5, 1, 10, 1, &right);
        scan_fails(w, join(w, &right, cases[i].left, cases[i].right), PENNON_INVALID_ARGUMENT, cases[i].message);
        assert_null(right.release);
    }
    make_right(w, "struct<k: int64, v: int64>", 5, 1, 0, 1, &right);
    scan_fails(w, join(w, &right, "id", "k"), PENNON_INVALID_ARGUMENT, "No data");
    assert_int_equal(evolve_files(w), files);
}

/* ---- update ---- */

static void run_update(struct scan_world *w, bool stable)
{
    struct ArrowArrayStream right;
    pennon_evolution_result r = {.struct_size = sizeof r};
    const pennon_evolution_options o = evolve_options(w);
    const uint64_t rows = evolve_count(w, w->ds, NULL), match = evolve_count(w, w->ds, "id % 5 = 0");
    const uint64_t kept = evolve_count(w, w->ds, "id % 5 <> 0 AND m < 500");
    const int32_t m = evolve_field(w->ds, "m");
    make_right(w, "struct<id: int64, m: int64>", 0, 5, SCAN_ROWS, -1, &right);
    scan_ok(w, pennon_dataset_update_columns(w->ds, &right, "id", NULL, &o, &r, &w->err));
    assert_int_equal(r.files_written, 4);
    assert_int_equal(evolve_field(w->ds, "m"), m);
    assert_int_equal(evolve_count(w, w->ds, NULL), rows);
    assert_int_equal(evolve_count(w, w->ds, "id % 5 = 0 AND m = 0 - id"), match);
    assert_int_equal(evolve_count(w, w->ds, "id % 5 <> 0 AND m < 500"), kept);
    if (stable) {
        char where[64];
        (void)snprintf(where, sizeof where, "_row_last_updated_at_version = %llu", (unsigned long long)r.version);
        assert_int_equal(evolve_count(w, w->ds, where), match);
    }
    evolve_verify(w, w->ds);
    /* Once more: the file that had the column alone goes. */
    make_right(w, "struct<id: int64, m: int64>", 0, 5, SCAN_ROWS, -2, &right);
    scan_ok(w, pennon_dataset_update_columns(w->ds, &right, "id", NULL, &o, &r, &w->err));
    scan_ok(w, fragment_load(w->ds->snapshot, &w->ds->snapshot->fragments[0], &w->err));
    assert_int_equal(w->ds->snapshot->fragments[0].n_files, 2);
    assert_int_equal(evolve_count(w, w->ds, "id % 5 = 0 AND m = 0 - 2 * id"), match);
    evolve_verify(w, w->ds);
}

/* The key itself gets new values. */
static void test_dataset_join__update_of_the_key(void **state)
{
    struct scan_world *w = *state;
    struct ArrowArrayStream right;
    const pennon_evolution_options o = evolve_options(w);
    const uint64_t rows = evolve_count(w, w->ds, NULL), match = evolve_count(w, w->ds, "id >= 100 AND id < 400");
    make_right(w, "struct<k: int64, id: int64>", 100, 1, 300, 1000, &right);
    scan_ok(w, pennon_dataset_update_columns(w->ds, &right, "id", "k", &o, NULL, &w->err));
    assert_int_equal(evolve_count(w, w->ds, "id >= 100000 AND id % 1000 = 0"), match);
    assert_int_equal(evolve_count(w, w->ds, NULL), rows);
    evolve_verify(w, w->ds);
}

static void test_dataset_join__update(void **state) { run_update(*state, false); }
static void test_dataset_join__update_stable(void **state) { run_update(*state, true); }

static void test_dataset_join__update_refused(void **state)
{
    struct scan_world *w = *state;
    struct ArrowArrayStream right;
    const pennon_evolution_options o = evolve_options(w);
    static const struct {
        const char *types, *message;
    } cases[] = {
        {"struct<id: int64, v: int64>", "Column v in right side dataset does not exist in left side dataset"},
        {"struct<id: int64, _rowid: int64>", "cannot be updated"},
        {"struct<id: int64, m: int32>", "int32"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        make_right(w, cases[i].types, 5, 1, 10, 1, &right);
        scan_fails(w, pennon_dataset_update_columns(w->ds, &right, "id", NULL, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT,
                   cases[i].message);
    }
    const char *lines = "{\"id\":1,\"st\":{\"x\":1}}\n";
    evolve_lines(w, &lines, "id=int64,st=struct<x: int64>", &right);
    scan_fails(w, pennon_dataset_update_columns(w->ds, &right, "id", NULL, &o, NULL, &w->err), PENNON_NOT_SUPPORTED,
               "parts of 'st'");
}

/* With any budget the call works, or fails and leaves nothing behind. */
static void test_dataset_join__budgets(void **state)
{
    struct scan_world *w = *state;
    const size_t files = evolve_files(w);
    pennon_status st = PENNON_OVER_BUDGET;
    size_t failures = 0;
    for (uint64_t bytes = 1 << 14; st != PENNON_OK; bytes += bytes / 2, failures++) {
        struct ArrowArrayStream right;
        pennon_budget *budget;
        pennon_call call = w->call;
        pennon_evolution_options o = evolve_options(w);
        scan_ok(w, pennon_budget_new(w->runtime, bytes, &budget, &w->err));
        call.budget = budget;
        o.call = &call;
        make_right(w, "struct<k: int64, v: int64>", 0, 2, SCAN_ROWS, 3, &right);
        st = pennon_dataset_join_columns(w->ds, &right, "id", "k", &o, NULL, &w->err);
        assert_int_equal(pennon_budget_used(budget), 0);
        pennon_budget_free(budget);
        if (st == PENNON_OK) break;
        assert_int_equal(st, PENNON_OVER_BUDGET);
        pennon_error_clear(&w->err);
        assert_int_equal(evolve_files(w), files);
        assert_true(bytes < (uint64_t)1 << 28);
    }
    assert_true(failures > 5);
    evolve_verify(w, w->ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_dataset_join__rows, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_join__keys, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_join__refused, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_join__update_of_the_key, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_join__update, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_join__update_stable, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_join__update_refused, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_join__budgets, scan_setup, scan_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
