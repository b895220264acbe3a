/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Deltas: which rows came, changed and went between two versions, by a model; ranges of versions and times; transactions; what is refused.
 *
 * Every version is remembered as a map of ids to values. */
#include "scan_world.h"

#define IDS 400
#define VERSIONS 40

/* What a version holds: m of each id, or ABSENT. */
#define ABSENT INT64_MIN
struct version {
    uint64_t number;
    int64_t m[IDS];
    uint64_t changed[IDS]; /* version that wrote it last */
    uint64_t created[IDS];
};

struct world {
    struct scan_world s;
    struct version versions[VERSIONS];
    size_t n;
    int64_t next;
};

#define URI "memory://delta/t"

static void remember(struct world *w)
{
    struct version *v = &w->versions[w->n++];
    assert_true(w->n <= VERSIONS);
    if (w->n > 1) *v = w->versions[w->n - 2];
    v->number = pennon_dataset_version(w->s.ds);
}

static void write_rows(struct world *w, int64_t n, bool stable)
{
    struct ArrowArrayStream rows;
    struct scan_world *s = &w->s;
    pennon_write_options o;
    pennon_write_options_init(&o);
    o.call = &s->call;
    o.mode = w->n ? PENNON_WRITE_APPEND : PENNON_WRITE_CREATE;
    o.max_rows_per_file = 50;
    o.stable_row_ids = stable;
    scan_make_rows(s, w->next, n, false, &rows);
    pennon_dataset *made = NULL;
    scan_ok(s, pennon_write(URI, &rows, &o, &made, &s->err));
    pennon_dataset_free(s->ds);
    s->ds = made;
    remember(w);
    struct version *v = &w->versions[w->n - 1];
    for (int64_t i = w->next; i < w->next + n; i++) {
        const bool null = scan_mixed(i, 7) % 11 == 0;
        v->m[i] = null ? -1 : (int64_t)(scan_mixed(i, 1) % 10000);
        v->created[i] = v->changed[i] = v->number;
    }
    w->next += n;
}

static void delete_some(struct world *w, int64_t each, int64_t rest)
{
    char where[64];
    pennon_mutation_options o;
    pennon_mutation_options_init(&o);
    o.call = &w->s.call;
    (void)snprintf(where, sizeof where, "id %% %lld = %lld", (long long)each, (long long)rest);
    scan_ok(&w->s, pennon_dataset_delete(w->s.ds, where, &o, NULL, &w->s.err));
    remember(w);
    for (int64_t i = 0; i < w->next; i++) {
        if (i % each == rest) w->versions[w->n - 1].m[i] = ABSENT;
    }
}

static void update_some(struct world *w, int64_t each, int64_t rest)
{
    char where[64], sql[32];
    const char *column = "m", *expression = sql;
    pennon_mutation_options o;
    pennon_mutation_options_init(&o);
    o.call = &w->s.call;
    (void)snprintf(where, sizeof where, "id %% %lld = %lld", (long long)each, (long long)rest);
    (void)snprintf(sql, sizeof sql, "%zu", w->n * 100000);
    scan_ok(&w->s, pennon_dataset_update(w->s.ds, where, 1, &column, &expression, &o, NULL, &w->s.err));
    const int64_t value = (int64_t)(w->n * 100000);
    remember(w);
    struct version *v = &w->versions[w->n - 1];
    for (int64_t i = 0; i < w->next; i++) {
        if (i % each != rest || v->m[i] == ABSENT) continue;
        v->m[i] = value;
        v->changed[i] = v->number;
    }
}

