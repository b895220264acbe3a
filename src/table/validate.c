/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What a transaction must have before a commit begins: parts that the format requires, and what official's validation asks of it.
 *
 * operation              | checked
 * -----------------------|------------------------------------------------------------------------------------------------
 * Append, Overwrite,     | every new fragment has files and rows, every file a name and as many columns as fields
 * Update, Rewrite, Merge |
 * Merge                  | fragments, unless the table is empty; every one of the table is there with as many rows
 * Overwrite              | field ids; base paths only for a new table
 * CreateIndex, Rewrite   | uuids of 16 bytes, bitmaps that parse
 * DataReplacement        | files, all of the same fields
 * others                 | that the table is there
 *
 * Source: spec commits 2.8, 3. */
#include "table/commit_private.h"

pennon_status commit_check_writer_flags(const struct snapshot *current, pennon_error *err)
{
    uint64_t unknown = current->manifest.writer_feature_flags & ~WRITER_FLAGS_KNOWN;
    if (unknown == 0) return PENNON_OK;
    (void)error_set(err, PENNON_NOT_SUPPORTED,
                    "writing to the table needs features of a newer Lance (writer flags %" PRIu64 " are unknown here)", unknown);
    return error_kind(err, "NotSupported");
}

#define REQUIRE(cond, ...)                                                        \
    do {                                                                          \
        if (!(cond)) return error_set(err, PENNON_INVALID_ARGUMENT, __VA_ARGS__); \
    } while (0)

static int cut(struct bytes text) { return (int)min_u64(text.size, 128); }

static pennon_status check_file(const struct data_file_message *d, uint64_t fragment, pennon_error *err)
{
    REQUIRE(d->n_fields > 0 && d->n_fields == d->n_column_indices && d->path.size > 0,
            "data file '%.*s' of new fragment %" PRIu64 " has %zu fields and %zu columns", cut(d->path), (const char *)d->path.data,
            fragment, d->n_fields, d->n_column_indices);
    return PENNON_OK;
}

static pennon_status check_new(const struct fragment_message *list, size_t n, pennon_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct fragment_message *f = &list[i];
        REQUIRE(f->n_files > 0 && f->physical_rows > 0 && f->physical_rows <= UINT32_MAX,
                "new fragment %zu has %zu data files and %" PRIu64 " rows", i, f->n_files, f->physical_rows);
        for (size_t k = 0; k < f->n_files; k++) TRY_RETURN(check_file(&f->files[k], i, err));
    }
    return PENNON_OK;
}

static pennon_status check_uuid(const struct uuid_message *u, const char *what, pennon_error *err)
{
    REQUIRE(u != NULL && u->uuid.size == 16, "%s without a uuid of 16 bytes", what);
    return PENNON_OK;
}

static pennon_status check_schema(const struct field_message *fields, size_t n, pennon_error *err)
{
    for (size_t i = 0; i < n; i++) {
        REQUIRE(fields[i].id >= 0, "column '%.*s' of the new schema has no id", cut(fields[i].name),
                (const char *)fields[i].name.data);
    }
    return PENNON_OK;
}

static pennon_status check_merge(const struct merge_message *m, const struct snapshot *read, pennon_error *err)
{
    struct fragment_message *list = m->fragments;
    REQUIRE(m->n_fragments > 0 || read->n_fragments == 0, "a Merge without fragments would empty the table");
    TRY_RETURN(check_schema(m->schema, m->n_schema, err));
    /* Both lists mostly have the same order, so that the search begins where the last one ended. */
    size_t at = 0;
    for (size_t i = 0; i < read->n_fragments; i++) {
        const struct fragment *f = &read->fragments[i];
        size_t tried = 0;
        for (; tried < m->n_fragments && list[at].id != f->id; tried++) at = at + 1 == m->n_fragments ? 0 : at + 1;
        REQUIRE(tried < m->n_fragments, "a Merge without fragment %u of the table", f->id);
        REQUIRE(f->physical_rows == UINT64_MAX || list[at].physical_rows == f->physical_rows,
                "a Merge with %" PRIu64 " rows in fragment %u, which has %" PRIu64, list[at].physical_rows, f->id,
                f->physical_rows);
    }
    for (size_t i = 0; i < m->n_fragments; i++) {
        if (snapshot_find_fragment(read, list[i].id) == NULL) TRY_RETURN(check_new(&list[i], 1, err));
    }
    return PENNON_OK;
}

static pennon_status check_rewrite(const struct rewrite_message *w, pennon_error *err)
{
    for (size_t i = 0; i < w->n_groups; i++) {
        REQUIRE(w->groups[i].n_old_fragments > 0, "group %zu of a Rewrite has no old fragments", i);
        TRY_RETURN(check_new(w->groups[i].new_fragments, w->groups[i].n_new_fragments, err));
    }
    for (size_t i = 0; i < w->n_rewritten_indices; i++) {
        TRY_RETURN(check_uuid(w->rewritten_indices[i].old_id, "a rewritten index", err));
        TRY_RETURN(check_uuid(w->rewritten_indices[i].new_id, "a rewritten index", err));
        for (size_t k = 0; k < i; k++) {
            REQUIRE(!bytes_equal(w->rewritten_indices[i].old_id->uuid, w->rewritten_indices[k].old_id->uuid),
                    "an index that is rewritten twice");
        }
    }
    return PENNON_OK;
}

