/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Compactions: which rows and row ids are there afterwards, what is refused, and what happens beside other writers. */
#include <pthread.h>

#include "compact_world.h"
#include "pennon/compaction.h"

static pennon_compaction_options options_of(struct scan_world *w, uint64_t target)
{
    pennon_compaction_options o;
    pennon_compaction_options_init(&o);
    o.call = &w->call;
    o.set = PENNON_COMPACT_SET_TARGET_ROWS;
    o.target_rows_per_fragment = target;
    return o;
}

static pennon_compaction_metrics compact_to(struct scan_world *w, pennon_dataset *ds, uint64_t target)
{
    pennon_compaction_options o = options_of(w, target);
    pennon_compaction_metrics m = {.struct_size = sizeof m};
    scan_ok(w, pennon_dataset_compact(ds, &o, &m, &w->err));
    assert_int_equal(m.version, pennon_dataset_version(ds));
    return m;
}

/* ---- rows ---- */

static void run_rows(struct scan_world *w, bool stable)
{
    const uint64_t version = pennon_dataset_version(w->ds);
    const pennon_compaction_metrics m = compact_to(w, w->ds, 8000);
    assert_int_equal(m.version, version + 2);
    assert_int_equal(m.fragments_removed, 4);
    assert_int_equal(m.fragments_added, 4);
    assert_int_equal(m.files_removed, 6);
    assert_int_equal(m.files_added, 4);
    world_same_rows(w, stable);
    world_verify(w, w->ds);
    /* A fragment that is large enough stays. */
    const pennon_compaction_metrics again = compact_to(w, w->ds, 3000);
    assert_int_equal(again.fragments_removed, 0);
    assert_int_equal(again.version, version + 2);
}

static void test_dataset_compact__rows(void **state) { run_rows(*state, false); }
static void test_dataset_compact__stable_rows(void **state) { run_rows(*state, true); }

static void test_dataset_compact__copied(void **state)
{
    struct scan_world *w = *state;
    pennon_compaction_options o = options_of(w, 1000000);
    o.set |= PENNON_COMPACT_SET_MODE;
    o.compaction_mode = PENNON_COMPACT_FORCE_BINARY_COPY;
    scan_fails(w, pennon_dataset_compact(w->ds, &o, NULL, &w->err), PENNON_NOT_SUPPORTED, "rows are deleted");
    o.compaction_mode = PENNON_COMPACT_TRY_BINARY_COPY;
    scan_ok(w, pennon_dataset_compact(w->ds, &o, NULL, &w->err));
    world_same_rows(w, true);
    scan_write(w, SCAN_ROWS, 500, false, true);
    scan_ok(w, pennon_dataset_refresh(w->ds, &w->call, &w->err));
    o.compaction_mode = PENNON_COMPACT_FORCE_BINARY_COPY;
    scan_fails(w, pennon_dataset_compact(w->ds, &o, NULL, &w->err), PENNON_NOT_SUPPORTED, "a column is missing");
    world_verify(w, w->ds);
}

/* A fragment of deleted rows alone goes, and no other comes. */
static void test_dataset_compact__all_deleted(void **state)
{
    struct scan_world *w = *state;
    (void)world_delete(w, w->ds, "id < 5999");
    const uint64_t rows = world_count(w, w->ds, NULL);
    (void)compact_to(w, w->ds, 6000);
    assert_int_equal(world_count(w, w->ds, NULL), rows);
    world_verify(w, w->ds);
}

/* ---- settings ---- */

static void set_config(struct scan_world *w, const char *key, const char *value)
{
    const pennon_pairs pairs = {1, &key, &value};
    const pennon_metadata_update update = {.which = PENNON_METADATA_CONFIG, .pairs = &pairs};
    pennon_commit_options o;
    pennon_commit_options_init(&o);
    o.call = &w->call;
    scan_ok(w, pennon_dataset_update_metadata(w->ds, 1, &update, &o, &w->err));
}

static char *plan_of(struct scan_world *w, const pennon_compaction_options *o)
{
    char *text = NULL;
    scan_ok(w, pennon_dataset_compact_plan_json(w->ds, o, &text, &w->err));
    return text;
}

