/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The public calls of deltas: rows that came or changed are a scan with a filter over the version columns; those that went are taken from `begin`.
 *
 * Source: spec commits 13. */
#include "dataset/delta.h"

#include <stdio.h>

#include "exec/plan.h"
#include "exec/query.h"
#include "pennon/transaction.h"

#define BATCH_ROWS_DEFAULT 8192u

static const char *const lineage_names[] = {"_rowid", "_row_created_at_version", "_row_last_updated_at_version"};

void pennon_delta_options_init(pennon_delta_options *options)
{
    if (options)
        *options = (pennon_delta_options){.struct_size = sizeof *options,
                                          .compared_against = PENNON_NONE,
                                          .begin_version = PENNON_NONE,
                                          .end_version = PENNON_NONE,
                                          .begin_ns = INT64_MIN,
                                          .end_ns = INT64_MIN};
}

/* Options, call, the version of the handle, and the range. */
struct delta_frame {
    struct api a;
    pennon_delta_options o;
    struct snapshot *s;
    struct file_cache *fc;
    struct delta_range range;
};

static pennon_status frame_begin(struct delta_frame *f, pennon_dataset *ds, const pennon_delta_options *options, const void *out)
{
    *f = (struct delta_frame){.a = {.err = NULL}};
    f->a.err = &f->a.local;
    pennon_error_init(&f->a.local);
    pennon_delta_options_init(&f->o);
    TRY_RETURN(options_read(&f->o, sizeof f->o, options, "pennon_delta_options", f->a.err));
    TRY_RETURN(api_begin(&f->a, f->o.call, ds, "dataset"));
    if (!out) return error_set(f->a.err, PENNON_INVALID_ARGUMENT, "the output is NULL");
    dataset_get(ds, &f->s, &f->fc);
    return delta_resolve(&f->a.c, f->s, &f->o, &f->range, f->a.err);
}

static pennon_status frame_end(struct delta_frame *f, pennon_status st, pennon_error *err)
{
    if (f->s) {
        file_cache_release(f->fc);
        st = table_error(&f->s->at, st, f->a.err);
        snapshot_release(f->s);
    }
    return api_end(&f->a, st, err);
}

pennon_status pennon_dataset_delta_range(pennon_dataset *ds, const pennon_delta_options *options, uint64_t *begin, uint64_t *end,
                                         pennon_error *err)
{
    struct delta_frame f;
    pennon_status st = frame_begin(&f, ds, options, begin && end ? begin : NULL);
    if (st == PENNON_OK) {
        *begin = f.range.begin;
        *end = f.range.end;
    }
    return frame_end(&f, st, err);
}

/* ---- what is asked of rows ---- */

static pennon_status check_rows(struct delta_frame *f, int32_t kind, pennon_error *err)
{
    if (kind < PENNON_DELTA_INSERTED || kind > PENNON_DELTA_DELETED)
        return error_set(err, PENNON_INVALID_ARGUMENT, "kind %d is not one of the PENNON_DELTA_ values", kind);
    if (!snapshot_has_stable_ids(f->s))
        return error_set(err, PENNON_NOT_SUPPORTED,
                         "rows of a delta of a dataset without stable row ids, which does not know when its rows were made");
    if (!f->o.filter) return PENNON_OK;
    /* It becomes a part of another expression: it has to be one by itself. */
    struct scan_plan *p = NULL;
    pennon_status st = scan_plan_begin(f->s, BLOB_AS_DESCRIPTOR, false, f->a.c.mem, &p, err);
    if (st == PENNON_OK) st = scan_plan_filter(p, f->s, f->o.filter, bytes_of(NULL, 0), err);
    scan_plan_free(p);
    return st;
}

/* SQL of the rows of a kind that is read in the handle's version; in c->mem. */
static char *filter_of(const struct delta_frame *f, int32_t kind, pennon_error *err)
{
    const uint64_t b = min_u64(f->range.begin, INT64_MAX), e = min_u64(f->range.end, INT64_MAX); /* literals are signed */
    struct mem *m = f->a.c.mem;
    char inserted[256], updated[256];
    const char *created = lineage_names[1], *last = lineage_names[2], *own = f->o.filter;
    (void)snprintf(inserted, sizeof inserted, "(%s > %" PRIu64 " AND %s <= %" PRIu64 ")", created, b, created, e);
    (void)snprintf(updated, sizeof updated, "(%s <= %" PRIu64 " AND %s > %" PRIu64 " AND %s <= %" PRIu64 ")", created, b, last, b,
                   last, e);
    const char *first = kind == PENNON_DELTA_UPDATED ? "" : inserted, *second = kind == PENNON_DELTA_INSERTED ? "" : updated;
    return mem_printf(m, err, "%s%s%s(%s%s%s)", own ? "(" : "", own ? own : "", own ? "\n) AND " : "", first,
                      first[0] && second[0] ? " OR " : "", second);
}

