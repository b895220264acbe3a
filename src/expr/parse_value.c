/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The parser of SQL expressions: literals, names, calls, CASE, CAST and types.
 *
 * Words are names unless they begin one of the forms of a table here, and a form is only begun when what follows fits: `end`, `date` or `position` can
 * be columns. Forms with words between their arguments (EXTRACT, TRIM, SUBSTRING, POSITION, OVERLAY) become calls.
 * Source: spec expressions 2, 3.1, 6. */
#include "expr/parser.h"

/* ---- literals ---- */

pennon_status parse_quoted(struct parser *p, const struct token *t, struct bytes *out, pennon_error *err)
{
    *out = t->inner;
    if (!t->doubled) return PENNON_OK;
    uint8_t *copy = arena_alloc(p->arena, t->inner.size, err);
    size_t n = 0;
    if (!copy) return err->code;
    for (size_t i = 0; i < t->inner.size; i++) {
        copy[n++] = t->inner.data[i];
        i += t->inner.data[i] == t->quote; /* the second of a pair */
    }
    *out = bytes_of(copy, n);
    return PENNON_OK;
}

/* A node without children for the next token, which is taken. */
static pennon_status make_leaf(struct parser *p, enum ast_kind kind, struct tree *out, pennon_error *err)
{
    size_t start = p->token.start;
    TRY_RETURN(parse_advance(p, err));
    return parse_make(p, kind, start, p->n, out, err);
}

/* Digits that fit an int64, a minus in front where `negative`. */
static bool integer_value(struct bytes digits, bool negative, int64_t *out)
{
    uint64_t v = 0;
    if (digits.size == 0) return false;
    for (size_t i = 0; i < digits.size; i++) {
        uint8_t c = digits.data[i];
        if (c < '0' || c > '9') return false;
        if (mul_overflows(v, 10, &v) || add_overflows(v, (uint64_t)(c - '0'), &v)) return false;
    }
    if (v > (uint64_t)INT64_MAX + negative) return false;
    *out = (int64_t)(negative ? 0 - v : v);
    return true;
}

static pennon_status parse_number(struct parser *p, struct tree *out, pennon_error *err)
{
    struct token t = p->token;
    int64_t integer;
    double real;
    if (integer_value(t.inner, false, &integer)) {
        TRY_RETURN(make_leaf(p, AST_INTEGER, out, err));
        out->node->integer = integer;
        return PENNON_OK;
    }
    if (!real_parse(t.inner, &real)) return syntax_error(p->text, t.start, t.end, err, "not a number");
    TRY_RETURN(make_leaf(p, AST_FLOAT, out, err));
    out->node->real = real;
    return PENNON_OK;
}

