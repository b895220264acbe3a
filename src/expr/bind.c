/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The binder: syntax trees to typed trees.
 *
 * Bottom up: children first, then the types they meet in, casts where they are needed, then what the node comes to (simplify.c). `strict` goes down
 * through AND and OR only: there literals beside columns follow the rules of literals (bind_literal.c), everywhere else those of comparisons.
 * Recursion is as deep as the syntax tree, which the parser bounds; lists of any length are loops.
 * Source: spec expressions 3-8. */
#include <strings.h>

#include "encoding/jsonb.h"
#include "expr/bind.h"
#include "expr/lexer.h"
#include "schema/schema.h"

/* ---- errors ---- */

pennon_status bind_place(const struct binder *b, const struct ast *a, pennon_error *err)
{
    size_t end = a->end <= b->text.size ? a->end : b->text.size;
    return a->start < end ? syntax_place(b->text, a->start, end, err) : err->code;
}

pennon_status bind_error(const struct binder *b, const struct ast *a, const char *kind, pennon_error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)error_set_v(err, PENNON_INVALID_ARGUMENT, fmt, args);
    va_end(args);
    (void)bind_place(b, a, err);
    return error_kind(err, kind);
}

/* A node that stands for this part of the text; NULL stays NULL. */
static struct node *placed(struct node *n, const struct ast *a)
{
    if (n && n->kind != NODE_LITERAL) {
        n->start = a->start;
        n->end = a->end;
    }
    return n;
}

pennon_status bind_no_type(struct binder *b, const struct ast *a, const char *what, const struct node *left,
                           const struct node *right, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    buf_init(&text, b->e->mem, BUF_NO_LIMIT);
    TRY(type_print(left->schema, &text, err));
    if (right) {
        TRY(buf_printf(&text, err, " and "));
        TRY(type_print(right->schema, &text, err));
    }
    TRY(buf_terminate(&text, err));
    st = bind_error(b, a, "TypeMismatch", err, "%s %.400s; a CAST says what is meant", what, (const char *)text.data);
done:
    buf_free(&text);
    return st;
}

/* ---- helpers ---- */

static bool is_null_literal(const struct node *n) { return n->kind == NODE_LITERAL && array_view_is_null(&n->literal_view, 0); }

static struct node *null_truth(struct binder *b, pennon_error *err)
{
    const struct ArrowSchema *type;
    return expr_simple_type(b->e, "b", &type, err) == PENNON_OK ? node_null(b->e, type, err) : NULL;
}

/* A node with a boolean value over one or two children. */
static struct node *truth_node(struct binder *b, enum node_kind kind, struct node *first, struct node *second, pennon_error *err)
{
    const struct ArrowSchema *type;
    if (expr_simple_type(b->e, "b", &type, err) != PENNON_OK) return NULL;
    struct node *n = node_new(b->e, kind, second ? 2 : 1, type, err);
    if (!n) return NULL;
    n->children[0] = first;
    if (second) n->children[1] = second;
    n->constant = first->constant && (!second || second->constant);
    return n;
}

static struct node *is_node(struct binder *b, enum ast_is op, bool negated, struct node *value, pennon_error *err)
{
    struct node *n = truth_node(b, NODE_IS, value, NULL, err);
    if (!n) return NULL;
    n->op = (uint8_t)op;
    n->negated = negated;
    return simplify_constant(b, n, err);
}

/* Of constants too, of which a list is left. */
static bool is_regexp_match(const struct ast *a, const struct node *n)
{
    static const char name[] = "regexp_match";
    if (n->kind == NODE_CALL) return strcmp(n->fn->name, name) == 0;
    return a->kind == AST_CALL && a->text.size == sizeof name - 1 && n->type.id == ARROW_LIST &&
           strncasecmp((const char *)a->text.data, name, sizeof name - 1) == 0;
}

struct node *bind_boolean(struct binder *b, const struct ast *a, struct node *n, pennon_error *err)
{
    if (n->type.id == ARROW_BOOL) return n;
    if (n->type.id == ARROW_NULL) return null_truth(b, err);
    if (is_regexp_match(a, n)) return is_node(b, AST_IS_NULL, true, n, err);
    (void)bind_no_type(b, a, "a boolean is expected here, not", n, NULL, err);
    return NULL;
}

static struct node *bind_truth_of(struct binder *b, const struct ast *a, bool strict, pennon_error *err)
{
    struct node *n = bind_tree(b, a, strict, err);
    return n ? bind_boolean(b, a, n, err) : NULL;
}

/* All children into an array of the caller (mem_free). */
static pennon_status bind_children(struct binder *b, const struct ast *a, struct node ***out, pennon_error *err)
{
    *out = mem_calloc(b->e->mem, (size_t)a->n + 1, sizeof **out, err);
    if (!*out) return err->code;
    for (uint32_t i = 0; i < a->n; i++) {
        (*out)[i] = bind_tree(b, a->children[i], false, err);
        if (!(*out)[i]) {
            mem_free(b->e->mem, *out);
            *out = NULL;
            return err->code;
        }
    }
    return PENNON_OK;
}

