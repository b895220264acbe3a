/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Gathering of unions and run-end encoded arrays: types that Lance does not store, but that pass through IPC and streams.
 *
 * Sparse unions take the same spans of every child. Dense unions get offsets that count up per child, with a child span per row
 * (rows that follow one another in a child join). Runs are cut at the borders of spans; two spans that meet inside one run
 * of the source make one run again. */
#include "arrow/arrow_internal.h"

/* First id in the text of a union's ids: that of child 0. */
static int first_id(const char *ids)
{
    int id = 0;
    for (; *ids >= '0' && *ids <= '9'; ids++) id = id * 10 + (*ids - '0');
    return id;
}

static pennon_status gather_one_child(const struct gather *g, const struct ArrowSchema *schema, int64_t i, const struct span *spans,
                                      size_t n, int64_t rows, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct gather child = *g;
    struct array_view *views = NULL;
    TRY_NEW(views, gather_child_views(g, i, err));
    child.sources = views;
    child.spans = spans;
    child.n_spans = n;
    child.rows = rows;
    TRY(gather_spans(&child, schema->children[i], out->children[i], err));
done:
    mem_free(g->mem, views);
    return st;
}

/* Per row of the result: the offset in its child; and the child's spans. */
static pennon_status plan_dense(const struct gather *g, const struct ArrowSchema *schema, struct span_list *children,
                                uint8_t *offsets, pennon_error *err)
{
    for (size_t k = 0; k < g->n_spans; k++) {
        const struct span *s = &g->spans[k];
        for (int64_t i = 0; i < s->n; i++, offsets += 4) {
            int64_t child = 0;
            int64_t row = 0;
            if (s->source != SPAN_NULL) array_view_union(&g->sources[s->source], s->start + i, &child, &row);
            if (children[child].rows >= INT32_MAX) {
                return error_set(err, PENNON_INVALID_ARGUMENT, "field '%.128s': %" PRId64 " rows do not fit a dense union",
                                 field_name(schema), g->rows);
            }
            native_put_i32(offsets, (int32_t)children[child].rows);
            TRY_RETURN(span_list_add(&children[child], s->source, row, 1, err));
        }
    }
    return PENNON_OK;
}

static pennon_status gather_dense_children(const struct gather *g, const struct ArrowSchema *schema, struct ArrowArray *out,
                                           pennon_error *err)
{
    pennon_status st = PENNON_OK;
    size_t n = (size_t)schema->n_children;
    struct span_list *lists = NULL;
    uint8_t *offsets = NULL;

    TRY_NEW(lists, mem_calloc(g->mem, n, sizeof *lists, err));
    for (size_t i = 0; i < n; i++) span_list_init(&lists[i], g->mem);
    TRY_NEW(offsets, array_make_buffer(out, 1, (size_t)g->rows * 4, err));
    TRY(plan_dense(g, schema, lists, offsets, err));
    for (size_t i = 0; i < n; i++)
        TRY(gather_one_child(g, schema, (int64_t)i, lists[i].items, lists[i].n, lists[i].rows, out, err));
done:
    for (size_t i = 0; i < n && lists != NULL; i++) span_list_free(&lists[i]);
    mem_free(g->mem, lists);
    return st;
}

pennon_status gather_union(const struct gather *g, const struct ArrowSchema *schema, struct ArrowArray *out, pennon_error *err)
{
    struct arrow_type type;
    uint8_t *ids = NULL;
    TRY_RETURN(arrow_type_parse(schema->format, &type, err));
    if (schema->n_children == 0 && g->rows > 0) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "field '%.128s': a union without children has no rows", field_name(schema));
    }
    ids = array_make_buffer(out, 0, (size_t)g->rows, err);
    if (ids == NULL) return err->code;
    for (size_t k = 0; k < g->n_spans; k++) {
        const struct span *s = &g->spans[k];
        if (s->source == SPAN_NULL) {
            memset(ids, first_id(type.union_ids), (size_t)s->n);
        } else {
            memcpy(ids, g->sources[s->source].data + g->sources[s->source].offset + s->start, (size_t)s->n);
        }
        ids += s->n;
    }
    if (type.layout == LAYOUT_DENSE_UNION) return gather_dense_children(g, schema, out, err);
    for (int64_t i = 0; i < schema->n_children; i++) {
        TRY_RETURN(gather_one_child(g, schema, i, g->spans, g->n_spans, g->rows, out, err));
    }
    return PENNON_OK;
}

