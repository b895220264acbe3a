/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The text of a plan, in the form of official's: a node a line, its input two blanks further in. Source: spec expressions 13. */
#include "exec/query.h"

struct writer {
    const struct query *q;
    const struct query_run *run; /* NULL: not analyzed */
    struct buf *out;
    pennon_error *err;
    unsigned depth;
    pennon_status st;
};

static void put(struct writer *w, const char *text)
{
    if (w->st == PENNON_OK) w->st = buf_append(w->out, text, strlen(text), w->err);
}

static void put_number(struct writer *w, const char *before, uint64_t n)
{
    if (w->st == PENNON_OK) w->st = buf_printf(w->out, w->err, "%s%" PRIu64, before, n);
}

static void put_expr(struct writer *w, const struct expr *e)
{
    if (w->st == PENNON_OK) w->st = expr_print(e, w->out, w->err);
}

static uint64_t get(const _Atomic(uint64_t) *n) { return atomic_load_explicit(n, memory_order_relaxed); }

static void put_time(struct writer *w, const char *before, uint64_t ns)
{
    if (w->st != PENNON_OK) return;
    if (ns < 1000) {
        w->st = buf_printf(w->out, w->err, "%s%" PRIu64 "ns", before, ns);
    } else if (ns < 1000000) {
        w->st = buf_printf(w->out, w->err, "%s%" PRIu64 ".%02" PRIu64 "\xC2\xB5s", before, ns / 1000, ns % 1000 / 10);
    } else if (ns < 1000000000) {
        w->st = buf_printf(w->out, w->err, "%s%" PRIu64 ".%02" PRIu64 "ms", before, ns / 1000000, ns % 1000000 / 10000);
    } else {
        w->st = buf_printf(w->out, w->err, "%s%" PRIu64 ".%02" PRIu64 "s", before, ns / 1000000000, ns % 1000000000 / 10000000);
    }
}

/* The line of a node begins; with a meter its time is told. */
static void begin(struct writer *w, const char *name, const struct meter *m)
{
    for (unsigned i = 0; i < w->depth; i++) put(w, "  ");
    put(w, name);
    put(w, ": ");
    if (!w->run || !m) return;
    put_time(w, "elapsed=", get(&m->ns));
    put(w, ", ");
}

/* It ends: rows and batches; the caller adds more with `more`, which may be NULL. */
static void end(struct writer *w, const struct meter *m, void (*more)(struct writer *w))
{
    if (w->run) {
        put(w, ", metrics=[");
        if (m) {
            put_number(w, "output_rows=", get(&m->rows));
            put_number(w, ", output_batches=", get(&m->batches));
            put_time(w, ", elapsed_compute=", get(&m->ns));
        }
        if (more) more(w);
        put(w, "]");
    }
    put(w, "\n");
    w->depth++;
}

static const struct meter *meter(const struct writer *w, int which) { return w->run ? &w->run->meters[which] : NULL; }

/* ---- nodes ---- */

static const struct split *shown_split(const struct scan_plan *p)
{
    return &p->splits[p->splits[SPLIT_LEAN].first ? SPLIT_LEAN : SPLIT_WIDE];
}

static void put_names(struct writer *w, const struct column_plan *p, bool quote, bool first)
{
    for (size_t i = 0; i < p->n_columns; i++) {
        if (!quote && p->columns[i].system != SYSTEM_NONE) continue;
        put(w, first ? "" : ", ");
        put(w, quote ? "(" : "");
        put(w, p->columns[i].name);
        put(w, quote ? ")" : "");
        first = false;
    }
}

static void put_outputs(struct writer *w, const struct scan_plan *p, const struct split *sp, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct plan_output *o = &p->outputs[i];
        put(w, i ? ", " : "");
        if (o->e) {
            put_expr(w, o->e);
        } else {
            put(w, o->name);
            put_number(w, "@", sp->child[o->sources[0]]);
        }
        put(w, " as ");
        put(w, o->name);
    }
}

/* Does the projection change anything? */
static bool is_projection(const struct scan_plan *p, const struct split *sp, size_t n)
{
    if (p->direct) return false;
    bool same = sp->late == NULL && n == p->n_outputs && n == sp->first->n_columns;
    for (size_t i = 0; i < n && same; i++) {
        same = p->outputs[i].e == NULL && sp->first_child[p->outputs[i].sources[0]] == i;
    }
    return !same;
}

