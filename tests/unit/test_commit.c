/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Commits: what the new manifests hold, conflicts, races, lost replies, failures at every call. */
#include <pthread.h>
#include <stdio.h>

#include "table/table_private.h"
#include "table_fixture.h"

static int32_t id_0[] = {0};

/* A new fragment of one file of column x. */
struct piece {
    struct data_file_message file;
    struct fragment_message fragment;
};

static void make_piece(struct piece *p, const char *name, uint64_t rows)
{
    p->file = (struct data_file_message){.path = bytes_str(name),
                                         .fields = id_0,
                                         .n_fields = 1,
                                         .column_indices = id_0,
                                         .n_column_indices = 1,
                                         .file_major_version = 2,
                                         .file_minor_version = 1,
                                         .file_size_bytes = 100};
    p->fragment = (struct fragment_message){.id = 77, .files = &p->file, .n_files = 1, .physical_rows = rows};
}

static struct schema *one_column(struct fixture *f)
{
    struct schema *s = NULL;
    assert_ok(f, schema_from_messages(f->mem, &one_field, 1, NULL, 0, false, &s, &f->err));
    return s;
}

static pennon_status commit(struct table_fixture *t, const struct table_location *at, struct snapshot *read,
                            enum commit_operation op, const struct piece *p, const struct commit_options *o, struct snapshot **out)
{
    struct commit_options options;
    commit_options_init(&options);
    struct schema *s = op == COMMIT_OVERWRITE || read == NULL ? one_column(&t->base) : NULL;
    *out = NULL;
    pennon_status st = commit_fragments(&t->call, at, read, op, s, &p->fragment, 1, o ? o : &options, out, &t->base.err);
    schema_release(s);
    return st;
}

static struct snapshot *create(struct table_fixture *t, const struct commit_options *o)
{
    struct piece p;
    struct snapshot *s;
    make_piece(&p, "first.lance", 10);
    table_ok(t, commit(t, &t->at, NULL, COMMIT_OVERWRITE, &p, o, &s));
    return s;
}

static struct snapshot *reopen(struct table_fixture *t, const struct table_location *at)
{
    struct snapshot *s = NULL;
    table_ok(t, snapshot_open(&t->call, at, NULL, NULL, &s, &t->base.err));
    return s;
}

static struct bytes section_of(struct table_fixture *t, const struct snapshot *s, enum section which)
{
    struct bytes out = {0};
    table_ok(t, snapshot_section(&t->call, s, which, &out, &t->base.err));
    return out;
}

struct counting {
    size_t n;
    const char *suffix;
};

static bool count_object(void *ctx, const pennon_object_info *info)
{
    struct counting *c = ctx;
    size_t n = strlen(info->path), k = strlen(c->suffix);
    c->n += n >= k && strcmp(info->path + n - k, c->suffix) == 0;
    return true;
}

static size_t count_objects(struct table_fixture *t, pennon_store *store, const char *folder, const char *suffix)
{
    struct counting c = {.suffix = suffix};
    table_ok(t, store_list(&t->call, store, folder, false, count_object, &c, &t->base.err));
    return c.n;
}

/* ---- what is written ---- */

static void test_table_commit__create(void **state)
{
    struct table_fixture *t = *state;
    for (int stable = 0; stable < 2; stable++) {
        struct commit_options o;
        struct field_pair config = {bytes_str("k"), bytes_str("v")};
        struct table_location at = {0};
        struct piece p;
        struct snapshot *s, *again;
        uint64_t got[2];
        commit_options_init(&o);
        o.stable_row_ids = stable;
        o.v2_names = !stable;
        o.config = &config;
        o.n_config = 1;
        table_ok(t, table_locate(&t->call, stable ? "memory://c/stable" : "memory://c/plain", &at, &t->base.err));
        make_piece(&p, "a.lance", 10);
        table_ok(t, commit(t, &at, NULL, COMMIT_OVERWRITE, &p, &o, &s));
        again = reopen(t, &at);
        assert_int_equal(again->version, 1);
        assert_int_equal(s->version, 1);
        assert_string_equal(s->etag, again->etag);
        assert_int_equal(again->v2_names, !stable);
        assert_int_equal(again->storage_version, STORAGE_2_1);
        assert_int_equal(again->manifest.writer_feature_flags, FLAG_CONFIG | (stable ? FLAG_STABLE_ROW_IDS : 0));
        assert_int_equal(again->manifest.reader_feature_flags, stable ? FLAG_STABLE_ROW_IDS : 0);
        assert_int_equal(again->manifest.next_row_id, stable ? 10 : 0);
        assert_true(bytes_equal(again->manifest.writer_version->library, bytes_str("pennon")));
        assert_true(bytes_equal(again->manifest.writer_version->version, bytes_str(pennon_version())));
        assert_int_equal(again->n_fragments, 1);
        assert_int_equal(again->fragments[0].id, 0);
        assert_true(again->manifest.has_max_fragment_id && again->manifest.max_fragment_id == 0);
        assert_true(again->timestamp_ns > INT64_C(1700000000000000000));
        assert_true(section_of(t, again, SECTION_TRANSACTION).size > 0);
        assert_true(again->manifest.has_transaction_section && again->manifest.transaction_section == 0);
        table_ok(t, fragment_fill_row_ids(&t->call, again, &again->fragments[0], 8, 2, got, &t->base.err));
        assert_int_equal(got[1], 9);
        /* The transaction file holds the same bytes as the section. */
        struct block *txn = NULL;
        char *path = mem_printf(t->base.mem, &t->base.err, "%s/_transactions/%.*s", at.path,
                                (int)again->manifest.transaction_file.size, (const char *)again->manifest.transaction_file.data);
        table_ok(t, store_get(&t->call, t->store, path, 1 << 20, &txn, &t->base.err));
        assert_true(bytes_equal(bytes_of(txn->data, txn->size), section_of(t, again, SECTION_TRANSACTION)));
        block_release(txn);
        mem_free(t->base.mem, path);
        /* A second creation is refused, and leaves nothing. */
        struct snapshot *none;
        assert_int_equal(commit(t, &at, NULL, COMMIT_OVERWRITE, &p, &o, &none), PENNON_ALREADY_EXISTS);
        assert_string_equal(t->base.err.kind, "DatasetAlreadyExists");
        assert_int_equal(count_objects(t, t->store, stable ? "c/stable/_transactions" : "c/plain/_transactions", ".txn"), 1);
        snapshot_release(s);
        snapshot_release(again);
        table_location_free(t->base.mem, &at);
    }
}

