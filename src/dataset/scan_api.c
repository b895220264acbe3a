/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The public calls that scan, count by a filter, and explain. */
#include "dataset/dataset.h"
#include "exec/query.h"

void pennon_scan_options_init(pennon_scan_options *options)
{
    if (options) *options = (pennon_scan_options){.struct_size = sizeof *options, .limit = PENNON_NONE};
}

/* Options, call, and the version that the dataset holds now. */
struct scan_frame {
    struct api a;
    pennon_scan_options o;
    struct snapshot *s;
    struct file_cache *fc;
};

static pennon_status frame_begin(struct scan_frame *f, pennon_dataset *ds, const pennon_scan_options *options, const void *out)
{
    *f = (struct scan_frame){.a = {.err = NULL}};
    f->a.err = &f->a.local;
    pennon_error_init(&f->a.local);
    pennon_scan_options_init(&f->o);
    TRY_RETURN(options_read(&f->o, sizeof f->o, options, "pennon_scan_options", f->a.err));
    TRY_RETURN(api_begin(&f->a, f->o.call, ds, "dataset"));
    if (!out) return error_set(f->a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    dataset_get(ds, &f->s, &f->fc);
    return PENNON_OK;
}

static pennon_status frame_end(struct scan_frame *f, pennon_status st, pennon_error *err)
{
    if (f->s) {
        file_cache_release(f->fc);
        st = table_error(&f->s->at, st, f->a.err);
        snapshot_release(f->s);
    }
    return api_end(&f->a, st, err);
}

/* ---- scan ---- */

/* A stream that tells what it did. */
struct told {
    struct ArrowArrayStream in;
    struct query_run run;
    pennon_scan_stats_fn stats;
    void *ctx;
    struct mem *mem;
};

static void tell(struct told *t)
{
    if (!t->stats) return;
    const struct meter *m = &t->run.meters[METER_RESULT];
    const struct scan_counters *c = &t->run.counters;
    const pennon_scan_stats stats = {.struct_size = sizeof stats,
                                     .bytes_read = c->first.bytes + c->late.bytes,
                                     .requests = c->first.requests + c->late.requests,
                                     .rows_scanned = c->looked_at,
                                     .rows = m->rows,
                                     .batches = m->batches,
                                     .nanoseconds = m->ns};
    t->stats(t->ctx, &stats);
    t->stats = NULL;
}

static pennon_status told_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct told *t = ctx;
    pennon_status st = stream_next(&t->in, out, err);
    if (st != PENNON_OK || !out->release) tell(t);
    return st;
}

static void told_free(void *ctx)
{
    struct told *t = ctx;
    struct mem *m = t->mem;
    stream_release(&t->in);
    tell(t);
    mem_free(m, t);
    mem_release(m);
}

static pennon_status open_told(struct scan_frame *f, struct query *q, struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mem *m = f->a.c.mem;
    struct ArrowSchema schema = {0};
    struct told *t = mem_calloc(m, 1, sizeof *t, err);
    if (!t) return err->code;
    t->mem = mem_retain(m);
    TRY(query_open(&f->a.c, f->s, f->fc, q, &t->run, &t->in, err));
    TRY(stream_schema(&t->in, &schema, err));
    struct told *mine = t;
    t = NULL;
    TRY(stream_new(&schema, told_next, told_free, mine, m, out, err));
    mine->stats = f->o.stats;
    mine->ctx = f->o.stats_ctx;
done:
    arrow_schema_release(&schema);
    if (t) told_free(t);
    return st;
}

pennon_status pennon_scan(pennon_dataset *ds, const pennon_scan_options *options, struct ArrowArrayStream *out, pennon_error *err)
{
    struct scan_frame f;
    struct query *q = NULL;
    pennon_status st = frame_begin(&f, ds, options, out);
    if (st == PENNON_OK) st = query_new(&f.a.c, f.s, f.fc, &f.o, &q, f.a.err);
    if (st == PENNON_OK && f.o.stats) {
        st = open_told(&f, q, out, f.a.err);
    } else if (st == PENNON_OK) {
        st = query_open(&f.a.c, f.s, f.fc, q, NULL, out, f.a.err);
    }
    query_free(q);
    return frame_end(&f, st, err);
}

pennon_status pennon_scan_count(pennon_dataset *ds, const pennon_scan_options *options, uint64_t *rows, pennon_error *err)
{
    struct scan_frame f;
    pennon_status st = frame_begin(&f, ds, options, rows);
    if (st == PENNON_OK) st = query_count(&f.a.c, f.s, f.fc, &f.o, rows, f.a.err);
    return frame_end(&f, st, err);
}

/* ---- explain ---- */

static pennon_status run_query(struct scan_frame *f, struct query *q, struct query_run *run, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArrayStream stream = {0};
    struct ArrowArray batch = {0};
    TRY(query_open(&f->a.c, f->s, f->fc, q, run, &stream, err));
    do {
        array_release(&batch);
        TRY(stream_next(&stream, &batch, err));
    } while (batch.release);
done:
    stream_release(&stream);
    return st;
}

pennon_status pennon_scan_explain(pennon_dataset *ds, const pennon_scan_options *options, bool analyze, char **text,
                                  pennon_error *err)
{
    struct scan_frame f;
    struct query *q = NULL;
    struct query_run run = {.counters = {.looked_at = 0}};
    pennon_status st = frame_begin(&f, ds, options, text);
    if (st == PENNON_OK) {
        struct buf b;
        buf_init(&b, f.a.c.mem, (size_t)1 << 28);
        st = query_new(&f.a.c, f.s, f.fc, &f.o, &q, f.a.err);
        if (st == PENNON_OK && analyze) st = run_query(&f, q, &run, f.a.err);
        if (st == PENNON_OK) st = query_explain(&f.a.c, f.s, f.fc, q, analyze ? &run : NULL, &b, f.a.err);
        if (st == PENNON_OK) st = text_out(&b, text, f.a.err);
        buf_free(&b);
    }
    query_free(q);
    return frame_end(&f, st, err);
}
