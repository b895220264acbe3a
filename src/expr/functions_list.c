/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Functions that make lists of lists, or take items out of them; and the table of all functions of lists.
 *
 * Items are compared as = compares, nulls being equal to each other. Positions count from 1. A list whose items are of another type than an
 * element is cast, as official does (an int32 list and the literal 9 give an int64 list).
 * Source: spec expressions 7; edges asked of official. */
#include "expr/functions_list.h"

enum change {
    LIST_ANY_VALUE,
    LIST_ELEMENT,
    LIST_MAX,
    LIST_MIN,
    LIST_APPEND,
    LIST_CONCAT,
    LIST_DISTINCT,
    LIST_EXCEPT,
    LIST_FLATTEN,
    LIST_INTERSECT,
    LIST_MAKE,
    LIST_POP_BACK,
    LIST_POP_FRONT,
    LIST_PREPEND,
    LIST_REMOVE,
    LIST_REMOVE_ALL,
    LIST_REMOVE_N,
    LIST_REPEAT,
    LIST_REPLACE,
    LIST_REPLACE_ALL,
    LIST_REPLACE_N,
    LIST_RESIZE,
    LIST_REVERSE,
    LIST_SLICE,
    LIST_SORT,
    LIST_UNION
};

/* What a row function works with. */
struct work {
    struct run_call *r;
    struct gather g;
    struct list_rows list[2];
    size_t source[2];  /* of the lists' items */
    size_t element[2]; /* of elements: their rows */
    struct item_set set, other;
    struct buf order;
};

static int64_t integer_at(const struct run_call *r, size_t arg, int64_t row)
{
    return array_view_int(&r->args[arg].view, datum_row(&r->args[arg], row));
}

/* ---- one item ---- */

static pennon_status bind_one(struct bind_call *b, pennon_error *err)
{
    TRY_RETURN(bind_list(b, 0, err));
    if (b->n > 1) TRY_RETURN(bind_integer(b, 1, err));
    return expr_add_type(b->e, bind_item(b, 0), &b->result, err);
}

/* Row of the items that is the result; -1 = null. */
static int64_t pick(const struct work *w, int64_t row)
{
    const struct array_view *items = w->list[0].items;
    const enum change what = (enum change)w->r->node->fn->option;
    int64_t start, n, best = -1;
    if (!list_row(&w->list[0], row, &start, &n)) return -1;
    if (what == LIST_ELEMENT) {
        const int64_t at = integer_at(w->r, 1, row);
        if (at > 0) return at <= n ? start + at - 1 : -1;
        return at < 0 && at >= -n ? start + n + at : -1;
    }
    for (int64_t i = start; i < start + n; i++) {
        if (array_view_is_null(items, i)) continue;
        if (what == LIST_ANY_VALUE) return i;
        const int order = best < 0 ? 0 : value_compare(items, i, items, best);
        if (best < 0 || (what == LIST_MAX ? order > 0 : order < 0)) best = i;
    }
    return best;
}

static pennon_status run_one(struct run_call *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct work w = {.r = r};
    w.list[0] = list_rows_of(&r->args[0]);
    TRY(gather_begin(&w.g, r, err));
    const size_t source = gather_items(&w.g, &w.list[0]);
    for (int64_t i = 0; i < r->rows; i++) {
        const int64_t at = run_valid(r, i) ? pick(&w, i) : -1;
        TRY(at < 0 ? gather_put_null(&w.g, err) : gather_put(&w.g, source, at, err));
    }
    TRY(gather_finish_items(&w.g, err));
done:
    gather_abandon(&w.g);
    return st;
}

/* ---- rows of lists: each puts the items of one row ---- */

static pennon_status put_all(struct work *w, size_t k, int64_t row, pennon_error *err)
{
    int64_t start, n;
    if (!list_row(&w->list[k], row, &start, &n)) return PENNON_OK;
    return gather_put_range(&w->g, w->source[k], start, n, err);
}

