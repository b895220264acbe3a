/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The manifest that a transaction makes on top of the newest version.
 *
 * operation         | fragments                                   | indices                    | else
 * ------------------|---------------------------------------------|----------------------------|-------------------------------------
 * Append            | + new                                       |                            |
 * Delete            | - removed, updated replaced                 | retained                   |
 * Overwrite         | new alone                                   | none                       | schema, config keys, base paths of new tables
 * CreateIndex       |                                             | - removed, + new           |
 * Rewrite           | each group replaced                         | bitmaps follow             |
 * Merge             | as given                                    | pruned, retained           | schema
 * Restore           | those of the version                        | those of the version       | all of the version but counters and branch
 * ReserveFragments  |                                             |                            | max_fragment_id
 * Update            | - removed, updated replaced, + new          | pruned, follow, retained   |
 * Project           | without files that lost all fields          | retained                   | schema
 * UpdateConfig      |                                             |                            | the four maps
 * DataReplacement   | files exchanged                             | pruned                     |
 * UpdateMemWalState |                                             | entry of MemWAL            |
 * Clone             | those of the source, with a base path       | with a base path           | all of the source
 * UpdateBases       |                                             |                            | base paths
 *
 * Carried from the current manifest: what the table does not name, and what this library does not know. New fragments get ids above every id ever used, also
 * on overwrite and after a restore; next_row_id never goes back. Fragments are listed by id. Files without a live field go.
 *
 * Row counts that old writers left out, or wrote wrongly before they named themselves, are filled in: once this library's name stands in the manifest,
 * readers believe the counts. Other repairs that official makes on the way are refused by name.
 * Source: spec commits 2.7, 3, table-format 4, 6, 8, 9. */
#include <stdlib.h>

#include "table/commit_private.h"

#define DEFAULT_VERSION STORAGE_2_1
#define FRAGMENT_ID_LAST (UINT32_MAX - 1)
#define TOMBSTONE (-2)

pennon_status building_keep(struct building *b, struct buf *from, struct bytes *out, pennon_error *err)
{
    uint8_t *copy = arena_alloc(&b->arena, from->size, err);
    if (copy == NULL) return err->code;
    if (from->size > 0) memcpy(copy, from->data, from->size);
    *out = bytes_of(copy, from->size);
    from->size = 0;
    return PENNON_OK;
}

/* ---- storage version ---- */

/* The files that a new table or an overwrite has. */
static const struct data_file_message *first_file(const struct building *b)
{
    const struct overwrite_message *o = &b->t->op.overwrite;
    return b->t->which == OPERATION_OVERWRITE && o->n_fragments > 0 && o->fragments[0].n_files > 0 ? o->fragments[0].files : NULL;
}

/* A table of 0.1 is written to by deletes, which bring no data files. */
static pennon_status check_legacy(const struct building *b, pennon_error *err)
{
    if (b->source == NULL || b->t->which != OPERATION_DELETE)
        return error_set(err, PENNON_NOT_SUPPORTED,
                         "the table has data storage version 0.1, which is read only but for deletes; overwrite it with 2.1");
    return PENNON_OK;
}

static pennon_status choose_version(struct building *b, pennon_error *err)
{
    const struct data_file_message *file = first_file(b);
    const bool overwrite = b->t->which == OPERATION_OVERWRITE;
    uint32_t asked = b->options->storage_version, version = asked;
    if (b->source != NULL && !overwrite && asked != 0 && asked != b->source->storage_version) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "data storage version %s was asked for; the table has %s",
                         storage_version_text(asked), storage_version_text(b->source->storage_version));
    }
    if (version == 0 && b->source != NULL) version = b->source->storage_version;
    if (version == 0 && file != NULL) version = data_file_version(file->file_major_version, file->file_minor_version);
    if (version == 0 || (version == STORAGE_LEGACY && b->source != NULL && overwrite && asked == 0)) version = DEFAULT_VERSION;
    if (version == STORAGE_LEGACY) TRY_RETURN(check_legacy(b, err));
    if (version != STORAGE_LEGACY && (version < STORAGE_2_0 || version > STORAGE_2_3))
        return error_set(err, PENNON_NOT_SUPPORTED, "data storage version %u.%u", version >> 16, version & 0xffff);
    b->version = version;
    return PENNON_OK;
}

/* ---- the list of fragments ---- */

static pennon_status room(struct building *b, size_t extra, pennon_error *err)
{
    size_t want;
    if (size_add_overflows(b->n, extra, &want)) want = SIZE_MAX;
    if (want <= b->cap) return PENNON_OK;
    struct fragment_message *list = arena_calloc(&b->arena, want, sizeof *list, err);
    if (list == NULL) return err->code;
    if (b->n > 0) memcpy(list, b->list, b->n * sizeof *list);
    b->list = list;
    b->cap = want;
    return PENNON_OK;
}

struct fragment_message *building_find(const struct building *b, uint64_t id)
{
    size_t low = 0, high = b->n_sorted;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (b->list[mid].id < id) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < b->n_sorted && b->list[low].id == id ? &b->list[low] : NULL;
}

