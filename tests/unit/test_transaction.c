/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Transactions: bytes there and back, old forms, hostile bytes; the manifest that each operation makes, field by field. */
#include <stdio.h>

#include "transaction_fixture.h"

/* ---- bytes ---- */

static struct transaction *decode(struct table_fixture *t, struct bytes in)
{
    struct transaction *x = NULL;
    table_ok(t, transaction_decode(t->base.mem, in, &x, &t->base.err));
    return x;
}

/* Bytes of a transaction of one operation, whose body is given; in base.buf. */
static struct bytes envelope(struct table_fixture *t, uint32_t which, struct bytes body)
{
    struct transaction_message m = {.read_version = 7, .uuid = bytes_str("00000000-0000-4000-8000-000000000001")};
    m.which = which;
    if (which != 0) m.operation[which - OPERATION_APPEND] = body;
    t->base.buf.size = 0;
    table_ok(t, wire_encode(&transaction_table, &m, &t->base.buf, &t->base.err));
    return bytes_of(t->base.buf.data, t->base.buf.size);
}

/* What is decoded is encoded to the same bytes. */
static void check_round(struct table_fixture *t, struct transaction *x)
{
    struct transaction *y, *z = NULL;
    struct buf first, second;
    buf_init(&first, t->base.mem, BUF_NO_LIMIT);
    buf_init(&second, t->base.mem, BUF_NO_LIMIT);
    table_ok(t, transaction_encode(x, &first, &t->base.err));
    y = decode(t, bytes_of(first.data, first.size));
    assert_int_equal(y->which, x->which);
    assert_string_equal(y->uuid, x->uuid);
    assert_true(y->read_version == x->read_version);
    assert_true(bytes_equal(y->tag, x->tag));
    assert_int_equal(y->n_properties, x->n_properties);
    table_ok(t, transaction_copy(y, &z, &t->base.err));
    transaction_free(y);
    table_ok(t, transaction_encode(z, &second, &t->base.err));
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    transaction_free(z);
    buf_free(&first);
    buf_free(&second);
}

static void test_table_transaction__round_trips(void **state)
{
    struct table_fixture *t = *state;
    for (uint32_t which = OPERATION_APPEND; which <= OPERATION_UPDATE_BASES; which++) {
        struct transaction *x = new_transaction(t, which, 3 + which);
        struct map_entry property = {.key = bytes_str("__lance_commit_message"), .value = bytes_str("why")};
        struct data_file_message file = file_of("a.lance", both_fields, 2);
        struct fragment_message f = fragment_of(5, &file, 1, 9);
        struct map_entry pair = {.key = bytes_str("k"), .value = bytes_str("v")};
        struct index_metadata_message index = index_of(t, &x->arena, "i", 9, field_0, (uint32_t[]){1, 2}, 2);
        struct merged_generation_message generation = {.shard_id = uuid_of(&x->arena, 3), .generation = 8};
        uint64_t ids[] = {1, 1 << 20};
        struct rewrite_group_message group = {.old_fragments = &f, .n_old_fragments = 1, .new_fragments = &f, .n_new_fragments = 1};
        struct update_map_entry_message entries[] = {{.key = bytes_str("a"), .has_value = true}, {.key = bytes_str("b")}};
        struct update_map_message map = {.entries = entries, .n_entries = 2, .replace = true};
        struct field_update_message field = {.key = 0, .value = &map};
        struct replacement_message replacement = {.fragment_id = 4, .new_file = &file};
        struct base_path_message base = {.id = 3, .has_name = true, .name = bytes_str("n"), .path = bytes_str("/p")};
        struct key_filter_message filter = {.field_ids = field_0, .n_field_ids = 1, .which = KEY_FILTER_EXACT};
        struct exact_filter_message exact = {.key_hashes = ids, .n_key_hashes = 2};
        filter.exact = &exact;
        x->tag = bytes_str("v1");
        x->properties = &property;
        x->n_properties = 1;
        switch (which) {
        case OPERATION_APPEND: x->op.append = (struct append_message){.fragments = &f, .n_fragments = 1}; break;
        case OPERATION_DELETE:
            x->op.remove = (struct delete_message){.updated_fragments = &f,
                                                   .n_updated_fragments = 1,
                                                   .deleted_fragment_ids = ids,
                                                   .n_deleted_fragment_ids = 2,
                                                   .predicate = bytes_str("x > 1")};
            break;
        case OPERATION_OVERWRITE:
            x->op.overwrite = (struct overwrite_message){.fragments = &f,
                                                         .n_fragments = 1,
                                                         .schema = two_fields,
                                                         .n_schema = 2,
                                                         .config_upsert_values = &pair,
                                                         .n_config_upsert_values = 1,
                                                         .initial_bases = &base,
                                                         .n_initial_bases = 1};
            break;
        case OPERATION_CREATE_INDEX:
            x->op.create_index = (struct create_index_message){
                .new_indices = &index, .n_new_indices = 1, .removed_indices = &index, .n_removed_indices = 1};
            break;
        case OPERATION_REWRITE: x->op.rewrite = (struct rewrite_message){.groups = &group, .n_groups = 1}; break;
        case OPERATION_MERGE:
            x->op.merge = (struct merge_message){
                .fragments = &f, .n_fragments = 1, .schema = two_fields, .n_schema = 2, .preserves_nullability = true};
            break;
        case OPERATION_RESTORE: x->op.restore.version = 12; break;
        case OPERATION_RESERVE_FRAGMENTS: x->op.reserve.num_fragments = 6; break;
        case OPERATION_UPDATE:
            x->op.update = (struct update_message){.removed_fragment_ids = ids,
                                                   .n_removed_fragment_ids = 2,
                                                   .updated_fragments = &f,
                                                   .n_updated_fragments = 1,
                                                   .new_fragments = &f,
                                                   .n_new_fragments = 1,
                                                   .merged_generations = &generation,
                                                   .n_merged_generations = 1,
                                                   .update_mode = UPDATE_REWRITE_COLUMNS,
                                                   .inserted_rows = &filter};
            break;
        case OPERATION_PROJECT: x->op.project = (struct project_message){.schema = two_fields, .n_schema = 2}; break;
        case OPERATION_UPDATE_CONFIG:
            x->op.config = (struct update_config_message){
                .config_updates = &map, .field_metadata_updates = &field, .n_field_metadata_updates = 1};
            break;
        case OPERATION_DATA_REPLACEMENT:
            x->op.replacement = (struct data_replacement_message){.replacements = &replacement, .n_replacements = 1};
            break;
        case OPERATION_UPDATE_MEM_WAL_STATE:
            x->op.mem_wal = (struct update_mem_wal_message){.merged_generations = &generation, .n_merged_generations = 1};
            break;
        case OPERATION_CLONE:
            x->op.clone = (struct clone_message){.is_shallow = true,
                                                 .has_ref_name = true,
                                                 .ref_name = bytes_str("dev"),
                                                 .ref_version = 4,
                                                 .ref_path = bytes_str("/t")};
            break;
        default: x->op.bases = (struct update_bases_message){.new_bases = &base, .n_new_bases = 1}; break;
        }
        check_round(t, x);
        assert_string_not_equal(operation_name(which), "unknown");
        transaction_free(x);
    }
    assert_string_equal(operation_name(OPERATION_UPDATE_MEM_WAL_STATE), "UpdateMemWalState");
    assert_string_equal(operation_name(0), "unknown");
    assert_string_equal(operation_name(116), "unknown");
}