static pennon_status put_element(struct work *w, size_t k, size_t arg, int64_t row, pennon_error *err)
{
    if (datum_is_null(&w->r->args[arg], row)) return gather_put_null(&w->g, err);
    return gather_put(&w->g, w->element[k], datum_row(&w->r->args[arg], row), err);
}

/* Items of list k that are not in the set yet (and, with `filter`, whose being in `other` is `wanted`). */
static pennon_status put_distinct(struct work *w, size_t k, int64_t row, bool filter, bool wanted, pennon_error *err)
{
    int64_t start, n;
    if (!list_row(&w->list[k], row, &start, &n)) return PENNON_OK;
    for (int64_t i = start; i < start + n; i++) {
        bool added;
        if (filter && item_set_has(&w->other, w->list[k].items, i) != wanted) continue;
        TRY_RETURN(item_set_add(&w->set, (struct item){w->list[k].items, i, w->source[k]}, &added, err));
        if (added) TRY_RETURN(gather_put(&w->g, w->source[k], i, err));
    }
    return PENNON_OK;
}

static pennon_status fill_other(struct work *w, int64_t row, pennon_error *err)
{
    int64_t start, n;
    bool added;
    item_set_clear(&w->other);
    if (!list_row(&w->list[1], row, &start, &n)) return PENNON_OK;
    for (int64_t i = start; i < start + n; i++) {
        TRY_RETURN(item_set_add(&w->other, (struct item){w->list[1].items, i, w->source[1]}, &added, err));
    }
    return PENNON_OK;
}

static pennon_status row_sets(struct work *w, enum change what, int64_t row, pennon_error *err)
{
    item_set_clear(&w->set);
    if (what == LIST_DISTINCT) return put_distinct(w, 0, row, false, false, err);
    if (what == LIST_UNION) {
        TRY_RETURN(put_distinct(w, 0, row, false, false, err));
        return put_distinct(w, 1, row, false, false, err);
    }
    TRY_RETURN(fill_other(w, row, err));
    return put_distinct(w, 0, row, true, what == LIST_INTERSECT, err);
}

/* Items that are equal to an element go, or become another one; at most `most` of them. */
static pennon_status row_replace(struct work *w, enum change what, int64_t row, pennon_error *err)
{
    const bool remove = what == LIST_REMOVE || what == LIST_REMOVE_N || what == LIST_REMOVE_ALL;
    const struct datum *element = &w->r->args[1];
    int64_t start, n, most = INT64_MAX;
    if (what == LIST_REMOVE || what == LIST_REPLACE) most = 1;
    if (what == LIST_REMOVE_N || what == LIST_REPLACE_N) most = integer_at(w->r, w->r->n - 1, row);
    if (!list_row(&w->list[0], row, &start, &n)) return PENNON_OK;
    for (int64_t i = start; i < start + n; i++) {
        const bool hit = most > 0 && items_equal(w->list[0].items, i, &element->view, datum_row(element, row));
        if (!hit) {
            TRY_RETURN(gather_put(&w->g, w->source[0], i, err));
            continue;
        }
        most--;
        if (!remove) TRY_RETURN(put_element(w, 1, 2, row, err));
    }
    return PENNON_OK;
}

static pennon_status row_flatten(struct work *w, int64_t row, pennon_error *err)
{
    const struct array_view *lists = w->list[0].items;
    int64_t start, n, from, count;
    if (!list_row(&w->list[0], row, &start, &n)) return PENNON_OK;
    for (int64_t i = start; i < start + n; i++) {
        if (array_view_is_null(lists, i)) continue;
        array_view_list(lists, i, &from, &count);
        TRY_RETURN(gather_put_range(&w->g, w->source[0], from, count, err));
    }
    return PENNON_OK;
}

static pennon_status row_resize(struct work *w, int64_t row, pennon_error *err)
{
    int64_t start, n;
    const int64_t wanted = datum_is_null(&w->r->args[1], row) ? 0 : integer_at(w->r, 1, row);
    if (wanted < 0 || wanted > INT32_MAX) return run_fault(w->r, err, "a size of %" PRId64, wanted);
    if (!list_row(&w->list[0], row, &start, &n)) return PENNON_OK;
    TRY_RETURN(gather_put_range(&w->g, w->source[0], start, n < wanted ? n : wanted, err));
    for (int64_t k = n; k < wanted; k++) TRY_RETURN(w->r->n > 2 ? put_element(w, 0, 2, row, err) : gather_put_null(&w->g, err));
    return PENNON_OK;
}