/* ---- comparisons ---- */

static enum ast_compare mirrored(enum ast_compare op)
{
    static const enum ast_compare other[] = {
        [AST_EQ] = AST_EQ, [AST_NE] = AST_NE, [AST_LT] = AST_GT, [AST_LE] = AST_GE, [AST_GT] = AST_LT, [AST_GE] = AST_LE};
    return other[op];
}

/* A cast that keeps all values and their order. */
static bool is_widening(const struct arrow_type *from, const struct arrow_type *to)
{
    if (arrow_id_is_integer(from->id) && arrow_id_is_integer(to->id)) {
        return from->bit_width < to->bit_width && (arrow_id_is_signed(to->id) || !arrow_id_is_signed(from->id));
    }
    if (from->id == ARROW_TIMESTAMP && to->id == ARROW_TIMESTAMP)
        return from->unit < to->unit && strcmp(from->timezone, to->timezone) == 0;
    return from->id == to->id && arrow_id_is_decimal(from->id) && to->scale >= from->scale &&
           to->precision - to->scale >= from->precision - from->scale;
}

pennon_status bind_stamp_literal(struct binder *b, const struct node *literal, const struct node *column, struct node **out,
                                 pennon_error *err)
{
    static const int64_t per_second[] = {1, 1000, 1000000, 1000000000};
    const int64_t mine = per_second[literal->type.unit], theirs = per_second[column->type.unit];
    struct ArrowArray made = {.release = NULL};
    int64_t value;
    *out = NULL;
    if (is_null_literal(literal)) {
        *out = node_null(b->e, column->schema, err);
        return *out ? PENNON_OK : err->code;
    }
    value = array_view_int(&literal->literal_view, 0);
    if (theirs >= mine) {
        if (__builtin_mul_overflow(value, theirs / mine, &value)) return PENNON_OK;
    } else {
        value /= mine / theirs;
    }
    TRY_RETURN(array_new_for(&made, column->schema, b->e->mem, err));
    made.length = 1;
    void *bytes = array_make_buffer(&made, 1, sizeof value, err);
    if (bytes) {
        memcpy(bytes, &value, sizeof value);
        *out = node_literal(b->e, column->schema, &made, err);
    }
    array_release(&made);
    return *out ? PENNON_OK : err->code;
}

bool bind_is_stamp_cast(const struct node *n)
{
    return n->kind == NODE_CAST && !n->try_cast && n->type.id == ARROW_TIMESTAMP && n->children[0]->type.id == ARROW_TIMESTAMP;
}

/* CAST(narrow AS wide) beside a literal that the narrow type holds: compare the narrow one. Timestamps are never cast for a literal. */
static pennon_status unwrap_cast(struct binder *b, struct node **left, struct node **right, pennon_error *err)
{
    struct node *cast = *left, *literal = *right, *narrow, *back;
    if (cast->kind != NODE_CAST || literal->kind != NODE_LITERAL || cast->try_cast) return PENNON_OK;
    struct node *from = cast->children[0];
    if (bind_is_stamp_cast(cast)) {
        TRY_RETURN(bind_stamp_literal(b, literal, from, &narrow, err));
        if (narrow) {
            *left = from;
            *right = narrow;
        }
        return PENNON_OK;
    }
    if (!is_widening(&from->type, &cast->type)) return PENNON_OK;
    narrow = node_cast(b->e, literal, from->schema, true, err);
    if (!narrow) return err->code;
    if (is_null_literal(narrow)) return PENNON_OK;
    back = node_cast(b->e, narrow, literal->schema, true, err);
    if (!back) return err->code;
    if (array_compare(&back->literal_view, 0, &literal->literal_view, 0) != 0) return PENNON_OK;
    *left = from;
    *right = narrow;
    return PENNON_OK;
}

/* b = true and the like: the boolean, or its opposite. NULL with err free: no such comparison. */
static bool compares_truth(enum ast_compare op, const struct node *right, bool *same)
{
    if ((op != AST_EQ && op != AST_NE) || right->kind != NODE_LITERAL || right->type.id != ARROW_BOOL) return false;
    *same = array_view_bool(&right->literal_view, 0) == (op == AST_EQ);
    return true;
}

static struct node *make_compare(struct binder *b, enum ast_compare op, struct node *left, struct node *right, pennon_error *err)
{
    bool same;
    if (is_null_literal(left) || is_null_literal(right)) return null_truth(b, err);
    if (left->kind == NODE_LITERAL && right->kind != NODE_LITERAL) {
        struct node *other = left;
        left = right;
        right = other;
        op = mirrored(op);
    }
    if (unwrap_cast(b, &left, &right, err) != PENNON_OK) return NULL;
    if (left->type.id == ARROW_BOOL && compares_truth(op, right, &same)) return same ? left : simplify_not(b, left, err);
    struct node *n = truth_node(b, NODE_COMPARE, left, right, err);
    if (!n) return NULL;
    n->op = (uint8_t)op;
    return simplify_constant(b, n, err);
}

