/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The conflict rules: one table, operation by operation.
 *
 * Each cell is an outcome, or a function that looks closer. A function that finds something to adapt notes it in the rebase and says that all is well.
 *
 *   retry = CONFLICT: running the verb again reads the table as it is now.   never = CONFLICT_FINAL.
 *   A version without a transaction, and an operation that is not known here: retry.
 *
 * Where official 8.0 loses data, the safe side is taken (as later releases do, or further):
 *   - rows that were written for another schema must still fit it, else retry: Append, Update, DataReplacement under Merge and Project,
 *     and a Project that forbids nulls over new rows;
 *   - `replace` of a map of config counts as touching every key of it;
 *   - an index that is created while its columns are rewritten in place gives up those fragments, and is tried again when its columns went away;
 *   - a schema of Merge or Project over new metadata of fields is made again;
 *   - a DataReplacement over a Merge, over moved rows or over the same field is tried again.
 * Source: spec commits 4.1, 4.2, 4.4, 4.5. */
#include "table/commit_private.h"

enum verdict { FINE, RETRY, NEVER };

/* One pair of transactions. */
struct pair {
    struct rebase *r;
    const struct transaction *mine, *theirs;
    struct snapshot *before, *after; /* of theirs */
};

typedef pennon_status (*check_fn)(struct pair *p, enum verdict *out, pennon_error *err);

/* ---- fragments ---- */

static pennon_status check_shared(struct pair *p, enum verdict *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct id_list theirs = {0};
    TRY(touched_fragments(p->r->call->mem, p->theirs, &theirs, err));
    for (size_t i = 0; i < theirs.n; i++) {
        if (id_list_has(&p->r->touched, theirs.ids[i])) *out = RETRY;
    }
done:
    mem_free(p->r->call->mem, theirs.ids);
    return st;
}

static bool same_file(const struct data_file_message *a, const struct data_file_message *b)
{
    bool size = a->file_size_bytes == b->file_size_bytes || a->file_size_bytes == 0 || b->file_size_bytes == 0;
    return size && bytes_equal(a->path, b->path) && a->has_base_id == b->has_base_id && a->base_id == b->base_id &&
           a->file_major_version == b->file_major_version && a->file_minor_version == b->file_minor_version &&
           a->n_fields == b->n_fields && a->n_column_indices == b->n_column_indices &&
           (a->n_fields == 0 || memcmp(a->fields, b->fields, a->n_fields * sizeof *a->fields) == 0) &&
           (a->n_column_indices == 0 ||
            memcmp(a->column_indices, b->column_indices, a->n_column_indices * sizeof *a->column_indices) == 0);
}

bool same_files(const struct fragment_message *a, const struct fragment_message *b)
{
    if (a->n_files != b->n_files) return false;
    for (size_t i = 0; i < a->n_files; i++) {
        if (!same_file(&a->files[i], &b->files[i])) return false;
    }
    return true;
}

static bool same_deletions(const struct deletion_file_message *a, const struct deletion_file_message *b)
{
    if (a == NULL || b == NULL) return a == b;
    return a->file_type == b->file_type && a->read_version == b->read_version && a->id == b->id &&
           a->has_base_id == b->has_base_id && a->base_id == b->base_id;
}

/* What Delete and Update have in common. */
struct row_change {
    const struct fragment_message *updated;
    size_t n_updated;
    const uint64_t *removed;
    size_t n_removed;
};

static struct row_change row_change_of(const struct transaction *t)
{
    ASSERT(t->which == OPERATION_DELETE || t->which == OPERATION_UPDATE);
    if (t->which == OPERATION_DELETE) {
        return (struct row_change){t->op.remove.updated_fragments, t->op.remove.n_updated_fragments,
                                   t->op.remove.deleted_fragment_ids, t->op.remove.n_deleted_fragment_ids};
    }
    return (struct row_change){t->op.update.updated_fragments, t->op.update.n_updated_fragments, t->op.update.removed_fragment_ids,
                               t->op.update.n_removed_fragment_ids};
}

static const struct fragment_message *find_message(const struct fragment_message *list, size_t n, uint64_t id)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i].id == id) return &list[i];
    }
    return NULL;
}

/* Their new form of a fragment that I change too. */
static pennon_status check_fragment(struct pair *p, const struct row_change *mine, const struct fragment_message *theirs,
                                    enum verdict *out, pennon_error *err)
{
    struct id_list *merge = &p->r->merge;
    const struct fragment *known = snapshot_find_fragment(p->r->read, theirs->id);
    if (known != NULL) TRY_RETURN(fragment_load(p->r->read, known, err));
    const struct fragment_message *own = find_message(mine->updated, mine->n_updated, theirs->id);
    /* Columns were rewritten, by them or by me: rows and files no longer go together. */
    if (known == NULL || !same_files(theirs, known->message) || (own != NULL && !same_files(own, known->message))) {
        *out = RETRY;
        return PENNON_OK;
    }
    if (same_deletions(theirs->deletion_file, known->message->deletion_file) || id_list_has(merge, theirs->id)) return PENNON_OK;
    TRY_RETURN(mem_grow(p->r->call->mem, &merge->ids, &merge->cap, merge->n, sizeof *merge->ids, SIZE_MAX / 8, err));
    size_t at = merge->n++;
    for (; at > 0 && merge->ids[at - 1] > theirs->id; at--) merge->ids[at] = merge->ids[at - 1];
    merge->ids[at] = theirs->id;
    return PENNON_OK;
}

