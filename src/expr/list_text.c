/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Lists from and to texts, and series of integers.
 *
 * array_to_string prints items as official's display does: like a cast to text, but floats without an exponent and without ".0". Lists in
 * lists are printed item by item. Source: spec expressions 7; edges asked of official. */
#include <math.h>
#include <stdlib.h>

#include "expr/functions_list.h"

/* ---- array_to_string ---- */

pennon_status list_bind_array_to_string(struct bind_call *b, pennon_error *err)
{
    TRY_RETURN(bind_list(b, 0, err));
    for (size_t i = 1; i < b->n; i++) TRY_RETURN(bind_text(b, i, true, err));
    return bind_result(b, "u", err);
}

/* Digits of the shortest text that reads back as the same number, written out: "1", "0.25", "100000000000000000000". */
static pennon_status put_float(double v, bool single, struct buf *out, pennon_error *err)
{
    char text[REAL_TEXT_MAX], digits[REAL_TEXT_MAX];
    size_t n = 0;
    if (!isfinite(v)) return buf_printf(out, err, "%s", isnan(v) ? "NaN" : v < 0 ? "-inf" : "inf");
    for (int k = 0; k <= 16; k++) {
        double back;
        const size_t size = real_print(v, k, true, text);
        if (!real_parse(bytes_of(text, size), &back)) continue;
        if (single ? (float)back == (float)v : back == v) break;
    }
    char *e = strchr(text, 'e');
    ASSERT(e != NULL);
    const long power = strtol(e + 1, NULL, 10);
    for (const char *p = text; p < e; p++) {
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    }
    while (n > 1 && digits[n - 1] == '0') n--;
    if (signbit(v)) TRY_RETURN(buf_append_byte(out, '-', err));
    if (power < 0) {
        TRY_RETURN(buf_append(out, "0.", 2, err));
        for (long k = -1; k > power; k--) TRY_RETURN(buf_append_byte(out, '0', err));
        return buf_append(out, digits, n, err);
    }
    for (size_t k = 0; k < n || (long)k <= power; k++) {
        if ((long)k == power + 1) TRY_RETURN(buf_append_byte(out, '.', err));
        TRY_RETURN(buf_append_byte(out, k < n ? (uint8_t)digits[k] : '0', err));
    }
    return PENNON_OK;
}

struct joiner {
    struct buf text;
    struct bytes by, null_text;
    bool has_null_text, any;
};

/* The item, or the items in it; nesting is bounded by the type's. */
static pennon_status join_item(struct joiner *j, const struct array_view *v, int64_t row, pennon_error *err)
{
    const bool null = array_view_is_null(v, row);
    const bool list = v->type.layout == LAYOUT_LIST32 || v->type.layout == LAYOUT_LIST64 || v->type.layout == LAYOUT_FIXED_LIST;
    if (null && !j->has_null_text) return PENNON_OK;
    if (list && !null && v->type.id != ARROW_MAP) {
        int64_t start, n;
        array_view_list(v, row, &start, &n);
        for (int64_t i = start; i < start + n; i++) TRY_RETURN(join_item(j, &v->children[0], i, err));
        return PENNON_OK;
    }
    if (j->any) TRY_RETURN(buf_append(&j->text, j->by.data, j->by.size, err));
    j->any = true;
    if (null) return buf_append(&j->text, j->null_text.data, j->null_text.size, err);
    if (arrow_id_is_float(v->type.id)) return put_float(array_view_double(v, row), v->type.id != ARROW_FLOAT64, &j->text, err);
    return value_text(v, row, &j->text, err);
}

