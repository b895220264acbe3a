/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Typed trees as plans show them: "i64 > Int64(1) AND s IN ([Utf8("a"), Utf8("b")])".
 *
 * Parentheses stand where an operand binds less than the operator around it, and nowhere else; operators written as words (IS, LIKE, IN) have none.
 * Source: spec expressions 8, 13. */
#include "expr/bind.h"

static pennon_status print(const struct expr *e, const struct node *n, struct buf *out, pennon_error *err);

static int strength(const struct node *n)
{
    switch ((enum node_kind)n->kind) {
    case NODE_OR: return 5;
    case NODE_AND: return 10;
    case NODE_COMPARE:
    case NODE_DISTINCT: return 20;
    case NODE_ARITH: return n->op == AST_ADD || n->op == AST_SUBTRACT ? 30 : 40;
    default: return 100;
    }
}

static pennon_status print_operand(const struct expr *e, const struct node *n, int around, struct buf *out, pennon_error *err)
{
    bool parens = strength(n) < around;
    if (parens) TRY_RETURN(buf_append_byte(out, '(', err));
    TRY_RETURN(print(e, n, out, err));
    return parens ? buf_append_byte(out, ')', err) : PENNON_OK;
}

static pennon_status print_joined(const struct expr *e, const struct node *n, const char *between, struct buf *out,
                                  pennon_error *err)
{
    for (uint32_t i = 0; i < n->n; i++) {
        if (i > 0) TRY_RETURN(buf_printf(out, err, "%s", between));
        TRY_RETURN(print_operand(e, n->children[i], strength(n), out, err));
    }
    return PENNON_OK;
}

/* Children [from, n) with commas. */
static pennon_status print_list(const struct expr *e, const struct node *n, uint32_t from, struct buf *out, pennon_error *err)
{
    for (uint32_t i = from; i < n->n; i++) {
        if (i > from) TRY_RETURN(buf_printf(out, err, ", "));
        TRY_RETURN(print(e, n->children[i], out, err));
    }
    return PENNON_OK;
}

/* A part of a path, quotes undone; *at moves behind it and its dot. */
static pennon_status print_part(const char **at, struct buf *out, pennon_error *err)
{
    const char *p = *at;
    bool quoted = *p == '`';
    for (p += quoted; *p != '\0' && (quoted || *p != '.'); p++) {
        if (quoted && *p == '`' && *++p != '`') break;
        TRY_RETURN(buf_append_byte(out, (uint8_t)*p, err));
    }
    *at = *p == '.' ? p + 1 : p;
    return PENNON_OK;
}

static size_t count_parts(const char *path)
{
    bool quoted = false;
    size_t n = 1;
    for (const char *p = path; *p != '\0'; p++) {
        if (*p == '`') quoted = !quoted;
        n += *p == '.' && !quoted;
    }
    return n;
}

/* a.b.c is get_field(a, Utf8("b"), Utf8("c")). */
static pennon_status print_column(const struct expr *e, const struct node *n, struct buf *out, pennon_error *err)
{
    const char *at = e->columns[n->column].path;
    size_t parts = count_parts(at);
    if (parts > 1) TRY_RETURN(buf_printf(out, err, "get_field("));
    TRY_RETURN(print_part(&at, out, err));
    for (size_t i = 1; i < parts; i++) {
        TRY_RETURN(buf_printf(out, err, ", Utf8(\""));
        TRY_RETURN(print_part(&at, out, err));
        TRY_RETURN(buf_printf(out, err, "\")"));
    }
    return parts > 1 ? buf_append_byte(out, ')', err) : PENNON_OK;
}

static pennon_status print_in(const struct expr *e, const struct node *n, struct buf *out, pennon_error *err)
{
    TRY_RETURN(print(e, n->children[0], out, err));
    TRY_RETURN(buf_printf(out, err, n->negated ? " NOT IN ([" : " IN (["));
    if (n->set) {
        const struct array_view *items = in_set_items(n->set);
        for (int64_t i = 0; i < items->length; i++) {
            if (i > 0) TRY_RETURN(buf_printf(out, err, ", "));
            TRY_RETURN(value_print(items, i, out, err));
        }
    } else {
        TRY_RETURN(print_list(e, n, 1, out, err));
    }
    return buf_printf(out, err, "])");
}

/* a || b, which is a CASE around a call. */
static pennon_status print_concat(const struct expr *e, const struct node *call, struct buf *out, pennon_error *err)
{
    for (uint32_t i = 0; i < call->n; i++) {
        if (i > 0) TRY_RETURN(buf_printf(out, err, " || "));
        TRY_RETURN(print_operand(e, call->children[i], 40, out, err));
    }
    return PENNON_OK;
}