struct node *bind_compare(struct binder *b, const struct ast *a, enum ast_compare op, struct node *left, struct node *right,
                          pennon_error *err)
{
    const struct ArrowSchema *type;
    if (comparison_type(b->e, left->schema, right->schema, &type, err) != PENNON_OK) return NULL;
    if (!type) {
        (void)bind_no_type(b, a, "there is no comparison of", left, right, err);
        return NULL;
    }
    left = node_cast(b->e, left, type, false, err);
    if (left) right = node_cast(b->e, right, type, false, err);
    if (!left || !right) {
        if (err->code == PENNON_INVALID_ARGUMENT) (void)bind_place(b, a, err);
        return NULL;
    }
    return placed(make_compare(b, op, left, right, err), a);
}

static struct node *bind_arith(struct binder *b, const struct ast *a, struct node *left, struct node *right, pennon_error *err);

/* The right side of a column in a strict term: literals take the column's type, those of arithmetic too (c = 1 + 1, c = d % 2). Recurses as deep as
 * the syntax tree. */
static struct node *bind_beside(struct binder *b, const struct ast *a, const struct node *column, pennon_error *err)
{
    struct node *n;
    if (a->kind == AST_ARITH) {
        struct node *left = bind_beside(b, a->children[0], column, err);
        struct node *right = left ? bind_beside(b, a->children[1], column, err) : NULL;
        return right ? bind_arith(b, a, left, right, err) : NULL;
    }
    n = bind_tree(b, a, false, err);
    if (!n || !bind_is_literal(a, n)) return n;
    return bind_coerce_literal(b, a, n, column->schema, err);
}

/* The left side of a column: only a literal itself does. */
static struct node *bind_before(struct binder *b, const struct ast *a, const struct node *column, pennon_error *err)
{
    return a->kind == AST_ARITH ? bind_tree(b, a, false, err) : bind_beside(b, a, column, err);
}

/* Both sides of an operation; in strict terms literals beside a column are coerced. */
static pennon_status bind_sides(struct binder *b, const struct ast *a, bool strict, struct node **left, struct node **right,
                                pennon_error *err)
{
    const struct ast *first = a->children[0], *second = a->children[1];
    bool column_first = first->kind == AST_COLUMN || first->kind == AST_FIELD || first->kind == AST_INDEX;
    if (!strict) {
        *left = bind_tree(b, first, false, err);
        *right = *left ? bind_tree(b, second, false, err) : NULL;
    } else if (column_first) {
        *left = bind_tree(b, first, false, err);
        if (!*left) return err->code;
        *right = (*left)->kind == NODE_COLUMN ? bind_beside(b, second, *left, err) : bind_tree(b, second, false, err);
    } else {
        *right = bind_tree(b, second, false, err);
        if (!*right) return err->code;
        *left = (*right)->kind == NODE_COLUMN ? bind_before(b, first, *right, err) : bind_tree(b, first, false, err);
    }
    return *left && *right ? PENNON_OK : err->code;
}

static struct node *bind_comparison(struct binder *b, const struct ast *a, bool strict, pennon_error *err)
{
    struct node *left, *right;
    if (bind_sides(b, a, strict, &left, &right, err) != PENNON_OK) return NULL;
    return bind_compare(b, a, (enum ast_compare)a->op, left, right, err);
}

static struct node *bind_distinct(struct binder *b, const struct ast *a, pennon_error *err)
{
    const struct ArrowSchema *type;
    struct node *left, *right, *n;
    if (bind_sides(b, a, false, &left, &right, err) != PENNON_OK) return NULL;
    if (comparison_type(b->e, left->schema, right->schema, &type, err) != PENNON_OK) return NULL;
    if (!type) {
        (void)bind_no_type(b, a, "there is no comparison of", left, right, err);
        return NULL;
    }
    left = node_cast(b->e, left, type, false, err);
    right = left ? node_cast(b->e, right, type, false, err) : NULL;
    if (!right) return NULL;
    if (unwrap_cast(b, &left, &right, err) != PENNON_OK || unwrap_cast(b, &right, &left, err) != PENNON_OK) return NULL;
    n = truth_node(b, NODE_DISTINCT, left, right, err);
    if (!n) return NULL;
    n->negated = (a->flags & AST_NEGATED) != 0;
    return simplify_constant(b, n, err);
}

/* The type of a value and its bounds together: what each bound is compared in, and then both. */
static pennon_status between_type(struct binder *b, const struct ast *a, const struct node *value, struct node *const *bounds,
                                  const struct ArrowSchema **type, pennon_error *err)
{
    const struct ArrowSchema *each[2];
    for (size_t i = 0; i < 2; i++) {
        TRY_RETURN(comparison_type(b->e, value->schema, bounds[i]->schema, &each[i], err));
        if (!each[i]) return bind_no_type(b, a, "there is no comparison of", value, bounds[i], err);
    }
    TRY_RETURN(comparison_type(b->e, each[0], each[1], type, err));
    return *type ? PENNON_OK : bind_no_type(b, a, "there is no comparison of", bounds[0], bounds[1], err);
}

