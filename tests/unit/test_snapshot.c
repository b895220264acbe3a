/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Finding versions, tags and branches; what fragments hold; base paths and the rule for external ones. */
#include <stdio.h>

#include "table/table_private.h"
#include "table_fixture.h"

static const struct external_rule same_store = {.policy = EXTERNAL_SAME_STORE};

static void put_manifest_as(struct table_fixture *t, const char *path, struct manifest_message *m)
{
    struct block *b = manifest_block(&t->base, m);
    put_object(t, path, b->data, b->size);
    block_release(b);
}

static void put_manifest(struct table_fixture *t, const char *table, uint64_t version, bool v2, struct manifest_message *m)
{
    char *path = manifest_path(t->base.mem, table, version, v2, &t->base.err);
    assert_non_null(path);
    m->version = version;
    put_manifest_as(t, path, m);
    mem_free(t->base.mem, path);
}

static void put_text(struct table_fixture *t, const char *path, const char *text) { put_object(t, path, text, strlen(text)); }

static pennon_status open_ref(struct table_fixture *t, const struct version_ref *ref, struct snapshot **out)
{
    *out = NULL;
    return snapshot_open(&t->call, &t->at, ref, &same_store, out, &t->base.err);
}

static uint64_t latest(struct table_fixture *t, bool *v2)
{
    uint64_t version;
    table_ok(t, latest_version(&t->call, &t->at, &version, v2, &t->base.err));
    return version;
}

/* ---- versions ---- */

static void test_table_versions__latest(void **state)
{
    struct table_fixture *t = *state;
    struct manifest_message m = plain_manifest(1);
    uint64_t *versions = NULL;
    size_t n = 0;
    bool v2;
    struct snapshot *s;
    assert_int_equal(latest(t, &v2), 0);
    assert_int_equal(open_ref(t, NULL, &s), PENNON_NOT_FOUND);
    assert_string_equal(t->base.err.kind, "DatasetNotFound");
    for (uint64_t v = 1; v <= 12; v++) put_manifest(t, t->at.path, v, true, &m);
    put_manifest(t, t->at.path, DETACHED_VERSION + 5, true, &m);
    put_text(t, "tables/t/_versions/latest_version_hint.json", "{\"version\":99}");
    put_text(t, "tables/t/_versions/.tmp_99.manifest", "x");
    put_text(t, "tables/t/_versions/99.manifest#1", "x");
    put_text(t, "tables/t/_versions/99.manifest-x", "x");
    assert_int_equal(latest(t, &v2), 12);
    assert_true(v2);
    table_ok(t, open_ref(t, NULL, &s));
    assert_int_equal(s->version, 12);
    assert_true(s->v2_names);
    assert_true(s->etag[0] != '\0');
    snapshot_release(s);
    table_ok(t, list_versions(&t->call, &t->at, &versions, &n, &t->base.err));
    assert_int_equal(n, 12);
    for (size_t i = 0; i < n; i++) assert_int_equal(versions[i], i + 1);
    mem_free(t->base.mem, versions);
    table_ok(t, open_ref(t, &(struct version_ref){.version = DETACHED_VERSION + 5, .as_of_ns = INT64_MIN}, &s));
    assert_true(s->version == DETACHED_VERSION + 5);
    snapshot_release(s);
}

static void test_table_versions__v1_and_mixed(void **state)
{
    struct table_fixture *t = *state;
    struct manifest_message m = plain_manifest(1);
    struct snapshot *s;
    uint64_t *versions = NULL;
    size_t n = 0;
    bool v2;
    for (uint64_t v = 1; v <= 10; v++) put_manifest(t, t->at.path, v, false, &m);
    assert_int_equal(latest(t, &v2), 10);
    assert_false(v2);
    table_ok(t, open_ref(t, &(struct version_ref){.version = 9, .as_of_ns = INT64_MIN}, &s));
    assert_false(s->v2_names);
    snapshot_release(s);
    /* A change of names that stopped half way. */
    put_manifest(t, t->at.path, 3, true, &m);
    put_manifest(t, t->at.path, 4, true, &m);
    assert_int_equal(latest(t, &v2), 10);
    table_ok(t, list_versions(&t->call, &t->at, &versions, &n, &t->base.err));
    assert_int_equal(n, 10);
    mem_free(t->base.mem, versions);
    put_manifest(t, t->at.path, 11, true, &m);
    assert_int_equal(latest(t, &v2), 11);
    assert_true(v2);
}

static void test_table_versions__number_in_name_and_content(void **state)
{
    struct table_fixture *t = *state;
    struct manifest_message m = plain_manifest(2);
    struct snapshot *s;
    char *path = manifest_path(t->base.mem, t->at.path, 7, true, &t->base.err);
    put_manifest_as(t, path, &m);
    mem_free(t->base.mem, path);
    assert_int_equal(open_ref(t, NULL, &s), PENNON_CORRUPT);
    assert_int_equal(open_ref(t, &(struct version_ref){.version = 6, .as_of_ns = INT64_MIN}, &s), PENNON_NOT_FOUND);
    assert_string_equal(t->base.err.kind, "VersionNotFound");
    assert_int_equal(t->base.err.version, 6);
}

