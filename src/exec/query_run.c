/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Running a query: its operators as streams over one another, and the counts without any column.
 * Source: spec expressions 10.2, 10.3, 11. */
#include "exec/query.h"

/* ---- meters ---- */

struct metered {
    struct ArrowArrayStream in;
    struct meter *meter;
    struct mem *mem;
};

static pennon_status metered_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct metered *m = ctx;
    const int64_t start = clock_monotonic_ns();
    pennon_status st = stream_next(&m->in, out, err);
    atomic_fetch_add_explicit(&m->meter->ns, (uint64_t)(clock_monotonic_ns() - start), memory_order_relaxed);
    if (st == PENNON_OK && out->release) {
        atomic_fetch_add_explicit(&m->meter->rows, (uint64_t)out->length, memory_order_relaxed);
        atomic_fetch_add_explicit(&m->meter->batches, 1, memory_order_relaxed);
    }
    return st;
}

static void metered_free(void *ctx)
{
    struct metered *m = ctx;
    struct mem *mem = m->mem;
    stream_release(&m->in);
    mem_free(mem, m);
    mem_release(mem);
}

/* Put a meter on the stream; `run` may be NULL. */
static pennon_status put_meter(struct mem *mem, struct query_run *run, int which, struct ArrowArrayStream *stream,
                               pennon_error *err)
{
    if (!run) return PENNON_OK;
    pennon_status st = PENNON_OK;
    struct ArrowSchema schema = {0};
    struct metered *m = NULL;
    TRY(stream_schema(stream, &schema, err));
    TRY_NEW(m, mem_calloc(mem, 1, sizeof *m, err));
    m->mem = mem_retain(mem);
    m->meter = &run->meters[which];
    stream_move(stream, &m->in);
    struct metered *mine = m;
    m = NULL;
    TRY(stream_new(&schema, metered_next, metered_free, mine, mem, stream, err));
done:
    arrow_schema_release(&schema);
    return st;
}

/* ---- after the sort ---- */

struct sorted {
    struct call call;
    struct snapshot *s;
    struct file_cache *fc;
    struct scan_plan *take; /* NULL: columns that are there */
    struct query_run *run;  /* or NULL */
    size_t n_visible;
    struct ArrowArrayStream in;
    uint64_t batch_bytes;
    /* rows that came, of which those before `at` are given */
    struct ArrowArray batch;
    uint64_t at, step;
};

/* The columns that are in the result. */
static pennon_status show_columns(struct sorted *t, struct ArrowArray *out, pennon_error *err)
{
    struct ArrowArray *b = &t->batch;
    TRY_RETURN(array_new(out, 1, t->n_visible, t->call.mem, err));
    out->length = b->length;
    ASSERT(b->offset == 0 && (size_t)b->n_children >= t->n_visible);
    for (size_t i = 0; i < t->n_visible; i++) array_move(b->children[i], out->children[i]);
    array_release(b);
    return PENNON_OK;
}

static pennon_status take_step(struct sorted *t, struct ArrowArray *out, pennon_error *err)
{
    const struct ArrowArray *column = t->batch.children[t->batch.n_children - 1];
    const uint64_t *places = (const uint64_t *)column->buffers[1] + column->offset + t->batch.offset;
    struct call c = t->call;
    if (t->run) c.counters = &t->run->counters.taken;
    for (;;) {
        const uint64_t n = min_u64(t->step, (uint64_t)t->batch.length - t->at);
        ASSERT(n > 0);
        const int64_t start = t->run ? clock_monotonic_ns() : 0;
        pennon_status st = plan_take(&c, t->s, t->fc, t->take, places + t->at, (size_t)n, out, err);
        if (st == PENNON_OK) {
            ASSERT(out->length == (int64_t)n);
            t->at += n;
            if (t->run) {
                atomic_fetch_add_explicit(&t->run->counters.taken_rows, n, memory_order_relaxed);
                atomic_fetch_add_explicit(&t->run->counters.taken_ns, (uint64_t)(clock_monotonic_ns() - start),
                                          memory_order_relaxed);
            }
            t->step = max_u64(t->batch_bytes / max_u64(array_bytes(&t->take->arrow, out) / n, 1), 1);
            return PENNON_OK;
        }
        const bool too_much = st == PENNON_OVER_BUDGET || (err->kind && strcmp(err->kind, "OffsetOverflow") == 0);
        if (!too_much || n == 1) return st;
        pennon_error_clear(err);
        t->step = t->batch_bytes = n / 2;
    }
}

