/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The public calls that merge a stream into a dataset.
 *
 * The stream is read to its end before anything else: rows are matched against all of them, and an attempt after a conflict needs them again. What an
 * attempt wrote goes away when it fails.
 * Source: spec commits 3.11, 4.3, 4.4, 7.1, 7.4, 7.5. */
#include "dataset/merge.h"
#include "dataset/merge_explain.h"

struct merging {
    const pennon_merge_options *o;
    pennon_mutation_options frame; /* what the attempts are made by */
    struct row_store rows;
    pennon_merge_result result; /* of the last attempt */
};

/* What an attempt made, before the commit. */
struct merge_work {
    struct merge_plan plan;
    struct merge_found found;
    struct transaction *t, *written; /* `written` NULL: no rows */
    struct row_removal removal;
};

void pennon_merge_options_init(pennon_merge_options *options)
{
    if (options)
        *options = (pennon_merge_options){.struct_size = sizeof *options,
                                          .use_index = true,
                                          .conflict_retries = 10,
                                          .retry_timeout_ms = 30000,
                                          .max_retries = 20};
}

/* ---- rows that go ---- */

static pennon_status remove_stretch(struct row_removal *r, const struct snapshot *s, const struct merge_stretch *at,
                                    pennon_error *err)
{
    uint64_t addresses[256];
    size_t n = 0;
    for (uint64_t i = at->start; i < at->end; i++) {
        if (!bit_get(at->gone, i - at->start)) continue;
        addresses[n++] = (uint64_t)s->fragments[at->fragment].id << 32 | i;
        if (n < ARRAY_LEN(addresses)) continue;
        TRY_RETURN(row_removal_add(r, addresses, n, err));
        n = 0;
    }
    return row_removal_add(r, addresses, n, err);
}

static pennon_status remove_rows(struct row_removal *r, const struct snapshot *s, const struct merge_found *found,
                                 pennon_error *err)
{
    for (size_t i = 0; i < found->n_stretches; i++) {
        if (found->stretches[i].gone != NULL) TRY_RETURN(remove_stretch(r, s, &found->stretches[i], err));
    }
    return row_removal_finish(r, err);
}

/* ---- rows that are written ---- */

static pennon_status write_rows(struct merging *m, struct call *c, struct merge_work *w, struct merge_rows *rows, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema schema = {0};
    struct ArrowArrayStream stream = {0};
    struct call quiet = *c; /* the stream tells how far it is */
    pennon_write_options o;
    quiet.progress = NULL;
    pennon_write_options_init(&o);
    o.mode = PENNON_WRITE_APPEND;
    if (m->rows.rows == 0 || (rows->to_insert == 0 && w->found.n_pairs == 0)) goto done;
    TRY(merge_sort_pairs(c, &m->rows, PAIRS_BY_PLACE, w->found.pairs, w->found.n_pairs, err));
    if (!merge_rows_together(&w->plan, &m->rows))
        TRY(merge_sort_pairs(c, &m->rows, w->plan.missing != NULL ? PAIRS_BY_CHUNK : PAIRS_BY_ROW, w->found.pairs, w->found.n_pairs,
                             err));
    TRY(arrow_schema_copy(&w->plan.written, c->mem, &schema, err));
    TRY(stream_new(&schema, merge_rows_next, NULL, rows, c->mem, &stream, err)); /* moves the schema */
    TRY(write_onto(&quiet, w->plan.s, &stream, &o, c->mem, &w->written, err));
done:
    stream_release(&stream);
    arrow_schema_release(&schema);
    return st;
}

static uint64_t new_rows(const struct merge_found *found, uint64_t rows)
{
    return found->matched != NULL ? rows - bitmap_count(found->matched, 0, rows) : 0;
}

static pennon_status fill_update(struct merging *m, struct merge_work *w, const struct merge_rows *rows, pennon_error *err)
{
    struct transaction *t = w->t;
    struct update_message *op = &t->op.update;
    const struct schema *s = w->plan.s->schema;
    op->updated_fragments = w->removal.updated;
    op->n_updated_fragments = w->removal.n_updated;
    op->removed_fragment_ids = w->removal.removed;
    op->n_removed_fragment_ids = w->removal.n_removed;
    op->update_mode = UPDATE_REWRITE_ROWS;
    op->fields_preserving = arena_calloc(&t->arena, s->n_fields + 1, sizeof *op->fields_preserving, err);
    if (op->fields_preserving == NULL) return err->code;
    for (size_t i = 0; i < s->n_fields; i++) op->fields_preserving[op->n_fields_preserving++] = (uint32_t)s->fields[i]->id;
    if (w->written != NULL) {
        op->new_fragments = w->written->op.append.fragments;
        op->n_new_fragments = w->written->op.append.n_fragments;
        if (w->plan.stable) TRY_RETURN(id_runs_give(&rows->ids, &t->arena, op->new_fragments, op->n_new_fragments, err));
    }
    if (rows->filter != NULL) TRY_RETURN(key_filter_message(rows->filter, &w->plan, &t->arena, &op->inserted_rows, err));
    return transaction_set_pairs(t, m->o->properties, err);
}

