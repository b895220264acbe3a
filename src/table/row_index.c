/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* From row ids to the addresses of live rows.
 *
 * The index is an array of runs, ascending by id: ids first .. first + n - 1 live at address .. address + n - 1. A range segment without
 * deletions is one run whatever its length; a lookup is one binary search.
 *
 * Built once a snapshot, without a lock: two threads that are first both build, and one result stays.
 * Source: spec table-format 11.5. */
#include <stdlib.h>

#include "table/table_private.h"

/* Rows looked at in one step of the slow path. */
#define CHUNK 4096u

struct run {
    uint64_t first;
    uint64_t n;
    uint64_t address;
};

struct row_index {
    struct mem *mem;
    struct run *runs;
    size_t n, cap;
};

void row_index_free(struct row_index *x)
{
    if (x == NULL) return;
    struct mem *m = x->mem;
    mem_free(m, x->runs);
    mem_free(m, x);
    mem_release(m);
}

static pennon_status add_run(struct row_index *x, uint64_t first, uint64_t n, uint64_t address, pennon_error *err)
{
    if (n == 0) return PENNON_OK;
    if (x->n > 0) {
        struct run *last = &x->runs[x->n - 1];
        if (last->first + last->n == first && last->address + last->n == address) {
            last->n += n;
            return PENNON_OK;
        }
    }
    TRY_RETURN(mem_grow(x->mem, &x->runs, &x->cap, x->n, sizeof *x->runs, SIZE_MAX / sizeof *x->runs, err));
    x->runs[x->n++] = (struct run){first, n, address};
    return PENNON_OK;
}

/* A range segment: whole gaps between deleted rows are runs. */
static pennon_status add_range(struct row_index *x, const struct row_segment *s, const struct deletion_vector *d, uint64_t address,
                               pennon_error *err)
{
    for (uint64_t at = 0; at < s->n;) {
        uint64_t gone = d != NULL ? deletion_vector_next(d, s->position + at) : UINT64_MAX;
        uint64_t end = gone == UINT64_MAX ? s->n : min_u64(gone - s->position, s->n);
        TRY_RETURN(add_run(x, s->start + at, end - at, address + s->position + at, err));
        at = end + 1;
    }
    return PENNON_OK;
}

/* A range with holes: what lies between two holes is a range, so that the work goes with the holes and not with the ids. */
static pennon_status add_holes(struct row_index *x, const struct row_segment *s, const struct deletion_vector *d, uint64_t address,
                               pennon_error *err)
{
    const uint64_t n_holes = s->end - s->start - s->n;
    uint64_t start = s->start;
    for (uint64_t i = 0; i <= n_holes; i++) {
        uint64_t end = i < n_holes ? s->holes[i] : s->end;
        struct row_segment part = {.position = s->position + (start - s->start - i), .n = end - start, .start = start, .end = end};
        TRY_RETURN(add_range(x, &part, d, address, err));
        start = end + 1;
    }
    return PENNON_OK;
}

static pennon_status add_values(struct row_index *x, const struct call *c, const struct row_segment *s,
                                const struct deletion_vector *d, uint64_t address, uint64_t *ids, pennon_error *err)
{
    for (uint64_t at = 0; at < s->n; at += CHUNK) {
        uint64_t n = min_u64(CHUNK, s->n - at);
        TRY_RETURN(call_check(c, err));
        row_segment_get(s, at, n, ids);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t position = s->position + at + i;
            if (d != NULL && deletion_vector_contains(d, (uint32_t)position)) continue;
            CHECK_FILE_RETURN(ids[i] != UINT64_MAX, "row ids: fragment %" PRIu64 " has the reserved id", address >> 32);
            TRY_RETURN(add_run(x, ids[i], 1, address + position, err));
        }
    }
    return PENNON_OK;
}