static pennon_status parse_text(struct parser *p, struct tree *out, pennon_error *err)
{
    struct bytes value;
    struct token t = p->token;
    TRY_RETURN(parse_quoted(p, &t, &value, err));
    TRY_RETURN(make_leaf(p, AST_TEXT, out, err));
    out->node->text = value;
    return PENNON_OK;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* With an odd number of digits the first byte has one digit. */
static pennon_status parse_hex(struct parser *p, struct tree *out, pennon_error *err)
{
    struct token t = p->token;
    size_t odd = t.inner.size % 2, n = t.inner.size / 2 + odd;
    uint8_t *value = arena_calloc(p->arena, n + 1, 1, err);
    bool valid = true;
    if (!value) return err->code;
    for (size_t i = 0; i < t.inner.size; i++) {
        int digit = hex_digit(t.inner.data[i]);
        valid = valid && digit >= 0;
        if (digit >= 0) value[(i + odd) / 2] = (uint8_t)(value[(i + odd) / 2] << 4 | digit);
    }
    TRY_RETURN(make_leaf(p, AST_BINARY, out, err));
    out->node->text = bytes_of(value, valid ? n : 0);
    out->node->flags |= valid ? 0 : AST_INVALID;
    return PENNON_OK;
}

static pennon_status parse_array(struct parser *p, size_t start, struct tree *out, pennon_error *err)
{
    size_t base = p->n;
    bool empty;
    TRY_RETURN(expect_sign(p, SIGN_OPEN_SQUARE, "'['", err));
    TRY_RETURN(take_sign(p, SIGN_CLOSE_SQUARE, &empty, err));
    if (!empty) TRY_RETURN(parse_list(p, SIGN_CLOSE_SQUARE, "',' or ']'", err));
    return parse_make(p, AST_ARRAY, start, base, out, err);
}

/* ---- types ---- */

struct type_name {
    const char *word;
    uint8_t id, id_unsigned; /* UINT8_MAX: no unsigned form */
};

static const struct type_name type_names[] = {
    {"BOOLEAN", AST_TYPE_BOOLEAN, UINT8_MAX},      {"TINYINT", AST_TYPE_INT8, AST_TYPE_UINT8},
    {"SMALLINT", AST_TYPE_INT16, AST_TYPE_UINT16}, {"INT", AST_TYPE_INT32, AST_TYPE_UINT32},
    {"INTEGER", AST_TYPE_INT32, AST_TYPE_UINT32},  {"BIGINT", AST_TYPE_INT64, AST_TYPE_UINT64},
    {"FLOAT", AST_TYPE_FLOAT32, UINT8_MAX},        {"DOUBLE", AST_TYPE_FLOAT64, UINT8_MAX},
    {"STRING", AST_TYPE_UTF8, UINT8_MAX},          {"BINARY", AST_TYPE_BINARY, UINT8_MAX},
    {"DATE", AST_TYPE_DATE32, UINT8_MAX},          {"TIMESTAMP", AST_TYPE_TIMESTAMP, UINT8_MAX},
    {"DATETIME", AST_TYPE_TIMESTAMP, UINT8_MAX},   {"DECIMAL", AST_TYPE_DECIMAL, UINT8_MAX},
    {"JSONB", AST_TYPE_JSONB, UINT8_MAX},
};

static const struct type_name *find_type(const struct token *t)
{
    for (size_t i = 0; i < ARRAY_LEN(type_names); i++) {
        if (token_is_word(t, type_names[i].word)) return &type_names[i];
    }
    return NULL;
}

/* (5) or (5, -2) behind a type; *n parameters. */
static pennon_status type_parameters(struct parser *p, int32_t out[2], size_t *n, pennon_error *err)
{
    bool more;
    *n = 0;
    TRY_RETURN(take_sign(p, SIGN_OPEN, &more, err));
    if (!more) return PENNON_OK;
    while (more) {
        bool negative;
        int64_t v;
        TRY_RETURN(take_sign(p, SIGN_MINUS, &negative, err));
        if (p->token.kind != TOKEN_NUMBER || !integer_value(p->token.inner, negative, &v) || v < -1000 || v > 1000000 || *n == 2) {
            return parse_unexpected(p, "the parameters of a type", err);
        }
        out[(*n)++] = (int32_t)v;
        TRY_RETURN(parse_advance(p, err));
        TRY_RETURN(take_sign(p, SIGN_COMMA, &more, err));
    }
    return expect_sign(p, SIGN_CLOSE, "')'", err);
}

/* The parameters that mean something; the others are skipped as official does. */
static pennon_status apply_parameters(struct parser *p, size_t start, const int32_t args[2], size_t n, struct ast_type *out,
                                      pennon_error *err)
{
    if (out->id == AST_TYPE_TIMESTAMP) {
        out->unit = n == 0 ? 6 : args[0];
        if (n < 2 && (out->unit == 0 || out->unit == 3 || out->unit == 6 || out->unit == 9)) return PENNON_OK;
        return syntax_error(p->text, start, p->last, err, "timestamps have 0, 3, 6 or 9 digits behind the second");
    }
    if (out->id != AST_TYPE_DECIMAL) return PENNON_OK;
    if (n != 2) return syntax_error(p->text, start, p->last, err, "decimals need a precision and a scale: decimal(10, 2)");
    out->precision = args[0];
    out->scale = args[1];
    if (out->precision >= 1 && out->precision <= 38 && out->scale >= -38 && out->scale <= out->precision) return PENNON_OK;
    return syntax_error(p->text, start, p->last, err, "decimals have 1 to 38 digits and a scale of at most the precision");
}

static pennon_status refuse_type(struct parser *p, const struct token *t, pennon_error *err)
{
    return syntax_error(
        p->text, t->start, t->end, err,
        "no type of this name; the types are boolean, tinyint, smallint, int, bigint (each also unsigned), float, double, "
        "string, binary, date, timestamp, datetime, decimal, jsonb");
}

pennon_status parse_type(struct parser *p, struct ast_type *out, pennon_error *err)
{
    struct token t = p->token;
    const struct type_name *name = find_type(&t);
    int32_t args[2] = {0, 0};
    size_t n;
    bool is_unsigned;
    if (t.kind != TOKEN_WORD) return parse_unexpected(p, "a type", err);
    if (!name) return refuse_type(p, &t, err);
    *out = (struct ast_type){.id = (enum ast_type_id)name->id};
    TRY_RETURN(parse_advance(p, err));
    TRY_RETURN(type_parameters(p, args, &n, err));
    TRY_RETURN(apply_parameters(p, t.start, args, n, out, err));
    TRY_RETURN(take_word(p, "UNSIGNED", &is_unsigned, err));
    if (is_unsigned && name->id_unsigned == UINT8_MAX)
        return syntax_error(p->text, t.start, p->last, err, "this type has no unsigned form");
    if (is_unsigned) out->id = (enum ast_type_id)name->id_unsigned;
    if (out->id == AST_TYPE_FLOAT64 && at_word(p, "PRECISION")) return refuse_type(p, &p->token, err);
    if (out->id == AST_TYPE_TIMESTAMP && (at_word(p, "WITH") || at_word(p, "WITHOUT"))) {
        return syntax_error(p->text, t.start, p->token.end, err, "time zones are not supported in the types of timestamps");
    }
    return PENNON_OK;
}

/* date '2020-01-01', timestamp(3) '…', int unsigned '5': is the next token such a literal? Looks ahead only. */
static pennon_status begins_typed_literal(const struct parser *p, bool *out, pennon_error *err)
{
    struct token t;
    size_t at = p->at;
    TRY_RETURN(lexer_next(p->text, &at, &t, err));
    if (t.kind == TOKEN_SIGN && t.sign == SIGN_OPEN) {
        do {
            TRY_RETURN(lexer_next(p->text, &at, &t, err));
        } while (t.kind == TOKEN_NUMBER || (t.kind == TOKEN_SIGN && (t.sign == SIGN_COMMA || t.sign == SIGN_MINUS)));
        if (t.kind == TOKEN_SIGN && t.sign == SIGN_CLOSE) TRY_RETURN(lexer_next(p->text, &at, &t, err));
    }
    if (token_is_word(&t, "UNSIGNED") || token_is_word(&t, "WITH") || token_is_word(&t, "WITHOUT")) {
        TRY_RETURN(lexer_next(p->text, &at, &t, err));
        *out = t.kind == TOKEN_TEXT || t.kind == TOKEN_WORD;
        return PENNON_OK;
    }
    *out = t.kind == TOKEN_TEXT;
    return PENNON_OK;
}

static pennon_status parse_typed_literal(struct parser *p, struct tree *out, pennon_error *err)
{
    size_t base = p->n, start = p->token.start;
    struct ast_type type;
    struct tree text;
    TRY_RETURN(parse_type(p, &type, err));
    if (p->token.kind != TOKEN_TEXT) return parse_unexpected(p, "a text in quotes", err);
    TRY_RETURN(parse_text(p, &text, err));
    TRY_RETURN(parse_push(p, text, err));
    TRY_RETURN(parse_make(p, AST_CAST, start, base, out, err));
    out->node->type = type;
    out->node->flags |= AST_TYPED;
    return PENNON_OK;
}

/* ---- calls ---- */

static pennon_status make_call(struct parser *p, struct bytes name, size_t start, size_t base, struct tree *out, pennon_error *err)
{
    TRY_RETURN(parse_make(p, AST_CALL, start, base, out, err));
    out->node->text = name;
    return PENNON_OK;
}

static pennon_status push_above(struct parser *p, enum binding above, pennon_error *err)
{
    struct tree t;
    TRY_RETURN(parse_above(p, above, &t, err));
    return parse_push(p, t, err);
}

static pennon_status refuse_call(struct parser *p, pennon_error *err)
{
    static const char *const refused[] = {"ANY", "ALL", "SOME", "EXISTS", "CONVERT"};
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        if (at_word(p, refused[i])) {
            return syntax_error(p->text, p->token.start, p->token.end, err, "%s is not supported", refused[i]);
        }
    }
    return PENNON_OK;
}

