/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The dataset cell, and the public calls that open, move and count. */
#include "dataset/dataset.h"

#define CACHED_FILES 256u

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