pennon_status list_run_array_to_string(struct run_call *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct text_out out = {0};
    struct joiner j = {0};
    buf_init(&j.text, r->c->mem, BUF_NO_LIMIT);
    TRY(text_out_begin(&out, r, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (i % 1024 == 0) TRY(call_check(r->c, err));
        if (datum_is_null(&r->args[0], i) || datum_is_null(&r->args[1], i)) {
            TRY(run_set_null(r, i, err));
        } else {
            j.text.size = 0;
            j.any = false;
            j.by = array_view_bytes(&r->args[1].view, datum_row(&r->args[1], i));
            j.has_null_text = r->n > 2 && !datum_is_null(&r->args[2], i);
            if (j.has_null_text) j.null_text = array_view_bytes(&r->args[2].view, datum_row(&r->args[2], i));
            TRY(join_item(&j, &r->args[0].view, datum_row(&r->args[0], i), err));
            TRY(text_out_put(&out, bytes_of(j.text.data, j.text.size), err));
        }
        text_out_end_row(&out);
    }
    text_out_finish(&out);
done:
    text_out_abandon(&out);
    buf_free(&j.text);
    return st;
}

/* ---- string_to_array ---- */

pennon_status list_bind_string_to_array(struct bind_call *b, pennon_error *err)
{
    for (size_t i = 0; i < b->n; i++) TRY_RETURN(bind_text(b, i, false, err));
    return bind_list_of(b, b->types[0], false, &b->result, err);
}

static pennon_status append_part(struct builder *items, struct bytes part, const struct bytes *null_text, pennon_error *err)
{
    if (null_text != NULL && bytes_equal(part, *null_text)) return builder_append_null(items, err);
    return builder_append_bytes(items, part, err);
}

static pennon_status split_text(struct builder *items, struct bytes text, const struct bytes *by, const struct bytes *null_text,
                                pennon_error *err)
{
    size_t start = 0;
    if (by == NULL) {
        while (start < text.size) {
            const size_t step = utf8_step(text.data[start]);
            TRY_RETURN(append_part(items, bytes_of(text.data + start, step), null_text, err));
            start += step;
        }
        return PENNON_OK;
    }
    if (by->size == 0) return append_part(items, text, null_text, err);
    for (;;) {
        const size_t at = bytes_find(text, *by, start), end = at == SIZE_MAX ? text.size : at;
        TRY_RETURN(append_part(items, bytes_of(text.data + start, end - start), null_text, err));
        if (at == SIZE_MAX) return PENNON_OK;
        start = at + by->size;
    }
}

/* The text of an argument; NULL where it is null or not there. */
static const struct bytes *text_or_null(const struct run_call *r, size_t arg, int64_t row, struct bytes *at)
{
    if (arg >= r->n || datum_is_null(&r->args[arg], row)) return NULL;
    *at = array_view_bytes(&r->args[arg].view, datum_row(&r->args[arg], row));
    return at;
}

pennon_status list_run_string_to_array(struct run_call *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct builder *b;
    TRY_NEW(b, builder_new(r->node->schema, r->c->mem, err));
    for (int64_t i = 0; i < r->rows; i++) {
        struct bytes text, by, null_text;
        if (i % 1024 == 0) TRY(call_check(r->c, err));
        if (text_or_null(r, 0, i, &text) == NULL) {
            TRY(builder_append_null(b, err));
            continue;
        }
        TRY(split_text(builder_child(b, 0), text, text_or_null(r, 1, i, &by), text_or_null(r, 2, i, &null_text), err));
        TRY(builder_append_row(b, err));
    }
    array_release(r->out);
    TRY(builder_finish(b, r->out, err));
done:
    builder_free(b);
    return st;
}

/* ---- generate_series (the end belongs to it), range (it does not) ---- */

pennon_status list_bind_series(struct bind_call *b, pennon_error *err)
{
    const struct ArrowSchema *item;
    for (size_t i = 0; i < b->n; i++) TRY_RETURN(bind_integer(b, i, err));
    TRY_RETURN(expr_simple_type(b->e, "l", &item, err));
    return bind_list_of(b, item, false, &b->result, err);
}

/* Values from `start` on; false: more than a list can have. */
static pennon_status put_series(const struct run_call *r, int64_t start, int64_t stop, int64_t step, struct buf *out,
                                pennon_error *err)
{
    const bool closed = r->node->fn->option == 1;
    if (step == 0) return run_fault(r, err, "the step must not be 0");
    if (step > 0 ? start > stop : start < stop) return PENNON_OK;
    const uint64_t span = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    const uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t n = span / by;
    if (closed || span % by != 0) n++;
    const size_t have = out->size / sizeof(int64_t);
    if (n > INT32_MAX - have) {
        error_fill(err, PENNON_INVALID_ARGUMENT, "%s: the lists of a batch have more items than 32-bit offsets allow",
                   r->node->fn->name);
        return error_kind(err, "OffsetOverflow");
    }
    TRY_RETURN(buf_grow(out, (size_t)n * sizeof(int64_t), err));
    int64_t *to = (int64_t *)out->data + have;
    for (uint64_t k = 0; k < n; k++) to[k] = (int64_t)((uint64_t)start + k * (uint64_t)step);
    out->size += (size_t)n * sizeof(int64_t);
    return PENNON_OK;
}

pennon_status list_run_series(struct run_call *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray *items = r->out->children[0];
    struct buf values;
    int32_t *offsets;
    buf_init(&values, r->c->mem, BUF_NO_LIMIT);
    TRY_NEW(offsets, array_make_buffer(r->out, 1, ((size_t)r->rows + 1) * sizeof *offsets, err));
    offsets[0] = 0;
    for (int64_t i = 0; i < r->rows; i++) {
        int64_t v[3] = {0, 0, 1};
        if (run_valid(r, i)) {
            for (size_t k = 0; k < r->n; k++) {
                v[r->n == 1 ? 1 : k] = array_view_int(&r->args[k].view, datum_row(&r->args[k], i));
            }
            TRY(put_series(r, v[0], v[1], v[2], &values, err));
            TRY(call_check(r->c, err));
        }
        offsets[i + 1] = (int32_t)(values.size / sizeof(int64_t));
    }
    TRY(array_new_for(items, r->node->schema->children[0], r->c->mem, err));
    items->length = offsets[r->rows];
    array_give_buf(items, 1, &values);
done:
    buf_free(&values);
    return st;
}