static void test_dataset_compact__config(void **state)
{
    struct scan_world *w = *state;
    pennon_compaction_options o = options_of(w, 77);
    set_config(w, "lance.compaction.max_bytes_per_file", "+123");
    set_config(w, "lance.compaction.materialize_deletions", "FALSE");
    set_config(w, "lance.compaction.materialize_deletions_threshold", ".5");
    set_config(w, "lance.compaction.compaction_mode", "Try_Binary_Copy");
    set_config(w, "lance.compaction.target_rows_per_fragment", "55");
    set_config(w, "lance.compaction.of_a_newer_release", "?");
    char *text = plan_of(w, &o);
    assert_non_null(strstr(text, "\"target_rows_per_fragment\":77,\"max_rows_per_group\":1024,\"max_bytes_per_file\":123,"
                                 "\"materialize_deletions\":false,\"materialize_deletions_threshold\":0.5,"));
    assert_non_null(strstr(text, "\"compaction_mode\":\"TryBinaryCopy\""));
    pennon_string_free(text);
    set_config(w, "lance.compaction.batch_size", "many");
    scan_fails(w, pennon_dataset_compact(w->ds, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "lance.compaction.batch_size: 'many'");
    set_config(w, "lance.compaction.batch_size", "100");
    set_config(w, "lance.compaction.compaction_mode", "copy");
    scan_fails(w, pennon_dataset_compact(w->ds, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "compaction_mode");
    o.compaction_mode = 9;
    scan_fails(w, pennon_dataset_compact(w->ds, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "compaction_mode 9");
}

static void test_dataset_compact__refused(void **state)
{
    struct scan_world *w = *state;
    char *text = NULL;
    pennon_compaction_options o = options_of(w, 1000000);
    o.set |= PENNON_COMPACT_SET_DEFER_INDEX_REMAP;
    o.defer_index_remap = true;
    scan_fails(w, pennon_dataset_compact(w->ds, &o, NULL, &w->err), PENNON_NOT_SUPPORTED, "stable row ids");
    scan_fails(w, pennon_dataset_compact(NULL, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "dataset is NULL");
    scan_fails(w, pennon_compact_execute_json(w->ds, "{}", NULL, &text, &w->err), PENNON_INVALID_ARGUMENT, "missing field `task`");
    scan_fails(w, pennon_compact_execute_json(w->ds, "nope", NULL, &text, &w->err), PENNON_INVALID_ARGUMENT, "no JSON");
    scan_fails(w, pennon_dataset_compact_commit_json(w->ds, "{}", NULL, NULL, &w->err), PENNON_INVALID_ARGUMENT, "no array");
    scan_fails(w, pennon_dataset_compact_commit_json(w->ds, "[3]", NULL, NULL, &w->err), PENNON_INVALID_ARGUMENT, "results[0]");
    scan_fails(w, pennon_compact_text(7, "{}", &text, &w->err), PENNON_INVALID_ARGUMENT, "kind 7");
}

/* ---- in parts ---- */

/* The task at place `i` of a plan, out of its text. */
static char *task_of(const char *plan, size_t i)
{
    const char *at = strstr(plan, "{\"fragments\":"), *rest = strstr(plan, "],\"read_version\":");
    while (rest && strstr(rest + 1, "],\"read_version\":")) rest = strstr(rest + 1, "],\"read_version\":");
    for (size_t k = 0; k < i; k++) at = strstr(at + 1, "{\"fragments\":");
    const char *next = strstr(at + 1, ",{\"fragments\":"), *end = next ? next : rest;
    const size_t room = strlen(plan) + 32;
    char *out = malloc(room);
    assert_non_null(out);
    (void)snprintf(out, room, "{\"task\":%.*s%s", (int)(end - at), at, rest + 1);
    return out;
}

static char *execute(struct scan_world *w, const char *task)
{
    char *text = NULL;
    pennon_compaction_options o = options_of(w, 1);
    scan_ok(w, pennon_compact_execute_json(w->ds, task, &o, &text, &w->err));
    return text;
}

static void run_parts(struct scan_world *w, bool stable)
{
    pennon_compaction_options o = options_of(w, 6500);
    pennon_compaction_metrics m = {.struct_size = sizeof m};
    char *plan = plan_of(w, &o), *results[2], *both;
    for (size_t i = 0; i < 2; i++) {
        char *task = task_of(plan, i), *again = NULL;
        scan_ok(w, pennon_compact_text(PENNON_COMPACT_TEXT_TASK, task, &again, &w->err));
        assert_string_equal(task, again);
        results[i] = execute(w, task);
        pennon_string_free(again);
        free(task);
        scan_ok(w, pennon_compact_text(PENNON_COMPACT_TEXT_RESULT, results[i], &again, &w->err));
        assert_string_equal(results[i], again);
        pennon_string_free(again);
    }
    /* Given in the wrong order: rows keep theirs. */
    const size_t room = 2 * (strlen(results[0]) + strlen(results[1])) + 8;
    both = malloc(room);
    assert_non_null(both);
    (void)snprintf(both, room, "[%s,%s]", results[1], results[0]);
    scan_ok(w, pennon_dataset_compact_commit_json(w->ds, both, &o, &m, &w->err));
    assert_int_equal(m.fragments_removed, 4);
    world_same_rows(w, stable);
    world_verify(w, w->ds);
    /* A second time: they lost, but their files are in use. */
    const size_t files = world_files(w);
    pennon_dataset *other = world_open_again(w);
    assert_int_equal(pennon_dataset_compact_commit_json(other, both, &o, NULL, &w->err), PENNON_CONFLICT);
    pennon_error_clear(&w->err);
    assert_int_equal(world_files(w), files);
    pennon_dataset_free(other);
    world_verify(w, w->ds);
    (void)snprintf(both, room, "[%s,%s]", results[0], results[0]);
    scan_fails(w, pennon_dataset_compact_commit_json(w->ds, both, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "rewritten twice");
    free(both);
    pennon_string_free(results[0]);
    pennon_string_free(results[1]);
    pennon_string_free(plan);
}

static void test_dataset_compact__parts(void **state) { run_parts(*state, false); }
static void test_dataset_compact__stable_parts(void **state) { run_parts(*state, true); }

static void test_dataset_compact__plan_table(void **state)
{
    struct scan_world *w = *state;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    pennon_compaction_options o = options_of(w, 6500);
    scan_ok(w, pennon_dataset_compact_plan(w->ds, &o, &stream, &w->err));
    scan_ok(w, stream_next(&stream, &batch, &w->err));
    assert_int_equal(batch.length, 2);
    const uint64_t *rows = batch.children[2]->buffers[1], *deleted = batch.children[3]->buffers[1];
    assert_int_equal(rows[0] + rows[1], w->all.length);
    assert_int_equal(deleted[0] + deleted[1], w->deleted);
    array_release(&batch);
    stream_release(&stream);
}

/* ---- beside others ---- */

static void test_dataset_compact__loses_to_a_delete(void **state)
{
    struct scan_world *w = *state;
    pennon_compaction_options o = options_of(w, 1000000);
    pennon_dataset *other = world_open_again(w);
    char *plan = plan_of(w, &o), *task = task_of(plan, 0), *result = execute(w, task);
    (void)world_delete(w, other, "id = 10");
    const uint64_t rows = world_count(w, other, NULL);
    const size_t files = world_files(w);
    const size_t room = strlen(result) + 3;
    char *list = malloc(room);
    assert_non_null(list);
    (void)snprintf(list, room, "[%s]", result);
    assert_int_equal(pennon_dataset_compact_commit_json(w->ds, list, &o, NULL, &w->err), PENNON_CONFLICT);
    assert_string_equal(w->err.kind, "RetryableCommitConflict");
    pennon_error_clear(&w->err);
    /* Its one file is gone, and the row too. */
    assert_int_equal(world_files(w), files - 1);
    scan_ok(w, pennon_dataset_refresh(w->ds, &w->call, &w->err));
    assert_int_equal(world_count(w, w->ds, NULL), rows);
    assert_int_equal(world_count(w, w->ds, "id = 10"), 0);
    world_verify(w, w->ds);
    free(list);
    pennon_string_free(result);
    free(task);
    pennon_string_free(plan);
    pennon_dataset_free(other);
}

static void test_dataset_compact__over_an_append(void **state)
{
    struct scan_world *w = *state;
    const uint64_t rows = world_count(w, w->ds, NULL);
    scan_write(w, SCAN_ROWS, 500, false, true);
    (void)compact_to(w, w->ds, 1000000);
    assert_int_equal(world_count(w, w->ds, NULL), rows + 500);
    world_verify(w, w->ds);
}

#define TURNS 4

struct racer {
    struct scan_world *w;
    pennon_dataset *ds;
    int number;
    char text[256];
};

/* Two compact, one deletes, one updates. */
static void *race(void *ctx)
{
    struct racer *r = ctx;
    const char *const column = "m", *const sql = "m + 1";
    pennon_error err;
    pennon_error_init(&err);
    for (int turn = 0; turn < TURNS && !r->text[0]; turn++) {
        char where[64];
        pennon_mutation_options o;
        pennon_compaction_options k = options_of(r->w, 1000000);
        pennon_mutation_options_init(&o);
        o.call = &r->w->call;
        o.conflict_retries = 100;
        o.retry_timeout_ms = 60000;
        (void)snprintf(where, sizeof where, "id = %d", 100 + turn);
        pennon_status st = r->number < 2   ? pennon_dataset_refresh(r->ds, &r->w->call, &err)
                           : r->number < 3 ? pennon_dataset_delete(r->ds, where, &o, NULL, &err)
                                           : pennon_dataset_update(r->ds, "id = 7", 1, &column, &sql, &o, NULL, &err);
        if (st == PENNON_OK && r->number < 2) st = pennon_dataset_compact(r->ds, &k, NULL, &err);
        if (st != PENNON_OK && !(r->number < 2 && st == PENNON_CONFLICT))
            (void)snprintf(r->text, sizeof r->text, "%s", err.message);
        pennon_error_clear(&err);
    }
    return NULL;
}

static void test_dataset_compact__race(void **state)
{
    struct scan_world *w = *state;
    struct racer racers[4];
    pthread_t threads[4];
    const char *const column = "m", *const sql = "0";
    scan_ok(w, pennon_dataset_update(w->ds, "id = 7", 1, &column, &sql, NULL, NULL, &w->err));
    const uint64_t rows = world_count(w, w->ds, NULL), gone = world_count(w, w->ds, "id BETWEEN 100 AND 103");
    for (int i = 0; i < 4; i++) {
        racers[i] = (struct racer){.w = w, .ds = world_open_again(w), .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        if (racers[i].text[0]) fail_msg("racer %d: %s", i, racers[i].text);
        pennon_dataset_free(racers[i].ds);
    }
    scan_ok(w, pennon_dataset_refresh(w->ds, &w->call, &w->err));
    assert_int_equal(world_count(w, w->ds, NULL), rows - gone);
    assert_int_equal(world_count(w, w->ds, "id BETWEEN 100 AND 103"), 0);
    assert_int_equal(world_count(w, w->ds, "id = 7 AND m = 4"), 1);
    world_verify(w, w->ds);
}

/* ---- memory, cancel ---- */

/* With any budget the call works, or fails and leaves nothing behind. */
static void test_dataset_compact__budgets(void **state)
{
    struct scan_world *w = *state;
    const uint64_t version = pennon_dataset_version(w->ds);
    const size_t files = world_files(w);
    pennon_status st = PENNON_OVER_BUDGET;
    size_t failures = 0;
    for (uint64_t bytes = 1 << 12; st != PENNON_OK; bytes += bytes / 2, failures++) {
        pennon_budget *budget;
        pennon_call call = w->call;
        pennon_compaction_options o = options_of(w, 8000);
        scan_ok(w, pennon_budget_new(w->runtime, bytes, &budget, &w->err));
        call.budget = budget;
        o.call = &call;
        st = pennon_dataset_compact(w->ds, &o, NULL, &w->err);
        assert_int_equal(pennon_budget_used(budget), 0);
        pennon_budget_free(budget);
        if (st == PENNON_OK) break;
        assert_int_equal(st, PENNON_OVER_BUDGET);
        pennon_error_clear(&w->err);
        scan_ok(w, pennon_dataset_refresh(w->ds, &w->call, &w->err));
        assert_int_equal(world_files(w), files);
        /* Ids may have been reserved. */
        assert_true(pennon_dataset_version(w->ds) <= version + failures + 1);
        assert_true(bytes < (uint64_t)1 << 28);
    }
    assert_true(failures > 5);
    world_same_rows(w, true);
    world_verify(w, w->ds);
}

#define WIDE_URI "memory://scan/wide"
#define WIDE_BYTES 4096
#define WIDE_ROWS 4000

static void write_wide(struct scan_world *w, int32_t mode)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct ArrowArrayStream rows;
    uint8_t value[WIDE_BYTES];
    pennon_write_options o;
    pennon_write_options_init(&o);
    o.call = &w->call;
    o.mode = mode;
    scan_ok(w, arrow_schema_from_text(bytes_str("struct<b: bool, v: fixed_size_binary[4096]>"), "", w->mem, &schema, &w->err));
    struct builder *b = builder_new(&schema, w->mem, &w->err);
    assert_non_null(b);
    for (int64_t i = 0; i < WIDE_ROWS; i++) {
        for (size_t k = 0; k < sizeof value; k++) value[k] = (uint8_t)(scan_mixed(i, k) >> 20);
        scan_ok(w, builder_append_bool(builder_child(b, 0), i % 3 == 0, &w->err));
        scan_ok(w, builder_append_bytes(builder_child(b, 1), bytes_of(value, sizeof value), &w->err));
        scan_ok(w, builder_append_row(b, &w->err));
    }
    scan_ok(w, builder_finish(b, &batch, &w->err));
    builder_free(b);
    scan_ok(w, stream_from_arrays(&schema, &batch, 1, w->mem, &rows, &w->err));
    scan_ok(w, pennon_write(WIDE_URI, &rows, &o, NULL, &w->err));
}

/* 64 MB of rows in 20 MiB: wide columns are let go while a narrow one waits for its page. */
static void test_dataset_compact__wide_beside_narrow(void **state)
{
    struct scan_world *w = *state;
    pennon_dataset *ds;
    pennon_open_options open;
    pennon_budget *budget;
    pennon_call call = w->call;
    pennon_compaction_options o = options_of(w, 1000000);
    pennon_compaction_metrics m = {.struct_size = sizeof m};
    for (int i = 0; i < 4; i++) write_wide(w, i ? PENNON_WRITE_APPEND : PENNON_WRITE_CREATE);
    pennon_open_options_init(&open);
    open.call = &w->call;
    scan_ok(w, pennon_dataset_open(WIDE_URI, &open, &ds, &w->err));
    scan_ok(w, pennon_budget_new(w->runtime, (uint64_t)20 << 20, &budget, &w->err));
    call.budget = budget;
    call.threads = 1; /* more of them flush all columns together before it comes to that */
    o.call = &call;
    scan_ok(w, pennon_dataset_compact(ds, &o, &m, &w->err));
    assert_int_equal(m.fragments_added, 1);
    assert_int_equal(world_count(w, ds, "b"), 4 * ((WIDE_ROWS + 2) / 3));
    world_verify(w, ds);
    pennon_dataset_free(ds);
    pennon_budget_free(budget);
}

static void test_dataset_compact__cancelled(void **state)
{
    struct scan_world *w = *state;
    pennon_cancel *cancel;
    pennon_call call = w->call;
    pennon_compaction_options o = options_of(w, 1000000);
    const size_t files = world_files(w);
    scan_ok(w, pennon_cancel_new(&cancel, &w->err));
    pennon_cancel_fire(cancel);
    call.cancel = cancel;
    o.call = &call;
    assert_int_equal(pennon_dataset_compact(w->ds, &o, NULL, &w->err), PENNON_CANCELLED);
    pennon_error_clear(&w->err);
    assert_int_equal(world_files(w), files);
    pennon_cancel_free(cancel);
}

struct told {
    _Atomic(int) inside;
    uint64_t last, total;
};

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct told *t = ctx;
    assert_int_equal(atomic_fetch_add(&t->inside, 1), 0);
    t->last = done > t->last ? done : t->last;
    t->total = total;
    (void)atomic_fetch_sub(&t->inside, 1);
}

static void test_dataset_compact__progress(void **state)
{
    struct scan_world *w = *state;
    struct told told = {.last = 0};
    pennon_call call = w->call;
    pennon_compaction_options o = options_of(w, 6500);
    call.progress = on_progress;
    call.progress_ctx = &told;
    o.call = &call;
    scan_ok(w, pennon_dataset_compact(w->ds, &o, NULL, &w->err));
    assert_int_equal(told.total, w->all.length);
    assert_true(told.last > 0 && told.last <= told.total);
}

#define STABLE(name) cmocka_unit_test_setup_teardown(name, scan_setup_stable, scan_teardown)
#define PLAIN(name) cmocka_unit_test_setup_teardown(name, scan_setup, scan_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAIN(test_dataset_compact__rows),
        STABLE(test_dataset_compact__stable_rows),
        STABLE(test_dataset_compact__copied),
        PLAIN(test_dataset_compact__all_deleted),
        PLAIN(test_dataset_compact__config),
        STABLE(test_dataset_compact__refused),
        PLAIN(test_dataset_compact__parts),
        STABLE(test_dataset_compact__stable_parts),
        PLAIN(test_dataset_compact__plan_table),
        STABLE(test_dataset_compact__loses_to_a_delete),
        STABLE(test_dataset_compact__over_an_append),
        STABLE(test_dataset_compact__race),
        STABLE(test_dataset_compact__budgets),
        PLAIN(test_dataset_compact__wide_beside_narrow),
        PLAIN(test_dataset_compact__cancelled),
        PLAIN(test_dataset_compact__progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
