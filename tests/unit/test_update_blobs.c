/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Updates of tables with blobs: the values move with their rows, in bounded memory, and nothing of a failed update stays. */
#include <pthread.h>

#include "blob_world.h"

#define LARGE ((size_t)12 << 20)

static pennon_status update(struct blob_world *w, const char *column, const char *sql, const char *where, const pennon_call *call,
                            pennon_update_result *r)
{
    pennon_mutation_options o;
    pennon_mutation_options_init(&o);
    o.call = call;
    r->struct_size = sizeof *r;
    return pennon_dataset_update(w->ds, where, 1, &column, &sql, &o, r, &w->err);
}

static void verify(struct blob_world *w)
{
    pennon_verify_options o;
    pennon_verify_counts n = {.struct_size = sizeof n};
    pennon_verify_options_init(&o);
    o.call = &w->call;
    o.scope = PENNON_VERIFY_ALL;
    blob_ok(w, pennon_dataset_verify(w->ds, &o, &n, &w->err));
    assert_int_equal(n.findings, 0);
}

/* ids of all rows, in their order. */
static void ids_of(struct blob_world *w, int64_t *ids, size_t n)
{
    static const char *const names[] = {"id"};
    const pennon_names columns = {1, names};
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    pennon_scan_options o;
    size_t at = 0;
    pennon_scan_options_init(&o);
    o.call = &w->call;
    o.columns = &columns;
    blob_ok(w, pennon_scan(w->ds, &o, &stream, &w->err));
    for (;;) {
        blob_ok(w, stream_next(&stream, &batch, &w->err));
        if (!batch.release) break;
        for (int64_t i = 0; i < batch.length; i++) {
            assert_true(at < n);
            ids[at++] = ((const int64_t *)batch.children[0]->buffers[1])[batch.children[0]->offset + i];
        }
        array_release(&batch);
    }
    assert_int_equal(at, n);
    stream_release(&stream);
}

/* Every row has the blobs that it had; ids are those of before modulo 1000. */
static void check_all(struct blob_world *w, size_t n)
{
    int64_t ids[BLOB_ROWS];
    uint64_t rows[BLOB_ROWS];
    assert_true(n <= BLOB_ROWS);
    ids_of(w, ids, n);
    for (size_t i = 0; i < n; i++) rows[i] = i;
    pennon_blobs *b = blob_take(w, "b", PENNON_TAKE_OFFSETS, n, rows);
    for (size_t i = 0; i < n; i++) blob_expect(w, b, i, ids[i] % 1000);
    pennon_blobs_free(b);
    if (!w->v2) return;
    b = blob_take(w, "s.b", PENNON_TAKE_OFFSETS, n, rows);
    for (size_t i = 0; i < n; i++) blob_expect(w, b, i, ids[i] % 1000 % 7 == 3 ? 1 : ids[i] % 1000 + 1);
    pennon_blobs_free(b);
}

static void test_update_blobs__rows(void **state)
{
    struct blob_world *w = *state;
    pennon_update_result r;
    pennon_mutation_options o;
    blob_ok(w, update(w, "id", "id + 1000", "id % 3 = 1", &w->call, &r));
    assert_int_equal(r.rows_updated, BLOB_ROWS / 3);
    check_all(w, BLOB_ROWS);
    blob_ok(w, update(w, "id", "id + 1000", NULL, &w->call, &r));
    assert_int_equal(r.rows_updated, BLOB_ROWS);
    check_all(w, BLOB_ROWS);
    pennon_mutation_options_init(&o);
    o.call = &w->call;
    blob_ok(w, pennon_dataset_delete(w->ds, "id % 4 = 0", &o, NULL, &w->err));
    blob_ok(w, update(w, "id", "id + 1000", "id % 2 = 0", &w->call, &r));
    check_all(w, BLOB_ROWS - BLOB_ROWS / 4);
    verify(w);
}

/* The rows of a part are those that fit the budget. */
static void test_update_blobs__parts(void **state)
{
    struct blob_world *w = *state;
    pennon_update_result r;
    pennon_call call = w->call;
    blob_ok(w, pennon_budget_new(w->runtime, 600000, &call.budget, &w->err));
    pennon_status st = update(w, "id", "id + 1000", NULL, &call, &r);
    if (st != PENNON_OK) blob_fails(w, st, PENNON_OVER_BUDGET, "");
    pennon_budget_free(call.budget);
    if (st == PENNON_OK) check_all(w, BLOB_ROWS);
    verify(w);
}

