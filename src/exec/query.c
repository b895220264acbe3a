/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* From the options of a scan to its operators. Source: spec expressions 9, 10.2, 10.3, 12. */
#include "exec/query.h"

#define BATCH_ROWS_DEFAULT 8192u
#define BATCH_BYTES_DEFAULT ((uint64_t)8 << 20)
/* Rows so narrow are sorted as they are; where only the first few are wanted, they have to be narrower. */
#define SORT_ROW_BYTES 64u
#define TOP_ROW_BYTES 16u
#define TOP_ROWS 10000u

/* ---- the options ---- */

static pennon_status check_aggregates(const pennon_scan_options *o, pennon_error *err)
{
    if (!o->aggregates) return PENNON_OK;
    if (o->limit != PENNON_NONE || o->offset)
        return error_set(err, PENNON_INVALID_ARGUMENT,
                         "limit or offset together with aggregates; apply them to the result instead");
    if (o->order_by && o->order_by->n)
        return error_set(err, PENNON_INVALID_ARGUMENT, "order_by together with aggregates; order the result instead");
    if (o->columns || o->expressions)
        return error_set(err, PENNON_INVALID_ARGUMENT, "columns or expressions together with aggregates, which are the result");
    if (o->with_row_id || o->with_row_address)
        return error_set(err, PENNON_INVALID_ARGUMENT, "row ids or addresses together with aggregates: groups have none");
    if (o->aggregates->n == 0 && (!o->aggregates->group_by || o->aggregates->group_by->n == 0))
        return error_set(err, PENNON_INVALID_ARGUMENT, "aggregates without a function and without a group");
    return PENNON_OK;
}

static pennon_status check_options(const pennon_scan_options *o, pennon_error *err)
{
    if (o->blobs != PENNON_BLOBS_DESCRIPTIONS && o->blobs != PENNON_BLOBS_BYTES)
        return error_set(err, PENNON_INVALID_ARGUMENT, "blobs %d is not one of the PENNON_BLOBS_ values", o->blobs);
    if (o->include_deleted_rows && !o->with_row_id && !o->aggregates)
        return error_set(err, PENNON_INVALID_ARGUMENT, "include_deleted_rows is set but with_row_id is false");
    if (o->include_deleted_rows && !o->filter && !o->substrait_filter && (o->limit != PENNON_NONE || o->offset))
        return error_set(err, PENNON_INVALID_ARGUMENT, "include_deleted_rows together with a limit or an offset and no filter");
    return check_aggregates(o, err);
}

/* The fragments of the option, or all. */
static pennon_status pick_fragments(struct query *q, const struct snapshot *s, const pennon_ids *ids, pennon_error *err)
{
    const size_t count = ids ? ids->n : s->n_fragments;
    q->fragments = mem_calloc(q->mem, count + 1, sizeof *q->fragments, err);
    if (!q->fragments) return err->code;
    for (size_t i = 0; i < count; i++) {
        q->fragments[i] = ids ? snapshot_find_fragment(s, ids->items[i]) : &s->fragments[i];
        if (!q->fragments[i])
            return error_set(err, PENNON_NOT_FOUND, "no fragment %" PRIu64 " in version %" PRIu64, ids->items[i], s->version);
    }
    q->n_fragments = count;
    return PENNON_OK;
}

static struct column_request columns_request(const pennon_scan_options *o)
{
    return (struct column_request){.columns = o->columns ? o->columns->items : NULL,
                                   .n = o->columns ? o->columns->n : 0,
                                   .all = !o->columns && !o->expressions,
                                   .row_id = o->with_row_id,
                                   .row_address = o->with_row_address,
                                   .with_deleted = o->include_deleted_rows,
                                   .map = o->mapped,
                                   .blobs = o->blobs == PENNON_BLOBS_BYTES ? BLOB_AS_BYTES : BLOB_AS_DESCRIPTOR};
}

static pennon_status begin_read(struct query *q, const struct snapshot *s, const pennon_scan_options *o, pennon_error *err)
{
    const struct column_request r = columns_request(o);
    TRY_RETURN(scan_plan_begin(s, r.blobs, r.with_deleted, q->mem, &q->read, err));
    q->read->map = o->mapped;
    if (!o->filter && !o->substrait_filter) return PENNON_OK;
    return scan_plan_filter(q->read, s, o->filter, bytes_of(o->substrait_filter, o->substrait_filter_size), err);
}

static pennon_status finish_read(struct query *q, const struct snapshot *s, const pennon_scan_options *o, pennon_error *err)
{
    q->materialize = o->materialize;
    return scan_plan_finish(q->read, s, o->materialize, o->late_columns, err);
}

/* ---- plain and filtered reads ---- */

