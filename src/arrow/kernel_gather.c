/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The gather kernel: runs of rows ("spans") of several arrays of one schema become one owned array. Copying a range, concatenating
 * and filtering are gathers; taking single rows of nested types becomes one below the first list.
 *
 * Every level turns its spans into the spans of its children and goes down:
 *
 *   fixed, bits      a memcpy (or bit copy) per span
 *   variable         offsets rebased per span, bytes of a span in one memcpy
 *   lists            the same for offsets; a span of rows is a span of the child, since its lists lie one after another
 *   list views       a child span per row; rows next to each other in the child join
 *   fixed lists      spans times the size
 *   structs          the same spans
 *
 * With ARRAY_DROP_GARBAGE null rows of variable types and lists contribute nothing, row by row, but only in sources that have nulls.
 * A view has at most INT64_MAX / 2 rows and overlapping list views can multiply, so sums of rows are checked. */
#include "arrow/arrow_internal.h"
#include "arrow/bitmap.h"

/* -------------------------------------------------------------------------------------------------------------- spans */

void span_list_init(struct span_list *l, struct mem *mem)
{
    memset(l, 0, sizeof *l);
    l->mem = mem;
}

void span_list_free(struct span_list *l)
{
    mem_free(l->mem, l->items);
    l->items = NULL;
    l->n = l->cap = 0;
    l->rows = 0;
}

pennon_status span_list_add(struct span_list *l, uint32_t source, int64_t start, int64_t n, pennon_error *err)
{
    struct span *last = l->n > 0 ? &l->items[l->n - 1] : NULL;
    ASSERT(n >= 0);
    if (n == 0) return PENNON_OK;
    if (n > INT64_MAX / 4 - l->rows)
        return error_set(err, PENNON_INVALID_ARGUMENT, "Arrow array: the rows of the result are too many");
    l->rows += n;
    if (last != NULL && last->source == source && (source == SPAN_NULL || last->start + last->n == start)) {
        last->n += n;
        return PENNON_OK;
    }
    TRY_RETURN(mem_grow(l->mem, &l->items, &l->cap, l->n, sizeof *l->items, SIZE_MAX / sizeof *l->items, err));
    l->items[l->n++] = (struct span){source, start, n};
    return PENNON_OK;
}

struct array_view *gather_child_views(const struct gather *g, int64_t i, pennon_error *err)
{
    struct array_view *views = mem_calloc(g->mem, g->n_sources, sizeof *views, err);
    if (views == NULL) return NULL;
    for (uint32_t k = 0; k < g->n_sources; k++) {
        if (array_view_peek_child(&g->sources[k], i, &views[k], err) != PENNON_OK) {
            mem_free(g->mem, views);
            return NULL;
        }
    }
    return views;
}

/* The child array number i gathered from its own spans. */
static pennon_status gather_child(const struct gather *g, const struct ArrowSchema *schema, int64_t i, const struct span *spans,
                                  size_t n_spans, int64_t rows, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct gather child = *g;
    struct array_view *views = NULL;
    TRY_NEW(views, gather_child_views(g, i, err));
    child.sources = views;
    child.spans = spans;
    child.n_spans = n_spans;
    child.rows = rows;
    TRY(gather_spans(&child, schema->children[i], out->children[i], err));
done:
    mem_free(g->mem, views);
    return st;
}

/* ----------------------------------------------------------------------------------------------------------- validity */

static bool span_may_have_nulls(const struct gather *g, const struct span *s)
{
    return s->source == SPAN_NULL || g->sources[s->source].validity != NULL;
}

pennon_status gather_validity(const struct gather *g, struct ArrowArray *out, pennon_error *err)
{
    uint64_t at = 0;
    uint8_t *bits = NULL;
    bool any = false;
    for (size_t k = 0; k < g->n_spans && !any; k++) any = span_may_have_nulls(g, &g->spans[k]);
    out->null_count = 0;
    if (!any) return PENNON_OK;
    bits = array_make_buffer(out, 0, (size_t)bitmap_bytes((uint64_t)g->rows), err);
    if (bits == NULL) return err->code;
    memset(bits, 0, (size_t)bitmap_bytes((uint64_t)g->rows));
    for (size_t k = 0; k < g->n_spans; k++) {
        const struct span *s = &g->spans[k];
        if (s->source != SPAN_NULL) {
            const struct array_view *v = &g->sources[s->source];
            if (v->validity == NULL) {
                bitmap_fill(bits, at, (uint64_t)s->n, true);
            } else {
                bitmap_copy(bits, at, v->validity, (uint64_t)(v->offset + s->start), (uint64_t)s->n);
            }
        }
        at += (uint64_t)s->n;
    }
    out->null_count = g->rows - (int64_t)bitmap_count(bits, 0, (uint64_t)g->rows);
    if (out->null_count == 0) {
        struct buf none;
        buf_init(&none, g->mem, 0);
        array_give_buf(out, 0, &none);
    }
    return PENNON_OK;
}

