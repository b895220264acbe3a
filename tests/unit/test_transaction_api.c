/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Transactions from outside: written in one place and committed in another, batches, restore, config and metadata, base paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "arrow/arrow.h"
#include "pennon/pennon.h"

#define SCHEMA "struct<id: int64, s: string>"

struct world {
    pennon_runtime *runtime; /* its memory:// store is new for each case */
    pennon_call call;
    pennon_error err;
    struct mem *mem;
    struct ArrowSchema schema;
};

static void assert_fine(struct world *w, pennon_status st)
{
    if (st != PENNON_OK) fail_msg("%s: %s", pennon_status_name(st), w->err.message);
}

static void assert_fails(struct world *w, pennon_status st, pennon_status want, const char *message)
{
    if (st != want || !strstr(w->err.message, message))
        fail_msg("%s: %s", pennon_status_name(st), st ? w->err.message : "it succeeded");
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    pennon_error_init(&w->err);
    assert_fine(w, pennon_runtime_new(NULL, &w->runtime, &w->err));
    pennon_call_init(&w->call);
    w->call.runtime = w->runtime;
    w->mem = mem_new(NULL, UINT64_MAX, NULL, &w->err);
    assert_non_null(w->mem);
    assert_fine(w, arrow_schema_from_text(bytes_str(SCHEMA), "", w->mem, &w->schema, &w->err));
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    arrow_schema_release(&w->schema);
    assert_int_equal(mem_used(w->mem), 0);
    mem_release(w->mem);
    pennon_runtime_free(w->runtime);
    pennon_error_clear(&w->err);
    free(w);
    return 0;
}

/* Ids first … first + n - 1. */
static void make_rows(struct world *w, int64_t first, int64_t n, struct ArrowArrayStream *out)
{
    struct ArrowArray batch;
    struct ArrowSchema copy;
    struct builder *b = builder_new(&w->schema, w->mem, &w->err);
    assert_non_null(b);
    for (int64_t i = first; i < first + n; i++) {
        assert_fine(w, builder_append_int(builder_child(b, 0), i, &w->err));
        assert_fine(w, builder_append_bytes(builder_child(b, 1), bytes_str("text"), &w->err));
        assert_fine(w, builder_append_row(b, &w->err));
    }
    assert_fine(w, builder_finish(b, &batch, &w->err));
    builder_free(b);
    assert_fine(w, arrow_schema_copy(&w->schema, w->mem, &copy, &w->err));
    assert_fine(w, stream_from_arrays(&copy, &batch, 1, w->mem, out, &w->err));
}

static pennon_transaction *write_parts(struct world *w, const char *uri, int32_t mode, int64_t first, int64_t n)
{
    struct ArrowArrayStream rows;
    pennon_transaction *t = NULL;
    pennon_write_options o;
    pennon_write_options_init(&o);
    o.call = &w->call;
    o.mode = mode;
    o.max_rows_per_file = 2;
    make_rows(w, first, n, &rows);
    assert_fine(w, pennon_write_fragments(uri, &rows, &o, &t, &w->err));
    assert_null(rows.release);
    return t;
}

static pennon_commit_options options(struct world *w)
{
    pennon_commit_options o;
    pennon_commit_options_init(&o);
    o.call = &w->call;
    return o;
}

static pennon_dataset *commit(struct world *w, const char *uri, pennon_transaction *t)
{
    pennon_dataset *ds = NULL;
    pennon_commit_options o = options(w);
    assert_fine(w, pennon_commit(uri, t, &o, &ds, &w->err));
    pennon_transaction_free(t);
    return ds;
}

static pennon_dataset *create(struct world *w, const char *uri, int64_t n)
{
    return commit(w, uri, write_parts(w, uri, PENNON_WRITE_CREATE, 0, n));
}

static uint64_t rows_of(struct world *w, pennon_dataset *ds)
{
    uint64_t rows = 0;
    assert_fine(w, pennon_dataset_count_rows(ds, &w->call, &rows, &w->err));
    return rows;
}

