/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Merges: every combination of modes against a model that compares row by row, what is refused, rows in a file and keys in parts, and what happens
 * beside other writers. */
#include <pthread.h>

#include "dataset/merge.h"
#include "scan_world.h"

#define URI "memory://merge/t"
#define ROWS_MAX 4096

struct row {
    bool null; /* the key */
    int64_t k, v;
    bool absent; /* v is null */
};
struct rows {
    struct row items[ROWS_MAX];
    size_t n;
};

/* ---- tables and streams ---- */

static void make_stream(struct scan_world *w, const struct row *rows, size_t n, size_t batch, bool key_only,
                        struct ArrowArrayStream *out)
{
    struct ArrowSchema schema;
    struct ArrowArray parts[512];
    size_t n_parts = 0;
    scan_ok(w, arrow_schema_from_text(bytes_str(key_only ? "struct<k: int64>" : "struct<k: int64, v: int64>"), "", w->mem, &schema,
                                      &w->err));
    struct builder *b = builder_new(&schema, w->mem, &w->err);
    assert_non_null(b);
    for (size_t i = 0; i < n; i++) {
        struct builder *k = builder_child(b, 0);
        scan_ok(w, rows[i].null ? builder_append_null(k, &w->err) : builder_append_int(k, rows[i].k, &w->err));
        if (!key_only) {
            struct builder *v = builder_child(b, 1);
            scan_ok(w, rows[i].absent ? builder_append_null(v, &w->err) : builder_append_int(v, rows[i].v, &w->err));
        }
        scan_ok(w, builder_append_row(b, &w->err));
        if ((i + 1) % batch == 0) scan_ok(w, builder_finish(b, &parts[n_parts++], &w->err));
        assert_true(n_parts < ARRAY_LEN(parts));
    }
    scan_ok(w, builder_finish(b, &parts[n_parts++], &w->err));
    builder_free(b);
    scan_ok(w, stream_from_arrays(&schema, parts, n_parts, w->mem, out, &w->err));
}

static pennon_dataset *make_table(struct scan_world *w, const struct rows *rows, uint64_t file_rows, bool stable)
{
    struct ArrowArrayStream stream;
    pennon_write_options o;
    pennon_dataset *ds;
    pennon_write_options_init(&o);
    o.call = &w->call;
    o.mode = PENNON_WRITE_OVERWRITE;
    o.max_rows_per_file = file_rows;
    o.stable_row_ids = stable;
    make_stream(w, rows->items, rows->n, ROWS_MAX, false, &stream);
    scan_ok(w, pennon_write(URI, &stream, &o, &ds, &w->err));
    return ds;
}

/* Rows of the table, with what stands at their end. */
static void read_table(struct scan_world *w, pennon_dataset *ds, const char *third, struct rows *out, uint64_t *words)
{
    const char *const names[] = {"k", "v", third};
    const pennon_names columns = {third ? 3 : 2, names};
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray all;
    pennon_scan_options o = scan_options(w);
    o.columns = &columns;
    scan_ok(w, pennon_scan(ds, &o, &stream, &w->err));
    scan_ok(w, stream_schema(&stream, &schema, &w->err));
    scan_ok(w, stream_collect(&stream, &schema, w->mem, &all, &w->err));
    stream_release(&stream);
    assert_true(all.length <= ROWS_MAX);
    out->n = (size_t)all.length;
    for (int64_t i = 0; i < all.length; i++) {
        struct row *r = &out->items[i];
        r->k = scan_int(&all, 0, i, &r->null);
        r->v = scan_int(&all, 1, i, &r->absent);
        if (r->null) r->k = 0;
        if (r->absent) r->v = 0;
        if (words) words[i] = ((const uint64_t *)all.children[2]->buffers[1])[all.children[2]->offset + i];
    }
    array_release(&all);
    arrow_schema_release(&schema);
}

static int compare_rows(const void *x, const void *y)
{
    const struct row *a = x, *b = y;
    if (a->null != b->null) return a->null ? 1 : -1;
    if (a->k != b->k) return a->k < b->k ? -1 : 1;
    if (a->absent != b->absent) return a->absent ? 1 : -1;
    return a->v < b->v ? -1 : a->v > b->v;
}

static void same_rows(struct rows *a, struct rows *b)
{
    assert_int_equal(a->n, b->n);
    qsort(a->items, a->n, sizeof *a->items, compare_rows);
    qsort(b->items, b->n, sizeof *b->items, compare_rows);
    for (size_t i = 0; i < a->n; i++) {
        if (compare_rows(&a->items[i], &b->items[i]) != 0)
            fail_msg("row %zu: k %lld v %lld, not k %lld v %lld", i, (long long)a->items[i].k, (long long)a->items[i].v,
                     (long long)b->items[i].k, (long long)b->items[i].v);
    }
}

/* ---- the model ---- */

struct expected {
    struct rows rows;
    pennon_merge_result counts;
    const char *failure; /* NULL = none */
};

static bool equal_keys(const struct row *a, const struct row *b) { return !a->null && !b->null && a->k == b->k; }

/* "source.v > target.v" */
static bool condition_holds(const struct row *source, const struct row *target)
{
    return !source->absent && !target->absent && source->v > target->v;
}