/* Delete or Update over Delete or Update: deletions of different rows can be merged when it is known which rows are mine. */
static pennon_status check_rows(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct row_change mine = row_change_of(p->mine), theirs = row_change_of(p->theirs);
    TRY_RETURN(check_shared(p, out, err));
    if (*out == FINE || !p->r->options->knows_rows || mine.n_updated == 0) return PENNON_OK;
    *out = FINE;
    for (size_t i = 0; i < theirs.n_removed; i++) {
        if (id_list_has(&p->r->touched, theirs.removed[i])) *out = RETRY;
    }
    for (size_t i = 0; i < theirs.n_updated && *out == FINE; i++) {
        if (id_list_has(&p->r->touched, theirs.updated[i].id)) TRY_RETURN(check_fragment(p, &mine, &theirs.updated[i], out, err));
    }
    return PENNON_OK;
}

/* ---- inserted keys ---- */

static bool key_in(uint64_t key, const struct exact_filter_message *f)
{
    for (size_t i = 0; i < f->n_key_hashes; i++) {
        if (f->key_hashes[i] == key) return true;
    }
    return false;
}

/* Can both filters hold the same key? Filters that cannot be compared can. */
static bool filters_meet(const struct key_filter_message *a, const struct key_filter_message *b)
{
    if (a->n_field_ids != b->n_field_ids || a->which != b->which) return true;
    if (a->n_field_ids > 0 && memcmp(a->field_ids, b->field_ids, a->n_field_ids * sizeof *a->field_ids) != 0) return true;
    if (a->which == KEY_FILTER_EXACT && a->exact != NULL && b->exact != NULL) {
        for (size_t i = 0; i < a->exact->n_key_hashes; i++) {
            if (key_in(a->exact->key_hashes[i], b->exact)) return true;
        }
        return false;
    }
    if (a->which != KEY_FILTER_BLOOM || a->bloom == NULL || b->bloom == NULL) return true;
    const struct bloom_filter_message *x = a->bloom, *y = b->bloom;
    if (x->number_of_items != y->number_of_items || x->probability != y->probability || x->bitmap.size != y->bitmap.size)
        return true;
    for (size_t i = 0; i < x->bitmap.size; i++) {
        if ((x->bitmap.data[i] & y->bitmap.data[i]) != 0) return true;
    }
    return false;
}

/* Rows were appended, perhaps with keys that I insert. */
static pennon_status check_inserts(struct pair *p, enum verdict *out, pennon_error *err)
{
    UNUSED(err);
    if (p->mine->op.update.inserted_rows != NULL) *out = RETRY;
    return PENNON_OK;
}

static pennon_status check_update_update(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct key_filter_message *mine = p->mine->op.update.inserted_rows, *theirs = p->theirs->op.update.inserted_rows;
    if (mine != NULL && (theirs == NULL || filters_meet(mine, theirs))) {
        *out = RETRY;
        return PENNON_OK;
    }
    return check_rows(p, out, err);
}

/* ---- schemas ---- */

static bool file_has(const struct data_file_message *f, int32_t id)
{
    for (size_t i = 0; i < f->n_fields; i++) {
        if (f->fields[i] == id) return true;
    }
    return false;
}

static bool fragment_has(const struct fragment_message *f, int32_t id)
{
    for (size_t i = 0; i < f->n_files; i++) {
        if (file_has(&f->files[i], id)) return true;
    }
    return false;
}

static bool same_path(const struct field *a, const struct field *b)
{
    for (; a != NULL && b != NULL; a = a->parent, b = b->parent) {
        if (strcmp(a->name, b->name) != 0) return false;
    }
    return a == NULL && b == NULL;
}

static bool was_replaced(const struct field *old, const struct schema *now)
{
    for (size_t i = 0; i < now->n_all; i++) {
        if (now->by_id[i]->id != old->id && same_path(now->by_id[i], old)) return true;
    }
    return false;
}

/* Rows fit a later schema when every column that it declares not null was not null before and is in the new files, and when no column that
 * the files hold was replaced by another of the same path (a cast). */
