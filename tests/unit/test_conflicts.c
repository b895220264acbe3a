/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Every ordered pair of operations on one table, against a table of outcomes written by hand from the format's description; what the cells look closer at;
 * what rebasing makes of a transaction. */
#include <stdio.h>

#include "transaction_fixture.h"

/* ---- one transaction of each kind ---- */

/* Everything that the transactions of a test point to. */
struct parts {
    struct data_file_message file, files[3][3];
    struct fragment_message one, list[4];
    struct deletion_file_message gone;
    struct rewrite_group_message group;
    struct index_metadata_message index;
    struct field_message fields[3];
    struct update_map_entry_message entry;
    struct update_map_message map;
    struct replacement_message replacement;
    struct merged_generation_message generation;
    struct base_path_message base;
    char name[8], path[32];
};

static int32_t field_2[] = {2};

/* Of the kind `which`, on fragment `f`, with names that begin with `who`. */
static struct transaction *make(struct table_fixture *t, struct parts *p, struct snapshot *s, uint32_t which, uint32_t f, char who)
{
    struct transaction *x = new_transaction(t, which, s->version);
    struct arena *a = &x->arena;
    (void)snprintf(p->name, sizeof p->name, "%c", who);
    (void)snprintf(p->path, sizeof p->path, "memory://base/%c", who);
    p->file = file_of(p->name, both_fields, 2);
    p->one = fragment_of(0, &p->file, 1, 5);
    p->gone = (struct deletion_file_message){.file_type = 1, .read_version = 1, .id = (uint64_t)who, .num_deleted_rows = 1};
    p->list[3] = *s->fragments[f].message;
    switch (which) {
    case OPERATION_APPEND: x->op.append = (struct append_message){.fragments = &p->one, .n_fragments = 1}; break;
    case OPERATION_DELETE:
        p->list[3].deletion_file = &p->gone;
        x->op.remove = (struct delete_message){.updated_fragments = &p->list[3], .n_updated_fragments = 1};
        break;
    case OPERATION_OVERWRITE:
        x->op.overwrite = (struct overwrite_message){.fragments = &p->one, .n_fragments = 1, .schema = two_fields, .n_schema = 2};
        break;
    case OPERATION_CREATE_INDEX:
        p->index = index_of(t, a, p->name, (uint8_t)who, field_0, &f, 1);
        x->op.create_index = (struct create_index_message){.new_indices = &p->index, .n_new_indices = 1};
        break;
    case OPERATION_REWRITE:
        p->group = (struct rewrite_group_message){
            .old_fragments = &p->list[3], .n_old_fragments = 1, .new_fragments = &p->one, .n_new_fragments = 1};
        x->op.rewrite = (struct rewrite_message){.groups = &p->group, .n_groups = 1};
        break;
    case OPERATION_MERGE:
        for (size_t i = 0; i < 3; i++) {
            p->list[i] = *s->fragments[i].message;
            memcpy(p->files[i], p->list[i].files, 2 * sizeof(struct data_file_message));
            p->files[i][2] = file_of(p->name, field_2, 1);
            p->list[i].files = p->files[i];
            p->list[i].n_files = 3;
        }
        memcpy(p->fields, two_fields, sizeof two_fields);
        p->fields[2] = two_fields[1];
        p->fields[2].id = 2;
        p->fields[2].name = bytes_str("z");
        x->op.merge = (struct merge_message){.fragments = p->list, .n_fragments = 3, .schema = p->fields, .n_schema = 3};
        break;
    case OPERATION_RESTORE: x->op.restore.version = 1; break;
    case OPERATION_RESERVE_FRAGMENTS: x->op.reserve.num_fragments = 1; break;
    case OPERATION_UPDATE:
        p->list[3].deletion_file = &p->gone;
        x->op.update = (struct update_message){
            .updated_fragments = &p->list[3], .n_updated_fragments = 1, .new_fragments = &p->one, .n_new_fragments = 1};
        break;
    case OPERATION_PROJECT:
        memcpy(p->fields, two_fields, sizeof two_fields);
        p->fields[1].name = bytes_str(p->name);
        x->op.project = (struct project_message){.schema = p->fields, .n_schema = 2};
        break;
    case OPERATION_UPDATE_CONFIG:
        p->entry = (struct update_map_entry_message){.key = bytes_str(p->name), .has_value = true};
        p->map = (struct update_map_message){.entries = &p->entry, .n_entries = 1};
        x->op.config.config_updates = &p->map;
        break;
    case OPERATION_DATA_REPLACEMENT:
        p->file = file_of(p->name, field_1, 1);
        p->replacement = (struct replacement_message){.fragment_id = f, .new_file = &p->file};
        x->op.replacement = (struct data_replacement_message){.replacements = &p->replacement, .n_replacements = 1};
        break;
    case OPERATION_UPDATE_MEM_WAL_STATE:
        p->generation = (struct merged_generation_message){.shard_id = uuid_of(a, (uint8_t)who), .generation = 4};
        x->op.mem_wal = (struct update_mem_wal_message){.merged_generations = &p->generation, .n_merged_generations = 1};
        break;
    case OPERATION_CLONE:
        x->op.clone = (struct clone_message){.is_shallow = true, .ref_version = 1, .ref_path = bytes_str("memory://x")};
        break;
    default:
        p->base = (struct base_path_message){.path = bytes_str(p->path)};
        x->op.bases = (struct update_bases_message){.new_bases = &p->base, .n_new_bases = 1};
        break;
    }
    return x;
}

/* Version 2 with the content of version 1 and a transaction that nobody commits this way. */
static void put_copy(struct table_fixture *t, struct snapshot *s, const struct transaction *x)
{
    struct manifest_message m;
    struct arena a;
    struct buf file, txn;
    struct bytes all = bytes_of(s->bytes->data, s->bytes->size);
    const uint64_t at = load_u64(all.data + all.size - 16);
    arena_init(&a, t->base.mem);
    buf_init(&file, t->base.mem, BUF_NO_LIMIT);
    buf_init(&txn, t->base.mem, BUF_NO_LIMIT);
    if (x != NULL) table_ok(t, transaction_encode(x, &txn, &t->base.err));
    table_ok(t, wire_decode(&manifest_table, bytes_of(all.data + at + 4, all.size - 20 - at), &a, &m, &t->base.err));
    m.version = 2;
    m.has_transaction_section = m.has_index_section = false;
    m.transaction_file = bytes_of(NULL, 0);
    manifest_bytes(&t->base, &m, bytes_of(NULL, 0), bytes_of(txn.data, txn.size), &file);
    put_object(t, "tables/t/_versions/18446744073709551613.manifest", file.data, file.size);
    buf_free(&file);
    buf_free(&txn);
    arena_reset(&a);
}

