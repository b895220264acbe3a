/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Parts of compactions alone: which fragments go together, where rows go, the texts, row ids that are cut anew. */
#include "dataset/compact.h"
#include "scan_world.h"
#include "table/id_set.h"

/* ---- planner ---- */

struct layout {
    const char *name;
    uint64_t target, max_sources;
    float threshold;
    struct plan_fragment f[8];
    size_t n;
    struct plan_bin bins[8];
    size_t n_bins;
};

/* {physical, deleted, covered} */
static const struct layout layouts[] = {
    {"nothing", 10, PENNON_NONE, 0.1f, {{0, 0, 0}}, 0, {{0, 0}}, 0},
    {"one small one", 10, PENNON_NONE, 0.1f, {{5, 0, 0}}, 1, {{0, 0}}, 0},
    {"two small ones", 10, PENNON_NONE, 0.1f, {{5, 0, 0}, {5, 0, 0}}, 2, {{0, 2}}, 1},
    {"small between large", 10, PENNON_NONE, 0.1f, {{10, 0, 0}, {5, 0, 0}, {10, 0, 0}}, 3, {{0, 0}}, 0},
    {"large in the middle",
     10,
     PENNON_NONE,
     0.1f,
     {{5, 0, 0}, {4, 0, 0}, {10, 0, 0}, {3, 0, 0}, {2, 0, 0}},
     5,
     {{0, 2}, {3, 2}},
     2},
    {"deleted, at the threshold", 10, PENNON_NONE, 0.1f, {{20, 2, 0}}, 1, {{0, 0}}, 0},
    {"deleted, over the threshold", 10, PENNON_NONE, 0.1f, {{20, 3, 0}}, 1, {{0, 1}}, 1},
    {"deleted, beside a small one", 10, PENNON_NONE, 0.1f, {{20, 3, 0}, {5, 0, 0}}, 2, {{0, 2}}, 1},
    {"indices divide", 10, PENNON_NONE, 0.1f, {{5, 0, 0}, {5, 0, 0}, {5, 0, 1}, {4, 0, 1}, {3, 0, 2}}, 5, {{0, 2}, {2, 2}}, 2},
    {"cut where the rest is enough", 10, PENNON_NONE, 0.1f, {{6, 0, 0}, {6, 0, 0}, {6, 0, 0}, {6, 0, 0}}, 4, {{0, 2}, {2, 2}}, 2},
    {"the last holds the rest", 10, PENNON_NONE, 0.1f, {{6, 0, 0}, {6, 0, 0}, {6, 0, 0}, {3, 0, 0}}, 4, {{0, 4}}, 1},
    {"live rows are cut", 10, PENNON_NONE, 0.1f, {{9, 5, 0}, {9, 5, 0}, {9, 5, 0}, {9, 0, 0}, {9, 0, 0}}, 5, {{0, 3}, {3, 2}}, 2},
    {"sources run out", 10, 3, 0.1f, {{6, 0, 0}, {6, 0, 0}, {6, 0, 0}, {6, 0, 0}}, 4, {{0, 2}}, 1},
    {"no sources", 10, 1, 0.1f, {{6, 0, 0}, {6, 0, 0}, {6, 0, 0}, {6, 0, 0}}, 4, {{0, 0}}, 0},
    {"no target", 0, PENNON_NONE, 0.1f, {{6, 3, 0}, {6, 3, 0}}, 2, {{0, 2}}, 1},
    {"empty ones", 10, PENNON_NONE, 0.1f, {{0, 0, 0}, {0, 0, 0}}, 2, {{0, 2}}, 1},
    {"more deleted than there are", 10, PENNON_NONE, 0.1f, {{4, 9, 0}}, 1, {{0, 1}}, 1},
};

static void test_compact_bins__layouts(void **state)
{
    pennon_error err;
    UNUSED(state);
    pennon_error_init(&err);
    struct mem *m = mem_new(NULL, UINT64_MAX, NULL, &err);
    for (size_t i = 0; i < ARRAY_LEN(layouts); i++) {
        const struct layout *l = &layouts[i];
        struct compact_settings s;
        struct plan_bin *bins;
        size_t n;
        compact_settings_init(&s);
        s.target_rows = l->target;
        s.threshold = l->threshold;
        s.max_sources = l->max_sources;
        assert_int_equal(compact_bins(m, l->f, l->n, &s, &bins, &n, &err), PENNON_OK);
        bool same = n == l->n_bins;
        for (size_t k = 0; same && k < n; k++) same = bins[k].first == l->bins[k].first && bins[k].n == l->bins[k].n;
        if (!same) fail_msg("%s: %zu bins, the first {%zu, %zu}", l->name, n, n ? bins[0].first : 0, n ? bins[0].n : 0);
        mem_free(m, bins);
    }
    mem_release(m);
}