bool fragments_still_fit(const struct fragment_message *f, size_t n, const struct schema *then, const struct schema *now)
{
    for (size_t i = 0; i < now->n_all && n > 0; i++) {
        const struct field *field = now->by_id[i], *old = schema_find_id(then, field->id);
        if (field->nullable) continue;
        if (old == NULL || old->nullable) return false;
        bool top = field_owns_column(field, STORAGE_2_1) && field->parent == NULL;
        for (size_t k = 0; top && k < n; k++) {
            if (!fragment_has(&f[k], field->id)) return false;
        }
    }
    for (size_t i = 0; i < then->n_all; i++) {
        const struct field *old = then->by_id[i];
        if (schema_find_id(now, old->id) != NULL) continue;
        bool used = false;
        for (size_t k = 0; k < n && !used; k++) used = fragment_has(&f[k], old->id);
        if (used && was_replaced(old, now)) return false;
    }
    return true;
}

static pennon_status check_append_fits(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct append_message *a = &p->mine->op.append;
    UNUSED(err);
    if (!fragments_still_fit(a->fragments, a->n_fragments, p->r->read->schema, p->after->schema)) *out = RETRY;
    return PENNON_OK;
}

static pennon_status check_update_fits(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct update_message *u = &p->mine->op.update;
    UNUSED(err);
    if (!fragments_still_fit(u->new_fragments, u->n_new_fragments, p->r->read->schema, p->after->schema)) *out = RETRY;
    return PENNON_OK;
}

/* The columns that I replace must be there, with the same promise about nulls. */
static pennon_status check_replacement_fits(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct data_replacement_message *d = &p->mine->op.replacement;
    UNUSED(err);
    for (size_t i = 0; i < d->n_replacements; i++) {
        const struct data_file_message *f = d->replacements[i].new_file;
        for (size_t k = 0; k < f->n_fields; k++) {
            const struct field *now = schema_find_id(p->after->schema, f->fields[k]);
            const struct field *then = schema_find_id(p->r->read->schema, f->fields[k]);
            if (now == NULL || then == NULL || (!now->nullable && then->nullable)) *out = RETRY;
        }
    }
    return PENNON_OK;
}

/* Rows came in that were not looked at when I promised that a column has no nulls. */
static pennon_status check_project_promise(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct project_message *m = &p->mine->op.project;
    UNUSED(err);
    for (size_t i = 0; i < m->n_schema; i++) {
        const struct field *then = schema_find_id(p->r->read->schema, m->schema[i].id);
        if (!m->schema[i].nullable && (then == NULL || then->nullable)) *out = RETRY;
    }
    return PENNON_OK;
}

/* ---- keys of the maps ---- */

/* What an operation does to the config. */
struct keys {
    const struct map_entry *set; /* Overwrite */
    size_t n_set;
    const struct update_map_message *map; /* UpdateConfig; NULL = nothing */
};

static struct keys keys_of(const struct transaction *t)
{
    if (t->which == OPERATION_OVERWRITE) {
        return (struct keys){.set = t->op.overwrite.config_upsert_values, .n_set = t->op.overwrite.n_config_upsert_values};
    }
    return (struct keys){.map = t->op.config.config_updates};
}

static bool touches_any(const struct keys *k)
{
    return k->n_set > 0 || (k->map != NULL && (k->map->replace || k->map->n_entries > 0));
}

/* Is `key` set, or set or deleted when `also_deleted`? */
static bool touches_key(const struct keys *k, struct bytes key, bool also_deleted)
{
    for (size_t i = 0; i < k->n_set; i++) {
        if (bytes_equal(k->set[i].key, key)) return true;
    }
    for (size_t i = 0; k->map != NULL && i < k->map->n_entries; i++) {
        if ((also_deleted || k->map->entries[i].has_value) && bytes_equal(k->map->entries[i].key, key)) return true;
    }
    return false;
}

/* A key that `a` sets is set or deleted by `b`. */
static bool sets_meet(const struct keys *a, const struct keys *b)
{
    for (size_t i = 0; i < a->n_set; i++) {
        if (touches_key(b, a->set[i].key, true)) return true;
    }
    for (size_t i = 0; a->map != NULL && i < a->map->n_entries; i++) {
        if (a->map->entries[i].has_value && touches_key(b, a->map->entries[i].key, true)) return true;
    }
    return false;
}

static bool config_meets(const struct transaction *x, const struct transaction *y)
{
    const struct keys a = keys_of(x), b = keys_of(y);
    bool replaces = (a.map != NULL && a.map->replace) || (b.map != NULL && b.map->replace);
    if (replaces) return touches_any(&a) && touches_any(&b);
    return sets_meet(&a, &b) || sets_meet(&b, &a);
}

static pennon_status check_overwrites(struct pair *p, enum verdict *out, pennon_error *err)
{
    UNUSED(err);
    *out = config_meets(p->mine, p->theirs) ? NEVER : RETRY;
    return PENNON_OK;
}

static pennon_status check_config_keys(struct pair *p, enum verdict *out, pennon_error *err)
{
    UNUSED(err);
    if (config_meets(p->mine, p->theirs)) *out = NEVER;
    return PENNON_OK;
}

/* The metadata of the schema and of fields go with the schema that was overwritten. */
static pennon_status check_config_overwrite(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct update_config_message *c = &p->mine->op.config;
    if (c->schema_metadata_updates != NULL || c->n_field_metadata_updates > 0) *out = NEVER;
    return *out == FINE ? check_config_keys(p, out, err) : PENNON_OK;
}