static pennon_status print_case(const struct expr *e, const struct node *n, struct buf *out, pennon_error *err)
{
    if (n->op == NODE_CASE_CONCAT) return print_concat(e, n->children[1], out, err);
    TRY_RETURN(buf_printf(out, err, "CASE"));
    for (uint32_t i = 0; i + 1 < n->n; i += 2) {
        TRY_RETURN(buf_printf(out, err, " WHEN "));
        TRY_RETURN(print(e, n->children[i], out, err));
        TRY_RETURN(buf_printf(out, err, " THEN "));
        TRY_RETURN(print(e, n->children[i + 1], out, err));
    }
    TRY_RETURN(buf_printf(out, err, " ELSE "));
    TRY_RETURN(print(e, n->children[n->n - 1], out, err));
    return buf_printf(out, err, " END");
}

static pennon_status print_cast(const struct expr *e, const struct node *n, struct buf *out, pennon_error *err)
{
    TRY_RETURN(buf_printf(out, err, n->try_cast ? "TRY_CAST(" : "CAST("));
    TRY_RETURN(print(e, n->children[0], out, err));
    TRY_RETURN(buf_printf(out, err, " AS "));
    TRY_RETURN(type_print(n->schema, out, err));
    return buf_append_byte(out, ')', err);
}

static pennon_status print_call(const struct expr *e, const struct node *n, struct buf *out, pennon_error *err)
{
    TRY_RETURN(buf_printf(out, err, "%s(", n->fn->name));
    TRY_RETURN(print_list(e, n, 0, out, err));
    return buf_append_byte(out, ')', err);
}

static pennon_status print_is(const struct expr *e, const struct node *n, struct buf *out, pennon_error *err)
{
    static const char *const states[] = {"NULL", "TRUE", "FALSE", "UNKNOWN"};
    TRY_RETURN(print(e, n->children[0], out, err));
    return buf_printf(out, err, " IS %s%s", n->negated ? "NOT " : "", states[n->op]);
}

static pennon_status print_like(const struct expr *e, const struct node *n, struct buf *out, pennon_error *err)
{
    TRY_RETURN(print(e, n->children[0], out, err));
    TRY_RETURN(buf_printf(out, err, " %s%s ", n->negated ? "NOT " : "", n->fold ? "ILIKE" : "LIKE"));
    return print(e, n->children[1], out, err);
}

static pennon_status print(const struct expr *e, const struct node *n, struct buf *out, pennon_error *err)
{
    static const char *const compares[] = {" = ", " != ", " < ", " <= ", " > ", " >= "};
    static const char *const ariths[] = {" + ", " - ", " * ", " / ", " % "};
    switch ((enum node_kind)n->kind) {
    case NODE_LITERAL: return literal_print(n, out, err);
    case NODE_COLUMN: return print_column(e, n, out, err);
    case NODE_FIELD:
        TRY_RETURN(buf_printf(out, err, "get_field("));
        TRY_RETURN(print(e, n->children[0], out, err));
        return buf_printf(out, err, ", Utf8(\"%s\"))", n->children[0]->schema->children[n->field]->name);
    case NODE_AND: return print_joined(e, n, " AND ", out, err);
    case NODE_OR: return print_joined(e, n, " OR ", out, err);
    case NODE_NOT: TRY_RETURN(buf_printf(out, err, "NOT ")); return print(e, n->children[0], out, err);
    case NODE_COMPARE: return print_joined(e, n, compares[n->op], out, err);
    case NODE_DISTINCT: return print_joined(e, n, n->negated ? " IS NOT DISTINCT FROM " : " IS DISTINCT FROM ", out, err);
    case NODE_IS: return print_is(e, n, out, err);
    case NODE_IN: return print_in(e, n, out, err);
    case NODE_LIKE: return print_like(e, n, out, err);
    case NODE_CASE: return print_case(e, n, out, err);
    case NODE_CAST: return print_cast(e, n, out, err);
    case NODE_NEGATE:
        TRY_RETURN(buf_printf(out, err, "(- "));
        TRY_RETURN(print(e, n->children[0], out, err));
        return buf_append_byte(out, ')', err);
    case NODE_ARITH: return print_joined(e, n, ariths[n->op], out, err);
    case NODE_CALL: return print_call(e, n, out, err);
    }
    return error_set(err, PENNON_INTERNAL, "node of kind %u", n->kind);
}

pennon_status expr_print(const struct expr *e, struct buf *out, pennon_error *err) { return print(e, e->root, out, err); }