/* The first id that was never used. */
static uint64_t next_fragment_id(const struct snapshot *s)
{
    uint64_t next = 0;
    if (s == NULL) return 0;
    for (size_t i = 0; i < s->n_fragments; i++) next = max_u64(next, (uint64_t)s->fragments[i].id + 1);
    if (s->manifest.has_max_fragment_id) next = max_u64(next, (uint64_t)s->manifest.max_fragment_id + 1);
    return next;
}

/* A fragment that stays: with counts that readers may believe. */
static pennon_status carry_fragment(struct building *b, const struct fragment *f, struct fragment_message *out, pennon_error *err)
{
    const struct transaction_options *o = b->options;
    TRY_RETURN(fragment_load(b->source, f, err));
    *out = *f->message;
    if (f->physical_rows == UINT64_MAX) {
        if (o->length == NULL) {
            return error_set(
                err, PENNON_NOT_SUPPORTED,
                "fragment %u has no row count, as old writers left it; compact or rewrite the table with the writer that made it",
                f->id);
        }
        TRY_RETURN(fragment_physical_rows(b->call, b->source, f, o->length, o->length_ctx, &out->physical_rows, err));
    }
    if (f->deletion != NULL && f->deletion->num_deleted_rows == 0) {
        struct deletion_vector *d = NULL;
        TRY_RETURN(fragment_deletions(b->call, b->source, f, &d, err));
        out->deletion_file = arena_alloc(&b->arena, sizeof *out->deletion_file, err);
        if (out->deletion_file != NULL) {
            *out->deletion_file = *f->deletion;
            out->deletion_file->num_deleted_rows = d != NULL ? deletion_vector_count(d) : 0;
        }
        deletion_vector_release(d);
        if (out->deletion_file == NULL) return err->code;
    }
    return PENNON_OK;
}

/* All fragments of the source, by id. */
static pennon_status carry_fragments(struct building *b, pennon_error *err)
{
    const struct snapshot *s = b->source;
    if (s->n_fragments == 0) return PENNON_OK;
    if (s->doubled_ids) {
        return error_set(err, PENNON_NOT_SUPPORTED,
                         "appending to a table in which two fragments have the same id; rewrite it (its rows can be read)");
    }
    TRY_RETURN(room(b, s->n_fragments, err));
    for (size_t i = 0; i < s->n_fragments; i++)
        TRY_RETURN(carry_fragment(b, &s->fragments[s->by_id != NULL ? s->by_id[i] : i], &b->list[i], err));
    b->n = b->n_sorted = s->n_fragments;
    return PENNON_OK;
}

/* Does the operation leave every fragment as it is, and put new ones behind them? */
static bool only_adds(const struct transaction *t)
{
    switch (t->which) {
    case OPERATION_APPEND:
        for (size_t i = 0; i < t->op.append.n_fragments; i++) {
            if (t->op.append.fragments[i].id != 0) return false;
        }
        return true;
    case OPERATION_RESERVE_FRAGMENTS:
    case OPERATION_UPDATE_CONFIG:
    case OPERATION_UPDATE_BASES: return true;
    default: return false;
    }
}

/* Tables of many fragments take small commits: where nothing is to be changed or filled in, fragments go over as bytes. */
static bool can_carry_bytes(const struct building *b)
{
    const struct snapshot *s = b->source;
    if (!only_adds(b->t) || s->by_id != NULL || s->n_fragments == 0) return false;
    for (size_t i = 0; i < s->n_fragments; i++) {
        const struct fragment *f = &s->fragments[i];
        if (f->physical_rows == UINT64_MAX || (f->deletion != NULL && f->deletion->num_deleted_rows == 0)) return false;
    }
    return true;
}

static void remove_fragments(struct building *b, const struct id_list *ids)
{
    size_t kept = 0;
    ASSERT(b->n == b->n_sorted);
    for (size_t i = 0; i < b->n; i++) {
        if (!id_list_has(ids, b->list[i].id)) b->list[kept++] = b->list[i];
    }
    b->n = b->n_sorted = kept;
}

/* New fragments behind the list. With `renumber` all get new ids, else those that carry 0. With stable row ids their rows get ids, and with `stamp`
 * the versions too. */
static pennon_status add_fragments(struct building *b, const struct fragment_message *list, size_t n, bool renumber, bool stamp,
                                   pennon_error *err)
{
    TRY_RETURN(room(b, n, err));
    for (size_t i = 0; i < n; i++) {
        struct fragment_message *f = &b->list[b->n];
        *f = list[i];
        if (renumber || f->id == 0) f->id = b->next_fragment;
        if (f->id > FRAGMENT_ID_LAST) return error_set(err, PENNON_INVALID_ARGUMENT, "the fragment ids of the table are used up");
        b->next_fragment = max_u64(b->next_fragment, f->id + 1);
        if (b->stable && stamp) {
            TRY_RETURN(rows_number(b, f, err));
            TRY_RETURN(rows_stamp_created(b, f, err));
            TRY_RETURN(rows_stamp_updated(b, f, err));
        }
        b->n++;
    }
    return PENNON_OK;
}

