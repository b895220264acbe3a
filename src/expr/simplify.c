/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What typed trees come to before they run: constants folded, NOT pushed in, chains of AND and OR put right.
 *
 *   NOT (a < b)                 a >= b; into AND, OR, IN, LIKE, IS NULL likewise; NOT (b IS TRUE) stays
 *   a AND true, a OR false      a
 *   a AND false, a OR true      the constant
 *   a AND a                     a (short chains)
 *   x = 1 OR x = 2 OR …         x IN (1, 2, …) from four values of one column on, sets of the same column included
 *
 * Nodes are never changed once they are part of a tree, for a value can stand in two places: a changed node is a new one.
 * A constant that fails when it is computed stays as it is, and fails when it is run.
 * Source: spec expressions 8. */
#include "expr/bind.h"

#define EQUAL_TERMS_MAX 64u /* longer chains are not searched for doubled terms */
#define SET_LEAST 4u        /* values that make a set */

/* ---- constants ---- */

struct node *simplify_constant(struct binder *b, struct node *n, pennon_error *err)
{
    struct ArrowArray value = {.release = NULL};
    if (!n->constant || n->kind == NODE_LITERAL) return n;
    pennon_status st = evaluate_constant(b->e, n, &value, err);
    if (st == PENNON_INVALID_ARGUMENT) { /* a fault of values: told when it is run */
        pennon_error_clear(err);
        return n;
    }
    if (st != PENNON_OK) return NULL;
    struct node *literal = node_literal(b->e, n->schema, &value, err);
    if (literal) {
        literal->start = n->start;
        literal->end = n->end;
    }
    return literal;
}

static bool is_truth(const struct node *n, bool *value)
{
    if (n->kind != NODE_LITERAL || n->type.id != ARROW_BOOL || array_view_is_null(&n->literal_view, 0)) return false;
    *value = array_view_bool(&n->literal_view, 0);
    return true;
}

/* ---- NOT ---- */

static struct node *copy_node(struct binder *b, const struct node *n, pennon_error *err)
{
    struct node *copy = arena_alloc(&b->e->arena, sizeof *copy, err);
    if (copy) *copy = *n; /* sets and patterns are shared; their owner is the first node */
    return copy;
}

static struct node *wrap_not(struct binder *b, struct node *n, pennon_error *err)
{
    struct node *outer = node_new(b->e, NODE_NOT, 1, n->schema, err);
    if (!outer) return NULL;
    outer->children[0] = n;
    outer->constant = n->constant;
    outer->start = n->start;
    outer->end = n->end;
    return simplify_constant(b, outer, err);
}

static struct node *not_chain(struct binder *b, const struct node *n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct node *out = NULL;
    struct node **terms = mem_calloc(b->e->mem, n->n, sizeof *terms, err);
    if (!terms) return NULL;
    for (uint32_t i = 0; i < n->n; i++) TRY_NEW(terms[i], simplify_not(b, n->children[i], err));
    TRY_NEW(out, simplify_chain(b, n->kind == NODE_AND ? NODE_OR : NODE_AND, terms, n->n, err));
done:
    mem_free(b->e->mem, terms);
    return st == PENNON_OK ? out : NULL;
}

struct node *simplify_not(struct binder *b, struct node *n, pennon_error *err)
{
    static const uint8_t opposite[] = {
        [AST_EQ] = AST_NE, [AST_NE] = AST_EQ, [AST_LT] = AST_GE, [AST_LE] = AST_GT, [AST_GT] = AST_LE, [AST_GE] = AST_LT};
    struct node *copy;
    if (n->kind == NODE_NOT) return n->children[0];
    if (n->kind == NODE_AND || n->kind == NODE_OR) return not_chain(b, n, err);
    bool flips =
        n->kind == NODE_IN || n->kind == NODE_LIKE || n->kind == NODE_DISTINCT || (n->kind == NODE_IS && n->op == AST_IS_NULL);
    if (n->kind != NODE_COMPARE && !flips) return wrap_not(b, n, err);
    copy = copy_node(b, n, err);
    if (!copy) return NULL;
    if (n->kind == NODE_COMPARE) {
        copy->op = opposite[n->op];
    } else {
        copy->negated = !n->negated;
    }
    return copy;
}

/* ---- chains ---- */

static bool same_node(const struct node *a, const struct node *b)
{
    if (a == b) return true;
    if (a->kind != b->kind || a->op != b->op || a->negated != b->negated || a->fold != b->fold || a->try_cast != b->try_cast ||
        a->n != b->n || a->schema != b->schema || a->column != b->column || a->field != b->field || a->set != b->set ||
        a->fn != b->fn || a->state != b->state) {
        return false;
    }
    if (a->kind == NODE_CALL && (a->fn->flags & FUNCTION_VOLATILE)) return false;
    if (a->kind == NODE_LITERAL) return array_equal(a->schema, &a->literal, &b->literal);
    for (uint32_t i = 0; i < a->n; i++) {
        if (!same_node(a->children[i], b->children[i])) return false;
    }
    return true;
}

/* The terms, nested chains of the kind laid out, without the constant that changes nothing. `absorbed`: one decides all. */
static size_t lay_out(enum node_kind kind, struct node *const *terms, size_t n, struct node **out, bool *absorbed)
{
    size_t count = 0;
    *absorbed = false;
    for (size_t i = 0; i < n; i++) {
        bool value;
        if (is_truth(terms[i], &value)) {
            *absorbed = *absorbed || value == (kind == NODE_OR);
        } else if (terms[i]->kind == kind) {
            memcpy(out + count, terms[i]->children, terms[i]->n * sizeof *out);
            count += terms[i]->n;
        } else {
            out[count++] = terms[i];
        }
    }
    return count;
}

