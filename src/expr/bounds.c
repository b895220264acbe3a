/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What a filter asks of one unsigned 64-bit column, as ranges of its values.
 *
 *   column = 5, column IN (3, 5), column >= 7     the values
 *   a AND b                                       what is in both; a term that says nothing allows everything
 *   a OR b                                        what is in either
 *   anything else                                 everything
 *
 * The filter is true only for rows whose value is in one of the ranges; what is more the filter still decides. A null is in no range, and no
 * term that gives ranges is true for one. Only comparisons in the column's own type are looked at: below NOT and IS TRUE both sides were cast.
 * Source: spec expressions 10.5. */
#include <stdlib.h>

#include "expr/node.h"

/* Ranges while they are made: ascending and apart once they leave a function. */
struct ranges {
    struct value_range *items;
    size_t n, cap;
};

static pennon_status add_range(struct mem *m, struct ranges *r, uint64_t first, uint64_t last, pennon_error *err)
{
    ASSERT(first <= last);
    TRY_RETURN(mem_grow(m, &r->items, &r->cap, r->n, sizeof *r->items, SIZE_MAX / 64, err));
    r->items[r->n++] = (struct value_range){first, last};
    return PENNON_OK;
}

static void free_ranges(struct mem *m, struct ranges *r)
{
    mem_free(m, r->items);
    *r = (struct ranges){0};
}

static int by_first(const void *a, const void *b)
{
    const struct value_range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* In order; those that overlap or touch become one. */
static void settle(struct ranges *r)
{
    size_t kept = 0;
    if (r->n == 0) return;
    qsort(r->items, r->n, sizeof *r->items, by_first);
    for (size_t i = 1; i < r->n; i++) {
        struct value_range *before = &r->items[kept];
        const struct value_range *next = &r->items[i];
        if (before->last == UINT64_MAX || next->first <= before->last + 1) {
            before->last = max_u64(before->last, next->last);
        } else {
            r->items[++kept] = *next;
        }
    }
    r->n = kept + 1;
    for (size_t i = 1; i < r->n; i++) ASSERT(r->items[i - 1].last < r->items[i].first);
}

/* ---- terms ---- */

static bool is_column(const struct node *n, uint32_t column)
{
    return n->kind == NODE_COLUMN && n->column == column && n->type.id == ARROW_UINT64;
}

static uint64_t word_at(const struct array_view *v, int64_t row) { return (uint64_t)array_view_int(v, row); }

static pennon_status compare_bounds(struct mem *m, const struct node *n, uint32_t column, struct ranges *out, pennon_error *err)
{
    /* The operator as it reads from the other side. */
    static const uint8_t turned[] = {
        [AST_EQ] = AST_EQ, [AST_NE] = AST_NE, [AST_LT] = AST_GT, [AST_LE] = AST_GE, [AST_GT] = AST_LT, [AST_GE] = AST_LE};
    const bool left = is_column(n->children[0], column);
    const struct node *value = n->children[left ? 1 : 0];
    ASSERT(n->op < ARRAY_LEN(turned));
    if ((!left && !is_column(n->children[1], column)) || value->kind != NODE_LITERAL || value->type.id != ARROW_UINT64)
        return add_range(m, out, 0, UINT64_MAX, err);
    if (array_view_is_null(&value->literal_view, 0)) return PENNON_OK;
    const uint64_t v = word_at(&value->literal_view, 0);
    switch ((enum ast_compare)(left ? n->op : turned[n->op])) {
    case AST_EQ: return add_range(m, out, v, v, err);
    case AST_NE:
        if (v > 0) TRY_RETURN(add_range(m, out, 0, v - 1, err));
        return v < UINT64_MAX ? add_range(m, out, v + 1, UINT64_MAX, err) : PENNON_OK;
    case AST_LT: return v > 0 ? add_range(m, out, 0, v - 1, err) : PENNON_OK;
    case AST_LE: return add_range(m, out, 0, v, err);
    case AST_GT: return v < UINT64_MAX ? add_range(m, out, v + 1, UINT64_MAX, err) : PENNON_OK;
    default: ASSERT(n->op == AST_GE || n->op == AST_LE); return add_range(m, out, v, UINT64_MAX, err);
    }
}

static pennon_status set_bounds(struct mem *m, const struct node *n, uint32_t column, struct ranges *out, pennon_error *err)
{
    if (!is_column(n->children[0], column) || n->negated || n->set == NULL) return add_range(m, out, 0, UINT64_MAX, err);
    const struct array_view *items = in_set_items(n->set);
    ASSERT(items->type.id == ARROW_UINT64); /* the set has the value's type */
    for (int64_t i = 0; i < items->length; i++) {
        if (!array_view_is_null(items, i)) TRY_RETURN(add_range(m, out, word_at(items, i), word_at(items, i), err));
    }
    settle(out);
    return PENNON_OK;
}

/* ---- chains ---- */

static pennon_status node_bounds(struct mem *m, const struct node *n, uint32_t column, struct ranges *out, pennon_error *err);

static pennon_status intersect(struct mem *m, const struct ranges *a, const struct ranges *b, struct ranges *out, pennon_error *err)
{
    for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
        const struct value_range *x = &a->items[i], *y = &b->items[k];
        const uint64_t first = max_u64(x->first, y->first), last = min_u64(x->last, y->last);
        if (first <= last) TRY_RETURN(add_range(m, out, first, last, err));
        if (x->last < y->last) {
            i++;
        } else {
            k++;
        }
    }
    return PENNON_OK;
}

