/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Questions about lists: lengths, what they have, where it is.
 *
 * Dimensions are those of the first items, as official counts them: cardinality is their product. array_has_any and array_has_all look for nulls as
 * for other items; where the second list is an empty constant the answer is known even for a null list.
 * Source: spec expressions 7; edges asked of official. */
#include <math.h>

#include "expr/functions_list.h"

/* ---- lengths ---- */

static bool is_list(const struct array_view *v)
{
    return v->type.layout == LAYOUT_LIST32 || v->type.layout == LAYOUT_LIST64 || v->type.layout == LAYOUT_FIXED_LIST;
}

/* Length in dimension `dim` (from 1); -1 = there is none. */
static int64_t length_in(const struct array_view *v, int64_t row, int64_t dim)
{
    int64_t start = row, n = 0;
    if (dim < 1) return -1;
    for (int64_t k = 1;; k++) {
        if (!is_list(v) || v->type.id == ARROW_MAP) return -1;
        if (array_view_is_null(v, start)) return k == 1 ? -1 : 0;
        array_view_list(v, start, &start, &n);
        if (k == dim) return n;
        if (n == 0) return -1;
        v = &v->children[0];
    }
}

static int64_t dimensions(const struct array_view *v)
{
    int64_t n = 0;
    for (; is_list(v); v = &v->children[0]) n++;
    return n;
}

static int64_t cardinality(const struct array_view *v, int64_t row)
{
    uint64_t all = 1;
    const int64_t n = dimensions(v);
    for (int64_t k = 1; k <= n; k++) {
        const int64_t length = length_in(v, row, k);
        if (length <= 0 || mul_overflows(all, (uint64_t)length, &all)) return 0;
    }
    return (int64_t)all;
}

/* ---- having ---- */

static bool has_item(const struct list_rows *l, int64_t row, const struct datum *element)
{
    int64_t start, n;
    if (!list_row(l, row, &start, &n)) return false;
    const int64_t at = datum_row(element, row);
    for (int64_t i = start; i < start + n; i++) {
        if (items_equal(l->items, i, &element->view, at)) return true;
    }
    return false;
}

static bool row_has(const struct list_rows *l, int64_t start, int64_t n, const struct array_view *of, int64_t row)
{
    for (int64_t i = start; i < start + n; i++) {
        if (items_equal(l->items, i, of, row)) return true;
    }
    return false;
}

/* Lists from this length on are searched by a set. */
#define SET_FROM 16

static pennon_status has_many(const struct list_rows *l, const struct list_rows *wanted, int64_t row, bool all,
                              struct item_set *set, bool *out, pennon_error *err)
{
    int64_t start, n, first, count;
    if (!list_row(l, row, &start, &n) || !list_row(wanted, row, &first, &count)) return PENNON_OK;
    const bool use_set = n >= SET_FROM && count > 2;
    if (use_set) {
        bool added;
        item_set_clear(set);
        for (int64_t i = start; i < start + n; i++) TRY_RETURN(item_set_add(set, (struct item){l->items, i, 0}, &added, err));
    }
    *out = all;
    for (int64_t i = first; i < first + count; i++) {
        const bool has = use_set ? item_set_has(set, wanted->items, i) : row_has(l, start, n, wanted->items, i);
        if (has != all) {
            *out = has;
            return PENNON_OK;
        }
    }
    return PENNON_OK;
}

/* A constant list without items. */
static bool is_empty_constant(const struct run_call *r, size_t arg)
{
    int64_t start, n;
    const struct list_rows l = {&r->args[arg], NULL};
    return r->args[arg].scalar && list_row(&l, 0, &start, &n) && n == 0;
}

static pennon_status run_has_many(struct run_call *r, bool all, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct item_set set;
    uint8_t *bits;
    const struct list_rows l = list_rows_of(&r->args[0]), wanted = list_rows_of(&r->args[1]);
    const bool known = is_empty_constant(r, 1);
    item_set_init(&set, r->c->mem);
    TRY(run_bits(r, &bits, err));
    for (int64_t i = 0; i < r->rows; i++) {
        bool has = false;
        if (i % 1024 == 0) TRY(call_check(r->c, err));
        if (known) {
            has = all;
        } else if (datum_is_null(&r->args[0], i) || datum_is_null(&r->args[1], i)) {
            TRY(run_set_null(r, i, err));
        } else {
            TRY(has_many(&l, &wanted, i, all, &set, &has, err));
        }
        if (has) bit_set(bits, (uint64_t)i);
    }
done:
    item_set_free(&set);
    return st;
}