/* ---- moves ---- */

/* Rows of three old fragments as a treemap; the first has [2, 4), the second none, the third [0, 100000). */
static void make_addresses(struct mem *m, struct buf *out, pennon_error *err)
{
    uint8_t head[8], id[4];
    buf_init(out, m, BUF_NO_LIMIT);
    store_u64(head, 2);
    assert_int_equal(buf_append(out, head, 8, err), PENNON_OK);
    for (uint32_t k = 0; k < 2; k++) {
        struct id_set set;
        id_set_init(&set, m);
        store_u32(id, k ? 9 : 3);
        assert_int_equal(buf_append(out, id, 4, err), PENNON_OK);
        assert_int_equal(k ? id_set_add_range(&set, 0, 99999, err) : id_set_add_range(&set, 2, 3, err), PENNON_OK);
        assert_int_equal(id_set_encode(&set, out, err), PENNON_OK);
        id_set_free(&set);
    }
}

static void test_compact_moves__addresses(void **state)
{
    pennon_error err;
    struct buf text;
    struct row_moves *r;
    UNUSED(state);
    pennon_error_init(&err);
    struct mem *m = mem_new(NULL, UINT64_MAX, NULL, &err);
    make_addresses(m, &text, &err);
    struct fragment_message old[] = {
        {.id = 3, .physical_rows = 10}, {.id = 5, .physical_rows = 4}, {.id = 9, .physical_rows = 100000}};
    struct fragment_message new[] = {{.id = 20, .physical_rows = 60000}, {.id = 21, .physical_rows = 40002}};
    struct compact_result result = {.old_fragments = old,
                                    .n_old = 3,
                                    .new_fragments = new,
                                    .n_new = 2,
                                    .has_addresses = true,
                                    .addresses = bytes_of(text.data, text.size)};
    assert_int_equal(row_moves_new(m, &result, 1, &r, &err), PENNON_OK);
#define AT(f, o) ((uint64_t)(f) << 32 | (o))
    assert_int_equal(row_moves_find(r, AT(3, 2)), AT(20, 0));
    assert_int_equal(row_moves_find(r, AT(3, 3)), AT(20, 1));
    assert_int_equal(row_moves_find(r, AT(3, 4)), ADDRESS_NONE);
    assert_int_equal(row_moves_find(r, AT(3, 0)), ADDRESS_NONE);
    assert_int_equal(row_moves_find(r, AT(5, 1)), ADDRESS_NONE);
    assert_int_equal(row_moves_find(r, AT(9, 0)), AT(20, 2));
    assert_int_equal(row_moves_find(r, AT(9, 59997)), AT(20, 59999));
    assert_int_equal(row_moves_find(r, AT(9, 59998)), AT(21, 0));
    assert_int_equal(row_moves_find(r, AT(9, 99999)), AT(21, 40001));
    assert_int_equal(row_moves_find(r, AT(4, 7)), AT(4, 7));
    row_moves_free(r);
    /* Rows that the fragments have not, or of others. */
    new[1].physical_rows--;
    assert_int_equal(row_moves_new(m, &result, 1, &r, &err), PENNON_CORRUPT);
    new[1].physical_rows++;
    old[2].physical_rows--;
    assert_int_equal(row_moves_new(m, &result, 1, &r, &err), PENNON_CORRUPT);
    old[2].physical_rows++;
    old[2].id = 10;
    assert_int_equal(row_moves_new(m, &result, 1, &r, &err), PENNON_CORRUPT);
    old[2].id = 9;
    /* No cut of the bytes is taken. */
    for (size_t n = 0; n < text.size; n++) {
        result.addresses = bytes_of(text.data, n);
        assert_int_equal(row_moves_new(m, &result, 1, &r, &err), PENNON_CORRUPT);
    }
    buf_free(&text);
    pennon_error_clear(&err);
    assert_int_equal(mem_used(m), 0);
    mem_release(m);
}