static void test_table_commit__empty_table(void **state)
{
    struct table_fixture *t = *state;
    struct commit_options o;
    struct snapshot *s = NULL, *next = NULL;
    struct schema *schema = one_column(&t->base);
    struct piece p;
    commit_options_init(&o);
    o.stable_row_ids = true;
    o.storage_version = STORAGE_2_2;
    table_ok(t, commit_fragments(&t->call, &t->at, NULL, COMMIT_APPEND, schema, NULL, 0, &o, &s, &t->base.err));
    assert_int_equal(s->n_fragments, 0);
    assert_false(s->manifest.has_max_fragment_id);
    assert_int_equal(s->storage_version, STORAGE_2_2);
    assert_true(snapshot_has_stable_ids(s));
    make_piece(&p, "a.lance", 3);
    assert_int_equal(commit(t, &t->at, s, COMMIT_APPEND, &p, NULL, &next), PENNON_INVALID_ARGUMENT); /* 2.1 into 2.2 */
    p.file.file_minor_version = 2;
    table_ok(t, commit(t, &t->at, s, COMMIT_APPEND, &p, NULL, &next));
    assert_int_equal(next->fragments[0].id, 0);
    assert_int_equal(next->manifest.next_row_id, 3);
    snapshot_release(next);
    /* An append of nothing makes a version all the same. */
    commit_options_init(&o);
    table_ok(t, commit_fragments(&t->call, &t->at, s, COMMIT_APPEND, NULL, NULL, 0, &o, &next, &t->base.err));
    assert_int_equal(next->version, 3);
    assert_int_equal(next->n_fragments, 1);
    snapshot_release(next);
    snapshot_release(s);
    schema_release(schema);
}

static void test_table_commit__append_and_overwrite(void **state)
{
    struct table_fixture *t = *state;
    struct commit_options o;
    struct snapshot *s, *next;
    struct piece p;
    uint64_t got[3];
    commit_options_init(&o);
    o.stable_row_ids = true;
    s = create(t, &o);
    make_piece(&p, "b.lance", 3);
    table_ok(t, commit(t, &t->at, s, COMMIT_APPEND, &p, NULL, &next));
    snapshot_release(s);
    assert_int_equal(next->version, 2);
    assert_int_equal(next->n_fragments, 2);
    assert_int_equal(next->fragments[1].id, 1);
    table_ok(t, fragment_fill_row_ids(&t->call, next, &next->fragments[1], 0, 3, got, &t->base.err));
    assert_true(got[0] == 10 && got[2] == 12);
    table_ok(t, fragment_fill_versions(&t->call, next, &next->fragments[1], LINEAGE_CREATED_AT, 0, 3, got, &t->base.err));
    assert_int_equal(got[2], 2);
    table_ok(t, fragment_fill_versions(&t->call, next, &next->fragments[0], LINEAGE_LAST_UPDATED_AT, 0, 1, got, &t->base.err));
    assert_int_equal(got[0], 1);
    s = next;
    struct field_pair config = {bytes_str("k"), bytes_str("2")};
    commit_options_init(&o);
    o.config = &config;
    o.n_config = 1;
    table_ok(t, commit(t, &t->at, s, COMMIT_OVERWRITE, &p, &o, &next));
    assert_int_equal(next->n_fragments, 1);
    assert_int_equal(next->fragments[0].id, 2); /* never an id that was used */
    assert_int_equal(next->manifest.next_row_id, 16);
    assert_int_equal(next->manifest.n_config, 1);
    snapshot_release(s);
    s = next;
    table_ok(t, commit(t, &t->at, s, COMMIT_OVERWRITE, &p, &o, &next));
    assert_int_equal(next->manifest.n_config, 1);
    snapshot_release(s);
    snapshot_release(next);
    assert_int_equal(count_objects(t, t->store, "tables/t/_transactions", ".txn"), 4);
}

