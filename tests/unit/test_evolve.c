/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Columns added, dropped and altered: values, field ids, files, what is refused, and what happens beside other writers. */
#include <pthread.h>

#include "evolve_world.h"

/* ---- add ---- */

static void run_sql(struct scan_world *w)
{
    const size_t files = evolve_files(w);
    const uint64_t rows = evolve_count(w, w->ds, NULL);
    const char *const names[] = {"m1", "z", "t", "x2"};
    const char *const values[] = {"m + 1", "id % 3 = 1", "concat(s, '!')", "st.x"};
    pennon_evolution_options o = evolve_options(w);
    pennon_evolution_result r = {.struct_size = sizeof r};
    const uint64_t nulls = evolve_count(w, w->ds, "m IS NULL"), other = evolve_count(w, w->ds, "st.x IS NULL");
    const int32_t first = evolve_field(w->ds, "j") + 1;
    scan_ok(w, pennon_dataset_add_columns_sql(w->ds, 4, names, values, &o, &r, &w->err));
    assert_int_equal(r.fields_added, 4);
    assert_int_equal(r.files_written, 4);
    assert_int_equal(r.rows_written, SCAN_ROWS);
    assert_int_equal(r.fields_dropped, 0);
    assert_true(r.bytes_written > 0);
    assert_int_equal(evolve_files(w), files + 4);
    for (int32_t i = 0; i < 4; i++) assert_int_equal(evolve_field(w->ds, names[i]), first + i);
    assert_int_equal(evolve_count(w, w->ds, NULL), rows);
    assert_int_equal(evolve_count(w, w->ds, "m1 IS NULL"), nulls);
    assert_int_equal(evolve_count(w, w->ds, "m1 = m + 1"), rows - nulls);
    assert_int_equal(evolve_count(w, w->ds, "z = (id % 3 = 1)"), rows);
    assert_int_equal(evolve_count(w, w->ds, "t = concat(s, '!') OR (s IS NULL AND t = '!')"), rows);
    assert_int_equal(evolve_count(w, w->ds, "x2 IS NULL"), other);
    /* The rows are where they were. */
    pennon_scan_options plain = scan_options(w);
    plain.columns = &scan_names;
    uint64_t *all = malloc((size_t)w->all.length * sizeof *all);
    assert_non_null(all);
    for (int64_t i = 0; i < w->all.length; i++) all[i] = (uint64_t)i;
    scan_expect(w, &plain, all, (size_t)w->all.length);
    free(all);
    evolve_verify(w, w->ds);
}

static void test_dataset_evolve__sql(void **state) { run_sql(*state); }
static void test_dataset_evolve__sql_stable(void **state) { run_sql(*state); }

/* JSON stays JSON; names that need quotes. */
static void test_dataset_evolve__kinds(void **state)
{
    struct scan_world *w = *state;
    const uint64_t rows = evolve_count(w, w->ds, NULL), nulls = evolve_count(w, w->ds, "j IS NULL");
    (void)evolve_sql(w, w->ds, "j2", "j");
    assert_string_equal(schema_find_name(w->ds->snapshot->schema, "j2")->logical_type, "json");
    assert_int_equal(evolve_count(w, w->ds, "json_extract(j2, '$.a') = json_extract(j, '$.a')"), rows - nulls);
    (void)evolve_sql(w, w->ds, "odd `name`", "_rowid");
    (void)evolve_sql(w, w->ds, "list", "l");
    (void)evolve_sql(w, w->ds, "struct", "st");
    (void)evolve_sql(w, w->ds, "a", "5");
    assert_int_equal(evolve_count(w, w->ds, "`struct`.x = st.x AND a = 5"), evolve_count(w, w->ds, "st.x IS NOT NULL"));
    scan_ok(w, evolve_try_alter(w, w->ds, "list", NULL, 0, "large_list<item: int64>", NULL));
    assert_int_equal(evolve_count(w, w->ds, "array_length(list) = array_length(l)"), evolve_count(w, w->ds, "l IS NOT NULL"));
    evolve_verify(w, w->ds);
}

static uint64_t updated_at(struct scan_world *w, uint64_t version)
{
    char where[64];
    (void)snprintf(where, sizeof where, "_row_last_updated_at_version = %llu", (unsigned long long)version);
    return evolve_count(w, w->ds, where);
}

/* Columns that are written change the version of all rows, columns of nulls of none. */
static void test_dataset_evolve__lineage(void **state)
{
    struct scan_world *w = *state;
    const uint64_t rows = evolve_count(w, w->ds, NULL), created = evolve_count(w, w->ds, "_row_created_at_version < 3");
    pennon_evolution_result r = evolve_sql(w, w->ds, "n", "CAST(NULL AS int)");
    assert_int_equal(updated_at(w, r.version), 0);
    r = evolve_sql(w, w->ds, "b", "id + 1");
    assert_int_equal(updated_at(w, r.version), rows);
    assert_int_equal(evolve_count(w, w->ds, "_row_created_at_version < 3"), created);
    assert_int_equal(created, rows);
    scan_ok(w, evolve_try_drop(w, w->ds, "b"));
    assert_int_equal(updated_at(w, r.version), rows);
}

