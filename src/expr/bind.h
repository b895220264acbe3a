/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Inside the binder: syntax trees to typed trees. */
#ifndef EXPR_BIND_H
#define EXPR_BIND_H

#include "expr/node.h"

/* op of a NODE_CASE that a || b was made of, for plans. */
enum { NODE_CASE_CONCAT = 1 };

struct binder {
    struct expr *e;
    const struct ArrowSchema *input;
    struct bytes text; /* of the expression, for messages */
};

/* "at character 12, near 'x'" in front of the message; the kind stays. Returns the error's code. */
pennon_status bind_place(const struct binder *b, const struct ast *a, pennon_error *err);
pennon_status bind_error(const struct binder *b, const struct ast *a, const char *kind, pennon_error *err, const char *fmt, ...)
    PRINTF_LIKE(5, 6);

/* ---- bind.c ---- */

/* The typed tree of a syntax tree; NULL with err. `strict`: literals beside columns follow the rules of literals (spec 3.2), which hold for terms
 * of the top ANDs and ORs only. Recurses as deep as the syntax tree. */
struct node *bind_tree(struct binder *b, const struct ast *a, bool strict, pennon_error *err) CHECKED;
/* A boolean node, or NULL with err: TypeMismatch for anything else; null becomes a null boolean. */
struct node *bind_boolean(struct binder *b, const struct ast *a, struct node *n, pennon_error *err) CHECKED;
struct node *bind_literal(struct binder *b, const struct ast *a, pennon_error *err) CHECKED;
/* A true or false. */
struct node *bind_truth(struct binder *b, bool value, pennon_error *err) CHECKED;
/* Both sides brought to one type and compared; literals and casts of literals are put right. */
struct node *bind_compare(struct binder *b, const struct ast *a, enum ast_compare op, struct node *left, struct node *right,
                          pennon_error *err) CHECKED;
/* A cast between types of timestamps. */
bool bind_is_stamp_cast(const struct node *n);
/* A literal beside such a cast, in the unit and zone of the column below it, so that the column need not be cast: its instant is kept, what is finer than the
 * unit is cut off. *out NULL: it does not fit. */
pennon_status bind_stamp_literal(struct binder *b, const struct node *literal, const struct node *column, struct node **out,
                                 pennon_error *err) CHECKED;
/* INVALID_ARGUMENT: there is no type for both. */
pennon_status bind_no_type(struct binder *b, const struct ast *a, const char *what, const struct node *left,
                           const struct node *right, pennon_error *err);
/* The call of a function by its name, which need not be in lower case. */
struct node *bind_call(struct binder *b, const struct ast *a, struct bytes name, struct node **args, size_t n,
                       pennon_error *err) CHECKED;

/* ---- compile.c ---- */

/* Give the binder's expression its root, a boolean where `filter`, and the columns that it reads. Trees that come from no SQL are not strict. */
pennon_status expr_bind(struct binder *b, const struct ast *tree, bool filter, bool strict, pennon_error *err) CHECKED;

/* ---- bind_names.c ---- */

struct node *bind_column(struct binder *b, const struct ast *a, pennon_error *err) CHECKED;
/* Column by its path of exact names ("a.b" of two parts); for a whole text that is a column's name. *out NULL: there is none. */
pennon_status bind_whole_name(struct binder *b, struct bytes name, struct node **out, pennon_error *err) CHECKED;
/* Field of a struct value, or a path that is one part longer. */
struct node *bind_field(struct binder *b, const struct ast *a, struct node *from, struct bytes name, pennon_error *err) CHECKED;

/* ---- bind_in.c ---- */

struct node *bind_in(struct binder *b, const struct ast *a, bool strict, pennon_error *err) CHECKED;
/* ---- bind_literal.c ---- */

/* A literal that stands beside a column of this type. INVALID_ARGUMENT where official refuses it. */
struct node *bind_coerce_literal(struct binder *b, const struct ast *a, struct node *literal, const struct ArrowSchema *type,
                                 pennon_error *err) CHECKED;
/* Is this a literal for those rules? */
bool bind_is_literal(const struct ast *a, const struct node *n);
/* INVALID_ARGUMENT: the literal does not fit the column. */
pennon_status bind_refuse_literal(struct binder *b, const struct ast *a, const struct node *literal, const struct ArrowSchema *type,
                                  pennon_error *err);
/* Plain literals of one kind, and nulls, as an array of *type; *made false: they are not of that sort. */
pennon_status bind_literals(struct binder *b, struct ast *const *items, size_t n, const struct ArrowSchema **type,
                            struct ArrowArray *out, bool *made, pennon_error *err) CHECKED;
/* One value as value_print shows it. */
pennon_status value_print(const struct array_view *v, int64_t row, struct buf *out, pennon_error *err) CHECKED;
/* "Int64(300)", "Utf8("a")": a literal as messages and plans show it. */
pennon_status literal_print(const struct node *literal, struct buf *out, pennon_error *err) CHECKED;
/* "Int64", "Timestamp(ns)": the type likewise. */
pennon_status type_print(const struct ArrowSchema *type, struct buf *out, pennon_error *err) CHECKED;

/* ---- simplify.c ---- */

/* The node, or what it comes to: constants folded, NOT pushed in. */
struct node *simplify_not(struct binder *b, struct node *n, pennon_error *err) CHECKED;
struct node *simplify_constant(struct binder *b, struct node *n, pennon_error *err) CHECKED;
/* AND, OR of n >= 1 booleans: nested ones of the same kind are flattened, constants taken out, equals of one column joined to a set. */
struct node *simplify_chain(struct binder *b, enum node_kind kind, struct node **terms, size_t n, pennon_error *err) CHECKED;

/* ---- bind_types.c ---- */

pennon_status bind_add_type(struct expr *e, const struct arrow_type *type, const struct ArrowSchema **out,
                            pennon_error *err) CHECKED;
/* What both sides of LIKE become; *out NULL: no texts. */
pennon_status bind_like_type(struct expr *e, const struct ArrowSchema *a, const struct ArrowSchema *b,
                             const struct ArrowSchema **out, pennon_error *err) CHECKED;
/* The types that both sides of an operation are cast to, and that of the result; false: there is no such operation. */
bool bind_arithmetic(enum ast_arith op, struct arrow_type *a, struct arrow_type *b, struct arrow_type *result);

#endif