static bool file_lives(const struct schema *s, const struct data_file_message *f)
{
    for (size_t i = 0; i < f->n_fields; i++) {
        if (f->fields[i] >= 0 && schema_find_id(s, f->fields[i]) != NULL) return true;
    }
    return false;
}

static bool all_tombstones(const struct data_file_message *f)
{
    for (size_t i = 0; i < f->n_fields; i++) {
        if (f->fields[i] != TOMBSTONE) return false;
    }
    return f->n_fields > 0;
}

/* Drops files, for good: with `s` those without a field of it, else those of tombstones alone. */
static pennon_status drop_files(struct building *b, struct fragment_message *f, const struct schema *s, pennon_error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->n_files; i++) kept += s != NULL ? file_lives(s, &f->files[i]) : !all_tombstones(&f->files[i]);
    if (kept == f->n_files) return PENNON_OK;
    struct data_file_message *files = arena_calloc(&b->arena, kept, sizeof *files, err);
    if (files == NULL) return err->code;
    kept = 0;
    for (size_t i = 0; i < f->n_files; i++) {
        if (s != NULL ? file_lives(s, &f->files[i]) : !all_tombstones(&f->files[i])) files[kept++] = f->files[i];
    }
    f->files = files;
    f->n_files = kept;
    return PENNON_OK;
}

/* A fragment that was there takes a new form. What the new form leaves out, or what only this version knows, stays: row ids and versions, the row count. Files whose
 * columns were dropped meanwhile do not come back. */
static pennon_status replace_fragment(struct building *b, const struct fragment_message *now, pennon_error *err)
{
    struct fragment_message *old = building_find(b, now->id), f = *now;
    if (old == NULL) return PENNON_OK;
    f.physical_rows = old->physical_rows;
    if (f.row_ids_which == 0) {
        f.row_ids_which = old->row_ids_which;
        f.inline_row_ids = old->inline_row_ids;
        f.external_row_ids = old->external_row_ids;
    }
    if (f.created_which == 0) {
        f.created_which = old->created_which;
        f.inline_created = old->inline_created;
        f.external_created = old->external_created;
    }
    if (f.last_updated_which == 0) {
        f.last_updated_which = old->last_updated_which;
        f.inline_last_updated = old->inline_last_updated;
        f.external_last_updated = old->external_last_updated;
    }
    TRY_RETURN(drop_files(b, &f, b->source->schema, err));
    *old = f;
    return PENNON_OK;
}

/* ---- the schema ---- */

/* The schema of the new version; decoded at once, for what follows. */
static pennon_status set_schema(struct building *b, struct field_message *fields, size_t n, struct map_entry *metadata,
                                size_t n_metadata, pennon_error *err)
{
    b->out.fields = fields;
    b->out.n_fields = n;
    b->out.schema_metadata = metadata;
    b->out.n_schema_metadata = n_metadata;
    pennon_status st = schema_from_messages(b->call->mem, fields, n, metadata, n_metadata, false, &b->new_schema, err);
    if (st == PENNON_CORRUPT) {
        (void)error_prefix(err, "the new schema");
        st = err->code = PENNON_INVALID_ARGUMENT;
    }
    if (st == PENNON_OK) b->schema = b->new_schema;
    return st;
}

/* ---- operations ---- */

static pennon_status build_append(struct building *b, pennon_error *err)
{
    const struct append_message *a = &b->t->op.append;
    return add_fragments(b, a->fragments, a->n_fragments, false, true, err);
}

static pennon_status replace_and_remove(struct building *b, const struct fragment_message *updated, size_t n_updated,
                                        const uint64_t *removed, size_t n_removed, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct id_list gone = {0};
    for (size_t i = 0; i < n_updated; i++) TRY(replace_fragment(b, &updated[i], err));
    TRY(id_list_fill(b->call->mem, removed, n_removed, &gone, err));
    remove_fragments(b, &gone);
done:
    mem_free(b->call->mem, gone.ids);
    return st;
}

static pennon_status build_delete(struct building *b, pennon_error *err)
{
    const struct delete_message *d = &b->t->op.remove;
    TRY_RETURN(replace_and_remove(b, d->updated_fragments, d->n_updated_fragments, d->deleted_fragment_ids,
                                  d->n_deleted_fragment_ids, err));
    return indices_retain(b, err);
}

static pennon_status build_overwrite(struct building *b, pennon_error *err)
{
    const struct overwrite_message *o = &b->t->op.overwrite;
    b->n = b->n_sorted = 0;
    b->index_section = bytes_of(NULL, 0);
    TRY_RETURN(add_fragments(b, o->fragments, o->n_fragments, true, true, err));
    TRY_RETURN(set_schema(b, o->schema, o->n_schema, o->schema_metadata, o->n_schema_metadata, err));
    if (b->source == NULL) {
        b->out.base_paths = o->initial_bases;
        b->out.n_base_paths = o->n_initial_bases;
    }
    return config_upsert(b, o->config_upsert_values, o->n_config_upsert_values, err);
}

