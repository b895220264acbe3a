/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The public calls that take rows: by offset, id or address, by ranges of offsets, and at random. */
#include <stdlib.h>

#include "dataset/dataset.h"
#include "exec/plan.h"

/* ---- take ---- */

void pennon_take_options_init(pennon_take_options *options)
{
    if (options) *options = (pennon_take_options){.struct_size = sizeof *options};
}

pennon_status resolve_selector(const struct call *c, struct snapshot *s, struct file_cache *fc, int32_t selector,
                               const uint64_t *rows, size_t n, uint64_t *places, pennon_error *err)
{
    switch (selector) {
    case PENNON_TAKE_OFFSETS: return resolve_offsets(c, s, fc, rows, n, places, err);
    case PENNON_TAKE_ROW_IDS:
        TRY_RETURN(resolve_row_ids(c, s, rows, n, places, err));
        resolve_addresses(s, places, n, places);
        return PENNON_OK;
    case PENNON_TAKE_ADDRESSES: resolve_addresses(s, rows, n, places); return PENNON_OK;
    default: return error_set(err, PENNON_INVALID_ARGUMENT, "selector %d is not one of the PENNON_TAKE_ values", selector);
    }
}

static pennon_status plan_take_columns(const struct call *c, const struct snapshot *s, const pennon_take_options *o,
                                       struct scan_plan **out, pennon_error *err)
{
    struct column_request r = {.columns = o->columns ? o->columns->items : NULL,
                               .n = o->columns ? o->columns->n : 0,
                               .all = !o->columns && !o->expressions,
                               .row_id = o->with_row_id,
                               .row_address = o->with_row_address,
                               .allow_doubled = true};
    TRY_RETURN(blob_option(o->blobs, &r.blobs, err));
    if (!o->expressions) return scan_plan_direct(s, &r, c->mem, out, err);
    struct scan_plan *p = NULL;
    pennon_status st = PENNON_OK;
    r.allow_doubled = false;
    TRY(scan_plan_begin(s, r.blobs, false, c->mem, &p, err));
    TRY(scan_plan_columns(p, s, &r, o->expressions, err));
    TRY(scan_plan_finish(p, s, PENNON_MATERIALIZE_EARLY, NULL, err));
    *out = p;
    p = NULL;
done:
    scan_plan_free(p);
    return st;
}

static pennon_status take_rows(const struct call *c, struct snapshot *s, struct file_cache *fc, int32_t selector, size_t n,
                               const uint64_t *rows, const pennon_take_options *o, struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct scan_plan *plan = NULL;
    uint64_t *places = NULL;
    struct ArrowArray batch = {0};
    struct ArrowSchema schema = {0};
    TRY(plan_take_columns(c, s, o, &plan, err));
    TRY_NEW(places, mem_calloc(c->mem, n + 1, sizeof *places, err));
    if (n) TRY(resolve_selector(c, s, fc, selector, rows, n, places, err));
    TRY(plan_take(c, s, fc, plan, places, n, &batch, err));
    TRY(arrow_schema_copy(&plan->arrow, c->mem, &schema, err));
    TRY(stream_of_batch(c, &schema, &batch, out, err));
done:
    array_release(&batch);
    mem_free(c->mem, places);
    scan_plan_free(plan);
    return st;
}

static pennon_status take_options(struct api *a, const pennon_take_options *options, pennon_take_options *o, pennon_dataset *ds,
                                  const void *out)
{
    pennon_take_options_init(o);
    a->c = (struct call){0};
    a->err = &a->local;
    pennon_error_init(&a->local);
    TRY_RETURN(options_read(o, sizeof *o, options, "pennon_take_options", a->err));
    TRY_RETURN(api_begin(a, o->call, ds, "dataset"));
    return out ? PENNON_OK : error_set(a->err, PENNON_INVALID_ARGUMENT, "out is NULL");
}

pennon_status pennon_dataset_take(pennon_dataset *ds, int32_t selector, size_t n, const uint64_t *rows,
                                  const pennon_take_options *options, struct ArrowArrayStream *out, pennon_error *err)
{
    struct api a;
    pennon_take_options o;
    pennon_status st = take_options(&a, options, &o, ds, out);
    if (st == PENNON_OK && n && !rows) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "rows is NULL");
    if (st == PENNON_OK) {
        struct snapshot *s;
        struct file_cache *fc;
        dataset_get(ds, &s, &fc);
        st = take_rows(&a.c, s, fc, selector, n, rows, &o, out, a.err);
        file_cache_release(fc);
        st = table_error(&s->at, st, a.err);
        snapshot_release(s);
    }
    return api_end(&a, st, err);
}

/* ---- take of ranges: a stream of one batch a range ---- */

struct range_take {
    struct call c;
    struct snapshot *s;
    struct file_cache *fc;
    struct scan_plan *plan;
    uint64_t (*ranges)[2];
    size_t n, at;
};

static pennon_status range_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct range_take *t = ctx;
    out->release = NULL;
    if (t->at == t->n) return PENNON_OK;
    pennon_status st = PENNON_OK;
    uint64_t start = t->ranges[t->at][0], end = t->ranges[t->at][1];
    t->at++;
    uint64_t *offsets;
    TRY_NEW(offsets, mem_calloc(t->c.mem, (size_t)(end - start) * 2 + 1, sizeof *offsets, err));
    uint64_t *places = offsets + (end - start);
    for (uint64_t i = start; i < end; i++) offsets[i - start] = i;
    TRY(resolve_offsets(&t->c, t->s, t->fc, offsets, (size_t)(end - start), places, err));
    TRY(plan_take(&t->c, t->s, t->fc, t->plan, places, (size_t)(end - start), out, err));
done:
    mem_free(t->c.mem, offsets);
    return table_error(&t->s->at, st, err);
}