/* The schema that I bring would take back what they wrote into its fields. */
static pennon_status check_field_metadata(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct update_config_message *c = &p->theirs->op.config;
    const bool all = p->mine->which == OPERATION_MERGE && p->mine->op.merge.n_schema_metadata > 0;
    UNUSED(err);
    if (c->n_field_metadata_updates > 0 || (all && c->schema_metadata_updates != NULL)) *out = RETRY;
    return PENNON_OK;
}

static bool table_metadata_meets(const struct update_map_message *a, const struct update_map_message *b)
{
    if (a == NULL || b == NULL) return false;
    if (a->replace || b->replace) return true;
    const struct keys theirs = {.map = b};
    for (size_t i = 0; i < a->n_entries; i++) {
        if (touches_key(&theirs, a->entries[i].key, true)) return true;
    }
    return false;
}

static pennon_status check_configs(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct update_config_message *a = &p->mine->op.config, *b = &p->theirs->op.config;
    if (table_metadata_meets(a->table_metadata_updates, b->table_metadata_updates)) *out = NEVER;
    if (a->schema_metadata_updates != NULL && b->schema_metadata_updates != NULL) *out = NEVER;
    for (size_t i = 0; i < a->n_field_metadata_updates; i++) {
        for (size_t k = 0; k < b->n_field_metadata_updates; k++) {
            if (a->field_metadata_updates[i].key == b->field_metadata_updates[k].key) *out = NEVER;
        }
    }
    return *out == FINE ? check_config_keys(p, out, err) : PENNON_OK;
}

/* ---- indices ---- */

const struct index_metadata_message *index_find(const struct index_metadata_message *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes_equal(list[i].name, bytes_str(name))) return &list[i];
    }
    return NULL;
}

static const struct index_metadata_message *created(const struct transaction *t, const char *name)
{
    return index_find(t->op.create_index.new_indices, t->op.create_index.n_new_indices, name);
}

static pennon_status check_index_names(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct create_index_message *a = &p->mine->op.create_index, *b = &p->theirs->op.create_index;
    UNUSED(err);
    /* Names of the system are names like any other here: there is one entry of each. */
    for (size_t i = 0; i < a->n_new_indices; i++) {
        for (size_t k = 0; k < b->n_new_indices; k++) {
            if (bytes_equal(a->new_indices[i].name, b->new_indices[k].name)) *out = RETRY;
        }
    }
    return PENNON_OK;
}

/* Does the bitmap of an index hold any of the fragments, all of them? An index without a bitmap is `unknown`. */
struct coverage {
    bool unknown, any, all;
};

static pennon_status cover(struct mem *m, const struct index_metadata_message *index, const struct fragment_message *f, size_t n,
                           struct coverage *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct id_set set;
    id_set_init(&set, m);
    *out = (struct coverage){.unknown = index->fragment_bitmap.size == 0, .all = true};
    if (out->unknown) goto done;
    TRY(id_set_parse(&set, index->fragment_bitmap, err));
    for (size_t i = 0; i < n; i++) {
        bool inside = f[i].id <= UINT32_MAX && id_set_contains(&set, (uint32_t)f[i].id);
        out->any = out->any || inside;
        out->all = out->all && inside;
    }
done:
    id_set_free(&set);
    return st;
}

/* Indices whose fragments are rewritten. With `whole` it is enough that each group lies inside or outside as a whole. */
static pennon_status check_covered(struct pair *p, const struct create_index_message *c, const struct rewrite_message *w,
                                   bool whole, enum verdict *out, pennon_error *err)
{
    for (size_t i = 0; i < c->n_new_indices; i++) {
        if (c->new_indices[i].fragment_bitmap.size == 0) *out = RETRY;
        for (size_t g = 0; g < w->n_groups && *out == FINE; g++) {
            struct coverage cov;
            TRY_RETURN(
                cover(p->r->call->mem, &c->new_indices[i], w->groups[g].old_fragments, w->groups[g].n_old_fragments, &cov, err));
            if (whole ? cov.any && !cov.all : cov.any) *out = RETRY;
        }
    }
    return PENNON_OK;
}

/* The entry of the reuse index that a version brought with it. Official's bytes do not say so; the list of indices does. NULL = none. `m` is decoded
 * in the scratch arena. */
