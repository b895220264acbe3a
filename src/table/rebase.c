/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What a transaction becomes on top of versions that were committed since it was made.
 *
 * operation      | what changes                                                                              | files written
 * ---------------|-------------------------------------------------------------------------------------------|-----------------------------
 * Delete, Update | deleted rows of both sides in one deletion file; a fragment without rows is removed;       | _deletions/{f}-{newest}-{id}
 *                | read_version is the newest version                                                        |
 * CreateIndex    | the reuse index gets the newest step of each rewrite in between, MemWAL their generations; | _indices/{uuid}/details.binpb
 *                | entries of one of these names that are there now are removed                               | when larger than 204800 bytes
 * Rewrite        | steps of its reuse index that were trimmed meanwhile go away                               | same
 * others         | nothing                                                                                   |
 *
 * Rows that both sides deleted: the row that I changed is not there any more, so the verb has to look again: CONFLICT.
 * The caller's transaction is never changed: the first change makes a copy. The uuid stays.
 * Source: spec commits 4.3, 9.5. */
#include <stdlib.h>

#include "table/commit_private.h"
#include "table/reuse_index.h"

#define ADDRESSES_NAMED 5u

/* ---- fragment ids ---- */

bool id_list_has(const struct id_list *l, uint64_t id)
{
    size_t low = 0, high = l->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (l->ids[mid] < id) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < l->n && l->ids[low] == id;
}

