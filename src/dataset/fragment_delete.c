/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Rows of one fragment, deleted without a commit: the deletion file, and the transaction that would make it visible.
 *
 * Source: spec commits 3.3, api-surface 5. */
#include "dataset/mutation.h"
#include "exec/query.h"
#include "pennon/evolution.h"

static pennon_status take_rows(const struct call *c, struct ArrowArrayStream *stream, struct row_removal *rows, pennon_error *err)
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
    TRY(row_removal_finish(rows, err));
done:
    array_release(&batch);
    return st;
}

static pennon_status find_rows(struct call *c, struct snapshot *s, struct file_cache *files, uint64_t fragment, const char *where,
                               struct row_removal *rows, pennon_error *err)
{
    static const char *const address[] = {"_rowaddr"};
    static const pennon_names columns = {1, address};
    const pennon_ids fragments = {1, &fragment};
    pennon_status st = PENNON_OK;
    struct query *q = NULL;
    struct ArrowArrayStream stream = {0};
    pennon_scan_options o;
    pennon_scan_options_init(&o);
    o.columns = &columns;
    o.filter = where;
    o.fragments = &fragments;
    TRY(query_new(c, s, files, &o, &q, err));
    TRY(query_open(c, s, files, q, NULL, &stream, err));
    TRY(take_rows(c, &stream, rows, err));
done:
    stream_release(&stream);
    query_free(q);
    return st;
}

/* What the message borrows of the version is copied on the way through its bytes. */
static pennon_status own_transaction(const struct call *c, const struct transaction *t, pennon_transaction **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *own = NULL;
    struct buf b;
    buf_init(&b, c->mem, BUF_NO_LIMIT);
    TRY(transaction_encode(t, &b, err));
    TRY(transaction_decode(runtime_mem(c->runtime), bytes_of(b.data, b.size), &own, err));
    TRY(transaction_handle(c, own, out, err));
done:
    buf_free(&b);
    return st;
}

static pennon_status delete_rows(struct call *c, struct snapshot *s, struct file_cache *files, uint64_t fragment, const char *where,
                                 pennon_transaction **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *t = NULL;
    struct row_removal rows = {0};
    TRY(mutation_check(s, err));
    if (!snapshot_find_fragment(s, fragment))
        FAIL(PENNON_NOT_FOUND, "fragment %" PRIu64 ": the dataset has none of that id", fragment);
    TRY(transaction_new(c->mem, OPERATION_DELETE, s->version, &t, err));
    row_removal_begin(&rows, c, s, &t->arena, file_cache_length, files);
    TRY(find_rows(c, s, files, fragment, where, &rows, err));
    t->op.remove = (struct delete_message){.updated_fragments = rows.updated,
                                           .n_updated_fragments = rows.n_updated,
                                           .deleted_fragment_ids = rows.removed,
                                           .n_deleted_fragment_ids = rows.n_removed,
                                           .predicate = bytes_str(where)};
    TRY(own_transaction(c, t, out, err));
done:
    if (st != PENNON_OK) row_removal_remove_files(&rows);
    row_removal_end(&rows);
    transaction_free(t);
    return st;
}

pennon_status pennon_fragment_delete(pennon_dataset *ds, uint64_t fragment, const char *where, const pennon_call *call,
                                     pennon_transaction **out, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, call, ds, "dataset");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK && (!where || !where[0]))
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "a delete needs a predicate; \"true\" deletes all rows");
    if (st == PENNON_OK) {
        struct snapshot *s;
        struct file_cache *files;
        dataset_get(ds, &s, &files);
        st = delete_rows(&a.c, s, files, fragment, where, out, a.err);
        if (st != PENNON_OK) {
            st = table_error(&s->at, st, a.err);
            st = error_where(a.err, s->at.uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
        }
        file_cache_release(files);
        snapshot_release(s);
    }
    return api_end(&a, st, err);
}