static void test_dataset_evolve__nulls(void **state)
{
    struct scan_world *w = *state;
    struct ArrowSchema schema;
    pennon_evolution_options o = evolve_options(w);
    const size_t files = evolve_files(w);
    const uint64_t rows = evolve_count(w, w->ds, NULL);
    pennon_evolution_result r = evolve_sql(w, w->ds, "n", "CAST(NULL AS int)");
    assert_int_equal(r.fields_added, 1);
    assert_int_equal(r.files_written, 0);
    evolve_schema(w, "struct<a: list<item: struct<b: int8>>, v: fixed_size_list<item: float>[3]>", &schema);
    r.struct_size = sizeof r;
    scan_ok(w, pennon_dataset_add_columns_null(w->ds, &schema, &o, &r, &w->err));
    assert_int_equal(r.fields_added, 4);
    assert_int_equal(evolve_files(w), files);
    assert_int_equal(evolve_count(w, w->ds, "n IS NULL AND a IS NULL AND v IS NULL"), rows);
    /* A name that is there; one that differs in case is another column. */
    scan_fails(w, pennon_dataset_add_columns_null(w->ds, &schema, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT,
               "Column item is a struct col, add sub column is not supported in Lance file version 2.1");
    arrow_schema_release(&schema);
    evolve_schema(w, "struct<ID: int64 not null>", &schema);
    scan_fails(w, pennon_dataset_add_columns_null(w->ds, &schema, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "must be nullable");
    schema.children[0]->flags = ARROW_FLAG_NULLABLE;
    scan_ok(w, pennon_dataset_add_columns_null(w->ds, &schema, &o, NULL, &w->err));
    arrow_schema_release(&schema);
    evolve_verify(w, w->ds);
}

static void test_dataset_evolve__stream(void **state)
{
    struct scan_world *w = *state;
    struct ArrowArrayStream rows;
    pennon_evolution_options o = evolve_options(w);
    const uint64_t n = evolve_count(w, w->ds, NULL), version = pennon_dataset_version(w->ds);
    const size_t files = evolve_files(w);
    evolve_stream(w, "k", 5, (int64_t)n - 1, 3, &rows);
    scan_fails(w, pennon_dataset_add_columns_stream(w->ds, &rows, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT,
               "Stream ended before producing values for all rows in dataset");
    assert_null(rows.release);
    evolve_stream(w, "k", 5, (int64_t)n + 1, 3, &rows);
    scan_fails(w, pennon_dataset_add_columns_stream(w->ds, &rows, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT,
               "produced more values than expected");
    assert_int_equal(evolve_files(w), files);
    assert_int_equal(pennon_dataset_version(w->ds), version);
    evolve_stream(w, "k", 5, (int64_t)n, 7, &rows);
    scan_ok(w, pennon_dataset_add_columns_stream(w->ds, &rows, &o, NULL, &w->err));
    assert_int_equal(evolve_count(w, w->ds, "k = _rowoffset + 5"), n);
    evolve_verify(w, w->ds);
}

/* A thousand at once. */
static void test_dataset_evolve__many(void **state)
{
    struct scan_world *w = *state;
    enum { N = 1000 };
    static char texts[N][16];
    static const char *names[N], *values[N];
    pennon_evolution_options o = evolve_options(w);
    pennon_evolution_result r = {.struct_size = sizeof r};
    pennon_dataset *ds = evolve_make(w, "memory://scan/many", "2.1", NULL, "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n", 2);
    for (int i = 0; i < N; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "c%d", i);
        names[i] = texts[i];
        values[i] = i % 2 ? "a + 1" : "a";
    }
    scan_ok(w, pennon_dataset_add_columns_sql(ds, N, names, values, &o, &r, &w->err));
    assert_int_equal(r.fields_added, N);
    assert_int_equal(r.files_written, 2);
    assert_int_equal(evolve_count(w, ds, "c998 = a AND c999 = a + 1"), 3);
    evolve_verify(w, ds);
    pennon_dataset_free(ds);
}

/* Parts of structs, from 2.2 on; in lists, whose lengths are those that are there. */
static void test_dataset_evolve__parts(void **state)
{
    struct scan_world *w = *state;
    static const char rows[] =
        "{\"s\":{\"x\":1},\"l\":[{\"p\":1},{\"p\":2}]}\n{\"s\":null,\"l\":[]}\n{\"s\":{\"x\":3},\"l\":null}\n";
    static const char types[] = "s=struct<x: int32>,l=list<item: struct<p: int64>>";
    struct ArrowSchema schema;
    pennon_evolution_options o = evolve_options(w);
    evolve_schema(w, "struct<s: struct<z: int8>, l: list<item: struct<q: int8>>>", &schema);
    pennon_dataset *ds = evolve_make(w, "memory://scan/parts", "2.1", types, rows, 2);
    scan_fails(w, pennon_dataset_add_columns_null(ds, &schema, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT,
               "Column s is a struct col, add sub column is not supported in Lance file version 2.1");
    pennon_dataset_free(ds);
    ds = evolve_make(w, "memory://scan/parts", "2.2", types, rows, 2);
    scan_ok(w, pennon_dataset_add_columns_null(ds, &schema, &o, NULL, &w->err));
    assert_int_equal(evolve_field(ds, "s.z"), 5);
    assert_int_equal(evolve_field(ds, "l.item.q"), 6);
    scan_fails(w, pennon_dataset_add_columns_null(ds, &schema, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT,
               "Column z already exists");
    arrow_schema_release(&schema);
    /* The same with values. */
    static const struct {
        const char *lines;
        const char *message;
    } cases[] = {
        {"{\"s\":{\"v\":1},\"l\":[{\"r\":1}]}\n{\"s\":null,\"l\":[]}\n{\"s\":{\"v\":3},\"l\":null}\n", "other lengths"},
        {"{\"s\":{\"v\":1},\"l\":[{\"r\":7},{\"r\":8}]}\n{\"s\":null,\"l\":[]}\n{\"s\":{\"v\":3},\"l\":null}\n", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct ArrowArrayStream data;
        const char *lines = cases[i].lines;
        evolve_lines(w, &lines, "s=struct<v: int32>,l=list<item: struct<r: int64>>", &data);
        const pennon_status st = pennon_dataset_add_columns_stream(ds, &data, &o, NULL, &w->err);
        if (cases[i].message) {
            scan_fails(w, st, PENNON_INVALID_ARGUMENT, cases[i].message);
        } else {
            scan_ok(w, st);
        }
    }
    assert_int_equal(evolve_count(w, ds, "s.v = s.x"), 2);
    assert_int_equal(evolve_count(w, ds, "s IS NULL"), 1);
    assert_int_equal(evolve_count(w, ds, "l[1].p = 1 AND l[1].r = 7 AND l[2].r = 8"), 1);
    evolve_verify(w, ds);
    pennon_dataset_free(ds);
}

/* Fragments whose first batches have no live row, and one that has none at all. */
static void test_dataset_evolve__dead_rows(void **state)
{
    struct scan_world *w = *state;
    pennon_mutation_options d;
    struct ArrowArrayStream rows;
    pennon_evolution_options o = evolve_options(w);
    pennon_mutation_options_init(&d);
    d.call = &w->call;
    scan_ok(w, pennon_dataset_delete(w->ds, "id < 5999 OR (id > 6000 AND id < 17990)", &d, NULL, &w->err));
    const uint64_t n = evolve_count(w, w->ds, NULL);
    (void)evolve_sql(w, w->ds, "b", "1000 / (id - 100)"); /* the values of deleted rows are not looked at */
    assert_int_equal(evolve_count(w, w->ds, "b = 1000 / (id - 100)"), n);
    evolve_stream(w, "k", 0, (int64_t)n, 1, &rows);
    scan_ok(w, pennon_dataset_add_columns_stream(w->ds, &rows, &o, NULL, &w->err));
    assert_int_equal(evolve_count(w, w->ds, "k = _rowoffset"), n);
    evolve_verify(w, w->ds);
}

/* Other engines leave fragments in place that have no live row. */
static void empty_fragment(struct scan_world *w, size_t i)
{
    struct call c;
    struct snapshot *s, *made;
    struct transaction *t;
    struct id_set rows;
    struct deletion_file_message gone;
    struct fragment_message changed;
    char *path;
    pennon_commit_options k;
    pennon_commit_options_init(&k);
    dataset_get(w->ds, &s, NULL);
    scan_ok(w, call_begin(&c, &w->call, &w->err));
    scan_ok(w, fragment_load(s, &s->fragments[i], &w->err));
    id_set_init(&rows, w->mem);
    scan_ok(w, id_set_add_range(&rows, 0, (uint32_t)s->fragments[i].physical_rows - 1, &w->err));
    scan_ok(w, deletion_file_write(&c, &s->at, s->fragments[i].id, s->version, &rows, &gone, &path, &w->err));
    scan_ok(w, transaction_new(w->mem, OPERATION_DELETE, s->version, &t, &w->err));
    changed = *s->fragments[i].message;
    changed.deletion_file = &gone;
    t->op.remove = (struct delete_message){.updated_fragments = &changed, .n_updated_fragments = 1, .predicate = bytes_str("all")};
    scan_ok(w, commit_on(&c, &s->at, s, t, &k, &made, &w->err));
    dataset_move(w->ds, made);
    transaction_free(t);
    mem_free(c.mem, path);
    id_set_free(&rows);
    snapshot_release(s);
    call_end(&c);
}

static void test_dataset_evolve__dead_fragment(void **state)
{
    struct scan_world *w = *state;
    struct ArrowArrayStream rows;
    const char *const names[] = {"n", "nn", "t", "l2"}, *const values[] = {"m + 1", "id IS NULL", "concat(s, '!')", "l"};
    const pennon_evolution_options o = evolve_options(w);
    empty_fragment(w, 0);
    const uint64_t n = evolve_count(w, w->ds, NULL);
    scan_ok(w, pennon_dataset_add_columns_sql(w->ds, 4, names, values, &o, NULL, &w->err));
    assert_int_equal(evolve_count(w, w->ds, "nn = false"), n);
    evolve_stream(w, "k", 0, (int64_t)n, 2, &rows);
    scan_ok(w, pennon_dataset_add_columns_stream(w->ds, &rows, &o, NULL, &w->err));
    assert_int_equal(evolve_count(w, w->ds, "k = _rowoffset"), n);
    scan_ok(w, evolve_try_alter(w, w->ds, "m", NULL, 0, "int32", NULL));
    evolve_verify(w, w->ds);
}

/* ---- drop ---- */

static void test_dataset_evolve__drop(void **state)
{
    struct scan_world *w = *state;
    const size_t files = evolve_files(w);
    const char *const two[] = {"m", "st.x"}, *const all[] = {"id", "m", "f", "l", "s", "st", "j"};
    pennon_evolution_options o = evolve_options(w);
    pennon_evolution_result r = {.struct_size = sizeof r};
    scan_fails(w, evolve_try_drop(w, w->ds, "M"), PENNON_INVALID_ARGUMENT, "Column M does not exist in the dataset");
    scan_fails(w, evolve_try_drop(w, w->ds, "_rowid"), PENNON_INVALID_ARGUMENT, "Column _rowid does not exist");
    scan_fails(w, pennon_dataset_drop_columns(w->ds, 0, two, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "no column");
    scan_fails(w, pennon_dataset_drop_columns(w->ds, 7, all, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT,
               "Cannot drop all columns from a dataset");
    const int32_t y = evolve_field(w->ds, "st.y"), j = evolve_field(w->ds, "j");
    scan_ok(w, pennon_dataset_drop_columns(w->ds, 2, two, &o, &r, &w->err));
    assert_int_equal(r.fields_dropped, 2);
    assert_int_equal(r.files_written, 0);
    assert_int_equal(evolve_field(w->ds, "m"), -1);
    assert_int_equal(evolve_field(w->ds, "st.x"), -1);
    assert_int_equal(evolve_field(w->ds, "st.y"), y);
    scan_ok(w, evolve_try_drop(w, w->ds, "st.y"));
    assert_int_equal(evolve_field(w->ds, "st"), -1);
    /* Up to 2.1 all of a list goes with its items. */
    scan_ok(w, evolve_try_drop(w, w->ds, "l.item"));
    assert_int_equal(evolve_field(w->ds, "l"), -1);
    /* Ids are not used again while files have them. */
    scan_ok(w, evolve_try_drop(w, w->ds, "j"));
    (void)evolve_sql(w, w->ds, "m", "f");
    assert_int_equal(evolve_field(w->ds, "m"), j + 1);
    assert_int_equal(evolve_files(w), files + 4);
    evolve_verify(w, w->ds);
}

static void test_dataset_evolve__project(void **state)
{
    struct scan_world *w = *state;
    const char *const names[] = {"st.y", "id", "l"}, *const twice[] = {"st.y", "st"}, *const part[] = {"l.item"},
                      *const none[] = {"q"};
    const pennon_evolution_options o = evolve_options(w);
    pennon_evolution_result r = {.struct_size = sizeof r};
    const uint64_t rows = evolve_count(w, w->ds, NULL), match = evolve_count(w, w->ds, "st.y = 'y7'");
    const int32_t y = evolve_field(w->ds, "st.y");
    scan_fails(w, pennon_dataset_project(w->ds, 0, names, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "no column to keep");
    scan_fails(w, pennon_dataset_project(w->ds, 1, none, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "Column q does not exist");
    scan_fails(w, pennon_dataset_project(w->ds, 2, twice, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "named twice");
    scan_fails(w, pennon_dataset_project(w->ds, 1, part, &o, NULL, &w->err), PENNON_NOT_SUPPORTED, "a part of 'l'");
    scan_ok(w, pennon_dataset_project(w->ds, 3, names, &o, &r, &w->err));
    assert_int_equal(r.fields_dropped, 5);
    const struct schema *s = w->ds->snapshot->schema;
    assert_int_equal(s->n_fields, 3);
    assert_string_equal(s->fields[0]->name, "st");
    assert_string_equal(s->fields[1]->name, "id");
    assert_int_equal(evolve_field(w->ds, "st.y"), y);
    assert_int_equal(evolve_field(w->ds, "st.x"), -1);
    assert_int_equal(evolve_count(w, w->ds, NULL), rows);
    assert_int_equal(evolve_count(w, w->ds, "st.y = 'y7'"), match);
    evolve_verify(w, w->ds);
}

/* ---- alter ---- */

static void test_dataset_evolve__rename(void **state)
{
    struct scan_world *w = *state;
    const int32_t m = evolve_field(w->ds, "m"), x = evolve_field(w->ds, "st.x");
    const uint64_t match = evolve_count(w, w->ds, "m < 500"), part = evolve_count(w, w->ds, "st.x < 7");
    pennon_evolution_options o = evolve_options(w);
    const pennon_alteration swap[] = {{.path = "id", .rename = "f"}, {.path = "f", .rename = "id"}};
    scan_fails(w, evolve_try_alter(w, w->ds, "m", "id", 0, NULL, NULL), PENNON_INVALID_ARGUMENT, "Duplicate field name \"id\"");
    scan_fails(w, evolve_try_alter(w, w->ds, "st.x", "y", 0, NULL, NULL), PENNON_INVALID_ARGUMENT, "Duplicate field name \"y\"");
    scan_fails(w, evolve_try_alter(w, w->ds, "m", "a.b", 0, NULL, NULL), PENNON_INVALID_ARGUMENT, "dot");
    scan_fails(w, evolve_try_alter(w, w->ds, "m", "", 0, NULL, NULL), PENNON_INVALID_ARGUMENT, "empty");
    scan_fails(w, evolve_try_alter(w, w->ds, "m", "_rowid", 0, NULL, NULL), PENNON_INVALID_ARGUMENT, "reserved");
    scan_fails(w, evolve_try_alter(w, w->ds, "q", "r", 0, NULL, NULL), PENNON_INVALID_ARGUMENT, "Column \"q\" does not exist");
    scan_fails(w, evolve_try_alter(w, w->ds, "m", NULL, 0, NULL, NULL), PENNON_INVALID_ARGUMENT, "At least one of name, nullable");
    scan_fails(w, evolve_try_alter(w, w->ds, "m", NULL, 7, NULL, NULL), PENNON_INVALID_ARGUMENT, "nullable 7");
    scan_ok(w, evolve_try_alter(w, w->ds, "m", "M", 0, NULL, NULL));
    scan_ok(w, evolve_try_alter(w, w->ds, "st.x", "odd.name", 0, NULL, NULL));
    assert_int_equal(evolve_field(w->ds, "M"), m);
    assert_int_equal(evolve_field(w->ds, "st.`odd.name`"), x);
    assert_int_equal(evolve_count(w, w->ds, "M < 500"), match);
    assert_int_equal(evolve_count(w, w->ds, "st.`odd.name` < 7"), part);
    scan_ok(w, evolve_try_drop(w, w->ds, "st.`odd.name`"));
    const int32_t id = evolve_field(w->ds, "id"), f = evolve_field(w->ds, "f");
    scan_ok(w, pennon_dataset_alter_columns(w->ds, 2, swap, &o, NULL, &w->err));
    assert_int_equal(evolve_field(w->ds, "id"), f);
    assert_int_equal(evolve_field(w->ds, "f"), id);
    const pennon_alteration twice[] = {{.path = "id", .rename = "a"}, {.path = "id", .rename = "b"}};
    scan_fails(w, pennon_dataset_alter_columns(w->ds, 2, twice, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "altered twice");
    scan_fails(w, pennon_dataset_alter_columns(w->ds, 0, twice, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "no column");
    evolve_verify(w, w->ds);
}

static void test_dataset_evolve__nullable(void **state)
{
    struct scan_world *w = *state;
    scan_fails(w, evolve_try_alter(w, w->ds, "m", NULL, PENNON_NULLABLE_NO, NULL, NULL), PENNON_INVALID_ARGUMENT,
               "Column \"m\" contains NULL values and cannot be made non-nullable");
    scan_fails(w, evolve_try_alter(w, w->ds, "st.x", NULL, PENNON_NULLABLE_NO, NULL, NULL), PENNON_INVALID_ARGUMENT, "NULL values");
    scan_ok(w, evolve_try_alter(w, w->ds, "id", NULL, PENNON_NULLABLE_NO, NULL, NULL));
    const struct field *f = schema_find_name(w->ds->snapshot->schema, "id");
    assert_false(f->nullable);
    /* What is computed of it has no null either. */
    (void)evolve_sql(w, w->ds, "b", "id * 2");
    assert_false(schema_find_name(w->ds->snapshot->schema, "b")->nullable);
    (void)evolve_sql(w, w->ds, "c", "id + m");
    assert_true(schema_find_name(w->ds->snapshot->schema, "c")->nullable);
    scan_ok(w, evolve_try_alter(w, w->ds, "id", NULL, PENNON_NULLABLE_YES, NULL, NULL));
    evolve_verify(w, w->ds);
}

static void test_dataset_evolve__cast(void **state)
{
    struct scan_world *w = *state;
    const size_t files = evolve_files(w);
    const uint64_t match = evolve_count(w, w->ds, "m < 500"), version = pennon_dataset_version(w->ds);
    const int32_t j = evolve_field(w->ds, "j");
    pennon_evolution_result r = {.struct_size = sizeof r};
    scan_fails(w, evolve_try_alter(w, w->ds, "m", NULL, 0, "int8", NULL), PENNON_INVALID_ARGUMENT, "Can't cast value");
    scan_fails(w, evolve_try_alter(w, w->ds, "m", NULL, 0, "string", NULL), PENNON_INVALID_ARGUMENT,
               "Cannot cast column \"m\" from Int64 to Utf8");
    scan_fails(w, evolve_try_alter(w, w->ds, "j", NULL, 0, "large_binary", NULL), PENNON_INVALID_ARGUMENT, "Cannot cast column");
    scan_fails(w, evolve_try_alter(w, w->ds, "st.x", NULL, 0, "int32", NULL), PENNON_NOT_SUPPORTED, "2.2");
    assert_int_equal(evolve_files(w), files);
    assert_int_equal(pennon_dataset_version(w->ds), version);
    scan_ok(w, evolve_try_alter(w, w->ds, "m", "mm", 0, "int16", &r));
    assert_int_equal(r.fields_added, 1);
    assert_int_equal(r.fields_dropped, 1);
    assert_int_equal(r.files_written, 4);
    assert_int_equal(evolve_field(w->ds, "mm"), j + 1);
    assert_int_equal(evolve_count(w, w->ds, "mm < 500"), match);
    /* In its old place. */
    assert_string_equal(w->ds->snapshot->schema->fields[1]->name, "mm");
    /* Files of which nothing is left go. */
    scan_ok(w, evolve_try_alter(w, w->ds, "mm", NULL, 0, "int32", NULL));
    scan_ok(w, fragment_load(w->ds->snapshot, &w->ds->snapshot->fragments[0], &w->err));
    assert_int_equal(w->ds->snapshot->fragments[0].n_files, 2);
    assert_int_equal(evolve_count(w, w->ds, "mm < 500"), match);
    evolve_verify(w, w->ds);
}

/* A part of a struct, whose nulls stay where they are. */
static void test_dataset_evolve__cast_part(void **state)
{
    struct scan_world *w = *state;
    pennon_dataset *ds = evolve_make(w, "memory://scan/cast", "2.2", "s=struct<x: int32, y: struct<z: float>>",
                                     "{\"s\":{\"x\":1,\"y\":{\"z\":1.5}}}\n{\"s\":null}\n{\"s\":{\"x\":null,\"y\":null}}\n{\"s\":{"
                                     "\"x\":4,\"y\":{\"z\":null}}}\n",
                                     3);
    const int32_t y = evolve_field(ds, "s.y");
    scan_ok(w, evolve_try_alter(w, ds, "s.x", NULL, 0, "int64", NULL));
    scan_ok(w, evolve_try_alter(w, ds, "s.y.z", "w", 0, "double", NULL));
    assert_int_equal(evolve_field(ds, "s.y"), y);
    assert_int_equal(evolve_count(w, ds, "s IS NULL"), 1);
    assert_int_equal(evolve_count(w, ds, "s.y IS NULL"), 2);
    assert_int_equal(evolve_count(w, ds, "s.x = 1 AND s.y.w = 1.5"), 1);
    assert_int_equal(evolve_count(w, ds, "s.x = 4 AND s.y.w IS NULL AND s.y IS NOT NULL"), 1);
    evolve_verify(w, ds);
    pennon_dataset_free(ds);
}

/* ---- tables without rows ---- */

static void test_dataset_evolve__empty(void **state)
{
    struct scan_world *w = *state;
    struct ArrowArrayStream rows;
    struct ArrowSchema schema;
    pennon_write_options o;
    pennon_dataset *ds;
    pennon_evolution_options e = evolve_options(w);
    pennon_write_options_init(&o);
    o.call = &w->call;
    evolve_schema(w, "struct<a: int32>", &schema);
    scan_ok(w, stream_from_arrays(&schema, NULL, 0, w->mem, &rows, &w->err));
    scan_ok(w, pennon_write("memory://scan/empty", &rows, &o, &ds, &w->err));
    (void)evolve_sql(w, ds, "b", "a + 1");
    evolve_stream(w, "k", 0, 0, 1, &rows);
    scan_ok(w, pennon_dataset_add_columns_stream(ds, &rows, &e, NULL, &w->err));
    scan_ok(w, evolve_try_alter(w, ds, "a", "c", PENNON_NULLABLE_NO, "int64", NULL));
    scan_ok(w, evolve_try_drop(w, ds, "b"));
    assert_int_equal(evolve_count(w, ds, NULL), 0);
    assert_int_equal(ds->snapshot->schema->n_fields, 2);
    evolve_verify(w, ds);
    pennon_dataset_free(ds);
}

/* ---- what is refused ---- */

static void test_dataset_evolve__refused(void **state)
{
    struct scan_world *w = *state;
    const size_t files = evolve_files(w);
    const uint64_t version = pennon_dataset_version(w->ds);
    pennon_evolution_options o = evolve_options(w);
    const char *const names[] = {"b", "b"}, *const values[] = {"1", "2"};
    uint64_t fragment = 1;
    const pennon_ids one = {1, &fragment};
    pennon_transaction *t;
    scan_fails(w, evolve_try_sql(w, w->ds, "m", "id", NULL), PENNON_INVALID_ARGUMENT, "Column m already exists in the dataset");
    scan_fails(w, evolve_try_sql(w, w->ds, "m", "'a'", NULL), PENNON_INVALID_ARGUMENT,
               "Type conflicts between m(Int64) and m(Utf8)");
    scan_fails(w, evolve_try_sql(w, w->ds, "_rowid", "id", NULL), PENNON_INVALID_ARGUMENT, "reserved");
    scan_fails(w, evolve_try_sql(w, w->ds, "a.b", "id", NULL), PENNON_INVALID_ARGUMENT, "dot");
    scan_fails(w, evolve_try_sql(w, w->ds, "", "id", NULL), PENNON_INVALID_ARGUMENT, "name");
    scan_fails(w, evolve_try_sql(w, w->ds, "b", "idd", NULL), PENNON_INVALID_ARGUMENT, "'id'");
    scan_fails(w, evolve_try_sql(w, w->ds, "b", "1 / (id - 17000)", NULL), PENNON_INVALID_ARGUMENT, "");
    scan_fails(w, pennon_dataset_add_columns_sql(w->ds, 0, names, values, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "no column");
    scan_fails(w, pennon_dataset_add_columns_sql(w->ds, 2, names, values, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "'b'");
    o.fragments = &one;
    scan_fails(w, pennon_dataset_add_columns_sql(w->ds, 1, names, values, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT,
               "ask for the transaction");
    o.uncommitted = &t;
    fragment = 99;
    scan_fails(w, pennon_dataset_add_columns_sql(w->ds, 1, names, values, &o, NULL, &w->err), PENNON_NOT_FOUND, "fragment 99");
    fragment = 1;
    scan_fails(w, pennon_dataset_drop_columns(w->ds, 1, &scan_columns[1], &o, NULL, &w->err), PENNON_INVALID_ARGUMENT,
               "not for some");
    assert_int_equal(evolve_files(w), files);
    assert_int_equal(pennon_dataset_version(w->ds), version);
}

/* ---- fragment by fragment ---- */

static void test_dataset_evolve__uncommitted(void **state)
{
    struct scan_world *w = *state;
    const char *const name = "b", *const sql = "id + 1";
    const uint64_t version = pennon_dataset_version(w->ds), rows = evolve_count(w, w->ds, NULL);
    struct transaction *whole;
    pennon_commit_options k;
    pennon_evolution_options o = evolve_options(w);
    struct snapshot *s = snapshot_retain(w->ds->snapshot);
    struct fragment_message list[16];
    pennon_transaction *parts[16];
    struct call c;
    pennon_commit_options_init(&k);
    k.call = &w->call;
    scan_ok(w, call_begin(&c, &w->call, &w->err));
    scan_ok(w, transaction_new(w->mem, OPERATION_MERGE, version, &whole, &w->err));
    for (size_t i = 0; i < s->n_fragments; i++) {
        const uint64_t id = s->fragments[i].id;
        const pennon_ids one = {1, &id};
        o.fragments = &one;
        o.uncommitted = &parts[i];
        scan_ok(w, pennon_dataset_add_columns_sql(w->ds, 1, &name, &sql, &o, NULL, &w->err));
        assert_string_equal(pennon_transaction_operation(parts[i]), "Merge");
        assert_int_equal(parts[i]->t->op.merge.n_fragments, 1);
        list[i] = parts[i]->t->op.merge.fragments[0];
    }
    assert_int_equal(pennon_dataset_version(w->ds), version);
    whole->op.merge = parts[0]->t->op.merge;
    whole->op.merge.fragments = list;
    whole->op.merge.n_fragments = s->n_fragments;
    struct snapshot *made;
    scan_ok(w, commit_on(&c, &s->at, s, whole, &k, &made, &w->err));
    dataset_move(w->ds, made);
    assert_int_equal(evolve_count(w, w->ds, "b = id + 1"), rows);
    transaction_free(whole);
    for (size_t i = 0; i < s->n_fragments; i++) pennon_transaction_free(parts[i]);
    snapshot_release(s);
    call_end(&c);
    evolve_verify(w, w->ds);
}

static void test_dataset_evolve__fragment_delete(void **state)
{
    struct scan_world *w = *state;
    pennon_transaction *t;
    pennon_commit_options k;
    const uint64_t before = evolve_count(w, w->ds, NULL), match = evolve_count(w, w->ds, "id >= 6000 AND id < 12000 AND m < 5000");
    pennon_commit_options_init(&k);
    k.call = &w->call;
    scan_fails(w, pennon_fragment_delete(w->ds, 99, "true", &w->call, &t, &w->err), PENNON_NOT_FOUND, "fragment 99");
    scan_fails(w, pennon_fragment_delete(w->ds, 1, "", &w->call, &t, &w->err), PENNON_INVALID_ARGUMENT, "predicate");
    scan_fails(w, pennon_fragment_delete(w->ds, 1, "idd = 1", &w->call, &t, &w->err), PENNON_INVALID_ARGUMENT, "'id'");
    scan_ok(w, pennon_fragment_delete(w->ds, 1, "id < 0", &w->call, &t, &w->err));
    assert_int_equal(t->t->op.remove.n_updated_fragments + t->t->op.remove.n_deleted_fragment_ids, 0);
    pennon_transaction_free(t);
    scan_ok(w, pennon_fragment_delete(w->ds, 0, "true", &w->call, &t, &w->err));
    assert_int_equal(t->t->op.remove.n_deleted_fragment_ids, 1);
    pennon_transaction_free(t);
    scan_ok(w, pennon_fragment_delete(w->ds, w->ds->snapshot->fragments[1].id, "m < 5000", &w->call, &t, &w->err));
    assert_int_equal(t->t->op.remove.n_updated_fragments, 1);
    scan_ok(w, pennon_dataset_commit(w->ds, t, &k, NULL, &w->err));
    pennon_transaction_free(t);
    assert_int_equal(evolve_count(w, w->ds, NULL), before - match);
    evolve_verify(w, w->ds);
}

/* ---- beside other writers ---- */

static void test_dataset_evolve__conflicts(void **state)
{
    struct scan_world *w = *state;
    pennon_dataset *other = evolve_open(w);
    const size_t files = evolve_files(w);
    const uint64_t before = evolve_count(w, w->ds, NULL);
    scan_write(w, SCAN_ROWS, 5, false, false);
    const size_t appended = evolve_files(w);
    assert_int_equal(appended, files + 1);
    assert_int_equal(evolve_try_sql(w, other, "b", "id", NULL), PENNON_CONFLICT);
    assert_string_equal(w->err.kind, "RetryableCommitConflict");
    pennon_error_clear(&w->err);
    assert_int_equal(evolve_files(w), appended);
    /* A drop goes on top of the rows. */
    scan_ok(w, evolve_try_drop(w, other, "f"));
    assert_int_equal(evolve_count(w, other, NULL), before + 5);
    assert_int_equal(evolve_field(other, "f"), -1);
    pennon_dataset_free(other);
    evolve_verify(w, w->ds);
}

#define APPENDS 6
#define DELETES 4

struct racer {
    struct scan_world *w;
    pennon_dataset *ds;
    int number;
    uint64_t conflicts;
    pennon_status st;
    char text[256];
};

/* One append, delete, or change of columns; again where others were first. */
static pennon_status race_step(struct racer *r, int turn, pennon_error *err)
{
    char name[32], where[64];
    const char *const column = name, *const sql = "id + 1";
    pennon_status st;
    struct ArrowArrayStream rows;
    pennon_write_options append;
    pennon_mutation_options d;
    pennon_evolution_options o = evolve_options(r->w);
    switch (r->number) {
    case 0:
        scan_make_rows(r->w, 100000 + turn * 10, 10, false, &rows);
        pennon_write_options_init(&append);
        append.call = &r->w->call;
        append.max_retries = 100;
        return pennon_dataset_append(r->ds, &rows, &append, err);
    case 1:
        (void)snprintf(where, sizeof where, "id = %d", 200 + turn);
        pennon_mutation_options_init(&d);
        d.call = &r->w->call;
        d.conflict_retries = 100;
        return pennon_dataset_delete(r->ds, where, &d, NULL, err);
    default:
        (void)snprintf(name, sizeof name, "c%d_%d", r->number, turn);
        o.max_retries = 100;
        for (;;) {
            st = pennon_dataset_refresh(r->ds, &r->w->call, err);
            if (st == PENNON_OK) st = pennon_dataset_add_columns_sql(r->ds, 1, &column, &sql, &o, NULL, err);
            if (st != PENNON_CONFLICT || strcmp(err->kind, "RetryableCommitConflict") != 0) return st;
            r->conflicts++;
            pennon_error_clear(err);
        }
    }
}

static void *race(void *ctx)
{
    struct racer *r = ctx;
    pennon_error err;
    pennon_error_init(&err);
    for (int turn = 0; turn < (r->number == 0 ? APPENDS : DELETES) && r->st == PENNON_OK; turn++) {
        r->st = race_step(r, turn, &err);
        if (r->st != PENNON_OK) (void)snprintf(r->text, sizeof r->text, "%s: %s", err.kind ? err.kind : "", err.message);
    }
    pennon_error_clear(&err);
    return NULL;
}

/* Appends, deletes, and two that add columns: every row has the values of the columns that were added after it. */
static void test_dataset_evolve__race(void **state)
{
    struct scan_world *w = *state;
    struct racer racers[4] = {0};
    pthread_t threads[4];
    const uint64_t before = evolve_count(w, w->ds, NULL);
    for (int i = 0; i < 4; i++) {
        racers[i] = (struct racer){.w = w, .ds = evolve_open(w), .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
        if (racers[i].st != PENNON_OK) fail_msg("%d: %s", i, racers[i].text);
        pennon_dataset_free(racers[i].ds);
    }
    scan_ok(w, pennon_dataset_refresh(w->ds, &w->call, &w->err));
    const uint64_t rows = evolve_count(w, w->ds, NULL);
    assert_int_equal(rows, before + (uint64_t)APPENDS * 10 - DELETES);
    for (int i = 2; i < 4; i++) {
        for (int turn = 0; turn < DELETES; turn++) {
            char where[96];
            (void)snprintf(where, sizeof where, "id < 100000 AND c%d_%d = id + 1", i, turn);
            assert_int_equal(evolve_count(w, w->ds, where), before - DELETES);
        }
    }
    evolve_verify(w, w->ds);
}

/* ---- blobs ---- */

/* Values of any size, over the threshold in files of their own, which go again with a call that fails. */
static void run_blobs(struct scan_world *w, const char *version, const char *types, bool v2, size_t sidecars)
{
    static const char text[] = "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n{\"a\":4}\n";
    struct snapshot *s;
    struct call c;
    pennon_evolution_options o = evolve_options(w);
    pennon_mutation_options d;
    pennon_dataset *ds = evolve_make(w, v2 ? "memory://scan/blobs2" : "memory://scan/blobs1", version, NULL, text, 2);
    pennon_mutation_options_init(&d);
    d.call = &w->call;
    scan_ok(w, pennon_dataset_delete(ds, "a = 2", &d, NULL, &w->err));
    for (int64_t rows = 2; rows <= 3; rows++) {
        struct ArrowSchema schema;
        struct ArrowArray batch;
        struct ArrowArrayStream data;
        evolve_schema(w, types, &schema);
        if (v2) {
            scan_ok(w,
                    arrow_metadata_set(schema.children[0], bytes_str("ARROW:extension:name"), bytes_str("lance.blob.v2"), &w->err));
            scan_ok(w, arrow_metadata_set(schema.children[0], bytes_str("lance-encoding:blob-dedicated-size-threshold"),
                                          bytes_str("100"), &w->err));
        } else {
            scan_ok(w, arrow_metadata_set(schema.children[0], bytes_str("lance-encoding:blob"), bytes_str("true"), &w->err));
        }
        struct builder *b = builder_new(&schema, w->mem, &w->err);
        assert_non_null(b);
        for (int64_t i = 0; i < rows; i++) {
            char bytes[500];
            memset(bytes, (int)('a' + i), sizeof bytes);
            struct builder *value = builder_child(b, 0);
            if (v2) scan_ok(w, builder_append_null(builder_child(value, 1), &w->err));
            scan_ok(w, builder_append_bytes(v2 ? builder_child(value, 0) : value, bytes_of(bytes, sizeof bytes), &w->err));
            if (v2) scan_ok(w, builder_append_row(value, &w->err));
            scan_ok(w, builder_append_row(b, &w->err));
        }
        scan_ok(w, builder_finish(b, &batch, &w->err));
        builder_free(b);
        scan_ok(w, stream_from_arrays(&schema, &batch, 1, w->mem, &data, &w->err));
        size_t files = 0;
        const pennon_status st = pennon_dataset_add_columns_stream(ds, &data, &o, NULL, &w->err);
        if (rows == 2) {
            scan_fails(w, st, PENNON_INVALID_ARGUMENT, "Stream ended");
        } else {
            scan_ok(w, st);
        }
        dataset_get(ds, &s, NULL);
        scan_ok(w, call_begin(&c, &w->call, &w->err));
        scan_ok(
            w, store_list(&c, s->at.store, v2 ? "scan/blobs2/data" : "scan/blobs1/data", true, evolve_count_file, &files, &w->err));
        assert_int_equal(files, rows == 2 ? 2 : 4 + sidecars);
        call_end(&c);
        snapshot_release(s);
    }
    assert_int_equal(evolve_count(w, ds, "bl IS NOT NULL"), 3);
    evolve_verify(w, ds);
    pennon_dataset_free(ds);
}

static void test_dataset_evolve__blobs(void **state)
{
    run_blobs(*state, "2.1", "struct<bl: large_binary>", false, 0);
    run_blobs(*state, "2.2", "struct<bl: struct<data: large_binary, uri: string>>", true, 3);
}

/* ---- memory, cancel ---- */

/* With any budget the call works, or fails and leaves nothing behind. */
static void test_dataset_evolve__budgets(void **state)
{
    struct scan_world *w = *state;
    const uint64_t version = pennon_dataset_version(w->ds);
    const size_t files = evolve_files(w);
    const char *const name = "b", *const sql = "concat(s, id)";
    pennon_status st = PENNON_OVER_BUDGET;
    size_t failures = 0;
    for (uint64_t bytes = 1 << 12; st != PENNON_OK; bytes += bytes / 2, failures++) {
        pennon_budget *budget;
        pennon_call call = w->call;
        pennon_evolution_options o = evolve_options(w);
        scan_ok(w, pennon_budget_new(w->runtime, bytes, &budget, &w->err));
        call.budget = budget;
        o.call = &call;
        st = pennon_dataset_add_columns_sql(w->ds, 1, &name, &sql, &o, NULL, &w->err);
        assert_int_equal(pennon_budget_used(budget), 0);
        pennon_budget_free(budget);
        if (st == PENNON_OK) break;
        assert_int_equal(st, PENNON_OVER_BUDGET);
        pennon_error_clear(&w->err);
        assert_int_equal(evolve_files(w), files);
        assert_int_equal(pennon_dataset_version(w->ds), version);
        assert_true(bytes < (uint64_t)1 << 28);
    }
    assert_true(failures > 5);
    evolve_verify(w, w->ds);
}

struct firing {
    pennon_cancel *cancel;
    uint64_t done, total;
};

static void fire(void *ctx, uint64_t done, uint64_t total)
{
    struct firing *f = ctx;
    f->done = done;
    f->total = total;
    if (f->cancel) pennon_cancel_fire(f->cancel);
}

static void test_dataset_evolve__cancel(void **state)
{
    struct scan_world *w = *state;
    const size_t files = evolve_files(w);
    struct firing f = {0};
    pennon_call call = w->call;
    pennon_evolution_options o = evolve_options(w);
    const char *const name = "b", *const sql = "concat(s, id)";
    scan_ok(w, pennon_cancel_new(&f.cancel, &w->err));
    call.cancel = f.cancel;
    call.threads = 1;
    call.progress = fire;
    call.progress_ctx = &f;
    o.call = &call;
    o.batch_rows = 100;
    scan_fails(w, pennon_dataset_add_columns_sql(w->ds, 1, &name, &sql, &o, NULL, &w->err), PENNON_CANCELLED, "");
    assert_int_equal(evolve_files(w), files);
    pennon_cancel_free(f.cancel);
    f.cancel = NULL;
    call.cancel = NULL;
    scan_ok(w, pennon_dataset_add_columns_sql(w->ds, 1, &name, &sql, &o, NULL, &w->err));
    assert_int_equal(f.done, SCAN_ROWS);
    assert_int_equal(f.total, SCAN_ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_dataset_evolve__sql, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__sql_stable, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__kinds, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__lineage, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__nulls, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__stream, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__many, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__parts, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__dead_rows, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__dead_fragment, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__drop, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__project, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__rename, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__nullable, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__cast, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__cast_part, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__empty, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__refused, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__uncommitted, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__fragment_delete, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__conflicts, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__race, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__blobs, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__budgets, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_evolve__cancel, scan_setup, scan_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