static pennon_status row_repeat(struct work *w, int64_t row, pennon_error *err)
{
    const int64_t times = integer_at(w->r, 1, row);
    if (times > INT32_MAX) return run_fault(w->r, err, "%" PRId64 " times is too often", times);
    for (int64_t k = 0; k < times; k++) TRY_RETURN(put_element(w, 0, 0, row, err));
    return PENNON_OK;
}

static pennon_status row_slice(struct work *w, int64_t row, pennon_error *err)
{
    int64_t start, n, from = integer_at(w->r, 1, row), to = integer_at(w->r, 2, row);
    const int64_t stride = w->r->n > 3 ? integer_at(w->r, 3, row) : 1;
    if (stride == 0) return run_fault(w->r, err, "the stride must not be 0");
    if (!list_row(&w->list[0], row, &start, &n)) return PENNON_OK;
    /* Zero-based places, both inside. */
    from = from < 0 ? (from < -n ? 0 : n + from) : from == 0 ? 0 : from - 1;
    if (to < 0)
        to = to < -n ? -1 : n + to;
    else
        to = to - 1 < n ? to - 1 : n - 1;
    if (from >= n || to < 0) return PENNON_OK;
    for (int64_t i = from; stride > 0 ? i <= to : i >= to; i += stride) {
        TRY_RETURN(gather_put(&w->g, w->source[0], start + i, err));
        if (stride > n || stride < -n) break;
    }
    return PENNON_OK;
}

/* ---- sorting ---- */

struct sort_order {
    bool descending, nulls_last;
};

static bool word_is(struct bytes text, const char *word)
{
    if (text.size != strlen(word)) return false;
    for (size_t i = 0; i < text.size; i++) {
        const uint8_t c = text.data[i];
        if ((c >= 'a' && c <= 'z' ? c - 32 : c) != word[i]) return false;
    }
    return true;
}

static pennon_status read_order(const struct work *w, int64_t row, struct sort_order *out, pennon_error *err)
{
    const struct run_call *r = w->r;
    *out = (struct sort_order){false, false};
    if (r->n > 1) {
        const struct bytes text = array_view_bytes(&r->args[1].view, datum_row(&r->args[1], row));
        out->descending = word_is(text, "DESC");
        if (!out->descending && !word_is(text, "ASC")) return run_fault(r, err, "argument 2 is neither ASC nor DESC");
    }
    if (r->n > 2) {
        const struct bytes text = array_view_bytes(&r->args[2].view, datum_row(&r->args[2], row));
        out->nulls_last = word_is(text, "NULLS LAST");
        if (!out->nulls_last && !word_is(text, "NULLS FIRST"))
            return run_fault(r, err, "argument 3 is neither NULLS FIRST nor NULLS LAST");
    }
    return PENNON_OK;
}

static bool is_before(const struct array_view *items, const struct sort_order *order, int64_t a, int64_t b)
{
    const bool null_a = array_view_is_null(items, a), null_b = array_view_is_null(items, b);
    if (null_a || null_b) return null_a != null_b && null_a != order->nulls_last;
    const int c = value_compare(items, a, items, b);
    return order->descending ? c > 0 : c < 0;
}

/* Stable merge sort of `n` rows in `v`, with as much room behind. */
static void sort_rows(int64_t *v, size_t n, const struct array_view *items, const struct sort_order *order)
{
    int64_t *from = v, *to = v + n;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t start = 0; start < n; start += 2 * width) {
            const size_t middle = start + width < n ? start + width : n, end = start + 2 * width < n ? start + 2 * width : n;
            size_t a = start, b = middle;
            for (size_t k = start; k < end; k++) {
                const bool second = a == middle || (b < end && is_before(items, order, from[b], from[a]));
                to[k] = second ? from[b++] : from[a++];
            }
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != v) memcpy(v, from, n * sizeof *v);
}

