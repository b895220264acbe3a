/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the tests of changed columns share: options, counts, files, other handles. */
#ifndef TESTS_EVOLVE_WORLD_H
#define TESTS_EVOLVE_WORLD_H

#include "dataset/transaction_handle.h"
#include "scan_world.h"

static inline pennon_evolution_options evolve_options(struct scan_world *w)
{
    pennon_evolution_options o;
    pennon_evolution_options_init(&o);
    o.call = &w->call;
    return o;
}

static inline uint64_t evolve_count(struct scan_world *w, pennon_dataset *ds, const char *where)
{
    uint64_t n;
    pennon_scan_options o = scan_options(w);
    o.filter = where;
    scan_ok(w, pennon_scan_count(ds, &o, &n, &w->err));
    return n;
}

static inline pennon_dataset *evolve_open(struct scan_world *w)
{
    pennon_dataset *ds;
    pennon_open_options o;
    pennon_open_options_init(&o);
    o.call = &w->call;
    scan_ok(w, pennon_dataset_open(SCAN_URI, &o, &ds, &w->err));
    return ds;
}

static inline void evolve_verify(struct scan_world *w, pennon_dataset *ds)
{
    pennon_verify_options o;
    pennon_verify_counts n = {.struct_size = sizeof n};
    pennon_verify_options_init(&o);
    o.call = &w->call;
    o.scope = PENNON_VERIFY_ALL;
    scan_ok(w, pennon_dataset_verify(ds, &o, &n, &w->err));
    assert_int_equal(n.findings, 0);
}

static inline bool evolve_count_file(void *ctx, const pennon_object_info *info)
{
    UNUSED(info);
    ++*(size_t *)ctx;
    return true;
}

/* Files below the data folder. */
static inline size_t evolve_files(struct scan_world *w)
{
    struct snapshot *s;
    struct call c;
    size_t n = 0;
    dataset_get(w->ds, &s, NULL);
    scan_ok(w, call_begin(&c, &w->call, &w->err));
    scan_ok(w, store_list(&c, s->at.store, "scan/t/data", true, evolve_count_file, &n, &w->err));
    call_end(&c);
    snapshot_release(s);
    return n;
}

/* Id of a field, by path; -1 = there is none. */
static inline int32_t evolve_field(pennon_dataset *ds, const char *path)
{
    struct snapshot *s;
    const struct field *f = NULL;
    pennon_error err;
    pennon_error_init(&err);
    dataset_get(ds, &s, NULL);
    const pennon_status st = schema_find_inside(s->schema, path, &f, &err);
    const int32_t id = st == PENNON_OK && f ? f->id : -1;
    pennon_error_clear(&err);
    snapshot_release(s);
    return id;
}

static inline pennon_status evolve_try_sql(struct scan_world *w, pennon_dataset *ds, const char *name, const char *sql,
                                           pennon_evolution_result *r)
{
    pennon_evolution_options o = evolve_options(w);
    return pennon_dataset_add_columns_sql(ds, 1, &name, &sql, &o, r, &w->err);
}

static inline pennon_evolution_result evolve_sql(struct scan_world *w, pennon_dataset *ds, const char *name, const char *sql)
{
    pennon_evolution_result r = {.struct_size = sizeof r};
    scan_ok(w, evolve_try_sql(w, ds, name, sql, &r));
    assert_int_equal(r.version, pennon_dataset_version(ds));
    return r;
}

static inline pennon_status evolve_try_alter(struct scan_world *w, pennon_dataset *ds, const char *path, const char *rename,
                                             int32_t nullable, const char *type, pennon_evolution_result *r)
{
    struct ArrowSchema schema = {0};
    pennon_evolution_options o = evolve_options(w);
    pennon_alteration a = {.path = path, .rename = rename, .nullable = nullable};
    if (type) {
        scan_ok(w, pennon_type_from_text(type, "", &schema, &w->err));
        a.data_type = &schema;
    }
    const pennon_status st = pennon_dataset_alter_columns(ds, 1, &a, &o, r, &w->err);
    arrow_schema_release(&schema);
    return st;
}

static inline pennon_status evolve_try_drop(struct scan_world *w, pennon_dataset *ds, const char *name)
{
    pennon_evolution_options o = evolve_options(w);
    return pennon_dataset_drop_columns(ds, 1, &name, &o, NULL, &w->err);
}

/* Rows first … first + n - 1 of "name: int64" as `parts` batches, of which some are empty. */
static inline void evolve_stream(struct scan_world *w, const char *name, int64_t first, int64_t n, int64_t parts,
                                 struct ArrowArrayStream *out)
{
    struct ArrowSchema schema;
    struct ArrowArray batches[64] = {0};
    char text[128];
    (void)snprintf(text, sizeof text, "struct<%s: int64>", name);
    scan_ok(w, arrow_schema_from_text(bytes_str(text), "", w->mem, &schema, &w->err));
    struct builder *b = builder_new(&schema, w->mem, &w->err);
    assert_non_null(b);
    int64_t at = 0;
    for (int64_t k = 0; k < parts; k++) {
        const int64_t end = k + 1 == parts ? n : n * (k + 1) / (parts + 1);
        for (; at < end; at++) {
            scan_ok(w, builder_append_int(builder_child(b, 0), first + at, &w->err));
            scan_ok(w, builder_append_row(b, &w->err));
        }
        scan_ok(w, builder_finish(b, &batches[k], &w->err));
    }
    builder_free(b);
    scan_ok(w, stream_from_arrays(&schema, batches, (size_t)parts, w->mem, out, &w->err));
}

/* Types as a struct schema, released by the caller. */
static inline void evolve_schema(struct scan_world *w, const char *text, struct ArrowSchema *out)
{
    scan_ok(w, arrow_schema_from_text(bytes_str(text), "", w->mem, out, &w->err));
    out->flags = 0;
}

/* The text as JSON lines; it lives as long as the stream. */
static inline int64_t evolve_read_text(void *ctx, void *to, size_t n)
{
    const char **at = ctx;
    const size_t left = strlen(*at), take = left < n ? left : n;
    memcpy(to, *at, take);
    *at += take;
    return (int64_t)take;
}

static inline void evolve_lines(struct scan_world *w, const char **text, const char *types, struct ArrowArrayStream *out)
{
    pennon_source source = {.struct_size = sizeof source, .read = evolve_read_text, .ctx = text};
    pennon_json_lines_options j;
    pennon_json_lines_options_init(&j);
    j.call = &w->call;
    j.types = types;
    scan_ok(w, pennon_json_lines_open(&source, &j, out, &w->err));
}

/* A dataset of its own, in memory, of the rows of a JSON lines text. */
static inline pennon_dataset *evolve_make(struct scan_world *w, const char *uri, const char *version, const char *types,
                                          const char *lines, uint64_t rows_per_file)
{
    pennon_dataset *ds;
    struct ArrowArrayStream rows;
    pennon_write_options o;
    pennon_write_options_init(&o);
    o.call = &w->call;
    o.mode = PENNON_WRITE_OVERWRITE;
    o.storage_version = version;
    o.max_rows_per_file = rows_per_file;
    evolve_lines(w, &lines, types, &rows);
    scan_ok(w, pennon_write(uri, &rows, &o, &ds, &w->err));
    return ds;
}

#endif