static int open_world(void **state, bool stable)
{
    struct world *w = calloc(1, sizeof *w);
    pennon_runtime_options runtime;
    assert_non_null(w);
    pennon_error_init(&w->s.err);
    pennon_runtime_options_init(&runtime);
    runtime.threads = 4;
    scan_ok(&w->s, pennon_runtime_new(&runtime, &w->s.runtime, &w->s.err));
    pennon_call_init(&w->s.call);
    w->s.call.runtime = w->s.runtime;
    w->s.mem = mem_new(NULL, UINT64_MAX, NULL, &w->s.err);
    assert_non_null(w->s.mem);
    for (size_t i = 0; i < IDS; i++) w->versions[0].m[i] = ABSENT;
    write_rows(w, 120, stable);
    *state = w;
    return 0;
}
static int setup(void **state)
{
    (void)open_world(state, true);
    struct world *w = *state;
    update_some(w, 5, 1);
    write_rows(w, 60, true);
    delete_some(w, 7, 3);
    update_some(w, 3, 0);
    delete_some(w, 9, 0);
    write_rows(w, 100, true);
    delete_some(w, 1, 0); /* all of them */
    write_rows(w, 70, true);
    update_some(w, 2, 0);
    return 0;
}
static int setup_plain(void **state) { return open_world(state, false); }

static int teardown(void **state)
{
    struct world *w = *state;
    pennon_dataset_free(w->s.ds);
    assert_int_equal(mem_used(w->s.mem), 0);
    mem_release(w->s.mem);
    pennon_runtime_free(w->s.runtime);
    pennon_error_clear(&w->s.err);
    free(w);
    return 0;
}

static pennon_delta_options options_of(struct world *w)
{
    pennon_delta_options o;
    pennon_delta_options_init(&o);
    o.call = &w->s.call;
    return o;
}

/* ---- rows against the model ---- */

/* Is row `i` one of the kind, with the handle at `now`? *m: the value that is given. */
static bool expected(const struct version *begin, const struct version *end, const struct version *now, int32_t kind, int64_t i,
                     int64_t *m)
{
    const uint64_t b = begin->number, e = end->number;
    if (kind == PENNON_DELTA_DELETED) {
        *m = begin->m[i];
        return begin->m[i] != ABSENT && end->m[i] == ABSENT;
    }
    *m = now->m[i];
    if (now->m[i] == ABSENT) return false;
    const bool inserted = now->created[i] > b && now->created[i] <= e;
    const bool updated = now->created[i] <= b && now->changed[i] > b && now->changed[i] <= e;
    return (inserted && kind != PENNON_DELTA_UPDATED) || (updated && kind != PENNON_DELTA_INSERTED);
}

static int64_t value_at(const struct ArrowArray *a, int64_t row)
{
    if (a->null_count && !bit_get(a->buffers[0], (uint64_t)(a->offset + row))) return -1;
    return ((const int64_t *)a->buffers[1])[a->offset + row];
}

/* Rows that the stream gives are those of the model, each once. The number of them. */
static uint64_t check_stream(struct world *w, struct ArrowArrayStream *stream, size_t b, size_t e, int32_t kind, int64_t below)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct scan_world *s = &w->s;
    const struct version *begin = &w->versions[b], *end = &w->versions[e], *now = &w->versions[w->n - 1];
    bool seen[IDS] = {false};
    uint64_t n = 0;
    scan_ok(s, stream_schema(stream, &schema, &s->err));
    assert_int_equal(schema.n_children, 7);
    assert_string_equal(schema.children[4]->name, "_rowid");
    for (;;) {
        scan_ok(s, stream_next(stream, &batch, &s->err));
        if (!batch.release) break;
        scan_ok(s, array_validate(&schema, &batch, ARRAY_VALIDATE_FULL, &s->err));
        for (int64_t k = 0; k < batch.length; k++, n++) {
            int64_t m = 0;
            const int64_t id = value_at(batch.children[0], k);
            assert_in_range(id, 0, IDS - 1);
            assert_false(seen[id]);
            seen[id] = true;
            assert_true(id < below && expected(begin, end, now, kind, id, &m));
            assert_int_equal(value_at(batch.children[1], k), m);
            const struct version *of = kind == PENNON_DELTA_DELETED ? begin : now;
            assert_int_equal(value_at(batch.children[5], k), of->created[id]);
            assert_int_equal(value_at(batch.children[6], k), of->changed[id]);
        }
        array_release(&batch);
    }
    for (int64_t i = 0; i < below; i++) {
        int64_t m = 0;
        assert_int_equal(seen[i], i < w->next && expected(begin, end, now, kind, i, &m));
    }
    arrow_schema_release(&schema);
    stream_release(stream);
    return n;
}