static pennon_status row_sort(struct work *w, int64_t row, pennon_error *err)
{
    struct sort_order order;
    int64_t start, n;
    TRY_RETURN(read_order(w, row, &order, err));
    if (!list_row(&w->list[0], row, &start, &n)) return PENNON_OK;
    w->order.size = 0;
    TRY_RETURN(buf_resize(&w->order, 2 * (size_t)n * sizeof(int64_t), err));
    int64_t *rows = (int64_t *)w->order.data;
    for (int64_t i = 0; i < n; i++) rows[i] = start + i;
    sort_rows(rows, (size_t)n, w->list[0].items, &order);
    for (int64_t i = 0; i < n; i++) TRY_RETURN(gather_put(&w->g, w->source[0], rows[i], err));
    return PENNON_OK;
}

static pennon_status row_simple(struct work *w, enum change what, int64_t row, pennon_error *err)
{
    int64_t start, n;
    if (what == LIST_APPEND) {
        TRY_RETURN(put_all(w, 0, row, err));
        return put_element(w, 0, 1, row, err);
    }
    if (what == LIST_PREPEND) {
        TRY_RETURN(put_element(w, 0, 0, row, err));
        return put_all(w, 0, row, err);
    }
    if (!list_row(&w->list[0], row, &start, &n)) return PENNON_OK;
    if (what == LIST_REVERSE) {
        for (int64_t i = n; i-- > 0;) TRY_RETURN(gather_put(&w->g, w->source[0], start + i, err));
        return PENNON_OK;
    }
    if (n == 0) return PENNON_OK;
    return gather_put_range(&w->g, w->source[0], what == LIST_POP_FRONT ? start + 1 : start, n - 1, err);
}

static pennon_status row_of(struct work *w, int64_t row, pennon_error *err)
{
    const enum change what = (enum change)w->r->node->fn->option;
    switch (what) {
    case LIST_DISTINCT:
    case LIST_EXCEPT:
    case LIST_INTERSECT:
    case LIST_UNION: return row_sets(w, what, row, err);
    case LIST_REMOVE:
    case LIST_REMOVE_ALL:
    case LIST_REMOVE_N:
    case LIST_REPLACE:
    case LIST_REPLACE_ALL:
    case LIST_REPLACE_N: return row_replace(w, what, row, err);
    case LIST_FLATTEN: return row_flatten(w, row, err);
    case LIST_RESIZE: return row_resize(w, row, err);
    case LIST_REPEAT: return row_repeat(w, row, err);
    case LIST_SLICE: return row_slice(w, row, err);
    case LIST_SORT: return row_sort(w, row, err);
    default: return row_simple(w, what, row, err);
    }
}

/* Name the sources that a function takes items from. */
static void open_sources(struct work *w)
{
    struct run_call *r = w->r;
    const enum change what = (enum change)r->node->fn->option;
    const bool sets = what == LIST_EXCEPT || what == LIST_INTERSECT || what == LIST_UNION;
    if (what != LIST_REPEAT) {
        w->list[0] = list_rows_of(&r->args[what == LIST_PREPEND]);
        if (what == LIST_FLATTEN) {
            const struct list_rows inner = {NULL, &w->list[0].items->children[0]};
            w->source[0] = gather_items(&w->g, &inner);
        } else {
            w->source[0] = gather_items(&w->g, &w->list[0]);
        }
    }
    if (sets) {
        w->list[1] = list_rows_of(&r->args[1]);
        w->source[1] = gather_items(&w->g, &w->list[1]);
    }
    if (what == LIST_APPEND) w->element[0] = gather_rows(&w->g, &r->args[1]);
    if (what == LIST_PREPEND || what == LIST_REPEAT) w->element[0] = gather_rows(&w->g, &r->args[0]);
    if (what == LIST_RESIZE && r->n > 2) w->element[0] = gather_rows(&w->g, &r->args[2]);
    if (what == LIST_REPLACE || what == LIST_REPLACE_ALL || what == LIST_REPLACE_N) w->element[1] = gather_rows(&w->g, &r->args[2]);
}