/* name(a, b, …); `(` was taken. The arguments from `base` on are on the stack already where `begun`. */
static pennon_status call_arguments(struct parser *p, struct bytes name, size_t start, size_t base, struct tree *out,
                                    pennon_error *err)
{
    bool empty = false;
    if (p->n == base) TRY_RETURN(take_sign(p, SIGN_CLOSE, &empty, err));
    if (!empty && (at_sign(p, SIGN_STAR) || at_word(p, "DISTINCT"))) {
        return syntax_error(p->text, p->token.start, p->token.end, err, "aggregates are not supported here");
    }
    if (!empty) TRY_RETURN(parse_list(p, SIGN_CLOSE, "',' or ')' of the call", err));
    if (at_word(p, "OVER") || at_word(p, "FILTER")) {
        return syntax_error(p->text, p->token.start, p->token.end, err, "window functions and aggregates are not supported");
    }
    return make_call(p, name, start, base, out, err);
}

static pennon_status parse_call(struct parser *p, struct bytes name, size_t start, struct tree *out, pennon_error *err)
{
    TRY_RETURN(expect_sign(p, SIGN_OPEN, "'('", err));
    return call_arguments(p, name, start, p->n, out, err);
}

/* EXTRACT(year FROM x): date_part('year', x). */
static pennon_status parse_extract(struct parser *p, size_t start, struct tree *out, pennon_error *err)
{
    size_t base = p->n;
    struct token t = p->token;
    struct tree part;
    struct bytes name;
    if (t.kind != TOKEN_WORD && t.kind != TOKEN_TEXT) return parse_unexpected(p, "a part of a date", err);
    TRY_RETURN(parse_quoted(p, &t, &name, err));
    TRY_RETURN(make_leaf(p, AST_TEXT, &part, err));
    part.node->text = name;
    TRY_RETURN(parse_push(p, part, err));
    TRY_RETURN(expect_word(p, "FROM", err));
    TRY_RETURN(push_above(p, BIND_NONE, err));
    TRY_RETURN(expect_sign(p, SIGN_CLOSE, "')'", err));
    return make_call(p, bytes_str("date_part"), start, base, out, err);
}

