/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Columns of SQL expressions, of nulls, of a stream.
 *
 * Expressions are computed while their columns are scanned, on the threads of the scan, and nothing else is read. A stream is cut into the fragments,
 * one after the other, its batches handed on as they are where no row is deleted.
 * Source: spec commits 8.1. */
#include "dataset/batch_form.h"
#include "dataset/evolve.h"
#include "exec/plan.h"

/* ---- expressions ---- */

struct computing {
    struct scan_plan *plan; /* shared by the fragments */
    struct batch_form form;
};

/* The scan, with JSON in the form of files. */
struct computed {
    const struct call *call;
    const struct batch_form *form;
    struct ArrowArrayStream scan;
};

static pennon_status computed_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct computed *d = ctx;
    TRY_RETURN(stream_next(&d->scan, out, err));
    if (!out->release || !(d->form->has_json || d->form->has_views || out->offset != 0)) return PENNON_OK;
    pennon_status st = batch_prepare(d->call, d->form, out, err);
    if (st != PENNON_OK) array_release(out);
    return st;
}

static void computed_release(void *ctx)
{
    struct computed *d = ctx;
    stream_release(&d->scan);
    mem_free(d->call->mem, d);
}

static pennon_status open_computed(void *ctx, const struct call *c, struct evolving *e, const struct fragment *f,
                                   struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct computing *x = ctx;
    struct ArrowSchema schema = {0};
    struct computed *d = mem_calloc(c->mem, 1, sizeof *d, err);
    if (!d) return err->code;
    d->call = e->c; /* outlives the stream */
    d->form = &x->form;
    TRY(evolve_scan(e, c, f, scan_plan_retain(x->plan), &d->scan, err));
    TRY(arrow_schema_copy(&e->form, c->mem, &schema, err));
    struct computed *given = d;
    d = NULL;
    TRY(stream_new(&schema, computed_next, computed_release, given, c->mem, out, err));
done:
    if (d) computed_release(d);
    return st;
}

static pennon_status plan_expressions(struct evolving *e, size_t n, const char *const *names, const char *const *expressions,
                                      struct scan_plan **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct scan_plan *p = NULL;
    TRY(scan_plan_begin(e->s, BLOB_AS_DESCRIPTOR, false, e->c->mem, &p, err));
    for (size_t i = 0; i < n; i++) TRY(scan_plan_expression(p, e->s, names[i], expressions[i], err));
    TRY(scan_plan_finish(p, e->s, PENNON_MATERIALIZE_HEURISTIC, NULL, err));
    for (size_t i = 0; i < n; i++) {
        if (p->outputs[i].e && !expr_nullable(p->outputs[i].e, &p->input))
            p->arrow.children[i]->flags &= ~(int64_t)ARROW_FLAG_NULLABLE;
    }
    *out = p;
    p = NULL;
done:
    scan_plan_free(p);
    return st;
}

static pennon_status check_names(size_t n, const char *const *names, const char *const *expressions, pennon_error *err)
{
    if (n == 0 || !names || !expressions) return evolve_invalid(err, "no column to add");
    for (size_t i = 0; i < n; i++) {
        if (!names[i] || !expressions[i]) return evolve_invalid(err, "column %zu has no name or no expression", i);
    }
    return PENNON_OK;
}

static bool all_null(const struct evolving *e, size_t n, const char *const *expressions)
{
    bool null = true;
    for (size_t i = 0; i < n && null; i++) null = expr_is_cast_of_null(bytes_str(expressions[i]), e->c->mem);
    return null;
}

static pennon_status add_sql(struct evolving *e, size_t n, const char *const *names, const char *const *expressions,
                             pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct computing x = {0};
    struct schema *added = NULL;
    TRY(check_names(n, names, expressions, err));
    TRY(plan_expressions(e, n, names, expressions, &x.plan, err));
    TRY(schema_from_arrow(e->c->mem, &x.plan->arrow, e->s->storage_version, &added, err));
    const bool written = !all_null(e, n, expressions);
    TRY(evolve_add_schema(e, added, written, err));
    if (written) {
        batch_form_init(&x.form, &x.plan->arrow, e->write);
        e->source = (struct value_source){.open = open_computed, .ctx = &x};
        TRY(evolve_write(e, err));
    }
    TRY(evolve_commit(e, false, err));
done:
    schema_release(added);
    scan_plan_free(x.plan);
    return st;
}

pennon_status pennon_dataset_add_columns_sql(pennon_dataset *ds, size_t n, const char *const *names, const char *const *expressions,
                                             const pennon_evolution_options *options, pennon_evolution_result *result,
                                             pennon_error *err)
{
    struct api a;
    pennon_evolution_options o;
    struct evolving e;
    pennon_status st = evolve_begin(&e, &a, &o, options, ds);
    if (st == PENNON_OK) st = add_sql(&e, n, names, expressions, a.err);
    return evolve_end(&e, st, result, err);
}

/* ---- nulls ---- */