/* Functions whose result is null where the list is, but not where another argument is, are no strict ones. */
static bool result_is_null(const struct work *w, int64_t row)
{
    const struct run_call *r = w->r;
    switch ((enum change)r->node->fn->option) {
    case LIST_APPEND:
    case LIST_PREPEND: return false;
    case LIST_REPEAT: return datum_is_null(&r->args[1], row);
    case LIST_REPLACE_N: return datum_is_null(&r->args[0], row) || datum_is_null(&r->args[3], row);
    default: return (r->node->fn->flags & FUNCTION_STRICT) == 0 && datum_is_null(&r->args[0], row);
    }
}

static pennon_status run_change(struct run_call *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct work w = {.r = r};
    item_set_init(&w.set, r->c->mem);
    item_set_init(&w.other, r->c->mem);
    buf_init(&w.order, r->c->mem, BUF_NO_LIMIT);
    TRY(gather_begin(&w.g, r, err));
    open_sources(&w);
    for (int64_t i = 0; i < r->rows; i++) {
        if (result_is_null(&w, i)) {
            TRY(run_set_null(r, i, err));
        } else if (run_valid(r, i)) {
            TRY(row_of(&w, i, err));
        }
        TRY(gather_end_row(&w.g, err));
    }
    TRY(gather_finish(&w.g, err));
done:
    gather_abandon(&w.g);
    item_set_free(&w.set);
    item_set_free(&w.other);
    buf_free(&w.order);
    return st;
}

/* ---- any number of arguments: array_concat, make_array ---- */

/* All arguments as one array of items, with where each begins. */
struct joined {
    struct ArrowArray all;
    uint64_t *first;
};

static pennon_status join_arguments(struct run_call *r, bool lists, struct joined *out, pennon_error *err)
{
    const struct ArrowSchema *item = r->node->schema->children[0];
    struct ArrowArray *rows = arena_calloc(r->scratch, r->n + 1, sizeof *rows, err);
    if (rows == NULL) return err->code;
    const struct ArrowArray **list = arena_calloc(r->scratch, r->n + 1, sizeof *list, err);
    if (list == NULL) return err->code;
    out->first = arena_calloc(r->scratch, r->n + 1, sizeof *out->first, err);
    if (out->first == NULL) return err->code;
    if (r->n == 0) return array_nulls(item, 0, r->c->mem, &out->all, err);
    for (size_t k = 0; k < r->n; k++) {
        const struct datum items = {.view = lists ? r->args[k].view.children[0] : r->args[k].view};
        rows[k] = datum_rows(&items);
        list[k] = &rows[k];
        out->first[k + 1] = out->first[k] + (uint64_t)rows[k].length;
    }
    return array_concat(item, r->n, list, r->c->mem, &out->all, err);
}

static pennon_status put_joined(struct gather *g, const struct joined *j, size_t k, int64_t start, int64_t n, pennon_error *err)
{
    return gather_put_range(g, 0, (int64_t)j->first[k] + start, n, err);
}

static pennon_status run_join(struct run_call *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct gather g = {0};
    struct joined j = {0};
    const bool lists = r->node->fn->option == LIST_CONCAT;
    TRY(join_arguments(r, lists, &j, err));
    TRY(gather_begin(&g, r, err));
    g.sources[0] = j.all;
    g.n_sources = 1;
    for (int64_t i = 0; i < r->rows; i++) {
        bool any = !lists;
        for (size_t k = 0; k < r->n; k++) {
            int64_t start = datum_row(&r->args[k], i), n = 1;
            const struct list_rows l = {&r->args[k], NULL};
            if (lists && !list_row(&l, i, &start, &n)) continue;
            any = true;
            TRY(put_joined(&g, &j, k, start, n, err));
        }
        if (!any) TRY(run_set_null(r, i, err));
        TRY(gather_end_row(&g, err));
    }
    TRY(gather_finish(&g, err));
done:
    gather_abandon(&g);
    array_release(&j.all);
    return st;
}