static void test_dataset_transaction__write_here_commit_there(void **state)
{
    struct world *w = *state;
    static const char uri[] = "memory://t/there";
    pennon_commit_options o = options(w);
    pennon_dataset *ds = create(w, uri, 5);
    assert_int_equal(pennon_dataset_version(ds), 1);
    assert_int_equal(rows_of(w, ds), 5);
    pennon_transaction *t = write_parts(w, uri, PENNON_WRITE_APPEND, 5, 3), *copy = NULL, *read = NULL;
    assert_string_equal(pennon_transaction_operation(t), "Append");
    assert_int_equal(pennon_transaction_read_version(t), 1);
    /* Nothing is visible, and what travels is the same transaction. */
    uint64_t latest;
    assert_fine(w, pennon_dataset_latest_version(ds, &w->call, &latest, &w->err));
    assert_int_equal(latest, 1);
    void *bytes;
    size_t n;
    assert_fine(w, pennon_transaction_to_bytes(t, &bytes, &n, &w->err));
    assert_fine(w, pennon_transaction_from_bytes(bytes, n, &copy, &w->err));
    pennon_bytes_free(bytes);
    assert_string_equal(pennon_transaction_uuid(copy), pennon_transaction_uuid(t));
    pennon_transaction_free(t);
    const char *keys[] = {"a", PENNON_COMMIT_MESSAGE, "gone"}, *values[] = {"1", "why", "x"};
    const char *no_values[] = {"2", "why", NULL};
    assert_fine(w, pennon_transaction_set_properties(copy, &(pennon_pairs){3, keys, values}, &w->err));
    assert_fine(w, pennon_transaction_set_properties(copy, &(pennon_pairs){3, keys, no_values}, &w->err));
    uint64_t version = 0;
    assert_fine(w, pennon_dataset_commit(ds, copy, &o, &version, &w->err));
    assert_int_equal(version, 2);
    assert_int_equal(pennon_dataset_version(ds), 2);
    assert_int_equal(rows_of(w, ds), 8);
    char *json;
    assert_fine(w, pennon_dataset_transaction(ds, &w->call, PENNON_NONE, &read, &w->err));
    assert_string_equal(pennon_transaction_uuid(read), pennon_transaction_uuid(copy));
    assert_fine(w, pennon_transaction_to_json(read, &json, &w->err));
    assert_non_null(strstr(json, "\"properties\": {\"a\": \"2\", \"__lance_commit_message\": \"why\"}"));
    pennon_string_free(json);
    pennon_transaction_free(read);
    assert_fine(w, pennon_dataset_transaction(ds, &w->call, 1, &read, &w->err));
    assert_string_equal(pennon_transaction_operation(read), "Overwrite");
    pennon_transaction_free(read);
    pennon_transaction_free(copy);
    pennon_dataset_free(ds);
}