/* ----------------------------------------------------------------------------------------------------- plain buffers */

static pennon_status gather_bits(const struct gather *g, struct ArrowArray *out, pennon_error *err)
{
    uint64_t at = 0;
    size_t size = (size_t)bitmap_bytes((uint64_t)g->rows);
    uint8_t *to = array_make_buffer(out, 1, size, err);
    const uint8_t *valid = out->buffers[0];
    if (to == NULL) return err->code;
    memset(to, 0, size);
    for (size_t k = 0; k < g->n_spans; k++) {
        const struct span *s = &g->spans[k];
        if (s->source != SPAN_NULL) {
            const struct array_view *v = &g->sources[s->source];
            bitmap_copy(to, at, v->data, (uint64_t)(v->offset + s->start), (uint64_t)s->n);
        }
        at += (uint64_t)s->n;
    }
    if ((g->flags & ARRAY_DROP_GARBAGE) && valid != NULL) bitmap_and(to, to, 0, valid, 0, (uint64_t)g->rows);
    return PENNON_OK;
}

/* Zero the values of null rows. */
static void clear_nulls(uint8_t *values, size_t width, const uint8_t *valid, uint64_t rows)
{
    for (uint64_t i = bitmap_next(valid, 0, 0, rows, false); i < rows; i = bitmap_next(valid, 0, i + 1, rows, false)) {
        memset(values + i * width, 0, width);
    }
}

pennon_status gather_fixed(const struct gather *g, size_t width, struct ArrowArray *out, pennon_error *err)
{
    size_t size = 0;
    uint8_t *to = NULL;
    if (size_mul_overflows((size_t)g->rows, width, &size))
        return error_set(err, PENNON_OVER_BUDGET, "%" PRId64 " rows are too many", g->rows);
    to = array_make_buffer(out, 1, size, err);
    if (to == NULL) return err->code;
    if (width == 0) return PENNON_OK;
    for (size_t k = 0; k < g->n_spans; k++) {
        const struct span *s = &g->spans[k];
        size_t bytes = (size_t)s->n * width;
        if (s->source == SPAN_NULL) {
            memset(to, 0, bytes);
        } else {
            const struct array_view *v = &g->sources[s->source];
            memcpy(to, v->data + (size_t)(v->offset + s->start) * width, bytes);
        }
        to += bytes;
    }
    if ((g->flags & ARRAY_DROP_GARBAGE) && out->buffers[0] != NULL) {
        clear_nulls(to - size, width, out->buffers[0], (uint64_t)g->rows);
    }
    return PENNON_OK;
}

/* ---------------------------------------------------------------------------------------------- offsets of two widths */

/* Does the span have rows whose content has to be left out one by one? */
static bool span_is_patchy(const struct gather *g, const struct span *s)
{
    return (g->flags & ARRAY_DROP_GARBAGE) && g->sources[s->source].validity != NULL;
}

/* Write n offsets that follow *end, for rows from `start` of the view: the plain case, rows as they lie. */
static void rebase_offsets(const struct array_view *v, int64_t start, int64_t n, bool wide, uint8_t *to, int64_t *end)
{
    const uint8_t *from = v->data;
    int64_t slot = v->offset + start;
    if (wide) {
        int64_t delta = *end - view_offset64(v, slot);
        for (int64_t i = 1; i <= n; i++)
            native_put_i64(to + (size_t)(i - 1) * 8, native_i64(from + (size_t)(slot + i) * 8) + delta);
        *end = view_offset64(v, slot + n) + delta;
    } else {
        /* The sum was checked to fit; the difference wraps the same way in 32 bits. */
        uint32_t delta = (uint32_t)*end - (uint32_t)view_offset32(v, slot);
        for (int64_t i = 1; i <= n; i++) {
            uint32_t value = (uint32_t)native_i32(from + (size_t)(slot + i) * 4) + delta;
            memcpy(to + (size_t)(i - 1) * 4, &value, 4);
        }
        *end += view_offset32(v, slot + n) - view_offset32(v, slot);
    }
}

