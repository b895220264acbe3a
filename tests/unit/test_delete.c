/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Deletes by a filter: which rows go, what the new version is made of, and what happens beside other writers. */
#include <pthread.h>

#include "dataset/transaction_handle.h"
#include "scan_world.h"

static pennon_mutation_options options_of(struct scan_world *w)
{
    pennon_mutation_options o;
    pennon_mutation_options_init(&o);
    o.call = &w->call;
    return o;
}

static pennon_delete_result delete_rows(struct scan_world *w, pennon_dataset *ds, const char *where)
{
    pennon_mutation_options o = options_of(w);
    pennon_delete_result r = {.struct_size = sizeof r};
    scan_ok(w, pennon_dataset_delete(ds, where, &o, &r, &w->err));
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

static size_t files_of(struct scan_world *w)
{
    struct snapshot *s;
    struct call c;
    size_t n = 0;
    dataset_get(w->ds, &s, NULL);
    scan_ok(w, call_begin(&c, &w->call, &w->err));
    scan_ok(w, store_list(&c, s->at.store, "scan/t/_deletions", true, count_file, &n, &w->err));
    call_end(&c);
    snapshot_release(s);
    return n;
}

/* ---- which rows go ---- */

static void test_dataset_delete__rows(void **state)
{
    struct scan_world *w = *state;
    const uint64_t before = count(w, w->ds, NULL), match = count(w, w->ds, "m < 3000"), null = count(w, w->ds, "m IS NULL");
    assert_true(match > 0 && null > 0);
    const pennon_delete_result r = delete_rows(w, w->ds, "m < 3000");
    assert_int_equal(r.rows_deleted, match);
    assert_int_equal(r.fragments_changed, 4);
    assert_int_equal(r.fragments_removed, 0);
    assert_int_equal(r.attempts, 1);
    assert_int_equal(count(w, w->ds, NULL), before - match);
    assert_int_equal(count(w, w->ds, "m < 3000"), 0);
    assert_int_equal(count(w, w->ds, "m IS NULL"), null);
    /* The rows that stay are the same, in the same order. */
    pennon_scan_options o = scan_options(w);
    o.columns = &scan_names;
    size_t n = 0;
    uint64_t *stay = malloc(((size_t)w->all.length + 1) * sizeof *stay);
    assert_non_null(stay);
    for (int64_t i = 0; i < w->all.length; i++) {
        if (!scan_m_below(&w->all, i, 3000)) stay[n++] = (uint64_t)i;
    }
    static const char *const names[] = {"id", "_rowid", "_rowaddr"};
    static const int of_all[] = {SCAN_ID, SCAN_ROWID, SCAN_ROWADDR};
    const pennon_names columns = {3, names};
    struct ArrowSchema schema;
    struct ArrowArray rows;
    o.columns = &columns;
    scan_rows(w, &o, &schema, &rows);
    assert_int_equal(rows.length, n);
    for (int k = 0; k < 3; k++) {
        const struct ArrowArray *a = rows.children[k], *b = w->all.children[of_all[k]];
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(((const uint64_t *)a->buffers[1])[(size_t)a->offset + i],
                             ((const uint64_t *)b->buffers[1])[(size_t)b->offset + stay[i]]);
        }
    }
    array_release(&rows);
    arrow_schema_release(&schema);
    free(stay);
    verify(w, w->ds);
}

static void test_dataset_delete__whole_fragments(void **state)
{
    struct scan_world *w = *state;
    const uint64_t match = count(w, w->ds, "id < 12000 OR id = 13000");
    const pennon_delete_result r = delete_rows(w, w->ds, "id < 12000 OR id = 13000");
    assert_int_equal(r.rows_deleted, match);
    assert_int_equal(r.fragments_removed, 2); /* the second one had deletions already */
    assert_int_equal(r.fragments_changed, 1);
    assert_int_equal(count(w, w->ds, "id < 12000"), 0);
    verify(w, w->ds);
}