static pennon_status bind_concat_lists(struct bind_call *b, pennon_error *err)
{
    TRY_RETURN(bind_same_lists(b, b->n, err));
    b->result = b->types[0];
    return PENNON_OK;
}

static pennon_status bind_make(struct bind_call *b, pennon_error *err)
{
    const struct ArrowSchema *all = NULL;
    if (b->n == 0) TRY_RETURN(expr_simple_type(b->e, "n", &all, err));
    for (size_t i = 0; i < b->n; i++) {
        const struct ArrowSchema *both = b->types[i];
        if (i > 0) TRY_RETURN(common_type(b->e, all, b->types[i], &both, err));
        if (both == NULL) return bind_refuse(b, i, "of a type that fits the other items", err);
        all = both;
    }
    for (size_t i = 0; i < b->n; i++) b->types[i] = all;
    return bind_list_of(b, all, false, &b->result, err);
}

/* ---- binding of the others ---- */

static pennon_status bind_sort(struct bind_call *b, pennon_error *err)
{
    for (size_t i = 1; i < b->n; i++) TRY_RETURN(bind_text(b, i, false, err));
    return PENNON_OK;
}

static pennon_status bind_flatten(struct bind_call *b, pennon_error *err)
{
    struct arrow_type t;
    TRY_RETURN(arrow_type_of(bind_item(b, 0), &t, err));
    if (t.layout != LAYOUT_LIST32 && t.layout != LAYOUT_LIST64 && t.layout != LAYOUT_FIXED_LIST) {
        b->result = b->types[0];
        return PENNON_OK;
    }
    const struct ArrowSchema *inner = bind_item(b, 0)->children[0], *list;
    if (t.layout == LAYOUT_FIXED_LIST) {
        TRY_RETURN(bind_list_of(b, inner, false, &list, err));
        TRY_RETURN(bind_list_of(b, list, bind_list_is_large(b, 0), &b->types[0], err));
    }
    return bind_list_of(b, inner, bind_list_is_large(b, 0), &b->result, err);
}

static pennon_status bind_change(struct bind_call *b, pennon_error *err)
{
    const enum change what = (enum change)b->fn->option;
    size_t list = 0;
    if (b->n == 1 && strcmp(b->types[0]->format, "n") == 0) return bind_result(b, "n", err);
    switch (what) {
    case LIST_APPEND: TRY_RETURN(bind_list_and_item(b, 0, 1, SIZE_MAX, err)); break;
    case LIST_PREPEND:
        list = 1;
        TRY_RETURN(bind_list_and_item(b, 1, 0, SIZE_MAX, err));
        break;
    case LIST_REMOVE:
    case LIST_REMOVE_ALL:
    case LIST_REMOVE_N: TRY_RETURN(bind_list_and_item(b, 0, 1, SIZE_MAX, err)); break;
    case LIST_REPLACE:
    case LIST_REPLACE_ALL:
    case LIST_REPLACE_N: TRY_RETURN(bind_list_and_item(b, 0, 1, 2, err)); break;
    case LIST_EXCEPT:
    case LIST_INTERSECT:
    case LIST_UNION: TRY_RETURN(bind_same_lists(b, 2, err)); break;
    case LIST_REPEAT: TRY_RETURN(bind_integer(b, 1, err)); return bind_list_of(b, b->types[0], false, &b->result, err);
    default: TRY_RETURN(bind_list(b, 0, err)); break;
    }
    if (what == LIST_REMOVE_N || what == LIST_REPLACE_N) TRY_RETURN(bind_integer(b, b->n - 1, err));
    if (what == LIST_RESIZE) {
        TRY_RETURN(bind_integer(b, 1, err));
        if (b->n > 2) TRY_RETURN(bind_list_and_item(b, 0, 2, SIZE_MAX, err));
    }
    if (what == LIST_SLICE) {
        for (size_t i = 1; i < b->n; i++) TRY_RETURN(bind_integer(b, i, err));
    }
    if (what == LIST_SORT) TRY_RETURN(bind_sort(b, err));
    if (what == LIST_FLATTEN) return bind_flatten(b, err);
    b->result = b->types[list];
    return PENNON_OK;
}