/* The columns, then those of the lineage that are not among them. */
static pennon_status names_of(const struct delta_frame *f, const struct snapshot *s, const char ***out, size_t *n,
                              pennon_error *err)
{
    const pennon_names *given = f->o.columns;
    const size_t own = given ? given->n : s->schema->n_fields;
    const char **names = mem_calloc(f->a.c.mem, own + ARRAY_LEN(lineage_names), sizeof *names, err);
    if (!names) return err->code;
    for (*n = 0; *n < own; ++*n) names[*n] = given ? given->items[*n] : s->schema->fields[*n]->name;
    for (size_t i = 0; i < ARRAY_LEN(lineage_names); i++) {
        size_t k = 0;
        while (k < own && !(names[k] && strcmp(names[k], lineage_names[i]) == 0)) k++;
        if (k == own) names[(*n)++] = lineage_names[i];
    }
    *out = names;
    return PENNON_OK;
}

/* ---- rows that came or changed ---- */

static pennon_status scan_rows(struct delta_frame *f, int32_t kind, struct ArrowArrayStream *out, uint64_t *count,
                               pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct query *q = NULL;
    pennon_scan_options o;
    pennon_names columns;
    const char **names = NULL;
    char *filter = NULL;
    pennon_scan_options_init(&o);
    TRY(names_of(f, f->s, &names, &columns.n, err));
    TRY_NEW(filter, filter_of(f, kind, err));
    columns.items = names;
    o.filter = filter;
    if (count) {
        TRY(query_count(&f->a.c, f->s, f->fc, &o, count, err));
        goto done;
    }
    o.columns = &columns;
    o.blobs = f->o.blobs;
    o.batch_rows = f->o.batch_rows;
    TRY(query_new(&f->a.c, f->s, f->fc, &o, &q, err));
    TRY(query_open(&f->a.c, f->s, f->fc, q, NULL, out, err));
done:
    query_free(q);
    mem_free(f->a.c.mem, names);
    mem_free(f->a.c.mem, filter);
    return st;
}

/* ---- rows that went ---- */

struct deleted_stream {
    struct call c;
    struct delta_deleted rows;
    struct scan_plan *plan;
    size_t at, batch;
};

static pennon_status deleted_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct deleted_stream *d = ctx;
    out->release = NULL;
    if (d->at == d->rows.n) return PENNON_OK;
    for (;;) {
        const size_t n = (size_t)min_u64(d->batch, d->rows.n - d->at);
        pennon_status st = call_check(&d->c, err);
        if (st == PENNON_OK) st = plan_take(&d->c, d->rows.begin, d->rows.files, d->plan, d->rows.places + d->at, n, out, err);
        const bool split = st == PENNON_OVER_BUDGET || (st != PENNON_OK && err->kind && strcmp(err->kind, "OffsetOverflow") == 0);
        if (split && n > 1) {
            d->batch = n / 2;
            pennon_error_clear(err);
            continue;
        }
        if (st == PENNON_OK) d->at += n;
        return table_error(&d->rows.begin->at, st, err);
    }
}

static void deleted_free(void *ctx)
{
    struct deleted_stream *d = ctx;
    struct call c = d->c;
    scan_plan_free(d->plan);
    delta_deleted_free(&c, &d->rows);
    mem_free(c.mem, d);
    call_end(&c);
}

/* There was no version before the range: no row went. */
static pennon_status no_rows(struct delta_frame *f, struct ArrowArrayStream *out, pennon_error *err)
{
    f->range = (struct delta_range){INT64_MAX, 0};
    return scan_rows(f, PENNON_DELTA_INSERTED, out, NULL, err);
}

static pennon_status deleted_rows(struct delta_frame *f, struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct call *c = &f->a.c;
    const char **names = NULL;
    struct ArrowSchema schema = {0};
    struct column_request r = {.n = 0};
    if (f->range.begin == 0 || f->range.begin >= f->range.end) return no_rows(f, out, err);
    struct deleted_stream *d = mem_calloc(c->mem, 1, sizeof *d, err);
    if (!d) return err->code;
    call_copy(&d->c, c);
    d->batch = f->o.batch_rows ? (size_t)f->o.batch_rows : BATCH_ROWS_DEFAULT;
    TRY(delta_find_deleted(&d->c, f->s, &f->range, f->o.filter, &d->rows, err));
    TRY(names_of(f, d->rows.begin, &names, &r.n, err));
    r.columns = names;
    TRY(blob_option(f->o.blobs, &r.blobs, err));
    TRY(scan_plan_direct(d->rows.begin, &r, d->c.mem, &d->plan, err));
    TRY(arrow_schema_copy(&d->plan->arrow, c->mem, &schema, err));
    struct deleted_stream *mine = d;
    d = NULL;
    st = stream_new(&schema, deleted_next, deleted_free, mine, mine->c.mem, out, err);
done:
    mem_free(c->mem, names);
    if (d) deleted_free(d);
    return st;
}