/* Everything that this library does not know, or does not change, is in the next version. */
static void test_table_commit__keeps_what_it_does_not_know(void **state)
{
    struct table_fixture *t = *state;
    struct index_metadata_message index = {
        .name = bytes_str("i"), .fields = id_0, .n_fields = 1, .unknown = bytes_of("\xf8\x07\x01", 3)};
    struct index_section_message section = {.indices = &index, .n_indices = 1};
    struct base_path_message base = {.id = 5, .path = bytes_str("memory://b"), .unknown = bytes_of("\xf8\x07\x02", 3)};
    struct deletion_file_message gone = {.file_type = 1, .id = 9, .num_deleted_rows = 2, .unknown = bytes_of("\xf8\x07\x03", 3)};
    struct data_file_message file = {.path = bytes_str("old.lance"),
                                     .fields = (int32_t[]){0, -2},
                                     .n_fields = 2,
                                     .column_indices = (int32_t[]){0, 1},
                                     .n_column_indices = 2,
                                     .file_major_version = 2,
                                     .file_minor_version = 1,
                                     .file_size_bytes = 4,
                                     .unknown = bytes_of("\xf8\x07\x04", 3)};
    struct fragment_message fragment = {
        .id = 3, .files = &file, .n_files = 1, .physical_rows = 8, .deletion_file = &gone, .unknown = bytes_of("\xf8\x07\x05", 3)};
    struct map_entry pair = {.key = bytes_str("a"), .value = bytes_str("b")};
    struct field_message field = one_field;
    struct manifest_message m = plain_manifest(4);
    struct snapshot *s, *next;
    struct piece p;
    struct buf bytes;
    field.unknown = bytes_of("\xf8\x07\x06", 3);
    m.fields = &field;
    m.fragments = &fragment;
    m.n_fragments = 1;
    m.base_paths = &base;
    m.n_base_paths = 1;
    m.config = m.table_metadata = m.schema_metadata = &pair;
    m.n_config = m.n_table_metadata = m.n_schema_metadata = 1;
    m.has_max_fragment_id = true;
    m.max_fragment_id = 11;
    m.tag = bytes_str("a tag of this version only");
    m.version_aux_data = 6;
    m.reader_feature_flags = FLAG_DELETIONS | FLAG_BASE_PATHS | FLAG_MIXED_VERSIONS;
    m.writer_feature_flags = m.reader_feature_flags | FLAG_CONFIG;
    m.unknown = bytes_of("\xf8\x07\x07", 3);
    buf_init(&bytes, t->base.mem, BUF_NO_LIMIT);
    table_ok(t, wire_encode(&index_section_table, &section, &t->base.buf, &t->base.err));
    manifest_bytes(&t->base, &m, bytes_of(t->base.buf.data, t->base.buf.size), bytes_str("\x08"), &bytes);
    put_object(t, "tables/t/_versions/4.manifest", bytes.data, bytes.size);
    buf_free(&bytes);
    s = reopen(t, &t->at);
    make_piece(&p, "new.lance", 2);
    table_ok(t, commit(t, &t->at, s, COMMIT_APPEND, &p, NULL, &next));
    snapshot_release(s);
    snapshot_release(next);
    s = reopen(t, &t->at);
    assert_int_equal(s->version, 5);
    assert_false(s->v2_names);
    assert_true(bytes_equal(section_of(t, s, SECTION_INDICES), bytes_of(t->base.buf.data, t->base.buf.size)));
    assert_true(bytes_equal(s->manifest.unknown, m.unknown));
    assert_true(bytes_equal(s->manifest.fields[0].unknown, field.unknown));
    assert_true(bytes_equal(s->manifest.base_paths[0].unknown, base.unknown));
    table_ok(t, snapshot_load_fragments(s, &t->base.err));
    assert_true(bytes_equal(s->fragments[0].message->unknown, fragment.unknown));
    assert_true(bytes_equal(s->fragments[0].message->files[0].unknown, file.unknown));
    assert_true(bytes_equal(s->fragments[0].deletion->unknown, gone.unknown));
    assert_int_equal(s->fragments[0].id, 3);
    assert_int_equal(s->fragments[1].id, 12);
    assert_int_equal(s->manifest.max_fragment_id, 12);
    assert_int_equal(s->manifest.reader_feature_flags, FLAG_DELETIONS | FLAG_BASE_PATHS | FLAG_MIXED_VERSIONS);
    assert_int_equal(s->manifest.writer_feature_flags, FLAG_DELETIONS | FLAG_BASE_PATHS | FLAG_MIXED_VERSIONS | FLAG_CONFIG);
    assert_int_equal(s->manifest.n_table_metadata, 1);
    assert_int_equal(s->manifest.n_schema_metadata, 1);
    assert_int_equal(s->manifest.tag.size, 0);
    assert_int_equal(s->manifest.version_aux_data, 0);
    /* An overwrite drops the indices and keeps the maps and bases. */
    table_ok(t, commit(t, &t->at, s, COMMIT_OVERWRITE, &p, NULL, &next));
    assert_int_equal(section_of(t, next, SECTION_INDICES).size, 0);
    assert_false(next->manifest.has_index_section);
    assert_int_equal(next->manifest.reader_feature_flags, FLAG_BASE_PATHS | FLAG_MIXED_VERSIONS);
    assert_int_equal(next->manifest.n_config, 1);
    assert_int_equal(next->manifest.n_table_metadata, 1);
    assert_int_equal(next->manifest.n_schema_metadata, 0);
    assert_int_equal(next->fragments[0].id, 13);
    snapshot_release(next);
    snapshot_release(s);
}

static pennon_status twelve_rows(void *ctx, const struct call *c, struct snapshot *s, const struct data_file *f, uint64_t *rows,
                                 pennon_error *err)
{
    UNUSED(c);
    UNUSED(s);
    UNUSED(f);
    UNUSED(err);
    ++*(int *)ctx;
    *rows = 12;
    return PENNON_OK;
}

/* Counts that old writers left out are needed as soon as a newer writer's name stands in the manifest. */
static void test_table_commit__fills_counts(void **state)
{
    struct table_fixture *t = *state;
    struct piece old, p;
    struct manifest_message m = plain_manifest(1);
    struct commit_options o;
    struct snapshot *s, *next;
    struct block *b;
    int asked = 0;
    make_piece(&old, "old.lance", 90);
    make_piece(&p, "new.lance", 2);
    m.fragments = &old.fragment;
    m.n_fragments = 1;
    m.writer_version = NULL;
    b = manifest_block(&t->base, &m);
    put_object(t, "tables/t/_versions/1.manifest", b->data, b->size);
    block_release(b);
    s = reopen(t, &t->at);
    assert_int_equal(commit(t, &t->at, s, COMMIT_APPEND, &p, NULL, &next), PENNON_NOT_SUPPORTED);
    commit_options_init(&o);
    o.length = twelve_rows;
    o.length_ctx = &asked;
    table_ok(t, commit(t, &t->at, s, COMMIT_APPEND, &p, &o, &next));
    assert_int_equal(asked, 1);
    assert_int_equal(next->fragments[0].physical_rows, 12);
    assert_int_equal(next->fragments[0].id, 77);
    assert_int_equal(next->fragments[1].id, 78);
    snapshot_release(next);
    snapshot_release(s);
}

