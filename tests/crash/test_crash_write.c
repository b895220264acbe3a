/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Writing under faults: at every single call of the store, for create, append, overwrite and update, and with blobs whose values go into files of their own.
 * Whatever happens, the table afterwards is the old or the new version, whole, every blob included; a call that said OK is never lost, and no row is
 * there twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "dataset/dataset.h"
#include "exec/plan.h"
#include "pennon/mutation.h"

struct world {
    struct call c;
    pennon_error err;
    struct table_location at;
    bool blobs; /* a blob column beside the ids */
};

static char path_text[] = "tables/t.lance", uri_text[] = "fault://tables/t.lance";

static void world_new(struct world *w)
{
    memset(w, 0, sizeof *w);
    pennon_error_init(&w->err);
    pennon_call o;
    pennon_call_init(&o);
    o.threads = 1;
    assert_int_equal(call_begin(&w->c, &o, &w->err), PENNON_OK);
    assert_int_equal(fault_store_new(runtime_base_mem(w->c.runtime), &w->at.store, &w->err), PENNON_OK);
    w->at.path = path_text;
    w->at.uri = uri_text;
}

static void world_end(struct world *w)
{
    pennon_store_free(w->at.store);
    pennon_error_clear(&w->err);
    call_end(&w->c);
}

/* Bytes of the blob of a row: inline, packed and dedicated by the thresholds below, none, or empty. */
static size_t blob_size(int64_t id)
{
    static const size_t sizes[] = {5, 40, 200, 0, 41, 300, 0};
    return sizes[id % 7];
}
static bool blob_is_null(int64_t id) { return id % 7 == 6; }

static void add_blob(struct world *w, struct builder *b, int64_t id)
{
    uint8_t bytes[300];
    memset(bytes, (int)(id % 251), sizeof bytes);
    if (blob_is_null(id)) {
        assert_int_equal(builder_append_null(b, &w->err), PENNON_OK);
        return;
    }
    assert_int_equal(builder_append_bytes(builder_child(b, 0), bytes_of(bytes, blob_size(id)), &w->err), PENNON_OK);
    assert_int_equal(builder_append_null(builder_child(b, 1), &w->err), PENNON_OK);
    assert_int_equal(builder_append_row(b, &w->err), PENNON_OK);
}

static void check_blob(const struct ArrowArray *a, int64_t row, int64_t id)
{
    const int64_t *ends = a->buffers[1];
    const uint8_t *at = (const uint8_t *)a->buffers[2] + ends[row];
    bool null = a->null_count != 0 && !bit_get(a->buffers[0], (uint64_t)row);
    assert_int_equal(null, blob_is_null(id));
    assert_int_equal(ends[row + 1] - ends[row], blob_size(id));
    for (size_t i = 0; i < blob_size(id); i++) assert_int_equal(at[i], id % 251);
}

static void mark_blob(struct world *w, struct ArrowSchema *field)
{
    static const char *const pairs[][2] = {{"ARROW:extension:name", "lance.blob.v2"},
                                           {"lance-encoding:blob-inline-size-threshold", "10"},
                                           {"lance-encoding:blob-dedicated-size-threshold", "100"},
                                           {"lance-encoding:blob-pack-file-size-threshold", "100"}};
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        assert_int_equal(arrow_metadata_set(field, bytes_str(pairs[i][0]), bytes_str(pairs[i][1]), &w->err), PENNON_OK);
}