/* TRIM([BOTH | LEADING | TRAILING] [what FROM] x), TRIM(x, what). */
static pennon_status parse_trim(struct parser *p, size_t start, struct tree *out, pennon_error *err)
{
    static const char *const words[] = {"BOTH", "LEADING", "TRAILING"};
    static const char *const names[] = {"btrim", "ltrim", "rtrim"};
    size_t base = p->n;
    const char *name = names[0];
    bool found = false;
    struct token second;
    TRY_RETURN(parse_peek(p, &second, err));
    bool word = second.kind != TOKEN_SIGN; /* else a column of this name */
    for (size_t i = 0; i < ARRAY_LEN(words) && word && !found; i++) {
        TRY_RETURN(take_word(p, words[i], &found, err));
        if (found) name = names[i];
    }
    TRY_RETURN(push_above(p, BIND_NONE, err));
    TRY_RETURN(take_word(p, "FROM", &found, err));
    if (found) {
        struct tree what = p->stack[--p->n];
        TRY_RETURN(push_above(p, BIND_NONE, err));
        TRY_RETURN(parse_push(p, what, err));
        TRY_RETURN(expect_sign(p, SIGN_CLOSE, "')'", err));
        return make_call(p, bytes_str(name), start, base, out, err);
    }
    TRY_RETURN(take_sign(p, SIGN_COMMA, &found, err));
    if (found) return call_arguments(p, bytes_str(name), start, base, out, err);
    TRY_RETURN(expect_sign(p, SIGN_CLOSE, "FROM, ',' or ')'", err));
    return make_call(p, bytes_str(name), start, base, out, err);
}