/* ----------------------------------------------------------------------------------------------------------- run ends */

struct run_builder {
    struct span_list values; /* a row per run */
    struct buf ends;         /* int64 per run */
    int64_t end;             /* rows so far */
    uint32_t source;         /* of the last run */
    int64_t run;
};

/* Rows up to `n` more, of run `run` of the source; the same run as the last one goes on. */
static pennon_status add_run(struct run_builder *b, uint32_t source, int64_t run, int64_t n, pennon_error *err)
{
    bool same = b->ends.size > 0 && b->source == source && (source == SPAN_NULL || b->run == run);
    b->end += n;
    if (same) {
        memcpy(b->ends.data + b->ends.size - 8, &b->end, 8);
        return PENNON_OK;
    }
    b->source = source;
    b->run = run;
    TRY_RETURN(span_list_add(&b->values, source, run, 1, err));
    return buf_append(&b->ends, &b->end, 8, err);
}

static pennon_status add_span_runs(const struct gather *g, const struct span *s, struct run_builder *b, pennon_error *err)
{
    struct array_view ends;
    int64_t row = 0;
    int64_t last = 0;
    if (s->source == SPAN_NULL) return add_run(b, SPAN_NULL, 0, s->n, err);
    TRY_RETURN(array_view_peek_child(&g->sources[s->source], 0, &ends, err));
    row = g->sources[s->source].offset + s->start;
    last = row + s->n;
    for (int64_t run = run_end_find(&ends, row); row < last; run++) {
        int64_t end = (int64_t)min_u64((uint64_t)array_view_int(&ends, run), (uint64_t)last);
        TRY_RETURN(add_run(b, s->source, run, end - row, err));
        row = end;
    }
    return PENNON_OK;
}

/* The run ends as an array of the width that the schema asks for. */
static pennon_status store_ends(const struct run_builder *b, const struct ArrowSchema *schema, struct mem *mem,
                                struct ArrowArray *out, pennon_error *err)
{
    struct arrow_type type;
    size_t n = b->ends.size / 8;
    uint8_t *to = NULL;
    TRY_RETURN(arrow_type_parse(schema->format, &type, err));
    if (b->end > (type.bit_width == 16 ? INT16_MAX : type.bit_width == 32 ? INT32_MAX : INT64_MAX)) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "%" PRId64 " rows do not fit %u-bit run ends", b->end,
                         (unsigned)type.bit_width);
    }
    TRY_RETURN(array_new(out, 2, 0, mem, err));
    out->length = (int64_t)n;
    to = array_make_buffer(out, 1, n * arrow_type_width(&type), err);
    if (to == NULL) return err->code;
    for (size_t i = 0; i < n; i++) {
        int64_t end = native_i64(b->ends.data + i * 8);
        if (type.bit_width == 16) {
            int16_t narrow = (int16_t)end;
            memcpy(to + i * 2, &narrow, 2);
        } else if (type.bit_width == 32) {
            native_put_i32(to + i * 4, (int32_t)end);
        } else {
            native_put_i64(to + i * 8, end);
        }
    }
    return PENNON_OK;
}

pennon_status gather_run_ends(const struct gather *g, const struct ArrowSchema *schema, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct run_builder b = {.source = SPAN_NULL};
    span_list_init(&b.values, g->mem);
    buf_init(&b.ends, g->mem, BUF_NO_LIMIT);
    for (size_t k = 0; k < g->n_spans; k++) TRY(add_span_runs(g, &g->spans[k], &b, err));
    TRY(store_ends(&b, schema->children[0], g->mem, out->children[0], err));
    TRY(gather_one_child(g, schema, 1, b.values.items, b.values.n, b.values.rows, out, err));
done:
    span_list_free(&b.values);
    buf_free(&b.ends);
    return st;
}