/* What happens to a row of the target: true = it stays. */
static bool model_target(const pennon_merge_options *o, const struct row *target, const struct rows *source, struct expected *e)
{
    size_t matches = 0, updates = 0;
    const struct row *first = NULL;
    const bool only_deletes = !o->when_not_matched && o->by_source == PENNON_BY_SOURCE_KEEP;
    for (size_t i = 0; i < source->n; i++) {
        if (!equal_keys(&source->items[i], target)) continue;
        matches++;
        if (o->when_matched == PENNON_MATCHED_UPDATE ||
            (o->when_matched == PENNON_MATCHED_UPDATE_IF && condition_holds(&source->items[i], target))) {
            if (updates++ == 0) first = &source->items[i];
        }
    }
    if (matches == 0) {
        /* "v < 50" */
        const bool deleted = o->by_source == PENNON_BY_SOURCE_DELETE ||
                             (o->by_source == PENNON_BY_SOURCE_DELETE_IF && !target->absent && target->v < 50);
        e->counts.rows_deleted += deleted;
        return !deleted;
    }
    if (o->when_matched == PENNON_MATCHED_FAIL) e->failure = "found matching row with key values: k = ";
    if (updates > 1 && o->duplicates == PENNON_DUPLICATES_FAIL) e->failure = "Ambiguous merge inserts are prohibited";
    if (o->when_matched == PENNON_MATCHED_DELETE) {
        e->counts.rows_deleted += only_deletes ? 1 : matches;
        return false;
    }
    if (updates == 0) return true;
    e->counts.rows_updated++;
    e->counts.duplicates_skipped += updates - 1;
    e->rows.items[e->rows.n++] = *first;
    return false;
}

static void model(const pennon_merge_options *o, const struct rows *target, const struct rows *source, struct expected *e)
{
    memset(e, 0, sizeof *e);
    for (size_t i = 0; i < target->n; i++) {
        if (model_target(o, &target->items[i], source, e)) e->rows.items[e->rows.n++] = target->items[i];
    }
    for (size_t i = 0; i < source->n && o->when_not_matched; i++) {
        bool matched = false;
        for (size_t k = 0; k < target->n && !matched; k++) matched = equal_keys(&source->items[i], &target->items[k]);
        if (matched) continue;
        e->rows.items[e->rows.n++] = source->items[i];
        e->counts.rows_inserted++;
    }
}

/* ---- merges ---- */

static const char *const on_k[] = {"k"};
static const pennon_names on_names = {1, on_k};

static pennon_merge_options options_of(struct scan_world *w)
{
    pennon_merge_options o;
    pennon_merge_options_init(&o);
    o.call = &w->call;
    o.on = &on_names;
    return o;
}

static void set_modes(pennon_merge_options *o, int32_t matched, int32_t not_matched, int32_t by_source)
{
    o->when_matched = matched;
    o->when_not_matched = not_matched;
    o->by_source = by_source;
    o->matched_condition = matched == PENNON_MATCHED_UPDATE_IF ? "source.v > target.v" : NULL;
    o->by_source_condition = by_source == PENNON_BY_SOURCE_DELETE_IF ? "v < 50" : NULL;
}

static void random_rows(struct rows *out, size_t n, uint64_t keys, uint64_t salt, bool unique)
{
    out->n = n;
    for (size_t i = 0; i < n; i++) {
        const uint64_t dice = scan_mixed((int64_t)i, salt);
        struct row *r = &out->items[i];
        *r = (struct row){.null = dice % 19 == 0,
                          .k = (int64_t)(unique ? (i * 7 + salt) % keys : dice % keys),
                          .v = (int64_t)(dice >> 8) % 100,
                          .absent = dice % 23 == 1};
        if (r->null) r->k = 0;
        if (r->absent) r->v = 0;
    }
}

static void verify_scope(struct scan_world *w, pennon_dataset *ds, int32_t scope)
{
    pennon_verify_options o;
    pennon_verify_counts n = {.struct_size = sizeof n};
    pennon_verify_options_init(&o);
    o.call = &w->call;
    o.scope = scope;
    scan_ok(w, pennon_dataset_verify(ds, &o, &n, &w->err));
    assert_int_equal(n.findings, 0);
}

static void verify(struct scan_world *w, pennon_dataset *ds) { verify_scope(w, ds, PENNON_VERIFY_ALL); }

/* One merge against the model. */
static void check_merge(struct scan_world *w, const pennon_merge_options *o, const struct rows *target, const struct rows *source,
                        size_t batch, bool stable)
{
    static struct rows got;
    static struct expected e;
    struct ArrowArrayStream stream;
    pennon_merge_result r = {.struct_size = sizeof r};
    pennon_dataset *ds = make_table(w, target, 17, stable);
    const uint64_t version = pennon_dataset_version(ds);
    model(o, target, source, &e);
    make_stream(w, source->items, source->n, batch, false, &stream);
    pennon_status st = pennon_dataset_merge(ds, &stream, o, &r, &w->err);
    assert_null(stream.release);
    if (e.failure) {
        scan_fails(w, st, PENNON_INVALID_ARGUMENT, e.failure);
        assert_int_equal(pennon_dataset_version(ds), version);
    } else {
        scan_ok(w, st);
        assert_int_equal(r.rows_inserted, e.counts.rows_inserted);
        assert_int_equal(r.rows_updated, e.counts.rows_updated);
        assert_int_equal(r.rows_deleted, e.counts.rows_deleted);
        assert_int_equal(r.duplicates_skipped, e.counts.duplicates_skipped);
        assert_int_equal(r.attempts, 1);
        assert_int_equal(r.version, version + 1);
        read_table(w, ds, NULL, &got, NULL);
        same_rows(&got, &e.rows);
    }
    verify_scope(w, ds, PENNON_VERIFY_VERSION);
    pennon_dataset_free(ds);
}

static void run_modes(struct scan_world *w, bool stable)
{
    static struct rows target, source;
    unsigned n = 0;
    for (int32_t matched = 0; matched <= PENNON_MATCHED_DELETE; matched++) {
        for (int32_t rest = 0; rest < 2 * 3 * 2; rest++) {
            pennon_merge_options o = options_of(w);
            set_modes(&o, matched, rest % 2, rest / 2 % 3);
            o.duplicates = rest / 6;
            if (matched == 0 && rest % 6 == 0) continue;
            random_rows(&target, n % 5 == 4 ? 0 : 60, 40, n, n % 2);
            random_rows(&source, n % 7 == 6 ? 0 : 40, n % 3 ? 97 : 50, n + 1000, n % 3);
            check_merge(w, &o, &target, &source, n % 4 ? 11 : ROWS_MAX, stable);
            n++;
        }
    }
    assert_int_equal(n, 58);
}