/* New versions list fragments by id; on fragments of one id nothing is built but an overwrite. */
static void test_table_commit__fragments_in_any_order(void **state)
{
    struct table_fixture *t = *state;
    static const uint32_t ids[2][3] = {{7, 2, 5}, {4, 4, 1}};
    for (int doubled = 0; doubled < 2; doubled++) {
        struct piece old[3], p;
        struct fragment_message list[3];
        struct manifest_message m = plain_manifest(1 + 4 * (uint64_t)doubled);
        struct snapshot *s, *next;
        struct block *b;
        for (size_t i = 0; i < 3; i++) {
            make_piece(&old[i], "old.lance", 10 + i);
            list[i] = old[i].fragment;
            list[i].id = ids[doubled][i];
        }
        make_piece(&p, "new.lance", 2);
        m.fragments = list;
        m.n_fragments = 3;
        b = manifest_block(&t->base, &m);
        put_object(t, doubled ? "tables/t/_versions/5.manifest" : "tables/t/_versions/1.manifest", b->data, b->size);
        block_release(b);
        s = reopen(t, &t->at);
        if (doubled) {
            assert_int_equal(commit(t, &t->at, s, COMMIT_APPEND, &p, NULL, &next), PENNON_NOT_SUPPORTED);
            assert_non_null(strstr(t->base.err.message, "two fragments have the same id"));
            table_ok(t, commit(t, &t->at, s, COMMIT_OVERWRITE, &p, NULL, &next));
            assert_int_equal(next->fragments[0].id, 5);
        } else {
            static const uint32_t want[] = {2, 5, 7, 8};
            table_ok(t, commit(t, &t->at, s, COMMIT_APPEND, &p, NULL, &next));
            assert_null(next->by_id);
            for (size_t i = 0; i < 4; i++) assert_int_equal(next->fragments[i].id, want[i]);
            assert_int_equal(next->fragments[0].physical_rows, 11); /* the second of the old list */
        }
        snapshot_release(next);
        snapshot_release(s);
    }
}

static void test_table_commit__refused(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s = create(t, NULL), *next;
    struct piece p;
    struct commit_options o;
    make_piece(&p, "b.lance", 0);
    assert_int_equal(commit(t, &t->at, s, COMMIT_APPEND, &p, NULL, &next), PENNON_INVALID_ARGUMENT);
    make_piece(&p, "b.lance", 3);
    p.file.n_column_indices = 0;
    assert_int_equal(commit(t, &t->at, s, COMMIT_APPEND, &p, NULL, &next), PENNON_INVALID_ARGUMENT);
    make_piece(&p, "b.lance", 3);
    p.fragment.n_files = 0;
    assert_int_equal(commit(t, &t->at, s, COMMIT_APPEND, &p, NULL, &next), PENNON_INVALID_ARGUMENT);
    make_piece(&p, "b.lance", 3);
    p.file.file_minor_version = 0;
    assert_int_equal(commit(t, &t->at, s, COMMIT_APPEND, &p, NULL, &next), PENNON_INVALID_ARGUMENT);
    make_piece(&p, "b.lance", 3);
    commit_options_init(&o);
    o.stable_row_ids = true;
    assert_int_equal(commit(t, &t->at, s, COMMIT_APPEND, &p, &o, &next), PENNON_NOT_SUPPORTED);
    assert_int_equal(count_objects(t, t->store, "tables/t/_transactions", ".txn"), 1);
    assert_int_equal(count_objects(t, t->store, "tables/t/_versions", ".manifest"), 1);
    snapshot_release(s);
    /* Unknown writer flags: also when they come with a version in between. */
    struct manifest_message m = plain_manifest(2);
    struct buf file;
    buf_init(&file, t->base.mem, BUF_NO_LIMIT);
    m.writer_feature_flags = 1 << 16;
    struct transaction_message txn = {.uuid = bytes_str("x"), .which = OPERATION_APPEND};
    table_ok(t, wire_encode(&transaction_table, &txn, &t->base.buf, &t->base.err));
    manifest_bytes(&t->base, &m, bytes_of(NULL, 0), bytes_of(t->base.buf.data, t->base.buf.size), &file);
    s = reopen(t, &t->at);
    put_object(t, "tables/t/_versions/18446744073709551613.manifest", file.data, file.size);
    buf_free(&file);
    assert_int_equal(commit(t, &t->at, s, COMMIT_APPEND, &p, NULL, &next), PENNON_NOT_SUPPORTED);
    assert_non_null(strstr(t->base.err.message, "65536"));
    snapshot_release(s);
    s = reopen(t, &t->at);
    assert_int_equal(s->version, 2);
    assert_int_equal(commit(t, &t->at, s, COMMIT_OVERWRITE, &p, NULL, &next), PENNON_NOT_SUPPORTED);
    snapshot_release(s);
}

static void test_table_commit__legacy_table(void **state)
{
    struct table_fixture *t = *state;
    struct data_format_message legacy = {.file_format = bytes_str("lance"), .version = bytes_str("0.1")};
    struct manifest_message m = plain_manifest(1);
    struct snapshot *s, *next;
    struct piece p;
    m.data_format = &legacy;
    struct block *b = manifest_block(&t->base, &m);
    put_object(t, "tables/t/_versions/1.manifest", b->data, b->size);
    block_release(b);
    s = reopen(t, &t->at);
    make_piece(&p, "b.lance", 3);
    assert_int_equal(commit(t, &t->at, s, COMMIT_APPEND, &p, NULL, &next), PENNON_NOT_SUPPORTED);
    table_ok(t, commit(t, &t->at, s, COMMIT_OVERWRITE, &p, NULL, &next));
    assert_int_equal(next->storage_version, STORAGE_2_1);
    snapshot_release(next);
    snapshot_release(s);
}