static void fill_result(struct merging *m, const struct merge_work *w, const struct merge_rows *rows)
{
    pennon_merge_result *r = &m->result;
    r->rows_inserted = rows->to_insert;
    r->rows_updated = w->found.n_pairs;
    r->rows_deleted = w->found.deleted;
    r->duplicates_skipped = w->found.skipped;
    r->bytes_written = r->files_written = 0;
    for (size_t i = 0; w->written != NULL && i < w->written->op.append.n_fragments; i++) {
        const struct fragment_message *f = &w->written->op.append.fragments[i];
        for (size_t k = 0; k < f->n_files; k++) r->bytes_written += f->files[k].file_size_bytes;
        r->files_written += f->n_files;
    }
}

/* ---- one attempt, without the commit ---- */

static void work_end(const struct call *c, struct merge_work *w, bool remove_files)
{
    if (remove_files) row_removal_remove_files(&w->removal);
    if (remove_files && w->written != NULL) mutation_remove_data(c, w->plan.s, w->written);
    row_removal_end(&w->removal);
    transaction_free(w->t);
    transaction_free(w->written);
    merge_found_free(c, &w->found);
    merge_plan_free(&w->plan);
}

/* Pair with work_end, also on failure. */
static pennon_status work(struct merging *m, struct call *c, struct snapshot *s, struct file_cache *files, struct merge_work *w,
                          pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct key_filter filter = {0};
    struct merge_rows rows = {.p = &w->plan, .c = c, .files = files, .rows = &m->rows, .found = &w->found, .ids = {.mem = c->mem}};
    *w = (struct merge_work){0};
    TRY(merge_plan_make(&w->plan, c, s, m->o, &m->rows.schema, err));
    TRY(transaction_new(c->mem, OPERATION_UPDATE, s->version, &w->t, err));
    row_removal_begin(&w->removal, c, s, &w->t->arena, file_cache_length, files);
    if (w->plan.primary_key && !w->plan.delete_only) {
        TRY(key_filter_init(&filter, c->mem, err));
        rows.filter = &filter;
    }
    /* Half of what the budget has left is for the table; the rest for what is read and found. */
    TRY(merge_find(&w->plan, c, files, &m->rows, mem_available(c->mem) / 2, &w->found, err));
    rows.to_insert = new_rows(&w->found, m->rows.rows);
    TRY(write_rows(m, c, w, &rows, err));
    TRY(remove_rows(&w->removal, s, &w->found, err));
    TRY(fill_update(m, w, &rows, err));
    fill_result(m, w, &rows);
done:
    merge_rows_end(&rows);
    key_filter_free(&filter);
    return st;
}

static pennon_status commit(const struct merging *m, const struct call *c, struct snapshot *s, const struct merge_work *w,
                            struct snapshot **out, pennon_error *err)
{
    pennon_commit_options k;
    const pennon_ids affected = {w->removal.n_affected, w->removal.affected};
    pennon_commit_options_init(&k);
    k.skip_auto_cleanup = m->o->skip_auto_cleanup;
    k.max_retries = m->o->max_retries;
    if (w->removal.knows_rows) k.affected_rows = &affected;
    return commit_on(c, &s->at, s, w->t, &k, out, err);
}

static pennon_status merge_once(void *ctx, struct call *c, struct snapshot *s, struct file_cache *files, struct snapshot **out,
                                pennon_error *err)
{
    struct merging *m = ctx;
    struct merge_work w;
    pennon_status st = work(m, c, s, files, &w, err);
    if (st == PENNON_OK) st = commit(m, c, s, &w, out, err);
    /* After a lost reply the files may be in use. */
    work_end(c, &w, st != PENNON_OK && st != PENNON_COMMIT_UNKNOWN);
    return st;
}