static pennon_status build_rewrite(struct building *b, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct rewrite_message w = b->t->op.rewrite;
    struct id_list gone = {0};
    TRY(touched_fragments(b->call->mem, b->t, &gone, err));
    for (size_t i = 0; i < gone.n; i++) {
        if (building_find(b, gone.ids[i]) != NULL) continue;
        (void)error_set(err, PENNON_CONFLICT,
                        "Commit conflict for version %" PRIu64 ": fragment %" PRIu64 ", which is to be rewritten, is gone",
                        b->target, gone.ids[i]);
        err->version = b->target;
        st = error_kind(err, "CommitConflict");
        goto done;
    }
    remove_fragments(b, &gone);
    /* The indices follow to the ids that the new fragments get. */
    TRY_NEW(w.groups, arena_calloc(&b->arena, w.n_groups, sizeof *w.groups, err));
    size_t total = 0;
    for (size_t i = 0; i < w.n_groups; i++) {
        w.groups[i] = b->t->op.rewrite.groups[i];
        if (size_add_overflows(total, w.groups[i].n_new_fragments, &total)) total = SIZE_MAX;
    }
    TRY(room(b, total, err));
    for (size_t i = 0; i < w.n_groups; i++) {
        struct fragment_message *first = b->list + b->n;
        TRY(add_fragments(b, w.groups[i].new_fragments, w.groups[i].n_new_fragments, false, false, err));
        w.groups[i].new_fragments = first;
    }
    TRY(indices_rewrite(b, &w, err));
done:
    mem_free(b->call->mem, gone.ids);
    return st;
}

static pennon_status build_merge(struct building *b, pennon_error *err)
{
    const struct merge_message *m = &b->t->op.merge;
    const bool named = m->n_schema_metadata > 0; /* other writers leave them out, and mean the table's */
    TRY_RETURN(set_schema(b, m->schema, m->n_schema, named ? m->schema_metadata : b->out.schema_metadata,
                          named ? m->n_schema_metadata : b->out.n_schema_metadata, err));
    struct fragment_message *old = b->list;
    const size_t n_old = b->n_sorted;
    b->list = NULL;
    b->n = b->n_sorted = b->cap = 0;
    TRY_RETURN(room(b, m->n_fragments, err));
    for (size_t i = 0; i < m->n_fragments; i++) {
        struct fragment_message *f = &b->list[b->n++];
        const struct building before = {.list = old, .n_sorted = n_old};
        const struct fragment_message *was = building_find(&before, m->fragments[i].id);
        *f = m->fragments[i];
        if (f->id > FRAGMENT_ID_LAST)
            return error_set(err, PENNON_INVALID_ARGUMENT, "a Merge with the fragment id %" PRIu64, f->id);
        b->next_fragment = max_u64(b->next_fragment, f->id + 1);
        if (was != NULL) f->physical_rows = was->physical_rows;
        if (!b->stable) continue;
        if (was == NULL) TRY_RETURN(rows_stamp_created(b, f, err));
        if (was == NULL || !same_files(f, was)) TRY_RETURN(rows_stamp_updated(b, f, err));
    }
    TRY_RETURN(indices_prune_moved(b, err));
    return indices_retain(b, err);
}

static pennon_status build_project(struct building *b, pennon_error *err)
{
    const struct project_message *p = &b->t->op.project;
    TRY_RETURN(set_schema(b, p->schema, p->n_schema, b->out.schema_metadata, b->out.n_schema_metadata, err));
    for (size_t i = 0; i < b->n; i++) TRY_RETURN(drop_files(b, &b->list[i], b->schema, err));
    return indices_retain(b, err);
}

/* Everything is the old version's but what must not go back. */
static pennon_status build_restore(struct building *b, pennon_error *err)
{
    const struct manifest_message *now = &b->current->manifest;
    UNUSED(err);
    b->out.next_row_id = max_u64(b->out.next_row_id, now->next_row_id);
    b->out.has_branch = now->has_branch;
    b->out.branch = now->branch;
    b->next_fragment = max_u64(b->next_fragment, next_fragment_id(b->current));
    return PENNON_OK;
}

static pennon_status build_reserve(struct building *b, pennon_error *err)
{
    /* The first reserved id is 1 in a table that never had a fragment, as in official. */
    uint64_t last = b->next_fragment > 0 ? b->next_fragment - 1 : 0;
    last += b->t->op.reserve.num_fragments;
    if (last > FRAGMENT_ID_LAST)
        return error_set(err, PENNON_INVALID_ARGUMENT, "%u fragment ids are more than the table has left",
                         b->t->op.reserve.num_fragments);
    b->next_fragment = last + 1;
    return PENNON_OK;
}

