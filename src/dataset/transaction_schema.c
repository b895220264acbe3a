/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Schemas and fragments as transactions have them: for programs that build transactions of their own. */
#include "dataset/transaction_handle.h"

/* ---- fragments of a version ---- */

static pennon_status put_fragments(struct snapshot *s, struct buf *b, pennon_error *err)
{
    TRY_RETURN(buf_append_byte(b, '[', err));
    for (size_t i = 0; i < s->n_fragments; i++) {
        if (i > 0) TRY_RETURN(buf_printf(b, err, ",\n "));
        TRY_RETURN(fragment_load(s, &s->fragments[i], err));
        TRY_RETURN(fragment_to_json(s->fragments[i].message, b, err));
    }
    return buf_append_byte(b, ']', err);
}

pennon_status pennon_dataset_fragments_json(pennon_dataset *ds, const pennon_call *call, char **out, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, call, ds, "dataset");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) {
        struct snapshot *s;
        struct buf b;
        dataset_get(ds, &s, NULL);
        buf_init(&b, a.c.mem, BUF_NO_LIMIT);
        st = put_fragments(s, &b, a.err);
        if (st == PENNON_OK) st = text_out(&b, out, a.err);
        buf_free(&b);
        st = table_error(&s->at, st, a.err);
        snapshot_release(s);
    }
    return api_end(&a, st, err);
}

/* ---- a schema as a transaction ---- */

/* The Lance schema that a table of this Arrow schema would have. Blob columns exist up to 2.1 in one form, from 2.2 on in another. */
static pennon_status schema_of_arrow(struct mem *m, const struct ArrowSchema *arrow, struct schema **out, pennon_error *err)
{
    struct schema *plain = NULL;
    pennon_status st = schema_from_arrow(m, arrow, STORAGE_2_1, &plain, err);
    if (st == PENNON_NOT_SUPPORTED || st == PENNON_INVALID_ARGUMENT) {
        pennon_error first = *err;
        pennon_error_init(err);
        st = schema_from_arrow(m, arrow, STORAGE_2_2, &plain, err);
        pennon_error_clear(&first);
    }
    TRY(st);
    TRY(schema_assign_ids(m, plain, 0, out, err));
done:
    schema_release(plain);
    return st;
}

/* An Overwrite to `s`, without fragments. What it borrows of `s` is copied on the way through its bytes. */
static pennon_status overwrite_to(struct mem *m, const struct schema *s, struct transaction **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *t = NULL;
    struct buf b;
    buf_init(&b, m, BUF_NO_LIMIT);
    TRY(transaction_new(m, OPERATION_OVERWRITE, 0, &t, err));
    struct overwrite_message *o = &t->op.overwrite;
    TRY(schema_to_messages(s, &t->arena, &o->schema, &o->n_schema, err));
    TRY(schema_metadata_to_messages(s, &t->arena, &o->schema_metadata, &o->n_schema_metadata, err));
    TRY(transaction_encode(t, &b, err));
    TRY(transaction_decode(m, bytes_of(b.data, b.size), out, err));
done:
    buf_free(&b);
    transaction_free(t);
    return st;
}

pennon_status pennon_transaction_from_schema(const struct ArrowSchema *schema, pennon_dataset *ds, pennon_transaction **out,
                                             pennon_error *err)
{
    struct api a;
    struct transaction *t = NULL;
    struct schema *own = NULL;
    struct snapshot *s = NULL;
    pennon_status st = api_begin(&a, NULL, schema ? (const void *)schema : (const void *)ds, "schema");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK && schema) st = schema_of_arrow(a.c.mem, schema, &own, a.err);
    if (st == PENNON_OK && !schema) dataset_get(ds, &s, NULL);
    if (st == PENNON_OK) st = overwrite_to(runtime_mem(a.c.runtime), own ? own : s->schema, &t, a.err);
    if (st == PENNON_OK) st = transaction_handle(&a.c, t, out, a.err);
    schema_release(own);
    snapshot_release(s);
    return api_end(&a, st, err);
}

/* The fields that a transaction makes the table's. */
static pennon_status fields_of(const struct transaction *t, const struct field_message **fields, size_t *n,
                               const struct map_entry **metadata, size_t *n_metadata, pennon_error *err)
{
    *metadata = NULL;
    *n_metadata = 0;
    switch (t->which) {
    case OPERATION_OVERWRITE:
        *fields = t->op.overwrite.schema;
        *n = t->op.overwrite.n_schema;
        *metadata = t->op.overwrite.schema_metadata;
        *n_metadata = t->op.overwrite.n_schema_metadata;
        return PENNON_OK;
    case OPERATION_MERGE:
        *fields = t->op.merge.schema;
        *n = t->op.merge.n_schema;
        *metadata = t->op.merge.schema_metadata;
        *n_metadata = t->op.merge.n_schema_metadata;
        return PENNON_OK;
    case OPERATION_PROJECT:
        *fields = t->op.project.schema;
        *n = t->op.project.n_schema;
        return PENNON_OK;
    default: return error_set(err, PENNON_INVALID_ARGUMENT, "the transaction has no schema: Overwrite, Merge and Project have one");
    }
}

pennon_status pennon_transaction_schema(const pennon_transaction *t, struct ArrowSchema *out, pennon_error *err)
{
    struct api a;
    struct schema *s = NULL;
    const struct field_message *fields;
    const struct map_entry *metadata;
    size_t n, n_metadata;
    pennon_status st = api_begin(&a, NULL, t, "transaction");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) st = fields_of(t->t, &fields, &n, &metadata, &n_metadata, a.err);
    if (st == PENNON_OK) st = schema_from_messages(a.c.mem, fields, n, metadata, n_metadata, false, &s, a.err);
    if (st == PENNON_OK) st = schema_to_arrow(s, SCHEMA_VIEW_TABLE, BLOB_AS_INPUT, t->mem, out, a.err);
    schema_release(s);
    return api_end(&a, st, err);
}
