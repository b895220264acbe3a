/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Every operation that changes a dataset, as a table: what must be there before, the operation, and what it says when it was done already. */
#ifndef TESTS_CRASH_OPERATIONS_H
#define TESTS_CRASH_OPERATIONS_H

#include "crash_world.h"
#include "table/commit_private.h"

/* ONE_STEP: the old state or the new one, and only COMMIT_UNKNOWN leaves open which. UNSURE: the same, and any failure leaves it open. REMOVES: versions go one by one, so states in between are right. COMMITS_AND_REMOVES: done is when all of the new
 * state is there, what is to be removed may be left. TWO_FILES: between them there is a branch without a version. TWO_COMMITS: the first of two versions may be there alone; a second time makes both anew. */
struct operation {
    const char *name;
    void (*prepare)(struct world *w);
    pennon_status (*run)(struct world *w); /* the error is in w->err */
    pennon_status again;                   /* a second time, when the first one did it */
    enum { ONE_STEP, UNSURE, REMOVES, COMMITS_AND_REMOVES, TWO_FILES, TWO_COMMITS } steps;
};

/* ---- rows and writes ---- */

/* Ids first … first + n - 1 in a column "id". */
static inline void make_rows(struct world *w, int64_t first, int64_t n, struct ArrowSchema *schema, struct ArrowArray *batch)
{
    world_ok(w, arrow_schema_from_text(bytes_str("struct<id: int64>"), "", w->c.mem, schema, &w->err), "schema");
    schema->flags = 0;
    struct builder *b = builder_new(schema, w->c.mem, &w->err);
    assert_non_null(b);
    for (int64_t i = first; i < first + n; i++) {
        world_ok(w, builder_append_int(builder_child(b, 0), i, &w->err), "row");
        world_ok(w, builder_append_row(b, &w->err), "row");
    }
    world_ok(w, builder_finish(b, batch, &w->err), "rows");
    builder_free(b);
}

static inline void make_stream(struct world *w, int64_t first, int64_t n, struct ArrowArrayStream *out)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    make_rows(w, first, n, &schema, &batch);
    world_ok(w, stream_from_arrays(&schema, &batch, 1, w->c.mem, out, &w->err), "stream");
}

static inline pennon_write_options write_options(struct world *w, int32_t mode)
{
    pennon_write_options o;
    pennon_write_options_init(&o);
    o.call = &w->call;
    o.mode = mode;
    o.max_rows_per_file = 6;
    o.max_retries = 3;
    return o;
}

static inline pennon_status write_rows(struct world *w, int32_t mode, const char *branch, int64_t first, int64_t n)
{
    struct ArrowArrayStream stream;
    pennon_write_options o = write_options(w, mode);
    o.branch = branch;
    make_stream(w, first, n, &stream);
    return pennon_write(w->table, &stream, &o, NULL, &w->err);
}

static inline pennon_commit_options commit_options(struct world *w)
{
    pennon_commit_options o;
    pennon_commit_options_init(&o);
    o.call = &w->call;
    o.max_retries = 3;
    return o;
}

/* ---- preparing ---- */

static inline void prepare_nothing(struct world *w) { UNUSED(w); }
static inline void prepare_one(struct world *w) { world_ok(w, write_rows(w, PENNON_WRITE_CREATE, NULL, 0, 10), "create"); }
static inline void prepare_two(struct world *w)
{
    prepare_one(w);
    world_ok(w, write_rows(w, PENNON_WRITE_APPEND, NULL, 50, 4), "append");
}
static inline void prepare_four(struct world *w)
{
    prepare_two(w);
    world_ok(w, write_rows(w, PENNON_WRITE_OVERWRITE, NULL, 60, 8), "overwrite");
    world_ok(w, write_rows(w, PENNON_WRITE_APPEND, NULL, 70, 4), "append");
}

static inline pennon_status set_config(struct world *w, const char *const *keys, const char *const *values, size_t n)
{
    pennon_dataset *ds;
    pennon_status st = world_open(w, w->table, PENNON_NONE, NULL, &ds);
    if (st != PENNON_OK) return st;
    pennon_commit_options o = commit_options(w);
    pennon_pairs pairs = {n, keys, values};
    pennon_metadata_update update = {.which = PENNON_METADATA_CONFIG, .pairs = &pairs};
    st = pennon_dataset_update_metadata(ds, 1, &update, &o, &w->err);
    pennon_dataset_free(ds);
    return st;
}