static void test_table_versions__as_of(void **state)
{
    struct table_fixture *t = *state;
    struct timestamp_message time = {0};
    struct manifest_message m = plain_manifest(1);
    struct snapshot *s;
    m.timestamp = &time;
    for (uint64_t v = 1; v <= 4; v++) {
        time.seconds = (int64_t)v * 10;
        put_manifest(t, t->at.path, v, true, &m);
    }
    static const struct {
        int64_t ns;
        uint64_t version;
    } cases[] = {{10000000000, 1}, {10000000001, 1}, {29999999999, 2}, {40000000000, 4}, {INT64_MAX, 4}, {9999999999, 0}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        pennon_status st = open_ref(t, &(struct version_ref){.as_of_ns = cases[i].ns}, &s);
        assert_int_equal(st, cases[i].version ? PENNON_OK : PENNON_NOT_FOUND);
        if (s) assert_int_equal(s->version, cases[i].version);
        snapshot_release(s);
    }
}

/* ---- tags and branches ---- */

static void test_table_refs__tags(void **state)
{
    struct table_fixture *t = *state;
    struct manifest_message m = plain_manifest(1);
    struct snapshot *s;
    struct ref_entry *tags = NULL;
    size_t n = 0;
    for (uint64_t v = 1; v <= 3; v++) put_manifest(t, t->at.path, v, true, &m);
    put_text(t, "tables/t/_refs/tags/one.json",
             "{\n  \"branch\": null,\n  \"version\": 1,\n  \"createdAt\": \"2024-01-01T00:00:00Z\",\n  \"manifestSize\": 10,\n  "
             "\"metadata\": {}\n}");
    put_text(t, "tables/t/_refs/tags/%C3%A9.json", "{\"version\":2,\"manifestSize\":7,\"new\":[]}");
    put_text(t, "tables/t/_refs/tags/broken.json", "{\"version\":2");
    put_text(t, "tables/t/_refs/tags/lacks.json", "{\"version\":2}");
    put_text(t, "tables/t/_refs/tags/gone.json", "{\"version\":9,\"manifestSize\":7}");
    put_text(t, "tables/t/_refs/tags/note.txt", "x");
    table_ok(t, open_ref(t, &(struct version_ref){.tag = "one", .as_of_ns = INT64_MIN}, &s));
    assert_int_equal(s->version, 1);
    snapshot_release(s);
    table_ok(t, open_ref(t, &(struct version_ref){.tag = "\xc3\xa9", .as_of_ns = INT64_MIN}, &s));
    assert_int_equal(s->version, 2);
    snapshot_release(s);
    static const struct {
        const char *tag, *kind;
        pennon_status st;
    } bad[] = {{"none", "RefNotFound", PENNON_NOT_FOUND},
               {"a/b", "InvalidRef", PENNON_INVALID_ARGUMENT},
               {"..", "InvalidRef", PENNON_INVALID_ARGUMENT},
               {"", "InvalidRef", PENNON_INVALID_ARGUMENT},
               {"x.lock", "InvalidRef", PENNON_INVALID_ARGUMENT},
               {"broken", NULL, PENNON_CORRUPT},
               {"lacks", NULL, PENNON_CORRUPT},
               {"gone", "VersionNotFound", PENNON_NOT_FOUND}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(open_ref(t, &(struct version_ref){.tag = bad[i].tag, .as_of_ns = INT64_MIN}, &s), bad[i].st);
        if (bad[i].kind) assert_string_equal(t->base.err.kind, bad[i].kind);
    }
    table_ok(t, list_tags(&t->call, &t->at, &tags, &n, &t->base.err));
    assert_int_equal(n, 3);
    assert_string_equal(tags[0].name, "gone");
    assert_string_equal(tags[1].name, "\xc3\xa9");
    assert_string_equal(tags[2].name, "one");
    assert_int_equal(tags[2].manifest_size, 10);
    assert_null(tags[2].branch);
    ref_entries_free(t->base.mem, tags, n);
}

