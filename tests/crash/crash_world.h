/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the tests of interrupted operations share: a runtime whose store is a test's, and the state of a dataset as text.
 *
 * The state is what a reader can see: versions with rows and sums of ids, the latest of each branch, config, base paths, tags, branches, detached
 * versions, and the same of the clone. Times, uuids and numbers of detached versions are left out, so equal states have equal texts. */
#ifndef TESTS_CRASH_WORLD_H
#define TESTS_CRASH_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "arrow/arrow.h"
#include "base/runtime.h"
#include "dataset/dataset.h"
#include "pennon/pennon.h"
#include "store/store_private.h"

/* With a sanitizer points are sampled. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOW true
#endif
#endif
#ifndef SLOW
#define SLOW false
#endif

#define STATE_LINES 64u
#define STATE_LINE_BYTES 200u

/* A branch file without a version: its creation broke off. */
#define HALF_BRANCH "table branch try: no version"

struct state {
    char lines[STATE_LINES][STATE_LINE_BYTES];
    size_t n;
};

struct world {
    pennon_runtime *runtime;
    pennon_call call;
    pennon_error err;
    struct call c;               /* a running call, for the inside of the library */
    pennon_store *store;         /* of the runtime */
    char table[128], clone[128]; /* URIs */
    char folder[128];            /* of the table in the store */
    const char *where;           /* what is being tested, for messages */
    bool quiet;                  /* a finding is expected */
};

/* A runtime whose store of `slot` is the one that `make` gives; tables lie below `root`, a URI, which is `folder` in the store. */
static inline void world_begin(struct world *w, unsigned slot, slot_make_fn make, const char *root, const char *folder)
{
    static const struct world empty;
    pennon_runtime_options o;
    void *store = NULL;
    *w = empty;
    pennon_error_init(&w->err);
    pennon_runtime_options_init(&o);
    o.threads = 1;
    assert_int_equal(pennon_runtime_new(&o, &w->runtime, &w->err), PENNON_OK);
    assert_int_equal(runtime_slot(w->runtime, slot, make, (void (*)(void *))pennon_store_free, &store, &w->err), PENNON_OK);
    w->store = store;
    pennon_call_init(&w->call);
    w->call.runtime = w->runtime;
    w->call.threads = 1;
    assert_int_equal(call_begin(&w->c, &w->call, &w->err), PENNON_OK);
    (void)snprintf(w->table, sizeof w->table, "%s/t", root);
    (void)snprintf(w->clone, sizeof w->clone, "%s/clone", root);
    (void)snprintf(w->folder, sizeof w->folder, "%s/t", folder);
}

static inline void world_end(struct world *w)
{
    call_end(&w->c);
    pennon_runtime_free(w->runtime);
    pennon_error_clear(&w->err);
}

/* In what cannot fail: preparing, and looking at the outcome. */
static inline void world_ok(struct world *w, pennon_status st, const char *what)
{
    if (st == PENNON_OK) return;
    fail_msg("%s: %s: %s: %s (%s)", w->where ? w->where : "preparing", what, pennon_status_name(st), w->err.message,
             w->err.file ? w->err.file : "-");
}

static inline pennon_status world_open(struct world *w, const char *uri, uint64_t version, const char *branch, pennon_dataset **out)
{
    pennon_open_options o;
    pennon_open_options_init(&o);
    o.call = &w->call;
    o.version = version;
    o.branch = branch;
    *out = NULL;
    return pennon_dataset_open(uri, &o, out, &w->err);
}

/* ---- the state ---- */

static inline void state_add(struct state *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
static inline void state_add(struct state *s, const char *fmt, ...)
{
    va_list args;
    assert_true(s->n < STATE_LINES);
    va_start(args, fmt);
    int n = vsnprintf(s->lines[s->n++], STATE_LINE_BYTES, fmt, args);
    va_end(args);
    assert_true(n > 0 && n < (int)STATE_LINE_BYTES);
}

static inline void state_sort(struct state *s)
{
    qsort(s->lines, s->n, STATE_LINE_BYTES, (int (*)(const void *, const void *))strcmp);
}

static inline bool state_has(const struct state *s, const char *line)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->lines[i], line) == 0) return true;
    return false;
}

static inline bool state_equal(const struct state *a, const struct state *b)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->lines[i], b->lines[i]) != 0) return false;
    return true;
}

static inline void state_drop(struct state *s, const char *line)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(s->lines[i], line) == 0) continue;
        if (n < i) memcpy(s->lines[n], s->lines[i], STATE_LINE_BYTES);
        n++;
    }
    s->n = n;
}