/* ---- the calls ---- */

/* The frame of a call; the stream is read into `m`. */
static pennon_status merge_begin(struct api *a, const pennon_merge_options *options, pennon_merge_options *o, pennon_dataset *ds,
                                 struct ArrowArrayStream *stream, struct merging *m)
{
    struct snapshot *s = NULL;
    *m = (struct merging){.o = o};
    pennon_merge_options_init(o);
    a->c = (struct call){0};
    a->err = &a->local;
    pennon_error_init(&a->local);
    TRY_RETURN(options_read(o, sizeof *o, options, "pennon_merge_options", &a->local));
    TRY_RETURN(api_begin(a, o->call, ds, "dataset"));
    pennon_mutation_options_init(&m->frame);
    m->frame.conflict_retries = o->conflict_retries;
    m->frame.retry_timeout_ms = o->retry_timeout_ms;
    m->frame.skip_auto_cleanup = o->skip_auto_cleanup;
    TRY_RETURN(merge_check_options(o, a->err));
    if (stream == NULL) return PENNON_OK;
    if (stream->release == NULL) return error_set(a->err, PENNON_INVALID_ARGUMENT, "the stream is NULL or released");
    pennon_status st = PENNON_OK;
    struct ArrowSchema schema = {0};
    struct merge_plan plan = {0};
    dataset_get(ds, &s, NULL);
    /* What does not fit is told before the stream is read. */
    st = stream_schema(stream, &schema, a->err);
    if (st == PENNON_OK) st = merge_check_source(&plan, &a->c, s, o, &schema, a->err);
    if (st == PENNON_OK) st = row_store_fill(&m->rows, &a->c, stream, mem_available(a->c.mem) / 2, a->err);
    merge_plan_free(&plan);
    arrow_schema_release(&schema);
    snapshot_release(s);
    return st;
}

static pennon_status merge_end(struct api *a, struct merging *m, struct ArrowArrayStream *stream, pennon_status st,
                               pennon_error *err)
{
    row_store_free(&m->rows);
    if (stream != NULL) stream_release(stream);
    return api_end(a, st, err);
}

static pennon_status no_stream(struct api *a)
{
    return error_set(a->err, PENNON_INVALID_ARGUMENT, "the stream is NULL or released");
}

pennon_status pennon_dataset_merge(pennon_dataset *ds, struct ArrowArrayStream *stream, const pennon_merge_options *options,
                                   pennon_merge_result *result, pennon_error *err)
{
    struct api a;
    struct merging m;
    pennon_merge_options o;
    pennon_status st = merge_begin(&a, options, &o, ds, stream, &m);
    if (st == PENNON_OK && stream == NULL) st = no_stream(&a);
    if (st == PENNON_OK) st = mutation_run(&a.c, ds, &m.frame, merge_once, &m, &m.result.attempts, &m.result.version, a.err);
    if (st == PENNON_OK) mutation_result_out(&m.result, sizeof m.result, result);
    return merge_end(&a, &m, stream, st, err);
}

/* The transaction as a handle, in memory that outlives the call. */
static pennon_status hand_out(const struct call *c, const struct transaction *t, pennon_transaction **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *copy = NULL;
    struct buf bytes;
    buf_init(&bytes, c->mem, BUF_NO_LIMIT);
    TRY(transaction_encode(t, &bytes, err));
    TRY(transaction_decode(runtime_mem(c->runtime), bytes_of(bytes.data, bytes.size), &copy, err));
    TRY(transaction_handle(c, copy, out, err)); /* takes it */
done:
    buf_free(&bytes);
    return st;
}

static pennon_status merge_apart(struct merging *m, struct call *c, struct snapshot *s, struct file_cache *files,
                                 pennon_transaction **out, uint64_t **affected, size_t *n_affected, pennon_error *err)
{
    struct merge_work w;
    pennon_status st = work(m, c, s, files, &w, err);
    uint64_t *ids = NULL;
    const struct row_removal *r = &w.removal;
    if (st == PENNON_OK && affected != NULL && r->knows_rows) {
        ids = bytes_dup(r->affected, r->n_affected * sizeof *ids);
        if (ids == NULL) st = error_set(err, PENNON_OUT_OF_MEMORY, "%zu addresses", r->n_affected);
    }
    if (st == PENNON_OK) st = hand_out(c, w.t, out, err);
    if (st == PENNON_OK && affected != NULL) {
        *affected = ids;
        *n_affected = ids != NULL ? r->n_affected : 0;
        ids = NULL;
    }
    pennon_bytes_free(ids);
    m->result.attempts = 1;
    m->result.version = 0;
    work_end(c, &w, st != PENNON_OK);
    return st;
}

