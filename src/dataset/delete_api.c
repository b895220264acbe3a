/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The public call that deletes rows: the filter finds their addresses, deletion files take them out, one commit makes it visible.
 *
 * A filter that is true for every row without looking at one removes all fragments, and reads nothing.
 * Source: spec commits 3.3, 7.1, 7.2. */
#include "dataset/mutation.h"
#include "exec/query.h"

struct deleting {
    const char *where;
    const pennon_mutation_options *o;
    pennon_delete_result result; /* of the last attempt */
};

/* The rows of the scan, whose one column is their address. */
static pennon_status take_rows(struct call *c, struct ArrowArrayStream *stream, struct row_removal *rows, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray batch = {0};
    for (;;) {
        TRY(call_check(c, err));
        TRY(stream_next(stream, &batch, err));
        if (!batch.release) break;
        ASSERT(batch.n_children == 1 && batch.offset == 0);
        const struct ArrowArray *a = batch.children[0];
        TRY(row_removal_add(rows, (const uint64_t *)a->buffers[1] + a->offset, (size_t)batch.length, err));
        call_progress(c, rows->n_rows, 0);
        array_release(&batch);
    }
done:
    array_release(&batch);
    return st;
}

static pennon_status find_rows(struct deleting *d, struct call *c, struct snapshot *s, struct file_cache *files,
                               struct row_removal *rows, pennon_error *err)
{
    static const char *const address[] = {"_rowaddr"};
    static const pennon_names columns = {1, address};
    pennon_status st = PENNON_OK;
    struct query *q = NULL;
    struct ArrowArrayStream stream = {0};
    pennon_scan_options o;
    pennon_scan_options_init(&o);
    o.columns = &columns;
    o.filter = d->where;
    TRY(query_new(c, s, files, &o, &q, err));
    /* The plan keeps no filter that is the same for every row. */
    if (!q->read->filter && !q->read->nothing) {
        TRY(row_removal_add_all(rows, err));
    } else {
        TRY(query_open(c, s, files, q, NULL, &stream, err));
        TRY(take_rows(c, &stream, rows, err));
    }
    TRY(row_removal_finish(rows, err));
done:
    stream_release(&stream);
    query_free(q);
    return st;
}

static pennon_status delete_once(void *ctx, struct call *c, struct snapshot *s, struct file_cache *files, struct snapshot **out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct deleting *d = ctx;
    struct transaction *t = NULL;
    struct row_removal rows = {0};
    TRY(mutation_check(s, err));
    TRY(transaction_new(c->mem, OPERATION_DELETE, s->version, &t, err));
    row_removal_begin(&rows, c, s, &t->arena, file_cache_length, files);
    TRY(find_rows(d, c, s, files, &rows, err));
    t->op.remove = (struct delete_message){.updated_fragments = rows.updated,
                                           .n_updated_fragments = rows.n_updated,
                                           .deleted_fragment_ids = rows.removed,
                                           .n_deleted_fragment_ids = rows.n_removed,
                                           .predicate = bytes_str(d->where)};
    TRY(transaction_set_pairs(t, d->o->properties, err));
    d->result.rows_deleted = rows.n_rows;
    d->result.fragments_changed = rows.n_updated;
    d->result.fragments_removed = rows.n_removed;
    TRY(mutation_commit(c, s, t, &rows, d->o, out, err));
done:
    /* After a lost reply the files may be in use. */
    if (st != PENNON_OK && st != PENNON_COMMIT_UNKNOWN) row_removal_remove_files(&rows);
    row_removal_end(&rows);
    transaction_free(t);
    return st;
}

pennon_status pennon_dataset_delete(pennon_dataset *ds, const char *where, const pennon_mutation_options *options,
                                    pennon_delete_result *result, pennon_error *err)
{
    struct api a;
    pennon_mutation_options o;
    pennon_status st = mutation_begin(&a, options, &o, ds);
    struct deleting d = {.where = where, .o = &o};
    if (st == PENNON_OK && (!where || !where[0]))
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "a delete needs a predicate; \"true\" deletes all rows");
    if (st == PENNON_OK) st = mutation_run(&a.c, ds, &o, delete_once, &d, &d.result.attempts, &d.result.version, a.err);
    if (st == PENNON_OK) mutation_result_out(&d.result, sizeof d.result, result);
    return api_end(&a, st, err);
}