static void test_dataset_merge__modes(void **state) { run_modes(*state, false); }
static void test_dataset_merge__modes_stable(void **state) { run_modes(*state, true); }

/* Of several rows for one the first in the order of the stream counts, whatever the batches are. */
static void test_dataset_merge__first_seen(void **state)
{
    struct scan_world *w = *state;
    static struct rows target, source, got;
    target.n = 30;
    source.n = 300;
    for (size_t i = 0; i < target.n; i++) target.items[i] = (struct row){.k = (int64_t)i, .v = -1};
    for (size_t i = 0; i < source.n; i++) source.items[i] = (struct row){.k = (int64_t)(i * 7 % 30), .v = (int64_t)i};
    for (size_t batch = 1; batch <= 400; batch += 57) {
        pennon_dataset *ds = make_table(w, &target, 11, batch % 2);
        pennon_merge_options o = options_of(w);
        pennon_merge_result r = {.struct_size = sizeof r};
        struct ArrowArrayStream stream;
        set_modes(&o, PENNON_MATCHED_UPDATE, PENNON_NOT_MATCHED_INSERT, 0);
        o.duplicates = PENNON_DUPLICATES_FIRST_SEEN;
        make_stream(w, source.items, source.n, batch, false, &stream);
        scan_ok(w, pennon_dataset_merge(ds, &stream, &o, &r, &w->err));
        assert_int_equal(r.rows_updated, 30);
        assert_int_equal(r.duplicates_skipped, 270);
        read_table(w, ds, NULL, &got, NULL);
        qsort(got.items, got.n, sizeof *got.items, compare_rows);
        for (size_t i = 0; i < 30; i++) {
            size_t first = 0;
            while (first * 7 % 30 != i) first++;
            assert_int_equal(got.items[i].v, first);
        }
        pennon_dataset_free(ds);
    }
}

/* Row ids of updated rows stay, with the version that they were made at; inserted rows get new ones behind all others. */
static void test_dataset_merge__row_ids(void **state)
{
    struct scan_world *w = *state;
    static struct rows target, source, got;
    uint64_t words[ROWS_MAX];
    target.n = source.n = 100;
    for (size_t i = 0; i < 100; i++) {
        target.items[i] = (struct row){.k = (int64_t)i, .v = 1};
        source.items[i] = (struct row){.k = (int64_t)(149 - i), .v = 2};
    }
    pennon_dataset *ds = make_table(w, &target, 30, true);
    pennon_merge_options o = options_of(w);
    struct ArrowArrayStream stream;
    set_modes(&o, PENNON_MATCHED_UPDATE, PENNON_NOT_MATCHED_INSERT, 0);
    const uint64_t before = pennon_dataset_version(ds);
    make_stream(w, source.items, source.n, 13, false, &stream);
    scan_ok(w, pennon_dataset_merge(ds, &stream, &o, NULL, &w->err));
    read_table(w, ds, "_rowid", &got, words);
    assert_int_equal(got.n, 150);
    uint64_t least = UINT64_MAX, most = 0;
    read_table(w, ds, "_rowid", &got, words);
    for (size_t i = 0; i < got.n; i++) {
        if (got.items[i].k < 100) {
            if (got.items[i].k == 0) least = words[i];
        } else if (words[i] > most) {
            most = words[i];
        }
    }
    for (size_t i = 0; i < got.n; i++) {
        if (got.items[i].k < 100) assert_int_equal(words[i], least + (uint64_t)got.items[i].k);
        if (got.items[i].k >= 100) assert_in_range(words[i], least + 100, least + 149);
        assert_int_equal(got.items[i].v, got.items[i].k < 50 ? 1 : 2);
    }
    assert_int_equal(most, least + 149);
    read_table(w, ds, "_row_created_at_version", &got, words);
    for (size_t i = 0; i < got.n; i++) assert_int_equal(words[i], got.items[i].k < 100 ? before : before + 1);
    read_table(w, ds, "_row_last_updated_at_version", &got, words);
    for (size_t i = 0; i < got.n; i++) assert_int_equal(words[i], got.items[i].k < 50 ? before : before + 1);
    pennon_dataset_free(ds);
}

/* ---- columns ---- */

static uint64_t count(struct scan_world *w, pennon_dataset *ds, const char *where)
{
    uint64_t n;
    pennon_scan_options o = scan_options(w);
    o.filter = where;
    scan_ok(w, pennon_scan_count(ds, &o, &n, &w->err));
    return n;
}

static uint64_t word(const struct ArrowArray *batch, int column, int64_t row)
{
    const struct ArrowArray *a = batch->children[column];
    return ((const uint64_t *)a->buffers[1])[a->offset + row];
}

static const char *const on_id[] = {"ID"};
static const pennon_names id_names = {1, on_id};