static void test_table_refs__branches(void **state)
{
    struct table_fixture *t = *state;
    struct manifest_message m = plain_manifest(1);
    struct base_path_message base = {.id = 0, .is_dataset_root = true, .path = bytes_str("memory://gone/t")};
    struct snapshot *s;
    struct ref_entry *branches = NULL;
    struct table_location at = {0};
    size_t n = 0;
    put_manifest(t, t->at.path, 1, true, &m);
    m.has_branch = true;
    m.branch = bytes_str("exp/one");
    m.base_paths = &base;
    m.n_base_paths = 1;
    put_manifest(t, "tables/t/tree/exp/one", 1, true, &m);
    put_manifest(t, "tables/t/tree/exp/one", 2, true, &m);
    put_text(t, "tables/t/_refs/branches/exp%2Fone.json",
             "{\"parentBranch\":null,\"identifier\":{\"version_mapping\":[[1,\"0123456789abcdef0123456789abcdef\"]]},"
             "\"parentVersion\":1,\"createAt\":1700000000,\"manifestSize\":5}");
    put_text(t, "tables/t/_refs/tags/b.json", "{\"branch\":\"exp/one\",\"version\":1,\"manifestSize\":7}");
    table_ok(t, open_ref(t, &(struct version_ref){.branch = "exp/one", .as_of_ns = INT64_MIN}, &s));
    assert_int_equal(s->version, 2);
    assert_string_equal(s->at.branch, "exp/one");
    assert_string_equal(s->at.path, "tables/t/tree/exp/one");
    /* The base is gone, as after a move: the branch's own root stands in. */
    pennon_store *store;
    char *path;
    table_ok(t, base_locate(&t->call, s, 0, &store, &path, &t->base.err));
    assert_string_equal(path, "tables/t");
    mem_free(t->base.mem, path);
    pennon_store_free(store);
    snapshot_release(s);
    table_ok(t, open_ref(t, &(struct version_ref){.tag = "b", .as_of_ns = INT64_MIN}, &s));
    assert_int_equal(s->version, 1);
    assert_string_equal(s->at.branch, "exp/one");
    snapshot_release(s);
    assert_int_equal(open_ref(t, &(struct version_ref){.branch = "exp/two", .as_of_ns = INT64_MIN}, &s), PENNON_NOT_FOUND);
    assert_string_equal(t->base.err.kind, "RefNotFound");
    assert_int_equal(open_ref(t, &(struct version_ref){.branch = "../x", .as_of_ns = INT64_MIN}, &s), PENNON_INVALID_ARGUMENT);
    table_ok(t, list_branches(&t->call, &t->at, &branches, &n, &t->base.err));
    assert_int_equal(n, 1);
    assert_string_equal(branches[0].name, "exp/one");
    assert_int_equal(branches[0].version, 1);
    ref_entries_free(t->base.mem, branches, n);
    /* By its own URI: its root, its tags, the way back to main. */
    table_ok(t, table_locate(&t->call, "memory://tables/t/tree/exp/one/", &at, &t->base.err));
    assert_string_equal(at.branch, "exp/one");
    table_ok(t,
             snapshot_open(&t->call, &at, &(struct version_ref){.branch = "main", .as_of_ns = INT64_MIN}, NULL, &s, &t->base.err));
    assert_null(s->at.branch);
    assert_string_equal(s->at.path, "tables/t");
    snapshot_release(s);
    table_ok(t, snapshot_open(&t->call, &at, NULL, NULL, &s, &t->base.err));
    assert_string_equal(s->at.branch, "exp/one");
    snapshot_release(s);
    table_ok(t, list_tags(&t->call, &at, &branches, &n, &t->base.err));
    assert_int_equal(n, 1);
    ref_entries_free(t->base.mem, branches, n);
    table_location_free(t->base.mem, &at);
    /* A relative base is the branch's own root when it has its name. */
    base.path = bytes_str("tables/t");
    put_manifest(t, "tables/t/tree/exp/one", 3, true, &m);
    table_ok(t, open_ref(t, &(struct version_ref){.branch = "exp/one", .as_of_ns = INT64_MIN}, &s));
    table_ok(t, base_locate(&t->call, s, 0, &store, &path, &t->base.err));
    assert_string_equal(path, "tables/t");
    mem_free(t->base.mem, path);
    pennon_store_free(store);
    snapshot_release(s);
    base.path = bytes_str("other");
    put_manifest(t, "tables/t/tree/exp/one", 4, true, &m);
    table_ok(t, open_ref(t, &(struct version_ref){.branch = "exp/one", .as_of_ns = INT64_MIN}, &s));
    assert_int_equal(base_locate(&t->call, s, 0, &store, &path, &t->base.err), PENNON_CORRUPT);
    snapshot_release(s);
    /* A manifest of another branch in its place. */
    m.branch = bytes_str("other");
    put_manifest(t, "tables/t/tree/exp/one", 5, true, &m);
    assert_int_equal(open_ref(t, &(struct version_ref){.branch = "exp/one", .as_of_ns = INT64_MIN}, &s), PENNON_CORRUPT);
}

/* ---- fragments ---- */

static int32_t id_0[] = {0};
static struct data_file_message file_a[] = {{.path = {(const uint8_t *)"a.lance", 7},
                                             .fields = id_0,
                                             .n_fields = 1,
                                             .column_indices = id_0,
                                             .n_column_indices = 1,
                                             .file_major_version = 2,
                                             .file_minor_version = 1,
                                             .file_size_bytes = 9}};

/* Three deleted rows as an array container: 1, 5, 9. */
static const uint8_t three_gone[] = {0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 16, 0, 0, 0, 1, 0, 5, 0, 9, 0};

static struct snapshot *open_fragments(struct table_fixture *t, struct fragment_message *list, size_t n, uint64_t flags)
{
    struct manifest_message m = plain_manifest(1);
    struct snapshot *s;
    m.fragments = list;
    m.n_fragments = n;
    m.reader_feature_flags = flags;
    put_manifest(t, t->at.path, 1, true, &m);
    table_ok(t, open_ref(t, NULL, &s));
    return s;
}

static pennon_status ten_rows(void *ctx, const struct call *c, struct snapshot *s, const struct data_file *f, uint64_t *rows,
                              pennon_error *err)
{
    UNUSED(c);
    UNUSED(s);
    UNUSED(err);
    assert_string_equal(f->path, "a.lance");
    ++*(int *)ctx;
    *rows = 10;
    return PENNON_OK;
}