/* SUBSTRING(x FROM a FOR b) and without one of both; with commas as any call. */
static pennon_status parse_substring(struct parser *p, size_t start, struct tree *out, pennon_error *err)
{
    size_t base = p->n;
    bool found;
    TRY_RETURN(push_above(p, BIND_NONE, err));
    TRY_RETURN(take_sign(p, SIGN_COMMA, &found, err));
    if (found) return call_arguments(p, bytes_str("substr"), start, base, out, err);
    TRY_RETURN(take_word(p, "FROM", &found, err));
    if (found) {
        TRY_RETURN(push_above(p, BIND_NONE, err));
    } else if (at_word(p, "FOR")) {
        struct tree one;
        TRY_RETURN(parse_make(p, AST_INTEGER, p->token.start, p->n, &one, err));
        one.node->integer = 1;
        one.node->end = (uint32_t)p->token.end; /* it stands where FOR does */
        TRY_RETURN(parse_push(p, one, err));
    }
    TRY_RETURN(take_word(p, "FOR", &found, err));
    if (found) TRY_RETURN(push_above(p, BIND_NONE, err));
    TRY_RETURN(expect_sign(p, SIGN_CLOSE, "',', FROM, FOR or ')'", err));
    return make_call(p, bytes_str("substr"), start, base, out, err);
}

/* POSITION(a IN x): strpos(x, a). Else a call, whose first argument goes on behind what can stand in front of IN. */
static pennon_status parse_position(struct parser *p, size_t start, struct tree *out, pennon_error *err)
{
    size_t base = p->n;
    struct tree first;
    bool found;
    TRY_RETURN(parse_above(p, BIND_COMPARE, &first, err));
    TRY_RETURN(take_word(p, "IN", &found, err));
    if (found) {
        TRY_RETURN(push_above(p, BIND_NONE, err));
        TRY_RETURN(parse_push(p, first, err));
        TRY_RETURN(expect_sign(p, SIGN_CLOSE, "')'", err));
        return make_call(p, bytes_str("strpos"), start, base, out, err);
    }
    TRY_RETURN(parse_operators(p, BIND_NONE, &first, err));
    TRY_RETURN(parse_push(p, first, err));
    TRY_RETURN(expect_sign(p, SIGN_COMMA, "IN or ','", err));
    return call_arguments(p, bytes_str("strpos"), start, base, out, err);
}

