/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Takes: rows, grouped by fragment, read once each in physical order, put back into the order of the request.
 *
 * A row is named by its place: the fragment's place in the snapshot << 32 | physical offset. That is unique also where two fragments have the
 * same id, and so the same addresses.
 * Source: spec table-format 19.3, expressions 11. */
#include <stdlib.h>

#include "exec/exec.h"

#define CHECK_ROWS 4096u /* between two looks at the call */

/* One asked-for row. */
struct wanted {
    uint64_t place;
    uint64_t number; /* in the request */
};

static int by_place(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

#define DIGIT_BITS 11u
#define DIGITS (1u << DIGIT_BITS)

/* By place, then by number: the rows come in the order of their numbers, which a stable sort keeps. One pass a digit that differs; places of one table
 * differ in two or three of the six. `spare` holds n. */
static void sort_wanted(struct wanted *rows, struct wanted *spare, size_t n)
{
    struct wanted *from = rows, *to = spare;
    for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
        size_t starts[DIGITS] = {0}, at = 0;
        for (size_t i = 0; i < n; i++) starts[from[i].place >> shift & (DIGITS - 1)]++;
        if (starts[from[0].place >> shift & (DIGITS - 1)] == n) continue;
        for (size_t d = 0; d < DIGITS; d++) {
            const size_t count = starts[d];
            starts[d] = at;
            at += count;
        }
        for (size_t i = 0; i < n; i++) to[starts[from[i].place >> shift & (DIGITS - 1)]++] = from[i];
        struct wanted *was = from;
        from = to;
        to = was;
    }
    if (from != rows) memcpy(rows, from, n * sizeof *rows);
}

static pennon_status order_wanted(const struct call *c, struct wanted *rows, size_t n, pennon_error *err)
{
    if (n < DIGITS / 4) {
        qsort(rows, n, sizeof *rows, by_place);
        return PENNON_OK;
    }
    struct wanted *spare = mem_alloc(c->mem, n * sizeof *spare, err); /* rows fit already: no overflow */
    if (spare == NULL) return err->code;
    sort_wanted(rows, spare, n);
    mem_free(c->mem, spare);
    return PENNON_OK;
}

/* Distinct rows of one fragment. */
struct group {
    const struct fragment *fragment;
    struct row_range *rows;
    size_t n_rows;
    uint64_t count;
    uint64_t first; /* row of the group in the concatenation */
    struct ArrowArray batch;
};

struct taking {
    const struct call *c;
    struct snapshot *s;
    struct file_cache *fc;
    const struct column_plan *plan;
    struct wanted *wanted;
    size_t n;
    uint64_t *found; /* row of each request in the concatenation, in request order; UINT64_MAX = left out */
    struct group *groups;
    size_t n_groups, cap_groups;
    struct row_range *ranges; /* of all groups */
    uint64_t *starts;         /* live rows before each fragment of the snapshot; NULL = not asked for */
};

/* Rows that are deleted or not there drop out. */
static pennon_status group_rows(struct taking *t, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct deletion_vector *dv = NULL;
    const struct fragment *f = NULL;
    uint64_t physical = 0, row = 0, last = UINT64_MAX, n_ranges = 0;
    for (size_t i = 0; i < t->n; i++) {
        uint64_t place = t->wanted[i].place;
        if (place == ADDRESS_NONE) break; /* sorted: only such follow */
        uint32_t offset = (uint32_t)place;
        ASSERT(place >> 32 < t->s->n_fragments);
        if (f != &t->s->fragments[place >> 32]) {
            f = &t->s->fragments[place >> 32];
            deletion_vector_release(dv);
            dv = NULL;
            TRY(fragment_physical_rows(t->c, t->s, f, file_cache_length, t->fc, &physical, err));
            TRY(fragment_deletions(t->c, t->s, f, &dv, err));
            TRY(mem_grow(t->c->mem, &t->groups, &t->cap_groups, t->n_groups, sizeof *t->groups, SIZE_MAX / 256, err));
            t->groups[t->n_groups++] = (struct group){.fragment = f, .rows = t->ranges + n_ranges, .first = row};
        }
        if (offset >= physical || (dv && !t->plan->with_deleted && deletion_vector_contains(dv, offset))) continue;
        if (place != last) {
            struct group *g = &t->groups[t->n_groups - 1];
            if (g->n_rows && g->rows[g->n_rows - 1].end == offset) {
                g->rows[g->n_rows - 1].end++;
            } else {
                g->rows[g->n_rows++] = (struct row_range){offset, (uint64_t)offset + 1};
                n_ranges++;
            }
            g->count++;
            row++;
            last = place;
        }
        t->found[t->wanted[i].number] = row - 1;
    }
done:
    deletion_vector_release(dv);
    return st;
}

