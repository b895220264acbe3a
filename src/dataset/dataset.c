/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The dataset cell, and the public calls that open, move, scan, take and count. */
#include "dataset/dataset.h"

#define CACHED_FILES 256u
#define BATCH_ROWS_DEFAULT 8192u
#define BATCH_BYTES_DEFAULT ((uint64_t)8 << 20)

/* ---- cell ---- */

static pennon_status copy_external(pennon_dataset *ds, const struct external_rule *from, pennon_error *err)
{
    ds->external = *from;
    if (from->n_prefixes == 0) return PENNON_OK;
    const char **prefixes = arena_alloc(&ds->arena, from->n_prefixes * sizeof *prefixes, err);
    if (!prefixes) return err->code;
    for (size_t i = 0; i < from->n_prefixes; i++) {
        prefixes[i] = arena_strndup(&ds->arena, from->prefixes[i], strlen(from->prefixes[i]), err);
        if (!prefixes[i]) return err->code;
    }
    ds->external.prefixes = prefixes;
    return PENNON_OK;
}

pennon_status dataset_new(const struct call *c, struct snapshot *s, const struct external_rule *external, pennon_dataset **out,
                          pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mem *m = runtime_mem(c->runtime);
    pennon_dataset *ds;
    TRY_NEW(ds, mem_calloc(m, 1, sizeof *ds, err));
    ds->runtime = c->runtime;
    pennon_runtime_retain(ds->runtime);
    ds->mem = mem_retain(m);
    arena_init(&ds->arena, m);
    (void)pthread_mutex_init(&ds->lock, NULL);
    atomic_init(&ds->refs, 1);
    TRY(copy_external(ds, external, err));
    TRY_NEW(ds->files, file_cache_new(m, CACHED_FILES, err));
    ds->snapshot = s;
    *out = ds;
    ds = NULL;
done:
    pennon_dataset_free(ds);
    return st;
}

void pennon_dataset_retain(pennon_dataset *ds)
{
    if (ds) atomic_fetch_add_explicit(&ds->refs, 1, memory_order_relaxed);
}

void pennon_dataset_free(pennon_dataset *ds)
{
    if (!ds || atomic_fetch_sub_explicit(&ds->refs, 1, memory_order_acq_rel) != 1) return;
    snapshot_release(ds->snapshot);
    file_cache_release(ds->files);
    arena_reset(&ds->arena);
    (void)pthread_mutex_destroy(&ds->lock);
    struct mem *m = ds->mem;
    pennon_runtime *rt = ds->runtime;
    mem_free(m, ds);
    mem_release(m);
    pennon_runtime_free(rt);
}

void dataset_get(pennon_dataset *ds, struct snapshot **s, struct file_cache **files)
{
    (void)pthread_mutex_lock(&ds->lock);
    *s = snapshot_retain(ds->snapshot);
    if (files) *files = file_cache_retain(ds->files);
    (void)pthread_mutex_unlock(&ds->lock);
}

void dataset_move(pennon_dataset *ds, struct snapshot *s)
{
    (void)pthread_mutex_lock(&ds->lock);
    struct snapshot *old = s;
    if (s->version > ds->snapshot->version) {
        old = ds->snapshot;
        ds->snapshot = s;
    }
    (void)pthread_mutex_unlock(&ds->lock);
    snapshot_release(old);
}

/* ---- open ---- */

void pennon_open_options_init(pennon_open_options *options)
{
    if (options) *options = (pennon_open_options){.struct_size = sizeof *options, .version = PENNON_NONE, .as_of_ns = INT64_MIN};
}

static pennon_status check_ref(const pennon_open_options *o, pennon_error *err)
{
    if (o->tag && (o->version != PENNON_NONE || o->branch))
        return error_set(err, PENNON_INVALID_ARGUMENT, "the tag '%s' says which version is meant: no version or branch beside it",
                         o->tag);
    if (o->tag && !o->tag[0]) return error_set(err, PENNON_INVALID_ARGUMENT, "the tag is empty");
    if (o->branch && !o->branch[0]) return error_set(err, PENNON_INVALID_ARGUMENT, "the branch is empty");
    if (o->version == 0) return error_set(err, PENNON_INVALID_ARGUMENT, "version 0: versions begin at 1");
    if (o->as_of_ns != INT64_MIN && (o->tag || o->version != PENNON_NONE))
        return error_set(err, PENNON_INVALID_ARGUMENT, "a time together with a tag or a version");
    return PENNON_OK;
}