static inline void prepare_auto_cleanup(struct world *w)
{
    static const char *const keys[] = {"lance.auto_cleanup.interval", "lance.auto_cleanup.retain_versions"};
    static const char *const values[] = {"5", "2"};
    prepare_two(w);
    world_ok(w, set_config(w, keys, values, 2), "config");
    world_ok(w, write_rows(w, PENNON_WRITE_OVERWRITE, NULL, 60, 8), "overwrite");
}

static inline pennon_status tag_to(struct world *w, uint64_t version, bool update)
{
    pennon_dataset *ds;
    pennon_ref ref;
    pennon_tag_options o;
    pennon_status st = world_open(w, w->table, PENNON_NONE, NULL, &ds);
    if (st != PENNON_OK) return st;
    pennon_ref_init(&ref);
    ref.version = version;
    pennon_tag_options_init(&o);
    o.call = &w->call;
    st = update ? pennon_tag_update(ds, "stable", &ref, &o, &w->err) : pennon_tag_create(ds, "stable", &ref, &o, &w->err);
    pennon_dataset_free(ds);
    return st;
}

static inline void prepare_tag(struct world *w)
{
    prepare_two(w);
    world_ok(w, tag_to(w, 1, false), "tag");
}

/* With `force` what an interrupted creation left is replaced, as the second attempt of a caller does. */
static inline pennon_status branch_new(struct world *w, bool force)
{
    pennon_dataset *ds;
    pennon_branch_options o;
    pennon_status st = world_open(w, w->table, PENNON_NONE, NULL, &ds);
    if (st != PENNON_OK) return st;
    pennon_branch_options_init(&o);
    o.call = &w->call;
    o.force = force;
    st = pennon_branch_create(ds, "try", NULL, &o, NULL, &w->err);
    pennon_dataset_free(ds);
    return st;
}

static inline void prepare_branch(struct world *w)
{
    prepare_two(w);
    world_ok(w, branch_new(w, false), "branch");
    world_ok(w, write_rows(w, PENNON_WRITE_APPEND, "try", 80, 3), "append to the branch");
}

/* ---- the operations ---- */

static inline pennon_status run_create(struct world *w) { return write_rows(w, PENNON_WRITE_CREATE, NULL, 100, 20); }
static inline pennon_status run_append(struct world *w) { return write_rows(w, PENNON_WRITE_APPEND, NULL, 100, 20); }
static inline pennon_status run_overwrite(struct world *w) { return write_rows(w, PENNON_WRITE_OVERWRITE, NULL, 100, 20); }
static inline pennon_status run_config(struct world *w)
{
    static const char *const keys[] = {"a"}, *const values[] = {"1"};
    return set_config(w, keys, values, 1);
}
static inline pennon_status run_restore(struct world *w)
{
    pennon_dataset *ds;
    pennon_commit_options o = commit_options(w);
    pennon_status st = world_open(w, w->table, 1, NULL, &ds);
    if (st == PENNON_OK) st = pennon_dataset_restore(ds, &o, &w->err);
    pennon_dataset_free(ds);
    return st;
}
static inline pennon_status run_tag_create(struct world *w) { return tag_to(w, 2, false); }
static inline pennon_status run_tag_update(struct world *w) { return tag_to(w, 2, true); }
static inline pennon_status run_tag_delete(struct world *w)
{
    pennon_dataset *ds;
    pennon_status st = world_open(w, w->table, PENNON_NONE, NULL, &ds);
    if (st == PENNON_OK) st = pennon_tag_delete(ds, "stable", &w->call, &w->err);
    pennon_dataset_free(ds);
    return st;
}
static inline pennon_status run_branch_create(struct world *w)
{
    pennon_status st = branch_new(w, false);
    /* What an interrupted creation left is in the way until it is asked to go; a branch that is there stays. */
    return st == PENNON_ALREADY_EXISTS ? branch_new(w, true) : st;
}
static inline pennon_status run_branch_delete(struct world *w)
{
    pennon_dataset *ds;
    pennon_branch_options o;
    pennon_branch_options_init(&o);
    o.call = &w->call;
    pennon_status st = world_open(w, w->table, PENNON_NONE, NULL, &ds);
    if (st == PENNON_OK) st = pennon_branch_delete(ds, "try", &o, &w->err);
    pennon_dataset_free(ds);
    return st;
}
static inline pennon_status clone_whole(struct world *w, bool shallow)
{
    pennon_dataset *ds;
    pennon_clone_options o;
    pennon_clone_options_init(&o);
    o.call = &w->call;
    o.shallow = shallow;
    pennon_status st = world_open(w, w->table, PENNON_NONE, NULL, &ds);
    if (st == PENNON_OK) st = pennon_dataset_clone(ds, w->clone, &o, NULL, &w->err);
    pennon_dataset_free(ds);
    return st;
}
static inline pennon_status run_clone_shallow(struct world *w) { return clone_whole(w, true); }
static inline pennon_status run_clone_deep(struct world *w) { return clone_whole(w, false); }

