/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The public call that updates rows.
 *
 *   scan (filter; columns as stored, new values in place of the updated ones; row address, row id)
 *     -> address: the row leaves its fragment        -> row id: kept for the new fragment
 *     -> columns: data files of new fragments
 *   one commit: Update {removed, updated, new fragments}
 *
 * One batch is in memory at a time, and of the row ids their runs. Blobs move as blob_move.h says. New fragments of a table with stable row ids bring the ids of their rows, cut to the
 * fragments; the commit looks up the versions that the rows were created at.
 * Source: spec commits 3.11, 7.1, 7.3, 7.5. */
#include "dataset/blob_move.h"
#include "dataset/mutation.h"
#include "exec/plan.h"

#define BATCH_ROWS 8192u
#define BATCH_BYTES ((uint64_t)1 << 20)

struct updating {
    const char *where; /* NULL = all rows */
    size_t n;
    const char *const *columns, *const *expressions;
    const pennon_mutation_options *o;
    pennon_update_result result; /* of the last attempt */
};

/* ---- the rows that move ---- */

/* The stream of a scan without its last columns, which go to the removal and to the row ids. */
struct moving {
    struct call *call;
    struct ArrowArrayStream scan;
    struct row_removal *rows;
    bool stable;
    struct blob_mover *blobs;  /* NULL: no column holds any */
    struct ArrowSchema stored; /* with blobs: of the columns as they are read */
    struct id_runs ids;        /* stable: of all rows, in their order */
};

static const uint64_t *words(const struct ArrowArray *a) { return (const uint64_t *)a->buffers[1] + a->offset; }

/* The next batch of the scan without its last columns; with blobs it goes to their mover. */
static pennon_status next_batch(struct moving *m, struct ArrowArray *out, bool *end, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray batch = {0};
    const size_t extra = m->stable ? 2 : 1;
    TRY(stream_next(&m->scan, &batch, err));
    *end = !batch.release;
    if (*end) goto done;
    ASSERT(batch.offset == 0 && (size_t)batch.n_children > extra);
    const size_t n = (size_t)batch.n_children - extra;
    TRY(row_removal_add(m->rows, words(batch.children[n]), (size_t)batch.length, err));
    if (m->stable) TRY(id_runs_add(&m->ids, words(batch.children[n + 1]), (size_t)batch.length, err));
    TRY(array_new(out, 1, n, m->call->mem, err));
    out->length = batch.length;
    for (size_t i = 0; i < n; i++) array_move(batch.children[i], out->children[i]);
    if (m->blobs) TRY(blob_mover_take(m->blobs, &m->stored, out, words(batch.children[n]), err)); /* moves `out` */
done:
    array_release(&batch);
    return st;
}

static pennon_status moving_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct moving *m = ctx;
    bool end = false;
    out->release = NULL;
    if (!m->blobs) return next_batch(m, out, &end, err);
    TRY_RETURN(blob_mover_next(m->blobs, out, err));
    while (!out->release && !end) {
        TRY_RETURN(next_batch(m, out, &end, err));
        if (!end) TRY_RETURN(blob_mover_next(m->blobs, out, err));
    }
    return PENNON_OK;
}

/* ---- the scan ---- */

static size_t assignment_of(const struct updating *u, const struct field *f)
{
    size_t i = 0;
    while (i < u->n && strcmp(u->columns[i], f->name) != 0) i++;
    return i;
}

/* The plan, and the Arrow schema of the columns that are written; `stored` (may be NULL) gets the one of the columns as they are read. */
static pennon_status make_plan(const struct updating *u, const struct call *c, struct snapshot *s, bool stable,
                               struct scan_plan **plan, struct ArrowSchema *written, struct ArrowSchema *stored, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct scan_plan *p = NULL;
    TRY(schema_to_arrow(s->schema, SCHEMA_VIEW_FILE, BLOB_AS_INPUT, c->mem, written, err));
    if (stored) TRY(schema_to_arrow(s->schema, SCHEMA_VIEW_FILE, BLOB_AS_DESCRIPTOR, c->mem, stored, err));
    TRY(scan_plan_begin(s, BLOB_AS_DESCRIPTOR, false, c->mem, &p, err));
    if (u->where) TRY(scan_plan_filter(p, s, u->where, bytes_of(NULL, 0), err));
    for (size_t i = 0; i < s->schema->n_fields; i++) {
        const struct field *f = s->schema->fields[i];
        const size_t k = assignment_of(u, f);
        bool text = false;
        if (k == u->n) {
            TRY(scan_plan_stored(p, f->name, err));
            continue;
        }
        TRY(scan_plan_value(p, s, f, u->expressions[k], &text, err));
        if (text) {
            arrow_schema_release(written->children[i]);
            TRY(field_to_arrow(f, SCHEMA_VIEW_TABLE, BLOB_AS_DESCRIPTOR, c->mem, written->children[i], err));
            if (!stored) continue;
            arrow_schema_release(stored->children[i]);
            TRY(field_to_arrow(f, SCHEMA_VIEW_TABLE, BLOB_AS_DESCRIPTOR, c->mem, stored->children[i], err));
        }
    }
    TRY(scan_plan_column(p, "_rowaddr", err));
    if (stable) TRY(scan_plan_column(p, "_rowid", err));
    TRY(scan_plan_finish(p, s, PENNON_MATERIALIZE_HEURISTIC, NULL, err));
    *plan = p;
    p = NULL;
done:
    scan_plan_free(p);
    return st;
}