static void put_offset(uint8_t *to, bool wide, int64_t value)
{
    if (wide) {
        native_put_i64(to, value);
    } else {
        native_put_i32(to, (int32_t)value);
    }
}

/* Entries (bytes or child rows) that a span has. */
static int64_t span_entries(const struct gather *g, const struct span *s)
{
    const struct array_view *v = NULL;
    int64_t slot = 0;
    int64_t total = 0;
    if (s->source == SPAN_NULL) return 0;
    v = &g->sources[s->source];
    slot = v->offset + s->start;
    if (!span_is_patchy(g, s)) return view_offset(v, slot + s->n) - view_offset(v, slot);
    for (int64_t i = 0; i < s->n; i++) {
        if (!array_view_is_null(v, s->start + i)) total += view_offset(v, slot + i + 1) - view_offset(v, slot + i);
    }
    return total;
}

/* Buffer 1: the offsets of all spans; *total entries. INVALID_ARGUMENT when 32 bits do not suffice. */
static pennon_status gather_offsets(const struct gather *g, const struct ArrowSchema *schema, bool wide, struct ArrowArray *out,
                                    int64_t *total, pennon_error *err)
{
    size_t width = wide ? 8 : 4;
    int64_t end = 0;
    uint8_t *to = NULL;

    *total = 0;
    for (size_t k = 0; k < g->n_spans; k++) {
        int64_t n = span_entries(g, &g->spans[k]);
        if (n > (wide ? INT64_MAX / 4 : INT32_MAX) - *total) {
            return error_set(err, PENNON_INVALID_ARGUMENT,
                             "field '%.128s': the values of %" PRId64 " rows do not fit %d-bit offsets", field_name(schema),
                             g->rows, wide ? 64 : 32);
        }
        *total += n;
    }
    to = array_make_buffer(out, 1, ((size_t)g->rows + 1) * width, err);
    if (to == NULL) return err->code;
    put_offset(to, wide, 0);
    to += width;
    for (size_t k = 0; k < g->n_spans; k++) {
        const struct span *s = &g->spans[k];
        if (s->source != SPAN_NULL && !span_is_patchy(g, s)) {
            rebase_offsets(&g->sources[s->source], s->start, s->n, wide, to, &end);
        } else {
            const struct array_view *v = s->source == SPAN_NULL ? NULL : &g->sources[s->source];
            for (int64_t i = 0; i < s->n; i++) {
                if (v != NULL && !array_view_is_null(v, s->start + i)) {
                    int64_t slot = v->offset + s->start + i;
                    end += view_offset(v, slot + 1) - view_offset(v, slot);
                }
                put_offset(to + (size_t)i * width, wide, end);
            }
        }
        to += (size_t)s->n * width;
    }
    ASSERT(end == *total);
    return PENNON_OK;
}

/* Calls to add the runs of entries [start, start + n) of the rows of a span that are not dropped. */
static pennon_status add_entries(const struct gather *g, const struct span *s, struct span_list *list, pennon_error *err)
{
    const struct array_view *v = NULL;
    int64_t slot = 0;
    if (s->source == SPAN_NULL || s->n == 0) return PENNON_OK;
    v = &g->sources[s->source];
    slot = v->offset + s->start;
    if (!span_is_patchy(g, s)) {
        int64_t first = view_offset(v, slot);
        return span_list_add(list, s->source, first, view_offset(v, slot + s->n) - first, err);
    }
    for (int64_t i = 0; i < s->n;) {
        /* Rows of one run of valid ones lie one after another. */
        int64_t bit = slot + i;
        int64_t run = (int64_t)bitmap_next(v->validity, (uint64_t)bit, 0, (uint64_t)(s->n - i), false);
        int64_t first = view_offset(v, bit);
        TRY_RETURN(span_list_add(list, s->source, first, view_offset(v, bit + run) - first, err));
        i += run + 1;
    }
    return PENNON_OK;
}

static pennon_status gather_variable(const struct gather *g, const struct ArrowSchema *schema, bool wide, struct ArrowArray *out,
                                     pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct span_list runs;
    int64_t total = 0;
    uint8_t *to = NULL;

    span_list_init(&runs, g->mem);
    TRY(gather_offsets(g, schema, wide, out, &total, err));
    TRY_NEW(to, array_make_buffer(out, 2, (size_t)total, err));
    for (size_t k = 0; k < g->n_spans; k++) {
        runs.n = 0;
        runs.rows = 0;
        TRY(add_entries(g, &g->spans[k], &runs, err));
        for (size_t i = 0; i < runs.n; i++) {
            memcpy(to, g->sources[runs.items[i].source].bytes + runs.items[i].start, (size_t)runs.items[i].n);
            to += runs.items[i].n;
        }
    }
done:
    span_list_free(&runs);
    return st;
}