static void test_table_commit__data_file_names(void **state)
{
    struct table_fixture *t = *state;
    char a[57], b[57];
    table_ok(t, data_file_name(a, &t->base.err));
    table_ok(t, data_file_name(b, &t->base.err));
    assert_int_equal(strlen(a), 56);
    assert_true(strspn(a, "01") >= 24);
    assert_int_equal(strspn(a + 24, "0123456789abcdef"), 26);
    assert_string_equal(a + 50, ".lance");
    assert_string_not_equal(a, b);
}

/* ---- conflicts ---- */

/* Version 2 by another writer: one operation with the given body; the manifest is `m`. */
static void put_other(struct table_fixture *t, struct manifest_message *m, uint32_t which, struct bytes body, bool as_file)
{
    struct transaction_message txn = {.read_version = 1, .uuid = bytes_str("00000000-0000-4000-8000-000000000000"), .which = which};
    struct buf file, encoded;
    buf_init(&file, t->base.mem, BUF_NO_LIMIT);
    buf_init(&encoded, t->base.mem, BUF_NO_LIMIT);
    if (which != 0) txn.operation[which - OPERATION_APPEND] = body;
    table_ok(t, wire_encode(&transaction_table, &txn, &encoded, &t->base.err));
    struct bytes section = bytes_of(encoded.data, which != 0 && !as_file ? encoded.size : 0);
    if (as_file) {
        m->transaction_file = bytes_str("1-x.txn");
        put_object(t, "tables/t/_transactions/1-x.txn", encoded.data, encoded.size);
    }
    manifest_bytes(&t->base, m, bytes_of(NULL, 0), section, &file);
    put_object(t, "tables/t/_versions/18446744073709551613.manifest", file.data, file.size);
    buf_free(&file);
    buf_free(&encoded);
}

struct conflict_case {
    uint32_t which; /* theirs; 0 = no transaction */
    const char *body;
    pennon_status append, overwrite;
};

static const struct conflict_case CONFLICTS[] = {
    {OPERATION_APPEND, "", PENNON_OK, PENNON_OK},
    {OPERATION_DELETE, "", PENNON_OK, PENNON_OK},
    {OPERATION_OVERWRITE, "", PENNON_CONFLICT_FINAL, PENNON_CONFLICT},
    {OPERATION_CREATE_INDEX, "", PENNON_OK, PENNON_OK},
    {OPERATION_REWRITE, "", PENNON_OK, PENNON_OK},
    {OPERATION_MERGE, "", PENNON_OK, PENNON_OK},
    {OPERATION_RESTORE, "", PENNON_CONFLICT_FINAL, PENNON_OK},
    {OPERATION_RESERVE_FRAGMENTS, "", PENNON_OK, PENNON_OK},
    {OPERATION_UPDATE, "", PENNON_OK, PENNON_OK},
    {OPERATION_PROJECT, "", PENNON_OK, PENNON_OK},
    {OPERATION_UPDATE_CONFIG, "", PENNON_OK, PENNON_OK},
    {OPERATION_DATA_REPLACEMENT, "", PENNON_OK, PENNON_OK},
    {OPERATION_UPDATE_MEM_WAL_STATE, "", PENNON_CONFLICT_FINAL, PENNON_CONFLICT_FINAL},
    {OPERATION_CLONE, "", PENNON_OK, PENNON_OK},
    {OPERATION_UPDATE_BASES, "", PENNON_OK, PENNON_OK},
    {0, "", PENNON_CONFLICT, PENNON_CONFLICT},
};

static void test_table_conflict__matrix(void **state)
{
    struct table_fixture *t = *state;
    for (size_t i = 0; i < ARRAY_LEN(CONFLICTS); i++) {
        for (int mine = 0; mine < 2; mine++) {
            for (int as_file = 0; as_file < 2; as_file++) {
                struct manifest_message m = plain_manifest(2);
                struct piece first, p;
                struct snapshot *s = create(t, NULL), *next;
                make_piece(&first, "first.lance", 10);
                first.fragment.id = 0;
                m.fragments = &first.fragment;
                m.n_fragments = 1;
                put_other(t, &m, CONFLICTS[i].which, bytes_str(CONFLICTS[i].body), as_file && CONFLICTS[i].which);
                make_piece(&p, "b.lance", 3);
                pennon_status want = mine ? CONFLICTS[i].overwrite : CONFLICTS[i].append;
                pennon_status st = commit(t, &t->at, s, mine ? COMMIT_OVERWRITE : COMMIT_APPEND, &p, NULL, &next);
                if (st != want)
                    fail_msg("operation %u, mine %d: status %d (%s)", CONFLICTS[i].which, mine, st, st ? t->base.err.message : "");
                if (st == PENNON_CONFLICT) assert_string_equal(t->base.err.kind, "RetryableCommitConflict");
                if (st == PENNON_CONFLICT_FINAL) assert_string_equal(t->base.err.kind, "IncompatibleTransaction");
                if (st == PENNON_OK) {
                    assert_int_equal(next->version, 3);
                    assert_int_equal(next->n_fragments, mine ? 1 : 2);
                }
                snapshot_release(next);
                snapshot_release(s);
                static const char *const names[] = {"18446744073709551614", "18446744073709551613", "18446744073709551612"};
                for (size_t k = 0; k < (st == PENNON_OK ? 3u : 2u); k++) {
                    char path[80];
                    (void)snprintf(path, sizeof path, "tables/t/_versions/%s.manifest", names[k]);
                    table_ok(t, store_delete(&t->call, t->store, path, &t->base.err));
                }
            }
        }
    }
}