static void test_dataset_transaction__fragments(void **state)
{
    struct world *w = *state;
    static const char uri[] = "memory://t/fragments";
    char *json = NULL;
    pennon_transaction *t = write_parts(w, uri, PENNON_WRITE_CREATE, 0, 3), *again = NULL;
    assert_fine(w, pennon_transaction_fragments_json(t, &json, &w->err));
    pennon_transaction_free(t);
    assert_fails(w, pennon_transaction_from_fragments(uri, json, PENNON_WRITE_APPEND, &w->call, NULL, &again, &w->err),
                 PENNON_NOT_FOUND, "");
    assert_fine(w, pennon_transaction_from_fragments(uri, json, PENNON_WRITE_CREATE, &w->call, NULL, &again, &w->err));
    pennon_string_free(json);
    pennon_dataset *ds = commit(w, uri, again);
    assert_int_equal(rows_of(w, ds), 3);
    assert_fails(w, pennon_transaction_from_fragments(uri, "[]", PENNON_WRITE_CREATE, &w->call, NULL, &again, &w->err),
                 PENNON_ALREADY_EXISTS, "");
    assert_fails(w, pennon_transaction_from_fragments(uri, "[]", PENNON_WRITE_OVERWRITE, &w->call, NULL, &again, &w->err),
                 PENNON_INVALID_ARGUMENT, "no schema");
    assert_fails(w,
                 pennon_transaction_from_fragments(uri, "[{\"files\": [{\"path\": \"../x\"}]}]", PENNON_WRITE_OVERWRITE, &w->call,
                                                   NULL, &again, &w->err),
                 PENNON_INVALID_ARGUMENT, "'../x' is no name of a data file");
    assert_fails(w, pennon_transaction_from_fragments(uri, "3", PENNON_WRITE_APPEND, &w->call, NULL, &again, &w->err),
                 PENNON_INVALID_ARGUMENT, "no object and no array");
    assert_fails(w, pennon_transaction_from_fragments(uri, "[]", 7, &w->call, NULL, &again, &w->err), PENNON_INVALID_ARGUMENT,
                 "mode 7");
    t = write_parts(w, uri, PENNON_WRITE_APPEND, 3, 4);
    assert_fine(w, pennon_transaction_fragments_json(t, &json, &w->err));
    assert_fine(w, pennon_transaction_from_fragments(uri, json, PENNON_WRITE_APPEND, &w->call, NULL, &again, &w->err));
    assert_int_equal(pennon_transaction_read_version(again), 1);
    pennon_string_free(json);
    pennon_transaction_free(t);
    pennon_dataset *second = commit(w, uri, again);
    assert_int_equal(rows_of(w, second), 7);
    pennon_dataset_free(second);
    pennon_dataset_free(ds);
}

static void test_dataset_transaction__batch(void **state)
{
    struct world *w = *state;
    static const char uri[] = "memory://t/batch";
    pennon_commit_options o = options(w);
    pennon_dataset *ds = create(w, uri, 2), *made = NULL;
    pennon_transaction *parts[3], *merged = NULL;
    for (int i = 0; i < 3; i++) parts[i] = write_parts(w, uri, PENNON_WRITE_APPEND, 10 * i, 2);
    assert_fine(w, pennon_commit_batch(uri, 3, (const pennon_transaction *const *)parts, &o, &made, &merged, &w->err));
    assert_int_equal(pennon_dataset_version(made), 2);
    assert_int_equal(rows_of(w, made), 8);
    assert_string_not_equal(pennon_transaction_uuid(merged), pennon_transaction_uuid(parts[0]));
    assert_fails(w, pennon_commit_batch(uri, 0, NULL, &o, NULL, NULL, &w->err), PENNON_INVALID_ARGUMENT, "no transactions");
    pennon_transaction_free(parts[1]);
    parts[1] = write_parts(w, uri, PENNON_WRITE_OVERWRITE, 0, 1);
    assert_fails(w, pennon_commit_batch(uri, 3, (const pennon_transaction *const *)parts, &o, NULL, NULL, &w->err),
                 PENNON_INVALID_ARGUMENT, "Overwrite");
    for (int i = 0; i < 3; i++) pennon_transaction_free(parts[i]);
    pennon_transaction_free(merged);
    pennon_dataset_free(made);
    pennon_dataset_free(ds);
}