static size_t drop_doubled(struct node **terms, size_t n)
{
    size_t kept = 0;
    if (n > EQUAL_TERMS_MAX) return n;
    for (size_t i = 0; i < n; i++) {
        bool known = false;
        for (size_t k = 0; k < kept && !known; k++) known = same_node(terms[i], terms[k]);
        if (!known) terms[kept++] = terms[i];
    }
    return kept;
}

/* Is the term `column = literal` or `column IN (set)`? Then how many values. 0: neither. */
static size_t values_of(const struct node *t)
{
    if (t->n == 0 || t->children[0]->kind != NODE_COLUMN || t->negated) return 0;
    if (t->kind == NODE_IN) return t->set != NULL ? (size_t)in_set_items(t->set)->length : 0;
    if (t->kind != NODE_COMPARE || t->op != AST_EQ || t->children[1]->kind != NODE_LITERAL) return 0;
    return t->type.layout == LAYOUT_BITS && t->children[0]->type.layout != LAYOUT_STRUCT ? 1 : 0;
}

/* All values that the terms have for this column as one set; the terms become NULL. */
static struct node *fuse_column(struct binder *b, struct node **terms, size_t n, uint32_t column, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct node *in = NULL, *value = NULL, *made = NULL;
    struct ArrowArray items = {.release = NULL};
    size_t parts = 0;
    const struct ArrowArray **arrays = mem_calloc(b->e->mem, n, sizeof(const struct ArrowArray *), err);
    if (!arrays) return NULL;
    for (size_t i = 0; i < n; i++) {
        struct node *t = terms[i];
        if (!t || values_of(t) == 0 || t->children[0]->column != column) continue;
        if (!value) value = t->children[0];
        arrays[parts++] = t->kind == NODE_IN ? in_set_items(t->set)->array : &t->children[1]->literal;
        terms[i] = NULL;
    }
    ASSERT(value != NULL);
    TRY(array_concat(value->schema, parts, arrays, b->e->mem, &items, err));
    TRY_NEW(made, bind_truth(b, true, err));
    TRY_NEW(in, node_new(b->e, NODE_IN, 1, made->schema, err));
    in->children[0] = value;
    TRY(node_in_set(b->e, in, value->schema, &items, err));
done:
    mem_free(b->e->mem, arrays);
    return st == PENNON_OK ? in : NULL;
}

/* Columns that have enough values get one set each, in the place of their first term. */
static pennon_status fuse_equals(struct binder *b, struct node **terms, size_t *n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    size_t *counts = mem_calloc(b->e->mem, b->e->n_columns + 1, sizeof *counts, err);
    size_t *members = mem_calloc(b->e->mem, b->e->n_columns + 1, sizeof *members, err);
    size_t kept = 0;
    if (!counts || !members) {
        st = err->code;
        goto done;
    }
    for (size_t i = 0; i < *n; i++) {
        size_t values = values_of(terms[i]);
        if (values == 0) continue;
        counts[terms[i]->children[0]->column] += values;
        members[terms[i]->children[0]->column]++;
    }
    for (size_t i = 0; i < *n; i++) {
        struct node *t = terms[i];
        if (!t || values_of(t) == 0) continue;
        uint32_t column = t->children[0]->column;
        if (counts[column] < SET_LEAST || members[column] < 2) continue;
        struct node *in;
        TRY_NEW(in, fuse_column(b, terms, *n, column, err));
        members[column] = 0;
        terms[i] = in;
    }
    for (size_t i = 0; i < *n; i++) {
        if (terms[i]) terms[kept++] = terms[i];
    }
    *n = kept;
done:
    mem_free(b->e->mem, counts);
    mem_free(b->e->mem, members);
    return st;
}

struct node *simplify_chain(struct binder *b, enum node_kind kind, struct node **terms, size_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct node *out = NULL;
    size_t total = n;
    bool absorbed;
    ASSERT(kind == NODE_AND || kind == NODE_OR);
    for (size_t i = 0; i < n; i++) total += terms[i]->n;
    struct node **all = mem_calloc(b->e->mem, total + 1, sizeof *all, err);
    if (!all) return NULL;
    size_t count = lay_out(kind, terms, n, all, &absorbed);
    if (absorbed) count = 0;
    count = drop_doubled(all, count);
    if (kind == NODE_OR && count > 1) TRY(fuse_equals(b, all, &count, err));
    if (count == 0) {
        TRY_NEW(out, bind_truth(b, absorbed == (kind == NODE_OR), err));
    } else if (count == 1) {
        out = all[0];
    } else {
        TRY_NEW(out, node_new(b->e, kind, count, all[0]->schema, err));
        ASSERT(out->n == count);
        memcpy(out->children, all, count * sizeof *all);
        out->constant = true;
        for (size_t i = 0; i < count; i++) out->constant = out->constant && all[i]->constant;
        out->start = all[0]->start;
        out->end = all[count - 1]->end;
        TRY_NEW(out, simplify_constant(b, out, err));
    }
done:
    mem_free(b->e->mem, all);
    return st == PENNON_OK ? out : NULL;
}
