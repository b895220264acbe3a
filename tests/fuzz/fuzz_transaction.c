/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Two transactions (u16 length of the first, both): decoded, encoded and decoded again; the second on top of the first by the conflict rules; the manifest that
 * each makes on a small table. */
#include <stdint.h>
#include <stdlib.h>

#include "table/commit_private.h"

#define REQUIRE(cond)         \
    do {                      \
        if (!(cond)) abort(); \
    } while (0)

/* The table: versions 1 and 2 are alike; three fragments of two columns with row ids, deletions and an index. In a memory store, made once. */
struct world {
    struct call call;
    struct table_location at;
};

static struct bytes encoded(struct buf *b, const struct wire_message *table, const void *m, pennon_error *err)
{
    b->size = 0;
    REQUIRE(wire_encode(table, m, b, err) == PENNON_OK);
    return bytes_of(b->data, b->size);
}

static void put_table(struct world *w, struct mem *m, pennon_error *err)
{
    static const uint8_t uuid[16] = {1};
    int32_t ids[] = {0, 1};
    struct uuid_message id = {.uuid = bytes_of(uuid, 16)};
    struct field_message fields[2] = {
        {.name = bytes_str("x"), .id = 0, .parent_id = -1, .logical_type = bytes_str("int64"), .nullable = true},
        {.name = bytes_str("y"), .id = 1, .parent_id = -1, .logical_type = bytes_str("int64"), .nullable = true}};
    struct data_file_message file = {.path = bytes_str("a"),
                                     .fields = ids,
                                     .n_fields = 2,
                                     .column_indices = ids,
                                     .n_column_indices = 2,
                                     .file_major_version = 2,
                                     .file_minor_version = 1};
    struct writer_version_message writer = {.library = bytes_str("lance"), .version = bytes_str("8.0.0")};
    struct data_format_message format = {.file_format = bytes_str("lance"), .version = bytes_str("2.1")};
    struct index_metadata_message index = {.uuid = &id, .fields = ids, .n_fields = 1, .name = bytes_str("i")};
    struct index_section_message section = {.indices = &index, .n_indices = 1};
    struct fragment_message list[3];
    struct buf ids_text[3], versions, index_text;
    buf_init(&versions, m, BUF_NO_LIMIT);
    buf_init(&index_text, m, BUF_NO_LIMIT);
    REQUIRE(version_run_encode(1, 10, &versions, err) == PENNON_OK);
    index.fragment_bitmap = bytes_of("\x3a\x30\0\0\x01\0\0\0\0\0\x01\0\x10\0\0\0\0\0\x01\0", 20);
    for (uint64_t i = 0; i < 3; i++) {
        buf_init(&ids_text[i], m, BUF_NO_LIMIT);
        REQUIRE(row_id_range_encode(i * 10, 10, &ids_text[i], err) == PENNON_OK);
        list[i] = (struct fragment_message){.id = i,
                                            .files = &file,
                                            .n_files = 1,
                                            .physical_rows = 10,
                                            .row_ids_which = 5,
                                            .inline_row_ids = bytes_of(ids_text[i].data, ids_text[i].size),
                                            .last_updated_which = 7,
                                            .inline_last_updated = bytes_of(versions.data, versions.size),
                                            .created_which = 9,
                                            .inline_created = bytes_of(versions.data, versions.size)};
    }
    struct bytes indices = encoded(&index_text, &index_section_table, &section, err);
    for (uint64_t v = 1; v <= 2; v++) {
        struct block *made = NULL;
        struct manifest_message manifest = {.fields = fields,
                                            .n_fields = 2,
                                            .fragments = list,
                                            .n_fragments = 3,
                                            .version = v,
                                            .reader_feature_flags = FLAG_STABLE_ROW_IDS,
                                            .writer_feature_flags = FLAG_STABLE_ROW_IDS,
                                            .writer_version = &writer,
                                            .data_format = &format,
                                            .next_row_id = 30,
                                            .has_max_fragment_id = true,
                                            .max_fragment_id = 4};
        REQUIRE(manifest_file_make(m, &manifest, bytes_of(NULL, 0), indices, bytes_of(NULL, 0), &made, err) == PENNON_OK);
        char *path = manifest_path(m, w->at.path, v, true, err);
        REQUIRE(path != NULL && store_put(&w->call, w->at.store, path, bytes_of(made->data, made->size), 0, err) == PENNON_OK);
        mem_free(m, path);
        block_release(made);
    }
    for (size_t i = 0; i < 3; i++) buf_free(&ids_text[i]);
    buf_free(&versions);
    buf_free(&index_text);
}

static struct world *world(pennon_error *err)
{
    static struct world w;
    if (w.at.store != NULL) return &w;
    REQUIRE(call_begin(&w.call, NULL, err) == PENNON_OK);
    w.call.durability = PENNON_DURABILITY_NONE;
    REQUIRE(table_locate(&w.call, "memory://fuzz/t", &w.at, err) == PENNON_OK);
    put_table(&w, w.call.mem, err);
    return &w;
}