static bool count_object(void *ctx, const pennon_object_info *info)
{
    UNUSED(info);
    ++*(size_t *)ctx;
    return true;
}

static size_t files_of(struct blob_world *w)
{
    struct snapshot *s;
    size_t n = 0;
    dataset_get(w->ds, &s, NULL);
    blob_ok(w, pennon_store_list(s->at.store, &w->call, "blobs/t/data", true, count_object, &n, &w->err));
    snapshot_release(s);
    return n;
}

static void test_update_blobs__refused(void **state)
{
    struct blob_world *w = *state;
    pennon_update_result r;
    const size_t files = files_of(w);
    blob_fails(w, update(w, "b", "NULL", NULL, &w->call, &r), PENNON_NOT_SUPPORTED, "updating column 'b', which holds blobs");
    /* The last row fails, when the others are written. */
    pennon_status st = update(w, "id", "1 / (59 - id)", NULL, &w->call, &r);
    assert_int_equal(st, PENNON_INVALID_ARGUMENT);
    pennon_error_clear(&w->err);
    assert_int_equal(files_of(w), files);
    check_all(w, BLOB_ROWS);
}

/* ---- beside others ---- */

#define UPDATERS 3
#define UPDATES 4

struct updater {
    struct blob_world *w;
    pennon_dataset *ds; /* of its own */
    uint64_t attempts;
    bool failed;
};

static void *update_often(void *arg)
{
    struct updater *u = arg;
    pennon_error err;
    pennon_error_init(&err);
    for (int i = 0; i < UPDATES; i++) {
        const char *column = "id", *sql = "id + 1000";
        pennon_update_result r = {.struct_size = sizeof r};
        pennon_mutation_options o;
        pennon_mutation_options_init(&o);
        o.call = &u->w->call;
        o.conflict_retries = 100;
        const pennon_status st = pennon_dataset_update(u->ds, "id % 2 = 0", 1, &column, &sql, &o, &r, &err);
        u->failed = u->failed || st != PENNON_OK;
        u->attempts += r.attempts;
    }
    pennon_error_clear(&err);
    return NULL;
}

struct stems {
    char names[512][64];
    size_t n, data;
};

/* Data files, and the stems of blob files. */
static bool note_stem(void *ctx, const pennon_object_info *info)
{
    struct stems *s = ctx;
    const char *name = strstr(info->path, "/data/") + 6, *slash = strchr(name, '/');
    s->data += !slash;
    if (!slash) return true;
    assert_true(s->n < ARRAY_LEN(s->names) && slash - name < 64);
    memcpy(s->names[s->n++], name, (size_t)(slash - name));
    return true;
}

/* Writers of the same rows begin again, and take what they wrote with them: every file is one of a version. */
static void test_update_blobs__race(void **state)
{
    struct blob_world *w = *state;
    struct updater updaters[UPDATERS];
    pthread_t threads[UPDATERS];
    uint64_t attempts = 0, files = 0, total = 0;
    for (size_t i = 0; i < UPDATERS; i++) {
        updaters[i] = (struct updater){.w = w, .ds = blob_world_open(w)};
        assert_int_equal(pthread_create(&threads[i], NULL, update_often, &updaters[i]), 0);
    }
    for (size_t i = 0; i < UPDATERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(updaters[i].failed);
        attempts += updaters[i].attempts;
        pennon_dataset_free(updaters[i].ds);
    }
    assert_true(attempts >= UPDATERS * UPDATES);
    blob_ok(w, pennon_dataset_refresh(w->ds, &w->call, &w->err));
    assert_int_equal(pennon_dataset_version(w->ds), 1 + UPDATERS * UPDATES);
    int64_t ids[BLOB_ROWS];
    ids_of(w, ids, BLOB_ROWS);
    for (size_t i = 0; i < BLOB_ROWS; i++) total += (uint64_t)(ids[i] / 1000);
    assert_int_equal(total, BLOB_ROWS / 2 * UPDATERS * UPDATES);
    check_all(w, BLOB_ROWS);
    verify(w);
    /* A data file a committed update, and the three that were there. */
    struct snapshot *s;
    static struct stems stems;
    stems = (struct stems){.n = 0};
    dataset_get(w->ds, &s, NULL);
    blob_ok(w, pennon_store_list(s->at.store, &w->call, "blobs/t/data", true, note_stem, &stems, &w->err));
    snapshot_release(s);
    for (size_t i = 0; i < stems.n; i++) {
        size_t k = 0;
        while (strcmp(stems.names[k], stems.names[i]) != 0) k++;
        files += k == i;
    }
    assert_int_equal(stems.data, 3 + UPDATERS * UPDATES);
    assert_int_equal(files, w->v2 ? stems.data : 0);
}