static void test_table_fragment__deletions_and_counts(void **state)
{
    struct table_fixture *t = *state;
    struct deletion_file_message known = {.file_type = 1, .read_version = 4, .id = UINT64_MAX, .num_deleted_rows = 3},
                                 unknown = known;
    unknown.num_deleted_rows = 0;
    struct fragment_message list[] = {{.files = file_a, .n_files = 1, .physical_rows = 10, .deletion_file = &known},
                                      {.id = 7, .files = file_a, .n_files = 1, .deletion_file = &unknown},
                                      {.id = 8, .files = file_a, .n_files = 1, .physical_rows = 10}};
    struct snapshot *s = open_fragments(t, list, 3, 0);
    struct deletion_vector *d = NULL, *again = NULL;
    struct store_stats before, after;
    uint64_t rows;
    int asked = 0;
    assert_int_equal(fragment_deletions(&t->call, s, &s->fragments[0], &d, &t->base.err), PENNON_NOT_FOUND);
    put_object(t, "tables/t/_deletions/0-4-18446744073709551615.bin", three_gone, sizeof three_gone);
    put_object(t, "tables/t/_deletions/7-4-18446744073709551615.bin", three_gone, sizeof three_gone);
    table_ok(t, fragment_deletions(&t->call, s, &s->fragments[0], &d, &t->base.err));
    assert_int_equal(deletion_vector_count(d), 3);
    store_stats(t->store, &before);
    table_ok(t, fragment_deletions(&t->call, s, &s->fragments[0], &again, &t->base.err));
    store_stats(t->store, &after);
    assert_ptr_equal(d, again);
    assert_int_equal(before.requests, after.requests);
    deletion_vector_release(again);
    table_ok(t, fragment_live_rows(&t->call, s, &s->fragments[0], ten_rows, &asked, &rows, &t->base.err));
    assert_int_equal(rows, 7);
    assert_int_equal(asked, 0);
    table_ok(t, fragment_live_rows(&t->call, s, &s->fragments[1], ten_rows, &asked, &rows, &t->base.err));
    assert_int_equal(rows, 7);
    assert_int_equal(asked, 1);
    table_ok(t, fragment_live_rows(&t->call, s, &s->fragments[2], ten_rows, &asked, &rows, &t->base.err));
    assert_int_equal(rows, 10);
    table_ok(t, fragment_deletions(&t->call, s, &s->fragments[2], &again, &t->base.err));
    assert_null(again);
    /* The vector outlives the snapshot. */
    snapshot_release(s);
    assert_true(deletion_vector_contains(d, 9));
    deletion_vector_release(d);
}

static void test_table_fragment__deletions_refused(void **state)
{
    struct table_fixture *t = *state;
    static const struct {
        const char *what;
        uint64_t rows, count;
        uint32_t type;
        pennon_status st;
    } cases[] = {{"count differs", 10, 4, 1, PENNON_CORRUPT},
                 {"row past the end", 9, 3, 1, PENNON_CORRUPT},
                 {"unknown type", 10, 3, 2, PENNON_NOT_SUPPORTED},
                 {"no Arrow file", 10, 3, 0, PENNON_CORRUPT},
                 {"good", 10, 3, 1, PENNON_OK}};
    put_object(t, "tables/t/_deletions/0-0-0.bin", three_gone, sizeof three_gone);
    put_object(t, "tables/t/_deletions/0-0-0.arrow", three_gone, sizeof three_gone);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct deletion_file_message file = {.file_type = cases[i].type, .num_deleted_rows = cases[i].count};
        struct fragment_message one = {.files = file_a, .n_files = 1, .physical_rows = cases[i].rows, .deletion_file = &file};
        struct snapshot *s = open_fragments(t, &one, 1, 0);
        struct deletion_vector *d = NULL;
        pennon_status st = fragment_deletions(&t->call, s, &s->fragments[0], &d, &t->base.err);
        if (st != cases[i].st) fail_msg("%s: status %d %s", cases[i].what, st, t->base.err.message);
        deletion_vector_release(d);
        snapshot_release(s);
    }
}

/* Releases up to 0.31 wrote row ids for offsets on tables with stable row ids, but no created-at versions. */
static void test_table_fragment__deletions_past_the_end(void **state)
{
    struct table_fixture *t = *state;
    struct buf ids, versions;
    buf_init(&ids, t->base.mem, 1 << 16);
    buf_init(&versions, t->base.mem, 1 << 16);
    table_ok(t, row_id_range_encode(0, 9, &ids, &t->base.err));
    table_ok(t, version_run_encode(1, 9, &versions, &t->base.err));
    put_object(t, "tables/t/_deletions/0-0-0.bin", three_gone, sizeof three_gone); /* the last one is row 9 */
    for (int stamped = 0; stamped < 2; stamped++) {
        struct deletion_file_message file = {.file_type = 1, .num_deleted_rows = 3};
        struct fragment_message one = {.files = file_a,
                                       .n_files = 1,
                                       .physical_rows = 9,
                                       .deletion_file = &file,
                                       .row_ids_which = 5,
                                       .inline_row_ids = bytes_of(ids.data, ids.size),
                                       .created_which = stamped ? 9 : 0,
                                       .inline_created = bytes_of(versions.data, versions.size)};
        struct snapshot *s = open_fragments(t, &one, 1, FLAG_STABLE_ROW_IDS);
        struct deletion_vector *d = NULL;
        uint64_t live = 0;
        pennon_status st = fragment_deletions(&t->call, s, &s->fragments[0], &d, &t->base.err);
        assert_int_equal(st, stamped ? PENNON_CORRUPT : PENNON_OK);
        if (!stamped) {
            assert_int_equal(deletion_vector_count(d), 2);
            assert_false(deletion_vector_contains(d, 9));
            table_ok(t, fragment_live_rows(&t->call, s, &s->fragments[0], NULL, NULL, &live, &t->base.err));
            assert_int_equal(live, 7);
        }
        deletion_vector_release(d);
        snapshot_release(s);
    }
    buf_free(&ids);
    buf_free(&versions);
}

static pennon_status nine_rows(void *ctx, const struct call *c, struct snapshot *s, const struct data_file *f, uint64_t *rows,
                               pennon_error *err)
{
    UNUSED(ctx);
    UNUSED(c);
    UNUSED(s);
    UNUSED(f);
    UNUSED(err);
    *rows = 9;
    return PENNON_OK;
}