/* Operations that are not known here keep their bytes. */
static void test_table_transaction__unknown_operations(void **state)
{
    struct table_fixture *t = *state;
    struct transaction *x = decode(t, envelope(t, OPERATION_DATA_OVERLAY, bytes_str("\x0a\x01z")));
    assert_int_equal(x->which, OPERATION_DATA_OVERLAY);
    assert_true(bytes_equal(x->raw, bytes_str("\x0a\x01z")));
    check_round(t, x);
    transaction_free(x);
    /* Tag 120, length 2. */
    struct bytes plain = envelope(t, 0, bytes_of(NULL, 0));
    table_ok(t, buf_append(&t->base.buf, "\xc2\x07\x02hi", 5, &t->base.err));
    UNUSED(plain);
    x = decode(t, bytes_of(t->base.buf.data, t->base.buf.size));
    assert_int_equal(x->which, 120);
    assert_true(bytes_equal(x->raw, bytes_str("hi")));
    check_round(t, x);
    transaction_free(x);
}

static void test_table_transaction__old_forms(void **state)
{
    struct table_fixture *t = *state;
    struct transaction *x = decode(t, envelope(t, OPERATION_REWRITE, bytes_of("\x0a\x02\x08\x05\x12\x02\x08\x06", 8)));
    assert_int_equal(x->op.rewrite.n_groups, 1);
    assert_int_equal(x->op.rewrite.groups[0].old_fragments[0].id, 5);
    assert_int_equal(x->op.rewrite.groups[0].new_fragments[0].id, 6);
    assert_int_equal(x->op.rewrite.n_old_fragments, 0);
    check_round(t, x);
    transaction_free(x);
    /* set k = v, delete d, schema metadata s = m, metadata a = b of field 3 */
    static const char old[] = "\x0a\x06\x0a\x01k\x12\x01v"
                              "\x12\x01"
                              "d"
                              "\x1a\x06\x0a\x01s\x12\x01m"
                              "\x22\x0c\x08\x03\x12\x08\x2a\x06\x0a\x01"
                              "a\x12\x01"
                              "b";
    x = decode(t, envelope(t, OPERATION_UPDATE_CONFIG, bytes_of(old, sizeof old - 1)));
    const struct update_config_message *c = &x->op.config;
    assert_int_equal(c->config_updates->n_entries, 2);
    assert_false(c->config_updates->replace);
    assert_true(c->config_updates->entries[0].has_value && bytes_equal(c->config_updates->entries[0].value, bytes_str("v")));
    assert_true(!c->config_updates->entries[1].has_value && bytes_equal(c->config_updates->entries[1].key, bytes_str("d")));
    assert_true(c->schema_metadata_updates->replace);
    assert_int_equal(c->n_field_metadata_updates, 1);
    assert_int_equal(c->field_metadata_updates[0].key, 3);
    assert_true(c->field_metadata_updates[0].value->replace);
    assert_true(bytes_equal(c->field_metadata_updates[0].value->entries[0].value, bytes_str("b")));
    assert_int_equal(c->n_upsert_values + c->n_delete_keys + c->n_schema_metadata + c->n_field_metadata, 0);
    check_round(t, x);
    transaction_free(x);
}

static void test_table_transaction__hostile(void **state)
{
    struct table_fixture *t = *state;
    struct transaction *x = NULL;
    static const struct {
        const char *bytes;
        size_t n;
    } cases[] = {
        {"", 0},
        {"\x08\x01", 2}, /* no operation */
        {"\x12\x25"
         "0000000000000000000000000000000000000\xa2\x06\x00",
         41}, /* a uuid of 37 bytes */
        {"\x12\x03"
         "a/b\xa2\x06\x00",
         8},                                 /* a uuid with a slash */
        {"\x12\x02\x61\x00\xa2\x06\x00", 7}, /* … with a zero */
        {"\x12\x01"
         "a\xf2\x06\x0c\x0a\x06\x0a\x01k\x12\x01v\x32\x02\x10\x01",
         18}, /* both forms of UpdateConfig */
        {"\x12\x01"
         "a\xf2\x06\x08\x22\x06\x08\xff\xff\xff\xff\x0f",
         14}, /* metadata of field 2^32 - 1 */
        {"\x12\x01"
         "a\xa2\x06\x05\x0a\x09\x00\x00\x00",
         11}, /* cut off inside */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        pennon_status st = transaction_decode(t->base.mem, bytes_of(cases[i].bytes, cases[i].n), &x, &t->base.err);
        if (st != PENNON_CORRUPT) fail_msg("case %zu: %d", i, st);
    }
    /* Every prefix of a good one: nothing leaks, nothing crashes. */
    struct bytes good = envelope(t, OPERATION_UPDATE_CONFIG, bytes_str("\x32\x05\x0a\x03\x0a\x01k"));
    for (size_t n = 0; n < good.size; n++) {
        if (transaction_decode(t->base.mem, bytes_of(good.data, n), &x, &t->base.err) == PENNON_OK) transaction_free(x);
    }
}