static void range_free(void *ctx)
{
    struct range_take *t = ctx;
    struct call c = t->c;
    scan_plan_free(t->plan);
    file_cache_release(t->fc);
    snapshot_release(t->s);
    mem_free(c.mem, t->ranges);
    mem_free(c.mem, t);
    call_end(&c);
}

static pennon_status open_ranges(const struct call *c, pennon_dataset *ds, size_t n, const uint64_t (*ranges)[2],
                                 const pennon_take_options *o, struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct range_take *t = mem_calloc(c->mem, 1, sizeof *t, err);
    if (!t) return err->code;
    call_copy(&t->c, c);
    dataset_get(ds, &t->s, &t->fc);
    struct ArrowSchema schema = {0};
    uint64_t total;
    TRY(count_live_rows(c, t->s, t->fc, &total, err));
    for (size_t i = 0; i < n; i++) {
        if (ranges[i][0] > ranges[i][1] || ranges[i][1] > total) {
            FAIL(PENNON_INVALID_ARGUMENT, "rows %" PRIu64 " to %" PRIu64 " of a dataset of %" PRIu64, ranges[i][0], ranges[i][1],
                 total);
        }
    }
    TRY_NEW(t->ranges, mem_calloc(c->mem, n + 1, sizeof *t->ranges, err));
    if (n) memcpy(t->ranges, ranges, n * sizeof *ranges);
    t->n = n;
    TRY(plan_take_columns(c, t->s, o, &t->plan, err));
    TRY(arrow_schema_copy(&t->plan->arrow, c->mem, &schema, err));
    struct mem *m = t->c.mem;
    st = stream_new(&schema, range_next, range_free, t, m, out, err);
    t = NULL;
done:
    if (t) {
        st = table_error(&t->s->at, st, err);
        range_free(t);
    }
    return st;
}

pennon_status pennon_dataset_take_ranges(pennon_dataset *ds, size_t n, const uint64_t (*ranges)[2],
                                         const pennon_take_options *options, struct ArrowArrayStream *out, pennon_error *err)
{
    struct api a;
    pennon_take_options o;
    pennon_status st = take_options(&a, options, &o, ds, out);
    if (st == PENNON_OK && n && !ranges) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "ranges is NULL");
    if (st == PENNON_OK) st = open_ranges(&a.c, ds, n, ranges, &o, out, a.err);
    return api_end(&a, st, err);
}

/* ---- rows at random ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* A number below `n`, each as likely: what would favour the low ones is drawn again. */
static uint64_t random_below(uint64_t *state, uint64_t n)
{
    const uint64_t limit = UINT64_MAX - UINT64_MAX % n;
    uint64_t r;
    do r = next_random(state);
    while (r >= limit);
    return r % n;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* `n` different numbers below `total`, ascending; n is at most half of it. What is doubled is drawn again. */
static void draw(uint64_t *numbers, size_t n, uint64_t total, uint64_t *state)
{
    size_t have = 0;
    ASSERT(n <= total / 2);
    while (have < n) {
        for (size_t i = have; i < n; i++) numbers[i] = random_below(state, total);
        qsort(numbers, n, sizeof *numbers, by_number);
        have = 0;
        for (size_t i = 0; i < n; i++) {
            if (have == 0 || numbers[have - 1] != numbers[i]) numbers[have++] = numbers[i];
        }
    }
}

/* The same for any n: of many the few that are left out are drawn. */
static pennon_status draw_offsets(struct mem *m, uint64_t *offsets, size_t n, uint64_t total, uint64_t seed, pennon_error *err)
{
    uint64_t state = seed;
    if (n <= total / 2) {
        draw(offsets, n, total, &state);
        return PENNON_OK;
    }
    const size_t out = (size_t)(total - n);
    uint64_t *left_out = mem_calloc(m, out + 1, sizeof *left_out, err);
    if (!left_out) return err->code;
    draw(left_out, out, total, &state);
    size_t at = 0, skipped = 0;
    for (uint64_t i = 0; i < total; i++) {
        if (skipped < out && left_out[skipped] == i) {
            skipped++;
        } else {
            offsets[at++] = i;
        }
    }
    ASSERT(at == n);
    mem_free(m, left_out);
    return PENNON_OK;
}

static pennon_status sample_rows(const struct call *c, struct snapshot *s, struct file_cache *fc, uint64_t n, uint64_t seed,
                                 const pennon_take_options *o, struct ArrowArrayStream *out, pennon_error *err)
{
    uint64_t total;
    uint64_t *offsets = NULL;
    pennon_status st = PENNON_OK;
    TRY(count_live_rows(c, s, fc, &total, err));
    n = min_u64(n, total);
    TRY_NEW(offsets, mem_calloc(c->mem, (size_t)n + 1, sizeof *offsets, err));
    TRY(draw_offsets(c->mem, offsets, (size_t)n, total, seed, err));
    TRY(take_rows(c, s, fc, PENNON_TAKE_OFFSETS, (size_t)n, offsets, o, out, err));
done:
    mem_free(c->mem, offsets);
    return st;
}

pennon_status pennon_dataset_sample(pennon_dataset *ds, uint64_t n, uint64_t seed, const pennon_take_options *options,
                                    struct ArrowArrayStream *out, pennon_error *err)
{
    struct api a;
    pennon_take_options o;
    pennon_status st = take_options(&a, options, &o, ds, out);
    if (st == PENNON_OK) {
        struct snapshot *s;
        struct file_cache *fc;
        dataset_get(ds, &s, &fc);
        st = sample_rows(&a.c, s, fc, n, seed, &o, out, a.err);
        file_cache_release(fc);
        st = table_error(&s->at, st, a.err);
        snapshot_release(s);
    }
    return api_end(&a, st, err);
}