static pennon_status sorted_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct sorted *t = ctx;
    out->release = NULL;
    while (t->at >= (uint64_t)t->batch.length || !t->batch.release) {
        array_release(&t->batch);
        t->at = 0;
        TRY_RETURN(stream_next(&t->in, &t->batch, err));
        if (!t->batch.release) return PENNON_OK;
        if (!t->take) return show_columns(t, out, err);
    }
    pennon_status st = take_step(t, out, err);
    return st == PENNON_OK ? st : table_error(&t->s->at, st, err);
}

static void sorted_free(void *ctx)
{
    struct sorted *t = ctx;
    struct call c = t->call;
    stream_release(&t->in);
    array_release(&t->batch);
    scan_plan_free(t->take);
    file_cache_release(t->fc);
    snapshot_release(t->s);
    mem_free(c.mem, t);
    call_end(&c);
}

static pennon_status visible_schema(const struct query *q, struct ArrowSchema *out, pennon_error *err)
{
    if (q->take) return arrow_schema_copy(&q->take->arrow, q->mem, out, err);
    const struct ArrowSchema *from = &q->read->arrow;
    TRY_RETURN(arrow_schema_copy(from, q->mem, out, err));
    struct ArrowSchema cut = {0};
    pennon_status st = PENNON_OK;
    TRY(arrow_schema_new(&cut, "+s", "", 0, q->n_visible, q->mem, err));
    for (size_t i = 0; i < q->n_visible; i++) arrow_schema_move(out->children[i], cut.children[i]);
    struct arrow_metadata_walk walk = arrow_metadata_begin(from->metadata);
    for (struct arrow_pair pair; arrow_metadata_next(&walk, &pair);) TRY(arrow_metadata_set(&cut, pair.key, pair.value, err));
    arrow_schema_release(out);
    arrow_schema_move(&cut, out);
done:
    arrow_schema_release(&cut);
    if (st != PENNON_OK) arrow_schema_release(out);
    return st;
}

static pennon_status after_sort(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct query *q,
                                struct query_run *run, struct ArrowArrayStream *stream, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema schema = {0};
    struct sorted *t = NULL;
    if (!q->take && q->n_visible == q->read->n_outputs) return PENNON_OK;
    TRY(visible_schema(q, &schema, err));
    TRY_NEW(t, mem_calloc(c->mem, 1, sizeof *t, err));
    call_copy(&t->call, c);
    t->s = snapshot_retain(s);
    t->fc = file_cache_retain(fc);
    t->take = q->take ? scan_plan_retain(q->take) : NULL;
    t->run = run;
    t->n_visible = q->n_visible;
    t->batch_bytes = q->batch_bytes;
    t->step = q->batch_bytes == UINT64_MAX ? UINT64_MAX : 1024;
    stream_move(stream, &t->in);
    struct sorted *mine = t;
    t = NULL;
    TRY(stream_new(&schema, sorted_next, sorted_free, mine, c->mem, stream, err));
done:
    arrow_schema_release(&schema);
    return st;
}

/* ---- the chain ---- */

static pennon_status open_read(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct query *q,
                               struct query_run *run, struct ArrowArrayStream *out, pennon_error *err)
{
    const bool sorts = q->n_keys != 0;
    struct scan_spec spec = {.limit = sorts && q->limit ? UINT64_MAX : q->limit,
                             .offset = sorts ? 0 : q->offset,
                             .batch_rows = q->batch_rows,
                             .batch_bytes = q->batch_bytes,
                             .readahead = q->readahead,
                             .unordered = q->unordered,
                             .fragments = q->fragments,
                             .n_fragments = q->n_fragments,
                             .counters = run ? &run->counters : NULL};
    return scan_open(c, s, fc, scan_plan_retain(q->read), &spec, out, err);
}