/* A row count that only the data file knows is held against the deletions too. */
static void test_table_fragment__deletions_past_an_unknown_end(void **state)
{
    struct table_fixture *t = *state;
    struct deletion_file_message file = {.file_type = 1, .num_deleted_rows = 3};
    struct fragment_message one = {.files = file_a, .n_files = 1, .deletion_file = &file};
    struct deletion_vector *d = NULL;
    uint64_t live = 0;
    put_object(t, "tables/t/_deletions/0-0-0.bin", three_gone, sizeof three_gone); /* the last one is row 9 */
    struct snapshot *s = open_fragments(t, &one, 1, 0);
    table_ok(t, fragment_deletions(&t->call, s, &s->fragments[0], &d, &t->base.err));
    deletion_vector_release(d);
    assert_int_equal(fragment_live_rows(&t->call, s, &s->fragments[0], nine_rows, NULL, &live, &t->base.err), PENNON_CORRUPT);
    snapshot_release(s);
}

static struct bytes range_bytes(struct table_fixture *t, uint64_t start, uint64_t n, struct buf *out)
{
    table_ok(t, row_id_range_encode(start, n, out, &t->base.err));
    return bytes_of(out->data, out->size);
}

static void test_table_fragment__row_ids_and_versions(void **state)
{
    struct table_fixture *t = *state;
    struct buf ids, moved, versions;
    struct deletion_file_message gone = {.file_type = 1, .num_deleted_rows = 3};
    static const uint64_t moved_ids[] = {5, 1, 40};
    uint64_t got[8], addresses[8];
    buf_init(&ids, t->base.mem, 1 << 16);
    buf_init(&moved, t->base.mem, 1 << 16);
    buf_init(&versions, t->base.mem, 1 << 16);
    table_ok(t, version_run_encode(6, 3, &versions, &t->base.err));
    table_ok(t, row_id_sequence_encode(t->base.mem, moved_ids, 3, &moved, &t->base.err));
    struct fragment_message list[] = {{.files = file_a,
                                       .n_files = 1,
                                       .physical_rows = 10,
                                       .deletion_file = &gone,
                                       .row_ids_which = 5,
                                       .inline_row_ids = range_bytes(t, 0, 10, &ids)},
                                      {.id = 4,
                                       .files = file_a,
                                       .n_files = 1,
                                       .physical_rows = 3,
                                       .row_ids_which = 5,
                                       .inline_row_ids = bytes_of(moved.data, moved.size),
                                       .last_updated_which = 7,
                                       .inline_last_updated = bytes_of(versions.data, versions.size)}};
    put_object(t, "tables/t/_deletions/0-0-0.bin", three_gone, sizeof three_gone);
    struct snapshot *s = open_fragments(t, list, 2, FLAG_STABLE_ROW_IDS | FLAG_DELETIONS);
    table_ok(t, fragment_fill_row_ids(&t->call, s, &s->fragments[0], 3, 2, got, &t->base.err));
    assert_int_equal(got[1], 4);
    table_ok(t, fragment_fill_row_ids(&t->call, s, &s->fragments[1], 0, 3, got, &t->base.err));
    assert_memory_equal(got, moved_ids, sizeof moved_ids);
    assert_int_equal(fragment_fill_row_ids(&t->call, s, &s->fragments[1], 2, 2, got, &t->base.err), PENNON_CORRUPT);
    table_ok(t, fragment_fill_versions(&t->call, s, &s->fragments[1], LINEAGE_LAST_UPDATED_AT, 0, 3, got, &t->base.err));
    assert_int_equal(got[2], 6);
    table_ok(t, fragment_fill_versions(&t->call, s, &s->fragments[1], LINEAGE_CREATED_AT, 0, 3, got, &t->base.err));
    assert_int_equal(got[2], 1);
    /* 1 and 5 moved to fragment 4, 9 is deleted, 40 is new, 11 never was. */
    static const uint64_t asked[] = {0, 1, 5, 9, 40, 11, 8, UINT64_MAX};
    static const uint64_t want[] = {0, UINT64_C(4) << 32 | 1, UINT64_C(4) << 32, ADDRESS_NONE, UINT64_C(4) << 32 | 2, ADDRESS_NONE,
                                    8, ADDRESS_NONE};
    table_ok(t, resolve_row_ids(&t->call, s, asked, 8, addresses, &t->base.err));
    assert_memory_equal(addresses, want, sizeof want);
    table_ok(t, resolve_row_ids(&t->call, s, asked, 8, addresses, &t->base.err));
    assert_memory_equal(addresses, want, sizeof want);
    snapshot_release(s);
    /* Without the deletions 1 is live twice. */
    list[0].deletion_file = NULL;
    s = open_fragments(t, list, 2, FLAG_STABLE_ROW_IDS);
    assert_int_equal(resolve_row_ids(&t->call, s, asked, 8, addresses, &t->base.err), PENNON_CORRUPT);
    assert_non_null(strstr(t->base.err.message, "row id 1 "));
    snapshot_release(s);
    buf_free(&ids);
    buf_free(&moved);
    buf_free(&versions);
}