/* `n` rows from `first` on, in two batches: an int64 column "id", and with w->blobs a blob column "b". */
static void make_stream(struct world *w, int64_t first, int64_t n, struct ArrowArrayStream *out)
{
    struct ArrowSchema schema;
    struct ArrowArray batches[2];
    const char *text = w->blobs ? "struct<id: int64, b: struct<data: large_binary, uri: string>>" : "struct<id: int64>";
    assert_int_equal(arrow_schema_from_text(bytes_str(text), "", w->c.mem, &schema, &w->err), PENNON_OK);
    schema.flags = 0;
    if (w->blobs) mark_blob(w, schema.children[1]);
    struct builder *b = builder_new(&schema, w->c.mem, &w->err);
    assert_non_null(b);
    for (int part = 0; part < 2; part++) {
        for (int64_t i = part * n / 2; i < (part + 1) * n / 2; i++) {
            assert_int_equal(builder_append_int(builder_child(b, 0), first + i, &w->err), PENNON_OK);
            if (w->blobs) add_blob(w, builder_child(b, 1), first + i);
            assert_int_equal(builder_append_row(b, &w->err), PENNON_OK);
        }
        assert_int_equal(builder_finish(b, &batches[part], &w->err), PENNON_OK);
    }
    builder_free(b);
    assert_int_equal(stream_from_arrays(&schema, batches, 2, w->c.mem, out, &w->err), PENNON_OK);
}

static pennon_status do_write(struct world *w, int32_t mode, int64_t first, int64_t n)
{
    pennon_write_options o;
    struct ArrowArrayStream stream;
    struct snapshot *s = NULL;
    pennon_write_options_init(&o);
    o.mode = mode;
    o.max_rows_per_file = 6;
    o.max_retries = 3;
    if (w->blobs) o.storage_version = "2.2";
    make_stream(w, first, n, &stream);
    pennon_error_clear(&w->err);
    pennon_status st = dataset_write(&w->c, &w->at, &stream, &o, &s, &w->err);
    snapshot_release(s);
    stream_release(&stream);
    return st;
}

/* A mode of its own: the odd ids become ids of rows with the same blobs, which move with them. */
#define UPDATE (-1)
#define UPDATE_STEP 1757 /* 7 * 251 */

static pennon_status do_update(struct world *w)
{
    static const struct external_rule external = {.policy = EXTERNAL_SAME_STORE};
    static const struct version_ref latest = {.as_of_ns = INT64_MIN};
    const char *column = "id", *sql = "id + 1757";
    pennon_mutation_options o;
    pennon_call call;
    struct snapshot *s = NULL;
    pennon_dataset *ds = NULL;
    pennon_call_init(&call);
    call.threads = 1;
    pennon_mutation_options_init(&o);
    o.call = &call;
    pennon_error_clear(&w->err);
    pennon_status st = snapshot_open(&w->c, &w->at, &latest, &external, &s, &w->err);
    if (st == PENNON_OK) assert_int_equal(dataset_new(&w->c, s, &external, &ds, &w->err), PENNON_OK);
    if (st == PENNON_OK) st = pennon_dataset_update(ds, "id % 2 = 1", 1, &column, &sql, &o, NULL, &w->err);
    pennon_dataset_free(ds);
    return st;
}

static pennon_status do_mode(struct world *w, int32_t mode, int64_t first, int64_t n)
{
    return mode == UPDATE ? do_update(w) : do_write(w, mode, first, n);
}