/* Delete rows of fragment 0 as read at version 1: when another deletion is committed since, a new deletion file holds both. */
static inline pennon_status delete_rows(struct world *w, uint32_t row)
{
    pennon_dataset *ds;
    struct id_set set;
    struct deletion_file_message gone;
    struct fragment_message changed;
    struct transaction *t = NULL;
    struct transaction_options o;
    char *path = NULL;
    const uint64_t address = row;
    pennon_status st = world_open(w, w->table, 1, NULL, &ds);
    if (st != PENNON_OK) return st;
    struct snapshot *s = ds->snapshot;
    id_set_init(&set, w->c.mem);
    transaction_options_init(&o);
    o.knows_rows = true;
    o.affected_rows = &address;
    o.n_affected_rows = 1;
    o.max_retries = 3;
    st = fragment_load(s, &s->fragments[0], &w->err);
    if (st == PENNON_OK) st = id_set_add(&set, row, &w->err);
    if (st == PENNON_OK) st = deletion_file_write(&w->c, &s->at, 0, s->version, &set, &gone, &path, &w->err);
    if (st == PENNON_OK) st = transaction_new(w->c.mem, OPERATION_DELETE, s->version, &t, &w->err);
    if (st == PENNON_OK) {
        changed = *s->fragments[0].message;
        changed.deletion_file = &gone;
        t->op.remove = (struct delete_message){.updated_fragments = &changed, .n_updated_fragments = 1};
        st = commit_transaction(&w->c, &s->at, s, t, &o, NULL, &w->err);
    }
    transaction_free(t);
    mem_free(w->c.mem, path);
    id_set_free(&set);
    pennon_dataset_free(ds);
    return st;
}

static inline void prepare_deleted(struct world *w)
{
    prepare_one(w);
    world_ok(w, delete_rows(w, 1), "delete");
}
static inline pennon_status run_delete(struct world *w) { return delete_rows(w, 4); }

static inline pennon_status delete_where(struct world *w, uint64_t version, const char *where)
{
    pennon_dataset *ds;
    pennon_mutation_options o;
    pennon_mutation_options_init(&o);
    o.call = &w->call;
    o.conflict_retries = 2;
    pennon_status st = world_open(w, w->table, version, NULL, &ds);
    if (st == PENNON_OK) st = pennon_dataset_delete(ds, where, &o, NULL, &w->err);
    pennon_dataset_free(ds);
    return st;
}
static inline pennon_status run_delete_where(struct world *w) { return delete_where(w, PENNON_NONE, "id IN (2, 3) OR id >= 50"); }
/* Read before another deletion of the same fragment. */
static inline pennon_status run_delete_beside(struct world *w) { return delete_where(w, 1, "id < 6 AND id <> 1"); }

static inline pennon_status update_where(struct world *w, uint64_t version, const char *where)
{
    static const char *const columns[] = {"id"}, *const expressions[] = {"id + 1000"};
    pennon_dataset *ds;
    pennon_mutation_options o;
    pennon_mutation_options_init(&o);
    o.call = &w->call;
    o.conflict_retries = 2;
    pennon_status st = world_open(w, w->table, version, NULL, &ds);
    if (st == PENNON_OK) st = pennon_dataset_update(ds, where, 1, columns, expressions, &o, NULL, &w->err);
    pennon_dataset_free(ds);
    return st;
}
static inline pennon_status run_update(struct world *w)
{
    return update_where(w, PENNON_NONE, "id IN (2, 3) OR id BETWEEN 50 AND 60");
}
static inline pennon_status run_update_beside(struct world *w) { return update_where(w, 1, "id < 6 AND id <> 1"); }