static pennon_status open_scan(const struct call *c, struct snapshot *s, struct file_cache *files, struct scan_plan *plan,
                               struct ArrowArrayStream *out, pennon_error *err)
{
    const struct fragment **fragments = mem_calloc(c->mem, s->n_fragments + 1, sizeof *fragments, err);
    if (!fragments) {
        scan_plan_free(plan);
        return err->code;
    }
    for (size_t i = 0; i < s->n_fragments; i++) fragments[i] = &s->fragments[i];
    const struct scan_spec spec = {.limit = UINT64_MAX,
                                   .batch_rows = BATCH_ROWS,
                                   .batch_bytes = BATCH_BYTES,
                                   .readahead = c->threads * 2,
                                   .fragments = fragments,
                                   .n_fragments = s->n_fragments};
    pennon_status st = scan_open(c, s, files, plan, &spec, out, err); /* takes the plan */
    mem_free(c->mem, fragments);
    return st;
}

/* ---- the transaction ---- */

static pennon_status fill_update(const struct updating *u, struct snapshot *s, const struct moving *m,
                                 const struct transaction *written, struct transaction *t, pennon_error *err)
{
    struct update_message *op = &t->op.update;
    const struct append_message *new = &written->op.append;
    op->updated_fragments = m->rows->updated;
    op->n_updated_fragments = m->rows->n_updated;
    op->removed_fragment_ids = m->rows->removed;
    op->n_removed_fragment_ids = m->rows->n_removed;
    op->new_fragments = new->fragments;
    op->n_new_fragments = new->n_fragments;
    op->update_mode = UPDATE_REWRITE_ROWS;
    op->fields_preserving = arena_calloc(&t->arena, u->n, sizeof *op->fields_preserving, err);
    if (!op->fields_preserving) return err->code;
    for (size_t i = 0; i < u->n; i++)
        op->fields_preserving[op->n_fields_preserving++] = (uint32_t)schema_find_name(s->schema, u->columns[i])->id;
    if (m->stable) TRY_RETURN(id_runs_give(&m->ids, &t->arena, new->fragments, new->n_fragments, err));
    return transaction_set_pairs(t, u->o->properties, err);
}

/* ---- one attempt ---- */

