/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The words of a SQL expression.
 *
 *   name       letter, `_` or byte above 127, then also digits
 *   `name`     back ticks quote names, doubled ones stand for themselves
 *   'text'     and "text": texts, the quote doubled stands for itself; no escapes
 *   x'6162'    0x6162: bytes
 *   12 1.5 .5 1e3   numbers; an L behind them is skipped
 *   -- to the end of the line, and nesting slash-star comments, count as blanks
 *
 * Source: spec expressions 2-4. */
#include "expr/lexer.h"

#include <stdio.h>

#define NEAR_BYTES 24u /* of the text that a message shows */

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
static bool is_name_start(uint8_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80; }
static bool is_name(uint8_t c) { return is_name_start(c) || is_digit(c); }
static bool is_blank(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static uint8_t byte_at(struct bytes text, size_t at) { return at < text.size ? text.data[at] : 0; }

/* Characters before the byte, counted from 1. */
static size_t character_of(struct bytes text, size_t at)
{
    size_t n = 1;
    for (size_t i = 0; i < at && i < text.size; i++) n += (text.data[i] & 0xc0) != 0x80;
    return n;
}

pennon_status syntax_place(struct bytes text, size_t start, size_t end, pennon_error *err)
{
    size_t place = character_of(text, start);
    if (end <= start) return error_prefix(err, "at character %zu, the end of the text", place);
    size_t n = end - start;
    if (n > NEAR_BYTES) {
        for (n = NEAR_BYTES; n > 0 && (text.data[start + n] & 0xc0) == 0x80;) n--;
    }
    return error_prefix(err, "at character %zu, near '%.*s'", place, (int)n, (const char *)text.data + start);
}

pennon_status syntax_error(struct bytes text, size_t start, size_t end, pennon_error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)error_set_v(err, PENNON_INVALID_ARGUMENT, fmt, args);
    va_end(args);
    (void)syntax_place(text, start, end, err);
    return error_kind(err, "FilterSyntax");
}

/* Blanks and comments; *at moves behind them. */
static pennon_status skip_blanks(struct bytes text, size_t *at, pennon_error *err)
{
    for (;;) {
        uint8_t c = byte_at(text, *at), next = byte_at(text, *at + 1);
        if (*at < text.size && is_blank(c)) {
            ++*at;
        } else if (c == '-' && next == '-') {
            while (*at < text.size && text.data[*at] != '\n') ++*at;
        } else if (c == '/' && next == '*') {
            size_t start = *at, depth = 0;
            do {
                if (*at >= text.size) return syntax_error(text, start, start + 2, err, "the comment is not closed");
                c = byte_at(text, *at);
                next = byte_at(text, *at + 1);
                bool open = c == '/' && next == '*', close = c == '*' && next == '/';
                depth = depth + open - close;
                *at += open || close ? 2 : 1;
            } while (depth > 0);
        } else {
            return PENNON_OK;
        }
    }
}

/* A quoted token whose opening quote is at t->start + lead. */
static pennon_status read_quoted(struct bytes text, size_t lead, struct token *t, size_t *at, pennon_error *err)
{
    size_t open = t->start + lead;
    uint8_t quote = text.data[open];
    size_t i = open + 1;
    for (;; i++) {
        if (i >= text.size) return syntax_error(text, t->start, open + 1, err, "the quote %c is not closed", quote);
        if (text.data[i] != quote) continue;
        if (byte_at(text, i + 1) != quote) break;
        t->doubled = true;
        i++;
    }
    t->quote = quote;
    t->inner = bytes_of(text.data + open + 1, i - open - 1);
    *at = i + 1;
    return PENNON_OK;
}

static void read_number(struct bytes text, struct token *t, size_t *at)
{
    size_t i = t->start;
    while (is_digit(byte_at(text, i))) i++;
    if (byte_at(text, i) == '.') {
        for (i++; is_digit(byte_at(text, i));) i++;
    }
    uint8_t e = byte_at(text, i);
    if (e == 'e' || e == 'E') {
        size_t power = i + 1;
        if (byte_at(text, power) == '+' || byte_at(text, power) == '-') power++;
        if (is_digit(byte_at(text, power))) {
            for (i = power; is_digit(byte_at(text, i));) i++;
        }
    }
    t->kind = TOKEN_NUMBER;
    t->inner = bytes_of(text.data + t->start, i - t->start);
    *at = i + (byte_at(text, i) == 'L' && !is_name(byte_at(text, i + 1)));
}

/* Prefixes of quoted texts that other dialects have. */
static bool is_text_prefix(struct bytes word)
{
    uint8_t c = word.data[0] | 0x20;
    return word.size == 1 && (c == 'n' || c == 'e' || c == 'b' || c == 'r' || c == 'q');
}

