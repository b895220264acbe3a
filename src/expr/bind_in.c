/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* value IN (items).
 *
 * Plain literals of one kind go straight into an array of the items' type, without a node each: a list of a million is a million values. Other lists are
 * bound item by item. One to three items become comparisons; more constants become a set; items that depend on rows stay children.
 * In strict terms the literals beside a top-level column take its type or are refused; elsewhere value and items are brought to the type in which
 * they are compared.
 * Source: spec expressions 3.2, 5, 8. */
#include "expr/bind.h"

#define COMPARED_MOST 3u /* items that are compared one by one */

/* Row i of an array as a literal. */
static struct node *literal_of(struct binder *b, const struct ArrowSchema *type, const struct ArrowArray *items, int64_t i,
                               pennon_error *err)
{
    struct ArrowArray one = {.release = NULL};
    if (array_copy_range(type, items, i, 1, 0, b->e->mem, &one, err) != PENNON_OK) return NULL;
    return node_literal(b->e, type, &one, err);
}

static struct node *compare_items(struct binder *b, const struct ast *a, struct node *value, struct node **items, size_t n,
                                  bool negated, pennon_error *err)
{
    struct node *terms[COMPARED_MOST];
    ASSERT(n >= 1 && n <= COMPARED_MOST);
    for (size_t i = 0; i < n; i++) {
        terms[i] = bind_compare(b, a, negated ? AST_NE : AST_EQ, value, items[i], err);
        if (!terms[i]) return NULL;
    }
    return simplify_chain(b, negated ? NODE_AND : NODE_OR, terms, n, err);
}

/* An IN node over an array of the value's type, which is moved. */
static struct node *set_node(struct binder *b, struct node *value, struct ArrowArray *items, bool negated, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct ArrowSchema *type;
    struct node *n = NULL;
    TRY(expr_simple_type(b->e, "b", &type, err));
    TRY_NEW(n, node_new(b->e, NODE_IN, 1, type, err));
    n->children[0] = value;
    n->negated = negated;
    n->constant = value->constant;
    TRY(node_in_set(b->e, n, value->schema, items, err));
    TRY_NEW(n, simplify_constant(b, n, err));
done:
    if (items->release) array_release(items);
    return st == PENNON_OK ? n : NULL;
}

/* ---- literals of one kind ---- */

/* Cast all items; *bad is the first that became null by it, -1 = none. */
static pennon_status cast_items(struct binder *b, const struct ArrowSchema *from, const struct ArrowArray *items,
                                const struct ArrowSchema *to, struct ArrowArray *out, int64_t *bad, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct call c = {.mem = b->e->mem, .deadline_ns = INT64_MAX, .threads = 1};
    struct datum in = {.scalar = false}, result = {.scalar = false};
    struct array_view before, after;
    struct arena scratch;
    arena_init(&scratch, b->e->mem);
    *bad = -1;
    TRY(array_view_init(&before, from, items, err));
    TRY(datum_borrow(&in, from, items, false, &scratch, err));
    TRY(cast_datum(&c, &in, to, true, &scratch, items->length, &result, err));
    TRY(array_copy_range(to, result.view.array, 0, items->length, 0, b->e->mem, out, err));
    TRY(array_view_init(&after, to, out, err));
    for (int64_t i = 0; i < items->length && *bad < 0 && after.null_count != before.null_count; i++) {
        if (array_view_is_null(&after, i) && !array_view_is_null(&before, i)) *bad = i;
    }
done:
    datum_release(&result);
    arena_reset(&scratch);
    return st;
}

/* The type that a strict list takes: the column's, if its first value fits. */
static pennon_status check_strict(struct binder *b, const struct ast *a, const struct node *value, pennon_error *err)
{
    for (uint32_t i = 1; i < a->n; i++) {
        if (a->children[i]->kind == AST_NULL) continue;
        struct node *literal = bind_literal(b, a->children[i], err);
        if (!literal || !bind_coerce_literal(b, a->children[i], literal, value->schema, err)) return err->code;
        break; /* the others are of its kind; their values are checked when all are cast */
    }
    return PENNON_OK;
}

static pennon_status refuse_item(struct binder *b, const struct ast *a, int64_t i, const struct ArrowSchema *type,
                                 pennon_error *err)
{
    const struct ast *item = a->children[i + 1];
    struct node *literal = bind_literal(b, item, err);
    return literal ? bind_refuse_literal(b, item, literal, type, err) : err->code;
}

/* Compare or look up items that are an array; moved. */
static struct node *in_array(struct binder *b, const struct ast *a, struct node *value, const struct ArrowSchema *type,
                             struct ArrowArray *items, pennon_error *err)
{
    bool negated = (a->flags & AST_NEGATED) != 0;
    struct node *nodes[COMPARED_MOST], *n = NULL;
    size_t count = (size_t)items->length;
    if (count > COMPARED_MOST) return set_node(b, value, items, negated, err);
    for (size_t i = 0; i < count; i++) {
        nodes[i] = literal_of(b, type, items, (int64_t)i, err);
        if (!nodes[i]) goto done;
    }
    n = compare_items(b, a, value, nodes, count, negated, err);
done:
    array_release(items);
    return n;
}

static struct node *in_literals(struct binder *b, const struct ast *a, bool strict, struct node *value,
                                const struct ArrowSchema *from, struct ArrowArray *items, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct ArrowSchema *type = value->schema;
    struct ArrowArray cast = {.release = NULL};
    struct node *n = NULL;
    int64_t bad;
    if (strict) {
        TRY(check_strict(b, a, value, err));
    } else {
        TRY(comparison_type(b->e, value->schema, from, &type, err));
        if (!type) {
            struct node *first;
            TRY_NEW(first, literal_of(b, from, items, 0, err));
            st = bind_no_type(b, a, "there is no comparison of", value, first, err);
            goto done;
        }
        TRY_NEW(value, node_cast(b->e, value, type, false, err));
    }
    TRY(cast_items(b, from, items, type, &cast, &bad, err));
    if (bad >= 0) {
        st = refuse_item(b, a, bad, type, err);
        goto done;
    }
    n = in_array(b, a, value, type, &cast, err);
done:
    array_release(&cast);
    return n;
}