static void test_table_conflict__config_keys(void **state)
{
    struct table_fixture *t = *state;
    static const struct {
        uint32_t which;
        const char *body;
        size_t n;
        pennon_status st;
    } cases[] = {
        {OPERATION_OVERWRITE, "\x22\x06\x0a\x01k\x12\x01v", 8, PENNON_CONFLICT_FINAL},
        {OPERATION_OVERWRITE, "\x22\x06\x0a\x01z\x12\x01v", 8, PENNON_CONFLICT},
        {OPERATION_UPDATE_CONFIG, "\x32\x05\x0a\x03\x0a\x01k", 7, PENNON_CONFLICT_FINAL},
        {OPERATION_UPDATE_CONFIG, "\x32\x05\x0a\x03\x0a\x01z", 7, PENNON_OK},
        {OPERATION_UPDATE_CONFIG, "\x32\x02\x10\x01", 4, PENNON_CONFLICT_FINAL},
        {OPERATION_UPDATE_CONFIG, "\x12\x01k", 3, PENNON_CONFLICT_FINAL},
        {OPERATION_UPDATE_CONFIG, "\x0a\x06\x0a\x01k\x12\x01v", 8, PENNON_CONFLICT_FINAL},
        {OPERATION_UPDATE_CONFIG, "\x3a\x05\x0a\x03\x0a\x01k", 7, PENNON_OK}, /* table metadata, not config */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct manifest_message m = plain_manifest(2);
        struct field_pair config = {bytes_str("k"), bytes_str("1")};
        struct commit_options o;
        struct piece p;
        struct snapshot *s = create(t, NULL), *next;
        commit_options_init(&o);
        o.config = &config;
        o.n_config = 1;
        put_other(t, &m, cases[i].which, bytes_of(cases[i].body, cases[i].n), false);
        make_piece(&p, "b.lance", 3);
        pennon_status st = commit(t, &t->at, s, COMMIT_OVERWRITE, &p, &o, &next);
        if (st != cases[i].st) fail_msg("case %zu: status %d (%s)", i, st, t->base.err.message);
        snapshot_release(next);
        snapshot_release(s);
        for (uint64_t v = 1; v <= 3; v++) {
            char *path = manifest_path(t->base.mem, t->at.path, v, true, &t->base.err);
            (void)!store_delete(&t->call, t->store, path, &t->base.err);
            mem_free(t->base.mem, path);
        }
    }
}

/* An append over a changed schema: rows that no longer fit are a conflict. */
static void test_table_conflict__schema_changes(void **state)
{
    struct table_fixture *t = *state;
    struct field_message dropped[] = {
        {.name = bytes_str("y"), .id = 1, .parent_id = -1, .logical_type = bytes_str("int64"), .nullable = true}};
    struct field_message added[] = {
        one_field, {.name = bytes_str("y"), .id = 1, .parent_id = -1, .logical_type = bytes_str("int64"), .nullable = true}};
    struct field_message added_not_null[] = {
        one_field, {.name = bytes_str("y"), .id = 1, .parent_id = -1, .logical_type = bytes_str("int64")}};
    struct field_message cast[] = {
        {.name = bytes_str("x"), .id = 1, .parent_id = -1, .logical_type = bytes_str("string"), .nullable = true}};
    struct field_message not_null[] = {one_field};
    struct field_message renamed[] = {one_field};
    not_null[0].nullable = false;
    renamed[0].name = bytes_str("z");
    const struct {
        const char *what;
        struct field_message *fields;
        size_t n;
        pennon_status st;
    } cases[] = {{"dropped", dropped, 1, PENNON_OK},
                 {"added", added, 2, PENNON_OK},
                 {"added not null", added_not_null, 2, PENNON_CONFLICT},
                 {"cast", cast, 1, PENNON_CONFLICT},
                 {"set not null", not_null, 1, PENNON_CONFLICT},
                 {"renamed", renamed, 1, PENNON_OK}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct manifest_message m = plain_manifest(2);
        struct piece p;
        struct snapshot *s = create(t, NULL), *next;
        m.fields = cases[i].fields;
        m.n_fields = cases[i].n;
        put_other(t, &m, OPERATION_PROJECT, bytes_of(NULL, 0), false);
        make_piece(&p, "b.lance", 3);
        pennon_status st = commit(t, &t->at, s, COMMIT_APPEND, &p, NULL, &next);
        if (st != cases[i].st) fail_msg("%s: status %d (%s)", cases[i].what, st, t->base.err.message);
        if (st == PENNON_OK) assert_int_equal(next->schema->n_all, cases[i].n);
        snapshot_release(next);
        snapshot_release(s);
        for (uint64_t v = 1; v <= 3; v++) {
            char *path = manifest_path(t->base.mem, t->at.path, v, true, &t->base.err);
            (void)!store_delete(&t->call, t->store, path, &t->base.err);
            mem_free(t->base.mem, path);
        }
    }
}

static void test_table_conflict__strict_overwrite_and_old_reads(void **state)
{
    struct table_fixture *t = *state;
    struct commit_options strict;
    struct piece p;
    struct snapshot *one = create(t, NULL), *two, *next;
    commit_options_init(&strict);
    strict.max_retries = 0;
    make_piece(&p, "b.lance", 3);
    table_ok(t, commit(t, &t->at, one, COMMIT_APPEND, &p, NULL, &two));
    assert_int_equal(commit(t, &t->at, one, COMMIT_OVERWRITE, &p, &strict, &next), PENNON_CONFLICT);
    assert_string_equal(t->base.err.kind, "CommitConflict");
    /* An append to an old version lands on top of the newest. */
    table_ok(t, commit(t, &t->at, one, COMMIT_APPEND, &p, NULL, &next));
    assert_int_equal(next->version, 3);
    assert_int_equal(next->n_fragments, 3);
    snapshot_release(next);
    table_ok(t, commit(t, &t->at, one, COMMIT_OVERWRITE, &p, NULL, &next));
    assert_int_equal(next->version, 4);
    snapshot_release(next);
    assert_int_equal(commit(t, &t->at, two, COMMIT_APPEND, &p, NULL, &next), PENNON_CONFLICT_FINAL);
    assert_string_equal(
        t->base.err.message,
        "Incompatible transaction: This Append transaction is incompatible with concurrent transaction Overwrite at version 4.");
    /* A version in between that was cleaned up: nobody knows what it did. */
    char *path = manifest_path(t->base.mem, t->at.path, 2, true, &t->base.err);
    table_ok(t, store_delete(&t->call, t->store, path, &t->base.err));
    mem_free(t->base.mem, path);
    assert_int_equal(commit(t, &t->at, one, COMMIT_APPEND, &p, NULL, &next), PENNON_CONFLICT);
    assert_int_equal(t->base.err.version, 2);
    snapshot_release(one);
    snapshot_release(two);
}