/* ---- columns ---- */

static inline pennon_evolution_options evolution_options(struct world *w)
{
    pennon_evolution_options o;
    pennon_evolution_options_init(&o);
    o.call = &w->call;
    o.max_retries = 3;
    return o;
}

static inline pennon_status add_column(struct world *w)
{
    static const char *const name = "twice", *const sql = "id * 2";
    pennon_dataset *ds;
    const pennon_evolution_options o = evolution_options(w);
    pennon_status st = world_open(w, w->table, PENNON_NONE, NULL, &ds);
    if (st == PENNON_OK) st = pennon_dataset_add_columns_sql(ds, 1, &name, &sql, &o, NULL, &w->err);
    pennon_dataset_free(ds);
    return st;
}
static inline pennon_status run_add_column(struct world *w) { return add_column(w); }
static inline void prepare_columns(struct world *w)
{
    prepare_two(w);
    world_ok(w, delete_rows(w, 1), "delete");
    world_ok(w, add_column(w), "add a column");
}

/* The values of the new column come from outside, and go into one file after the other. */
static inline pennon_status run_add_data(struct world *w)
{
    pennon_dataset *ds;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct ArrowArrayStream rows;
    const pennon_evolution_options o = evolution_options(w);
    pennon_status st = world_open(w, w->table, PENNON_NONE, NULL, &ds);
    if (st != PENNON_OK) return st;
    make_rows(w, 100, 14, &schema, &batch);
    world_ok(w, arrow_schema_set_name(schema.children[0], "other", &w->err), "name");
    world_ok(w, stream_from_arrays(&schema, &batch, 1, w->c.mem, &rows, &w->err), "stream");
    st = pennon_dataset_add_columns_stream(ds, &rows, &o, NULL, &w->err);
    pennon_dataset_free(ds);
    return st;
}

static inline pennon_status run_cast(struct world *w)
{
    struct ArrowSchema type;
    pennon_dataset *ds;
    const pennon_evolution_options o = evolution_options(w);
    pennon_status st = world_open(w, w->table, PENNON_NONE, NULL, &ds);
    if (st != PENNON_OK) return st;
    world_ok(w, arrow_schema_from_text(bytes_str("int32"), "", w->c.mem, &type, &w->err), "type");
    const pennon_alteration change = {.path = "twice", .rename = "double", .data_type = &type};
    st = pennon_dataset_alter_columns(ds, 1, &change, &o, NULL, &w->err);
    arrow_schema_release(&type);
    pennon_dataset_free(ds);
    return st;
}

static inline pennon_status run_drop_column(struct world *w)
{
    static const char *const name = "twice";
    pennon_dataset *ds;
    const pennon_evolution_options o = evolution_options(w);
    pennon_status st = world_open(w, w->table, PENNON_NONE, NULL, &ds);
    if (st == PENNON_OK) st = pennon_dataset_drop_columns(ds, 1, &name, &o, NULL, &w->err);
    pennon_dataset_free(ds);
    return st;
}

/* Keys and values of ten rows; the column is new, or one that is there. */
static inline pennon_status join_rows(struct world *w, const char *column, bool update)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct ArrowArrayStream rows;
    pennon_dataset *ds;
    char text[64];
    const pennon_evolution_options o = evolution_options(w);
    pennon_status st = world_open(w, w->table, PENNON_NONE, NULL, &ds);
    if (st != PENNON_OK) return st;
    (void)snprintf(text, sizeof text, "struct<id: int64, %s: int64>", column);
    world_ok(w, arrow_schema_from_text(bytes_str(text), "", w->c.mem, &schema, &w->err), "schema");
    struct builder *b = builder_new(&schema, w->c.mem, &w->err);
    assert_non_null(b);
    for (int64_t i = 0; i < 10; i++) {
        for (size_t k = 0; k < 2; k++) world_ok(w, builder_append_int(builder_child(b, k), k == 0 ? i : -i, &w->err), "value");
        world_ok(w, builder_append_row(b, &w->err), "row");
    }
    world_ok(w, builder_finish(b, &batch, &w->err), "rows");
    builder_free(b);
    world_ok(w, stream_from_arrays(&schema, &batch, 1, w->c.mem, &rows, &w->err), "stream");
    st = update ? pennon_dataset_update_columns(ds, &rows, "id", "id", &o, NULL, &w->err)
                : pennon_dataset_join_columns(ds, &rows, "id", "id", &o, NULL, &w->err);
    pennon_dataset_free(ds);
    return st;
}
static inline pennon_status run_join(struct world *w) { return join_rows(w, "joined", false); }
static inline pennon_status run_update_columns(struct world *w) { return join_rows(w, "twice", true); }
/* Three fragments, of which one has deleted rows. */
static inline void prepare_small(struct world *w)
{
    prepare_two(w);
    world_ok(w, delete_where(w, PENNON_NONE, "id IN (1, 2, 51)"), "delete");
}