/* There and back: the second encoding is the first. */
static struct transaction *round_trip(struct mem *m, struct bytes in, pennon_error *err)
{
    struct transaction *t = NULL, *again = NULL;
    struct buf first, second;
    if (transaction_decode(m, in, &t, err) != PENNON_OK) return NULL;
    buf_init(&first, m, BUF_NO_LIMIT);
    buf_init(&second, m, BUF_NO_LIMIT);
    if (transaction_encode(t, &first, err) == PENNON_OK &&
        transaction_decode(m, bytes_of(first.data, first.size), &again, err) == PENNON_OK) {
        REQUIRE(again->which == t->which);
        if (transaction_encode(again, &second, err) == PENNON_OK)
            REQUIRE(bytes_equal(bytes_of(first.data, first.size), bytes_of(second.data, second.size)));
    } else {
        REQUIRE(err->code == PENNON_OVER_BUDGET);
    }
    transaction_free(again);
    buf_free(&first);
    buf_free(&second);
    return t;
}

/* A clone may name any place; only memory is looked at. */
static bool stays_inside(const struct transaction *t)
{
    struct bytes path = t->op.clone.ref_path;
    return t->which != OPERATION_CLONE || (path.size > 9 && memcmp(path.data, "memory://", 9) == 0);
}

static void build(const struct call *c, struct snapshot *s, const struct transaction *t, pennon_error *err)
{
    struct transaction_options o;
    struct block *file = NULL;
    struct snapshot *made = NULL;
    transaction_options_init(&o);
    o.stable_row_ids = true;
    struct snapshot *current = t->which == OPERATION_CLONE ? NULL : s;
    if (!stays_inside(t) || transaction_validate(t, current, err) != PENNON_OK) return;
    pennon_status st = manifest_build(c, t, &o, current, 3, "x.txn", bytes_str("t"), &file, err);
    REQUIRE(st != PENNON_INTERNAL);
    if (st == PENNON_OK && snapshot_parse(c->mem, file, "3.manifest", &made, err) == PENNON_OK) {
        REQUIRE(made->version == 3 && !made->doubled_ids);
        /* Neither counter goes back. */
        if (current != NULL) REQUIRE(made->manifest.next_row_id >= 30 && made->manifest.max_fragment_id >= 4);
    }
    snapshot_release(made);
    block_release(file);
}

static void rebase(const struct call *c, struct snapshot *one, struct snapshot *two, const struct transaction *theirs,
                   const struct transaction *mine, pennon_error *err)
{
    static const uint64_t rows[] = {1, 5, UINT64_C(1) << 32 | 3};
    struct transaction_options o;
    struct rebase r;
    transaction_options_init(&o);
    o.knows_rows = true;
    o.affected_rows = rows;
    o.n_affected_rows = 3;
    if (mine->which == OPERATION_CLONE || transaction_validate(mine, one, err) != PENNON_OK) return;
    pennon_status st = rebase_begin(&r, c, &o, one, mine, err);
    if (st == PENNON_OK) st = conflict_check(&r, one, two, theirs, err);
    if (st == PENNON_OK) st = rebase_finish(&r, two, err);
    if (st == PENNON_OK) build(c, two, r.t, err);
    rebase_remove_files(&r);
    rebase_end(&r);
}

static void use_both(const struct call *c, struct world *w, struct bytes a, struct bytes b, pennon_error *err)
{
    struct transaction *theirs = round_trip(c->mem, a, err), *mine = round_trip(c->mem, b, err);
    struct snapshot *one = NULL, *two = NULL;
    if (snapshot_read(c, &w->at, 1, true, NULL, &one, err) == PENNON_OK &&
        snapshot_read(c, &w->at, 2, true, NULL, &two, err) == PENNON_OK) {
        if (theirs != NULL) build(c, two, theirs, err);
        if (mine != NULL) rebase(c, one, two, theirs, mine, err);
    }
    snapshot_release(one);
    snapshot_release(two);
    transaction_free(theirs);
    transaction_free(mine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    pennon_error_init(&err);
    struct world *w = world(&err);
    struct call c = w->call;
    c.mem = mem_new(NULL, UINT64_C(64) << 20, NULL, &err);
    if (size < 2 || c.mem == NULL) {
        if (c.mem != NULL) mem_release(c.mem);
        return 0;
    }
    size_t n = (size_t)min_u64(load_u16(data), size - 2);
    use_both(&c, w, bytes_of(data + 2, n), bytes_of(data + 2 + n, size - 2 - n), &err);
    REQUIRE(mem_used(c.mem) == 0);
    mem_release(c.mem);
    pennon_error_clear(&err);
    return 0;
}