/* ---- values of many bytes ---- */

static void append_large(struct blob_world *w)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct ArrowArrayStream rows;
    pennon_write_options o;
    uint8_t *bytes = malloc(LARGE);
    assert_non_null(bytes);
    const char *text = "struct<id: int64, b: struct<data: large_binary, uri: string>, s: struct<b: struct<data: "
                       "large_binary, uri: string>>>";
    blob_ok(w, arrow_schema_from_text(bytes_str(text), "", w->mem, &schema, &w->err));
    blob_world_mark(w, schema.children[1]);
    blob_world_mark(w, schema.children[2]->children[0]);
    struct builder *b = builder_new(&schema, w->mem, &w->err);
    assert_non_null(b);
    for (int64_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < LARGE; k++) bytes[k] = (uint8_t)(k >> 8 ^ k ^ (size_t)i);
        blob_ok(w, builder_append_int(builder_child(b, 0), 500 + i, &w->err));
        struct builder *blob = builder_child(b, 1);
        blob_ok(w, builder_append_bytes(builder_child(blob, 0), bytes_of(bytes, LARGE), &w->err));
        blob_ok(w, builder_append_null(builder_child(blob, 1), &w->err));
        blob_ok(w, builder_append_row(blob, &w->err));
        blob_ok(w, builder_append_null(builder_child(b, 2), &w->err));
        blob_ok(w, builder_append_row(b, &w->err));
    }
    blob_ok(w, builder_finish(b, &batch, &w->err));
    builder_free(b);
    free(bytes);
    blob_ok(w, stream_from_arrays(&schema, &batch, 1, w->mem, &rows, &w->err));
    pennon_write_options_init(&o);
    o.call = &w->call;
    o.mode = PENNON_WRITE_APPEND;
    blob_ok(w, pennon_write(BLOB_URI, &rows, &o, NULL, &w->err));
    blob_ok(w, pennon_dataset_refresh(w->ds, &w->call, &w->err));
}

static void test_update_blobs__large(void **state)
{
    struct blob_world *w = *state;
    pennon_update_result r;
    pennon_call call = w->call;
    static const uint64_t rows[] = {BLOB_ROWS, BLOB_ROWS + 1};
    append_large(w);
    blob_ok(w, pennon_budget_new(w->runtime, LARGE * 2 / 3, &call.budget, &w->err));
    blob_ok(w, update(w, "id", "id + 1000", "id >= 500", &call, &r));
    assert_int_equal(r.rows_updated, 2);
    pennon_budget_free(call.budget);
    pennon_blobs *b = blob_take(w, "b", PENNON_TAKE_OFFSETS, 2, rows);
    for (size_t i = 0; i < 2; i++) {
        uint8_t part[1000];
        size_t got;
        uint64_t size;
        blob_ok(w, pennon_blob_size(b, i, &w->call, &size, &w->err));
        assert_int_equal(size, LARGE);
        for (uint64_t at = 0; at < LARGE; at += LARGE / 7) {
            blob_ok(w, pennon_blob_read_at(b, i, at, sizeof part, part, &w->call, &got, &w->err));
            assert_int_equal(got, LARGE - at < sizeof part ? LARGE - at : sizeof part);
            for (size_t k = 0; k < got; k++) assert_int_equal(part[k], (uint8_t)((at + k) >> 8 ^ (at + k) ^ i));
        }
    }
    pennon_blobs_free(b);
    verify(w);
}

#define WITH(test, setup) cmocka_unit_test_setup_teardown(test, setup, blob_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(test_update_blobs__rows, blob_setup_v1),        WITH(test_update_blobs__rows, blob_setup_v2),
        WITH(test_update_blobs__rows, blob_setup_v1_stable), WITH(test_update_blobs__rows, blob_setup_v2_stable),
        WITH(test_update_blobs__parts, blob_setup_v1),       WITH(test_update_blobs__parts, blob_setup_v2),
        WITH(test_update_blobs__refused, blob_setup_v1),     WITH(test_update_blobs__refused, blob_setup_v2),
        WITH(test_update_blobs__large, blob_setup_v2),       WITH(test_update_blobs__race, blob_setup_v1),
        WITH(test_update_blobs__race, blob_setup_v2_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