/* Rows of the scan world itself, with lists, structs and JSON, some columns of them and all; keys in any case. */
static void run_columns(struct scan_world *w, bool whole)
{
    pennon_merge_options o = options_of(w);
    pennon_merge_result r = {.struct_size = sizeof r};
    struct ArrowArrayStream stream;
    const uint64_t before = count(w, w->ds, NULL), old = count(w, w->ds, "id >= 10000"),
                   null = count(w, w->ds, "id >= 10000 AND s IS NULL"),
                   json = count(w, w->ds, "id >= 10000 AND json_extract(j, '$.a') = '12000'");
    o.on = &id_names;
    set_modes(&o, PENNON_MATCHED_UPDATE, PENNON_NOT_MATCHED_INSERT, 0);
    scan_make_rows(w, 10000, 15000, whole, &stream);
    scan_ok(w, pennon_dataset_merge(w->ds, &stream, &o, &r, &w->err));
    assert_int_equal(r.rows_updated, old);
    assert_int_equal(r.rows_inserted, 15000 - old);
    assert_int_equal(count(w, w->ds, NULL), before + r.rows_inserted);
    assert_int_equal(count(w, w->ds, "id >= 10000"), 15000);
    if (whole) {
        assert_int_equal(count(w, w->ds, "id >= 10000 AND s IS NULL"), 0);
        assert_int_equal(count(w, w->ds, "id >= 10000 AND json_extract(j, '$.a') = CAST(id AS string)"), 15000);
    } else {
        assert_int_equal(count(w, w->ds, "id >= 10000 AND s IS NULL"), null + r.rows_inserted);
        assert_int_equal(count(w, w->ds, "id >= 10000 AND json_extract(j, '$.a') = '12000'"), json);
        assert_int_equal(count(w, w->ds, "id >= 10000 AND s IS NOT NULL AND st.y <> concat('y', id % 50)"), 0);
    }
    verify(w, w->ds);
}

static void test_dataset_merge__all_columns(void **state) { run_columns(*state, true); }
static void test_dataset_merge__some_columns(void **state) { run_columns(*state, false); }
static void test_dataset_merge__some_columns_stable(void **state) { run_columns(*state, false); }

/* Conditions see both sides, parts of structs too, and null where a struct is. */
static void test_dataset_merge__conditions(void **state)
{
    struct scan_world *w = *state;
    static const char *const conditions[] = {"source.id = target.id AND source.st.x = target.st.x",
                                             "target.s IS NULL",
                                             "source.st.y IS NULL",
                                             "true",
                                             "source.m > 5000 OR target.f < 3",
                                             "json_extract(target.j, '$.a') = '7'"};
    static const char *const wheres[] = {"st.x IS NOT NULL", "s IS NULL", "id % 17 = 0", NULL, "m > 5000 OR f < 3", "id = 7"};
    for (size_t i = 0; i < ARRAY_LEN(conditions); i++) {
        pennon_merge_options o = options_of(w);
        pennon_merge_result r = {.struct_size = sizeof r};
        struct ArrowArrayStream stream;
        const uint64_t want = count(w, w->ds, wheres[i]);
        o.on = &id_names;
        o.when_matched = PENNON_MATCHED_UPDATE_IF;
        o.matched_condition = conditions[i];
        scan_make_rows(w, 0, SCAN_ROWS, true, &stream);
        scan_ok(w, pennon_dataset_merge(w->ds, &stream, &o, &r, &w->err));
        assert_int_equal(r.rows_updated, want);
        verify_scope(w, w->ds, PENNON_VERIFY_VERSION);
    }
}

static void wide_rows(struct scan_world *w, int64_t first, int64_t n, int64_t batch, struct ArrowArrayStream *out);

/* Rows of several chunks: those of a row of the target stay together, with the row's id. */
static void run_chunks(struct scan_world *w, bool stable)
{
    static const char *const names[] = {"id", "_rowid"};
    const pennon_names columns = {2, names};
    pennon_merge_options o = options_of(w);
    pennon_merge_result r = {.struct_size = sizeof r};
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray rows;
    uint64_t *ids = calloc(SCAN_ROWS + 15000, sizeof *ids);
    assert_non_null(ids);
    const uint64_t old = count(w, w->ds, "id >= 10000"), f = count(w, w->ds, "id >= 10000 AND f IS NULL"),
                   json = count(w, w->ds, "id >= 10000 AND json_extract(j, '$.a') = CAST(id AS string)");
    o.on = &id_names;
    set_modes(&o, PENNON_MATCHED_UPDATE, PENNON_NOT_MATCHED_INSERT, 0);
    wide_rows(w, 10000, 15000, 2500, &stream);
    scan_ok(w, pennon_dataset_merge(w->ds, &stream, &o, &r, &w->err));
    assert_int_equal(r.rows_updated, old);
    assert_int_equal(count(w, w->ds, "id >= 10000 AND m = -1"), 15000);
    assert_int_equal(count(w, w->ds, "id >= 10000 AND f IS NULL"), f + 15000 - old);
    assert_int_equal(count(w, w->ds, "id >= 10000 AND json_extract(j, '$.a') = CAST(id AS string)"), json);
    assert_int_equal(count(w, w->ds, "id >= 10000 AND st.y <> concat('y', id % 50)"), 0);
    assert_int_equal(count(w, w->ds, "id >= 10000 AND character_length(s) <> 400"), 0);
    for (int64_t i = 0; i < w->all.length; i++) ids[word(&w->all, SCAN_ID, i)] = word(&w->all, SCAN_ROWID, i) + 1;
    pennon_scan_options scan = scan_options(w);
    scan.columns = &columns;
    scan_rows(w, &scan, &schema, &rows);
    for (int64_t i = 0; i < rows.length && stable; i++) {
        const uint64_t id = word(&rows, 0, i);
        if (ids[id]) assert_int_equal(word(&rows, 1, i), ids[id] - 1);
    }
    array_release(&rows);
    arrow_schema_release(&schema);
    free(ids);
    verify(w, w->ds);
}

static void test_dataset_merge__chunks(void **state) { run_chunks(*state, false); }
static void test_dataset_merge__chunks_stable(void **state) { run_chunks(*state, true); }

/* ---- what is refused ---- */

static pennon_status try_merge(struct scan_world *w, pennon_dataset *ds, const pennon_merge_options *o)
{
    const struct row rows[] = {{.k = 1, .v = 1}, {.k = 1, .v = 2}, {.k = 900, .v = 3}};
    struct ArrowArrayStream stream;
    make_stream(w, rows, 3, 2, false, &stream);
    pennon_status st = pennon_dataset_merge(ds, &stream, o, NULL, &w->err);
    assert_null(stream.release);
    return st;
}