static pennon_status check_column(const struct updating *u, const struct snapshot *s, size_t i, pennon_error *err)
{
    const char *name = u->columns[i];
    const struct field *f = NULL;
    if (!name || !u->expressions[i]) return error_set(err, PENNON_INVALID_ARGUMENT, "update %zu has no column or no value", i);
    for (size_t k = 0; k < i; k++) {
        if (strcmp(u->columns[k], name) == 0) return error_set(err, PENNON_INVALID_ARGUMENT, "column '%s' is updated twice", name);
    }
    f = schema_find_name(s->schema, name);
    if (f && field_has_blob(f)) return error_set(err, PENNON_NOT_SUPPORTED, "updating column '%s', which holds blobs", name);
    if (f) return PENNON_OK;
    pennon_status st = schema_find_path(s->schema, name, &f, err);
    if (st == PENNON_OK)
        return error_set(
            err, PENNON_NOT_SUPPORTED,
            "updating '%s', a part of a column: nested column references are not yet supported; update the whole column", name);
    const char *const *names;
    struct arena a;
    arena_init(&a, s->mem);
    const char **list = arena_calloc(&a, s->schema->n_fields + 1, sizeof *list, err);
    if (!list) return err->code;
    for (size_t k = 0; k < s->schema->n_fields; k++) list[k] = s->schema->fields[k]->name;
    names = list;
    const char *near = nearest_name(name, names, s->schema->n_fields);
    (void)error_set(err, PENNON_INVALID_ARGUMENT, "Column '%s' does not exist in dataset schema%s%s%s", name,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    arena_reset(&a);
    return error_kind(err, "FieldNotFound");
}

static pennon_status check_update(const struct updating *u, const struct snapshot *s, pennon_error *err)
{
    TRY_RETURN(mutation_check(s, err));
    if (s->storage_version == STORAGE_LEGACY)
        return error_set(
            err, PENNON_NOT_SUPPORTED,
            "the dataset has data storage version 0.1, which is read and not written: its rows can be deleted, and not "
            "updated; overwrite it with version 2.1");
    for (size_t i = 0; i < u->n; i++) TRY_RETURN(check_column(u, s, i, err));
    return PENNON_OK;
}

/* Rows to new data files; *written is the Append that would make them visible, in c->mem. */
static pennon_status move_rows(const struct updating *u, struct call *c, struct snapshot *s, struct file_cache *files,
                               struct moving *m, struct transaction **written, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct scan_plan *plan = NULL;
    struct ArrowSchema schema = {0};
    struct ArrowArrayStream rows = {0};
    pennon_write_options o;
    pennon_write_options_init(&o);
    o.mode = PENNON_WRITE_APPEND;
    if (schema_holds_blobs(s->schema)) TRY(blob_mover_new(c, s, files, &m->blobs, err));
    TRY(make_plan(u, c, s, m->stable, &plan, &schema, m->blobs ? &m->stored : NULL, err));
    TRY(open_scan(c, s, files, plan, &m->scan, err));
    TRY(stream_new(&schema, moving_next, NULL, m, c->mem, &rows, err)); /* moves the schema */
    TRY(write_onto_given(c, s, &rows, &o, m->blobs ? blob_mover_given : NULL, m->blobs, c->mem, written, err));
    TRY(row_removal_finish(m->rows, err));
done:
    stream_release(&rows);
    stream_release(&m->scan);
    blob_mover_free(m->blobs);
    arrow_schema_release(&m->stored);
    arrow_schema_release(&schema);
    return st;
}

static pennon_status update_once(void *ctx, struct call *c, struct snapshot *s, struct file_cache *files, struct snapshot **out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct updating *u = ctx;
    struct transaction *t = NULL, *written = NULL;
    struct row_removal rows = {0};
    struct moving m = {.call = c, .rows = &rows, .stable = snapshot_has_stable_ids(s), .ids = {.mem = c->mem}};
    TRY(check_update(u, s, err));
    TRY(transaction_new(c->mem, OPERATION_UPDATE, s->version, &t, err));
    row_removal_begin(&rows, c, s, &t->arena, file_cache_length, files);
    TRY(move_rows(u, c, s, files, &m, &written, err));
    TRY(fill_update(u, s, &m, written, t, err));
    u->result.rows_updated = rows.n_rows;
    u->result.fragments_changed = rows.n_updated;
    u->result.fragments_removed = rows.n_removed;
    u->result.fragments_added = written->op.append.n_fragments;
    TRY(mutation_commit(c, s, t, &rows, u->o, out, err));
done:
    /* After a lost reply the files may be in use. */
    if (st != PENNON_OK && st != PENNON_COMMIT_UNKNOWN) {
        row_removal_remove_files(&rows);
        if (written) mutation_remove_data(c, s, written);
    }
    row_removal_end(&rows);
    id_runs_free(&m.ids);
    transaction_free(t);
    transaction_free(written);
    return st;
}

pennon_status pennon_dataset_update(pennon_dataset *ds, const char *where, size_t n, const char *const *columns,
                                    const char *const *expressions, const pennon_mutation_options *options,
                                    pennon_update_result *result, pennon_error *err)
{
    struct api a;
    pennon_mutation_options o;
    pennon_status st = mutation_begin(&a, options, &o, ds);
    struct updating u = {.where = where, .n = n, .columns = columns, .expressions = expressions, .o = &o};
    if (st == PENNON_OK && (n == 0 || !columns || !expressions))
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "No updates provided");
    if (st == PENNON_OK && where && !where[0])
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "an empty predicate; without one all rows are updated");
    if (st == PENNON_OK) st = mutation_run(&a.c, ds, &o, update_once, &u, &u.result.attempts, &u.result.version, a.err);
    if (st == PENNON_OK) mutation_result_out(&u.result, sizeof u.result, result);
    return api_end(&a, st, err);
}