/* -------------------------------------------------------------------------------------------------------------- lists */

static pennon_status gather_lists(const struct gather *g, const struct ArrowSchema *schema, bool wide, struct ArrowArray *out,
                                  pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct span_list child;
    int64_t total = 0;

    span_list_init(&child, g->mem);
    TRY(gather_offsets(g, schema, wide, out, &total, err));
    for (size_t k = 0; k < g->n_spans; k++) TRY(add_entries(g, &g->spans[k], &child, err));
    ASSERT(child.rows == total);
    TRY(gather_child(g, schema, 0, child.items, child.n, child.rows, out, err));
done:
    span_list_free(&child);
    return st;
}

/* List views: rows of the result lie one after another in the new child, so that offsets of a plain list follow as well. */
static pennon_status gather_list_views(const struct gather *g, const struct ArrowSchema *schema, bool wide, struct ArrowArray *out,
                                       pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct span_list child;
    size_t width = wide ? 8 : 4;
    bool plain = (g->flags & ARRAY_PLAIN_VIEWS) != 0;
    uint8_t *offsets = NULL;
    uint8_t *sizes = NULL;
    size_t row = 0;

    span_list_init(&child, g->mem);
    TRY_NEW(offsets, array_make_buffer(out, 1, ((size_t)g->rows + 1) * width, err));
    if (!plain) TRY_NEW(sizes, array_make_buffer(out, 2, (size_t)g->rows * width, err));
    put_offset(offsets, wide, 0);
    for (size_t k = 0; k < g->n_spans; k++) {
        const struct span *s = &g->spans[k];
        const struct array_view *v = s->source == SPAN_NULL ? NULL : &g->sources[s->source];
        for (int64_t i = 0; i < s->n; i++, row++) {
            int64_t start = 0;
            int64_t n = 0;
            /* A null row of a view has nothing to keep: what it points at belongs to other rows as well. */
            if (v != NULL && !array_view_is_null(v, s->start + i)) array_view_list(v, s->start + i, &start, &n);
            if (!plain) {
                put_offset(offsets + row * width, wide, child.rows);
                put_offset(sizes + row * width, wide, n);
            }
            TRY(span_list_add(&child, s->source, start, n, err));
            if (!wide && child.rows > INT32_MAX) {
                FAIL(PENNON_INVALID_ARGUMENT, "field '%.128s': the lists of %" PRId64 " rows do not fit 32-bit offsets",
                     field_name(schema), g->rows);
            }
            if (plain) put_offset(offsets + (row + 1) * width, wide, child.rows);
        }
    }
    TRY(gather_child(g, schema, 0, child.items, child.n, child.rows, out, err));
done:
    span_list_free(&child);
    return st;
}