static void test_table_fragment__row_ids_of_another_length(void **state)
{
    struct table_fixture *t = *state;
    struct buf ids;
    uint64_t got[1];
    buf_init(&ids, t->base.mem, 1 << 16);
    struct fragment_message one = {
        .files = file_a, .n_files = 1, .physical_rows = 10, .row_ids_which = 5, .inline_row_ids = range_bytes(t, 0, 9, &ids)};
    struct snapshot *s = open_fragments(t, &one, 1, FLAG_STABLE_ROW_IDS);
    assert_int_equal(fragment_fill_row_ids(&t->call, s, &s->fragments[0], 0, 1, got, &t->base.err), PENNON_CORRUPT);
    snapshot_release(s);
    /* In a file of its own. */
    struct external_file_message external = {.path = bytes_str("ids/x"), .offset = 2, .size = ids.size};
    put_object(t, "tables/t/ids/x", "??", 2);
    struct buf file;
    buf_init(&file, t->base.mem, 1 << 16);
    table_ok(t, buf_append(&file, "??", 2, &t->base.err));
    table_ok(t, buf_append(&file, ids.data, ids.size, &t->base.err));
    put_object(t, "tables/t/ids/x", file.data, file.size);
    one = (struct fragment_message){
        .files = file_a, .n_files = 1, .physical_rows = 9, .row_ids_which = 6, .external_row_ids = &external};
    s = open_fragments(t, &one, 1, FLAG_STABLE_ROW_IDS);
    table_ok(t, fragment_fill_row_ids(&t->call, s, &s->fragments[0], 8, 1, got, &t->base.err));
    assert_int_equal(got[0], 8);
    snapshot_release(s);
    buf_free(&file);
    buf_free(&ids);
}

static void test_table_fragment__addresses_without_stable_ids(void **state)
{
    struct table_fixture *t = *state;
    struct deletion_file_message gone = {.file_type = 1, .num_deleted_rows = 3};
    struct fragment_message list[] = {{.id = 2, .files = file_a, .n_files = 1, .physical_rows = 10, .deletion_file = &gone}};
    put_object(t, "tables/t/_deletions/2-0-0.bin", three_gone, sizeof three_gone);
    struct snapshot *s = open_fragments(t, list, 1, FLAG_DELETIONS);
    const struct row_id_sequence *r;
    const uint64_t two = UINT64_C(2) << 32;
    uint64_t got[5];
    const uint64_t asked[] = {two, two | 5, two | 9, two | 10, 3};
    const uint64_t want[] = {two, ADDRESS_NONE, ADDRESS_NONE, ADDRESS_NONE, ADDRESS_NONE};
    table_ok(t, fragment_row_ids(&t->call, s, &s->fragments[0], &r, &t->base.err));
    assert_null(r);
    table_ok(t, fragment_fill_row_ids(&t->call, s, &s->fragments[0], 4, 1, got, &t->base.err));
    assert_true(got[0] == (two | 4));
    table_ok(t, resolve_row_ids(&t->call, s, asked, 5, got, &t->base.err));
    assert_memory_equal(got, want, sizeof want);
    snapshot_release(s);
}

/* ---- places ---- */

static void check_place(struct table_fixture *t, struct snapshot *s, const char *want)
{
    pennon_store *store = NULL;
    char *path = NULL;
    table_ok(t, snapshot_load_fragments(s, &t->base.err));
    table_ok(t, data_file_locate(&t->call, s, &s->fragments[0].files[0], &store, &path, &t->base.err));
    assert_string_equal(path, want);
    mem_free(t->base.mem, path);
    pennon_store_free(store);
}

static void test_table_places__names(void **state)
{
    struct table_fixture *t = *state;
    static const struct {
        const char *name, *path;
    } cases[] = {{"a.lance", "tables/t/data/a.lance"}, {"a b.lance", "tables/t/data/a b.lance"},
                 {"a%b", "tables/t/data/a%25b"},       {"..", "tables/t/data/%2E%2E"},
                 {"../x", "tables/t/data/..%2Fx"},     {"/etc/passwd", "tables/t/data/%2Fetc%2Fpasswd"},
                 {"\xc3\xa9", "tables/t/data/%C3%A9"}};
    put_text(t, "tables/t/data/a%25b", "x");
    put_text(t, "tables/t/data/%C3%A9", "x");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct data_file_message file = file_a[0];
        struct fragment_message one = {.files = &file, .n_files = 1, .physical_rows = 1};
        file.path = bytes_str(cases[i].name);
        struct snapshot *s = open_fragments(t, &one, 1, 0);
        check_place(t, s, cases[i].path);
        snapshot_release(s);
    }
    /* A writer that did not escape: its file is found, but never outside. */
    put_text(t, "tables/t/data/sub/y", "x");
    struct data_file_message file = file_a[0];
    struct fragment_message one = {.files = &file, .n_files = 1, .physical_rows = 1};
    file.path = bytes_str("sub/y");
    struct snapshot *s = open_fragments(t, &one, 1, 0);
    check_place(t, s, "tables/t/data/sub/y");
    snapshot_release(s);
}

