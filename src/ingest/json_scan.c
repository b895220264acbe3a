/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A strict JSON scanner (RFC 8259).
 *
 * Texts without escapes are slices of the input; others are unescaped into scratch. Texts have to be UTF-8, escapes of surrogates have to
 * come in pairs, control characters have to be escaped, numbers have no leading zeros. */
#include "ingest/ingest.h"

bool json_fail(struct json_scan *s, const char *problem)
{
    s->problem = problem;
    return false;
}

static bool starved(struct json_scan *s) { return json_fail(s, "the text ends inside of a value"); }

bool json_space(struct json_scan *s, uint8_t *next)
{
    while (s->at < s->size) {
        uint8_t c = s->data[s->at];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') {
            *next = c;
            return true;
        }
        s->at++;
    }
    return starved(s);
}

bool json_take(struct json_scan *s, uint8_t c, const char *problem)
{
    uint8_t next = 0;
    if (!json_space(s, &next)) return false;
    if (next != c) return json_fail(s, problem);
    s->at++;
    return true;
}

bool json_literal(struct json_scan *s, const char *word)
{
    size_t n = strlen(word);
    size_t have = s->size - s->at;
    if (memcmp(s->data + s->at, word, n < have ? n : have) != 0) return json_fail(s, "neither a value nor a literal");
    if (have < n) return starved(s);
    s->at += n;
    return true;
}

/* ------------------------------------------------------------------------------------------------------------- texts */

/* Position of the first quote, backslash or control character at or behind `at`. */
static size_t plain_end(const struct json_scan *s, size_t at)
{
    for (; s->size - at >= 8; at += 8) {
        uint64_t w = load_u64(s->data + at);
        uint64_t ones = 0x0101010101010101u;
        uint64_t high = 0x8080808080808080u;
        uint64_t quote = w ^ ones * '"';
        uint64_t slash = w ^ ones * '\\';
        /* A byte that is zero, or below 0x20, gets its top bit; bytes above 0x7f are masked out. Carries only come from true hits. */
        uint64_t hit = ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((w - ones * 0x20) & ~w);
        if ((hit & high) != 0) break;
    }
    while (at < s->size && s->data[at] != '"' && s->data[at] != '\\' && s->data[at] >= 0x20) at++;
    return at;
}

static bool hex4(struct json_scan *s, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        if (s->at == s->size) return starved(s);
        uint8_t c = s->data[s->at];
        uint32_t digit = c >= '0' && c <= '9'                     ? (uint32_t)(c - '0')
                         : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (uint32_t)((c | 0x20) - 'a' + 10)
                                                                  : 16;
        if (digit == 16) return json_fail(s, "a wrong \\u escape");
        *out = *out << 4 | digit;
    }
    return true;
}