static pennon_status add_fragment(struct row_index *x, const struct call *c, struct snapshot *s, const struct fragment *f,
                                  uint64_t *ids, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct row_id_sequence *sequence;
    struct deletion_vector *d = NULL;
    size_t n;
    const uint64_t address = (uint64_t)f->id << 32;
    TRY(fragment_row_ids(c, s, f, &sequence, err));
    TRY(fragment_deletions(c, s, f, &d, err));
    CHECK_FILE(row_id_sequence_length(sequence) <= UINT32_MAX, "fragment %u has %" PRIu64 " row ids", f->id,
               row_id_sequence_length(sequence));
    const struct row_segment *segments = row_id_sequence_segments(sequence, &n);
    for (size_t i = 0; i < n; i++) {
        if (segments[i].kind == ROW_RANGE) {
            TRY(add_range(x, &segments[i], d, address, err));
        } else if (segments[i].kind == ROW_HOLES) {
            TRY(add_holes(x, &segments[i], d, address, err));
        } else {
            TRY(add_values(x, c, &segments[i], d, address, ids, err));
        }
    }
done:
    deletion_vector_release(d);
    return st;
}

static int compare_runs(const void *a, const void *b)
{
    const struct run *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static pennon_status check_disjoint(const struct row_index *x, pennon_error *err)
{
    for (size_t i = 1; i < x->n; i++) {
        const struct run *a = &x->runs[i - 1], *b = &x->runs[i];
        CHECK_FILE_RETURN(b->first - a->first >= a->n,
                          "row id %" PRIu64 " is live in fragment %" PRIu64 " row %" PRIu64 " and in fragment %" PRIu64
                          " row %" PRIu64,
                          b->first, (a->address + (b->first - a->first)) >> 32, (a->address + (b->first - a->first)) & UINT32_MAX,
                          b->address >> 32, b->address & UINT32_MAX);
    }
    return PENNON_OK;
}

static pennon_status build(const struct call *c, struct snapshot *s, struct row_index **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct row_index *x = NULL;
    uint64_t *ids = NULL;
    CHECK_FILE(!s->doubled_ids, "row ids: two fragments have the same id, so that a row id leads to two rows");
    TRY_NEW(x, mem_calloc(s->mem, 1, sizeof *x, err));
    x->mem = mem_retain(s->mem);
    TRY_NEW(ids, mem_calloc(c->mem, CHUNK, sizeof *ids, err));
    for (size_t i = 0; i < s->n_fragments; i++) TRY(add_fragment(x, c, s, &s->fragments[i], ids, err));
    if (x->n > 0) qsort(x->runs, x->n, sizeof *x->runs, compare_runs);
    TRY(check_disjoint(x, err));
    *out = x;
    x = NULL;
done:
    mem_free(c->mem, ids);
    row_index_free(x);
    return st;
}

static uint64_t look_up(const struct row_index *x, uint64_t id)
{
    size_t low = 0, high = x->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (x->runs[mid].first <= id) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    if (low == 0) return ADDRESS_NONE;
    const struct run *r = &x->runs[low - 1];
    return id - r->first < r->n ? r->address + (id - r->first) : ADDRESS_NONE;
}

/* Without stable ids an id is an address: it only has to be a live row. */
static pennon_status check_addresses(const struct call *c, struct snapshot *s, const uint64_t *ids, size_t n, uint64_t *addresses,
                                     pennon_error *err)
{
    const struct fragment *f = NULL;
    struct deletion_vector *d = NULL;
    pennon_status st = PENNON_OK;
    for (size_t i = 0; i < n; i++) {
        uint64_t id = ids[i], offset = id & UINT32_MAX;
        addresses[i] = ADDRESS_NONE;
        if (f == NULL || f->id != id >> 32) {
            deletion_vector_release(d);
            d = NULL;
            f = snapshot_find_fragment(s, id >> 32);
            if (f == NULL) continue;
            TRY(fragment_deletions(c, s, f, &d, err));
        }
        if (offset >= f->physical_rows || (d != NULL && deletion_vector_contains(d, (uint32_t)offset))) continue;
        addresses[i] = id;
    }
done:
    deletion_vector_release(d);
    return st;
}

pennon_status resolve_row_ids(const struct call *c, struct snapshot *s, const uint64_t *ids, size_t n, uint64_t *addresses,
                              pennon_error *err)
{
    if (!snapshot_has_stable_ids(s)) return check_addresses(c, s, ids, n, addresses, err);
    struct row_index *x = cache_row_index(s);
    if (x == NULL) {
        TRY_RETURN(build(c, s, &x, err));
        x = cache_put_row_index(s, x);
    }
    for (size_t i = 0; i < n; i++) addresses[i] = look_up(x, ids[i]);
    return PENNON_OK;
}