/* ---- races ---- */

#define WRITERS 6
#define APPENDS 12

struct writer {
    struct table_fixture *t;
    int number;
    int done;
    char message[256];
};

static void *append_many(void *arg)
{
    struct writer *w = arg;
    struct call call = w->t->call;
    struct commit_options o;
    struct snapshot *s = NULL;
    pennon_error err;
    pennon_error_init(&err);
    commit_options_init(&o);
    o.max_retries = 60;
    pennon_status st = snapshot_open(&call, &w->t->at, NULL, NULL, &s, &err);
    for (int i = 0; st == PENNON_OK && i < APPENDS; i++) {
        struct snapshot *next = NULL;
        struct piece p;
        char name[32];
        (void)snprintf(name, sizeof name, "%d-%d.lance", w->number, i);
        make_piece(&p, name, 5);
        st = commit_fragments(&call, &w->t->at, s, COMMIT_APPEND, NULL, &p.fragment, 1, &o, &next, &err);
        if (st != PENNON_OK) break;
        snapshot_release(s);
        s = next;
        w->done++;
    }
    if (st != PENNON_OK) (void)snprintf(w->message, sizeof w->message, "%s", err.message);
    snapshot_release(s);
    pennon_error_clear(&err);
    return NULL;
}

static void test_table_race__appends(void **state)
{
    struct table_fixture *t = *state;
    struct commit_options o;
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    commit_options_init(&o);
    o.stable_row_ids = true;
    snapshot_release(create(t, &o));
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.t = t, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, append_many, &writers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < WRITERS; i++) {
        if (writers[i].done != APPENDS) fail_msg("writer %d stopped at %d: %s", i, writers[i].done, writers[i].message);
    }
    struct snapshot *s = reopen(t, &t->at);
    table_ok(t, snapshot_load_fragments(s, &t->base.err));
    assert_int_equal(s->version, 1 + WRITERS * APPENDS);
    assert_int_equal(s->n_fragments, 1 + WRITERS * APPENDS);
    assert_int_equal(s->manifest.next_row_id, 10 + 5 * WRITERS * APPENDS);
    /* Each file once, and every row id once: the index refuses doubles. */
    uint64_t id = 9, address;
    table_ok(t, resolve_row_ids(&t->call, s, &id, 1, &address, &t->base.err));
    for (size_t i = 0; i < s->n_fragments; i++) {
        for (size_t k = 0; k < i; k++) assert_string_not_equal(s->fragments[i].files[0].path, s->fragments[k].files[0].path);
    }
    assert_int_equal(count_objects(t, t->store, "tables/t/_transactions", ".txn"), 1 + WRITERS * APPENDS);
    snapshot_release(s);
}

/* ---- failures ---- */

struct faulty {
    struct table_location at;
    struct snapshot *read;
    uint64_t calls; /* of one undisturbed append */
};

static void faulty_open(struct table_fixture *t, struct faulty *x)
{
    struct piece p;
    make_piece(&p, "first.lance", 10);
    *x = (struct faulty){0};
    table_ok(t, fault_store_new(t->base.mem, &x->at.store, &t->base.err));
    x->at.path = mem_strdup(t->base.mem, "t", &t->base.err);
    x->at.uri = mem_strdup(t->base.mem, "fault://t", &t->base.err);
    table_ok(t, commit(t, &x->at, NULL, COMMIT_OVERWRITE, &p, NULL, &x->read));
}

static void faulty_close(struct table_fixture *t, struct faulty *x)
{
    snapshot_release(x->read);
    table_location_free(t->base.mem, &x->at);
}

/* Whatever call fails and however: the append is there once or not at all, as the result says; the table goes on. */
static void test_table_fault__every_call(void **state)
{
    struct table_fixture *t = *state;
    static const enum fault_kind kinds[] = {FAULT_FAIL,       FAULT_LOST_REPLY, FAULT_TORN_WRITE,
                                            FAULT_SHORT_READ, FAULT_ENOSPC,     FAULT_POWER_LOSS};
    unsigned landed_after_failure = 0, unknown = 0, failed = 0;
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        for (uint64_t nth = 0;; nth++) {
            struct faulty x;
            struct piece p;
            struct snapshot *next = NULL, *s;
            faulty_open(t, &x);
            struct fault_plan plan = {.kind = kinds[k], .on = FAULT_ON_ANY, .nth = nth, .times = 0, .seed = nth};
            fault_store_plan(x.at.store, &plan);
            make_piece(&p, "second.lance", 3);
            pennon_status st = commit(t, &x.at, x.read, COMMIT_APPEND, &p, NULL, &next);
            const bool over = fault_store_calls(x.at.store) <= nth;
            fault_store_plan(x.at.store, &(struct fault_plan){.nth = UINT64_MAX});
            if (kinds[k] == FAULT_POWER_LOSS) fault_store_restart(x.at.store, nth * 7 + 1);
            s = NULL;
            pennon_status opened = snapshot_open(&t->call, &x.at, NULL, NULL, &s, &t->base.err);
            if (opened != PENNON_OK)
                fail_msg("kind %d call %" PRIu64 ": commit gave %d, then: %s", kinds[k], nth, st, t->base.err.message);
            bool there = s->n_fragments == 2;
            assert_true(s->version == (there ? 2u : 1u));
            if (st == PENNON_OK) assert_true(there);
            if (st != PENNON_OK && st != PENNON_COMMIT_UNKNOWN) assert_false(there);
            unknown += st == PENNON_COMMIT_UNKNOWN;
            failed += st != PENNON_OK;
            landed_after_failure += st == PENNON_OK && kinds[k] == FAULT_LOST_REPLY && !over;
            snapshot_release(next);
            /* And on it goes. */
            table_ok(t, commit(t, &x.at, s, COMMIT_APPEND, &p, NULL, &next));
            assert_int_equal(next->n_fragments, there ? 3 : 2);
            snapshot_release(next);
            snapshot_release(s);
            faulty_close(t, &x);
            if (over) break;
        }
    }
    assert_true(landed_after_failure > 0);
    assert_true(unknown > 0);
    assert_true(failed > 10);
}