/* OVERLAY(x PLACING y FROM a [FOR b]), or with commas. */
static pennon_status parse_overlay(struct parser *p, size_t start, struct tree *out, pennon_error *err)
{
    size_t base = p->n;
    bool found;
    TRY_RETURN(push_above(p, BIND_NONE, err));
    TRY_RETURN(take_sign(p, SIGN_COMMA, &found, err));
    if (found) return call_arguments(p, bytes_str("overlay"), start, base, out, err);
    TRY_RETURN(expect_word(p, "PLACING", err));
    TRY_RETURN(push_above(p, BIND_NONE, err));
    TRY_RETURN(expect_word(p, "FROM", err));
    TRY_RETURN(push_above(p, BIND_NONE, err));
    TRY_RETURN(take_word(p, "FOR", &found, err));
    if (found) TRY_RETURN(push_above(p, BIND_NONE, err));
    TRY_RETURN(expect_sign(p, SIGN_CLOSE, "FOR or ')'", err));
    return make_call(p, bytes_str("overlay"), start, base, out, err);
}

/* CAST(x AS type), TRY_CAST, SAFE_CAST. */
static pennon_status parse_cast_call(struct parser *p, size_t start, bool try_cast, struct tree *out, pennon_error *err)
{
    size_t base = p->n;
    struct ast_type type;
    TRY_RETURN(push_above(p, BIND_NONE, err));
    TRY_RETURN(expect_word(p, "AS", err));
    TRY_RETURN(parse_type(p, &type, err));
    TRY_RETURN(expect_sign(p, SIGN_CLOSE, "')'", err));
    TRY_RETURN(parse_make(p, AST_CAST, start, base, out, err));
    out->node->type = type;
    out->node->flags |= try_cast ? AST_TRY : 0;
    return PENNON_OK;
}

enum call_form { FORM_CAST, FORM_TRY_CAST, FORM_EXTRACT, FORM_TRIM, FORM_SUBSTRING, FORM_POSITION, FORM_OVERLAY };
struct call_word {
    const char *word;
    enum call_form form;
};
static const struct call_word call_words[] = {
    {"CAST", FORM_CAST},        {"TRY_CAST", FORM_TRY_CAST}, {"SAFE_CAST", FORM_TRY_CAST},
    {"EXTRACT", FORM_EXTRACT},  {"TRIM", FORM_TRIM},         {"SUBSTRING", FORM_SUBSTRING},
    {"SUBSTR", FORM_SUBSTRING}, {"POSITION", FORM_POSITION}, {"OVERLAY", FORM_OVERLAY},
};

/* The next token is a word in front of a parenthesis. */
static pennon_status parse_word_call(struct parser *p, struct tree *out, pennon_error *err)
{
    struct token t = p->token;
    const struct call_word *w = NULL;
    TRY_RETURN(refuse_call(p, err));
    for (size_t i = 0; i < ARRAY_LEN(call_words) && !w; i++) {
        if (token_is_word(&t, call_words[i].word)) w = &call_words[i];
    }
    TRY_RETURN(parse_advance(p, err));
    if (!w) return parse_call(p, t.inner, t.start, out, err);
    TRY_RETURN(expect_sign(p, SIGN_OPEN, "'('", err));
    switch (w->form) {
    case FORM_CAST: return parse_cast_call(p, t.start, false, out, err);
    case FORM_TRY_CAST: return parse_cast_call(p, t.start, true, out, err);
    case FORM_EXTRACT: return parse_extract(p, t.start, out, err);
    case FORM_TRIM: return parse_trim(p, t.start, out, err);
    case FORM_SUBSTRING: return parse_substring(p, t.start, out, err);
    case FORM_POSITION: return parse_position(p, t.start, out, err);
    default: return parse_overlay(p, t.start, out, err);
    }
}

/* ---- other forms ---- */