/* ---- any items ---- */

static pennon_status items_type(struct binder *b, const struct ast *a, const struct node *value, struct node *const *items,
                                size_t n, const struct ArrowSchema **type, pennon_error *err)
{
    *type = value->schema;
    for (size_t i = 0; i < n; i++) {
        const struct ArrowSchema *next;
        TRY_RETURN(comparison_type(b->e, *type, items[i]->schema, &next, err));
        if (!next) return bind_no_type(b, a, "there is no comparison of", value, items[i], err);
        *type = next;
    }
    return PENNON_OK;
}

/* Constants of one type as one array. */
static pennon_status join_literals(struct binder *b, const struct ArrowSchema *type, struct node *const *items, size_t n,
                                   struct ArrowArray *out, pennon_error *err)
{
    const struct ArrowArray **arrays = mem_calloc(b->e->mem, n, sizeof(const struct ArrowArray *), err);
    if (!arrays) return err->code;
    for (size_t i = 0; i < n; i++) arrays[i] = &items[i]->literal;
    pennon_status st = array_concat(type, n, arrays, b->e->mem, out, err);
    mem_free(b->e->mem, arrays);
    return st;
}

static struct node *children_node(struct binder *b, struct node *value, struct node *const *items, size_t n, bool negated,
                                  pennon_error *err)
{
    const struct ArrowSchema *type;
    if (expr_simple_type(b->e, "b", &type, err) != PENNON_OK) return NULL;
    struct node *in = node_new(b->e, NODE_IN, n + 1, type, err);
    if (!in) return NULL;
    in->negated = negated;
    in->children[0] = value;
    in->constant = value->constant;
    for (size_t i = 0; i < n; i++) {
        in->children[i + 1] = items[i];
        in->constant = in->constant && items[i]->constant;
    }
    return simplify_constant(b, in, err);
}

/* Items in the unit of the column, where all fit it. */
static pennon_status unwrap_stamps(struct binder *b, struct node **value, struct node **items, size_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct node *column = (*value)->children[0];
    struct node **narrow;
    TRY_NEW(narrow, mem_calloc(b->e->mem, n, sizeof *narrow, err));
    for (size_t i = 0; i < n; i++) {
        TRY(bind_stamp_literal(b, items[i], column, &narrow[i], err));
        if (!narrow[i]) goto done;
    }
    memcpy(items, narrow, n * sizeof *items);
    *value = column;
done:
    mem_free(b->e->mem, narrow);
    return st;
}

static struct node *in_nodes(struct binder *b, const struct ast *a, struct node *value, struct node **items, size_t n,
                             pennon_error *err)
{
    const struct ArrowSchema *type;
    struct ArrowArray joined = {.release = NULL};
    bool negated = (a->flags & AST_NEGATED) != 0, literals = true;
    if (items_type(b, a, value, items, n, &type, err) != PENNON_OK) return NULL;
    value = node_cast(b->e, value, type, false, err);
    if (!value) return NULL;
    for (size_t i = 0; i < n; i++) {
        items[i] = node_cast(b->e, items[i], type, false, err);
        if (!items[i]) return NULL;
        literals = literals && items[i]->kind == NODE_LITERAL;
    }
    if (n <= COMPARED_MOST) return compare_items(b, a, value, items, n, negated, err);
    if (literals && bind_is_stamp_cast(value)) {
        if (unwrap_stamps(b, &value, items, n, err) != PENNON_OK) return NULL;
        type = value->schema;
    }
    if (!literals) return children_node(b, value, items, n, negated, err);
    if (join_literals(b, type, items, n, &joined, err) != PENNON_OK) return NULL;
    return set_node(b, value, &joined, negated, err);
}

static struct node *in_mixed(struct binder *b, const struct ast *a, bool strict, struct node *value, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct node *n = NULL;
    size_t count = (size_t)a->n - 1;
    struct node **items = mem_calloc(b->e->mem, count, sizeof *items, err);
    if (!items) return NULL;
    for (size_t i = 0; i < count; i++) {
        const struct ast *item = a->children[i + 1];
        TRY_NEW(items[i], bind_tree(b, item, false, err));
        /* A null has no type that could count. */
        if (strict && item->kind != AST_NULL && bind_is_literal(item, items[i]))
            TRY_NEW(items[i], bind_coerce_literal(b, item, items[i], value->schema, err));
    }
    n = in_nodes(b, a, value, items, count, err);
done:
    mem_free(b->e->mem, items);
    return st == PENNON_OK ? n : NULL;
}

struct node *bind_in(struct binder *b, const struct ast *a, bool strict, pennon_error *err)
{
    const struct ArrowSchema *type;
    struct ArrowArray items = {.release = NULL};
    bool made;
    struct node *value = bind_tree(b, a->children[0], false, err);
    if (!value) return NULL;
    strict = strict && value->kind == NODE_COLUMN && a->children[0]->kind == AST_COLUMN && a->children[0]->n == 1;
    if (bind_literals(b, a->children + 1, (size_t)a->n - 1, &type, &items, &made, err) != PENNON_OK) return NULL;
    if (!made) return in_mixed(b, a, strict, value, err);
    struct node *n = in_literals(b, a, strict, value, type, &items, err);
    array_release(&items);
    return n;
}