static pennon_status read_word(struct bytes text, struct token *t, size_t *at, pennon_error *err)
{
    size_t i = t->start;
    while (is_name(byte_at(text, i))) i++;
    t->kind = TOKEN_WORD;
    t->inner = bytes_of(text.data + t->start, i - t->start);
    *at = i;
    if (byte_at(text, i) != '\'') return PENNON_OK;
    if (t->inner.size == 1 && (t->inner.data[0] | 0x20) == 'x') {
        t->kind = TOKEN_HEX;
        return read_quoted(text, 1, t, at, err);
    }
    if (!is_text_prefix(t->inner)) return PENNON_OK;
    return syntax_error(text, t->start, i + 1, err, "texts of the form %c'…' are not supported; write '…'", t->inner.data[0]);
}

static void read_hex_number(struct bytes text, struct token *t, size_t *at)
{
    size_t i = t->start + 2;
    while (is_name(byte_at(text, i)) && byte_at(text, i) < 0x80) i++;
    t->kind = TOKEN_HEX;
    t->inner = bytes_of(text.data + t->start + 2, i - t->start - 2);
    *at = i;
}

struct sign_text {
    char text[4];
    uint8_t sign;
};

/* Longest first. What is SIGN_OTHER is known only to be named in the refusal. */
static const struct sign_text signs[] = {
    {"<=>", SIGN_OTHER}, {"!~*", SIGN_OTHER}, {"->>", SIGN_OTHER},     {"||/", SIGN_OTHER},      {"::", SIGN_CAST},
    {"==", SIGN_EQ},     {"<>", SIGN_NE},     {"!=", SIGN_NE},         {"<=", SIGN_LE},          {">=", SIGN_GE},
    {"||", SIGN_CONCAT}, {"~*", SIGN_OTHER},  {"!~", SIGN_OTHER},      {"!!", SIGN_OTHER},       {"<<", SIGN_OTHER},
    {">>", SIGN_OTHER},  {"->", SIGN_OTHER},  {"@>", SIGN_OTHER},      {"<@", SIGN_OTHER},       {"#>", SIGN_OTHER},
    {"=>", SIGN_OTHER},  {":=", SIGN_OTHER},  {"&&", SIGN_OTHER},      {"|/", SIGN_OTHER},       {"(", SIGN_OPEN},
    {")", SIGN_CLOSE},   {",", SIGN_COMMA},   {"[", SIGN_OPEN_SQUARE}, {"]", SIGN_CLOSE_SQUARE}, {".", SIGN_DOT},
    {":", SIGN_COLON},   {"=", SIGN_EQ},      {"<", SIGN_LT},          {">", SIGN_GT},           {"+", SIGN_PLUS},
    {"-", SIGN_MINUS},   {"*", SIGN_STAR},    {"/", SIGN_SLASH},       {"%", SIGN_PERCENT},      {"~", SIGN_TILDE},
    {"&", SIGN_OTHER},   {"|", SIGN_OTHER},   {"^", SIGN_OTHER},       {"!", SIGN_OTHER},        {"?", SIGN_OTHER},
    {"$", SIGN_OTHER},   {";", SIGN_OTHER},   {"#", SIGN_OTHER},       {"@", SIGN_OTHER},        {"{", SIGN_OTHER},
    {"}", SIGN_OTHER},   {"\\", SIGN_OTHER},
};

static pennon_status read_sign(struct bytes text, struct token *t, size_t *at, pennon_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(signs); i++) {
        size_t n = strlen(signs[i].text);
        if (n > text.size - t->start || memcmp(text.data + t->start, signs[i].text, n) != 0) continue;
        t->kind = TOKEN_SIGN;
        t->sign = (enum sign)signs[i].sign;
        t->inner = bytes_of(text.data + t->start, n);
        *at = t->start + n;
        return PENNON_OK;
    }
    return syntax_error(text, t->start, t->start + 1, err, "the byte 0x%02x begins no word or operator", text.data[t->start]);
}

pennon_status lexer_next(struct bytes text, size_t *at, struct token *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    size_t before = *at;
    TRY_RETURN(skip_blanks(text, at, err));
    *out = (struct token){.kind = TOKEN_END, .start = *at, .spaced = *at > before};
    uint8_t c = byte_at(text, *at), next = byte_at(text, *at + 1);
    if (*at >= text.size) {
        st = PENNON_OK;
    } else if (c == '\'' || c == '"' || c == '`') {
        out->kind = c == '`' ? TOKEN_NAME : TOKEN_TEXT;
        st = read_quoted(text, 0, out, at, err);
    } else if (c == '0' && next == 'x') {
        read_hex_number(text, out, at);
    } else if (is_digit(c) || (c == '.' && is_digit(next))) {
        read_number(text, out, at);
    } else if (is_name_start(c)) {
        st = read_word(text, out, at, err);
    } else {
        st = read_sign(text, out, at, err);
    }
    out->end = *at;
    return st;
}
