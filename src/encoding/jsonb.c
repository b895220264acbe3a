/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* JSONB, big endian:
 *
 *   container  u32 header: type in the top 3 bits (4 object, 8 array, 2 scalar; as nibbles of the first byte), count in the low 29
 *              u32 entries: an element each; objects first all keys, then all values, keys in byte order
 *              payloads in the order of the entries
 *   entry      bits 28-30 type (0 null, 1 string, 2 number, 3 false, 4 true, 5 container), bits 0-27 length of the payload
 *   number     tag: 0x00 zero, 0x10 NaN, 0x20 infinity, 0x30 minus infinity, 0x40 signed, 0x50 unsigned (1, 2, 4, 8 bytes), 0x60 f64,
 *              0x70 decimal (8, 16 or 32 bytes and a scale)
 *
 * A document that is a scalar is a container of kind scalar; its count is 0 and one entry follows all the same.
 * Source: spec file-format 14.3. */
#include "encoding/jsonb.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DEPTH_MAX 128u
#define PAYLOAD_MAX ((size_t)0x0fffffff)

enum { HEAD_SCALAR = 0x20000000, HEAD_OBJECT = 0x40000000 };
#define HEAD_ARRAY 0x80000000u
enum { ENTRY_NULL = 0, ENTRY_STRING = 1, ENTRY_NUMBER = 2, ENTRY_FALSE = 3, ENTRY_TRUE = 4, ENTRY_CONTAINER = 5 };

static uint32_t load_be32(const uint8_t *p) { return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]; }

static uint64_t load_be(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) v = v << 8 | p[i];
    return v;
}

static void store_be(uint8_t *p, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++) p[i] = (uint8_t)(v >> (8 * (n - 1 - i)));
}

/* ---- to text ---- */

static pennon_status put_string(struct buf *out, struct bytes s, pennon_error *err)
{
    TRY_RETURN(buf_append_byte(out, '"', err));
    size_t start = 0;
    for (size_t i = 0; i <= s.size; i++) {
        uint8_t ch = i < s.size ? s.data[i] : 0;
        if (i < s.size && ch >= 0x20 && ch != '"' && ch != '\\') continue;
        if (i > start) TRY_RETURN(buf_append(out, s.data + start, i - start, err));
        start = i + 1;
        if (i == s.size) break;
        switch (ch) {
        case '"': TRY_RETURN(buf_append(out, "\\\"", 2, err)); break;
        case '\\': TRY_RETURN(buf_append(out, "\\\\", 2, err)); break;
        case '\b': TRY_RETURN(buf_append(out, "\\b", 2, err)); break;
        case '\f': TRY_RETURN(buf_append(out, "\\f", 2, err)); break;
        case '\n': TRY_RETURN(buf_append(out, "\\n", 2, err)); break;
        case '\r': TRY_RETURN(buf_append(out, "\\r", 2, err)); break;
        case '\t': TRY_RETURN(buf_append(out, "\\t", 2, err)); break;
        default: TRY_RETURN(buf_printf(out, err, "\\u%04x", ch)); break;
        }
    }
    return buf_append_byte(out, '"', err);
}