static void wipe(struct table_fixture *t)
{
    for (uint64_t v = 1; v <= 5; v++) {
        char *path = manifest_path(t->base.mem, t->at.path, v, true, &t->base.err);
        (void)!store_delete(&t->call, t->store, path, &t->base.err);
        mem_free(t->base.mem, path);
    }
}

/* ---- the matrix ---- */

/* o = goes through, R = retry, N = never. Rows are mine, columns theirs: Append, Delete, Overwrite, CreateIndex, reWrite, Merge, Restore, reserve Fragments,
 * Update, Project, update confiG, data replacement (X), mem waL, clone (K), Bases. */
#define COLUMNS "ADOCWMRFUPGXLKB"
struct row {
    uint32_t mine;
    const char *same;  /* both on fragment 0 */
    const char *apart; /* theirs on fragment 0, mine on fragment 1 */
};
static const struct row MATRIX[] = {
    /*                                ADOCWMRFUPGXLKB    ADOCWMRFUPGXLKB */
    {OPERATION_APPEND, /*          */ "ooNoooNoooooNoo", "ooNoooNoooooNoo"},
    {OPERATION_DELETE, /*          */ "oRNoRRNoRooRNoo", "ooNooRNoooooNoo"},
    {OPERATION_OVERWRITE, /*       */ "ooRoooooooooNoo", "ooRoooooooooNoo"},
    {OPERATION_CREATE_INDEX, /*    */ "ooNoRoNoooooNoo", "ooNoooNoooooNoo"},
    {OPERATION_REWRITE, /*         */ "oRNRRRNoRooRooo", "ooNooRNoooooooo"},
    {OPERATION_MERGE, /*           */ "RRNoRRNoRNoRNoo", "RRNoRRNoRNoRNoo"},
    {OPERATION_RESTORE, /*         */ "ooooooooooooNoo", "ooooooooooooNoo"},
    {OPERATION_RESERVE_FRAGMENTS, /**/ "ooNoooNoooooooo", "ooNoooNoooooooo"},
    {OPERATION_UPDATE, /*          */ "oRNoRRNoRooRooo", "ooNooRNoooooooo"},
    {OPERATION_PROJECT, /*         */ "ooNooRNooRooNoo", "ooNooRNooRooNoo"},
    {OPERATION_UPDATE_CONFIG, /*   */ "ooooooooooooooo", "ooooooooooooooo"},
    {OPERATION_DATA_REPLACEMENT, /**/ "ooNoRRNoRooRNoo", "ooNooRNoooooNoo"},
    {OPERATION_UPDATE_MEM_WAL_STATE, "NNNooNNooNoNoNo", "NNNooNNooNoNoNo"},
    {OPERATION_UPDATE_BASES, /*    */ "ooooooooooooooo", "ooooooooooooooo"},
};

static void test_table_conflicts__matrix(void **state)
{
    struct table_fixture *t = *state;
    for (size_t row = 0; row < ARRAY_LEN(MATRIX); row++) {
        for (uint32_t column = 0; column < strlen(COLUMNS); column++) {
            for (uint32_t f = 0; f < 2; f++) {
                struct parts mine, theirs;
                struct snapshot *s = make_table(t, false), *next = NULL;
                const uint32_t other = OPERATION_APPEND + column;
                struct transaction *x = make(t, &theirs, s, other, 0, 't');
                if (other == OPERATION_CLONE) {
                    put_copy(t, s, x);
                    transaction_free(x);
                } else {
                    table_ok(t, try_commit(t, s, x, &next));
                    snapshot_release(next);
                }
                x = make(t, &mine, s, MATRIX[row].mine, f, 'm');
                pennon_status st = try_commit(t, s, x, &next);
                const char want = (f == 0 ? MATRIX[row].same : MATRIX[row].apart)[column];
                const char got = st == PENNON_OK ? 'o' : st == PENNON_CONFLICT ? 'R' : st == PENNON_CONFLICT_FINAL ? 'N' : '?';
                if (got != want) {
                    fail_msg("mine %s over %s, fragment %u: %c, not %c (%s)", operation_name(MATRIX[row].mine),
                             operation_name(other), f, got, want, st != PENNON_OK ? t->base.err.message : "");
                }
                if (got == 'R') assert_string_equal(t->base.err.kind, "RetryableCommitConflict");
                if (got == 'N') assert_string_equal(t->base.err.kind, "IncompatibleTransaction");
                if (got == 'o') assert_int_equal(next->version, 3);
                if (got != 'o') assert_int_equal(t->base.err.version, 2);
                snapshot_release(next);
                snapshot_release(s);
                wipe(t);
            }
        }
    }
}

/* A version without a transaction, or with one that is not known here, stops everybody. */
static void test_table_conflicts__unknown(void **state)
{
    struct table_fixture *t = *state;
    for (size_t row = 0; row < ARRAY_LEN(MATRIX); row++) {
        for (int with = 0; with < 2; with++) {
            struct parts mine;
            struct transaction newer = {.which = OPERATION_DATA_OVERLAY, .uuid = "x"};
            struct snapshot *s = make_table(t, false), *next;
            put_copy(t, s, with ? &newer : NULL);
            assert_int_equal(try_commit(t, s, make(t, &mine, s, MATRIX[row].mine, 0, 'm'), &next), PENNON_CONFLICT);
            assert_non_null(strstr(t->base.err.message, with ? "DataOverlay" : "unknown"));
            snapshot_release(s);
            wipe(t);
        }
    }
}

/* ---- closer looks ---- */

/* Changes a pair after it was made. */
typedef void (*bend_fn)(struct transaction *mine, struct transaction *theirs);

static struct update_map_entry_message same_key = {.key = {(const uint8_t *)"t", 1}, .has_value = true};
static struct update_map_entry_message same_key_deleted = {.key = {(const uint8_t *)"t", 1}};
static struct update_map_message sets_same = {.entries = &same_key, .n_entries = 1};
static struct update_map_message deletes_same = {.entries = &same_key_deleted, .n_entries = 1};
static struct update_map_message clears = {.replace = true};
static struct field_update_message update_x = {.key = 0, .value = &sets_same}, update_y = {.key = 1, .value = &sets_same};
static struct map_entry config_pair = {.key = {(const uint8_t *)"t", 1}};