static pennon_status plan_rows(struct query *q, const struct snapshot *s, const pennon_scan_options *o, pennon_error *err)
{
    const struct column_request r = columns_request(o);
    if (!o->filter && !o->substrait_filter && !o->expressions) {
        if (o->materialize < PENNON_MATERIALIZE_HEURISTIC || o->materialize > PENNON_MATERIALIZE_EARLY_EXCEPT)
            return error_set(err, PENNON_INVALID_ARGUMENT, "materialize %d is not one of the PENNON_MATERIALIZE_ values",
                             o->materialize);
        return scan_plan_direct(s, &r, q->mem, &q->read, err);
    }
    TRY_RETURN(begin_read(q, s, o, err));
    TRY_RETURN(scan_plan_columns(q->read, s, &r, o->expressions, err));
    return finish_read(q, s, o, err);
}

/* ---- order ---- */

/* Bytes of a row where all columns have a fixed width; else UINT64_MAX. */
static uint64_t row_width(const struct ArrowSchema *schema)
{
    uint64_t bytes = 0;
    pennon_error ignored;
    pennon_error_init(&ignored);
    for (int64_t i = 0; i < schema->n_children && bytes != UINT64_MAX; i++) {
        struct arrow_type t;
        const bool fixed = arrow_type_of(schema->children[i], &t, &ignored) == PENNON_OK &&
                           (t.layout == LAYOUT_FIXED || t.layout == LAYOUT_BITS) && t.id != ARROW_DICTIONARY;
        bytes = fixed ? bytes + div_ceil(t.bit_width, 8) : UINT64_MAX;
    }
    pennon_error_clear(&ignored);
    return bytes;
}

/* Bytes of the data files that are scanned; UINT64_MAX = not known. */
static pennon_status data_bytes(const struct query *q, struct snapshot *s, uint64_t *out, pennon_error *err)
{
    *out = 0;
    for (size_t i = 0; i < q->n_fragments; i++) {
        const struct fragment *f = q->fragments[i];
        TRY_RETURN(fragment_load(s, f, err));
        for (uint32_t k = 0; k < f->n_files; k++) {
            const bool known = f->files[k].size != 0 && !add_overflows(*out, f->files[k].size, out);
            if (!known) {
                *out = UINT64_MAX;
                return PENNON_OK;
            }
        }
    }
    return PENNON_OK;
}

/* Are whole rows sorted, or only their keys and places? Whole ones must be in memory together; others are read in any order afterwards. */
static pennon_status sort_whole(const struct call *c, const struct query *q, struct snapshot *s, const pennon_scan_options *o,
                                bool *out, pennon_error *err)
{
    uint64_t bytes;
    *out = o->materialize == PENNON_MATERIALIZE_EARLY;
    if (o->materialize == PENNON_MATERIALIZE_EARLY_EXCEPT) *out = !o->late_columns || o->late_columns->n == 0;
    if (o->materialize != PENNON_MATERIALIZE_HEURISTIC) return PENNON_OK;
    if (row_width(&q->take->arrow) <= (o->limit <= TOP_ROWS ? TOP_ROW_BYTES : SORT_ROW_BYTES)) {
        *out = true;
        return PENNON_OK;
    }
    if (o->limit != PENNON_NONE) return PENNON_OK;
    TRY_RETURN(data_bytes(q, s, &bytes, err));
    *out = bytes < mem_available(c->mem) / 8;
    return PENNON_OK;
}

/* The column of the read that has the key; it is added where there is none. */
static pennon_status key_column(struct query *q, const char *name, uint32_t *out, pennon_error *err)
{
    for (size_t i = 0; i < q->read->n_outputs; i++) {
        if (q->read->outputs[i].e == NULL && strcmp(q->read->outputs[i].name, name) == 0) {
            *out = (uint32_t)i;
            return PENNON_OK;
        }
    }
    *out = (uint32_t)q->read->n_outputs;
    return scan_plan_column(q->read, name, err);
}

static pennon_status add_keys(struct query *q, const pennon_orders *orders, pennon_error *err)
{
    q->keys = arena_calloc(&q->arena, orders->n, sizeof *q->keys, err);
    if (!q->keys) return err->code;
    q->key_names = arena_calloc(&q->arena, orders->n, sizeof *q->key_names, err);
    if (!q->key_names) return err->code;
    for (size_t i = 0; i < orders->n; i++) {
        const pennon_order *order = &orders->items[i];
        if (!order->column) return error_set(err, PENNON_INVALID_ARGUMENT, "the column of order %zu is NULL", i);
        q->key_names[i] = arena_strndup(&q->arena, order->column, strlen(order->column), err);
        if (!q->key_names[i]) return err->code;
        q->keys[i].flags = (order->descending ? ARRAY_SORT_DESCENDING : 0u) | (order->nulls_first ? ARRAY_SORT_NULLS_FIRST : 0u);
        TRY_RETURN(key_column(q, order->column, &q->keys[i].column, err));
    }
    q->n_keys = orders->n;
    return PENNON_OK;
}