/* value >= low AND value <= high; the value is bound once. */
static struct node *bind_between(struct binder *b, const struct ast *a, bool strict, pennon_error *err)
{
    bool negated = (a->flags & AST_NEGATED) != 0;
    const struct ArrowSchema *type;
    struct node *value = bind_tree(b, a->children[0], false, err), *bounds[2], *terms[2];
    if (!value) return NULL;
    for (size_t i = 0; i < 2; i++) {
        const struct ast *bound = a->children[i + 1];
        bounds[i] = strict && value->kind == NODE_COLUMN ? bind_beside(b, bound, value, err) : bind_tree(b, bound, false, err);
        if (!bounds[i]) return NULL;
    }
    if (between_type(b, a, value, bounds, &type, err) != PENNON_OK) return NULL;
    value = node_cast(b->e, value, type, false, err);
    for (size_t i = 0; i < 2; i++) {
        const enum ast_compare op = i == 0 ? (negated ? AST_LT : AST_GE) : (negated ? AST_GT : AST_LE);
        if (!value || !(bounds[i] = node_cast(b->e, bounds[i], type, false, err))) return NULL;
        terms[i] = bind_compare(b, a, op, value, bounds[i], err);
        if (!terms[i]) return NULL;
    }
    return simplify_chain(b, negated ? NODE_OR : NODE_AND, terms, 2, err);
}

/* ---- LIKE ---- */

/* A pattern without wildcards is a text to be equal to. */
static bool is_wild(struct bytes pattern)
{
    for (size_t i = 0; i < pattern.size; i++) {
        if (pattern.data[i] == '%' || pattern.data[i] == '_' || pattern.data[i] == '\\') return true;
    }
    return false;
}

static struct node *bind_like(struct binder *b, const struct ast *a, pennon_error *err)
{
    const struct ArrowSchema *type;
    struct node *left, *right, *n;
    bool fold = (a->flags & AST_FOLD) != 0, negated = (a->flags & AST_NEGATED) != 0;
    if (bind_sides(b, a, false, &left, &right, err) != PENNON_OK) return NULL;
    if (bind_like_type(b->e, left->schema, right->schema, &type, err) != PENNON_OK) return NULL;
    if (!type) {
        (void)bind_no_type(b, a, "LIKE compares texts, not", left, right, err);
        return NULL;
    }
    left = node_cast(b->e, left, type, false, err);
    right = left ? node_cast(b->e, right, type, false, err) : NULL;
    if (!right) return NULL;
    if (is_null_literal(left) || is_null_literal(right)) return null_truth(b, err);
    bool fixed = right->kind == NODE_LITERAL;
    struct bytes pattern = fixed ? array_view_bytes(&right->literal_view, 0) : bytes_of(NULL, 0);
    if (fixed && !fold && !is_wild(pattern)) return placed(make_compare(b, negated ? AST_NE : AST_EQ, left, right, err), a);
    n = truth_node(b, NODE_LIKE, left, right, err);
    if (!n) return NULL;
    n->negated = negated;
    n->fold = fold;
    if (fixed && node_like_pattern(b->e, n, pattern, err) != PENNON_OK) return NULL;
    return simplify_constant(b, n, err);
}

/* ---- IS, NOT, AND, OR ---- */

/* A column at the top that can have no null. */
static bool never_null(const struct binder *b, const struct node *n)
{
    if (n->kind != NODE_COLUMN) return false;
    const struct expr_column *c = &b->e->columns[n->column];
    const struct ArrowSchema *top = b->input->children[c->top];
    return !arrow_schema_nullable(top) && strcmp(c->path, top->name) == 0;
}

static struct node *bind_is(struct binder *b, const struct ast *a, pennon_error *err)
{
    bool negated = (a->flags & AST_NEGATED) != 0;
    struct node *n = bind_tree(b, a->children[0], false, err);
    if (!n) return NULL;
    if (a->op != AST_IS_NULL || is_regexp_match(a->children[0], n)) n = bind_boolean(b, a->children[0], n, err);
    if (!n) return NULL;
    if (a->op == AST_IS_NULL && never_null(b, n)) return bind_truth(b, negated, err);
    return is_node(b, (enum ast_is)a->op, negated, n, err);
}

static struct node *bind_chain(struct binder *b, const struct ast *a, bool strict, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct node *n = NULL;
    struct node **terms = mem_calloc(b->e->mem, a->n, sizeof *terms, err);
    if (!terms) return NULL;
    for (uint32_t i = 0; i < a->n; i++) TRY_NEW(terms[i], bind_truth_of(b, a->children[i], strict, err));
    TRY_NEW(n, simplify_chain(b, a->kind == AST_AND ? NODE_AND : NODE_OR, terms, a->n, err));
done:
    mem_free(b->e->mem, terms);
    return st == PENNON_OK ? n : NULL;
}

/* ---- numbers and texts ---- */