/* Shortest digits that read back, as "1.5", "1.0", "1e30". */
static pennon_status put_double(struct buf *out, double v, pennon_error *err)
{
    char text[REAL_TEXT_MAX];
    double back;
    if (!isfinite(v)) return buf_printf(out, err, "null");
    for (int digits = 15; digits <= 17; digits++) {
        size_t n = real_print(v, digits, false, text);
        if (real_parse(bytes_of(text, n), &back) && back == v) break;
    }
    double magnitude = fabs(v);
    if (magnitude != 0 && (magnitude < 1e-5 || magnitude >= 1e16)) {
        /* Scientific, with a sign and without leading zeros. */
        char *e = strchr(text, 'e');
        if (!e) {
            for (int digits = 0; digits <= 16; digits++) {
                size_t n = real_print(v, digits, true, text);
                if (real_parse(bytes_of(text, n), &back) && back == v) break;
            }
            e = strchr(text, 'e');
        }
        long power = strtol(e + 1, NULL, 10);
        return buf_printf(out, err, "%.*se%s%ld", (int)(e - text), text, power < 0 ? "" : "+", power);
    }
    if (strchr(text, 'e')) (void)real_print(v, 17, false, text);
    return buf_printf(out, err, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

/* Decimal of up to 32 bytes: digits of the value with a point `scale` from the right. */
static pennon_status put_decimal(struct buf *out, struct bytes value, unsigned scale, pennon_error *err)
{
    uint8_t digits[80], words[32];
    size_t n = 0, size = value.size;
    memcpy(words, value.data, size);
    bool negative = words[0] & 0x80;
    if (negative) {
        unsigned carry = 1;
        for (size_t i = size; i-- > 0;) {
            unsigned w = (unsigned)(uint8_t)~words[i] + carry;
            words[i] = (uint8_t)w;
            carry = w >> 8;
        }
    }
    bool more = true;
    while (more && n < sizeof digits) {
        unsigned rest = 0;
        more = false;
        for (size_t i = 0; i < size; i++) {
            unsigned w = rest << 8 | words[i];
            words[i] = (uint8_t)(w / 10);
            rest = w % 10;
            more = more || words[i];
        }
        digits[n++] = (uint8_t)('0' + rest);
    }
    CHECK_FILE_RETURN(scale < sizeof digits, "jsonb: decimal of scale %u", scale);
    while (n <= scale && n < sizeof digits) digits[n++] = '0';
    if (negative) TRY_RETURN(buf_append_byte(out, '-', err));
    for (size_t i = n; i-- > 0;) {
        TRY_RETURN(buf_append_byte(out, digits[i], err));
        if (i == scale && scale) TRY_RETURN(buf_append_byte(out, '.', err));
    }
    return PENNON_OK;
}

static pennon_status put_number(struct buf *out, struct bytes n, pennon_error *err)
{
    CHECK_FILE_RETURN(n.size >= 1, "jsonb: number without a tag");
    size_t width = n.size - 1;
    const uint8_t *p = n.data + 1;
    bool word = width == 1 || width == 2 || width == 4 || width == 8;
    uint64_t v = word ? load_be(p, width) : 0;
    switch (n.data[0]) {
    case 0x00: return buf_append_byte(out, '0', err);
    case 0x10:
    case 0x20:
    case 0x30: return buf_printf(out, err, "null");
    case 0x40: {
        CHECK_FILE_RETURN(word, "jsonb: integer of %zu bytes", width);
        unsigned shift = (unsigned)(64 - 8 * width);
        int64_t i = (int64_t)(v << shift) >> shift;
        return buf_printf(out, err, "%" PRId64, i);
    }
    case 0x50: CHECK_FILE_RETURN(word, "jsonb: integer of %zu bytes", width); return buf_printf(out, err, "%" PRIu64, v);
    case 0x60: {
        double d;
        CHECK_FILE_RETURN(width == 8, "jsonb: float of %zu bytes", width);
        memcpy(&d, &v, 8);
        return put_double(out, d, err);
    }
    case 0x70:
        CHECK_FILE_RETURN(width == 9 || width == 17 || width == 33, "jsonb: decimal of %zu bytes", width);
        return put_decimal(out, bytes_of(p, width - 1), p[width - 1], err);
    default: return error_set(err, PENNON_CORRUPT, "jsonb: number of kind %u", n.data[0]);
    }
}

static pennon_status put_container(struct bytes in, struct buf *out, unsigned depth, pennon_error *err);

static pennon_status put_entry(uint32_t entry, struct bytes payload, struct buf *out, unsigned depth, pennon_error *err)
{
    switch (entry >> 28 & 7) {
    case ENTRY_NULL: return buf_append(out, "null", 4, err);
    case ENTRY_STRING: return put_string(out, payload, err);
    case ENTRY_NUMBER: return put_number(out, payload, err);
    case ENTRY_FALSE: return buf_append(out, "false", 5, err);
    case ENTRY_TRUE: return buf_append(out, "true", 4, err);
    case ENTRY_CONTAINER: return put_container(payload, out, depth + 1, err);
    default: return error_set(err, PENNON_CORRUPT, "jsonb: entry of kind %u", entry >> 28 & 7);
    }
}

/* The next payload of `in`. */
static pennon_status next_payload(struct bytes in, size_t *at, uint32_t entry, struct bytes *out, pennon_error *err)
{
    size_t n = entry & PAYLOAD_MAX;
    CHECK_FILE_RETURN(n <= in.size - *at, "jsonb: payload of %zu bytes is cut off", n);
    *out = bytes_of(in.data + *at, n);
    *at += n;
    return PENNON_OK;
}

static pennon_status put_object(struct bytes in, size_t n, struct buf *out, unsigned depth, pennon_error *err)
{
    size_t key_at = 4 + 8 * n, value_at = key_at;
    struct bytes payload;
    for (size_t i = 0; i < n; i++) value_at += load_be32(in.data + 4 + 4 * i) & PAYLOAD_MAX;
    CHECK_FILE_RETURN(value_at <= in.size, "jsonb: keys are cut off");
    TRY_RETURN(buf_append_byte(out, '{', err));
    for (size_t i = 0; i < n; i++) {
        uint32_t key = load_be32(in.data + 4 + 4 * i), value = load_be32(in.data + 4 + 4 * (n + i));
        CHECK_FILE_RETURN((key >> 28 & 7) == ENTRY_STRING, "jsonb: key that is no string");
        if (i) TRY_RETURN(buf_append_byte(out, ',', err));
        TRY_RETURN(next_payload(in, &key_at, key, &payload, err));
        TRY_RETURN(put_string(out, payload, err));
        TRY_RETURN(buf_append_byte(out, ':', err));
        TRY_RETURN(next_payload(in, &value_at, value, &payload, err));
        TRY_RETURN(put_entry(value, payload, out, depth, err));
    }
    return buf_append_byte(out, '}', err);
}

static pennon_status put_container(struct bytes in, struct buf *out, unsigned depth, pennon_error *err)
{
    CHECK_FILE_RETURN(depth <= DEPTH_MAX, "jsonb: nested more than %u deep", DEPTH_MAX);
    CHECK_FILE_RETURN(in.size >= 4, "jsonb: container of %zu bytes", in.size);
    uint32_t head = load_be32(in.data), kind = head & 0xe0000000u;
    size_t n = kind == HEAD_SCALAR ? 1 : head & 0x1fffffff, per = kind == HEAD_OBJECT ? 8 : 4;
    CHECK_FILE_RETURN(n <= (in.size - 4) / per, "jsonb: container of %zu elements in %zu bytes", n, in.size);
    if (kind == HEAD_OBJECT) return put_object(in, n, out, depth, err);
    CHECK_FILE_RETURN(kind == HEAD_SCALAR || kind == HEAD_ARRAY, "jsonb: container of kind %u", head >> 29);
    size_t at = 4 + 4 * n;
    if (kind == HEAD_ARRAY) TRY_RETURN(buf_append_byte(out, '[', err));
    for (size_t i = 0; i < n; i++) {
        uint32_t entry = load_be32(in.data + 4 + 4 * i);
        struct bytes payload;
        if (i) TRY_RETURN(buf_append_byte(out, ',', err));
        TRY_RETURN(next_payload(in, &at, entry, &payload, err));
        TRY_RETURN(put_entry(entry, payload, out, depth, err));
    }
    return kind == HEAD_ARRAY ? buf_append_byte(out, ']', err) : PENNON_OK;
}

pennon_status jsonb_to_text(struct bytes in, struct buf *out, pennon_error *err) { return put_container(in, out, 1, err); }

/* ---- from text ---- */

struct parser {
    const uint8_t *at, *end, *start;
    struct mem *mem;
    pennon_error *err;
};

/* One element that is being built: its entry word and its payload. */
struct element {
    uint32_t entry;
    struct buf payload;
    struct buf key; /* objects */
};

static pennon_status bad(struct parser *p, const char *what)
{
    return error_set(p->err, PENNON_INVALID_ARGUMENT, "JSON: %s at byte %td", what, p->at - p->start);
}

static void skip_space(struct parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')) p->at++;
}

static int hex_of(uint8_t c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool hex4(struct parser *p, uint32_t *out)
{
    *out = 0;
    if (p->end - p->at < 4) return false;
    for (int i = 0; i < 4; i++) {
        int d = hex_of(p->at[i]);
        if (d < 0) return false;
        *out = *out << 4 | (uint32_t)d;
    }
    p->at += 4;
    return true;
}

static pennon_status put_utf8(struct parser *p, struct buf *out, uint32_t c)
{
    uint8_t b[4];
    size_t n;
    if (c < 0x80) {
        b[0] = (uint8_t)c;
        n = 1;
    } else if (c < 0x800) {
        b[0] = (uint8_t)(0xc0 | c >> 6);
        b[1] = (uint8_t)(0x80 | (c & 63));
        n = 2;
    } else if (c < 0x10000) {
        b[0] = (uint8_t)(0xe0 | c >> 12);
        b[1] = (uint8_t)(0x80 | (c >> 6 & 63));
        b[2] = (uint8_t)(0x80 | (c & 63));
        n = 3;
    } else {
        b[0] = (uint8_t)(0xf0 | c >> 18);
        b[1] = (uint8_t)(0x80 | (c >> 12 & 63));
        b[2] = (uint8_t)(0x80 | (c >> 6 & 63));
        b[3] = (uint8_t)(0x80 | (c & 63));
        n = 4;
    }
    return buf_append(out, b, n, p->err);
}

static pennon_status parse_escape(struct parser *p, struct buf *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (p->at == p->end) return bad(p, "string is cut off");
    uint8_t c = *p->at++;
    const char *known = c ? strchr(from, c) : NULL;
    if (known) return buf_append_byte(out, (uint8_t)to[known - from], p->err);
    uint32_t unit, low;
    if (c != 'u' || !hex4(p, &unit)) return bad(p, "bad escape");
    if (unit >= 0xdc00 && unit < 0xe000) return bad(p, "lone surrogate");
    if (unit >= 0xd800 && unit < 0xdc00) {
        if (p->end - p->at < 6 || p->at[0] != '\\' || p->at[1] != 'u') return bad(p, "lone surrogate");
        p->at += 2;
        if (!hex4(p, &low) || low < 0xdc00 || low >= 0xe000) return bad(p, "lone surrogate");
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    }
    return put_utf8(p, out, unit);
}

/* Behind the opening quote. The text is valid UTF-8 already. */
static pennon_status parse_string(struct parser *p, struct buf *out)
{
    for (;;) {
        const uint8_t *run = p->at;
        while (p->at < p->end && *p->at != '"' && *p->at != '\\' && *p->at >= 0x20) p->at++;
        TRY_RETURN(buf_append(out, run, (size_t)(p->at - run), p->err));
        if (p->at == p->end) return bad(p, "string is cut off");
        uint8_t c = *p->at++;
        if (c == '"') return PENNON_OK;
        if (c != '\\') {
            p->at--;
            return bad(p, "control character in a string");
        }
        TRY_RETURN(parse_escape(p, out));
    }
}

static pennon_status put_integer(struct parser *p, struct buf *out, uint64_t v, bool negative)
{
    uint8_t b[9];
    size_t n;
    if (v == 0) {
        b[0] = 0;
        return buf_append(out, b, 1, p->err);
    }
    if (negative) {
        int64_t i = (int64_t)(0 - v);
        n = i >= INT8_MIN ? 1 : i >= INT16_MIN ? 2 : i >= INT32_MIN ? 4 : 8;
        b[0] = 0x40;
        store_be(b + 1, (uint64_t)i, n);
    } else {
        n = v <= UINT8_MAX ? 1 : v <= UINT16_MAX ? 2 : v <= UINT32_MAX ? 4 : 8;
        b[0] = 0x50;
        store_be(b + 1, v, n);
    }
    return buf_append(out, b, n + 1, p->err);
}

static bool digits(struct parser *p)
{
    const uint8_t *start = p->at;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9') p->at++;
    return p->at > start;
}

static pennon_status parse_number(struct parser *p, struct buf *out)
{
    const uint8_t *start = p->at;
    bool negative = *p->at == '-', integer = true;
    p->at += negative;
    const uint8_t *first = p->at;
    if (!digits(p) || (*first == '0' && p->at - first > 1)) return bad(p, "bad number");
    if (p->at < p->end && *p->at == '.') {
        p->at++;
        integer = false;
        if (!digits(p)) return bad(p, "bad number");
    }
    if (p->at < p->end && (*p->at == 'e' || *p->at == 'E')) {
        p->at++;
        integer = false;
        if (p->at < p->end && (*p->at == '+' || *p->at == '-')) p->at++;
        if (!digits(p)) return bad(p, "bad number");
    }
    uint64_t v = 0;
    for (const uint8_t *d = first; integer && d < p->at; d++) {
        if (mul_overflows(v, 10, &v) || add_overflows(v, (uint64_t)(*d - '0'), &v)) integer = false;
    }
    if (integer && (!negative || v <= (uint64_t)1 << 63)) return put_integer(p, out, v, negative);
    double value;
    if (!real_parse(bytes_of(start, (size_t)(p->at - start)), &value)) return bad(p, "bad number");
    if (!isfinite(value)) return bad(p, "number out of range");
    uint8_t b[9] = {0x60};
    uint64_t bits;
    memcpy(&bits, &value, 8);
    store_be(b + 1, bits, 8);
    return buf_append(out, b, 9, p->err);
}

static pennon_status parse_element(struct parser *p, unsigned depth, struct element *out);

static int by_key(const void *a, const void *b)
{
    const struct element *x = a, *y = b;
    size_t n = x->key.size < y->key.size ? x->key.size : y->key.size;
    int order = n ? memcmp(x->key.data, y->key.data, n) : 0;
    return order ? order : x->key.size < y->key.size ? -1 : x->key.size > y->key.size;
}

static pennon_status put_word(struct parser *p, struct buf *out, uint32_t word)
{
    uint8_t b[4];
    store_be(b, word, 4);
    return buf_append(out, b, 4, p->err);
}

/* Header, entries and payloads of collected elements. */
static pennon_status build(struct parser *p, struct element *items, size_t n, bool object, struct buf *out)
{
    if (n > 0x1fffffff) return bad(p, "too many elements");
    if (object) {
        if (n > 1) qsort(items, n, sizeof *items, by_key);
        for (size_t i = 1; i < n; i++) {
            if (by_key(&items[i - 1], &items[i]) == 0) {
                return error_set(p->err, PENNON_INVALID_ARGUMENT, "JSON: key '%.*s' occurs twice in one object",
                                 (int)min_u64(items[i].key.size, 100), (const char *)items[i].key.data);
            }
        }
    }
    TRY_RETURN(put_word(p, out, (object ? (uint32_t)HEAD_OBJECT : HEAD_ARRAY) | (uint32_t)n));
    for (size_t i = 0; object && i < n; i++)
        TRY_RETURN(put_word(p, out, (uint32_t)ENTRY_STRING << 28 | (uint32_t)items[i].key.size));
    for (size_t i = 0; i < n; i++) TRY_RETURN(put_word(p, out, items[i].entry));
    for (size_t i = 0; object && i < n; i++) TRY_RETURN(buf_append(out, items[i].key.data, items[i].key.size, p->err));
    for (size_t i = 0; i < n; i++) TRY_RETURN(buf_append(out, items[i].payload.data, items[i].payload.size, p->err));
    return PENNON_OK;
}

static void element_init(struct parser *p, struct element *e)
{
    buf_init(&e->payload, p->mem, PAYLOAD_MAX);
    buf_init(&e->key, p->mem, PAYLOAD_MAX);
    e->entry = 0;
}

static pennon_status parse_member(struct parser *p, bool object, unsigned depth, struct element *e)
{
    skip_space(p);
    if (object) {
        if (p->at == p->end || *p->at != '"') return bad(p, "a key was expected");
        p->at++;
        TRY_RETURN(parse_string(p, &e->key));
        skip_space(p);
        if (p->at == p->end || *p->at != ':') return bad(p, "':' was expected");
        p->at++;
    }
    return parse_element(p, depth + 1, e);
}

/* Behind the opening bracket. */
static pennon_status parse_container(struct parser *p, bool object, unsigned depth, struct buf *out)
{
    pennon_status st = PENNON_OK;
    struct element *items = NULL;
    size_t n = 0, cap = 0;
    uint8_t close = object ? '}' : ']';
    if (depth > DEPTH_MAX) return bad(p, "nested too deep");
    skip_space(p);
    bool empty = p->at < p->end && *p->at == close;
    if (empty) p->at++;
    while (!empty) {
        TRY(mem_grow(p->mem, &items, &cap, n, sizeof *items, (size_t)1 << 28, p->err));
        element_init(p, &items[n++]);
        TRY(parse_member(p, object, depth, &items[n - 1]));
        skip_space(p);
        if (p->at == p->end) {
            st = bad(p, "container is cut off");
            goto done;
        }
        uint8_t c = *p->at++;
        if (c == close) break;
        if (c != ',') {
            p->at--;
            st = bad(p, "',' was expected");
            goto done;
        }
    }
    st = build(p, items, n, object, out);
done:
    for (size_t i = 0; i < n; i++) {
        buf_free(&items[i].payload);
        buf_free(&items[i].key);
    }
    mem_free(p->mem, items);
    return st;
}

static bool take_word(struct parser *p, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0) return false;
    p->at += n;
    return true;
}

static pennon_status parse_element(struct parser *p, unsigned depth, struct element *out)
{
    uint32_t kind;
    skip_space(p);
    if (p->at == p->end) return bad(p, "a value was expected");
    switch (*p->at) {
    case '{':
    case '[': {
        bool object = *p->at++ == '{';
        TRY_RETURN(parse_container(p, object, depth, &out->payload));
        kind = ENTRY_CONTAINER;
        break;
    }
    case '"':
        p->at++;
        TRY_RETURN(parse_string(p, &out->payload));
        kind = ENTRY_STRING;
        break;
    case 'n':
        if (!take_word(p, "null")) return bad(p, "unknown word");
        kind = ENTRY_NULL;
        break;
    case 't':
        if (!take_word(p, "true")) return bad(p, "unknown word");
        kind = ENTRY_TRUE;
        break;
    case 'f':
        if (!take_word(p, "false")) return bad(p, "unknown word");
        kind = ENTRY_FALSE;
        break;
    default:
        if (*p->at != '-' && (*p->at < '0' || *p->at > '9')) return bad(p, "a value was expected");
        TRY_RETURN(parse_number(p, &out->payload));
        kind = ENTRY_NUMBER;
        break;
    }
    out->entry = kind << 28 | (uint32_t)out->payload.size;
    return PENNON_OK;
}

pennon_status jsonb_from_text(struct bytes text, struct mem *mem, struct buf *out, pennon_error *err)
{
    struct parser p = {text.data, text.data + text.size, text.data, mem, err};
    struct element top;
    element_init(&p, &top);
    pennon_status st = parse_element(&p, 1, &top);
    skip_space(&p);
    if (st == PENNON_OK && p.at != p.end) st = bad(&p, "text behind the value");
    if (st == PENNON_OK && top.entry >> 28 != ENTRY_CONTAINER) {
        st = put_word(&p, out, HEAD_SCALAR);
        if (st == PENNON_OK) st = put_word(&p, out, top.entry);
    }
    if (st == PENNON_OK) st = buf_append(out, top.payload.data, top.payload.size, err);
    buf_free(&top.payload);
    buf_free(&top.key);
    return st;
}
