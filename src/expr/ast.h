/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The syntax tree of a SQL expression, and the parser that makes it.
 *
 * Trees live in an arena and are read only once made. AND, OR, IN, arrays, calls and CASE have any number of children and are built in
 * loops, so that a chain of a million terms is one node; what nests is bounded by AST_MAX_DEPTH.
 * What official keeps as nodes of its own and refuses at the top level (EXTRACT, TRIM, SUBSTRING, CEIL, FLOOR, POSITION, OVERLAY) becomes a
 * call of the function that does the same; CASE and IS DISTINCT FROM are nodes here too and are accepted everywhere.
 * Source: spec expressions 1-6. */
#ifndef EXPR_AST_H
#define EXPR_AST_H

#include "base/base.h"

/* Levels of nesting that are accepted; deeper ones are INVALID_ARGUMENT. */
#define AST_MAX_DEPTH 256u

enum ast_kind {
    AST_NULL,
    AST_BOOL,     /* integer: 0 or 1 */
    AST_INTEGER,  /* integer; a number that does not fit int64 is AST_FLOAT */
    AST_FLOAT,    /* real */
    AST_TEXT,     /* text: the value, quotes undone */
    AST_BINARY,   /* text: the bytes; flag AST_INVALID where the digits were not hexadecimal (a null of type binary) */
    AST_ARRAY,    /* children: the items */
    AST_COLUMN,   /* children: none; parts: the path; quoted parts are exact */
    AST_INDEX,    /* children: value, index: x[i], x['name'] */
    AST_FIELD,    /* children: value; text: name, of (expression).name */
    AST_NEGATE,   /* children: 1; never of a number literal, which is folded */
    AST_NOT,      /* children: 1 */
    AST_ARITH,    /* op: enum ast_arith; children: 2 */
    AST_CONCAT,   /* children: 2 or more */
    AST_COMPARE,  /* op: enum ast_compare; children: 2 */
    AST_DISTINCT, /* IS [NOT] DISTINCT FROM; children: 2 */
    AST_AND,      /* children: 2 or more */
    AST_OR,       /* children: 2 or more */
    AST_IS,       /* op: enum ast_is; children: 1 */
    AST_IN,       /* children: value, then 1 or more items */
    AST_BETWEEN,  /* children: value, low, high */
    AST_LIKE, /* children: value, pattern; flag AST_FOLD for ILIKE. Another escape than the backslash is refused by the parser */
    AST_CASE, /* children: [operand if AST_OPERAND], when, then, …, [else if AST_ELSE] */
    AST_CAST, /* type; children: 1; flag AST_TRY. Typed literals (date '…') are casts of AST_TEXT with AST_TYPED */
    AST_CALL  /* text: the name as written; children: the arguments */
};

enum ast_compare { AST_EQ, AST_NE, AST_LT, AST_LE, AST_GT, AST_GE };
enum ast_arith { AST_ADD, AST_SUBTRACT, AST_MULTIPLY, AST_DIVIDE, AST_MODULO };
enum ast_is { AST_IS_NULL, AST_IS_TRUE, AST_IS_FALSE, AST_IS_UNKNOWN };

enum {
    AST_NEGATED = 1, /* the NOT of IS NOT, NOT IN, NOT BETWEEN, NOT LIKE, IS NOT DISTINCT FROM */
    AST_FOLD = 2,
    AST_TRY = 4,
    AST_OPERAND = 8,
    AST_ELSE = 16,
    AST_INVALID = 32,
    AST_TYPED = 64,
    AST_PARENS = 128 /* stood in parentheses */
};

/* The types that SQL can name (spec expressions 6). */
enum ast_type_id {
    AST_TYPE_BOOLEAN,
    AST_TYPE_INT8,
    AST_TYPE_INT16,
    AST_TYPE_INT32,
    AST_TYPE_INT64,
    AST_TYPE_UINT8,
    AST_TYPE_UINT16,
    AST_TYPE_UINT32,
    AST_TYPE_UINT64,
    AST_TYPE_FLOAT32,
    AST_TYPE_FLOAT64,
    AST_TYPE_UTF8,
    AST_TYPE_BINARY,
    AST_TYPE_DATE32,
    AST_TYPE_TIMESTAMP, /* unit: digits of the second, 0, 3, 6 or 9 */
    AST_TYPE_DECIMAL,   /* precision 1..38, scale */
    AST_TYPE_JSONB
};
struct ast_type {
    enum ast_type_id id;
    int32_t unit;
    int32_t precision, scale;
};

struct ast_part {
    struct bytes name; /* quotes undone */
    bool quoted;       /* in back ticks, or from x['name'] directly behind a name: exact case */
};

struct ast {
    uint8_t kind; /* enum ast_kind */
    uint8_t op;
    uint8_t flags;
    uint32_t start, end; /* bytes of the source text, for messages */
    uint32_t n;          /* children, or parts of AST_COLUMN */
    union {
        struct ast **children;
        struct ast_part *parts;
    };
    union {
        int64_t integer;
        double real;
        struct bytes text;
        struct ast_type type;
    };
};

/* Parse one expression; everything up to the end of `text` must belong to it. Nodes are made in `arena`, texts point into `text` or
 * the arena, so both must outlive the tree. INVALID_ARGUMENT tells the place ("at character 12, near 'LIMIT'") and what was expected; names of
 * operators, types and forms that the dialect does not have are refused by name. O(bytes). */
pennon_status ast_parse(struct bytes text, struct arena *arena, const struct ast **out, pennon_error *err) CHECKED;

/* Append the tree as SQL that parses to the same tree; for messages and tests. */
pennon_status ast_print(const struct ast *tree, struct buf *out, pennon_error *err) CHECKED;

#endif