/* ---- texts ---- */

static const char plan_text[] =
    "{\"tasks\":[{\"fragments\":[{\"id\":7,\"files\":[{\"path\":\"a\\\"b.lance\",\"fields\":[0,-2],\"column_indices\":[0,-1],"
    "\"file_major_version\":2,\"file_minor_version\":1,\"file_size_bytes\":null,\"base_id\":3}],\"deletion_file\":{\"read_"
    "version\":4,"
    "\"id\":13863806399939718598,\"file_type\":\"bitmap\",\"num_deleted_rows\":2,\"base_id\":null},\"row_id_meta\":{\"Inline\":[10,"
    "4]},"
    "\"physical_rows\":10,\"last_updated_at_version_meta\":{\"inline\":[]},\"created_at_version_meta\":{\"external\":{\"path\":"
    "\"p\","
    "\"offset\":1,\"size\":2}}}]},{\"fragments\":[]}],\"read_version\":5,\"options\":{\"target_rows_per_fragment\":20,"
    "\"max_rows_per_group\":1024,\"max_bytes_per_file\":null,\"materialize_deletions\":true,\"materialize_deletions_threshold\":%s,"
    "\"num_threads\":3,\"batch_size\":null,\"io_buffer_size\":18446744073709551614,\"defer_index_remap\":false,\"compaction_mode\":"
    "%s,"
    "\"enable_binary_copy\":false,\"enable_binary_copy_force\":true,\"binary_copy_read_batch_bytes\":16777216,"
    "\"max_source_fragments\":null}}";

static void test_compact_json__round_trip(void **state)
{
    static const char *const thresholds[] = {
        "0.1",   "0.0",           "1.0",  "0.3",      "1e-7",      "0.00001", "123456790.0", "16777216.0", "1000000000000.0",
        "1e+13", "3.4028235e+38", "-0.5", "0.000001", "0.12345678"};
    static const char *const modes[] = {"null", "\"Reencode\"", "\"TryBinaryCopy\"", "\"ForceBinaryCopy\""};
    pennon_error err;
    UNUSED(state);
    pennon_error_init(&err);
    for (size_t i = 0; i < ARRAY_LEN(thresholds); i++) {
        char in[2048], *out = NULL;
        (void)snprintf(in, sizeof in, plan_text, thresholds[i], modes[i % 4]);
        if (pennon_compact_text(PENNON_COMPACT_TEXT_PLAN, in, &out, &err) != PENNON_OK) fail_msg("%s", err.message);
        assert_string_equal(in, out);
        pennon_string_free(out);
    }
}

static void test_compact_json__refused(void **state)
{
    static const struct {
        int32_t kind;
        const char *text, *message;
    } cases[] = {
        {PENNON_COMPACT_TEXT_PLAN, "[]", "no object"},
        {PENNON_COMPACT_TEXT_PLAN, "{}", "missing field `tasks`"},
        {PENNON_COMPACT_TEXT_PLAN, "{\"tasks\":[],\"read_version\":1}", "missing field `options`"},
        {PENNON_COMPACT_TEXT_PLAN, "{\"tasks\":[{}]}", "tasks[0]"},
        {PENNON_COMPACT_TEXT_PLAN, "{\"tasks\":[{\"fragments\":[{\"id\":4294967296}]}]}", "no id 4294967296"},
        {PENNON_COMPACT_TEXT_PLAN, "{\"tasks\":[{\"fragments\":[{\"idd\":4}]}]}", "did you mean 'id'"},
        {PENNON_COMPACT_TEXT_TASK, "{\"task\":{\"fragments\":3}}", "no array"},
        {PENNON_COMPACT_TEXT_RESULT, "{\"metrics\":{\"fragments_removed\":-1}}", "below zero"},
        {PENNON_COMPACT_TEXT_RESULT, "7", "no object"},
    };
    pennon_error err;
    UNUSED(state);
    pennon_error_init(&err);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *out = NULL;
        assert_int_equal(pennon_compact_text(cases[i].kind, cases[i].text, &out, &err), PENNON_INVALID_ARGUMENT);
        if (!strstr(err.message, cases[i].message)) fail_msg("'%s': %s", cases[i].text, err.message);
        pennon_error_clear(&err);
    }
}