static void test_delta_rows__model(void **state)
{
    struct world *w = *state;
    struct ArrowArrayStream stream;
    uint64_t rows[4], total = 0;
    for (size_t b = 0; b < w->n; b++) {
        for (size_t e = b; e < w->n; e++) {
            pennon_delta_options o = options_of(w);
            pennon_delta_counts n = {.struct_size = sizeof n};
            o.begin_version = w->versions[b].number;
            o.end_version = w->versions[e].number;
            o.batch_rows = 7;
            for (int32_t kind = PENNON_DELTA_INSERTED; kind <= PENNON_DELTA_DELETED; kind++) {
                scan_ok(&w->s, pennon_dataset_delta(w->s.ds, kind, &o, &stream, &w->s.err));
                rows[kind] = check_stream(w, &stream, b, e, kind, IDS);
                total += rows[kind];
            }
            assert_int_equal(rows[PENNON_DELTA_UPSERTED], rows[PENNON_DELTA_INSERTED] + rows[PENNON_DELTA_UPDATED]);
            scan_ok(&w->s, pennon_dataset_delta_counts(w->s.ds, &o, &n, &w->s.err));
            assert_int_equal(n.inserted, rows[PENNON_DELTA_INSERTED]);
            assert_int_equal(n.updated, rows[PENNON_DELTA_UPDATED]);
            assert_int_equal(n.deleted, rows[PENNON_DELTA_DELETED]);
            assert_int_equal(n.begin, o.begin_version);
        }
    }
    assert_true(total > 1000);
}

static void test_delta_rows__filter(void **state)
{
    struct world *w = *state;
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    pennon_delta_options o = options_of(w);
    static const char *const one[] = {"_rowid", "m"};
    const pennon_names columns = {2, one};
    o.begin_version = w->versions[1].number;
    o.end_version = w->versions[6].number;
    o.filter = "id < 100 -- or id > 0";
    for (int32_t kind = PENNON_DELTA_INSERTED; kind <= PENNON_DELTA_DELETED; kind++) {
        const pennon_status st = pennon_dataset_delta(w->s.ds, kind, &o, &stream, &w->s.err);
        if (st == PENNON_INVALID_ARGUMENT) { /* no comments in the language: the same without */
            pennon_error_clear(&w->s.err);
            o.filter = "id < 100";
            kind--;
            continue;
        }
        scan_ok(&w->s, st);
        (void)check_stream(w, &stream, 1, 6, kind, 100);
    }
    o.filter = "id < 0) OR (id > 0";
    scan_fails(&w->s, pennon_dataset_delta(w->s.ds, 0, &o, &stream, &w->s.err), PENNON_INVALID_ARGUMENT, "");
    o.filter = NULL;
    o.columns = &columns;
    for (int32_t kind = PENNON_DELTA_INSERTED; kind <= PENNON_DELTA_DELETED; kind += 3) {
        scan_ok(&w->s, pennon_dataset_delta(w->s.ds, kind, &o, &stream, &w->s.err));
        scan_ok(&w->s, stream_schema(&stream, &schema, &w->s.err));
        assert_int_equal(schema.n_children, 4);
        assert_string_equal(schema.children[0]->name, "_rowid");
        assert_string_equal(schema.children[3]->name, "_row_last_updated_at_version");
        arrow_schema_release(&schema);
        stream_release(&stream);
    }
}

/* ---- ranges ---- */