static pennon_status and_bounds(struct mem *m, const struct node *n, uint32_t column, struct ranges *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ranges term = {0}, both = {0};
    TRY(add_range(m, out, 0, UINT64_MAX, err));
    for (uint32_t i = 0; i < n->n; i++) {
        TRY(node_bounds(m, n->children[i], column, &term, err));
        TRY(intersect(m, out, &term, &both, err));
        free_ranges(m, out);
        free_ranges(m, &term);
        *out = both;
        both = (struct ranges){0};
    }
done:
    free_ranges(m, &term);
    free_ranges(m, &both);
    return st;
}

static pennon_status or_bounds(struct mem *m, const struct node *n, uint32_t column, struct ranges *out, pennon_error *err)
{
    for (uint32_t i = 0; i < n->n; i++) {
        struct ranges term = {0};
        pennon_status st = node_bounds(m, n->children[i], column, &term, err);
        for (size_t k = 0; st == PENNON_OK && k < term.n; k++) st = add_range(m, out, term.items[k].first, term.items[k].last, err);
        free_ranges(m, &term);
        if (st != PENNON_OK) return st;
    }
    settle(out);
    return PENNON_OK;
}

/* `out` is empty before. The depth is that of the tree, which the parser bounds. */
static pennon_status node_bounds(struct mem *m, const struct node *n, uint32_t column, struct ranges *out, pennon_error *err)
{
    ASSERT(out->n == 0);
    switch ((enum node_kind)n->kind) {
    case NODE_AND: return and_bounds(m, n, column, out, err);
    case NODE_OR: return or_bounds(m, n, column, out, err);
    case NODE_COMPARE: return compare_bounds(m, n, column, out, err);
    case NODE_IN: return set_bounds(m, n, column, out, err);
    case NODE_LITERAL:
        ASSERT(n->type.id == ARROW_BOOL || n->type.id == ARROW_NULL);
        if (n->type.id == ARROW_NULL || array_view_is_null(&n->literal_view, 0) || !array_view_bool(&n->literal_view, 0))
            return PENNON_OK;
        break;
    default: break;
    }
    return add_range(m, out, 0, UINT64_MAX, err);
}

pennon_status expr_bounds(const struct expr *e, const char *path, struct mem *m, struct value_range **out, size_t *n,
                          pennon_error *err)
{
    struct ranges r = {0};
    uint32_t column = 0;
    *out = NULL;
    *n = 0;
    while (column < e->n_columns && strcmp(e->columns[column].path, path) != 0) column++;
    pennon_status st = column == e->n_columns ? add_range(m, &r, 0, UINT64_MAX, err) : node_bounds(m, e->root, column, &r, err);
    if (st != PENNON_OK) {
        free_ranges(m, &r);
        return st;
    }
    *out = r.items;
    *n = r.n;
    return PENNON_OK;
}