static pennon_status read_group(void *arg, size_t i, pennon_error *err)
{
    struct taking *t = arg;
    struct group *g = &t->groups[i];
    if (g->n_rows == 0) return PENNON_OK;
    TRY_RETURN(call_check(t->c, err));
    ASSERT(g->fragment >= t->s->fragments && g->fragment < t->s->fragments + t->s->n_fragments);
    uint64_t first_live = t->starts ? t->starts[g->fragment - t->s->fragments] : 0;
    /* Deleted rows are left out already, or are wanted. */
    if (!t->plan->with_deleted)
        return fragment_read_live(t->c, t->fc, t->s, g->fragment, t->plan, g->rows, g->n_rows, first_live, &g->batch, err);
    return fragment_read(t->c, t->fc, t->s, g->fragment, t->plan, g->rows, g->n_rows, first_live, &g->batch, err);
}

static pennon_status live_starts(const struct call *c, struct snapshot *s, struct file_cache *fc, uint64_t **out, pennon_error *err)
{
    uint64_t *starts = mem_calloc(c->mem, s->n_fragments + 1, sizeof *starts, err);
    if (!starts) return err->code;
    for (size_t i = 0; i < s->n_fragments; i++) {
        uint64_t live;
        pennon_status st = call_check(c, err);
        if (st == PENNON_OK) st = fragment_live_rows(c, s, &s->fragments[i], file_cache_length, fc, &live, err);
        if (st != PENNON_OK) {
            mem_free(c->mem, starts);
            return st;
        }
        starts[i + 1] = starts[i] + live;
    }
    *out = starts;
    return PENNON_OK;
}

/* All groups one behind the other. */
static pennon_status join_groups(struct taking *t, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct ArrowArray **parts = NULL;
    size_t n = 0;
    TRY_NEW(parts, mem_calloc(t->c->mem, t->n_groups + 1, sizeof(void *), err));
    for (size_t i = 0; i < t->n_groups; i++) {
        if (t->groups[i].batch.release) parts[n++] = &t->groups[i].batch;
    }
    if (n == 0) {
        st = array_nulls(&t->plan->arrow, 0, t->c->mem, out, err);
    } else if (n == 1) {
        for (size_t i = 0; i < t->n_groups; i++) {
            if (t->groups[i].batch.release) array_move(&t->groups[i].batch, out);
        }
    } else {
        st = array_concat(&t->plan->arrow, n, parts, t->c->mem, out, err);
    }
done:
    mem_free(t->c->mem, parts);
    return st;
}

/* Request order: nothing to do when the rows were asked for in table order, each once. */
static pennon_status order_rows(struct taking *t, struct ArrowArray *all, struct ArrowArray *out, pennon_error *err)
{
    size_t n = 0;
    bool same = true;
    for (size_t i = 0; i < t->n; i++) {
        if (t->found[i] == UINT64_MAX) continue;
        ASSERT((int64_t)t->found[i] < all->length);
        same = same && t->found[i] == n;
        t->found[n++] = t->found[i];
    }
    if (same && (int64_t)n == all->length) {
        array_move(all, out);
        return PENNON_OK;
    }
    return array_take(&t->plan->arrow, all, t->found, n, t->c->mem, out, err);
}