/* Of two texts: nothing but what one of them has, and everything that both have. */
static inline bool state_between(const struct state *s, const struct state *old, const struct state *new)
{
    for (size_t i = 0; i < s->n; i++)
        if (!state_has(old, s->lines[i]) && !state_has(new, s->lines[i])) return false;
    for (size_t i = 0; i < old->n; i++)
        if (state_has(new, old->lines[i]) && !state_has(s, old->lines[i])) return false;
    return true;
}

static inline void state_print(const char *what, const struct state *s)
{
    print_error("%s:\n", what);
    for (size_t i = 0; i < s->n; i++) print_error("    %s\n", s->lines[i]);
}

/* Text of a utf8 column, "-" for null. */
static inline void column_text(const struct ArrowArray *a, int64_t row, char out[64])
{
    const int32_t *ends = a->buffers[1];
    if (a->null_count != 0 && a->buffers[0] && !bit_get(a->buffers[0], (uint64_t)row)) {
        memcpy(out, "-", 2);
        return;
    }
    (void)snprintf(out, 64, "%.*s", (int)(ends[row + 1] - ends[row]), (const char *)a->buffers[2] + ends[row]);
}

static inline uint64_t column_u64(const struct ArrowArray *a, int64_t row) { return ((const uint64_t *)a->buffers[1])[row]; }

/* Live rows and the sum of their ids. */
static inline void sum_rows(struct world *w, pennon_dataset *ds, uint64_t *rows, int64_t *sum)
{
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    pennon_scan_options o;
    pennon_scan_options_init(&o);
    o.call = &w->call;
    *rows = 0;
    *sum = 0;
    world_ok(w, pennon_scan(ds, &o, &stream, &w->err), "a version that is listed is not scanned");
    for (;;) {
        world_ok(w, stream_next(&stream, &batch, &w->err), "a version that is listed does not read");
        if (!batch.release) break;
        const int64_t *ids = batch.children[0]->buffers[1];
        for (int64_t i = 0; i < batch.length; i++) *sum += ids[batch.children[0]->offset + i];
        *rows += (uint64_t)batch.length;
        array_release(&batch);
    }
    stream_release(&stream);
}

static inline void add_version(struct world *w, struct state *s, const char *uri, const char *what, const char *branch,
                               uint64_t version, const char *operation)
{
    pennon_dataset *ds;
    uint64_t rows;
    int64_t sum;
    world_ok(w, world_open(w, uri, version, branch, &ds), "a version that is listed does not open");
    sum_rows(w, ds, &rows, &sum);
    pennon_dataset_free(ds);
    char number[24] = "detached";
    if (version >> 63 == 0) (void)snprintf(number, sizeof number, "%" PRIu64, version);
    state_add(s, "%s %s version %s: %" PRIu64 " rows, sum %" PRId64 ", %s", what, branch ? branch : "main", number, rows, sum,
              operation);
}

static inline void add_branch(struct world *w, struct state *s, const char *uri, const char *what, const char *branch)
{
    pennon_dataset *ds;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    uint64_t latest;
    char *config = NULL;
    world_ok(w, world_open(w, uri, PENNON_NONE, branch, &ds), "a branch that is listed does not open");
    world_ok(w, pennon_dataset_latest_version(ds, &w->call, &latest, &w->err), "latest");
    world_ok(w, pennon_dataset_metadata_json(ds, PENNON_METADATA_CONFIG, NULL, &config, &w->err), "config");
    state_add(s, "%s %s latest %" PRIu64 ", config %.80s, %zu bases", what, branch ? branch : "main", latest, config,
              ds->snapshot->manifest.n_base_paths);
    pennon_string_free(config);
    world_ok(w, pennon_dataset_versions(ds, &w->call, &stream, &w->err), "versions");
    for (;;) {
        world_ok(w, stream_next(&stream, &batch, &w->err), "versions");
        if (!batch.release) break;
        for (int64_t i = 0; i < batch.length; i++) {
            char operation[64];
            column_text(batch.children[7], i, operation);
            add_version(w, s, uri, what, branch, column_u64(batch.children[0], i), operation);
        }
        array_release(&batch);
    }
    stream_release(&stream);
    pennon_dataset_free(ds);
}

static inline bool has_version(struct world *w, const char *uri, const char *branch)
{
    pennon_dataset *ds;
    pennon_status st = world_open(w, uri, PENNON_NONE, branch, &ds);
    pennon_dataset_free(ds);
    if (st != PENNON_NOT_FOUND) world_ok(w, st, "a branch that is listed does not open");
    return st == PENNON_OK;
}

