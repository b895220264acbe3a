/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the tests of verbs that change a dataset ask of it: counts, findings, files, another handle. */
#ifndef TESTS_COMPACT_WORLD_H
#define TESTS_COMPACT_WORLD_H

#include "scan_world.h"

static inline uint64_t world_count(struct scan_world *w, pennon_dataset *ds, const char *where)
{
    uint64_t n;
    pennon_scan_options o = scan_options(w);
    o.filter = where;
    scan_ok(w, pennon_scan_count(ds, &o, &n, &w->err));
    return n;
}

static inline pennon_dataset *world_open_again(struct scan_world *w)
{
    pennon_dataset *ds;
    pennon_open_options o;
    pennon_open_options_init(&o);
    o.call = &w->call;
    scan_ok(w, pennon_dataset_open(SCAN_URI, &o, &ds, &w->err));
    return ds;
}

static inline void world_verify(struct scan_world *w, pennon_dataset *ds)
{
    pennon_verify_options o;
    pennon_verify_counts n = {.struct_size = sizeof n};
    pennon_verify_options_init(&o);
    o.call = &w->call;
    o.scope = PENNON_VERIFY_ALL;
    scan_ok(w, pennon_dataset_verify(ds, &o, &n, &w->err));
    assert_int_equal(n.findings, 0);
}

static inline bool world_count_file(void *ctx, const pennon_object_info *info)
{
    UNUSED(info);
    ++*(size_t *)ctx;
    return true;
}

/* Data and deletion files. */
static inline size_t world_files(struct scan_world *w)
{
    struct snapshot *s;
    struct call c;
    size_t n = 0;
    dataset_get(w->ds, &s, NULL);
    scan_ok(w, call_begin(&c, &w->call, &w->err));
    scan_ok(w, store_list(&c, s->at.store, "scan/t/_deletions", true, world_count_file, &n, &w->err));
    scan_ok(w, store_list(&c, s->at.store, "scan/t/data", true, world_count_file, &n, &w->err));
    call_end(&c);
    snapshot_release(s);
    return n;
}

static inline pennon_delete_result world_delete(struct scan_world *w, pennon_dataset *ds, const char *where)
{
    pennon_mutation_options o;
    pennon_delete_result r = {.struct_size = sizeof r};
    pennon_mutation_options_init(&o);
    o.call = &w->call;
    scan_ok(w, pennon_dataset_delete(ds, where, &o, &r, &w->err));
    return r;
}

/* The same rows as in the beginning, in their order; row ids too where they are stable. */
static inline void world_same_rows(struct scan_world *w, bool stable)
{
    static const char *const names[] = {"id", "m", "f", "l", "s", "st", "j", "_rowid"};
    const pennon_names columns = {stable ? 8 : 7, names};
    pennon_scan_options o = scan_options(w);
    struct ArrowSchema schema;
    struct ArrowArray rows;
    o.columns = &columns;
    scan_rows(w, &o, &schema, &rows);
    assert_int_equal(rows.length, w->all.length);
    for (size_t i = 0; i < columns.n; i++) assert_true(array_equal(schema.children[i], rows.children[i], w->all.children[i]));
    array_release(&rows);
    arrow_schema_release(&schema);
}

#endif