static void test_dataset_merge__refused(void **state)
{
    struct scan_world *w = *state;
    static struct rows target;
    static const char *const unknown[] = {"zz"}, *const part[] = {"st.x"}, *const json[] = {"j"};
    const pennon_names names[] = {{1, unknown}, {1, part}, {1, json}};
    struct ArrowArrayStream stream = {0};
    target.n = 50;
    for (size_t i = 0; i < 50; i++) target.items[i] = (struct row){.k = (int64_t)i};
    pennon_dataset *ds = make_table(w, &target, 20, false);
    const uint64_t version = pennon_dataset_version(ds);
    pennon_merge_options o = options_of(w);
    scan_fails(w, try_merge(w, ds, &o), PENNON_INVALID_ARGUMENT, "not configured to change the data in any way");
    o.when_matched = 7;
    scan_fails(w, try_merge(w, ds, &o), PENNON_INVALID_ARGUMENT, "when_matched 7");
    set_modes(&o, PENNON_MATCHED_UPDATE_IF, 1, 0);
    o.matched_condition = NULL;
    scan_fails(w, try_merge(w, ds, &o), PENNON_INVALID_ARGUMENT, "needs a matched_condition");
    set_modes(&o, PENNON_MATCHED_UPDATE, 1, 0);
    o.matched_condition = "true";
    scan_fails(w, try_merge(w, ds, &o), PENNON_INVALID_ARGUMENT, "a matched_condition without");
    set_modes(&o, PENNON_MATCHED_UPDATE_IF, 1, 0);
    o.matched_condition = "source.q = 1";
    scan_fails(w, try_merge(w, ds, &o), PENNON_INVALID_ARGUMENT, "'q'");
    o.matched_condition = "source.v + 1";
    scan_fails(w, try_merge(w, ds, &o), PENNON_INVALID_ARGUMENT, "boolean");
    set_modes(&o, PENNON_MATCHED_UPDATE, 1, PENNON_BY_SOURCE_DELETE_IF);
    o.by_source_condition = "q = 1";
    scan_fails(w, try_merge(w, ds, &o), PENNON_INVALID_ARGUMENT, "'q'");
    set_modes(&o, PENNON_MATCHED_UPDATE, 1, 0);
    scan_fails(w, try_merge(w, ds, &o), PENNON_INVALID_ARGUMENT, "multiple source rows match the same target row on (k = 1)");
    o.on = NULL;
    scan_fails(w, try_merge(w, ds, &o), PENNON_INVALID_ARGUMENT, "configure a primary key");
    o.on = &names[0];
    scan_fails(w, try_merge(w, ds, &o), PENNON_INVALID_ARGUMENT, "'zz' does not exist");
    o.on = &on_names;
    scan_fails(w, pennon_dataset_merge(ds, NULL, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "stream");
    scan_fails(w, try_merge(w, w->ds, &o), PENNON_INVALID_ARGUMENT, "'k' does not exist");
    o.on = &names[1];
    scan_fails(w, try_merge(w, w->ds, &o), PENNON_NOT_SUPPORTED, "'st.x'");
    o.on = &names[2];
    scan_make_rows(w, 0, 3, true, &stream);
    scan_fails(w, pennon_dataset_merge(w->ds, &stream, &o, NULL, &w->err), PENNON_NOT_SUPPORTED, "JSON column 'j'");
    o.on = &id_names;
    scan_fails(w, try_merge(w, w->ds, &o), PENNON_INVALID_ARGUMENT, "is not in the table");
    assert_int_equal(pennon_dataset_version(ds), version);
    pennon_dataset_free(ds);
}

/* ---- memory ---- */

static void wide_rows(struct scan_world *w, int64_t first, int64_t n, int64_t batch, struct ArrowArrayStream *out)
{
    struct ArrowSchema schema;
    struct ArrowArray parts[64];
    size_t n_parts = 0;
    scan_ok(w, arrow_schema_from_text(bytes_str("struct<s: string, id: int64, m: int64>"), "", w->mem, &schema, &w->err));
    struct builder *b = builder_new(&schema, w->mem, &w->err);
    for (int64_t i = 0; i < n; i++) {
        char text[400];
        memset(text, 'a' + (int)(i % 26), sizeof text);
        scan_ok(w, builder_append_bytes(builder_child(b, 0), bytes_of(text, sizeof text), &w->err));
        scan_ok(w, builder_append_int(builder_child(b, 1), first + i, &w->err));
        scan_ok(w, builder_append_int(builder_child(b, 2), -1, &w->err));
        scan_ok(w, builder_append_row(b, &w->err));
        if ((i + 1) % batch == 0) scan_ok(w, builder_finish(b, &parts[n_parts++], &w->err));
    }
    scan_ok(w, builder_finish(b, &parts[n_parts++], &w->err));
    builder_free(b);
    scan_ok(w, stream_from_arrays(&schema, parts, n_parts, w->mem, out, &w->err));
}

static uint64_t number_behind(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    assert_non_null(at);
    return strtoull(at + strlen(key), NULL, 10);
}

/* ---- parts of keys ---- */

static void find(struct scan_world *w, const struct row_store *rows, const pennon_merge_options *o, uint64_t table_bytes,
                 struct merge_found *out)
{
    struct snapshot *s;
    struct file_cache *files;
    struct merge_plan plan;
    struct call c;
    dataset_get(w->ds, &s, &files);
    scan_ok(w, call_begin(&c, &w->call, &w->err));
    scan_ok(w, merge_plan_make(&plan, &c, s, o, &rows->schema, &w->err));
    scan_ok(w, merge_find(&plan, &c, files, rows, table_bytes, out, &w->err));
    scan_ok(w, merge_sort_pairs(&c, rows, PAIRS_BY_PLACE, out->pairs, out->n_pairs, &w->err));
    merge_plan_free(&plan);
    call_end(&c);
    file_cache_release(files);
    snapshot_release(s);
}

static void same_found(const struct merge_found *a, const struct merge_found *b, uint64_t rows)
{
    assert_int_equal(a->deleted, b->deleted);
    assert_int_equal(a->skipped, b->skipped);
    assert_int_equal(a->hits, b->hits);
    assert_int_equal(a->null_keys, b->null_keys);
    assert_int_equal(a->n_pairs, b->n_pairs);
    assert_int_equal(a->n_stretches, b->n_stretches);
    for (size_t i = 0; i < a->n_pairs; i++) {
        assert_int_equal(a->pairs[i].place, b->pairs[i].place);
        assert_int_equal(a->pairs[i].row, b->pairs[i].row);
    }
    for (size_t i = 0; i < a->n_stretches; i++) {
        const struct merge_stretch *x = &a->stretches[i], *y = &b->stretches[i];
        assert_int_equal(x->gone == NULL, y->gone == NULL);
        if (x->gone) assert_memory_equal(x->gone, y->gone, bitmap_bytes(x->end - x->start));
    }
    assert_int_equal(a->matched == NULL, b->matched == NULL);
    if (a->matched) assert_memory_equal(a->matched, b->matched, bitmap_bytes(rows));
}

/* What is found does not depend on how many passes there are, nor on whether the rows of the source are in memory. */
static void test_dataset_merge__passes(void **state)
{
    struct scan_world *w = *state;
    static const char *const keys[2][2] = {{"id", "m"}, {"m", "id"}};
    struct row_store kept, spilled;
    struct ArrowArrayStream stream;
    struct call c;
    scan_ok(w, call_begin(&c, &w->call, &w->err));
    scan_make_rows(w, 9000, 9000, true, &stream);
    scan_ok(w, row_store_fill(&kept, &c, &stream, UINT64_MAX, &w->err));
    stream_release(&stream);
    scan_make_rows(w, 9000, 9000, true, &stream);
    scan_ok(w, row_store_fill(&spilled, &c, &stream, 0, &w->err));
    stream_release(&stream);
    for (int32_t mode = 0; mode < 5 * 3; mode++) {
        struct merge_found one, many;
        pennon_merge_options o = options_of(w);
        const pennon_names on = {1 + (size_t)(mode % 2), keys[mode / 2 % 2]};
        if (mode % 5 == PENNON_MATCHED_FAIL) continue;
        o.on = &on;
        set_modes(&o, mode % 5, 1, mode / 5 % 3);
        if (o.matched_condition) o.matched_condition = "source.m < 7000 AND target.id % 3 <> 1";
        if (o.by_source_condition) o.by_source_condition = "id % 7 = 1";
        o.duplicates = PENNON_DUPLICATES_FIRST_SEEN;
        find(w, &kept, &o, UINT64_MAX, &one);
        find(w, &spilled, &o, 50000, &many);
        assert_int_equal(one.passes, 1);
        assert_true(many.passes >= 8);
        assert_true(one.n_pairs + one.deleted > 0 || mode % 5 == 0);
        same_found(&one, &many, 9000);
        merge_found_free(&c, &one);
        merge_found_free(&c, &many);
    }
    row_store_free(&kept);
    row_store_free(&spilled);
    call_end(&c);
}

/* With any budget the call works, or fails and leaves nothing behind; with small ones rows go to a file, and the keys are looked at in parts. */
static void run_budgets(struct scan_world *w, const pennon_names *on)
{
    pennon_status st = PENNON_OVER_BUDGET;
    const uint64_t version = pennon_dataset_version(w->ds), old = count(w, w->ds, "id >= 15000");
    uint64_t failures = 0, spilled = 0;
    for (uint64_t bytes = 1 << 20; st != PENNON_OK; bytes += bytes / 2, failures++) {
        pennon_budget *budget;
        pennon_call call = w->call;
        pennon_merge_options o = options_of(w);
        pennon_merge_result r = {.struct_size = sizeof r};
        struct ArrowArrayStream stream;
        char *text = NULL;
        scan_ok(w, pennon_budget_new(w->runtime, bytes, &budget, &w->err));
        call.budget = budget;
        call.threads = 1;
        o.call = &call;
        o.on = on;
        set_modes(&o, PENNON_MATCHED_UPDATE, PENNON_NOT_MATCHED_INSERT, PENNON_BY_SOURCE_DELETE_IF);
        o.by_source_condition = "id < 100";
        wide_rows(w, 15000, 24000, 2000, &stream);
        st = pennon_dataset_merge_analyze(w->ds, &stream, &o, &text, &w->err);
        assert_int_equal(pennon_dataset_version(w->ds), version);
        if (st == PENNON_OK) {
            spilled = number_behind(text, "spilled_bytes=");
            pennon_string_free(text);
            wide_rows(w, 15000, 24000, 2000, &stream);
            st = pennon_dataset_merge(w->ds, &stream, &o, &r, &w->err);
        }
        assert_int_equal(pennon_budget_used(budget), 0);
        pennon_budget_free(budget);
        if (st == PENNON_OK) {
            assert_int_equal(r.rows_updated, old);
            assert_int_equal(r.rows_inserted, 24000 - old);
            break;
        }
        assert_int_equal(st, PENNON_OVER_BUDGET);
        pennon_error_clear(&w->err);
        assert_int_equal(pennon_dataset_version(w->ds), version);
        assert_true(bytes < (uint64_t)1 << 28);
    }
    assert_true(failures > 0);
    assert_true(spilled > 0);
    assert_int_equal(count(w, w->ds, "id >= 15000 AND m = -1"), 24000);
    assert_int_equal(count(w, w->ds, "id < 100"), 0);
    verify(w, w->ds);
}

static void test_dataset_merge__budgets(void **state) { run_budgets(*state, &id_names); }
static void test_dataset_merge__budgets_stable(void **state) { run_budgets(*state, &id_names); }

static void test_dataset_merge__cancel(void **state)
{
    struct scan_world *w = *state;
    pennon_call call = w->call;
    pennon_merge_options o = options_of(w);
    struct ArrowArrayStream stream;
    const uint64_t version = pennon_dataset_version(w->ds);
    scan_ok(w, pennon_cancel_new(&call.cancel, &w->err));
    pennon_cancel_fire(call.cancel);
    o.call = &call;
    o.on = &id_names;
    set_modes(&o, PENNON_MATCHED_UPDATE, 1, 0);
    scan_make_rows(w, 0, 5000, true, &stream);
    scan_fails(w, pennon_dataset_merge(w->ds, &stream, &o, NULL, &w->err), PENNON_CANCELLED, "");
    assert_null(stream.release);
    pennon_cancel_free(call.cancel);
    assert_int_equal(pennon_dataset_version(w->ds), version);
}

struct seen {
    uint64_t done, total, calls;
};
static void note_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct seen *s = ctx;
    assert_true(done >= s->done && done <= total);
    *s = (struct seen){done, total, s->calls + 1};
}