/* \uXXXX behind the u, with its other half; as UTF-8. */
static bool unicode_escape(struct json_scan *s, uint8_t to[4], size_t *n)
{
    uint32_t c = 0;
    uint32_t low = 0;
    if (!hex4(s, &c)) return false;
    if (c >= 0xdc00 && c <= 0xdfff) return json_fail(s, "half of a surrogate pair");
    if (c >= 0xd800 && c <= 0xdbff) {
        if (s->size - s->at < 2) return starved(s);
        if (s->data[s->at] != '\\' || s->data[s->at + 1] != 'u') return json_fail(s, "half of a surrogate pair");
        s->at += 2;
        if (!hex4(s, &low)) return false;
        if (low < 0xdc00 || low > 0xdfff) return json_fail(s, "half of a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    *n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = *n; i-- > 1; c >>= 6) to[i] = (uint8_t)(0x80 | (c & 0x3f));
    to[0] = (uint8_t)(*n == 1 ? c : *n == 2 ? 0xc0 | c : *n == 3 ? 0xe0 | c : 0xf0 | c);
    return true;
}

/* The escape behind a backslash, which is taken; as bytes. */
static bool escape(struct json_scan *s, uint8_t to[4], size_t *n)
{
    static const char from_letter[] = "\"\\/bfnrt";
    static const char to_char[] = "\"\\/\b\f\n\r\t";
    if (s->at == s->size) return starved(s);
    uint8_t c = s->data[s->at];
    s->at++;
    if (c == 'u') return unicode_escape(s, to, n);
    const char *p = c == '\0' ? NULL : strchr(from_letter, c);
    if (p == NULL) return json_fail(s, "an unknown escape");
    to[0] = (uint8_t)to_char[p - from_letter];
    *n = 1;
    return true;
}

/* The rest of a text behind its first plain part, which begins at `start`. */
static bool unescape(struct json_scan *s, size_t start, pennon_status *st, pennon_error *err)
{
    s->scratch->size = 0;
    for (;;) {
        uint8_t bytes[4];
        size_t n = 0;
        size_t end = plain_end(s, start);
        *st = buf_append(s->scratch, s->data + start, end - start, err);
        if (*st != PENNON_OK) return false;
        s->at = end;
        if (end == s->size) return starved(s);
        if (s->data[end] == '"') {
            s->at++;
            return true;
        }
        if (s->data[end] != '\\') return json_fail(s, "a control character in a text");
        s->at++;
        if (!escape(s, bytes, &n)) return false;
        *st = buf_append(s->scratch, bytes, n, err);
        if (*st != PENNON_OK) return false;
        start = s->at;
    }
}

bool json_take_text(struct json_scan *s, struct bytes *out, pennon_status *st, pennon_error *err)
{
    size_t start = s->at + 1;
    size_t end = 0;
    *st = PENNON_OK;
    ASSERT(s->data[s->at] == '"');
    end = plain_end(s, start);
    s->at = end;
    if (end == s->size) return starved(s);
    if (s->data[end] == '"') {
        *out = bytes_of(s->data + start, end - start);
        s->at++;
    } else {
        if (!unescape(s, start, st, err)) return false;
        *out = bytes_of(s->scratch->data, s->scratch->size);
    }
    return utf8_valid(out->data, out->size) || json_fail(s, "a text that is not UTF-8");
}

/* ------------------------------------------------------------------------------------------------------------ numbers */

/* At least one digit. */
static bool digits(struct json_scan *s)
{
    size_t start = s->at;
    while (s->at < s->size && s->data[s->at] >= '0' && s->data[s->at] <= '9') s->at++;
    return s->at > start || json_fail(s, "a number without digits");
}

bool json_number(struct json_scan *s, struct bytes *out, bool *whole)
{
    size_t start = s->at;
    *whole = true;
    if (s->data[s->at] == '-') s->at++;
    if (s->at < s->size && s->data[s->at] == '0') {
        s->at++;
        if (s->at < s->size && s->data[s->at] >= '0' && s->data[s->at] <= '9') return json_fail(s, "a number with a zero in front");
    } else if (!digits(s)) {
        return false;
    }
    if (s->at < s->size && s->data[s->at] == '.') {
        *whole = false;
        s->at++;
        if (!digits(s)) return false;
    }
    if (s->at < s->size && (s->data[s->at] | 0x20) == 'e') {
        *whole = false;
        s->at++;
        if (s->at < s->size && (s->data[s->at] == '+' || s->data[s->at] == '-')) s->at++;
        if (!digits(s)) return false;
    }
    *out = bytes_of(s->data + start, s->at - start);
    return true;
}

/* --------------------------------------------------------------------------------------------------------- any value */

static bool skip_object(struct json_scan *s, unsigned depth, pennon_status *st, pennon_error *err)
{
    uint8_t next = 0;
    struct bytes key;
    s->at++;
    if (!json_space(s, &next)) return false;
    for (bool first = true; first || next == ','; first = false) {
        if (first && next == '}') break;
        if (!first) s->at++;
        if (!json_space(s, &next)) return false;
        if (next != '"') return json_fail(s, "a key in quotes is expected");
        if (!json_take_text(s, &key, st, err) || !json_take(s, ':', "':' is expected")) return false;
        if (!json_skip(s, depth + 1, st, err) || !json_space(s, &next)) return false;
    }
    return json_take(s, '}', "',' or '}' is expected");
}

static bool skip_list(struct json_scan *s, unsigned depth, pennon_status *st, pennon_error *err)
{
    uint8_t next = 0;
    s->at++;
    if (!json_space(s, &next)) return false;
    for (bool first = true; first || next == ','; first = false) {
        if (first && next == ']') break;
        if (!first) s->at++;
        if (!json_skip(s, depth + 1, st, err) || !json_space(s, &next)) return false;
    }
    return json_take(s, ']', "',' or ']' is expected");
}

bool json_skip(struct json_scan *s, unsigned depth, pennon_status *st, pennon_error *err)
{
    uint8_t next = 0;
    struct bytes text;
    bool whole = false;
    *st = PENNON_OK;
    if (depth > JSON_MAX_DEPTH) return json_fail(s, "nested too deeply");
    if (!json_space(s, &next)) return false;
    switch (next) {
    case '{': return skip_object(s, depth, st, err);
    case '[': return skip_list(s, depth, st, err);
    case '"': return json_take_text(s, &text, st, err);
    case 't': return json_literal(s, "true");
    case 'f': return json_literal(s, "false");
    case 'n': return json_literal(s, "null");
    default: break;
    }
    if (next != '-' && (next < '0' || next > '9')) return json_fail(s, "a value is expected");
    return json_number(s, &text, &whole);
}