static void both_set(struct transaction *m, struct transaction *o)
{
    m->op.config.config_updates = o->op.config.config_updates = &sets_same;
}
static void set_and_delete(struct transaction *m, struct transaction *o)
{
    m->op.config.config_updates = &sets_same;
    o->op.config.config_updates = &deletes_same;
}
static void both_delete(struct transaction *m, struct transaction *o)
{
    m->op.config.config_updates = o->op.config.config_updates = &deletes_same;
}
static void replaces(struct transaction *m, struct transaction *o)
{
    UNUSED(o);
    m->op.config.config_updates = &clears;
}
static void schema_metadata(struct transaction *m, struct transaction *o)
{
    m->op.config = (struct update_config_message){.schema_metadata_updates = &sets_same};
    o->op.config = (struct update_config_message){.schema_metadata_updates = &sets_same};
}
static void schema_metadata_mine(struct transaction *m, struct transaction *o)
{
    UNUSED(o);
    m->op.config = (struct update_config_message){.schema_metadata_updates = &sets_same};
}
static void same_field(struct transaction *m, struct transaction *o)
{
    m->op.config = (struct update_config_message){.field_metadata_updates = &update_x, .n_field_metadata_updates = 1};
    o->op.config = m->op.config;
}
static void their_field(struct transaction *m, struct transaction *o)
{
    UNUSED(m);
    o->op.config = (struct update_config_message){.field_metadata_updates = &update_x, .n_field_metadata_updates = 1};
}
static void other_field(struct transaction *m, struct transaction *o)
{
    same_field(m, o);
    o->op.config.field_metadata_updates = &update_y;
}
static void table_metadata(struct transaction *m, struct transaction *o)
{
    m->op.config = (struct update_config_message){.table_metadata_updates = &deletes_same};
    o->op.config = m->op.config;
}
static void overwrite_sets(struct transaction *m, struct transaction *o)
{
    UNUSED(o);
    m->op.overwrite.config_upsert_values = &config_pair;
    m->op.overwrite.n_config_upsert_values = 1;
}
static void overwritten_sets(struct transaction *m, struct transaction *o)
{
    m->op.config.config_updates = &sets_same;
    o->op.overwrite.config_upsert_values = &config_pair;
    o->op.overwrite.n_config_upsert_values = 1;
}
static void same_name(struct transaction *m, struct transaction *o)
{
    m->op.create_index.new_indices[0].name = o->op.create_index.new_indices[0].name = bytes_str("same");
}
static void no_bitmap(struct transaction *m, struct transaction *o)
{
    UNUSED(o);
    m->op.create_index.new_indices[0].fragment_bitmap = bytes_of(NULL, 0);
}
static void same_index_field(struct transaction *m, struct transaction *o)
{
    UNUSED(o);
    m->op.create_index.new_indices[0].fields = field_1;
}
static void index_gone(struct transaction *m, struct transaction *o)
{
    m->op.create_index.new_indices[0].fields = field_1;
    o->op.project.n_schema = 1;
}
static void same_path(struct transaction *m, struct transaction *o)
{
    m->op.bases.new_bases[0].path = o->op.bases.new_bases[0].path;
}
static void same_id(struct transaction *m, struct transaction *o) { m->op.bases.new_bases[0].id = o->op.bases.new_bases[0].id = 4; }
static void shard_behind(struct transaction *m, struct transaction *o)
{
    m->op.mem_wal.merged_generations[0].shard_id = o->op.mem_wal.merged_generations[0].shard_id;
}
static void shard_ahead(struct transaction *m, struct transaction *o)
{
    shard_behind(m, o);
    m->op.mem_wal.merged_generations[0].generation = 5;
}
static void promise(struct transaction *m, struct transaction *o)
{
    UNUSED(o);
    m->op.project.schema[0].nullable = false;
}
static void promised(struct transaction *m, struct transaction *o)
{
    UNUSED(m);
    o->op.project.schema[0].nullable = false;
}
static void other_column(struct transaction *m, struct transaction *o)
{
    UNUSED(o);
    m->op.replacement.replacements[0].new_file->fields = field_0;
}
static uint64_t fragment_0[] = {0};
static void fragment_removed(struct transaction *m, struct transaction *o)
{
    UNUSED(m);
    o->op.remove = (struct delete_message){.deleted_fragment_ids = fragment_0, .n_deleted_fragment_ids = 1};
}
static uint64_t hash_1[] = {1, 2}, hash_2[] = {3};
static struct exact_filter_message exact_1 = {.key_hashes = hash_1, .n_key_hashes = 2},
                                   exact_2 = {.key_hashes = hash_2, .n_key_hashes = 1};
static struct key_filter_message filter_1 = {.field_ids = field_0, .n_field_ids = 1, .which = KEY_FILTER_EXACT, .exact = &exact_1};
static struct key_filter_message filter_2 = {.field_ids = field_0, .n_field_ids = 1, .which = KEY_FILTER_EXACT, .exact = &exact_2};
static struct bloom_filter_message bloom_1 = {.bitmap = {(const uint8_t *)"\x01\x10", 2}},
                                   bloom_2 = {.bitmap = {(const uint8_t *)"\x02\x20", 2}};
static struct key_filter_message filter_3 = {.field_ids = field_0, .n_field_ids = 1, .which = KEY_FILTER_BLOOM, .bloom = &bloom_1};
static struct key_filter_message filter_4 = {.field_ids = field_0, .n_field_ids = 1, .which = KEY_FILTER_BLOOM, .bloom = &bloom_2};
static void filter_mine(struct transaction *m, struct transaction *o)
{
    UNUSED(o);
    m->op.update.inserted_rows = &filter_1;
}
static void filters_apart(struct transaction *m, struct transaction *o)
{
    m->op.update.inserted_rows = &filter_1;
    o->op.update.inserted_rows = &filter_2;
}
static void filters_same(struct transaction *m, struct transaction *o)
{
    m->op.update.inserted_rows = &filter_1;
    o->op.update.inserted_rows = &filter_1;
}
static void filters_mixed(struct transaction *m, struct transaction *o)
{
    m->op.update.inserted_rows = &filter_1;
    o->op.update.inserted_rows = &filter_3;
}
static void blooms_apart(struct transaction *m, struct transaction *o)
{
    m->op.update.inserted_rows = &filter_4;
    o->op.update.inserted_rows = &filter_3;
}
static void blooms_same(struct transaction *m, struct transaction *o)
{
    m->op.update.inserted_rows = &filter_3;
    o->op.update.inserted_rows = &filter_3;
}

