/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Rows that went between two versions: those whose stable row id is in the one and not in the other.
 *
 *   fragments of `begin` that `end` has as they were: nothing of them went
 *   the others: a scan of row id and place, with the filter, which reads no data files without one
 *     -> row ids that `end` does not have -> their places
 *
 * Source: spec commits 7.5, table-format 9. */
#include "dataset/delta.h"
#include "exec/plan.h"

#define BATCH_ROWS 65536u

void delta_deleted_free(const struct call *c, struct delta_deleted *d)
{
    mem_free(c->mem, d->places);
    file_cache_release(d->files);
    snapshot_release(d->begin);
    snapshot_release(d->end);
    *d = (struct delta_deleted){.n = 0};
}

static bool is_unchanged(const struct fragment *f, const struct snapshot *end)
{
    const struct fragment *now = snapshot_find_fragment(end, f->id);
    return now && bytes_equal(now->raw, f->raw);
}

static pennon_status make_plan(const struct call *c, struct snapshot *s, const char *filter, struct scan_plan **out,
                               pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct scan_plan *p = NULL;
    TRY(scan_plan_begin(s, BLOB_AS_DESCRIPTOR, false, c->mem, &p, err));
    if (filter) TRY(scan_plan_filter(p, s, filter, bytes_of(NULL, 0), err));
    TRY(scan_plan_column(p, "_rowid", err));
    TRY(scan_plan_place(p, err));
    TRY(scan_plan_finish(p, s, PENNON_MATERIALIZE_HEURISTIC, NULL, err));
    *out = p;
    p = NULL;
done:
    scan_plan_free(p);
    return st;
}

static pennon_status open_scan(const struct call *c, struct delta_deleted *d, const char *filter, struct ArrowArrayStream *out,
                               pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct scan_plan *plan = NULL;
    const struct fragment **changed = NULL;
    struct scan_spec spec = {.limit = UINT64_MAX, .batch_rows = BATCH_ROWS, .batch_bytes = UINT64_MAX, .readahead = c->threads * 2};
    TRY_NEW(changed, mem_calloc(c->mem, d->begin->n_fragments + 1, sizeof *changed, err));
    for (size_t i = 0; i < d->begin->n_fragments; i++) {
        if (!is_unchanged(&d->begin->fragments[i], d->end)) changed[spec.n_fragments++] = &d->begin->fragments[i];
    }
    spec.fragments = changed;
    TRY(make_plan(c, d->begin, filter, &plan, err));
    st = scan_open(c, d->begin, d->files, plan, &spec, out, err); /* takes the plan */
done:
    mem_free(c->mem, changed);
    return st;
}

static const uint64_t *words(const struct ArrowArray *a) { return (const uint64_t *)a->buffers[1] + a->offset; }

static pennon_status note_batch(const struct call *c, struct delta_deleted *d, const struct ArrowArray *batch, pennon_error *err)
{
    const size_t n = (size_t)batch->length;
    const uint64_t *places = words(batch->children[1]);
    pennon_status st = PENNON_OK;
    uint64_t *now;
    ASSERT(batch->n_children == 2 && batch->offset == 0);
    TRY_NEW(now, mem_calloc(c->mem, n + 1, sizeof *now, err));
    TRY(resolve_row_ids(c, d->end, words(batch->children[0]), n, now, err));
    for (size_t i = 0; i < n; i++) {
        if (now[i] != ADDRESS_NONE) continue;
        TRY(mem_grow(c->mem, &d->places, &d->cap, d->n, sizeof *d->places, SIZE_MAX / 16, err));
        d->places[d->n++] = places[i];
    }
done:
    mem_free(c->mem, now);
    return st;
}

pennon_status delta_find_deleted(const struct call *c, struct snapshot *s, const struct delta_range *r, const char *filter,
                                 struct delta_deleted *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArrayStream scan = {0};
    struct ArrowArray batch = {0};
    *out = (struct delta_deleted){.n = 0};
    TRY(delta_open_version(c, s, r->begin, &out->begin, err));
    TRY(delta_open_version(c, s, r->end, &out->end, err));
    if (!snapshot_has_stable_ids(out->begin) || !snapshot_has_stable_ids(out->end))
        FAIL(PENNON_NOT_SUPPORTED, "deleted rows between versions %" PRIu64 " and %" PRIu64 ", of which one has no stable row ids",
             r->begin, r->end);
    TRY_NEW(out->files, file_cache_new(runtime_mem(c->runtime), 256, err));
    TRY(open_scan(c, out, filter, &scan, err));
    do {
        array_release(&batch);
        TRY(call_check(c, err));
        TRY(stream_next(&scan, &batch, err));
        if (batch.release) TRY(note_batch(c, out, &batch, err));
    } while (batch.release);
done:
    array_release(&batch);
    stream_release(&scan);
    if (st != PENNON_OK) delta_deleted_free(c, out);
    return st;
}
