/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The words of a SQL expression. One token at a time, no state but the place in the text. Source: spec expressions 2-4. */
#ifndef EXPR_LEXER_H
#define EXPR_LEXER_H

#include "base/base.h"

enum token_kind {
    TOKEN_END,
    TOKEN_WORD,   /* name or keyword: letters, digits, `_`, bytes above 127 */
    TOKEN_NAME,   /* in back ticks */
    TOKEN_NUMBER, /* digits, point, exponent */
    TOKEN_TEXT,   /* in ' or " */
    TOKEN_HEX,    /* x'6162' or 0x6162; inner are the digits */
    TOKEN_SIGN    /* operators and punctuation: one of enum sign */
};

enum sign {
    SIGN_OPEN,
    SIGN_CLOSE,
    SIGN_OPEN_SQUARE,
    SIGN_CLOSE_SQUARE,
    SIGN_COMMA,
    SIGN_DOT,
    SIGN_COLON,
    SIGN_CAST, /* :: */
    SIGN_EQ,   /* = or == */
    SIGN_NE,
    SIGN_LT,
    SIGN_LE,
    SIGN_GT,
    SIGN_GE,
    SIGN_PLUS,
    SIGN_MINUS,
    SIGN_STAR,
    SIGN_SLASH,
    SIGN_PERCENT,
    SIGN_CONCAT, /* || */
    SIGN_TILDE,
    SIGN_OTHER /* well-formed, but not of this dialect: refused by name */
};

struct token {
    enum token_kind kind;
    enum sign sign;
    size_t start, end;  /* bytes of the source */
    struct bytes inner; /* TEXT, NAME: between the quotes; HEX: the digits; else the token */
    uint8_t quote;      /* TEXT, NAME: the quote; inner may hold it doubled */
    bool doubled;       /* it does */
    bool spaced;        /* blanks or a comment stand in front */
};

/* The token at *at, which moves behind it. `text` is UTF-8. INVALID_ARGUMENT (kind FilterSyntax): open quotes and comments, unknown characters,
 * quoted forms that the dialect does not have. */
pennon_status lexer_next(struct bytes text, size_t *at, struct token *out, pennon_error *err) CHECKED;

/* INVALID_ARGUMENT of kind FilterSyntax with "at character N[, near 'x']: message". `end` = `start`: the text ended. */
pennon_status syntax_error(struct bytes text, size_t start, size_t end, pennon_error *err, const char *fmt, ...) PRINTF_LIKE(5, 6);

/* Only the place, in front of the message that err holds. */
pennon_status syntax_place(struct bytes text, size_t start, size_t end, pennon_error *err);

#endif