static void test_dataset_merge__progress(void **state)
{
    struct scan_world *w = *state;
    struct seen seen = {0};
    pennon_call call = w->call;
    pennon_merge_options o = options_of(w);
    struct ArrowArrayStream stream;
    call.progress = note_progress;
    call.progress_ctx = &seen;
    o.call = &call;
    o.on = &id_names;
    set_modes(&o, PENNON_MATCHED_UPDATE, 1, 0);
    const uint64_t live = count(w, w->ds, NULL);
    scan_make_rows(w, 0, 30000, true, &stream);
    scan_ok(w, pennon_dataset_merge(w->ds, &stream, &o, NULL, &w->err));
    assert_true(seen.calls >= 2);
    assert_int_equal(seen.done, live + 30000);
    assert_int_equal(seen.done, seen.total);
}

/* ---- beside other writers ---- */

static pennon_dataset *open_again(struct scan_world *w)
{
    pennon_dataset *ds;
    pennon_open_options o;
    pennon_open_options_init(&o);
    o.call = &w->call;
    scan_ok(w, pennon_dataset_open(URI, &o, &ds, &w->err));
    return ds;
}

static pennon_status upsert(struct scan_world *w, pennon_dataset *ds, int64_t first, size_t n, int64_t v, pennon_merge_result *r,
                            pennon_error *err)
{
    struct row rows[ROWS_MAX];
    struct ArrowArrayStream stream;
    pennon_merge_options o = options_of(w);
    for (size_t i = 0; i < n; i++) rows[i] = (struct row){.k = first + (int64_t)i, .v = v};
    set_modes(&o, PENNON_MATCHED_UPDATE, PENNON_NOT_MATCHED_INSERT, 0);
    o.conflict_retries = 100;
    o.retry_timeout_ms = 60000;
    make_stream(w, rows, n, 3, false, &stream);
    return pennon_dataset_merge(ds, &stream, &o, r, err);
}