/* ---- row ids that are cut anew ---- */

/* Into parts of `size` rows: every id and version stands where its row does. */
static void check_carry(struct scan_world *w, uint64_t size)
{
    struct snapshot *s;
    struct file_cache *files;
    struct call c;
    struct arena a;
    const struct fragment *old[8];
    struct fragment_message *new;
    dataset_get(w->ds, &s, &files);
    scan_ok(w, call_begin(&c, &w->call, &w->err));
    arena_init(&a, w->mem);
    for (size_t i = 0; i < s->n_fragments; i++) old[i] = &s->fragments[i];
    const uint64_t rows = (uint64_t)w->all.length;
    const size_t n = (size_t)div_ceil(rows, size);
    new = arena_calloc(&a, n, sizeof *new, &w->err);
    for (size_t i = 0; i < n; i++) new[i].physical_rows = min_u64(size, rows - i * size);
    scan_ok(w, rows_carry(&c, s, old, s->n_fragments, file_cache_length, files, &a, new, n, &w->err));
    const uint64_t *want = w->all.children[SCAN_ROWID]->buffers[1];
    for (size_t i = 0, at = 0; i < n; i++) {
        struct row_id_sequence *ids;
        uint64_t got;
        scan_ok(w, row_id_sequence_parse(w->mem, new[i].inline_row_ids, new[i].physical_rows, &ids, &w->err));
        for (uint64_t k = 0; k < new[i].physical_rows; k++, at++) {
            row_id_sequence_get(ids, k, 1, &got);
            assert_int_equal(got, want[at]);
        }
        row_id_sequence_free(ids);
        assert_int_equal(new[i].created_which, 9);
        assert_int_equal(new[i].last_updated_which, 7);
    }
    new[n - 1].physical_rows++;
    assert_int_equal(rows_carry(&c, s, old, s->n_fragments, file_cache_length, files, &a, new, n, &w->err), PENNON_INTERNAL);
    new[n - 1].physical_rows -= 2;
    if (new[n - 1].physical_rows > 0)
        assert_int_equal(rows_carry(&c, s, old, s->n_fragments, file_cache_length, files, &a, new, n, &w->err), PENNON_INTERNAL);
    pennon_error_clear(&w->err);
    arena_reset(&a);
    call_end(&c);
    file_cache_release(files);
    snapshot_release(s);
}

static void test_table_row_carry__cuts(void **state)
{
    static const uint64_t sizes[] = {1000000, 7001, 4096, 333};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) check_carry(*state, sizes[i]);
}

/* The versions too: rows of three of them, some updated. */
static void test_table_row_carry__versions(void **state)
{
    static const char *const names[] = {"_rowid", "_row_created_at_version", "_row_last_updated_at_version"};
    const pennon_names columns = {3, names};
    struct scan_world *w = *state;
    struct ArrowSchema schema[2];
    struct ArrowArray rows[2];
    pennon_compaction_options k;
    const char *const column = "m", *const sql = "1";
    scan_ok(w, pennon_dataset_update(w->ds, "id % 1000 < 3", 1, &column, &sql, NULL, NULL, &w->err));
    for (int i = 0; i < 2; i++) {
        pennon_scan_options o = scan_options(w);
        o.columns = &columns;
        scan_rows(w, &o, &schema[i], &rows[i]);
        pennon_compaction_options_init(&k);
        k.call = &w->call;
        k.set = PENNON_COMPACT_SET_TARGET_ROWS;
        k.target_rows_per_fragment = 7000;
        if (i == 0) scan_ok(w, pennon_dataset_compact(w->ds, &k, NULL, &w->err));
    }
    assert_true(array_equal(&schema[0], &rows[0], &rows[1]));
    for (int i = 0; i < 2; i++) {
        array_release(&rows[i]);
        arrow_schema_release(&schema[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compact_bins__layouts),
        cmocka_unit_test(test_compact_moves__addresses),
        cmocka_unit_test(test_compact_json__round_trip),
        cmocka_unit_test(test_compact_json__refused),
        cmocka_unit_test_setup_teardown(test_table_row_carry__cuts, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_table_row_carry__versions, scan_setup_stable, scan_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
