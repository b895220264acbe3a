/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Lists made of items of other lists: binding, reading rows, gathering, sets of items.
 *
 * A function says for each row which items the result has, by source and row. At the end the sources are put behind one another and all items are
 * taken at once, so that the number of allocations does not depend on the rows. A single source is taken from directly.
 * Sets find items by hash; their slots are used again for every row. Source: functions_list.h. */
#include "expr/functions_list.h"

/* ---- binding ---- */

const struct ArrowSchema *bind_item(const struct bind_call *b, size_t i) { return b->types[i]->children[0]; }
bool bind_list_is_large(const struct bind_call *b, size_t i) { return strcmp(b->types[i]->format, "+L") == 0; }

pennon_status bind_list_of(struct bind_call *b, const struct ArrowSchema *item, bool large, const struct ArrowSchema **out,
                           pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema list = {0};
    TRY(arrow_schema_new(&list, large ? "+L" : "+l", "", ARROW_FLAG_NULLABLE, 1, b->e->mem, err));
    TRY(arrow_schema_copy(item, b->e->mem, list.children[0], err));
    list.children[0]->flags |= ARROW_FLAG_NULLABLE;
    TRY(arrow_schema_set_name(list.children[0], "item", err));
    TRY(expr_add_type(b->e, &list, out, err));
done:
    arrow_schema_release(&list);
    return st;
}

pennon_status bind_list(struct bind_call *b, size_t i, pennon_error *err)
{
    struct arrow_type t;
    TRY_RETURN(arrow_type_of(b->types[i], &t, err));
    switch (t.id) {
    case ARROW_LIST:
    case ARROW_LARGE_LIST: return PENNON_OK;
    case ARROW_FIXED_SIZE_LIST:
    case ARROW_LIST_VIEW: return bind_list_of(b, bind_item(b, i), false, &b->types[i], err);
    case ARROW_LARGE_LIST_VIEW: return bind_list_of(b, bind_item(b, i), true, &b->types[i], err);
    case ARROW_NULL: return bind_list_of(b, b->types[i], false, &b->types[i], err);
    default: return bind_refuse(b, i, "a list", err);
    }
}

/* A type for both, where texts and what is no text do not mix. *out NULL: none. */
static pennon_status item_type(struct bind_call *b, const struct ArrowSchema *a, const struct ArrowSchema *c,
                               const struct ArrowSchema **out, pennon_error *err)
{
    struct arrow_type ta, tc;
    TRY_RETURN(arrow_type_of(a, &ta, err));
    TRY_RETURN(arrow_type_of(c, &tc, err));
    *out = NULL;
    const bool mixed = ta.id != ARROW_NULL && tc.id != ARROW_NULL && arrow_id_is_text(ta.id) != arrow_id_is_text(tc.id);
    if (mixed && ta.id != ARROW_DICTIONARY && tc.id != ARROW_DICTIONARY) return PENNON_OK;
    return common_type(b->e, a, c, out, err);
}

pennon_status bind_list_and_item(struct bind_call *b, size_t list, size_t item, size_t more, pennon_error *err)
{
    const struct ArrowSchema *both = NULL;
    TRY_RETURN(bind_list(b, list, err));
    TRY_RETURN(item_type(b, bind_item(b, list), b->types[item], &both, err));
    if (both == NULL) return bind_refuse(b, item, "of the type of the list's items", err);
    if (more != SIZE_MAX) {
        TRY_RETURN(item_type(b, both, b->types[more], &both, err));
        if (both == NULL) return bind_refuse(b, more, "of the type of the list's items", err);
        b->types[more] = both;
    }
    b->types[item] = both;
    return bind_list_of(b, both, bind_list_is_large(b, list), &b->types[list], err);
}

pennon_status bind_same_lists(struct bind_call *b, size_t n, pennon_error *err)
{
    const struct ArrowSchema *all = NULL;
    bool large = false;
    for (size_t i = 0; i < n; i++) {
        TRY_RETURN(bind_list(b, i, err));
        large = large || bind_list_is_large(b, i);
        const struct ArrowSchema *item = bind_item(b, i);
        if (i > 0) TRY_RETURN(item_type(b, all, item, &item, err));
        if (item == NULL) return bind_refuse(b, i, "a list of the same type as the others", err);
        all = item;
    }
    for (size_t i = 0; i < n; i++) TRY_RETURN(bind_list_of(b, all, large, &b->types[i], err));
    return PENNON_OK;
}