static void projection_node(struct writer *w, const struct scan_plan *p, size_t n, int which)
{
    const struct split *sp = shown_split(p);
    if (!is_projection(p, sp, n)) return;
    begin(w, "ProjectionExec", meter(w, which));
    put(w, "expr=[");
    put_outputs(w, p, sp, n);
    put(w, "]");
    end(w, meter(w, which), NULL);
}

static void take_metrics(struct writer *w, uint64_t rows, uint64_t ns, const struct call_counters *read)
{
    put_number(w, "output_rows=", rows);
    put_time(w, ", elapsed_compute=", ns);
    put_number(w, ", bytes_read=", get(&read->bytes));
    put_number(w, ", iops=", get(&read->requests));
    put_number(w, ", requests=", get(&read->requests));
}

/* Of the late columns of a filter. */
static void late_metrics(struct writer *w)
{
    const struct scan_counters *c = &w->run->counters;
    take_metrics(w, get(&c->late_rows), get(&c->late_ns), &c->late);
}

/* Of the columns that are read for the rows of a sort. */
static void taken_metrics(struct writer *w)
{
    const struct scan_counters *c = &w->run->counters;
    take_metrics(w, get(&c->taken_rows), get(&c->taken_ns), &c->taken);
}

static void coalesce_node(struct writer *w)
{
    begin(w, "CoalesceBatchesExec", NULL);
    put_number(w, "target_batch_size=", w->q->batch_rows);
    end(w, NULL, NULL);
}

/* `here`: columns that are there; `late`: those that are taken. */
static void take_node(struct writer *w, const struct column_plan *here, const struct column_plan *late,
                      void (*metrics)(struct writer *))
{
    begin(w, "Take", NULL);
    put(w, "columns=\"");
    put_names(w, here, false, true);
    put(w, here->read->n_fields ? ", _rowaddr" : "_rowaddr");
    put_names(w, late, true, false);
    put(w, "\"");
    end(w, NULL, metrics);
    coalesce_node(w);
}

static void limit_node(struct writer *w)
{
    begin(w, "GlobalLimitExec", NULL);
    put_number(w, "skip=", w->q->offset);
    if (w->q->limit == UINT64_MAX) {
        put(w, ", fetch=None");
    } else {
        put_number(w, ", fetch=", w->q->limit);
    }
    end(w, NULL, NULL);
}

static void sort_node(struct writer *w)
{
    const struct query *q = w->q;
    uint64_t fetch;
    begin(w, "SortExec", meter(w, METER_SORT));
    if (q->limit != UINT64_MAX) {
        put_number(w, "TopK(fetch=", add_overflows(q->limit, q->offset, &fetch) ? UINT64_MAX : fetch);
        put(w, "), ");
    }
    put(w, "expr=[");
    for (size_t i = 0; i < q->n_keys; i++) {
        put(w, i ? ", " : "");
        put(w, q->key_names[i]);
        put_number(w, "@", q->keys[i].column);
        put(w, q->keys[i].flags & ARRAY_SORT_DESCENDING ? " DESC" : " ASC");
        put(w, q->keys[i].flags & ARRAY_SORT_NULLS_FIRST ? " NULLS FIRST" : " NULLS LAST");
    }
    put(w, "], preserve_partitioning=[false]");
    end(w, meter(w, METER_SORT), NULL);
}

static void aggregate_node(struct writer *w)
{
    const struct query *q = w->q;
    begin(w, "AggregateExec", meter(w, METER_AGGREGATE));
    put(w, "mode=Single, gby=[");
    for (size_t i = 0; i < q->n_groups; i++) {
        const char *name = q->read->outputs[q->groups[i]].name;
        put(w, i ? ", " : "");
        put(w, name);
        put_number(w, "@", q->groups[i]);
        put(w, " as ");
        put(w, name);
    }
    put(w, "], aggr=[");
    for (size_t i = 0; i < q->n_items; i++) {
        put(w, i ? ", " : "");
        put(w, q->items[i].name);
    }
    put(w, "]");
    end(w, meter(w, METER_AGGREGATE), NULL);
}

/* ---- the read ---- */

static void read_metrics(struct writer *w)
{
    const struct scan_counters *c = &w->run->counters;
    ASSERT(get(&c->skipped) <= w->q->n_fragments);
    put_number(w, ", fragments_scanned=", w->q->n_fragments - get(&c->skipped));
    put_number(w, ", ranges_scanned=", get(&c->stretches));
    put_number(w, ", rows_scanned=", get(&c->looked_at));
    put_number(w, ", rows_passed=", get(&c->passed));
    put_number(w, ", bytes_read=", get(&c->first.bytes));
    put_number(w, ", iops=", get(&c->first.requests));
    put_number(w, ", requests=", get(&c->first.requests));
}