static pennon_status new_reuse_entry(struct pair *p, struct index_section_message *m, const struct index_metadata_message **out,
                                     pennon_error *err)
{
    struct index_section_message old;
    struct bytes in;
    *out = NULL;
    TRY_RETURN(snapshot_section(p->r->call, p->after, SECTION_INDICES, &in, err));
    if (in.size == 0) return PENNON_OK;
    TRY_RETURN(wire_decode(&index_section_table, in, &p->r->scratch, m, err));
    const struct index_metadata_message *now = index_find(m->indices, m->n_indices, REUSE_INDEX);
    if (now == NULL || now->uuid == NULL || now->index_details == NULL) return PENNON_OK;
    TRY_RETURN(snapshot_section(p->r->call, p->before, SECTION_INDICES, &in, err));
    if (in.size > 0) {
        TRY_RETURN(wire_decode(&index_section_table, in, &p->r->scratch, &old, err));
        const struct index_metadata_message *then = index_find(old.indices, old.n_indices, REUSE_INDEX);
        if (then != NULL && then->uuid != NULL && bytes_equal(then->uuid->uuid, now->uuid->uuid)) return PENNON_OK;
    }
    *out = now;
    return PENNON_OK;
}

/* Keeps the content of a reuse entry of theirs for later. */
static pennon_status note_reuse(struct pair *p, const struct index_metadata_message *entry, pennon_error *err)
{
    struct rebase *r = p->r;
    struct reuse_content_message content;
    TRY_RETURN(reuse_content_load(r->call, p->after, entry, &r->scratch, &content, err));
    TRY_RETURN(mem_grow(r->call->mem, &r->reuse, &r->cap_reuse, r->n_reuse, sizeof *r->reuse, 1 << 20, err));
    r->reuse[r->n_reuse++] = content;
    return PENNON_OK;
}

static pennon_status check_index_rewrite(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct create_index_message *mine = &p->mine->op.create_index;
    const struct index_metadata_message *reuse;
    struct index_section_message section;
    TRY_RETURN(new_reuse_entry(p, &section, &reuse, err));
    if (reuse == NULL) return check_covered(p, mine, &p->theirs->op.rewrite, false, out, err);
    if (created(p->mine, REUSE_INDEX) == NULL) return PENNON_OK; /* they said how the addresses move */
    if (mine->n_new_indices == 1 && mine->n_removed_indices == 1) return note_reuse(p, reuse, err);
    *out = NEVER;
    return PENNON_OK;
}

static pennon_status check_rewrite_index(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct create_index_message *theirs = &p->theirs->op.create_index;
    const struct index_metadata_message *reuse = created(p->theirs, REUSE_INDEX);
    if (reuse == NULL) return check_covered(p, theirs, &p->mine->op.rewrite, p->mine->reuse_index != NULL, out, err);
    if (theirs->n_new_indices != 1 || theirs->n_removed_indices != 1) {
        *out = NEVER;
        return PENNON_OK;
    }
    return p->mine->reuse_index != NULL ? note_reuse(p, reuse, err) : PENNON_OK;
}

static pennon_status check_rewrites(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct index_metadata_message *reuse = NULL;
    struct index_section_message section;
    TRY_RETURN(check_shared(p, out, err));
    if (p->mine->reuse_index != NULL) TRY_RETURN(new_reuse_entry(p, &section, &reuse, err));
    if (reuse != NULL) *out = RETRY;
    return PENNON_OK;
}

/* The place of the file that holds a field: the last one that lists it. */
static const struct data_file_message *serving(const struct fragment_message *f, int32_t id)
{
    for (size_t i = f->n_files; i > 0; i--) {
        if (file_has(&f->files[i - 1], id)) return &f->files[i - 1];
    }
    return NULL;
}

static bool is_below(const struct field *f, int32_t id)
{
    for (; f != NULL; f = f->parent) {
        if (f->id == id) return true;
    }
    return false;
}

bool field_moved(const struct schema *s, int32_t id, const struct fragment_message *before, const struct fragment_message *after)
{
    for (size_t i = 0; i < s->n_all; i++) {
        if (!is_below(s->by_id[i], id)) continue;
        const struct data_file_message *a = serving(before, s->by_id[i]->id), *b = serving(after, s->by_id[i]->id);
        if (a == NULL && b == NULL) continue;
        if (a == NULL || b == NULL || !bytes_equal(a->path, b->path) || a->has_base_id != b->has_base_id ||
            a->base_id != b->base_id)
            return true;
    }
    return false;
}

/* Takes one fragment out of the bitmap of my index number `i`. */
static pennon_status give_up(struct rebase *r, size_t i, uint32_t id, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *t;
    struct id_set set;
    id_set_init(&set, r->call->mem);
    TRY(rebase_writable(r, &t, err));
    struct index_metadata_message *index = &t->op.create_index.new_indices[i];
    TRY(id_set_parse(&set, index->fragment_bitmap, err));
    if (!id_set_contains(&set, id)) goto done;
    TRY(id_set_remove(&set, id, err));
    TRY(index_set_bitmap(&t->arena, &set, index, err));
done:
    id_set_free(&set);
    return st;
}

/* Was a column of the index rewritten in a fragment? `u` NULL or the Update that says which fields it changed. */
static bool rewritten(const struct pair *p, const struct index_metadata_message *index, const struct update_message *u,
                      const struct fragment_message *before, const struct fragment_message *after)
{
    for (size_t k = 0; k < index->n_fields; k++) {
        if (field_moved(p->after->schema, index->fields[k], before, after)) return true;
        for (size_t i = 0; u != NULL && i < u->n_fields_modified; i++) {
            if (u->fields_modified[i] == (uint32_t)index->fields[k]) return true;
        }
    }
    return false;
}