static void test_delta_range__forms(void **state)
{
    struct world *w = *state;
    uint64_t begin, end;
    const uint64_t last = w->versions[w->n - 1].number;
    static const struct {
        uint64_t against, begin, end;
        int64_t from, to;
        const char *message;
    } bad[] = {
        {PENNON_NONE, PENNON_NONE, PENNON_NONE, INT64_MIN, INT64_MIN, "Must specify either compared_against_version or both"},
        {PENNON_NONE, 1, PENNON_NONE, INT64_MIN, INT64_MIN, "Must specify both with_begin_version and with_end_version"},
        {PENNON_NONE, PENNON_NONE, 1, INT64_MIN, INT64_MIN, "Must specify both with_begin_version and with_end_version"},
        {1, 1, 2, INT64_MIN, INT64_MIN, "Cannot combine"},
        {1, PENNON_NONE, PENNON_NONE, 5, INT64_MIN, "Cannot combine"},
        {PENNON_NONE, 1, 2, 5, 6, "versions or dates"},
        {PENNON_NONE, PENNON_NONE, PENNON_NONE, INT64_MIN, 6, "Must specify with_begin_date"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        pennon_delta_options o = options_of(w);
        o.compared_against = bad[i].against;
        o.begin_version = bad[i].begin;
        o.end_version = bad[i].end;
        o.begin_ns = bad[i].from;
        o.end_ns = bad[i].to;
        scan_fails(&w->s, pennon_dataset_delta_range(w->s.ds, &o, &begin, &end, &w->s.err), PENNON_INVALID_ARGUMENT,
                   bad[i].message);
    }
    pennon_delta_options o = options_of(w);
    o.compared_against = 3;
    scan_ok(&w->s, pennon_dataset_delta_range(w->s.ds, &o, &begin, &end, &w->s.err));
    assert_true(begin == 3 && end == last);
    o.compared_against = last + 5;
    scan_ok(&w->s, pennon_dataset_delta_range(w->s.ds, &o, &begin, &end, &w->s.err));
    assert_true(begin == last && end == last + 5);
}

static int64_t time_of(struct world *w, uint64_t version)
{
    pennon_dataset *ds;
    struct snapshot *s;
    pennon_open_options o;
    pennon_open_options_init(&o);
    o.call = &w->s.call;
    o.version = version;
    scan_ok(&w->s, pennon_dataset_open(URI, &o, &ds, &w->s.err));
    dataset_get(ds, &s, NULL);
    const int64_t ns = s->timestamp_ns;
    snapshot_release(s);
    pennon_dataset_free(ds);
    return ns;
}

static void test_delta_range__times(void **state)
{
    struct world *w = *state;
    const uint64_t last = w->versions[w->n - 1].number;
    for (uint64_t b = 1; b <= last; b++) {
        uint64_t begin, end;
        pennon_delta_options o = options_of(w);
        o.begin_ns = time_of(w, b);
        scan_ok(&w->s, pennon_dataset_delta_range(w->s.ds, &o, &begin, &end, &w->s.err));
        assert_int_equal(end, last);
        assert_true(begin < b); /* strictly before; versions may share a time */
        assert_true(begin == 0 || time_of(w, begin) < o.begin_ns);
        o.end_ns = o.begin_ns;
        scan_ok(&w->s, pennon_dataset_delta_range(w->s.ds, &o, &begin, &end, &w->s.err));
        assert_true(end >= b && time_of(w, end) <= o.end_ns);
        o.begin_ns++;
        scan_ok(&w->s, pennon_dataset_delta_range(w->s.ds, &o, &begin, &end, &w->s.err));
        assert_true(begin >= b);
    }
    uint64_t begin, end;
    pennon_delta_options o = options_of(w);
    o.begin_ns = 0;
    o.end_ns = 1;
    scan_ok(&w->s, pennon_dataset_delta_range(w->s.ds, &o, &begin, &end, &w->s.err));
    assert_true(begin == 0 && end == 0);
}

/* ---- transactions, and what is refused ---- */

static void test_delta_transactions__list(void **state)
{
    struct world *w = *state;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    pennon_delta_options o = options_of(w);
    o.begin_version = 2;
    o.end_version = 5;
    scan_ok(&w->s, pennon_dataset_delta_transactions(w->s.ds, &o, &stream, &w->s.err));
    scan_ok(&w->s, stream_next(&stream, &batch, &w->s.err));
    assert_int_equal(batch.length, 3);
    for (int64_t i = 0; i < 3; i++) {
        assert_int_equal(value_at(batch.children[0], i), 3 + i);
        assert_int_equal(value_at(batch.children[1], i), 2 + i);
    }
    const int32_t *ends = batch.children[2]->buffers[1];
    assert_int_equal(ends[3], strlen("AppendDeleteUpdate"));
    assert_memory_equal(batch.children[2]->buffers[2], "AppendDeleteUpdate", (size_t)ends[3]);
    array_release(&batch);
    stream_release(&stream);
    o.end_version = 99;
    scan_fails(&w->s, pennon_dataset_delta_transactions(w->s.ds, &o, &stream, &w->s.err), PENNON_NOT_FOUND,
               "Can not find version 11");
    scan_fails(&w->s, pennon_dataset_delta(w->s.ds, PENNON_DELTA_DELETED, &o, &stream, &w->s.err), PENNON_NOT_FOUND,
               "Can not find version 99");
    scan_fails(&w->s, pennon_dataset_delta(w->s.ds, 4, &o, &stream, &w->s.err), PENNON_INVALID_ARGUMENT, "kind 4");
}

static void test_delta_rows__plain_ids(void **state)
{
    struct world *w = *state;
    struct ArrowArrayStream stream;
    pennon_delta_options o = options_of(w);
    o.compared_against = 1;
    for (int32_t kind = PENNON_DELTA_INSERTED; kind <= PENNON_DELTA_DELETED; kind++)
        scan_fails(&w->s, pennon_dataset_delta(w->s.ds, kind, &o, &stream, &w->s.err), PENNON_NOT_SUPPORTED,
                   "without stable row ids");
    scan_ok(&w->s, pennon_dataset_delta_transactions(w->s.ds, &o, &stream, &w->s.err));
    stream_release(&stream);
}

static void test_delta_rows__budget_and_cancel(void **state)
{
    struct world *w = *state;
    struct ArrowArrayStream stream = {0};
    struct ArrowArray batch;
    pennon_call call = w->s.call;
    for (int32_t kind = PENNON_DELTA_INSERTED; kind <= PENNON_DELTA_DELETED; kind += 3) {
        pennon_delta_options o = options_of(w);
        o.begin_version = 1;
        o.end_version = w->versions[w->n - 1].number;
        o.call = &call;
        scan_ok(&w->s, pennon_cancel_new(&call.cancel, &w->s.err));
        scan_ok(&w->s, pennon_dataset_delta(w->s.ds, kind, &o, &stream, &w->s.err));
        pennon_cancel_fire(call.cancel);
        assert_int_equal(stream_next(&stream, &batch, &w->s.err), PENNON_CANCELLED);
        pennon_error_clear(&w->s.err);
        stream_release(&stream);
        assert_int_equal(pennon_dataset_delta(w->s.ds, PENNON_DELTA_DELETED, &o, &stream, &w->s.err), PENNON_CANCELLED);
        pennon_error_clear(&w->s.err);
        pennon_cancel_free(call.cancel);
        call.cancel = NULL;
        scan_ok(&w->s, pennon_budget_new(w->s.runtime, 2000, &call.budget, &w->s.err));
        pennon_status st = pennon_dataset_delta(w->s.ds, kind, &o, &stream, &w->s.err);
        if (st == PENNON_OK) {
            st = stream_next(&stream, &batch, &w->s.err);
            stream_release(&stream);
        }
        assert_int_equal(st, PENNON_OVER_BUDGET);
        pennon_error_clear(&w->s.err);
        pennon_budget_free(call.budget);
        call.budget = NULL;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_delta_rows__model, setup, teardown),
        cmocka_unit_test_setup_teardown(test_delta_rows__filter, setup, teardown),
        cmocka_unit_test_setup_teardown(test_delta_range__forms, setup, teardown),
        cmocka_unit_test_setup_teardown(test_delta_range__times, setup, teardown),
        cmocka_unit_test_setup_teardown(test_delta_transactions__list, setup, teardown),
        cmocka_unit_test_setup_teardown(test_delta_rows__plain_ids, setup_plain, teardown),
        cmocka_unit_test_setup_teardown(test_delta_rows__budget_and_cancel, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