static void test_table_fault__create(void **state)
{
    struct table_fixture *t = *state;
    static const enum fault_kind kinds[] = {FAULT_FAIL, FAULT_LOST_REPLY};
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        for (uint64_t nth = 0;; nth++) {
            struct table_location at = {0};
            struct piece p;
            struct snapshot *s = NULL, *again = NULL;
            table_ok(t, fault_store_new(t->base.mem, &at.store, &t->base.err));
            at.path = mem_strdup(t->base.mem, "t", &t->base.err);
            at.uri = mem_strdup(t->base.mem, "fault://t", &t->base.err);
            fault_store_plan(at.store, &(struct fault_plan){.kind = kinds[k], .on = FAULT_ON_ANY, .nth = nth});
            make_piece(&p, "a.lance", 3);
            pennon_status st = commit(t, &at, NULL, COMMIT_OVERWRITE, &p, NULL, &s);
            const bool over = fault_store_calls(at.store) <= nth;
            fault_store_plan(at.store, &(struct fault_plan){.nth = UINT64_MAX});
            pennon_status opened = snapshot_open(&t->call, &at, NULL, NULL, &again, &t->base.err);
            assert_int_equal(opened, st == PENNON_OK ? PENNON_OK : PENNON_NOT_FOUND);
            snapshot_release(again);
            snapshot_release(s);
            table_location_free(t->base.mem, &at);
            if (over) break;
        }
    }
}

/* A cancelled call that has not begun its put changes nothing. */
static void test_table_fault__cancelled(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s = create(t, NULL), *next;
    struct piece p;
    pennon_cancel *cancel = NULL;
    table_ok(t, pennon_cancel_new(&cancel, &t->base.err));
    pennon_cancel_fire(cancel);
    t->call.cancel = cancel;
    make_piece(&p, "b.lance", 3);
    assert_int_equal(commit(t, &t->at, s, COMMIT_APPEND, &p, NULL, &next), PENNON_CANCELLED);
    t->call.cancel = NULL;
    pennon_cancel_free(cancel);
    snapshot_release(s);
    s = reopen(t, &t->at);
    assert_int_equal(s->version, 1);
    assert_int_equal(count_objects(t, t->store, "tables/t/_transactions", ".txn"), 1);
    snapshot_release(s);
}

/* Budgets from nothing upwards. */
static void test_table_fault__memory(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s = create(t, NULL);
    struct piece p;
    struct mem *whole = t->call.mem;
    make_piece(&p, "b.lance", 3);
    for (uint64_t limit = 0;; limit += 499) {
        struct commit_options o;
        struct snapshot *next = NULL;
        commit_options_init(&o);
        t->call.mem = mem_new(whole, limit, NULL, &t->base.err);
        assert_non_null(t->call.mem);
        pennon_status st = commit_fragments(&t->call, &t->at, s, COMMIT_APPEND, NULL, &p.fragment, 1, &o, &next, &t->base.err);
        snapshot_release(next);
        assert_int_equal(mem_used(t->call.mem), 0);
        mem_release(t->call.mem);
        t->call.mem = whole;
        if (st == PENNON_OK) break;
        if (st != PENNON_OVER_BUDGET) fail_msg("limit %" PRIu64 ": %d %s", limit, st, t->base.err.message);
        struct snapshot *now = reopen(t, &t->at);
        assert_int_equal(now->version, 1);
        snapshot_release(now);
    }
    snapshot_release(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TABLE_TEST(test_table_commit__create),
        TABLE_TEST(test_table_commit__empty_table),
        TABLE_TEST(test_table_commit__append_and_overwrite),
        TABLE_TEST(test_table_commit__keeps_what_it_does_not_know),
        TABLE_TEST(test_table_commit__fills_counts),
        TABLE_TEST(test_table_commit__fragments_in_any_order),
        TABLE_TEST(test_table_commit__refused),
        TABLE_TEST(test_table_commit__legacy_table),
        TABLE_TEST(test_table_commit__data_file_names),
        TABLE_TEST(test_table_conflict__matrix),
        TABLE_TEST(test_table_conflict__config_keys),
        TABLE_TEST(test_table_conflict__schema_changes),
        TABLE_TEST(test_table_conflict__strict_overwrite_and_old_reads),
        TABLE_TEST(test_table_race__appends),
        TABLE_TEST(test_table_fault__every_call),
        TABLE_TEST(test_table_fault__create),
        TABLE_TEST(test_table_fault__cancelled),
        TABLE_TEST(test_table_fault__memory),
    };
    return cmocka_run_group_tests_name("commit", tests, NULL, NULL);
}
