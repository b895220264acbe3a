/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A syntax tree as SQL that parses to the same tree: every operand that is not a word, a literal or a call stands in parentheses.
 * Source: spec expressions 2-6. */
#include "expr/ast.h"

static pennon_status print_node(const struct ast *a, struct buf *out, pennon_error *err);

static pennon_status put(struct buf *out, const char *text, pennon_error *err) { return buf_append(out, text, strlen(text), err); }

static pennon_status put_quoted(struct buf *out, char quote, struct bytes text, pennon_error *err)
{
    TRY_RETURN(buf_append_byte(out, (uint8_t)quote, err));
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == (uint8_t)quote) TRY_RETURN(buf_append_byte(out, (uint8_t)quote, err));
        TRY_RETURN(buf_append_byte(out, text.data[i], err));
    }
    return buf_append_byte(out, (uint8_t)quote, err);
}

/* Not followed by an operator that would bind into it, whatever stands around. */
static bool is_closed(const struct ast *a)
{
    switch ((enum ast_kind)a->kind) {
    case AST_NULL:
    case AST_BOOL:
    case AST_TEXT:
    case AST_BINARY:
    case AST_ARRAY:
    case AST_COLUMN:
    case AST_CASE:
    case AST_CALL: return true;
    case AST_INTEGER: return a->integer >= 0;
    case AST_CAST: return !(a->flags & AST_TYPED);
    default: return false;
    }
}

static pennon_status print_operand(const struct ast *a, struct buf *out, pennon_error *err)
{
    if (is_closed(a)) return print_node(a, out, err);
    TRY_RETURN(buf_append_byte(out, '(', err));
    TRY_RETURN(print_node(a, out, err));
    return buf_append_byte(out, ')', err);
}

/* Operands [from, n) with `between` in between. */
static pennon_status print_joined(const struct ast *a, size_t from, const char *between, struct buf *out, pennon_error *err)
{
    for (size_t i = from; i < a->n; i++) {
        if (i > from) TRY_RETURN(put(out, between, err));
        TRY_RETURN(print_operand(a->children[i], out, err));
    }
    return PENNON_OK;
}

static pennon_status print_real(double v, struct buf *out, pennon_error *err)
{
    char text[REAL_TEXT_MAX];
    if (v - v != 0) return put(out, v > 0 ? "1e999" : "-1e999", err);
    size_t n = real_print(v, 17, true, text);
    return buf_append(out, text, n, err);
}

static pennon_status print_bytes(const struct ast *a, struct buf *out, pennon_error *err)
{
    if (a->flags & AST_INVALID) return put(out, "x'zz'", err);
    TRY_RETURN(put(out, "x'", err));
    for (size_t i = 0; i < a->text.size; i++) TRY_RETURN(buf_printf(out, err, "%02x", a->text.data[i]));
    return buf_append_byte(out, '\'', err);
}

static pennon_status print_column(const struct ast *a, struct buf *out, pennon_error *err)
{
    for (uint32_t i = 0; i < a->n; i++) {
        if (i > 0) TRY_RETURN(buf_append_byte(out, '.', err));
        if (!a->parts[i].quoted) {
            TRY_RETURN(buf_append(out, a->parts[i].name.data, a->parts[i].name.size, err));
        } else if (i > 0) {
            out->size--; /* a part in brackets may be empty, one in back ticks not */
            TRY_RETURN(buf_append_byte(out, '[', err));
            TRY_RETURN(put_quoted(out, '\'', a->parts[i].name, err));
            TRY_RETURN(buf_append_byte(out, ']', err));
        } else {
            TRY_RETURN(put_quoted(out, '`', a->parts[i].name, err));
        }
    }
    return PENNON_OK;
}

static pennon_status print_type(const struct ast_type *t, struct buf *out, pennon_error *err)
{
    static const char *const names[] = {
        "boolean",      "tinyint",         "smallint", "int",    "bigint", "tinyint unsigned", "smallint unsigned",
        "int unsigned", "bigint unsigned", "float",    "double", "string", "binary",           "date",
        "timestamp",    "decimal",         "jsonb"};
    TRY_RETURN(put(out, names[t->id], err));
    if (t->id == AST_TYPE_TIMESTAMP) return buf_printf(out, err, "(%d)", t->unit);
    if (t->id == AST_TYPE_DECIMAL) return buf_printf(out, err, "(%d, %d)", t->precision, t->scale);
    return PENNON_OK;
}

static pennon_status print_cast(const struct ast *a, struct buf *out, pennon_error *err)
{
    if (a->flags & AST_TYPED) {
        TRY_RETURN(print_type(&a->type, out, err));
        TRY_RETURN(buf_append_byte(out, ' ', err));
        return print_node(a->children[0], out, err);
    }
    TRY_RETURN(put(out, a->flags & AST_TRY ? "TRY_CAST(" : "CAST(", err));
    TRY_RETURN(print_operand(a->children[0], out, err));
    TRY_RETURN(put(out, " AS ", err));
    TRY_RETURN(print_type(&a->type, out, err));
    return buf_append_byte(out, ')', err);
}

static pennon_status print_is(const struct ast *a, struct buf *out, pennon_error *err)
{
    static const char *const states[] = {"NULL", "TRUE", "FALSE", "UNKNOWN"};
    TRY_RETURN(print_operand(a->children[0], out, err));
    return buf_printf(out, err, " IS %s%s", a->flags & AST_NEGATED ? "NOT " : "", states[a->op]);
}

/* value [NOT] WORD rest */
static pennon_status print_predicate(const struct ast *a, const char *word, struct buf *out, pennon_error *err)
{
    TRY_RETURN(print_operand(a->children[0], out, err));
    return buf_printf(out, err, "%s %s ", a->flags & AST_NEGATED ? " NOT" : "", word);
}