/* A handle of an old version: rows that others changed are looked for again, and none of the stream is lost. */
static void test_dataset_merge__stale(void **state)
{
    struct scan_world *w = *state;
    static struct rows target, got;
    pennon_merge_result r = {.struct_size = sizeof r};
    target.n = 100;
    for (size_t i = 0; i < 100; i++) target.items[i] = (struct row){.k = (int64_t)i};
    pennon_dataset *ds = make_table(w, &target, 30, true), *other = open_again(w);
    scan_ok(w, upsert(w, other, 90, 20, 1, &r, &w->err));
    assert_int_equal(r.rows_updated, 10);
    scan_ok(w, upsert(w, ds, 80, 20, 2, &r, &w->err));
    assert_int_equal(r.attempts, 2);
    assert_int_equal(r.rows_updated, 20);
    assert_int_equal(r.rows_inserted, 0);
    scan_ok(w, upsert(w, other, 0, 5, 3, &r, &w->err)); /* other rows: no conflict */
    assert_int_equal(r.attempts, 1);
    read_table(w, other, NULL, &got, NULL);
    assert_int_equal(got.n, 110);
    for (size_t i = 0; i < got.n; i++) {
        const int64_t k = got.items[i].k;
        assert_int_equal(got.items[i].v, k < 5 ? 3 : k < 80 ? 0 : k < 100 ? 2 : 1);
    }
    verify(w, other);
    pennon_dataset_free(ds);
    pennon_dataset_free(other);
}

#define RACERS 4
#define TURNS 4

struct racer {
    struct scan_world *w;
    pennon_dataset *ds;
    int number;
    pennon_status st;
    char text[256];
};

/* Rows that all racers update, and rows of its own that are inserted and then updated; the last one appends. */
static void *race(void *ctx)
{
    struct racer *r = ctx;
    pennon_error err;
    pennon_error_init(&err);
    for (int turn = 0; turn < TURNS && r->st == PENNON_OK; turn++) {
        if (r->number + 1 < RACERS) {
            r->st = upsert(r->w, r->ds, 1000 * (r->number + 1), 10, turn, NULL, &err);
            if (r->st == PENNON_OK) r->st = upsert(r->w, r->ds, 5, 1, 100 * r->number + turn, NULL, &err);
        } else {
            const struct row row = {.k = 9000 + turn, .v = 1};
            struct ArrowArrayStream stream;
            pennon_write_options o;
            pennon_write_options_init(&o);
            o.call = &r->w->call;
            o.max_retries = 100;
            make_stream(r->w, &row, 1, 1, false, &stream);
            r->st = pennon_dataset_append(r->ds, &stream, &o, &err);
        }
    }
    if (r->st != PENNON_OK) (void)snprintf(r->text, sizeof r->text, "%s", err.message);
    pennon_error_clear(&err);
    return NULL;
}