static pennon_status run_has(struct run_call *r, pennon_error *err)
{
    uint8_t *bits;
    const struct list_rows l = list_rows_of(&r->args[0]);
    TRY_RETURN(run_bits(r, &bits, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (i % 1024 == 0) TRY_RETURN(call_check(r->c, err));
        if (run_valid(r, i) && has_item(&l, i, &r->args[1])) bit_set(bits, (uint64_t)i);
    }
    return PENNON_OK;
}

static pennon_status run_empty(struct run_call *r, pennon_error *err)
{
    uint8_t *bits;
    const struct list_rows l = list_rows_of(&r->args[0]);
    TRY_RETURN(run_bits(r, &bits, err));
    for (int64_t i = 0; i < r->rows; i++) {
        int64_t start, n;
        if (run_valid(r, i) && list_row(&l, i, &start, &n) && n == 0) bit_set(bits, (uint64_t)i);
    }
    return PENNON_OK;
}

/* ---- positions ---- */

/* Place from 1; 0 = none. */
static pennon_status position(const struct run_call *r, const struct list_rows *l, int64_t row, uint64_t *out, pennon_error *err)
{
    int64_t start, n, from = 1;
    *out = 0;
    if (!list_row(l, row, &start, &n)) return PENNON_OK;
    if (r->n > 2) {
        from = datum_is_null(&r->args[2], row) ? 1 : array_view_int(&r->args[2].view, datum_row(&r->args[2], row));
        if (from < 1 || from > n)
            return run_fault(r, err, "the start %" PRId64 " is out of the bounds of a list of %" PRId64, from, n);
    }
    const int64_t at = datum_row(&r->args[1], row);
    for (int64_t i = from - 1; i < n; i++) {
        if (!items_equal(l->items, start + i, &r->args[1].view, at)) continue;
        *out = (uint64_t)i + 1;
        break;
    }
    return PENNON_OK;
}

static pennon_status run_position(struct run_call *r, pennon_error *err)
{
    uint64_t *to = NULL;
    const struct list_rows l = list_rows_of(&r->args[0]);
    TRY_RETURN(run_values(r, sizeof *to, &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        TRY_RETURN(position(r, &l, i, &to[i], err));
        if (to[i] == 0) TRY_RETURN(run_set_null(r, i, err));
    }
    return PENNON_OK;
}

/* ---- numbers ---- */

static pennon_status run_length(struct run_call *r, pennon_error *err)
{
    const int question = r->node->fn->option;
    const struct array_view *v = &r->args[0].view;
    uint64_t *to = NULL;
    TRY_RETURN(run_values(r, sizeof *to, &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (!run_valid(r, i)) continue;
        const int64_t row = datum_row(&r->args[0], i);
        int64_t n;
        if (question == ASK_NDIMS) {
            n = dimensions(v);
        } else if (question == ASK_CARDINALITY) {
            n = cardinality(v, row);
        } else {
            n = length_in(v, row, r->n > 1 ? array_view_int(&r->args[1].view, datum_row(&r->args[1], i)) : 1);
        }
        if (n < 0) {
            TRY_RETURN(run_set_null(r, i, err));
        } else {
            to[i] = (uint64_t)n;
        }
    }
    return PENNON_OK;
}

static pennon_status distance(const struct run_call *r, const struct list_rows *a, const struct list_rows *b, int64_t row,
                              double *out, bool *is_null, pennon_error *err)
{
    int64_t i, j, n, m;
    *out = 0;
    *is_null = false;
    if (!list_row(a, row, &i, &n) || !list_row(b, row, &j, &m)) return PENNON_OK;
    if (n != m) return run_fault(r, err, "lists of %" PRId64 " and %" PRId64 " items", n, m);
    for (int64_t k = 0; k < n; k++) {
        if (array_view_is_null(a->items, i + k) || array_view_is_null(b->items, j + k)) {
            *is_null = true;
            return PENNON_OK;
        }
        const double d = array_view_double(a->items, i + k) - array_view_double(b->items, j + k);
        *out += d * d;
    }
    *out = sqrt(*out);
    return PENNON_OK;
}

static pennon_status run_distance(struct run_call *r, pennon_error *err)
{
    double *to = NULL;
    const struct list_rows a = list_rows_of(&r->args[0]), b = list_rows_of(&r->args[1]);
    TRY_RETURN(run_values(r, sizeof *to, &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        bool is_null;
        if (!run_valid(r, i)) continue;
        TRY_RETURN(distance(r, &a, &b, i, &to[i], &is_null, err));
        if (is_null) TRY_RETURN(run_set_null(r, i, err));
    }
    return PENNON_OK;
}

pennon_status list_run_question(struct run_call *r, pennon_error *err)
{
    switch ((enum list_question)r->node->fn->option) {
    case ASK_EMPTY: return run_empty(r, err);
    case ASK_HAS: return run_has(r, err);
    case ASK_HAS_ANY: return run_has_many(r, false, err);
    case ASK_HAS_ALL: return run_has_many(r, true, err);
    case ASK_POSITION: return run_position(r, err);
    case ASK_DISTANCE: return run_distance(r, err);
    default: return run_length(r, err);
    }
}

static pennon_status bind_distance(struct bind_call *b, pennon_error *err)
{
    const struct ArrowSchema *item, *list;
    TRY_RETURN(expr_simple_type(b->e, "g", &item, err));
    TRY_RETURN(bind_list_of(b, item, false, &list, err));
    for (size_t i = 0; i < 2; i++) {
        struct arrow_type t;
        TRY_RETURN(bind_list(b, i, err));
        TRY_RETURN(arrow_type_of(bind_item(b, i), &t, err));
        if (!arrow_id_is_integer(t.id) && !arrow_id_is_float(t.id) && t.id != ARROW_NULL)
            return bind_refuse(b, i, "a list of numbers", err);
        b->types[i] = list;
    }
    return bind_result(b, "g", err);
}

pennon_status list_bind_question(struct bind_call *b, pennon_error *err)
{
    const enum list_question q = (enum list_question)b->fn->option;
    switch (q) {
    case ASK_HAS: TRY_RETURN(bind_list_and_item(b, 0, 1, SIZE_MAX, err)); return bind_result(b, "b", err);
    case ASK_HAS_ANY:
    case ASK_HAS_ALL: TRY_RETURN(bind_same_lists(b, 2, err)); return bind_result(b, "b", err);
    case ASK_POSITION:
        TRY_RETURN(bind_list_and_item(b, 0, 1, SIZE_MAX, err));
        if (b->n > 2) TRY_RETURN(bind_integer(b, 2, err));
        return bind_result(b, "L", err);
    case ASK_DISTANCE: return bind_distance(b, err);
    default:
        TRY_RETURN(bind_list(b, 0, err));
        if (b->n > 1) TRY_RETURN(bind_integer(b, 1, err));
        return bind_result(b, q == ASK_EMPTY ? "b" : "L", err);
    }
}

/* ---- lists of numbers ---- */

pennon_status list_bind_numbers(struct bind_call *b, pennon_error *err)
{
    const struct ArrowSchema *item;
    if (b->fn->option == NUMBERS_POSITIONS) {
        TRY_RETURN(bind_list_and_item(b, 0, 1, SIZE_MAX, err));
    } else {
        TRY_RETURN(bind_list(b, 0, err));
    }
    TRY_RETURN(expr_simple_type(b->e, "L", &item, err));
    return bind_list_of(b, item, false, &b->result, err);
}

/* array_dims: nothing for an empty list. */
static pennon_status append_dims(const struct run_call *r, int64_t row, struct builder *b, pennon_error *err)
{
    const struct array_view *v = &r->args[0].view;
    const int64_t at = datum_row(&r->args[0], row), n = dimensions(v);
    if (length_in(v, at, 1) <= 0) return builder_append_null(b, err);
    for (int64_t k = 1; k <= n; k++) {
        const int64_t length = length_in(v, at, k);
        TRY_RETURN(builder_append_uint(builder_child(b, 0), length < 0 ? 0 : (uint64_t)length, err));
    }
    return builder_append_row(b, err);
}

static pennon_status append_positions(const struct run_call *r, const struct list_rows *l, int64_t row, struct builder *b,
                                      pennon_error *err)
{
    int64_t start, n;
    if (!list_row(l, row, &start, &n)) return builder_append_null(b, err);
    for (int64_t i = 0; i < n; i++) {
        if (!items_equal(l->items, start + i, &r->args[1].view, datum_row(&r->args[1], row))) continue;
        TRY_RETURN(builder_append_uint(builder_child(b, 0), (uint64_t)i + 1, err));
    }
    return builder_append_row(b, err);
}

pennon_status list_run_numbers(struct run_call *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct builder *b;
    const struct list_rows l = list_rows_of(&r->args[0]);
    TRY_NEW(b, builder_new(r->node->schema, r->c->mem, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (!run_valid(r, i)) {
            TRY(builder_append_null(b, err));
        } else if (r->node->fn->option == NUMBERS_DIMS) {
            TRY(append_dims(r, i, b, err));
        } else {
            TRY(append_positions(r, &l, i, b, err));
        }
    }
    array_release(r->out);
    TRY(builder_finish(b, r->out, err));
done:
    builder_free(b);
    return st;
}