static inline pennon_status compact_as(struct world *w, int32_t mode, bool defer)
{
    pennon_dataset *ds;
    pennon_compaction_options o;
    pennon_compaction_options_init(&o);
    o.call = &w->call;
    o.set = PENNON_COMPACT_SET_MODE | PENNON_COMPACT_SET_DEFER_INDEX_REMAP;
    o.compaction_mode = mode;
    o.defer_index_remap = defer;
    o.max_retries = 3;
    pennon_status st = world_open(w, w->table, PENNON_NONE, NULL, &ds);
    if (st == PENNON_OK) st = pennon_dataset_compact(ds, &o, NULL, &w->err);
    pennon_dataset_free(ds);
    return st;
}
static inline pennon_status run_compact(struct world *w) { return compact_as(w, PENNON_COMPACT_REENCODE, false); }
static inline pennon_status run_compact_deferred(struct world *w) { return compact_as(w, PENNON_COMPACT_REENCODE, true); }
static inline pennon_status run_compact_copied(struct world *w) { return compact_as(w, PENNON_COMPACT_FORCE_BINARY_COPY, false); }

/* Rows of both fragments get new values, some go, and more come. */
static inline pennon_status merge_rows_at(struct world *w, uint64_t version)
{
    static const char *const on[] = {"id"};
    pennon_dataset *ds;
    pennon_merge_options o;
    struct ArrowArrayStream stream;
    pennon_merge_options_init(&o);
    o.call = &w->call;
    o.conflict_retries = 2;
    o.on = &(const pennon_names){1, on};
    o.when_matched = PENNON_MATCHED_UPDATE;
    o.when_not_matched = PENNON_NOT_MATCHED_INSERT;
    o.by_source = PENNON_BY_SOURCE_DELETE_IF;
    o.by_source_condition = "id = 0";
    pennon_status st = world_open(w, w->table, version, NULL, &ds);
    if (st != PENNON_OK) return st;
    make_stream(w, 3, 12, &stream);
    st = pennon_dataset_merge(ds, &stream, &o, NULL, &w->err);
    pennon_dataset_free(ds);
    return st;
}
static inline pennon_status run_merge(struct world *w) { return merge_rows_at(w, PENNON_NONE); }
static inline pennon_status run_merge_beside(struct world *w) { return merge_rows_at(w, 1); }

static inline pennon_status run_bases(struct world *w)
{
    pennon_dataset *ds;
    pennon_commit_options o = commit_options(w);
    const pennon_base more = {.name = "more", .path = w->clone};
    pennon_status st = world_open(w, w->table, PENNON_NONE, NULL, &ds);
    if (st == PENNON_OK) st = pennon_dataset_add_bases(ds, &(pennon_bases){1, &more}, &o, &w->err);
    pennon_dataset_free(ds);
    return st;
}

static inline pennon_status write_parts(struct world *w, int64_t first, pennon_transaction **out)
{
    struct ArrowArrayStream stream;
    pennon_write_options o = write_options(w, PENNON_WRITE_APPEND);
    make_stream(w, first, 8, &stream);
    *out = NULL;
    return pennon_write_fragments(w->table, &stream, &o, out, &w->err);
}
static inline pennon_status run_detached(struct world *w)
{
    pennon_dataset *ds;
    pennon_transaction *t = NULL;
    pennon_commit_options o = commit_options(w);
    o.detached = true;
    pennon_status st = world_open(w, w->table, PENNON_NONE, NULL, &ds);
    if (st == PENNON_OK) st = write_parts(w, 100, &t);
    if (st == PENNON_OK) st = pennon_dataset_commit(ds, t, &o, NULL, &w->err);
    pennon_transaction_free(t);
    pennon_dataset_free(ds);
    return st;
}
static inline pennon_status run_batch(struct world *w)
{
    pennon_transaction *t[2] = {NULL, NULL};
    pennon_commit_options o = commit_options(w);
    pennon_status st = write_parts(w, 100, &t[0]);
    if (st == PENNON_OK) st = write_parts(w, 200, &t[1]);
    if (st == PENNON_OK) {
        const pennon_transaction *const parts[2] = {t[0], t[1]};
        st = pennon_commit_batch(w->table, 2, parts, &o, NULL, NULL, &w->err);
    }
    pennon_transaction_free(t[0]);
    pennon_transaction_free(t[1]);
    return st;
}

