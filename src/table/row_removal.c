/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Rows on their way out of a version.
 *
 * of a fragment     | then
 * ------------------|-------------------------------------------------------------------------------
 * no row is taken   | it is not named
 * some are left     | a deletion file of the rows that were gone and the new ones; the fragment with it
 * none is left      | its id is among the removed ones; no file is written
 *
 * Rows arrive in the order of the table, so that the set of one fragment is in memory at a time. The addresses of all rows are kept beside it, for a commit
 * that has to be put on top of other deletions; past AFFECTED_MAX of them they are given up, and such a commit is a conflict instead.
 * Deletion files lie in the table itself, also where the data of the fragment lies in another base.
 * Source: spec commits 7.1, 4.3. */
#include "table/row_removal.h"

#include <stdlib.h>

#include "table/commit_private.h"

#define AFFECTED_MAX ((size_t)1 << 23)

void row_removal_begin(struct row_removal *r, const struct call *c, struct snapshot *read, struct arena *a, file_length_fn length,
                       void *length_ctx)
{
    *r = (struct row_removal){.call = c, .read = read, .arena = a, .length = length, .length_ctx = length_ctx, .knows_rows = true};
    id_set_init(&r->rows, c->mem);
}

void row_removal_end(struct row_removal *r)
{
    if (r->call == NULL) return;
    struct mem *m = r->call->mem;
    for (size_t i = 0; i < r->n_written; i++) mem_free(m, r->written[i]);
    mem_free(m, r->written);
    mem_free(m, r->updated);
    mem_free(m, r->removed);
    mem_free(m, r->affected);
    id_set_free(&r->rows);
    *r = (struct row_removal){0};
}

void row_removal_remove_files(struct row_removal *r)
{
    pennon_error ignored;
    if (r->call == NULL) return;
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
}

/* ---- one fragment ---- */

/* The set of the rows that were gone and the new ones. */
static pennon_status merge_rows(struct row_removal *r, const struct deletion_vector *gone, struct id_set *all, pennon_error *err)
{
    uint64_t at = gone != NULL ? deletion_vector_next(gone, 0) : UINT64_MAX;
    for (size_t i = 0; i < r->rows.n; i++) {
        const struct id_range *new = &r->rows.ranges[i];
        for (; at < new->first; at = deletion_vector_next(gone, at + 1)) TRY_RETURN(id_set_add(all, (uint32_t)at, err));
        TRY_RETURN(id_set_add_range(all, new->first, new->last, err));
        if (at <= new->last) at = deletion_vector_next(gone, (uint64_t) new->last + 1);
    }
    for (; at != UINT64_MAX; at = deletion_vector_next(gone, at + 1)) TRY_RETURN(id_set_add(all, (uint32_t)at, err));
    return PENNON_OK;
}

static pennon_status remove_fragment(struct row_removal *r, const struct fragment *f, pennon_error *err)
{
    TRY_RETURN(mem_grow(r->call->mem, &r->removed, &r->cap_removed, r->n_removed, sizeof *r->removed, SIZE_MAX / 16, err));
    r->removed[r->n_removed++] = f->id;
    return PENNON_OK;
}

/* The fragment with a new deletion file of `all`. */
static pennon_status update_fragment(struct row_removal *r, const struct fragment *f, const struct id_set *all, pennon_error *err)
{
    struct mem *m = r->call->mem;
    struct deletion_file_message *made;
    TRY_RETURN(fragment_load(r->read, f, err));
    TRY_RETURN(mem_grow(m, &r->updated, &r->cap_updated, r->n_updated, sizeof *r->updated, SIZE_MAX / 1024, err));
    TRY_RETURN(mem_grow(m, &r->written, &r->cap_written, r->n_written, sizeof *r->written, SIZE_MAX / 16, err));
    made = arena_calloc(r->arena, 1, sizeof *made, err);
    if (made == NULL) return err->code;
    char **path = &r->written[r->n_written];
    pennon_status st = deletion_file_write(r->call, &r->read->at, f->id, r->read->version, all, made, path, err);
    if (*path != NULL) r->n_written++;
    if (st != PENNON_OK) return st;
    r->updated[r->n_updated] = *f->message;
    r->updated[r->n_updated++].deletion_file = made;
    return PENNON_OK;
}