static const struct {
    uint32_t mine, theirs;
    bend_fn bend;
    uint32_t fragment; /* mine */
    char want;
} CLOSER[] = {
    {OPERATION_UPDATE_CONFIG, OPERATION_UPDATE_CONFIG, both_set, 0, 'N'},
    {OPERATION_UPDATE_CONFIG, OPERATION_UPDATE_CONFIG, set_and_delete, 0, 'N'},
    {OPERATION_UPDATE_CONFIG, OPERATION_UPDATE_CONFIG, both_delete, 0, 'o'},
    {OPERATION_UPDATE_CONFIG, OPERATION_UPDATE_CONFIG, replaces, 0, 'N'},
    {OPERATION_UPDATE_CONFIG, OPERATION_UPDATE_CONFIG, schema_metadata, 0, 'N'},
    {OPERATION_UPDATE_CONFIG, OPERATION_UPDATE_CONFIG, schema_metadata_mine, 0, 'o'},
    {OPERATION_UPDATE_CONFIG, OPERATION_UPDATE_CONFIG, same_field, 0, 'N'},
    {OPERATION_UPDATE_CONFIG, OPERATION_UPDATE_CONFIG, other_field, 0, 'o'},
    {OPERATION_UPDATE_CONFIG, OPERATION_UPDATE_CONFIG, table_metadata, 0, 'N'},
    {OPERATION_UPDATE_CONFIG, OPERATION_OVERWRITE, schema_metadata_mine, 0, 'N'},
    {OPERATION_UPDATE_CONFIG, OPERATION_OVERWRITE, overwritten_sets, 0, 'N'},
    {OPERATION_OVERWRITE, OPERATION_UPDATE_CONFIG, overwrite_sets, 0, 'N'},
    {OPERATION_MERGE, OPERATION_UPDATE_CONFIG, their_field, 0, 'R'},
    {OPERATION_PROJECT, OPERATION_UPDATE_CONFIG, their_field, 0, 'R'},
    {OPERATION_CREATE_INDEX, OPERATION_CREATE_INDEX, same_name, 1, 'R'},
    {OPERATION_CREATE_INDEX, OPERATION_REWRITE, no_bitmap, 1, 'R'},
    {OPERATION_CREATE_INDEX, OPERATION_DATA_REPLACEMENT, same_index_field, 1, 'R'},
    {OPERATION_CREATE_INDEX, OPERATION_PROJECT, index_gone, 1, 'R'},
    {OPERATION_DATA_REPLACEMENT, OPERATION_DATA_REPLACEMENT, other_column, 0, 'o'},
    {OPERATION_DATA_REPLACEMENT, OPERATION_DELETE, fragment_removed, 0, 'N'},
    {OPERATION_DATA_REPLACEMENT, OPERATION_DELETE, fragment_removed, 1, 'o'},
    {OPERATION_DATA_REPLACEMENT, OPERATION_CREATE_INDEX, other_column, 1, 'R'},
    {OPERATION_UPDATE_BASES, OPERATION_UPDATE_BASES, same_path, 0, 'N'},
    {OPERATION_UPDATE_BASES, OPERATION_UPDATE_BASES, same_id, 0, 'N'},
    {OPERATION_UPDATE_MEM_WAL_STATE, OPERATION_UPDATE_MEM_WAL_STATE, shard_behind, 0, 'N'},
    {OPERATION_UPDATE_MEM_WAL_STATE, OPERATION_UPDATE_MEM_WAL_STATE, shard_ahead, 0, 'R'},
    {OPERATION_PROJECT, OPERATION_APPEND, promise, 0, 'R'},
    {OPERATION_PROJECT, OPERATION_UPDATE, promise, 0, 'R'},
    {OPERATION_PROJECT, OPERATION_DATA_REPLACEMENT, promise, 0, 'R'},
    {OPERATION_PROJECT, OPERATION_DELETE, promise, 0, 'o'},
    {OPERATION_APPEND, OPERATION_PROJECT, promised, 0, 'R'},
    {OPERATION_UPDATE, OPERATION_PROJECT, promised, 0, 'R'},
    {OPERATION_UPDATE, OPERATION_APPEND, filter_mine, 1, 'R'},
    {OPERATION_UPDATE, OPERATION_UPDATE, filter_mine, 1, 'R'},
    {OPERATION_UPDATE, OPERATION_UPDATE, filters_apart, 1, 'o'},
    {OPERATION_UPDATE, OPERATION_UPDATE, filters_same, 1, 'R'},
    {OPERATION_UPDATE, OPERATION_UPDATE, filters_mixed, 1, 'R'},
    {OPERATION_UPDATE, OPERATION_UPDATE, blooms_apart, 1, 'o'},
    {OPERATION_UPDATE, OPERATION_UPDATE, blooms_same, 1, 'R'},
};

static void test_table_conflicts__closer(void **state)
{
    struct table_fixture *t = *state;
    for (size_t i = 0; i < ARRAY_LEN(CLOSER); i++) {
        struct parts mine, theirs;
        struct snapshot *s = make_table(t, false), *next = NULL;
        struct transaction *y = make(t, &theirs, s, CLOSER[i].theirs, 0, 't');
        struct transaction *x = make(t, &mine, s, CLOSER[i].mine, CLOSER[i].fragment, 'm');
        CLOSER[i].bend(x, y);
        struct transaction *copy = NULL;
        table_ok(t, transaction_copy(y, &copy, &t->base.err)); /* `x` may share what is in `y` */
        table_ok(t, try_commit(t, s, copy, &next));
        snapshot_release(next);
        pennon_status st = try_commit(t, s, x, &next);
        const char got = st == PENNON_OK ? 'o' : st == PENNON_CONFLICT ? 'R' : st == PENNON_CONFLICT_FINAL ? 'N' : '?';
        if (got != CLOSER[i].want)
            fail_msg("case %zu: %c, not %c (%s)", i, got, CLOSER[i].want, st != PENNON_OK ? t->base.err.message : "");
        transaction_free(y);
        snapshot_release(next);
        snapshot_release(s);
        wipe(t);
    }
}

/* ---- rebasing ---- */

/* A Delete or Update of the rows of fragment `f`; the deletion file is written. */
static struct transaction *delete_rows(struct table_fixture *t, struct parts *p, struct snapshot *s, uint32_t which, uint32_t f,
                                       const uint32_t *rows, size_t n)
{
    struct transaction *x = make(t, p, s, which, f, 'd');
    struct id_set set;
    char *path = NULL;
    id_set_init(&set, t->base.mem);
    for (size_t i = 0; i < n; i++) table_ok(t, id_set_add(&set, rows[i], &t->base.err));
    table_ok(t, deletion_file_write(&t->call, &t->at, f, s->version, &set, &p->gone, &path, &t->base.err));
    mem_free(t->base.mem, path);
    id_set_free(&set);
    return x;
}

static pennon_status commit_rows(struct table_fixture *t, struct snapshot *s, struct transaction *x, const uint64_t *rows, size_t n,
                                 struct snapshot **out)
{
    struct transaction_options o;
    transaction_options_init(&o);
    o.knows_rows = true;
    o.affected_rows = rows;
    o.n_affected_rows = n;
    *out = NULL;
    pennon_status st = commit_transaction(&t->call, &t->at, s, x, &o, out, &t->base.err);
    transaction_free(x);
    return st;
}