static void test_table_places__external_rule(void **state)
{
    struct table_fixture *t = *state;
    static const char *const prefixes[] = {"memory://other", "/nowhere/"};
    static const struct {
        struct external_rule rule;
        const char *base;
        bool root;
        const char *path; /* NULL = refused */
        pennon_status st;
    } cases[] = {
        {{.policy = EXTERNAL_SAME_STORE}, "memory://other/u", true, "other/u/data/a.lance", PENNON_OK},
        {{.policy = EXTERNAL_SAME_STORE}, "memory://other/u/", false, "other/u/a.lance", PENNON_OK},
        {{.policy = EXTERNAL_SAME_STORE}, "/tmp/elsewhere", true, NULL, PENNON_INVALID_ARGUMENT},
        {{.policy = EXTERNAL_ALL}, "/tmp/elsewhere", true, "tmp/elsewhere/data/a.lance", PENNON_OK},
        {{.policy = EXTERNAL_NONE}, "memory://other/u", true, NULL, PENNON_INVALID_ARGUMENT},
        {{.policy = EXTERNAL_LIST, .prefixes = prefixes, .n_prefixes = 2},
         "memory://other/u",
         true,
         "other/u/data/a.lance",
         PENNON_OK},
        {{.policy = EXTERNAL_LIST, .prefixes = prefixes, .n_prefixes = 2},
         "memory://others/u",
         true,
         NULL,
         PENNON_INVALID_ARGUMENT},
        {{.policy = EXTERNAL_LIST, .prefixes = prefixes, .n_prefixes = 2}, "/nowhere/x", true, "nowhere/x/data/a.lance", PENNON_OK},
        {{.policy = EXTERNAL_ALL}, "relative/x", true, NULL, PENNON_CORRUPT},
        {{.policy = EXTERNAL_ALL}, "ftp://x/y", true, NULL, PENNON_NOT_SUPPORTED},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct base_path_message base = {.id = 3, .is_dataset_root = cases[i].root, .path = bytes_str(cases[i].base)};
        struct data_file_message file = file_a[0];
        struct fragment_message one = {.files = &file, .n_files = 1, .physical_rows = 1};
        struct manifest_message m = plain_manifest(1);
        struct snapshot *s = NULL;
        pennon_store *store = NULL;
        char *path = NULL;
        file.has_base_id = true;
        file.base_id = 3;
        m.base_paths = &base;
        m.n_base_paths = 1;
        m.fragments = &one;
        m.n_fragments = 1;
        put_manifest(t, t->at.path, 1, true, &m);
        table_ok(t, snapshot_open(&t->call, &t->at, NULL, &cases[i].rule, &s, &t->base.err));
        table_ok(t, snapshot_load_fragments(s, &t->base.err));
        pennon_status st = data_file_locate(&t->call, s, &s->fragments[0].files[0], &store, &path, &t->base.err);
        if (st != cases[i].st) fail_msg("case %zu: status %d %s", i, st, t->base.err.message);
        if (st == PENNON_OK) {
            assert_string_equal(path, cases[i].path);
        } else if (st == PENNON_INVALID_ARGUMENT) {
            assert_string_equal(t->base.err.kind, "ExternalPathRefused");
            assert_non_null(strstr(t->base.err.message, "external_paths"));
        }
        mem_free(t->base.mem, path);
        pennon_store_free(store);
        snapshot_release(s);
    }
}

/* A table with base 3 "memory://other/u", opened by a rule. */
static struct snapshot *open_with_base(struct table_fixture *t, const struct external_rule *rule)
{
    struct base_path_message bases[] = {{.id = 3, .path = bytes_str("memory://other/u")},
                                        {.id = 4, .path = bytes_str("memory://other/u/in")}};
    struct manifest_message m = plain_manifest(1);
    struct snapshot *s = NULL;
    m.base_paths = bases;
    m.n_base_paths = 2;
    put_manifest(t, t->at.path, 1, true, &m);
    table_ok(t, snapshot_open(&t->call, &t->at, NULL, rule, &s, &t->base.err));
    return s;
}

