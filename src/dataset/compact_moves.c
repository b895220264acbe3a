/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Where rows went in a compaction without stable row ids.
 *
 *   treemap   u64 number of bitmaps | for each: u32 fragment id, Roaring bitmap of the rows that lived | ids ascend
 *
 * The k-th address of a result's treemap is the k-th row of its new fragments, counted through them. Live rows are kept as runs, each with the place of its first
 * row among the rows of its result; the place leads to a new fragment by the rows of those before.
 * Source: spec commits 9.4, 9.5. */
#include <stdlib.h>

#include "dataset/compact.h"
#include "table/id_set.h"

#define BITMAPS_MAX ((size_t)1 << 28)

struct run {
    uint32_t first, last; /* offsets */
    uint64_t place;       /* of `first` */
};

/* An old fragment. */
struct source {
    uint32_t id;
    size_t group;
    size_t run, n_runs;
};

/* A new fragment. */
struct target {
    uint32_t id;
    uint64_t place; /* of its first row */
};

struct group {
    size_t target, n_targets;
    uint64_t rows; /* of the new fragments */
};

struct row_moves {
    struct mem *mem; /* retained */
    struct source *sources;
    size_t n_sources, cap_sources;
    struct run *runs;
    size_t n_runs, cap_runs;
    struct target *targets;
    size_t n_targets, cap_targets;
    struct group *groups;
    size_t n_groups;
};

void row_moves_free(struct row_moves *r)
{
    if (!r) return;
    struct mem *m = r->mem;
    mem_free(m, r->sources);
    mem_free(m, r->runs);
    mem_free(m, r->targets);
    mem_free(m, r->groups);
    mem_free(m, r);
    mem_release(m);
}

/* ---- treemaps ---- */

typedef pennon_status (*bitmap_fn)(void *ctx, uint32_t id, const struct id_set *rows, pennon_error *err);

static pennon_status walk_treemap(struct mem *m, struct bytes in, bitmap_fn fn, void *ctx, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct id_set set;
    uint64_t before = 0;
    size_t at = 8;
    id_set_init(&set, m);
    CHECK_FILE(in.size >= 8, "row addresses: %zu bytes", in.size);
    const uint64_t n = load_u64(in.data);
    CHECK_FILE(n <= (in.size - 8) / 4, "row addresses: %" PRIu64 " bitmaps in %zu bytes", n, in.size);
    for (uint64_t i = 0; i < n; i++) {
        size_t used;
        CHECK_FILE(in.size - at >= 4, "row addresses: they end before bitmap %" PRIu64, i);
        const uint32_t id = load_u32(in.data + at);
        CHECK_FILE(i == 0 || id > before, "row addresses: fragment %u behind fragment %" PRIu64, id, before);
        before = id;
        at += 4;
        TRY(roaring_check(bytes_of(in.data + at, in.size - at), &used, err));
        id_set_free(&set);
        TRY(id_set_parse(&set, bytes_of(in.data + at, used), err));
        at += used;
        TRY(fn(ctx, id, &set, err));
    }
    CHECK_FILE(at == in.size, "row addresses: %zu bytes behind their end", in.size - at);
done:
    id_set_free(&set);
    return st;
}

static pennon_status count_rows(void *ctx, uint32_t id, const struct id_set *rows, pennon_error *err)
{
    uint64_t *n = ctx;
    CHECK_FILE_RETURN(!add_overflows(*n, id_set_count(rows), n), "row addresses: too many in fragment %u", id);
    return PENNON_OK;
}

pennon_status row_addresses_count(struct mem *m, struct bytes treemap, uint64_t *out, pennon_error *err)
{
    *out = 0;
    return walk_treemap(m, treemap, count_rows, out, err);
}

/* ---- moves ---- */

/* Under way: one result. */
struct adding {
    struct row_moves *r;
    const struct compact_result *result;
    size_t group;
    size_t old; /* next old fragment */
    uint64_t place;
};

static pennon_status add_source(struct row_moves *r, uint64_t id, size_t group, pennon_error *err)
{
    TRY_RETURN(mem_grow(r->mem, &r->sources, &r->cap_sources, r->n_sources, sizeof *r->sources, BITMAPS_MAX, err));
    r->sources[r->n_sources++] = (struct source){(uint32_t)id, group, r->n_runs, 0};
    return PENNON_OK;
}