pennon_status take_places(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct column_plan *plan,
                          const uint64_t *places, size_t n, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct taking t = {.c = c, .s = s, .fc = fc, .plan = plan, .n = n};
    struct ArrowArray all = {0};
    out->release = NULL;
    TRY_NEW(t.wanted, mem_calloc(c->mem, n + 1, sizeof *t.wanted, err));
    TRY_NEW(t.found, mem_calloc(c->mem, n + 1, sizeof *t.found, err));
    TRY_NEW(t.ranges, mem_calloc(c->mem, n + 1, sizeof *t.ranges, err));
    bool sorted = true;
    for (size_t i = 0; i < n; i++) {
        t.wanted[i] = (struct wanted){places[i], i};
        t.found[i] = UINT64_MAX;
        sorted = sorted && (i == 0 || places[i - 1] <= places[i]);
    }
    if (!sorted && n > 1) TRY(order_wanted(c, t.wanted, n, err));
    TRY(group_rows(&t, err));
    if (plan->uses[SYSTEM_ROW_OFFSET]) TRY(live_starts(c, s, fc, &t.starts, err));
    TRY(pool_parallel(call_pool(c), c->threads, t.n_groups, read_group, &t, err));
    TRY(call_check(c, err));
    TRY(join_groups(&t, &all, err));
    TRY(call_check(c, err));
    TRY(order_rows(&t, &all, out, err));
done:
    array_release(&all);
    for (size_t i = 0; i < t.n_groups; i++) array_release(&t.groups[i].batch);
    mem_free(c->mem, t.groups);
    mem_free(c->mem, t.wanted);
    mem_free(c->mem, t.found);
    mem_free(c->mem, t.ranges);
    mem_free(c->mem, t.starts);
    return st;
}

void resolve_addresses(const struct snapshot *s, const uint64_t *addresses, size_t n, uint64_t *places)
{
    const struct fragment *f = NULL;
    for (size_t i = 0; i < n; i++) {
        uint64_t address = addresses[i];
        if (f == NULL || f->id != address >> 32) f = snapshot_find_fragment(s, address >> 32);
        places[i] = f != NULL ? (uint64_t)(f - s->fragments) << 32 | (address & UINT32_MAX) : ADDRESS_NONE;
    }
}

pennon_status resolve_offsets(const struct call *c, struct snapshot *s, struct file_cache *fc, const uint64_t *offsets, size_t n,
                              uint64_t *places, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint64_t *starts = NULL;
    struct deletion_vector *dv = NULL;
    size_t at = SIZE_MAX; /* fragment that dv belongs to */
    TRY(live_starts(c, s, fc, &starts, err));
    uint64_t total = starts[s->n_fragments];
    for (size_t i = 0; i < n; i++) {
        if (i % CHECK_ROWS == 0) TRY(call_check(c, err));
        if (offsets[i] >= total)
            FAIL(PENNON_INVALID_ARGUMENT, "row %" PRIu64 " is past the end: the dataset has %" PRIu64 " rows", offsets[i], total);
        size_t low = 0, high = s->n_fragments;
        while (high - low > 1) {
            size_t mid = low + (high - low) / 2;
            if (starts[mid] <= offsets[i]) {
                low = mid;
            } else {
                high = mid;
            }
        }
        while (starts[low + 1] <= offsets[i]) low++; /* fragments without live rows */
        ASSERT(low < s->n_fragments && starts[low] <= offsets[i]);
        if (low != at) {
            deletion_vector_release(dv);
            dv = NULL;
            TRY(fragment_deletions(c, s, &s->fragments[low], &dv, err));
            at = low;
        }
        uint64_t k = offsets[i] - starts[low];
        places[i] = (uint64_t)low << 32 | (dv ? deletion_vector_select_live(dv, k) : k);
    }
done:
    deletion_vector_release(dv);
    mem_free(c->mem, starts);
    return st;
}

pennon_status count_live_rows(const struct call *c, struct snapshot *s, struct file_cache *fc, uint64_t *rows, pennon_error *err)
{
    *rows = 0;
    for (size_t i = 0; i < s->n_fragments; i++) {
        uint64_t live;
        TRY_RETURN(call_check(c, err));
        TRY_RETURN(fragment_live_rows(c, s, &s->fragments[i], file_cache_length, fc, &live, err));
        *rows += live;
    }
    return PENNON_OK;
}