/* Lists of what is no list are flat already: each row stays. */
static pennon_status run_flatten(struct run_call *r, pennon_error *err)
{
    if (!arrow_schema_equal(r->node->schema, r->args[0].view.schema, SCHEMA_EQUAL_NO_NULLABLE)) return run_change(r, err);
    uint8_t *which = arena_calloc(r->scratch, (size_t)r->rows + 1, 1, err);
    return which == NULL ? err->code : run_choose(r, which, err);
}

/* ---- the table ---- */

#define STRICT FUNCTION_STRICT
#define ONE(name, n, id) \
    {"array_" name, n, n, STRICT, bind_one, run_one, NULL, id}, { "list_" name, n, n, STRICT, bind_one, run_one, NULL, id }
#define CHANGE(name, least, most, flags, id)                                \
    {"array_" name, least, most, flags, bind_change, run_change, NULL, id}, \
    {                                                                       \
        "list_" name, least, most, flags, bind_change, run_change, NULL, id \
    }
#define ASK(name, least, most, flags, id)                                         \
    {                                                                             \
        name, least, most, flags, list_bind_question, list_run_question, NULL, id \
    }
#define REFUSED(name)                                      \
    {                                                      \
        name, 0, 255, 0, bind_not_supported, NULL, NULL, 0 \
    }