static void test_table_transaction__batch(void **state)
{
    struct table_fixture *t = *state;
    struct data_file_message file = file_of("a.lance", field_0, 1);
    struct fragment_message f[2] = {fragment_of(0, &file, 1, 4), fragment_of(0, &file, 1, 5)};
    struct transaction *a = new_transaction(t, OPERATION_APPEND, 9), *b = new_transaction(t, OPERATION_APPEND, 4),
                       *c = new_transaction(t, OPERATION_DELETE, 4), *all = NULL;
    const struct transaction *parts[] = {a, b, c};
    a->op.append = (struct append_message){.fragments = f, .n_fragments = 2};
    b->op.append = (struct append_message){.fragments = f + 1, .n_fragments = 1};
    b->tag = bytes_str("dropped");
    table_ok(t, transaction_batch(t->base.mem, parts, 2, &all, &t->base.err));
    assert_int_equal(all->op.append.n_fragments, 3);
    assert_int_equal(all->op.append.fragments[2].physical_rows, 5);
    assert_true(all->read_version == 4);
    assert_int_equal(all->tag.size, 0);
    assert_string_not_equal(all->uuid, a->uuid);
    transaction_free(all);
    assert_int_equal(transaction_batch(t->base.mem, parts, 3, &all, &t->base.err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(transaction_batch(t->base.mem, parts, 0, &all, &t->base.err), PENNON_INVALID_ARGUMENT);
    transaction_free(a);
    transaction_free(b);
    transaction_free(c);
}

/* ---- sets ---- */

static void test_table_id_set__roaring(void **state)
{
    struct table_fixture *t = *state;
    static const struct id_range cases[][3] = {{{5, 5}, {9, 9}, {70000, 70001}},
                                               {{0, 0}, {3, 4}, {6, 6}},
                                               {{0, 65535}, {65540, 70000}, {200000, 200000}},
                                               {{10, 200000}, {262144, 262144}, {UINT32_MAX, UINT32_MAX}}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct id_set a, b;
        size_t used;
        t->base.buf.size = 0;
        id_set_init(&a, t->base.mem);
        id_set_init(&b, t->base.mem);
        /* In an order that is not theirs. */
        for (size_t k = 0; k < 3; k++)
            table_ok(t, id_set_add_range(&a, cases[i][(k + 1) % 3].first, cases[i][(k + 1) % 3].last, &t->base.err));
        table_ok(t, id_set_encode(&a, &t->base.buf, &t->base.err));
        table_ok(t, roaring_check(bytes_of(t->base.buf.data, t->base.buf.size), &used, &t->base.err));
        assert_int_equal(used, t->base.buf.size);
        table_ok(t, id_set_parse(&b, bytes_of(t->base.buf.data, t->base.buf.size), &t->base.err));
        assert_int_equal(b.n, 3);
        assert_memory_equal(a.ranges, b.ranges, 3 * sizeof *a.ranges);
        id_set_free(&a);
        id_set_free(&b);
    }
    /* The bytes of the format's example. */
    struct id_set s;
    id_set_init(&s, t->base.mem);
    t->base.buf.size = 0;
    table_ok(t, id_set_encode(&s, &t->base.buf, &t->base.err));
    assert_int_equal(t->base.buf.size, 8);
    table_ok(t, id_set_add(&s, 0, &t->base.err));
    table_ok(t, id_set_add(&s, 1, &t->base.err));
    t->base.buf.size = 0;
    table_ok(t, id_set_encode(&s, &t->base.buf, &t->base.err));
    assert_int_equal(t->base.buf.size, 20);
    assert_memory_equal(t->base.buf.data, "\x3a\x30\0\0\x01\0\0\0\0\0\x01\0\x10\0\0\0\0\0\x01\0", 20);
    /* Taking out of the middle, the ends, and what is not there. */
    table_ok(t, id_set_add_range(&s, 2, 9, &t->base.err));
    assert_int_equal(s.n, 1);
    table_ok(t, id_set_remove(&s, 4, &t->base.err));
    table_ok(t, id_set_remove(&s, 0, &t->base.err));
    table_ok(t, id_set_remove(&s, 9, &t->base.err));
    table_ok(t, id_set_remove(&s, 77, &t->base.err));
    assert_int_equal(s.n, 2);
    assert_true(s.ranges[0].first == 1 && s.ranges[0].last == 3 && s.ranges[1].first == 5 && s.ranges[1].last == 8);
    assert_int_equal(id_set_count(&s), 7);
    table_ok(t, id_set_remove(&s, 1, &t->base.err));
    table_ok(t, id_set_remove(&s, 2, &t->base.err));
    table_ok(t, id_set_remove(&s, 3, &t->base.err));
    assert_int_equal(s.n, 1);
    id_set_free(&s);
}

/* ---- manifests, operation by operation ---- */

static uint64_t version_at(struct table_fixture *t, struct snapshot *s, size_t fragment, enum lineage which, uint64_t row)
{
    uint64_t v = 0;
    table_ok(t, fragment_fill_versions(&t->call, s, &s->fragments[fragment], which, row, 1, &v, &t->base.err));
    return v;
}

static uint64_t row_id_at(struct table_fixture *t, struct snapshot *s, size_t fragment, uint64_t row)
{
    uint64_t v = 0;
    table_ok(t, fragment_fill_row_ids(&t->call, s, &s->fragments[fragment], row, 1, &v, &t->base.err));
    return v;
}

static struct snapshot *add_indices(struct table_fixture *t, struct snapshot *s)
{
    static const uint32_t all[] = {0, 1, 2};
    struct transaction *x = new_transaction(t, OPERATION_CREATE_INDEX, s->version);
    struct index_metadata_message *list = arena_calloc(&x->arena, 2, sizeof *list, &t->base.err);
    list[0] = index_of(t, &x->arena, "on_x", 1, field_0, all, 3);
    list[1] = index_of(t, &x->arena, "on_y", 2, field_1, all, 3);
    x->op.create_index = (struct create_index_message){.new_indices = list, .n_new_indices = 2};
    return commit_on(t, s, x);
}

static void test_table_build__delete(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s = add_indices(t, make_table(t, true));
    struct deletion_file_message gone = {.file_type = 1, .read_version = 2, .id = 5, .num_deleted_rows = 3};
    struct fragment_message f = *s->fragments[1].message;
    uint64_t removed[] = {0, 77};
    struct transaction *x = new_transaction(t, OPERATION_DELETE, s->version);
    f.deletion_file = &gone;
    f.row_ids_which = 0; /* left out by the writer: they stay */
    x->op.remove = (struct delete_message){
        .updated_fragments = &f, .n_updated_fragments = 1, .deleted_fragment_ids = removed, .n_deleted_fragment_ids = 2};
    s = commit_on(t, s, x);
    assert_int_equal(s->version, 3);
    assert_int_equal(s->n_fragments, 2);
    assert_int_equal(s->fragments[0].id, 1);
    assert_int_equal(s->fragments[0].deleted_rows, 3);
    assert_int_equal(s->manifest.reader_feature_flags, FLAG_DELETIONS | FLAG_STABLE_ROW_IDS);
    assert_int_equal(s->manifest.max_fragment_id, 2);
    assert_int_equal(row_id_at(t, s, 0, 4), 14);
    assert_int_equal(version_at(t, s, 0, LINEAGE_LAST_UPDATED_AT, 0), 1);
    assert_int_equal(indexed(t, s, "on_x", 0), 1); /* not pruned of what is gone */
    /* Deleting all: the scalar index stays, the high-water mark too. */
    uint64_t rest[] = {1, 2};
    x = new_transaction(t, OPERATION_DELETE, s->version);
    x->op.remove = (struct delete_message){.deleted_fragment_ids = rest, .n_deleted_fragment_ids = 2};
    s = commit_on(t, s, x);
    assert_int_equal(s->n_fragments, 0);
    assert_int_equal(s->manifest.max_fragment_id, 2);
    assert_int_equal(s->manifest.next_row_id, 30);
    assert_int_equal(indexed(t, s, "on_x", 0), 1);
    snapshot_release(s);
}

/* Of an empty vector index nothing stays; of several segments the ones that are not empty. */
static void test_table_build__retention(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s = make_table(t, false);
    struct transaction *x = new_transaction(t, OPERATION_CREATE_INDEX, 1);
    struct any_message vector = {.type_url = bytes_str("/lance.index.pb.VectorIndexDetails")};
    struct index_metadata_message list[6];
    list[0] = index_of(t, &x->arena, "vector", 1, field_0, (uint32_t[]){0}, 1);
    list[0].index_details = &vector;
    list[1] = index_of(t, &x->arena, "parts", 2, field_0, (uint32_t[]){0}, 1);
    list[2] = index_of(t, &x->arena, "parts", 3, field_0, (uint32_t[]){1}, 1);
    list[3] = index_of(t, &x->arena, "empty", 5, field_1, (uint32_t[]){0}, 1);
    list[4] = index_of(t, &x->arena, "empty", 4, field_1, (uint32_t[]){0}, 1);
    list[5] = index_of(t, &x->arena, REUSE_INDEX, 6, NULL, NULL, 0);
    x->op.create_index = (struct create_index_message){.new_indices = list, .n_new_indices = 6};
    s = commit_on(t, s, x);
    uint64_t removed[] = {0};
    x = new_transaction(t, OPERATION_DELETE, s->version);
    x->op.remove = (struct delete_message){.deleted_fragment_ids = removed, .n_deleted_fragment_ids = 1};
    s = commit_on(t, s, x);
    struct arena a;
    struct index_section_message m;
    arena_init(&a, t->base.mem);
    table_ok(t, wire_decode(&index_section_table, index_section(t, s), &a, &m, &t->base.err));
    assert_int_equal(m.n_indices, 3);
    assert_true(bytes_equal(m.indices[0].name, bytes_str("parts")) && m.indices[0].dataset_version == 3);
    assert_true(bytes_equal(m.indices[1].name, bytes_str("empty")) && m.indices[1].dataset_version == 4);
    assert_true(bytes_equal(m.indices[2].name, bytes_str(REUSE_INDEX)));
    arena_reset(&a);
    /* Dropping: by uuid. */
    x = new_transaction(t, OPERATION_CREATE_INDEX, s->version);
    list[0] = index_of(t, &x->arena, "parts", 3, field_0, NULL, 0);
    x->op.create_index = (struct create_index_message){.removed_indices = list, .n_removed_indices = 1};
    s = commit_on(t, s, x);
    assert_int_equal(indexed(t, s, "parts", 1), -1);
    /* A column of an index goes, and so does the index. */
    x = new_transaction(t, OPERATION_PROJECT, s->version);
    x->op.project = (struct project_message){.schema = two_fields, .n_schema = 1};
    s = commit_on(t, s, x);
    assert_int_equal(indexed(t, s, "empty", 0), -1);
    assert_int_equal(s->fragments[0].n_files, 1);
    assert_string_equal(s->fragments[0].files[0].path, "x1");
    assert_int_equal(s->schema->n_all, 1);
    assert_int_equal(indexed(t, s, REUSE_INDEX, 0), 0);
    snapshot_release(s);
}

static void test_table_build__rewrite(void **state)
{
    struct table_fixture *t = *state;
    for (int stable = 0; stable < 2; stable++) {
        struct snapshot *s = add_indices(t, make_table(t, stable));
        struct transaction *x = new_transaction(t, OPERATION_RESERVE_FRAGMENTS, s->version);
        x->op.reserve.num_fragments = 2;
        s = commit_on(t, s, x);
        assert_int_equal(s->manifest.max_fragment_id, 4);
        assert_int_equal(s->n_fragments, 3);
        struct data_file_message file = file_of("c.lance", both_fields, 2);
        struct fragment_message made = fragment_of(3, &file, 1, 20), old[2] = {*s->fragments[0].message, *s->fragments[1].message};
        struct rewrite_group_message group = {
            .old_fragments = old, .n_old_fragments = 2, .new_fragments = &made, .n_new_fragments = 1};
        if (stable) {
            table_ok(t, row_id_range_encode(0, 20, &t->base.buf, &t->base.err));
            made.row_ids_which = 5;
            made.inline_row_ids = bytes_of(t->base.buf.data, t->base.buf.size);
        }
        x = new_transaction(t, OPERATION_REWRITE, s->version);
        struct index_file_message index_file = {.path = bytes_str("index.idx"), .size_bytes = 4};
        struct rewritten_index_message rewritten = {.old_id = uuid_of(&x->arena, 1),
                                                    .new_id = uuid_of(&x->arena, 9),
                                                    .new_index_files = &index_file,
                                                    .n_new_index_files = 1};
        x->op.rewrite = (struct rewrite_message){
            .groups = &group, .n_groups = 1, .rewritten_indices = &rewritten, .n_rewritten_indices = !stable};
        s = commit_on(t, s, x);
        t->base.buf.size = 0;
        assert_int_equal(s->n_fragments, 2);
        assert_int_equal(s->fragments[0].id, 2);
        assert_int_equal(s->fragments[1].id, 3);
        assert_int_equal(indexed(t, s, "on_x", 3), 1);
        assert_int_equal(indexed(t, s, "on_x", 0), 0);
        assert_int_equal(indexed(t, s, "on_y", 3), stable ? 1 : 0);
        assert_int_equal(indexed(t, s, "on_y", 0), stable ? 0 : 1); /* dangling, as it was not rewritten */
        if (stable) assert_int_equal(row_id_at(t, s, 1, 19), 19);
        /* The fragment is gone: it cannot be rewritten again. */
        struct snapshot *none;
        x = new_transaction(t, OPERATION_REWRITE, s->version);
        old[0] = fragment_of(0, &file, 1, 10);
        old[1] = fragment_of(1, &file, 1, 10);
        x->op.rewrite = (struct rewrite_message){.groups = &group, .n_groups = 1};
        assert_int_equal(try_commit(t, s, x, &none), PENNON_CONFLICT);
        assert_string_equal(t->base.err.kind, "CommitConflict");
        snapshot_release(s);
        for (uint64_t v = 1; v <= 4; v++) {
            char *path = manifest_path(t->base.mem, t->at.path, v, true, &t->base.err);
            table_ok(t, store_delete(&t->call, t->store, path, &t->base.err));
            mem_free(t->base.mem, path);
        }
    }
}

/* With stable row ids most indices follow their rows; those of addresses do not, unless they were rewritten. */
static void test_table_build__addresses_do_not_follow(void **state)
{
    struct table_fixture *t = *state;
    static const uint32_t all[] = {0, 1, 2};
    static const char *const types[] = {"/lance.table.ZoneMapIndexDetails", "/lance.index.pb.BloomFilterIndexDetails",
                                        "/lance.table.BTreeIndexDetails", "/lance.table.BTreeIndexDetails",
                                        "/lance.table.BTreeIndexDetails"};
    static const char *const names[] = {"zones", "bloom", "btree0", "btree1", "remapped"};
    static const int want[] = {0, 0, 1, 0, 1};
    struct index_metadata_message list[5];
    struct any_message details[5];
    struct snapshot *s = make_table(t, true);
    struct transaction *x = new_transaction(t, OPERATION_CREATE_INDEX, 1);
    for (uint8_t i = 0; i < 5; i++) {
        list[i] = index_of(t, &x->arena, names[i], (uint8_t)(i + 1), field_0, all, 3);
        details[i] = (struct any_message){.type_url = bytes_str(types[i])};
        list[i].index_details = &details[i];
        list[i].has_index_version = true;
        list[i].index_version = i >= 3;
    }
    x->op.create_index = (struct create_index_message){.new_indices = list, .n_new_indices = 5};
    s = commit_on(t, s, x);
    struct data_file_message file = file_of("c.lance", both_fields, 2);
    struct fragment_message made = fragment_of(0, &file, 1, 10), old = *s->fragments[1].message;
    struct rewrite_group_message group = {
        .old_fragments = &old, .n_old_fragments = 1, .new_fragments = &made, .n_new_fragments = 1};
    made.row_ids_which = 5;
    made.inline_row_ids = old.inline_row_ids;
    x = new_transaction(t, OPERATION_REWRITE, s->version);
    struct rewritten_index_message rewritten = {.old_id = uuid_of(&x->arena, 5), .new_id = uuid_of(&x->arena, 9)};
    x->op.rewrite =
        (struct rewrite_message){.groups = &group, .n_groups = 1, .rewritten_indices = &rewritten, .n_rewritten_indices = 1};
    s = commit_on(t, s, x);
    for (size_t i = 0; i < 5; i++) {
        if (indexed(t, s, names[i], 3) != want[i]) fail_msg("%s: %d", names[i], indexed(t, s, names[i], 3));
        assert_int_equal(indexed(t, s, names[i], 1), 0);
    }
    snapshot_release(s);
}

static void test_table_build__merge(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s = add_indices(t, make_table(t, true)), *none;
    struct field_message fields[3] = {two_fields[0], two_fields[1], two_fields[1]};
    int32_t id_2[] = {2}, tombstone[] = {-2};
    struct data_file_message files[3] = {*s->fragments[0].message->files, s->fragments[0].message->files[1],
                                         file_of("z0", id_2, 1)};
    struct data_file_message moved[3] = {*s->fragments[1].message->files, s->fragments[1].message->files[1],
                                         file_of("y1-new", field_1, 1)};
    struct fragment_message list[3] = {*s->fragments[0].message, *s->fragments[1].message, *s->fragments[2].message};
    fields[2].id = 2;
    fields[2].name = bytes_str("z");
    list[0].files = files;
    list[0].n_files = 3;
    moved[1].fields = tombstone;
    list[1].files = moved;
    list[1].n_files = 3;
    struct transaction *x = new_transaction(t, OPERATION_MERGE, s->version);
    x->op.merge = (struct merge_message){.fragments = list, .n_fragments = 2, .schema = fields, .n_schema = 3};
    assert_int_equal(try_commit(t, s, x, &none), PENNON_INVALID_ARGUMENT); /* fragment 2 is missing */
    x = new_transaction(t, OPERATION_MERGE, s->version);
    x->op.merge = (struct merge_message){.fragments = list, .n_fragments = 3, .schema = fields, .n_schema = 3};
    s = commit_on(t, s, x);
    assert_int_equal(s->schema->n_all, 3);
    assert_int_equal(s->fragments[0].n_files, 3);
    assert_int_equal(s->fragments[1].n_files, 2); /* the file of tombstones is gone */
    assert_int_equal(version_at(t, s, 0, LINEAGE_LAST_UPDATED_AT, 9), 3);
    assert_int_equal(version_at(t, s, 0, LINEAGE_CREATED_AT, 9), 1);
    assert_int_equal(version_at(t, s, 2, LINEAGE_LAST_UPDATED_AT, 9), 1);
    assert_int_equal(indexed(t, s, "on_y", 0), 1);
    assert_int_equal(indexed(t, s, "on_y", 1), 0); /* its column was rewritten there */
    assert_int_equal(indexed(t, s, "on_x", 1), 1);
    snapshot_release(s);
}

static void test_table_build__update(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s = add_indices(t, make_table(t, true));
    struct deletion_file_message gone = {.file_type = 1, .read_version = 2, .id = 5, .num_deleted_rows = 2};
    struct data_file_message file = file_of("u.lance", both_fields, 2);
    struct fragment_message updated = *s->fragments[1].message, made = fragment_of(0, &file, 1, 3);
    uint32_t preserving[] = {1}; /* y changed, x did not */
    uint64_t moved[] = {17, 12};
    updated.deletion_file = &gone;
    table_ok(t, row_id_sequence_encode(t->base.mem, moved, 2, &t->base.buf, &t->base.err));
    made.row_ids_which = 5;
    made.inline_row_ids = bytes_of(t->base.buf.data, t->base.buf.size);
    struct transaction *x = new_transaction(t, OPERATION_UPDATE, s->version);
    x->op.update = (struct update_message){.updated_fragments = &updated,
                                           .n_updated_fragments = 1,
                                           .new_fragments = &made,
                                           .n_new_fragments = 1,
                                           .fields_preserving = preserving,
                                           .n_fields_preserving = 1};
    s = commit_on(t, s, x);
    assert_int_equal(s->version, 3);
    assert_int_equal(s->n_fragments, 4);
    assert_int_equal(s->fragments[3].id, 3);
    assert_int_equal(row_id_at(t, s, 3, 0), 17);
    assert_int_equal(row_id_at(t, s, 3, 1), 12);
    assert_int_equal(row_id_at(t, s, 3, 2), 30); /* inserted: a new id behind the moved ones */
    assert_int_equal(s->manifest.next_row_id, 31);
    assert_int_equal(version_at(t, s, 3, LINEAGE_CREATED_AT, 0), 1);
    assert_int_equal(version_at(t, s, 3, LINEAGE_CREATED_AT, 2), 3);
    assert_int_equal(version_at(t, s, 3, LINEAGE_LAST_UPDATED_AT, 0), 3);
    assert_int_equal(indexed(t, s, "on_x", 3), 1);
    assert_int_equal(indexed(t, s, "on_y", 3), 0);
    /* Columns in place: the rewritten rows are stamped, the index of the column gives the fragment up. */
    uint32_t offsets[] = {2, 3, 9}, modified[] = {1};
    int32_t tombstone[] = {-2};
    struct u32_list_message list = {.values = offsets, .n_values = 3};
    struct offsets_entry_message entry = {.key = 0, .value = &list};
    struct data_file_message files[3] = {s->fragments[0].message->files[0], s->fragments[0].message->files[1],
                                         file_of("y0-new", field_1, 1)};
    files[1].fields = tombstone;
    updated = *s->fragments[0].message;
    updated.files = files;
    updated.n_files = 3;
    x = new_transaction(t, OPERATION_UPDATE, s->version);
    x->op.update = (struct update_message){.updated_fragments = &updated,
                                           .n_updated_fragments = 1,
                                           .update_mode = UPDATE_REWRITE_COLUMNS,
                                           .fields_modified = modified,
                                           .n_fields_modified = 1,
                                           .updated_offsets = &entry,
                                           .n_updated_offsets = 1};
    s = commit_on(t, s, x);
    static const uint64_t want[] = {1, 1, 4, 4, 1, 1, 1, 1, 1, 4};
    for (uint64_t i = 0; i < 10; i++) assert_int_equal(version_at(t, s, 0, LINEAGE_LAST_UPDATED_AT, i), want[i]);
    assert_int_equal(indexed(t, s, "on_y", 0), 0);
    assert_int_equal(indexed(t, s, "on_x", 0), 1);
    t->base.buf.size = 0;
    snapshot_release(s);
}

static void test_table_build__data_replacement(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s = add_indices(t, make_table(t, true)), *none;
    struct data_file_message file = file_of("y1-new", field_1, 1), both = file_of("xy", both_fields, 2);
    struct replacement_message r = {.fragment_id = 1, .new_file = &file};
    struct transaction *x = new_transaction(t, OPERATION_DATA_REPLACEMENT, s->version);
    file.file_size_bytes = 55;
    x->op.replacement = (struct data_replacement_message){.replacements = &r, .n_replacements = 1};
    s = commit_on(t, s, x);
    assert_string_equal(s->fragments[1].files[1].path, "y1-new");
    assert_int_equal(s->fragments[1].files[1].size, 55);
    assert_int_equal(s->fragments[1].n_files, 2);
    assert_int_equal(indexed(t, s, "on_y", 1), 0);
    assert_int_equal(indexed(t, s, "on_x", 1), 1);
    assert_int_equal(version_at(t, s, 1, LINEAGE_LAST_UPDATED_AT, 0), 3);
    /* Other columns together, no such fragment. */
    r.new_file = &both;
    x = new_transaction(t, OPERATION_DATA_REPLACEMENT, s->version);
    x->op.replacement = (struct data_replacement_message){.replacements = &r, .n_replacements = 1};
    assert_int_equal(try_commit(t, s, x, &none), PENNON_INVALID_ARGUMENT);
    r = (struct replacement_message){.fragment_id = 9, .new_file = &file};
    x = new_transaction(t, OPERATION_DATA_REPLACEMENT, s->version);
    x->op.replacement = (struct data_replacement_message){.replacements = &r, .n_replacements = 1};
    assert_int_equal(try_commit(t, s, x, &none), PENNON_INVALID_ARGUMENT);
    snapshot_release(s);
}

static void test_table_build__restore(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s = add_indices(t, make_table(t, true));
    struct data_file_message file = file_of("a.lance", both_fields, 2);
    struct fragment_message f = fragment_of(0, &file, 1, 7);
    struct transaction *x = new_transaction(t, OPERATION_APPEND, 2);
    x->op.append = (struct append_message){.fragments = &f, .n_fragments = 1};
    s = commit_on(t, s, x);
    assert_int_equal(s->manifest.next_row_id, 37);
    x = new_transaction(t, OPERATION_RESTORE, 3);
    x->op.restore.version = 1;
    x->tag = bytes_str("back");
    s = commit_on(t, s, x);
    assert_int_equal(s->version, 4);
    assert_int_equal(s->n_fragments, 3);
    assert_int_equal(index_section(t, s).size, 0);
    /* Neither counter goes back. */
    assert_int_equal(s->manifest.next_row_id, 37);
    assert_int_equal(s->manifest.max_fragment_id, 3);
    assert_true(bytes_equal(s->manifest.tag, bytes_str("back")));
    x = new_transaction(t, OPERATION_APPEND, 4);
    x->op.append = (struct append_message){.fragments = &f, .n_fragments = 1};
    s = commit_on(t, s, x);
    assert_int_equal(s->fragments[3].id, 4);
    assert_int_equal(row_id_at(t, s, 3, 0), 37);
    assert_int_equal(s->manifest.tag.size, 0);
    struct snapshot *none;
    x = new_transaction(t, OPERATION_RESTORE, 5);
    x->op.restore.version = 99;
    assert_int_equal(try_commit(t, s, x, &none), PENNON_NOT_FOUND);
    snapshot_release(s);
}

static struct map_entry find_pair(const struct map_entry *map, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes_equal(map[i].key, bytes_str(key))) return map[i];
    }
    return (struct map_entry){0};
}