static pennon_status end_fragment(struct row_removal *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct fragment *f = r->fragment;
    struct deletion_vector *gone = NULL;
    struct id_set all;
    uint64_t physical;
    if (f == NULL) return PENNON_OK;
    r->fragment = NULL;
    id_set_init(&all, r->call->mem);
    TRY(fragment_physical_rows(r->call, r->read, f, r->length, r->length_ctx, &physical, err));
    TRY(fragment_deletions(r->call, r->read, f, &gone, err));
    TRY(merge_rows(r, gone, &all, err));
    ASSERT(all.n > 0);
    if (all.ranges[all.n - 1].last >= physical)
        FAIL(PENNON_INTERNAL, "row %u of fragment %u, which has %" PRIu64 " rows", all.ranges[all.n - 1].last, f->id, physical);
    TRY(id_set_count(&all) == physical ? remove_fragment(r, f, err) : update_fragment(r, f, &all, err));
done:
    deletion_vector_release(gone);
    id_set_free(&all);
    id_set_free(&r->rows);
    return st;
}

static pennon_status begin_fragment(struct row_removal *r, uint64_t id, pennon_error *err)
{
    TRY_RETURN(end_fragment(r, err));
    r->fragment = snapshot_find_fragment(r->read, id);
    if (r->fragment == NULL) return error_set(err, PENNON_INTERNAL, "rows of fragment %" PRIu64 ", which there is not", id);
    return PENNON_OK;
}

/* ---- rows ---- */

static pennon_status note_affected(struct row_removal *r, uint64_t address, pennon_error *err)
{
    if (!r->knows_rows) return PENNON_OK;
    if (r->n_affected == AFFECTED_MAX) {
        mem_free(r->call->mem, r->affected);
        r->affected = NULL;
        r->n_affected = r->cap_affected = 0;
        r->knows_rows = false;
        return PENNON_OK;
    }
    TRY_RETURN(mem_grow(r->call->mem, &r->affected, &r->cap_affected, r->n_affected, sizeof *r->affected, AFFECTED_MAX, err));
    r->affected[r->n_affected++] = address;
    return PENNON_OK;
}

pennon_status row_removal_add(struct row_removal *r, const uint64_t *addresses, size_t n, pennon_error *err)
{
    for (size_t i = 0; i < n;) {
        const uint64_t id = addresses[i] >> 32;
        const uint32_t first = (uint32_t)addresses[i];
        size_t run = 1;
        if (r->fragment == NULL || r->fragment->id != id) TRY_RETURN(begin_fragment(r, id, err));
        while (i + run < n && addresses[i + run] == addresses[i] + run && first + run <= UINT32_MAX) run++;
        ASSERT(r->rows.n == 0 || r->rows.ranges[r->rows.n - 1].last < first);
        TRY_RETURN(id_set_add_range(&r->rows, first, (uint32_t)(first + run - 1), err));
        for (size_t k = 0; k < run; k++) TRY_RETURN(note_affected(r, addresses[i + k], err));
        r->n_rows += run;
        i += run;
    }
    return PENNON_OK;
}

pennon_status row_removal_add_all(struct row_removal *r, pennon_error *err)
{
    ASSERT(r->n_rows == 0 && r->n_removed == 0);
    for (size_t i = 0; i < r->read->n_fragments; i++) {
        uint64_t live;
        TRY_RETURN(fragment_live_rows(r->call, r->read, &r->read->fragments[i], r->length, r->length_ctx, &live, err));
        TRY_RETURN(remove_fragment(r, &r->read->fragments[i], err));
        r->n_rows += live;
    }
    r->knows_rows = r->n_removed == 0;
    return PENNON_OK;
}

static int compare_u64(const void *x, const void *y)
{
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

pennon_status row_removal_finish(struct row_removal *r, pennon_error *err)
{
    TRY_RETURN(end_fragment(r, err));
    /* Fragments stand in the order of rows, which need not be that of their ids. */
    bool ascends = true;
    for (size_t i = 1; i < r->n_affected && ascends; i++) ascends = r->affected[i - 1] < r->affected[i];
    if (!ascends) qsort(r->affected, r->n_affected, sizeof *r->affected, compare_u64);
    return PENNON_OK;
}