static int compare_u64(const void *x, const void *y)
{
    const uint64_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

pennon_status id_list_add(struct mem *m, struct id_list *l, uint64_t id, pennon_error *err)
{
    TRY_RETURN(mem_grow(m, &l->ids, &l->cap, l->n, sizeof *l->ids, SIZE_MAX / sizeof *l->ids, err));
    l->ids[l->n++] = id;
    return PENNON_OK;
}

void id_list_sort(struct id_list *l)
{
    size_t kept = 0;
    if (l->n > 0) qsort(l->ids, l->n, sizeof *l->ids, compare_u64);
    for (size_t i = 0; i < l->n; i++) {
        if (kept == 0 || l->ids[i] != l->ids[kept - 1]) l->ids[kept++] = l->ids[i];
    }
    l->n = kept;
}

static pennon_status note_ids(struct mem *m, struct id_list *l, const uint64_t *ids, size_t n, pennon_error *err)
{
    for (size_t i = 0; i < n; i++) TRY_RETURN(id_list_add(m, l, ids[i], err));
    return PENNON_OK;
}

pennon_status id_list_fill(struct mem *m, const uint64_t *ids, size_t n, struct id_list *out, pennon_error *err)
{
    TRY_RETURN(note_ids(m, out, ids, n, err));
    id_list_sort(out);
    return PENNON_OK;
}

static pennon_status note_fragments(struct mem *m, struct id_list *l, const struct fragment_message *f, size_t n, pennon_error *err)
{
    for (size_t i = 0; i < n; i++) TRY_RETURN(id_list_add(m, l, f[i].id, err));
    return PENNON_OK;
}

pennon_status touched_fragments(struct mem *m, const struct transaction *t, struct id_list *out, pennon_error *err)
{
    const struct rewrite_message *w = &t->op.rewrite;
    switch (t->which) {
    case OPERATION_DELETE:
        TRY_RETURN(note_fragments(m, out, t->op.remove.updated_fragments, t->op.remove.n_updated_fragments, err));
        TRY_RETURN(note_ids(m, out, t->op.remove.deleted_fragment_ids, t->op.remove.n_deleted_fragment_ids, err));
        break;
    case OPERATION_UPDATE:
        TRY_RETURN(note_fragments(m, out, t->op.update.updated_fragments, t->op.update.n_updated_fragments, err));
        TRY_RETURN(note_ids(m, out, t->op.update.removed_fragment_ids, t->op.update.n_removed_fragment_ids, err));
        break;
    case OPERATION_REWRITE:
        for (size_t i = 0; i < w->n_groups; i++)
            TRY_RETURN(note_fragments(m, out, w->groups[i].old_fragments, w->groups[i].n_old_fragments, err));
        break;
    case OPERATION_DATA_REPLACEMENT:
        for (size_t i = 0; i < t->op.replacement.n_replacements; i++)
            TRY_RETURN(id_list_add(m, out, t->op.replacement.replacements[i].fragment_id, err));
        break;
    default: break;
    }
    id_list_sort(out);
    return PENNON_OK;
}

/* ---- life ---- */

pennon_status rebase_begin(struct rebase *r, const struct call *c, const struct transaction_options *o, struct snapshot *read,
                           const struct transaction *t, pennon_error *err)
{
    *r = (struct rebase){.call = c, .options = o, .read = read, .t = t};
    arena_init(&r->scratch, c->mem);
    return touched_fragments(c->mem, t, &r->touched, err);
}

void rebase_end(struct rebase *r)
{
    if (r->call == NULL) return;
    struct mem *m = r->call->mem;
    for (size_t i = 0; i < r->n_written; i++) mem_free(m, r->written[i]);
    mem_free(m, r->written);
    mem_free(m, r->touched.ids);
    mem_free(m, r->merge.ids);
    mem_free(m, r->reuse);
    mem_free(m, r->generations);
    transaction_free(r->copy);
    arena_reset(&r->scratch);
    *r = (struct rebase){0};
}

pennon_status rebase_writable(struct rebase *r, struct transaction **out, pennon_error *err)
{
    if (r->copy == NULL) TRY_RETURN(transaction_copy(r->t, &r->copy, err));
    r->t = *out = r->copy;
    return PENNON_OK;
}

void rebase_remove_files(struct rebase *r)
{
    pennon_error ignored;
    struct call quiet = *r->call;
    quiet.cancel = NULL;
    quiet.deadline_ns = INT64_MAX;
    pennon_error_init(&ignored);
    /* What stays is not referred to, and cleanup finds it. */
    for (size_t i = 0; i < r->n_written; i++) {
        if (store_delete(&quiet, r->read->at.store, r->written[i], &ignored) != PENNON_OK) pennon_error_clear(&ignored);
        mem_free(r->call->mem, r->written[i]);
    }
    r->n_written = 0;
    pennon_error_clear(&ignored);
}

/* Takes `path`, also on failure. */
static pennon_status note_written(struct rebase *r, char *path, pennon_error *err)
{
    if (path == NULL) return PENNON_OK;
    pennon_status st = mem_grow(r->call->mem, &r->written, &r->cap_written, r->n_written, sizeof *r->written, 1 << 24, err);
    if (st == PENNON_OK) {
        r->written[r->n_written++] = path;
    } else {
        mem_free(r->call->mem, path);
    }
    return st;
}

/* ---- deletions ---- */

/* The lists of a Delete or an Update, which may change. */
struct row_lists {
    struct fragment_message **updated;
    size_t *n_updated;
    uint64_t **removed;
    size_t *n_removed;
};

static struct row_lists row_lists_of(struct transaction *t)
{
    struct delete_message *d = &t->op.remove;
    struct update_message *u = &t->op.update;
    if (t->which == OPERATION_DELETE)
        return (struct row_lists){&d->updated_fragments, &d->n_updated_fragments, &d->deleted_fragment_ids,
                                  &d->n_deleted_fragment_ids};
    ASSERT(t->which == OPERATION_UPDATE);
    return (struct row_lists){&u->updated_fragments, &u->n_updated_fragments, &u->removed_fragment_ids, &u->n_removed_fragment_ids};
}

/* The rows of a fragment among the affected ones: [*first, *end) of the list. */
static void affected_part(const struct transaction_options *o, uint64_t fragment, size_t *first, size_t *end)
{
    size_t low = 0, high = o->n_affected_rows;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (o->affected_rows[mid] >> 32 < fragment) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    *first = low;
    for (; low < o->n_affected_rows && o->affected_rows[low] >> 32 == fragment;) low++;
    *end = low;
}

static pennon_status rows_in_common(const struct rebase *r, const uint64_t *addresses, size_t n, uint64_t version,
                                    pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    buf_init(&text, r->call->mem, 4096);
    for (size_t i = 0; i < n && i < ADDRESSES_NAMED; i++) {
        TRY(buf_printf(&text, err, "%s%" PRIu64 ":%" PRIu64, i > 0 ? ", " : "", addresses[i] >> 32, addresses[i] & UINT32_MAX));
    }
    TRY(buf_terminate(&text, err));
    (void)error_set(err, PENNON_CONFLICT,
                    "Retryable commit conflict for version %" PRIu64
                    ": This %s transaction was preempted by concurrent transactions that changed the same rows (%zu of them: "
                    "%s%s). Please retry.",
                    version, operation_name(r->t->which), n, (const char *)text.data, n > ADDRESSES_NAMED ? ", …" : "");
    err->version = version;
    st = error_kind(err, "RetryableCommitConflict");
done:
    buf_free(&text);
    return st;
}

/* The rows that are deleted now and the affected ones, in one set. CONFLICT when a row is in both. */
static pennon_status merge_rows(struct rebase *r, struct snapshot *newest, const struct fragment *f, struct id_set *rows,
                                pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct deletion_vector *gone = NULL;
    uint64_t *common = NULL;
    size_t first, end, n_common = 0;
    const uint64_t *affected = r->options->affected_rows;
    TRY(fragment_deletions(r->call, newest, f, &gone, err));
    if (gone != NULL) {
        for (uint64_t at = deletion_vector_next(gone, 0); at != UINT64_MAX; at = deletion_vector_next(gone, at + 1))
            TRY(id_set_add(rows, (uint32_t)at, err));
    }
    affected_part(r->options, f->id, &first, &end);
    TRY_NEW(common, mem_calloc(r->call->mem, ADDRESSES_NAMED, sizeof *common, err));
    for (size_t i = first; i < end; i++) {
        uint32_t row = (uint32_t)affected[i];
        if (gone == NULL || !deletion_vector_contains(gone, row)) {
            TRY(id_set_add(rows, row, err));
            continue;
        }
        if (n_common < ADDRESSES_NAMED) common[n_common] = affected[i];
        n_common++;
    }
    if (n_common > 0) st = rows_in_common(r, common, n_common, newest->version, err);
done:
    deletion_vector_release(gone);
    mem_free(r->call->mem, common);
    return st;
}

/* Fragment number `i` of the updated ones has no rows left: it moves to the removed ones. */
static pennon_status move_to_removed(struct transaction *t, size_t i, pennon_error *err)
{
    const struct row_lists l = row_lists_of(t);
    uint64_t *ids = arena_calloc(&t->arena, *l.n_removed + 1, sizeof *ids, err);
    if (ids == NULL) return err->code;
    if (*l.n_removed > 0) memcpy(ids, *l.removed, *l.n_removed * sizeof *ids);
    ids[(*l.n_removed)++] = (*l.updated)[i].id;
    *l.removed = ids;
    memmove(*l.updated + i, *l.updated + i + 1, (*l.n_updated - i - 1) * sizeof **l.updated);
    --*l.n_updated;
    return PENNON_OK;
}

static pennon_status merge_fragment(struct rebase *r, struct snapshot *newest, uint64_t id, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct fragment *f = snapshot_find_fragment(newest, id);
    struct id_set rows;
    struct transaction *t;
    char *path = NULL;
    uint64_t physical;
    size_t at = 0;
    id_set_init(&rows, r->call->mem);
    if (f == NULL) {
        st = conflict_retryable(r->t, OPERATION_DELETE, newest->version, err);
        goto done;
    }
    TRY(merge_rows(r, newest, f, &rows, err));
    if (f->physical_rows == UINT64_MAX && r->options->length == NULL)
        FAIL(PENNON_NOT_SUPPORTED, "fragment %u has no row count, as old writers left it", f->id);
    TRY(fragment_physical_rows(r->call, newest, f, r->options->length, r->options->length_ctx, &physical, err));
    if (rows.n > 0 && rows.ranges[rows.n - 1].last >= physical)
        FAIL(PENNON_INVALID_ARGUMENT, "fragment %u has %" PRIu64 " rows, and row %u is said to be affected", f->id, physical,
             rows.ranges[rows.n - 1].last);
    TRY(rebase_writable(r, &t, err));
    const struct row_lists l = row_lists_of(t);
    while (at < *l.n_updated && (*l.updated)[at].id != id) at++;
    if (at == *l.n_updated) goto done; /* it is removed, with all its rows */
    if (id_set_count(&rows) == physical) {
        st = move_to_removed(t, at, err);
        goto done;
    }
    struct deletion_file_message *made;
    TRY_NEW(made, arena_calloc(&t->arena, 1, sizeof *made, err));
    st = deletion_file_write(r->call, &newest->at, id, newest->version, &rows, made, &path, err);
    if (st == PENNON_OK) (*l.updated)[at].deletion_file = made;
done:
    id_set_free(&rows);
    if (path != NULL) {
        pennon_error local;
        pennon_error_init(&local);
        pennon_status noted = note_written(r, path, &local);
        if (st == PENNON_OK && noted != PENNON_OK) st = error_copy(err, &local);
        pennon_error_clear(&local);
    }
    return st;
}

static pennon_status finish_rows(struct rebase *r, struct snapshot *newest, pennon_error *err)
{
    struct transaction *t;
    for (size_t i = 0; i < r->merge.n; i++) TRY_RETURN(merge_fragment(r, newest, r->merge.ids[i], err));
    if (newest->version == r->read->version) return PENNON_OK;
    TRY_RETURN(rebase_writable(r, &t, err));
    t->read_version = newest->version;
    return PENNON_OK;
}

/* ---- the reuse index ---- */

/* `entry` with new content, on top of `newest`. */
static pennon_status reuse_entry(struct rebase *r, struct transaction *t, struct snapshot *newest,
                                 struct reuse_content_message *content, struct index_metadata_message *entry, pennon_error *err)
{
    char *path = NULL;
    pennon_status st = reuse_entry_make(r->call, newest, content, 0, &t->arena, entry, &path, err);
    const pennon_status noted = note_written(r, path, err);
    return st == PENNON_OK ? noted : st;
}

/* The newest step of each rewrite that came in between, behind mine. */
static pennon_status extend_reuse(struct rebase *r, struct snapshot *newest, pennon_error *err)
{
    struct transaction *t;
    struct reuse_content_message mine;
    TRY_RETURN(rebase_writable(r, &t, err));
    ASSERT(t->op.create_index.n_new_indices == 1);
    struct index_metadata_message *entry = t->op.create_index.new_indices;
    TRY_RETURN(reuse_content_load(r->call, newest, entry, &r->scratch, &mine, err));
    struct reuse_version_message *all = arena_calloc(&r->scratch, mine.n_versions + r->n_reuse, sizeof *all, err);
    if (all == NULL) return err->code;
    if (mine.n_versions > 0) memcpy(all, mine.versions, mine.n_versions * sizeof *all);
    size_t n = mine.n_versions;
    for (size_t i = 0; i < r->n_reuse; i++) {
        const struct reuse_version_message *last = NULL;
        for (size_t v = 0; v < r->reuse[i].n_versions; v++) {
            if (last == NULL || r->reuse[i].versions[v].dataset_version >= last->dataset_version) last = &r->reuse[i].versions[v];
        }
        if (last != NULL) all[n++] = *last;
    }
    mine.versions = all;
    mine.n_versions = n;
    return reuse_entry(r, t, newest, &mine, entry, err);
}

/* Steps of mine that were trimmed meanwhile go away; the newest, which is this rewrite's, always stays. */
static pennon_status trim_reuse(struct rebase *r, struct snapshot *newest, pennon_error *err)
{
    struct transaction *t;
    struct reuse_content_message mine;
    uint64_t least = UINT64_MAX, most = 0;
    size_t kept = 0;
    TRY_RETURN(rebase_writable(r, &t, err));
    TRY_RETURN(reuse_content_load(r->call, newest, r->t->reuse_index, &r->scratch, &mine, err));
    for (size_t v = 0; v < mine.n_versions; v++) {
        least = min_u64(least, mine.versions[v].dataset_version);
        most = max_u64(most, mine.versions[v].dataset_version);
    }
    for (size_t i = 0; i < r->n_reuse; i++) {
        uint64_t theirs = r->reuse[i].n_versions > 0 ? UINT64_MAX : most;
        for (size_t v = 0; v < r->reuse[i].n_versions; v++) theirs = min_u64(theirs, r->reuse[i].versions[v].dataset_version);
        least = max_u64(least, min_u64(theirs, most));
    }
    for (size_t v = 0; v < mine.n_versions; v++) {
        if (mine.versions[v].dataset_version >= least) mine.versions[kept++] = mine.versions[v];
    }
    mine.n_versions = kept;
    struct index_metadata_message *entry = arena_calloc(&t->arena, 1, sizeof *entry, err);
    if (entry == NULL) return err->code;
    *entry = *t->reuse_index;
    TRY_RETURN(reuse_entry(r, t, newest, &mine, entry, err));
    t->reuse_index = entry;
    return PENNON_OK;
}

/* ---- CreateIndex ---- */

static pennon_status merge_wal(struct rebase *r, struct snapshot *newest, pennon_error *err)
{
    struct transaction *t;
    struct index_metadata_message made;
    TRY_RETURN(rebase_writable(r, &t, err));
    for (size_t i = 0; i < t->op.create_index.n_new_indices; i++) {
        struct index_metadata_message *entry = &t->op.create_index.new_indices[i];
        if (!bytes_equal(entry->name, bytes_str(MEM_WAL_INDEX))) continue;
        TRY_RETURN(index_wal_entry(r->call->mem, &t->arena, entry, r->generations, r->n_generations, newest->version, &made, err));
        *entry = made;
    }
    return PENNON_OK;
}

static bool has_uuid(const struct index_metadata_message *list, size_t n, const struct uuid_message *uuid)
{
    for (size_t i = 0; i < n; i++) {
        if (uuid != NULL && list[i].uuid != NULL && bytes_equal(list[i].uuid->uuid, uuid->uuid)) return true;
    }
    return false;
}

/* There is one entry of each name of the system: the one that is there now makes room. */
static pennon_status replace_single(struct rebase *r, const struct index_section_message *now, const char *name, pennon_error *err)
{
    const struct create_index_message *c = &r->t->op.create_index;
    struct transaction *t;
    if (index_find(c->new_indices, c->n_new_indices, name) == NULL) return PENNON_OK;
    for (size_t i = 0; i < now->n_indices; i++) {
        const struct index_metadata_message *old = &now->indices[i];
        c = &r->t->op.create_index;
        if (!bytes_equal(old->name, bytes_str(name)) || has_uuid(c->removed_indices, c->n_removed_indices, old->uuid) ||
            has_uuid(c->new_indices, c->n_new_indices, old->uuid))
            continue;
        TRY_RETURN(rebase_writable(r, &t, err));
        struct create_index_message *own = &t->op.create_index;
        struct index_metadata_message *list = arena_calloc(&t->arena, own->n_removed_indices + 1, sizeof *list, err);
        if (list == NULL) return err->code;
        if (own->n_removed_indices > 0) memcpy(list, own->removed_indices, own->n_removed_indices * sizeof *list);
        list[own->n_removed_indices++] = *old;
        own->removed_indices = list;
    }
    return PENNON_OK;
}

static pennon_status finish_index(struct rebase *r, struct snapshot *newest, pennon_error *err)
{
    struct index_section_message now = {0};
    struct bytes in;
    if (r->n_reuse > 0) TRY_RETURN(extend_reuse(r, newest, err));
    if (r->n_generations > 0) TRY_RETURN(merge_wal(r, newest, err));
    TRY_RETURN(snapshot_section(r->call, newest, SECTION_INDICES, &in, err));
    if (in.size == 0) return PENNON_OK;
    /* Entries of the section go into my transaction, which may live longer than the snapshot. */
    uint8_t *copy = arena_alloc(&r->scratch, in.size, err);
    if (copy == NULL) return err->code;
    memcpy(copy, in.data, in.size);
    TRY_RETURN(wire_decode(&index_section_table, bytes_of(copy, in.size), &r->scratch, &now, err));
    TRY_RETURN(replace_single(r, &now, REUSE_INDEX, err));
    return replace_single(r, &now, MEM_WAL_INDEX, err);
}

pennon_status rebase_finish(struct rebase *r, struct snapshot *newest, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    if (r->t->which == OPERATION_DELETE || r->t->which == OPERATION_UPDATE) st = finish_rows(r, newest, err);
    if (r->t->which == OPERATION_CREATE_INDEX) st = finish_index(r, newest, err);
    if (r->t->which == OPERATION_REWRITE && r->n_reuse > 0) st = trim_reuse(r, newest, err);
    r->merge.n = r->n_reuse = r->n_generations = 0; /* the next attempt looks at newer versions alone */
    return st;
}