pennon_status query_open(const struct call *c, struct snapshot *s, struct file_cache *fc, struct query *q, struct query_run *run,
                         struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArrayStream stream = {0}, next = {0};
    TRY(open_read(c, s, fc, q, run, &stream, err));
    TRY(put_meter(c->mem, run, METER_READ, &stream, err));
    if (q->n_keys) {
        TRY(sort_open(c, &stream, q->keys, q->n_keys, q->offset, q->limit, q->batch_rows, &next, err));
        stream_move(&next, &stream);
        TRY(put_meter(c->mem, run, METER_SORT, &stream, err));
        TRY(after_sort(c, s, fc, q, run, &stream, err));
        TRY(put_meter(c->mem, run, METER_TAKE, &stream, err));
    }
    if (q->aggregates) {
        TRY(aggregate_open(c, &stream, q->groups, q->n_groups, q->items, q->n_items, &next, err));
        stream_move(&next, &stream);
        TRY(put_meter(c->mem, run, METER_AGGREGATE, &stream, err));
    }
    if (q->rebatch) {
        TRY(stream_rebatch(&stream, q->rebatch_rows, q->rebatch_bytes, c->mem, &next, err));
        stream_move(&next, &stream);
    }
    TRY(put_meter(c->mem, run, METER_RESULT, &stream, err));
    stream_move(&stream, out);
done:
    stream_release(&stream);
    return st;
}

/* ---- counting ---- */

static pennon_status count_unfiltered(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct query *q,
                                      bool with_deleted, uint64_t *rows, pennon_error *err)
{
    *rows = 0;
    for (size_t i = 0; i < q->n_fragments; i++) {
        uint64_t n;
        TRY_RETURN(call_check(c, err));
        if (with_deleted) {
            TRY_RETURN(fragment_physical_rows(c, s, q->fragments[i], file_cache_length, fc, &n, err));
        } else {
            TRY_RETURN(fragment_live_rows(c, s, q->fragments[i], file_cache_length, fc, &n, err));
        }
        *rows += n;
    }
    return PENNON_OK;
}

pennon_status query_count(const struct call *c, struct snapshot *s, struct file_cache *fc, const pennon_scan_options *o,
                          uint64_t *rows, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const pennon_names none = {0};
    pennon_scan_options asked = *o;
    struct query *q = NULL;
    struct ArrowArrayStream stream = {0};
    struct ArrowArray batch = {0};
    *rows = 0;
    if (o->aggregates) FAIL(PENNON_INVALID_ARGUMENT, "a count together with aggregates");
    if (o->limit != PENNON_NONE || o->offset) FAIL(PENNON_INVALID_ARGUMENT, "a count together with limit or offset");
    asked.columns = &none;
    asked.expressions = NULL;
    asked.order_by = NULL;
    asked.late_columns = NULL;
    asked.materialize = PENNON_MATERIALIZE_EARLY;
    asked.with_row_address = asked.strict_batches = false;
    asked.batch_bytes = 0;
    asked.batch_rows = UINT64_MAX; /* what is counted need not be cut */
    asked.with_row_id = asked.include_deleted_rows;
    TRY(query_new(c, s, fc, &asked, &q, err));
    if (!q->read->filter) {
        if (!q->read->nothing) TRY(count_unfiltered(c, s, fc, q, o->include_deleted_rows, rows, err));
        goto done;
    }
    TRY(query_open(c, s, fc, q, NULL, &stream, err));
    for (;;) {
        TRY(stream_next(&stream, &batch, err));
        if (!batch.release) break;
        *rows += (uint64_t)batch.length;
        array_release(&batch);
    }
done:
    stream_release(&stream);
    query_free(q);
    return st;
}