static struct node *bind_arith(struct binder *b, const struct ast *a, struct node *left, struct node *right, pennon_error *err)
{
    struct arrow_type ta = left->type, tb = right->type, result;
    const struct ArrowSchema *type_a, *type_b, *type;
    if (left->schema->dictionary && arrow_type_of(left->schema->dictionary, &ta, err) != PENNON_OK) return NULL;
    if (right->schema->dictionary && arrow_type_of(right->schema->dictionary, &tb, err) != PENNON_OK) return NULL;
    if (!bind_arithmetic((enum ast_arith)a->op, &ta, &tb, &result)) {
        (void)bind_no_type(b, a, "there is no such operation with", left, right, err);
        return NULL;
    }
    if (bind_add_type(b->e, &ta, &type_a, err) != PENNON_OK || bind_add_type(b->e, &tb, &type_b, err) != PENNON_OK ||
        bind_add_type(b->e, &result, &type, err) != PENNON_OK) {
        return NULL;
    }
    left = node_cast(b->e, left, type_a, false, err);
    right = left ? node_cast(b->e, right, type_b, false, err) : NULL;
    if (!right) return NULL;
    struct node *n = node_new(b->e, NODE_ARITH, 2, type, err);
    if (!n) return NULL;
    n->op = a->op;
    n->children[0] = left;
    n->children[1] = right;
    n->constant = left->constant && right->constant;
    return simplify_constant(b, placed(n, a), err);
}

static struct node *bind_arithmetic_tree(struct binder *b, const struct ast *a, bool strict, pennon_error *err)
{
    struct node *left, *right;
    if (bind_sides(b, a, strict, &left, &right, err) != PENNON_OK) return NULL;
    return bind_arith(b, a, left, right, err);
}

static struct node *bind_negate(struct binder *b, const struct ast *a, pennon_error *err)
{
    struct node *value = bind_tree(b, a->children[0], false, err);
    if (!value) return NULL;
    if (value->kind == NODE_NEGATE) return value->children[0];
    enum arrow_id id = value->type.id;
    if (!arrow_id_is_signed(id) && !arrow_id_is_float(id) && !arrow_id_is_decimal(id)) {
        if (id == ARROW_NULL) return value;
        (void)bind_no_type(b, a, "there is no negative of", value, NULL, err);
        return NULL;
    }
    struct node *n = node_new(b->e, NODE_NEGATE, 1, value->schema, err);
    if (!n) return NULL;
    n->children[0] = value;
    n->constant = value->constant;
    return simplify_constant(b, placed(n, a), err);
}

/* a || b: null where one is null, unlike the function concat. One call for two at a time would nest; a NULL test in front of one call does not. */
static struct node *bind_concat(struct binder *b, const struct ast *a, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct node *n = NULL, *call, *other, **args = NULL, **tests = NULL;
    const struct ArrowSchema *text, *type = NULL;
    TRY(bind_children(b, a, &args, err));
    TRY_NEW(tests, mem_calloc(b->e->mem, a->n, sizeof *tests, err));
    TRY(expr_simple_type(b->e, "u", &text, err));
    bool lists = args[0]->type.layout == LAYOUT_LIST32 || args[0]->type.layout == LAYOUT_LIST64;
    for (uint32_t i = 0; i < a->n; i++) {
        bool is_text = arrow_id_is_text(args[i]->type.id);
        if (!is_text && !lists) TRY_NEW(args[i], node_cast(b->e, args[i], text, false, err));
        TRY_NEW(tests[i], is_node(b, AST_IS_NULL, true, args[i], err));
    }
    TRY_NEW(call, bind_call(b, a, bytes_str(lists ? "array_concat" : "||"), args, a->n, err));
    if (lists) {
        n = call;
        goto done;
    }
    type = call->schema;
    TRY_NEW(other, node_null(b->e, type, err));
    TRY_NEW(n, node_new(b->e, NODE_CASE, 3, type, err));
    TRY_NEW(n->children[0], simplify_chain(b, NODE_AND, tests, a->n, err));
    n->children[1] = call;
    n->children[2] = other;
    n->constant = n->children[0]->constant && call->constant;
    n->op = NODE_CASE_CONCAT;
    TRY_NEW(n, simplify_constant(b, n, err));
done:
    mem_free(b->e->mem, args);
    mem_free(b->e->mem, tests);
    return st == PENNON_OK ? placed(n, a) : NULL;
}

/* ---- CASE, CAST ---- */

/* The values of a CASE in one type. nodes: condition, value, …, else. */
static pennon_status unify_values(struct binder *b, const struct ast *a, struct node **nodes, size_t n,
                                  const struct ArrowSchema **type, pennon_error *err)
{
    const struct ArrowSchema *common = nodes[n - 1]->schema;
    for (size_t i = 1; i < n; i += 2) {
        const struct ArrowSchema *next;
        TRY_RETURN(common_type(b->e, common, nodes[i]->schema, &next, err));
        if (!next) return bind_no_type(b, a, "CASE has no common type for", nodes[i], nodes[n - 1], err);
        common = next;
    }
    for (size_t i = 1; i < n; i += i + 1 < n - 1 ? 2 : 1) {
        nodes[i] = node_cast(b->e, nodes[i], common, false, err);
        if (!nodes[i]) return err->code;
    }
    *type = common;
    return PENNON_OK;
}