static pennon_status external_option(const pennon_open_options *o, struct external_rule *out, pennon_error *err)
{
    static const enum external_policy policies[] = {EXTERNAL_SAME_STORE, EXTERNAL_LIST, EXTERNAL_ALL, EXTERNAL_NONE};
    if (o->external_paths < 0 || o->external_paths >= (int32_t)ARRAY_LEN(policies)) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "external_paths %d is not one of the PENNON_EXTERNAL_ values",
                         o->external_paths);
    }
    *out = (struct external_rule){.policy = policies[o->external_paths]};
    if (o->external_prefixes) {
        out->prefixes = o->external_prefixes->items;
        out->n_prefixes = o->external_prefixes->n;
    }
    return PENNON_OK;
}

static pennon_status open_at(const struct call *c, const char *uri, const pennon_open_options *o, pennon_dataset **out,
                             pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct table_location at = {0};
    struct external_rule external;
    struct snapshot *s = NULL;
    TRY(check_ref(o, err));
    TRY(external_option(o, &external, err));
    TRY(table_locate(c, uri, &at, err));
    struct version_ref ref = {o->version == PENNON_NONE ? 0 : o->version, o->tag, o->branch, o->as_of_ns};
    TRY(snapshot_open(c, &at, &ref, &external, &s, err));
    TRY(dataset_new(c, s, &external, out, err));
    s = NULL;
done:
    snapshot_release(s);
    st = table_error(&at, st, err);
    table_location_free(c->mem, &at);
    return st == PENNON_OK ? st : error_where(err, uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
}

pennon_status pennon_dataset_open(const char *uri, const pennon_open_options *options, pennon_dataset **out, pennon_error *err)
{
    struct api a;
    pennon_open_options o;
    pennon_open_options_init(&o);
    pennon_error_init(&a.local);
    pennon_status st = options_read(&o, sizeof o, options, "pennon_open_options", &a.local);
    if (st != PENNON_OK) return error_out(err, &a.local, st);
    st = api_begin(&a, o.call, uri, "uri");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) st = open_at(&a.c, uri, &o, out, a.err);
    return api_end(&a, st, err);
}

uint64_t pennon_dataset_version(const pennon_dataset *ds)
{
    if (!ds) return 0;
    struct snapshot *s;
    dataset_get((pennon_dataset *)(uintptr_t)ds, &s, NULL);
    uint64_t version = s->version;
    snapshot_release(s);
    return version;
}

pennon_status pennon_dataset_latest_version(pennon_dataset *ds, const pennon_call *call, uint64_t *version, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, call, ds, "dataset");
    if (st == PENNON_OK) {
        struct snapshot *s;
        bool v2;
        dataset_get(ds, &s, NULL);
        st = latest_version(&a.c, &s->at, version, &v2, a.err);
        st = table_error(&s->at, st, a.err);
        snapshot_release(s);
    }
    return api_end(&a, st, err);
}

pennon_status pennon_dataset_refresh(pennon_dataset *ds, const pennon_call *call, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, call, ds, "dataset");
    if (st == PENNON_OK) {
        struct snapshot *s, *now = NULL;
        struct version_ref ref = {.as_of_ns = INT64_MIN};
        dataset_get(ds, &s, NULL);
        st = snapshot_open(&a.c, &s->at, &ref, &ds->external, &now, a.err);
        if (st == PENNON_OK) dataset_move(ds, now);
        st = table_error(&s->at, st, a.err);
        snapshot_release(s);
    }
    return api_end(&a, st, err);
}

pennon_status pennon_dataset_snapshot(pennon_dataset *ds, pennon_dataset **out, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, NULL, ds, "dataset");
    if (st == PENNON_OK) {
        struct snapshot *s;
        dataset_get(ds, &s, NULL);
        st = dataset_new(&a.c, s, &ds->external, out, a.err);
        if (st != PENNON_OK) snapshot_release(s);
    }
    return api_end(&a, st, err);
}