/* CASE [x] WHEN a THEN b … [ELSE c] END */
static pennon_status parse_case(struct parser *p, struct tree *out, pennon_error *err)
{
    size_t base = p->n, start = p->token.start;
    unsigned flags = 0;
    bool more = true, found;
    TRY_RETURN(parse_advance(p, err));
    if (!at_word(p, "WHEN")) {
        flags |= AST_OPERAND;
        TRY_RETURN(push_above(p, BIND_NONE, err));
    }
    TRY_RETURN(expect_word(p, "WHEN", err));
    while (more) {
        TRY_RETURN(push_above(p, BIND_NONE, err));
        TRY_RETURN(expect_word(p, "THEN", err));
        TRY_RETURN(push_above(p, BIND_NONE, err));
        TRY_RETURN(take_word(p, "WHEN", &more, err));
    }
    TRY_RETURN(take_word(p, "ELSE", &found, err));
    if (found) {
        flags |= AST_ELSE;
        TRY_RETURN(push_above(p, BIND_NONE, err));
    }
    TRY_RETURN(expect_word(p, "END", err));
    TRY_RETURN(parse_make(p, AST_CASE, start, base, out, err));
    out->node->flags = (uint8_t)flags;
    return PENNON_OK;
}

static pennon_status parse_parens(struct parser *p, struct tree *out, pennon_error *err)
{
    size_t start = p->token.start;
    TRY_RETURN(parse_advance(p, err));
    if (at_word(p, "SELECT") || at_word(p, "WITH")) {
        struct token second;
        TRY_RETURN(parse_peek(p, &second, err));
        if (second.kind != TOKEN_SIGN) return syntax_error(p->text, start, p->token.end, err, "subqueries are not supported");
    }
    TRY_RETURN(parse_above(p, BIND_NONE, out, err));
    if (at_sign(p, SIGN_COMMA)) return syntax_error(p->text, start, p->token.end, err, "rows of values are not supported");
    TRY_RETURN(expect_sign(p, SIGN_CLOSE, "')' or an operator", err));
    out->node->flags |= AST_PARENS;
    return PENNON_OK;
}

/* NOT x, ~x. */
static pennon_status parse_not(struct parser *p, enum binding above, struct tree *out, pennon_error *err)
{
    size_t base = p->n, start = p->token.start;
    TRY_RETURN(parse_advance(p, err));
    TRY_RETURN(push_above(p, above, err));
    return parse_make(p, AST_NOT, start, base, out, err);
}

/* -x; the sign of a number goes into it. */
static pennon_status parse_minus(struct parser *p, struct tree *out, pennon_error *err)
{
    size_t base = p->n, start = p->token.start;
    struct tree operand;
    TRY_RETURN(parse_advance(p, err));
    TRY_RETURN(parse_above(p, BIND_MULTIPLY, &operand, err));
    struct ast *a = operand.node;
    struct bytes source = bytes_of(p->text.data + a->start, a->end - a->start);
    int64_t least;
    if (a->kind == AST_FLOAT && integer_value(source, true, &least)) { /* -9223372036854775808 */
        a->kind = AST_INTEGER;
        a->integer = least;
    } else if (a->kind == AST_FLOAT) {
        a->real = -a->real;
    } else if (a->kind == AST_INTEGER && a->integer != INT64_MIN) {
        a->integer = -a->integer;
    } else if (a->kind == AST_INTEGER) {
        a->kind = AST_FLOAT;
        a->real = -(double)INT64_MIN;
    } else {
        TRY_RETURN(parse_push(p, operand, err));
        return parse_make(p, AST_NEGATE, start, base, out, err);
    }
    a->start = (uint32_t)start;
    a->end = (uint32_t)p->last;
    a->flags = 0;
    *out = operand;
    return PENNON_OK;
}

static pennon_status make_column(struct parser *p, struct tree *out, pennon_error *err)
{
    struct token t = p->token;
    struct bytes name;
    TRY_RETURN(parse_quoted(p, &t, &name, err));
    if (name.size == 0) return syntax_error(p->text, t.start, t.end, err, "the name is empty");
    TRY_RETURN(make_leaf(p, AST_COLUMN, out, err));
    out->node->parts = arena_calloc(p->arena, 1, sizeof *out->node->parts, err);
    if (!out->node->parts) return err->code;
    out->node->parts[0] = (struct ast_part){name, t.kind == TOKEN_NAME};
    out->node->n = 1;
    return PENNON_OK;
}