static struct node *bind_case(struct binder *b, const struct ast *a, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    bool operand = (a->flags & AST_OPERAND) != 0, has_else = (a->flags & AST_ELSE) != 0;
    size_t branches = ((size_t)a->n - operand - has_else) / 2, n = 2 * branches + 1;
    const struct ArrowSchema *type;
    struct node *value = NULL, *out = NULL;
    struct node **nodes = mem_calloc(b->e->mem, n, sizeof *nodes, err);
    if (!nodes) return NULL;
    if (operand) TRY_NEW(value, bind_tree(b, a->children[0], false, err));
    for (size_t i = 0; i < branches; i++) {
        const struct ast *when = a->children[operand + 2 * i];
        TRY_NEW(nodes[2 * i], bind_tree(b, when, false, err));
        TRY_NEW(nodes[2 * i],
                operand ? bind_compare(b, when, AST_EQ, value, nodes[2 * i], err) : bind_boolean(b, when, nodes[2 * i], err));
        TRY_NEW(nodes[2 * i + 1], bind_tree(b, a->children[operand + 2 * i + 1], false, err));
    }
    TRY(expr_simple_type(b->e, "n", &type, err));
    TRY_NEW(nodes[n - 1], has_else ? bind_tree(b, a->children[a->n - 1], false, err) : node_null(b->e, type, err));
    TRY(unify_values(b, a, nodes, n, &type, err));
    TRY_NEW(out, node_new(b->e, NODE_CASE, n, type, err));
    memcpy(out->children, nodes, n * sizeof *nodes);
    out->constant = true;
    for (size_t i = 0; i < n; i++) out->constant = out->constant && nodes[i]->constant;
    TRY_NEW(out, simplify_constant(b, out, err));
done:
    mem_free(b->e->mem, nodes);
    return st == PENNON_OK ? placed(out, a) : NULL;
}

static pennon_status sql_type(struct binder *b, const struct ast_type *t, const struct ArrowSchema **out, pennon_error *err)
{
    static const char *const formats[] = {
        [AST_TYPE_BOOLEAN] = "b", [AST_TYPE_INT8] = "c",    [AST_TYPE_INT16] = "s",   [AST_TYPE_INT32] = "i",
        [AST_TYPE_INT64] = "l",   [AST_TYPE_UINT8] = "C",   [AST_TYPE_UINT16] = "S",  [AST_TYPE_UINT32] = "I",
        [AST_TYPE_UINT64] = "L",  [AST_TYPE_FLOAT32] = "f", [AST_TYPE_FLOAT64] = "g", [AST_TYPE_UTF8] = "u",
        [AST_TYPE_BINARY] = "z",  [AST_TYPE_DATE32] = "tdD"};
    pennon_status st = PENNON_OK;
    struct buf format;
    buf_init(&format, b->e->mem, BUF_NO_LIMIT);
    if (t->id == AST_TYPE_TIMESTAMP) {
        TRY(buf_printf(&format, err, "ts%c:", t->unit == 0 ? 's' : t->unit == 3 ? 'm' : t->unit == 6 ? 'u' : 'n'));
    } else if (t->id == AST_TYPE_DECIMAL) {
        TRY(buf_printf(&format, err, "d:%d,%d", t->precision, t->scale));
    } else {
        TRY(buf_printf(&format, err, "%s", formats[t->id]));
    }
    TRY(buf_terminate(&format, err));
    TRY(expr_simple_type(b->e, (const char *)format.data, out, err));
done:
    buf_free(&format);
    return st;
}

/* jsonb '{"a": 1}': the bytes in which JSON columns are stored. */
static struct node *bind_jsonb(struct binder *b, const struct ast *a, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct ArrowSchema *type;
    struct ArrowArray value = {.release = NULL};
    struct builder *rows = NULL;
    struct node *n = NULL;
    struct buf bytes;
    buf_init(&bytes, b->e->mem, BUF_NO_LIMIT);
    if (a->children[0]->kind != AST_TEXT) {
        st = bind_error(b, a, "TypeMismatch", err, "only texts in quotes can be made jsonb");
        goto done;
    }
    st = jsonb_from_text(a->children[0]->text, b->e->mem, &bytes, err);
    if (st == PENNON_INVALID_ARGUMENT) (void)bind_place(b, a, err);
    if (st != PENNON_OK) goto done;
    TRY(expr_simple_type(b->e, "Z", &type, err));
    TRY_NEW(rows, builder_new(type, b->e->mem, err));
    TRY(builder_append_bytes(rows, bytes_of(bytes.data, bytes.size), err));
    TRY(builder_finish(rows, &value, err));
    TRY_NEW(n, node_literal(b->e, type, &value, err));
done:
    builder_free(rows);
    buf_free(&bytes);
    return n;
}