static pennon_status gather_fixed_lists(const struct gather *g, const struct ArrowSchema *schema, int64_t size,
                                        struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct span *spans = NULL;
    int64_t rows = 0;

    if (size > 0 && g->rows > INT64_MAX / 4 / size) {
        FAIL(PENNON_INVALID_ARGUMENT, "field '%.128s': %" PRId64 " rows are too many", field_name(schema), g->rows);
    }
    rows = g->rows * size;
    TRY_NEW(spans, mem_calloc(g->mem, g->n_spans, sizeof *spans, err));
    for (size_t k = 0; k < g->n_spans; k++) {
        /* The child views are cut to the parent's rows: row r begins at r * size. */
        spans[k] = (struct span){g->spans[k].source, g->spans[k].start * size, g->spans[k].n * size};
    }
    TRY(gather_child(g, schema, 0, spans, size > 0 ? g->n_spans : 0, rows, out, err));
done:
    mem_free(g->mem, spans);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- all types */

static pennon_status gather_struct(const struct gather *g, const struct ArrowSchema *schema, struct ArrowArray *out,
                                   pennon_error *err)
{
    for (int64_t i = 0; i < schema->n_children; i++)
        TRY_RETURN(gather_child(g, schema, i, g->spans, g->n_spans, g->rows, out, err));
    return PENNON_OK;
}

/* The buffers and children of `out` behind its validity. */
static pennon_status gather_content(const struct gather *g, const struct ArrowSchema *schema, const struct arrow_type *t,
                                    struct ArrowArray *out, pennon_error *err)
{
    bool wide = layout_is_wide(t->layout);
    switch (t->layout) {
    case LAYOUT_NULL: out->null_count = g->rows; return PENNON_OK;
    case LAYOUT_BITS: return gather_bits(g, out, err);
    case LAYOUT_FIXED:
        if (t->id == ARROW_DICTIONARY) return gather_dictionary(g, schema, out, err);
        return gather_fixed(g, arrow_type_width(t), out, err);
    case LAYOUT_VAR32:
    case LAYOUT_VAR64: return gather_variable(g, schema, wide, out, err);
    case LAYOUT_VIEW: return (g->flags & ARRAY_PLAIN_VIEWS) ? gather_views_plain(g, schema, out, err) : gather_views(g, out, err);
    case LAYOUT_LIST32:
    case LAYOUT_LIST64: return gather_lists(g, schema, wide, out, err);
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64: return gather_list_views(g, schema, wide, out, err);
    case LAYOUT_FIXED_LIST: return gather_fixed_lists(g, schema, t->fixed_size, out, err);
    case LAYOUT_STRUCT: return gather_struct(g, schema, out, err);
    case LAYOUT_SPARSE_UNION:
    case LAYOUT_DENSE_UNION: return gather_union(g, schema, out, err);
    case LAYOUT_RUN_END: return gather_run_ends(g, schema, out, err);
    }
    return error_set(err, PENNON_INTERNAL, "Arrow array: layout %d", (int)t->layout);
}

/* Buffers of the result: list views that become plain have fewer, views that stay views have as many as their bytes need. */
static pennon_status result_buffers(const struct gather *g, const struct arrow_type *t, size_t *out, pennon_error *err)
{
    bool plain = (g->flags & ARRAY_PLAIN_VIEWS) != 0;
    bool list_view = t->layout == LAYOUT_LIST_VIEW32 || t->layout == LAYOUT_LIST_VIEW64;
    size_t data = 0;
    if (t->layout == LAYOUT_VIEW && !plain) TRY_RETURN(gather_views_count(g, &data, err));
    *out = plain && list_view ? 2 : arrow_type_buffers(t) + data;
    return PENNON_OK;
}

pennon_status gather_spans(const struct gather *g, const struct ArrowSchema *schema, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arrow_type type;
    size_t buffers = 0;
    bool validity = false;

    memset(out, 0, sizeof *out);
    TRY(arrow_type_of(schema, &type, err));
    TRY(result_buffers(g, &type, &buffers, err));
    TRY(array_new(out, buffers, (size_t)schema->n_children, g->mem, err));
    out->length = g->rows;
    validity = type.layout != LAYOUT_NULL && type.union_ids == NULL && type.layout != LAYOUT_RUN_END;
    if (validity) TRY(gather_validity(g, out, err));
    TRY(gather_content(g, schema, &type, out, err));
done:
    if (st != PENNON_OK) array_release(out);
    return st;
}

/* ----------------------------------------------------------------------------------------------------------- kernels */

pennon_status array_copy_range(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t offset, int64_t length,
                               unsigned flags, struct mem *mem, struct ArrowArray *out, pennon_error *err)
{
    struct array_view view;
    struct span span = {0, offset, length};
    ASSERT(offset >= 0 && length >= 0 && offset <= array->length && length <= array->length - offset);
    memset(out, 0, sizeof *out);
    TRY_RETURN(array_view_peek(&view, schema, array, err));
    struct gather g = {&view, 1, &span, length > 0, length, flags, mem};
    return gather_spans(&g, schema, out, err);
}

pennon_status array_concat(const struct ArrowSchema *schema, size_t n, const struct ArrowArray *const *arrays, struct mem *mem,
                           struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct array_view *views = NULL;
    struct span_list spans;

    ASSERT(n >= 1 && n < SPAN_NULL);
    memset(out, 0, sizeof *out);
    span_list_init(&spans, mem);
    TRY_NEW(views, mem_calloc(mem, n, sizeof *views, err));
    for (size_t i = 0; i < n; i++) {
        TRY(array_view_peek(&views[i], schema, arrays[i], err));
        TRY(span_list_add(&spans, (uint32_t)i, 0, arrays[i]->length, err));
    }
    struct gather g = {views, (uint32_t)n, spans.items, spans.n, spans.rows, 0, mem};
    TRY(gather_spans(&g, schema, out, err));
done:
    mem_free(mem, views);
    span_list_free(&spans);
    return st;
}