static pennon_status check_index_schema(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct create_index_message *c = &p->mine->op.create_index;
    UNUSED(err);
    for (size_t i = 0; i < c->n_new_indices; i++) {
        for (size_t k = 0; k < c->new_indices[i].n_fields; k++) {
            if (schema_find_id(p->after->schema, c->new_indices[i].fields[k]) == NULL) *out = RETRY;
        }
    }
    return PENNON_OK;
}

/* Columns that were rewritten in place while the index was built: it covers old values there. */
static pennon_status check_index_columns(struct pair *p, enum verdict *out, pennon_error *err)
{
    const bool update = p->theirs->which == OPERATION_UPDATE;
    const struct update_message *u = update ? &p->theirs->op.update : NULL;
    const struct fragment_message *list = update ? u->updated_fragments : p->theirs->op.merge.fragments;
    const size_t n = update ? u->n_updated_fragments : p->theirs->op.merge.n_fragments;
    TRY_RETURN(check_index_schema(p, out, err));
    for (size_t f = 0; f < n && *out == FINE; f++) {
        const struct fragment *before = snapshot_find_fragment(p->before, list[f].id);
        const struct fragment *after = snapshot_find_fragment(p->after, list[f].id);
        if (before == NULL || after == NULL) continue;
        TRY_RETURN(fragment_load(p->before, before, err));
        TRY_RETURN(fragment_load(p->after, after, err));
        for (size_t i = 0; i < p->r->t->op.create_index.n_new_indices; i++) {
            const struct index_metadata_message *index = &p->r->t->op.create_index.new_indices[i];
            if (!rewritten(p, index, u, before->message, after->message)) continue;
            if (index->fragment_bitmap.size == 0) {
                *out = RETRY;
            } else {
                TRY_RETURN(give_up(p->r, i, before->id, err));
            }
        }
    }
    return PENNON_OK;
}

static bool replaces_indexed(const struct data_replacement_message *d, const struct create_index_message *c)
{
    for (size_t i = 0; i < d->n_replacements; i++) {
        for (size_t k = 0; k < c->n_new_indices; k++) {
            for (size_t f = 0; f < c->new_indices[k].n_fields; f++) {
                const struct data_file_message *file = d->replacements[i].new_file;
                if (file != NULL && file_has(file, c->new_indices[k].fields[f])) return true;
            }
        }
    }
    return false;
}

static pennon_status check_index_replacement(struct pair *p, enum verdict *out, pennon_error *err)
{
    UNUSED(err);
    if (replaces_indexed(&p->theirs->op.replacement, &p->mine->op.create_index)) *out = RETRY;
    return PENNON_OK;
}

static pennon_status check_replacement_index(struct pair *p, enum verdict *out, pennon_error *err)
{
    UNUSED(err);
    if (replaces_indexed(&p->mine->op.replacement, &p->theirs->op.create_index)) *out = RETRY;
    return PENNON_OK;
}

/* ---- data replacement ---- */

static bool replaces_field(const struct replacement_message *r, const uint32_t *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (fields[i] <= INT32_MAX && file_has(r->new_file, (int32_t)fields[i])) return true;
    }
    return false;
}

/* One fragment that I replace columns of, over a Delete or an Update. */
static enum verdict replace_over(const struct pair *p, const struct replacement_message *mine)
{
    const struct row_change theirs = row_change_of(p->theirs);
    const struct update_message *u = p->theirs->which == OPERATION_UPDATE ? &p->theirs->op.update : NULL;
    for (size_t i = 0; i < theirs.n_removed; i++) {
        if (theirs.removed[i] == mine->fragment_id) return NEVER;
    }
    const struct fragment_message *f = find_message(theirs.updated, theirs.n_updated, mine->fragment_id);
    if (f == NULL || u == NULL) return FINE;
    /* Rows that were moved took old values of the column with them. */
    if (u->update_mode != UPDATE_REWRITE_COLUMNS && u->n_new_fragments > 0) return RETRY;
    return replaces_field(mine, u->fields_modified, u->n_fields_modified) ? RETRY : FINE;
}

static pennon_status check_replacement_rows(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct data_replacement_message *d = &p->mine->op.replacement;
    UNUSED(err);
    for (size_t i = 0; i < d->n_replacements; i++) {
        enum verdict v = replace_over(p, &d->replacements[i]);
        if (v > *out) *out = v;
    }
    return PENNON_OK;
}

static pennon_status check_replacements(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct data_replacement_message *a = &p->mine->op.replacement, *b = &p->theirs->op.replacement;
    UNUSED(err);
    for (size_t i = 0; i < a->n_replacements; i++) {
        for (size_t k = 0; k < b->n_replacements; k++) {
            const struct data_file_message *x = a->replacements[i].new_file, *y = b->replacements[k].new_file;
            if (a->replacements[i].fragment_id != b->replacements[k].fragment_id || y == NULL) continue;
            for (size_t f = 0; f < x->n_fields; f++) {
                if (file_has(y, x->fields[f])) *out = RETRY;
            }
        }
    }
    return PENNON_OK;
}