static struct node *bind_cast(struct binder *b, const struct ast *a, pennon_error *err)
{
    const struct ArrowSchema *type;
    struct node *value, *n;
    bool try_cast = (a->flags & AST_TRY) != 0;
    if (a->type.id == AST_TYPE_JSONB) return bind_jsonb(b, a, err);
    value = bind_tree(b, a->children[0], false, err);
    if (!value || sql_type(b, &a->type, &type, err) != PENNON_OK) return NULL;
    if (!cast_possible(value->schema, type)) {
        (void)bind_no_type(b, a, "there is no cast of", value, NULL, err);
        return NULL;
    }
    n = node_cast(b->e, value, type, try_cast, err);
    if (!n && err->code == PENNON_INVALID_ARGUMENT) (void)bind_place(b, a, err);
    return n ? placed(simplify_constant(b, n, err), a) : NULL;
}

/* ---- calls ---- */

static pennon_status lower_name(struct binder *b, struct bytes name, struct bytes *out, pennon_error *err)
{
    uint8_t *text = arena_alloc(&b->e->arena, name.size + 1, err);
    if (!text) return err->code;
    for (size_t i = 0; i < name.size; i++) {
        uint8_t c = name.data[i];
        text[i] = c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
    }
    text[name.size] = '\0';
    *out = bytes_of(text, name.size);
    return PENNON_OK;
}