pennon_status pennon_dataset_delta(pennon_dataset *ds, int32_t kind, const pennon_delta_options *options,
                                   struct ArrowArrayStream *out, pennon_error *err)
{
    struct delta_frame f;
    pennon_status st = frame_begin(&f, ds, options, out);
    if (st == PENNON_OK) st = check_rows(&f, kind, f.a.err);
    if (st == PENNON_OK)
        st = kind == PENNON_DELTA_DELETED ? deleted_rows(&f, out, f.a.err) : scan_rows(&f, kind, out, NULL, f.a.err);
    return frame_end(&f, st, err);
}

/* ---- counts ---- */

static pennon_status count_rows(struct delta_frame *f, pennon_delta_counts *n, pennon_error *err)
{
    struct delta_deleted gone;
    TRY_RETURN(check_rows(f, PENNON_DELTA_UPSERTED, err));
    n->begin = f->range.begin;
    n->end = f->range.end;
    TRY_RETURN(scan_rows(f, PENNON_DELTA_INSERTED, NULL, &n->inserted, err));
    TRY_RETURN(scan_rows(f, PENNON_DELTA_UPDATED, NULL, &n->updated, err));
    if (n->begin == 0 || n->begin >= n->end) return PENNON_OK;
    TRY_RETURN(delta_find_deleted(&f->a.c, f->s, &f->range, f->o.filter, &gone, err));
    n->deleted = gone.n;
    delta_deleted_free(&f->a.c, &gone);
    return PENNON_OK;
}

pennon_status pennon_dataset_delta_counts(pennon_dataset *ds, const pennon_delta_options *options, pennon_delta_counts *counts,
                                          pennon_error *err)
{
    struct delta_frame f;
    pennon_delta_counts n = {.struct_size = sizeof n};
    pennon_status st = frame_begin(&f, ds, options, counts);
    if (st == PENNON_OK && counts->struct_size <= sizeof counts->struct_size)
        st = error_set(f.a.err, PENNON_INVALID_ARGUMENT, "struct_size of the counts is not set");
    if (st == PENNON_OK) st = count_rows(&f, &n, f.a.err);
    if (st == PENNON_OK) {
        n.struct_size = min_u64(counts->struct_size, sizeof n);
        memcpy(counts, &n, n.struct_size);
    }
    return frame_end(&f, st, err);
}

/* ---- transactions ---- */

static pennon_status put_transaction(struct builder *rows, uint64_t version, const pennon_transaction *t, pennon_error *err)
{
    TRY_RETURN(builder_append_uint(builder_child(rows, 0), version, err));
    TRY_RETURN(builder_append_uint(builder_child(rows, 1), pennon_transaction_read_version(t), err));
    TRY_RETURN(builder_append_bytes(builder_child(rows, 2), bytes_str(pennon_transaction_operation(t)), err));
    TRY_RETURN(builder_append_bytes(builder_child(rows, 3), bytes_str(pennon_transaction_uuid(t)), err));
    return builder_append_row(rows, err);
}

static pennon_status list_transactions(struct delta_frame *f, pennon_dataset *ds, struct ArrowArrayStream *out, pennon_error *err)
{
    static const char type[] = "struct<version: uint64 not null, read_version: uint64 not null, operation: string, uuid: string>";
    pennon_status st = PENNON_OK;
    const struct call *c = &f->a.c;
    struct ArrowSchema schema = {0};
    struct ArrowArray batch = {0};
    struct builder *rows = NULL;
    TRY(arrow_schema_from_text(bytes_str(type), "", c->mem, &schema, err));
    schema.flags = 0;
    TRY_NEW(rows, builder_new(&schema, c->mem, err));
    for (uint64_t version = f->range.begin; version < f->range.end; version++) {
        pennon_transaction *t = NULL;
        TRY(call_check(c, err));
        st = pennon_dataset_transaction(ds, f->o.call, version + 1, &t, err);
        if (st == PENNON_NOT_FOUND) {
            pennon_error_clear(err);
            (void)error_set(err, st, "Can not find version %" PRIu64 ", please check if it has been cleanup.", version + 1);
            st = error_kind(err, "VersionNotFound");
        }
        if (st == PENNON_OK && t) st = put_transaction(rows, version + 1, t, err);
        pennon_transaction_free(t);
        if (st != PENNON_OK) goto done;
    }
    TRY(builder_finish(rows, &batch, err));
    TRY(stream_of_batch(c, &schema, &batch, out, err));
done:
    builder_free(rows);
    arrow_schema_release(&schema);
    array_release(&batch);
    return st;
}

pennon_status pennon_dataset_delta_transactions(pennon_dataset *ds, const pennon_delta_options *options,
                                                struct ArrowArrayStream *out, pennon_error *err)
{
    struct delta_frame f;
    pennon_status st = frame_begin(&f, ds, options, out);
    if (st == PENNON_OK) st = list_transactions(&f, ds, out, f.a.err);
    return frame_end(&f, st, err);
}