static void test_dataset_delete__all_and_none(void **state)
{
    struct scan_world *w = *state;
    const uint64_t rows = count(w, w->ds, NULL), version = pennon_dataset_version(w->ds);
    pennon_delete_result r = delete_rows(w, w->ds, "id < 0");
    assert_int_equal(r.rows_deleted + r.fragments_changed + r.fragments_removed, 0);
    assert_int_equal(r.version, version + 1);
    r = delete_rows(w, w->ds, "1 = 0");
    assert_int_equal(r.rows_deleted, 0);
    r = delete_rows(w, w->ds, "m > NULL");
    assert_int_equal(r.rows_deleted, 0);
    assert_int_equal(count(w, w->ds, NULL), rows);
    const size_t files = files_of(w);
    r = delete_rows(w, w->ds, "true");
    assert_int_equal(r.rows_deleted, rows);
    assert_int_equal(r.fragments_removed, 4);
    assert_int_equal(r.fragments_changed, 0);
    assert_int_equal(files_of(w), files);
    assert_int_equal(count(w, w->ds, NULL), 0);
    r = delete_rows(w, w->ds, "true");
    assert_int_equal(r.rows_deleted, 0);
    verify(w, w->ds);
}

static void test_dataset_delete__system_columns(void **state)
{
    struct scan_world *w = *state;
    const pennon_delete_result r = delete_rows(w, w->ds, "_rowaddr IN (1, 5, 7) OR _rowoffset = 3");
    assert_int_equal(r.rows_deleted, 4);
    assert_int_equal(count(w, w->ds, "id IN (1, 3, 5, 7)"), 0);
}

/* ---- what is refused ---- */