/* ---- generations of MemWAL ---- */

struct generations {
    const struct merged_generation_message *list;
    size_t n;
};

static struct generations generations_of(const struct transaction *t)
{
    if (t->which == OPERATION_UPDATE)
        return (struct generations){t->op.update.merged_generations, t->op.update.n_merged_generations};
    ASSERT(t->which == OPERATION_UPDATE_MEM_WAL_STATE);
    return (struct generations){t->op.mem_wal.merged_generations, t->op.mem_wal.n_merged_generations};
}

/* A shard of both: theirs is as far as mine or further, then mine is there already; else mine goes on after theirs. */
static enum verdict compare_generations(struct generations mine, struct generations theirs)
{
    enum verdict v = FINE;
    for (size_t i = 0; i < mine.n; i++) {
        for (size_t k = 0; k < theirs.n; k++) {
            const struct uuid_message *a = mine.list[i].shard_id, *b = theirs.list[k].shard_id;
            if (a == NULL || b == NULL || !bytes_equal(a->uuid, b->uuid)) continue;
            enum verdict one = theirs.list[k].generation >= mine.list[i].generation ? NEVER : RETRY;
            if (one > v) v = one;
        }
    }
    return v;
}

static pennon_status check_generations(struct pair *p, enum verdict *out, pennon_error *err)
{
    UNUSED(err);
    *out = compare_generations(generations_of(p->mine), generations_of(p->theirs));
    return PENNON_OK;
}

static pennon_status check_wal_index(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct index_metadata_message *index = created(p->theirs, MEM_WAL_INDEX);
    struct mem_wal_details_message details;
    if (index == NULL || index->index_details == NULL) return PENNON_OK;
    TRY_RETURN(wire_decode(&mem_wal_details_table, index->index_details->value, &p->r->scratch, &details, err));
    *out = compare_generations(generations_of(p->mine),
                               (struct generations){details.merged_generations, details.n_merged_generations});
    return PENNON_OK;
}

/* Creating the index of MemWAL over its first states: they go into it. */
static pennon_status check_index_wal(struct pair *p, enum verdict *out, pennon_error *err)
{
    struct rebase *r = p->r;
    const struct generations theirs = generations_of(p->theirs);
    if (created(p->mine, MEM_WAL_INDEX) == NULL) {
        *out = NEVER;
        return PENNON_OK;
    }
    for (size_t i = 0; i < theirs.n; i++) {
        struct bytes shard = theirs.list[i].shard_id != NULL ? theirs.list[i].shard_id->uuid : bytes_of(NULL, 0);
        struct uuid_message *id = arena_calloc(&r->scratch, 1, sizeof *id, err);
        uint8_t *copy = arena_alloc(&r->scratch, shard.size, err);
        if (id == NULL || copy == NULL) return err->code;
        if (shard.size > 0) memcpy(copy, shard.data, shard.size);
        id->uuid = bytes_of(copy, shard.size);
        TRY_RETURN(
            mem_grow(r->call->mem, &r->generations, &r->cap_generations, r->n_generations, sizeof *r->generations, 1 << 24, err));
        r->generations[r->n_generations++] =
            (struct merged_generation_message){.shard_id = id, .generation = theirs.list[i].generation};
    }
    return PENNON_OK;
}

/* ---- base paths ---- */

static pennon_status check_bases(struct pair *p, enum verdict *out, pennon_error *err)
{
    const struct update_bases_message *a = &p->mine->op.bases, *b = &p->theirs->op.bases;
    UNUSED(err);
    for (size_t i = 0; i < a->n_new_bases; i++) {
        for (size_t k = 0; k < b->n_new_bases; k++) {
            const struct base_path_message *x = &a->new_bases[i], *y = &b->new_bases[k];
            if ((x->id != 0 && x->id == y->id) || bytes_equal(x->path, y->path) ||
                (x->has_name && y->has_name && bytes_equal(x->name, y->name)))
                *out = NEVER;
        }
    }
    return PENNON_OK;
}

/* ---- the table ---- */

struct rule {
    enum verdict verdict;
    check_fn check; /* NULL = the verdict stands */
};

#define OPERATIONS_KNOWN 15u
#define OK         \
    {              \
        FINE, NULL \
    }
#define RT          \
    {               \
        RETRY, NULL \
    }
#define NO          \
    {               \
        NEVER, NULL \
    }
#define IF(fn)   \
    {            \
        FINE, fn \
    }

/* clang-format off */
/* mine by theirs, both in the order of their tags:
 * Append, Delete, Overwrite, CreateIndex, Rewrite, Merge, Restore, ReserveFragments, Update, Project, UpdateConfig, DataReplacement, UpdateMemWalState, Clone,
 * UpdateBases */