static void test_table_build__config(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s = make_table(t, false), *none;
    struct update_map_entry_message set[] = {{.key = bytes_str("b"), .has_value = true, .value = bytes_str("1")},
                                             {.key = bytes_str("a"), .has_value = true, .value = bytes_str("2")},
                                             {.key = bytes_str("b"), .has_value = true, .value = bytes_str("3")}};
    struct update_map_entry_message cut[] = {{.key = bytes_str("b")}, {.key = bytes_str("missing")}};
    struct update_map_message sets = {.entries = set, .n_entries = 3}, cuts = {.entries = cut, .n_entries = 2},
                              clear = {.replace = true};
    struct field_update_message on_x = {.key = 0, .value = &sets}, on_none = {.key = 9, .value = &sets};
    struct transaction *x = new_transaction(t, OPERATION_UPDATE_CONFIG, 1);
    x->op.config = (struct update_config_message){.config_updates = &sets,
                                                  .table_metadata_updates = &sets,
                                                  .schema_metadata_updates = &sets,
                                                  .field_metadata_updates = &on_x,
                                                  .n_field_metadata_updates = 1};
    s = commit_on(t, s, x);
    assert_int_equal(s->manifest.n_config, 2);
    assert_true(bytes_equal(find_pair(s->manifest.config, 2, "b").value, bytes_str("3")));
    assert_int_equal(s->manifest.n_table_metadata, 2);
    assert_int_equal(s->manifest.n_schema_metadata, 2);
    assert_int_equal(s->manifest.fields[0].n_metadata, 2);
    assert_int_equal(s->manifest.fields[1].n_metadata, 0);
    assert_int_equal(s->manifest.writer_feature_flags, FLAG_CONFIG);
    x = new_transaction(t, OPERATION_UPDATE_CONFIG, 2);
    x->op.config = (struct update_config_message){.config_updates = &clear, .table_metadata_updates = &cuts};
    s = commit_on(t, s, x);
    assert_int_equal(s->manifest.n_config, 0);
    assert_int_equal(s->manifest.n_table_metadata, 1);
    assert_int_equal(s->manifest.writer_feature_flags, 0);
    x = new_transaction(t, OPERATION_UPDATE_CONFIG, 3);
    x->op.config = (struct update_config_message){.field_metadata_updates = &on_none, .n_field_metadata_updates = 1};
    assert_int_equal(try_commit(t, s, x, &none), PENNON_INVALID_ARGUMENT);
    snapshot_release(s);
}