static void test_dataset_delete__refused(void **state)
{
    struct scan_world *w = *state;
    const pennon_mutation_options o = options_of(w);
    const uint64_t version = pennon_dataset_version(w->ds);
    const size_t files = files_of(w);
    scan_fails(w, pennon_dataset_delete(w->ds, NULL, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "needs a predicate");
    scan_fails(w, pennon_dataset_delete(w->ds, "", &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "needs a predicate");
    scan_fails(w, pennon_dataset_delete(w->ds, "idd = 3", &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "'id'");
    scan_fails(w, pennon_dataset_delete(w->ds, "id", &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "");
    scan_fails(w, pennon_dataset_delete(w->ds, "id =", &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "");
    scan_fails(w, pennon_dataset_delete(NULL, "true", &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "dataset");
    /* A value that cannot be computed comes late: what was written by then goes away again. */
    scan_fails(w, pennon_dataset_delete(w->ds, "id = 3 OR 1 / (id - 17000) > 5", &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "");
    assert_int_equal(files_of(w), files);
    assert_int_equal(pennon_dataset_version(w->ds), version);
}

/* ---- beside other writers ---- */

static void test_dataset_delete__rebased(void **state)
{
    struct scan_world *w = *state;
    pennon_dataset *other = open_again(w);
    const uint64_t before = count(w, w->ds, NULL);
    (void)delete_rows(w, other, "id = 100");
    scan_write(w, SCAN_ROWS, 5, false, false);
    /* The same fragment, other rows: put on top without a new attempt. */
    const pennon_delete_result r = delete_rows(w, w->ds, "id = 200 OR id = 3");
    assert_int_equal(r.rows_deleted, 2);
    assert_int_equal(r.attempts, 1);
    assert_int_equal(count(w, w->ds, NULL), before + 5 - 3);
    assert_int_equal(count(w, w->ds, "id IN (3, 100, 200)"), 0);
    pennon_dataset_free(other);
    verify(w, w->ds);
}

static void test_dataset_delete__again_after_overlap(void **state)
{
    struct scan_world *w = *state;
    pennon_dataset *other = open_again(w);
    (void)delete_rows(w, other, "id = 100 OR id = 101");
    scan_write(w, SCAN_ROWS, 5, false, false);
    const pennon_delete_result r = delete_rows(w, w->ds, "id IN (101, 102) OR id >= 21000");
    assert_int_equal(r.attempts, 2);
    assert_int_equal(r.rows_deleted, 6); /* 101 was gone by then, and five rows had come */
    assert_int_equal(r.fragments_removed, 1);
    pennon_dataset_free(other);
    verify(w, w->ds);
}

static void test_dataset_delete__retries_used_up(void **state)
{
    struct scan_world *w = *state;
    pennon_dataset *other = open_again(w);
    pennon_mutation_options o = options_of(w);
    const uint64_t version = pennon_dataset_version(w->ds);
    (void)delete_rows(w, other, "id = 100");
    const size_t files = files_of(w);
    o.conflict_retries = 0;
    assert_int_equal(pennon_dataset_delete(w->ds, "id = 100", &o, NULL, &w->err), PENNON_CONFLICT);
    assert_string_equal(w->err.kind, "TooMuchWriteContention");
    o.conflict_retries = 10;
    o.retry_timeout_ms = 0;
    assert_int_equal(pennon_dataset_delete(w->ds, "id = 100", &o, NULL, &w->err), PENNON_CONFLICT);
    assert_string_equal(w->err.kind, "TooMuchWriteContention");
    pennon_error_clear(&w->err);
    assert_int_equal(pennon_dataset_version(w->ds), version);
    assert_int_equal(files_of(w), files);
    pennon_dataset_free(other);
}

static void test_dataset_delete__over_all_rows(void **state)
{
    struct scan_world *w = *state;
    pennon_dataset *other = open_again(w);
    (void)delete_rows(w, other, "true");
    /* All fragments are gone: the second attempt finds no row. */
    const pennon_delete_result r = delete_rows(w, w->ds, "id < 9");
    assert_int_equal(r.attempts, 2);
    assert_int_equal(r.rows_deleted, 0);
    pennon_dataset_free(other);
}

/* The rows of the second fragment, without its deleted ones, in a new fragment. */
static void rewrite_second(struct scan_world *w, pennon_dataset *ds)
{
    struct snapshot *s, *made;
    struct call c;
    struct transaction *t;
    struct ArrowArrayStream rows;
    pennon_transaction *new;
    pennon_scan_options o = scan_options(w);
    pennon_commit_options k;
    pennon_write_options write;
    const uint64_t id = 1;
    const pennon_ids one = {1, &id};
    o.fragments = &one;
    pennon_write_options_init(&write);
    write.call = &w->call;
    write.mode = PENNON_WRITE_APPEND;
    pennon_commit_options_init(&k);
    scan_ok(w, pennon_scan(ds, &o, &rows, &w->err));
    scan_ok(w, pennon_write_fragments(SCAN_URI, &rows, &write, &new, &w->err));
    scan_ok(w, call_begin(&c, &w->call, &w->err));
    dataset_get(ds, &s, NULL);
    scan_ok(w, snapshot_load_fragments(s, &w->err));
    struct fragment_message old = *s->fragments[1].message;
    struct rewrite_group_message group = {.old_fragments = &old, .n_old_fragments = 1};
    group.new_fragments = new->t->op.append.fragments;
    group.n_new_fragments = new->t->op.append.n_fragments;
    scan_ok(w, transaction_new(w->mem, OPERATION_REWRITE, s->version, &t, &w->err));
    t->op.rewrite = (struct rewrite_message){.groups = &group, .n_groups = 1};
    scan_ok(w, commit_on(&c, &s->at, s, t, &k, &made, &w->err));
    snapshot_release(made);
    snapshot_release(s);
    transaction_free(t);
    pennon_transaction_free(new);
    call_end(&c);
}

static void test_dataset_delete__over_a_rewrite(void **state)
{
    struct scan_world *w = *state;
    pennon_dataset *other = open_again(w);
    const uint64_t before = count(w, w->ds, NULL), match = count(w, w->ds, "id BETWEEN 7000 AND 7100");
    rewrite_second(w, other);
    /* A fragment that is not rewritten: no new attempt. */
    pennon_delete_result r = delete_rows(w, w->ds, "id = 3");
    assert_int_equal(r.attempts, 1);
    assert_int_equal(r.rows_deleted, 1);
    r = delete_rows(w, other, "id BETWEEN 7000 AND 7100");
    assert_int_equal(r.attempts, 2);
    assert_int_equal(r.rows_deleted, match);
    assert_int_equal(count(w, other, NULL), before - match - 1);
    pennon_dataset_free(other);
}

/* ---- memory ---- */

/* With any budget the call works, or fails and leaves nothing behind. */
static void test_dataset_delete__budgets(void **state)
{
    struct scan_world *w = *state;
    const uint64_t version = pennon_dataset_version(w->ds), before = count(w, w->ds, NULL);
    const size_t files = files_of(w);
    pennon_status st = PENNON_OVER_BUDGET;
    size_t failures = 0;
    for (uint64_t bytes = 1 << 12; st != PENNON_OK; bytes += bytes / 2, failures++) {
        pennon_budget *budget;
        pennon_call call = w->call;
        pennon_mutation_options o = options_of(w);
        scan_ok(w, pennon_budget_new(w->runtime, bytes, &budget, &w->err));
        call.budget = budget;
        call.threads = 1;
        o.call = &call;
        st = pennon_dataset_delete(w->ds, "id % 3 = 1 OR s LIKE '%9%'", &o, NULL, &w->err);
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

#define RACERS 6
#define TURNS 4

struct racer {
    struct scan_world *w;
    pennon_dataset *ds; /* of its own, or the one of all */
    int number;
    uint64_t deleted;
    pennon_status st;
    char text[256];
};

/* Turn k deletes the ids that are k modulo 97 in the rows that are `number` modulo 3: overlapping with one other racer, disjoint with the rest. */
static void *race(void *ctx)
{
    struct racer *r = ctx;
    pennon_error err;
    pennon_error_init(&err);
    for (int turn = 0; turn < TURNS && r->st == PENNON_OK; turn++) {
        char where[64];
        pennon_mutation_options o = options_of(r->w);
        pennon_delete_result result = {.struct_size = sizeof result};
        o.conflict_retries = 100;
        o.retry_timeout_ms = 60000;
        (void)snprintf(where, sizeof where, "id %% 97 = %d AND id %% 3 = %d", turn, r->number % 3);
        r->st = pennon_dataset_delete(r->ds, where, &o, &result, &err);
        r->deleted += result.rows_deleted;
    }
    if (r->st != PENNON_OK) (void)snprintf(r->text, sizeof r->text, "%s", err.message);
    pennon_error_clear(&err);
    return NULL;
}

static void test_dataset_delete__race(void **state)
{
    struct scan_world *w = *state;
    struct racer racers[RACERS];
    pthread_t threads[RACERS];
    uint64_t deleted = 0;
    const uint64_t before = count(w, w->ds, NULL), match = count(w, w->ds, "id % 97 < 4");
    const uint64_t version = pennon_dataset_version(w->ds);
    for (int i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.w = w, .ds = i < 3 ? w->ds : open_again(w), .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < RACERS; i++) {
        pthread_join(threads[i], NULL);
        if (racers[i].st != PENNON_OK) fail_msg("racer %d: %s", i, racers[i].text);
        deleted += racers[i].deleted;
        if (i >= 3) pennon_dataset_free(racers[i].ds);
    }
    /* Every row was deleted by one of them, and by one alone. */
    assert_int_equal(deleted, match);
    scan_ok(w, pennon_dataset_refresh(w->ds, &w->call, &w->err));
    assert_int_equal(pennon_dataset_version(w->ds), version + RACERS * TURNS);
    assert_int_equal(count(w, w->ds, NULL), before - match);
    verify(w, w->ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_dataset_delete__rows, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_delete__whole_fragments, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_delete__all_and_none, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_delete__system_columns, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_delete__refused, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_delete__rebased, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_delete__again_after_overlap, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_delete__retries_used_up, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_delete__over_all_rows, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_delete__over_a_rewrite, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_delete__budgets, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_delete__race, scan_setup, scan_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