static void test_dataset_transaction__restore_and_stale(void **state)
{
    struct world *w = *state;
    static const char uri[] = "memory://t/restore";
    pennon_commit_options o = options(w);
    pennon_dataset *ds = create(w, uri, 2), *old = NULL;
    bool stale = true;
    assert_fine(w, pennon_dataset_is_stale(ds, &w->call, &stale, &w->err));
    assert_false(stale);
    assert_fine(w, pennon_dataset_snapshot(ds, &old, &w->err));
    assert_fails(w, pennon_dataset_commit(ds, NULL, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "transaction is NULL");
    pennon_transaction *t = write_parts(w, uri, PENNON_WRITE_OVERWRITE, 0, 5);
    assert_fine(w, pennon_dataset_commit(ds, t, &o, NULL, &w->err));
    pennon_transaction_free(t);
    assert_fine(w, pennon_dataset_is_stale(old, &w->call, &stale, &w->err));
    assert_true(stale);
    assert_fine(w, pennon_dataset_restore(old, &o, &w->err));
    assert_int_equal(pennon_dataset_version(old), 3);
    assert_int_equal(rows_of(w, old), 2);
    o.branch = "b";
    assert_fails(w, pennon_dataset_restore(old, &o, &w->err), PENNON_INVALID_ARGUMENT, "branch");
    pennon_dataset_free(old);
    pennon_dataset_free(ds);
}

static void test_dataset_transaction__detached(void **state)
{
    struct world *w = *state;
    static const char uri[] = "memory://t/detached";
    pennon_commit_options o = options(w);
    pennon_dataset *ds = create(w, uri, 2), *opened = NULL;
    pennon_transaction *t = write_parts(w, uri, PENNON_WRITE_APPEND, 2, 1);
    pennon_open_options open;
    uint64_t version = 0;
    o.detached = true;
    assert_fine(w, pennon_dataset_commit(ds, t, &o, &version, &w->err));
    assert_true(version >> 63 == 1);
    assert_int_equal(pennon_dataset_version(ds), 1);
    pennon_open_options_init(&open);
    open.call = &w->call;
    open.version = version;
    assert_fine(w, pennon_dataset_open(uri, &open, &opened, &w->err));
    assert_int_equal(rows_of(w, opened), 3);
    pennon_dataset_free(opened);
    pennon_transaction_free(t);
    pennon_dataset_free(ds);
}

/* ---- metadata ---- */

static void assert_map(struct world *w, pennon_dataset *ds, int32_t which, const char *field, const char *want)
{
    char *json = NULL;
    assert_fine(w, pennon_dataset_metadata_json(ds, which, field, &json, &w->err));
    assert_string_equal(json, want);
    pennon_string_free(json);
}

static void test_dataset_metadata__maps(void **state)
{
    struct world *w = *state;
    pennon_commit_options o = options(w);
    pennon_dataset *ds = create(w, "memory://t/maps", 2);
    const char *keys[] = {"a", "b"}, *values[] = {"1", "2"}, *gone[] = {NULL, "3"};
    const pennon_pairs set = {2, keys, values}, change = {2, keys, gone};
    for (int32_t which = 0; which < 4; which++) {
        const char *field = which == PENNON_METADATA_FIELD ? "s" : NULL;
        pennon_metadata_update u = {which, field, &set, false};
        char *value = NULL;
        uint64_t before = pennon_dataset_version(ds);
        assert_map(w, ds, which, field, "{}");
        assert_fine(w, pennon_dataset_update_metadata(ds, 1, &u, &o, &w->err));
        assert_map(w, ds, which, field, "{\"a\": \"1\", \"b\": \"2\"}");
        u.pairs = &change;
        assert_fine(w, pennon_dataset_update_metadata(ds, 1, &u, &o, &w->err));
        assert_map(w, ds, which, field, "{\"b\": \"3\"}");
        assert_fine(w, pennon_dataset_metadata_value(ds, which, field, "b", &value, &w->err));
        assert_string_equal(value, "3");
        pennon_string_free(value);
        assert_fine(w, pennon_dataset_metadata_value(ds, which, field, "a", &value, &w->err));
        assert_null(value);
        u.replace = true;
        u.pairs = &(pennon_pairs){1, keys, values};
        assert_fine(w, pennon_dataset_update_metadata(ds, 1, &u, &o, &w->err));
        assert_map(w, ds, which, field, "{\"a\": \"1\"}");
        u.pairs = NULL;
        assert_fine(w, pennon_dataset_update_metadata(ds, 1, &u, &o, &w->err));
        assert_map(w, ds, which, field, "{}");
        assert_int_equal(pennon_dataset_version(ds), before + 4);
    }
    pennon_dataset_free(ds);
}

static void test_dataset_metadata__several_at_once(void **state)
{
    struct world *w = *state;
    pennon_commit_options o = options(w);
    pennon_dataset *ds = create(w, "memory://t/several", 2);
    const char *keys[] = {"a"}, *one[] = {"1"}, *two[] = {"2"};
    const pennon_pairs first = {1, keys, one}, second = {1, keys, two};
    const pennon_metadata_update updates[] = {{PENNON_METADATA_FIELD, "s", &first, false},
                                              {PENNON_METADATA_FIELD, "id", &second, false},
                                              {PENNON_METADATA_FIELD, "s", &second, false},
                                              {PENNON_METADATA_TABLE, NULL, &first, false}};
    assert_fine(w, pennon_dataset_update_metadata(ds, 4, updates, &o, &w->err));
    assert_int_equal(pennon_dataset_version(ds), 2);
    assert_map(w, ds, PENNON_METADATA_FIELD, "id", "{\"a\": \"2\"}");
    assert_map(w, ds, PENNON_METADATA_FIELD, "s", "{\"a\": \"2\"}");
    assert_map(w, ds, PENNON_METADATA_TABLE, NULL, "{\"a\": \"1\"}");
    pennon_dataset_free(ds);
}

static void test_dataset_metadata__refused(void **state)
{
    struct world *w = *state;
    pennon_commit_options o = options(w);
    pennon_dataset *ds = create(w, "memory://t/refused", 2), *late = NULL;
    const char *keys[] = {"a"}, *values[] = {"1"};
    const pennon_pairs set = {1, keys, values};
    pennon_metadata_update u = {PENNON_METADATA_FIELD, "idd", &set, false};
    char *json;
    assert_fails(w, pennon_dataset_update_metadata(ds, 1, &u, &o, &w->err), PENNON_NOT_FOUND, "'idd'");
    u.field = NULL;
    assert_fails(w, pennon_dataset_update_metadata(ds, 1, &u, &o, &w->err), PENNON_INVALID_ARGUMENT, "path of the field");
    u.which = 9;
    assert_fails(w, pennon_dataset_update_metadata(ds, 1, &u, &o, &w->err), PENNON_INVALID_ARGUMENT, "which 9");
    assert_fails(w, pennon_dataset_metadata_json(ds, -1, NULL, &json, &w->err), PENNON_INVALID_ARGUMENT, "which -1");
    assert_fails(w, pennon_dataset_update_metadata(ds, 0, NULL, &o, &w->err), PENNON_INVALID_ARGUMENT, "no metadata updates");
    assert_int_equal(pennon_dataset_version(ds), 1);
    /* Two that read the same version and set the same key: the second one does not win in silence. */
    assert_fine(w, pennon_dataset_snapshot(ds, &late, &w->err));
    u = (pennon_metadata_update){PENNON_METADATA_CONFIG, NULL, &set, false};
    assert_fine(w, pennon_dataset_update_metadata(ds, 1, &u, &o, &w->err));
    assert_fails(w, pennon_dataset_update_metadata(late, 1, &u, &o, &w->err), PENNON_CONFLICT_FINAL, "UpdateConfig");
    assert_string_equal(w->err.kind, "IncompatibleTransaction");
    pennon_dataset_free(late);
    pennon_dataset_free(ds);
}

/* ---- bases ---- */

static void test_dataset_bases__targets(void **state)
{
    struct world *w = *state;
    static const char uri[] = "memory://t/bases";
    struct ArrowArrayStream rows;
    pennon_commit_options o = options(w);
    pennon_write_options write;
    pennon_dataset *ds = NULL;
    const pennon_base bases[] = {{.name = "one", .path = "memory://t/one"},
                                 {.id = 7, .name = "root", .path = "memory://t/root", .is_dataset_root = true}};
    const char *targets[] = {"root", "memory://t/one"};
    pennon_write_options_init(&write);
    write.call = &w->call;
    write.max_rows_per_file = 1;
    write.initial_bases = &(pennon_bases){2, bases};
    write.target_bases = &(pennon_names){2, targets};
    make_rows(w, 0, 3, &rows);
    assert_fine(w, pennon_write(uri, &rows, &write, &ds, &w->err));
    assert_int_equal(rows_of(w, ds), 3);
    char *json;
    pennon_transaction *t;
    assert_fine(w, pennon_dataset_transaction(ds, &w->call, PENNON_NONE, &t, &w->err));
    assert_fine(w, pennon_transaction_fragments_json(t, &json, &w->err));
    const char *first = strstr(json, "\"base_id\": 7"), *second = first ? strstr(first, "\"base_id\": 8") : NULL;
    assert_true(second && strstr(second, "\"base_id\": 7"));
    pennon_string_free(json);
    pennon_transaction_free(t);
    struct ArrowArrayStream scan;
    pennon_scan_options scan_options;
    pennon_scan_options_init(&scan_options);
    scan_options.call = &w->call;
    assert_fine(w, pennon_scan(ds, &scan_options, &scan, &w->err));
    struct ArrowArray batch;
    assert_int_equal(scan.get_next(&scan, &batch), 0);
    assert_true(batch.length > 0);
    batch.release(&batch);
    scan.release(&scan);
    /* More of them later; a name that is there is refused. */
    const pennon_base more = {.name = "two", .path = "memory://t/two"};
    assert_fine(w, pennon_dataset_add_bases(ds, &(pennon_bases){1, &more}, &o, &w->err));
    assert_int_equal(pennon_dataset_version(ds), 2);
    assert_fails(w, pennon_dataset_add_bases(ds, &(pennon_bases){1, &more}, &o, &w->err), PENNON_INVALID_ARGUMENT, "two");
    const char *unknown[] = {"three"};
    write.mode = PENNON_WRITE_APPEND;
    write.initial_bases = NULL;
    write.target_bases = &(pennon_names){1, unknown};
    make_rows(w, 0, 1, &rows);
    assert_fails(w, pennon_write(uri, &rows, &write, NULL, &w->err), PENNON_INVALID_ARGUMENT, "'three' is not found");
    write.target_bases = NULL;
    write.initial_bases = &(pennon_bases){2, bases};
    make_rows(w, 0, 1, &rows);
    assert_fails(w, pennon_write(uri, &rows, &write, NULL, &w->err), PENNON_INVALID_ARGUMENT, "cannot be registered");
    pennon_dataset_free(ds);
}

/* ---- schemas and fragments for transactions of one's own ---- */

static void test_dataset_transaction__fragments_of_a_version(void **state)
{
    struct world *w = *state;
    char *text = NULL;
    pennon_dataset *ds = create(w, "memory://t/list", 5);
    assert_fine(w, pennon_dataset_fragments_json(ds, &w->call, &text, &w->err));
    /* Three files of two rows each at most, with ids of their own now. */
    assert_non_null(strstr(text, "\"id\": 0"));
    assert_non_null(strstr(text, "\"id\": 2"));
    assert_null(strstr(text, "\"id\": 3"));
    assert_non_null(strstr(text, "\"physical_rows\": 1"));
    /* A transaction can be made of them; an Append may not have them twice. */
    pennon_transaction *t = NULL;
    pennon_commit_options o = options(w);
    assert_fine(w, pennon_transaction_from_fragments("memory://t/list", text, PENNON_WRITE_APPEND, &w->call, NULL, &t, &w->err));
    assert_fails(w, pennon_commit("memory://t/list", t, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "two fragments with the id 1");
    assert_fails(w, pennon_dataset_fragments_json(ds, &w->call, NULL, &w->err), PENNON_INVALID_ARGUMENT, "out is NULL");
    assert_fails(w, pennon_dataset_fragments_json(NULL, &w->call, &text, &w->err), PENNON_INVALID_ARGUMENT, "dataset is NULL");
    pennon_string_free(text);
    pennon_transaction_free(t);
    pennon_dataset_free(ds);
}

/* The type of the columns, as text. */
static char *schema_text(struct world *w, const pennon_transaction *t)
{
    struct ArrowSchema schema;
    assert_fine(w, pennon_transaction_schema(t, &schema, &w->err));
    char *text = pennon_type_text(&schema);
    schema.release(&schema);
    return text;
}

static void test_dataset_transaction__schema(void **state)
{
    struct world *w = *state;
    struct ArrowSchema none;
    struct ArrowSchema wide;
    pennon_transaction *t = NULL, *own = NULL, *restore = NULL;
    pennon_dataset *ds = create(w, "memory://t/schema", 1);
    static const char type[] = "struct<id: int64, p: struct<x: int8, l: list<item: string>>>";
    assert_fine(w, arrow_schema_from_text(bytes_str(type), "", w->mem, &wide, &w->err));
    assert_fine(w, pennon_transaction_from_schema(&wide, NULL, &t, &w->err));
    assert_string_equal(pennon_transaction_operation(t), "Overwrite");
    char *json, *text = schema_text(w, t);
    assert_string_equal(text, type);
    pennon_string_free(text);
    assert_fine(w, pennon_transaction_to_json(t, &json, &w->err));
    /* Ids are counted in order, parents first. */
    assert_non_null(strstr(json, "\"name\": \"item\", \"id\": 4, \"parent_id\": 3"));
    pennon_string_free(json);
    /* Of a dataset: its own. */
    assert_fine(w, pennon_transaction_from_schema(NULL, ds, &own, &w->err));
    text = schema_text(w, own);
    assert_string_equal(text, SCHEMA);
    pennon_string_free(text);
    assert_fails(w, pennon_transaction_from_schema(NULL, NULL, &own, &w->err), PENNON_INVALID_ARGUMENT, "schema is NULL");
    assert_fails(w, pennon_transaction_from_schema(&wide, NULL, NULL, &w->err), PENNON_INVALID_ARGUMENT, "out is NULL");
    assert_fine(w, pennon_transaction_from_json("{\"operation\": {\"type\": \"Restore\", \"version\": 1}}", &restore, &w->err));
    assert_fails(w, pennon_transaction_schema(restore, &none, &w->err), PENNON_INVALID_ARGUMENT, "has no schema");
    assert_fails(w, pennon_transaction_schema(t, NULL, &w->err), PENNON_INVALID_ARGUMENT, "out is NULL");
    arrow_schema_release(&wide);
    pennon_transaction_free(t);
    pennon_transaction_free(own);
    pennon_transaction_free(restore);
    pennon_dataset_free(ds);
}

/* A column that no version of the format holds names itself; one that only 2.2 holds is taken. */
static void test_dataset_transaction__schema_of_what_types(void **state)
{
    struct world *w = *state;
    struct ArrowSchema schema;
    pennon_transaction *t = NULL;
    assert_fine(
        w, arrow_schema_from_text(bytes_str("struct<m: map<key: string not null, value: int32>>"), "", w->mem, &schema, &w->err));
    assert_fine(w, pennon_transaction_from_schema(&schema, NULL, &t, &w->err));
    arrow_schema_release(&schema);
    pennon_transaction_free(t);
    assert_fine(w, arrow_schema_from_text(bytes_str("struct<_rowid: int64>"), "", w->mem, &schema, &w->err));
    assert_fails(w, pennon_transaction_from_schema(&schema, NULL, &t, &w->err), PENNON_INVALID_ARGUMENT, "_rowid");
    arrow_schema_release(&schema);
}

static void test_dataset_transaction__versions_tell_deletions(void **state)
{
    struct world *w = *state;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    pennon_dataset *ds = create(w, "memory://t/versions", 5);
    assert_fine(w, pennon_dataset_versions(ds, &w->call, &stream, &w->err));
    assert_int_equal(stream.get_next(&stream, &batch), 0);
    assert_int_equal(batch.n_children, 12);
    assert_int_equal(((const uint64_t *)batch.children[9]->buffers[1])[0], 5);
    assert_int_equal(((const uint64_t *)batch.children[10]->buffers[1])[0], 0);
    assert_int_equal(((const uint64_t *)batch.children[11]->buffers[1])[0], 0);
    batch.release(&batch);
    stream.release(&stream);
    pennon_dataset_free(ds);
}

static void test_dataset_transaction__arguments(void **state)
{
    struct world *w = *state;
    pennon_commit_options o = options(w);
    pennon_transaction *t = NULL;
    char *json;
    struct ArrowArrayStream released = {0};
    assert_fails(w, pennon_transaction_from_json(NULL, &t, &w->err), PENNON_INVALID_ARGUMENT, "json is NULL");
    assert_fails(w, pennon_transaction_from_json("{}", NULL, &w->err), PENNON_INVALID_ARGUMENT, "out is NULL");
    assert_fails(w, pennon_transaction_from_bytes("\xff", 1, &t, &w->err), PENNON_CORRUPT, "");
    assert_fails(w, pennon_transaction_to_json(NULL, &json, &w->err), PENNON_INVALID_ARGUMENT, "transaction is NULL");
    assert_fails(w, pennon_commit(NULL, NULL, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "uri is NULL");
    assert_fails(w, pennon_commit("memory://t/none", NULL, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "transaction is NULL");
    assert_fails(w, pennon_write_fragments("memory://t/none", &released, NULL, &t, &w->err), PENNON_INVALID_ARGUMENT, "released");
    assert_fine(w, pennon_transaction_from_json("{\"operation\": {\"type\": \"Restore\", \"version\": 1}}", &t, &w->err));
    assert_fails(w, pennon_commit("memory://t/none", t, &o, NULL, &w->err), PENNON_NOT_FOUND, "");
    assert_string_equal(w->err.kind, "DatasetNotFound");
    o.storage_version = "9";
    pennon_dataset *ds = create(w, "memory://t/arguments", 1);
    assert_fails(w, pennon_commit("memory://t/arguments", t, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "'9'");
    const uint64_t rows[] = {5, 5};
    o = options(w);
    o.affected_rows = &(pennon_ids){2, rows};
    assert_fails(w, pennon_commit("memory://t/arguments", t, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT, "affected row 1");
    o.affected_rows = NULL;
    pennon_transaction_retain(t);
    pennon_transaction_free(t);
    pennon_transaction_free(t);
    pennon_transaction_free(NULL);
    pennon_dataset_free(ds);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_dataset_transaction__write_here_commit_there),
        WORLD_TEST(test_dataset_transaction__fragments),
        WORLD_TEST(test_dataset_transaction__batch),
        WORLD_TEST(test_dataset_transaction__restore_and_stale),
        WORLD_TEST(test_dataset_transaction__detached),
        WORLD_TEST(test_dataset_metadata__maps),
        WORLD_TEST(test_dataset_metadata__several_at_once),
        WORLD_TEST(test_dataset_metadata__refused),
        WORLD_TEST(test_dataset_bases__targets),
        WORLD_TEST(test_dataset_transaction__fragments_of_a_version),
        WORLD_TEST(test_dataset_transaction__schema),
        WORLD_TEST(test_dataset_transaction__schema_of_what_types),
        WORLD_TEST(test_dataset_transaction__versions_tell_deletions),
        WORLD_TEST(test_dataset_transaction__arguments),
    };
    return cmocka_run_group_tests_name("transaction_api", tests, NULL, NULL);
}