static pennon_status add_null(struct evolving *e, const struct ArrowSchema *arrow, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct schema *added = NULL;
    TRY(arrow_schema_validate(arrow, err));
    TRY(schema_from_arrow(e->c->mem, arrow, e->s->storage_version, &added, err));
    TRY(evolve_add_schema(e, added, false, err));
    if (!e->keeps_nullability) {
        st = evolve_invalid(err, "All-null columns must be nullable.");
        goto done;
    }
    TRY(evolve_commit(e, false, err));
done:
    schema_release(added);
    return st;
}

pennon_status pennon_dataset_add_columns_null(pennon_dataset *ds, const struct ArrowSchema *schema,
                                              const pennon_evolution_options *options, pennon_evolution_result *result,
                                              pennon_error *err)
{
    struct api a;
    pennon_evolution_options o;
    struct evolving e;
    pennon_status st = evolve_begin(&e, &a, &o, options, ds);
    if (st == PENNON_OK && !schema) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "schema is NULL");
    if (st == PENNON_OK) st = add_null(&e, schema, a.err);
    return evolve_end(&e, st, result, err);
}

/* ---- a stream ---- */

struct feeding {
    struct ArrowArrayStream *data;
    struct ArrowSchema input;
    struct batch_form form;
    struct shared_array *held; /* of which rows from `at` on are still to be used; NULL = nothing */
    int64_t at;
};

/* The part of the stream that belongs to a fragment. */
struct feed {
    struct feeding *x;
    struct evolving *e;
    uint64_t left; /* rows */
};

/* The next batch that has rows, into x->held; none at the end. */
static pennon_status feed_more(struct feeding *x, struct evolving *e, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray batch = {0};
    shared_array_release(x->held);
    x->held = NULL;
    x->at = 0;
    do {
        array_release(&batch);
        TRY(call_check(e->c, err));
        TRY(stream_next(x->data, &batch, err));
    } while (batch.release && batch.length == 0);
    if (!batch.release) goto done;
    TRY(batch_prepare(e->c, &x->form, &batch, err));
    TRY_NEW(x->held, shared_array_new(&batch, e->c->mem, err));
done:
    array_release(&batch);
    return st;
}

static pennon_status feed_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct feed *f = ctx;
    struct feeding *x = f->x;
    if (f->left == 0) return PENNON_OK;
    if (!x->held || x->at == shared_array_get(x->held)->length) TRY_RETURN(feed_more(x, f->e, err));
    if (!x->held) return evolve_invalid(err, "Stream ended before producing values for all rows in dataset");
    const int64_t n = (int64_t)min_u64((uint64_t)(shared_array_get(x->held)->length - x->at), f->left);
    TRY_RETURN(array_slice(&f->e->form, x->held, x->at, n, f->e->c->mem, out, err));
    x->at += n;
    f->left -= (uint64_t)n;
    return PENNON_OK;
}

static void feed_release(void *ctx)
{
    struct feed *f = ctx;
    mem_free(f->e->c->mem, f);
}

static pennon_status open_feed(void *ctx, const struct call *c, struct evolving *e, const struct fragment *f,
                               struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema schema = {0};
    struct feed *feed = mem_calloc(c->mem, 1, sizeof *feed, err);
    if (!feed) return err->code;
    *feed = (struct feed){.x = ctx, .e = e};
    TRY(evolve_live_rows(e, c, f, &feed->left, err));
    TRY(arrow_schema_copy(&e->form, c->mem, &schema, err));
    struct feed *given = feed;
    feed = NULL;
    TRY(stream_new(&schema, feed_next, feed_release, given, c->mem, out, err));
done:
    if (feed) feed_release(feed);
    return st;
}

static pennon_status add_stream(struct evolving *e, struct ArrowArrayStream *data, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct feeding x = {.data = data};
    struct schema *added = NULL;
    TRY(stream_schema(data, &x.input, err));
    TRY(arrow_schema_validate(&x.input, err));
    TRY(schema_from_arrow(e->c->mem, &x.input, e->s->storage_version, &added, err));
    if (added->n_fields == 0) {
        st = evolve_invalid(err, "no column to add: the stream has none");
        goto done;
    }
    TRY(evolve_add_schema(e, added, true, err));
    batch_form_init(&x.form, &x.input, e->write);
    e->source = (struct value_source){.open = open_feed, .ctx = &x, .in_turn = true};
    TRY(evolve_write(e, err));
    if (!x.held || x.at == shared_array_get(x.held)->length) TRY(feed_more(&x, e, err));
    if (x.held) {
        st = evolve_invalid(err, "Stream produced more values than expected for dataset");
        goto done;
    }
    TRY(evolve_commit(e, false, err));
done:
    shared_array_release(x.held);
    arrow_schema_release(&x.input);
    schema_release(added);
    return st;
}

pennon_status pennon_dataset_add_columns_stream(pennon_dataset *ds, struct ArrowArrayStream *data,
                                                const pennon_evolution_options *options, pennon_evolution_result *result,
                                                pennon_error *err)
{
    struct api a;
    pennon_evolution_options o;
    struct evolving e;
    pennon_status st = evolve_begin(&e, &a, &o, options, ds);
    if (st == PENNON_OK && (!data || !data->release))
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "the stream is NULL or released");
    if (st == PENNON_OK) st = add_stream(&e, data, a.err);
    if (data) stream_release(data);
    return evolve_end(&e, st, result, err);
}