static pennon_status check_create_index(const struct create_index_message *c, pennon_error *err)
{
    size_t used;
    for (size_t i = 0; i < c->n_new_indices; i++) {
        const struct index_metadata_message *x = &c->new_indices[i];
        TRY_RETURN(check_uuid(x->uuid, "a new index", err));
        REQUIRE(x->name.size > 0, "a new index without a name");
        if (x->fragment_bitmap.size == 0) continue;
        if (roaring_check(x->fragment_bitmap, &used, err) == PENNON_OK) continue;
        (void)error_prefix(err, "index '%.*s'", cut(x->name), (const char *)x->name.data);
        return err->code = err->code == PENNON_CORRUPT ? PENNON_INVALID_ARGUMENT : err->code;
    }
    for (size_t i = 0; i < c->n_removed_indices; i++) TRY_RETURN(check_uuid(c->removed_indices[i].uuid, "an index to remove", err));
    return PENNON_OK;
}

static pennon_status check_replacement(const struct data_replacement_message *d, pennon_error *err)
{
    REQUIRE(d->n_replacements > 0, "a DataReplacement of nothing");
    for (size_t i = 0; i < d->n_replacements; i++) {
        const struct data_file_message *f = d->replacements[i].new_file, *first = d->replacements[0].new_file;
        REQUIRE(f != NULL, "a DataReplacement of fragment %" PRIu64 " without a file", d->replacements[i].fragment_id);
        TRY_RETURN(check_file(f, d->replacements[i].fragment_id, err));
        REQUIRE(f->n_fields == first->n_fields && memcmp(f->fields, first->fields, f->n_fields * sizeof *f->fields) == 0,
                "a DataReplacement of different fields");
    }
    return PENNON_OK;
}

static pennon_status check_overwrite(const struct overwrite_message *o, const struct snapshot *read, pennon_error *err)
{
    REQUIRE(read == NULL || o->n_initial_bases == 0, "base paths of an Overwrite are for new tables; the table is there already");
    TRY_RETURN(check_schema(o->schema, o->n_schema, err));
    for (size_t i = 0; i < o->n_initial_bases; i++) {
        for (size_t k = 0; k < i; k++)
            REQUIRE(o->initial_bases[i].id != o->initial_bases[k].id, "two base paths with the id %u", o->initial_bases[i].id);
    }
    return check_new(o->fragments, o->n_fragments, err);
}

static pennon_status check_generations(const struct merged_generation_message *list, size_t n, pennon_error *err)
{
    for (size_t i = 0; i < n; i++) TRY_RETURN(check_uuid(list[i].shard_id, "a merged generation", err));
    return PENNON_OK;
}

pennon_status transaction_validate(const struct transaction *t, const struct snapshot *read, pennon_error *err)
{
    if (operation_table(t->which) == NULL) {
        return error_set(err, PENNON_NOT_SUPPORTED, "a transaction of the kind %s (%u) is not known here", operation_name(t->which),
                         t->which);
    }
    REQUIRE(t->uuid[0] != '\0', "a transaction without a uuid");
    if (read == NULL && t->which != OPERATION_OVERWRITE && t->which != OPERATION_CLONE) {
        (void)error_set(err, PENNON_NOT_FOUND, "there is no table to commit a transaction of the kind %s to",
                        operation_name(t->which));
        return error_kind(err, "DatasetNotFound");
    }
    REQUIRE(t->which != OPERATION_CLONE || read == NULL, "a Clone onto a table that is there already");
    switch (t->which) {
    case OPERATION_APPEND: return check_new(t->op.append.fragments, t->op.append.n_fragments, err);
    case OPERATION_OVERWRITE: return check_overwrite(&t->op.overwrite, read, err);
    case OPERATION_MERGE: return check_merge(&t->op.merge, read, err);
    case OPERATION_PROJECT: return check_schema(t->op.project.schema, t->op.project.n_schema, err);
    case OPERATION_REWRITE: return check_rewrite(&t->op.rewrite, err);
    case OPERATION_CREATE_INDEX: return check_create_index(&t->op.create_index, err);
    case OPERATION_DATA_REPLACEMENT: return check_replacement(&t->op.replacement, err);
    case OPERATION_UPDATE_MEM_WAL_STATE:
        return check_generations(t->op.mem_wal.merged_generations, t->op.mem_wal.n_merged_generations, err);
    case OPERATION_UPDATE:
        TRY_RETURN(check_generations(t->op.update.merged_generations, t->op.update.n_merged_generations, err));
        return check_new(t->op.update.new_fragments, t->op.update.n_new_fragments, err);
    default: return PENNON_OK;
    }
}