static pennon_status add_rows(void *ctx, uint32_t id, const struct id_set *rows, pennon_error *err)
{
    struct adding *x = ctx;
    struct row_moves *r = x->r;
    const struct compact_result *result = x->result;
    /* Fragments before this one have no live rows. */
    for (; x->old < result->n_old && result->old_fragments[x->old].id != id; x->old++)
        TRY_RETURN(add_source(r, result->old_fragments[x->old].id, x->group, err));
    CHECK_FILE_RETURN(x->old < result->n_old, "row addresses: fragment %u, which the result has not", id);
    const uint64_t physical = result->old_fragments[x->old++].physical_rows;
    TRY_RETURN(add_source(r, id, x->group, err));
    for (size_t i = 0; i < rows->n; i++) {
        CHECK_FILE_RETURN(rows->ranges[i].last < physical, "row addresses: row %u of fragment %u, which has %" PRIu64,
                          rows->ranges[i].last, id, physical);
        TRY_RETURN(mem_grow(r->mem, &r->runs, &r->cap_runs, r->n_runs, sizeof *r->runs, SIZE_MAX / 32, err));
        r->runs[r->n_runs++] = (struct run){rows->ranges[i].first, rows->ranges[i].last, x->place};
        x->place += (uint64_t)rows->ranges[i].last - rows->ranges[i].first + 1;
    }
    r->sources[r->n_sources - 1].n_runs = rows->n;
    return PENNON_OK;
}

static pennon_status add_result(struct row_moves *r, const struct compact_result *result, size_t group, pennon_error *err)
{
    struct adding x = {.r = r, .result = result, .group = group};
    struct group *g = &r->groups[group];
    *g = (struct group){.target = r->n_targets};
    for (size_t i = 0; i < result->n_new; i++) {
        TRY_RETURN(mem_grow(r->mem, &r->targets, &r->cap_targets, r->n_targets, sizeof *r->targets, BITMAPS_MAX, err));
        r->targets[r->n_targets++] = (struct target){(uint32_t)result->new_fragments[i].id, g->rows};
        CHECK_FILE_RETURN(!add_overflows(g->rows, result->new_fragments[i].physical_rows, &g->rows), "too many new rows");
        g->n_targets++;
    }
    CHECK_FILE_RETURN(result->has_addresses, "a result without row addresses");
    TRY_RETURN(walk_treemap(r->mem, result->addresses, add_rows, &x, err));
    for (; x.old < result->n_old; x.old++) TRY_RETURN(add_source(r, result->old_fragments[x.old].id, group, err));
    CHECK_FILE_RETURN(x.place == g->rows, "%" PRIu64 " row addresses for %" PRIu64 " new rows", x.place, g->rows);
    return PENNON_OK;
}

static int compare_sources(const void *a, const void *b)
{
    const struct source *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

pennon_status row_moves_new(struct mem *m, const struct compact_result *results, size_t n, struct row_moves **out,
                            pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct row_moves *r;
    TRY_NEW(r, mem_calloc(m, 1, sizeof *r, err));
    r->mem = mem_retain(m);
    TRY_NEW(r->groups, mem_calloc(m, n + 1, sizeof *r->groups, err));
    for (size_t i = 0; i < n; i++) TRY(add_result(r, &results[i], i, err));
    r->n_groups = n;
    if (r->n_sources > 0) qsort(r->sources, r->n_sources, sizeof *r->sources, compare_sources);
    for (size_t i = 1; i < r->n_sources; i++)
        CHECK_FILE(r->sources[i - 1].id != r->sources[i].id, "fragment %u in two results", r->sources[i].id);
    *out = r;
    r = NULL;
done:
    row_moves_free(r);
    return st;
}

static const struct source *find_source(const struct row_moves *r, uint32_t id)
{
    const struct source key = {.id = id};
    if (r->n_sources == 0) return NULL;
    return bsearch(&key, r->sources, r->n_sources, sizeof key, compare_sources);
}

static uint64_t address_of(const struct row_moves *r, const struct group *g, uint64_t place)
{
    size_t low = 0, high = g->n_targets;
    ASSERT(place < g->rows);
    /* The last target that begins at or before the place. */
    while (high - low > 1) {
        const size_t mid = low + (high - low) / 2;
        if (r->targets[g->target + mid].place <= place) {
            low = mid;
        } else {
            high = mid;
        }
    }
    const struct target *t = &r->targets[g->target + low];
    return (uint64_t)t->id << 32 | (place - t->place);
}

uint64_t row_moves_find(const struct row_moves *r, uint64_t address)
{
    const uint32_t offset = (uint32_t)address;
    const struct source *s = find_source(r, (uint32_t)(address >> 32));
    if (!s) return address;
    size_t low = 0, high = s->n_runs;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (r->runs[s->run + mid].last < offset) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    if (low == s->n_runs || r->runs[s->run + low].first > offset) return ADDRESS_NONE;
    const struct run *run = &r->runs[s->run + low];
    return address_of(r, &r->groups[s->group], run->place + (offset - run->first));
}
