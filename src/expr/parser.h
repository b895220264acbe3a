/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the files of the parser share. parse.c: operators and entry point; parse_value.c: what stands between them. */
#ifndef EXPR_PARSER_H
#define EXPR_PARSER_H

#include "expr/ast.h"
#include "expr/lexer.h"

/* How strongly an operator binds; also the level that an operand is parsed at: it takes operators that bind more strongly. */
enum binding {
    BIND_NONE,
    BIND_OR,
    BIND_AND,
    BIND_NOT,
    BIND_IS,
    BIND_LIKE,
    BIND_COMPARE,
    BIND_ADD,
    BIND_MULTIPLY,
    BIND_CAST,
    BIND_POSTFIX
};

/* A node with the number of levels below and including it. */
struct tree {
    struct ast *node;
    uint32_t height;
};

struct parser {
    struct bytes text;
    struct arena *arena;
    struct token token; /* the next one */
    size_t at;          /* behind it */
    size_t last;        /* end of the one before */
    uint32_t level;     /* of recursion */
    struct tree *stack; /* children of the nodes under way */
    size_t n, cap;
};

#define PARSE_ITEMS_MAX ((size_t)1 << 31)

/* ---- tokens (parse.c) ---- */

pennon_status parse_advance(struct parser *p, pennon_error *err) CHECKED;
bool at_sign(const struct parser *p, enum sign sign);
bool at_word(const struct parser *p, const char *upper); /* a word without quotes, in any case */
bool token_is_word(const struct token *t, const char *upper);
/* The token behind the next one. */
pennon_status parse_peek(const struct parser *p, struct token *out, pennon_error *err) CHECKED;
/* Skip the token if it is the one. */
pennon_status take_sign(struct parser *p, enum sign sign, bool *taken, pennon_error *err) CHECKED;
pennon_status take_word(struct parser *p, const char *upper, bool *taken, pennon_error *err) CHECKED;
/* The same, and an error when it is another one: "expected X". */
pennon_status expect_sign(struct parser *p, enum sign sign, const char *what, pennon_error *err) CHECKED;
pennon_status expect_word(struct parser *p, const char *upper, pennon_error *err) CHECKED;
/* The next token is none that can stand here; operators that the dialect does not have are named. */
pennon_status parse_unexpected(struct parser *p, const char *expected, pennon_error *err) CHECKED;

/* ---- nodes (parse.c) ---- */

pennon_status parse_push(struct parser *p, struct tree t, pennon_error *err) CHECKED;
/* A node whose children are the stack from `base` on, which are taken off. `start`: first byte of the node; it ends before the next token. */
pennon_status parse_make(struct parser *p, enum ast_kind kind, size_t start, size_t base, struct tree *out,
                         pennon_error *err) CHECKED;
/* An expression of operators that bind more strongly than `above`. */
pennon_status parse_above(struct parser *p, enum binding above, struct tree *out, pennon_error *err) CHECKED;
/* The operators behind *left, which was parsed at a stronger level. */
pennon_status parse_operators(struct parser *p, enum binding above, struct tree *left, pennon_error *err) CHECKED;
/* A comma separated list onto the stack, up to and with the closing sign. */
pennon_status parse_list(struct parser *p, enum sign close, const char *what, pennon_error *err) CHECKED;

/* ---- values (parse_value.c) ---- */

/* A literal, name, call, parentheses, prefix operator. */
pennon_status parse_value(struct parser *p, struct tree *out, pennon_error *err) CHECKED;
/* The name of a type with its parameters. */
pennon_status parse_type(struct parser *p, struct ast_type *out, pennon_error *err) CHECKED;
/* The value of a quoted token; copied where quotes are doubled. */
pennon_status parse_quoted(struct parser *p, const struct token *t, struct bytes *out, pennon_error *err) CHECKED;

#endif