static pennon_status plan_order(const struct call *c, struct query *q, struct snapshot *s, const pennon_scan_options *o,
                                pennon_error *err)
{
    const struct column_request r = columns_request(o);
    bool whole;
    TRY_RETURN(scan_plan_begin(s, r.blobs, r.with_deleted, q->mem, &q->take, err));
    TRY_RETURN(scan_plan_columns(q->take, s, &r, o->expressions, err));
    TRY_RETURN(scan_plan_finish(q->take, s, PENNON_MATERIALIZE_EARLY, NULL, err));
    TRY_RETURN(sort_whole(c, q, s, o, &whole, err));
    TRY_RETURN(begin_read(q, s, o, err));
    if (whole) {
        scan_plan_free(q->take);
        q->take = NULL;
        TRY_RETURN(scan_plan_columns(q->read, s, &r, o->expressions, err));
        q->n_visible = q->read->n_outputs;
    }
    TRY_RETURN(add_keys(q, o->order_by, err));
    if (!whole) TRY_RETURN(scan_plan_place(q->read, err));
    TRY_RETURN(finish_read(q, s, o, err));
    for (size_t i = 0; i < q->n_keys; i++) {
        const struct ArrowSchema *key = q->read->arrow.children[q->keys[i].column];
        if (!sort_possible(key))
            return error_set(err, PENNON_NOT_SUPPORTED, "order by '%s': its type has no order", q->key_names[i]);
    }
    return PENNON_OK;
}

/* ---- aggregates ---- */

static pennon_status aggregate_name(struct query *q, const pennon_aggregate *a, const char **out, pennon_error *err)
{
    static const char *const forms[] = {"count(Int64(1))", "count(%s)", "sum(%s)", "avg(%s)", "min(%s)", "max(%s)"};
    struct buf b;
    pennon_status st = PENNON_OK;
    if (a->alias || a->function == PENNON_AGGREGATE_COUNT_ROWS) {
        const char *name = a->alias ? a->alias : forms[0];
        *out = arena_strndup(&q->arena, name, strlen(name), err);
        return *out ? PENNON_OK : err->code;
    }
    const char *form = forms[a->function];
    buf_init(&b, q->mem, BUF_NO_LIMIT);
    TRY(buf_append(&b, form, (size_t)(strchr(form, '(') + 1 - form), err));
    TRY(buf_append(&b, a->column, strlen(a->column), err));
    TRY(buf_append_byte(&b, ')', err));
    TRY_NEW(*out, arena_strndup(&q->arena, (const char *)b.data, b.size, err));
done:
    buf_free(&b);
    return st;
}

static pennon_status plan_item(struct query *q, const pennon_aggregate *a, struct aggregate *out, pennon_error *err)
{
    static const enum aggregate_kind kinds[] = {AGGREGATE_COUNT_ROWS, AGGREGATE_COUNT, AGGREGATE_SUM,
                                                AGGREGATE_AVG,        AGGREGATE_MIN,   AGGREGATE_MAX};
    if (a->function < 0 || a->function >= (int32_t)ARRAY_LEN(kinds))
        return error_set(err, PENNON_INVALID_ARGUMENT, "function %d is not one of the PENNON_AGGREGATE_ values", a->function);
    if ((a->function == PENNON_AGGREGATE_COUNT_ROWS) != (a->column == NULL))
        return error_set(err, PENNON_INVALID_ARGUMENT, "%s",
                         a->column ? "a count of rows has no column" : "an aggregate without a column");
    out->kind = kinds[a->function];
    if (a->column) TRY_RETURN(key_column(q, a->column, &out->column, err));
    return aggregate_name(q, a, &out->name, err);
}

/* As columns of a scan, those of the result have names of their own. */
static pennon_status refuse_doubled_results(const struct query *q, const pennon_names *groups, pennon_error *err)
{
    const size_t n = q->n_groups + q->n_items;
    for (size_t i = 0; i < n; i++) {
        const char *name = i < q->n_groups ? groups->items[i] : q->items[i - q->n_groups].name;
        for (size_t k = 0; k < i; k++) {
            const char *other = k < q->n_groups ? groups->items[k] : q->items[k - q->n_groups].name;
            if (strcmp(name, other) == 0)
                return error_set(err, PENNON_INVALID_ARGUMENT, "the result would have two columns named '%s'; give one an alias",
                                 name);
        }
    }
    return PENNON_OK;
}