/* Rows and the sum of ids of the latest version; rows = -1 when there is no table. */
static void read_table(struct world *w, int64_t *rows, int64_t *sum)
{
    struct external_rule external = {.policy = EXTERNAL_SAME_STORE};
    struct version_ref ref = {.as_of_ns = INT64_MIN};
    struct snapshot *s = NULL;
    *rows = -1;
    *sum = 0;
    pennon_status st = snapshot_open(&w->c, &w->at, &ref, &external, &s, &w->err);
    if (st == PENNON_NOT_FOUND) return;
    if (st != PENNON_OK) fail_msg("the table does not open: %s (%s)", w->err.message, w->err.file ? w->err.file : "-");
    struct file_cache *fc = file_cache_new(w->c.mem, 8, &w->err);
    const struct column_request all = {.all = true, .blobs = BLOB_AS_BYTES};
    struct scan_plan *plan;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    assert_int_equal(scan_plan_direct(s, &all, w->c.mem, &plan, &w->err), PENNON_OK);
    const struct fragment *fragments[64];
    assert_true(s->n_fragments <= 64);
    for (size_t i = 0; i < s->n_fragments; i++) fragments[i] = &s->fragments[i];
    struct scan_spec spec = {
        .limit = UINT64_MAX, .batch_rows = 100, .batch_bytes = UINT64_MAX, .fragments = fragments, .n_fragments = s->n_fragments};
    assert_int_equal(scan_open(&w->c, s, fc, plan, &spec, &stream, &w->err), PENNON_OK);
    *rows = 0;
    for (;;) {
        if (stream_next(&stream, &batch, &w->err) != PENNON_OK) fail_msg("a committed version does not read: %s", w->err.message);
        if (!batch.release) break;
        const int64_t *ids = batch.children[0]->buffers[1];
        for (int64_t i = 0; i < batch.length; i++) {
            *sum += ids[i];
            if (w->blobs) check_blob(batch.children[1], i, ids[i]);
        }
        *rows += batch.length;
        array_release(&batch);
    }
    stream_release(&stream);
    file_cache_release(fc);
    snapshot_release(s);
}

struct scenario {
    int32_t mode;
    bool existing;             /* a table of 10 rows, 0..9, is there */
    int64_t old_rows, old_sum; /* of the table before */
    int64_t new_rows, new_sum; /* and after */
    bool blobs;
};

static const struct scenario scenarios[] = {
    {PENNON_WRITE_CREATE, false, -1, 0, 20, 2190, false},    {PENNON_WRITE_APPEND, true, 10, 45, 30, 2235, false},
    {PENNON_WRITE_OVERWRITE, true, 10, 45, 20, 2190, false}, {PENNON_WRITE_CREATE, false, -1, 0, 20, 2190, true},
    {PENNON_WRITE_APPEND, true, 10, 45, 30, 2235, true},     {UPDATE, true, 10, 45, 10, 45 + 5 * UPDATE_STEP, true},
};

static void prepare(struct world *w, const struct scenario *s)
{
    world_new(w);
    w->blobs = s->blobs;
    if (s->existing) assert_int_equal(do_write(w, PENNON_WRITE_CREATE, 0, 10), PENNON_OK);
}

/* Calls that the operation makes without faults. */
static uint64_t count_calls(const struct scenario *s)
{
    struct world w;
    prepare(&w, s);
    struct fault_plan none = {.on = FAULT_ON_ANY, .nth = UINT64_MAX};
    fault_store_plan(w.at.store, &none);
    assert_int_equal(do_mode(&w, s->mode, 100, 20), PENNON_OK);
    uint64_t calls = fault_store_calls(w.at.store);
    int64_t rows, sum;
    read_table(&w, &rows, &sum);
    assert_int_equal(rows, s->new_rows);
    assert_int_equal(sum, s->new_sum);
    world_end(&w);
    return calls;
}

static void assert_old_or_new(struct world *w, const struct scenario *s, bool must_be_new, const char *what, uint64_t call)
{
    int64_t rows, sum;
    read_table(w, &rows, &sum);
    bool is_new = rows == s->new_rows && sum == s->new_sum, is_old = rows == s->old_rows && sum == s->old_sum;
    if (!(is_new || (is_old && !must_be_new))) {
        fail_msg("%s at call %llu of mode %d: %lld rows, sum %lld", what, (unsigned long long)call, s->mode, (long long)rows,
                 (long long)sum);
    }
}

struct files {
    char stems[64][80]; /* and a letter: d of a data file, b of a blob file */
    size_t n;
};

static bool note_file(void *ctx, const pennon_object_info *info)
{
    struct files *f = ctx;
    const char *at = strstr(info->path, "/data/") + 6, *slash = strchr(at, '/'), *end = strstr(at, ".lance");
    assert_true(f->n < ARRAY_LEN(f->stems));
    size_t n = slash ? (size_t)(slash - at) : (size_t)(end - at);
    assert_true(n < sizeof f->stems[0]);
    memcpy(f->stems[f->n], at, n);
    f->stems[f->n++][n] = slash ? 'b' : 'd';
    return true;
}