/* ---- reading ---- */

struct list_rows list_rows_of(const struct datum *d)
{
    ASSERT(d->view.children != NULL);
    return (struct list_rows){d, &d->view.children[0]};
}

bool list_row(const struct list_rows *l, int64_t row, int64_t *start, int64_t *n)
{
    const int64_t at = datum_row(l->d, row);
    if (array_view_is_null(&l->d->view, at)) return false;
    array_view_list(&l->d->view, at, start, n);
    return true;
}

/* Integers, dates and times are equal where their bytes are. */
static bool equal_as_bytes(const struct array_view *v)
{
    return v->type.layout == LAYOUT_FIXED &&
           (arrow_id_is_integer(v->type.id) || (v->type.id >= ARROW_DATE32 && v->type.id <= ARROW_DURATION));
}

bool items_equal(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j)
{
    const bool null = array_view_is_null(a, i);
    if (null || array_view_is_null(b, j)) return null && array_view_is_null(b, j);
    if (equal_as_bytes(a)) {
        const uint8_t *p = array_view_fixed(a, i), *q = array_view_fixed(b, j);
        switch (a->type.bit_width) {
        case 8: return *p == *q;
        case 32: return load_u32(p) == load_u32(q);
        case 64: return load_u64(p) == load_u64(q);
        default: return memcmp(p, q, arrow_type_width(&a->type)) == 0;
        }
    }
    return value_compare(a, i, b, j) == 0;
}

/* ---- gathering ---- */

pennon_status gather_begin(struct gather *g, struct run_call *r, pennon_error *err)
{
    memset(g, 0, sizeof *g);
    g->run = r;
    buf_init(&g->indices, r->c->mem, BUF_NO_LIMIT);
    const size_t width = r->node->type.layout == LAYOUT_LIST64 ? 8 : 4;
    if (r->node->type.layout != LAYOUT_LIST64 && r->node->type.layout != LAYOUT_LIST32) return PENNON_OK;
    g->offsets = array_make_buffer(r->out, 1, ((size_t)r->rows + 1) * width, err);
    if (g->offsets == NULL) return err->code;
    memset(g->offsets, 0, width);
    return PENNON_OK;
}

static size_t add_source(struct gather *g, struct ArrowArray rows)
{
    ASSERT(g->n_sources < GATHER_SOURCES);
    g->sources[g->n_sources] = rows;
    g->first[g->n_sources] = g->total;
    g->total += (uint64_t)rows.length;
    return g->n_sources++;
}

size_t gather_items(struct gather *g, const struct list_rows *l)
{
    const struct datum items = {.view = *l->items};
    return add_source(g, datum_rows(&items));
}

size_t gather_rows(struct gather *g, const struct datum *d) { return add_source(g, datum_rows(d)); }

static pennon_status put_index(struct gather *g, uint64_t index, pennon_error *err)
{
    return buf_append(&g->indices, &index, sizeof index, err);
}

pennon_status gather_put(struct gather *g, size_t source, int64_t row, pennon_error *err)
{
    ASSERT(row >= 0 && row < g->sources[source].length);
    return put_index(g, g->first[source] + (uint64_t)row, err);
}

pennon_status gather_put_range(struct gather *g, size_t source, int64_t start, int64_t n, pennon_error *err)
{
    const size_t at = gather_size(g);
    TRY_RETURN(buf_grow(&g->indices, (size_t)n * sizeof(uint64_t), err));
    if (n == 0) return PENNON_OK; /* there may be no buffer yet */
    uint64_t *to = (uint64_t *)g->indices.data + at;
    for (int64_t k = 0; k < n; k++) to[k] = g->first[source] + (uint64_t)(start + k);
    g->indices.size += (size_t)n * sizeof(uint64_t);
    return PENNON_OK;
}

pennon_status gather_put_null(struct gather *g, pennon_error *err) { return put_index(g, ARRAY_TAKE_NULL, err); }

pennon_status gather_end_row(struct gather *g, pennon_error *err)
{
    const size_t n = gather_size(g);
    g->rows++;
    if (g->run->node->type.layout == LAYOUT_LIST64) {
        ((int64_t *)g->offsets)[g->rows] = (int64_t)n;
        return PENNON_OK;
    }
    if (n > INT32_MAX) {
        error_fill(err, PENNON_INVALID_ARGUMENT, "%s: the lists of a batch have more items than 32-bit offsets allow",
                   g->run->node->fn->name);
        return error_kind(err, "OffsetOverflow");
    }
    ((int32_t *)g->offsets)[g->rows] = (int32_t)n;
    return call_check(g->run->c, err);
}