static pennon_status unknown_function(struct binder *b, const struct ast *a, struct bytes name, pennon_error *err)
{
    const char *const *names = expr_function_names();
    static const char *const aggregates[] = {"sum", "avg", "mean", "min", "max", "count"};
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(aggregates); i++) {
        if (strcmp((const char *)name.data, aggregates[i]) == 0)
            return bind_error(b, a, "FunctionNotFound", err, "no function named '%s': aggregates are not supported here",
                              aggregates[i]);
    }
    while (names[n]) n++;
    const char *near = nearest_name((const char *)name.data, names, n);
    return bind_error(b, a, "FunctionNotFound", err, "no function named '%.256s'%s%s%s", (const char *)name.data,
                      near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* What the function wants its arguments to be, and its result. */
static pennon_status bind_signature(struct binder *b, const struct ast *a, struct bind_call *call, struct node **args,
                                    pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct array_view **constants = mem_calloc(b->e->mem, call->n + 1, sizeof(const struct array_view *), err);
    call->types = mem_calloc(b->e->mem, call->n + 1, sizeof(const struct ArrowSchema *), err);
    if (!constants || !call->types) {
        st = err->code;
        goto done;
    }
    for (size_t i = 0; i < call->n; i++) {
        call->types[i] = args[i]->schema;
        constants[i] = args[i]->kind == NODE_LITERAL ? &args[i]->literal_view : NULL;
    }
    call->constants = constants;
    st = call->fn->bind(call, err);
    if (st == PENNON_INVALID_ARGUMENT || st == PENNON_NOT_SUPPORTED) (void)bind_place(b, a, err);
    for (size_t i = 0; st == PENNON_OK && i < call->n; i++) {
        args[i] = node_cast(b->e, args[i], call->types[i], false, err);
        if (!args[i]) st = err->code;
    }
done:
    mem_free(b->e->mem, constants);
    mem_free(b->e->mem, (void *)call->types);
    return st;
}

struct node *bind_call(struct binder *b, const struct ast *a, struct bytes name, struct node **args, size_t n, pennon_error *err)
{
    struct bytes lower;
    struct node *out;
    if (lower_name(b, name, &lower, err) != PENNON_OK) return NULL;
    const struct function *fn = function_find(lower);
    if (!fn) {
        (void)unknown_function(b, a, lower, err);
        return NULL;
    }
    if (n < fn->min_args || (fn->max_args != UINT8_MAX && n > fn->max_args)) {
        (void)bind_error(b, a, "TypeMismatch", err, "%s takes %u%s%u arguments, not %zu", fn->name, fn->min_args,
                         fn->max_args == UINT8_MAX      ? " to "
                         : fn->max_args == fn->min_args ? ", at most "
                                                        : " to ",
                         fn->max_args, n);
        return NULL;
    }
    struct bind_call call = {.e = b->e, .fn = fn, .n = n};
    pennon_status st = bind_signature(b, a, &call, args, err);
    out = st == PENNON_OK ? node_new(b->e, NODE_CALL, n, call.result, err) : NULL;
    if (!out || (call.state && expr_own(b->e, out, err) != PENNON_OK)) {
        if (call.state && fn->free_state) fn->free_state(call.state, b->e->mem);
        return NULL;
    }
    out->fn = fn;
    out->state = call.state;
    out->constant = (fn->flags & FUNCTION_VOLATILE) == 0;
    for (size_t i = 0; i < n; i++) {
        out->children[i] = args[i];
        out->constant = out->constant && args[i]->constant;
    }
    return simplify_constant(b, placed(out, a), err);
}

/* starts_with(s, 'a_b') is s LIKE 'a\_b%'. */
static struct node *prefix_like(struct binder *b, struct node *call, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct node *n = NULL, *text = call->children[0], *prefix = call->children[1], *pattern;
    struct ArrowArray value = {.release = NULL};
    struct builder *rows = NULL;
    struct buf like;
    buf_init(&like, b->e->mem, BUF_NO_LIMIT);
    struct bytes given = array_view_bytes(&prefix->literal_view, 0);
    for (size_t i = 0; i < given.size; i++) {
        uint8_t c = given.data[i];
        if (c == '%' || c == '_' || c == '\\') TRY(buf_append_byte(&like, '\\', err));
        TRY(buf_append_byte(&like, c, err));
    }
    TRY(buf_append_byte(&like, '%', err));
    TRY_NEW(rows, builder_new(prefix->schema, b->e->mem, err));
    TRY(builder_append_bytes(rows, bytes_of(like.data, like.size), err));
    TRY(builder_finish(rows, &value, err));
    TRY_NEW(pattern, node_literal(b->e, prefix->schema, &value, err));
    TRY_NEW(n, truth_node(b, NODE_LIKE, text, pattern, err));
    TRY(node_like_pattern(b->e, n, bytes_of(like.data, like.size), err));
done:
    builder_free(rows);
    buf_free(&like);
    return st == PENNON_OK ? n : NULL;
}

static bool is_prefix_call(const struct node *n)
{
    if (n->kind != NODE_CALL || strcmp(n->fn->name, "starts_with") != 0 || n->n != 2) return false;
    return n->children[1]->kind == NODE_LITERAL && !is_null_literal(n->children[1]) &&
           n->children[0]->schema == n->children[1]->schema && arrow_id_is_text(n->children[1]->type.id);
}

static struct node *bind_call_tree(struct binder *b, const struct ast *a, pennon_error *err)
{
    struct node **args, *n;
    bool literal_field = a->n == 2 && a->children[1]->kind == AST_TEXT && bytes_equal(a->text, bytes_str("get_field"));
    if (a->n == 1 && bytes_equal(a->text, bytes_str("is_valid"))) {
        n = bind_tree(b, a->children[0], false, err);
        return n ? is_node(b, AST_IS_NULL, true, n, err) : NULL;
    }
    if (literal_field) {
        n = bind_tree(b, a->children[0], false, err);
        return n ? bind_field(b, a, n, a->children[1]->text, err) : NULL;
    }
    if (bind_children(b, a, &args, err) != PENNON_OK) return NULL;
    n = bind_call(b, a, a->text, args, a->n, err);
    mem_free(b->e->mem, args);
    return n && is_prefix_call(n) ? prefix_like(b, n, err) : n;
}

/* x[i], x['name'] */
static struct node *bind_index(struct binder *b, const struct ast *a, pennon_error *err)
{
    struct node *args[2];
    args[0] = bind_tree(b, a->children[0], false, err);
    if (!args[0]) return NULL;
    if (a->children[1]->kind == AST_TEXT) return bind_field(b, a, args[0], a->children[1]->text, err);
    args[1] = bind_tree(b, a->children[1], false, err);
    return args[1] ? bind_call(b, a, bytes_str("array_element"), args, 2, err) : NULL;
}

static struct node *bind_field_tree(struct binder *b, const struct ast *a, pennon_error *err)
{
    struct node *from = bind_tree(b, a->children[0], false, err);
    return from ? bind_field(b, a, from, a->text, err) : NULL;
}

static struct node *bind_not(struct binder *b, const struct ast *a, pennon_error *err)
{
    struct node *n = bind_truth_of(b, a->children[0], false, err);
    return n ? simplify_not(b, n, err) : NULL;
}

struct node *bind_tree(struct binder *b, const struct ast *a, bool strict, pennon_error *err)
{
    switch ((enum ast_kind)a->kind) {
    case AST_NULL:
    case AST_BOOL:
    case AST_INTEGER:
    case AST_FLOAT:
    case AST_TEXT:
    case AST_BINARY:
    case AST_ARRAY: return bind_literal(b, a, err);
    case AST_COLUMN: return placed(bind_column(b, a, err), a);
    case AST_INDEX: return bind_index(b, a, err);
    case AST_FIELD: return bind_field_tree(b, a, err);
    case AST_NEGATE: return bind_negate(b, a, err);
    case AST_NOT: return bind_not(b, a, err);
    case AST_ARITH: return bind_arithmetic_tree(b, a, strict, err);
    case AST_CONCAT: return bind_concat(b, a, err);
    case AST_COMPARE: return bind_comparison(b, a, strict, err);
    case AST_DISTINCT: return bind_distinct(b, a, err);
    case AST_AND:
    case AST_OR: return bind_chain(b, a, strict, err);
    case AST_IS: return bind_is(b, a, err);
    case AST_IN: return bind_in(b, a, strict, err);
    case AST_BETWEEN: return bind_between(b, a, strict, err);
    case AST_LIKE: return bind_like(b, a, err);
    case AST_CASE: return bind_case(b, a, err);
    case AST_CAST: return bind_cast(b, a, err);
    case AST_CALL: return bind_call_tree(b, a, err);
    }
    (void)error_set(err, PENNON_INTERNAL, "syntax node of kind %u", a->kind);
    return NULL;
}