/* A call that fails takes its blob files with it: each that is left has its data file. */
static void assert_no_orphans(struct world *w, const char *what, uint64_t call)
{
    struct files f = {.n = 0};
    assert_int_equal(store_list(&w->c, w->at.store, "tables/t.lance/data", true, note_file, &f, &w->err), PENNON_OK);
    for (size_t i = 0; i < f.n; i++) {
        size_t n = strlen(f.stems[i]);
        bool found = f.stems[i][n - 1] == 'd';
        for (size_t k = 0; k < f.n && !found; k++) found = f.stems[k][n - 1] == 'd' && strncmp(f.stems[k], f.stems[i], n - 1) == 0;
        if (!found) fail_msg("%s at call %llu: a blob file is left of '%s'", what, (unsigned long long)call, f.stems[i]);
    }
}

static void test_crash_write__power_loss_at_every_call(void **state)
{
    UNUSED(state);
    for (size_t k = 0; k < ARRAY_LEN(scenarios); k++) {
        const struct scenario *s = &scenarios[k];
        uint64_t calls = count_calls(s);
        assert_true(calls > 5);
        for (uint64_t call = 0; call <= calls; call++) {
            for (uint64_t seed = 0; seed < 6; seed++) {
                struct world w;
                prepare(&w, s);
                struct fault_plan plan = {.kind = FAULT_POWER_LOSS, .on = FAULT_ON_ANY, .nth = call};
                fault_store_plan(w.at.store, &plan);
                pennon_status st = do_mode(&w, s->mode, 100, 20);
                fault_store_restart(w.at.store, seed * 1000 + call);
                assert_old_or_new(&w, s, st == PENNON_OK, "power loss", call);
                world_end(&w);
            }
        }
    }
}

/* Faults after which the process lives on: the failed call changed nothing or everything, and the next one works. */
static void test_crash_write__failures_at_every_call(void **state)
{
    UNUSED(state);
    static const struct {
        enum fault_kind kind;
        const char *name;
    } kinds[] = {{FAULT_FAIL, "failure"},          {FAULT_TORN_WRITE, "torn write"}, {FAULT_ENOSPC, "no space"},
                 {FAULT_EMFILE, "too many files"}, {FAULT_READ_ONLY, "read only"},   {FAULT_SHORT_READ, "short read"},
                 {FAULT_LOST_REPLY, "lost reply"}};
    for (size_t k = 0; k < ARRAY_LEN(scenarios); k++) {
        const struct scenario *s = &scenarios[k];
        uint64_t calls = count_calls(s);
        for (size_t f = 0; f < ARRAY_LEN(kinds); f++) {
            for (uint64_t call = 0; call < calls; call++) {
                struct world w;
                prepare(&w, s);
                struct fault_plan plan = {.kind = kinds[f].kind, .on = FAULT_ON_ANY, .nth = call};
                fault_store_plan(w.at.store, &plan);
                pennon_status st = do_mode(&w, s->mode, 100, 20);
                struct fault_plan none = {.on = FAULT_ON_ANY, .nth = UINT64_MAX};
                fault_store_plan(w.at.store, &none);
                assert_old_or_new(&w, s, st == PENNON_OK, kinds[f].name, call);
                if (st != PENNON_COMMIT_UNKNOWN) assert_no_orphans(&w, kinds[f].name, call);
                int64_t rows, sum, after;
                read_table(&w, &rows, &sum);
                if (rows >= 0) {
                    assert_int_equal(do_write(&w, PENNON_WRITE_APPEND, 0, 4), PENNON_OK);
                    read_table(&w, &after, &sum);
                    assert_int_equal(after, rows + 4);
                }
                world_end(&w);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crash_write__power_loss_at_every_call),
        cmocka_unit_test(test_crash_write__failures_at_every_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