/* Live rows of the fragments. */
static pennon_status live_rows(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct query *q,
                               uint64_t *out, pennon_error *err)
{
    *out = 0;
    for (size_t i = 0; i < q->n_fragments; i++) {
        uint64_t live;
        TRY_RETURN(fragment_live_rows(c, s, q->fragments[i], file_cache_length, fc, &live, err));
        *out += live;
    }
    return PENNON_OK;
}

static void put_range(struct writer *w, const char *name, bool some, uint64_t start, uint64_t stop)
{
    put(w, name);
    if (!some) {
        put(w, "None");
        return;
    }
    put_number(w, "Some(", start);
    put_number(w, "..", stop);
    put(w, ")");
}

static void put_filter(struct writer *w, const char *name)
{
    const struct scan_plan *p = w->q->read;
    put(w, name);
    put(w, p->filter || p->nothing ? p->filter_text : "--");
}

static void read_node(struct writer *w, const struct snapshot *s, uint64_t rows)
{
    const struct query *q = w->q;
    const struct split *sp = shown_split(q->read);
    const char *uri = s->at.uri;
    uint64_t stop = rows;
    bool range = !q->n_keys && (q->limit != UINT64_MAX || q->offset);
    if (q->limit != UINT64_MAX && add_overflows(q->offset, q->limit, &stop)) stop = UINT64_MAX;
    begin(w, "LanceRead", meter(w, METER_READ));
    put(w, "uri=");
    put(w, uri[0] == '/' ? uri + 1 : uri);
    put(w, "/data, projection=[");
    put_names(w, sp->first, false, true);
    put_number(w, "], num_fragments=", q->n_fragments);
    put_range(w, ", range_before=", range && !q->read->filter, min_u64(q->offset, rows), min_u64(stop, rows));
    put_range(w, ", range_after=", range && q->read->filter, 0, stop);
    put(w, sp->first->uses[SYSTEM_ROW_ID] ? ", row_id=true" : ", row_id=false");
    put(w, sp->first->uses[SYSTEM_ROW_ADDRESS] || sp->late || q->take ? ", row_addr=true" : ", row_addr=false");
    put_filter(w, ", full_filter=");
    put_filter(w, ", refine_filter=");
    end(w, meter(w, METER_READ), read_metrics);
}

/* ---- the tree ---- */

static void header(struct writer *w)
{
    if (!w->run) return;
    const uint64_t ns = get(&w->run->meters[METER_RESULT].ns);
    put_time(w, "AnalyzeExec verbose=true, elapsed=", ns);
    put_time(w, ", metrics=[]\n  TracedExec, elapsed=", ns);
    put(w, ", metrics=[]\n");
    w->depth = 2;
}

/* The read with its projection; of a sorted scan what is behind the sort comes first. */
static void read_nodes(struct writer *w, const struct snapshot *s, uint64_t rows)
{
    const struct query *q = w->q;
    const struct split *sp = shown_split(q->read);
    if (!q->n_keys) projection_node(w, q->read, q->read->n_outputs, METER_READ);
    if (sp->late) take_node(w, sp->first, sp->late, late_metrics);
    if (!q->n_keys && q->read->filter && (q->limit != UINT64_MAX || q->offset)) limit_node(w);
    read_node(w, s, rows);
}

pennon_status query_explain(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct query *q,
                            const struct query_run *run, struct buf *out, pennon_error *err)
{
    struct writer w = {.q = q, .run = run, .out = out, .err = err};
    uint64_t rows = 0;
    if (q->limit != UINT64_MAX || q->offset) TRY_RETURN(live_rows(c, s, fc, q, &rows, err));
    header(&w);
    if (q->rebatch) {
        begin(&w, "StrictBatchSizeExec", NULL);
        put_number(&w, "batch_size=", q->rebatch_rows == UINT64_MAX ? q->rebatch_bytes : q->rebatch_rows);
        end(&w, NULL, NULL);
    }
    if (q->aggregates) aggregate_node(&w);
    if (q->n_keys) {
        const struct scan_plan *shown = q->take ? q->take : q->read;
        if (q->take) {
            projection_node(&w, shown, shown->n_outputs, METER_TAKE);
            take_node(&w, shown_split(q->read)->first, shown->splits[SPLIT_WIDE].first, taken_metrics);
        } else {
            projection_node(&w, shown, q->n_visible, METER_TAKE);
        }
        sort_node(&w);
    }
    read_nodes(&w, s, rows);
    return w.st;
}