static pennon_status build_update(struct building *b, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct update_message *u = &b->t->op.update;
    struct id_list updated = {0};
    TRY(replace_and_remove(b, u->updated_fragments, u->n_updated_fragments, u->removed_fragment_ids, u->n_removed_fragment_ids,
                           err));
    if (b->stable && u->update_mode == UPDATE_REWRITE_COLUMNS) TRY(rows_stamp_offsets(b, err));
    for (size_t i = 0; i < u->n_updated_fragments; i++) TRY(id_list_add(b->call->mem, &updated, u->updated_fragments[i].id, err));
    id_list_sort(&updated);
    TRY(indices_prune(b, u->fields_modified, u->n_fields_modified, &updated, err));
    TRY(room(b, u->n_new_fragments, err));
    struct fragment_message *first = b->list + b->n;
    const uint64_t fresh = b->out.next_row_id;
    TRY(add_fragments(b, u->new_fragments, u->n_new_fragments, false, true, err));
    if (b->stable) {
        TRY(rows_inherit(b, first, u->n_new_fragments, fresh, err));
        if (u->update_mode != UPDATE_REWRITE_COLUMNS) TRY(indices_follow(b, u, first, u->n_new_fragments, err));
    }
    TRY(indices_retain(b, err));
    TRY(indices_merge_generations(b, u->merged_generations, u->n_merged_generations, err));
done:
    mem_free(b->call->mem, updated.ids);
    return st;
}

static bool same_columns(const struct data_file_message *a, const struct data_file_message *b)
{
    return a->n_fields == b->n_fields && memcmp(a->fields, b->fields, a->n_fields * sizeof *a->fields) == 0 &&
           a->file_major_version == b->file_major_version && a->file_minor_version == b->file_minor_version;
}

static bool shares_field(const struct data_file_message *a, const struct data_file_message *b)
{
    for (size_t i = 0; i < a->n_fields; i++) {
        for (size_t k = 0; k < b->n_fields; k++) {
            if (a->fields[i] == b->fields[k]) return true;
        }
    }
    return false;
}

/* One file takes the place of those with the same columns, or comes to those that have none of them. */
static pennon_status replace_file(struct building *b, const struct replacement_message *r, pennon_error *err)
{
    struct fragment_message *f = building_find(b, r->fragment_id);
    bool done = false, shared = false;
    if (f == NULL)
        return error_set(err, PENNON_INVALID_ARGUMENT, "a DataReplacement of fragment %" PRIu64 ", which is not there",
                         r->fragment_id);
    struct data_file_message *files = arena_calloc(&b->arena, f->n_files + 1, sizeof *files, err);
    if (files == NULL) return err->code;
    for (size_t i = 0; i < f->n_files; i++) {
        files[i] = f->files[i];
        shared = shared || shares_field(&f->files[i], r->new_file);
        if (!same_columns(&f->files[i], r->new_file)) continue;
        files[i].path = r->new_file->path;
        files[i].file_size_bytes = r->new_file->file_size_bytes;
        files[i].has_base_id = r->new_file->has_base_id;
        files[i].base_id = r->new_file->base_id;
        done = true;
    }
    if (!done && shared)
        return error_set(err, PENNON_INVALID_ARGUMENT,
                         "a DataReplacement of fragment %" PRIu64
                         " whose file holds other columns together than the fragment's files",
                         r->fragment_id);
    f->files = files;
    if (!done) files[f->n_files++] = *r->new_file;
    return b->stable ? rows_stamp_updated(b, f, err) : PENNON_OK;
}

static pennon_status build_replacement(struct building *b, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct data_replacement_message *d = &b->t->op.replacement;
    const struct data_file_message *file = d->replacements[0].new_file;
    struct id_list ids = {0};
    for (size_t i = 0; i < d->n_replacements; i++) {
        TRY(replace_file(b, &d->replacements[i], err));
        TRY(id_list_add(b->call->mem, &ids, d->replacements[i].fragment_id, err));
    }
    id_list_sort(&ids);
    TRY(indices_prune(b, (const uint32_t *)file->fields, file->n_fields, &ids, err));
done:
    mem_free(b->call->mem, ids.ids);
    return st;
}

static pennon_status build_bases(struct building *b, pennon_error *err)
{
    const struct update_bases_message *u = &b->t->op.bases;
    const size_t n_old = b->out.n_base_paths;
    uint64_t next = 1;
    struct base_path_message *list = arena_calloc(&b->arena, n_old + u->n_new_bases, sizeof *list, err);
    if (list == NULL) return err->code;
    if (n_old > 0) memcpy(list, b->out.base_paths, n_old * sizeof *list);
    for (size_t i = 0; i < n_old; i++) next = max_u64(next, (uint64_t)list[i].id + 1);
    for (size_t i = 0; i < u->n_new_bases; i++) next = max_u64(next, (uint64_t)u->new_bases[i].id + 1);
    for (size_t i = 0; i < u->n_new_bases; i++) {
        struct base_path_message *now = &list[n_old + i];
        *now = u->new_bases[i];
        for (size_t k = 0; k < n_old + i; k++) {
            bool name = now->has_name && list[k].has_name && bytes_equal(now->name, list[k].name);
            if (name || bytes_equal(now->path, list[k].path) || (now->id != 0 && now->id == list[k].id))
                return error_set(err, PENNON_INVALID_ARGUMENT, "base path '%.*s' has the name, the path or the id of another one",
                                 (int)min_u64(now->path.size, 256), (const char *)now->path.data);
        }
        if (now->id != 0) continue;
        if (next > UINT32_MAX) return error_set(err, PENNON_INVALID_ARGUMENT, "the ids of base paths are used up");
        now->id = (uint32_t)next++;
    }
    b->out.base_paths = list;
    b->out.n_base_paths = n_old + u->n_new_bases;
    return PENNON_OK;
}