static pennon_status print_case(const struct ast *a, struct buf *out, pennon_error *err)
{
    size_t i = 0, last = a->flags & AST_ELSE ? a->n - 1 : a->n;
    TRY_RETURN(put(out, "CASE", err));
    if (a->flags & AST_OPERAND) {
        TRY_RETURN(buf_append_byte(out, ' ', err));
        TRY_RETURN(print_operand(a->children[i++], out, err));
    }
    for (; i < last; i += 2) {
        TRY_RETURN(put(out, " WHEN ", err));
        TRY_RETURN(print_operand(a->children[i], out, err));
        TRY_RETURN(put(out, " THEN ", err));
        TRY_RETURN(print_operand(a->children[i + 1], out, err));
    }
    if (i < a->n) {
        TRY_RETURN(put(out, " ELSE ", err));
        TRY_RETURN(print_operand(a->children[i], out, err));
    }
    return put(out, " END", err);
}

/* Calls of names that have forms of their own are written with commas. */
static pennon_status print_call(const struct ast *a, struct buf *out, pennon_error *err)
{
    TRY_RETURN(buf_append(out, a->text.data, a->text.size, err));
    TRY_RETURN(buf_append_byte(out, '(', err));
    TRY_RETURN(print_joined(a, 0, ", ", out, err));
    return buf_append_byte(out, ')', err);
}

static pennon_status print_indexed(const struct ast *a, struct buf *out, pennon_error *err)
{
    TRY_RETURN(buf_append_byte(out, '(', err)); /* a name without parentheses would become a path */
    TRY_RETURN(print_node(a->children[0], out, err));
    if (a->kind == AST_FIELD) {
        TRY_RETURN(put(out, ").", err));
        return put_quoted(out, '`', a->text, err);
    }
    TRY_RETURN(put(out, ")[", err));
    TRY_RETURN(print_operand(a->children[1], out, err));
    return buf_append_byte(out, ']', err);
}

static pennon_status print_prefix(const struct ast *a, const char *prefix, struct buf *out, pennon_error *err)
{
    TRY_RETURN(put(out, prefix, err));
    return print_operand(a->children[0], out, err);
}

static pennon_status print_predicates(const struct ast *a, struct buf *out, pennon_error *err)
{
    switch ((enum ast_kind)a->kind) {
    case AST_IN:
        TRY_RETURN(print_predicate(a, "IN", out, err));
        TRY_RETURN(buf_append_byte(out, '(', err));
        TRY_RETURN(print_joined(a, 1, ", ", out, err));
        return buf_append_byte(out, ')', err);
    case AST_BETWEEN: TRY_RETURN(print_predicate(a, "BETWEEN", out, err)); return print_joined(a, 1, " AND ", out, err);
    default:
        ASSERT(a->kind == AST_LIKE);
        TRY_RETURN(print_predicate(a, a->flags & AST_FOLD ? "ILIKE" : "LIKE", out, err));
        return print_operand(a->children[1], out, err);
    }
}

static pennon_status print_literal(const struct ast *a, struct buf *out, pennon_error *err)
{
    switch ((enum ast_kind)a->kind) {
    case AST_NULL: return put(out, "NULL", err);
    case AST_BOOL: return put(out, a->integer ? "true" : "false", err);
    case AST_INTEGER: return buf_printf(out, err, "%" PRId64, a->integer);
    case AST_FLOAT: return print_real(a->real, out, err);
    case AST_TEXT: return put_quoted(out, '\'', a->text, err);
    case AST_BINARY: return print_bytes(a, out, err);
    case AST_COLUMN: return print_column(a, out, err);
    default:
        ASSERT(a->kind == AST_ARRAY);
        TRY_RETURN(buf_append_byte(out, '[', err));
        TRY_RETURN(print_joined(a, 0, ", ", out, err));
        return buf_append_byte(out, ']', err);
    }
}

static pennon_status print_node(const struct ast *a, struct buf *out, pennon_error *err)
{
    static const char *const compares[] = {" = ", " <> ", " < ", " <= ", " > ", " >= "};
    static const char *const ariths[] = {" + ", " - ", " * ", " / ", " % "};
    switch ((enum ast_kind)a->kind) {
    case AST_INDEX:
    case AST_FIELD: return print_indexed(a, out, err);
    case AST_NEGATE: return print_prefix(a, "- ", out, err);
    case AST_NOT: return print_prefix(a, "NOT ", out, err);
    case AST_ARITH: return print_joined(a, 0, ariths[a->op], out, err);
    case AST_CONCAT: return print_joined(a, 0, " || ", out, err);
    case AST_COMPARE: return print_joined(a, 0, compares[a->op], out, err);
    case AST_DISTINCT:
        return print_joined(a, 0, a->flags & AST_NEGATED ? " IS NOT DISTINCT FROM " : " IS DISTINCT FROM ", out, err);
    case AST_AND: return print_joined(a, 0, " AND ", out, err);
    case AST_OR: return print_joined(a, 0, " OR ", out, err);
    case AST_IS: return print_is(a, out, err);
    case AST_IN:
    case AST_BETWEEN:
    case AST_LIKE: return print_predicates(a, out, err);
    case AST_CASE: return print_case(a, out, err);
    case AST_CAST: return print_cast(a, out, err);
    case AST_CALL: return print_call(a, out, err);
    default: return print_literal(a, out, err);
    }
}

pennon_status ast_print(const struct ast *tree, struct buf *out, pennon_error *err) { return print_node(tree, out, err); }