static void test_table_rebase__deletions(void **state)
{
    struct table_fixture *t = *state;
    static const uint32_t first[] = {1, 2}, second[] = {5}, rest[] = {0, 3, 4, 6, 7, 8, 9};
    static const uint64_t second_rows[] = {5}, first_rows[] = {1, 2}, rest_rows[] = {0, 3, 4, 6, 7, 8, 9};
    for (uint32_t which = OPERATION_DELETE; which <= OPERATION_UPDATE; which += OPERATION_UPDATE - OPERATION_DELETE) {
        struct parts a, b, c, d;
        struct snapshot *s = make_table(t, false), *next = NULL;
        struct deletion_vector *gone = NULL;
        struct transaction *made = NULL;
        struct transaction *x = delete_rows(t, &a, s, OPERATION_DELETE, 0, first, 2);
        struct transaction *y = delete_rows(t, &b, s, which, 0, second, 1);
        struct transaction *z = delete_rows(t, &c, s, which, 0, first, 2);
        struct transaction *w = delete_rows(t, &d, s, which, 0, rest, 7);
        table_ok(t, commit_rows(t, s, x, first_rows, 2, &next));
        snapshot_release(next);
        /* Other rows: one deletion file for both. */
        table_ok(t, commit_rows(t, s, y, second_rows, 1, &next));
        assert_int_equal(next->version, 3);
        table_ok(t, fragment_deletions(&t->call, next, &next->fragments[0], &gone, &t->base.err));
        assert_int_equal(deletion_vector_count(gone), 3);
        assert_true(deletion_vector_contains(gone, 1) && deletion_vector_contains(gone, 2) && deletion_vector_contains(gone, 5));
        deletion_vector_release(gone);
        assert_true(next->fragments[0].deletion->read_version == 2);
        assert_int_equal(next->fragments[0].deletion->num_deleted_rows, 3);
        table_ok(t, snapshot_transaction(&t->call, next, &made, &t->base.err));
        assert_true(made->read_version == 2);
        transaction_free(made);
        assert_true(next->manifest.transaction_file.size > 2 && memcmp(next->manifest.transaction_file.data, "2-", 2) == 0);
        snapshot_release(next);
        /* The same rows: nothing. */
        assert_int_equal(commit_rows(t, s, z, first_rows, 2, &next), PENNON_CONFLICT);
        assert_non_null(strstr(t->base.err.message, "0:1, 0:2"));
        /* All rows that are left, over two versions: the fragment goes. */
        table_ok(t, commit_rows(t, s, w, rest_rows, 7, &next));
        assert_int_equal(next->version, 4);
        assert_int_equal(next->fragments[0].id, 1);
        snapshot_release(next);
        snapshot_release(s);
        wipe(t);
    }
}

/* What cannot be merged: columns that were rewritten, a fragment that is gone, rows that do not exist. */
static void test_table_rebase__deletions_refused(void **state)
{
    struct table_fixture *t = *state;
    static const uint32_t rows[] = {5};
    static const uint64_t addresses[] = {5}, far[] = {50};
    for (int kind = 0; kind < 3; kind++) {
        struct parts a, b;
        struct snapshot *s = make_table(t, false), *next = NULL;
        struct transaction *x, *y = delete_rows(t, &b, s, OPERATION_DELETE, 0, rows, 1);
        if (kind == 0) {
            x = make(t, &a, s, OPERATION_UPDATE, 0, 'u');
            memcpy(a.files[0], a.list[3].files, 2 * sizeof(struct data_file_message));
            a.files[0][1].path = bytes_str("other");
            a.list[3].files = a.files[0];
        } else {
            static const uint32_t others[] = {1};
            x = delete_rows(t, &a, s, OPERATION_DELETE, 0, others, 1);
            if (kind == 1) fragment_removed(y, x);
        }
        table_ok(t, try_commit(t, s, x, &next));
        snapshot_release(next);
        pennon_status st = commit_rows(t, s, y, kind == 2 ? far : addresses, 1, &next);
        assert_int_equal(st, kind == 2 ? PENNON_INVALID_ARGUMENT : PENNON_CONFLICT);
        snapshot_release(s);
        wipe(t);
    }
}

/* Deletion files of both kinds are read back. */
static void test_table_rebase__deletion_files(void **state)
{
    struct table_fixture *t = *state;
    for (uint32_t n = 4999; n <= 5000; n++) {
        struct id_set set;
        struct deletion_file_message m;
        struct block *b = NULL;
        struct deletion_vector *d = NULL;
        char *path = NULL;
        id_set_init(&set, t->base.mem);
        for (uint32_t i = 0; i < n; i++) table_ok(t, id_set_add(&set, i * 3, &t->base.err));
        table_ok(t, deletion_file_write(&t->call, &t->at, 7, 9, &set, &m, &path, &t->base.err));
        assert_int_equal(m.file_type, n == 5000);
        assert_int_equal(m.num_deleted_rows, n);
        assert_non_null(strstr(path, "/_deletions/7-9-"));
        table_ok(t, store_get(&t->call, t->store, path, 1 << 20, &b, &t->base.err));
        struct bytes in = bytes_of(b->data, b->size);
        table_ok(t, m.file_type == 0 ? deletion_array_parse(t->base.mem, in, &d, &t->base.err)
                                     : deletion_bitmap_parse(t->base.mem, in, &d, &t->base.err));
        assert_int_equal(deletion_vector_count(d), n);
        assert_true(deletion_vector_contains(d, 3 * (n - 1)) && !deletion_vector_contains(d, 1));
        deletion_vector_release(d);
        block_release(b);
        mem_free(t->base.mem, path);
        id_set_free(&set);
    }
}

/* An index that was built while one of its columns was rewritten gives up the fragment. */
static void test_table_rebase__index_gives_up(void **state)
{
    struct table_fixture *t = *state;
    static const uint32_t all[] = {0, 1, 2};
    uint32_t modified[] = {1};
    for (int same = 0; same < 2; same++) {
        struct parts a, b;
        struct snapshot *s = make_table(t, false), *next = NULL;
        struct transaction *x = make(t, &a, s, OPERATION_UPDATE, 1, 'u'), *y = make(t, &b, s, OPERATION_CREATE_INDEX, 0, 'i');
        memcpy(a.files[0], a.list[3].files, 2 * sizeof(struct data_file_message));
        a.files[0][1].path = bytes_str("rewritten");
        a.list[3].files = a.files[0];
        a.list[3].deletion_file = NULL;
        x->op.update.n_new_fragments = 0;
        x->op.update.update_mode = UPDATE_REWRITE_COLUMNS;
        x->op.update.fields_modified = modified;
        x->op.update.n_fields_modified = 1;
        b.index = index_of(t, &y->arena, "on", 3, same ? field_1 : field_0, all, 3);
        table_ok(t, try_commit(t, s, x, &next));
        snapshot_release(next);
        table_ok(t, try_commit(t, s, y, &next));
        assert_int_equal(indexed(t, next, "on", 0), 1);
        assert_int_equal(indexed(t, next, "on", 1), !same);
        snapshot_release(next);
        snapshot_release(s);
        wipe(t);
    }
}