static const struct rule RULES[OPERATIONS_KNOWN][OPERATIONS_KNOWN] = {
    /* Append */ {OK, OK, NO, OK, OK, IF(check_append_fits), NO, OK, OK, IF(check_append_fits), OK, OK, NO, OK, OK},
    /* Delete */ {OK, IF(check_rows), NO, OK, IF(check_shared), RT, NO, OK, IF(check_rows), OK, OK, IF(check_shared), NO, OK, OK},
    /* Overwrite */ {OK, OK, IF(check_overwrites), OK, OK, OK, OK, OK, OK, OK, IF(check_config_keys), OK, NO, OK, OK},
    /* CreateIndex */ {OK, OK, NO, IF(check_index_names), IF(check_index_rewrite), IF(check_index_columns), NO, OK, IF(check_index_columns),
                       IF(check_index_schema), OK, IF(check_index_replacement), IF(check_index_wal), OK, OK},
    /* Rewrite */ {OK, IF(check_shared), NO, IF(check_rewrite_index), IF(check_rewrites), RT, NO, OK, IF(check_shared), OK, OK, IF(check_shared), OK,
                   OK, OK},
    /* Merge */ {RT, RT, NO, OK, RT, RT, NO, OK, RT, NO, IF(check_field_metadata), RT, NO, OK, OK},
    /* Restore */ {OK, OK, OK, OK, OK, OK, OK, OK, OK, OK, OK, OK, NO, OK, OK},
    /* ReserveFragments */ {OK, OK, NO, OK, OK, OK, NO, OK, OK, OK, OK, OK, OK, OK, OK},
    /* Update */ {IF(check_inserts), IF(check_rows), NO, OK, IF(check_shared), RT, NO, OK, IF(check_update_update), IF(check_update_fits), OK,
                  IF(check_shared), IF(check_generations), OK, OK},
    /* Project */ {IF(check_project_promise), OK, NO, OK, OK, RT, NO, OK, IF(check_project_promise), RT, IF(check_field_metadata),
                   IF(check_project_promise), NO, OK, OK},
    /* UpdateConfig */ {OK, OK, IF(check_config_overwrite), OK, OK, OK, OK, OK, OK, OK, IF(check_configs), OK, OK, OK, OK},
    /* DataReplacement */ {OK, IF(check_replacement_rows), NO, IF(check_replacement_index), IF(check_shared), RT, NO, OK, IF(check_replacement_rows),
                           IF(check_replacement_fits), OK, IF(check_replacements), NO, OK, OK},
    /* UpdateMemWalState */ {NO, NO, NO, IF(check_wal_index), OK, NO, NO, OK, IF(check_generations), NO, OK, NO, IF(check_generations), NO, OK},
    /* Clone */ {OK, OK, OK, OK, OK, OK, OK, OK, OK, OK, OK, OK, OK, OK, OK},
    /* UpdateBases */ {OK, OK, OK, OK, OK, OK, OK, OK, OK, OK, OK, OK, OK, OK, IF(check_bases)},
};
/* clang-format on */

/* ---- the check ---- */

pennon_status conflict_retryable(const struct transaction *mine, uint32_t theirs, uint64_t version, pennon_error *err)
{
    (void)error_set(err, PENNON_CONFLICT,
                    "Retryable commit conflict for version %" PRIu64
                    ": This %s transaction was preempted by concurrent transaction %s at version %" PRIu64 ". Please retry.",
                    version, operation_name(mine->which), operation_name(theirs), version);
    err->version = version;
    return error_kind(err, "RetryableCommitConflict");
}

static pennon_status incompatible(const struct transaction *mine, uint32_t theirs, uint64_t version, pennon_error *err)
{
    (void)error_set(
        err, PENNON_CONFLICT_FINAL,
        "Incompatible transaction: This %s transaction is incompatible with concurrent transaction %s at version %" PRIu64 ".",
        operation_name(mine->which), operation_name(theirs), version);
    err->version = version;
    return error_kind(err, "IncompatibleTransaction");
}

pennon_status conflict_check(struct rebase *r, struct snapshot *before, struct snapshot *after, const struct transaction *theirs,
                             pennon_error *err)
{
    enum verdict verdict = RETRY;
    const uint32_t which = theirs != NULL ? theirs->which : 0;
    ASSERT(r->read != NULL && operation_table(r->t->which) != NULL);
    if (operation_table(which) != NULL) {
        struct pair p = {.r = r, .mine = r->t, .theirs = theirs, .before = before, .after = after};
        const struct rule *rule = &RULES[r->t->which - OPERATION_APPEND][which - OPERATION_APPEND];
        verdict = rule->verdict;
        if (rule->check != NULL) TRY_RETURN(rule->check(&p, &verdict, err));
    }
    if (verdict == RETRY) return conflict_retryable(r->t, which, after->version, err);
    return verdict == NEVER ? incompatible(r->t, which, after->version, err) : PENNON_OK;
}