pennon_status pennon_dataset_schema(pennon_dataset *ds, struct ArrowSchema *out, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, NULL, ds, "dataset");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) {
        struct snapshot *s;
        dataset_get(ds, &s, NULL);
        st = schema_to_arrow(s->schema, SCHEMA_VIEW_TABLE, BLOB_AS_DESCRIPTOR, ds->mem, out, a.err);
        st = table_error(&s->at, st, a.err);
        snapshot_release(s);
    }
    return api_end(&a, st, err);
}

pennon_status pennon_dataset_count_rows(pennon_dataset *ds, const pennon_call *call, uint64_t *rows, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, call, ds, "dataset");
    if (st == PENNON_OK && !rows) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "rows is NULL");
    if (st == PENNON_OK) {
        struct snapshot *s;
        struct file_cache *fc;
        dataset_get(ds, &s, &fc);
        st = count_live_rows(&a.c, s, fc, rows, a.err);
        file_cache_release(fc);
        st = table_error(&s->at, st, a.err);
        snapshot_release(s);
    }
    return api_end(&a, st, err);
}

/* ---- scan ---- */

void pennon_scan_options_init(pennon_scan_options *options)
{
    if (options) *options = (pennon_scan_options){.struct_size = sizeof *options, .limit = PENNON_NONE};
}

/* The fragments of the option, or all. */
static pennon_status pick_fragments(const struct call *c, struct snapshot *s, const pennon_ids *ids, const struct fragment ***out,
                                    size_t *n, pennon_error *err)
{
    size_t count = ids ? ids->n : s->n_fragments;
    const struct fragment **list = mem_calloc(c->mem, count + 1, sizeof *list, err);
    if (!list) return err->code;
    pennon_status st = PENNON_OK;
    for (size_t i = 0; i < count; i++) {
        list[i] = ids ? snapshot_find_fragment(s, ids->items[i]) : &s->fragments[i];
        if (!list[i]) FAIL(PENNON_NOT_FOUND, "no fragment %" PRIu64 " in version %" PRIu64, ids->items[i], s->version);
    }
    *out = list;
    *n = count;
    list = NULL;
done:
    mem_free(c->mem, list);
    return st;
}

/* Rows that make about `bytes`, from what the first files say. */
static uint64_t rows_for_bytes(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct column_plan *plan,
                               uint64_t bytes)
{
    pennon_error ignored;
    pennon_error_init(&ignored);
    uint64_t rows = BATCH_ROWS_DEFAULT;
    struct ArrowArray first = {0};
    if (s->n_fragments && s->fragments[0].physical_rows != UINT64_MAX && s->fragments[0].physical_rows) {
        struct row_range range = {0, min_u64(64, s->fragments[0].physical_rows)};
        if (fragment_read(c, fc, s, &s->fragments[0], plan, &range, 1, 0, &first, &ignored) == PENNON_OK && first.length) {
            uint64_t each = array_bytes(&plan->arrow, &first) / (uint64_t)first.length;
            rows = max_u64(1, bytes / max_u64(1, each));
        }
    }
    array_release(&first);
    pennon_error_clear(&ignored);
    return rows;
}