/* The columns of a fragment that a Project dropped do not come back with a Delete that was made before. */
static void test_table_rebase__dropped_columns_stay_away(void **state)
{
    struct table_fixture *t = *state;
    struct parts a, b;
    struct snapshot *s = make_table(t, false), *next = NULL;
    struct transaction *x = make(t, &a, s, OPERATION_PROJECT, 0, 'p'), *y = make(t, &b, s, OPERATION_DELETE, 0, 'd');
    x->op.project.n_schema = 1;
    table_ok(t, try_commit(t, s, x, &next));
    snapshot_release(next);
    table_ok(t, try_commit(t, s, y, &next));
    table_ok(t, snapshot_load_fragments(next, &t->base.err));
    assert_int_equal(next->fragments[0].n_files, 1);
    assert_non_null(next->fragments[0].deletion);
    snapshot_release(next);
    snapshot_release(s);
}

/* ---- the reuse index ---- */

/* An entry with one step a version given: old fragment 0 to `made`. */
static struct index_metadata_message reuse_of(struct table_fixture *t, struct arena *a, uint8_t digit, const uint64_t *versions,
                                              size_t n, uint64_t made)
{
    struct index_metadata_message e = index_of(t, a, REUSE_INDEX, digit, NULL, NULL, 0);
    struct reuse_digest_message old = {.id = 0, .physical_rows = 10}, now = {.id = made, .physical_rows = 10};
    struct reuse_group_message group = {.old_fragments = &old, .n_old_fragments = 1, .new_fragments = &now, .n_new_fragments = 1};
    struct reuse_version_message list[4] = {{0}};
    struct reuse_content_message content = {.versions = list, .n_versions = n};
    struct reuse_details_message details = {.which = 1, .content = &content};
    struct buf text;
    for (size_t i = 0; i < n; i++)
        list[i] = (struct reuse_version_message){.dataset_version = versions[i], .groups = &group, .n_groups = 1};
    buf_init(&text, t->base.mem, BUF_NO_LIMIT);
    table_ok(t, wire_encode(&reuse_details_table, &details, &text, &t->base.err));
    struct any_message *any = arena_calloc(a, 1, sizeof *any, &t->base.err);
    uint8_t *copy = arena_alloc(a, text.size + 1, &t->base.err);
    memcpy(copy, text.data, text.size);
    *any =
        (struct any_message){.type_url = bytes_str("/lance.table.FragmentReuseIndexDetails"), .value = bytes_of(copy, text.size)};
    e.index_details = any;
    buf_free(&text);
    return e;
}

/* Steps of the reuse index of a version, as their numbers; n = how many entries of the name there are. */
static size_t steps_of(struct table_fixture *t, struct snapshot *s, uint64_t *out, size_t *entries)
{
    struct arena a;
    struct index_section_message m;
    struct reuse_content_message content = {0};
    arena_init(&a, t->base.mem);
    *entries = 0;
    table_ok(t, wire_decode(&index_section_table, index_section(t, s), &a, &m, &t->base.err));
    for (size_t i = 0; i < m.n_indices; i++) {
        if (!bytes_equal(m.indices[i].name, bytes_str(REUSE_INDEX))) continue;
        ++*entries;
        table_ok(t, reuse_content_load(&t->call, s, &m.indices[i], &a, &content, &t->base.err));
    }
    for (size_t i = 0; i < content.n_versions; i++) out[i] = content.versions[i].dataset_version;
    arena_reset(&a);
    return content.n_versions;
}

static void test_table_rebase__reuse_index(void **state)
{
    struct table_fixture *t = *state;
    static const uint64_t old_steps[] = {1, 2}, more[] = {1, 2, 3}, trimmed[] = {2};
    uint64_t got[4];
    size_t entries;
    struct parts a, b;
    struct snapshot *s = make_table(t, false), *next = NULL;
    struct transaction *x = new_transaction(t, OPERATION_CREATE_INDEX, 1);
    b.index = reuse_of(t, &x->arena, 1, old_steps, 2, 5);
    x->op.create_index = (struct create_index_message){.new_indices = &b.index, .n_new_indices = 1};
    s = commit_on(t, s, x); /* version 2 */
    /* A rewrite that puts its remapping off, over the trimming of steps. */
    struct transaction *trim = new_transaction(t, OPERATION_CREATE_INDEX, 2), *rewrite = make(t, &a, s, OPERATION_REWRITE, 0, 'w');
    struct index_metadata_message removed = index_of(t, &trim->arena, REUSE_INDEX, 1, NULL, NULL, 0);
    struct index_metadata_message now = reuse_of(t, &trim->arena, 2, trimmed, 1, 5);
    struct index_metadata_message mine = reuse_of(t, &rewrite->arena, 3, more, 3, 6);
    trim->op.create_index =
        (struct create_index_message){.new_indices = &now, .n_new_indices = 1, .removed_indices = &removed, .n_removed_indices = 1};
    rewrite->reuse_index = &mine;
    table_ok(t, try_commit(t, s, trim, &next));
    assert_int_equal(steps_of(t, next, got, &entries), 1);
    snapshot_release(next);
    table_ok(t, try_commit(t, s, rewrite, &next));
    assert_int_equal(steps_of(t, next, got, &entries), 2);
    assert_int_equal(entries, 1);
    assert_true(got[0] == 2 && got[1] == 3);
    assert_int_equal(indexed(t, next, REUSE_INDEX, 6), 1);
    /* The other way round: a trim that was made before the rewrite gets the rewrite's step. */
    trim = new_transaction(t, OPERATION_CREATE_INDEX, 3);
    removed = index_of(t, &trim->arena, REUSE_INDEX, 2, NULL, NULL, 0);
    now = reuse_of(t, &trim->arena, 7, trimmed, 0, 5);
    trim->op.create_index =
        (struct create_index_message){.new_indices = &now, .n_new_indices = 1, .removed_indices = &removed, .n_removed_indices = 1};
    snapshot_release(s);
    s = next;
    table_ok(t, try_commit(t, s, trim, &next));
    assert_int_equal(steps_of(t, next, got, &entries), 1);
    assert_int_equal(entries, 1);
    assert_true(got[0] == 3);
    snapshot_release(next);
    snapshot_release(s);
}