static inline void add_refs(struct world *w, struct state *s, const char *uri, const char *what)
{
    pennon_dataset *ds;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    char name[64], branch[64];
    world_ok(w, world_open(w, uri, PENNON_NONE, NULL, &ds), "open");
    world_ok(w, pennon_dataset_tags(ds, &w->call, &stream, &w->err), "tags");
    for (;;) {
        world_ok(w, stream_next(&stream, &batch, &w->err), "tags");
        if (!batch.release) break;
        for (int64_t i = 0; i < batch.length; i++) {
            column_text(batch.children[0], i, name);
            column_text(batch.children[1], i, branch);
            state_add(s, "%s tag %s: %s %" PRIu64, what, name, branch, column_u64(batch.children[2], i));
        }
        array_release(&batch);
    }
    stream_release(&stream);
    world_ok(w, pennon_dataset_branches(ds, &w->call, &stream, &w->err), "branches");
    for (;;) {
        world_ok(w, stream_next(&stream, &batch, &w->err), "branches");
        if (!batch.release) break;
        for (int64_t i = 0; i < batch.length; i++) {
            column_text(batch.children[0], i, name);
            column_text(batch.children[1], i, branch);
            if (!has_version(w, uri, name)) {
                state_add(s, "%s branch %s: no version", what, name);
                continue;
            }
            state_add(s, "%s branch %s: %s %" PRIu64, what, name, branch, column_u64(batch.children[2], i));
            add_branch(w, s, uri, what, name);
        }
        array_release(&batch);
    }
    stream_release(&stream);
    pennon_dataset_free(ds);
}

struct detached {
    uint64_t versions[8];
    size_t n;
};

static inline bool note_detached(void *ctx, const pennon_object_info *info)
{
    struct detached *d = ctx;
    const char *name = strrchr(info->path, '/') + 1;
    char *end = NULL;
    if (name[0] != 'd') return true;
    uint64_t v = strtoull(name + 1, &end, 10);
    if (strcmp(end, ".manifest") != 0) return true;
    assert_true(d->n < ARRAY_LEN(d->versions));
    d->versions[d->n++] = v | UINT64_C(1) << 63;
    return true;
}

static inline void add_table(struct world *w, struct state *s, const char *uri, const char *what)
{
    pennon_dataset *ds;
    pennon_status st = world_open(w, uri, PENNON_NONE, NULL, &ds);
    pennon_dataset_free(ds);
    if (st == PENNON_NOT_FOUND) {
        state_add(s, "%s: none", what);
        return;
    }
    world_ok(w, st, "the table does not open");
    add_branch(w, s, uri, what, NULL);
    add_refs(w, s, uri, what);
}

static inline void state_read(struct world *w, struct state *s)
{
    struct detached d = {.n = 0};
    char versions[160];
    s->n = 0;
    add_table(w, s, w->table, "table");
    add_table(w, s, w->clone, "clone");
    (void)snprintf(versions, sizeof versions, "%s/_versions", w->folder);
    world_ok(w, store_list(&w->c, w->store, versions, false, note_detached, &d, &w->err), "list");
    for (size_t i = 0; i < d.n; i++) add_version(w, s, w->table, "table", NULL, d.versions[i], "-");
    state_sort(s);
}

/* ---- verify ---- */

static inline void note_finding(void *ctx, const pennon_error *finding)
{
    struct world *w = ctx;
    if (!w->quiet) print_error("%s: %s (%s)\n", w->where, finding->message, finding->file ? finding->file : "-");
}

/* No finding in any version of any branch, but the one of a `half` branch; false when there are. */
static inline bool verify_clean(struct world *w, const char *uri, bool half)
{
    pennon_dataset *ds;
    pennon_verify_counts counts = {.struct_size = sizeof counts};
    pennon_verify_options o;
    pennon_status st = world_open(w, uri, PENNON_NONE, NULL, &ds);
    if (st == PENNON_NOT_FOUND) return true;
    world_ok(w, st, "the table does not open");
    pennon_verify_options_init(&o);
    o.call = &w->call;
    o.scope = PENNON_VERIFY_ALL;
    o.finding = note_finding;
    o.ctx = w;
    w->quiet = half;
    world_ok(w, pennon_dataset_verify(ds, &o, &counts, &w->err), "verify");
    pennon_dataset_free(ds);
    return counts.findings == (half ? 1 : 0);
}

#endif