/* ---- clones ---- */

/* Where files of the source lie: below the new base, or, in a deep clone, copied into the table. */
static pennon_status clone_fragment(struct building *b, struct fragment_message *f, bool shallow, uint32_t base, pennon_error *err)
{
    struct data_file_message *files = arena_calloc(&b->arena, f->n_files, sizeof *files, err);
    if (files == NULL) return err->code;
    if (f->row_ids_which == 6 || f->last_updated_which == 8 || f->created_which == 10)
        return error_set(err, PENNON_NOT_SUPPORTED, "a clone of a table with row ids in files of their own");
    for (size_t i = 0; i < f->n_files; i++) {
        files[i] = f->files[i];
        if (shallow && !files[i].has_base_id) files[i].base_id = base;
        if (!shallow) files[i].base_id = 0;
        files[i].has_base_id = shallow;
    }
    f->files = files;
    if (f->deletion_file == NULL) return PENNON_OK;
    struct deletion_file_message *d = arena_calloc(&b->arena, 1, sizeof *d, err);
    if (d == NULL) return err->code;
    *d = *f->deletion_file;
    if (shallow && !d->has_base_id) d->base_id = base;
    if (!shallow) d->base_id = 0;
    d->has_base_id = shallow;
    f->deletion_file = d;
    return PENNON_OK;
}

static pennon_status clone_bases(struct building *b, bool shallow, uint32_t base, pennon_error *err)
{
    const struct clone_message *c = &b->t->op.clone;
    const size_t n = b->out.n_base_paths;
    if (!shallow) {
        b->out.base_paths = NULL;
        b->out.n_base_paths = 0;
        return PENNON_OK;
    }
    struct base_path_message *list = arena_calloc(&b->arena, n + 1, sizeof *list, err);
    if (list == NULL) return err->code;
    if (n > 0) memcpy(list, b->out.base_paths, n * sizeof *list);
    list[n] = (struct base_path_message){
        .id = base, .has_name = c->has_ref_name, .name = c->ref_name, .is_dataset_root = true, .path = c->ref_path};
    b->out.base_paths = list;
    b->out.n_base_paths = n + 1;
    return PENNON_OK;
}

/* The manifest of the source, seen from another place. */
static pennon_status build_clone(struct building *b, pennon_error *err)
{
    const struct clone_message *c = &b->t->op.clone;
    uint64_t base = 0;
    for (size_t i = 0; i < b->out.n_base_paths; i++) base = max_u64(base, (uint64_t)b->out.base_paths[i].id + 1);
    if (base > UINT32_MAX) return error_set(err, PENNON_INVALID_ARGUMENT, "the ids of base paths are used up");
    for (size_t i = 0; i < b->n; i++) TRY_RETURN(clone_fragment(b, &b->list[i], c->is_shallow, (uint32_t)base, err));
    TRY_RETURN(indices_rebase(b, c->is_shallow, (uint32_t)base, err));
    TRY_RETURN(clone_bases(b, c->is_shallow, (uint32_t)base, err));
    b->out.has_branch = c->is_shallow && c->has_branch_name;
    b->out.branch = b->out.has_branch ? c->branch_name : bytes_of(NULL, 0);
    return PENNON_OK;
}

static pennon_status build_operation(struct building *b, pennon_error *err)
{
    const struct update_mem_wal_message *wal = &b->t->op.mem_wal;
    switch (b->t->which) {
    case OPERATION_APPEND: return build_append(b, err);
    case OPERATION_DELETE: return build_delete(b, err);
    case OPERATION_OVERWRITE: return build_overwrite(b, err);
    case OPERATION_CREATE_INDEX: return indices_create(b, err);
    case OPERATION_REWRITE: return build_rewrite(b, err);
    case OPERATION_MERGE: return build_merge(b, err);
    case OPERATION_RESTORE: return build_restore(b, err);
    case OPERATION_RESERVE_FRAGMENTS: return build_reserve(b, err);
    case OPERATION_UPDATE: return build_update(b, err);
    case OPERATION_PROJECT: return build_project(b, err);
    case OPERATION_UPDATE_CONFIG: return config_apply(b, &b->t->op.config, err);
    case OPERATION_DATA_REPLACEMENT: return build_replacement(b, err);
    case OPERATION_UPDATE_MEM_WAL_STATE:
        return indices_merge_generations(b, wal->merged_generations, wal->n_merged_generations, err);
    case OPERATION_CLONE: return build_clone(b, err);
    default: ASSERT(b->t->which == OPERATION_UPDATE_BASES); return build_bases(b, err);
    }
}

/* ---- checks of the result ---- */