/* Large content lies in a file of its own. */
static void test_table_rebase__reuse_file(void **state)
{
    struct table_fixture *t = *state;
    static const uint64_t trimmed[] = {1};
    static uint8_t addresses[210000];
    uint64_t got[4];
    size_t entries;
    struct parts a;
    struct snapshot *s = make_table(t, false), *next = NULL;
    struct transaction *trim = new_transaction(t, OPERATION_CREATE_INDEX, 1), *rewrite = make(t, &a, s, OPERATION_REWRITE, 0, 'w');
    struct index_metadata_message now = reuse_of(t, &trim->arena, 2, trimmed, 1, 5), removed = now, mine;
    struct reuse_group_message group = {.changed_row_addrs = bytes_of(addresses, sizeof addresses)};
    struct reuse_version_message version = {.dataset_version = 1, .groups = &group, .n_groups = 1};
    struct reuse_content_message content = {.versions = &version, .n_versions = 1};
    struct reuse_details_message details = {.which = 1, .content = &content};
    struct any_message any = {.type_url = bytes_str("/lance.table.FragmentReuseIndexDetails")};
    t->base.buf.size = 0;
    table_ok(t, wire_encode(&reuse_details_table, &details, &t->base.buf, &t->base.err));
    mine = index_of(t, &rewrite->arena, REUSE_INDEX, 3, NULL, NULL, 0);
    any.value = bytes_of(t->base.buf.data, t->base.buf.size);
    mine.index_details = &any;
    rewrite->reuse_index = &mine;
    removed.uuid = uuid_of(&trim->arena, 9);
    trim->op.create_index =
        (struct create_index_message){.new_indices = &now, .n_new_indices = 1, .removed_indices = &removed, .n_removed_indices = 1};
    table_ok(t, try_commit(t, s, trim, &next));
    snapshot_release(next);
    table_ok(t, try_commit(t, s, rewrite, &next));
    assert_int_equal(steps_of(t, next, got, &entries), 1);
    assert_int_equal(entries, 1);
    assert_true(index_section(t, next).size < 1000);
    snapshot_release(next);
    snapshot_release(s);
}

/* Creating the index of MemWAL over states: they are in it. */
static void test_table_rebase__mem_wal(void **state)
{
    struct table_fixture *t = *state;
    struct parts a, b;
    struct arena arena;
    struct index_section_message m;
    struct mem_wal_details_message d;
    struct snapshot *s = make_table(t, false), *next = NULL;
    struct transaction *x = make(t, &a, s, OPERATION_UPDATE_MEM_WAL_STATE, 0, 'w'),
                       *y = make(t, &b, s, OPERATION_CREATE_INDEX, 0, 'i');
    b.index.name = bytes_str(MEM_WAL_INDEX);
    b.index.n_fields = 0;
    b.index.fragment_bitmap = bytes_of(NULL, 0);
    table_ok(t, try_commit(t, s, x, &next));
    snapshot_release(next);
    table_ok(t, try_commit(t, s, y, &next));
    arena_init(&arena, t->base.mem);
    table_ok(t, wire_decode(&index_section_table, index_section(t, next), &arena, &m, &t->base.err));
    assert_int_equal(m.n_indices, 1); /* the entry that the state made is replaced */
    table_ok(t, wire_decode(&mem_wal_details_table, m.indices[0].index_details->value, &arena, &d, &t->base.err));
    assert_int_equal(d.n_merged_generations, 1);
    assert_true(d.merged_generations[0].generation == 4);
    arena_reset(&arena);
    snapshot_release(next);
    snapshot_release(s);
}

/* ---- failures ---- */

struct counting {
    size_t n;
};

static bool count_object(void *ctx, const pennon_object_info *info)
{
    UNUSED(info);
    ((struct counting *)ctx)->n++;
    return true;
}

static size_t count_files(struct table_fixture *t, const struct table_location *at, const char *folder)
{
    struct counting c = {0};
    pennon_status st = store_list(&t->call, at->store, folder, false, count_object, &c, &t->base.err);
    assert_true(st == PENNON_OK || st == PENNON_NOT_FOUND);
    return c.n;
}

/* A table in `at` with deleted rows in version 2, and a Delete of other rows made from version 1; both sides' files are written. */
static struct snapshot *rebased_pair(struct table_fixture *t, const struct table_location *at, struct parts *a, struct parts *b,
                                     struct transaction **mine)
{
    static const uint32_t first[] = {1, 2}, second[] = {5};
    static const uint64_t first_rows[] = {1, 2};
    struct table_location own = t->at;
    struct snapshot *next = NULL;
    t->at = *at;
    struct snapshot *s = make_table(t, false);
    struct transaction *x = delete_rows(t, a, s, OPERATION_DELETE, 0, first, 2);
    *mine = delete_rows(t, b, s, OPERATION_DELETE, 0, second, 1);
    table_ok(t, commit_rows(t, s, x, first_rows, 2, &next));
    snapshot_release(next);
    t->at = own;
    return s;
}

/* Whatever call fails and however: the rebased Delete is there once or not at all, and what it wrote stays only when it may be there. */
static void test_table_rebase__every_call(void **state)
{
    struct table_fixture *t = *state;
    static const enum fault_kind kinds[] = {FAULT_FAIL, FAULT_LOST_REPLY, FAULT_TORN_WRITE};
    static const uint64_t second_rows[] = {5};
    unsigned failed = 0, landed = 0;
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        for (uint64_t nth = 0;; nth++) {
            struct parts a, b;
            struct table_location at = {0};
            struct transaction *mine;
            struct transaction_options o;
            struct snapshot *next = NULL, *now = NULL;
            table_ok(t, fault_store_new(t->base.mem, &at.store, &t->base.err));
            at.path = mem_strdup(t->base.mem, "t", &t->base.err);
            at.uri = mem_strdup(t->base.mem, "fault://t", &t->base.err);
            struct snapshot *s = rebased_pair(t, &at, &a, &b, &mine);
            transaction_options_init(&o);
            o.knows_rows = true;
            o.affected_rows = second_rows;
            o.n_affected_rows = 1;
            struct fault_plan plan = {.kind = kinds[k], .on = FAULT_ON_ANY, .nth = nth, .seed = nth};
            fault_store_plan(at.store, &plan);
            pennon_status st = commit_transaction(&t->call, &at, s, mine, &o, &next, &t->base.err);
            const bool over = fault_store_calls(at.store) <= nth;
            fault_store_plan(at.store, &(struct fault_plan){.nth = UINT64_MAX});
            table_ok(t, snapshot_open(&t->call, &at, NULL, NULL, &now, &t->base.err));
            const bool there = now->version == 3;
            if (st == PENNON_OK) assert_true(there && now->fragments[0].deleted_rows == 3);
            if (st != PENNON_OK && st != PENNON_COMMIT_UNKNOWN) assert_false(there);
            /* Two files of the writers, one of the merge. */
            if (st != PENNON_OK && st != PENNON_COMMIT_UNKNOWN && kinds[k] == FAULT_FAIL)
                assert_int_equal(count_files(t, &at, "t/_deletions"), 2);
            if (st == PENNON_OK) assert_int_equal(count_files(t, &at, "t/_deletions"), 3);
            failed += st != PENNON_OK;
            landed += st == PENNON_OK && !over;
            transaction_free(mine);
            snapshot_release(now);
            snapshot_release(next);
            snapshot_release(s);
            table_location_free(t->base.mem, &at);
            if (over) break;
        }
    }
    assert_true(failed > 10);
    assert_true(landed > 1);
}

