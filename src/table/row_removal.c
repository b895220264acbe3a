/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Rows on their way out of a version.
 *
 * of a fragment     | then
 * ------------------|-------------------------------------------------------------------------------
 * no row is taken   | it is not named
 * some are left     | a deletion file of the rows that were gone and the new ones; the fragment with it
 * none is left      | its id is among the removed ones; no file is written
 *
 * Rows arrive in the order of the table, fragment by fragment. The deletion files of some fragments are written side by side, once their sets have
 * PENDING_RANGES ranges: of all others nothing but the file's name is kept. The addresses of all rows are kept beside it, for a commit
 * that has to be put on top of other deletions; past AFFECTED_MAX of them they are given up, and such a commit is a conflict instead.
 * Deletion files lie in the table itself, also where the data of the fragment lies in another base.
 * Source: spec commits 7.1, 4.3. */
#include "table/row_removal.h"

#include <stdlib.h>

#include "table/commit_private.h"

#define AFFECTED_MAX ((size_t)1 << 23)
#define PENDING_RANGES ((size_t)1 << 18)
#define PENDING_FRAGMENTS 256u

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
    for (size_t i = 0; i < r->n_pending; i++) id_set_free(&r->pending[i].rows);
    mem_free(m, r->pending);
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
static pennon_status merge_rows(const struct leaving *l, const struct deletion_vector *gone, struct id_set *all, pennon_error *err)
{
    uint64_t at = deletion_vector_next(gone, 0);
    for (size_t i = 0; i < l->rows.n; i++) {
        const struct id_range *new = &l->rows.ranges[i];
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

/* On a thread of the pool: the deletion file of a fragment, or that it has no row left. */
static pennon_status write_leaving(void *ctx, size_t i, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct row_removal *r = ctx;
    struct leaving *l = &r->pending[i];
    struct deletion_vector *gone = NULL;
    struct id_set all;
    uint64_t physical;
    id_set_init(&all, r->call->mem);
    TRY(fragment_physical_rows(r->call, r->read, l->fragment, r->length, r->length_ctx, &physical, err));
    TRY(fragment_deletions(r->call, r->read, l->fragment, &gone, err));
    if (gone != NULL) TRY(merge_rows(l, gone, &all, err));
    const struct id_set *rows = gone != NULL ? &all : &l->rows;
    ASSERT(rows->n > 0);
    if (rows->ranges[rows->n - 1].last >= physical)
        FAIL(PENNON_INTERNAL, "row %u of fragment %u, which has %" PRIu64 " rows", rows->ranges[rows->n - 1].last, l->fragment->id,
             physical);
    l->emptied = id_set_count(rows) == physical;
    if (!l->emptied)
        TRY(deletion_file_write(r->call, &r->read->at, l->fragment->id, r->read->version, rows, l->made, &l->path, err));
done:
    deletion_vector_release(gone);
    id_set_free(&all);
    return st;
}

/* What the transaction says of a fragment. There is room in the lists. */
static void note_fragment(struct row_removal *r, const struct leaving *l)
{
    if (l->emptied) {
        r->removed[r->n_removed++] = l->fragment->id;
        return;
    }
    r->updated[r->n_updated] = *l->fragment->message;
    r->updated[r->n_updated++].deletion_file = l->made;
}

/* Write what is pending. The files are known by name also after a failure. */
static pennon_status end_pending(struct row_removal *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mem *m = r->call->mem;
    const size_t n = r->n_pending;
    for (size_t i = 0; i < n; i++) {
        struct leaving *l = &r->pending[i];
        TRY(fragment_load(r->read, l->fragment, err));
        TRY(mem_grow(m, &r->updated, &r->cap_updated, r->n_updated + i, sizeof *r->updated, SIZE_MAX / 1024, err));
        TRY(mem_grow(m, &r->removed, &r->cap_removed, r->n_removed + i, sizeof *r->removed, SIZE_MAX / 16, err));
        TRY(mem_grow(m, &r->written, &r->cap_written, r->n_written + i, sizeof *r->written, SIZE_MAX / 16, err));
        TRY_NEW(l->made, arena_calloc(r->arena, 1, sizeof *l->made, err));
    }
    st = pool_parallel(call_pool(r->call), r->call->threads, n, write_leaving, r, err);
    for (size_t i = 0; i < n; i++) {
        if (r->pending[i].path != NULL) r->written[r->n_written++] = r->pending[i].path;
        if (st == PENNON_OK) note_fragment(r, &r->pending[i]);
    }
done:
    for (size_t i = 0; i < n; i++) id_set_free(&r->pending[i].rows);
    r->n_pending = 0;
    r->pending_ranges = 0;
    return st;
}

static pennon_status end_fragment(struct row_removal *r, pennon_error *err)
{
    if (r->fragment == NULL) return PENNON_OK;
    TRY_RETURN(mem_grow(r->call->mem, &r->pending, &r->cap_pending, r->n_pending, sizeof *r->pending, PENDING_FRAGMENTS + 1, err));
    r->pending[r->n_pending++] = (struct leaving){.fragment = r->fragment, .rows = r->rows};
    r->pending_ranges += r->rows.n;
    r->fragment = NULL;
    id_set_init(&r->rows, r->call->mem);
    return r->pending_ranges >= PENDING_RANGES || r->n_pending >= PENDING_FRAGMENTS ? end_pending(r, err) : PENNON_OK;
}

static pennon_status begin_fragment(struct row_removal *r, uint64_t id, pennon_error *err)
{
    TRY_RETURN(end_fragment(r, err));
    r->fragment = snapshot_find_fragment(r->read, id);
    if (r->fragment == NULL) return error_set(err, PENNON_INTERNAL, "rows of fragment %" PRIu64 ", which there is not", id);
    return PENNON_OK;
}

/* ---- rows ---- */

static pennon_status note_affected(struct row_removal *r, const uint64_t *addresses, size_t n, pennon_error *err)
{
    if (!r->knows_rows) return PENNON_OK;
    if (n > AFFECTED_MAX - r->n_affected) {
        mem_free(r->call->mem, r->affected);
        r->affected = NULL;
        r->n_affected = r->cap_affected = 0;
        r->knows_rows = false;
        return PENNON_OK;
    }
    if (n > r->cap_affected - r->n_affected) {
        const size_t cap = (size_t)min_u64(max_u64(r->n_affected + n, r->cap_affected * 2), AFFECTED_MAX);
        uint64_t *more = mem_realloc(r->call->mem, r->affected, cap * sizeof *more, err);
        if (more == NULL) return err->code;
        r->affected = more;
        r->cap_affected = cap;
    }
    memcpy(r->affected + r->n_affected, addresses, n * sizeof *addresses);
    r->n_affected += n;
    return PENNON_OK;
}

/* Rows of the fragment under way. */
static pennon_status add_rows(struct row_removal *r, const uint64_t *addresses, size_t n, pennon_error *err)
{
    ASSERT(r->rows.n == 0 || r->rows.ranges[r->rows.n - 1].last < (uint32_t)addresses[0]);
    for (size_t i = 0; i < n;) {
        size_t run = 1;
        while (i + run < n && addresses[i + run] == addresses[i] + run) run++;
        ASSERT(i == 0 || addresses[i - 1] < addresses[i]);
        TRY_RETURN(id_set_add_range(&r->rows, (uint32_t)addresses[i], (uint32_t)addresses[i] + (uint32_t)(run - 1), err));
        i += run;
    }
    return PENNON_OK;
}

pennon_status row_removal_add(struct row_removal *r, const uint64_t *addresses, size_t n, pennon_error *err)
{
    for (size_t i = 0; i < n;) {
        const uint64_t id = addresses[i] >> 32;
        size_t count = 1;
        if (r->fragment == NULL || r->fragment->id != id) TRY_RETURN(begin_fragment(r, id, err));
        while (i + count < n && addresses[i + count] >> 32 == id) count++;
        TRY_RETURN(add_rows(r, addresses + i, count, err));
        i += count;
    }
    r->n_rows += n;
    return note_affected(r, addresses, n, err);
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
    TRY_RETURN(end_pending(r, err));
    /* Fragments stand in the order of rows, which need not be that of their ids. */
    bool ascends = true;
    for (size_t i = 1; i < r->n_affected && ascends; i++) ascends = r->affected[i - 1] < r->affected[i];
    if (!ascends) qsort(r->affected, r->n_affected, sizeof *r->affected, compare_u64);
    return PENNON_OK;
}