static void test_dataset_merge__race(void **state)
{
    struct scan_world *w = *state;
    static struct rows target, got;
    struct racer racers[RACERS];
    pthread_t threads[RACERS];
    target.n = 50;
    for (size_t i = 0; i < 50; i++) target.items[i] = (struct row){.k = (int64_t)i};
    pennon_dataset *ds = make_table(w, &target, 20, true);
    for (int i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.w = w, .ds = i < 2 ? ds : open_again(w), .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < RACERS; i++) {
        pthread_join(threads[i], NULL);
        if (racers[i].st != PENNON_OK) fail_msg("racer %d: %s", i, racers[i].text);
        if (i >= 2) pennon_dataset_free(racers[i].ds);
    }
    scan_ok(w, pennon_dataset_refresh(ds, &w->call, &w->err));
    read_table(w, ds, NULL, &got, NULL);
    /* No row was lost, none is there twice. */
    assert_int_equal(got.n, 50 + 10 * (RACERS - 1) + TURNS);
    qsort(got.items, got.n, sizeof *got.items, compare_rows);
    for (size_t i = 0; i < got.n; i++) {
        const int64_t k = got.items[i].k;
        if (i > 0) assert_true(got.items[i - 1].k < k);
        if (k >= 1000 && k < 9000) assert_int_equal(got.items[i].v, TURNS - 1);
        if (k == 5) assert_int_equal(got.items[i].v % 100, TURNS - 1);
    }
    verify(w, ds);
    pennon_dataset_free(ds);
}

/* Files first, the commit later: by the transaction, with the rows that it takes away. */
static void test_dataset_merge__uncommitted(void **state)
{
    struct scan_world *w = *state;
    static struct rows target, got;
    struct row rows[8];
    struct ArrowArrayStream stream;
    pennon_merge_options o = options_of(w);
    pennon_merge_result r = {.struct_size = sizeof r};
    pennon_transaction *t;
    pennon_commit_options k;
    pennon_ids affected;
    uint64_t *ids = NULL;
    size_t n = 0;
    target.n = 40;
    for (size_t i = 0; i < 40; i++) target.items[i] = (struct row){.k = (int64_t)i};
    for (size_t i = 0; i < 8; i++) rows[i] = (struct row){.k = 36 + (int64_t)i, .v = 9};
    pennon_dataset *ds = make_table(w, &target, 25, false), *other = open_again(w);
    const uint64_t version = pennon_dataset_version(ds);
    set_modes(&o, PENNON_MATCHED_UPDATE, PENNON_NOT_MATCHED_INSERT, 0);
    make_stream(w, rows, 8, 8, false, &stream);
    scan_ok(w, pennon_dataset_merge_uncommitted(ds, &stream, &o, &r, &t, &ids, &n, &w->err));
    assert_int_equal(r.rows_updated + r.rows_inserted, 8);
    assert_int_equal(r.version, 0);
    assert_int_equal(n, 4);
    assert_int_equal(ids[0] & UINT32_MAX, 11);
    assert_int_equal(pennon_dataset_version(ds), version);
    assert_string_equal(pennon_transaction_operation(t), "Update");
    scan_ok(w, upsert(w, other, 30, 1, 5, NULL, &w->err)); /* another row of the same fragment */
    affected = (pennon_ids){n, ids};
    pennon_commit_options_init(&k);
    k.call = &w->call;
    k.affected_rows = &affected;
    scan_ok(w, pennon_dataset_commit(ds, t, &k, NULL, &w->err));
    read_table(w, ds, NULL, &got, NULL);
    assert_int_equal(got.n, 44);
    for (size_t i = 0; i < got.n; i++) assert_int_equal(got.items[i].v, got.items[i].k >= 36 ? 9 : got.items[i].k == 30 ? 5 : 0);
    verify(w, ds);
    pennon_bytes_free(ids);
    pennon_transaction_free(t);
    pennon_dataset_free(ds);
    pennon_dataset_free(other);
}

static void test_dataset_merge__explain(void **state)
{
    struct scan_world *w = *state;
    pennon_merge_options o = options_of(w);
    char *text;
    o.on = &id_names;
    set_modes(&o, PENNON_MATCHED_UPDATE, PENNON_NOT_MATCHED_INSERT, PENNON_BY_SOURCE_DELETE_IF);
    o.by_source_condition = "m < 5";
    scan_ok(w, pennon_dataset_merge_explain(w->ds, NULL, &o, false, &text, &w->err));
    assert_non_null(strstr(
        text, "MergeInsert: on=[id], when_matched=UpdateAll, when_not_matched=InsertAll, when_not_matched_by_source=DeleteIf("));
    assert_non_null(strstr(text, "HashJoinExec: mode=CollectLeft, join_type=Full, on=[(id, id)]"));
    assert_non_null(strstr(text, "projection=[id, m], num_fragments=4"));
    pennon_string_free(text);
    set_modes(&o, PENNON_MATCHED_DELETE, 0, 0);
    scan_ok(w, pennon_dataset_merge_explain(w->ds, NULL, &o, true, &text, &w->err));
    assert_non_null(strstr(text, "DeleteOnlyMergeInsert: on=[id], when_matched=Delete"));
    assert_non_null(strstr(text, "version="));
    pennon_string_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_dataset_merge__modes, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__modes_stable, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__first_seen, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__row_ids, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__all_columns, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__some_columns, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__some_columns_stable, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__chunks, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__chunks_stable, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__conditions, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__refused, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__passes, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__budgets, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__budgets_stable, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__cancel, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__progress, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__stale, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__race, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__uncommitted, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_merge__explain, scan_setup, scan_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