/* Budgets from nothing upwards, for transactions that rebase and that build much. */
static void test_table_rebase__memory(void **state)
{
    struct table_fixture *t = *state;
    static const uint64_t second_rows[] = {5};
    struct mem *whole = t->call.mem;
    for (int kind = 0; kind < 3; kind++) {
        struct parts a, b;
        struct transaction *mine;
        struct snapshot *s = rebased_pair(t, &t->at, &a, &b, &mine);
        if (kind > 0) {
            transaction_free(mine);
            mine = make(t, &b, s, kind == 1 ? OPERATION_CREATE_INDEX : OPERATION_UPDATE, 1, 'm');
        }
        for (uint64_t limit = 0;; limit += 997) {
            struct transaction_options o;
            struct snapshot *next = NULL;
            transaction_options_init(&o);
            o.knows_rows = true;
            o.affected_rows = second_rows;
            o.n_affected_rows = kind == 0;
            t->call.mem = mem_new(whole, limit, NULL, &t->base.err);
            assert_non_null(t->call.mem);
            /* The copy of a transaction that changes is charged where the transaction is. */
            pennon_status st = commit_transaction(&t->call, &t->at, s, mine, &o, &next, &t->base.err);
            snapshot_release(next);
            assert_int_equal(mem_used(t->call.mem), 0);
            mem_release(t->call.mem);
            t->call.mem = whole;
            if (st == PENNON_OK) break;
            if (st != PENNON_OVER_BUDGET) fail_msg("kind %d, limit %" PRIu64 ": %d %s", kind, limit, st, t->base.err.message);
        }
        transaction_free(mine);
        snapshot_release(s);
        wipe(t);
    }
}

/* ---- durability ---- */

/* Passes everything on; the next put if absent lands and says that its name was not synced. */
struct unsynced {
    pennon_store *below;
    const struct call *call;
    bool armed;
};

static pennon_status unsynced_read(void *self, const char *path, size_t n, const pennon_range *ranges, pennon_read_done_fn done,
                                   void *ctx, pennon_error *err)
{
    struct unsynced *u = self;
    TRY_RETURN(store_read_ranges(u->call, u->below, path, n, ranges, err));
    done(ctx, PENNON_OK, NULL);
    return PENNON_OK;
}
static pennon_status unsynced_head(void *self, const char *path, pennon_object_info *out, pennon_error *err)
{
    struct unsynced *u = self;
    return store_head(u->call, u->below, path, out, err);
}
static pennon_status unsynced_put(void *self, const char *path, const void *bytes, size_t size, uint32_t flags, pennon_error *err)
{
    struct unsynced *u = self;
    TRY_RETURN(store_put(u->call, u->below, path, bytes_of(bytes, size), flags, err));
    if (!u->armed || (flags & PENNON_PUT_IF_ABSENT) == 0) return PENNON_OK;
    (void)error_set(err, PENNON_IO, "the folder cannot be synced");
    return error_kind(err, "NotDurable");
}
static pennon_status unsynced_list(void *self, const char *prefix, bool recursive, pennon_list_fn fn, void *ctx, pennon_error *err)
{
    struct unsynced *u = self;
    return store_list(u->call, u->below, prefix, recursive, fn, ctx, err);
}
static pennon_status unsynced_remove(void *self, const char *path, pennon_error *err)
{
    struct unsynced *u = self;
    return store_delete(u->call, u->below, path, err);
}

/* Not called by a commit. */
static pennon_status unsynced_copy(void *self, const char *from, const char *to, pennon_error *err)
{
    struct unsynced *u = self;
    return store_copy(u->call, u->below, from, to, err);
}
static pennon_status no_writer(void *self, const char *path, void **writer, pennon_error *err)
{
    UNUSED(self);
    UNUSED(writer);
    return error_set(err, PENNON_NOT_SUPPORTED, "a writer of '%s'", path);
}
static pennon_status no_write(void *self, void *writer, const void *bytes, size_t size, pennon_error *err)
{
    UNUSED(self);
    UNUSED(writer);
    UNUSED(bytes);
    return error_set(err, PENNON_NOT_SUPPORTED, "a write of %zu bytes", size);
}
static pennon_status no_finish(void *self, void *writer, uint32_t flags, pennon_error *err)
{
    UNUSED(self);
    UNUSED(writer);
    return error_set(err, PENNON_NOT_SUPPORTED, "an end with flags %u", flags);
}
static void no_free(void *self) { UNUSED(self); }
static void no_abort(void *self, void *writer)
{
    UNUSED(self);
    UNUSED(writer);
}

static void test_table_commit__not_durable(void **state)
{
    struct table_fixture *t = *state;
    struct unsynced u = {.below = t->store, .call = &t->call};
    const pennon_store_vtable vtable = {.struct_size = sizeof vtable,
                                        .read_start = unsynced_read,
                                        .head = unsynced_head,
                                        .put = unsynced_put,
                                        .list = unsynced_list,
                                        .remove = unsynced_remove,
                                        .copy = unsynced_copy,
                                        .writer_open = no_writer,
                                        .writer_write = no_write,
                                        .writer_finish = no_finish,
                                        .writer_abort = no_abort,
                                        .free = no_free,
                                        .ordered_listing = true,
                                        .block_size = 4096,
                                        .parallel_reads = 1};
    struct parts p;
    struct snapshot *s = make_table(t, false), *next = NULL;
    pennon_store *plain = s->at.store, *store = NULL;
    table_ok(t, pennon_store_from_vtable(&vtable, &u, &store, &t->base.err));
    s->at.store = store;
    u.armed = true;
    assert_int_equal(try_commit(t, s, make(t, &p, s, OPERATION_APPEND, 0, 'a'), &next), PENNON_COMMIT_UNKNOWN);
    assert_string_equal(t->base.err.kind, "CommitNotDurable");
    assert_int_equal(t->base.err.version, 2);
    s->at.store = plain;
    pennon_store_free(store);
    snapshot_release(s);
    /* It is there, with its transaction file. */
    s = NULL;
    table_ok(t, snapshot_open(&t->call, &t->at, NULL, NULL, &s, &t->base.err));
    assert_int_equal(s->version, 2);
    assert_int_equal(s->n_fragments, 4);
    snapshot_release(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TABLE_TEST(test_table_conflicts__matrix),
        TABLE_TEST(test_table_conflicts__unknown),
        TABLE_TEST(test_table_conflicts__closer),
        TABLE_TEST(test_table_rebase__deletions),
        TABLE_TEST(test_table_rebase__deletions_refused),
        TABLE_TEST(test_table_rebase__deletion_files),
        TABLE_TEST(test_table_rebase__index_gives_up),
        TABLE_TEST(test_table_rebase__dropped_columns_stay_away),
        TABLE_TEST(test_table_rebase__reuse_index),
        TABLE_TEST(test_table_rebase__reuse_file),
        TABLE_TEST(test_table_rebase__mem_wal),
        TABLE_TEST(test_table_rebase__every_call),
        TABLE_TEST(test_table_rebase__memory),
        TABLE_TEST(test_table_commit__not_durable),
    };
    return cmocka_run_group_tests_name("conflicts", tests, NULL, NULL);
}