static pennon_status make_bool(struct parser *p, bool value, struct tree *out, pennon_error *err)
{
    TRY_RETURN(make_leaf(p, AST_BOOL, out, err));
    out->node->integer = value;
    return PENNON_OK;
}

/* current_date and the like are calls without parentheses. */
static bool is_time_word(const struct parser *p)
{
    return at_word(p, "CURRENT_TIMESTAMP") || at_word(p, "CURRENT_DATE") || at_word(p, "CURRENT_TIME");
}

/* varchar 'x', time '12:00': a word in front of a text is meant as a type. */
static pennon_status refuse_literal(struct parser *p, const struct token *t, const struct token *text, pennon_error *err)
{
    return syntax_error(p->text, t->start, text->end, err,
                        "no literal of this form; operators and types that stand before a text are LIKE, date, "
                        "timestamp and those that CAST knows");
}

static pennon_status parse_word(struct parser *p, struct tree *out, pennon_error *err)
{
    struct token t = p->token, second;
    bool typed = false;
    if (at_word(p, "NULL")) return make_leaf(p, AST_NULL, out, err);
    if (at_word(p, "TRUE") || at_word(p, "FALSE")) return make_bool(p, at_word(p, "TRUE"), out, err);
    if (at_word(p, "NOT")) return parse_not(p, BIND_NOT, out, err);
    TRY_RETURN(parse_peek(p, &second, err));
    if (find_type(&t)) TRY_RETURN(begins_typed_literal(p, &typed, err));
    if (typed) return parse_typed_literal(p, out, err);
    bool before_call = second.kind == TOKEN_SIGN && second.sign == SIGN_OPEN;
    if (at_word(p, "CASE") &&
        (second.kind != TOKEN_SIGN || before_call || second.sign == SIGN_MINUS || second.sign == SIGN_OPEN_SQUARE)) {
        return parse_case(p, out, err);
    }
    if (at_word(p, "INTERVAL") && (second.kind == TOKEN_TEXT || second.kind == TOKEN_NUMBER)) {
        return syntax_error(p->text, t.start, second.end, err, "intervals are not supported");
    }
    if (at_word(p, "ARRAY") && second.kind == TOKEN_SIGN && second.sign == SIGN_OPEN_SQUARE) {
        TRY_RETURN(parse_advance(p, err));
        return parse_array(p, t.start, out, err);
    }
    if (before_call) return parse_word_call(p, out, err);
    if (is_time_word(p)) {
        TRY_RETURN(parse_advance(p, err));
        return make_call(p, t.inner, t.start, p->n, out, err);
    }
    if (second.kind == TOKEN_TEXT) return refuse_literal(p, &t, &second, err);
    return make_column(p, out, err);
}

pennon_status parse_value(struct parser *p, struct tree *out, pennon_error *err)
{
    const struct token *t = &p->token;
    switch (t->kind) {
    case TOKEN_WORD: return parse_word(p, out, err);
    case TOKEN_NAME: return make_column(p, out, err);
    case TOKEN_NUMBER: return parse_number(p, out, err);
    case TOKEN_TEXT: return parse_text(p, out, err);
    case TOKEN_HEX: return parse_hex(p, out, err);
    case TOKEN_END: return parse_unexpected(p, "an expression", err);
    case TOKEN_SIGN: break;
    }
    if (t->sign == SIGN_OPEN) return parse_parens(p, out, err);
    if (t->sign == SIGN_OPEN_SQUARE) return parse_array(p, t->start, out, err);
    if (t->sign == SIGN_MINUS) return parse_minus(p, out, err);
    if (t->sign == SIGN_TILDE) return parse_not(p, BIND_ADD, out, err);
    if (t->sign == SIGN_PLUS) return syntax_error(p->text, t->start, t->end, err, "the sign '+' is not supported; leave it out");
    return parse_unexpected(p, "an expression", err);
}