const struct function functions_list[] = {
    ONE("any_value", 1, LIST_ANY_VALUE),
    ONE("element", 2, LIST_ELEMENT),
    ONE("extract", 2, LIST_ELEMENT),
    ONE("max", 1, LIST_MAX),
    {"array_min", 1, 1, STRICT, bind_one, run_one, NULL, LIST_MIN},
    CHANGE("append", 2, 2, 0, LIST_APPEND),
    CHANGE("distinct", 1, 1, STRICT, LIST_DISTINCT),
    CHANGE("except", 2, 2, STRICT, LIST_EXCEPT),
    CHANGE("intersect", 2, 2, STRICT, LIST_INTERSECT),
    CHANGE("pop_back", 1, 1, STRICT, LIST_POP_BACK),
    CHANGE("pop_front", 1, 1, STRICT, LIST_POP_FRONT),
    CHANGE("prepend", 2, 2, 0, LIST_PREPEND),
    CHANGE("push_back", 2, 2, 0, LIST_APPEND),
    CHANGE("push_front", 2, 2, 0, LIST_PREPEND),
    CHANGE("remove", 2, 2, STRICT, LIST_REMOVE),
    CHANGE("remove_all", 2, 2, STRICT, LIST_REMOVE_ALL),
    CHANGE("remove_n", 3, 3, STRICT, LIST_REMOVE_N),
    CHANGE("repeat", 2, 2, 0, LIST_REPEAT),
    CHANGE("replace", 3, 3, 0, LIST_REPLACE),
    CHANGE("replace_all", 3, 3, 0, LIST_REPLACE_ALL),
    CHANGE("replace_n", 4, 4, 0, LIST_REPLACE_N),
    CHANGE("resize", 2, 3, 0, LIST_RESIZE),
    CHANGE("reverse", 1, 1, STRICT, LIST_REVERSE),
    CHANGE("slice", 3, 4, STRICT, LIST_SLICE),
    CHANGE("sort", 1, 3, STRICT, LIST_SORT),
    CHANGE("union", 2, 2, STRICT, LIST_UNION),
    {"array_cat", 1, 255, 0, bind_concat_lists, run_join, NULL, LIST_CONCAT},
    {"array_concat", 1, 255, 0, bind_concat_lists, run_join, NULL, LIST_CONCAT},
    {"list_cat", 1, 255, 0, bind_concat_lists, run_join, NULL, LIST_CONCAT},
    {"list_concat", 1, 255, 0, bind_concat_lists, run_join, NULL, LIST_CONCAT},
    {"make_array", 0, 255, 0, bind_make, run_join, NULL, LIST_MAKE},
    {"make_list", 0, 255, 0, bind_make, run_join, NULL, LIST_MAKE},
    {"flatten", 1, 1, STRICT, bind_change, run_flatten, NULL, LIST_FLATTEN},
    ASK("array_distance", 2, 2, STRICT, ASK_DISTANCE),
    ASK("list_distance", 2, 2, STRICT, ASK_DISTANCE),
    ASK("array_length", 1, 2, STRICT, ASK_LENGTH),
    ASK("list_length", 1, 2, STRICT, ASK_LENGTH),
    ASK("array_ndims", 1, 1, STRICT, ASK_NDIMS),
    ASK("list_ndims", 1, 1, STRICT, ASK_NDIMS),
    ASK("cardinality", 1, 1, STRICT, ASK_CARDINALITY),
    ASK("empty", 1, 1, STRICT, ASK_EMPTY),
    ASK("array_empty", 1, 1, STRICT, ASK_EMPTY),
    ASK("list_empty", 1, 1, STRICT, ASK_EMPTY),
    ASK("array_has", 2, 2, STRICT, ASK_HAS),
    ASK("list_has", 2, 2, STRICT, ASK_HAS),
    ASK("array_contains", 2, 2, STRICT, ASK_HAS),
    ASK("list_contains", 2, 2, STRICT, ASK_HAS),
    ASK("array_has_any", 2, 2, 0, ASK_HAS_ANY),
    ASK("list_has_any", 2, 2, 0, ASK_HAS_ANY),
    ASK("arrays_overlap", 2, 2, 0, ASK_HAS_ANY),
    ASK("array_has_all", 2, 2, 0, ASK_HAS_ALL),
    ASK("list_has_all", 2, 2, 0, ASK_HAS_ALL),
    ASK("array_indexof", 2, 3, 0, ASK_POSITION),
    ASK("list_indexof", 2, 3, 0, ASK_POSITION),
    ASK("array_position", 2, 3, 0, ASK_POSITION),
    ASK("list_position", 2, 3, 0, ASK_POSITION),
    {"array_dims", 1, 1, STRICT, list_bind_numbers, list_run_numbers, NULL, NUMBERS_DIMS},
    {"list_dims", 1, 1, STRICT, list_bind_numbers, list_run_numbers, NULL, NUMBERS_DIMS},
    {"array_positions", 2, 2, 0, list_bind_numbers, list_run_numbers, NULL, NUMBERS_POSITIONS},
    {"list_positions", 2, 2, 0, list_bind_numbers, list_run_numbers, NULL, NUMBERS_POSITIONS},
    {"array_join", 2, 3, 0, list_bind_array_to_string, list_run_array_to_string, NULL, 0},
    {"list_join", 2, 3, 0, list_bind_array_to_string, list_run_array_to_string, NULL, 0},
    {"array_to_string", 2, 3, 0, list_bind_array_to_string, list_run_array_to_string, NULL, 0},
    {"list_to_string", 2, 3, 0, list_bind_array_to_string, list_run_array_to_string, NULL, 0},
    {"string_to_array", 2, 3, 0, list_bind_string_to_array, list_run_string_to_array, NULL, 0},
    {"string_to_list", 2, 3, 0, list_bind_string_to_array, list_run_string_to_array, NULL, 0},
    {"generate_series", 1, 3, STRICT, list_bind_series, list_run_series, NULL, 1},
    {"range", 1, 3, STRICT, list_bind_series, list_run_series, NULL, 0},
    REFUSED("arrays_zip"),
    REFUSED("list_zip"),
    REFUSED("element_at"),
    REFUSED("make_map"),
    REFUSED("map"),
    REFUSED("map_entries"),
    REFUSED("map_extract"),
    REFUSED("map_keys"),
    REFUSED("map_values"),
    {NULL, 0, 0, 0, NULL, NULL, NULL, 0},
};