static inline pennon_status run_cleanup(struct world *w)
{
    pennon_dataset *ds;
    pennon_cleanup_options o;
    pennon_cleanup_options_init(&o);
    o.call = &w->call;
    o.keep_versions = 1;
    o.delete_unverified = true;
    pennon_status st = world_open(w, w->table, PENNON_NONE, NULL, &ds);
    if (st == PENNON_OK) st = pennon_dataset_cleanup(ds, &o, NULL, NULL, &w->err);
    pennon_dataset_free(ds);
    return st;
}

static inline pennon_status run_appender(struct world *w)
{
    pennon_dataset *ds;
    pennon_appender *a = NULL;
    pennon_appender_options o;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    pennon_appender_options_init(&o);
    o.call = &w->call;
    o.max_retries = 3;
    pennon_status st = world_open(w, w->table, PENNON_NONE, NULL, &ds);
    if (st != PENNON_OK) return st;
    make_rows(w, 100, 12, &schema, &batch);
    st = pennon_appender_open(ds, &schema, &o, &a, &w->err);
    if (st == PENNON_OK) {
        st = pennon_appender_append(a, &batch, &w->call, NULL, &w->err);
    } else {
        array_release(&batch);
    }
    pennon_appender_free(a);
    arrow_schema_release(&schema);
    pennon_dataset_free(ds);
    return st;
}

static const struct operation operations[] = {
    {"create", prepare_nothing, run_create, PENNON_ALREADY_EXISTS, ONE_STEP},
    {"append", prepare_one, run_append, PENNON_OK, ONE_STEP},
    {"overwrite", prepare_one, run_overwrite, PENNON_OK, ONE_STEP},
    {"config", prepare_one, run_config, PENNON_OK, ONE_STEP},
    {"restore", prepare_two, run_restore, PENNON_OK, ONE_STEP},
    {"tag create", prepare_two, run_tag_create, PENNON_ALREADY_EXISTS, UNSURE},
    {"tag update", prepare_tag, run_tag_update, PENNON_OK, UNSURE},
    {"tag delete", prepare_tag, run_tag_delete, PENNON_NOT_FOUND, UNSURE},
    {"branch create", prepare_two, run_branch_create, PENNON_ALREADY_EXISTS, TWO_FILES},
    {"branch delete", prepare_branch, run_branch_delete, PENNON_NOT_FOUND, UNSURE},
    {"shallow clone", prepare_two, run_clone_shallow, PENNON_ALREADY_EXISTS, ONE_STEP},
    {"deep clone", prepare_two, run_clone_deep, PENNON_ALREADY_EXISTS, ONE_STEP},
    {"delete, rebased", prepare_deleted, run_delete, PENNON_CONFLICT, ONE_STEP},
    {"delete by a filter", prepare_two, run_delete_where, PENNON_OK, ONE_STEP},
    {"delete by a filter, rebased", prepare_deleted, run_delete_beside, PENNON_OK, ONE_STEP},
    {"update", prepare_two, run_update, PENNON_OK, ONE_STEP},
    {"update, rebased", prepare_deleted, run_update_beside, PENNON_OK, ONE_STEP},
    {"add a column", prepare_two, run_add_column, PENNON_INVALID_ARGUMENT, ONE_STEP},
    {"add a column of data", prepare_two, run_add_data, PENNON_INVALID_ARGUMENT, ONE_STEP},
    {"another type", prepare_columns, run_cast, PENNON_INVALID_ARGUMENT, ONE_STEP},
    {"drop a column", prepare_columns, run_drop_column, PENNON_INVALID_ARGUMENT, ONE_STEP},
    {"join columns", prepare_columns, run_join, PENNON_INVALID_ARGUMENT, ONE_STEP},
    {"update columns in place", prepare_columns, run_update_columns, PENNON_OK, ONE_STEP},
    {"compact", prepare_small, run_compact, PENNON_OK, TWO_COMMITS},
    {"compact, deferred", prepare_small, run_compact_deferred, PENNON_OK, TWO_COMMITS},
    {"compact, copied", prepare_two, run_compact_copied, PENNON_OK, TWO_COMMITS},
    {"merge", prepare_two, run_merge, PENNON_OK, ONE_STEP},
    {"merge, rebased", prepare_deleted, run_merge_beside, PENNON_OK, ONE_STEP},
    {"base paths", prepare_one, run_bases, PENNON_INVALID_ARGUMENT, ONE_STEP},
    {"detached", prepare_one, run_detached, PENNON_OK, ONE_STEP},
    {"batch", prepare_one, run_batch, PENNON_OK, ONE_STEP},
    {"cleanup", prepare_four, run_cleanup, PENNON_OK, REMOVES},
    {"auto cleanup", prepare_auto_cleanup, run_append, PENNON_OK, COMMITS_AND_REMOVES},
    {"appender", prepare_one, run_appender, PENNON_OK, ONE_STEP},
};