static pennon_status take_items(struct gather *g, const struct ArrowSchema *item, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct ArrowArray *list[GATHER_SOURCES];
    struct ArrowArray all = {0};
    struct mem *m = g->run->c->mem;
    const size_t n = gather_size(g);
    if (g->n_sources == 0) return array_nulls(item, (int64_t)n, m, out, err);
    for (size_t i = 0; i < g->n_sources; i++) list[i] = &g->sources[i];
    if (g->n_sources > 1) TRY(array_concat(item, g->n_sources, list, m, &all, err));
    TRY(array_take(item, g->n_sources > 1 ? &all : list[0], (const uint64_t *)g->indices.data, n, m, out, err));
done:
    array_release(&all);
    return st;
}

pennon_status gather_finish(struct gather *g, pennon_error *err)
{
    ASSERT(g->rows == g->run->rows);
    return take_items(g, g->run->node->schema->children[0], g->run->out->children[0], err);
}

pennon_status gather_finish_items(struct gather *g, pennon_error *err)
{
    ASSERT((int64_t)gather_size(g) == g->run->rows);
    array_release(g->run->out);
    return take_items(g, g->run->node->schema, g->run->out, err);
}

void gather_abandon(struct gather *g)
{
    if (g->run != NULL) buf_free(&g->indices);
}

/* ---- sets ---- */

void item_set_init(struct item_set *s, struct mem *m)
{
    s->mem = m;
    buf_init(&s->slots, m, BUF_NO_LIMIT);
    buf_init(&s->items, m, BUF_NO_LIMIT);
}

void item_set_free(struct item_set *s)
{
    if (s->mem == NULL) return;
    buf_free(&s->slots);
    buf_free(&s->items);
}

void item_set_clear(struct item_set *s)
{
    s->items.size = 0;
    if (s->slots.size > 0) memset(s->slots.data, 0, s->slots.size);
}

static uint64_t item_hash(const struct array_view *view, int64_t row)
{
    return array_view_is_null(view, row) ? 0 : value_hash(view, row) * UINT64_C(0x9e3779b97f4a7c15) >> 7;
}

static size_t find_slot(const struct item_set *s, const struct array_view *view, int64_t row)
{
    const uint64_t *slots = (const uint64_t *)s->slots.data, mask = s->slots.size / sizeof(uint64_t) - 1;
    const struct item *items = (const struct item *)s->items.data;
    uint64_t at = item_hash(view, row) & mask;
    while (slots[at] != 0 && !items_equal(items[slots[at] - 1].view, items[slots[at] - 1].row, view, row)) at = (at + 1) & mask;
    return (size_t)at;
}

#define SLOTS_LEAST 32u

static pennon_status grow_slots(struct item_set *s, pennon_error *err)
{
    const size_t n = s->items.size / sizeof(struct item), slots = s->slots.size / sizeof(uint64_t);
    if (n * 2 < slots) return PENNON_OK;
    s->slots.size = 0;
    TRY_RETURN(buf_resize_zero(&s->slots, (slots == 0 ? SLOTS_LEAST : slots * 2) * sizeof(uint64_t), err));
    const struct item *items = (const struct item *)s->items.data;
    for (size_t i = 0; i < n; i++) ((uint64_t *)s->slots.data)[find_slot(s, items[i].view, items[i].row)] = i + 1;
    return PENNON_OK;
}

pennon_status item_set_add(struct item_set *s, struct item it, bool *added, pennon_error *err)
{
    TRY_RETURN(grow_slots(s, err));
    const size_t at = find_slot(s, it.view, it.row);
    uint64_t *slots = (uint64_t *)s->slots.data;
    *added = slots[at] == 0;
    if (!*added) return PENNON_OK;
    TRY_RETURN(buf_append(&s->items, &it, sizeof it, err));
    slots[at] = s->items.size / sizeof it;
    return PENNON_OK;
}

bool item_set_has(const struct item_set *s, const struct array_view *view, int64_t row)
{
    return s->slots.size > 0 && ((const uint64_t *)s->slots.data)[find_slot(s, view, row)] != 0;
}