static pennon_status scan_dataset(const struct call *c, struct snapshot *s, struct file_cache *fc, const pennon_scan_options *o,
                                  struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct column_plan *plan = NULL;
    const struct fragment **fragments = NULL;
    struct scan_spec spec = {.limit = o->limit, .offset = o->offset, .ordered = !o->unordered};
    enum blob_handling blobs;
    TRY(blob_option(o->blobs, &blobs, err));
    TRY(column_plan_new(s, o->columns ? o->columns->items : NULL, o->columns ? o->columns->n : 0, !o->columns, o->with_row_id,
                        o->with_row_address, blobs, false, c->mem, &plan, err));
    TRY(pick_fragments(c, s, o->fragments, &fragments, &spec.n_fragments, err));
    spec.fragments = fragments;
    spec.batch_rows = o->batch_rows ? o->batch_rows : BATCH_ROWS_DEFAULT;
    if (o->batch_bytes) spec.batch_rows = rows_for_bytes(c, s, fc, plan, o->batch_bytes);
    /* Who asks for a number of rows gets it. */
    spec.batch_bytes = o->batch_rows || o->batch_bytes || o->strict_batches ? UINT64_MAX : BATCH_BYTES_DEFAULT;
    spec.readahead = o->readahead ? o->readahead : c->threads * 2;
    struct ArrowArrayStream stream = {0};
    st = scan_open(c, s, fc, plan, &spec, &stream, err);
    plan = NULL;
    if (st != PENNON_OK) goto done;
    if (o->strict_batches || o->batch_bytes) {
        st = stream_rebatch(&stream, o->strict_batches && !o->batch_bytes ? spec.batch_rows : UINT64_MAX,
                            o->batch_bytes ? o->batch_bytes : UINT64_MAX, c->mem, out, err);
    } else {
        stream_move(&stream, out);
    }
done:
    column_plan_free(plan);
    mem_free(c->mem, fragments);
    return st;
}

pennon_status pennon_scan(pennon_dataset *ds, const pennon_scan_options *options, struct ArrowArrayStream *out, pennon_error *err)
{
    struct api a;
    pennon_scan_options o;
    pennon_scan_options_init(&o);
    pennon_error_init(&a.local);
    pennon_status st = options_read(&o, sizeof o, options, "pennon_scan_options", &a.local);
    if (st != PENNON_OK) return error_out(err, &a.local, st);
    st = api_begin(&a, o.call, ds, "dataset");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) {
        struct snapshot *s;
        struct file_cache *fc;
        dataset_get(ds, &s, &fc);
        st = scan_dataset(&a.c, s, fc, &o, out, a.err);
        file_cache_release(fc);
        st = table_error(&s->at, st, a.err);
        snapshot_release(s);
    }
    return api_end(&a, st, err);
}

/* ---- take ---- */

void pennon_take_options_init(pennon_take_options *options)
{
    if (options) *options = (pennon_take_options){.struct_size = sizeof *options};
}

static pennon_status resolve_selector(const struct call *c, struct snapshot *s, struct file_cache *fc, int32_t selector,
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

static pennon_status plan_take(const struct call *c, const struct snapshot *s, const pennon_take_options *o,
                               struct column_plan **out, pennon_error *err)
{
    enum blob_handling blobs;
    TRY_RETURN(blob_option(o->blobs, &blobs, err));
    return column_plan_new(s, o->columns ? o->columns->items : NULL, o->columns ? o->columns->n : 0, !o->columns, o->with_row_id,
                           o->with_row_address, blobs, true, c->mem, out, err);
}

static pennon_status take_rows(const struct call *c, struct snapshot *s, struct file_cache *fc, int32_t selector, size_t n,
                               const uint64_t *rows, const pennon_take_options *o, struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct column_plan *plan = NULL;
    uint64_t *places = NULL;
    struct ArrowArray batch = {0};
    struct ArrowSchema schema = {0};
    TRY(plan_take(c, s, o, &plan, err));
    TRY_NEW(places, mem_calloc(c->mem, n + 1, sizeof *places, err));
    if (n) TRY(resolve_selector(c, s, fc, selector, rows, n, places, err));
    TRY(take_places(c, s, fc, plan, places, n, &batch, err));
    TRY(arrow_schema_copy(&plan->arrow, c->mem, &schema, err));
    TRY(stream_of_batch(c, &schema, &batch, out, err));
done:
    array_release(&batch);
    mem_free(c->mem, places);
    column_plan_free(plan);
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
    struct column_plan *plan;
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
    TRY(take_places(&t->c, t->s, t->fc, t->plan, places, (size_t)(end - start), out, err));
done:
    mem_free(t->c.mem, offsets);
    return table_error(&t->s->at, st, err);
}

static void range_free(void *ctx)
{
    struct range_take *t = ctx;
    struct call c = t->c;
    column_plan_free(t->plan);
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
    TRY(plan_take(c, t->s, o, &t->plan, err));
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