/* All that was there, and some of what is new, but for the number of the latest version. */
static inline bool is_half_way(const struct state *now, const struct state *old, const struct state *new)
{
    static const char latest[] = "table main latest";
    for (size_t i = 0; i < now->n; i++)
        if (strncmp(now->lines[i], latest, sizeof latest - 1) != 0 && !state_has(new, now->lines[i])) return false;
    for (size_t i = 0; i < old->n; i++)
        if (strncmp(old->lines[i], latest, sizeof latest - 1) != 0 && !state_has(now, old->lines[i])) return false;
    return true;
}

/* Is this state one that the operation may leave? */
static inline bool is_allowed(const struct operation *o, const struct state *now, const struct state *old, const struct state *new,
                              bool done)
{
    struct state whole = *now;
    if (state_equal(now, new)) return true;
    switch (o->steps) {
    case REMOVES: return !done && state_between(now, old, new);
    case TWO_COMMITS: return !done && (state_equal(now, old) || is_half_way(now, old, new));
    case COMMITS_AND_REMOVES:
        if (state_equal(now, old)) return !done;
        for (size_t i = 0; i < new->n; i++)
            if (!state_has(now, new->lines[i])) return false;
        return state_between(now, old, new);
    case TWO_FILES: state_drop(&whole, HALF_BRANCH); return !done && state_equal(&whole, old);
    default: return !done && state_equal(now, old);
    }
}

static inline void assert_clean(struct world *w, bool half, const char *when)
{
    if (!verify_clean(w, w->table, half) || !verify_clean(w, w->clone, false)) fail_msg("%s: %snot clean", w->where, when);
}

/* What a caller may find, with a clean dataset, on which the operation works. `said`: the status; after OK the state has to be the new one. */
static inline void check_outcome(struct world *w, const struct operation *o, const struct state *old, const struct state *new,
                                 pennon_status said)
{
    const bool done = said == PENNON_OK;
    static const struct state none;
    struct state now = none, then = none;
    state_read(w, &now);
    if (!is_allowed(o, &now, old, new, done)) {
        state_print("old", old);
        state_print("new", new);
        state_print("now", &now);
        fail_msg("%s: %s", w->where, done ? "it said OK, and is not there" : "neither the old state nor the new one");
    }
    assert_clean(w, state_has(&now, HALF_BRANCH), "");
    bool is_new = state_equal(&now, new), committed = is_new || (o->steps == COMMITS_AND_REMOVES && !state_equal(&now, old));
    if (is_new && o->steps != UNSURE && o->steps != REMOVES && !done && said != PENNON_COMMIT_UNKNOWN)
        fail_msg("%s: it said %s, and is there", w->where, pennon_status_name(said));
    pennon_status st = o->run(w), want = is_new ? o->again : PENNON_OK;
    if (st != want) fail_msg("%s: a second time: %s: %s", w->where, pennon_status_name(st), st ? w->err.message : "-");
    state_read(w, &then);
    const bool half = o->steps == TWO_COMMITS && !state_equal(&now, old);
    if (!committed && !half && !state_equal(&then, new)) {
        state_print("new", new);
        state_print("then", &then);
        fail_msg("%s: a second time gives another state", w->where);
    }
    assert_clean(w, false, "a second time: ");
}

#endif