/* A primary key is set once. */
static void test_table_build__primary_key(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s = make_table(t, false), *none;
    static const struct {
        const char *key, *value; /* value NULL = delete */
        bool replace;
        pennon_status st;
    } steps[] = {
        {"lance-schema:unenforced-primary-key:position", "no number", false, PENNON_INVALID_ARGUMENT},
        {"lance-schema:unenforced-primary-key", "no", false, PENNON_INVALID_ARGUMENT},
        {"lance-schema:unenforced-primary-key", "Yes", false, PENNON_OK},
        {"lance-schema:unenforced-primary-key", "yes", false, PENNON_INVALID_ARGUMENT},
        {"lance-schema:unenforced-primary-key:position", "2", false, PENNON_INVALID_ARGUMENT},
        {"lance-schema:unenforced-primary-key", NULL, false, PENNON_INVALID_ARGUMENT},
        {"other", "v", true, PENNON_INVALID_ARGUMENT}, /* the replacement would drop the key */
        {"other", "v", false, PENNON_OK},
        {"lance-schema:unenforced-clustering-key:position", "3", false, PENNON_OK},
        {"lance-schema:unenforced-clustering-key:position", "4", false, PENNON_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct update_map_entry_message e = {.key = bytes_str(steps[i].key), .has_value = steps[i].value != NULL};
        struct update_map_message map = {.entries = &e, .n_entries = 1, .replace = steps[i].replace};
        struct field_update_message on_x = {.key = 0, .value = &map};
        if (steps[i].value != NULL) e.value = bytes_str(steps[i].value);
        struct transaction *x = new_transaction(t, OPERATION_UPDATE_CONFIG, s->version);
        x->op.config = (struct update_config_message){.field_metadata_updates = &on_x, .n_field_metadata_updates = 1};
        pennon_status st = try_commit(t, s, x, &none);
        if (st != steps[i].st) fail_msg("step %zu: %d %s", i, st, st != PENNON_OK ? t->base.err.message : "");
        if (st != PENNON_OK) continue;
        snapshot_release(s);
        s = none;
        assert_true(s->schema->fields[0]->primary_key);
    }
    assert_int_equal(s->manifest.fields[0].unenforced_clustering_key_position, 3);
    snapshot_release(s);
}

static void test_table_build__bases_and_wal(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s = make_table(t, false), *none;
    struct base_path_message bases[2] = {{.path = bytes_str("memory://b/1")}, {.id = 7, .path = bytes_str("memory://b/2")}};
    struct transaction *x = new_transaction(t, OPERATION_UPDATE_BASES, 1);
    x->op.bases = (struct update_bases_message){.new_bases = bases, .n_new_bases = 2};
    s = commit_on(t, s, x);
    assert_int_equal(s->n_bases, 2);
    assert_int_equal(s->bases[0].id, 8);
    assert_int_equal(s->manifest.reader_feature_flags, FLAG_BASE_PATHS);
    x = new_transaction(t, OPERATION_UPDATE_BASES, 2);
    x->op.bases = (struct update_bases_message){.new_bases = bases, .n_new_bases = 1}; /* the path is there */
    assert_int_equal(try_commit(t, s, x, &none), PENNON_INVALID_ARGUMENT);
    /* The fragments stay, which official's own writer of this operation forgets. */
    for (uint64_t generation = 5; generation >= 3; generation -= 2) {
        x = new_transaction(t, OPERATION_UPDATE_MEM_WAL_STATE, s->version);
        struct merged_generation_message g = {.shard_id = uuid_of(&x->arena, 1), .generation = generation};
        x->op.mem_wal = (struct update_mem_wal_message){.merged_generations = &g, .n_merged_generations = 1};
        s = commit_on(t, s, x);
        assert_int_equal(s->n_fragments, 3);
        struct arena a;
        struct index_section_message m;
        struct mem_wal_details_message d;
        arena_init(&a, t->base.mem);
        table_ok(t, wire_decode(&index_section_table, index_section(t, s), &a, &m, &t->base.err));
        assert_int_equal(m.n_indices, 1);
        assert_true(m.indices[0].dataset_version == s->version);
        table_ok(t, wire_decode(&mem_wal_details_table, m.indices[0].index_details->value, &a, &d, &t->base.err));
        assert_int_equal(d.n_merged_generations, 1);
        assert_true(d.merged_generations[0].generation == 5);
        arena_reset(&a);
    }
    snapshot_release(s);
}

static void test_table_build__clone(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s = add_indices(t, make_table(t, true)), *made = NULL;
    for (int shallow = 0; shallow < 2; shallow++) {
        struct table_location at = {0};
        struct transaction_options o;
        struct transaction *x = new_transaction(t, OPERATION_CLONE, 2);
        transaction_options_init(&o);
        table_ok(t, table_locate(&t->call, shallow ? "memory://clones/s" : "memory://clones/d", &at, &t->base.err));
        x->op.clone = (struct clone_message){.is_shallow = shallow, .ref_version = 2, .ref_path = bytes_str(t->at.uri)};
        table_ok(t, commit_transaction(&t->call, &at, NULL, x, &o, &made, &t->base.err));
        assert_int_equal(made->version, 2);
        assert_int_equal(made->n_fragments, 3);
        assert_int_equal(made->n_bases, shallow);
        assert_int_equal(made->fragments[1].files[0].base, shallow ? 0 : NO_BASE);
        if (shallow) assert_string_equal(made->bases[0].path, t->at.uri);
        assert_int_equal(made->manifest.next_row_id, 30);
        assert_int_equal(indexed(t, made, "on_y", 2), 1);
        snapshot_release(made);
        made = NULL;
        assert_int_equal(commit_transaction(&t->call, &at, NULL, x, &o, &made, &t->base.err), PENNON_ALREADY_EXISTS);
        transaction_free(x);
        table_location_free(t->base.mem, &at);
    }
    snapshot_release(s);
}

static void test_table_commit__detached(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s = make_table(t, false), *made = NULL, *again = NULL;
    struct data_file_message file = file_of("a.lance", both_fields, 2);
    struct fragment_message f = fragment_of(0, &file, 1, 7);
    struct transaction *x = new_transaction(t, OPERATION_APPEND, 1);
    struct transaction_options o;
    transaction_options_init(&o);
    o.detached = true;
    x->op.append = (struct append_message){.fragments = &f, .n_fragments = 1};
    table_ok(t, commit_transaction(&t->call, &t->at, s, x, &o, &made, &t->base.err));
    assert_true(made->version >> 63 == 1);
    assert_int_equal(made->n_fragments, 4);
    struct version_ref ref = {.version = made->version, .as_of_ns = INT64_MIN};
    table_ok(t, snapshot_open(&t->call, &t->at, &ref, NULL, &again, &t->base.err));
    assert_int_equal(again->n_fragments, 4);
    snapshot_release(again);
    again = NULL;
    table_ok(t, snapshot_open(&t->call, &t->at, NULL, NULL, &again, &t->base.err));
    assert_int_equal(again->version, 1); /* never the latest */
    snapshot_release(again);
    o.detached = false;
    assert_int_equal(commit_transaction(&t->call, &t->at, made, x, &o, NULL, &t->base.err), PENNON_NOT_SUPPORTED);
    transaction_free(x);
    snapshot_release(made);
    snapshot_release(s);
}

static void test_table_commit__refused_transactions(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s = make_table(t, false), *none;
    struct data_file_message file = file_of("a.lance", both_fields, 2),
                             twice[2] = {file_of("a", field_0, 1), file_of("b", field_0, 1)};
    struct fragment_message f = fragment_of(2, &file, 1, 7), g = fragment_of(0, twice, 2, 7);
    int32_t gap[] = {0, -1};
    struct transaction *x = new_transaction(t, OPERATION_APPEND, 1);
    x->op.append = (struct append_message){.fragments = &f, .n_fragments = 1};
    assert_int_equal(try_commit(t, s, x, &none), PENNON_INVALID_ARGUMENT); /* id 2 is taken */
    assert_non_null(strstr(t->base.err.message, "two fragments with the id 2"));
    x = new_transaction(t, OPERATION_APPEND, 1);
    x->op.append = (struct append_message){.fragments = &g, .n_fragments = 1};
    assert_int_equal(try_commit(t, s, x, &none), PENNON_NOT_SUPPORTED); /* a field in two files */
    f.id = 0;
    file.column_indices = gap;
    x = new_transaction(t, OPERATION_APPEND, 1);
    x->op.append = (struct append_message){.fragments = &f, .n_fragments = 1};
    assert_int_equal(try_commit(t, s, x, &none), PENNON_INVALID_ARGUMENT); /* y without a column */
    x = new_transaction(t, OPERATION_APPEND, 99);
    assert_int_equal(try_commit(t, s, x, &none), PENNON_NOT_FOUND);
    assert_string_equal(t->base.err.kind, "VersionNotFound");
    x = new_transaction(t, OPERATION_APPEND, 0);
    assert_int_equal(try_commit(t, NULL, x, &none), PENNON_ALREADY_EXISTS);
    x = decode(t, envelope(t, OPERATION_DATA_OVERLAY, bytes_of(NULL, 0)));
    x->read_version = 1;
    assert_int_equal(try_commit(t, s, x, &none), PENNON_NOT_SUPPORTED);
    snapshot_release(s);
}

/* Readers that do not like to list find the hint, on every store. */
static void test_table_commit__version_hint(void **state)
{
    struct table_fixture *t = *state;
    struct block *b = NULL;
    snapshot_release(add_indices(t, make_table(t, false)));
    table_ok(t, store_get(&t->call, t->store, "tables/t/_versions/latest_version_hint.json", 100, &b, &t->base.err));
    assert_true(bytes_equal(bytes_of(b->data, b->size), bytes_str("{\"version\":2}")));
    block_release(b);
}

/* The config of the new version asks for cleanup; the caller may skip it. */
static void test_table_commit__cleans_afterwards(void **state)
{
    struct table_fixture *t = *state;
    struct update_map_entry_message keys[] = {
        {.key = bytes_str("lance.auto_cleanup.interval"), .has_value = true, .value = bytes_str("1")},
        {.key = bytes_str("lance.auto_cleanup.older_than"), .has_value = true, .value = bytes_str("0s")}};
    struct update_map_message map = {.entries = keys, .n_entries = 2};
    for (int skip = 1; skip >= 0; skip--) {
        struct snapshot *s = skip ? make_table(t, false) : NULL, *next = NULL;
        struct transaction_options o;
        uint64_t *versions = NULL;
        size_t n = 0;
        if (skip) s = commit_on(t, s, new_transaction(t, OPERATION_RESERVE_FRAGMENTS, 1));
        if (!skip) table_ok(t, snapshot_open(&t->call, &t->at, NULL, NULL, &s, &t->base.err));
        transaction_options_init(&o);
        o.skip_auto_cleanup = skip;
        struct transaction *x = new_transaction(t, OPERATION_UPDATE_CONFIG, s->version);
        x->op.config.config_updates = &map;
        table_ok(t, commit_transaction(&t->call, &t->at, s, x, &o, &next, &t->base.err));
        table_ok(t, list_versions(&t->call, &t->at, &versions, &n, &t->base.err));
        /* The version that the commit was made from stays. */
        assert_int_equal(n, skip ? 3 : 2);
        assert_true(versions[n - 2] == s->version && versions[n - 1] == next->version);
        mem_free(t->base.mem, versions);
        transaction_free(x);
        snapshot_release(next);
        snapshot_release(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TABLE_TEST(test_table_transaction__round_trips),
        TABLE_TEST(test_table_transaction__unknown_operations),
        TABLE_TEST(test_table_transaction__old_forms),
        TABLE_TEST(test_table_transaction__hostile),
        TABLE_TEST(test_table_transaction__batch),
        TABLE_TEST(test_table_id_set__roaring),
        TABLE_TEST(test_table_build__delete),
        TABLE_TEST(test_table_build__retention),
        TABLE_TEST(test_table_build__rewrite),
        TABLE_TEST(test_table_build__addresses_do_not_follow),
        TABLE_TEST(test_table_build__merge),
        TABLE_TEST(test_table_build__update),
        TABLE_TEST(test_table_build__data_replacement),
        TABLE_TEST(test_table_build__restore),
        TABLE_TEST(test_table_build__config),
        TABLE_TEST(test_table_build__primary_key),
        TABLE_TEST(test_table_build__bases_and_wal),
        TABLE_TEST(test_table_build__clone),
        TABLE_TEST(test_table_commit__detached),
        TABLE_TEST(test_table_commit__refused_transactions),
        TABLE_TEST(test_table_commit__version_hint),
        TABLE_TEST(test_table_commit__cleans_afterwards),
    };
    return cmocka_run_group_tests_name("transaction", tests, NULL, NULL);
}