/* Was the file in this fragment before? */
static bool was_there(const struct building *b, uint64_t fragment, const struct data_file_message *f)
{
    const struct fragment *old = b->source != NULL ? snapshot_find_fragment(b->source, fragment) : NULL;
    for (size_t i = 0; old != NULL && i < old->message->n_files; i++) {
        if (bytes_equal(old->message->files[i].path, f->path)) return true;
    }
    return false;
}

/* From 2.1 on a field has a column in a file when it owns one, and else none. */
static pennon_status check_columns(const struct building *b, const struct data_file_message *f, pennon_error *err)
{
    for (size_t i = 0; i < f->n_fields && b->version >= STORAGE_2_1; i++) {
        const struct field *field = schema_find_id(b->schema, f->fields[i]);
        if (field == NULL || field_owns_column(field, b->version) == (f->column_indices[i] >= 0)) continue;
        return error_set(err, PENNON_INVALID_ARGUMENT, "data file '%.*s' has column %" PRId32 " for field '%.128s'",
                         (int)min_u64(f->path.size, 128), (const char *)f->path.data, f->column_indices[i], field->name);
    }
    return PENNON_OK;
}

static pennon_status check_new_file(const struct building *b, const struct data_file_message *f, pennon_error *err)
{
    if (data_file_version(f->file_major_version, f->file_minor_version) != b->version) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "data file '%.*s' has version %u.%u in a table of %s",
                         (int)min_u64(f->path.size, 128), (const char *)f->path.data, f->file_major_version, f->file_minor_version,
                         storage_version_text(b->version));
    }
    if (f->n_column_indices < f->n_fields)
        return error_set(err, PENNON_INVALID_ARGUMENT, "data file '%.*s' has %zu fields and %zu columns",
                         (int)min_u64(f->path.size, 128), (const char *)f->path.data, f->n_fields, f->n_column_indices);
    return check_columns(b, f, err);
}