static pennon_status plan_aggregates(struct query *q, const struct snapshot *s, const pennon_scan_options *o, pennon_error *err)
{
    const pennon_aggregates *a = o->aggregates;
    q->aggregates = true;
    q->n_groups = a->group_by ? a->group_by->n : 0;
    q->groups = arena_calloc(&q->arena, q->n_groups + 1, sizeof *q->groups, err);
    if (!q->groups) return err->code;
    q->items = arena_calloc(&q->arena, a->n + 1, sizeof *q->items, err);
    if (!q->items) return err->code;
    TRY_RETURN(begin_read(q, s, o, err));
    for (size_t i = 0; i < q->n_groups; i++) {
        if (!a->group_by->items[i]) return error_set(err, PENNON_INVALID_ARGUMENT, "the column of group %zu is NULL", i);
        TRY_RETURN(key_column(q, a->group_by->items[i], &q->groups[i], err));
    }
    for (size_t i = 0; i < a->n; i++, q->n_items++) TRY_RETURN(plan_item(q, &a->items[i], &q->items[i], err));
    TRY_RETURN(refuse_doubled_results(q, a->group_by, err));
    return finish_read(q, s, o, err);
}

/* ---- sizes of batches ---- */

/* Rows that make about `bytes`, from what the first files say. */
static uint64_t rows_for_bytes(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct column_plan *plan,
                               uint64_t bytes)
{
    pennon_error ignored;
    pennon_error_init(&ignored);
    uint64_t rows = BATCH_ROWS_DEFAULT;
    struct ArrowArray first = {0};
    if (s->n_fragments && s->fragments[0].physical_rows != UINT64_MAX && s->fragments[0].physical_rows) {
        struct row_range range = {0, min_u64(64, s->fragments[0].physical_rows)};
        if (fragment_read(c, fc, s, &s->fragments[0], plan, &range, 1, 0, &first, &ignored) == PENNON_OK && first.length) {
            uint64_t each = array_bytes(&plan->arrow, &first) / (uint64_t)first.length;
            rows = max_u64(1, bytes / max_u64(1, each));
        }
    }
    array_release(&first);
    pennon_error_clear(&ignored);
    return rows;
}

static void plan_batches(const struct call *c, struct query *q, struct snapshot *s, struct file_cache *fc,
                         const pennon_scan_options *o)
{
    q->batch_rows = o->batch_rows ? o->batch_rows : BATCH_ROWS_DEFAULT;
    if (o->batch_bytes && q->read->direct)
        q->batch_rows = rows_for_bytes(c, s, fc, q->read->splits[SPLIT_WIDE].first, o->batch_bytes);
    /* Who asks for a number of rows gets it. */
    q->batch_bytes = o->batch_rows || o->batch_bytes || o->strict_batches ? UINT64_MAX : BATCH_BYTES_DEFAULT;
    q->rebatch = (o->strict_batches || o->batch_bytes) && !q->aggregates;
    q->rebatch_rows = o->strict_batches && !o->batch_bytes ? q->batch_rows : UINT64_MAX;
    q->rebatch_bytes = o->batch_bytes ? o->batch_bytes : UINT64_MAX;
    /* Sorted rows that are equal keep their order, and so do groups: then the read is in order. */
    q->unordered = o->unordered && q->n_keys == 0 && !q->aggregates;
    q->readahead = o->readahead ? o->readahead : c->threads * 2;
}

/* ---- life ---- */

pennon_status query_new(const struct call *c, struct snapshot *s, struct file_cache *fc, const pennon_scan_options *o,
                        struct query **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct query *q = NULL;
    const bool ordered = o->order_by && o->order_by->n;
    TRY(check_options(o, err));
    TRY_NEW(q, mem_calloc(c->mem, 1, sizeof *q, err));
    q->mem = mem_retain(c->mem);
    arena_init(&q->arena, q->mem);
    q->limit = o->limit;
    q->offset = o->offset;
    TRY(pick_fragments(q, s, o->fragments, err));
    if (o->aggregates) {
        TRY(plan_aggregates(q, s, o, err));
    } else if (ordered) {
        TRY(plan_order(c, q, s, o, err));
    } else {
        TRY(plan_rows(q, s, o, err));
    }
    plan_batches(c, q, s, fc, o);
    *out = q;
    q = NULL;
done:
    query_free(q);
    return st;
}

void query_free(struct query *q)
{
    if (!q) return;
    struct mem *m = q->mem;
    scan_plan_free(q->read);
    scan_plan_free(q->take);
    mem_free(m, q->fragments);
    arena_reset(&q->arena);
    mem_free(m, q);
    mem_release(m);
}