static void test_table_places__external_blobs(void **state)
{
    struct table_fixture *t = *state;
    static const char *const prefixes[] = {"memory://far"};
    static const struct external_rule same = {.policy = EXTERNAL_SAME_STORE}, all = {.policy = EXTERNAL_ALL},
                                      none = {.policy = EXTERNAL_NONE},
                                      list = {.policy = EXTERNAL_LIST, .prefixes = prefixes, .n_prefixes = 1};
    static const struct {
        const struct external_rule *rule;
        uint32_t base;
        const char *uri, *path; /* NULL = refused */
        pennon_status st;
    } cases[] = {
        {&same, 3, "a/b.bin", "other/u/a/b.bin", PENNON_OK},
        {&same, 3, "../t/b.bin", NULL, PENNON_CORRUPT},
        {&same, 3, "a/../../b", NULL, PENNON_CORRUPT},
        {&same, 3, "/etc/passwd", NULL, PENNON_CORRUPT},
        {&same, 3, "a//b", NULL, PENNON_CORRUPT},
        {&same, 3, "", NULL, PENNON_CORRUPT},
        {&same, 3, "\xff", NULL, PENNON_CORRUPT},
        {&same, 9, "a", NULL, PENNON_CORRUPT},
        {&same, 0, "memory://other/u/a", "other/u/a", PENNON_OK},
        {&same, 0, "memory://other/u", NULL, PENNON_INVALID_ARGUMENT},
        {&same, 0, "memory://other/us/a", NULL, PENNON_INVALID_ARGUMENT},
        {&same, 0, "memory://other/u/../x", NULL, PENNON_INVALID_ARGUMENT},
        {&same, 0, "memory://tables/t/data/x", "tables/t/data/x", PENNON_OK},
        {&same, 0, "memory://tables/u/data/x", NULL, PENNON_INVALID_ARGUMENT},
        {&same, 0, "/etc/passwd", NULL, PENNON_INVALID_ARGUMENT},
        {&same, 0, "relative", NULL, PENNON_CORRUPT},
        {&all, 0, "/etc/passwd", "etc/passwd", PENNON_OK},
        {&all, 3, "../b", NULL, PENNON_CORRUPT},
        {&list, 0, "memory://far/a", "far/a", PENNON_OK},
        {&list, 0, "memory://far/../a", NULL, PENNON_INVALID_ARGUMENT},
        {&list, 3, "a", NULL, PENNON_INVALID_ARGUMENT},
        {&none, 0, "memory://other/u/a", NULL, PENNON_INVALID_ARGUMENT},
        {&none, 3, "a", NULL, PENNON_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct snapshot *s = open_with_base(t, cases[i].rule);
        pennon_store *store = NULL;
        char *path = NULL;
        pennon_status st = external_blob_locate(s, &t->call, cases[i].base, bytes_str(cases[i].uri), &store, &path, &t->base.err);
        if (st != cases[i].st) fail_msg("case %zu: status %d %s", i, st, t->base.err.message);
        if (st == PENNON_OK) assert_string_equal(path, cases[i].path);
        if (st != PENNON_OK) assert_true(store == NULL && path == NULL);
        if (st == PENNON_INVALID_ARGUMENT) assert_string_equal(t->base.err.kind, "ExternalPathRefused");
        mem_free(t->base.mem, path);
        pennon_store_free(store);
        snapshot_release(s);
    }
}

static void test_table_places__blob_references(void **state)
{
    struct table_fixture *t = *state;
    static const struct {
        bool table, outside;
        const char *uri;
        uint32_t base;
        const char *stored; /* NULL = refused */
    } cases[] = {
        {true, false, "memory://other/u/a b", 3, "a b"},
        {true, false, "memory://other/u/in/x", 4, "x"}, /* the longest base */
        {true, true, "memory://other/u/in/x", 4, "x"},
        {true, false, "memory://other/x", 0, NULL},
        {true, true, "memory://other/a b\xc3\xa9", 0, "memory://other/a%20b%C3%A9"},
        {false, false, "memory://other/u/x", 0, NULL},
        {false, true, "file:///a/b", 0, "file:///a/b"},
        {false, true, "s3://bucket/key", 0, "s3://bucket/key"},
        {false, false, "s3://bucket/key", 0, NULL},
        {false, true, "file:///a/../b", 0, NULL},
        {false, true, "/a/b", 0, NULL},
    };
    static const struct external_rule all = {.policy = EXTERNAL_ALL};
    struct snapshot *s = open_with_base(t, &all);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf stored;
        uint32_t base = 77;
        buf_init(&stored, t->base.mem, BUF_NO_LIMIT);
        pennon_status st = external_blob_reference(&t->call, cases[i].table ? s : NULL, cases[i].outside, bytes_str(cases[i].uri),
                                                   &base, &stored, &t->base.err);
        if ((st == PENNON_OK) != (cases[i].stored != NULL)) fail_msg("case %zu: status %d %s", i, st, t->base.err.message);
        if (st == PENNON_OK) {
            assert_int_equal(base, cases[i].base);
            assert_true(bytes_equal(bytes_of(stored.data, stored.size), bytes_str(cases[i].stored)));
        }
        buf_free(&stored);
    }
    snapshot_release(s);
}

static void test_table_places__deletion_file_of_a_base(void **state)
{
    struct table_fixture *t = *state;
    struct base_path_message bases[] = {{.id = 0, .is_dataset_root = true, .path = bytes_str("memory://src/t")},
                                        {.id = 1, .path = bytes_str("memory://plain")}};
    for (uint32_t id = 0; id < 2; id++) {
        struct deletion_file_message gone = {.file_type = 1, .num_deleted_rows = 3, .has_base_id = true, .base_id = id};
        struct fragment_message one = {.id = 6, .files = file_a, .n_files = 1, .physical_rows = 10, .deletion_file = &gone};
        struct manifest_message m = plain_manifest(1);
        struct snapshot *s = NULL;
        struct deletion_vector *d = NULL;
        m.base_paths = bases;
        m.n_base_paths = 2;
        m.fragments = &one;
        m.n_fragments = 1;
        put_manifest(t, t->at.path, 1, true, &m);
        put_object(t, "src/t/_deletions/6-0-0.bin", three_gone, sizeof three_gone);
        table_ok(t, open_ref(t, NULL, &s));
        assert_int_equal(fragment_deletions(&t->call, s, &s->fragments[0], &d, &t->base.err), id == 0 ? PENNON_OK : PENNON_CORRUPT);
        deletion_vector_release(d);
        snapshot_release(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TABLE_TEST(test_table_versions__latest),
        TABLE_TEST(test_table_versions__v1_and_mixed),
        TABLE_TEST(test_table_versions__number_in_name_and_content),
        TABLE_TEST(test_table_versions__as_of),
        TABLE_TEST(test_table_refs__tags),
        TABLE_TEST(test_table_refs__branches),
        TABLE_TEST(test_table_fragment__deletions_and_counts),
        TABLE_TEST(test_table_fragment__deletions_refused),
        TABLE_TEST(test_table_fragment__deletions_past_the_end),
        TABLE_TEST(test_table_fragment__deletions_past_an_unknown_end),
        TABLE_TEST(test_table_fragment__row_ids_and_versions),
        TABLE_TEST(test_table_fragment__row_ids_of_another_length),
        TABLE_TEST(test_table_fragment__addresses_without_stable_ids),
        TABLE_TEST(test_table_places__names),
        TABLE_TEST(test_table_places__external_rule),
        TABLE_TEST(test_table_places__external_blobs),
        TABLE_TEST(test_table_places__blob_references),
        TABLE_TEST(test_table_places__deletion_file_of_a_base),
    };
    return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