static int compare_i32(const void *x, const void *y)
{
    const int32_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

/* A live field that two files of a fragment hold: official gives one of them a new id, which this library does not do. */
static pennon_status check_doubled(struct building *b, const struct fragment_message *f, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    int32_t *ids = NULL;
    size_t n = 0;
    if (f->n_files < 2) return PENNON_OK;
    for (size_t i = 0; i < f->n_files; i++) n += f->files[i].n_fields;
    TRY_NEW(ids, mem_calloc(b->call->mem, n, sizeof *ids, err));
    n = 0;
    for (size_t i = 0; i < f->n_files; i++) {
        for (size_t k = 0; k < f->files[i].n_fields; k++) ids[n++] = f->files[i].fields[k];
    }
    if (n > 0) qsort(ids, n, sizeof *ids, compare_i32);
    for (size_t i = 1; i < n; i++) {
        if (ids[i] < 0 || ids[i] != ids[i - 1] || schema_find_id(b->schema, ids[i]) == NULL) continue;
        FAIL(PENNON_NOT_SUPPORTED,
             "fragment %" PRIu64 " has field %" PRId32 " in two data files; a commit would have to give one of them a new id",
             f->id, ids[i]);
    }
done:
    mem_free(b->call->mem, ids);
    return st;
}

static int compare_fragments(const void *x, const void *y)
{
    const struct fragment_message *a = x, *b = y;
    return (a->id > b->id) - (a->id < b->id);
}

/* The list in its final form. */
static pennon_status finish_fragments(struct building *b, pennon_error *err)
{
    bool sorted = true;
    for (size_t i = 1; i < b->n; i++) sorted = sorted && b->list[i - 1].id < b->list[i].id;
    if (!sorted) qsort(b->list, b->n, sizeof *b->list, compare_fragments);
    for (size_t i = 0; i < b->n; i++) {
        struct fragment_message *f = &b->list[i];
        if (i > 0 && f->id == b->list[i - 1].id)
            return error_set(err, PENNON_INVALID_ARGUMENT, "two fragments with the id %" PRIu64, f->id);
        TRY_RETURN(drop_files(b, f, NULL, err));
        for (size_t k = 0; k < f->n_files; k++) {
            if (!was_there(b, f->id, &f->files[k])) TRY_RETURN(check_new_file(b, &f->files[k], err));
        }
        TRY_RETURN(check_doubled(b, f, err));
    }
    b->out.fragments = b->list;
    b->out.n_fragments = b->n;
    if (b->next_fragment > 0) {
        b->out.has_max_fragment_id = true;
        b->out.max_fragment_id = (uint32_t)(b->next_fragment - 1);
    }
    return PENNON_OK;
}

/* ---- the whole ---- */

/* The version whose content is carried over: the current one, or the one to restore or to clone. */
static pennon_status open_source(struct building *b, struct snapshot **opened, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct table_location at = {0};
    char *uri = NULL;
    const uint64_t version = b->t->which == OPERATION_RESTORE ? b->t->op.restore.version : b->t->op.clone.ref_version;
    const struct bytes path = b->t->op.clone.ref_path;
    b->source = b->current;
    if (b->t->which != OPERATION_RESTORE && b->t->which != OPERATION_CLONE) return PENNON_OK;
    if (version == 0) FAIL(PENNON_INVALID_ARGUMENT, "a %s of version 0", operation_name(b->t->which));
    if (b->t->which == OPERATION_RESTORE) {
        TRY(snapshot_read(b->call, &b->current->at, version, b->current->v2_names, &b->current->external, opened, err));
    } else {
        TRY_NEW(uri, mem_strndup(b->call->mem, (const char *)path.data, path.size, err));
        TRY(table_locate(b->call, uri, &at, err));
        TRY(snapshot_read(b->call, &at, version, true, NULL, opened, err));
    }
    b->source = *opened;
done:
    if (st == PENNON_NOT_FOUND) {
        (void)error_set(err, PENNON_NOT_FOUND, "there is no version %" PRIu64 " to %s", version,
                        b->t->which == OPERATION_RESTORE ? "restore" : "clone");
        err->version = version;
        (void)error_kind(err, "VersionNotFound");
    }
    table_location_free(b->call->mem, &at);
    mem_free(b->call->mem, uri);
    return st;
}

static pennon_status build_message(struct building *b, const char *txn_name, pennon_error *err)
{
    struct bytes tag = bytes_of(NULL, 0);
    b->stable = b->source != NULL ? snapshot_has_stable_ids(b->source) : b->options->stable_row_ids;
    TRY_RETURN(choose_version(b, err));
    if (b->source != NULL) {
        b->out = b->source->manifest;
        b->schema = b->source->schema;
        TRY_RETURN(snapshot_section(b->call, b->source, SECTION_INDICES, &b->index_section, err));
        /* An overwrite takes nothing from the fragments, so that it also works where they cannot be carried. */
        b->carries_bytes = can_carry_bytes(b);
        if (b->t->which != OPERATION_OVERWRITE && !b->carries_bytes) TRY_RETURN(carry_fragments(b, err));
    }
    if (b->t->which == OPERATION_RESTORE) tag = b->out.tag;
    b->next_fragment = next_fragment_id(b->source);
    TRY_RETURN(manifest_stamp(&b->arena, &b->out, b->target, b->version, txn_name, err));
    b->out.tag = b->t->tag.size > 0 ? b->t->tag : tag;
    TRY_RETURN(build_operation(b, err));
    TRY_RETURN(finish_fragments(b, err));
    if (b->carries_bytes) {
        const struct snapshot *s = b->source;
        ASSERT(b->n == 0 || b->list[0].id > s->fragments[s->n_fragments - 1].id);
        ASSERT(s->manifest.n_fragment_bytes == s->n_fragments);
        b->out.fragment_bytes = s->manifest.fragment_bytes;
        b->out.n_fragment_bytes = s->n_fragments;
    }
    manifest_set_flags(&b->out, b->stable);
    for (size_t i = 0; b->carries_bytes && i < b->source->n_fragments; i++) {
        if (b->source->fragments[i].deletion == NULL) continue;
        b->out.reader_feature_flags |= FLAG_DELETIONS;
        b->out.writer_feature_flags |= FLAG_DELETIONS;
    }
    return PENNON_OK;
}

/* The values of dictionary columns of a table of 0.1 lie in its manifests, in front of the sections, and know their places in the file: the new manifest
 * has them in the same places. */
static struct bytes dictionary_values(const struct building *b)
{
    const struct snapshot *s = b->source;
    if (b->version != STORAGE_LEGACY || !s || !schema_has_dictionaries(s->schema)) return bytes_of(NULL, 0);
    const struct manifest_message *m = &s->manifest;
    uint64_t last = 0, end = s->message_at;
    ASSERT(s->bytes_at == 0 && s->bytes->size >= s->message_at);
    for (size_t i = 0; i < m->n_fields; i++) {
        const struct dictionary_message *d = m->fields[i].dictionary;
        if (d && d->offset > 0) last = max_u64(last, (uint64_t)d->offset);
    }
    if (m->has_index_section && m->index_section > last) end = min_u64(end, m->index_section);
    if (m->has_transaction_section && m->transaction_section > last) end = min_u64(end, m->transaction_section);
    return bytes_of(s->bytes->data, (size_t)end);
}

pennon_status manifest_build(const struct call *c, const struct transaction *t, const struct transaction_options *o,
                             struct snapshot *current, uint64_t target, const char *txn_name, struct bytes txn, struct block **out,
                             pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct building b = {.call = c, .options = o, .t = t, .current = current, .target = target};
    struct snapshot *opened = NULL;
    struct bytes indices;
    ASSERT(operation_table(t->which) != NULL);
    arena_init(&b.arena, c->mem);
    TRY(open_source(&b, &opened, err));
    TRY(build_message(&b, txn_name, err));
    TRY(index_section_encode(&b, &indices, err));
    TRY(manifest_file_make(runtime_mem(c->runtime), &b.out, dictionary_values(&b), indices, txn, out,
                           err)); /* the bytes become the snapshot's */
done:
    schema_release(b.new_schema);
    arena_reset(&b.arena);
    snapshot_release(opened);
    return st;
}