pennon_status pennon_dataset_merge_uncommitted(pennon_dataset *ds, struct ArrowArrayStream *stream,
                                               const pennon_merge_options *options, pennon_merge_result *result,
                                               pennon_transaction **out, uint64_t **affected, size_t *n_affected, pennon_error *err)
{
    struct api a;
    struct merging m;
    pennon_merge_options o;
    struct snapshot *s = NULL;
    struct file_cache *files = NULL;
    pennon_status st = merge_begin(&a, options, &o, ds, stream, &m);
    if (st == PENNON_OK && stream == NULL) st = no_stream(&a);
    if (st == PENNON_OK && (out == NULL || (affected != NULL) != (n_affected != NULL)))
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "an output is NULL");
    if (st == PENNON_OK) {
        dataset_get(ds, &s, &files);
        st = merge_apart(&m, &a.c, s, files, out, affected, n_affected, a.err);
        st = table_error(&s->at, st, a.err);
        file_cache_release(files);
        snapshot_release(s);
    }
    if (st == PENNON_OK) mutation_result_out(&m.result, sizeof m.result, result);
    return merge_end(&a, &m, stream, st, err);
}

static pennon_status explain(struct api *a, pennon_dataset *ds, const struct ArrowSchema *schema, const pennon_merge_options *o,
                             bool verbose, struct buf *b)
{
    pennon_status st = PENNON_OK;
    struct snapshot *s;
    struct ArrowSchema table = {0};
    struct merge_plan plan = {0};
    pennon_error *err = a->err;
    dataset_get(ds, &s, NULL);
    if (schema == NULL) {
        TRY(schema_to_arrow(s->schema, SCHEMA_VIEW_TABLE, BLOB_AS_DESCRIPTOR, a->c.mem, &table, err));
        schema = &table;
    }
    TRY(merge_check_source(&plan, &a->c, s, o, schema, err));
    TRY(merge_explain(&plan, NULL, NULL, verbose, b, err));
done:
    merge_plan_free(&plan);
    arrow_schema_release(&table);
    snapshot_release(s);
    return st;
}

pennon_status pennon_dataset_merge_explain(pennon_dataset *ds, const struct ArrowSchema *schema,
                                           const pennon_merge_options *options, bool verbose, char **out, pennon_error *err)
{
    struct api a;
    struct merging m;
    pennon_merge_options o;
    pennon_status st = merge_begin(&a, options, &o, ds, NULL, &m);
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) {
        struct buf b;
        buf_init(&b, a.c.mem, BUF_NO_LIMIT);
        st = explain(&a, ds, schema, &o, verbose, &b);
        if (st == PENNON_OK) st = text_out(&b, out, a.err);
        buf_free(&b);
    }
    return merge_end(&a, &m, NULL, st, err);
}

static pennon_status analyze(struct merging *m, struct call *c, pennon_dataset *ds, struct buf *b, pennon_error *err)
{
    struct snapshot *s;
    struct file_cache *files;
    struct merge_work w;
    const int64_t start = clock_monotonic_ns();
    dataset_get(ds, &s, &files);
    pennon_status st = work(m, c, s, files, &w, err);
    if (st == PENNON_OK) {
        const struct merge_run run = {&m->result, &m->rows, (uint64_t)(clock_monotonic_ns() - start)};
        st = merge_explain(&w.plan, &w.found, &run, false, b, err);
    }
    work_end(c, &w, true);
    file_cache_release(files);
    snapshot_release(s);
    return st;
}

pennon_status pennon_dataset_merge_analyze(pennon_dataset *ds, struct ArrowArrayStream *stream, const pennon_merge_options *options,
                                           char **out, pennon_error *err)
{
    struct api a;
    struct merging m;
    pennon_merge_options o;
    pennon_status st = merge_begin(&a, options, &o, ds, stream, &m);
    if (st == PENNON_OK && stream == NULL) st = no_stream(&a);
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) {
        struct buf b;
        buf_init(&b, a.c.mem, BUF_NO_LIMIT);
        st = analyze(&m, &a.c, ds, &b, a.err);
        if (st == PENNON_OK) st = text_out(&b, out, a.err);
        buf_free(&b);
    }
    return merge_end(&a, &m, stream, st, err);
}
