/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the tests of transactions share: fragments, files and tables made by hand. */
#ifndef TESTS_TRANSACTION_FIXTURE_H
#define TESTS_TRANSACTION_FIXTURE_H

#include "table/commit_private.h"
#include "table_fixture.h"

static int32_t field_0[] = {0};
static int32_t field_1[] = {1};
static int32_t both_fields[] = {0, 1};

/* Two int64 columns, x (0) and y (1). */
static struct field_message two_fields[2] = {
    {.name = {(const uint8_t *)"x", 1}, .id = 0, .parent_id = -1, .logical_type = {(const uint8_t *)"int64", 5}, .nullable = true},
    {.name = {(const uint8_t *)"y", 1}, .id = 1, .parent_id = -1, .logical_type = {(const uint8_t *)"int64", 5}, .nullable = true}};

static inline struct data_file_message file_of(const char *path, int32_t *fields, size_t n)
{
    return (struct data_file_message){.path = bytes_str(path),
                                      .fields = fields,
                                      .n_fields = n,
                                      .column_indices = both_fields,
                                      .n_column_indices = n,
                                      .file_major_version = 2,
                                      .file_minor_version = 1,
                                      .file_size_bytes = 100};
}

static inline struct fragment_message fragment_of(uint64_t id, struct data_file_message *files, size_t n, uint64_t rows)
{
    return (struct fragment_message){.id = id, .files = files, .n_files = n, .physical_rows = rows};
}

static inline struct transaction *new_transaction(struct table_fixture *t, uint32_t which, uint64_t read_version)
{
    struct transaction *x = NULL;
    table_ok(t, transaction_new(t->base.mem, which, read_version, &x, &t->base.err));
    return x;
}

/* A Roaring bitmap of the ids, in the transaction's arena. */
static inline struct bytes bitmap_of(struct table_fixture *t, struct arena *a, const uint32_t *ids, size_t n)
{
    struct index_metadata_message entry = {0};
    struct id_set set;
    id_set_init(&set, t->base.mem);
    for (size_t i = 0; i < n; i++) table_ok(t, id_set_add(&set, ids[i], &t->base.err));
    table_ok(t, index_set_bitmap(a, &set, &entry, &t->base.err));
    id_set_free(&set);
    return entry.fragment_bitmap;
}

/* The table of the tests: x in fragments 0, 1, 2 of 10 rows, with y in a second file each. Version 1. */
static inline struct snapshot *make_table(struct table_fixture *t, bool stable)
{
    static struct data_file_message files[3][2];
    static const char *const names[3][2] = {{"x0", "y0"}, {"x1", "y1"}, {"x2", "y2"}};
    struct fragment_message list[3];
    struct transaction *x = new_transaction(t, OPERATION_OVERWRITE, 0);
    struct transaction_options o;
    struct snapshot *s = NULL;
    transaction_options_init(&o);
    o.stable_row_ids = stable;
    for (size_t i = 0; i < 3; i++) {
        files[i][0] = file_of(names[i][0], field_0, 1);
        files[i][1] = file_of(names[i][1], field_1, 1);
        list[i] = fragment_of(0, files[i], 2, 10);
    }
    x->op.overwrite = (struct overwrite_message){.fragments = list, .n_fragments = 3, .schema = two_fields, .n_schema = 2};
    table_ok(t, commit_transaction(&t->call, &t->at, NULL, x, &o, &s, &t->base.err));
    table_ok(t, snapshot_load_fragments(s, &t->base.err));
    transaction_free(x);
    return s;
}

static inline struct bytes index_section(struct table_fixture *t, const struct snapshot *s)
{
    struct bytes in;
    table_ok(t, snapshot_section(&t->call, s, SECTION_INDICES, &in, &t->base.err));
    return in;
}

/* Commits on top of `s`, which is released; the result's fragments are loaded. */
static inline struct snapshot *commit_on(struct table_fixture *t, struct snapshot *s, struct transaction *x)
{
    struct transaction_options o;
    struct snapshot *next = NULL;
    transaction_options_init(&o);
    table_ok(t, commit_transaction(&t->call, &t->at, s, x, &o, &next, &t->base.err));
    table_ok(t, snapshot_load_fragments(next, &t->base.err));
    snapshot_release(s);
    transaction_free(x);
    return next;
}

static inline pennon_status try_commit(struct table_fixture *t, struct snapshot *s, struct transaction *x, struct snapshot **out)
{
    struct transaction_options o;
    transaction_options_init(&o);
    *out = NULL;
    pennon_status st = commit_transaction(&t->call, &t->at, s, x, &o, out, &t->base.err);
    transaction_free(x);
    return st;
}

static inline struct uuid_message *uuid_of(struct arena *a, uint8_t digit)
{
    pennon_error err;
    pennon_error_init(&err);
    uint8_t *bytes = arena_alloc(a, 16, &err);
    struct uuid_message *u = arena_calloc(a, 1, sizeof *u, &err);
    assert_true(bytes != NULL && u != NULL);
    memset(bytes, digit, 16);
    u->uuid = bytes_of(bytes, 16);
    return u;
}

/* An index entry named `name` over one field and the fragments. */
static inline struct index_metadata_message index_of(struct table_fixture *t, struct arena *a, const char *name, uint8_t digit,
                                                     int32_t *field, const uint32_t *ids, size_t n)
{
    return (struct index_metadata_message){.uuid = uuid_of(a, digit),
                                           .fields = field,
                                           .n_fields = field != NULL,
                                           .name = bytes_str(name),
                                           .dataset_version = digit,
                                           .fragment_bitmap = bitmap_of(t, a, ids, n)};
}

/* Is the fragment in the bitmap of the entry of that name? -1 = there is no entry. */
static inline int indexed(struct table_fixture *t, const struct snapshot *s, const char *name, uint32_t id)
{
    struct arena a;
    struct index_section_message m = {0};
    struct id_set set;
    int out = -1;
    arena_init(&a, t->base.mem);
    id_set_init(&set, t->base.mem);
    const struct bytes in = index_section(t, s);
    if (in.size > 0) table_ok(t, wire_decode(&index_section_table, in, &a, &m, &t->base.err));
    const struct index_metadata_message *e = index_find(m.indices, m.n_indices, name);
    if (e != NULL && e->fragment_bitmap.size > 0) {
        table_ok(t, id_set_parse(&set, e->fragment_bitmap, &t->base.err));
        out = id_set_contains(&set, id);
    } else if (e != NULL) {
        out = 2;
    }
    id_set_free(&set);
    arena_reset(&a);
    return out;
}

#endif
